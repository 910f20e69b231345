/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reading DAX files in one copy.
 *
 * Most reads of a DAX file lie in one mapping and in one piece of the device.
 * They need one lookup, one address and one copy. The code is inline, so that
 * the lookup of a file system can be inline too.
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

extern const struct kernel_param_ops dax_read_param_ops;

#ifdef CONFIG_FS_DAX
DECLARE_STATIC_KEY_TRUE(dax_read_fast_key);

/* If this is off, file systems use their ->iomap_begin. */
static __always_inline bool dax_read_fast_enabled(void)
{
	return static_branch_likely(&dax_read_fast_key);
}
#else
static inline bool dax_read_fast_enabled(void)
{
	return false;
}
#endif /* CONFIG_FS_DAX */

ssize_t dax_read_zeroes(u16 type, size_t len, char __user *buf,
			struct iov_iter *to);

/*
 * Returns the kernel address of the @len bytes at byte @addr of the device, or
 * NULL if the device does not map all of them in one piece, or if the task is
 * being killed. The caller holds dax_read_lock().
 */
static __always_inline void *dax_read_address(struct dax_device *dax_dev,
					      u64 addr, size_t len)
{
	unsigned int offset = offset_in_page(addr);
	long nr = PFN_UP(offset + len);
	void *kaddr;

	if (unlikely(fatal_signal_pending(current)))
		return NULL;
	if (unlikely(dax_direct_access(dax_dev, PHYS_PFN(addr), nr, DAX_ACCESS,
				       &kaddr, NULL) < nr))
		return NULL;
	return kaddr + offset;
}

/* iov_iter_advance() of one buffer, inline */
static __always_inline void dax_read_advance(struct iov_iter *to, size_t done)
{
	to->iov_offset += done;
	to->count -= done;
}

/* Copy to @to, or to @buf if @to is NULL. Returns the bytes copied. */
static __always_inline size_t dax_read_to(struct dax_device *dax_dev,
					  pgoff_t pgoff, void *kaddr,
					  size_t len, char __user *buf,
					  struct iov_iter *to)
{
	size_t done;

	if (!to)
		return dax_copy_to_user(dax_dev, buf, kaddr, len);
	if (unlikely(!iter_is_ubuf(to)))
		return dax_copy_to_iter(dax_dev, pgoff, kaddr, len, to);

	done = dax_copy_to_user(dax_dev, to->ubuf + to->iov_offset, kaddr, len);
	dax_read_advance(to, done);
	return done;
}

/* Copy @len bytes at byte @addr of the device. */
static __always_inline ssize_t dax_read_copy(struct dax_device *dax_dev,
					     u64 addr, size_t len,
					     char __user *buf,
					     struct iov_iter *to)
{
	struct srcu_ctr __percpu *scp;
	ssize_t ret = -ENOTBLK;
	void *kaddr;

	scp = dax_read_lock();
	/* After an error, dax_iomap_rw() may still read the pages before it. */
	kaddr = dax_read_address(dax_dev, addr, len);
	if (likely(kaddr))
		ret = dax_read_to(dax_dev, PHYS_PFN(addr), kaddr, len, buf,
				  to) ?: -EFAULT;
	dax_read_unlock(scp);
	return ret;
}

/**
 * dax_read_range - read a range of a DAX file in one copy
 * @inode: the file
 * @pos: first byte, not negative
 * @len: bytes; those past i_size are not read
 * @flags: for @begin: IOMAP_DAX, and IOMAP_NOWAIT if it must not wait
 * @begin: ->iomap_begin of the file system, a constant
 * @end: ->iomap_end, a constant; NULL if it has nothing to do for reads
 * @buf: destination in user memory
 * @to: destination, or NULL if it is @buf; advances by the bytes read
 *
 * dax_read_simple() describes the ranges that this function reads.
 *
 * Context: as for dax_read_simple().
 * Return: as dax_read_simple().
 */
static __always_inline ssize_t
dax_read_range(struct inode *inode, loff_t pos, size_t len, unsigned int flags,
	       iomap_iter_begin_fn begin, iomap_iter_end_fn end,
	       char __user *buf, struct iov_iter *to)
{
	/* Some ->iomap_begin use the iterator that contains the iomap. */
	struct iomap_iter iomi __uninitialized;
	const struct iomap *iomap = &iomi.iomap;
	loff_t size = i_size_read(inode);
	ssize_t ret;
	u64 skip;
	int err;

	if (!sb_rdonly(inode->i_sb))
		lockdep_assert_held(&inode->i_rwsem);

	if (unlikely(pos >= size))
		return 0;
	len = min_t(u64, len, size - pos);
	if (unlikely(!len))
		return 0;

	/* Clear what ->iomap_begin may look at. A read needs no srcmap. */
	iomi.inode = inode;
	iomi.pos = pos;
	iomi.len = len;
	iomi.flags = flags;
	iomi.iomap = (struct iomap) { };
	iomi.srcmap.type = IOMAP_HOLE;
	iomi.private = NULL;
	ret = begin(inode, pos, len, flags, &iomi.iomap, &iomi.srcmap);
	if (unlikely(ret < 0))
		return ret;

	skip = pos - iomap->offset;
	if (unlikely(skip > iomap->length || iomap->length - skip < len ||
		     (iomap->flags & IOMAP_F_SHARED)))
		ret = -ENOTBLK;
	else if (end && unlikely(i_size_read(inode) < pos + len))
		/* FUSE may shrink the file while @begin waits. */
		ret = -ENOTBLK;
	else if (likely(iomap->type == IOMAP_MAPPED))
		ret = dax_read_copy(iomap->dax_dev, iomap->addr + skip, len,
				    buf, to);
	else
		ret = dax_read_zeroes(iomap->type, len, buf, to);

	if (end) {
		err = end(inode, pos, len, max(ret, 0), flags, &iomi.iomap);
		if (err < 0 && ret < 0)
			return err;
	}
	return ret;
}

/**
 * dax_read_simple - read a DAX file in one copy
 * @iocb: the read; ki_pos advances by the bytes read
 * @to: destination of any kind; advances by the bytes read
 * @begin: ->iomap_begin of the file system, a constant
 * @end: ->iomap_end, a constant; NULL if it has nothing to do for reads
 *
 * Call this before dax_iomap_rw(), with the same locks. The part of the range
 * before i_size must lie in one unshared written mapping or in one hole. The
 * device must map a written range in one piece. A short copy ends the read.
 *
 * Context: process context, i_rwsem held shared (or exclusively), unless the
 * file system is read-only. May sleep, may fault in user memory.
 * Return: the bytes read, 0 at the end of the file, -EFAULT, an errno of @begin
 * or @end, or -ENOTBLK with nothing done, if the caller must use
 * dax_iomap_rw().
 */
static __always_inline ssize_t dax_read_simple(struct kiocb *iocb,
					       struct iov_iter *to,
					       iomap_iter_begin_fn begin,
					       iomap_iter_end_fn end)
{
	unsigned int flags = IOMAP_DAX;
	ssize_t ret;

	if (iocb->ki_flags & IOCB_NOWAIT)
		flags |= IOMAP_NOWAIT;

	ret = dax_read_range(file_inode(iocb->ki_filp), iocb->ki_pos,
			     iov_iter_count(to), flags, begin, end, NULL, to);
	if (ret > 0)
		iocb->ki_pos += ret;
	return ret;
}

#endif /* _LINUX_DAX_READ_H */
