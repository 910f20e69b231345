// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: the order of commands that wait.
 *
 * A command must be below the limit of its file, if the file has a limit, and
 * then needs a tag. Commands wait for both in wait queues, in order of arrival.
 * A later command does not overtake a waiting one.
 */
#include <linux/freezer.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>

#include "wait.h"

/*
 * Wait queues. They change only with sq_lock held, so they are stable under it.
 * A wakeup needs only the lock of the wait queue.
 */

static void nvme_uq_wake_waiter(wait_queue_head_t *waitq)
{
	/* pairs with the barrier of set_current_state() */
	if (wq_has_sleeper(waitq))
		wake_up(waitq);
}

static void nvme_uq_count_waiter(struct nvme_uq *uq, struct nvme_uq_file *uf,
				 const struct nvme_uq_waiter *waiter, int n)
{
	WRITE_ONCE(uq->waiting, uq->waiting + n);
	WRITE_ONCE(uf->waiting, uf->waiting + n);
	if (waiter->waitq == &uf->waitq) {
		uf->queued += n;
		return;
	}
	uq->queued += n;
	nvme_uq_set_reserve(uq);
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

static void nvme_uq_enqueue_waiter(struct nvme_uq *uq, struct nvme_uq_file *uf,
				   struct nvme_uq_waiter *waiter,
				   wait_queue_head_t *waitq)
{
	wait_queue_head_t *old = waiter->waitq;

	if (old == waitq)
		return;
	nvme_uq_dequeue_waiter(uq, uf, waiter);
	/* the waiter may have been woken there: pass the wakeup on */
	if (old)
		nvme_uq_wake_waiter(old);
	waiter->waitq = waitq;
	add_wait_queue_exclusive(waitq, &waiter->wait);
	nvme_uq_count_waiter(uq, uf, waiter, 1);
}

/* Return true if the waiter is one of the first @n in its wait queue. */
static bool nvme_uq_is_among_first(const struct nvme_uq_waiter *waiter,
				   unsigned int n)
{
	const wait_queue_entry_t *wait;

	list_for_each_entry(wait, &waiter->waitq->head, entry) {
		if (!n--)
			return false;
		if (wait == &waiter->wait)
			return true;
	}
	return false;
}

/*
 * Admission
 */

/* Return true if the file's limit admits a command. */
static bool nvme_uq_below_limit(const struct nvme_uq_file *uf,
				const struct nvme_uq_waiter *waiter)
{
	unsigned int used = nvme_uq_file_in_flight(uf) + uf->charged;

	if (!uf->limit || (waiter && waiter->charged))
		return true;
	if (used >= uf->limit)
		return false;
	if (waiter && waiter->waitq == &uf->waitq)
		return nvme_uq_is_among_first(waiter, uf->limit - used);
	return uf->queued < uf->limit - used;
}

/**
 * __nvme_uq_at_limit - check whether a new command would exceed a file's limit
 * @uq:		the queue
 * @uf:		the open file
 *
 * Return: true if it would.
 */
bool __nvme_uq_at_limit(struct nvme_uq *uq, const struct nvme_uq_file *uf)
{
	bool ret;

	spin_lock(&uq->sq_lock);
	ret = !nvme_uq_below_limit(uf, NULL);
	spin_unlock(&uq->sq_lock);
	return ret;
}
EXPORT_SYMBOL_GPL(__nvme_uq_at_limit);

/* Return true if a tag is available for the command. */
static bool nvme_uq_has_tag(const struct nvme_uq *uq,
			    const struct nvme_uq_waiter *waiter)
{
	unsigned int left = nvme_uq_tags_left(&uq->tags);
	unsigned int reserve = uq->reserve;

	if (!waiter || waiter->waitq != &uq->waitq)
		return left > reserve;
	/* the reserve for waiters includes this one */
	reserve -= uq->queued;
	return left > reserve && nvme_uq_is_among_first(waiter, left - reserve);
}

/* A command that waits for a tag counts against the limit of its file. */
static void nvme_uq_charge(struct nvme_uq_file *uf,
			   struct nvme_uq_waiter *waiter)
{
	uf->charged += !waiter->charged;
	waiter->charged = true;
}

/* Stop counting a command that is submitted or fails. */
static void nvme_uq_uncharge(struct nvme_uq_file *uf,
			     struct nvme_uq_waiter *waiter)
{
	uf->charged -= waiter->charged;
	waiter->charged = false;
}

/**
 * nvme_uq_admit_slow - nvme_uq_admit() with a limit or a waiter
 * @uq:		the queue, with sq_lock held and not blocked
 * @uf:		open file of the command
 * @waiter:	its waiter, or NULL if the command must not wait
 *
 * Return: true if the command can be submitted. If not, the command may be
 * below the limit of its file, and still counts while it waits for a tag.
 */
bool nvme_uq_admit_slow(struct nvme_uq *uq, struct nvme_uq_file *uf,
			struct nvme_uq_waiter *waiter)
{
	bool has_tag;

	lockdep_assert_held(&uq->sq_lock);
	if (!nvme_uq_below_limit(uf, waiter))
		return false;
	has_tag = nvme_uq_has_tag(uq, waiter);
	if (!waiter)
		return has_tag;

	if (has_tag || waiter->waitq == &uf->waitq)
		nvme_uq_dequeue_waiter(uq, uf, waiter);
	if (has_tag)
		nvme_uq_uncharge(uf, waiter);
	else if (uf->limit)
		nvme_uq_charge(uf, waiter);
	return has_tag;
}
EXPORT_SYMBOL_GPL(nvme_uq_admit_slow);

/**
 * nvme_uq_submit_errno - errno of a command that cannot be submitted now
 * @uq:		the queue
 * @uf:		open file of the command
 * @node:	node of @uf
 *
 * Return: -EAGAIN if the command may succeed later; -EBUSY, -ENODEV or -ENXIO
 * if not.
 */
int nvme_uq_submit_errno(struct nvme_uq *uq, const struct nvme_uq_file *uf,
			 const struct nvme_uq_node *node)
{
	unsigned int why = READ_ONCE(uq->blocked) &
		READ_ONCE(uf->blocked_mask);

	if (nvme_uq_ns_removed(node) || (why & NVME_UQ_UNAVAILABLE))
		return -ENXIO;
	if (nvme_state_terminal(uq->ctrl))
		return -ENODEV;
	return why & NVME_UQ_CLAIMED ? -EBUSY : -EAGAIN;
}
EXPORT_SYMBOL_GPL(nvme_uq_submit_errno);

/* Return 0 to try again, -EAGAIN to wait on, or the errno to fail with. */
static int nvme_uq_recheck(struct nvme_uq *uq, const struct nvme_uq_io *io,
			   const struct nvme_uq_waiter *waiter)
{
	struct nvme_uq_file *uf = io->file;
	int ret = nvme_uq_submit_errno(uq, io->file, io->node);

	if (ret != -EAGAIN)
		return ret;
	spin_lock(&uq->sq_lock);
	if (!(uq->blocked & uf->blocked_mask) &&
	    !nvme_uq_ns_stopped(io->node) &&
	    (waiter->waitq == &uf->waitq ? nvme_uq_below_limit(uf, waiter) :
	     nvme_uq_has_tag(uq, waiter)))
		ret = 0;
	spin_unlock(&uq->sq_lock);
	return ret;
}

/*
 * Return true if the task is being killed, or io_uring has cancelled the
 * command. TIF_NOTIFY_SIGNAL does not tell: task work and live patches set it
 * too.
 */
static bool nvme_uq_cancelled(const struct nvme_uq_io *io)
{
	return fatal_signal_pending(current) ||
		(!io->rw && io_uring_cmd_cancelled(io->ioucmd));
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
	nvme_uq_uncharge(uf, waiter);
	/* let the next waiters have the place of this command */
	nvme_uq_wake_waiter(&uf->waitq);
	nvme_uq_wake_waiter(&uq->waitq);
	spin_unlock(&uq->sq_lock);
}
EXPORT_SYMBOL_GPL(nvme_uq_abandon);

/*
 * Add to the end of the right wait queue, unless the waiter is already in it.
 */
static void nvme_uq_enqueue(struct nvme_uq *uq, struct nvme_uq_io *io,
			    struct nvme_uq_waiter *waiter)
{
	struct nvme_uq_file *uf = io->file;

	spin_lock(&uq->sq_lock);
	nvme_uq_enqueue_waiter(uq, uf, waiter, uf->limit && !waiter->charged ?
			       &uf->waitq : &uq->waitq);
	spin_unlock(&uq->sq_lock);
}

/*
 * The system suspends and does not wait for the device, or the cgroup of this
 * task is frozen. Let the other waiters go first meanwhile.
 */
static void nvme_uq_try_to_freeze(struct nvme_uq *uq, struct nvme_uq_io *io,
				  struct nvme_uq_waiter *waiter)
{
	nvme_uq_abandon(uq, io, waiter);
	try_to_freeze();
	nvme_uq_enqueue(uq, io, waiter);
}

/**
 * nvme_uq_wait_turn - wait until a command can be tried again
 * @uq:		the queue
 * @io:		a command that was not admitted and may wait
 * @waiter:	its waiter; initialized with a wait queue entry, otherwise zero
 *
 * Called by io_uring's workers, and by tasks in read(2) and similar calls. In
 * other contexts a command must not sleep. The command keeps its position in
 * the wait queue until it is admitted or nvme_uq_abandon() is called. A frozen
 * task moves to the end.
 *
 * Return: 0, or the errno of the failed command: -EBUSY, -EINTR, -ENODEV,
 * -ENXIO.
 */
int nvme_uq_wait_turn(struct nvme_uq *uq, struct nvme_uq_io *io,
		      struct nvme_uq_waiter *waiter)
{
	int ret;

	nvme_uq_enqueue(uq, io, waiter);
	for (;;) {
		set_current_state(TASK_KILLABLE);
		ret = nvme_uq_recheck(uq, io, waiter);
		if (ret != -EAGAIN)
			break;
		if (nvme_uq_cancelled(io)) {
			ret = -EINTR;
			break;
		}
		/* the users of a polled queue may have stopped polling */
		io_schedule_timeout(NVME_UQ_POLL_INTERVAL);
		if (uq->polled)
			uq->ops->reap(uq);
		if (unlikely(freezing(current)))
			nvme_uq_try_to_freeze(uq, io, waiter);
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
 * Return: 0, or the errno of the failed command: -EINTR, or -ENOMEM after
 * @deadline.
 */
int nvme_uq_wait_memory(struct nvme_uq *uq, struct nvme_uq_io *io,
			struct nvme_uq_waiter *waiter, unsigned long deadline)
{
	nvme_uq_abandon(uq, io, waiter);
	if (nvme_uq_cancelled(io))
		return -EINTR;
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
 * nvme_uq_wake_all - wake all waiters of a queue
 * @uq:		the queue
 */
void nvme_uq_wake_all(struct nvme_uq *uq)
{
	struct nvme_uq_file *uf;

	spin_lock(&uq->sq_lock);
	list_for_each_entry(uf, &uq->files, list)
		wake_up_all(&uf->waitq);
	spin_unlock(&uq->sq_lock);
	wake_up_all(&uq->waitq);
	wake_up_all(&uq->idle_wait);
}
EXPORT_SYMBOL_GPL(nvme_uq_wake_all);
