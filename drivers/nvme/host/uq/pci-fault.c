// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: fault injection, for tests.
 *
 * Injects faults that no emulated device produces:
 *
 *   - completions that are lost, repeated, reordered, made up, or sent while no
 *     command waits for them,
 *   - lost interrupts,
 *   - admin commands without an answer, or rejected,
 *   - no memory to map the data of a command,
 *   - a device without SGLs.
 *
 * In debugfs, user_queue_fault next to the controller's fault_inject has a
 * directory for each fault. It sets the probability and the number of times,
 * see Documentation/fault-injection/fault-injection.rst.
 *
 * The directories are created with the controller's first user queues and
 * removed with the controller (nvme_uninit_ctrl()). Nothing accesses them after
 * that. nvme_uq_free() frees the data behind them, together with the queues.
 */
#include <linux/debugfs.h>
#include <linux/fault-inject.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "pci.h"

/* Faults with a probability and a number of times. */
enum nvme_uq_fault_what {
	NVME_UQ_FAULT_LOSE,
	NVME_UQ_FAULT_REPEAT,
	NVME_UQ_FAULT_STALE,
	NVME_UQ_FAULT_WRONG,
	NVME_UQ_FAULT_HOLD,
	NVME_UQ_FAULT_STORM,
	NVME_UQ_FAULT_IRQ,
	NVME_UQ_FAULT_SILENT,
	NVME_UQ_FAULT_REFUSE,
	NVME_UQ_FAULT_NO_MEMORY,
	NVME_UQ_NR_FAULTS
};

static const char * const nvme_uq_fault_names[NVME_UQ_NR_FAULTS] = {
	[NVME_UQ_FAULT_LOSE]	= "lose",
	[NVME_UQ_FAULT_REPEAT]	= "repeat",
	[NVME_UQ_FAULT_STALE]	= "stale",
	[NVME_UQ_FAULT_WRONG]	= "wrong",
	[NVME_UQ_FAULT_HOLD]	= "hold",
	[NVME_UQ_FAULT_STORM]	= "storm",
	[NVME_UQ_FAULT_IRQ]	= "irq",
	[NVME_UQ_FAULT_SILENT]	= "silent",
	[NVME_UQ_FAULT_REFUSE]	= "refuse",
	[NVME_UQ_FAULT_NO_MEMORY] = "no_memory",
};

/**
 * struct nvme_uq_held - a delayed completion
 * @uq:		the queue, NULL if this entry is free
 * @seen:	the completion
 * @left:	number of other completions of the queue that come first
 *
 * A reset may cancel the command meanwhile. Then the completion is late, and
 * must not complete the next command with the same tag.
 */
struct nvme_uq_held {
	const struct nvme_uq	*uq;
	struct nvme_uq_seen	seen;
	unsigned int		left;
};

/**
 * struct nvme_uq_fault - faults of a controller's user queues
 * @lock:	protects @held, and keeps the number of times in @attr exact
 * @attr:	probability and number of times of each fault
 * @hold_for:	number of completions of a queue that come before a delayed one
 * @opcode:	opcode of admin commands that get no answer or are rejected
 * @no_sgl:	use no SGLs, as for a device without SGLs; read at controller
 *		reset
 * @held:	delayed completions
 */
struct nvme_uq_fault {
	spinlock_t		lock;	/* held; exact times in attr */
	struct fault_attr	attr[NVME_UQ_NR_FAULTS];
	u32			hold_for;
	u8			opcode;
	bool			no_sgl;
	struct nvme_uq_held	held[NVME_UQ_FAULT_SEEN - 4];
};

static struct nvme_uq_fault *nvme_uq_fault_of(struct nvme_ctrl *ctrl)
{
	return ctrl->uq->fault;
}

/**
 * nvme_uq_fault_init - create the debugfs directories of a controller
 * @ctrl:	the controller
 * @uqc:	its user queues, which are not created yet
 *
 * As for other files in debugfs, a failure to create them is not an error.
 */
void nvme_uq_fault_init(struct nvme_ctrl *ctrl, struct nvme_uq_ctrl *uqc)
{
	static const struct fault_attr usual = FAULT_ATTR_INITIALIZER;
	struct dentry *parent = ctrl->fault_inject.parent, *dir;
	struct nvme_uq_fault *f;
	unsigned int i, noio;

	if (!parent)
		return;
	/* as in nvme_uq_create() */
	noio = memalloc_noio_save();
	f = kzalloc_obj(*f);
	if (!f)
		goto out;
	spin_lock_init(&f->lock);
	f->hold_for = 1;
	dir = debugfs_create_dir("user_queue_fault", parent);
	for (i = 0; i < NVME_UQ_NR_FAULTS; i++) {
		f->attr[i] = usual;
		ratelimit_state_init(&f->attr[i].ratelimit_state, 0, 0);
		fault_create_debugfs_attr(nvme_uq_fault_names[i], dir,
					  &f->attr[i]);
	}
	debugfs_create_u32("hold_for", 0600, dir, &f->hold_for);
	debugfs_create_x8("opcode", 0600, dir, &f->opcode);
	debugfs_create_bool("no_sgl", 0600, dir, &f->no_sgl);
	uqc->fault = f;
out:
	memalloc_noio_restore(noio);
}

/**
 * nvme_uq_fault_free - free the faults of a controller
 * @uqc:	the controller's user queues, after the removal of the
 *		directories
 */
void nvme_uq_fault_free(struct nvme_uq_ctrl *uqc)
{
	kfree(uqc->fault);
}

/*
 * Do not call should_fail() for a fault that is off. Each call decrements the
 * fail-nth counter of the task, which is meant for the task's own allocations.
 */
static bool nvme_uq_fault_take(struct nvme_uq_fault *f,
			       enum nvme_uq_fault_what what)
{
	unsigned long flags;
	bool ret;

	if (!f || !READ_ONCE(f->attr[what].probability))
		return false;
	spin_lock_irqsave(&f->lock, flags);
	/* debugfs writes without a lock: either value is fine */
	ret = data_race(should_fail(&f->attr[what], 1));
	spin_unlock_irqrestore(&f->lock, flags);
	return ret;
}

/* Delay a completion. Return false if too many are delayed. */
static bool nvme_uq_fault_keep(struct nvme_uq_fault *f,
			       const struct nvme_uq *uq,
			       const struct nvme_uq_seen *seen)
{
	unsigned int i, left = READ_ONCE(f->hold_for);
	unsigned long flags;
	bool kept = false;

	spin_lock_irqsave(&f->lock, flags);
	for (i = 0; i < ARRAY_SIZE(f->held) && !kept; i++) {
		if (f->held[i].uq)
			continue;
		f->held[i].uq = uq;
		f->held[i].seen = *seen;
		f->held[i].left = left;
		kept = true;
	}
	spin_unlock_irqrestore(&f->lock, flags);
	return kept;
}

/* Another completion has arrived: return completions whose delay has ended. */
static unsigned int nvme_uq_fault_let_go(struct nvme_uq_fault *f,
					 struct nvme_uq *uq,
					 struct nvme_uq_seen *seen)
{
	unsigned int i, n = 0;
	unsigned long flags;

	spin_lock_irqsave(&f->lock, flags);
	for (i = 0; i < ARRAY_SIZE(f->held); i++) {
		struct nvme_uq_held *held = &f->held[i];

		if (held->uq != uq || (held->left && --held->left))
			continue;
		held->uq = NULL;
		seen[n++] = held->seen;
	}
	spin_unlock_irqrestore(&f->lock, flags);

	/* late: an error shows if it completes another command */
	for (i = 0; i < n; i++) {
		u16 cid = seen[i].cid;

		if (uq->tags.cid[cid & uq->tags.idx_mask] !=
		    (NVME_UQ_ARMED | cid))
			seen[i].status = NVME_SC_INTERNAL;
	}
	return n;
}

/**
 * nvme_uq_fault_see - apply faults to a completion
 * @uq:		the queue, with cq_lock held
 * @seen:	the completion; array of NVME_UQ_FAULT_SEEN elements
 *
 * Return: the number of completions in @seen that replace the real one.
 */
unsigned int nvme_uq_fault_see(struct nvme_uq *uq, struct nvme_uq_seen *seen)
{
	const struct nvme_uq_seen real = *seen;
	struct nvme_uq_seen bad = { .status = NVME_SC_INTERNAL };
	struct nvme_uq_fault *f = nvme_uq_fault_of(uq->ctrl);
	unsigned int n = 0;

	/* without faults, keep the completion */
	if (!f)
		return 1;
	if (nvme_uq_fault_take(f, NVME_UQ_FAULT_LOSE))
		return 0;
	if (nvme_uq_fault_take(f, NVME_UQ_FAULT_HOLD) &&
	    nvme_uq_fault_keep(f, uq, &real))
		return 0;
	if (nvme_uq_fault_take(f, NVME_UQ_FAULT_STALE)) {
		bad.cid = real.cid - uq->tags.genctr_step;
		seen[n++] = bad;
	} else if (nvme_uq_fault_take(f, NVME_UQ_FAULT_WRONG)) {
		/* invalid tags (idx_mask, U16_MAX), then a future generation */
		bad.cid = real.cid | uq->tags.idx_mask;
		seen[n++] = bad;
		bad.cid = U16_MAX;
		seen[n++] = bad;
		bad.cid = real.cid + uq->tags.genctr_step;
		seen[n++] = bad;
	} else if (nvme_uq_fault_take(f, NVME_UQ_FAULT_REPEAT)) {
		seen[n++] = real;
	}
	seen[n++] = real;
	return n + nvme_uq_fault_let_go(f, uq, seen + n);
}

/**
 * nvme_uq_fault_storm - check for the fault of old entries that look new
 * @uq:		the queue
 *
 * Return: true if the next entry must be treated as new.
 */
bool nvme_uq_fault_storm(struct nvme_uq *uq)
{
	return nvme_uq_fault_take(nvme_uq_fault_of(uq->ctrl),
				  NVME_UQ_FAULT_STORM);
}

/**
 * nvme_uq_fault_may_storm - check whether nvme_uq_fault_storm() may return true
 * @uq:		the queue
 *
 * Return: true if it may.
 */
bool nvme_uq_fault_may_storm(struct nvme_uq *uq)
{
	struct nvme_uq_fault *f = nvme_uq_fault_of(uq->ctrl);

	return f && READ_ONCE(f->attr[NVME_UQ_FAULT_STORM].probability);
}

/**
 * nvme_uq_fault_irq - check for the fault of a lost interrupt
 * @uq:		the queue
 *
 * Return: true if the interrupt must be ignored.
 */
bool nvme_uq_fault_irq(struct nvme_uq *uq)
{
	return nvme_uq_fault_take(nvme_uq_fault_of(uq->ctrl),
				  NVME_UQ_FAULT_IRQ);
}

/**
 * nvme_uq_fault_no_memory - check for the fault of a failed mapping
 * @uq:		the queue
 *
 * Return: true if mapping the data must fail.
 */
bool nvme_uq_fault_no_memory(struct nvme_uq *uq)
{
	return nvme_uq_fault_take(nvme_uq_fault_of(uq->ctrl),
				  NVME_UQ_FAULT_NO_MEMORY);
}

/**
 * nvme_uq_fault_admin - apply faults to an admin command
 * @ctrl:	the controller
 * @opcode:	opcode of the command
 *
 * To inject an unanswered command, send an Asynchronous Event Request: a device
 * completes it only after an event, if at all. A device accepts a limited
 * number of them (AERL of Identify Controller).
 *
 * Return: the opcode to send: @opcode, or one that is not answered or not
 * supported.
 */
u8 nvme_uq_fault_admin(struct nvme_ctrl *ctrl, u8 opcode)
{
	struct nvme_uq_fault *f = nvme_uq_fault_of(ctrl);

	if (!f || opcode != READ_ONCE(f->opcode))
		return opcode;
	if (nvme_uq_fault_take(f, NVME_UQ_FAULT_SILENT))
		return nvme_admin_async_event;
	/* undefined in the specification, and without data */
	if (nvme_uq_fault_take(f, NVME_UQ_FAULT_REFUSE))
		return 0x70;
	return opcode;
}

/**
 * nvme_uq_fault_no_sgl - check for the fault of a device without SGLs
 * @ctrl:	the controller
 *
 * Return: true if SGLs must not be used.
 */
bool nvme_uq_fault_no_sgl(struct nvme_ctrl *ctrl)
{
	struct nvme_uq_fault *f = nvme_uq_fault_of(ctrl);

	return f && READ_ONCE(f->no_sgl);
}
