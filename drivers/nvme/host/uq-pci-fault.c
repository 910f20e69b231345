// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: faults for tests.
 *
 * No emulated device loses a completion, sends one twice, or sends one that was
 * meant for the last command of the same id; none misses a doorbell whenever it
 * is asked to; and none has no SGLs. Parameters of the module say how many of
 * the next completions or doorbells, of any user queue, are to be treated so.
 */
#include <linux/atomic.h>
#include <linux/kstrtox.h>
#include <linux/moduleparam.h>

#include "uq-pci.h"

static atomic_t nvme_uq_fault_left[NVME_UQ_FAULT_STALE + 1];
static atomic_t nvme_uq_doorbells_left;

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

module_param_cb(user_fault_lose, &nvme_uq_fault_ops,
		&nvme_uq_fault_left[NVME_UQ_FAULT_LOSE], 0600);
MODULE_PARM_DESC(user_fault_lose,
		 "Lose that many completions of user queues. For tests.");

module_param_cb(user_fault_repeat, &nvme_uq_fault_ops,
		&nvme_uq_fault_left[NVME_UQ_FAULT_REPEAT], 0600);
MODULE_PARM_DESC(user_fault_repeat,
		 "See that many completions of user queues twice. For tests.");

module_param_cb(user_fault_stale, &nvme_uq_fault_ops,
		&nvme_uq_fault_left[NVME_UQ_FAULT_STALE], 0600);
MODULE_PARM_DESC(user_fault_stale,
		 "See that many completions of user queues after one of an older generation. For tests.");

module_param_cb(user_fault_doorbell, &nvme_uq_fault_ops,
		&nvme_uq_doorbells_left, 0600);
MODULE_PARM_DESC(user_fault_doorbell,
		 "Lose that many doorbells of user queues. For tests.");

static bool user_fault_no_sgl;
module_param(user_fault_no_sgl, bool, 0600);
MODULE_PARM_DESC(user_fault_no_sgl,
		 "Use no SGLs on user queues, as if the device had none. Read at controller reset. For tests.");

static bool nvme_uq_fault_take(atomic_t *left)
{
	return atomic_read(left) && atomic_dec_if_positive(left) >= 0;
}

/**
 * nvme_uq_fault_next - what is to become of the next completion
 *
 * Return: one of enum nvme_uq_fault.
 */
enum nvme_uq_fault nvme_uq_fault_next(void)
{
	enum nvme_uq_fault fault;

	for (fault = NVME_UQ_FAULT_LOSE; fault <= NVME_UQ_FAULT_STALE; fault++)
		if (nvme_uq_fault_take(&nvme_uq_fault_left[fault]))
			return fault;
	return NVME_UQ_FAULT_NONE;
}

/**
 * nvme_uq_fault_doorbell - does the next doorbell get lost?
 *
 * Return: true if it is not to be written.
 */
bool nvme_uq_fault_doorbell(void)
{
	return nvme_uq_fault_take(&nvme_uq_doorbells_left);
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
