// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: commands that wait.
 *
 * A command must be below the limit of its file, if the file has a limit, and
 * needs a tag. Commands that wait compete for both. A command takes nothing
 * before it is submitted, so a task that waits and does not run keeps nothing
 * from other waiters. New commands leave the last free tag to the waiters, so
 * that they do not starve them. The same applies to the last free place of a
 * file's limit. Neither applies if the limit is 1.
 *
 * A waiter waits in one of two wait queues. All entries are exclusive.
 *
 *   nvme_uq_file.waitq	The file is at its limit.
 *   nvme_uq.waitq	The command needs a tag, or the queue is blocked.
 *
 * A waiter enters a wait queue only when it runs, with sq_lock held. A wakeup
 * removes the first entry, and needs only the lock of the wait queue. So a
 * wakeup visits no more waiters than it may wake, whatever their tasks do, and
 * the next one is for the next waiter. A waiter that cannot go after all enters
 * the queue again, at the end. nvme_uq.tag_waiters and nvme_uq_file.limited
 * also count the waiters that were woken.
 *
 * Before a task waits, it rings a doorbell that another task has deferred: that
 * task may not run for any time. Who wakes whom:
 *
 *   1. A completion wakes one waiter of its file, if nvme_uq_file.limited is
 *	set, and one of the queue. It frees the place and the tag first. A
 *	waiter looks at both after it has entered a wait queue and has set its
 *	task state. So either the waiter sees what is free or the completion
 *	sees the waiter.
 *   2. A waiter that is admitted, gives up or leaves the queue of tags for that
 *	of its file wakes the next one that could go. It may have been woken in
 *	place of that one, and the next one is the first now.
 *   3. Whatever unblocks a queue or changes its limits wakes as many waiters of
 *	the queue as it has tags. It visits no file. Those that are admitted or
 *	give up wake the next ones by 2.
 *
 * By 1 and 2, if a tag is free for the waiters of an unblocked queue, then a
 * waiter of the queue has been woken and has not looked since. If a file is
 * below its limit and has waiters in its own wait queue, the same is true, or
 * one of its commands is in flight or waits for a tag, and wakes the next one
 * when it completes or gives up. Some events wake no waiter of a file:
 * nvme_uq.file_limit is raised, or the namespace or the controller goes away.
 *
 * All waiters also look periodically, every NVME_UQ_POLL_INTERVAL. This serves
 * these events, waiters behind woken tasks that do not run, and polled
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
		reserve = U16_MAX;
	else if (uq->tags.nr - reserve > 1 && uq->tag_waiters)
		reserve++;
	WRITE_ONCE(uq->reserve, reserve);
}
EXPORT_SYMBOL_IF_KUNIT(nvme_uq_set_reserve);

/*
 * May a command take one of @free tags or places, of @all? The last one is for
 * those that wait, unless there is only one. @others wait, and so does the
 * command if @waits.
 */
static bool nvme_uq_may_take(int free, unsigned int all, unsigned int others,
			     bool waits)
{
	bool leave_one = all > 1 && others && !waits;

	return free > leave_one;
}

static bool nvme_uq_waits_in(const struct nvme_uq_waiter *waiter,
			     const wait_queue_head_t *waitq)
{
	return waiter && waiter->waitq == waitq;
}

/* Return true if the file's limit admits a command. */
static bool nvme_uq_below_limit(struct nvme_uq *uq, struct nvme_uq_file *uf,
				const struct nvme_uq_waiter *waiter, bool waits)
{
	unsigned int limit = nvme_uq_file_limit(uq, uf);

	return !limit ||
		nvme_uq_may_take(limit - nvme_uq_file_in_flight(uf), limit,
				 uf->limited - nvme_uq_waits_in(waiter, &uf->waitq),
				 waits);
}

/* Return true if a tag is available for the command. */
static bool nvme_uq_has_tag(struct nvme_uq *uq,
			    const struct nvme_uq_waiter *waiter, bool waits)
{
	unsigned int unused = nvme_uq_unused(uq);

	return nvme_uq_may_take(nvme_uq_tags_left(&uq->tags) - unused,
				READ_ONCE(uq->tags.nr) - unused,
				READ_ONCE(uq->tag_waiters) -
				nvme_uq_waits_in(waiter, &uq->waitq), waits);
}

/* nvme_uq_is_full() if only few tags are left. May be wrong without sq_lock. */
bool __nvme_uq_is_full(struct nvme_uq *uq)
{
	return !nvme_uq_has_tag(uq, NULL, false);
}
EXPORT_SYMBOL_GPL(__nvme_uq_is_full);

/* nvme_uq_at_limit() if there is a limit. */
bool __nvme_uq_at_limit(struct nvme_uq *uq, struct nvme_uq_file *uf)
{
	guard(spinlock)(&uq->sq_lock);
	return !nvme_uq_below_limit(uq, uf, NULL, false);
}
EXPORT_SYMBOL_GPL(__nvme_uq_at_limit);

/*
 * Enter and leave wait queues
 */

/*
 * Whether the task sleeps or not, it looks before it sleeps again. It sees that
 * it is in no wait queue, or this function sees its task state.
 */
static int nvme_uq_wake_function(struct wait_queue_entry *wait,
				 unsigned int mode, int sync, void *key)
{
	/* the waiter stays valid: to leave, it takes the lock of the wait queue */
	list_del_init_careful(&wait->entry);
	default_wake_function(wait, mode, sync, key);
	return 1;
}

static void nvme_uq_count_waiter(struct nvme_uq *uq, struct nvme_uq_file *uf,
				 const struct nvme_uq_waiter *waiter, int n)
{
	WRITE_ONCE(uq->waiting, uq->waiting + n);
	WRITE_ONCE(uf->waiting, uf->waiting + n);
	if (waiter->waitq == &uq->waitq) {
		WRITE_ONCE(uq->tag_waiters, uq->tag_waiters + n);
		nvme_uq_set_reserve(uq);
	} else {
		guard(spinlock_irqsave)(&uq->cq_lock);
		uf->limited += n;
	}
}

static void nvme_uq_dequeue_waiter(struct nvme_uq *uq, struct nvme_uq_file *uf,
				   struct nvme_uq_waiter *waiter)
{
	lockdep_assert_held(&uq->sq_lock);
	if (!waiter->waitq)
		return;
	remove_wait_queue(waiter->waitq, &waiter->wait);
	nvme_uq_count_waiter(uq, uf, waiter, -1);
	waiter->waitq = NULL;
}

/* Enter a wait queue: another one than before, or again after a wakeup. */
static void nvme_uq_enqueue_waiter(struct nvme_uq *uq, struct nvme_uq_file *uf,
				   struct nvme_uq_waiter *waiter,
				   wait_queue_head_t *waitq)
{
	wait_queue_head_t *old = waiter->waitq;

	if (old != waitq) {
		nvme_uq_dequeue_waiter(uq, uf, waiter);
		if (old == &uq->waitq)
			nvme_uq_wake_waiter(old);
		waiter->waitq = waitq;
		init_wait_func(&waiter->wait, nvme_uq_wake_function);
		nvme_uq_count_waiter(uq, uf, waiter, 1);
	}
	add_wait_queue_exclusive(waitq, &waiter->wait);
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
	if (!nvme_uq_below_limit(uq, uf, waiter, waiter && waiter->waitq) ||
	    !nvme_uq_has_tag(uq, waiter, nvme_uq_waits_in(waiter, &uq->waitq)))
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
	const struct nvme_uq_file *owner = READ_ONCE(uq->owner);

	if (nvme_uq_ns_removed(node))
		return -ENXIO;
	if (nvme_state_terminal(uq->ctrl))
		return -ENODEV;
	if (READ_ONCE(uq->blocked) & NVME_UQ_UNAVAILABLE)
		return -ESHUTDOWN;
	/* @blocked and @blocked_mask could be from before and after a claim */
	return owner && owner != uf ? -EBUSY : -EAGAIN;
}
EXPORT_SYMBOL_GPL(nvme_uq_submit_errno);

/*
 * Return true if the command can be tried now. If not, it is in the right wait
 * queue, and a change since then wakes it.
 */
static bool nvme_uq_look(struct nvme_uq *uq, const struct nvme_uq_io *io,
			 struct nvme_uq_waiter *waiter)
{
	/* a command that has just entered a wait queue is like a new one */
	wait_queue_head_t *before = waiter->waitq, *waitq;
	struct nvme_uq_file *uf = io->file;

	lockdep_assert_held(&uq->sq_lock);
	for (;;) {
		waitq = &uf->waitq;
		if (nvme_uq_below_limit(uq, uf, waiter, before)) {
			if (!(uq->blocked & uf->blocked_mask) &&
			    nvme_uq_has_tag(uq, waiter, before == &uq->waitq))
				return true;
			waitq = &uq->waitq;
		}
		if (waiter->waitq == waitq &&
		    !list_empty_careful(&waiter->wait.entry))
			break;
		nvme_uq_enqueue_waiter(uq, uf, waiter, waitq);
	}
	/* the task that has deferred the doorbell may not run */
	uq->ops->ring(uq);
	return false;
}

/* Return 0 to try again, -EAGAIN to wait on, or the errno to fail with. */
VISIBLE_IF_KUNIT int nvme_uq_recheck(struct nvme_uq *uq,
				     const struct nvme_uq_io *io,
				     struct nvme_uq_waiter *waiter)
{
	int ret = nvme_uq_submit_errno(uq, io->file, io->node);

	if (ret != -EAGAIN)
		return ret;
	guard(spinlock)(&uq->sq_lock);
	return nvme_uq_look(uq, io, waiter) ? 0 : ret;
}
EXPORT_SYMBOL_IF_KUNIT(nvme_uq_recheck);

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
	guard(spinlock)(&uq->sq_lock);
	nvme_uq_dequeue_waiter(uq, io->file, waiter);
	/* let the next waiters have the place of this command */
	nvme_uq_wake_waiter(&io->file->waitq);
	nvme_uq_wake_waiter(&uq->waitq);
}
EXPORT_SYMBOL_GPL(nvme_uq_abandon);

/**
 * nvme_uq_wait_turn - wait until a command can be tried again
 * @uq:		the queue
 * @io:		a command that was not admitted and may wait
 * @waiter:	its waiter, initialized to zero
 *
 * Called by io_uring's workers, and by tasks in read(2) and similar calls. In
 * other contexts a command must not sleep. The command waits until it is
 * admitted or nvme_uq_abandon() is called.
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
 * nvme_uq_wake_all - wake waiters for a tag, for an unblocked or for an idle queue
 * @uq:		the queue
 */
void nvme_uq_wake_all(struct nvme_uq *uq)
{
	nvme_uq_wake_waiters(uq);
	wake_up_all(&uq->idle_wait);
}
EXPORT_SYMBOL_GPL(nvme_uq_wake_all);
