// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: attributes of the nodes.
 */
#include <linux/kstrtox.h>
#include <linux/sysfs.h>

#include "limit.h"

static ssize_t type_show(struct device *dev, struct device_attribute *attr,
			 char *buf)
{
	return sysfs_emit(buf, "%s\n",
			  nvme_uq_dev_node(dev)->uq->polled ? "poll" : "irq");
}
static DEVICE_ATTR_RO(type);

static ssize_t claim_show(struct device *dev, struct device_attribute *attr,
			  char *buf)
{
	return sysfs_emit(buf, "%d\n",
			  READ_ONCE(nvme_uq_dev_node(dev)->uq->claimable));
}

static ssize_t claim_store(struct device *dev, struct device_attribute *attr,
			   const char *buf, size_t len)
{
	u8 claimable;
	int ret = kstrtou8(buf, 10, &claimable);

	if (ret || claimable > 1)
		return ret ?: -EINVAL;
	nvme_uq_set_claimable(nvme_uq_dev_node(dev)->uq, claimable);
	return len;
}
static DEVICE_ATTR_RW(claim);

static ssize_t state_show(struct device *dev, struct device_attribute *attr,
			  char *buf)
{
	struct nvme_uq *uq = nvme_uq_dev_node(dev)->uq;
	unsigned int blocked = READ_ONCE(uq->blocked);

	return sysfs_emit(buf, "%s\n", nvme_state_terminal(uq->ctrl) ? "gone" :
			  blocked & NVME_UQ_UNAVAILABLE ? "unavailable" :
			  blocked & NVME_UQ_DOWN ? "down" : "live");
}
static DEVICE_ATTR_RO(state);

/* The namespace, and what programs must know of it to send commands. */

static ssize_t wwid_show(struct device *dev, struct device_attribute *attr,
			 char *buf)
{
	return nvme_emit_wwid(nvme_uq_dev_node(dev)->ns->head, buf);
}
static DEVICE_ATTR_RO(wwid);

#define NVME_UQ_NS_ATTR(_name, _fmt, _value)				\
static ssize_t _name##_show(struct device *dev,				\
			    struct device_attribute *attr, char *buf)	\
{									\
	struct nvme_ns *ns = nvme_uq_dev_node(dev)->ns;			\
									\
	return sysfs_emit(buf, _fmt "\n", _value);			\
}									\
static DEVICE_ATTR_RO(_name)

NVME_UQ_NS_ATTR(nsid, "%u", ns->head->ns_id);
NVME_UQ_NS_ATTR(logical_block_size, "%u", READ_ONCE(ns->head->lba_shift) ?
		1U << READ_ONCE(ns->head->lba_shift) : 0);
NVME_UQ_NS_ATTR(max_transfer, "%llu",
		(u64)READ_ONCE(ns->ctrl->max_hw_sectors) << SECTOR_SHIFT);

/* In bytes, of buffers and lengths: SGLs and PRPs need dwords. */
static ssize_t dma_alignment_show(struct device *dev,
				  struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "4\n");
}
static DEVICE_ATTR_RO(dma_alignment);

#define NVME_UQ_ATTR(_name, _fmt, _value)				\
static ssize_t _name##_show(struct device *dev,				\
			    struct device_attribute *attr, char *buf)	\
{									\
	struct nvme_uq *uq = nvme_uq_dev_node(dev)->uq;			\
									\
	return sysfs_emit(buf, _fmt "\n", _value);			\
}									\
static DEVICE_ATTR_RO(_name)

NVME_UQ_ATTR(qid, "%u", READ_ONCE(uq->qid));
NVME_UQ_ATTR(depth, "%u", READ_ONCE(uq->tags.nr));
NVME_UQ_ATTR(irq, "%d", READ_ONCE(uq->irq));
NVME_UQ_ATTR(in_flight, "%u", nvme_uq_tags_used(&uq->tags));
NVME_UQ_ATTR(waiting, "%u", READ_ONCE(uq->waiting));
NVME_UQ_ATTR(frozen, "%d", !!(READ_ONCE(uq->blocked) &
			      (NVME_UQ_FROZEN | NVME_UQ_HELD)));
NVME_UQ_ATTR(claimed, "%d", !!READ_ONCE(uq->owner));
NVME_UQ_ATTR(submitted, "%llu", READ_ONCE(uq->submitted));
NVME_UQ_ATTR(completed, "%llu", READ_ONCE(uq->completed));
NVME_UQ_ATTR(doorbells, "%llu", READ_ONCE(uq->doorbells));
NVME_UQ_ATTR(reaps, "%llu", READ_ONCE(uq->reaps));
NVME_UQ_ATTR(spurious, "%llu", READ_ONCE(uq->spurious));
NVME_UQ_ATTR(timeouts, "%llu", READ_ONCE(uq->timeouts));
NVME_UQ_ATTR(cancelled, "%llu", READ_ONCE(uq->cancelled));

static ssize_t nvme_uq_store_limit(struct nvme_uq *uq, unsigned int *which,
				   const char *buf, size_t len)
{
	unsigned int limit;
	int ret = kstrtouint(buf, 10, &limit);

	if (!ret)
		ret = nvme_uq_set_limit(uq, which, limit);
	return ret ?: len;
}

static ssize_t limit_show(struct device *dev, struct device_attribute *attr,
			  char *buf)
{
	struct nvme_uq *uq = nvme_uq_dev_node(dev)->uq;

	return sysfs_emit(buf, "%u\n",
			  nvme_uq_get_limit(uq, READ_ONCE(uq->limit)));
}

static ssize_t limit_store(struct device *dev, struct device_attribute *attr,
			   const char *buf, size_t len)
{
	struct nvme_uq *uq = nvme_uq_dev_node(dev)->uq;

	return nvme_uq_store_limit(uq, &uq->limit, buf, len);
}
static DEVICE_ATTR_RW(limit);

static ssize_t file_limit_show(struct device *dev,
			       struct device_attribute *attr, char *buf)
{
	struct nvme_uq *uq = nvme_uq_dev_node(dev)->uq;

	return sysfs_emit(buf, "%u\n",
			  nvme_uq_get_limit(uq, READ_ONCE(uq->file_limit)));
}

static ssize_t file_limit_store(struct device *dev,
				struct device_attribute *attr, const char *buf,
				size_t len)
{
	struct nvme_uq *uq = nvme_uq_dev_node(dev)->uq;

	return nvme_uq_store_limit(uq, &uq->file_limit, buf, len);
}
static DEVICE_ATTR_RW(file_limit);

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
	&dev_attr_claimed.attr,
	&dev_attr_claim.attr,
	&dev_attr_submitted.attr,
	&dev_attr_completed.attr,
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
