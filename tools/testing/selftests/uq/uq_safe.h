/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The tests overwrite namespaces, reset controllers and change parameters of the
 * driver, and "make kselftest" is run on machines with disks that matter. So:
 *
 * - Nothing is touched but what UQ_TEST_DEV and UQ_TEST_SLOW_DEV name. If neither
 *   is set, not even to nothing, these are namespaces of which the controllers are
 *   emulated by QEMU and have a serial number of these tests.
 * - No namespace of the subsystem that a named one belongs to may be in use: each
 *   must open exclusively, as only one that is not mounted, swapped on or part of
 *   another device does.
 * - What is named must be blank or have the label of these tests in its last 4
 *   KiB. A blank one is given the label.
 * - What reaches beyond a namespace (a reset, a format, a suspend, a parameter)
 *   is done only where every NVMe controller of the machine is emulated by QEMU,
 *   or with UQ_TEST_DESTRUCTIVE=1.
 * - A namespace that was named is found by its WWID, and its controller's place on
 *   the bus, from then on: another may be given its name while controllers are
 *   unbound and found again.
 * - Parameters and limits that were changed are put back, however a test ends, and
 *   controllers that were unbound or removed are bound again.
 */
#ifndef SELFTESTS_UQ_SAFE_H
#define SELFTESTS_UQ_SAFE_H

#include "uq.h"

#define UQ_LABEL	"uq-selftest"
#define UQ_MODEL	"QEMU NVMe Ctrl"
#define UQ_SERIAL	"uq-selftest-"
#define UQ_WHY_LEN	320

/*
 * May the named namespaces be overwritten? Otherwise returns -1 with a sentence
 * in @why.
 */
int uq_claim_devs(char *why, size_t len);
/* Gives those their label again that have lost it. */
void uq_label_devs(void);

/*
 * May a test do what reaches beyond a namespace? Otherwise false, with a sentence
 * in @why if that is not NULL.
 */
bool uq_may_disrupt(char *why, size_t len);

/* Remembers what tests change of the system, and puts it back. */
void uq_keep_settings(void);
void uq_restore_settings(void);

/*
 * Runs @run() in a grandchild and returns its exit code. Settings are put back when
 * it has ended: by itself, by a signal, or because this process got one, which ends
 * its children first. If this process is killed, the child does that.
 */
int uq_guard(int (*run)(int argc, char **argv), int argc, char **argv);

#endif /* SELFTESTS_UQ_SAFE_H */
