// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Life of the UD QP and its CQs: created in RESET, RTS while the interface is up. */
#include "ipoib.h"

#define IPOIB_QP_DETACH_TRIES	3

/* Spreads the CQs of all interfaces over the HCA's completion vectors. */
static atomic_t ipoib_qp_next_vector;

static int ipoib_qp_vector(const struct ib_device *ca)
{
	unsigned int n = atomic_inc_return(&ipoib_qp_next_vector);

	return n % max(ca->num_comp_vectors, 1);
}

static void ipoib_qp_recv_comp(struct ib_cq *cq, void *context)
{
	struct ipoib_netdev *priv = context;

	ipoib_napi_kick(&priv->ud.recv_napi);
}

static void ipoib_qp_send_comp(struct ib_cq *cq, void *context)
{
	struct ipoib_netdev *priv = context;

	ipoib_napi_kick(&priv->ud.send_napi);
}

static void ipoib_qp_cq_event(struct ib_event *event, void *context)
{
	struct ipoib_netdev *priv = context;

	ipoib_warn(priv, "completion queue: %s\n", ib_event_msg(event->event));
}

static void ipoib_qp_event(struct ib_event *event, void *context)
{
	struct ipoib_netdev *priv = context;

	ipoib_warn(priv, "datagram QP: %s\n", ib_event_msg(event->event));
	if (ipoib_is_open(priv))
		queue_work(priv->wq, &priv->ud.recover_work);
}

/* A QP in the send-error state sends again; any worse state takes a restart. */
static int ipoib_qp_recover(struct ipoib_netdev *priv)
{
	struct ib_qp_attr attr = {};
	struct ib_qp_init_attr init;
	int err;

	err = ib_query_qp(priv->ud.qp, &attr, IB_QP_STATE, &init);
	if (err)
		return err;
	if (attr.qp_state == IB_QPS_RTS)
		return 0;
	if (attr.qp_state != IB_QPS_SQE)
		return -EIO;
	attr.qp_state = IB_QPS_RTS;
	attr.cur_qp_state = IB_QPS_SQE;
	return ib_modify_qp(priv->ud.qp, &attr, IB_QP_STATE | IB_QP_CUR_STATE);
}

/**
 * ipoib_qp_recover_work() - bring the UD QP back from an error state
 * @work: &struct ipoib_ud.recover_work
 *
 * Queued when a send failed or the HCA reported an error of the QP.
 */
void ipoib_qp_recover_work(struct work_struct *work)
{
	struct ipoib_ud *ud = container_of(work, struct ipoib_ud, recover_work);
	struct ipoib_netdev *priv = container_of(ud, struct ipoib_netdev, ud);
	int err;

	if (!ipoib_is_open(priv) || READ_ONCE(ud->flushing))
		return;
	err = ipoib_qp_recover(priv);
	if (!err)
		return;
	ipoib_warn(priv, "datagram QP is in error (%d), restarting\n", err);
	ipoib_restart_async(priv);
}

static u32 ipoib_qp_create_flags(const struct ib_device *ca)
{
	u32 flags = 0;

	if (ca->attrs.kernel_cap_flags & IBK_BLOCK_MULTICAST_LOOPBACK)
		flags |= IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK;
	if (ca->attrs.kernel_cap_flags & IBK_UD_TSO)
		flags |= IB_QP_CREATE_IPOIB_UD_LSO;
	if (ca->attrs.device_cap_flags & IB_DEVICE_MANAGED_FLOW_STEERING)
		flags |= IB_QP_CREATE_NETIF_QP;
	if (ca->attrs.kernel_cap_flags & IBK_RDMA_NETDEV_OPA)
		flags |= IB_QP_CREATE_NETDEV_USE;
	return flags;
}

static struct ib_cq *ipoib_qp_create_cq(struct ipoib_netdev *priv,
					ib_comp_handler comp, unsigned int cqe)
{
	struct ib_device *ca = priv->port->ca;
	struct ib_cq_init_attr attr = {
		.cqe = cqe,
		.comp_vector = ipoib_qp_vector(ca),
	};

	return ib_create_cq(ca, comp, ipoib_qp_cq_event, priv, &attr);
}

static int ipoib_qp_create_cqs(struct ipoib_netdev *priv)
{
	struct ipoib_ud *ud = &priv->ud;

	ud->recv_cq = ipoib_qp_create_cq(priv, ipoib_qp_recv_comp,
					 ud->rx_size + 1);
	if (IS_ERR(ud->recv_cq))
		return PTR_ERR(ud->recv_cq);
	ud->send_cq = ipoib_qp_create_cq(priv, ipoib_qp_send_comp,
					 ud->tx_size + 1);
	if (IS_ERR(ud->send_cq)) {
		ib_destroy_cq(ud->recv_cq);
		return PTR_ERR(ud->send_cq);
	}
	return 0;
}

/**
 * ipoib_qp_create() - make the UD QP and its CQs
 * @priv: the interface; ring sizes are set
 *
 * Context: process context.
 * Return: 0 or a negative error.
 */
int ipoib_qp_create(struct ipoib_netdev *priv)
{
	struct ib_device *ca = priv->port->ca;
	struct ipoib_ud *ud = &priv->ud;
	struct ib_qp_init_attr init = {
		.event_handler = ipoib_qp_event,
		.qp_context = priv,
		.cap = {
			.max_send_wr = ud->tx_size,
			.max_recv_wr = ud->rx_size,
			.max_recv_sge = ud->head_len < ud->buf_len ?
					IPOIB_UD_RX_SGE : 1,
		},
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_UD,
		.create_flags = ipoib_qp_create_flags(ca),
	};
	struct ib_qp *qp;
	int err;

	err = ipoib_qp_create_cqs(priv);
	if (err)
		return err;
	init.send_cq = ud->send_cq;
	init.recv_cq = ud->recv_cq;
	init.cap.max_send_sge = clamp_t(u32, ca->attrs.max_send_sge, 1,
					MAX_SKB_FRAGS + 1);
	qp = ib_create_qp(priv->port->pd, &init);
	if (IS_ERR(qp)) {
		ib_destroy_cq(ud->send_cq);
		ib_destroy_cq(ud->recv_cq);
		return PTR_ERR(qp);
	}
	ud->qp = qp;
	ud->max_send_sge = min_t(u32, init.cap.max_send_sge, MAX_SKB_FRAGS + 1);
	return 0;
}

/**
 * ipoib_qp_destroy() - destroy the UD QP and its CQs
 * @priv: the interface; the QP is in RESET, or stuck
 *
 * Context: process context.
 * Return: 0, or an error if the HCA kept any; what they name must be kept too.
 */
int ipoib_qp_destroy(struct ipoib_netdev *priv)
{
	struct ipoib_ud *ud = &priv->ud;
	int err;

	err = ib_destroy_qp(ud->qp);
	if (err)
		return err;
	ud->qp = NULL;
	err = ib_destroy_cq_user(ud->send_cq, NULL);
	return ib_destroy_cq_user(ud->recv_cq, NULL) ?: err;
}

/**
 * ipoib_qp_to_rts() - take the QP from RESET to RTS
 * @priv: the interface; its P_Key index is valid
 *
 * Context: process context.
 * Return: 0, or an error; the QP is then in RESET again if the HCA allows.
 */
int ipoib_qp_to_rts(struct ipoib_netdev *priv)
{
	struct ib_qp *qp = priv->ud.qp;
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.pkey_index = priv->pkey_index,
		.port_num = priv->port->num,
		.qkey = priv->qkey,
	};
	int err;

	err = ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX |
			   IB_QP_PORT | IB_QP_QKEY);
	if (err)
		return err;
	attr.qp_state = IB_QPS_RTR;
	err = ib_modify_qp(qp, &attr, IB_QP_STATE);
	if (err)
		goto err_reset;
	attr.qp_state = IB_QPS_RTS;
	attr.sq_psn = 0;
	err = ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_SQ_PSN);
	if (err)
		goto err_reset;
	return 0;

err_reset:
	ipoib_qp_to_reset(priv);
	return err;
}

static int ipoib_qp_to_state(struct ipoib_netdev *priv, enum ib_qp_state state)
{
	struct ib_qp_attr attr = { .qp_state = state };

	return ib_modify_qp(priv->ud.qp, &attr, IB_QP_STATE);
}

/**
 * ipoib_qp_to_reset() - take the QP back from the HCA
 * @priv: the interface
 *
 * Context: process context.
 * Return: 0: the HCA owns no buffer of it any more; or an error.
 */
int ipoib_qp_to_reset(struct ipoib_netdev *priv)
{
	return ipoib_qp_to_state(priv, IB_QPS_RESET);
}

/**
 * ipoib_qp_to_error() - let every WR of the QP flush
 * @priv: the interface
 *
 * Context: process context.
 * Return: 0 or a negative error.
 */
int ipoib_qp_to_error(struct ipoib_netdev *priv)
{
	return ipoib_qp_to_state(priv, IB_QPS_ERR);
}

/**
 * ipoib_qp_set_qkey() - receive with another Q_Key
 * @priv: the interface; its QP is in RTS
 * @qkey: Q_Key of the broadcast group
 *
 * Context: process context.
 * Return: 0 or a negative error.
 */
int ipoib_qp_set_qkey(struct ipoib_netdev *priv, u32 qkey)
{
	struct ib_qp_attr attr = { .qkey = qkey };

	return ib_modify_qp(priv->ud.qp, &attr, IB_QP_QKEY);
}

/**
 * ipoib_qp_attach() - receive packets of a multicast group
 * @priv: the interface
 * @mgid: the group
 * @mlid: its LID
 *
 * Context: process context.
 * Return: 0 or a negative error.
 */
int ipoib_qp_attach(struct ipoib_netdev *priv, const union ib_gid *mgid, u16 mlid)
{
	union ib_gid gid = *mgid;

	return ib_attach_mcast(priv->ud.qp, &gid, mlid);
}

/**
 * ipoib_qp_detach() - undo ipoib_qp_attach()
 * @priv: the interface
 * @mgid: the group
 * @mlid: its LID
 *
 * Context: process context.
 * Return: 0 or a negative error.
 */
int ipoib_qp_detach(struct ipoib_netdev *priv, const union ib_gid *mgid, u16 mlid)
{
	unsigned int tries = IPOIB_QP_DETACH_TRIES;
	union ib_gid gid = *mgid;
	int err;

	/* A QP that is still attached can not be destroyed. */
	do {
		err = ib_detach_mcast(priv->ud.qp, &gid, mlid);
	} while (err && --tries && !READ_ONCE(priv->port->dead));
	return err;
}
