/* SPDX-License-Identifier: GPL-2.0-only */
/* What the drain engine knows of verbs. */
#ifndef MODEL_IB_VERBS_H
#define MODEL_IB_VERBS_H

enum ib_wc_status {
	IB_WC_SUCCESS,
	IB_WC_LOC_QP_OP_ERR,
	IB_WC_WR_FLUSH_ERR,
};

#endif /* MODEL_IB_VERBS_H */
