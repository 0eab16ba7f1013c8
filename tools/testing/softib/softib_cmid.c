// SPDX-License-Identifier: GPL-2.0-only
/*
 * How many ib_cm ids are there on a port? The core lists rdma_cm ids only, so
 * probes on ib_cm's allocation and destruction count them: cm_ids, which is -1
 * in a kernel where the probes do not fit.
 */
#include <linux/kprobes.h>
#include <linux/module.h>
#include <rdma/ib_cm.h>

#include "softib.h"
#include "softib_obj.h"

#if IS_ENABLED(CONFIG_KRETPROBES)

/* ib_cm must be there first and stay while its functions are probed. */
static void *const softib_needs_cm __used = ib_create_cm_id;

static struct softib_port *softib_cmid_port(struct ib_device *ib)
{
	if (!ib || ib->ops.owner != THIS_MODULE)
		return NULL;
	return to_sdev(ib)->port;
}

struct softib_cmid_call {
	struct ib_device *ib;
};

static int softib_cmid_entry(struct kretprobe_instance *ri,
			     struct pt_regs *regs)
{
	struct softib_cmid_call *call = (void *)ri->data;

	call->ib = (void *)regs_get_kernel_argument(regs, 0);
	return 0;
}

static int softib_cmid_made(struct kretprobe_instance *ri,
			    struct pt_regs *regs)
{
	struct softib_cmid_call *call = (void *)ri->data;
	struct softib_port *port = softib_cmid_port(call->ib);

	if (port && !IS_ERR((void *)regs_return_value(regs)))
		softib_count(port, SOFTIB_C_cm_ids, 1);
	return 0;
}

static struct kretprobe softib_cmid_alloc = {
	.kp.symbol_name = "cm_alloc_id_priv",
	.entry_handler = softib_cmid_entry,
	.handler = softib_cmid_made,
	.data_size = sizeof(struct softib_cmid_call),
	.maxactive = 64,
};

static int softib_cmid_gone(struct kprobe *kp, struct pt_regs *regs)
{
	struct ib_cm_id *id = (void *)regs_get_kernel_argument(regs, 0);
	struct softib_port *port = softib_cmid_port(id->device);

	if (port)
		softib_count(port, SOFTIB_C_cm_ids, -1);
	return 0;
}

static struct kprobe softib_cmid_destroy = {
	.symbol_name = "cm_destroy_id",
	.pre_handler = softib_cmid_gone,
};

static bool softib_cmid_on;

/**
 * softib_cmid_init - begin to count
 *
 * Return: whether ids can be counted in this kernel.
 */
bool softib_cmid_init(void)
{
	if (register_kretprobe(&softib_cmid_alloc))
		return false;
	if (register_kprobe(&softib_cmid_destroy)) {
		unregister_kretprobe(&softib_cmid_alloc);
		return false;
	}
	softib_cmid_on = true;
	return true;
}

void softib_cmid_exit(void)
{
	if (!softib_cmid_on)
		return;
	unregister_kprobe(&softib_cmid_destroy);
	unregister_kretprobe(&softib_cmid_alloc);
	softib_cmid_on = false;
}

#else

bool softib_cmid_init(void)
{
	return false;
}

void softib_cmid_exit(void)
{
}

#endif
