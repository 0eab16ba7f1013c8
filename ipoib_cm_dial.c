// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Life of an active connection. One work item takes every step; events only
 * leave word in the flags and queue it. So steps never overlap, and whoever
 * tells of an event may be in hard interrupt.
 */
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "ipoib.h"
#include "ipoib_cm_conn.h"
#include "ipoib_cm_state.h"

#define IPOIB_CM_TX_TRIES	4	/* REQs of one connection */
#define IPOIB_CM_TX_WALK	32	/* connections acted on at a time */
#define IPOIB_CM_RETRY_COUNT	3	/* of the RC transport; TCP does the rest */
#define IPOIB_CM_TIMEOUT	20	/* response times: 4.096 us << 20 = 4.3 s */
#define IPOIB_CM_MAX_RETRIES	5	/* of CM messages */

static void ipoib_cm_tx_kick(struct ipoib_cm_tx *tx)
{
	mod_delayed_work(tx->conn.port->cm.reap_wq, &tx->work, 0);
}

/* Leave word for the worker, unless it has come to its end. */
static void ipoib_cm_tx_tell(struct ipoib_cm_tx *tx, enum ipoib_cm_tx_flag flag)
{
	spin_lock_bh(&tx->lock);
	if (tx->state < IPOIB_CM_TX_CLOSE) {
		set_bit(flag, &tx->flags);
		ipoib_cm_tx_kick(tx);
	}
	spin_unlock_bh(&tx->lock);
}

/**
 * ipoib_cm_tx_close() - end an active connection
 * @tx: the connection; it cannot be released during the call
 * @why: bits of IPOIB_CM_TX_F_FAILED, _REFUSED and _QUIET
 *
 * Context: any but hard interrupt.
 */
void ipoib_cm_tx_close(struct ipoib_cm_tx *tx, unsigned int why)
{
	if (why & BIT(IPOIB_CM_TX_F_FAILED))
		set_bit(IPOIB_CM_TX_F_FAILED, &tx->flags);
	if (why & BIT(IPOIB_CM_TX_F_REFUSED))
		set_bit(IPOIB_CM_TX_F_REFUSED, &tx->flags);
	if (why & BIT(IPOIB_CM_TX_F_QUIET))
		set_bit(IPOIB_CM_TX_F_QUIET, &tx->flags);
	ipoib_cm_tx_tell(tx, IPOIB_CM_TX_F_CLOSE);
}

/* The QP is destroyed before the work comes to its end: no lock is needed. */
static void ipoib_cm_tx_qp_event(struct ib_event *event, void *context)
{
	struct ipoib_cm_tx *tx = context;

	switch (event->event) {
	case IB_EVENT_QP_FATAL:
	case IB_EVENT_QP_REQ_ERR:
	case IB_EVENT_QP_ACCESS_ERR:
		set_bit(IPOIB_CM_TX_F_FAILED, &tx->flags);
		set_bit(IPOIB_CM_TX_F_CLOSE, &tx->flags);
		ipoib_cm_tx_kick(tx);
		break;
	default:
		break;
	}
}

/* The neighbour, with a reference; valid within the RCU read side. */
static struct ipoib_neigh *ipoib_cm_tx_neigh(struct ipoib_cm_tx *tx)
{
	struct ipoib_neigh *neigh;

	spin_lock_bh(&tx->lock);
	neigh = tx->neigh;
	if (neigh && !refcount_inc_not_zero(&neigh->ref))
		neigh = NULL;
	spin_unlock_bh(&tx->lock);
	return neigh;
}

static void ipoib_cm_tx_unlink(struct ipoib_cm_tx *tx)
{
	struct ipoib_cm_port *cm = &tx->conn.port->cm;
	struct ipoib_neigh *neigh;

	/* From here on it does not stop the queue, so that it need not wake it. */
	spin_lock_bh(&tx->lock);
	neigh = tx->neigh;
	tx->neigh = NULL;
	spin_unlock_bh(&tx->lock);
	rcu_read_lock();
	ipoib_cm_tx_wake(tx);
	rcu_read_unlock();
	spin_lock_bh(&cm->lock);
	RCU_INIT_POINTER(tx->conn.netdev, NULL);
	spin_unlock_bh(&cm->lock);
	if (neigh)
		ipoib_neigh_put(neigh);
}

/**
 * ipoib_cm_tx_detach() - the neighbour has let go of its connection
 * @tx: the connection; the caller is in the RCU read side in which it took it
 *	from the neighbour
 *
 * The connection ends by itself; nothing of the netdev is used any more.
 *
 * Context: any but hard interrupt; the neighbour's lock may be held.
 */
void ipoib_cm_tx_detach(struct ipoib_cm_tx *tx)
{
	ipoib_cm_tx_unlink(tx);
	ipoib_cm_tx_tell(tx, IPOIB_CM_TX_F_CLOSE);
}

/**
 * ipoib_cm_tx_is_up() - does the connection take packets?
 * @tx: the connection
 *
 * Context: any; RCU read side.
 * Return: true if so.
 */
bool ipoib_cm_tx_is_up(const struct ipoib_cm_tx *tx)
{
	return READ_ONCE(tx->state) == IPOIB_CM_TX_UP &&
	       !test_bit(IPOIB_CM_TX_F_CLOSE, &tx->flags);
}

/**
 * ipoib_cm_tx_mtu() - largest IPoIB packet that the peer takes
 * @tx: the connection, which is up
 *
 * Context: any; RCU read side.
 * Return: octets, the IPoIB header not included.
 */
unsigned int ipoib_cm_tx_mtu(const struct ipoib_cm_tx *tx)
{
	return tx->mtu;
}

/*
 * CM events
 */

static void ipoib_cm_tx_rep(struct ipoib_cm_tx *tx,
			    const struct ib_cm_event *event)
{
	u32 qpn, mtu;

	if (ipoib_cm_data_parse(event->private_data, IB_CM_REP_PRIVATE_DATA_SIZE,
				&qpn, &mtu)) {
		ipoib_cm_tx_close(tx, BIT(IPOIB_CM_TX_F_FAILED) |
				      BIT(IPOIB_CM_TX_F_REFUSED));
		return;
	}
	spin_lock_bh(&tx->lock);
	if (tx->state == IPOIB_CM_TX_REQ)
		tx->mtu = min(mtu, IPOIB_CM_BUF_LEN) - IPOIB_ENCAP_LEN;
	spin_unlock_bh(&tx->lock);
	ipoib_cm_tx_tell(tx, IPOIB_CM_TX_F_REP);
}

static void ipoib_cm_tx_count_rejected(struct ipoib_cm_tx *tx)
{
	struct ipoib_netdev *priv;

	rcu_read_lock();
	priv = rcu_dereference(tx->conn.netdev);
	if (priv)
		ipoib_stat_inc(priv, IPOIB_STAT_cm_tx_rejected);
	rcu_read_unlock();
}

/* Send another REQ. Return: false if there were enough of them. */
static bool ipoib_cm_tx_redial(struct ipoib_cm_tx *tx)
{
	bool again;

	spin_lock_bh(&tx->lock);
	again = tx->state == IPOIB_CM_TX_REQ && tx->tries < IPOIB_CM_TX_TRIES;
	if (again) {
		set_bit(IPOIB_CM_TX_F_AGAIN, &tx->flags);
		ipoib_cm_tx_kick(tx);
	}
	spin_unlock_bh(&tx->lock);
	return again;
}

static bool ipoib_cm_tx_next_sid(struct ipoib_cm_tx *tx)
{
	if (tx->sid + 1 >= IPOIB_CM_NSIDS)
		return false;
	tx->sid++;
	return ipoib_cm_tx_redial(tx);
}

/*
 * What a new QP or the other service ID may cure is tried at once; how long to
 * wait after anything else is the neighbour's to say, which outlives us.
 */
static void ipoib_cm_tx_rej(struct ipoib_cm_tx *tx, enum ib_cm_rej_reason reason)
{
	unsigned int why = BIT(IPOIB_CM_TX_F_FAILED) | BIT(IPOIB_CM_TX_F_QUIET);
	bool again = false;

	switch (reason) {
	case IB_CM_REJ_STALE_CONN:
		again = ipoib_cm_tx_redial(tx);
		break;
	case IB_CM_REJ_INVALID_SERVICE_ID:
		again = ipoib_cm_tx_next_sid(tx);
		break;
	case IB_CM_REJ_UNSUPPORTED:
	case IB_CM_REJ_TIMEOUT:
		break;
	default:
		why |= BIT(IPOIB_CM_TX_F_REFUSED);
		break;
	}
	if (again)
		return;
	ipoib_cm_tx_count_rejected(tx);
	ipoib_cm_tx_close(tx, why);
}

static int ipoib_cm_tx_handler(struct ib_cm_id *id,
			       const struct ib_cm_event *event)
{
	struct ipoib_cm_tx *tx = id->context;

	switch (event->event) {
	case IB_CM_REP_RECEIVED:
		ipoib_cm_tx_rep(tx, event);
		break;
	case IB_CM_REJ_RECEIVED:
		ipoib_cm_tx_rej(tx, event->param.rej_rcvd.reason);
		break;
	case IB_CM_DREQ_RECEIVED:
		ib_send_cm_drep(id, NULL, 0);
		ipoib_cm_tx_close(tx, BIT(IPOIB_CM_TX_F_QUIET));
		break;
	case IB_CM_REQ_ERROR:
		ipoib_cm_tx_close(tx, BIT(IPOIB_CM_TX_F_FAILED) |
				      BIT(IPOIB_CM_TX_F_QUIET));
		break;
	case IB_CM_DREQ_ERROR:
	case IB_CM_DREP_RECEIVED:
	case IB_CM_TIMEWAIT_EXIT:
		ipoib_cm_tx_close(tx, BIT(IPOIB_CM_TX_F_QUIET));
		break;
	default:
		break;
	}
	return 0;
}

/*
 * Connecting
 */

/* An entry of the send CQ for the flush marker, which must find one at any time. */
static bool ipoib_cm_tx_reserve(struct ipoib_cm_tx *tx)
{
	bool ok;

	spin_lock_bh(&tx->lock);
	ok = tx->credits || ipoib_cm_tx_take_credit(tx);
	spin_unlock_bh(&tx->lock);
	return ok;
}

static int ipoib_cm_tx_create_qp(struct ipoib_cm_tx *tx)
{
	struct ipoib_port *port = tx->conn.port;
	/* No SRQ and nothing ever posted: the peer's sends fail fast. */
	struct ib_qp_init_attr init = {
		.event_handler = ipoib_cm_tx_qp_event,
		.qp_context = tx,
		.send_cq = port->cm.send_cq,
		.recv_cq = port->cm.send_cq,
		.cap = {
			.max_send_wr = tx->size,
			.max_send_sge = port->cm.max_send_sge,
			.max_recv_wr = 1,
			.max_recv_sge = 1,
		},
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
	};
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.pkey_index = tx->conn.pkey_index,
		.port_num = port->num,
	};
	struct ib_qp *qp;

	qp = ib_create_qp(port->pd, &init);
	if (IS_ERR(qp))
		return PTR_ERR(qp);
	tx->conn.qp = qp;
	tx->conn.qpn = qp->qp_num;
	return ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_ACCESS_FLAGS |
			    IB_QP_PKEY_INDEX | IB_QP_PORT);
}

static int ipoib_cm_send_req(struct ipoib_cm_tx *tx)
{
	struct ipoib_port *port = tx->conn.port;
	u32 depth = min_t(u32, IPOIB_CM_RD_ATOMIC, port->ca->attrs.max_qp_rd_atom);
	struct ib_cm_req_param req = {
		.primary_path = &tx->rec,
		.service_id = ipoib_service_id(ipoib_cm_sids[tx->sid],
					       tx->conn.peer_qpn),
		.qp_num = tx->conn.qpn,
		.qp_type = IB_QPT_RC,
		.starting_psn = tx->psn,
		.responder_resources = depth,
		.initiator_depth = depth,
		.remote_cm_response_timeout = IPOIB_CM_TIMEOUT,
		.local_cm_response_timeout = IPOIB_CM_TIMEOUT,
		.retry_count = IPOIB_CM_RETRY_COUNT,
		.rnr_retry_count = 0,
		.max_cm_retries = IPOIB_CM_MAX_RETRIES,
	};
	struct ipoib_cm_data data;

	ipoib_cm_data_fill(&data, tx->conn.ud_qpn, port->cm.mtu + IPOIB_ENCAP_LEN);
	req.private_data = &data;
	req.private_data_len = sizeof(data);
	return ib_send_cm_req(tx->conn.id, &req);
}

static int ipoib_cm_tx_connect(struct ipoib_cm_tx *tx)
{
	struct ib_cm_id *id;
	int err;

	if (tx->conn.port->cm.dead || !ipoib_cm_tx_reserve(tx))
		return -EBUSY;
	if (!tx->ring) {
		err = ipoib_cm_tx_ring_alloc(tx);
		if (err)
			return err;
	}
	err = ipoib_cm_tx_create_qp(tx);
	if (err)
		return err;
	err = ipoib_cm_conn_hash(&tx->conn);
	if (err)
		return err;
	id = ib_create_cm_id(tx->conn.port->ca, ipoib_cm_tx_handler, tx);
	if (IS_ERR(id))
		return PTR_ERR(id);
	tx->conn.id = id;
	tx->psn = get_random_u32() & IPOIB_QPN_MASK;
	tx->tries++;
	/* The answer may come at once: be in the state that it belongs to. */
	spin_lock_bh(&tx->lock);
	ipoib_cm_tx_set_state(tx, IPOIB_CM_TX_REQ);
	spin_unlock_bh(&tx->lock);
	return ipoib_cm_send_req(tx);
}

static int ipoib_cm_tx_establish(struct ipoib_cm_tx *tx)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RTR };
	int err, mask;

	err = ib_cm_init_qp_attr(tx->conn.id, &attr, &mask);
	if (err)
		return err;
	err = ib_modify_qp(tx->conn.qp, &attr, mask);
	if (err)
		return err;
	attr.qp_state = IB_QPS_RTS;
	err = ib_cm_init_qp_attr(tx->conn.id, &attr, &mask);
	if (err)
		return err;
	/* A peer whose SRQ runs dry for a moment is no reason to reconnect. */
	attr.rnr_retry = max_t(u8, attr.rnr_retry, IPOIB_CM_RNR_RETRY);
	err = ib_modify_qp(tx->conn.qp, &attr, mask);
	if (err)
		return err;
	return ib_send_cm_rtu(tx->conn.id, NULL, 0);
}

static void ipoib_cm_tx_now_up(struct ipoib_cm_tx *tx)
{
	struct ipoib_netdev *priv;
	struct ipoib_neigh *neigh;

	spin_lock_bh(&tx->lock);
	tx->progress = jiffies;
	ipoib_cm_tx_set_state(tx, IPOIB_CM_TX_UP);
	spin_unlock_bh(&tx->lock);

	rcu_read_lock();
	priv = rcu_dereference(tx->conn.netdev);
	if (priv)
		ipoib_stat_inc(priv, IPOIB_STAT_cm_tx_connected);
	neigh = ipoib_cm_tx_neigh(tx);
	if (neigh) {
		ipoib_neigh_tx_up(neigh);
		ipoib_neigh_put(neigh);
	}
	rcu_read_unlock();
}

/* Destroy CM id and QP. Return: 0, or -errno if the QP could not be. */
static int ipoib_cm_tx_destroy(struct ipoib_cm_tx *tx)
{
	int err;

	if (tx->conn.id)
		ib_destroy_cm_id(tx->conn.id);
	tx->conn.id = NULL;
	if (!tx->conn.qp)
		return 0;
	err = ipoib_cm_destroy_qp(&tx->conn);
	if (!err)
		tx->conn.qp = NULL;
	return err;
}

/* A REJ that another QP or service ID may cure: begin anew. */
static int ipoib_cm_tx_again(struct ipoib_cm_tx *tx)
{
	int err;

	err = ipoib_cm_tx_destroy(tx);
	if (err)
		return err;
	clear_bit(IPOIB_CM_TX_F_REP, &tx->flags);
	spin_lock_bh(&tx->lock);
	ipoib_cm_tx_set_state(tx, IPOIB_CM_TX_INIT);
	spin_unlock_bh(&tx->lock);
	return ipoib_cm_tx_connect(tx);
}

/*
 * Ending
 */

/* Tell the neighbour, then forget it and its netdev. */
static void ipoib_cm_tx_leave(struct ipoib_cm_tx *tx)
{
	bool refused = test_bit(IPOIB_CM_TX_F_REFUSED, &tx->flags);
	bool failed = test_bit(IPOIB_CM_TX_F_FAILED, &tx->flags);
	struct ipoib_netdev *priv;
	struct ipoib_neigh *neigh;

	rcu_read_lock();
	priv = rcu_dereference(tx->conn.netdev);
	if (priv && failed)
		ipoib_stat_inc(priv, IPOIB_STAT_cm_tx_failed);
	neigh = ipoib_cm_tx_neigh(tx);
	if (neigh) {
		ipoib_neigh_tx_gone(neigh, tx, failed, refused);
		ipoib_neigh_put(neigh);
	}
	rcu_read_unlock();
	ipoib_cm_tx_unlink(tx);
	cancel_delayed_work_sync(&tx->stall_work);
}

/* Forget the connection, or keep all that the HCA may use if @err. */
static void ipoib_cm_tx_finish(struct ipoib_cm_tx *tx)
{
	struct ipoib_cm_port *cm = &tx->conn.port->cm;
	int err;

	err = ipoib_cm_tx_destroy(tx);
	if (!err)
		ipoib_cm_tx_discard(tx);
	spin_lock_bh(&tx->lock);
	ipoib_cm_tx_set_state(tx, err ? IPOIB_CM_TX_KEPT : IPOIB_CM_TX_DEAD);
	spin_unlock_bh(&tx->lock);
	/* Nothing is in flight, and sends look at the state before the ring. */
	if (!err)
		kvfree(tx->ring);
	/* No event comes any more; one that came is not worth another run. */
	cancel_delayed_work(&tx->work);

	spin_lock_bh(&cm->lock);
	list_del_init(&tx->conn.list);
	if (err)
		ipoib_cm_keep(cm);
	if (!--cm->ntx)
		wake_up_all(&cm->idle);
	spin_unlock_bh(&cm->lock);
	if (!err)
		ipoib_cm_conn_put(&tx->conn);
}

/* Stop sending and move the QP to ERR, so that all sends complete. */
static void ipoib_cm_tx_begin_close(struct ipoib_cm_tx *tx)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	bool was_up = tx->state == IPOIB_CM_TX_UP;

	spin_lock_bh(&tx->lock);
	ipoib_cm_tx_set_state(tx, IPOIB_CM_TX_CLOSE);
	spin_unlock_bh(&tx->lock);
	ipoib_cm_tx_leave(tx);
	if (was_up && !test_bit(IPOIB_CM_TX_F_QUIET, &tx->flags))
		ib_send_cm_dreq(tx->conn.id, NULL, 0);
	/* Without a send ever posted there is nothing to wait for. */
	if (!was_up || tx->conn.port->cm.dead ||
	    ib_modify_qp(tx->conn.qp, &attr, IB_QP_STATE) ||
	    !ipoib_cm_tx_post_marker(tx)) {
		ipoib_cm_tx_finish(tx);
		return;
	}
	tx->deadline = jiffies + msecs_to_jiffies(READ_ONCE(ipoib_drain_timeout_ms));
	spin_lock_bh(&tx->lock);
	ipoib_cm_tx_set_state(tx, IPOIB_CM_TX_FLUSH);
	spin_unlock_bh(&tx->lock);
	mod_delayed_work(tx->conn.port->cm.reap_wq, &tx->work, 0);
}

static void ipoib_cm_tx_flush(struct ipoib_cm_tx *tx)
{
	unsigned long now = jiffies;

	if (ipoib_cm_tx_drained(tx) || READ_ONCE(tx->conn.port->cm.dead) ||
	    time_after_eq(now, tx->deadline))
		ipoib_cm_tx_finish(tx);
	else
		queue_delayed_work(tx->conn.port->cm.reap_wq, &tx->work,
				   tx->deadline - now);
}

static int ipoib_cm_tx_step(struct ipoib_cm_tx *tx)
{
	int err = 0;

	switch (tx->state) {
	case IPOIB_CM_TX_INIT:
		err = ipoib_cm_tx_connect(tx);
		break;
	case IPOIB_CM_TX_REQ:
		if (test_and_clear_bit(IPOIB_CM_TX_F_AGAIN, &tx->flags)) {
			err = ipoib_cm_tx_again(tx);
		} else if (test_and_clear_bit(IPOIB_CM_TX_F_REP, &tx->flags)) {
			err = ipoib_cm_tx_establish(tx);
			if (!err)
				ipoib_cm_tx_now_up(tx);
		}
		break;
	default:
		break;
	}
	return err;
}

static void ipoib_cm_tx_work(struct work_struct *work)
{
	struct ipoib_cm_tx *tx = container_of(to_delayed_work(work),
					      struct ipoib_cm_tx, work);
	unsigned int noio;

	/* Write-back may wait for this connection. */
	noio = memalloc_noio_save();
	if (tx->state < IPOIB_CM_TX_CLOSE &&
	    !test_bit(IPOIB_CM_TX_F_CLOSE, &tx->flags) && ipoib_cm_tx_step(tx)) {
		set_bit(IPOIB_CM_TX_F_REFUSED, &tx->flags);
		set_bit(IPOIB_CM_TX_F_FAILED, &tx->flags);
		set_bit(IPOIB_CM_TX_F_CLOSE, &tx->flags);
	}
	if (tx->state == IPOIB_CM_TX_FLUSH)
		ipoib_cm_tx_flush(tx);
	else if (tx->state < IPOIB_CM_TX_CLOSE &&
		 test_bit(IPOIB_CM_TX_F_CLOSE, &tx->flags))
		ipoib_cm_tx_begin_close(tx);
	memalloc_noio_restore(noio);
}

static u32 ipoib_cm_tx_size(const struct ipoib_port *port)
{
	u32 size = min_t(u32, ipoib_sendq_size, port->ca->attrs.max_qp_wr);

	return rounddown_pow_of_two(max_t(u32, size, 2));
}

/**
 * ipoib_cm_tx_create() - begin an active connection
 * @neigh: the neighbour; a reference is taken
 * @rec: path to it; copied
 *
 * The caller stores the result in the neighbour before it drops the
 * neighbour's lock: from then on ipoib_neigh_tx_gone() may be called.
 *
 * Context: any but hard interrupt; the neighbour's lock is held.
 * Return: the connection, or ERR_PTR().
 */
struct ipoib_cm_tx *ipoib_cm_tx_create(struct ipoib_neigh *neigh,
				       const struct sa_path_rec *rec)
{
	struct ipoib_netdev *priv = neigh->priv;
	struct ipoib_cm_port *cm = &priv->port->cm;
	struct ipoib_cm_tx *tx;

	tx = kzalloc(sizeof(*tx), GFP_ATOMIC | __GFP_NOWARN);
	if (!tx)
		return ERR_PTR(-ENOMEM);
	ipoib_cm_conn_init(&tx->conn, priv->port, IPOIB_CM_ACTIVE);
	spin_lock_init(&tx->lock);
	INIT_DELAYED_WORK(&tx->work, ipoib_cm_tx_work);
	INIT_DELAYED_WORK(&tx->stall_work, ipoib_cm_tx_stall_work);
	tx->rec = *rec;
	tx->size = ipoib_cm_tx_size(priv->port);
	tx->conn.peer = *ipoib_addr_gid(neigh->lladdr);
	tx->conn.peer_qpn = ipoib_addr_qpn(neigh->lladdr);
	tx->conn.pkey_index = priv->pkey_index;

	spin_lock_bh(&cm->lock);
	if (!priv->cm.accepting || cm->closing || cm->dead || !cm->capable) {
		spin_unlock_bh(&cm->lock);
		kfree(tx);
		return ERR_PTR(-ENETDOWN);
	}
	/* An interface that accepts has its UD QP; one that is leaving may not. */
	tx->conn.ud_qpn = priv->ud.qp->qp_num;
	refcount_inc(&neigh->ref);
	tx->neigh = neigh;
	tx->id = cm->next_tx++;
	rcu_assign_pointer(tx->conn.netdev, priv);
	list_add_tail(&tx->conn.list, &cm->tx_conns);
	cm->ntx++;
	spin_unlock_bh(&cm->lock);
	queue_delayed_work(cm->reap_wq, &tx->work, 0);
	return tx;
}

/* Take references to up to IPOIB_CM_TX_WALK connections of @priv, or of all. */
static unsigned int ipoib_cm_tx_collect(struct ipoib_cm_port *cm,
					const struct ipoib_netdev *priv,
					struct ipoib_cm_tx **out)
{
	struct ipoib_cm_tx *tx;
	unsigned int n = 0;

	spin_lock_bh(&cm->lock);
	list_for_each_entry(tx, &cm->tx_conns, conn.list) {
		if (priv ? rcu_access_pointer(tx->conn.netdev) != priv :
			   test_and_set_bit(IPOIB_CM_TX_F_DEAD, &tx->flags))
			continue;
		kref_get(&tx->conn.ref);
		out[n++] = tx;
		if (n == IPOIB_CM_TX_WALK)
			break;
	}
	spin_unlock_bh(&cm->lock);
	return n;
}

/**
 * ipoib_cm_tx_stop() - detach and end all active connections of a netdev
 * @priv: the netdev
 *
 * Waits for nothing.
 *
 * Context: process.
 */
void ipoib_cm_tx_stop(struct ipoib_netdev *priv)
{
	struct ipoib_cm_tx *tx[IPOIB_CM_TX_WALK];
	unsigned int i, n;

	do {
		n = ipoib_cm_tx_collect(&priv->port->cm, priv, tx);
		for (i = 0; i < n; i++) {
			ipoib_cm_tx_detach(tx[i]);
			ipoib_cm_conn_put(&tx[i]->conn);
		}
	} while (n);
}

/* Have the worker look again at a connection that waits for its marker. */
static void ipoib_cm_tx_hurry(struct ipoib_cm_tx *tx)
{
	spin_lock_bh(&tx->lock);
	if (tx->state == IPOIB_CM_TX_FLUSH)
		ipoib_cm_tx_kick(tx);
	spin_unlock_bh(&tx->lock);
}

/**
 * ipoib_cm_tx_dead() - end all active connections: the HCA is gone
 * @port: the port; its dead flag is set
 *
 * Context: process.
 */
void ipoib_cm_tx_dead(struct ipoib_port *port)
{
	struct ipoib_cm_tx *tx[IPOIB_CM_TX_WALK];
	unsigned int i, n;

	do {
		n = ipoib_cm_tx_collect(&port->cm, NULL, tx);
		for (i = 0; i < n; i++) {
			ipoib_cm_tx_close(tx[i], BIT(IPOIB_CM_TX_F_FAILED));
			ipoib_cm_tx_hurry(tx[i]);
			ipoib_cm_conn_put(&tx[i]->conn);
		}
	} while (n);
}
