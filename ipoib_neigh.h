/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Neighbours: 20-octet link-layer address -> address handle or connection. */
#ifndef IPOIB_NEIGH_H
#define IPOIB_NEIGH_H

#include <linux/if_infiniband.h>
#include <linux/refcount.h>
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
 * @priv: the interface; valid while @dead is not set
 * @lladdr: the key
 * @path: the path that it waits for or uses; lock of the path table
 * @path_node: on &struct ipoib_path.neighs; lock of the path table
 * @path_closed: no path may be attached any more; lock of the path table
 * @lock: guards the rest, but @used; BH; inside the lock of the path table
 * @dead: out of the table
 * @ah: NULL until the path is known
 * @tx: active connection, NULL in datagram mode or for a UD-only peer
 * @queue: packets that wait for the path, or for a connection that their size
 *	needs; at most IPOIB_NEIGH_QUEUE_LEN
 * @cm_retry: jiffies; no new connection before; 0 if there is no back-off
 * @cm_failures: connections in a row that failed; sets the back-off
 * @cm_first: jiffies of the first of them
 * @cm_refused: the last of them failed, but datagrams reach the peer
 * @cm_up: jiffies when the present connection came up; 0 if it has not
 * @used: jiffies of the last packet
 * @flush_node: on the list of a flush
 */
struct ipoib_neigh {
	struct rhash_head node;
	struct rcu_head rcu;
	refcount_t ref;
	struct ipoib_netdev *priv;
	u8 lladdr[INFINIBAND_ALEN];
	struct ipoib_path *path;
	struct list_head path_node;
	bool path_closed;
	spinlock_t lock;	/* what follows, but used; BH */
	bool dead;
	struct ipoib_ah __rcu *ah;
	struct ipoib_cm_tx __rcu *tx;
	struct sk_buff_head queue;
	unsigned long cm_retry;
	unsigned int cm_failures;
	unsigned long cm_first;
	bool cm_refused;
	unsigned long cm_up;
	unsigned long used;
	struct list_head flush_node;
};

/**
 * struct ipoib_neigh_table - neighbours of an interface
 * @hash: by link-layer address; read under RCU; who takes an entry out drops
 *	the reference of the table
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

/* Called by the path table, under its lock, when the path of @neigh changed. */
void ipoib_neigh_path_done(struct ipoib_neigh *neigh, struct ipoib_ah *ah,
			   int err, struct sk_buff_head *ready);
void ipoib_neigh_resend(struct ipoib_netdev *priv, struct sk_buff_head *ready);

/* Called by the connection of @neigh; see ipoib_cm.h. */
void ipoib_neigh_tx_up(struct ipoib_neigh *neigh);
void ipoib_neigh_tx_gone(struct ipoib_neigh *neigh, struct ipoib_cm_tx *tx,
			 bool failed, bool refused);

#endif /* IPOIB_NEIGH_H */
