// SPDX-License-Identifier: GPL-2.0
/*
 * Overwriting written blocks of ext4 DAX files the short way.
 *
 * A write(2) that neither allocates blocks nor changes i_size is a copy into
 * mapped memory. So this is dax_iomap_rw() without iomap's iteration, for a
 * range that lies in one written extent. The lookup is that of dax-read.c, and
 * finds the same mapping as ext4_iomap_begin(). All other writes are left to
 * dax_iomap_rw(), before data is copied.
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
#include "ext4.h"
#include "dax-read.h"

/*
 * A copy that stops short is a short write. If no byte can be copied, leave the
 * write to dax_iomap_rw().
 */
static ssize_t ext4_dax_copy_in(struct dax_device *dax_dev, u64 addr,
				struct iov_iter *from)
{
	size_t count = iov_iter_count(from);
	struct srcu_ctr __percpu *scp;
	size_t done = 0;
	void *kaddr;

	scp = dax_read_lock();
	/*
	 * dax_iomap_rw() handles bad blocks and ranges that are not in one
	 * piece.
	 */
	kaddr = dax_read_address(dax_dev, addr, count);
	if (likely(kaddr))
		done = dax_copy_from_iter(dax_dev, PHYS_PFN(addr), kaddr, count,
					  from);
	dax_read_unlock(scp);
	return done ? done : -ENOTBLK;
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
 * -ENOTBLK, with no data copied, if the caller must use dax_iomap_rw().
 */
ssize_t ext4_dax_overwrite(struct kiocb *iocb, struct iov_iter *from)
{
	struct inode *inode = file_inode(iocb->ki_filp);
	size_t count = iov_iter_count(from);
	loff_t pos = iocb->ki_pos;
	ssize_t ret;
	s64 addr;

	if (!dax_read_fast_enabled())
		return -ENOTBLK;
	lockdep_assert_held_write(&inode->i_rwsem);
	if (unlikely((iocb->ki_flags & IOCB_ATOMIC) ||
		     pos + count > i_size_read(inode)))
		return -ENOTBLK;
	addr = ext4_dax_written_addr(inode, pos, count, true);
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
