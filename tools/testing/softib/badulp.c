// SPDX-License-Identifier: GPL-2.0-only
/*
 * badulp: a user of softib0 and softib1 that does as it is told, wrong things
 * too, so that tests can see whether the ports notice. For tests of the rig.
 *
 *	echo "post 1 4" > /sys/module/badulp/parameters/run
 *	cat /sys/module/badulp/parameters/run
 *
 * A command is a word and up to three numbers; END is 0 or 1 for the port. What
 * it found out is read back as "name=value" words; a verb that refuses fails the
 * write with its errno. README.rst lists the commands.
 */
#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_cm.h>
#include <rdma/ib_sa.h>
#include <rdma/ib_verbs.h>

#include "softib_compat.h"

#define BAD_BUFS	64
#define BAD_ORDER	2
#define BAD_SIZE	(PAGE_SIZE << BAD_ORDER)
#define BAD_DEPTH	32
#define BAD_WAIT_MS	1000
#define BAD_QKEY	0x1234
#define BAD_EVENTS	32

/* One end of a connection, on one port. */
struct bad_end {
	struct ib_device *ib;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_srq *srq;
	struct ib_qp *qp;
	struct ib_qp *leaked;
	struct ib_ah *ah;		/* of the other end */
	struct page *buf[BAD_BUFS];	/* posted, by wr_id */
	struct page *out;		/* what is sent */
	unsigned int n_posted;
	struct completion comp;		/* the CQ has news */
	atomic_t events[BAD_EVENTS];	/* asynchronous ones, by type */
	u16 lid;
};

static DEFINE_MUTEX(bad_lock);	/* guards all below but the events */
static struct bad_end bad_end[2];
static char bad_said[128];
static unsigned int bad_wait_ms = BAD_WAIT_MS;
module_param_named(wait_ms, bad_wait_ms, uint, 0600);
MODULE_PARM_DESC(wait_ms, "Patience with completions");

static int bad_cqe = 2 * BAD_DEPTH;
module_param_named(cqe, bad_cqe, int, 0600);
MODULE_PARM_DESC(cqe, "Entries of the CQs that open makes");

static int bad_pkey_index;
module_param_named(pkey_index, bad_pkey_index, int, 0600);
MODULE_PARM_DESC(pkey_index, "P_Key of the QPs that open makes");

/* objects */

static void bad_comp(struct ib_cq *cq, void *ctx)
{
	complete(&((struct bad_end *)ctx)->comp);
}

static void bad_event(struct ib_event *ev, void *ctx)
{
	struct bad_end *end = ctx;

	if (ev->event < BAD_EVENTS)
		atomic_inc(&end->events[ev->event]);
}

static void bad_close(struct bad_end *end)
{
	int i;

	if (end->ah)
		rdma_destroy_ah(end->ah, RDMA_DESTROY_AH_SLEEPABLE);
	end->ah = NULL;
	if (end->leaked)
		ib_destroy_qp(end->leaked);
	end->leaked = NULL;
	if (end->qp)
		ib_destroy_qp(end->qp);
	end->qp = NULL;
	if (end->srq)
		ib_destroy_srq(end->srq);
	end->srq = NULL;
	if (end->cq)
		ib_destroy_cq(end->cq);
	end->cq = NULL;
	if (end->pd)
		ib_dealloc_pd(end->pd);
	end->pd = NULL;
	for (i = 0; i < BAD_BUFS; i++) {
		if (end->buf[i])
			__free_pages(end->buf[i], BAD_ORDER);
		end->buf[i] = NULL;
	}
	if (end->out)
		__free_pages(end->out, BAD_ORDER);
	end->out = NULL;
	end->n_posted = 0;
}

static struct ib_qp *bad_make_qp(struct bad_end *end, enum ib_qp_type type,
				 int send_sge)
{
	struct ib_qp_init_attr init = {
		.event_handler = bad_event,
		.qp_context = end,
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.srq = end->srq,
		.cap.max_send_wr = BAD_DEPTH,
		.cap.max_send_sge = send_sge,
		.cap.max_recv_wr = end->srq ? 0 : BAD_DEPTH,
		.cap.max_recv_sge = end->srq ? 0 : 1,
		.sq_sig_type = IB_SIGNAL_ALL_WR,
		.qp_type = type,
	};

	return ib_create_qp(end->pd, &init);
}

static struct ib_srq *bad_make_srq(struct bad_end *end)
{
	struct ib_srq_init_attr init = {
		.event_handler = bad_event,
		.srq_context = end,
		.attr.max_wr = BAD_DEPTH,
		.attr.max_sge = 1,
		.srq_type = IB_SRQT_BASIC,
	};

	return ib_create_srq(end->pd, &init);
}

#define bad_take(what, made) ({						\
	typeof(made) made_ = (made);					\
	if (!IS_ERR(made_))						\
		(what) = made_;						\
	PTR_ERR_OR_ZERO(made_);						\
})

static int bad_open_end(struct bad_end *end, enum ib_qp_type type, bool srq)
{
	struct ib_cq_init_attr cq = { .cqe = bad_cqe };
	struct ib_port_attr port;
	int i, ret;

	for (i = 0; i < BAD_EVENTS; i++)
		atomic_set(&end->events[i], 0);
	reinit_completion(&end->comp);
	ret = ib_query_port(end->ib, 1, &port);
	if (ret)
		return ret;
	end->lid = port.lid;
	end->out = alloc_pages(GFP_KERNEL | __GFP_ZERO | __GFP_COMP, BAD_ORDER);
	if (!end->out)
		return -ENOMEM;
	ret = bad_take(end->pd, ib_alloc_pd(end->ib, 0));
	if (!ret)
		ret = bad_take(end->cq, ib_create_cq(end->ib, bad_comp, NULL,
						     end, &cq));
	if (!ret && srq)
		ret = bad_take(end->srq, bad_make_srq(end));
	if (!ret)
		ret = bad_take(end->qp, bad_make_qp(end, type, 1));
	return ret;
}

static int bad_to_init(struct bad_end *end)
{
	bool ud = end->qp->qp_type == IB_QPT_UD;
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.pkey_index = bad_pkey_index,
		.port_num = 1,
		.qkey = BAD_QKEY,
	};

	return ib_modify_qp(end->qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX |
			    IB_QP_PORT |
			    (ud ? IB_QP_QKEY : IB_QP_ACCESS_FLAGS));
}

static int bad_to_rtr(struct bad_end *end, struct bad_end *peer)
{
	int mask = IB_QP_STATE;
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTR,
		.path_mtu = IB_MTU_1024,
		.dest_qp_num = peer->qp->qp_num,
		.rq_psn = 100,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.ah_attr.type = RDMA_AH_ATTR_TYPE_IB,
	};

	rdma_ah_set_dlid(&attr.ah_attr, peer->lid);
	rdma_ah_set_port_num(&attr.ah_attr, 1);
	if (end->qp->qp_type != IB_QPT_UD)
		mask |= IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN |
			IB_QP_RQ_PSN | IB_QP_MAX_DEST_RD_ATOMIC |
			IB_QP_MIN_RNR_TIMER;
	return ib_modify_qp(end->qp, &attr, mask);
}

static int bad_to_rts(struct bad_end *end)
{
	int mask = IB_QP_STATE | IB_QP_SQ_PSN;
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTS,
		.sq_psn = 100,
		.timeout = 18,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
	};

	if (end->qp->qp_type != IB_QPT_UD)
		mask |= IB_QP_TIMEOUT | IB_QP_RETRY_CNT | IB_QP_RNR_RETRY |
			IB_QP_MAX_QP_RD_ATOMIC;
	return ib_modify_qp(end->qp, &attr, mask);
}

static int bad_make_ah(struct bad_end *end, struct bad_end *peer)
{
	struct rdma_ah_attr attr = { .type = RDMA_AH_ATTR_TYPE_IB };

	rdma_ah_set_dlid(&attr, peer->lid);
	rdma_ah_set_port_num(&attr, 1);
	return bad_take(end->ah, rdma_create_ah(end->pd, &attr,
						RDMA_CREATE_AH_SLEEPABLE));
}

static int bad_connect(struct bad_end *end, struct bad_end *peer)
{
	int ret = bad_to_init(end);

	if (!ret)
		ret = bad_to_rtr(end, peer);
	if (!ret)
		ret = bad_to_rts(end);
	if (!ret && !end->ah && end->qp->qp_type == IB_QPT_UD)
		ret = bad_make_ah(end, peer);
	return ret;
}

/* commands */

static struct bad_end *bad_peer(struct bad_end *end)
{
	return &bad_end[end == bad_end];
}

static int bad_do_close(struct bad_end *end, int a, int b)
{
	bad_close(&bad_end[0]);
	bad_close(&bad_end[1]);
	return 0;
}

static int bad_open(enum ib_qp_type type, bool srq)
{
	int i, ret = 0;

	if (bad_end[0].pd || bad_end[1].pd)
		return -EBUSY;
	for (i = 0; i < 2 && !ret; i++)
		ret = bad_open_end(&bad_end[i], type, srq);
	for (i = 0; i < 2 && !ret; i++)
		ret = bad_connect(&bad_end[i], &bad_end[!i]);
	if (ret)
		bad_do_close(NULL, 0, 0);
	return ret;
}

static int bad_do_ud(struct bad_end *end, int a, int b)
{
	return bad_open(IB_QPT_UD, false);
}

static int bad_do_rc(struct bad_end *end, int a, int b)
{
	return bad_open(IB_QPT_RC, false);
}

static int bad_do_srq(struct bad_end *end, int a, int b)
{
	return bad_open(IB_QPT_RC, true);
}

static int bad_post_page(struct bad_end *end, struct page *page, u64 wr_id)
{
	const struct ib_recv_wr *bad;
	struct ib_sge sge = {
		.addr = (uintptr_t)page_address(page),
		.length = BAD_SIZE,
		.lkey = end->pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
	};

	return end->srq ? ib_post_srq_recv(end->srq, &wr, &bad) :
			  ib_post_recv(end->qp, &wr, &bad);
}

/* post END N: N receive WRs, each with a buffer of its own */
static int bad_do_post(struct bad_end *end, int n, int b)
{
	int ret = 0;

	while (n-- > 0 && !ret) {
		u32 i = end->n_posted;
		struct page *page;

		if (i == BAD_BUFS)
			return -ENOSPC;
		page = alloc_pages(GFP_KERNEL | __GFP_ZERO | __GFP_COMP,
				   BAD_ORDER);
		if (!page)
			return -ENOMEM;
		ret = bad_post_page(end, page, i);
		if (ret) {
			__free_pages(page, BAD_ORDER);
			return ret;
		}
		end->buf[i] = page;
		end->n_posted++;
	}
	return ret;
}

/* repost END I: buffer I again, which is posted */
static int bad_do_repost(struct bad_end *end, int i, int b)
{
	return bad_post_page(end, end->buf[i], i);
}

/* free END I: buffer I, which is posted */
static int bad_do_free(struct bad_end *end, int i, int b)
{
	__free_pages(end->buf[i], BAD_ORDER);
	end->buf[i] = NULL;
	return 0;
}

/* write END I: into buffer I, which is posted */
static int bad_do_write(struct bad_end *end, int i, int b)
{
	memset(page_address(end->buf[i]) + BAD_SIZE - 8, 0x55, 8);
	return 0;
}

static int bad_send(struct bad_end *end, int len, int num_sge)
{
	struct bad_end *peer = bad_peer(end);
	const struct ib_send_wr *bad;
	struct ib_sge sge[8];
	struct ib_ud_wr ud = {
		.wr.wr_id = 1000,
		.wr.opcode = IB_WR_SEND,
		.wr.sg_list = sge,
		.wr.num_sge = num_sge,
		.ah = end->ah,
		.remote_qpn = peer->qp->qp_num,
		.remote_qkey = BAD_QKEY,
	};
	int i;

	if (num_sge > ARRAY_SIZE(sge) || len > BAD_SIZE)
		return -E2BIG;
	for (i = 0; i < num_sge; i++) {
		sge[i].addr = (uintptr_t)page_address(end->out);
		sge[i].length = len / num_sge;
		sge[i].lkey = end->pd->local_dma_lkey;
	}
	return ib_post_send(end->qp, &ud.wr, &bad);
}

/* flood END N LEN: N sends, completions not waited for */
static int bad_do_flood(struct bad_end *end, int n, int len)
{
	int ret = 0;

	while (n-- > 0 && !ret)
		ret = bad_send(end, len, 1);
	return ret;
}

/* sges END N: a send of so many scatter entries */
static int bad_do_sges(struct bad_end *end, int n, int b)
{
	return bad_send(end, 64 * n, n);
}

/* The next completion, if it comes in time. @missed counts the CQ's claims. */
static bool bad_poll(struct bad_end *end, struct ib_wc *wc, unsigned long until,
		     unsigned int *missed)
{
	long left;

	for (;;) {
		if (ib_poll_cq(end->cq, 1, wc) > 0)
			return true;
		left = until - jiffies;
		if (left <= 0)
			return false;
		if (ib_req_notify_cq(end->cq, IB_CQ_NEXT_COMP |
				     IB_CQ_REPORT_MISSED_EVENTS) > 0)
			++*missed;
		else
			wait_for_completion_timeout(&end->comp, left);
	}
}

/* poll END N: up to N completions; says how many, and what the last one was */
static int bad_do_poll(struct bad_end *end, int n, int b)
{
	unsigned long until = jiffies + msecs_to_jiffies(bad_wait_ms);
	unsigned int missed = 0;
	struct ib_wc wc = {};
	int got = 0;

	while (got < n && bad_poll(end, &wc, until, &missed))
		got++;
	snprintf(bad_said, sizeof(bad_said),
		 "n=%d status=%d recv=%d len=%u wr_id=%llu missed=%u", got,
		 wc.status, wc.opcode == IB_WC_RECV, wc.byte_len, wc.wr_id,
		 missed);
	return 0;
}

static int bad_do_leak(struct bad_end *end, int a, int b)
{
	if (end->leaked)
		return -EBUSY;
	return bad_take(end->leaked, bad_make_qp(end, end->qp->qp_type, 1));
}

static int bad_do_mend(struct bad_end *end, int a, int b)
{
	int ret = end->leaked ? ib_destroy_qp(end->leaked) : -ENOENT;

	if (!ret)
		end->leaked = NULL;
	return ret;
}

/* unqp END, unsrq END: destroy these, if the port lets them go */
static int bad_do_unqp(struct bad_end *end, int a, int b)
{
	int ret = ib_destroy_qp(end->qp);

	if (!ret)
		end->qp = NULL;
	return ret;
}

static int bad_do_unsrq(struct bad_end *end, int a, int b)
{
	int ret = end->srq ? ib_destroy_srq_user(end->srq, NULL) : -ENOENT;

	if (!ret)
		end->srq = NULL;
	return ret;
}

/* unah END: destroy the AH. deadah END: and send with it */
static int bad_do_unah(struct bad_end *end, int a, int b)
{
	rdma_destroy_ah(end->ah, RDMA_DESTROY_AH_SLEEPABLE);
	end->ah = NULL;
	return 0;
}

static int bad_do_deadah(struct bad_end *end, int a, int b)
{
	struct ib_ah *ah = end->ah;
	int ret;

	bad_do_unah(end, 0, 0);
	end->ah = ah;
	ret = bad_send(end, 100, 1);
	end->ah = NULL;
	return ret;
}

/* move END STATE: by modify_qp, without attributes */
static int bad_do_move(struct bad_end *end, int state, int b)
{
	struct ib_qp_attr attr = { .qp_state = state };

	return ib_modify_qp(end->qp, &attr, IB_QP_STATE);
}

/* again END: from RESET to RTS */
static int bad_do_again(struct bad_end *end, int a, int b)
{
	return bad_connect(end, bad_peer(end));
}

static int bad_do_state(struct bad_end *end, int a, int b)
{
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr = {};
	int ret = ib_query_qp(end->qp, &attr, IB_QP_STATE, &init);

	snprintf(bad_said, sizeof(bad_said), "state=%d cur=%d", attr.qp_state,
		 attr.cur_qp_state);
	return ret;
}

/* caps END N: a QP with so many scatter entries for sends, and away again */
static int bad_do_caps(struct bad_end *end, int n, int b)
{
	struct ib_qp *qp = bad_make_qp(end, end->qp->qp_type, n);

	return IS_ERR(qp) ? PTR_ERR(qp) : ib_destroy_qp(qp);
}

/* limit END N: arm the limit event of the SRQ */
static int bad_do_limit(struct bad_end *end, int n, int b)
{
	struct ib_srq_attr attr = { .srq_limit = n };

	return ib_modify_srq(end->srq, &attr, IB_SRQ_LIMIT);
}

/* events END TYPE: how many of this type have come */
static int bad_do_events(struct bad_end *end, int type, int b)
{
	snprintf(bad_said, sizeof(bad_said), "n=%d",
		 atomic_read(&end->events[type & (BAD_EVENTS - 1)]));
	return 0;
}

/* commands that take time */

struct bad_thread {
	struct bad_end *end;
	int n;
	struct completion done;
};

static int bad_thread(void *ctx)
{
	struct bad_thread *t = ctx;
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;

	while (t->n--)
		ib_query_qp(t->end->qp, &attr, IB_QP_STATE, &init);
	kthread_complete_and_exit(&t->done, 0);
}

/* commands END THREADS N: so many at a time, N each; says how long it took */
static int bad_do_commands(struct bad_end *end, int threads, int n)
{
	struct bad_thread t[16];
	struct task_struct *task;
	ktime_t start = ktime_get();
	int i, ret = 0;

	threads = clamp_t(int, threads, 1, ARRAY_SIZE(t));
	for (i = 0; i < threads && !ret; i++) {
		t[i].end = end;
		t[i].n = n;
		init_completion(&t[i].done);
		task = kthread_run(bad_thread, &t[i], "badulp/%d", i);
		ret = PTR_ERR_OR_ZERO(task);
	}
	for (i -= !!ret; i-- > 0;)
		wait_for_completion(&t[i].done);
	snprintf(bad_said, sizeof(bad_said), "ms=%lld",
		 ktime_ms_delta(ktime_get(), start));
	return ret;
}

/* management datagrams */

static struct ib_sa_client bad_sa;

struct bad_query {
	struct completion done;
	int status;
};

static void bad_path_done(int status, struct sa_path_rec *rec,
			  softib_num_prs num, void *ctx)
{
	struct bad_query *q = ctx;

	q->status = status;
	complete(&q->done);
}

static void bad_path(struct bad_end *end, struct sa_path_rec *rec)
{
	u16 pkey;

	memset(rec, 0, sizeof(*rec));
	rec->rec_type = SA_PATH_REC_TYPE_IB;
	rdma_query_gid(end->ib, 1, 0, &rec->sgid);
	rdma_query_gid(bad_peer(end)->ib, 1, 0, &rec->dgid);
	sa_path_set_slid(rec, rec->sgid.raw[14] << 8 | rec->sgid.raw[15]);
	sa_path_set_dlid(rec, rec->dgid.raw[14] << 8 | rec->dgid.raw[15]);
	if (!ib_query_pkey(end->ib, 1, bad_pkey_index, &pkey))
		rec->pkey = cpu_to_be16(pkey);
	rec->numb_path = 1;
	rec->reversible = 1;
	rec->mtu_selector = IB_SA_EQ;
	rec->mtu = IB_MTU_2048;
	rec->packet_life_time = 14;
}

/* path END: ask the subnet administration for the path to the other port */
static int bad_do_path(struct bad_end *end, int a, int b)
{
	struct ib_sa_query *query;
	struct sa_path_rec rec;
	struct bad_query q;
	int ret;

	init_completion(&q.done);
	bad_path(end, &rec);
	ret = ib_sa_path_rec_get(&bad_sa, end->ib, 1, &rec,
				 IB_SA_PATH_REC_DGID | IB_SA_PATH_REC_SGID |
				 IB_SA_PATH_REC_NUMB_PATH, bad_wait_ms,
				 GFP_KERNEL, bad_path_done, &q, &query);
	if (ret < 0)
		return ret;
	wait_for_completion(&q.done);
	return q.status;
}

static int bad_cm_event(struct ib_cm_id *id, const struct ib_cm_event *ev)
{
	struct bad_query *q = id->context;

	q->status = ev->event == IB_CM_SIDR_REP_RECEIVED ? 0 : -ETIMEDOUT;
	complete(&q->done);
	return 0;
}

static int bad_sidr(struct ib_cm_id *id, struct bad_end *end,
		    struct sa_path_rec *rec)
{
	struct ib_cm_sidr_req_param param = {
		.path = rec,
		.service_id = cpu_to_be64(0xbad),
		.timeout_ms = bad_wait_ms,
	};
	int ret;

	param.sgid_attr = rdma_get_gid_attr(end->ib, 1, 0);
	if (IS_ERR(param.sgid_attr))
		return PTR_ERR(param.sgid_attr);
	ret = ib_send_cm_sidr_req(id, &param);
	rdma_put_gid_attr(param.sgid_attr);
	return ret;
}

/*
 * cm END N: N service requests, which the other port's CM answers; says how
 * many were answered, and how long it took
 */
static int bad_do_cm(struct bad_end *end, int n, int b)
{
	ktime_t start = ktime_get();
	struct bad_query q[8];
	struct ib_cm_id *id[8];
	struct sa_path_rec rec;
	int i, good = 0, ret = 0;

	n = clamp_t(int, n, 1, ARRAY_SIZE(q));
	bad_path(end, &rec);
	for (i = 0; i < n && !ret; i++) {
		init_completion(&q[i].done);
		id[i] = ib_create_cm_id(end->ib, bad_cm_event, &q[i]);
		ret = PTR_ERR_OR_ZERO(id[i]);
		if (ret)
			continue;
		ret = bad_sidr(id[i], end, &rec);
		if (ret)
			ib_destroy_cm_id(id[i]);
	}
	for (i -= !!ret; i-- > 0;) {
		wait_for_completion(&q[i].done);
		good += !q[i].status;
		ib_destroy_cm_id(id[i]);
	}
	snprintf(bad_said, sizeof(bad_said), "good=%d ms=%lld", good,
		 ktime_ms_delta(ktime_get(), start));
	return ret;
}

/* the file */

enum { BAD_NEEDS_NONE, BAD_NEEDS_PORTS, BAD_NEEDS_QP };

static const struct {
	const char *name;
	int (*run)(struct bad_end *end, int a, int b);
	int needs;
} bad_commands[] = {
	{ "ud", bad_do_ud, BAD_NEEDS_PORTS },
	{ "rc", bad_do_rc, BAD_NEEDS_PORTS },
	{ "srq", bad_do_srq, BAD_NEEDS_PORTS },
	{ "close", bad_do_close, BAD_NEEDS_NONE },
	{ "path", bad_do_path, BAD_NEEDS_PORTS },
	{ "cm", bad_do_cm, BAD_NEEDS_PORTS },
	{ "post", bad_do_post, BAD_NEEDS_QP },
	{ "repost", bad_do_repost, BAD_NEEDS_QP },
	{ "free", bad_do_free, BAD_NEEDS_QP },
	{ "write", bad_do_write, BAD_NEEDS_QP },
	{ "flood", bad_do_flood, BAD_NEEDS_QP },
	{ "sges", bad_do_sges, BAD_NEEDS_QP },
	{ "poll", bad_do_poll, BAD_NEEDS_QP },
	{ "leak", bad_do_leak, BAD_NEEDS_QP },
	{ "mend", bad_do_mend, BAD_NEEDS_QP },
	{ "unqp", bad_do_unqp, BAD_NEEDS_QP },
	{ "unsrq", bad_do_unsrq, BAD_NEEDS_PORTS },
	{ "unah", bad_do_unah, BAD_NEEDS_QP },
	{ "deadah", bad_do_deadah, BAD_NEEDS_QP },
	{ "move", bad_do_move, BAD_NEEDS_QP },
	{ "again", bad_do_again, BAD_NEEDS_QP },
	{ "state", bad_do_state, BAD_NEEDS_QP },
	{ "caps", bad_do_caps, BAD_NEEDS_QP },
	{ "limit", bad_do_limit, BAD_NEEDS_QP },
	{ "events", bad_do_events, BAD_NEEDS_QP },
	{ "commands", bad_do_commands, BAD_NEEDS_QP },
};

static int bad_run(int i, int e, int a, int b)
{
	struct bad_end *end = &bad_end[e];

	bad_said[0] = '\0';
	if (bad_commands[i].needs >= BAD_NEEDS_PORTS &&
	    (!bad_end[0].ib || !bad_end[1].ib))
		return -ENODEV;
	if (bad_commands[i].needs >= BAD_NEEDS_QP &&
	    (!end->qp || !bad_peer(end)->qp))
		return -ENOTCONN;
	return bad_commands[i].run(end, a, b);
}

static int bad_set(const char *val, const struct kernel_param *kp)
{
	int i, e = 0, a = 0, b = 0, ret = -EINVAL;
	char name[16];

	if (sscanf(val, "%15s %d %d %d", name, &e, &a, &b) < 1 || e < 0 ||
	    e > 1 || a < 0 || a >= BAD_BUFS)
		return -EINVAL;
	mutex_lock(&bad_lock);
	for (i = 0; i < ARRAY_SIZE(bad_commands); i++) {
		if (!strcmp(name, bad_commands[i].name))
			ret = bad_run(i, e, a, b);
	}
	mutex_unlock(&bad_lock);
	return ret;
}

static int bad_get(char *buffer, const struct kernel_param *kp)
{
	int n;

	mutex_lock(&bad_lock);
	n = sysfs_emit(buffer, "%s\n", bad_said);
	mutex_unlock(&bad_lock);
	return n;
}

static const struct kernel_param_ops bad_ops = { .set = bad_set, .get = bad_get };
module_param_cb(run, &bad_ops, NULL, 0600);

static int bad_add(struct ib_device *ib)
{
	int i;

	for (i = 0; i < 2; i++) {
		char name[8];

		snprintf(name, sizeof(name), "softib%d", i);
		if (strcmp(dev_name(&ib->dev), name))
			continue;
		mutex_lock(&bad_lock);
		bad_end[i].ib = ib;
		mutex_unlock(&bad_lock);
	}
	return 0;
}

static void bad_remove(struct ib_device *ib, void *data)
{
	int i;

	mutex_lock(&bad_lock);
	for (i = 0; i < 2; i++) {
		if (bad_end[i].ib != ib)
			continue;
		bad_close(&bad_end[i]);
		bad_end[i].ib = NULL;
	}
	mutex_unlock(&bad_lock);
}

static struct ib_client bad_client = {
	.name = "badulp",
	.add = bad_add,
	.remove = bad_remove,
};

static int __init bad_init(void)
{
	int ret;

	init_completion(&bad_end[0].comp);
	init_completion(&bad_end[1].comp);
	ib_sa_register_client(&bad_sa);
	ret = ib_register_client(&bad_client);
	if (ret)
		ib_sa_unregister_client(&bad_sa);
	return ret;
}

static void __exit bad_exit(void)
{
	ib_unregister_client(&bad_client);
	ib_sa_unregister_client(&bad_sa);
}

module_init(bad_init);
module_exit(bad_exit);

MODULE_DESCRIPTION("A user of InfiniBand ports with bad manners, for tests");
MODULE_LICENSE("GPL");
MODULE_VERSION("1");
