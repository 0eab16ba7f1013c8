// SPDX-License-Identifier: GPL-2.0-only
/*
 * Cutting the wire: with the knob "link" at 0, no RoCE packet gets in or out,
 * so that peers see what they see when a cable is pulled or a host has died;
 * with "cut_after", after so many packets, in the middle of a message.
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

static bool softib_is_roce(struct sk_buff *skb)
{
	int off = skb_network_offset(skb);
	struct ipv6hdr *ip6, ip6_buf;
	struct udphdr *udp, udp_buf;

	ip6 = skb_header_pointer(skb, off, sizeof(ip6_buf), &ip6_buf);
	if (!ip6 || ip6->nexthdr != IPPROTO_UDP)
		return false;
	udp = skb_header_pointer(skb, off + sizeof(*ip6), sizeof(udp_buf),
				 &udp_buf);
	return udp && udp->dest == htons(ROCE_V2_UDP_DPORT);
}

/* A knob turns the wire off at once, another after so many packets. */
static bool softib_wire_passes(struct softib_port *port)
{
	s64 left = softib_knob(port, SOFTIB_K_cut_after);

	if (!softib_knob(port, SOFTIB_K_link))
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

	if (state->in != sdev->ndev && state->out != sdev->ndev)
		return NF_ACCEPT;
	if (!softib_is_roce(skb) || softib_wire_passes(sdev->port))
		return NF_ACCEPT;
	softib_count(sdev->port, SOFTIB_C_link_drops, 1);
	kfree_skb(skb);
	return NF_STOLEN;
}

/**
 * softib_wire_mend - let everything pass
 * @sdev: the device
 *
 * Context: process, under port->plug_lock.
 */
void softib_wire_mend(struct softib_dev *sdev)
{
	lockdep_assert_held(&sdev->port->plug_lock);
	if (sdev->hooked)
		nf_unregister_net_hooks(&init_net, sdev->hooks,
					ARRAY_SIZE(sdev->hooks));
	sdev->hooked = false;
}

static void softib_wire_hooks(struct softib_dev *sdev)
{
	static const unsigned int nums[] = {
		NF_INET_PRE_ROUTING, NF_INET_LOCAL_OUT
	};
	int i;

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
 * softib_wire_update - do what the knobs say
 * @sdev: the device
 *
 * Context: process, under port->plug_lock.
 */
void softib_wire_update(struct softib_dev *sdev)
{
	bool watch = !softib_knob(sdev->port, SOFTIB_K_link) ||
		     softib_knob(sdev->port, SOFTIB_K_cut_after);

	if (!watch)
		softib_wire_mend(sdev);
	else if (!sdev->hooked)
		softib_wire_hooks(sdev);
}

#else

void softib_wire_mend(struct softib_dev *sdev)
{
}

void softib_wire_update(struct softib_dev *sdev)
{
	if (!softib_knob(sdev->port, SOFTIB_K_link) ||
	    softib_knob(sdev->port, SOFTIB_K_cut_after))
		pr_warn_once("softib: no netfilter: the wire is not cut\n");
}

#endif
