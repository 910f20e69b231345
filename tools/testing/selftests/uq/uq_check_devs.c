// SPDX-License-Identifier: GPL-2.0
/*
 * For the shell tests: check that the named namespaces may be overwritten. If
 * not, print the reason and exit with 4 (skip), or with 1 if a name is not a
 * working NVMe namespace.
 *
 *   uq_check_devs [disrupt|devs|slow|guard TEST]
 *
 * With "disrupt", also check that a test may affect more than a namespace. With
 * "devs" and "slow", print the value of UQ_TEST_DEV and UQ_TEST_SLOW_DEV, or
 * their default. With "guard", run a test like uq_guard().
 */
#define _GNU_SOURCE
#include <unistd.h>

#include "uq_safe.h"
#include "kselftest.h"

static int run_test(int argc, char **argv)
{
	setenv("UQ_TEST_GUARDED", "1", 1);
	execl(argv[2], argv[2], NULL);
	perror(argv[2]);
	return 1;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	char why[UQ_WHY_LEN];
	int ret = uq_find_devs(why, sizeof(why));

	if (!ret && !strcmp(what, "disrupt") &&
	    !uq_may_disrupt(why, sizeof(why)))
		ret = KSFT_SKIP;
	if (ret)
		printf("%s\n", why);
	else if (!strcmp(what, "guard") && argc == 3)
		ret = uq_guard(run_test, argc, argv);
	else if (!strcmp(what, "devs"))
		printf("%s\n", getenv("UQ_TEST_DEV"));
	else if (!strcmp(what, "slow"))
		printf("%s\n", getenv("UQ_TEST_SLOW_DEV") ?: "");
	return ret;
}
