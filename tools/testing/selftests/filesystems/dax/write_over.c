// SPDX-License-Identifier: GPL-2.0
/*
 * Overwrites of blocks of an ext4 DAX file that are already written, by the
 * fast path and by the generic path. The tests check contents, mappings and
 * side effects.
 */

#define _GNU_SOURCE
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "mmap_fixture.h"

#define PARAM "/sys/module/dax_read/parameters/fast"
#define BLOCKS 64UL
#define ROUNDS 400
#define NOBODY 65534

FIXTURE(write_over)
{
	struct mmap_test t;
	struct dax_rnd rnd;
	int was;
	char *model;
	char *buf;
	int fd;
};

FIXTURE_VARIANT(write_over)
{
	bool fast;
};

FIXTURE_VARIANT_ADD(write_over, generic)
{
	false,
};

FIXTURE_VARIANT_ADD(write_over, fast)
{
	true,
};

FIXTURE_SETUP(write_over)
{
	size_t len;

	mmap_begin(_metadata, &self->t, MMAP_EXT4);
	if (_metadata->exit_code)
		return;
	self->was = dax_param_get(PARAM);
	if (self->was < 0)
		SKIP(return, "no dax_read.fast: no second way");
	ASSERT_EQ(0, dax_param_set(PARAM, variant->fast));
	dax_seed(&self->rnd, _metadata->name);
	len = BLOCKS * self->t.bs;
	self->model = dax_alloc(_metadata, len);
	self->buf = dax_alloc(_metadata, len);
	self->fd = mmap_file(&self->t, "file", BLOCKS);
	ASSERT_GE(self->fd, 0);
}

FIXTURE_TEARDOWN(write_over)
{
	close(self->fd);
	if (self->was >= 0)
		EXPECT_EQ(0, dax_param_set(PARAM, self->was));
	mmap_end(_metadata, &self->t);
}

/* Writes one piece, two pieces, or two pieces with RWF_DSYNC. */
static ssize_t write_some(int fd, char *data, size_t len, off_t pos, int how)
{
	struct iovec iov[2] = {
		{ .iov_base = data, .iov_len = len / 2 },
		{ .iov_base = data + len / 2, .iov_len = len - len / 2 },
	};

	switch (how) {
	case 0:
		return pwritev(fd, iov, 2, pos);
	case 1:
		return pwritev2(fd, iov, 2, pos, RWF_DSYNC);
	default:
		return pwrite(fd, data, len, pos);
	}
}

/* Two extents of data. A hole and unwritten blocks are in between. */
static void lay_out(struct __test_metadata *_metadata,
		    FIXTURE_DATA(write_over) *self)
{
	size_t bs = self->t.bs, quarter = BLOCKS / 4 * bs;

	dax_rnd_fill(&self->rnd, self->model, quarter);
	dax_rnd_fill(&self->rnd, self->model + 2 * quarter, 2 * quarter);
	ASSERT_EQ(0, dax_write_all(self->fd, self->model, quarter, 0));
	ASSERT_EQ(0, fallocate(self->fd, 0, quarter + quarter / 2,
			       quarter / 2));
	ASSERT_EQ(0, dax_write_all(self->fd, self->model + 2 * quarter,
				   2 * quarter, 2 * quarter));
}

TEST_F(write_over, contents)
{
	size_t bs = self->t.bs, size = BLOCKS * bs, pos, len;
	struct mmap_map m;
	unsigned int i;

	lay_out(_metadata, self);
	ASSERT_EQ(0, mmap_at(&self->t, &m, self->fd, 0, BLOCKS, PROT_READ,
			     MAP_SHARED, 1));
	for (i = 0; i < ROUNDS * dax_scale(); i++) {
		pos = dax_rnd_below(&self->rnd, size);
		len = 1 + dax_rnd_below(&self->rnd, i % 2 ? 16 : 3 * bs);
		if (len > size - pos)
			len = size - pos;
		/* Map the old content of the page before the write. */
		mmap_touch(m.at + pos / bs * bs, 1, 1);
		dax_rnd_fill(&self->rnd, self->model + pos, len);
		ASSERT_EQ((ssize_t)len,
			  write_some(self->fd, self->model + pos, len, pos,
				     dax_rnd_below(&self->rnd, 8)));
		ASSERT_EQ(0, memcmp(m.at + pos, self->model + pos, len))
			TH_LOG("mapped: %zu at %zu", len, pos);
		ASSERT_EQ((ssize_t)len, pread(self->fd, self->buf, len, pos));
		ASSERT_EQ(0, memcmp(self->buf, self->model + pos, len))
			TH_LOG("read: %zu at %zu", len, pos);
	}
	ASSERT_EQ(0, memcmp(m.at, self->model, size));
	mmap_gone(&m);
	ASSERT_EQ(0, fsync(self->fd));
	close(self->fd);
	ASSERT_EQ(0, dax_drop_caches());
	self->fd = dax_open(&self->t.fs, "file", O_RDWR);
	ASSERT_GE(self->fd, 0);
	ASSERT_EQ((ssize_t)size, pread(self->fd, self->buf, size, 0));
	ASSERT_EQ(0, memcmp(self->buf, self->model, size));
}

/*
 * ext4 fills unwritten blocks beside a write with zeroes. The mapping still
 * shows such blocks as holes.
 */
TEST_F(write_over, zero_pages_go)
{
	size_t bs = self->t.bs;
	struct mmap_map m;
	unsigned long i;

	ASSERT_EQ(0, fallocate(self->fd, 0, 0, 4 * bs));
	ASSERT_EQ(0, mmap_at(&self->t, &m, self->fd, 0, 4, PROT_READ,
			     MAP_SHARED, 1));
	mmap_touch(m.at, 4, bs);
	for (i = 0; i < 4; i++) {
		ASSERT_EQ(0, dax_write_all(self->fd, "x", 1, i * bs));
		EXPECT_EQ('x', m.at[i * bs])
			TH_LOG("block %lu", i);
	}
	mmap_gone(&m);
}

/* A write stores only the accessible part of its buffer. */
TEST_F(write_over, bad_buffers)
{
	size_t bs = self->t.bs;
	char *two = dax_alloc(_metadata, 2 * bs);
	ssize_t len;

	memset(two, 'b', bs);
	ASSERT_EQ(0, munmap(two + bs, bs));
	memset(self->model, 'a', 4 * bs);
	ASSERT_EQ(0, dax_write_all(self->fd, self->model, 4 * bs, 0));

	EXPECT_EQ(-1, pwrite(self->fd, two + bs, 100, 10));
	EXPECT_EQ(EFAULT, errno);
	ASSERT_EQ((ssize_t)(4 * bs), pread(self->fd, self->buf, 4 * bs, 0));
	EXPECT_EQ(0, memcmp(self->buf, self->model, 4 * bs));

	/* Aligned, because a flushing copy may drop the last few bytes. */
	len = pwrite(self->fd, two + bs - 96, 320, bs + 32);
	ASSERT_LE(96 - (variant->fast ? DAX_COPY_SHORT : 0), len);
	ASSERT_GE(96, len);
	memset(self->model + bs + 32, 'b', len);
	ASSERT_EQ((ssize_t)(4 * bs), pread(self->fd, self->buf, 4 * bs, 0));
	EXPECT_EQ(0, memcmp(self->buf, self->model, 4 * bs));
	munmap(two, bs);
}

TEST_F(write_over, times_and_privileges)
{
	const struct timespec past[2] = { { .tv_sec = 1000 },
					  { .tv_sec = 1000 } };
	struct stat st;
	int status;
	pid_t pid;

	ASSERT_EQ(0, dax_write_all(self->fd, "aaaa", 4, 0));
	ASSERT_EQ(0, futimens(self->fd, past));
	ASSERT_EQ(0, fchmod(self->fd, 04755));
	ASSERT_EQ(0, fstat(self->fd, &st));
	EXPECT_EQ(1000, st.st_mtim.tv_sec);
	EXPECT_EQ(S_ISUID, (int)(st.st_mode & S_ISUID));

	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid)
		_exit(setuid(NOBODY) || pwrite(self->fd, "b", 1, 1) != 1);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	ASSERT_EQ(0, fstat(self->fd, &st));
	EXPECT_LT(1000, st.st_mtim.tv_sec);
	EXPECT_EQ(0, (int)(st.st_mode & S_ISUID));
}

int main(int argc, char **argv)
{
	return dax_main(argc, argv);
}
