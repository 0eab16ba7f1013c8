// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Receive rings of connected mode: buffers, posting, ledger, generations. */
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <net/page_pool/helpers.h>

#include "ipoib.h"
#include "ipoib_cm_conn.h"
#include "ipoib_cm_ring.h"
#include "ipoib_cm_state.h"

#define IPOIB_CM_HEAD_LEN	128u	/* octets copied to the head of an skb */

static u64 ipoib_cm_map(struct ib_device *ca, struct page *page)
{
	return ib_dma_map_page(ca, page, 0, PAGE_SIZE, DMA_FROM_DEVICE);
}

static void ipoib_cm_page_free(struct ipoib_cm_port *cm, struct page *page,
			       bool pooled)
{
	if (pooled)
		page_pool_put_full_page(cm->pool, page, false);
	else
		put_page(page);
}

static void ipoib_cm_slot_free(struct ipoib_port *port,
			       struct ipoib_cm_slot *slot)
{
	unsigned int i;

	for (i = 0; i < port->cm.rx_pages && slot->page[i]; i++) {
		ib_dma_unmap_page(port->ca, slot->sge[i].addr, PAGE_SIZE,
				  DMA_FROM_DEVICE);
		ipoib_cm_page_free(&port->cm, slot->page[i],
				   slot->pooled & BIT(i));
		slot->page[i] = NULL;
	}
}

/* Give a slot all its pages; those that it has are kept. May sleep. */
static int ipoib_cm_slot_fill(struct ipoib_port *port,
			      struct ipoib_cm_slot *slot)
{
	struct page *page;
	unsigned int i;
	u64 dma;

	for (i = 0; i < port->cm.rx_pages; i++) {
		if (slot->page[i])
			continue;
		page = alloc_page(GFP_KERNEL | __GFP_NOWARN | __GFP_NORETRY);
		if (!page)
			return -ENOMEM;
		dma = ipoib_cm_map(port->ca, page);
		if (ib_dma_mapping_error(port->ca, dma)) {
			put_page(page);
			return -ENOMEM;
		}
		slot->page[i] = page;
		slot->pooled &= ~BIT(i);
		slot->sge[i].addr = dma;
	}
	return 0;
}

/*
 * No QP receives from it any more, and the section of the poller that could
 * still post to it has ended.
 */
static void ipoib_cm_ring_free_work(struct work_struct *work)
{
	struct ipoib_cm_ring *ring = container_of(to_rcu_work(work),
						  struct ipoib_cm_ring,
						  free_work);
	struct ipoib_cm_port *cm = &ring->port->cm;
	u32 i;

	if (ring->srq && ib_destroy_srq_user(ring->srq, NULL)) {
		spin_lock_bh(&cm->lock);
		ipoib_cm_keep(cm);
		spin_unlock_bh(&cm->lock);
		return;
	}
	if (ring->srq)
		atomic_dec(&cm->nrings);
	/* The generation that took its place may be waiting for that itself. */
	if (READ_ONCE(ring->suspect))
		mod_delayed_work(cm->reap_wq, &cm->refill_work, 0);
	for (i = 0; i < ring->nslots; i++)
		ipoib_cm_slot_free(ring->port, &ring->slot[i]);
	kvfree(ring->free);
	kvfree(ring);
}

/* May be called by the drain engine, which is not to wait for a SRQ's end. */
static void ipoib_cm_ring_release(struct kref *ref)
{
	struct ipoib_cm_ring *ring = container_of(ref, struct ipoib_cm_ring, ref);
	struct ipoib_cm_port *cm = &ring->port->cm;

	xa_erase(&cm->rings, ring->id);
	queue_rcu_work(cm->reap_wq, &ring->free_work);
}

/**
 * ipoib_cm_ring_put() - drop a reference to a ring
 * @ring: the ring
 *
 * Context: process. The last one has the SRQ destroyed by a worker.
 */
void ipoib_cm_ring_put(struct ipoib_cm_ring *ring)
{
	kref_put(&ring->ref, ipoib_cm_ring_release);
}

/**
 * ipoib_cm_ring_current() - the ring that new QPs receive from
 * @cm: the port's connected-mode side
 *
 * Context: any but hard interrupt.
 * Return: the ring with a reference, NULL without an SRQ.
 */
struct ipoib_cm_ring *ipoib_cm_ring_current(struct ipoib_cm_port *cm)
{
	struct ipoib_cm_ring *ring;

	spin_lock_bh(&cm->lock);
	ring = cm->srq_ring;
	if (ring)
		kref_get(&ring->ref);
	spin_unlock_bh(&cm->lock);
	return ring;
}

static void ipoib_cm_slot_init(struct ipoib_cm_ring *ring, u32 index)
{
	struct ipoib_cm_slot *slot = &ring->slot[index];
	struct ipoib_port *port = ring->port;
	unsigned int i;

	slot->wr.wr_id = (u64)ring->id << 32 | index;
	slot->wr.sg_list = slot->sge;
	slot->wr.num_sge = port->cm.rx_pages;
	for (i = 0; i < port->cm.rx_pages; i++) {
		slot->sge[i].length = PAGE_SIZE;
		slot->sge[i].lkey = port->pd->local_dma_lkey;
	}
	ring->free[ring->nfree++] = index;
}

static struct ipoib_cm_ring *ipoib_cm_ring_alloc(struct ipoib_port *port,
						 u32 nslots)
{
	struct ipoib_cm_ring *ring;
	int err;
	u32 i;

	ring = kvzalloc(struct_size(ring, slot, nslots), GFP_KERNEL);
	if (!ring)
		return ERR_PTR(-ENOMEM);
	ring->free = kvcalloc(nslots, sizeof(*ring->free), GFP_KERNEL);
	if (!ring->free) {
		err = -ENOMEM;
		goto free_ring;
	}
	kref_init(&ring->ref);
	mutex_init(&ring->fill_lock);
	spin_lock_init(&ring->lock);
	INIT_RCU_WORK(&ring->free_work, ipoib_cm_ring_free_work);
	ring->port = port;
	ring->nslots = nslots;
	err = xa_alloc_cyclic(&port->cm.rings, &ring->id, NULL,
			      XA_LIMIT(1, U32_MAX), &port->cm.next_ring,
			      GFP_KERNEL);
	if (err < 0)
		goto free_stack;
	for (i = 0; i < nslots; i++)
		ipoib_cm_slot_init(ring, i);
	return ring;

free_stack:
	kvfree(ring->free);
free_ring:
	kvfree(ring);
	return ERR_PTR(err);
}

/* The ring is whole: completions may find it. */
static int ipoib_cm_ring_publish(struct ipoib_cm_ring *ring)
{
	return xa_err(xa_store(&ring->port->cm.rings, ring->id, ring,
			       GFP_KERNEL));
}

static u32 ipoib_cm_srq_limit(const struct ipoib_cm_ring *ring)
{
	return ring->nslots / 4;
}

static void ipoib_cm_srq_event(struct ib_event *event, void *context)
{
	struct ipoib_cm_ring *ring = context;
	struct ipoib_cm_port *cm = &ring->port->cm;

	if (event->event == IB_EVENT_SRQ_ERR)
		WRITE_ONCE(ring->suspect, true);
	WRITE_ONCE(ring->unarmed, true);
	ipoib_cm_flood_low(cm);
	mod_delayed_work(cm->reap_wq, &cm->refill_work, 0);
}

static void ipoib_cm_srq_arm(struct ipoib_cm_ring *ring)
{
	struct ib_srq_attr attr = { .srq_limit = ipoib_cm_srq_limit(ring) };

	ib_modify_srq(ring->srq, &attr, IB_SRQ_LIMIT);
}

/**
 * ipoib_cm_ring_create_srq() - make a new SRQ generation
 * @port: the port
 *
 * Context: process.
 * Return: the ring, whose one reference is the caller's, or ERR_PTR().
 */
struct ipoib_cm_ring *ipoib_cm_ring_create_srq(struct ipoib_port *port)
{
	struct ib_srq_init_attr attr = {
		.event_handler = ipoib_cm_srq_event,
		.attr = {
			.max_wr = port->cm.srq_depth,
			.max_sge = port->cm.rx_pages,
		},
		.srq_type = IB_SRQT_BASIC,
	};
	struct ipoib_cm_ring *ring;
	struct ib_srq *srq;
	int err;

	ring = ipoib_cm_ring_alloc(port, port->cm.srq_depth);
	if (IS_ERR(ring))
		return ring;
	attr.srq_context = ring;
	srq = ib_create_srq(port->pd, &attr);
	if (IS_ERR(srq)) {
		err = PTR_ERR(srq);
		goto put_ring;
	}
	ring->srq = srq;
	atomic_inc(&port->cm.nrings);
	err = ipoib_cm_ring_publish(ring);
	if (err)
		goto put_ring;
	if (!ipoib_cm_ring_fill(ring)) {
		err = -ENOMEM;
		goto put_ring;
	}
	ipoib_cm_srq_arm(ring);
	return ring;

put_ring:
	ipoib_cm_ring_put(ring);
	return ERR_PTR(err);
}

/**
 * ipoib_cm_ring_create_own() - make the ring of one QP
 * @port: the port
 * @rx: the connection, which takes over the one reference
 *
 * It is closed until ipoib_cm_ring_open(): until then there is no QP to post to.
 *
 * Context: process.
 * Return: the ring or ERR_PTR().
 */
struct ipoib_cm_ring *ipoib_cm_ring_create_own(struct ipoib_port *port,
					       struct ipoib_cm_rx *rx)
{
	struct ipoib_cm_ring *ring;
	int err;

	ring = ipoib_cm_ring_alloc(port, rx->depth);
	if (IS_ERR(ring))
		return ring;
	ring->rx = rx;
	ring->closed = true;
	err = ipoib_cm_ring_publish(ring);
	if (err) {
		ipoib_cm_ring_put(ring);
		return ERR_PTR(err);
	}
	return ring;
}

/**
 * ipoib_cm_ring_open() - let receives be posted to the ring of one QP
 * @ring: the ring; its QP is in INIT
 *
 * Context: process.
 */
void ipoib_cm_ring_open(struct ipoib_cm_ring *ring)
{
	spin_lock_bh(&ring->lock);
	ring->closed = false;
	spin_unlock_bh(&ring->lock);
}

/* All receive WRs of a closed ring have completed: say so once. */
static bool ipoib_cm_ring_is_done(struct ipoib_cm_ring *ring)
{
	lockdep_assert_held(&ring->lock);
	if (!ring->closed || ring->done || ring->nposted != ring->ncompleted)
		return false;
	ring->done = true;
	return true;
}

/**
 * ipoib_cm_ring_close() - post nothing more to the ring of one QP
 * @ring: the ring; its connection has entered teardown
 *
 * Context: any but hard interrupt.
 */
void ipoib_cm_ring_close(struct ipoib_cm_ring *ring)
{
	bool done;

	spin_lock_bh(&ring->lock);
	ring->closed = true;
	done = ipoib_cm_ring_is_done(ring);
	spin_unlock_bh(&ring->lock);
	if (done)
		ipoib_cm_rx_done(ring->rx);
}

/**
 * ipoib_cm_ring_quiesce() - make sure that nobody posts to the ring of one QP
 * @ring: the ring; its QP is about to be destroyed
 *
 * Context: process, may sleep.
 */
void ipoib_cm_ring_quiesce(struct ipoib_cm_ring *ring)
{
	bool closed;

	spin_lock_bh(&ring->lock);
	closed = ring->closed;
	ring->closed = true;
	ring->done = true;
	spin_unlock_bh(&ring->lock);
	/* The refill work may be in the middle of a post, */
	mutex_lock(&ring->fill_lock);
	mutex_unlock(&ring->fill_lock);
	/* and the poller, which cannot if all has completed long ago. */
	if (!closed)
		synchronize_rcu();
}

/**
 * ipoib_cm_ring_suspect() - receive WRs may have been lost inside the HCA
 * @ring: ring of an SRQ
 *
 * A fresh generation takes over for new QPs; this one goes with its last QP.
 *
 * Context: process.
 */
void ipoib_cm_ring_suspect(struct ipoib_cm_ring *ring)
{
	struct ipoib_cm_port *cm = &ring->port->cm;

	WRITE_ONCE(ring->suspect, true);
	mod_delayed_work(cm->reap_wq, &cm->refill_work, 0);
}

/**
 * ipoib_cm_ring_stock() - receive WRs that the HCA should hold
 * @ring: the ring
 *
 * Context: any but hard interrupt.
 * Return: their number.
 */
u32 ipoib_cm_ring_stock(struct ipoib_cm_ring *ring)
{
	u32 stock;

	spin_lock_bh(&ring->lock);
	stock = ring->nposted - ring->ncompleted;
	spin_unlock_bh(&ring->lock);
	return stock;
}

/**
 * ipoib_cm_ring_take() - a receive WR has completed
 * @ring: the ring
 * @index: the slot that its cookie names, any value
 *
 * Context: the poller of the receive CQ.
 * Return: the slot, now the caller's, or NULL if the HCA did not own it.
 */
struct ipoib_cm_slot *ipoib_cm_ring_take(struct ipoib_cm_ring *ring, u32 index)
{
	struct ipoib_cm_slot *slot = NULL;
	bool done = false;

	if (index >= ring->nslots)
		return NULL;
	spin_lock_bh(&ring->lock);
	if (ring->slot[index].posted) {
		slot = &ring->slot[index];
		slot->posted = false;
		ring->ncompleted++;
		done = ipoib_cm_ring_is_done(ring);
	}
	spin_unlock_bh(&ring->lock);
	if (done)
		ipoib_cm_rx_done(ring->rx);
	return slot;
}

static int ipoib_cm_post(struct ipoib_cm_ring *ring, struct ib_recv_wr *first,
			 const struct ib_recv_wr **bad)
{
	if (ring->srq)
		return ib_post_srq_recv(ring->srq, first, bad);
	return ib_post_recv(ring->rx->conn.qp, first, bad);
}

/* Mark a chain as the HCA's, unless the ring has been closed. */
static bool ipoib_cm_chain_claim(struct ipoib_cm_chain *chain)
{
	struct ipoib_cm_ring *ring = chain->ring;
	struct ib_recv_wr *wr;
	bool closed;

	spin_lock_bh(&ring->lock);
	closed = ring->closed;
	for (wr = chain->first; wr; wr = wr->next) {
		if (closed)
			ring->free[ring->nfree++] = lower_32_bits(wr->wr_id);
		else
			container_of(wr, struct ipoib_cm_slot, wr)->posted = true;
	}
	if (!closed)
		ring->nposted += chain->n;
	spin_unlock_bh(&ring->lock);
	return !closed;
}

/* The HCA did not take the chain from @bad on: it is a deficit. */
static void ipoib_cm_chain_disclaim(struct ipoib_cm_ring *ring,
				    const struct ib_recv_wr *bad)
{
	struct ipoib_cm_port *cm = &ring->port->cm;
	bool done;

	spin_lock_bh(&ring->lock);
	for (; bad; bad = bad->next) {
		u32 index = lower_32_bits(bad->wr_id);

		ring->slot[index].posted = false;
		ring->nposted--;
		ring->free[ring->nfree++] = index;
		ipoib_port_stat_inc(ring->port, IPOIB_PORT_STAT_cm_stock_deficit);
	}
	if (ring->srq &&
	    ring->nposted - ring->ncompleted < ipoib_cm_srq_limit(ring))
		ipoib_cm_flood_low(cm);
	done = ipoib_cm_ring_is_done(ring);
	spin_unlock_bh(&ring->lock);
	if (done)
		ipoib_cm_rx_done(ring->rx);
	queue_delayed_work(cm->reap_wq, &cm->refill_work, IPOIB_CM_REFILL_DELAY);
}

/**
 * ipoib_cm_ring_flush() - post what has been collected
 * @chain: the chain; empty afterwards
 *
 * Context: process, or the poller of the receive CQ.
 */
void ipoib_cm_ring_flush(struct ipoib_cm_chain *chain)
{
	struct ipoib_cm_ring *ring = chain->ring;
	const struct ib_recv_wr *bad = NULL;

	if (!chain->n)
		return;
	chain->last->next = NULL;
	if (ipoib_cm_chain_claim(chain) &&
	    ipoib_cm_post(ring, chain->first, &bad))
		ipoib_cm_chain_disclaim(ring, bad ? bad : chain->first);
	chain->n = 0;
}

/**
 * ipoib_cm_ring_repost() - give a slot back to the HCA, now or with the next
 *	flush of the chain
 * @chain: the caller's chain
 * @ring: the ring
 * @slot: the slot, whole; the caller owns it
 *
 * Context: process, or the poller of the receive CQ.
 */
void ipoib_cm_ring_repost(struct ipoib_cm_chain *chain,
			  struct ipoib_cm_ring *ring, struct ipoib_cm_slot *slot)
{
	if (chain->n && chain->ring != ring)
		ipoib_cm_ring_flush(chain);
	if (chain->n)
		chain->last->next = &slot->wr;
	else
		chain->first = &slot->wr;
	chain->ring = ring;
	chain->last = &slot->wr;
	if (++chain->n == IPOIB_CM_RX_CHAIN)
		ipoib_cm_ring_flush(chain);
}

static struct ipoib_cm_slot *ipoib_cm_ring_pop(struct ipoib_cm_ring *ring)
{
	struct ipoib_cm_slot *slot = NULL;

	spin_lock_bh(&ring->lock);
	if (ring->nfree && !ring->closed)
		slot = &ring->slot[ring->free[--ring->nfree]];
	spin_unlock_bh(&ring->lock);
	return slot;
}

static void ipoib_cm_ring_push(struct ipoib_cm_ring *ring,
			       struct ipoib_cm_slot *slot)
{
	spin_lock_bh(&ring->lock);
	ring->free[ring->nfree++] = lower_32_bits(slot->wr.wr_id);
	spin_unlock_bh(&ring->lock);
}

/*
 * Post one slot from outside the poller. The WR is a copy: as soon as the HCA
 * has it, the poller may link the slot's own into a chain.
 */
static void ipoib_cm_ring_post_one(struct ipoib_cm_ring *ring,
				   struct ipoib_cm_slot *slot)
{
	const struct ib_recv_wr *bad;
	struct ib_recv_wr wr = {
		.wr_id = slot->wr.wr_id,
		.sg_list = slot->sge,
		.num_sge = slot->wr.num_sge,
	};
	bool closed;

	spin_lock_bh(&ring->lock);
	closed = ring->closed;
	if (closed) {
		ring->free[ring->nfree++] = lower_32_bits(wr.wr_id);
	} else {
		slot->posted = true;
		ring->nposted++;
	}
	spin_unlock_bh(&ring->lock);
	if (!closed && ipoib_cm_post(ring, &wr, &bad))
		ipoib_cm_chain_disclaim(ring, &wr);
}

/**
 * ipoib_cm_ring_fill() - post every slot that is free
 * @ring: the ring
 *
 * Context: process.
 * Return: true if the ring is whole.
 */
bool ipoib_cm_ring_fill(struct ipoib_cm_ring *ring)
{
	struct ipoib_cm_slot *slot;
	bool whole;
	u32 n;

	mutex_lock(&ring->fill_lock);
	for (n = 0; n < ring->nslots; n++) {
		slot = ipoib_cm_ring_pop(ring);
		if (!slot)
			break;
		if (ipoib_cm_slot_fill(ring->port, slot)) {
			ipoib_cm_ring_push(ring, slot);
			break;
		}
		ipoib_cm_ring_post_one(ring, slot);
	}
	whole = !READ_ONCE(ring->nfree);
	mutex_unlock(&ring->fill_lock);
	return whole;
}

/* Replace a suspect generation, unless an older one is still alive. */
static void ipoib_cm_ring_renew(struct ipoib_port *port)
{
	struct ipoib_cm_port *cm = &port->cm;
	struct ipoib_cm_ring *old, *ring;

	old = ipoib_cm_ring_current(cm);
	if (!old)
		return;
	if (READ_ONCE(cm->closing) || READ_ONCE(cm->dead) ||
	    !READ_ONCE(old->suspect) ||
	    atomic_read(&cm->nrings) >= IPOIB_CM_RINGS_MAX)
		goto put_old;
	ring = ipoib_cm_ring_create_srq(port);
	if (IS_ERR(ring)) {
		queue_delayed_work(cm->reap_wq, &cm->refill_work, HZ);
		goto put_old;
	}
	/* A port that is closing has given its ring up, and wants no other. */
	spin_lock_bh(&cm->lock);
	if (cm->srq_ring == old) {
		swap(cm->srq_ring, ring);
		ipoib_port_stat_inc(port, IPOIB_PORT_STAT_cm_generations);
	}
	spin_unlock_bh(&cm->lock);
	ipoib_cm_ring_put(ring);
put_old:
	ipoib_cm_ring_put(old);
}

/**
 * ipoib_cm_ring_refill() - make good the deficit of all rings
 * @work: the port's refill work
 *
 * Context: process.
 */
void ipoib_cm_ring_refill(struct work_struct *work)
{
	struct ipoib_cm_port *cm = container_of(to_delayed_work(work),
						struct ipoib_cm_port,
						refill_work);
	struct ipoib_port *port = container_of(cm, struct ipoib_port, cm);
	struct ipoib_cm_ring *ring;
	unsigned long id = 0;
	bool again = false;
	unsigned int noio;

	if (READ_ONCE(cm->closing))
		return;
	/* Write-back may wait for a buffer to receive the answer in. */
	noio = memalloc_noio_save();
	for (;;) {
		rcu_read_lock();
		ring = xa_find_after(&cm->rings, &id, ULONG_MAX, XA_PRESENT);
		if (ring && !kref_get_unless_zero(&ring->ref)) {
			rcu_read_unlock();
			continue;
		}
		rcu_read_unlock();
		if (!ring)
			break;
		if (READ_ONCE(ring->nfree) && !READ_ONCE(ring->closed)) {
			ipoib_port_stat_inc(port, IPOIB_PORT_STAT_cm_refills);
			again |= !ipoib_cm_ring_fill(ring);
		}
		/* Armed while the stock is low, the event would come at once. */
		if (ring->srq && !ipoib_cm_flood_is_low(cm) &&
		    xchg(&ring->unarmed, false))
			ipoib_cm_srq_arm(ring);
		ipoib_cm_ring_put(ring);
	}
	ipoib_cm_ring_renew(port);
	memalloc_noio_restore(noio);
	/* Who else would tell the poller that the stock is whole again? */
	if (ipoib_cm_flood_is_low(cm))
		ipoib_cm_rx_poke(cm);
	if (again && !READ_ONCE(cm->closing))
		queue_delayed_work(cm->reap_wq, &cm->refill_work,
				   IPOIB_CM_REFILL_DELAY);
}

/* Pages that take the place of those that go up with a packet. */
struct ipoib_cm_spare {
	struct page *page[IPOIB_CM_RX_PAGES];
	u64 dma[IPOIB_CM_RX_PAGES];
};

static void ipoib_cm_spare_free(struct ipoib_port *port,
				struct ipoib_cm_spare *spare, unsigned int n)
{
	while (n--) {
		ib_dma_unmap_page(port->ca, spare->dma[n], PAGE_SIZE,
				  DMA_FROM_DEVICE);
		ipoib_cm_page_free(&port->cm, spare->page[n], true);
	}
}

static int ipoib_cm_spare_alloc(struct ipoib_port *port,
				struct ipoib_cm_spare *spare, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		spare->page[i] = page_pool_dev_alloc_pages(port->cm.pool);
		if (!spare->page[i])
			goto free_spare;
		spare->dma[i] = ipoib_cm_map(port->ca, spare->page[i]);
		if (ib_dma_mapping_error(port->ca, spare->dma[i])) {
			ipoib_cm_page_free(&port->cm, spare->page[i], true);
			goto free_spare;
		}
	}
	return 0;

free_spare:
	ipoib_cm_spare_free(port, spare, i);
	return -ENOMEM;
}

/* Move the first @n pages of a slot, @len octets of packet, into an skb. */
static void ipoib_cm_slot_give(struct ipoib_port *port,
			       struct ipoib_cm_slot *slot, struct sk_buff *skb,
			       struct ipoib_cm_spare *spare, unsigned int n,
			       unsigned int len)
{
	unsigned int i, off = IPOIB_CM_HEAD_LEN;

	for (i = 0; i < n; i++) {
		unsigned int end = min_t(unsigned int, len, PAGE_SIZE);

		ib_dma_unmap_page(port->ca, slot->sge[i].addr, PAGE_SIZE,
				  DMA_FROM_DEVICE);
		if (!i)
			skb_put_data(skb, page_address(slot->page[0]), off);
		skb_add_rx_frag(skb, i, slot->page[i], off, end - off, PAGE_SIZE);
		slot->page[i] = spare->page[i];
		slot->sge[i].addr = spare->dma[i];
		slot->pooled |= BIT(i);
		len -= end;
		off = 0;
	}
	skb_mark_for_recycle(skb);
}

static struct sk_buff *ipoib_cm_slot_copy(struct ipoib_port *port,
					  struct ipoib_cm_slot *slot,
					  struct sk_buff *skb, unsigned int len)
{
	ib_dma_sync_single_for_cpu(port->ca, slot->sge[0].addr, len,
				   DMA_FROM_DEVICE);
	skb_put_data(skb, page_address(slot->page[0]), len);
	ib_dma_sync_single_for_device(port->ca, slot->sge[0].addr, len,
				      DMA_FROM_DEVICE);
	return skb;
}

/**
 * ipoib_cm_ring_skb() - make an skb of a received message
 * @ring: the ring
 * @slot: the slot; whole afterwards in any case
 * @len: octets received, IPoIB header included, at most what the slot holds
 *
 * Short messages are copied. The pages of longer ones go up, and pages that
 * were allocated before take their place.
 *
 * Context: the poller of the receive CQ.
 * Return: the skb with room for a pseudo header before the IPoIB header, NULL
 * without memory.
 */
struct sk_buff *ipoib_cm_ring_skb(struct ipoib_cm_ring *ring,
				  struct ipoib_cm_slot *slot, unsigned int len)
{
	bool copy = len <= IPOIB_CM_COPYBREAK;
	struct ipoib_port *port = ring->port;
	struct ipoib_cm_spare spare;
	struct sk_buff *skb;
	unsigned int n;

	skb = napi_alloc_skb(&port->cm.recv_napi, IPOIB_PSEUDO_LEN +
			     (copy ? len : IPOIB_CM_HEAD_LEN));
	if (!skb)
		return NULL;
	skb_reserve(skb, IPOIB_PSEUDO_LEN);
	if (copy)
		return ipoib_cm_slot_copy(port, slot, skb, len);
	n = DIV_ROUND_UP(len, PAGE_SIZE);
	if (ipoib_cm_spare_alloc(port, &spare, n)) {
		kfree_skb(skb);
		return NULL;
	}
	ipoib_cm_slot_give(port, slot, skb, &spare, n, len);
	return skb;
}

/**
 * ipoib_cm_ring_proto() - encapsulation type of a received message
 * @ring: the ring
 * @slot: the slot; it holds an IPoIB header at least
 *
 * Context: the poller of the receive CQ.
 * Return: the type as it stands on the wire.
 */
__be16 ipoib_cm_ring_proto(struct ipoib_cm_ring *ring,
			   struct ipoib_cm_slot *slot)
{
	struct ib_device *ca = ring->port->ca;
	const struct ipoib_hdr *hdr;
	__be16 proto;

	ib_dma_sync_single_for_cpu(ca, slot->sge[0].addr, sizeof(*hdr),
				   DMA_FROM_DEVICE);
	hdr = page_address(slot->page[0]);
	proto = hdr->proto;
	ib_dma_sync_single_for_device(ca, slot->sge[0].addr, sizeof(*hdr),
				      DMA_FROM_DEVICE);
	return proto;
}
