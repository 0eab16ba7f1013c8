// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Attributes below /sys/class/net/<interface>.
 *
 * Who removes an interface holds rtnl and waits for writers of its attributes,
 * so a writer only tries to take rtnl and lets the system call start again.
 */
#include <linux/capability.h>
#include <linux/device.h>
#include <linux/kstrtox.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/sched/signal.h>
#include <linux/sysfs.h>
#include <net/net_namespace.h>

#include "ipoib.h"

static struct ipoib_netdev *ipoib_dev_priv(struct device *d)
{
	return ipoib_priv(to_net_dev(d));
}

static ssize_t mode_show(struct device *d, struct device_attribute *attr,
			 char *buf)
{
	return sysfs_emit(buf, "%s\n", ipoib_is_connected(ipoib_dev_priv(d)) ?
			  "connected" : "datagram");
}

static ssize_t mode_store(struct device *d, struct device_attribute *attr,
			  const char *buf, size_t count)
{
	struct ipoib_netdev *priv = ipoib_dev_priv(d);
	int err = -EPERM;
	bool connected;

	if (!strcmp(buf, "connected\n"))
		connected = true;
	else if (!strcmp(buf, "datagram\n"))
		connected = false;
	else
		return -EINVAL;
	if (!rtnl_trylock())
		return restart_syscall();
	if (priv->dev->reg_state == NETREG_REGISTERED)
		err = ipoib_set_mode(priv, connected, NULL);
	rtnl_unlock();
	return err ?: count;
}
static DEVICE_ATTR_RW(mode);

static ssize_t umcast_show(struct device *d, struct device_attribute *attr,
			   char *buf)
{
	return sysfs_emit(buf, "%u\n", test_bit(IPOIB_F_UMCAST,
						&ipoib_dev_priv(d)->flags));
}

/* What is no number counts as 0: nothing that is written here fails. */
static ssize_t umcast_store(struct device *d, struct device_attribute *attr,
			    const char *buf, size_t count)
{
	struct ipoib_netdev *priv = ipoib_dev_priv(d);
	unsigned long on;

	if (kstrtoul(buf, 0, &on))
		on = 0;
	if (!rtnl_trylock())
		return restart_syscall();
	if (priv->dev->reg_state == NETREG_REGISTERED)
		ipoib_mcast_set_umcast(priv, on);
	rtnl_unlock();
	return count;
}
static DEVICE_ATTR_RW(umcast);

static ssize_t pkey_show(struct device *d, struct device_attribute *attr,
			 char *buf)
{
	return sysfs_emit(buf, "0x%04x\n", READ_ONCE(ipoib_dev_priv(d)->pkey));
}
static DEVICE_ATTR_RO(pkey);

static ssize_t parent_show(struct device *d, struct device_attribute *attr,
			   char *buf)
{
	return sysfs_emit(buf, "%s\n", ipoib_dev_priv(d)->parent->dev->name);
}
static DEVICE_ATTR_RO(parent);

static ssize_t ipoib_child_store(struct device *d, const char *buf,
				 size_t count,
				 int (*act)(struct ipoib_netdev *parent, u16 pkey))
{
	struct ipoib_netdev *priv = ipoib_dev_priv(d);
	int pkey, err = -ENODEV;

	if (kstrtoint(buf, 0, &pkey))
		return -EINVAL;
	if (pkey <= 0 || pkey > 0xffff || pkey == IPOIB_PKEY_FULL)
		return -EINVAL;
	if (!ns_capable(dev_net(priv->dev)->user_ns, CAP_NET_ADMIN))
		return -EPERM;
	if (!rtnl_trylock())
		return restart_syscall();
	if (priv->dev->reg_state == NETREG_REGISTERED)
		err = act(priv, pkey | IPOIB_PKEY_FULL);
	rtnl_unlock();
	/* Its predecessor is still being deleted. */
	if (err == -EBUSY)
		return restart_syscall();
	return err ?: count;
}

static ssize_t create_child_store(struct device *d,
				  struct device_attribute *attr,
				  const char *buf, size_t count)
{
	return ipoib_child_store(d, buf, count, ipoib_vlan_create);
}
static DEVICE_ATTR_WO(create_child);

static ssize_t delete_child_store(struct device *d,
				  struct device_attribute *attr,
				  const char *buf, size_t count)
{
	return ipoib_child_store(d, buf, count, ipoib_vlan_delete);
}
static DEVICE_ATTR_WO(delete_child);

static struct attribute *ipoib_attrs[] = {
	&dev_attr_mode.attr,
	&dev_attr_umcast.attr,
	&dev_attr_pkey.attr,
	&dev_attr_create_child.attr,
	&dev_attr_delete_child.attr,
	&dev_attr_parent.attr,
	NULL
};

/* Parents make and delete children; who was made that way names its parent. */
static umode_t ipoib_attr_visible(struct kobject *kobj, struct attribute *attr,
				  int index)
{
	struct ipoib_netdev *priv = ipoib_dev_priv(kobj_to_dev(kobj));

	if (attr == &dev_attr_create_child.attr ||
	    attr == &dev_attr_delete_child.attr)
		return ipoib_is_child(priv) ? 0 : attr->mode;
	if (attr == &dev_attr_parent.attr &&
	    !test_bit(IPOIB_F_CHILD_SYSFS, &priv->flags))
		return 0;
	return attr->mode;
}

/* The core makes and removes them with the interface's own attributes. */
const struct attribute_group ipoib_sysfs_group = {
	.attrs = ipoib_attrs,
	.is_visible = ipoib_attr_visible,
};
