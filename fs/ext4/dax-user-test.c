// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of the ext4 DAX read: whole reads, into user memory, with FS_DAX.
 * dax-read-test.c describes the tests.
 */
#include <kunit/test-bug.h>
#include <linux/bvec.h>
#include <linux/dax-read.h>
#include <linux/dax.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/mman.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <linux/vmalloc.h>

#include "dax-test.h"
#include "dax-unlocked.h"

#define DRT_DEV_PAGES	64
#define DRT_PART_OFF	2		/* start of the partition, in pages */
#define DRT_BUF_SIZE	(16 * PAGE_SIZE)
#define DRT_UNTOUCHED	0xa5
#define DRT_NO_ROOM	SIZE_MAX

/*
 * Behaviour of the device. Pages are counted from its start. No block of a file
 * is on page 0, so 0 means "no page".
 */
struct drt_media {
	long run;	/* maximum pages of one answer; 0: no limit */
	long bad;	/* access to this page fails ... */
	int bad_err;	/* ... with this errno */
	long kill;	/* access to this page sends SIGKILL */
	struct drt_taker *taker;	/* if set, access waits for it */
};

/* A file system on a DAX device, and user memory to read into. */
struct drt_read {
	struct drt_fs fs;
	struct file file;
	struct dax_device *dax;
	struct drt_media media;
	u8 *mem;			/* of the device */
	char __user *ubuf;		/* DRT_BUF_SIZE, then an unmapped page */
	u8 *got;			/* result of the read under test ... */
	u8 *other;			/* ... and of another reader */
};

/* A task that takes blocks away while a reader copies them. */
struct drt_taker {
	struct inode *inode;
	struct task_struct *task;
	struct completion begin;
	struct completion end;
	bool taken;		/* the blocks are gone */
	bool waited;		/* the blocks were kept during the read */
	int err;
};

static int drt_take(void *data)
{
	struct drt_taker *taker = data;
	struct inode *inode = taker->inode;

	wait_for_completion(&taker->begin);
	inode_lock(inode);
	filemap_invalidate_lock(inode->i_mapping);
	taker->err = ext4_break_layouts(inode);
	WRITE_ONCE(taker->taken, true);
	filemap_invalidate_unlock(inode->i_mapping);
	inode_unlock(inode);
	kthread_complete_and_exit(&taker->end, 0);
}

/*
 * Called in the middle of a read. Wait until the taker has cleared @open. Then
 * give it time to take the blocks too early, on another CPU.
 */
static void drt_meet(struct drt_taker *taker)
{
	const u32 *open = &EXT4_I(taker->inode)->i_dax_map.open;

	complete(&taker->begin);
	while (READ_ONCE(*open) && !READ_ONCE(taker->taken))
		cpu_relax();
	for (int i = 0; i < 100 && !READ_ONCE(taker->taken); i++)
		mdelay(1);
	taker->waited = !READ_ONCE(taker->taken);
}

static long drt_direct_access(struct dax_device *dax, pgoff_t pgoff,
			      long nr_pages, enum dax_access_mode mode,
			      void **kaddr, unsigned long *pfn)
{
	struct drt_read *rd = dax_get_private(dax);
	const struct drt_media *media = &rd->media;
	long page = pgoff;

	if (pgoff >= DRT_DEV_PAGES)
		return -ENXIO;
	if (media->bad && page == media->bad)
		return media->bad_err;
	if (media->kill && page == media->kill)
		send_sig(SIGKILL, current, 1);
	if (media->taker)
		drt_meet(media->taker);

	*kaddr = rd->mem + page * PAGE_SIZE;
	nr_pages = min(nr_pages, DRT_DEV_PAGES - page);
	if (media->bad > page)
		nr_pages = min(nr_pages, media->bad - page);
	return media->run ? min(nr_pages, media->run) : nr_pages;
}

static int drt_zero_page_range(struct dax_device *dax, pgoff_t pgoff,
			       size_t nr_pages)
{
	return -EIO;	/* nothing here writes */
}

static const struct dax_operations drt_dax_ops = {
	.direct_access = drt_direct_access,
	.zero_page_range = drt_zero_page_range,
};

static void drt_dax_exit(void *data)
{
	struct dax_device *dax = data;

	kill_dax(dax);
	put_dax(dax);
}

KUNIT_DEFINE_ACTION_WRAPPER(drt_vfree, vfree, const void *);

/* Fill the device with bytes that differ between and within pages, never 0. */
static int drt_init_media(struct kunit *test, struct drt_read *rd)
{
	rd->mem = vmalloc(DRT_DEV_PAGES * PAGE_SIZE);
	if (!rd->mem)
		return -ENOMEM;
	for (size_t i = 0; i < DRT_DEV_PAGES * PAGE_SIZE; i++)
		rd->mem[i] = 1 + (i + i / PAGE_SIZE * 7) % 251;
	return kunit_add_action_or_reset(test, drt_vfree, rd->mem);
}

static int drt_init_dax(struct kunit *test, struct drt_read *rd)
{
	rd->dax = alloc_dax(rd, &drt_dax_ops);
	if (IS_ERR(rd->dax))
		return PTR_ERR(rd->dax);
	rd->fs.sbi.s_daxdev = rd->dax;
	rd->fs.sbi.s_dax_part_off = DRT_PART_OFF * PAGE_SIZE;
	return kunit_add_action_or_reset(test, drt_dax_exit, rd->dax);
}

static int drt_init_buffers(struct kunit *test, struct drt_read *rd)
{
	unsigned long addr;

	rd->got = kunit_kmalloc(test, DRT_BUF_SIZE, GFP_KERNEL);
	rd->other = kunit_kmalloc(test, DRT_BUF_SIZE, GFP_KERNEL);
	if (!rd->got || !rd->other)
		return -ENOMEM;

	addr = kunit_vm_mmap(test, NULL, 0, DRT_BUF_SIZE + PAGE_SIZE,
			     PROT_READ | PROT_WRITE,
			     MAP_ANONYMOUS | MAP_PRIVATE, 0);
	if (!addr || IS_ERR_VALUE(addr))
		return -ENOMEM;
	rd->ubuf = (char __user *)addr;
	return vm_munmap(addr + DRT_BUF_SIZE, PAGE_SIZE);
}

static int drt_read_init(struct kunit *test)
{
	struct drt_read *rd = kunit_kzalloc(test, sizeof(*rd), GFP_KERNEL);
	int err;

	if (!rd)
		return -ENOMEM;
	test->priv = rd;
	err = drt_fs_init(test, &rd->fs);
	if (err)
		return err;
	rd->file.f_mapping = rd->fs.ei.vfs_inode.i_mapping;
	rd->file.f_inode = &rd->fs.ei.vfs_inode;

	err = drt_init_media(test, rd);
	if (err)
		return err;
	err = drt_init_dax(test, rd);
	if (err)
		return err;
	allow_signal(SIGKILL);
	return drt_init_buffers(test, rd);
}

typedef ssize_t (*drt_reader)(struct drt_read *rd, loff_t pos,
			      char __user *buf, size_t count);

static ssize_t drt_iomap_rw(struct kiocb *kiocb, struct iov_iter *iter)
{
	/* At or past EOF, dax_iomap_rw() returns 0 too. */
	if (kiocb->ki_pos >= i_size_read(file_inode(kiocb->ki_filp)))
		return 0;
	return dax_iomap_rw(kiocb, iter, &ext4_iomap_ops);
}

typedef ssize_t (*drt_iter_reader)(struct kiocb *kiocb, struct iov_iter *iter);

/* Check that the file position and the iterator advance by the bytes read. */
static ssize_t drt_read_iter(struct drt_read *rd, loff_t pos,
			     struct iov_iter *iter, int ki_flags,
			     drt_iter_reader reader)
{
	struct kunit *test = kunit_get_current_test();
	size_t count = iov_iter_count(iter);
	struct kiocb kiocb;
	ssize_t ret;

	init_sync_kiocb(&kiocb, &rd->file);
	kiocb.ki_pos = pos;
	kiocb.ki_flags |= ki_flags;
	ret = reader(&kiocb, iter);
	KUNIT_EXPECT_EQ(test, kiocb.ki_pos, pos + max(ret, 0));
	KUNIT_EXPECT_EQ(test, iov_iter_count(iter), count - max(ret, 0));
	return ret;
}

static ssize_t drt_read_ubuf(struct drt_read *rd, loff_t pos, char __user *buf,
			     size_t count, int ki_flags, drt_iter_reader reader)
{
	struct iov_iter iter;

	iov_iter_ubuf(&iter, ITER_DEST, buf, count);
	return drt_read_iter(rd, pos, &iter, ki_flags, reader);
}

static ssize_t drt_read_generic(struct drt_read *rd, loff_t pos,
				char __user *buf, size_t count)
{
	return drt_read_ubuf(rd, pos, buf, count, 0, drt_iomap_rw);
}

/* As ext4_dax_read(). */
static ssize_t drt_read_fast(struct drt_read *rd, loff_t pos, char __user *buf,
			     size_t count)
{
	ssize_t ret = ext4_dax_read_user(&rd->fs.ei.vfs_inode, pos, buf, count);

	return ret == -ENOTBLK ? drt_read_generic(rd, pos, buf, count) : ret;
}

/* As in a file system that has only an ->iomap_begin. */
static ssize_t drt_iter_simple(struct kiocb *kiocb, struct iov_iter *iter)
{
	ssize_t ret = dax_read_simple(kiocb, iter, ext4_iomap_begin, NULL);

	return ret == -ENOTBLK ? drt_iomap_rw(kiocb, iter) : ret;
}

/* As ext4_dax_read_iter(). */
static ssize_t drt_iter_fast(struct kiocb *kiocb, struct iov_iter *iter)
{
	ssize_t ret = ext4_dax_read_simple(kiocb, iter);

	return ret == -ENOTBLK ? drt_iomap_rw(kiocb, iter) : ret;
}

static ssize_t drt_read_simple(struct drt_read *rd, loff_t pos,
			       char __user *buf, size_t count)
{
	return drt_read_ubuf(rd, pos, buf, count, 0, drt_iter_simple);
}

/* Read into three pieces. The second piece is empty. */
static ssize_t drt_read_pieces(struct drt_read *rd, loff_t pos,
			       char __user *buf, size_t count,
			       drt_iter_reader reader)
{
	size_t first = min(count / 3, DRT_BUF_SIZE / 2 - 5);
	const struct iovec pieces[] = {
		{ buf, first },
		{ NULL, 0 },
		{ buf + first, count - first },
	};
	struct iov_iter iter;

	iov_iter_init(&iter, ITER_DEST, pieces, ARRAY_SIZE(pieces), count);
	return drt_read_iter(rd, pos, &iter, 0, reader);
}

static ssize_t drt_pieces_fast(struct drt_read *rd, loff_t pos,
			       char __user *buf, size_t count)
{
	return drt_read_pieces(rd, pos, buf, count, drt_iter_fast);
}

static ssize_t drt_pieces_generic(struct drt_read *rd, loff_t pos,
				  char __user *buf, size_t count)
{
	return drt_read_pieces(rd, pos, buf, count, drt_iomap_rw);
}

static ssize_t drt_pieces_simple(struct drt_read *rd, loff_t pos,
				 char __user *buf, size_t count)
{
	return drt_read_pieces(rd, pos, buf, count, drt_iter_simple);
}

/* Readers that are compared with drt_read_fast(). */
static const drt_reader drt_others[] = {
	drt_read_generic,
	drt_read_simple,
	drt_pieces_fast,
	drt_pieces_generic,
	drt_pieces_simple,
};

/*
 * arm64 copies up to 16 bytes at once, and does not count those of a copy that
 * faults. Like a program after a short read, read the bytes before the fault.
 */
#define DRT_CHUNK	(IS_ENABLED(CONFIG_X86) ? 1 : 16)

static ssize_t drt_read_room(struct drt_read *rd, drt_reader reader, loff_t pos,
			     char __user *buf, size_t count, size_t room)
{
	ssize_t ret = reader(rd, pos, buf, count), done = max(ret, 0), more;

	if ((ret < 0 && ret != -EFAULT) || done >= min(count, room) ||
	    done + DRT_CHUNK <= room)
		return ret;
	more = reader(rd, pos + done, buf + done, min(count, room) - done);
	return more > 0 ? done + more : ret;
}

/*
 * Read @count bytes at @pos into user memory, and copy the result to @bytes.
 * Only @room bytes of the memory are mapped.
 */
static ssize_t drt_read(struct kunit *test, drt_reader reader, loff_t pos,
			size_t count, size_t room, u8 *bytes)
{
	struct drt_read *rd = test->priv;
	struct inode *inode = &rd->fs.ei.vfs_inode;
	char __user *buf = rd->ubuf + DRT_BUF_SIZE - room;
	ssize_t ret;

	memset(bytes, DRT_UNTOUCHED, DRT_BUF_SIZE);
	KUNIT_ASSERT_EQ(test, 0, copy_to_user(rd->ubuf, bytes, DRT_BUF_SIZE));

	inode_lock_shared(inode);
	ret = drt_read_room(rd, reader, pos, buf, count, room);
	inode_unlock_shared(inode);
	flush_signals(current);

	KUNIT_ASSERT_EQ(test, 0, copy_from_user(bytes, buf, room));
	KUNIT_ASSERT_LE(test, ret, (ssize_t)room);
	return ret;
}

/* Like KUNIT_EXPECT_MEMEQ(), which would print both buffers in full. */
static void drt_expect_same_bytes(struct kunit *test, const u8 *got,
				  const u8 *want, size_t len)
{
	size_t i = 0;

	if (!memcmp(got, want, len))
		return;
	while (got[i] == want[i])
		i++;
	KUNIT_FAIL(test, "byte %zu of %zu is %#x, not %#x", i, len, got[i],
		   want[i]);
}

/* Check that @bytes is the content of @lay at @pos. */
static void drt_expect_bytes(struct kunit *test, const struct drt_layout *lay,
			     loff_t pos, const u8 *bytes, ssize_t len)
{
	struct drt_read *rd = test->priv;
	size_t n;

	for (; len > 0; len -= n, pos += n, bytes += n) {
		ext4_lblk_t lblk = pos >> DRT_BLKBITS;
		const struct drt_extent *ex = drt_extent_at(lay, lblk);
		size_t offset = offset_in_page(pos), page;

		n = min_t(size_t, len, PAGE_SIZE - offset);
		if (ex && ex->status & DRT_WRITTEN) {
			page = ex->pblk + lblk - ex->lblk + DRT_PART_OFF;
			KUNIT_ASSERT_LT(test, page, DRT_DEV_PAGES);
			drt_expect_same_bytes(test, bytes, rd->mem + offset +
					      page * PAGE_SIZE, n);
		} else {
			KUNIT_EXPECT_NULL(test, memchr_inv(bytes, 0, n));
		}
	}
}

static const struct drt_layout drt_file = {
	.ex = {
		{ 0, 2, 20, DRT_WRITTEN },
		{ 2, 1, 0, DRT_HOLE },
		{ 3, 1, 30, DRT_UNWRITTEN },
		{ 4, 2, 40, DRT_WRITTEN },	/* the second not in the cache */
		{ 6, 1, 0, DRT_HOLE },		/* not in the cache */
		{ 7, 2, 50, DRT_WRITTEN },	/* the second past the end */
	},
	.nr = 6,
	.end = 9,
	.on_disk = true,
};

#define DRT_B		PAGE_SIZE
#define DRT_SIZE	(7 * DRT_B + 1000)

static void drt_plant_file(struct inode *inode)
{
	for (int i = 0; i < drt_file.nr; i++) {
		const struct drt_extent *ex = &drt_file.ex[i];

		drt_to_cache(inode, ex);
		if (drt_has_blocks(ex))
			drt_to_disk(inode, ex);
	}
	ext4_es_remove_extent(inode, 5, 2);
	i_size_write(inode, DRT_SIZE);
}

struct drt_row {
	const char *desc;
	loff_t pos;
	size_t count;
	ssize_t ret;
	size_t room;		/* mapped bytes of the buffer; 0: all */
	struct drt_media media;
};

static const struct drt_row drt_rows[] = {
	{ "first byte", 0, 1, 1 },
	{ "inside a block", 100, 200, 200 },
	{ "one block", 0, DRT_B, DRT_B },
	{ "across blocks of an extent", DRT_B - 4, 8, 8 },
	{ "hole", 2 * DRT_B, DRT_B, DRT_B },
	{ "inside a hole", 2 * DRT_B + 1, 5, 5 },
	{ "unwritten", 3 * DRT_B, DRT_B, DRT_B },
	{ "written, then hole", 2 * DRT_B - 10, 20, 20 },
	{ "hole, then unwritten", 3 * DRT_B - 10, 20, 20 },
	{ "unwritten, then written", 4 * DRT_B - 10, 20, 20 },
	{ "written, not in the cache", 5 * DRT_B, DRT_B, DRT_B },
	{ "hole, not in the cache", 6 * DRT_B + 5, 10, 10 },
	{ "cached, then not", 5 * DRT_B - 10, 20, 20 },
	{ "the whole file", 0, DRT_SIZE, DRT_SIZE },
	{ "largest read", 0, MAX_RW_COUNT, DRT_SIZE },

	{ "last byte", DRT_SIZE - 1, 1, 1 },
	{ "up to the end", DRT_SIZE - 10, 10, 10 },
	{ "across the end, inside a block", DRT_SIZE - 10, 20, 10 },
	{ "across the end, into the next block", 7 * DRT_B, 2 * DRT_B, 1000 },
	{ "at the end", DRT_SIZE, 1, 0 },
	{ "past the end, in its block", DRT_SIZE + 1, 1, 0 },
	{ "past the end, in a block of the file", 8 * DRT_B, DRT_B, 0 },
	{ "past the end and all blocks", 100 * DRT_B, 1, 0 },
	{ "past the end, at the largest offset", LLONG_MAX - 1, 1, 0 },

	{ "buffer ends inside a written block", 0, 2 * DRT_B, 100,
	  .room = 100 },
	{ "buffer ends with a written block", 0, 2 * DRT_B, DRT_B,
	  .room = DRT_B },
	{ "buffer ends inside a hole", 2 * DRT_B, DRT_B, 100, .room = 100 },
	{ "buffer ends inside unwritten", 3 * DRT_B, DRT_B, 100, .room = 100 },
	{ "buffer ends with an extent", 2 * DRT_B - 10, 20, 10, .room = 10 },
	{ "buffer ends with a hole", 4 * DRT_B - 10, 20, 10, .room = 10 },
	{ "no buffer, written", 0, 1, -EFAULT, .room = DRT_NO_ROOM },
	{ "no buffer, hole", 2 * DRT_B, 1, -EFAULT, .room = DRT_NO_ROOM },
	{ "no buffer, unwritten", 3 * DRT_B, 1, -EFAULT, .room = DRT_NO_ROOM },
	{ "no buffer, past the end", DRT_SIZE, 1, 0, .room = DRT_NO_ROOM },

	{ "page by page", 0, DRT_SIZE, DRT_SIZE, .media.run = 1 },
	{ "page by page, inside blocks", 10, DRT_B + 10, DRT_B + 10,
	  .media.run = 1 },

	{ "bad page, first", 0, DRT_B, -EIO,
	  .media = { .bad = 22, .bad_err = -EHWPOISON } },
	{ "bad page, second", 10, 2 * DRT_B, DRT_B - 10,
	  .media = { .bad = 23, .bad_err = -EHWPOISON } },
	{ "bad page, in a later extent", 0, DRT_SIZE, 4 * DRT_B,
	  .media = { .bad = 42, .bad_err = -EHWPOISON } },
	{ "bad page, not asked for", 0, DRT_B, DRT_B,
	  .media = { .bad = 23, .bad_err = -EHWPOISON } },
	{ "another errno, first", 0, DRT_B, -ENODEV,
	  .media = { .bad = 22, .bad_err = -ENODEV } },
	{ "another errno, second", 0, 2 * DRT_B, DRT_B,
	  .media = { .bad = 23, .bad_err = -ENODEV } },

	{ "killed between extents", 0, DRT_SIZE, 4 * DRT_B,
	  .media = { .run = 1, .kill = 23 } },
	{ "killed on the last page", 4 * DRT_B, DRT_B, DRT_B,
	  .media = { .run = 1, .kill = 42 } },
};

KUNIT_ARRAY_PARAM_DESC(drt_row, drt_rows, desc);

/*
 * Check that reads into kernel memory, as by io_uring and splice, return @ret
 * and the bytes in @got.
 */
static void drt_check_kernel(struct kunit *test, loff_t pos, size_t count,
			     ssize_t ret)
{
	struct drt_read *rd = test->priv;
	size_t len = min(count, DRT_BUF_SIZE), first = len / 2;
	struct kvec kvecs[] = {
		{ rd->other, first },
		{ rd->other + first, len - first },
	};
	struct bio_vec bvec;
	struct iov_iter iter;

	for (int i = 0; i < 2; i++) {
		bvec_set_virt(&bvec, rd->other, len);
		if (i)
			iov_iter_bvec(&iter, ITER_DEST, &bvec, 1, len);
		else
			iov_iter_kvec(&iter, ITER_DEST, kvecs, 2, len);
		memset(rd->other, DRT_UNTOUCHED, DRT_BUF_SIZE);
		inode_lock_shared(&rd->fs.ei.vfs_inode);
		KUNIT_EXPECT_EQ(test, ret,
				drt_read_iter(rd, pos, &iter, 0,
					      drt_iter_fast));
		inode_unlock_shared(&rd->fs.ei.vfs_inode);
		flush_signals(current);
		drt_expect_same_bytes(test, rd->got, rd->other, DRT_BUF_SIZE);
	}
}

static void drt_check_row(struct kunit *test, const struct drt_row *p)
{
	struct drt_read *rd = test->priv;
	size_t room = p->room ?: DRT_BUF_SIZE;
	ssize_t ret;

	if (room == DRT_NO_ROOM)
		room = 0;
	ret = drt_read(test, drt_read_fast, p->pos, p->count, room, rd->got);
	KUNIT_ASSERT_EQ(test, ret, p->ret);
	drt_expect_bytes(test, &drt_file, p->pos, rd->got, ret);
	ret = max(ret, 0);
	KUNIT_EXPECT_NULL(test, memchr_inv(rd->got + ret, DRT_UNTOUCHED,
					   DRT_BUF_SIZE - ret));

	for (int i = 0; i < ARRAY_SIZE(drt_others); i++) {
		ret = drt_read(test, drt_others[i], p->pos, p->count, room,
			       rd->other);
		KUNIT_EXPECT_EQ(test, ret, p->ret);
		drt_expect_same_bytes(test, rd->got, rd->other, DRT_BUF_SIZE);
	}
	if (!p->room)
		drt_check_kernel(test, p->pos, p->count, p->ret);
}

static void drt_test_read(struct kunit *test)
{
	const struct drt_row *p = test->param_value;
	struct drt_read *rd = test->priv;

	drt_plant_file(&rd->fs.ei.vfs_inode);
	rd->media = p->media;
	drt_check_row(test, p);

	/* Repeat with the copy routine that handles machine checks. */
	set_dax_nomc(rd->dax);
	drt_check_row(test, p);
}

/* Check that all readers return @ret and the same bytes. */
static void drt_expect_read(struct kunit *test, const struct drt_layout *lay,
			    loff_t pos, size_t count, ssize_t ret)
{
	struct drt_read *rd = test->priv;

	KUNIT_EXPECT_EQ(test, drt_read(test, drt_read_fast, pos, count,
				       DRT_BUF_SIZE, rd->got), ret);
	drt_expect_bytes(test, lay, pos, rd->got, ret);
	for (int i = 0; i < ARRAY_SIZE(drt_others); i++) {
		KUNIT_EXPECT_EQ(test, drt_read(test, drt_others[i], pos, count,
					       DRT_BUF_SIZE, rd->other), ret);
		drt_expect_same_bytes(test, rd->got, rd->other, DRT_BUF_SIZE);
	}
}

/* Check that a delayed entry is an error: DAX has no delayed allocation. */
static void drt_test_read_delayed(struct kunit *test)
{
	static const struct drt_layout lay = {
		.ex = { { 0, 1, 20, DRT_WRITTEN }, { 1, 1, 0, DRT_DELAYED } },
		.nr = 2,
	};
	/* One for each reader and each of the two reads. */
	const int warnings = 2 * (1 + ARRAY_SIZE(drt_others));
	struct drt_read *rd = test->priv;
	struct inode *inode = &rd->fs.ei.vfs_inode;

	drt_to_cache(inode, &lay.ex[0]);
	drt_to_cache(inode, &lay.ex[1]);
	i_size_write(inode, 2 * DRT_B);

	kunit_warning_suppress(test) {
		drt_expect_read(test, &lay, DRT_B, 1, -EIO);
		drt_expect_read(test, &lay, 0, 2 * DRT_B, DRT_B);
		KUNIT_EXPECT_SUPPRESSED_WARNING_COUNT(test, warnings);
	}
}

/* Check that reads stop before blocks in a system zone or off the device. */
static void drt_test_read_invalid(struct kunit *test)
{
	static const struct drt_layout lay = {
		.ex = {
			{ 0, 1, 20, DRT_WRITTEN },
			{ 1, 1, TEST_FS_BITMAPS, DRT_WRITTEN },
			{ 2, 1, DRT_FS_BLOCKS, DRT_WRITTEN },
			{ 3, 1, TEST_FS_BITMAPS, DRT_UNWRITTEN },
		},
		.nr = 4,
	};
	struct drt_read *rd = test->priv;
	struct inode *inode = &rd->fs.ei.vfs_inode;

	for (int i = 0; i < lay.nr; i++)
		drt_to_cache(inode, &lay.ex[i]);
	i_size_write(inode, 4 * DRT_B);

	drt_expect_read(test, &lay, 0, 4 * DRT_B, DRT_B);
	drt_expect_read(test, &lay, DRT_B, 1, -EFSCORRUPTED);
	drt_expect_read(test, &lay, 2 * DRT_B, DRT_B, -EFSCORRUPTED);
	drt_expect_read(test, &lay, 3 * DRT_B, DRT_B, DRT_B);
}

/* Check that no reader uses the tree during replay: its entry is wrong. */
static void drt_test_read_replay(struct kunit *test)
{
	static const struct drt_extent wrong = { 0, 9, 52, DRT_WRITTEN };
	struct drt_read *rd = test->priv;
	struct inode *inode = &rd->fs.ei.vfs_inode;

	drt_plant_file(inode);
	drt_to_cache(inode, &wrong);
	rd->fs.sbi.s_mount_state |= EXT4_FC_REPLAY;
	drt_expect_read(test, &drt_file, 0, DRT_SIZE, DRT_SIZE);
}

static void drt_test_read_dead(struct kunit *test)
{
	struct drt_read *rd = test->priv;

	drt_plant_file(&rd->fs.ei.vfs_inode);
	kill_dax(rd->dax);
	drt_expect_read(test, &drt_file, 0, DRT_B, -ENXIO);
	drt_expect_read(test, &drt_file, 3 * DRT_B, 2 * DRT_B, DRT_B);
	drt_expect_read(test, &drt_file, DRT_SIZE, 1, 0);
}

/* Check that inline data is not taken for block numbers. */
static void drt_test_read_inline(struct kunit *test)
{
	struct drt_read *rd = test->priv;
	struct inode *inode = &rd->fs.ei.vfs_inode;

	drt_plant_file(inode);
	ext4_set_inode_flag(inode, EXT4_INODE_INLINE_DATA);
	rd->fs.ei.i_inline_off = 1;
	KUNIT_EXPECT_EQ(test, drt_read(test, drt_read_fast, 0, DRT_B,
				       DRT_BUF_SIZE, rd->got), -ERANGE);
}

static void drt_test_read_killed(struct kunit *test)
{
	struct drt_read *rd = test->priv;

	drt_plant_file(&rd->fs.ei.vfs_inode);
	send_sig(SIGKILL, current, 1);
	KUNIT_EXPECT_EQ(test, drt_read(test, drt_read_fast, 0, DRT_B,
				       DRT_BUF_SIZE, rd->got), -EINTR);
	for (int i = 0; i < ARRAY_SIZE(drt_others); i++) {
		send_sig(SIGKILL, current, 1);
		KUNIT_EXPECT_EQ(test, drt_read(test, drt_others[i], 0, DRT_B,
					       DRT_BUF_SIZE, rd->other),
				-EINTR);
	}
}

/* Check an inode with an i_size larger than its blocks can hold. */
static void drt_test_read_max_offset(struct kunit *test)
{
	static const struct drt_layout lay = {
		.ex = {
			{ 0, DRT_MAX_BLOCK, 0, DRT_HOLE },
			{ DRT_MAX_BLOCK, 1, 20, DRT_WRITTEN },
		},
		.nr = 2,
	};
	const loff_t last = (loff_t)DRT_MAX_BLOCK << DRT_BLKBITS;
	struct drt_read *rd = test->priv;
	struct inode *inode = &rd->fs.ei.vfs_inode;

	drt_to_cache(inode, &lay.ex[0]);
	drt_to_cache(inode, &lay.ex[1]);
	i_size_write(inode, LLONG_MAX);

	drt_expect_read(test, &lay, last, DRT_B, DRT_B);
	drt_expect_read(test, &lay, last - 10, DRT_B, DRT_B);
	drt_expect_read(test, &lay, last + DRT_B - 10, 20, 10);
	drt_expect_read(test, &lay, last + DRT_B, 1, -EINVAL);
	drt_expect_read(test, &lay, LLONG_MAX - 1, 1, -EINVAL);
}

#define DRT_FILES	200
#define DRT_READS	25

struct drt_read_tally {
	unsigned int whole;
	unsigned int partial;
	unsigned int failed;
};

static void drt_random_media(struct rnd_state *rnd, struct drt_media *media)
{
	static const long runs[] = { 0, 0, 1, 3 };

	*media = (struct drt_media) { .run = runs[drt_below(rnd, 4)] };
	if (drt_below(rnd, 4))
		return;
	media->bad = 1 + drt_below(rnd, DRT_DEV_PAGES - 1);
	media->bad_err = drt_below(rnd, 2) ? -EHWPOISON : -ENODEV;
}

static void drt_check_read(struct kunit *test, const struct drt_layout *lay,
			   struct rnd_state *rnd, struct drt_read_tally *tally)
{
	struct drt_read *rd = test->priv;
	loff_t size = i_size_read(&rd->fs.ei.vfs_inode);
	loff_t pos = drt_below(rnd, size + DRT_B);
	size_t count = 1 + drt_below(rnd, drt_below(rnd, 2) ? 16 : DRT_BUF_SIZE);
	size_t room = drt_below(rnd, 4) ? DRT_BUF_SIZE : drt_below(rnd, count);
	size_t most = pos < size ? min_t(u64, count, size - pos) : 0;
	ssize_t ret;

	drt_random_media(rnd, &rd->media);
	ret = drt_read(test, drt_read_fast, pos, count, room, rd->got);
	KUNIT_EXPECT_LE(test, ret, (ssize_t)most);
	drt_expect_bytes(test, lay, pos, rd->got, ret);

	for (int i = 0; i < ARRAY_SIZE(drt_others); i++) {
		KUNIT_EXPECT_EQ(test, ret,
				drt_read(test, drt_others[i], pos, count, room,
					 rd->other));
		drt_expect_same_bytes(test, rd->got, rd->other, DRT_BUF_SIZE);
	}

	if (ret < 0)
		tally->failed++;
	else if (ret < most)
		tally->partial++;
	else
		tally->whole++;

	if (READ_ONCE(test->status) == KUNIT_FAILURE)
		KUNIT_FAIL_AND_ABORT(test, "%zu at %lld of %lld, buffer %zu, run %ld, bad %ld",
				     count, pos, size, room, rd->media.run,
				     rd->media.bad);
}

static void drt_test_read_random(struct kunit *test)
{
	static const struct drt_recipe recipe = {
		.first = TEST_FS_ZONES_END,
		.last = DRT_DEV_PAGES - DRT_PART_OFF - 1,
		.max_len = 6,
	};
	struct drt_read *rd = test->priv;
	struct inode *inode = &rd->fs.ei.vfs_inode;
	struct drt_read_tally tally = {};
	struct drt_layout *lay;
	struct rnd_state rnd;

	lay = kunit_kzalloc(test, sizeof(*lay), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, lay);
	prandom_seed_state(&rnd, drt_seed(test));

	for (int i = 0; i < DRT_FILES; i++) {
		drt_random_layout(&rnd, inode, &recipe, lay);
		drt_apply_layout(&rnd, inode, lay);
		i_size_write(inode, 1 + drt_below(&rnd, (lay->end + 1) * DRT_B));
		for (int j = 0; j < DRT_READS; j++) {
			drt_disturb(&rnd, &rd->fs, lay);
			drt_check_read(test, lay, &rnd, &tally);
		}
		cond_resched();
	}

	kunit_info(test, "%u whole, %u partial, %u failed\n",
		   tally.whole, tally.partial, tally.failed);
	KUNIT_EXPECT_GT(test, tally.whole, DRT_FILES);
	KUNIT_EXPECT_GT(test, tally.partial, DRT_FILES);
	KUNIT_EXPECT_GT(test, tally.failed, DRT_FILES / 4);
}

/* Make the inode remember the extent of @pos, and readers skip i_rwsem. */
static void drt_open(struct kunit *test, loff_t pos)
{
	struct drt_read *rd = test->priv;
	struct ext4_dax_map *m = &rd->fs.ei.i_dax_map;

	KUNIT_ASSERT_EQ(test, 1, drt_read(test, drt_read_fast, pos, 1,
					  DRT_BUF_SIZE, rd->got));
	/* as ext4_dax_let_in() */
	smp_store_release(&m->open, 1);
}

static ssize_t drt_read_unlocked(struct drt_read *rd, loff_t pos,
				 char __user *buf, size_t count)
{
	return __ext4_dax_read_unlocked(&rd->fs.ei.vfs_inode, pos, buf, count);
}

/*
 * Check that a read outside the remembered extent, or while @open is clear, is
 * left to i_rwsem.
 */
static void drt_test_unlocked_left(struct kunit *test)
{
	struct drt_read *rd = test->priv;
	struct inode *inode = &rd->fs.ei.vfs_inode;

	drt_plant_file(inode);
	drt_open(test, 0);
	KUNIT_EXPECT_EQ(test, drt_read(test, drt_read_unlocked, DRT_B / 2, DRT_B,
				       DRT_BUF_SIZE, rd->got), DRT_B);
	drt_expect_bytes(test, &drt_file, DRT_B / 2, rd->got, DRT_B);
	KUNIT_EXPECT_EQ(test, -EAGAIN, drt_read_unlocked(rd, DRT_B, rd->ubuf,
							 DRT_B + 1));
	KUNIT_EXPECT_EQ(test, -EAGAIN, drt_read_unlocked(rd, 2 * DRT_B,
							 rd->ubuf, 1));
	KUNIT_EXPECT_EQ(test, -EAGAIN, drt_read_unlocked(rd, 4 * DRT_B,
							 rd->ubuf, 1));
	KUNIT_EXPECT_EQ(test, -EAGAIN,
			drt_read_unlocked(rd, 0, rd->ubuf + DRT_BUF_SIZE - 1,
					  2));
	KUNIT_EXPECT_EQ(test, 0, drt_read_unlocked(rd, DRT_SIZE, rd->ubuf, 1));
	inode_lock(inode);
	ext4_dax_drain(inode);
	inode_unlock(inode);
	KUNIT_EXPECT_EQ(test, -EAGAIN, drt_read_unlocked(rd, 0, rd->ubuf, 1));
}

static struct drt_taker *drt_begin_taker(struct kunit *test)
{
	struct drt_taker *taker = kunit_kzalloc(test, sizeof(*taker), GFP_KERNEL);
	struct drt_read *rd = test->priv;

	KUNIT_ASSERT_NOT_NULL(test, taker);
	taker->inode = &rd->fs.ei.vfs_inode;
	init_completion(&taker->begin);
	init_completion(&taker->end);
	taker->task = kthread_create(drt_take, taker, "drt_take");
	KUNIT_ASSERT_FALSE(test, IS_ERR(taker->task));
	kthread_bind(taker->task, cpumask_any_but(cpu_online_mask,
						  raw_smp_processor_id()));
	wake_up_process(taker->task);
	return taker;
}

/* Check that blocks are taken away only when no reader copies from them. */
static void drt_test_unlocked_drained(struct kunit *test)
{
	struct drt_read *rd = test->priv;
	struct inode *inode = &rd->fs.ei.vfs_inode;
	struct drt_taker *taker;
	ssize_t ret;

	if (num_online_cpus() < 2)
		kunit_skip(test, "needs two CPUs");
	drt_plant_file(inode);
	drt_open(test, 0);

	migrate_disable();
	taker = drt_begin_taker(test);
	rd->media.taker = taker;
	ret = drt_read_unlocked(rd, 0, rd->ubuf, DRT_B);
	rd->media.taker = NULL;
	migrate_enable();
	/* in case the read has not reached the device */
	complete(&taker->begin);
	wait_for_completion(&taker->end);

	KUNIT_EXPECT_EQ(test, ret, DRT_B);
	KUNIT_EXPECT_TRUE(test, taker->waited);
	KUNIT_EXPECT_TRUE(test, taker->taken);
	KUNIT_EXPECT_EQ(test, taker->err, 0);
	KUNIT_EXPECT_EQ(test, -EAGAIN, drt_read_unlocked(rd, 0, rd->ubuf, 1));
}

static struct kunit_case drt_read_cases[] = {
	KUNIT_CASE_PARAM(drt_test_read, drt_row_gen_params),
	KUNIT_CASE(drt_test_read_delayed),
	KUNIT_CASE(drt_test_read_invalid),
	KUNIT_CASE(drt_test_read_replay),
	KUNIT_CASE(drt_test_read_dead),
	KUNIT_CASE(drt_test_read_inline),
	KUNIT_CASE(drt_test_read_killed),
	KUNIT_CASE(drt_test_read_max_offset),
	KUNIT_CASE(drt_test_read_random),
	KUNIT_CASE(drt_test_unlocked_left),
	KUNIT_CASE(drt_test_unlocked_drained),
	{}
};

static struct kunit_suite drt_read_suite = {
	.name = "ext4_dax_read_user",
	.init = drt_read_init,
	.test_cases = drt_read_cases,
};

kunit_test_suite(drt_read_suite);
