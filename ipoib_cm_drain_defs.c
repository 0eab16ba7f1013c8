// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Names and legal transitions of the drain engine. */
#include "ipoib_cm_drain.h"

const char *const ipoib_drain_state_names[IPOIB_DRAIN_NSTATES] = {
	[IPOIB_DRAIN_LIVE] = "LIVE",
	[IPOIB_DRAIN_ERROR] = "ERROR",
	[IPOIB_DRAIN_FLUSH] = "FLUSH",
	[IPOIB_DRAIN_DRAIN] = "DRAIN",
	[IPOIB_DRAIN_SWEEP] = "SWEEP",
	[IPOIB_DRAIN_REAP] = "REAP",
	[IPOIB_DRAIN_SWEEP2] = "SWEEP2",
	[IPOIB_DRAIN_DONE] = "DONE",
	[IPOIB_DRAIN_KEPT] = "KEPT",
};

const char *const ipoib_drain_reason_names[IPOIB_DRAIN_NREASONS] = {
#define R(id, name) [IPOIB_DRAIN_BY_##id] = name,
	IPOIB_DRAIN_REASONS(R)
#undef R
};

const char *const ipoib_drain_strategy_names[IPOIB_DRAIN_NSTRATEGIES] = {
	[IPOIB_DRAIN_LWQE_FLUSH] = "lwqe+flush",
	[IPOIB_DRAIN_FLUSH_SWEEP] = "flush+sweep",
	[IPOIB_DRAIN_LWQE_SWEEP] = "lwqe+sweep",
	[IPOIB_DRAIN_TIMED] = "timed",
};

const u16 ipoib_drain_legal[IPOIB_DRAIN_NSTATES] = {
	[IPOIB_DRAIN_LIVE] = BIT(IPOIB_DRAIN_ERROR),
	[IPOIB_DRAIN_ERROR] = BIT(IPOIB_DRAIN_FLUSH) | BIT(IPOIB_DRAIN_SWEEP),
	[IPOIB_DRAIN_FLUSH] = BIT(IPOIB_DRAIN_DRAIN) | BIT(IPOIB_DRAIN_SWEEP),
	[IPOIB_DRAIN_DRAIN] = BIT(IPOIB_DRAIN_FLUSH) | BIT(IPOIB_DRAIN_SWEEP) |
			      BIT(IPOIB_DRAIN_REAP),
	[IPOIB_DRAIN_SWEEP] = BIT(IPOIB_DRAIN_REAP),
	[IPOIB_DRAIN_REAP] = BIT(IPOIB_DRAIN_SWEEP2) | BIT(IPOIB_DRAIN_DONE) |
			     BIT(IPOIB_DRAIN_KEPT),
	[IPOIB_DRAIN_SWEEP2] = BIT(IPOIB_DRAIN_DONE),
};
