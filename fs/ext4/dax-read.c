// SPDX-License-Identifier: GPL-2.0
/*
 * Reading ext4 DAX files straight into user memory.
 *
 * A read(2) of a DAX file copies from mapped persistent memory: no I/O is
 * started and nothing is waited for, so what the kernel does around the copy
 * is the cost of a small read. Describing the buffer to iov_iter and the file
 * to iomap is most of that (see "Expense of read_iter", 2021-01, linux-fsdevel
 * and linux-ext4). Here one user buffer is filled with four steps a mapping:
 * look it up, check it, ask the DAX device for its address, copy.
 *
 * What is given up is generality, not semantics: every result, short count and
 * errno is that of dax_iomap_rw() with ext4_iomap_ops, and whatever is not the
 * plain case is left to it.
 *
 * Locks, outermost first:
 *   i_rwsem, shared	taken by the caller: the mapping of written blocks, i_size
 *			and S_DAX stand still (see ext4_dax_lookup_cached())
 *   dax_read_lock()	from the address to the end of the copy: the device is
 *			not torn down under it. Addresses are never kept beyond.
 *   mmap_lock		by page faults on the user buffer. The buffer may be a
 *			mapping of the very file that is read, so invalidate_lock
 *			must not be held here.
 */

#include <linux/dax.h>
#include <linux/fs.h>
#include <linux/moduleparam.h>
#include <linux/pfn.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include "ext4.h"
#include "dax-read.h"

DEFINE_STATIC_KEY_TRUE(ext4_dax_fast_read);

static int ext4_dax_fast_read_set(const char *val,
				  const struct kernel_param *kp)
{
	bool on;
	int ret = kstrtobool(val, &on);

	if (ret)
		return ret;
	if (on)
		static_branch_enable(&ext4_dax_fast_read);
	else
		static_branch_disable(&ext4_dax_fast_read);
	return 0;
}

static int ext4_dax_fast_read_get(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%c\n",
			  static_key_enabled(&ext4_dax_fast_read) ? 'Y' : 'N');
}

static const struct kernel_param_ops ext4_dax_fast_read_ops = {
	.set = ext4_dax_fast_read_set,
	.get = ext4_dax_fast_read_get,
};

module_param_cb(dax_fast_read, &ext4_dax_fast_read_ops, NULL, 0644);
MODULE_PARM_DESC(dax_fast_read,
		 "Read DAX files without iov_iter and iomap (default: on)");

/*
 * Copy what the device maps in one piece of the @len bytes at its byte @addr.
 *
 * Returns the bytes copied, or when there are none: -EIO for a bad block,
 * -EFAULT, -EINTR for a fatal signal, or dax_direct_access()'s errno.
 */
static __always_inline ssize_t ext4_dax_copy_piece(struct dax_device *dax_dev,
						   u64 addr, char __user *buf,
						   size_t len)
{
	unsigned int offset = offset_in_page(addr);
	size_t copied;
	void *kaddr;
	long nr;

	if (fatal_signal_pending(current))
		return -EINTR;

	nr = dax_direct_access(dax_dev, PHYS_PFN(addr), PFN_UP(offset + len),
			       DAX_ACCESS, &kaddr, NULL);
	if (unlikely(nr < 0))
		return dax_mem2blk_err(nr);

	copied = dax_copy_to_user(dax_dev, buf, kaddr + offset,
				  min(len, (size_t)PFN_PHYS(nr) - offset));
	return likely(copied) ? copied : -EFAULT;
}

/*
 * The rest of a copy that stopped short after @done bytes: dm-linear and
 * dm-stripe end where a target does, and a copy that faults is tried again from
 * where it stopped and only one that gets nowhere is the end. That is how
 * dax_iomap_rw() finds the last byte that can be had.
 */
static noinline ssize_t ext4_dax_copy_rest(struct dax_device *dax_dev, u64 addr,
					   char __user *buf, size_t len,
					   size_t done)
{
	do {
		ssize_t ret = ext4_dax_copy_piece(dax_dev, addr + done,
						  buf + done, len - done);

		if (ret <= 0)
			break;
		done += ret;
	} while (done < len);

	return done;
}

static __always_inline ssize_t ext4_dax_copy(struct dax_device *dax_dev,
					     u64 addr, char __user *buf,
					     size_t len)
{
	ssize_t ret;
	int id;

	id = dax_read_lock();
	ret = ext4_dax_copy_piece(dax_dev, addr, buf, len);
	if (unlikely((size_t)ret < len)) /* never 0, and an errno is large */
		ret = ext4_dax_copy_rest(dax_dev, addr, buf, len, ret);
	dax_read_unlock(id);

	return ret;
}

static noinline ssize_t ext4_dax_zero(char __user *buf, size_t len)
{
	size_t done = len - clear_user(buf, len);

	return done ? done : -EFAULT;
}

/* Read what @map holds of the @count bytes at @pos, its first block. */
static __always_inline ssize_t
ext4_dax_read_mapped(struct inode *inode, loff_t pos, char __user *buf,
		     size_t count, const struct ext4_map_blocks *map)
{
	struct ext4_sb_info *sbi = EXT4_SB(inode->i_sb);
	u8 blkbits = inode->i_blkbits;
	unsigned int offset = pos & ((1U << blkbits) - 1);

	count = min_t(u64, count, ((u64)map->m_len << blkbits) - offset);

	if (likely(map->m_flags & EXT4_MAP_MAPPED))
		return ext4_dax_copy(sbi->s_daxdev,
				     ((u64)map->m_pblk << blkbits) + offset +
				     sbi->s_dax_part_off, buf, count);

	/* DAX allocates when it writes: nothing can be waiting for blocks. */
	if (WARN_ON_ONCE(map->m_flags & EXT4_MAP_DELAYED))
		return -EIO;

	return ext4_dax_zero(buf, count);
}

/* With a mapping of its own, so that the common case keeps one in registers. */
static noinline ssize_t ext4_dax_read_lookup(struct inode *inode, loff_t pos,
					     char __user *buf, size_t count,
					     ext4_lblk_t lblk, unsigned int len)
{
	struct ext4_map_blocks map = { .m_lblk = lblk, .m_len = len };

	if (!ext4_dax_lookup_cached(inode, &map)) {
		int ret = ext4_map_blocks(NULL, inode, &map, 0);

		if (ret < 0)
			return ret;
	}
	return ext4_dax_read_mapped(inode, pos, buf, count, &map);
}

static __always_inline ssize_t ext4_dax_read_mapping(struct inode *inode,
						     loff_t pos,
						     char __user *buf,
						     size_t count)
{
	struct ext4_map_blocks map;
	int ret;

	ret = ext4_dax_pos_to_map(inode, pos, count, &map);
	if (unlikely(ret))
		return ret;
	if (!ext4_dax_recall(inode, &map))
		return ext4_dax_read_lookup(inode, pos, buf, count,
					    map.m_lblk, map.m_len);
	return ext4_dax_read_mapped(inode, pos, buf, count, &map);
}

/* The rest of a read of several mappings, of which @done bytes were read. */
static noinline ssize_t ext4_dax_read_rest(struct inode *inode, loff_t pos,
					   char __user *buf, size_t count,
					   size_t done)
{
	do {
		ssize_t ret = ext4_dax_read_mapping(inode, pos + done,
						    buf + done, count - done);

		if (ret <= 0)
			break;
		done += ret;
	} while (done < count);

	return done;
}

/**
 * ext4_dax_read_user - read a DAX file into user memory
 * @inode: the file, IS_DAX()
 * @pos: first byte to read, not negative
 * @buf: user memory, inside the address space as access_ok() has it
 * @count: bytes, from 1 to MAX_RW_COUNT
 *
 * What lies past i_size is not read. A hole and an unwritten extent read as
 * zeroes.
 *
 * Context: process context, i_rwsem held shared (or exclusively). May sleep,
 * may fault in user memory.
 * Return: bytes read, fewer than @count at the end of the file, before an
 * error or on a fatal signal; 0 at or past the end. When nothing was read:
 * -EFAULT for a bad buffer, -EIO for a bad block, -EFSCORRUPTED for blocks that
 * are not the file's to have, -EINTR, or an errno of ext4_map_blocks() or
 * dax_direct_access().
 */
ssize_t ext4_dax_read_user(struct inode *inode, loff_t pos, char __user *buf,
			   size_t count)
{
	loff_t size = i_size_read(inode);
	ssize_t ret;

	lockdep_assert_held(&inode->i_rwsem);

	if (unlikely(pos >= size))
		return 0;
	count = min_t(u64, count, size - pos);

	/* Most reads lie in one mapping: keep what they run free of loops. */
	ret = ext4_dax_read_mapping(inode, pos, buf, count);
	if (unlikely((size_t)ret < count))
		ret = ext4_dax_read_rest(inode, pos, buf, count, ret);
	return ret;
}

#if IS_ENABLED(CONFIG_EXT4_KUNIT_TESTS)
EXPORT_SYMBOL_FOR_EXT4_TEST(ext4_dax_read_user);
#endif
