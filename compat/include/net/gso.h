/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#ifndef IPOIB_COMPAT_NET_GSO_H
#define IPOIB_COMPAT_NET_GSO_H

/* Its functions were declared by linux/skbuff.h. */
#ifdef IPOIB_HAVE_NET_GSO
#include_next <net/gso.h>
#else
#include <linux/skbuff.h>
#endif

#endif
