// SPDX-License-Identifier: GPL-2.0-only
/*
 * Asynchronous events of queue pairs: LAST_WQE_REACHED (LWQE).
 *
 * A QP with an SRQ that goes to ERR, by modify_qp or by an error of its own,
 * gets exactly one LWQE, from a workqueue, behind its flush completions. rxe
 * before 6.5 raises none and later rxe raises it again and again, so rxe's own
 * event only says that its receiver has stopped. The half-received message,
 * whose WQE rxe forgets, is flushed here: see softib_half().
 */
#include <linux/jiffies.h>

#include "softib.h"
#include "softib_obj.h"

/* rxe's receiver has seen the ERR state for sure after this time. */
#define SOFTIB_SETTLE_MS	(SOFTIB_LOWER_LWQE ? 100 : 10)
#define SOFTIB_HALF_RETRY	msecs_to_jiffies(20)
#define SOFTIB_HALF_LIMIT_MS	2000

static void softib_raise(struct softib_qp *qp)
{
	struct ib_event ev = {
		.device = qp->ib.device,
		.element.qp = &qp->ib,
		.event = IB_EVENT_QP_LAST_WQE_REACHED,
	};

	softib_count(qp->sdev->port, SOFTIB_C_lwqe_raised, 1);
	if (qp->ib.event_handler)
		qp->ib.event_handler(&ev, qp->ib.qp_context);
}

static void softib_raise_dups(struct softib_qp *qp)
{
	s64 ms = softib_knob(qp->sdev->port, SOFTIB_K_lwqe_dup_ms);
	s64 n = softib_knob(qp->sdev->port, SOFTIB_K_lwqe_dup);

	if (!n)
		return;
	if (!ms) {
		while (n--)
			softib_raise(qp);
		return;
	}
	spin_lock_irq(&qp->ev_lock);
	qp->dup_due += n;
	if (!qp->dying)
		queue_delayed_work(qp->sdev->wq, &qp->dup_work,
				   msecs_to_jiffies(ms));
	spin_unlock_irq(&qp->ev_lock);
}

static void softib_deliver(struct softib_qp *qp)
{
	struct softib_port *port = qp->sdev->port;

	if (softib_take(port, SOFTIB_K_lwqe_drop)) {
		softib_count(port, SOFTIB_C_lwqe_dropped, 1);
		return;
	}
	softib_raise(qp);
	softib_raise_dups(qp);
}

static void softib_dup_work(struct work_struct *work)
{
	struct softib_qp *qp = container_of(work, struct softib_qp,
					    dup_work.work);
	unsigned int n;

	spin_lock_irq(&qp->ev_lock);
	n = qp->dup_due;
	qp->dup_due = 0;
	spin_unlock_irq(&qp->ev_lock);
	while (n--)
		softib_raise(qp);
}

static void softib_raw_work(struct work_struct *work)
{
	struct softib_qp *qp = container_of(work, struct softib_qp, raw_work);
	unsigned int n;

	spin_lock_irq(&qp->ev_lock);
	n = qp->raw_due;
	qp->raw_due = 0;
	spin_unlock_irq(&qp->ev_lock);
	while (n--)
		softib_deliver(qp);
}

/*
 * Packets of a message that had begun but not ended when the QP stopped. rxe
 * counts sequence numbers as packets arrive; completed messages account for
 * the others.
 */
static u32 softib_half_packets(struct softib_qp *qp)
{
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;
	u32 got;

	if (qp->rx_error || qp->ib.qp_type != IB_QPT_RC)
		return 0;
	if (qp->attr.qp_state < IB_QPS_RTR ||
	    ib_query_qp(qp->lower, &attr, IB_QP_RQ_PSN, &init))
		return 0;
	got = (attr.rq_psn - qp->psn_start - qp->pkts_done) & 0xffffff;
	return got < 0x800000 ? got : 0;
}

/*
 * Which posted WR holds @bytes of a half-received message? NULL: none, or
 * more than one, so that it may be another QP's that is still receiving.
 */
static struct softib_slot *softib_half_slot(struct softib_rq *rq, u32 bytes,
					    unsigned int *n)
{
	struct softib_slot *slot, *found = NULL;

	*n = 0;
	spin_lock_irq(&rq->lock);
	list_for_each_entry(slot, &rq->posted, node) {
		if (!softib_poison_begun(slot))
			break;	/* rxe takes them in this order */
		if (!softib_poison_holds(slot, bytes))
			continue;
		found = slot;
		++*n;
	}
	spin_unlock_irq(&rq->lock);
	return found;
}

static void softib_half_flush(struct softib_qp *qp, struct softib_slot *slot)
{
	struct ib_wc wc = {
		.wr_id = slot->wr_id,
		.status = IB_WC_WR_FLUSH_ERR,
		.opcode = IB_WC_RECV,
		.qp = &qp->ib,
		.port_num = SOFTIB_PORT_NUM,
	};
	struct softib_port *port = qp->sdev->port;
	bool lost = softib_take(port, SOFTIB_K_lost) ||
		    softib_take(port, SOFTIB_K_cqe_swallow_flush);

	qp->rx_error = true;	/* it holds nothing any more */
	softib_poison_check(qp->rq, slot, 0, true);
	softib_rq_release(qp->rq, slot, lost);
	if (lost) {
		softib_count(port, SOFTIB_C_half_lost, 1);
		return;
	}
	softib_count(port, SOFTIB_C_half_flushed, 1);
	softib_count(port, SOFTIB_C_flushes, 1);
	softib_cq_inject(to_scq(qp->ib.recv_cq), &wc);
}

/*
 * Flush the WQE of a half-received message, which rxe drops. Returns false to
 * be called again later: another QP seems to be as far in a message.
 */
static bool softib_half(struct softib_qp *qp)
{
	struct softib_slot *slot;
	unsigned int n;
	u32 packets;

	softib_cq_pull(to_scq(qp->ib.recv_cq));
	packets = softib_half_packets(qp);
	if (!packets || !qp->rq->shared)
		return true;
	slot = softib_half_slot(qp->rq, packets *
				ib_mtu_enum_to_int(qp->attr.path_mtu), &n);
	if (n == 1) {
		softib_half_flush(qp, slot);
		return true;
	}
	if (n && time_before(jiffies, qp->half_deadline))
		return false;
	softib_count(qp->sdev->port, SOFTIB_C_half_unknown, 1);
	return true;
}

static void softib_ev_work(struct work_struct *work)
{
	struct softib_qp *qp = container_of(work, struct softib_qp,
					    ev_work.work);
	bool due;

	if (!softib_half(qp)) {
		spin_lock_irq(&qp->ev_lock);
		if (!qp->dying)
			queue_delayed_work(qp->sdev->wq, &qp->ev_work,
					   SOFTIB_HALF_RETRY);
		spin_unlock_irq(&qp->ev_lock);
		return;
	}
	spin_lock_irq(&qp->ev_lock);
	due = qp->lwqe_due;
	qp->lwqe_due = false;
	spin_unlock_irq(&qp->ev_lock);
	if (due)
		softib_deliver(qp);
}

void softib_event_init(struct softib_qp *qp)
{
	spin_lock_init(&qp->ev_lock);
	INIT_DELAYED_WORK(&qp->ev_work, softib_ev_work);
	INIT_DELAYED_WORK(&qp->dup_work, softib_dup_work);
	INIT_WORK(&qp->raw_work, softib_raw_work);
}

static unsigned long softib_lwqe_delay(struct softib_qp *qp, s64 settle)
{
	s64 ms = softib_knob(qp->sdev->port, SOFTIB_K_lwqe_delay_ms);

	return msecs_to_jiffies(max(ms, settle));
}

/**
 * softib_event_error - the QP is in ERR
 * @qp: the QP
 *
 * Context: any, also under rxe's locks. Later calls for the same move to ERR
 * change nothing.
 */
void softib_event_error(struct softib_qp *qp)
{
	unsigned long flags;

	spin_lock_irqsave(&qp->ev_lock, flags);
	if (!qp->in_err && !qp->dying) {
		WRITE_ONCE(qp->in_err, true);
		softib_count(qp->sdev->port, SOFTIB_C_err_moves, 1);
		if (qp->ib.srq &&
		    !softib_knob(qp->sdev->port, SOFTIB_K_lwqe_raw)) {
			qp->lwqe_due = true;
			qp->half_deadline = jiffies +
				msecs_to_jiffies(SOFTIB_HALF_LIMIT_MS);
			queue_delayed_work(qp->sdev->wq, &qp->ev_work,
					   softib_lwqe_delay(qp,
							     SOFTIB_SETTLE_MS));
		}
	}
	spin_unlock_irqrestore(&qp->ev_lock, flags);
}

/**
 * softib_event_modified - modify_qp(ERR) is about to return
 * @qp: the QP
 *
 * With the knob "inline" the LWQE is delivered here, as some HCAs do.
 * Context: process.
 */
void softib_event_modified(struct softib_qp *qp)
{
	bool due;

	if (!softib_knob(qp->sdev->port, SOFTIB_K_lwqe_inline))
		return;
	spin_lock_irq(&qp->ev_lock);
	due = qp->lwqe_due;
	qp->lwqe_due = false;
	spin_unlock_irq(&qp->ev_lock);
	if (due)
		softib_deliver(qp);
}

/**
 * softib_event_reset - the QP has left ERR
 * @qp: the QP
 *
 * Context: process.
 */
void softib_event_reset(struct softib_qp *qp)
{
	spin_lock_irq(&qp->ev_lock);
	WRITE_ONCE(qp->in_err, false);
	qp->lwqe_due = false;
	qp->lower_lwqe = false;
	spin_unlock_irq(&qp->ev_lock);
	cancel_delayed_work_sync(&qp->ev_work);
}

/**
 * softib_event_early - the QP is in RTR
 * @qp: the QP
 *
 * With the knob "early" it gets an LWQE already now.
 * Context: process.
 */
void softib_event_early(struct softib_qp *qp)
{
	if (qp->ib.srq && softib_take(qp->sdev->port, SOFTIB_K_lwqe_early))
		softib_raise(qp);
}

/**
 * softib_event_destroy - destroy_qp has begun
 * @qp: the QP
 *
 * With the knob "destroy" an LWQE comes in the middle of it.
 * Context: process.
 */
void softib_event_destroy(struct softib_qp *qp)
{
	if (!qp->ib.srq ||
	    !softib_take(qp->sdev->port, SOFTIB_K_lwqe_destroy))
		return;
	spin_lock_irq(&qp->ev_lock);
	qp->dup_due++;
	queue_delayed_work(qp->sdev->wq, &qp->dup_work, 0);
	spin_unlock_irq(&qp->ev_lock);
	flush_delayed_work(&qp->dup_work);
}

/**
 * softib_event_stay - destroying the QP has failed
 * @qp: the QP
 */
void softib_event_stay(struct softib_qp *qp)
{
	spin_lock_irq(&qp->ev_lock);
	qp->dying = false;
	spin_unlock_irq(&qp->ev_lock);
}

/**
 * softib_event_exit - no event of this QP from here on
 * @qp: the QP
 *
 * Context: process.
 */
void softib_event_exit(struct softib_qp *qp)
{
	spin_lock_irq(&qp->ev_lock);
	qp->dying = true;
	spin_unlock_irq(&qp->ev_lock);
	cancel_delayed_work_sync(&qp->ev_work);
	cancel_delayed_work_sync(&qp->dup_work);
	cancel_work_sync(&qp->raw_work);
}

/* rxe's own LWQE, once or many times for each move to ERR. */
static void softib_lower_lwqe(struct softib_qp *qp)
{
	struct softib_port *port = qp->sdev->port;
	bool inline_raw = false;
	unsigned long flags;

	softib_count(port, SOFTIB_C_lwqe_lower, 1);
	softib_event_error(qp);
	spin_lock_irqsave(&qp->ev_lock, flags);
	if (qp->dying) {
		;
	} else if (softib_knob(port, SOFTIB_K_lwqe_raw)) {
		inline_raw = softib_knob(port, SOFTIB_K_lwqe_inline);
		if (!inline_raw) {
			qp->raw_due++;
			queue_work(qp->sdev->wq, &qp->raw_work);
		}
	} else if (!qp->lower_lwqe && qp->lwqe_due) {
		qp->lower_lwqe = true;
		mod_delayed_work(qp->sdev->wq, &qp->ev_work,
				 softib_lwqe_delay(qp, 0));
	}
	spin_unlock_irqrestore(&qp->ev_lock, flags);
	if (inline_raw)
		softib_raise(qp);
}

/**
 * softib_event_lower - event handler of the lower QP
 * @ev: the event
 * @ctx: the softib_qp
 *
 * Context: any, under rxe's qp->state_lock.
 */
void softib_event_lower(struct ib_event *ev, void *ctx)
{
	if (ev->event == IB_EVENT_QP_LAST_WQE_REACHED)
		softib_lower_lwqe(ctx);
}
