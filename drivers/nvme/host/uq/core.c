// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues, front half: nodes, checks, and holding queues back.
 *
 * This half is part of nvme-core. It knows namespaces and files, but not how a
 * command gets to the device; struct nvme_uq_ops does.
 */
#include <linux/blk-integrity.h>
#include <linux/compat.h>
#include <linux/fs.h>
#include <linux/kstrtox.h>
#include <linux/nvme_ioctl.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <uapi/linux/nvme_uq.h>

#include "../uq.h"

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

static int nvme_uq_open(struct inode *inode, struct file *file)
{
	struct nvme_uq_node *node =
		container_of(inode->i_cdev, struct nvme_uq_node, cdev);
	struct nvme_uq_file *uf;

	/* the open file holds the node, its namespace and nvme.ko: see cdev */
	if (nvme_uq_ns_removed(node))
		return -ENXIO;
	uf = kzalloc_obj(*uf, GFP_KERNEL_ACCOUNT);
	if (!uf)
		return -ENOMEM;

	uf->node = node;
	uf->file = file;
	uf->blocked_mask = ~0;
	init_waitqueue_head(&uf->waitq);
	file->private_data = uf;
	nvme_uq_add_file(node->uq, uf);
	return 0;
}

static int nvme_uq_release(struct inode *inode, struct file *file)
{
	struct nvme_uq_file *uf = file->private_data;
	struct nvme_uq *uq = uf->node->uq;

	nvme_uq_unclaim(uf);
	spin_lock(&uq->sq_lock);
	list_del(&uf->list);
	spin_unlock(&uq->sq_lock);
	kfree(uf);
	return 0;
}

static long nvme_uq_ioctl(struct file *file, unsigned int cmd,
			  unsigned long arg)
{
	void __user *argp = (void __user *)arg;
	struct nvme_uq_file *uf = file->private_data;

	if (nvme_uq_ns_removed(uf->node))
		return -ENXIO;
	switch (cmd) {
	case NVME_UQ_IOCTL_CLAIM:
		return nvme_uq_claim(uf);
	case NVME_UQ_IOCTL_SET_LIMIT:
		return nvme_uq_ioctl_set_limit(uf, argp);
	case NVME_UQ_IOCTL_GET_LIMIT:
		return nvme_uq_ioctl_get_limit(uf, argp);
	default:
		return nvme_uq_forward_ioctl(uf->node->ns, cmd, argp,
					     file->f_mode & FMODE_WRITE);
	}
}

static int nvme_uq_import_user(struct nvme_uq_io *io, u64 addr, u32 len,
			       bool vec)
{
	int ddir = io->write ? ITER_SOURCE : ITER_DEST;
	struct iovec one, *iov = &one;
	ssize_t ret;

	if (in_compat_syscall())
		addr = (compat_uptr_t)addr;
	if (!vec)
		return import_ubuf(ddir, u64_to_user_ptr(addr), len, &io->iter);

	/* of a vector of one, nothing is left but what it describes */
	ret = import_iovec(ddir, u64_to_user_ptr(addr), len, 1,
			   &iov, &io->iter);
	io->iov = iov;
	return ret < 0 ? ret : 0;
}

static __always_inline int nvme_uq_import(struct nvme_uq_io *io, u64 addr,
					  u32 len, bool vec,
					  unsigned int issue_flags)
{
	int ddir = io->write ? WRITE : READ;

	if (!(io->ioucmd->flags & IORING_URING_CMD_FIXED))
		return nvme_uq_import_user(io, addr, len, vec);
	if (unlikely(vec))
		return io_uring_cmd_import_fixed_vec(io->ioucmd,
				u64_to_user_ptr(addr), len, ddir, &io->iter,
				issue_flags);
	return io_uring_cmd_import_fixed(addr, len, ddir, &io->iter,
					 io->ioucmd, issue_flags);
}

/* Which way does the data go? As nvme_is_write(), of what was checked. */
static bool nvme_uq_is_write(u8 opcode, u32 nsid)
{
	/* the byte that tells it for a fabrics command is the lowest of this */
	return (unlikely(opcode == nvme_fabrics_command) ? nsid : opcode) & 1;
}

static __always_inline int nvme_uq_queue_io(struct nvme_uq_file *uf,
					    struct io_uring_cmd *ioucmd,
					    unsigned int issue_flags,
					    bool unpolled)
{
	const struct nvme_uring_cmd *cmd =
		io_uring_sqe128_cmd(ioucmd->sqe, struct nvme_uring_cmd);
	bool vec = ioucmd->cmd_op == NVME_URING_CMD_IO_VEC;
	u32 len = READ_ONCE(cmd->data_len);
	u32 timeout = READ_ONCE(cmd->timeout_ms);
	struct nvme_uq_node *node = uf->node;
	struct nvme_uq *uq = node->uq;
	struct nvme_uq_io io __uninitialized;
	int ret;

	io.cmd = cmd;
	io.ioucmd = ioucmd;
	io.file = uf;
	io.node = node;
	io.iov = NULL;
	io.meta_len = 0;
	io.nsid = READ_ONCE(cmd->nsid);
	io.opcode = READ_ONCE(cmd->opcode);
	if (unlikely(READ_ONCE(cmd->flags)))
		return -EINVAL;
	ret = nvme_uq_check_cmd(node->ns, io.opcode, io.nsid,
				ioucmd->file->f_mode & FMODE_WRITE);
	if (unlikely(ret))
		return ret;

	io.timeout = unlikely(timeout) ? msecs_to_jiffies(timeout) :
		uq->ctrl->io_timeout;
	io.write = nvme_uq_is_write(io.opcode, io.nsid);
	io.nowait = issue_flags & IO_URING_F_NONBLOCK;

	if (len) {
		ret = nvme_uq_import(&io, READ_ONCE(cmd->addr), len, vec,
				     issue_flags);
		if (unlikely(ret < 0))
			return ret;
		io.meta = READ_ONCE(cmd->metadata);
		if (unlikely(io.meta))
			io.meta_len = READ_ONCE(cmd->metadata_len);
	} else {
		io.iter.count = 0;
	}

	if (unlikely(io.meta_len) && (io.meta_len > NVME_UQ_MAX_META ||
				      !blk_get_integrity(node->ns->disk)))
		ret = -EINVAL;
	else if (unpolled)
		ret = uq->ops->submit_unpolled(uq, &io);
	else
		ret = uq->ops->submit(uq, &io);
	if (unlikely(io.iov))
		kfree(io.iov);
	return ret;
}

/* Out of line, so that rings that poll do not pay for those that do not. */
static noinline int nvme_uq_queue_unpolled(struct nvme_uq_file *uf,
					   struct io_uring_cmd *ioucmd,
					   unsigned int issue_flags)
{
	return nvme_uq_queue_io(uf, ioucmd, issue_flags, true);
}

static int nvme_uq_uring_cmd(struct io_uring_cmd *ioucmd,
			     unsigned int issue_flags)
{
	struct nvme_uq_file *uf = ioucmd->file->private_data;

	if ((issue_flags & (IO_URING_F_SQE128 | IO_URING_F_CQE32)) !=
	    (IO_URING_F_SQE128 | IO_URING_F_CQE32))
		return -EOPNOTSUPP;

	if (ioucmd->cmd_op != NVME_URING_CMD_IO &&
	    ioucmd->cmd_op != NVME_URING_CMD_IO_VEC)
		return -ENOTTY;

	if (unlikely(uf->node->uq->polled &&
		     !(issue_flags & IO_URING_F_IOPOLL)))
		return nvme_uq_queue_unpolled(uf, ioucmd, issue_flags);

	return nvme_uq_queue_io(uf, ioucmd, issue_flags, false);
}

static int nvme_uq_uring_cmd_iopoll(struct io_uring_cmd *ioucmd,
				    struct io_comp_batch *iob,
				    unsigned int poll_flags)
{
	struct nvme_uq_file *uf = ioucmd->file->private_data;
	struct nvme_uq *uq = uf->node->uq;

	/*
	 * An interrupt queue belongs to its interrupt handler. To take
	 * completions from under it would make interrupts that find nothing,
	 * until the kernel turns the line off.
	 */
	if (!uq->polled)
		return 0;
	return uq->ops->iopoll(uq, iob, poll_flags);
}

static const struct file_operations nvme_uq_fops = {
	.owner		= THIS_MODULE,
	.open		= nvme_uq_open,
	.release	= nvme_uq_release,
	.mmap_prepare	= nvme_uq_mmap_prepare,
	.unlocked_ioctl	= nvme_uq_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.uring_cmd	= nvme_uq_uring_cmd,
	.uring_cmd_iopoll = nvme_uq_uring_cmd_iopoll,
};

static struct nvme_uq_node *nvme_uq_dev_node(struct device *dev)
{
	return container_of(dev, struct nvme_uq_node, dev);
}

static ssize_t type_show(struct device *dev, struct device_attribute *attr,
			 char *buf)
{
	return sysfs_emit(buf, "%s\n",
			  nvme_uq_dev_node(dev)->uq->polled ? "poll" : "irq");
}
static DEVICE_ATTR_RO(type);

static ssize_t state_show(struct device *dev, struct device_attribute *attr,
			  char *buf)
{
	unsigned int why = READ_ONCE(nvme_uq_dev_node(dev)->uq->blocked) &
		~NVME_UQ_CLAIMED;

	if (why & NVME_UQ_UNAVAILABLE)
		return sysfs_emit(buf, "absent\n");
	if (why & NVME_UQ_DOWN)
		return sysfs_emit(buf, "down\n");
	return sysfs_emit(buf, why ? "frozen\n" : "live\n");
}
static DEVICE_ATTR_RO(state);

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

	return sysfs_emit(buf, "%u\n", nvme_uq_get_limit(uq, &uq->limit));
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

	return sysfs_emit(buf, "%u\n", nvme_uq_get_limit(uq, &uq->file_limit));
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
	&dev_attr_type.attr,
	&dev_attr_state.attr,
	&dev_attr_qid.attr,
	&dev_attr_depth.attr,
	&dev_attr_irq.attr,
	&dev_attr_limit.attr,
	&dev_attr_file_limit.attr,
	&dev_attr_in_flight.attr,
	&dev_attr_waiting.attr,
	&dev_attr_claimed.attr,
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

static const struct attribute_group *nvme_uq_attr_groups[] = {
	&nvme_uq_attr_group,
	NULL,
};

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
