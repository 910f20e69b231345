// SPDX-License-Identifier: GPL-2.0
/*
 * Every way to read a DAX file gives the same bytes.
 *
 * The tests apply random writes, fallocates, holes and truncates to a file, and
 * to a model of the file in memory. Then they read random ranges in every way,
 * by the generic path and by the fast path. The count and the bytes have to
 * match the model. Reads must not write beyond the count.
 */

#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "dax_fixture.h"

/* The expected content of a file. */
struct model {
	char *data;
	size_t size;
	size_t cap;
};

#define FILE_BLOCKS 192
#define LAYOUT_OPS 100
#define MAX_READ_BLOCKS 24
#define CANARY 0xa5
#define CANARY_LEN 64

struct diff {
	struct dax_test test;
	struct dax_rnd rnd;
	struct dax_reader rd;
	struct model model;
	char *buf;
	char *fixed;
	size_t max;
	int fd;
};

FIXTURE(read_diff)
{
	struct diff t;
};

FIXTURE_VARIANT(read_diff)
{
	enum dax_path_kind kind;
	struct dax_setup setup;
	bool clones;	/* files can share extents */
};

#define INDIRECT DAX_MKFS " -O ^extents,^64bit"
#define BIGALLOC DAX_MKFS " -O bigalloc"
#define NOJOURNAL "-O ^has_journal"
#define FAST_COMMIT DAX_MKFS " -O fast_commit"

FIXTURE_VARIANT_ADD(read_diff, generic_extents)
{
	DAX_GENERIC, { .mkfs = DAX_MKFS },
};

FIXTURE_VARIANT_ADD(read_diff, fast_extents)
{
	DAX_FAST, { .mkfs = DAX_MKFS },
};

FIXTURE_VARIANT_ADD(read_diff, generic_indirect)
{
	DAX_GENERIC, { .mkfs = INDIRECT },
};

FIXTURE_VARIANT_ADD(read_diff, fast_indirect)
{
	DAX_FAST, { .mkfs = INDIRECT },
};

FIXTURE_VARIANT_ADD(read_diff, generic_bigalloc)
{
	DAX_GENERIC, { .mkfs = BIGALLOC },
};

FIXTURE_VARIANT_ADD(read_diff, fast_bigalloc)
{
	DAX_FAST, { .mkfs = BIGALLOC },
};

FIXTURE_VARIANT_ADD(read_diff, generic_nojournal)
{
	DAX_GENERIC, { .mkfs = NOJOURNAL },
};

FIXTURE_VARIANT_ADD(read_diff, fast_nojournal)
{
	DAX_FAST, { .mkfs = NOJOURNAL },
};

FIXTURE_VARIANT_ADD(read_diff, generic_fast_commit)
{
	DAX_GENERIC, { .mkfs = FAST_COMMIT },
};

FIXTURE_VARIANT_ADD(read_diff, fast_fast_commit)
{
	DAX_FAST, { .mkfs = FAST_COMMIT },
};

FIXTURE_VARIANT_ADD(read_diff, generic_xfs)
{
	DAX_GENERIC, { .xfs = "reflink=0" },
};

FIXTURE_VARIANT_ADD(read_diff, fast_xfs)
{
	DAX_FAST, { .xfs = "reflink=0" },
};

FIXTURE_VARIANT_ADD(read_diff, generic_xfs_reflink)
{
	DAX_GENERIC, { .xfs = "reflink=1" }, .clones = true,
};

FIXTURE_VARIANT_ADD(read_diff, fast_xfs_reflink)
{
	DAX_FAST, { .xfs = "reflink=1" }, .clones = true,
};

FIXTURE_SETUP(read_diff)
{
	struct diff *t = &self->t;

	dax_begin(_metadata, &t->test, variant->kind, &variant->setup);
	if (_metadata->exit_code)
		return;
	dax_seed(&t->rnd, _metadata->name);
	t->max = MAX_READ_BLOCKS * dax_bs();
	t->buf = dax_alloc(_metadata, t->max + CANARY_LEN);
	t->fixed = dax_alloc(_metadata, t->max);
	t->model.cap = FILE_BLOCKS * dax_bs();
	t->model.data = dax_alloc(_metadata, t->model.cap);
	t->fd = dax_open(&t->test.fs, "file", O_RDWR | O_CREAT);
	ASSERT_GE(t->fd, 0);
}

FIXTURE_TEARDOWN(read_diff)
{
	struct diff *t = &self->t;

	close(t->fd);
	dax_end(_metadata, &t->test);
}

/* -- changes to the file and to the model */

static void model_grow(struct model *model, size_t size)
{
	if (size > model->size)
		model->size = size;
}

static int op_write(struct diff *t, size_t pos, size_t len)
{
	dax_rnd_fill(&t->rnd, t->model.data + pos, len);
	model_grow(&t->model, pos + len);
	return dax_write_all(t->fd, t->model.data + pos, len, pos);
}

static int op_store(struct diff *t, size_t pos, size_t len)
{
	size_t skip = pos % dax_bs();
	char *p;

	if (pos >= t->model.size)
		return 0;
	if (len > t->model.size - pos)
		len = t->model.size - pos;
	p = mmap(NULL, len + skip, PROT_READ | PROT_WRITE, MAP_SHARED,
		 t->fd, pos - skip);
	if (p == MAP_FAILED)
		return -errno;
	dax_rnd_fill(&t->rnd, t->model.data + pos, len);
	memcpy(p + skip, t->model.data + pos, len);
	munmap(p, len + skip);
	return 0;
}

static int op_truncate(struct diff *t, size_t size)
{
	struct model *model = &t->model;

	/* The removed part reads as zeroes if the file grows again. */
	if (size < model->size)
		memset(model->data + size, 0, model->size - size);
	model->size = size;
	return ftruncate(t->fd, size) ? -errno : 0;
}

static int op_fallocate(struct diff *t, int mode, size_t pos,
			size_t len)
{
	/* Files without extents support few of these modes. */
	if (fallocate(t->fd, mode, pos, len))
		return errno == EOPNOTSUPP ? 0 : -errno;
	if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
		memset(t->model.data + pos, 0, len);
	if (!(mode & FALLOC_FL_KEEP_SIZE))
		model_grow(&t->model, pos + len);
	return 0;
}

/* Blocks move down, and the file gets shorter. */
static int op_collapse(struct diff *t, size_t pos, size_t len)
{
	struct model *model = &t->model;

	if (fallocate(t->fd, FALLOC_FL_COLLAPSE_RANGE, pos, len))
		return errno == EOPNOTSUPP || errno == EINVAL ? 0 : -errno;
	memmove(model->data + pos, model->data + pos + len,
		model->size - pos - len);
	memset(model->data + model->size - len, 0, len);
	model->size -= len;
	return 0;
}

/* Blocks move up. */
static int op_insert(struct diff *t, size_t pos, size_t len)
{
	struct model *model = &t->model;

	if (model->size + len > model->cap)
		return 0;
	if (fallocate(t->fd, FALLOC_FL_INSERT_RANGE, pos, len))
		return errno == EOPNOTSUPP || errno == EINVAL ? 0 : -errno;
	memmove(model->data + pos + len, model->data + pos, model->size - pos);
	memset(model->data + pos, 0, len);
	model->size += len;
	return 0;
}

/* Moves whole blocks. A request that fails changes nothing. */
static int op_move(struct diff *t, size_t pos, size_t len)
{
	size_t bs = dax_bs();

	pos -= pos % bs;
	len += bs - 1;
	len -= len % bs;
	if (dax_rnd64(&t->rnd) % 2)
		return op_collapse(t, pos, len);
	return op_insert(t, pos, len);
}

static int random_op(struct diff *t)
{
	size_t pos = dax_rnd_below(&t->rnd, t->model.cap - 1);
	size_t len = 1 + dax_rnd_below(&t->rnd, 6 * dax_bs());

	if (len > t->model.cap - pos)
		len = t->model.cap - pos;
	switch (dax_rnd_below(&t->rnd, 12)) {
	case 10:
	case 11:
		return op_move(t, pos, len);
	case 0:
		return op_store(t, pos, len);
	case 1:
		return op_fallocate(t, 0, pos, len);
	case 2:
		return op_fallocate(t, FALLOC_FL_KEEP_SIZE, pos, len);
	case 3:
	case 4:
		return op_fallocate(t, FALLOC_FL_PUNCH_HOLE |
				    FALLOC_FL_KEEP_SIZE, pos, len);
	case 5:
		return op_fallocate(t, FALLOC_FL_ZERO_RANGE, pos, len);
	case 6:
		/* Keep half of the file, so that there is enough to read. */
		return op_truncate(t, t->model.cap / 2 + pos / 2);
	default:
		return op_write(t, pos, len);
	}
}

static void random_layout(struct __test_metadata *_metadata,
			  struct diff *t, unsigned int ops)
{
	size_t eof;

	while (ops--)
		ASSERT_EQ(0, random_op(t));
	/* The file ends in the middle of a written block. */
	eof = t->model.cap - dax_bs() - 1 -
	      dax_rnd_below(&t->rnd, dax_bs() - 2);
	ASSERT_EQ(0, op_write(t, eof - 100, 200));
	ASSERT_EQ(0, op_truncate(t, eof));
}

/* -- comparing */

/* Returns the expected result of a read. */
static size_t model_count(const struct model *model, size_t pos, size_t len)
{
	if (pos >= model->size)
		return 0;
	return len < model->size - pos ? len : model->size - pos;
}

static size_t first_difference(const char *a, const char *b, size_t len)
{
	size_t i = 0;

	while (i < len && a[i] == b[i])
		i++;
	return i;
}

static bool canary_alive(const char *p)
{
	int i;

	for (i = 0; i < CANARY_LEN; i++)
		if ((unsigned char)p[i] != CANARY)
			return false;
	return true;
}

static void check_read(struct __test_metadata *_metadata,
		       struct diff *t,
		       const struct dax_method *method, size_t pos, size_t len)
{
	size_t want = model_count(&t->model, pos, len), at;
	ssize_t ret;

	memset(t->buf, CANARY, want + CANARY_LEN);
	ret = method->read(&t->rd, t->buf, len, pos);
	/* The test "methods" reports this once. */
	if (ret == DAX_NO_METHOD)
		return;
	ASSERT_EQ((ssize_t)want, ret)
		TH_LOG("%s of %zu at %zu, size %zu", method->name, len, pos,
		       t->model.size);
	at = first_difference(t->buf, t->model.data + pos, want);
	ASSERT_EQ(want, at)
		TH_LOG("%s of %zu at %zu: byte %zu differs, size %zu",
		       method->name, len, pos, pos + at, t->model.size);
	ASSERT_TRUE(canary_alive(t->buf + want))
		TH_LOG("%s of %zu at %zu wrote beyond its %zu bytes",
		       method->name, len, pos, want);
}

static void check_all(struct __test_metadata *_metadata,
		      struct diff *t, size_t pos, size_t len)
{
	unsigned int i;

	for (i = 0; i < dax_nr_methods; i++)
		check_read(_metadata, t, &dax_methods[i], pos, len);
}

/* Mistakes are likely around block boundaries and EOF. */
static size_t interesting_pos(struct diff *t)
{
	size_t base, jitter = dax_rnd_below(&t->rnd, 5);

	switch (dax_rnd_below(&t->rnd, 4)) {
	case 0:
		base = t->model.size;
		break;
	case 1:
		return dax_rnd_below(&t->rnd, t->model.size);
	default:
		base = dax_rnd_below(&t->rnd, FILE_BLOCKS) * dax_bs();
	}
	return base + jitter >= 2 ? base + jitter - 2 : 0;
}

static size_t interesting_len(struct diff *t)
{
	static const size_t lens[] = {
		1, 2, 7, 8, 63, 64, 65, 511, 512, 513,
	};
	size_t bs = dax_bs();

	switch (dax_rnd_below(&t->rnd, 4)) {
	case 0:
		return lens[dax_rnd_below(&t->rnd, ARRAY_LEN(lens))];
	case 1:
		return bs - 1 + dax_rnd_below(&t->rnd, 3);
	case 2:
		return 1 + dax_rnd_below(&t->rnd, 3 * bs);
	default:
		return 1 + dax_rnd_below(&t->rnd, t->max);
	}
}

static void check_random(struct __test_metadata *_metadata,
			 struct diff *t, unsigned int reads)
{
	while (reads--)
		check_all(_metadata, t, interesting_pos(t),
			  interesting_len(t));
}

static void open_reader(struct __test_metadata *_metadata,
			struct diff *t)
{
	char path[256];

	dax_path(&t->test.fs, "file", path, sizeof(path));
	ASSERT_EQ(0, dax_reader_open(&t->rd, path, t->fixed, t->max));
}

/* -- tests */

/* Report the methods that this kernel lacks: nothing compares them. */
TEST_F(read_diff, methods)
{
	struct diff *t = &self->t;
	unsigned int i;
	ssize_t ret;

	ASSERT_EQ(0, op_write(t, 0, 100));
	open_reader(_metadata, t);
	for (i = 0; i < dax_nr_methods; i++) {
		ret = dax_methods[i].read(&t->rd, t->buf, 50, 60);
		if (ret == DAX_NO_METHOD)
			SKIP(break, "no %s: it is not compared",
			     dax_methods[i].name);
		EXPECT_EQ(40, ret)
			TH_LOG("%s", dax_methods[i].name);
	}
	dax_reader_close(&t->rd);
}

TEST_F(read_diff, random_layout)
{
	struct diff *t = &self->t;
	unsigned int round;

	for (round = 0; round < 2 * dax_scale(); round++) {
		random_layout(_metadata, t, LAYOUT_OPS);
		open_reader(_metadata, t);
		check_random(_metadata, t, 25);

		/* The same with cold caches of the kernel. */
		ASSERT_EQ(0, dax_drop_caches());
		check_random(_metadata, t, 8);

		/* The same with a new in-memory inode. */
		dax_reader_close(&t->rd);
		close(t->fd);
		ASSERT_EQ(0, dax_drop_caches());
		t->fd = dax_open(&t->test.fs, "file", O_RDWR);
		ASSERT_GE(t->fd, 0);
		ASSERT_EQ(1, dax_is_dax(t->fd));
		open_reader(_metadata, t);
		check_random(_metadata, t, 8);
		dax_reader_close(&t->rd);
	}
}

/* A descriptor that stays open sees each change with the next read. */
TEST_F(read_diff, read_after_change)
{
	struct diff *t = &self->t;
	unsigned int round;

	ASSERT_EQ(0, op_truncate(t, t->model.cap));
	open_reader(_metadata, t);
	for (round = 0; round < 60 * dax_scale(); round++) {
		ASSERT_EQ(0, random_op(t));
		check_random(_metadata, t, 1);
	}
	dax_reader_close(&t->rd);
}

/*
 * Create files one after the other and remove each at once. A new file may get
 * the inode or the memory of an old one. It must not inherit cached state.
 */
TEST_F(read_diff, one_after_another)
{
	struct diff *t = &self->t;
	unsigned int round, i;
	char path[256];
	size_t bs = dax_bs();

	dax_path(&t->test.fs, "file", path, sizeof(path));
	for (round = 0; round < 50 * dax_scale(); round++) {
		close(t->fd);
		ASSERT_EQ(0, unlink(path));
		memset(t->model.data, 0, t->model.cap);
		t->model.size = 0;
		t->fd = dax_open(&t->test.fs, "file", O_RDWR | O_CREAT);
		ASSERT_GE(t->fd, 0);
		/* Every second file starts with a hole. */
		for (i = round % 2; i < 4; i += 2)
			ASSERT_EQ(0, op_write(t, i * bs, bs));
		open_reader(_metadata, t);
		for (i = 0; i < 4; i++)
			check_read(_metadata, t, &dax_methods[i % 3], i * bs,
				   2 * bs);
		dax_reader_close(&t->rd);
	}
}

/* Two files share extents. One file changes, both are read. */
TEST_F(read_diff, clone)
{
	struct diff *t = &self->t;
	struct dax_reader rd;
	char *data, path[256];
	struct model model;
	unsigned int i;
	int fd;

	random_layout(_metadata, t, LAYOUT_OPS);
	fd = dax_open(&t->test.fs, "clone", O_RDWR | O_CREAT);
	ASSERT_GE(fd, 0);
	if (!variant->clones) {
		ASSERT_EQ(-1, ioctl(fd, FICLONE, t->fd));
		return;
	}
	ASSERT_EQ(0, ioctl(fd, FICLONE, t->fd));
	ASSERT_EQ(1, dax_is_dax(fd));
	data = dax_alloc(_metadata, t->model.cap);
	memcpy(data, t->model.data, t->model.cap);
	model = t->model;
	model.data = data;

	open_reader(_metadata, t);
	for (i = 0; i < 30 * dax_scale(); i++) {
		ASSERT_EQ(0, random_op(t));
		check_random(_metadata, t, 1);
	}
	rd = t->rd;

	/* The clone is unchanged. */
	dax_path(&t->test.fs, "clone", path, sizeof(path));
	ASSERT_EQ(0, dax_reader_open(&t->rd, path, t->fixed, t->max));
	t->model = model;
	check_random(_metadata, t, 25);
	dax_reader_close(&t->rd);
	dax_reader_close(&rd);
	close(fd);
}

TEST_F(read_diff, empty_file)
{
	struct diff *t = &self->t;

	open_reader(_metadata, t);
	check_all(_metadata, t, 0, 1);
	check_all(_metadata, t, 1, 100);
	check_all(_metadata, t, dax_bs(), dax_bs());
	dax_reader_close(&t->rd);
}

/* -- files of many extents */

struct extents {
	struct dax_test test;
	struct dax_rnd rnd;
};

FIXTURE(read_extents)
{
	struct extents t;
};

FIXTURE_VARIANT(read_extents)
{
	enum dax_path_kind kind;
	unsigned int extents;
	struct dax_setup setup;
};

FIXTURE_VARIANT_ADD(read_extents, generic_1)
{
	DAX_GENERIC, 1,
};

FIXTURE_VARIANT_ADD(read_extents, fast_1)
{
	DAX_FAST, 1,
};

FIXTURE_VARIANT_ADD(read_extents, generic_100)
{
	DAX_GENERIC, 100,
};

FIXTURE_VARIANT_ADD(read_extents, fast_100)
{
	DAX_FAST, 100,
};

FIXTURE_VARIANT_ADD(read_extents, generic_10000)
{
	DAX_GENERIC, 10000,
};

FIXTURE_VARIANT_ADD(read_extents, fast_10000)
{
	DAX_FAST, 10000,
};

FIXTURE_SETUP(read_extents)
{
	struct extents *t = &self->t;

	dax_begin(_metadata, &t->test, variant->kind, &variant->setup);
	if (_metadata->exit_code)
		return;
	dax_seed(&t->rnd, _metadata->name);
}

FIXTURE_TEARDOWN(read_extents)
{
	struct extents *t = &self->t;

	dax_end(_metadata, &t->test);
}

/* Even blocks are written and contain their number. Odd blocks are holes. */
static void tag_block(__u64 *block, __u64 nr)
{
	size_t i;

	for (i = 0; i < dax_bs() / sizeof(*block); i++)
		block[i] = nr % 2 ? 0 : (nr + 1) << 16 | i;
}

static void write_extents(struct __test_metadata *_metadata, int fd,
			  unsigned int extents)
{
	__u64 *block = dax_alloc(_metadata, dax_bs());
	unsigned int i;

	for (i = 0; i < extents; i++) {
		tag_block(block, 2 * i);
		ASSERT_EQ(0, dax_write_all(fd, block, dax_bs(),
					   2 * i * dax_bs()));
	}
	ASSERT_EQ((int)extents, dax_count_extents(fd));
}

static void check_extents(struct __test_metadata *_metadata,
			  struct extents *t,
			  struct dax_reader *rd, unsigned int extents)
{
	size_t bs = dax_bs(), blocks = 2 * extents - 1, first, skip, len, i;
	char *buf = dax_alloc(_metadata, 5 * bs);
	char *want = dax_alloc(_metadata, 5 * bs);
	const struct dax_method *method;

	method = &dax_methods[dax_rnd_below(&t->rnd, dax_nr_methods)];
	first = dax_rnd_below(&t->rnd, blocks);
	skip = dax_rnd_below(&t->rnd, bs);
	len = 1 + dax_rnd_below(&t->rnd, 4 * bs);
	for (i = 0; i < 5; i++)
		tag_block((__u64 *)(want + i * bs), first + i);
	if (len > (blocks - first) * bs - skip)
		len = (blocks - first) * bs - skip;

	ASSERT_EQ((ssize_t)len, method->read(rd, buf, len, first * bs + skip));
	ASSERT_EQ(0, memcmp(buf, want + skip, len))
		TH_LOG("%s of %zu at byte %zu of block %zu", method->name, len,
		       skip, first);
	munmap(buf, 5 * bs);
	munmap(want, 5 * bs);
}

TEST_F(read_extents, scattered)
{
	struct extents *t = &self->t;
	size_t len = 5 * dax_bs();
	struct dax_reader rd;
	struct statvfs st;
	unsigned int i;
	char path[256];
	int fd;

	fd = dax_open(&t->test.fs, "file", O_RDWR | O_CREAT);
	ASSERT_GE(fd, 0);
	ASSERT_EQ(0, fstatvfs(fd, &st));
	if (st.f_bavail < variant->extents + variant->extents / 8)
		SKIP(return, "no space for %u blocks of %zu bytes",
		     variant->extents, dax_bs());
	write_extents(_metadata, fd, variant->extents);
	dax_path(&t->test.fs, "file", path, sizeof(path));
	ASSERT_EQ(0, dax_reader_open(&rd, path, dax_alloc(_metadata, len),
				     len));
	for (i = 0; i < 300 * dax_scale(); i++) {
		/* Now and then, the kernel has to look up extents again. */
		if (i % 100 == 50)
			ASSERT_EQ(0, dax_drop_caches());
		check_extents(_metadata, t, &rd, variant->extents);
	}
	dax_reader_close(&rd);
	close(fd);
}

int main(int argc, char **argv)
{
	return dax_main(argc, argv);
}
