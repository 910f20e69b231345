/* SPDX-License-Identifier: GPL-2.0 */
/* NVMe user queues: tracepoints. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM nvme_uq

#if !defined(_TRACE_NVME_UQ_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_NVME_UQ_H

#include <linux/tracepoint.h>

#include "private.h"

TRACE_EVENT(nvme_uq_submit,
	TP_PROTO(struct nvme_uq *uq, const struct nvme_command *c, u32 len),
	TP_ARGS(uq, c, len),
	TP_STRUCT__entry(
		__field(int, ctrl_id)
		__field(u16, qid)
		__field(u16, cid)
		__field(u8, opcode)
		__field(u32, nsid)
		__field(u32, len)
		__field(u64, slba)
	),
	TP_fast_assign(
		__entry->ctrl_id = uq->ctrl->instance;
		__entry->qid = uq->qid;
		__entry->cid = c->common.command_id;
		__entry->opcode = c->common.opcode;
		__entry->nsid = le32_to_cpu(c->common.nsid);
		__entry->len = len;
		__entry->slba = le64_to_cpu(c->rw.slba);
	),
	TP_printk("nvme%d: qid=%u, cmdid=%u, nsid=%u, opcode=%#x, slba=%llu, len=%u",
		  __entry->ctrl_id, __entry->qid, __entry->cid,
		  __entry->nsid, __entry->opcode, __entry->slba, __entry->len)
);

TRACE_EVENT(nvme_uq_complete,
	TP_PROTO(struct nvme_uq *uq, struct nvme_uq_iod *iod, u16 cid,
		 int status, u64 result),
	TP_ARGS(uq, iod, cid, status, result),
	TP_STRUCT__entry(
		__field(int, ctrl_id)
		__field(u16, qid)
		__field(u16, cid)
		__field(int, status)
		__field(u64, result)
		__field(u8, opcode)
		__field(u32, nsid)
		__field(u32, len)
		__field(u64, slba)
		__field(u64, latency)
	),
	TP_fast_assign(
		__entry->ctrl_id = uq->ctrl->instance;
		__entry->qid = uq->qid;
		__entry->cid = cid;
		__entry->status = status;
		__entry->result = result;
		__entry->opcode = iod->opcode;
		/*
		 * 0 if the event was not enabled at the submission. Wrong if it
		 * was disabled while a command with this tag was in flight.
		 */
		__entry->nsid = iod->start ? iod->nsid : 0;
		__entry->len = iod->start ? iod->bytes : 0;
		__entry->slba = iod->start ? iod->slba : 0;
		__entry->latency = iod->start ? ktime_get_ns() - iod->start : 0;
		iod->start = 0;
	),
	TP_printk("nvme%d: qid=%u, cmdid=%u, nsid=%u, opcode=%#x, slba=%llu, len=%u, status=%#x, res=%#llx, latency=%llu ns",
		  __entry->ctrl_id, __entry->qid, __entry->cid,
		  __entry->nsid, __entry->opcode, __entry->slba, __entry->len,
		  __entry->status, __entry->result, __entry->latency)
);

#endif /* _TRACE_NVME_UQ_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH uq
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace

/* This part must be outside protection */
#include <trace/define_trace.h>
