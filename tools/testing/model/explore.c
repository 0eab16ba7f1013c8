// SPDX-License-Identifier: GPL-2.0-only
/*
 * Visits every state that the drain engine can get into, breadth first, so that
 * the story of a violation is a shortest one; or walks at random through a
 * world too large for that. Prints KTAP.
 *
 *   explore [--big | --quick] [--first] [NAME...]
 *	configurations of that name, or all; up to the first violation
 *   explore --walk [--seed N] [--walks N] [--steps N] [--qps N]
 */
#include <getopt.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "world.h"

#define M(id)	(1ull << EV_##id)

/* Events that only make the world larger where they are not the point. */
#define NO_LIES		(M(LWQE_LIE) | M(MOVE_LIES) | M(FLUSH_DUP))
#define NO_EXTRAS	(M(RETIME) | M(FOREIGN) | M(ROUND_OVER))

enum size { QUICK, CI, BIG };

/**
 * struct row - a configuration and where it belongs
 * @size: the smallest run that has it
 */
static const struct row {
	enum size size;
	struct config c;
} rows[] = {
	{ QUICK, { .name = "one-qp", .qps = 1, .window = 1, .cqe = 2,
		   .faults = ANY_FAULTS, .step = 32, .mask = NO_LIES | NO_EXTRAS } },
	{ QUICK, { .name = "one-qp-not-in-rts", .qps = 1, .rtr = 1, .window = 1,
		   .cqe = 2, .faults = ANY_FAULTS, .step = 32,
		   .mask = NO_LIES | NO_EXTRAS } },
	{ QUICK, { .name = "one-qp-liar", .qps = 1, .window = 1, .cqe = 3,
		   .faults = 2, .step = 32, .mask = NO_EXTRAS } },
	{ QUICK, { .name = "one-qp-new-deadline", .qps = 1, .window = 1,
		   .cqe = 2, .faults = 1, .step = 16,
		   .mask = NO_LIES | M(FOREIGN) | M(ROUND_OVER) } },
	{ QUICK, { .name = "one-qp-busy-cq", .qps = 1, .window = 1, .faults = 1,
		   .cqe = 4, .busy = true, .step = 32,
		   .mask = NO_LIES | M(RETIME) } },
	{ QUICK, { .name = "one-qp-no-lwqe", .qps = 1, .window = 1, .cqe = 2,
		   .faults = 2, .step = 32, .lwqe_misses = 3,
		   .mask = NO_LIES | NO_EXTRAS } },
	{ QUICK, { .name = "one-qp-no-flush", .qps = 1, .window = 1, .cqe = 2,
		   .faults = 2, .step = 32, .flush_misses = 3,
		   .mask = NO_LIES | NO_EXTRAS } },
	{ QUICK, { .name = "one-qp-timed", .qps = 1, .window = 1, .cqe = 2,
		   .faults = 1, .step = 2, .lwqe_misses = 3, .flush_misses = 3,
		   .mask = NO_LIES | NO_EXTRAS } },
	{ QUICK, { .name = "one-qp-timed-not-in-rts", .qps = 1, .rtr = 1,
		   .window = 1, .cqe = 2, .faults = 1, .step = 2,
		   .lwqe_misses = 3, .mask = NO_LIES | NO_EXTRAS } },
	{ QUICK, { .name = "two-qps-new-strategy", .qps = 2, .window = 1,
		   .cqe = 3, .bare = true, .step = 32, .lwqe_misses = 2,
		   .flush_misses = 2, .mask = NO_EXTRAS | M(SPONTANEOUS) } },
	{ QUICK, { .name = "two-qps-timed", .qps = 2, .window = 1,
		   .cqe = 3, .bare = true, .step = 32, .lwqe_misses = 3,
		   .flush_misses = 3, .mask = NO_EXTRAS | M(SPONTANEOUS) } },
	{ QUICK, { .name = "two-qps-new-deadline", .qps = 2, .window = 1,
		   .cqe = 3, .bare = true, .step = 32,
		   .mask = M(SPONTANEOUS) | M(FOREIGN) | M(ROUND_OVER) } },
	{ QUICK, { .name = "one-probe", .qps = 1, .probes = 1, .window = 1,
		   .cqe = 2, .faults = 1, .step = 32,
		   .mask = NO_LIES | NO_EXTRAS } },
	{ QUICK, { .name = "one-probe-no-lwqe", .qps = 1, .probes = 1,
		   .window = 1, .cqe = 2, .faults = 1, .step = 32,
		   .lwqe_misses = 3, .mask = NO_LIES | NO_EXTRAS } },
	{ QUICK, { .name = "one-probe-no-flush", .qps = 1, .probes = 1,
		   .window = 1, .cqe = 2, .faults = 1, .step = 32,
		   .flush_misses = 3, .mask = NO_LIES | NO_EXTRAS } },
	{ QUICK, { .name = "one-probe-timed", .qps = 1, .probes = 1,
		   .window = 1, .cqe = 2, .faults = 1, .step = 32,
		   .lwqe_misses = 3, .flush_misses = 3,
		   .mask = NO_LIES | NO_EXTRAS } },
	{ QUICK, { .name = "probe-and-qp-timed", .qps = 2, .probes = 1,
		   .window = 1, .cqe = 3, .bare = true, .step = 32,
		   .lwqe_misses = 3, .flush_misses = 3,
		   .mask = NO_EXTRAS | M(SPONTANEOUS) } },
	{ BIG, { .name = "two-qps-healthy", .qps = 2, .window = 1,
		.cqe = 3, .step = 32, .mask = NO_EXTRAS | M(SPONTANEOUS) } },
	{ CI, { .name = "two-qps-busy-cq", .qps = 2, .window = 1, .cqe = 4,
		.bare = true, .busy = true, .step = 64,
		.mask = M(RETIME) | M(SPONTANEOUS) } },
	{ CI, { .name = "two-qps", .qps = 2, .window = 1, .faults = 1, .bare = true,
		.cqe = 3, .step = 32, .mask = NO_LIES | NO_EXTRAS } },
	{ CI, { .name = "two-qps-window-2", .qps = 2, .window = 2, .faults = 1, .bare = true,
		.cqe = 4, .step = 32, .mask = NO_LIES | NO_EXTRAS | M(SPONTANEOUS) } },
	{ CI, { .name = "two-qps-one-not-in-rts", .qps = 2, .rtr = 1,
		.window = 1, .faults = 1, .bare = true, .cqe = 3,
		.step = 32, .mask = NO_LIES | NO_EXTRAS | M(SPONTANEOUS) } },
	{ BIG, { .name = "two-qps-two-faults", .qps = 2, .window = 1,
		 .faults = 2, .cqe = 3, .step = 32, .mask = NO_EXTRAS } },
	{ BIG, { .name = "three-qps", .qps = 3, .window = 1, .cqe = 4,
		 .step = 32, .mask = NO_EXTRAS | M(SPONTANEOUS) } },
	{ BIG, { .name = "three-qps-window-2", .qps = 3, .window = 2, .cqe = 5,
		 .step = 32, .mask = NO_EXTRAS | M(SPONTANEOUS) } },
};

#define NROWS	(sizeof(rows) / sizeof(rows[0]))

/* Of this processor: others may use the machine too. */
static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void *grow(void *p, size_t len)
{
	p = realloc(p, len);
	if (!p) {
		printf("Bail out! out of memory\n");
		exit(1);
	}
	return p;
}

/* A bad pointer in the engine is a violation like others. */
static sigjmp_buf segv_jmp;

static void on_segv(int sig)
{
	(void)sig;
	siglongjmp(segv_jmp, 1);
}

/* False if the event turned out to be none. */
static bool step(u16 e)
{
	if (sigsetjmp(segv_jmp, 0)) {
		violate("the engine follows a bad pointer");
		return true;
	}
	if (!event_apply(e))
		return false;
	if (!violation[0])
		check_state();
	return true;
}

/* Futures are looked at where they differ: once for each state. */
static void step_on(void)
{
	if (sigsetjmp(segv_jmp, 0)) {
		violate("the engine follows a bad pointer");
		return;
	}
	if (!violation[0])
		check_futures();
}

static void catch_segv(void)
{
	static char stack[65536];
	stack_t ss = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction sa = { .sa_handler = on_segv,
				.sa_flags = SA_NODEFER | SA_ONSTACK };

	sigaltstack(&ss, NULL);
	sigaction(SIGSEGV, &sa, NULL);
	sigaction(SIGBUS, &sa, NULL);
}

/*
 * Visited states: a set of hashes, and how each was first reached
 */

struct node {
	u32 parent;
	u16 event;
};

static u64 *set;
static size_t set_size, set_used;
static struct node *nodes;
static size_t nodes_size;

static bool set_insert(u64 *table, size_t size, u64 h)
{
	size_t i = h & (size - 1);

	while (table[i]) {
		if (table[i] == h)
			return false;
		i = (i + 1) & (size - 1);
	}
	table[i] = h;
	return true;
}

static void set_reset(void)
{
	free(set);
	set_size = 1 << 20;
	set_used = 0;
	set = calloc(set_size, sizeof(*set));
}

static void set_double(void)
{
	u64 *bigger = calloc(2 * set_size, sizeof(*bigger));
	size_t i;

	if (!bigger) {
		printf("Bail out! out of memory\n");
		exit(1);
	}
	for (i = 0; i < set_size; i++)
		if (set[i])
			set_insert(bigger, 2 * set_size, set[i]);
	free(set);
	set = bigger;
	set_size *= 2;
}

/* A new state? Then it gets a number, *@index. */
static bool visit(u32 parent, u16 event, u32 *index)
{
	if (set_used * 10 >= set_size * 6)
		set_double();
	if (!set_insert(set, set_size, world_hash()))
		return false;
	if (set_used == nodes_size) {
		nodes_size = nodes_size ? 2 * nodes_size : 1 << 16;
		nodes = grow(nodes, nodes_size * sizeof(*nodes));
	}
	nodes[set_used] = (struct node){ parent, event };
	*index = set_used++;
	return true;
}

/*
 * States still to be expanded: a queue of chunks
 */

#define CHUNK (4 << 20)

struct chunk {
	struct chunk *next;
	size_t used;
	char bytes[] __attribute__((aligned(16)));
};

struct record {
	u32 index;
	u32 len;
	char bytes[] __attribute__((aligned(16)));
};

static struct chunk *first, *last;
static size_t taken;

static struct chunk *new_chunk(void)
{
	struct chunk *c = grow(NULL, sizeof(*c) + CHUNK);

	c->next = NULL;
	c->used = 0;
	return c;
}

static void enqueue(u32 index)
{
	struct record *r;
	struct chunk *c;

	if (!last || last->used + sizeof(*r) + WORLD_MAX > CHUNK) {
		c = new_chunk();
		if (last)
			last->next = c;
		else
			first = c;
		last = c;
	}
	r = (struct record *)(last->bytes + last->used);
	r->index = index;
	r->len = (world_save(r->bytes) + 15) & ~15u;
	last->used += sizeof(*r) + r->len;
}

static struct record *dequeue(void)
{
	struct record *r;
	struct chunk *c;

	while (first && taken == first->used) {
		c = first;
		first = c->next;
		if (!first)
			last = NULL;
		free(c);
		taken = 0;
	}
	if (!first)
		return NULL;
	r = (struct record *)(first->bytes + taken);
	taken += sizeof(*r) + r->len;
	return r;
}

static void drop_queue(void)
{
	while (dequeue())
		;
}

/* The story of the path to node @index and, from there, of @event. */
static void tell_story(u32 index, u16 event)
{
	u16 *path = NULL;
	size_t n = 0, i;
	u32 at;

	for (at = index; at; at = nodes[at].parent) {
		path = grow(path, (n + 1) * sizeof(*path));
		path[n++] = nodes[at].event;
	}
	world_init(&cfg);
	violation[0] = 0;
	for (i = 0; i <= n; i++) {
		telling = true;
		if (i < n)
			event_apply(path[n - 1 - i]);
		else
			step(event);
		if (i == n)
			step_on();
		telling = false;
	}
	printf("# Violation: %s\n", violation);
	free(path);
}

/* True: without a violation. */
static bool expand(const struct record *r)
{
	unsigned int id, q;
	u32 index;

	for (id = 0; id < EV_COUNT; id++) {
		if (cfg.mask & (1ull << id))
			continue;
		for (q = 0; q < (event_is_each(id) ? cfg.qps : 1); q++) {
			world_restore(r->bytes);
			if (!event_enabled(id, q) ||
			    (event_is_fault(id) && w.faults >= cfg.faults))
				continue;
			if (!step(EVENT(id, q)))
				continue;
			if (!violation[0] &&
			    visit(r->index, EVENT(id, q), &index)) {
				enqueue(index);
				step_on();
			}
			if (violation[0]) {
				tell_story(r->index, EVENT(id, q));
				return false;
			}
		}
	}
	return true;
}

static bool explore(const struct config *c, unsigned int number)
{
	double start = seconds();
	struct record *r;
	bool ok = true;
	u32 index;

	set_reset();
	violation[0] = 0;
	world_init(c);
	visit(0, 0, &index);
	enqueue(index);
	while (ok && (r = dequeue()))
		ok = expand(r);
	drop_queue();
	printf("%s %u explore-%s # %zu states, %.1f s\n", ok ? "ok" : "not ok",
	       number, c->name, set_used, seconds() - start);
	fflush(stdout);
	return ok;
}

/*
 * Random walks
 */

static u64 rnd_state;

static u32 rnd(u32 below)
{
	rnd_state ^= rnd_state << 13;
	rnd_state ^= rnd_state >> 7;
	rnd_state ^= rnd_state << 17;
	return (rnd_state >> 16) % below;
}

/* Time and faults are rare, or nothing but them is seen. */
static unsigned int weight(enum event_id id)
{
	if (event_is_fault(id))
		return w.faults >= cfg.faults ? 0 : 1;
	switch (id) {
	case EV_TICK:
	case EV_RETIME:
	case EV_SPONTANEOUS:
		return 1;
	case EV_LWQE:
	case EV_FLUSH:
		return 3;
	case EV_RUN:
		return 40;
	default:
		return 10;
	}
}

static bool pick(u16 *e)
{
	u16 choice[EV_COUNT * MAX_QPS];
	unsigned int weights[EV_COUNT * MAX_QPS];
	unsigned int id, q, n = 0, sum = 0, at;

	for (id = 0; id < EV_COUNT; id++)
		for (q = 0; q < (event_is_each(id) ? cfg.qps : 1); q++) {
			if (!event_enabled(id, q) || !weight(id))
				continue;
			choice[n] = EVENT(id, q);
			weights[n] = weight(id);
			sum += weights[n++];
		}
	if (!n)
		return false;
	at = rnd(sum);
	for (n = 0; at >= weights[n]; n++)
		at -= weights[n];
	*e = choice[n];
	return true;
}

static bool walk(const struct config *c, u64 seed, unsigned int steps)
{
	unsigned int n;
	u16 e;

	rnd_state = seed * 0x9e3779b97f4a7c15ull + 1;
	violation[0] = 0;
	world_init(c);
	for (n = 0; n < steps && !violation[0] && pick(&e); n++) {
		step(e);
		step_on();
	}
	return !violation[0];
}

static int walks(struct config *c, u64 seed, unsigned int count,
		 unsigned int steps)
{
	double start = seconds();
	unsigned int i;
	bool ok = true;

	printf("KTAP version 1\n1..1\n");
	for (i = 0; i < count && ok; i++) {
		ok = walk(c, seed + i, steps);
		if (ok)
			continue;
		telling = true;
		walk(c, seed + i, steps);
		printf("# Violation: %s\n", violation);
		printf("# again by: explore --walk --seed %llu --walks 1 --qps %u\n",
		       (unsigned long long)(seed + i), c->qps);
	}
	printf("%s 1 walk # %u walks of up to %u events, %u QPs, seed %llu, %.1f s\n",
	       ok ? "ok" : "not ok", i, steps, c->qps, (unsigned long long)seed,
	       seconds() - start);
	return !ok;
}

static bool wanted(const struct row *r, enum size size, char **names)
{
	if (!*names)
		return r->size <= size;
	for (; *names; names++)
		if (!strcmp(*names, r->c.name))
			return true;
	return false;
}

static int explore_all(enum size size, bool only_first, char **names)
{
	unsigned int i, n = 0, failed = 0;

	for (i = 0; i < NROWS; i++)
		n += wanted(&rows[i], size, names);
	printf("KTAP version 1\n1..%u\n", n);
	fflush(stdout);
	n = 0;
	for (i = 0; i < NROWS; i++)
		if (wanted(&rows[i], size, names))
			if (!explore(&rows[i].c, ++n) && ++failed && only_first)
				break;
	return failed || !n;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "big", no_argument, NULL, 'b' },
		{ "quick", no_argument, NULL, 'k' },
		{ "first", no_argument, NULL, 'f' },
		{ "walk", no_argument, NULL, 'w' },
		{ "seed", required_argument, NULL, 's' },
		{ "walks", required_argument, NULL, 'n' },
		{ "steps", required_argument, NULL, 't' },
		{ "qps", required_argument, NULL, 'q' },
		{ NULL, 0, NULL, 0 },
	};
	struct config c = { .name = "walk", .qps = 8, .rtr = 1, .window = 3,
			    .faults = 12, .busy = true, .step = 16 };
	unsigned int count = 2000, steps = 3000;
	enum size size = CI;
	u64 seed = 1;
	bool walking = false, only_first = false;
	int opt;

	catch_segv();
	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (opt) {
		case 'b': size = BIG; break;
		case 'k': size = QUICK; break;
		case 'f': only_first = true; break;
		case 'w': walking = true; break;
		case 's': seed = strtoull(optarg, NULL, 0); break;
		case 'n': count = strtoul(optarg, NULL, 0); break;
		case 't': steps = strtoul(optarg, NULL, 0); break;
		case 'q': c.qps = strtoul(optarg, NULL, 0); break;
		default: return 2;
		}
	}
	if (c.qps < 1 || c.qps >= MAX_QPS) {
		fprintf(stderr, "explore: 1 to %u QPs\n", MAX_QPS - 1);
		return 2;
	}
	c.cqe = c.qps + c.window + 2;
	return walking ? walks(&c, seed, count, steps) :
			 explore_all(size, only_first, argv + optind);
}
