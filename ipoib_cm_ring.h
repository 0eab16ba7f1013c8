/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Receive rings of connected mode: page-based buffers of 64 KiB that are
 * posted to the SRQ of the port (one ring for each SRQ generation), or to the
 * receive queue of one QP where the HCA has no SRQs.
 *
 * A slot is owned by exactly one of: the HCA (posted), the poller of the
 * receive CQ (between completion and repost), the free stack of its ring.
 */
#ifndef IPOIB_CM_RING_H
#define IPOIB_CM_RING_H

#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>

#include "ipoib_proto.h"

struct ipoib_cm_port;
struct ipoib_cm_rx;
struct ipoib_port;
struct sk_buff;

#define IPOIB_CM_RX_PAGES	DIV_ROUND_UP(IPOIB_CM_BUF_LEN, PAGE_SIZE)
#define IPOIB_CM_RX_CHAIN	16	/* receive WRs posted at a time */
#define IPOIB_CM_RINGS_MAX	2	/* SRQ generations alive at a time */
#define IPOIB_CM_REFILL_DELAY	msecs_to_jiffies(100)

/**
 * struct ipoib_cm_slot - one receive buffer
 * @wr: its receive WR; the cookie is (ring id << 32 | index of the slot)
 * @sge: DMA addresses of its pages
 * @page: its pages; NULL from the first one missing on
 * @pooled: bit i says that page i belongs to the port's page pool
 * @posted: the HCA owns it
 */
struct ipoib_cm_slot {
	struct ib_recv_wr wr;
	struct ib_sge sge[IPOIB_CM_RX_PAGES];
	struct page *page[IPOIB_CM_RX_PAGES];
	u32 pooled;
	bool posted;
};

/**
 * struct ipoib_cm_ring - buffers of one SRQ generation, or of one QP
 * @id: key in &struct ipoib_cm_port.rings, never 0
 * @ref: one for the port while it is the current SRQ ring, one for each
 *	connection that receives from it
 * @port: the port
 * @srq: the SRQ, NULL for the ring of one QP
 * @rx: the connection of the ring of one QP; it holds the ring
 * @free_work: destroys the SRQ and frees the ring, after a grace period
 * @nslots: number of slots
 * @fill_lock: guards against posts from outside the poller, while the QP of an
 *	own ring goes; outermost
 * @lock: guards all below but the slots' contents; BH
 * @free: stack of slots that are not posted
 * @nfree: height of the stack
 * @nposted: @ncompleted: ledger of receive WRs, since the beginning
 * @closed: nothing is posted, not yet or not any more (ring of one QP)
 * @done: the owner has been told that all of it has completed
 * @suspect: receive WRs may have been lost inside the HCA
 * @unarmed: the SRQ has raised its limit event, which it does once; lockless
 * @slot: the slots
 */
struct ipoib_cm_ring {
	u32 id;
	struct kref ref;
	struct ipoib_port *port;
	struct ib_srq *srq;
	struct ipoib_cm_rx *rx;
	struct rcu_work free_work;
	u32 nslots;
	struct mutex fill_lock;	/* guards posting from outside the poller */
	spinlock_t lock;
	u32 *free;
	u32 nfree;
	u64 nposted;
	u64 ncompleted;
	bool closed;
	bool done;
	bool suspect;
	bool unarmed;
	struct ipoib_cm_slot slot[];
};

/**
 * struct ipoib_cm_chain - receive WRs that will be posted in one call
 * @ring: the ring of all of them
 * @first: @last: the chain
 * @n: its length
 */
struct ipoib_cm_chain {
	struct ipoib_cm_ring *ring;
	struct ib_recv_wr *first;
	struct ib_recv_wr *last;
	unsigned int n;
};

struct ipoib_cm_ring *ipoib_cm_ring_create_srq(struct ipoib_port *port);
struct ipoib_cm_ring *ipoib_cm_ring_create_own(struct ipoib_port *port,
					       struct ipoib_cm_rx *rx);
void ipoib_cm_ring_put(struct ipoib_cm_ring *ring);
struct ipoib_cm_ring *ipoib_cm_ring_current(struct ipoib_cm_port *cm);
bool ipoib_cm_ring_fill(struct ipoib_cm_ring *ring);
void ipoib_cm_ring_open(struct ipoib_cm_ring *ring);
void ipoib_cm_ring_close(struct ipoib_cm_ring *ring);
void ipoib_cm_ring_quiesce(struct ipoib_cm_ring *ring);
void ipoib_cm_ring_suspect(struct ipoib_cm_ring *ring);
void ipoib_cm_ring_refill(struct work_struct *work);
u32 ipoib_cm_ring_stock(struct ipoib_cm_ring *ring);

struct ipoib_cm_slot *ipoib_cm_ring_take(struct ipoib_cm_ring *ring, u32 index);
void ipoib_cm_ring_repost(struct ipoib_cm_chain *chain,
			  struct ipoib_cm_ring *ring, struct ipoib_cm_slot *slot);
void ipoib_cm_ring_flush(struct ipoib_cm_chain *chain);
struct sk_buff *ipoib_cm_ring_skb(struct ipoib_cm_ring *ring,
				  struct ipoib_cm_slot *slot, unsigned int len);
__be16 ipoib_cm_ring_proto(struct ipoib_cm_ring *ring,
			   struct ipoib_cm_slot *slot);

#endif /* IPOIB_CM_RING_H */
