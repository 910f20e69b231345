// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: limits of commands in flight.
 */
#include <kunit/visibility.h>
#include <linux/capability.h>
#include <linux/minmax.h>
#include <linux/uaccess.h>
#include <uapi/linux/nvme_uq.h>

#include "limit.h"

/*
 * Apply the limit of one open file in constant time. Any user who can open a
 * node can set a limit, and makes others wait for sq_lock meanwhile. So the
 * caller wakes the commands that wait for the limit. A completion that misses
 * @limited is counted before any command sees the limit.
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
}

/* Wake as many commands as the limit of an open file admits. */
static void nvme_uq_wake_limited(struct nvme_uq_file *uf)
{
	/* without a limit wake all: no completion will do so */
	wake_up_nr(&uf->waitq, READ_ONCE(uf->limit));
}

/**
 * nvme_uq_info_limit - update the limit in the information page
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
 * nvme_uq_limits_changed - apply changed limits or a changed depth
 * @uq:		the queue, with sq_lock held
 */
void nvme_uq_limits_changed(struct nvme_uq *uq)
{
	struct nvme_uq_file *uf;

	lockdep_assert_held(&uq->sq_lock);
	nvme_uq_set_reserve(uq);
	list_for_each_entry(uf, &uq->files, list) {
		nvme_uq_set_file_limit(uq, uf);
		nvme_uq_wake_limited(uf);
	}
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
 * @limit:	from 1 to the number of tags; the number of tags means no limit
 *
 * Visits all open files of the queue, so only the administrator may call it.
 *
 * Return: 0; -EINVAL if @limit is out of range; -ENXIO if the queue has no
 * memory, so that its depth is unknown.
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
EXPORT_SYMBOL_IF_KUNIT(nvme_uq_set_limit);

/**
 * nvme_uq_request_limit - limit commands in flight of an open file
 * @uf:		the open file
 * @limit:	as for nvme_uq_set_limit()
 *
 * Return: see nvme_uq_set_limit().
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
	if (!ret)
		nvme_uq_wake_limited(uf);
	return ret;
}
EXPORT_SYMBOL_GPL(nvme_uq_request_limit);

/**
 * nvme_uq_get_limit - number of commands that may be in flight
 * @uq:		the queue
 * @which:	a limit of the queue or of an open file
 *
 * Return: the limit. If there is no limit, the number of tags; 0 if the queue
 * has no memory.
 */
unsigned int nvme_uq_get_limit(const struct nvme_uq *uq,
			       const unsigned int *which)
{
	return min_not_zero(READ_ONCE(*which), (unsigned int)
			    READ_ONCE(uq->tags.nr));
}

/**
 * nvme_uq_add_file - add an open file to a queue
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
