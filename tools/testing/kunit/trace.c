// SPDX-License-Identifier: GPL-2.0-only
/* The driver's tracepoints. */
#include "ipoib_trace.c"
