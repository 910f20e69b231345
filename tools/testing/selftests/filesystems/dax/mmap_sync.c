// SPDX-License-Identifier: GPL-2.0
/*
 * fsync(2) flushes stores to a mapping of a DAX file before it returns,
 * whatever else has changed the file meanwhile.
 *
 * Stores may only be in CPU caches. The kernel flushes the pages that have
 * entries in the mapping tree of the file. Truncation, hole punching and
 * cloning delete these entries. A missing flush is only visible after a power
 * failure. The tests therefore count the trace event fs_dax:dax_writeback_one.
 */

#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include "mmap_fixture.h"

#define TRACEFS "/sys/kernel/tracing"
#define INSTANCE TRACEFS "/instances/dax_selftest"
#define EVENT INSTANCE "/events/fs_dax/dax_writeback_one"
#define PAGES 4UL

FIXTURE(mmap_sync)
{
	struct mmap_test t;
	int fd;
	struct mmap_map m;
};

FIXTURE_VARIANT(mmap_sync)
{
	enum mmap_fs kind;
};

FIXTURE_VARIANT_ADD(mmap_sync, ext4) { .kind = MMAP_EXT4 };
FIXTURE_VARIANT_ADD(mmap_sync, xfs) { .kind = MMAP_XFS };
FIXTURE_VARIANT_ADD(mmap_sync, xfs_reflink) { .kind = MMAP_XFS_REFLINK };

/* -- the kernel's events */

/* Makes a tracing instance for this test. Returns false without tracefs. */
static bool tracing_begin(void)
{
	/* Ignore the error: tracefs may already be mounted. */
	mount("tracefs", TRACEFS, "tracefs", 0, NULL);
	rmdir(INSTANCE);
	return !mkdir(INSTANCE, 0700);
}

static int trace_file(int fd)
{
	char filter[64];
	struct stat st;
	int ret;

	if (fstat(fd, &st))
		return -errno;
	snprintf(filter, sizeof(filter), "ino == %llu",
		 (unsigned long long)st.st_ino);
	ret = dax_put(EVENT "/filter", filter);
	return ret ?: dax_put(EVENT "/enable", "1");
}

/* Counts the flushes of the file since the last call. */
static int count_flushes(void)
{
	FILE *f = fopen(INSTANCE "/trace", "r");
	char line[512];
	int n = 0;

	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f))
		n += line[0] != '#' && strstr(line, "dax_writeback_one:");
	fclose(f);
	return dax_put(INSTANCE "/trace", "") ?: n;
}

FIXTURE_SETUP(mmap_sync)
{
	struct mmap_test *t = &self->t;

	mmap_begin(_metadata, t, variant->kind);
	if (_metadata->exit_code)
		return;
	if (!tracing_begin())
		SKIP(return, "needs tracefs and CONFIG_ENABLE_DEFAULT_TRACERS");
	self->fd = mmap_file(t, "file", PAGES);
	ASSERT_GE(self->fd, 0);
	ASSERT_EQ(0, mmap_fill(t, self->fd, 0, PAGES, 'a'));
	ASSERT_EQ(0, mmap_at(t, &self->m, self->fd, 0, PAGES,
			     PROT_READ | PROT_WRITE, MAP_SHARED, 1));
	ASSERT_EQ(0, trace_file(self->fd));
	ASSERT_EQ(0, count_flushes());
}

FIXTURE_TEARDOWN(mmap_sync)
{
	if (self->m.area_len)
		mmap_gone(&self->m);
	if (self->fd > 0)
		close(self->fd);
	dax_put(EVENT "/enable", "0");
	rmdir(INSTANCE);
	mmap_end(_metadata, &self->t);
}

/* Stores to page 0, does @op, and checks that fsync(2) flushes the store. */
#define expect_flushed(op) do {						\
	mmap_poke(self->m.at, 'S');					\
	ASSERT_EQ(0, op);						\
	ASSERT_EQ(0, fsync(self->fd));					\
	EXPECT_EQ(1, count_flushes())					\
		TH_LOG("a page that was stored to is not flushed once");	\
	EXPECT_EQ('S', self->m.at[0]);					\
	/* The page is clean now. A new store makes it dirty again. */	\
	ASSERT_EQ(0, fsync(self->fd));					\
	EXPECT_EQ(0, count_flushes());					\
	mmap_poke(self->m.at, 'T');					\
	ASSERT_EQ(0, fsync(self->fd));					\
	EXPECT_EQ(1, count_flushes());					\
} while (0)

TEST_F(mmap_sync, store)
{
	expect_flushed(0);
}

TEST_F(mmap_sync, store_and_truncation)
{
	size_t size = PAGES * self->t.bs;

	expect_flushed(ftruncate(self->fd, size));
	expect_flushed(ftruncate(self->fd, size + 1));
	expect_flushed(ftruncate(self->fd, size / 2));
	expect_flushed(ftruncate(self->fd, 1));
}

TEST_F(mmap_sync, store_and_hole)
{
	size_t bs = self->t.bs;

	expect_flushed(fallocate(self->fd,
				 FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				 bs, bs));
	expect_flushed(fallocate(self->fd, FALLOC_FL_ZERO_RANGE, 2 * bs, bs));
	expect_flushed(fallocate(self->fd, FALLOC_FL_COLLAPSE_RANGE, bs, bs));
}

static int punch(int fd, loff_t pos, size_t len)
{
	return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, pos,
			 len);
}

/* Truncation and hole punching leave other pages mapped and dirty. */
TEST_F(mmap_sync, store_beside_a_page_that_is_dropped)
{
	size_t bs = self->t.bs;

	mmap_poke(self->m.at, 'S');
	mmap_poke(self->m.at + 2 * bs, 'S');
	mmap_poke(self->m.at + 3 * bs, 'S');
	ASSERT_EQ(0, punch(self->fd, 2 * bs, bs));
	ASSERT_EQ(0, ftruncate(self->fd, 3 * bs));
	count_flushes();
	EXPECT_EQ(1, mmap_present(self->m.at))
		TH_LOG("a page beside them was unmapped");
	ASSERT_EQ(0, fsync(self->fd));
	EXPECT_EQ(1, count_flushes());
	EXPECT_EQ('S', self->m.at[0]);
	EXPECT_EQ(0, self->m.at[2 * bs]);
}

/* The rest of a cut huge page is flushed. Single pages can read its data. */
TEST_F(mmap_sync, store_to_a_huge_page_that_is_cut)
{
	const unsigned long pages = MMAP_HUGE / self->t.bs;
	size_t bs = self->t.bs;
	struct mmap_map huge, single;
	int fd = mmap_file(&self->t, "huge", pages);

	ASSERT_GE(fd, 0);
	ASSERT_EQ(0, fallocate(fd, 0, 0, MMAP_HUGE));
	ASSERT_EQ(0, mmap_fill(&self->t, fd, 0, pages, 'a'));
	ASSERT_EQ(0, mmap_at(&self->t, &huge, fd, 0, pages,
			     PROT_READ | PROT_WRITE, MAP_SHARED, 0));
	ASSERT_EQ(0, mmap_at(&self->t, &single, fd, 0, pages, PROT_READ,
			     MAP_SHARED, 1));
	ASSERT_EQ(0, trace_file(fd));

	mmap_poke(huge.at, 'S');
	mmap_poke(huge.at + MMAP_HUGE - bs, 'S');
	EXPECT_EQ('S', single.at[0]);
	ASSERT_EQ(0, punch(fd, MMAP_HUGE / 2, bs));
	ASSERT_EQ(0, fsync(fd));
	EXPECT_LE(1, count_flushes()) TH_LOG("the hole has lost a store");
	EXPECT_EQ('S', single.at[0]);
	EXPECT_EQ(0, single.at[MMAP_HUGE / 2]);
	EXPECT_EQ('S', single.at[MMAP_HUGE - bs]);

	mmap_poke(huge.at, 'T');
	EXPECT_EQ('T', single.at[0]);
	ASSERT_EQ(0, ftruncate(fd, MMAP_HUGE / 2));
	ASSERT_EQ(0, fsync(fd));
	EXPECT_LE(1, count_flushes()) TH_LOG("truncation has lost a store");
	EXPECT_EQ('T', single.at[0]);
	mmap_gone(&single);
	mmap_gone(&huge);
	close(fd);
}

/* Clones a page. If blocks cannot be shared, the clone has to fail. */
static int clone_page(enum mmap_fs kind, int from, int to, loff_t pos, size_t len)
{
	struct file_clone_range range = {
		.src_fd = from, .src_offset = pos, .src_length = len,
		.dest_offset = pos,
	};
	int ret = ioctl(to, FICLONERANGE, &range) ? -errno : 0;

	if (kind == MMAP_XFS_REFLINK)
		return ret;
	return ret == -EOPNOTSUPP ? 0 : ret ?: -EINVAL;
}

/* Stores to the source and to the target of a clone are flushed. */
TEST_F(mmap_sync, store_and_clone)
{
	size_t bs = self->t.bs;
	int i, fd, other = mmap_file(&self->t, "other", PAGES);

	ASSERT_GE(other, 0);
	ASSERT_EQ(0, mmap_fill(&self->t, other, 0, PAGES, 'k'));
	/* In turn, each file is the one with the higher inode number. */
	for (i = 0; i < 2; i++) {
		fd = self->fd;
		expect_flushed(clone_page(variant->kind, fd, other, bs, bs));
		expect_flushed(clone_page(variant->kind, other, fd, 2 * bs, bs));
		mmap_gone(&self->m);
		self->fd = other;
		other = fd;
		ASSERT_EQ(0, mmap_at(&self->t, &self->m, self->fd, 0, PAGES,
				     PROT_READ | PROT_WRITE, MAP_SHARED, 1));
		ASSERT_EQ(0, trace_file(self->fd));
	}
	close(other);
}

int main(int argc, char **argv)
{
	return dax_main(argc, argv);
}
