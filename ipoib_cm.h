/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Connected mode (RFC 4755). The verbs side belongs to the port and is shared
 * by its netdevs; connections belong to the port too and only point to their
 * netdev. See Documentation/cm-lifecycle.rst.
 */
#ifndef IPOIB_CM_H
#define IPOIB_CM_H

#include <linux/list.h>
#include <linux/netdevice.h>
#include <linux/rhashtable.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_cm.h>
#include <rdma/ib_verbs.h>

#include "ipoib_cm_drain.h"
#include "ipoib_cm_probe.h"

struct ipoib_ah;
struct ipoib_cm_ring;
struct ipoib_cm_rx;
struct ipoib_cm_tx;
struct ipoib_neigh;
struct ipoib_netdev;
struct ipoib_port;
struct page_pool;
struct sa_path_rec;

#define IPOIB_CM_COPYBREAK	256	/* octets: shorter packets are copied */
#define IPOIB_CM_REAP_WORKERS	8	/* destroys and moves to ERR at a time */
#define IPOIB_CM_ACCEPT_WORKERS	4	/* REQs worked on at a time */
#define IPOIB_CM_PEER_MAX	4	/* passive connections of one peer */
#define IPOIB_CM_NETDEV_MAX	4096	/* passive connections of one netdev */
#define IPOIB_CM_NSIDS		2	/* service-ID prefixes */
#define IPOIB_CM_RNR_RETRY	6	/* what we do, and ask of peers, on a dry SRQ */
#define IPOIB_CM_RD_ATOMIC	4	/* as in the field; no RDMA is ever used */

/**
 * struct ipoib_cm_flood - who takes how much of the receive stock
 *
 * All but @low belongs to the poller of the receive CQ.
 *
 * @low: the stock is low; lockless
 * @window: number of the present window of as many packets as the SRQ is deep
 * @taken: packets in it
 * @most: of these, what @lead took
 * @lead: the netdev that took most in this window; a key, never followed
 * @hog: the netdev that took most in the last window; a key, too
 */
struct ipoib_cm_flood {
	bool low;
	u32 window;
	u32 taken;
	u32 most;
	const struct ipoib_netdev *lead;
	const struct ipoib_netdev *hog;
};

/**
 * struct ipoib_cm_port - connected-mode side of a port
 * @name: HCA and port, for messages and traces
 * @capable: RC and enough scatter/gather entries: connected mode is offered
 * @recv_cq: receives of all passive QPs, and their drain WRs; @recv_napi
 * @send_cq: sends of all active QPs; @send_napi
 * @napi_dev: dummy netdev that carries the NAPIs
 * @mtu: largest IPoIB MTU that the receive buffers hold, in octets
 * @rx_pages: pages of one receive buffer
 * @srq_depth: receive WRs of one ring
 * @max_send_sge: scatter/gather entries of one send
 * @max_rx: most passive connections
 * @rings: receive rings by id; the cookie of a receive WR is (id, slot)
 * @next_ring: where the search for a free ring id starts
 * @nrings: SRQ generations alive
 * @srq_ring: ring of the current SRQ generation; NULL without SRQs; written by
 *	@refill_work under @lock
 * @has_srq: the HCA has SRQs
 * @flood: protects the stock of the SRQ
 * @pool: pages of receive buffers; only the poller of @recv_cq allocates
 * @lock: guards @rx_conns, @tx_conns, the counts and the credits, and
 *	&struct ipoib_cm_netdev; BH
 * @rx_conns: @tx_conns: connections that have not been released
 * @nrx: @ntx: their numbers
 * @nattached: passive ones that have a netdev
 * @nkept: QPs, SRQs and CQs that the HCA did not destroy; what they name is kept
 * @npins: references to this module for them: the HCA calls their handlers
 * @refused: the last QP could not be destroyed, for all tries; lockless
 * @recv_credits: entries of @recv_cq that no own ring has reserved
 * @send_credits: entries of @send_cq that no send has taken; lockless
 * @send_debt: entries that a destroyed QP may still occupy; they become
 *	credits when the CQ has been seen empty
 * @next_tx: upper half of the cookies of the next active connection
 * @qps: connections by their QP's address; read under RCU
 * @drain: the drain engine
 * @drain_work: @drain_timer: run it
 * @drain_wq: of @drain_work alone, so that no destroy delays it
 * @reap_wq: unbound, WQ_MEM_RECLAIM: moves to ERR, destroys
 * @accept_wq: unbound: makes QPs for REQs
 * @refill_work: makes good the deficit of receive rings
 * @age_work: retires idle passive connections
 * @probe: the HCA probe
 * @closing: no new connections, no new rings
 * @dead: the HCA is gone
 * @said_lwqe: @said_flush: the missing signal has been reported
 * @idle: woken when the last connection has been released
 */
struct ipoib_cm_port {
	char name[IB_DEVICE_NAME_MAX + 12];
	bool capable;
	struct ib_cq *recv_cq;
	struct ib_cq *send_cq;
	struct net_device *napi_dev;
	struct napi_struct recv_napi;
	struct napi_struct send_napi;
	unsigned int mtu;
	unsigned int rx_pages;
	unsigned int srq_depth;
	unsigned int max_send_sge;
	unsigned int max_rx;
	struct xarray rings;
	u32 next_ring;
	atomic_t nrings;
	struct ipoib_cm_ring *srq_ring;
	bool has_srq;
	struct ipoib_cm_flood flood;
	struct page_pool *pool;
	spinlock_t lock;
	struct list_head rx_conns;
	struct list_head tx_conns;
	unsigned int nrx;
	unsigned int ntx;
	unsigned int nattached;
	unsigned int nkept;
	unsigned int npins;
	bool refused;
	u32 recv_credits;
	atomic_t send_credits;
	u32 send_debt;
	u32 next_tx;
	struct rhashtable qps;
	struct ipoib_drain drain;
	struct work_struct drain_work;
	struct hrtimer drain_timer;
	struct workqueue_struct *drain_wq;
	struct workqueue_struct *reap_wq;
	struct workqueue_struct *accept_wq;
	struct delayed_work refill_work;
	struct delayed_work age_work;
	struct ipoib_cm_probe probe;
	bool closing;
	bool dead;
	bool said_lwqe;
	bool said_flush;
	wait_queue_head_t idle;
};

/**
 * struct ipoib_cm_netdev - connected-mode side of a netdev
 * @listen: one listener for each service-ID prefix; they live as long as the
 *	netdev and reject while it is down
 * @accepting: the interface is up and takes REQs
 * @nrx: passive connections that are attached
 * @window: @taken: packets received in that window of &struct ipoib_cm_flood
 * @held: active connections that hold the transmit queue back
 */
struct ipoib_cm_netdev {
	struct ib_cm_id *listen[IPOIB_CM_NSIDS];
	bool accepting;
	unsigned int nrx;
	u32 window;
	u32 taken;
	atomic_t held;
};

extern unsigned int ipoib_rx_idle_timeout;	/* seconds */
extern unsigned int ipoib_drain_timeout_ms;

extern const u64 ipoib_cm_sids[IPOIB_CM_NSIDS];

/* ipoib_cm.c */
int ipoib_cm_port_init(struct ipoib_port *port);
bool ipoib_cm_port_uninit(struct ipoib_port *port);
void ipoib_cm_port_dead(struct ipoib_port *port);
void ipoib_cm_netdev_init(struct ipoib_netdev *priv);
void ipoib_cm_netdev_destroy(struct ipoib_netdev *priv);
void ipoib_cm_open(struct ipoib_netdev *priv);
void ipoib_cm_stop(struct ipoib_netdev *priv);
bool ipoib_cm_capable(const struct ipoib_netdev *priv);
unsigned int ipoib_cm_max_mtu(const struct ipoib_netdev *priv);
void ipoib_cm_conns_show(struct ipoib_netdev *priv, struct seq_file *m);
void ipoib_cm_drain_show(struct ipoib_netdev *priv, struct seq_file *m);

/* ipoib_cm_tx.c */
struct ipoib_cm_tx *ipoib_cm_tx_create(struct ipoib_neigh *neigh,
				       const struct sa_path_rec *rec);
bool ipoib_cm_tx_is_up(const struct ipoib_cm_tx *tx);
unsigned int ipoib_cm_tx_mtu(const struct ipoib_cm_tx *tx);
void ipoib_cm_tx_send(struct ipoib_netdev *priv, struct sk_buff *skb,
		      struct ipoib_cm_tx *tx);
void ipoib_cm_tx_detach(struct ipoib_cm_tx *tx);

#endif /* IPOIB_CM_H */
