/* SPDX-License-Identifier: GPL-2.0 */
/* NVMe user queues: tracepoints. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM nvme_uq

#if !defined(_TRACE_NVME_UQ_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_NVME_UQ_H

#include <linux/tracepoint.h>

#include "private.h"

TRACE_EVENT(nvme_uq_submit,
	TP_PROTO(struct nvme_uq *uq, const struct nvme_command *c),
	TP_ARGS(uq, c),
	TP_STRUCT__entry(
		__field(int, ctrl_id)
		__field(u16, qid)
		__field(u16, cid)
		__field(u8, opcode)
		__field(u32, nsid)
	),
	TP_fast_assign(
		__entry->ctrl_id = uq->ctrl->instance;
		__entry->qid = uq->qid;
		__entry->cid = c->common.command_id;
		__entry->opcode = c->common.opcode;
		__entry->nsid = le32_to_cpu(c->common.nsid);
	),
	TP_printk("nvme%d: qid=%u, cmdid=%u, nsid=%u, opcode=%#x",
		  __entry->ctrl_id, __entry->qid, __entry->cid,
		  __entry->nsid, __entry->opcode)
);

TRACE_EVENT(nvme_uq_complete,
	TP_PROTO(struct nvme_uq *uq, u16 cid, int status, u64 result),
	TP_ARGS(uq, cid, status, result),
	TP_STRUCT__entry(
		__field(int, ctrl_id)
		__field(u16, qid)
		__field(u16, cid)
		__field(int, status)
		__field(u64, result)
	),
	TP_fast_assign(
		__entry->ctrl_id = uq->ctrl->instance;
		__entry->qid = uq->qid;
		__entry->cid = cid;
		__entry->status = status;
		__entry->result = result;
	),
	TP_printk("nvme%d: qid=%u, cmdid=%u, status=%#x, res=%#llx",
		  __entry->ctrl_id, __entry->qid, __entry->cid,
		  __entry->status, __entry->result)
);

#endif /* _TRACE_NVME_UQ_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH uq
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace

/* This part must be outside protection */
#include <trace/define_trace.h>
