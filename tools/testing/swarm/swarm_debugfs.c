// SPDX-License-Identifier: GPL-2.0-only
/*
 * /sys/kernel/debug/swarm/<device>/: commands, knobs, figures.
 */
#include <linux/debugfs.h>
#include <linux/inet.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "swarm.h"

#define SWARM_SID_PREFIX	0x1000000000000000ULL

static struct dentry *swarm_root;

#define SWARM_KNOB_DEFAULT(name, def)	[SWARM_K_##name] = def,
#define SWARM_KNOB_NAME(name, def)	[SWARM_K_##name] = #name,
#define SWARM_COUNTER_NAME(name)	[SWARM_C_##name] = #name,
#define SWARM_STATE_NAME(name, text)	[SWARM_##name] = #text,

const u32 swarm_knob_default[SWARM_NKNOBS] = {
	SWARM_KNOBS(SWARM_KNOB_DEFAULT)
};

static const char *const swarm_knob_name[SWARM_NKNOBS] = {
	SWARM_KNOBS(SWARM_KNOB_NAME)
};

static const char *const swarm_counter_name[SWARM_NCOUNTERS] = {
	SWARM_COUNTERS(SWARM_COUNTER_NAME)
};

static const char *const swarm_state_name[SWARM_NSTATES] = {
	SWARM_STATES(SWARM_STATE_NAME)
};

static const char *const swarm_way_name[SWARM_NWAYS] = {
	[SWARM_BY_DREQ] = "dreq",
	[SWARM_BY_MUTE] = "mute",
	[SWARM_BY_DESTROY] = "destroy",
	[SWARM_BY_ERROR] = "error",
	[SWARM_BY_FORGET] = "forget",
};

/* GID UD_QPN DADDR SADDR [P_KEY [SERVICE_ID_PREFIX]] */
static int swarm_cmd_target(struct swarm_port *port, char *line)
{
	struct swarm_target target = {};
	char gid[64], daddr[16], saddr[16];
	u64 prefix = SWARM_SID_PREFIX;
	unsigned int pkey = 0xffff;
	union ib_gid dgid;
	u32 qpn;

	if (sscanf(line, "%63s %i %15s %15s %i %llx", gid, &qpn, daddr, saddr,
		   &pkey, &prefix) < 4 || pkey > 0xffff || qpn > 0xffffff)
		return -EINVAL;
	if (!in6_pton(gid, -1, dgid.raw, -1, NULL) ||
	    !in4_pton(daddr, -1, (u8 *)&target.daddr, -1, NULL) ||
	    !in4_pton(saddr, -1, (u8 *)&target.saddr, -1, NULL))
		return -EINVAL;
	target.service = cpu_to_be64(prefix | qpn);
	return swarm_aim(port, &dgid, pkey, &target);
}

static int swarm_cmd_open(struct swarm_port *port, char *line)
{
	unsigned int n;
	int ret;

	ret = kstrtouint(line, 0, &n);
	return ret ? ret : swarm_open(port, n);
}

static int swarm_cmd_send(struct swarm_port *port, char *line)
{
	unsigned int n;
	int ret;

	ret = kstrtouint(line, 0, &n);
	return ret ? ret : swarm_send(port, n);
}

/* WAY [COUNT] */
static int swarm_cmd_leave(struct swarm_port *port, char *line)
{
	char *word = strsep(&line, " ");
	unsigned int n = UINT_MAX;
	int how, ret;

	how = match_string(swarm_way_name, SWARM_NWAYS, word);
	if (how < 0)
		return how;
	if (line) {
		ret = kstrtouint(line, 0, &n);
		if (ret)
			return ret;
	}
	return swarm_leave(port, how, n);
}

static int swarm_cmd_reset(struct swarm_port *port, char *line)
{
	int i;

	for (i = 0; i < SWARM_NCOUNTERS; i++)
		atomic64_set(&port->counter[i], 0);
	for (i = 0; i < SWARM_NKNOBS; i++)
		WRITE_ONCE(port->knob[i], swarm_knob_default[i]);
	spin_lock(&port->lock);
	memset(port->rej, 0, sizeof(port->rej));
	port->answer_us_max = 0;
	spin_unlock(&port->lock);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(struct swarm_port *port, char *line);
} swarm_cmd[] = {
	{ "target", swarm_cmd_target },
	{ "open", swarm_cmd_open },
	{ "send", swarm_cmd_send },
	{ "leave", swarm_cmd_leave },
	{ "reset", swarm_cmd_reset },
};

/* A command file: which command, of which port. */
struct swarm_file {
	struct swarm_port *port;
	int cmd;
};

static ssize_t swarm_write(struct file *file, const char __user *buf,
			   size_t len, loff_t *pos)
{
	struct swarm_file *f = file->private_data;
	char line[128];
	int ret;

	if (len >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, buf, len))
		return -EFAULT;
	line[len] = 0;
	ret = swarm_cmd[f->cmd].run(f->port, strim(line));
	return ret ? ret : len;
}

static const struct file_operations swarm_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = swarm_write,
};

static int swarm_stats_show(struct seq_file *s, void *unused)
{
	struct swarm_port *port = s->private;
	int i;

	for (i = 0; i < SWARM_NSTATES; i++)
		seq_printf(s, "%s %d\n", swarm_state_name[i],
			   atomic_read(&port->gauge[i]));
	seq_printf(s, "sending %d\n", atomic_read(&port->sending));
	for (i = 0; i < SWARM_NCOUNTERS; i++)
		seq_printf(s, "%s %lld\n", swarm_counter_name[i],
			   atomic64_read(&port->counter[i]));
	seq_printf(s, "answer_us_max %u\n", READ_ONCE(port->answer_us_max));
	for (i = 0; i < SWARM_REASONS; i++)
		if (READ_ONCE(port->rej[i]))
			seq_printf(s, "rej_%d %u\n", i, READ_ONCE(port->rej[i]));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(swarm_stats);

/**
 * swarm_debugfs_add() - make the files of a port
 * @port: the port
 *
 * Context: process.
 * Return: 0 or -ENOMEM.
 */
int swarm_debugfs_add(struct swarm_port *port)
{
	int i;

	port->file = kcalloc(ARRAY_SIZE(swarm_cmd), sizeof(*port->file),
			     GFP_KERNEL);
	if (!port->file)
		return -ENOMEM;
	port->dir = debugfs_create_dir(dev_name(&port->ib->dev), swarm_root);
	for (i = 0; i < ARRAY_SIZE(swarm_cmd); i++) {
		port->file[i].port = port;
		port->file[i].cmd = i;
		debugfs_create_file(swarm_cmd[i].name, 0200, port->dir,
				    &port->file[i], &swarm_fops);
	}
	debugfs_create_file("stats", 0400, port->dir, port, &swarm_stats_fops);
	for (i = 0; i < SWARM_NKNOBS; i++)
		debugfs_create_u32(swarm_knob_name[i], 0600, port->dir,
				   &port->knob[i]);
	return 0;
}

/**
 * swarm_debugfs_del() - remove the files of a port
 * @port: the port
 *
 * Waits for commands that run.
 *
 * Context: process.
 */
void swarm_debugfs_del(struct swarm_port *port)
{
	debugfs_remove(port->dir);
	kfree(port->file);
}

void swarm_debugfs_init(void)
{
	swarm_root = debugfs_create_dir("swarm", NULL);
}

void swarm_debugfs_exit(void)
{
	debugfs_remove(swarm_root);
}
