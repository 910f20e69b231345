// SPDX-License-Identifier: GPL-2.0
/*
 * Overwriting written blocks of ext4 DAX files the short way.
 *
 * A write(2) that neither allocates nor changes i_size is a copy into mapped
 * memory, as a read is one out of it. So this is dax_iomap_rw() without iomap's
 * iteration, for a range that lies in one written extent: the lookup is that of
 * dax-read.c, and what is found is the mapping that ext4_iomap_begin() would give.
 * Anything else is left to dax_iomap_rw(), with nothing done.
 *
 * What goes around the write is not here, and is as it was: ext4_dax_write_iter()
 * holds i_rwsem exclusively, has had ext4_write_checks() strip privileges and
 * update the time stamps, and syncs where O_SYNC and O_DSYNC want it, by
 * generic_write_sync(). An overwrite makes no metadata dirty, and no page: what
 * write(2) stores is flushed from the processor's caches by the copy itself,
 * dax_copy_from_iter(), where the device asks for it. Pages that were made dirty
 * by stores into mappings keep their entries and marks in the mapping tree, and
 * so a mapping with MAP_SYNC finds nothing different.
 *
 * What a write owes to mappings is that none goes on reading zero pages where
 * there are written blocks. The blocks may have been written for a while, and
 * there can be zero pages all the same: ext4 writes zeroes to unwritten blocks
 * beside those that it converts. So they are dropped here as well, where the tree
 * has entries at all. That is asked after the lookup: a fault that maps the zero
 * page has put its entry into the tree before it looked the block up, so it was
 * there before the block became one that is found as written.
 */

#include <linux/dax-read.h>
#include <linux/moduleparam.h>
#include "ext4.h"
#include "dax-read.h"

static DEFINE_STATIC_KEY_TRUE(ext4_dax_fast_overwrite);

module_param_cb(dax_fast_overwrite, &dax_read_param_ops,
		&ext4_dax_fast_overwrite.key, 0644);
MODULE_PARM_DESC(dax_fast_overwrite,
		 "Overwrite blocks of DAX files without iomap (default: on)");

/* The byte of the device, or -ENOTBLK if the range is not one written extent. */
static s64 ext4_dax_written_addr(struct inode *inode, loff_t pos, size_t count)
{
	struct ext4_map_blocks map = {};
	u8 blkbits = inode->i_blkbits;
	unsigned int nr;

	if (ext4_dax_pos_to_map(inode, pos, count, &map))
		return -ENOTBLK;
	nr = map.m_len;
	if (!ext4_dax_recall(inode, &map) &&
	    (ext4_has_inline_data(inode) ||
	     !ext4_dax_lookup_cached(inode, &map)))
		return -ENOTBLK;
	if (map.m_flags != EXT4_MAP_MAPPED || map.m_len < nr)
		return -ENOTBLK;
	return ((u64)map.m_pblk << blkbits) +
		(pos & ((1U << blkbits) - 1)) +
		EXT4_SB(inode->i_sb)->s_dax_part_off;
}

/* A copy that stops short is a short write, one that cannot begin none. */
static ssize_t ext4_dax_copy_in(struct dax_device *dax_dev, u64 addr,
				struct iov_iter *from)
{
	size_t count = iov_iter_count(from);
	struct srcu_ctr __percpu *scp;
	ssize_t ret;
	void *kaddr;

	scp = dax_read_lock();
	/* Bad blocks and what is not in one piece are dax_iomap_rw()'s. */
	ret = dax_read_address(dax_dev, addr, count, &kaddr);
	if (likely(ret == count))
		ret = dax_copy_from_iter(dax_dev, PHYS_PFN(addr), kaddr, count,
					 from);
	else
		ret = 0;
	dax_read_unlock(scp);
	return ret ?: -ENOTBLK;
}

/**
 * ext4_dax_overwrite - write to written blocks of a DAX file
 * @iocb: the write; ki_pos is advanced by what was written
 * @from: what to write, of any kind, not empty; advanced by what was written
 *
 * Context: process context, i_rwsem held exclusively, the checks of a write made,
 * IS_DAX(). The range ends within i_disksize. May sleep, may fault in user memory.
 * Return: bytes written, -EAGAIN if the write must not sleep and would, or -ENOTBLK
 * with nothing done when dax_iomap_rw() is to do it.
 */
ssize_t ext4_dax_overwrite(struct kiocb *iocb, struct iov_iter *from)
{
	struct inode *inode = file_inode(iocb->ki_filp);
	size_t count = iov_iter_count(from);
	loff_t pos = iocb->ki_pos;
	ssize_t ret;
	s64 addr;

	if (!static_branch_likely(&ext4_dax_fast_overwrite))
		return -ENOTBLK;
	lockdep_assert_held_write(&inode->i_rwsem);
	if (unlikely((iocb->ki_flags & IOCB_ATOMIC) ||
		     pos + count > i_size_read(inode)))
		return -ENOTBLK;
	addr = ext4_dax_written_addr(inode, pos, count);
	if (unlikely(addr < 0))
		return -ENOTBLK;
	ret = dax_drop_zero_pages(inode->i_mapping, pos >> PAGE_SHIFT,
				  (pos + count - 1) >> PAGE_SHIFT,
				  iocb->ki_flags & IOCB_NOWAIT);
	if (unlikely(ret))
		return ret;

	ret = ext4_dax_copy_in(EXT4_SB(inode->i_sb)->s_daxdev, addr, from);
	if (ret > 0)
		iocb->ki_pos += ret;
	return ret;
}
