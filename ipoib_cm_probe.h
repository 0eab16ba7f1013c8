/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The HCA probe: which of the two signals of a drain does this HCA give? See
 * ipoib_cm_probe.c.
 */
#ifndef IPOIB_CM_PROBE_H
#define IPOIB_CM_PROBE_H

#include <linux/types.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>

#include "ipoib_cm_drain.h"

struct ipoib_cm_port;
struct ipoib_cm_rx;
struct ipoib_port;
struct seq_file;

#define IPOIB_CM_PROBE_QPS	IPOIB_DRAIN_MISSES	/* enough to be believed */
#define IPOIB_CM_PROBE_WRS	1	/* receive WRs of each, without an SRQ */

/**
 * struct ipoib_cm_signals - when a passive QP gave the signals of its drain
 * @rq_at: its receive side was first said to be done, by LWQE or by its own
 *	ring (ns); 0: not yet
 * @posted_at: its drain WR was posted (ns)
 * @flush_at: @flush_status: that completed (ns), and how
 */
struct ipoib_cm_signals {
	u64 rq_at;
	u64 posted_at;
	u64 flush_at;
	enum ib_wc_status flush_status;
};

/**
 * struct ipoib_cm_probe_tally - what the QPs of one probe have shown
 * @drained: QPs that came to their end by the engine
 * @lwqe: of these, QPs whose receive side was said to be done
 * @flush: of these, QPs whose drain WR was flushed
 * @odd: status of a drain WR that completed, but not with a flush; -1: none
 * @lwqe_us: @flush_us: the longest that it took, from ERR and from the post
 * @err: why some QP is not among @drained
 */
struct ipoib_cm_probe_tally {
	unsigned int drained;
	unsigned int lwqe;
	unsigned int flush;
	int odd;
	u32 lwqe_us;
	u32 flush_us;
	int err;
};

/**
 * struct ipoib_cm_probe - the probe of a port; under &struct ipoib_cm_port.lock
 *	but for @work
 * @work: makes the QPs; on the port's accept queue
 * @asked: the first PORT_ACTIVE has been seen
 * @pending: shares in the probe under way, the worker's and one for each QP
 * @nqps: its QPs, which are among &struct ipoib_cm_port.nrx
 * @kept: one of them could not be destroyed, so no more are made
 * @runs: probes that are over
 * @now: of the probe under way
 * @last: of the one before
 */
struct ipoib_cm_probe {
	struct work_struct work;
	bool asked;
	unsigned int pending;
	unsigned int nqps;
	bool kept;
	unsigned int runs;
	struct ipoib_cm_probe_tally now;
	struct ipoib_cm_probe_tally last;
};

void ipoib_cm_probe_init(struct ipoib_port *port);
void ipoib_cm_probe_stop(struct ipoib_cm_port *cm);
void ipoib_cm_probe_active(struct ipoib_port *port);
int ipoib_cm_probe_ask(struct ipoib_port *port);
int ipoib_cm_probe_attr(struct ipoib_cm_rx *rx, struct ib_qp_attr *attr,
			int *mask);
void ipoib_cm_probe_ended(struct ipoib_cm_rx *rx, bool keep);
void ipoib_cm_probe_show(struct ipoib_port *port, struct seq_file *m);

#endif /* IPOIB_CM_PROBE_H */
