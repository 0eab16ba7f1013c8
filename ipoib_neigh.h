/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Neighbours: 20-octet link-layer address -> address handle or connection. */
#ifndef IPOIB_NEIGH_H
#define IPOIB_NEIGH_H

#include <linux/if_infiniband.h>
#include <linux/rhashtable.h>
#include <linux/skbuff.h>
#include <linux/workqueue.h>

struct ipoib_ah;
struct ipoib_cm_tx;
struct ipoib_netdev;
struct ipoib_path;

#define IPOIB_NEIGH_QUEUE_LEN	16	/* packets that wait for one address */

/**
 * struct ipoib_neigh - one unicast destination
 * @node: in &struct ipoib_neigh_table.hash
 * @rcu: freed after a grace period
 * @ref: one for the table, one for each holder
 * @priv: the interface
 * @lladdr: the key
 * @lock: guards @ah, @tx, @queue and @path
 * @ah: NULL until the path is known
 * @tx: active connection, NULL in datagram mode or for a UD-only peer
 * @queue: packets that wait for the path, or for a connection that their size
 *	needs; at most IPOIB_NEIGH_QUEUE_LEN
 * @used: jiffies of the last packet
 */
struct ipoib_neigh {
	struct rhash_head node;
	struct rcu_head rcu;
	refcount_t ref;
	struct ipoib_netdev *priv;
	u8 lladdr[INFINIBAND_ALEN];
	spinlock_t lock;
	struct ipoib_ah __rcu *ah;
	struct ipoib_cm_tx __rcu *tx;
	struct ipoib_path *path;
	struct list_head path_node;
	struct sk_buff_head queue;
	unsigned long used;
	unsigned long cm_retry;		/* jiffies: no new connection before */
	u8 cm_failures;			/* in a row; sets the back-off */
};

/**
 * struct ipoib_neigh_table - neighbours of an interface
 * @hash: by link-layer address; read under RCU
 * @gc_work: on the interface's queue; ages entries by use
 */
struct ipoib_neigh_table {
	struct rhashtable hash;
	struct delayed_work gc_work;
};

int ipoib_neigh_init(struct ipoib_netdev *priv);
void ipoib_neigh_uninit(struct ipoib_netdev *priv);
void ipoib_neigh_start(struct ipoib_netdev *priv);
void ipoib_neigh_stop(struct ipoib_netdev *priv);
void ipoib_neigh_flush(struct ipoib_netdev *priv);
void ipoib_neigh_xmit(struct ipoib_netdev *priv, struct sk_buff *skb,
		      const u8 *lladdr);
void ipoib_neigh_put(struct ipoib_neigh *neigh);

/* Called by the path table when a path that @neigh waits for is decided. */
void ipoib_neigh_path_done(struct ipoib_neigh *neigh, struct ipoib_path *path,
			   int err);

/* Called by the connection of @neigh; see ipoib_cm.h. */
void ipoib_neigh_tx_up(struct ipoib_neigh *neigh);
void ipoib_neigh_tx_gone(struct ipoib_neigh *neigh, struct ipoib_cm_tx *tx,
			 bool failed);

#endif /* IPOIB_NEIGH_H */
