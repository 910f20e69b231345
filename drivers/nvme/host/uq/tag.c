// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: the command ids of one queue.
 *
 * tag.h contains the functions that run for each command as inline functions.
 */
#include <linux/log2.h>
#include <linux/slab.h>

#include "tag.h"

/**
 * nvme_uq_tags_alloc - allocate the tags of a queue
 * @s:		the tags
 * @depth:	entries of the submission queue, 2 to 4096
 * @genctr:	use a generation counter; false for devices that support only
 *		the lowest command ids
 * @gfp:	allocation flags
 *
 * The generation counter uses the bits of a command id that the queue depth
 * does not need. No command id is 0xffff, because the highest value of the
 * tag's bits is not used. In the error log, 0xffff means "none".
 *
 * Return: 0 or -ENOMEM.
 */
int nvme_uq_tags_alloc(struct nvme_uq_tags *s, unsigned int depth,
		       bool genctr, gfp_t gfp)
{
	unsigned int nr = depth - 1;
	unsigned int bits = order_base_2(depth);
	unsigned int i;

	s->cid = kcalloc(1 << bits, sizeof(*s->cid), gfp);
	s->free = kmalloc_array(1 << bits, sizeof(*s->free), gfp);
	if (!s->cid || !s->free) {
		nvme_uq_tags_free(s);
		return -ENOMEM;
	}

	s->nr = nr;
	s->idx_mask = (1 << bits) - 1;
	s->genctr_step = genctr ? 1 << bits : 0;
	for (i = 0; i < nr; i++) {
		s->cid[i] = i;
		s->free[i] = i;
	}
	s->head = 0;
	s->tail = nr;
	return 0;
}
EXPORT_SYMBOL_GPL(nvme_uq_tags_alloc);

/**
 * nvme_uq_tags_free - free the tags of a queue
 * @s:		the tags, none of them in flight
 */
void nvme_uq_tags_free(struct nvme_uq_tags *s)
{
	kfree(s->cid);
	kfree(s->free);
	memset(s, 0, sizeof(*s));
}
EXPORT_SYMBOL_GPL(nvme_uq_tags_free);
