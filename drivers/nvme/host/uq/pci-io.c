// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: submission and completion of commands.
 *
 * Part of the PCI driver. Documentation/nvme/user-queues.rst documents the
 * lifecycle of a command.
 */
#include <kunit/visibility.h>
#include <linux/blkdev.h>
#include <linux/bvec.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/io.h>
#include <linux/nvme_ioctl.h>
#include <linux/slab.h>

#include "../uq.h"
#include "pci.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

/*
 * Doorbells
 */

/* Write a deferred doorbell, unless the queue is down. */
static void nvme_uq_pci_ring(struct nvme_uq *uq)
{
	lockdep_assert_held(&uq->sq_lock);
	if (uq->sq_tail != uq->last_sq_tail && !(uq->blocked & NVME_UQ_DOWN))
		nvme_uq_ring_sq(uq);
}

static void nvme_uq_ring_cq(struct nvme_uq *uq, u16 head)
{
	lockdep_assert_held(&uq->cq_lock);
	if (unlikely(uq->dbbuf_cq_db) &&
	    !nvme_uq_dbbuf_update(head, uq->dbbuf_cq_db, uq->dbbuf_cq_ei))
		return;
	writel(head, uq->cq_db);
}

/**
 * struct nvme_uq_plug - a doorbell that is deferred to the end of a batch
 * @cb:		callback of the task's plug
 * @plug:	that plug
 * @file:	reference that keeps the queue, and the module with this code:
 *		the doorbell of another task may have made all commands of the
 *		batch complete before it ends
 */
struct nvme_uq_plug {
	struct blk_plug_cb	cb;
	struct blk_plug		*plug;
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
	 * such a value is lost here, that task searches its callback again.
	 */
	if (READ_ONCE(uq->plug) == cb->plug)
		WRITE_ONCE(uq->plug, NULL);
	nvme_uq_pci_ring(uq);
	spin_unlock(&uq->sq_lock);
	kfree(cb);
	fput(file);
}

static bool nvme_uq_add_plug(struct nvme_uq *uq, struct blk_plug *plug,
			     struct file *file)
{
	struct nvme_uq_plug *cb;
	struct blk_plug_cb *blk_cb;

	blk_cb = blk_check_plugged(nvme_uq_unplug, uq, sizeof(*cb));
	if (!blk_cb)
		return false;
	cb = container_of(blk_cb, struct nvme_uq_plug, cb);
	if (!cb->file) {
		cb->file = get_file(file);
		cb->plug = plug;
	}
	WRITE_ONCE(uq->plug, plug);
	return true;
}

/*
 * Return true if the doorbell is deferred to the end of the batch. io_uring
 * plugs submissions of more than two; nvme_uq.plug caches that the plug has a
 * callback already.
 */
static __always_inline bool nvme_uq_defer_doorbell(struct nvme_uq *uq,
						   struct io_uring_cmd *ioucmd)
{
	struct blk_plug *plug = current->plug;

	if (!plug)
		return false;
	if (likely(READ_ONCE(uq->plug) == plug))
		return true;
	return nvme_uq_add_plug(uq, plug, ioucmd->file);
}

/*
 * Completion in the context of the task that submitted the command
 */

/*
 * The most commands that one task work completes. io_uring takes 20 task works
 * before it looks at what a task waits for and at the completion queue, so the
 * more there are in each, the more completions may come at once.
 */
#define NVME_UQ_CHAIN	8

/* Unpin user memory. May sleep. */
static __always_inline void nvme_uq_unpin_user(unsigned long val,
					       bool completed)
{
	if (unlikely(val))
		__nvme_uq_unpin_user(val, completed);
}

static __always_inline void nvme_uq_finish(struct io_uring_cmd *ioucmd,
					   unsigned int issue_flags)
{
	struct nvme_uq_pdu *pdu = nvme_uq_pdu(ioucmd);

	nvme_uq_unpin_user(pdu->user, true);
	io_uring_cmd_done32(ioucmd, pdu->status, pdu->result, issue_flags);
}

static void nvme_uq_task_cb(struct io_tw_req tw_req, io_tw_token_t tw)
{
	struct io_uring_cmd *ioucmd = io_uring_cmd_from_tw(tw_req), *next;

	do {
		next = nvme_uq_pdu(ioucmd)->next;
		nvme_uq_finish(ioucmd, IO_URING_CMD_TASK_WORK_ISSUE_FLAGS);
		ioucmd = next;
	} while (ioucmd);
}

/*
 * Complete the first commands of a list by one task work: those of the same ring
 * and task, as many as one task work should complete. Return the next command.
 */
static struct io_uring_cmd *nvme_uq_finish_in_task(struct io_uring_cmd *ioucmd)
{
	struct io_uring_cmd *last = ioucmd, *next;
	unsigned int nr = 1;

	while ((next = nvme_uq_pdu(last)->next) && nr < NVME_UQ_CHAIN &&
	       io_uring_cmd_shares_task_work(ioucmd, next)) {
		last = next;
		nr++;
	}
	nvme_uq_pdu(last)->next = NULL;
	io_uring_cmds_do_in_task_lazy(ioucmd, nvme_uq_task_cb, nr);
	return next;
}

/* Complete all commands of a list by task work of the tasks that submitted them. */
static void nvme_uq_finish_all(struct nvme_uq_done *done)
{
	struct io_uring_cmd *ioucmd;

	*done->last = NULL;
	for (ioucmd = done->first; ioucmd; )
		ioucmd = nvme_uq_finish_in_task(ioucmd);
}

/*
 * Complete commands. Those of the ring that is polling (@poll_ctx) are completed
 * directly, the others by task work.
 */
static void nvme_uq_finish_polled(struct nvme_uq_done *done, void *poll_ctx)
{
	struct nvme_uq_done others;
	struct io_uring_cmd *ioucmd, *next;

	nvme_uq_done_init(&others);
	*done->last = NULL;
	for (ioucmd = done->first; ioucmd; ioucmd = next) {
		next = nvme_uq_pdu(ioucmd)->next;
		if (likely(poll_ctx == io_uring_cmd_ctx_handle(ioucmd)))
			nvme_uq_finish(ioucmd, 0);
		else
			nvme_uq_done_add(&others, ioucmd);
	}
	nvme_uq_finish_all(&others);
}

/*
 * DMA
 */

/*
 * Map what was prepared. Under RCU, so that nvme_uq_quiesce() can wait for it:
 * no memory is mapped for a device that is being unbound.
 */
static __always_inline int nvme_uq_dma_map(struct nvme_uq *uq,
					   struct nvme_uq_io *io, u8 flags)
{
	io->flags = io->write ? flags | NVME_UQ_WRITE : flags;
	if (!io->len)
		return 0;
	if (nvme_uq_fault_no_memory(uq))
		return -ENOMEM;
	if (unlikely(io->sglist || io->metabuf || !uq->force_sgl))
		return nvme_uq_dma_map_slow(uq, io);
	return nvme_uq_dma_map_one(uq, io);
}

static __always_inline void nvme_uq_set_one(struct nvme_uq *uq,
					    struct nvme_command *c,
					    const struct nvme_uq_io *io)
{
	dma_addr_t second;

	c->common.dptr.prp1 = cpu_to_le64(io->addr);
	if (likely(uq->force_sgl)) {
		/* one store for length, reserved bytes and type */
		static_assert(NVME_SGL_FMT_DATA_DESC == 0);
		c->common.flags = NVME_CMD_SGL_METABUF;
		c->common.dptr.prp2 = cpu_to_le64(io->len);
		return;
	}

	second = round_down(io->addr, NVME_CTRL_PAGE_SIZE) +
		NVME_CTRL_PAGE_SIZE;
	if (io->addr + io->len > second)
		c->common.dptr.prp2 = cpu_to_le64(second);
}

/*
 * Completion
 */

/* Release resources that few commands have. */
static noinline void nvme_uq_release_iod(struct nvme_uq *uq,
					 struct nvme_uq_iod *iod)
{
	nvme_uq_dma_unmap_slow(uq, iod);
	if (iod->flags & NVME_UQ_SGLIST)
		kfree(iod->sglist);
	if (iod->flags & NVME_UQ_UNPOLLED)
		WRITE_ONCE(uq->unpolled_done, uq->unpolled_done + 1);
}

/* With cq_lock held: the command may hold the last reference of the file. */
static noinline void nvme_uq_wake_file(struct nvme_uq_file *uf)
{
	if (wq_has_sleeper(&uf->waitq))
		wake_up(&uf->waitq);
}

static __always_inline void
nvme_uq_complete_iod(struct nvme_uq *uq, unsigned int idx, int status,
		     u64 result, struct nvme_uq_done *done)
{
	struct nvme_uq_iod *iod = &uq->iod[idx];
	struct io_uring_cmd *ioucmd = iod->ioucmd;
	struct nvme_uq_pdu *pdu = nvme_uq_pdu(ioucmd);
	struct nvme_uq_file *uf = iod->file;

	pdu->status = status;
	pdu->result = result;
	uq->completed++;
	WRITE_ONCE(uf->completed, uf->completed + 1);
	if (unlikely(uf->limited))
		nvme_uq_wake_file(uf);
	if (unlikely(iod->flags & (NVME_UQ_UNMAP | NVME_UQ_META |
				   NVME_UQ_SGLIST | NVME_UQ_UNPOLLED)))
		nvme_uq_release_iod(uq, iod);
	nvme_uq_tag_put(&uq->tags, idx);
	nvme_uq_done_add(done, ioucmd);
}

static noinline void nvme_uq_spurious(struct nvme_uq *uq, u16 cid)
{
	uq->spurious++;
	dev_warn_ratelimited(uq->ctrl->device,
			     "invalid id %u completed on user queue %u\n",
			     cid, uq->qid);
}

static __always_inline void
nvme_uq_handle_cid(struct nvme_uq *uq, u16 cid, int status, u64 result,
		   struct nvme_uq_done *done)
{
	int idx = nvme_uq_tag_match(&uq->tags, cid);

	if (unlikely(idx < 0)) {
		nvme_uq_spurious(uq, cid);
		return;
	}
	trace_nvme_uq_complete(uq, cid, status, result);
	nvme_uq_complete_iod(uq, idx, status, result, done);
}

/* Apply injected faults to a completion, see pci-fault.c. */
static void nvme_uq_handle_faulty(struct nvme_uq *uq, u16 cid, int status,
				  u64 result, struct nvme_uq_done *done)
{
	struct nvme_uq_seen seen[NVME_UQ_FAULT_SEEN] = {
		{ .cid = cid, .status = status, .result = result },
	};
	unsigned int i, n = nvme_uq_fault_see(uq, seen);

	for (i = 0; i < n; i++)
		nvme_uq_handle_cid(uq, seen[i].cid, seen[i].status,
				   seen[i].result, done);
}

static __always_inline void
nvme_uq_handle_cqe(struct nvme_uq *uq, const struct nvme_completion *cqe,
		   struct nvme_uq_done *done)
{
	u16 cid = READ_ONCE(cqe->command_id);
	u32 status = le16_to_cpu(READ_ONCE(cqe->status));
	u64 result = le64_to_cpu(READ_ONCE(cqe->result.u64));

	if (IS_ENABLED(CONFIG_NVME_UQ_FAULT))
		nvme_uq_handle_faulty(uq, cid, status >> 1, result, done);
	else
		nvme_uq_handle_cid(uq, cid, status >> 1, result, done);
}

/*
 * Reap all completions, and return their number. With cq_lock held.
 *
 * A device may fill the queue once before the doorbell below returns entries to
 * it. If the loop is about to start a second pass, the device is overwriting
 * entries that were not returned, and could keep the loop running with
 * interrupts disabled for an unlimited time. Valid completions that follow are
 * found at the next interrupt, at the next poll, or when a command is overdue.
 */
static __always_inline unsigned int
__nvme_uq_reap_locked(struct nvme_uq *uq, struct nvme_uq_done *done)
{
	const struct nvme_completion *cqe = uq->cq_next;
	struct nvme_uq_done list = { .last = done->last };
	unsigned int found = 0;
	u16 phase = uq->cq_phase;
	u32 head;

	while (nvme_uq_cqe_pending(cqe, phase) || nvme_uq_fault_storm(uq)) {
		/* the rest of the entry is valid if its phase was */
		dma_rmb();
		nvme_uq_handle_cqe(uq, cqe, &list);
		found++;
		if (unlikely(++cqe == uq->cq_end)) {
			cqe = uq->cqes;
			phase ^= 1;
			if (phase == uq->cq_phase)
				break;
		}
	}
	if (!found)
		return 0;

	done->last = list.last;
	WRITE_ONCE(uq->cq_next, cqe);
	WRITE_ONCE(uq->cq_phase, phase);
	uq->reaps++;
	head = nvme_uq_cq_head(uq);
	nvme_uq_ring_cq(uq, head);
	nvme_uq_info_reaped(uq, head);
	return found;
}

/* For all but nvme_uq_irq() and nvme_uq_pci_iopoll(). */
VISIBLE_IF_KUNIT unsigned int nvme_uq_reap_locked(struct nvme_uq *uq,
						  struct nvme_uq_done *done)
{
	return __nvme_uq_reap_locked(uq, done);
}
EXPORT_SYMBOL_IF_KUNIT(nvme_uq_reap_locked);

static void nvme_uq_wake(struct nvme_uq *uq, unsigned int freed)
{
	if (unlikely(wq_has_sleeper(&uq->waitq)))
		wake_up_nr(&uq->waitq, freed);
	/* the barrier of wq_has_sleeper() orders this one too */
	if (unlikely(waitqueue_active(&uq->idle_wait)))
		wake_up(&uq->idle_wait);
}

/*
 * Look for a completion without cq_lock, which other tasks that poll have no use
 * for if there is none. What is read here may be of two moments: then a poll is
 * in vain, or the next one finds what this one has missed.
 *
 * A request that polls need not be in flight any more, so nothing but RCU keeps
 * the entries: their memory is freed after a grace period in which @cq_live was
 * false.
 */
static __always_inline bool nvme_uq_may_reap(struct nvme_uq *uq)
{
	bool ret = false;

	rcu_read_lock();
	/* pairs with the release in nvme_uq_go_live(): entries of this life */
	if (likely(smp_load_acquire(&uq->cq_live)))
		ret = nvme_uq_cqe_pending(READ_ONCE(uq->cq_next),
					  READ_ONCE(uq->cq_phase)) ||
			nvme_uq_fault_may_storm(uq);
	rcu_read_unlock();
	return ret;
}

static int nvme_uq_pci_iopoll(struct nvme_uq *uq, struct io_comp_batch *iob,
			      unsigned int flags)
{
	struct nvme_uq_done done;
	unsigned int found = 0;

	if (!nvme_uq_may_reap(uq))
		return 0;
	/*
	 * Poll once. io_uring calls again until it has enough completions, and
	 * in between runs task work for those that other tasks have reaped.
	 */
	nvme_uq_done_init(&done);
	spin_lock(&uq->cq_lock);
	if (likely(uq->cq_live))
		found = __nvme_uq_reap_locked(uq, &done);
	spin_unlock(&uq->cq_lock);

	if (!found)
		return 0;
	nvme_uq_finish_polled(&done, iob ? iob->poll_ctx : NULL);
	nvme_uq_wake(uq, found);
	return found;
}

/**
 * nvme_uq_irq - interrupt handler of an interrupt queue
 * @irq:	the interrupt
 * @data:	the queue
 *
 * Return: IRQ_HANDLED if there was a completion.
 */
irqreturn_t nvme_uq_irq(int irq, void *data)
{
	struct nvme_uq *uq = data;
	struct nvme_uq_done done;
	unsigned int found = 0;

	if (nvme_uq_fault_irq(uq))
		return IRQ_HANDLED;
	nvme_uq_done_init(&done);
	spin_lock(&uq->cq_lock);
	if (likely(uq->cq_live))
		found = __nvme_uq_reap_locked(uq, &done);
	spin_unlock(&uq->cq_lock);

	if (!found)
		return IRQ_NONE;
	nvme_uq_finish_all(&done);
	nvme_uq_wake(uq, found);
	return IRQ_HANDLED;
}

/**
 * nvme_uq_pci_reap - reap completions of all rings
 * @uq:		the queue
 *
 * May sleep.
 */
void nvme_uq_pci_reap(struct nvme_uq *uq)
{
	struct nvme_uq_done done;
	unsigned int found = 0;
	unsigned long flags;
	int irq = uq->irq;

	nvme_uq_done_init(&done);
	/* keeps the IRQ core from counting an interrupt as spurious */
	if (irq >= 0)
		disable_irq(irq);
	spin_lock_irqsave(&uq->cq_lock, flags);
	if (uq->cq_live)
		found = nvme_uq_reap_locked(uq, &done);
	spin_unlock_irqrestore(&uq->cq_lock, flags);
	if (irq >= 0)
		enable_irq(irq);

	if (!found)
		return;
	nvme_uq_finish_all(&done);
	nvme_uq_wake(uq, found);
}

/*
 * Polling on behalf of rings that do not poll. The pause between two polls, in
 * microseconds, is short after one that found a completion, and doubles after
 * each that did not. Commands that take long are polled once in a tick.
 */
#define NVME_UQ_PAUSE_MIN	10
#define NVME_UQ_PAUSE_MAX	1000

/* Return true if commands of such rings are in flight. */
static bool nvme_uq_has_unpolled(const struct nvme_uq *uq)
{
	return READ_ONCE(uq->unpolled) != READ_ONCE(uq->unpolled_done);
}

/* A ring that does not poll has submitted a command. With sq_lock held. */
static void nvme_uq_queue_poll_work(struct nvme_uq *uq)
{
	lockdep_assert_held(&uq->sq_lock);
	WRITE_ONCE(uq->unpolled, uq->unpolled + 1);
	/* queue it even if it runs now: it may have found none in flight */
	queue_delayed_work(nvme_wq, &uq->poll_work, 0);
}

/**
 * nvme_uq_poll_work - poll while commands of rings that do not are in flight
 * @work:	nvme_uq.poll_work
 */
void nvme_uq_poll_work(struct work_struct *work)
{
	struct nvme_uq *uq = container_of(to_delayed_work(work),
					  struct nvme_uq, poll_work);
	unsigned int pause = uq->poll_pause ?: NVME_UQ_PAUSE_MIN;

	/* quiescing waits for this work; the commands are cancelled later */
	while (nvme_uq_has_unpolled(uq) &&
	       !(READ_ONCE(uq->blocked) & NVME_UQ_DOWN)) {
		u32 done = READ_ONCE(uq->unpolled_done);

		nvme_uq_pci_reap(uq);
		if (READ_ONCE(uq->unpolled_done) != done) {
			pause = NVME_UQ_PAUSE_MIN;
			cond_resched();
			continue;
		}
		if (pause > NVME_UQ_PAUSE_MAX) {
			uq->poll_pause = pause;
			queue_delayed_work(nvme_wq, &uq->poll_work, 1);
			return;
		}
		fsleep(pause);
		pause *= 2;
	}
	uq->poll_pause = 0;
}

/* Cancel all commands in flight, and return their number. With cq_lock held. */
static unsigned int nvme_uq_cancel_locked(struct nvme_uq *uq,
					  struct nvme_uq_done *done)
{
	unsigned int i, n = 0;

	for (i = 0; i < uq->tags.nr; i++) {
		/* pairs with the release in nvme_uq_tag_arm() */
		u32 cid = smp_load_acquire(&uq->tags.cid[i]);

		if (!(cid & NVME_UQ_ARMED))
			continue;
		nvme_uq_tag_match(&uq->tags, cid);
		nvme_uq_complete_iod(uq, i, -EINTR, 0, done);
		n++;
	}
	uq->cancelled += n;
	return n;
}

/**
 * nvme_uq_cancel - cancel all commands that are in flight
 * @ctrl:	the controller, which can no longer reach memory
 */
void nvme_uq_cancel(struct nvme_ctrl *ctrl)
{
	struct nvme_uq_ctrl *uqc = ctrl->uq;
	unsigned int i;

	for (i = 0; uqc && i < uqc->nr; i++) {
		struct nvme_uq *uq = uqc->q[i];
		struct nvme_uq_done done;
		unsigned long flags;

		nvme_uq_done_init(&done);
		spin_lock_irqsave(&uq->cq_lock, flags);
		if (uq->cq_live) {
			/* the last chance to see completions of the device */
			nvme_uq_reap_locked(uq, &done);
			nvme_uq_info_down(uq, NVME_UQ_STATE_DOWN);
			nvme_uq_cancel_locked(uq, &done);
			WRITE_ONCE(uq->cq_live, false);
			nvme_uq_info_reaped(uq, NVME_UQ_HEAD_NONE);
		}
		spin_unlock_irqrestore(&uq->cq_lock, flags);
		nvme_uq_finish_all(&done);
		nvme_uq_wake_all(uq);
	}
}

/*
 * Preparation: everything that may sleep, before a tag is taken
 */

static void nvme_uq_unprep(struct nvme_uq_io *io)
{
	kfree(io->sglist);
	nvme_uq_unpin_user(io->user, false);
}

/* Registered buffers: nearly always a part of one bio_vec. */
static __always_inline int nvme_uq_prep_fixed(struct nvme_uq_io *io)
{
	const struct bio_vec *bv = io->iter.bvec;
	size_t offset = io->iter.iov_offset;

	if (unlikely(offset + io->iter.count > bv->bv_len))
		return nvme_uq_prep_bvecs(io);
	io->phys = bvec_phys(bv) + offset;
	return unlikely((io->phys | io->iter.count) & 3) ? -EINVAL : 0;
}

static __always_inline int nvme_uq_prep(struct nvme_uq *uq,
					struct nvme_uq_io *io)
{
	size_t len = io->iter.count;
	int ret;

	io->user = 0;
	io->sglist = NULL;
	io->metabuf = NULL;
	io->addr = 0;
	io->meta_addr = 0;
	io->len = len;
	if (!len)
		return 0;
	if (unlikely(len > (u64)uq->ctrl->max_hw_sectors << SECTOR_SHIFT))
		return -EINVAL;

	if (likely(iov_iter_is_bvec(&io->iter)))
		ret = nvme_uq_prep_fixed(io);
	else
		ret = nvme_uq_prep_user(io);
	if (unlikely(io->meta_len) && !ret)
		ret = nvme_uq_prep_meta(io);
	if (unlikely(ret))
		nvme_uq_unprep(io);
	return ret;
}

/*
 * Submission
 */

/*
 * Copy the dwords of a command that are passed to the device unchanged. Later
 * checks use the copy: it is made by volatile accesses, two dwords at a time,
 * so that the compiler cannot read again what user space may have changed.
 */
static __always_inline void
nvme_uq_copy_dwords(struct nvme_command *c, const struct nvme_uring_cmd *cmd)
{
	const u64 *from2 = (const u64 *)&cmd->cdw2;
	const u64 *from10 = (const u64 *)&cmd->cdw10;
	u64 *to2 = (u64 *)c->common.cdw2;
	u64 *to10 = (u64 *)&c->common.cdws;

	static_assert(sizeof(c->common.cdw2) == sizeof(*to2));
	static_assert(sizeof(c->common.cdws) == 3 * sizeof(*to10));
	static_assert(sizeof(c->common.cdws) ==
		      offsetofend(struct nvme_uring_cmd, cdw15) -
		      offsetof(struct nvme_uring_cmd, cdw10));

	*to2 = READ_ONCE(*from2);
	to10[0] = READ_ONCE(from10[0]);
	to10[1] = READ_ONCE(from10[1]);
	to10[2] = READ_ONCE(from10[2]);
	cpu_to_le32_array((u32 *)c->common.cdw2, 2);
	cpu_to_le32_array((u32 *)&c->common.cdws, 6);
}

static struct nvme_uq_fmt nvme_uq_get_fmt(const struct nvme_uq_node *node)
{
	const struct nvme_ns_head *head = node->ns->head;

	return (struct nvme_uq_fmt){
		.csi		= head->ids.csi,
		.lba_shift	= head->lba_shift,
		.ms		= head->ms,
		.pi_size	= head->pi_type ? head->pi_size : 0,
		.ext		= head->features & NVME_NS_EXT_LBAS,
	};
}

/*
 * Return true if the transfer cannot exceed the buffers. An SGL has their
 * length; elsewhere the fields of the command must not ask for more.
 */
static noinline bool nvme_uq_fits(struct nvme_uq *uq,
				  const struct nvme_command *c,
				  const struct nvme_uq_node *node,
				  u32 len, u32 meta_len)
{
	struct nvme_uq_fmt fmt = nvme_uq_get_fmt(node);

	if (!uq->force_sgl && !nvme_uq_xfer_fits(c, &fmt, len))
		return false;
	if (uq->force_sgl && uq->meta_sgl_ok && meta_len)
		return true;
	return nvme_uq_meta_fits(c, &fmt, meta_len);
}

/*
 * A command without a buffer that may transfer data gets an SGL of length 0. A
 * PRP would be address 0, which the device would access.
 */
static noinline void nvme_uq_set_none(struct nvme_uq *uq,
				      struct nvme_command *c,
				      const struct nvme_uq_io *io)
{
	struct nvme_uq_fmt fmt = nvme_uq_get_fmt(io->node);

	if (uq->force_sgl && !nvme_uq_xfer_fits(c, &fmt, 0))
		c->common.flags = NVME_CMD_SGL_METABUF;
}

/* Take a tag, and fill in what the iod of each command has. */
static __always_inline unsigned int
nvme_uq_take_tag(struct nvme_uq *uq, struct nvme_uq_file *uf,
		 struct io_uring_cmd *ioucmd, u8 opcode, u8 flags,
		 unsigned int timeout, unsigned long deadline)
{
	unsigned int idx = nvme_uq_tag_get(&uq->tags);
	struct nvme_uq_iod *iod = &uq->iod[idx];

	iod->ioucmd = ioucmd;
	iod->file = uf;
	uf->submitted++;
	iod->deadline = deadline;
	iod->timeout = timeout;
	iod->opcode = opcode;
	iod->flags = flags;
	return idx;
}

/*
 * The entry and the iod are complete. As soon as the tag is armed, the command
 * may complete and the submitter may be gone.
 */
static __always_inline void nvme_uq_publish(struct nvme_uq *uq,
					    struct nvme_command *c,
					    unsigned int idx,
					    unsigned long deadline)
{
	c->common.command_id = nvme_uq_tag_arm(&uq->tags, idx);
	trace_nvme_uq_submit(uq, c);
	if (++uq->sq_tail == uq->depth)
		uq->sq_tail = 0;
	uq->submitted++;
	if (unlikely(!uq->tmo_armed || time_before(deadline, uq->tmo_next)))
		nvme_uq_arm_timeout(uq, deadline);
}

/*
 * Write a submission queue entry and fill in its iod. With sq_lock held. The
 * command is checked here, where user space can no longer change it.
 */
static __always_inline int nvme_uq_write_sqe(struct nvme_uq *uq,
					     struct nvme_uq_io *io)
{
	struct nvme_command *c = uq->sq_cmds + uq->sq_tail * sizeof(*c);
	unsigned long deadline = jiffies + io->timeout + NVME_UQ_GRACE;
	struct nvme_uq_iod *iod;
	unsigned int idx;

	c->common.opcode = io->opcode;
	c->common.flags = 0;
	c->common.nsid = cpu_to_le32(io->nsid);
	c->common.metadata = 0;
	c->common.dptr.prp1 = 0;
	c->common.dptr.prp2 = 0;
	nvme_uq_copy_dwords(c, io->cmd);
	if (unlikely(!uq->force_sgl || io->node->ns->head->ms) &&
	    !nvme_uq_fits(uq, c, io->node, io->len, io->meta_len))
		return -EINVAL;

	idx = nvme_uq_take_tag(uq, io->file, io->ioucmd, io->opcode, io->flags,
			       io->timeout, deadline);
	iod = &uq->iod[idx];
	/* used by nvme_uq_dma_unmap() */
	if (unlikely(io->flags & (NVME_UQ_UNMAP | NVME_UQ_META |
				  NVME_UQ_SGLIST))) {
		iod->addr = io->addr;
		iod->len = io->len;
		iod->sglist = io->sglist;
		iod->meta_addr = io->meta_addr;
		iod->meta_len = io->meta_len;
	}
	if (unlikely(io->flags & NVME_UQ_SGLIST))
		nvme_uq_set_sglist(uq, c, io->sglist);
	else if (io->len)
		nvme_uq_set_one(uq, c, io);
	else
		nvme_uq_set_none(uq, c, io);
	if (unlikely(io->flags & NVME_UQ_META))
		nvme_uq_set_meta(uq, c, io, idx);

	nvme_uq_publish(uq, c, idx, deadline);
	return -EIOCBQUEUED;
}

/*
 * Try once; -EAGAIN if there is no tag or the queue is blocked, -ENOMEM if data
 * cannot be mapped without sleeping.
 */
static __always_inline int nvme_uq_try(struct nvme_uq *uq,
				       struct nvme_uq_io *io,
				       struct nvme_uq_waiter *waiter, u8 flags)
{
	bool defer;
	int ret;

	if (unlikely(READ_ONCE(uq->blocked) &
		     READ_ONCE(io->file->blocked_mask)))
		return nvme_uq_submit_errno(uq, io->file, io->node);
	/* a waiter that is in a wait queue has looked */
	if (waiter && !waiter->waitq &&
	    (nvme_uq_is_full(uq) || nvme_uq_at_limit(uq, io->file)))
		return nvme_uq_submit_errno(uq, io->file, io->node);
	ret = nvme_uq_dma_map(uq, io, flags);
	if (unlikely(ret))
		return ret;
	nvme_uq_pdu(io->ioucmd)->user = io->user;
	defer = nvme_uq_defer_doorbell(uq, io->ioucmd);

	spin_lock(&uq->sq_lock);
	ret = -EAGAIN;
	if (likely(nvme_uq_admit(uq, io->file, io->node, waiter)))
		ret = nvme_uq_write_sqe(uq, io);
	if (likely(ret == -EIOCBQUEUED)) {
		if (!defer)
			nvme_uq_ring_sq(uq);
		if (flags & NVME_UQ_UNPOLLED)
			nvme_uq_queue_poll_work(uq);
		spin_unlock(&uq->sq_lock);
		return ret;
	}
	spin_unlock(&uq->sq_lock);

	nvme_uq_dma_unmap_io(uq, io);
	return ret == -EAGAIN ? nvme_uq_submit_errno(uq, io->file, io->node) : ret;
}

/* Submit a command that may wait for its limit or for a tag. */
static noinline int nvme_uq_submit_wait(struct nvme_uq *uq,
					struct nvme_uq_io *io, u8 flags)
{
	struct nvme_uq_waiter waiter = {
		.wait	= {
			.private	= current,
			.func		= default_wake_function,
		},
	};
	unsigned long deadline = jiffies + io->timeout;
	int ret;

	do {
		rcu_read_lock();
		ret = nvme_uq_try(uq, io, &waiter, flags);
		rcu_read_unlock();
		if (ret == -EAGAIN)
			ret = nvme_uq_wait_turn(uq, io, &waiter);
		else if (ret == -ENOMEM)
			ret = nvme_uq_wait_memory(uq, io, &waiter, deadline);
	} while (!ret);

	if (ret != -EIOCBQUEUED)
		nvme_uq_abandon(uq, io, &waiter);
	return ret;
}

static int nvme_uq_pci_submit(struct nvme_uq *uq, struct nvme_uq_io *io)
{
	u8 flags = io->unpolled ? NVME_UQ_UNPOLLED : 0;
	int ret;

	if (io->nowait && (nvme_uq_is_full(uq) ||
			   nvme_uq_at_limit(uq, io->file)))
		return nvme_uq_submit_errno(uq, io->file, io->node);
	ret = nvme_uq_prep(uq, io);
	if (unlikely(ret))
		return ret;

	if (unlikely(!io->nowait)) {
		ret = nvme_uq_submit_wait(uq, io, flags);
	} else {
		rcu_read_lock();
		ret = nvme_uq_try(uq, io, NULL, flags);
		rcu_read_unlock();
		/* a worker can wait for memory */
		if (ret == -ENOMEM)
			ret = -EAGAIN;
	}
	if (unlikely(ret != -EIOCBQUEUED))
		nvme_uq_unprep(io);
	return ret;
}

/*
 * The most frequent commands: data in one piece of a registered buffer or in one
 * page, no metadata, the usual timeout, a controller with SGLs. For these, few of
 * the steps above do anything, and nothing of what struct nvme_uq_io describes
 * has to be in memory. They are the same steps in the same order, and a command
 * of another kind starts again in nvme_uq_queue().
 */

/*
 * Return true if the command is permitted for certain; if not, nvme_uq_check_cmd()
 * knows. Most commands have no effect but that some change logical blocks.
 */
static __always_inline bool nvme_uq_is_permitted(const struct nvme_ns *ns,
						 const struct file *file,
						 u8 opcode, u32 nsid)
{
	const struct nvme_ns_head *head = ns->head;
	u32 effects = le32_to_cpu(head->effects->iocs[opcode]);

	if (unlikely(nsid != head->ns_id || opcode >= nvme_fabrics_command))
		return false;
	if (effects == NVME_CMD_EFFECTS_CSUPP && !(opcode & 1))
		return true;
	return (effects & ~NVME_CMD_EFFECTS_LBCC) == NVME_CMD_EFFECTS_CSUPP &&
		(file->f_mode & FMODE_WRITE);
}

/* Find or pin the data. Return false if it is not in one piece of memory. */
static __always_inline bool
nvme_uq_prep_one(struct nvme_uq *uq, struct nvme_uq_file *uf,
		 struct io_uring_cmd *ioucmd, u64 addr, u32 len, bool write,
		 phys_addr_t *phys, unsigned int issue_flags)
{
	struct bio_vec bv __uninitialized;
	phys_addr_t page __uninitialized;
	unsigned long user;

	if (unlikely(((u32)addr | len) & 3))
		return false;
	if (likely(ioucmd->flags & IORING_URING_CMD_FIXED)) {
		if (unlikely(io_uring_cmd_import_fixed_bvec(ioucmd, addr, len,
							    write, &bv,
							    issue_flags)))
			return false;
		*phys = bvec_phys(&bv);
		nvme_uq_pdu(ioucmd)->user = 0;
		return true;
	}
	if (unlikely(offset_in_page(addr) + len > PAGE_SIZE ||
		     (issue_flags & IO_URING_F_COMPAT) ||
		     nvme_uq_at_limit(uq, uf)))
		return false;
	user = nvme_uq_pin_page(addr, write, &page);
	*phys = page;
	nvme_uq_pdu(ioucmd)->user = user;
	return !IS_ERR_VALUE(user);
}

/* Flags of a command that was mapped by dma_map_phys(). */
static __always_inline u8 nvme_uq_unmap_flags(struct nvme_uq *uq, u8 opcode)
{
	if (likely(!dma_need_unmap(uq->dma_dev)))
		return 0;
	return opcode & 1 ? NVME_UQ_UNMAP | NVME_UQ_WRITE : NVME_UQ_UNMAP;
}

/*
 * As nvme_uq_write_sqe(). The namespace id and the opcode are those that were
 * checked.
 */
static __always_inline int
nvme_uq_write_one(struct nvme_uq *uq, struct nvme_uq_file *uf,
		  struct io_uring_cmd *ioucmd, u8 opcode, dma_addr_t addr,
		  u32 len)
{
	u8 flags = nvme_uq_unmap_flags(uq, opcode);
	const struct nvme_uring_cmd *cmd =
		io_uring_sqe128_cmd(ioucmd->sqe, struct nvme_uring_cmd);
	struct nvme_command *c = uq->sq_cmds + uq->sq_tail * sizeof(*c);
	const struct nvme_ns_head *head = uf->node->ns->head;
	unsigned int timeout = uq->ctrl->io_timeout, idx;
	unsigned long deadline = jiffies + timeout + NVME_UQ_GRACE;

	c->common.opcode = opcode;
	c->common.flags = NVME_CMD_SGL_METABUF;
	c->common.nsid = cpu_to_le32(head->ns_id);
	c->common.metadata = 0;
	c->common.dptr.prp1 = cpu_to_le64(addr);
	/* length, reserved bytes and type of the descriptor */
	c->common.dptr.prp2 = cpu_to_le64(len);
	nvme_uq_copy_dwords(c, cmd);
	if (unlikely(head->ms) && !nvme_uq_fits(uq, c, uf->node, len, 0))
		return -EINVAL;

	idx = nvme_uq_take_tag(uq, uf, ioucmd, opcode, flags, timeout,
			       deadline);
	if (unlikely(flags)) {
		uq->iod[idx].addr = addr;
		uq->iod[idx].len = len;
	}
	nvme_uq_publish(uq, c, idx, deadline);
	return -EIOCBQUEUED;
}

/* As nvme_uq_try(). A command that meets a queue without SGLs is tried again. */
static __always_inline int
nvme_uq_try_one(struct nvme_uq *uq, struct nvme_uq_file *uf,
		struct io_uring_cmd *ioucmd, u8 opcode, phys_addr_t phys,
		u32 len)
{
	bool write = opcode & 1, defer;
	dma_addr_t addr;
	u8 flags;
	int ret;

	if (unlikely(READ_ONCE(uq->blocked) & READ_ONCE(uf->blocked_mask)))
		return nvme_uq_submit_errno(uq, uf, uf->node);
	/* a worker can wait for memory */
	if (nvme_uq_fault_no_memory(uq))
		return -EAGAIN;
	addr = dma_map_phys(uq->dma_dev, phys, len,
			    write ? DMA_TO_DEVICE : DMA_FROM_DEVICE, 0);
	if (unlikely(dma_mapping_error(uq->dma_dev, addr)))
		return -EAGAIN;
	defer = nvme_uq_defer_doorbell(uq, ioucmd);

	spin_lock(&uq->sq_lock);
	ret = -EAGAIN;
	if (likely(uq->force_sgl && nvme_uq_admit(uq, uf, uf->node, NULL)))
		ret = nvme_uq_write_one(uq, uf, ioucmd, opcode, addr, len);
	if (likely(ret == -EIOCBQUEUED)) {
		if (!defer)
			nvme_uq_ring_sq(uq);
		spin_unlock(&uq->sq_lock);
		return ret;
	}
	spin_unlock(&uq->sq_lock);

	flags = nvme_uq_unmap_flags(uq, opcode);
	if (flags)
		dma_unmap_phys(uq->dma_dev, addr, len, nvme_uq_dir(flags), 0);
	return ret == -EAGAIN ? nvme_uq_submit_errno(uq, uf, uf->node) : ret;
}

static int nvme_uq_pci_submit_one(struct nvme_uq_file *uf,
				  struct io_uring_cmd *ioucmd,
				  unsigned int issue_flags)
{
	const struct nvme_uring_cmd *cmd =
		io_uring_sqe128_cmd(ioucmd->sqe, struct nvme_uring_cmd);
	u8 opcode = READ_ONCE(cmd->opcode);
	u32 nsid = READ_ONCE(cmd->nsid);
	u32 len = READ_ONCE(cmd->data_len);
	struct nvme_uq *uq = uf->node->uq;
	phys_addr_t phys;
	int ret;

	if (unlikely(READ_ONCE(cmd->flags) | READ_ONCE(cmd->timeout_ms) |
		     READ_ONCE(cmd->metadata)))
		goto queue;
	/* nor is the length 0; without SGLs, no length is taken */
	if (unlikely(len - 1 >= uq->max_len))
		goto queue;
	if (unlikely(!nvme_uq_is_permitted(uf->node->ns, ioucmd->file, opcode,
					   nsid))) {
		if (opcode == nvme_fabrics_command)
			goto queue;
		ret = nvme_uq_check_cmd(uf->node->ns, opcode, nsid,
					ioucmd->file->f_mode & FMODE_WRITE);
		if (ret)
			return ret;
	}
	if (unlikely(nvme_uq_is_full(uq)))
		return nvme_uq_submit_errno(uq, uf, uf->node);
	if (unlikely(!nvme_uq_prep_one(uq, uf, ioucmd, READ_ONCE(cmd->addr),
				       len, opcode & 1, &phys, issue_flags)))
		goto queue;

	rcu_read_lock();
	ret = nvme_uq_try_one(uq, uf, ioucmd, opcode, phys, len);
	rcu_read_unlock();
	if (likely(ret == -EIOCBQUEUED))
		return ret;
	nvme_uq_unpin_user(nvme_uq_pdu(ioucmd)->user, false);
	return ret;
queue:
	return nvme_uq_queue(uf, ioucmd, issue_flags);
}

static struct page *nvme_uq_pci_cq_page(struct nvme_uq *uq, unsigned long nr)
{
	return uq->cq_pages ? uq->cq_pages + nr : ERR_PTR(-EOPNOTSUPP);
}

const struct nvme_uq_ops nvme_uq_pci_ops = {
	.submit_one = nvme_uq_pci_submit_one,
	.submit	= nvme_uq_pci_submit,
	.iopoll	= nvme_uq_pci_iopoll,
	.ring	= nvme_uq_pci_ring,
	.reap	= nvme_uq_pci_reap,
	.cq_page = nvme_uq_pci_cq_page,
};
EXPORT_SYMBOL_IF_KUNIT(nvme_uq_pci_ops);
