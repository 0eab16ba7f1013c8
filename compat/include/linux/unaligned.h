/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#ifndef IPOIB_COMPAT_LINUX_UNALIGNED_H
#define IPOIB_COMPAT_LINUX_UNALIGNED_H

#if __has_include_next(<linux/unaligned.h>)
#include_next <linux/unaligned.h>
#else
#include <asm/unaligned.h>
#endif

#endif
