// SPDX-License-Identifier: GPL-2.0
/* NVMe user queues: doorbells that are deferred to the end of a batch. */
#include <linux/blkdev.h>
#include <linux/file.h>
#include <linux/slab.h>

#include "pci.h"

/**
 * nvme_uq_pci_ring - write a deferred doorbell
 * @uq:		the queue, with sq_lock held; if it is down, nothing is written
 */
void nvme_uq_pci_ring(struct nvme_uq *uq)
{
	lockdep_assert_held(&uq->sq_lock);
	if (uq->sq_tail != uq->last_sq_tail && !(uq->blocked & NVME_UQ_DOWN))
		nvme_uq_ring_sq(uq);
}

/**
 * struct nvme_uq_plug - a doorbell that is deferred to the end of a batch
 * @cb:		callback of the task's plug
 * @file:	reference that keeps the queue and the module. Another task's
 *		doorbell may let all commands of the batch complete before the
 *		batch ends.
 */
struct nvme_uq_plug {
	struct blk_plug_cb	cb;
	struct file		*file;
};

static void nvme_uq_unplug(struct blk_plug_cb *blk_cb, bool from_schedule)
{
	struct nvme_uq_plug *cb = container_of(blk_cb, struct nvme_uq_plug, cb);
	struct nvme_uq *uq = blk_cb->data;
	struct file *file = cb->file;

	spin_lock(&uq->sq_lock);
	/*
	 * Other tasks set it without the lock, but only to their own plugs. If
	 * such a value is lost here, that task looks up its callback again.
	 */
	if (READ_ONCE(uq->plug) == current->plug)
		WRITE_ONCE(uq->plug, NULL);
	nvme_uq_pci_ring(uq);
	spin_unlock(&uq->sq_lock);
	kfree(cb);
	fput(file);
}

/**
 * nvme_uq_add_plug - defer the doorbell until the task's plug is finished
 * @uq:		the queue
 * @file:	open file of the command
 *
 * Return: false if no callback can be allocated.
 */
bool nvme_uq_add_plug(struct nvme_uq *uq, struct file *file)
{
	struct nvme_uq_plug *cb;
	struct blk_plug_cb *blk_cb;

	blk_cb = blk_check_plugged(nvme_uq_unplug, uq, sizeof(*cb));
	if (!blk_cb)
		return false;
	cb = container_of(blk_cb, struct nvme_uq_plug, cb);
	if (!cb->file)
		cb->file = get_file(file);
	WRITE_ONCE(uq->plug, current->plug);
	return true;
}
