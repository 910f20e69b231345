/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The tests overwrite namespaces, reset controllers and change parameters of
 * the driver. "make kselftest" also runs on machines with valuable data.
 * Therefore:
 *
 * - The tests use only devices that UQ_TEST_DEV and UQ_TEST_SLOW_DEV name. If
 *   both are unset, not empty, the tests use namespaces of controllers that
 *   QEMU emulates and that have a serial number of these tests.
 * - No namespace in the subsystem of a named namespace may be in use. Each must
 *   open exclusively. A device that is mounted, used for swap or part of
 *   another device does not.
 * - A named device must be blank, or have the label of these tests in its last
 *   4 KiB. The tests write the label to a blank device.
 * - Some tests affect more than a namespace: a reset, a format, a suspend, a
 *   parameter. They run only if QEMU emulates all NVMe controllers of the
 *   machine, or with UQ_TEST_DESTRUCTIVE=1.
 * - The tests identify a named namespace by its WWID and the bus address of its
 *   controller. Names may change while controllers are unbound and bound again.
 * - Changed parameters, limits and permissions are restored, however a test ends.
 *   Controllers that were unbound or removed are bound again.
 */
#ifndef SELFTESTS_UQ_SAFE_H
#define SELFTESTS_UQ_SAFE_H

#include "uq.h"

#define UQ_LABEL	"uq-selftest"
#define UQ_SERIAL	"uq-selftest-"
#define UQ_WHY_LEN	320

/*
 * Check that the tests may overwrite the named namespaces. Otherwise return -1
 * with a message in @why.
 */
int uq_claim_devs(char *why, size_t len);
/* Write the label again to devices that have lost it. */
void uq_label_devs(void);

/*
 * Check that UQ_TEST_DEV and UQ_TEST_SLOW_DEV name namespaces that may be
 * overwritten. If neither is set, set them first. If the test cannot run,
 * return its exit code and a reason in @why: 4 to skip it, 1 if a name is not a
 * working NVMe namespace.
 */
int uq_find_devs(char *why, size_t len);
/*
 * Same. Also set the parameters, and reset controllers if needed, so that the
 * first namespace and the slow one have user queues of both kinds.
 * uq_put_back() reverts this.
 */
int uq_prepare(char *why, size_t len);
void uq_put_back(void);

/* Save and restore the settings that tests change. */
void uq_keep_settings(void);
void uq_restore_settings(void);

/*
 * Run @run() in a grandchild and return its exit code. Settings are restored
 * when the grandchild has ended. If this process gets a signal, it ends its
 * children first. If this process is killed, the child restores the settings.
 */
int uq_guard(int (*run)(int argc, char **argv), int argc, char **argv);

#endif /* SELFTESTS_UQ_SAFE_H */
