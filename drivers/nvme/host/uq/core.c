// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: nodes, quiescing and freezing.
 *
 * Part of nvme-core, as ioctl.c, sysfs.c, claim.c and limit.c. These files deal
 * with namespaces and open files; how a command gets to the device is left to
 * struct nvme_uq_ops.
 */
#include <linux/fs.h>
#include <linux/slab.h>

#include "../uq.h"
#include "limit.h"

/* Nodes are added and removed by scan work and when a namespace is removed. */
static DEFINE_MUTEX(nvme_uq_nodes_lock);

/**
 * nvme_uq_block - block the submission of commands
 * @uq:		the queue
 * @why:	NVME_UQ_DOWN and so on
 *
 * When this returns, no task is about to write to the submission queue.
 */
void nvme_uq_block(struct nvme_uq *uq, unsigned int why)
{
	spin_lock(&uq->sq_lock);
	WRITE_ONCE(uq->blocked, uq->blocked | why);
	spin_unlock(&uq->sq_lock);
}
EXPORT_SYMBOL_GPL(nvme_uq_block);

/**
 * nvme_uq_unblock - undo nvme_uq_block()
 * @uq:		the queue
 * @why:	NVME_UQ_DOWN and so on
 */
void nvme_uq_unblock(struct nvme_uq *uq, unsigned int why)
{
	spin_lock(&uq->sq_lock);
	WRITE_ONCE(uq->blocked, uq->blocked & ~why);
	spin_unlock(&uq->sq_lock);
	nvme_uq_wake_all(uq);
}
EXPORT_SYMBOL_GPL(nvme_uq_unblock);

/* Call @fn for each queue. With nvme_uq_ctrl.lock held. */
static void nvme_uq_for_each(struct nvme_ctrl *ctrl, unsigned int why,
			     void (*fn)(struct nvme_uq *uq, unsigned int why))
{
	struct nvme_uq_ctrl *uqc = ctrl->uq;
	unsigned int i;

	lockdep_assert_held(&uqc->lock);
	for (i = 0; i < uqc->nr; i++)
		fn(uqc->q[i], why);
}

/*
 * The controller may already be going down again. nvme_uq_quiesce() follows the
 * change of the controller's state and takes the same lock: if it comes later,
 * it undoes this; if it came first, the state is seen here.
 */
static void nvme_uq_unquiesce_one(struct nvme_uq *uq)
{
	unsigned int blocked;

	spin_lock(&uq->sq_lock);
	blocked = uq->blocked;
	if (nvme_ctrl_state(uq->ctrl) == NVME_CTRL_LIVE) {
		if (uq->cq_live)
			blocked &= ~NVME_UQ_DOWN;
		else
			blocked |= NVME_UQ_UNAVAILABLE;
	}
	WRITE_ONCE(uq->blocked, blocked);
	spin_unlock(&uq->sq_lock);
	nvme_uq_wake_all(uq);
}

/**
 * nvme_uq_unquiesce - allow submission to the queues that a reset has created
 * @ctrl:	the controller, which has just become live
 *
 * Queues that were not created become unavailable: commands that wait for one
 * fail, and the scan that follows removes its nodes.
 */
void nvme_uq_unquiesce(struct nvme_ctrl *ctrl)
{
	struct nvme_uq_ctrl *uqc = ctrl->uq;
	unsigned int i;

	if (!uqc)
		return;

	mutex_lock(&uqc->lock);
	for (i = 0; i < uqc->nr; i++)
		nvme_uq_unquiesce_one(uqc->q[i]);
	mutex_unlock(&uqc->lock);
}

/**
 * nvme_uq_start_freeze - nvme_start_freeze() for user queues
 * @ctrl:	the controller
 */
void nvme_uq_start_freeze(struct nvme_ctrl *ctrl)
{
	struct nvme_uq_ctrl *uqc = ctrl->uq;

	if (!uqc)
		return;

	mutex_lock(&uqc->lock);
	uqc->frozen = true;
	nvme_uq_for_each(ctrl, NVME_UQ_FROZEN, nvme_uq_block);
	mutex_unlock(&uqc->lock);
}

/**
 * nvme_uq_unfreeze - nvme_unfreeze() for user queues
 * @ctrl:	the controller
 *
 * Freezes do not nest, as NVME_CTRL_FROZEN does not: a reset during a freeze
 * ends it. nvme_uq_passthru_start() blocks queues across resets.
 */
void nvme_uq_unfreeze(struct nvme_ctrl *ctrl)
{
	struct nvme_uq_ctrl *uqc = ctrl->uq;

	if (!uqc)
		return;

	mutex_lock(&uqc->lock);
	uqc->frozen = false;
	nvme_uq_for_each(ctrl, NVME_UQ_FROZEN, nvme_uq_unblock);
	mutex_unlock(&uqc->lock);
}

static long nvme_uq_wait_idle(struct nvme_uq *uq, long timeout)
{
	/*
	 * The users of a polled queue may have stopped polling, so poll on
	 * their behalf.
	 */
	while (timeout > 0 && nvme_uq_tags_used(&uq->tags)) {
		long slice = min_t(long, timeout, NVME_UQ_POLL_INTERVAL);

		if (uq->polled)
			uq->ops->reap(uq);
		timeout -= slice;
		timeout += wait_event_timeout(uq->idle_wait,
				!nvme_uq_tags_used(&uq->tags), slice);
	}
	return timeout;
}

/**
 * nvme_uq_wait_freeze - wait until no command is in flight
 * @ctrl:	the controller, on which a freeze was started
 * @timeout:	how long to wait, in jiffies; MAX_SCHEDULE_TIMEOUT for no limit
 *
 * Returns even if the device does not respond, because commands time out.
 *
 * Return: the rest of @timeout; 0 or less if commands are still in flight.
 */
long nvme_uq_wait_freeze(struct nvme_ctrl *ctrl, long timeout)
{
	struct nvme_uq_ctrl *uqc = ctrl->uq;
	unsigned int i;

	/* pairs with the release in nvme_uq_alloc() */
	for (i = 0; uqc && i < smp_load_acquire(&uqc->nr); i++) {
		bool for_ever = timeout == MAX_SCHEDULE_TIMEOUT;

		timeout = nvme_uq_wait_idle(uqc->q[i], timeout);
		if (for_ever)
			timeout = MAX_SCHEDULE_TIMEOUT;
	}
	return timeout;
}

/**
 * nvme_uq_passthru_start - block user queues during a passthru command
 * @ctrl:	the controller, which has been frozen
 *
 * For commands that may change the format of namespaces. nvme_passthru_end()
 * unfreezes the controller before it scans the namespaces. Until the scan, the
 * size of a logical block may be stale, and with it the check that a transfer
 * stays inside its buffer.
 */
void nvme_uq_passthru_start(struct nvme_ctrl *ctrl)
{
	struct nvme_uq_ctrl *uqc = ctrl->uq;

	if (!uqc)
		return;

	mutex_lock(&uqc->lock);
	if (!uqc->passthrus++)
		nvme_uq_for_each(ctrl, NVME_UQ_PASSTHRU, nvme_uq_block);
	mutex_unlock(&uqc->lock);
}

/**
 * nvme_uq_passthru_end - undo nvme_uq_passthru_start()
 * @ctrl:	the controller
 */
void nvme_uq_passthru_end(struct nvme_ctrl *ctrl)
{
	struct nvme_uq_ctrl *uqc = ctrl->uq;

	if (!uqc)
		return;

	mutex_lock(&uqc->lock);
	/* user queues may have been created during the command */
	if (uqc->passthrus && !--uqc->passthrus)
		nvme_uq_for_each(ctrl, NVME_UQ_PASSTHRU, nvme_uq_unblock);
	mutex_unlock(&uqc->lock);
}

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
	if (ret)
		goto out_free;

	nvme_get_ns(ns);	/* undone in nvme_uq_node_release() */
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
out_free:
	kfree(node);
	return ret;
}

static void nvme_uq_remove_node(struct nvme_uq_node *node)
{
	hlist_del(&node->list);
	cdev_device_del(&node->cdev, &node->dev);
	put_device(&node->dev);
}

static struct nvme_uq_node *nvme_uq_find_node(struct nvme_ns *ns,
					      struct nvme_uq *uq)
{
	struct nvme_uq_node *node;

	hlist_for_each_entry(node, &ns->uq_nodes, list)
		if (node->uq == uq)
			return node;
	return NULL;
}

static void nvme_uq_update_node(struct nvme_ns *ns, struct nvme_uq *uq)
{
	bool available = !(READ_ONCE(uq->blocked) & NVME_UQ_UNAVAILABLE);
	struct nvme_uq_node *node = nvme_uq_find_node(ns, uq);

	if (node && !available) {
		nvme_uq_remove_node(node);
	} else if (!node && available) {
		if (nvme_uq_add_node(ns, uq))
			dev_err(ns->ctrl->device,
				"Unable to create the ng%dn%dq%u device\n",
				ns->ctrl->instance, ns->head->instance, uq->id);
	}
}

/**
 * nvme_uq_update_nodes - make a namespace's nodes match the controller's queues
 * @ns:		the namespace
 *
 * Called by scan work, for a namespace that is new and for one that was found
 * again.
 */
void nvme_uq_update_nodes(struct nvme_ns *ns)
{
	struct nvme_uq_ctrl *uqc = ns->ctrl->uq;
	unsigned int i, nr;

	if (!uqc)
		return;

	mutex_lock(&nvme_uq_nodes_lock);
	/* pairs with the release in nvme_uq_alloc() */
	nr = smp_load_acquire(&uqc->nr);
	if (!test_bit(NVME_NS_REMOVING, &ns->flags))
		for (i = 0; i < nr; i++)
			nvme_uq_update_node(ns, uqc->q[i]);
	mutex_unlock(&nvme_uq_nodes_lock);
}

/*
 * When this returns, no command of the namespace is about to be written to the
 * queue. Commands with a deferred doorbell are passed to the device here,
 * before any command that could assign the namespace id to another namespace.
 */
static void nvme_uq_close_ns(struct nvme_uq *uq, const struct nvme_ns *ns)
{
	spin_lock(&uq->sq_lock);
	uq->ops->ring(uq);
	spin_unlock(&uq->sq_lock);
	nvme_uq_info_gone(uq, ns);
	nvme_uq_wake_all(uq);
}

/**
 * nvme_uq_remove_nodes - remove the nodes of a namespace
 * @ns:		the namespace, which is marked NVME_NS_REMOVING
 *
 * Open files can submit no more commands, whether their node is still in /dev
 * or was removed earlier, so this goes through all queues of the controller.
 * Commands in flight hold a reference of the namespace until they complete.
 */
void nvme_uq_remove_nodes(struct nvme_ns *ns)
{
	struct nvme_uq_ctrl *uqc = ns->ctrl->uq;
	struct nvme_uq_node *node;
	struct hlist_node *next;
	unsigned int i, nr;

	if (!uqc)
		return;

	mutex_lock(&nvme_uq_nodes_lock);
	/* later queues see NVME_NS_REMOVING in nvme_uq_update_nodes() */
	nr = smp_load_acquire(&uqc->nr);
	for (i = 0; i < nr; i++)
		nvme_uq_close_ns(uqc->q[i], ns);
	hlist_for_each_entry_safe(node, next, &ns->uq_nodes, list)
		nvme_uq_remove_node(node);
	mutex_unlock(&nvme_uq_nodes_lock);
}
