/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the files of connected mode call of each other. */
#ifndef IPOIB_CM_CONN_H
#define IPOIB_CM_CONN_H

#include <linux/netdevice.h>
#include <linux/workqueue.h>
#include <rdma/ib_cm.h>

#include "ipoib_cm_drain.h"
#include "ipoib_cm_state.h"

struct ipoib_cm_port;
struct ipoib_netdev;
struct ipoib_port;

#define IPOIB_CM_AGE_MIN	HZ

/* ipoib_cm_state.c */
struct ipoib_cm_rx *ipoib_cm_rx_new(struct ipoib_port *port);
void ipoib_cm_rx_enlist(struct ipoib_cm_rx *rx);

/* ipoib_cm_rx.c: REQs, receive completions, ageing */
int ipoib_cm_rx_handler(struct ib_cm_id *id, const struct ib_cm_event *event);
int ipoib_cm_rx_napi(struct napi_struct *napi, int budget);
void ipoib_cm_rx_close(struct ipoib_cm_rx *rx, enum ipoib_drain_reason reason,
		       bool lwqe);
void ipoib_cm_rx_detach(struct ipoib_cm_rx *rx);
void ipoib_cm_rx_stop(struct ipoib_netdev *priv);
void ipoib_cm_rx_dead(struct ipoib_port *port);
void ipoib_cm_rx_age(struct work_struct *work);

int ipoib_cm_rx_make_qp(struct ipoib_cm_rx *rx, enum ib_qp_state *reached);
void ipoib_cm_rx_dispose(struct ipoib_cm_rx *rx, enum ib_qp_state reached);

/* ipoib_cm_flood.c: protection of the receive stock */
bool ipoib_cm_flood_drop(struct ipoib_cm_port *cm, struct ipoib_netdev *priv);
void ipoib_cm_flood_low(struct ipoib_cm_port *cm);
bool ipoib_cm_flood_is_low(const struct ipoib_cm_port *cm);
void ipoib_cm_flood_empty(struct ipoib_cm_port *cm);

/* ipoib_cm_reap.c: surroundings of the drain engine, ends of QPs */
extern const struct ipoib_drain_ops ipoib_cm_drain_ops;
void ipoib_cm_err_work(struct work_struct *work);
void ipoib_cm_reap_work(struct work_struct *work);
void ipoib_cm_keep(struct ipoib_cm_port *cm);
int ipoib_cm_destroy_qp(struct ipoib_cm_conn *conn);
int ipoib_cm_rx_destroy_qp(struct ipoib_cm_rx *rx);
void ipoib_cm_rx_gone(struct ipoib_cm_rx *rx);
void ipoib_cm_rx_poke(struct ipoib_cm_port *cm);
void ipoib_cm_rx_done(struct ipoib_cm_rx *rx);
void ipoib_cm_rx_flushed(struct ipoib_cm_port *cm, struct ipoib_cm_conn *conn,
			 enum ib_wc_status status);
void ipoib_cm_signal(struct ipoib_cm_rx *rx, const char *signal, int status);
void ipoib_cm_signal_rq(struct ipoib_cm_rx *rx);

/* ipoib_cm_tx.c: sends and their completions */
int ipoib_cm_tx_napi(struct napi_struct *napi, int budget);
bool ipoib_cm_tx_take_credit(struct ipoib_cm_tx *tx);
bool ipoib_cm_tx_post_marker(struct ipoib_cm_tx *tx);
bool ipoib_cm_tx_drained(struct ipoib_cm_tx *tx);
void ipoib_cm_tx_discard(struct ipoib_cm_tx *tx);
int ipoib_cm_tx_ring_alloc(struct ipoib_cm_tx *tx);
void ipoib_cm_tx_close(struct ipoib_cm_tx *tx, unsigned int why);
void ipoib_cm_tx_wake(struct ipoib_cm_tx *tx);
void ipoib_cm_tx_stall_work(struct work_struct *work);

/* ipoib_cm_dial.c: life of an active connection */
void ipoib_cm_tx_stop(struct ipoib_netdev *priv);
void ipoib_cm_tx_dead(struct ipoib_port *port);

/* A QP of the HCA probe: without CM id, netdev and peer. */
static inline bool ipoib_cm_rx_is_probe(const struct ipoib_cm_rx *rx)
{
	return READ_ONCE(rx->reason) == IPOIB_DRAIN_BY_PROBE;
}

#endif /* IPOIB_CM_CONN_H */
