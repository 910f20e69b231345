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

/**
 * nvme_uq_get_limit - number of commands that may be in flight
 * @uq:		the queue
 * @limit:	a limit of the queue or of an open file, 0 for none
 *
 * Return: the limit. If there is no limit, the number of tags; 0 if the queue
 * has no memory.
 */
unsigned int nvme_uq_get_limit(const struct nvme_uq *uq, unsigned int limit)
{
	unsigned int nr = READ_ONCE(uq->tags.nr);

	return nr ? min_not_zero(limit, nr) : 0;
}

/**
 * nvme_uq_info_limit - update the limit in the information page
 * @uq:		the queue, with sq_lock held
 */
void nvme_uq_info_limit(struct nvme_uq *uq)
{
	unsigned int limit;

	lockdep_assert_held(&uq->sq_lock);
	if (!uq->info)
		return;
	limit = min_not_zero(uq->limit, nvme_uq_file_limit(uq, uq->owner));
	WRITE_ONCE(uq->info->limit, nvme_uq_get_limit(uq, limit));
}

/**
 * nvme_uq_limits_changed - apply changed limits or a changed depth
 * @uq:		the queue, with sq_lock held
 *
 * The caller wakes waiters: nvme_uq_set_limit(), or nvme_uq_unquiesce() after a
 * reset.
 */
void nvme_uq_limits_changed(struct nvme_uq *uq)
{
	lockdep_assert_held(&uq->sq_lock);
	nvme_uq_set_reserve(uq);
	nvme_uq_info_limit(uq);
}
EXPORT_SYMBOL_GPL(nvme_uq_limits_changed);

static int nvme_uq_check_limit(struct nvme_uq *uq, unsigned int limit)
{
	lockdep_assert_held(&uq->sq_lock);
	if (!uq->tags.nr)
		return -ENXIO;
	return limit && limit <= uq->tags.nr ? 0 : -EINVAL;
}

/**
 * nvme_uq_set_limit - limit commands in flight
 * @uq:		the queue
 * @which:	its limit or its file_limit
 * @limit:	from 1 to the number of tags; the number of tags means no limit
 *
 * Return: 0; -EINVAL if @limit is out of range; -ENXIO if the queue has no
 * memory, so that its depth is unknown.
 */
int nvme_uq_set_limit(struct nvme_uq *uq, unsigned int *which,
		      unsigned int limit)
{
	int ret;

	scoped_guard(spinlock, &uq->sq_lock) {
		ret = nvme_uq_check_limit(uq, limit);
		if (ret)
			return ret;
		WRITE_ONCE(*which, limit == uq->tags.nr ? 0 : limit);
		nvme_uq_limits_changed(uq);
	}
	/* the tasks need sq_lock */
	nvme_uq_wake_waiters(uq);
	return 0;
}
EXPORT_SYMBOL_IF_KUNIT(nvme_uq_set_limit);

/**
 * nvme_uq_request_limit - limit commands in flight of an open file
 * @uf:		the open file
 * @limit:	as for nvme_uq_set_limit()
 * @may_raise:	the limit may be higher than before
 *
 * Wakes only as many commands as the limit admits, and not under sq_lock: any
 * user who has the file can set its limit.
 *
 * Return: see nvme_uq_set_limit(); -EACCES if the limit may not be raised.
 */
int nvme_uq_request_limit(struct nvme_uq_file *uf, unsigned int limit,
			  bool may_raise)
{
	struct nvme_uq *uq = uf->node->uq;
	bool keep;
	int ret;

	scoped_guard(spinlock, &uq->sq_lock) {
		/* the depth is no limit, but it may have been higher before */
		keep = uf->limit && !may_raise;
		ret = nvme_uq_check_limit(uq, limit);
		if (ret)
			return ret;
		if (keep && limit > uf->limit)
			return -EACCES;
		WRITE_ONCE(uf->limit,
			   limit == uq->tags.nr && !keep ? 0 : limit);
		nvme_uq_info_limit(uq);
	}
	/*
	 * In parts, as completions wait for the lock of the wait queue, with
	 * cq_lock held. 0 is no limit, and wakes all: no completion will do so.
	 */
	for (int nr = nvme_uq_file_limit(uq, uf), i = 0; !i || i < nr; i += 16)
		wake_up_nr(&uf->waitq, min(nr - i, 16));
	return 0;
}
EXPORT_SYMBOL_IF_KUNIT(nvme_uq_request_limit);

static int nvme_uq_set_file_limit(struct nvme_uq_file *uf, unsigned int limit)
{
	int ret = nvme_uq_request_limit(uf, limit, false);

	/* in this order, a process without the capability is not audited */
	if (ret == -EACCES && capable(CAP_SYS_ADMIN))
		ret = nvme_uq_request_limit(uf, limit, true);
	return ret;
}

static int nvme_uq_copy_limit(struct nvme_uq_limit *arg, void __user *argp)
{
	if (copy_from_user(arg, argp, sizeof(*arg)))
		return -EFAULT;
	if (arg->scope > NVME_UQ_LIMIT_QUEUE || arg->flags || arg->reserved)
		return -EINVAL;
	return 0;
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
	int ret = nvme_uq_copy_limit(&arg, argp);

	if (ret || arg.in_flight || arg.waiting)
		return ret ?: -EINVAL;
	if (arg.scope == NVME_UQ_LIMIT_FILE)
		return nvme_uq_set_file_limit(uf, arg.limit);
	if (!capable(CAP_SYS_ADMIN))
		return -EACCES;
	return nvme_uq_set_limit(uq, &uq->limit, arg.limit);
}

/**
 * nvme_uq_read_limit - read the limit and the commands of an open file
 * @uf:		the open file
 * @arg:	all but the limit and the outputs are 0
 */
void nvme_uq_read_limit(struct nvme_uq_file *uf, struct nvme_uq_limit *arg)
{
	struct nvme_uq *uq = uf->node->uq;

	arg->limit = nvme_uq_get_limit(uq, nvme_uq_file_limit(uq, uf));
	guard(spinlock)(&uq->sq_lock);
	arg->in_flight = nvme_uq_file_in_flight(uf);
	arg->waiting = uf->waiting;
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
	int ret = nvme_uq_copy_limit(&arg, argp);

	if (ret)
		return ret;
	if (arg.scope == NVME_UQ_LIMIT_FILE) {
		nvme_uq_read_limit(uf, &arg);
	} else {
		arg.limit = nvme_uq_get_limit(uq, READ_ONCE(uq->limit));
		arg.in_flight = nvme_uq_tags_used(&uq->tags);
		arg.waiting = READ_ONCE(uq->waiting);
	}
	if (!arg.limit)
		return -ENXIO;
	return copy_to_user(argp, &arg, sizeof(arg)) ? -EFAULT : 0;
}
