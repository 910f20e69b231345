// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: who gets how many queues when there are too few.
 *
 * There is one rule: blk-mq has what it would have without user queues, and
 * user queues share what is left.
 */
#include <linux/export.h>
#include <linux/minmax.h>

#include "plan.h"

/**
 * nvme_uq_plan_shrink - give up one user queue
 * @plan:	how many there are of each kind
 *
 * The kind of which there are more gives way, so that the last two are one of
 * each; polled queues when there are as many.
 *
 * Return: false if there was none left to give up.
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
 * @plan:	user queues that are asked for; what they get
 * @granted:	I/O queues that the controller grants
 * @blk:	I/O queues that blk-mq asks for
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
