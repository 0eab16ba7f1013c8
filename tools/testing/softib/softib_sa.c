// SPDX-License-Identifier: GPL-2.0-only
/*
 * The subnet administration, one in each port: it answers for its own port.
 * Group parameters follow from the group and the port's MTU, so that all ports
 * give the same answers without talking to each other.
 */
#include <linux/jhash.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_sa.h>

#include "softib.h"
#include "softib_obj.h"

#define SOFTIB_SEL_EXACT	(2 << 6)
#define SOFTIB_LIFE_TIME	14	/* 67 ms: retries end in time */
#define SOFTIB_RESP_TIME	18
#define SOFTIB_IPOIB_QKEY	0x0b1b

#define SOFTIB_SA_OK		0x0000
#define SOFTIB_SA_NO_ATTR	0x000c	/* method and attribute unsupported */
#define SOFTIB_SA_REQ_INVALID	0x0200
#define SOFTIB_SA_NO_RECORDS	0x0300

/* PathRecord on the wire. */
struct softib_path_rec {
	__be64 service_id;
	union ib_gid dgid;
	union ib_gid sgid;
	__be16 dlid;
	__be16 slid;
	__be32 flow_hop;
	u8 tclass;
	u8 rev_numb;
	__be16 pkey;
	__be16 qos_sl;
	u8 mtu;
	u8 rate;
	u8 life;
	u8 preference;
	u8 reserved[6];
} __packed;

/* MCMemberRecord on the wire. */
struct softib_mc_rec {
	union ib_gid mgid;
	union ib_gid port_gid;
	__be32 qkey;
	__be16 mlid;
	u8 mtu;
	u8 tclass;
	__be16 pkey;
	u8 rate;
	u8 life;
	__be32 sl_flow_hop;
	u8 scope_join;
	u8 proxy;
	u8 reserved[2];
} __packed;

struct softib_member {
	struct list_head node;
	struct softib_mc_rec rec;
};

static u16 softib_sa_path(struct softib_dev *sdev, struct ib_sa_mad *rsp)
{
	struct softib_path_rec *rec = (void *)rsp->data;
	ib_sa_comp_mask mask = rsp->sa_hdr.comp_mask;
	u16 index;

	if (mask & IB_SA_PATH_REC_DLID &&
	    !(mask & IB_SA_PATH_REC_DGID))
		softib_lid_to_gid(sdev, be16_to_cpu(rec->dlid), &rec->dgid);
	if (rec->dgid.raw[11] != 0xff || rec->dgid.raw[12] != 0xfe)
		return SOFTIB_SA_NO_RECORDS;
	if (!(mask & IB_SA_PATH_REC_PKEY))
		rec->pkey = cpu_to_be16(softib_pkey_get(sdev->port, 0));
	if (softib_pkey_find(sdev->port, be16_to_cpu(rec->pkey), &index))
		return SOFTIB_SA_NO_RECORDS;
	rec->sgid = sdev->gid;
	rec->dlid = cpu_to_be16(softib_gid_to_lid(&rec->dgid));
	rec->slid = cpu_to_be16(sdev->lid);
	rec->flow_hop = 0;
	rec->tclass = 0;
	rec->rev_numb = BIT(7) | 1;
	rec->qos_sl = 0;
	rec->mtu = SOFTIB_SEL_EXACT | READ_ONCE(sdev->active_mtu);
	rec->rate = SOFTIB_SEL_EXACT | IB_RATE_100_GBPS;
	rec->life = SOFTIB_SEL_EXACT | SOFTIB_LIFE_TIME;
	rec->preference = 0;
	return SOFTIB_SA_OK;
}

static struct softib_member *softib_find_member(struct softib_sa *sa,
						const union ib_gid *mgid)
{
	struct softib_member *m;

	lockdep_assert_held(&sa->lock);
	list_for_each_entry(m, &sa->members, node) {
		if (!memcmp(&m->rec.mgid, mgid, sizeof(*mgid)))
			return m;
	}
	return NULL;
}

/* The group's parameters: the creator's where given, else the usual ones. */
static void softib_fill_group(struct softib_dev *sdev, struct softib_mc_rec *rec,
			      ib_sa_comp_mask mask)
{
	u32 hash = jhash(rec->mgid.raw, sizeof(rec->mgid), 0);

	if (!(mask & IB_SA_MCMEMBER_REC_QKEY))
		rec->qkey = cpu_to_be32(SOFTIB_IPOIB_QKEY);
	if (!(mask & IB_SA_MCMEMBER_REC_TRAFFIC_CLASS))
		rec->tclass = 0;
	if (!(mask & IB_SA_MCMEMBER_REC_FLOW_LABEL))
		rec->sl_flow_hop &= cpu_to_be32(0xf00000ff);
	if (!(mask & IB_SA_MCMEMBER_REC_SL))
		rec->sl_flow_hop &= cpu_to_be32(0x0fffffff);
	if (!(mask & IB_SA_MCMEMBER_REC_HOP_LIMIT))
		rec->sl_flow_hop &= cpu_to_be32(0xffffff00);
	rec->mlid = cpu_to_be16(0xc000 | (hash % 0x3fff));
	rec->mtu = SOFTIB_SEL_EXACT | READ_ONCE(sdev->active_mtu);
	rec->rate = SOFTIB_SEL_EXACT | IB_RATE_100_GBPS;
	rec->life = SOFTIB_SEL_EXACT | SOFTIB_LIFE_TIME;
	rec->scope_join = (rec->mgid.raw[1] & 0xf) << 4 |
			  (rec->scope_join & 0xf);
}

static u16 softib_sa_join(struct softib_dev *sdev, struct softib_mc_rec *rec,
			  ib_sa_comp_mask mask)
{
	struct softib_sa *sa = &sdev->sa;
	struct softib_member *m, *fresh;
	u16 index;

	if (rec->mgid.raw[0] != 0xff || !(rec->scope_join & 0xf) ||
	    softib_pkey_find(sdev->port, be16_to_cpu(rec->pkey), &index))
		return SOFTIB_SA_REQ_INVALID;
	fresh = kzalloc(sizeof(*fresh), GFP_KERNEL);
	if (!fresh)
		return SOFTIB_SA_REQ_INVALID;
	spin_lock(&sa->lock);
	m = softib_find_member(sa, &rec->mgid);
	if (m) {
		m->rec.scope_join |= rec->scope_join & 0xf;
	} else {
		m = fresh;
		fresh = NULL;
		m->rec = *rec;
		softib_fill_group(sdev, &m->rec, mask);
		list_add_tail(&m->node, &sa->members);
	}
	*rec = m->rec;
	spin_unlock(&sa->lock);
	kfree(fresh);
	return SOFTIB_SA_OK;
}

static u16 softib_sa_leave(struct softib_dev *sdev, struct softib_mc_rec *rec)
{
	struct softib_sa *sa = &sdev->sa;
	u8 join = rec->scope_join & 0xf;
	struct softib_member *m;
	u16 status = SOFTIB_SA_REQ_INVALID;

	spin_lock(&sa->lock);
	m = softib_find_member(sa, &rec->mgid);
	if (m && m->rec.scope_join & join) {
		status = SOFTIB_SA_OK;
		*rec = m->rec;
		m->rec.scope_join &= ~join;
		if (m->rec.scope_join & 0xf)
			m = NULL;
		else
			list_del(&m->node);
	} else {
		m = NULL;
	}
	spin_unlock(&sa->lock);
	kfree(m);
	return status;
}

static u16 softib_sa_get_member(struct softib_dev *sdev,
				struct softib_mc_rec *rec)
{
	struct softib_sa *sa = &sdev->sa;
	u16 status = SOFTIB_SA_NO_RECORDS;
	struct softib_member *m;

	spin_lock(&sa->lock);
	m = softib_find_member(sa, &rec->mgid);
	if (m) {
		*rec = m->rec;
		status = SOFTIB_SA_OK;
	}
	spin_unlock(&sa->lock);
	return status;
}

static u16 softib_sa_mcast(struct softib_dev *sdev, struct ib_sa_mad *rsp)
{
	struct softib_mc_rec *rec = (void *)rsp->data;
	ib_sa_comp_mask mask = rsp->sa_hdr.comp_mask;

	switch (rsp->mad_hdr.method) {
	case IB_MGMT_METHOD_SET:
		return softib_sa_join(sdev, rec, mask);
	case IB_SA_METHOD_DELETE:
		return softib_sa_leave(sdev, rec);
	case IB_MGMT_METHOD_GET:
		return softib_sa_get_member(sdev, rec);
	default:
		return SOFTIB_SA_NO_ATTR;
	}
}

static u16 softib_sa_class_info(struct ib_sa_mad *rsp)
{
	struct ib_class_port_info *cpi = (void *)rsp->data;

	memset(cpi, 0, sizeof(*cpi));
	cpi->base_version = IB_MGMT_BASE_VERSION;
	cpi->class_version = IB_SA_CLASS_VERSION;
	ib_set_cpi_capmask2(cpi, IB_SA_CAP_MASK2_SENDONLY_FULL_MEM_SUPPORT);
	ib_set_cpi_resp_time(cpi, SOFTIB_RESP_TIME);
	return SOFTIB_SA_OK;
}

static u16 softib_sa_answer(struct softib_dev *sdev, struct ib_sa_mad *rsp)
{
	bool get = rsp->mad_hdr.method == IB_MGMT_METHOD_GET;

	switch (be16_to_cpu(rsp->mad_hdr.attr_id)) {
	case IB_SA_ATTR_CLASS_PORTINFO:
		return get ? softib_sa_class_info(rsp) : SOFTIB_SA_NO_ATTR;
	case IB_SA_ATTR_PATH_REC:
		return get ? softib_sa_path(sdev, rsp) : SOFTIB_SA_NO_ATTR;
	case IB_SA_ATTR_MC_MEMBER_REC:
		return softib_sa_mcast(sdev, rsp);
	default:
		return SOFTIB_SA_NO_ATTR;
	}
}

/**
 * softib_sa_handle - answer a query
 * @sdev: the device
 * @req: the query, a MAD
 * @rsp: result; holds a copy of the query
 *
 * Context: process; takes sa->lock.
 * Return: whether there is an answer.
 */
bool softib_sa_handle(struct softib_dev *sdev, const void *req, void *rsp)
{
	const struct ib_mad_hdr *in = req;
	struct ib_sa_mad *out = rsp;
	u16 status;

	status = softib_sa_answer(sdev, out);
	out->mad_hdr.status = cpu_to_be16(status);
	out->mad_hdr.method = in->method == IB_SA_METHOD_DELETE ?
			      IB_SA_METHOD_DELETE_RESP :
			      in->method == IB_MGMT_METHOD_SET ?
			      IB_MGMT_METHOD_GET_RESP :
			      in->method | IB_MGMT_METHOD_RESP;
	return true;
}

void softib_sa_show(struct softib_dev *sdev, struct seq_file *s)
{
	struct softib_member *m;

	spin_lock(&sdev->sa.lock);
	list_for_each_entry(m, &sdev->sa.members, node)
		seq_printf(s, "%pI6 join_state %u pkey 0x%04x mlid 0x%04x qkey 0x%08x\n",
			   m->rec.mgid.raw, m->rec.scope_join & 0xf,
			   be16_to_cpu(m->rec.pkey), be16_to_cpu(m->rec.mlid),
			   be32_to_cpu(m->rec.qkey));
	spin_unlock(&sdev->sa.lock);
}

void softib_sa_init(struct softib_dev *sdev)
{
	spin_lock_init(&sdev->sa.lock);
	INIT_LIST_HEAD(&sdev->sa.members);
}

/**
 * softib_sa_forget - lose all memberships, as a new subnet manager has none
 * @sdev: the device
 *
 * Context: process; takes sa->lock.
 */
void softib_sa_forget(struct softib_dev *sdev)
{
	struct softib_member *m, *next;
	LIST_HEAD(old);

	spin_lock(&sdev->sa.lock);
	list_splice_init(&sdev->sa.members, &old);
	spin_unlock(&sdev->sa.lock);
	list_for_each_entry_safe(m, next, &old, node)
		kfree(m);
}

void softib_sa_exit(struct softib_dev *sdev)
{
	softib_sa_forget(sdev);
}
