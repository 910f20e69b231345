// SPDX-License-Identifier: GPL-2.0
/* XFS, where this system has it. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dax_util.h"

int dax_mkfs_xfs(const char *dev, const char *meta)
{
	char bs[32];
	const char *const argv[] = {
		"mkfs.xfs", "-q", "-f", "-K", "-L", DAX_LABEL, "-m", meta,
		"-b", bs, "-d", "agcount=2", "-l", "size=64m", dev, NULL
	};

	snprintf(bs, sizeof(bs), "size=%zu", dax_bs());
	return dax_run(argv);
}

/* Without a shell, as each test asks: a program takes long to start in a guest. */
static bool in_path(const char *name)
{
	const char *dir = getenv("PATH") ?: "/usr/sbin:/usr/bin:/sbin:/bin";
	char path[512];
	size_t len;

	for (; dir; dir = dir[len] ? dir + len + 1 : NULL) {
		len = strcspn(dir, ":");
		snprintf(path, sizeof(path), "%.*s/%s", (int)len, dir, name);
		if (!access(path, X_OK))
			return true;
	}
	return false;
}

static bool kernel_has_xfs(void)
{
	FILE *f = fopen("/proc/filesystems", "r");
	bool found = false;
	char line[64];

	while (f && !found && fgets(line, sizeof(line), f))
		found = !strcmp(line, "\txfs\n");
	if (f)
		fclose(f);
	return found;
}

bool dax_has_xfs(void)
{
	const char *const modprobe[] = { "modprobe", "-q", "xfs", NULL };

	if (!in_path("mkfs.xfs"))
		return false;
	return kernel_has_xfs() || (!dax_run(modprobe) && kernel_has_xfs());
}
