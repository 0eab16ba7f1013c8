// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ib_device: attributes, port state, events, table of verbs.
 */
#include <linux/module.h>
#include <rdma/ib_mad.h>

#include "softib.h"
#include "softib_obj.h"

/**
 * softib_link_up - is the port active?
 * @sdev: the device
 *
 * Context: any; looks at the network device only, because rxe's own query
 * takes rtnl and users of the port ask under rtnl.
 */
bool softib_link_up(struct softib_dev *sdev)
{
	return softib_knob(sdev->port, SOFTIB_K_link) &&
	       !softib_dead(sdev->port) && netif_running(sdev->ndev) &&
	       netif_carrier_ok(sdev->ndev);
}

/**
 * softib_dispatch - raise an asynchronous event of the port or device
 * @sdev: the device
 * @type: the event
 *
 * Context: any.
 */
void softib_dispatch(struct softib_dev *sdev, enum ib_event_type type)
{
	struct ib_event ev = {
		.device = &sdev->ib,
		.element.port_num = SOFTIB_PORT_NUM,
		.event = type,
	};

	ib_dispatch_event(&ev);
}

static u32 softib_min_knob(struct softib_port *port, enum softib_knob k, u32 v)
{
	s64 limit = softib_knob(port, k);

	return limit ? min_t(u32, limit, v) : v;
}

static int softib_query_device(struct ib_device *ib,
			       struct ib_device_attr *attr,
			       struct ib_udata *udata)
{
	struct softib_dev *sdev = to_sdev(ib);
	struct softib_port *port = sdev->port;
	struct ib_device_attr *low = &sdev->lower_attr;
	int sge;

	memset(attr, 0, sizeof(*attr));
	attr->fw_ver = 1;
	attr->sys_image_guid = ib->node_guid;
	attr->max_mr_size = low->max_mr_size;
	attr->page_size_cap = low->page_size_cap;
	attr->vendor_id = 0x534942;
	attr->vendor_part_id = 1;
	attr->max_qp = low->max_qp;
	attr->max_qp_wr = low->max_qp_wr;
	attr->device_cap_flags = IB_DEVICE_PORT_ACTIVE_EVENT |
				 IB_DEVICE_RC_RNR_NAK_GEN |
				 IB_DEVICE_SYS_IMAGE_GUID;
	attr->max_send_sge = softib_min_knob(port, SOFTIB_K_max_send_sge,
					     low->max_send_sge);
	attr->max_recv_sge = softib_min_knob(port, SOFTIB_K_max_recv_sge,
					     low->max_recv_sge);
	attr->max_sge_rd = low->max_sge_rd;
	attr->max_cq = low->max_cq;
	attr->max_cqe = low->max_cqe;
	attr->max_mr = low->max_mr;
	attr->max_pd = low->max_pd;
	attr->max_qp_rd_atom = low->max_qp_rd_atom;
	attr->max_res_rd_atom = low->max_res_rd_atom;
	attr->max_qp_init_rd_atom = low->max_qp_init_rd_atom;
	attr->max_mcast_grp = low->max_mcast_grp;
	attr->max_mcast_qp_attach = low->max_mcast_qp_attach;
	attr->max_total_mcast_qp_attach = low->max_total_mcast_qp_attach;
	attr->max_ah = low->max_ah;
	attr->max_pkeys = SOFTIB_PKEY_LEN;
	attr->local_ca_ack_delay = low->local_ca_ack_delay;
	if (softib_knob(port, SOFTIB_K_no_srq))
		return 0;
	sge = softib_min_knob(port, SOFTIB_K_max_srq_sge, low->max_srq_sge);
	attr->max_srq = low->max_srq;
	attr->max_srq_wr = low->max_srq_wr;
	attr->max_srq_sge = sge;
	return 0;
}

int softib_query_port(struct ib_device *ib, u32 num, struct ib_port_attr *attr)
{
	struct softib_dev *sdev = to_sdev(ib);
	bool up = softib_link_up(sdev);

	/* The core has zeroed attr. */
	attr->state = up ? IB_PORT_ACTIVE : IB_PORT_DOWN;
	attr->phys_state = up ? IB_PORT_PHYS_STATE_LINK_UP :
				IB_PORT_PHYS_STATE_POLLING;
	attr->max_mtu = READ_ONCE(sdev->max_mtu);
	attr->active_mtu = READ_ONCE(sdev->active_mtu);
	attr->lid = sdev->lid;
	attr->sm_lid = sdev->lid;
	attr->gid_tbl_len = 1;
	attr->pkey_tbl_len = SOFTIB_PKEY_LEN;
	attr->max_msg_sz = 1U << 30;
	attr->max_vl_num = 1;
	attr->active_width = IB_WIDTH_4X;
	attr->active_speed = IB_SPEED_EDR;
	attr->port_cap_flags = IB_PORT_CM_SUP | IB_PORT_CLIENT_REG_SUP;
	attr->subnet_timeout = 18;
	return 0;
}

static int softib_modify_port(struct ib_device *ib, u32 num, int mask,
			      struct ib_port_modify *modify)
{
	/* ib_cm and ib_sa set capability bits, which nobody here reads. */
	return 0;
}

static int softib_modify_device(struct ib_device *ib, int mask,
				struct ib_device_modify *modify)
{
	if (mask & ~IB_DEVICE_MODIFY_NODE_DESC)
		return -EOPNOTSUPP;
	if (mask & IB_DEVICE_MODIFY_NODE_DESC)
		memcpy(ib->node_desc, modify->node_desc,
		       sizeof(ib->node_desc));
	return 0;
}

static int softib_port_immutable(struct ib_device *ib, u32 num,
				 struct ib_port_immutable *imm)
{
	imm->core_cap_flags = RDMA_CORE_PORT_IBA_IB;
	imm->pkey_tbl_len = SOFTIB_PKEY_LEN;
	imm->gid_tbl_len = 1;
	imm->max_mad_size = IB_MGMT_MAD_SIZE;
	return 0;
}

static enum rdma_link_layer softib_link_layer(struct ib_device *ib, u32 num)
{
	return IB_LINK_LAYER_INFINIBAND;
}

static int softib_query_gid(struct ib_device *ib, u32 num, int index,
			    union ib_gid *gid)
{
	if (index)
		return -EINVAL;
	*gid = to_sdev(ib)->gid;
	return 0;
}

static int softib_query_pkey(struct ib_device *ib, u32 num, u16 index,
			     u16 *pkey)
{
	if (index >= SOFTIB_PKEY_LEN)
		return -EINVAL;
	*pkey = softib_pkey_get(to_sdev(ib)->port, index);
	return 0;
}

static struct ib_mr *softib_no_user_mr(SOFTIB_REG_USER_MR_ARGS)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static void softib_fw_str(struct ib_device *ib, char *str)
{
	snprintf(str, IB_FW_VERSION_NAME_MAX, "softib 1");
}

static const struct ib_device_ops softib_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.uverbs_abi_ver = 0,

	.alloc_pd = softib_alloc_pd,
	.attach_mcast = softib_attach_mcast,
	.create_ah = softib_create_ah,
	.create_cq = softib_create_cq,
	.create_qp = softib_create_qp,
	.create_srq = softib_create_srq,
	.dealloc_pd = softib_dealloc_pd,
	.dereg_mr = softib_dereg_mr,
	.destroy_ah = softib_destroy_ah,
	.destroy_cq = softib_destroy_cq,
	.destroy_qp = softib_destroy_qp,
	.destroy_srq = softib_destroy_srq,
	.detach_mcast = softib_detach_mcast,
	.get_dev_fw_str = softib_fw_str,
	.get_dma_mr = softib_get_dma_mr,
	.get_link_layer = softib_link_layer,
	.get_port_immutable = softib_port_immutable,
	.modify_device = softib_modify_device,
	.modify_port = softib_modify_port,
	.modify_qp = softib_modify_qp,
	.modify_srq = softib_modify_srq,
	.poll_cq = softib_poll_cq,
	.post_recv = softib_post_recv,
	.post_send = softib_post_send,
	.post_srq_recv = softib_post_srq_recv,
	.query_ah = softib_query_ah,
	.query_device = softib_query_device,
	.query_gid = softib_query_gid,
	.query_pkey = softib_query_pkey,
	.query_port = softib_query_port,
	.query_qp = softib_query_qp,
	.query_srq = softib_query_srq,
	.reg_user_mr = softib_no_user_mr,
	.req_notify_cq = softib_req_notify_cq,

	INIT_RDMA_OBJ_SIZE(ib_ah, softib_ah, ib),
	INIT_RDMA_OBJ_SIZE(ib_cq, softib_cq, ib),
	INIT_RDMA_OBJ_SIZE(ib_pd, softib_pd, ib),
	INIT_RDMA_OBJ_SIZE(ib_qp, softib_qp, ib),
	INIT_RDMA_OBJ_SIZE(ib_srq, softib_srq, ib),
};

/**
 * softib_set_ops - give an ib_device the verbs of softib
 * @ib: the device, not registered yet
 */
void softib_set_ops(struct ib_device *ib)
{
	ib_set_device_ops(ib, &softib_ops);
}
