// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * debugfs: ipoib/<interface>_{mcg,path,cm_drain,cm_conns,cm_probe}. The files
 * follow the name of their interface.
 */
#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/seq_file.h>

#include "ipoib.h"

static struct dentry *ipoib_debugfs_root;

static int ipoib_mcg_show(struct seq_file *m, void *unused)
{
	ipoib_mcast_show(m->private, m);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(ipoib_mcg);

static int ipoib_paths_show(struct seq_file *m, void *unused)
{
	ipoib_path_show(m->private, m);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(ipoib_paths);

static int ipoib_drain_show(struct seq_file *m, void *unused)
{
	ipoib_cm_drain_show(m->private, m);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(ipoib_drain);

static int ipoib_conns_show(struct seq_file *m, void *unused)
{
	ipoib_cm_conns_show(m->private, m);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(ipoib_conns);

static int ipoib_probe_show(struct seq_file *m, void *unused)
{
	struct ipoib_netdev *priv = m->private;

	ipoib_cm_probe_show(priv->port, m);
	return 0;
}

static int ipoib_probe_open(struct inode *inode, struct file *file)
{
	return single_open(file, ipoib_probe_show, inode->i_private);
}

/* Whatever is written: probe again. */
static ssize_t ipoib_probe_write(struct file *file, const char __user *buf,
				 size_t len, loff_t *pos)
{
	struct ipoib_netdev *priv = file_inode(file)->i_private;
	int err;

	err = ipoib_cm_probe_ask(priv->port);
	return err ? err : len;
}

static const struct file_operations ipoib_probe_fops = {
	.owner = THIS_MODULE,
	.open = ipoib_probe_open,
	.read = seq_read,
	.write = ipoib_probe_write,
	.llseek = seq_lseek,
	.release = single_release,
};

static const struct {
	const char *suffix;
	umode_t mode;
	const struct file_operations *fops;
} ipoib_debugfs_files[IPOIB_DEBUGFS_FILES] = {
	{ "mcg", 0400, &ipoib_mcg_fops },
	{ "path", 0400, &ipoib_paths_fops },
	{ "cm_drain", 0400, &ipoib_drain_fops },
	{ "cm_conns", 0400, &ipoib_conns_fops },
	{ "cm_probe", 0600, &ipoib_probe_fops },
};

/* An interface of another network namespace may have the same name. */
static bool ipoib_debugfs_taken(const char *name)
{
	struct dentry *old = debugfs_lookup(name, ipoib_debugfs_root);

	dput(old);
	return old;
}

static struct dentry *ipoib_debugfs_file(struct ipoib_netdev *priv, int i)
{
	const char *suffix = ipoib_debugfs_files[i].suffix;
	char name[IFNAMSIZ + IB_DEVICE_NAME_MAX + 32];

	snprintf(name, sizeof(name), "%s_%s", priv->dev->name, suffix);
	if (ipoib_debugfs_taken(name))
		snprintf(name, sizeof(name), "%s@%s.%u_%s", priv->dev->name,
			 dev_name(&priv->port->ca->dev), priv->port->num,
			 suffix);
	if (ipoib_debugfs_taken(name))
		return NULL;
	return debugfs_create_file(name, ipoib_debugfs_files[i].mode,
				   ipoib_debugfs_root, priv,
				   ipoib_debugfs_files[i].fops);
}

/**
 * ipoib_debugfs_remove() - remove the files of an interface
 * @priv: the interface
 *
 * Waits for readers, who take no rtnl.
 *
 * Context: process, under rtnl.
 */
void ipoib_debugfs_remove(struct ipoib_netdev *priv)
{
	int i;

	ASSERT_RTNL();
	for (i = 0; i < IPOIB_DEBUGFS_FILES; i++) {
		debugfs_remove(priv->debugfs[i]);
		priv->debugfs[i] = NULL;
	}
}

/**
 * ipoib_debugfs_rename() - make the files of an interface under its present name
 * @priv: the interface
 *
 * Context: process, under rtnl.
 */
void ipoib_debugfs_rename(struct ipoib_netdev *priv)
{
	int i;

	ipoib_debugfs_remove(priv);
	for (i = 0; i < IPOIB_DEBUGFS_FILES; i++)
		priv->debugfs[i] = ipoib_debugfs_file(priv, i);
}

/**
 * ipoib_debugfs_init() - make the directory
 *
 * Context: process.
 */
void ipoib_debugfs_init(void)
{
	ipoib_debugfs_root = debugfs_create_dir("ipoib", NULL);
}

/**
 * ipoib_debugfs_exit() - remove the directory
 *
 * Context: process, when no interface is left.
 */
void ipoib_debugfs_exit(void)
{
	debugfs_remove(ipoib_debugfs_root);
}
