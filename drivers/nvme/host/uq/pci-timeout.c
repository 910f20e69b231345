// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: timeouts. Poll for completions of overdue commands, abort
 * the commands, and reset the controller, like nvme_timeout().
 */
#include <kunit/visibility.h>
#include <linux/blk-mq.h>
#include <linux/pci.h>

#include "pci.h"

/*
 * The task that deferred a doorbell to the end of its batch may have been
 * preempted. Write the doorbell now, and restart the timeouts of its commands,
 * because the device did not see them before.
 */
static void nvme_uq_ring_late(struct nvme_uq *uq)
{
	struct nvme_uq_tags *s = &uq->tags;
	unsigned int n;

	lockdep_assert_held(&uq->sq_lock);
	if (uq->sq_tail == uq->last_sq_tail || (uq->blocked & NVME_UQ_DOWN))
		return;

	n = uq->sq_tail - uq->last_sq_tail;
	if (uq->sq_tail < uq->last_sq_tail)
		n += uq->depth;
	scoped_guard(spinlock_irqsave, &uq->cq_lock) {
		/* the most recently taken tags */
		for (; n; n--) {
			u32 idx = s->free[(s->head - n) & s->idx_mask];
			struct nvme_uq_iod *iod = &uq->iod[idx];

			iod->deadline = jiffies + iod->timeout + NVME_UQ_GRACE;
		}
	}
	nvme_uq_ring_sq(uq);
}

/**
 * nvme_uq_arm_timeout - queue timeout work for a command
 * @uq:		the queue, with sq_lock held
 * @deadline:	deadline of the command, in jiffies
 */
void nvme_uq_arm_timeout(struct nvme_uq *uq, unsigned long deadline)
{
	unsigned long now = jiffies;

	lockdep_assert_held(&uq->sq_lock);
	uq->tmo_armed = true;
	uq->tmo_next = deadline;
	mod_delayed_work(nvme_wq, &uq->tmo_work,
			 time_after(deadline, now) ? deadline - now : 1);
}

/* Return true if the controller has failed, or was reset without the driver. */
static bool nvme_uq_ctrl_lost(struct nvme_ctrl *ctrl)
{
	u32 csts;

	if (ctrl->ops->reg_read32(ctrl, NVME_REG_CSTS, &csts) || csts == ~0 ||
	    csts & NVME_CSTS_CFS)
		return true;
	return NVME_CAP_NSSRC(ctrl->cap) && (csts & NVME_CSTS_NSSRO);
}

/*
 * Get permission to send an abort. The block layer and all user queues share
 * the controller's limit of aborts. So each queue may have one abort in flight.
 * The last abort is left to the block layer, unless no user queue has an abort
 * in flight.
 */
static bool nvme_uq_get_abort(struct nvme_uq *uq)
{
	struct nvme_uq_ctrl *uqc = uq->ctrl->uq;
	int aborts, left;

	/* pairs with the release in nvme_uq_put_abort() */
	if (smp_load_acquire(&uq->aborting))
		return false;
	aborts = atomic_inc_return(&uqc->aborts);
	left = atomic_dec_return(&uq->ctrl->abort_limit);
	if (left > 0 || (!left && aborts == 1)) {
		WRITE_ONCE(uq->aborting, true);
		return true;
	}
	atomic_inc(&uq->ctrl->abort_limit);
	atomic_dec(&uqc->aborts);
	return false;
}

static void nvme_uq_put_abort(struct nvme_uq *uq)
{
	atomic_inc(&uq->ctrl->abort_limit);
	atomic_dec(&uq->ctrl->uq->aborts);
	/* update the counters before the next nvme_uq_get_abort() */
	smp_store_release(&uq->aborting, false);
}

static enum rq_end_io_ret nvme_uq_abort_end(struct request *req,
					    blk_status_t error,
					    const struct io_comp_batch *iob)
{
	struct nvme_uq *uq = req->end_io_data;

	dev_warn_ratelimited(uq->ctrl->device, "Abort status: 0x%x\n",
			     nvme_req(req)->status);
	nvme_uq_put_abort(uq);
	blk_mq_free_request(req);
	return RQ_END_IO_NONE;
}

static bool nvme_uq_send_abort(struct nvme_uq *uq, u16 cid, u8 opcode)
{
	struct nvme_ctrl *ctrl = uq->ctrl;
	struct nvme_command cmd = { };
	struct request *req;

	if (!nvme_uq_get_abort(uq))
		return false;

	cmd.abort.opcode = nvme_uq_admin_opcode(ctrl, nvme_admin_abort_cmd);
	cmd.abort.cid = cid;
	cmd.abort.sqid = cpu_to_le16(uq->qid);
	req = blk_mq_alloc_request(ctrl->admin_q, nvme_req_op(&cmd),
				   BLK_MQ_REQ_NOWAIT);
	if (IS_ERR(req)) {
		nvme_uq_put_abort(uq);
		return false;
	}

	dev_warn_ratelimited(ctrl->device,
			     "I/O cid %u opcode %#x user QID %u timeout, aborting\n",
			     cid, opcode, uq->qid);
	nvme_init_request(req, &cmd);
	req->end_io = nvme_uq_abort_end;
	req->end_io_data = uq;
	blk_execute_rq_nowait(req, false);
	return true;
}

/* An overdue command. */
struct nvme_uq_overdue {
	u16	cid;
	u8	opcode;
	bool	aborted;
};

static void nvme_uq_sooner(unsigned long *next, unsigned long when)
{
	if (time_before(when, *next))
		*next = when;
}

/*
 * Restart the timeout of a command, unless it has ended. A reset affects all
 * users of the controller. So after an abort, the device gets at least the
 * timeout of the block layer, even if the command's timeout is shorter.
 */
static void nvme_uq_restart(struct nvme_uq *uq, u16 cid, u8 flags,
			    unsigned long *next)
{
	unsigned int idx = cid & uq->tags.idx_mask;
	struct nvme_uq_iod *iod = &uq->iod[idx];
	unsigned int timeout;

	guard(spinlock_irqsave)(&uq->cq_lock);
	if (uq->tags.cid[idx] != (NVME_UQ_ARMED | cid))
		return;
	iod->flags |= flags;
	timeout = iod->timeout;
	if (iod->flags & NVME_UQ_ABORTED)
		timeout = max(timeout, nvme_uq_io_timeout(uq->ctrl));
	iod->deadline = jiffies + NVME_UQ_GRACE + timeout;
	nvme_uq_sooner(next, iod->deadline);
}

/*
 * Return false if no overdue command can be handled now. Update @next, the time
 * of the next check.
 */
static bool nvme_uq_overdue(struct nvme_uq *uq,
			    const struct nvme_uq_overdue *od,
			    unsigned long *next)
{
	struct nvme_ctrl *ctrl = uq->ctrl;
	struct pci_dev *pdev = to_pci_dev(ctrl->dev);
	enum nvme_ctrl_state state;

	/*
	 * Do not reset a controller that is being removed. The task that
	 * unbinds the driver may wait for a task that has frozen the
	 * controller. That task may wait for this command. Another work item
	 * disables the controller, because nvme_uq_quiesce() waits for this
	 * one.
	 */
	if (nvme_state_terminal(ctrl)) {
		queue_work(nvme_reset_wq, &ctrl->uq->disable_work);
		return false;
	}
	state = nvme_ctrl_state(ctrl);
	/* a reset cancels all commands; a firmware activation delays them */
	if (state == NVME_CTRL_RESETTING) {
		nvme_uq_restart(uq, od->cid, 0, next);
		return true;
	}
	if (state != NVME_CTRL_LIVE)
		return false;
	/* a reset must not interfere with the recovery of the bus */
	if (pci_channel_offline(pdev) && !pci_dev_is_disconnected(pdev))
		return false;

	/* resetting a device that is gone fails, and removes it */
	if (od->aborted || pci_dev_is_disconnected(pdev) ||
	    nvme_uq_ctrl_lost(ctrl)) {
		dev_warn_ratelimited(ctrl->device,
				     "I/O cid %u opcode %#x user QID %u timeout, reset controller\n",
				     od->cid, od->opcode, uq->qid);
		uq->timeouts++;
		nvme_reset_ctrl(ctrl);
		return false;
	}

	/*
	 * If no abort can be sent, the aborts in flight may be stuck. Continue
	 * with their commands, which then lead to a reset.
	 */
	if (!nvme_uq_send_abort(uq, od->cid, od->opcode)) {
		nvme_uq_sooner(next, jiffies + HZ);
		return true;
	}
	uq->timeouts++;
	nvme_uq_restart(uq, od->cid, NVME_UQ_ABORTED, next);
	return true;
}

/*
 * Find an overdue command, and the next deadline. cq_lock is held to read the
 * iods, so that no command completes meanwhile.
 */
static bool nvme_uq_find_overdue(struct nvme_uq *uq, unsigned int *pos,
				 struct nvme_uq_overdue *od,
				 unsigned long *next)
{
	guard(spinlock_irqsave)(&uq->cq_lock);
	while (uq->cq_live && *pos < uq->tags.nr) {
		unsigned int idx = (*pos)++;
		struct nvme_uq_iod *iod = &uq->iod[idx];
		/* pairs with the release in nvme_uq_tag_arm() */
		u32 cid = smp_load_acquire(&uq->tags.cid[idx]);

		if (!(cid & NVME_UQ_ARMED))
			continue;
		if (time_before(jiffies, iod->deadline)) {
			nvme_uq_sooner(next, iod->deadline);
			continue;
		}
		od->cid = cid;
		od->opcode = iod->opcode;
		/* do not wait longer for an Abort that cannot be sent */
		od->aborted = iod->flags & NVME_UQ_ABORTED ||
			jiffies - iod->deadline > nvme_uq_io_timeout(uq->ctrl);
		return true;
	}
	return false;
}

/**
 * nvme_uq_timeout_work - find and handle overdue commands
 * @work:	nvme_uq.tmo_work
 */
void nvme_uq_timeout_work(struct work_struct *work)
{
	struct nvme_uq *uq = container_of(to_delayed_work(work),
					  struct nvme_uq, tmo_work);
	unsigned long next = jiffies + nvme_uq_io_timeout(uq->ctrl);
	struct nvme_uq_overdue od;
	unsigned int pos = 0;

	/* the search below may miss commands submitted from now on */
	spin_lock(&uq->sq_lock);
	uq->tmo_armed = false;
	nvme_uq_ring_late(uq);
	spin_unlock(&uq->sq_lock);

	/* an interrupt may be lost, or polling may have stopped */
	nvme_uq_pci_reap(uq);

	while (nvme_uq_find_overdue(uq, &pos, &od, &next)) {
		if (nvme_uq_overdue(uq, &od, &next))
			continue;
		/* check again, in case the reset fails to start */
		nvme_uq_sooner(&next, jiffies + HZ);
		break;
	}

	guard(spinlock)(&uq->sq_lock);
	if (!(uq->blocked & NVME_UQ_DOWN) && nvme_uq_tags_used(&uq->tags) &&
	    (!uq->tmo_armed || time_before(next, uq->tmo_next)))
		nvme_uq_arm_timeout(uq, next);
}
EXPORT_SYMBOL_IF_KUNIT(nvme_uq_timeout_work);
