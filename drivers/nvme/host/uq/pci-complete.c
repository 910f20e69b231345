// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: completion of commands, by interrupts and by polling.
 *
 * Part of the PCI driver. Documentation/nvme/user-queues.rst documents the
 * lifecycle of a command.
 */
#include <kunit/visibility.h>
#include <linux/delay.h>

#include "../uq.h"
#include "pci.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

/*
 * Completion in the context of the task that submitted the command
 */

/*
 * Maximum number of commands that one task work completes. io_uring runs 20
 * task works before it checks the completion queue and the condition of a
 * waiting task. So larger chains make more completions arrive at once.
 */
#define NVME_UQ_CHAIN	8

static __always_inline void nvme_uq_finish(struct io_uring_cmd *ioucmd,
					   unsigned int issue_flags)
{
	struct nvme_uq_pdu *pdu = nvme_uq_pdu(ioucmd);

	nvme_uq_unpin_user(pdu->user, true);
	io_uring_cmd_done32(ioucmd, pdu->status, pdu->result, issue_flags);
}

static __always_inline void nvme_uq_finish_list(struct io_uring_cmd *ioucmd,
						unsigned int issue_flags)
{
	struct io_uring_cmd *next;

	for (; ioucmd; ioucmd = next) {
		next = nvme_uq_pdu(ioucmd)->next;
		nvme_uq_finish(ioucmd, issue_flags);
	}
}

static void nvme_uq_task_cb(struct io_tw_req tw_req, io_tw_token_t tw)
{
	nvme_uq_finish_list(io_uring_cmd_from_tw(tw_req),
			    IO_URING_CMD_TASK_WORK_ISSUE_FLAGS);
}

/*
 * Complete the first commands of a list in one task work: those of the same
 * ring and task, up to NVME_UQ_CHAIN. Return the next command.
 */
static __always_inline struct io_uring_cmd *
nvme_uq_finish_in_task(struct io_uring_cmd *ioucmd)
{
	struct io_uring_cmd *last = ioucmd, *next;
	unsigned int nr = 1;

	while ((next = nvme_uq_pdu(last)->next) && nr < NVME_UQ_CHAIN &&
	       io_uring_cmd_shares_task_work(ioucmd, next)) {
		last = next;
		nr++;
	}
	nvme_uq_pdu(last)->next = NULL;
	if (nr == 1)
		io_uring_cmd_do_in_task_lazy(ioucmd, nvme_uq_task_cb);
	else
		io_uring_cmds_do_in_task_lazy(ioucmd, nvme_uq_task_cb, nr);
	return next;
}

/*
 * Complete all commands of a list in task work of their submitters, and those
 * of kiocbs.
 */
static __always_inline void nvme_uq_finish_all(struct nvme_uq_done *done)
{
	struct io_uring_cmd *ioucmd;

	*done->last = NULL;
	for (ioucmd = done->first; ioucmd; )
		ioucmd = nvme_uq_finish_in_task(ioucmd);
	if (unlikely(done->rw))
		nvme_uq_finish_rw(done->rw);
}

/*
 * Complete commands of the polling ring (@poll_ctx) directly, and all others in
 * task work. Commands of the polling ring with pinned memory are moved to
 * @pinned: unpinning a page that the device has written to may lock the page,
 * and the server of the page's file may hold this lock for any time. The caller
 * completes them when no other task waits for it.
 */
static void nvme_uq_finish_polled(struct nvme_uq_done *done,
				  struct nvme_uq_done *pinned, void *poll_ctx)
{
	struct nvme_uq_done others;
	struct io_uring_cmd *ioucmd, *next;

	nvme_uq_done_init(&others);
	others.rw = done->rw;
	*done->last = NULL;
	for (ioucmd = done->first; ioucmd; ioucmd = next) {
		next = nvme_uq_pdu(ioucmd)->next;
		if (unlikely(poll_ctx != io_uring_cmd_ctx_handle(ioucmd)))
			nvme_uq_done_add(&others, ioucmd);
		else if (unlikely(nvme_uq_pdu(ioucmd)->user))
			nvme_uq_done_add(pinned, ioucmd);
		else
			nvme_uq_finish(ioucmd, 0);
	}
	nvme_uq_finish_all(&others);
}

/*
 * Completion queue
 */

static void nvme_uq_ring_cq(struct nvme_uq *uq, u16 head)
{
	lockdep_assert_held(&uq->cq_lock);
	if (unlikely(uq->dbbuf_cq_db) &&
	    !nvme_uq_dbbuf_update(head, uq->dbbuf_cq_db, uq->dbbuf_cq_ei))
		return;
	writel(head, uq->cq_db);
}

/* Release resources that few commands use. */
static noinline void nvme_uq_release_iod(struct nvme_uq *uq,
					 struct nvme_uq_iod *iod)
{
	nvme_uq_dma_unmap(uq, iod->addr, iod->len, iod->data, iod->flags);
	if (iod->flags & NVME_UQ_UNPOLLED)
		WRITE_ONCE(uq->unpolled_done, uq->unpolled_done + 1);
}

/*
 * The caller holds cq_lock, as the command may hold the last reference to the
 * file.
 */
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
	struct nvme_uq_file *uf = iod->file;

	if (unlikely(iod->flags & NVME_UQ_RW)) {
		iod->rw->status = status;
		iod->rw->next = done->rw;
		done->rw = iod->rw;
	} else {
		struct io_uring_cmd *ioucmd = iod->ioucmd;
		struct nvme_uq_pdu *pdu = nvme_uq_pdu(ioucmd);

		pdu->status = status;
		pdu->result = result;
		nvme_uq_done_add(done, ioucmd);
	}
	uq->completed++;
	WRITE_ONCE(uf->completed, uf->completed + 1);
	if (unlikely(uf->limited))
		nvme_uq_wake_file(uf);
	if (unlikely(iod->flags & (NVME_UQ_UNMAP | NVME_UQ_DATA |
				   NVME_UQ_UNPOLLED)))
		nvme_uq_release_iod(uq, iod);
	nvme_uq_tag_put(&uq->tags, idx);
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
	trace_nvme_uq_complete(uq, &uq->iod[idx], cid, status, result);
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
 * Reap all completions, and return their number. The caller holds cq_lock.
 *
 * A device may fill the queue once before the doorbell below returns entries
 * to it. If the loop wraps around twice, the device has overwritten entries
 * that it does not own. It could then keep the loop running with interrupts
 * disabled for an unlimited time. The next interrupt, poll or timeout finds
 * valid completions that follow.
 */
static __always_inline unsigned int
__nvme_uq_reap_locked(struct nvme_uq *uq, struct nvme_uq_done *done)
{
	const struct nvme_completion *cqe = uq->cq_next;
	struct nvme_uq_done list = { .last = done->last, .rw = done->rw };
	unsigned int found = 0;
	u16 phase = uq->cq_phase;
	u32 head;

	while (nvme_uq_cqe_pending(cqe, phase) ||
	       (NVME_UQ_FAULT && nvme_uq_fault_storm(uq))) {
		/* if the phase is valid, the rest of the entry is too */
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
	done->rw = list.rw;
	WRITE_ONCE(uq->cq_next, cqe);
	WRITE_ONCE(uq->cq_phase, phase);
	uq->reaps++;
	head = nvme_uq_cq_head(uq);
	nvme_uq_ring_cq(uq, head);
	nvme_uq_info_reaped(uq, head);
	return found;
}

/* For all callers but nvme_uq_irq() and nvme_uq_pci_iopoll(). */
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
	/* the barrier of wq_has_sleeper() covers this check too */
	if (unlikely(waitqueue_active(&uq->idle_wait)))
		wake_up(&uq->idle_wait);
}

/*
 * Check for a completion without cq_lock, to leave cq_lock to other polling
 * tasks if there is none. The values may be from different moments. Then a poll
 * is in vain, or the next poll finds the completion.
 *
 * The polling request need not be in flight any more, so only RCU keeps the
 * entries. Their memory is freed after a grace period since @cq_live was
 * cleared.
 */
static __always_inline bool nvme_uq_may_reap(struct nvme_uq *uq)
{
	bool ret = false;

	rcu_read_lock();
	/* pairs with the release in nvme_uq_go_live() */
	if (likely(smp_load_acquire(&uq->cq_live)))
		ret = nvme_uq_cqe_pending(READ_ONCE(uq->cq_next),
					  READ_ONCE(uq->cq_phase)) ||
			(NVME_UQ_FAULT && nvme_uq_fault_may_storm(uq));
	rcu_read_unlock();
	return ret;
}

/**
 * nvme_uq_pci_iopoll - poll a queue for a ring
 * @uq:		the queue; if it is not polled, nothing is done
 * @iob:	the ring that polls
 * @flags:	flags of the poll
 *
 * Return: the number of commands of all rings that had a completion.
 */
int nvme_uq_pci_iopoll(struct nvme_uq *uq, struct io_comp_batch *iob,
		       unsigned int flags)
{
	struct nvme_uq_done done, pinned;
	unsigned int found = 0;

	/*
	 * The interrupt handler reaps the completions of an interrupt queue.
	 * Reaping them here would make interrupts spurious. The IRQ core
	 * disables an interrupt that is spurious too often.
	 */
	if (!uq->polled || !nvme_uq_may_reap(uq))
		return 0;
	/*
	 * Poll once. io_uring calls again until it has enough completions.
	 * Between the calls, it runs task work for completions that other tasks
	 * have reaped.
	 */
	nvme_uq_done_init(&done);
	nvme_uq_done_init(&pinned);
	spin_lock(&uq->cq_lock);
	if (likely(uq->cq_live))
		found = __nvme_uq_reap_locked(uq, &done);
	/* the lock keeps this task on the CPU until others have their commands */
	nvme_uq_finish_polled(&done, &pinned, iob ? iob->poll_ctx : NULL);
	spin_unlock(&uq->cq_lock);

	if (!found)
		return 0;
	nvme_uq_wake(uq, found);
	*pinned.last = NULL;
	nvme_uq_finish_list(pinned.first, 0);
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

	if (NVME_UQ_FAULT && nvme_uq_fault_irq(uq))
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
	int irq = uq->irq;

	nvme_uq_done_init(&done);
	/* the IRQ core must not count an interrupt as spurious */
	if (irq >= 0)
		disable_irq(irq);
	scoped_guard(spinlock_irqsave, &uq->cq_lock) {
		found = uq->cq_live ? nvme_uq_reap_locked(uq, &done) : 0;
		/* as in nvme_uq_pci_iopoll() */
		nvme_uq_finish_all(&done);
	}
	if (irq >= 0)
		enable_irq(irq);

	if (found)
		nvme_uq_wake(uq, found);
}

/*
 * Polling for rings that do not poll. The pause between two polls, in
 * microseconds, is short after a poll that found a completion. It doubles after
 * each poll that found none. Commands that take long are polled once per tick.
 */
#define NVME_UQ_PAUSE_MIN	10
#define NVME_UQ_PAUSE_MAX	1000

/**
 * nvme_uq_queue_poll_work - poll for a ring that does not poll
 * @uq:		the queue of the submitted command, with sq_lock held
 */
void nvme_uq_queue_poll_work(struct nvme_uq *uq)
{
	lockdep_assert_held(&uq->sq_lock);
	WRITE_ONCE(uq->unpolled, uq->unpolled + 1);
	/*
	 * Queue even if running: the work may have seen no command in flight.
	 * It may also be pending for the next tick.
	 */
	mod_delayed_work(nvme_wq, &uq->poll_work, 0);
}
EXPORT_SYMBOL_IF_KUNIT(nvme_uq_queue_poll_work);

/**
 * nvme_uq_poll_work - poll while rings that do not poll have commands in flight
 * @work:	nvme_uq.poll_work
 */
void nvme_uq_poll_work(struct work_struct *work)
{
	struct nvme_uq *uq = container_of(to_delayed_work(work),
					  struct nvme_uq, poll_work);
	unsigned int pause = uq->poll_pause ?: NVME_UQ_PAUSE_MIN;
	u32 done;

	/* nvme_uq_quiesce() waits; nvme_uq_cancel() ends the commands */
	while ((done = READ_ONCE(uq->unpolled_done)) !=
	       READ_ONCE(uq->unpolled) &&
	       !(READ_ONCE(uq->blocked) & NVME_UQ_DOWN)) {
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

/* End completions, and cancel all commands in flight. */
static void nvme_uq_cancel_queue(struct nvme_uq *uq, struct nvme_uq_done *done)
{
	unsigned int i;

	guard(spinlock_irqsave)(&uq->cq_lock);
	if (!uq->cq_live)
		return;
	/* last chance for completions of the device */
	nvme_uq_reap_locked(uq, done);
	nvme_uq_info_down(uq, NVME_UQ_STATE_DOWN);
	for (i = 0; i < uq->tags.nr; i++) {
		u32 cid = READ_ONCE(uq->tags.cid[i]);

		if (!(cid & NVME_UQ_ARMED))
			continue;
		nvme_uq_handle_cid(uq, cid, -EINTR, 0, done);
		uq->cancelled++;
	}
	WRITE_ONCE(uq->cq_live, false);
	nvme_uq_info_reaped(uq, NVME_UQ_HEAD_NONE);
}

/**
 * nvme_uq_cancel - cancel all commands that are in flight
 * @ctrl:	the controller, which can no longer access memory
 */
void nvme_uq_cancel(struct nvme_ctrl *ctrl)
{
	struct nvme_uq_ctrl *uqc = ctrl->uq;
	unsigned int i;

	for (i = 0; i < nvme_uq_count(uqc); i++) {
		struct nvme_uq *uq = uqc->q[i];
		struct nvme_uq_done done;

		nvme_uq_done_init(&done);
		nvme_uq_cancel_queue(uq, &done);
		nvme_uq_finish_all(&done);
		nvme_uq_wake_all(uq);
	}
}
