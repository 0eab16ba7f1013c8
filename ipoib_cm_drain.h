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

struct ipoib_drain;
struct ipoib_drain_qp;

#define IPOIB_DRAIN_WINDOW	64	/* default W: CQ entries reserved for drain WRs */
#define IPOIB_DRAIN_NO_SLOT	U32_MAX

/**
 * enum ipoib_drain_state - where a receive QP stands in its teardown
 * @IPOIB_DRAIN_LIVE: not in teardown
 * @IPOIB_DRAIN_ERROR: asked for ERR; receive side not known to be done
 * @IPOIB_DRAIN_FLUSH: receive side done, QP in ERR; waits for a window slot
 * @IPOIB_DRAIN_DRAIN: drain WR posted; waits for its flush completion
 * @IPOIB_DRAIN_SWEEP: waits until the receive CQ has been swept
 * @IPOIB_DRAIN_REAP: handed to the reaper, which destroys CM id and QP
 * @IPOIB_DRAIN_SWEEP2: condemned and destroyed; waits for the last sweep
 * @IPOIB_DRAIN_DONE: given back to its owner; the engine knows it no more
 * @IPOIB_DRAIN_KEPT: ib_destroy_qp() failed; a counted leak, never freed
 */
enum ipoib_drain_state {
	IPOIB_DRAIN_LIVE,
	IPOIB_DRAIN_ERROR,
	IPOIB_DRAIN_FLUSH,
	IPOIB_DRAIN_DRAIN,
	IPOIB_DRAIN_SWEEP,
	IPOIB_DRAIN_REAP,
	IPOIB_DRAIN_SWEEP2,
	IPOIB_DRAIN_DONE,
	IPOIB_DRAIN_KEPT,
	IPOIB_DRAIN_NSTATES
};

/* Why a teardown began; travels with the QP into traces, debugfs and counters. */
#define IPOIB_DRAIN_REASONS(R)						\
	R(DREQ,		"dreq")		/* peer disconnected */		\
	R(IDLE,		"idle")		/* no packet for rx_idle_timeout */ \
	R(STOP,		"stop")		/* interface down, mode, delete */ \
	R(CM,		"cm")		/* REJ, RTU lost, timewait */	\
	R(ACCEPT,	"accept")	/* set-up failed half way */	\
	R(SUPERSEDED,	"superseded")	/* peer has a newer connection */ \
	R(LWQE,		"lwqe")		/* LWQE on a live QP */		\
	R(QP_EVENT,	"qp_event")	/* QP fatal, request, access */	\
	R(WC_ERROR,	"wc_error")	/* receive completed in error */ \
	R(DEVICE,	"device")	/* HCA fatal or removed */

enum ipoib_drain_reason {
#define R(id, name) IPOIB_DRAIN_BY_##id,
	IPOIB_DRAIN_REASONS(R)
#undef R
	IPOIB_DRAIN_NREASONS
};

/* Legal transitions: bit TO is set in entry FROM. */
extern const u16 ipoib_drain_legal[IPOIB_DRAIN_NSTATES];
extern const char *const ipoib_drain_state_names[IPOIB_DRAIN_NSTATES];
extern const char *const ipoib_drain_reason_names[IPOIB_DRAIN_NREASONS];

/* What the engine counts; one row is one counter of the port. */
#define IPOIB_DRAIN_COUNTERS(C)						\
	C(drain_started,	"receive QPs that entered teardown")	\
	C(drain_lwqe,		"LWQE events on QPs in teardown")	\
	C(drain_lwqe_dup,	"repeated LWQE events")			\
	C(drain_posted,		"drain WRs posted")			\
	C(drain_post_failed,	"drain WRs that could not be posted")	\
	C(drain_flushed,	"drain WRs that completed with a flush")\
	C(drain_status_odd,	"drain WRs that completed otherwise")	\
	C(drain_unknown,	"drain completions that match no drain")\
	C(drain_err_failed,	"moves to the error state that failed")	\
	C(drain_nudged,		"QPs asked again half way to the deadline") \
	C(drain_condemned,	"QPs reaped without both signals")	\
	C(drain_no_lwqe,	"QPs condemned for want of an LWQE")	\
	C(drain_no_flush,	"QPs condemned for want of a flush")	\
	C(drain_swept,		"QPs reaped after a sweep of the CQ")	\
	C(drain_reaped,		"receive QPs reaped")			\
	C(drain_kept,		"receive QPs leaked: destroy failed")

enum ipoib_drain_counter {
#define C(id, text) IPOIB_CNT_##id,
	IPOIB_DRAIN_COUNTERS(C)
#undef C
	IPOIB_DRAIN_NCOUNTERS
};

/**
 * struct ipoib_drain_ops - what the engine asks of its surroundings
 * @kick: have ipoib_drain_run() called soon; any context, lock held
 * @arm: have ipoib_drain_run() called at @when (ns); any context, lock held
 * @now: monotonic clock in ns; any context
 * @move_err: queue ib_modify_qp(ERR) on a worker, which then reports by
 *	ipoib_drain_err_done(); process context, no lock
 * @post: post the drain WR with the cookie @slot to the QP's own send queue;
 *	0 or -errno; process context, no lock
 * @query: is the QP in ERR? 1, 0 or -errno; process context, no lock
 * @sweep: make the CQ's poller run; process context, no lock
 * @reap: queue destruction of CM id and QP on a worker, which then reports by
 *	ipoib_drain_reaped(); process context, no lock
 * @release: the QP is gone for good, free what is left; last call for this QP;
 *	process context, no lock
 * @trace: a transition from @from to the present state; any context, lock held
 * @count: one event of kind @c; any context, lock held
 * @missing: say once which signal was missing; process context, no lock
 */
struct ipoib_drain_ops {
	void (*kick)(struct ipoib_drain *d);
	void (*arm)(struct ipoib_drain *d, u64 when);
	u64 (*now)(struct ipoib_drain *d);
	void (*move_err)(struct ipoib_drain_qp *q);
	int (*post)(struct ipoib_drain_qp *q, u32 slot);
	int (*query)(struct ipoib_drain_qp *q);
	void (*sweep)(struct ipoib_drain *d);
	void (*reap)(struct ipoib_drain_qp *q);
	void (*release)(struct ipoib_drain_qp *q);
	void (*trace)(struct ipoib_drain_qp *q, enum ipoib_drain_state from);
	void (*count)(struct ipoib_drain *d, enum ipoib_drain_counter c);
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
 * @reason: why the teardown began
 * @start: when it began (ns)
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
 * @condemned: reaped without both signals
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
 * @nqps: QPs on @qps
 * @sweep_want: newest ticket handed out
 * @sweep_done: newest ticket whose sweep is complete
 * @sweep_cur: ticket whose sweep a busy CQ is being counted for
 * @sweep_left: completions still to be polled for @sweep_cur
 * @cqe: entries of the receive CQ
 * @timeout: deadline of a teardown in ns
 * @next_due: when the ladder has to be looked at again (ns)
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
	u32 nqps;
	u64 sweep_want;
	u64 sweep_done;
	u64 sweep_cur;
	u32 sweep_left;
	u32 cqe;
	u64 timeout;
	u64 next_due;
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
void ipoib_drain_set_dead(struct ipoib_drain *d);
void ipoib_drain_set_timeout(struct ipoib_drain *d, u64 timeout_ns);
void ipoib_drain_run(struct ipoib_drain *d);
bool ipoib_drain_idle(struct ipoib_drain *d);

#endif /* IPOIB_CM_DRAIN_H */
