// SPDX-License-Identifier: GPL-2.0
/*
 * For the shell tests: may the namespaces that are named be overwritten? Says why
 * not and exits with 4 (skip), or with 1 if they are not what they should be.
 *
 *   uq_check_devs [disrupt|devs|slow]
 *
 * With "disrupt": may a test also do what reaches beyond a namespace? With "devs"
 * and "slow" it prints what UQ_TEST_DEV and UQ_TEST_SLOW_DEV name, or would name.
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
