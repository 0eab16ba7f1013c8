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

/*
 * A signal of the HCA for a receive QP: an LWQE, the last receive of its own
 * ring, or a drain completion. The QP is 0 if it is not known.
 */
TRACE_EVENT(ipoib_drain_signal,
	TP_PROTO(const char *port, u32 qpn, const u8 *gid, const char *signal,
		 int status, u64 age_us),
	TP_ARGS(port, qpn, gid, signal, status, age_us),
	TP_STRUCT__entry(
		__string(port, port)
		__field(u32, qpn)
		__array(u8, gid, 16)
		__string(signal, signal)
		__field(int, status)
		__field(u64, age_us)
	),
	TP_fast_assign(
		ipoib_assign_str(port, port);
		__entry->qpn = qpn;
		memcpy(__entry->gid, gid, 16);
		ipoib_assign_str(signal, signal);
		__entry->status = status;
		__entry->age_us = age_us;
	),
	TP_printk("%s qpn=0x%06x %s status=%d peer=%pI6c age_us=%llu",
		  __get_str(port), __entry->qpn, __get_str(signal),
		  __entry->status, __entry->gid, __entry->age_us)
);

/* A connection moved from one state to another. Ages are in ms. */
TRACE_EVENT(ipoib_conn,
	TP_PROTO(const char *port, const char *role, u32 qpn, const u8 *gid,
		 const char *from, const char *to, const char *reason,
		 u32 age_ms, u32 idle_ms),
	TP_ARGS(port, role, qpn, gid, from, to, reason, age_ms, idle_ms),
	TP_STRUCT__entry(
		__string(port, port)
		__string(role, role)
		__field(u32, qpn)
		__array(u8, gid, 16)
		__string(from, from)
		__string(to, to)
		__string(reason, reason)
		__field(u32, age_ms)
		__field(u32, idle_ms)
	),
	TP_fast_assign(
		ipoib_assign_str(port, port);
		ipoib_assign_str(role, role);
		__entry->qpn = qpn;
		memcpy(__entry->gid, gid, 16);
		ipoib_assign_str(from, from);
		ipoib_assign_str(to, to);
		ipoib_assign_str(reason, reason);
		__entry->age_ms = age_ms;
		__entry->idle_ms = idle_ms;
	),
	TP_printk("%s %s qpn=0x%06x peer=%pI6c %s -> %s reason=%s age_ms=%u idle_ms=%u",
		  __get_str(port), __get_str(role), __entry->qpn, __entry->gid,
		  __get_str(from), __get_str(to), __get_str(reason),
		  __entry->age_ms, __entry->idle_ms)
);

#endif /* IPOIB_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE ipoib_trace
#include <trace/define_trace.h>
