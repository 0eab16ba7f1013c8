// SPDX-License-Identifier: GPL-2.0-only
/*
 * Queue pairs: creation, destruction, sends.
 */
#include <linux/log2.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "softib.h"
#include "softib_obj.h"

#define SOFTIB_SEND_BATCH	4

/* A lower send WR of any kind. */
union softib_lower_wr {
	struct ib_send_wr wr;
	struct ib_ud_wr ud;
	struct ib_rdma_wr rdma;
	struct ib_atomic_wr atomic;
};

static bool softib_is_mad_qp(enum ib_qp_type type)
{
	return type == IB_QPT_SMI || type == IB_QPT_GSI;
}

static int softib_sq_init(struct softib_sq *sq, unsigned int max_wr)
{
	spin_lock_init(&sq->lock);
	sq->max_wr = max_t(unsigned int, max_wr, 1);
	/* Room for WRs which are done but whose completions wait in the CQ. */
	sq->size = roundup_pow_of_two(2 * max_wr + 2);
	sq->ring = kvcalloc(sq->size, sizeof(*sq->ring), GFP_KERNEL);
	return sq->ring ? 0 : -ENOMEM;
}

/**
 * softib_sq_reset - forget the sends that are not done
 * @sq: the queue of a QP that is in RESET and has no completions in its CQs
 *
 * Context: process; takes sq->lock.
 */
void softib_sq_reset(struct softib_sq *sq)
{
	spin_lock_irq(&sq->lock);
	for (; sq->tail != sq->head; sq->tail++) {
		struct softib_send *s = &sq->ring[sq->tail & (sq->size - 1)];

		if (s->lah)
			softib_lah_put(s->lah);
	}
	spin_unlock_irq(&sq->lock);
}

static void softib_sq_exit(struct softib_sq *sq)
{
	softib_sq_reset(sq);
	kvfree(sq->ring);
}

/* The sizes which rxe grants become the sizes which the user sees. */
static int softib_create_lower(struct softib_qp *qp,
			       struct ib_qp_init_attr *init)
{
	struct ib_qp_init_attr low = {
		.event_handler = softib_event_lower,
		.qp_context = qp,
		.send_cq = to_scq(init->send_cq)->lower,
		.recv_cq = to_scq(init->recv_cq)->lower,
		.srq = init->srq ? to_ssrq(init->srq)->lower : NULL,
		.cap = init->cap,
		.sq_sig_type = init->sq_sig_type,
		.qp_type = init->qp_type,
		.port_num = 1,
	};

	if (!low.cap.max_send_wr)
		low.cap.max_send_wr = 1;
	if (!low.cap.max_send_sge)
		low.cap.max_send_sge = 1;
	qp->lower = ib_create_qp(to_spd(qp->ib.pd)->lower, &low);
	if (IS_ERR(qp->lower)) {
		int ret = PTR_ERR(qp->lower);

		qp->lower = NULL;
		return ret;
	}
	init->cap.max_send_wr = low.cap.max_send_wr;
	init->cap.max_inline_data = low.cap.max_inline_data;
	qp->ib.qp_num = qp->lower->qp_num;
	return 0;
}

static int softib_check_init(struct softib_dev *sdev,
			     const struct ib_qp_init_attr *init)
{
	const struct ib_device_attr *attr = &sdev->ib.attrs;

	switch (init->qp_type) {
	case IB_QPT_SMI:
	case IB_QPT_GSI:
	case IB_QPT_RC:
	case IB_QPT_UC:
	case IB_QPT_UD:
		break;
	default:
		return -EOPNOTSUPP;
	}
	if (!init->send_cq || !init->recv_cq)
		return -EINVAL;
	if (init->cap.max_send_sge > attr->max_send_sge ||
	    init->cap.max_recv_sge > attr->max_recv_sge)
		return -EINVAL;
	if (softib_dead(sdev->port))
		return -EIO;
	return softib_fail(sdev->port, SOFTIB_K_fail_create_qp) ? -ENOMEM : 0;
}

static void softib_qp_init(struct softib_qp *qp, struct softib_dev *sdev,
			   struct ib_qp_init_attr *init)
{
	qp->sdev = sdev;
	qp->init = *init;
	qp->attr.qp_state = IB_QPS_RESET;
	qp->attr.path_mtu = IB_MTU_256;
	softib_event_init(qp);
}

static int softib_qp_queues(struct softib_qp *qp, struct ib_qp_init_attr *init)
{
	int ret;

	if (init->srq) {
		qp->rq = &to_ssrq(init->srq)->rq;
	} else {
		qp->rq = &qp->own_rq;
		ret = softib_rq_init(qp->rq, qp->sdev->port,
				     init->cap.max_recv_wr,
				     init->cap.max_recv_sge, false);
		if (ret)
			return ret;
	}
	if (softib_is_mad_qp(init->qp_type)) {
		qp->ib.qp_num = init->qp_type == IB_QPT_GSI;
		WRITE_ONCE(to_scq(init->send_cq)->mads, true);
		WRITE_ONCE(to_scq(init->recv_cq)->mads, true);
		ret = softib_mad_attach(qp->sdev, qp);
	} else {
		ret = softib_create_lower(qp, init);
	}
	if (ret)
		goto err_rq;
	ret = softib_sq_init(&qp->sq, init->cap.max_send_wr);
	if (ret)
		goto err_lower;
	return 0;

err_lower:
	if (qp->lower)
		ib_destroy_qp(qp->lower);
	else
		softib_mad_detach(qp->sdev, qp);
err_rq:
	softib_rq_exit(&qp->own_rq);
	return ret;
}

int softib_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init,
		     struct ib_udata *udata)
{
	struct softib_dev *sdev = to_sdev(ibqp->device);
	struct softib_qp *qp = to_sqp(ibqp);
	int ret;

	if (udata)
		return -EOPNOTSUPP;
	ret = softib_check_init(sdev, init);
	if (ret)
		return ret;
	softib_fw_cmd(sdev->port);
	softib_qp_init(qp, sdev, init);
	ret = softib_qp_queues(qp, init);
	if (ret)
		return ret;
	qp->init.cap = init->cap;
	WRITE_ONCE(to_scq(init->recv_cq)->recvs, true);
	mutex_lock(&sdev->qp_lock);
	list_add_tail(&qp->node, &sdev->qps);
	mutex_unlock(&sdev->qp_lock);
	softib_part_add(qp);
	softib_count(sdev->port, SOFTIB_C_qps, 1);
	return 0;
}

/*
 * rxe leaves the completions of a QP that it destroys in the CQ, where their
 * QP pointers dangle. So: no more completions, take out what there is, then
 * destroy.
 */
static int softib_destroy_lower(struct softib_qp *qp)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RESET };
	struct softib_cq *scq = to_scq(qp->ib.send_cq);
	struct softib_cq *rcq = to_scq(qp->ib.recv_cq);
	int ret;

	ret = ib_modify_qp(qp->lower, &attr, IB_QP_STATE);
	if (ret)
		return ret;
	softib_cq_purge(scq, qp);
	if (rcq != scq)
		softib_cq_purge(rcq, qp);
	return ib_destroy_qp(qp->lower);
}

/* A destroy that the knobs single out takes long, or until it is let go. */
static void softib_destroy_blocks(struct softib_port *port)
{
	s64 ms = softib_knob(port, SOFTIB_K_destroy_qp_ms);

	if (!ms && !softib_knob(port, SOFTIB_K_destroy_qp_hold))
		return;
	if (!softib_take(port, SOFTIB_K_destroy_qp_n))
		return;
	softib_count(port, SOFTIB_C_destroys_held, 1);
	schedule_timeout_uninterruptible(msecs_to_jiffies(ms));
	wait_event(port->hold, !softib_knob(port, SOFTIB_K_destroy_qp_hold));
	softib_count(port, SOFTIB_C_destroys_held, -1);
}

int softib_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct softib_qp *qp = to_sqp(ibqp);
	struct softib_dev *sdev = qp->sdev;
	int ret;

	softib_fw_cmd(sdev->port);
	if (softib_fail(sdev->port, SOFTIB_K_fail_destroy_qp))
		return -EIO;
	if (qp->lower)
		softib_destroy_blocks(sdev->port);
	softib_event_destroy(qp);
	if (qp->lower) {
		softib_event_exit(qp);
		softib_event_abandon(qp);
		ret = softib_destroy_lower(qp);
		if (ret) {
			softib_event_stay(qp);
			return ret;
		}
	} else {
		softib_mad_detach(sdev, qp);
		softib_cq_purge(to_scq(ibqp->send_cq), qp);
		softib_cq_purge(to_scq(ibqp->recv_cq), qp);
	}
	softib_part_del(qp);
	mutex_lock(&sdev->qp_lock);
	list_del(&qp->node);
	mutex_unlock(&sdev->qp_lock);
	softib_sq_exit(&qp->sq);
	softib_rq_exit(&qp->own_rq);
	softib_count(sdev->port, SOFTIB_C_qps, -1);
	return 0;
}

static u32 softib_wr_length(const struct ib_send_wr *wr)
{
	u32 n = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++)
		n += wr->sg_list[i].length;
	return n;
}

static int softib_build_ud(struct softib_qp *qp, const struct ib_send_wr *wr,
			   struct ib_ud_wr *low, struct softib_send *s)
{
	struct softib_dev *sdev = qp->sdev;
	u32 qkey;

	*low = *ud_wr(wr);
	s->lah = softib_lah_of(to_spd(qp->ib.pd), low->ah);
	if (!s->lah) {
		softib_count(sdev->port, SOFTIB_C_ah_dead_sends, 1);
		return -EINVAL;
	}
	low->ah = s->lah->lower;
	low->pkey_index = 0;
	qkey = low->remote_qkey & BIT(31) ? qp->attr.qkey : low->remote_qkey;
	low->remote_qkey = softib_wire_qkey(qkey, qp->pkey, true);
	if (!(qp->pkey & 0x8000) && wr->opcode == IB_WR_SEND) {
		low->wr.opcode = IB_WR_SEND_WITH_IMM;
		low->wr.ex.imm_data = cpu_to_be32(SOFTIB_IMM_LIMITED);
	}
	if (softib_wr_length(wr) >
	    ib_mtu_enum_to_int(READ_ONCE(sdev->active_mtu)))
		softib_count(sdev->port, SOFTIB_C_ud_too_long, 1);
	return 0;
}

static int softib_build(struct softib_qp *qp, const struct ib_send_wr *wr,
			union softib_lower_wr *low, struct softib_send *s)
{
	s->lah = NULL;
	s->wr_id = wr->wr_id;
	s->opcode = wr->opcode;
	s->in_err = READ_ONCE(qp->in_err);
	switch (wr->opcode) {
	case IB_WR_SEND:
	case IB_WR_SEND_WITH_IMM:
		if (qp->ib.qp_type == IB_QPT_UD)
			return softib_build_ud(qp, wr, &low->ud, s);
		low->wr = *wr;
		return 0;
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_WRITE_WITH_IMM:
	case IB_WR_RDMA_READ:
		low->rdma = *rdma_wr(wr);
		return 0;
	case IB_WR_ATOMIC_CMP_AND_SWP:
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		low->atomic = *atomic_wr(wr);
		return 0;
	default:
		return -EINVAL;
	}
}

static void softib_unbuild(struct softib_sq *sq, u32 to)
{
	while (sq->head != to) {
		struct softib_send *s;

		s = &sq->ring[--sq->head & (sq->size - 1)];
		if (s->lah)
			softib_lah_put(s->lah);
	}
}

/*
 * Post up to a batch of WRs with one lower call.
 * *wr: next WR to post; after an error, the one that was not posted.
 */
static int softib_post_batch(struct softib_qp *qp, const struct ib_send_wr **wr)
{
	union softib_lower_wr low[SOFTIB_SEND_BATCH];
	const struct ib_send_wr *up[SOFTIB_SEND_BATCH], *next = *wr, *bad;
	struct softib_sq *sq = &qp->sq;
	u32 first = sq->head;
	int i, n, ret = 0;

	lockdep_assert_held(&sq->lock);
	for (n = 0; next && n < SOFTIB_SEND_BATCH; n++, next = next->next) {
		struct softib_send *s = &sq->ring[sq->head & (sq->size - 1)];

		ret = -ENOMEM;
		if (sq->head - sq->tail >= sq->max_wr) {
			softib_count(qp->sdev->port, SOFTIB_C_post_overrun, 1);
			break;
		}
		if (softib_fail(qp->sdev->port, SOFTIB_K_fail_post_send))
			break;
		ret = softib_build(qp, next, &low[n], s);
		if (ret)
			break;
		low[n].wr.wr_id = sq->head++;
		low[n].wr.next = NULL;
		up[n] = next;
		if (n)
			low[n - 1].wr.next = &low[n].wr;
	}
	*wr = next;
	if (n) {
		int err = ib_post_send(qp->lower, &low[0].wr, &bad);

		if (err) {
			i = (u32)bad->wr_id - first;
			*wr = up[i];
			softib_unbuild(sq, first + i);
			ret = err;
		}
	}
	return ret;
}

int softib_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		     const struct ib_send_wr **bad)
{
	struct softib_qp *qp = to_sqp(ibqp);
	unsigned long flags;
	int ret = 0;

	if (!qp->lower)
		return softib_mad_post_send(qp, wr, bad);
	if (softib_dead(qp->sdev->port)) {
		*bad = wr;
		return -EIO;
	}
	spin_lock_irqsave(&qp->sq.lock, flags);
	while (wr && !ret)
		ret = softib_post_batch(qp, &wr);
	spin_unlock_irqrestore(&qp->sq.lock, flags);
	if (ret)
		*bad = wr;
	return ret;
}

/**
 * softib_sq_complete - a lower send completion
 * @qp: the QP
 * @wc: the completion; gets the user's wr_id
 *
 * Sends complete in order, so that all older ones are done as well.
 * Context: any; takes sq->lock.
 * Return: whether the WR was posted after the QP had gone to ERR.
 */
bool softib_sq_complete(struct softib_qp *qp, struct ib_wc *wc)
{
	struct softib_sq *sq = &qp->sq;
	u32 seq = wc->wr_id;
	unsigned long flags;
	bool in_err = false;

	spin_lock_irqsave(&sq->lock, flags);
	if (WARN_ON_ONCE(seq - sq->tail >= sq->head - sq->tail))
		goto out;
	do {
		struct softib_send *s = &sq->ring[sq->tail & (sq->size - 1)];

		if (s->lah)
			softib_lah_put(s->lah);
		s->lah = NULL;
		wc->wr_id = s->wr_id;
		in_err = s->in_err;
	} while (sq->tail++ != seq);
out:
	spin_unlock_irqrestore(&sq->lock, flags);
	return in_err;
}
