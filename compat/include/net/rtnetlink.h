/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#ifndef IPOIB_COMPAT_NET_RTNETLINK_H
#define IPOIB_COMPAT_NET_RTNETLINK_H

#include_next <net/rtnetlink.h>

int ipoib_nl_newlink(struct net_device *dev, struct net *link_net,
		     struct nlattr *tb[], struct nlattr *data[],
		     struct netlink_ext_ack *extack);

/* The namespace of the parent interface came as an argument of its own. */
#ifdef IPOIB_HAVE_NEWLINK_PARAMS
static inline int ipoib_nl_newlink_op(struct net_device *dev,
				      struct rtnl_newlink_params *params,
				      struct netlink_ext_ack *extack)
{
	return ipoib_nl_newlink(dev, rtnl_newlink_link_net(params), params->tb,
				params->data, extack);
}
#else
static inline int ipoib_nl_newlink_op(struct net *src_net,
				      struct net_device *dev,
				      struct nlattr *tb[], struct nlattr *data[],
				      struct netlink_ext_ack *extack)
{
	return ipoib_nl_newlink(dev, src_net, tb, data, extack);
}
#endif

#endif
