/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The verbs objects: PD, AH, CQ, receive queues, SRQ, QP.
 */
#ifndef SOFTIB_OBJ_H
#define SOFTIB_OBJ_H

#include "softib.h"
#include "softib_rq.h"

#define SOFTIB_AH_BITS	8

/* A lower address handle; it belongs to its PD for ever and is re-used. */
struct softib_lah {
	struct list_head node;
	struct ib_ah *lower;
	struct softib_pd *pd;
	refcount_t refs;		/* the AH, and each send in flight */
};

struct softib_pd {
	struct ib_pd ib;
	struct softib_dev *sdev;
	struct ib_pd *lower;
	spinlock_t ah_lock;		/* guards spare, n_spare, live */
	DECLARE_HASHTABLE(live, SOFTIB_AH_BITS);
	struct list_head spare;
	unsigned int n_spare;
	struct work_struct refill;
};

struct softib_ah {
	struct ib_ah ib;
	struct hlist_node node;		/* pd->live */
	struct softib_lah *lah;
	struct rdma_ah_attr attr;	/* what the user gave, without GID refs */
	union ib_gid dgid;
};

struct softib_srq {
	struct ib_srq ib;
	struct softib_dev *sdev;
	struct ib_srq *lower;
	struct softib_rq rq;
	struct list_head node;		/* sdev->srqs */
	unsigned long event_due;	/* bits: types of events */
	struct work_struct event_work;
};

enum softib_kind {
	SOFTIB_KIND_RX,
	SOFTIB_KIND_TX,
	SOFTIB_KIND_FLUSH,
	SOFTIB_KIND_DRAIN,		/* flush of a send posted in ERR */
};

struct softib_delayed;

struct softib_cq {
	struct ib_cq ib;
	struct softib_dev *sdev;
	struct ib_cq *lower;
	unsigned int cqe;		/* entries the user asked for */
	atomic_t armed;
	spinlock_t lock;		/* guards the ring, delayed, held */
	struct ib_wc *ring;
	unsigned int size, head, tail;
	struct list_head delayed;
	struct delayed_work delay_work;
	struct softib_delayed *held;	/* to come behind the next one */
	bool dying, over;
	bool recvs;			/* of a QP's receives, too */
	bool mads;			/* of QP0 or QP1 */
};

struct softib_send {
	u64 wr_id;
	struct softib_lah *lah;
	u8 opcode;
	bool in_err;
};

struct softib_sq {
	spinlock_t lock;		/* guards all below, orders posts */
	struct softib_send *ring;
	unsigned int size;		/* power of two */
	unsigned int max_wr;		/* what the user was granted */
	u32 head, tail;			/* head: next to post; tail: oldest */
};

struct softib_qp {
	struct ib_qp ib;
	struct softib_dev *sdev;
	struct ib_qp *lower;		/* NULL for QP0 and QP1 */
	struct list_head node;		/* sdev->qps */
	struct softib_rq *rq;		/* own_rq, or the SRQ's */
	struct softib_rq own_rq;
	struct softib_sq sq;

	struct ib_qp_attr attr;		/* as the user set it */
	struct rdma_ah_attr av;
	struct ib_qp_init_attr init;
	u16 pkey;			/* of attr.pkey_index, sdev->qp_lock */
	u16 wire_pkey;			/* in the packet sequence numbers */
	struct hlist_node part_node;	/* sdev->part.qps */
	struct hlist_node moved_node;	/* sdev->part.moved */
	u32 psn_start;			/* lower receive PSN at RTR */
	u32 pkts_done;			/* packets of completed messages */
	bool rx_error;			/* an erroneous receive completed */

	spinlock_t ev_lock;		/* guards the bits below */
	bool in_err;
	bool lwqe_due;			/* this move to ERR owes its LWQE */
	bool lower_lwqe;
	bool dying;
	unsigned int raw_due;
	unsigned int dup_due;
	unsigned long async_due;	/* bits: types of events, and ERR */
	unsigned long half_deadline;
	struct delayed_work ev_work;	/* LWQE of a move to ERR */
	struct delayed_work dup_work;
	struct work_struct raw_work;
	struct work_struct async_work;
};

static inline struct softib_pd *to_spd(struct ib_pd *ib)
{
	return container_of(ib, struct softib_pd, ib);
}

static inline struct softib_ah *to_sah(struct ib_ah *ib)
{
	return container_of(ib, struct softib_ah, ib);
}

static inline struct softib_cq *to_scq(struct ib_cq *ib)
{
	return container_of(ib, struct softib_cq, ib);
}

static inline struct softib_srq *to_ssrq(struct ib_srq *ib)
{
	return container_of(ib, struct softib_srq, ib);
}

static inline struct softib_qp *to_sqp(struct ib_qp *ib)
{
	return container_of(ib, struct softib_qp, ib);
}

/* softib_ah.c */
int softib_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);
int softib_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);
int softib_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init,
		     struct ib_udata *udata);
int softib_query_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr);
int softib_destroy_ah(struct ib_ah *ibah, u32 flags);
struct softib_lah *softib_lah_of(struct softib_pd *pd, struct ib_ah *ibah);
void softib_lah_put(struct softib_lah *lah);

/* softib_lower.c */
struct ib_mr *softib_get_dma_mr(struct ib_pd *ibpd, int access);
int softib_dereg_mr(struct ib_mr *mr, struct ib_udata *udata);

/* softib_cq.c */
int softib_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		     struct softib_cq_udata *udata);
int softib_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);
int softib_poll_cq(struct ib_cq *ibcq, int n, struct ib_wc *wc);
int softib_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);
void softib_cq_inject(struct softib_cq *cq, const struct ib_wc *wc);
void softib_cq_pull(struct softib_cq *cq);
void softib_cq_purge(struct softib_cq *cq, struct softib_qp *qp);

/* softib_qp.c, softib_modify.c */
int softib_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init,
		     struct ib_udata *udata);
int softib_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		     struct ib_udata *udata);
int softib_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		    struct ib_qp_init_attr *init);
int softib_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);
int softib_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		     const struct ib_send_wr **bad);
void softib_sq_reset(struct softib_sq *sq);
bool softib_sq_complete(struct softib_qp *qp, struct ib_wc *wc);
void softib_qp_pkey_changed(struct softib_dev *sdev, u16 index);

/* softib_part.c */
void softib_part_add(struct softib_qp *qp);
void softib_part_del(struct softib_qp *qp);
void softib_part_update(struct softib_qp *qp);

/* softib_event.c */
void softib_event_init(struct softib_qp *qp);
void softib_event_stay(struct softib_qp *qp);
void softib_event_exit(struct softib_qp *qp);
void softib_event_lower(struct ib_event *ev, void *ctx);
void softib_event_error(struct softib_qp *qp);
void softib_event_reset(struct softib_qp *qp);
void softib_event_early(struct softib_qp *qp);
void softib_event_destroy(struct softib_qp *qp);
void softib_event_modified(struct softib_qp *qp);
void softib_event_abandon(struct softib_qp *qp);
void softib_event_async(struct softib_qp *qp, unsigned int type);

#define SOFTIB_EVENT_ERR	31	/* no event: the QP goes to ERR by itself */

#endif /* SOFTIB_OBJ_H */
