// SPDX-License-Identifier: GPL-2.0
/*
 * Reads that cannot succeed: bad blocks, a filesystem that is shut down, and a
 * reader that is killed.
 */

#include <linux/fs.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "dax_fixture.h"

#define EXT4_IOC_SHUTDOWN _IOR('X', 125, __u32)
#define EXT4_GOING_FLAGS_NOLOGFLUSH 2

struct errors {
	struct dax_test test;
	size_t bs;
	char *want;
	char *buf;
	size_t len;
	int fd;
};

FIXTURE(read_errors)
{
	struct errors t;
};

FIXTURE_VARIANT(read_errors)
{
	enum dax_path_kind kind;
	struct dax_setup setup;
};

FIXTURE_VARIANT_ADD(read_errors, generic)
{
	.kind = DAX_GENERIC,
};

FIXTURE_VARIANT_ADD(read_errors, fast)
{
	.kind = DAX_FAST,
};

FIXTURE_VARIANT_ADD(read_errors, generic_xfs)
{
	.kind = DAX_GENERIC,
	.setup.xfs = "reflink=0",
};

FIXTURE_VARIANT_ADD(read_errors, fast_xfs)
{
	.kind = DAX_FAST,
	.setup.xfs = "reflink=0",
};

#define FILE_BLOCKS 16

FIXTURE_SETUP(read_errors)
{
	struct errors *t = &self->t;
	struct dax_rnd rnd = { 1 };

	dax_begin(_metadata, &t->test, variant->kind, &variant->setup);
	if (_metadata->exit_code)
		return;
	t->bs = dax_bs();
	t->len = FILE_BLOCKS * t->bs;
	t->want = dax_alloc(_metadata, t->len);
	t->buf = dax_alloc(_metadata, t->len);
	dax_rnd_fill(&rnd, t->want, t->len);
	t->fd = dax_open(&t->test.fs, "file", O_RDWR | O_CREAT);
	ASSERT_GE(t->fd, 0);
	ASSERT_EQ(0, dax_write_all(t->fd, t->want, t->len, 0));
}

FIXTURE_TEARDOWN(read_errors)
{
	struct errors *t = &self->t;

	close(t->fd);
	dax_end(_metadata, &t->test);
}

static void open_reader(struct __test_metadata *_metadata,
			struct errors *t, const char *name,
			struct dax_reader *rd)
{
	char path[256];

	dax_path(&t->test.fs, name, path, sizeof(path));
	ASSERT_EQ(0, dax_reader_open(rd, path,
				     dax_alloc(_metadata, t->len),
				     t->len));
}

/* -- bad blocks */

/* Clears a bad block by a write. */
static void repair(struct __test_metadata *_metadata,
		   struct errors *t, int file, size_t block)
{
	char left[64];
	int fd;

	ASSERT_EQ(0, dax_write_all(file, t->want + block * t->bs,
				   t->bs, block * t->bs));
	fd = dax_open_badblocks(t->test.fs.dev, O_RDONLY);
	ASSERT_GE(fd, 0);
	EXPECT_EQ(0, read(fd, left, sizeof(left)));
	close(fd);
}

static bool has_badblocks(const struct errors *t)
{
	int fd = dax_open_badblocks(t->test.fs.dev, O_WRONLY);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Makes a file of one-block extents with holes between them. */
static int scattered_file(struct __test_metadata *_metadata,
			  struct errors *t)
{
	size_t i, bs = t->bs;
	int fd;

	fd = dax_open(&t->test.fs, "scattered", O_RDWR | O_CREAT);
	ASSERT_GE(fd, 0);
	for (i = 0; i < FILE_BLOCKS; i += 2) {
		ASSERT_EQ(0, dax_write_all(fd, t->want + i * bs, bs,
					   i * bs));
		memset(t->want + (i + 1) * bs, 0, bs);
	}
	ASSERT_EQ(0, ftruncate(fd, t->len));
	return fd;
}

/* Returns the expected result of a read if block @bad is bad. */
static ssize_t bad_count(size_t pos, size_t len, size_t bad, size_t bs)
{
	if (pos + len <= bad * bs || pos >= (bad + 1) * bs)
		return len;
	return pos >= bad * bs ? -EIO : (ssize_t)(bad * bs - pos);
}

#define BAD 6

/* Reads all around the bad block by one method. */
static void check_bad(struct __test_metadata *_metadata, struct errors *t,
		      struct dax_reader *rd, const struct dax_method *method,
		      size_t pos)
{
	ssize_t want, ret;
	size_t len;

	for (len = 1; len <= 4 * t->bs; len += t->bs / 6) {
		want = bad_count(pos, len, BAD, t->bs);
		memset(t->buf, 0x5a, len);
		ret = method->read(rd, t->buf, len, pos);
		if (ret == DAX_NO_METHOD)
			return;
		EXPECT_EQ(want, ret)
			TH_LOG("%s of %zu at %zu", method->name, len, pos);
		if (want > 0)
			EXPECT_EQ(0, memcmp(t->buf, t->want + pos, want));
	}
}

/*
 * Each block is an extent. A read returns the bytes before the bad block, or
 * -EIO if there are none.
 */
TEST_F(read_errors, bad_block_partial_count)
{
	struct errors *t = &self->t;
	size_t bs = t->bs, pos;
	struct dax_reader rd;
	unsigned int i;
	int fd;

	if (!has_badblocks(t))
		SKIP(return, "the device keeps no list of bad blocks");
	fd = scattered_file(_metadata, t);
	open_reader(_metadata, t, "scattered", &rd);
	ASSERT_EQ(0, dax_mark_bad(t->test.fs.dev, fd, BAD * t->bs));

	for (i = 0; i < dax_nr_methods; i++)
		for (pos = (BAD - 3) * bs; pos < (BAD + 2) * bs; pos += bs / 2)
			if (dax_methods[i].direct)
				check_bad(_metadata, t, &rd, &dax_methods[i],
					  pos);

	repair(_metadata, t, fd, BAD);
	EXPECT_EQ((ssize_t)t->len, pread(fd, t->buf, t->len, 0));
	EXPECT_EQ(0, memcmp(t->buf, t->want, t->len));
	dax_reader_close(&rd);
	close(fd);
}

static void read_all_ranges(struct errors *t,
			    ssize_t ret[FILE_BLOCKS][FILE_BLOCKS])
{
	size_t bs = t->bs, first, n;

	for (first = 0; first < FILE_BLOCKS; first++)
		for (n = 1; n <= FILE_BLOCKS - first; n++)
			ret[first][n - 1] = pread(t->fd, t->buf,
						  n * bs - 11, first * bs + 5);
}

/*
 * If an extent has a bad block, the result of reads in other blocks is not
 * documented. Both paths have to give the same result.
 */
TEST_F(read_errors, bad_block_in_extent)
{
	struct errors *t = &self->t;
	ssize_t ret[FILE_BLOCKS][FILE_BLOCKS], generic[FILE_BLOCKS][FILE_BLOCKS];
	size_t bs = t->bs, first, n;

	if (!has_badblocks(t))
		SKIP(return, "the device keeps no list of bad blocks");
	ASSERT_EQ(0, dax_mark_bad(t->test.fs.dev, t->fd, BAD * t->bs));
	EXPECT_EQ(-1, pread(t->fd, t->buf, 8, BAD * bs));
	EXPECT_EQ(EIO, errno);
	read_all_ranges(t, ret);
	if (dax_fast_exists())
		ASSERT_EQ(0, dax_fast_set(false));
	read_all_ranges(t, generic);
	for (first = 0; first < FILE_BLOCKS; first++)
		for (n = 1; n <= FILE_BLOCKS - first; n++)
			EXPECT_EQ(generic[first][n - 1], ret[first][n - 1])
				TH_LOG("%zu blocks at %zu", n, first);

	/* A read that excludes the bad block succeeds. */
	EXPECT_EQ((ssize_t)(BAD * bs), pread(t->fd, t->buf, BAD * bs, 0));
	EXPECT_EQ(0, memcmp(t->buf, t->want, BAD * bs));
	repair(_metadata, t, t->fd, BAD);
	EXPECT_EQ((ssize_t)t->len, pread(t->fd, t->buf, t->len, 0));
	EXPECT_EQ(0, memcmp(t->buf, t->want, t->len));
}

/* -- shutdown */

/* All system calls that read a file fail after a shutdown. */
TEST_F(read_errors, shutdown)
{
	struct errors *t = &self->t;
	__u32 flags = EXT4_GOING_FLAGS_NOLOGFLUSH;
	struct dax_reader rd;
	unsigned int i;
	ssize_t ret;

	open_reader(_metadata, t, "file", &rd);
	ASSERT_EQ(100, pread(t->fd, t->buf, 100, 0));
	ASSERT_EQ(0, ioctl(t->fd, EXT4_IOC_SHUTDOWN, &flags));

	for (i = 0; i < dax_nr_methods; i++) {
		/* A mapping still works after a shutdown. */
		if (!strcmp(dax_methods[i].name, "mmap"))
			continue;
		ret = dax_methods[i].read(&rd, t->buf, 100, 50);
		if (ret == DAX_NO_METHOD)
			continue;
		EXPECT_EQ(-EIO, ret)
			TH_LOG("%s", dax_methods[i].name);
		if (!dax_methods[i].direct)
			continue;
		EXPECT_EQ(-EIO, dax_methods[i].read(&rd, t->buf, 100,
						    2 * t->len))
			TH_LOG("%s beyond the end", dax_methods[i].name);
	}
	/* A read of no bytes fails, too. */
	EXPECT_EQ(-1, pread(t->fd, t->buf, 0, 0));
	EXPECT_EQ(EIO, errno);
	dax_reader_close(&rd);
}

/* -- signals */

#define BIG_CHUNKS 24
#define BIG_CHUNK (1024 * 1024UL)

/*
 * Makes a file of BIG_CHUNKS extents. Each extent has its own byte value, and a
 * hole follows. A reader can notice a fatal signal after each extent.
 */
static int big_file(struct __test_metadata *_metadata,
		    struct errors *t)
{
	char *chunk = dax_alloc(_metadata, BIG_CHUNK);
	unsigned int i;
	int fd;

	fd = dax_open(&t->test.fs, "big", O_RDWR | O_CREAT);
	ASSERT_GE(fd, 0);
	for (i = 0; i < BIG_CHUNKS; i++) {
		memset(chunk, i + 1, BIG_CHUNK);
		ASSERT_EQ(0, dax_write_all(fd, chunk, BIG_CHUNK,
					   2 * i * BIG_CHUNK));
	}
	munmap(chunk, BIG_CHUNK);
	return fd;
}

#define BIG_LEN ((2 * BIG_CHUNKS - 1) * BIG_CHUNK)

/* Memory that a child fills and its parent checks. */
static char *shared_buffer(struct __test_metadata *_metadata)
{
	char *p = mmap(NULL, BIG_LEN, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ASSERT_NE(MAP_FAILED, p);
	return p;
}

/* Returns the bytes that task @pid has read so far (rchar in /proc). */
static long long rchar_of(pid_t pid)
{
	long long n = -1;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/io", pid);
	f = fopen(path, "re");
	if (!f)
		return -1;
	if (fscanf(f, "rchar: %lld", &n) != 1)
		n = -1;
	fclose(f);
	return n;
}

/* Waits until task @pid is killed. Returns the bytes that it has read. */
static long long wait_killed(struct __test_metadata *_metadata, pid_t pid)
{
	long long rchar;
	siginfo_t info;

	ASSERT_EQ(0, waitid(P_PID, pid, &info, WEXITED | WNOWAIT));
	EXPECT_EQ(CLD_KILLED, info.si_code);
	EXPECT_EQ(SIGKILL, info.si_status);
	/* The counters exist until the task is reaped. */
	rchar = rchar_of(pid);
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	return rchar;
}

/*
 * The reader is killed while it waits for the inode lock of another task. The
 * reader gets the lock with the signal pending. It must not read all of the
 * requested bytes.
 */
TEST_F(read_errors, killed_before_huge_read)
{
	struct errors *t = &self->t;
	struct dax_holder holder;
	long long before, rchar;
	char *buf;
	pid_t pid;
	int fd;

	fd = big_file(_metadata, t);
	buf = shared_buffer(_metadata);
	ASSERT_EQ(0, dax_hold(&holder, fd, 1));
	before = rchar_of(getpid());
	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid) {
		pread(fd, buf, BIG_LEN, 0);
		_exit(0);
	}
	EXPECT_TRUE(dax_wait_blocked(pid));
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(1, dax_unhold(&holder));

	rchar = wait_killed(_metadata, pid);
	ASSERT_GE(before, 0);
	/* The counters of a child start at zero. */
	EXPECT_LT(rchar, (long long)BIG_LEN);
	EXPECT_EQ(0, buf[BIG_LEN - 1]);
	TH_LOG("read %lld of %lu bytes", rchar, BIG_LEN);
	munmap(buf, BIG_LEN);
	close(fd);
}

#define TRAP_AT (8 * BIG_CHUNK)

/*
 * The reader is killed while a trap in its buffer blocks it. The count is
 * correct to the byte.
 */
TEST_F(read_errors, killed_in_huge_read)
{
	struct errors *t = &self->t;
	struct dax_trap trap;
	long long rchar;
	char *buf, *p;
	int fd, uffd;
	int ready[2];
	pid_t pid;
	char c;

	fd = big_file(_metadata, t);
	buf = shared_buffer(_metadata);
	ASSERT_EQ(0, pipe(ready));
	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid) {
		/* Map a private page with a trap in the shared buffer. */
		p = mmap(buf + TRAP_AT, t->bs, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		if (p == MAP_FAILED || dax_trap_arm(&trap, p))
			_exit(1);
		if (write(ready[1], &trap.uffd, sizeof(uffd)) != sizeof(uffd))
			_exit(2);
		pread(fd, buf, BIG_LEN, 0);
		_exit(0);
	}
	close(ready[1]);
	ASSERT_EQ((ssize_t)sizeof(uffd), read(ready[0], &uffd, sizeof(uffd)));
	close(ready[0]);

	trap.uffd = syscall(SYS_pidfd_getfd, syscall(SYS_pidfd_open, pid, 0),
			    uffd, 0);
	ASSERT_GE(trap.uffd, 0);
	ASSERT_EQ(0, dax_trap_wait(&trap));
	ASSERT_EQ(0, kill(pid, SIGKILL));
	rchar = wait_killed(_metadata, pid);
	close(trap.uffd);

	EXPECT_EQ((long long)TRAP_AT, rchar);
	EXPECT_EQ(1, buf[0]);
	c = 1 + (TRAP_AT / BIG_CHUNK - 2) / 2;
	EXPECT_EQ(c, buf[TRAP_AT - BIG_CHUNK - 1]);
	/* The reader has not passed the trap. */
	EXPECT_EQ(0, buf[TRAP_AT + t->bs]);
	EXPECT_EQ(0, buf[BIG_LEN - 1]);
	munmap(buf, BIG_LEN);
	close(fd);
}

int main(int argc, char **argv)
{
	return dax_main(argc, argv);
}
