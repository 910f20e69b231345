// SPDX-License-Identifier: GPL-2.0
/*
 * Reading DAX files: what is not inline in include/linux/dax-read.h.
 */

#include <linux/dax-read.h>
#include <linux/export.h>
#include <linux/kstrtox.h>
#include <linux/sysfs.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

/**
 * DOC: Short reads of DAX files
 *
 * A read(2) of a DAX file copies from mapped persistent memory: no I/O is
 * started and nothing is waited for, so what the kernel does around the copy
 * is the cost of a small read. dax_iomap_rw() describes the buffer to iov_iter
 * and iterates over the file's mappings. dax_read_user() fills one piece of
 * user memory with three steps a mapping: ask the file system for it, ask the
 * DAX device for its address, copy. dax_read_simple() is the same for
 * ->read_iter and is to dax_iomap_rw() what iomap_dio_read_simple() is to
 * iomap_dio_rw(): -ENOTBLK, with nothing done, sends the caller there. Several
 * segments and memory of the kernel (io_uring's registered buffers, splice) are
 * left to iov_iter to fill, dax_read_segments(); the steps are the same.
 *
 * What is given up is generality, not semantics. Every result, short count and
 * errno is that of dax_iomap_rw() with the same mappings, but for one:
 * dax_iomap_rw() also fails for a bad block past i_size in a mapping that it reads.
 *
 * A file system maps by its ->iomap_begin, or by a quicker function of the same
 * kind, which may be inline. Each mapping is asked for once and used once,
 * before the next, under the locks that the caller holds.
 *
 * A read, as a whole:
 *
 *  1. The range ends at i_size.
 *  2. The file system maps the next byte. An errno ends the read.
 *  3. A hole and an unwritten extent give zeroes, without the device.
 *  4. A written extent: under dax_read_lock(), the device is asked for the
 *     address of what is left of it. It may answer for less, as dm-linear and
 *     dm-stripe do at the end of a target, and is asked again. Bad blocks end
 *     the read with -EIO, a dead device with -ENXIO.
 *  5. A copy that stops short is tried again from there, and ends the read when
 *     it gets nowhere: that is the last byte that can be had. A fatal signal
 *     ends it before each copy.
 *  6. From 2 again, up to the end of the range.
 *
 * An end before the range's gives a short count if anything was read, and else
 * the errno.
 *
 * Locks, outermost first:
 *
 *  i_rwsem, shared
 *	Taken by the caller. i_size stands still, but of ext4's visible quota
 *	files, and S_DAX lasts as long as the inode does. Blocks that were
 *	mapped as written are neither freed nor moved: truncate, hole punching,
 *	collapse and insert hold it exclusively. Page faults do not take it, so
 *	a hole or an unwritten extent may become written while it is read. The
 *	reader gives zeroes then, as if it had come first. Nor does a store into
 *	a mapping of a file that shares its blocks, which gives the file others
 *	(CoW): XFS leaves such files to dax_iomap_rw(). A read-only file system
 *	needs no lock.
 *  the file system's own, inside ->iomap_begin
 *	None is held when it returns.
 *  dax_read_lock()
 *	From the address to the end of the copy: the device is not torn down
 *	under it. Addresses are never kept beyond.
 *  mmap_lock
 *	Taken by page faults on the user's buffer, and below it whatever the
 *	buffer's own faults need: the buffer may be a mapping of the very file
 *	that is read. So neither invalidate_lock nor a lock that ->iomap_begin
 *	of a fault takes may be held from 3 to 5.
 */

/* With this off, dax_read_simple() leaves all reads to dax_iomap_rw(). */
DEFINE_STATIC_KEY_TRUE(dax_read_simple_key);
EXPORT_SYMBOL_GPL(dax_read_simple_key);

static int dax_read_param_set(const char *val, const struct kernel_param *kp)
{
	struct static_key *key = kp->arg;
	bool on;
	int ret = kstrtobool(val, &on);

	if (ret)
		return ret;
	if (on)
		static_key_enable(key);
	else
		static_key_disable(key);
	return 0;
}

static int dax_read_param_get(char *buf, const struct kernel_param *kp)
{
	struct static_key *key = kp->arg;

	return sysfs_emit(buf, "%c\n", static_key_enabled(key) ? 'Y' : 'N');
}

/* For a parameter that is a static key: its argument is the key. */
const struct kernel_param_ops dax_read_param_ops = {
	.set = dax_read_param_set,
	.get = dax_read_param_get,
};
EXPORT_SYMBOL_GPL(dax_read_param_ops);

module_param_cb(simple, &dax_read_param_ops, &dax_read_simple_key.key, 0644);
MODULE_PARM_DESC(simple,
		 "Read DAX files of file systems without a way of their own without iomap's iteration (default: on)");

/**
 * dax_read_copy_rest - go on with a copy that stopped short
 * @dax_dev: the device
 * @addr: byte of the device at which the copy started
 * @buf: where it goes
 * @len: how long it is to be
 * @done: bytes copied so far, fewer than @len
 *
 * Context: process context, under dax_read_lock().
 * Return: bytes copied, @done included.
 */
ssize_t dax_read_copy_rest(struct dax_device *dax_dev, u64 addr,
			   char __user *buf, size_t len, size_t done)
{
	do {
		ssize_t ret = dax_read_copy_piece(dax_dev, addr + done,
						  buf + done, len - done);

		if (ret <= 0)
			break;
		done += ret;
	} while (done < len);

	return done;
}
EXPORT_SYMBOL_GPL(dax_read_copy_rest);

/**
 * dax_read_unwritten - read what no block was written for
 * @type: of the mapping: IOMAP_HOLE or IOMAP_UNWRITTEN
 * @buf: user memory
 * @len: bytes; 0 for a mapping that is of another place
 *
 * Context: process context. May fault in user memory.
 * Return: bytes cleared. When there are none: -EFAULT, or -EIO for a type or a
 * mapping that the file system should not have given.
 */
ssize_t dax_read_unwritten(u16 type, char __user *buf, size_t len)
{
	size_t done;

	/* DAX allocates when it writes, and has no data beside the blocks. */
	if (WARN_ON_ONCE(type != IOMAP_HOLE && type != IOMAP_UNWRITTEN) || !len)
		return -EIO;

	done = len - clear_user(buf, len);
	return done ? done : -EFAULT;
}
EXPORT_SYMBOL_GPL(dax_read_unwritten);

/**
 * dax_read_user_rest - the rest of a read of several mappings
 * @inode: the file
 * @pos: where the read started
 * @buf: where it goes
 * @count: how long it is to be, no longer than the file
 * @flags: as for dax_read_user()
 * @begin: as for dax_read_user()
 * @done: bytes read so far, fewer than @count
 *
 * Context: as for dax_read_user().
 * Return: bytes read, @done included.
 */
ssize_t dax_read_user_rest(struct inode *inode, loff_t pos, char __user *buf,
			   size_t count, unsigned int flags,
			   iomap_iter_begin_fn begin, size_t done)
{
	do {
		ssize_t ret = dax_read_mapping(inode, pos + done, buf + done,
					       count - done, flags, begin);

		if (ret <= 0)
			break;
		done += ret;
	} while (done < count);

	return done;
}
EXPORT_SYMBOL_GPL(dax_read_user_rest);

/* As dax_read_copy(): what is left is tried again, from the mapping on. */
static ssize_t dax_read_copy_segments(const struct iomap *iomap, loff_t pos,
				      size_t len, struct iov_iter *to)
{
	u64 addr = iomap->addr + (pos - iomap->offset);
	ssize_t ret;
	void *kaddr;

	ret = dax_read_address(iomap->dax_dev, addr, len, &kaddr);
	if (unlikely(ret < 0))
		return ret;
	return dax_copy_to_iter(iomap->dax_dev, PHYS_PFN(addr), kaddr, ret,
				to) ?: -EFAULT;
}

/* Map @pos and read some of what the mapping holds of the @count bytes there. */
static ssize_t dax_read_mapping_segments(struct inode *inode, loff_t pos,
					 size_t count, unsigned int flags,
					 iomap_iter_begin_fn begin,
					 struct iov_iter *to)
{
	struct iomap_iter iter = {
		.inode	= inode,
		.pos	= pos,
		.len	= count,
		.flags	= flags,
	};
	const struct iomap *iomap = &iter.iomap;
	struct srcu_ctr __percpu *scp;
	ssize_t ret;

	ret = begin(inode, pos, count, flags, &iter.iomap, &iter.srcmap);
	if (unlikely(ret < 0))
		return ret;
	count = dax_read_length(iomap, pos, count);
	if (unlikely(!count))
		return -EIO;

	if (unlikely(iomap->type != IOMAP_MAPPED)) {
		/* DAX allocates when it writes, and has no data elsewhere. */
		if (WARN_ON_ONCE(iomap->type != IOMAP_HOLE &&
				 iomap->type != IOMAP_UNWRITTEN))
			return -EIO;
		return iov_iter_zero(count, to) ?: -EFAULT;
	}

	scp = dax_read_lock();
	ret = dax_read_copy_segments(iomap, pos, count, to);
	dax_read_unlock(scp);
	return ret;
}

/**
 * dax_read_segments - dax_read_iter() into what is not one piece of user memory
 * @iocb: the read; ki_pos is advanced by what was read
 * @to: where to, of any kind, not empty; advanced by what was read
 * @flags: as for dax_read_user()
 * @begin: as for dax_read_user(), and need not be a constant
 *
 * Context: as for dax_read_user().
 * Return: as dax_read_user().
 */
ssize_t dax_read_segments(struct kiocb *iocb, struct iov_iter *to,
			  unsigned int flags, iomap_iter_begin_fn begin)
{
	struct inode *inode = file_inode(iocb->ki_filp);
	loff_t size = i_size_read(inode), pos = iocb->ki_pos;
	size_t count, done = 0;
	ssize_t ret = 0;

	lockdep_assert(sb_rdonly(inode->i_sb) ||
		       lockdep_is_held(&inode->i_rwsem));

	if (unlikely(pos >= size))
		return 0;
	count = min_t(u64, iov_iter_count(to), size - pos);

	while (done < count) {
		ret = dax_read_mapping_segments(inode, pos + done, count - done,
						flags, begin, to);
		if (ret <= 0)
			break;
		done += ret;
	}
	iocb->ki_pos += done;
	return done ? done : ret;
}
EXPORT_SYMBOL_GPL(dax_read_segments);
