// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: how many commands may be in flight, and who goes next.
 *
 * A command needs leave of its file, if that has a limit, and then a slot. Who
 * has to wait for either stands in a line. As many go as there is room for, from
 * the front, and nobody who comes later takes what those in the line wait for.
 */
#include <linux/capability.h>
#include <linux/freezer.h>
#include <linux/minmax.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include <uapi/linux/nvme_uq.h>

#include "uq.h"

/*
 * Lines. sq_lock is held by whoever changes one, so with it held a line is
 * what it looks like. Whoever wakes somebody needs only the wait queue's lock.
 */

/* Slots that are to be left free by whoever does not stand in the line. */
static void nvme_uq_set_reserve(struct nvme_uq *uq)
{
	unsigned int nr = uq->slots.nr;

	uq->reserve = uq->queued;
	if (uq->limit && uq->limit < nr)
		uq->reserve += nr - uq->limit;
}

static void nvme_uq_wake_line(wait_queue_head_t *line)
{
	/* pairs with the barrier of set_current_state() */
	if (wq_has_sleeper(line))
		wake_up(line);
}

static void nvme_uq_count_line(struct nvme_uq *uq, struct nvme_uq_file *uf,
			       const struct nvme_uq_place *place, int n)
{
	WRITE_ONCE(uq->waiting, uq->waiting + n);
	WRITE_ONCE(uf->waiting, uf->waiting + n);
	if (place->line == &uf->line) {
		uf->queued += n;
		return;
	}
	uq->queued += n;
	nvme_uq_set_reserve(uq);
}

static void nvme_uq_leave_line(struct nvme_uq *uq, struct nvme_uq_file *uf,
			       struct nvme_uq_place *place)
{
	lockdep_assert_held(&uq->sq_lock);
	if (!place->line)
		return;
	remove_wait_queue(place->line, &place->wait);
	nvme_uq_count_line(uq, uf, place, -1);
	place->line = NULL;
}

static void nvme_uq_enter_line(struct nvme_uq *uq, struct nvme_uq_file *uf,
			       struct nvme_uq_place *place,
			       wait_queue_head_t *line)
{
	wait_queue_head_t *old = place->line;

	if (old == line)
		return;
	nvme_uq_leave_line(uq, uf, place);
	/* what it was woken for there is for the next */
	if (old)
		nvme_uq_wake_line(old);
	place->line = line;
	add_wait_queue_exclusive(line, &place->wait);
	nvme_uq_count_line(uq, uf, place, 1);
}

/* Is it one of the first @n in its line? */
static bool nvme_uq_is_among(const struct nvme_uq_place *place, unsigned int n)
{
	const wait_queue_entry_t *wait;

	list_for_each_entry(wait, &place->line->head, entry) {
		if (!n--)
			return false;
		if (wait == &place->wait)
			return true;
	}
	return false;
}

/*
 * Turns
 */

/* Does the file let this command go? @place is NULL if it may not wait. */
static bool nvme_uq_has_leave(const struct nvme_uq_file *uf,
			      const struct nvme_uq_place *place)
{
	unsigned int used = nvme_uq_file_flying(uf) + uf->leaves;

	if (!uf->limit || (place && place->leave))
		return true;
	if (used >= uf->limit)
		return false;
	if (place && place->line == &uf->line)
		return nvme_uq_is_among(place, uf->limit - used);
	return uf->queued < uf->limit - used;
}

/* Is there a slot for this command? */
static bool nvme_uq_has_slot(const struct nvme_uq *uq,
			     const struct nvme_uq_place *place)
{
	unsigned int left = nvme_uq_slots_left(&uq->slots);
	unsigned int reserve = uq->reserve;

	if (!place || place->line != &uq->line)
		return left > reserve;
	/* the reserve for those who wait is for this one too */
	reserve -= uq->queued;
	return left > reserve && nvme_uq_is_among(place, left - reserve);
}

/* What waits for a slot counts to the limit of its file. */
static void nvme_uq_keep_leave(struct nvme_uq_file *uf,
			       struct nvme_uq_place *place)
{
	uf->leaves += !place->leave;
	place->leave = true;
}

/* What is submitted counts as that, and what goes away does not. */
static void nvme_uq_drop_leave(struct nvme_uq_file *uf,
			       struct nvme_uq_place *place)
{
	uf->leaves -= place->leave;
	place->leave = false;
}

/**
 * nvme_uq_admit_slow - nvme_uq_admit() of a command with a limit or a place
 * @uq:		the queue, with sq_lock held and not blocked
 * @io:		the command
 * @place:	where it waits, or NULL if it may not
 *
 * Return: true if the command can be submitted. If not, it may have got leave of
 * its file, and keeps it while it waits for a slot.
 */
bool nvme_uq_admit_slow(struct nvme_uq *uq, struct nvme_uq_io *io,
			struct nvme_uq_place *place)
{
	struct nvme_uq_file *uf = io->file;
	bool slot;

	lockdep_assert_held(&uq->sq_lock);
	if (!nvme_uq_has_leave(uf, place))
		return false;
	slot = nvme_uq_has_slot(uq, place);
	if (!place)
		return slot;

	if (slot || place->line == &uf->line)
		nvme_uq_leave_line(uq, uf, place);
	if (slot)
		nvme_uq_drop_leave(uf, place);
	else if (uf->limit)
		nvme_uq_keep_leave(uf, place);
	return slot;
}
EXPORT_SYMBOL_GPL(nvme_uq_admit_slow);

/**
 * nvme_uq_refusal - why can a command not be submitted now?
 * @uq:		the queue
 * @io:		the command
 *
 * Return: -EAGAIN if it may be later; -EBUSY, -ENODEV or -ENXIO if not.
 */
int nvme_uq_refusal(struct nvme_uq *uq, const struct nvme_uq_io *io)
{
	unsigned int why = READ_ONCE(uq->blocked) & READ_ONCE(io->file->heeds);

	if (nvme_uq_ns_removed(io->node) || (why & NVME_UQ_ABSENT))
		return -ENXIO;
	if (nvme_state_terminal(uq->ctrl))
		return -ENODEV;
	return why & NVME_UQ_CLAIMED ? -EBUSY : -EAGAIN;
}
EXPORT_SYMBOL_GPL(nvme_uq_refusal);

/* Is it worth to try again? Else why not. */
static int nvme_uq_look(struct nvme_uq *uq, const struct nvme_uq_io *io,
			const struct nvme_uq_place *place)
{
	struct nvme_uq_file *uf = io->file;
	int ret = nvme_uq_refusal(uq, io);

	if (ret != -EAGAIN)
		return ret;
	spin_lock(&uq->sq_lock);
	if (!(uq->blocked & uf->heeds) &&
	    (place->line == &uf->line ? nvme_uq_has_leave(uf, place) :
	     nvme_uq_has_slot(uq, place)))
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
 * nvme_uq_leave - give back what a command got that was not submitted
 * @uq:		the queue
 * @io:		the command
 * @place:	its place
 */
void nvme_uq_leave(struct nvme_uq *uq, struct nvme_uq_io *io,
		   struct nvme_uq_place *place)
{
	struct nvme_uq_file *uf = io->file;

	spin_lock(&uq->sq_lock);
	nvme_uq_leave_line(uq, uf, place);
	nvme_uq_drop_leave(uf, place);
	/* what it leaves is for the next */
	nvme_uq_wake_line(&uf->line);
	nvme_uq_wake_line(&uq->line);
	spin_unlock(&uq->sq_lock);
}
EXPORT_SYMBOL_GPL(nvme_uq_leave);

/* Stand at the end of the right line, if it does not stand there already. */
static void nvme_uq_stand(struct nvme_uq *uq, struct nvme_uq_io *io,
			  struct nvme_uq_place *place)
{
	struct nvme_uq_file *uf = io->file;

	spin_lock(&uq->sq_lock);
	nvme_uq_enter_line(uq, uf, place, uf->limit && !place->leave ?
			   &uf->line : &uq->line);
	spin_unlock(&uq->sq_lock);
}

/*
 * The system suspends, and does not wait for a device; or somebody freezes this
 * task alone. Then the others shall have its place.
 */
static void nvme_uq_freeze(struct nvme_uq *uq, struct nvme_uq_io *io,
			   struct nvme_uq_place *place)
{
	nvme_uq_leave(uq, io, place);
	try_to_freeze();
	nvme_uq_stand(uq, io, place);
}

/**
 * nvme_uq_wait_turn - stand in line until it is worth to try again
 * @uq:		the queue
 * @io:		a command that was not admitted and may wait
 * @place:	its place; initialized with a wait queue entry, otherwise zero
 *
 * Only io_uring's workers do: elsewhere a command must not sleep. The place in
 * the line is kept until the command is admitted, or nvme_uq_leave(); only a task
 * that is frozen gets one at the end.
 *
 * Return: 0 or why the command cannot be submitted: -EBUSY, -EINTR, -ENODEV,
 * -ENXIO.
 */
int nvme_uq_wait_turn(struct nvme_uq *uq, struct nvme_uq_io *io,
		      struct nvme_uq_place *place)
{
	int ret;

	nvme_uq_stand(uq, io, place);
	for (;;) {
		set_current_state(TASK_KILLABLE);
		ret = nvme_uq_look(uq, io, place);
		if (ret != -EAGAIN)
			break;
		if (nvme_uq_cancelled(io)) {
			ret = -EINTR;
			break;
		}
		/* nobody may be polling who would make room for us */
		io_schedule_timeout(NVME_UQ_LOOK);
		if (uq->polled)
			uq->ops->reap(uq);
		if (unlikely(freezing(current)))
			nvme_uq_freeze(uq, io, place);
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
		wake_up_all(&uf->line);
	spin_unlock(&uq->sq_lock);
	wake_up_all(&uq->line);
	wake_up_all(&uq->wait);
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
	unsigned int limit = min_not_zero(uf->asked, uq->file_limit);
	unsigned long flags;

	lockdep_assert_held(&uq->sq_lock);
	spin_lock_irqsave(&uq->cq_lock, flags);
	uf->limited = limit;
	spin_unlock_irqrestore(&uq->cq_lock, flags);
	WRITE_ONCE(uf->limit, limit);
	wake_up_all(&uf->line);
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
	wake_up_all(&uq->line);
}
EXPORT_SYMBOL_GPL(nvme_uq_limits_changed);

static int nvme_uq_write_limit(struct nvme_uq *uq, unsigned int *which,
			       unsigned int limit)
{
	lockdep_assert_held(&uq->sq_lock);
	if (!uq->slots.nr)
		return -ENXIO;
	if (!limit || limit > uq->slots.nr)
		return -EINVAL;
	WRITE_ONCE(*which, limit == uq->slots.nr ? 0 : limit);
	return 0;
}

/**
 * nvme_uq_set_limit - limit commands in flight
 * @uq:		the queue
 * @which:	its limit or its file_limit
 * @limit:	how many, 1 up to the number of slots, which is no limit
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
 * nvme_uq_ask_limit - limit commands in flight of an open file
 * @uf:		the open file
 * @limit:	as for nvme_uq_set_limit()
 *
 * Return: as nvme_uq_set_limit() does.
 */
int nvme_uq_ask_limit(struct nvme_uq_file *uf, unsigned int limit)
{
	struct nvme_uq *uq = uf->node->uq;
	int ret;

	spin_lock(&uq->sq_lock);
	ret = nvme_uq_write_limit(uq, &uf->asked, limit);
	if (!ret) {
		nvme_uq_set_file_limit(uq, uf);
		nvme_uq_info_limit(uq);
	}
	spin_unlock(&uq->sq_lock);
	return ret;
}
EXPORT_SYMBOL_GPL(nvme_uq_ask_limit);

/**
 * nvme_uq_get_limit - how many commands may be in flight
 * @uq:		the queue
 * @which:	a limit of it or of an open file
 *
 * Return: the limit; the number of slots if there is none, 0 without memory.
 */
unsigned int nvme_uq_get_limit(const struct nvme_uq *uq,
			       const unsigned int *which)
{
	return min_not_zero(READ_ONCE(*which), (unsigned int)
			    READ_ONCE(uq->slots.nr));
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
 * nvme_uq_ioctl_set_limit - NVME_UQ_IOC_SET_LIMIT
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
		return nvme_uq_ask_limit(uf, arg.limit);
	case NVME_UQ_LIMIT_QUEUE:
		if (!capable(CAP_SYS_ADMIN))
			return -EACCES;
		return nvme_uq_set_limit(uq, &uq->limit, arg.limit);
	default:
		return -EINVAL;
	}
}

/**
 * nvme_uq_ioctl_get_limit - NVME_UQ_IOC_GET_LIMIT
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
		arg.in_flight = nvme_uq_file_flying(uf);
		arg.waiting = uf->waiting;
		spin_unlock(&uq->sq_lock);
		break;
	case NVME_UQ_LIMIT_QUEUE:
		arg.limit = nvme_uq_get_limit(uq, &uq->limit);
		arg.in_flight = nvme_uq_slots_used(&uq->slots);
		arg.waiting = READ_ONCE(uq->waiting);
		break;
	default:
		return -EINVAL;
	}
	if (!arg.limit)
		return -ENXIO;
	return copy_to_user(argp, &arg, sizeof(arg)) ? -EFAULT : 0;
}
