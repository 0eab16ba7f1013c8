// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* States of connections, references to them, and the table of their QPs. */
#include <linux/slab.h>

#include "ipoib.h"
#include "ipoib_cm_conn.h"
#include "ipoib_cm_state.h"
#include "ipoib_trace.h"

const char *const ipoib_cm_rx_state_names[IPOIB_CM_RX_NSTATES] = {
	[IPOIB_CM_RX_REQ] = "REQ",
	[IPOIB_CM_RX_REP] = "REP",
	[IPOIB_CM_RX_LIVE] = "LIVE",
	[IPOIB_CM_RX_CLOSE] = "CLOSE",
	[IPOIB_CM_RX_GONE] = "GONE",
};

const u8 ipoib_cm_rx_legal[IPOIB_CM_RX_NSTATES] = {
	[IPOIB_CM_RX_REQ] = BIT(IPOIB_CM_RX_REP) | BIT(IPOIB_CM_RX_CLOSE) |
			    BIT(IPOIB_CM_RX_GONE),
	[IPOIB_CM_RX_REP] = BIT(IPOIB_CM_RX_LIVE) | BIT(IPOIB_CM_RX_CLOSE),
	[IPOIB_CM_RX_LIVE] = BIT(IPOIB_CM_RX_CLOSE),
	[IPOIB_CM_RX_CLOSE] = BIT(IPOIB_CM_RX_GONE),
};

const char *const ipoib_cm_tx_state_names[IPOIB_CM_TX_NSTATES] = {
	[IPOIB_CM_TX_INIT] = "INIT",
	[IPOIB_CM_TX_REQ] = "REQ",
	[IPOIB_CM_TX_UP] = "UP",
	[IPOIB_CM_TX_CLOSE] = "CLOSE",
	[IPOIB_CM_TX_FLUSH] = "FLUSH",
	[IPOIB_CM_TX_DEAD] = "DEAD",
	[IPOIB_CM_TX_KEPT] = "KEPT",
};

const u8 ipoib_cm_tx_legal[IPOIB_CM_TX_NSTATES] = {
	[IPOIB_CM_TX_INIT] = BIT(IPOIB_CM_TX_REQ) | BIT(IPOIB_CM_TX_CLOSE),
	[IPOIB_CM_TX_REQ] = BIT(IPOIB_CM_TX_INIT) | BIT(IPOIB_CM_TX_UP) |
			    BIT(IPOIB_CM_TX_CLOSE),
	[IPOIB_CM_TX_UP] = BIT(IPOIB_CM_TX_CLOSE),
	[IPOIB_CM_TX_CLOSE] = BIT(IPOIB_CM_TX_FLUSH) | BIT(IPOIB_CM_TX_DEAD) |
			      BIT(IPOIB_CM_TX_KEPT),
	[IPOIB_CM_TX_FLUSH] = BIT(IPOIB_CM_TX_DEAD) | BIT(IPOIB_CM_TX_KEPT),
};

static void ipoib_cm_trace(const struct ipoib_cm_conn *conn, const char *role,
			   const char *from, const char *to, const char *reason)
{
	trace_ipoib_conn(conn->port->cm.name, role, conn->qpn, conn->peer.raw,
			 from, to, reason,
			 jiffies_to_msecs(jiffies - conn->created),
			 jiffies_to_msecs(jiffies - READ_ONCE(conn->used)));
}

/* Why an active connection ends, "-" while it does not. */
static const char *ipoib_cm_tx_why(const struct ipoib_cm_tx *tx)
{
	if (tx->state < IPOIB_CM_TX_CLOSE)
		return "-";
	if (test_bit(IPOIB_CM_TX_F_DEAD, &tx->flags))
		return "device";
	if (test_bit(IPOIB_CM_TX_F_FAILED, &tx->flags))
		return "failed";
	return test_bit(IPOIB_CM_TX_F_QUIET, &tx->flags) ? "peer" : "local";
}

/**
 * ipoib_cm_rx_set_state() - the one place where a passive connection's state
 *	changes
 * @rx: the connection; its lock is held
 * @to: the new state
 *
 * Context: any.
 */
void ipoib_cm_rx_set_state(struct ipoib_cm_rx *rx, enum ipoib_cm_rx_state to)
{
	enum ipoib_cm_rx_state from = rx->state;

	lockdep_assert_held(&rx->lock);
	WARN_ONCE(!(ipoib_cm_rx_legal[from] & BIT(to)), "cm rx: %s -> %s\n",
		  ipoib_cm_rx_state_names[from], ipoib_cm_rx_state_names[to]);
	WRITE_ONCE(rx->state, to);
	ipoib_cm_trace(&rx->conn, "rx", ipoib_cm_rx_state_names[from],
		       ipoib_cm_rx_state_names[to],
		       to < IPOIB_CM_RX_CLOSE ? "-" :
		       ipoib_drain_reason_names[rx->reason]);
}

/**
 * ipoib_cm_tx_set_state() - the one place where an active connection's state
 *	changes
 * @tx: the connection; its lock is held
 * @to: the new state
 *
 * Context: any but hard interrupt.
 */
void ipoib_cm_tx_set_state(struct ipoib_cm_tx *tx, enum ipoib_cm_tx_state to)
{
	enum ipoib_cm_tx_state from = tx->state;

	lockdep_assert_held(&tx->lock);
	WARN_ONCE(!(ipoib_cm_tx_legal[from] & BIT(to)), "cm tx: %s -> %s\n",
		  ipoib_cm_tx_state_names[from], ipoib_cm_tx_state_names[to]);
	WRITE_ONCE(tx->state, to);
	ipoib_cm_trace(&tx->conn, "tx", ipoib_cm_tx_state_names[from],
		       ipoib_cm_tx_state_names[to], ipoib_cm_tx_why(tx));
}

/**
 * ipoib_cm_conn_init() - prepare the common part of a connection
 * @conn: the part, zeroed; the caller owns its one reference
 * @port: the port
 * @role: which side we are
 *
 * Context: any.
 */
void ipoib_cm_conn_init(struct ipoib_cm_conn *conn, struct ipoib_port *port,
			enum ipoib_cm_role role)
{
	kref_init(&conn->ref);
	INIT_LIST_HEAD(&conn->list);
	conn->port = port;
	conn->role = role;
	conn->created = jiffies;
	conn->used = jiffies;
}

/**
 * ipoib_cm_rx_new() - allocate a passive connection
 * @port: the port
 *
 * Context: process.
 * Return: the connection, on no list yet, or NULL.
 */
struct ipoib_cm_rx *ipoib_cm_rx_new(struct ipoib_port *port)
{
	struct ipoib_cm_rx *rx;

	rx = kzalloc(sizeof(*rx), GFP_KERNEL);
	if (!rx)
		return NULL;
	ipoib_cm_conn_init(&rx->conn, port, IPOIB_CM_PASSIVE);
	spin_lock_init(&rx->lock);
	INIT_WORK(&rx->err_work, ipoib_cm_err_work);
	INIT_WORK(&rx->reap_work, ipoib_cm_reap_work);
	rx->psn = get_random_u32() & IPOIB_QPN_MASK;
	rx->depth = port->cm.srq_depth;
	return rx;
}

/**
 * ipoib_cm_rx_enlist() - put a new connection on the port's list
 * @rx: the connection
 *
 * Context: &struct ipoib_cm_port.lock held.
 */
void ipoib_cm_rx_enlist(struct ipoib_cm_rx *rx)
{
	struct ipoib_cm_port *cm = &rx->conn.port->cm;

	lockdep_assert_held(&cm->lock);
	ipoib_drain_qp_init(&cm->drain, &rx->drain, NULL);
	list_add_tail(&rx->conn.list, &cm->rx_conns);
	if (!cm->nrx++)
		queue_delayed_work(cm->reap_wq, &cm->age_work, IPOIB_CM_AGE_MIN);
}

static void ipoib_cm_conn_free(struct kref *ref)
{
	struct ipoib_cm_conn *conn = container_of(ref, struct ipoib_cm_conn, ref);

	if (conn->role == IPOIB_CM_PASSIVE)
		kfree_rcu(ipoib_cm_rx_of(conn), conn.rcu);
	else
		kfree_rcu(ipoib_cm_tx_of(conn), conn.rcu);
}

/**
 * ipoib_cm_conn_put() - drop a reference to a connection
 * @conn: the connection
 *
 * Context: any but hard interrupt.
 */
void ipoib_cm_conn_put(struct ipoib_cm_conn *conn)
{
	kref_put(&conn->ref, ipoib_cm_conn_free);
}

static const struct rhashtable_params ipoib_cm_qps_params = {
	.key_len = sizeof_field(struct ipoib_cm_conn, qp),
	.key_offset = offsetof(struct ipoib_cm_conn, qp),
	.head_offset = offsetof(struct ipoib_cm_conn, hash),
	.automatic_shrinking = true,
};

/**
 * ipoib_cm_conn_hash() - let completions of a connection's QP find it
 * @conn: the connection; its QP has just been made
 *
 * Another connection may still stand under the same address. Its QP has been
 * destroyed, for two QPs do not share an address, so it can go.
 *
 * Context: process.
 * Return: 0 or -errno.
 */
int ipoib_cm_conn_hash(struct ipoib_cm_conn *conn)
{
	struct ipoib_cm_port *cm = &conn->port->cm;
	struct ipoib_cm_conn *old;
	int err = 0;

	rcu_read_lock();
	spin_lock_bh(&cm->lock);
	old = rhashtable_lookup_get_insert_fast(&cm->qps, &conn->hash,
						ipoib_cm_qps_params);
	if (IS_ERR(old))
		err = PTR_ERR(old);
	else if (old)
		err = rhashtable_replace_fast(&cm->qps, &old->hash, &conn->hash,
					      ipoib_cm_qps_params);
	spin_unlock_bh(&cm->lock);
	rcu_read_unlock();
	return err;
}

/**
 * ipoib_cm_conn_unhash() - the QP is gone for good: forget its address
 * @conn: the connection
 *
 * Context: process.
 */
void ipoib_cm_conn_unhash(struct ipoib_cm_conn *conn)
{
	struct ipoib_cm_port *cm = &conn->port->cm;

	spin_lock_bh(&cm->lock);
	rhashtable_remove_fast(&cm->qps, &conn->hash, ipoib_cm_qps_params);
	spin_unlock_bh(&cm->lock);
}

/**
 * ipoib_cm_conn_find() - the connection of a QP that a completion names
 * @cm: the port's connected-mode side
 * @qp: the QP; a key only, it may be gone
 *
 * Context: RCU read side.
 * Return: the connection, valid within the read side, or NULL.
 */
struct ipoib_cm_conn *ipoib_cm_conn_find(struct ipoib_cm_port *cm,
					 const struct ib_qp *qp)
{
	return rhashtable_lookup(&cm->qps, &qp, ipoib_cm_qps_params);
}

/**
 * ipoib_cm_qps_init() - make a port's table of QPs
 * @cm: the port's connected-mode side
 *
 * Context: process.
 * Return: 0 or -errno.
 */
int ipoib_cm_qps_init(struct ipoib_cm_port *cm)
{
	return rhashtable_init(&cm->qps, &ipoib_cm_qps_params);
}

/**
 * ipoib_cm_qps_uninit() - free a port's table of QPs
 * @cm: the port's connected-mode side
 *
 * Context: process; nobody looks up any more.
 */
void ipoib_cm_qps_uninit(struct ipoib_cm_port *cm)
{
	rhashtable_destroy(&cm->qps);
}
