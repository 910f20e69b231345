// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: sharing the queues of a controller that grants too few.
 *
 * There is one rule: blk-mq gets as many queues as without user queues. User
 * queues share the remaining ones.
 */
#include <linux/export.h>
#include <linux/minmax.h>

#include "plan.h"

/**
 * nvme_uq_plan_shrink - drop one user queue
 * @plan:	number of user queues of each kind
 *
 * Drops a queue of the kind with more queues, so that the last two are one of
 * each kind. If both kinds have the same number, drops a polled queue.
 *
 * Return: false if there was no queue left to drop.
 */
bool nvme_uq_plan_shrink(struct nvme_uq_plan *plan)
{
	if (!plan->irq && !plan->poll)
		return false;
	if (plan->poll >= plan->irq)
		plan->poll--;
	else
		plan->irq--;
	return true;
}
EXPORT_SYMBOL_GPL(nvme_uq_plan_shrink);

/**
 * nvme_uq_plan_queues - share the queues that a controller grants
 * @plan:	requested user queues; on return, granted user queues
 * @granted:	I/O queues that the controller grants
 * @blk:	I/O queues that blk-mq requests
 *
 * Return: the number of queues for blk-mq.
 */
unsigned int nvme_uq_plan_queues(struct nvme_uq_plan *plan,
				 unsigned int granted, unsigned int blk)
{
	unsigned int left;

	blk = min(blk, granted);
	left = granted - blk;
	while (plan->irq + plan->poll > left)
		nvme_uq_plan_shrink(plan);
	return blk;
}
EXPORT_SYMBOL_GPL(nvme_uq_plan_queues);
