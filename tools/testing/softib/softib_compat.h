/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The one place where softib looks at the kernel's version: 6.1, 6.12, 7.3.
 */
#ifndef SOFTIB_COMPAT_H
#define SOFTIB_COMPAT_H

#include <linux/net.h>
#include <linux/socket.h>
#include <linux/version.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

/* The last argument of ib_device_ops.create_cq. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
#define softib_cq_udata uverbs_attr_bundle
#else
#define softib_cq_udata ib_udata
#endif

/* ib_device_ops.reg_user_mr got a DMA handle. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 17, 0)
#define SOFTIB_REG_USER_MR_ARGS						\
	struct ib_pd *ibpd, u64 start, u64 length, u64 virt, int access, \
	struct ib_dmah *dmah, struct ib_udata *udata
#else
#define SOFTIB_REG_USER_MR_ARGS						\
	struct ib_pd *ibpd, u64 start, u64 length, u64 virt, int access, \
	struct ib_udata *udata
#endif

/* rdma_rxe raises LAST_WQE_REACHED by itself since 6.5. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 5, 0)
#define SOFTIB_LOWER_LWQE 1
#else
#define SOFTIB_LOWER_LWQE 0
#endif

/* The number of path records in the callback of ib_sa_path_rec_get(). */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
#define softib_num_prs unsigned int
#else
#define softib_num_prs int
#endif

static inline int softib_kernel_bind(struct socket *sock, void *addr, int len)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 19, 0)
	return kernel_bind(sock, (struct sockaddr_unsized *)addr, len);
#else
	return kernel_bind(sock, (struct sockaddr *)addr, len);
#endif
}

#endif /* SOFTIB_COMPAT_H */
