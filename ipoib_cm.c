// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Connected mode: what belongs to a port and to a netdev as a whole. */
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/seq_file.h>
#include <net/page_pool/helpers.h>

#include "ipoib.h"
#include "ipoib_cm_conn.h"
#include "ipoib_cm_ring.h"
#include "ipoib_cm_state.h"

/* Entries of a CQ that nobody counts on, and those of the HCA probe. */
#define IPOIB_CM_CQ_SLACK	(16u + IPOIB_CM_PROBE_QPS * IPOIB_CM_PROBE_WRS)
#define IPOIB_CM_SEND_CQE	32767u	/* entries of the send CQ, at most */
#define IPOIB_CM_MIN_BUF	8192u	/* octets: shorter buffers are not worth it */

unsigned int ipoib_rx_idle_timeout = 512;
module_param_named(rx_idle_timeout, ipoib_rx_idle_timeout, uint, 0644);
MODULE_PARM_DESC(rx_idle_timeout,
		 "Seconds until an idle passive connection is closed, 0: never (512)");

unsigned int ipoib_drain_timeout_ms = 5000;
module_param_named(drain_timeout_ms, ipoib_drain_timeout_ms, uint, 0644);
MODULE_PARM_DESC(drain_timeout_ms,
		 "Milliseconds that a QP may take to drain before it is reaped regardless (5000)");

/* In the order in which they are dialled. */
const u64 ipoib_cm_sids[IPOIB_CM_NSIDS] = { IPOIB_SID_FIELD, IPOIB_SID_RFC4755 };

/*
 * A provider may call this in any context. Outside of interrupts, softirqs run
 * only if the end of a section with bottom halves off makes them.
 */
static void ipoib_cm_schedule(struct napi_struct *napi)
{
	bool bh = !in_hardirq() && !irqs_disabled();

	if (bh)
		local_bh_disable();
	napi_schedule(napi);
	if (bh)
		local_bh_enable();
}

static void ipoib_cm_comp(struct ib_cq *cq, void *context)
{
	ipoib_cm_schedule(context);
}

static void ipoib_cm_drain_work(struct work_struct *work)
{
	struct ipoib_cm_port *cm = container_of(work, struct ipoib_cm_port,
						drain_work);
	unsigned int noio = memalloc_noio_save();

	ipoib_drain_run(&cm->drain);
	memalloc_noio_restore(noio);
}

static enum hrtimer_restart ipoib_cm_drain_timer(struct hrtimer *timer)
{
	struct ipoib_cm_port *cm = container_of(timer, struct ipoib_cm_port,
						drain_timer);

	queue_work(cm->drain_wq, &cm->drain_work);
	return HRTIMER_NORESTART;
}

/* What the HCA can do, and how large everything becomes. */
static bool ipoib_cm_set_limits(struct ipoib_port *port)
{
	const struct ib_device_attr *attr = &port->ca->attrs;
	struct ipoib_cm_port *cm = &port->cm;
	bool srq = port->ca->ops.create_srq && attr->max_srq &&
		   attr->max_srq_wr && attr->max_srq_sge;
	u32 sge = srq ? attr->max_srq_sge : attr->max_recv_sge;
	u32 wr = srq ? attr->max_srq_wr : attr->max_qp_wr;
	u32 spare = IPOIB_DRAIN_WINDOW + IPOIB_CM_CQ_SLACK;
	u32 rings = srq ? IPOIB_CM_RINGS_MAX : 1;
	u32 max_cqe = attr->max_cqe;

	cm->rx_pages = min_t(u32, IPOIB_CM_RX_PAGES, sge);
	if (cm->rx_pages * PAGE_SIZE < IPOIB_CM_MIN_BUF || max_cqe < 2 * spare)
		return false;
	cm->mtu = min_t(u32, IPOIB_CM_MTU, cm->rx_pages * PAGE_SIZE - 16);
	cm->srq_depth = min3(ipoib_recvq_size, wr, (max_cqe - spare) / rings);
	cm->max_send_sge = clamp_t(u32, attr->max_send_sge, 1, MAX_SKB_FRAGS + 1);
	cm->max_rx = attr->max_qp / 2;
	if (srq)
		cm->recv_credits = cm->srq_depth * rings;
	else
		cm->recv_credits = min(max_cqe - spare, cm->srq_depth *
				       max(ipoib_max_nonsrq_conn_qp, 1u));
	atomic_set(&cm->send_credits,
		   min(max_cqe, IPOIB_CM_SEND_CQE) - IPOIB_CM_CQ_SLACK);
	cm->has_srq = srq;
	return true;
}

static struct ib_cq *ipoib_cm_create_cq(struct ipoib_port *port, u32 cqe,
					struct napi_struct *napi,
					unsigned int vector)
{
	struct ib_cq_init_attr attr = {
		.cqe = cqe,
		.comp_vector = vector % max(port->ca->num_comp_vectors, 1),
	};

	return ib_create_cq(port->ca, ipoib_cm_comp, NULL, napi, &attr);
}

static int ipoib_cm_create_cqs(struct ipoib_port *port)
{
	struct ipoib_cm_port *cm = &port->cm;
	u32 cqe = cm->recv_credits + IPOIB_DRAIN_WINDOW + IPOIB_CM_CQ_SLACK;

	cm->recv_cq = ipoib_cm_create_cq(port, cqe, &cm->recv_napi, 0);
	if (IS_ERR(cm->recv_cq))
		return PTR_ERR(cm->recv_cq);
	cm->send_cq = ipoib_cm_create_cq(port, atomic_read(&cm->send_credits) +
					 IPOIB_CM_CQ_SLACK, &cm->send_napi, 1);
	if (IS_ERR(cm->send_cq)) {
		ib_destroy_cq(cm->recv_cq);
		return PTR_ERR(cm->send_cq);
	}
	ipoib_drain_init(&cm->drain, &ipoib_cm_drain_ops, IPOIB_DRAIN_WINDOW,
			 cm->recv_cq->cqe,
			 (u64)ipoib_drain_timeout_ms * NSEC_PER_MSEC);
	return 0;
}

static int ipoib_cm_create_queues(struct ipoib_cm_port *cm)
{
	cm->reap_wq = alloc_workqueue("ipoib_reap/%s",
				      WQ_UNBOUND | WQ_MEM_RECLAIM,
				      IPOIB_CM_REAP_WORKERS, cm->name);
	if (!cm->reap_wq)
		return -ENOMEM;
	cm->accept_wq = alloc_workqueue("ipoib_accept/%s",
					WQ_UNBOUND | WQ_MEM_RECLAIM,
					IPOIB_CM_ACCEPT_WORKERS, cm->name);
	if (!cm->accept_wq)
		goto destroy_reap;
	cm->drain_wq = alloc_workqueue("ipoib_drain/%s",
				       WQ_UNBOUND | WQ_MEM_RECLAIM | WQ_HIGHPRI,
				       1, cm->name);
	if (!cm->drain_wq)
		goto destroy_accept;
	return 0;

destroy_accept:
	destroy_workqueue(cm->accept_wq);
destroy_reap:
	destroy_workqueue(cm->reap_wq);
	return -ENOMEM;
}

static void ipoib_cm_destroy_queues(struct ipoib_cm_port *cm)
{
	destroy_workqueue(cm->drain_wq);
	destroy_workqueue(cm->accept_wq);
	destroy_workqueue(cm->reap_wq);
}

static int ipoib_cm_create_pool(struct ipoib_cm_port *cm)
{
	struct page_pool_params params = {
		.pool_size = min_t(u32, cm->srq_depth * cm->rx_pages, 8192),
		.nid = NUMA_NO_NODE,
		.dma_dir = DMA_FROM_DEVICE,
	};

	cm->pool = page_pool_create(&params);
	return PTR_ERR_OR_ZERO(cm->pool);
}

static void ipoib_cm_napi_start(struct ipoib_cm_port *cm)
{
	netif_napi_add(cm->napi_dev, &cm->recv_napi, ipoib_cm_rx_napi);
	netif_napi_add(cm->napi_dev, &cm->send_napi, ipoib_cm_tx_napi);
	napi_enable(&cm->recv_napi);
	napi_enable(&cm->send_napi);
	ib_req_notify_cq(cm->recv_cq, IB_CQ_NEXT_COMP);
	ib_req_notify_cq(cm->send_cq, IB_CQ_NEXT_COMP);
}

static void ipoib_cm_napi_stop(struct ipoib_cm_port *cm)
{
	napi_disable(&cm->recv_napi);
	napi_disable(&cm->send_napi);
	netif_napi_del(&cm->recv_napi);
	netif_napi_del(&cm->send_napi);
}

/* All receive buffers go back, and with them the rings. */
static void ipoib_cm_drop_rings(struct ipoib_cm_port *cm)
{
	struct ipoib_cm_ring *ring;

	spin_lock_bh(&cm->lock);
	ring = cm->srq_ring;
	cm->srq_ring = NULL;
	spin_unlock_bh(&cm->lock);
	if (ring)
		ipoib_cm_ring_put(ring);
	/* A refill under way holds rings, too. */
	cancel_delayed_work_sync(&cm->refill_work);
	/* Rings are freed by work that is queued after a grace period. */
	rcu_barrier();
	flush_workqueue(cm->reap_wq);
	/* SRQs raise events until they are destroyed. */
	cancel_delayed_work_sync(&cm->refill_work);
	WARN_ON(!cm->nkept && !xa_empty(&cm->rings));
}

/* CQs that QPs are left on stay, as do those that the HCA does not destroy. */
static void ipoib_cm_destroy_cqs(struct ipoib_cm_port *cm)
{
	int kept = !!ib_destroy_cq_user(cm->send_cq, NULL);

	kept += !!ib_destroy_cq_user(cm->recv_cq, NULL);
	spin_lock_bh(&cm->lock);
	while (kept--)
		ipoib_cm_keep(cm);
	spin_unlock_bh(&cm->lock);
}

static int ipoib_cm_port_setup(struct ipoib_port *port)
{
	struct ipoib_cm_port *cm = &port->cm;
	struct ipoib_cm_ring *ring;
	int err;

	err = ipoib_cm_qps_init(cm);
	if (err)
		return err;
	err = ipoib_cm_create_queues(cm);
	if (err)
		goto free_qps;
	err = ipoib_cm_create_pool(cm);
	if (err)
		goto free_queues;
	cm->napi_dev = alloc_netdev_dummy(0);
	if (!cm->napi_dev) {
		err = -ENOMEM;
		goto free_pool;
	}
	err = ipoib_cm_create_cqs(port);
	if (err)
		goto free_dev;
	ipoib_cm_napi_start(cm);
	if (!cm->has_srq)
		return 0;
	ring = ipoib_cm_ring_create_srq(port);
	if (!IS_ERR(ring)) {
		cm->srq_ring = ring;
		return 0;
	}
	err = PTR_ERR(ring);

	cm->closing = true;
	ipoib_cm_napi_stop(cm);
	ipoib_cm_drop_rings(cm);
	ipoib_cm_destroy_cqs(cm);
	if (cm->nkept)
		return err;
free_dev:
	ipoib_free_netdev_dummy(cm->napi_dev);
free_pool:
	page_pool_destroy(cm->pool);
free_queues:
	ipoib_cm_destroy_queues(cm);
free_qps:
	ipoib_cm_qps_uninit(cm);
	return err;
}

/**
 * ipoib_cm_port_init() - make the connected-mode side of a port
 * @port: the port, with its PD
 *
 * A port that cannot do connected mode, or has no memory for it, still does
 * datagram mode.
 *
 * Context: process, no rtnl.
 * Return: 0.
 */
int ipoib_cm_port_init(struct ipoib_port *port)
{
	struct ipoib_cm_port *cm = &port->cm;
	int err;

	snprintf(cm->name, sizeof(cm->name), "%s/%u", dev_name(&port->ca->dev),
		 port->num);
	spin_lock_init(&cm->lock);
	INIT_LIST_HEAD(&cm->rx_conns);
	INIT_LIST_HEAD(&cm->tx_conns);
	init_waitqueue_head(&cm->idle);
	xa_init_flags(&cm->rings, XA_FLAGS_ALLOC1);
	INIT_WORK(&cm->drain_work, ipoib_cm_drain_work);
	hrtimer_setup(&cm->drain_timer, ipoib_cm_drain_timer, CLOCK_MONOTONIC,
		      HRTIMER_MODE_ABS);
	INIT_DELAYED_WORK(&cm->refill_work, ipoib_cm_ring_refill);
	INIT_DELAYED_WORK(&cm->age_work, ipoib_cm_rx_age);
	ipoib_cm_probe_init(port);
	if (!ipoib_cm_set_limits(port))
		return 0;
	err = ipoib_cm_port_setup(port);
	if (err)
		dev_warn(&port->ca->dev, "port %u: no connected mode: %d\n",
			 port->num, err);
	cm->capable = !err;
	return 0;
}

static bool ipoib_cm_is_idle(struct ipoib_cm_port *cm)
{
	bool idle;

	spin_lock_bh(&cm->lock);
	idle = !cm->nrx && !cm->ntx;
	spin_unlock_bh(&cm->lock);
	return idle;
}

/*
 * The HCA keeps objects, which may call handlers and receive into buffers. So
 * all that is left of the port stays where it is, at rest. The HCA goes now, or
 * this module is being unloaded already: in either case pins are of no use.
 */
static void ipoib_cm_port_leak(struct ipoib_port *port)
{
	struct ipoib_cm_port *cm = &port->cm;

	dev_err(&port->ca->dev, "port %u: %u objects are kept for good\n",
		port->num, cm->nkept);
	while (cm->npins) {
		cm->npins--;
		module_put(THIS_MODULE);
	}
}

static void ipoib_cm_port_teardown(struct ipoib_cm_port *cm)
{
	spin_lock_bh(&cm->lock);
	cm->closing = true;
	spin_unlock_bh(&cm->lock);
	ipoib_cm_probe_stop(cm);
	wait_event(cm->idle, ipoib_cm_is_idle(cm));

	cancel_delayed_work_sync(&cm->age_work);
	ipoib_cm_napi_stop(cm);
	cancel_work_sync(&cm->drain_work);
	hrtimer_cancel(&cm->drain_timer);
	cancel_work_sync(&cm->drain_work);
	ipoib_cm_drop_rings(cm);
	ipoib_cm_destroy_cqs(cm);
	if (cm->nkept)
		return;
	ipoib_free_netdev_dummy(cm->napi_dev);
	page_pool_destroy(cm->pool);
	ipoib_cm_destroy_queues(cm);
	ipoib_cm_qps_uninit(cm);
	xa_destroy(&cm->rings);
}

/**
 * ipoib_cm_port_uninit() - undo ipoib_cm_port_init()
 * @port: the port; its last netdev has run its destructor
 *
 * Waits for all connections: one deadline in total, for they drain side by
 * side, plus the time that the HCA takes to destroy their QPs.
 *
 * Context: process, no rtnl.
 * Return: true; or false if the HCA has kept something, so that port and PD
 * must be kept, too.
 */
bool ipoib_cm_port_uninit(struct ipoib_port *port)
{
	struct ipoib_cm_port *cm = &port->cm;

	if (cm->capable)
		ipoib_cm_port_teardown(cm);
	if (!cm->nkept)
		return true;
	ipoib_cm_port_leak(port);
	return false;
}

/**
 * ipoib_cm_port_dead() - the HCA is gone: wait for none of its signals
 * @port: the port
 *
 * Context: process.
 */
void ipoib_cm_port_dead(struct ipoib_port *port)
{
	struct ipoib_cm_port *cm = &port->cm;

	if (!cm->capable)
		return;
	spin_lock_bh(&cm->lock);
	WRITE_ONCE(cm->dead, true);
	spin_unlock_bh(&cm->lock);
	ipoib_drain_set_dead(&cm->drain);
	ipoib_cm_rx_dead(port);
	ipoib_cm_tx_dead(port);
}

static struct ib_cm_id *ipoib_cm_listen(struct ipoib_netdev *priv, u64 prefix)
{
	struct ib_cm_id *id;
	int err;

	id = ib_create_cm_id(priv->port->ca, ipoib_cm_rx_handler, priv);
	if (IS_ERR(id)) {
		err = PTR_ERR(id);
		goto warn;
	}
	err = ib_cm_listen(id, ipoib_service_id(prefix, priv->ud.qp->qp_num));
	if (!err)
		return id;
	ib_destroy_cm_id(id);
warn:
	ipoib_warn(priv, "peers cannot connect by service 0x%llx: %d\n", prefix,
		   err);
	return NULL;
}

/**
 * ipoib_cm_netdev_init() - make the listeners of a netdev
 * @priv: the netdev, with its UD QP
 *
 * They reject until ipoib_cm_open(), which makes what could not be made now.
 *
 * Context: process; rtnl may be held.
 */
void ipoib_cm_netdev_init(struct ipoib_netdev *priv)
{
	unsigned int i;

	if (!ipoib_cm_capable(priv))
		return;
	for (i = 0; i < IPOIB_CM_NSIDS; i++)
		if (!priv->cm.listen[i])
			priv->cm.listen[i] = ipoib_cm_listen(priv,
							     ipoib_cm_sids[i]);
}

/**
 * ipoib_cm_netdev_destroy() - destroy the listeners of a netdev
 * @priv: the netdev
 *
 * Waits for REQs that are being looked at.
 *
 * Context: process, no rtnl.
 */
void ipoib_cm_netdev_destroy(struct ipoib_netdev *priv)
{
	unsigned int i;

	for (i = 0; i < IPOIB_CM_NSIDS; i++)
		if (priv->cm.listen[i])
			ib_destroy_cm_id(priv->cm.listen[i]);
	WARN_ON(priv->cm.nrx);
}

/**
 * ipoib_cm_open() - take REQs and let neighbours connect
 * @priv: the netdev
 *
 * Context: process; rtnl held.
 */
void ipoib_cm_open(struct ipoib_netdev *priv)
{
	struct ipoib_cm_port *cm = &priv->port->cm;

	/*
	 * The listener of an interface that is leaving goes after its UD QP: the
	 * QPN, and with it the service ID, may have been ours already.
	 */
	ipoib_cm_netdev_init(priv);
	spin_lock_bh(&cm->lock);
	priv->cm.accepting = cm->capable;
	spin_unlock_bh(&cm->lock);
}

/**
 * ipoib_cm_stop() - detach and end all connections of a netdev
 * @priv: the netdev
 *
 * Waits for nothing: the connections end by themselves, and hold nothing of
 * the netdev.
 *
 * Context: process; rtnl held.
 */
void ipoib_cm_stop(struct ipoib_netdev *priv)
{
	struct ipoib_cm_port *cm = &priv->port->cm;

	if (!cm->capable)
		return;
	spin_lock_bh(&cm->lock);
	priv->cm.accepting = false;
	spin_unlock_bh(&cm->lock);
	ipoib_cm_tx_stop(priv);
	ipoib_cm_rx_stop(priv);
}

/**
 * ipoib_cm_capable() - can this netdev do connected mode?
 * @priv: the netdev
 *
 * Context: any.
 * Return: true if so.
 */
bool ipoib_cm_capable(const struct ipoib_netdev *priv)
{
	return priv->port->cm.capable;
}

/**
 * ipoib_cm_max_mtu() - largest MTU in connected mode
 * @priv: the netdev
 *
 * Context: any.
 * Return: octets, the IPoIB header not included.
 */
unsigned int ipoib_cm_max_mtu(const struct ipoib_netdev *priv)
{
	return priv->port->cm.mtu;
}

static unsigned int ipoib_cm_age_ms(unsigned long since)
{
	return jiffies_to_msecs(jiffies - since);
}

static void ipoib_cm_conn_show(const struct ipoib_cm_conn *conn,
			       const char *role, const char *state,
			       unsigned int mtu, unsigned int in_flight,
			       struct seq_file *m)
{
	seq_printf(m, "%s %-5s qpn 0x%06x peer %pI6c qpn 0x%06x mtu %u age_ms %u idle_ms %u packets %llu bytes %llu in_flight %u\n",
		   role, state, conn->qpn, conn->peer.raw, conn->peer_qpn, mtu,
		   ipoib_cm_age_ms(conn->created),
		   ipoib_cm_age_ms(READ_ONCE(conn->used)), conn->packets,
		   conn->bytes, in_flight);
}

/**
 * ipoib_cm_conns_show() - list the connections of a netdev
 * @priv: the netdev
 * @m: where to
 *
 * Context: process.
 */
void ipoib_cm_conns_show(struct ipoib_netdev *priv, struct seq_file *m)
{
	struct ipoib_cm_port *cm = &priv->port->cm;
	struct ipoib_cm_rx *rx;
	struct ipoib_cm_tx *tx;

	if (!cm->capable)
		return;
	spin_lock_bh(&cm->lock);
	list_for_each_entry(rx, &cm->rx_conns, conn.list)
		if (rcu_access_pointer(rx->conn.netdev) == priv)
			ipoib_cm_conn_show(&rx->conn, "rx",
					   ipoib_cm_rx_state_names[READ_ONCE(rx->state)],
					   cm->mtu, 0, m);
	list_for_each_entry(tx, &cm->tx_conns, conn.list)
		if (rcu_access_pointer(tx->conn.netdev) == priv)
			ipoib_cm_conn_show(&tx->conn, "tx",
					   ipoib_cm_tx_state_names[READ_ONCE(tx->state)],
					   tx->mtu, READ_ONCE(tx->head) -
					   READ_ONCE(tx->tail), m);
	spin_unlock_bh(&cm->lock);
}

static const char *ipoib_cm_waits_for(const struct ipoib_drain_qp *q)
{
	switch (q->state) {
	case IPOIB_DRAIN_ERROR:
		return q->in_err ? "lwqe" : "err";
	case IPOIB_DRAIN_FLUSH:
		return "slot";
	case IPOIB_DRAIN_DRAIN:
		return q->sq_done ? "lwqe" : "flush";
	case IPOIB_DRAIN_SWEEP:
	case IPOIB_DRAIN_SWEEP2:
		return "sweep";
	case IPOIB_DRAIN_REAP:
		return "destroy";
	default:
		return "-";
	}
}

static void ipoib_cm_drain_qp_show(struct ipoib_cm_rx *rx, struct seq_file *m)
{
	const struct ipoib_drain_qp *q = &rx->drain;

	lockdep_assert_held(&q->d->lock);
	seq_printf(m, "qpn 0x%06x peer %pI6c state %s reason %s age_ms %llu waits %s\n",
		   rx->conn.qpn, rx->conn.peer.raw,
		   ipoib_drain_state_names[q->state],
		   ipoib_drain_reason_names[q->reason],
		   div_u64(ktime_get_ns() - q->start, NSEC_PER_MSEC),
		   ipoib_cm_waits_for(q));
}

static void ipoib_cm_port_show(struct ipoib_port *port, struct seq_file *m)
{
	struct ipoib_cm_port *cm = &port->cm;
	struct ipoib_cm_ring *ring;
	unsigned long id;

	lockdep_assert_held(&cm->lock);
	seq_printf(m, "port %s strategy %s rx %u tx %u kept %u send_credits %u recv_credits %u\n",
		   cm->name,
		   ipoib_drain_strategy_names[ipoib_drain_strategy(&cm->drain)],
		   cm->nrx, cm->ntx, cm->nkept, atomic_read(&cm->send_credits),
		   cm->recv_credits);
	rcu_read_lock();
	xa_for_each(&cm->rings, id, ring)
		seq_printf(m, "ring %lu %s depth %u stock %u%s\n", id,
			   ring->srq ? "srq" : "own", ring->nslots,
			   ipoib_cm_ring_stock(ring),
			   READ_ONCE(ring->suspect) ? " suspect" : "");
	rcu_read_unlock();
}

/**
 * ipoib_cm_drain_show() - show the receive stock and the teardowns of a port
 * @priv: a netdev of the port
 * @m: where to
 *
 * Context: process.
 */
void ipoib_cm_drain_show(struct ipoib_netdev *priv, struct seq_file *m)
{
	struct ipoib_cm_port *cm = &priv->port->cm;
	struct ipoib_cm_rx *rx;

	if (!cm->capable)
		return;
	spin_lock_bh(&cm->lock);
	ipoib_cm_port_show(priv->port, m);
	spin_lock_irq(&cm->drain.lock);
	list_for_each_entry(rx, &cm->rx_conns, conn.list)
		if (rx->drain.state != IPOIB_DRAIN_LIVE)
			ipoib_cm_drain_qp_show(rx, m);
	spin_unlock_irq(&cm->drain.lock);
	spin_unlock_bh(&cm->lock);
}
