// SPDX-License-Identifier: GPL-2.0-only
/*
 * What must hold in every state and from every state on; states as bytes, as
 * hashes.
 */
#include <stdio.h>
#include <stdlib.h>

#include "world.h"

#define LIST_MAX (4 * MAX_QPS)

/* Number of entries; ~0 if the ring is broken. */
static unsigned int list_count(const struct list_head *h)
{
	const struct list_head *p;
	unsigned int n = 0;

	for (p = h->next; p != h; p = p->next, n++)
		if (p->next->prev != p || n > LIST_MAX)
			return ~0u;
	return n;
}

static void check_slots(void)
{
	unsigned int i, used = 0, wrs = 0;

	for (i = 0; i < w.d.window; i++) {
		if (!w.d.slots[i])
			continue;
		used++;
		if (w.d.slots[i]->slot != i)
			violate("D3: slot %u is of a QP that does not have it", i);
		if (w.d.slots[i]->sq_done)
			violate("D3: slot %u is held though its flush was polled", i);
	}
	if (used != w.d.nslots)
		violate("D3: %u slots are in use, %u counted", used, w.d.nslots);
	for (i = 0; i < cfg.qps; i++) {
		if (w.h[i].wr == WR_NONE || w.h[i].wr >= WR_OVER)
			continue;
		wrs++;
		if (w.h[i].released || w.q[i].slot == IPOIB_DRAIN_NO_SLOT)
			violate("D3: QP%u has a drain WR and no slot", i);
	}
	if (wrs > w.d.window)
		violate("D3: %u drain WRs are on a CQ that reserves %u", wrs,
			w.d.window);
}

static void check_lists(void)
{
	unsigned int i, n = 0, fifo = 0, sweeping = 0, ready = 0;
	const struct ipoib_drain_qp *q;

	for (i = 0; i < cfg.qps; i++) {
		q = &w.q[i];
		if (w.h[i].released)
			continue;
		n += !list_empty(&q->node);
		ready += !list_empty(&q->ready);
		if (list_empty(&q->node) == qp_in_teardown(i))
			violate("QP%u: in teardown and on the drain list differ", i);
		if (list_empty(&q->wait))
			continue;
		fifo += q->state == IPOIB_DRAIN_FLUSH;
		sweeping += q->state == IPOIB_DRAIN_SWEEP ||
			    q->state == IPOIB_DRAIN_SWEEP2;
	}
	if (list_count(&w.d.qps) != n || w.d.nqps != n)
		violate("the drain list has %u QPs, %u expected, %u counted",
			list_count(&w.d.qps), n, w.d.nqps);
	if (list_count(&w.d.fifo) != fifo)
		violate("the FIFO is not what waits for a slot");
	if (list_count(&w.d.sweeping) != sweeping)
		violate("the sweep list is not what waits for a sweep");
	if (list_count(&w.d.ready) != ready)
		violate("the ready list is broken");
	if (ipoib_drain_idle(&w.d) != !n)
		violate("ipoib_drain_idle() is wrong");
}

/* D1: a second begin changes nothing. D8: nobody writes to a released QP. */
static void check_qp(unsigned int i)
{
	const unsigned char *byte = (const unsigned char *)&w.q[i];
	struct ipoib_drain_qp q = w.q[i];
	struct ipoib_drain d = w.d;
	u8 kick = w.kick;
	size_t n;

	if (w.h[i].released) {
		for (n = 0; n < sizeof(w.q[i]); n++)
			if (byte[n] != 0x5a) {
				violate("D8: QP%u is written to after its release", i);
				break;
			}
		return;
	}
	if (q.state == IPOIB_DRAIN_LIVE)
		return;
	if (ipoib_drain_begin(&w.q[i], IPOIB_DRAIN_BY_IDLE, !q.no_sq) ||
	    memcmp(&q, &w.q[i], sizeof(q)) || memcmp(&d, &w.d, sizeof(d)) ||
	    w.kick != kick)
		violate("D1: QP%u enters teardown twice", i);
}

void check_state(void)
{
	unsigned int i;

	if (w.d.lock.held) {
		violate("the lock is still held");
		return;
	}
	check_slots();
	check_lists();
	for (i = 0; i < cfg.qps; i++)
		check_qp(i);
}

/*
 * Futures. From every state on, whatever is decided about the HCA, those that
 * only need their turn (the engine's run, workers, the poller) get it; the
 * clock goes on only when nobody else can. Then every QP must be released in
 * time.
 */

enum future {
	FUTURE_SILENT,		/* the HCA raises and completes nothing more */
	FUTURE_VERBS_FAIL,	/* the same, and verbs but destroy fail */
	FUTURE_HELPFUL,		/* the HCA does its part */
	FUTURE_NO_LWQE,		/* the same, but it raises no LWQE */
	FUTURE_ALONE,		/* helpful for one QP; nobody serves the others */
	FUTURE_COUNT
};

static const char *const future_names[] = {
	"the HCA raises and completes nothing more",
	"the HCA is silent and its verbs fail",
	"the HCA does its part",
	"the HCA does its part, but raises no LWQE",
	"only one QP is served",
};

/* One event for a worker that has this QP; 0 if none. */
static bool next_worker(enum future f, unsigned int i, u16 *e)
{
	const struct hca_qp *h = &w.h[i];

	if (h->move == VERB_QUEUED)
		*e = EVENT(f == FUTURE_VERBS_FAIL ? EV_MOVE_FAILS : EV_MOVED, i);
	else if (h->move)
		*e = EVENT(EV_MOVE_OVER, i);
	else if (h->reap == VERB_QUEUED)
		*e = EVENT(EV_DESTROYED, i);
	else
		return false;
	return true;
}

static bool next_hca(enum future f, unsigned int i, u16 *e)
{
	const struct hca_qp *h = &w.h[i];

	if (!qp_in_teardown(i) || h->state == HCA_GONE)
		return false;
	if (h->held && h->state == HCA_ERR)
		*e = EVENT(EV_RECV, i);
	else if (f != FUTURE_NO_LWQE && !h->lwqe &&
		 event_enabled(EV_LWQE, i))
		*e = EVENT(EV_LWQE, i);
	else if (event_enabled(EV_FLUSH, i))
		*e = EVENT(EV_FLUSH, i);
	else if (event_enabled(EV_SENT, i))
		*e = EVENT(EV_SENT, i);
	else
		return false;
	return true;
}

static bool next_shared(enum future f, u16 *e)
{
	static const u8 order[] = { EV_RUN, EV_SET_DEAD, EV_ROUND,
				    EV_POLL };
	unsigned int i;

	if (f == FUTURE_VERBS_FAIL && event_enabled(EV_VERB_FAILS, 0)) {
		*e = EVENT(EV_VERB_FAILS, 0);
		return true;
	}
	for (i = 0; i < sizeof(order); i++)
		if (event_enabled(order[i], 0)) {
			*e = EVENT(order[i], 0);
			return true;
		}
	return false;
}

static bool next_event(enum future f, unsigned int only, u16 *e)
{
	bool alone = f == FUTURE_ALONE;
	unsigned int i;

	if (next_shared(f, e))
		return true;
	for (i = 0; i < cfg.qps; i++)
		if ((!alone || i == only) && next_worker(f, i, e))
			return true;
	if (f == FUTURE_SILENT || f == FUTURE_VERBS_FAIL)
		return false;
	for (i = 0; i < cfg.qps; i++)
		if ((!alone || i == only) && next_hca(f, i, e))
			return true;
	return false;
}

/* Is anybody left? Is anybody overdue when the clock would go on? */
static bool anybody(enum future f, unsigned int only)
{
	unsigned int i;

	for (i = 0; i < cfg.qps; i++)
		if (qp_in_teardown(i) && (f != FUTURE_ALONE || i == only))
			return true;
	return false;
}

/* Would a healthy HCA have this QP done by now? */
static bool waits_in_vain(enum future f, unsigned int i)
{
	if (i < cfg.probes)
		return f == FUTURE_HELPFUL;
	switch (ipoib_drain_strategy(&w.d)) {
	case IPOIB_DRAIN_LWQE_FLUSH:
	case IPOIB_DRAIN_LWQE_SWEEP:
		return f == FUTURE_HELPFUL;
	case IPOIB_DRAIN_FLUSH_SWEEP:
		if (i >= cfg.rtr)
			return f == FUTURE_HELPFUL || f == FUTURE_NO_LWQE;
		/* fallthrough */
	default:
		return w.q[i].in_err && w.q[i].slot == IPOIB_DRAIN_NO_SLOT &&
		       w.now >= w.q[i].err_at + w.d.timeout / 32;
	}
}

static void check_overdue(enum future f, unsigned int only)
{
	unsigned int i;

	for (i = 0; i < cfg.qps; i++) {
		if (!qp_in_teardown(i) || (f == FUTURE_ALONE && i != only))
			continue;
		if (w.now >= w.q[i].start + w.d.timeout)
			violate("D4: QP%u is past its deadline (%s)", i,
				future_names[f]);
		if (w.q[i].state == IPOIB_DRAIN_FLUSH &&
		    !list_empty(&w.q[i].wait) && w.d.nslots < w.d.window)
			violate("D5: QP%u waits for a slot, one is free", i);
		if (w.d.dead)
			violate("D4: QP%u waits for a dead HCA (%s)", i,
				future_names[f]);
		if (!w.broken && f != FUTURE_VERBS_FAIL && waits_in_vain(f, i))
			violate("D4: QP%u waits for the clock without need (%s)",
				i, future_names[f]);
	}
}

static void run_future_once(enum future f, unsigned int only)
{
	unsigned int steps;
	u16 e;

	tell("#       From here on %s:\n", future_names[f]);
	for (steps = 0; !violation[0] && anybody(f, only); steps++) {
		if (steps == 3000) {
			violate("D4: no end (%s)", future_names[f]);
		} else if (next_event(f, only, &e)) {
			event_apply(e);
			if (w.d.lock.held)
				violate("the lock is still held");
			continue;
		} else {
			check_overdue(f, only);
			if (w.armed == NEVER) {
				violate("D4: nothing will happen any more (%s)",
					future_names[f]);
				break;
			}
			tell("#       Time passes until the timer goes off\n");
			w.now = w.armed;
			w.armed = NEVER;
			w.kick = true;
		}
	}
}

static char before[WORLD_MAX] __attribute__((aligned(64)));

/* Only a future with a violation is worth telling. */
static void run_future(enum future f, unsigned int only)
{
	bool tell_it = telling;

	telling = false;
	run_future_once(f, only);
	telling = tell_it;
	if (!violation[0] || !telling)
		return;
	world_restore(before);
	violation[0] = 0;
	run_future_once(f, only);
}

void check_futures(void)
{
	unsigned int f, q;

	if (violation[0])
		return;
	world_save(before);
	for (f = 0; f < FUTURE_COUNT && !violation[0]; f++) {
		for (q = 0; q < (f == FUTURE_ALONE ? cfg.qps : 1); q++) {
			if (!anybody(f, q) || (f == FUTURE_ALONE && cfg.qps == 1))
				continue;
			run_future(f, q);
			if (violation[0])
				break;
			world_restore(before);
		}
	}
}

/*
 * States as bytes
 */

static char *put(char *to, const void *from, size_t len)
{
	memcpy(to, from, len);
	return to + len;
}

static const char *get(const char *from, void *to, size_t len)
{
	memcpy(to, from, len);
	return from + len;
}

#define SLOTS_AT	offsetof(struct ipoib_drain, slots)
#define TAIL_AT		offsetof(struct ipoib_drain, window)
#define TAIL_LEN	(sizeof(struct ipoib_drain) - TAIL_AT)

size_t world_save(void *to)
{
	char *p = to;

	p = put(p, &w, offsetof(struct world, h));
	p = put(p, w.h, cfg.qps * sizeof(w.h[0]));
	p = put(p, w.q, cfg.qps * sizeof(w.q[0]));
	p = put(p, &w.d, SLOTS_AT + cfg.window * sizeof(w.d.slots[0]));
	p = put(p, (char *)&w.d + TAIL_AT, TAIL_LEN);
	p = (char *)(((uintptr_t)p + 15) & ~(uintptr_t)15);
	p += coro_save(p);
	return p - (char *)to;
}

void world_restore(const void *from)
{
	const char *p = from;

	p = get(p, &w, offsetof(struct world, h));
	p = get(p, w.h, cfg.qps * sizeof(w.h[0]));
	p = get(p, w.q, cfg.qps * sizeof(w.q[0]));
	p = get(p, &w.d, SLOTS_AT + cfg.window * sizeof(w.d.slots[0]));
	p = get(p, (char *)&w.d + TAIL_AT, TAIL_LEN);
	p = (const char *)(((uintptr_t)p + 15) & ~(uintptr_t)15);
	coro_restore(p);
}

/*
 * States as hashes: clocks and tickets count from the present, QPs have no
 * names of their own (the least hash over their permutations), and what
 * nobody reads any more is left out.
 */

struct bytes {
	unsigned char b[1024];
	unsigned int len;
};

static void add(struct bytes *s, u8 v)
{
	s->b[s->len++] = v;
}

/* Time to come, from now on; what is past is 0. */
static u8 to_come(u64 when)
{
	if (when == NEVER)
		return 255;
	return when <= w.now ? 0 : min(when - w.now, (u64)254);
}

static u8 ticket_ahead(u64 ticket)
{
	return ticket <= w.d.sweep_done ? 0 : min(ticket - w.d.sweep_done, (u64)255);
}

/* Otherwise two QPs cannot miss enough to change the strategy. */
static bool settling_matters(void)
{
	return cfg.lwqe_misses || cfg.flush_misses || cfg.qps > 2;
}

/* The engine's part; what it reads no more in a state is left out there. */
static void add_engine_qp(struct bytes *s, const struct ipoib_drain_qp *q)
{
	bool posting = w.pause == PAUSE_POSTED && &w.q[w.paused_q] == q;

	add(s, q->state);
	if (q->state == IPOIB_DRAIN_LIVE)
		add(s, q->rq_done);
	if (q->state == IPOIB_DRAIN_LIVE || q->state == IPOIB_DRAIN_KEPT)
		return;
	add(s, q->slot);
	if (q->state >= IPOIB_DRAIN_SWEEP) {
		add(s, ticket_ahead(q->ticket));
		add(s, q->condemned | q->err_busy << 1 | q->gone << 2 |
		       q->assumed << 3);
		return;
	}
	add(s, to_come(q->start + w.d.timeout));
	if (q->state == IPOIB_DRAIN_ERROR)
		add(s, q->err_tries);
	else if (q->state == IPOIB_DRAIN_FLUSH || posting)
		add(s, q->post_tries);
	if (settling_matters() && q->in_err && !q->rq_done)
		add(s, to_come(q->err_at + w.d.timeout / 32));
	add(s, q->sq_done | q->in_err << 1 | q->err_busy << 2 | q->no_sq << 3 |
	       q->early << 4 | q->lied << 5 | q->rq_done << 6 | q->nudged << 7);
}

static void add_qp(struct bytes *s, unsigned int i)
{
	const struct ipoib_drain_qp *q = &w.q[i];
	const struct hca_qp *h = &w.h[i];

	add(s, h->state | h->held << 2 | (i < cfg.probes) << 3 | h->released << 4 |
	       h->liar << 5 | h->ghosts << 6 | (i < cfg.rtr) << 7);
	add(s, h->wr | h->lwqe << 3 | h->move << 4 | h->reap << 6);
	if (h->wr == WR_NONE || h->released)
		add(s, 255);
	else
		add(s, h->slot);
	if (h->released)
		return;
	add_engine_qp(s, q);
}

#define add_list(s, head, member, to) do {				\
	struct ipoib_drain_qp *_q;					\
	list_for_each_entry(_q, head, member)				\
		add(s, 1 + to[_q - w.q]);				\
	add(s, 0);							\
} while (0)

/* @to: new name of each QP; @from: the other way round. */
static void serialise(struct bytes *s, const u8 *to, const u8 *from)
{
	unsigned int i;

	s->len = 0;
	for (i = 0; i < cfg.qps; i++)
		add_qp(s, from[i]);
	add(s, w.round | w.sweep_asked << 2 | w.kick << 3 |
	       w.dead << 4 | w.retimed << 5 | w.d.dead << 6);
	add(s, w.faults | w.broken << 7);
	if (settling_matters())
		add(s, w.d.lwqe_misses | w.d.flush_misses << 2 |
		       w.d.no_lwqe << 4 | w.d.no_flush << 5);
	add(s, to_come(w.armed));
	add(s, to_come(w.d.next_due));
	add(s, w.round ? ticket_ahead(w.ticket) : 0);
	add(s, w.polled);
	add(s, w.pause);
	add(s, to[w.paused_q]);
	add(s, w.paused_rc);
	for (i = 0; i < w.cq_len; i++)
		add(s, (w.cq[i] & 0xf0) | ((w.cq[i] & 15) == 15 ? 15 : to[w.cq[i] & 15]));
	add(s, 0xff);
	for (i = 0; i < w.d.window; i++)
		add(s, w.d.slots[i] ? 1 + to[w.d.slots[i] - w.q] : 0);
	add(s, ticket_ahead(w.d.sweep_want));
	add(s, ticket_ahead(w.d.sweep_cur));
	add(s, ticket_ahead(w.d.sweep_cur) ? w.d.sweep_left : 0);
	add_list(s, &w.d.qps, node, to);
	add_list(s, &w.d.ready, ready, to);
	add_list(s, &w.d.fifo, wait, to);
	add_list(s, &w.d.sweeping, wait, to);
}

static u64 hash_bytes(struct bytes *s)
{
	u64 h = 0x9e3779b97f4a7c15ull, v;
	unsigned int i;

	memset(s->b + s->len, 0, 8);
	for (i = 0; i < s->len; i += 8) {
		memcpy(&v, s->b + i, 8);
		h = (h ^ v) * 0xff51afd7ed558ccdull;
		h ^= h >> 32;
		h *= 0xc4ceb9fe1a85ec53ull;
		h ^= h >> 29;
	}
	return h ? h : 1;
}

static u64 hash_permuted(u8 *from, unsigned int k)
{
	u8 to[16] = { 0 }, t;
	struct bytes s;
	u64 best = NEVER;
	unsigned int i;

	if (k == cfg.qps) {
		for (i = 0; i < k; i++)
			to[from[i]] = i;
		serialise(&s, to, from);
		return hash_bytes(&s);
	}
	for (i = k; i < cfg.qps; i++) {
		t = from[k], from[k] = from[i], from[i] = t;
		best = min(best, hash_permuted(from, k + 1));
		t = from[k], from[k] = from[i], from[i] = t;
	}
	return best;
}

u64 world_hash(void)
{
	u8 from[MAX_QPS];
	unsigned int i;

	for (i = 0; i < MAX_QPS; i++)
		from[i] = i;
	return hash_permuted(from, 0);
}
