// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: how many commands may be in flight, and who goes next.
 *
 * A command needs leave of its file, if that has a limit, and then a tag. Who
 * has to wait for either stands in a line. As many go as there is room for, from
 * the front, and nobody who comes later takes what those in the line wait for.
 */
#include <linux/capability.h>
#include <linux/freezer.h>
#include <linux/minmax.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include <uapi/linux/nvme_uq.h>

#include "limit.h"

/*
 * Lines. sq_lock is held by whoever changes one, so with it held a line is
 * what it looks like. Whoever wakes somebody needs only the wait queue's lock.
 */

/* Slots that are to be left free by whoever does not stand in the line. */
static void nvme_uq_set_reserve(struct nvme_uq *uq)
{
	unsigned int nr = uq->tags.nr;

	uq->reserve = uq->queued;
	if (uq->limit && uq->limit < nr)
		uq->reserve += nr - uq->limit;
}

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
	/* what it was woken for there is for the next */
	if (old)
		nvme_uq_wake_waiter(old);
	waiter->waitq = waitq;
	add_wait_queue_exclusive(waitq, &waiter->wait);
	nvme_uq_count_waiter(uq, uf, waiter, 1);
}

/* Is it one of the first @n in its line? */
static bool nvme_uq_is_among_first(const struct nvme_uq_waiter *waiter, unsigned int n)
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
 * Turns
 */

/* Does the file let this command go? @waiter is NULL if it may not wait. */
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

/* Is there a tag for this command? */
static bool nvme_uq_has_tag(const struct nvme_uq *uq,
			    const struct nvme_uq_waiter *waiter)
{
	unsigned int left = nvme_uq_tags_left(&uq->tags);
	unsigned int reserve = uq->reserve;

	if (!waiter || waiter->waitq != &uq->waitq)
		return left > reserve;
	/* the reserve for those who wait is for this one too */
	reserve -= uq->queued;
	return left > reserve && nvme_uq_is_among_first(waiter, left - reserve);
}

/* What waits for a tag counts to the limit of its file. */
static void nvme_uq_charge(struct nvme_uq_file *uf,
			   struct nvme_uq_waiter *waiter)
{
	uf->charged += !waiter->charged;
	waiter->charged = true;
}

/* What is submitted counts as that, and what goes away does not. */
static void nvme_uq_uncharge(struct nvme_uq_file *uf,
			     struct nvme_uq_waiter *waiter)
{
	uf->charged -= waiter->charged;
	waiter->charged = false;
}

/**
 * nvme_uq_admit_slow - nvme_uq_admit() of a command with a limit or a place
 * @uq:		the queue, with sq_lock held and not blocked
 * @io:		the command
 * @waiter:	where it waits, or NULL if it may not
 *
 * Return: true if the command can be submitted. If not, it may have got leave of
 * its file, and keeps it while it waits for a tag.
 */
bool nvme_uq_admit_slow(struct nvme_uq *uq, struct nvme_uq_io *io,
			struct nvme_uq_waiter *waiter)
{
	struct nvme_uq_file *uf = io->file;
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
 * nvme_uq_submit_errno - why can a command not be submitted now?
 * @uq:		the queue
 * @io:		the command
 *
 * Return: -EAGAIN if it may be later; -EBUSY, -ENODEV or -ENXIO if not.
 */
int nvme_uq_submit_errno(struct nvme_uq *uq, const struct nvme_uq_io *io)
{
	unsigned int why = READ_ONCE(uq->blocked) & READ_ONCE(io->file->blocked_mask);

	if (nvme_uq_ns_removed(io->node) || (why & NVME_UQ_UNAVAILABLE))
		return -ENXIO;
	if (nvme_state_terminal(uq->ctrl))
		return -ENODEV;
	return why & NVME_UQ_CLAIMED ? -EBUSY : -EAGAIN;
}
EXPORT_SYMBOL_GPL(nvme_uq_submit_errno);

/* Is it worth to try again? Else why not. */
static int nvme_uq_recheck(struct nvme_uq *uq, const struct nvme_uq_io *io,
			   const struct nvme_uq_waiter *waiter)
{
	struct nvme_uq_file *uf = io->file;
	int ret = nvme_uq_submit_errno(uq, io);

	if (ret != -EAGAIN)
		return ret;
	spin_lock(&uq->sq_lock);
	if (!(uq->blocked & uf->blocked_mask) &&
	    (waiter->waitq == &uf->waitq ? nvme_uq_below_limit(uf, waiter) :
	     nvme_uq_has_tag(uq, waiter)))
		ret = 0;
	spin_unlock(&uq->sq_lock);
	return ret;
}

/*
 * Is the task being killed, or does io_uring take back what it gave a worker?
 * TIF_NOTIFY_SIGNAL alone does not say so: task work and live patches set it too.
 */
static bool nvme_uq_cancelled(const struct nvme_uq_io *io)
{
	return fatal_signal_pending(current) ||
		io_uring_cmd_cancelled(io->ioucmd);
}

/**
 * nvme_uq_abandon - give back what a command got that was not submitted
 * @uq:		the queue
 * @io:		the command
 * @waiter:	its place
 */
void nvme_uq_abandon(struct nvme_uq *uq, struct nvme_uq_io *io,
		     struct nvme_uq_waiter *waiter)
{
	struct nvme_uq_file *uf = io->file;

	spin_lock(&uq->sq_lock);
	nvme_uq_dequeue_waiter(uq, uf, waiter);
	nvme_uq_uncharge(uf, waiter);
	/* what it leaves is for the next */
	nvme_uq_wake_waiter(&uf->waitq);
	nvme_uq_wake_waiter(&uq->waitq);
	spin_unlock(&uq->sq_lock);
}
EXPORT_SYMBOL_GPL(nvme_uq_abandon);

/* Stand at the end of the right line, if it does not stand there already. */
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
 * The system suspends, and does not wait for a device; or somebody freezes this
 * task alone. Then the others shall have its place.
 */
static void nvme_uq_try_to_freeze(struct nvme_uq *uq, struct nvme_uq_io *io,
				  struct nvme_uq_waiter *waiter)
{
	nvme_uq_abandon(uq, io, waiter);
	try_to_freeze();
	nvme_uq_enqueue(uq, io, waiter);
}

/**
 * nvme_uq_wait_turn - stand in line until it is worth to try again
 * @uq:		the queue
 * @io:		a command that was not admitted and may wait
 * @waiter:	its place; initialized with a wait queue entry, otherwise zero
 *
 * Only io_uring's workers do: elsewhere a command must not sleep. The place in
 * the line is kept until the command is admitted, or nvme_uq_abandon(); only a task
 * that is frozen gets one at the end.
 *
 * Return: 0 or why the command cannot be submitted: -EBUSY, -EINTR, -ENODEV,
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
		/* nobody may be polling who would make room for us */
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
 * nvme_uq_wake_all - let everybody who waits look at what has changed
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

/*
 * Limits
 */

/*
 * Let the limit of an open file take effect; no more than that, as all can ask
 * for one. A completion that does not see @limited was counted before any
 * command can see the limit.
 */
static void nvme_uq_set_file_limit(struct nvme_uq *uq, struct nvme_uq_file *uf)
{
	unsigned int limit = min_not_zero(uf->requested, uq->file_limit);
	unsigned long flags;

	lockdep_assert_held(&uq->sq_lock);
	spin_lock_irqsave(&uq->cq_lock, flags);
	uf->limited = limit;
	spin_unlock_irqrestore(&uq->cq_lock, flags);
	WRITE_ONCE(uf->limit, limit);
	wake_up_all(&uf->waitq);
}

/**
 * nvme_uq_info_limit - tell the open file that has claimed a queue its limit
 * @uq:		the queue, with sq_lock held
 */
void nvme_uq_info_limit(struct nvme_uq *uq)
{
	lockdep_assert_held(&uq->sq_lock);
	if (uq->info)
		WRITE_ONCE(uq->info->limit,
			   min(nvme_uq_get_limit(uq, &uq->limit),
			       nvme_uq_get_limit(uq, &uq->owner->limit)));
}

/**
 * nvme_uq_limits_changed - let a limit, or another depth, take effect
 * @uq:		the queue, with sq_lock held
 */
void nvme_uq_limits_changed(struct nvme_uq *uq)
{
	struct nvme_uq_file *uf;

	lockdep_assert_held(&uq->sq_lock);
	nvme_uq_set_reserve(uq);
	list_for_each_entry(uf, &uq->files, list)
		nvme_uq_set_file_limit(uq, uf);
	nvme_uq_info_limit(uq);
	wake_up_all(&uq->waitq);
}
EXPORT_SYMBOL_GPL(nvme_uq_limits_changed);

static int nvme_uq_write_limit(struct nvme_uq *uq, unsigned int *which,
			       unsigned int limit)
{
	lockdep_assert_held(&uq->sq_lock);
	if (!uq->tags.nr)
		return -ENXIO;
	if (!limit || limit > uq->tags.nr)
		return -EINVAL;
	WRITE_ONCE(*which, limit == uq->tags.nr ? 0 : limit);
	return 0;
}

/**
 * nvme_uq_set_limit - limit commands in flight
 * @uq:		the queue
 * @which:	its limit or its file_limit
 * @limit:	how many, 1 up to the number of tags, which is no limit
 *
 * Looks at each open file of the queue, so it is for the administrator.
 *
 * Return: 0; -EINVAL for a limit that is out of range; -ENXIO if the queue has
 * no memory, so that nobody knows what is.
 */
int nvme_uq_set_limit(struct nvme_uq *uq, unsigned int *which,
		      unsigned int limit)
{
	int ret;

	spin_lock(&uq->sq_lock);
	ret = nvme_uq_write_limit(uq, which, limit);
	if (!ret)
		nvme_uq_limits_changed(uq);
	spin_unlock(&uq->sq_lock);
	return ret;
}

/**
 * nvme_uq_request_limit - limit commands in flight of an open file
 * @uf:		the open file
 * @limit:	as for nvme_uq_set_limit()
 *
 * Return: as nvme_uq_set_limit() does.
 */
int nvme_uq_request_limit(struct nvme_uq_file *uf, unsigned int limit)
{
	struct nvme_uq *uq = uf->node->uq;
	int ret;

	spin_lock(&uq->sq_lock);
	ret = nvme_uq_write_limit(uq, &uf->requested, limit);
	if (!ret) {
		nvme_uq_set_file_limit(uq, uf);
		nvme_uq_info_limit(uq);
	}
	spin_unlock(&uq->sq_lock);
	return ret;
}
EXPORT_SYMBOL_GPL(nvme_uq_request_limit);

/**
 * nvme_uq_get_limit - how many commands may be in flight
 * @uq:		the queue
 * @which:	a limit of it or of an open file
 *
 * Return: the limit; the number of tags if there is none, 0 without memory.
 */
unsigned int nvme_uq_get_limit(const struct nvme_uq *uq,
			       const unsigned int *which)
{
	return min_not_zero(READ_ONCE(*which), (unsigned int)
			    READ_ONCE(uq->tags.nr));
}

/**
 * nvme_uq_add_file - make an open file one of the queue's
 * @uq:		the queue
 * @uf:		the open file
 */
void nvme_uq_add_file(struct nvme_uq *uq, struct nvme_uq_file *uf)
{
	spin_lock(&uq->sq_lock);
	list_add_tail(&uf->list, &uq->files);
	nvme_uq_set_file_limit(uq, uf);
	spin_unlock(&uq->sq_lock);
}

/**
 * nvme_uq_ioctl_set_limit - NVME_UQ_IOCTL_SET_LIMIT
 * @uf:		the open file
 * @argp:	argument
 *
 * Return: 0 or an error, see the uapi header.
 */
int nvme_uq_ioctl_set_limit(struct nvme_uq_file *uf, void __user *argp)
{
	struct nvme_uq *uq = uf->node->uq;
	struct nvme_uq_limit arg;

	if (copy_from_user(&arg, argp, sizeof(arg)))
		return -EFAULT;
	switch (arg.scope) {
	case NVME_UQ_LIMIT_FILE:
		return nvme_uq_request_limit(uf, arg.limit);
	case NVME_UQ_LIMIT_QUEUE:
		if (!capable(CAP_SYS_ADMIN))
			return -EACCES;
		return nvme_uq_set_limit(uq, &uq->limit, arg.limit);
	default:
		return -EINVAL;
	}
}

/**
 * nvme_uq_ioctl_get_limit - NVME_UQ_IOCTL_GET_LIMIT
 * @uf:		the open file
 * @argp:	argument
 *
 * Return: 0 or an error, see the uapi header.
 */
int nvme_uq_ioctl_get_limit(struct nvme_uq_file *uf, void __user *argp)
{
	struct nvme_uq *uq = uf->node->uq;
	struct nvme_uq_limit arg;

	if (copy_from_user(&arg, argp, sizeof(arg)))
		return -EFAULT;
	switch (arg.scope) {
	case NVME_UQ_LIMIT_FILE:
		arg.limit = nvme_uq_get_limit(uq, &uf->limit);
		spin_lock(&uq->sq_lock);
		arg.in_flight = nvme_uq_file_in_flight(uf);
		arg.waiting = uf->waiting;
		spin_unlock(&uq->sq_lock);
		break;
	case NVME_UQ_LIMIT_QUEUE:
		arg.limit = nvme_uq_get_limit(uq, &uq->limit);
		arg.in_flight = nvme_uq_tags_used(&uq->tags);
		arg.waiting = READ_ONCE(uq->waiting);
		break;
	default:
		return -EINVAL;
	}
	if (!arg.limit)
		return -ENXIO;
	return copy_to_user(argp, &arg, sizeof(arg)) ? -EFAULT : 0;
}
