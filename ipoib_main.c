// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Module, HCAs and ports: an ib_client makes one parent interface for each
 * InfiniBand port and takes everything away again when the HCA goes.
 */
#include <linux/if_arp.h>
#include <linux/inetdevice.h>
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/rtnetlink.h>
#include <net/addrconf.h>
#include <net/net_namespace.h>
#include <net/rtnetlink.h>
#include <rdma/ib_cache.h>

#include "ipoib.h"

MODULE_DESCRIPTION("IP over InfiniBand (RFC 4391, RFC 4755)");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_VERSION(IPOIB_VERSION);

unsigned int ipoib_sendq_size = 128;
module_param_named(send_queue_size, ipoib_sendq_size, uint, 0444);
MODULE_PARM_DESC(send_queue_size, "Entries of a send queue (128 to 8192)");

unsigned int ipoib_recvq_size = 256;
module_param_named(recv_queue_size, ipoib_recvq_size, uint, 0444);
MODULE_PARM_DESC(recv_queue_size, "Entries of a receive queue (2 to 8192)");

unsigned int ipoib_max_nonsrq_conn_qp = 128;
module_param_named(max_nonsrq_conn_qp, ipoib_max_nonsrq_conn_qp, uint, 0444);
MODULE_PARM_DESC(max_nonsrq_conn_qp,
		 "Passive connections of a port whose HCA has no SRQ (0 to 4096)");

/*
 * Accepted so that existing modprobe configuration keeps loading the module.
 * Debug output is switched by dynamic debug, events are tracepoints.
 */
static int ipoib_debug_levels[4];
module_param_named(debug_level, ipoib_debug_levels[0], int, 0644);
MODULE_PARM_DESC(debug_level, "Ignored; use dynamic debug and tracepoints");
module_param_named(mcast_debug_level, ipoib_debug_levels[1], int, 0644);
MODULE_PARM_DESC(mcast_debug_level, "Ignored; use dynamic debug and tracepoints");
module_param_named(data_debug_level, ipoib_debug_levels[2], int, 0644);
MODULE_PARM_DESC(data_debug_level, "Ignored; use dynamic debug and tracepoints");
module_param_named(cm_data_debug_level, ipoib_debug_levels[3], int, 0644);
MODULE_PARM_DESC(cm_data_debug_level, "Ignored; use dynamic debug and tracepoints");

struct workqueue_struct *ipoib_rtnl_wq;
struct ib_sa_client ipoib_sa_client;

static void ipoib_port_release(struct kref *ref)
{
	struct ipoib_port *port = container_of(ref, struct ipoib_port, ref);

	complete(&port->gone);
}

/**
 * ipoib_port_get() - take a reference to a port
 * @port: the port, to which the caller has access already
 *
 * Context: any.
 */
void ipoib_port_get(struct ipoib_port *port)
{
	kref_get(&port->ref);
}

/**
 * ipoib_port_put() - give a reference to a port back
 * @port: the port; the last reference lets the removal of the HCA go on
 *
 * Context: any.
 */
void ipoib_port_put(struct ipoib_port *port)
{
	kref_put(&port->ref, ipoib_port_release);
}

static int ipoib_port_query(struct ipoib_port *port)
{
	struct ib_port_attr attr;
	int err, mtu;

	err = ib_query_port(port->ca, port->num, &attr);
	if (err)
		return err;
	mtu = ib_mtu_enum_to_int(attr.max_mtu);
	if (mtu < (int)IPOIB_MIN_MTU)
		return -EINVAL;
	port->max_mtu = mtu;
	return 0;
}

static struct ipoib_port *ipoib_port_create(struct ib_device *ca, u32 num)
{
	struct ipoib_port *port;
	int err;

	port = kzalloc(sizeof(*port), GFP_KERNEL);
	if (!port)
		return ERR_PTR(-ENOMEM);
	kref_init(&port->ref);
	init_completion(&port->gone);
	INIT_LIST_HEAD(&port->netdevs);
	port->ca = ca;
	port->num = num;

	err = ipoib_port_query(port);
	if (err)
		goto free_port;
	port->pd = ib_alloc_pd(ca, 0);
	if (IS_ERR(port->pd)) {
		err = PTR_ERR(port->pd);
		goto free_port;
	}
	ipoib_event_init(port);
	err = ipoib_cm_port_init(port);
	if (err)
		goto free_pd;
	return port;

free_pd:
	ib_dealloc_pd(port->pd);
free_port:
	kfree(port);
	return ERR_PTR(err);
}

/*
 * All its netdevs are unregistered; their destructors may still be running. What
 * the HCA has not given back, it may use: then PD and port are kept, too.
 */
static void ipoib_port_destroy(struct ipoib_port *port)
{
	int err;

	ipoib_port_put(port);
	wait_for_completion(&port->gone);
	if (!ipoib_cm_port_uninit(port))
		return;
	err = ib_dealloc_pd_user(port->pd, NULL);
	if (err)
		dev_err(&port->ca->dev, "port %u: the PD is kept: %d\n",
			port->num, err);
	else
		kfree(port);
}

/* Give a port its parent interface. Process context, without rtnl. */
static int ipoib_port_add_parent(struct ipoib_port *port)
{
	struct net_device *dev;
	u16 pkey;
	int err;

	err = ib_query_pkey(port->ca, port->num, 0, &pkey);
	if (err)
		return err;
	dev = ipoib_netdev_alloc("ib%d");
	if (!dev)
		return -ENOMEM;
	dev_net_set(dev, read_pnet(&port->ca->coredev.rdma_net));
	SET_NETDEV_DEV(dev, port->ca->dev.parent);

	err = ipoib_netdev_bind(ipoib_priv(dev), port, NULL,
				pkey | IPOIB_PKEY_FULL);
	if (!err) {
		rtnl_lock();
		err = ipoib_netdev_register(ipoib_priv(dev));
		if (!err)
			port->parent = dev;
		rtnl_unlock();
	}
	if (err)
		free_netdev(dev);
	return err;
}

static int ipoib_device_add_ports(struct ipoib_device *idev)
{
	struct ipoib_port *port;
	unsigned int num;
	int err = 0;

	rdma_for_each_port(idev->ca, num) {
		if (!rdma_protocol_ib(idev->ca, num))
			continue;
		port = ipoib_port_create(idev->ca, num);
		if (IS_ERR(port)) {
			err = PTR_ERR(port);
			dev_warn(&idev->ca->dev,
				 "port %u: no IPoIB: %d\n", num, err);
			continue;
		}
		list_add_tail(&port->list, &idev->ports);
	}
	if (!list_empty(&idev->ports))
		return 0;
	return err ?: -EOPNOTSUPP;
}

static int ipoib_client_add(struct ib_device *ca);
static void ipoib_client_remove(struct ib_device *ca, void *client_data);
static struct net_device *
ipoib_find_netdev(struct ib_device *ca, u32 port_num, u16 pkey,
		  const union ib_gid *gid, const struct sockaddr *addr,
		  void *client_data);

static struct ib_client ipoib_client = {
	.name = "ipoib",
	.add = ipoib_client_add,
	.remove = ipoib_client_remove,
	.get_net_dev_by_params = ipoib_find_netdev,
};

static int ipoib_client_add(struct ib_device *ca)
{
	struct ipoib_device *idev;
	struct ipoib_port *port;
	int err;

	idev = kzalloc(sizeof(*idev), GFP_KERNEL);
	if (!idev)
		return -ENOMEM;
	idev->ca = ca;
	INIT_LIST_HEAD(&idev->ports);
	err = ipoib_device_add_ports(idev);
	if (err) {
		kfree(idev);
		return err;
	}

	ib_set_client_data(ca, &ipoib_client, idev);
	INIT_IB_EVENT_HANDLER(&idev->event_handler, ca, ipoib_event_handler);
	ib_register_event_handler(&idev->event_handler);
	list_for_each_entry(port, &idev->ports, list) {
		err = ipoib_port_add_parent(port);
		if (err)
			dev_warn(&ca->dev, "port %u: no interface: %d\n",
				 port->num, err);
	}
	return 0;
}

/* Parents and children go together, the children first. */
static void ipoib_device_unregister(struct ipoib_device *idev)
{
	struct ipoib_netdev *priv;
	struct ipoib_port *port;
	LIST_HEAD(kill);

	rtnl_lock();
	list_for_each_entry(port, &idev->ports, list) {
		list_for_each_entry(priv, &port->netdevs, list)
			if (ipoib_is_child(priv))
				unregister_netdevice_queue(priv->dev, &kill);
		if (port->parent)
			unregister_netdevice_queue(port->parent, &kill);
		port->parent = NULL;
	}
	unregister_netdevice_many(&kill);
	rtnl_unlock();
}

static void ipoib_client_remove(struct ib_device *ca, void *client_data)
{
	struct ipoib_device *idev = client_data;
	struct ipoib_port *port, *next;

	ib_unregister_event_handler(&idev->event_handler);
	ipoib_device_unregister(idev);
	/* Interfaces have work of their own for the event work until here. */
	list_for_each_entry(port, &idev->ports, list)
		ipoib_event_stop(port);
	/* Whether the HCA still answers is not known, so nobody waits for it. */
	list_for_each_entry(port, &idev->ports, list)
		ipoib_cm_port_dead(port);
	list_for_each_entry_safe(port, next, &idev->ports, list)
		ipoib_port_destroy(port);
	kfree(idev);
}

static bool ipoib_dev_has_ip(struct net_device *dev, const struct sockaddr *addr)
{
	const struct sockaddr_in6 *in6;
	const struct sockaddr_in *in;
	struct in_device *in_dev;

	switch (addr->sa_family) {
	case AF_INET:
		in = (const struct sockaddr_in *)addr;
		in_dev = __in_dev_get_rcu(dev);
		return in_dev && inet_confirm_addr(dev_net(dev), in_dev, 0,
						   in->sin_addr.s_addr,
						   RT_SCOPE_HOST);
	case AF_INET6:
		in6 = (const struct sockaddr_in6 *)addr;
		return ipv6_chk_addr(dev_net(dev), &in6->sin6_addr, dev, 1);
	default:
		return false;
	}
}

struct ipoib_ip_search {
	const struct sockaddr *addr;
	struct net_device *found;
};

static int ipoib_upper_has_ip(struct net_device *upper,
			      struct netdev_nested_priv *nested)
{
	struct ipoib_ip_search *search = nested->data;

	if (!ipoib_dev_has_ip(upper, search->addr))
		return 0;
	search->found = upper;
	return 1;
}

/* The device that carries @addr: @dev, or one above it, such as a bond. */
static struct net_device *ipoib_ip_owner(struct net_device *dev,
					 const struct sockaddr *addr)
{
	struct ipoib_ip_search search = { .addr = addr };
	struct netdev_nested_priv nested = { .data = &search };

	if (ipoib_dev_has_ip(dev, addr))
		return dev;
	netdev_walk_all_upper_dev_rcu(dev, ipoib_upper_has_ip, &nested);
	return search.found;
}

/**
 * struct ipoib_search - looking for the netdev of a connection request
 * @pkey: P_Key of the request, with the full-membership bit
 * @gid: local GID of the request, or NULL
 * @addr: IP address of the request, or NULL
 * @nlink: netdevs that match P_Key and GID
 * @link: the first of them
 * @nip: netdevs that match the address as well
 * @ip: the first device that carries the address
 */
struct ipoib_search {
	u16 pkey;
	const union ib_gid *gid;
	const struct sockaddr *addr;
	unsigned int nlink;
	struct net_device *link;
	unsigned int nip;
	struct net_device *ip;
};

static void ipoib_search_port(struct ipoib_port *port, struct ipoib_search *s)
{
	struct ipoib_netdev *priv;
	struct net_device *owner;

	list_for_each_entry_rcu(priv, &port->netdevs, list) {
		if (priv->pkey != s->pkey)
			continue;
		if (s->gid && memcmp(s->gid, &priv->gid, sizeof(*s->gid)))
			continue;
		if (!s->nlink++)
			s->link = priv->dev;
		owner = s->addr ? ipoib_ip_owner(priv->dev, s->addr) : NULL;
		if (owner && !s->nip++)
			s->ip = owner;
	}
}

/* P_Key and GID decide if they name one netdev only, else the IP address. */
static struct net_device *
ipoib_find_netdev(struct ib_device *ca, u32 port_num, u16 pkey,
		  const union ib_gid *gid, const struct sockaddr *addr,
		  void *client_data)
{
	struct ipoib_search search = {
		.pkey = pkey | IPOIB_PKEY_FULL, .gid = gid, .addr = addr,
	};
	struct ipoib_device *idev = client_data;
	struct ipoib_port *port;
	struct net_device *dev;

	if (!rdma_protocol_ib(ca, port_num) || !idev)
		return NULL;
	rcu_read_lock();
	list_for_each_entry(port, &idev->ports, list)
		if (port->num == port_num)
			ipoib_search_port(port, &search);
	dev = search.ip;
	if (!dev && search.nlink == 1)
		dev = search.link;
	if (search.nip > 1)
		net_warn_ratelimited("%s: duplicate IP address on P_Key 0x%04x\n",
				     dev->name, search.pkey);
	if (dev)
		dev_hold(dev);
	rcu_read_unlock();
	return dev;
}

static int ipoib_netdev_event(struct notifier_block *nb, unsigned long event,
			      void *ptr)
{
	struct net_device *dev = netdev_notifier_info_to_dev(ptr);
	struct ipoib_netdev *priv;

	if (!ipoib_dev_is_ours(dev))
		return NOTIFY_DONE;
	priv = ipoib_priv(dev);
	switch (event) {
	case NETDEV_REGISTER:
	case NETDEV_CHANGENAME:
		ipoib_debugfs_rename(priv);
		break;
	case NETDEV_UNREGISTER:
		ipoib_debugfs_remove(priv);
		break;
	case NETDEV_UP:
	case NETDEV_DOWN:
		ipoib_vlan_follow(priv, event == NETDEV_UP);
		break;
	}
	return NOTIFY_DONE;
}

static struct notifier_block ipoib_netdev_nb = {
	.notifier_call = ipoib_netdev_event,
};

static void ipoib_fix_params(void)
{
	ipoib_recvq_size = clamp(ipoib_recvq_size, IPOIB_MIN_QUEUE_SIZE,
				 IPOIB_MAX_QUEUE_SIZE);
	ipoib_recvq_size = roundup_pow_of_two(ipoib_recvq_size);
	ipoib_sendq_size = clamp(ipoib_sendq_size, IPOIB_MIN_SENDQ_SIZE,
				 IPOIB_MAX_QUEUE_SIZE);
	ipoib_sendq_size = roundup_pow_of_two(ipoib_sendq_size);
	ipoib_max_nonsrq_conn_qp = min(ipoib_max_nonsrq_conn_qp, 4096u);
}

static int __init ipoib_init(void)
{
	int err;

	ipoib_fix_params();
	ipoib_rtnl_wq = alloc_workqueue("ipoib_rtnl",
					WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!ipoib_rtnl_wq)
		return -ENOMEM;
	ipoib_debugfs_init();
	ib_sa_register_client(&ipoib_sa_client);
	err = register_netdevice_notifier(&ipoib_netdev_nb);
	if (err)
		goto undo_sa;
	err = rtnl_link_register(&ipoib_link_ops);
	if (err)
		goto undo_notifier;
	err = ib_register_client(&ipoib_client);
	if (err)
		goto undo_link;
	return 0;

undo_link:
	rtnl_link_unregister(&ipoib_link_ops);
undo_notifier:
	unregister_netdevice_notifier(&ipoib_netdev_nb);
undo_sa:
	ib_sa_unregister_client(&ipoib_sa_client);
	ipoib_debugfs_exit();
	destroy_workqueue(ipoib_rtnl_wq);
	return err;
}

static void __exit ipoib_exit(void)
{
	ib_unregister_client(&ipoib_client);
	rtnl_link_unregister(&ipoib_link_ops);
	unregister_netdevice_notifier(&ipoib_netdev_nb);
	ib_sa_unregister_client(&ipoib_sa_client);
	ipoib_debugfs_exit();
	destroy_workqueue(ipoib_rtnl_wq);
}

module_init(ipoib_init);
module_exit(ipoib_exit);
