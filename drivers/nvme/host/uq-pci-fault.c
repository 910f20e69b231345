// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: faults for tests.
 *
 * No emulated device loses completions, repeats them, changes their order, makes
 * them up or sends them when nobody waits for them any more; none is silent when
 * it is asked to be; and none has no SGLs. Parameters of the module say how many
 * of the next completions, interrupts, doorbells or admin commands, of any user
 * queue, are to be treated so. Each counts down as it is done.
 */
#include <linux/atomic.h>
#include <linux/kstrtox.h>
#include <linux/moduleparam.h>
#include <linux/spinlock.h>

#include "uq-pci.h"

/* How many a test wants, less those it has got. */
static atomic_t lose, repeat, stale, wrong, hold, storm;
static atomic_t irqs, doorbells, silent, refuse;

static int nvme_uq_fault_set(const char *val, const struct kernel_param *kp)
{
	unsigned int n;

	if (kstrtouint(val, 10, &n) || n > INT_MAX)
		return -EINVAL;
	atomic_set(kp->arg, n);
	return 0;
}

static int nvme_uq_fault_get(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%d\n", atomic_read(kp->arg));
}

static const struct kernel_param_ops nvme_uq_fault_ops = {
	.set = nvme_uq_fault_set,
	.get = nvme_uq_fault_get,
};

module_param_cb(user_fault_lose, &nvme_uq_fault_ops, &lose, 0600);
MODULE_PARM_DESC(user_fault_lose,
		 "Lose that many completions of user queues. For tests.");

module_param_cb(user_fault_repeat, &nvme_uq_fault_ops, &repeat, 0600);
MODULE_PARM_DESC(user_fault_repeat,
		 "See that many completions of user queues twice. For tests.");

module_param_cb(user_fault_stale, &nvme_uq_fault_ops, &stale, 0600);
MODULE_PARM_DESC(user_fault_stale,
		 "See that many completions of user queues after one of an older generation. For tests.");

module_param_cb(user_fault_wrong, &nvme_uq_fault_ops, &wrong, 0600);
MODULE_PARM_DESC(user_fault_wrong,
		 "See that many completions of user queues after three of commands that there never were. For tests.");

module_param_cb(user_fault_hold, &nvme_uq_fault_ops, &hold, 0600);
MODULE_PARM_DESC(user_fault_hold,
		 "Hold that many completions of user queues back, at most 12 at a time. For tests.");

static unsigned int user_fault_hold_for = 1;
module_param(user_fault_hold_for, uint, 0600);
MODULE_PARM_DESC(user_fault_hold_for,
		 "Hold them until so many others of the same queue have come. For tests.");

module_param_cb(user_fault_storm, &nvme_uq_fault_ops, &storm, 0600);
MODULE_PARM_DESC(user_fault_storm,
		 "Take that many entries of completion queues for new that are not. For tests.");

module_param_cb(user_fault_irq, &nvme_uq_fault_ops, &irqs, 0600);
MODULE_PARM_DESC(user_fault_irq,
		 "Lose that many interrupts of user queues. For tests.");

module_param_cb(user_fault_doorbell, &nvme_uq_fault_ops, &doorbells, 0600);
MODULE_PARM_DESC(user_fault_doorbell,
		 "Lose that many doorbells of user queues. For tests.");

static unsigned int user_fault_opcode;
module_param(user_fault_opcode, uint, 0600);
MODULE_PARM_DESC(user_fault_opcode,
		 "Opcode of the admin commands that the next two are about. For tests.");

module_param_cb(user_fault_silent, &nvme_uq_fault_ops, &silent, 0600);
MODULE_PARM_DESC(user_fault_silent,
		 "Let the device not answer so many admin commands for user queues. For tests.");

module_param_cb(user_fault_refuse, &nvme_uq_fault_ops, &refuse, 0600);
MODULE_PARM_DESC(user_fault_refuse,
		 "Let the device refuse so many admin commands for user queues. For tests.");

static bool user_fault_no_sgl;
module_param(user_fault_no_sgl, bool, 0600);
MODULE_PARM_DESC(user_fault_no_sgl,
		 "Use no SGLs on user queues, as if the device had none. Read at controller reset. For tests.");

static bool user_fault_no_nudge;
module_param(user_fault_no_nudge, bool, 0600);
MODULE_PARM_DESC(user_fault_no_nudge,
		 "Do not look after shadow doorbells between timeouts. For tests.");

static bool nvme_uq_fault_take(atomic_t *left)
{
	return atomic_read(left) && atomic_dec_if_positive(left) >= 0;
}

/*
 * Completions that are held back. Those of a queue that is gone are of no use to
 * the next one at its address; that is what they are for.
 */
static struct {
	const struct nvme_uq	*uq;
	struct nvme_uq_seen	seen;
	unsigned int		left;
} held[NVME_UQ_FAULT_SEEN - 4];

static DEFINE_SPINLOCK(held_lock);

/* Is there room for one more? */
static bool nvme_uq_fault_keep(const struct nvme_uq *uq,
			       const struct nvme_uq_seen *seen)
{
	unsigned int i, left = READ_ONCE(user_fault_hold_for);
	unsigned long flags;
	bool kept = false;

	spin_lock_irqsave(&held_lock, flags);
	for (i = 0; i < ARRAY_SIZE(held) && !kept; i++) {
		if (held[i].uq)
			continue;
		held[i].uq = uq;
		held[i].seen = *seen;
		held[i].left = left;
		kept = true;
	}
	spin_unlock_irqrestore(&held_lock, flags);
	return kept;
}

/* Another completion has come: how many are held no longer? */
static unsigned int nvme_uq_fault_let_go(struct nvme_uq *uq,
					 struct nvme_uq_seen *seen)
{
	unsigned int i, n = 0;
	unsigned long flags;

	spin_lock_irqsave(&held_lock, flags);
	for (i = 0; i < ARRAY_SIZE(held); i++) {
		if (held[i].uq != uq || (held[i].left && --held[i].left))
			continue;
		held[i].uq = NULL;
		seen[n++] = held[i].seen;
	}
	spin_unlock_irqrestore(&held_lock, flags);

	/* nobody's any more: if it is taken for somebody's, it shows */
	for (i = 0; i < n; i++) {
		u16 cid = seen[i].cid;

		if (uq->slots.cid[cid & uq->slots.idx_mask] !=
		    (NVME_UQ_ARMED | cid))
			seen[i].status = NVME_SC_INTERNAL;
	}
	return n;
}

/**
 * nvme_uq_fault_see - what is to become of a completion
 * @uq:		the queue, with cq_lock held
 * @seen:	the completion, and room for NVME_UQ_FAULT_SEEN
 *
 * Return: how many completions there are now, in @seen.
 */
unsigned int nvme_uq_fault_see(struct nvme_uq *uq, struct nvme_uq_seen *seen)
{
	const struct nvme_uq_seen real = *seen;
	struct nvme_uq_seen bad = { .status = NVME_SC_INTERNAL };
	unsigned int n = 0;

	if (nvme_uq_fault_take(&lose))
		return 0;
	if (nvme_uq_fault_take(&hold) && nvme_uq_fault_keep(uq, &real))
		return 0;
	if (nvme_uq_fault_take(&stale)) {
		bad.cid = real.cid - uq->slots.gen_step;
		seen[n++] = bad;
	} else if (nvme_uq_fault_take(&wrong)) {
		/* no slot has this number, nor this one, and not yet this id */
		bad.cid = real.cid | uq->slots.idx_mask;
		seen[n++] = bad;
		bad.cid = U16_MAX;
		seen[n++] = bad;
		bad.cid = real.cid + uq->slots.gen_step;
		seen[n++] = bad;
	} else if (nvme_uq_fault_take(&repeat)) {
		seen[n++] = real;
	}
	seen[n++] = real;
	return n + nvme_uq_fault_let_go(uq, seen + n);
}

/**
 * nvme_uq_fault_storm - is an entry new that is not?
 *
 * Return: true if it is to be treated so.
 */
bool nvme_uq_fault_storm(void)
{
	return nvme_uq_fault_take(&storm);
}

/**
 * nvme_uq_fault_irq - does an interrupt get lost?
 *
 * Return: true if it is to be treated so.
 */
bool nvme_uq_fault_irq(void)
{
	return nvme_uq_fault_take(&irqs);
}

/**
 * nvme_uq_fault_doorbell - does the next doorbell get lost?
 *
 * Return: true if it is not to be written.
 */
bool nvme_uq_fault_doorbell(void)
{
	return nvme_uq_fault_take(&doorbells);
}

/**
 * nvme_uq_fault_admin - is the device to answer an admin command?
 * @opcode:	the command's
 *
 * A device answers an Asynchronous Event Request when it has something to tell,
 * which may be never, and takes a few of them (AERL, of Identify Controller).
 *
 * Return: the opcode to send: @opcode, or one that is not answered or not known.
 */
u8 nvme_uq_fault_admin(u8 opcode)
{
	if (opcode != READ_ONCE(user_fault_opcode))
		return opcode;
	if (nvme_uq_fault_take(&silent))
		return nvme_admin_async_event;
	/* no standard has it, and it has no data */
	if (nvme_uq_fault_take(&refuse))
		return 0x70;
	return opcode;
}

/**
 * nvme_uq_fault_no_sgl - has the device no SGLs?
 *
 * Return: true if it is to be treated so.
 */
bool nvme_uq_fault_no_sgl(void)
{
	return READ_ONCE(user_fault_no_sgl);
}

/**
 * nvme_uq_fault_no_nudge - is a device with shadow doorbells left alone?
 *
 * Return: true if it is to be treated as one that has none.
 */
bool nvme_uq_fault_no_nudge(void)
{
	return READ_ONCE(user_fault_no_nudge);
}
