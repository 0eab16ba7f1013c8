// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* rtnetlink: `ip link ... type ipoib [pkey P] [mode M] [umcast N]`. */
#include <linux/if_arp.h>
#include <linux/netdevice.h>
#include <net/rtnetlink.h>

#include "ipoib.h"

static const struct nla_policy ipoib_nl_policy[IFLA_IPOIB_MAX + 1] = {
	[IFLA_IPOIB_PKEY] = { .type = NLA_U16 },
	[IFLA_IPOIB_MODE] = { .type = NLA_U16 },
	[IFLA_IPOIB_UMCAST] = { .type = NLA_U16 },
};

static int ipoib_nl_validate_pkey(const struct nlattr *attr,
				  struct netlink_ext_ack *extack)
{
	u16 pkey;

	if (!attr)
		return 0;
	pkey = nla_get_u16(attr);
	if (pkey & ~IPOIB_PKEY_FULL)
		return 0;
	NL_SET_ERR_MSG_ATTR(extack, attr, "P_Key 0 names no partition");
	return -EINVAL;
}

static int ipoib_nl_validate_mode(const struct nlattr *attr,
				  struct netlink_ext_ack *extack)
{
	if (!attr || nla_get_u16(attr) <= IPOIB_MODE_CONNECTED)
		return 0;
	NL_SET_ERR_MSG_ATTR(extack, attr,
			    "Mode is neither datagram nor connected");
	return -EINVAL;
}

static int ipoib_nl_validate(struct nlattr *tb[], struct nlattr *data[],
			     struct netlink_ext_ack *extack)
{
	int err;

	if (!data)
		return 0;
	err = ipoib_nl_validate_pkey(data[IFLA_IPOIB_PKEY], extack);
	return err ?: ipoib_nl_validate_mode(data[IFLA_IPOIB_MODE], extack);
}

/* The P_Key of an interface cannot change: there it is ignored. */
static int ipoib_nl_changelink(struct net_device *dev, struct nlattr *tb[],
			       struct nlattr *data[],
			       struct netlink_ext_ack *extack)
{
	struct ipoib_netdev *priv = ipoib_priv(dev);
	u16 mode;
	int err;

	if (!data)
		return 0;
	if (data[IFLA_IPOIB_MODE]) {
		mode = nla_get_u16(data[IFLA_IPOIB_MODE]);
		err = ipoib_set_mode(priv, mode == IPOIB_MODE_CONNECTED, extack);
		if (err)
			return err;
	}
	if (data[IFLA_IPOIB_UMCAST])
		ipoib_mcast_set_umcast(priv,
				       nla_get_u16(data[IFLA_IPOIB_UMCAST]));
	return 0;
}

/* Only a parent of this driver has the private part that a child needs. */
static struct ipoib_netdev *ipoib_nl_parent(struct net *net,
					    struct nlattr *tb[],
					    struct netlink_ext_ack *extack)
{
	struct net_device *dev;

	if (!tb[IFLA_LINK]) {
		NL_SET_ERR_MSG(extack, "A parent interface (link) is required");
		return ERR_PTR(-EINVAL);
	}
	dev = __dev_get_by_index(net, nla_get_u32(tb[IFLA_LINK]));
	if (!dev || !ipoib_dev_is_ours(dev)) {
		NL_SET_ERR_MSG_ATTR(extack, tb[IFLA_LINK],
				    "The parent is not an IPoIB interface");
		return ERR_PTR(-ENODEV);
	}
	if (ipoib_is_child(ipoib_priv(dev))) {
		NL_SET_ERR_MSG_ATTR(extack, tb[IFLA_LINK],
				    "The parent is a child itself");
		return ERR_PTR(-EINVAL);
	}
	return ipoib_priv(dev);
}

static u16 ipoib_nl_pkey(const struct ipoib_netdev *parent,
			 struct nlattr *data[])
{
	if (!data || !data[IFLA_IPOIB_PKEY])
		return parent->pkey;
	return nla_get_u16(data[IFLA_IPOIB_PKEY]) | IPOIB_PKEY_FULL;
}

/* What can be set only now that the child is registered. */
static int ipoib_nl_configure(struct net_device *dev, unsigned int mtu,
			      struct nlattr *tb[], struct nlattr *data[],
			      struct netlink_ext_ack *extack)
{
	int err;

	err = ipoib_nl_changelink(dev, tb, data, extack);
	if (err || !mtu)
		return err;
	err = dev_set_mtu(dev, mtu);
	if (err)
		NL_SET_ERR_MSG_ATTR(extack, tb[IFLA_MTU],
				    "The MTU is out of the mode's range");
	return err;
}

/**
 * ipoib_nl_newlink() - make a child
 * @dev: the child, allocated by the core
 * @link_net: network namespace that IFLA_LINK, the parent, is in
 * @tb: IFLA attributes
 * @data: attributes of the kind, or NULL
 * @extack: where to say what is wrong
 *
 * Context: process, under rtnl.
 *
 * Return: 0; -EINVAL without a parent or if it is a child, or for a mode that
 * the port does not have or a MTU that the mode does not have; -ENODEV if the
 * parent is not this driver's; another -errno if it could not be registered.
 */
int ipoib_nl_newlink(struct net_device *dev, struct net *link_net,
		     struct nlattr *tb[], struct nlattr *data[],
		     struct netlink_ext_ack *extack)
{
	unsigned int mtu = tb[IFLA_MTU] ? nla_get_u32(tb[IFLA_MTU]) : 0;
	struct ipoib_netdev *parent;
	int err;

	parent = ipoib_nl_parent(link_net, tb, extack);
	if (IS_ERR(parent))
		return PTR_ERR(parent);
	err = ipoib_child_register(parent, dev, ipoib_nl_pkey(parent, data),
				   IPOIB_F_CHILD_RTNL);
	if (err)
		return err;
	err = ipoib_nl_configure(dev, mtu, tb, data, extack);
	if (err)
		unregister_netdevice(dev);
	else if (!ipoib_addr_known(ipoib_priv(dev)))
		NL_SET_ERR_MSG(extack, "No link: no GID of the port has this interface ID");
	return err;
}

/* A parent lives as long as its port. */
static void ipoib_nl_dellink(struct net_device *dev, struct list_head *head)
{
	struct ipoib_netdev *priv = ipoib_priv(dev);

	if (!ipoib_is_child(priv))
		return;
	set_bit(IPOIB_F_REMOVING, &priv->flags);
	unregister_netdevice_queue(dev, head);
}

static size_t ipoib_nl_get_size(const struct net_device *dev)
{
	return nla_total_size(sizeof(u16)) * IFLA_IPOIB_MAX;
}

static int ipoib_nl_fill_info(struct sk_buff *skb, const struct net_device *dev)
{
	const struct ipoib_netdev *priv = ipoib_priv(dev);
	u16 umcast = test_bit(IPOIB_F_UMCAST, &priv->flags);
	u16 mode = ipoib_is_connected(priv) ? IPOIB_MODE_CONNECTED :
					      IPOIB_MODE_DATAGRAM;

	if (nla_put_u16(skb, IFLA_IPOIB_PKEY, priv->pkey) ||
	    nla_put_u16(skb, IFLA_IPOIB_MODE, mode) ||
	    nla_put_u16(skb, IFLA_IPOIB_UMCAST, umcast))
		return -EMSGSIZE;
	return 0;
}

struct rtnl_link_ops ipoib_link_ops __read_mostly = {
	.kind = "ipoib",
	.netns_refund = true,
	.maxtype = IFLA_IPOIB_MAX,
	.policy = ipoib_nl_policy,
	.priv_size = sizeof(struct ipoib_netdev),
	.setup = ipoib_netdev_setup,
	.validate = ipoib_nl_validate,
	.newlink = ipoib_nl_newlink_op,
	.changelink = ipoib_nl_changelink,
	.dellink = ipoib_nl_dellink,
	.get_size = ipoib_nl_get_size,
	.fill_info = ipoib_nl_fill_info,
};

MODULE_ALIAS_RTNL_LINK("ipoib");
