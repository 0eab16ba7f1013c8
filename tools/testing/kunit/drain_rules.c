// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rules of the drain engine that need more than one QP or more than one event:
 * window, order, deadlines, death of the HCA, strategy, sweeps.
 */
#include <kunit/test.h>

#include "fake_hca.h"

static const struct hca_script good = {};
static const struct hca_script silent = { .lwqe = HCA_LOST };
static const struct hca_script mute = { .flush = HCA_LOST };
static const struct hca_script dumb = { .lwqe = HCA_LOST, .flush = HCA_LOST };

static struct hca_qp *add_and_begin(struct hca *hca, const struct hca_script *s)
{
	struct hca_qp *qp = hca_add(hca, s);

	KUNIT_EXPECT_TRUE(hca->test, hca_begin(qp));
	return qp;
}

static void expect_state(struct hca *hca, const struct hca_qp *qp, enum ipoib_drain_state state)
{
	KUNIT_EXPECT_STREQ(hca->test, ipoib_drain_state_names[qp->q.state],
			   ipoib_drain_state_names[state]);
}

/*
 * D1: entered once
 */

static void begin_once(struct kunit *test)
{
	struct hca *hca = hca_make(test, 4);
	struct hca_qp *qp = hca_add(hca, &silent);

	KUNIT_EXPECT_TRUE(test, ipoib_drain_idle(&hca->d));
	KUNIT_EXPECT_TRUE(test, hca_begin(qp));
	KUNIT_EXPECT_FALSE(test, ipoib_drain_idle(&hca->d));
	KUNIT_EXPECT_FALSE(test, ipoib_drain_begin(&qp->q, IPOIB_DRAIN_BY_STOP, false));
	KUNIT_EXPECT_EQ(test, (u32)qp->q.reason, (u32)IPOIB_DRAIN_BY_DREQ);
	hca_run(hca);
	KUNIT_EXPECT_FALSE(test, ipoib_drain_begin(&qp->q, IPOIB_DRAIN_BY_STOP, false));
	KUNIT_EXPECT_EQ(test, hca->count[IPOIB_CNT_drain_started], 1u);
	KUNIT_EXPECT_EQ(test, hca->count[IPOIB_CNT_drain_reaped], 1u);
	hca_end(hca);
}

/*
 * D3: the window
 */

static const struct window {
	u32 asked;	/* of ipoib_drain_init() */
	u32 window;	/* what it makes of that */
	u32 qps;
} windows[] = {
	{ 0, 1, 3 }, { 1, 1, 1 }, { 1, 1, 20 }, { 2, 2, 3 }, { 7, 7, 7 }, { 7, 7, 50 },
	{ 64, 64, 63 }, { 64, 64, 64 }, { 64, 64, 65 }, { 1000, 64, HCA_MAX },
};

static void window_desc(const struct window *w, char *to)
{
	snprintf(to, KUNIT_PARAM_DESC_SIZE, "window %u, %u QPs", w->asked, w->qps);
}

KUNIT_ARRAY_PARAM(window, windows, window_desc);

/* Never more than the window, and no fewer either while there is something to post. */
static void window_bound(struct kunit *test)
{
	const struct window *w = test->param_value;
	struct hca *hca = hca_make(test, w->asked);
	u32 i;

	KUNIT_ASSERT_EQ(test, hca->d.window, w->window);
	hca->hold_flush = true;
	for (i = 0; i < w->qps; i++)
		add_and_begin(hca, &good);
	hca_settle(hca);
	KUNIT_EXPECT_EQ(test, hca->outstanding, min(w->window, w->qps));
	hca->hold_flush = false;
	hca_settle(hca);
	KUNIT_EXPECT_EQ(test, hca->most, min(w->window, w->qps));
	KUNIT_EXPECT_EQ(test, hca->posted, w->qps);
	KUNIT_EXPECT_TRUE(test, ipoib_drain_idle(&hca->d));
	KUNIT_EXPECT_EQ(test, hca->count[IPOIB_CNT_drain_condemned], 0u);
	hca_end(hca);
}

/* Behind the window it is first come, first served: in the order of LWQEs. */
static void window_fifo(struct kunit *test)
{
	static const u8 order[] = { 4, 0, 3, 7, 1, 6, 2, 5 };
	const struct window *w = test->param_value;
	struct hca *hca = hca_make(test, w->asked);
	u32 i;

	for (i = 0; i < ARRAY_SIZE(order); i++)
		add_and_begin(hca, &silent);
	hca_settle(hca);
	hca->hold_flush = true;
	for (i = 0; i < ARRAY_SIZE(order); i++) {
		ipoib_drain_rq_done(&hca->qp[order[i]].q);
		hca_settle(hca);
	}
	hca->hold_flush = false;
	hca_run(hca);
	for (i = 0; i < ARRAY_SIZE(order); i++)
		KUNIT_EXPECT_EQ_MSG(test, hca->qp[order[i]].order, i + 1, "QP %u", order[i]);
	hca_end(hca);
}

/* A slot is not given to another QP before it can no longer complete. */
static void window_reuse(struct kunit *test)
{
	static const struct hca_script slow = { .flush = HCA_LOST, .reap = 20 };
	struct hca *hca = hca_make(test, 1);
	struct hca_qp *first = add_and_begin(hca, &slow);
	struct hca_qp *second;

	hca_run_to(hca, 40);
	second = add_and_begin(hca, &good);
	hca_run_to(hca, HCA_TIMEOUT + 19);
	expect_state(hca, first, IPOIB_DRAIN_REAP);
	expect_state(hca, second, IPOIB_DRAIN_FLUSH);
	hca->hold_sweep = true;
	hca_run_to(hca, HCA_TIMEOUT + 21);
	expect_state(hca, first, IPOIB_DRAIN_SWEEP2);
	expect_state(hca, second, IPOIB_DRAIN_FLUSH);
	hca->hold_sweep = false;
	hca_run(hca);
	KUNIT_EXPECT_STREQ(test, second->path, "ERROR FLUSH DRAIN REAP DONE");
	KUNIT_EXPECT_EQ(test, second->slot, first->slot);
	KUNIT_EXPECT_EQ(test, second->ended, HCA_TIMEOUT + 21ULL);
	hca_end(hca);
}

/*
 * D6: out of ERR while it waits for a slot, it gives up its place, and no event
 * gives it back before the QP is in ERR again (the fake checks each post).
 */
static void window_left_err(struct kunit *test)
{
	static const struct hca_script late = { .flush = 50 }, slow = { .move = 26 };
	struct hca *hca = hca_make(test, 1);
	struct hca_qp *qp;

	add_and_begin(hca, &late);
	hca_run_to(hca, 2);
	qp = add_and_begin(hca, &good);
	hca_run_to(hca, 3);
	expect_state(hca, qp, IPOIB_DRAIN_FLUSH);
	qp->in_err = false;
	qp->s = &slow;
	hca_run_to(hca, 45);		/* since half way a worker has it again */
	KUNIT_EXPECT_TRUE(test, qp->q.err_busy);
	ipoib_drain_rq_done(&qp->q);
	hca_run_to(hca, 55);		/* the slot is free again */
	KUNIT_EXPECT_EQ(test, hca->outstanding, 0u);
	expect_state(hca, qp, IPOIB_DRAIN_FLUSH);
	hca_run(hca);
	KUNIT_EXPECT_STREQ(test, qp->path, "ERROR FLUSH DRAIN REAP DONE");
	KUNIT_EXPECT_EQ(test, qp->ended, 60ULL);
	hca_end(hca);
}

/* D6: out of ERR, and it cannot be moved there again: it never gets a drain WR. */
static void window_stays_out(struct kunit *test)
{
	static const struct hca_script late = { .flush = 50 }, stuck = { .move_fails = 99 };
	struct hca *hca = hca_make(test, 1);
	struct hca_qp *qp;

	add_and_begin(hca, &late);
	hca_run_to(hca, 2);
	qp = add_and_begin(hca, &good);
	hca_run_to(hca, 3);
	expect_state(hca, qp, IPOIB_DRAIN_FLUSH);
	qp->in_err = false;
	qp->s = &stuck;
	hca_run_to(hca, 55);		/* the slot is free again */
	KUNIT_EXPECT_EQ(test, hca->outstanding, 0u);
	KUNIT_EXPECT_FALSE(test, qp->q.err_busy);
	hca_run(hca);
	KUNIT_EXPECT_EQ(test, qp->posts, 0u);
	KUNIT_EXPECT_STREQ(test, qp->path, "ERROR FLUSH SWEEP REAP SWEEP2 DONE");
	KUNIT_EXPECT_EQ(test, qp->ended, 2ULL + HCA_TIMEOUT);
	hca_end(hca);
}

/* D8: the flush has come, but a worker still moves the QP: it is waited for. */
static void worker_in_drain(struct kunit *test)
{
	static const struct hca_script late = { .flush = 40 }, slow = { .move = 20 };
	struct hca *hca = hca_make(test, 1);
	struct hca_qp *qp = add_and_begin(hca, &late);

	hca_run_to(hca, 10);
	expect_state(hca, qp, IPOIB_DRAIN_DRAIN);
	qp->in_err = false;
	qp->s = &slow;
	hca_run_to(hca, 45);
	KUNIT_EXPECT_EQ(test, hca->count[IPOIB_CNT_drain_flushed], 1u);
	expect_state(hca, qp, IPOIB_DRAIN_DRAIN);
	hca_run(hca);
	KUNIT_EXPECT_STREQ(test, qp->path, "ERROR FLUSH DRAIN REAP DONE");
	KUNIT_EXPECT_EQ(test, qp->ended, 52ULL);
	hca_end(hca);
}

/*
 * D4, D5: deadlines
 */

static void deadline_armed(struct kunit *test)
{
	struct hca *hca = hca_make(test, 4);
	struct hca_qp *qp;

	hca_run_to(hca, 100);
	KUNIT_EXPECT_EQ(test, hca->armed, HCA_NEVER);
	qp = add_and_begin(hca, &silent);
	hca_settle(hca);
	KUNIT_EXPECT_EQ(test, hca->armed, (100 + HCA_TIMEOUT / 2) * HCA_TICK);
	hca_run_to(hca, 100 + HCA_TIMEOUT / 2);
	KUNIT_EXPECT_EQ(test, hca->count[IPOIB_CNT_drain_nudged], 1u);
	KUNIT_EXPECT_EQ(test, hca->armed, (100 + HCA_TIMEOUT) * HCA_TICK);
	hca_run_to(hca, 100 + HCA_TIMEOUT - 1);
	KUNIT_EXPECT_FALSE(test, qp->released);
	hca_run_to(hca, 100 + HCA_TIMEOUT);
	KUNIT_EXPECT_TRUE(test, qp->released);
	/* nothing is left to wake up for */
	KUNIT_EXPECT_EQ(test, hca->armed, HCA_NEVER);
	hca_end(hca);
}

static const struct retime {
	const char *name;
	u32 at;
	u32 timeout;
	u32 end;
} retimes[] = {
	{ "shorter", 10, 32, 32 },
	{ "shorter than what has passed", 40, 20, 40 },
	{ "longer", 10, 128, 128 },
	{ "longer, behind the half", 40, 128, 128 },
	{ "zero", 5, 0, 5 },
};

static void retime_desc(const struct retime *r, char *to)
{
	strscpy(to, r->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(retime, retimes, retime_desc);

/* A new deadline is for teardowns under way too. */
static void deadline_changed(struct kunit *test)
{
	const struct retime *r = test->param_value;
	struct hca *hca = hca_make(test, 4);
	struct hca_qp *qp = add_and_begin(hca, &silent);

	hca_run_to(hca, r->at);
	ipoib_drain_set_timeout(&hca->d, r->timeout * HCA_TICK);
	hca_run(hca);
	KUNIT_EXPECT_EQ(test, qp->ended, r->end);
	hca_end(hca);
}

/* Many that say nothing need one deadline together, not one each. */
static void deadline_is_one(struct kunit *test)
{
	struct hca *hca = hca_make(test, 2);
	u32 i;

	for (i = 0; i < HCA_MAX; i++)
		add_and_begin(hca, i & 1 ? &dumb : &silent);
	hca_run(hca);
	for (i = 0; i < HCA_MAX; i++)
		KUNIT_EXPECT_LE(test, hca->qp[i].ended, (u64)HCA_TIMEOUT);
	hca_end(hca);
}

/* One QP that says nothing delays none that has a slot, or comes to one. */
static void deadline_of_others(struct kunit *test)
{
	struct hca *hca = hca_make(test, 2);
	struct hca_qp *late;
	u32 i;

	add_and_begin(hca, &dumb);
	add_and_begin(hca, &mute);
	hca_run_to(hca, 10);
	for (i = 0; i < 20; i++) {
		late = add_and_begin(hca, &good);
		hca_settle(hca);
		KUNIT_EXPECT_TRUE(test, late->released);
	}
	hca_run_to(hca, 40);		/* now both slots are taken */
	late = add_and_begin(hca, &good);
	hca_run(hca);
	KUNIT_EXPECT_EQ(test, late->ended, (u64)HCA_TIMEOUT);
	KUNIT_EXPECT_STREQ(test, late->path, "ERROR FLUSH DRAIN REAP DONE");
	hca_end(hca);
}

/*
 * Death of the HCA
 */

static const struct death {
	enum ipoib_drain_state state;
	struct hca_script s;
	bool hold_sweep;
	bool hold_reap;
	bool full;	/* another QP has the only slot */
} deaths[] = {
	{ IPOIB_DRAIN_ERROR, { .lwqe = HCA_LOST } },
	{ IPOIB_DRAIN_ERROR, { .move_fails = 99 } },
	{ IPOIB_DRAIN_FLUSH, {}, .full = true },
	{ IPOIB_DRAIN_FLUSH, { .post_fails = 99 } },
	{ IPOIB_DRAIN_DRAIN, { .flush = HCA_LOST } },
	{ IPOIB_DRAIN_DRAIN, { .flush = 20 } },
	{ IPOIB_DRAIN_SWEEP, { .no_sq = true }, .hold_sweep = true },
	{ IPOIB_DRAIN_REAP, {}, .hold_reap = true },
	{ IPOIB_DRAIN_SWEEP2, { .odd = true, .status = IB_WC_SUCCESS }, .hold_sweep = true },
};

static void death_desc(const struct death *d, char *to)
{
	snprintf(to, KUNIT_PARAM_DESC_SIZE, "in %s, script %zu",
		 ipoib_drain_state_names[d->state], d - deaths);
}

KUNIT_ARRAY_PARAM(death, deaths, death_desc);

/* Nobody waits for a dead HCA, wherever it stands. */
static void death_frees(struct kunit *test)
{
	const struct death *c = test->param_value;
	struct hca *hca = hca_make(test, 1);
	struct hca_qp *qp, *other;

	if (c->full) {
		other = add_and_begin(hca, &mute);
		hca_run_to(hca, 2);
		expect_state(hca, other, IPOIB_DRAIN_DRAIN);
	}
	hca->hold_reap = c->hold_reap;
	qp = add_and_begin(hca, &c->s);
	hca_settle(hca);
	if (c->state == IPOIB_DRAIN_SWEEP2) {
		hca->hold_sweep = true;
		hca_settle(hca);
	}
	hca->hold_sweep = c->hold_sweep;
	hca_run_to(hca, 5);
	ipoib_drain_set_dead(&hca->d);
	hca->hold_reap = false;
	hca->hold_sweep = false;
	hca_settle(hca);
	KUNIT_EXPECT_TRUE_MSG(test, qp->released, "%s", qp->path);
	KUNIT_EXPECT_TRUE_MSG(test, strstr(qp->path, ipoib_drain_state_names[c->state]),
			      "%s", qp->path);
	KUNIT_EXPECT_EQ(test, hca_ticks(hca), 5ULL);
	/* it is no fault of the HCA's signals */
	KUNIT_EXPECT_EQ(test, hca->missing_lwqe + hca->missing_flush, 0u);
	KUNIT_EXPECT_EQ(test, hca->count[IPOIB_CNT_drain_strategy], 0u);
	hca_end(hca);
}

/* A flush that comes after the death proves nothing: condemned all the same. */
static void death_is_no_evidence(struct kunit *test)
{
	struct hca *hca = hca_make(test, 1);
	struct hca_qp *qp;

	hca->hold_flush = true;
	qp = add_and_begin(hca, &good);
	hca_settle(hca);
	expect_state(hca, qp, IPOIB_DRAIN_DRAIN);
	ipoib_drain_set_dead(&hca->d);
	ipoib_drain_flushed(&hca->d, qp->slot, qp, IB_WC_WR_FLUSH_ERR);
	hca_run(hca);
	KUNIT_EXPECT_STREQ(test, qp->path, "ERROR FLUSH DRAIN SWEEP REAP SWEEP2 DONE");
	KUNIT_EXPECT_EQ(test, hca->count[IPOIB_CNT_drain_condemned], 1u);
	hca->hold_flush = false;
	hca_end(hca);
}

/* A worker that still moves the QP is waited for, and nobody else. */
static void death_with_worker(struct kunit *test)
{
	static const struct hca_script stuck = { .move = 1000 };
	struct hca *hca = hca_make(test, 1);
	struct hca_qp *held = add_and_begin(hca, &stuck);
	struct hca_qp *free = add_and_begin(hca, &silent);

	hca_run_to(hca, 3);
	ipoib_drain_set_dead(&hca->d);
	hca_run(hca);
	KUNIT_EXPECT_EQ(test, free->ended, 3ULL);
	KUNIT_EXPECT_EQ(test, held->ended, 1000ULL);
	hca_end(hca);
}

/* A teardown that begins after the death does not wait either. */
static void death_then_begin(struct kunit *test)
{
	struct hca *hca = hca_make(test, 1);
	struct hca_qp *qp;

	ipoib_drain_set_dead(&hca->d);
	qp = hca_teardown(hca, &dumb);
	KUNIT_EXPECT_STREQ(test, qp->path, "ERROR SWEEP REAP SWEEP2 DONE");
	KUNIT_EXPECT_EQ(test, qp->ended, 0ULL);
	KUNIT_EXPECT_EQ(test, qp->moves, 0u);
	hca_end(hca);
}

/*
 * Strategy
 */

/*
 * One letter is one QP or event, one digit the strategy behind it (as in enum
 * ipoib_drain_strategy):
 *   .  healthy              L  no LWQE              F  no flush
 *   B  neither              m  never moved to ERR   s  drain WR transmitted
 *   l  LWQE on a live QP    p  a good probe         d  a probe without LWQE
 *   f  a probe without flush P  the teardown of a probe's QP without either, which
 *                            does not count: its probe speaks for itself
 */
static const struct misses {
	const char *events;
	const char *strategy;
} misses[] = {
	{ "....", "0000" },
	{ "LLL", "001" },
	{ "LL.LL.", "000000" },
	{ "LLLL", "0011" },
	{ "LLL.", "0010" },
	{ "LLLl", "0010" },
	{ "LLLlLLL", "0010001" },
	{ "LLLp", "0010" },
	{ "LLlLLL", "000001" },
	{ "FFF", "002" },
	{ "FF.FF.", "000000" },
	{ "FFF...", "002222" },
	{ "FFFl", "0022" },
	{ "FFFp", "0020" },
	{ "BBB", "003" },
	{ "BBBB", "0033" },
	{ "BBBl", "0030" },
	{ "BBB.", "0030" },
	{ "BBBp", "0030" },
	{ "LLLBBB", "001113" },
	{ "FFFLLL", "002223" },
	{ "LFLFLF", "000000" },
	{ "mmmm", "0000" },
	{ "ssss", "0000" },
	{ "LLmL", "0001" },
	{ "FFsF", "0002" },
	{ "ddd", "001" },
	{ "fff", "002" },
	{ "dLd", "001" },
	{ "dd.d", "0000" },
	{ "PPPP", "0000" },
	{ "LLPL", "0001" },
};

static void misses_desc(const struct misses *m, char *to)
{
	strscpy(to, m->events, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(misses, misses, misses_desc);

static void play(struct hca *hca, char event)
{
	static const struct hca_script scripts[] = {
		['.'] = { .lwqe_inline = true },
		['L'] = { .lwqe = HCA_LOST },
		['F'] = { .lwqe_inline = true, .flush = HCA_LOST },
		['B'] = { .lwqe = HCA_LOST, .flush = HCA_LOST },
		['P'] = { .lwqe = HCA_LOST, .flush = HCA_LOST,
			  .reason = IPOIB_DRAIN_BY_PROBE },
		['m'] = { .move_fails = 99 },
		['s'] = { .lwqe_inline = true, .odd = true, .status = IB_WC_SUCCESS },
		['l'] = { .spontaneous = true },
	};

	if (event == 'p' || event == 'd' || event == 'f')
		ipoib_drain_probed(&hca->d, event != 'd', event != 'f');
	else if (event == 'l')
		hca_add(hca, &scripts['l']);
	else
		hca_teardown(hca, &scripts[(u8)event]);
}

/* Three misses of a signal in a row switch, one LWQE restores; each is reported. */
static void strategy_follows(struct kunit *test)
{
	const struct misses *m = test->param_value;
	struct hca *hca = hca_make(test, 2);
	char last = '0';
	u32 changes = 0;
	int i;

	for (i = 0; m->events[i]; i++) {
		play(hca, m->events[i]);
		KUNIT_EXPECT_EQ_MSG(test, '0' + ipoib_drain_strategy(&hca->d),
				    m->strategy[i], "behind event %d", i);
		changes += m->strategy[i] != last;
		last = m->strategy[i];
	}
	KUNIT_EXPECT_EQ(test, hca->changes, changes);
	KUNIT_EXPECT_EQ(test, hca->count[IPOIB_CNT_drain_strategy], changes);
	hca_end(hca);
}

/* The switch ends waits that are under way. */
static void strategy_ends_waits(struct kunit *test)
{
	struct hca *hca = hca_make(test, 8);
	u32 i;

	for (i = 0; i < IPOIB_DRAIN_MISSES; i++)
		add_and_begin(hca, &silent);
	hca_run_to(hca, 20);
	for (i = 0; i < 4; i++)
		add_and_begin(hca, &silent);
	hca_run(hca);
	for (i = 0; i < hca->nqps; i++)
		KUNIT_EXPECT_EQ(test, hca->qp[i].ended, (u64)HCA_TIMEOUT);
	KUNIT_EXPECT_EQ(test, hca->count[IPOIB_CNT_drain_condemned], 3u);
	KUNIT_EXPECT_EQ(test, hca->count[IPOIB_CNT_drain_assumed], 4u);
	hca_end(hca);
}

/*
 * Sweeps
 */

/* A QP that waits for a sweep. */
static struct hca_qp *sweeping(struct hca *hca)
{
	static const struct hca_script s = { .no_sq = true };
	struct hca_qp *qp;

	hca->hold_sweep = true;
	qp = add_and_begin(hca, &s);
	hca_settle(hca);
	expect_state(hca, qp, IPOIB_DRAIN_SWEEP);
	KUNIT_EXPECT_TRUE(hca->test, hca->sweep);
	return qp;
}

/* A round that began before the request proves nothing. */
static void sweep_round_before(struct kunit *test)
{
	struct hca *hca = hca_make(test, 4);
	u64 ticket = ipoib_drain_sweep_begin(&hca->d);
	struct hca_qp *qp = sweeping(hca);

	ipoib_drain_sweep_end(&hca->d, ticket, 0, true);
	hca_settle(hca);
	expect_state(hca, qp, IPOIB_DRAIN_SWEEP);
	hca->hold_sweep = false;
	hca_settle(hca);
	KUNIT_EXPECT_TRUE(test, qp->released);
	hca_end(hca);
}

static const struct busy {
	u32 polled[4];
	u32 rounds;	/* the request is swept behind this many, 0: not at all */
} busy_cases[] = {
	{ { 16, 16, 16, 16 }, 0 },
	{ { 64, 36, 64, 64 }, 2 },
	{ { 64, 35, 1, 64 }, 3 },
	{ { 64, 35, 0, 0 }, 0 },
	{ { HCA_CQE, 0, 0, 0 }, 1 },
	{ { HCA_CQE - 1, 0, 0, 1 }, 4 },
	{ { 1000, 0, 0, 0 }, 1 },
};

static void busy_desc(const struct busy *b, char *to)
{
	snprintf(to, KUNIT_PARAM_DESC_SIZE, "%u, %u, %u, %u", b->polled[0], b->polled[1],
		 b->polled[2], b->polled[3]);
}

KUNIT_ARRAY_PARAM(busy, busy_cases, busy_desc);

/* A CQ that is never seen empty is swept when all its entries have been polled. */
static void sweep_busy(struct kunit *test)
{
	const struct busy *b = test->param_value;
	struct hca *hca = hca_make(test, 4);
	struct hca_qp *qp = sweeping(hca);
	u32 i;

	for (i = 0; i < ARRAY_SIZE(b->polled); i++) {
		ipoib_drain_sweep_end(&hca->d, ipoib_drain_sweep_begin(&hca->d),
				      b->polled[i], false);
		hca_settle(hca);
		KUNIT_EXPECT_EQ_MSG(test, qp->released, b->rounds && i + 1 >= b->rounds,
				    "round %u", i);
	}
	hca->hold_sweep = false;
	hca_end(hca);
}

/* What has been counted for one request does not count for a later one. */
static void sweep_busy_later(struct kunit *test)
{
	struct hca *hca = hca_make(test, 4);
	struct hca_qp *first = sweeping(hca), *second;

	ipoib_drain_sweep_end(&hca->d, ipoib_drain_sweep_begin(&hca->d), HCA_CQE - 1, false);
	hca->sweep = false;
	second = sweeping(hca);
	ipoib_drain_sweep_end(&hca->d, ipoib_drain_sweep_begin(&hca->d), 1, false);
	hca_settle(hca);
	KUNIT_EXPECT_TRUE(test, first->released);
	expect_state(hca, second, IPOIB_DRAIN_SWEEP);
	ipoib_drain_rq_done(&second->q);	/* a late LWQE is no sweep */
	hca_settle(hca);
	expect_state(hca, second, IPOIB_DRAIN_SWEEP);
	ipoib_drain_sweep_end(&hca->d, ipoib_drain_sweep_begin(&hca->d), HCA_CQE - 1, false);
	hca_settle(hca);
	expect_state(hca, second, IPOIB_DRAIN_SWEEP);
	ipoib_drain_sweep_end(&hca->d, ipoib_drain_sweep_begin(&hca->d), 1, false);
	hca_settle(hca);
	KUNIT_EXPECT_TRUE(test, second->released);
	hca->hold_sweep = false;
	hca_end(hca);
}

/* Nor does a late LWQE stand for the last sweep. */
static void sweep_last(struct kunit *test)
{
	struct hca *hca = hca_make(test, 4);
	struct hca_qp *qp = add_and_begin(hca, &silent);

	hca->hold_reap = true;
	hca_run_to(hca, HCA_TIMEOUT);
	hca->hold_reap = false;
	hca->hold_sweep = true;
	hca_settle(hca);
	expect_state(hca, qp, IPOIB_DRAIN_SWEEP2);
	ipoib_drain_rq_done(&qp->q);
	hca_settle(hca);
	expect_state(hca, qp, IPOIB_DRAIN_SWEEP2);
	hca->hold_sweep = false;
	hca_settle(hca);
	KUNIT_EXPECT_TRUE(test, qp->released);
	hca_end(hca);
}

/* An empty CQ serves all that asked before the round, at once. */
static void sweep_serves_all(struct kunit *test)
{
	struct hca *hca = hca_make(test, 4);
	u32 i;

	for (i = 0; i < 10; i++) {
		sweeping(hca);
		hca->sweep = i < 9 ? false : hca->sweep;
	}
	hca_poll(hca);
	hca_settle(hca);
	for (i = 0; i < 10; i++)
		KUNIT_EXPECT_TRUE(test, hca->qp[i].released);
	hca->hold_sweep = false;
	hca_end(hca);
}

static struct kunit_case rules_tests[] = {
	KUNIT_CASE(begin_once),
	KUNIT_CASE_PARAM(window_bound, window_gen_params),
	KUNIT_CASE_PARAM(window_fifo, window_gen_params),
	KUNIT_CASE(window_reuse),
	KUNIT_CASE(window_left_err),
	KUNIT_CASE(window_stays_out),
	KUNIT_CASE(worker_in_drain),
	KUNIT_CASE(deadline_armed),
	KUNIT_CASE_PARAM(deadline_changed, retime_gen_params),
	KUNIT_CASE(deadline_is_one),
	KUNIT_CASE(deadline_of_others),
	KUNIT_CASE_PARAM(death_frees, death_gen_params),
	KUNIT_CASE(death_is_no_evidence),
	KUNIT_CASE(death_with_worker),
	KUNIT_CASE(death_then_begin),
	KUNIT_CASE_PARAM(strategy_follows, misses_gen_params),
	KUNIT_CASE(strategy_ends_waits),
	KUNIT_CASE(sweep_round_before),
	KUNIT_CASE_PARAM(sweep_busy, busy_gen_params),
	KUNIT_CASE(sweep_busy_later),
	KUNIT_CASE(sweep_last),
	KUNIT_CASE(sweep_serves_all),
	{}
};

static struct kunit_suite rules_suite = {
	.name = "ipoib_drain_rules",
	.test_cases = rules_tests,
};

kunit_test_suite(rules_suite);
