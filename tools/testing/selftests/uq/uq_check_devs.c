// SPDX-License-Identifier: GPL-2.0
/*
 * For the shell tests: may the namespaces that are named be overwritten? Says why
 * not and exits with 4 (skip), or with 1 if they are not what they should be.
 *
 *   uq_check_devs [disrupt]
 *
 * With "disrupt": may a test also do what reaches beyond a namespace?
 */
#define _GNU_SOURCE
#include "uq_safe.h"
#include "kselftest.h"

int main(int argc, char **argv)
{
	char why[UQ_WHY_LEN];
	int ret = uq_find_devs(why, sizeof(why));

	if (!ret && argc > 1 && !uq_may_disrupt(why, sizeof(why)))
		ret = KSFT_SKIP;
	if (ret)
		printf("%s\n", why);
	return ret;
}
