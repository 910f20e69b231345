/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Faults that the driver injects. The debugfs files of a controller exist with
 * CONFIG_NVME_UQ_FAULT, once the controller has had a user queue.
 */
#ifndef SELFTESTS_UQ_INJECT_H
#define SELFTESTS_UQ_INJECT_H

#include "uq.h"

#define UQ_NO_FAULTS \
	"nvme cannot pretend (CONFIG_NVME_UQ_FAULT, and debugfs mounted)"

/* Path of a debugfs file, in PATH_MAX bytes. */
void uq_fault_path(char *path, int ctrl, const char *name);
bool uq_can_fault(int ctrl);
/* Set a file outside of the fault directories: hold_for, opcode, no_sgl. */
int uq_fault_knob(int ctrl, const char *name, const char *val);
/* Set @what/@name to @val. */
int uq_fault_attr(int ctrl, const char *what, const char *name,
		  long long val);
/* Inject a fault the next @n times, without a stack trace in the log. */
int uq_fault_set(int ctrl, const char *what, unsigned int n);
/* Remaining number of faults; -1 if there is no such file. */
long long uq_fault_left(int ctrl, const char *what);
/* Lose or fail the next @n admin commands with this opcode. */
int uq_fault_admin(int ctrl, const char *what, unsigned int opcode,
		   unsigned int n);
/* Clear all faults of a controller; a negative errno if there are no files. */
int uq_fault_clear(int ctrl);
/*
 * Disable or enable SGLs from the next reset on. A controller that never had a
 * user queue gets one first, to create the files.
 */
int uq_fault_no_sgl(const struct uq_ns *ns, bool on);

#endif /* SELFTESTS_UQ_INJECT_H */
