// SPDX-License-Identifier: GPL-2.0
/*
 * ->read of ext4 DAX files: the short cut of FOP_READ_SHORTCUT.
 *
 * read(2) and pread(2) come here instead of through new_sync_read(), and make
 * no kiocb and no iov_iter. dax-read.c describes the read and its locks. Reads
 * into anything but one buffer in user memory still use ->read_iter.
 */

#include <linux/dax-read.h>
#include <linux/fs.h>
#include <linux/uio.h>
#include "ext4.h"
#include "dax-read.h"
#include "dax-unlocked.h"

/*
 * The same read by ->read_iter, if it is not in one piece or dax_read.fast is
 * off.
 */
static noinline ssize_t ext4_dax_read_by_iter(struct file *file,
					      char __user *buf, size_t count,
					      loff_t *ppos)
{
	struct iov_iter iter;
	struct kiocb kiocb;
	ssize_t ret;

	init_sync_kiocb(&kiocb, file);
	kiocb.ki_pos = *ppos;
	iov_iter_ubuf(&iter, ITER_DEST, buf, count);
	ret = file->f_op->read_iter(&kiocb, &iter);
	*ppos = kiocb.ki_pos;
	return ret;
}

/* A separate function, so that neither way saves registers for the other. */
static noinline ssize_t ext4_dax_read_fast(struct file *file,
					   char __user *buf, size_t count,
					   loff_t *ppos)
{
	struct inode *inode = file_inode(file);
	ssize_t ret;

	if (unlikely(ext4_forced_shutdown(inode->i_sb)))
		return -EIO;
	if (unlikely(!count))
		return 0;

	ret = ext4_dax_read_unlocked(inode, *ppos, buf, count);
	if (ret != -EAGAIN)
		goto done;

	inode_lock_shared(inode);
	ret = ext4_dax_read_user(inode, *ppos, buf, count);
	inode_unlock_shared(inode);
	if (unlikely(ret == -ENOTBLK))
		return ext4_dax_read_by_iter(file, buf, count, ppos);

done:
	if (ret > 0)
		*ppos += ret;
	file_accessed(file);
	return ret;
}

/**
 * ext4_dax_read - read(2) of a DAX file
 * @file: the file, of ext4_dax_file_operations; it is DAX as long as its inode
 *	is in memory
 * @buf: user memory; vfs_read() has checked it against the address space
 * @count: bytes, at most MAX_RW_COUNT
 * @ppos: position, advances by the bytes read
 *
 * Like ->read_iter, this updates the access time even if the read fails, but
 * not if @count is 0.
 *
 * Context: process context, no locks held. Takes i_rwsem shared.
 * Return: as ext4_dax_read_user(); -EIO after a forced shutdown.
 */
ssize_t ext4_dax_read(struct file *file, char __user *buf, size_t count,
		      loff_t *ppos)
{
	if (!dax_read_fast_enabled())
		return ext4_dax_read_by_iter(file, buf, count, ppos);
	return ext4_dax_read_fast(file, buf, count, ppos);
}
