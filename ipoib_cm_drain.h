/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The drain engine: takes connected-mode receive QPs from the error state to
 * their end. It decides and keeps the list; verbs, clock and contexts come
 * through struct ipoib_drain_ops. See Documentation/cm-drain.rst.
 */
#ifndef IPOIB_CM_DRAIN_H
#define IPOIB_CM_DRAIN_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <rdma/ib_verbs.h>

#include "ipoib_cm_drain_defs.h"

struct ipoib_drain;
struct ipoib_drain_qp;

#define IPOIB_DRAIN_WINDOW	64	/* default W: CQ entries reserved for drain WRs */
#define IPOIB_DRAIN_NO_SLOT	U32_MAX
#define IPOIB_DRAIN_MISSES	3	/* in a row, then a signal is not waited for */

/* Legal transitions: bit TO is set in entry FROM. */
extern const u16 ipoib_drain_legal[IPOIB_DRAIN_NSTATES];
extern const char *const ipoib_drain_state_names[IPOIB_DRAIN_NSTATES];
extern const char *const ipoib_drain_reason_names[IPOIB_DRAIN_NREASONS];
extern const char *const ipoib_drain_strategy_names[IPOIB_DRAIN_NSTRATEGIES];

/**
 * struct ipoib_drain_ops - what the engine asks of its surroundings
 * @kick: have ipoib_drain_run() called soon; any context, lock held
 * @arm: have ipoib_drain_run() called at @when (ns); any context, lock held
 * @now: monotonic clock in ns; any context
 * @move_err: queue ib_modify_qp(ERR) on a worker, which then reports by
 *	ipoib_drain_err_done(); the second time (err_tries) it looks first if the
 *	QP is in ERR already; process context, no lock
 * @post: post the drain WR with the cookie @slot to the QP's own send queue;
 *	0 or -errno; process context, no lock
 * @sweep: make the CQ's poller run; process context, no lock
 * @reap: queue destruction of CM id and QP on a worker, which then reports by
 *	ipoib_drain_reaped(); process context, no lock
 * @release: the QP is gone for good, free what is left; last call for this QP;
 *	process context, no lock
 * @trace: a transition from @from to the present state; any context, lock held
 * @count: one event of kind @c, of @q if it is one of a QP (else NULL); any
 *	context, lock held
 * @strategy: the strategy has changed; any context, lock held; may be NULL
 * @missing: say once which signal was missing; process context, no lock
 */
struct ipoib_drain_ops {
	void (*kick)(struct ipoib_drain *d);
	void (*arm)(struct ipoib_drain *d, u64 when);
	u64 (*now)(struct ipoib_drain *d);
	void (*move_err)(struct ipoib_drain_qp *q);
	int (*post)(struct ipoib_drain_qp *q, u32 slot);
	void (*sweep)(struct ipoib_drain *d);
	void (*reap)(struct ipoib_drain_qp *q);
	void (*release)(struct ipoib_drain_qp *q);
	void (*trace)(struct ipoib_drain_qp *q, enum ipoib_drain_state from);
	void (*count)(struct ipoib_drain *d, const struct ipoib_drain_qp *q,
		      enum ipoib_drain_counter c);
	void (*strategy)(struct ipoib_drain *d);
	void (*missing)(struct ipoib_drain_qp *q, bool lwqe, bool flush);
};

/**
 * struct ipoib_drain_qp - the engine's part of one receive QP
 *
 * Embedded in the connection. All fields but @d and @key are guarded by
 * &struct ipoib_drain.lock once ipoib_drain_begin() has been called.
 *
 * @d: the engine
 * @key: the QP's identity in completions (struct ib_qp *), never followed
 * @node: on &struct ipoib_drain.qps while in teardown, in order of @start
 * @ready: on &struct ipoib_drain.ready while an event waits to be looked at
 * @wait: on &struct ipoib_drain.fifo or .sweeping
 * @state: set by one setter only
 * @reason: why the teardown began; a probe's waits for both signals, whatever
 *	the strategy
 * @start: when it began (ns)
 * @err_at: when it was known to be in ERR (ns)
 * @ticket: the sweep that it waits for
 * @slot: window slot held, or IPOIB_DRAIN_NO_SLOT
 * @post_tries: failed attempts to post the drain WR since the last look
 * @err_tries: moves to ERR that were asked for since the last look
 * @rq_done: LWQE seen, or the own receive ring is empty
 * @sq_done: flush completion of the drain WR seen
 * @in_err: the QP is known to be in ERR
 * @err_busy: a move to ERR is with a worker
 * @no_sq: never reached RTS, so a drain WR proves nothing: sweep instead
 * @early: the drain WR was posted before the receive side was known to be
 *	done, so its flush may stand before receive completions: sweep as well
 * @lied: the drain WR completed with success, so the QP was not in ERR
 * @gone: the reaper has destroyed the QP
 * @nudged: the half-way look has been taken
 * @condemned: reaped without both signals, which should have come
 * @assumed: reaped without LWQE, which is known not to come
 */
struct ipoib_drain_qp {
	struct ipoib_drain *d;
	const void *key;
	struct list_head node;
	struct list_head ready;
	struct list_head wait;
	enum ipoib_drain_state state;
	enum ipoib_drain_reason reason;
	u64 start;
	u64 err_at;
	u64 ticket;
	u32 slot;
	u8 post_tries;
	u8 err_tries;
	bool rq_done;
	bool sq_done;
	bool in_err;
	bool err_busy;
	bool no_sq;
	bool early;
	bool lied;
	bool gone;
	bool nudged;
	bool condemned;
	bool assumed;
};

/**
 * struct ipoib_drain - the drain engine of one port
 * @ops: see there
 * @lock: guards everything below and every struct ipoib_drain_qp in teardown;
 *	taken with interrupts off, innermost of all locks of the driver
 * @qps: the drain list, oldest first
 * @ready: QPs with news
 * @fifo: QPs that wait for a window slot
 * @sweeping: QPs that wait for a sweep, by ticket
 * @slots: QP that holds each slot of the window
 * @window: number of slots, at most IPOIB_DRAIN_WINDOW
 * @nslots: slots in use
 * @nkept: of these, slots that are never given back
 * @nqps: QPs on @qps
 * @sweep_want: newest ticket handed out
 * @sweep_done: newest ticket whose sweep is complete
 * @sweep_cur: ticket whose sweep a busy CQ is being counted for
 * @sweep_left: completions still to be polled for @sweep_cur
 * @cqe: entries of the receive CQ
 * @timeout: deadline of a teardown in ns
 * @next_due: when the ladder has to be looked at again (ns)
 * @lwqe_misses: @flush_misses: QPs in a row that went without the signal
 * @no_lwqe: @no_flush: too many: it is not waited for
 * @dead: the HCA is gone: wait for no signal, trust no completion
 */
struct ipoib_drain {
	const struct ipoib_drain_ops *ops;
	spinlock_t lock;
	struct list_head qps;
	struct list_head ready;
	struct list_head fifo;
	struct list_head sweeping;
	struct ipoib_drain_qp *slots[IPOIB_DRAIN_WINDOW];
	u32 window;
	u32 nslots;
	u32 nkept;
	u32 nqps;
	u64 sweep_want;
	u64 sweep_done;
	u64 sweep_cur;
	u32 sweep_left;
	u32 cqe;
	u64 timeout;
	u64 next_due;
	u8 lwqe_misses;
	u8 flush_misses;
	bool no_lwqe;
	bool no_flush;
	bool dead;
};

void ipoib_drain_init(struct ipoib_drain *d, const struct ipoib_drain_ops *ops,
		      u32 window, u32 cqe, u64 timeout_ns);
void ipoib_drain_qp_init(struct ipoib_drain *d, struct ipoib_drain_qp *q,
			 const void *key);
bool ipoib_drain_begin(struct ipoib_drain_qp *q, enum ipoib_drain_reason reason,
		       bool no_sq);
void ipoib_drain_err_done(struct ipoib_drain_qp *q, int err);
void ipoib_drain_rq_done(struct ipoib_drain_qp *q);
void ipoib_drain_flushed(struct ipoib_drain *d, u32 slot, const void *key,
			 enum ib_wc_status status);
u64 ipoib_drain_sweep_begin(struct ipoib_drain *d);
void ipoib_drain_sweep_end(struct ipoib_drain *d, u64 ticket, u32 polled,
			   bool empty);
void ipoib_drain_reaped(struct ipoib_drain_qp *q, int err);
void ipoib_drain_probed(struct ipoib_drain *d, bool lwqe, bool flush);
enum ipoib_drain_strategy ipoib_drain_strategy(const struct ipoib_drain *d);
void ipoib_drain_set_dead(struct ipoib_drain *d);
void ipoib_drain_set_timeout(struct ipoib_drain *d, u64 timeout_ns);
void ipoib_drain_run(struct ipoib_drain *d);
bool ipoib_drain_idle(struct ipoib_drain *d);

#endif /* IPOIB_CM_DRAIN_H */
