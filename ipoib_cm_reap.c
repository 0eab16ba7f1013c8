// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * What the drain engine asks of its surroundings: verbs, clock, workers, and
 * the end of a passive connection.
 */
#include <linux/delay.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sched/mm.h>

#include "ipoib.h"
#include "ipoib_cm_conn.h"
#include "ipoib_cm_ring.h"
#include "ipoib_cm_state.h"
#include "ipoib_trace.h"

#define IPOIB_CM_DESTROY_TRIES	3
#define IPOIB_CM_DESTROY_DELAY	100	/* ms between them */

static struct ipoib_cm_rx *ipoib_cm_rx_of_drain(struct ipoib_drain_qp *q)
{
	return container_of(q, struct ipoib_cm_rx, drain);
}

/* Take back what a passive connection holds, and itself unless it is kept. */
static void ipoib_cm_rx_forget(struct ipoib_cm_rx *rx, bool keep)
{
	struct ipoib_cm_port *cm = &rx->conn.port->cm;

	spin_lock_bh(&cm->lock);
	ipoib_cm_rx_detach(rx);
	list_del_init(&rx->conn.list);
	if (keep)
		ipoib_cm_keep(cm);
	else if (!cm->has_srq)
		cm->recv_credits += cm->srq_depth;
	if (!--cm->nrx)
		wake_up_all(&cm->idle);
	spin_unlock_bh(&cm->lock);
	if (!keep)
		ipoib_cm_conn_put(&rx->conn);
}

/**
 * ipoib_cm_rx_gone() - CM id and QP have been destroyed, or were never made
 * @rx: the connection; gone afterwards but for the caller's references
 *
 * Context: process.
 */
void ipoib_cm_rx_gone(struct ipoib_cm_rx *rx)
{
	spin_lock_irq(&rx->lock);
	ipoib_cm_rx_set_state(rx, IPOIB_CM_RX_GONE);
	spin_unlock_irq(&rx->lock);
	if (rx->ring)
		ipoib_cm_ring_put(rx->ring);
	ipoib_cm_rx_forget(rx, false);
}

/**
 * ipoib_cm_keep() - the HCA did not destroy something: keep what it may use
 * @cm: the port's connected-mode side
 *
 * That includes this module, whose handlers the HCA may call, and which can be
 * unloaded again when the HCA has gone.
 *
 * Context: &struct ipoib_cm_port.lock held.
 */
void ipoib_cm_keep(struct ipoib_cm_port *cm)
{
	struct ipoib_port *port = container_of(cm, struct ipoib_port, cm);

	lockdep_assert_held(&cm->lock);
	cm->nkept++;
	cm->npins += try_module_get(THIS_MODULE);
	ipoib_port_stat_inc(port, IPOIB_PORT_STAT_cm_kept);
}

/**
 * ipoib_cm_destroy_qp() - destroy the QP of a connection
 * @conn: the connection
 *
 * Tries again for a moment, unless the HCA is known to refuse or to be gone.
 *
 * Context: process, no locks.
 * Return: 0, or -errno: then the HCA may use all that the QP names.
 */
int ipoib_cm_destroy_qp(struct ipoib_cm_conn *conn)
{
	struct ipoib_cm_port *cm = &conn->port->cm;
	unsigned int tries = IPOIB_CM_DESTROY_TRIES;
	int err;

	while ((err = ib_destroy_qp(conn->qp))) {
		if (!--tries || READ_ONCE(cm->dead) || READ_ONCE(cm->refused)) {
			WRITE_ONCE(cm->refused, true);
			dev_err_ratelimited(&conn->port->ca->dev,
					    "port %u: QP 0x%x is not destroyed: %d\n",
					    conn->port->num, conn->qpn, err);
			return err;
		}
		/* No event says that the HCA would do it now. */
		msleep(IPOIB_CM_DESTROY_DELAY);
	}
	WRITE_ONCE(cm->refused, false);
	ipoib_cm_conn_unhash(conn);
	return 0;
}

/**
 * ipoib_cm_rx_destroy_qp() - destroy the QP of a passive connection
 * @rx: the connection
 *
 * Context: process, no locks.
 * Return: 0, or -errno: then all that the HCA may use is kept and counted.
 */
int ipoib_cm_rx_destroy_qp(struct ipoib_cm_rx *rx)
{
	int err;

	if (rx->ring->rx)
		ipoib_cm_ring_quiesce(rx->ring);
	err = ipoib_cm_destroy_qp(&rx->conn);
	if (err)
		ipoib_cm_rx_forget(rx, true);
	return err;
}

static struct ipoib_cm_port *ipoib_cm_of_drain(struct ipoib_drain *d)
{
	return container_of(d, struct ipoib_cm_port, drain);
}

static void ipoib_cm_drain_kick(struct ipoib_drain *d)
{
	struct ipoib_cm_port *cm = ipoib_cm_of_drain(d);

	queue_work(cm->drain_wq, &cm->drain_work);
}

static void ipoib_cm_drain_arm(struct ipoib_drain *d, u64 when)
{
	hrtimer_start(&ipoib_cm_of_drain(d)->drain_timer, ns_to_ktime(when),
		      HRTIMER_MODE_ABS);
}

static u64 ipoib_cm_drain_now(struct ipoib_drain *d)
{
	return ktime_get_ns();
}

static void ipoib_cm_drain_move_err(struct ipoib_drain_qp *q)
{
	struct ipoib_cm_rx *rx = ipoib_cm_rx_of_drain(q);

	queue_work(rx->conn.port->cm.reap_wq, &rx->err_work);
}

static bool ipoib_cm_rx_in_err(struct ipoib_cm_rx *rx)
{
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;

	return !ib_query_qp(rx->conn.qp, &attr, IB_QP_STATE, &init) &&
	       attr.qp_state == IB_QPS_ERR;
}

/**
 * ipoib_cm_err_work() - move a passive QP to ERR
 * @work: of the connection
 *
 * Context: process.
 */
void ipoib_cm_err_work(struct work_struct *work)
{
	struct ipoib_cm_rx *rx = container_of(work, struct ipoib_cm_rx, err_work);
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	unsigned int noio;
	int err = 0;

	noio = memalloc_noio_save();
	if (rx->ring->rx)
		ipoib_cm_ring_close(rx->ring);
	/* Tell the peer before its sends go unanswered; not all states can. */
	if (rx->drain.reason != IPOIB_DRAIN_BY_DREQ)
		ib_send_cm_dreq(rx->conn.id, NULL, 0);
	/* An HCA that does not move it to ERR may have done so by itself. */
	if (rx->drain.err_tries < 2 || !ipoib_cm_rx_in_err(rx))
		err = ib_modify_qp(rx->conn.qp, &attr, IB_QP_STATE);
	memalloc_noio_restore(noio);
	ipoib_drain_err_done(&rx->drain, err);
}

static int ipoib_cm_drain_post(struct ipoib_drain_qp *q, u32 slot)
{
	const struct ib_send_wr *bad;
	struct ib_send_wr wr = {
		.wr_id = slot,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};

	return ib_post_send(ipoib_cm_rx_of_drain(q)->conn.qp, &wr, &bad);
}

/**
 * ipoib_cm_rx_poke() - make the poller of the receive CQ run
 * @cm: the port's connected-mode side
 *
 * Context: process.
 */
void ipoib_cm_rx_poke(struct ipoib_cm_port *cm)
{
	local_bh_disable();
	napi_schedule(&cm->recv_napi);
	local_bh_enable();
}

static void ipoib_cm_drain_sweep(struct ipoib_drain *d)
{
	ipoib_cm_rx_poke(ipoib_cm_of_drain(d));
}

static void ipoib_cm_drain_reap(struct ipoib_drain_qp *q)
{
	struct ipoib_cm_rx *rx = ipoib_cm_rx_of_drain(q);

	queue_work(rx->conn.port->cm.reap_wq, &rx->reap_work);
}

/**
 * ipoib_cm_reap_work() - destroy CM id and QP of a passive connection
 * @work: of the connection
 *
 * Context: process.
 */
void ipoib_cm_reap_work(struct work_struct *work)
{
	struct ipoib_cm_rx *rx = container_of(work, struct ipoib_cm_rx, reap_work);
	unsigned int noio;
	int err;

	/* Write-back may wait for a connection that waits for this worker. */
	noio = memalloc_noio_save();
	ib_destroy_cm_id(rx->conn.id);
	err = ipoib_cm_rx_destroy_qp(rx);
	memalloc_noio_restore(noio);
	ipoib_drain_reaped(&rx->drain, err);
}

static void ipoib_cm_drain_release(struct ipoib_drain_qp *q)
{
	struct ipoib_cm_rx *rx = ipoib_cm_rx_of_drain(q);

	if (q->condemned && rx->ring->srq && !q->rq_done)
		ipoib_cm_ring_suspect(rx->ring);
	ipoib_cm_rx_gone(rx);
}

static void ipoib_cm_drain_trace(struct ipoib_drain_qp *q,
				 enum ipoib_drain_state from)
{
	struct ipoib_cm_conn *conn = &ipoib_cm_rx_of_drain(q)->conn;

	trace_ipoib_drain(conn->port->cm.name, conn->qpn, conn->peer.raw,
			  ipoib_drain_state_names[from],
			  ipoib_drain_state_names[q->state],
			  ipoib_drain_reason_names[q->reason],
			  div_u64(ktime_get_ns() - q->start, NSEC_PER_USEC),
			  q->slot);
}

static void ipoib_cm_drain_count(struct ipoib_drain *d,
				 enum ipoib_drain_counter c)
{
	struct ipoib_port *port = container_of(ipoib_cm_of_drain(d),
					       struct ipoib_port, cm);

	ipoib_port_stat_inc(port, IPOIB_PORT_STAT_DRAIN_BASE + c);
}

static void ipoib_cm_drain_missing(struct ipoib_drain_qp *q, bool lwqe,
				   bool flush)
{
	struct ipoib_cm_conn *conn = &ipoib_cm_rx_of_drain(q)->conn;
	struct ipoib_cm_port *cm = &conn->port->cm;

	if (lwqe && !cm->said_lwqe) {
		cm->said_lwqe = true;
		dev_warn(&conn->port->ca->dev,
			 "port %u: no Last WQE Reached event for receive QP 0x%x\n",
			 conn->port->num, conn->qpn);
	}
	if (flush && !cm->said_flush) {
		cm->said_flush = true;
		dev_warn(&conn->port->ca->dev,
			 "port %u: no flush completion of the drain WR of receive QP 0x%x\n",
			 conn->port->num, conn->qpn);
	}
}

static void ipoib_cm_drain_strategy(struct ipoib_drain *d)
{
	struct ipoib_port *port = container_of(ipoib_cm_of_drain(d),
					       struct ipoib_port, cm);

	dev_info(&port->ca->dev, "port %u: receive QPs are now drained by %s\n",
		 port->num, ipoib_drain_strategy_names[ipoib_drain_strategy(d)]);
}

const struct ipoib_drain_ops ipoib_cm_drain_ops = {
	.kick = ipoib_cm_drain_kick,
	.arm = ipoib_cm_drain_arm,
	.now = ipoib_cm_drain_now,
	.move_err = ipoib_cm_drain_move_err,
	.post = ipoib_cm_drain_post,
	.sweep = ipoib_cm_drain_sweep,
	.reap = ipoib_cm_drain_reap,
	.release = ipoib_cm_drain_release,
	.trace = ipoib_cm_drain_trace,
	.count = ipoib_cm_drain_count,
	.missing = ipoib_cm_drain_missing,
	.strategy = ipoib_cm_drain_strategy,
};
