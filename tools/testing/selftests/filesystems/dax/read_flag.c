// SPDX-License-Identifier: GPL-2.0
/*
 * Files with DAX beside files without DAX.
 *
 * With -o dax=inode, the flag of a file decides. A change of the flag takes
 * effect when the inode has been evicted. A file without DAX may have its
 * newest bytes in the page cache, and may have no blocks yet. A DAX read of
 * such a file would return old bytes, zeroes or an error.
 */

#include <linux/ext4.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include "dax_fixture.h"

#define FILE_BLOCKS 8

struct flag {
	struct dax_test test;
	struct dax_rnd rnd;
	size_t len;
	char *want;
	char *buf;
	char *fixed;
};

static void flag_begin(struct __test_metadata *_metadata, struct flag *t,
		       enum dax_path_kind kind, const struct dax_setup *setup,
		       size_t blocks)
{
	dax_begin(_metadata, &t->test, kind, setup);
	if (_metadata->exit_code)
		return;
	dax_seed(&t->rnd, _metadata->name);
	t->len = blocks * dax_bs();
	t->want = dax_alloc(_metadata, t->len);
	t->buf = dax_alloc(_metadata, t->len);
}

FIXTURE(read_flag)
{
	struct flag t;
};

FIXTURE_VARIANT(read_flag)
{
	enum dax_path_kind kind;
	struct dax_setup setup;
};

FIXTURE_VARIANT_ADD(read_flag, generic)
{
	.kind = DAX_GENERIC, .setup.mount = "dax=inode",
};

FIXTURE_VARIANT_ADD(read_flag, fast)
{
	.kind = DAX_FAST, .setup.mount = "dax=inode",
};

FIXTURE_SETUP(read_flag)
{
	flag_begin(_metadata, &self->t, variant->kind, &variant->setup,
		   FILE_BLOCKS);
	if (_metadata->exit_code)
		return;
	self->t.fixed = dax_alloc(_metadata, self->t.len);
}

FIXTURE_TEARDOWN(read_flag)
{
	struct flag *t = &self->t;

	dax_end(_metadata, &t->test);
}

/* Opens a file and makes sure that it uses DAX as @dax says. */
static int open_as(struct __test_metadata *_metadata,
		   struct flag *t, const char *name, bool dax)
{
	int fd;

	fd = dax_open(&t->test.fs, name, O_RDWR | O_CREAT);
	ASSERT_GE(fd, 0);
	if (dax_is_dax(fd) != dax) {
		ASSERT_EQ(0, dax_set_flag(fd, dax));
		close(fd);
		ASSERT_EQ(0, dax_drop_caches());
		fd = dax_open(&t->test.fs, name, O_RDWR);
		ASSERT_GE(fd, 0);
	}
	ASSERT_EQ(dax, dax_is_dax(fd));
	return fd;
}

/* Checks the content by all methods, on new descriptors. */
static void check_content(struct __test_metadata *_metadata,
			  struct flag *t, const char *name)
{
	struct dax_reader rd;
	char path[256];
	unsigned int i;
	ssize_t ret;

	dax_path(&t->test.fs, name, path, sizeof(path));
	ASSERT_EQ(0, dax_reader_open(&rd, path, t->fixed, t->len));
	for (i = 0; i < dax_nr_methods; i++) {
		/* Skip O_DIRECT, as it is meant to read the medium. */
		if (!strcmp(dax_methods[i].name, "pread O_DIRECT"))
			continue;
		memset(t->buf, 0x5a, t->len);
		ret = dax_methods[i].read(&rd, t->buf, t->len, 0);
		if (ret == DAX_NO_METHOD)
			continue;
		EXPECT_EQ((ssize_t)t->len, ret)
			TH_LOG("%s of %s", dax_methods[i].name, name);
		EXPECT_EQ(0, memcmp(t->buf, t->want, t->len))
			TH_LOG("%s of %s has other bytes",
			       dax_methods[i].name, name);
	}
	dax_reader_close(&rd);
}

static void fill(struct __test_metadata *_metadata,
		 struct flag *t, int fd)
{
	dax_rnd_fill(&t->rnd, t->want, t->len);
	ASSERT_EQ(0, dax_write_all(fd, t->want, t->len, 0));
}

/* Bytes that were never written back have no blocks. */
TEST_F(read_flag, page_cache_not_allocated)
{
	struct flag *t = &self->t;
	int fd = open_as(_metadata, t, "cached", false);

	fill(_metadata, t, fd);
	check_content(_metadata, t, "cached");
	close(fd);
}

/* The blocks contain older bytes than the page cache. */
TEST_F(read_flag, page_cache_newer)
{
	struct flag *t = &self->t;
	int fd = open_as(_metadata, t, "cached", false);

	fill(_metadata, t, fd);
	ASSERT_EQ(0, fsync(fd));
	fill(_metadata, t, fd);
	check_content(_metadata, t, "cached");
	close(fd);
}

static void store(struct __test_metadata *_metadata,
		  struct flag *t, int fd)
{
	char *p = mmap(NULL, t->len, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		       0);

	ASSERT_NE(MAP_FAILED, p);
	dax_rnd_fill(&t->rnd, t->want, t->len);
	memcpy(p, t->want, t->len);
	munmap(p, t->len);
}

/* Write both kinds of files through a mapping. */
TEST_F(read_flag, stored)
{
	struct flag *t = &self->t;
	int fd;

	fd = open_as(_metadata, t, "cached", false);
	fill(_metadata, t, fd);
	store(_metadata, t, fd);
	check_content(_metadata, t, "cached");
	close(fd);

	fd = open_as(_metadata, t, "dax", true);
	fill(_metadata, t, fd);
	store(_metadata, t, fd);
	check_content(_metadata, t, "dax");
	close(fd);
}

/* ext4 must not swap blocks of a DAX file, because that could free them. */
TEST_F(read_flag, defragmentation_is_refused)
{
	struct flag *t = &self->t;
	struct move_extent move = { .len = FILE_BLOCKS };
	int cached, dax;

	if (dax_skips_bug(_metadata))
		return;
	cached = open_as(_metadata, t, "cached", false);
	dax = open_as(_metadata, t, "dax", true);
	fill(_metadata, t, cached);
	ASSERT_EQ(0, fsync(cached));
	fill(_metadata, t, dax);
	move.donor_fd = dax;
	EXPECT_EQ(-1, ioctl(cached, EXT4_IOC_MOVE_EXT, &move));
	EXPECT_EQ(EOPNOTSUPP, errno);
	check_content(_metadata, t, "dax");
	close(dax);
	close(cached);
}

/* Switch back and forth, with new bytes each time. */
TEST_F(read_flag, flag_changes)
{
	struct flag *t = &self->t;
	unsigned int round;
	int fd;

	for (round = 0; round < 6; round++) {
		fd = open_as(_metadata, t, "file", round % 2);
		if (round)
			check_content(_metadata, t, "file");
		fill(_metadata, t, fd);
		check_content(_metadata, t, "file");
		close(fd);
	}
}

/* A change of the flag has no effect while the file is open. */
TEST_F(read_flag, flag_changes_while_open)
{
	struct flag *t = &self->t;
	bool dax;
	int fd;

	for (dax = false;; dax = true) {
		fd = open_as(_metadata, t, "file", dax);
		fill(_metadata, t, fd);
		ASSERT_EQ(0, dax_set_flag(fd, !dax));
		EXPECT_EQ(dax, dax_is_dax(fd));
		check_content(_metadata, t, "file");
		fill(_metadata, t, fd);
		check_content(_metadata, t, "file");
		close(fd);

		fd = open_as(_metadata, t, "file", !dax);
		check_content(_metadata, t, "file");
		close(fd);
		if (dax)
			break;
	}
}

/* A file of each kind in turn: neither one affects the other. */
TEST_F(read_flag, side_by_side)
{
	struct flag *t = &self->t;
	char *want = dax_alloc(_metadata, t->len);
	char *keep = t->want;
	int i, cached, dax;

	cached = open_as(_metadata, t, "cached", false);
	dax = open_as(_metadata, t, "dax", true);
	for (i = 0; i < 3; i++) {
		t->want = keep;
		fill(_metadata, t, cached);
		t->want = want;
		fill(_metadata, t, dax);
		t->want = keep;
		check_content(_metadata, t, "cached");
		t->want = want;
		check_content(_metadata, t, "dax");
	}
	close(cached);
	close(dax);
}

/* A filesystem that stores small files in their inodes. */
FIXTURE(read_inline)
{
	struct flag t;
};

FIXTURE_VARIANT(read_inline)
{
	enum dax_path_kind kind;
	struct dax_setup setup;
};

FIXTURE_VARIANT_ADD(read_inline, generic)
{
	.kind = DAX_GENERIC,
	.setup.mkfs = DAX_MKFS " -O inline_data", .setup.mount = "dax=inode",
};

FIXTURE_VARIANT_ADD(read_inline, fast)
{
	.kind = DAX_FAST,
	.setup.mkfs = DAX_MKFS " -O inline_data", .setup.mount = "dax=inode",
};

FIXTURE_SETUP(read_inline)
{
	if (dax_skips_bug(_metadata))
		return;
	flag_begin(_metadata, &self->t, variant->kind, &variant->setup, 1);
}

FIXTURE_TEARDOWN(read_inline)
{
	dax_end(_metadata, &self->t.test);
}

/*
 * The first bytes of inline data are at the place of the first block number in
 * an inode without extents. Here these bytes are the number of a block of
 * another file. Reads have to return them as data, and the other file stays
 * unchanged.
 */
TEST_F(read_inline, content_is_no_block_number)
{
	struct flag *t = &self->t;
	char small[60], got[60];
	int other, fd, block = 0;

	other = dax_open(&t->test.fs, "other", O_RDWR | O_CREAT);
	ASSERT_GE(other, 0);
	fill(_metadata, t, other);
	ASSERT_EQ(0, fsync(other));
	ASSERT_EQ(0, ioctl(other, FIBMAP, &block));
	ASSERT_NE(0, block);

	dax_rnd_fill(&t->rnd, small, sizeof(small));
	memset(small, 0, 48);
	memcpy(small, &block, sizeof(block));
	fd = dax_open(&t->test.fs, "small", O_RDWR | O_CREAT);
	ASSERT_GE(fd, 0);
	ASSERT_EQ(0, dax_set_flag(fd, true));
	ASSERT_EQ(0, dax_write_all(fd, small, sizeof(small), 0));
	close(fd);
	ASSERT_EQ(0, dax_drop_caches());

	fd = dax_open(&t->test.fs, "small", O_RDWR);
	ASSERT_GE(fd, 0);
	EXPECT_EQ((ssize_t)sizeof(got), pread(fd, got, sizeof(got), 0));
	EXPECT_EQ(0, memcmp(got, small, sizeof(got)));
	/* Move the data out of the inode. */
	EXPECT_EQ(0, fallocate(fd, 0, 0, t->len));
	EXPECT_EQ((ssize_t)sizeof(got), pread(fd, got, sizeof(got), 0));
	EXPECT_EQ(0, memcmp(got, small, sizeof(got)));
	close(fd);
	ASSERT_EQ(0, dax_drop_caches());
	EXPECT_EQ((ssize_t)t->len, pread(other, t->buf, t->len, 0));
	EXPECT_EQ(0, memcmp(t->buf, t->want, t->len));
	close(other);
}

/* However files are created, reads work at once and after eviction. */
FIXTURE(read_new)
{
	struct dax_test test;
};

FIXTURE_VARIANT(read_new)
{
	enum dax_path_kind kind;
	struct dax_setup setup;
};

FIXTURE_VARIANT_ADD(read_new, generic)
{
	.kind = DAX_GENERIC,
};

FIXTURE_VARIANT_ADD(read_new, fast)
{
	.kind = DAX_FAST,
};

FIXTURE_SETUP(read_new)
{
	dax_begin(_metadata, &self->test, variant->kind, &variant->setup);
}

FIXTURE_TEARDOWN(read_new)
{
	dax_end(_metadata, &self->test);
}

static void check_new(struct __test_metadata *_metadata, int fd, bool written)
{
	char buf[32] = "";

	ASSERT_GE(fd, 0);
	ASSERT_EQ(1, dax_is_dax(fd));
	if (!written)
		ASSERT_EQ(0, dax_write_all(fd, "hello", 5, 0));
	ASSERT_EQ(5, pread(fd, buf, sizeof(buf), 0));
	EXPECT_STREQ("hello", buf);
	ASSERT_EQ(0, lseek(fd, 0, SEEK_SET));
	memset(buf, 0, sizeof(buf));
	ASSERT_EQ(5, read(fd, buf, sizeof(buf)));
	EXPECT_STREQ("hello", buf);
	close(fd);
}

TEST_F(read_new, created)
{
	check_new(_metadata, dax_open(&self->test.fs, "new",
				      O_RDWR | O_CREAT | O_EXCL), false);
	check_new(_metadata, dax_open(&self->test.fs, "new", O_RDWR), true);
	ASSERT_EQ(0, dax_drop_caches());
	check_new(_metadata, dax_open(&self->test.fs, "new", O_RDONLY), true);
}

TEST_F(read_new, without_a_name)
{
	char proc[64], path[256];
	int fd, same;

	fd = dax_open(&self->test.fs, ".", O_RDWR | O_TMPFILE);
	ASSERT_GE(fd, 0);
	same = dup(fd);
	check_new(_metadata, fd, false);

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", same);
	dax_path(&self->test.fs, "linked", path, sizeof(path));
	ASSERT_EQ(0, linkat(AT_FDCWD, proc, AT_FDCWD, path,
			    AT_SYMLINK_FOLLOW));
	close(same);
	ASSERT_EQ(0, dax_drop_caches());
	check_new(_metadata, dax_open(&self->test.fs, "linked", O_RDWR), true);
}

TEST_F(read_new, unlinked)
{
	char path[256];
	int fd;

	fd = dax_open(&self->test.fs, "gone", O_RDWR | O_CREAT);
	ASSERT_GE(fd, 0);
	dax_path(&self->test.fs, "gone", path, sizeof(path));
	ASSERT_EQ(0, unlink(path));
	check_new(_metadata, fd, false);
}

int main(int argc, char **argv)
{
	return dax_main(argc, argv);
}
