// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * P_Key children. A child has its own QP and its own broadcast group, so its
 * carrier tells of its own link. It may be up while its parent is down; when
 * the parent itself goes up or down, its children go with it.
 */
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/sched/signal.h>

#include "ipoib.h"

static struct ipoib_netdev *ipoib_child_find(struct ipoib_netdev *parent,
					     u16 pkey)
{
	struct ipoib_netdev *priv;

	ASSERT_RTNL();
	list_for_each_entry(priv, &parent->port->netdevs, list)
		if (priv->parent == parent && priv->pkey == pkey &&
		    test_bit(IPOIB_F_CHILD_SYSFS, &priv->flags))
			return priv;
	return NULL;
}

/**
 * ipoib_child_register() - register a child interface
 * @parent: its parent
 * @dev: the child, allocated, its network namespace set
 * @pkey: its P_Key with the full-membership bit
 * @kind: IPOIB_F_CHILD_SYSFS or IPOIB_F_CHILD_RTNL
 *
 * Context: process, under rtnl.
 *
 * Return: 0, or -errno; free_netdev() is left to the caller then.
 */
int ipoib_child_register(struct ipoib_netdev *parent, struct net_device *dev,
			 u16 pkey, enum ipoib_netdev_flag kind)
{
	struct ipoib_netdev *priv = ipoib_priv(dev);
	int err;

	ASSERT_RTNL();
	set_bit(kind, &priv->flags);
	if (test_bit(IPOIB_F_ADDR_SET, &parent->flags) &&
	    dev->addr_assign_type != NET_ADDR_SET) {
		dev_addr_set(dev, parent->dev->dev_addr);
		dev->addr_assign_type = NET_ADDR_SET;
	}
	err = ipoib_netdev_bind(priv, parent->port, parent, pkey);
	if (err)
		return err;
	return ipoib_netdev_register(priv);
}

/**
 * ipoib_vlan_create() - make a child for the attribute create_child
 * @parent: its parent
 * @pkey: its P_Key, valid, with the full-membership bit
 *
 * Context: process, under rtnl.
 *
 * Return: 0; -ENOTUNIQ if the parent or a child made this way has this P_Key;
 * -EBUSY while such a child is being deleted; another -errno if it could not
 * be registered.
 */
int ipoib_vlan_create(struct ipoib_netdev *parent, u16 pkey)
{
	struct ipoib_netdev *old = ipoib_child_find(parent, pkey);
	struct net_device *dev;
	char name[IFNAMSIZ];
	int err;

	if (old && test_bit(IPOIB_F_REMOVING, &old->flags))
		return -EBUSY;
	if (old || parent->pkey == pkey)
		return -ENOTUNIQ;

	snprintf(name, sizeof(name), "%.10s.%04x", parent->dev->name, pkey);
	dev = ipoib_netdev_alloc(name);
	if (!dev)
		return -ENOMEM;
	dev_net_set(dev, dev_net(parent->dev));
	err = ipoib_child_register(parent, dev, pkey, IPOIB_F_CHILD_SYSFS);
	if (err)
		free_netdev(dev);
	return err;
}

/**
 * ipoib_vlan_delete_work() - unregister a child for the attribute delete_child
 * @work: &struct ipoib_netdev.delete_work of the child
 *
 * The writer of delete_child is itself waited for by whoever removes the
 * parent under rtnl, so it must not wait for the end of the child.
 *
 * Context: on ipoib_rtnl_wq, with a reference to the net device.
 */
void ipoib_vlan_delete_work(struct work_struct *work)
{
	struct ipoib_netdev *priv = container_of(work, struct ipoib_netdev,
						 delete_work);
	struct net_device *dev = priv->dev;

	rtnl_lock();
	if (dev->reg_state == NETREG_REGISTERED)
		unregister_netdevice(dev);
	/* Before rtnl_unlock(), which waits for the last reference. */
	dev_put(dev);
	rtnl_unlock();
}

/**
 * ipoib_vlan_delete() - delete a child for the attribute delete_child
 * @parent: its parent
 * @pkey: its P_Key with the full-membership bit
 *
 * The child is gone a little later.
 *
 * Context: process, under rtnl.
 *
 * Return: 0, or -ENODEV if create_child made no such child.
 */
int ipoib_vlan_delete(struct ipoib_netdev *parent, u16 pkey)
{
	struct ipoib_netdev *priv = ipoib_child_find(parent, pkey);

	if (!priv || test_and_set_bit(IPOIB_F_REMOVING, &priv->flags))
		return -ENODEV;
	ipoib_rtnl_work_queue(priv, &priv->delete_work);
	return 0;
}

/**
 * ipoib_vlan_follow() - have children follow their parent up or down
 * @parent: an interface that went up or down
 * @up: up
 *
 * Context: process, under rtnl.
 */
void ipoib_vlan_follow(struct ipoib_netdev *parent, bool up)
{
	struct ipoib_netdev *priv;
	int err;

	ASSERT_RTNL();
	if (ipoib_is_child(parent))
		return;
	list_for_each_entry(priv, &parent->port->netdevs, list) {
		if (priv->parent != parent)
			continue;
		if (!up) {
			dev_close(priv->dev);
			continue;
		}
		err = dev_open(priv->dev, NULL);
		if (err)
			netdev_warn(priv->dev, "does not follow %s: %d\n",
				    parent->dev->name, err);
	}
}
