// SPDX-License-Identifier: GPL-2.0-only
/*
 * Teardowns of one QP: for each fault of the HCA the states it goes through, the
 * time that takes and all that is counted.
 */
#include <kunit/test.h>

#include "fake_hca.h"

/* What a QP goes through. */
#define HEALTHY		"ERROR FLUSH DRAIN REAP DONE"
#define NO_DRAIN	"ERROR SWEEP REAP DONE"
#define NOTHING		"ERROR SWEEP REAP SWEEP2 DONE"
#define CONDEMNED	"ERROR FLUSH DRAIN SWEEP REAP SWEEP2 DONE"

#define N(c, n)		[IPOIB_CNT_drain_##c] = (n)
#define AGAIN		" FLUSH DRAIN"

/**
 * struct teardown - one case
 * @name: what is wrong
 * @no_lwqe: the strategy at the start does without LWQE
 * @no_flush: it does without the flush
 * @s: the script
 * @path: states
 * @ticks: from begin to release
 * @count: the engine's counters at the end, but started and reaped
 * @missing: signals that are reported as missing: 1 LWQE, 2 flush
 */
struct teardown {
	const char *name;
	bool no_lwqe;
	bool no_flush;
	struct hca_script s;
	const char *path;
	u32 ticks;
	u32 count[IPOIB_DRAIN_NCOUNTERS];
	u32 missing;
};

static const struct teardown lwqe_cases[] = {
	{ "healthy", .path = HEALTHY,
	  .count = { N(lwqe, 1), N(posted, 1), N(flushed, 1) } },
	{ "inside the move to ERR", .s = { .lwqe_inline = true }, .path = HEALTHY,
	  .count = { N(lwqe, 1), N(posted, 1), N(flushed, 1) } },
	{ "on the live QP", .s = { .spontaneous = true }, .path = HEALTHY,
	  .count = { N(lwqe, 1), N(posted, 1), N(flushed, 1) } },
	{ "while the move to ERR hangs", .s = { .spontaneous = true, .move = 20 },
	  .path = HEALTHY, .ticks = 20,
	  .count = { N(lwqe, 1), N(posted, 1), N(flushed, 1) } },
	{ "twice", .s = { .lwqes = 2 }, .path = HEALTHY,
	  .count = { N(lwqe, 1), N(lwqe_dup, 1), N(posted, 1), N(flushed, 1) } },
	{ "a thousand times, inside", .s = { .lwqes = 1000, .lwqe_inline = true },
	  .path = HEALTHY,
	  .count = { N(lwqe, 1), N(lwqe_dup, 999), N(posted, 1), N(flushed, 1) } },
	{ "twice on the live QP", .s = { .spontaneous = true, .lwqes = 2 }, .path = HEALTHY,
	  .count = { N(lwqe, 1), N(lwqe_dup, 1), N(posted, 1), N(flushed, 1) } },
	{ "late", .s = { .lwqe = 10 }, .path = HEALTHY, .ticks = 10,
	  .count = { N(lwqe, 1), N(posted, 1), N(flushed, 1) } },
	{ "one tick before the half", .s = { .lwqe = 31 }, .path = HEALTHY, .ticks = 31,
	  .count = { N(lwqe, 1), N(posted, 1), N(flushed, 1) } },
	/* the drain WR was early, so its flush does not stand behind all receives */
	{ "after the drain WR", .s = { .lwqe = 40 },
	  .path = "ERROR FLUSH DRAIN SWEEP REAP DONE", .ticks = 40,
	  .count = { N(lwqe, 1), N(posted, 1), N(flushed, 1), N(nudged, 1), N(swept, 1) } },
	{ "inside the post of the drain WR", .s = { .lwqe_in_post = true },
	  .path = "ERROR FLUSH DRAIN SWEEP REAP DONE", .ticks = 32,
	  .count = { N(lwqe, 1), N(posted, 1), N(flushed, 1), N(nudged, 1), N(swept, 1) } },
	{ "lost", .s = { .lwqe = HCA_LOST }, .path = CONDEMNED, .ticks = 64, .missing = 1,
	  .count = { N(posted, 1), N(flushed, 1), N(nudged, 1), N(condemned, 1),
		     N(no_lwqe, 1) } },
	{ "while it is being destroyed", .s = { .lwqe = 70, .reap = 10 }, .path = CONDEMNED,
	  .ticks = 74, .missing = 1,
	  .count = { N(lwqe_late, 1), N(posted, 1), N(flushed, 1), N(nudged, 1), N(condemned, 1),
		     N(no_lwqe, 1) } },
	{ "twice while it is being destroyed", .s = { .lwqe = 70, .lwqes = 2, .reap = 10 },
	  .path = CONDEMNED, .ticks = 74, .missing = 1,
	  .count = { N(lwqe_late, 1), N(lwqe_dup, 1), N(posted, 1), N(flushed, 1), N(nudged, 1),
		     N(condemned, 1), N(no_lwqe, 1) } },
	{ "never was in RTS", .s = { .no_sq = true }, .path = NO_DRAIN,
	  .count = { N(lwqe, 1), N(swept, 1) } },
	{ "never was in RTS, lost", .s = { .no_sq = true, .lwqe = HCA_LOST },
	  .path = NOTHING, .ticks = 64, .missing = 1,
	  .count = { N(nudged, 1), N(condemned, 1), N(no_lwqe, 1) } },
};

static const struct teardown flush_cases[] = {
	{ "before the post returns", .s = { .flush_inline = true }, .path = HEALTHY,
	  .count = { N(lwqe, 1), N(posted, 1), N(flushed, 1) } },
	{ "late", .s = { .flush = 20 }, .path = HEALTHY, .ticks = 20,
	  .count = { N(lwqe, 1), N(posted, 1), N(flushed, 1) } },
	{ "after the half", .s = { .flush = 63 }, .path = HEALTHY, .ticks = 63,
	  .count = { N(lwqe, 1), N(posted, 1), N(flushed, 1), N(nudged, 1) } },
	{ "lost", .s = { .flush = HCA_LOST }, .path = CONDEMNED, .ticks = 64, .missing = 2,
	  .count = { N(lwqe, 1), N(posted, 1), N(nudged, 1), N(condemned, 1),
		     N(no_flush, 1) } },
	/* evidence that comes after the verdict changes nothing */
	{ "while it is being destroyed", .s = { .flush = 70, .reap = 10 }, .path = CONDEMNED,
	  .ticks = 74, .missing = 2,
	  .count = { N(lwqe, 1), N(posted, 1), N(flushed, 1), N(nudged, 1), N(condemned, 1),
		     N(no_flush, 1) } },
	{ "after it is gone", .s = { .flush = 70 }, .path = CONDEMNED, .ticks = 64,
	  .missing = 2,
	  .count = { N(lwqe, 1), N(posted, 1), N(unknown, 1), N(nudged, 1), N(condemned, 1),
		     N(no_flush, 1) } },
	{ "twice", .s = { .flushes = 2 }, .path = HEALTHY,
	  .count = { N(lwqe, 1), N(posted, 1), N(flushed, 1), N(unknown, 1) } },
	{ "and LWQE lost", .s = { .lwqe = HCA_LOST, .flush = HCA_LOST }, .path = CONDEMNED,
	  .ticks = 64, .missing = 3,
	  .count = { N(posted, 1), N(nudged, 1), N(condemned, 1), N(no_lwqe, 1),
		     N(no_flush, 1) } },
};

static const struct teardown verb_cases[] = {
	{ "post fails once", .s = { .post_fails = 1 },
	  .path = "ERROR FLUSH DRAIN" AGAIN " REAP DONE",
	  .count = { N(lwqe, 1), N(post_failed, 1), N(posted, 1), N(flushed, 1) } },
	{ "post fails twice", .s = { .post_fails = 2 },
	  .path = "ERROR FLUSH DRAIN" AGAIN AGAIN " REAP DONE",
	  .count = { N(lwqe, 1), N(post_failed, 2), N(posted, 1), N(flushed, 1) } },
	{ "post fails until the half", .s = { .post_fails = 3 },
	  .path = "ERROR FLUSH DRAIN" AGAIN AGAIN AGAIN " REAP DONE", .ticks = 32,
	  .count = { N(lwqe, 1), N(post_failed, 3), N(posted, 1), N(flushed, 1),
		     N(nudged, 1) } },
	{ "post fails always", .s = { .post_fails = 99 },
	  .path = "ERROR FLUSH DRAIN" AGAIN AGAIN AGAIN " FLUSH SWEEP REAP SWEEP2 DONE",
	  .ticks = 64,
	  .count = { N(lwqe, 1), N(post_failed, 4), N(nudged, 1), N(condemned, 1) } },
	{ "move fails once", .s = { .move_fails = 1 }, .path = HEALTHY,
	  .count = { N(lwqe, 1), N(err_failed, 1), N(posted, 1), N(flushed, 1) } },
	{ "move fails, but the QP is in ERR", .s = { .move_fails = 1, .move_lies = true },
	  .path = HEALTHY,
	  .count = { N(lwqe, 1), N(err_failed, 1), N(posted, 1), N(flushed, 1) } },
	{ "move and query fail once", .s = { .move_fails = 1, .query_fails = 1 },
	  .path = HEALTHY,
	  .count = { N(lwqe, 1), N(err_failed, 1), N(posted, 1), N(flushed, 1) } },
	/* behind the half nobody waits for LWQE before the drain WR is posted */
	{ "move fails until the half", .s = { .move_fails = 2 },
	  .path = "ERROR FLUSH DRAIN SWEEP REAP DONE", .ticks = 32,
	  .count = { N(lwqe, 1), N(err_failed, 2), N(posted, 1), N(flushed, 1),
		     N(nudged, 1), N(swept, 1) } },
	{ "move fails until the half, then LWQE is first",
	  .s = { .move_fails = 2, .lwqe_inline = true }, .path = HEALTHY, .ticks = 32,
	  .count = { N(lwqe, 1), N(err_failed, 2), N(posted, 1), N(flushed, 1),
		     N(nudged, 1) } },
	{ "move fails always", .s = { .move_fails = 99 }, .path = NOTHING, .ticks = 64,
	  .missing = 1,
	  .count = { N(err_failed, 3), N(nudged, 1), N(condemned, 1), N(no_lwqe, 1) } },
	{ "LWQE came, but move fails always", .s = { .move_fails = 99, .spontaneous = true },
	  .path = NOTHING, .ticks = 64,
	  .count = { N(lwqe, 1), N(err_failed, 3), N(nudged, 1), N(condemned, 1) } },
	/* a QP that a worker has is not destroyed under it */
	{ "move hangs", .s = { .move = 100 }, .path = NOTHING, .ticks = 100, .missing = 1,
	  .count = { N(lwqe_late, 1), N(nudged, 1), N(condemned, 1), N(no_lwqe, 1) } },
	{ "destroy takes long", .s = { .reap = 1000 }, .path = HEALTHY, .ticks = 1000,
	  .count = { N(lwqe, 1), N(posted, 1), N(flushed, 1) } },
};

static const struct teardown strategy_cases[] = {
	{ "flush+sweep", true, false, .s = { .lwqe = HCA_LOST }, .path = CONDEMNED,
	  .count = { N(posted, 1), N(flushed, 1), N(assumed, 1), N(swept, 1) } },
	{ "flush+sweep, LWQE after all", true, false, .s = { .lwqe_inline = true },
	  .path = HEALTHY,
	  .count = { N(lwqe, 1), N(strategy, 1), N(posted, 1), N(flushed, 1) } },
	{ "flush+sweep, flush lost", true, false,
	  .s = { .lwqe = HCA_LOST, .flush = HCA_LOST }, .path = CONDEMNED, .ticks = 64,
	  .missing = 3,
	  .count = { N(posted, 1), N(nudged, 1), N(condemned, 1), N(no_lwqe, 1),
		     N(no_flush, 1) } },
	{ "flush+sweep, never was in RTS", true, false,
	  .s = { .lwqe = HCA_LOST, .no_sq = true }, .path = NOTHING, .ticks = HCA_SETTLE,
	  .count = { N(assumed, 1), N(swept, 1) } },
	{ "lwqe+sweep", false, true, .path = NO_DRAIN,
	  .count = { N(lwqe, 1), N(swept, 1) } },
	{ "lwqe+sweep, late", false, true, .s = { .lwqe = 40 }, .path = NO_DRAIN, .ticks = 40,
	  .count = { N(lwqe, 1), N(nudged, 1), N(swept, 1) } },
	{ "lwqe+sweep, lost", false, true, .s = { .lwqe = HCA_LOST }, .path = NOTHING,
	  .ticks = 64, .missing = 1,
	  .count = { N(nudged, 1), N(condemned, 1), N(no_lwqe, 1) } },
	{ "timed", true, true, .s = { .lwqe = HCA_LOST }, .path = NOTHING,
	  .ticks = HCA_SETTLE, .count = { N(assumed, 1), N(swept, 1) } },
	{ "timed, LWQE after all", true, true, .s = { .lwqe_inline = true },
	  .path = HEALTHY,
	  .count = { N(lwqe, 1), N(strategy, 1), N(posted, 1), N(flushed, 1) } },
	/* it settles from the moment that it is in ERR */
	{ "timed, late in ERR", true, true, .s = { .lwqe = HCA_LOST, .move = 10 },
	  .path = NOTHING, .ticks = 10 + HCA_SETTLE,
	  .count = { N(assumed, 1), N(swept, 1) } },
	/* a probe is there to see signals: it waits, whatever the strategy */
	{ "flush+sweep, a probe, LWQE lost", true, false,
	  .s = { .reason = IPOIB_DRAIN_BY_PROBE, .lwqe = HCA_LOST }, .path = CONDEMNED,
	  .ticks = 64, .missing = 1,
	  .count = { N(posted, 1), N(flushed, 1), N(nudged, 1), N(condemned, 1),
		     N(no_lwqe, 1) } },
	{ "lwqe+sweep, a probe", false, true, .s = { .reason = IPOIB_DRAIN_BY_PROBE },
	  .path = HEALTHY,
	  .count = { N(lwqe, 1), N(strategy, 1), N(posted, 1), N(flushed, 1) } },
	{ "timed, a probe", true, true,
	  .s = { .reason = IPOIB_DRAIN_BY_PROBE, .lwqe = 20 }, .path = HEALTHY, .ticks = 20,
	  .count = { N(lwqe, 1), N(strategy, 1), N(posted, 1), N(flushed, 1) } },
	{ "timed, a probe without signals", true, true,
	  .s = { .reason = IPOIB_DRAIN_BY_PROBE, .lwqe = HCA_LOST, .flush = HCA_LOST },
	  .path = CONDEMNED, .ticks = 64, .missing = 3,
	  .count = { N(posted, 1), N(nudged, 1), N(condemned, 1), N(no_lwqe, 1),
		     N(no_flush, 1) } },
	{ "timed, not in ERR", true, true, .s = { .move_fails = 99 }, .path = NOTHING,
	  .ticks = 64, .missing = 1,
	  .count = { N(err_failed, 3), N(nudged, 1), N(condemned, 1), N(no_lwqe, 1) } },
};

static void teardown_desc(const struct teardown *t, char *to)
{
	strscpy(to, t->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(lwqe, lwqe_cases, teardown_desc);
KUNIT_ARRAY_PARAM(flush, flush_cases, teardown_desc);
KUNIT_ARRAY_PARAM(verb, verb_cases, teardown_desc);
KUNIT_ARRAY_PARAM(strategy, strategy_cases, teardown_desc);

/* All counters are as the case says; every teardown starts and ends. */
static void expect_counts(struct kunit *test, const struct hca *hca, const u32 *count)
{
	u32 c, want;

	for (c = 0; c < IPOIB_DRAIN_NCOUNTERS; c++) {
		want = count[c];
		if (c == IPOIB_CNT_drain_started || c == IPOIB_CNT_drain_reaped)
			want = 1;
		KUNIT_EXPECT_EQ_MSG(test, hca->count[c], want, "counter %u", c);
	}
}

/* It goes the way that the case names, in that time, and nothing else is counted. */
static void teardown_ends(struct kunit *test)
{
	const struct teardown *t = test->param_value;
	struct hca *hca = hca_make(test, 4);
	struct hca_qp *qp;

	if (t->no_lwqe || t->no_flush)
		hca_distrust(hca, t->no_lwqe, t->no_flush);
	qp = hca_teardown(hca, &t->s);
	KUNIT_EXPECT_STREQ(test, qp->path, t->path);
	KUNIT_EXPECT_TRUE(test, qp->released);
	KUNIT_EXPECT_EQ(test, qp->ended - qp->began, t->ticks);
	KUNIT_EXPECT_EQ(test, hca->missing_lwqe, t->missing & 1);
	KUNIT_EXPECT_EQ(test, hca->missing_flush, t->missing >> 1);
	KUNIT_EXPECT_EQ(test, hca->changes, t->count[IPOIB_CNT_drain_strategy]);
	expect_counts(test, hca, t->count);
	hca_end(hca);
}

static void teardown_lwqe(struct kunit *test)
{
	teardown_ends(test);
}

static void teardown_flush(struct kunit *test)
{
	teardown_ends(test);
}

static void teardown_verbs(struct kunit *test)
{
	teardown_ends(test);
}

static void teardown_strategy(struct kunit *test)
{
	teardown_ends(test);
}

/* ib_destroy_qp() fails: the QP is kept, and what the HCA may own stays taken. */
static void teardown_kept(struct kunit *test)
{
	static const struct hca_script keep = { .destroy_fails = true };
	static const struct hca_script keep_slot = {
		.destroy_fails = true, .flush = HCA_LOST,
	};
	static const struct hca_script good = {};
	struct hca *hca = hca_make(test, 2);
	struct hca_qp *qp;

	qp = hca_teardown(hca, &keep);
	KUNIT_EXPECT_STREQ(test, qp->path, "ERROR FLUSH DRAIN REAP KEPT");
	KUNIT_EXPECT_EQ(test, hca->d.nkept, 0u);
	KUNIT_EXPECT_EQ(test, hca->count[IPOIB_CNT_drain_reaped], 0u);
	ipoib_drain_rq_done(&qp->q);
	KUNIT_EXPECT_TRUE(test, list_empty(&qp->q.ready));

	hca_teardown(hca, &keep_slot);
	KUNIT_EXPECT_EQ(test, hca->d.nkept, 1u);
	qp = hca_teardown(hca, &good);
	KUNIT_EXPECT_STREQ(test, qp->path, HEALTHY);

	/* The last slot is kept: from now on no drain WR can be posted. */
	hca_teardown(hca, &keep_slot);
	KUNIT_EXPECT_EQ(test, hca->d.nkept, 2u);
	qp = hca_teardown(hca, &good);
	KUNIT_EXPECT_STREQ(test, qp->path, NO_DRAIN);
	KUNIT_EXPECT_EQ(test, qp->ended, qp->began);
	KUNIT_EXPECT_EQ(test, hca->count[IPOIB_CNT_drain_kept], 3u);
	hca_end(hca);
}

/* Who waits for a slot when the last one is kept goes on without a drain WR. */
static void teardown_kept_last_slot(struct kunit *test)
{
	static const struct hca_script keep_slot = {
		.destroy_fails = true, .flush = HCA_LOST,
	};
	static const struct hca_script good = {};
	struct hca *hca = hca_make(test, 1);
	struct hca_qp *qp;

	hca_begin(hca_add(hca, &keep_slot));
	hca_run_to(hca, 40);
	qp = hca_add(hca, &good);
	hca_begin(qp);
	hca_run(hca);
	KUNIT_EXPECT_STREQ(test, qp->path, "ERROR FLUSH SWEEP REAP DONE");
	KUNIT_EXPECT_EQ(test, qp->ended, (u64)HCA_TIMEOUT);
	hca_end(hca);
}

/* Every status that a drain WR can complete with. */
static const char statuses[IB_WC_GENERAL_ERR + 1];

static void status_desc(const char *status, char *to)
{
	snprintf(to, KUNIT_PARAM_DESC_SIZE, "%s", ib_wc_status_msg(status - statuses));
}

KUNIT_ARRAY_PARAM(status, statuses, status_desc);

static void drain_status(struct kunit *test)
{
	enum ib_wc_status status = (const char *)test->param_value - statuses;
	struct hca_script s = { .odd = true, .status = status };
	struct hca *hca = hca_make(test, 4);
	struct hca_qp *qp = hca_teardown(hca, &s);

	/* Success: it was transmitted, so the QP was not in ERR. */
	KUNIT_EXPECT_STREQ(test, qp->path, status == IB_WC_SUCCESS ? CONDEMNED : HEALTHY);
	KUNIT_EXPECT_EQ(test, hca->count[IPOIB_CNT_drain_flushed],
			status == IB_WC_WR_FLUSH_ERR);
	KUNIT_EXPECT_EQ(test, hca->count[IPOIB_CNT_drain_status_odd],
			status != IB_WC_WR_FLUSH_ERR);
	KUNIT_EXPECT_EQ(test, hca->count[IPOIB_CNT_drain_condemned],
			status == IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, qp->ended, 0ULL);
	/* a QP that lied says nothing of the HCA's signals */
	KUNIT_EXPECT_EQ(test, hca->missing_lwqe + hca->missing_flush, 0u);
	hca_end(hca);
}

/* Completions whose cookie or QP is not that of the drain under way. */
static const struct bogus {
	const char *name;
	u32 slot;
	bool other_qp;
} bogus_cases[] = {
	{ "right slot, other QP", 0, true },
	{ "free slot", 1 },
	{ "last slot", 3 },
	{ "behind the window", 4 },
	{ "behind the array", IPOIB_DRAIN_WINDOW },
	{ "no slot", IPOIB_DRAIN_NO_SLOT },
};

static void bogus_desc(const struct bogus *b, char *to)
{
	strscpy(to, b->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(bogus, bogus_cases, bogus_desc);

static void drain_bogus(struct kunit *test)
{
	static const struct hca_script s = { .flush = 20 };
	const struct bogus *b = test->param_value;
	struct hca *hca = hca_make(test, 4);
	struct hca_qp *qp = hca_add(hca, &s);

	hca_begin(qp);
	hca_run_to(hca, 10);
	KUNIT_ASSERT_EQ(test, qp->slot, 0u);
	ipoib_drain_flushed(&hca->d, b->slot, b->other_qp ? hca : (void *)qp,
			    IB_WC_WR_FLUSH_ERR);
	hca_settle(hca);
	KUNIT_EXPECT_EQ(test, hca->count[IPOIB_CNT_drain_unknown], 1u);
	KUNIT_EXPECT_EQ(test, (u32)qp->q.state, (u32)IPOIB_DRAIN_DRAIN);
	KUNIT_EXPECT_EQ(test, hca->d.nslots, 1u);
	hca_run(hca);
	KUNIT_EXPECT_STREQ(test, qp->path, HEALTHY);
	KUNIT_EXPECT_EQ(test, qp->ended, 20ULL);
	hca_end(hca);
}

static struct kunit_case teardown_tests[] = {
	KUNIT_CASE_PARAM(teardown_lwqe, lwqe_gen_params),
	KUNIT_CASE_PARAM(teardown_flush, flush_gen_params),
	KUNIT_CASE_PARAM(teardown_verbs, verb_gen_params),
	KUNIT_CASE_PARAM(teardown_strategy, strategy_gen_params),
	KUNIT_CASE(teardown_kept),
	KUNIT_CASE(teardown_kept_last_slot),
	KUNIT_CASE_PARAM(drain_status, status_gen_params),
	KUNIT_CASE_PARAM(drain_bogus, bogus_gen_params),
	{}
};

static struct kunit_suite teardown_suite = {
	.name = "ipoib_drain_teardown",
	.test_cases = teardown_tests,
};

kunit_test_suite(teardown_suite);

MODULE_DESCRIPTION("KUnit suites of ib_ipoib");
MODULE_LICENSE("GPL");
