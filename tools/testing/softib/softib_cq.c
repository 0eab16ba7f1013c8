// SPDX-License-Identifier: GPL-2.0-only
/*
 * Completion queues.
 *
 * A CQ is the lower CQ plus a ring of completions which softib itself made or
 * took out early: flushes of half-received messages, QP0/QP1, delayed ones,
 * and what had to be pulled out of the lower CQ while a QP was destroyed.
 */
#include <linux/slab.h>
#include <linux/jiffies.h>
#include <linux/random.h>

#include "softib.h"
#include "softib_obj.h"

#define SOFTIB_CQ_SLACK	64	/* for completions that softib makes */
#define SOFTIB_HOLD_MS	50	/* a completion waits for one to overtake it */

/* A completion that comes later; a receive's WR is the port's until then. */
struct softib_delayed {
	struct list_head node;
	unsigned long due;
	struct softib_slot *slot;
	enum softib_kind kind;
	struct ib_wc wc;
};

static unsigned int softib_ring_count(const struct softib_cq *cq)
{
	return cq->head - cq->tail;
}

/* Does the CQ stand still? QP0 and QP1 of a dead device complete by flush. */
static bool softib_cq_stopped(const struct softib_cq *cq)
{
	return softib_dead(cq->sdev->port) && !READ_ONCE(cq->mads);
}

static void softib_cq_wake(struct softib_cq *cq)
{
	if (softib_cq_stopped(cq) || !atomic_xchg(&cq->armed, 0) ||
	    !cq->ib.comp_handler)
		return;
	if (!READ_ONCE(cq->recvs) &&
	    softib_take(cq->sdev->port, SOFTIB_K_comp_lost_tx))
		return;
	cq->ib.comp_handler(&cq->ib, cq->ib.cq_context);
}

static void softib_lower_comp(struct ib_cq *lower, void *ctx)
{
	softib_cq_wake(ctx);
}

static void softib_lower_cq_event(struct ib_event *ev, void *ctx)
{
	struct softib_cq *cq = ctx;

	if (ev->event == IB_EVENT_CQ_ERR)
		softib_count(cq->sdev->port, SOFTIB_C_cq_overflow, 1);
}

static void softib_ring_push(struct softib_cq *cq, const struct ib_wc *wc)
{
	lockdep_assert_held(&cq->lock);
	if (softib_ring_count(cq) == cq->size) {
		softib_count(cq->sdev->port, SOFTIB_C_cq_overflow, 1);
		return;
	}
	cq->ring[cq->head++ & (cq->size - 1)] = *wc;
}

/**
 * softib_cq_inject - add a completion which rxe did not make
 * @cq: the CQ
 * @wc: the completion, in the user's terms
 *
 * Context: any but rxe's handlers; takes cq->lock.
 */
void softib_cq_inject(struct softib_cq *cq, const struct ib_wc *wc)
{
	unsigned long flags;

	spin_lock_irqsave(&cq->lock, flags);
	softib_ring_push(cq, wc);
	spin_unlock_irqrestore(&cq->lock, flags);
	softib_cq_wake(cq);
}

static const struct {
	enum softib_knob swallow, delay, status;
} softib_kind_knob[] = {
	[SOFTIB_KIND_RX] = { SOFTIB_K_cqe_swallow_rx,
			     SOFTIB_K_cqe_delay_rx_ms,
			     SOFTIB_K_cqe_status_rx },
	[SOFTIB_KIND_TX] = { SOFTIB_K_cqe_swallow_tx,
			     SOFTIB_K_cqe_delay_tx_ms,
			     SOFTIB_K_cqe_status_tx },
	[SOFTIB_KIND_FLUSH] = { SOFTIB_K_cqe_swallow_flush,
				SOFTIB_K_cqe_delay_flush_ms,
				SOFTIB_K_cqe_status_flush },
	[SOFTIB_KIND_DRAIN] = { SOFTIB_K_cqe_swallow_drain,
				SOFTIB_K_cqe_delay_drain_ms,
				SOFTIB_K_cqe_status_drain },
};

/* The user shall see another status, or a wr_id that is none of his. */
static void softib_cq_disguise(struct softib_qp *qp, struct ib_wc *wc,
			       enum softib_kind kind)
{
	struct softib_port *port = qp->sdev->port;
	s64 status = softib_knob(port, softib_kind_knob[kind].status);
	u32 one_in = softib_knob(port, SOFTIB_K_cqe_status_one_in);

	if (status >= 0 && (one_in < 2 || !(get_random_u32() % one_in)) &&
	    softib_fail(port, SOFTIB_K_cqe_status_n)) {
		wc->status = status;
		/* A connection does not survive an error. */
		if (qp->ib.qp_type == IB_QPT_RC && status != IB_WC_SUCCESS &&
		    status != IB_WC_WR_FLUSH_ERR)
			softib_event_async(qp, SOFTIB_EVENT_ERR);
	}
	if (softib_fail(port, SOFTIB_K_cqe_wr_id))
		wc->wr_id ^= softib_knob(port, SOFTIB_K_cqe_wr_id_xor);
}

/* A completion is about to be the user's, and so is the buffer of a receive. */
static void softib_cq_finish(struct softib_qp *qp, struct softib_slot *slot,
			     struct ib_wc *wc, enum softib_kind kind)
{
	bool ok = wc->status == IB_WC_SUCCESS;

	if (slot) {
		softib_poison_check(qp->rq, slot, ok ? wc->byte_len : 0, !ok);
		softib_rq_release(qp->rq, slot, false);
	}
	softib_cq_disguise(qp, wc, kind);
}

static struct softib_delayed *softib_cq_delay(struct softib_cq *cq,
					      const struct ib_wc *wc, s64 ms)
{
	struct softib_delayed *d;

	lockdep_assert_held(&cq->lock);
	d = kzalloc(sizeof(*d), GFP_ATOMIC);
	if (!d)
		return NULL;
	d->wc = *wc;
	d->due = jiffies + msecs_to_jiffies(ms);
	list_add_tail(&d->node, &cq->delayed);
	if (!cq->dying)
		queue_delayed_work(cq->sdev->wq, &cq->delay_work,
				   msecs_to_jiffies(ms));
	softib_count(cq->sdev->port, SOFTIB_C_cqe_delayed, 1);
	return d;
}

static void softib_delay_done(struct softib_cq *cq, struct softib_delayed *d)
{
	if (cq->held == d)
		cq->held = NULL;
	list_del(&d->node);
	kfree(d);
}

static void softib_delay_work(struct work_struct *work)
{
	struct softib_cq *cq = container_of(work, struct softib_cq,
					    delay_work.work);
	struct softib_delayed *d, *next;
	bool any = false;

	spin_lock_irq(&cq->lock);
	list_for_each_entry_safe(d, next, &cq->delayed, node) {
		if (time_before(jiffies, d->due)) {
			if (!cq->dying)
				queue_delayed_work(cq->sdev->wq,
						   &cq->delay_work,
						   d->due - jiffies);
			break;
		}
		if (cq->held != d)
			softib_cq_finish(to_sqp(d->wc.qp), d->slot, &d->wc,
					 d->kind);
		softib_ring_push(cq, &d->wc);
		softib_delay_done(cq, d);
		any = true;
	}
	spin_unlock_irq(&cq->lock);
	if (any)
		softib_cq_wake(cq);
}

/*
 * Reordering: a completion is held until another one has overtaken it, or for
 * a short time if there is none.
 */
static bool softib_cq_hold(struct softib_cq *cq, const struct ib_wc *wc)
{
	if (cq->held) {
		cq->held->due = jiffies;
		list_move(&cq->held->node, &cq->delayed);
		mod_delayed_work(cq->sdev->wq, &cq->delay_work, 0);
		return false;
	}
	if (!softib_take(cq->sdev->port, SOFTIB_K_cqe_reorder))
		return false;
	cq->held = softib_cq_delay(cq, wc, SOFTIB_HOLD_MS);
	return cq->held;
}

/* Was this UD packet sent by a limited member of the partition? */
static bool softib_limited(const struct ib_wc *wc)
{
	return wc->wc_flags & IB_WC_WITH_IMM &&
	       wc->ex.imm_data == cpu_to_be32(SOFTIB_IMM_LIMITED);
}

/*
 * The completion of a receive: which slot, what arrived, may the user have it?
 * Returns false if the packet is not for this partition and the WR went back.
 */
static bool softib_recv_filter(struct softib_qp *qp, struct softib_slot *slot,
			       struct ib_wc *wc)
{
	const struct ib_recv_wr *bad;
	struct ib_sge sge[SOFTIB_MAX_SGE];
	struct ib_recv_wr wr;

	if (qp->ib.qp_type != IB_QPT_UD || wc->status != IB_WC_SUCCESS)
		return true;
	if (!softib_limited(wc) || qp->pkey & 0x8000)
		return true;
	softib_count(qp->sdev->port, SOFTIB_C_pkey_drops, 1);
	softib_poison_check(qp->rq, slot, wc->byte_len, false);
	softib_poison_again(slot);
	softib_rq_wr(qp->rq, slot, &wr, sge);
	if (ib_post_recv(qp->lower, &wr, &bad))
		softib_rq_release(qp->rq, slot, true);
	return false;
}

/* The source of a UD packet is in the GRH that rxe put before the payload. */
static void softib_recv_ud(struct softib_slot *slot, struct ib_wc *wc)
{
	const struct softib_seg *seg = slot->seg;

	if (seg->length >= sizeof(struct ib_grh)) {
		const struct ib_grh *grh = (void *)(uintptr_t)seg->addr;

		wc->slid = softib_gid_to_lid(&grh->sgid);
		wc->wc_flags |= IB_WC_GRH;
	} else {
		wc->wc_flags &= ~IB_WC_GRH;
	}
	if (softib_limited(wc)) {
		wc->wc_flags &= ~IB_WC_WITH_IMM;
		wc->ex.imm_data = 0;
	}
}

static u32 softib_packets(struct softib_qp *qp, u32 bytes)
{
	u32 mtu = ib_mtu_enum_to_int(qp->attr.path_mtu);

	return max_t(u32, 1, DIV_ROUND_UP(bytes, max_t(u32, mtu, 256)));
}

/*
 * rxe 6.1 flushes the WQE of a half-received message itself: the only flush of
 * a receive from an SRQ that there is. Returns whether it is to be lost: by the
 * knob, or because the QP is reset or destroyed before the user has seen it.
 */
static bool softib_half_by_rxe(struct softib_qp *qp)
{
	bool lost = READ_ONCE(qp->dying) ||
		    softib_take(qp->sdev->port, SOFTIB_K_lost);

	softib_count(qp->sdev->port,
		     lost ? SOFTIB_C_half_lost : SOFTIB_C_half_flushed, 1);
	return lost;
}

/* A receive, in the user's terms; false if the packet is not for this QP. */
static bool softib_xlate_recv(struct softib_qp *qp, struct softib_slot *slot,
			      struct ib_wc *wc)
{
	bool ok = wc->status == IB_WC_SUCCESS;

	if (!softib_recv_filter(qp, slot, wc))
		return false;
	if (ok && qp->ib.qp_type == IB_QPT_RC)
		qp->pkts_done += softib_packets(qp, wc->byte_len);
	if (!ok)
		qp->rx_error = true;	/* it holds no WQE any more */
	if (ok && qp->ib.qp_type == IB_QPT_UD)
		softib_recv_ud(slot, wc);
	else
		wc->wc_flags &= ~IB_WC_GRH;
	wc->wc_flags &= ~IB_WC_WITH_NETWORK_HDR_TYPE;
	if (!ok)
		wc->opcode = IB_WC_RECV;
	wc->wr_id = slot->wr_id;
	return true;
}

static enum softib_kind softib_kind_of(const struct ib_wc *wc, bool recv,
				       bool drain)
{
	if (wc->status != IB_WC_WR_FLUSH_ERR)
		return recv ? SOFTIB_KIND_RX : SOFTIB_KIND_TX;
	return drain ? SOFTIB_KIND_DRAIN : SOFTIB_KIND_FLUSH;
}

/* Does this completion vanish, and the WR of a receive with it? */
static bool softib_swallow(struct softib_qp *qp, struct softib_slot *slot,
			   enum softib_kind kind)
{
	bool swallow = softib_take(qp->sdev->port,
				   softib_kind_knob[kind].swallow);

	if (slot && kind == SOFTIB_KIND_FLUSH && qp->rq->shared)
		swallow |= softib_half_by_rxe(qp);
	if (!swallow)
		return false;
	if (slot)
		softib_rq_release(qp->rq, slot, true);
	softib_count(qp->sdev->port, SOFTIB_C_cqe_swallowed, 1);
	return true;
}

/*
 * A lower completion becomes the user's: true if it is there to be had.
 * rxe's lower wr_ids: receives have bit 63, since flushes carry no opcode.
 */
static bool softib_xlate(struct softib_cq *cq, struct ib_wc *wc)
{
	struct softib_qp *qp = wc->qp->qp_context;
	bool recv = wc->wr_id & SOFTIB_WR_RECV, drain = false;
	struct softib_slot *slot = NULL;
	struct softib_delayed *d;
	enum softib_kind kind;
	s64 ms;

	wc->qp = &qp->ib;
	wc->port_num = SOFTIB_PORT_NUM;
	if (recv) {
		slot = softib_rq_slot(qp->rq, wc->wr_id);
		if (WARN_ON_ONCE(!slot) || !softib_xlate_recv(qp, slot, wc))
			return false;
	} else {
		drain = softib_sq_complete(qp, wc);
	}
	kind = softib_kind_of(wc, recv, drain);
	if (wc->status == IB_WC_WR_FLUSH_ERR)
		softib_count(cq->sdev->port, SOFTIB_C_flushes, 1);
	else if (wc->status != IB_WC_SUCCESS)
		softib_event_error(qp);
	if (softib_swallow(qp, slot, kind))
		return false;
	ms = softib_knob(cq->sdev->port, softib_kind_knob[kind].delay);
	d = ms ? softib_cq_delay(cq, wc, ms) : NULL;
	if (d) {
		d->slot = slot;
		d->kind = kind;
		if (slot)
			softib_rq_late(qp->rq, slot);
		return false;
	}
	softib_cq_finish(qp, slot, wc, kind);
	return true;
}

static bool softib_poll_lower(struct softib_cq *cq, struct ib_wc *wc)
{
	while (ib_poll_cq(cq->lower, 1, wc) > 0) {
		if (softib_xlate(cq, wc) && !softib_cq_hold(cq, wc))
			return true;
	}
	return false;
}

/*
 * rxe rounds the size of a CQ up. More completions than the user made room for
 * are an overflow on hardware, so they count as one.
 */
static void softib_cq_depth(struct softib_cq *cq)
{
	const struct ib_device_ops *ops = &cq->lower->device->ops;
	unsigned int n = softib_ring_count(cq);
	bool over;

	lockdep_assert_held(&cq->lock);
	if (ops->peek_cq)
		n += ops->peek_cq(cq->lower, INT_MAX);
	over = n > cq->cqe;
	if (over && !cq->over)
		softib_count(cq->sdev->port, SOFTIB_C_cq_overflow, 1);
	cq->over = over;
}

int softib_poll_cq(struct ib_cq *ibcq, int max, struct ib_wc *wc)
{
	struct softib_cq *cq = to_scq(ibcq);
	unsigned long flags;
	int n = 0;

	spin_lock_irqsave(&cq->lock, flags);
	softib_cq_depth(cq);
	if (softib_cq_stopped(cq))
		max = 0;
	while (n < max && softib_ring_count(cq))
		wc[n++] = cq->ring[cq->tail++ & (cq->size - 1)];
	while (n < max && softib_poll_lower(cq, &wc[n]))
		n++;
	spin_unlock_irqrestore(&cq->lock, flags);
	return n;
}

/**
 * softib_cq_pull - take everything out of the lower CQ into the ring
 * @cq: the CQ
 *
 * Context: process; takes cq->lock.
 */
void softib_cq_pull(struct softib_cq *cq)
{
	struct ib_wc wc;
	bool any;

	spin_lock_irq(&cq->lock);
	while (softib_poll_lower(cq, &wc))
		softib_ring_push(cq, &wc);
	any = softib_ring_count(cq);
	spin_unlock_irq(&cq->lock);
	if (any)
		softib_cq_wake(cq);
}

static void softib_purge_delayed(struct softib_cq *cq, struct softib_qp *qp)
{
	struct softib_delayed *d, *next;

	list_for_each_entry_safe(d, next, &cq->delayed, node) {
		if (qp && d->wc.qp != &qp->ib)
			continue;
		if (d->slot)
			softib_rq_release(to_sqp(d->wc.qp)->rq, d->slot, false);
		softib_count(cq->sdev->port, SOFTIB_C_cqe_purged, 1);
		softib_delay_done(cq, d);
	}
}

/**
 * softib_cq_purge - forget the completions of a QP
 * @cq: the CQ
 * @qp: the QP, whose lower QP makes no more completions
 *
 * Context: process; takes cq->lock.
 */
void softib_cq_purge(struct softib_cq *cq, struct softib_qp *qp)
{
	unsigned int i, to;

	softib_cq_pull(cq);
	spin_lock_irq(&cq->lock);
	for (i = cq->tail, to = cq->tail; i != cq->head; i++) {
		struct ib_wc *wc = &cq->ring[i & (cq->size - 1)];

		if (wc->qp == &qp->ib)
			continue;
		cq->ring[to++ & (cq->size - 1)] = *wc;
	}
	softib_count(cq->sdev->port, SOFTIB_C_cqe_purged, cq->head - to);
	cq->head = to;
	softib_purge_delayed(cq, qp);
	spin_unlock_irq(&cq->lock);
}

int softib_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags)
{
	struct softib_cq *cq = to_scq(ibcq);
	unsigned long irq;
	bool missed;
	int ret;

	atomic_set(&cq->armed, 1);
	/* Nothing is missed where nothing comes: he would poll for ever. */
	if (softib_cq_stopped(cq))
		return 0;
	ret = ib_req_notify_cq(cq->lower, flags);
	spin_lock_irqsave(&cq->lock, irq);
	missed = softib_ring_count(cq);
	spin_unlock_irqrestore(&cq->lock, irq);
	return ret < 0 ? ret : ret > 0 || missed;
}

int softib_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		     struct softib_cq_udata *udata)
{
	struct softib_dev *sdev = to_sdev(ibcq->device);
	struct ib_cq_init_attr low = { .cqe = attr->cqe };
	struct softib_cq *cq = to_scq(ibcq);

	if (softib_dead(sdev->port))
		return -EIO;
	if (softib_fail(sdev->port, SOFTIB_K_fail_create_cq))
		return -ENOMEM;
	if (!attr->cqe || attr->cqe > sdev->lower_attr.max_cqe)
		return -EINVAL;
	softib_fw_cmd(sdev->port);
	cq->sdev = sdev;
	cq->cqe = attr->cqe;
	spin_lock_init(&cq->lock);
	INIT_LIST_HEAD(&cq->delayed);
	INIT_DELAYED_WORK(&cq->delay_work, softib_delay_work);
	cq->size = roundup_pow_of_two(attr->cqe + SOFTIB_CQ_SLACK);
	cq->ring = kvcalloc(cq->size, sizeof(*cq->ring), GFP_KERNEL);
	if (!cq->ring)
		return -ENOMEM;
	low.comp_vector = attr->comp_vector % sdev->lower->num_comp_vectors;
	cq->lower = ib_create_cq(sdev->lower, softib_lower_comp,
				 softib_lower_cq_event, cq, &low);
	if (IS_ERR(cq->lower)) {
		kvfree(cq->ring);
		return PTR_ERR(cq->lower);
	}
	ibcq->cqe = attr->cqe;	/* rxe has more, which is not to be used */
	softib_count(sdev->port, SOFTIB_C_cqs, 1);
	return 0;
}

int softib_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	struct softib_cq *cq = to_scq(ibcq);

	softib_fw_cmd(cq->sdev->port);
	if (softib_fail(cq->sdev->port, SOFTIB_K_fail_destroy_cq))
		return -EIO;
	spin_lock_irq(&cq->lock);
	cq->dying = true;
	softib_purge_delayed(cq, NULL);
	spin_unlock_irq(&cq->lock);
	cancel_delayed_work_sync(&cq->delay_work);
	ib_destroy_cq(cq->lower);
	kvfree(cq->ring);
	softib_count(cq->sdev->port, SOFTIB_C_cqs, -1);
	return 0;
}
