/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Multicast groups of an interface: joins, leaves, sending. */
#ifndef IPOIB_MCAST_H
#define IPOIB_MCAST_H

#include <linux/list.h>
#include <linux/rhashtable.h>
#include <linux/seq_file.h>
#include <linux/skbuff.h>
#include <linux/workqueue.h>
#include <rdma/ib_sa.h>

struct ipoib_ah;
struct ipoib_mcast_group;
struct ipoib_netdev;

/**
 * struct ipoib_mcast - the join machine of an interface
 * @lock: guards @groups and every group's state; BH
 * @groups: all groups, the broadcast group included
 * @broadcast: the broadcast group; NULL while the interface is down
 * @join_work: on the interface's queue; joins what is due
 * @restart_work: on the interface's queue; compares with the kernel's list
 * @running: between ipoib_mcast_start() and ipoib_mcast_stop()
 */
struct ipoib_mcast {
	spinlock_t lock;
	struct list_head groups;
	struct ipoib_mcast_group *broadcast;
	struct delayed_work join_work;
	struct work_struct restart_work;
	bool running;
};

int ipoib_mcast_init(struct ipoib_netdev *priv);
void ipoib_mcast_uninit(struct ipoib_netdev *priv);
void ipoib_mcast_start(struct ipoib_netdev *priv);
void ipoib_mcast_stop(struct ipoib_netdev *priv);
void ipoib_mcast_rejoin(struct ipoib_netdev *priv);
void ipoib_mcast_set_rx_mode(struct ipoib_netdev *priv);
void ipoib_mcast_xmit(struct ipoib_netdev *priv, struct sk_buff *skb,
		      const u8 *lladdr);
u8 ipoib_mcast_traffic_class(struct ipoib_netdev *priv);
void ipoib_mcast_show(struct ipoib_netdev *priv, struct seq_file *m);

#endif /* IPOIB_MCAST_H */
