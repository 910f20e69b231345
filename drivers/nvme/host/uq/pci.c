// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: creation in a reset, and deletion in the order of
 * nvme_dev_disable().
 */
#include <linux/blk-mq.h>
#include <linux/dmapool.h>
#include <linux/pci.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "../uq.h"
#include "limit.h"
#include "mem.h"
#include "pci.h"

/*
 * Free the memory of a queue that is down. The caller holds claim_lock, and has
 * waited for a grace period since cq_live was cleared.
 */
static void nvme_uq_free_mem(struct nvme_uq *uq)
{
	size_t meta = uq->tags.nr * sizeof(struct nvme_sgl_desc);

	nvme_uq_zap(uq);
	dma_free_coherent(uq->dma_dev, meta, uq->meta_sgls, uq->meta_sgls_dma);
	dma_free_coherent(uq->dma_dev, NVME_UQ_SQ_BYTES(uq), uq->sq_cmds,
			  uq->sq_dma);
	nvme_uq_free_cq(uq);
	kvfree(uq->iod);
	nvme_uq_tags_free(&uq->tags);
	uq->meta_sgls = NULL;
	uq->sq_cmds = NULL;
	uq->iod = NULL;
	uq->depth = 0;
}

/*
 * The caller holds claim_lock, so page faults see the old memory or the new
 * one, or a depth of 0.
 */
static int nvme_uq_alloc_mem(struct nvme_uq *uq, unsigned int depth)
{
	bool genctr = !(uq->ctrl->quirks & NVME_QUIRK_SKIP_CID_GEN);
	size_t meta = (depth - 1) * sizeof(struct nvme_sgl_desc);

	/* wait for nvme_uq_may_reap() */
	if (uq->cqes)
		synchronize_rcu();
	nvme_uq_free_mem(uq);

	uq->depth = depth;
	if (nvme_uq_tags_alloc(&uq->tags, depth, genctr, GFP_KERNEL))
		goto out_free;
	uq->iod = kvcalloc_node(depth - 1, sizeof(*uq->iod), GFP_KERNEL,
				dev_to_node(uq->dma_dev));
	nvme_uq_alloc_cq(uq);
	uq->sq_cmds = dma_alloc_coherent(uq->dma_dev, NVME_UQ_SQ_BYTES(uq),
					 &uq->sq_dma, GFP_KERNEL);
	uq->meta_sgls = dma_alloc_coherent(uq->dma_dev, meta,
					   &uq->meta_sgls_dma, GFP_KERNEL);
	if (!uq->iod || !uq->cqes || !uq->sq_cmds || !uq->meta_sgls)
		goto out_free;
	return 0;

out_free:
	nvme_uq_free_mem(uq);
	return -ENOMEM;
}

static struct nvme_uq *nvme_uq_alloc(struct nvme_ctrl *ctrl, bool polled)
{
	struct nvme_uq_ctrl *uqc = ctrl->uq;
	struct nvme_uq *uq;

	if (uqc->nr == uqc->max)
		return NULL;
	uq = kzalloc_node(sizeof(*uq), GFP_KERNEL, dev_to_node(ctrl->dev));
	if (!uq)
		return NULL;

	uq->ops = &nvme_uq_pci_ops;
	uq->ctrl = ctrl;
	uq->polled = polled;
	uq->id = uqc->nr + 1;
	uq->irq = -1;
	uq->dma_dev = ctrl->dev;
	uq->blocked = NVME_UQ_UNAVAILABLE | NVME_UQ_DOWN;
	spin_lock_init(&uq->sq_lock);
	/* two lock classes: an interrupt handler takes only one of them */
	if (polled)
		spin_lock_init(&uq->cq_lock);
	else
		spin_lock_init(&uq->cq_lock);
	init_waitqueue_head(&uq->idle_wait);
	init_completion(&uq->deleted);
	INIT_DELAYED_WORK(&uq->poll_work, nvme_uq_poll_work);
	INIT_DELAYED_WORK(&uq->tmo_work, nvme_uq_timeout_work);
	mutex_init(&uq->claim_lock);
	init_waitqueue_head(&uq->waitq);

	nvme_uq_add_queue(uq);
	return uq;
}

/* Return the @n'th queue of a kind. A queue never changes its kind. */
static struct nvme_uq *nvme_uq_nth(struct nvme_ctrl *ctrl, bool polled,
				   unsigned int n)
{
	struct nvme_uq_ctrl *uqc = ctrl->uq;
	unsigned int i;

	for (i = 0; i < uqc->nr; i++)
		if (uqc->q[i]->polled == polled && !n--)
			return uqc->q[i];
	return nvme_uq_alloc(ctrl, polled);
}

/* Delete a queue that cannot be used. */
static void nvme_uq_admin_delete(struct nvme_uq *uq, u8 opcode)
{
	struct nvme_command c = { };

	c.delete_queue.opcode = opcode;
	c.delete_queue.qid = cpu_to_le16(uq->qid);
	nvme_submit_sync_cmd(uq->ctrl->admin_q, &c, NULL, 0);
}

static int nvme_uq_admin_create(struct nvme_uq *uq)
{
	struct nvme_ctrl *ctrl = uq->ctrl;
	struct nvme_command c = { };
	int flags = NVME_QUEUE_PHYS_CONTIG;
	int ret;

	c.create_cq.opcode = nvme_uq_admin_opcode(ctrl, nvme_admin_create_cq);
	c.create_cq.prp1 = cpu_to_le64(uq->cq_dma);
	c.create_cq.cqid = cpu_to_le16(uq->qid);
	c.create_cq.qsize = cpu_to_le16(uq->depth - 1);
	c.create_cq.cq_flags = cpu_to_le16(flags |
			(uq->polled ? 0 : NVME_CQ_IRQ_ENABLED));
	c.create_cq.irq_vector = cpu_to_le16(uq->polled ? 0 : uq->vector);
	ret = nvme_submit_sync_cmd(ctrl->admin_q, &c, NULL, 0);
	if (ret)
		return ret;

	memset(&c, 0, sizeof(c));
	if (ctrl->quirks & NVME_QUIRK_MEDIUM_PRIO_SQ)
		flags |= NVME_SQ_PRIO_MEDIUM;
	c.create_sq.opcode = nvme_uq_admin_opcode(ctrl, nvme_admin_create_sq);
	c.create_sq.prp1 = cpu_to_le64(uq->sq_dma);
	c.create_sq.sqid = cpu_to_le16(uq->qid);
	c.create_sq.qsize = cpu_to_le16(uq->depth - 1);
	c.create_sq.sq_flags = cpu_to_le16(flags);
	c.create_sq.cqid = cpu_to_le16(uq->qid);
	ret = nvme_submit_sync_cmd(ctrl->admin_q, &c, NULL, 0);
	if (ret > 0)
		nvme_uq_admin_delete(uq, nvme_admin_delete_cq);
	return ret;
}

/* Request the interrupt of a queue, and prepare the queue for completions. */
static int nvme_uq_go_live(struct nvme_uq *uq)
{
	struct pci_dev *pdev = to_pci_dev(uq->ctrl->dev);
	int ret;

	if (!uq->polled) {
		ret = pci_request_irq(pdev, uq->vector, nvme_uq_irq, NULL, uq,
				      "nvme%duq%u", uq->ctrl->instance, uq->id);
		if (ret)
			return ret;
		uq->irq = pci_irq_vector(pdev, uq->vector);
	}

	spin_lock(&uq->sq_lock);
	uq->sq_tail = 0;
	uq->last_sq_tail = 0;
	uq->dbbuf_sq_db = NULL;
	/* nvme_uq_quiesce() has cancelled the work */
	uq->tmo_armed = false;
	uq->blocked &= ~(NVME_UQ_UNAVAILABLE | NVME_UQ_DISABLED);
	nvme_uq_limits_changed(uq);
	/* cancelled commands may have had no doorbell */
	nvme_uq_info_submitted(uq);
	spin_unlock(&uq->sq_lock);

	guard(spinlock_irqsave)(&uq->cq_lock);
	WRITE_ONCE(uq->cq_next, uq->cqes);
	uq->cq_end = uq->cqes + uq->depth;
	WRITE_ONCE(uq->cq_phase, 1);
	uq->dbbuf_cq_db = NULL;
	/* pairs with the acquire in nvme_uq_may_reap() */
	smp_store_release(&uq->cq_live, true);
	nvme_uq_info_up(uq);
	return 0;
}

/**
 * struct nvme_uq_create_ctx - resources for the next queue
 * @shutdown_lock: excludes nvme_dev_disable()
 * @dbs:	doorbells
 * @db_stride:	stride of doorbells
 * @depth:	entries of a queue
 * @qid:	id of the queue
 * @vector:	vector of the queue, if it is an interrupt queue
 * @died:	the controller is being disabled
 */
struct nvme_uq_create_ctx {
	struct mutex		*shutdown_lock;	/* lock of pci.c */
	u32 __iomem		*dbs;
	u32			db_stride;
	u32			depth;
	unsigned int		qid;
	unsigned int		vector;
	bool			died;
};

static int nvme_uq_create_one(struct nvme_uq *uq,
			      struct nvme_uq_create_ctx *ctx)
{
	struct nvme_ctrl *ctrl = uq->ctrl;
	int ret = 0;

	/* a page fault of the owner may hold the lock for long */
	if (uq->depth != ctx->depth) {
		guard(mutex)(&uq->claim_lock);
		ret = nvme_uq_alloc_mem(uq, ctx->depth);
	}
	if (ret)
		return ret;

	uq->qid = ctx->qid;
	uq->vector = uq->polled ? 0 : ctx->vector;
	uq->sq_db = &ctx->dbs[uq->qid * 2 * ctx->db_stride];
	uq->cq_db = uq->sq_db + ctx->db_stride;
	uq->force_sgl = nvme_ctrl_sgl_supported(ctrl) &&
		!(NVME_UQ_FAULT && nvme_uq_fault_no_sgl(ctrl));
	uq->meta_sgl_ok = nvme_ctrl_meta_sgl_supported(ctrl) &&
		uq->force_sgl;
	uq->max_len = uq->force_sgl ? ctrl->max_hw_sectors << SECTOR_SHIFT : 0;
	/*
	 * Remove the completions of previous users. A zero entry is not
	 * pending, because the phase starts at 1.
	 */
	memset(uq->cqes, 0, NVME_UQ_CQ_BYTES(uq));
	ret = nvme_uq_admin_create(uq);
	/* if the controller rejects the command, ret is a status */
	ctx->died = ret < 0;
	if (ret)
		return ret;

	/* nvme_dev_disable() has priority, as in nvme_create_queue() */
	ctx->died = true;
	if (!mutex_trylock(ctx->shutdown_lock))
		return -ENODEV;
	if (nvme_ctrl_state(ctrl) != NVME_CTRL_CONNECTING) {
		mutex_unlock(ctx->shutdown_lock);
		return -ENODEV;
	}
	ctx->died = false;
	ret = nvme_uq_go_live(uq);
	mutex_unlock(ctx->shutdown_lock);
	if (ret) {
		nvme_uq_admin_delete(uq, nvme_admin_delete_sq);
		nvme_uq_admin_delete(uq, nvme_admin_delete_cq);
	}
	return ret;
}

/*
 * Create up to @want queues of a kind, and return the number of created queues.
 */
static unsigned int nvme_uq_create_kind(struct nvme_ctrl *ctrl, bool polled,
					unsigned int want,
					struct nvme_uq_create_ctx *ctx)
{
	unsigned int i;

	for (i = 0; i < want && !ctx->died; i++) {
		struct nvme_uq *uq = nvme_uq_nth(ctrl, polled, i);
		int ret;

		if (!uq)
			break;
		ret = nvme_uq_create_one(uq, ctx);
		if (ret) {
			dev_warn(ctrl->device,
				 "user queue %u not created: %d\n", uq->id, ret);
			break;
		}
		ctx->qid++;
		ctx->vector++;
	}
	return i;
}

/**
 * nvme_uq_create - create the user queues on the controller
 * @ctrl:	the controller, during a reset, with blk-mq's queues created
 * @shutdown_lock: excludes nvme_dev_disable()
 * @dbs:	doorbells
 * @db_stride:	stride of doorbells
 * @depth:	entries of a queue
 * @qid:	the first queue id after those of blk-mq
 * @vector:	the first interrupt vector after those of blk-mq
 *
 * The queues accept no commands before nvme_uq_unquiesce(). The reset continues
 * if some queues cannot be created.
 *
 * Return: 0; -ENODEV if the controller is being disabled meanwhile.
 */
int nvme_uq_create(struct nvme_ctrl *ctrl, struct mutex *shutdown_lock,
		   u32 __iomem *dbs, u32 db_stride, u32 depth,
		   unsigned int qid, unsigned int vector)
{
	struct nvme_uq_ctrl *uqc = ctrl->uq;
	struct nvme_uq_create_ctx ctx = {
		.shutdown_lock	= shutdown_lock,
		.dbs		= dbs,
		.db_stride	= db_stride,
		.depth		= depth,
		.qid		= qid,
		.vector		= vector,
	};
	unsigned int irq = 0, poll = 0, noio;

	if (!uqc)
		return 0;

	/* memory reclaim may wait for this controller */
	noio = memalloc_noio_save();
	if (nvme_uq_planned(ctrl) && !uqc->lists)
		uqc->lists = dma_pool_create("nvme user queue lists", ctrl->dev,
					     NVME_CTRL_PAGE_SIZE,
					     NVME_CTRL_PAGE_SIZE, 0);
	if (uqc->lists) {
		irq = nvme_uq_create_kind(ctrl, false, uqc->plan.irq, &ctx);
		poll = nvme_uq_create_kind(ctrl, true, uqc->plan.poll, &ctx);
	}
	memalloc_noio_restore(noio);
	if (ctx.died)
		return -ENODEV;

	dev_info(ctrl->device, "%u/%u user irq/poll queues, asked for %u/%u\n",
		 irq, poll, uqc->requested.irq, uqc->requested.poll);
	return 0;
}

/**
 * nvme_uq_set_dbbuf - use shadow doorbells
 * @ctrl:	the controller, which has accepted them
 * @dbs:	shadow doorbells
 * @eis:	event indices
 * @db_stride:	stride of doorbells
 */
void nvme_uq_set_dbbuf(struct nvme_ctrl *ctrl, __le32 *dbs, __le32 *eis,
		       u32 db_stride)
{
	struct nvme_uq_ctrl *uqc = ctrl->uq;
	unsigned int i;

	for (i = 0; uqc && i < uqc->nr; i++) {
		struct nvme_uq *uq = uqc->q[i];
		unsigned int sq = uq->qid * 2 * db_stride;

		if (!uq->cq_live)
			continue;
		/* the queue is down, so sq_lock is not needed */
		uq->dbbuf_sq_db = &dbs[sq];
		uq->dbbuf_sq_ei = &eis[sq];
		/* a faulty device may still post completions */
		guard(spinlock_irq)(&uq->cq_lock);
		uq->dbbuf_cq_db = &dbs[sq + db_stride];
		uq->dbbuf_cq_ei = &eis[sq + db_stride];
	}
}

/* Taking queues down, in the order of nvme_dev_disable() */

static enum rq_end_io_ret nvme_uq_delete_end(struct request *req,
					     blk_status_t error,
					     const struct io_comp_batch *iob)
{
	struct nvme_uq *uq = req->end_io_data;

	blk_mq_free_request(req);
	complete(&uq->deleted);
	return RQ_END_IO_NONE;
}

static bool nvme_uq_delete_start(struct nvme_uq *uq, u8 opcode)
{
	struct nvme_ctrl *ctrl = uq->ctrl;
	struct nvme_command cmd = { };
	struct request *req;

	cmd.delete_queue.opcode = nvme_uq_admin_opcode(ctrl, opcode);
	cmd.delete_queue.qid = cpu_to_le16(uq->qid);
	req = blk_mq_alloc_request(ctrl->admin_q, nvme_req_op(&cmd),
				   BLK_MQ_REQ_NOWAIT);
	if (IS_ERR(req))
		return false;
	nvme_init_request(req, &cmd);
	req->end_io = nvme_uq_delete_end;
	req->end_io_data = uq;
	reinit_completion(&uq->deleted);
	blk_execute_rq_nowait(req, false);
	return true;
}

/*
 * Delete all queues of a kind, like nvme_delete_io_queues(): the controller
 * gets as many commands at a time as there are tags. Return false if it does
 * not complete one in time. Others may use all tags; then the queues that are
 * left are not deleted, and disabling the controller removes them.
 */
static bool nvme_uq_delete_kind(struct nvme_uq_ctrl *uqc, u8 opcode)
{
	unsigned int sent = 0, done = 0, nr = nvme_uq_count(uqc);

	while (done < nr) {
		struct nvme_uq *uq = uqc->q[done];

		while (sent < nr &&
		       (!uqc->q[sent]->cq_live ||
			nvme_uq_delete_start(uqc->q[sent], opcode)))
			sent++;
		if (sent == done)
			break;
		if (uq->cq_live &&
		    !wait_for_completion_io_timeout(&uq->deleted,
						    uq->ctrl->admin_timeout))
			return false;
		done++;
	}
	return true;
}

/**
 * nvme_uq_quiesce - stop submission
 * @ctrl:	the controller, which is about to be disabled
 */
void nvme_uq_quiesce(struct nvme_ctrl *ctrl)
{
	struct nvme_uq_ctrl *uqc = ctrl->uq;
	bool live = false;
	unsigned int i;

	for (i = 0; i < nvme_uq_count(uqc); i++) {
		nvme_uq_block(uqc->q[i], NVME_UQ_DOWN | NVME_UQ_DISABLED);
		live |= uqc->q[i]->cq_live;
	}
	if (!live)
		return;

	/* wait for nvme_uq_dma_map(): the device may go away */
	synchronize_rcu();
	/* stop work that could enable interrupts; it is not queued again */
	for (i = 0; i < nvme_uq_count(uqc); i++) {
		cancel_delayed_work_sync(&uqc->q[i]->poll_work);
		cancel_delayed_work_sync(&uqc->q[i]->tmo_work);
	}
}

/**
 * nvme_uq_delete_queues - delete the queues on the controller
 * @ctrl:	the controller, after nvme_uq_quiesce()
 *
 * Return: false if the controller does not complete a command in time. Then no
 * more commands are sent.
 */
bool nvme_uq_delete_queues(struct nvme_ctrl *ctrl)
{
	return nvme_uq_delete_kind(ctrl->uq, nvme_admin_delete_sq) &&
		nvme_uq_delete_kind(ctrl->uq, nvme_admin_delete_cq);
}

/**
 * nvme_uq_free_irqs - free the interrupts of user queues
 * @ctrl:	the controller, disabled, before pci_free_irq_vectors()
 */
void nvme_uq_free_irqs(struct nvme_ctrl *ctrl)
{
	struct nvme_uq_ctrl *uqc = ctrl->uq;
	unsigned int i;

	for (i = 0; i < nvme_uq_count(uqc); i++) {
		struct nvme_uq *uq = uqc->q[i];

		if (uq->irq < 0)
			continue;
		WRITE_ONCE(uq->irq, -1);
		pci_free_irq(to_pci_dev(ctrl->dev), uq->vector, uq);
	}
}

/**
 * nvme_uq_end_disable - wait for the work that disables the controller
 * @ctrl:	the controller, which is disabled for good
 *
 * No command is in flight that could time out and queue the work again.
 */
void nvme_uq_end_disable(struct nvme_ctrl *ctrl)
{
	if (ctrl->uq)
		cancel_work_sync(&ctrl->uq->disable_work);
}

/**
 * nvme_uq_free_queues - free the memory of all queues
 * @ctrl:	the controller, which is disabled for good
 */
void nvme_uq_free_queues(struct nvme_ctrl *ctrl)
{
	struct nvme_uq_ctrl *uqc = ctrl->uq;
	unsigned int i;

	if (!uqc)
		return;
	/* wait for nvme_uq_may_reap() */
	synchronize_rcu();
	for (i = 0; i < uqc->nr; i++) {
		struct nvme_uq *uq = uqc->q[i];

		nvme_uq_block(uq, NVME_UQ_UNAVAILABLE | NVME_UQ_DOWN);
		cancel_delayed_work_sync(&uq->poll_work);
		cancel_delayed_work_sync(&uq->tmo_work);
		nvme_uq_info_gone(uq, NULL);
		scoped_guard(mutex, &uq->claim_lock)
			nvme_uq_free_mem(uq);
		nvme_uq_wake_all(uq);
	}
	nvme_uq_mem_revoke(ctrl);
	dma_pool_destroy(uqc->lists);
	uqc->lists = NULL;
}

/**
 * nvme_uq_free - free the queues
 * @ctrl:	the controller, after the last reference was dropped
 */
void nvme_uq_free(struct nvme_ctrl *ctrl)
{
	struct nvme_uq_ctrl *uqc = ctrl->uq;
	unsigned int i;

	if (!uqc)
		return;
	nvme_uq_del_ctrl(uqc);
	destroy_workqueue(uqc->rw_wq);
	for (i = 0; i < uqc->nr; i++)
		kfree(uqc->q[i]);
	if (NVME_UQ_FAULT)
		nvme_uq_fault_free(uqc);
	kfree(uqc);
}

