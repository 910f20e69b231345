// SPDX-License-Identifier: GPL-2.0
/*
 * Read faults on DAX mappings map the pages that follow.
 *
 * The tests count the faults, and check the limits of a window. They also check
 * that nothing else changes. /proc/self/pagemap shows mapped pages without a
 * fault.
 */

#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "mmap_fixture.h"

#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC 0x8000
#endif

#define PAGES 512UL

FIXTURE(mmap_fault_around)
{
	struct mmap_test t;
	unsigned long window;	/* in pages */
};

FIXTURE_VARIANT(mmap_fault_around)
{
	enum mmap_fs kind;
	bool data;
	unsigned long pages;
};

FIXTURE_VARIANT_ADD(mmap_fault_around, ext4_hole) {
	.kind = MMAP_EXT4, .data = false, .pages = 16
};

FIXTURE_VARIANT_ADD(mmap_fault_around, ext4_data) {
	.kind = MMAP_EXT4, .data = true, .pages = 16
};

FIXTURE_VARIANT_ADD(mmap_fault_around, ext4_data_huge) {
	.kind = MMAP_EXT4, .data = true, .pages = PAGES
};

FIXTURE_VARIANT_ADD(mmap_fault_around, xfs_hole) {
	.kind = MMAP_XFS, .data = false, .pages = 16
};

FIXTURE_VARIANT_ADD(mmap_fault_around, xfs_data) {
	.kind = MMAP_XFS_REFLINK, .data = true, .pages = 16
};

static void begin(struct __test_metadata *_metadata, struct mmap_test *t,
		  enum mmap_fs kind, unsigned long pages)
{
	if (!mmap_has_fault_around())
		SKIP(return, "this kernel maps one page per fault");
	mmap_begin(_metadata, t, kind);
	if (_metadata->exit_code)
		return;
	if (t->window_was < 0)
		SKIP(return, "needs " MMAP_KNOB " (CONFIG_DEBUG_FS)");
	ASSERT_EQ(0, mmap_window_set(pages * t->bs));
}

FIXTURE_SETUP(mmap_fault_around)
{
	self->window = variant->pages;
	begin(_metadata, &self->t, variant->kind, self->window);
}

FIXTURE_TEARDOWN(mmap_fault_around)
{
	mmap_end(_metadata, &self->t);
}

/* A file of the variant's kind; page i of data begins with byte i. */
static int new_file(struct __test_metadata *_metadata, struct mmap_test *t,
		    bool data, unsigned long pages)
{
	int fd = mmap_file(t, "file", pages);

	ASSERT_GE(fd, 0);
	/* A single extent, so that one mapping covers every window. */
	if (data) {
		ASSERT_EQ(0, fallocate(fd, 0, 0, pages * t->bs));
		ASSERT_EQ(0, mmap_fill(t, fd, 0, pages, 0));
	}
	return fd;
}

static unsigned char expect(bool data, unsigned long page)
{
	return data ? page : 0;
}

/* -- number of faults */

TEST_F(mmap_fault_around, takes_a_fault_per_window)
{
	int fd = new_file(_metadata, &self->t, variant->data, PAGES);
	size_t bs = self->t.bs;
	struct mmap_map m;
	long faults;

	ASSERT_EQ(0, mmap_at(&self->t, &m, fd, 0, PAGES, PROT_READ, MAP_SHARED,
			     PAGES / 2));
	faults = mmap_faults();
	for (unsigned long i = 0; i < PAGES; i++)
		EXPECT_EQ(expect(variant->data, i),
			  (unsigned char)m.at[i * bs]);
	faults = mmap_faults() - faults;
	/* The mapping spans two page tables, and windows are aligned. */
	EXPECT_LE(faults, (long)(PAGES / self->window + 2));
	EXPECT_EQ((long)PAGES, mmap_count_present(m.at, PAGES));
	mmap_gone(&m);

	/* Existing entries in the mapping tree make no difference. */
	ASSERT_EQ(0, mmap_at(&self->t, &m, fd, 0, PAGES, PROT_READ, MAP_SHARED,
			     PAGES / 2));
	faults = mmap_faults();
	mmap_touch(m.at, PAGES, bs);
	faults = mmap_faults() - faults;
	EXPECT_LE(faults, (long)(PAGES / self->window + 2));
	mmap_gone(&m);
	close(fd);
}

TEST_F(mmap_fault_around, off_is_off)
{
	int fd = new_file(_metadata, &self->t, variant->data, 64);
	struct mmap_map m;

	ASSERT_EQ(0, mmap_window_set(self->t.bs));
	ASSERT_EQ(0, mmap_at(&self->t, &m, fd, 0, 64, PROT_READ, MAP_SHARED,
			     1));
	for (unsigned long i = 0; i < 64; i++) {
		mmap_touch(m.at + i * self->t.bs, 1, 1);
		EXPECT_EQ((long)i + 1, mmap_count_present(m.at, 64));
	}
	mmap_gone(&m);
	close(fd);
}

/* A random read maps one page, a sequential read maps more. */
TEST_F(mmap_fault_around, waits_for_the_second_page)
{
	int fd = new_file(_metadata, &self->t, variant->data, PAGES);
	unsigned long some = self->window < 64 ? self->window : 64;
	size_t bs = self->t.bs;
	struct mmap_map m;

	ASSERT_EQ(0, mmap_at(&self->t, &m, fd, 0, PAGES, PROT_READ, MAP_SHARED,
			     0));
	ASSERT_EQ(0, madvise(m.at, PAGES * bs, MADV_NOHUGEPAGE));
	for (unsigned long i = 7; i < PAGES; i += 64)
		mmap_touch(m.at + i * bs, 1, 1);
	EXPECT_EQ((long)PAGES / 64, mmap_count_present(m.at, PAGES));
	mmap_touch(m.at + 8 * bs, 1, 1);
	EXPECT_EQ((long)some - 7, mmap_count_present(m.at + 7 * bs, some - 7));
	/* Pages before the fault and the next window stay unmapped. */
	EXPECT_EQ(0, mmap_count_present(m.at, 7));
	if (self->window < PAGES)
		EXPECT_EQ(0, mmap_present(m.at + self->window * bs));
	mmap_gone(&m);
	close(fd);
}

TEST_F(mmap_fault_around, takes_advice)
{
	int fd = new_file(_metadata, &self->t, variant->data, PAGES);
	size_t bs = self->t.bs;
	struct mmap_map m;

	ASSERT_EQ(0, mmap_at(&self->t, &m, fd, 0, PAGES, PROT_READ, MAP_SHARED,
			     1));
	ASSERT_EQ(0, madvise(m.at, PAGES * bs, MADV_RANDOM));
	mmap_touch(m.at, 32, bs);
	EXPECT_EQ(32, mmap_count_present(m.at, PAGES));
	ASSERT_EQ(0, madvise(m.at, PAGES * bs, MADV_SEQUENTIAL));
	mmap_touch(m.at + 100 * bs, 1, 1);
	EXPECT_LT(33, mmap_count_present(m.at, PAGES));
	mmap_gone(&m);
	close(fd);
}

/* -- limits of a window */

TEST_F(mmap_fault_around, ends_with_the_file)
{
	struct mmap_test *t = &self->t;
	int fd = new_file(_metadata, t, variant->data, 21);
	size_t bs = t->bs;
	struct mmap_map m;

	/* Pages beyond EOF must not be mapped, with or without blocks. */
	ASSERT_EQ(0, fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 40 * bs));
	ASSERT_EQ(0, ftruncate(fd, 20 * bs + 100));
	ASSERT_EQ(0, fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 40 * bs));
	ASSERT_EQ(0, mmap_at(t, &m, fd, 0, 64, PROT_READ, MAP_SHARED, 0));
	ASSERT_EQ(0, madvise(m.at, 64 * bs, MADV_NOHUGEPAGE));
	mmap_touch(m.at, 20, bs);
	EXPECT_EQ(expect(variant->data, 20), (unsigned char)m.at[20 * bs]);
	EXPECT_EQ(0, m.at[20 * bs + 100]);
	EXPECT_EQ(21, mmap_count_present(m.at, 64));
	for (unsigned long i = 21; i < 64; i++)
		EXPECT_EQ(-SIGBUS, mmap_peek(m.at + i * bs));
	/* Pages can be mapped as soon as the file is longer. */
	ASSERT_EQ(0, ftruncate(fd, 30 * bs));
	for (unsigned long i = 21; i < 64; i++)
		EXPECT_EQ(i < 30 ? 0 : -SIGBUS, mmap_peek(m.at + i * bs));
	EXPECT_EQ(9, mmap_count_present(m.at + 21 * bs, 43));
	mmap_gone(&m);
	close(fd);
}

TEST_F(mmap_fault_around, ends_with_the_mapping)
{
	int fd = new_file(_metadata, &self->t, variant->data, PAGES);
	size_t bs = self->t.bs;
	struct mmap_map m;
	char *next;

	/* Map ten pages in the middle of a window. Anonymous memory follows. */
	ASSERT_EQ(0, mmap_at(&self->t, &m, fd, 3, 10, PROT_READ, MAP_SHARED,
			     0));
	next = mmap(m.at + 10 * bs, bs, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	ASSERT_NE(MAP_FAILED, next);
	mmap_touch(m.at, 10, bs);
	EXPECT_EQ(10, mmap_count_present(m.at, 10));
	EXPECT_EQ(0, mmap_present(next));
	EXPECT_EQ(0, mmap_present(m.at - bs));
	EXPECT_EQ(0, next[0]);
	for (unsigned long i = 0; i < 10; i++)
		EXPECT_EQ(expect(variant->data, i + 3),
			  (unsigned char)m.at[i * bs]);
	mmap_gone(&m);
	close(fd);
}

/* Holes, unwritten extents and written extents of one to five pages. */
TEST_F(mmap_fault_around, contents_across_extents)
{
	struct mmap_test *t = &self->t;
	unsigned char model[256] = { };
	size_t bs = t->bs;
	int fd = mmap_file(t, "file", ARRAY_LEN(model));
	struct mmap_map m = { };
	struct dax_rnd rnd;
	unsigned long i;

	ASSERT_GE(fd, 0);
	dax_seed(&rnd, "contents_across_extents");
	for (i = 0; i + 5 < ARRAY_LEN(model);) {
		unsigned long n = 1 + dax_rnd_below(&rnd, 5);

		switch (dax_rnd_below(&rnd, 3)) {
		case 0:
			ASSERT_EQ(0, mmap_fill(t, fd, i, n, 'a' + i % 16));
			for (unsigned long k = 0; k < n; k++)
				model[i + k] = 'a' + i % 16 + k;
			break;
		case 1:
			ASSERT_EQ(0, fallocate(fd, 0, i * bs, n * bs));
			break;
		}
		i += n;
	}
	for (unsigned long shift = 0; shift < 3; shift++) {
		ASSERT_EQ(0, mmap_at(t, &m, fd, 0, ARRAY_LEN(model), PROT_READ,
				     MAP_SHARED, shift));
		for (i = 0; i < ARRAY_LEN(model); i++) {
			EXPECT_EQ(model[i], (unsigned char)m.at[i * bs])
				TH_LOG("page %lu", i);
			EXPECT_EQ(model[i], (unsigned char)m.at[i * bs + bs - 1]);
		}
		mmap_gone(&m);
	}
	close(fd);
}

/* -- unchanged behaviour */

/* Each page still needs its own write fault, or fsync misses the store. */
TEST_F(mmap_fault_around, writes_fault_page_by_page)
{
	int fd = new_file(_metadata, &self->t, variant->data, 64);
	size_t bs = self->t.bs;
	struct mmap_map m;
	unsigned char c;
	cpu_set_t one;

	/* arm64 leaves a page write-protected in the TLBs of other CPUs */
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	ASSERT_EQ(0, sched_setaffinity(0, sizeof(one), &one));
	ASSERT_EQ(0, mmap_at(&self->t, &m, fd, 0, 64, PROT_READ | PROT_WRITE,
			     MAP_SHARED, 1));
	mmap_touch(m.at, 64, bs);
	for (int round = 0; round < 2; round++) {
		for (unsigned long i = 0; i < 64; i += 3) {
			long faults = mmap_faults();

			mmap_poke(m.at + i * bs, 'w' + round);
			EXPECT_EQ(1, mmap_faults() - faults);
			faults = mmap_faults();
			mmap_poke(m.at + i * bs + 1, 'w' + round);
			EXPECT_EQ(0, mmap_faults() - faults);
		}
		/* fsync cleans the pages, so that each page faults again. */
		ASSERT_EQ(0, fsync(fd));
	}
	for (unsigned long i = 0; i < 64; i++) {
		ASSERT_EQ(1, pread(fd, &c, 1, i * bs));
		EXPECT_EQ(i % 3 ? expect(variant->data, i) : 'x', c);
		EXPECT_EQ(c, (unsigned char)m.at[i * bs]);
	}
	mmap_gone(&m);
	close(fd);
}

/* Pages that are already mapped and dirty stay unchanged. */
TEST_F(mmap_fault_around, leaves_mapped_pages_alone)
{
	int fd = new_file(_metadata, &self->t, variant->data, 64);
	size_t bs = self->t.bs;
	struct mmap_map m;
	long faults;

	ASSERT_EQ(0, mmap_at(&self->t, &m, fd, 0, 64, PROT_READ | PROT_WRITE,
			     MAP_SHARED, 1));
	for (unsigned long i = 5; i < 64; i += 4)
		m.at[i * bs] = 'm';
	mmap_touch(m.at, 64, bs);
	faults = mmap_faults();
	for (unsigned long i = 5; i < 64; i += 4)
		mmap_poke(m.at + i * bs + 1, 'm');
	EXPECT_EQ(0, mmap_faults() - faults);
	for (unsigned long i = 0; i < 64; i++)
		EXPECT_EQ(i >= 5 && i % 4 == 1 ? 'm' :
			  expect(variant->data, i),
			  (unsigned char)m.at[i * bs]);
	mmap_gone(&m);
	close(fd);
}

TEST_F(mmap_fault_around, private_mapping_copies)
{
	int fd = new_file(_metadata, &self->t, variant->data, 64);
	size_t bs = self->t.bs;
	struct mmap_map m;
	unsigned char c;

	ASSERT_EQ(0, mmap_at(&self->t, &m, fd, 0, 64, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE, 1));
	mmap_touch(m.at, 3, bs);
	for (unsigned long i = 0; i < 64; i += 2)
		m.at[i * bs] = 'p';
	for (unsigned long i = 0; i < 64; i++) {
		ASSERT_EQ(1, pread(fd, &c, 1, i * bs));
		EXPECT_EQ(expect(variant->data, i), c);
		EXPECT_EQ(i % 2 ? c : 'p', (unsigned char)m.at[i * bs]);
	}
	mmap_gone(&m);
	close(fd);
}

TEST_F(mmap_fault_around, synchronous_mapping)
{
	int fd = new_file(_metadata, &self->t, variant->data, 64);
	size_t bs = self->t.bs;
	struct mmap_map m;
	unsigned char c;
	int ret;

	ret = mmap_at(&self->t, &m, fd, 0, 64, PROT_READ | PROT_WRITE,
		      MAP_SHARED_VALIDATE | MAP_SYNC, 1);
	if (ret == -EOPNOTSUPP) {
		close(fd);
		SKIP(return, "this device is not synchronous");
	}
	ASSERT_EQ(0, ret);
	mmap_touch(m.at, 64, bs);
	for (unsigned long i = 0; i < 64; i += 5)
		m.at[i * bs] = 's';
	for (unsigned long i = 0; i < 64; i++) {
		ASSERT_EQ(1, pread(fd, &c, 1, i * bs));
		EXPECT_EQ(i % 5 ? expect(variant->data, i) : 's', c);
	}
	mmap_gone(&m);
	close(fd);
}

/* With userfaultfd write protection, a read fault maps a single page. */
TEST_F(mmap_fault_around, userfaultfd_write_protection)
{
	struct uffdio_api api = {
		.api = UFFD_API, .features = UFFD_FEATURE_WP_ASYNC
	};
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_WP };
	struct mmap_map m;
	int uffd, fd, ret;

	uffd = syscall(__NR_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	if (uffd < 0)
		SKIP(return, "needs userfaultfd: %s", strerror(errno));
	if (ioctl(uffd, UFFDIO_API, &api))
		SKIP(return, "needs UFFD_FEATURE_WP_ASYNC (CONFIG_PTE_MARKER_UFFD_WP)");
	fd = new_file(_metadata, &self->t, variant->data, 64);
	ASSERT_EQ(0, mmap_at(&self->t, &m, fd, 0, 64, PROT_READ | PROT_WRITE,
			     MAP_SHARED, 1));
	reg.range.start = (uintptr_t)m.at;
	reg.range.len = 64 * self->t.bs;
	ret = ioctl(uffd, UFFDIO_REGISTER, &reg) ? -errno : 0;
	if (!ret) {
		mmap_touch(m.at, 20, self->t.bs);
		EXPECT_EQ(20, mmap_count_present(m.at, 64));
	}
	close(uffd);
	mmap_gone(&m);
	close(fd);
	if (ret)
		SKIP(return, "DAX mappings cannot be registered: %s",
		     strerror(-ret));
}

/* -- errors, and other users of the page tables */

FIXTURE(mmap_bad_page)
{
	struct mmap_test t;
};

FIXTURE_VARIANT(mmap_bad_page)
{
	enum mmap_fs kind;
};

FIXTURE_VARIANT_ADD(mmap_bad_page, ext4) { .kind = MMAP_EXT4 };
FIXTURE_VARIANT_ADD(mmap_bad_page, xfs) { .kind = MMAP_XFS };

FIXTURE_SETUP(mmap_bad_page)
{
	begin(_metadata, &self->t, variant->kind, 16);
}

FIXTURE_TEARDOWN(mmap_bad_page)
{
	mmap_end(_metadata, &self->t);
}

/* Only the bad page fails. The pages around it can be read. */
TEST_F(mmap_bad_page, is_passed_over)
{
	size_t bs = self->t.bs;
	struct mmap_map m;
	int fd, ret;

	fd = new_file(_metadata, &self->t, true, 64);
	ret = dax_mark_bad(self->t.fs.dev, fd, 9 * bs);
	if (ret == -ENOENT) {
		close(fd);
		SKIP(return, "the device has no badblocks attribute");
	}
	ASSERT_EQ(0, ret);
	ASSERT_EQ(0, mmap_at(&self->t, &m, fd, 0, 64, PROT_READ, MAP_SHARED,
			     1));
	for (unsigned long i = 0; i < 64; i++)
		EXPECT_EQ(i == 9 ? -SIGBUS : (int)i, mmap_peek(m.at + i * bs));
	EXPECT_EQ(0, mmap_present(m.at + 9 * bs));
	EXPECT_EQ(63, mmap_count_present(m.at, 64));
	/* A write clears the bad block. The page can be read then. */
	EXPECT_EQ(0, mmap_fill(&self->t, fd, 9, 1, 9));
	EXPECT_EQ(9, mmap_peek(m.at + 9 * bs));
	mmap_gone(&m);
	close(fd);
}

static sig_atomic_t mf_signals;

static void count_signal(int sig)
{
	mf_signals++;
}

/*
 * A memory failure of a page is reported to a process that has mapped the page,
 * even if the process has not touched it yet. No other page is lost.
 */
TEST_F(mmap_bad_page, memory_failure)
{
	struct sigaction act = { .sa_handler = count_signal }, old;
	size_t bs = self->t.bs;
	struct mmap_map m;
	int fd, ret;

	fd = new_file(_metadata, &self->t, true, 64);
	ASSERT_EQ(0, mmap_at(&self->t, &m, fd, 0, 64, PROT_READ, MAP_SHARED,
			     1));
	mmap_touch(m.at, 1, bs);
	ASSERT_EQ(1, mmap_present(m.at + 9 * bs));
	ASSERT_EQ(0, sigaction(SIGBUS, &act, &old));
	ret = madvise(m.at + 9 * bs, bs, MADV_HWPOISON) ? errno : 0;
	ASSERT_EQ(0, sigaction(SIGBUS, &old, NULL));
	if (ret == EINVAL) {
		mmap_gone(&m);
		close(fd);
		SKIP(return, "needs CONFIG_MEMORY_FAILURE");
	}
	EXPECT_EQ(1, mf_signals);
	EXPECT_EQ(0, mmap_present(m.at + 9 * bs));
	for (unsigned long i = 0; i < 64; i++) {
		if (i != 9)
			EXPECT_EQ((int)i, mmap_peek(m.at + i * bs));
	}
	/* A write clears the failure in the hardware and in the kernel. */
	EXPECT_EQ(0, mmap_fill(&self->t, fd, 9, 1, 9));
	EXPECT_EQ(9, mmap_peek(m.at + 9 * bs));
	mmap_gone(&m);
	close(fd);
}

TEST_F(mmap_fault_around, fork_mremap_mlock)
{
	int fd = new_file(_metadata, &self->t, variant->data, PAGES), status;
	size_t bs = self->t.bs;
	struct mmap_map m;
	unsigned long i;
	char *moved;
	pid_t pid;

	ASSERT_EQ(0, mmap_at(&self->t, &m, fd, 0, PAGES, PROT_READ, MAP_SHARED,
			     1));
	mmap_touch(m.at, 20, bs);
	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid) {
		for (i = 0; i < PAGES; i++)
			if ((unsigned char)m.at[i * bs] !=
			    expect(variant->data, i))
				_exit(1);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);

	/* Move the mapping to an address with another offset to huge pages. */
	moved = mmap(NULL, (PAGES + 1) * bs, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, moved);
	ASSERT_EQ(moved + bs, mremap(m.at, PAGES * bs, PAGES * bs,
				     MREMAP_MAYMOVE | MREMAP_FIXED,
				     moved + bs));
	for (i = 0; i < PAGES; i++)
		EXPECT_EQ(expect(variant->data, i),
			  (unsigned char)moved[(i + 1) * bs]);
	EXPECT_EQ(0, madvise(moved + bs, PAGES * bs, MADV_DONTNEED));
	EXPECT_EQ(0, mlock(moved + bs, PAGES * bs));
	EXPECT_EQ(0, munlock(moved + bs, PAGES * bs));
	for (i = 0; i < PAGES; i++)
		EXPECT_EQ(expect(variant->data, i),
			  (unsigned char)moved[(i + 1) * bs]);
	munmap(moved, (PAGES + 1) * bs);
	mmap_gone(&m);
	close(fd);
}

/* Returns nr_mapped, the number of mapped file pages. */
static long pages_mapped(void)
{
	FILE *file;
	char line[128];
	long nr = -1;

	/* Add the per-CPU counters to the total. */
	file = fopen("/proc/sys/vm/stat_refresh", "w");
	if (!file || fputs("1", file) < 0 || fclose(file))
		return -1;
	file = fopen("/proc/vmstat", "r");
	if (!file)
		return -1;
	while (nr < 0 && fgets(line, sizeof(line), file))
		if (sscanf(line, "nr_mapped %ld", &nr) != 1)
			nr = -1;
	fclose(file);
	return nr;
}

/* Maps a file twice, then no more. Returns true if nr_mapped is as wanted. */
static bool counts_as(struct __test_metadata *_metadata, struct mmap_test *t,
		      int fd, long wanted)
{
	long before = pages_mapped(), slack = PAGES / 8;
	struct mmap_map m[2];
	bool good = true;

	ASSERT_GE(before, 0);
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(0, mmap_at(t, &m[i], fd, 0, PAGES, PROT_READ,
				     MAP_SHARED, 1));
		mmap_touch(m[i].at, PAGES, t->bs);
		good &= labs(pages_mapped() - before - wanted) <= slack;
	}
	mmap_gone(&m[0]);
	good &= labs(pages_mapped() - before - wanted) <= slack;
	mmap_gone(&m[1]);
	return good && labs(pages_mapped() - before) <= slack;
}

/* A page that is mapped twice counts once. The zero page does not count. */
TEST_F(mmap_fault_around, counts_mapped_pages)
{
	int fd = new_file(_metadata, &self->t, variant->data, PAGES), tries;
	bool good = false;

	/* Other processes change the number, too. */
	for (tries = 0; tries < 10 && !good; tries++)
		good = counts_as(_metadata, &self->t, fd,
				 variant->data ? PAGES : 0);
	EXPECT_TRUE(good);
	close(fd);
}

/* Read huge pages by single pages, and the other way round. */
TEST_F(mmap_fault_around, beside_huge_pages)
{
	unsigned long pages = 2 * MMAP_HUGE / self->t.bs;
	int fd = new_file(_metadata, &self->t, variant->data, pages);
	struct mmap_map huge, single;
	size_t bs = self->t.bs;

	ASSERT_EQ(0, mmap_at(&self->t, &huge, fd, 0, pages, PROT_READ,
			     MAP_SHARED, 0));
	ASSERT_EQ(0, mmap_at(&self->t, &single, fd, 0, pages, PROT_READ,
			     MAP_SHARED, 3));
	for (int round = 0; round < 2; round++) {
		mmap_touch(huge.at, 1, 1);
		for (unsigned long i = 0; i < pages; i++)
			ASSERT_EQ(expect(variant->data, i),
				  (unsigned char)single.at[i * bs]);
		for (unsigned long i = 0; i < pages; i++)
			ASSERT_EQ(expect(variant->data, i),
				  (unsigned char)huge.at[i * bs]);
		/* Fault again with the entries that exist now. */
		ASSERT_EQ(0, madvise(huge.at, pages * bs, MADV_DONTNEED));
		ASSERT_EQ(0, madvise(single.at, pages * bs, MADV_DONTNEED));
	}
	mmap_gone(&huge);
	mmap_gone(&single);
	close(fd);
}

/* -- shared extents: a page belongs to several mapping trees */

FIXTURE(mmap_shared)
{
	struct mmap_test t;
	struct mmap_map a, b;
	int fd, clone;
};

#define SHARED_PAGES (2 * MMAP_HUGE / self->t.bs)

FIXTURE_VARIANT(mmap_shared)
{
	unsigned long shift;	/* of the mapping, see mmap_at() */
};

FIXTURE_VARIANT_ADD(mmap_shared, single_pages) { .shift = 1 };
FIXTURE_VARIANT_ADD(mmap_shared, huge_pages) { .shift = 0 };

FIXTURE_SETUP(mmap_shared)
{
	struct mmap_test *t = &self->t;

	if (dax_skips_bug(_metadata))
		return;
	self->fd = -1;
	self->clone = -1;
	mmap_begin(_metadata, t, MMAP_XFS_REFLINK);
	if (_metadata->exit_code)
		return;
	self->fd = new_file(_metadata, t, true, SHARED_PAGES);
	self->clone = dax_open(&t->fs, "clone", O_RDWR | O_CREAT);
	ASSERT_GE(self->clone, 0);
	ASSERT_EQ(0, ioctl(self->clone, FICLONE, self->fd));
	ASSERT_EQ(0, mmap_at(t, &self->a, self->fd, 0, SHARED_PAGES,
			     PROT_READ | PROT_WRITE, MAP_SHARED,
			     variant->shift));
	/* Both files must map a shared block with the same page size. */
	if (variant->shift)
		ASSERT_EQ(0, mmap_at(t, &self->b, self->clone, 0, SHARED_PAGES,
				     PROT_READ | PROT_WRITE, MAP_SHARED, 2));
}

FIXTURE_TEARDOWN(mmap_shared)
{
	if (self->a.area_len)
		mmap_gone(&self->a);
	if (self->b.area_len)
		mmap_gone(&self->b);
	close(self->clone);
	close(self->fd);
	mmap_end(_metadata, &self->t);
}

/* If @own is not 0, every seventh page of the first file begins with it. */
static void expect_shared(struct __test_metadata *_metadata,
			  FIXTURE_DATA(mmap_shared) *self, unsigned char own)
{
	size_t bs = self->t.bs;
	unsigned char c;

	for (unsigned long i = 0; i < SHARED_PAGES; i++) {
		EXPECT_EQ(own && i % 7 == 0 ? own : (unsigned char)i,
			  (unsigned char)self->a.at[i * bs]);
		EXPECT_EQ(1, pread(self->clone, &c, 1, i * bs));
		EXPECT_EQ((unsigned char)i, c);
		if (self->b.area_len)
			EXPECT_EQ(c, (unsigned char)self->b.at[i * bs]);
	}
}

TEST_F(mmap_shared, store_copies)
{
	expect_shared(_metadata, self, 0);
	for (unsigned long i = 0; i < SHARED_PAGES; i += 7)
		self->a.at[i * self->t.bs] = 'A';
	expect_shared(_metadata, self, 'A');
}

/* Write while single or huge pages map the old blocks. */
TEST_F(mmap_shared, write_copies)
{
	expect_shared(_metadata, self, 0);
	for (unsigned long i = 0; i < SHARED_PAGES; i += 7)
		ASSERT_EQ(0, dax_write_all(self->fd, "A", 1, i * self->t.bs));
	expect_shared(_metadata, self, 'A');
}

int main(int argc, char **argv)
{
	return dax_main(argc, argv);
}
