// SPDX-License-Identifier: GPL-2.0
/*
 * Bad buffers, odd buffers, and offsets at the end of a file or of the number
 * range.
 *
 * The expected result is not always documented. Each test runs by the generic
 * path, then by the fast path. The count, errno, the file position and the
 * bytes in memory have to be the same. The tests also check results that are
 * certain.
 */

#include <limits.h>
#include <linux/falloc.h>

#include "dax_fixture.h"

/* The file contains a range of each kind and ends inside a block. */
enum { WRITTEN = 0, HOLE = 4, UNWRITTEN = 8, MIXED = 12, TAIL = 20 };

#define FILE_BLOCKS 21
#define BUF_BLOCKS 10

/* The result of a read. */
struct outcome {
	ssize_t ret;
	loff_t moved;
	/* Checksum of all memory that the read could have changed. */
	__u64 sum;
};

/* Bytes around a buffer that are checked, too. */
#define MARGIN 64
#define MAX_OUTCOMES 8192
#define MAX_COMPLAINTS 5

struct edges {
	struct dax_test test;
	/* The results of the generic path, one per read. */
	struct outcome *outcomes;
	unsigned int nr_outcomes;
	unsigned int complaints;
	bool compare;
	size_t bs;
	size_t size;
	char *want;
	/* Inaccessible memory follows the buffer. */
	char *buf;
	int fd;
};

FIXTURE(read_edges)
{
	struct edges t;
};

FIXTURE_VARIANT(read_edges)
{
	struct dax_setup setup;
	bool extents;
};

FIXTURE_VARIANT_ADD(read_edges, extents)
{
	.extents = true,
};

FIXTURE_VARIANT_ADD(read_edges, indirect)
{
	.setup.mkfs = DAX_MKFS " -O ^extents,^64bit",
};

FIXTURE_VARIANT_ADD(read_edges, xfs)
{
	.setup.xfs = "reflink=1",
	.extents = true,
};

static void write_blocks(struct __test_metadata *_metadata,
			 struct edges *t, size_t block, size_t n)
{
	char *data = t->want + block * t->bs;
	struct dax_rnd rnd = { block + 1 };

	dax_rnd_fill(&rnd, data, n * t->bs);
	ASSERT_EQ(0, dax_write_all(t->fd, data, n * t->bs,
				   block * t->bs));
}

static void make_file(struct __test_metadata *_metadata,
		      struct edges *t, bool extents)
{
	size_t i;

	t->fd = dax_open(&t->test.fs, "file", O_RDWR | O_CREAT);
	ASSERT_GE(t->fd, 0);
	write_blocks(_metadata, t, WRITTEN, HOLE - WRITTEN);
	/* A file without extents gets a hole instead of unwritten blocks. */
	if (extents)
		ASSERT_EQ(0, fallocate(t->fd, 0, UNWRITTEN * t->bs,
				       (MIXED - UNWRITTEN) * t->bs));
	for (i = MIXED; i < TAIL; i += 2)
		write_blocks(_metadata, t, i, 1);
	write_blocks(_metadata, t, TAIL, 1);
	t->size = TAIL * t->bs + 1234;
	ASSERT_EQ(0, ftruncate(t->fd, t->size));
	memset(t->want + t->size, 0, FILE_BLOCKS * t->bs - t->size);
}

FIXTURE_SETUP(read_edges)
{
	struct edges *t = &self->t;
	char *p;

	dax_begin(_metadata, &t->test, DAX_GENERIC, &variant->setup);
	if (_metadata->exit_code)
		return;
	t->bs = dax_bs();
	t->outcomes = dax_alloc(_metadata,
				MAX_OUTCOMES * sizeof(*t->outcomes));
	t->want = dax_alloc(_metadata, FILE_BLOCKS * t->bs);
	p = dax_alloc(_metadata, (BUF_BLOCKS + 1) * t->bs);
	t->buf = p;
	ASSERT_EQ(0, mprotect(p + BUF_BLOCKS * t->bs, t->bs, PROT_NONE));
	make_file(_metadata, t, variant->extents);
}

FIXTURE_TEARDOWN(read_edges)
{
	struct edges *t = &self->t;

	close(t->fd);
	dax_end(_metadata, &t->test);
}

/* -- one read, remembered or compared */

/*
 * ->read() and ->read_iter() are the two ways into a filesystem. readv() passes
 * pieces to ->read_iter(): with an empty piece, or with a bad piece in the
 * middle.
 */
enum entry { READ, PREAD, PREADV, READV, READV_BAD, NR_ENTRIES };

static const char *const entries[] = {
	"read", "pread", "preadv", "readv", "readv with a bad piece",
};

static bool moves_position(enum entry how)
{
	return how == READ || how == READV || how == READV_BAD;
}

static ssize_t read_pieces(int fd, char *buf, size_t len, bool bad)
{
	size_t first = len / 3;
	struct iovec iov[] = {
		{ buf, first },
		{ NULL, bad && len ? first + 1 : 0 },
		{ buf + first, len - first },
	};

	return readv(fd, iov, 3);
}

static struct outcome read_once(int fd, enum entry how, void *buf, size_t len,
				loff_t pos)
{
	struct iovec iov = { buf, len };
	struct outcome out = {};

	/* If lseek() refuses a position, a read from there is not possible. */
	if (moves_position(how) && lseek(fd, pos, SEEK_SET) < 0) {
		out.ret = -errno;
		return out;
	}
	switch (how) {
	case READ:
		out.ret = read(fd, buf, len);
		break;
	case READV:
	case READV_BAD:
		out.ret = read_pieces(fd, buf, len, how == READV_BAD);
		break;
	case PREAD:
		out.ret = pread(fd, buf, len, pos);
		break;
	default:
		out.ret = preadv(fd, &iov, 1, pos);
	}
	if (out.ret < 0)
		out.ret = -errno;
	if (moves_position(how))
		out.moved = lseek(fd, 0, SEEK_CUR) - pos;
	return out;
}

static __u64 sum_of(const char *mem, size_t len)
{
	__u64 sum = len, word;

	for (; len >= sizeof(word); len -= sizeof(word), mem += sizeof(word)) {
		memcpy(&word, mem, sizeof(word));
		sum = (sum ^ word) * 0x100000001b3ULL;
	}
	return sum;
}

/*
 * On some architectures, a copy stops some bytes before those that are not
 * accessible. The generic path then tries the rest once more.
 */
static bool stops_early(const struct outcome *out,
			const struct outcome *generic, size_t len)
{
	ssize_t less = generic->ret - out->ret;
	loff_t moved = generic->moved - out->moved;

	return out->ret > 0 && less > 0 && less <= DAX_COPY_SHORT &&
		(!moved || moved == less) && generic->ret < (ssize_t)len;
}

/*
 * Reads to @buf. If @check is not NULL, it is filled before the read, and its
 * checksum is part of the outcome.
 */
static struct outcome do_read(struct __test_metadata *_metadata,
			      struct edges *t, int fd,
			      enum entry how, void *buf, size_t len,
			      loff_t pos, char *check, size_t check_len)
{
	struct outcome out, *generic = &t->outcomes[t->nr_outcomes++];

	ASSERT_LE(t->nr_outcomes, MAX_OUTCOMES);
	if (check)
		memset(check, 0x5a, check_len);
	out = read_once(fd, how, buf, len, pos);
	if (check)
		out.sum = sum_of(check, check_len);
	if (!t->compare) {
		*generic = out;
		return out;
	}
	if (!memcmp(&out, generic, sizeof(out)) ||
	    stops_early(&out, generic, len) ||
	    t->complaints++ >= MAX_COMPLAINTS)
		return out;
	EXPECT_EQ(generic->ret, out.ret)
		TH_LOG("%s of %zu at %lld: generic and fast differ",
		       entries[how], len, (long long)pos);
	EXPECT_EQ(generic->moved, out.moved)
		TH_LOG("%s of %zu at %lld moved the position",
		       entries[how], len, (long long)pos);
	EXPECT_EQ(generic->sum, out.sum)
		TH_LOG("%s of %zu at %lld left other bytes",
		       entries[how], len, (long long)pos);
	return out;
}

typedef void (*body_fn)(struct __test_metadata *_metadata,
			struct edges *t);

/* Switching paths is slow, so each path runs a test as a whole. */
static void by_both_paths(struct __test_metadata *_metadata,
			  struct edges *t, body_fn body)
{
	body(_metadata, t);
	if (!dax_fast_exists()) {
		TH_LOG("this kernel has the generic path only");
		return;
	}
	ASSERT_EQ(0, dax_fast_set(true));
	t->compare = true;
	t->nr_outcomes = 0;
	body(_metadata, t);
	EXPECT_EQ(0, t->complaints);
}

/* A test that runs by both paths. */
#define TEST_BOTH(name)							\
	static void name##_body(struct __test_metadata *_metadata,	\
				struct edges *t);	\
	TEST_F(read_edges, name)					\
	{								\
		by_both_paths(_metadata, &self->t, name##_body);	\
	}								\
	static void name##_body(struct __test_metadata *_metadata,	\
				struct edges *t)

/* -- buffers */

/*
 * Reads to the last @room bytes of the buffer. These are followed by
 * inaccessible memory.
 */
static void check_short(struct __test_metadata *_metadata,
			struct edges *t, enum entry how,
			loff_t pos, size_t len, size_t room)
{
	char *to = t->buf + BUF_BLOCKS * t->bs - room;
	struct outcome out;

	out = do_read(_metadata, t, t->fd, how, to, len, pos, to - MARGIN,
		      MARGIN + room);
	if (out.ret >= 0) {
		EXPECT_LE(out.ret, (ssize_t)room);
		EXPECT_EQ(0, memcmp(to, t->want + pos, out.ret));
	} else {
		EXPECT_EQ(-EFAULT, out.ret);
	}
	/* A read never writes before the buffer. */
	EXPECT_EQ(0x5a, to[-1]);
}

static void check_short_all(struct __test_metadata *_metadata,
			    struct edges *t, size_t block)
{
	static const size_t rooms[] = {
		0, 1, 3, 7, 8, 9, 63, 64, 65, 100, 511, 512, 2047, 4095,
	};
	size_t bs = t->bs, skip, i;
	enum entry how;

	for (i = 0; i < ARRAY_LEN(rooms); i++) {
		for (how = READ; how < NR_ENTRIES; how++) {
			skip = i % 3 * 5;
			check_short(_metadata, t, how, block * bs + skip,
				    rooms[i] + 1, rooms[i]);
			check_short(_metadata, t, how, block * bs + skip,
				    3 * bs, bs + rooms[i]);
			check_short(_metadata, t, how, block * bs + skip, bs,
				    rooms[i]);
		}
	}
}

TEST_BOTH(buffer_ends_written)
{
	check_short_all(_metadata, t, WRITTEN);
}

TEST_BOTH(buffer_ends_hole)
{
	check_short_all(_metadata, t, HOLE);
}

TEST_BOTH(buffer_ends_unwritten)
{
	check_short_all(_metadata, t, UNWRITTEN);
}

/* Written blocks and holes alternate, so that a fault hits either kind. */
TEST_BOTH(buffer_ends_mixed)
{
	size_t room, block;

	check_short_all(_metadata, t, MIXED);
	check_short_all(_metadata, t, MIXED + 1);
	for (block = MIXED - 2; block < MIXED + 2; block++)
		for (room = 0; room < 6 * t->bs; room += t->bs / 2)
			check_short(_metadata, t, PREAD, block * t->bs,
				    7 * t->bs, room);
}

/* The file ends before or after the end of the buffer. */
TEST_BOTH(buffer_ends_eof)
{
	size_t left, room;

	for (left = 1; left < 20; left += 6)
		for (room = 0; room < 24; room++)
			check_short(_metadata, t, PREAD, t->size - left, 100,
				    room);
}

/* A read-only page in the buffer stops the read before the pages behind. */
TEST_BOTH(buffer_with_gap)
{
	size_t bs = t->bs, block;
	struct outcome out;
	char *p, *seen;
	size_t i;

	p = dax_alloc(_metadata, 5 * bs);
	seen = malloc(5 * bs);
	for (i = 0; i < 2 * MIXED / 4; i++) {
		block = i / 2 * 4;
		ASSERT_EQ(0, mprotect(p, 5 * bs, PROT_READ | PROT_WRITE));
		memset(p, 0x5a, 5 * bs);
		ASSERT_EQ(0, mprotect(p + 2 * bs, bs, PROT_READ));
		out = do_read(_metadata, t, t->fd, i % 2 ? READV : PREAD,
			      p + 100, 4 * bs, block * bs, NULL, 0);
		EXPECT_LE(out.ret, (ssize_t)(2 * bs - 100));
		memcpy(seen, p, 5 * bs);
		EXPECT_EQ(0x5a, seen[2 * bs]);
		EXPECT_EQ(0x5a, seen[4 * bs]);
	}
	free(seen);
	munmap(p, 5 * bs);
}

static const size_t kinds[] = { WRITTEN, HOLE, UNWRITTEN, MIXED };

/* Buffers at bad addresses, also for reads beyond EOF. */
TEST_BOTH(no_buffer)
{
	/* NULL, a kernel address, and an address that wraps. */
	static const unsigned long bad[] = { 0, -4096UL * 16, -8UL };
	struct outcome out;
	enum entry how;
	size_t i, j;

	for (how = READ; how < NR_ENTRIES; how++) {
		for (i = 0; i < ARRAY_LEN(bad); i++) {
			for (j = 0; j < ARRAY_LEN(kinds); j++) {
				out = do_read(_metadata, t, t->fd, how,
					      (void *)bad[i], 100,
					      kinds[j] * t->bs, NULL, 0);
				EXPECT_LE(out.ret, 0);
				EXPECT_EQ(0, out.moved);
			}
			do_read(_metadata, t, t->fd, how, (void *)bad[i], 100,
				t->size + 5, NULL, 0);
			do_read(_metadata, t, t->fd, how, (void *)bad[i], 0,
				0, NULL, 0);
		}
		out = do_read(_metadata, t, t->fd, how, NULL, 100, WRITTEN,
			      NULL, 0);
		EXPECT_EQ(-EFAULT, out.ret);
	}
}

/*
 * A read ends at a bad piece. It returns the bytes before this piece, and the
 * file position moves by this count. The pieces behind stay unchanged.
 */
TEST_BOTH(bad_piece)
{
	size_t len = 3 * t->bs, i;
	struct outcome out;

	for (i = 0; i < ARRAY_LEN(kinds); i++) {
		out = do_read(_metadata, t, t->fd, READV_BAD, t->buf, len,
			      kinds[i] * t->bs + 9, t->buf, len);
		EXPECT_EQ((ssize_t)(len / 3), out.ret);
		EXPECT_EQ((loff_t)(len / 3), out.moved);
		EXPECT_EQ(0, memcmp(t->buf, t->want + kinds[i] * t->bs + 9,
				    len / 3));
		EXPECT_EQ(0x5a, t->buf[len / 3]);
	}
}

/* A read of a hole to a bad buffer gives 0 or -EFAULT on both paths. */
TEST_BOTH(no_buffer_for_hole)
{
	struct outcome out;

	out = do_read(_metadata, t, t->fd, PREAD, NULL, 100, HOLE * t->bs, NULL,
		      0);
	TH_LOG("a hole read to a bad buffer gives %zd", out.ret);
	EXPECT_TRUE(out.ret == 0 || out.ret == -EFAULT);
}

TEST_BOTH(read_only_buffer)
{
	struct outcome out;
	char *p;

	p = dax_alloc(_metadata, t->bs);
	memset(p, 0x5a, t->bs);
	ASSERT_EQ(0, mprotect(p, t->bs, PROT_READ));
	out = do_read(_metadata, t, t->fd, PREAD, p, 100, 0, NULL, 0);
	EXPECT_EQ(-EFAULT, out.ret);
	out = do_read(_metadata, t, t->fd, PREAD, p, 100, HOLE * t->bs, NULL,
		      0);
	EXPECT_LE(out.ret, 0);
	EXPECT_EQ(0x5a, p[0]);
	munmap(p, t->bs);
}

/* The kernel truncates these lengths to MAX_RW_COUNT, or refuses them. */
TEST_BOTH(huge_length)
{
	static const size_t lens[] = {
		INT_MAX - 4095UL, INT_MAX, 1UL + INT_MAX, UINT_MAX,
		SSIZE_MAX, 1UL + SSIZE_MAX, SIZE_MAX,
	};
	size_t buf_len = BUF_BLOCKS * t->bs, i;
	loff_t pos = t->size - 100;
	enum entry how;

	for (i = 0; i < ARRAY_LEN(lens); i++)
		for (how = READ; how < NR_ENTRIES; how++)
			do_read(_metadata, t, t->fd, how, t->buf, lens[i],
				pos, t->buf, buf_len);
}

/* The copy has to fault in the buffer. */
TEST_BOTH(untouched_buffer)
{
	size_t len = 4 * t->bs, i;
	char *p;

	for (i = 0; i < ARRAY_LEN(kinds); i++) {
		p = dax_alloc(_metadata, len + t->bs);
		EXPECT_EQ((ssize_t)len, pread(t->fd, p + 11, len,
					      kinds[i] * t->bs));
		EXPECT_EQ(0, memcmp(p + 11, t->want + kinds[i] * t->bs,
				    len));
		munmap(p, len + t->bs);
	}
}

static void read_to_itself(struct __test_metadata *_metadata,
			   struct edges *t, size_t to,
			   size_t from)
{
	size_t len = 2 * t->bs;
	char *p;

	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd,
		 to * t->bs);
	ASSERT_NE(MAP_FAILED, p);
	EXPECT_EQ((ssize_t)len, pread(t->fd, p, len, from * t->bs));
	munmap(p, len);
	memmove(t->want + to * t->bs, t->want + from * t->bs, len);

	/* A read of the file gives the same data. */
	EXPECT_EQ((ssize_t)len, pread(t->fd, t->buf, len,
				      to * t->bs));
	EXPECT_EQ(0, memcmp(t->buf, t->want + to * t->bs, len));
}

/*
 * The buffer is a mapping of the file that is read. The copy faults on the file
 * under the inode lock, and allocates blocks.
 */
TEST_BOTH(buffer_is_the_file)
{
	/* In the second run, the first blocks are not holes any more. */
	size_t next = t->compare ? 2 : 0;

	read_to_itself(_metadata, t, WRITTEN, MIXED);
	read_to_itself(_metadata, t, HOLE + next, WRITTEN);
	read_to_itself(_metadata, t, UNWRITTEN + next, WRITTEN);
	read_to_itself(_metadata, t, WRITTEN + 2, MIXED + 1);
	read_to_itself(_metadata, t, MIXED, MIXED);
}

/* -- offsets */

/* Reads at offset @at, before it, after it, and across it. */
static void check_offsets(struct __test_metadata *_metadata, int fd,
			  struct edges *t, loff_t at)
{
	static const long long near[] = {
		-8193, -4096, -4095, -100, -1, 0, 1, 4095, 4096, 65536,
	};
	static const size_t lens[] = { 1, 100, 4096, 20000 };
	enum entry how;
	size_t i, j;

	for (i = 0; i < ARRAY_LEN(near); i++) {
		loff_t pos;

		if (__builtin_add_overflow(at, near[i], &pos))
			continue;
		for (j = 0; j < ARRAY_LEN(lens); j++)
			for (how = READ; how < NR_ENTRIES; how++)
				do_read(_metadata, t, fd, how, t->buf,
					lens[j], pos, t->buf,
					lens[j] + MARGIN);
	}
}

/* Finds the largest file size of the filesystem. */
static loff_t max_size(int fd)
{
	loff_t low = 0, high = LLONG_MAX, mid;

	while (low < high) {
		mid = low + (high - low) / 2 + 1;
		if (ftruncate(fd, mid))
			high = mid - 1;
		else
			low = mid;
	}
	return low;
}

TEST_BOTH(offsets_around_eof)
{
	check_offsets(_metadata, t->fd, t, t->size);
	check_offsets(_metadata, t->fd, t, 0);
}

/* Offsets beyond EOF where 32-bit byte or block numbers overflow. */
TEST_BOTH(offsets_beyond_eof)
{
	static const loff_t at[] = {
		1LL << 31, 1LL << 32, 1LL << 43, (1LL << 44) - 4096,
		1LL << 44, 1LL << 45, 1LL << 48, LLONG_MAX, LLONG_MIN, -1,
		LLONG_MAX - 4096,
	};
	struct outcome out;
	size_t i;

	for (i = 0; i < ARRAY_LEN(at); i++)
		check_offsets(_metadata, t->fd, t, at[i]);
	out = do_read(_metadata, t, t->fd, PREAD, t->buf, 100, 1LL << 45, NULL,
		      0);
	TH_LOG("beyond 16 TiB a read gives %zd", out.ret);
}

/* The same in a file of the largest size with data in its last block. */
TEST_BOTH(offsets_in_largest_file)
{
	static const loff_t at[] = {
		1LL << 31, 1LL << 32, 1LL << 43, 1LL << 44, LLONG_MAX,
	};
	struct outcome out;
	size_t i, len;
	loff_t max;
	int fd;

	fd = dax_open(&t->test.fs, t->compare ? "large2" : "large",
		      O_RDWR | O_CREAT);
	ASSERT_GE(fd, 0);
	max = max_size(fd);
	TH_LOG("the largest file has %lld bytes", (long long)max);
	ASSERT_EQ(0, ftruncate(fd, max));
	check_offsets(_metadata, fd, t, max);
	for (i = 0; i < ARRAY_LEN(at); i++)
		check_offsets(_metadata, fd, t, at[i]);

	/* The last block may not fit. Reads must not fail because of that. */
	if (!dax_write_all(fd, t->want, 100, max - 150)) {
		/* Read past EOF, unless EOF is the largest offset. */
		len = max == LLONG_MAX ? 150 : 1000;
		out = do_read(_metadata, t, fd, PREAD, t->buf, len, max - 150,
			      t->buf, t->bs);
		EXPECT_EQ(150, out.ret);
		EXPECT_EQ(0, memcmp(t->buf, t->want, 100));
		check_offsets(_metadata, fd, t, max);
	}
	out = do_read(_metadata, t, fd, PREAD, t->buf, 100, max, NULL, 0);
	TH_LOG("at the end of the largest file a read gives %zd", out.ret);
	close(fd);
}

/*
 * Read each block around 8 GiB, and across, in a hole of a 9 GiB file. In XFS
 * the hole ends at the largest block number. Its length in bytes does not fit
 * into 64 bits.
 */
TEST_BOTH(hole_of_gigabytes)
{
	loff_t at = (1LL << 33) - 4 * t->bs;
	size_t len = 3 * t->bs;
	struct outcome out;
	int fd, i;

	fd = dax_open(&t->test.fs, t->compare ? "holes2" : "holes",
		      O_RDWR | O_CREAT);
	ASSERT_GE(fd, 0);
	ASSERT_EQ(0, ftruncate(fd, 9LL << 30));
	memset(t->want, 0, len);
	for (i = 0; i < 8; i++, at += t->bs) {
		out = do_read(_metadata, t, fd, PREAD, t->buf, len, at, t->buf,
			      len);
		EXPECT_EQ((ssize_t)len, out.ret) TH_LOG("block %d", i);
		EXPECT_EQ(0, memcmp(t->buf, t->want, len));
	}
	close(fd);
}

/* A read of no bytes returns 0 and does not move the position. */
TEST_BOTH(length_zero)
{
	struct outcome out;
	enum entry how;

	for (how = READ; how < NR_ENTRIES; how++) {
		out = do_read(_metadata, t, t->fd, how, t->buf, 0, 0, t->buf,
			      t->bs);
		EXPECT_EQ(0, out.ret);
		EXPECT_EQ(0, out.moved);
	}
}

TEST_BOTH(write_only_descriptor)
{
	struct outcome out;
	enum entry how;
	int fd;

	fd = dax_open(&t->test.fs, "file", O_WRONLY);
	ASSERT_GE(fd, 0);
	for (how = READ; how < NR_ENTRIES; how++) {
		out = do_read(_metadata, t, fd, how, t->buf, 100, 0, t->buf,
			      t->bs);
		EXPECT_EQ(-EBADF, out.ret);
	}
	close(fd);
}

int main(int argc, char **argv)
{
	return dax_main(argc, argv);
}
