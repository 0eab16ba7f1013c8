/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * softib: an InfiniBand port in software, stacked on rdma_rxe.
 *
 * A port (struct softib_port) exists from module load to module unload and
 * keeps the tables, knobs and counters. A device (struct softib_dev) is one
 * plugged-in ib_device; unplugging and plugging makes a new one.
 *
 * Lock order, outer first; a lock on one line is never taken inside one on a
 * later line:
 *   port->plug_lock (mutex)
 *   sdev->mcast.lock, sdev->sa.lock (spin), sdev->qp_lock (mutex)
 *   cq->lock
 *   qp->sq.lock, rq->lock, pd->ah_lock, sdev->mad.lock
 *   qp->ev_lock, part.lock, port->pkey_lock, port->poison_lock, fw.lock
 *   whatever rdma_rxe takes
 * rxe calls event and completion handlers under its own locks, so these
 * handlers take none of the above but qp->ev_lock, below which nothing is
 * called.
 */
#ifndef SOFTIB_H
#define SOFTIB_H

#include <linux/hashtable.h>
#include <linux/in6.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/netfilter.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>

#include "softib_compat.h"
#include "softib_knob.h"

#define SOFTIB_MAX_PORTS	32
#define SOFTIB_PORT_NUM		1
#define SOFTIB_PKEY_LEN		128
#define SOFTIB_HOP_LIMIT	64
#define SOFTIB_IMM_LIMITED	0x53494200 /* a limited member's UD send */
#define SOFTIB_POISON_BITS	10
#define SOFTIB_PART_BITS	8
#define SOFTIB_N_TEXT_FILES	7

struct dentry;
struct platform_device;
struct softib_dev;
struct softib_port;
struct softib_qp;

/* One knob file: which knob of which port. */
struct softib_knob_ref {
	struct softib_port *port;
	int idx;
};

struct softib_text_file;

/* One file that lists something of a port. */
struct softib_text_ref {
	struct softib_port *port;
	const struct softib_text_file *file;
};

/* Command slots of the port's pretended firmware. */
struct softib_fw {
	spinlock_t lock;		/* guards busy */
	unsigned int busy;
	wait_queue_head_t wait;
};

struct softib_port {
	struct list_head node;
	int index;
	char name[IB_DEVICE_NAME_MAX];
	char ndev_name[IFNAMSIZ];

	struct mutex plug_lock;		/* guards sdev and (un)plugging */
	struct softib_dev *sdev;
	struct work_struct unplug_work;

	spinlock_t pkey_lock;		/* guards pkey[] */
	u16 pkey[SOFTIB_PKEY_LEN];

	spinlock_t poison_lock;		/* guards poison */
	DECLARE_HASHTABLE(poison, SOFTIB_POISON_BITS);

	struct softib_fw fw;
	wait_queue_head_t hold;		/* destroys wait for their knob */
	atomic64_t knob[SOFTIB_N_KNOBS];
	struct softib_knob_ref knob_ref[SOFTIB_N_KNOBS];
	struct softib_text_ref text_ref[SOFTIB_N_TEXT_FILES];
	atomic64_t counter[SOFTIB_N_COUNTERS];
	struct dentry *dir;
};

/* QP0 and QP1, the socket to the other ports. */
struct softib_mad {
	struct socket *sock;
	spinlock_t lock;		/* guards qp[], tx, late, n_late */
	struct softib_qp *qp[2];
	struct list_head tx, late;	/* to send; on the way, slowly */
	unsigned int n_late;
	struct delayed_work work;	/* the only one that sends, receives */
};

struct softib_mcast {
	spinlock_t lock;		/* guards groups and their refs */
	struct list_head groups;
	struct work_struct work;
	struct list_head socks;		/* only touched by work and teardown */
};

/* What the subnet administration remembers of this port. */
struct softib_sa {
	spinlock_t lock;		/* guards members */
	struct list_head members;
};

/* RC QPs by number, and by their peer's those with a changed P_Key. */
struct softib_part {
	spinlock_t lock;		/* guards all below */
	DECLARE_HASHTABLE(qps, SOFTIB_PART_BITS);
	DECLARE_HASHTABLE(moved, SOFTIB_PART_BITS);
	unsigned int n_moved;
};

struct softib_dev {
	struct ib_device ib;
	struct softib_port *port;
	struct platform_device *pdev;

	struct ib_device *lower;
	struct net_device *ndev;
	netdevice_tracker ndev_tracker;
	struct ib_device_attr lower_attr;
	u8 max_mtu, active_mtu;
	u16 sgid_index;			/* of gid in the lower device */
	union ib_gid gid;
	u16 lid;

	struct softib_part part;
	struct workqueue_struct *wq;	/* events, ordered for each item */
	struct work_struct mtu_work;
	struct mutex qp_lock;		/* guards qps, srqs, P_Keys of QPs */
	struct list_head qps, srqs;

	struct nf_hook_ops hooks[2];	/* both: plug_lock */
	bool hooked;

	struct softib_mad mad;
	struct softib_mcast mcast;
	struct softib_sa sa;
};

static inline bool softib_dead(const struct softib_port *port)
{
	return softib_knob(port, SOFTIB_K_dead);
}

static inline struct softib_dev *to_sdev(struct ib_device *ib)
{
	return container_of(ib, struct softib_dev, ib);
}

/* softib_main.c */
extern struct ib_client softib_client;
int softib_plug(struct softib_port *port);
void softib_unplug(struct softib_port *port);
struct net_device *softib_find_ndev(const char *name);

/* softib_dev.c */
void softib_set_ops(struct ib_device *ib);
int softib_query_port(struct ib_device *ib, u32 num, struct ib_port_attr *a);
bool softib_link_up(struct softib_dev *sdev);
void softib_dispatch(struct softib_dev *sdev, enum ib_event_type type);

/* softib_tables.c */
bool softib_pkey_match(u16 a, u16 b);
u16 softib_pkey_get(struct softib_port *port, u16 index);
int softib_pkey_set(struct softib_port *port, u16 index, u16 pkey);
int softib_pkey_find(struct softib_port *port, u16 pkey, u16 *index);
u32 softib_wire_qkey(u32 qkey, u16 pkey, bool send);
u32 softib_wire_psn(u32 psn, u16 pkey, bool to_wire);
void softib_mac_to_gid(const u8 *mac, union ib_gid *gid);
void softib_gid_to_mac(const union ib_gid *gid, u8 *mac);
u16 softib_gid_to_lid(const union ib_gid *gid);
void softib_lid_to_gid(const struct softib_dev *sdev, u16 lid,
		       union ib_gid *gid);

/* softib_mad.c */
int softib_mad_start(struct softib_dev *sdev);
void softib_mad_stop(struct softib_dev *sdev);
int softib_mad_attach(struct softib_dev *sdev, struct softib_qp *qp);
void softib_mad_detach(struct softib_dev *sdev, struct softib_qp *qp);
int softib_mad_post_send(struct softib_qp *qp, const struct ib_send_wr *wr,
			 const struct ib_send_wr **bad);

/* softib_sa.c */
void softib_sa_init(struct softib_dev *sdev);
void softib_sa_exit(struct softib_dev *sdev);
void softib_sa_forget(struct softib_dev *sdev);
bool softib_sa_handle(struct softib_dev *sdev, const void *req, void *rsp);
struct seq_file;
void softib_sa_show(struct softib_dev *sdev, struct seq_file *s);

/* softib_mcast.c */
void softib_mcast_init(struct softib_dev *sdev);
void softib_mcast_exit(struct softib_dev *sdev);
int softib_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);
int softib_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);
void softib_mcast_show(struct softib_dev *sdev, struct seq_file *s);

/* softib_lower.c */
int softib_lower_get(struct softib_dev *sdev, struct net_device *ndev);
void softib_lower_put(struct softib_dev *sdev);
int softib_lower_av(struct softib_dev *sdev, const struct rdma_ah_attr *upper,
		    struct rdma_ah_attr *lower);

/* softib_wire.c */
void softib_wire_watch(struct softib_dev *sdev);
void softib_wire_leave(struct softib_dev *sdev);

/* softib_part.c */
struct sk_buff;
void softib_part_init(struct softib_dev *sdev);
void softib_part_out(struct softib_dev *sdev, struct sk_buff *skb,
		     unsigned int off);
bool softib_part_in(struct softib_dev *sdev, struct sk_buff *skb,
		    unsigned int off);

/* softib_cmid.c */
bool softib_cmid_init(void);
void softib_cmid_exit(void);

/* softib_fw.c */
void softib_fw_init(struct softib_fw *fw);
void softib_fw_cmd(struct softib_port *port);

/* softib_debugfs.c */
void softib_debugfs_init(void);
void softib_debugfs_exit(void);
void softib_debugfs_add(struct softib_port *port);
void softib_debugfs_del(struct softib_port *port);

#endif /* SOFTIB_H */
