// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Address handles. A handle is shared by everybody who sends along its path
 * and by the sends in flight; the last reference may be dropped in any context,
 * the verbs object is destroyed in process context by the interface's queue.
 */
#include <linux/slab.h>

#include "ipoib.h"

static void ipoib_ah_destroy(struct ipoib_ah *ah)
{
	struct ipoib_netdev *priv = ah->priv;
	int err;

	err = rdma_destroy_ah_user(ah->ah, RDMA_DESTROY_AH_SLEEPABLE, NULL);
	if (err)
		ipoib_warn(priv, "address handle not destroyed: %d\n", err);
	atomic_dec(&priv->ud.nahs);
	kfree_rcu(ah, rcu);
}

static void ipoib_ah_work(struct work_struct *work)
{
	struct ipoib_ud *ud = container_of(work, struct ipoib_ud, ah_work);
	struct llist_node *list = llist_del_all(&ud->dead_ahs);
	struct ipoib_ah *ah, *next;

	llist_for_each_entry_safe(ah, next, list, dead)
		ipoib_ah_destroy(ah);
}

/**
 * ipoib_ah_create() - make an address handle
 * @priv: the interface
 * @attr: where it points; stays the caller's
 * @mtu: largest IPoIB packet on its path in octets
 *
 * Context: process context, may sleep.
 * Return: the handle with one reference, or an ERR_PTR.
 */
struct ipoib_ah *ipoib_ah_create(struct ipoib_netdev *priv,
				 struct rdma_ah_attr *attr, unsigned int mtu)
{
	struct ipoib_ah *ah;
	struct ib_ah *ibah;

	ah = kzalloc(sizeof(*ah), GFP_KERNEL);
	if (!ah)
		return ERR_PTR(-ENOMEM);
	ibah = rdma_create_ah(priv->port->pd, attr, RDMA_CREATE_AH_SLEEPABLE);
	if (IS_ERR(ibah)) {
		kfree(ah);
		return ERR_CAST(ibah);
	}
	ah->ah = ibah;
	ah->priv = priv;
	ah->mtu = mtu;
	refcount_set(&ah->ref, 1);
	atomic_inc(&priv->ud.nahs);
	return ah;
}

/**
 * ipoib_ah_get() - take a reference
 * @ah: a handle that the caller holds a reference to
 *
 * Context: any.
 */
void ipoib_ah_get(struct ipoib_ah *ah)
{
	refcount_inc(&ah->ref);
}

/**
 * ipoib_ah_tryget() - take a reference to a handle found under RCU
 * @ah: the handle
 *
 * Context: any, in a RCU read section that began before @ah was found.
 * Return: false if the handle is about to be destroyed.
 */
bool ipoib_ah_tryget(struct ipoib_ah *ah)
{
	return refcount_inc_not_zero(&ah->ref);
}

/**
 * ipoib_ah_put() - drop a reference
 * @ah: the handle, or NULL
 *
 * Context: any.
 */
void ipoib_ah_put(struct ipoib_ah *ah)
{
	struct ipoib_netdev *priv;

	if (!ah || !refcount_dec_and_test(&ah->ref))
		return;
	priv = ah->priv;
	if (llist_add(&ah->dead, &priv->ud.dead_ahs))
		queue_work(priv->wq, &priv->ud.ah_work);
}

/**
 * ipoib_ah_init() - make ready for handles
 * @priv: the interface
 */
void ipoib_ah_init(struct ipoib_netdev *priv)
{
	init_llist_head(&priv->ud.dead_ahs);
	atomic_set(&priv->ud.nahs, 0);
	INIT_WORK(&priv->ud.ah_work, ipoib_ah_work);
}

/**
 * ipoib_ah_flush() - destroy the handles that have no users, and wait for it
 * @priv: the interface
 *
 * Context: process context; may be called under rtnl.
 */
void ipoib_ah_flush(struct ipoib_netdev *priv)
{
	flush_work(&priv->ud.ah_work);
}
