// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Asynchronous events of an HCA. The handler, in whatever context, only notes
 * what is to be looked at; one work for each port does it, under rtnl. Events
 * that come in the meantime are taken together, and what is done depends on
 * the state that is found, not on the event.
 *
 *   light   the SM changed or wants to be told again: paths are asked for
 *           again, and groups joined that are not; connections and carrier stay
 *   normal  the port went up or down or changed its LID: if its LID or GID is
 *           another, neighbours and paths are dropped; else they may work still
 *           and it is treated as light
 *   heavy   the P_Key table changed: an interface whose key moved, came or
 *           went is restarted, others are treated as light
 *   gid     the GID table changed: an interface whose address changed tells
 *           the stack and is treated as normal
 *   fatal   the HCA answers no more
 */
#include <linux/rtnetlink.h>
#include <rdma/ib_cache.h>

#include "ipoib.h"

static int ipoib_event_level(enum ib_event_type event)
{
	switch (event) {
	case IB_EVENT_SM_CHANGE:
	case IB_EVENT_CLIENT_REREGISTER:
		return IPOIB_EV_LIGHT;
	case IB_EVENT_PORT_ERR:
	case IB_EVENT_PORT_ACTIVE:
	case IB_EVENT_LID_CHANGE:
		return IPOIB_EV_NORMAL;
	case IB_EVENT_PKEY_CHANGE:
		return IPOIB_EV_HEAVY;
	case IB_EVENT_GID_CHANGE:
		return IPOIB_EV_GID;
	case IB_EVENT_DEVICE_FATAL:
		return IPOIB_EV_FATAL;
	default:
		return -1;
	}
}

/**
 * ipoib_event_post() - have something looked at
 * @port: the port
 * @bit: what
 *
 * Context: any.
 */
void ipoib_event_post(struct ipoib_port *port, enum ipoib_event_bit bit)
{
	set_bit(bit, &port->events);
	queue_work(ipoib_rtnl_wq, &port->event_work);
}

/**
 * ipoib_event_handler() - take an event of the HCA
 * @handler: &struct ipoib_device.event_handler
 * @event: the event
 *
 * Context: any.
 */
void ipoib_event_handler(struct ib_event_handler *handler,
			 struct ib_event *event)
{
	struct ipoib_device *idev = container_of(handler, struct ipoib_device,
						 event_handler);
	int level = ipoib_event_level(event->event);
	struct ipoib_port *port;

	if (level < 0)
		return;
	list_for_each_entry(port, &idev->ports, list)
		if (level == IPOIB_EV_FATAL ||
		    port->num == event->element.port_num)
			ipoib_event_post(port, level);
}

/*
 * The stack maps its groups to link-layer addresses by the broadcast address:
 * what it has put on the list is taken back first, and put there again after.
 */
static void ipoib_event_take_pkey(struct ipoib_netdev *priv, u16 pkey)
{
	struct net_device *dev = priv->dev;
	bool remap = dev->flags & IFF_UP;

	if (remap)
		call_netdevice_notifiers(NETDEV_PRE_TYPE_CHANGE, dev);
	priv->pkey = pkey;
	ipoib_broadcast_addr(dev->broadcast, pkey);
	if (remap)
		call_netdevice_notifiers(NETDEV_POST_TYPE_CHANGE, dev);
}

/* A parent follows the key at index 0, a child the index of its own key. */
static int ipoib_event_refresh_pkey(struct ipoib_netdev *priv)
{
	struct ipoib_port *port = priv->port;
	u16 pkey, index = 0;
	int err;

	if (ipoib_is_child(priv)) {
		err = ib_find_pkey(port->ca, port->num, priv->pkey, &index);
	} else {
		err = ib_query_pkey(port->ca, port->num, 0, &pkey);
		if (err)
			return err;
		/* Key 0 is no key: the entry is empty. */
		err = pkey & ~IPOIB_PKEY_FULL ? 0 : -ENOENT;
		if (!err && priv->pkey != (pkey | IPOIB_PKEY_FULL))
			ipoib_event_take_pkey(priv, pkey | IPOIB_PKEY_FULL);
	}
	priv->pkey_index = index;
	if (err)
		clear_bit(IPOIB_F_PKEY, &priv->flags);
	else
		set_bit(IPOIB_F_PKEY, &priv->flags);
	return 0;
}

/* An interface ID that was given stays; the subnet prefix is the port's. */
static int ipoib_event_refresh_gid(struct ipoib_netdev *priv)
{
	struct ipoib_port *port = priv->port;
	union ib_gid gid;
	int err;

	err = rdma_query_gid(port->ca, port->num, 0, &gid);
	if (err)
		return err;
	if (test_bit(IPOIB_F_ADDR_SET, &priv->flags))
		gid.global.interface_id = priv->gid.global.interface_id;
	priv->gid = gid;
	return 0;
}

/* Bring the link-layer address in line. Return: whether it changed. */
static bool ipoib_event_refresh_addr(struct ipoib_netdev *priv)
{
	u8 flags = ipoib_cm_capable(priv) ? IPOIB_ADDR_FLAG_RC : 0;
	u8 lladdr[INFINIBAND_ALEN];

	ipoib_addr_set(lladdr, flags, priv->ud.qp->qp_num, &priv->gid);
	if (!memcmp(lladdr, priv->dev->dev_addr, sizeof(lladdr)))
		return false;
	dev_addr_set(priv->dev, lladdr);
	return true;
}

/**
 * ipoib_event_refresh_port() - read what the port is like now
 * @priv: the interface
 *
 * Writes LID, GID, P_Key and its index, link-layer and broadcast address. A
 * port that is not active takes the link away.
 *
 * Context: rtnl held.
 * Return: 0 (IPOIB_F_PKEY tells if the P_Key is there), or an error of the HCA.
 */
int ipoib_event_refresh_port(struct ipoib_netdev *priv)
{
	struct ipoib_port *port = priv->port;
	struct ib_port_attr attr;
	u16 pkey = priv->pkey;
	int err;

	ASSERT_RTNL();
	err = ib_query_port(port->ca, port->num, &attr);
	if (!err)
		err = ipoib_event_refresh_gid(priv);
	if (!err)
		err = ipoib_event_refresh_pkey(priv);
	if (err)
		return err;
	priv->lid = attr.lid;
	if (attr.state != IB_PORT_ACTIVE)
		ipoib_mcast_link_down(priv);
	else
		ipoib_cm_probe_active(port);
	if (ipoib_event_refresh_addr(priv) || pkey != priv->pkey)
		call_netdevice_notifiers(NETDEV_CHANGEADDR, priv->dev);
	return 0;
}

static void ipoib_event_light(struct ipoib_netdev *priv)
{
	ipoib_path_refresh(priv);
	ipoib_mcast_rejoin(priv);
}

static void ipoib_event_normal(struct ipoib_netdev *priv)
{
	ipoib_neigh_flush(priv);
	ipoib_path_flush(priv);
	ipoib_mcast_rejoin(priv);
	/* Peers send to the old address until they hear of the new one. */
	if (netif_carrier_ok(priv->dev))
		__netdev_notify_peers(priv->dev);
}

/* Does the QP have to be taken down and up, for its key, or for want of one? */
static bool ipoib_event_needs_restart(const struct ipoib_netdev *priv,
				      u16 pkey, u16 index)
{
	bool present = test_bit(IPOIB_F_PKEY, &priv->flags);

	if (present != ipoib_is_open(priv))
		return true;
	return present && (priv->pkey != pkey || priv->pkey_index != index);
}

static void ipoib_event_apply(struct ipoib_netdev *priv)
{
	u16 pkey = priv->pkey, index = priv->pkey_index;
	union ib_gid gid = priv->gid;
	u32 lid = priv->lid;
	int err;

	err = ipoib_event_refresh_port(priv);
	if (err) {
		ipoib_warn(priv, "port could not be read: %d\n", err);
		return;
	}
	if (!netif_running(priv->dev))
		return;
	if (ipoib_event_needs_restart(priv, pkey, index))
		ipoib_restart(priv);
	else if (!ipoib_is_open(priv))
		return;
	else if (lid != priv->lid || memcmp(&gid, &priv->gid, sizeof(gid)))
		ipoib_event_normal(priv);
	else
		ipoib_event_light(priv);
}

/* Verbs fail or never answer from now on; what is left is taken apart. */
static void ipoib_event_fatal(struct ipoib_port *port)
{
	struct ipoib_netdev *priv;

	if (READ_ONCE(port->dead))
		return;
	WRITE_ONCE(port->dead, true);
	ipoib_cm_port_dead(port);
	rtnl_lock();
	list_for_each_entry(priv, &port->netdevs, list)
		ipoib_mcast_link_down(priv);
	rtnl_unlock();
}

static void ipoib_event_work(struct work_struct *work)
{
	struct ipoib_port *port = container_of(work, struct ipoib_port,
					       event_work);
	unsigned long events = xchg(&port->events, 0);
	struct ipoib_netdev *priv;

	if (events & BIT(IPOIB_EV_FATAL))
		ipoib_event_fatal(port);
	if (READ_ONCE(port->dead))
		return;
	rtnl_lock();
	list_for_each_entry(priv, &port->netdevs, list)
		ipoib_event_apply(priv);
	rtnl_unlock();
}

/**
 * ipoib_event_init() - make ready for events
 * @port: the port
 */
void ipoib_event_init(struct ipoib_port *port)
{
	INIT_WORK(&port->event_work, ipoib_event_work);
}

/**
 * ipoib_event_stop() - look at nothing any more
 * @port: the port; its event handler is unregistered
 *
 * Context: process context, without rtnl.
 */
void ipoib_event_stop(struct ipoib_port *port)
{
	cancel_work_sync(&port->event_work);
}
