/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The start and end of every test program.
 */
#ifndef SELFTESTS_UQ_FIXTURE_H
#define SELFTESTS_UQ_FIXTURE_H

#include "uq.h"
#include "kselftest_harness.h"

/*
 * For a test that hangs, not for one that is slow: under emulation, with a
 * debug kernel, a second here may take minutes.
 */
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT	1800

/* Without a device nothing can be tested: exits with 4, and says why. */
static inline int uq_main(int argc, char **argv)
{
	char why[128];
	int ret;

	if (uq_prepare(why, sizeof(why))) {
		ksft_print_header();
		ksft_exit_skip("%s\n", why);
	}
	ret = test_harness_run(argc, argv);
	uq_put_back();
	return ret;
}

#endif /* SELFTESTS_UQ_FIXTURE_H */
