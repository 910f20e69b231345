// SPDX-License-Identifier: GPL-2.0
/*
 * Overwriting written blocks of ext4 DAX files the short way.
 *
 * A write(2) that neither allocates blocks nor changes i_size is a copy into
 * mapped memory. So this is dax_iomap_rw() without iomap's iteration, for a
 * range that lies in one written extent. The lookup is that of dax-read.c, and
 * finds the same mapping as ext4_iomap_begin(). All other writes are left to
 * dax_iomap_rw(), with nothing done.
 *
 * ext4_dax_write_iter() does the rest of a write as before. It holds i_rwsem
 * exclusively. ext4_write_checks() has stripped privileges and updated the time
 * stamps. generic_write_sync() syncs for O_SYNC and O_DSYNC. An overwrite makes
 * neither metadata nor a page dirty: if the device asks for it,
 * dax_copy_from_iter() flushes the stored data from the CPU caches. Pages that
 * stores into mappings have made dirty keep their entries and marks in the
 * mapping tree, so mappings with MAP_SYNC are not affected.
 *
 * A mapping must not go on reading zero pages over written blocks. Even if the
 * blocks were written some time ago, there may be zero pages: ext4 writes
 * zeroes to unwritten blocks beside those that it converts. So an overwrite
 * drops zero pages too, if the tree has entries at all. It checks this after
 * the lookup. A fault that maps the zero page adds its entry to the tree before
 * it looks the block up. So the entry was there before the block could be found
 * as written.
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

/*
 * Returns the byte of the device, or -ENOTBLK if the range is not one written
 * extent.
 */
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

/*
 * A copy that stops short is a short write. If no byte can be copied, leave the
 * write to dax_iomap_rw().
 */
static ssize_t ext4_dax_copy_in(struct dax_device *dax_dev, u64 addr,
				struct iov_iter *from)
{
	size_t count = iov_iter_count(from);
	struct srcu_ctr __percpu *scp;
	ssize_t ret;
	void *kaddr;

	scp = dax_read_lock();
	/*
	 * dax_iomap_rw() handles bad blocks and ranges that are not in one
	 * piece.
	 */
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
 * @iocb: the write; ki_pos advances by the bytes written
 * @from: source of any kind, not empty; advances by the bytes written
 *
 * Context: process context, i_rwsem held exclusively, the checks of a write
 * done, IS_DAX(). The range ends within i_disksize. May sleep, may fault in
 * user memory.
 * Return: bytes written, -EAGAIN if the write must not sleep but would, or
 * -ENOTBLK, with nothing done, if the caller must use dax_iomap_rw().
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
