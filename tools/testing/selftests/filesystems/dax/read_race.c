// SPDX-License-Identifier: GPL-2.0
/*
 * Readers of a DAX file race with writes, and with calls that free its blocks.
 * read_moves.c tests other moves of blocks.
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

/* Without a journal, a freed block can be reused at once. */
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

/* With the inode lock, readers see all of a write or nothing. */
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

/* Another file reuses the blocks that truncate frees, while readers run. */
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
		/* Freed blocks can be reused after a commit. */
		ASSERT_EQ(0, fsync(t->fd));
		ASSERT_EQ(0, write_file(t, other, OTHER, 0, FILE_BLOCKS,
					gen));
		/*
		 * The file grows with the last write only, so that no read
		 * finds data of two generations.
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

/* The same for blocks in the middle that are punched out. */
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

/* With the inode lock, a read gives all data or all zeroes. */
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
 * Collapse moves blocks down, insert moves them up again. No read may return
 * some blocks before such a move and others after it. A write fills the hole
 * that insert makes.
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
		/* 5 and FILE_BLOCKS are coprime: each block comes once. */
		nr = (i * 5 + gen) % FILE_BLOCKS;
		tag_block(t->block, t->bs, OURS, nr, gen);
		/* A reader may see a part of a store, but no old bytes. */
		p[nr * t->bs] = 0;
		memcpy(p + nr * t->bs, t->block, t->bs);
	}
	munmap(p, size);
}

/* Checks a partly stored tag: each byte is correct or zero. */
static int check_partial(const char *got, const struct tag *want)
{
	const char *w = (const char *)want;
	size_t i;

	for (i = 0; i < sizeof(*want); i++)
		if (got[i] && got[i] != w[i])
			return -1;
	return 0;
}

/* Readers may see the generation of this round, or zeroes. */
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
		/* While the file is emptied, it contains old and new data. */
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

	if (dax_skips_bug(_metadata))
		return;
	for (gen = 1; gen <= rounds; gen++) {
		/* Generation 0: readers skip checks until the file is empty. */
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

/* All changes in random order, also with dropped caches. */
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
