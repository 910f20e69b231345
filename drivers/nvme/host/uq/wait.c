// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: commands that wait.
 *
 * A command must be below the limit of its file, if the file has a limit, and
 * needs a tag. Commands that wait compete for both. A command takes nothing
 * before it is submitted, so a task that waits and does not run keeps nothing
 * from others, with one exception: the last free tag is for the first waiter,
 * so that new commands do not starve waiters. The same applies to the last free
 * place of a file's limit. There is no exception if the limit is 1.
 *
 * A waiter is in one of two wait queues. All entries are exclusive and in order
 * of arrival. Wait queues change only with sq_lock held, so they are stable
 * under it. A wakeup needs only the lock of the wait queue.
 *
 *   nvme_uq_file.waitq	The file is at its limit.
 *   nvme_uq.waitq	The command needs a tag, or the queue is blocked.
 *
 * A waiter moves between them only when it runs. Who wakes whom:
 *
 *   1. A completion wakes one waiter of its file, if nvme_uq_file.limited is
 *	set, and one of the queue. It frees the place and the tag first. A
 *	waiter looks at both after it has entered a wait queue and has set its
 *	task state. So either the waiter sees what is free or the completion
 *	sees the waiter.
 *   2. A waiter that is admitted, gives up or leaves the queue of tags for that
 *	of its file wakes the next one that could go. It may have been woken in
 *	place of that one, and the next one is the first now.
 *   3. Whatever unblocks a queue or changes its limits wakes all waiters of the
 *	queue. It visits no file.
 *
 * By 1 and 2, if a tag is free for the first waiter of an unblocked queue, then
 * a waiter of the queue has been woken and has not looked since. If a file is
 * below its limit and has waiters in its own wait queue, the same is true, or
 * one of its commands is in flight or waits for a tag, and wakes the next one
 * when it completes or gives up. One event wakes no waiter of a file:
 * nvme_uq.file_limit is raised.
 *
 * All waiters also look periodically, every NVME_UQ_POLL_INTERVAL. This serves
 * this event, waiters behind woken tasks that do not run, and polled
 * queues without a task that polls.
 */
#include <kunit/visibility.h>
#include <linux/freezer.h>
#include <linux/io_uring.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>

#include "wait.h"

static void nvme_uq_wake_waiter(wait_queue_head_t *waitq)
{
	/* pairs with the barrier of set_current_state() */
	if (wq_has_sleeper(waitq))
		wake_up(waitq);
}

/* Wait queues change only under sq_lock, so the result is exact under it. */
static bool nvme_uq_has_waiter(wait_queue_head_t *waitq)
{
	/* the lock orders this, so there is no barrier */
	return waitqueue_active(waitq);
}

/*
 * Admission
 */

/* Tags that the limit of the queue leaves unused. */
static unsigned int nvme_uq_unused(const struct nvme_uq *uq)
{
	unsigned int nr = READ_ONCE(uq->tags.nr), limit = READ_ONCE(uq->limit);

	return limit && limit < nr ? nr - limit : 0;
}

/**
 * nvme_uq_set_reserve - update nvme_uq.reserve
 * @uq:		the queue, with sq_lock held
 */
void nvme_uq_set_reserve(struct nvme_uq *uq)
{
	unsigned int reserve = nvme_uq_unused(uq);

	lockdep_assert_held(&uq->sq_lock);
	if (uq->file_limit)
		reserve = UINT_MAX;
	else if (uq->tags.nr - reserve > 1 && nvme_uq_has_waiter(&uq->waitq))
		reserve++;
	WRITE_ONCE(uq->reserve, reserve);
}
EXPORT_SYMBOL_IF_KUNIT(nvme_uq_set_reserve);

/*
 * May a command take one of @free tags or places, of @all? The last one is for
 * the first waiter, unless there is only one.
 */
static bool nvme_uq_may_take(int free, unsigned int all,
			     const struct nvme_uq_waiter *waiter,
			     wait_queue_head_t *waitq)
{
	if (free != 1 || all == 1 || !nvme_uq_has_waiter(waitq))
		return free > 0;
	return waiter && waitq->head.next == &waiter->wait.entry;
}

/* Return true if the file's limit admits a command. */
static bool nvme_uq_below_limit(struct nvme_uq *uq, struct nvme_uq_file *uf,
				const struct nvme_uq_waiter *waiter)
{
	unsigned int limit = nvme_uq_file_limit(uq, uf);
	int free = limit - nvme_uq_file_in_flight(uf);

	if (!limit)
		return true;
	/* this waiter was the first of its file */
	if (waiter && waiter->waitq == &uq->waitq)
		return free > 0;
	return nvme_uq_may_take(free, limit, waiter, &uf->waitq);
}

/* Return true if a tag is available for the command. */
static bool nvme_uq_has_tag(struct nvme_uq *uq,
			    const struct nvme_uq_waiter *waiter)
{
	unsigned int unused = nvme_uq_unused(uq);

	return nvme_uq_may_take(nvme_uq_tags_left(&uq->tags) - unused,
				READ_ONCE(uq->tags.nr) - unused, waiter, &uq->waitq);
}

/* nvme_uq_is_full() if only few tags are left. May be wrong without sq_lock. */
bool __nvme_uq_is_full(struct nvme_uq *uq)
{
	return !nvme_uq_has_tag(uq, NULL);
}
EXPORT_SYMBOL_GPL(__nvme_uq_is_full);

/* nvme_uq_at_limit() if there is a limit. */
bool __nvme_uq_at_limit(struct nvme_uq *uq, struct nvme_uq_file *uf)
{
	bool ret;

	spin_lock(&uq->sq_lock);
	ret = !nvme_uq_below_limit(uq, uf, NULL);
	spin_unlock(&uq->sq_lock);
	return ret;
}
EXPORT_SYMBOL_GPL(__nvme_uq_at_limit);

/*
 * Enter and leave wait queues
 */

static void nvme_uq_count_waiter(struct nvme_uq *uq, struct nvme_uq_file *uf,
				 int n)
{
	bool limited = nvme_uq_has_waiter(&uf->waitq);
	unsigned long flags;

	WRITE_ONCE(uq->waiting, uq->waiting + n);
	WRITE_ONCE(uf->waiting, uf->waiting + n);
	nvme_uq_set_reserve(uq);
	if (uf->limited == limited)
		return;
	spin_lock_irqsave(&uq->cq_lock, flags);
	uf->limited = limited;
	spin_unlock_irqrestore(&uq->cq_lock, flags);
}

static void nvme_uq_dequeue_waiter(struct nvme_uq *uq, struct nvme_uq_file *uf,
				   struct nvme_uq_waiter *waiter)
{
	lockdep_assert_held(&uq->sq_lock);
	if (!waiter->waitq)
		return;
	remove_wait_queue(waiter->waitq, &waiter->wait);
	waiter->waitq = NULL;
	nvme_uq_count_waiter(uq, uf, -1);
}

/* Move to the end of a wait queue, unless the waiter is already in it. */
static void nvme_uq_enqueue_waiter(struct nvme_uq *uq, struct nvme_uq_file *uf,
				   struct nvme_uq_waiter *waiter,
				   wait_queue_head_t *waitq)
{
	wait_queue_head_t *old = waiter->waitq;

	if (old == waitq)
		return;
	nvme_uq_dequeue_waiter(uq, uf, waiter);
	if (old == &uq->waitq)
		nvme_uq_wake_waiter(old);
	add_wait_queue_exclusive(waitq, &waiter->wait);
	waiter->waitq = waitq;
	nvme_uq_count_waiter(uq, uf, 1);
	/* pairs with the barrier of wq_has_sleeper() in a completion */
	smp_mb();
}

/**
 * nvme_uq_admit_slow - nvme_uq_admit() with a limit or a waiter
 * @uq:		the queue, with sq_lock held and not blocked
 * @uf:		open file of the command
 * @waiter:	its waiter, or NULL if the command must not wait
 *
 * Return: true if the command can be submitted.
 */
bool nvme_uq_admit_slow(struct nvme_uq *uq, struct nvme_uq_file *uf,
			struct nvme_uq_waiter *waiter)
{
	lockdep_assert_held(&uq->sq_lock);
	if (!nvme_uq_below_limit(uq, uf, waiter) ||
	    !nvme_uq_has_tag(uq, waiter))
		return false;
	if (!waiter || !waiter->waitq)
		return true;
	nvme_uq_dequeue_waiter(uq, uf, waiter);
	/* is there room for this command and another one? */
	if (nvme_uq_file_limit(uq, uf) > nvme_uq_file_in_flight(uf) + 1)
		nvme_uq_wake_waiter(&uf->waitq);
	if (nvme_uq_tags_left(&uq->tags) > nvme_uq_unused(uq) + 1)
		nvme_uq_wake_waiter(&uq->waitq);
	return true;
}
EXPORT_SYMBOL_GPL(nvme_uq_admit_slow);

/**
 * nvme_uq_submit_errno - errno of a command that cannot be submitted now
 * @uq:		the queue
 * @uf:		open file of the command
 * @node:	node of @uf
 *
 * Return: -EAGAIN if the command may succeed later; -EBUSY, -ENODEV, -ENXIO or
 * -ESHUTDOWN if not.
 */
int nvme_uq_submit_errno(struct nvme_uq *uq, const struct nvme_uq_file *uf,
			 const struct nvme_uq_node *node)
{
	unsigned int why = READ_ONCE(uq->blocked) &
		READ_ONCE(uf->blocked_mask);

	if (nvme_uq_ns_removed(node))
		return -ENXIO;
	if (nvme_state_terminal(uq->ctrl))
		return -ENODEV;
	if (why & NVME_UQ_UNAVAILABLE)
		return -ESHUTDOWN;
	return why & NVME_UQ_CLAIMED ? -EBUSY : -EAGAIN;
}
EXPORT_SYMBOL_GPL(nvme_uq_submit_errno);

/*
 * Return true if the command can be tried now. If not, it is in the right wait
 * queue, and a change since then wakes it.
 */
static bool nvme_uq_look(struct nvme_uq *uq, const struct nvme_uq_io *io,
			 struct nvme_uq_waiter *waiter)
{
	struct nvme_uq_file *uf = io->file;
	wait_queue_head_t *waitq;

	lockdep_assert_held(&uq->sq_lock);
	do {
		waitq = &uf->waitq;
		if (nvme_uq_below_limit(uq, uf, waiter)) {
			if (!(uq->blocked & uf->blocked_mask) &&
			    nvme_uq_has_tag(uq, waiter))
				return true;
			waitq = &uq->waitq;
		}
		if (waiter->waitq == waitq)
			return false;
		nvme_uq_enqueue_waiter(uq, uf, waiter, waitq);
	} while (true);
}

/* Return 0 to try again, -EAGAIN to wait on, or the errno to fail with. */
static int nvme_uq_recheck(struct nvme_uq *uq, const struct nvme_uq_io *io,
			   struct nvme_uq_waiter *waiter)
{
	int ret = nvme_uq_submit_errno(uq, io->file, io->node);

	if (ret != -EAGAIN)
		return ret;
	spin_lock(&uq->sq_lock);
	if (nvme_uq_look(uq, io, waiter))
		ret = 0;
	spin_unlock(&uq->sq_lock);
	return ret;
}

/*
 * Return true if the task is being killed, or io_uring has cancelled the
 * request. TIF_NOTIFY_SIGNAL does not tell: task work and live patches set it
 * too.
 */
bool nvme_uq_cancelled(void)
{
	return fatal_signal_pending(current) || io_uring_worker_cancelled();
}

/**
 * nvme_uq_abandon - stop waiting without submitting the command
 * @uq:		the queue
 * @io:		the command
 * @waiter:	its waiter
 */
void nvme_uq_abandon(struct nvme_uq *uq, struct nvme_uq_io *io,
		     struct nvme_uq_waiter *waiter)
{
	struct nvme_uq_file *uf = io->file;

	spin_lock(&uq->sq_lock);
	nvme_uq_dequeue_waiter(uq, uf, waiter);
	/* let the next waiters have the place of this command */
	nvme_uq_wake_waiter(&uf->waitq);
	nvme_uq_wake_waiter(&uq->waitq);
	spin_unlock(&uq->sq_lock);
}
EXPORT_SYMBOL_GPL(nvme_uq_abandon);

/**
 * nvme_uq_wait_turn - wait until a command can be tried again
 * @uq:		the queue
 * @io:		a command that was not admitted and may wait
 * @waiter:	its waiter; initialized with a wait queue entry, otherwise zero
 *
 * Called by io_uring's workers, and by tasks in read(2) and similar calls. In
 * other contexts a command must not sleep. The command stays in a wait queue
 * until it is admitted or nvme_uq_abandon() is called.
 *
 * Return: 0, or the errno of the failed command: -EBUSY, -ECANCELED, -ENODEV,
 * -ENXIO, -ESHUTDOWN.
 */
int nvme_uq_wait_turn(struct nvme_uq *uq, struct nvme_uq_io *io,
		      struct nvme_uq_waiter *waiter)
{
	int ret;

	for (;;) {
		set_current_state(TASK_KILLABLE);
		ret = nvme_uq_recheck(uq, io, waiter);
		if (ret != -EAGAIN)
			break;
		if (nvme_uq_cancelled()) {
			ret = -ECANCELED;
			break;
		}
		/* the users of a polled queue may have stopped polling */
		io_schedule_timeout(NVME_UQ_POLL_INTERVAL);
		if (uq->polled)
			uq->ops->reap(uq);
		if (unlikely(freezing(current))) {
			/* let the others go first meanwhile */
			nvme_uq_abandon(uq, io, waiter);
			try_to_freeze();
		}
	}
	__set_current_state(TASK_RUNNING);
	return ret;
}
EXPORT_SYMBOL_GPL(nvme_uq_wait_turn);

/**
 * nvme_uq_wait_memory - wait until a command can be mapped again
 * @uq:		the queue
 * @io:		a command that could not be mapped and may wait
 * @waiter:	its waiter, which loses its position: other commands need not
 *		wait for this command's memory
 * @deadline:	time to give up, in jiffies
 *
 * Memory, bounce buffers and IOMMU addresses are allocated in atomic context.
 * Commands in flight free them when they complete. Called in the same contexts
 * as nvme_uq_wait_turn().
 *
 * Return: 0, or the errno of the failed command: -ECANCELED, or -ENOMEM after
 * @deadline.
 */
int nvme_uq_wait_memory(struct nvme_uq *uq, struct nvme_uq_io *io,
			struct nvme_uq_waiter *waiter, unsigned long deadline)
{
	nvme_uq_abandon(uq, io, waiter);
	if (nvme_uq_cancelled())
		return -ECANCELED;
	if (time_after_eq(jiffies, deadline))
		return -ENOMEM;
	memalloc_retry_wait(GFP_ATOMIC);
	/* the users of a polled queue may have stopped polling */
	if (uq->polled)
		uq->ops->reap(uq);
	try_to_freeze();
	return 0;
}
EXPORT_SYMBOL_GPL(nvme_uq_wait_memory);

/**
 * nvme_uq_wake_all - wake all waiters for a tag or for an unblocked queue
 * @uq:		the queue
 */
void nvme_uq_wake_all(struct nvme_uq *uq)
{
	wake_up_all(&uq->waitq);
	wake_up_all(&uq->idle_wait);
}
EXPORT_SYMBOL_GPL(nvme_uq_wake_all);
