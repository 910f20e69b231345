/* SPDX-License-Identifier: GPL-2.0 */
/* NVMe user queues: sharing the granted queues of a controller. */
#ifndef _NVME_UQ_PLAN_H
#define _NVME_UQ_PLAN_H

#include <linux/types.h>

/**
 * struct nvme_uq_plan - number of user queues of each kind
 * @irq:	interrupt queues
 * @poll:	polled queues
 */
struct nvme_uq_plan {
	unsigned int	irq;
	unsigned int	poll;
};

bool nvme_uq_plan_shrink(struct nvme_uq_plan *plan);
unsigned int nvme_uq_plan_queues(struct nvme_uq_plan *plan,
				 unsigned int granted, unsigned int blk);

#endif /* _NVME_UQ_PLAN_H */
