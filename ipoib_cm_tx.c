// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Active side of connected mode: sends and their completions. */
#include <linux/mm.h>
#include <linux/skbuff.h>

#include "ipoib.h"
#include "ipoib_cm_conn.h"
#include "ipoib_cm_state.h"

#define IPOIB_CM_TX_BATCH	16	/* completions polled at a time */
#define IPOIB_CM_STALL		msecs_to_jiffies(100)

/**
 * struct ipoib_cm_tx_req - a send in flight
 * @skb: the packet, NULL for the flush marker
 * @nsge: mapped pieces
 * @head: the first piece is the linear part
 * @dma: their addresses
 */
struct ipoib_cm_tx_req {
	struct sk_buff *skb;
	u8 nsge;
	bool head;
	u64 dma[MAX_SKB_FRAGS + 1];
};

static struct ipoib_cm_tx_req *ipoib_cm_tx_slot(struct ipoib_cm_tx *tx, u32 seq)
{
	return &tx->ring[seq & (tx->size - 1)];
}

static u64 ipoib_cm_tx_cookie(const struct ipoib_cm_tx *tx, u32 seq)
{
	return (u64)tx->id << 32 | seq;
}

/**
 * ipoib_cm_tx_ring_alloc() - make the ring of an active connection
 * @tx: the connection
 *
 * Context: process.
 * Return: 0 or -ENOMEM.
 */
int ipoib_cm_tx_ring_alloc(struct ipoib_cm_tx *tx)
{
	tx->ring = kvcalloc(tx->size, sizeof(*tx->ring), GFP_KERNEL);
	return tx->ring ? 0 : -ENOMEM;
}

static void ipoib_cm_unmap(struct ib_device *ca, const struct ipoib_cm_tx_req *req)
{
	const struct skb_shared_info *sh = skb_shinfo(req->skb);
	unsigned int i = 0, frag = 0;

	if (req->head && req->nsge)
		ib_dma_unmap_single(ca, req->dma[i++], skb_headlen(req->skb),
				    DMA_TO_DEVICE);
	for (; i < req->nsge; i++, frag++)
		ib_dma_unmap_page(ca, req->dma[i], skb_frag_size(&sh->frags[frag]),
				  DMA_TO_DEVICE);
}

/* Map the pieces of an skb; @req and @sge describe as many as were mapped. */
static int ipoib_cm_map(struct ib_device *ca, u32 lkey,
			struct ipoib_cm_tx_req *req, struct ib_sge *sge)
{
	struct sk_buff *skb = req->skb;
	unsigned int i, n = 0;
	u64 dma;

	req->nsge = 0;
	req->head = skb_headlen(skb);
	if (req->head) {
		dma = ib_dma_map_single(ca, skb->data, skb_headlen(skb),
					DMA_TO_DEVICE);
		if (ib_dma_mapping_error(ca, dma))
			return -EIO;
		sge[n] = (struct ib_sge){ dma, skb_headlen(skb), lkey };
		req->dma[n++] = dma;
		req->nsge = n;
	}
	for (i = 0; i < skb_shinfo(skb)->nr_frags; i++) {
		const skb_frag_t *frag = &skb_shinfo(skb)->frags[i];

		dma = ib_dma_map_page(ca, skb_frag_page(frag), skb_frag_off(frag),
				      skb_frag_size(frag), DMA_TO_DEVICE);
		if (ib_dma_mapping_error(ca, dma)) {
			ipoib_cm_unmap(ca, req);
			return -EIO;
		}
		sge[n] = (struct ib_sge){ dma, skb_frag_size(frag), lkey };
		req->dma[n++] = dma;
		req->nsge = n;
	}
	return 0;
}

static void ipoib_cm_tx_drop(struct ipoib_netdev *priv, struct sk_buff *skb,
			     enum ipoib_stat why)
{
	ipoib_stat_inc(priv, why);
	dev_kfree_skb_any(skb);
}

/* Make a packet fit the HCA: linear if it has too many pieces. */
static bool ipoib_cm_tx_fit(struct ipoib_netdev *priv, struct sk_buff *skb)
{
	unsigned int pieces = skb_shinfo(skb)->nr_frags + !!skb_headlen(skb);

	if (pieces <= priv->port->cm.max_send_sge && !skb_has_frag_list(skb))
		return true;
	if (skb_linearize(skb))
		return false;
	ipoib_stat_inc(priv, IPOIB_STAT_tx_linearized);
	return true;
}

static bool ipoib_cm_tx_full(const struct ipoib_cm_tx *tx)
{
	return tx->head - tx->tail >= tx->size - 1;
}

/* The ring has just become full: hold the queue back if sends complete. */
static void ipoib_cm_tx_hold(struct ipoib_netdev *priv, struct ipoib_cm_tx *tx)
{
	lockdep_assert_held(&tx->lock);
	/* A connection that is detached could not let go of it again. */
	if (!tx->neigh || tx->stopped ||
	    time_after(jiffies, tx->progress + IPOIB_CM_STALL))
		return;
	tx->stopped = true;
	atomic_inc(&priv->cm.held);
	netif_stop_queue(priv->dev);
	ipoib_stat_inc(priv, IPOIB_STAT_tx_queue_stopped);
	mod_delayed_work(priv->port->cm.reap_wq, &tx->stall_work,
			 IPOIB_CM_STALL);
}

/**
 * ipoib_cm_tx_take_credit() - take an entry of the send CQ
 * @tx: the connection that will hold it
 *
 * All connections of a port share the CQ, which must not overflow.
 *
 * Context: any but hard interrupt; the connection's lock is held.
 * Return: true if there was one.
 */
bool ipoib_cm_tx_take_credit(struct ipoib_cm_tx *tx)
{
	lockdep_assert_held(&tx->lock);
	if (atomic_dec_if_positive(&tx->conn.port->cm.send_credits) < 0)
		return false;
	tx->credits++;
	return true;
}

static void ipoib_cm_tx_give_credit(struct ipoib_cm_tx *tx)
{
	lockdep_assert_held(&tx->lock);
	tx->credits--;
	atomic_inc(&tx->conn.port->cm.send_credits);
}

/*
 * Post one mapped packet.
 * Return: 0, or the counter of the reason why it was not posted.
 */
static int ipoib_cm_tx_post(struct ipoib_netdev *priv, struct ipoib_cm_tx *tx,
			    const struct ipoib_cm_tx_req *req, struct ib_sge *sge)
{
	const struct ib_send_wr *bad;
	struct ib_send_wr wr = {
		.sg_list = sge,
		.num_sge = req->nsge,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};

	lockdep_assert_held(&tx->lock);
	if (tx->state != IPOIB_CM_TX_UP)
		return IPOIB_STAT_tx_drop_path;
	if (ipoib_cm_tx_full(tx))
		return IPOIB_STAT_tx_drop_stalled;
	if (unlikely(!ipoib_cm_tx_take_credit(tx)))
		return IPOIB_STAT_tx_drop_cq;
	if (tx->head == tx->tail)
		tx->progress = jiffies;
	wr.wr_id = ipoib_cm_tx_cookie(tx, tx->head);
	*ipoib_cm_tx_slot(tx, tx->head) = *req;
	if (unlikely(ib_post_send(tx->conn.qp, &wr, &bad))) {
		ipoib_cm_tx_give_credit(tx);
		return IPOIB_STAT_tx_error_post;
	}
	tx->head++;
	if (ipoib_cm_tx_full(tx))
		ipoib_cm_tx_hold(priv, tx);
	return 0;
}

/**
 * ipoib_cm_tx_send() - send a packet on an active connection
 * @priv: the netdev
 * @skb: the packet, from the IPoIB header on; consumed
 * @tx: the connection
 *
 * Context: transmit queue lock and RCU read side held.
 */
void ipoib_cm_tx_send(struct ipoib_netdev *priv, struct sk_buff *skb,
		      struct ipoib_cm_tx *tx)
{
	struct ib_device *ca = priv->port->ca;
	struct ib_sge sge[MAX_SKB_FRAGS + 1];
	struct ipoib_cm_tx_req req;
	int why;

	if (unlikely(skb->len > tx->mtu + IPOIB_ENCAP_LEN)) {
		ipoib_cm_tx_drop(priv, skb, IPOIB_STAT_tx_drop_toolong);
		return;
	}
	if (unlikely(!ipoib_cm_tx_fit(priv, skb))) {
		ipoib_cm_tx_drop(priv, skb, IPOIB_STAT_tx_drop_nomem);
		return;
	}
	req.skb = skb;
	if (unlikely(ipoib_cm_map(ca, priv->port->pd->local_dma_lkey, &req, sge))) {
		ipoib_cm_tx_drop(priv, skb, IPOIB_STAT_tx_drop_map);
		return;
	}
	/* A dead peer may keep the packet for long: hold nothing but memory. */
	skb_dst_drop(skb);
	nf_reset_ct(skb);

	spin_lock_bh(&tx->lock);
	why = ipoib_cm_tx_post(priv, tx, &req, sge);
	spin_unlock_bh(&tx->lock);
	if (likely(!why))
		return;
	ipoib_cm_unmap(ca, &req);
	ipoib_cm_tx_drop(priv, skb, why);
	if (why == IPOIB_STAT_tx_error_post)
		ipoib_cm_tx_close(tx, BIT(IPOIB_CM_TX_F_FAILED));
}

/**
 * ipoib_cm_tx_post_marker() - post the WR whose flush ends all sends
 * @tx: the connection; its QP is known to be in ERR
 *
 * Context: process.
 * Return: true if it was posted.
 */
bool ipoib_cm_tx_post_marker(struct ipoib_cm_tx *tx)
{
	const struct ib_send_wr *bad;
	struct ib_send_wr wr = {
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};
	int err;

	spin_lock_bh(&tx->lock);
	wr.wr_id = ipoib_cm_tx_cookie(tx, tx->head);
	ipoib_cm_tx_slot(tx, tx->head)->skb = NULL;
	err = ib_post_send(tx->conn.qp, &wr, &bad);
	if (!err)
		tx->head++;
	spin_unlock_bh(&tx->lock);
	return !err;
}

/**
 * ipoib_cm_tx_drained() - has every send completed?
 * @tx: the connection
 *
 * Context: process.
 * Return: true if so.
 */
bool ipoib_cm_tx_drained(struct ipoib_cm_tx *tx)
{
	bool drained;

	spin_lock_bh(&tx->lock);
	drained = tx->head == tx->tail;
	spin_unlock_bh(&tx->lock);
	return drained;
}

/*
 * Take the oldest send out of the ring, if it is not younger than @seq. One that
 * has @completed leaves its entry of the CQ to others; the marker's stays.
 */
static bool ipoib_cm_tx_pop(struct ipoib_cm_tx *tx, u32 seq, bool completed,
			    struct ipoib_cm_tx_req *req)
{
	bool found;

	spin_lock_bh(&tx->lock);
	found = tx->head != tx->tail && (s32)(seq - tx->tail) >= 0;
	if (found) {
		*req = *ipoib_cm_tx_slot(tx, tx->tail);
		tx->tail++;
		if (completed && req->skb)
			ipoib_cm_tx_give_credit(tx);
	}
	spin_unlock_bh(&tx->lock);
	return found;
}

/**
 * ipoib_cm_tx_discard() - free what the QP, which is gone, did not complete
 * @tx: the connection
 *
 * The entries of the send CQ that its completions may still occupy become
 * credits again when the CQ has been seen empty.
 *
 * Context: process.
 */
void ipoib_cm_tx_discard(struct ipoib_cm_tx *tx)
{
	struct ipoib_cm_port *cm = &tx->conn.port->cm;
	struct ipoib_cm_tx_req req;
	u32 n = 0;

	while (ipoib_cm_tx_pop(tx, tx->head - 1, false, &req)) {
		n++;
		if (!req.skb)
			continue;
		ipoib_cm_unmap(tx->conn.port->ca, &req);
		dev_kfree_skb_any(req.skb);
	}
	atomic_add(tx->credits - n, &cm->send_credits);
	tx->credits = 0;
	spin_lock_bh(&cm->lock);
	cm->send_debt += n;
	spin_unlock_bh(&cm->lock);
	if (!n)
		return;
	local_bh_disable();
	napi_schedule(&cm->send_napi);
	local_bh_enable();
}

/* One connection less holds the queue; the last one wakes it. */
static void ipoib_cm_tx_release(struct ipoib_netdev *priv)
{
	/* Ordered; pairs with the barrier in ipoib_ud_tx_wake(). */
	if (!atomic_dec_and_test(&priv->cm.held))
		return;
	/* A datagram ring that is full wakes the queue when it is not. */
	if (ipoib_is_open(priv) && !ipoib_ud_tx_is_full(&priv->ud))
		netif_wake_queue(priv->dev);
}

/**
 * ipoib_cm_tx_wake() - let go of the transmit queue
 * @tx: the connection
 *
 * Context: any but hard interrupt; RCU read side.
 */
void ipoib_cm_tx_wake(struct ipoib_cm_tx *tx)
{
	struct ipoib_netdev *priv;
	bool stopped;

	priv = rcu_dereference(tx->conn.netdev);
	spin_lock_bh(&tx->lock);
	stopped = tx->stopped;
	tx->stopped = false;
	spin_unlock_bh(&tx->lock);
	if (stopped && priv)
		ipoib_cm_tx_release(priv);
}

/**
 * ipoib_cm_tx_stall_work() - no send of a full ring completed: release the queue
 * @work: of the connection
 *
 * Context: process.
 */
void ipoib_cm_tx_stall_work(struct work_struct *work)
{
	struct ipoib_cm_tx *tx = container_of(to_delayed_work(work),
					      struct ipoib_cm_tx, stall_work);

	rcu_read_lock();
	ipoib_cm_tx_wake(tx);
	rcu_read_unlock();
}

static void ipoib_cm_tx_count(struct ipoib_netdev *priv, unsigned int len,
			      enum ib_wc_status status)
{
	if (status == IB_WC_SUCCESS)
		ipoib_stat_packet(priv, IPOIB_STAT_tx_packets,
				  len - IPOIB_ENCAP_LEN);
	else
		ipoib_stat_inc(priv, IPOIB_STAT_tx_error_wc);
}

/* A completion stands for its send and for all older ones of the QP. */
static void ipoib_cm_tx_done(struct ipoib_cm_tx *tx, const struct ib_wc *wc,
			     int budget)
{
	struct ipoib_netdev *priv = rcu_dereference(tx->conn.netdev);
	struct ipoib_cm_tx_req req;
	bool wake, drained;

	while (ipoib_cm_tx_pop(tx, lower_32_bits(wc->wr_id), true, &req)) {
		if (!req.skb)
			continue;
		ipoib_cm_unmap(tx->conn.port->ca, &req);
		tx->conn.packets++;
		tx->conn.bytes += req.skb->len;
		if (priv)
			ipoib_cm_tx_count(priv, req.skb->len, wc->status);
		napi_consume_skb(req.skb, budget);
	}
	spin_lock_bh(&tx->lock);
	if (wc->status == IB_WC_SUCCESS)
		tx->progress = jiffies;
	wake = tx->stopped && tx->head - tx->tail <= tx->size / 2;
	drained = tx->state == IPOIB_CM_TX_FLUSH && tx->head == tx->tail;
	if (drained)
		mod_delayed_work(tx->conn.port->cm.reap_wq, &tx->work, 0);
	spin_unlock_bh(&tx->lock);
	WRITE_ONCE(tx->conn.used, jiffies);
	if (wake)
		ipoib_cm_tx_wake(tx);
	if (wc->status != IB_WC_SUCCESS &&
	    READ_ONCE(tx->state) == IPOIB_CM_TX_UP)
		ipoib_cm_tx_close(tx, BIT(IPOIB_CM_TX_F_FAILED));
}

/* Does the cookie name a send of this connection that is in flight? */
static bool ipoib_cm_tx_owns(struct ipoib_cm_tx *tx, u64 cookie)
{
	bool owns;

	spin_lock_bh(&tx->lock);
	owns = upper_32_bits(cookie) == tx->id &&
	       lower_32_bits(cookie) - tx->tail < tx->head - tx->tail;
	spin_unlock_bh(&tx->lock);
	return owns;
}

static void ipoib_cm_tx_wc(struct ipoib_port *port, const struct ib_wc *wc,
			   int budget)
{
	struct ipoib_cm_conn *conn = ipoib_cm_conn_find(&port->cm, wc->qp);

	if (unlikely(!conn || conn->role != IPOIB_CM_ACTIVE ||
		     !ipoib_cm_tx_owns(ipoib_cm_tx_of(conn), wc->wr_id)))
		ipoib_port_stat_inc(port, IPOIB_PORT_STAT_cm_bogus_wr_id);
	else
		ipoib_cm_tx_done(ipoib_cm_tx_of(conn), wc, budget);
}

static u32 ipoib_cm_send_debt(struct ipoib_cm_port *cm)
{
	return READ_ONCE(cm->send_debt);
}

/* The CQ was seen empty after @debt had been read: nothing occupies it now. */
static void ipoib_cm_send_settle(struct ipoib_cm_port *cm, u32 debt)
{
	if (!debt)
		return;
	spin_lock_bh(&cm->lock);
	cm->send_debt -= debt;
	spin_unlock_bh(&cm->lock);
	atomic_add(debt, &cm->send_credits);
}

/**
 * ipoib_cm_tx_napi() - poll the send CQ of a port
 * @napi: the poller
 * @budget: most completions to handle
 *
 * Context: NAPI.
 * Return: number of completions handled.
 */
int ipoib_cm_tx_napi(struct napi_struct *napi, int budget)
{
	struct ipoib_cm_port *cm = container_of(napi, struct ipoib_cm_port,
						send_napi);
	struct ipoib_port *port = container_of(cm, struct ipoib_port, cm);
	struct ib_wc wc[IPOIB_CM_TX_BATCH];
	u32 debt = ipoib_cm_send_debt(cm);
	int i, n, want, done = 0;

	rcu_read_lock();
	while (done < budget) {
		want = min(budget - done, IPOIB_CM_TX_BATCH);
		n = ib_poll_cq(cm->send_cq, want, wc);
		for (i = 0; i < n; i++)
			ipoib_cm_tx_wc(port, &wc[i], budget);
		done += max(n, 0);
		if (n < want)
			break;
	}
	rcu_read_unlock();

	if (done == budget)
		return done;
	ipoib_cm_send_settle(cm, debt);
	if (napi_complete_done(napi, done) &&
	    ib_req_notify_cq(cm->send_cq, IB_CQ_NEXT_COMP |
			     IB_CQ_REPORT_MISSED_EVENTS) > 0)
		napi_schedule(napi);
	return done;
}
