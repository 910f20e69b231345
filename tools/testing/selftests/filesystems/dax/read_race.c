// SPDX-License-Identifier: GPL-2.0
/*
 * Readers of a DAX file against all that writes to it and takes its blocks
 * away. What else moves them is read_moves.c's.
 */

#include "race_fixture.h"

FIXTURE(read_race)
{
	struct race t;
};

FIXTURE_VARIANT(read_race)
{
	enum dax_path_kind kind;
	struct dax_setup setup;
};

FIXTURE_VARIANT_ADD(read_race, generic)
{
	DAX_GENERIC, { .blocks = FS_BLOCKS },
};

FIXTURE_VARIANT_ADD(read_race, fast)
{
	DAX_FAST, { .blocks = FS_BLOCKS },
};

/* Without a journal a freed block can be given away at once. */
FIXTURE_VARIANT_ADD(read_race, fast_nojournal)
{
	DAX_FAST, { .mkfs = "-O ^has_journal", .blocks = FS_BLOCKS },
};

FIXTURE_VARIANT_ADD(read_race, unlocked)
{
	DAX_UNLOCKED, { .blocks = FS_BLOCKS },
};

FIXTURE_VARIANT_ADD(read_race, unlocked_nojournal)
{
	DAX_UNLOCKED, { .mkfs = "-O ^has_journal", .blocks = FS_BLOCKS },
};

FIXTURE_VARIANT_ADD(read_race, generic_xfs)
{
	DAX_GENERIC, { .xfs = "reflink=0" },
};

FIXTURE_VARIANT_ADD(read_race, fast_xfs)
{
	DAX_FAST, { .xfs = "reflink=0" },
};

FIXTURE_VARIANT_ADD(read_race, fast_xfs_reflink)
{
	DAX_FAST, { .xfs = "reflink=1" },
};

FIXTURE_SETUP(read_race)
{
	race_begin(_metadata, &self->t, variant->kind, &variant->setup);
}

FIXTURE_TEARDOWN(read_race)
{
	race_end(_metadata, &self->t);
}

/* A write is seen whole or not at all: both sides hold the inode lock. */
TEST_F(read_race, write)
{
	struct race *t = &self->t;
	const struct rules rules = { .one_gen = true };
	unsigned int gen, rounds = 150 * dax_scale();

	start_readers(_metadata, t, rules);
	for (gen = 1; gen <= rounds; gen++) {
		ASSERT_EQ(0, write_file(t, t->fd, OURS, 0, FILE_BLOCKS,
					gen));
		wait_for_reads(t, 1);
	}
	stop_readers(_metadata, t);
}

/*
 * What truncate frees goes to another file at once, while readers are at it.
 */
TEST_F(read_race, truncate_and_reuse)
{
	struct race *t = &self->t;
	unsigned int gen, rounds = 60 * dax_scale();
	const struct rules rules = { .one_gen = true };
	size_t blocks;
	int other;

	other = dax_open(&t->test.fs, "other", O_RDWR | O_CREAT);
	ASSERT_GE(other, 0);
	start_readers(_metadata, t, rules);
	for (gen = 1; gen <= rounds; gen++) {
		blocks = dax_rnd_below(&t->rnd, 3);
		ASSERT_EQ(0, ftruncate(t->fd, blocks * t->bs));
		/* Freed blocks can be had after a commit. */
		ASSERT_EQ(0, fsync(t->fd));
		ASSERT_EQ(0, write_file(t, other, OTHER, 0, FILE_BLOCKS,
					gen));
		/*
		 * The size grows with the last write, so that nothing of an
		 * old generation is in reach of a reader of the new one.
		 */
		ASSERT_EQ(0, ftruncate(t->fd, 0));
		ASSERT_EQ(0, write_file(t, t->fd, OURS, 0, FILE_BLOCKS,
					gen));
		ASSERT_EQ(0, ftruncate(other, 0));
		ASSERT_EQ(0, fsync(other));
		wait_for_reads(t, 1);
	}
	stop_readers(_metadata, t);
	close(other);
}

/* The same for blocks in the middle, by punching. */
TEST_F(read_race, punch_and_reuse)
{
	struct race *t = &self->t;
	unsigned int gen, rounds = 60 * dax_scale();
	const struct rules rules = { .zeroes = true };
	__u32 first, n;
	int other;

	other = dax_open(&t->test.fs, "other", O_RDWR | O_CREAT);
	ASSERT_GE(other, 0);
	start_readers(_metadata, t, rules);
	for (gen = 1; gen <= rounds; gen++) {
		first = dax_rnd_below(&t->rnd, FILE_BLOCKS - 1);
		n = 1 + dax_rnd_below(&t->rnd, FILE_BLOCKS - first);
		ASSERT_EQ(0, fallocate(t->fd, FALLOC_FL_PUNCH_HOLE |
				       FALLOC_FL_KEEP_SIZE, first * t->bs,
				       n * t->bs));
		ASSERT_EQ(0, fsync(t->fd));
		ASSERT_EQ(0, write_file(t, other, OTHER, 0, n, gen));
		ASSERT_EQ(0, write_file(t, t->fd, OURS, first, n, gen));
		ASSERT_EQ(0, ftruncate(other, 0));
		ASSERT_EQ(0, fsync(other));
		wait_for_reads(t, 1);
	}
	stop_readers(_metadata, t);
	close(other);
}

/* A range is there, or is zeroes; never some of each. */
TEST_F(read_race, punch_all)
{
	struct race *t = &self->t;
	const struct rules rules = { .zeroes = true, .all_or_none = true,
				     .one_gen = true };
	unsigned int gen, rounds = 100 * dax_scale();

	start_readers(_metadata, t, rules);
	for (gen = 1; gen <= rounds; gen++) {
		ASSERT_EQ(0, fallocate(t->fd, FALLOC_FL_PUNCH_HOLE |
				       FALLOC_FL_KEEP_SIZE, 0,
				       FILE_BLOCKS * t->bs));
		ASSERT_EQ(0, write_file(t, t->fd, OURS, 0, FILE_BLOCKS,
					gen));
		wait_for_reads(t, 1);
	}
	stop_readers(_metadata, t);
}

TEST_F(read_race, zero_range)
{
	struct race *t = &self->t;
	const struct rules rules = { .zeroes = true };
	unsigned int gen, rounds = 100 * dax_scale();
	size_t first, n;

	start_readers(_metadata, t, rules);
	for (gen = 1; gen <= rounds; gen++) {
		first = dax_rnd_below(&t->rnd, FILE_BLOCKS - 1);
		n = 1 + dax_rnd_below(&t->rnd, FILE_BLOCKS - first);
		ASSERT_EQ(0, fallocate(t->fd, FALLOC_FL_ZERO_RANGE,
				       first * t->bs, n * t->bs));
		ASSERT_EQ(0, write_file(t, t->fd, OURS, first, n, gen));
		wait_for_reads(t, 1);
	}
	stop_readers(_metadata, t);
}

/*
 * Blocks move down by collapse and up again by insert. There is no moment at
 * which one half of a read may see them before and the other after, and the
 * hole that insert makes is filled by a write that is seen whole.
 */
TEST_F(read_race, collapse_and_insert)
{
	struct race *t = &self->t;
	enum { FROM = 4, N = 3 };
	const struct rules rules = {
		.shift = N, .shift_from = FROM, .zeroes = true,
	};
	unsigned int gen, rounds = 60 * dax_scale();

	start_readers(_metadata, t, rules);
	for (gen = 1; gen <= rounds; gen++) {
		ASSERT_EQ(0, fallocate(t->fd, FALLOC_FL_COLLAPSE_RANGE,
				       FROM * t->bs, N * t->bs));
		ASSERT_EQ(0, fallocate(t->fd, FALLOC_FL_INSERT_RANGE,
				       FROM * t->bs, N * t->bs));
		ASSERT_EQ(0, write_file(t, t->fd, OURS, FROM, N, gen));
		wait_for_reads(t, 1);
	}
	stop_readers(_metadata, t);
}

/* Stores to a mapping turn holes and unwritten blocks into written ones. */
static void store_blocks(struct __test_metadata *_metadata,
			 struct race *t, __u32 gen)
{
	size_t size = FILE_BLOCKS * t->bs;
	__u32 i, nr;
	char *p;

	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, 0);
	ASSERT_NE(MAP_FAILED, p);
	for (i = 0; i < FILE_BLOCKS; i++) {
		/* 5 and FILE_BLOCKS have no common divisor: each comes once. */
		nr = (i * 5 + gen) % FILE_BLOCKS;
		tag_block(t->block, t->bs, OURS, nr, gen);
		/* Of a store, a reader may see a part: but no old bytes. */
		p[nr * t->bs] = 0;
		memcpy(p + nr * t->bs, t->block, t->bs);
	}
	munmap(p, size);
}

/* A tag that is being stored: what is there of it is right, the rest zero. */
static int check_partial(const char *got, const struct tag *want)
{
	const char *w = (const char *)want;
	size_t i;

	for (i = 0; i < sizeof(*want); i++)
		if (got[i] && got[i] != w[i])
			return -1;
	return 0;
}

/* Readers of store_blocks(): only the generation of the round, or zeroes. */
static atomic_uint store_gen;

static void *store_reader(void *arg)
{
	struct race *t = arg;
	size_t size = FILE_BLOCKS * t->bs, i;
	char *want = malloc(t->bs), *buf = malloc(size);
	struct dax_rnd rnd = { (unsigned long)pthread_self() | 1 };
	unsigned int gen;
	__u32 nr;

	atomic_fetch_add(&t->running, 1);
	while (!atomic_load(&t->stop) && !atomic_load(&t->failed)) {
		nr = dax_rnd_below(&rnd, FILE_BLOCKS);
		gen = atomic_load(&store_gen);
		if (one_read(t->fd, dax_rnd_below(&rnd, 2), buf, t->bs,
			     nr * t->bs) != (ssize_t)t->bs)
			atomic_fetch_add(&t->failed, 1);
		atomic_fetch_add(&t->reads, 1);
		/* While the file is being emptied it holds old and new. */
		if (!gen || gen != atomic_load(&store_gen))
			continue;
		tag_block(want, t->bs, OURS, nr, gen);
		for (i = 0; i < t->bs; i += sizeof(struct tag))
			if (check_partial(buf + i, (void *)(want + i)))
				reader_complains(t, "never written here",
						 nr * t->bs + i,
						 (void *)(buf + i));
	}
	free(want);
	free(buf);
	return NULL;
}

static void race_with_stores(struct __test_metadata *_metadata,
			     struct race *t, int mode)
{
	unsigned int gen, rounds = 40 * dax_scale();
	int i;

	for (gen = 1; gen <= rounds; gen++) {
		/* No generation: readers look away until the file is empty. */
		atomic_store(&store_gen, 0);
		ASSERT_EQ(0, fallocate(t->fd, FALLOC_FL_PUNCH_HOLE |
				       FALLOC_FL_KEEP_SIZE, 0,
				       FILE_BLOCKS * t->bs));
		ASSERT_EQ(0, fsync(t->fd));
		if (mode >= 0)
			ASSERT_EQ(0, fallocate(t->fd, mode, 0,
					       FILE_BLOCKS * t->bs));
		atomic_store(&store_gen, gen);
		if (gen == 1)
			for (i = 0; i < NR_READERS; i++)
				ASSERT_EQ(0, pthread_create(&t->readers[i],
							    NULL, store_reader,
							    t));
		while (atomic_load(&t->running) < NR_READERS)
			sched_yield();
		store_blocks(_metadata, t, gen);
	}
	stop_readers(_metadata, t);
}

TEST_F(read_race, store_to_hole)
{
	struct race *t = &self->t;

	race_with_stores(_metadata, t, -1);
}

TEST_F(read_race, store_to_unwritten)
{
	struct race *t = &self->t;

	race_with_stores(_metadata, t, 0);
}

/* All of it at once, with the kernel forgetting extents in between. */
TEST_F(read_race, mixed)
{
	struct race *t = &self->t;
	unsigned int gen, rounds = 100 * dax_scale();
	const struct rules rules = { .zeroes = true };
	size_t first, n, pos, len;

	start_readers(_metadata, t, rules);
	for (gen = 1; gen <= rounds; gen++) {
		first = dax_rnd_below(&t->rnd, FILE_BLOCKS - 1);
		n = 1 + dax_rnd_below(&t->rnd, FILE_BLOCKS - first);
		pos = first * t->bs;
		len = n * t->bs;
		switch (dax_rnd_below(&t->rnd, 5)) {
		case 0:
			ASSERT_EQ(0, fallocate(t->fd, FALLOC_FL_PUNCH_HOLE |
					       FALLOC_FL_KEEP_SIZE, pos, len));
			break;
		case 1:
			ASSERT_EQ(0, fallocate(t->fd, FALLOC_FL_ZERO_RANGE,
					       pos, len));
			break;
		case 2:
			ASSERT_EQ(0, ftruncate(t->fd, pos));
			ASSERT_EQ(0, ftruncate(t->fd,
					       FILE_BLOCKS * t->bs));
			break;
		case 3:
			if (gen % 4 == 0)
				ASSERT_EQ(0, dax_drop_caches());
			break;
		default:
			ASSERT_EQ(0, write_file(t, t->fd, OURS, first, n,
						gen));
		}
		wait_for_reads(t, 1);
	}
	stop_readers(_metadata, t);
}

int main(int argc, char **argv)
{
	return dax_main(argc, argv);
}
