// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * The drain engine.
 *
 *   LIVE -> ERROR -> FLUSH -> DRAIN -> REAP -> DONE
 *             |        |        |
 *             +--------+--------+--> SWEEP -> REAP -> SWEEP2 -> DONE
 *
 * A receive QP that shares an SRQ may be destroyed only when two things are
 * known: that the HCA has taken all the SRQ's WQEs it will ever take for this
 * QP (Last WQE Reached, IBA 10.3.1 and 11.6.3), and that all completions of
 * this QP have been polled (the flush completion of a send WR posted in ERR,
 * on the same CQ, stands behind them). Where a signal does not come, the QP is
 * condemned: the CQ is swept before and after the destruction. A signal that
 * IPOIB_DRAIN_MISSES QPs in a row went without is no longer waited for: see
 * enum ipoib_drain_strategy.
 *
 * Invariants:
 *
 * D1. A QP enters teardown once and is released once.
 *     Asserted: ipoib_drain_set_state() against ipoib_drain_legal[];
 *     begin() acts on LIVE only.
 * D2. A QP goes to the reaper with both signals, or swept after LWQE, or
 *     condemned, or assumed to be done under a strategy that does without LWQE;
 *     the last two are swept again once they are destroyed.
 *     Asserted: WARN in ipoib_drain_to_reap().
 * D3. At most @window drain WRs are outstanding on the CQ, at most one for
 *     each QP; a slot is free again when its completion has been polled or
 *     can come no more.
 *     Asserted: WARN in ipoib_drain_slot_take() and ipoib_drain_slot_put().
 * D4. A QP that enters ERROR goes to the reaper within the deadline, plus one
 *     sweep, plus the time of a verb already under way on it.
 *     Asserted: no wait state lacks its branch in ipoib_drain_late().
 * D5. One QP never delays another: nothing in here waits, no verb but a post
 *     is called in here, and the order of QPs matters only for window slots,
 *     which D4 frees.
 * D6. A drain WR is posted only to a QP that is known to be in ERR, and only
 *     by ipoib_drain_run().
 *     Asserted: WARN in ipoib_drain_post().
 * D7. Nothing that a completion carries is followed: slot and key are compared.
 * D8. No QP is touched after ops->release(), and none is released while a
 *     worker has it.
 *     Asserted: WARN in ipoib_drain_to_reap() on err_busy; only
 *     ipoib_drain_run() releases, and it runs once at a time.
 *
 * Non-hazards:
 *
 * N1. LWQE inside ib_modify_qp(), in hard interrupt, or for ever: it sets a
 *     bit under a lock that is never held across a verb.
 * N2. The flush completion overtakes the return of ops->post(): the state is
 *     DRAIN and the slot taken before the call.
 * N3. A worker reports and the QP is freed at once: the report is the last
 *     thing that a worker does with it.
 * N4. Completions after device death: they free nothing and prove nothing,
 *     set_dead() has condemned every QP already.
 * N5. The engine is entered from ops callbacks: none of them is called with
 *     the lock held but those that only signal (kick, arm, now, trace, count).
 */
#include <linux/bug.h>
#include <linux/kernel.h>
#include <linux/lockdep.h>
#include <linux/sched.h>
#include <linux/string.h>

#include "ipoib_cm_drain.h"

#define IPOIB_DRAIN_POST_TRIES	3
#define IPOIB_DRAIN_ERR_TRIES	2
#define IPOIB_DRAIN_SETTLE_DIV	32	/* of the deadline: what TIMED waits */

/* What ipoib_drain_step() wants done outside the lock. */
#define ACT_MOVE_ERR	BIT(0)
#define ACT_SWEEP	BIT(1)
#define ACT_REAP	BIT(2)
#define ACT_RELEASE	BIT(3)
#define ACT_NO_LWQE	BIT(4)
#define ACT_NO_FLUSH	BIT(5)

static void ipoib_drain_set_state(struct ipoib_drain_qp *q,
				  enum ipoib_drain_state to)
{
	enum ipoib_drain_state from = q->state;
	struct ipoib_drain *d = q->d;

	lockdep_assert_held(&d->lock);
	WARN_ONCE(!(ipoib_drain_legal[from] & BIT(to)), "drain: %s -> %s\n",
		  ipoib_drain_state_names[from], ipoib_drain_state_names[to]);
	q->state = to;
	d->ops->trace(q, from);
}

static void ipoib_drain_mark_ready(struct ipoib_drain_qp *q)
{
	struct ipoib_drain *d = q->d;

	lockdep_assert_held(&d->lock);
	if (list_empty(&q->ready))
		list_add_tail(&q->ready, &d->ready);
	d->ops->kick(d);
}

static void ipoib_drain_slot_take(struct ipoib_drain_qp *q)
{
	struct ipoib_drain *d = q->d;
	u32 slot;

	lockdep_assert_held(&d->lock);
	for (slot = 0; slot < d->window; slot++)
		if (!d->slots[slot])
			break;
	if (WARN_ON_ONCE(slot == d->window || q->slot != IPOIB_DRAIN_NO_SLOT))
		return;
	d->slots[slot] = q;
	d->nslots++;
	q->slot = slot;
}

static void ipoib_drain_slot_put(struct ipoib_drain_qp *q)
{
	struct ipoib_drain *d = q->d;

	lockdep_assert_held(&d->lock);
	if (q->slot == IPOIB_DRAIN_NO_SLOT)
		return;
	WARN_ON_ONCE(d->slots[q->slot] != q);
	d->slots[q->slot] = NULL;
	d->nslots--;
	q->slot = IPOIB_DRAIN_NO_SLOT;
}

/* Wait until the receive CQ has been swept from now on. */
static void ipoib_drain_wait_sweep(struct ipoib_drain_qp *q,
				   enum ipoib_drain_state to)
{
	struct ipoib_drain *d = q->d;

	lockdep_assert_held(&d->lock);
	ipoib_drain_set_state(q, to);
	list_del_init(&q->wait);
	q->ticket = ++d->sweep_want;
	list_add_tail(&q->wait, &d->sweeping);
}

static unsigned int ipoib_drain_to_sweep(struct ipoib_drain_qp *q)
{
	ipoib_drain_wait_sweep(q, IPOIB_DRAIN_SWEEP);
	if (!q->condemned)
		q->d->ops->count(q->d, q, IPOIB_CNT_drain_swept);
	return ACT_SWEEP;
}

/* The strategy does without LWQE for this QP. */
static unsigned int ipoib_drain_assume(struct ipoib_drain_qp *q)
{
	lockdep_assert_held(&q->d->lock);
	q->assumed = true;
	q->d->ops->count(q->d, q, IPOIB_CNT_drain_assumed);
	return ipoib_drain_to_sweep(q);
}

static void ipoib_drain_mark_all(struct ipoib_drain *d)
{
	struct ipoib_drain_qp *q;

	lockdep_assert_held(&d->lock);
	list_for_each_entry(q, &d->qps, node)
		ipoib_drain_mark_ready(q);
}

/* Change which signals are waited for; a wait that ends by it ends now. */
static void ipoib_drain_distrust(struct ipoib_drain *d, bool no_lwqe,
				 bool no_flush)
{
	lockdep_assert_held(&d->lock);
	if (d->no_lwqe == no_lwqe && d->no_flush == no_flush)
		return;
	d->no_lwqe = no_lwqe;
	d->no_flush = no_flush;
	d->ops->count(d, NULL, IPOIB_CNT_drain_strategy);
	if (d->ops->strategy)
		d->ops->strategy(d);
	ipoib_drain_mark_all(d);
}

static void ipoib_drain_missed(struct ipoib_drain *d, bool lwqe, bool flush)
{
	lockdep_assert_held(&d->lock);
	if (lwqe && d->lwqe_misses < IPOIB_DRAIN_MISSES)
		d->lwqe_misses++;
	if (flush && d->flush_misses < IPOIB_DRAIN_MISSES)
		d->flush_misses++;
	ipoib_drain_distrust(d, d->no_lwqe || d->lwqe_misses == IPOIB_DRAIN_MISSES,
			     d->no_flush || d->flush_misses == IPOIB_DRAIN_MISSES);
}

/* One LWQE restores the strategy; a flush restores the trust in flushes. */
static void ipoib_drain_seen(struct ipoib_drain *d, bool lwqe, bool flush)
{
	lockdep_assert_held(&d->lock);
	flush |= lwqe && d->no_lwqe;
	if (lwqe)
		d->lwqe_misses = 0;
	if (flush)
		d->flush_misses = 0;
	ipoib_drain_distrust(d, d->no_lwqe && !lwqe, d->no_flush && !flush);
}

static unsigned int ipoib_drain_to_reap(struct ipoib_drain_qp *q)
{
	lockdep_assert_held(&q->d->lock);
	WARN_ON_ONCE(q->err_busy);
	WARN_ON_ONCE(!q->rq_done && !q->condemned && !q->assumed);
	WARN_ON_ONCE(q->state == IPOIB_DRAIN_DRAIN && !q->sq_done);
	list_del_init(&q->wait);
	ipoib_drain_set_state(q, IPOIB_DRAIN_REAP);
	return ACT_REAP;
}

/* Give up on the signals: sweep, destroy, sweep. */
static unsigned int ipoib_drain_condemn(struct ipoib_drain_qp *q)
{
	const struct ipoib_drain_ops *ops = q->d->ops;
	unsigned int act;

	lockdep_assert_held(&q->d->lock);
	q->condemned = true;
	ops->count(q->d, q, IPOIB_CNT_drain_condemned);
	act = ipoib_drain_to_sweep(q);
	if (q->d->dead)
		return act;
	/*
	 * Out of ERR, or without a drain WR, a QP says nothing of the HCA. What
	 * a probe says comes by ipoib_drain_probed().
	 */
	if (q->in_err && !q->lied && q->reason != IPOIB_DRAIN_BY_PROBE)
		ipoib_drain_missed(q->d, !q->rq_done, !q->sq_done &&
				   q->slot != IPOIB_DRAIN_NO_SLOT);
	if (!q->rq_done) {
		ops->count(q->d, q, IPOIB_CNT_drain_no_lwqe);
		act |= ACT_NO_LWQE;
	}
	if (!q->sq_done && q->slot != IPOIB_DRAIN_NO_SLOT) {
		ops->count(q->d, q, IPOIB_CNT_drain_no_flush);
		act |= ACT_NO_FLUSH;
	}
	return act;
}

/* Have a worker move the QP to ERR, or see that it is there. */
static unsigned int ipoib_drain_ask(struct ipoib_drain_qp *q)
{
	lockdep_assert_held(&q->d->lock);
	q->err_tries++;
	q->err_busy = true;
	return ACT_MOVE_ERR;
}

/*
 * The ladder for a QP that waits in ERROR, FLUSH or DRAIN: half way to the
 * deadline look at the QP itself, at the deadline condemn it. Until the look is
 * over nothing is posted.
 */
static unsigned int ipoib_drain_late(struct ipoib_drain_qp *q, u64 now)
{
	struct ipoib_drain *d = q->d;

	lockdep_assert_held(&d->lock);
	if (now >= q->start + d->timeout)
		return ipoib_drain_condemn(q);
	if (q->nudged || now < q->start + d->timeout / 2)
		return 0;
	q->nudged = true;
	q->post_tries = min_t(u8, q->post_tries, IPOIB_DRAIN_POST_TRIES - 1);
	d->ops->count(d, q, IPOIB_CNT_drain_nudged);
	if (q->err_busy)
		return 0;
	list_del_init(&q->wait);
	q->err_tries = IPOIB_DRAIN_ERR_TRIES - 1;
	return ipoib_drain_ask(q);
}

/* A probe is there to see signals: it waits for those that are missed as well. */
static bool ipoib_drain_skips_lwqe(const struct ipoib_drain_qp *q)
{
	return q->d->no_lwqe && q->reason != IPOIB_DRAIN_BY_PROBE;
}

static bool ipoib_drain_skips_flush(const struct ipoib_drain_qp *q)
{
	return q->d->no_flush && q->reason != IPOIB_DRAIN_BY_PROBE;
}

/* Will a drain WR be of use to this QP, and can it ever be posted? */
static bool ipoib_drain_can_flush(const struct ipoib_drain_qp *q)
{
	return !q->no_sq && !ipoib_drain_skips_flush(q) &&
	       q->d->nkept < q->d->window;
}

/* No drain WR for this QP: sweep after LWQE, or after a while without. */
static unsigned int ipoib_drain_without_flush(struct ipoib_drain_qp *q, u64 now)
{
	struct ipoib_drain *d = q->d;
	u64 due = q->err_at + d->timeout / IPOIB_DRAIN_SETTLE_DIV;

	lockdep_assert_held(&d->lock);
	list_del_init(&q->wait);
	if (q->rq_done)
		return ipoib_drain_to_sweep(q);
	if (!ipoib_drain_skips_lwqe(q))
		return 0;
	if (now >= due)
		return ipoib_drain_assume(q);
	d->next_due = min(d->next_due, due);
	return 0;
}

static unsigned int ipoib_drain_step_error(struct ipoib_drain_qp *q, u64 now)
{
	struct ipoib_drain *d = q->d;

	if (q->err_busy)
		return 0;
	if (!q->in_err)
		return q->err_tries < IPOIB_DRAIN_ERR_TRIES ? ipoib_drain_ask(q) : 0;
	if (!ipoib_drain_can_flush(q))
		return ipoib_drain_without_flush(q, now);
	if (!q->rq_done && !q->nudged && !ipoib_drain_skips_lwqe(q))
		return 0;
	ipoib_drain_set_state(q, IPOIB_DRAIN_FLUSH);
	list_add_tail(&q->wait, &d->fifo);
	return 0;
}

static unsigned int ipoib_drain_step_flush(struct ipoib_drain_qp *q, u64 now)
{
	if (!q->in_err || q->err_busy)
		return 0;
	if (!ipoib_drain_can_flush(q))
		return ipoib_drain_without_flush(q, now);
	if (list_empty(&q->wait) && q->post_tries < IPOIB_DRAIN_POST_TRIES)
		list_add_tail(&q->wait, &q->d->fifo);
	return 0;
}

static unsigned int ipoib_drain_step_drain(struct ipoib_drain_qp *q)
{
	if (q->lied)
		return ipoib_drain_condemn(q);
	if (!q->sq_done || q->err_busy)
		return 0;
	if (!q->rq_done)
		return ipoib_drain_skips_lwqe(q) ? ipoib_drain_assume(q) : 0;
	return q->early ? ipoib_drain_to_sweep(q) : ipoib_drain_to_reap(q);
}

static bool ipoib_drain_is_swept(struct ipoib_drain_qp *q)
{
	return q->ticket <= q->d->sweep_done && !q->err_busy;
}

static void ipoib_drain_unlist(struct ipoib_drain_qp *q,
			       enum ipoib_drain_state to)
{
	lockdep_assert_held(&q->d->lock);
	ipoib_drain_set_state(q, to);
	list_del_init(&q->node);
	list_del_init(&q->ready);
	list_del_init(&q->wait);
	q->d->nqps--;
}

static unsigned int ipoib_drain_done(struct ipoib_drain_qp *q)
{
	ipoib_drain_slot_put(q);
	q->d->ops->count(q->d, q, IPOIB_CNT_drain_reaped);
	ipoib_drain_unlist(q, IPOIB_DRAIN_DONE);
	return ACT_RELEASE;
}

/* One look at one QP: change its state and say what to do outside the lock. */
static unsigned int ipoib_drain_step(struct ipoib_drain_qp *q, u64 now)
{
	unsigned int act;

	lockdep_assert_held(&q->d->lock);
	if (q->d->dead && q->state < IPOIB_DRAIN_SWEEP)
		return ipoib_drain_condemn(q);
	switch (q->state) {
	case IPOIB_DRAIN_ERROR:
		act = ipoib_drain_step_error(q, now);
		break;
	case IPOIB_DRAIN_FLUSH:
		act = ipoib_drain_step_flush(q, now);
		break;
	case IPOIB_DRAIN_DRAIN:
		act = ipoib_drain_step_drain(q);
		break;
	case IPOIB_DRAIN_SWEEP:
		return ipoib_drain_is_swept(q) ? ipoib_drain_to_reap(q) : 0;
	case IPOIB_DRAIN_REAP:
		return q->gone ? ipoib_drain_done(q) : 0;
	case IPOIB_DRAIN_SWEEP2:
		return ipoib_drain_is_swept(q) ? ipoib_drain_done(q) : 0;
	default:
		return 0;
	}
	return act ? act : ipoib_drain_late(q, now);
}

static void ipoib_drain_set_in_err(struct ipoib_drain_qp *q, bool in_err)
{
	lockdep_assert_held(&q->d->lock);
	if (in_err && !q->in_err)
		q->err_at = q->d->ops->now(q->d);
	q->in_err = in_err;
}

/* ACT_RELEASE comes alone and last: @q is gone afterwards. */
static void ipoib_drain_act(struct ipoib_drain_qp *q, unsigned int act)
{
	const struct ipoib_drain_ops *ops = q->d->ops;

	if (act & (ACT_NO_LWQE | ACT_NO_FLUSH))
		ops->missing(q, act & ACT_NO_LWQE, act & ACT_NO_FLUSH);
	if (act & ACT_SWEEP)
		ops->sweep(q->d);
	if (act & ACT_MOVE_ERR)
		ops->move_err(q);
	else if (act & ACT_REAP)
		ops->reap(q);
	else if (act & ACT_RELEASE)
		ops->release(q);
}

/* Post the drain WR of the QP at the head of the FIFO. */
static void ipoib_drain_post(struct ipoib_drain *d)
{
	struct ipoib_drain_qp *q;
	int err;

	lockdep_assert_held(&d->lock);
	q = list_first_entry(&d->fifo, struct ipoib_drain_qp, wait);
	list_del_init(&q->wait);
	WARN_ON_ONCE(!q->in_err);
	ipoib_drain_slot_take(q);
	q->early = !q->rq_done;
	ipoib_drain_set_state(q, IPOIB_DRAIN_DRAIN);
	spin_unlock_irq(&d->lock);

	err = d->ops->post(q, q->slot);

	spin_lock_irq(&d->lock);
	if (!err) {
		d->ops->count(d, q, IPOIB_CNT_drain_posted);
		return;
	}
	d->ops->count(d, q, IPOIB_CNT_drain_post_failed);
	ipoib_drain_slot_put(q);
	q->sq_done = false;
	q->post_tries++;
	ipoib_drain_set_state(q, IPOIB_DRAIN_FLUSH);
	ipoib_drain_mark_ready(q);
}

/* When the ladder, or the end of its settling, is next for a QP. */
static u64 ipoib_drain_due(const struct ipoib_drain_qp *q)
{
	const struct ipoib_drain *d = q->d;
	u64 due = q->start + (q->nudged ? d->timeout : d->timeout / 2);

	if (q->in_err && !q->rq_done && ipoib_drain_skips_lwqe(q) &&
	    q->state != IPOIB_DRAIN_DRAIN && !ipoib_drain_can_flush(q))
		due = min(due, q->err_at + d->timeout / IPOIB_DRAIN_SETTLE_DIV);
	return due;
}

/* Mark every QP ready that is due; find when the next one will be. */
static void ipoib_drain_expire(struct ipoib_drain *d, u64 now)
{
	struct ipoib_drain_qp *q;
	u64 due;

	lockdep_assert_held(&d->lock);
	d->next_due = U64_MAX;
	list_for_each_entry(q, &d->qps, node) {
		if (q->state >= IPOIB_DRAIN_SWEEP)
			continue;
		due = ipoib_drain_due(q);
		if (due <= now) {
			if (list_empty(&q->ready))
				list_add_tail(&q->ready, &d->ready);
			/* If this look does not end its wait, the next is: */
			due = q->start + d->timeout / 2;
			if (due <= now)
				due = q->start + d->timeout;
			if (due <= now)
				continue;
		}
		d->next_due = min(d->next_due, due);
		/* Without settling, those that began later are due later. */
		if (!d->no_lwqe && now < q->start + d->timeout / 2)
			break;
	}
}

static void ipoib_drain_collect_swept(struct ipoib_drain *d)
{
	struct ipoib_drain_qp *q, *next;

	lockdep_assert_held(&d->lock);
	list_for_each_entry_safe(q, next, &d->sweeping, wait) {
		if (q->ticket > d->sweep_done)
			break;
		list_del_init(&q->wait);
		if (list_empty(&q->ready))
			list_add_tail(&q->ready, &d->ready);
	}
}

static void ipoib_drain_step_ready(struct ipoib_drain *d)
{
	struct ipoib_drain_qp *q;
	unsigned int act;

	lockdep_assert_held(&d->lock);
	q = list_first_entry(&d->ready, struct ipoib_drain_qp, ready);
	list_del_init(&q->ready);
	act = ipoib_drain_step(q, d->ops->now(d));
	spin_unlock_irq(&d->lock);
	ipoib_drain_act(q, act);
	cond_resched();
	spin_lock_irq(&d->lock);
}

/**
 * ipoib_drain_run() - do what is due
 * @d: the engine
 *
 * Context: process, may sleep in ops; one run at a time (a work item).
 */
void ipoib_drain_run(struct ipoib_drain *d)
{
	u64 now = d->ops->now(d);

	spin_lock_irq(&d->lock);
	if (now >= d->next_due)
		ipoib_drain_expire(d, now);
	ipoib_drain_collect_swept(d);
	for (;;) {
		if (!list_empty(&d->ready))
			ipoib_drain_step_ready(d);
		else if (!list_empty(&d->fifo) && d->nslots < d->window)
			ipoib_drain_post(d);
		else
			break;
	}
	if (d->next_due != U64_MAX)
		d->ops->arm(d, d->next_due);
	spin_unlock_irq(&d->lock);
}

/**
 * ipoib_drain_begin() - take a QP into teardown
 * @q: the QP
 * @reason: why
 * @no_sq: it never reached RTS, so a drain WR would prove nothing
 *
 * The caller's reference to the connection passes to the engine when this
 * returns true, and comes back by ops->release().
 *
 * Context: any.
 * Return: true if this call began the teardown, false if it had begun.
 */
bool ipoib_drain_begin(struct ipoib_drain_qp *q, enum ipoib_drain_reason reason,
		       bool no_sq)
{
	struct ipoib_drain *d = q->d;
	unsigned long flags;
	bool first;

	spin_lock_irqsave(&d->lock, flags);
	first = q->state == IPOIB_DRAIN_LIVE;
	if (first) {
		q->reason = reason;
		q->no_sq = no_sq;
		q->start = d->ops->now(d);
		list_add_tail(&q->node, &d->qps);
		d->nqps++;
		d->next_due = min(d->next_due, q->start + d->timeout / 2);
		ipoib_drain_set_state(q, IPOIB_DRAIN_ERROR);
		d->ops->count(d, q, IPOIB_CNT_drain_started);
		ipoib_drain_mark_ready(q);
	}
	spin_unlock_irqrestore(&d->lock, flags);
	return first;
}

/**
 * ipoib_drain_err_done() - a worker has come back from ops->move_err()
 * @q: the QP; the worker must not touch it afterwards
 * @err: 0 if the QP is in ERR, or -errno
 *
 * Context: any.
 */
void ipoib_drain_err_done(struct ipoib_drain_qp *q, int err)
{
	struct ipoib_drain *d = q->d;
	unsigned long flags;

	spin_lock_irqsave(&d->lock, flags);
	q->err_busy = false;
	if (err)
		d->ops->count(d, q, IPOIB_CNT_drain_err_failed);
	ipoib_drain_set_in_err(q, !err);
	ipoib_drain_mark_ready(q);
	spin_unlock_irqrestore(&d->lock, flags);
}

/**
 * ipoib_drain_rq_done() - the HCA will complete no more receives of this QP
 * @q: the QP, in any state: LWQE was raised for it, or its own ring is empty
 *
 * Context: any, hard interrupt and the inside of ib_modify_qp() included.
 */
void ipoib_drain_rq_done(struct ipoib_drain_qp *q)
{
	struct ipoib_drain *d = q->d;
	unsigned long flags;

	spin_lock_irqsave(&d->lock, flags);
	if (q->rq_done)
		d->ops->count(d, q, IPOIB_CNT_drain_lwqe_dup);
	else if (q->state >= IPOIB_DRAIN_SWEEP)
		d->ops->count(d, q, IPOIB_CNT_drain_lwqe_late);
	else
		d->ops->count(d, q, IPOIB_CNT_drain_lwqe);
	q->rq_done = true;
	ipoib_drain_seen(d, true, false);
	if (!list_empty(&q->node))
		ipoib_drain_mark_ready(q);
	spin_unlock_irqrestore(&d->lock, flags);
}

/**
 * ipoib_drain_flushed() - a drain completion has been polled
 * @d: the engine
 * @slot: the cookie of the completion, any value
 * @key: the QP that the completion names
 * @status: status of the completion
 *
 * Context: any.
 */
void ipoib_drain_flushed(struct ipoib_drain *d, u32 slot, const void *key,
			 enum ib_wc_status status)
{
	struct ipoib_drain_qp *q = NULL;
	unsigned long flags;

	spin_lock_irqsave(&d->lock, flags);
	if (slot < d->window)
		q = d->slots[slot];
	if (!q || q->key != key) {
		d->ops->count(d, NULL, IPOIB_CNT_drain_unknown);
		goto unlock;
	}
	d->ops->count(d, q, status == IB_WC_WR_FLUSH_ERR ?
			    IPOIB_CNT_drain_flushed : IPOIB_CNT_drain_status_odd);
	if (q->condemned || d->dead)
		goto unlock;
	ipoib_drain_slot_put(q);
	q->lied = status == IB_WC_SUCCESS;
	q->sq_done = !q->lied;
	if (q->sq_done)
		ipoib_drain_seen(d, false, true);
	ipoib_drain_mark_ready(q);
unlock:
	spin_unlock_irqrestore(&d->lock, flags);
}

/**
 * ipoib_drain_sweep_begin() - the poller of the receive CQ starts a round
 * @d: the engine
 *
 * Context: any.
 * Return: a ticket to hand to ipoib_drain_sweep_end().
 */
u64 ipoib_drain_sweep_begin(struct ipoib_drain *d)
{
	unsigned long flags;
	u64 ticket;

	spin_lock_irqsave(&d->lock, flags);
	ticket = d->sweep_want;
	spin_unlock_irqrestore(&d->lock, flags);
	return ticket;
}

/**
 * ipoib_drain_sweep_end() - the poller of the receive CQ ends a round
 * @d: the engine
 * @ticket: what ipoib_drain_sweep_begin() gave for this round
 * @polled: completions polled, and handled, in this round
 * @empty: the CQ was seen empty
 *
 * A request is swept when the CQ was seen empty, or as many completions have
 * been polled as it has entries, since it was made.
 *
 * Context: any.
 */
void ipoib_drain_sweep_end(struct ipoib_drain *d, u64 ticket, u32 polled,
			   bool empty)
{
	unsigned long flags;

	spin_lock_irqsave(&d->lock, flags);
	if (ticket <= d->sweep_done)
		goto unlock;
	if (!empty) {
		if (d->sweep_cur <= d->sweep_done) {
			d->sweep_cur = ticket;
			d->sweep_left = d->cqe;
		}
		d->sweep_left -= min(d->sweep_left, polled);
		if (d->sweep_left)
			goto unlock;
		ticket = d->sweep_cur;
	}
	d->sweep_done = ticket;
	d->ops->kick(d);
unlock:
	spin_unlock_irqrestore(&d->lock, flags);
}

/**
 * ipoib_drain_reaped() - a worker has destroyed CM id and QP
 * @q: the QP; the worker must not touch it afterwards
 * @err: 0, or -errno of ib_destroy_qp(): then QP, connection and window slot
 *	are kept for ever, for the HCA may still own what they name
 *
 * Context: process.
 */
void ipoib_drain_reaped(struct ipoib_drain_qp *q, int err)
{
	struct ipoib_drain *d = q->d;
	bool sweep = false;

	spin_lock_irq(&d->lock);
	if (err) {
		d->ops->count(d, q, IPOIB_CNT_drain_kept);
		ipoib_drain_unlist(q, IPOIB_DRAIN_KEPT);
		d->nkept += q->slot != IPOIB_DRAIN_NO_SLOT;
		if (d->nkept == d->window)
			ipoib_drain_mark_all(d);
	} else if (q->condemned || q->assumed) {
		ipoib_drain_wait_sweep(q, IPOIB_DRAIN_SWEEP2);
		sweep = true;
	} else {
		q->gone = true;
		ipoib_drain_mark_ready(q);
	}
	spin_unlock_irq(&d->lock);
	if (sweep)
		d->ops->sweep(d);
}

/**
 * ipoib_drain_probed() - a QP made for the purpose has been drained
 * @d: the engine
 * @lwqe: it raised LWQE
 * @flush: it flushed a send WR posted in ERR
 *
 * Context: any.
 */
void ipoib_drain_probed(struct ipoib_drain *d, bool lwqe, bool flush)
{
	unsigned long flags;

	spin_lock_irqsave(&d->lock, flags);
	ipoib_drain_seen(d, lwqe, flush);
	ipoib_drain_missed(d, !lwqe, !flush);
	spin_unlock_irqrestore(&d->lock, flags);
}

/**
 * ipoib_drain_set_dead() - the HCA is gone
 * @d: the engine
 *
 * Nobody waits for signals that cannot come, and no completion is evidence.
 *
 * Context: any.
 */
void ipoib_drain_set_dead(struct ipoib_drain *d)
{
	unsigned long flags;

	spin_lock_irqsave(&d->lock, flags);
	d->dead = true;
	ipoib_drain_mark_all(d);
	spin_unlock_irqrestore(&d->lock, flags);
}

/**
 * ipoib_drain_set_timeout() - change the deadline, for teardowns under way too
 * @d: the engine
 * @timeout_ns: the new deadline
 *
 * Context: any.
 */
void ipoib_drain_set_timeout(struct ipoib_drain *d, u64 timeout_ns)
{
	unsigned long flags;

	spin_lock_irqsave(&d->lock, flags);
	d->timeout = timeout_ns;
	d->next_due = 0;
	d->ops->kick(d);
	spin_unlock_irqrestore(&d->lock, flags);
}

/**
 * ipoib_drain_idle() - is no QP in teardown?
 * @d: the engine
 *
 * Context: any.
 * Return: true if so; QPs that are kept for ever do not count.
 */
bool ipoib_drain_idle(struct ipoib_drain *d)
{
	unsigned long flags;
	bool idle;

	spin_lock_irqsave(&d->lock, flags);
	idle = !d->nqps;
	spin_unlock_irqrestore(&d->lock, flags);
	return idle;
}
