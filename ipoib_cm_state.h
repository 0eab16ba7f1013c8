/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Connections: what passive and active ones share, their states, references.
 * See Documentation/cm-lifecycle.rst.
 */
#ifndef IPOIB_CM_STATE_H
#define IPOIB_CM_STATE_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/rhashtable.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <rdma/ib_cm.h>
#include <rdma/ib_sa.h>
#include <rdma/ib_verbs.h>

#include "ipoib_cm_drain.h"
#include "ipoib_cm_probe.h"

struct ipoib_cm_port;
struct ipoib_cm_ring;
struct ipoib_neigh;
struct ipoib_netdev;
struct ipoib_port;

enum ipoib_cm_role {
	IPOIB_CM_PASSIVE,	/* the peer sent the REQ: we only receive */
	IPOIB_CM_ACTIVE,	/* we sent the REQ: we only send */
};

/**
 * struct ipoib_cm_conn - what both kinds of connection have
 * @hash: in &struct ipoib_cm_port.qps; hashed from before the QP leaves RESET
 *	until it is destroyed
 * @qp: the QP, and the key of @hash; written once by the worker that makes it
 * @qpn: its number, for messages after it is gone
 * @role: which kind
 * @list: on the port's list of its kind until released
 * @ref: one for the list, one for each work item that is queued or walks it
 * @rcu: freed after a grace period: completions find it under RCU
 * @port: the port; outlives the connection
 * @netdev: the interface, NULL once detached; written under
 *	&struct ipoib_cm_port.lock, read under RCU
 * @id: CM id; written by the worker that makes or destroys it
 * @peer: GID of the peer
 * @peer_qpn: UD QPN that the peer claims
 * @ud_qpn: UD QPN of our interface
 * @pkey_index: of the interface, at the time the connection was made
 * @created: jiffies
 * @used: jiffies of the last packet; lockless
 * @packets: @bytes: written by the poller of its CQ
 */
struct ipoib_cm_conn {
	struct rhash_head hash;
	struct ib_qp *qp;
	u32 qpn;
	enum ipoib_cm_role role;
	struct list_head list;
	struct kref ref;
	struct rcu_head rcu;
	struct ipoib_port *port;
	struct ipoib_netdev __rcu *netdev;
	struct ib_cm_id *id;
	union ib_gid peer;
	u32 peer_qpn;
	u32 ud_qpn;
	u16 pkey_index;
	unsigned long created;
	unsigned long used;
	u64 packets;
	u64 bytes;
};

/**
 * enum ipoib_cm_rx_state - where a passive connection stands
 * @IPOIB_CM_RX_REQ: REQ received, not answered; a worker makes the QP
 * @IPOIB_CM_RX_REP: REP sent, QP in RTS
 * @IPOIB_CM_RX_LIVE: RTU or a first packet received
 * @IPOIB_CM_RX_CLOSE: DREQ sent or received, or the QP failed; the rest is
 *	told by enum ipoib_drain_state
 * @IPOIB_CM_RX_GONE: QP and CM id destroyed
 */
enum ipoib_cm_rx_state {
	IPOIB_CM_RX_REQ,
	IPOIB_CM_RX_REP,
	IPOIB_CM_RX_LIVE,
	IPOIB_CM_RX_CLOSE,
	IPOIB_CM_RX_GONE,
	IPOIB_CM_RX_NSTATES
};

/**
 * struct ipoib_cm_rx - a passive connection
 * @conn: common part
 * @lock: guards @state, @aborted, @reason, @lwqe and @rtu; interrupts off, for the QP
 *	event handler takes it
 * @state: set by ipoib_cm_rx_set_state() only
 * @aborted: ended while a worker was still making the QP, because of @reason
 * @reason: why it ended; IPOIB_DRAIN_BY_PROBE from the start for the HCA probe's
 * @lwqe: LWQE was raised while a worker was still making the QP
 * @rtu: RTU was received before the worker was done
 * @superseded: the same peer has a newer one, so retire it when it is idle
 * @psn: first PSN that we expect
 * @responder_resources: as the peer asked, at most what the HCA has
 * @drain: the drain engine's part
 * @ring: where its receives come from; a reference is held
 * @depth: receive WRs of a ring of its own
 * @seen: the signals of its drain
 * @accept_work: makes the QP and sends the REP
 * @err_work: moves the QP to ERR
 * @reap_work: destroys CM id and QP
 */
struct ipoib_cm_rx {
	struct ipoib_cm_conn conn;
	spinlock_t lock;
	enum ipoib_cm_rx_state state;
	bool aborted;
	bool lwqe;
	bool rtu;
	bool superseded;
	enum ipoib_drain_reason reason;
	u32 psn;
	u8 responder_resources;
	struct ipoib_drain_qp drain;
	struct ipoib_cm_ring *ring;
	u32 depth;
	struct ipoib_cm_signals seen;
	struct work_struct accept_work;
	struct work_struct err_work;
	struct work_struct reap_work;
};

/**
 * enum ipoib_cm_tx_state - where an active connection stands
 * @IPOIB_CM_TX_INIT: nothing sent; a worker makes the QP
 * @IPOIB_CM_TX_REQ: REQ sent
 * @IPOIB_CM_TX_UP: REP received, RTU sent, QP in RTS
 * @IPOIB_CM_TX_CLOSE: nothing is posted any more; the QP goes to ERR
 * @IPOIB_CM_TX_FLUSH: QP in ERR, the flush marker stands behind all sends
 * @IPOIB_CM_TX_DEAD: QP and CM id destroyed
 * @IPOIB_CM_TX_KEPT: ib_destroy_qp() failed; a counted leak
 */
enum ipoib_cm_tx_state {
	IPOIB_CM_TX_INIT,
	IPOIB_CM_TX_REQ,
	IPOIB_CM_TX_UP,
	IPOIB_CM_TX_CLOSE,
	IPOIB_CM_TX_FLUSH,
	IPOIB_CM_TX_DEAD,
	IPOIB_CM_TX_KEPT,
	IPOIB_CM_TX_NSTATES
};

/* Bits of &struct ipoib_cm_tx.flags: news for the worker. */
enum ipoib_cm_tx_flag {
	IPOIB_CM_TX_F_REP,	/* REP received */
	IPOIB_CM_TX_F_AGAIN,	/* REJ that a new QP or service ID may cure */
	IPOIB_CM_TX_F_CLOSE,	/* end it */
	IPOIB_CM_TX_F_FAILED,	/* ... because it failed: back off */
	IPOIB_CM_TX_F_REFUSED,	/* ... by a peer that is up, or by our own HCA */
	IPOIB_CM_TX_F_QUIET,	/* ... and the peer knows: no DREQ */
	IPOIB_CM_TX_F_DEAD,	/* has been told that the HCA is gone */
};

struct ipoib_cm_tx_req;

/**
 * struct ipoib_cm_tx - an active connection
 * @conn: common part
 * @lock: guards @state, @neigh, the ring and @stopped; BH
 * @state: set by ipoib_cm_tx_set_state() only, in the worker
 * @flags: enum ipoib_cm_tx_flag; atomic
 * @neigh: the neighbour that it serves, NULL once detached; a reference is held
 * @rec: path to the peer
 * @mtu: largest IPoIB packet that the peer takes, in octets
 * @sid: index of the service-ID prefix to dial
 * @tries: REQs sent
 * @psn: first PSN that we expect
 * @id: upper half of the cookies of its sends
 * @size: slots of @ring, a power of two; one is kept for the flush marker
 * @ring: sends in flight, NULL until the worker made it
 * @head: @tail: sequence numbers of the next send and of the oldest in flight
 * @credits: entries of the send CQ that it holds: one for each packet in flight,
 *	and one for the flush marker from the time that it has a QP
 * @stopped: it stopped the interface's transmit queue
 * @progress: jiffies of the last completed send
 * @deadline: jiffies at which the wait for the flush marker ends
 * @work: connects and tears down
 * @stall_work: releases a stopped queue when no send completes
 */
struct ipoib_cm_tx {
	struct ipoib_cm_conn conn;
	spinlock_t lock;
	enum ipoib_cm_tx_state state;
	unsigned long flags;
	struct ipoib_neigh *neigh;
	struct sa_path_rec rec;
	unsigned int mtu;
	unsigned int sid;
	unsigned int tries;
	u32 psn;
	u32 id;
	u32 size;
	struct ipoib_cm_tx_req *ring;
	u32 head;
	u32 tail;
	u32 credits;
	bool stopped;
	unsigned long progress;
	unsigned long deadline;
	struct delayed_work work;
	struct delayed_work stall_work;
};

/* Legal transitions: bit TO is set in entry FROM. */
extern const u8 ipoib_cm_rx_legal[IPOIB_CM_RX_NSTATES];
extern const u8 ipoib_cm_tx_legal[IPOIB_CM_TX_NSTATES];
extern const char *const ipoib_cm_rx_state_names[IPOIB_CM_RX_NSTATES];
extern const char *const ipoib_cm_tx_state_names[IPOIB_CM_TX_NSTATES];

void ipoib_cm_rx_set_state(struct ipoib_cm_rx *rx, enum ipoib_cm_rx_state to);
void ipoib_cm_tx_set_state(struct ipoib_cm_tx *tx, enum ipoib_cm_tx_state to);

void ipoib_cm_conn_init(struct ipoib_cm_conn *conn, struct ipoib_port *port,
			enum ipoib_cm_role role);
void ipoib_cm_conn_put(struct ipoib_cm_conn *conn);
int ipoib_cm_conn_hash(struct ipoib_cm_conn *conn);
void ipoib_cm_conn_unhash(struct ipoib_cm_conn *conn);
struct ipoib_cm_conn *ipoib_cm_conn_find(struct ipoib_cm_port *cm,
					 const struct ib_qp *qp);
int ipoib_cm_qps_init(struct ipoib_cm_port *cm);
void ipoib_cm_qps_uninit(struct ipoib_cm_port *cm);

static inline struct ipoib_cm_rx *ipoib_cm_rx_of(struct ipoib_cm_conn *conn)
{
	return container_of(conn, struct ipoib_cm_rx, conn);
}

static inline struct ipoib_cm_tx *ipoib_cm_tx_of(struct ipoib_cm_conn *conn)
{
	return container_of(conn, struct ipoib_cm_tx, conn);
}

#endif /* IPOIB_CM_STATE_H */
