/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Knobs and counters, each one line of a table: the enum, the debugfs files
 * and README.rst follow from it.
 */
#ifndef SOFTIB_KNOB_H
#define SOFTIB_KNOB_H

#include <linux/types.h>
#include <rdma/ib_verbs.h>

struct softib_port;

/*
 * K(name, default, min, max): a knob. A "fail" or "swallow" knob counts: n
 * hits the next n operations, -1 hits all of them until it is cleared.
 */
#define SOFTIB_KNOBS(K)							\
	K(link, 1, 0, 1)						\
	K(cut_after, 0, 0, S32_MAX)					\
	K(lwqe_drop, 0, -1, S32_MAX)					\
	K(lwqe_dup, 0, 0, 1000)						\
	K(lwqe_dup_ms, 0, 0, 60000)					\
	K(lwqe_delay_ms, 0, 0, 600000)					\
	K(lwqe_early, 0, -1, S32_MAX)					\
	K(lwqe_destroy, 0, -1, S32_MAX)					\
	K(lwqe_raw, 0, 0, 1)						\
	K(lwqe_inline, 0, 0, 1)						\
	K(lost, 0, -1, S32_MAX)						\
	K(srq_lose, 0, -1, S32_MAX)					\
	K(cqe_swallow_rx, 0, -1, S32_MAX)				\
	K(cqe_swallow_tx, 0, -1, S32_MAX)				\
	K(cqe_swallow_flush, 0, -1, S32_MAX)				\
	K(cqe_swallow_drain, 0, -1, S32_MAX)				\
	K(cqe_delay_rx_ms, 0, 0, 600000)				\
	K(cqe_delay_tx_ms, 0, 0, 600000)				\
	K(cqe_delay_flush_ms, 0, 0, 600000)				\
	K(cqe_delay_drain_ms, 0, 0, 600000)				\
	K(comp_lost_tx, 0, -1, S32_MAX)					\
	K(cqe_reorder, 0, -1, S32_MAX)					\
	K(cqe_status_rx, -1, -1, IB_WC_GENERAL_ERR)			\
	K(cqe_status_tx, -1, -1, IB_WC_GENERAL_ERR)			\
	K(cqe_status_flush, -1, -1, IB_WC_GENERAL_ERR)			\
	K(cqe_status_drain, -1, -1, IB_WC_GENERAL_ERR)			\
	K(cqe_status_n, -1, -1, S32_MAX)				\
	K(cqe_status_one_in, 1, 1, S32_MAX)				\
	K(cqe_wr_id, 0, -1, S32_MAX)					\
	K(cqe_wr_id_xor, 1 << 20, 1, S32_MAX)				\
	K(fail_post_send, 0, -1, S32_MAX)				\
	K(fail_post_recv, 0, -1, S32_MAX)				\
	K(fail_post_srq_recv, 0, -1, S32_MAX)				\
	K(fail_post_mad, 0, -1, S32_MAX)				\
	K(fail_modify_qp, 0, -1, S32_MAX)				\
	K(fail_modify_reset, 0, -1, S32_MAX)				\
	K(fail_modify_init, 0, -1, S32_MAX)				\
	K(fail_modify_rtr, 0, -1, S32_MAX)				\
	K(fail_modify_rts, 0, -1, S32_MAX)				\
	K(fail_modify_sqd, 0, -1, S32_MAX)				\
	K(fail_modify_err, 0, -1, S32_MAX)				\
	K(fail_modify_srq, 0, -1, S32_MAX)				\
	K(fail_query_qp, 0, -1, S32_MAX)				\
	K(fail_create_pd, 0, -1, S32_MAX)				\
	K(fail_create_mr, 0, -1, S32_MAX)				\
	K(fail_create_qp, 0, -1, S32_MAX)				\
	K(fail_create_cq, 0, -1, S32_MAX)				\
	K(fail_create_srq, 0, -1, S32_MAX)				\
	K(fail_create_ah, 0, -1, S32_MAX)				\
	K(fail_attach, 0, -1, S32_MAX)					\
	K(fail_detach, 0, -1, S32_MAX)					\
	K(fail_destroy_qp, 0, -1, S32_MAX)				\
	K(fail_destroy_cq, 0, -1, S32_MAX)				\
	K(fail_destroy_srq, 0, -1, S32_MAX)				\
	K(fail_destroy_ah, 0, -1, S32_MAX)				\
	K(fail_destroy_pd, 0, -1, S32_MAX)				\
	K(cm_mask, 0, 0, S32_MAX)					\
	K(mad_drop, 0, -1, S32_MAX)					\
	K(mad_error, 0, -1, S32_MAX)					\
	K(mad_delay_ms, 0, 0, 600000)					\
	K(mad_cap, 0, 0, S32_MAX)					\
	K(sa_drop, 0, -1, S32_MAX)					\
	K(cmd_us, 0, 0, 60000000)					\
	K(cmd_slots, 0, 0, 1024)					\
	K(destroy_qp_ms, 0, 0, 600000)					\
	K(destroy_qp_hold, 0, 0, 1)					\
	K(destroy_qp_n, -1, -1, S32_MAX)				\
	K(dead, 0, 0, 1)						\
	K(no_srq, 0, 0, 1)						\
	K(max_send_sge, 0, 0, 64)					\
	K(max_recv_sge, 0, 0, 64)					\
	K(max_srq_sge, 0, 0, 64)					\
	K(min_retry_cnt, 7, 0, 7)					\
	K(poison, 1, 0, 1)

/* C(name): a counter or, where it goes down again, a gauge. */
#define SOFTIB_COUNTERS(C)						\
	C(qps)								\
	C(cqs)								\
	C(srqs)								\
	C(ahs)								\
	C(pds)								\
	C(mrs)								\
	C(cm_ids)							\
	C(mgids)							\
	C(srq_outstanding)						\
	C(rq_outstanding)						\
	C(srq_lost)							\
	C(lwqe_raised)							\
	C(lwqe_dropped)							\
	C(lwqe_lower)							\
	C(err_moves)							\
	C(flushes)							\
	C(half_flushed)							\
	C(half_lost)							\
	C(half_unknown)							\
	C(cqe_swallowed)						\
	C(cqe_delayed)							\
	C(cqe_purged)							\
	C(cq_overflow)							\
	C(post_overrun)							\
	C(destroys_held)						\
	C(injected_failures)						\
	C(ud_too_long)							\
	C(ah_dead_sends)						\
	C(ah_atomic_alloc)						\
	C(pkey_drops)							\
	C(link_drops)							\
	C(mad_sent)							\
	C(mad_received)							\
	C(mad_dropped)							\
	C(mad_no_buffer)						\
	C(sa_queries)							\
	C(commands)							\
	C(poison_freed)							\
	C(poison_written)						\
	C(poison_reposted)

#define SOFTIB_KNOB_ENUM(name, def, min, max) SOFTIB_K_##name,
#define SOFTIB_COUNTER_ENUM(name) SOFTIB_C_##name,

enum softib_knob {
	SOFTIB_KNOBS(SOFTIB_KNOB_ENUM)
	SOFTIB_N_KNOBS
};

enum softib_counter {
	SOFTIB_COUNTERS(SOFTIB_COUNTER_ENUM)
	SOFTIB_N_COUNTERS
};

struct softib_knob_desc {
	const char *name;
	s64 def, min, max;
};

extern const struct softib_knob_desc softib_knob_desc[SOFTIB_N_KNOBS];
extern const char *const softib_counter_name[SOFTIB_N_COUNTERS];

s64 softib_knob(const struct softib_port *port, enum softib_knob k);
bool softib_take(struct softib_port *port, enum softib_knob k);
bool softib_fail(struct softib_port *port, enum softib_knob k);
int softib_knob_set(struct softib_port *port, enum softib_knob k, s64 val);
void softib_knob_reset(struct softib_port *port);
void softib_count(struct softib_port *port, enum softib_counter c, s64 n);

#endif /* SOFTIB_KNOB_H */
