// SPDX-License-Identifier: GPL-2.0-only
/*
 * Poison check: does the user leave a posted receive buffer alone?
 *
 * From post to completion (or to the destruction of the queue) the buffer is
 * the port's. Each scatter entry gets
 *  - a mark in its last bytes (the first one also in its first bytes, which
 *    tells that a message has begun). A message fills the entries in order, so at the
 *    completion every entry behind the received bytes must still have it; with
 *    a flush, no entry at all may have lost it unless the first mark has gone, as
 *    by a half-received message, and then none behind one that is intact. Else:
 *    poison_written.
 *  - a reference to its page, unless a slab owns it. If ours is the last one
 *    at the completion, the user had freed the page: poison_freed. The page
 *    cannot be used by anyone else in between, so that a driver's mistake is
 *    counted instead of corrupting memory.
 *  - a place in the port's table of owned addresses. Posting an address that
 *    is there already is poison_reposted.
 * The reference is dropped before the user sees the completion, so a driver
 * that looks at page counts to recycle sees what it would see on hardware.
 */
#include <linux/hash.h>
#include <linux/mm.h>
#include <linux/string.h>

#include "softib.h"
#include "softib_obj.h"

#define SOFTIB_MARK_LEN	16

static void *softib_seg_mark(const struct softib_seg *seg)
{
	return (void *)(uintptr_t)(seg->addr + seg->length - SOFTIB_MARK_LEN);
}

static void softib_mark(const struct softib_seg *seg, u64 *mark)
{
	mark[0] = seg->addr ^ 0x5af71b0e5af71b0eULL;
	mark[1] = ~mark[0];
}

static bool softib_intact(const struct softib_seg *seg)
{
	u64 mark[2];

	softib_mark(seg, mark);
	return !memcmp(softib_seg_mark(seg), mark, sizeof(mark));
}

static bool softib_checked(const struct softib_seg *seg)
{
	return !hlist_unhashed(&seg->node);
}

static struct page *softib_seg_page(const struct softib_seg *seg)
{
	void *addr = (void *)(uintptr_t)seg->addr;
	struct page *page;

	if (!virt_addr_valid(addr))
		return NULL;
	page = compound_head(virt_to_page(addr));
	if (PageSlab(page) || !get_page_unless_zero(page))
		return NULL;
	return page;
}

static void softib_mark_slot(struct softib_slot *slot)
{
	u64 mark[2];
	int i;

	for (i = 0; i < slot->num_sge; i++) {
		const struct softib_seg *seg = &slot->seg[i];

		if (!softib_checked(seg))
			continue;
		softib_mark(seg, mark);
		memcpy(softib_seg_mark(seg), mark, sizeof(mark));
		if (!i && seg->length >= 2 * SOFTIB_MARK_LEN)
			memcpy((void *)(uintptr_t)seg->addr, mark,
			       sizeof(mark));
	}
}

static bool softib_owned(struct softib_port *port, const struct softib_seg *seg,
			 u32 key)
{
	struct softib_seg *other;

	hash_for_each_possible(port->poison, other, node, key) {
		if (other->addr == seg->addr)
			return true;
	}
	return false;
}

/**
 * softib_poison_post - mark the buffers of a WR
 * @rq: the queue
 * @slot: the WR, filled in
 *
 * Context: any; under rq->lock, takes port->poison_lock.
 */
void softib_poison_post(struct softib_rq *rq, struct softib_slot *slot)
{
	struct softib_port *port = rq->port;
	int i;

	lockdep_assert_held(&rq->lock);
	spin_lock(&port->poison_lock);
	for (i = 0; i < slot->num_sge; i++) {
		struct softib_seg *seg = &slot->seg[i];
		u32 key = hash_64(seg->addr, 32);

		INIT_HLIST_NODE(&seg->node);
		seg->page = NULL;
		if (!softib_knob(port, SOFTIB_K_poison) ||
		    seg->length < SOFTIB_MARK_LEN)
			continue;
		if (softib_owned(port, seg, key))
			softib_count(port, SOFTIB_C_poison_reposted, 1);
		hash_add(port->poison, &seg->node, key);
		seg->page = softib_seg_page(seg);
	}
	spin_unlock(&port->poison_lock);
	softib_mark_slot(slot);
}

/**
 * softib_poison_again - a WR is posted anew without the user's knowledge
 * @slot: the WR, still owned by the port
 *
 * Context: any.
 */
void softib_poison_again(struct softib_slot *slot)
{
	softib_mark_slot(slot);
}

/**
 * softib_poison_begun - has anything arrived in a posted buffer?
 * @slot: a WR, posted
 *
 * Return: true also if the check is off, so that nothing is known.
 */
bool softib_poison_begun(const struct softib_slot *slot)
{
	const struct softib_seg *seg = slot->seg;
	u64 mark[2];

	if (!slot->num_sge || !softib_checked(seg) ||
	    seg->length < 2 * SOFTIB_MARK_LEN)
		return true;
	softib_mark(seg, mark);
	return memcmp((void *)(uintptr_t)seg->addr, mark, sizeof(mark));
}

/**
 * softib_poison_check - has the user touched the buffers?
 * @rq: the queue
 * @slot: the WR, still owned by the port
 * @received: bytes that the port put there
 * @partial: it may have put any number of bytes there
 *
 * Context: any.
 */
void softib_poison_check(struct softib_rq *rq, struct softib_slot *slot,
			 u32 received, bool partial)
{
	/* A message overwrites the first mark before any other. */
	bool seen = !partial || !softib_poison_begun(slot);
	u32 end = 0;
	int i;

	for (i = 0; i < slot->num_sge; i++) {
		const struct softib_seg *seg = &slot->seg[i];

		end += seg->length;
		if (!softib_checked(seg))
			continue;
		if (end - SOFTIB_MARK_LEN < received)
			continue;
		if (softib_intact(seg)) {
			seen = true;
			continue;
		}
		if (seen)
			softib_count(rq->port, SOFTIB_C_poison_written, 1);
	}
}

/**
 * softib_poison_drop - the buffers are the user's again
 * @rq: the queue
 * @slot: the WR
 *
 * Context: any; takes port->poison_lock.
 */
void softib_poison_drop(struct softib_rq *rq, struct softib_slot *slot)
{
	struct softib_port *port = rq->port;
	unsigned long flags;
	int i;

	spin_lock_irqsave(&port->poison_lock, flags);
	for (i = 0; i < slot->num_sge; i++) {
		struct softib_seg *seg = &slot->seg[i];

		if (softib_checked(seg))
			hash_del(&seg->node);
	}
	spin_unlock_irqrestore(&port->poison_lock, flags);
	for (i = 0; i < slot->num_sge; i++) {
		struct softib_seg *seg = &slot->seg[i];

		if (!seg->page)
			continue;
		if (page_count(seg->page) == 1)
			softib_count(port, SOFTIB_C_poison_freed, 1);
		put_page(seg->page);
		seg->page = NULL;
	}
}

/**
 * softib_poison_holds - does a posted buffer hold so much of a message?
 * @slot: a WR, posted
 * @bytes: length
 *
 * Return: whether just the marks within the first @bytes are overwritten.
 */
bool softib_poison_holds(const struct softib_slot *slot, u32 bytes)
{
	u32 end = 0;
	int i;

	for (i = 0; i < slot->num_sge; i++) {
		const struct softib_seg *seg = &slot->seg[i];

		end += seg->length;
		if (!softib_checked(seg))
			continue;
		if (softib_intact(seg) != (end - SOFTIB_MARK_LEN >= bytes))
			return false;
	}
	return true;
}
