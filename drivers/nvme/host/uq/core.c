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
 * Protects nvme_subsystem.uq_ctrls and .uq_holds, freezes, and the growth of
 * nvme_uq_ctrl.q. Taken with a queue of the block layer frozen, so no memory is
 * allocated under it, and no task waits for I/O.
 */
static DEFINE_MUTEX(nvme_uq_hold_lock);

/**
 * nvme_uq_block - block the submission of commands
 * @uq:		the queue
 * @why:	NVME_UQ_DOWN and so on
 *
 * On return, no task is about to write to the submission queue.
 */
void nvme_uq_block(struct nvme_uq *uq, unsigned int why)
{
	guard(spinlock)(&uq->sq_lock);
	WRITE_ONCE(uq->blocked, uq->blocked | why);
	/* who waits for commands in flight does not wait for their tasks */
	uq->ops->ring(uq);
}
EXPORT_SYMBOL_GPL(nvme_uq_block);

/**
 * nvme_uq_unblock - undo nvme_uq_block()
 * @uq:		the queue
 * @why:	NVME_UQ_DOWN and so on
 */
void nvme_uq_unblock(struct nvme_uq *uq, unsigned int why)
{
	scoped_guard(spinlock, &uq->sq_lock)
		/* pairs with the acquire in nvme_uq_try() */
		smp_store_release(&uq->blocked, uq->blocked & ~why);
	nvme_uq_wake_all(uq);
}
EXPORT_SYMBOL_GPL(nvme_uq_unblock);

/* Call @fn for each queue of a controller, which may have none. */
static void nvme_uq_for_each(struct nvme_uq_ctrl *uqc, unsigned int why,
			     void (*fn)(struct nvme_uq *uq, unsigned int why))
{
	unsigned int i;

	lockdep_assert_held(&nvme_uq_hold_lock);
	for (i = 0; i < nvme_uq_count(uqc); i++)
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
	/* pairs with the acquire in nvme_uq_try() */
	smp_store_release(&uq->blocked, blocked);
	spin_unlock(&uq->sq_lock);
	nvme_uq_wake_all(uq);
}

/**
 * nvme_uq_unquiesce - allow submission to the queues that a reset has created
 * @ctrl:	the controller, which has just become live
 *
 * Queues that were not created become unavailable: commands that wait for such
 * a queue fail, until a later reset creates it.
 */
void nvme_uq_unquiesce(struct nvme_ctrl *ctrl)
{
	unsigned int i;

	for (i = 0; i < nvme_uq_count(ctrl->uq); i++)
		nvme_uq_unquiesce_one(ctrl->uq->q[i]);
}
EXPORT_SYMBOL_IF_KUNIT(nvme_uq_unquiesce);

/**
 * nvme_uq_unfreeze - nvme_unfreeze() for user queues
 * @ctrl:	the controller, with NVME_CTRL_FROZEN cleared
 *
 * Freezes do not nest, because NVME_CTRL_FROZEN does not: a reset during a
 * freeze ends the freeze. Holds do nest, and survive resets.
 */
void nvme_uq_unfreeze(struct nvme_ctrl *ctrl)
{
	guard(mutex)(&nvme_uq_hold_lock);
	nvme_uq_for_each(ctrl->uq, NVME_UQ_FROZEN, nvme_uq_unblock);
}
EXPORT_SYMBOL_IF_KUNIT(nvme_uq_unfreeze);

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

static long nvme_uq_wait_all(struct nvme_ctrl *ctrl, long timeout)
{
	struct nvme_uq_ctrl *uqc = ctrl->uq;
	unsigned int i;

	for (i = 0; i < nvme_uq_count(uqc); i++)
		timeout = nvme_uq_wait_idle(uqc->q[i], timeout);
	return timeout;
}

/**
 * nvme_uq_wait_freeze - nvme_wait_freeze_timeout() for user queues
 * @ctrl:	the controller, whose block devices are frozen
 * @timeout:	how long to wait, in jiffies; MAX_SCHEDULE_TIMEOUT for no limit
 *
 * Freezes the queues, then waits until no command is in flight. So user queues
 * go on while the caller waits for the block layer. A reset ends the freeze: if
 * commands are in flight after it, the queues are frozen again. To keep queues
 * stopped, use nvme_uq_passthru_start().
 *
 * Returns even if the device does not respond, because commands time out.
 *
 * Return: the rest of @timeout; 0 or less if commands are still in flight.
 */
long nvme_uq_wait_freeze(struct nvme_ctrl *ctrl, long timeout)
{
	long slice, rest;

	do {
		/* a reset may have ended the freeze meanwhile */
		scoped_guard(mutex, &nvme_uq_hold_lock)
			nvme_uq_for_each(ctrl->uq, NVME_UQ_FROZEN, nvme_uq_block);
		slice = min_t(long, timeout, NVME_UQ_POLL_INTERVAL);
		rest = nvme_uq_wait_all(ctrl, slice);
		timeout -= slice - rest;
	} while (rest <= 0 && timeout > 0);
	return timeout;
}
EXPORT_SYMBOL_IF_KUNIT(nvme_uq_wait_freeze);

/**
 * nvme_uq_add_ctrl - add the user queues of a controller to its subsystem
 * @uqc:	the user queues, of which there are none yet
 */
void nvme_uq_add_ctrl(struct nvme_uq_ctrl *uqc)
{
	struct nvme_ctrl *ctrl = uqc->ctrl;

	guard(mutex)(&nvme_uq_hold_lock);
	hlist_add_head(&uqc->node, &ctrl->subsys->uq_ctrls);
	/* freeze and scan read the pointer without a lock */
	smp_store_release(&ctrl->uq, uqc);
}
EXPORT_SYMBOL_GPL(nvme_uq_add_ctrl);

/**
 * nvme_uq_del_ctrl - undo nvme_uq_add_ctrl()
 * @uqc:	the user queues of a controller without references
 */
void nvme_uq_del_ctrl(struct nvme_uq_ctrl *uqc)
{
	guard(mutex)(&nvme_uq_hold_lock);
	hlist_del(&uqc->node);
}
EXPORT_SYMBOL_GPL(nvme_uq_del_ctrl);

/**
 * nvme_uq_add_queue - add a queue to its controller
 * @uq:		the queue
 */
void nvme_uq_add_queue(struct nvme_uq *uq)
{
	struct nvme_uq_ctrl *uqc = uq->ctrl->uq;

	guard(mutex)(&nvme_uq_hold_lock);
	if (uq->ctrl->subsys->uq_holds)
		uq->blocked |= NVME_UQ_HELD;
	uqc->q[uqc->nr] = uq;
	/* pairs with the acquire of lockless readers */
	smp_store_release(&uqc->nr, uqc->nr + 1);
}
EXPORT_SYMBOL_GPL(nvme_uq_add_queue);

static void nvme_uq_for_subsys(struct nvme_subsystem *subsys,
			       void (*fn)(struct nvme_uq *uq, unsigned int why))
{
	struct nvme_uq_ctrl *uqc;

	hlist_for_each_entry(uqc, &subsys->uq_ctrls, node)
		nvme_uq_for_each(uqc, NVME_UQ_HELD, fn);
}

/**
 * nvme_uq_start_update - start to change the format in heads of namespaces
 * @subsys:	the subsystem
 *
 * Stops submission to all user queues of the subsystem, because its controllers
 * may share the namespace. The check that a transfer stays inside its buffer
 * reads several members of the head, under sq_lock. On return no task is about
 * to check a command, until nvme_uq_end_update(). Commands in flight are not
 * waited for.
 *
 * Scans of two controllers may change the same head. The lock excludes them.
 */
void nvme_uq_start_update(struct nvme_subsystem *subsys)
{
	mutex_lock(&nvme_uq_hold_lock);
	if (!subsys->uq_holds)
		nvme_uq_for_subsys(subsys, nvme_uq_block);
}
EXPORT_SYMBOL_IF_KUNIT(nvme_uq_start_update);

/**
 * nvme_uq_end_update - undo nvme_uq_start_update()
 * @subsys:	the subsystem
 */
void nvme_uq_end_update(struct nvme_subsystem *subsys)
{
	if (!subsys->uq_holds)
		nvme_uq_for_subsys(subsys, nvme_uq_unblock);
	mutex_unlock(&nvme_uq_hold_lock);
}
EXPORT_SYMBOL_IF_KUNIT(nvme_uq_end_update);

/*
 * Effects of commands that may change the format of namespaces or must run
 * alone.
 */
#define NVME_UQ_EFFECTS	(NVME_CMD_EFFECTS_CSE_MASK | NVME_CMD_EFFECTS_NCC)

/**
 * nvme_uq_passthru_start - hold user queues during a passthru command
 * @ctrl:	the controller
 * @effects:	known effects of the command, NVME_CMD_EFFECTS_*
 *
 * Comes after nvme_wait_freeze(), so that user queues go on while the caller
 * waits for requests of the block layer. A reset may have ended the freeze, but
 * does not end a hold.
 *
 * Holds nest, and are independent of freezes and resets. Queues and controllers
 * that are added meanwhile are held too.
 *
 * Context: may sleep, until no command is in flight on @ctrl. Does not wait for
 * commands of other controllers.
 */
void nvme_uq_passthru_start(struct nvme_ctrl *ctrl, u32 effects)
{
	if (!(effects & NVME_UQ_EFFECTS))
		return;
	nvme_uq_start_update(ctrl->subsys);
	ctrl->subsys->uq_holds++;
	mutex_unlock(&nvme_uq_hold_lock);
	nvme_uq_wait_all(ctrl, MAX_SCHEDULE_TIMEOUT);
}
EXPORT_SYMBOL_IF_KUNIT(nvme_uq_passthru_start);

/**
 * nvme_uq_passthru_end - undo nvme_uq_passthru_start()
 * @ctrl:	the controller, which has been scanned since the command
 * @effects:	as for nvme_uq_passthru_start()
 */
void nvme_uq_passthru_end(struct nvme_ctrl *ctrl, u32 effects)
{
	if (!(effects & NVME_UQ_EFFECTS))
		return;
	mutex_lock(&nvme_uq_hold_lock);
	ctrl->subsys->uq_holds--;
	nvme_uq_end_update(ctrl->subsys);
}
EXPORT_SYMBOL_IF_KUNIT(nvme_uq_passthru_end);
