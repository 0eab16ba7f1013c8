/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * One table of counters makes the structs, the names in `ethtool -S` and the
 * documentation. A row here is all that a new counter needs.
 */
#ifndef IPOIB_STATS_H
#define IPOIB_STATS_H

#include <linux/atomic.h>
#include <linux/types.h>
#include <linux/u64_stats_sync.h>

#include "ipoib_cm_drain.h"

/*
 * What `ethtool -S` shows first, T(name, text): the totals that rtnetlink shows,
 * by the names of their fields. Names and places are what existing tools know.
 */
#define IPOIB_TOTALS(T)								\
	T(rx_packets,	"packets delivered to the stack")			\
	T(tx_packets,	"packets that completed with success")			\
	T(rx_bytes,	"octets delivered to the stack")			\
	T(tx_bytes,	"octets that completed with success")			\
	T(tx_errors,	"sum of the ``tx_error_`` counters")			\
	T(rx_dropped,	"sum of the ``rx_drop_`` counters but ``rx_drop_own``")	\
	T(tx_dropped,	"sum of the ``tx_drop_`` counters")			\
	T(multicast,	"multicast and broadcast packets received")		\
	T(rx_errors,	"sum of the ``rx_error_`` counters")

/* Counters of one netdev: C(name, text, which rtnl total it adds to). */
#define IPOIB_NETDEV_COUNTERS(C)						\
	C(rx_packets,		"packets delivered to the stack",	NONE)	\
	C(rx_bytes,		"octets delivered to the stack",	NONE)	\
	C(rx_multicast,		"multicast and broadcast packets received", NONE) \
	C(tx_packets,		"packets that completed with success",	NONE)	\
	C(tx_bytes,		"octets that completed with success",	NONE)	\
	C(rx_drop_runt,		"packets shorter than their headers",	RX_DROP) \
	C(rx_drop_proto,	"packets of an unknown encapsulation type", RX_DROP) \
	C(rx_drop_nomem,	"packets dropped for want of memory",	RX_DROP) \
	C(rx_drop_own,		"own multicast packets looped back",	NONE)	\
	C(rx_drop_flood,	"packets recycled to protect the receive stock", RX_DROP) \
	C(rx_error_wc,		"receive completions in error",		RX_ERR)	\
	C(tx_drop_header,	"packets without a valid pseudo header", TX_DROP) \
	C(tx_drop_proto,	"packets of an unsupported ethertype",	TX_DROP) \
	C(tx_drop_down,		"packets while the interface is down",	TX_DROP) \
	C(tx_drop_toolong,	"packets longer than the path MTU",	TX_DROP) \
	C(tx_drop_nomem,	"packets dropped for want of memory",	TX_DROP) \
	C(tx_drop_map,		"packets whose DMA mapping failed",	TX_DROP) \
	C(tx_drop_queue,	"packets beyond a full resolve queue",	TX_DROP) \
	C(tx_drop_path,		"packets whose path could not be found", TX_DROP) \
	C(tx_drop_mcast,	"packets whose group could not be joined", TX_DROP) \
	C(tx_drop_offload,	"packets prepared for offloads that their way lacks", TX_DROP) \
	C(tx_drop_backoff,	"long packets while their connection backs off", TX_DROP) \
	C(tx_drop_stalled,	"packets for a connection that makes no progress", TX_DROP) \
	C(tx_drop_cq,		"packets while the port's send CQ had no room", TX_DROP) \
	C(tx_error_post,	"sends that could not be posted",	TX_ERR)	\
	C(tx_error_wc,		"send completions in error",		TX_ERR)	\
	C(tx_linearized,	"packets made linear to fit the HCA",	NONE)	\
	C(tx_queue_stopped,	"times that the transmit queue stopped", NONE)	\
	C(tx_timeouts,		"times that the watchdog found the queue stopped", NONE) \
	C(restarts,		"times that the interface was restarted", NONE)	\
	C(path_queries,		"path record queries sent",		NONE)	\
	C(path_failures,	"path record queries that failed",	NONE)	\
	C(mcast_joins,		"multicast joins granted",		NONE)	\
	C(mcast_failures,	"multicast joins that failed",		NONE)	\
	C(cm_tx_connected,	"active connections established",	NONE)	\
	C(cm_tx_rejected,	"active connections rejected by the peer", NONE) \
	C(cm_tx_failed,		"active connections that failed otherwise", NONE) \
	C(cm_rx_accepted,	"passive connections accepted",		NONE)	\
	C(cm_rx_rejected,	"connection requests rejected",		NONE)

enum ipoib_stat {
#define C(id, text, total) IPOIB_STAT_##id,
	IPOIB_NETDEV_COUNTERS(C)
#undef C
	IPOIB_STAT_COUNT
};

/* Counters of one port beside the drain engine's: C(name, text). */
#define IPOIB_PORT_COUNTERS(C)							\
	C(cm_bogus_wr_id,	"completions with a cookie that names nothing")	\
	C(cm_orphan_rx,		"messages for a connection that is gone")	\
	C(cm_stock_deficit,	"receive WRs that could not be reposted at once") \
	C(cm_refills,		"runs of the refill work that posted receive WRs") \
	C(cm_generations,	"SRQs made to replace a suspect one")		\
	C(cm_kept,		"QPs, SRQs and CQs leaked: destroy failed")	\
	C(drain_within_1ms,	"receive QPs gone within 1 ms")			\
	C(drain_within_10ms,	"receive QPs gone within 10 ms, but not 1 ms")	\
	C(drain_within_100ms,	"receive QPs gone within 100 ms, but not 10 ms") \
	C(drain_within_1s,	"receive QPs gone within 1 s, but not 100 ms")	\
	C(drain_within_10s,	"receive QPs gone within 10 s, but not 1 s")	\
	C(drain_over_10s,	"receive QPs gone after more than 10 s")	\
	C(probe_runs,		"HCA probes that are over")			\
	C(probe_qps,		"QPs that the last HCA probe drained")		\
	C(probe_lwqe,		"QPs of the last HCA probe that had LWQE")	\
	C(probe_flush,		"QPs of the last HCA probe whose drain WR was flushed") \
	C(probe_lwqe_us,	"the longest that LWQE took after ERR, in microseconds") \
	C(probe_flush_us,	"the longest that a flush took, in microseconds")

enum ipoib_port_stat {
	IPOIB_PORT_STAT_DRAIN_BASE = 0,
	IPOIB_PORT_STAT_DRAIN_LAST = IPOIB_DRAIN_NCOUNTERS - 1,
	IPOIB_PORT_STAT_REASON_BASE,	/* drains begun, by enum ipoib_drain_reason */
	IPOIB_PORT_STAT_REASON_LAST = IPOIB_PORT_STAT_REASON_BASE +
				      IPOIB_DRAIN_NREASONS - 1,
#define C(id, text) IPOIB_PORT_STAT_##id,
	IPOIB_PORT_COUNTERS(C)
#undef C
	IPOIB_PORT_STAT_COUNT
};

/**
 * struct ipoib_pcpu_stats - counters of one netdev on one CPU
 * @sync: makes 64-bit reads whole on 32-bit machines
 * @count: indexed by enum ipoib_stat
 */
struct ipoib_pcpu_stats {
	struct u64_stats_sync sync;
	u64_stats_t count[IPOIB_STAT_COUNT];
};

struct ipoib_netdev;
struct ipoib_port;
struct rtnl_link_stats64;

void ipoib_stat_add(struct ipoib_netdev *priv, enum ipoib_stat stat, u64 n);
void ipoib_stat_packet(struct ipoib_netdev *priv, enum ipoib_stat packets,
		       unsigned int bytes);
void ipoib_stats_read(struct ipoib_netdev *priv, u64 *out);
void ipoib_stats_fold(struct ipoib_netdev *priv, struct rtnl_link_stats64 *out);
void ipoib_port_stat_inc(struct ipoib_port *port, enum ipoib_port_stat stat);
void ipoib_port_stat_set(struct ipoib_port *port, enum ipoib_port_stat stat,
			 u64 value);

extern const char *const ipoib_stat_names[IPOIB_STAT_COUNT];
extern const char *const ipoib_port_stat_names[IPOIB_PORT_STAT_COUNT];

static inline void ipoib_stat_inc(struct ipoib_netdev *priv,
				  enum ipoib_stat stat)
{
	ipoib_stat_add(priv, stat, 1);
}

#endif /* IPOIB_STATS_H */
