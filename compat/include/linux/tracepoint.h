/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#ifndef IPOIB_COMPAT_LINUX_TRACEPOINT_H
#define IPOIB_COMPAT_LINUX_TRACEPOINT_H

#include_next <linux/tracepoint.h>

#ifdef IPOIB_HAVE_ASSIGN_STR_1
#define ipoib_assign_str(dst, src) __assign_str(dst)
#else
#define ipoib_assign_str(dst, src) __assign_str(dst, src)
#endif

#endif
