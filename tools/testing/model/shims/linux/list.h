/* SPDX-License-Identifier: GPL-2.0-only */
/* Doubly linked rings, with the kernel's names. */
#ifndef MODEL_LIST_H
#define MODEL_LIST_H

#include "../shim.h"

struct list_head {
	struct list_head *next, *prev;
};

static inline void INIT_LIST_HEAD(struct list_head *h)
{
	h->next = h;
	h->prev = h;
}

static inline bool list_empty(const struct list_head *h)
{
	return h->next == h;
}

static inline void list_add_tail(struct list_head *n, struct list_head *h)
{
	if (!list_empty(n))
		shim_warn(__FILE__, __LINE__, "added to a list twice");
	n->prev = h->prev;
	n->next = h;
	h->prev->next = n;
	h->prev = n;
}

static inline void list_del_init(struct list_head *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	INIT_LIST_HEAD(n);
}

#define list_entry(p, type, member)	container_of(p, type, member)
#define list_first_entry(h, type, member) \
	list_entry((h)->next, type, member)
#define list_first_entry_or_null(h, type, member) \
	(list_empty(h) ? NULL : list_first_entry(h, type, member))
#define list_next_entry(p, member) \
	list_entry((p)->member.next, typeof(*(p)), member)
#define list_for_each_entry(p, h, member)				\
	for (p = list_first_entry(h, typeof(*p), member);		\
	     &p->member != (h); p = list_next_entry(p, member))
#define list_for_each_entry_safe(p, n, h, member)			\
	for (p = list_first_entry(h, typeof(*p), member),		\
	     n = list_next_entry(p, member);				\
	     &p->member != (h); p = n, n = list_next_entry(n, member))

#endif /* MODEL_LIST_H */
