// SPDX-License-Identifier: GPL-2.0
/* The badblocks list of a device: reads of listed blocks fail. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "dax_util.h"

int dax_open_badblocks(const char *dev, int flags)
{
	char path[64];
	struct stat st;
	int fd;

	if (stat(dev, &st))
		return -errno;
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/badblocks",
		 major(st.st_rdev), minor(st.st_rdev));
	fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int dax_mark_bad(const char *dev, int fd, loff_t pos)
{
	__s64 byte = dax_physical(fd, pos);
	int list, ret = 0;

	if (byte < 0)
		return byte;
	list = dax_open_badblocks(dev, O_WRONLY);
	if (list < 0)
		return list;
	if (dprintf(list, "%lld %zu\n", (long long)byte / 512, dax_bs() / 512) < 0)
		ret = -errno;
	close(list);
	return ret;
}
