// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* The one place where the tracepoints are made. */
#include <rdma/ib_verbs.h>

#define CREATE_TRACE_POINTS
#include "ipoib_trace.h"
