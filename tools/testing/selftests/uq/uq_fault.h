/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Faults that the driver pretends: the files of one controller in debugfs, which
 * are there with CONFIG_NVME_UQ_FAULT once it has had a user queue.
 */
#ifndef SELFTESTS_UQ_FAULT_H
#define SELFTESTS_UQ_FAULT_H

#include <limits.h>

#include "uq.h"

#define UQ_NO_FAULTS \
	"nvme cannot pretend (CONFIG_NVME_UQ_FAULT, and debugfs mounted)"

static inline void uq_fault_path(char *path, int ctrl, const char *name)
{
	snprintf(path, PATH_MAX,
		 "/sys/kernel/debug/nvme%d/user_queue_fault/%s", ctrl, name);
}

static inline bool uq_can_fault(int ctrl)
{
	char path[PATH_MAX];

	uq_fault_path(path, ctrl, "no_sgl");
	return !access(path, F_OK);
}

/* What is not in a directory of its own: hold_for, opcode, no_sgl, no_nudge. */
static inline int uq_fault_knob(int ctrl, const char *name, const char *val)
{
	char path[PATH_MAX];

	uq_fault_path(path, ctrl, name);
	return uq_write_line(path, val);
}

/* @what/@name is @val from now on. */
static inline int uq_fault_attr(int ctrl, const char *what, const char *name,
				long long val)
{
	char path[PATH_MAX], line[32];

	snprintf(path, sizeof(path), "%s/%s", what, name);
	snprintf(line, sizeof(line), "%lld", val);
	return uq_fault_knob(ctrl, path, line);
}

/* The next @n times, without exception, and without a stack in the log. */
static inline int uq_fault_set(int ctrl, const char *what, unsigned int n)
{
	int ret = uq_fault_attr(ctrl, what, "times", 0);

	ret = ret ?: uq_fault_attr(ctrl, what, "verbose", 0);
	ret = ret ?: uq_fault_attr(ctrl, what, "interval", 1);
	ret = ret ?: uq_fault_attr(ctrl, what, "probability", n ? 100 : 0);
	return ret ?: uq_fault_attr(ctrl, what, "times", n);
}

/* How many of these are still to come; -1 if there is no such file. */
static inline long long uq_fault_left(int ctrl, const char *what)
{
	char path[PATH_MAX], name[64], line[32];

	snprintf(name, sizeof(name), "%s/times", what);
	uq_fault_path(path, ctrl, name);
	return uq_read_line(path, line, sizeof(line)) ? -1 : atoll(line);
}

/* The next @n admin commands with an opcode are not answered, or refused. */
static inline int uq_fault_admin(int ctrl, const char *what,
				 unsigned int opcode, unsigned int n)
{
	char line[16];

	snprintf(line, sizeof(line), "%#x", opcode);
	return uq_fault_knob(ctrl, "opcode", line) ?:
		uq_fault_set(ctrl, what, n);
}

/* Nothing is pretended any more, whatever a test has left; -1 if none can be. */
static inline int uq_fault_clear(int ctrl)
{
	static const char * const whats[] = {
		"lose", "repeat", "stale", "wrong", "hold", "storm", "irq",
		"doorbell", "silent", "refuse"
	};
	unsigned int i;
	int ret = 0;

	for (i = 0; i < sizeof(whats) / sizeof(*whats); i++)
		ret = ret ?: uq_fault_set(ctrl, whats[i], 0);
	ret = ret ?: uq_fault_knob(ctrl, "hold_for", "1");
	ret = ret ?: uq_fault_knob(ctrl, "no_nudge", "N");
	return ret ?: uq_fault_knob(ctrl, "no_sgl", "N");
}

/*
 * SGLs or none, from the next reset of the controller on. One that never had a
 * user queue gets one first, as there are no files before.
 */
static inline int uq_fault_no_sgl(const struct uq_ns *ns, bool on)
{
	int ret = uq_can_fault(ns->ctrl) ? 0 : uq_bring_up(ns, 1, 1);

	return ret ?: uq_fault_knob(ns->ctrl, "no_sgl", on ? "Y" : "N");
}

#endif /* SELFTESTS_UQ_FAULT_H */
