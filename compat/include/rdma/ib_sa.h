/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#ifndef IPOIB_COMPAT_RDMA_IB_SA_H
#define IPOIB_COMPAT_RDMA_IB_SA_H

#include_next <rdma/ib_sa.h>

/* Type of the number of records in the callback of ib_sa_path_rec_get(). */
#ifdef IPOIB_HAVE_UNSIGNED_NUM_PRS
typedef unsigned int ipoib_path_nrec_t;
#else
typedef int ipoib_path_nrec_t;
#endif

#endif
