// SPDX-License-Identifier: GPL-2.0
/*
 * The part of the last page of a DAX file that is behind EOF.
 *
 * A store to a mapping can go behind EOF, up to the end of the page. With DAX
 * the store goes to the medium, and no writeback removes it. Calls that move
 * EOF have to clear these bytes. The new part of a larger file reads as zeroes.
 * A mapping shows zeroes behind the new EOF. generic/363 of xfstests checks
 * both with fsx -e 1.
 *
 * Each test stores behind EOF and moves EOF. Then it compares the file, mapped
 * and read, with the expected content. The variant without DAX checks the tests
 * themselves on the page cache. A failed write does not move EOF. The only
 * exception is the page cache: ext4 may move EOF to the start of the write.
 */

#include <linux/falloc.h>
#include <sys/stat.h>

#include "dax_fixture.h"

#define FILE_BLOCKS 16
#define START_BLOCKS 4
#define START_TAIL 1000
/* The byte that is stored behind EOF. No byte of a file has this value. */
#define STRAY 0xee

struct eof {
	struct dax_test test;
	size_t bs;
	size_t size;
	char *want;		/* FILE_BLOCKS blocks; zeroes behind EOF */
	char *got;
	char *bad;		/* no access; the block before is accessible */
	bool stay_mapped;
	bool page_cache;
	int fd;
};

FIXTURE(read_eof)
{
	struct eof t;
};

FIXTURE_VARIANT(read_eof)
{
	struct dax_setup setup;
	bool stay_mapped;
};

FIXTURE_VARIANT_ADD(read_eof, dax)
{
};

/* The page with the store stays mapped while EOF moves. */
FIXTURE_VARIANT_ADD(read_eof, dax_mapped)
{
	.stay_mapped = true,
};

FIXTURE_VARIANT_ADD(read_eof, page_cache)
{
	.setup.mount = "dax=never",
};

/* Bytes that depend on their position, and are neither 0 nor STRAY. */
static void fill(char *buf, size_t len, unsigned int gen)
{
	size_t i;

	for (i = 0; i < len; i++)
		buf[i] = 1 + (i * 7 + i / 4096 + gen) % 199;
}

FIXTURE_SETUP(read_eof)
{
	struct eof *t = &self->t;

	if (!variant->setup.mount && dax_skips_bug(_metadata))
		return;
	dax_begin(_metadata, &t->test, DAX_GENERIC, &variant->setup);
	if (_metadata->exit_code)
		return;
	t->bs = dax_bs();
	t->stay_mapped = variant->stay_mapped;
	t->page_cache = variant->setup.mount;
	t->size = (START_BLOCKS - 1) * t->bs + START_TAIL;
	t->want = dax_alloc(_metadata, FILE_BLOCKS * t->bs);
	t->got = dax_alloc(_metadata, FILE_BLOCKS * t->bs);
	t->bad = (char *)dax_alloc(_metadata, 2 * t->bs) + t->bs;
	ASSERT_EQ(0, mprotect(t->bad, t->bs, PROT_NONE));
	fill(t->want, t->size, 0);
	t->fd = dax_open(&t->test.fs, "file", O_RDWR | O_CREAT);
	ASSERT_GE(t->fd, 0);
	ASSERT_EQ(0, dax_write_all(t->fd, t->want, t->size, 0));
}

FIXTURE_TEARDOWN(read_eof)
{
	struct eof *t = &self->t;

	close(t->fd);
	dax_end(_metadata, &t->test);
}

/* -- operations on EOF: each changes the file and ->want alike */

struct range {
	size_t pos;
	size_t len;
};

typedef int (*move_fn)(struct eof *t, struct range r);

static void set_size(struct eof *t, size_t size)
{
	if (size < t->size)
		memset(t->want + size, 0, t->size - size);
	t->size = size;
}

static void grow(struct eof *t, struct range r)
{
	if (r.pos + r.len > t->size)
		set_size(t, r.pos + r.len);
}

static int resize(struct eof *t, struct range r)
{
	set_size(t, r.pos);
	return ftruncate(t->fd, r.pos);
}

static int store(struct eof *t, struct range r)
{
	fill(t->want + r.pos, r.len, r.pos);
	grow(t, r);
	return dax_write_all(t->fd, t->want + r.pos, r.len, r.pos);
}

static int allocate(struct eof *t, struct range r)
{
	grow(t, r);
	return fallocate(t->fd, 0, r.pos, r.len);
}

static int zero(struct eof *t, struct range r)
{
	memset(t->want + r.pos, 0, r.len);
	grow(t, r);
	return fallocate(t->fd, FALLOC_FL_ZERO_RANGE, r.pos, r.len);
}

/* The whole buffer is inaccessible, and so EOF stays. */
static int fail(struct eof *t, struct range r)
{
	size_t len = r.len < t->bs ? r.len : t->bs;

	if (pwrite(t->fd, t->bad, len, r.pos) >= 0)
		return -EINVAL;
	if (errno != EFAULT)
		return -errno;
	if (t->page_cache)
		set_size(t, lseek(t->fd, 0, SEEK_END));
	return 0;
}

/* Only the accessible part of the buffer is written. */
static int cut(struct eof *t, struct range r)
{
	fill(t->want + r.pos, r.len, r.pos);
	memcpy(t->bad - r.len, t->want + r.pos, r.len);
	grow(t, r);
	if (pwrite(t->fd, t->bad - r.len, 2 * r.len, r.pos) != (ssize_t)r.len)
		return -EINVAL;
	return 0;
}

static int punch(struct eof *t, struct range r)
{
	memset(t->want + r.pos, 0, r.len);
	return fallocate(t->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			 r.pos, r.len);
}

static int collapse(struct eof *t, struct range r)
{
	size_t end = r.pos + r.len;

	memmove(t->want + r.pos, t->want + end, t->size - end);
	set_size(t, t->size - r.len);
	return fallocate(t->fd, FALLOC_FL_COLLAPSE_RANGE, r.pos, r.len);
}

static int insert(struct eof *t, struct range r)
{
	memmove(t->want + r.pos + r.len, t->want + r.pos, t->size - r.pos);
	memset(t->want + r.pos, 0, r.len);
	set_size(t, t->size + r.len);
	return fallocate(t->fd, FALLOC_FL_INSERT_RANGE, r.pos, r.len);
}

/* -- stores and checks around each operation */

/*
 * Stores behind EOF in the last page, but only up to @end. Calls that start at
 * @end do not clear the bytes from there on. The page stays mapped.
 */
static char *stray(struct __test_metadata *_metadata, struct eof *t, size_t end)
{
	size_t tail = t->size % t->bs, len = t->bs - tail;
	char *p;

	p = mmap(NULL, t->bs, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd,
		 t->size - tail);
	ASSERT_NE(MAP_FAILED, p);
	if (tail && end > t->size)
		memset(p + tail, STRAY, len < end - t->size ? len :
							      end - t->size);
	return p;
}

static void expect_same(struct __test_metadata *_metadata, struct eof *t,
			const char *how, const char *got, size_t len)
{
	size_t at = 0;

	if (!memcmp(got, t->want, len))
		return;
	while (got[at] == t->want[at])
		at++;
	EXPECT_EQ(t->want[at], got[at])
		TH_LOG("%s: byte %zu of %zu", how, at, t->size);
}

/* Checks the content, and that the mapped last page ends in zeroes. */
static void check(struct __test_metadata *_metadata, struct eof *t)
{
	size_t len = (t->size + t->bs - 1) / t->bs * t->bs;
	char *p;

	ASSERT_EQ((off_t)t->size, lseek(t->fd, 0, SEEK_END));
	if (!len)
		return;
	p = mmap(NULL, len, PROT_READ, MAP_SHARED, t->fd, 0);
	ASSERT_NE(MAP_FAILED, p);
	expect_same(_metadata, t, "mapped", p, len);
	munmap(p, len);
	ASSERT_EQ((ssize_t)t->size, pread(t->fd, t->got, len, 0));
	expect_same(_metadata, t, "read", t->got, t->size);
}

/* Stores behind EOF, then moves it. */
static void move_eof(struct __test_metadata *_metadata, struct eof *t,
		     move_fn move, struct range r)
{
	size_t end = SIZE_MAX;
	char *p;

	if (move == store || move == cut || move == allocate || move == zero)
		end = r.pos;
	else if (move == punch || move == fail)
		end = 0;	/* EOF stays, nothing is cleared */
	p = stray(_metadata, t, end);
	if (!t->stay_mapped)
		munmap(p, t->bs);
	ASSERT_EQ(0, move(t, r));
	check(_metadata, t);
	if (t->stay_mapped)
		munmap(p, t->bs);
}

/* The same, and the new part of a larger file reads as zeroes. */
static void check_move(struct __test_metadata *_metadata, struct eof *t,
		       move_fn move, size_t pos, size_t len)
{
	move_eof(_metadata, t, move, (struct range){ pos, len });
	ASSERT_EQ(0, resize(t, (struct range){ t->size + 2 * t->bs }));
	check(_metadata, t);
}

/* The last block moves towards the start. */
TEST_F(read_eof, collapse)
{
	check_move(_metadata, &self->t, collapse, self->t.bs, self->t.bs);
}

TEST_F(read_eof, collapse_all_but_last)
{
	check_move(_metadata, &self->t, collapse, 0,
		   (START_BLOCKS - 1) * self->t.bs);
}

/* The last block moves away from the start. */
TEST_F(read_eof, insert)
{
	check_move(_metadata, &self->t, insert, self->t.bs, 2 * self->t.bs);
}

TEST_F(read_eof, insert_before_last)
{
	check_move(_metadata, &self->t, insert,
		   (START_BLOCKS - 1) * self->t.bs, self->t.bs);
}

TEST_F(read_eof, truncate_up_in_last)
{
	check_move(_metadata, &self->t, resize, self->t.size + 100, 0);
}

TEST_F(read_eof, truncate_up)
{
	check_move(_metadata, &self->t, resize, self->t.size + self->t.bs, 0);
}

TEST_F(read_eof, truncate_down_in_last)
{
	check_move(_metadata, &self->t, resize, self->t.size - 100, 0);
}

TEST_F(read_eof, truncate_down)
{
	check_move(_metadata, &self->t, resize, self->t.size - self->t.bs, 0);
}

TEST_F(read_eof, write_behind_in_last)
{
	check_move(_metadata, &self->t, store, self->t.size + 100, 50);
}

TEST_F(read_eof, write_behind)
{
	check_move(_metadata, &self->t, store, self->t.size + self->t.bs, 50);
}

TEST_F(read_eof, allocate_behind)
{
	check_move(_metadata, &self->t, allocate, self->t.size + self->t.bs,
		   self->t.bs);
}

TEST_F(read_eof, zero_behind)
{
	check_move(_metadata, &self->t, zero, self->t.size + 100,
		   2 * self->t.bs);
}

/* Aligned, because a flushing copy may drop the last few bytes. */
TEST_F(read_eof, short_write_behind)
{
	check_move(_metadata, &self->t, cut, START_BLOCKS * self->t.bs + 32,
		   96);
}

TEST_F(read_eof, failed_write_behind_in_last)
{
	check_move(_metadata, &self->t, fail, self->t.size + 100, 50);
}

/* A failed write frees the block that it has allocated. */
TEST_F(read_eof, failed_write_behind)
{
	struct eof *t = &self->t;
	struct stat was, is;

	ASSERT_EQ(0, fsync(t->fd));
	ASSERT_EQ(0, fstat(t->fd, &was));
	move_eof(_metadata, t, fail, (struct range){ t->size + t->bs, 50 });
	ASSERT_EQ(0, fstat(t->fd, &is));
	if (!t->page_cache)
		EXPECT_EQ(was.st_blocks, is.st_blocks);
	check_move(_metadata, t, fail, t->size + 2 * t->bs, 50);
}

TEST_F(read_eof, failed_write_to_an_empty_file)
{
	ASSERT_EQ(0, resize(&self->t, (struct range){ 0 }));
	check_move(_metadata, &self->t, fail, self->t.bs, 100);
}

/* -- any of them, one after the other */

/* Whole blocks that end before EOF, or none if the file is too short. */
static struct range random_blocks(struct eof *t, struct dax_rnd *rnd)
{
	size_t blocks = t->size ? (t->size - 1) / t->bs : 0, first, n;

	if (!blocks)
		return (struct range){};
	first = dax_rnd_below(rnd, blocks);
	n = 1 + dax_rnd_below(rnd, blocks - first);
	return (struct range){ first * t->bs, n * t->bs };
}

static struct range random_bytes(struct dax_rnd *rnd, size_t end)
{
	size_t pos, len;

	if (!end)
		return (struct range){};
	pos = dax_rnd_below(rnd, end);
	len = 1 + dax_rnd_below(rnd, end - pos);
	return (struct range){ pos, len };
}

/* Returns false if there was nothing to do. */
static bool move_at_random(struct __test_metadata *_metadata, struct eof *t,
			   struct dax_rnd *rnd)
{
	static const move_fn moves[] = {
		resize, store, store, allocate, zero, punch, collapse, insert,
		fail,
	};
	move_fn move = moves[dax_rnd_below(rnd, ARRAY_LEN(moves))];
	size_t end = FILE_BLOCKS * t->bs;
	struct range r;

	if (move == collapse || move == insert)
		r = random_blocks(t, rnd);
	else
		r = random_bytes(rnd, move == punch ? t->size : end);
	if (!r.len || (move == insert && t->size + r.len > end))
		return false;
	move_eof(_metadata, t, move, r);
	return true;
}

TEST_F(read_eof, at_random)
{
	unsigned int i, moves = 0, rounds = 400 * dax_scale();
	struct dax_rnd rnd;

	dax_seed(&rnd, "read_eof.at_random");
	for (i = 0; i < rounds && !_metadata->exit_code; i++)
		moves += move_at_random(_metadata, &self->t, &rnd);
	EXPECT_LT(rounds / 4, moves);
}

int main(int argc, char **argv)
{
	return dax_main(argc, argv);
}
