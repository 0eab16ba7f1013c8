// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* ethtool: driver, link, coalescing, counters. */
#include <linux/bitops.h>
#include <linux/ethtool.h>
#include <linux/netdevice.h>
#include <rdma/ib_verbs.h>

#include "ipoib.h"

static void ipoib_get_drvinfo(struct net_device *dev,
			      struct ethtool_drvinfo *info)
{
	struct ib_device *ca = ipoib_priv(dev)->port->ca;

	strscpy(info->driver, IPOIB_DRV_NAME, sizeof(info->driver));
	ib_get_device_fw_str(ca, info->fw_version);
	if (ca->dev.parent)
		strscpy(info->bus_info, dev_name(ca->dev.parent),
			sizeof(info->bus_info));
}

/* Rate of one lane in Mb/s, by the bit that names the speed. */
static u32 ipoib_lane_rate(u16 speed)
{
	static const u32 rate[] = {
		2500,	/* SDR */
		5000,	/* DDR */
		10000,	/* QDR */
		10000,	/* FDR10 */
		14000,	/* FDR */
		25000,	/* EDR */
		50000,	/* HDR */
		100000,	/* NDR */
		200000,	/* XDR */
	};
	unsigned int bit = ffs(speed) - 1;

	return speed && bit < ARRAY_SIZE(rate) ? rate[bit] : 0;
}

static int ipoib_get_link_ksettings(struct net_device *dev,
				    struct ethtool_link_ksettings *cmd)
{
	struct ipoib_port *port = ipoib_priv(dev)->port;
	struct ib_port_attr attr;
	u32 speed;
	int lanes;

	cmd->base.speed = SPEED_UNKNOWN;
	cmd->base.duplex = DUPLEX_UNKNOWN;
	cmd->base.autoneg = AUTONEG_ENABLE;
	cmd->base.port = PORT_OTHER;
	if (!netif_carrier_ok(dev))
		return 0;

	cmd->base.duplex = DUPLEX_FULL;
	if (ib_query_port(port->ca, port->num, &attr))
		return 0;
	lanes = ib_width_enum_to_int(attr.active_width);
	speed = ipoib_lane_rate(attr.active_speed);
	if (lanes > 0 && speed)
		cmd->base.speed = speed * lanes;
	return 0;
}

static int ipoib_get_coalesce(struct net_device *dev,
			      struct ethtool_coalesce *coal,
			      struct kernel_ethtool_coalesce *kernel_coal,
			      struct netlink_ext_ack *extack)
{
	struct ipoib_netdev *priv = ipoib_priv(dev);

	coal->rx_coalesce_usecs = priv->ud.coalesce.usecs;
	coal->rx_max_coalesced_frames = priv->ud.coalesce.frames;
	return 0;
}

/* The parent's setting governs the port's connected-mode queue as well. */
static int ipoib_set_moderation(struct ipoib_netdev *priv, u16 frames,
				u16 usecs)
{
	int err;

	err = rdma_set_cq_moderation(priv->ud.recv_cq, frames, usecs);
	if (err || ipoib_is_child(priv) || !ipoib_cm_capable(priv))
		return err;
	err = rdma_set_cq_moderation(priv->port->cm.recv_cq, frames, usecs);
	if (err)
		rdma_set_cq_moderation(priv->ud.recv_cq,
				       priv->ud.coalesce.frames,
				       priv->ud.coalesce.usecs);
	return err;
}

static int ipoib_set_coalesce(struct net_device *dev,
			      struct ethtool_coalesce *coal,
			      struct kernel_ethtool_coalesce *kernel_coal,
			      struct netlink_ext_ack *extack)
{
	struct ipoib_netdev *priv = ipoib_priv(dev);
	int err;

	if (coal->rx_coalesce_usecs > U16_MAX ||
	    coal->rx_max_coalesced_frames > U16_MAX) {
		NL_SET_ERR_MSG(extack, "The largest value is 65535");
		return -EINVAL;
	}
	err = ipoib_set_moderation(priv, coal->rx_max_coalesced_frames,
				   coal->rx_coalesce_usecs);
	if (err) {
		NL_SET_ERR_MSG(extack, "The HCA refused the moderation");
		return err;
	}
	priv->ud.coalesce.usecs = coal->rx_coalesce_usecs;
	priv->ud.coalesce.frames = coal->rx_max_coalesced_frames;
	return 0;
}

static const struct {
	const char *name;
	size_t offset;
} ipoib_totals[] = {
#define T(name, text) { #name, offsetof(struct rtnl_link_stats64, name) },
	IPOIB_TOTALS(T)
#undef T
};

#define IPOIB_NTOTALS	ARRAY_SIZE(ipoib_totals)
/* Counters before this one are totals themselves. */
#define IPOIB_FIRST_STAT	IPOIB_STAT_rx_drop_runt
#define IPOIB_NSTATS		(IPOIB_STAT_COUNT - IPOIB_FIRST_STAT)

static unsigned int ipoib_nport_stats(struct ipoib_netdev *priv)
{
	return ipoib_is_child(priv) ? 0 : IPOIB_PORT_STAT_COUNT;
}

static int ipoib_get_sset_count(struct net_device *dev, int sset)
{
	if (sset != ETH_SS_STATS)
		return -EOPNOTSUPP;
	return IPOIB_NTOTALS + IPOIB_NSTATS +
	       ipoib_nport_stats(ipoib_priv(dev));
}

static u8 *ipoib_put_string(u8 *p, const char *name)
{
	strscpy_pad((char *)p, name, ETH_GSTRING_LEN);
	return p + ETH_GSTRING_LEN;
}

static void ipoib_get_strings(struct net_device *dev, u32 sset, u8 *p)
{
	unsigned int i;

	if (sset != ETH_SS_STATS)
		return;
	for (i = 0; i < IPOIB_NTOTALS; i++)
		p = ipoib_put_string(p, ipoib_totals[i].name);
	for (i = IPOIB_FIRST_STAT; i < IPOIB_STAT_COUNT; i++)
		p = ipoib_put_string(p, ipoib_stat_names[i]);
	for (i = 0; i < ipoib_nport_stats(ipoib_priv(dev)); i++)
		p = ipoib_put_string(p, ipoib_port_stat_names[i]);
}

static void ipoib_get_ethtool_stats(struct net_device *dev,
				    struct ethtool_stats *stats, u64 *out)
{
	struct ipoib_netdev *priv = ipoib_priv(dev);
	struct rtnl_link_stats64 total = {};
	u64 count[IPOIB_STAT_COUNT];
	unsigned int i;

	ipoib_stats_fold(priv, &total);
	for (i = 0; i < IPOIB_NTOTALS; i++)
		*out++ = *(const u64 *)((const char *)&total +
					ipoib_totals[i].offset);
	ipoib_stats_read(priv, count);
	for (i = IPOIB_FIRST_STAT; i < IPOIB_STAT_COUNT; i++)
		*out++ = count[i];
	for (i = 0; i < ipoib_nport_stats(priv); i++)
		*out++ = atomic64_read(&priv->port->stats[i]);
}

const struct ethtool_ops ipoib_ethtool_ops = {
	.supported_coalesce_params = ETHTOOL_COALESCE_RX_USECS |
				     ETHTOOL_COALESCE_RX_MAX_FRAMES,
	.get_drvinfo = ipoib_get_drvinfo,
	.get_link = ethtool_op_get_link,
	.get_link_ksettings = ipoib_get_link_ksettings,
	.get_coalesce = ipoib_get_coalesce,
	.set_coalesce = ipoib_set_coalesce,
	.get_sset_count = ipoib_get_sset_count,
	.get_strings = ipoib_get_strings,
	.get_ethtool_stats = ipoib_get_ethtool_stats,
};
