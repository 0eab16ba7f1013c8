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
struct ipoib_netdev;

#define IPOIB_MCAST_QUEUE_LEN	64	/* packets that wait for one group */
#define IPOIB_MCAST_SEND_MAX	1024	/* groups that are only sent to */

/**
 * enum ipoib_mcast_state - membership of a group
 * @IPOIB_MCAST_IDLE: no request is with the SA; a join is due
 * @IPOIB_MCAST_JOINING: a request is with the SA
 * @IPOIB_MCAST_ANSWERED: the SA answered; the answer waits for the work
 * @IPOIB_MCAST_JOINED: member
 */
enum ipoib_mcast_state {
	IPOIB_MCAST_IDLE,
	IPOIB_MCAST_JOINING,
	IPOIB_MCAST_ANSWERED,
	IPOIB_MCAST_JOINED,
};

/**
 * struct ipoib_mcast_group - one multicast group
 * @node: in &struct ipoib_mcast.hash
 * @rcu: freed after a grace period
 * @priv: the interface
 * @mgid: the key
 * @list: on &struct ipoib_mcast.groups
 * @todo: on &struct ipoib_mcast.todo while ANSWERED, or when a membership of
 *	another kind is needed
 * @state: set by one setter, under the machine's lock
 * @send_only: nobody listens here
 * @wanted: in the kernel's list; restart work
 * @member: what the SA keeps for us, or NULL; works of the machine
 * @status: @answer: of the SA
 * @attached: the QP receives the group, by LID @mlid; works of the machine
 * @ah: NULL until joined; kept while the group is joined again
 * @queue: packets that wait for @ah; at most IPOIB_MCAST_QUEUE_LEN
 * @due: jiffies of the next join
 * @failures: joins in a row that failed; sets the back-off
 * @used: jiffies of the last packet
 * @created: jiffies
 */
struct ipoib_mcast_group {
	struct rhash_head node;
	struct rcu_head rcu;
	struct ipoib_netdev *priv;
	union ib_gid mgid;
	struct list_head list;
	struct list_head todo;
	enum ipoib_mcast_state state;
	bool send_only;
	bool wanted;
	struct ib_sa_multicast *member;
	int status;
	struct ib_sa_mcmember_rec answer;
	bool attached;
	u16 mlid;
	struct ipoib_ah __rcu *ah;
	struct sk_buff_head queue;
	unsigned long due;
	unsigned int failures;
	unsigned long used;
	unsigned long created;
};

/**
 * struct ipoib_mcast - the join machine of an interface
 * @lock: guards everything but what says otherwise; BH
 * @hash: groups by MGID; read under RCU, written under @lock
 * @groups: all groups, the broadcast group included; entries are taken out by
 *	the machine's works only, or when those are cancelled
 * @todo: groups with an answer
 * @nsend: groups that are only sent to
 * @broadcast: the broadcast group; NULL while the interface is down
 * @link: record of the broadcast group; others are joined with its parameters
 * @link_known: @link is valid
 * @join_work: on the interface's queue; takes answers, joins what is due
 * @restart_work: on the interface's queue; compares with the kernel's list
 * @running: between ipoib_mcast_start() and ipoib_mcast_stop()
 */
struct ipoib_mcast {
	spinlock_t lock;	/* everything but what says otherwise; BH */
	struct rhashtable hash;
	struct list_head groups;
	struct list_head todo;
	unsigned int nsend;
	struct ipoib_mcast_group *broadcast;
	struct ib_sa_mcmember_rec link;
	bool link_known;
	struct delayed_work join_work;
	struct delayed_work restart_work;
	bool running;
};

/* ipoib_mcast.c: groups, sending, the kernel's list */
int ipoib_mcast_init(struct ipoib_netdev *priv);
void ipoib_mcast_uninit(struct ipoib_netdev *priv);
void ipoib_mcast_start(struct ipoib_netdev *priv);
void ipoib_mcast_stop(struct ipoib_netdev *priv);
void ipoib_mcast_set_rx_mode(struct ipoib_netdev *priv);
void ipoib_mcast_set_umcast(struct ipoib_netdev *priv, bool on);
void ipoib_mcast_xmit(struct ipoib_netdev *priv, struct sk_buff *skb,
		      const u8 *lladdr);
void ipoib_mcast_show(struct ipoib_netdev *priv, struct seq_file *m);
u8 ipoib_mcast_traffic_class(struct ipoib_netdev *priv);
struct ipoib_mcast_group *ipoib_mcast_broadcast(struct ipoib_netdev *priv);
void ipoib_mcast_group_free(struct ipoib_mcast_group *group);
void ipoib_mcast_group_unlink(struct ipoib_mcast_group *group);

/* ipoib_mcast_join.c: membership */
void ipoib_mcast_set_state(struct ipoib_mcast_group *group,
			   enum ipoib_mcast_state state);
void ipoib_mcast_kick(struct ipoib_netdev *priv, unsigned long delay);
void ipoib_mcast_rejoin(struct ipoib_netdev *priv);
void ipoib_mcast_leave(struct ipoib_mcast_group *group);
void ipoib_mcast_link_down(struct ipoib_netdev *priv);
void ipoib_mcast_join_work(struct work_struct *work);

#endif /* IPOIB_MCAST_H */
