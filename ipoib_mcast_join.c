// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Membership of multicast groups. The SA's callback only notes the answer; one
 * work on the interface's ordered queue acts on it, sends requests, leaves, and
 * attaches the QP. So nobody but that work, and ipoib_mcast_stop() after it has
 * cancelled the work, frees what ib_sa_join_multicast() returned, and never in
 * the callback nor under a lock that the callback takes.
 */
#include "ipoib.h"

#define IPOIB_MCAST_MAX_BACKOFF	4		/* 2^4 seconds */
#define IPOIB_MCAST_REFUSALS	2		/* that a link outlives: 3 seconds */
#define IPOIB_MCAST_SEND_IDLE	(60 * HZ)	/* a sender leaves */
#define IPOIB_MCAST_AGE_PERIOD	(30 * HZ)

/* From each state to those that may follow it. */
static const u8 ipoib_mcast_next[] = {
	[IPOIB_MCAST_IDLE] = BIT(IPOIB_MCAST_JOINING),
	[IPOIB_MCAST_JOINING] = BIT(IPOIB_MCAST_ANSWERED) |
				BIT(IPOIB_MCAST_IDLE),
	[IPOIB_MCAST_ANSWERED] = BIT(IPOIB_MCAST_JOINED) |
				 BIT(IPOIB_MCAST_IDLE),
	[IPOIB_MCAST_JOINED] = BIT(IPOIB_MCAST_IDLE),
};

/**
 * ipoib_mcast_set_state() - change the membership of a group
 * @group: the group
 * @state: the new state
 *
 * Context: the machine's lock held.
 */
void ipoib_mcast_set_state(struct ipoib_mcast_group *group,
			   enum ipoib_mcast_state state)
{
	lockdep_assert_held(&group->priv->mcast.lock);
	WARN_ON_ONCE(!(ipoib_mcast_next[group->state] & BIT(state)));
	ipoib_dbg(group->priv, "group %pI6c: state %d -> %d\n",
		  group->mgid.raw, group->state, state);
	group->state = state;
}

/**
 * ipoib_mcast_kick() - let the machine look for what is due
 * @priv: the interface
 * @delay: in jiffies
 *
 * Context: the machine's lock held.
 */
void ipoib_mcast_kick(struct ipoib_netdev *priv, unsigned long delay)
{
	lockdep_assert_held(&priv->mcast.lock);
	if (priv->mcast.running)
		mod_delayed_work(priv->wq, &priv->mcast.join_work, delay);
}

/* The SA answered a request, or took a membership away. Any context. */
static int ipoib_mcast_callback(int status, struct ib_sa_multicast *member)
{
	struct ipoib_mcast_group *group = member->context;
	struct ipoib_netdev *priv = group->priv;

	spin_lock_bh(&priv->mcast.lock);
	group->status = status;
	if (!status)
		group->answer = member->rec;
	if (group->state == IPOIB_MCAST_JOINED) {
		ipoib_mcast_set_state(group, IPOIB_MCAST_IDLE);
		group->due = jiffies;
	} else if (group->state == IPOIB_MCAST_JOINING) {
		ipoib_mcast_set_state(group, IPOIB_MCAST_ANSWERED);
		list_add_tail(&group->todo, &priv->mcast.todo);
	}
	ipoib_mcast_kick(priv, 0);
	spin_unlock_bh(&priv->mcast.lock);
	/* Not zero would free @member; the machine's work does that. */
	return 0;
}

/**
 * ipoib_mcast_leave() - give up the membership of a group
 * @group: the group
 *
 * Context: the machine's work, or no work runs; no lock held. Waits for the
 * callback of a request that is under way, not for the SA.
 */
void ipoib_mcast_leave(struct ipoib_mcast_group *group)
{
	struct ipoib_netdev *priv = group->priv;
	int err;

	if (group->attached) {
		err = ipoib_qp_detach(priv, &group->mgid, group->mlid);
		if (err)
			ipoib_warn(priv, "group %pI6c not detached: %d\n",
				   group->mgid.raw, err);
		group->attached = false;
	}
	if (group->member) {
		ib_sa_free_multicast(group->member);
		group->member = NULL;
	}
}

/**
 * ipoib_mcast_link_down() - the link is gone
 * @priv: the interface
 *
 * Context: any but hard interrupt.
 */
void ipoib_mcast_link_down(struct ipoib_netdev *priv)
{
	if (test_and_clear_bit(IPOIB_F_LINK, &priv->flags))
		ipoib_link_update(priv);
}

static bool ipoib_mcast_port_active(struct ipoib_netdev *priv)
{
	struct ib_port_attr attr;

	return !READ_ONCE(priv->port->dead) &&
	       !ib_query_port(priv->port->ca, priv->port->num, &attr) &&
	       attr.state == IB_PORT_ACTIVE;
}

/* Is there a port that can be joined with? Return: 0 or why not. */
static int ipoib_mcast_ready(struct ipoib_netdev *priv)
{
	if (!ipoib_mcast_port_active(priv))
		return -ENETDOWN;
	return ipoib_addr_known(priv) ? 0 : -EADDRNOTAVAIL;
}

/* ---- requests ---- */

static u8 ipoib_mcast_join_state(const struct ipoib_mcast_group *group)
{
	if (!group->send_only)
		return BIT(FULLMEMBER_JOIN);
	/* An SA that does not know senders which create groups refuses once. */
	return group->failures & 1 ? BIT(SENDONLY_NONMEBER_JOIN) :
				     BIT(SENDONLY_FULLMEMBER_JOIN);
}

static ib_sa_comp_mask ipoib_mcast_fill(struct ipoib_mcast_group *group,
					struct ib_sa_mcmember_rec *rec)
{
	struct ipoib_netdev *priv = group->priv;
	const struct ib_sa_mcmember_rec *link = &priv->mcast.link;
	ib_sa_comp_mask mask = IB_SA_MCMEMBER_REC_MGID |
			       IB_SA_MCMEMBER_REC_PORT_GID |
			       IB_SA_MCMEMBER_REC_PKEY |
			       IB_SA_MCMEMBER_REC_JOIN_STATE;

	lockdep_assert_held(&priv->mcast.lock);
	memset(rec, 0, sizeof(*rec));
	rec->mgid = group->mgid;
	rec->port_gid = priv->gid;
	rec->pkey = cpu_to_be16(priv->pkey);
	rec->join_state = ipoib_mcast_join_state(group);
	if (group == priv->mcast.broadcast)
		return mask;

	/* RFC 4391 clause 5: everything else is as in the broadcast group. */
	rec->qkey = link->qkey;
	rec->mtu_selector = IB_SA_EQ;
	rec->mtu = link->mtu;
	rec->traffic_class = link->traffic_class;
	rec->rate_selector = IB_SA_EQ;
	rec->rate = link->rate;
	rec->sl = link->sl;
	rec->flow_label = link->flow_label;
	rec->hop_limit = link->hop_limit;
	return mask | IB_SA_MCMEMBER_REC_QKEY |
	       IB_SA_MCMEMBER_REC_MTU_SELECTOR | IB_SA_MCMEMBER_REC_MTU |
	       IB_SA_MCMEMBER_REC_TRAFFIC_CLASS |
	       IB_SA_MCMEMBER_REC_RATE_SELECTOR | IB_SA_MCMEMBER_REC_RATE |
	       IB_SA_MCMEMBER_REC_SL | IB_SA_MCMEMBER_REC_FLOW_LABEL |
	       IB_SA_MCMEMBER_REC_HOP_LIMIT;
}

/*
 * Does the link outlive that its group could not be joined again? A SA that is
 * silent, or not known while SMs change places, takes nothing away; nor does one
 * that is new and refuses at first.
 */
static bool ipoib_mcast_link_lasts(const struct ipoib_mcast_group *group, int err)
{
	if (!rcu_access_pointer(group->ah) || !group->attached)
		return false;
	switch (err) {
	case -ENETDOWN:
	case -EADDRNOTAVAIL:
		return false;
	case -EINVAL:
		return group->failures < IPOIB_MCAST_REFUSALS;
	default:
		return true;
	}
}

static void ipoib_mcast_failed(struct ipoib_mcast_group *group, int err)
{
	struct ipoib_netdev *priv = group->priv;
	struct ipoib_mcast *mcast = &priv->mcast;
	bool again = err == -ENETRESET;
	struct sk_buff_head queue;

	if (!again) {
		ipoib_stat_inc(priv, IPOIB_STAT_mcast_failures);
		if (!group->failures && !group->send_only && err != -ENETDOWN)
			ipoib_warn(priv, "group %pI6c not joined: %d\n",
				   group->mgid.raw, err);
		if (group == mcast->broadcast &&
		    !ipoib_mcast_link_lasts(group, err))
			ipoib_mcast_link_down(priv);
	}
	__skb_queue_head_init(&queue);
	spin_lock_bh(&mcast->lock);
	ipoib_mcast_set_state(group, IPOIB_MCAST_IDLE);
	group->due = jiffies;
	if (!again) {
		group->due += HZ << min_t(unsigned int, group->failures,
					  IPOIB_MCAST_MAX_BACKOFF);
		group->failures++;
		skb_queue_splice_init(&group->queue, &queue);
	}
	spin_unlock_bh(&mcast->lock);
	ipoib_stat_add(priv, IPOIB_STAT_tx_drop_mcast, skb_queue_len(&queue));
	__skb_queue_purge(&queue);
}

/* Send the request for a group whose join is due. */
static void ipoib_mcast_join(struct ipoib_mcast_group *group)
{
	struct ipoib_netdev *priv = group->priv;
	struct ib_sa_mcmember_rec rec;
	struct ib_sa_multicast *member;
	ib_sa_comp_mask mask;
	int err;

	if (group->member) {
		ib_sa_free_multicast(group->member);
		group->member = NULL;
	}
	spin_lock_bh(&priv->mcast.lock);
	ipoib_mcast_set_state(group, IPOIB_MCAST_JOINING);
	mask = ipoib_mcast_fill(group, &rec);
	spin_unlock_bh(&priv->mcast.lock);

	err = group == priv->mcast.broadcast ? ipoib_mcast_ready(priv) : 0;
	if (err) {
		ipoib_mcast_failed(group, err);
		return;
	}
	member = ib_sa_join_multicast(&ipoib_sa_client, priv->port->ca,
				      priv->port->num, &rec, mask, GFP_KERNEL,
				      ipoib_mcast_callback, group);
	if (IS_ERR(member))
		ipoib_mcast_failed(group, PTR_ERR(member));
	else
		group->member = member;
}

/* ---- answers ---- */

/* Do the parameters that other groups copy differ? */
static bool ipoib_mcast_link_differs(const struct ib_sa_mcmember_rec *a,
				     const struct ib_sa_mcmember_rec *b)
{
	return a->qkey != b->qkey || a->mtu != b->mtu || a->rate != b->rate ||
	       a->traffic_class != b->traffic_class || a->sl != b->sl ||
	       a->flow_label != b->flow_label || a->hop_limit != b->hop_limit;
}

/* The broadcast group defines the link. */
static int ipoib_mcast_take_link(struct ipoib_netdev *priv,
				 const struct ib_sa_mcmember_rec *rec)
{
	struct ipoib_mcast *mcast = &priv->mcast;
	int ib_mtu = ib_mtu_enum_to_int(rec->mtu);
	struct ipoib_mcast_group *group;
	bool differs;
	int err;

	if (ib_mtu < 0)
		return -EINVAL;
	err = ipoib_qp_set_qkey(priv, be32_to_cpu(rec->qkey));
	if (err)
		return err;
	WRITE_ONCE(priv->qkey, be32_to_cpu(rec->qkey));
	WRITE_ONCE(priv->mcast_mtu,
		   ipoib_ud_mtu(min_t(unsigned int, ib_mtu,
				      priv->port->max_mtu)));

	spin_lock_bh(&mcast->lock);
	differs = mcast->link_known &&
		  ipoib_mcast_link_differs(&mcast->link, rec);
	mcast->link = *rec;
	mcast->link_known = true;
	list_for_each_entry(group, &mcast->groups, list) {
		if (!differs || group->state != IPOIB_MCAST_JOINED)
			continue;
		ipoib_mcast_set_state(group, IPOIB_MCAST_IDLE);
		group->due = jiffies;
	}
	spin_unlock_bh(&mcast->lock);
	return 0;
}

static int ipoib_mcast_attach(struct ipoib_mcast_group *group, u16 mlid)
{
	struct ipoib_netdev *priv = group->priv;
	int err;

	if (group->attached && group->mlid == mlid)
		return 0;
	if (group->attached) {
		err = ipoib_qp_detach(priv, &group->mgid, group->mlid);
		if (err)
			return err;
		group->attached = false;
	}
	err = ipoib_qp_attach(priv, &group->mgid, mlid);
	if (err)
		return err;
	group->attached = true;
	group->mlid = mlid;
	return 0;
}

static struct ipoib_ah *ipoib_mcast_make_ah(struct ipoib_netdev *priv,
					    struct ib_sa_mcmember_rec *rec)
{
	struct rdma_ah_attr attr;
	struct ipoib_ah *ah;
	int err;

	err = ib_init_ah_from_mcmember(priv->port->ca, priv->port->num, rec,
				       NULL, IB_GID_TYPE_IB, &attr);
	if (err)
		return ERR_PTR(err);
	ah = ipoib_ah_create(priv, &attr, priv->mcast_mtu);
	rdma_destroy_ah_attr(&attr);
	return ah;
}

/* Move the queue of @group to @ready, with the pseudo header put back. */
static void ipoib_mcast_take_queue(struct ipoib_mcast_group *group,
				   struct sk_buff_head *ready)
{
	struct sk_buff *skb;

	while ((skb = __skb_dequeue(&group->queue))) {
		ipoib_addr_set(skb_push(skb, IPOIB_PSEUDO_LEN), 0,
			       IB_MULTICAST_QPN, &group->mgid);
		__skb_queue_tail(ready, skb);
	}
}

/* The QP is attached, and @ah made: the group may be sent to. */
static void ipoib_mcast_joined(struct ipoib_mcast_group *group,
			       struct ipoib_ah *ah)
{
	struct ipoib_netdev *priv = group->priv;
	struct ipoib_mcast *mcast = &priv->mcast;
	struct sk_buff_head ready;

	__skb_queue_head_init(&ready);
	spin_lock_bh(&mcast->lock);
	ah = rcu_replace_pointer(group->ah, ah, lockdep_is_held(&mcast->lock));
	ipoib_mcast_set_state(group, IPOIB_MCAST_JOINED);
	group->failures = 0;
	/* Meanwhile the membership was taken away, or is of the wrong kind. */
	if (group->status || (!group->send_only && !group->attached)) {
		ipoib_mcast_set_state(group, IPOIB_MCAST_IDLE);
		group->due = jiffies;
	}
	ipoib_mcast_take_queue(group, &ready);
	spin_unlock_bh(&mcast->lock);
	ipoib_ah_put(ah);
	ipoib_stat_inc(priv, IPOIB_STAT_mcast_joins);

	if (group == mcast->broadcast && ipoib_mcast_port_active(priv)) {
		set_bit(IPOIB_F_LINK, &priv->flags);
		ipoib_link_update(priv);
	}
	ipoib_neigh_resend(priv, &ready);
}

static void ipoib_mcast_take_answer(struct ipoib_mcast_group *group,
				    struct ib_sa_mcmember_rec *rec)
{
	struct ipoib_netdev *priv = group->priv;
	struct ipoib_ah *ah;
	int err = 0;

	if (group == priv->mcast.broadcast)
		err = ipoib_mcast_take_link(priv, rec);
	if (!err && rec->join_state & BIT(FULLMEMBER_JOIN))
		err = ipoib_mcast_attach(group, be16_to_cpu(rec->mlid));
	if (err) {
		ipoib_mcast_failed(group, err);
		return;
	}
	ah = ipoib_mcast_make_ah(priv, rec);
	if (IS_ERR(ah))
		ipoib_mcast_failed(group, PTR_ERR(ah));
	else
		ipoib_mcast_joined(group, ah);
}

/* Take the next answer. Return: false if there is none. */
static bool ipoib_mcast_next_answer(struct ipoib_netdev *priv)
{
	struct ipoib_mcast *mcast = &priv->mcast;
	struct ipoib_mcast_group *group;
	struct ib_sa_mcmember_rec rec;
	int status;

	spin_lock_bh(&mcast->lock);
	group = list_first_entry_or_null(&mcast->todo, struct ipoib_mcast_group,
					 todo);
	if (group) {
		list_del_init(&group->todo);
		status = group->status;
		rec = group->answer;
	}
	spin_unlock_bh(&mcast->lock);
	if (!group)
		return false;
	if (status)
		ipoib_mcast_failed(group, status);
	else
		ipoib_mcast_take_answer(group, &rec);
	return true;
}

/* ---- the machine ---- */

/*
 * The next group whose join is due, or NULL; the broadcast group comes first,
 * and others only while there is a link. @wait: shortened to the time until
 * the next one is due.
 */
static struct ipoib_mcast_group *ipoib_mcast_next_due(struct ipoib_netdev *priv,
						      unsigned long *wait)
{
	struct ipoib_mcast *mcast = &priv->mcast;
	struct ipoib_mcast_group *group;

	lockdep_assert_held(&mcast->lock);
	list_for_each_entry(group, &mcast->groups, list) {
		if (group->state != IPOIB_MCAST_IDLE ||
		    (group != mcast->broadcast &&
		     !test_bit(IPOIB_F_LINK, &priv->flags)))
			continue;
		if (time_after_eq(jiffies, group->due))
			return group;
		*wait = min(*wait, group->due - jiffies);
	}
	return NULL;
}

static void ipoib_mcast_join_due(struct ipoib_netdev *priv)
{
	unsigned long wait = IPOIB_MCAST_AGE_PERIOD;
	struct ipoib_mcast *mcast = &priv->mcast;
	struct ipoib_mcast_group *group;

	do {
		spin_lock_bh(&mcast->lock);
		group = NULL;
		if (!ipoib_mcast_broadcast(priv))
			wait = HZ;
		else
			group = ipoib_mcast_next_due(priv, &wait);
		if (!group && mcast->running)
			queue_delayed_work(priv->wq, &mcast->join_work, wait);
		spin_unlock_bh(&mcast->lock);
		if (group)
			ipoib_mcast_join(group);
	} while (group);
}

/* Leave groups that were only sent to, and not of late. */
static void ipoib_mcast_age(struct ipoib_netdev *priv)
{
	struct ipoib_mcast *mcast = &priv->mcast;
	struct ipoib_mcast_group *group, *next;
	LIST_HEAD(gone);

	spin_lock_bh(&mcast->lock);
	list_for_each_entry_safe(group, next, &mcast->groups, list) {
		if (!group->send_only ||
		    time_before(jiffies, READ_ONCE(group->used) +
				IPOIB_MCAST_SEND_IDLE))
			continue;
		ipoib_mcast_group_unlink(group);
		list_add(&group->list, &gone);
	}
	spin_unlock_bh(&mcast->lock);
	list_for_each_entry_safe(group, next, &gone, list)
		ipoib_mcast_group_free(group);
}

/**
 * ipoib_mcast_join_work() - take answers, age senders, join what is due
 * @work: &struct ipoib_mcast.join_work
 */
void ipoib_mcast_join_work(struct work_struct *work)
{
	struct ipoib_netdev *priv = container_of(work, struct ipoib_netdev,
						 mcast.join_work.work);

	while (ipoib_mcast_next_answer(priv))
		;
	ipoib_mcast_age(priv);
	ipoib_mcast_join_due(priv);
}

/* Is a membership worth nothing, although nobody took it away? */
static bool ipoib_mcast_is_stale(const struct ipoib_mcast_group *group)
{
	struct ipoib_netdev *priv = group->priv;
	const struct ipoib_mcast *mcast = &priv->mcast;

	if (group == mcast->broadcast && !test_bit(IPOIB_F_LINK, &priv->flags))
		return true;
	return memcmp(&mcast->link.port_gid, &priv->gid, sizeof(priv->gid));
}

/**
 * ipoib_mcast_rejoin() - join, now, all groups that are not joined
 * @priv: the interface
 *
 * Nothing is left for that: who restarts a SM would lose traffic. Memberships
 * which the subnet has forgotten are taken away by the SA's client, whose
 * callback says so; those of another port GID are given up here. Groups stay
 * usable and the QP attached meanwhile.
 *
 * Context: any but hard interrupt.
 */
void ipoib_mcast_rejoin(struct ipoib_netdev *priv)
{
	struct ipoib_mcast *mcast = &priv->mcast;
	struct ipoib_mcast_group *group;

	spin_lock_bh(&mcast->lock);
	list_for_each_entry(group, &mcast->groups, list) {
		if (group->state == IPOIB_MCAST_JOINED &&
		    ipoib_mcast_is_stale(group))
			ipoib_mcast_set_state(group, IPOIB_MCAST_IDLE);
		group->failures = 0;
		group->due = jiffies;
	}
	ipoib_mcast_kick(priv, 0);
	spin_unlock_bh(&mcast->lock);
}
