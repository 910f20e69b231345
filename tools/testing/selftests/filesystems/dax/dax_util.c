// SPDX-License-Identifier: GPL-2.0
/* Random numbers, programs, blocks, and the parameters under test. */

#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dax_util.h"

#define FAST_PARAM "/sys/module/dax_read/parameters/fast"
#define UNLOCKED_PARAM "/sys/module/ext4/parameters/dax_unlocked_read"

size_t dax_bs(void)
{
	return sysconf(_SC_PAGESIZE);
}

unsigned int dax_scale(void)
{
	const char *s = getenv("DAX_TEST_SCALE");
	int scale = s ? atoi(s) : 1;

	return scale > 0 ? scale : 1;
}

void dax_seed(struct dax_rnd *rnd, const char *what)
{
	const char *s = getenv("DAX_TEST_SEED");
	struct timespec now;

	if (s) {
		rnd->state = strtoull(s, NULL, 0);
	} else {
		clock_gettime(CLOCK_REALTIME, &now);
		rnd->state = now.tv_sec * 1000000000ULL + now.tv_nsec;
	}
	printf("# %s: DAX_TEST_SEED=%llu\n", what,
	       (unsigned long long)rnd->state);
	fflush(stdout);
	/* If the state is zero, the generator returns only zeroes. */
	rnd->state = rnd->state ?: 1;
}

/* xorshift64*: the low bits are weak, so swap them with the high bits. */
__u64 dax_rnd64(struct dax_rnd *rnd)
{
	__u64 x = rnd->state;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	rnd->state = x;
	x *= 0x2545F4914F6CDD1DULL;
	return x >> 32 | x << 32;
}

__u64 dax_rnd_below(struct dax_rnd *rnd, __u64 n)
{
	return n ? dax_rnd64(rnd) % n : 0;
}

void dax_rnd_fill(struct dax_rnd *rnd, void *buf, size_t len)
{
	char *p = buf;
	__u64 x;

	for (; len >= sizeof(x); len -= sizeof(x), p += sizeof(x)) {
		x = dax_rnd64(rnd);
		memcpy(p, &x, sizeof(x));
	}
	x = dax_rnd64(rnd);
	memcpy(p, &x, len);
}

static void show_output(FILE *out, const char *name)
{
	char line[256];

	rewind(out);
	while (fgets(line, sizeof(line), out))
		printf("# %s: %s%s", name, line,
		       strchr(line, '\n') ? "" : "\n");
	fflush(stdout);
}

int dax_run(const char *const argv[])
{
	FILE *out = tmpfile();
	int status = -1;
	pid_t pid;

	if (!out)
		return -errno;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		dup2(fileno(out), STDOUT_FILENO);
		dup2(fileno(out), STDERR_FILENO);
		execvp(argv[0], (char *const *)argv);
		fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
		_exit(127);
	}
	if (pid > 0)
		waitpid(pid, &status, 0);
	if (status)
		show_output(out, argv[0]);
	fclose(out);
	return status ? -ECHILD : 0;
}

bool dax_fast_exists(void)
{
	return !access(FAST_PARAM, F_OK);
}

int dax_put(const char *path, const char *text)
{
	ssize_t n, len = strlen(text);
	int fd, ret = 0;

	fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = write(fd, text, len);
	if (n != len)
		ret = n < 0 ? -errno : -EIO;
	close(fd);
	return ret;
}

int dax_param_get(const char *path)
{
	char c = 0;
	int fd, ret;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ret = read(fd, &c, 1) == 1 ? c == 'Y' : -EIO;
	close(fd);
	return ret;
}

int dax_param_set(const char *path, bool on)
{
	return dax_put(path, on ? "Y" : "N");
}

int dax_fast_get(void)
{
	return dax_param_get(FAST_PARAM);
}

int dax_fast_set(bool on)
{
	return dax_param_set(FAST_PARAM, on);
}

bool dax_unlocked_exists(void)
{
	return !access(UNLOCKED_PARAM, F_OK);
}

int dax_unlocked_set(bool on)
{
	return dax_param_set(UNLOCKED_PARAM, on);
}

__s64 dax_physical(int fd, loff_t pos)
{
	struct {
		struct fiemap map;
		struct fiemap_extent extent;
	} req = {
		.map = {
			.fm_start = pos,
			.fm_length = 1,
			.fm_extent_count = 1,
		},
	};

	if (ioctl(fd, FS_IOC_FIEMAP, &req))
		return -errno;
	if (!req.map.fm_mapped_extents)
		return -ENOENT;
	return req.extent.fe_physical + pos - req.extent.fe_logical;
}

int dax_count_extents(int fd)
{
	struct fiemap map = { .fm_length = FIEMAP_MAX_OFFSET };

	if (ioctl(fd, FS_IOC_FIEMAP, &map))
		return -errno;
	return map.fm_mapped_extents;
}

int dax_set_flag(int fd, bool on)
{
	struct fsxattr attr;

	if (ioctl(fd, FS_IOC_FSGETXATTR, &attr))
		return -errno;
	if (on)
		attr.fsx_xflags |= FS_XFLAG_DAX;
	else
		attr.fsx_xflags &= ~FS_XFLAG_DAX;
	return ioctl(fd, FS_IOC_FSSETXATTR, &attr) ? -errno : 0;
}

int dax_write_all(int fd, const void *buf, size_t len, loff_t pos)
{
	ssize_t n;

	for (; len; len -= n, pos += n, buf += n) {
		n = pwrite(fd, buf, len, pos);
		if (n <= 0)
			return n ? -errno : -EIO;
	}
	return 0;
}
