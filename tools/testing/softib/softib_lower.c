// SPDX-License-Identifier: GPL-2.0-only
/*
 * The rxe device below: getting hold of it, addresses, memory regions.
 */
#include <linux/etherdevice.h>
#include <linux/slab.h>
#include <rdma/ib_cache.h>

#include "softib.h"
#include "softib_obj.h"

static int softib_lower_gid(struct softib_dev *sdev)
{
	const struct ib_gid_attr *attr;

	attr = rdma_find_gid_by_port(sdev->lower, &sdev->gid,
				     IB_GID_TYPE_ROCE_UDP_ENCAP, 1, sdev->ndev);
	if (IS_ERR(attr))
		return PTR_ERR(attr);
	sdev->sgid_index = attr->index;
	rdma_put_gid_attr(attr);
	return 0;
}

/**
 * softib_lower_get - find and hold the rxe device of a network device
 * @sdev: the device to set up
 * @ndev: the network device
 *
 * Context: process, not under rtnl.
 * Return: 0, -ENODEV without a usable rxe device, -ENOENT without the GID.
 */
int softib_lower_get(struct softib_dev *sdev, struct net_device *ndev)
{
	struct ib_port_attr attr;
	struct ib_device *low;
	int ret = -ENODEV;

	low = ib_device_get_by_netdev(ndev, RDMA_DRIVER_RXE);
	if (!low)
		return -ENODEV;
	if (!ib_get_client_data(low, &softib_client))
		goto put;
	ret = ib_query_port(low, 1, &attr);
	if (ret)
		goto put;
	sdev->lower_attr = low->attrs;
	sdev->max_mtu = attr.max_mtu;
	sdev->active_mtu = attr.active_mtu;
	softib_mac_to_gid(ndev->dev_addr, &sdev->gid);
	sdev->lid = softib_gid_to_lid(&sdev->gid);
	sdev->ndev = ndev;
	sdev->lower = low;
	ret = softib_lower_gid(sdev);
	if (ret)
		goto put;
	netdev_hold(ndev, &sdev->ndev_tracker, GFP_KERNEL);
	return 0;

put:
	ib_device_put(low);
	return ret;
}

void softib_lower_put(struct softib_dev *sdev)
{
	netdev_put(sdev->ndev, &sdev->ndev_tracker);
	ib_device_put(sdev->lower);
}

static void softib_dest_mac(const union ib_gid *gid, u8 *mac)
{
	if (gid->raw[0] != 0xff) {
		softib_gid_to_mac(gid, mac);
		return;
	}
	mac[0] = 0x33;
	mac[1] = 0x33;
	memcpy(mac + 2, gid->raw + 12, 4);
}

/**
 * softib_lower_av - translate an address vector for the lower device
 * @sdev: the device
 * @upper: the user's address: a LID, a GRH or both
 * @lower: result; the lower core adds the source GID itself
 *
 * Context: any.
 * Return: 0 or -EINVAL.
 */
int softib_lower_av(struct softib_dev *sdev, const struct rdma_ah_attr *upper,
		    struct rdma_ah_attr *lower)
{
	union ib_gid dgid;
	u8 tclass = 0;

	if (rdma_ah_get_ah_flags(upper) & IB_AH_GRH) {
		const struct ib_global_route *grh = rdma_ah_read_grh(upper);

		if (grh->sgid_index)
			return -EINVAL;
		dgid = grh->dgid;
		tclass = grh->traffic_class;
	} else {
		softib_lid_to_gid(sdev, rdma_ah_get_dlid(upper), &dgid);
	}

	memset(lower, 0, sizeof(*lower));
	lower->type = RDMA_AH_ATTR_TYPE_ROCE;
	rdma_ah_set_grh(lower, &dgid, 0, sdev->sgid_index, SOFTIB_HOP_LIMIT,
			tclass);
	rdma_ah_set_port_num(lower, 1);
	softib_dest_mac(&dgid, lower->roce.dmac);
	return 0;
}

struct ib_mr *softib_get_dma_mr(struct ib_pd *ibpd, int access)
{
	struct softib_pd *pd = to_spd(ibpd);
	struct ib_mr *mr;

	if (softib_fail(pd->sdev->port, SOFTIB_K_fail_create_mr))
		return ERR_PTR(-ENOMEM);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->lkey = pd->lower->local_dma_lkey;
	mr->rkey = mr->lkey;
	softib_count(pd->sdev->port, SOFTIB_C_mrs, 1);
	return mr;
}

int softib_dereg_mr(struct ib_mr *mr, struct ib_udata *udata)
{
	softib_count(to_sdev(mr->device)->port, SOFTIB_C_mrs, -1);
	kfree(mr);
	return 0;
}
