// SPDX-License-Identifier: GPL-2.0-only
/*
 * Knobs and counters of a port.
 */
#include <linux/atomic.h>

#include "softib.h"
#include "softib_obj.h"

#define SOFTIB_KNOB_DESC(n, d, lo, hi) \
	{ .name = #n, .def = d, .min = lo, .max = hi },
#define SOFTIB_COUNTER_NAME(n) #n,

const struct softib_knob_desc softib_knob_desc[SOFTIB_N_KNOBS] = {
	SOFTIB_KNOBS(SOFTIB_KNOB_DESC)
};

const char *const softib_counter_name[SOFTIB_N_COUNTERS] = {
	SOFTIB_COUNTERS(SOFTIB_COUNTER_NAME)
};

s64 softib_knob(const struct softib_port *port, enum softib_knob k)
{
	return atomic64_read(&port->knob[k]);
}

/**
 * softib_take - use up one hit of a counting knob
 * @port: the port
 * @k: a knob whose value is a number of hits, -1 for no end
 *
 * Context: any.
 * Return: whether this operation is hit.
 */
bool softib_take(struct softib_port *port, enum softib_knob k)
{
	s64 v = atomic64_read(&port->knob[k]);

	while (v > 0) {
		if (atomic64_try_cmpxchg(&port->knob[k], &v, v - 1))
			return true;
	}
	return v < 0;
}

/**
 * softib_fail - shall this operation fail?
 * @port: the port
 * @k: a fail_ knob
 *
 * Context: any.
 */
bool softib_fail(struct softib_port *port, enum softib_knob k)
{
	if (likely(!softib_take(port, k)))
		return false;
	softib_count(port, SOFTIB_C_injected_failures, 1);
	return true;
}

void softib_count(struct softib_port *port, enum softib_counter c, s64 n)
{
	atomic64_add(n, &port->counter[c]);
}

/* What has to happen when a knob is turned, beyond remembering it. */
static void softib_knob_effect(struct softib_port *port, enum softib_knob k)
{
	switch (k) {
	case SOFTIB_K_link:
		mutex_lock(&port->plug_lock);
		if (port->sdev)
			softib_dispatch(port->sdev,
					softib_link_up(port->sdev) ?
					IB_EVENT_PORT_ACTIVE :
					IB_EVENT_PORT_ERR);
		mutex_unlock(&port->plug_lock);
		break;
	case SOFTIB_K_cmd_slots:
		wake_up_all(&port->fw.wait);
		break;
	case SOFTIB_K_destroy_qp_hold:
		wake_up_all(&port->hold);
		break;
	default:
		break;
	}
}

/**
 * softib_knob_set - turn a knob
 * @port: the port
 * @k: the knob
 * @val: new value
 *
 * Context: process.
 * Return: 0 or -ERANGE.
 */
int softib_knob_set(struct softib_port *port, enum softib_knob k, s64 val)
{
	const struct softib_knob_desc *desc = &softib_knob_desc[k];

	if (val < desc->min || val > desc->max)
		return -ERANGE;
	if (atomic64_xchg(&port->knob[k], val) != val)
		softib_knob_effect(port, k);
	return 0;
}

/**
 * softib_knob_reset - put every knob back to its default
 * @port: the port
 *
 * Context: process.
 */
void softib_knob_reset(struct softib_port *port)
{
	int k;

	for (k = 0; k < SOFTIB_N_KNOBS; k++)
		softib_knob_set(port, k, softib_knob_desc[k].def);
}
