// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Neighbours. An entry is found under RCU for each unicast packet. It sends by
 * its address handle or its connection, or keeps the packet until its path or
 * its connection is decided. Entries are dropped when they have not been used
 * for a while; a peer that moved has another link-layer address and so another
 * entry.
 */
#include <linux/slab.h>
#include <net/gso.h>

#include "ipoib.h"

#define IPOIB_NEIGH_GC_PERIOD	(30 * HZ)
#define IPOIB_NEIGH_IDLE	(60 * HZ)
#define IPOIB_NEIGH_MAX_BACKOFF	3	/* 2^3 seconds */
#define IPOIB_NEIGH_CM_LASTED	HZ	/* up for that long: to fail is no habit */
#define IPOIB_NEIGH_CM_REFUSALS	4	/* in a row, 3 seconds: it means it */
#define IPOIB_NEIGH_CM_PATIENCE	(30 * HZ) /* with a peer that is away */

static const struct rhashtable_params ipoib_neigh_params = {
	.key_len = INFINIBAND_ALEN,
	.key_offset = offsetof(struct ipoib_neigh, lladdr),
	.head_offset = offsetof(struct ipoib_neigh, node),
	.max_size = 1 << 17,
	.automatic_shrinking = true,
};

/**
 * ipoib_neigh_put() - drop a reference
 * @neigh: the neighbour
 *
 * Context: any.
 */
void ipoib_neigh_put(struct ipoib_neigh *neigh)
{
	if (refcount_dec_and_test(&neigh->ref))
		kfree_rcu(neigh, rcu);
}

static struct ipoib_neigh *ipoib_neigh_create(struct ipoib_netdev *priv,
					      const u8 *lladdr)
{
	struct ipoib_neigh *neigh, *other;

	neigh = kzalloc(sizeof(*neigh), GFP_ATOMIC);
	if (!neigh)
		return NULL;
	refcount_set(&neigh->ref, 1);
	neigh->priv = priv;
	memcpy(neigh->lladdr, lladdr, INFINIBAND_ALEN);
	INIT_LIST_HEAD(&neigh->path_node);
	spin_lock_init(&neigh->lock);
	__skb_queue_head_init(&neigh->queue);
	neigh->used = jiffies;
	other = rhashtable_lookup_get_insert_fast(&priv->neighs.hash,
						  &neigh->node,
						  ipoib_neigh_params);
	if (!other)
		return neigh;
	kfree(neigh);
	return IS_ERR(other) ? NULL : other;
}

/* Take @neigh, which is out of the table, apart and drop the table's reference. */
static void ipoib_neigh_destroy(struct ipoib_neigh *neigh)
{
	struct ipoib_netdev *priv = neigh->priv;
	struct sk_buff_head queue;
	struct ipoib_cm_tx *tx;
	struct ipoib_ah *ah;

	ipoib_path_detach(neigh);
	__skb_queue_head_init(&queue);
	/* The connection may end by itself; it is not freed in this section. */
	rcu_read_lock();
	spin_lock_bh(&neigh->lock);
	neigh->dead = true;
	ah = rcu_replace_pointer(neigh->ah, NULL, lockdep_is_held(&neigh->lock));
	tx = rcu_replace_pointer(neigh->tx, NULL, lockdep_is_held(&neigh->lock));
	skb_queue_splice_init(&neigh->queue, &queue);
	spin_unlock_bh(&neigh->lock);

	if (tx)
		ipoib_cm_tx_detach(tx);
	rcu_read_unlock();
	ipoib_ah_put(ah);
	ipoib_stat_add(priv, IPOIB_STAT_tx_drop_down, skb_queue_len(&queue));
	__skb_queue_purge(&queue);
	ipoib_neigh_put(neigh);
}

/* Drop the neighbours that have not been used for @idle jiffies. */
static void ipoib_neigh_drop_idle(struct ipoib_netdev *priv, unsigned long idle)
{
	struct ipoib_neigh *neigh, *next;
	struct rhashtable_iter iter;
	LIST_HEAD(drop);

	rhashtable_walk_enter(&priv->neighs.hash, &iter);
	rhashtable_walk_start(&iter);
	while ((neigh = rhashtable_walk_next(&iter))) {
		if (IS_ERR(neigh) ||
		    time_before(jiffies, READ_ONCE(neigh->used) + idle))
			continue;
		if (!rhashtable_remove_fast(&priv->neighs.hash, &neigh->node,
					    ipoib_neigh_params))
			list_add(&neigh->flush_node, &drop);
	}
	rhashtable_walk_stop(&iter);
	rhashtable_walk_exit(&iter);

	list_for_each_entry_safe(neigh, next, &drop, flush_node)
		ipoib_neigh_destroy(neigh);
}

static void ipoib_neigh_gc_work(struct work_struct *work)
{
	struct ipoib_netdev *priv = container_of(work, struct ipoib_netdev,
						 neighs.gc_work.work);

	ipoib_neigh_drop_idle(priv, IPOIB_NEIGH_IDLE);
	queue_delayed_work(priv->wq, &priv->neighs.gc_work,
			   IPOIB_NEIGH_GC_PERIOD);
}

/**
 * ipoib_neigh_resend() - send packets that waited
 * @priv: the interface
 * @ready: packets with their pseudo header; empty on return
 *
 * Context: BH on, or softirq outside of a transmit of this interface; the
 * netdev must stay alive, by a RCU read section or otherwise.
 */
void ipoib_neigh_resend(struct ipoib_netdev *priv, struct sk_buff_head *ready)
{
	struct sk_buff *skb;

	while ((skb = __skb_dequeue(ready))) {
		skb->dev = priv->dev;
		dev_queue_xmit(skb);
	}
}

/* Move the queue of @neigh to @ready, with the pseudo header put back. */
static void ipoib_neigh_take_queue(struct ipoib_neigh *neigh,
				   struct sk_buff_head *ready)
{
	struct sk_buff *skb;

	lockdep_assert_held(&neigh->lock);
	while ((skb = __skb_dequeue(&neigh->queue))) {
		memcpy(skb_push(skb, IPOIB_PSEUDO_LEN), neigh->lladdr,
		       IPOIB_PSEUDO_LEN);
		__skb_queue_tail(ready, skb);
	}
}

/**
 * ipoib_neigh_path_done() - the path of a neighbour changed
 * @neigh: the neighbour
 * @ah: the new address handle; a reference is taken; NULL with @err
 * @err: 0; else the packets that wait are dropped
 * @ready: out: packets to be sent with ipoib_neigh_resend() after the lock
 *	is dropped; NULL: they stay in the queue
 *
 * Context: lock of the path table held.
 */
void ipoib_neigh_path_done(struct ipoib_neigh *neigh, struct ipoib_ah *ah,
			   int err, struct sk_buff_head *ready)
{
	struct ipoib_ah *old;

	lockdep_assert_held(&neigh->priv->paths.lock);
	spin_lock(&neigh->lock);
	if (ah)
		ipoib_ah_get(ah);
	old = rcu_replace_pointer(neigh->ah, ah, lockdep_is_held(&neigh->lock));
	if (!err && ready) {
		ipoib_neigh_take_queue(neigh, ready);
	} else if (err) {
		ipoib_stat_add(neigh->priv, IPOIB_STAT_tx_drop_path,
			       skb_queue_len(&neigh->queue));
		__skb_queue_purge(&neigh->queue);
	}
	spin_unlock(&neigh->lock);
	ipoib_ah_put(old);
}

/* ---- transmit ---- */

static void ipoib_neigh_drop(struct ipoib_netdev *priv, struct sk_buff *skb,
			     enum ipoib_stat reason)
{
	ipoib_stat_inc(priv, reason);
	dev_kfree_skb_any(skb);
}

static unsigned int ipoib_neigh_ud_mtu(const struct ipoib_netdev *priv,
				       const struct ipoib_ah *ah)
{
	return min(ah->mtu, READ_ONCE(priv->mcast_mtu));
}

/* Is there nothing to wait for any more? */
static bool ipoib_neigh_decided(struct ipoib_neigh *neigh, bool need_tx)
{
	struct ipoib_cm_tx *tx;

	lockdep_assert_held(&neigh->lock);
	if (!need_tx)
		return rcu_access_pointer(neigh->ah);
	tx = rcu_dereference_protected(neigh->tx, lockdep_is_held(&neigh->lock));
	return !tx || ipoib_cm_tx_is_up(tx);
}

/*
 * Keep @skb until the path, or with @need_tx the connection, is decided.
 * Return: false if it has been decided by now and @skb was not taken.
 */
static bool ipoib_neigh_wait(struct ipoib_neigh *neigh, struct sk_buff *skb,
			     bool need_tx)
{
	struct ipoib_netdev *priv = neigh->priv;

	spin_lock_bh(&neigh->lock);
	if (neigh->dead) {
		ipoib_neigh_drop(priv, skb, IPOIB_STAT_tx_drop_down);
	} else if (ipoib_neigh_decided(neigh, need_tx)) {
		spin_unlock_bh(&neigh->lock);
		return false;
	} else if (skb_queue_len(&neigh->queue) >= IPOIB_NEIGH_QUEUE_LEN) {
		ipoib_neigh_drop(priv, skb, IPOIB_STAT_tx_drop_queue);
	} else {
		__skb_queue_tail(&neigh->queue, skb);
	}
	spin_unlock_bh(&neigh->lock);
	return true;
}

/*
 * The first failure is tried again at once, the next after 1, 2, 4, 8, 8 ..
 * seconds: a peer that is back is not to wait for longer.
 */
static void ipoib_neigh_back_off(struct ipoib_neigh *neigh, bool refused)
{
	unsigned long delay = 0;

	lockdep_assert_held(&neigh->lock);
	if (neigh->cm_failures)
		delay = HZ << (neigh->cm_failures - 1);
	else
		WRITE_ONCE(neigh->cm_first, jiffies);
	WRITE_ONCE(neigh->cm_refused, refused);
	WRITE_ONCE(neigh->cm_retry, delay ? (jiffies + delay) ?: 1 : 0);
	if (neigh->cm_failures <= IPOIB_NEIGH_MAX_BACKOFF)
		WRITE_ONCE(neigh->cm_failures, neigh->cm_failures + 1);
}

/* A connection that lasted makes the count of failures start again. */
static void ipoib_neigh_judge(struct ipoib_neigh *neigh)
{
	lockdep_assert_held(&neigh->lock);
	if (neigh->cm_up &&
	    time_after(jiffies, neigh->cm_up + IPOIB_NEIGH_CM_LASTED))
		WRITE_ONCE(neigh->cm_failures, 0);
	neigh->cm_up = 0;
}

/*
 * Will there be a connection soon? A peer that is restarting must not cost its
 * route the MTU for minutes, one that refuses must not lose long packets for long.
 */
static bool ipoib_neigh_hopes(const struct ipoib_neigh *neigh)
{
	unsigned int failures = READ_ONCE(neigh->cm_failures);

	if (READ_ONCE(neigh->cm_refused))
		return failures < IPOIB_NEIGH_CM_REFUSALS;
	return !failures || time_before(jiffies, READ_ONCE(neigh->cm_first) +
					IPOIB_NEIGH_CM_PATIENCE);
}

/* The connection of @neigh; one is begun if there is none and none is barred. */
static struct ipoib_cm_tx *ipoib_neigh_connect(struct ipoib_neigh *neigh)
{
	struct sa_path_rec rec;
	struct ipoib_cm_tx *tx;

	if (!ipoib_path_get_rec(neigh, &rec))
		return NULL;
	spin_lock_bh(&neigh->lock);
	tx = rcu_dereference_protected(neigh->tx, lockdep_is_held(&neigh->lock));
	if (!tx && !neigh->dead) {
		tx = ipoib_cm_tx_create(neigh, &rec);
		if (IS_ERR_OR_NULL(tx)) {
			tx = NULL;
			ipoib_neigh_back_off(neigh, false);
		}
		rcu_assign_pointer(neigh->tx, tx);
	}
	spin_unlock_bh(&neigh->lock);
	return tx;
}

static bool ipoib_neigh_may_connect(const struct ipoib_neigh *neigh)
{
	unsigned long retry = READ_ONCE(neigh->cm_retry);

	return !retry || time_after_eq(jiffies, retry);
}

/* Does this packet go by the connection of @neigh, if it has one? */
static bool ipoib_neigh_by_cm(const struct ipoib_netdev *priv,
			      const struct ipoib_neigh *neigh,
			      const struct sk_buff *skb)
{
	const struct ipoib_hdr *hdr = (const struct ipoib_hdr *)skb->data;

	return ipoib_is_connected(priv) && ipoib_addr_rc(neigh->lladdr) &&
	       hdr->proto != htons(ETH_P_ARP) &&
	       hdr->proto != htons(ETH_P_RARP);
}

/* What ipoib_neigh_try_cm() did with a packet. */
enum ipoib_neigh_verdict {
	IPOIB_NEIGH_TAKEN,	/* sent, kept or dropped */
	IPOIB_NEIGH_BY_UD,	/* left to the datagram QP */
	IPOIB_NEIGH_AGAIN,	/* the connection was decided meanwhile */
};

/*
 * A packet that was on its way when the mode changed may count on offloads of
 * the datagram QP, which a connection does not have.
 */
static bool ipoib_neigh_plain(struct sk_buff *skb)
{
	if (likely(skb->ip_summed != CHECKSUM_PARTIAL))
		return true;
	return !skb_is_gso(skb) && !skb_checksum_help(skb);
}

/*
 * Without a connection, what fits goes by the datagram QP. What does not is
 * lost while there is hope, and then its sender is told the MTU.
 */
static enum ipoib_neigh_verdict
ipoib_neigh_try_cm(struct ipoib_netdev *priv, struct ipoib_neigh *neigh,
		   struct sk_buff *skb, unsigned int ud_mtu)
{
	struct ipoib_cm_tx *tx = rcu_dereference(neigh->tx);
	unsigned int len = skb->len - IPOIB_ENCAP_LEN;

	if (!tx && ipoib_neigh_may_connect(neigh))
		tx = ipoib_neigh_connect(neigh);
	if (tx && ipoib_cm_tx_is_up(tx)) {
		if (unlikely(!ipoib_neigh_plain(skb)))
			ipoib_neigh_drop(priv, skb, IPOIB_STAT_tx_drop_offload);
		else if (len > ipoib_cm_tx_mtu(tx))
			ipoib_pmtu_feedback(priv, skb, ipoib_cm_tx_mtu(tx));
		else
			ipoib_cm_tx_send(priv, skb, tx);
		return IPOIB_NEIGH_TAKEN;
	}
	if (len <= ud_mtu)
		return IPOIB_NEIGH_BY_UD;
	if (!tx && !ipoib_neigh_hopes(neigh))
		return IPOIB_NEIGH_BY_UD;
	if (!tx) {
		ipoib_neigh_drop(priv, skb, IPOIB_STAT_tx_drop_backoff);
		return IPOIB_NEIGH_TAKEN;
	}
	return ipoib_neigh_wait(neigh, skb, true) ? IPOIB_NEIGH_TAKEN
						  : IPOIB_NEIGH_AGAIN;
}

/* A GSO packet is cut to what its sender was told; the path may take less. */
static bool ipoib_neigh_too_long(const struct sk_buff *skb, unsigned int mtu)
{
	if (skb->len - IPOIB_ENCAP_LEN <= mtu)
		return false;
	return !skb_is_gso(skb) || !skb_gso_validate_network_len(skb, mtu);
}

/* Return: false if @skb is to be tried again. */
static bool ipoib_neigh_try(struct ipoib_netdev *priv,
			    struct ipoib_neigh *neigh, struct sk_buff *skb)
{
	struct ipoib_ah *ah = rcu_dereference(neigh->ah);
	enum ipoib_neigh_verdict verdict;
	unsigned int ud_mtu;

	if (unlikely(!ah)) {
		int err = ipoib_path_attach(priv, ipoib_addr_gid(neigh->lladdr),
					    neigh);

		if (!err)
			return ipoib_neigh_wait(neigh, skb, false);
		ipoib_neigh_drop(priv, skb, err == -ENOMEM ?
				 IPOIB_STAT_tx_drop_nomem :
				 IPOIB_STAT_tx_drop_down);
		return true;
	}
	ud_mtu = ipoib_neigh_ud_mtu(priv, ah);
	if (ipoib_neigh_by_cm(priv, neigh, skb)) {
		verdict = ipoib_neigh_try_cm(priv, neigh, skb, ud_mtu);
		if (verdict != IPOIB_NEIGH_BY_UD)
			return verdict == IPOIB_NEIGH_TAKEN;
	}
	if (unlikely(ipoib_neigh_too_long(skb, ud_mtu)))
		ipoib_pmtu_feedback(priv, skb, ud_mtu);
	else
		ipoib_ud_send(priv, skb, ah, ipoib_addr_qpn(neigh->lladdr));
	return true;
}

/*
 * What @neigh waited for is decided: send what is in its queue, which comes
 * before the packet at hand.
 */
static void ipoib_neigh_send_queue(struct ipoib_netdev *priv,
				   struct ipoib_neigh *neigh)
{
	struct sk_buff_head queue;
	struct sk_buff *skb;

	__skb_queue_head_init(&queue);
	spin_lock_bh(&neigh->lock);
	skb_queue_splice_init(&neigh->queue, &queue);
	spin_unlock_bh(&neigh->lock);
	while ((skb = __skb_dequeue(&queue)))
		if (!ipoib_neigh_try(priv, neigh, skb))
			ipoib_neigh_drop(priv, skb, IPOIB_STAT_tx_drop_queue);
}

/**
 * ipoib_neigh_xmit() - send a packet to a unicast address
 * @priv: the interface
 * @skb: starts with the IPoIB header; consumed
 * @lladdr: 20 octets; not in @skb
 *
 * Context: transmit queue lock held.
 */
void ipoib_neigh_xmit(struct ipoib_netdev *priv, struct sk_buff *skb,
		      const u8 *lladdr)
{
	struct ipoib_neigh *neigh;

	rcu_read_lock();
	neigh = rhashtable_lookup(&priv->neighs.hash, lladdr, ipoib_neigh_params);
	if (unlikely(!neigh))
		neigh = ipoib_neigh_create(priv, lladdr);
	if (unlikely(!neigh)) {
		ipoib_neigh_drop(priv, skb, IPOIB_STAT_tx_drop_nomem);
		goto out;
	}
	if (time_before(READ_ONCE(neigh->used), jiffies))
		WRITE_ONCE(neigh->used, jiffies);
	if (unlikely(!ipoib_neigh_try(priv, neigh, skb))) {
		ipoib_neigh_send_queue(priv, neigh);
		/* It may be undecided again by now, but not for ever. */
		if (!ipoib_neigh_try(priv, neigh, skb))
			ipoib_neigh_drop(priv, skb, IPOIB_STAT_tx_drop_queue);
	}
out:
	rcu_read_unlock();
}

/* ---- the connection of a neighbour ---- */

/* Send what waits in the queue of @neigh; @rcu keeps the netdev. */
static void ipoib_neigh_kick_queue(struct ipoib_neigh *neigh)
{
	struct sk_buff_head ready;
	bool dead;

	__skb_queue_head_init(&ready);
	spin_lock_bh(&neigh->lock);
	dead = neigh->dead;
	if (!dead)
		ipoib_neigh_take_queue(neigh, &ready);
	spin_unlock_bh(&neigh->lock);
	if (!dead)
		ipoib_neigh_resend(neigh->priv, &ready);
}

/**
 * ipoib_neigh_tx_up() - the connection of a neighbour takes packets
 * @neigh: the neighbour; the caller holds a reference
 *
 * Context: any but hard interrupt; no lock of the connection held.
 */
void ipoib_neigh_tx_up(struct ipoib_neigh *neigh)
{
	rcu_read_lock();
	spin_lock_bh(&neigh->lock);
	neigh->cm_up = jiffies ?: 1;
	WRITE_ONCE(neigh->cm_retry, 0);
	spin_unlock_bh(&neigh->lock);
	ipoib_neigh_kick_queue(neigh);
	rcu_read_unlock();
}

/**
 * ipoib_neigh_tx_gone() - the connection of a neighbour takes no more packets
 * @neigh: the neighbour; the caller holds a reference
 * @tx: the connection
 * @failed: it did not end in order: no new one before a back-off, and the
 *	path is asked for again
 * @refused: it failed for a reason that says nothing against datagrams
 *
 * What waited for the connection is sent again, by what there is then.
 *
 * Context: any but hard interrupt; no lock of the connection held.
 */
void ipoib_neigh_tx_gone(struct ipoib_neigh *neigh, struct ipoib_cm_tx *tx,
			 bool failed, bool refused)
{
	bool mine;

	rcu_read_lock();
	spin_lock_bh(&neigh->lock);
	mine = !neigh->dead && rcu_access_pointer(neigh->tx) == tx;
	if (mine) {
		RCU_INIT_POINTER(neigh->tx, NULL);
		ipoib_neigh_judge(neigh);
		if (failed)
			ipoib_neigh_back_off(neigh, refused);
	}
	spin_unlock_bh(&neigh->lock);
	if (mine && failed)
		ipoib_path_refresh_neigh(neigh);
	if (mine)
		ipoib_neigh_kick_queue(neigh);
	rcu_read_unlock();
}

/* ---- life of the table ---- */

/**
 * ipoib_neigh_init() - make an empty table
 * @priv: the interface
 *
 * Return: 0 or a negative error.
 */
int ipoib_neigh_init(struct ipoib_netdev *priv)
{
	INIT_DELAYED_WORK(&priv->neighs.gc_work, ipoib_neigh_gc_work);
	return rhashtable_init(&priv->neighs.hash, &ipoib_neigh_params);
}

/**
 * ipoib_neigh_uninit() - undo ipoib_neigh_init()
 * @priv: the interface; nobody sends any more
 */
void ipoib_neigh_uninit(struct ipoib_netdev *priv)
{
	ipoib_neigh_stop(priv);
	rhashtable_destroy(&priv->neighs.hash);
}

/**
 * ipoib_neigh_start() - begin to age neighbours
 * @priv: the interface
 */
void ipoib_neigh_start(struct ipoib_netdev *priv)
{
	queue_delayed_work(priv->wq, &priv->neighs.gc_work,
			   IPOIB_NEIGH_GC_PERIOD);
}

/**
 * ipoib_neigh_stop() - drop all neighbours
 * @priv: the interface; nobody sends any more
 *
 * Context: process context; may be called under rtnl.
 */
void ipoib_neigh_stop(struct ipoib_netdev *priv)
{
	cancel_delayed_work_sync(&priv->neighs.gc_work);
	ipoib_neigh_flush(priv);
}

/**
 * ipoib_neigh_flush() - drop all neighbours; those in use come back
 * @priv: the interface
 *
 * Connections are detached; they end on their own.
 *
 * Context: process context; may be called under rtnl.
 */
void ipoib_neigh_flush(struct ipoib_netdev *priv)
{
	ipoib_neigh_drop_idle(priv, 0);
}
