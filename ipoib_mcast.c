// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Multicast groups of an interface: those that the kernel listens to, those
 * that are only sent to, and the broadcast group, which is the link.
 */
#include <linux/rtnetlink.h>
#include <linux/slab.h>

#include "ipoib.h"

static const struct rhashtable_params ipoib_mcast_params = {
	.key_len = sizeof(union ib_gid),
	.key_offset = offsetof(struct ipoib_mcast_group, mgid),
	.head_offset = offsetof(struct ipoib_mcast_group, node),
	.automatic_shrinking = true,
};

/* ---- groups ---- */

static struct ipoib_mcast_group *
ipoib_mcast_group_create(struct ipoib_netdev *priv, const union ib_gid *mgid,
			 bool send_only)
{
	struct ipoib_mcast *mcast = &priv->mcast;
	struct ipoib_mcast_group *group;

	lockdep_assert_held(&mcast->lock);
	group = kzalloc(sizeof(*group), GFP_ATOMIC);
	if (!group)
		return NULL;
	group->priv = priv;
	group->mgid = *mgid;
	group->state = IPOIB_MCAST_IDLE;
	group->send_only = send_only;
	INIT_LIST_HEAD(&group->todo);
	__skb_queue_head_init(&group->queue);
	group->due = jiffies;
	group->used = jiffies;
	group->created = jiffies;
	if (rhashtable_insert_fast(&mcast->hash, &group->node,
				   ipoib_mcast_params)) {
		kfree(group);
		return NULL;
	}
	list_add_tail(&group->list, &mcast->groups);
	mcast->nsend += send_only;
	return group;
}

/**
 * ipoib_mcast_group_unlink() - take a group out of the table
 * @group: the group
 *
 * Context: the machine's lock held; a work of the machine, or no work runs.
 */
void ipoib_mcast_group_unlink(struct ipoib_mcast_group *group)
{
	struct ipoib_mcast *mcast = &group->priv->mcast;

	lockdep_assert_held(&mcast->lock);
	rhashtable_remove_fast(&mcast->hash, &group->node, ipoib_mcast_params);
	list_del(&group->list);
	mcast->nsend -= group->send_only;
	if (mcast->broadcast == group)
		mcast->broadcast = NULL;
}

/**
 * ipoib_mcast_group_free() - leave and free a group that is out of the table
 * @group: the group
 *
 * Context: process context, no lock held; may be called under rtnl.
 */
void ipoib_mcast_group_free(struct ipoib_mcast_group *group)
{
	struct ipoib_netdev *priv = group->priv;
	struct sk_buff_head queue;
	struct ipoib_ah *ah;

	ipoib_mcast_leave(group);
	__skb_queue_head_init(&queue);
	spin_lock_bh(&priv->mcast.lock);
	list_del_init(&group->todo);
	ah = rcu_replace_pointer(group->ah, NULL,
				 lockdep_is_held(&priv->mcast.lock));
	skb_queue_splice_init(&group->queue, &queue);
	spin_unlock_bh(&priv->mcast.lock);

	ipoib_ah_put(ah);
	ipoib_stat_add(priv, IPOIB_STAT_tx_drop_mcast, skb_queue_len(&queue));
	__skb_queue_purge(&queue);
	kfree_rcu(group, rcu);
}

/**
 * ipoib_mcast_traffic_class() - traffic class of the link
 * @priv: the interface
 *
 * Context: any but hard interrupt.
 * Return: that of the broadcast group.
 */
u8 ipoib_mcast_traffic_class(struct ipoib_netdev *priv)
{
	u8 tclass;

	spin_lock_bh(&priv->mcast.lock);
	tclass = priv->mcast.link.traffic_class;
	spin_unlock_bh(&priv->mcast.lock);
	return tclass;
}

/**
 * ipoib_mcast_broadcast() - the broadcast group, made if need be
 * @priv: the interface
 *
 * Context: the machine's lock held.
 * Return: the group; NULL without memory.
 */
struct ipoib_mcast_group *ipoib_mcast_broadcast(struct ipoib_netdev *priv)
{
	struct ipoib_mcast *mcast = &priv->mcast;

	lockdep_assert_held(&mcast->lock);
	if (!mcast->broadcast)
		mcast->broadcast =
			ipoib_mcast_group_create(priv,
						 ipoib_addr_gid(priv->dev->broadcast),
						 false);
	return mcast->broadcast;
}

/* ---- sending ---- */

/*
 * Is this an address of a group on this link? Reserved octet, QPN, flags, scope
 * and P_Key are those of the broadcast group, and the signature is of IPoIB.
 */
static bool ipoib_mcast_addr_valid(const struct ipoib_netdev *priv,
				   const u8 *lladdr)
{
	const u8 *broadcast = priv->dev->broadcast;
	u16 signature;

	if (memcmp(lladdr, broadcast, 6) || memcmp(lladdr + 8, broadcast + 8, 2))
		return false;
	signature = ipoib_mgid_signature(ipoib_addr_gid(lladdr));
	return signature == IPOIB_SIG_IPV4 || signature == IPOIB_SIG_IPV6;
}

static void ipoib_mcast_drop(struct ipoib_netdev *priv, struct sk_buff *skb,
			     enum ipoib_stat reason)
{
	ipoib_stat_inc(priv, reason);
	dev_kfree_skb_any(skb);
}

/* Make a group that is not in the table; the broadcast group is of its own kind. */
static struct ipoib_mcast_group *
ipoib_mcast_make(struct ipoib_netdev *priv, const union ib_gid *mgid,
		 bool send_only)
{
	if (!memcmp(mgid, priv->dev->broadcast + 4, sizeof(*mgid)))
		return ipoib_mcast_broadcast(priv);
	return ipoib_mcast_group_create(priv, mgid, send_only);
}

/* The group that @skb waits for; made if it is new. */
static struct ipoib_mcast_group *
ipoib_mcast_find_or_create(struct ipoib_netdev *priv, const u8 *lladdr)
{
	const union ib_gid *mgid = ipoib_addr_gid(lladdr);
	struct ipoib_mcast *mcast = &priv->mcast;
	struct ipoib_mcast_group *group;

	lockdep_assert_held(&mcast->lock);
	group = rhashtable_lookup_fast(&mcast->hash, mgid, ipoib_mcast_params);
	if (group)
		return group;
	if (!mcast->running || mcast->nsend >= IPOIB_MCAST_SEND_MAX)
		return NULL;
	group = ipoib_mcast_make(priv, mgid, true);
	if (group)
		ipoib_mcast_kick(priv, 0);
	return group;
}

/* Keep @skb until its group is joined; sends it if it is by now. */
static void ipoib_mcast_wait(struct ipoib_netdev *priv, struct sk_buff *skb,
			     const u8 *lladdr)
{
	struct ipoib_mcast *mcast = &priv->mcast;
	struct ipoib_mcast_group *group;
	struct ipoib_ah *ah = NULL;

	spin_lock_bh(&mcast->lock);
	group = ipoib_mcast_find_or_create(priv, lladdr);
	if (group) {
		group->used = jiffies;
		ah = rcu_dereference_protected(group->ah,
					       lockdep_is_held(&mcast->lock));
	}
	if (ah)
		ipoib_ah_get(ah);
	else if (!group)
		ipoib_mcast_drop(priv, skb, IPOIB_STAT_tx_drop_mcast);
	else if (skb_queue_len(&group->queue) >= IPOIB_MCAST_QUEUE_LEN)
		ipoib_mcast_drop(priv, skb, IPOIB_STAT_tx_drop_queue);
	else
		__skb_queue_tail(&group->queue, skb);
	spin_unlock_bh(&mcast->lock);
	if (ah)
		ipoib_ud_send(priv, skb, ah, IB_MULTICAST_QPN);
	ipoib_ah_put(ah);
}

/**
 * ipoib_mcast_xmit() - send a packet to a multicast address
 * @priv: the interface
 * @skb: starts with the IPoIB header; consumed
 * @lladdr: 20 octets; not in @skb
 *
 * Context: transmit queue lock held.
 */
void ipoib_mcast_xmit(struct ipoib_netdev *priv, struct sk_buff *skb,
		      const u8 *lladdr)
{
	unsigned int mtu = READ_ONCE(priv->mcast_mtu);
	struct ipoib_mcast_group *group;
	struct ipoib_ah *ah;

	if (unlikely(!ipoib_mcast_addr_valid(priv, lladdr))) {
		ipoib_mcast_drop(priv, skb, IPOIB_STAT_tx_drop_header);
		return;
	}
	if (unlikely(skb->len - IPOIB_ENCAP_LEN > mtu)) {
		ipoib_pmtu_feedback(priv, skb, mtu);
		return;
	}
	rcu_read_lock();
	group = rhashtable_lookup(&priv->mcast.hash, ipoib_addr_gid(lladdr),
				  ipoib_mcast_params);
	ah = group ? rcu_dereference(group->ah) : NULL;
	if (likely(ah)) {
		if (time_before(READ_ONCE(group->used), jiffies))
			WRITE_ONCE(group->used, jiffies);
		ipoib_ud_send(priv, skb, ah, IB_MULTICAST_QPN);
	} else {
		ipoib_mcast_wait(priv, skb, lladdr);
	}
	rcu_read_unlock();
}

/* ---- the kernel's list ---- */

/*
 * Copy the addresses that the kernel listens to.
 * Return: how many; -ENOMEM; -EAGAIN if the list grew meanwhile.
 */
static int ipoib_mcast_snapshot(struct ipoib_netdev *priv, union ib_gid **mgids)
{
	struct net_device *dev = priv->dev;
	struct netdev_hw_addr *ha;
	int max, n = 0;

	max = READ_ONCE(netdev_mc_count(dev)) + 4;
	*mgids = kvcalloc(max, sizeof(**mgids), GFP_KERNEL);
	if (!*mgids)
		return -ENOMEM;
	netif_addr_lock_bh(dev);
	netdev_for_each_mc_addr(ha, dev) {
		if (!ipoib_mcast_addr_valid(priv, ha->addr))
			continue;
		if (n == max) {
			n = -EAGAIN;
			break;
		}
		memcpy(&(*mgids)[n++], ipoib_addr_gid(ha->addr),
		       sizeof(**mgids));
	}
	netif_addr_unlock_bh(dev);
	if (n < 0) {
		kvfree(*mgids);
		*mgids = NULL;
	}
	return n;
}

/* With umcast, groups that user space joined are left to it. */
static bool ipoib_mcast_is_foreign(struct ipoib_netdev *priv,
				   union ib_gid *mgid)
{
	struct ib_sa_mcmember_rec rec;

	return test_bit(IPOIB_F_UMCAST, &priv->flags) &&
	       !ib_sa_get_mcmember_rec(priv->port->ca, priv->port->num, mgid,
				       &rec);
}

/* The kernel listens to a group. Return: false without memory for it. */
static bool ipoib_mcast_want(struct ipoib_netdev *priv, union ib_gid *mgid)
{
	struct ipoib_mcast *mcast = &priv->mcast;
	struct ipoib_mcast_group *group;
	bool foreign = ipoib_mcast_is_foreign(priv, mgid);
	bool done = true;

	spin_lock_bh(&mcast->lock);
	group = rhashtable_lookup_fast(&mcast->hash, mgid, ipoib_mcast_params);
	if (!group && !foreign && mcast->running) {
		group = ipoib_mcast_make(priv, mgid, false);
		done = group;
	}
	if (!group)
		goto out;
	/* A membership that was found may be our own, of a sender. */
	if (group->member)
		foreign = false;
	group->wanted = true;
	if (group->send_only && !foreign) {
		group->send_only = false;
		mcast->nsend--;
		/* A sender's membership is replaced by a listener's. */
		if (group->state == IPOIB_MCAST_JOINED)
			ipoib_mcast_set_state(group, IPOIB_MCAST_IDLE);
		group->failures = 0;
		group->due = jiffies;
	}
out:
	spin_unlock_bh(&mcast->lock);
	return done;
}

/* Leave the groups that the kernel listens to no more. */
static void ipoib_mcast_sweep(struct ipoib_netdev *priv)
{
	struct ipoib_mcast *mcast = &priv->mcast;
	struct ipoib_mcast_group *group, *next;
	LIST_HEAD(gone);

	spin_lock_bh(&mcast->lock);
	list_for_each_entry_safe(group, next, &mcast->groups, list) {
		if (!group->wanted && !group->send_only &&
		    group != mcast->broadcast) {
			ipoib_mcast_group_unlink(group);
			list_add(&group->list, &gone);
		}
		group->wanted = false;
	}
	spin_unlock_bh(&mcast->lock);
	list_for_each_entry_safe(group, next, &gone, list)
		ipoib_mcast_group_free(group);
}

static void ipoib_mcast_restart_work(struct work_struct *work)
{
	struct ipoib_netdev *priv = container_of(work, struct ipoib_netdev,
						 mcast.restart_work.work);
	bool whole = true;
	union ib_gid *mgids;
	int n, i;

	do {
		n = ipoib_mcast_snapshot(priv, &mgids);
	} while (n == -EAGAIN);
	if (n < 0) {
		ipoib_warn(priv, "no memory to follow the multicast list\n");
		goto again;
	}
	for (i = 0; i < n; i++)
		whole &= ipoib_mcast_want(priv, &mgids[i]);
	kvfree(mgids);
	ipoib_mcast_sweep(priv);
	spin_lock_bh(&priv->mcast.lock);
	ipoib_mcast_kick(priv, 0);
	spin_unlock_bh(&priv->mcast.lock);
	if (whole)
		return;
again:
	if (READ_ONCE(priv->mcast.running))
		queue_delayed_work(priv->wq, &priv->mcast.restart_work, HZ);
}

/**
 * ipoib_mcast_set_rx_mode() - the kernel's list of addresses changed
 * @priv: the interface
 *
 * Context: any; may be under the lock of the list.
 */
void ipoib_mcast_set_rx_mode(struct ipoib_netdev *priv)
{
	if (READ_ONCE(priv->mcast.running))
		mod_delayed_work(priv->wq, &priv->mcast.restart_work, 0);
}

/**
 * ipoib_mcast_set_umcast() - leave groups alone that user space joins, or not
 * @priv: the interface
 * @on: leave them alone
 *
 * Groups that were left alone are joined when it is turned off; those that are
 * joined stay when it is turned on, for user space may have come later.
 *
 * Context: process context, rtnl held.
 */
void ipoib_mcast_set_umcast(struct ipoib_netdev *priv, bool on)
{
	ASSERT_RTNL();
	if (on)
		set_bit(IPOIB_F_UMCAST, &priv->flags);
	else if (test_and_clear_bit(IPOIB_F_UMCAST, &priv->flags))
		ipoib_mcast_set_rx_mode(priv);
}

/* ---- life of the machine ---- */

/**
 * ipoib_mcast_init() - make an empty machine
 * @priv: the interface
 *
 * Return: 0 or a negative error.
 */
int ipoib_mcast_init(struct ipoib_netdev *priv)
{
	struct ipoib_mcast *mcast = &priv->mcast;

	spin_lock_init(&mcast->lock);
	INIT_LIST_HEAD(&mcast->groups);
	INIT_LIST_HEAD(&mcast->todo);
	INIT_DELAYED_WORK(&mcast->join_work, ipoib_mcast_join_work);
	INIT_DELAYED_WORK(&mcast->restart_work, ipoib_mcast_restart_work);
	return rhashtable_init(&mcast->hash, &ipoib_mcast_params);
}

/**
 * ipoib_mcast_uninit() - undo ipoib_mcast_init()
 * @priv: the interface
 */
void ipoib_mcast_uninit(struct ipoib_netdev *priv)
{
	ipoib_mcast_stop(priv);
	rhashtable_destroy(&priv->mcast.hash);
}

/**
 * ipoib_mcast_start() - join the broadcast group, then all others
 * @priv: the interface; its QP is in RTS
 *
 * Context: rtnl held.
 */
void ipoib_mcast_start(struct ipoib_netdev *priv)
{
	struct ipoib_mcast *mcast = &priv->mcast;

	spin_lock_bh(&mcast->lock);
	mcast->running = true;
	ipoib_mcast_kick(priv, 0);
	spin_unlock_bh(&mcast->lock);
	mod_delayed_work(priv->wq, &mcast->restart_work, 0);
}

/**
 * ipoib_mcast_stop() - leave all groups
 * @priv: the interface; nobody sends any more, and its QP still exists
 *
 * Context: process context; may be called under rtnl.
 */
void ipoib_mcast_stop(struct ipoib_netdev *priv)
{
	struct ipoib_mcast *mcast = &priv->mcast;
	struct ipoib_mcast_group *group, *next;
	LIST_HEAD(gone);

	spin_lock_bh(&mcast->lock);
	mcast->running = false;
	spin_unlock_bh(&mcast->lock);
	cancel_delayed_work_sync(&mcast->restart_work);
	cancel_delayed_work_sync(&mcast->join_work);
	clear_bit(IPOIB_F_LINK, &priv->flags);

	spin_lock_bh(&mcast->lock);
	list_for_each_entry_safe(group, next, &mcast->groups, list) {
		ipoib_mcast_group_unlink(group);
		list_add(&group->list, &gone);
	}
	mcast->link_known = false;
	spin_unlock_bh(&mcast->lock);
	list_for_each_entry_safe(group, next, &gone, list)
		ipoib_mcast_group_free(group);
}

/**
 * ipoib_mcast_show() - list all groups
 * @priv: the interface
 * @m: where to
 */
void ipoib_mcast_show(struct ipoib_netdev *priv, struct seq_file *m)
{
	struct ipoib_mcast_group *group;

	spin_lock_bh(&priv->mcast.lock);
	list_for_each_entry(group, &priv->mcast.groups, list) {
		seq_printf(m, "GID: %pI6c\n  created: %u ms ago\n",
			   group->mgid.raw,
			   jiffies_to_msecs(jiffies - group->created));
		seq_printf(m, "  queuelen: %u\n  complete: %s\n",
			   skb_queue_len(&group->queue),
			   rcu_access_pointer(group->ah) ? "yes" : "no");
		seq_printf(m, "  send_only: %s\n  failures: %u\n",
			   group->send_only ? "yes" : "no", group->failures);
	}
	spin_unlock_bh(&priv->mcast.lock);
}
