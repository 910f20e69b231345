/* SPDX-License-Identifier: GPL-2.0 */
/* NVMe user queues: commands that wait for a tag or for their limit. */
#ifndef _NVME_UQ_WAIT_H
#define _NVME_UQ_WAIT_H

#include <linux/minmax.h>

#include "private.h"

/**
 * struct nvme_uq_waiter - a command that waits for its limit or for a tag
 * @waitq:	the wait queue that the command waits in, or NULL
 * @wait:	entry of @waitq, unless a wakeup has removed it
 *
 * Protected by the queue's sq_lock. Wakeups need only the lock of @waitq.
 */
struct nvme_uq_waiter {
	wait_queue_head_t	*waitq;
	wait_queue_entry_t	wait;
};

/* Number of commands that an open file may have in flight, 0 for no limit. */
static inline unsigned int nvme_uq_file_limit(const struct nvme_uq *uq,
					      const struct nvme_uq_file *uf)
{
	return min_not_zero(READ_ONCE(uf->limit), READ_ONCE(uq->file_limit));
}

void nvme_uq_set_reserve(struct nvme_uq *uq);
bool nvme_uq_admit_slow(struct nvme_uq *uq, struct nvme_uq_file *uf,
			struct nvme_uq_waiter *waiter);

/**
 * nvme_uq_admit - check whether a command can be submitted now
 * @uq:		the queue, with sq_lock held
 * @uf:		open file of the command
 * @node:	node of @uf
 * @waiter:	its waiter, or NULL if the command must not wait
 *
 * Return: true if the command can be submitted. The caller must then submit it,
 * or call nvme_uq_abandon().
 */
static __always_inline bool nvme_uq_admit(struct nvme_uq *uq,
					  struct nvme_uq_file *uf,
					  const struct nvme_uq_node *node,
					  struct nvme_uq_waiter *waiter)
{
	if (unlikely(uq->blocked & uf->blocked_mask) ||
	    unlikely(nvme_uq_ns_removed(node)))
		return false;
	if (!waiter && likely(!uf->limit) &&
	    likely(nvme_uq_tags_left(&uq->tags) > uq->reserve))
		return true;
	return nvme_uq_admit_slow(uq, uf, waiter);
}

/*
 * Two early checks, before data is pinned and mapped. They avoid this cost for
 * a command that must wait. nvme_uq_admit() decides.
 */

bool __nvme_uq_is_full(struct nvme_uq *uq);
bool __nvme_uq_at_limit(struct nvme_uq *uq, struct nvme_uq_file *uf);

/* Return true if a new command would not get a tag. Lockless. */
static __always_inline bool nvme_uq_is_full(struct nvme_uq *uq)
{
	return nvme_uq_tags_left(&uq->tags) <= READ_ONCE(uq->reserve) &&
		__nvme_uq_is_full(uq);
}

/* Return true if a new command would exceed the limit of its own file. */
static __always_inline bool nvme_uq_at_limit(struct nvme_uq *uq,
					     struct nvme_uq_file *uf)
{
	return unlikely(READ_ONCE(uf->limit) | READ_ONCE(uq->file_limit)) &&
		__nvme_uq_at_limit(uq, uf);
}

bool nvme_uq_cancelled(void);
int nvme_uq_submit_errno(struct nvme_uq *uq, const struct nvme_uq_file *uf,
			 const struct nvme_uq_node *node);
int nvme_uq_wait_turn(struct nvme_uq *uq, struct nvme_uq_io *io,
		      struct nvme_uq_waiter *waiter);
int nvme_uq_wait_memory(struct nvme_uq *uq, struct nvme_uq_io *io,
			struct nvme_uq_waiter *waiter, unsigned long deadline);
void nvme_uq_abandon(struct nvme_uq *uq, struct nvme_uq_io *io,
		     struct nvme_uq_waiter *waiter);
void nvme_uq_wake_all(struct nvme_uq *uq);

/* Wake no more waiters than could go, however many there are. */
static inline void nvme_uq_wake_waiters(struct nvme_uq *uq)
{
	wake_up_nr(&uq->waitq, READ_ONCE(uq->tags.nr) ?: 1);
}

#if IS_ENABLED(CONFIG_KUNIT)
int nvme_uq_recheck(struct nvme_uq *uq, const struct nvme_uq_io *io,
		    struct nvme_uq_waiter *waiter);
#endif

#endif /* _NVME_UQ_WAIT_H */
