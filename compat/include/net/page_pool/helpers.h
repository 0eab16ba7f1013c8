/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#ifndef IPOIB_COMPAT_NET_PAGE_POOL_HELPERS_H
#define IPOIB_COMPAT_NET_PAGE_POOL_HELPERS_H

#ifdef IPOIB_HAVE_PAGE_POOL_HELPERS
#include_next <net/page_pool/helpers.h>
#else
#include <net/page_pool.h>
#endif

#endif
