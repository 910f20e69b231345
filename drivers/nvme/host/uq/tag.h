/* SPDX-License-Identifier: GPL-2.0 */
/* NVMe user queues: the command ids of one queue. */
#ifndef _NVME_UQ_TAG_H
#define _NVME_UQ_TAG_H

#include <linux/bits.h>
#include <linux/compiler.h>
#include <linux/types.h>
#include <asm/barrier.h>

/* A command id is a tag and a generation counter. This bit means in flight. */
#define NVME_UQ_ARMED		BIT(16)

/**
 * struct nvme_uq_tags - the command ids of one queue
 * @head:	tags ever taken; written under the queue's sq_lock
 * @tail:	tags ever put back, and @nr; written under the queue's cq_lock
 * @nr:		number of tags, one less than the queue has entries, so that a
 *		full set of tags can never overrun the submission queue
 * @genctr_step: increment of a command id each time its tag is used
 * @idx_mask:	part of a command id that is the tag, and the size of @free,
 *		less one
 * @cid:	last command id of each tag, with NVME_UQ_ARMED when in flight.
 *		Indexed by all values of @idx_mask; those from @nr on are
 *		unused.
 * @free:	ring of free tags. The least recently used tag is taken first,
 *		so that a late completion finds another generation for as long
 *		as possible.
 *
 * Submission takes tags under sq_lock, and completion puts them back under
 * cq_lock. The ring between them needs no lock of its own. In struct nvme_uq,
 * the members up to @genctr_step end the cache line of sq_lock, and the others
 * begin that of cq_lock. A completion uses none of the first ones.
 */
struct nvme_uq_tags {
	u32		head;
	u16		nr;
	u16		genctr_step;
	u32		idx_mask;
	u32		tail;
	u32		*cid;
	u16		*free;
};

int nvme_uq_tags_alloc(struct nvme_uq_tags *s, unsigned int depth,
		       bool genctr, gfp_t gfp);
void nvme_uq_tags_free(struct nvme_uq_tags *s);

/* Commands in flight; exact while none is submitted or completed. */
static inline unsigned int nvme_uq_tags_used(const struct nvme_uq_tags *s)
{
	u32 head = READ_ONCE(s->head), nr = READ_ONCE(s->nr);
	u32 left = READ_ONCE(s->tail) - head;

	/* more tags may have been put back since @head was read */
	return left < nr ? nr - left : 0;
}

/* Free tags: a lower bound with sq_lock held, else a hint. */
static inline unsigned int nvme_uq_tags_left(const struct nvme_uq_tags *s)
{
	u32 head = READ_ONCE(s->head);

	/* pairs with the release in nvme_uq_tag_put() */
	return smp_load_acquire(&s->tail) - head;
}

/**
 * nvme_uq_tag_get - take the tag that has been free for the longest time
 * @s:		the tags; at least one is free, see nvme_uq_tags_left()
 *
 * The caller fills in the iod of the tag, then calls nvme_uq_tag_arm().
 *
 * Return: the number of the tag.
 */
static inline unsigned int nvme_uq_tag_get(struct nvme_uq_tags *s)
{
	u32 head = s->head;
	unsigned int idx = s->free[head & s->idx_mask];

	WRITE_ONCE(s->head, head + 1);
	return idx;
}

/**
 * nvme_uq_tag_arm - assign the next command id to a tag
 * @s:		the tags
 * @idx:	the number of the tag
 *
 * Return: the command id. From now on, a completion with this id is accepted.
 */
static inline u16 nvme_uq_tag_arm(struct nvme_uq_tags *s, unsigned int idx)
{
	u32 *entry = &s->cid[idx];
	u16 cid = *entry + s->genctr_step;

	/* publish the caller's writes to the iod before the id */
	smp_store_release(entry, NVME_UQ_ARMED | cid);
	return cid;
}

/**
 * nvme_uq_tag_match - find the tag of a completion
 * @s:		the tags
 * @cid:	the command id, from the untrusted device
 *
 * Return: the number of the tag, which is no longer in flight but not yet free.
 * -1 if the id is out of range, of another generation, or already completed.
 */
static inline int nvme_uq_tag_match(struct nvme_uq_tags *s, u16 cid)
{
	unsigned int idx = cid & s->idx_mask;
	u32 *entry = &s->cid[idx];

	/* pairs with the release in nvme_uq_tag_arm() */
	if (unlikely(smp_load_acquire(entry) != (NVME_UQ_ARMED | cid)))
		return -1;
	WRITE_ONCE(*entry, cid);
	return idx;
}

/**
 * nvme_uq_tag_put - free a tag that nvme_uq_tag_match() returned
 * @s:		the tags
 * @idx:	the number of the tag
 */
static inline void nvme_uq_tag_put(struct nvme_uq_tags *s, unsigned int idx)
{
	u32 tail = s->tail;

	s->free[tail & s->idx_mask] = idx;
	/* all accesses to the tag's iod come before its reuse */
	smp_store_release(&s->tail, tail + 1);
}

#endif /* _NVME_UQ_TAG_H */
