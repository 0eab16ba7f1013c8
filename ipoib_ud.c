// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Datagram data path. A cookie is (generation << 32 | slot): it is looked up,
 * checked and never followed. Receive buffers belong to the receive NAPI, send
 * slots to the holder of the transmit queue lock until they are posted and to
 * the send NAPI from then on.
 */
#include <linux/ip.h>
#include <linux/log2.h>
#include <linux/tcp.h>
#include <net/tcp.h>

#include "ipoib.h"
#include "ipoib_cm_conn.h"

#define IPOIB_UD_STOP_TIMEOUT	HZ
#define IPOIB_UD_RX_HEAD	256u	/* octets of a long buffer that are linear */
#define IPOIB_UD_REFILL_DELAY	msecs_to_jiffies(10)

static u64 ipoib_ud_cookie(const struct ipoib_ud *ud, unsigned int slot)
{
	return (u64)ud->generation << 32 | slot;
}

/* The slot that a cookie names, or -1. */
static int ipoib_ud_slot(const struct ipoib_ud *ud, u64 cookie,
			 unsigned int size)
{
	u32 slot = lower_32_bits(cookie);

	if (upper_32_bits(cookie) != ud->generation || slot >= size)
		return -1;
	return slot;
}

static bool ipoib_ud_is_drained(const struct ipoib_ud *ud)
{
	return READ_ONCE(ud->rx_nidle) == ud->rx_size &&
	       READ_ONCE(ud->tx_head) == READ_ONCE(ud->tx_tail);
}

/* A NAPI of a CQ is through: arm the CQ, and look again if it was late. */
static void ipoib_ud_rearm(struct napi_struct *napi, struct ib_cq *cq)
{
	if (ib_req_notify_cq(cq, IB_CQ_NEXT_COMP |
			     IB_CQ_REPORT_MISSED_EVENTS) > 0)
		napi_schedule(napi);
}

/* ---- receive ---- */

/**
 * ipoib_ud_deliver() - give a received packet to the stack
 * @priv: the interface
 * @napi: the NAPI that merges packets, or NULL for none
 * @skb: starts with the IPoIB header and has at least IPOIB_PSEUDO_LEN octets
 *	in front of it; pkt_type and checksum state are set; consumed
 *
 * Context: softirq, or BH off.
 */
void ipoib_ud_deliver(struct ipoib_netdev *priv, struct napi_struct *napi,
		      struct sk_buff *skb)
{
	const struct ipoib_hdr *hdr;

	if (!pskb_may_pull(skb, IPOIB_ENCAP_LEN)) {
		ipoib_stat_inc(priv, IPOIB_STAT_rx_drop_runt);
		dev_kfree_skb_any(skb);
		return;
	}
	hdr = (const struct ipoib_hdr *)skb->data;
	if (!ipoib_proto_known(hdr->proto)) {
		ipoib_stat_inc(priv, IPOIB_STAT_rx_drop_proto);
		dev_kfree_skb_any(skb);
		return;
	}
	skb->protocol = hdr->proto;
	skb->dev = priv->dev;
	/* Packet sockets see a link-layer header whose address is unknown. */
	memset(skb_push(skb, IPOIB_PSEUDO_LEN), 0, IPOIB_PSEUDO_LEN);
	skb_reset_mac_header(skb);
	skb_pull(skb, IPOIB_HARD_LEN);

	ipoib_stat_packet(priv, IPOIB_STAT_rx_packets, skb->len);
	if (skb->pkt_type != PACKET_HOST)
		ipoib_stat_inc(priv, IPOIB_STAT_rx_multicast);
	if (napi)
		napi_gro_receive(napi, skb);
	else
		netif_receive_skb(skb);
}

/* Multicast of our own that the HCA or a switch looped back. */
static bool ipoib_ud_is_own(struct ipoib_netdev *priv, const struct ib_wc *wc,
			    const struct ib_grh *grh)
{
	if (wc->slid != priv->lid || wc->src_qp != priv->ud.qp->qp_num)
		return false;
	return !(wc->wc_flags & IB_WC_GRH) ||
	       !memcmp(&grh->sgid, &priv->gid, sizeof(grh->sgid));
}

static u8 ipoib_ud_pkt_type(const struct ipoib_netdev *priv,
			    const struct ib_wc *wc, const struct ib_grh *grh)
{
	if (!(wc->wc_flags & IB_WC_GRH) || grh->dgid.raw[0] != 0xff)
		return PACKET_HOST;
	if (!memcmp(&grh->dgid, priv->dev->broadcast + 4, sizeof(grh->dgid)))
		return PACKET_BROADCAST;
	return PACKET_MULTICAST;
}

/* @skb holds what @wc is about: GRH, IPoIB header, payload. */
static void ipoib_ud_receive(struct ipoib_netdev *priv, struct sk_buff *skb,
			     const struct ib_wc *wc)
{
	const struct ib_grh *grh = (const struct ib_grh *)skb->data;

	if (ipoib_ud_is_own(priv, wc, grh)) {
		ipoib_stat_inc(priv, IPOIB_STAT_rx_drop_own);
		dev_kfree_skb_any(skb);
		return;
	}
	skb->pkt_type = ipoib_ud_pkt_type(priv, wc, grh);
	if (skb->pkt_type != PACKET_HOST)
		ipoib_path_check_slid(priv, &grh->sgid, wc->slid);
	if (priv->dev->features & NETIF_F_RXCSUM &&
	    wc->wc_flags & IB_WC_IP_CSUM_OK)
		skb->ip_summed = CHECKSUM_UNNECESSARY;
	skb_pull(skb, sizeof(*grh));
	ipoib_ud_deliver(priv, &priv->ud.recv_napi, skb);
}

/* Take the packet out of @slot if another buffer can stand in for it. */
static void ipoib_ud_rx_success(struct ipoib_netdev *priv,
				struct ipoib_ud_rx *slot,
				const struct ib_wc *wc)
{
	struct ipoib_ud_rx fresh = {};
	struct sk_buff *skb;

	if (wc->byte_len < IPOIB_UD_HEAD_LEN ||
	    wc->byte_len > priv->ud.buf_len) {
		ipoib_stat_inc(priv, IPOIB_STAT_rx_drop_runt);
		return;
	}
	if (!ipoib_ud_rx_paged(&priv->ud, wc->byte_len)) {
		fresh.page = slot->page;
		fresh.page_dma = slot->page_dma;
	}
	if (ipoib_ud_rx_alloc(priv, &fresh, GFP_ATOMIC)) {
		ipoib_stat_inc(priv, IPOIB_STAT_rx_drop_nomem);
		return;
	}
	skb = ipoib_ud_rx_take(priv, slot, wc->byte_len);
	*slot = fresh;
	ipoib_ud_receive(priv, skb, wc);
}

static void ipoib_ud_rx_done(struct ipoib_netdev *priv, const struct ib_wc *wc)
{
	struct ipoib_ud *ud = &priv->ud;
	int n = ipoib_ud_slot(ud, wc->wr_id, ud->rx_size);
	struct ipoib_ud_rx *slot;

	if (n < 0 || !ud->rx[n].posted) {
		ipoib_port_stat_inc(priv->port, IPOIB_PORT_STAT_cm_bogus_wr_id);
		return;
	}
	slot = &ud->rx[n];
	slot->posted = false;
	if (wc->status == IB_WC_SUCCESS)
		ipoib_ud_rx_success(priv, slot, wc);
	else if (wc->status != IB_WC_WR_FLUSH_ERR)
		ipoib_stat_inc(priv, IPOIB_STAT_rx_error_wc);
	ud->rx_idle[ud->rx_nidle] = n;
	WRITE_ONCE(ud->rx_nidle, ud->rx_nidle + 1);
}

static void ipoib_ud_rx_fill_wr(struct ipoib_netdev *priv, unsigned int n,
				unsigned int id)
{
	struct ipoib_ud *ud = &priv->ud;
	const struct ipoib_ud_rx *slot = &ud->rx[id];
	u32 lkey = priv->port->pd->local_dma_lkey;
	struct ib_sge *sge = ud->recv_sge[n];

	sge[0] = (struct ib_sge){ slot->dma, ud->head_len, lkey };
	if (slot->page)
		sge[1] = (struct ib_sge){ slot->page_dma,
					  ud->buf_len - ud->head_len, lkey };
	ud->recv_wr[n].wr_id = ipoib_ud_cookie(ud, id);
	ud->recv_wr[n].sg_list = sge;
	ud->recv_wr[n].num_sge = slot->page ? 2 : 1;
	ud->recv_wr[n].next = NULL;
	if (n)
		ud->recv_wr[n - 1].next = &ud->recv_wr[n];
}

/* Build the chain of up to IPOIB_UD_BATCH receives; returns its length. */
static unsigned int ipoib_ud_rx_chain(struct ipoib_netdev *priv, gfp_t gfp)
{
	struct ipoib_ud *ud = &priv->ud;
	unsigned int n;

	for (n = 0; n < IPOIB_UD_BATCH && n < ud->rx_nidle; n++) {
		unsigned int id = ud->rx_idle[ud->rx_nidle - 1 - n];
		struct ipoib_ud_rx *slot = &ud->rx[id];

		if (!slot->skb && ipoib_ud_rx_alloc(priv, slot, gfp))
			break;
		ipoib_ud_rx_fill_wr(priv, n, id);
	}
	return n;
}

/* Post one chain. Return: how many receives the HCA took. */
static unsigned int ipoib_ud_rx_post(struct ipoib_netdev *priv, unsigned int n)
{
	struct ipoib_ud *ud = &priv->ud;
	const struct ib_recv_wr *bad;
	unsigned int i;

	for (i = 0; i < n; i++)
		ud->rx[ud->rx_idle[ud->rx_nidle - 1 - i]].posted = true;
	if (ib_post_recv(ud->qp, ud->recv_wr, &bad)) {
		for (i = bad - ud->recv_wr; i < n; i++)
			ud->rx[ud->rx_idle[ud->rx_nidle - 1 - i]].posted = false;
		n = bad - ud->recv_wr;
	}
	WRITE_ONCE(ud->rx_nidle, ud->rx_nidle - n);
	return n;
}

/* Post every idle slot, in chains taken from the top of the stack. */
static void ipoib_ud_rx_fill(struct ipoib_netdev *priv, gfp_t gfp)
{
	struct ipoib_ud *ud = &priv->ud;

	while (ud->rx_nidle) {
		unsigned int want = ipoib_ud_rx_chain(priv, gfp);

		if (!want || ipoib_ud_rx_post(priv, want) < want)
			break;
	}
}

/* The only NAPI run without a completion: some slots could not be posted. */
static void ipoib_ud_refill_work(struct work_struct *work)
{
	struct ipoib_ud *ud = container_of(work, struct ipoib_ud,
					   refill_work.work);

	ipoib_napi_kick(&ud->recv_napi);
}

static int ipoib_ud_recv_poll(struct napi_struct *napi, int budget)
{
	struct ipoib_ud *ud = container_of(napi, struct ipoib_ud, recv_napi);
	struct ipoib_netdev *priv = container_of(ud, struct ipoib_netdev, ud);
	int done = 0, want, got, i;

	while (done < budget) {
		want = min(budget - done, IPOIB_UD_BATCH);
		got = ib_poll_cq(ud->recv_cq, want, ud->recv_wc);
		for (i = 0; i < got; i++)
			ipoib_ud_rx_done(priv, &ud->recv_wc[i]);
		if (!READ_ONCE(ud->flushing))
			ipoib_ud_rx_fill(priv, GFP_ATOMIC);
		done += max(got, 0);
		if (got < want)
			break;
	}
	if (READ_ONCE(ud->flushing))
		wake_up(&ud->drained);
	else if (ud->rx_nidle)
		queue_delayed_work(priv->wq, &ud->refill_work,
				   IPOIB_UD_REFILL_DELAY);
	if (done < budget && napi_complete_done(napi, done))
		ipoib_ud_rearm(napi, ud->recv_cq);
	return done;
}

/* ---- send ---- */

static void ipoib_ud_tx_drop(struct ipoib_netdev *priv, struct sk_buff *skb,
			     enum ipoib_stat reason)
{
	ipoib_stat_inc(priv, reason);
	dev_kfree_skb_any(skb);
}

/* Make @skb fit the HCA's scatter/gather list. */
static bool ipoib_ud_tx_fits(struct ipoib_netdev *priv, struct sk_buff *skb,
			     unsigned int skip)
{
	unsigned int nsge = skb_shinfo(skb)->nr_frags +
			    (skb_headlen(skb) > skip);

	if (nsge <= priv->ud.max_send_sge)
		return true;
	ipoib_stat_inc(priv, IPOIB_STAT_tx_linearized);
	return !skb_linearize(skb);
}

static void ipoib_ud_tx_fill(struct ipoib_netdev *priv,
			     struct ipoib_ud_tx *slot, unsigned int nsge,
			     u32 qpn)
{
	struct ib_ud_wr *wr = &priv->ud.send_wr;
	struct sk_buff *skb = slot->skb;
	unsigned int i;

	for (i = 0; i < nsge; i++)
		priv->ud.send_sge[i].lkey = priv->port->pd->local_dma_lkey;
	memset(wr, 0, sizeof(*wr));
	wr->wr.wr_id = ipoib_ud_cookie(&priv->ud, slot - priv->ud.tx);
	wr->wr.sg_list = priv->ud.send_sge;
	wr->wr.num_sge = nsge;
	wr->wr.opcode = IB_WR_SEND;
	wr->wr.send_flags = IB_SEND_SIGNALED;
	if (skb->ip_summed == CHECKSUM_PARTIAL)
		wr->wr.send_flags |= IB_SEND_IP_CSUM;
	wr->ah = slot->ah->ah;
	wr->remote_qpn = qpn;
	wr->remote_qkey = priv->qkey;
	if (skb_is_gso(skb)) {
		wr->wr.opcode = IB_WR_LSO;
		wr->header = skb->data;
		wr->hlen = slot->skip;
		wr->mss = skb_shinfo(skb)->gso_size;
	}
}

/* Stop the queue if the ring is full; a completion in between restarts it. */
static void ipoib_ud_tx_check_full(struct ipoib_netdev *priv)
{
	struct ipoib_ud *ud = &priv->ud;

	if (!ipoib_ud_tx_is_full(ud))
		return;
	netif_stop_queue(priv->dev);
	ipoib_stat_inc(priv, IPOIB_STAT_tx_queue_stopped);
	/* Pairs with the barrier in ipoib_ud_tx_wake(). */
	smp_mb();
	if (ud->tx_head - READ_ONCE(ud->tx_tail) <= ud->tx_size / 2 &&
	    !atomic_read(&priv->cm.held))
		netif_start_queue(priv->dev);
}

static int ipoib_ud_tx_post(struct ipoib_netdev *priv,
			    struct ipoib_ud_tx *slot, u32 qpn)
{
	struct ipoib_ud *ud = &priv->ud;
	const struct ib_send_wr *bad;
	int nsge, err;

	nsge = ipoib_ud_tx_map(priv, slot);
	if (nsge < 0) {
		ipoib_stat_inc(priv, IPOIB_STAT_tx_drop_map);
		return nsge;
	}
	ipoib_ud_tx_fill(priv, slot, nsge, qpn);
	/* The send may complete before ib_post_send() returns. */
	slot->len = slot->skb->len;
	WRITE_ONCE(ud->tx_head, ud->tx_head + 1);
	netdev_sent_queue(priv->dev, slot->len);
	err = ib_post_send(ud->qp, &ud->send_wr.wr, &bad);
	if (err) {
		ipoib_ud_tx_unmap(priv, slot);
		ipoib_stat_inc(priv, IPOIB_STAT_tx_error_post);
	}
	return err;
}

/* Take a packet that was not sent out of its slot. */
static void ipoib_ud_tx_abort(struct ipoib_netdev *priv,
			      struct ipoib_ud_tx *slot, bool filled)
{
	struct sk_buff *skb = slot->skb;

	ipoib_ah_put(slot->ah);
	slot->ah = NULL;
	slot->skb = NULL;
	dev_kfree_skb_any(skb);
	if (!filled)
		return;
	/* Only the send NAPI frees slots and settles the queue's limits. */
	smp_store_release(&slot->done, true);
	ipoib_napi_kick(&priv->ud.send_napi);
}

/**
 * ipoib_ud_send() - send a packet along an address handle
 * @priv: the interface
 * @skb: starts with the IPoIB header; consumed
 * @ah: the handle; the send takes a reference of its own
 * @qpn: destination QP
 *
 * Context: transmit queue lock held; RCU read section if the caller holds no
 * reference to @ah.
 */
void ipoib_ud_send(struct ipoib_netdev *priv, struct sk_buff *skb,
		   struct ipoib_ah *ah, u32 qpn)
{
	struct ipoib_ud *ud = &priv->ud;
	struct ipoib_ud_tx *slot = &ud->tx[ud->tx_head & (ud->tx_size - 1)];
	unsigned int head, skip = 0;

	if (unlikely(!ipoib_is_open(priv) || READ_ONCE(ud->flushing)))
		return ipoib_ud_tx_drop(priv, skb, IPOIB_STAT_tx_drop_down);
	/* The queue is stopped before: only a wake-up by others gets here. */
	if (unlikely(ipoib_ud_tx_is_full(ud))) {
		ipoib_ud_tx_check_full(priv);
		return ipoib_ud_tx_drop(priv, skb, IPOIB_STAT_tx_drop_queue);
	}
	if (skb_is_gso(skb))
		skip = skb_tcp_all_headers(skb);
	if (unlikely(skip > skb_headlen(skb)))
		return ipoib_ud_tx_drop(priv, skb, IPOIB_STAT_tx_drop_header);
	if (unlikely(!ipoib_ud_tx_fits(priv, skb, skip)))
		return ipoib_ud_tx_drop(priv, skb, IPOIB_STAT_tx_drop_nomem);
	if (unlikely(!ipoib_ah_tryget(ah)))
		return ipoib_ud_tx_drop(priv, skb, IPOIB_STAT_tx_drop_path);

	skb_dst_drop(skb);
	nf_reset_ct(skb);
	slot->skb = skb;
	slot->ah = ah;
	slot->skip = skip;
	head = ud->tx_head;
	if (unlikely(ipoib_ud_tx_post(priv, slot, qpn)))
		ipoib_ud_tx_abort(priv, slot, ud->tx_head != head);
	ipoib_ud_tx_check_full(priv);
}

static void ipoib_ud_tx_wake(struct ipoib_netdev *priv)
{
	struct ipoib_ud *ud = &priv->ud;

	/* Pairs with ipoib_ud_tx_check_full() and ipoib_cm_tx_release(). */
	smp_mb();
	if (netif_queue_stopped(priv->dev) && ipoib_is_open(priv) &&
	    !atomic_read(&priv->cm.held) &&
	    READ_ONCE(ud->tx_head) - ud->tx_tail <= ud->tx_size / 2)
		netif_wake_queue(priv->dev);
}

static void ipoib_ud_tx_done(struct ipoib_netdev *priv, const struct ib_wc *wc,
			     int budget)
{
	struct ipoib_ud *ud = &priv->ud;
	int n = ipoib_ud_slot(ud, wc->wr_id, ud->tx_size);
	struct ipoib_ud_tx *slot;

	if (n < 0 || !ud->tx[n].skb || ud->tx[n].done) {
		ipoib_port_stat_inc(priv->port, IPOIB_PORT_STAT_cm_bogus_wr_id);
		return;
	}
	slot = &ud->tx[n];
	if (wc->status == IB_WC_SUCCESS) {
		ipoib_stat_packet(priv, IPOIB_STAT_tx_packets,
				  slot->len - IPOIB_ENCAP_LEN);
	} else if (wc->status != IB_WC_WR_FLUSH_ERR) {
		ipoib_stat_inc(priv, IPOIB_STAT_tx_error_wc);
		ipoib_warn(priv, "send failed: %s\n",
			   ib_wc_status_msg(wc->status));
		queue_work(priv->wq, &ud->recover_work);
	}
	ipoib_ud_tx_unmap(priv, slot);
	ipoib_ah_put(slot->ah);
	napi_consume_skb(slot->skb, budget);
	slot->ah = NULL;
	slot->skb = NULL;
	slot->done = true;
}

/* Free the slots that are done, in the order in which they were filled. */
static void ipoib_ud_tx_advance(struct ipoib_netdev *priv)
{
	struct ipoib_ud *ud = &priv->ud;
	unsigned int tail = ud->tx_tail;
	unsigned int octets = 0;

	while (tail != READ_ONCE(ud->tx_head)) {
		struct ipoib_ud_tx *slot = &ud->tx[tail & (ud->tx_size - 1)];

		/* Pairs with the release in ipoib_ud_tx_abort(). */
		if (!smp_load_acquire(&slot->done))
			break;
		octets += slot->len;
		slot->done = false;
		tail++;
	}
	if (tail == ud->tx_tail)
		return;
	netdev_completed_queue(priv->dev, tail - ud->tx_tail, octets);
	/* The sender, which reads it again, may fill the slots from now on. */
	smp_store_release(&ud->tx_tail, tail);
	ipoib_ud_tx_wake(priv);
}

static int ipoib_ud_send_poll(struct napi_struct *napi, int budget)
{
	struct ipoib_ud *ud = container_of(napi, struct ipoib_ud, send_napi);
	struct ipoib_netdev *priv = container_of(ud, struct ipoib_netdev, ud);
	int done = 0, want, got, i;

	do {
		want = clamp(budget - done, 1, IPOIB_UD_BATCH);
		got = ib_poll_cq(ud->send_cq, want, ud->send_wc);
		for (i = 0; i < got; i++)
			ipoib_ud_tx_done(priv, &ud->send_wc[i], budget);
		done += max(got, 0);
	} while (got == want && done < budget);

	ipoib_ud_tx_advance(priv);
	if (READ_ONCE(ud->flushing))
		wake_up(&ud->drained);
	if (done < budget && napi_complete_done(napi, done))
		ipoib_ud_rearm(napi, ud->send_cq);
	return min(done, budget);
}

/* ---- open and stop ---- */

/**
 * ipoib_ud_open() - bring the UD QP to RTS and post receives
 * @priv: the interface; its P_Key index is valid
 *
 * Context: rtnl held.
 * Return: 0 or a negative error; nothing is left behind then.
 */
int ipoib_ud_open(struct ipoib_netdev *priv)
{
	struct ipoib_ud *ud = &priv->ud;
	int err;

	if (ud->stuck) {
		err = ipoib_qp_to_reset(priv);
		if (err)
			return err;
		ipoib_ud_rings_reclaim(priv);
		ud->stuck = false;
	}
	ud->generation++;
	WRITE_ONCE(ud->flushing, false);
	netdev_reset_queue(priv->dev);
	err = ipoib_qp_to_rts(priv);
	if (err) {
		/* It may be in any state: the next open begins with RESET. */
		ud->stuck = true;
		return err;
	}
	ipoib_ud_rx_fill(priv, GFP_KERNEL);
	napi_enable(&ud->recv_napi);
	napi_enable(&ud->send_napi);
	if (ud->rx_nidle == ud->rx_size) {
		ipoib_ud_stop(priv);
		return -ENOMEM;
	}
	/* The first poll arms the CQs. */
	ipoib_napi_kick(&ud->recv_napi);
	ipoib_napi_kick(&ud->send_napi);
	return 0;
}

/**
 * ipoib_ud_poke() - look for completions whose notification was lost
 * @priv: the interface, whose transmit queue is said to be stuck
 *
 * Context: process, under rtnl.
 * Return: true if the queue moves again.
 */
bool ipoib_ud_poke(struct ipoib_netdev *priv)
{
	struct netdev_queue *txq = netdev_get_tx_queue(priv->dev, 0);
	struct ipoib_ud *ud = &priv->ud;
	unsigned int tail = READ_ONCE(ud->tx_tail);

	ASSERT_RTNL();
	if (!ipoib_is_open(priv))
		return false;
	ipoib_napi_kick(&ud->recv_napi);
	ipoib_napi_kick(&ud->send_napi);
	napi_synchronize(&ud->send_napi);
	return READ_ONCE(ud->tx_tail) != tail || !netif_xmit_stopped(txq);
}

/* Let the HCA give everything back; returns when it has, or at the deadline. */
static void ipoib_ud_drain(struct ipoib_netdev *priv)
{
	struct ipoib_ud *ud = &priv->ud;

	if (READ_ONCE(priv->port->dead) || ipoib_qp_to_error(priv))
		return;
	if (!wait_event_timeout(ud->drained, ipoib_ud_is_drained(ud),
				IPOIB_UD_STOP_TIMEOUT))
		ipoib_warn(priv, "%u receives and %u sends not flushed\n",
			   ud->rx_size - ud->rx_nidle,
			   ud->tx_head - ud->tx_tail);
}

/**
 * ipoib_ud_stop() - take everything back from the HCA
 * @priv: the interface; its transmit queue is disabled
 *
 * Waits at most IPOIB_UD_STOP_TIMEOUT for flush completions, and for the HCA's
 * own commands. Buffers are freed only when the QP is in RESET; if it does not
 * get there they are kept for the next open or for the destruction of the QP.
 *
 * Context: rtnl held.
 */
void ipoib_ud_stop(struct ipoib_netdev *priv)
{
	struct ipoib_ud *ud = &priv->ud;
	int err;

	WRITE_ONCE(ud->flushing, true);
	cancel_work_sync(&ud->recover_work);
	ipoib_ud_drain(priv);
	napi_disable(&ud->send_napi);
	napi_disable(&ud->recv_napi);
	cancel_delayed_work_sync(&ud->refill_work);

	/* A dead HCA gives the buffers back when the QP is destroyed. */
	err = READ_ONCE(priv->port->dead) ? -EIO : ipoib_qp_to_reset(priv);
	if (err && !READ_ONCE(priv->port->dead))
		ipoib_warn(priv, "datagram QP not reset: %d\n", err);
	ud->stuck = err;
	if (!err || ipoib_ud_is_drained(ud))
		ipoib_ud_rings_reclaim(priv);
}

static void ipoib_ud_set_sizes(struct ipoib_netdev *priv)
{
	const struct ib_device_attr *attrs = &priv->port->ca->attrs;
	unsigned int max = min(attrs->max_qp_wr, attrs->max_cqe - 1);
	struct ipoib_ud *ud = &priv->ud;

	max = rounddown_pow_of_two(max_t(unsigned int, max, 2));
	ud->rx_size = min3(ipoib_recvq_size, max, IPOIB_MAX_QUEUE_SIZE);
	ud->tx_size = min3(ipoib_sendq_size, max, IPOIB_MAX_QUEUE_SIZE);
	ud->buf_len = priv->port->max_mtu + sizeof(struct ib_grh);
	ud->head_len = ud->buf_len;
	if (ud->buf_len > SKB_WITH_OVERHEAD(PAGE_SIZE) - NET_SKB_PAD &&
	    attrs->max_recv_sge >= IPOIB_UD_RX_SGE)
		ud->head_len = IPOIB_UD_RX_HEAD;
	/* One page takes the rest. */
	BUILD_BUG_ON(IPOIB_UD_RX_HEAD + PAGE_SIZE < 4096 + sizeof(struct ib_grh));
}

/**
 * ipoib_ud_init() - make the rings, the CQs and the QP
 * @priv: the interface
 *
 * Context: process context, before the netdev is registered.
 * Return: 0 or a negative error.
 */
int ipoib_ud_init(struct ipoib_netdev *priv)
{
	struct ipoib_ud *ud = &priv->ud;
	int err;

	ipoib_ud_set_sizes(priv);
	init_waitqueue_head(&ud->drained);
	INIT_DELAYED_WORK(&ud->refill_work, ipoib_ud_refill_work);
	INIT_WORK(&ud->recover_work, ipoib_qp_recover_work);
	ipoib_ah_init(priv);
	err = ipoib_ud_rings_alloc(priv);
	if (err)
		return err;
	err = ipoib_qp_create(priv);
	if (err) {
		ipoib_ud_rings_free(priv);
		return err;
	}
	netif_napi_add(priv->dev, &ud->recv_napi, ipoib_ud_recv_poll);
	netif_napi_add_tx(priv->dev, &ud->send_napi, ipoib_ud_send_poll);
	return 0;
}

/**
 * ipoib_ud_uninit() - undo ipoib_ud_init()
 * @priv: the interface; it is stopped, and its neighbours, paths and groups
 *	are gone
 *
 * If the HCA does not give the QP back, its buffers are leaked, for it may still
 * write to them, and so is @priv, which its events and those of the CQs name.
 *
 * Context: process context.
 */
void ipoib_ud_uninit(struct ipoib_netdev *priv)
{
	struct ipoib_cm_port *cm = &priv->port->cm;
	struct ipoib_ud *ud = &priv->ud;
	bool leak;
	int err;

	cancel_work_sync(&ud->recover_work);
	netif_napi_del(&ud->send_napi);
	netif_napi_del(&ud->recv_napi);
	err = ipoib_qp_destroy(priv);
	leak = err && !ipoib_ud_is_drained(ud);
	if (err) {
		spin_lock_bh(&cm->lock);
		ipoib_cm_keep(cm);
		spin_unlock_bh(&cm->lock);
		priv->dev->needs_free_netdev = false;
	}
	if (!leak) {
		ipoib_ud_rings_reclaim(priv);
		ipoib_ud_rings_free(priv);
	}
	if (err)
		netdev_err(priv->dev, "datagram QP and CQs not destroyed: %d\n", err);
	ipoib_ah_flush(priv);
	WARN_ON_ONCE(!leak && atomic_read(&ud->nahs));
}
