/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reading DAX files. fs/dax-read.c describes the design and the lock order.
 *
 * The code for a read into one piece of user memory is inline. So it calls
 * ->iomap_begin directly, and needs no struct iomap in memory if a quick lookup
 * is inline too.
 */
#ifndef _LINUX_DAX_READ_H
#define _LINUX_DAX_READ_H

#include <linux/dax.h>
#include <linux/fs.h>
#include <linux/iomap.h>
#include <linux/jump_label.h>
#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/pfn.h>
#include <linux/sched/signal.h>
#include <linux/uio.h>

#ifdef CONFIG_FS_DAX
DECLARE_STATIC_KEY_TRUE(dax_read_simple_key);
extern const struct kernel_param_ops dax_read_param_ops;

ssize_t dax_read_unwritten(u16 type, char __user *buf, size_t len);
ssize_t dax_read_copy_rest(struct dax_device *dax_dev, u64 addr,
			   char __user *buf, size_t len, size_t done);
ssize_t dax_read_user_rest(struct inode *inode, loff_t pos, char __user *buf,
			   size_t count, unsigned int flags,
			   iomap_iter_begin_fn begin, size_t done);
ssize_t dax_read_segments(struct kiocb *iocb, struct iov_iter *to,
			  unsigned int flags, iomap_iter_begin_fn begin);

/* If this is off, all reads are left to dax_iomap_rw(). */
static __always_inline bool dax_read_simple_enabled(void)
{
	return static_branch_likely(&dax_read_simple_key);
}

/*
 * Find the @len bytes at byte @addr of the device, or as many of them as the
 * device maps in one piece.
 *
 * Returns the number of bytes at @kaddr, -EIO for a bad block, -EINTR for a
 * fatal signal, or an errno of dax_direct_access().
 */
static __always_inline ssize_t dax_read_address(struct dax_device *dax_dev,
						u64 addr, size_t len,
						void **kaddr)
{
	unsigned int offset = offset_in_page(addr);
	long nr;

	if (fatal_signal_pending(current))
		return -EINTR;

	nr = dax_direct_access(dax_dev, PHYS_PFN(addr), PFN_UP(offset + len),
			       DAX_ACCESS, kaddr, NULL);
	if (unlikely(nr < 0))
		return dax_mem2blk_err(nr);

	*kaddr += offset;
	return min(len, (size_t)PFN_PHYS(nr) - offset);
}

/*
 * Copy as many of the @len bytes at byte @addr as the device maps in one piece.
 *
 * Returns the bytes copied. If no byte was copied: -EFAULT, or an errno of
 * dax_read_address().
 */
static __always_inline ssize_t dax_read_copy_piece(struct dax_device *dax_dev,
						   u64 addr, char __user *buf,
						   size_t len)
{
	ssize_t ret;
	void *kaddr;

	ret = dax_read_address(dax_dev, addr, len, &kaddr);
	if (unlikely(ret < 0))
		return ret;
	return dax_copy_to_user(dax_dev, buf, kaddr, ret) ?: -EFAULT;
}

static __always_inline ssize_t dax_read_copy(struct dax_device *dax_dev,
					     u64 addr, char __user *buf,
					     size_t len)
{
	struct srcu_ctr __percpu *scp;
	ssize_t ret;

	scp = dax_read_lock();
	ret = dax_read_copy_piece(dax_dev, addr, buf, len);
	if (unlikely((size_t)ret < len)) /* never 0; an errno is large */
		ret = dax_read_copy_rest(dax_dev, addr, buf, len, ret);
	dax_read_unlock(scp);

	return ret;
}

/*
 * Returns how many of the @count bytes at @pos are in @iomap: 0 if it does not
 * contain @pos.
 */
static __always_inline size_t dax_read_length(const struct iomap *iomap,
					      loff_t pos, size_t count)
{
	u64 skip = pos - iomap->offset;

	if (WARN_ON_ONCE(skip >= iomap->length))
		return 0;
	return min_t(u64, count, iomap->length - skip);
}

/*
 * Map @pos, and read the part of the @count bytes there that the mapping
 * covers.
 */
static __always_inline ssize_t
dax_read_mapping(struct inode *inode, loff_t pos, char __user *buf,
		 size_t count, unsigned int flags, iomap_iter_begin_fn begin)
{
	/* Some ->iomap_begin use the iterator that contains the iomap. */
	struct iomap_iter iter = {
		.inode	= inode,
		.pos	= pos,
		.len	= count,
		.flags	= flags,
	};
	const struct iomap *iomap = &iter.iomap;
	int ret;

	ret = begin(inode, pos, count, flags, &iter.iomap, &iter.srcmap);
	if (unlikely(ret < 0))
		return ret;

	/*
	 * Check the type first, so that the compiler can drop the check for an
	 * inline lookup that finds only written blocks.
	 */
	if (unlikely(iomap->type != IOMAP_MAPPED))
		return dax_read_unwritten(iomap->type, buf,
					  dax_read_length(iomap, pos, count));

	count = dax_read_length(iomap, pos, count);
	if (unlikely(!count))
		return -EIO;
	return dax_read_copy(iomap->dax_dev,
			     iomap->addr + (pos - iomap->offset), buf, count);
}

/**
 * dax_read_user - read a DAX file into user memory
 * @inode: the file, IS_DAX()
 * @pos: first byte to read, not negative
 * @buf: user memory, inside the address space as for access_ok()
 * @count: bytes, from 1 to MAX_RW_COUNT
 * @flags: for @begin: IOMAP_DAX, and IOMAP_NOWAIT if it must not wait
 * @begin: maps a range of the file, as ->iomap_begin does for dax_iomap_rw(). A
 *	constant, so that the call is direct or inline. It must release
 *	everything that it takes, because there is no ->iomap_end.
 *
 * Bytes past i_size are not read. Holes and unwritten extents read as zeroes.
 *
 * Context: process context, i_rwsem held shared (or exclusively), unless the
 * file system is read-only. May sleep, may fault in user memory.
 * Return: bytes read, fewer than @count at the end of the file, before an error
 * or on a fatal signal; 0 at or past the end. If nothing was read: -EFAULT for
 * a bad buffer, -EIO for a bad block, -EINTR, or an errno of @begin or of
 * dax_direct_access().
 */
static __always_inline ssize_t
dax_read_user(struct inode *inode, loff_t pos, char __user *buf, size_t count,
	      unsigned int flags, iomap_iter_begin_fn begin)
{
	loff_t size = i_size_read(inode);
	ssize_t ret;

	lockdep_assert(sb_rdonly(inode->i_sb) ||
		       lockdep_is_held(&inode->i_rwsem));

	if (unlikely(pos >= size))
		return 0;
	count = min_t(u64, count, size - pos);

	/* Most reads lie in one mapping, so keep the loop out of line. */
	ret = dax_read_mapping(inode, pos, buf, count, flags, begin);
	if (unlikely((size_t)ret < count))
		ret = dax_read_user_rest(inode, pos, buf, count, flags, begin,
					 ret);
	return ret;
}

/**
 * dax_read_iter - the short way for a read
 * @iocb: the read; ki_pos advances by the bytes read
 * @to: destination, not empty; advances by the bytes read
 * @begin: as for dax_read_user()
 *
 * For a file system that wraps this in its own function, and calls that if
 * dax_read_simple_enabled(). Other file systems use dax_read_simple().
 *
 * Context: as for dax_read_user(). The caller checks IS_DAX(), under i_rwsem
 * unless S_DAX lasts as long as the inode.
 * Return: as dax_read_user().
 */
static __always_inline ssize_t dax_read_iter(struct kiocb *iocb,
					     struct iov_iter *to,
					     iomap_iter_begin_fn begin)
{
	unsigned int flags = IOMAP_DAX;
	ssize_t ret;

	if (iocb->ki_flags & IOCB_NOWAIT)
		flags |= IOMAP_NOWAIT;
	if (unlikely(!iter_is_ubuf(to)))
		return dax_read_segments(iocb, to, flags, begin);

	ret = dax_read_user(file_inode(iocb->ki_filp), iocb->ki_pos,
			    to->ubuf + to->iov_offset, iov_iter_count(to),
			    flags, begin);
	if (ret > 0) {
		iocb->ki_pos += ret;
		iov_iter_advance(to, ret);
	}
	return ret;
}

/**
 * dax_read_simple - the short way for a read, if it is enabled
 * @iocb: as for dax_read_iter()
 * @to: as for dax_read_iter()
 * @begin: as for dax_read_user()
 *
 * Call this before dax_iomap_rw(), with the ->iomap_begin of the same
 * iomap_ops. These must not have an ->iomap_end.
 *
 * Context: as for dax_read_iter().
 * Return: as dax_read_user(), or -ENOTBLK, with nothing done, if the caller
 * must use dax_iomap_rw().
 */
static __always_inline ssize_t dax_read_simple(struct kiocb *iocb,
					       struct iov_iter *to,
					       iomap_iter_begin_fn begin)
{
	return dax_read_simple_enabled() ? dax_read_iter(iocb, to, begin) :
					   -ENOTBLK;
}
#else
static inline bool dax_read_simple_enabled(void)
{
	return false;
}

static inline ssize_t dax_read_simple(struct kiocb *iocb, struct iov_iter *to,
				      iomap_iter_begin_fn begin)
{
	return -ENOTBLK;
}
#endif /* CONFIG_FS_DAX */

#endif /* _LINUX_DAX_READ_H */
