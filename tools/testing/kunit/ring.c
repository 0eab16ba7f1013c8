// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ledger of receive rings, on an HCA that owns what is posted to it: slots,
 * chains, refused posts, refills, SRQ generations, the end of a ring of one QP.
 * The HCA is an ib_device that is never registered; ib_core does the rest.
 */
#include <kunit/test.h>
#include <linux/mm.h>
#include <linux/skbuff.h>
#include <linux/workqueue.h>
#include <net/page_pool/helpers.h>
#include <rdma/ib_verbs.h>

#include "ipoib.h"
#include "ipoib_cm_conn.h"
#include "ipoib_cm_ring.h"
#include "ipoib_cm_state.h"
#include "fake_hca.h"
#include "sources.h"

#define DEPTH	40	/* two chains and a half */

/**
 * struct fake_ca - the HCA
 * @ca: the device
 * @held: WRs that it owns, by slot of the ring that @id names
 * @id: the ring
 * @nheld: their number
 * @calls: of post
 * @wrs: in those
 * @good: WRs that it takes before it refuses, -1: all
 * @silent: it does not say which WR was refused
 * @armed: SRQ limit, 0: none
 * @srqs: SRQs alive
 * @keeps: it does not destroy them
 */
struct fake_ca {
	struct ib_device ca;
	bool held[DEPTH];
	u32 id;
	u32 nheld;
	u32 calls;
	u32 wrs;
	int good;
	bool silent;
	u32 armed;
	u32 srqs;
	bool keeps;
};

struct fake_srq {
	struct ib_srq srq;
};

/**
 * struct rig - a port on the fake HCA, and the driver's side of a QP
 * @test: whose it is
 * @ca: the HCA
 * @port: as much of a port as rings need
 * @pd: its PD
 * @qp: the QP
 * @rx: a connection whose drain the engine of @hca has
 * @hca: the engine
 * @chain: the poller's
 */
struct rig {
	struct kunit *test;
	struct fake_ca *ca;
	struct ipoib_port *port;
	struct ib_pd pd;
	struct ib_qp qp;
	struct ipoib_cm_rx *rx;
	struct hca *hca;
	struct ipoib_cm_chain chain;
};

static struct kunit *ring_test;	/* for the verbs below */

static struct fake_ca *ca_of(struct ib_device *dev)
{
	return container_of(dev, struct fake_ca, ca);
}

/* Every WR names a slot of a known ring that the HCA does not own yet. */
static int take_wrs(struct fake_ca *ca, const struct ib_recv_wr *wr,
		    const struct ib_recv_wr **bad)
{
	ca->calls++;
	for (; wr; wr = wr->next) {
		u32 index = lower_32_bits(wr->wr_id);

		/* in a worker too, so nothing here may end the thread */
		if (index >= DEPTH) {
			KUNIT_FAIL(ring_test, "slot %u is posted", index);
			return -EINVAL;
		}
		if (!ca->good) {
			if (!ca->silent)
				*bad = wr;
			return -ENOMEM;
		}
		ca->good -= ca->good > 0;
		ca->wrs++;
		KUNIT_EXPECT_EQ(ring_test, wr->num_sge, (int)IPOIB_CM_RX_PAGES);
		if (upper_32_bits(wr->wr_id) != ca->id)
			continue;	/* another generation */
		KUNIT_EXPECT_FALSE_MSG(ring_test, ca->held[index], "slot %u is posted twice",
				       index);
		ca->held[index] = true;
		ca->nheld++;
	}
	return 0;
}

static int fake_post_srq(struct ib_srq *srq, const struct ib_recv_wr *wr,
			 const struct ib_recv_wr **bad)
{
	return take_wrs(ca_of(srq->device), wr, bad);
}

static int fake_post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr,
			  const struct ib_recv_wr **bad)
{
	return take_wrs(ca_of(qp->device), wr, bad);
}

static int fake_create_srq(struct ib_srq *srq, struct ib_srq_init_attr *attr,
			   struct ib_udata *udata)
{
	struct ipoib_cm_ring *ring = attr->srq_context;

	struct fake_ca *ca = ca_of(srq->device);

	ca->srqs++;
	ca->id = ring->id;
	ca->nheld = 0;
	memset(ca->held, 0, sizeof(ca->held));
	return 0;
}

static int fake_modify_srq(struct ib_srq *srq, struct ib_srq_attr *attr,
			   enum ib_srq_attr_mask mask, struct ib_udata *udata)
{
	KUNIT_EXPECT_EQ(ring_test, (u32)mask, (u32)IB_SRQ_LIMIT);
	ca_of(srq->device)->armed = attr->srq_limit;
	return 0;
}

static int fake_destroy_srq(struct ib_srq *srq, struct ib_udata *udata)
{
	struct fake_ca *ca = ca_of(srq->device);

	if (ca->keeps)
		return -EBUSY;
	ca->srqs--;
	return 0;
}

static const struct ib_device_ops fake_ops = {
	.owner = THIS_MODULE,
	.create_srq = fake_create_srq,
	.modify_srq = fake_modify_srq,
	.destroy_srq = fake_destroy_srq,
	.post_srq_recv = fake_post_srq,
	.post_recv = fake_post_recv,
	INIT_RDMA_OBJ_SIZE(ib_srq, fake_srq, srq),
};

static void rig_port(struct rig *rig)
{
	struct ipoib_cm_port *cm = &rig->port->cm;

	rig->port->ca = &rig->ca->ca;
	rig->port->pd = &rig->pd;
	rig->pd.device = &rig->ca->ca;
	rig->pd.local_dma_lkey = 7;
	rig->pd.res.kern_name = "kunit";
	cm->rx_pages = IPOIB_CM_RX_PAGES;
	cm->srq_depth = DEPTH;
	cm->has_srq = true;
	spin_lock_init(&cm->lock);
	xa_init_flags(&cm->rings, XA_FLAGS_ALLOC1);
	INIT_DELAYED_WORK(&cm->refill_work, ipoib_cm_ring_refill);
	cm->reap_wq = alloc_workqueue("ipoib_kunit", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	KUNIT_ASSERT_NOT_NULL(rig->test, cm->reap_wq);
}

static int ring_init(struct kunit *test)
{
	struct rig *rig = kunit_kzalloc(test, sizeof(*rig), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, rig);
	ring_test = test;
	test->priv = rig;
	rig->test = test;
	rig->port = kunit_kzalloc(test, sizeof(*rig->port), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, rig->port);
	rig->rx = kunit_kzalloc(test, sizeof(*rig->rx), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, rig->rx);
	rig->ca = ib_alloc_device(fake_ca, ca);
	KUNIT_ASSERT_NOT_NULL(test, rig->ca);
	ib_set_device_ops(&rig->ca->ca, &fake_ops);
	rig->ca->good = -1;
	rig_port(rig);
	rig->qp.device = &rig->ca->ca;
	rig->rx->conn.qp = &rig->qp;
	rig->rx->depth = DEPTH;
	rig->hca = hca_make(test, 1);
	ipoib_drain_qp_init(&rig->hca->d, &rig->rx->drain, &rig->qp);
	fake_alloc_set(-1);
	return 0;
}

/* Rings that nobody holds are destroyed, and their memory is free. */
static void rest(struct rig *rig)
{
	rcu_barrier();
	flush_workqueue(rig->port->cm.reap_wq);
}

/* Rings are freed by RCU work, which is awaited before anything below goes. */
static void ring_exit(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct ipoib_cm_port *cm;

	if (!rig || !rig->hca)
		return;
	cm = &rig->port->cm;
	fake_alloc_set(-1);
	cm->closing = true;
	if (cm->srq_ring)
		ipoib_cm_ring_put(cm->srq_ring);
	rest(rig);
	cancel_delayed_work_sync(&cm->refill_work);
	destroy_workqueue(cm->reap_wq);
	if (cm->pool)
		page_pool_destroy(cm->pool);
	KUNIT_EXPECT_TRUE_MSG(test, xa_empty(&cm->rings), "rings are left");
	KUNIT_EXPECT_EQ_MSG(test, rig->ca->srqs, 0u, "SRQs are left");
	KUNIT_EXPECT_EQ(test, fake_warnings(), 0u);
	xa_destroy(&cm->rings);
	ib_dealloc_device(&rig->ca->ca);
}

/* What must hold at any time: the ledger, the flags and the HCA agree. */
static void expect_ledger(struct rig *rig, struct ipoib_cm_ring *ring, u32 held, u32 polled)
{
	u32 i, posted = 0;

	for (i = 0; i < ring->nslots; i++) {
		posted += ring->slot[i].posted;
		KUNIT_EXPECT_EQ_MSG(rig->test, ring->slot[i].posted, rig->ca->held[i],
				    "slot %u", i);
	}
	KUNIT_EXPECT_EQ(rig->test, rig->ca->nheld, held);
	KUNIT_EXPECT_EQ(rig->test, posted, held);
	KUNIT_EXPECT_EQ(rig->test, ipoib_cm_ring_stock(ring), held);
	KUNIT_EXPECT_EQ(rig->test, ring->nposted - ring->ncompleted, (u64)held);
	KUNIT_EXPECT_EQ_MSG(rig->test, held + polled + ring->nfree, ring->nslots,
			    "a slot has no owner");
}

/* The port's SRQ ring, full. */
static struct ipoib_cm_ring *srq_ring(struct rig *rig)
{
	struct ipoib_cm_ring *ring = ipoib_cm_ring_create_srq(rig->port);

	KUNIT_ASSERT_FALSE(rig->test, IS_ERR(ring));
	rig->port->cm.srq_ring = ring;
	expect_ledger(rig, ring, DEPTH, 0);
	return ring;
}

/* The ring of one QP, full. Its reference is the test's. */
static struct ipoib_cm_ring *own_ring(struct rig *rig)
{
	struct ipoib_cm_ring *ring = ipoib_cm_ring_create_own(rig->port, rig->rx);

	KUNIT_ASSERT_FALSE(rig->test, IS_ERR(ring));
	rig->ca->id = ring->id;
	/* nothing is posted before there is a QP */
	KUNIT_EXPECT_FALSE(rig->test, ipoib_cm_ring_fill(ring));
	expect_ledger(rig, ring, 0, 0);
	ipoib_cm_ring_open(ring);
	KUNIT_EXPECT_TRUE(rig->test, ipoib_cm_ring_fill(ring));
	expect_ledger(rig, ring, DEPTH, 0);
	return ring;
}

/* The HCA completes a slot, the poller takes it. */
static struct ipoib_cm_slot *completes(struct rig *rig, struct ipoib_cm_ring *ring, u32 index)
{
	struct ipoib_cm_slot *slot;

	rig->ca->nheld -= rig->ca->held[index];
	rig->ca->held[index] = false;
	slot = ipoib_cm_ring_take(ring, index);
	KUNIT_ASSERT_PTR_EQ(rig->test, slot, &ring->slot[index]);
	return slot;
}

static void refill(struct rig *rig)
{
	flush_delayed_work(&rig->port->cm.refill_work);
}

static u64 port_stat(struct rig *rig, enum ipoib_port_stat stat)
{
	return atomic64_read(&rig->port->stats[stat]);
}

static void ring_made_full(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct ipoib_cm_ring *ring = srq_ring(rig);
	u32 i;

	KUNIT_EXPECT_EQ(test, rig->ca->armed, (u32)DEPTH / 4);
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&rig->port->cm.rings, ring->id), (void *)ring);
	for (i = 0; i < DEPTH; i++)
		KUNIT_EXPECT_EQ(test, ring->slot[i].wr.wr_id, (u64)ring->id << 32 | i);
}

static const struct rounds {
	u32 batch;	/* completions between two flushes */
	u32 calls;	/* of post that a batch needs */
} rounds[] = {
	{ 1, 1 }, { 15, 1 }, { 16, 1 }, { 17, 2 }, { 32, 2 }, { DEPTH, 3 },
};

static void rounds_desc(const struct rounds *r, char *to)
{
	snprintf(to, KUNIT_PARAM_DESC_SIZE, "%u completions", r->batch);
}

KUNIT_ARRAY_PARAM(rounds, rounds, rounds_desc);

/* What is taken and reposted is whole again, in chains of at most 16. */
static void ring_repost(struct kunit *test)
{
	const struct rounds *r = test->param_value;
	struct rig *rig = test->priv;
	struct ipoib_cm_ring *ring = srq_ring(rig);
	u32 round, i, calls = rig->ca->calls;

	for (round = 0; round < 5; round++) {
		for (i = 0; i < r->batch; i++) {
			u32 index = (round * 7 + i * 3) % DEPTH;

			ipoib_cm_ring_repost(&rig->chain, ring, completes(rig, ring, index));
		}
		ipoib_cm_ring_flush(&rig->chain);
		expect_ledger(rig, ring, DEPTH, 0);
	}
	KUNIT_EXPECT_EQ(test, rig->ca->calls - calls, 5 * r->calls);
	KUNIT_EXPECT_EQ(test, ring->ncompleted, 5ULL * r->batch);
	ipoib_cm_ring_flush(&rig->chain);	/* an empty chain is no call */
	KUNIT_EXPECT_EQ(test, rig->ca->calls - calls, 5 * r->calls);
}

/* Between completion and repost a slot is the poller's. */
static void ring_take_counts(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct ipoib_cm_ring *ring = srq_ring(rig);
	u32 i;

	for (i = 0; i < DEPTH; i++) {
		completes(rig, ring, i);
		expect_ledger(rig, ring, DEPTH - i - 1, i + 1);
	}
	for (i = 0; i < DEPTH; i++)
		ipoib_cm_ring_repost(&rig->chain, ring, &ring->slot[i]);
	ipoib_cm_ring_flush(&rig->chain);
	expect_ledger(rig, ring, DEPTH, 0);
}

static const u32 bogus_slots[] = { DEPTH, DEPTH + 1, 0x7fffffff, 0x80000000, U32_MAX };

static void bogus_desc(const u32 *index, char *to)
{
	snprintf(to, KUNIT_PARAM_DESC_SIZE, "slot %u", *index);
}

KUNIT_ARRAY_PARAM(bogus, bogus_slots, bogus_desc);

/* A cookie that names no slot, and one whose slot has completed already. */
static void ring_bogus_slot(struct kunit *test)
{
	u32 index = *(const u32 *)test->param_value;
	struct rig *rig = test->priv;
	struct ipoib_cm_ring *ring = srq_ring(rig);

	KUNIT_EXPECT_NULL(test, ipoib_cm_ring_take(ring, index));
	expect_ledger(rig, ring, DEPTH, 0);
	completes(rig, ring, 3);
	KUNIT_EXPECT_NULL(test, ipoib_cm_ring_take(ring, 3));
	expect_ledger(rig, ring, DEPTH - 1, 1);
	KUNIT_EXPECT_EQ(test, ring->ncompleted, 1ULL);
	ipoib_cm_ring_repost(&rig->chain, ring, &ring->slot[3]);
	ipoib_cm_ring_flush(&rig->chain);
	expect_ledger(rig, ring, DEPTH, 0);
}

static const struct refusal {
	int good;	/* WRs of the chain that the HCA takes */
	bool silent;	/* it does not say which it did not take */
} refusals[] = {
	{ 0 }, { 1 }, { 7 }, { 9 }, { 0, true },
};

static void refusal_desc(const struct refusal *r, char *to)
{
	snprintf(to, KUNIT_PARAM_DESC_SIZE, "behind %d of 10%s", r->good,
		 r->silent ? ", silently" : "");
}

KUNIT_ARRAY_PARAM(refusal, refusals, refusal_desc);

/* A refused repost is a deficit, which the refill work makes good. */
static void ring_post_refused(struct kunit *test)
{
	const struct refusal *r = test->param_value;
	struct rig *rig = test->priv;
	struct ipoib_cm_ring *ring = srq_ring(rig);
	u32 i;

	for (i = 0; i < 10; i++)
		ipoib_cm_ring_repost(&rig->chain, ring, completes(rig, ring, i));
	rig->ca->good = r->good;
	rig->ca->silent = r->silent;
	ipoib_cm_ring_flush(&rig->chain);
	expect_ledger(rig, ring, DEPTH - 10 + r->good, 0);
	KUNIT_EXPECT_EQ(test, ring->nfree, 10u - r->good);
	KUNIT_EXPECT_EQ(test, port_stat(rig, IPOIB_PORT_STAT_cm_stock_deficit),
			10ULL - r->good);
	rig->ca->good = 0;		/* it gets better, but not at once */
	refill(rig);
	KUNIT_EXPECT_LT(test, ipoib_cm_ring_stock(ring), (u32)DEPTH);
	rig->ca->good = -1;
	refill(rig);
	expect_ledger(rig, ring, DEPTH, 0);
	KUNIT_EXPECT_EQ(test, port_stat(rig, IPOIB_PORT_STAT_cm_refills), 2ULL);
}

/* Without pages a slot waits, those with pages are posted, and it comes later. */
static void ring_no_pages(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct ipoib_cm_ring *ring = ipoib_cm_ring_create_own(rig->port, rig->rx);

	KUNIT_ASSERT_FALSE(test, IS_ERR(ring));
	rig->ca->id = ring->id;
	ipoib_cm_ring_open(ring);
	fake_alloc_set(5 * IPOIB_CM_RX_PAGES + 3);
	KUNIT_EXPECT_FALSE(test, ipoib_cm_ring_fill(ring));
	expect_ledger(rig, ring, 5, 0);
	fake_alloc_set(0);
	KUNIT_EXPECT_FALSE(test, ipoib_cm_ring_fill(ring));
	expect_ledger(rig, ring, 5, 0);
	/* the three pages of the sixth slot are kept */
	fake_alloc_set(IPOIB_CM_RX_PAGES - 3);
	KUNIT_EXPECT_FALSE(test, ipoib_cm_ring_fill(ring));
	expect_ledger(rig, ring, 6, 0);
	fake_alloc_set(-1);
	KUNIT_EXPECT_TRUE(test, ipoib_cm_ring_fill(ring));
	expect_ledger(rig, ring, DEPTH, 0);
	ipoib_cm_ring_put(ring);
}

/* No SRQ is left behind when its first fill fails. */
static void ring_create_fails(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct ipoib_cm_ring *ring;

	fake_alloc_set(100);
	ring = ipoib_cm_ring_create_srq(rig->port);
	KUNIT_EXPECT_TRUE(test, IS_ERR(ring));
	rest(rig);
	KUNIT_EXPECT_EQ(test, rig->ca->srqs, 0u);
	KUNIT_EXPECT_EQ(test, atomic_read(&rig->port->cm.nrings), 0);
	KUNIT_EXPECT_TRUE(test, xa_empty(&rig->port->cm.rings));
}

/* Chains of two rings do not mix. */
static void ring_chain_of_two(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct ipoib_cm_ring *a = srq_ring(rig), *b;
	u32 i;

	rig->ca->id = 0;
	b = ipoib_cm_ring_create_own(rig->port, rig->rx);
	KUNIT_ASSERT_FALSE(test, IS_ERR(b));
	ipoib_cm_ring_open(b);
	KUNIT_EXPECT_TRUE(test, ipoib_cm_ring_fill(b));
	KUNIT_EXPECT_NE(test, a->id, b->id);
	for (i = 0; i < 6; i++) {
		struct ipoib_cm_ring *ring = i & 1 ? b : a;

		KUNIT_ASSERT_NOT_NULL(test, ipoib_cm_ring_take(ring, i));
		ipoib_cm_ring_repost(&rig->chain, ring, &ring->slot[i]);
		KUNIT_EXPECT_EQ(test, rig->chain.n, 1u);
	}
	ipoib_cm_ring_flush(&rig->chain);
	KUNIT_EXPECT_EQ(test, ipoib_cm_ring_stock(a), (u32)DEPTH);
	KUNIT_EXPECT_EQ(test, ipoib_cm_ring_stock(b), (u32)DEPTH);
	ipoib_cm_ring_put(b);
}

/*
 * The ring of one QP: the receive side is done when it is closed and empty
 */

static u32 rq_done(struct rig *rig)
{
	return rig->hca->count[IPOIB_CNT_drain_lwqe] +
	       rig->hca->count[IPOIB_CNT_drain_lwqe_dup];
}

static void own_ring_ends(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct ipoib_cm_ring *ring = own_ring(rig);
	u32 i;

	completes(rig, ring, 0);
	ipoib_cm_ring_repost(&rig->chain, ring, &ring->slot[0]);
	ipoib_cm_ring_close(ring);
	/* what the poller held is not posted any more */
	ipoib_cm_ring_flush(&rig->chain);
	expect_ledger(rig, ring, DEPTH - 1, 0);
	KUNIT_EXPECT_FALSE(test, ipoib_cm_ring_fill(ring));
	expect_ledger(rig, ring, DEPTH - 1, 0);
	for (i = 1; i < DEPTH; i++) {
		KUNIT_EXPECT_EQ_MSG(test, rq_done(rig), 0u, "slot %u is still out", i);
		completes(rig, ring, i);
		ipoib_cm_ring_repost(&rig->chain, ring, &ring->slot[i]);
	}
	KUNIT_EXPECT_EQ(test, rq_done(rig), 1u);
	KUNIT_EXPECT_TRUE(test, rig->rx->drain.rq_done);
	ipoib_cm_ring_flush(&rig->chain);
	expect_ledger(rig, ring, 0, 0);
	ipoib_cm_ring_close(ring);	/* said once */
	KUNIT_EXPECT_NULL(test, ipoib_cm_ring_take(ring, 5));
	KUNIT_EXPECT_EQ(test, rq_done(rig), 1u);
	ipoib_cm_ring_put(ring);
}

/* Empty already when it is closed. */
static void own_ring_ends_at_close(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct ipoib_cm_ring *ring = own_ring(rig);
	u32 i;

	for (i = 0; i < DEPTH; i++)
		completes(rig, ring, i);
	KUNIT_EXPECT_EQ(test, rq_done(rig), 0u);
	ipoib_cm_ring_close(ring);
	KUNIT_EXPECT_EQ(test, rq_done(rig), 1u);
	ipoib_cm_ring_put(ring);
}

/* Its QP goes although not all has completed: nobody posts, nobody is told. */
static void own_ring_quiesced(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct ipoib_cm_ring *ring = own_ring(rig);
	u32 i;

	for (i = 0; i < 3; i++)
		ipoib_cm_ring_repost(&rig->chain, ring, completes(rig, ring, i));
	ipoib_cm_ring_quiesce(ring);
	ipoib_cm_ring_flush(&rig->chain);
	KUNIT_EXPECT_FALSE(test, ipoib_cm_ring_fill(ring));
	expect_ledger(rig, ring, DEPTH - 3, 0);
	for (i = 3; i < DEPTH; i++)
		completes(rig, ring, i);
	KUNIT_EXPECT_EQ(test, rq_done(rig), 0u);
	ipoib_cm_ring_put(ring);
}

/* A ring that is not closed is never done, though it is empty. */
static void own_ring_runs_dry(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct ipoib_cm_ring *ring = own_ring(rig);
	u32 i;

	rig->ca->good = 0;
	for (i = 0; i < DEPTH; i++)
		ipoib_cm_ring_repost(&rig->chain, ring, completes(rig, ring, i));
	ipoib_cm_ring_flush(&rig->chain);
	expect_ledger(rig, ring, 0, 0);
	KUNIT_EXPECT_EQ(test, rq_done(rig), 0u);
	rig->ca->good = -1;
	refill(rig);
	expect_ledger(rig, ring, DEPTH, 0);
	KUNIT_EXPECT_EQ(test, rq_done(rig), 0u);
	ipoib_cm_ring_put(ring);
}

/*
 * Generations
 */

/* A suspect SRQ is replaced for new QPs, and goes with its last QP. */
static void generation_renewed(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct ipoib_cm_ring *old = srq_ring(rig), *new;
	struct ipoib_cm_port *cm = &rig->port->cm;
	u32 old_id = old->id;

	KUNIT_ASSERT_PTR_EQ(test, ipoib_cm_ring_current(cm), old);	/* a QP's */
	ipoib_cm_ring_suspect(old);
	refill(rig);
	new = cm->srq_ring;
	KUNIT_ASSERT_PTR_NE(test, new, old);
	KUNIT_EXPECT_EQ(test, port_stat(rig, IPOIB_PORT_STAT_cm_generations), 1ULL);
	KUNIT_EXPECT_EQ(test, atomic_read(&cm->nrings), 2);
	KUNIT_EXPECT_EQ(test, rig->ca->srqs, 2u);
	KUNIT_EXPECT_FALSE(test, new->suspect);
	KUNIT_EXPECT_EQ(test, ipoib_cm_ring_stock(new), (u32)DEPTH);
	/* completions of the old one still find it */
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&cm->rings, old_id), (void *)old);
	KUNIT_EXPECT_NOT_NULL(test, ipoib_cm_ring_take(old, 1));

	ipoib_cm_ring_put(old);
	KUNIT_EXPECT_NULL(test, xa_load(&cm->rings, old_id));
	rest(rig);
	KUNIT_EXPECT_EQ(test, atomic_read(&cm->nrings), 1);
	KUNIT_EXPECT_EQ(test, rig->ca->srqs, 1u);
}

/* Never more than two: the third waits until the first is gone. */
static void generation_bound(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct ipoib_cm_port *cm = &rig->port->cm;
	struct ipoib_cm_ring *first = srq_ring(rig), *second;

	KUNIT_ASSERT_PTR_EQ(test, ipoib_cm_ring_current(cm), first);
	ipoib_cm_ring_suspect(first);
	refill(rig);
	second = cm->srq_ring;
	KUNIT_ASSERT_PTR_NE(test, second, first);
	ipoib_cm_ring_suspect(second);
	refill(rig);
	KUNIT_EXPECT_PTR_EQ(test, cm->srq_ring, second);
	KUNIT_EXPECT_EQ(test, rig->ca->srqs, (u32)IPOIB_CM_RINGS_MAX);
	ipoib_cm_ring_put(first);
	rest(rig);			/* its end asks for the refill work */
	refill(rig);
	rest(rig);
	KUNIT_EXPECT_PTR_NE(test, cm->srq_ring, second);
	KUNIT_EXPECT_EQ(test, rig->ca->srqs, 1u);
	KUNIT_EXPECT_EQ(test, port_stat(rig, IPOIB_PORT_STAT_cm_generations), 2ULL);
}

/* An SRQ that reports an error is suspect, one that is low is armed again. */
static void generation_events(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct ipoib_cm_port *cm = &rig->port->cm;
	struct ipoib_cm_ring *old = srq_ring(rig);
	struct ib_event event = { .device = &rig->ca->ca, .element.srq = old->srq };
	u32 i;

	rig->ca->armed = 0;
	for (i = 0; i < DEPTH * 3 / 4; i++)
		completes(rig, old, i);
	event.event = IB_EVENT_SRQ_LIMIT_REACHED;
	old->srq->event_handler(&event, old->srq->srq_context);
	refill(rig);
	/* armed while the stock is low, it would come again at once */
	KUNIT_EXPECT_EQ(test, rig->ca->armed, 0u);
	KUNIT_EXPECT_TRUE(test, ipoib_cm_flood_is_low(cm));
	for (i = 0; i < DEPTH * 3 / 4; i++)
		ipoib_cm_ring_repost(&rig->chain, old, &old->slot[i]);
	ipoib_cm_ring_flush(&rig->chain);
	expect_ledger(rig, old, DEPTH, 0);
	ipoib_cm_flood_empty(cm);
	KUNIT_EXPECT_FALSE(test, ipoib_cm_flood_is_low(cm));
	refill(rig);
	KUNIT_EXPECT_EQ(test, rig->ca->armed, (u32)DEPTH / 4);
	KUNIT_EXPECT_PTR_EQ(test, cm->srq_ring, old);
	event.event = IB_EVENT_SRQ_ERR;
	old->srq->event_handler(&event, old->srq->srq_context);
	refill(rig);
	rest(rig);
	KUNIT_EXPECT_EQ(test, port_stat(rig, IPOIB_PORT_STAT_cm_generations), 1ULL);
	KUNIT_EXPECT_EQ(test, rig->ca->srqs, 1u);
}

/* The HCA does not let go of an SRQ: nothing that it may write to is freed. */
static void generation_kept(struct kunit *test)
{
	struct rig *rig = test->priv;
	struct ipoib_cm_port *cm = &rig->port->cm;
	struct ipoib_cm_ring *old = srq_ring(rig);

	rig->ca->keeps = true;
	ipoib_cm_ring_suspect(old);
	refill(rig);
	KUNIT_ASSERT_PTR_NE(test, cm->srq_ring, old);
	rest(rig);
	KUNIT_EXPECT_EQ(test, cm->nkept, 1u);
	KUNIT_EXPECT_EQ(test, atomic_read(&cm->nrings), 2);
	KUNIT_EXPECT_EQ(test, rig->ca->srqs, 2u);
	KUNIT_EXPECT_NOT_NULL(test, old->slot[0].page[0]);
	/* it counts against the two, so the present one is not replaced either */
	ipoib_cm_ring_suspect(cm->srq_ring);
	refill(rig);
	KUNIT_EXPECT_EQ(test, port_stat(rig, IPOIB_PORT_STAT_cm_generations), 1ULL);

	rig->ca->keeps = false;		/* only for the test to end clean */
	cm->closing = true;
	queue_rcu_work(cm->reap_wq, &old->free_work);
	rest(rig);
	KUNIT_EXPECT_EQ(test, atomic_read(&cm->nrings), 1);
}

/*
 * Packets
 */

static const u32 lengths[] = { 1, 4, 255, IPOIB_CM_COPYBREAK, IPOIB_CM_COPYBREAK + 1,
			       PAGE_SIZE - 1, PAGE_SIZE, PAGE_SIZE + 1, 3 * PAGE_SIZE,
			       IPOIB_CM_BUF_LEN - 1, IPOIB_CM_BUF_LEN };

static void length_desc(const u32 *len, char *to)
{
	snprintf(to, KUNIT_PARAM_DESC_SIZE, "%u octets", *len);
}

static const u32 long_lengths[] = { IPOIB_CM_COPYBREAK + 1, PAGE_SIZE, PAGE_SIZE + 1,
				    3 * PAGE_SIZE, IPOIB_CM_BUF_LEN };

KUNIT_ARRAY_PARAM(length, lengths, length_desc);
KUNIT_ARRAY_PARAM(long_length, long_lengths, length_desc);

static u8 pattern(u32 i)
{
	return i ^ i >> 8;
}

static void make_pool(struct rig *rig)
{
	struct page_pool_params params = {
		.pool_size = 64,
		.nid = NUMA_NO_NODE,
		.dma_dir = DMA_FROM_DEVICE,
	};

	rig->port->cm.pool = page_pool_create(&params);
	KUNIT_ASSERT_FALSE(rig->test, IS_ERR(rig->port->cm.pool));
}

/* Slot 0 has completed with @len octets. */
static struct ipoib_cm_slot *receive(struct rig *rig, struct ipoib_cm_ring *ring, u32 len)
{
	struct ipoib_cm_slot *slot = completes(rig, ring, 0);
	u32 i;

	for (i = 0; i < len; i++)
		((u8 *)page_address(slot->page[i / PAGE_SIZE]))[i % PAGE_SIZE] = pattern(i);
	return slot;
}

/* Every page is there, and the HCA is told of just that page. */
static void expect_whole(struct rig *rig, const struct ipoib_cm_slot *slot)
{
	u32 i;

	for (i = 0; i < IPOIB_CM_RX_PAGES; i++) {
		KUNIT_ASSERT_NOT_NULL(rig->test, slot->page[i]);
		KUNIT_EXPECT_EQ(rig->test, slot->sge[i].addr,
				(u64)(uintptr_t)page_address(slot->page[i]));
		KUNIT_EXPECT_EQ(rig->test, slot->sge[i].lkey, 7u);
	}
}

static void expect_data(struct kunit *test, struct sk_buff *skb, u32 len)
{
	u8 *data = kunit_kzalloc(test, len, GFP_KERNEL);
	u32 i, wrong = 0;

	KUNIT_ASSERT_NOT_NULL(test, data);
	KUNIT_EXPECT_EQ(test, skb->len, len);
	KUNIT_EXPECT_GE(test, (u32)skb_headroom(skb), IPOIB_PSEUDO_LEN);
	KUNIT_EXPECT_EQ(test, skb_copy_bits(skb, 0, data, len), 0);
	for (i = 0; i < len; i++)
		wrong += data[i] != pattern(i);
	KUNIT_EXPECT_EQ(test, wrong, 0u);
}

static struct sk_buff *make_skb(struct ipoib_cm_ring *ring, struct ipoib_cm_slot *slot,
				u32 len)
{
	struct sk_buff *skb;

	local_bh_disable();
	skb = ipoib_cm_ring_skb(ring, slot, len);
	local_bh_enable();
	return skb;
}

/* The packet is all there, and the slot is whole for the next one. */
static void ring_packet(struct kunit *test)
{
	u32 len = *(const u32 *)test->param_value;
	struct rig *rig = test->priv;
	struct ipoib_cm_ring *ring = srq_ring(rig);
	struct ipoib_cm_slot *slot;
	struct page *first;
	struct sk_buff *skb;

	make_pool(rig);
	slot = receive(rig, ring, len);
	first = slot->page[0];
	skb = make_skb(ring, slot, len);
	KUNIT_ASSERT_NOT_NULL(test, skb);
	expect_data(test, skb, len);
	/* short ones are copied, long ones take their pages along */
	KUNIT_EXPECT_EQ(test, slot->page[0] == first, len <= IPOIB_CM_COPYBREAK);
	expect_whole(rig, slot);
	kfree_skb(skb);
	ipoib_cm_ring_repost(&rig->chain, ring, slot);
	ipoib_cm_ring_flush(&rig->chain);
	expect_ledger(rig, ring, DEPTH, 0);
}

/* Without pages the packet is lost, but its buffer is not: it is posted again. */
static void ring_packet_no_pages(struct kunit *test)
{
	u32 len = *(const u32 *)test->param_value;
	u32 pages = DIV_ROUND_UP(len, PAGE_SIZE), good;
	struct rig *rig = test->priv;
	struct ipoib_cm_ring *ring = srq_ring(rig);
	struct page *before[IPOIB_CM_RX_PAGES];
	struct ipoib_cm_slot *slot;

	make_pool(rig);
	slot = receive(rig, ring, len);
	memcpy(before, slot->page, sizeof(before));
	for (good = 0; good < pages; good++) {
		fake_alloc_set(good);
		KUNIT_EXPECT_NULL(test, make_skb(ring, slot, len));
		KUNIT_EXPECT_MEMEQ(test, before, slot->page, sizeof(before));
	}
	expect_whole(rig, slot);
	ipoib_cm_ring_repost(&rig->chain, ring, slot);
	ipoib_cm_ring_flush(&rig->chain);
	expect_ledger(rig, ring, DEPTH, 0);
}

static struct kunit_case ring_tests[] = {
	KUNIT_CASE(ring_made_full),
	KUNIT_CASE_PARAM(ring_repost, rounds_gen_params),
	KUNIT_CASE(ring_take_counts),
	KUNIT_CASE_PARAM(ring_bogus_slot, bogus_gen_params),
	KUNIT_CASE_PARAM(ring_post_refused, refusal_gen_params),
	KUNIT_CASE(ring_no_pages),
	KUNIT_CASE(ring_create_fails),
	KUNIT_CASE(ring_chain_of_two),
	KUNIT_CASE(own_ring_ends),
	KUNIT_CASE(own_ring_ends_at_close),
	KUNIT_CASE(own_ring_quiesced),
	KUNIT_CASE(own_ring_runs_dry),
	KUNIT_CASE(generation_renewed),
	KUNIT_CASE(generation_bound),
	KUNIT_CASE(generation_events),
	KUNIT_CASE(generation_kept),
	KUNIT_CASE_PARAM(ring_packet, length_gen_params),
	KUNIT_CASE_PARAM(ring_packet_no_pages, long_length_gen_params),
	{}
};

static struct kunit_suite ring_suite = {
	.name = "ipoib_ring",
	.init = ring_init,
	.exit = ring_exit,
	.test_cases = ring_tests,
};

kunit_test_suite(ring_suite);
