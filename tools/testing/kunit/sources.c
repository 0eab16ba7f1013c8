// SPDX-License-Identifier: GPL-2.0-only
/*
 * The driver's sources under test, unchanged, in one unit: so warnings can be
 * caught and what is static can be called.
 */
#include <linux/bug.h>
#include <linux/kernel.h>
#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/netdevice.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <net/page_pool/helpers.h>

#include "ipoib.h"
#include "ipoib_cm_conn.h"
#include "ipoib_cm_ring.h"
#include "ipoib_cm_state.h"
#include "ipoib_trace.h"

#include "shim.h"

#include "ipoib_stats.c"
#include "ipoib_cm_drain_defs.c"
#include "ipoib_cm_drain.c"
#include "ipoib_cm_state.c"
#include "ipoib_cm_flood.c"
#include "ipoib_cm_ring.c"

static unsigned int fake_nwarned;
static int fake_good_allocs = -1;

void fake_warned(const char *file, int line, const char *what)
{
	pr_info("kunit: caught a warning at %s:%d: %s\n", kbasename(file), line, what);
	fake_nwarned++;
}

/* Stands in for the driver's, which has the connections' side of it. */
void ipoib_cm_keep(struct ipoib_cm_port *cm)
{
	lockdep_assert_held(&cm->lock);
	cm->nkept++;
}

/* Workers of connections, which no test lets run. */
void ipoib_cm_err_work(struct work_struct *work)
{
	fake_warned(__FILE__, __LINE__, "err_work");
}

void ipoib_cm_reap_work(struct work_struct *work)
{
	fake_warned(__FILE__, __LINE__, "reap_work");
}

/* As the driver's, without its trace. */
void ipoib_cm_rx_done(struct ipoib_cm_rx *rx)
{
	ipoib_drain_rq_done(&rx->drain);
}

/* The poller has its turn, and finds the CQ empty. */
void ipoib_cm_rx_poke(struct ipoib_cm_port *cm)
{
	ipoib_cm_flood_empty(cm);
}

/* Warnings of the driver since the last call. */
unsigned int fake_warnings(void)
{
	unsigned int n = fake_nwarned;

	fake_nwarned = 0;
	return n;
}

/* The next @good allocations of pages succeed, those behind them fail; -1: all succeed. */
void fake_alloc_set(int good)
{
	fake_good_allocs = good;
}

bool fake_alloc_fails(void)
{
	if (fake_good_allocs < 0)
		return false;
	if (!fake_good_allocs)
		return true;
	fake_good_allocs--;
	return false;
}

void fake_drain_set_state(struct ipoib_drain_qp *q, enum ipoib_drain_state to)
{
	ipoib_drain_set_state(q, to);
}
