// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: attributes of the nodes.
 */
#include <linux/kstrtox.h>
#include <linux/sysfs.h>

#include "limit.h"

#define NVME_UQ_ATTR_MODE(_mode, _name, _fmt, _value)			\
static ssize_t _name##_show(struct device *dev,				\
			    struct device_attribute *attr, char *buf)	\
{									\
	struct nvme_uq_node *node __maybe_unused = nvme_uq_dev_node(dev); \
									\
	return sysfs_emit(buf, _fmt "\n", _value);			\
}									\
static DEVICE_ATTR_##_mode(_name)

#define NVME_UQ_ATTR(_name, _fmt, _value)				\
	NVME_UQ_ATTR_MODE(RO, _name, _fmt, _value)

/* The namespace, and what programs must know of it to send commands. */

static ssize_t wwid_show(struct device *dev, struct device_attribute *attr,
			 char *buf)
{
	return nvme_emit_wwid(nvme_uq_dev_node(dev)->ns->head, buf);
}
static DEVICE_ATTR_RO(wwid);

NVME_UQ_ATTR(nsid, "%u", node->ns->head->ns_id);
NVME_UQ_ATTR(logical_block_size, "%u", READ_ONCE(node->ns->head->lba_shift) ?
	     1U << READ_ONCE(node->ns->head->lba_shift) : 0);
NVME_UQ_ATTR(max_transfer, "%llu",
	     (u64)READ_ONCE(node->ns->ctrl->max_hw_sectors) << SECTOR_SHIFT);
/* In bytes, of buffers and lengths: SGLs and PRPs need dwords. */
NVME_UQ_ATTR(dma_alignment, "%u", 4);

/* The queue */

static const char *nvme_uq_state(const struct nvme_uq *uq)
{
	unsigned int blocked = READ_ONCE(uq->blocked);

	return nvme_state_terminal(uq->ctrl) ? "gone" :
		blocked & NVME_UQ_UNAVAILABLE ? "unavailable" :
		blocked & NVME_UQ_DOWN ? "down" : "live";
}

NVME_UQ_ATTR(state, "%s", nvme_uq_state(node->uq));
NVME_UQ_ATTR(type, "%s", node->uq->polled ? "poll" : "irq");
NVME_UQ_ATTR(qid, "%u", READ_ONCE(node->uq->qid));
NVME_UQ_ATTR(depth, "%u", READ_ONCE(node->uq->tags.nr));
NVME_UQ_ATTR(irq, "%d", READ_ONCE(node->uq->irq));
NVME_UQ_ATTR(in_flight, "%u", nvme_uq_tags_used(&node->uq->tags));
NVME_UQ_ATTR(waiting, "%u", READ_ONCE(node->uq->waiting));
NVME_UQ_ATTR(frozen, "%d", !!(READ_ONCE(node->uq->blocked) &
			      (NVME_UQ_FROZEN | NVME_UQ_HELD)));
NVME_UQ_ATTR(claimed, "%d", !!READ_ONCE(node->uq->owner));
NVME_UQ_ATTR(memory, "%llu", READ_ONCE(node->uq->ctrl->uq->mems.bytes));
NVME_UQ_ATTR(submitted, "%llu", READ_ONCE(node->uq->submitted));
NVME_UQ_ATTR(completed, "%llu", READ_ONCE(node->uq->completed));
NVME_UQ_ATTR(read_bytes, "%llu", READ_ONCE(node->uq->bytes[READ]));
NVME_UQ_ATTR(write_bytes, "%llu", READ_ONCE(node->uq->bytes[WRITE]));
NVME_UQ_ATTR(doorbells, "%llu", READ_ONCE(node->uq->doorbells));
NVME_UQ_ATTR(reaps, "%llu", READ_ONCE(node->uq->reaps));
NVME_UQ_ATTR(spurious, "%llu", READ_ONCE(node->uq->spurious));
NVME_UQ_ATTR(timeouts, "%llu", READ_ONCE(node->uq->timeouts));
NVME_UQ_ATTR(cancelled, "%llu", READ_ONCE(node->uq->cancelled));

static ssize_t claim_store(struct device *dev, struct device_attribute *attr,
			   const char *buf, size_t len)
{
	u8 claimable;

	if (kstrtou8(buf, 10, &claimable) || claimable > 1)
		return -EINVAL;
	nvme_uq_set_claimable(nvme_uq_dev_node(dev)->uq, claimable);
	return len;
}
NVME_UQ_ATTR_MODE(RW, claim, "%d", READ_ONCE(node->uq->claimable));

static ssize_t nvme_uq_store_limit(struct nvme_uq *uq, unsigned int *which,
				   const char *buf, size_t len)
{
	unsigned int limit;

	return kstrtouint(buf, 10, &limit) ?:
		nvme_uq_set_limit(uq, which, limit) ?: len;
}

#define NVME_UQ_LIMIT_ATTR(_name)					\
static ssize_t _name##_store(struct device *dev,			\
			     struct device_attribute *attr,		\
			     const char *buf, size_t len)		\
{									\
	struct nvme_uq *uq = nvme_uq_dev_node(dev)->uq;			\
									\
	return nvme_uq_store_limit(uq, &uq->_name, buf, len);		\
}									\
NVME_UQ_ATTR_MODE(RW, _name, "%u",					\
		  nvme_uq_get_limit(node->uq, READ_ONCE(node->uq->_name)))

NVME_UQ_LIMIT_ATTR(limit);
NVME_UQ_LIMIT_ATTR(file_limit);

static struct attribute *nvme_uq_attrs[] = {
	&dev_attr_wwid.attr,
	&dev_attr_nsid.attr,
	&dev_attr_logical_block_size.attr,
	&dev_attr_max_transfer.attr,
	&dev_attr_dma_alignment.attr,
	&dev_attr_type.attr,
	&dev_attr_state.attr,
	&dev_attr_frozen.attr,
	&dev_attr_qid.attr,
	&dev_attr_depth.attr,
	&dev_attr_irq.attr,
	&dev_attr_limit.attr,
	&dev_attr_file_limit.attr,
	&dev_attr_in_flight.attr,
	&dev_attr_waiting.attr,
	&dev_attr_memory.attr,
	&dev_attr_claimed.attr,
	&dev_attr_claim.attr,
	&dev_attr_submitted.attr,
	&dev_attr_completed.attr,
	&dev_attr_read_bytes.attr,
	&dev_attr_write_bytes.attr,
	&dev_attr_doorbells.attr,
	&dev_attr_reaps.attr,
	&dev_attr_spurious.attr,
	&dev_attr_timeouts.attr,
	&dev_attr_cancelled.attr,
	NULL,
};

static const struct attribute_group nvme_uq_attr_group = {
	.name	= "user_queue",
	.attrs	= nvme_uq_attrs,
};

const struct attribute_group *nvme_uq_attr_groups[] = {
	&nvme_uq_attr_group,
	NULL,
};
