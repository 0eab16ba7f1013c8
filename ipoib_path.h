/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Path records of the subnet administrator, one for each destination GID. */
#ifndef IPOIB_PATH_H
#define IPOIB_PATH_H

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
 * @ref: one for the table, one for each neighbour and query
 * @state: set by one setter, under the table's lock
 * @rec: the record; valid in VALID and REFRESH
 * @ah: its address handle; valid in VALID and REFRESH
 * @neighs: neighbours that use it (&struct ipoib_neigh.path_node)
 * @query: of the SA, NULL if none is under way; @query_id names it
 * @retry: sends the next query
 */
struct ipoib_path {
	struct rhash_head node;
	struct rcu_head rcu;
	refcount_t ref;
	struct ipoib_netdev *priv;
	enum ipoib_path_state state;
	struct sa_path_rec rec;
	struct ipoib_ah *ah;
	struct list_head neighs;
	struct list_head list;
	struct ib_sa_query *query;
	int query_id;
	struct completion done;
	struct delayed_work retry;
	unsigned int failures;
};

/**
 * struct ipoib_path_table - paths of an interface
 * @lock: guards the list, and state, record, handle, query and neighbours of
 *	every path; BH
 * @hash: by destination GID
 * @list: all paths, for flushes and debugfs
 */
struct ipoib_path_table {
	spinlock_t lock;
	struct rhashtable hash;
	struct list_head list;
	bool stopping;
};

int ipoib_path_init(struct ipoib_netdev *priv);
void ipoib_path_uninit(struct ipoib_netdev *priv);
int ipoib_path_attach(struct ipoib_netdev *priv, const union ib_gid *dgid,
		      struct ipoib_neigh *neigh);
void ipoib_path_detach(struct ipoib_neigh *neigh);
void ipoib_path_refresh(struct ipoib_netdev *priv);
void ipoib_path_flush(struct ipoib_netdev *priv);
void ipoib_path_check_slid(struct ipoib_netdev *priv, const union ib_gid *sgid,
			   u32 slid);
void ipoib_path_show(struct ipoib_netdev *priv, struct seq_file *m);

#endif /* IPOIB_PATH_H */
