// SPDX-License-Identifier: GPL-2.0-only
/*
 * The three state machines: every pair of states goes through the setter, which
 * takes the legal ones in silence and warns of the others. What is legal is
 * written down here a second time, by hand: x in row FROM, column TO.
 */
#include <kunit/test.h>

#include "ipoib.h"
#include "ipoib_cm_state.h"
#include "ipoib_trace.h"
#include "sources.h"

static const char *const drain_table[IPOIB_DRAIN_NSTATES] = {
	/*			 LEFDSR2DK */
	[IPOIB_DRAIN_LIVE]	= ".x.......",
	[IPOIB_DRAIN_ERROR]	= "..x.x....",
	[IPOIB_DRAIN_FLUSH]	= "...xx....",
	[IPOIB_DRAIN_DRAIN]	= "..x.xx...",
	[IPOIB_DRAIN_SWEEP]	= ".....x...",
	[IPOIB_DRAIN_REAP]	= "......xxx",
	[IPOIB_DRAIN_SWEEP2]	= ".......x.",
	[IPOIB_DRAIN_DONE]	= ".........",
	[IPOIB_DRAIN_KEPT]	= ".........",
};

static const char *const rx_table[IPOIB_CM_RX_NSTATES] = {
	/*			 RRLCG */
	[IPOIB_CM_RX_REQ]	= ".x.xx",
	[IPOIB_CM_RX_REP]	= "..xx.",
	[IPOIB_CM_RX_LIVE]	= "...x.",
	[IPOIB_CM_RX_CLOSE]	= "....x",
	[IPOIB_CM_RX_GONE]	= ".....",
};

static const char *const tx_table[IPOIB_CM_TX_NSTATES] = {
	/*			 IRUCFDK */
	[IPOIB_CM_TX_INIT]	= ".x.x...",
	[IPOIB_CM_TX_REQ]	= "x.xx...",
	[IPOIB_CM_TX_UP]	= "...x...",
	[IPOIB_CM_TX_CLOSE]	= "....xxx",
	[IPOIB_CM_TX_FLUSH]	= ".....xx",
	[IPOIB_CM_TX_DEAD]	= ".......",
	[IPOIB_CM_TX_KEPT]	= ".......",
};

/* A pair is the place in one of these; nothing is stored there. */
static const char drain_pairs[IPOIB_DRAIN_NSTATES * IPOIB_DRAIN_NSTATES];
static const char rx_pairs[IPOIB_CM_RX_NSTATES * IPOIB_CM_RX_NSTATES];
static const char tx_pairs[IPOIB_CM_TX_NSTATES * IPOIB_CM_TX_NSTATES];

static void drain_desc(const char *pair, char *to)
{
	u32 n = pair - drain_pairs;

	snprintf(to, KUNIT_PARAM_DESC_SIZE, "%s to %s",
		 ipoib_drain_state_names[n / IPOIB_DRAIN_NSTATES],
		 ipoib_drain_state_names[n % IPOIB_DRAIN_NSTATES]);
}

static void rx_desc(const char *pair, char *to)
{
	u32 n = pair - rx_pairs;

	snprintf(to, KUNIT_PARAM_DESC_SIZE, "%s to %s",
		 ipoib_cm_rx_state_names[n / IPOIB_CM_RX_NSTATES],
		 ipoib_cm_rx_state_names[n % IPOIB_CM_RX_NSTATES]);
}

static void tx_desc(const char *pair, char *to)
{
	u32 n = pair - tx_pairs;

	snprintf(to, KUNIT_PARAM_DESC_SIZE, "%s to %s",
		 ipoib_cm_tx_state_names[n / IPOIB_CM_TX_NSTATES],
		 ipoib_cm_tx_state_names[n % IPOIB_CM_TX_NSTATES]);
}

KUNIT_ARRAY_PARAM(drain, drain_pairs, drain_desc);
KUNIT_ARRAY_PARAM(rx, rx_pairs, rx_desc);
KUNIT_ARRAY_PARAM(tx, tx_pairs, tx_desc);

/* What the last transition looked like in its trace. */
static struct seen {
	unsigned int n;
	const char *role;
	const char *from;
	const char *to;
	const char *reason;
	u32 qpn;
} seen;

static void seen_conn(void *data, const char *port, const char *role, u32 qpn, const u8 *gid,
		      const char *from, const char *to, const char *reason, u32 age_ms,
		      u32 idle_ms)
{
	struct seen *s = data;

	s->n++;
	s->role = role;
	s->qpn = qpn;
	s->from = from;
	s->to = to;
	s->reason = reason;
}

static void seen_drain(struct ipoib_drain_qp *q, enum ipoib_drain_state from)
{
	seen.n++;
	seen.from = ipoib_drain_state_names[from];
	seen.to = ipoib_drain_state_names[q->state];
}

static int states_init(struct kunit *test)
{
	memset(&seen, 0, sizeof(seen));
	fake_warnings();
	return 0;
}

static int states_suite_init(struct kunit_suite *suite)
{
	return register_trace_ipoib_conn(seen_conn, &seen);
}

static void states_suite_exit(struct kunit_suite *suite)
{
	unregister_trace_ipoib_conn(seen_conn, &seen);
	tracepoint_synchronize_unregister();
}

static void expect_verdict(struct kunit *test, bool legal, const char *from, const char *to)
{
	KUNIT_EXPECT_EQ(test, fake_warnings(), legal ? 0u : 1u);
	KUNIT_EXPECT_EQ(test, seen.n, 1u);
	KUNIT_EXPECT_STREQ(test, seen.from, from);
	KUNIT_EXPECT_STREQ(test, seen.to, to);
}

static void drain_pair(struct kunit *test)
{
	static const struct ipoib_drain_ops ops = { .trace = seen_drain };
	u32 n = (const char *)test->param_value - drain_pairs;
	u32 from = n / IPOIB_DRAIN_NSTATES, to = n % IPOIB_DRAIN_NSTATES;
	bool legal = drain_table[from][to] == 'x';
	struct ipoib_drain *d = kunit_kzalloc(test, sizeof(*d), GFP_KERNEL);
	struct ipoib_drain_qp *q = kunit_kzalloc(test, sizeof(*q), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, d);
	KUNIT_ASSERT_NOT_NULL(test, q);
	KUNIT_EXPECT_EQ(test, !!(ipoib_drain_legal[from] & BIT(to)), legal);
	ipoib_drain_init(d, &ops, 1, 1, 0);
	ipoib_drain_qp_init(d, q, q);
	q->state = from;
	spin_lock_irq(&d->lock);
	fake_drain_set_state(q, to);
	spin_unlock_irq(&d->lock);
	KUNIT_EXPECT_EQ(test, (u32)q->state, to);
	expect_verdict(test, legal, ipoib_drain_state_names[from],
		       ipoib_drain_state_names[to]);
}

static struct ipoib_port *make_port(struct kunit *test)
{
	struct ipoib_port *port = kunit_kzalloc(test, sizeof(*port), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, port);
	strscpy(port->cm.name, "fake/1", sizeof(port->cm.name));
	return port;
}

/* Why an active connection ended: what its flags say, the gravest first. */
static const struct why {
	unsigned long flags;
	const char *reason;
} whys[] = {
	{ 0, "local" },
	{ BIT(IPOIB_CM_TX_F_CLOSE), "local" },
	{ BIT(IPOIB_CM_TX_F_CLOSE) | BIT(IPOIB_CM_TX_F_QUIET), "peer" },
	{ BIT(IPOIB_CM_TX_F_FAILED) | BIT(IPOIB_CM_TX_F_QUIET), "failed" },
	{ BIT(IPOIB_CM_TX_F_DEAD) | BIT(IPOIB_CM_TX_F_FAILED), "device" },
};

static void why_desc(const struct why *w, char *to)
{
	snprintf(to, KUNIT_PARAM_DESC_SIZE, "flags %lx", w->flags);
}

KUNIT_ARRAY_PARAM(why, whys, why_desc);

static void tx_why(struct kunit *test)
{
	const struct why *w = test->param_value;
	struct ipoib_cm_tx *tx = kunit_kzalloc(test, sizeof(*tx), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, tx);
	spin_lock_init(&tx->lock);
	tx->conn.port = make_port(test);
	tx->flags = w->flags;
	tx->state = IPOIB_CM_TX_UP;
	spin_lock_bh(&tx->lock);
	ipoib_cm_tx_set_state(tx, IPOIB_CM_TX_CLOSE);
	spin_unlock_bh(&tx->lock);
	KUNIT_EXPECT_STREQ(test, seen.reason, w->reason);
	KUNIT_EXPECT_EQ(test, fake_warnings(), 0u);
}

static void rx_pair(struct kunit *test)
{
	u32 n = (const char *)test->param_value - rx_pairs;
	u32 from = n / IPOIB_CM_RX_NSTATES, to = n % IPOIB_CM_RX_NSTATES;
	bool legal = rx_table[from][to] == 'x';
	struct ipoib_cm_rx *rx = kunit_kzalloc(test, sizeof(*rx), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, rx);
	KUNIT_EXPECT_EQ(test, !!(ipoib_cm_rx_legal[from] & BIT(to)), legal);
	spin_lock_init(&rx->lock);
	rx->conn.port = make_port(test);
	rx->conn.qpn = 0x123456;
	rx->reason = IPOIB_DRAIN_BY_IDLE;
	rx->state = from;
	spin_lock_irq(&rx->lock);
	ipoib_cm_rx_set_state(rx, to);
	spin_unlock_irq(&rx->lock);
	KUNIT_EXPECT_EQ(test, (u32)rx->state, to);
	KUNIT_EXPECT_STREQ(test, seen.role, "rx");
	KUNIT_EXPECT_STREQ(test, seen.reason, to < IPOIB_CM_RX_CLOSE ? "-" : "idle");
	KUNIT_EXPECT_EQ(test, seen.qpn, 0x123456u);
	expect_verdict(test, legal, ipoib_cm_rx_state_names[from],
		       ipoib_cm_rx_state_names[to]);
}

static void tx_pair(struct kunit *test)
{
	u32 n = (const char *)test->param_value - tx_pairs;
	u32 from = n / IPOIB_CM_TX_NSTATES, to = n % IPOIB_CM_TX_NSTATES;
	bool legal = tx_table[from][to] == 'x';
	struct ipoib_cm_tx *tx = kunit_kzalloc(test, sizeof(*tx), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, tx);
	KUNIT_EXPECT_EQ(test, !!(ipoib_cm_tx_legal[from] & BIT(to)), legal);
	spin_lock_init(&tx->lock);
	tx->conn.port = make_port(test);
	tx->conn.qpn = 0xfedcba;
	tx->state = from;
	spin_lock_bh(&tx->lock);
	ipoib_cm_tx_set_state(tx, to);
	spin_unlock_bh(&tx->lock);
	KUNIT_EXPECT_EQ(test, (u32)tx->state, to);
	KUNIT_EXPECT_STREQ(test, seen.role, "tx");
	KUNIT_EXPECT_STREQ(test, seen.reason, to < IPOIB_CM_TX_CLOSE ? "-" : "local");
	KUNIT_EXPECT_EQ(test, seen.qpn, 0xfedcbau);
	expect_verdict(test, legal, ipoib_cm_tx_state_names[from],
		       ipoib_cm_tx_state_names[to]);
}

/* Follow the table from a state: every state on the way is marked. */
static u32 reachable(const char *const *table, u32 nstates, u32 from)
{
	u32 found = BIT(from), before, s, to;

	do {
		before = found;
		for (s = 0; s < nstates; s++)
			for (to = 0; (found & BIT(s)) && to < nstates; to++)
				if (table[s][to] == 'x')
					found |= BIT(to);
	} while (found != before);
	return found;
}

/* An end can be reached from every state, and every state from the first. */
static void no_dead_ends(struct kunit *test)
{
	static const struct {
		const char *const *table;
		u32 nstates;
		u32 ends;
	} machines[] = {
		{ drain_table, IPOIB_DRAIN_NSTATES,
		  BIT(IPOIB_DRAIN_DONE) | BIT(IPOIB_DRAIN_KEPT) },
		{ rx_table, IPOIB_CM_RX_NSTATES, BIT(IPOIB_CM_RX_GONE) },
		{ tx_table, IPOIB_CM_TX_NSTATES,
		  BIT(IPOIB_CM_TX_DEAD) | BIT(IPOIB_CM_TX_KEPT) },
	};
	u32 m, s;

	for (m = 0; m < ARRAY_SIZE(machines); m++) {
		KUNIT_EXPECT_EQ(test, reachable(machines[m].table, machines[m].nstates, 0),
				(u32)GENMASK(machines[m].nstates - 1, 0));
		for (s = 0; s < machines[m].nstates; s++)
			KUNIT_EXPECT_TRUE_MSG(test, machines[m].ends &
					      reachable(machines[m].table,
							machines[m].nstates, s),
					      "machine %u, state %u", m, s);
	}
}

/* Names are for people: each state, reason and strategy has one of its own. */
static void names(struct kunit *test)
{
	static const struct {
		const char *const *name;
		u32 n;
	} sets[] = {
		{ ipoib_drain_state_names, IPOIB_DRAIN_NSTATES },
		{ ipoib_drain_reason_names, IPOIB_DRAIN_NREASONS },
		{ ipoib_drain_strategy_names, IPOIB_DRAIN_NSTRATEGIES },
		{ ipoib_cm_rx_state_names, IPOIB_CM_RX_NSTATES },
		{ ipoib_cm_tx_state_names, IPOIB_CM_TX_NSTATES },
		{ ipoib_stat_names, IPOIB_STAT_COUNT },
		{ ipoib_port_stat_names, IPOIB_PORT_STAT_COUNT },
	};
	u32 s, i, j;

	for (s = 0; s < ARRAY_SIZE(sets); s++)
		for (i = 0; i < sets[s].n; i++) {
			KUNIT_ASSERT_NOT_NULL(test, sets[s].name[i]);
			for (j = 0; j < i; j++)
				KUNIT_EXPECT_STRNEQ(test, sets[s].name[i], sets[s].name[j]);
		}
}

static struct kunit_case states_tests[] = {
	KUNIT_CASE_PARAM(drain_pair, drain_gen_params),
	KUNIT_CASE_PARAM(rx_pair, rx_gen_params),
	KUNIT_CASE_PARAM(tx_pair, tx_gen_params),
	KUNIT_CASE_PARAM(tx_why, why_gen_params),
	KUNIT_CASE(no_dead_ends),
	KUNIT_CASE(names),
	{}
};

static struct kunit_suite states_suite = {
	.name = "ipoib_states",
	.suite_init = states_suite_init,
	.suite_exit = states_suite_exit,
	.init = states_init,
	.test_cases = states_tests,
};

kunit_test_suite(states_suite);
