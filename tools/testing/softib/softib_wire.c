// SPDX-License-Identifier: GPL-2.0-only
/*
 * The wire. With the knob "link" at 0, no RoCE packet gets in or out, so that
 * peers see what they see when a cable is pulled or a host has died; with
 * "cut_after", after so many packets, in the middle of a message. And packets
 * of connections whose partition has changed are filtered, see softib_part.c.
 */
#include <linux/ipv6.h>
#include <linux/netfilter.h>
#include <linux/netfilter_ipv6.h>
#include <linux/skbuff.h>
#include <linux/udp.h>
#include <net/net_namespace.h>
#include <rdma/ib_verbs.h>

#include "softib.h"
#include "softib_obj.h"

#if IS_ENABLED(CONFIG_NETFILTER)

/* The offset of a RoCE packet's base transport header, or 0. */
static unsigned int softib_roce(struct sk_buff *skb)
{
	int off = skb_network_offset(skb);
	struct ipv6hdr *ip6, ip6_buf;
	struct udphdr *udp, udp_buf;

	ip6 = skb_header_pointer(skb, off, sizeof(ip6_buf), &ip6_buf);
	if (!ip6 || ip6->nexthdr != IPPROTO_UDP)
		return 0;
	off += sizeof(*ip6);
	udp = skb_header_pointer(skb, off, sizeof(udp_buf), &udp_buf);
	if (!udp || udp->dest != htons(ROCE_V2_UDP_DPORT))
		return 0;
	return off + sizeof(*udp);
}

/* A knob turns the wire off at once, another after so many packets. */
static bool softib_wire_passes(struct softib_port *port)
{
	s64 left = softib_knob(port, SOFTIB_K_cut_after);

	if (!softib_knob(port, SOFTIB_K_link) || softib_dead(port))
		return false;
	while (left > 1) {
		if (atomic64_try_cmpxchg(&port->knob[SOFTIB_K_cut_after],
					 &left, left - 1))
			return true;
	}
	return !left;
}

/* Stolen, not dropped: rxe would take an error for one of its own. */
static unsigned int softib_wire_hook(void *priv, struct sk_buff *skb,
				     const struct nf_hook_state *state)
{
	struct softib_dev *sdev = priv;
	unsigned int off;

	if (state->in != sdev->ndev && state->out != sdev->ndev)
		return NF_ACCEPT;
	off = softib_roce(skb);
	if (!off)
		return NF_ACCEPT;
	if (!softib_wire_passes(sdev->port)) {
		softib_count(sdev->port, SOFTIB_C_link_drops, 1);
	} else if (state->hook == NF_INET_LOCAL_OUT) {
		softib_part_out(sdev, skb, off);
		return NF_ACCEPT;
	} else if (softib_part_in(sdev, skb, off)) {
		return NF_ACCEPT;
	}
	kfree_skb(skb);
	return NF_STOLEN;
}

/**
 * softib_wire_watch - begin to look at each packet
 * @sdev: the device
 *
 * Context: process, under port->plug_lock.
 */
void softib_wire_watch(struct softib_dev *sdev)
{
	static const unsigned int nums[] = {
		NF_INET_PRE_ROUTING, NF_INET_LOCAL_OUT
	};
	int i;

	lockdep_assert_held(&sdev->port->plug_lock);
	for (i = 0; i < ARRAY_SIZE(nums); i++) {
		sdev->hooks[i] = (struct nf_hook_ops) {
			.hook = softib_wire_hook,
			.priv = sdev,
			.pf = NFPROTO_IPV6,
			.hooknum = nums[i],
			.priority = NF_IP6_PRI_FIRST,
		};
	}
	sdev->hooked = !nf_register_net_hooks(&init_net, sdev->hooks,
					      ARRAY_SIZE(sdev->hooks));
	if (!sdev->hooked)
		pr_err("%s: the wire cannot be cut\n", sdev->port->name);
}

/**
 * softib_wire_leave - let everything pass
 * @sdev: the device
 *
 * Context: process, under port->plug_lock.
 */
void softib_wire_leave(struct softib_dev *sdev)
{
	lockdep_assert_held(&sdev->port->plug_lock);
	if (sdev->hooked)
		nf_unregister_net_hooks(&init_net, sdev->hooks,
					ARRAY_SIZE(sdev->hooks));
	sdev->hooked = false;
}

#else

void softib_wire_watch(struct softib_dev *sdev)
{
	pr_warn("%s: no netfilter: the wire cannot be cut\n",
		sdev->port->name);
}

void softib_wire_leave(struct softib_dev *sdev)
{
}

#endif
