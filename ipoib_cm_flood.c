// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Protection of the receive stock: all netdevs of a port receive from one SRQ.
 * While its stock is low, packets of the netdev that took most of it lately go
 * back to the HCA undelivered, so that a flood on one netdev does not run the
 * others dry.
 *
 * The stock is low when the HCA says so (SRQ limit), or when the ledger does. It
 * has recovered when the poller has seen the CQ empty, for only then the ledger
 * is the truth, and half of the stock is there.
 */
#include "ipoib.h"
#include "ipoib_cm_conn.h"
#include "ipoib_cm_ring.h"

/* A netdev has taken one packet; who took most of the last ones? */
static void ipoib_cm_flood_account(struct ipoib_cm_port *cm,
				   struct ipoib_netdev *priv)
{
	struct ipoib_cm_flood *f = &cm->flood;

	if (priv->cm.window != f->window) {
		priv->cm.window = f->window;
		priv->cm.taken = 0;
	}
	if (++priv->cm.taken > f->most) {
		f->most = priv->cm.taken;
		f->lead = priv;
	}
	if (++f->taken < cm->srq_depth)
		return;
	f->hog = f->lead;
	f->taken = 0;
	f->most = 0;
	f->window++;
}

/**
 * ipoib_cm_flood_drop() - is this packet to be recycled?
 * @cm: the port's connected-mode side
 * @priv: the netdev that the packet is for
 *
 * Context: the poller of the receive CQ.
 * Return: true if the stock is low, @priv took most of it, and there are others
 * to protect.
 */
bool ipoib_cm_flood_drop(struct ipoib_cm_port *cm, struct ipoib_netdev *priv)
{
	struct ipoib_cm_flood *f = &cm->flood;

	ipoib_cm_flood_account(cm, priv);
	return unlikely(READ_ONCE(f->low)) && priv == (f->hog ?: f->lead) &&
	       READ_ONCE(priv->cm.nrx) != READ_ONCE(cm->nattached);
}

/**
 * ipoib_cm_flood_low() - the stock of the SRQ is low
 * @cm: the port's connected-mode side
 *
 * Context: any.
 */
void ipoib_cm_flood_low(struct ipoib_cm_port *cm)
{
	WRITE_ONCE(cm->flood.low, true);
}

/**
 * ipoib_cm_flood_is_low() - has the stock not recovered yet?
 * @cm: the port's connected-mode side
 *
 * Context: any.
 * Return: true if so.
 */
bool ipoib_cm_flood_is_low(const struct ipoib_cm_port *cm)
{
	return READ_ONCE(cm->flood.low);
}

static bool ipoib_cm_flood_recovered(struct ipoib_cm_port *cm)
{
	struct ipoib_cm_ring *ring;
	bool recovered;

	spin_lock_bh(&cm->lock);
	ring = cm->srq_ring;
	recovered = !ring || ipoib_cm_ring_stock(ring) >= ring->nslots / 2;
	spin_unlock_bh(&cm->lock);
	return recovered;
}

/**
 * ipoib_cm_flood_empty() - the receive CQ has been seen empty, all of it reposted
 * @cm: the port's connected-mode side
 *
 * Context: the poller of the receive CQ.
 */
void ipoib_cm_flood_empty(struct ipoib_cm_port *cm)
{
	if (likely(!READ_ONCE(cm->flood.low)) || !ipoib_cm_flood_recovered(cm))
		return;
	WRITE_ONCE(cm->flood.low, false);
	/*
	 * The HCA says it once: the refill work asks it to say it again. Not at
	 * once: where WRs were lost inside the HCA, it may do so for ever.
	 */
	queue_delayed_work(cm->reap_wq, &cm->refill_work, IPOIB_CM_REFILL_DELAY);
}
