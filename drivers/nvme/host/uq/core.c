// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: quiescing and freezing.
 *
 * Part of nvme-core, as the other files without pci- in their names. These deal
 * with namespaces and open files; how a command gets to the device is left to
 * struct nvme_uq_ops.
 */
#include <kunit/visibility.h>

#include "../uq.h"
#include "wait.h"

/* nvme_subsystem.uq_formats and .uq_gen, NVME_NS_UQ_STALE and _CHANGING. */
static DEFINE_MUTEX(nvme_uq_format_lock);

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
 * The controller may already be going down again. nvme_uq_quiesce() takes the same
 * lock: if it comes later, it undoes this; if it came first, NVME_UQ_DISABLED is
 * seen here. The controller's state would not do: nvme_error_detected() disables
 * one that is connecting and leaves the state, which the reset makes live then.
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

/* Call @fn, which blocks or unblocks a queue, with no reason, for each queue. */
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

/* Call @fn for the namespace on each controller that has it. */
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
	/* a task that found the bit clear has submitted when this returns */
	nvme_uq_pass_locks(path->ctrl, nvme_uq_block);
}

static void nvme_uq_start_path(struct nvme_ns *path)
{
	if (!test_bit(NVME_NS_UQ_STALE, &path->flags))
		return;
	/* a task that finds the bit clear takes sq_lock after this */
	nvme_uq_pass_locks(path->ctrl, nvme_uq_block);
	clear_bit(NVME_NS_UQ_STALE, &path->flags);
	/* commands that were put off meanwhile */
	nvme_uq_pass_locks(path->ctrl, nvme_uq_unblock);
}

/* Is the head being changed by the scan of some controller? */
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
 * nvme_uq_format_ask - note that the format of a namespace is asked for
 * @ns:		the namespace
 *
 * nvme_uq_format_read() tells by it whether a command has come between that may
 * have changed the format. Each scan does this before the Identify from which it
 * takes the format.
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
 * For all controllers that have the namespace, until nvme_uq_format_read(). What
 * a transfer is checked by is several members of the head, which are not changed
 * at once, and are changed to what they were by a scan that finds nothing new.
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
 * @ns:		the namespace, of whose head all that depends on the format was set
 *
 * It is not known if the head was set from what an Identify returned before a
 * command ended that may have changed the format: the controller scans again, and
 * until then no other starts the namespace, which may have read it and lost to this
 * one. Nor is it known while such a command runs, after which all controllers scan,
 * or while the scan of another controller changes the head, which then calls this.
 *
 * Context: may sleep.
 */
void nvme_uq_format_read(struct nvme_ns *ns)
{
	struct nvme_subsystem *subsys = ns->head->subsys;

	mutex_lock(&nvme_uq_format_lock);
	if (ns->uq_gen != subsys->uq_gen) {
		/* the head may hold what was: no scan but the next one may tell */
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
 * nvme_uq_format_lost - let others read a format that a controller cannot
 * @ns:		the namespace, which is no path of its head any more
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
	/* scans meanwhile have started no namespace */
	mutex_lock(&nvme_subsystems_lock);
	list_for_each_entry(ctrl, &subsys->ctrls, subsys_entry)
		nvme_queue_scan(ctrl);
	mutex_unlock(&nvme_subsystems_lock);
}
EXPORT_SYMBOL_IF_KUNIT(nvme_uq_format_end);

/**
 * nvme_uq_passthru_start - block user queues during a passthru command
 * @ctrl:	the controller
 * @effects:	what the command is known to do, NVME_CMD_EFFECTS_*
 *
 * For commands that may change the format of namespaces, on which the check
 * relies that a transfer stays inside its buffer. Queues are blocked until
 * nvme_uq_passthru_end(). That is before the new format is known if the
 * controller is reset meanwhile, or cannot tell it yet. So each namespace is
 * stopped too, until nvme_uq_format_read() after nvme_uq_format_end().
 *
 * Context: may sleep, until no command is in flight. Of another controller that
 * shares a namespace, commands that are in flight already are not waited for.
 */
void nvme_uq_passthru_start(struct nvme_ctrl *ctrl, u32 effects)
{
	struct nvme_uq_ctrl *uqc = ctrl->uq;

	/* user queues may be those of another controller */
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
	/* user queues may have been created during the command */
	if (uqc->passthrus && !--uqc->passthrus)
		nvme_uq_for_each(ctrl, NVME_UQ_PASSTHRU, nvme_uq_unblock);
	mutex_unlock(&uqc->lock);
}
