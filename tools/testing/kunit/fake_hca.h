/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A fake HCA under the drain engine, with the owner's workers, the poller of the
 * receive CQ and a clock that only moves when nothing else is left to do. What
 * goes wrong with a QP is its script. The fake checks what the engine asks of it.
 */
#ifndef KUNIT_FAKE_HCA_H
#define KUNIT_FAKE_HCA_H

#include <kunit/test.h>

#include "ipoib_cm_drain.h"

#define HCA_TICK	1000ULL			/* ns */
#define HCA_TIMEOUT	64			/* deadline of a teardown, in ticks */
#define HCA_SETTLE	(HCA_TIMEOUT / 32)	/* what TIMED waits */
#define HCA_CQE		100
#define HCA_MAX		80			/* QPs */
#define HCA_NEVER	U64_MAX
#define HCA_LOST	U32_MAX			/* a delay: it does not happen */

/**
 * struct hca_script - what happens to a QP; all zero: nothing goes wrong.
 *	Delays are in ticks.
 * @reason: why its teardown begins
 * @lwqe: from ERR to LWQE
 * @lwqes: LWQE events (0 means 1)
 * @lwqe_inline: raised inside the move to ERR, before that returns
 * @lwqe_in_post: raised inside the post of the drain WR instead
 * @spontaneous: raised before the teardown begins, and not again
 * @flush: from the post of the drain WR to its completion
 * @flushes: completions of it (0 means 1)
 * @flush_inline: completes before the post returns
 * @odd: it completes with @status
 * @move: from the request to the end of the move to ERR
 * @move_fails: so many moves to ERR fail
 * @move_lies: and yet the QP is in ERR
 * @query_fails: so many queries fail
 * @post_fails: so many posts fail
 * @reap: from the request to the end of the destruction
 * @destroy_fails: ib_destroy_qp() fails
 * @no_sq: it never reached RTS
 */
struct hca_script {
	enum ipoib_drain_reason reason;
	u32 lwqe;
	u32 lwqes;
	bool lwqe_inline;
	bool lwqe_in_post;
	bool spontaneous;
	u32 flush;
	u32 flushes;
	bool flush_inline;
	bool odd;
	enum ib_wc_status status;
	u32 move;
	u32 move_fails;
	bool move_lies;
	u32 query_fails;
	u32 post_fails;
	u32 reap;
	bool destroy_fails;
	bool no_sq;
};

/**
 * struct hca_qp - a QP of the fake HCA
 * @q: the engine's part
 * @s: its script
 * @in_err: the truth
 * @gone: destroyed
 * @released: given back by the engine
 * @outstanding: its drain WR has not been polled
 * @move_at: @lwqe_at: @flush_at: @reap_at: when that happens
 * @moves: @posts: @queries: asked for so far
 * @slot: cookie of the drain WR
 * @order: its drain WR was the HCA's first, second ... (from 1)
 * @began: @ended: clock in ticks
 * @path: states it went through
 */
struct hca_qp {
	struct ipoib_drain_qp q;
	const struct hca_script *s;
	bool in_err;
	bool gone;
	bool released;
	bool outstanding;
	u64 move_at;
	u64 lwqe_at;
	u64 flush_at;
	u64 reap_at;
	u32 moves;
	u32 posts;
	u32 queries;
	u32 slot;
	u32 order;
	u64 began;
	u64 ended;
	char path[160];
};

/**
 * struct hca - the fake HCA
 * @d: the engine
 * @test: whose it is
 * @now: the clock in ns
 * @armed: the engine's timer
 * @kicked: ipoib_drain_run() is asked for
 * @sweep: a sweep is asked for
 * @hold_flush: @hold_reap: @hold_sweep: keep that back for now
 * @outstanding: @most: drain WRs that have not been polled, and the most of them
 * @posted: drain WRs that were posted
 * @changes: of strategy
 * @missing_lwqe: @missing_flush: reports of a missing signal
 * @count: the engine's counters
 * @nqps: QPs in use
 */
struct hca {
	struct ipoib_drain d;
	struct kunit *test;
	u64 now;
	u64 armed;
	bool kicked;
	bool sweep;
	bool hold_flush;
	bool hold_reap;
	bool hold_sweep;
	u32 outstanding;
	u32 most;
	u32 posted;
	u32 changes;
	u32 missing_lwqe;
	u32 missing_flush;
	u32 count[IPOIB_DRAIN_NCOUNTERS];
	u32 nqps;
	struct hca_qp qp[HCA_MAX];
};

struct hca *hca_make(struct kunit *test, u32 window);
void hca_distrust(struct hca *hca, bool no_lwqe, bool no_flush);
struct hca_qp *hca_add(struct hca *hca, const struct hca_script *s);
bool hca_begin(struct hca_qp *qp);
struct hca_qp *hca_teardown(struct hca *hca, const struct hca_script *s);
void hca_settle(struct hca *hca);
void hca_run(struct hca *hca);
void hca_run_to(struct hca *hca, u64 ticks);
void hca_poll(struct hca *hca);
void hca_end(struct hca *hca);

static inline u64 hca_ticks(const struct hca *hca)
{
	return hca->now / HCA_TICK;
}

#endif /* KUNIT_FAKE_HCA_H */
