/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the driver's sources see in place of a few macros of the kernel, so that
 * tests can count warnings and make allocations fail. To be included behind all
 * headers and before the sources.
 */
#ifndef KUNIT_SHIM_H
#define KUNIT_SHIM_H

#include "sources.h"

#define fake_warn(cond) ({						\
	bool _hit = !!(cond);						\
									\
	if (_hit)							\
		fake_warned(__FILE__, __LINE__, #cond);			\
	unlikely(_hit);							\
})

#undef WARN_ON
#undef WARN_ON_ONCE
#undef WARN
#undef WARN_ONCE
#define WARN_ON(cond)		fake_warn(cond)
#define WARN_ON_ONCE(cond)	fake_warn(cond)
#define WARN(cond, ...)		({ no_printk(__VA_ARGS__); fake_warn(cond); })
#define WARN_ONCE(cond, ...)	({ no_printk(__VA_ARGS__); fake_warn(cond); })

#undef alloc_page
#define alloc_page(gfp)		(fake_alloc_fails() ? NULL : alloc_pages(gfp, 0))
#define page_pool_dev_alloc_pages(pool) \
	(fake_alloc_fails() ? NULL : page_pool_alloc_pages(pool, GFP_ATOMIC | __GFP_NOWARN))

#endif /* KUNIT_SHIM_H */
