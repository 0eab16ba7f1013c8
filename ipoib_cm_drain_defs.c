// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* The drain engine at rest: names, legal transitions, beginnings. */
#include <linux/minmax.h>
#include <linux/string.h>

#include "ipoib_cm_drain.h"

const char *const ipoib_drain_state_names[IPOIB_DRAIN_NSTATES] = {
	[IPOIB_DRAIN_LIVE] = "LIVE",
	[IPOIB_DRAIN_ERROR] = "ERROR",
	[IPOIB_DRAIN_FLUSH] = "FLUSH",
	[IPOIB_DRAIN_DRAIN] = "DRAIN",
	[IPOIB_DRAIN_SWEEP] = "SWEEP",
	[IPOIB_DRAIN_REAP] = "REAP",
	[IPOIB_DRAIN_SWEEP2] = "SWEEP2",
	[IPOIB_DRAIN_DONE] = "DONE",
	[IPOIB_DRAIN_KEPT] = "KEPT",
};

const char *const ipoib_drain_reason_names[IPOIB_DRAIN_NREASONS] = {
#define R(id, name, text) [IPOIB_DRAIN_BY_##id] = #name,
	IPOIB_DRAIN_REASONS(R)
#undef R
};

const char *const ipoib_drain_strategy_names[IPOIB_DRAIN_NSTRATEGIES] = {
	[IPOIB_DRAIN_LWQE_FLUSH] = "lwqe+flush",
	[IPOIB_DRAIN_FLUSH_SWEEP] = "flush+sweep",
	[IPOIB_DRAIN_LWQE_SWEEP] = "lwqe+sweep",
	[IPOIB_DRAIN_TIMED] = "timed",
};

const u16 ipoib_drain_legal[IPOIB_DRAIN_NSTATES] = {
	[IPOIB_DRAIN_LIVE] = BIT(IPOIB_DRAIN_ERROR),
	[IPOIB_DRAIN_ERROR] = BIT(IPOIB_DRAIN_FLUSH) | BIT(IPOIB_DRAIN_SWEEP),
	[IPOIB_DRAIN_FLUSH] = BIT(IPOIB_DRAIN_DRAIN) | BIT(IPOIB_DRAIN_SWEEP),
	[IPOIB_DRAIN_DRAIN] = BIT(IPOIB_DRAIN_FLUSH) | BIT(IPOIB_DRAIN_SWEEP) |
			      BIT(IPOIB_DRAIN_REAP),
	[IPOIB_DRAIN_SWEEP] = BIT(IPOIB_DRAIN_REAP),
	[IPOIB_DRAIN_REAP] = BIT(IPOIB_DRAIN_SWEEP2) | BIT(IPOIB_DRAIN_DONE) |
			     BIT(IPOIB_DRAIN_KEPT),
	[IPOIB_DRAIN_SWEEP2] = BIT(IPOIB_DRAIN_DONE),
};

/**
 * ipoib_drain_init() - prepare an engine
 * @d: the engine
 * @ops: its surroundings
 * @window: drain WRs outstanding at a time, 1 to IPOIB_DRAIN_WINDOW; the CQ
 *	must have this many entries to spare
 * @cqe: entries of the CQ
 * @timeout_ns: deadline of a teardown
 */
void ipoib_drain_init(struct ipoib_drain *d, const struct ipoib_drain_ops *ops,
		      u32 window, u32 cqe, u64 timeout_ns)
{
	memset(d, 0, sizeof(*d));
	spin_lock_init(&d->lock);
	INIT_LIST_HEAD(&d->qps);
	INIT_LIST_HEAD(&d->ready);
	INIT_LIST_HEAD(&d->fifo);
	INIT_LIST_HEAD(&d->sweeping);
	d->ops = ops;
	d->window = clamp_t(u32, window, 1, IPOIB_DRAIN_WINDOW);
	d->cqe = cqe;
	d->timeout = timeout_ns;
	d->next_due = U64_MAX;
}

/**
 * ipoib_drain_qp_init() - prepare the engine's part of a live connection
 * @d: the engine
 * @q: the part
 * @key: the QP as completions name it; compared, never followed
 */
void ipoib_drain_qp_init(struct ipoib_drain *d, struct ipoib_drain_qp *q,
			 const void *key)
{
	memset(q, 0, sizeof(*q));
	INIT_LIST_HEAD(&q->node);
	INIT_LIST_HEAD(&q->ready);
	INIT_LIST_HEAD(&q->wait);
	q->d = d;
	q->key = key;
	q->slot = IPOIB_DRAIN_NO_SLOT;
}

/**
 * ipoib_drain_strategy() - which signals are waited for
 * @d: the engine
 *
 * Context: any.
 * Return: the present strategy.
 */
enum ipoib_drain_strategy ipoib_drain_strategy(const struct ipoib_drain *d)
{
	if (READ_ONCE(d->no_lwqe))
		return READ_ONCE(d->no_flush) ? IPOIB_DRAIN_TIMED :
						IPOIB_DRAIN_FLUSH_SWEEP;
	return READ_ONCE(d->no_flush) ? IPOIB_DRAIN_LWQE_SWEEP :
					IPOIB_DRAIN_LWQE_FLUSH;
}
