// SPDX-License-Identifier: GPL-2.0-only
/* The fake HCA, the engine's surroundings, and what can happen to them. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "world.h"

struct world w;
struct config cfg;
bool telling;
char violation[256];

static unsigned int sentence;	/* of the story */
static bool verb_fails;		/* choice for the next verb of the run */
static bool verb_failed;	/* it came to that */
static bool called;		/* the run has called something in this step */

/* Counters against transitions, over one event. */
static unsigned int counted[IPOIB_DRAIN_NCOUNTERS];
static unsigned int began, reaped, kept;

/* Misses when the last QP was condemned. */
static unsigned int lwqe_misses, flush_misses;

void violate(const char *fmt, ...)
{
	va_list ap;

	if (violation[0])
		return;
	va_start(ap, fmt);
	vsnprintf(violation, sizeof(violation), fmt, ap);
	va_end(ap);
}

void tell(const char *fmt, ...)
{
	va_list ap;

	if (!telling)
		return;
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
}

void shim_warn(const char *file, int line, const char *what)
{
	const char *base = strrchr(file, '/');

	violate("WARN at %s:%d: %s", base ? base + 1 : file, line, what);
}

static unsigned int index_of(const struct ipoib_drain_qp *q)
{
	return q - w.q;
}

bool qp_in_teardown(unsigned int q)
{
	return !w.h[q].released && w.q[q].state > IPOIB_DRAIN_LIVE &&
	       w.q[q].state < IPOIB_DRAIN_DONE;
}

/* Completions in the CQ that belong to a WR of this QP. */
unsigned int cq_count(unsigned int q)
{
	unsigned int i, n = 0;

	for (i = 0; i < w.cq_len; i++)
		n += (w.cq[i] & 15) == q && (w.cq[i] & 0xf0) < CQE_DUP;
	return n;
}

static void cq_push(enum cqe type, unsigned int q)
{
	if (w.cq_len == MAX_CQ) {
		violate("the model's CQ is too small");
		return;
	}
	w.cq[w.cq_len++] = type | q;
}

/*
 * The engine's surroundings
 */

static void pause_run(enum pause at, unsigned int q, int rc)
{
	if (w.d.lock.held)
		violate("a verb is called under the lock");
	w.pause = at;
	w.paused_q = q;
	w.paused_rc = rc;
	coro_pause();
}

/*
 * The end of a step. If it called nothing, then whatever comes in between could
 * as well have come before it.
 */
void shim_resched(void)
{
	if (!called)
		return;
	called = false;
	pause_run(PAUSE_RESCHED, 0, 0);
}

static unsigned int enter_op(struct ipoib_drain_qp *q)
{
	unsigned int i = index_of(q);

	if (w.d.lock.held)
		violate("QP%u: a verb is called under the lock", i);
	if (w.h[i].released)
		violate("D8: QP%u is used after its release", i);
	called = true;
	return i;
}

static void op_kick(struct ipoib_drain *d)
{
	lockdep_assert_held(&d->lock);
	w.kick = true;
}

/* A timer that is late is a run that is late. */
static void fire_timer(void)
{
	if (w.armed > w.now)
		return;
	w.armed = NEVER;
	w.kick = true;
}

static void op_arm(struct ipoib_drain *d, u64 when)
{
	lockdep_assert_held(&d->lock);
	w.armed = when;
	fire_timer();
}

static u64 op_now(struct ipoib_drain *d)
{
	(void)d;
	return w.now;
}

static void op_move_err(struct ipoib_drain_qp *q)
{
	struct hca_qp *h = &w.h[enter_op(q)];

	if (h->move != VERB_NONE)
		violate("QP%u is given to a second worker", index_of(q));
	if (h->reap != VERB_NONE)
		violate("QP%u is moved to ERR while it is destroyed", index_of(q));
	h->move = VERB_QUEUED;
	tell("#         engine: asks a worker to move QP%u to ERR\n", index_of(q));
}

static bool choose_failure(void)
{
	verb_failed = verb_fails;
	verb_fails = false;
	if (verb_failed)
		tell("#         which fails\n");
	return verb_failed;
}

static int take_wr(unsigned int i, u32 slot)
{
	struct hca_qp *h = &w.h[i];

	if (slot >= w.d.window)
		violate("D3: QP%u: drain WR with slot %u of %u", i, slot, w.d.window);
	if (h->wr != WR_NONE)
		violate("D3: QP%u has a second drain WR", i);
	if (h->state == HCA_GONE)
		violate("D8: a drain WR is posted to QP%u, which is gone", i);
	if (i < cfg.rtr)
		violate("QP%u never was in RTS, yet gets a drain WR", i);
	if (h->state != HCA_ERR && !h->liar && !w.dead)
		violate("D6: QP%u is not in ERR when the drain WR is posted", i);
	h->wr = h->state == HCA_ERR ? WR_FLUSHING : WR_SENT;
	h->slot = slot;
	return 0;
}

static int op_post(struct ipoib_drain_qp *q, u32 slot)
{
	unsigned int i = enter_op(q);
	int rc;

	tell("#         engine: posts the drain WR of QP%u, slot %u\n", i, slot);
	rc = choose_failure() ? -ENOMEM : take_wr(i, slot);
	called = false;
	pause_run(PAUSE_POSTED, i, rc);
	return rc;
}

static void op_sweep(struct ipoib_drain *d)
{
	if (d->lock.held)
		violate("a sweep is asked for under the lock");
	w.sweep_asked = true;
	called = true;
}

static void op_reap(struct ipoib_drain_qp *q)
{
	unsigned int i = enter_op(q);
	struct hca_qp *h = &w.h[i];

	if (h->reap != VERB_NONE)
		violate("D1: QP%u is reaped twice", i);
	if (h->move != VERB_NONE)
		violate("D8: QP%u is reaped while a worker moves it to ERR", i);
	if (h->wr == WR_SUCCESS && !q->condemned)
		violate("D2: QP%u is reaped on a drain WR that was transmitted", i);
	if (!q->condemned && !q->assumed && !h->liar) {
		if (h->held)
			violate("D2: QP%u is reaped, but owns a receive WQE", i);
		if (cq_count(i))
			violate("D2: QP%u is reaped, but has completions in the CQ", i);
		if (h->wr == WR_FLUSHING || h->wr == WR_SENT)
			violate("D2: QP%u is reaped, but its drain WR is outstanding", i);
	}
	if (i < cfg.probes && i >= cfg.rtr && !q->condemned && h->wr == WR_NONE &&
	    w.d.nkept < w.d.window)
		violate("QP%u is a probe and gets no drain WR", i);
	h->reap = VERB_QUEUED;
	tell("#         engine: hands QP%u to the reaper%s\n", i,
	     q->condemned ? ", condemned" : q->assumed ? ", without LWQE" : "");
}

static void op_release(struct ipoib_drain_qp *q)
{
	unsigned int i = enter_op(q);
	struct hca_qp *h = &w.h[i];

	if (h->state != HCA_GONE || h->reap != VERB_NONE || h->move != VERB_NONE)
		violate("D8: QP%u is released while it exists or a worker has it", i);
	if (!h->liar && (cq_count(i) || h->held || h->wr == WR_FLUSHING ||
			 h->wr == WR_SENT))
		violate("D2: QP%u is released, but can still complete", i);
	/* As the driver's probe does. */
	if (i < cfg.probes && !w.d.dead && q->in_err && !q->lied)
		ipoib_drain_probed(&w.d, q->rq_done, q->sq_done);
	h->released = true;
	memset(q, 0x5a, sizeof(*q));
	tell("#         engine: releases QP%u\n", i);
}

static void op_trace(struct ipoib_drain_qp *q, enum ipoib_drain_state from)
{
	lockdep_assert_held(&q->d->lock);
	if (w.h[index_of(q)].released)
		violate("D8: QP%u changes state after its release", index_of(q));
	if (from == IPOIB_DRAIN_ERROR && q->state == IPOIB_DRAIN_FLUSH &&
	    !q->rq_done && !q->nudged &&
	    (!w.d.no_lwqe || index_of(q) < cfg.probes))
		violate("QP%u does not wait for LWQE", index_of(q));
	if (from == IPOIB_DRAIN_DRAIN && q->assumed && index_of(q) < cfg.probes)
		violate("QP%u is a probe and does not wait for LWQE", index_of(q));
	if (q->state == IPOIB_DRAIN_SWEEP) {
		lwqe_misses = q->d->lwqe_misses;
		flush_misses = q->d->flush_misses;
	}
	began += q->state == IPOIB_DRAIN_ERROR && from == IPOIB_DRAIN_LIVE;
	reaped += q->state == IPOIB_DRAIN_DONE;
	kept += q->state == IPOIB_DRAIN_KEPT;
	tell("#         engine: QP%u %s -> %s\n", index_of(q),
	     ipoib_drain_state_names[from], ipoib_drain_state_names[q->state]);
}

static void op_count(struct ipoib_drain *d, const struct ipoib_drain_qp *q,
		     enum ipoib_drain_counter c)
{
	(void)q;
	lockdep_assert_held(&d->lock);
	counted[c]++;
}

static void op_missing(struct ipoib_drain_qp *q, bool lwqe, bool flush)
{
	unsigned int i = enter_op(q);

	if (!q->condemned || lwqe != !q->rq_done ||
	    flush != (!q->sq_done && q->slot != IPOIB_DRAIN_NO_SLOT))
		violate("QP%u: the wrong signal is said to be missing", i);
	if (i < cfg.probes && (lwqe_misses != q->d->lwqe_misses ||
			       flush_misses != q->d->flush_misses))
		violate("QP%u is a probe, and its misses count twice", i);
	tell("#         engine: QP%u misses%s%s\n", i, lwqe ? " LWQE" : "",
	     flush ? " the flush" : "");
}

static void op_strategy(struct ipoib_drain *d)
{
	lockdep_assert_held(&d->lock);
	tell("#         engine: strategy %s\n",
	     ipoib_drain_strategy_names[ipoib_drain_strategy(d)]);
}

static const struct ipoib_drain_ops ops = {
	.kick = op_kick,
	.arm = op_arm,
	.now = op_now,
	.move_err = op_move_err,
	.post = op_post,
	.sweep = op_sweep,
	.reap = op_reap,
	.release = op_release,
	.trace = op_trace,
	.count = op_count,
	.strategy = op_strategy,
	.missing = op_missing,
};

static void run_for_ever(void)
{
	for (;;) {
		w.pause = PAUSE_IDLE;
		w.paused_q = 0;
		w.paused_rc = 0;
		coro_pause();
		ipoib_drain_run(&w.d);
	}
}

void world_init(const struct config *c)
{
	unsigned int i;

	cfg = *c;
	sentence = 0;
	memset(&w, 0, sizeof(w));
	w.armed = NEVER;
	ipoib_drain_init(&w.d, &ops, cfg.window, cfg.cqe, TIMEOUT);
	for (i = 0; i < IPOIB_DRAIN_MISSES; i++)
		ipoib_drain_probed(&w.d, i < IPOIB_DRAIN_MISSES - cfg.lwqe_misses,
				   i < IPOIB_DRAIN_MISSES - cfg.flush_misses);
	w.kick = false;
	for (i = 0; i < cfg.qps; i++) {
		w.h[i].state = i < cfg.rtr ? HCA_RTR : HCA_RTS;
		w.h[i].held = !cfg.bare;
		ipoib_drain_qp_init(&w.d, &w.q[i], &w.h[i]);
	}
	coro_init(run_for_ever);
}

/*
 * Events
 */

static bool tick_enabled(void)
{
	unsigned int i;

	if (w.armed != NEVER && w.armed > w.now)
		return true;
	for (i = 0; i < cfg.qps; i++)
		if (qp_in_teardown(i) && w.now < w.q[i].start + w.d.timeout)
			return true;
	return false;
}

static bool owner_event_enabled(enum event_id id, unsigned int q)
{
	const struct hca_qp *h = &w.h[q];

	switch (id) {
	case EV_RUN:
	case EV_VERB_FAILS:
		return w.pause != PAUSE_IDLE || w.kick;
	case EV_BEGIN:
		return !h->released && w.q[q].state == IPOIB_DRAIN_LIVE;
	case EV_MOVED:
	case EV_MOVE_FAILS:
		return h->move == VERB_QUEUED;
	case EV_MOVE_LIES:
		return h->move == VERB_QUEUED && h->state == HCA_RTS;
	case EV_MOVE_OVER:
		return h->move > VERB_QUEUED;
	case EV_DESTROYED:
	case EV_DESTROY_FAILS:
		return h->reap == VERB_QUEUED;
	case EV_DESTROY_NOISY:
		return h->reap == VERB_QUEUED &&
		       (h->held || h->wr == WR_FLUSHING);
	case EV_ROUND:
		return !w.round && (w.cq_len || w.sweep_asked);
	case EV_POLL:
		return w.round;
	case EV_ROUND_OVER:
		return w.round && w.polled;
	case EV_SET_DEAD:
		return w.dead && !w.d.dead;
	case EV_RETIME:
		return !w.retimed;
	default:
		return tick_enabled();
	}
}

static bool hca_event_enabled(enum event_id id, unsigned int q)
{
	const struct hca_qp *h = &w.h[q];
	bool exists = h->state != HCA_GONE;

	switch (id) {
	case EV_RECV:
		return exists && h->held;
	case EV_SPONTANEOUS:
		return !w.dead && (h->state == HCA_RTS || h->state == HCA_RTR);
	case EV_LWQE:
		return !w.dead && h->state == HCA_ERR && !h->held;
	case EV_LWQE_LIE:
		return !w.dead && exists && (h->held || h->state != HCA_ERR);
	case EV_FLUSH:
	case EV_FLUSH_ODD:
		return exists && h->wr == WR_FLUSHING;
	case EV_SENT:
		return exists && h->wr == WR_SENT;
	case EV_FLUSH_DUP:
		return exists && h->wr == WR_OVER && !h->ghosts;
	case EV_DEAD:
		return !w.dead;
	default:	/* EV_FOREIGN */
		return cfg.busy && w.cq_len + cfg.qps + cfg.window < cfg.cqe;
	}
}

static bool is_hca_event(enum event_id id)
{
	return (id >= EV_RECV && id <= EV_DEAD) || id == EV_FOREIGN;
}

static const bool faulty[EV_COUNT] = {
#define E(id, fault, each, story) [EV_##id] = fault,
	EVENTS(E)
#undef E
};

static const bool each_qp[EV_COUNT] = {
#define E(id, fault, each, story) [EV_##id] = each,
	EVENTS(E)
#undef E
};

static const char *const stories[EV_COUNT] = {
#define E(id, fault, each, story) [EV_##id] = story,
	EVENTS(E)
#undef E
};

bool event_is_fault(enum event_id id)
{
	return faulty[id];
}

bool event_is_each(enum event_id id)
{
	return each_qp[id];
}

bool event_enabled(enum event_id id, unsigned int q)
{
	return is_hca_event(id) ? hca_event_enabled(id, q) :
				  owner_event_enabled(id, q);
}

static void end_round(bool empty)
{
	w.round = false;
	if (!empty)
		w.sweep_asked = true;
	ipoib_drain_sweep_end(&w.d, w.ticket, w.polled, empty);
	w.ticket = 0;
	w.polled = 0;
}

static void poll_one(void)
{
	enum ib_wc_status status = IB_WC_WR_FLUSH_ERR;
	unsigned int q, type;
	struct hca_qp *h;

	if (!w.cq_len) {
		tell("#         it is empty\n");
		end_round(true);
		return;
	}
	q = w.cq[0] & 15;
	type = w.cq[0] & 0xf0;
	memmove(w.cq, w.cq + 1, --w.cq_len);
	w.cq[w.cq_len] = 0;
	if (w.polled < cfg.cqe)
		w.polled++;
	if (type == CQE_RECV || type == CQE_FOREIGN) {
		tell("#         a receive%s\n", type == CQE_RECV ? "" : " of another QP");
		return;
	}
	h = &w.h[q];
	if (type != CQE_DUP)
		h->wr = type == CQE_SENT ? WR_SUCCESS : WR_OVER;
	if (type == CQE_ODD)
		status = IB_WC_LOC_QP_OP_ERR;
	else if (type == CQE_SENT)
		status = IB_WC_SUCCESS;
	tell("#         QP%u's drain completion\n", q);
	if (type == CQE_DUP)	/* and one whose cookie nobody gave */
		ipoib_drain_flushed(&w.d, U32_MAX - 1, h, status);
	ipoib_drain_flushed(&w.d, h->slot, h, status);
}

static void destroy(struct hca_qp *h, unsigned int q, bool noisy)
{
	if (noisy && h->wr == WR_FLUSHING) {
		h->wr = WR_IN_CQ;
		cq_push(CQE_FLUSH, q);
	}
	if (noisy && h->held)
		cq_push(CQE_RECV, q);
	if (h->wr == WR_FLUSHING || h->wr == WR_SENT)
		h->wr = WR_OVER;
	h->held = false;
	h->state = HCA_GONE;
	h->reap = VERB_NONE;
	ipoib_drain_reaped(&w.q[q], 0);
}

static void complete_wr(unsigned int q, enum cqe type)
{
	w.h[q].wr = WR_IN_CQ;
	cq_push(type, q);
}

static void apply_owner(enum event_id id, unsigned int q)
{
	struct hca_qp *h = &w.h[q];
	int err;

	switch (id) {
	case EV_RUN:
	case EV_VERB_FAILS:
		verb_fails = id == EV_VERB_FAILS;
		verb_failed = false;
		if (w.pause == PAUSE_IDLE)
			w.kick = false;
		coro_resume();
		break;
	case EV_BEGIN:
		if (!ipoib_drain_begin(&w.q[q], q < cfg.probes ?
				       IPOIB_DRAIN_BY_PROBE : IPOIB_DRAIN_BY_DREQ,
				       q < cfg.rtr))
			violate("D1: QP%u's teardown does not begin", q);
		break;
	case EV_MOVED:
		if (h->state != HCA_GONE && !w.dead)
			h->state = HCA_ERR;
		h->move = VERB_OK;
		break;
	case EV_MOVE_FAILS:
		h->move = VERB_FAILED;
		break;
	case EV_MOVE_LIES:
		h->liar = true;
		h->move = VERB_OK;
		break;
	case EV_MOVE_OVER:
		err = h->move == VERB_OK ? 0 : -EIO;
		h->move = VERB_NONE;
		ipoib_drain_err_done(&w.q[q], err);
		break;
	case EV_DESTROYED:
	case EV_DESTROY_NOISY:
		destroy(h, q, id == EV_DESTROY_NOISY);
		break;
	case EV_DESTROY_FAILS:
		h->reap = VERB_NONE;
		ipoib_drain_reaped(&w.q[q], -EBUSY);
		break;
	case EV_ROUND:
		w.round = true;
		w.sweep_asked = false;
		w.ticket = ipoib_drain_sweep_begin(&w.d);
		break;
	case EV_POLL:
		poll_one();
		break;
	case EV_ROUND_OVER:
		end_round(false);
		break;
	case EV_SET_DEAD:
		ipoib_drain_set_dead(&w.d);
		break;
	case EV_RETIME:
		w.retimed = true;
		ipoib_drain_set_timeout(&w.d, TIMEOUT / 2);
		break;
	default:
		w.now += cfg.step;
		fire_timer();
	}
}

static void apply_hca(enum event_id id, unsigned int q)
{
	struct hca_qp *h = &w.h[q];

	switch (id) {
	case EV_RECV:
		h->held = false;
		cq_push(CQE_RECV, q);
		break;
	case EV_SPONTANEOUS:
		h->state = HCA_ERR;
		break;
	case EV_LWQE_LIE:
		h->liar = true;
		/* fallthrough */
	case EV_LWQE:
		h->lwqe = true;
		ipoib_drain_rq_done(&w.q[q]);
		break;
	case EV_FLUSH:
		complete_wr(q, CQE_FLUSH);
		break;
	case EV_FLUSH_ODD:
		complete_wr(q, CQE_ODD);
		break;
	case EV_SENT:
		complete_wr(q, CQE_SENT);
		break;
	case EV_FLUSH_DUP:
		h->ghosts = 1;
		cq_push(CQE_DUP, q);
		break;
	case EV_DEAD:
		w.dead = true;
		break;
	default:	/* EV_FOREIGN */
		cq_push(CQE_FOREIGN, 15);
	}
}

bool event_apply(u16 e)
{
	enum event_id id = EVENT_ID(e);
	unsigned int q = EVENT_Q(e);

	if (event_is_each(id))
		tell("#%4u. QP%u: %s\n", ++sentence, q, stories[id]);
	else
		tell("#%4u. %s\n", ++sentence, stories[id]);
	memset(counted, 0, sizeof(counted));
	began = 0;
	reaped = 0;
	kept = 0;
	w.faults += faulty[id];
	if (cfg.faults == ANY_FAULTS)
		w.faults = min(w.faults, (u8)1);
	w.broken |= faulty[id] && id != EV_DESTROY_FAILS;
	if (is_hca_event(id))
		apply_hca(id, q);
	else
		apply_owner(id, q);
	if (counted[IPOIB_CNT_drain_started] != began ||
	    counted[IPOIB_CNT_drain_reaped] != reaped ||
	    counted[IPOIB_CNT_drain_kept] != kept)
		violate("counters and transitions differ");
	return id != EV_VERB_FAILS || verb_failed;
}
