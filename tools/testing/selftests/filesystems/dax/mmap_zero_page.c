// SPDX-License-Identifier: GPL-2.0
/*
 * Reads of a hole through a DAX mapping map the zero page.
 *
 * Holes use no memory, however they are mapped. When a page of a hole is
 * written, all mappings see the data at once. This holds for each process and
 * each kind of write. For comparison, one test shows the memory that the page
 * cache uses.
 */

#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "mmap_fixture.h"

#define GIB_PAGES(bs) ((1UL << 30) / (bs))
#define SOME_PAGES 64

#ifndef __NR_cachestat
#define __NR_cachestat 451
#endif

FIXTURE(mmap_zero_page)
{
	struct mmap_test t;
};

FIXTURE_VARIANT(mmap_zero_page)
{
	enum mmap_fs kind;
};

FIXTURE_VARIANT_ADD(mmap_zero_page, ext4) { .kind = MMAP_EXT4 };
FIXTURE_VARIANT_ADD(mmap_zero_page, xfs) { .kind = MMAP_XFS };
FIXTURE_VARIANT_ADD(mmap_zero_page, xfs_reflink) { .kind = MMAP_XFS_REFLINK };

FIXTURE_SETUP(mmap_zero_page)
{
	mmap_begin(_metadata, &self->t, variant->kind);
}

FIXTURE_TEARDOWN(mmap_zero_page)
{
	mmap_end(_metadata, &self->t);
}

/* -- memory */

/* Returns the number of a line "Name: number kB", or -1. */
static long kb_of(FILE *f, const char *name)
{
	char line[256];
	size_t len = strlen(name);

	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, name, len) && line[len] == ':')
			return atol(line + len + 1);
	return -1;
}

static long mem_kb(const char *name)
{
	FILE *f = fopen("/proc/meminfo", "re");
	long kb = f ? kb_of(f, name) : -1;

	if (f)
		fclose(f);
	return kb;
}

/* Returns a field in smaps of the mapping at @addr. */
static long map_kb(const void *addr, const char *name)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	char line[512], start[32];
	long kb = -1;

	if (!f)
		return -1;
	snprintf(start, sizeof(start), "%lx-", (unsigned long)addr);
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, start, strlen(start))) {
			kb = kb_of(f, name);
			break;
		}
	fclose(f);
	return kb;
}

/*
 * Counts the entries of a file's mapping tree. DAX entries are not pages, and
 * cachestat(2) counts such entries as evicted pages.
 */
static long tree_entries(int fd)
{
	struct { uint64_t off, len; } all = { 0, 0 };
	struct { uint64_t cache, dirty, writeback, evicted, recent; } cs;

	if (syscall(__NR_cachestat, fd, &all, &cs, 0))
		return -errno;
	return cs.cache ? -EBUSY : (long)cs.evicted;
}

static void read_gib(struct __test_metadata *_metadata, struct mmap_test *t,
		     unsigned long shift)
{
	static const char *const fields[] = {
		"Rss", "Pss", "Private_Clean", "Private_Dirty",
		"Shared_Clean", "Shared_Dirty", "Referenced", "Anonymous",
	};
	unsigned long pages = GIB_PAGES(t->bs);
	int fd = mmap_file(t, "hole", pages);
	long cached, anon, had;
	struct mmap_map m;
	struct stat st;

	ASSERT_GE(fd, 0);
	ASSERT_EQ(0, mmap_at(t, &m, fd, 0, pages, PROT_READ, MAP_SHARED,
			     shift));
	cached = mem_kb("Cached");
	anon = mem_kb("AnonPages");
	had = mem_kb("MemFree");
	EXPECT_EQ(0, mmap_touch(m.at, pages, t->bs));
	for (unsigned int i = 0; i < ARRAY_LEN(fields); i++) {
		EXPECT_EQ(0, map_kb(m.at, fields[i]))
			TH_LOG("%s", fields[i]);
	}
	/*
	 * The pages themselves use no memory, except one huge zero page, which
	 * has a page table of entries of 8 bytes. Page tables and tree entries
	 * use 16 bytes per page. The slack is for other tasks on this machine.
	 */
	EXPECT_LT(mem_kb("Cached") - cached, 32 * 1024);
	EXPECT_LT(mem_kb("AnonPages") - anon, 32 * 1024);
	EXPECT_LT(had - mem_kb("MemFree"),
		  (long)(128 * 1024 + t->bs * (t->bs / 8) / 1024));
	/* The file does not use space on the device, either. */
	EXPECT_EQ(0, fstat(fd, &st));
	EXPECT_EQ(0, st.st_blocks);
	mmap_gone(&m);
	close(fd);
}

TEST_F(mmap_zero_page, gib_by_single_pages)
{
	read_gib(_metadata, &self->t, 1);
}

TEST_F(mmap_zero_page, gib_by_huge_pages)
{
	read_gib(_metadata, &self->t, 0);
}

TEST_F(mmap_zero_page, gib_without_huge_pages)
{
	if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
		SKIP(return, "PR_SET_THP_DISABLE: %s", strerror(errno));
	read_gib(_metadata, &self->t, 0);
}

/* For comparison: the page cache uses memory for the same hole. */
TEST_F(mmap_zero_page, page_cache_takes_a_gib)
{
	unsigned long pages = GIB_PAGES(self->t.bs);
	struct mmap_map m;
	long cached;
	int fd;

	if (mem_kb("MemAvailable") < 1536 * 1024)
		SKIP(return, "needs 1.5 GiB of free memory");
	ASSERT_EQ(0, umount(self->t.fs.dir));
	ASSERT_EQ(0, mount(self->t.fs.dev, self->t.fs.dir,
			   variant->kind == MMAP_EXT4 ? "ext4" : "xfs", 0,
			   "dax=never"));
	fd = mmap_file(&self->t, "hole", pages);
	ASSERT_GE(fd, 0);
	ASSERT_EQ(0, dax_is_dax(fd));
	cached = mem_kb("Cached");
	ASSERT_EQ(0, mmap_at(&self->t, &m, fd, 0, pages, PROT_READ, MAP_SHARED,
			     1));
	EXPECT_EQ(0, mmap_touch(m.at, pages, self->t.bs));
	EXPECT_EQ(1024 * 1024, map_kb(m.at, "Rss"));
	EXPECT_GT(mem_kb("Cached") - cached, 1000 * 1024);
	mmap_gone(&m);
	close(fd);
}

/*
 * Each page that was read has an entry. Truncation and hole punching delete the
 * entries of the range, and may delete more.
 */
TEST_F(mmap_zero_page, entries_come_and_go)
{
	size_t bs = self->t.bs;
	struct mmap_map m;
	int fd = mmap_file(&self->t, "hole", SOME_PAGES);

	ASSERT_GE(fd, 0);
	if (tree_entries(fd) < 0) {
		close(fd);
		SKIP(return, "needs cachestat(2)");
	}
	EXPECT_EQ(0, tree_entries(fd));
	ASSERT_EQ(0, mmap_at(&self->t, &m, fd, 0, SOME_PAGES, PROT_READ,
			     MAP_SHARED, 1));
	EXPECT_EQ(0, mmap_touch(m.at, SOME_PAGES, bs));
	EXPECT_EQ(SOME_PAGES, tree_entries(fd));
	EXPECT_EQ(0, fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			       8 * bs, 8 * bs));
	EXPECT_GE(SOME_PAGES - 8, tree_entries(fd));
	EXPECT_EQ(0, mmap_count_present(m.at + 8 * bs, 8));
	EXPECT_EQ(0, mmap_touch(m.at, SOME_PAGES, bs));
	EXPECT_EQ(SOME_PAGES, tree_entries(fd));
	EXPECT_EQ(0, ftruncate(fd, 32 * bs));
	EXPECT_GE(32, tree_entries(fd));
	EXPECT_EQ(-SIGBUS, mmap_peek(m.at + 32 * bs));
	EXPECT_EQ(0, mmap_touch(m.at, 32, bs));
	mmap_gone(&m);
	EXPECT_EQ(32, tree_entries(fd));
	EXPECT_EQ(0, ftruncate(fd, 0));
	EXPECT_EQ(0, tree_entries(fd));
	close(fd);
}

/* -- coherence */

enum how {
	BY_WRITE,	/* write(2) */
	BY_MAPPING,	/* a store through a mapping of single pages */
	BY_HUGE,	/* a store through a mapping of huge pages */
	BY_CHILD,	/* a store by another process */
	BY_FALLOCATE,	/* fallocate(2), then write(2) */
	NR_HOW,
};

static void store(struct __test_metadata *_metadata, struct mmap_test *t,
		  int fd, unsigned long page, unsigned long pages,
		  enum how how, unsigned char value)
{
	struct mmap_map m = { };
	int status;

	if (how == BY_FALLOCATE)
		ASSERT_EQ(0, fallocate(fd, 0, page * t->bs, t->bs));
	if (how == BY_FALLOCATE || how == BY_WRITE) {
		ASSERT_EQ(0, dax_write_all(fd, &value, 1, page * t->bs));
		return;
	}
	ASSERT_EQ(0, mmap_at(t, &m, fd, 0, pages, PROT_READ | PROT_WRITE,
			     MAP_SHARED, how == BY_HUGE ? 0 : 2));
	if (how == BY_CHILD) {
		pid_t pid = fork();

		ASSERT_GE(pid, 0);
		if (!pid) {
			m.at[page * t->bs] = value;
			_exit(0);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_EQ(0, status);
	} else {
		m.at[page * t->bs] = value;
	}
	mmap_gone(&m);
}

/*
 * All pages are read as holes through both kinds of mappings. Then some pages
 * are written one after the other. Both mappings have to show the new data.
 */
static void write_under_readers(struct __test_metadata *_metadata,
				struct mmap_test *t, enum how how)
{
	unsigned long pages = MMAP_HUGE / t->bs;
	int fd = mmap_file(t, "file", pages);
	struct mmap_map m[2];
	size_t bs = t->bs;

	ASSERT_GE(fd, 0);
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(0, mmap_at(t, &m[i], fd, 0, pages, PROT_READ,
				     MAP_SHARED, i));
	/* Distant pages, neighbours, and the last page. */
	for (unsigned long page = 5; page < pages;
	     page = page == 6 ? 31 : page == 31 ? pages - 1 : page + 1) {
		for (int i = 0; i < 2; i++)
			mmap_touch(m[i].at, pages, bs);
		store(_metadata, t, fd, page, pages, how, 'x');
		for (int i = 0; i < 2; i++) {
			EXPECT_EQ('x', m[i].at[page * bs])
				TH_LOG("page %lu, mapping %d", page, i);
			EXPECT_EQ(0, m[i].at[page * bs + 1]);
		}
	}
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(0, m[i].at[4 * bs]);
		EXPECT_EQ(0, m[i].at[7 * bs]);
		mmap_gone(&m[i]);
	}
	close(fd);
}

TEST_F(mmap_zero_page, write_is_seen)
{
	write_under_readers(_metadata, &self->t, BY_WRITE);
}

TEST_F(mmap_zero_page, store_is_seen)
{
	write_under_readers(_metadata, &self->t, BY_MAPPING);
}

TEST_F(mmap_zero_page, store_in_step_is_seen)
{
	write_under_readers(_metadata, &self->t, BY_HUGE);
}

TEST_F(mmap_zero_page, store_by_child_is_seen)
{
	write_under_readers(_metadata, &self->t, BY_CHILD);
}

TEST_F(mmap_zero_page, fallocate_is_seen)
{
	write_under_readers(_metadata, &self->t, BY_FALLOCATE);
}

/* Removed pages read as zeroes, and leave no data behind. */
TEST_F(mmap_zero_page, what_goes_is_gone)
{
	size_t bs = self->t.bs;
	int fd = mmap_file(&self->t, "file", SOME_PAGES);
	struct mmap_map m;

	ASSERT_GE(fd, 0);
	ASSERT_EQ(0, mmap_fill(&self->t, fd, 0, SOME_PAGES, 1));
	ASSERT_EQ(0, mmap_at(&self->t, &m, fd, 0, SOME_PAGES, PROT_READ,
			     MAP_SHARED, 1));
	mmap_touch(m.at, SOME_PAGES, bs);
	EXPECT_EQ(0, fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			       4 * bs, 4 * bs));
	EXPECT_EQ(0, fallocate(fd, FALLOC_FL_ZERO_RANGE, 12 * bs, 4 * bs));
	for (int i = 0; i < SOME_PAGES; i++) {
		bool gone = (i >= 4 && i < 8) || (i >= 12 && i < 16);

		EXPECT_EQ(gone ? 0 : i + 1, m.at[i * bs])
			TH_LOG("page %d", i);
	}
	EXPECT_EQ(0, ftruncate(fd, 20 * bs));
	EXPECT_EQ(-SIGBUS, mmap_peek(m.at + 20 * bs));
	EXPECT_EQ(0, ftruncate(fd, SOME_PAGES * bs));
	EXPECT_EQ(20, m.at[19 * bs]);
	for (int i = 20; i < SOME_PAGES; i++) {
		EXPECT_EQ(0, m.at[i * bs])
			TH_LOG("page %d", i);
	}
	mmap_gone(&m);
	close(fd);
}

int main(int argc, char **argv)
{
	return dax_main(argc, argv);
}
