// SPDX-License-Identifier: GPL-2.0
/* mkfs.xfs, and checks for filesystems that this system supports. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dax_util.h"

int dax_mkfs_xfs(const char *dev, const char *meta)
{
	char bs[32], log[32];
	const char *const argv[] = {
		"mkfs.xfs", "-q", "-f", "-K", "-L", DAX_LABEL, "-m", meta,
		"-b", bs, "-d", "agcount=2", "-l", log, dev, NULL
	};

	snprintf(bs, sizeof(bs), "size=%zu", dax_bs());
	snprintf(log, sizeof(log), "size=%dm", DAX_XFS_LOG);
	return dax_run(argv);
}

/* No shell: each test asks, and a program is slow to start in a guest. */
bool dax_has_program(const char *name)
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

static bool kernel_has(const char *type)
{
	FILE *f = fopen("/proc/filesystems", "r");
	bool found = false;
	char line[64];

	while (f && !found && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		found = line[0] == '\t' && !strcmp(line + 1, type);
	}
	if (f)
		fclose(f);
	return found;
}

bool dax_has_fs(const char *type)
{
	const char *const modprobe[] = { "modprobe", "-q", type, NULL };
	char mkfs[32];

	snprintf(mkfs, sizeof(mkfs), "mkfs.%s", type);
	if (!dax_has_program(mkfs))
		return false;
	/* Load the module, so that its parameters exist. */
	return kernel_has(type) || (!dax_run(modprobe) && kernel_has(type));
}
