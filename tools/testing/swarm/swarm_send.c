// SPDX-License-Identifier: GPL-2.0-only
/*
 * Packets: IPoIB header, IPv4, UDP, a tag, and a payload that the receiver
 * can check: octet i of the message behind the UDP header is i modulo 251.
 */
#include <linux/if_ether.h>
#include <linux/slab.h>
#include <net/checksum.h>
#include <net/ip.h>

#include "swarm.h"

#define SWARM_PERIOD	251

/**
 * swarm_pattern_make() - make what packets carry
 * @port: the port
 *
 * Context: process.
 * Return: 0 or -ENOMEM.
 */
int swarm_pattern_make(struct swarm_port *port)
{
	u8 *octet;
	int i;

	octet = kmalloc(SWARM_LONG, GFP_KERNEL);
	if (!octet)
		return -ENOMEM;
	for (i = 0; i < SWARM_LONG; i++)
		octet[i] = (i + sizeof(struct swarm_tag)) % SWARM_PERIOD;
	port->pattern_dma = ib_dma_map_single(port->ib, octet, SWARM_LONG,
					      DMA_TO_DEVICE);
	if (ib_dma_mapping_error(port->ib, port->pattern_dma)) {
		kfree(octet);
		return -ENOMEM;
	}
	port->pattern = octet;
	return 0;
}

void swarm_pattern_free(struct swarm_port *port)
{
	ib_dma_unmap_single(port->ib, port->pattern_dma, SWARM_LONG,
			    DMA_TO_DEVICE);
	kfree(port->pattern);
}

static void swarm_fill(struct swarm_conn *conn, u32 payload)
{
	u16 len = sizeof(struct udphdr) + sizeof(struct swarm_tag) + payload;
	struct swarm_port *port = conn->port;
	struct swarm_head *head = &conn->head;
	__wsum sum;

	memset(head, 0, sizeof(*head));
	head->proto = htons(ETH_P_IP);
	head->ip.version = 4;
	head->ip.ihl = sizeof(head->ip) / 4;
	head->ip.tot_len = htons(sizeof(head->ip) + len);
	head->ip.id = htons(conn->seq);
	head->ip.frag_off = htons(IP_DF);
	head->ip.ttl = 64;
	head->ip.protocol = IPPROTO_UDP;
	head->ip.saddr = conn->target.saddr;
	head->ip.daddr = conn->target.daddr;
	head->ip.check = ip_fast_csum(&head->ip, head->ip.ihl);
	head->udp.source = htons(SWARM_TAG_MAGIC & 0xffff);
	head->udp.dest = htons(swarm_knob(port, SWARM_K_udp_port));
	head->udp.len = htons(len);
	head->tag.magic = cpu_to_be32(SWARM_TAG_MAGIC);
	memcpy(&head->tag.from, port->sgid.raw + 12, sizeof(head->tag.from));
	head->tag.conn = cpu_to_be32(conn->id);
	head->tag.seq = cpu_to_be32(conn->seq++);
	sum = csum_partial(&head->udp, sizeof(head->udp) + sizeof(head->tag),
			   0);
	sum = csum_partial(port->pattern, payload, sum);
	head->udp.check = csum_tcpudp_magic(head->ip.saddr, head->ip.daddr, len,
					    IPPROTO_UDP, sum);
	if (!head->udp.check)
		head->udp.check = CSUM_MANGLED_0;
}

static int swarm_post(struct swarm_conn *conn)
{
	struct swarm_port *port = conn->port;
	u32 payload = min(swarm_knob(port, SWARM_K_payload), SWARM_PAYLOAD_MAX);
	struct ib_sge sge[] = {
		{
			.addr = conn->head_dma,
			.length = sizeof(conn->head),
			.lkey = port->pd->local_dma_lkey,
		}, {
			.addr = port->pattern_dma,
			.length = payload,
			.lkey = port->pd->local_dma_lkey,
		},
	};
	struct ib_send_wr wr = {
		.wr_cqe = &conn->sent_cqe,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
		.sg_list = sge,
		.num_sge = payload ? 2 : 1,
	};
	const struct ib_send_wr *bad;

	lockdep_assert_held(&conn->lock);
	ib_dma_sync_single_for_cpu(port->ib, conn->head_dma,
				   sizeof(conn->head), DMA_TO_DEVICE);
	swarm_fill(conn, payload);
	ib_dma_sync_single_for_device(port->ib, conn->head_dma,
				      sizeof(conn->head), DMA_TO_DEVICE);
	conn->posted = true;
	return ib_post_send(conn->qp, &wr, &bad);
}

/* A packet has been sent, or not: the next one, if there is one. */
static void swarm_sent(struct ib_cq *cq, struct ib_wc *wc)
{
	struct swarm_conn *conn = container_of(wc->wr_cqe, struct swarm_conn,
					       sent_cqe);
	bool ok = wc->status == IB_WC_SUCCESS;
	bool more, up;

	swarm_count(conn->port, ok ? SWARM_C_packets : SWARM_C_send_errors);
	spin_lock(&conn->lock);
	up = conn->state == SWARM_UP;
	if (conn->left)
		conn->left--;
	more = ok && up && conn->left;
	if (more && swarm_post(conn))
		ok = false;
	more = more && ok;
	spin_unlock(&conn->lock);
	if (more)
		return;
	swarm_send_over(conn);
	if (!ok && up)
		swarm_tell(conn, SWARM_W_END);
}

/* The peer must refuse it: the buffers that it offers are shorter. */
static void swarm_long_sent(struct ib_cq *cq, struct ib_wc *wc)
{
	struct swarm_conn *conn = container_of(wc->wr_cqe, struct swarm_conn,
					       long_cqe);

	if (wc->status == IB_WC_SUCCESS)
		swarm_count(conn->port, SWARM_C_long_accepted);
	swarm_tell(conn, SWARM_W_END);
}

/**
 * swarm_send_init() - prepare the sending part of a connection
 * @conn: the connection
 */
void swarm_send_init(struct swarm_conn *conn)
{
	conn->sent_cqe.done = swarm_sent;
	conn->long_cqe.done = swarm_long_sent;
}

/**
 * swarm_send_first() - send the first of the packets that are asked for
 * @conn: the connection; in its work
 */
void swarm_send_first(struct swarm_conn *conn)
{
	int ret = 0;

	spin_lock(&conn->lock);
	if (conn->state == SWARM_UP && conn->left)
		ret = swarm_post(conn);
	spin_unlock(&conn->lock);
	if (!ret)
		return;
	swarm_count(conn->port, SWARM_C_send_errors);
	swarm_send_over(conn);
	swarm_tell(conn, SWARM_W_END);
}

/**
 * swarm_send_over() - no packet of a connection is left to be sent
 * @conn: the connection
 *
 * Those that are asked for and have not been sent are forgotten.
 */
void swarm_send_over(struct swarm_conn *conn)
{
	bool over;

	spin_lock(&conn->lock);
	over = conn->counted;
	conn->counted = false;
	conn->left = 0;
	spin_unlock(&conn->lock);
	if (over) {
		atomic_dec(&conn->port->sending);
		wake_up_all(&conn->port->wait);
	}
}

/**
 * swarm_send_long() - send what breaks the peer's QP
 * @conn: the connection; in its work
 *
 * Return: 0 or -errno.
 */
int swarm_send_long(struct swarm_conn *conn)
{
	struct ib_sge sge = {
		.addr = conn->port->pattern_dma,
		.length = SWARM_LONG,
		.lkey = conn->port->pd->local_dma_lkey,
	};
	struct ib_send_wr wr = {
		.wr_cqe = &conn->long_cqe,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
	};
	const struct ib_send_wr *bad;

	conn->posted = true;
	return ib_post_send(conn->qp, &wr, &bad);
}

static void swarm_order(struct swarm_conn *conn, unsigned int n)
{
	bool first = false;

	spin_lock(&conn->lock);
	if (conn->state == SWARM_UP) {
		first = !conn->counted;
		conn->counted = true;
		conn->left += n;
		if (first)
			atomic_inc(&conn->port->sending);
	}
	spin_unlock(&conn->lock);
	if (first)
		swarm_tell(conn, SWARM_W_SEND);
}

/**
 * swarm_send() - send packets on all connections, and wait until all are sent
 * @port: the port
 * @n: packets on each
 *
 * Context: process.
 * Return: 0, -EINTR, -ENODEV.
 */
int swarm_send(struct swarm_port *port, unsigned int n)
{
	struct swarm_conn *conn;

	if (!n)
		return 0;
	spin_lock(&port->lock);
	list_for_each_entry(conn, &port->conns, node)
		swarm_order(conn, n);
	spin_unlock(&port->lock);
	if (wait_event_interruptible(port->wait, READ_ONCE(port->closing) ||
				     !atomic_read(&port->sending)))
		return -EINTR;
	return READ_ONCE(port->closing) ? -ENODEV : 0;
}
