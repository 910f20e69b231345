// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues, front half: nodes, checks, and holding queues back.
 *
 * This half is part of nvme-core. It knows namespaces and files, but not how a
 * command gets to the device; struct nvme_uq_ops does.
 */
#include <linux/fs.h>
#include <linux/slab.h>

#include "../uq.h"
#include "limit.h"

/* Nodes come and go in scan work and when a namespace is removed. */
static DEFINE_MUTEX(nvme_uq_nodes_lock);

/**
 * nvme_uq_block - take no new commands
 * @uq:		the queue
 * @why:	NVME_UQ_DOWN and so on
 *
 * When this returns, nobody is about to write to the submission queue.
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

/* Call @fn for each queue, with the lock held that keeps them from changing. */
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
 * The controller may be on its way down again. nvme_uq_quiesce() comes after the
 * change of state that says so, and takes the same lock: if that is still to
 * come, it undoes this; if it was here, there is nothing to do any more.
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
 * nvme_uq_unquiesce - let commands through to the queues that this reset created
 * @ctrl:	the controller, which has just become live
 *
 * Those that it did not create are absent from now on: who waits for one is
 * turned away, and the scan that follows takes away their nodes.
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
 * Freezes do not nest, as NVME_CTRL_FROZEN does not: a reset in the middle of
 * one ends it. What must survive a reset uses nvme_uq_passthru_start().
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
	 * The tenant of a polled queue may have stopped polling, so look for
	 * completions in its stead.
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
 * @timeout:	how long to wait, in jiffies; MAX_SCHEDULE_TIMEOUT for ever
 *
 * Ends even if the device is silent: commands time out here as elsewhere.
 *
 * Return: what is left of @timeout; 0 or less if there still are some.
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
 * nvme_uq_passthru_start - keep user queues still over a command that changes formats
 * @ctrl:	the controller, which has been frozen
 *
 * nvme_passthru_end() unfreezes before it looks at what has changed. Until then
 * the size of a logical block may be stale, and with it the check that a
 * transfer stays inside its buffer.
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
	/* user queues may have come up in the middle of the command */
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
	bool absent = READ_ONCE(uq->blocked) & NVME_UQ_UNAVAILABLE;
	struct nvme_uq_node *node = nvme_uq_find_node(ns, uq);

	if (node && absent) {
		nvme_uq_remove_node(node);
	} else if (!node && !absent) {
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
 * queue. One whose doorbell was left to the end of a batch is the device's from
 * here on: it comes before any that could give the id to another namespace.
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
 * nvme_uq_remove_nodes - take away the nodes of a namespace
 * @ns:		the namespace, which is marked NVME_NS_REMOVING
 *
 * What stays open can start no more commands, whether its node is still in /dev
 * or left it before: so this asks all queues, and not those of the nodes only.
 * Commands in flight hold the namespace, and end by themselves.
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
	/* those of queues that come later find the mark: nvme_uq_update_nodes() */
	nr = smp_load_acquire(&uqc->nr);
	for (i = 0; i < nr; i++)
		nvme_uq_close_ns(uqc->q[i], ns);
	hlist_for_each_entry_safe(node, next, &ns->uq_nodes, list)
		nvme_uq_remove_node(node);
	mutex_unlock(&nvme_uq_nodes_lock);
}
