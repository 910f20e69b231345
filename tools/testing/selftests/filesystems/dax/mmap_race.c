// SPDX-License-Identifier: GPL-2.0
/*
 * Readers of DAX mappings race with all changes of the file.
 *
 * One thread changes pages. Other threads fault the pages in and read them.
 * Each page goes through numbered steps. An odd step writes its number to the
 * page. An even step removes the page, so that the page reads as zeroes. The
 * number of a step is published before the step begins, and again when the step
 * is done.
 *
 * A reader loads the last step that is done, d, before it reads the page. Then
 * it loads the last step that has begun, b. The reader may only find the
 * results of steps d to b. It never finds the state before step d.
 */

#include <linux/falloc.h>
#include <linux/fs.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/ioctl.h>

#include "mmap_fixture.h"

#define PAGES 48UL
#define NR_READERS 2
#define ROUNDS 10

enum race_write {
	BY_WRITE,	/* write(2) */
	BY_STORE,	/* a store through another mapping */
};

enum race_take {
	BY_PUNCH,	/* page by page */
	BY_ZERO_RANGE,
	BY_TRUNCATE,	/* all at once */
	BY_CLONE,	/* page by page, clones blocks of zeroes */
};

struct race {
	struct mmap_map map[NR_READERS];
	atomic_uint begun[PAGES];
	atomic_uint done[PAGES];
	atomic_bool stop;
	atomic_ulong looks;
	atomic_uint wrong;
	uint32_t seen, was_done, had_begun, at_page;
	size_t bs;
	int fd;
	int zero_fd;
};

struct reader {
	struct race *race;
	unsigned int nr;
	unsigned long start;	/* survives siglongjmp() */
};

FIXTURE(mmap_race)
{
	struct mmap_test t;
	struct race race;
};

FIXTURE_VARIANT(mmap_race)
{
	enum mmap_fs kind;
	enum race_write write;
	enum race_take take;
};

FIXTURE_VARIANT_ADD(mmap_race, ext4_write_punch) {
	.kind = MMAP_EXT4, .write = BY_WRITE, .take = BY_PUNCH
};

FIXTURE_VARIANT_ADD(mmap_race, ext4_store_punch) {
	.kind = MMAP_EXT4, .write = BY_STORE, .take = BY_PUNCH
};

FIXTURE_VARIANT_ADD(mmap_race, ext4_write_zero) {
	.kind = MMAP_EXT4, .write = BY_WRITE, .take = BY_ZERO_RANGE
};

FIXTURE_VARIANT_ADD(mmap_race, ext4_store_truncate) {
	.kind = MMAP_EXT4, .write = BY_STORE, .take = BY_TRUNCATE
};

FIXTURE_VARIANT_ADD(mmap_race, xfs_write_punch) {
	.kind = MMAP_XFS, .write = BY_WRITE, .take = BY_PUNCH
};

FIXTURE_VARIANT_ADD(mmap_race, xfs_store_punch) {
	.kind = MMAP_XFS_REFLINK, .write = BY_STORE, .take = BY_PUNCH
};

FIXTURE_VARIANT_ADD(mmap_race, xfs_write_clone) {
	.kind = MMAP_XFS_REFLINK, .write = BY_WRITE, .take = BY_CLONE
};

FIXTURE_VARIANT_ADD(mmap_race, xfs_store_truncate) {
	.kind = MMAP_XFS, .write = BY_STORE, .take = BY_TRUNCATE
};

FIXTURE_SETUP(mmap_race)
{
	struct race *race = &self->race;

	if (dax_skips_bug(_metadata))
		return;
	mmap_begin(_metadata, &self->t, variant->kind);
	if (_metadata->exit_code)
		return;
	race->bs = self->t.bs;
	race->fd = mmap_file(&self->t, "file", PAGES);
	ASSERT_GE(race->fd, 0);
	if (variant->take == BY_CLONE) {
		race->zero_fd = mmap_file(&self->t, "zeroes", PAGES);
		ASSERT_GE(race->zero_fd, 0);
		for (unsigned long i = 0; i < PAGES; i++)
			ASSERT_EQ(0, dax_write_all(race->zero_fd, "", 1,
						   i * race->bs));
	}
	for (unsigned int i = 0; i < NR_READERS; i++)
		ASSERT_EQ(0, mmap_at(&self->t, &race->map[i], race->fd, 0,
				     PAGES, PROT_READ | PROT_WRITE, MAP_SHARED,
				     i));
}

FIXTURE_TEARDOWN(mmap_race)
{
	/* Mapped or open files would keep the filesystem mounted. */
	for (unsigned int i = 0; i < NR_READERS; i++)
		if (self->race.map[i].area_len)
			mmap_gone(&self->race.map[i]);
	if (self->race.fd > 0)
		close(self->race.fd);
	if (self->race.zero_fd > 0)
		close(self->race.zero_fd);
	mmap_end(_metadata, &self->t);
}

/* -- readers */

static bool allowed(uint32_t value, uint32_t done, uint32_t begun)
{
	if (value)
		return value % 2 && value >= done && value <= begun;
	/* A page is zero before step 1 and after each even step. */
	return done % 2 == 0 || begun > done;
}

static void look(struct race *race, const char *at, unsigned long page)
{
	uint32_t done = atomic_load(&race->done[page]);
	uint32_t value = __atomic_load_n((uint32_t *)(at + page * race->bs),
					 __ATOMIC_RELAXED);
	uint32_t begun = atomic_load(&race->begun[page]);

	if (allowed(value, done, begun) ||
	    atomic_fetch_add(&race->wrong, 1))
		return;
	race->seen = value;
	race->was_done = done;
	race->had_begun = begun;
	race->at_page = page;
}

static sigjmp_buf *reader_jump(void)
{
	static __thread sigjmp_buf jump;

	return &jump;
}

static void past_the_end(int sig)
{
	siglongjmp(*reader_jump(), sig);
}

/*
 * Read in order, because fault-around needs sequential reads. MADV_DONTNEED
 * drops the mapped pages, so that each pass faults again. SIGBUS is correct
 * while the file is truncated.
 */
static void *read_on(void *arg)
{
	struct reader *reader = arg;
	struct race *race = reader->race;
	const char *at = race->map[reader->nr].at;

	reader->start = reader->nr;
	while (!atomic_load(&race->stop)) {
		reader->start = (reader->start + 5) % PAGES;
		madvise((void *)at, PAGES * race->bs, MADV_DONTNEED);
		if (sigsetjmp(*reader_jump(), 1))
			continue;
		for (unsigned long i = reader->start; i < PAGES; i++)
			look(race, at, i);
		atomic_fetch_add(&race->looks, PAGES - reader->start);
	}
	return NULL;
}

/* -- the writer */

static int begin_step(struct race *race, unsigned long page)
{
	return atomic_fetch_add(&race->begun[page], 1) + 1;
}

static void end_step(struct race *race, unsigned long page)
{
	atomic_store(&race->done[page], atomic_load(&race->begun[page]));
}

static int write_page(struct race *race, const struct mmap_map *own,
		      enum race_write how, unsigned long page)
{
	uint32_t step = begin_step(race, page);
	int ret = 0;

	if (how == BY_STORE)
		__atomic_store_n((uint32_t *)(own->at + page * race->bs), step,
				 __ATOMIC_RELAXED);
	else
		ret = dax_write_all(race->fd, &step, sizeof(step),
				    page * race->bs);
	end_step(race, page);
	return ret;
}

static int clone_zeroes(struct race *race, unsigned long page)
{
	struct file_clone_range range = {
		.src_fd = race->zero_fd,
		.src_offset = page * race->bs,
		.src_length = race->bs,
		.dest_offset = page * race->bs,
	};

	return ioctl(race->fd, FICLONERANGE, &range);
}

static int take_page(struct race *race, enum race_take how, unsigned long page)
{
	int ret;

	begin_step(race, page);
	if (how == BY_CLONE)
		ret = clone_zeroes(race, page);
	else
		ret = fallocate(race->fd, how == BY_PUNCH ?
				FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE :
				FALLOC_FL_ZERO_RANGE, page * race->bs,
				race->bs);
	end_step(race, page);
	return ret ? -errno : 0;
}

static int take_all(struct race *race)
{
	unsigned long page;
	int ret;

	for (page = 0; page < PAGES; page++)
		begin_step(race, page);
	ret = ftruncate(race->fd, 0);
	if (!ret)
		ret = ftruncate(race->fd, PAGES * race->bs);
	for (page = 0; page < PAGES; page++)
		end_step(race, page);
	return ret ? -errno : 0;
}

static int change(struct race *race, const struct mmap_map *own,
		  enum race_write write, enum race_take take,
		  struct dax_rnd *rnd)
{
	unsigned long order = dax_rnd_below(rnd, PAGES), page;
	int ret = 0;

	/* 7 and 48 are coprime: write all pages, none in sequence. */
	for (unsigned long i = 0; i < PAGES && !ret; i++) {
		page = (order + 7 * i) % PAGES;
		ret = write_page(race, own, write, page);
	}
	if (take == BY_TRUNCATE)
		return ret ?: take_all(race);
	for (unsigned long i = 0; i < PAGES && !ret; i++) {
		page = (order + 11 * i) % PAGES;
		ret = take_page(race, take, page);
	}
	return ret;
}

static void run_race(struct __test_metadata *_metadata, struct mmap_test *t,
		     struct race *race, enum race_write write,
		     enum race_take take)
{
	struct sigaction act = { .sa_handler = past_the_end };
	unsigned int rounds = ROUNDS * dax_scale();
	struct reader reader[NR_READERS];
	pthread_t thread[NR_READERS];
	struct mmap_map own;
	struct dax_rnd rnd;
	int ret = 0;

	dax_seed(&rnd, "mmap_race");
	ASSERT_EQ(0, mmap_at(t, &own, race->fd, 0, PAGES,
			     PROT_READ | PROT_WRITE, MAP_SHARED, 9));
	sigaction(SIGBUS, &act, NULL);
	for (unsigned int i = 0; i < NR_READERS; i++) {
		reader[i] = (struct reader){ .race = race, .nr = i };
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, read_on,
					    &reader[i]));
	}
	while (rounds-- && !ret && !atomic_load(&race->wrong)) {
		unsigned long looks = atomic_load(&race->looks);

		ret = change(race, &own, write, take, &rnd);
		/* On a single CPU, let the readers run. */
		while (atomic_load(&race->looks) == looks &&
		       !atomic_load(&race->wrong))
			sched_yield();
	}
	atomic_store(&race->stop, true);
	for (unsigned int i = 0; i < NR_READERS; i++)
		pthread_join(thread[i], NULL);
	EXPECT_EQ(0, ret);
	EXPECT_EQ(0U, atomic_load(&race->wrong))
		TH_LOG("page %u read as %u (done %u, begun %u), %u times",
		       race->at_page, race->seen, race->was_done,
		       race->had_begun, atomic_load(&race->wrong));
	EXPECT_LT(0UL, atomic_load(&race->looks));
	mmap_gone(&own);
}

TEST_F(mmap_race, readers_see_the_last_step)
{
	run_race(_metadata, &self->t, &self->race, variant->write,
		 variant->take);
}

/* The same without fault-around, to tell whether that is the cause. */
TEST_F(mmap_race, readers_of_single_pages)
{
	if (self->t.window_was < 0)
		SKIP(return, "needs " MMAP_KNOB " (CONFIG_DEBUG_FS)");
	ASSERT_EQ(0, mmap_window_set(self->t.bs));
	run_race(_metadata, &self->t, &self->race, variant->write,
		 variant->take);
}

/*
 * A bug that a race has found, without the race. The pages of a hole are
 * mapped, then written one after the other. If the pages are preallocated, a
 * filesystem may convert more of them than the write covers.
 */
FIXTURE(mmap_writes)
{
	struct mmap_test t;
};

FIXTURE_VARIANT(mmap_writes)
{
	enum mmap_fs kind;
	bool preallocated;
};

FIXTURE_VARIANT_ADD(mmap_writes, ext4_hole) { .kind = MMAP_EXT4 };
FIXTURE_VARIANT_ADD(mmap_writes, ext4_preallocated) {
	.kind = MMAP_EXT4, .preallocated = true
};

FIXTURE_VARIANT_ADD(mmap_writes, xfs_hole) { .kind = MMAP_XFS };
FIXTURE_VARIANT_ADD(mmap_writes, xfs_preallocated) {
	.kind = MMAP_XFS_REFLINK, .preallocated = true
};

FIXTURE_SETUP(mmap_writes)
{
	if (dax_skips_bug(_metadata))
		return;
	mmap_begin(_metadata, &self->t, variant->kind);
}

FIXTURE_TEARDOWN(mmap_writes)
{
	mmap_end(_metadata, &self->t);
}

TEST_F(mmap_writes, seen_one_after_another)
{
	static const unsigned int stride[] = { 1, 5, PAGES - 1 };
	size_t bs = self->t.bs;
	struct mmap_map m = { };
	int fd;

	for (int s = 0; s < 3; s++) {
		fd = mmap_file(&self->t, "file", PAGES);
		ASSERT_GE(fd, 0);
		if (variant->preallocated)
			ASSERT_EQ(0, fallocate(fd, 0, 0, PAGES * bs));
		ASSERT_EQ(0, mmap_at(&self->t, &m, fd, 0, PAGES, PROT_READ,
				     MAP_SHARED, 1));
		EXPECT_EQ(0, mmap_touch(m.at, PAGES, bs));
		for (unsigned long i = 0; i < PAGES; i++) {
			unsigned long page = (3 + i * stride[s]) % PAGES;
			char value = page + 1;

			ASSERT_EQ(0, dax_write_all(fd, &value, 1, page * bs));
			EXPECT_EQ(value, m.at[page * bs])
				TH_LOG("page %lu, %lu pages written before",
				       page, i);
		}
		mmap_gone(&m);
		close(fd);
	}
}

int main(int argc, char **argv)
{
	return dax_main(argc, argv);
}
