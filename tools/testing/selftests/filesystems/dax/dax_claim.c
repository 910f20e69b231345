// SPDX-License-Identifier: GPL-2.0
/*
 * Helper for the shell tests.
 *
 *   dax_claim 0|1		prints the name of device 0 or 1 if the device
 *				may be overwritten; prints the reason and exits
 *				with 4 (skip) if not
 *   dax_claim guard TEST	runs a test, then runs it with DAX_TEST_UNDO=1
 *				to undo its changes, however the test has ended
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dax_util.h"

static const char *test;

static int run_test(int argc, char **argv)
{
	setenv("DAX_TEST_GUARDED", "1", 1);
	execlp(test, test, NULL);
	perror(test);
	return 1;
}

static void undo_test(void)
{
	const char *const argv[] = { test, NULL };

	setenv("DAX_TEST_GUARDED", "1", 1);
	setenv("DAX_TEST_UNDO", "1", 1);
	dax_run(argv);
}

int main(int argc, char **argv)
{
	char dev[128], why[DAX_WHY_LEN];

	if (argc == 3 && !strcmp(argv[1], "guard")) {
		test = argv[2];
		return dax_guard(run_test, argc, argv, 2, undo_test);
	}
	if (argc != 2) {
		fprintf(stderr, "usage: %s 0|1|guard TEST\n", argv[0]);
		return 2;
	}
	if (dax_find_dev(atoi(argv[1]), dev, sizeof(dev), why)) {
		printf("%s\n", why);
		return 4;
	}
	printf("%s\n", dev);
	return 0;
}
