// SPDX-License-Identifier: GPL-2.0
/* NVMe user queues: reserving queues and interrupt vectors. */
#include <linux/blk-mq.h>
#include <linux/kstrtox.h>
#include <linux/moduleparam.h>
#include <linux/pci.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "../uq.h"
#include "mem.h"
#include "pci.h"

/*
 * A number that is too large for this machine must not keep the driver from
 * loading: machines of different sizes may share a configuration.
 */
static int nvme_uq_count_set(const char *val, const struct kernel_param *kp)
{
	unsigned int n, most = blk_mq_num_possible_queues(0);

	if (kstrtouint(val, 10, &n))
		return -EINVAL;
	if (n > most)
		pr_warn("%s: %u is more than the possible CPUs, use %u\n",
			kp->name, n, most);
	WRITE_ONCE(*(unsigned int *)kp->arg, min(n, most));
	return 0;
}

static const struct kernel_param_ops nvme_uq_count_ops = {
	.set = nvme_uq_count_set,
	.get = param_get_uint,
};

static unsigned int user_irq_queues;
module_param_cb(user_irq_queues, &nvme_uq_count_ops, &user_irq_queues, 0644);
MODULE_PARM_DESC(user_irq_queues,
		 "Number of interrupt queues set aside for user space, as /dev/ngXnYqZ. Read at controller reset.");

static unsigned int user_poll_queues;
module_param_cb(user_poll_queues, &nvme_uq_count_ops, &user_poll_queues, 0644);
MODULE_PARM_DESC(user_poll_queues,
		 "Number of polled queues set aside for user space, as /dev/ngXnYqZ. Read at controller reset.");

/* Reserving queues */

/**
 * nvme_uq_max - maximum number of user queues of a controller
 *
 * Return: the maximum that the parameters allow, plus the same number for
 * queues that are unused since a parameter was changed.
 */
unsigned int nvme_uq_max(void)
{
	return 2 * blk_mq_num_possible_queues(0);
}

static void nvme_uq_disable_work(struct work_struct *work)
{
	struct nvme_uq_ctrl *uqc = container_of(work, struct nvme_uq_ctrl,
						disable_work);

	dev_warn(uqc->ctrl->device,
		 "commands on user queues timed out, disable controller\n");
	nvme_uq_disable(uqc->ctrl);
}

static struct nvme_uq_ctrl *nvme_uq_get_ctrl(struct nvme_ctrl *ctrl)
{
	struct nvme_uq_ctrl *uqc = ctrl->uq;
	unsigned int max = nvme_uq_max(), noio;

	if (uqc)
		return uqc;
	/* memory reclaim may wait for this reset */
	noio = memalloc_noio_save();
	uqc = kzalloc_flex(*uqc, q, max);
	if (uqc)
		uqc->rw_wq = alloc_workqueue("nvme%d-uq", WQ_UNBOUND,
					     WQ_MAX_ACTIVE, ctrl->instance);
	memalloc_noio_restore(noio);
	if (!uqc || !uqc->rw_wq) {
		kfree(uqc);
		return NULL;
	}
	uqc->ctrl = ctrl;
	INIT_WORK(&uqc->disable_work, nvme_uq_disable_work);
	uqc->max = max;
	nvme_uq_mems_init(&uqc->mems);
	if (NVME_UQ_FAULT)
		nvme_uq_fault_init(ctrl, uqc);
	nvme_uq_add_ctrl(uqc);
	return uqc;
}

/*
 * The queues that the module parameters request, if the controller supports
 * them.
 */
static struct nvme_uq_plan nvme_uq_sample(struct nvme_ctrl *ctrl)
{
	struct nvme_uq_plan plan = {
		.irq	= READ_ONCE(user_irq_queues),
		.poll	= READ_ONCE(user_poll_queues),
	};

	if ((plan.irq || plan.poll) &&
	    (ctrl->quirks & (NVME_QUIRK_SHARED_TAGS |
			     NVME_QUIRK_128_BYTES_SQES))) {
		dev_warn(ctrl->device,
			 "no user queues: the controller needs %s\n",
			 ctrl->quirks & NVME_QUIRK_SHARED_TAGS ?
			 "shared tags" : "commands of 128 bytes");
		plan = (struct nvme_uq_plan){ };
	}
	if (ctrl->quirks & NVME_QUIRK_SINGLE_VECTOR)
		plan.irq = 0;
	return plan;
}

/**
 * nvme_uq_set_queue_count - nvme_set_queue_count() including user queues
 * @ctrl:	the controller
 * @count:	queues that blk-mq requests; on return, queues for blk-mq
 *
 * Return: see nvme_set_queue_count().
 */
int nvme_uq_set_queue_count(struct nvme_ctrl *ctrl, int *count)
{
	struct nvme_uq_plan plan = nvme_uq_sample(ctrl);
	unsigned int want = plan.irq + plan.poll;
	struct nvme_uq_ctrl *uqc = want ? nvme_uq_get_ctrl(ctrl) : ctrl->uq;
	int ret, granted = *count + want;

	if (uqc) {
		uqc->requested = plan;
		uqc->plan = (struct nvme_uq_plan){ };
	}
	if (uqc && want) {
		ret = nvme_set_queue_count(ctrl, &granted);
		if (ret < 0)
			return ret;
		/* else the controller has rejected the larger number */
		if (granted) {
			*count = nvme_uq_plan_queues(&plan, granted, *count);
			uqc->plan = plan;
			return ret;
		}
	}
	return nvme_set_queue_count(ctrl, count);
}

/**
 * nvme_uq_planned - number of user queues that this reset will create
 * @ctrl:	the controller
 *
 * Return: the number. It may still decrease.
 */
unsigned int nvme_uq_planned(struct nvme_ctrl *ctrl)
{
	return ctrl->uq ? ctrl->uq->plan.irq + ctrl->uq->plan.poll : 0;
}

/**
 * nvme_uq_drop_one - drop one planned user queue
 * @ctrl:	the controller
 *
 * Return: false if there was no queue left to drop.
 */
bool nvme_uq_drop_one(struct nvme_ctrl *ctrl)
{
	return ctrl->uq && nvme_uq_plan_shrink(&ctrl->uq->plan);
}

/**
 * nvme_uq_alloc_irqs - allocate blk-mq's vectors and those of user queues
 * @ctrl:	the controller
 * @blk_vecs:	vectors that blk-mq and the admin queue request
 * @flags:	flags for pci_alloc_irq_vectors_affinity()
 * @affd:	affinity of blk-mq's vectors
 *
 * Vectors of user queues come last. They are not managed, so that the
 * administrator can set their affinity. They are allocated only if blk-mq gets
 * all requested vectors. With fewer vectors, the PCI core would take them from
 * blk-mq.
 *
 * Return: the number of vectors for blk-mq and the admin queue. If user queues
 * get no vectors, 0, and nothing was allocated.
 */
int nvme_uq_alloc_irqs(struct nvme_ctrl *ctrl, unsigned int blk_vecs,
		       unsigned int flags, struct irq_affinity *affd)
{
	struct pci_dev *pdev = to_pci_dev(ctrl->dev);
	struct nvme_uq_ctrl *uqc = ctrl->uq;
	int ret, have = pci_msix_vec_count(pdev);

	if (!uqc)
		return 0;
	flags &= ~PCI_IRQ_INTX;
	if (have > 0)
		uqc->plan.irq = min_t(int, uqc->plan.irq,
				      max_t(int, have - (int)blk_vecs, 0));

	for (; uqc->plan.irq; uqc->plan.irq--) {
		unsigned int vecs = blk_vecs + uqc->plan.irq;

		affd->post_vectors = uqc->plan.irq;
		ret = pci_alloc_irq_vectors_affinity(pdev, vecs, vecs, flags,
						     affd);
		if (ret > 0)
			return blk_vecs;
	}
	affd->post_vectors = 0;
	return 0;
}
