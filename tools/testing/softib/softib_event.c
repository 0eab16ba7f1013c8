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
#include <linux/delay.h>
#include <linux/jiffies.h>

#include "softib.h"
#include "softib_obj.h"

/* rxe's receiver has seen the ERR state for sure after this time. */
#define SOFTIB_SETTLE_MS	(SOFTIB_LOWER_LWQE ? 100 : 10)
#define SOFTIB_HALF_RETRY	msecs_to_jiffies(20)
#define SOFTIB_HALF_LIMIT_MS	2000

static void softib_up(struct softib_qp *qp, enum ib_event_type type)
{
	struct ib_event ev = {
		.device = qp->ib.device,
		.element.qp = &qp->ib,
		.event = type,
	};

	if (qp->ib.event_handler && !softib_dead(qp->sdev->port))
		qp->ib.event_handler(&ev, qp->ib.qp_context);
}

static void softib_raise(struct softib_qp *qp)
{
	softib_count(qp->sdev->port, SOFTIB_C_lwqe_raised, 1);
	softib_up(qp, IB_EVENT_QP_LAST_WQE_REACHED);
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

/* Take a number of events that are due. */
static unsigned int softib_due(struct softib_qp *qp, unsigned int *due)
{
	unsigned int n;

	spin_lock_irq(&qp->ev_lock);
	n = *due;
	*due = 0;
	spin_unlock_irq(&qp->ev_lock);
	return n;
}

/* Take the LWQE that a move to ERR owes. */
static bool softib_lwqe_due(struct softib_qp *qp)
{
	bool due;

	spin_lock_irq(&qp->ev_lock);
	due = qp->lwqe_due;
	qp->lwqe_due = false;
	spin_unlock_irq(&qp->ev_lock);
	return due;
}

static void softib_dup_work(struct work_struct *work)
{
	struct softib_qp *qp = container_of(work, struct softib_qp,
					    dup_work.work);
	unsigned int n = softib_due(qp, &qp->dup_due);

	while (n--)
		softib_raise(qp);
}

static void softib_raw_work(struct work_struct *work)
{
	struct softib_qp *qp = container_of(work, struct softib_qp, raw_work);
	unsigned int n = softib_due(qp, &qp->raw_due);

	while (n--)
		softib_deliver(qp);
}

/* The QP goes to ERR without having been asked to. */
static void softib_to_err(struct softib_qp *qp)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct softib_dev *sdev = qp->sdev;
	int ret = -EINVAL;

	mutex_lock(&sdev->qp_lock);
	if (qp->attr.qp_state != IB_QPS_RESET)
		ret = ib_modify_qp(qp->lower, &attr, IB_QP_STATE);
	mutex_unlock(&sdev->qp_lock);
	if (!ret)
		softib_event_error(qp);
}

static void softib_async_work(struct work_struct *work)
{
	struct softib_qp *qp = container_of(work, struct softib_qp, async_work);
	const unsigned long fatal = BIT(SOFTIB_EVENT_ERR) |
				    BIT(IB_EVENT_QP_FATAL) |
				    BIT(IB_EVENT_QP_REQ_ERR) |
				    BIT(IB_EVENT_QP_ACCESS_ERR);
	unsigned long due = xchg(&qp->async_due, 0);
	int type;

	if (due & fatal)
		softib_to_err(qp);
	if (due & BIT(IB_EVENT_QP_LAST_WQE_REACHED))
		softib_raise(qp);
	due &= ~(BIT(SOFTIB_EVENT_ERR) | BIT(IB_EVENT_QP_LAST_WQE_REACHED));
	for_each_set_bit(type, &due, BITS_PER_LONG)
		softib_up(qp, type);
}

/**
 * softib_event_async - something happens to a QP, soon
 * @qp: the QP, which has a lower one
 * @type: an event of QPs, or SOFTIB_EVENT_ERR; those that are errors move the
 *	QP to ERR first, LWQE comes whatever its state
 *
 * Context: any.
 */
void softib_event_async(struct softib_qp *qp, unsigned int type)
{
	unsigned long flags;

	spin_lock_irqsave(&qp->ev_lock, flags);
	if (!qp->dying) {
		set_bit(type, &qp->async_due);
		queue_work(qp->sdev->wq, &qp->async_work);
	}
	spin_unlock_irqrestore(&qp->ev_lock, flags);
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

static void softib_half_flush(struct softib_qp *qp, struct softib_slot *slot,
			      bool lost)
{
	struct ib_wc wc = {
		.wr_id = slot->wr_id,
		.status = IB_WC_WR_FLUSH_ERR,
		.opcode = IB_WC_RECV,
		.qp = &qp->ib,
		.port_num = SOFTIB_PORT_NUM,
	};
	struct softib_port *port = qp->sdev->port;

	lost = lost || softib_take(port, SOFTIB_K_lost) ||
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
 * Flush (or lose) the WQE of a half-received message, which rxe drops. Returns
 * 0 if none is held any more, -EAGAIN if another QP seems to be as far in a
 * message, so that it cannot be told now, -ENOENT if it is not found.
 */
static int softib_half(struct softib_qp *qp, bool lost)
{
	struct softib_slot *slot;
	unsigned int n;
	u32 packets;

	softib_cq_pull(to_scq(qp->ib.recv_cq));
	packets = softib_half_packets(qp);
	if (!packets || !qp->rq->shared)
		return 0;
	slot = softib_half_slot(qp->rq, packets *
				ib_mtu_enum_to_int(qp->attr.path_mtu), &n);
	if (n != 1)
		return n ? -EAGAIN : -ENOENT;
	softib_half_flush(qp, slot, lost);
	return 0;
}

/* The same with patience, for those who can wait. */
static void softib_half_wait(struct softib_qp *qp, bool lost)
{
	unsigned long end = jiffies +
			    msecs_to_jiffies(SOFTIB_HALF_LIMIT_MS / 10);
	int ret;

	while ((ret = softib_half(qp, lost)) && time_before(jiffies, end))
		msleep(20);
	if (ret)
		softib_count(qp->sdev->port, SOFTIB_C_half_unknown, 1);
}

static void softib_ev_work(struct work_struct *work)
{
	struct softib_qp *qp = container_of(work, struct softib_qp,
					    ev_work.work);
	int ret = softib_half(qp, false);

	if (ret == -EAGAIN && time_before(jiffies, qp->half_deadline)) {
		spin_lock_irq(&qp->ev_lock);
		if (!qp->dying)
			queue_delayed_work(qp->sdev->wq, &qp->ev_work,
					   SOFTIB_HALF_RETRY);
		spin_unlock_irq(&qp->ev_lock);
		return;
	}
	if (ret)
		softib_count(qp->sdev->port, SOFTIB_C_half_unknown, 1);
	if (softib_lwqe_due(qp))
		softib_deliver(qp);
}

void softib_event_init(struct softib_qp *qp)
{
	spin_lock_init(&qp->ev_lock);
	INIT_DELAYED_WORK(&qp->ev_work, softib_ev_work);
	INIT_DELAYED_WORK(&qp->dup_work, softib_dup_work);
	INIT_WORK(&qp->raw_work, softib_raw_work);
	INIT_WORK(&qp->async_work, softib_async_work);
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
 * With the knob "inline" the LWQE is delivered here, as some HCAs do, and as
 * always behind the flush of what had been received by half.
 * Context: process.
 */
void softib_event_modified(struct softib_qp *qp)
{
	unsigned long end = jiffies + msecs_to_jiffies(SOFTIB_SETTLE_MS);

	if (!softib_knob(qp->sdev->port, SOFTIB_K_lwqe_inline) ||
	    !softib_lwqe_due(qp))
		return;
	cancel_delayed_work_sync(&qp->ev_work);
	while (!READ_ONCE(qp->lower_lwqe) && time_before(jiffies, end))
		usleep_range(500, 1000);
	softib_half_wait(qp, false);
	softib_deliver(qp);
}

/**
 * softib_event_abandon - the QP is about to be reset or destroyed
 * @qp: the QP, after softib_event_exit()
 *
 * The WQE of a message that it had received by half, and whose flush the user
 * has not waited for, goes with it: an SRQ's WR is lost.
 * Context: process.
 */
void softib_event_abandon(struct softib_qp *qp)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	if (!qp->rq->shared || qp->rx_error ||
	    qp->attr.qp_state < IB_QPS_RTR)
		return;
	if (!ib_modify_qp(qp->lower, &attr, IB_QP_STATE))
		softib_half_wait(qp, true);
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
 * softib_event_stay - the QP has been reset, or destroying it has failed
 * @qp: the QP
 *
 * Context: process. It may have events again.
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
	cancel_work_sync(&qp->async_work);
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
	} else if (!qp->lower_lwqe) {
		WRITE_ONCE(qp->lower_lwqe, true);
		if (qp->lwqe_due)
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
	else
		softib_event_async(ctx, ev->event);
}
