// SPDX-License-Identifier: GPL-2.0
/* Faults that the driver injects; see uq_inject.h. */
#define _GNU_SOURCE
#include <limits.h>

#include "uq_inject.h"
#include "kselftest.h"

void uq_fault_path(char *path, int ctrl, const char *name)
{
	snprintf(path, PATH_MAX,
		 "/sys/kernel/debug/nvme%d/user_queue_fault/%s", ctrl, name);
}

bool uq_can_fault(int ctrl)
{
	char path[PATH_MAX];

	uq_fault_path(path, ctrl, "no_sgl");
	return !access(path, F_OK);
}

int uq_fault_knob(int ctrl, const char *name, const char *val)
{
	char path[PATH_MAX];

	uq_fault_path(path, ctrl, name);
	return uq_write_line(path, val);
}

int uq_fault_attr(int ctrl, const char *what, const char *name,
		  long long val)
{
	char path[64], line[32];

	snprintf(path, sizeof(path), "%s/%s", what, name);
	snprintf(line, sizeof(line), "%lld", val);
	return uq_fault_knob(ctrl, path, line);
}

int uq_fault_set(int ctrl, const char *what, unsigned int n)
{
	int ret = uq_fault_attr(ctrl, what, "times", 0);

	ret = ret ?: uq_fault_attr(ctrl, what, "verbose", 0);
	ret = ret ?: uq_fault_attr(ctrl, what, "interval", 1);
	ret = ret ?: uq_fault_attr(ctrl, what, "probability", n ? 100 : 0);
	return ret ?: uq_fault_attr(ctrl, what, "times", n);
}

long long uq_fault_left(int ctrl, const char *what)
{
	char path[PATH_MAX], name[64], line[32];

	snprintf(name, sizeof(name), "%s/times", what);
	uq_fault_path(path, ctrl, name);
	return uq_read_line(path, line, sizeof(line)) ? -1 : atoll(line);
}

int uq_fault_admin(int ctrl, const char *what, unsigned int opcode,
		   unsigned int n)
{
	char line[16];

	snprintf(line, sizeof(line), "%#x", opcode);
	return uq_fault_knob(ctrl, "opcode", line) ?:
		uq_fault_set(ctrl, what, n);
}

int uq_fault_clear(int ctrl)
{
	static const char * const kinds[] = {
		"lose", "repeat", "stale", "wrong", "hold", "storm", "irq",
		"silent", "refuse", "no_memory"
	};
	unsigned int i;
	int ret = 0;

	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		ret = ret ?: uq_fault_set(ctrl, kinds[i], 0);
	ret = ret ?: uq_fault_knob(ctrl, "hold_for", "1");
	return ret ?: uq_fault_knob(ctrl, "no_sgl", "N");
}

int uq_fault_no_sgl(const struct uq_ns *ns, bool on)
{
	int ret = uq_can_fault(ns->ctrl) ? 0 : uq_bring_up(ns, 1, 1);

	return ret ?: uq_fault_knob(ns->ctrl, "no_sgl", on ? "Y" : "N");
}
