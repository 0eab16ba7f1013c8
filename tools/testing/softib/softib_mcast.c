// SPDX-License-Identifier: GPL-2.0-only
/*
 * Multicast attach.
 *
 * rxe programs the network device's filter, but the IPv6 input path also wants
 * a membership. A kernel socket joins the MGID, from a work item: detach is
 * called under rtnl, which setsockopt may take.
 */
#include <linux/in6.h>
#include <linux/net.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/sockptr.h>
#include <net/sock.h>

#include "softib.h"
#include "softib_obj.h"

struct softib_mc_sock {
	struct list_head node;
	struct socket *sock;
};

struct softib_group {
	struct list_head node;
	union ib_gid mgid;
	unsigned int refs;		/* attached QPs */
	struct softib_mc_sock *joined;	/* only touched by the work */
};

static struct softib_mc_sock *softib_mc_sock_new(struct softib_dev *sdev)
{
	struct softib_mc_sock *ms;

	ms = kzalloc(sizeof(*ms), GFP_KERNEL);
	if (!ms)
		return NULL;
	if (sock_create_kern(&init_net, AF_INET6, SOCK_DGRAM, IPPROTO_UDP,
			     &ms->sock)) {
		kfree(ms);
		return NULL;
	}
	list_add(&ms->node, &sdev->mcast.socks);
	return ms;
}

static int softib_mc_option(struct softib_dev *sdev, struct softib_mc_sock *ms,
			    const union ib_gid *mgid, int option)
{
	struct ipv6_mreq mreq = { .ipv6mr_ifindex = sdev->ndev->ifindex };

	memcpy(&mreq.ipv6mr_multiaddr, mgid, sizeof(mreq.ipv6mr_multiaddr));
	return ms->sock->ops->setsockopt(ms->sock, SOL_IPV6, option,
					 KERNEL_SOCKPTR(&mreq), sizeof(mreq));
}

/* The number of memberships of one socket is limited: use as many as needed. */
static void softib_mc_join(struct softib_dev *sdev, struct softib_group *g)
{
	struct softib_mc_sock *ms;
	int ret = -ENOMEM;

	ms = list_first_entry_or_null(&sdev->mcast.socks,
				      struct softib_mc_sock, node);
	if (ms)
		ret = softib_mc_option(sdev, ms, &g->mgid,
				       IPV6_ADD_MEMBERSHIP);
	if (ret == -ENOMEM || ret == -ENOBUFS) {
		ms = softib_mc_sock_new(sdev);
		if (ms)
			ret = softib_mc_option(sdev, ms, &g->mgid,
					       IPV6_ADD_MEMBERSHIP);
	}
	if (ret)
		pr_warn("%s: joining %pI6 failed: %d\n", sdev->port->name,
			g->mgid.raw, ret);
	else
		g->joined = ms;
}

static void softib_mc_leave(struct softib_dev *sdev, struct softib_group *g)
{
	if (g->joined)
		softib_mc_option(sdev, g->joined, &g->mgid,
				 IPV6_DROP_MEMBERSHIP);
	g->joined = NULL;
}

/* A group whose membership is not what it should be. */
static struct softib_group *softib_mc_next(struct softib_mcast *mc, bool *join)
{
	struct softib_group *g, *found = NULL;

	spin_lock_irq(&mc->lock);
	list_for_each_entry(g, &mc->groups, node) {
		if (g->refs && g->joined)
			continue;
		*join = g->refs;
		if (!g->refs)
			list_del(&g->node);
		else
			list_move_tail(&g->node, &mc->groups);
		found = g;
		break;
	}
	spin_unlock_irq(&mc->lock);
	return found;
}

static void softib_mc_work(struct work_struct *work)
{
	struct softib_dev *sdev = container_of(work, struct softib_dev,
					       mcast.work);
	struct softib_group *g;
	bool join;

	while ((g = softib_mc_next(&sdev->mcast, &join))) {
		if (join) {
			softib_mc_join(sdev, g);
			if (!g->joined)
				return;
			continue;
		}
		softib_mc_leave(sdev, g);
		kfree(g);
	}
}

static struct softib_group *softib_mc_find(struct softib_mcast *mc,
					   const union ib_gid *mgid)
{
	struct softib_group *g;

	lockdep_assert_held(&mc->lock);
	list_for_each_entry(g, &mc->groups, node) {
		if (!memcmp(&g->mgid, mgid, sizeof(*mgid)))
			return g;
	}
	return NULL;
}

static void softib_mc_get(struct softib_dev *sdev, const union ib_gid *mgid,
			  struct softib_group *fresh)
{
	struct softib_mcast *mc = &sdev->mcast;
	struct softib_group *g;

	spin_lock_irq(&mc->lock);
	g = softib_mc_find(mc, mgid);
	if (!g) {
		g = fresh;
		fresh = NULL;
		g->mgid = *mgid;
		list_add_tail(&g->node, &mc->groups);
	}
	g->refs++;
	spin_unlock_irq(&mc->lock);
	kfree(fresh);
	queue_work(sdev->wq, &mc->work);
}

static void softib_mc_put(struct softib_dev *sdev, const union ib_gid *mgid)
{
	struct softib_mcast *mc = &sdev->mcast;
	struct softib_group *g;

	spin_lock_irq(&mc->lock);
	g = softib_mc_find(mc, mgid);
	if (!WARN_ON_ONCE(!g || !g->refs))
		g->refs--;
	spin_unlock_irq(&mc->lock);
	queue_work(sdev->wq, &mc->work);
}

int softib_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	struct softib_qp *qp = to_sqp(ibqp);
	struct softib_group *fresh;
	int ret;

	if (!qp->lower)
		return -EINVAL;
	softib_fw_cmd(qp->sdev->port);
	if (softib_dead(qp->sdev->port) ||
	    softib_fail(qp->sdev->port, SOFTIB_K_fail_attach))
		return -EIO;
	fresh = kzalloc(sizeof(*fresh), GFP_KERNEL);
	if (!fresh)
		return -ENOMEM;
	ret = ib_attach_mcast(qp->lower, gid, lid);
	if (ret) {
		kfree(fresh);
		return ret;
	}
	softib_mc_get(qp->sdev, gid, fresh);
	softib_count(qp->sdev->port, SOFTIB_C_mgids, 1);
	return 0;
}

int softib_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	struct softib_qp *qp = to_sqp(ibqp);
	int ret;

	if (!qp->lower)
		return -EINVAL;
	softib_fw_cmd(qp->sdev->port);
	if (softib_fail(qp->sdev->port, SOFTIB_K_fail_detach))
		return -EIO;
	ret = ib_detach_mcast(qp->lower, gid, lid);
	if (ret)
		return ret;
	softib_mc_put(qp->sdev, gid);
	softib_count(qp->sdev->port, SOFTIB_C_mgids, -1);
	return 0;
}

void softib_mcast_show(struct softib_dev *sdev, struct seq_file *s)
{
	struct softib_group *g;

	spin_lock_irq(&sdev->mcast.lock);
	list_for_each_entry(g, &sdev->mcast.groups, node)
		seq_printf(s, "%pI6 qps %u joined %d\n", g->mgid.raw, g->refs,
			   !!g->joined);
	spin_unlock_irq(&sdev->mcast.lock);
}

void softib_mcast_init(struct softib_dev *sdev)
{
	spin_lock_init(&sdev->mcast.lock);
	INIT_LIST_HEAD(&sdev->mcast.groups);
	INIT_LIST_HEAD(&sdev->mcast.socks);
	INIT_WORK(&sdev->mcast.work, softib_mc_work);
}

/**
 * softib_mcast_exit - leave all groups
 * @sdev: the device, which has no QPs any more
 *
 * Context: process, not under rtnl.
 */
void softib_mcast_exit(struct softib_dev *sdev)
{
	struct softib_mc_sock *ms, *next;
	struct softib_group *g, *gn;

	cancel_work_sync(&sdev->mcast.work);
	list_for_each_entry_safe(g, gn, &sdev->mcast.groups, node) {
		WARN_ON(g->refs);
		kfree(g);
	}
	list_for_each_entry_safe(ms, next, &sdev->mcast.socks, node) {
		sock_release(ms->sock);
		kfree(ms);
	}
}
