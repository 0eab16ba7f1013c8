// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * The net device: link-layer header, transmit dispatch, open and stop, MTU,
 * mode, features, address, carrier.
 *
 * Everything here but transmit runs under rtnl, or on a work item that takes
 * it. A work item on ipoib_rtnl_wq holds a reference to the net device, so
 * nobody needs to wait for it under rtnl.
 */
#include <linux/ethtool.h>
#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <linux/if_arp.h>
#include <linux/ip.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <net/dst.h>
#include <net/icmp.h>
#include <net/ip.h>
#include <net/pkt_sched.h>
#include <rdma/ib_cache.h>

#include "ipoib.h"

/* ---- link-layer header ---- */

static int ipoib_header_create(struct sk_buff *skb, struct net_device *dev,
			       unsigned short type, const void *daddr,
			       const void *saddr, unsigned int len)
{
	struct ipoib_hdr *hdr = skb_push(skb, IPOIB_ENCAP_LEN);
	void *pseudo = skb_push(skb, IPOIB_PSEUDO_LEN);

	hdr->proto = htons(type);
	hdr->reserved = 0;
	if (!daddr) {
		memset(pseudo, 0, IPOIB_PSEUDO_LEN);
		return -(int)IPOIB_HARD_LEN;
	}
	memcpy(pseudo, daddr, IPOIB_PSEUDO_LEN);
	return IPOIB_HARD_LEN;
}

/*
 * The pseudo header of a received packet holds the sender's address as far as
 * the completion told it, that of an outgoing one the receiver's.
 */
static int ipoib_header_parse(const struct sk_buff *skb, IPOIB_HEADER_PARSE_DEV
			      unsigned char *haddr)
{
	if (skb->pkt_type == PACKET_OUTGOING) {
		memcpy(haddr, skb->dev->dev_addr, INFINIBAND_ALEN);
		return INFINIBAND_ALEN;
	}
	if (!skb_mac_header_was_set(skb) ||
	    !memchr_inv(skb_mac_header(skb), 0, INFINIBAND_ALEN))
		return 0;
	memcpy(haddr, skb_mac_header(skb), INFINIBAND_ALEN);
	return INFINIBAND_ALEN;
}

static bool ipoib_header_validate(const char *ll_header, unsigned int len)
{
	return len >= IPOIB_HARD_LEN;
}

static __be16 ipoib_header_parse_protocol(const struct sk_buff *skb)
{
	const struct ipoib_hdr *hdr;

	if (!skb_mac_header_was_set(skb))
		return 0;
	hdr = (const void *)(skb_mac_header(skb) + IPOIB_PSEUDO_LEN);
	return hdr->proto;
}

static const struct header_ops ipoib_header_ops = {
	.create = ipoib_header_create,
	.parse = ipoib_header_parse,
	.validate = ipoib_header_validate,
	.parse_protocol = ipoib_header_parse_protocol,
};

/* ---- transmit ---- */

static netdev_tx_t ipoib_xmit_drop(struct ipoib_netdev *priv,
				   struct sk_buff *skb, enum ipoib_stat why)
{
	ipoib_stat_inc(priv, why);
	dev_kfree_skb_any(skb);
	return NETDEV_TX_OK;
}

/* An address that nobody can be reached at: no multicast, and QPN 0. */
static bool ipoib_lladdr_valid(const u8 *lladdr)
{
	return ipoib_addr_multicast(lladdr) || ipoib_addr_qpn(lladdr);
}

static netdev_tx_t ipoib_start_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct ipoib_netdev *priv = ipoib_priv(dev);
	u8 lladdr[INFINIBAND_ALEN];
	struct ipoib_hdr *hdr;

	if (!ipoib_is_open(priv))
		return ipoib_xmit_drop(priv, skb, IPOIB_STAT_tx_drop_down);
	if (!pskb_may_pull(skb, IPOIB_HARD_LEN))
		return ipoib_xmit_drop(priv, skb, IPOIB_STAT_tx_drop_header);
	memcpy(lladdr, skb->data, sizeof(lladdr));
	skb_pull(skb, IPOIB_PSEUDO_LEN);
	hdr = (struct ipoib_hdr *)skb->data;
	if (!ipoib_proto_known(hdr->proto))
		return ipoib_xmit_drop(priv, skb, IPOIB_STAT_tx_drop_proto);
	if (!ipoib_lladdr_valid(lladdr))
		return ipoib_xmit_drop(priv, skb, IPOIB_STAT_tx_drop_header);

	if (ipoib_addr_multicast(lladdr))
		ipoib_mcast_xmit(priv, skb, lladdr);
	else
		ipoib_neigh_xmit(priv, skb, lladdr);
	return NETDEV_TX_OK;
}

/* What a packet in &struct ipoib_netdev.pmtu_queue carries in its cb. */
struct ipoib_pmtu_cb {
	unsigned int mtu;
};

static struct ipoib_pmtu_cb *ipoib_pmtu_cb(struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct ipoib_pmtu_cb) > sizeof(skb->cb));
	return (struct ipoib_pmtu_cb *)skb->cb;
}

static void ipoib_pmtu_answer(struct sk_buff *skb)
{
	unsigned int mtu = ipoib_pmtu_cb(skb)->mtu;

	/* The answer parses IP options, whose place is the cb. */
	memset(skb->cb, 0, sizeof(skb->cb));
	if (skb->protocol == htons(ETH_P_IP))
		icmp_send(skb, ICMP_DEST_UNREACH, ICMP_FRAG_NEEDED, htonl(mtu));
#if IS_ENABLED(CONFIG_IPV6)
	else if (skb->protocol == htons(ETH_P_IPV6))
		icmpv6_send(skb, ICMPV6_PKT_TOOBIG, 0, mtu);
#endif
}

static void ipoib_pmtu_work(struct work_struct *work)
{
	struct ipoib_netdev *priv = container_of(work, struct ipoib_netdev,
						 pmtu_work);
	struct sk_buff *skb;

	while ((skb = skb_dequeue(&priv->pmtu_queue))) {
		local_bh_disable();
		ipoib_pmtu_answer(skb);
		local_bh_enable();
		kfree_skb(skb);
	}
}

/**
 * ipoib_pmtu_feedback() - tell a packet's sender that it is too long
 * @priv: the interface
 * @skb: the packet, at its IPoIB header; consumed and counted as dropped
 * @mtu: what the destination takes, in octets without the IPoIB header
 *
 * The route learns the MTU at once; an ICMP answer follows from a work item,
 * so that the caller may hold any lock. At most IPOIB_PMTU_QUEUE_LEN packets
 * wait for one, beyond that they are dropped without an answer.
 *
 * Context: any but hard interrupt.
 */
void ipoib_pmtu_feedback(struct ipoib_netdev *priv, struct sk_buff *skb,
			 unsigned int mtu)
{
	ipoib_stat_inc(priv, IPOIB_STAT_tx_drop_toolong);
	if (skb_dst(skb))
		skb_dst_update_pmtu(skb, mtu);
	if (!skb_dst(skb) || !ipoib_is_open(priv) ||
	    skb_queue_len_lockless(&priv->pmtu_queue) >= IPOIB_PMTU_QUEUE_LEN) {
		dev_kfree_skb_any(skb);
		return;
	}
	ipoib_pmtu_cb(skb)->mtu = mtu;
	skb_queue_tail(&priv->pmtu_queue, skb);
	queue_work(priv->wq, &priv->pmtu_work);
}

/* ---- work under rtnl ---- */

/**
 * ipoib_rtnl_work_queue() - queue a work item that takes rtnl
 * @priv: the interface
 * @work: one of its work items; it drops the reference to the net device that
 *	is taken here
 *
 * Context: any, while the net device cannot go away.
 */
void ipoib_rtnl_work_queue(struct ipoib_netdev *priv, struct work_struct *work)
{
	dev_hold(priv->dev);
	if (!queue_work(ipoib_rtnl_wq, work))
		dev_put(priv->dev);
}

/* The MTU that mode, administrator and broadcast group lead to. */
static unsigned int ipoib_mtu_target(const struct ipoib_netdev *priv)
{
	if (ipoib_is_connected(priv))
		return ipoib_cm_max_mtu(priv);
	return min(priv->admin_mtu, READ_ONCE(priv->mcast_mtu));
}

/* Set the MTU without taking it for the administrator's wish. */
static int ipoib_mtu_apply(struct ipoib_netdev *priv)
{
	unsigned int admin_mtu = priv->admin_mtu;
	int err;

	err = dev_set_mtu(priv->dev, ipoib_mtu_target(priv));
	priv->admin_mtu = admin_mtu;
	return err;
}

static void ipoib_link_apply(struct ipoib_netdev *priv)
{
	struct net_device *dev = priv->dev;
	int err = 0;

	ASSERT_RTNL();
	if (!ipoib_is_open(priv) || !test_bit(IPOIB_F_LINK, &priv->flags)) {
		netif_carrier_off(dev);
		return;
	}
	if (!ipoib_is_connected(priv))
		err = ipoib_mtu_apply(priv);
	if (err)
		ipoib_warn(priv, "MTU %u refused: %d\n",
			   ipoib_mtu_target(priv), err);
	netif_carrier_on(dev);
}

static void ipoib_link_work(struct work_struct *work)
{
	struct ipoib_netdev *priv = container_of(work, struct ipoib_netdev,
						 link_work);

	rtnl_lock();
	ipoib_link_apply(priv);
	rtnl_unlock();
	dev_put(priv->dev);
}

/**
 * ipoib_link_update() - bring MTU and carrier in line with the link
 * @priv: an interface whose IPOIB_F_LINK or broadcast group has changed
 *
 * A lost carrier shows at once, the rest follows from a work item under rtnl.
 *
 * Context: any, while the net device cannot go away.
 */
void ipoib_link_update(struct ipoib_netdev *priv)
{
	if (!test_bit(IPOIB_F_LINK, &priv->flags))
		netif_carrier_off(priv->dev);
	ipoib_rtnl_work_queue(priv, &priv->link_work);
}

/* ---- open and stop ---- */

/* Without the P_Key in the port's table this succeeds and leaves all as it is. */
static int ipoib_up(struct ipoib_netdev *priv)
{
	int err;

	err = ipoib_event_refresh_port(priv);
	if (err)
		return err;
	if (!test_bit(IPOIB_F_PKEY, &priv->flags)) {
		ipoib_dbg(priv, "P_Key 0x%04x is not in the port's table\n",
			  priv->pkey);
		return 0;
	}
	err = ipoib_ud_open(priv);
	if (err)
		return err;
	set_bit(IPOIB_F_OPEN, &priv->flags);
	ipoib_neigh_start(priv);
	ipoib_mcast_start(priv);
	ipoib_cm_open(priv);
	/* After a restart the queue may hold packets that nobody else sends. */
	netif_wake_queue(priv->dev);
	return 0;
}

/*
 * Connections are only detached here: their QPs drain with the port's engine
 * while the interface is down, or comes up again.
 */
static void ipoib_down(struct ipoib_netdev *priv)
{
	clear_bit(IPOIB_F_OPEN, &priv->flags);
	netif_tx_disable(priv->dev);
	netif_carrier_off(priv->dev);
	/* Neighbours first: they hold connections, which would go meanwhile. */
	ipoib_neigh_stop(priv);
	ipoib_cm_stop(priv);
	ipoib_mcast_stop(priv);
	ipoib_path_flush(priv);
	ipoib_ud_stop(priv);
	clear_bit(IPOIB_F_LINK, &priv->flags);
	cancel_work_sync(&priv->pmtu_work);
	skb_queue_purge(&priv->pmtu_queue);
}

static int ipoib_open(struct net_device *dev)
{
	return ipoib_up(ipoib_priv(dev));
}

static int ipoib_stop(struct net_device *dev)
{
	struct ipoib_netdev *priv = ipoib_priv(dev);

	if (ipoib_is_open(priv))
		ipoib_down(priv);
	return 0;
}

/**
 * ipoib_restart() - stop and open again what is up
 * @priv: the interface
 *
 * Also opens an interface that is administratively up but not open, because
 * its P_Key was not in the port's table, or because an earlier restart failed.
 *
 * Context: process, under rtnl.
 *
 * Return: 0, or -errno when it could not be opened again; it has no carrier
 * then and the next event of the port tries again.
 */
int ipoib_restart(struct ipoib_netdev *priv)
{
	int err;

	ASSERT_RTNL();
	if (!netif_running(priv->dev))
		return 0;
	ipoib_stat_inc(priv, IPOIB_STAT_restarts);
	if (ipoib_is_open(priv))
		ipoib_down(priv);
	err = ipoib_up(priv);
	if (err)
		netdev_warn(priv->dev, "restart failed: %d\n", err);
	return err;
}

/**
 * ipoib_restart_async() - have ipoib_restart() called by a work item
 * @priv: the interface
 *
 * Context: any, while the net device cannot go away.
 */
void ipoib_restart_async(struct ipoib_netdev *priv)
{
	set_bit(IPOIB_F_RESTART, &priv->flags);
	ipoib_rtnl_work_queue(priv, &priv->timeout_work);
}

static void ipoib_timeout_work(struct work_struct *work)
{
	struct ipoib_netdev *priv = container_of(work, struct ipoib_netdev,
						 timeout_work);

	rtnl_lock();
	if (test_and_clear_bit(IPOIB_F_RESTART, &priv->flags) ||
	    !ipoib_ud_poke(priv))
		ipoib_restart(priv);
	rtnl_unlock();
	dev_put(priv->dev);
}

static void ipoib_tx_timeout(struct net_device *dev, unsigned int txqueue)
{
	struct ipoib_netdev *priv = ipoib_priv(dev);

	ipoib_warn(priv, "transmit time-out: queue stopped %u ms, %u sends in flight\n",
		   jiffies_to_msecs(jiffies - dev_trans_start(dev)),
		   READ_ONCE(priv->ud.tx_head) - READ_ONCE(priv->ud.tx_tail));
	ipoib_stat_inc(priv, IPOIB_STAT_tx_timeouts);
	ipoib_rtnl_work_queue(priv, &priv->timeout_work);
}

/* ---- MTU, mode, features ---- */

static void ipoib_mtu_limits(struct ipoib_netdev *priv)
{
	struct net_device *dev = priv->dev;

	dev->min_mtu = IPOIB_MIN_MTU;
	dev->max_mtu = ipoib_is_connected(priv) ? ipoib_cm_max_mtu(priv) :
		       ipoib_ud_mtu(priv->port->max_mtu);
}

/* The core has compared @new_mtu with the limits of the mode. */
static int ipoib_change_mtu(struct net_device *dev, int new_mtu)
{
	struct ipoib_netdev *priv = ipoib_priv(dev);

	if (ipoib_is_connected(priv)) {
		if (new_mtu > priv->mcast_mtu)
			ipoib_dbg(priv, "multicast stays at an MTU of %u\n",
				  priv->mcast_mtu);
	} else {
		priv->admin_mtu = new_mtu;
		new_mtu = ipoib_mtu_target(priv);
	}
	WRITE_ONCE(dev->mtu, new_mtu);
	return 0;
}

static netdev_features_t ipoib_fix_features(struct net_device *dev,
					    netdev_features_t features)
{
	if (ipoib_is_connected(ipoib_priv(dev)))
		features &= ~(NETIF_F_IP_CSUM | NETIF_F_TSO);
	return features;
}

static void ipoib_mode_write(struct ipoib_netdev *priv, bool connected)
{
	if (connected)
		set_bit(IPOIB_F_CONNECTED, &priv->flags);
	else
		clear_bit(IPOIB_F_CONNECTED, &priv->flags);
	ipoib_mtu_limits(priv);
}

/**
 * ipoib_set_mode() - switch between datagram and connected mode
 * @priv: the interface, up or down
 * @connected: the mode to switch to
 * @extack: where to say what is wrong, or NULL
 *
 * The MTU becomes the largest of the new mode: ipoib_cm_max_mtu() in connected
 * mode, the smaller of the administrator's and the broadcast group's in
 * datagram mode. Neighbours are flushed, which detaches active connections;
 * passive ones stay, because peers choose their mode themselves. rtnl is held
 * all the time. It is all or nothing: if somebody vetoes the MTU, the old mode
 * is back.
 *
 * Context: process, under rtnl.
 *
 * Return: 0; -EINVAL when the port has no connected mode; or what the veto on
 * the MTU said.
 */
int ipoib_set_mode(struct ipoib_netdev *priv, bool connected,
		   struct netlink_ext_ack *extack)
{
	int err;

	ASSERT_RTNL();
	if (connected == ipoib_is_connected(priv))
		return 0;
	if (connected && !ipoib_cm_capable(priv)) {
		NL_SET_ERR_MSG(extack, "The port does not offer connected mode");
		return -EINVAL;
	}
	ipoib_mode_write(priv, connected);
	err = ipoib_mtu_apply(priv);
	if (err) {
		ipoib_mode_write(priv, !connected);
		NL_SET_ERR_MSG(extack, "The MTU of the mode was refused");
		return err;
	}
	netdev_update_features(priv->dev);
	ipoib_neigh_flush(priv);
	return 0;
}

/* ---- address ---- */

static void ipoib_addr_write(struct ipoib_netdev *priv)
{
	u8 flags = ipoib_cm_capable(priv) ? IPOIB_ADDR_FLAG_RC : 0;
	u8 lladdr[INFINIBAND_ALEN];

	ipoib_addr_set(lladdr, flags, priv->ud.qp->qp_num, &priv->gid);
	dev_addr_set(priv->dev, lladdr);
}

/**
 * ipoib_addr_known() - does the port have the GID of this interface?
 * @priv: the interface
 *
 * Without it there is no address handle, hence no link.
 *
 * Context: any but hard interrupt.
 *
 * Return: false if an interface ID was given which is in no GID of the port.
 */
bool ipoib_addr_known(struct ipoib_netdev *priv)
{
	const struct ib_gid_attr *attr;

	if (!test_bit(IPOIB_F_ADDR_SET, &priv->flags))
		return true;
	attr = rdma_find_gid_by_port(priv->port->ca, &priv->gid, IB_GID_TYPE_IB,
				     priv->port->num, NULL);
	if (IS_ERR(attr))
		return false;
	rdma_put_gid_attr(attr);
	return true;
}

/* The first address: GID 0, with the interface ID that a child was given. */
static int ipoib_addr_init(struct ipoib_netdev *priv)
{
	union ib_gid given = *ipoib_addr_gid(priv->dev->dev_addr);
	int err;

	err = rdma_query_gid(priv->port->ca, priv->port->num, 0, &priv->gid);
	if (err)
		return err;
	if (priv->dev->addr_assign_type == NET_ADDR_SET &&
	    given.global.interface_id) {
		priv->gid.global.interface_id = given.global.interface_id;
		set_bit(IPOIB_F_ADDR_SET, &priv->flags);
	}
	ipoib_addr_write(priv);
	return 0;
}

static void ipoib_addr_set_id(struct ipoib_netdev *priv, __be64 id)
{
	priv->gid.global.interface_id = id;
	set_bit(IPOIB_F_ADDR_SET, &priv->flags);
	ipoib_addr_write(priv);
}

/*
 * Only the interface ID may change: flags, QPN and subnet prefix are facts.
 * Children follow their parent.
 */
static int ipoib_set_mac_address(struct net_device *dev, void *addr)
{
	struct ipoib_netdev *priv = ipoib_priv(dev);
	const struct sockaddr_storage *ss = addr;
	const u8 *lladdr = (const u8 *)ss->__data;
	const union ib_gid *gid = ipoib_addr_gid(lladdr);
	size_t fixed = INFINIBAND_ALEN - sizeof(gid->global.interface_id);
	struct ipoib_netdev *child;
	__be64 id;

	if (!(dev->priv_flags & IFF_LIVE_ADDR_CHANGE) && netif_running(dev))
		return -EBUSY;
	memcpy(&id, &gid->global.interface_id, sizeof(id));
	if (memcmp(dev->dev_addr, lladdr, fixed) || !id)
		return -EINVAL;

	ipoib_addr_set_id(priv, id);
	list_for_each_entry(child, &priv->port->netdevs, list) {
		if (child->parent != priv)
			continue;
		ipoib_addr_set_id(child, id);
		call_netdevice_notifiers(NETDEV_CHANGEADDR, child->dev);
	}
	ipoib_event_post(priv->port, IPOIB_EV_LIGHT);
	return 0;
}

/* ---- small operations ---- */

/**
 * ipoib_set_rx_mode() - note that the multicast list changed
 * @dev: the net device
 *
 * Context: any; may be under the lock of the list.
 */
void ipoib_set_rx_mode(struct net_device *dev)
{
	struct ipoib_netdev *priv = ipoib_priv(dev);

	if (ipoib_is_open(priv))
		ipoib_mcast_set_rx_mode(priv);
}

static void ipoib_get_stats64(struct net_device *dev,
			      struct rtnl_link_stats64 *stats)
{
	ipoib_stats_fold(ipoib_priv(dev), stats);
}

static int ipoib_get_iflink(const struct net_device *dev)
{
	const struct ipoib_netdev *priv = ipoib_priv(dev);

	return priv->parent ? priv->parent->dev->ifindex : dev->ifindex;
}

/* ---- life of the net device ---- */

static int ipoib_stats_alloc(struct ipoib_netdev *priv)
{
	int cpu;

	priv->stats = alloc_percpu(struct ipoib_pcpu_stats);
	if (!priv->stats)
		return -ENOMEM;
	for_each_possible_cpu(cpu)
		u64_stats_init(&per_cpu_ptr(priv->stats, cpu)->sync);
	return 0;
}

/* What can be offered is known when the QP exists. */
static void ipoib_features_init(struct ipoib_netdev *priv)
{
	struct net_device *dev = priv->dev;
	struct ib_device *ca = priv->port->ca;

	if (priv->ud.max_send_sge > 1)
		dev->hw_features |= NETIF_F_SG;
	if (ca->attrs.device_cap_flags & IB_DEVICE_UD_IP_CSUM) {
		dev->hw_features |= NETIF_F_IP_CSUM | NETIF_F_RXCSUM;
		if (ca->attrs.kernel_cap_flags & IBK_UD_TSO)
			dev->hw_features |= NETIF_F_TSO;
	}
	dev->features |= dev->hw_features | NETIF_F_VLAN_CHALLENGED |
			 NETIF_F_HIGHDMA;
}

static void ipoib_refs_get(struct ipoib_netdev *priv)
{
	ipoib_port_get(priv->port);
	if (priv->parent)
		netdev_hold(priv->parent->dev, &priv->parent_tracker,
			    GFP_KERNEL);
}

static void ipoib_refs_put(struct ipoib_netdev *priv)
{
	struct ipoib_port *port = priv->port;

	if (priv->parent)
		netdev_put(priv->parent->dev, &priv->parent_tracker);
	ipoib_port_put(port);
}

static int ipoib_tables_init(struct ipoib_netdev *priv)
{
	int err;

	err = ipoib_path_init(priv);
	if (err)
		return err;
	err = ipoib_neigh_init(priv);
	if (err)
		goto undo_path;
	err = ipoib_mcast_init(priv);
	if (err)
		goto undo_neigh;
	return 0;

undo_neigh:
	ipoib_neigh_uninit(priv);
undo_path:
	ipoib_path_uninit(priv);
	return err;
}

static void ipoib_tables_uninit(struct ipoib_netdev *priv)
{
	ipoib_mcast_uninit(priv);
	ipoib_neigh_uninit(priv);
	ipoib_path_uninit(priv);
}

static int ipoib_dev_init(struct net_device *dev)
{
	struct ipoib_netdev *priv = ipoib_priv(dev);
	int err;

	ipoib_refs_get(priv);
	err = ipoib_stats_alloc(priv);
	if (err)
		goto put_refs;
	err = -ENOMEM;
	priv->wq = alloc_ordered_workqueue("ipoib_%s", WQ_MEM_RECLAIM,
					   dev->name);
	if (!priv->wq)
		goto free_stats;
	err = ipoib_ud_init(priv);
	if (err)
		goto destroy_wq;
	err = ipoib_addr_init(priv);
	if (err)
		goto uninit_ud;
	err = ipoib_tables_init(priv);
	if (err)
		goto uninit_ud;
	ipoib_cm_netdev_init(priv);
	ipoib_features_init(priv);
	return 0;

uninit_ud:
	ipoib_ud_uninit(priv);
destroy_wq:
	destroy_workqueue(priv->wq);
free_stats:
	free_percpu(priv->stats);
put_refs:
	ipoib_refs_put(priv);
	return err;
}

/* Stopped already. What must not be waited for here is left to the destructor. */
static void ipoib_dev_uninit(struct net_device *dev)
{
	struct ipoib_netdev *priv = ipoib_priv(dev);

	set_bit(IPOIB_F_REMOVING, &priv->flags);
	list_del_rcu(&priv->list);
	ipoib_tables_uninit(priv);
	flush_workqueue(priv->wq);
	ipoib_ud_uninit(priv);
}

/* Without rtnl, after the last reference to the net device. */
static void ipoib_dev_destroy(struct net_device *dev)
{
	struct ipoib_netdev *priv = ipoib_priv(dev);

	ipoib_cm_netdev_destroy(priv);
	destroy_workqueue(priv->wq);
	free_percpu(priv->stats);
	ipoib_refs_put(priv);
}

static const struct net_device_ops ipoib_netdev_ops = {
	.ndo_init = ipoib_dev_init,
	.ndo_uninit = ipoib_dev_uninit,
	.ndo_open = ipoib_open,
	.ndo_stop = ipoib_stop,
	.ndo_start_xmit = ipoib_start_xmit,
	.ndo_tx_timeout = ipoib_tx_timeout,
	.ndo_change_mtu = ipoib_change_mtu,
	.ndo_fix_features = ipoib_fix_features,
	.ndo_set_mac_address = ipoib_set_mac_address,
	IPOIB_NDO_SET_RX_MODE,
	.ndo_get_stats64 = ipoib_get_stats64,
	.ndo_get_iflink = ipoib_get_iflink,
};

/**
 * ipoib_dev_is_ours() - is this net device one of this driver's?
 * @dev: any net device
 *
 * Return: true if its private part is a struct ipoib_netdev.
 */
bool ipoib_dev_is_ours(const struct net_device *dev)
{
	return dev->netdev_ops == &ipoib_netdev_ops;
}

/**
 * ipoib_netdev_setup() - what all interfaces have, known without a port
 * @dev: just allocated
 *
 * Context: process.
 */
void ipoib_netdev_setup(struct net_device *dev)
{
	struct ipoib_netdev *priv = ipoib_priv(dev);

	dev->netdev_ops = &ipoib_netdev_ops;
	dev->header_ops = &ipoib_header_ops;
	dev->ethtool_ops = &ipoib_ethtool_ops;
	dev->rtnl_link_ops = &ipoib_link_ops;
	dev->type = ARPHRD_INFINIBAND;
	dev->addr_len = INFINIBAND_ALEN;
	dev->hard_header_len = IPOIB_HARD_LEN;
	dev->flags |= IFF_BROADCAST | IFF_MULTICAST;
	dev->tx_queue_len = DEFAULT_TX_QUEUE_LEN;
	dev->watchdog_timeo = 10 * HZ;
	dev->min_mtu = IPOIB_MIN_MTU;
	dev->max_mtu = IPOIB_CM_MTU;
	dev->needs_free_netdev = true;
	dev->priv_destructor = ipoib_dev_destroy;
	netif_keep_dst(dev);

	priv->dev = dev;
	INIT_LIST_HEAD(&priv->list);
	INIT_WORK(&priv->link_work, ipoib_link_work);
	INIT_WORK(&priv->timeout_work, ipoib_timeout_work);
	INIT_WORK(&priv->delete_work, ipoib_vlan_delete_work);
	INIT_WORK(&priv->pmtu_work, ipoib_pmtu_work);
	skb_queue_head_init(&priv->pmtu_queue);
}

/**
 * ipoib_netdev_alloc() - allocate an interface
 * @name: its name, may be a format
 *
 * Context: process.
 *
 * Return: the net device, for ipoib_netdev_bind(), or NULL.
 */
struct net_device *ipoib_netdev_alloc(const char *name)
{
	return alloc_netdev_mqs(sizeof(struct ipoib_netdev), name,
				NET_NAME_UNKNOWN, ipoib_netdev_setup, 1, 1);
}

/**
 * ipoib_netdev_bind() - give an interface its port and P_Key before it is registered
 * @priv: the interface
 * @port: its port
 * @parent: its parent, NULL for a parent
 * @pkey: its P_Key with the full-membership bit
 *
 * Takes no references: registration does that, and gives them back when it
 * fails.
 *
 * Context: process; under rtnl if there is a parent.
 *
 * Return: 0 or -errno.
 */
int ipoib_netdev_bind(struct ipoib_netdev *priv, struct ipoib_port *port,
		      struct ipoib_netdev *parent, u16 pkey)
{
	struct net_device *dev = priv->dev;
	int err;

	err = netif_set_real_num_tx_queues(dev, 1);
	if (!err)
		err = netif_set_real_num_rx_queues(dev, 1);
	if (err)
		return err;
	priv->port = port;
	priv->parent = parent;
	priv->pkey = pkey;
	priv->mcast_mtu = ipoib_ud_mtu(port->max_mtu);
	priv->admin_mtu = priv->mcast_mtu;
	dev->mtu = priv->mcast_mtu;
	ipoib_mtu_limits(priv);
	dev->dev_id = port->num - 1;
	dev->dev_port = port->num - 1;
	ipoib_broadcast_addr(dev->broadcast, pkey);
	dev->sysfs_groups[0] = &ipoib_sysfs_group;
	netif_carrier_off(dev);
	return 0;
}

/**
 * ipoib_netdev_register() - register an interface and put it on its port's list
 * @priv: the interface, bound
 *
 * What is on the list is looked at under RCU, and a net device whose
 * registration failed is freed without a grace period: it never gets there.
 *
 * Context: process, under rtnl.
 *
 * Return: 0, or -errno; free_netdev() is left to the caller then.
 */
int ipoib_netdev_register(struct ipoib_netdev *priv)
{
	int err;

	ASSERT_RTNL();
	err = register_netdevice(priv->dev);
	if (!err)
		list_add_tail_rcu(&priv->list, &priv->port->netdevs);
	return err;
}
