/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* States, reasons, strategies and counters of the drain engine. */
#ifndef IPOIB_CM_DRAIN_DEFS_H
#define IPOIB_CM_DRAIN_DEFS_H

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

/*
 * Why a teardown began: R(id, name, text). It travels with the QP into traces
 * and debugfs.
 */
#define IPOIB_DRAIN_REASONS(R)						\
	R(DREQ,		dreq,	    "the peer disconnected")		\
	R(IDLE,		idle,	    "no packet for rx_idle_timeout")	\
	R(STOP,		stop,	    "interface down, restarted, deleted") \
	R(CM,		cm,	    "rejected, RTU lost, or end of timewait") \
	R(ACCEPT,	accept,	    "set-up failed half way")		\
	R(SUPERSEDED,	superseded, "the peer has a newer connection")	\
	R(LWQE,		lwqe,	    "LWQE on a live QP")		\
	R(QP_EVENT,	qp_event,   "the HCA reported an error of the QP") \
	R(WC_ERROR,	wc_error,   "a receive completed in error")	\
	R(DEVICE,	device,	    "the HCA failed or was removed")	\
	R(PROBE,	probe,	    "made by the HCA probe")

enum ipoib_drain_reason {
#define R(id, name, text) IPOIB_DRAIN_BY_##id,
	IPOIB_DRAIN_REASONS(R)
#undef R
	IPOIB_DRAIN_NREASONS
};

/**
 * enum ipoib_drain_strategy - which signals of the HCA are waited for
 * @IPOIB_DRAIN_LWQE_FLUSH: both; what a QP is meant to do
 * @IPOIB_DRAIN_FLUSH_SWEEP: LWQE has been missed too often: drain WR at once,
 *	then sweep, destroy, sweep
 * @IPOIB_DRAIN_LWQE_SWEEP: the flush has been missed too often: no drain WR,
 *	sweep after LWQE
 * @IPOIB_DRAIN_TIMED: both have: wait a little in ERR, sweep, destroy, sweep
 */
enum ipoib_drain_strategy {
	IPOIB_DRAIN_LWQE_FLUSH,
	IPOIB_DRAIN_FLUSH_SWEEP,
	IPOIB_DRAIN_LWQE_SWEEP,
	IPOIB_DRAIN_TIMED,
	IPOIB_DRAIN_NSTRATEGIES
};

/* What the engine counts; one row is one counter of the port. */
#define IPOIB_DRAIN_COUNTERS(C)						\
	C(drain_started,	"receive QPs that entered teardown")	\
	C(drain_lwqe,		"LWQE events on QPs in teardown")	\
	C(drain_lwqe_dup,	"repeated LWQE events")			\
	C(drain_lwqe_late,	"LWQE events that were no longer waited for") \
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
	C(drain_assumed,	"QPs reaped without a signal known not to come") \
	C(drain_strategy,	"changes of strategy")			\
	C(drain_reaped,		"receive QPs reaped")			\
	C(drain_kept,		"receive QPs leaked: destroy failed")

enum ipoib_drain_counter {
#define C(id, text) IPOIB_CNT_##id,
	IPOIB_DRAIN_COUNTERS(C)
#undef C
	IPOIB_DRAIN_NCOUNTERS
};

#endif /* IPOIB_CM_DRAIN_DEFS_H */
