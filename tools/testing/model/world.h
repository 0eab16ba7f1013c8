/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The world that the drain engine is put in: a fake HCA that keeps the truth,
 * a fake clock, the owner's workers and the poller of the receive CQ. Each
 * thing that can happen next is an event; a state is what is left when an event
 * is over. ipoib_drain_run() is a coroutine that pauses wherever it has let go
 * of the lock, so events come between its steps as well.
 */
#ifndef MODEL_WORLD_H
#define MODEL_WORLD_H

#include "ipoib_cm_drain.h"

#define MAX_QPS		16
#define MAX_CQ		64
#define TIMEOUT		64	/* deadline in ticks of the fake clock */
#define NEVER		U64_MAX
#define ANY_FAULTS	255

enum hca_state { HCA_RTR, HCA_RTS, HCA_ERR, HCA_GONE };

/* A drain WR, as the HCA sees it. */
enum hca_wr { WR_NONE, WR_FLUSHING, WR_SENT, WR_IN_CQ, WR_OVER, WR_SUCCESS };

/* A verb that one of the owner's workers has. */
enum verb { VERB_NONE, VERB_QUEUED, VERB_OK, VERB_FAILED };

/* Entries of the CQ; the low four bits are the QP. */
enum cqe { CQE_RECV = 0x00, CQE_FLUSH = 0x10, CQE_ODD = 0x20,
	   CQE_SENT = 0x30, CQE_DUP = 0x40, CQE_FOREIGN = 0x50 };

/* Where ipoib_drain_run() pauses. */
enum pause { PAUSE_IDLE, PAUSE_POSTED, PAUSE_RESCHED };

/**
 * struct hca_qp - the truth about a QP
 * @state: of the QP in the HCA
 * @held: the HCA owns a receive WQE of the SRQ for this QP
 * @lwqe: LWQE has been raised
 * @wr: the drain WR
 * @slot: its cookie
 * @move: the worker that moves it to ERR
 * @reap: the worker that destroys it
 * @released: the engine has given it back
 * @liar: its HCA broke the rules in a way that excuses a wrong release
 * @ghosts: completions that no WR explains
 */
struct hca_qp {
	u8 state;
	u8 held;
	u8 lwqe;
	u8 wr;
	u8 slot;
	u8 move;
	u8 reap;
	u8 released;
	u8 liar;
	u8 ghosts;
};

/**
 * struct world - everything that an event can change
 * @now: the clock
 * @armed: when the timer goes off
 * @ticket: @polled: of the poller's round, if @round
 * @kick: ipoib_drain_run() is asked for
 * @faults: faults so far
 * @broken: one of them was not a failed destroy
 * @dead: the HCA is
 * @pause: @paused_q, @paused_rc: where ipoib_drain_run() stands
 */
struct world {
	u64 now;
	u64 armed;
	u64 ticket;
	u32 polled;
	u8 round;
	u8 sweep_asked;
	u8 kick;
	u8 faults;
	u8 broken;
	u8 dead;
	u8 retimed;
	u8 pause;
	u8 paused_q;
	s8 paused_rc;
	u8 cq_len;
	u8 cq[MAX_CQ];
	struct hca_qp h[MAX_QPS];
	struct ipoib_drain_qp q[MAX_QPS];
	struct ipoib_drain d;
};

/**
 * struct config - the world's size
 * @qps: QPs
 * @rtr: of these, so many never reach RTS
 * @probes: of these, so many are drained as probes of the HCA
 * @window: of the engine
 * @faults: faults at most, or ANY_FAULTS
 * @cqe: entries of the CQ, counts in sweeps; with @busy other QPs fill it
 * @bare: QPs have no receive WQE that could complete
 * @lwqe_misses: @flush_misses: the engine has seen so many in a row
 * @step: how far the clock goes at a time
 * @mask: events that do not happen
 */
struct config {
	const char *name;
	unsigned int qps;
	unsigned int rtr;
	unsigned int probes;
	unsigned int window;
	unsigned int faults;
	unsigned int cqe;
	unsigned int lwqe_misses;
	unsigned int flush_misses;
	bool bare;
	bool busy;
	unsigned int step;
	u64 mask;
};

#define EVENTS(E)							\
	/* id, fault, each QP, story */					\
	E(RUN,		0, 0, "ipoib_drain_run() goes on")		\
	E(VERB_FAILS,	1, 0, "ipoib_drain_run() goes on, its next verb fails") \
	E(BEGIN,	0, 1, "the owner begins the teardown")		\
	E(MOVED,	0, 1, "a worker moves it to ERR")		\
	E(MOVE_FAILS,	1, 1, "a worker's move to ERR fails")		\
	E(MOVE_LIES,	1, 1, "a worker's move to ERR seems to succeed") \
	E(MOVE_OVER,	0, 1, "the worker reports the move")		\
	E(DESTROYED,	0, 1, "a worker destroys it, silently")		\
	E(DESTROY_NOISY, 0, 1, "a worker destroys it; what it had completes") \
	E(DESTROY_FAILS, 1, 1, "a worker cannot destroy it")		\
	E(ROUND,	0, 0, "the poller starts a round")		\
	E(POLL,		0, 0, "the poller polls")			\
	E(ROUND_OVER,	0, 0, "the poller has had its turn")		\
	E(RECV,		0, 1, "the HCA completes its receive WQE")	\
	E(SPONTANEOUS,	0, 1, "the HCA moves it to ERR by itself")	\
	E(LWQE,		0, 1, "the HCA raises LWQE")			\
	E(LWQE_LIE,	1, 1, "the HCA raises LWQE before it is due")	\
	E(FLUSH,	0, 1, "the HCA flushes the drain WR")		\
	E(FLUSH_ODD,	1, 1, "the HCA completes the drain WR with an odd status") \
	E(SENT,		0, 1, "the HCA transmits the drain WR: success")	\
	E(FLUSH_DUP,	1, 1, "the HCA completes the drain WR again")	\
	E(DEAD,		1, 0, "the HCA dies")				\
	E(SET_DEAD,	0, 0, "the owner hears that the HCA is dead")	\
	E(FOREIGN,	0, 0, "another QP's receive completes")		\
	E(RETIME,	0, 0, "the deadline is halved")			\
	E(TICK,		0, 0, "time passes")

enum event_id {
#define E(id, fault, each, story) EV_##id,
	EVENTS(E)
#undef E
	EV_COUNT
};

#define EVENT(id, q)	((u16)((id) << 4 | (q)))
#define EVENT_ID(e)	((e) >> 4)
#define EVENT_Q(e)	((e) & 15)

extern struct world w;
extern struct config cfg;
extern bool telling;		/* print the story */
extern char violation[256];	/* empty: none */

/* world.c */
void world_init(const struct config *c);
bool event_enabled(enum event_id id, unsigned int q);
bool event_is_fault(enum event_id id);
bool event_is_each(enum event_id id);
bool event_apply(u16 e);	/* false: this did not happen after all */
void violate(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void tell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
bool qp_in_teardown(unsigned int q);
unsigned int cq_count(unsigned int q);

/* coro.c */
void coro_init(void (*body)(void));
void coro_resume(void);
void coro_pause(void);
size_t coro_save(void *to);
void coro_restore(const void *from);
#define CORO_MAX 8192

/* check.c */
void check_state(void);
void check_futures(void);
u64 world_hash(void);
size_t world_save(void *to);
void world_restore(const void *from);
#define WORLD_MAX (sizeof(struct world) + CORO_MAX)

#endif /* MODEL_WORLD_H */
