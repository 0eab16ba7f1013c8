// SPDX-License-Identifier: GPL-2.0-only
/*
 * One coroutine whose stack can be saved and restored as bytes, always to the
 * same address.
 */
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "world.h"

#define SLACK 192	/* below the frame of coro_pause(), for what it calls */

static char stack[65536] __attribute__((aligned(64)));
static char *low;		/* lowest byte of the stack that counts */
static jmp_buf outside, inside;
static ucontext_t first;

struct saved {
	jmp_buf inside;
	char *low;
	char bytes[];
};

void __attribute__((noinline)) coro_pause(void)
{
	low = (char *)__builtin_frame_address(0) - SLACK;
	if (!_setjmp(inside))
		_longjmp(outside, 1);
}

void __attribute__((noinline)) coro_resume(void)
{
	if (!_setjmp(outside))
		_longjmp(inside, 1);
}

void coro_init(void (*body)(void))
{
	if (getcontext(&first))
		abort();
	first.uc_stack.ss_sp = stack;
	first.uc_stack.ss_size = sizeof(stack);
	first.uc_link = NULL;
	makecontext(&first, body, 0);
	if (!_setjmp(outside))
		setcontext(&first);
}

size_t coro_save(void *to)
{
	size_t len = stack + sizeof(stack) - low;
	struct saved *s = to;

	if (sizeof(*s) + len > CORO_MAX)
		abort();
	memcpy(s->inside, inside, sizeof(inside));
	s->low = low;
	memcpy(s->bytes, low, len);
	return (sizeof(*s) + len + 7) & ~(size_t)7;
}

void coro_restore(const void *from)
{
	const struct saved *s = from;

	memcpy(inside, s->inside, sizeof(inside));
	low = s->low;
	memcpy(low, s->bytes, stack + sizeof(stack) - low);
}
