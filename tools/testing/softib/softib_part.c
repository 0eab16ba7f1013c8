// SPDX-License-Identifier: GPL-2.0-only
/*
 * Partitions of connections whose P_Key changes.
 *
 * An RC connection is set up with the P_Key in its packet sequence numbers, see
 * softib_tables.c, and these cannot change any more. When the table entry of a
 * connected QP does, its packets carry the new P_Key in the IPv6 flow label,
 * which RoCE leaves out of its checksum, and the receiving port drops what does
 * not match its own QP's present P_Key. A packet without a label is of a QP that
 * has the P_Key it began with. Packets that a port sends to itself never meet
 * the wire and are not filtered.
 */
#include <linux/ipv6.h>
#include <linux/skbuff.h>

#include "softib.h"
#include "softib_obj.h"

#define SOFTIB_LABEL		BIT(16)	/* the flow label holds a P_Key */
#define SOFTIB_BTH_LEN		12

void softib_part_init(struct softib_dev *sdev)
{
	spin_lock_init(&sdev->part.lock);
	hash_init(sdev->part.qps);
	hash_init(sdev->part.moved);
}

void softib_part_add(struct softib_qp *qp)
{
	struct softib_part *part = &qp->sdev->part;

	INIT_HLIST_NODE(&qp->part_node);
	INIT_HLIST_NODE(&qp->moved_node);
	if (qp->ib.qp_type != IB_QPT_RC)
		return;
	spin_lock_irq(&part->lock);
	hash_add(part->qps, &qp->part_node, qp->ib.qp_num);
	spin_unlock_irq(&part->lock);
}

static void softib_part_stay(struct softib_part *part, struct softib_qp *qp)
{
	lockdep_assert_held(&part->lock);
	if (hlist_unhashed(&qp->moved_node))
		return;
	hash_del(&qp->moved_node);
	WRITE_ONCE(part->n_moved, part->n_moved - 1);
}

void softib_part_del(struct softib_qp *qp)
{
	struct softib_part *part = &qp->sdev->part;

	spin_lock_irq(&part->lock);
	softib_part_stay(part, qp);
	hash_del(&qp->part_node);
	spin_unlock_irq(&part->lock);
}

/**
 * softib_part_update - a QP has been connected, or its P_Key has changed
 * @qp: the QP
 *
 * Context: process, under sdev->qp_lock; takes part->lock.
 */
void softib_part_update(struct softib_qp *qp)
{
	struct softib_part *part = &qp->sdev->part;

	lockdep_assert_held(&qp->sdev->qp_lock);
	if (qp->ib.qp_type != IB_QPT_RC)
		return;
	spin_lock_irq(&part->lock);
	softib_part_stay(part, qp);
	if (qp->pkey != qp->wire_pkey) {
		hash_add(part->moved, &qp->moved_node, qp->attr.dest_qp_num);
		WRITE_ONCE(part->n_moved, part->n_moved + 1);
	}
	spin_unlock_irq(&part->lock);
}

/* The QP of a packet's base transport header, if it is of an RC connection. */
static bool softib_part_qpn(struct sk_buff *skb, unsigned int off, u32 *qpn)
{
	__be32 buf[SOFTIB_BTH_LEN / 4], *bth;

	bth = skb_header_pointer(skb, off, sizeof(buf), buf);
	if (!bth || *(u8 *)bth >> 5)
		return false;
	*qpn = be32_to_cpu(bth[1]) & 0xffffff;
	return true;
}

static bool softib_part_same(const struct softib_qp *qp,
			     const struct in6_addr *daddr)
{
	union ib_gid dgid;

	if (rdma_ah_get_ah_flags(&qp->av) & IB_AH_GRH)
		dgid = rdma_ah_read_grh(&qp->av)->dgid;
	else
		softib_lid_to_gid(qp->sdev, rdma_ah_get_dlid(&qp->av), &dgid);
	return !memcmp(&dgid, daddr, sizeof(dgid));
}

/**
 * softib_part_out - a packet leaves: say which P_Key its connection has now
 * @sdev: the device
 * @skb: at its IPv6 header; RoCE
 * @off: of the base transport header
 *
 * Context: any; takes part->lock.
 */
void softib_part_out(struct softib_dev *sdev, struct sk_buff *skb,
		     unsigned int off)
{
	struct softib_part *part = &sdev->part;
	struct ipv6hdr *ip6 = ipv6_hdr(skb);
	struct softib_qp *qp;
	unsigned long flags;
	u32 label = 0, qpn;

	if (!READ_ONCE(part->n_moved) || !softib_part_qpn(skb, off, &qpn))
		return;
	spin_lock_irqsave(&part->lock, flags);
	hash_for_each_possible(part->moved, qp, moved_node, qpn) {
		if (qp->attr.dest_qp_num == qpn &&
		    softib_part_same(qp, &ip6->daddr))
			label = SOFTIB_LABEL | qp->pkey;
	}
	spin_unlock_irqrestore(&part->lock, flags);
	if (!label || skb_ensure_writable(skb, sizeof(*ip6)))
		return;
	ip6_flow_hdr(ipv6_hdr(skb), 0, cpu_to_be32(label));
}

/**
 * softib_part_in - may a packet that has arrived go on to its connection?
 * @sdev: the device
 * @skb: at its IPv6 header; RoCE
 * @off: of the base transport header
 *
 * Context: any; takes part->lock.
 */
bool softib_part_in(struct softib_dev *sdev, struct sk_buff *skb,
		    unsigned int off)
{
	u32 label = be32_to_cpu(ip6_flowlabel(ipv6_hdr(skb))), qpn;
	struct softib_part *part = &sdev->part;
	struct softib_qp *qp;
	unsigned long flags;
	bool pass = true;
	u16 peer;

	if (!(label & SOFTIB_LABEL) && !READ_ONCE(part->n_moved))
		return true;
	if (!softib_part_qpn(skb, off, &qpn))
		return true;
	spin_lock_irqsave(&part->lock, flags);
	hash_for_each_possible(part->qps, qp, part_node, qpn) {
		if (qp->ib.qp_num != qpn)
			continue;
		if (!(label & SOFTIB_LABEL) && hlist_unhashed(&qp->moved_node))
			continue;
		peer = label & SOFTIB_LABEL ? label : qp->wire_pkey | 0x8000;
		pass = softib_pkey_match(qp->pkey, peer);
	}
	spin_unlock_irqrestore(&part->lock, flags);
	if (!pass)
		softib_count(sdev->port, SOFTIB_C_pkey_drops, 1);
	return pass;
}
