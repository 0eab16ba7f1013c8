// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Passive side of connected mode: REQs, receive completions, ageing. */
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "ipoib.h"
#include "ipoib_cm_conn.h"
#include "ipoib_cm_ring.h"
#include "ipoib_cm_state.h"
#include "ipoib_trace.h"

#define IPOIB_CM_RX_BATCH	16		/* completions polled at a time */
#define IPOIB_CM_WALK		32		/* connections acted on at a time */
#define IPOIB_CM_SUPERSEDED	(2 * HZ)	/* idle time of an older twin */
#define IPOIB_CM_HALF_OPEN	(30 * HZ)	/* our own REQs get 26 s */
#define IPOIB_CM_AGE_MAX	(10 * HZ)

/**
 * ipoib_cm_rx_close() - end a passive connection
 * @rx: the connection; it cannot be released during the call
 * @reason: why, if it has not ended yet
 * @lwqe: LWQE was raised for its QP
 *
 * Context: any, hard interrupt and the inside of ib_modify_qp() included.
 */
void ipoib_cm_rx_close(struct ipoib_cm_rx *rx, enum ipoib_drain_reason reason,
		       bool lwqe)
{
	bool begin = false;
	unsigned long flags;

	spin_lock_irqsave(&rx->lock, flags);
	switch (rx->state) {
	case IPOIB_CM_RX_REQ:
		if (!rx->aborted)
			rx->reason = reason;
		rx->aborted = true;
		rx->lwqe |= lwqe;
		if (lwqe)
			ipoib_cm_signal_rq(rx);
		lwqe = false;
		break;
	case IPOIB_CM_RX_REP:
	case IPOIB_CM_RX_LIVE:
		rx->reason = reason;
		ipoib_cm_rx_set_state(rx, IPOIB_CM_RX_CLOSE);
		begin = true;
		break;
	default:
		break;
	}
	spin_unlock_irqrestore(&rx->lock, flags);
	if (begin)
		ipoib_drain_begin(&rx->drain, reason, false);
	if (lwqe)
		ipoib_cm_rx_done(rx);
}

static void ipoib_cm_rx_qp_event(struct ib_event *event, void *context)
{
	struct ipoib_cm_rx *rx = context;
	unsigned long flags;

	switch (event->event) {
	case IB_EVENT_QP_LAST_WQE_REACHED:
		ipoib_cm_rx_close(rx, IPOIB_DRAIN_BY_LWQE, true);
		break;
	case IB_EVENT_QP_FATAL:
	case IB_EVENT_QP_REQ_ERR:
	case IB_EVENT_QP_ACCESS_ERR:
		ipoib_cm_rx_close(rx, IPOIB_DRAIN_BY_QP_EVENT, false);
		break;
	case IB_EVENT_COMM_EST:
		spin_lock_irqsave(&rx->lock, flags);
		if (rx->state == IPOIB_CM_RX_REP)
			ib_cm_notify(rx->conn.id, IB_EVENT_COMM_EST);
		spin_unlock_irqrestore(&rx->lock, flags);
		break;
	default:
		break;
	}
}

/* Older connections of the same peer are retired once they are idle. */
static void ipoib_cm_rx_supersede(struct ipoib_cm_rx *rx)
{
	struct ipoib_cm_port *cm = &rx->conn.port->cm;
	struct ipoib_cm_rx *old;
	bool found = false;

	spin_lock_bh(&cm->lock);
	list_for_each_entry(old, &cm->rx_conns, conn.list) {
		if (old == rx)
			break;
		if (rcu_access_pointer(old->conn.netdev) !=
		    rcu_access_pointer(rx->conn.netdev) ||
		    old->conn.peer_qpn != rx->conn.peer_qpn ||
		    memcmp(&old->conn.peer, &rx->conn.peer, sizeof(old->conn.peer)))
			continue;
		WRITE_ONCE(old->superseded, true);
		found = true;
	}
	/* Under the lock: nothing is queued once the port is closing. */
	if (found && !cm->closing)
		mod_delayed_work(cm->reap_wq, &cm->age_work, IPOIB_CM_SUPERSEDED);
	spin_unlock_bh(&cm->lock);
}

/* RTU or, before it, a first packet: @notify tells the CM of the latter. */
static void ipoib_cm_rx_live(struct ipoib_cm_rx *rx, bool notify)
{
	unsigned long flags;
	bool live = false;

	spin_lock_irqsave(&rx->lock, flags);
	if (rx->state == IPOIB_CM_RX_REQ) {
		rx->rtu = true;
	} else if (rx->state == IPOIB_CM_RX_REP) {
		ipoib_cm_rx_set_state(rx, IPOIB_CM_RX_LIVE);
		if (notify)
			ib_cm_notify(rx->conn.id, IB_EVENT_COMM_EST);
		live = true;
	}
	spin_unlock_irqrestore(&rx->lock, flags);
	if (live)
		ipoib_cm_rx_supersede(rx);
}

/*
 * Accepting
 */

static struct ib_qp *ipoib_cm_rx_create_qp(struct ipoib_cm_rx *rx)
{
	struct ipoib_port *port = rx->conn.port;
	struct ib_qp_init_attr attr = {
		.event_handler = ipoib_cm_rx_qp_event,
		.qp_context = rx,
		.send_cq = port->cm.recv_cq,
		.recv_cq = port->cm.recv_cq,
		.srq = rx->ring->srq,
		.cap = {
			.max_send_wr = 1,	/* the drain WR */
			.max_send_sge = 1,
		},
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
	};

	if (!attr.srq) {
		attr.cap.max_recv_wr = rx->depth;
		attr.cap.max_recv_sge = port->cm.rx_pages;
	}
	return ib_create_qp(port->pd, &attr);
}

static int ipoib_cm_rx_to_init(struct ipoib_cm_rx *rx)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.pkey_index = rx->conn.pkey_index,
		.port_num = rx->conn.port->num,
	};

	return ib_modify_qp(rx->conn.qp, &attr, IB_QP_STATE | IB_QP_ACCESS_FLAGS |
			    IB_QP_PKEY_INDEX | IB_QP_PORT);
}

/* The probe's QP has no CM id to ask: it is connected to itself. */
static int ipoib_cm_rx_attr(struct ipoib_cm_rx *rx, struct ib_qp_attr *attr,
			    int *mask)
{
	if (ipoib_cm_rx_is_probe(rx))
		return ipoib_cm_probe_attr(rx, attr, mask);
	return ib_cm_init_qp_attr(rx->conn.id, attr, mask);
}

static int ipoib_cm_rx_to_rtr(struct ipoib_cm_rx *rx)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RTR };
	int err, mask;

	err = ipoib_cm_rx_attr(rx, &attr, &mask);
	if (err)
		return err;
	attr.rq_psn = rx->psn;
	attr.min_rnr_timer = IB_RNR_TIMER_000_64;
	attr.max_dest_rd_atomic = rx->responder_resources;
	return ib_modify_qp(rx->conn.qp, &attr, mask & ~IB_QP_ALT_PATH);
}

static int ipoib_cm_rx_to_rts(struct ipoib_cm_rx *rx)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RTS };
	int err, mask;

	err = ipoib_cm_rx_attr(rx, &attr, &mask);
	if (err)
		return err;
	attr.max_rd_atomic = 0;
	return ib_modify_qp(rx->conn.qp, &attr, mask & ~IB_QP_PATH_MIG_STATE);
}

/**
 * ipoib_cm_rx_make_qp() - make the QP of a connection and bring it to RTS
 * @rx: the connection
 * @reached: how far it came; untouched if there is no QP
 *
 * Context: process, no locks.
 * Return: 0 or -errno.
 */
int ipoib_cm_rx_make_qp(struct ipoib_cm_rx *rx, enum ib_qp_state *reached)
{
	struct ipoib_port *port = rx->conn.port;
	struct ib_qp *qp;
	int err;

	rx->ring = ipoib_cm_ring_current(&port->cm);
	if (!rx->ring) {
		struct ipoib_cm_ring *ring = ipoib_cm_ring_create_own(port, rx);

		if (IS_ERR(ring))
			return PTR_ERR(ring);
		rx->ring = ring;
	}
	qp = ipoib_cm_rx_create_qp(rx);
	if (IS_ERR(qp))
		return PTR_ERR(qp);
	rx->conn.qp = qp;
	rx->conn.qpn = qp->qp_num;
	ipoib_drain_qp_init(&port->cm.drain, &rx->drain, qp);
	*reached = IB_QPS_INIT;
	err = ipoib_cm_conn_hash(&rx->conn);
	if (err)
		return err;
	err = ipoib_cm_rx_to_init(rx);
	if (err)
		return err;
	if (rx->ring->rx) {
		ipoib_cm_ring_open(rx->ring);
		if (!ipoib_cm_ring_fill(rx->ring))
			return -ENOMEM;
	}
	err = ipoib_cm_rx_to_rtr(rx);
	if (err)
		return err;
	*reached = IB_QPS_RTR;
	err = ipoib_cm_rx_to_rts(rx);
	if (!err)
		*reached = IB_QPS_RTS;
	return err;
}

static int ipoib_cm_send_rep(struct ipoib_cm_rx *rx)
{
	struct ib_cm_rep_param rep = {
		.qp_num = rx->conn.qpn,
		.starting_psn = rx->psn,
		.responder_resources = rx->responder_resources,
		.rnr_retry_count = IPOIB_CM_RNR_RETRY,
		.srq = !!rx->ring->srq,
	};
	struct ipoib_cm_data data;

	ipoib_cm_data_fill(&data, rx->conn.ud_qpn,
			   rx->conn.port->cm.mtu + IPOIB_ENCAP_LEN);
	rep.private_data = &data;
	rep.private_data_len = sizeof(data);
	return ib_send_cm_rep(rx->conn.id, &rep);
}

/**
 * ipoib_cm_rx_dispose() - end a connection that has not left state REQ
 * @rx: the connection; the calling worker is the only one who knows of the QP
 * @reached: how far the QP came
 *
 * Context: process, no locks.
 */
void ipoib_cm_rx_dispose(struct ipoib_cm_rx *rx, enum ib_qp_state reached)
{
	enum ipoib_drain_reason reason;
	bool lwqe;

	if (reached < IB_QPS_RTR) {
		/* It can have received nothing: no drain is needed. */
		if (rx->conn.id)
			ib_destroy_cm_id(rx->conn.id);
		if (!rx->conn.qp || !ipoib_cm_rx_destroy_qp(rx))
			ipoib_cm_rx_gone(rx);
		return;
	}
	spin_lock_irq(&rx->lock);
	if (!rx->aborted)
		rx->reason = IPOIB_DRAIN_BY_ACCEPT;
	reason = rx->reason;
	lwqe = rx->lwqe;
	ipoib_cm_rx_set_state(rx, IPOIB_CM_RX_CLOSE);
	spin_unlock_irq(&rx->lock);
	/* LWQE first: the engine may let go of it once it has begun. */
	if (lwqe)
		ipoib_drain_rq_done(&rx->drain);
	ipoib_drain_begin(&rx->drain, reason, reached != IB_QPS_RTS);
}

static void ipoib_cm_accept_undo(struct ipoib_cm_rx *rx, int err, bool replied,
				 enum ib_qp_state reached)
{
	/* What was aborted may work the next time; the peer asks again. */
	if (!replied)
		ib_send_cm_rej(rx->conn.id, err ? IB_CM_REJ_NO_RESOURCES :
			       IB_CM_REJ_UNSUPPORTED, NULL, 0, NULL, 0);
	ipoib_cm_rx_dispose(rx, reached);
}

static void ipoib_cm_accept_work(struct work_struct *work)
{
	struct ipoib_cm_rx *rx = container_of(work, struct ipoib_cm_rx,
					      accept_work);
	enum ib_qp_state reached = IB_QPS_RESET;
	unsigned int noio;
	bool undo, live, replied = false;
	int err;

	noio = memalloc_noio_save();
	err = ipoib_cm_rx_make_qp(rx, &reached);
	memalloc_noio_restore(noio);
	if (!err && !READ_ONCE(rx->aborted)) {
		err = ipoib_cm_send_rep(rx);
		replied = !err;
	}

	/* Until the state changes, nobody else destroys CM id or QP. */
	kref_get(&rx->conn.ref);
	spin_lock_irq(&rx->lock);
	undo = err || rx->aborted;
	live = rx->rtu;
	if (!undo)
		ipoib_cm_rx_set_state(rx, IPOIB_CM_RX_REP);
	spin_unlock_irq(&rx->lock);
	if (undo)
		ipoib_cm_accept_undo(rx, err, replied, reached);
	else if (live)
		ipoib_cm_rx_live(rx, false);
	ipoib_cm_conn_put(&rx->conn);
}

static bool ipoib_cm_same_pkey(u16 a, u16 b)
{
	return !((a ^ b) & ~IPOIB_PKEY_FULL);
}

/* Is the REQ one for this interface? 0, or the reason to reject it. */
static int ipoib_cm_req_check(struct ipoib_netdev *priv,
			      const struct ib_cm_event *event, u32 *qpn)
{
	const struct ib_cm_req_event_param *req = &event->param.req_rcvd;
	u32 mtu;

	if (req->qp_type != IB_QPT_RC)
		return IB_CM_REJ_INVALID_TRANSPORT_TYPE;
	if (req->port != priv->port->num ||
	    !ipoib_cm_same_pkey(be16_to_cpu(req->primary_path->pkey), priv->pkey) ||
	    !ipoib_cm_same_pkey(req->bth_pkey, priv->pkey))
		return IB_CM_REJ_UNSUPPORTED;
	if (ipoib_cm_data_parse(event->private_data, IB_CM_REQ_PRIVATE_DATA_SIZE,
				qpn, &mtu))
		return IB_CM_REJ_CONSUMER_DEFINED;
	return 0;
}

/* Take a slot for a new connection: 0, or the reason to reject it. */
static int ipoib_cm_rx_admit(struct ipoib_netdev *priv, struct ipoib_cm_rx *rx)
{
	struct ipoib_cm_port *cm = &priv->port->cm;
	const struct ipoib_cm_rx *old;
	unsigned int twins = 0;

	lockdep_assert_held(&cm->lock);
	if (!priv->cm.accepting || cm->closing || cm->dead)
		return IB_CM_REJ_UNSUPPORTED;
	if (cm->nrx >= cm->max_rx || priv->cm.nrx >= IPOIB_CM_NETDEV_MAX)
		return IB_CM_REJ_NO_RESOURCES;
	list_for_each_entry(old, &cm->rx_conns, conn.list)
		twins += rcu_access_pointer(old->conn.netdev) == priv &&
			 READ_ONCE(old->state) < IPOIB_CM_RX_CLOSE &&
			 old->conn.peer_qpn == rx->conn.peer_qpn &&
			 !memcmp(&old->conn.peer, &rx->conn.peer,
				 sizeof(old->conn.peer));
	if (twins >= IPOIB_CM_PEER_MAX)
		return IB_CM_REJ_NO_RESOURCES;
	if (!cm->has_srq) {
		if (cm->nrx - cm->probe.nqps >= ipoib_max_nonsrq_conn_qp ||
		    cm->recv_credits < cm->srq_depth)
			return IB_CM_REJ_NO_QP;
		cm->recv_credits -= cm->srq_depth;
	}
	/* An interface that accepts has its UD QP; one that is leaving may not. */
	rx->conn.ud_qpn = priv->ud.qp->qp_num;
	rcu_assign_pointer(rx->conn.netdev, priv);
	WRITE_ONCE(priv->cm.nrx, priv->cm.nrx + 1);
	WRITE_ONCE(cm->nattached, cm->nattached + 1);
	ipoib_cm_rx_enlist(rx);
	return 0;
}

static struct ipoib_cm_rx *ipoib_cm_rx_alloc(struct ipoib_netdev *priv,
					     struct ib_cm_id *id,
					     const struct ib_cm_req_event_param *req)
{
	struct ipoib_cm_rx *rx;

	rx = ipoib_cm_rx_new(priv->port);
	if (!rx)
		return NULL;
	INIT_WORK(&rx->accept_work, ipoib_cm_accept_work);
	rx->conn.id = id;
	rx->conn.peer = req->primary_path->dgid;
	rx->conn.pkey_index = priv->pkey_index;
	rx->responder_resources = min_t(u32, req->responder_resources,
					priv->port->ca->attrs.max_qp_rd_atom);
	return rx;
}

/* Runs on the CM's own queue: look, take a slot, leave the rest to a worker. */
static int ipoib_cm_req_received(struct ib_cm_id *id,
				 const struct ib_cm_event *event)
{
	struct ipoib_netdev *priv = id->context;
	struct ipoib_cm_port *cm = &priv->port->cm;
	struct ipoib_cm_rx *rx = NULL;
	u32 qpn;
	int rej;

	rej = ipoib_cm_req_check(priv, event, &qpn);
	if (rej)
		goto reject;
	rx = ipoib_cm_rx_alloc(priv, id, &event->param.req_rcvd);
	if (!rx) {
		rej = IB_CM_REJ_NO_RESOURCES;
		goto reject;
	}
	rx->conn.peer_qpn = qpn;
	id->context = rx;
	spin_lock_bh(&cm->lock);
	rej = ipoib_cm_rx_admit(priv, rx);
	spin_unlock_bh(&cm->lock);
	if (rej)
		goto reject;
	ipoib_stat_inc(priv, IPOIB_STAT_cm_rx_accepted);
	queue_work(cm->accept_wq, &rx->accept_work);
	return 0;

reject:
	id->context = NULL;
	kfree(rx);
	ipoib_stat_inc(priv, IPOIB_STAT_cm_rx_rejected);
	ib_send_cm_rej(id, rej, NULL, 0, NULL, 0);
	return -EINVAL;
}

/**
 * ipoib_cm_rx_handler() - CM events of listeners and passive connections
 * @id: CM id; its context is the netdev before, and the connection after the
 *	REQ has been taken
 * @event: the event
 *
 * Context: the CM's work queue.
 * Return: 0, or -errno to have @id destroyed.
 */
int ipoib_cm_rx_handler(struct ib_cm_id *id, const struct ib_cm_event *event)
{
	struct ipoib_cm_rx *rx = id->context;

	switch (event->event) {
	case IB_CM_REQ_RECEIVED:
		return ipoib_cm_req_received(id, event);
	case IB_CM_SIDR_REQ_RECEIVED:
		/* Ours is no service for SIDR; the CM forgets the id if refused. */
		return -EINVAL;
	case IB_CM_RTU_RECEIVED:
	case IB_CM_USER_ESTABLISHED:
		ipoib_cm_rx_live(rx, false);
		break;
	case IB_CM_DREQ_RECEIVED:
		ib_send_cm_drep(id, NULL, 0);
		ipoib_cm_rx_close(rx, IPOIB_DRAIN_BY_DREQ, false);
		break;
	case IB_CM_REJ_RECEIVED:
	case IB_CM_REP_ERROR:
	case IB_CM_DREQ_ERROR:
	case IB_CM_DREP_RECEIVED:
	case IB_CM_TIMEWAIT_EXIT:
		ipoib_cm_rx_close(rx, IPOIB_DRAIN_BY_CM, false);
		break;
	default:
		break;
	}
	return 0;
}

/*
 * Receiving
 */

/* What one run of the poller collects before it hands it on. */
struct ipoib_cm_rx_poll {
	struct ipoib_port *port;
	struct ipoib_cm_chain chain;
	struct list_head skbs;
};

static void ipoib_cm_rx_packet(struct ipoib_cm_rx_poll *poll,
			       struct ipoib_netdev *priv,
			       struct ipoib_cm_ring *ring,
			       struct ipoib_cm_slot *slot, unsigned int len)
{
	struct sk_buff *skb;
	__be16 proto;

	if (len < IPOIB_ENCAP_LEN || len > poll->port->cm.rx_pages * PAGE_SIZE) {
		ipoib_stat_inc(priv, IPOIB_STAT_rx_drop_runt);
		return;
	}
	proto = ipoib_cm_ring_proto(ring, slot);
	if (!ipoib_proto_known(proto)) {
		ipoib_stat_inc(priv, IPOIB_STAT_rx_drop_proto);
		return;
	}
	skb = ipoib_cm_ring_skb(ring, slot, len);
	if (!skb) {
		ipoib_stat_inc(priv, IPOIB_STAT_rx_drop_nomem);
		return;
	}
	/* The stack sees a zeroed pseudo header where a sender would put one. */
	memset(skb_push(skb, IPOIB_PSEUDO_LEN), 0, IPOIB_PSEUDO_LEN);
	skb_reset_mac_header(skb);
	skb_pull(skb, IPOIB_HARD_LEN);
	skb->dev = priv->dev;
	skb->protocol = proto;
	skb->pkt_type = PACKET_HOST;
	ipoib_stat_packet(priv, IPOIB_STAT_rx_packets, skb->len);
	list_add_tail(&skb->list, &poll->skbs);
}

static void ipoib_cm_rx_good(struct ipoib_cm_rx_poll *poll,
			     struct ipoib_cm_conn *conn,
			     struct ipoib_cm_ring *ring,
			     struct ipoib_cm_slot *slot, unsigned int len)
{
	struct ipoib_netdev *priv;

	if (!conn) {
		ipoib_port_stat_inc(poll->port, IPOIB_PORT_STAT_cm_orphan_rx);
		return;
	}
	WRITE_ONCE(conn->used, jiffies);
	conn->packets++;
	conn->bytes += len;
	if (READ_ONCE(ipoib_cm_rx_of(conn)->state) == IPOIB_CM_RX_REP)
		ipoib_cm_rx_live(ipoib_cm_rx_of(conn), true);
	priv = rcu_dereference(conn->netdev);
	if (!priv)
		return;
	if (ring->srq && ipoib_cm_flood_drop(&poll->port->cm, priv))
		ipoib_stat_inc(priv, IPOIB_STAT_rx_drop_flood);
	else
		ipoib_cm_rx_packet(poll, priv, ring, slot, len);
}

static void ipoib_cm_rx_bad(struct ipoib_cm_rx_poll *poll,
			    struct ipoib_cm_conn *conn,
			    struct ipoib_cm_ring *ring, enum ib_wc_status status)
{
	struct ipoib_netdev *priv;

	/* A flush says nothing that LWQE will not say, where there is LWQE. */
	if (!conn || (status == IB_WC_WR_FLUSH_ERR && ring->srq))
		return;
	priv = rcu_dereference(conn->netdev);
	if (priv && status != IB_WC_WR_FLUSH_ERR)
		ipoib_stat_inc(priv, IPOIB_STAT_rx_error_wc);
	ipoib_cm_rx_close(ipoib_cm_rx_of(conn), IPOIB_DRAIN_BY_WC_ERROR, false);
}

static void ipoib_cm_rx_wc(struct ipoib_cm_rx_poll *poll, const struct ib_wc *wc)
{
	struct ipoib_cm_port *cm = &poll->port->cm;
	u32 index = lower_32_bits(wc->wr_id);
	u32 id = upper_32_bits(wc->wr_id);
	struct ipoib_cm_slot *slot = NULL;
	struct ipoib_cm_conn *conn;
	struct ipoib_cm_ring *ring;

	conn = ipoib_cm_conn_find(cm, wc->qp);
	if (!id) {
		ipoib_cm_rx_flushed(cm, conn, wc->status);
		if (wc->status != IB_WC_WR_FLUSH_ERR)
			dev_warn_ratelimited(&poll->port->ca->dev,
					     "port %u: a drain WR completed with %s\n",
					     poll->port->num,
					     ib_wc_status_msg(wc->status));
		ipoib_drain_flushed(&cm->drain, index, wc->qp, wc->status);
		return;
	}
	ring = xa_load(&cm->rings, id);
	if (ring)
		slot = ipoib_cm_ring_take(ring, index);
	if (!slot) {
		ipoib_port_stat_inc(poll->port, IPOIB_PORT_STAT_cm_bogus_wr_id);
		return;
	}
	/* The buffer of another QP, or an older one had the QP's address. */
	if (conn && (conn->role != IPOIB_CM_PASSIVE ||
		     ipoib_cm_rx_of(conn)->ring != ring))
		conn = NULL;
	if (likely(wc->status == IB_WC_SUCCESS))
		ipoib_cm_rx_good(poll, conn, ring, slot, wc->byte_len);
	else
		ipoib_cm_rx_bad(poll, conn, ring, wc->status);
	ipoib_cm_ring_repost(&poll->chain, ring, slot);
}

/* Poll up to @budget completions; fewer mean that the CQ was seen empty. */
static int ipoib_cm_rx_poll_cq(struct ipoib_cm_rx_poll *poll, int budget)
{
	struct ib_wc wc[IPOIB_CM_RX_BATCH];
	int i, n, want, done = 0;

	while (done < budget) {
		want = min(budget - done, IPOIB_CM_RX_BATCH);
		n = ib_poll_cq(poll->port->cm.recv_cq, want, wc);
		for (i = 0; i < n; i++)
			ipoib_cm_rx_wc(poll, &wc[i]);
		done += max(n, 0);
		if (n < want)
			break;
	}
	return done;
}

/**
 * ipoib_cm_rx_napi() - poll the receive CQ of a port
 * @napi: the poller
 * @budget: most completions to handle
 *
 * Context: NAPI.
 * Return: number of completions handled.
 */
int ipoib_cm_rx_napi(struct napi_struct *napi, int budget)
{
	struct ipoib_cm_port *cm = container_of(napi, struct ipoib_cm_port,
						recv_napi);
	struct ipoib_cm_rx_poll poll = {
		.port = container_of(cm, struct ipoib_port, cm),
		.skbs = LIST_HEAD_INIT(poll.skbs),
	};
	u64 ticket;
	int done;

	/* Detaching waits for this section before the interface goes away. */
	rcu_read_lock();
	ticket = ipoib_drain_sweep_begin(&cm->drain);
	done = ipoib_cm_rx_poll_cq(&poll, budget);
	ipoib_cm_ring_flush(&poll.chain);
	ipoib_drain_sweep_end(&cm->drain, ticket, done, done < budget);
	if (done < budget)
		ipoib_cm_flood_empty(cm);
	netif_receive_skb_list(&poll.skbs);
	rcu_read_unlock();

	if (done < budget && napi_complete_done(napi, done) &&
	    ib_req_notify_cq(cm->recv_cq, IB_CQ_NEXT_COMP |
			     IB_CQ_REPORT_MISSED_EVENTS) > 0)
		napi_schedule(napi);
	return done;
}

/*
 * Ending many
 */

/* Take references to up to IPOIB_CM_WALK connections that @pick chooses. */
static unsigned int ipoib_cm_rx_collect(struct ipoib_cm_port *cm,
					bool (*pick)(struct ipoib_cm_rx *rx,
						     void *arg),
					void *arg, struct ipoib_cm_rx **out)
{
	struct ipoib_cm_rx *rx;
	unsigned int n = 0;

	spin_lock_bh(&cm->lock);
	list_for_each_entry(rx, &cm->rx_conns, conn.list) {
		if (!pick(rx, arg))
			continue;
		kref_get(&rx->conn.ref);
		out[n++] = rx;
		if (n == IPOIB_CM_WALK)
			break;
	}
	spin_unlock_bh(&cm->lock);
	return n;
}

static void ipoib_cm_rx_close_all(struct ipoib_cm_port *cm,
				  bool (*pick)(struct ipoib_cm_rx *rx, void *arg),
				  void *arg, enum ipoib_drain_reason reason)
{
	struct ipoib_cm_rx *rx[IPOIB_CM_WALK];
	unsigned int i, n;

	do {
		n = ipoib_cm_rx_collect(cm, pick, arg, rx);
		for (i = 0; i < n; i++) {
			ipoib_cm_rx_close(rx[i], reason, false);
			ipoib_cm_conn_put(&rx[i]->conn);
		}
	} while (n == IPOIB_CM_WALK);
}

/**
 * ipoib_cm_rx_detach() - a passive connection lets go of its netdev
 * @rx: the connection, attached or not
 *
 * Context: &struct ipoib_cm_port.lock held.
 */
void ipoib_cm_rx_detach(struct ipoib_cm_rx *rx)
{
	struct ipoib_cm_port *cm = &rx->conn.port->cm;
	struct ipoib_netdev *priv;

	priv = rcu_dereference_protected(rx->conn.netdev,
					 lockdep_is_held(&cm->lock));
	if (!priv)
		return;
	RCU_INIT_POINTER(rx->conn.netdev, NULL);
	WRITE_ONCE(priv->cm.nrx, priv->cm.nrx - 1);
	WRITE_ONCE(cm->nattached, cm->nattached - 1);
}

/* Detaches what it picks. */
static bool ipoib_cm_rx_pick_netdev(struct ipoib_cm_rx *rx, void *arg)
{
	struct ipoib_netdev *priv = arg;

	lockdep_assert_held(&priv->port->cm.lock);
	if (rcu_access_pointer(rx->conn.netdev) != priv)
		return false;
	ipoib_cm_rx_detach(rx);
	return true;
}

/**
 * ipoib_cm_rx_stop() - detach and end all passive connections of a netdev
 * @priv: the netdev; it takes no more REQs
 *
 * Waits for nothing.
 *
 * Context: process.
 */
void ipoib_cm_rx_stop(struct ipoib_netdev *priv)
{
	ipoib_cm_rx_close_all(&priv->port->cm, ipoib_cm_rx_pick_netdev, priv,
			      IPOIB_DRAIN_BY_STOP);
}

static bool ipoib_cm_rx_pick_open(struct ipoib_cm_rx *rx, void *arg)
{
	return READ_ONCE(rx->state) < IPOIB_CM_RX_CLOSE &&
	       !READ_ONCE(rx->aborted);
}

/**
 * ipoib_cm_rx_dead() - end all passive connections: the HCA is gone
 * @port: the port
 *
 * Context: process.
 */
void ipoib_cm_rx_dead(struct ipoib_port *port)
{
	ipoib_cm_rx_close_all(&port->cm, ipoib_cm_rx_pick_open, NULL,
			      IPOIB_DRAIN_BY_DEVICE);
}

static bool ipoib_cm_rx_pick_idle(struct ipoib_cm_rx *rx, void *arg)
{
	unsigned long timeout = READ_ONCE(ipoib_rx_idle_timeout) * HZ;

	return timeout && READ_ONCE(rx->state) == IPOIB_CM_RX_LIVE &&
	       time_after(jiffies, READ_ONCE(rx->conn.used) + timeout);
}

/* Tells by @arg whether there are some that are not idle yet. */
static bool ipoib_cm_rx_pick_superseded(struct ipoib_cm_rx *rx, void *arg)
{
	bool *wait = arg;

	if (!READ_ONCE(rx->superseded) ||
	    READ_ONCE(rx->state) != IPOIB_CM_RX_LIVE)
		return false;
	if (time_after(jiffies, READ_ONCE(rx->conn.used) + IPOIB_CM_SUPERSEDED))
		return true;
	*wait = true;
	return false;
}

/* The CM's time for the RTU is the peer's to choose, up to hours. */
static bool ipoib_cm_rx_pick_half_open(struct ipoib_cm_rx *rx, void *arg)
{
	return READ_ONCE(rx->state) == IPOIB_CM_RX_REP &&
	       time_after(jiffies, rx->conn.created + IPOIB_CM_HALF_OPEN);
}

/**
 * ipoib_cm_rx_age() - retire idle passive connections
 * @work: the port's ageing work
 *
 * Context: process.
 */
void ipoib_cm_rx_age(struct work_struct *work)
{
	struct ipoib_cm_port *cm = container_of(to_delayed_work(work),
						struct ipoib_cm_port, age_work);
	u64 deadline = (u64)READ_ONCE(ipoib_drain_timeout_ms) * NSEC_PER_MSEC;
	unsigned long next = READ_ONCE(ipoib_rx_idle_timeout) * HZ / 4;
	bool wait = false;

	/* The parameter may have been written. */
	if (READ_ONCE(cm->drain.timeout) != deadline)
		ipoib_drain_set_timeout(&cm->drain, deadline);

	ipoib_cm_rx_close_all(cm, ipoib_cm_rx_pick_superseded, &wait,
			      IPOIB_DRAIN_BY_SUPERSEDED);
	ipoib_cm_rx_close_all(cm, ipoib_cm_rx_pick_half_open, NULL,
			      IPOIB_DRAIN_BY_CM);
	ipoib_cm_rx_close_all(cm, ipoib_cm_rx_pick_idle, NULL,
			      IPOIB_DRAIN_BY_IDLE);
	if (wait)
		next = IPOIB_CM_AGE_MIN;
	if (READ_ONCE(cm->nrx) && !READ_ONCE(cm->closing))
		queue_delayed_work(cm->reap_wq, &cm->age_work,
				   clamp_t(unsigned long, next, IPOIB_CM_AGE_MIN,
					   IPOIB_CM_AGE_MAX));
}
