// SPDX-License-Identifier: GPL-2.0-only
/*
 * QP0 and QP1, which rxe does not have for an InfiniBand port.
 *
 * A MAD for the port's own LID goes to the subnet administration here or comes
 * back; others go to the peer port in a UDP datagram between the link-local
 * addresses of the network devices. All of it happens in one work item, so
 * that MADs keep their order and receive buffers have one consumer.
 */
#include <linux/in6.h>
#include <linux/moduleparam.h>
#include <linux/net.h>
#include <linux/slab.h>
#include <linux/udp.h>
#include <net/sock.h>
#include <rdma/ib_mad.h>

#include "softib.h"
#include "softib_obj.h"

#define SOFTIB_MAD_MAGIC	0x534d4144
#define SOFTIB_MAD_GRH		BIT(0)
#define SOFTIB_CM_ATTR_REQ	0x0010

static ushort mad_port = 47915;
module_param(mad_port, ushort, 0444);
MODULE_PARM_DESC(mad_port, "UDP port for management datagrams between ports");

/* One management datagram on the wire between two softib ports. */
struct softib_mad_pkt {
	__be32 magic;
	__be16 pkey;
	__be16 slid;
	__be32 src_qp;
	__be32 dst_qp;
	__be32 qkey;
	u8 sl;
	u8 flags;
	__be16 reserved;
	union ib_gid sgid;
	union ib_gid dgid;
	u8 mad[IB_MGMT_MAD_SIZE];
};

struct softib_mad_tx {
	struct list_head node;		/* mad.tx or mad.late */
	unsigned long due;
	struct softib_qp *qp;
	u64 wr_id;
	struct softib_mad_pkt pkt;
};

/* The sum of a scatter list's bytes, up to a MAD, into one buffer. */
static int softib_gather(const struct ib_send_wr *wr, u8 *mad)
{
	u32 n = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		const struct ib_sge *sge = &wr->sg_list[i];

		if (n + sge->length > IB_MGMT_MAD_SIZE)
			return -EINVAL;
		memcpy(mad + n, (void *)(uintptr_t)sge->addr, sge->length);
		n += sge->length;
	}
	return 0;
}

static int softib_mad_build(struct softib_qp *qp, const struct ib_send_wr *wr,
			    struct softib_mad_tx *tx)
{
	struct softib_dev *sdev = qp->sdev;
	const struct ib_ud_wr *ud = ud_wr(wr);
	struct softib_mad_pkt *pkt = &tx->pkt;
	struct softib_ah *ah = to_sah(ud->ah);

	tx->qp = qp;
	tx->wr_id = wr->wr_id;
	pkt->magic = cpu_to_be32(SOFTIB_MAD_MAGIC);
	pkt->pkey = cpu_to_be16(softib_pkey_get(sdev->port, ud->pkey_index));
	pkt->slid = cpu_to_be16(sdev->lid);
	pkt->src_qp = cpu_to_be32(qp->ib.qp_num);
	pkt->dst_qp = cpu_to_be32(ud->remote_qpn);
	/* A Q_Key with the high bit stands for that of the sending QP. */
	pkt->qkey = cpu_to_be32(ud->remote_qkey & BIT(31) ? qp->attr.qkey :
							    ud->remote_qkey);
	pkt->sl = rdma_ah_get_sl(&ah->attr);
	if (rdma_ah_get_ah_flags(&ah->attr) & IB_AH_GRH)
		pkt->flags |= SOFTIB_MAD_GRH;
	pkt->sgid = sdev->gid;
	pkt->dgid = ah->dgid;
	return softib_gather(wr, pkt->mad);
}

/**
 * softib_mad_post_send - post sends to QP0 or QP1
 * @qp: the QP
 * @wr: the WRs
 * @bad: the first one that was not posted
 *
 * Context: any; takes sdev->mad.lock.
 * Return: 0, -ENOMEM or -EINVAL.
 */
int softib_mad_post_send(struct softib_qp *qp, const struct ib_send_wr *wr,
			 const struct ib_send_wr **bad)
{
	struct softib_dev *sdev = qp->sdev;
	struct softib_mad_tx *tx;
	unsigned long flags;
	int ret = 0;

	for (; wr; wr = wr->next) {
		tx = softib_fail(sdev->port, SOFTIB_K_fail_post_mad) ? NULL :
		     kzalloc(sizeof(*tx), GFP_ATOMIC);
		if (!tx) {
			ret = -ENOMEM;
			break;
		}
		ret = softib_mad_build(qp, wr, tx);
		if (ret) {
			kfree(tx);
			break;
		}
		spin_lock_irqsave(&sdev->mad.lock, flags);
		list_add_tail(&tx->node, &sdev->mad.tx);
		spin_unlock_irqrestore(&sdev->mad.lock, flags);
	}
	*bad = wr;
	mod_delayed_work(sdev->wq, &sdev->mad.work, 0);
	return ret;
}

static void softib_scatter(struct softib_slot *slot, u32 off, const void *data,
			   u32 len)
{
	u32 pos = 0, n, skip;
	int i;

	for (i = 0; i < slot->num_sge && len; i++) {
		struct softib_seg *seg = &slot->seg[i];

		if (off < pos + seg->length) {
			skip = off - pos;
			n = min(len, seg->length - skip);
			memcpy((void *)(uintptr_t)seg->addr + skip, data, n);
			data += n;
			off += n;
			len -= n;
		}
		pos += seg->length;
	}
}

static void softib_mad_grh(const struct softib_mad_pkt *pkt, struct ib_grh *grh)
{
	memset(grh, 0, sizeof(*grh));
	if (!(pkt->flags & SOFTIB_MAD_GRH))
		return;
	grh->version_tclass_flow = cpu_to_be32(6 << 28);
	grh->paylen = cpu_to_be16(IB_MGMT_MAD_SIZE);
	grh->next_hdr = 0x1b;
	grh->hop_limit = SOFTIB_HOP_LIMIT;
	grh->sgid = pkt->sgid;
	grh->dgid = pkt->dgid;
}

/* The QP a datagram is for, if it may have it. */
static struct softib_qp *softib_mad_dest(struct softib_dev *sdev,
					 const struct softib_mad_pkt *pkt,
					 u16 *pkey_index)
{
	u32 qpn = be32_to_cpu(pkt->dst_qp);
	struct softib_qp *qp;

	*pkey_index = 0;
	if (qpn > 1)
		return NULL;
	if (qpn == 1) {
		if (be32_to_cpu(pkt->qkey) != IB_QP1_QKEY)
			return NULL;
		if (softib_pkey_find(sdev->port, be16_to_cpu(pkt->pkey),
				     pkey_index)) {
			softib_count(sdev->port, SOFTIB_C_pkey_drops, 1);
			return NULL;
		}
	}
	spin_lock_irq(&sdev->mad.lock);
	qp = sdev->mad.qp[qpn];
	spin_unlock_irq(&sdev->mad.lock);
	return qp && qp->attr.qp_state >= IB_QPS_RTR &&
	       qp->attr.qp_state <= IB_QPS_SQD ? qp : NULL;
}

static void softib_mad_deliver(struct softib_dev *sdev,
			       const struct softib_mad_pkt *pkt)
{
	struct softib_slot *slot;
	struct ib_wc wc = {};
	struct softib_qp *qp;
	struct ib_grh grh;

	qp = softib_mad_dest(sdev, pkt, &wc.pkey_index);
	if (!qp) {
		softib_count(sdev->port, SOFTIB_C_mad_dropped, 1);
		return;
	}
	slot = softib_rq_first(qp->rq);
	if (!slot) {
		softib_count(sdev->port, SOFTIB_C_mad_no_buffer, 1);
		return;
	}
	softib_mad_grh(pkt, &grh);
	softib_scatter(slot, 0, &grh, sizeof(grh));
	softib_scatter(slot, sizeof(grh), pkt->mad, sizeof(pkt->mad));
	wc.wr_id = slot->wr_id;
	wc.status = IB_WC_SUCCESS;
	wc.opcode = IB_WC_RECV;
	wc.qp = &qp->ib;
	wc.byte_len = sizeof(grh) + sizeof(pkt->mad);
	wc.src_qp = be32_to_cpu(pkt->src_qp);
	wc.slid = be16_to_cpu(pkt->slid);
	wc.sl = pkt->sl;
	wc.port_num = SOFTIB_PORT_NUM;
	if (pkt->flags & SOFTIB_MAD_GRH)
		wc.wc_flags = IB_WC_GRH;
	softib_poison_check(qp->rq, slot, wc.byte_len, false);
	softib_rq_release(qp->rq, slot, false);
	softib_count(sdev->port, SOFTIB_C_mad_received, 1);
	softib_cq_inject(to_scq(qp->ib.recv_cq), &wc);
}

static void softib_mad_xmit(struct softib_dev *sdev, struct softib_mad_pkt *pkt)
{
	struct kvec vec = { .iov_base = pkt, .iov_len = sizeof(*pkt) };
	struct sockaddr_in6 to = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(mad_port),
		.sin6_scope_id = sdev->ndev->ifindex,
	};
	struct msghdr msg = {
		.msg_name = &to,
		.msg_namelen = sizeof(to),
		.msg_flags = MSG_DONTWAIT,
	};

	memcpy(&to.sin6_addr, &pkt->dgid, sizeof(to.sin6_addr));
	if (kernel_sendmsg(sdev->mad.sock, &msg, &vec, 1, sizeof(*pkt)) < 0)
		softib_count(sdev->port, SOFTIB_C_mad_dropped, 1);
}

/* To the own LID: the subnet administration, or back to the own QP. */
static void softib_mad_local(struct softib_dev *sdev,
			     const struct softib_mad_pkt *pkt)
{
	const struct ib_mad_hdr *hdr = (const void *)pkt->mad;
	struct softib_mad_pkt *rsp;

	if (hdr->mgmt_class != IB_MGMT_CLASS_SUBN_ADM ||
	    hdr->method & IB_MGMT_METHOD_RESP) {
		softib_mad_deliver(sdev, pkt);
		return;
	}
	softib_count(sdev->port, SOFTIB_C_sa_queries, 1);
	if (softib_take(sdev->port, SOFTIB_K_sa_drop))
		return;
	rsp = kmemdup(pkt, sizeof(*pkt), GFP_KERNEL);
	if (!rsp)
		return;
	rsp->src_qp = pkt->dst_qp;
	rsp->dst_qp = pkt->src_qp;
	rsp->sgid = pkt->dgid;
	rsp->dgid = pkt->sgid;
	if (softib_sa_handle(sdev, pkt->mad, rsp->mad))
		softib_mad_deliver(sdev, rsp);
	kfree(rsp);
}

static bool softib_mad_is_local(struct softib_dev *sdev,
				const struct softib_mad_pkt *pkt)
{
	return !memcmp(&pkt->dgid, &sdev->gid, sizeof(sdev->gid));
}

/* Do the knobs for MADs to other ports mean this one? */
static bool softib_mad_meant(struct softib_dev *sdev,
			     const struct softib_mad_pkt *pkt)
{
	const struct ib_mad_hdr *hdr = (const void *)pkt->mad;
	u32 attr = be16_to_cpu(hdr->attr_id) - SOFTIB_CM_ATTR_REQ;
	u32 mask = softib_knob(sdev->port, SOFTIB_K_cm_mask);

	if (softib_mad_is_local(sdev, pkt))
		return false;
	return !mask || (hdr->mgmt_class == IB_MGMT_CLASS_CM && attr < 32 &&
			 mask & BIT(attr));
}

/* What becomes of a MAD; its sender learns of errors only. */
static enum ib_wc_status softib_mad_go(struct softib_dev *sdev,
				       struct softib_mad_pkt *pkt)
{
	struct softib_port *port = sdev->port;
	bool meant = softib_mad_meant(sdev, pkt);

	if (softib_dead(port))
		return IB_WC_WR_FLUSH_ERR;
	if (meant && softib_fail(port, SOFTIB_K_mad_error))
		return IB_WC_GENERAL_ERR;
	if (softib_mad_is_local(sdev, pkt))
		softib_mad_local(sdev, pkt);
	else if (!softib_knob(port, SOFTIB_K_link))
		softib_count(port, SOFTIB_C_link_drops, 1);
	else if (meant && softib_take(port, SOFTIB_K_mad_drop))
		softib_count(port, SOFTIB_C_mad_dropped, 1);
	else
		softib_mad_xmit(sdev, pkt);
	return IB_WC_SUCCESS;
}

static void softib_mad_send_one(struct softib_dev *sdev,
				struct softib_mad_tx *tx)
{
	struct softib_qp *qp = tx->qp;
	struct ib_wc wc = {
		.wr_id = tx->wr_id,
		.opcode = IB_WC_SEND,
		.qp = &qp->ib,
		.port_num = SOFTIB_PORT_NUM,
	};

	softib_count(sdev->port, SOFTIB_C_mad_sent, 1);
	wc.status = softib_mad_go(sdev, &tx->pkt);
	softib_cq_inject(to_scq(qp->ib.send_cq), &wc);
}

static bool softib_mad_recv_one(struct softib_dev *sdev,
				struct softib_mad_pkt *pkt)
{
	struct kvec vec = { .iov_base = pkt, .iov_len = sizeof(*pkt) };
	struct msghdr msg = {};
	int n;

	n = kernel_recvmsg(sdev->mad.sock, &msg, &vec, 1, sizeof(*pkt),
			   MSG_DONTWAIT);
	if (n < 0)
		return n != -EAGAIN && n != -EBADF;
	if (n != sizeof(*pkt) || pkt->magic != cpu_to_be32(SOFTIB_MAD_MAGIC))
		softib_count(sdev->port, SOFTIB_C_mad_dropped, 1);
	else if (!softib_knob(sdev->port, SOFTIB_K_link) ||
		 softib_dead(sdev->port))
		softib_count(sdev->port, SOFTIB_C_link_drops, 1);
	else
		softib_mad_deliver(sdev, pkt);
	return true;
}

/*
 * The MAD at the head of the queue, but it may have to travel slowly first, or
 * wait until fewer do. Returns whether to look again.
 */
static bool softib_mad_slow(struct softib_dev *sdev, struct softib_mad_tx *tx)
{
	s64 cap = softib_knob(sdev->port, SOFTIB_K_mad_cap);
	s64 ms = softib_knob(sdev->port, SOFTIB_K_mad_delay_ms);
	struct softib_mad *mad = &sdev->mad;

	lockdep_assert_held(&mad->lock);
	if (cap && mad->n_late >= cap)
		return false;
	tx->due = jiffies + msecs_to_jiffies(ms);
	list_move_tail(&tx->node, &mad->late);
	mad->n_late++;
	return true;
}

/* The next MAD to send now: one that has been late enough, or a new one. */
static struct softib_mad_tx *softib_mad_next(struct softib_dev *sdev)
{
	struct softib_mad *mad = &sdev->mad;
	struct softib_mad_tx *tx;

	lockdep_assert_held(&mad->lock);
	tx = list_first_entry_or_null(&mad->late, struct softib_mad_tx, node);
	if (tx && !time_before(jiffies, tx->due)) {
		list_del(&tx->node);
		mad->n_late--;
		return tx;
	}
	while ((tx = list_first_entry_or_null(&mad->tx, struct softib_mad_tx,
					      node))) {
		if (!softib_knob(sdev->port, SOFTIB_K_mad_delay_ms) ||
		    !softib_mad_meant(sdev, &tx->pkt)) {
			list_del(&tx->node);
			return tx;
		}
		if (!softib_mad_slow(sdev, tx))
			return NULL;
	}
	return NULL;
}

static void softib_mad_send_all(struct softib_dev *sdev)
{
	struct softib_mad *mad = &sdev->mad;
	struct softib_mad_tx *tx;

	spin_lock_irq(&mad->lock);
	while ((tx = softib_mad_next(sdev))) {
		spin_unlock_irq(&mad->lock);
		softib_mad_send_one(sdev, tx);
		kfree(tx);
		spin_lock_irq(&mad->lock);
	}
	tx = list_first_entry_or_null(&mad->late, struct softib_mad_tx, node);
	if (tx)
		queue_delayed_work(sdev->wq, &mad->work,
				   max_t(long, tx->due - jiffies, 0));
	spin_unlock_irq(&mad->lock);
}

static void softib_mad_work(struct work_struct *work)
{
	struct softib_dev *sdev = container_of(work, struct softib_dev,
					       mad.work.work);
	struct softib_mad_pkt *pkt;

	softib_mad_send_all(sdev);
	pkt = kmalloc(sizeof(*pkt), GFP_KERNEL);
	if (!pkt)
		return;
	while (softib_mad_recv_one(sdev, pkt))
		;
	kfree(pkt);
}

int softib_mad_attach(struct softib_dev *sdev, struct softib_qp *qp)
{
	u32 i = qp->ib.qp_num;
	int ret = -EBUSY;

	spin_lock_irq(&sdev->mad.lock);
	if (!sdev->mad.qp[i]) {
		sdev->mad.qp[i] = qp;
		ret = 0;
	}
	spin_unlock_irq(&sdev->mad.lock);
	return ret;
}

static unsigned int softib_mad_forget(struct list_head *list,
				      struct softib_qp *qp)
{
	struct softib_mad_tx *tx, *next;
	unsigned int n = 0;

	list_for_each_entry_safe(tx, next, list, node) {
		if (tx->qp != qp)
			continue;
		list_del(&tx->node);
		kfree(tx);
		n++;
	}
	return n;
}

/**
 * softib_mad_detach - QP0 or QP1 goes
 * @sdev: the device
 * @qp: the QP; its sends that wait are forgotten
 *
 * Context: process.
 */
void softib_mad_detach(struct softib_dev *sdev, struct softib_qp *qp)
{
	struct softib_mad *mad = &sdev->mad;

	spin_lock_irq(&mad->lock);
	mad->qp[qp->ib.qp_num] = NULL;
	softib_mad_forget(&mad->tx, qp);
	mad->n_late -= softib_mad_forget(&mad->late, qp);
	spin_unlock_irq(&mad->lock);
	flush_delayed_work(&mad->work);
}

static void softib_data_ready(struct sock *sk)
{
	struct softib_dev *sdev;

	read_lock_bh(&sk->sk_callback_lock);
	sdev = sk->sk_user_data;
	if (sdev)
		mod_delayed_work(sdev->wq, &sdev->mad.work, 0);
	read_unlock_bh(&sk->sk_callback_lock);
}

static void softib_sock_hook(struct sock *sk, struct softib_dev *sdev)
{
	write_lock_bh(&sk->sk_callback_lock);
	sk->sk_user_data = sdev;
	if (sdev)
		sk->sk_data_ready = softib_data_ready;
	write_unlock_bh(&sk->sk_callback_lock);
}

/**
 * softib_mad_start - open the way to the other ports
 * @sdev: the device
 *
 * Context: process.
 * Return: 0 or what the socket calls said.
 */
int softib_mad_start(struct softib_dev *sdev)
{
	struct sockaddr_in6 any = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(mad_port),
	};
	struct softib_mad *mad = &sdev->mad;
	int ret;

	spin_lock_init(&mad->lock);
	INIT_LIST_HEAD(&mad->tx);
	INIT_LIST_HEAD(&mad->late);
	INIT_DELAYED_WORK(&mad->work, softib_mad_work);
	/* rxe's own sockets are in init_net as well. */
	ret = sock_create_kern(&init_net, AF_INET6, SOCK_DGRAM, IPPROTO_UDP,
			       &mad->sock);
	if (ret)
		return ret;
	ret = sock_bindtoindex(mad->sock->sk, sdev->ndev->ifindex, true);
	if (!ret)
		ret = softib_kernel_bind(mad->sock, &any, sizeof(any));
	if (ret) {
		sock_release(mad->sock);
		return ret;
	}
	softib_sock_hook(mad->sock->sk, sdev);
	return 0;
}

void softib_mad_stop(struct softib_dev *sdev)
{
	softib_sock_hook(sdev->mad.sock->sk, NULL);
	cancel_delayed_work_sync(&sdev->mad.work);
	WARN_ON(!list_empty(&sdev->mad.tx) || !list_empty(&sdev->mad.late));
	sock_release(sdev->mad.sock);
}
