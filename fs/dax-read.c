// SPDX-License-Identifier: GPL-2.0
/*
 * Reading DAX files: the functions that are not inline in
 * include/linux/dax-read.h.
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
 * A read(2) of a DAX file copies from mapped persistent memory. It starts no
 * I/O and waits for nothing, so the code around the copy is the cost of a small
 * read. dax_iomap_rw() describes the buffer with an iov_iter and iterates over
 * the mappings of the file. dax_read_user() fills one piece of user memory. For
 * each mapping, it asks the file system for the mapping, asks the DAX device
 * for the address, and copies.
 *
 * dax_read_simple() does the same for ->read_iter. It relates to dax_iomap_rw()
 * as iomap_dio_read_simple() does to iomap_dio_rw(): with -ENOTBLK, and with
 * nothing done, it sends the caller to dax_iomap_rw(). dax_read_segments()
 * takes the same steps for several segments and for kernel memory (registered
 * buffers of io_uring, splice), and lets iov_iter do the copy.
 *
 * The price is generality, not semantics. For the same mappings, every result,
 * short count and errno is that of dax_iomap_rw(), with one exception:
 * dax_iomap_rw() also fails for a bad block past i_size in a mapping that it
 * reads.
 *
 * A file system maps with its ->iomap_begin, or with a quicker function of the
 * same type, which may be inline. Each mapping is requested once and is used
 * before the next request, under the locks that the caller holds.
 *
 * The steps of a read:
 *
 *  1. Limit the range to i_size.
 *  2. Let the file system map the next byte. An errno ends the read.
 *  3. For a hole or an unwritten extent, clear the buffer. The device is not
 *     used.
 *  4. For a written extent, take dax_read_lock() and ask the device for the
 *     address of the rest. The device may map less, as dm-linear and dm-stripe
 *     do at the end of a target, and is then asked again. Bad blocks end the
 *     read with -EIO, a dead device with -ENXIO.
 *  5. Copy. If a copy stops short, try again from there. The read ends when a
 *     retry copies nothing. A fatal signal ends the read before each copy.
 *  6. Go on with step 2 up to the end of the range.
 *
 * A read that ends early returns a short count if it has read anything, and the
 * errno otherwise.
 *
 * Locks, outermost first:
 *
 *  i_rwsem, shared
 *	The caller takes it. It keeps i_size stable, except for the visible
 *	quota files of ext4. S_DAX lasts as long as the inode. Truncation, hole
 *	punching, collapse and insert hold i_rwsem exclusively, so they neither
 *	free nor move blocks that were mapped as written. Page faults do not
 *	take i_rwsem, so a hole or an unwritten extent may become written during
 *	the read. The reader then returns zeroes, as if it had come first. A
 *	store into a mapping of a file with shared blocks does not take i_rwsem
 *	either, and gives the file other blocks (CoW). XFS leaves such files to
 *	dax_iomap_rw(). A read-only file system needs no lock.
 *  the locks of the file system, inside ->iomap_begin
 *	->iomap_begin drops them before it returns.
 *  dax_read_lock()
 *	Held from the lookup of the address to the end of the copy, so that the
 *	device is not torn down. No address is kept longer.
 *  mmap_lock
 *	Page faults on the user's buffer take it, and then their own locks. The
 *	buffer may be a mapping of the file that is read. So steps 3 to 5 must
 *	hold neither invalidate_lock nor a lock that ->iomap_begin of a fault
 *	takes.
 */

/* If this is off, dax_read_simple() leaves all reads to dax_iomap_rw(). */
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

/* For a module parameter that is a static key: kp->arg is the key. */
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
 * @buf: destination in user memory
 * @len: length of the whole copy
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
 * dax_read_unwritten - read a hole or an unwritten extent
 * @type: type of the mapping: IOMAP_HOLE or IOMAP_UNWRITTEN
 * @buf: user memory
 * @len: bytes; 0 if the mapping does not contain the position
 *
 * Context: process context. May fault in user memory.
 * Return: bytes cleared. If no byte was cleared: -EFAULT, or -EIO for a type or
 * a mapping that the file system must not return.
 */
ssize_t dax_read_unwritten(u16 type, char __user *buf, size_t len)
{
	size_t done;

	/* DAX has no delayed allocation and no inline data. */
	if (WARN_ON_ONCE(type != IOMAP_HOLE && type != IOMAP_UNWRITTEN) || !len)
		return -EIO;

	done = len - clear_user(buf, len);
	return done ? done : -EFAULT;
}
EXPORT_SYMBOL_GPL(dax_read_unwritten);

/**
 * dax_read_user_rest - the rest of a read of several mappings
 * @inode: the file
 * @pos: start of the read
 * @buf: destination in user memory
 * @count: length of the whole read, which ends within the file
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

/*
 * As dax_read_copy(), but after a short copy the caller tries the rest again,
 * from the mapping on.
 */
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

/* Map @pos, and read some of the @count bytes there that the mapping covers. */
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
		/* DAX has no delayed allocation and no inline data. */
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
 * dax_read_segments - dax_read_iter() into several segments or kernel memory
 * @iocb: the read; ki_pos advances by the bytes read
 * @to: destination of any kind, not empty; advances by the bytes read
 * @flags: as for dax_read_user()
 * @begin: as for dax_read_user(), but need not be a constant
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
