// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pretended firmware: a verb that is a command takes one of the command slots
 * and the latency of a command.
 */
#include <linux/hrtimer.h>
#include <linux/sched.h>

#include "softib.h"
#include "softib_obj.h"

void softib_fw_init(struct softib_fw *fw)
{
	spin_lock_init(&fw->lock);
	init_waitqueue_head(&fw->wait);
}

static bool softib_fw_get(struct softib_port *port)
{
	struct softib_fw *fw = &port->fw;
	s64 slots = softib_knob(port, SOFTIB_K_cmd_slots);
	bool got;

	spin_lock(&fw->lock);
	got = !slots || fw->busy < slots;
	if (got)
		fw->busy++;
	spin_unlock(&fw->lock);
	return got;
}

static void softib_fw_put(struct softib_fw *fw)
{
	spin_lock(&fw->lock);
	fw->busy--;
	spin_unlock(&fw->lock);
	wake_up(&fw->wait);
}

/**
 * softib_fw_cmd - let a command take its time
 * @port: the port
 *
 * Context: process, may sleep.
 */
void softib_fw_cmd(struct softib_port *port)
{
	s64 us = softib_knob(port, SOFTIB_K_cmd_us);
	ktime_t t;

	softib_count(port, SOFTIB_C_commands, 1);
	if (!us)
		return;
	wait_event(port->fw.wait, softib_fw_get(port));
	t = ns_to_ktime(us * NSEC_PER_USEC);
	set_current_state(TASK_UNINTERRUPTIBLE);
	schedule_hrtimeout(&t, HRTIMER_MODE_REL);
	softib_fw_put(&port->fw);
}
