// SPDX-License-Identifier: GPL-2.0-only
/*
 * Life of a connection: dialling, leaving.
 */
#include <linux/random.h>
#include <linux/slab.h>

#include "swarm.h"

#define SWARM_QPN_MASK	0xffffff
#define SWARM_BARE_QPN	0x800000	/* QPNs of connections without a QP */

/* RFC 4755 clause 6. */
struct swarm_private {
	__be32 qpn;
	__be32 mtu;
} __packed;

static void swarm_conn_free(struct kref *ref)
{
	kfree(container_of(ref, struct swarm_conn, ref));
}

static void swarm_conn_put(struct swarm_conn *conn)
{
	kref_put(&conn->ref, swarm_conn_free);
}

/**
 * swarm_tell() - leave word for a connection's work
 * @conn: the connection; it cannot be freed during the call
 * @word: the word
 *
 * Context: any.
 */
void swarm_tell(struct swarm_conn *conn, enum swarm_word word)
{
	set_bit(word, &conn->word);
	kref_get(&conn->ref);
	if (!queue_work(conn->port->wq, &conn->work))
		swarm_conn_put(conn);
}

static void swarm_set_state(struct swarm_conn *conn, enum swarm_state to)
{
	lockdep_assert_held(&conn->lock);
	atomic_inc(&conn->port->gauge[to]);
	atomic_dec(&conn->port->gauge[conn->state]);
	WRITE_ONCE(conn->state, to);
	wake_up_all(&conn->port->wait);
}

static void swarm_move(struct swarm_conn *conn, enum swarm_state to)
{
	spin_lock(&conn->lock);
	swarm_set_state(conn, to);
	spin_unlock(&conn->lock);
}

/* The QP's packets come to an end with it. */
static void swarm_destroy_qp(struct swarm_conn *conn)
{
	if (conn->qp) {
		if (conn->posted)
			ib_drain_sq(conn->qp);
		ib_destroy_qp(conn->qp);
		conn->qp = NULL;
	}
	swarm_send_over(conn);
}

/* Whatever it was: QP and CM id go, and with them the connection. */
static void swarm_finish(struct swarm_conn *conn)
{
	struct swarm_port *port = conn->port;

	swarm_move(conn, SWARM_GOING);
	swarm_destroy_qp(conn);
	if (conn->cm)
		ib_destroy_cm_id(conn->cm);
	ib_dma_unmap_single(port->ib, conn->head_dma, sizeof(conn->head),
			    DMA_TO_DEVICE);
	spin_lock(&port->lock);
	list_del(&conn->node);
	spin_unlock(&port->lock);
	atomic_dec(&port->gauge[SWARM_GOING]);
	wake_up_all(&port->wait);
	swarm_conn_put(conn);
}

static void swarm_fail(struct swarm_conn *conn)
{
	swarm_count(conn->port, SWARM_C_failed);
	swarm_finish(conn);
}

/*
 * CM events
 */

static void swarm_answered(struct swarm_conn *conn)
{
	s64 us = ktime_us_delta(ktime_get(), conn->req_at);
	struct swarm_port *port = conn->port;

	swarm_count(port, SWARM_C_answers);
	atomic64_add(us, &port->counter[SWARM_C_answer_us_sum]);
	spin_lock(&port->lock);
	port->answer_us_max = max_t(s64, port->answer_us_max, us);
	spin_unlock(&port->lock);
}

static void swarm_rejected(struct swarm_conn *conn, unsigned int reason)
{
	struct swarm_port *port = conn->port;

	swarm_answered(conn);
	swarm_count(port, SWARM_C_rejected);
	spin_lock(&port->lock);
	port->rej[min_t(unsigned int, reason, SWARM_REASONS - 1)]++;
	spin_unlock(&port->lock);
	swarm_tell(conn, SWARM_W_END);
}

static void swarm_dreq(struct swarm_conn *conn)
{
	enum swarm_state state = READ_ONCE(conn->state);

	swarm_count(conn->port, SWARM_C_dreqs);
	if (state == SWARM_MUTE ||
	    (state == SWARM_UP && swarm_knob(conn->port, SWARM_K_no_drep)))
		return;
	ib_send_cm_drep(conn->cm, NULL, 0);
	swarm_tell(conn, SWARM_W_END);
}

static int swarm_cm_handler(struct ib_cm_id *cm, const struct ib_cm_event *event)
{
	struct swarm_conn *conn = cm->context;

	switch (event->event) {
	case IB_CM_REP_RECEIVED:
		swarm_answered(conn);
		swarm_count(conn->port, SWARM_C_reps);
		swarm_tell(conn, SWARM_W_REP);
		break;
	case IB_CM_REJ_RECEIVED:
		swarm_rejected(conn, event->param.rej_rcvd.reason);
		break;
	case IB_CM_REQ_ERROR:
		swarm_count(conn->port, SWARM_C_timeouts);
		swarm_tell(conn, SWARM_W_END);
		break;
	case IB_CM_DREQ_RECEIVED:
		swarm_dreq(conn);
		break;
	case IB_CM_DREP_RECEIVED:
		swarm_count(conn->port, SWARM_C_dreps);
		swarm_tell(conn, SWARM_W_END);
		break;
	case IB_CM_DREQ_ERROR:
		swarm_tell(conn, SWARM_W_END);
		break;
	default:
		break;
	}
	return 0;
}

/*
 * Dialling
 */

static int swarm_make_qp(struct swarm_conn *conn)
{
	struct swarm_port *port = conn->port;
	struct ib_qp_init_attr init = {
		.send_cq = port->cq,
		.recv_cq = port->cq,
		.cap = {
			.max_send_wr = 3,	/* packet, long one, drain */
			.max_send_sge = 2,
			.max_recv_wr = 1,
			.max_recv_sge = 1,
		},
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
	};
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = SWARM_PORT_NUM,
	};
	int ret;

	ret = ib_find_pkey(port->ib, SWARM_PORT_NUM,
			   be16_to_cpu(conn->target.path.pkey),
			   &attr.pkey_index);
	if (ret)
		return ret;
	conn->qp = ib_create_qp(port->pd, &init);
	if (IS_ERR(conn->qp)) {
		ret = PTR_ERR(conn->qp);
		conn->qp = NULL;
		return ret;
	}
	return ib_modify_qp(conn->qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX |
			    IB_QP_PORT | IB_QP_ACCESS_FLAGS);
}

static int swarm_send_req(struct swarm_conn *conn)
{
	struct swarm_port *port = conn->port;
	u32 peers = max(swarm_knob(port, SWARM_K_peers), 1u);
	u32 qpn = swarm_knob(port, SWARM_K_first_qpn) + conn->id % peers;
	struct swarm_private private = {
		.qpn = cpu_to_be32(qpn & SWARM_QPN_MASK),
		.mtu = cpu_to_be32(swarm_knob(port, SWARM_K_mtu)),
	};
	struct ib_cm_req_param req = {
		.primary_path = &conn->target.path,
		.service_id = conn->target.service,
		.qp_num = conn->qp ? conn->qp->qp_num :
			  (SWARM_BARE_QPN + conn->id) & SWARM_QPN_MASK,
		.qp_type = IB_QPT_RC,
		.private_data = &private,
		.private_data_len = sizeof(private),
		.starting_psn = conn->psn,
		.responder_resources = 1,
		.initiator_depth = 1,
		.remote_cm_response_timeout = swarm_knob(port, SWARM_K_timeout),
		.local_cm_response_timeout = swarm_knob(port, SWARM_K_timeout),
		.retry_count = 7,
		.rnr_retry_count = 7,
		.max_cm_retries = swarm_knob(port, SWARM_K_retries),
	};

	swarm_count(port, SWARM_C_reqs);
	conn->req_at = ktime_get();
	return ib_send_cm_req(conn->cm, &req);
}

static void swarm_dial(struct swarm_conn *conn)
{
	struct ib_cm_id *cm;

	if (!swarm_knob(conn->port, SWARM_K_bare) && swarm_make_qp(conn))
		goto fail;
	cm = ib_create_cm_id(conn->port->ib, swarm_cm_handler, conn);
	if (IS_ERR(cm))
		goto fail;
	conn->cm = cm;
	conn->psn = get_random_u32() & SWARM_QPN_MASK;
	swarm_move(conn, SWARM_REQ);
	if (!swarm_send_req(conn))
		return;
fail:
	swarm_fail(conn);
}

static int swarm_to_rts(struct swarm_conn *conn)
{
	static const enum ib_qp_state path[] = { IB_QPS_RTR, IB_QPS_RTS };
	int i, ret, mask;

	for (i = 0; i < ARRAY_SIZE(path); i++) {
		struct ib_qp_attr attr = { .qp_state = path[i] };

		ret = ib_cm_init_qp_attr(conn->cm, &attr, &mask);
		if (!ret)
			ret = ib_modify_qp(conn->qp, &attr, mask);
		if (ret)
			return ret;
	}
	return 0;
}

static void swarm_establish(struct swarm_conn *conn)
{
	if (!conn->qp) {
		/* Destroying the CM id sends the REJ. */
		swarm_finish(conn);
		return;
	}
	if (swarm_knob(conn->port, SWARM_K_no_rtu)) {
		swarm_move(conn, SWARM_HALF);
		return;
	}
	if (swarm_to_rts(conn) || ib_send_cm_rtu(conn->cm, NULL, 0)) {
		swarm_fail(conn);
		return;
	}
	swarm_count(conn->port, SWARM_C_connected);
	swarm_move(conn, SWARM_UP);
}

/*
 * Leaving
 */

static void swarm_leave_now(struct swarm_conn *conn)
{
	switch (conn->how) {
	case SWARM_BY_DREQ:
		if (ib_send_cm_dreq(conn->cm, NULL, 0))
			swarm_finish(conn);
		break;
	case SWARM_BY_MUTE:
		swarm_destroy_qp(conn);
		swarm_move(conn, SWARM_MUTE);
		break;
	case SWARM_BY_ERROR:
		if (swarm_send_long(conn))
			swarm_fail(conn);
		break;
	default:
		swarm_finish(conn);
		break;
	}
}

/* The only one who changes the state, but for swarm_pick(). */
static void swarm_work(struct work_struct *work)
{
	struct swarm_conn *conn = container_of(work, struct swarm_conn, work);
	enum swarm_state state = READ_ONCE(conn->state);
	bool end = test_bit(SWARM_W_END, &conn->word);

	if (state == SWARM_GOING) {
		;	/* word that came while it was being destroyed */
	} else if (end) {
		swarm_finish(conn);
	} else if (state == SWARM_NEW) {
		swarm_dial(conn);
	} else if (state == SWARM_REQ &&
		   test_and_clear_bit(SWARM_W_REP, &conn->word)) {
		swarm_establish(conn);
	} else if (state == SWARM_LEAVING &&
		   test_and_clear_bit(SWARM_W_LEAVE, &conn->word)) {
		swarm_leave_now(conn);
	} else if (state == SWARM_UP &&
		   test_and_clear_bit(SWARM_W_SEND, &conn->word)) {
		swarm_send_first(conn);
	}
	swarm_conn_put(conn);
}

/*
 * Commands
 */

static int swarm_start_one(struct swarm_port *port)
{
	struct swarm_conn *conn;
	int ret = 0;

	conn = kzalloc(sizeof(*conn), GFP_KERNEL);
	if (!conn)
		return -ENOMEM;
	conn->port = port;
	kref_init(&conn->ref);
	spin_lock_init(&conn->lock);
	INIT_WORK(&conn->work, swarm_work);
	swarm_send_init(conn);
	conn->head_dma = ib_dma_map_single(port->ib, &conn->head,
					   sizeof(conn->head), DMA_TO_DEVICE);
	if (ib_dma_mapping_error(port->ib, conn->head_dma)) {
		kfree(conn);
		return -ENOMEM;
	}
	spin_lock(&port->lock);
	if (port->closing) {
		ret = -ENODEV;
	} else {
		conn->id = port->next_id++;
		conn->target = port->target;
		list_add_tail(&conn->node, &port->conns);
		atomic_inc(&port->gauge[SWARM_NEW]);
		swarm_tell(conn, SWARM_W_DIAL);
	}
	spin_unlock(&port->lock);
	if (ret) {
		ib_dma_unmap_single(port->ib, conn->head_dma,
				    sizeof(conn->head), DMA_TO_DEVICE);
		kfree(conn);
	}
	return ret;
}

/* Connections that are on their way up, or that are being destroyed. */
static unsigned int swarm_dialling(struct swarm_port *port)
{
	return atomic_read(&port->gauge[SWARM_NEW]) +
	       atomic_read(&port->gauge[SWARM_REQ]) +
	       atomic_read(&port->gauge[SWARM_GOING]);
}

/* Is there room in the window? So is there when all is over. */
static bool swarm_may_dial(struct swarm_port *port)
{
	return READ_ONCE(port->closing) ||
	       swarm_dialling(port) < max(swarm_knob(port, SWARM_K_window), 1u);
}

/**
 * swarm_open() - open connections, and wait until each is up or has failed
 * @port: the port
 * @n: how many
 *
 * Context: process.
 * Return: 0, -EDESTADDRREQ without a target, -EINTR, -ENODEV, -ENOMEM.
 */
int swarm_open(struct swarm_port *port, unsigned int n)
{
	int ret = 0;

	spin_lock(&port->lock);
	if (!port->target.service)
		ret = -EDESTADDRREQ;
	spin_unlock(&port->lock);
	while (!ret && n--) {
		if (wait_event_interruptible(port->wait, swarm_may_dial(port)))
			return -EINTR;
		ret = swarm_start_one(port);
	}
	if (ret)
		return ret;
	if (wait_event_interruptible(port->wait, READ_ONCE(port->closing) ||
				     !swarm_dialling(port)))
		return -EINTR;
	return READ_ONCE(port->closing) ? -ENODEV : 0;
}

/* Is this one to leave? Then it does. */
static bool swarm_pick(struct swarm_conn *conn, enum swarm_way how)
{
	enum swarm_word word = SWARM_W_LEAVE;
	bool take;

	spin_lock(&conn->lock);
	if (how == SWARM_BY_FORGET) {
		take = conn->state == SWARM_MUTE &&
		       !test_bit(SWARM_W_END, &conn->word);
		word = SWARM_W_END;
	} else {
		take = conn->state == SWARM_UP || conn->state == SWARM_HALF;
	}
	if (take) {
		conn->how = how;
		swarm_set_state(conn, SWARM_LEAVING);
	}
	spin_unlock(&conn->lock);
	if (take)
		swarm_tell(conn, word);
	return take;
}

static bool swarm_has_left(struct swarm_port *port)
{
	return !atomic_read(&port->gauge[SWARM_LEAVING]) &&
	       !atomic_read(&port->gauge[SWARM_GOING]);
}

/**
 * swarm_leave() - have connections leave, and wait until they have
 * @port: the port
 * @how: in which way
 * @n: how many, if there are so many
 *
 * Context: process.
 * Return: 0, -EINTR, -ENODEV.
 */
int swarm_leave(struct swarm_port *port, enum swarm_way how, unsigned int n)
{
	struct swarm_conn *conn;

	spin_lock(&port->lock);
	list_for_each_entry(conn, &port->conns, node) {
		if (!n)
			break;
		n -= swarm_pick(conn, how);
	}
	spin_unlock(&port->lock);
	if (wait_event_interruptible(port->wait, READ_ONCE(port->closing) ||
				     swarm_has_left(port)))
		return -EINTR;
	return READ_ONCE(port->closing) ? -ENODEV : 0;
}

static bool swarm_is_empty(struct swarm_port *port)
{
	bool empty;

	spin_lock(&port->lock);
	empty = list_empty(&port->conns);
	spin_unlock(&port->lock);
	return empty;
}

/**
 * swarm_end_all() - destroy all connections; there will be no more
 * @port: the port, which is closing
 *
 * Context: process.
 */
void swarm_end_all(struct swarm_port *port)
{
	struct swarm_conn *conn;

	spin_lock(&port->lock);
	list_for_each_entry(conn, &port->conns, node)
		swarm_tell(conn, SWARM_W_END);
	spin_unlock(&port->lock);
	wait_event(port->wait, swarm_is_empty(port));
}
