/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The datagram side of an interface: address handles, the UD QP with its CQs
 * and rings, send and receive.
 */
#ifndef IPOIB_UD_H
#define IPOIB_UD_H

#include <linux/interrupt.h>
#include <linux/irqflags.h>
#include <linux/llist.h>
#include <linux/netdevice.h>
#include <linux/refcount.h>
#include <linux/skbuff.h>
#include <linux/wait.h>
#include <rdma/ib_verbs.h>

struct ipoib_netdev;

#define IPOIB_UD_BATCH	16	/* completions polled, receives posted at a time */
#define IPOIB_UD_RX_SGE	2	/* scatter entries of one receive */

/**
 * struct ipoib_ah - an address handle with the sends that use it
 * @ah: the verbs object
 * @ref: one for each holder and one for each send in flight; the handle is
 *	destroyed only after the last of them, in process context
 * @priv: whose dead list it goes to
 * @dead: link on the interface's list of handles to destroy
 * @rcu: the memory goes after a grace period, so that a sender which found the
 *	handle under RCU may look at @ref
 * @mtu: largest IPoIB packet on its path in octets
 */
struct ipoib_ah {
	struct ib_ah *ah;
	refcount_t ref;
	struct ipoib_netdev *priv;
	struct llist_node dead;
	struct rcu_head rcu;
	unsigned int mtu;
};

/**
 * struct ipoib_ud_rx - slot of the receive ring
 * @skb: room for GRH, IPoIB header and what else fits; NULL in an empty slot
 * @page: room for the rest; NULL if all fits in @skb
 * @dma: @page_dma: their mappings
 * @posted: the HCA owns it
 */
struct ipoib_ud_rx {
	struct sk_buff *skb;
	struct page *page;
	u64 dma;
	u64 page_dma;
	bool posted;
};

/**
 * struct ipoib_ud_tx - slot of the send ring
 * @skb: the packet in flight, NULL in a free slot
 * @ah: the handle that it was sent with; a reference is held
 * @done: completed or given up; freed once all older ones are
 * @len: octets of the packet, IPoIB header included
 * @skip: octets at the head that the HCA got as LSO header, not mapped
 * @dma: mappings of the linear part (if any is left) and of the fragments
 */
struct ipoib_ud_tx {
	struct sk_buff *skb;
	struct ipoib_ah *ah;
	bool done;
	u16 skip;
	unsigned int len;
	u64 dma[MAX_SKB_FRAGS + 1];
};

/**
 * struct ipoib_ud - UD QP of an interface
 * @qp: in RESET while the interface is down, in RTS while it is up
 * @recv_cq: @send_cq: its CQs, polled by @recv_napi and @send_napi
 * @rx: ring of receive buffers; owned by @recv_napi while open
 * @rx_idle: stack of slots that are not posted, @rx_nidle deep; @recv_napi
 * @tx: ring of sends in flight
 * @rx_size: @tx_size: entries, powers of two
 * @buf_len: octets of a receive buffer; @head_len of them in the skb itself, so
 *	that nothing larger than a page is allocated
 * @generation: upper half of every cookie; another one each time that the QP
 *	leaves RESET, so that stale completions name nothing
 * @tx_head: next slot to fill; transmit queue lock
 * @tx_tail: oldest slot in flight; @send_napi
 * @flushing: set while ipoib_ud_stop() waits; no receive is posted
 * @stuck: the QP did not reach RESET: what is in the rings belongs to the HCA
 * @drained: woken by the NAPIs while @flushing
 * @dead_ahs: address handles without users
 * @nahs: address handles that have not been destroyed
 * @ah_work: destroys @dead_ahs
 * @refill_work: kicks @recv_napi when slots could not be posted
 * @recover_work: brings the QP back from an error state
 * @max_send_sge: scatter/gather entries of one send
 * @coalesce: what was asked for of @recv_cq
 * @recv_wc: @recv_wr: @recv_sge: scratch of @recv_napi
 * @send_wc: scratch of @send_napi
 * @send_wr: @send_sge: scratch of the sender; transmit queue lock
 */
struct ipoib_ud {
	struct ib_qp *qp;
	struct ib_cq *recv_cq;
	struct ib_cq *send_cq;
	struct napi_struct recv_napi;
	struct napi_struct send_napi;
	struct ipoib_ud_rx *rx;
	u16 *rx_idle;
	unsigned int rx_nidle;
	struct ipoib_ud_tx *tx;
	unsigned int rx_size;
	unsigned int tx_size;
	unsigned int buf_len;
	unsigned int head_len;
	u32 generation;
	unsigned int tx_head;
	unsigned int tx_tail;
	bool flushing;
	bool stuck;
	wait_queue_head_t drained;
	struct llist_head dead_ahs;
	atomic_t nahs;
	struct work_struct ah_work;
	struct delayed_work refill_work;
	struct work_struct recover_work;
	unsigned int max_send_sge;
	struct { u16 usecs; u16 frames; } coalesce;
	struct ib_wc recv_wc[IPOIB_UD_BATCH];
	struct ib_recv_wr recv_wr[IPOIB_UD_BATCH];
	struct ib_sge recv_sge[IPOIB_UD_BATCH][IPOIB_UD_RX_SGE];
	struct ib_wc send_wc[IPOIB_UD_BATCH];
	struct ib_ud_wr send_wr;
	struct ib_sge send_sge[MAX_SKB_FRAGS + 1];
};

/* No send fits: the transmit queue waits for a completion. Any context. */
static inline bool ipoib_ud_tx_is_full(const struct ipoib_ud *ud)
{
	return READ_ONCE(ud->tx_head) - READ_ONCE(ud->tx_tail) >= ud->tx_size;
}

/**
 * ipoib_napi_kick() - schedule a NAPI from a completion handler
 * @napi: the NAPI
 *
 * Software HCAs call their completion handlers from tasks. A softirq raised
 * there would wait for the next interrupt, so it is let run at once.
 *
 * Context: any.
 */
static inline void ipoib_napi_kick(struct napi_struct *napi)
{
	if (!in_task() || irqs_disabled()) {
		napi_schedule(napi);
		return;
	}
	local_bh_disable();
	napi_schedule(napi);
	local_bh_enable();
}

/* ipoib_ah.c */
struct ipoib_ah *ipoib_ah_create(struct ipoib_netdev *priv,
				 struct rdma_ah_attr *attr, unsigned int mtu);
void ipoib_ah_get(struct ipoib_ah *ah);
bool ipoib_ah_tryget(struct ipoib_ah *ah);
void ipoib_ah_put(struct ipoib_ah *ah);
void ipoib_ah_init(struct ipoib_netdev *priv);
void ipoib_ah_flush(struct ipoib_netdev *priv);

/* ipoib_qp.c: life of the UD QP and its CQs */
int ipoib_qp_create(struct ipoib_netdev *priv);
int ipoib_qp_destroy(struct ipoib_netdev *priv);
int ipoib_qp_to_rts(struct ipoib_netdev *priv);
int ipoib_qp_to_reset(struct ipoib_netdev *priv);
int ipoib_qp_to_error(struct ipoib_netdev *priv);
int ipoib_qp_set_qkey(struct ipoib_netdev *priv, u32 qkey);
int ipoib_qp_attach(struct ipoib_netdev *priv, const union ib_gid *mgid, u16 mlid);
int ipoib_qp_detach(struct ipoib_netdev *priv, const union ib_gid *mgid, u16 mlid);
void ipoib_qp_recover_work(struct work_struct *work);

/* ipoib_ud.c: data path */
int ipoib_ud_init(struct ipoib_netdev *priv);
void ipoib_ud_uninit(struct ipoib_netdev *priv);
int ipoib_ud_open(struct ipoib_netdev *priv);
void ipoib_ud_stop(struct ipoib_netdev *priv);
bool ipoib_ud_poke(struct ipoib_netdev *priv);
void ipoib_ud_send(struct ipoib_netdev *priv, struct sk_buff *skb,
		   struct ipoib_ah *ah, u32 qpn);
void ipoib_ud_deliver(struct ipoib_netdev *priv, struct napi_struct *napi,
		      struct sk_buff *skb);

/* ipoib_ud_rings.c: buffers of the rings and their mappings */
int ipoib_ud_rx_alloc(struct ipoib_netdev *priv, struct ipoib_ud_rx *slot,
		      gfp_t gfp);
struct sk_buff *ipoib_ud_rx_take(struct ipoib_netdev *priv,
				 struct ipoib_ud_rx *slot, unsigned int len);
bool ipoib_ud_rx_paged(const struct ipoib_ud *ud, unsigned int len);
void ipoib_ud_rx_release(struct ipoib_netdev *priv, struct ipoib_ud_rx *slot);
int ipoib_ud_tx_map(struct ipoib_netdev *priv, struct ipoib_ud_tx *slot);
void ipoib_ud_tx_unmap(struct ipoib_netdev *priv, struct ipoib_ud_tx *slot);
int ipoib_ud_rings_alloc(struct ipoib_netdev *priv);
void ipoib_ud_rings_free(struct ipoib_netdev *priv);
void ipoib_ud_rings_reclaim(struct ipoib_netdev *priv);

#endif /* IPOIB_UD_H */
