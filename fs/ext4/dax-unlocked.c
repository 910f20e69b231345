// SPDX-License-Identifier: GPL-2.0
/*
 * Reading ext4 DAX files without i_rwsem.
 *
 * Readers of one file on several CPUs share one cache line that they write to:
 * i_rwsem, which each of them takes and drops. This is the same read without it,
 * where ext4.dax_unlocked_read is on. It gives up that a read sees all of a
 * write(2) or nothing of it, as files in the page cache do.
 *
 * Only the usual read is done so: up to 64 KiB of the extent that the inode
 * remembers, into one piece of user memory that is there. All else, and a copy
 * that stops short, is begun again under i_rwsem.
 *
 * Why no reader sees blocks that are not the file's. A read is an RCU read-side
 * section from the look at i_dax_map.open to the end of the copy. A task that is
 * about to take blocks away, or to move them, or to zero them
 *
 *  1. holds i_rwsem exclusively and keeps it until it is done,
 *  2. closes: clears @open, ext4_dax_drain(),
 *  3. waits for a grace period, if it was open,
 *  4. and only then changes i_size, the extent status tree, extents, blocks.
 *
 * A reader that finds it open began before the end of 3, so 4 comes after its
 * copy. A reader that finds it closed takes i_rwsem, and waits for the task. @open
 * is set again under i_rwsem held shared, when no such task is there, by a reader
 * that had to take it. That is a release, and the look at @open an acquire: what
 * the last such task did is seen by a reader that comes after. So is i_dax_map,
 * whose @taken says whether what is remembered is still so.
 *
 * 2 and 3 are in ext4_break_layouts() and ext4_break_layouts_range(), which wait for
 * all others that access blocks directly: truncation to a smaller size
 * (ext4_setattr(); a larger one takes nothing away), hole punching, collapse, insert
 * and zero range (ext4_fallocate()); and in swap_inode_boot_loader().
 * EXT4_IOC_MOVE_EXT refuses DAX files. Migration between extents and indirect
 * blocks leaves data where it is. ext4_truncate_failed_write() frees blocks past
 * i_size only: no reader that looks at i_size before it maps comes so far, since
 * i_size is lowered by truncation alone. Eviction finds no reader, as each holds
 * a reference of the file.
 *
 * What comes without waiting does no harm. write(2), page faults and fallocate()
 * turn holes and unwritten extents into written ones, which are remembered only
 * once the tree shows them, zeroed. An append raises i_size after its copy, by a
 * release. Visible quota files are an exception, with i_rwsem as without it: quota
 * writes them through the buffer cache, and raises i_size without i_rwsem. Only root
 * can read them. A freeze stops writers and no readers, and changes no blocks. The
 * device is kept by dax_read_lock(), as ever.
 *
 * Why nothing can hang. A task waits at 3 with i_rwsem and invalidate_lock held.
 * A reader that faulted in user memory meanwhile could wait for that task: for
 * invalidate_lock, if the buffer is a mapping of the same file; for a journal
 * commit; or for user space, with userfaultfd(2) or a mapping of a FUSE file, for
 * as long as that likes. With SRCU around a copy that may fault an unprivileged
 * reader could stop whatever takes blocks away. So page faults are disabled while
 * this copies, and a reader that would have to fault takes i_rwsem, where it is
 * in the way of its own file only. Nothing else in here sleeps.
 */

#include <linux/dax-read.h>
#include <linux/moduleparam.h>
#include <linux/rcupdate.h>
#include <linux/sizes.h>
#include <linux/uaccess.h>
#include "ext4.h"
#include "dax-read.h"
#include "dax-unlocked.h"

/* As a grace period waits for it, and RCU's readers are not to be slow. */
#define EXT4_DAX_UNLOCKED_MAX	SZ_64K

DEFINE_STATIC_KEY_FALSE(ext4_dax_unlocked_key);

module_param_cb(dax_unlocked_read, &dax_read_param_ops,
		&ext4_dax_unlocked_key.key, 0644);
MODULE_PARM_DESC(dax_unlocked_read,
		 "Read DAX files without i_rwsem where possible; a read may then see a part of a write (default: off)");

/* The byte of the device, or -EAGAIN if not all of the range is remembered. */
static __always_inline s64 ext4_dax_recall_addr(struct inode *inode, loff_t pos,
						size_t count)
{
	struct ext4_map_blocks map = {};
	u8 blkbits = inode->i_blkbits;
	unsigned int nr;

	if (ext4_dax_pos_to_map(inode, pos, count, &map))
		return -EAGAIN;
	nr = map.m_len;
	if (!ext4_dax_recall(inode, &map) || map.m_len < nr)
		return -EAGAIN;
	return ((u64)map.m_pblk << blkbits) +
		(pos & ((1U << blkbits) - 1)) +
		EXT4_SB(inode->i_sb)->s_dax_part_off;
}

/* All of it or -EAGAIN. Page faults are disabled. */
static __always_inline ssize_t
ext4_dax_copy_unlocked(struct dax_device *dax_dev, s64 addr, char __user *buf,
		       size_t count)
{
	struct srcu_ctr __percpu *scp;
	ssize_t ret;

	scp = dax_read_lock();
	ret = dax_read_copy_piece(dax_dev, addr, buf, count);
	dax_read_unlock(scp);
	return ret == count ? ret : -EAGAIN;
}

/* Under RCU. */
static __always_inline ssize_t
ext4_dax_read_section(struct inode *inode, loff_t pos, char __user *buf,
		      size_t count)
{
	loff_t size;
	s64 addr;

	/* Other inodes have something else where the map is. */
	if (!IS_DAX(inode))
		return -EAGAIN;
	/* Pairs with the release in ext4_dax_let_in(). */
	if (!smp_load_acquire(&EXT4_I(inode)->i_dax_map.open))
		return -EAGAIN;
	size = i_size_read(inode);
	if (pos >= size)
		return 0;
	count = min_t(u64, count, size - pos);
	if (count > EXT4_DAX_UNLOCKED_MAX)
		return -EAGAIN;
	addr = ext4_dax_recall_addr(inode, pos, count);
	if (addr < 0)
		return -EAGAIN;
	return ext4_dax_copy_unlocked(EXT4_SB(inode->i_sb)->s_daxdev, addr, buf,
				      count);
}

/* See ext4_dax_read_unlocked(). */
ssize_t __ext4_dax_read_unlocked(struct inode *inode, loff_t pos,
				 char __user *buf, size_t count)
{
	ssize_t ret;

	rcu_read_lock();
	pagefault_disable();
	ret = ext4_dax_read_section(inode, pos, buf, count);
	pagefault_enable();
	rcu_read_unlock();
	return ret;
}

#if IS_ENABLED(CONFIG_EXT4_KUNIT_TESTS)
EXPORT_SYMBOL_FOR_EXT4_TEST(__ext4_dax_read_unlocked);
#endif

/**
 * ext4_dax_drain - have readers take i_rwsem, and wait for those that did not
 * @inode: the file, DAX or not, of which blocks are about to be taken away
 *
 * Until i_rwsem is dropped no reader comes without it.
 *
 * Context: i_rwsem held exclusively. May sleep for a grace period of RCU, if the
 * file was read since the last time. No transaction may be running.
 */
void ext4_dax_drain(struct inode *inode)
{
	struct ext4_dax_map *m = &EXT4_I(inode)->i_dax_map;

	if (!IS_DAX(inode))
		return;
	lockdep_assert_held_write(&inode->i_rwsem);
	if (!READ_ONCE(m->open))
		return;
	WRITE_ONCE(m->open, 0);
	synchronize_rcu();
}

#if IS_ENABLED(CONFIG_EXT4_KUNIT_TESTS)
EXPORT_SYMBOL_FOR_EXT4_TEST(ext4_dax_drain);
#endif
