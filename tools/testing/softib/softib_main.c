// SPDX-License-Identifier: GPL-2.0-only
/*
 * softib: module, ports, plugging devices in and out.
 */
#include <linux/inet.h>
#include <linux/lockdep.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/slab.h>
#include <net/net_namespace.h>
#include <rdma/ib_mad.h>

#include "softib.h"
#include "softib_obj.h"

static char *lower[SOFTIB_MAX_PORTS];
static int n_lower;
module_param_array(lower, charp, &n_lower, 0444);
MODULE_PARM_DESC(lower, "Network devices with an rdma_rxe device, one for each port");

static bool plug = true;
module_param(plug, bool, 0444);
MODULE_PARM_DESC(plug, "Plug the devices in when the module is loaded");

static LIST_HEAD(softib_ports);	/* constant between init and exit */

struct net_device *softib_find_ndev(const char *name)
{
	return dev_get_by_name(&init_net, name);
}

/*
 * Removing an rxe device unplugs the port on it: one ib_device is unregistered
 * within the other's unregistration_lock. They never nest the other way.
 */
static struct lock_class_key softib_unregister_key;

static struct platform_device *softib_parent(struct softib_port *port)
{
	struct platform_device_info info = {
		.name = "softib",
		.id = port->index,
	};

	return platform_device_register_full(&info);
}

static void softib_mtu_work(struct work_struct *work)
{
	struct softib_dev *sdev = container_of(work, struct softib_dev,
					       mtu_work);
	struct ib_port_attr attr;

	if (!ib_query_port(sdev->lower, 1, &attr)) {
		WRITE_ONCE(sdev->max_mtu, attr.max_mtu);
		WRITE_ONCE(sdev->active_mtu, attr.active_mtu);
	}
	softib_dispatch(sdev, IB_EVENT_CLIENT_REREGISTER);
}

static int softib_dev_start(struct softib_dev *sdev, struct net_device *ndev)
{
	int ret;

	mutex_init(&sdev->qp_lock);
	INIT_LIST_HEAD(&sdev->qps);
	INIT_LIST_HEAD(&sdev->srqs);
	softib_part_init(sdev);
	INIT_WORK(&sdev->mtu_work, softib_mtu_work);
	sdev->wq = alloc_workqueue("softib%d", WQ_UNBOUND | WQ_MEM_RECLAIM, 0,
				   sdev->port->index);
	if (!sdev->wq)
		return -ENOMEM;
	ret = softib_lower_get(sdev, ndev);
	if (ret)
		goto err_wq;
	softib_sa_init(sdev);
	softib_mcast_init(sdev);
	ret = softib_mad_start(sdev);
	if (ret)
		goto err_mcast;
	return 0;

err_mcast:
	softib_mcast_exit(sdev);
	softib_sa_exit(sdev);
	softib_lower_put(sdev);
err_wq:
	destroy_workqueue(sdev->wq);
	return ret;
}

static void softib_dev_stop(struct softib_dev *sdev)
{
	softib_wire_leave(sdev);
	softib_mad_stop(sdev);
	softib_mcast_exit(sdev);
	softib_sa_exit(sdev);
	cancel_work_sync(&sdev->mtu_work);
	WARN_ON(!list_empty(&sdev->qps));
	WARN_ON(!list_empty(&sdev->srqs));
	destroy_workqueue(sdev->wq);
	softib_lower_put(sdev);
}

static void softib_dev_setup(struct softib_dev *sdev)
{
	struct ib_device *ib = &sdev->ib;

	ib->node_type = RDMA_NODE_IB_CA;
	ib->phys_port_cnt = 1;
	ib->num_comp_vectors = sdev->lower->num_comp_vectors;
	ib->node_guid = sdev->gid.global.interface_id;
	ib->local_dma_lkey = 0;
	ib->dev.parent = &sdev->pdev->dev;
	snprintf(ib->node_desc, sizeof(ib->node_desc), "softib port on %s",
		 sdev->port->ndev_name);
	softib_set_ops(ib);
}

static int softib_plug_locked(struct softib_port *port)
{
	struct net_device *ndev;
	struct softib_dev *sdev;
	int ret;

	ndev = softib_find_ndev(port->ndev_name);
	if (!ndev)
		return -ENODEV;
	ret = -ENOMEM;
	sdev = ib_alloc_device(softib_dev, ib);
	if (!sdev)
		goto put_ndev;
	lockdep_set_class(&sdev->ib.unregistration_lock,
			  &softib_unregister_key);
	sdev->port = port;
	sdev->pdev = softib_parent(port);
	if (IS_ERR(sdev->pdev)) {
		ret = PTR_ERR(sdev->pdev);
		goto free_dev;
	}
	ret = softib_dev_start(sdev, ndev);
	if (ret)
		goto free_pdev;
	softib_dev_setup(sdev);
	WRITE_ONCE(port->sdev, sdev);
	softib_wire_watch(sdev);
	ret = ib_register_device(&sdev->ib, port->name, NULL);
	if (ret)
		goto stop_dev;
	dev_put(ndev);
	return 0;

stop_dev:
	WRITE_ONCE(port->sdev, NULL);
	synchronize_rcu();
	softib_dev_stop(sdev);
free_pdev:
	platform_device_unregister(sdev->pdev);
free_dev:
	ib_dealloc_device(&sdev->ib);
put_ndev:
	dev_put(ndev);
	return ret;
}

/**
 * softib_plug - make the port's ib_device appear
 * @port: the port
 *
 * Context: process; takes port->plug_lock.
 * Return: 0, -EALREADY if it is there, -ENODEV if the network device or its
 * rxe device is not, or what registering the device said.
 */
int softib_plug(struct softib_port *port)
{
	int ret = -EALREADY;

	mutex_lock(&port->plug_lock);
	if (!port->sdev)
		ret = softib_plug_locked(port);
	mutex_unlock(&port->plug_lock);
	return ret;
}

/**
 * softib_unplug - remove the port's ib_device, as a hot removal would
 * @port: the port
 *
 * Returns when all users of the device have let go of it.
 * Context: process, not under rtnl; takes port->plug_lock.
 */
void softib_unplug(struct softib_port *port)
{
	struct softib_dev *sdev;

	mutex_lock(&port->plug_lock);
	sdev = port->sdev;
	if (sdev) {
		ib_unregister_device(&sdev->ib);
		WRITE_ONCE(port->sdev, NULL);
		synchronize_rcu();	/* the notifier looks at port->sdev */
		softib_dev_stop(sdev);
		platform_device_unregister(sdev->pdev);
		ib_dealloc_device(&sdev->ib);
	}
	mutex_unlock(&port->plug_lock);
}

static void softib_unplug_work(struct work_struct *work)
{
	softib_unplug(container_of(work, struct softib_port, unplug_work));
}

/*
 * The lower device's client data is its own address from add to remove. A
 * port plugs in only while it is set, so that none gets hold of a device that
 * waits for its last reference.
 */
static int softib_client_add(struct ib_device *ib)
{
	ib_set_client_data(ib, &softib_client, ib);
	return 0;
}

static void softib_client_remove(struct ib_device *ib, void *data)
{
	struct softib_port *port;

	ib_set_client_data(ib, &softib_client, NULL);
	if (ib->ops.driver_id != RDMA_DRIVER_RXE)
		return;
	list_for_each_entry(port, &softib_ports, node) {
		struct softib_dev *sdev;
		bool ours;

		rcu_read_lock();
		sdev = READ_ONCE(port->sdev);
		ours = sdev && READ_ONCE(sdev->lower) == ib;
		rcu_read_unlock();
		if (ours)
			softib_unplug(port);
	}
}

struct ib_client softib_client = {
	.name = "softib",
	.add = softib_client_add,
	.remove = softib_client_remove,
};

static void softib_ndev_event(struct softib_port *port, unsigned long event,
			      struct net_device *ndev)
{
	struct softib_dev *sdev = READ_ONCE(port->sdev);

	if (!sdev || sdev->ndev != ndev)
		return;
	switch (event) {
	case NETDEV_UP:
	case NETDEV_DOWN:
	case NETDEV_CHANGE:
		softib_dispatch(sdev, softib_link_up(sdev) ?
				IB_EVENT_PORT_ACTIVE : IB_EVENT_PORT_ERR);
		break;
	case NETDEV_CHANGEMTU:
		queue_work(sdev->wq, &sdev->mtu_work);
		break;
	case NETDEV_UNREGISTER:
		/* Unplugging takes rtnl, which the notifier holds. */
		queue_work(system_unbound_wq, &port->unplug_work);
		break;
	}
}

static int softib_notify(struct notifier_block *nb, unsigned long event,
			 void *arg)
{
	struct net_device *ndev = netdev_notifier_info_to_dev(arg);
	struct softib_port *port;

	rcu_read_lock();
	list_for_each_entry(port, &softib_ports, node)
		softib_ndev_event(port, event, ndev);
	rcu_read_unlock();
	return NOTIFY_DONE;
}

static struct notifier_block softib_notifier = {
	.notifier_call = softib_notify,
};

static int softib_port_add(int index, bool have_cmids)
{
	struct softib_port *port;

	port = kzalloc(sizeof(*port), GFP_KERNEL);
	if (!port)
		return -ENOMEM;
	port->index = index;
	snprintf(port->name, sizeof(port->name), "softib%d", index);
	strscpy(port->ndev_name, lower[index], sizeof(port->ndev_name));
	mutex_init(&port->plug_lock);
	INIT_WORK(&port->unplug_work, softib_unplug_work);
	spin_lock_init(&port->pkey_lock);
	spin_lock_init(&port->poison_lock);
	hash_init(port->poison);
	softib_fw_init(&port->fw);
	init_waitqueue_head(&port->hold);
	softib_knob_reset(port);
	port->pkey[0] = IB_DEFAULT_PKEY_FULL;
	if (!have_cmids)
		softib_count(port, SOFTIB_C_cm_ids, -1);
	list_add_tail(&port->node, &softib_ports);
	softib_debugfs_add(port);
	return 0;
}

static void softib_ports_del(void)
{
	struct softib_port *port, *next;

	list_for_each_entry(port, &softib_ports, node) {
		softib_debugfs_del(port);
		cancel_work_sync(&port->unplug_work);
		softib_unplug(port);
	}
	unregister_netdevice_notifier(&softib_notifier);
	list_for_each_entry(port, &softib_ports, node)
		cancel_work_sync(&port->unplug_work);
	ib_unregister_client(&softib_client);
	list_for_each_entry_safe(port, next, &softib_ports, node) {
		list_del(&port->node);
		WARN_ON(!hash_empty(port->poison));
		kfree(port);
	}
}

static int softib_plug_all(void)
{
	struct softib_port *port;
	int ret;

	list_for_each_entry(port, &softib_ports, node) {
		ret = softib_plug(port);
		if (ret) {
			pr_err("softib: no port on %s: %d\n", port->ndev_name,
			       ret);
			return ret;
		}
	}
	return 0;
}

static int __init softib_init(void)
{
	bool have_cmids;
	int i, ret;

	if (!n_lower) {
		pr_err("softib: lower= names no network device\n");
		return -EINVAL;
	}
	have_cmids = softib_cmid_init();
	softib_debugfs_init();
	for (i = 0; i < n_lower; i++) {
		ret = softib_port_add(i, have_cmids);
		if (ret)
			goto err_ports;
	}
	ret = ib_register_client(&softib_client);
	if (ret)
		goto err_ports;
	ret = register_netdevice_notifier(&softib_notifier);
	if (ret)
		goto err_client;
	if (plug) {
		ret = softib_plug_all();
		if (ret)
			goto err_plug;
	}
	return 0;

err_plug:
	softib_ports_del();
	softib_debugfs_exit();
	softib_cmid_exit();
	return ret;
err_client:
	ib_unregister_client(&softib_client);
err_ports:
	while (!list_empty(&softib_ports)) {
		struct softib_port *port = list_first_entry(&softib_ports,
							    struct softib_port,
							    node);

		softib_debugfs_del(port);
		list_del(&port->node);
		kfree(port);
	}
	softib_debugfs_exit();
	softib_cmid_exit();
	return ret;
}

static void __exit softib_exit(void)
{
	/* The probes look at ports. */
	softib_cmid_exit();
	softib_ports_del();
	softib_debugfs_exit();
}

module_init(softib_init);
module_exit(softib_exit);

MODULE_DESCRIPTION("Software InfiniBand port on rdma_rxe, for tests");
MODULE_LICENSE("GPL");
MODULE_VERSION("1");
MODULE_SOFTDEP("pre: rdma_rxe");
