// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Path records. A path is asked for when the first neighbour needs it and goes
 * with its last one. The answer of the subnet administrator is taken by work
 * on the interface's queue, which may sleep to make the address handle.
 */
#include <linux/random.h>
#include <linux/slab.h>
#include <rdma/ib_addr.h>

#include "ipoib.h"

#define IPOIB_PATH_QUERY_MS	1000
#define IPOIB_PATH_MAX_BACKOFF	5		/* 2^5 seconds */
#define IPOIB_PATH_SLID_PERIOD	(60 * HZ)	/* between refreshes by SLID */

static const struct rhashtable_params ipoib_path_params = {
	.key_len = sizeof(union ib_gid),
	.key_offset = offsetof(struct ipoib_path, dgid),
	.head_offset = offsetof(struct ipoib_path, node),
	.automatic_shrinking = true,
};

static const char *const ipoib_path_state_names[] = {
	[IPOIB_PATH_QUERY] = "query",
	[IPOIB_PATH_VALID] = "valid",
	[IPOIB_PATH_REFRESH] = "refresh",
	[IPOIB_PATH_FAILED] = "failed",
};

/* From each state to those that may follow it. */
static const u8 ipoib_path_next[] = {
	[IPOIB_PATH_QUERY] = BIT(IPOIB_PATH_VALID) | BIT(IPOIB_PATH_FAILED),
	[IPOIB_PATH_VALID] = BIT(IPOIB_PATH_REFRESH),
	[IPOIB_PATH_REFRESH] = BIT(IPOIB_PATH_VALID) | BIT(IPOIB_PATH_FAILED),
	[IPOIB_PATH_FAILED] = BIT(IPOIB_PATH_VALID),
};

static void ipoib_path_set_state(struct ipoib_path *path,
				 enum ipoib_path_state state)
{
	lockdep_assert_held(&path->priv->paths.lock);
	if (path->state == state)
		return;
	WARN_ON_ONCE(!(ipoib_path_next[path->state] & BIT(state)));
	ipoib_dbg(path->priv, "path %pI6c: %s -> %s\n", path->dgid.raw,
		  ipoib_path_state_names[path->state],
		  ipoib_path_state_names[state]);
	path->state = state;
}

static bool ipoib_path_usable(const struct ipoib_path *path)
{
	return path->state == IPOIB_PATH_VALID ||
	       path->state == IPOIB_PATH_REFRESH;
}

static void ipoib_path_table_put(struct ipoib_path_table *table)
{
	if (refcount_dec_and_test(&table->live))
		complete(&table->gone);
}

static void ipoib_path_put(struct ipoib_path *path)
{
	struct ipoib_path_table *table = &path->priv->paths;

	if (!refcount_dec_and_test(&path->ref))
		return;
	ipoib_ah_put(path->ah);
	kfree_rcu(path, rcu);
	ipoib_path_table_put(table);
}

/* Let the work run after @delay jiffies; pending work holds a reference. */
static void ipoib_path_kick(struct ipoib_path *path, unsigned long delay)
{
	lockdep_assert_held(&path->priv->paths.lock);
	if (!mod_delayed_work(path->priv->wq, &path->work, delay))
		refcount_inc(&path->ref);
}

/* 1, 2, 4 .. 32 seconds, and up to a quarter more so that hosts spread out. */
static unsigned long ipoib_path_backoff(unsigned int failures)
{
	unsigned long delay = HZ << min_t(unsigned int, failures,
					  IPOIB_PATH_MAX_BACKOFF);

	return delay + get_random_u32() % (delay / 4 + 1);
}

/* ---- queries ---- */

static void ipoib_path_answer(int status, struct sa_path_rec *rec,
			      struct ipoib_path *path)
{
	struct ipoib_path_table *table = &path->priv->paths;

	spin_lock_bh(&table->lock);
	path->querying = false;
	path->query = NULL;
	path->answered = true;
	path->status = status;
	if (!status && rec)
		path->answer = *rec;
	else if (!status)
		path->status = -ENODATA;
	if (!path->dead)
		ipoib_path_kick(path, 0);
	spin_unlock_bh(&table->lock);
	ipoib_path_put(path);
}

static void ipoib_path_callback(int status, struct sa_path_rec *rec,
				ipoib_path_nrec_t nrec, void *context)
{
	ipoib_path_answer(status, rec, context);
}

static void ipoib_path_fill_query(struct ipoib_path *path,
				  struct sa_path_rec *rec)
{
	struct ipoib_netdev *priv = path->priv;

	memset(rec, 0, sizeof(*rec));
	rec->rec_type = rdma_cap_opa_ah(priv->port->ca, priv->port->num) ?
			SA_PATH_REC_TYPE_OPA : SA_PATH_REC_TYPE_IB;
	rec->dgid = path->dgid;
	rec->sgid = priv->gid;
	rec->pkey = cpu_to_be16(priv->pkey);
	rec->numb_path = 1;
	rec->reversible = 1;
	rec->traffic_class = ipoib_mcast_traffic_class(priv);
}

/* Called by the work with querying set and a reference for the query. */
static void ipoib_path_query(struct ipoib_path *path)
{
	struct ipoib_netdev *priv = path->priv;
	struct ib_sa_query *query = NULL;
	struct sa_path_rec rec;
	bool cancel = false;
	int id;

	ipoib_path_fill_query(path, &rec);
	ipoib_stat_inc(priv, IPOIB_STAT_path_queries);
	id = ib_sa_path_rec_get(&ipoib_sa_client, priv->port->ca,
				priv->port->num, &rec,
				IB_SA_PATH_REC_DGID | IB_SA_PATH_REC_SGID |
				IB_SA_PATH_REC_NUMB_PATH |
				IB_SA_PATH_REC_REVERSIBLE |
				IB_SA_PATH_REC_TRAFFIC_CLASS |
				IB_SA_PATH_REC_PKEY,
				IPOIB_PATH_QUERY_MS, GFP_KERNEL,
				ipoib_path_callback, path, &query);
	if (id < 0) {
		ipoib_path_answer(id, NULL, path);
		return;
	}
	spin_lock_bh(&priv->paths.lock);
	if (path->querying) {
		path->query = query;
		path->query_id = id;
		cancel = path->dead;
	}
	spin_unlock_bh(&priv->paths.lock);
	if (cancel)
		ib_sa_cancel_query(id, query);
}

/* Hand @ah (NULL with @err) to all neighbours of @path. */
static void ipoib_path_tell(struct ipoib_path *path, struct ipoib_ah *ah,
			    int err, struct sk_buff_head *ready)
{
	struct ipoib_neigh *neigh;

	lockdep_assert_held(&path->priv->paths.lock);
	list_for_each_entry(neigh, &path->neighs, path_node)
		ipoib_neigh_path_done(neigh, ah, err, ready);
}

/*
 * Did the SA say no? Everything else is no answer: a timeout, a SM that is not
 * known yet, no memory, a cancelled or unsent query.
 */
static bool ipoib_path_denied(int status)
{
	return status == -EINVAL || status == -ENODATA;
}

/* No answer leaves a usable path as it is; an answer that says no ends it. */
static void ipoib_path_query_failed(struct ipoib_path *path)
{
	struct ipoib_netdev *priv = path->priv;
	struct ipoib_ah *old = NULL;
	struct sk_buff_head ready;

	ipoib_stat_inc(priv, IPOIB_STAT_path_failures);
	ipoib_dbg(priv, "path %pI6c: %d\n", path->dgid.raw, path->status);
	__skb_queue_head_init(&ready);
	spin_lock_bh(&priv->paths.lock);
	if (!path->dead) {
		if (!ipoib_path_usable(path) ||
		    ipoib_path_denied(path->status)) {
			if (path->state == IPOIB_PATH_VALID)
				ipoib_path_set_state(path, IPOIB_PATH_REFRESH);
			ipoib_path_set_state(path, IPOIB_PATH_FAILED);
			old = path->ah;
			path->ah = NULL;
			ipoib_path_tell(path, NULL, -EHOSTUNREACH, &ready);
		}
		ipoib_path_kick(path, ipoib_path_backoff(path->failures));
		path->failures++;
	}
	spin_unlock_bh(&priv->paths.lock);
	ipoib_ah_put(old);
}

static struct ipoib_ah *ipoib_path_make_ah(struct ipoib_path *path,
					   struct sa_path_rec *rec)
{
	struct ipoib_netdev *priv = path->priv;
	int mtu = ib_mtu_enum_to_int(rec->mtu);
	struct rdma_ah_attr attr;
	struct ipoib_ah *ah;
	int err;

	err = ib_init_ah_attr_from_path(priv->port->ca, priv->port->num, rec,
					&attr, NULL);
	if (err)
		return ERR_PTR(err);
	ah = ipoib_ah_create(priv, &attr, mtu > 0 ? ipoib_ud_mtu(mtu) :
			     priv->mcast_mtu);
	rdma_destroy_ah_attr(&attr);
	return ah;
}

static void ipoib_path_take_answer(struct ipoib_path *path)
{
	struct ipoib_netdev *priv = path->priv;
	struct sa_path_rec rec = path->answer;
	struct sk_buff_head ready;
	struct ipoib_ah *ah;

	if (path->status) {
		ipoib_path_query_failed(path);
		return;
	}
	ah = ipoib_path_make_ah(path, &rec);
	if (IS_ERR(ah)) {
		path->status = PTR_ERR(ah);
		ipoib_path_query_failed(path);
		return;
	}
	__skb_queue_head_init(&ready);
	spin_lock_bh(&priv->paths.lock);
	if (!path->dead) {
		path->rec = rec;
		path->failures = 0;
		swap(path->ah, ah);
		ipoib_path_set_state(path, IPOIB_PATH_VALID);
		ipoib_path_tell(path, path->ah, 0, &ready);
	}
	spin_unlock_bh(&priv->paths.lock);
	ipoib_ah_put(ah);
	ipoib_neigh_resend(priv, &ready);
}

/* Takes an answer if there is one, else sends a query if none is under way. */
static void ipoib_path_work(struct work_struct *work)
{
	struct ipoib_path *path = container_of(work, struct ipoib_path,
					       work.work);
	struct ipoib_path_table *table = &path->priv->paths;
	bool answered = false, query = false;

	spin_lock_bh(&table->lock);
	if (!path->dead && path->answered) {
		path->answered = false;
		answered = true;
	} else if (!path->dead && !path->querying) {
		path->querying = true;
		refcount_inc(&path->ref);
		query = true;
	}
	spin_unlock_bh(&table->lock);
	if (answered)
		ipoib_path_take_answer(path);
	else if (query)
		ipoib_path_query(path);
	ipoib_path_put(path);
}

/* ---- the table ---- */

static struct ipoib_path *ipoib_path_create(struct ipoib_netdev *priv,
					    const union ib_gid *dgid)
{
	struct ipoib_path_table *table = &priv->paths;
	struct ipoib_path *path;

	lockdep_assert_held(&table->lock);
	path = kzalloc(sizeof(*path), GFP_ATOMIC);
	if (!path)
		return NULL;
	refcount_set(&path->ref, 1);
	path->priv = priv;
	path->dgid = *dgid;
	path->state = IPOIB_PATH_QUERY;
	path->checked = jiffies - IPOIB_PATH_SLID_PERIOD;
	INIT_LIST_HEAD(&path->neighs);
	INIT_DELAYED_WORK(&path->work, ipoib_path_work);
	if (rhashtable_insert_fast(&table->hash, &path->node,
				   ipoib_path_params)) {
		kfree(path);
		return NULL;
	}
	list_add_tail(&path->list, &table->list);
	refcount_inc(&table->live);
	ipoib_path_kick(path, 0);
	return path;
}

/* What is to be cancelled after the lock is dropped. */
struct ipoib_path_cancel {
	struct ib_sa_query *query;
	int id;
};

/* Take @path out of the table and drop the table's reference. */
static void ipoib_path_remove(struct ipoib_path *path,
			      struct ipoib_path_cancel *cancel)
{
	struct ipoib_path_table *table = &path->priv->paths;

	lockdep_assert_held(&table->lock);
	path->dead = true;
	list_del(&path->list);
	rhashtable_remove_fast(&table->hash, &path->node, ipoib_path_params);
	cancel->query = path->query;
	cancel->id = path->query_id;
	if (cancel_delayed_work(&path->work))
		ipoib_path_put(path);
	ipoib_path_put(path);
}

/**
 * ipoib_path_attach() - let a neighbour wait for the path to a GID
 * @priv: the interface
 * @dgid: the GID
 * @neigh: the neighbour; ipoib_neigh_path_done() is called for it when the path
 *	is known. If it is known by now, only its handle is set: what waits in
 *	the neighbour's queue is left to the caller, who may hold the transmit
 *	queue lock
 *
 * Context: softirq or BH off.
 * Return: 0; -ENOMEM; -ESHUTDOWN if the neighbour is on its way out.
 */
int ipoib_path_attach(struct ipoib_netdev *priv, const union ib_gid *dgid,
		      struct ipoib_neigh *neigh)
{
	struct ipoib_path_table *table = &priv->paths;
	struct ipoib_path *path;
	int err = 0;

	spin_lock_bh(&table->lock);
	if (neigh->path)
		goto out;
	err = -ESHUTDOWN;
	if (neigh->path_closed)
		goto out;
	path = rhashtable_lookup_fast(&table->hash, dgid, ipoib_path_params);
	if (!path)
		path = ipoib_path_create(priv, dgid);
	err = -ENOMEM;
	if (!path)
		goto out;
	err = 0;
	neigh->path = path;
	list_add_tail(&neigh->path_node, &path->neighs);
	if (ipoib_path_usable(path))
		ipoib_neigh_path_done(neigh, path->ah, 0, NULL);
out:
	spin_unlock_bh(&table->lock);
	return err;
}

/**
 * ipoib_path_detach() - a neighbour is on its way out
 * @neigh: the neighbour; ipoib_neigh_path_done() is not called for it any more
 *
 * Context: any but hard interrupt.
 */
void ipoib_path_detach(struct ipoib_neigh *neigh)
{
	struct ipoib_path_table *table = &neigh->priv->paths;
	struct ipoib_path_cancel cancel = {};
	struct ipoib_path *path;

	spin_lock_bh(&table->lock);
	path = neigh->path;
	neigh->path = NULL;
	neigh->path_closed = true;
	if (path) {
		list_del_init(&neigh->path_node);
		if (list_empty(&path->neighs))
			ipoib_path_remove(path, &cancel);
	}
	spin_unlock_bh(&table->lock);
	if (cancel.query)
		ib_sa_cancel_query(cancel.id, cancel.query);
}

/**
 * ipoib_path_get_rec() - copy the record of a neighbour's path
 * @neigh: the neighbour
 * @rec: out
 *
 * Context: any but hard interrupt.
 * Return: false if there is none.
 */
bool ipoib_path_get_rec(struct ipoib_neigh *neigh, struct sa_path_rec *rec)
{
	struct ipoib_path_table *table = &neigh->priv->paths;
	bool usable;

	spin_lock_bh(&table->lock);
	usable = neigh->path && ipoib_path_usable(neigh->path);
	if (usable)
		*rec = neigh->path->rec;
	spin_unlock_bh(&table->lock);
	return usable;
}

static void ipoib_path_refresh_one(struct ipoib_path *path, unsigned long delay)
{
	if (path->state == IPOIB_PATH_VALID)
		ipoib_path_set_state(path, IPOIB_PATH_REFRESH);
	path->failures = 0;
	if (!path->querying && !path->answered)
		ipoib_path_kick(path, delay);
}

/**
 * ipoib_path_refresh() - ask for all paths again; they stay usable meanwhile
 * @priv: the interface
 *
 * Context: any but hard interrupt.
 */
void ipoib_path_refresh(struct ipoib_netdev *priv)
{
	struct ipoib_path *path;

	spin_lock_bh(&priv->paths.lock);
	list_for_each_entry(path, &priv->paths.list, list)
		ipoib_path_refresh_one(path, ipoib_path_usable(path) ?
				       get_random_u32() % (HZ / 2) : 0);
	spin_unlock_bh(&priv->paths.lock);
}

/**
 * ipoib_path_refresh_neigh() - ask for the path of one neighbour again
 * @neigh: the neighbour
 *
 * Context: any but hard interrupt.
 */
void ipoib_path_refresh_neigh(struct ipoib_neigh *neigh)
{
	struct ipoib_path_table *table = &neigh->priv->paths;

	spin_lock_bh(&table->lock);
	if (neigh->path && neigh->path->state == IPOIB_PATH_VALID)
		ipoib_path_refresh_one(neigh->path, 0);
	spin_unlock_bh(&table->lock);
}

/**
 * ipoib_path_check_slid() - ask for a path again if its peer has another LID
 * @priv: the interface
 * @sgid: the peer
 * @slid: LID that a packet of the peer came from
 *
 * Asks at most once a minute for each peer: with a LMC the peer may send from a
 * LID that is not the one on its path record.
 *
 * Context: softirq or BH off.
 */
void ipoib_path_check_slid(struct ipoib_netdev *priv, const union ib_gid *sgid,
			   u32 slid)
{
	struct ipoib_path_table *table = &priv->paths;
	struct ipoib_path *path;

	rcu_read_lock();
	path = rhashtable_lookup(&table->hash, sgid, ipoib_path_params);
	if (!path || READ_ONCE(path->state) != IPOIB_PATH_VALID ||
	    be32_to_cpu(sa_path_get_dlid(&path->rec)) == slid ||
	    time_before(jiffies, READ_ONCE(path->checked) +
			IPOIB_PATH_SLID_PERIOD))
		goto out;
	spin_lock(&table->lock);
	if (!path->dead && path->state == IPOIB_PATH_VALID) {
		WRITE_ONCE(path->checked, jiffies);
		ipoib_path_refresh_one(path, 0);
	}
	spin_unlock(&table->lock);
out:
	rcu_read_unlock();
}

/* Take the first path out, with its neighbours. Return: false if there is none. */
static bool ipoib_path_flush_one(struct ipoib_netdev *priv)
{
	struct ipoib_path_table *table = &priv->paths;
	struct ipoib_path_cancel cancel = {};
	struct ipoib_neigh *neigh, *next;
	struct ipoib_path *path;

	spin_lock_bh(&table->lock);
	path = list_first_entry_or_null(&table->list, struct ipoib_path, list);
	if (path) {
		ipoib_path_tell(path, NULL, -ENETRESET, NULL);
		list_for_each_entry_safe(neigh, next, &path->neighs, path_node) {
			list_del_init(&neigh->path_node);
			neigh->path = NULL;
		}
		ipoib_path_remove(path, &cancel);
	}
	spin_unlock_bh(&table->lock);
	if (cancel.query)
		ib_sa_cancel_query(cancel.id, cancel.query);
	return path;
}

/**
 * ipoib_path_flush() - forget all paths
 * @priv: the interface
 *
 * Neighbours that still use one ask again with their next packet; what waited
 * for one is dropped, for no such packet may come.
 *
 * Context: process context; may be called under rtnl.
 */
void ipoib_path_flush(struct ipoib_netdev *priv)
{
	while (ipoib_path_flush_one(priv))
		;
}

/**
 * ipoib_path_init() - make an empty table
 * @priv: the interface
 *
 * Return: 0 or a negative error.
 */
int ipoib_path_init(struct ipoib_netdev *priv)
{
	struct ipoib_path_table *table = &priv->paths;

	spin_lock_init(&table->lock);
	INIT_LIST_HEAD(&table->list);
	refcount_set(&table->live, 1);
	init_completion(&table->gone);
	return rhashtable_init(&table->hash, &ipoib_path_params);
}

/**
 * ipoib_path_uninit() - undo ipoib_path_init()
 * @priv: the interface; its neighbours are gone
 *
 * Waits until every query has been answered or cancelled.
 *
 * Context: process context; may be called under rtnl.
 */
void ipoib_path_uninit(struct ipoib_netdev *priv)
{
	struct ipoib_path_table *table = &priv->paths;

	ipoib_path_flush(priv);
	ipoib_path_table_put(table);
	wait_for_completion(&table->gone);
	rhashtable_destroy(&table->hash);
}

/**
 * ipoib_path_show() - list all paths
 * @priv: the interface
 * @m: where to
 */
void ipoib_path_show(struct ipoib_netdev *priv, struct seq_file *m)
{
	struct ipoib_path *path;

	spin_lock_bh(&priv->paths.lock);
	list_for_each_entry(path, &priv->paths.list, list) {
		seq_printf(m, "GID: %pI6c\n  state: %s\n", path->dgid.raw,
			   ipoib_path_state_names[path->state]);
		seq_printf(m, "  complete: %s\n",
			   ipoib_path_usable(path) ? "yes" : "no");
		if (!ipoib_path_usable(path))
			continue;
		seq_printf(m, "  DLID: 0x%04x\n  SL: %u\n  rate: %d00 Mb/sec\n",
			   be32_to_cpu(sa_path_get_dlid(&path->rec)),
			   path->rec.sl, ib_rate_to_mbps(path->rec.rate) / 100);
	}
	spin_unlock_bh(&priv->paths.lock);
}
