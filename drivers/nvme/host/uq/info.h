/* SPDX-License-Identifier: GPL-2.0 */
/*
 * NVMe user queues: updates of the information page of a claimed queue for each
 * batch of commands.
 */
#ifndef _NVME_UQ_INFO_H
#define _NVME_UQ_INFO_H

#include <linux/build_bug.h>
#include <uapi/linux/nvme_uq.h>

#include "private.h"

/* nvme_uq_cq_head() */
static_assert(NVME_UQ_HEAD_PHASE == 1 << 16);
static_assert(NVME_UQ_HEAD_MASK == U16_MAX);

/* Called before a doorbell write. The caller holds sq_lock. */
static __always_inline void nvme_uq_info_submitted(struct nvme_uq *uq)
{
	struct nvme_uq_info *info = uq->info;

	if (unlikely(info))
		WRITE_ONCE(info->submitted,
			   (u32)uq->submitted - uq->info_base);
}

/*
 * Commands were completed; @head is the next entry. The caller holds cq_lock.
 */
static __always_inline void nvme_uq_info_reaped(struct nvme_uq *uq, u32 head)
{
	struct nvme_uq_info *info = uq->info;

	if (unlikely(info)) {
		WRITE_ONCE(info->head, head);
		/* a reader that sees @completed sees the new @head too */
		smp_store_release(&info->completed,
				  (u32)uq->completed - uq->info_base);
	}
}

#endif /* _NVME_UQ_INFO_H */
