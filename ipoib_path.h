/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Path records of the subnet administrator, one for each destination GID. */
#ifndef IPOIB_PATH_H
#define IPOIB_PATH_H

#include <linux/completion.h>
#include <linux/refcount.h>
#include <linux/rhashtable.h>
#include <linux/seq_file.h>
#include <linux/workqueue.h>
#include <rdma/ib_sa.h>

struct ipoib_ah;
struct ipoib_neigh;
struct ipoib_netdev;

/**
 * enum ipoib_path_state - what is known of a path
 * @IPOIB_PATH_QUERY: never answered; a query is under way or due
 * @IPOIB_PATH_VALID: answered
 * @IPOIB_PATH_REFRESH: answered before; usable while it is asked again
 * @IPOIB_PATH_FAILED: the SA said no or nothing; asked again after a back-off
 */
enum ipoib_path_state {
	IPOIB_PATH_QUERY,
	IPOIB_PATH_VALID,
	IPOIB_PATH_REFRESH,
	IPOIB_PATH_FAILED,
};

/**
 * struct ipoib_path - a path to one GID
 * @node: in &struct ipoib_path_table.hash
 * @rcu: freed after a grace period
 * @ref: one for the table, one for the query, one for the pending work
 * @priv: the interface
 * @dgid: the key
 * @state: set by one setter, under the table's lock
 * @rec: the record; valid in VALID and REFRESH
 * @ah: its address handle; valid in VALID and REFRESH
 * @neighs: neighbours that use it (&struct ipoib_neigh.path_node)
 * @list: on &struct ipoib_path_table.list
 * @query: of the SA, NULL if none is under way; @query_id names it
 * @querying: from before the query is sent until it is answered
 * @answered: @status and @answer wait for the work
 * @dead: out of the table
 * @work: on the interface's queue; takes the answer, sends the next query
 * @failures: queries in a row without a record; sets the back-off
 * @checked: jiffies of the last refresh because of another SLID
 */
struct ipoib_path {
	struct rhash_head node;
	struct rcu_head rcu;
	refcount_t ref;
	struct ipoib_netdev *priv;
	union ib_gid dgid;
	enum ipoib_path_state state;
	struct sa_path_rec rec;
	struct ipoib_ah *ah;
	struct list_head neighs;
	struct list_head list;
	struct ib_sa_query *query;
	int query_id;
	bool querying;
	bool answered;
	bool dead;
	int status;
	struct sa_path_rec answer;
	struct delayed_work work;
	unsigned int failures;
	unsigned long checked;
};

/**
 * struct ipoib_path_table - paths of an interface
 * @lock: guards the list, all fields of every path, and path and path_node of
 *	every neighbour; BH; outside &struct ipoib_neigh.lock
 * @hash: by destination GID; written under @lock
 * @list: all paths, for flushes and debugfs
 * @live: paths that have not been freed, and one for the table itself
 * @gone: completed when @live is 0
 */
struct ipoib_path_table {
	spinlock_t lock;	/* list and paths; BH */
	struct rhashtable hash;
	struct list_head list;
	refcount_t live;
	struct completion gone;
};

int ipoib_path_init(struct ipoib_netdev *priv);
void ipoib_path_uninit(struct ipoib_netdev *priv);
int ipoib_path_attach(struct ipoib_netdev *priv, const union ib_gid *dgid,
		      struct ipoib_neigh *neigh);
void ipoib_path_detach(struct ipoib_neigh *neigh);
bool ipoib_path_get_rec(struct ipoib_neigh *neigh, struct sa_path_rec *rec);
void ipoib_path_refresh(struct ipoib_netdev *priv);
void ipoib_path_refresh_neigh(struct ipoib_neigh *neigh);
void ipoib_path_flush(struct ipoib_netdev *priv);
void ipoib_path_check_slid(struct ipoib_netdev *priv, const union ib_gid *sgid,
			   u32 slid);
void ipoib_path_show(struct ipoib_netdev *priv, struct seq_file *m);

#endif /* IPOIB_PATH_H */
