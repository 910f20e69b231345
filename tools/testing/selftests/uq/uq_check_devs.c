// SPDX-License-Identifier: GPL-2.0
/*
 * For the shell tests: check that the named namespaces may be overwritten. If
 * not, print the reason and exit with 4 (skip), or with 1 if a name is not a
 * working NVMe namespace.
 *
 *   uq_check_devs [disrupt|devs|slow]
 *
 * With "disrupt", also check that a test may affect more than a namespace. With
 * "devs" and "slow", print the value of UQ_TEST_DEV and UQ_TEST_SLOW_DEV, or
 * their default.
 */
#define _GNU_SOURCE
#include "uq_safe.h"
#include "kselftest.h"

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
	else if (!strcmp(what, "devs"))
		printf("%s\n", getenv("UQ_TEST_DEV"));
	else if (!strcmp(what, "slow"))
		printf("%s\n", getenv("UQ_TEST_SLOW_DEV") ?: "");
	return ret;
}
