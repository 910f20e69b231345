/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reading ext4 DAX files without i_rwsem. dax-unlocked.c explains how this
 * works, and why it is safe.
 */
#ifndef _EXT4_DAX_UNLOCKED_H
#define _EXT4_DAX_UNLOCKED_H

#include <linux/dax-read.h>
#include <linux/jump_label.h>
#include <linux/uio.h>
#include "ext4.h"
#include "dax-read.h"

#ifdef CONFIG_FS_DAX
DECLARE_STATIC_KEY_FALSE(ext4_dax_unlocked_key);

ssize_t __ext4_dax_read_unlocked(struct inode *inode, loff_t pos,
				 char __user *buf, size_t count);
void ext4_dax_drain(struct inode *inode);

/**
 * ext4_dax_read_unlocked - read without i_rwsem, if that is enabled
 * @inode: the file
 * @pos: first byte to read, not negative
 * @buf: user memory, inside the address space as for access_ok()
 * @count: bytes, from 1 to MAX_RW_COUNT
 *
 * Context: process context, no locks held.
 * Return: bytes read, 0 at the end of the file; -EAGAIN if the caller must take
 * i_rwsem. A part of @buf may have been written even then.
 */
static __always_inline ssize_t
ext4_dax_read_unlocked(struct inode *inode, loff_t pos, char __user *buf,
		       size_t count)
{
	if (static_branch_unlikely(&ext4_dax_unlocked_key) &&
	    dax_read_fast_enabled())
		return __ext4_dax_read_unlocked(inode, pos, buf, count);
	return -EAGAIN;
}

/* As ext4_dax_read_unlocked(), for ->read_iter. */
static __always_inline ssize_t
ext4_dax_read_iter_unlocked(struct kiocb *iocb, struct iov_iter *to)
{
	ssize_t ret;

	if (!static_branch_unlikely(&ext4_dax_unlocked_key) ||
	    !dax_read_fast_enabled() || !iter_is_ubuf(to))
		return -EAGAIN;
	ret = __ext4_dax_read_unlocked(file_inode(iocb->ki_filp), iocb->ki_pos,
				       to->ubuf + to->iov_offset,
				       iov_iter_count(to));
	if (ret > 0) {
		iocb->ki_pos += ret;
		iov_iter_advance(to, ret);
	}
	return ret;
}

/**
 * ext4_dax_let_in - let readers come without i_rwsem from now on
 * @inode: the file, IS_DAX()
 *
 * Context: i_rwsem held shared, so that no task takes blocks away.
 */
static __always_inline void ext4_dax_let_in(struct inode *inode)
{
	struct ext4_dax_map *m = &EXT4_I(inode)->i_dax_map;

	if (!static_branch_unlikely(&ext4_dax_unlocked_key) ||
	    READ_ONCE(m->open))
		return;
	/*
	 * Pairs with the acquire of a reader: this task, under i_rwsem, has
	 * seen all changes of the last task that took blocks away, so the
	 * reader sees them too.
	 */
	smp_store_release(&m->open, 1);
}
#else
static inline void ext4_dax_drain(struct inode *inode)
{
}
#endif /* CONFIG_FS_DAX */

#endif /* _EXT4_DAX_UNLOCKED_H */
