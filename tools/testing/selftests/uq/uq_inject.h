/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Faults that the driver pretends: the files of one controller in debugfs, which
 * are there with CONFIG_NVME_UQ_FAULT once it has had a user queue.
 */
#ifndef SELFTESTS_UQ_INJECT_H
#define SELFTESTS_UQ_INJECT_H

#include "uq.h"

#define UQ_NO_FAULTS \
	"nvme cannot pretend (CONFIG_NVME_UQ_FAULT, and debugfs mounted)"

/* The file of a fault, in PATH_MAX bytes. */
void uq_fault_path(char *path, int ctrl, const char *name);
bool uq_can_fault(int ctrl);
/* What is not in a directory of its own: hold_for, opcode, no_sgl. */
int uq_fault_knob(int ctrl, const char *name, const char *val);
/* @what/@name is @val from now on. */
int uq_fault_attr(int ctrl, const char *what, const char *name,
		  long long val);
/* The next @n times, without exception, and without a stack in the log. */
int uq_fault_set(int ctrl, const char *what, unsigned int n);
/* How many of these are still to come; -1 if there is no such file. */
long long uq_fault_left(int ctrl, const char *what);
/* The next @n admin commands with an opcode are not answered, or refused. */
int uq_fault_admin(int ctrl, const char *what, unsigned int opcode,
		   unsigned int n);
/* Nothing is pretended any more, whatever a test has left; -1 if none can be. */
int uq_fault_clear(int ctrl);
/*
 * SGLs or none, from the next reset of the controller on. One that never had a
 * user queue gets one first, as there are no files before.
 */
int uq_fault_no_sgl(const struct uq_ns *ns, bool on);

#endif /* SELFTESTS_UQ_INJECT_H */
