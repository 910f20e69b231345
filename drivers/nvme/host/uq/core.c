// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: quiescing and freezing.
 *
 * Part of nvme-core, as the other files without pci- in their names. These deal
 * with namespaces and open files; how a command gets to the device is left to
 * struct nvme_uq_ops.
 */
#include "../uq.h"
#include "wait.h"

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

	for (i = 0; i < nvme_uq_count(uqc); i++) {
		bool for_ever = timeout == MAX_SCHEDULE_TIMEOUT;

		timeout = nvme_uq_wait_idle(uqc->q[i], timeout);
		if (for_ever)
			timeout = MAX_SCHEDULE_TIMEOUT;
	}
	return timeout;
}

/* Commands that may change the format of namespaces, or want to run alone. */
#define NVME_UQ_EFFECTS	(NVME_CMD_EFFECTS_CSE_MASK | NVME_CMD_EFFECTS_NCC)

/* No task submits by what it has found out before this. */
static void nvme_uq_pass_locks(struct nvme_ctrl *ctrl)
{
	struct nvme_uq_ctrl *uqc = ctrl->uq;

	if (!uqc)
		return;
	mutex_lock(&uqc->lock);
	nvme_uq_for_each(ctrl, 0, nvme_uq_block);
	mutex_unlock(&uqc->lock);
}

/**
 * nvme_uq_format_changes - stop submission to a namespace
 * @ns:		the namespace, whose head is about to change
 *
 * For all controllers that have the namespace, until nvme_uq_format_read().
 * What a transfer is checked by is several members of the head, which are not
 * changed at once, and are changed to what they were by a scan that finds nothing
 * new.
 *
 * Context: may sleep.
 */
void nvme_uq_format_changes(struct nvme_ns *ns)
{
	struct nvme_ns_head *head = ns->head;
	struct nvme_ns *path;
	int idx;

	idx = srcu_read_lock(&head->srcu);
	list_for_each_entry_srcu(path, &head->list, siblings,
				 srcu_read_lock_held(&head->srcu)) {
		set_bit(NVME_NS_UQ_STALE, &path->flags);
		nvme_uq_pass_locks(path->ctrl);
	}
	srcu_read_unlock(&head->srcu, idx);
}

static void nvme_uq_stop_namespaces(struct nvme_ctrl *ctrl)
{
	struct nvme_ns *ns;
	int idx;

	idx = srcu_read_lock(&ctrl->srcu);
	list_for_each_entry_srcu(ns, &ctrl->namespaces, list,
				 srcu_read_lock_held(&ctrl->srcu))
		nvme_uq_format_changes(ns);
	srcu_read_unlock(&ctrl->srcu, idx);
}

/**
 * nvme_uq_passthru_start - block user queues during a passthru command
 * @ctrl:	the controller
 * @effects:	what the command is known to do, NVME_CMD_EFFECTS_*
 *
 * For commands that may change the format of namespaces, on which the check
 * relies that a transfer stays inside its buffer. Queues are blocked until
 * nvme_uq_passthru_end(). That is before the new format is known if the
 * controller is reset meanwhile, or cannot tell it yet. So each namespace is
 * stopped too, until nvme_uq_format_read().
 *
 * Context: may sleep, until no command is in flight. Of another controller that
 * shares a namespace, commands that are in flight already are not waited for.
 */
void nvme_uq_passthru_start(struct nvme_ctrl *ctrl, u32 effects)
{
	struct nvme_uq_ctrl *uqc = ctrl->uq;

	/* user queues may be those of another controller */
	if (effects & NVME_CMD_EFFECTS_NCC)
		nvme_uq_stop_namespaces(ctrl);
	if (!uqc || !(effects & NVME_UQ_EFFECTS))
		return;

	mutex_lock(&uqc->lock);
	if (!uqc->passthrus++)
		nvme_uq_for_each(ctrl, NVME_UQ_PASSTHRU, nvme_uq_block);
	mutex_unlock(&uqc->lock);
	nvme_uq_wait_freeze(ctrl, MAX_SCHEDULE_TIMEOUT);
}

/**
 * nvme_uq_passthru_end - undo nvme_uq_passthru_start()
 * @ctrl:	the controller
 * @effects:	as for nvme_uq_passthru_start()
 */
void nvme_uq_passthru_end(struct nvme_ctrl *ctrl, u32 effects)
{
	struct nvme_uq_ctrl *uqc = ctrl->uq;

	if (!uqc || !(effects & NVME_UQ_EFFECTS))
		return;

	mutex_lock(&uqc->lock);
	/* user queues may have been created during the command */
	if (uqc->passthrus && !--uqc->passthrus)
		nvme_uq_for_each(ctrl, NVME_UQ_PASSTHRU, nvme_uq_unblock);
	mutex_unlock(&uqc->lock);
}

static void nvme_uq_start_namespace(struct nvme_ns *ns)
{
	struct nvme_uq_ctrl *uqc = ns->ctrl->uq;

	if (!uqc) {
		clear_bit(NVME_NS_UQ_STALE, &ns->flags);
		return;
	}
	mutex_lock(&uqc->lock);
	/* a task that finds the bit clear has taken sq_lock after this */
	nvme_uq_for_each(ns->ctrl, 0, nvme_uq_block);
	clear_bit(NVME_NS_UQ_STALE, &ns->flags);
	nvme_uq_for_each(ns->ctrl, 0, nvme_uq_unblock);
	mutex_unlock(&uqc->lock);
}

/**
 * nvme_uq_format_read - allow submission to a namespace whose format is known
 * @ns:		the namespace, of whose head all that depends on the format was set
 *
 * Context: may sleep.
 */
void nvme_uq_format_read(struct nvme_ns *ns)
{
	struct nvme_ns_head *head = ns->head;
	struct nvme_ns *path;
	int idx;

	idx = srcu_read_lock(&head->srcu);
	list_for_each_entry_srcu(path, &head->list, siblings,
				 srcu_read_lock_held(&head->srcu))
		if (test_bit(NVME_NS_UQ_STALE, &path->flags))
			nvme_uq_start_namespace(path);
	srcu_read_unlock(&head->srcu, idx);
}
