// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Counters: per CPU for a netdev, atomic for a port. */
#include <linux/netdevice.h>

#include "ipoib.h"
#include "ipoib_stats.h"

const char *const ipoib_stat_names[IPOIB_STAT_COUNT] = {
#define C(id, text, total) #id,
	IPOIB_NETDEV_COUNTERS(C)
#undef C
};

const char *const ipoib_port_stat_names[IPOIB_PORT_STAT_COUNT] = {
#define C(id, text) #id,
	IPOIB_DRAIN_COUNTERS(C)
#define R(id, name, text) "drain_by_" #name,
	IPOIB_DRAIN_REASONS(R)
#undef R
	IPOIB_PORT_COUNTERS(C)
#undef C
};

/* Which rtnl total a counter adds to. */
enum ipoib_total { TOTAL_NONE, TOTAL_RX_DROP, TOTAL_RX_ERR, TOTAL_TX_DROP, TOTAL_TX_ERR };

static const u8 ipoib_stat_totals[IPOIB_STAT_COUNT] = {
#define C(id, text, total) TOTAL_##total,
	IPOIB_NETDEV_COUNTERS(C)
#undef C
};

/**
 * ipoib_stat_add() - add to a counter of a netdev
 * @priv: the netdev
 * @stat: which counter
 * @n: how much
 *
 * Context: any but hard interrupt.
 */
void ipoib_stat_add(struct ipoib_netdev *priv, enum ipoib_stat stat, u64 n)
{
	struct ipoib_pcpu_stats *stats = get_cpu_ptr(priv->stats);
	unsigned long flags;

	flags = u64_stats_update_begin_irqsave(&stats->sync);
	u64_stats_add(&stats->count[stat], n);
	u64_stats_update_end_irqrestore(&stats->sync, flags);
	put_cpu_ptr(priv->stats);
}

/**
 * ipoib_stat_packet() - count one packet and its octets
 * @priv: the netdev
 * @packets: IPOIB_STAT_rx_packets or IPOIB_STAT_tx_packets; the counter of
 *	octets is the one behind it
 * @bytes: length of the packet in octets, without the IPoIB header
 *
 * Context: any but hard interrupt.
 */
void ipoib_stat_packet(struct ipoib_netdev *priv, enum ipoib_stat packets,
		       unsigned int bytes)
{
	struct ipoib_pcpu_stats *stats = get_cpu_ptr(priv->stats);
	unsigned long flags;

	flags = u64_stats_update_begin_irqsave(&stats->sync);
	u64_stats_inc(&stats->count[packets]);
	u64_stats_add(&stats->count[packets + 1], bytes);
	u64_stats_update_end_irqrestore(&stats->sync, flags);
	put_cpu_ptr(priv->stats);
}

/**
 * ipoib_stats_read() - sum the counters of a netdev over all CPUs
 * @priv: the netdev
 * @out: IPOIB_STAT_COUNT sums
 *
 * Context: any but hard interrupt.
 */
void ipoib_stats_read(struct ipoib_netdev *priv, u64 *out)
{
	u64 copy[IPOIB_STAT_COUNT];
	unsigned int start;
	int cpu, i;

	memset(out, 0, sizeof(copy));
	for_each_possible_cpu(cpu) {
		const struct ipoib_pcpu_stats *stats = per_cpu_ptr(priv->stats, cpu);

		do {
			start = u64_stats_fetch_begin(&stats->sync);
			for (i = 0; i < IPOIB_STAT_COUNT; i++)
				copy[i] = u64_stats_read(&stats->count[i]);
		} while (u64_stats_fetch_retry(&stats->sync, start));
		for (i = 0; i < IPOIB_STAT_COUNT; i++)
			out[i] += copy[i];
	}
}

/**
 * ipoib_stats_fold() - fill the totals that rtnetlink shows
 * @priv: the netdev
 * @out: totals; those that are set here start from zero
 *
 * Context: any but hard interrupt.
 */
void ipoib_stats_fold(struct ipoib_netdev *priv, struct rtnl_link_stats64 *out)
{
	u64 total[TOTAL_TX_ERR + 1] = {};
	u64 count[IPOIB_STAT_COUNT];
	int i;

	ipoib_stats_read(priv, count);
	for (i = 0; i < IPOIB_STAT_COUNT; i++)
		total[ipoib_stat_totals[i]] += count[i];
	out->rx_packets = count[IPOIB_STAT_rx_packets];
	out->rx_bytes = count[IPOIB_STAT_rx_bytes];
	out->tx_packets = count[IPOIB_STAT_tx_packets];
	out->tx_bytes = count[IPOIB_STAT_tx_bytes];
	out->multicast = count[IPOIB_STAT_rx_multicast];
	out->rx_dropped = total[TOTAL_RX_DROP];
	out->rx_errors = total[TOTAL_RX_ERR];
	out->tx_dropped = total[TOTAL_TX_DROP];
	out->tx_errors = total[TOTAL_TX_ERR];
}

/**
 * ipoib_port_stat_inc() - count one event of a port
 * @port: the port
 * @stat: which counter
 *
 * Context: any.
 */
void ipoib_port_stat_inc(struct ipoib_port *port, enum ipoib_port_stat stat)
{
	atomic64_inc(&port->stats[stat]);
}

/**
 * ipoib_port_stat_set() - set a figure of a port that is not a count
 * @port: the port
 * @stat: which figure
 * @value: its value
 *
 * Context: any.
 */
void ipoib_port_stat_set(struct ipoib_port *port, enum ipoib_port_stat stat,
			 u64 value)
{
	atomic64_set(&port->stats[stat], value);
}
