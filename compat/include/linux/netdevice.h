/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#ifndef IPOIB_COMPAT_LINUX_NETDEVICE_H
#define IPOIB_COMPAT_LINUX_NETDEVICE_H

#include_next <linux/netdevice.h>

/* header_ops.parse was told the device by skb->dev only. */
#ifdef IPOIB_HAVE_HEADER_PARSE_2
#define IPOIB_HEADER_PARSE(name, parse) \
static int name(const struct sk_buff *skb, unsigned char *haddr) \
{ \
	return parse(skb, skb->dev, haddr); \
}
#else
#define IPOIB_HEADER_PARSE(name, parse) \
static int name(const struct sk_buff *skb, const struct net_device *dev, \
		unsigned char *haddr) \
{ \
	return parse(skb, dev, haddr); \
}
#endif

/*
 * The core hands over snapshots of the address lists, or calls under the
 * lock of the lists. The driver only notes that they changed.
 */
#ifdef IPOIB_HAVE_SET_RX_MODE_ASYNC
#define IPOIB_SET_RX_MODE_ASYNC(name, sync) \
static int name(struct net_device *dev, struct netdev_hw_addr_list *uc, \
		struct netdev_hw_addr_list *mc) \
{ \
	sync(dev); \
	return 0; \
}
#define IPOIB_NDO_SET_RX_MODE(sync, async) .ndo_set_rx_mode_async = async
#else
#define IPOIB_SET_RX_MODE_ASYNC(name, sync)
#define IPOIB_NDO_SET_RX_MODE(sync, async) .ndo_set_rx_mode = sync
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
