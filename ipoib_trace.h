/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Tracepoints: every transition of a connection and of a draining QP. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM ib_ipoib

#if !defined(IPOIB_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define IPOIB_TRACE_H

#include <linux/tracepoint.h>

#include "ipoib_cm_drain.h"

/* A receive QP moved from one drain state to another. Ages are in us. */
TRACE_EVENT(ipoib_drain,
	TP_PROTO(const char *port, u32 qpn, const u8 *gid,
		 const char *from, const char *to, const char *reason,
		 u64 age_us, u32 slot),
	TP_ARGS(port, qpn, gid, from, to, reason, age_us, slot),
	TP_STRUCT__entry(
		__string(port, port)
		__field(u32, qpn)
		__array(u8, gid, 16)
		__string(from, from)
		__string(to, to)
		__string(reason, reason)
		__field(u64, age_us)
		__field(u32, slot)
	),
	TP_fast_assign(
		ipoib_assign_str(port, port);
		__entry->qpn = qpn;
		memcpy(__entry->gid, gid, 16);
		ipoib_assign_str(from, from);
		ipoib_assign_str(to, to);
		ipoib_assign_str(reason, reason);
		__entry->age_us = age_us;
		__entry->slot = slot;
	),
	TP_printk("%s qpn=0x%06x peer=%pI6c %s -> %s reason=%s age_us=%llu slot=%d",
		  __get_str(port), __entry->qpn, __entry->gid,
		  __get_str(from), __get_str(to), __get_str(reason),
		  __entry->age_us, (int)__entry->slot)
);

/* A signal of the HCA for a receive QP: an LWQE or a drain completion. */
TRACE_EVENT(ipoib_drain_signal,
	TP_PROTO(const char *port, u32 qpn, const char *signal, int status),
	TP_ARGS(port, qpn, signal, status),
	TP_STRUCT__entry(
		__string(port, port)
		__field(u32, qpn)
		__string(signal, signal)
		__field(int, status)
	),
	TP_fast_assign(
		ipoib_assign_str(port, port);
		__entry->qpn = qpn;
		ipoib_assign_str(signal, signal);
		__entry->status = status;
	),
	TP_printk("%s qpn=0x%06x %s status=%d", __get_str(port),
		  __entry->qpn, __get_str(signal), __entry->status)
);

/* A connection moved from one state to another. */
TRACE_EVENT(ipoib_conn,
	TP_PROTO(const char *port, const char *role, u32 qpn, const u8 *gid,
		 const char *from, const char *to),
	TP_ARGS(port, role, qpn, gid, from, to),
	TP_STRUCT__entry(
		__string(port, port)
		__string(role, role)
		__field(u32, qpn)
		__array(u8, gid, 16)
		__string(from, from)
		__string(to, to)
	),
	TP_fast_assign(
		ipoib_assign_str(port, port);
		ipoib_assign_str(role, role);
		__entry->qpn = qpn;
		memcpy(__entry->gid, gid, 16);
		ipoib_assign_str(from, from);
		ipoib_assign_str(to, to);
	),
	TP_printk("%s %s qpn=0x%06x peer=%pI6c %s -> %s", __get_str(port),
		  __get_str(role), __entry->qpn, __entry->gid,
		  __get_str(from), __get_str(to))
);

#endif /* IPOIB_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE ipoib_trace
#include <trace/define_trace.h>
