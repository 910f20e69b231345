// SPDX-License-Identifier: GPL-2.0
/*
 * Readers of a DAX file against all that changes it.
 *
 * Every 32 bytes that these tests write say which file, which block and which
 * generation they were written for. A reader may find such a tag of its own
 * file where it was put, or zeroes, and nothing else: no byte of another file,
 * no byte that was never at that offset, no tag that is torn. What a single
 * write(2) or fallocate(2) does is seen whole or not at all.
 *
 * The filesystem is small and was full of another file's tags before, so that
 * blocks which are freed come back soon, and those that come too early tell.
 */

#include <linux/falloc.h>
#include <pthread.h>
#include <stdatomic.h>

#include "dax_fixture.h"

#define FS_BLOCKS 6144
#define FILE_BLOCKS 16
#define NR_READERS 2

enum { OURS = 0x0a0a, OTHER = 0x0b0b, OLD = 0x0c0c };

#define TAG_MAGIC 0xda7ada7a

struct tag {
	__u32 magic;
	__u32 file;
	__u32 block;
	__u32 gen;
	/* Byte in the block, and a sum that a torn tag does not have. */
	__u32 offset;
	__u32 zero;
	__u64 sum;
};

/* Where blocks may have moved to, and what readers insist on. */
struct rules {
	/*
	 * From block shift_from on, block b may hold what was written for
	 * block b + shift; but then all of them that are read do.
	 */
	unsigned int shift;
	unsigned int shift_from;
	/* All tags of one read are of one generation. */
	bool one_gen;
	/* There may be zeroes. */
	bool zeroes;
	/* All of a read is zeroes or none of it is. */
	bool all_or_none;
};

struct race {
	struct dax_test test;
	struct dax_rnd rnd;
	struct rules rules;
	pthread_t readers[NR_READERS];
	atomic_bool stop;
	atomic_int failed;
	atomic_ulong reads;
	atomic_uint running;
	size_t bs;
	char *block;
	int fd;
};

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

/* -- tags */

static __u64 tag_sum(const struct tag *tag)
{
	__u64 sum = tag->magic;

	sum = sum * 31 + tag->file;
	sum = sum * 31 + tag->block;
	sum = sum * 31 + tag->gen;
	return sum * 31 + tag->offset;
}

static void tag_block(void *block, size_t bs, __u32 file, __u32 nr,
		      __u32 gen)
{
	struct tag *tag = block;
	size_t off;

	for (off = 0; off < bs; off += sizeof(*tag), tag++) {
		*tag = (struct tag) {
			.magic = TAG_MAGIC,
			.file = file,
			.block = nr,
			.gen = gen,
			.offset = off,
		};
		tag->sum = tag_sum(tag);
	}
}

static bool tag_is_zero(const struct tag *tag)
{
	static const struct tag zero;

	return !memcmp(tag, &zero, sizeof(zero));
}

static const char *tag_wrong(struct race *t,
			     const struct tag *tag, loff_t pos)
{
	const struct rules *rules = &t->rules;
	__u32 nr = pos / t->bs;

	if (tag->magic != TAG_MAGIC || tag->sum != tag_sum(tag))
		return "torn";
	if (tag->file != OURS)
		return "of another file";
	if (tag->offset != pos % t->bs)
		return "from elsewhere in a block";
	if (tag->block != nr && !(rules->shift && nr >= rules->shift_from &&
				  tag->block == nr + rules->shift))
		return "of another block";
	return NULL;
}

static int reader_complains(struct race *t, const char *what,
			    loff_t pos, const struct tag *tag)
{
	/* The first complaint is enough. */
	if (!atomic_fetch_add(&t->failed, 1))
		printf("# at byte %lld: %s (magic %x file %x block %u gen %u offset %u)\n",
		       (long long)pos, what, tag->magic, tag->file, tag->block,
		       tag->gen, tag->offset);
	return -1;
}

/* Checks the whole tags in @len bytes that were read at @pos. */
static int check_tags(struct race *t, const char *buf,
		      size_t len, loff_t pos)
{
	const struct rules *rules = &t->rules;
	size_t i = -pos & (sizeof(struct tag) - 1);
	unsigned int zeroes = 0, tags = 0, moved = 0, stayed = 0;
	const char *wrong;
	__u32 gen = 0;
	struct tag tag;
	__u32 nr;

	for (; i + sizeof(tag) <= len; i += sizeof(tag)) {
		memcpy(&tag, buf + i, sizeof(tag));
		if (tag_is_zero(&tag)) {
			zeroes++;
			continue;
		}
		wrong = tag_wrong(t, &tag, pos + i);
		if (wrong)
			return reader_complains(t, wrong, pos + i, &tag);
		if (tags++ && rules->one_gen && tag.gen != gen)
			return reader_complains(t, "half of a write",
						pos + i, &tag);
		gen = tag.gen;
		nr = (pos + i) / t->bs;
		moved += tag.block != nr;
		stayed += tag.block == nr && nr >= rules->shift_from;
		if (rules->shift && moved && stayed)
			return reader_complains(t, "half of a move",
						pos + i, &tag);
	}
	if (zeroes && !rules->zeroes)
		return reader_complains(t, "zeroes", pos, &tag);
	if (zeroes && tags && rules->all_or_none)
		return reader_complains(t, "half of a change", pos, &tag);
	return 0;
}

/* -- readers */

static ssize_t one_read(struct race *t, unsigned int way,
			void *buf, size_t len, loff_t pos)
{
	struct iovec iov = { buf, len };
	ssize_t ret;

	if (way == 0)
		return pread(t->fd, buf, len, pos);
	if (way == 1)
		return preadv(t->fd, &iov, 1, pos);
	ret = preadv2(t->fd, &iov, 1, pos, RWF_NOWAIT);
	return ret < 0 && errno == EAGAIN ? 0 : ret;
}

static void *reader(void *arg)
{
	struct race *t = arg;
	size_t size = FILE_BLOCKS * t->bs, len;
	struct dax_rnd rnd = { (unsigned long)pthread_self() | 1 };
	char *buf = malloc(size);
	loff_t pos;
	ssize_t n;

	atomic_fetch_add(&t->running, 1);
	while (!atomic_load(&t->stop) && !atomic_load(&t->failed)) {
		pos = dax_rnd_below(&rnd, size);
		len = 1 + dax_rnd_below(&rnd, size - pos);
		/* What an earlier read found must not be taken for this one's. */
		memset(buf, 0xee, len);
		n = one_read(t, dax_rnd_below(&rnd, 3), buf, len, pos);
		if (n < 0) {
			printf("# read: %s\n", strerror(errno));
			atomic_fetch_add(&t->failed, 1);
		} else {
			check_tags(t, buf, n, pos);
		}
		atomic_fetch_add(&t->reads, 1);
	}
	free(buf);
	return NULL;
}

/* Returns with the readers running. */
static void start_readers(struct __test_metadata *_metadata,
			  struct race *t, struct rules rules)
{
	int i;

	t->rules = rules;
	for (i = 0; i < NR_READERS; i++)
		ASSERT_EQ(0, pthread_create(&t->readers[i], NULL, reader,
					    t));
	while (atomic_load(&t->running) < NR_READERS)
		sched_yield();
}

static void stop_readers(struct __test_metadata *_metadata,
			 struct race *t)
{
	int i;

	atomic_store(&t->stop, true);
	for (i = 0; i < NR_READERS; i++)
		pthread_join(t->readers[i], NULL);
	EXPECT_EQ(0, atomic_load(&t->failed));
	EXPECT_LT(0, atomic_load(&t->reads));
	TH_LOG("%lu reads", atomic_load(&t->reads));
}

/* -- what changes the file */

static int write_file(struct race *t, int fd, __u32 file,
		      __u32 first, __u32 n, __u32 gen)
{
	size_t len = n * t->bs;
	ssize_t ret;
	__u32 i;

	for (i = 0; i < n; i++)
		tag_block(t->block + i * t->bs, t->bs, file,
			  first + i, gen);
	/* In one call: readers insist on seeing all of it or nothing. */
	ret = pwrite(fd, t->block, len, first * t->bs);
	if (ret < 0)
		return -errno;
	return ret == (ssize_t)len ? 0 : -ENOSPC;
}

/* Leaves all free blocks with tags that nobody may ever see again. */
static void poison_free_blocks(struct __test_metadata *_metadata,
			       struct race *t)
{
	char path[256];
	__u32 nr = 0;
	int fd, ret;

	dax_path(&t->test.fs, "old", path, sizeof(path));
	fd = dax_open(&t->test.fs, "old", O_RDWR | O_CREAT);
	ASSERT_GE(fd, 0);
	do {
		ret = write_file(t, fd, OLD, nr, FILE_BLOCKS, 0);
		nr += FILE_BLOCKS;
	} while (!ret);
	ASSERT_EQ(-ENOSPC, ret);
	close(fd);
	ASSERT_EQ(0, unlink(path));
	sync();
}

FIXTURE_SETUP(read_race)
{
	struct race *t = &self->t;

	dax_begin(_metadata, &t->test, variant->kind, &variant->setup);
	if (_metadata->exit_code)
		return;
	dax_seed(&t->rnd, _metadata->name);
	t->bs = dax_bs();
	t->block = dax_alloc(_metadata, FILE_BLOCKS * t->bs);
	poison_free_blocks(_metadata, t);
	t->fd = dax_open(&t->test.fs, "file", O_RDWR | O_CREAT);
	ASSERT_GE(t->fd, 0);
	ASSERT_EQ(1, dax_is_dax(t->fd));
	ASSERT_EQ(0, write_file(t, t->fd, OURS, 0, FILE_BLOCKS, 0));
}

FIXTURE_TEARDOWN(read_race)
{
	struct race *t = &self->t;

	close(t->fd);
	dax_end(_metadata, &t->test);
}

/* A write is seen whole or not at all: both sides hold the inode lock. */
TEST_F(read_race, write)
{
	struct race *t = &self->t;
	const struct rules rules = { .one_gen = true };
	unsigned int gen, rounds = 150 * dax_scale();

	start_readers(_metadata, t, rules);
	for (gen = 1; gen <= rounds; gen++)
		ASSERT_EQ(0, write_file(t, t->fd, OURS, 0, FILE_BLOCKS,
					gen));
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
		if (one_read(t, dax_rnd_below(&rnd, 2), buf, t->bs,
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
	}
	stop_readers(_metadata, t);
}

int main(int argc, char **argv)
{
	return dax_main(argc, argv);
}
