/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Readers of a DAX file race with all changes of the file.
 *
 * The tests write tags of 32 bytes. A tag names its file, its block and its
 * generation. A reader may find zeroes, or tags of its own file at their place.
 * A reader fails if it finds bytes of another file, bytes of another offset, or
 * a torn tag. A single write(2) or fallocate(2) is visible as a whole or not at
 * all.
 *
 * The filesystem is small, and tags of an old file fill it at first. Freed
 * blocks are therefore reused soon, and tests detect blocks reused too early.
 */
#ifndef _RACE_FIXTURE_H
#define _RACE_FIXTURE_H

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

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
	/* Byte offset in the block, and a checksum to detect torn tags. */
	__u32 offset;
	__u32 zero;
	__u64 sum;
};

/* Permitted moves of blocks, and requirements on the data of a read. */
struct rules {
	/*
	 * From block shift_from on, block b may contain the data of block b +
	 * shift. If one block of a read has moved, all of them have.
	 */
	unsigned int shift;
	unsigned int shift_from;
	/* All tags of one read are of one generation. */
	bool one_gen;
	/* Zeroes are permitted. */
	bool zeroes;
	/* Either all data of a read is zeroes, or none is. */
	bool all_or_none;
	/* Each read opens the file by its name. */
	bool by_name;
	/* A read may fail with EIO. */
	bool may_eio;
	/* A read may see any bytes of an unfinished write. */
	bool may_tear;
};

struct race {
	struct dax_test test;
	struct dax_rnd rnd;
	struct rules rules;
	pthread_t readers[NR_READERS];
	atomic_bool stop;
	atomic_int failed;
	atomic_ulong reads;
	atomic_ulong eio;
	atomic_uint running;
	/* The number of reads that the writer waits for, and its semaphore. */
	atomic_long wanted;
	sem_t enough;
	size_t bs;
	char *block;
	int fd;
};

/* -- tags */

static inline __u64 tag_sum(const struct tag *tag)
{
	__u64 sum = tag->magic;

	sum = sum * 31 + tag->file;
	sum = sum * 31 + tag->block;
	sum = sum * 31 + tag->gen;
	return sum * 31 + tag->offset;
}

static inline void tag_block(void *block, size_t bs, __u32 file, __u32 nr,
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

static inline bool tag_is_zero(const struct tag *tag)
{
	static const struct tag zero;

	return !memcmp(tag, &zero, sizeof(zero));
}

static inline const char *tag_wrong(struct race *t,
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

/* A part of a write(2): each field is that of a good tag, or still zero. */
static inline bool tag_is_part(struct race *t, const struct tag *tag,
			       loff_t pos)
{
	__u32 nr = pos / t->bs;

	return (!tag->magic || tag->magic == TAG_MAGIC) &&
	       (!tag->file || tag->file == OURS) &&
	       (!tag->block || tag->block == nr ||
		tag->block == nr + t->rules.shift) &&
	       (!tag->offset || tag->offset == pos % t->bs);
}

static inline int reader_complains(struct race *t, const char *what,
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
static inline int check_tags(struct race *t, const char *buf,
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
		if (rules->may_tear && tag.sum != tag_sum(&tag) &&
		    tag_is_part(t, &tag, pos + i))
			continue;
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

/* By ->read, by ->read_iter in one or two pieces, and with RWF_NOWAIT. */
static inline ssize_t one_read(int fd, unsigned int way, void *buf, size_t len,
			       loff_t pos)
{
	struct iovec iov[] = { { buf, len }, { buf + len, 0 } };
	ssize_t ret;

	switch (way) {
	case 0:
		return pread(fd, buf, len, pos);
	case 1:
		return preadv(fd, iov, 1, pos);
	case 2:
		iov[0].iov_len = len / 2;
		iov[1].iov_base = buf + len / 2;
		iov[1].iov_len = len - len / 2;
		return preadv(fd, iov, 2, pos);
	default:
		ret = preadv2(fd, iov, 1, pos, RWF_NOWAIT);
		return ret < 0 && errno == EAGAIN ? 0 : ret;
	}
}

/* The same with a file that is opened for each read. */
static inline ssize_t read_by_name(struct race *t, unsigned int way, void *buf,
				   size_t len, loff_t pos)
{
	int fd = dax_open(&t->test.fs, "file", O_RDONLY);
	ssize_t ret;

	if (fd < 0) {
		errno = -fd;
		return -1;
	}
	ret = one_read(fd, way, buf, len, pos);
	close(fd);
	return ret;
}

static inline void read_and_check(struct race *t, struct dax_rnd *rnd,
				  char *buf, size_t size)
{
	loff_t pos = dax_rnd_below(rnd, size);
	size_t len = 1 + dax_rnd_below(rnd, size - pos);
	unsigned int way = dax_rnd_below(rnd, 4);
	ssize_t n;

	/* Do not mistake data of an earlier read for data of this one. */
	memset(buf, 0xee, len);
	n = t->rules.by_name ? read_by_name(t, way, buf, len, pos) :
			       one_read(t->fd, way, buf, len, pos);
	if (n >= 0) {
		check_tags(t, buf, n, pos);
	} else if (errno == EIO && t->rules.may_eio) {
		atomic_fetch_add(&t->eio, 1);
	} else {
		printf("# read: %s\n", strerror(errno));
		atomic_fetch_add(&t->failed, 1);
	}
	atomic_fetch_add(&t->reads, 1);
	if (atomic_fetch_sub(&t->wanted, 1) == 1)
		sem_post(&t->enough);
}

static inline void *reader(void *arg)
{
	struct race *t = arg;
	size_t size = FILE_BLOCKS * t->bs;
	struct dax_rnd rnd = { (unsigned long)pthread_self() | 1 };
	char *buf = malloc(size);

	atomic_fetch_add(&t->running, 1);
	while (!atomic_load(&t->stop) && !atomic_load(&t->failed))
		read_and_check(t, &rnd, buf, size);
	/* The writer must not wait for a reader that has stopped. */
	if (atomic_load(&t->failed))
		sem_post(&t->enough);
	free(buf);
	return NULL;
}

/* Starts the readers and waits until they run. */
static inline void start_readers(struct __test_metadata *_metadata,
				 struct race *t, struct rules rules)
{
	int i;

	t->rules = rules;
	/* Without i_rwsem a read may see a part of a write. */
	if (t->test.unlocked) {
		t->rules.one_gen = false;
		t->rules.all_or_none = false;
		t->rules.may_tear = true;
	}
	atomic_store(&t->stop, false);
	atomic_store(&t->running, 0);
	atomic_store(&t->wanted, 0);
	sem_init(&t->enough, 0, 0);
	for (i = 0; i < NR_READERS; i++)
		ASSERT_EQ(0, pthread_create(&t->readers[i], NULL, reader,
					    t));
	while (atomic_load(&t->running) < NR_READERS)
		sched_yield();
}

/*
 * Waits for @n more reads, or for a failed one. If CPUs are emulated one after
 * the other, a writer that never waits ends before a reader runs.
 */
static inline void wait_for_reads(struct race *t, long n)
{
	atomic_store(&t->wanted, n);
	if (atomic_load(&t->failed))
		return;
	while (sem_wait(&t->enough) && errno == EINTR)
		;
}

static inline void stop_readers(struct __test_metadata *_metadata,
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

/* -- changes of the file */

static inline int write_file(struct race *t, int fd, __u32 file,
			     __u32 first, __u32 n, __u32 gen)
{
	size_t len = n * t->bs;
	ssize_t ret;
	__u32 i;

	for (i = 0; i < n; i++)
		tag_block(t->block + i * t->bs, t->bs, file,
			  first + i, gen);
	/* A single call: readers expect to see all of the write or nothing. */
	ret = pwrite(fd, t->block, len, first * t->bs);
	if (ret < 0)
		return -errno;
	return ret == (ssize_t)len ? 0 : -ENOSPC;
}

/* XFS cannot be as small as FS_BLOCKS: a file uses up the rest. */
static inline void fill_up(struct __test_metadata *_metadata, struct race *t)
{
	struct statvfs st;
	int fd;

	ASSERT_EQ(0, statvfs(t->test.fs.dir, &st));
	if (st.f_bavail <= FS_BLOCKS)
		return;
	fd = dax_open(&t->test.fs, "filler", O_RDWR | O_CREAT);
	ASSERT_GE(fd, 0);
	ASSERT_EQ(0, fallocate(fd, 0, 0, (st.f_bavail - FS_BLOCKS) * t->bs));
	close(fd);
}

/* Fills all free blocks with tags that no reader may see. */
static inline void poison_free_blocks(struct __test_metadata *_metadata,
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

/* -- the start and the end of a test */

/* Sets the DAX flag of the root directory. New files inherit it. */
static inline int race_flag_dir(struct race *t, bool on)
{
	int fd = dax_open(&t->test.fs, ".", O_RDONLY | O_DIRECTORY), ret;

	if (fd < 0)
		return fd;
	ret = dax_set_flag(fd, on);
	close(fd);
	return ret;
}

static inline void race_open(struct __test_metadata *_metadata,
			     struct race *t)
{
	t->fd = dax_open(&t->test.fs, "file", O_RDWR | O_CREAT);
	ASSERT_GE(t->fd, 0);
	ASSERT_EQ(1, dax_is_dax(t->fd));
}

static inline void race_begin(struct __test_metadata *_metadata,
			      struct race *t, enum dax_path_kind kind,
			      const struct dax_setup *setup)
{
	dax_begin(_metadata, &t->test, kind, setup);
	if (_metadata->exit_code)
		return;
	dax_seed(&t->rnd, _metadata->name);
	t->bs = dax_bs();
	t->block = dax_alloc(_metadata, FILE_BLOCKS * t->bs);
	if (setup->xfs)
		fill_up(_metadata, t);
	poison_free_blocks(_metadata, t);
	if (setup->mount)
		ASSERT_EQ(0, race_flag_dir(t, true));
	race_open(_metadata, t);
	ASSERT_EQ(0, write_file(t, t->fd, OURS, 0, FILE_BLOCKS, 0));
}

static inline void race_end(struct __test_metadata *_metadata,
			    struct race *t)
{
	close(t->fd);
	dax_end(_metadata, &t->test);
}

#endif /* _RACE_FIXTURE_H */
