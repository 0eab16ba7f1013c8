// SPDX-License-Identifier: GPL-2.0-only
/*
 * Moving queue pairs between states.
 */
#include <linux/slab.h>

#include "softib.h"
#include "softib_obj.h"

/* Which failure knob, besides fail_modify_qp, belongs to a target state. */
static bool softib_modify_fails(struct softib_port *port,
				const struct ib_qp_attr *attr, int mask)
{
	static const enum softib_knob by_state[] = {
		[IB_QPS_RESET] = SOFTIB_K_fail_modify_reset,
		[IB_QPS_INIT] = SOFTIB_K_fail_modify_init,
		[IB_QPS_RTR] = SOFTIB_K_fail_modify_rtr,
		[IB_QPS_RTS] = SOFTIB_K_fail_modify_rts,
		[IB_QPS_SQD] = SOFTIB_K_fail_modify_sqd,
		[IB_QPS_ERR] = SOFTIB_K_fail_modify_err,
	};
	enum softib_knob k = 0;	/* none of these is the first knob */

	if (softib_fail(port, SOFTIB_K_fail_modify_qp))
		return true;
	if (mask & IB_QP_STATE && attr->qp_state < ARRAY_SIZE(by_state))
		k = by_state[attr->qp_state];
	return k && softib_fail(port, k);
}

static int softib_lower_attr(struct softib_qp *qp, const struct ib_qp_attr *attr,
			     int *mask, struct ib_qp_attr *low)
{
	struct softib_dev *sdev = qp->sdev;
	s64 retry = softib_knob(sdev->port, SOFTIB_K_min_retry_cnt);
	u16 pkey = qp->pkey;

	*low = *attr;
	*mask &= ~(IB_QP_ALT_PATH | IB_QP_PATH_MIG_STATE);
	low->pkey_index = 0;
	low->port_num = 1;
	if (*mask & IB_QP_PKEY_INDEX)
		pkey = softib_pkey_get(sdev->port, attr->pkey_index);
	if (*mask & IB_QP_QKEY)
		low->qkey = softib_wire_qkey(attr->qkey, pkey, false);
	if (*mask & IB_QP_RQ_PSN)
		low->rq_psn = softib_wire_psn(attr->rq_psn, pkey, true);
	if (*mask & IB_QP_SQ_PSN && qp->ib.qp_type != IB_QPT_UD)
		low->sq_psn = softib_wire_psn(attr->sq_psn, qp->wire_pkey,
					      true);
	if (*mask & IB_QP_RETRY_CNT && attr->retry_cnt < retry)
		low->retry_cnt = retry;
	if (*mask & IB_QP_PATH_MTU && attr->path_mtu > sdev->max_mtu)
		return -EINVAL;
	if (*mask & IB_QP_AV)
		return softib_lower_av(sdev, &attr->ah_attr, &low->ah_attr);
	return 0;
}

static void softib_remember_av(struct softib_qp *qp,
			       const struct ib_qp_attr *attr)
{
	qp->av = attr->ah_attr;
	qp->av.grh.sgid_attr = NULL;
}

/* Keep what the user set, to answer query_qp and to translate later. */
static void softib_remember(struct softib_qp *qp, const struct ib_qp_attr *attr,
			    int mask)
{
	struct ib_qp_attr *own = &qp->attr;

	if (mask & IB_QP_STATE)
		own->qp_state = attr->qp_state;
	if (mask & IB_QP_PKEY_INDEX) {
		own->pkey_index = attr->pkey_index;
		qp->pkey = softib_pkey_get(qp->sdev->port, attr->pkey_index);
	}
	if (mask & IB_QP_QKEY)
		own->qkey = attr->qkey;
	if (mask & IB_QP_PATH_MTU)
		own->path_mtu = attr->path_mtu;
	if (mask & IB_QP_RETRY_CNT)
		own->retry_cnt = attr->retry_cnt;
	if (mask & IB_QP_DEST_QPN)
		own->dest_qp_num = attr->dest_qp_num;
	if (mask & IB_QP_AV)
		softib_remember_av(qp, attr);
	if (mask & IB_QP_RQ_PSN) {
		qp->wire_pkey = qp->pkey;
		softib_part_update(qp);
		qp->psn_start = softib_wire_psn(attr->rq_psn, qp->pkey, true);
		qp->pkts_done = 0;
		qp->rx_error = false;
	}
}

/* What follows from having reached a state. */
static void softib_moved(struct softib_qp *qp, enum ib_qp_state state)
{
	switch (state) {
	case IB_QPS_RTR:
		softib_event_early(qp);
		break;
	case IB_QPS_ERR:
		softib_event_error(qp);
		softib_event_modified(qp);
		break;
	case IB_QPS_RESET:
		softib_event_reset(qp);
		softib_cq_purge(to_scq(qp->ib.send_cq), qp);
		softib_cq_purge(to_scq(qp->ib.recv_cq), qp);
		softib_sq_reset(&qp->sq);
		if (!qp->rq->shared)
			softib_rq_reset(qp->rq);
		break;
	default:
		break;
	}
}

static int softib_modify_mad(struct softib_qp *qp, struct ib_qp_attr *attr,
			     int mask)
{
	enum ib_qp_state cur = mask & IB_QP_CUR_STATE ? attr->cur_qp_state :
							qp->attr.qp_state;
	enum ib_qp_state next = mask & IB_QP_STATE ? attr->qp_state : cur;

	if (!ib_modify_qp_is_ok(cur, next, qp->ib.qp_type, mask))
		return -EINVAL;
	softib_remember(qp, attr, mask);
	return 0;
}

int softib_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		     struct ib_udata *udata)
{
	struct softib_qp *qp = to_sqp(ibqp);
	struct softib_dev *sdev = qp->sdev;
	struct ib_qp_attr low;
	int low_mask = mask;
	int ret;

	softib_fw_cmd(sdev->port);
	if (softib_dead(sdev->port) ||
	    softib_modify_fails(sdev->port, attr, mask))
		return -EIO;
	if (mask & IB_QP_PKEY_INDEX && attr->pkey_index >= SOFTIB_PKEY_LEN)
		return -EINVAL;
	if (!qp->lower)
		return softib_modify_mad(qp, attr, mask);

	/* What it has begun to receive is not to be seen by anyone any more. */
	if (mask & IB_QP_STATE && attr->qp_state == IB_QPS_RESET) {
		softib_event_exit(qp);
		softib_event_abandon(qp);
	}
	mutex_lock(&sdev->qp_lock);
	ret = softib_lower_attr(qp, attr, &low_mask, &low);
	if (!ret)
		ret = ib_modify_qp(qp->lower, &low, low_mask);
	if (!ret)
		softib_remember(qp, attr, mask);
	mutex_unlock(&sdev->qp_lock);
	if (!ret && mask & IB_QP_STATE)
		softib_moved(qp, attr->qp_state);
	if (mask & IB_QP_STATE && attr->qp_state == IB_QPS_RESET)
		softib_event_stay(qp);
	return ret;
}

int softib_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		    struct ib_qp_init_attr *init)
{
	struct softib_qp *qp = to_sqp(ibqp);
	int ret;

	softib_fw_cmd(qp->sdev->port);
	if (softib_dead(qp->sdev->port) ||
	    softib_fail(qp->sdev->port, SOFTIB_K_fail_query_qp))
		return -EIO;
	if (!qp->lower) {
		*attr = qp->attr;
		*init = qp->init;
		return 0;
	}
	ret = ib_query_qp(qp->lower, attr, mask, init);
	if (ret)
		return ret;
	attr->cur_qp_state = attr->qp_state;	/* which 6.1 does not keep */
	attr->pkey_index = qp->attr.pkey_index;
	attr->qkey = qp->attr.qkey;
	attr->retry_cnt = qp->attr.retry_cnt;
	attr->ah_attr = qp->av;
	attr->port_num = SOFTIB_PORT_NUM;
	attr->rq_psn = softib_wire_psn(attr->rq_psn, qp->wire_pkey, false);
	if (ibqp->qp_type != IB_QPT_UD)
		attr->sq_psn = softib_wire_psn(attr->sq_psn, qp->wire_pkey,
					       false);
	*init = qp->init;
	return 0;
}

/**
 * softib_qp_pkey_changed - an entry of the P_Key table has a new value
 * @sdev: the device
 * @index: the entry
 *
 * QPs change their partition at once, as on hardware. What has been connected
 * already is filtered on the wire, see softib_part.c.
 * Context: process; takes sdev->qp_lock.
 */
void softib_qp_pkey_changed(struct softib_dev *sdev, u16 index)
{
	struct ib_qp_attr attr;
	struct softib_qp *qp;

	mutex_lock(&sdev->qp_lock);
	list_for_each_entry(qp, &sdev->qps, node) {
		if (!qp->lower || qp->attr.pkey_index != index ||
		    qp->attr.qp_state == IB_QPS_RESET)
			continue;
		qp->pkey = softib_pkey_get(sdev->port, index);
		if (qp->ib.qp_type != IB_QPT_UD) {
			if (qp->attr.qp_state >= IB_QPS_RTR)
				softib_part_update(qp);
			continue;
		}
		attr.qkey = softib_wire_qkey(qp->attr.qkey, qp->pkey, false);
		if (ib_modify_qp(qp->lower, &attr, IB_QP_QKEY))
			pr_warn("softib: QP 0x%x keeps its old P_Key\n",
				qp->ib.qp_num);
	}
	mutex_unlock(&sdev->qp_lock);
}
