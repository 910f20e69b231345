/* SPDX-License-Identifier: GPL-2.0 */
/*
 * NVMe user queues: what the information page of a queue that is claimed says of
 * commands. It is called for each batch of them, so it is inline.
 */
#ifndef _NVME_UQ_INFO_H
#define _NVME_UQ_INFO_H

#include <linux/build_bug.h>
#include <uapi/linux/nvme_uq.h>

#include "private.h"

/* nvme_uq_cq_head() */
static_assert(NVME_UQ_HEAD_PHASE == 1 << 16);
static_assert(NVME_UQ_HEAD_MASK == U16_MAX);

/* With sq_lock held: the device is being told of what was submitted. */
static __always_inline void nvme_uq_info_submitted(struct nvme_uq *uq)
{
	struct nvme_uq_info *info = uq->info;

	if (unlikely(info))
		WRITE_ONCE(info->submitted,
			   (u32)uq->submitted - uq->info_base);
}

/* With cq_lock held: commands have ended, and @head is where the next will. */
static __always_inline void nvme_uq_info_reaped(struct nvme_uq *uq, u32 head)
{
	struct nvme_uq_info *info = uq->info;

	if (unlikely(info)) {
		WRITE_ONCE(info->head, head);
		/* who sees that a command has ended does not see its completion */
		smp_store_release(&info->completed,
				  (u32)uq->completed - uq->info_base);
	}
}

#endif /* _NVME_UQ_INFO_H */
