// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * The HCA probe: finds out which of the two signals of a drain an HCA gives,
 * before the first connection has to wait for one that never comes.
 *
 * A probe is a real drain. Its QPs are passive connections without a peer, CM
 * id or netdev, connected to themselves. They use the port's SRQ and CQs, go
 * through INIT, RTR and RTS, and are given to the drain engine at once, which
 * waits for both signals whatever its strategy. So the code that is measured is
 * the code that runs later, and completions, deadlines, the death of the HCA
 * and QPs that cannot be destroyed need nothing of their own. There are
 * IPOIB_CM_PROBE_QPS of them, side by side: as many as the engine believes.
 *
 * - They send nothing, so they take nothing from the SRQ. Without an SRQ each
 *   has a ring of IPOIB_CM_PROBE_WRS, for which the CQ has entries to spare.
 * - A probe's connection is born aborted, like one that ended while a worker
 *   was still making its QP: so nobody but the worker touches it in state REQ.
 * - It counts in &struct ipoib_cm_port.nrx, so the removal of the HCA awaits it
 *   within the deadline of the engine, and outside rtnl.
 * - What a probe shows is advice: the engine keeps to its rules, by which one
 *   LWQE restores the trust in LWQEs.
 */
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <rdma/ib_cache.h>

#include "ipoib.h"
#include "ipoib_cm_conn.h"
#include "ipoib_cm_probe.h"
#include "ipoib_cm_state.h"

static const char *const ipoib_cm_probe_then[IPOIB_DRAIN_NSTRATEGIES] = {
	[IPOIB_DRAIN_LWQE_FLUSH] = "the driver waits for both",
	[IPOIB_DRAIN_FLUSH_SWEEP] =
		"the driver goes by the flush, and sweeps the completion queue",
	[IPOIB_DRAIN_LWQE_SWEEP] =
		"the driver goes by Last WQE Reached, and sweeps the completion queue",
	[IPOIB_DRAIN_TIMED] =
		"the driver waits a moment, and sweeps the completion queue",
};

/* "raised" or "flushed" by all, none or some of @of QPs. */
static int ipoib_cm_probe_say(char *buf, size_t len, const char *what,
			      const char *verb, unsigned int n, unsigned int of,
			      u32 us)
{
	if (!n)
		return scnprintf(buf, len, "%s not %s", what, verb);
	if (n < of)
		return scnprintf(buf, len, "%s %s by %u of %u QPs only", what,
				 verb, n, of);
	return scnprintf(buf, len, "%s %s within %u us", what, verb, us);
}

/* What a probe has shown, in plain words. */
static void ipoib_cm_probe_words(const struct ipoib_cm_port *cm,
				 const struct ipoib_cm_probe_tally *t,
				 char *buf, size_t len)
{
	int n;

	if (!t->drained) {
		scnprintf(buf, len, "could not be made: %d", t->err);
		return;
	}
	n = ipoib_cm_probe_say(buf, len, cm->has_srq ? "Last WQE Reached is" :
			       "receives posted to a QP in error are",
			       cm->has_srq ? "raised" : "flushed",
			       t->lwqe, t->drained, t->lwqe_us);
	n += scnprintf(buf + n, len - n, ", ");
	n += ipoib_cm_probe_say(buf + n, len - n, "a send posted in error is",
				"flushed", t->flush, t->drained, t->flush_us);
	if (t->odd >= 0)
		n += scnprintf(buf + n, len - n, " (one completed with: %s)",
			       ib_wc_status_msg(t->odd));
	scnprintf(buf + n, len - n, "; %s",
		  ipoib_cm_probe_then[ipoib_drain_strategy(&cm->drain)]);
}

static bool ipoib_cm_probe_good(const struct ipoib_cm_probe_tally *t)
{
	return t->drained && t->lwqe == t->drained && t->flush == t->drained &&
	       t->odd < 0 && !t->err;
}

static void ipoib_cm_probe_log(struct ipoib_port *port,
			       const struct ipoib_cm_probe_tally *t)
{
	char words[256];

	ipoib_cm_probe_words(&port->cm, t, words, sizeof(words));
	if (ipoib_cm_probe_good(t))
		dev_info(&port->ca->dev, "port %u: HCA probe: %s\n", port->num,
			 words);
	else
		dev_warn(&port->ca->dev, "port %u: HCA probe: %s\n", port->num,
			 words);
}

/* Is there anything to tell that has not been told by the probe before? */
static bool ipoib_cm_probe_is_news(const struct ipoib_cm_probe *probe)
{
	const struct ipoib_cm_probe_tally *a = &probe->now, *b = &probe->last;

	return !probe->runs || a->drained != b->drained || a->lwqe != b->lwqe ||
	       a->flush != b->flush || a->odd != b->odd;
}

static void ipoib_cm_probe_stats(struct ipoib_port *port,
				 const struct ipoib_cm_probe_tally *t)
{
	ipoib_port_stat_inc(port, IPOIB_PORT_STAT_probe_runs);
	ipoib_port_stat_set(port, IPOIB_PORT_STAT_probe_qps, t->drained);
	ipoib_port_stat_set(port, IPOIB_PORT_STAT_probe_lwqe, t->lwqe);
	ipoib_port_stat_set(port, IPOIB_PORT_STAT_probe_flush, t->flush);
	ipoib_port_stat_set(port, IPOIB_PORT_STAT_probe_lwqe_us, t->lwqe_us);
	ipoib_port_stat_set(port, IPOIB_PORT_STAT_probe_flush_us, t->flush_us);
}

/* Give a share back; the last one has the result told. */
static void ipoib_cm_probe_put(struct ipoib_port *port, bool qp)
{
	struct ipoib_cm_port *cm = &port->cm;
	struct ipoib_cm_probe *probe = &cm->probe;
	struct ipoib_cm_probe_tally t;
	bool over, news, cut;

	spin_lock_bh(&cm->lock);
	probe->nqps -= qp;
	over = !--probe->pending;
	cut = cm->dead || cm->closing;
	t = probe->now;
	news = ipoib_cm_probe_is_news(probe);
	if (over && !cut) {
		probe->last = t;
		probe->runs++;
	}
	spin_unlock_bh(&cm->lock);
	if (!over || cut)
		return;
	ipoib_cm_probe_stats(port, &t);
	if (news)
		ipoib_cm_probe_log(port, &t);
}

static u32 ipoib_cm_probe_us(u64 from, u64 to)
{
	return from && to > from ? div_u64(to - from, NSEC_PER_USEC) : 0;
}

/* Did this QP go all the way, so that it says something about the HCA? */
static int ipoib_cm_probe_judge(const struct ipoib_cm_rx *rx,
				const struct ipoib_drain_qp *q)
{
	if (q->state == IPOIB_DRAIN_LIVE || q->no_sq)
		return -EIO;	/* the worker knows better why */
	if (q->d->dead)
		return -ENODEV;
	return q->in_err && rx->seen.posted_at ? 0 : -EIO;
}

static void ipoib_cm_probe_add(struct ipoib_cm_probe_tally *t,
			       const struct ipoib_cm_rx *rx,
			       const struct ipoib_drain_qp *q)
{
	const struct ipoib_cm_signals *s = &rx->seen;

	t->drained++;
	if (q->rq_done) {
		t->lwqe++;
		t->lwqe_us = max(t->lwqe_us, ipoib_cm_probe_us(q->err_at,
							       s->rq_at));
	}
	if (s->flush_at && s->flush_status != IB_WC_WR_FLUSH_ERR) {
		t->odd = s->flush_status;
	} else if (q->sq_done) {
		t->flush++;
		t->flush_us = max(t->flush_us, ipoib_cm_probe_us(s->posted_at,
								 s->flush_at));
	}
}

/**
 * ipoib_cm_probe_ended() - a QP of the probe has come to its end
 * @rx: its connection, which still counts in &struct ipoib_cm_port.nrx
 * @keep: the HCA did not destroy it
 *
 * Context: process, no locks.
 */
void ipoib_cm_probe_ended(struct ipoib_cm_rx *rx, bool keep)
{
	struct ipoib_port *port = rx->conn.port;
	struct ipoib_cm_port *cm = &port->cm;
	struct ipoib_drain_qp q;
	int err;

	spin_lock_irq(&cm->drain.lock);
	q = rx->drain;
	err = ipoib_cm_probe_judge(rx, &q);
	spin_unlock_irq(&cm->drain.lock);
	/* A drain WR that was transmitted says nothing of what ERR does. */
	if (!err && !q.lied)
		ipoib_drain_probed(&cm->drain, q.rq_done, q.sq_done);

	spin_lock_bh(&cm->lock);
	if (!err)
		ipoib_cm_probe_add(&cm->probe.now, rx, &q);
	else if (!cm->probe.now.err)
		cm->probe.now.err = err;
	cm->probe.kept |= keep;
	spin_unlock_bh(&cm->lock);
	ipoib_cm_probe_put(port, true);
}

/*
 * Making the QPs
 */

static int ipoib_cm_probe_av(struct ipoib_port *port, struct ib_qp_attr *attr)
{
	struct rdma_ah_attr *av = &attr->ah_attr;
	struct ib_port_attr port_attr;
	union ib_gid gid;
	int err;

	err = ib_query_port(port->ca, port->num, &port_attr);
	if (!err)
		err = rdma_query_gid(port->ca, port->num, 0, &gid);
	if (err)
		return err;
	attr->path_mtu = port_attr.active_mtu;
	memset(av, 0, sizeof(*av));
	av->type = rdma_ah_find_type(port->ca, port->num);
	rdma_ah_set_port_num(av, port->num);
	rdma_ah_set_dlid(av, port_attr.lid);
	if (rdma_is_grh_required(port->ca, port->num) || !port_attr.lid)
		rdma_ah_set_grh(av, &gid, 0, 0, 1, 0);
	return 0;
}

/**
 * ipoib_cm_probe_attr() - attributes that connect a QP to itself
 * @rx: its connection
 * @attr: tells the state that is wanted, RTR or RTS, and takes the rest
 * @mask: takes the mask of what is set
 *
 * Context: process.
 * Return: 0 or -errno.
 */
int ipoib_cm_probe_attr(struct ipoib_cm_rx *rx, struct ib_qp_attr *attr,
			int *mask)
{
	if (attr->qp_state == IB_QPS_RTS) {
		attr->timeout = 1;
		attr->sq_psn = rx->psn;
		*mask = IB_QP_STATE | IB_QP_TIMEOUT | IB_QP_RETRY_CNT |
			IB_QP_RNR_RETRY | IB_QP_SQ_PSN | IB_QP_MAX_QP_RD_ATOMIC;
		return 0;
	}
	attr->dest_qp_num = rx->conn.qpn;
	*mask = IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN |
		IB_QP_RQ_PSN | IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER;
	return ipoib_cm_probe_av(rx->conn.port, attr);
}

/* Take a share for a new QP, and put it on the port's list. */
static bool ipoib_cm_probe_admit(struct ipoib_cm_rx *rx)
{
	struct ipoib_cm_port *cm = &rx->conn.port->cm;
	bool ok;

	spin_lock_bh(&cm->lock);
	ok = !cm->closing && !cm->dead;
	if (ok) {
		cm->probe.pending++;
		cm->probe.nqps++;
		ipoib_cm_rx_enlist(rx);
	}
	spin_unlock_bh(&cm->lock);
	return ok;
}

static int ipoib_cm_probe_qp(struct ipoib_port *port)
{
	enum ib_qp_state reached = IB_QPS_RESET;
	struct ipoib_cm_rx *rx;
	int err;

	rx = ipoib_cm_rx_new(port);
	if (!rx)
		return -ENOMEM;
	rdma_query_gid(port->ca, port->num, 0, &rx->conn.peer);
	rx->aborted = true;
	rx->reason = IPOIB_DRAIN_BY_PROBE;
	rx->depth = IPOIB_CM_PROBE_WRS;
	if (!ipoib_cm_probe_admit(rx)) {
		kfree(rx);
		return -ENODEV;
	}
	err = ipoib_cm_rx_make_qp(rx, &reached);
	ipoib_cm_rx_dispose(rx, reached);
	return err;
}

static void ipoib_cm_probe_work(struct work_struct *work)
{
	struct ipoib_cm_port *cm = container_of(work, struct ipoib_cm_port,
						probe.work);
	struct ipoib_port *port = container_of(cm, struct ipoib_port, cm);
	unsigned int i;
	int err = 0;

	for (i = 0; i < IPOIB_CM_PROBE_QPS && !err; i++)
		err = ipoib_cm_probe_qp(port);
	spin_lock_bh(&cm->lock);
	if (err)
		cm->probe.now.err = err;
	spin_unlock_bh(&cm->lock);
	ipoib_cm_probe_put(port, false);
}

/**
 * ipoib_cm_probe_ask() - probe the HCA
 * @port: the port
 *
 * Waits for nothing; ipoib_cm_probe_show() has the result when there is one.
 *
 * Context: process.
 * Return: 0; -EBUSY while a probe is under way; another -errno if none can be.
 */
int ipoib_cm_probe_ask(struct ipoib_port *port)
{
	struct ipoib_cm_port *cm = &port->cm;
	int err = 0;

	if (!cm->capable)
		return -EOPNOTSUPP;
	spin_lock_bh(&cm->lock);
	if (cm->closing || cm->dead)
		err = -ENODEV;
	else if (cm->probe.kept)
		err = -EIO;
	else if (cm->probe.pending)
		err = -EBUSY;
	if (!err) {
		memset(&cm->probe.now, 0, sizeof(cm->probe.now));
		cm->probe.now.odd = -1;
		cm->probe.pending = 1;
		queue_work(cm->accept_wq, &cm->probe.work);
	}
	spin_unlock_bh(&cm->lock);
	return err;
}

/**
 * ipoib_cm_probe_active() - the port is active: probe the HCA if it is for the
 *	first time
 * @port: the port
 *
 * Context: process.
 */
void ipoib_cm_probe_active(struct ipoib_port *port)
{
	struct ipoib_cm_port *cm = &port->cm;
	bool first;

	if (!cm->capable)
		return;
	spin_lock_bh(&cm->lock);
	first = !cm->probe.asked;
	cm->probe.asked = true;
	spin_unlock_bh(&cm->lock);
	if (first)
		ipoib_cm_probe_ask(port);
}

/**
 * ipoib_cm_probe_init() - make ready for probes
 * @port: the port
 */
void ipoib_cm_probe_init(struct ipoib_port *port)
{
	INIT_WORK(&port->cm.probe.work, ipoib_cm_probe_work);
}

/**
 * ipoib_cm_probe_stop() - make no more QPs
 * @cm: connected mode of a port that is closing; QPs that were made drain by
 *	themselves
 *
 * Context: process, no locks, no rtnl.
 */
void ipoib_cm_probe_stop(struct ipoib_cm_port *cm)
{
	cancel_work_sync(&cm->probe.work);
}

/**
 * ipoib_cm_probe_show() - show the result of the last probe
 * @port: the port
 * @m: where to
 *
 * Context: process.
 */
void ipoib_cm_probe_show(struct ipoib_port *port, struct seq_file *m)
{
	struct ipoib_cm_port *cm = &port->cm;
	struct ipoib_cm_probe_tally t;
	unsigned int runs, pending;
	char words[256];

	if (!cm->capable)
		return;
	spin_lock_bh(&cm->lock);
	t = cm->probe.last;
	runs = cm->probe.runs;
	pending = cm->probe.pending;
	spin_unlock_bh(&cm->lock);
	seq_printf(m, "port %s\nstate %s\nruns %u\n", cm->name,
		   pending ? "running" : runs ? "done" : "never", runs);
	if (!runs)
		return;
	ipoib_cm_probe_words(cm, &t, words, sizeof(words));
	seq_printf(m, "qps %u\nlwqe %u\nlwqe_us %u\nflush %u\nflush_us %u\nodd %d\nerror %d\n",
		   t.drained, t.lwqe, t.lwqe_us, t.flush, t.flush_us, t.odd,
		   t.err);
	seq_printf(m, "strategy %s\nverdict %s\n",
		   ipoib_drain_strategy_names[ipoib_drain_strategy(&cm->drain)],
		   words);
}
