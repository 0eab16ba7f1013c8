// SPDX-License-Identifier: GPL-2.0-only
/*
 * Protection domains and address handles.
 *
 * A user may create and destroy an AH with interrupts off; rxe's object pool
 * cannot take part in that. So a PD keeps lower handles ready, an AH is a
 * lower handle with another address in it, and it goes back to its PD. Lower
 * handles are destroyed with the PD only.
 */
#include <linux/hash.h>
#include <linux/slab.h>
#include <rdma/ib_cache.h>

#include "softib.h"
#include "softib_obj.h"

#define SOFTIB_SPARE_AHS	64

/* An address that every rxe device accepts: its own. */
static int softib_lah_dummy(struct softib_dev *sdev, struct rdma_ah_attr *low)
{
	struct rdma_ah_attr own = {};

	own.type = RDMA_AH_ATTR_TYPE_IB;
	rdma_ah_set_dlid(&own, sdev->lid);
	return softib_lower_av(sdev, &own, low);
}

static struct softib_lah *softib_lah_new(struct softib_pd *pd, bool sleepable)
{
	struct rdma_ah_attr attr;
	struct softib_lah *lah;

	lah = kzalloc(sizeof(*lah), sleepable ? GFP_KERNEL : GFP_ATOMIC);
	if (!lah)
		return NULL;
	if (softib_lah_dummy(pd->sdev, &attr))
		goto free;
	lah->lower = rdma_create_ah(pd->lower, &attr,
				    sleepable ? RDMA_CREATE_AH_SLEEPABLE : 0);
	if (IS_ERR(lah->lower))
		goto free;
	lah->pd = pd;
	return lah;

free:
	kfree(lah);
	return NULL;
}

static void softib_lah_free(struct softib_lah *lah)
{
	rdma_destroy_ah(lah->lower, RDMA_DESTROY_AH_SLEEPABLE);
	kfree(lah);
}

static void softib_spare_add(struct softib_pd *pd, struct softib_lah *lah)
{
	unsigned long flags;

	spin_lock_irqsave(&pd->ah_lock, flags);
	list_add_tail(&lah->node, &pd->spare);
	pd->n_spare++;
	spin_unlock_irqrestore(&pd->ah_lock, flags);
}

static void softib_refill(struct work_struct *work)
{
	struct softib_pd *pd = container_of(work, struct softib_pd, refill);
	struct softib_lah *lah;

	while (READ_ONCE(pd->n_spare) < SOFTIB_SPARE_AHS) {
		lah = softib_lah_new(pd, true);
		if (!lah)
			return;
		softib_spare_add(pd, lah);
	}
}

static struct softib_lah *softib_lah_get(struct softib_pd *pd, bool sleepable)
{
	struct softib_lah *lah;
	unsigned long flags;
	bool low;

	spin_lock_irqsave(&pd->ah_lock, flags);
	lah = list_first_entry_or_null(&pd->spare, struct softib_lah, node);
	if (lah) {
		list_del(&lah->node);
		pd->n_spare--;
	}
	low = pd->n_spare < SOFTIB_SPARE_AHS / 2;
	spin_unlock_irqrestore(&pd->ah_lock, flags);

	if (low)
		queue_work(pd->sdev->wq, &pd->refill);
	if (!lah) {
		if (!sleepable)
			softib_count(pd->sdev->port, SOFTIB_C_ah_atomic_alloc,
				     1);
		lah = softib_lah_new(pd, sleepable);
	}
	if (lah)
		refcount_set(&lah->refs, 1);
	return lah;
}

/**
 * softib_lah_of - the lower handle for a send
 * @pd: the QP's
 * @ibah: what the user gave, which may have been freed: it is not followed
 *
 * Context: any; takes pd->ah_lock.
 * Return: the handle, with a reference, or NULL if there is no such AH.
 */
struct softib_lah *softib_lah_of(struct softib_pd *pd, struct ib_ah *ibah)
{
	struct softib_lah *lah = NULL;
	struct softib_ah *ah;
	unsigned long flags;

	spin_lock_irqsave(&pd->ah_lock, flags);
	hash_for_each_possible(pd->live, ah, node, hash_ptr(ibah, 32)) {
		if (&ah->ib != ibah)
			continue;
		lah = ah->lah;
		refcount_inc(&lah->refs);
		break;
	}
	spin_unlock_irqrestore(&pd->ah_lock, flags);
	return lah;
}

/**
 * softib_lah_put - let go of a lower address handle
 * @lah: the handle; the last reference returns it to its PD
 *
 * Context: any.
 */
void softib_lah_put(struct softib_lah *lah)
{
	if (refcount_dec_and_test(&lah->refs))
		softib_spare_add(lah->pd, lah);
}

int softib_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct softib_dev *sdev = to_sdev(ibpd->device);
	struct softib_pd *pd = to_spd(ibpd);

	if (udata)
		return -EOPNOTSUPP;
	if (softib_fail(sdev->port, SOFTIB_K_fail_create_pd))
		return -ENOMEM;
	pd->sdev = sdev;
	spin_lock_init(&pd->ah_lock);
	INIT_LIST_HEAD(&pd->spare);
	hash_init(pd->live);
	INIT_WORK(&pd->refill, softib_refill);
	pd->lower = ib_alloc_pd(sdev->lower, 0);
	if (IS_ERR(pd->lower))
		return PTR_ERR(pd->lower);
	softib_refill(&pd->refill);
	softib_count(sdev->port, SOFTIB_C_pds, 1);
	return 0;
}

int softib_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct softib_pd *pd = to_spd(ibpd);
	struct softib_lah *lah, *next;

	if (softib_fail(pd->sdev->port, SOFTIB_K_fail_destroy_pd))
		return -EIO;
	cancel_work_sync(&pd->refill);
	list_for_each_entry_safe(lah, next, &pd->spare, node)
		softib_lah_free(lah);
	ib_dealloc_pd(pd->lower);
	softib_count(pd->sdev->port, SOFTIB_C_pds, -1);
	return 0;
}

int softib_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init,
		     struct ib_udata *udata)
{
	bool sleepable = init->flags & RDMA_CREATE_AH_SLEEPABLE;
	struct softib_pd *pd = to_spd(ibah->pd);
	struct softib_ah *ah = to_sah(ibah);
	struct rdma_ah_attr lower;
	unsigned long flags;
	int ret;

	if (softib_fail(pd->sdev->port, SOFTIB_K_fail_create_ah))
		return -ENOMEM;
	ret = softib_lower_av(pd->sdev, init->ah_attr, &lower);
	if (ret)
		return ret;
	if (sleepable)
		softib_fw_cmd(pd->sdev->port);
	ah->lah = softib_lah_get(pd, sleepable);
	if (!ah->lah)
		return -ENOMEM;
	ret = rdma_modify_ah(ah->lah->lower, &lower);
	if (ret) {
		softib_lah_put(ah->lah);
		return ret;
	}
	ah->attr = *init->ah_attr;
	ah->attr.grh.sgid_attr = NULL;
	ah->dgid = rdma_ah_read_grh(&lower)->dgid;
	spin_lock_irqsave(&pd->ah_lock, flags);
	hash_add(pd->live, &ah->node, hash_ptr(ibah, 32));
	spin_unlock_irqrestore(&pd->ah_lock, flags);
	softib_count(pd->sdev->port, SOFTIB_C_ahs, 1);
	return 0;
}

int softib_query_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr)
{
	*attr = to_sah(ibah)->attr;
	return 0;
}

/**
 * softib_destroy_ah - the user's handle goes
 * @ibah: the handle
 * @flags: whether sleeping is allowed, which is not needed
 *
 * The lower handle lives on while sends refer to it.
 * Context: any.
 */
int softib_destroy_ah(struct ib_ah *ibah, u32 flags)
{
	struct softib_ah *ah = to_sah(ibah);
	struct softib_pd *pd = to_spd(ibah->pd);
	struct softib_port *port = pd->sdev->port;
	unsigned int in_flight;
	unsigned long irq;

	if (softib_fail(port, SOFTIB_K_fail_destroy_ah))
		return -EIO;
	spin_lock_irqsave(&pd->ah_lock, irq);
	hash_del(&ah->node);
	in_flight = refcount_read(&ah->lah->refs) - 1;
	spin_unlock_irqrestore(&pd->ah_lock, irq);
	softib_count(port, SOFTIB_C_ah_dead_sends, in_flight);
	softib_count(port, SOFTIB_C_ahs, -1);
	softib_lah_put(ah->lah);
	return 0;
}
