// SPDX-License-Identifier: GPL-2.0-only
/*
 * Receive queues: of one QP, or shared (SRQ).
 *
 * Each posted WR has a slot that remembers what the user posted until the user
 * has its completion: wr_id, scatter list, and the marks of the poison check.
 */
#include <linux/slab.h>

#include "softib.h"
#include "softib_obj.h"

#define SOFTIB_RQ_SLACK		64	/* slots for WRs that are lost */

/**
 * softib_rq_init - set a receive queue up
 * @rq: the queue
 * @port: whose counters and poison table to use
 * @max_wr: WRs that may be posted
 * @max_sge: scatter entries in each
 * @shared: an SRQ
 *
 * Context: process.
 * Return: 0 or -ENOMEM.
 */
int softib_rq_init(struct softib_rq *rq, struct softib_port *port,
		   unsigned int max_wr, unsigned int max_sge, bool shared)
{
	unsigned int i;

	rq->port = port;
	rq->shared = shared;
	rq->max_wr = max_wr;
	rq->max_sge = max_t(unsigned int, max_sge, 1);
	rq->n_slots = 2 * max_wr + SOFTIB_RQ_SLACK;
	spin_lock_init(&rq->lock);
	INIT_LIST_HEAD(&rq->free);
	INIT_LIST_HEAD(&rq->posted);
	INIT_LIST_HEAD(&rq->late);
	INIT_LIST_HEAD(&rq->lost);
	rq->slots = kvcalloc(rq->n_slots, sizeof(*rq->slots), GFP_KERNEL);
	rq->segs = kvcalloc((size_t)rq->n_slots * rq->max_sge,
			    sizeof(*rq->segs), GFP_KERNEL);
	if (!rq->slots || !rq->segs) {
		kvfree(rq->slots);
		kvfree(rq->segs);
		rq->slots = NULL;
		return -ENOMEM;
	}
	for (i = 0; i < rq->n_slots; i++) {
		rq->slots[i].seg = &rq->segs[i * rq->max_sge];
		list_add_tail(&rq->slots[i].node, &rq->free);
	}
	return 0;
}

static enum softib_counter softib_rq_gauge(const struct softib_rq *rq)
{
	return rq->shared ? SOFTIB_C_srq_outstanding :
			    SOFTIB_C_rq_outstanding;
}

/* What is still posted goes back to the user: look at it for a last time. */
static void softib_rq_return(struct softib_rq *rq, struct list_head *list)
{
	struct softib_slot *slot;

	lockdep_assert_held(&rq->lock);
	list_for_each_entry(slot, list, node) {
		softib_poison_check(rq, slot, 0, true);
		softib_poison_drop(rq, slot);
		slot->state = SOFTIB_SLOT_FREE;
	}
	list_splice_tail_init(list, &rq->free);
}

/**
 * softib_rq_reset - all WRs go back to the user, without completions
 * @rq: the queue of a QP that is in RESET and has none in its CQs
 *
 * Context: process; takes rq->lock.
 */
void softib_rq_reset(struct softib_rq *rq)
{
	unsigned int n;

	spin_lock_irq(&rq->lock);
	softib_rq_return(rq, &rq->posted);
	softib_rq_return(rq, &rq->late);
	softib_rq_return(rq, &rq->lost);
	n = rq->outstanding;
	rq->outstanding = 0;
	spin_unlock_irq(&rq->lock);
	softib_count(rq->port, softib_rq_gauge(rq), -(s64)n);
}

/**
 * softib_rq_exit - end of a receive queue
 * @rq: the queue; nothing completes on it any more
 *
 * Context: process.
 */
void softib_rq_exit(struct softib_rq *rq)
{
	if (!rq->slots)
		return;
	softib_rq_reset(rq);
	kvfree(rq->slots);
	kvfree(rq->segs);
	rq->slots = NULL;
}

static void softib_slot_fill(struct softib_slot *slot,
			     const struct ib_recv_wr *wr)
{
	int i;

	slot->wr_id = wr->wr_id;
	slot->num_sge = wr->num_sge;
	for (i = 0; i < wr->num_sge; i++) {
		slot->seg[i].addr = wr->sg_list[i].addr;
		slot->seg[i].length = wr->sg_list[i].length;
		slot->seg[i].lkey = wr->sg_list[i].lkey;
	}
}

/**
 * softib_rq_post - take a slot for a receive WR
 * @rq: the queue
 * @wr: what the user posts
 *
 * The port owns the buffers from here on.
 * Context: any.
 * Return: the slot, or NULL if as many WRs are posted as the user had asked for,
 * or if the WR has too many scatter entries.
 */
struct softib_slot *softib_rq_post(struct softib_rq *rq,
				   const struct ib_recv_wr *wr)
{
	struct softib_slot *slot = NULL;
	unsigned long flags;

	if (wr->num_sge > rq->max_sge)
		return NULL;
	spin_lock_irqsave(&rq->lock, flags);
	if (rq->outstanding < rq->max_wr)
		slot = list_first_entry_or_null(&rq->free, struct softib_slot,
						node);
	if (slot) {
		softib_slot_fill(slot, wr);
		slot->state = SOFTIB_SLOT_POSTED;
		list_move_tail(&slot->node, &rq->posted);
		rq->outstanding++;
		softib_poison_post(rq, slot);
	}
	spin_unlock_irqrestore(&rq->lock, flags);
	if (slot)
		softib_count(rq->port, softib_rq_gauge(rq), 1);
	else
		softib_count(rq->port, SOFTIB_C_post_overrun, 1);
	return slot;
}

/**
 * softib_rq_release - a WR is not outstanding any more
 * @rq: the queue
 * @slot: its slot
 * @lost: the user is not told: the buffer stays with the port
 *
 * Context: any.
 */
void softib_rq_release(struct softib_rq *rq, struct softib_slot *slot,
		       bool lost)
{
	unsigned long flags;

	spin_lock_irqsave(&rq->lock, flags);
	if (!lost)
		softib_poison_drop(rq, slot);
	rq->outstanding--;
	slot->state = lost ? SOFTIB_SLOT_LOST : SOFTIB_SLOT_FREE;
	list_move_tail(&slot->node, lost ? &rq->lost : &rq->free);
	spin_unlock_irqrestore(&rq->lock, flags);
	softib_count(rq->port, softib_rq_gauge(rq), -1);
	if (lost && rq->shared)
		softib_count(rq->port, SOFTIB_C_srq_lost, 1);
}

/**
 * softib_rq_late - a WR is done, but its user is told later
 * @rq: the queue
 * @slot: its slot, which is the port's until softib_rq_release()
 *
 * Context: any.
 */
void softib_rq_late(struct softib_rq *rq, struct softib_slot *slot)
{
	unsigned long flags;

	spin_lock_irqsave(&rq->lock, flags);
	slot->state = SOFTIB_SLOT_LATE;
	list_move_tail(&slot->node, &rq->late);
	spin_unlock_irqrestore(&rq->lock, flags);
}

/**
 * softib_rq_slot - the slot of a lower completion
 * @rq: the queue
 * @lower_id: the lower wr_id
 *
 * Return: the slot, or NULL if it is not posted.
 */
struct softib_slot *softib_rq_slot(struct softib_rq *rq, u64 lower_id)
{
	u64 i = lower_id & ~SOFTIB_WR_RECV;

	if (i >= rq->n_slots || rq->slots[i].state != SOFTIB_SLOT_POSTED)
		return NULL;
	return &rq->slots[i];
}

/**
 * softib_rq_first - the WR that was posted first
 * @rq: the queue of QP0 or QP1, where softib itself consumes
 */
struct softib_slot *softib_rq_first(struct softib_rq *rq)
{
	struct softib_slot *slot;
	unsigned long flags;

	spin_lock_irqsave(&rq->lock, flags);
	slot = list_first_entry_or_null(&rq->posted, struct softib_slot, node);
	spin_unlock_irqrestore(&rq->lock, flags);
	return slot;
}

/**
 * softib_rq_wr - the lower WR of a slot
 * @rq: the queue
 * @slot: the slot
 * @wr: result
 * @sge: room for the slot's scatter list
 */
void softib_rq_wr(struct softib_rq *rq, struct softib_slot *slot,
		  struct ib_recv_wr *wr, struct ib_sge *sge)
{
	int i;

	for (i = 0; i < slot->num_sge; i++) {
		sge[i].addr = slot->seg[i].addr;
		sge[i].length = slot->seg[i].length;
		sge[i].lkey = slot->seg[i].lkey;
	}
	wr->next = NULL;
	wr->wr_id = (slot - rq->slots) | SOFTIB_WR_RECV;
	wr->sg_list = sge;
	wr->num_sge = slot->num_sge;
}

/* Post one WR; the lower one uses the user's scatter list as it is. */
static int softib_post_one(struct softib_rq *rq, struct ib_qp *lower_qp,
			   struct ib_srq *lower_srq,
			   const struct ib_recv_wr *wr)
{
	const struct ib_recv_wr *bad;
	struct softib_slot *slot;
	struct ib_recv_wr low;
	int ret = 0;

	slot = softib_rq_post(rq, wr);
	if (!slot)
		return -ENOMEM;
	if (lower_srq && softib_take(rq->port, SOFTIB_K_srq_lose)) {
		softib_rq_release(rq, slot, true);
		return 0;
	}
	low = *wr;
	low.next = NULL;
	low.wr_id = (slot - rq->slots) | SOFTIB_WR_RECV;
	if (lower_srq)
		ret = ib_post_srq_recv(lower_srq, &low, &bad);
	else if (lower_qp)
		ret = ib_post_recv(lower_qp, &low, &bad);
	if (ret)
		softib_rq_release(rq, slot, false);
	return ret;
}

int softib_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		     const struct ib_recv_wr **bad)
{
	struct softib_qp *qp = to_sqp(ibqp);
	int ret = 0;

	for (; wr && !ret; wr = wr->next) {
		*bad = wr;
		if (ibqp->srq)
			ret = -EINVAL;
		else if (qp->lower && softib_dead(qp->sdev->port))
			ret = -EIO;
		else if (softib_fail(qp->sdev->port, SOFTIB_K_fail_post_recv))
			ret = -ENOMEM;
		else
			ret = softib_post_one(qp->rq, qp->lower, NULL, wr);
	}
	return ret;
}

int softib_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
			 const struct ib_recv_wr **bad)
{
	struct softib_srq *srq = to_ssrq(ibsrq);
	int ret = 0;

	for (; wr && !ret; wr = wr->next) {
		*bad = wr;
		if (softib_dead(srq->sdev->port))
			ret = -EIO;
		else if (softib_fail(srq->sdev->port,
				     SOFTIB_K_fail_post_srq_recv))
			ret = -ENOMEM;
		else
			ret = softib_post_one(&srq->rq, NULL, srq->lower, wr);
	}
	return ret;
}

static void softib_srq_event_work(struct work_struct *work)
{
	struct softib_srq *srq = container_of(work, struct softib_srq,
					      event_work);
	unsigned long due = xchg(&srq->event_due, 0);
	struct ib_event ev = {
		.device = srq->ib.device,
		.element.srq = &srq->ib,
	};
	int type;

	if (!srq->ib.event_handler || softib_dead(srq->sdev->port))
		return;
	for_each_set_bit(type, &due, BITS_PER_LONG) {
		ev.event = type;
		srq->ib.event_handler(&ev, srq->ib.srq_context);
	}
}

/**
 * softib_srq_event - raise an event of an SRQ, from a workqueue
 * @srq: the SRQ
 * @type: the event
 *
 * Context: any, also under rxe's locks.
 */
void softib_srq_event(struct softib_srq *srq, enum ib_event_type type)
{
	set_bit(type, &srq->event_due);
	queue_work(srq->sdev->wq, &srq->event_work);
}

static void softib_lower_srq_event(struct ib_event *ev, void *ctx)
{
	softib_srq_event(ctx, ev->event);
}

int softib_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init,
		      struct ib_udata *udata)
{
	struct softib_dev *sdev = to_sdev(ibsrq->device);
	struct softib_srq *srq = to_ssrq(ibsrq);
	struct ib_srq_init_attr low = {
		.event_handler = softib_lower_srq_event,
		.srq_context = srq,
		.attr = init->attr,
		.srq_type = IB_SRQT_BASIC,
	};
	int ret;

	if (udata || init->srq_type != IB_SRQT_BASIC ||
	    !ibsrq->device->attrs.max_srq)
		return -EOPNOTSUPP;
	if (init->attr.max_sge > ibsrq->device->attrs.max_srq_sge)
		return -EINVAL;
	if (softib_dead(sdev->port))
		return -EIO;
	if (softib_fail(sdev->port, SOFTIB_K_fail_create_srq))
		return -ENOMEM;
	softib_fw_cmd(sdev->port);
	srq->sdev = sdev;
	INIT_WORK(&srq->event_work, softib_srq_event_work);
	ret = softib_rq_init(&srq->rq, sdev->port, init->attr.max_wr,
			     init->attr.max_sge, true);
	if (ret)
		return ret;
	srq->lower = ib_create_srq(to_spd(ibsrq->pd)->lower, &low);
	if (IS_ERR(srq->lower)) {
		softib_rq_exit(&srq->rq);
		return PTR_ERR(srq->lower);
	}
	mutex_lock(&sdev->qp_lock);
	list_add_tail(&srq->node, &sdev->srqs);
	mutex_unlock(&sdev->qp_lock);
	softib_count(sdev->port, SOFTIB_C_srqs, 1);
	return 0;
}

int softib_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
		      enum ib_srq_attr_mask mask, struct ib_udata *udata)
{
	struct softib_port *port = to_ssrq(ibsrq)->sdev->port;

	if (mask & ~IB_SRQ_LIMIT)
		return -EOPNOTSUPP;
	softib_fw_cmd(port);
	if (softib_dead(port) || softib_fail(port, SOFTIB_K_fail_modify_srq))
		return -EIO;
	return ib_modify_srq(to_ssrq(ibsrq)->lower, attr, mask);
}

int softib_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr)
{
	struct softib_srq *srq = to_ssrq(ibsrq);
	int ret = ib_query_srq(srq->lower, attr);

	attr->max_wr = srq->rq.max_wr;
	attr->max_sge = srq->rq.max_sge;
	return ret;
}

int softib_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata)
{
	struct softib_srq *srq = to_ssrq(ibsrq);
	int ret;

	softib_fw_cmd(srq->sdev->port);
	if (softib_fail(srq->sdev->port, SOFTIB_K_fail_destroy_srq))
		return -EIO;
	ret = ib_destroy_srq_user(srq->lower, NULL);
	if (ret)
		return ret;
	mutex_lock(&srq->sdev->qp_lock);
	list_del(&srq->node);
	mutex_unlock(&srq->sdev->qp_lock);
	cancel_work_sync(&srq->event_work);
	softib_rq_exit(&srq->rq);
	softib_count(srq->sdev->port, SOFTIB_C_srqs, -1);
	return 0;
}
