/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The datagram side of an interface: address handles, the UD QP with its CQs
 * and rings, send and receive.
 */
#ifndef IPOIB_UD_H
#define IPOIB_UD_H

#include <linux/llist.h>
#include <linux/netdevice.h>
#include <linux/refcount.h>
#include <linux/skbuff.h>
#include <rdma/ib_verbs.h>

struct ipoib_netdev;

/**
 * struct ipoib_ah - an address handle with the sends that use it
 * @ah: the verbs object
 * @ref: one for each holder and one for each send in flight; the handle is
 *	destroyed only after the last of them, in process context
 * @port: whose dead list it goes to
 * @dead: link on the port's list of handles to destroy
 * @mtu: largest IPoIB packet on its path in octets
 */
struct ipoib_ah {
	struct ib_ah *ah;
	refcount_t ref;
	struct ipoib_netdev *priv;
	struct llist_node dead;
	unsigned int mtu;
};

/* A posted receive buffer: the GRH and IPoIB header and payload in one skb. */
struct ipoib_ud_rx {
	struct sk_buff *skb;
	u64 dma;
};

/* A send in flight. The slot's index is the cookie of its WR. */
struct ipoib_ud_tx {
	struct sk_buff *skb;
	struct ipoib_ah *ah;
	u64 dma[MAX_SKB_FRAGS + 1];
};

/**
 * struct ipoib_ud - UD QP of an interface
 * @qp: in RESET while the interface is down, in RTS while it is up
 * @recv_cq: @send_cq: its CQs, polled by @recv_napi and @send_napi
 * @rx: ring of posted receive buffers; owned by @recv_napi while open
 * @tx: ring of sends in flight
 * @rx_size: @tx_size: entries, powers of two
 * @tx_head: next slot to fill; transmit queue lock
 * @tx_tail: next slot to complete; @send_napi
 * @dead_ahs: address handles without users
 * @ah_work: destroys @dead_ahs
 * @max_send_sge: scatter/gather entries of one send
 */
struct ipoib_ud {
	struct ib_qp *qp;
	struct ib_cq *recv_cq;
	struct ib_cq *send_cq;
	struct napi_struct recv_napi;
	struct napi_struct send_napi;
	struct ipoib_ud_rx *rx;
	struct ipoib_ud_tx *tx;
	unsigned int rx_size;
	unsigned int tx_size;
	unsigned int tx_head;
	unsigned int tx_tail;
	struct llist_head dead_ahs;
	struct work_struct ah_work;
	unsigned int max_send_sge;
	struct { u16 usecs; u16 frames; } coalesce;
};

/* ipoib_ah.c */
struct ipoib_ah *ipoib_ah_create(struct ipoib_netdev *priv,
				 struct rdma_ah_attr *attr, unsigned int mtu);
void ipoib_ah_get(struct ipoib_ah *ah);
void ipoib_ah_put(struct ipoib_ah *ah);
void ipoib_ah_init(struct ipoib_netdev *priv);
void ipoib_ah_flush(struct ipoib_netdev *priv);

/* ipoib_qp.c: life of the UD QP and its CQs */
int ipoib_qp_create(struct ipoib_netdev *priv);
void ipoib_qp_destroy(struct ipoib_netdev *priv);
int ipoib_qp_to_rts(struct ipoib_netdev *priv);
void ipoib_qp_to_reset(struct ipoib_netdev *priv);
int ipoib_qp_to_error(struct ipoib_netdev *priv);
int ipoib_qp_set_qkey(struct ipoib_netdev *priv, u32 qkey);
int ipoib_qp_attach(struct ipoib_netdev *priv, const union ib_gid *mgid, u16 mlid);
int ipoib_qp_detach(struct ipoib_netdev *priv, const union ib_gid *mgid, u16 mlid);

/* ipoib_ud.c: data path */
int ipoib_ud_init(struct ipoib_netdev *priv);
void ipoib_ud_uninit(struct ipoib_netdev *priv);
int ipoib_ud_open(struct ipoib_netdev *priv);
void ipoib_ud_stop(struct ipoib_netdev *priv);
void ipoib_ud_send(struct ipoib_netdev *priv, struct sk_buff *skb,
		   struct ipoib_ah *ah, u32 qpn);
void ipoib_ud_deliver(struct ipoib_netdev *priv, struct napi_struct *napi,
		      struct sk_buff *skb);

#endif /* IPOIB_UD_H */
