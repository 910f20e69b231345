// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: nodes, one for each namespace and queue.
 */
#include <linux/fs.h>
#include <linux/slab.h>

#include "../uq.h"
#include "wait.h"

/* Scan work adds nodes, and the removal of a namespace removes them. */
static DEFINE_MUTEX(nvme_uq_nodes_lock);

static void nvme_uq_node_release(struct device *dev)
{
	struct nvme_uq_node *node = nvme_uq_dev_node(dev);

	nvme_uq_free_devt(dev);
	nvme_put_ns(node->ns);
	kfree(node);
}

static int nvme_uq_add_node(struct nvme_ns *ns, struct nvme_uq *uq)
{
	struct nvme_uq_node *node;
	int ret;

	node = kzalloc_obj(*node);
	if (!node)
		return -ENOMEM;

	ret = nvme_uq_init_devt(&node->dev);
	if (ret) {
		kfree(node);
		return ret;
	}

	nvme_get_ns(ns);	/* put in nvme_uq_node_release() */
	node->ns = ns;
	node->uq = uq;
	device_initialize(&node->dev);
	node->dev.parent = ns->ctrl->device;
	node->dev.release = nvme_uq_node_release;
	node->dev.groups = nvme_uq_attr_groups;
	ret = dev_set_name(&node->dev, "ng%dn%dq%u", ns->ctrl->instance,
			   ns->head->instance, uq->id);
	if (ret)
		goto out_put;

	cdev_init(&node->cdev, &nvme_uq_fops);
	node->cdev.owner = ns->ctrl->ops->module;
	ret = cdev_device_add(&node->cdev, &node->dev);
	if (ret)
		goto out_put;
	hlist_add_head(&node->list, &ns->uq_nodes);
	return 0;

out_put:
	put_device(&node->dev);
	return ret;
}

/**
 * nvme_uq_update_nodes - add a node for each queue that has none
 * @ns:		the namespace
 *
 * Called by scan work, for new namespaces and for those found again. A node
 * stays until the namespace is removed, also while its queue is unavailable:
 * its device number must not become that of another namespace's node, because
 * device cgroups and nodes that were made by mknod(2) go by the number.
 */
void nvme_uq_update_nodes(struct nvme_ns *ns)
{
	struct nvme_uq_ctrl *uqc = ns->ctrl->uq;
	struct nvme_uq_node *last;
	unsigned int i;

	guard(mutex)(&nvme_uq_nodes_lock);
	if (test_bit(NVME_NS_REMOVING, &ns->flags))
		return;
	/* the last node is the first in the list, and ids count from 1 */
	last = hlist_entry_safe(ns->uq_nodes.first, struct nvme_uq_node, list);
	for (i = last ? last->uq->id : 0; i < nvme_uq_count(uqc); i++)
		if (nvme_uq_add_node(ns, uqc->q[i])) {
			dev_err(ns->ctrl->device,
				"Unable to create the ng%dn%dq%u device\n",
				ns->ctrl->instance, ns->head->instance, i + 1);
			return;
		}
}

/*
 * On return, no command of the namespace is about to be written to the queue.
 * Commands with a deferred doorbell are passed to the device here, before a
 * command could assign the namespace id to another namespace.
 */
static void nvme_uq_close_ns(struct nvme_uq *uq, const struct nvme_ns *ns)
{
	scoped_guard(spinlock, &uq->sq_lock)
		uq->ops->ring(uq);
	nvme_uq_info_gone(uq, ns);
	nvme_uq_wake_all(uq);
}

/**
 * nvme_uq_remove_nodes - remove the nodes of a namespace
 * @ns:		the namespace, which is marked NVME_NS_REMOVING
 *
 * Open files can submit no more commands. Commands in flight hold a reference
 * to the namespace until they complete.
 */
void nvme_uq_remove_nodes(struct nvme_ns *ns)
{
	struct nvme_uq_node *node;
	struct hlist_node *next;

	guard(mutex)(&nvme_uq_nodes_lock);
	/* queues added later see NVME_NS_REMOVING in nvme_uq_update_nodes() */
	hlist_for_each_entry_safe(node, next, &ns->uq_nodes, list) {
		nvme_uq_close_ns(node->uq, ns);
		hlist_del(&node->list);
		cdev_device_del(&node->cdev, &node->dev);
		put_device(&node->dev);
	}
}
