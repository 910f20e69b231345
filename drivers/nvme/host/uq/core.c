// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: quiescing and freezing.
 *
 * The files without pci- in their names are part of nvme-core. They handle
 * namespaces and open files. struct nvme_uq_ops passes commands to the device.
 */
#include <kunit/visibility.h>

#include "../uq.h"
#include "wait.h"

/*
 * Protects nvme_subsystem.uq_formats and .uq_gen, NVME_NS_UQ_STALE and
 * _CHANGING.
 */
static DEFINE_MUTEX(nvme_uq_format_lock);

/**
 * nvme_uq_block - block the submission of commands
 * @uq:		the queue
 * @why:	NVME_UQ_DOWN and so on
 *
 * On return, no task is about to write to the submission queue.
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

/* Call @fn for each queue. The caller holds nvme_uq_ctrl.lock. */
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
 * The controller may already be going down again. nvme_uq_quiesce() takes the
 * same lock. If it comes later, it undoes this function; if it came first,
 * NVME_UQ_DISABLED is set. A check of the controller's state is not enough:
 * nvme_error_detected() disables a controller that is connecting, but leaves
 * the state. The reset then makes the controller live.
 */
static void nvme_uq_unquiesce_one(struct nvme_uq *uq)
{
	unsigned int blocked;

	spin_lock(&uq->sq_lock);
	blocked = uq->blocked;
	if (nvme_ctrl_state(uq->ctrl) == NVME_CTRL_LIVE) {
		if (!uq->cq_live)
			blocked |= NVME_UQ_UNAVAILABLE;
		else if (!(blocked & NVME_UQ_DISABLED))
			blocked &= ~NVME_UQ_DOWN;
	}
	WRITE_ONCE(uq->blocked, blocked);
	spin_unlock(&uq->sq_lock);
	nvme_uq_wake_all(uq);
}

/**
 * nvme_uq_unquiesce - allow submission to the queues that a reset has created
 * @ctrl:	the controller, which has just become live
 *
 * Queues that were not created become unavailable: commands that wait for such
 * a queue fail, and the next scan removes its nodes.
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
EXPORT_SYMBOL_IF_KUNIT(nvme_uq_unquiesce);

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
 * Freezes do not nest, because NVME_CTRL_FROZEN does not: a reset during a
 * freeze ends the freeze. nvme_uq_passthru_start() blocks queues across resets.
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
	 * The users of a polled queue may have stopped polling, so poll for
	 * them.
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
 * @ctrl:	the controller, after nvme_uq_start_freeze()
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

/*
 * Effects of commands that may change the format of namespaces or must run
 * alone.
 */
#define NVME_UQ_EFFECTS	(NVME_CMD_EFFECTS_CSE_MASK | NVME_CMD_EFFECTS_NCC)

/*
 * Call @fn, which takes the lock of a queue, for each queue without a reason.
 */
static void nvme_uq_pass_locks(struct nvme_ctrl *ctrl,
			       void (*fn)(struct nvme_uq *uq, unsigned int why))
{
	struct nvme_uq_ctrl *uqc = ctrl->uq;

	if (!uqc)
		return;
	mutex_lock(&uqc->lock);
	nvme_uq_for_each(ctrl, 0, fn);
	mutex_unlock(&uqc->lock);
}

/* Call @fn for the namespace on each of its controllers. */
static void nvme_uq_on_each_path(struct nvme_ns *ns,
				 void (*fn)(struct nvme_ns *path))
{
	struct nvme_ns_head *head = ns->head;
	struct nvme_ns *path;
	int idx;

	idx = srcu_read_lock(&head->srcu);
	list_for_each_entry_srcu(path, &head->list, siblings,
				 srcu_read_lock_held(&head->srcu))
		fn(path);
	srcu_read_unlock(&head->srcu, idx);
}

static void nvme_uq_stop_path(struct nvme_ns *path)
{
	set_bit(NVME_NS_UQ_STALE, &path->flags);
	/* on return, tasks that saw the bit clear have submitted */
	nvme_uq_pass_locks(path->ctrl, nvme_uq_block);
}

static void nvme_uq_start_path(struct nvme_ns *path)
{
	if (!test_bit(NVME_NS_UQ_STALE, &path->flags))
		return;
	/* a task that sees the bit clear takes sq_lock after this */
	nvme_uq_pass_locks(path->ctrl, nvme_uq_block);
	clear_bit(NVME_NS_UQ_STALE, &path->flags);
	/* wake commands that were deferred meanwhile */
	nvme_uq_pass_locks(path->ctrl, nvme_uq_unblock);
}

/* Is the scan of any controller changing the head? */
static bool nvme_uq_is_changing(struct nvme_ns_head *head)
{
	struct nvme_ns *path;
	bool changing = false;
	int idx;

	idx = srcu_read_lock(&head->srcu);
	list_for_each_entry_srcu(path, &head->list, siblings,
				 srcu_read_lock_held(&head->srcu))
		changing |= test_bit(NVME_NS_UQ_CHANGING, &path->flags);
	srcu_read_unlock(&head->srcu, idx);
	return changing;
}

/**
 * nvme_uq_format_ask - announce an Identify for the format of a namespace
 * @ns:		the namespace
 *
 * Each scan calls this function before the Identify that returns the format.
 * nvme_uq_format_read() then detects a command that may have changed the format
 * since.
 *
 * Context: may sleep.
 */
void nvme_uq_format_ask(struct nvme_ns *ns)
{
	mutex_lock(&nvme_uq_format_lock);
	ns->uq_gen = ns->head->subsys->uq_gen;
	mutex_unlock(&nvme_uq_format_lock);
}
EXPORT_SYMBOL_IF_KUNIT(nvme_uq_format_ask);

/**
 * nvme_uq_format_changes - stop submission to a namespace
 * @ns:		the namespace, whose head is about to change
 *
 * Stops submission on all controllers that share the namespace, until
 * nvme_uq_format_read(). The check of a transfer uses several members of the
 * head. The scan does not update them atomically. Even a scan that finds no
 * change rewrites them.
 *
 * Context: may sleep.
 */
void nvme_uq_format_changes(struct nvme_ns *ns)
{
	mutex_lock(&nvme_uq_format_lock);
	set_bit(NVME_NS_UQ_CHANGING, &ns->flags);
	nvme_uq_on_each_path(ns, nvme_uq_stop_path);
	mutex_unlock(&nvme_uq_format_lock);
}
EXPORT_SYMBOL_IF_KUNIT(nvme_uq_format_changes);

/**
 * nvme_uq_format_read - allow submission to a namespace if its format is known
 * @ns:		the namespace; all members of its head that depend on the format
 *		are set
 *
 * The format is unknown if a command that may have changed it ended after the
 * Identify. Then the controller scans again. Until that scan, no other
 * controller starts the namespace: it may have read the new format and then
 * lost the race against this controller.
 *
 * The format is also unknown while such a command runs. All controllers scan
 * after the command. Finally, it is unknown while another controller's scan
 * changes the head. That scan then calls this function.
 *
 * Context: may sleep.
 */
void nvme_uq_format_read(struct nvme_ns *ns)
{
	struct nvme_subsystem *subsys = ns->head->subsys;

	mutex_lock(&nvme_uq_format_lock);
	if (ns->uq_gen != subsys->uq_gen) {
		/* the head may be stale: only the next scan can tell */
		nvme_queue_scan(ns->ctrl);
	} else {
		clear_bit(NVME_NS_UQ_CHANGING, &ns->flags);
		if (!subsys->uq_formats && !nvme_uq_is_changing(ns->head))
			nvme_uq_on_each_path(ns, nvme_uq_start_path);
	}
	mutex_unlock(&nvme_uq_format_lock);
}
EXPORT_SYMBOL_IF_KUNIT(nvme_uq_format_read);

static void nvme_uq_scan_path(struct nvme_ns *path)
{
	nvme_queue_scan(path->ctrl);
}

/**
 * nvme_uq_format_lost - let other controllers read a namespace's format
 * @ns:		the namespace, which is no longer a path of its head
 *
 * The controller of @ns can no longer read the format that stopped the
 * namespace.
 *
 * Context: may sleep.
 */
void nvme_uq_format_lost(struct nvme_ns *ns)
{
	if (test_bit(NVME_NS_UQ_STALE, &ns->flags))
		nvme_uq_on_each_path(ns, nvme_uq_scan_path);
}

static void nvme_uq_format_start(struct nvme_ctrl *ctrl)
{
	struct nvme_ns *ns;
	int idx;

	mutex_lock(&nvme_uq_format_lock);
	ctrl->subsys->uq_formats++;
	ctrl->subsys->uq_gen++;
	idx = srcu_read_lock(&ctrl->srcu);
	list_for_each_entry_srcu(ns, &ctrl->namespaces, list,
				 srcu_read_lock_held(&ctrl->srcu))
		nvme_uq_on_each_path(ns, nvme_uq_stop_path);
	srcu_read_unlock(&ctrl->srcu, idx);
	mutex_unlock(&nvme_uq_format_lock);
}

/**
 * nvme_uq_format_end - let all controllers scan after a passthru command
 * @ctrl:	the controller
 * @effects:	as for nvme_uq_passthru_start()
 *
 * Context: may sleep.
 */
void nvme_uq_format_end(struct nvme_ctrl *ctrl, u32 effects)
{
	struct nvme_subsystem *subsys = ctrl->subsys;
	bool last;

	if (!(effects & NVME_CMD_EFFECTS_NCC))
		return;
	mutex_lock(&nvme_uq_format_lock);
	last = !--subsys->uq_formats;
	subsys->uq_gen++;
	mutex_unlock(&nvme_uq_format_lock);
	if (!last)
		return;
	/* scans during the command have started no namespace */
	mutex_lock(&nvme_subsystems_lock);
	list_for_each_entry(ctrl, &subsys->ctrls, subsys_entry)
		nvme_queue_scan(ctrl);
	mutex_unlock(&nvme_subsystems_lock);
}
EXPORT_SYMBOL_IF_KUNIT(nvme_uq_format_end);

/**
 * nvme_uq_passthru_start - block user queues during a passthru command
 * @ctrl:	the controller
 * @effects:	known effects of the command, NVME_CMD_EFFECTS_*
 *
 * For commands that may change the format of namespaces. The check that a
 * transfer stays inside its buffer relies on the format.
 *
 * Queues are blocked until nvme_uq_passthru_end(). If the controller is reset
 * meanwhile, or cannot report the new format yet, the format is still unknown
 * then. So each namespace is stopped too, until nvme_uq_format_read() after
 * nvme_uq_format_end().
 *
 * Context: may sleep, until no command is in flight. If another controller
 * shares a namespace, this does not wait for the commands in flight there.
 */
void nvme_uq_passthru_start(struct nvme_ctrl *ctrl, u32 effects)
{
	struct nvme_uq_ctrl *uqc = ctrl->uq;

	/* another controller may have the user queues */
	if (effects & NVME_CMD_EFFECTS_NCC)
		nvme_uq_format_start(ctrl);
	if (!uqc || !(effects & NVME_UQ_EFFECTS))
		return;

	mutex_lock(&uqc->lock);
	if (!uqc->passthrus++)
		nvme_uq_for_each(ctrl, NVME_UQ_PASSTHRU, nvme_uq_block);
	mutex_unlock(&uqc->lock);
	nvme_uq_wait_freeze(ctrl, MAX_SCHEDULE_TIMEOUT);
}
EXPORT_SYMBOL_IF_KUNIT(nvme_uq_passthru_start);

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
	/* user queues may have been created after nvme_uq_passthru_start() */
	if (uqc->passthrus && !--uqc->passthrus)
		nvme_uq_for_each(ctrl, NVME_UQ_PASSTHRU, nvme_uq_unblock);
	mutex_unlock(&uqc->lock);
}
