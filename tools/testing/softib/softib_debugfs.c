// SPDX-License-Identifier: GPL-2.0-only
/*
 * /sys/kernel/debug/softib/<device>/: knobs, counters, tables, triggers.
 */
#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "softib.h"
#include "softib_obj.h"

static struct dentry *softib_root;

static ssize_t softib_read_knob(struct file *file, char __user *buf,
				size_t len, loff_t *pos)
{
	struct softib_knob_ref *ref = file->private_data;
	char text[32];
	int n;

	n = scnprintf(text, sizeof(text), "%lld\n",
		      softib_knob(ref->port, ref->idx));
	return simple_read_from_buffer(buf, len, pos, text, n);
}

static ssize_t softib_write_knob(struct file *file, const char __user *buf,
				 size_t len, loff_t *pos)
{
	struct softib_knob_ref *ref = file->private_data;
	s64 val;
	int ret;

	ret = kstrtoll_from_user(buf, len, 0, &val);
	if (!ret)
		ret = softib_knob_set(ref->port, ref->idx, val);
	return ret ? ret : len;
}

static const struct file_operations softib_knob_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.read = softib_read_knob,
	.write = softib_write_knob,
};

static int softib_counters_show(struct seq_file *s, void *unused)
{
	struct softib_port *port = s->private;
	int i;

	for (i = 0; i < SOFTIB_N_COUNTERS; i++)
		seq_printf(s, "%s %lld\n", softib_counter_name[i],
			   atomic64_read(&port->counter[i]));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(softib_counters);

/* A file that lists something and takes one line of text. */
struct softib_text_file {
	const char *name;
	void (*show)(struct softib_port *port, struct seq_file *s);
	int (*store)(struct softib_port *port, char *line);
};

static void softib_pkeys_show(struct softib_port *port, struct seq_file *s)
{
	u16 pkey;
	int i;

	for (i = 0; i < SOFTIB_PKEY_LEN; i++) {
		pkey = softib_pkey_get(port, i);
		if (pkey)
			seq_printf(s, "%d 0x%04x\n", i, pkey);
	}
}

static int softib_pkeys_store(struct softib_port *port, char *line)
{
	unsigned int index, pkey;

	if (sscanf(line, "%u %i", &index, &pkey) != 2 || pkey > 0xffff)
		return -EINVAL;
	return softib_pkey_set(port, index, pkey);
}

static void softib_mgids_show(struct softib_port *port, struct seq_file *s)
{
	mutex_lock(&port->plug_lock);
	if (port->sdev)
		softib_mcast_show(port->sdev, s);
	mutex_unlock(&port->plug_lock);
}

static void softib_members_show(struct softib_port *port, struct seq_file *s)
{
	mutex_lock(&port->plug_lock);
	if (port->sdev)
		softib_sa_show(port->sdev, s);
	mutex_unlock(&port->plug_lock);
}

static void softib_qps_show(struct softib_port *port, struct seq_file *s)
{
	struct softib_qp *qp;

	mutex_lock(&port->plug_lock);
	if (port->sdev) {
		mutex_lock(&port->sdev->qp_lock);
		list_for_each_entry(qp, &port->sdev->qps, node)
			seq_printf(s, "qpn 0x%06x type %d state %d pkey 0x%04x srq %d err %d\n",
				   qp->ib.qp_num, qp->ib.qp_type,
				   qp->in_err ? IB_QPS_ERR : qp->attr.qp_state,
				   qp->pkey,
				   qp->rq && qp->rq->shared, qp->in_err);
		mutex_unlock(&port->sdev->qp_lock);
	}
	mutex_unlock(&port->plug_lock);
}

static void softib_plugged_show(struct softib_port *port, struct seq_file *s)
{
	seq_printf(s, "%d\n", !!READ_ONCE(port->sdev));
}

static int softib_plugged_store(struct softib_port *port, char *line)
{
	bool on;
	int ret;

	ret = kstrtobool(line, &on);
	if (ret)
		return ret;
	if (on)
		return softib_plug(port);
	softib_unplug(port);
	return 0;
}

static const struct {
	const char *name;
	int type;
	enum { SOFTIB_OF_PORT, SOFTIB_OF_QP, SOFTIB_OF_SRQ } of;
} softib_events[] = {
	{ "reregister", IB_EVENT_CLIENT_REREGISTER },
	{ "port_active", IB_EVENT_PORT_ACTIVE },
	{ "port_err", IB_EVENT_PORT_ERR },
	{ "lid_change", IB_EVENT_LID_CHANGE },
	{ "pkey_change", IB_EVENT_PKEY_CHANGE },
	{ "sm_change", IB_EVENT_SM_CHANGE },
	{ "gid_change", IB_EVENT_GID_CHANGE },
	{ "device_fatal", IB_EVENT_DEVICE_FATAL },
	{ "qp_fatal", IB_EVENT_QP_FATAL, SOFTIB_OF_QP },
	{ "qp_req_err", IB_EVENT_QP_REQ_ERR, SOFTIB_OF_QP },
	{ "qp_access_err", IB_EVENT_QP_ACCESS_ERR, SOFTIB_OF_QP },
	{ "qp_comm_est", IB_EVENT_COMM_EST, SOFTIB_OF_QP },
	{ "qp_lwqe", IB_EVENT_QP_LAST_WQE_REACHED, SOFTIB_OF_QP },
	{ "qp_error", SOFTIB_EVENT_ERR, SOFTIB_OF_QP },
	{ "srq_limit", IB_EVENT_SRQ_LIMIT_REACHED, SOFTIB_OF_SRQ },
	{ "srq_err", IB_EVENT_SRQ_ERR, SOFTIB_OF_SRQ },
};

static void softib_event_show(struct softib_port *port, struct seq_file *s)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(softib_events); i++)
		seq_printf(s, "%s\n", softib_events[i].name);
}

/* An event of a QP (0: of all that are connected), or of all SRQs. */
static int softib_event_objects(struct softib_dev *sdev, int i, u32 qpn)
{
	struct softib_srq *srq;
	struct softib_qp *qp;
	int ret = -ENOENT;

	mutex_lock(&sdev->qp_lock);
	if (softib_events[i].of == SOFTIB_OF_SRQ) {
		list_for_each_entry(srq, &sdev->srqs, node) {
			softib_srq_event(srq, softib_events[i].type);
			ret = 0;
		}
	} else {
		list_for_each_entry(qp, &sdev->qps, node) {
			if (!qp->lower || (qpn ? qp->ib.qp_num != qpn :
					   qp->ib.qp_type != IB_QPT_RC))
				continue;
			softib_event_async(qp, softib_events[i].type);
			ret = 0;
		}
	}
	mutex_unlock(&sdev->qp_lock);
	return ret;
}

static int softib_event_raise(struct softib_port *port, int i, u32 qpn)
{
	int ret = -ENODEV;

	mutex_lock(&port->plug_lock);
	if (port->sdev && softib_events[i].of == SOFTIB_OF_PORT) {
		/* It is asked for by a subnet manager that has no memberships. */
		if (softib_events[i].type == IB_EVENT_CLIENT_REREGISTER)
			softib_sa_forget(port->sdev);
		softib_dispatch(port->sdev, softib_events[i].type);
		ret = 0;
	} else if (port->sdev) {
		ret = softib_event_objects(port->sdev, i, qpn);
	}
	mutex_unlock(&port->plug_lock);
	return ret;
}

static int softib_event_store(struct softib_port *port, char *line)
{
	char name[24];
	u32 qpn = 0;
	int i;

	if (sscanf(line, "%23s %i", name, &qpn) < 1)
		return -EINVAL;
	for (i = 0; i < ARRAY_SIZE(softib_events); i++) {
		if (!strcmp(name, softib_events[i].name))
			return softib_event_raise(port, i, qpn);
	}
	return -EINVAL;
}

static int softib_reset_store(struct softib_port *port, char *line)
{
	softib_knob_reset(port);
	return 0;
}

static const struct softib_text_file softib_text_files[] = {
	{ "pkeys", softib_pkeys_show, softib_pkeys_store },
	{ "mgids", softib_mgids_show },
	{ "members", softib_members_show },
	{ "qps", softib_qps_show },
	{ "plugged", softib_plugged_show, softib_plugged_store },
	{ "event", softib_event_show, softib_event_store },
	{ "reset", NULL, softib_reset_store },
};

static int softib_text_show(struct seq_file *s, void *unused)
{
	const struct softib_text_ref *ref = s->private;

	if (ref->file->show)
		ref->file->show(ref->port, s);
	return 0;
}

static int softib_text_open(struct inode *inode, struct file *file)
{
	return single_open(file, softib_text_show, inode->i_private);
}

static ssize_t softib_text_write(struct file *file, const char __user *buf,
				 size_t len, loff_t *pos)
{
	struct seq_file *s = file->private_data;
	const struct softib_text_ref *ref = s->private;
	char line[64];
	int ret;

	if (!ref->file->store)
		return -EACCES;
	if (len >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, buf, len))
		return -EFAULT;
	line[len] = '\0';
	ret = ref->file->store(ref->port, strim(line));
	return ret ? ret : len;
}

static const struct file_operations softib_text_fops = {
	.owner = THIS_MODULE,
	.open = softib_text_open,
	.read = seq_read,
	.llseek = seq_lseek,
	.write = softib_text_write,
	.release = single_release,
};

/**
 * softib_debugfs_add - make the files of a port
 * @port: the port
 */
void softib_debugfs_add(struct softib_port *port)
{
	struct dentry *knobs;
	int i;

	port->dir = debugfs_create_dir(port->name, softib_root);
	knobs = debugfs_create_dir("knobs", port->dir);
	for (i = 0; i < SOFTIB_N_KNOBS; i++) {
		port->knob_ref[i] = (struct softib_knob_ref){ port, i };
		debugfs_create_file(softib_knob_desc[i].name, 0600, knobs,
				    &port->knob_ref[i], &softib_knob_fops);
	}
	debugfs_create_file("counters", 0400, port->dir, port,
			    &softib_counters_fops);
	BUILD_BUG_ON(ARRAY_SIZE(softib_text_files) != SOFTIB_N_TEXT_FILES);
	for (i = 0; i < SOFTIB_N_TEXT_FILES; i++) {
		struct softib_text_ref *ref = &port->text_ref[i];

		ref->port = port;
		ref->file = &softib_text_files[i];
		debugfs_create_file(ref->file->name, 0600, port->dir, ref,
				    &softib_text_fops);
	}
}

void softib_debugfs_del(struct softib_port *port)
{
	debugfs_remove_recursive(port->dir);
	port->dir = NULL;
}

void softib_debugfs_init(void)
{
	softib_root = debugfs_create_dir("softib", NULL);
}

void softib_debugfs_exit(void)
{
	debugfs_remove_recursive(softib_root);
}
