/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * IP over InfiniBand: the objects that files share, and who owns them.
 *
 *   ib_client -> device -> port -> netdev (parent or P_Key child)
 *
 * Lock order, outermost first (each lock says at its declaration what it
 * guards):
 *
 *   1. rtnl
 *   2. netdev transmit queue lock
 *   3. ipoib_path_table.lock, ipoib_mcast.lock
 *   4. ipoib_neigh.lock
 *   5. ipoib_cm_tx.lock; ipoib_cm_rx.lock (interrupts off)
 *   6. ipoib_cm_port.lock (lists of connections)
 *   7. ipoib_cm_ring.lock
 *   8. ipoib_drain.lock (interrupts off)
 *
 * ipoib_cm_ring.fill_lock is a mutex of workers that hold none of these.
 *
 * Work queues: work on &struct ipoib_netdev.wq never takes rtnl and may be
 * flushed under it; work on ipoib_rtnl_wq may take rtnl, holds a reference to
 * what it works on, and is never waited for under rtnl; the reaper and accept
 * queues belong to the port (ipoib_cm.h).
 */
#ifndef IPOIB_H
#define IPOIB_H

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <linux/workqueue.h>
#include <rdma/ib_sa.h>
#include <rdma/ib_verbs.h>

#include "ipoib_proto.h"
#include "ipoib_stats.h"
#include "ipoib_ud.h"
#include "ipoib_neigh.h"
#include "ipoib_path.h"
#include "ipoib_mcast.h"
#include "ipoib_cm.h"

#define IPOIB_DRV_NAME		"ib_ipoib"
#define IPOIB_VERSION		"0.1.0"

#define IPOIB_MAX_QUEUE_SIZE	8192u
#define IPOIB_MIN_QUEUE_SIZE	2u
#define IPOIB_MIN_SENDQ_SIZE	128u

#define IPOIB_PMTU_QUEUE_LEN	64
#define IPOIB_DEBUGFS_FILES	5

/* Module parameters, made valid at load. */
extern unsigned int ipoib_sendq_size;
extern unsigned int ipoib_recvq_size;
extern unsigned int ipoib_max_nonsrq_conn_qp;

/* Works that take rtnl; unbound. */
extern struct workqueue_struct *ipoib_rtnl_wq;
extern struct ib_sa_client ipoib_sa_client;

/**
 * struct ipoib_device - one HCA
 * @ca: the HCA; valid until the client's remove callback returns
 * @ports: its InfiniBand ports; written at add and remove only
 * @event_handler: registered while the device is ours
 */
struct ipoib_device {
	struct ib_device *ca;
	struct list_head ports;
	struct ib_event_handler event_handler;
};

/* Bits of &struct ipoib_port.events, from lightest to heaviest. */
enum ipoib_event_bit {
	IPOIB_EV_LIGHT,		/* SM change, reregister: paths asked again, groups joined again */
	IPOIB_EV_NORMAL,	/* port or LID change: paths dropped too */
	IPOIB_EV_HEAVY,		/* P_Key change: QP rewritten where its key moved */
	IPOIB_EV_GID,		/* GID table change: link-layer address rewritten */
	IPOIB_EV_FATAL,		/* the HCA answers no more */
};

/**
 * struct ipoib_port - one InfiniBand port of an HCA
 * @ref: one for the device, one for each netdev until its destructor has run
 * @gone: completed when the last reference is dropped; the client's remove
 *	callback waits for it, outside rtnl
 * @list: on &struct ipoib_device.ports
 * @ca: the HCA
 * @num: port number, from 1
 * @pd: protection domain of everything on this port
 * @max_mtu: largest IB MTU of the port in octets; written at init
 * @netdevs: parent and children; written under rtnl, read under rtnl or RCU
 * @parent: the parent netdev; under rtnl
 * @events: bits of enum ipoib_event_bit that wait for @event_work
 * @event_work: on ipoib_rtnl_wq; acts on @events
 * @dead: set once when the HCA is gone; no verbs but destroy from then on
 * @cm: the connected-mode side
 * @stats: indexed by enum ipoib_port_stat
 */
struct ipoib_port {
	struct kref ref;
	struct completion gone;
	struct list_head list;
	struct ib_device *ca;
	u32 num;
	struct ib_pd *pd;
	unsigned int max_mtu;
	struct list_head netdevs;
	struct net_device *parent;
	unsigned long events;
	struct work_struct event_work;
	bool dead;
	struct ipoib_cm_port cm;
	atomic64_t stats[IPOIB_PORT_STAT_COUNT];
};

/* Bits of &struct ipoib_netdev.flags; written by atomic bit operations. */
enum ipoib_netdev_flag {
	IPOIB_F_OPEN,		/* between open and stop: UD QP posts are legal */
	IPOIB_F_CONNECTED,	/* mode is connected; written under rtnl */
	IPOIB_F_UMCAST,		/* leave groups alone that user space joined */
	IPOIB_F_PKEY,		/* the P_Key is in the port's table */
	IPOIB_F_LINK,		/* broadcast group joined, port active */
	IPOIB_F_CHILD_SYSFS,	/* made by create_child */
	IPOIB_F_CHILD_RTNL,	/* made by rtnetlink */
	IPOIB_F_REMOVING,	/* unregister has begun */
	IPOIB_F_ADDR_SET,	/* the interface ID was given by the administrator */
	IPOIB_F_RESTART,	/* the timeout work restarts without a look */
};

/**
 * struct ipoib_netdev - one IPoIB interface, parent or P_Key child
 * @dev: the net device that this is the private part of
 * @port: its port; a reference is held from ndo_init to the destructor
 * @parent: the parent interface, NULL for a parent; a netdev reference is held
 *	from ndo_init to the destructor
 * @parent_tracker: of that reference
 * @list: on &struct ipoib_port.netdevs
 * @flags: enum ipoib_netdev_flag
 * @pkey: P_Key with the full-membership bit; written under rtnl
 * @pkey_index: its index in the port's table; valid with IPOIB_F_PKEY
 * @gid: the port's GID 0; written under rtnl
 * @lid: the port's base LID; written by the event work
 * @qkey: Q_Key of the broadcast group; written by the multicast machine
 * @mcast_mtu: IPoIB MTU of the broadcast group in octets
 * @admin_mtu: the MTU that was asked for in datagram mode; under rtnl
 * @wq: ordered; joins, leaves, ageing; never takes rtnl
 * @link_work: on ipoib_rtnl_wq; brings MTU and carrier in line with the link
 * @timeout_work: on ipoib_rtnl_wq; restarts, after a transmit time-out only if
 *	no completion is found
 * @delete_work: on ipoib_rtnl_wq; unregisters a child for delete_child
 * @pmtu_work: on the interface's queue; answers the senders in @pmtu_queue
 * @pmtu_queue: packets that were too long; at most IPOIB_PMTU_QUEUE_LEN
 * @ud: datagram QP, its CQs and rings
 * @neighs: link-layer address -> address handle or connection
 * @paths: GID -> path record
 * @mcast: multicast groups
 * @cm: connected mode: listener and connections
 * @stats: counters
 * @debugfs: its files; under rtnl
 */
struct ipoib_netdev {
	struct net_device *dev;
	struct ipoib_port *port;
	struct ipoib_netdev *parent;
	netdevice_tracker parent_tracker;
	struct list_head list;
	unsigned long flags;
	u16 pkey;
	u16 pkey_index;
	union ib_gid gid;
	u32 lid;
	u32 qkey;
	unsigned int mcast_mtu;
	unsigned int admin_mtu;
	struct workqueue_struct *wq;
	struct work_struct link_work;
	struct work_struct timeout_work;
	struct work_struct delete_work;
	struct work_struct pmtu_work;
	struct sk_buff_head pmtu_queue;
	struct ipoib_ud ud;
	struct ipoib_neigh_table neighs;
	struct ipoib_path_table paths;
	struct ipoib_mcast mcast;
	struct ipoib_cm_netdev cm;
	struct ipoib_pcpu_stats __percpu *stats;
	struct dentry *debugfs[IPOIB_DEBUGFS_FILES];
};

static inline struct ipoib_netdev *ipoib_priv(const struct net_device *dev)
{
	return netdev_priv(dev);
}

static inline bool ipoib_is_child(const struct ipoib_netdev *priv)
{
	return priv->parent;
}

static inline bool ipoib_is_open(const struct ipoib_netdev *priv)
{
	return test_bit(IPOIB_F_OPEN, &priv->flags);
}

static inline bool ipoib_is_connected(const struct ipoib_netdev *priv)
{
	return test_bit(IPOIB_F_CONNECTED, &priv->flags);
}

/* ipoib_main.c: module, ib_client, ports */
void ipoib_port_get(struct ipoib_port *port);
void ipoib_port_put(struct ipoib_port *port);

/* ipoib_netdev.c: net_device_ops, header_ops, transmit dispatch */
bool ipoib_dev_is_ours(const struct net_device *dev);
void ipoib_netdev_setup(struct net_device *dev);
struct net_device *ipoib_netdev_alloc(const char *name);
int ipoib_netdev_bind(struct ipoib_netdev *priv, struct ipoib_port *port,
		      struct ipoib_netdev *parent, u16 pkey);
int ipoib_netdev_register(struct ipoib_netdev *priv);
void ipoib_link_update(struct ipoib_netdev *priv);
void ipoib_rtnl_work_queue(struct ipoib_netdev *priv, struct work_struct *work);
int ipoib_set_mode(struct ipoib_netdev *priv, bool connected,
		   struct netlink_ext_ack *extack);
bool ipoib_addr_known(struct ipoib_netdev *priv);
int ipoib_restart(struct ipoib_netdev *priv);
void ipoib_restart_async(struct ipoib_netdev *priv);
void ipoib_pmtu_feedback(struct ipoib_netdev *priv, struct sk_buff *skb,
			 unsigned int mtu);

/* ipoib_vlan.c: P_Key children */
int ipoib_child_register(struct ipoib_netdev *parent, struct net_device *dev,
			 u16 pkey, enum ipoib_netdev_flag kind);
int ipoib_vlan_create(struct ipoib_netdev *parent, u16 pkey);
int ipoib_vlan_delete(struct ipoib_netdev *parent, u16 pkey);
void ipoib_vlan_delete_work(struct work_struct *work);
void ipoib_vlan_follow(struct ipoib_netdev *parent, bool up);

/* ipoib_netlink.c */
extern struct rtnl_link_ops ipoib_link_ops;

/* ipoib_sysfs.c */
extern const struct attribute_group ipoib_sysfs_group;

/* ipoib_ethtool.c */
extern const struct ethtool_ops ipoib_ethtool_ops;

/* ipoib_debugfs.c */
void ipoib_debugfs_init(void);
void ipoib_debugfs_exit(void);
void ipoib_debugfs_remove(struct ipoib_netdev *priv);
void ipoib_debugfs_rename(struct ipoib_netdev *priv);

/* ipoib_event.c: asynchronous events, refresh levels */
void ipoib_event_init(struct ipoib_port *port);
void ipoib_event_post(struct ipoib_port *port, enum ipoib_event_bit bit);
void ipoib_event_handler(struct ib_event_handler *handler,
			 struct ib_event *event);
void ipoib_event_stop(struct ipoib_port *port);
int ipoib_event_refresh_port(struct ipoib_netdev *priv);

/* Log helpers: name the interface, rate limited. */
#define ipoib_warn(priv, fmt, ...) \
	do { \
		if (net_ratelimit()) \
			netdev_warn((priv)->dev, fmt, ##__VA_ARGS__); \
	} while (0)
#define ipoib_dbg(priv, fmt, ...) netdev_dbg((priv)->dev, fmt, ##__VA_ARGS__)

#endif /* IPOIB_H */
