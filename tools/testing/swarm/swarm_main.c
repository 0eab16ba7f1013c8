// SPDX-License-Identifier: GPL-2.0-only
/*
 * swarm: module, ports, the path to a target.
 */
#include <linux/completion.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <rdma/ib_cache.h>

#include "swarm.h"

#define SWARM_CQE	16384
#define SWARM_SA_MS	1000

static struct ib_sa_client swarm_sa;
static struct ib_client swarm_client;

/* What an SA query answers. */
struct swarm_answer {
	struct completion done;
	struct sa_path_rec *rec;
	int status;
};

static void swarm_path_answer(int status, struct sa_path_rec *rec,
			      ipoib_path_nrec_t n, void *context)
{
	struct swarm_answer *answer = context;

	answer->status = status;
	if (!status)
		*answer->rec = *rec;
	complete(&answer->done);
}

static int swarm_path(struct swarm_port *port, const union ib_gid *dgid,
		      u16 pkey, struct sa_path_rec *out)
{
	struct swarm_answer answer = { .rec = out };
	struct sa_path_rec ask = {
		.rec_type = SA_PATH_REC_TYPE_IB,
		.dgid = *dgid,
		.sgid = port->sgid,
		.pkey = cpu_to_be16(pkey),
		.numb_path = 1,
	};
	struct ib_sa_query *query;
	int id;

	init_completion(&answer.done);
	id = ib_sa_path_rec_get(&swarm_sa, port->ib, SWARM_PORT_NUM, &ask,
				IB_SA_PATH_REC_DGID | IB_SA_PATH_REC_SGID |
				IB_SA_PATH_REC_NUMB_PATH |
				IB_SA_PATH_REC_PKEY,
				SWARM_SA_MS, GFP_KERNEL, swarm_path_answer,
				&answer, &query);
	if (id < 0)
		return id;
	wait_for_completion(&answer.done);
	return answer.status;
}

/* Not before it is needed, so that other ports' figures stay as they are. */
static int swarm_start(struct swarm_port *port)
{
	int ret;

	lockdep_assert_held(&port->ctl);
	if (port->started)
		return 0;
	ret = rdma_query_gid(port->ib, SWARM_PORT_NUM, 0, &port->sgid);
	if (ret)
		return ret;
	port->wq = alloc_workqueue("swarm/%s", WQ_UNBOUND, SWARM_WORKERS,
				   dev_name(&port->ib->dev));
	if (!port->wq)
		return -ENOMEM;
	port->pd = ib_alloc_pd(port->ib, 0);
	if (IS_ERR(port->pd)) {
		ret = PTR_ERR(port->pd);
		goto destroy_wq;
	}
	port->cq = ib_alloc_cq(port->ib, port,
			       min(port->ib->attrs.max_cqe, SWARM_CQE), 0,
			       IB_POLL_WORKQUEUE);
	if (IS_ERR(port->cq)) {
		ret = PTR_ERR(port->cq);
		goto dealloc_pd;
	}
	ret = swarm_pattern_make(port);
	if (ret)
		goto free_cq;
	port->started = true;
	return 0;

free_cq:
	ib_free_cq(port->cq);
dealloc_pd:
	ib_dealloc_pd(port->pd);
destroy_wq:
	destroy_workqueue(port->wq);
	return ret;
}

/**
 * swarm_aim() - name the target of connections that are opened from now on
 * @port: the port
 * @dgid: GID of the target's port
 * @pkey: partition
 * @target: the rest; @path is filled in
 *
 * Context: process.
 * Return: 0, what the subnet administration said, or what it takes to start.
 */
int swarm_aim(struct swarm_port *port, const union ib_gid *dgid, u16 pkey,
	      struct swarm_target *target)
{
	int ret;

	mutex_lock(&port->ctl);
	ret = swarm_start(port);
	if (!ret)
		ret = swarm_path(port, dgid, pkey, &target->path);
	if (!ret) {
		spin_lock(&port->lock);
		port->target = *target;
		spin_unlock(&port->lock);
	}
	mutex_unlock(&port->ctl);
	return ret;
}

static int swarm_add(struct ib_device *ib)
{
	struct swarm_port *port;
	int ret;

	if (!rdma_protocol_ib(ib, SWARM_PORT_NUM) ||
	    !rdma_cap_ib_cm(ib, SWARM_PORT_NUM))
		return -EOPNOTSUPP;
	port = kzalloc(sizeof(*port), GFP_KERNEL);
	if (!port)
		return -ENOMEM;
	port->ib = ib;
	mutex_init(&port->ctl);
	spin_lock_init(&port->lock);
	INIT_LIST_HEAD(&port->conns);
	init_waitqueue_head(&port->wait);
	memcpy(port->knob, swarm_knob_default, sizeof(port->knob));
	ret = swarm_debugfs_add(port);
	if (ret) {
		kfree(port);
		return ret;
	}
	ib_set_client_data(ib, &swarm_client, port);
	return 0;
}

static void swarm_remove(struct ib_device *ib, void *data)
{
	struct swarm_port *port = data;

	spin_lock(&port->lock);
	WRITE_ONCE(port->closing, true);
	spin_unlock(&port->lock);
	/* Commands that wait see it and end; the files wait for them. */
	wake_up_all(&port->wait);
	swarm_debugfs_del(port);
	if (port->started) {
		swarm_end_all(port);
		destroy_workqueue(port->wq);
		swarm_pattern_free(port);
		ib_free_cq(port->cq);
		ib_dealloc_pd(port->pd);
	}
	kfree(port);
}

static struct ib_client swarm_client = {
	.name = "swarm",
	.add = swarm_add,
	.remove = swarm_remove,
};

static int __init swarm_init(void)
{
	int ret;

	swarm_debugfs_init();
	ib_sa_register_client(&swarm_sa);
	ret = ib_register_client(&swarm_client);
	if (ret) {
		ib_sa_unregister_client(&swarm_sa);
		swarm_debugfs_exit();
	}
	return ret;
}

static void __exit swarm_exit(void)
{
	ib_unregister_client(&swarm_client);
	ib_sa_unregister_client(&swarm_sa);
	swarm_debugfs_exit();
}

module_init(swarm_init);
module_exit(swarm_exit);

MODULE_DESCRIPTION("Many connected-mode IPoIB peers, for tests");
MODULE_LICENSE("GPL");
MODULE_VERSION("1");
