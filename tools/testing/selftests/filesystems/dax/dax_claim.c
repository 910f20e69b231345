// SPDX-License-Identifier: GPL-2.0
/*
 * For the shell tests: prints the name of device 0 or 1 if it may be
 * overwritten; says why not and exits with 4 (skip) if it may not.
 */

#include <stdio.h>
#include <stdlib.h>

#include "dax_util.h"

int main(int argc, char **argv)
{
	char dev[128], why[DAX_WHY_LEN];

	if (argc != 2) {
		fprintf(stderr, "usage: %s 0|1\n", argv[0]);
		return 2;
	}
	if (dax_find_dev(atoi(argv[1]), dev, sizeof(dev), why)) {
		printf("%s\n", why);
		return 4;
	}
	printf("%s\n", dev);
	return 0;
}
