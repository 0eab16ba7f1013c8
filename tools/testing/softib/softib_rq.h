/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Receive queues, own or shared, and the poison check of their buffers.
 */
#ifndef SOFTIB_RQ_H
#define SOFTIB_RQ_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <rdma/ib_verbs.h>

struct softib_port;

/* One scatter entry which the port owns while its WR is posted. */
struct softib_seg {
	struct hlist_node node;		/* in port->poison */
	u64 addr;
	u32 length;
	u32 lkey;
	struct page *page;		/* we hold a reference */
};

enum softib_slot_state {
	SOFTIB_SLOT_FREE,
	SOFTIB_SLOT_POSTED,
	SOFTIB_SLOT_LATE,		/* consumed, its completion is late */
	SOFTIB_SLOT_LOST,		/* consumed, its completion was eaten */
};

/* Lower wr_ids of receives have this bit: rxe's flushes carry no opcode. */
#define SOFTIB_WR_RECV		BIT_ULL(63)
#define SOFTIB_MAX_SGE		32	/* rxe's limit */

/* One posted receive WR; its index is in the lower wr_id. */
struct softib_slot {
	struct list_head node;		/* one of the lists of the rq */
	u64 wr_id;
	u8 state;
	u8 num_sge;
	struct softib_seg *seg;
};

struct softib_rq {
	struct softib_port *port;
	bool shared;
	bool ud;
	spinlock_t lock;		/* guards all below */
	unsigned int n_slots, max_sge, max_wr, outstanding;
	struct list_head free, posted, late, lost;
	struct softib_slot *slots;
	struct softib_seg *segs;
};

/* softib_rq.c */
int softib_rq_init(struct softib_rq *rq, struct softib_port *port,
		   unsigned int max_wr, unsigned int max_sge, bool shared);
void softib_rq_exit(struct softib_rq *rq);
void softib_rq_reset(struct softib_rq *rq);
struct softib_slot *softib_rq_post(struct softib_rq *rq,
				   const struct ib_recv_wr *wr);
void softib_rq_release(struct softib_rq *rq, struct softib_slot *slot,
		       bool lost);
void softib_rq_late(struct softib_rq *rq, struct softib_slot *slot);
struct softib_slot *softib_rq_slot(struct softib_rq *rq, u64 lower_id);
struct softib_slot *softib_rq_first(struct softib_rq *rq);
void softib_rq_wr(struct softib_rq *rq, struct softib_slot *slot,
		  struct ib_recv_wr *wr, struct ib_sge *sge);
int softib_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		     const struct ib_recv_wr **bad);
int softib_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init,
		      struct ib_udata *udata);
int softib_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
		      enum ib_srq_attr_mask mask, struct ib_udata *udata);
int softib_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr);
int softib_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata);
struct softib_srq;
void softib_srq_event(struct softib_srq *srq, enum ib_event_type type);
int softib_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
			 const struct ib_recv_wr **bad);

/* softib_poison.c */
void softib_poison_post(struct softib_rq *rq, struct softib_slot *slot);
void softib_poison_check(struct softib_rq *rq, struct softib_slot *slot,
			 u32 received, bool partial);
void softib_poison_drop(struct softib_rq *rq, struct softib_slot *slot);
void softib_poison_again(struct softib_slot *slot);
bool softib_poison_begun(const struct softib_slot *slot);
bool softib_poison_holds(const struct softib_slot *slot, u32 bytes);

#endif /* SOFTIB_RQ_H */
