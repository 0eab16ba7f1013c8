/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#ifndef IPOIB_COMPAT_LINUX_NETDEVICE_H
#define IPOIB_COMPAT_LINUX_NETDEVICE_H

#include_next <linux/netdevice.h>

/* header_ops.parse was told the device by skb->dev only. */
#ifdef IPOIB_HAVE_HEADER_PARSE_2
#define IPOIB_HEADER_PARSE_DEV
#else
#define IPOIB_HEADER_PARSE_DEV const struct net_device *dev,
#endif

/*
 * The core hands over snapshots of the address lists, or calls under the
 * lock of the lists. The driver only notes that they changed.
 */
void ipoib_set_rx_mode(struct net_device *dev);

#ifdef IPOIB_HAVE_SET_RX_MODE_ASYNC
static inline int ipoib_set_rx_mode_async(struct net_device *dev,
					  struct netdev_hw_addr_list *uc,
					  struct netdev_hw_addr_list *mc)
{
	ipoib_set_rx_mode(dev);
	return 0;
}

#define IPOIB_NDO_SET_RX_MODE	.ndo_set_rx_mode_async = ipoib_set_rx_mode_async
#else
#define IPOIB_NDO_SET_RX_MODE	.ndo_set_rx_mode = ipoib_set_rx_mode
#endif

/* A net device that carries NAPIs only. */
#ifdef IPOIB_HAVE_ALLOC_NETDEV_DUMMY
#define ipoib_free_netdev_dummy(dev) free_netdev(dev)
#else
#include <linux/slab.h>

static inline struct net_device *alloc_netdev_dummy(int sizeof_priv)
{
	struct net_device *dev = kvzalloc(sizeof(*dev), GFP_KERNEL);

	if (dev)
		init_dummy_netdev(dev);
	return dev;
}

#define ipoib_free_netdev_dummy(dev) kvfree(dev)
#endif

#endif
