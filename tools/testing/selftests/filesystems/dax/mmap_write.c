// SPDX-License-Identifier: GPL-2.0
/*
 * write(2) to pages of a DAX file that are mapped. The tests check these rules:
 *
 * - A page with references of its own, as in a pipe, belongs to the file until
 *   these are gone. This holds even if the page or a page beside it is written.
 * - A mapping may read a page while write(2) replaces its block. When write(2)
 *   has returned, the mapping shows the new block.
 * - If write(2) replaces a block, the rest of the block keeps the old data.
 * - A store beside write(2) never fails, and takes no block from write(2).
 * - A synchronous store to a shared block survives a crash. A failed store
 *   leaves nothing behind.
 * - FIDEDUPERANGE compares the data of files, not the old content of blocks.
 */

#include <linux/fs.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "mmap_fixture.h"

/* -- pinned pages */

FIXTURE(mmap_pin)
{
	struct mmap_test t;
};

FIXTURE_VARIANT(mmap_pin)
{
	enum mmap_fs kind;
};

FIXTURE_VARIANT_ADD(mmap_pin, ext4) { .kind = MMAP_EXT4 };
FIXTURE_VARIANT_ADD(mmap_pin, xfs) { .kind = MMAP_XFS };
FIXTURE_VARIANT_ADD(mmap_pin, xfs_reflink) { .kind = MMAP_XFS_REFLINK };

FIXTURE_SETUP(mmap_pin)
{
	if (dax_skips_bug(_metadata))
		return;
	mmap_begin(_metadata, &self->t, variant->kind);
}

FIXTURE_TEARDOWN(mmap_pin)
{
	mmap_end(_metadata, &self->t);
}

struct truncation {
	int fd;			/* the file to truncate */
	int clone_fd;		/* or 0 */
	int other_fd;		/* takes the freed blocks */
	size_t bs;
	atomic_int tid;
	atomic_bool truncated;
	atomic_bool reused;
	int ret;
};

/* Fills the filesystem: all free blocks get other data. */
static void use_all_blocks(const struct truncation *tr)
{
	const size_t len = 64 * tr->bs;
	char *other = malloc(len);

	sync();
	if (other) {
		memset(other, 'x', len);
		while (write(tr->other_fd, other, len) > 0)
			;
	}
	free(other);
}

/*
 * Truncates the file. If there is a clone, it makes the file longer, so that the
 * last page gets another block, and truncates the clone.
 */
static int drop_blocks(const struct truncation *tr)
{
	int fd = tr->clone_fd ?: tr->fd;

	if (tr->clone_fd && fallocate(tr->fd, FALLOC_FL_ZERO_RANGE, 2 * tr->bs,
				      tr->bs))
		return -errno;
	return ftruncate(fd, 0) ? -errno : 0;
}

static void *truncate_and_reuse(void *arg)
{
	struct truncation *tr = arg;

	atomic_store(&tr->tid, syscall(__NR_gettid));
	tr->ret = drop_blocks(tr);
	atomic_store(&tr->truncated, true);
	use_all_blocks(tr);
	atomic_store(&tr->reused, true);
	return NULL;
}

/*
 * Truncation waits for pages interruptibly, and for everything else
 * uninterruptibly.
 */
static bool waits_for_page(const struct truncation *tr)
{
	char path[64], text[256] = "", *state;
	int fd;

	if (!atomic_load(&tr->tid))
		return false;
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat",
		 atomic_load(&tr->tid));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = 0;
	close(fd);
	state = strrchr(text, ')');
	return state && !strncmp(state, ") S", 3);
}

/* Checks that truncation waits while a page of the file is in a pipe. */
static void check_truncation_waits(struct __test_metadata *_metadata,
				   struct mmap_test *t, int fd, int clone_fd,
				   int pipe_fd, char want)
{
	struct truncation tr = {
		.fd = fd, .clone_fd = clone_fd, .bs = t->bs,
	};
	char *buf = dax_alloc(_metadata, t->bs);
	pthread_t thread;

	tr.other_fd = mmap_file(t, "other owner", 0);
	ASSERT_GE(tr.other_fd, 0);
	ASSERT_EQ(0, pthread_create(&thread, NULL, truncate_and_reuse, &tr));
	while (!waits_for_page(&tr) && !atomic_load(&tr.reused))
		sched_yield();
	EXPECT_FALSE(atomic_load(&tr.truncated))
		TH_LOG("the file did not wait for the page in the pipe");
	EXPECT_EQ((ssize_t)t->bs, read(pipe_fd, buf, t->bs));
	EXPECT_EQ(want, buf[0])
		TH_LOG("the pipe has '%c' of another file", buf[0]);
	pthread_join(thread, NULL);
	EXPECT_EQ(0, tr.ret);
	close(tr.other_fd);
}

/* Puts a page of a mapping into a pipe, by reference. */
static void pipe_page(struct __test_metadata *_metadata, char *page, size_t bs,
		      int pipefd[2])
{
	struct iovec iov = { .iov_base = page, .iov_len = bs };

	ASSERT_EQ(0, pipe(pipefd));
	ASSERT_EQ((ssize_t)bs, vmsplice(pipefd[1], &iov, 1, 0));
}

TEST_F(mmap_pin, truncation_waits_after_write_beside_hole)
{
	size_t bs = self->t.bs;
	char *buf = dax_alloc(_metadata, 2 * bs);
	struct mmap_map m;
	int pipefd[2], fd;

	fd = mmap_file(&self->t, "file", 2);
	ASSERT_GE(fd, 0);
	ASSERT_EQ(0, fallocate(fd, 0, 0, 2 * bs));
	ASSERT_EQ(0, mmap_at(&self->t, &m, fd, 0, 2, PROT_READ, MAP_SHARED, 1));

	/* Page 0 becomes data. Page 1 stays mapped as a hole. */
	mmap_touch(m.at, 2, bs);
	ASSERT_EQ(0, dax_write_all(fd, "o", 1, 0));
	mmap_touch(m.at, 1, bs);
	pipe_page(_metadata, m.at, bs, pipefd);

	/* Do not read through the mapping: a fault would hide the bug. */
	memset(buf, 'o', 2 * bs);
	ASSERT_EQ(0, dax_write_all(fd, buf, 2 * bs, 0));
	check_truncation_waits(_metadata, &self->t, fd, 0, pipefd[0], 'o');

	mmap_gone(&m);
	close(pipefd[0]);
	close(pipefd[1]);
	close(fd);
}

static int punch(int fd, loff_t pos, size_t len)
{
	return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, pos,
			 len);
}

/* Truncation unmaps only the pages that it removes. */
TEST_F(mmap_pin, truncation_leaves_other_pages_mapped)
{
	size_t bs = self->t.bs;
	struct mmap_map m;
	int fd;

	fd = mmap_file(&self->t, "file", 4);
	ASSERT_GE(fd, 0);
	ASSERT_EQ(0, mmap_fill(&self->t, fd, 0, 4, 'a'));
	ASSERT_EQ(0, mmap_at(&self->t, &m, fd, 0, 4, PROT_READ | PROT_WRITE,
			     MAP_SHARED, 1));
	for (size_t i = 0; i < 4; i++)
		mmap_poke(m.at + i * bs, 'S');
	ASSERT_EQ(0, punch(fd, 2 * bs, bs));
	EXPECT_EQ(2, mmap_count_present(m.at, 2));
	EXPECT_EQ(0, mmap_present(m.at + 2 * bs));
	EXPECT_EQ(0, m.at[2 * bs]);
	ASSERT_EQ(0, ftruncate(fd, bs));
	EXPECT_EQ(1, mmap_present(m.at));
	EXPECT_EQ(0, mmap_count_present(m.at + bs, 3));
	/* neither the same size nor a larger one takes pages away */
	ASSERT_EQ(0, ftruncate(fd, bs));
	EXPECT_EQ(1, mmap_present(m.at));
	ASSERT_EQ(0, ftruncate(fd, 4 * bs));
	EXPECT_EQ(1, mmap_present(m.at));
	EXPECT_EQ('S', m.at[0]);
	EXPECT_EQ(0, m.at[bs]);
	mmap_gone(&m);
	close(fd);
}

/* Truncation removes huge pages as a whole, even if single pages map them. */
TEST_F(mmap_pin, truncation_cuts_huge_pages)
{
	const unsigned long pages = MMAP_HUGE / self->t.bs;
	struct mmap_map huge, single;
	size_t bs = self->t.bs;
	int fd;

	fd = mmap_file(&self->t, "file", pages);
	ASSERT_GE(fd, 0);
	ASSERT_EQ(0, fallocate(fd, 0, 0, MMAP_HUGE));
	ASSERT_EQ(0, mmap_fill(&self->t, fd, 0, pages, 'a'));
	ASSERT_EQ(0, mmap_at(&self->t, &huge, fd, 0, pages,
			     PROT_READ | PROT_WRITE, MAP_SHARED, 0));
	ASSERT_EQ(0, mmap_at(&self->t, &single, fd, 0, 1, PROT_READ, MAP_SHARED,
			     1));
	mmap_poke(huge.at, 'S');
	EXPECT_EQ('S', single.at[0]);
	ASSERT_EQ(0, punch(fd, MMAP_HUGE / 2, bs));
	EXPECT_EQ('S', single.at[0]);
	EXPECT_EQ(0, huge.at[MMAP_HUGE / 2]);
	mmap_poke(huge.at + MMAP_HUGE - bs, 'T');
	ASSERT_EQ(0, mmap_fill(&self->t, fd, 0, pages, 'a'));
	mmap_gone(&huge);
	ASSERT_EQ(0, mmap_at(&self->t, &huge, fd, 0, pages,
			     PROT_READ | PROT_WRITE, MAP_SHARED, 0));
	mmap_poke(huge.at, 'U');
	ASSERT_EQ(0, ftruncate(fd, MMAP_HUGE / 2 + 1));
	EXPECT_EQ('U', single.at[0]);
	EXPECT_EQ('U', huge.at[0]);
	EXPECT_EQ(0, huge.at[MMAP_HUGE / 2 + 1]);
	mmap_gone(&single);
	mmap_gone(&huge);
	close(fd);
}

#define NOWAIT_ROUNDS 200

/*
 * A write(2) with RWF_NOWAIT to a page that is mapped as a hole fails with
 * EAGAIN. In ext4 the write to page 0 also makes page 1 a written block. A
 * changed time stamp is another reason for EAGAIN, so the test repeats the
 * write.
 */
TEST_F(mmap_pin, nowait_write_to_a_zero_page)
{
	size_t bs = self->t.bs;
	struct iovec iov = { .iov_base = "n", .iov_len = 1 };
	struct mmap_map m;
	int fd, direct_fd;

	fd = mmap_file(&self->t, "file", 2);
	ASSERT_GE(fd, 0);
	/* ext4 supports RWF_NOWAIT writes with O_DIRECT only. */
	direct_fd = dax_open(&self->t.fs, "file", O_RDWR | O_DIRECT);
	ASSERT_GE(direct_fd, 0);
	ASSERT_EQ(0, fallocate(fd, 0, 0, 2 * bs));
	ASSERT_EQ(0, mmap_at(&self->t, &m, fd, 0, 2, PROT_READ, MAP_SHARED, 1));
	mmap_touch(m.at, 2, bs);
	for (unsigned int i = 0; i < NOWAIT_ROUNDS; i++) {
		ASSERT_EQ(0, dax_write_all(fd, "o", 1, 0));
		ASSERT_EQ(-1, pwritev2(direct_fd, &iov, 1, bs, RWF_NOWAIT))
			TH_LOG("round %u", i);
		ASSERT_EQ(EAGAIN, errno);
	}
	ASSERT_EQ(0, dax_write_all(fd, "o", 1, bs));
	EXPECT_EQ('o', m.at[bs]);
	mmap_gone(&m);
	close(direct_fd);
	close(fd);
}

/* -- shared blocks */

FIXTURE(mmap_cow)
{
	struct mmap_test t;
	int fd;
	int clone_fd;
	struct mmap_map m;
	int uffd;
	char *from;		/* two pages, the second is missing */
};

#define COW_PAGES 16UL

static int clone_file(struct mmap_test *t, const char *name, int fd)
{
	int clone_fd = mmap_file(t, name, 0);

	if (clone_fd >= 0 && ioctl(clone_fd, FICLONE, fd)) {
		close(clone_fd);
		return -errno;
	}
	return clone_fd;
}

/* Registers @page with userfaultfd. Copies by the kernel block there, too. */
static int missing_page(char *page, size_t bs)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = {
		.range = { .start = (uintptr_t)page, .len = bs },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	int uffd = syscall(__NR_userfaultfd, O_CLOEXEC);

	if (uffd < 0)
		return -errno;
	if (ioctl(uffd, UFFDIO_API, &api) ||
	    ioctl(uffd, UFFDIO_REGISTER, &reg)) {
		int err = -errno;

		close(uffd);
		return err;
	}
	return uffd;
}

FIXTURE_SETUP(mmap_cow)
{
	struct mmap_test *t = &self->t;

	if (dax_skips_bug(_metadata))
		return;
	mmap_begin(_metadata, t, MMAP_XFS_REFLINK);
	if (_metadata->exit_code)
		return;
	self->fd = mmap_file(t, "file", COW_PAGES);
	ASSERT_GE(self->fd, 0);
	ASSERT_EQ(0, fallocate(self->fd, 0, 0, COW_PAGES * t->bs));
	ASSERT_EQ(0, mmap_fill(t, self->fd, 0, COW_PAGES, 'a'));
	self->clone_fd = clone_file(t, "clone", self->fd);
	ASSERT_GE(self->clone_fd, 0);
	ASSERT_EQ(0, mmap_at(t, &self->m, self->fd, 0, COW_PAGES, PROT_READ,
			     MAP_SHARED, 1));
	self->from = dax_alloc(_metadata, 2 * t->bs);
	memset(self->from, 'N', t->bs);
	self->uffd = missing_page(self->from + t->bs, t->bs);
	ASSERT_GE(self->uffd, 0);
}

FIXTURE_TEARDOWN(mmap_cow)
{
	if (self->m.area_len)
		mmap_gone(&self->m);
	if (self->uffd > 0)
		close(self->uffd);
	if (self->clone_fd > 0)
		close(self->clone_fd);
	if (self->fd > 0)
		close(self->fd);
	mmap_end(_metadata, &self->t);
}

struct cow_write {
	int fd;
	const char *from;
	size_t len;
	loff_t pos;
	int ret;
	pthread_t thread;
};

static void *write_cow(void *arg)
{
	struct cow_write *wr = arg;

	wr->ret = dax_write_all(wr->fd, wr->from, wr->len, wr->pos);
	return NULL;
}

/* Waits until a task faults on the missing page. */
static void wait_for_fault(struct __test_metadata *_metadata,
			   FIXTURE_DATA(mmap_cow) *self)
{
	struct uffd_msg msg;

	ASSERT_EQ((ssize_t)sizeof(msg), read(self->uffd, &msg, sizeof(msg)));
	ASSERT_EQ(UFFD_EVENT_PAGEFAULT, msg.event);
	ASSERT_EQ((uintptr_t)self->from + self->t.bs,
		  msg.arg.pagefault.address & ~(self->t.bs - 1));
}

/* Starts a write(2) and waits until it copies the missing page. */
static void begin_write(struct __test_metadata *_metadata,
			FIXTURE_DATA(mmap_cow) *self, struct cow_write *wr)
{
	ASSERT_EQ(0, pthread_create(&wr->thread, NULL, write_cow, wr));
	wait_for_fault(_metadata, self);
}

/* Fills the missing page like the page before, and waits for the write. */
static void end_write(struct __test_metadata *_metadata,
		      FIXTURE_DATA(mmap_cow) *self, struct cow_write *wr)
{
	struct uffdio_copy copy = {
		.dst = (uintptr_t)self->from + self->t.bs,
		.src = (uintptr_t)self->from, .len = self->t.bs,
	};

	ASSERT_EQ(0, ioctl(self->uffd, UFFDIO_COPY, &copy));
	ASSERT_EQ(0, pthread_join(wr->thread, NULL));
	EXPECT_EQ(0, wr->ret);
}

/*
 * The file keeps its old blocks until the new ones are filled. A read fault
 * maps an old block meanwhile. This mapping must not stay.
 */
TEST_F(mmap_cow, readers_during_copy_see_the_write)
{
	size_t bs = self->t.bs;
	struct cow_write wr = {
		.fd = self->fd, .from = self->from, .len = 2 * bs,
	};

	begin_write(_metadata, self, &wr);
	EXPECT_EQ('a', self->m.at[0]);
	EXPECT_EQ('b', self->m.at[bs]);
	EXPECT_EQ('c', self->m.at[2 * bs]);
	end_write(_metadata, self, &wr);

	EXPECT_EQ('N', self->m.at[0]);
	EXPECT_EQ('N', self->m.at[bs]);
	EXPECT_EQ('c', self->m.at[2 * bs]);
}

/* Fills all free blocks with 'x' and frees them again. */
static int taint_free_blocks(struct mmap_test *t)
{
	struct truncation tr = {
		.other_fd = mmap_file(t, "taint", 0), .bs = t->bs,
	};
	int ret;

	if (tr.other_fd < 0)
		return -errno;
	use_all_blocks(&tr);
	ret = ftruncate(tr.other_fd, 0) ? -errno : 0;
	close(tr.other_fd);
	sync();
	return ret;
}

/*
 * If the buffer ends early, a write to shared blocks ends early, too. It ends
 * with the last block that it fills, and shows no data of other files.
 */
TEST_F(mmap_cow, short_write_shows_no_other_data)
{
	const size_t bs = self->t.bs, good = 100;
	char *from = dax_alloc(_metadata, 3 * bs), *end = from + 2 * bs, *page;

	memset(from, 'N', 2 * bs);
	ASSERT_EQ(0, munmap(end, bs));
	ASSERT_EQ(0, taint_free_blocks(&self->t));
	EXPECT_EQ(-1, pwrite(self->fd, end - good, bs - 1000, 0));
	EXPECT_EQ(EFAULT, errno);
	/* The end of a block, and half of the next one. */
	EXPECT_EQ(good, pwrite(self->fd, end - bs / 2 - good, bs,
			       2 * bs - good));
	page = dax_alloc(_metadata, 3 * bs);
	ASSERT_EQ(3 * bs, pread(self->fd, page, 3 * bs, 0));
	for (size_t i = 0; i < 3 * bs; i++) {
		bool written = i >= 2 * bs - good && i < 2 * bs;

		ASSERT_EQ(written ? 'N' : 'a' + (char)(i / bs), page[i])
			TH_LOG("byte %zu", i);
	}
	/* The clone is unchanged. */
	ASSERT_EQ(3 * bs, pread(self->clone_fd, page, 3 * bs, 0));
	for (size_t i = 0; i < 3 * bs; i++)
		ASSERT_EQ('a' + (char)(i / bs), page[i]);
}

/* A store to the rest of a block survives a concurrent write(2). */
TEST_F(mmap_cow, store_beside_a_write_stays)
{
	const size_t bs = self->t.bs, good = 100, at = 2000;
	struct cow_write wr = {
		.fd = self->fd, .from = self->from + bs - good, .len = 2 * good,
	};
	struct mmap_map m;
	char byte;

	ASSERT_EQ(0, mmap_at(&self->t, &m, self->fd, 0, 1,
			     PROT_READ | PROT_WRITE, MAP_SHARED, 1));
	begin_write(_metadata, self, &wr);
	mmap_poke(m.at + at, 'S');
	end_write(_metadata, self, &wr);
	EXPECT_EQ('S', m.at[at]);
	ASSERT_EQ(1, pread(self->fd, &byte, 1, at));
	EXPECT_EQ('S', byte);
	mmap_gone(&m);
}

/*
 * A store maps the new block of a page that write(2) is about to fill. The page
 * belongs to the file then, and still does when write(2) ends.
 */
TEST_F(mmap_cow, truncation_waits_after_store_beside_write)
{
	const size_t bs = self->t.bs;
	struct cow_write wr = {
		.fd = self->fd, .from = self->from, .len = 2 * bs,
	};
	struct mmap_map m;
	int pipefd[2];

	ASSERT_EQ(0, mmap_at(&self->t, &m, self->fd, 0, 2,
			     PROT_READ | PROT_WRITE, MAP_SHARED, 1));
	begin_write(_metadata, self, &wr);
	mmap_poke(m.at + bs, 'S');
	ASSERT_EQ(0, fsync(self->fd));
	pipe_page(_metadata, m.at + bs, bs, pipefd);
	end_write(_metadata, self, &wr);
	check_truncation_waits(_metadata, &self->t, self->fd, 0, pipefd[0], 'N');
	mmap_gone(&m);
	close(pipefd[0]);
	close(pipefd[1]);
}

/* A shared block at the end of a file is replaced if the file grows. */
TEST_F(mmap_cow, zeroing_past_eof_waits_for_the_last_page)
{
	const size_t bs = self->t.bs;
	struct mmap_map m;
	int fd, clone_fd, pipefd[2];

	fd = mmap_file(&self->t, "short", 1);
	ASSERT_GE(fd, 0);
	ASSERT_EQ(0, mmap_fill(&self->t, fd, 0, 1, 'a'));
	ASSERT_EQ(0, ftruncate(fd, 1000));
	clone_fd = clone_file(&self->t, "clone of short", fd);
	ASSERT_GE(clone_fd, 0);
	ASSERT_EQ(0, mmap_at(&self->t, &m, fd, 0, 1, PROT_READ, MAP_SHARED, 1));
	EXPECT_EQ('a', m.at[0]);
	pipe_page(_metadata, m.at, bs, pipefd);
	check_truncation_waits(_metadata, &self->t, fd, clone_fd, pipefd[0],
			       'a');
	mmap_gone(&m);
	close(pipefd[0]);
	close(pipefd[1]);
	close(clone_fd);
	close(fd);
}

struct cow_read {
	int fd;
	char *to;
	size_t len;
	ssize_t ret;
};

static void *read_shared(void *arg)
{
	struct cow_read *rd = arg;

	rd->ret = pread(rd->fd, rd->to, rd->len, 0);
	return NULL;
}

/*
 * read(2) faults in its buffer between two shared blocks. Meanwhile, a store
 * replaces the second block, and its other owner frees it. A third file shares
 * the first block, so XFS gives the second block to this file. read(2) must not
 * return the data of the third file.
 */
TEST_F(mmap_cow, reader_of_shared_blocks_sees_no_other_data)
{
	const size_t bs = self->t.bs;
	struct cow_read rd = {
		.fd = self->fd, .to = self->from, .len = 2 * bs,
	};
	struct file_clone_range range = {
		.src_fd = self->fd, .src_length = bs,
	};
	struct uffdio_copy copy = {
		.dst = (uintptr_t)self->from + bs, .len = bs,
	};
	__s64 block = dax_physical(self->fd, bs);
	struct mmap_map m;
	pthread_t thread;
	int other_fd;

	copy.src = (uintptr_t)dax_alloc(_metadata, bs);
	other_fd = mmap_file(&self->t, "other owner", 0);
	ASSERT_GE(other_fd, 0);
	ASSERT_EQ(0, ioctl(other_fd, FICLONERANGE, &range));
	ASSERT_EQ(0, mmap_at(&self->t, &m, self->fd, 0, COW_PAGES,
			     PROT_READ | PROT_WRITE, MAP_SHARED, 1));
	ASSERT_EQ(0, pthread_create(&thread, NULL, read_shared, &rd));
	wait_for_fault(_metadata, self);
	for (size_t i = 0; i < COW_PAGES; i++)
		mmap_poke(m.at + i * bs, 'S');
	ASSERT_EQ(0, ftruncate(self->clone_fd, 0));
	sync();
	ASSERT_EQ(0, mmap_fill(&self->t, other_fd, 1, 1, 'x'));
	ASSERT_EQ(block, dax_physical(other_fd, bs));
	ASSERT_EQ(0, ioctl(self->uffd, UFFDIO_COPY, &copy));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ((ssize_t)rd.len, rd.ret);
	EXPECT_EQ('a', rd.to[bs - 1]);
	EXPECT_EQ('b', rd.to[2 * bs - 1])
		TH_LOG("read(2) has returned '%c' of another file",
		       rd.to[2 * bs - 1]);
	mmap_gone(&m);
	close(other_fd);
}

/* write(2) to shared pages does not wait for users of the old pages. */
TEST_F(mmap_cow, write_to_pages_in_a_pipe)
{
	const size_t bs = self->t.bs;
	char *page = dax_alloc(_metadata, bs);
	int pipefd[2];

	EXPECT_EQ('a', self->m.at[0]);
	pipe_page(_metadata, self->m.at, bs, pipefd);
	ASSERT_EQ(0, mmap_fill(&self->t, self->fd, 0, 2, 'n'));
	EXPECT_EQ('n', self->m.at[0]);
	EXPECT_EQ('o', self->m.at[bs]);
	ASSERT_EQ((ssize_t)bs, read(pipefd[0], page, bs));
	EXPECT_EQ('a', page[0]);
	ASSERT_EQ((ssize_t)bs, pread(self->clone_fd, page, bs, 0));
	EXPECT_EQ('a', page[0]);
	close(pipefd[0]);
	close(pipefd[1]);
}

/* Returns the clock ticks that a task has spent in the kernel, or -1. */
static long kernel_ticks(pid_t pid)
{
	char path[32];
	long ticks = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return -1;
	if (fscanf(f, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %ld",
		   &ticks) != 1)
		ticks = -1;
	fclose(f);
	return ticks;
}

/*
 * Cloning tries again and again while a page of the file with the larger inode
 * number is in a pipe. SIGKILL ends that.
 */
TEST_F(mmap_cow, cloning_onto_a_pinned_page_can_be_killed)
{
	const size_t bs = self->t.bs;
	struct file_clone_range range = { .src_length = bs };
	int pipefd[2], status, high = self->clone_fd, low = self->fd;
	struct stat first, second;
	struct mmap_map m;
	pid_t child;

	ASSERT_EQ(0, fstat(low, &first));
	ASSERT_EQ(0, fstat(high, &second));
	if (first.st_ino > second.st_ino) {
		high = self->fd;
		low = self->clone_fd;
	}
	ASSERT_EQ(0, mmap_at(&self->t, &m, high, 0, 1, PROT_READ, MAP_SHARED,
			     1));
	pipe_page(_metadata, m.at, bs, pipefd);
	range.src_fd = low;
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		/* The page must become free if the parent ends. */
		close(pipefd[0]);
		close(pipefd[1]);
		_exit(!!ioctl(high, FICLONERANGE, &range));
	}
	while (!waitpid(child, &status, WNOHANG) && kernel_ticks(child) < 5)
		sched_yield();
	ASSERT_EQ(0, kill(child, SIGKILL));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
	close(pipefd[0]);
	close(pipefd[1]);
	mmap_gone(&m);
}

/*
 * A store to a shared page allocates new blocks for pages around it in advance.
 * A page beside it that is not shared has to keep its block. A store does not
 * wait for write(2), and write(2) may be copying to this block.
 */
TEST_F(mmap_cow, page_beside_a_shared_one_stays)
{
	const size_t bs = self->t.bs, len = 100, at = 2000;
	struct file_clone_range range = { .src_offset = bs, .src_length = bs };
	struct cow_write wr = { .from = self->from + bs, .len = len };
	struct mmap_map m;
	int other_fd;
	__s64 block;
	char *page;

	wr.fd = mmap_file(&self->t, "partly shared", 2);
	ASSERT_GE(wr.fd, 0);
	ASSERT_EQ(0, mmap_fill(&self->t, wr.fd, 0, 2, 'a'));
	other_fd = mmap_file(&self->t, "other", 2);
	ASSERT_GE(other_fd, 0);
	range.src_fd = wr.fd;
	ASSERT_EQ(0, ioctl(other_fd, FICLONERANGE, &range));
	ASSERT_EQ(0, mmap_at(&self->t, &m, wr.fd, 0, 2, PROT_READ | PROT_WRITE,
			     MAP_SHARED, 1));
	block = dax_physical(wr.fd, 0);
	ASSERT_GT(block, 0);

	begin_write(_metadata, self, &wr);
	mmap_poke(m.at + bs, 'S');
	mmap_poke(m.at + at, 'S');
	end_write(_metadata, self, &wr);

	EXPECT_EQ(block, dax_physical(wr.fd, 0))
		TH_LOG("the block that write(2) was at is not the file's");
	page = dax_alloc(_metadata, 2 * bs);
	ASSERT_EQ(2 * bs, pread(wr.fd, page, 2 * bs, 0));
	for (size_t i = 0; i < 2 * bs; i++) {
		char was = i < bs ? 'a' : 'b';
		bool stored = i == at || i == bs;

		ASSERT_EQ(i < len ? 'N' : stored ? 'S' : was, page[i])
			TH_LOG("byte %zu", i);
	}
	ASSERT_EQ(0, memcmp(m.at, page, 2 * bs));
	ASSERT_EQ(1, pread(other_fd, page, 1, 0));
	EXPECT_EQ('b', page[0]);
	mmap_gone(&m);
	close(other_fd);
	close(wr.fd);
}

/*
 * A store tries to map a huge page first. It finds the new block that write(2)
 * is filling. This block is too small, so the store falls back to a single
 * page. The block has to stay with write(2).
 */
TEST_F(mmap_cow, store_in_the_huge_page_of_a_write)
{
	const size_t bs = self->t.bs, len = 100, at = 5 * bs;
	const unsigned long pages = MMAP_HUGE / bs;
	struct cow_write wr = { .from = self->from + bs, .len = len };
	struct mmap_map m;
	int other_fd;
	char *page;

	wr.fd = mmap_file(&self->t, "huge", pages);
	ASSERT_GE(wr.fd, 0);
	ASSERT_EQ(0, mmap_fill(&self->t, wr.fd, 0, pages, 'a'));
	other_fd = clone_file(&self->t, "other", wr.fd);
	ASSERT_GE(other_fd, 0);
	ASSERT_EQ(0, mmap_at(&self->t, &m, wr.fd, 0, pages,
			     PROT_READ | PROT_WRITE, MAP_SHARED, 0));

	begin_write(_metadata, self, &wr);
	mmap_poke(m.at + at, 'S');
	end_write(_metadata, self, &wr);

	page = dax_alloc(_metadata, bs);
	ASSERT_EQ(bs, pread(wr.fd, page, bs, 0));
	EXPECT_EQ('N', page[0]) TH_LOG("what write(2) has written is lost");
	EXPECT_EQ('N', page[len - 1]);
	EXPECT_EQ('a', page[len]);
	EXPECT_EQ(0, memcmp(m.at, page, bs));
	EXPECT_EQ('S', m.at[at]);
	ASSERT_EQ(bs, pread(wr.fd, page, bs, at));
	EXPECT_EQ('S', page[0]);
	EXPECT_EQ('f', page[1]);
	ASSERT_EQ(bs, pread(other_fd, page, bs, 0));
	EXPECT_EQ('a', page[0]);
	mmap_gone(&m);
	close(other_fd);
	close(wr.fd);
}

/* -- shared blocks without write(2) */

/* Returns the status of FIDEDUPERANGE or a negative errno. */
static int dedupe(int from, int to, size_t len)
{
	struct {
		struct file_dedupe_range range;
		struct file_dedupe_range_info info;
	} arg = {
		.range = { .src_length = len, .dest_count = 1 },
		.info = { .dest_fd = to },
	};

	return ioctl(from, FIDEDUPERANGE, &arg) ? -errno : arg.info.status;
}

static int preallocated_file(struct mmap_test *t, const char *name)
{
	int fd = mmap_file(t, name, 0);

	if (fd >= 0 && fallocate(fd, 0, 0, COW_PAGES * t->bs)) {
		close(fd);
		return -errno;
	}
	return fd;
}

/* Preallocated blocks compare as zeroes: old data must not leak to users. */
TEST_F(mmap_cow, preallocated_blocks_hold_no_data_to_share)
{
	const size_t bs = self->t.bs;
	char *page = dax_alloc(_metadata, bs);
	int fd, other_fd, x_fd;

	ASSERT_EQ(0, taint_free_blocks(&self->t));
	fd = preallocated_file(&self->t, "preallocated");
	ASSERT_GE(fd, 0);
	other_fd = preallocated_file(&self->t, "preallocated too");
	ASSERT_GE(other_fd, 0);
	x_fd = mmap_file(&self->t, "x", 0);
	ASSERT_GE(x_fd, 0);
	ASSERT_EQ(0, mmap_fill(&self->t, x_fd, 0, 1, 'x'));

	EXPECT_EQ(FILE_DEDUPE_RANGE_DIFFERS, dedupe(fd, x_fd, bs))
		TH_LOG("the old content of a block was compared");
	EXPECT_EQ(FILE_DEDUPE_RANGE_DIFFERS, dedupe(x_fd, fd, bs));
	ASSERT_EQ(bs, pread(x_fd, page, bs, 0));
	EXPECT_EQ('x', page[0]) TH_LOG("data was lost");
	ASSERT_EQ(bs, pread(fd, page, bs, 0));
	EXPECT_EQ(0, page[0]);
	EXPECT_EQ(FILE_DEDUPE_RANGE_SAME, dedupe(fd, other_fd, bs));
	close(x_fd);
	close(other_fd);
	close(fd);
}

/* XFS_IOC_GOINGDOWN of XFS, without a flush of the log. */
#define SHUTDOWN _IOR('X', 125, __u32)
#define SHUTDOWN_NOLOGFLUSH 2

/* Simulates a crash and mounts the filesystem again. */
static int crash_and_mount(struct mmap_test *t)
{
	__u32 how = SHUTDOWN_NOLOGFLUSH;
	int fd = open(t->fs.dir, O_RDONLY | O_CLOEXEC), ret;

	if (fd < 0)
		return -errno;
	ret = ioctl(fd, SHUTDOWN, &how) ? -errno : 0;
	close(fd);
	if (ret)
		return ret;
	if (umount(t->fs.dir) ||
	    mount(t->fs.dev, t->fs.dir, "xfs", 0, "dax=always"))
		return -errno;
	return 0;
}

/*
 * With MAP_SYNC, the metadata of a block is durable before a store to the
 * block. The first store also allocates blocks for the stores that follow.
 * These stores log nothing before their pages are mapped.
 */
TEST_F(mmap_cow, synchronous_stores_outlive_a_crash)
{
	const size_t bs = self->t.bs;
	char *page = dax_alloc(_metadata, bs);
	struct mmap_map m;
	int ret;

	ASSERT_EQ(0, fsync(self->fd));
	ASSERT_EQ(0, fsync(self->clone_fd));
	ret = mmap_at(&self->t, &m, self->fd, 0, COW_PAGES,
		      PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | MAP_SYNC,
		      1);
	if (ret == -EOPNOTSUPP)
		SKIP(return, "the device has no synchronous mappings");
	ASSERT_EQ(0, ret);
	for (size_t i = 0; i < COW_PAGES; i++)
		mmap_poke(m.at + i * bs, 'S');
	mmap_gone(&m);
	mmap_gone(&self->m);
	self->m.area_len = 0;
	close(self->clone_fd);
	close(self->fd);
	ASSERT_EQ(0, crash_and_mount(&self->t));
	self->clone_fd = dax_open(&self->t.fs, "clone", O_RDONLY);
	ASSERT_GE(self->clone_fd, 0);
	self->fd = dax_open(&self->t.fs, "file", O_RDONLY);
	ASSERT_GE(self->fd, 0);

	for (size_t i = 0; i < COW_PAGES; i++) {
		ASSERT_EQ(bs, pread(self->fd, page, bs, i * bs));
		EXPECT_EQ('S', page[0])
			TH_LOG("the store to page %zu is lost", i);
		EXPECT_EQ('a' + (char)i, page[bs - 1]);
		ASSERT_EQ(bs, pread(self->clone_fd, page, bs, i * bs));
		EXPECT_EQ('a' + (char)i, page[0]);
	}
}

/*
 * If a shared block cannot be read, a store allocates a block for the copy and
 * frees it again. No mapping may keep that block.
 */
TEST_F(mmap_cow, failed_store_leaves_no_page_behind)
{
	struct mmap_map m;
	int ret;

	ret = dax_mark_bad(self->t.fs.dev, self->fd, 0);
	if (ret == -ENOENT)
		SKIP(return, "the device has no badblocks attribute");
	ASSERT_EQ(0, ret);
	ASSERT_EQ(0, mmap_at(&self->t, &m, self->fd, 0, 1,
			     PROT_READ | PROT_WRITE, MAP_SHARED, 1));
	EXPECT_EQ(SIGBUS, mmap_store(m.at, 'S'));
	EXPECT_EQ(0, fsync(self->fd));

	/* A write clears the bad block when only this file owns it. */
	ASSERT_EQ(0, ftruncate(self->clone_fd, 0));
	ASSERT_EQ(0, mmap_fill(&self->t, self->fd, 0, 1, 'n'));
	EXPECT_EQ('n', mmap_peek(m.at));
	EXPECT_EQ(0, mmap_store(m.at, 'S'));
	EXPECT_EQ('S', mmap_peek(self->m.at));
	mmap_gone(&m);
}

/* Preallocates and fills a range that a huge page can map. */
static void fill_huge(struct __test_metadata *_metadata, struct mmap_test *t,
		      int fd, unsigned long page)
{
	/* The range is one extent and starts at a multiple of the stripe. */
	ASSERT_EQ(0, fallocate(fd, 0, page * t->bs, MMAP_HUGE));
	ASSERT_EQ(0, dax_physical(fd, page * t->bs) % MMAP_HUGE);
	ASSERT_EQ(0, mmap_fill(t, fd, page, MMAP_HUGE / t->bs, 'a'));
}

/* Makes a file that a huge page can map, and a clone of the file. */
static void huge_and_clone(struct __test_metadata *_metadata,
			   struct mmap_test *t, int *fd, int *other_fd)
{
	*fd = mmap_file(t, "huge", MMAP_HUGE / t->bs);
	ASSERT_GE(*fd, 0);
	fill_huge(_metadata, t, *fd, 0);
	*other_fd = clone_file(t, "other", *fd);
	ASSERT_GE(*other_fd, 0);
}

/*
 * Two files share blocks. One file is mapped by single pages. The other one is
 * mapped where a huge page fits. Check each order of the first reads, and each
 * order of the removals.
 */
TEST_F(mmap_cow, huge_pages_of_blocks_that_others_have_mapped)
{
	const size_t bs = self->t.bs, at = 5 * bs;
	const unsigned long pages = MMAP_HUGE / bs;
	struct mmap_map single, huge;

	for (int i = 0; i < 4; i++) {
		bool single_first = i & 1, single_goes_first = i & 2;
		int fd, other_fd;

		huge_and_clone(_metadata, &self->t, &fd, &other_fd);
		ASSERT_EQ(0, mmap_at(&self->t, &single, other_fd, 0, pages,
				     PROT_READ, MAP_SHARED, 1));
		ASSERT_EQ(0, mmap_at(&self->t, &huge, fd, 0, pages, PROT_READ,
				     MAP_SHARED, 0));
		if (single_first)
			EXPECT_EQ('f', mmap_peek(single.at + at));
		EXPECT_EQ('a', mmap_peek(huge.at));
		EXPECT_EQ('f', mmap_peek(single.at + at));
		EXPECT_EQ('f', mmap_peek(huge.at + at));
		mmap_gone(single_goes_first ? &single : &huge);
		ASSERT_EQ(0, ftruncate(single_goes_first ? other_fd : fd, 0));
		EXPECT_EQ('f', mmap_peek((single_goes_first ? huge.at : single.at)
					 + at));
		mmap_gone(single_goes_first ? &huge : &single);
		close(other_fd);
		close(fd);
	}
}

/* Reads by a huge page, then by single pages, and truncates the file. */
static void read_huge_and_single(struct __test_metadata *_metadata,
				 struct mmap_test *t, int fd, unsigned long page)
{
	const unsigned long pages = MMAP_HUGE / t->bs;
	struct mmap_map single, huge;

	ASSERT_EQ(0, mmap_at(t, &huge, fd, page, pages, PROT_READ, MAP_SHARED,
			     0));
	ASSERT_EQ(0, mmap_at(t, &single, fd, page, pages, PROT_READ, MAP_SHARED,
			     1));
	EXPECT_EQ('a', mmap_peek(huge.at));
	EXPECT_EQ('f', mmap_peek(single.at + 5 * t->bs));
	EXPECT_EQ('a', mmap_peek(single.at));
	EXPECT_EQ('f', mmap_peek(huge.at + 5 * t->bs));
	mmap_gone(&single);
	mmap_gone(&huge);
	ASSERT_EQ(0, ftruncate(fd, 0));
	close(fd);
}

/* One file maps shared blocks by a huge page and by single pages. */
TEST_F(mmap_cow, single_pages_of_a_shared_huge_page)
{
	int fd, other_fd;

	huge_and_clone(_metadata, &self->t, &fd, &other_fd);
	read_huge_and_single(_metadata, &self->t, fd, 0);
	close(other_fd);
}

/*
 * write(2) to page 10 and a store to page 20 of a shared huge page. The store
 * tries to map a huge page. This allocates new blocks for pages 0 to 9. They are
 * not filled, and stay, because write(2) may use them.
 */
static void leave_new_blocks(struct __test_metadata *_metadata,
			     FIXTURE_DATA(mmap_cow) *self, int fd,
			     struct mmap_map *m)
{
	const size_t bs = self->t.bs;
	struct cow_write wr = {
		.fd = fd, .from = self->from + bs, .len = 100, .pos = 10 * bs,
	};

	ASSERT_EQ(0, mmap_at(&self->t, m, fd, 0, MMAP_HUGE / bs,
			     PROT_READ | PROT_WRITE, MAP_SHARED, 0));
	begin_write(_metadata, self, &wr);
	mmap_poke(m->at + 20 * bs, 'S');
	end_write(_metadata, self, &wr);
}

/* New blocks that nothing has filled do not fill a hole. */
TEST_F(mmap_cow, hole_beside_a_write_is_empty)
{
	const size_t bs = self->t.bs, len = 10 * bs;
	char *page = dax_alloc(_metadata, len);
	struct mmap_map m;
	int fd, other_fd;

	ASSERT_EQ(0, taint_free_blocks(&self->t));
	huge_and_clone(_metadata, &self->t, &fd, &other_fd);
	leave_new_blocks(_metadata, self, fd, &m);
	ASSERT_EQ(0, punch(fd, 0, len));
	ASSERT_EQ((ssize_t)len, pread(fd, page, len, 0));
	for (size_t i = 0; i < len; i++) {
		ASSERT_EQ(0, page[i])
			TH_LOG("byte %zu of the hole is '%c'", i, page[i]);
	}
	mmap_gone(&m);
	close(other_fd);
	close(fd);
}

/* A store replaces blocks of a huge page, and the file can be removed. */
TEST_F(mmap_cow, huge_page_beside_new_blocks)
{
	const size_t bs = self->t.bs;
	struct mmap_map m, single;
	int fd, other_fd;

	huge_and_clone(_metadata, &self->t, &fd, &other_fd);
	leave_new_blocks(_metadata, self, fd, &m);
	ASSERT_EQ(0, ioctl(fd, FICLONE, other_fd));
	ASSERT_EQ(0, ftruncate(other_fd, 0));
	/* the page tables of the store do not take a huge page */
	mmap_gone(&m);
	ASSERT_EQ(0, mmap_at(&self->t, &m, fd, 0, MMAP_HUGE / bs, PROT_READ,
			     MAP_SHARED, 0));
	ASSERT_EQ(0, mmap_at(&self->t, &single, fd, 0, MMAP_HUGE / bs,
			     PROT_READ | PROT_WRITE, MAP_SHARED, 1));
	EXPECT_EQ('d', mmap_peek(m.at + 3 * bs));
	mmap_poke(single.at + 3 * bs, 'S');
	EXPECT_EQ('S', mmap_peek(m.at + 3 * bs));
	EXPECT_EQ('f', mmap_peek(m.at + 5 * bs));
	mmap_gone(&single);
	mmap_gone(&m);
	close(other_fd);
	ASSERT_EQ(0, ftruncate(fd, 0));
	close(fd);
}

/* Shares one block at @pos, and lets stores to it allocate @hint bytes. */
static int share_block(int fd, int other_fd, size_t bs, loff_t pos, size_t hint)
{
	struct file_clone_range range = {
		.src_fd = fd, .src_offset = pos, .src_length = bs,
	};
	struct fsxattr attr;

	if (ioctl(other_fd, FICLONERANGE, &range) ||
	    ioctl(fd, FS_IOC_FSGETXATTR, &attr))
		return -errno;
	attr.fsx_xflags |= FS_XFLAG_COWEXTSIZE;
	attr.fsx_cowextsize = hint;
	return ioctl(fd, FS_IOC_FSSETXATTR, &attr) ? -errno : 0;
}

/*
 * A store to a shared block allocates new blocks for a range that has a huge
 * page before it. A single page of this huge page is read, and the file can be
 * removed.
 */
TEST_F(mmap_cow, single_page_of_a_huge_page_with_new_blocks)
{
	const size_t bs = self->t.bs;
	const unsigned long pages = MMAP_HUGE / bs;
	struct mmap_map huge, single, next;
	int fd = mmap_file(&self->t, "huge", 2 * pages);
	int other_fd = mmap_file(&self->t, "other", 0);

	ASSERT_GE(fd, 0);
	ASSERT_GE(other_fd, 0);
	fill_huge(_metadata, &self->t, fd, 0);
	fill_huge(_metadata, &self->t, fd, pages);
	ASSERT_EQ(0, share_block(fd, other_fd, bs, MMAP_HUGE, 2 * MMAP_HUGE));
	ASSERT_EQ(0, mmap_at(&self->t, &huge, fd, 0, pages, PROT_READ,
			     MAP_SHARED, 0));
	ASSERT_EQ(0, mmap_at(&self->t, &single, fd, 0, pages, PROT_READ,
			     MAP_SHARED, 1));
	ASSERT_EQ(0, mmap_at(&self->t, &next, fd, pages, 1,
			     PROT_READ | PROT_WRITE, MAP_SHARED, 1));
	EXPECT_EQ('a', mmap_peek(huge.at));
	mmap_poke(next.at, 'S');
	EXPECT_EQ('f', mmap_peek(single.at + 5 * bs));
	EXPECT_EQ('f', mmap_peek(huge.at + 5 * bs));
	mmap_gone(&next);
	mmap_gone(&single);
	mmap_gone(&huge);
	close(other_fd);
	ASSERT_EQ(0, ftruncate(fd, 0));
	close(fd);
}

/*
 * write(2) replaces blocks while a page of them is in a pipe. Another file then
 * maps these blocks where a huge page fits. The pipe ends first.
 */
TEST_F(mmap_cow, huge_page_over_a_page_in_a_pipe)
{
	const size_t bs = self->t.bs;
	const unsigned long pages = MMAP_HUGE / bs;
	char *page = dax_alloc(_metadata, bs);
	struct mmap_map single, huge;
	int fd, other_fd, pipefd[2];

	huge_and_clone(_metadata, &self->t, &fd, &other_fd);
	ASSERT_EQ(0, mmap_at(&self->t, &single, fd, 0, pages, PROT_READ,
			     MAP_SHARED, 1));
	EXPECT_EQ('f', mmap_peek(single.at + 5 * bs));
	pipe_page(_metadata, single.at + 5 * bs, bs, pipefd);
	mmap_gone(&single);
	ASSERT_EQ(0, mmap_fill(&self->t, fd, 0, pages, 'n'));

	ASSERT_EQ(0, mmap_at(&self->t, &huge, other_fd, 0, pages, PROT_READ,
			     MAP_SHARED, 0));
	EXPECT_EQ('a', mmap_peek(huge.at));
	ASSERT_EQ((ssize_t)bs, read(pipefd[0], page, bs));
	EXPECT_EQ('f', page[0]);
	close(pipefd[0]);
	close(pipefd[1]);
	EXPECT_EQ('f', mmap_peek(huge.at + 5 * bs));
	mmap_gone(&huge);
	ASSERT_EQ(0, ftruncate(other_fd, 0));
	close(other_fd);
	close(fd);
}

struct cloning {
	int from_fd;
	int to_fd;
	atomic_bool done;
	int ret;
};

static void *clone_meanwhile(void *arg)
{
	struct cloning *cl = arg;

	cl->ret = ioctl(cl->to_fd, FICLONE, cl->from_fd) ? -errno : 0;
	atomic_store(&cl->done, true);
	return NULL;
}

#define EXTENTS_BEFORE 1024UL

/*
 * FICLONE shares one extent after the other. Other tasks can read the source
 * meanwhile. Only this file owns the blocks of the last extent, until FICLONE
 * shares them, too.
 */
TEST_F(mmap_cow, huge_page_while_its_blocks_get_shared)
{
	const size_t bs = self->t.bs, at = 2 * EXTENTS_BEFORE * bs;
	const unsigned long pages = MMAP_HUGE / bs;
	struct cloning cl = { };
	struct mmap_map m;
	pthread_t thread;

	ASSERT_EQ(0, at % MMAP_HUGE);
	cl.from_fd = mmap_file(&self->t, "many extents", at / bs + pages);
	ASSERT_GE(cl.from_fd, 0);
	fill_huge(_metadata, &self->t, cl.from_fd, at / bs);
	for (unsigned long i = 0; i < EXTENTS_BEFORE; i++)
		ASSERT_EQ(0, mmap_fill(&self->t, cl.from_fd, 2 * i, 1, 'x'));
	cl.to_fd = mmap_file(&self->t, "other", 0);
	ASSERT_GE(cl.to_fd, 0);
	ASSERT_EQ(0, mmap_at(&self->t, &m, cl.from_fd, at / bs, pages, PROT_READ,
			     MAP_SHARED, 0));

	ASSERT_EQ(0, pthread_create(&thread, NULL, clone_meanwhile, &cl));
	while (!atomic_load(&cl.done)) {
		EXPECT_EQ('a', mmap_peek(m.at));
		madvise(m.at, MMAP_HUGE, MADV_DONTNEED);
	}
	pthread_join(thread, NULL);
	ASSERT_EQ(0, cl.ret);
	read_huge_and_single(_metadata, &self->t, cl.from_fd, at / bs);
	mmap_gone(&m);
	close(cl.to_fd);
}

/* -- stores while write(2) fills a hole */

#define MEANWHILE_PAGES ((16UL << 20) / dax_bs())
#define MEANWHILE_ROUNDS 20

struct meanwhile {
	int fd;
	char *from;
	size_t len;
	atomic_bool done;
	int ret;
};

static void *write_meanwhile(void *arg)
{
	struct meanwhile *wr = arg;

	wr->ret = dax_write_all(wr->fd, wr->from, wr->len, 0);
	atomic_store(&wr->done, true);
	return NULL;
}

/*
 * The zero page is mapped everywhere in a hole. A store during write(2) goes to
 * the hole or to the new block, and does not fail. The two only meet by chance,
 * and only on several CPUs.
 */
TEST_F(mmap_pin, store_while_write_fills_the_hole)
{
	const size_t bs = self->t.bs, len = MEANWHILE_PAGES * bs;
	struct meanwhile wr = { .len = len };
	struct mmap_map m;
	pthread_t thread;

	wr.fd = mmap_file(&self->t, "file", MEANWHILE_PAGES);
	ASSERT_GE(wr.fd, 0);
	wr.from = dax_alloc(_metadata, len);
	ASSERT_EQ(0, mmap_at(&self->t, &m, wr.fd, 0, MEANWHILE_PAGES,
			     PROT_READ | PROT_WRITE, MAP_SHARED, 1));
	for (unsigned int i = 0; i < MEANWHILE_ROUNDS * dax_scale(); i++) {
		unsigned long page = i;
		int sig = 0;

		ASSERT_EQ(0, ftruncate(wr.fd, 0));
		ASSERT_EQ(0, ftruncate(wr.fd, len));
		mmap_touch(m.at, MEANWHILE_PAGES, bs);
		atomic_store(&wr.done, false);
		ASSERT_EQ(0, pthread_create(&thread, NULL, write_meanwhile, &wr));
		/*
		 * Store once to each page: afterwards the page is not a hole.
		 */
		for (; !atomic_load(&wr.done) && !sig; page += 1021)
			sig = mmap_store(m.at + page % MEANWHILE_PAGES * bs, 1);
		pthread_join(thread, NULL);
		ASSERT_EQ(0, sig) TH_LOG("a store has failed in round %u", i);
		ASSERT_EQ(0, wr.ret);
	}
	mmap_gone(&m);
	close(wr.fd);
}

int main(int argc, char **argv)
{
	return dax_main(argc, argv);
}
