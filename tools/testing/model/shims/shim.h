/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * As much of the kernel as ipoib_cm_drain.c needs, for user space. A WARN is a
 * violation; a lock knows whether it is held.
 */
#ifndef MODEL_SHIM_H
#define MODEL_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int64_t s64;

#define U8_MAX		UINT8_MAX
#define U32_MAX		UINT32_MAX
#define U64_MAX		UINT64_MAX
#define BIT(n)		(1u << (n))

#define min(a, b)	({ typeof(a) _a = (a); typeof(b) _b = (b); _a < _b ? _a : _b; })
#define max(a, b)	({ typeof(a) _a = (a); typeof(b) _b = (b); _a > _b ? _a : _b; })
#define min_t(t, a, b)	min((t)(a), (t)(b))
#define max_t(t, a, b)	max((t)(a), (t)(b))
#define clamp_t(t, v, lo, hi)	min_t(t, max_t(t, v, lo), hi)

#define container_of(p, type, member) \
	((type *)((char *)(p) - offsetof(type, member)))

void shim_warn(const char *file, int line, const char *what);
void shim_resched(void);

#define WARN_ON_ONCE(cond) ({						\
	bool _hit = !!(cond);						\
	if (_hit)							\
		shim_warn(__FILE__, __LINE__, #cond);			\
	_hit; })
#define WARN_ON(cond)		WARN_ON_ONCE(cond)
#define WARN_ONCE(cond, ...)	WARN_ON_ONCE(cond)
#define WARN(cond, ...)		WARN_ON_ONCE(cond)

typedef struct {
	bool held;
} spinlock_t;

static inline void spin_lock_init(spinlock_t *lock)
{
	lock->held = false;
}

static inline void shim_lock(spinlock_t *lock, const char *file, int line)
{
	if (lock->held)
		shim_warn(file, line, "lock taken twice");
	lock->held = true;
}

static inline void shim_unlock(spinlock_t *lock, const char *file, int line)
{
	if (!lock->held)
		shim_warn(file, line, "lock given back twice");
	lock->held = false;
}

#define spin_lock_irq(l)	shim_lock(l, __FILE__, __LINE__)
#define spin_unlock_irq(l)	shim_unlock(l, __FILE__, __LINE__)
#define spin_lock_irqsave(l, flags) \
	do { (flags) = 0; shim_lock(l, __FILE__, __LINE__); } while (0)
#define spin_unlock_irqrestore(l, flags) \
	do { (void)(flags); shim_unlock(l, __FILE__, __LINE__); } while (0)
#define lockdep_assert_held(l) \
	do { if (!(l)->held) shim_warn(__FILE__, __LINE__, "lock not held"); } while (0)
#define lockdep_assert_not_held(l) \
	do { if ((l)->held) shim_warn(__FILE__, __LINE__, "lock held"); } while (0)

#define cond_resched()	shim_resched()

#define READ_ONCE(x)		(*(const volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, v)	(*(volatile typeof(x) *)&(x) = (v))

#endif /* MODEL_SHIM_H */
