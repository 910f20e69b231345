// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of dax_read_simple(). ->iomap_begin returns a mapping of the
 * test's choice. The DAX device is backed by normal memory.
 */
#include <kunit/test.h>
#include <linux/bvec.h>
#include <linux/dax.h>
#include <linux/dax-read.h>
#include <linux/mman.h>
#include <linux/pagemap.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <linux/vmalloc.h>

#define DRK_PAGES	8
#define DRK_SIZE	(4 * PAGE_SIZE)		/* i_size */
#define DRK_SHIFT	(2 * PAGE_SIZE)		/* device address of byte 0 */
#define DRK_UNTOUCHED	0xa5

struct drk {
	struct super_block sb;
	struct inode inode;
	struct file file;
	struct dax_device *dax;
	u8 *mem;			/* of the device */
	char __user *ubuf;		/* DRK_SIZE, then an unmapped page */
	u8 *got;

	/* Results of drk_direct_access(). */
	long err;
	long run;			/* maximum pages; 0: no limit */

	/* Results of drk_begin() and drk_end(), and their arguments. */
	struct iomap iomap;
	int begin_err, end_err;
	int begun, ended;
	unsigned int flags;
	ssize_t written;
};

static struct drk *drk_of(struct inode *inode)
{
	return container_of(inode, struct drk, inode);
}

static int drk_begin(struct inode *inode, loff_t pos, loff_t length,
		     unsigned int flags, struct iomap *iomap,
		     struct iomap *srcmap)
{
	struct drk *drk = drk_of(inode);

	drk->begun++;
	drk->flags = flags;
	*iomap = drk->iomap;
	return drk->begin_err;
}

static int drk_end(struct inode *inode, loff_t pos, loff_t length,
		   ssize_t written, unsigned int flags, struct iomap *iomap)
{
	struct drk *drk = drk_of(inode);

	drk->ended++;
	drk->written = written;
	return drk->end_err;
}

static long drk_direct_access(struct dax_device *dax, pgoff_t pgoff,
			      long nr_pages, enum dax_access_mode mode,
			      void **kaddr, unsigned long *pfn)
{
	struct drk *drk = dax_get_private(dax);

	if (drk->err)
		return drk->err;
	if (pgoff >= DRK_PAGES)
		return -ENXIO;
	*kaddr = drk->mem + pgoff * PAGE_SIZE;
	nr_pages = min_t(long, nr_pages, DRK_PAGES - pgoff);
	return drk->run ? min(nr_pages, drk->run) : nr_pages;
}

static int drk_zero_page_range(struct dax_device *dax, pgoff_t pgoff,
			       size_t nr_pages)
{
	return -EIO;
}

static const struct dax_operations drk_dax_ops = {
	.direct_access = drk_direct_access,
	.zero_page_range = drk_zero_page_range,
};

static void drk_dax_exit(void *data)
{
	struct dax_device *dax = data;

	kill_dax(dax);
	put_dax(dax);
}

KUNIT_DEFINE_ACTION_WRAPPER(drk_vfree, vfree, const void *);

static int drk_init_device(struct kunit *test, struct drk *drk)
{
	int err;

	drk->mem = vmalloc(DRK_PAGES * PAGE_SIZE);
	if (!drk->mem)
		return -ENOMEM;
	for (size_t i = 0; i < DRK_PAGES * PAGE_SIZE; i++)
		drk->mem[i] = 1 + (i + i / PAGE_SIZE * 7) % 151;
	err = kunit_add_action_or_reset(test, drk_vfree, drk->mem);
	if (err)
		return err;

	drk->dax = alloc_dax(drk, &drk_dax_ops);
	if (IS_ERR(drk->dax))
		return PTR_ERR(drk->dax);
	return kunit_add_action_or_reset(test, drk_dax_exit, drk->dax);
}

static int drk_init(struct kunit *test)
{
	struct drk *drk = kunit_kzalloc(test, sizeof(*drk), GFP_KERNEL);
	unsigned long addr;
	int err;

	if (!drk)
		return -ENOMEM;
	test->priv = drk;
	err = drk_init_device(test, drk);
	if (err)
		return err;

	/* Read-only, so that no lock is needed. */
	drk->sb.s_flags = SB_RDONLY;
	drk->inode.i_sb = &drk->sb;
	drk->inode.i_mapping = &drk->inode.i_data;
	drk->inode.i_data.host = &drk->inode;
	i_size_write(&drk->inode, DRK_SIZE);
	drk->file.f_mapping = drk->inode.i_mapping;
	drk->file.f_inode = &drk->inode;
	drk->iomap = (struct iomap) {
		.type = IOMAP_MAPPED,
		.addr = DRK_SHIFT,
		.length = DRK_SIZE,
		.dax_dev = drk->dax,
	};

	drk->got = kunit_kmalloc(test, DRK_SIZE, GFP_KERNEL);
	addr = kunit_vm_mmap(test, NULL, 0, DRK_SIZE + PAGE_SIZE,
			     PROT_READ | PROT_WRITE,
			     MAP_ANONYMOUS | MAP_PRIVATE, 0);
	if (!drk->got || !addr || IS_ERR_VALUE(addr))
		return -ENOMEM;
	drk->ubuf = (char __user *)addr;
	memset(drk->got, DRK_UNTOUCHED, DRK_SIZE);
	if (copy_to_user(drk->ubuf, drk->got, DRK_SIZE))
		return -EFAULT;
	return vm_munmap(addr + DRK_SIZE, PAGE_SIZE);
}

/* Check that the file position and the iterator advance by the bytes read. */
static ssize_t drk_read_iter(struct kunit *test, loff_t pos,
			     struct iov_iter *iter, int ki_flags)
{
	struct drk *drk = test->priv;
	size_t count = iov_iter_count(iter);
	struct kiocb iocb = {
		.ki_filp = &drk->file,
		.ki_pos = pos,
		.ki_flags = ki_flags,
	};
	ssize_t ret;

	drk->begun = 0;
	drk->ended = 0;
	ret = dax_read_simple(&iocb, iter, drk_begin, drk_end);
	KUNIT_EXPECT_EQ(test, iocb.ki_pos, pos + max(ret, 0));
	KUNIT_EXPECT_EQ(test, iov_iter_count(iter), count - max(ret, 0));
	KUNIT_EXPECT_LE(test, drk->begun, 1);
	KUNIT_EXPECT_EQ(test, drk->ended, drk->begin_err ? 0 : drk->begun);
	if (drk->ended)
		KUNIT_EXPECT_EQ(test, drk->written, max(ret, 0));
	return ret;
}

/*
 * Fill @ubuf, read into its last @room bytes, before the unmapped page, and copy
 * it to @got.
 */
static ssize_t drk_read(struct kunit *test, loff_t pos, size_t count,
			size_t room)
{
	struct drk *drk = test->priv;
	struct iov_iter iter;
	ssize_t ret;

	memset(drk->got, DRK_UNTOUCHED, DRK_SIZE);
	KUNIT_ASSERT_EQ(test, 0, copy_to_user(drk->ubuf, drk->got, DRK_SIZE));
	iov_iter_ubuf(&iter, ITER_DEST, drk->ubuf + DRK_SIZE - room, count);
	ret = drk_read_iter(test, pos, &iter, 0);
	KUNIT_ASSERT_EQ(test, 0, copy_from_user(drk->got, drk->ubuf, DRK_SIZE));
	return ret;
}

static void drk_expect(struct kunit *test, const u8 *got, loff_t pos,
		       size_t count)
{
	struct drk *drk = test->priv;

	KUNIT_EXPECT_MEMEQ(test, got, drk->mem + DRK_SHIFT + pos, count);
}

/* Check that the read returns -ENOTBLK with nothing done. */
static void drk_expect_left(struct kunit *test, loff_t pos, size_t count)
{
	struct drk *drk = test->priv;

	KUNIT_EXPECT_EQ(test, -ENOTBLK, drk_read(test, pos, count, DRK_SIZE));
	KUNIT_EXPECT_NULL(test, memchr_inv(drk->got, DRK_UNTOUCHED, DRK_SIZE));
}

static void one_written_mapping(struct kunit *test)
{
	static const struct {
		loff_t pos;
		size_t count;
	} cases[] = {
		{ 0, 1 }, { 0, DRK_SIZE }, { DRK_SIZE - 1, 1 },
		{ PAGE_SIZE - 1, 2 }, { 5, 2 * PAGE_SIZE },
		{ PAGE_SIZE, PAGE_SIZE },
	};
	struct drk *drk = test->priv;

	for (int i = 0; i < ARRAY_SIZE(cases); i++) {
		KUNIT_EXPECT_EQ(test, cases[i].count,
				drk_read(test, cases[i].pos, cases[i].count,
					 DRK_SIZE));
		KUNIT_EXPECT_EQ(test, 1, drk->begun);
		KUNIT_EXPECT_EQ(test, IOMAP_DAX, drk->flags);
		drk_expect(test, drk->got, cases[i].pos, cases[i].count);
	}
}

static void one_hole(struct kunit *test)
{
	static const u16 types[] = { IOMAP_HOLE, IOMAP_UNWRITTEN };
	struct drk *drk = test->priv;

	drk->err = -EIO;	/* the device is not used */
	for (int i = 0; i < ARRAY_SIZE(types); i++) {
		drk->iomap.type = types[i];
		KUNIT_EXPECT_EQ(test, PAGE_SIZE,
				drk_read(test, 7, PAGE_SIZE, DRK_SIZE));
		KUNIT_EXPECT_NULL(test, memchr_inv(drk->got, 0, PAGE_SIZE));
		KUNIT_EXPECT_EQ(test, DRK_UNTOUCHED, drk->got[PAGE_SIZE]);
	}
}

static void mapping_ends_where_range_ends(struct kunit *test)
{
	struct drk *drk = test->priv;

	drk->iomap.offset = PAGE_SIZE;
	drk->iomap.addr += PAGE_SIZE;
	drk->iomap.length = PAGE_SIZE;
	KUNIT_EXPECT_EQ(test, PAGE_SIZE,
			drk_read(test, PAGE_SIZE, PAGE_SIZE, DRK_SIZE));
	drk_expect(test, drk->got, PAGE_SIZE, PAGE_SIZE);
}

static void mapping_too_short_is_left(struct kunit *test)
{
	struct drk *drk = test->priv;

	drk->iomap.length = PAGE_SIZE;
	drk_expect_left(test, PAGE_SIZE - 1, 2);
	drk_expect_left(test, PAGE_SIZE, 1);
	drk->iomap.offset = PAGE_SIZE;
	drk_expect_left(test, PAGE_SIZE - 1, 1);
	drk->iomap.type = IOMAP_HOLE;
	drk_expect_left(test, 2 * PAGE_SIZE - 1, 2);
}

static void read_ends_at_end_of_file(struct kunit *test)
{
	static const u16 types[] = { IOMAP_MAPPED, IOMAP_HOLE };
	struct drk *drk = test->priv;

	for (int i = 0; i < ARRAY_SIZE(types); i++) {
		drk->iomap.type = types[i];
		KUNIT_EXPECT_EQ(test, 1, drk_read(test, DRK_SIZE - 1, 2,
						  DRK_SIZE));
		KUNIT_EXPECT_EQ(test, DRK_UNTOUCHED, drk->got[1]);
		KUNIT_EXPECT_EQ(test, PAGE_SIZE + 1,
				drk_read(test, 3 * PAGE_SIZE - 1,
					 DRK_SIZE, DRK_SIZE));
	}
	KUNIT_EXPECT_EQ(test, 0, drk->got[0]);
	KUNIT_EXPECT_EQ(test, DRK_UNTOUCHED, drk->got[PAGE_SIZE + 1]);
}

static void nothing_at_end_of_file(struct kunit *test)
{
	struct drk *drk = test->priv;

	KUNIT_EXPECT_EQ(test, 0, drk_read(test, DRK_SIZE, 1, DRK_SIZE));
	KUNIT_EXPECT_EQ(test, 0, drk_read(test, LLONG_MAX - 1, 1, DRK_SIZE));
	KUNIT_EXPECT_EQ(test, 0, drk_read(test, 0, 0, DRK_SIZE));
	KUNIT_EXPECT_EQ(test, 0, drk->begun);
	KUNIT_EXPECT_NULL(test, memchr_inv(drk->got, DRK_UNTOUCHED, DRK_SIZE));
}

static void shared_and_other_types_are_left(struct kunit *test)
{
	static const u16 types[] = { IOMAP_DELALLOC, IOMAP_INLINE };
	struct drk *drk = test->priv;

	for (int i = 0; i < ARRAY_SIZE(types); i++) {
		drk->iomap.type = types[i];
		drk_expect_left(test, 0, 1);
	}
	drk->iomap.type = IOMAP_MAPPED;
	drk->iomap.flags = IOMAP_F_SHARED;
	drk_expect_left(test, 0, 1);
}

static void several_addresses_are_left(struct kunit *test)
{
	struct drk *drk = test->priv;

	drk->run = 1;
	drk_expect_left(test, PAGE_SIZE - 1, 2);
	KUNIT_EXPECT_EQ(test, PAGE_SIZE,
			drk_read(test, PAGE_SIZE, PAGE_SIZE, DRK_SIZE));
	drk_expect(test, drk->got, PAGE_SIZE, PAGE_SIZE);
}

static void errors_of_the_device_are_left(struct kunit *test)
{
	struct drk *drk = test->priv;

	drk->err = -EHWPOISON;
	drk_expect_left(test, 0, 1);
	drk->err = -ENXIO;
	drk_expect_left(test, 0, PAGE_SIZE);
}

static void errors_of_the_file_system_are_returned(struct kunit *test)
{
	struct drk *drk = test->priv;

	drk->begin_err = -EUCLEAN;
	KUNIT_EXPECT_EQ(test, -EUCLEAN, drk_read(test, 0, 1, DRK_SIZE));
	drk->begin_err = 0;
	drk->end_err = -EROFS;
	KUNIT_EXPECT_EQ(test, 1, drk_read(test, 0, 1, DRK_SIZE));
	drk->iomap.flags = IOMAP_F_SHARED;
	KUNIT_EXPECT_EQ(test, -EROFS, drk_read(test, 0, 1, DRK_SIZE));
}

/* The architecture decides how many bytes a short copy copies. */
static void short_copy_returns_its_count(struct kunit *test)
{
	struct drk *drk = test->priv;
	ssize_t ret;

	ret = drk_read(test, 3, 600, 300);
	KUNIT_ASSERT_GT(test, ret, 0);
	KUNIT_ASSERT_LE(test, ret, 300);
	drk_expect(test, drk->got + DRK_SIZE - 300, 3, ret);
	KUNIT_EXPECT_EQ(test, -EFAULT, drk_read(test, 3, 600, 0));

	drk->iomap.type = IOMAP_HOLE;
	ret = drk_read(test, 3, 600, 300);
	KUNIT_EXPECT_GT(test, ret, 0);
	KUNIT_EXPECT_LE(test, ret, 300);
	KUNIT_EXPECT_EQ(test, -EFAULT, drk_read(test, 3, 600, 0));
}

static void nowait_reaches_the_file_system(struct kunit *test)
{
	struct drk *drk = test->priv;
	struct iov_iter iter;

	iov_iter_ubuf(&iter, ITER_DEST, drk->ubuf, 8);
	KUNIT_EXPECT_EQ(test, 8, drk_read_iter(test, 0, &iter, IOCB_NOWAIT));
	KUNIT_EXPECT_EQ(test, IOMAP_DAX | IOMAP_NOWAIT, drk->flags);
}

static void other_iterators(struct kunit *test)
{
	struct drk *drk = test->priv;
	const struct iovec iov[] = {
		{ drk->ubuf, 10 }, { NULL, 0 }, { drk->ubuf + 100, 20 },
	};
	struct kvec kvec = { drk->got, PAGE_SIZE };
	struct bio_vec bvec;
	struct page *page;
	struct iov_iter iter;

	iov_iter_init(&iter, ITER_DEST, iov, ARRAY_SIZE(iov), 30);
	KUNIT_EXPECT_EQ(test, 30, drk_read_iter(test, 9, &iter, 0));
	KUNIT_ASSERT_EQ(test, 0, copy_from_user(drk->got, drk->ubuf, 120));
	drk_expect(test, drk->got, 9, 10);
	drk_expect(test, drk->got + 100, 19, 20);

	iov_iter_kvec(&iter, ITER_DEST, &kvec, 1, PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, PAGE_SIZE, drk_read_iter(test, 1, &iter, 0));
	drk_expect(test, drk->got, 1, PAGE_SIZE);

	page = alloc_page(GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, page);
	bvec_set_page(&bvec, page, 64, 8);
	iov_iter_bvec(&iter, ITER_DEST, &bvec, 1, 64);
	KUNIT_EXPECT_EQ(test, 64, drk_read_iter(test, 2, &iter, 0));
	drk_expect(test, (u8 *)page_address(page) + 8, 2, 64);
	__free_page(page);
}

/* As for any bool, a parameter without a value is switched on. */
static void parameter_without_value(struct kunit *test)
{
	static DEFINE_STATIC_KEY_FALSE(key);
	const struct kernel_param kp = { .arg = &key.key };

	KUNIT_EXPECT_TRUE(test,
			  dax_read_param_ops.flags & KERNEL_PARAM_OPS_FL_NOARG);
	KUNIT_EXPECT_EQ(test, 0, dax_read_param_ops.set(NULL, &kp));
	KUNIT_EXPECT_TRUE(test, static_key_enabled(&key.key));
	KUNIT_EXPECT_EQ(test, -EINVAL, dax_read_param_ops.set("x", &kp));
	KUNIT_EXPECT_TRUE(test, static_key_enabled(&key.key));
	KUNIT_EXPECT_EQ(test, 0, dax_read_param_ops.set("0", &kp));
	KUNIT_EXPECT_FALSE(test, static_key_enabled(&key.key));
}

static struct kunit_case drk_cases[] = {
	KUNIT_CASE(one_written_mapping),
	KUNIT_CASE(one_hole),
	KUNIT_CASE(mapping_ends_where_range_ends),
	KUNIT_CASE(mapping_too_short_is_left),
	KUNIT_CASE(read_ends_at_end_of_file),
	KUNIT_CASE(nothing_at_end_of_file),
	KUNIT_CASE(shared_and_other_types_are_left),
	KUNIT_CASE(several_addresses_are_left),
	KUNIT_CASE(errors_of_the_device_are_left),
	KUNIT_CASE(errors_of_the_file_system_are_returned),
	KUNIT_CASE(short_copy_returns_its_count),
	KUNIT_CASE(nowait_reaches_the_file_system),
	KUNIT_CASE(other_iterators),
	KUNIT_CASE(parameter_without_value),
	{}
};

static struct kunit_suite drk_suite = {
	.name = "dax_read_simple",
	.init = drk_init,
	.test_cases = drk_cases,
};

kunit_test_suite(drk_suite);

MODULE_DESCRIPTION("KUnit tests of DAX reads");
MODULE_LICENSE("GPL");
