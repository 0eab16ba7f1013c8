/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * swarm: many connected-mode IPoIB peers on one InfiniBand port.
 *
 * A connection (struct swarm_conn) takes all its steps in one work item; CM
 * events, completions and commands leave word in its bits and queue it. What a
 * command waits for are gauges of the port.
 *
 * Lock order, outer first:
 *   port->ctl (mutex)
 *   port->lock (spin)
 *   conn->lock (spin)
 *   whatever ib_post_send() takes
 * CM events, completions and commands all come in process context, so that
 * none of the spinlocks is taken with interrupts or bottom halves off.
 */
#ifndef SWARM_H
#define SWARM_H

#include <linux/ip.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/udp.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <rdma/ib_cm.h>
#include <rdma/ib_sa.h>
#include <rdma/ib_verbs.h>

#include "swarm_tables.h"

#define SWARM_PORT_NUM		1
#define SWARM_REASONS		64	/* REJ reasons that are told apart */
#define SWARM_PAYLOAD_MAX	65000u
#define SWARM_LONG		(17 * 4096)	/* more than any receive buffer */
#define SWARM_TAG_MAGIC		0x5357524d
#define SWARM_WORKERS		16

/* Bits of &struct swarm_conn.word: news for the work. */
enum swarm_word {
	SWARM_W_DIAL,		/* begin */
	SWARM_W_REP,		/* REP received */
	SWARM_W_END,		/* it is over */
	SWARM_W_LEAVE,		/* told to leave */
	SWARM_W_SEND,		/* told to send */
};

/**
 * struct swarm_target - whom to connect to
 * @path: as the subnet administration knows it
 * @service: service ID of the listener
 * @daddr: IPv4 address of the interface
 * @saddr: IPv4 address that packets pretend to be from
 */
struct swarm_target {
	struct sa_path_rec path;
	__be64 service;
	__be32 daddr;
	__be32 saddr;
};

/* What tells the receiver which packet it has got. */
struct swarm_tag {
	__be32 magic;
	__be32 from;		/* last 32 bits of the port's GID */
	__be32 conn;
	__be32 seq;
} __packed;

/* All of a packet but its payload, which is the same in all of them. */
struct swarm_head {
	__be16 proto;
	__be16 reserved;
	struct iphdr ip;
	struct udphdr udp;
	struct swarm_tag tag;
} __packed __aligned(4);

/**
 * struct swarm_port - one InfiniBand port that a swarm may start from
 * @ib: the device
 * @ctl: guards the making of what is below @started, and serialises targets
 * @started: PD, CQ, work queue and pattern are there
 * @wq: steps of connections
 * @pattern: payload of packets, SWARM_LONG octets
 * @pattern_dma: its DMA address
 * @sgid: GID 0 of the port
 * @lock: guards @conns, @next_id, @target, @closing, @rej and @answer_us_max
 * @conns: connections that are not gone
 * @next_id: number of the next connection
 * @target: whom to connect to; no service ID: not said yet
 * @closing: the device is being removed
 * @rej: REJs received, by reason
 * @answer_us_max: longest time between a REQ and its answer
 * @wait: woken when a gauge goes down
 * @gauge: connections in each state
 * @sending: connections that have packets to send
 * @counter: @knob: see the tables
 * @dir: in debugfs
 * @file: what its command files point to
 */
struct swarm_port {
	struct ib_device *ib;
	struct mutex ctl;
	bool started;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct workqueue_struct *wq;
	void *pattern;
	u64 pattern_dma;
	union ib_gid sgid;
	spinlock_t lock;
	struct list_head conns;
	u32 next_id;
	struct swarm_target target;
	bool closing;
	u32 rej[SWARM_REASONS];
	u32 answer_us_max;
	wait_queue_head_t wait;
	atomic_t gauge[SWARM_NSTATES];
	atomic_t sending;
	atomic64_t counter[SWARM_NCOUNTERS];
	u32 knob[SWARM_NKNOBS];
	struct dentry *dir;
	struct swarm_file *file;
};

/**
 * struct swarm_conn - one connection
 * @port: its port
 * @node: on &struct swarm_port.conns
 * @ref: one for the list, one while @work is queued or runs
 * @work: takes its steps
 * @word: enum swarm_word; atomic
 * @id: number, told in packets
 * @target: whom it connects to
 * @cm: CM id; made and destroyed in @work
 * @qp: the same
 * @psn: first PSN that it would expect
 * @posted: something was posted to @qp
 * @req_at: when the REQ was sent
 * @lock: guards @state, @how, @left, @counted and @seq, and keeps posts of
 *	packets within SWARM_UP
 * @state: set by swarm_set_state() only
 * @how: in which way it leaves
 * @left: packets still to be sent
 * @counted: it is among the port's @sending
 * @seq: number of the next packet
 * @sent_cqe: completions of packets
 * @long_cqe: completion of the message that is too long
 * @head: head of the packet that is being sent
 * @head_dma: its DMA address
 */
struct swarm_conn {
	struct swarm_port *port;
	struct list_head node;
	struct kref ref;
	struct work_struct work;
	unsigned long word;
	u32 id;
	struct swarm_target target;
	struct ib_cm_id *cm;
	struct ib_qp *qp;
	u32 psn;
	bool posted;
	ktime_t req_at;
	spinlock_t lock;
	enum swarm_state state;
	enum swarm_way how;
	u32 left;
	bool counted;
	u32 seq;
	struct ib_cqe sent_cqe;
	struct ib_cqe long_cqe;
	struct swarm_head head;
	u64 head_dma;
};

static inline u32 swarm_knob(const struct swarm_port *port, enum swarm_knob k)
{
	return READ_ONCE(port->knob[k]);
}

static inline void swarm_count(struct swarm_port *port, enum swarm_counter c)
{
	atomic64_inc(&port->counter[c]);
}

/* swarm_main.c */
int swarm_aim(struct swarm_port *port, const union ib_gid *dgid, u16 pkey,
	      struct swarm_target *target);

/* swarm_conn.c */
int swarm_open(struct swarm_port *port, unsigned int n);
int swarm_leave(struct swarm_port *port, enum swarm_way how, unsigned int n);
void swarm_end_all(struct swarm_port *port);
void swarm_tell(struct swarm_conn *conn, enum swarm_word word);

/* swarm_send.c */
int swarm_send(struct swarm_port *port, unsigned int n);
void swarm_send_init(struct swarm_conn *conn);
void swarm_send_first(struct swarm_conn *conn);
void swarm_send_over(struct swarm_conn *conn);
int swarm_send_long(struct swarm_conn *conn);
int swarm_pattern_make(struct swarm_port *port);
void swarm_pattern_free(struct swarm_port *port);

/* swarm_debugfs.c */
extern const u32 swarm_knob_default[SWARM_NKNOBS];
void swarm_debugfs_init(void);
void swarm_debugfs_exit(void);
int swarm_debugfs_add(struct swarm_port *port);
void swarm_debugfs_del(struct swarm_port *port);

#endif /* SWARM_H */
