// SPDX-License-Identifier: GPL-2.0-only
/* The fake HCA: see fake_hca.h. */
#include <linux/kernel.h>
#include <linux/lockdep.h>
#include <linux/string.h>

#include "fake_hca.h"
#include "sources.h"

#define HCA_STEPS	100000	/* more than that is a loop */

static struct hca *hca_of(struct ipoib_drain *d)
{
	return container_of(d, struct hca, d);
}

static struct hca_qp *hca_qp_of(struct ipoib_drain_qp *q)
{
	return container_of(q, struct hca_qp, q);
}

static u64 hca_after(const struct hca *hca, u32 delay)
{
	return delay == HCA_LOST ? HCA_NEVER : hca->now + delay * HCA_TICK;
}

/*
 * The engine's surroundings
 */

/* Every verb: without the lock, and on a QP that is still there. */
static struct hca *hca_enter(struct ipoib_drain_qp *q)
{
	struct hca *hca = hca_of(q->d);

	lockdep_assert_not_held(&hca->d.lock);
	KUNIT_EXPECT_FALSE_MSG(hca->test, hca_qp_of(q)->released,
			       "D8: a QP is used after its release");
	return hca;
}

static void op_kick(struct ipoib_drain *d)
{
	lockdep_assert_held(&d->lock);
	hca_of(d)->kicked = true;
}

static void op_arm(struct ipoib_drain *d, u64 when)
{
	lockdep_assert_held(&d->lock);
	hca_of(d)->armed = when;
}

static u64 op_now(struct ipoib_drain *d)
{
	return hca_of(d)->now;
}

static void op_move_err(struct ipoib_drain_qp *q)
{
	struct hca *hca = hca_enter(q);
	struct hca_qp *qp = hca_qp_of(q);

	KUNIT_EXPECT_EQ_MSG(hca->test, qp->move_at, HCA_NEVER,
			    "a QP is given to a second worker");
	KUNIT_EXPECT_FALSE(hca->test, qp->gone);
	qp->move_at = hca_after(hca, qp->s->move);
}

static void hca_flushed(struct hca *hca, struct hca_qp *qp);
static void hca_lwqe(struct hca_qp *qp);

static int op_post(struct ipoib_drain_qp *q, u32 slot)
{
	struct hca *hca = hca_enter(q);
	struct hca_qp *qp = hca_qp_of(q);

	KUNIT_EXPECT_TRUE_MSG(hca->test, qp->in_err, "D6: posted out of ERR");
	KUNIT_EXPECT_FALSE_MSG(hca->test, qp->s->no_sq, "posted without RTS");
	KUNIT_EXPECT_LT_MSG(hca->test, slot, hca->d.window, "D3: slot");
	KUNIT_EXPECT_EQ_MSG(hca->test, qp->order, 0u, "D3: a second drain WR");
	if (qp->posts++ < qp->s->post_fails)
		return -ENOMEM;
	qp->slot = slot;
	qp->order = ++hca->posted;
	qp->outstanding = true;
	hca->most = max(hca->most, ++hca->outstanding);
	if (qp->s->lwqe_in_post)
		hca_lwqe(qp);
	if (qp->s->flush_inline)
		hca_flushed(hca, qp);
	else
		qp->flush_at = hca_after(hca, qp->s->flush);
	return 0;
}

static void op_sweep(struct ipoib_drain *d)
{
	lockdep_assert_not_held(&d->lock);
	hca_of(d)->sweep = true;
}

static void op_reap(struct ipoib_drain_qp *q)
{
	struct hca *hca = hca_enter(q);
	struct hca_qp *qp = hca_qp_of(q);

	KUNIT_EXPECT_EQ_MSG(hca->test, qp->move_at, HCA_NEVER,
			    "D8: destroyed while a worker moves it");
	KUNIT_EXPECT_EQ_MSG(hca->test, qp->reap_at, HCA_NEVER, "D1: reaped twice");
	qp->reap_at = hca_after(hca, qp->s->reap);
}

static void hca_forget_wr(struct hca *hca, struct hca_qp *qp)
{
	hca->outstanding -= qp->outstanding;
	qp->outstanding = false;
}

static void op_release(struct ipoib_drain_qp *q)
{
	struct hca *hca = hca_enter(q);
	struct hca_qp *qp = hca_qp_of(q);

	KUNIT_EXPECT_TRUE_MSG(hca->test, qp->gone, "released before it was destroyed");
	KUNIT_EXPECT_TRUE_MSG(hca->test, list_empty(&q->node) && list_empty(&q->ready) &&
			      list_empty(&q->wait), "D8: released, but still listed");
	qp->released = true;
	qp->ended = hca_ticks(hca);
	hca_forget_wr(hca, qp);
}

static void op_trace(struct ipoib_drain_qp *q, enum ipoib_drain_state from)
{
	struct hca_qp *qp = hca_qp_of(q);

	lockdep_assert_held(&q->d->lock);
	if (from != IPOIB_DRAIN_LIVE)
		strlcat(qp->path, " ", sizeof(qp->path));
	strlcat(qp->path, ipoib_drain_state_names[q->state], sizeof(qp->path));
}

static void op_count(struct ipoib_drain *d, const struct ipoib_drain_qp *q,
		     enum ipoib_drain_counter c)
{
	lockdep_assert_held(&d->lock);
	hca_of(d)->count[c]++;
}

static void op_strategy(struct ipoib_drain *d)
{
	lockdep_assert_held(&d->lock);
	hca_of(d)->changes++;
}

static void op_missing(struct ipoib_drain_qp *q, bool lwqe, bool flush)
{
	struct hca *hca = hca_enter(q);

	hca->missing_lwqe += lwqe;
	hca->missing_flush += flush;
}

static const struct ipoib_drain_ops hca_ops = {
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

/*
 * What the HCA and the workers do
 */

/* LWQE goes to the owner, who finds no connection once that is released. */
static void hca_lwqe(struct hca_qp *qp)
{
	u32 n = max(qp->s->lwqes, 1u);

	qp->lwqe_at = HCA_NEVER;
	while (n-- && !qp->released)
		ipoib_drain_rq_done(&qp->q);
}

/* ib_modify_qp(ERR) */
static int hca_modify(struct hca *hca, struct hca_qp *qp)
{
	bool fails = qp->moves++ < qp->s->move_fails;
	bool was_in_err = qp->in_err;

	qp->in_err |= !fails || qp->s->move_lies;
	if (qp->in_err && !was_in_err && !qp->s->spontaneous) {
		if (qp->s->lwqe_inline)
			hca_lwqe(qp);
		else if (!qp->s->lwqe_in_post)
			qp->lwqe_at = hca_after(hca, qp->s->lwqe);
	}
	return fails ? -EIO : 0;
}

/* The worker looks first if it is asked a second time. */
static void hca_moved(struct hca *hca, struct hca_qp *qp)
{
	bool look = qp->q.err_tries > 1;
	int err = 0;

	qp->move_at = HCA_NEVER;
	if (!look || qp->queries++ < qp->s->query_fails || !qp->in_err)
		err = hca_modify(hca, qp);
	ipoib_drain_err_done(&qp->q, err);
}

/* The drain WR completes, and the poller has its turn. */
static void hca_flushed(struct hca *hca, struct hca_qp *qp)
{
	enum ib_wc_status status = qp->s->odd ? qp->s->status : IB_WC_WR_FLUSH_ERR;
	u32 i, n = max(qp->s->flushes, 1u);
	u64 ticket;

	qp->flush_at = HCA_NEVER;
	hca_forget_wr(hca, qp);
	ticket = ipoib_drain_sweep_begin(&hca->d);
	for (i = 0; i < n; i++)
		ipoib_drain_flushed(&hca->d, qp->slot, qp, status);
	if (!hca->hold_sweep)
		ipoib_drain_sweep_end(&hca->d, ticket, n, true);
}

static void hca_reaped(struct hca_qp *qp)
{
	qp->reap_at = HCA_NEVER;
	qp->gone = !qp->s->destroy_fails;
	ipoib_drain_reaped(&qp->q, qp->s->destroy_fails ? -EBUSY : 0);
}

/**
 * hca_poll() - one round of the poller, which finds the CQ empty
 * @hca: the HCA
 */
void hca_poll(struct hca *hca)
{
	hca->sweep = false;
	ipoib_drain_sweep_end(&hca->d, ipoib_drain_sweep_begin(&hca->d), 0, true);
}

/* Do what is due with one QP: workers first, then signals, then destruction. */
static bool hca_qp_step(struct hca *hca, struct hca_qp *qp)
{
	if (qp->move_at <= hca->now)
		hca_moved(hca, qp);
	else if (qp->lwqe_at <= hca->now)
		hca_lwqe(qp);
	else if (qp->flush_at <= hca->now && !hca->hold_flush)
		hca_flushed(hca, qp);
	else if (qp->reap_at <= hca->now && !hca->hold_reap)
		hca_reaped(qp);
	else
		return false;
	return true;
}

/* One thing that is due now; the engine comes first. */
static bool hca_step(struct hca *hca)
{
	u32 i;

	if (hca->kicked) {
		hca->kicked = false;
		ipoib_drain_run(&hca->d);
		return true;
	}
	for (i = 0; i < hca->nqps; i++)
		if (hca_qp_step(hca, &hca->qp[i]))
			return true;
	if (!hca->sweep || hca->hold_sweep)
		return false;
	hca_poll(hca);
	return true;
}

/* When the clock has to go on to. */
static u64 hca_next(const struct hca *hca)
{
	u64 next = hca->armed;
	u32 i;

	for (i = 0; i < hca->nqps; i++) {
		const struct hca_qp *qp = &hca->qp[i];

		next = min(next, min(qp->move_at, qp->lwqe_at));
		if (!hca->hold_flush)
			next = min(next, qp->flush_at);
		if (!hca->hold_reap)
			next = min(next, qp->reap_at);
	}
	return next;
}

/**
 * hca_settle() - do all that can be done without the clock
 * @hca: the HCA
 */
void hca_settle(struct hca *hca)
{
	u32 n = 0;

	while (hca_step(hca))
		if (++n > HCA_STEPS)
			KUNIT_FAIL_AND_ABORT(hca->test, "the engine does not come to rest");
}

static void hca_run_until(struct hca *hca, u64 end)
{
	u64 next;

	for (;;) {
		hca_settle(hca);
		next = hca_next(hca);
		if (next == HCA_NEVER || next > end)
			return;
		hca->now = max(hca->now, next);
		if (hca->armed <= hca->now) {
			hca->armed = HCA_NEVER;
			hca->kicked = true;
		}
	}
}

/**
 * hca_run() - until nothing is left to do
 * @hca: the HCA
 */
void hca_run(struct hca *hca)
{
	hca_run_until(hca, HCA_NEVER);
}

/**
 * hca_run_to() - until the clock stands at a time
 * @hca: the HCA
 * @ticks: the time
 */
void hca_run_to(struct hca *hca, u64 ticks)
{
	hca_run_until(hca, ticks * HCA_TICK);
	hca->now = max(hca->now, ticks * HCA_TICK);
}

/**
 * hca_make() - an HCA without QPs, and an engine on it
 * @test: the test, which it ends with
 * @window: of the engine
 *
 * Return: the HCA.
 */
struct hca *hca_make(struct kunit *test, u32 window)
{
	struct hca *hca = kunit_kzalloc(test, sizeof(*hca), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, hca);
	hca->test = test;
	hca->armed = HCA_NEVER;
	ipoib_drain_init(&hca->d, &hca_ops, window, HCA_CQE, HCA_TIMEOUT * HCA_TICK);
	fake_warnings();
	return hca;
}

/**
 * hca_distrust() - bring the engine to a strategy, as a probe does
 * @hca: the HCA
 * @no_lwqe: it raises no LWQE
 * @no_flush: it does not flush
 */
void hca_distrust(struct hca *hca, bool no_lwqe, bool no_flush)
{
	int i;

	for (i = 0; i < IPOIB_DRAIN_MISSES; i++)
		ipoib_drain_probed(&hca->d, !no_lwqe, !no_flush);
	memset(hca->count, 0, sizeof(hca->count));
	hca->changes = 0;
}

/**
 * hca_add() - a live QP
 * @hca: the HCA
 * @s: its script
 *
 * Return: the QP.
 */
struct hca_qp *hca_add(struct hca *hca, const struct hca_script *s)
{
	struct hca_qp *qp = &hca->qp[hca->nqps];

	KUNIT_ASSERT_LT(hca->test, hca->nqps, (u32)HCA_MAX);
	hca->nqps++;
	qp->s = s;
	qp->move_at = HCA_NEVER;
	qp->lwqe_at = HCA_NEVER;
	qp->flush_at = HCA_NEVER;
	qp->reap_at = HCA_NEVER;
	ipoib_drain_qp_init(&hca->d, &qp->q, qp);
	if (s->spontaneous)
		hca_lwqe(qp);
	return qp;
}

/**
 * hca_begin() - its teardown begins
 * @qp: the QP
 *
 * Return: what ipoib_drain_begin() does.
 */
bool hca_begin(struct hca_qp *qp)
{
	qp->began = hca_ticks(hca_of(qp->q.d));
	return ipoib_drain_begin(&qp->q, qp->s->reason, qp->s->no_sq);
}

/**
 * hca_teardown() - a QP lives and dies by its script
 * @hca: the HCA
 * @s: the script
 *
 * Return: the QP.
 */
struct hca_qp *hca_teardown(struct hca *hca, const struct hca_script *s)
{
	struct hca_qp *qp = hca_add(hca, s);

	KUNIT_EXPECT_TRUE(hca->test, hca_begin(qp));
	hca_run(hca);
	return qp;
}

/**
 * hca_end() - what must hold at the end of every test
 * @hca: the HCA
 */
void hca_end(struct hca *hca)
{
	u32 i, kept = 0;

	hca_run(hca);
	for (i = 0; i < hca->nqps; i++) {
		const struct hca_qp *qp = &hca->qp[i];

		kept += qp->q.state == IPOIB_DRAIN_KEPT;
		KUNIT_EXPECT_EQ_MSG(hca->test, qp->released, qp->q.state == IPOIB_DRAIN_DONE,
				    "D1: QP %u went %s", i, qp->path);
		KUNIT_EXPECT_TRUE_MSG(hca->test, qp->q.state == IPOIB_DRAIN_DONE ||
				      qp->q.state == IPOIB_DRAIN_LIVE ||
				      qp->q.state == IPOIB_DRAIN_KEPT,
				      "D4: QP %u has not left: %s", i, qp->path);
	}
	KUNIT_EXPECT_LE_MSG(hca->test, hca->most, hca->d.window, "D3");
	KUNIT_EXPECT_EQ_MSG(hca->test, hca->d.nslots, hca->d.nkept, "slots are left");
	KUNIT_EXPECT_EQ(hca->test, hca->count[IPOIB_CNT_drain_kept], kept);
	KUNIT_EXPECT_TRUE(hca->test, ipoib_drain_idle(&hca->d));
	KUNIT_EXPECT_EQ_MSG(hca->test, fake_warnings(), 0u, "the engine has warned");
}
