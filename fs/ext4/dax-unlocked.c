// SPDX-License-Identifier: GPL-2.0
/*
 * Reading ext4 DAX files without i_rwsem.
 *
 * Readers of one file on several CPUs share a cache line that they write to:
 * each of them takes and drops i_rwsem. If ext4.dax_unlocked_read is on, reads
 * do without it. The price is that a read may see a part of a write(2), as for
 * files in the page cache.
 *
 * Only the usual read is done so: up to 64 KiB of the extent that the inode
 * remembers, into one piece of user memory that is present. Any other read, and
 * a copy that stops short, starts again under i_rwsem.
 *
 * Why no reader sees blocks that the file does not own. A read is an RCU
 * read-side section from the load of i_dax_map.open to the end of the copy. A
 * task that is about to take blocks away, to move them, or to zero them does
 * the following:
 *
 *  1. It takes i_rwsem exclusively and holds it until it is done.
 *  2. ext4_dax_drain() clears @open.
 *  3. If @open was set, ext4_dax_drain() waits for a grace period.
 *  4. Only then does it change i_size, the extent status tree, extents,
 *     blocks.
 *
 * A reader that finds @open set began before the end of step 3, so step 4 comes
 * after its copy. A reader that finds @open clear takes i_rwsem, and waits for
 * the task. A reader that has i_rwsem shared, when there is no such task, sets
 * @open again. The store is a release and the load of @open is an acquire. So a
 * later reader sees all changes of the last such task, and also i_dax_map. Its
 * @taken tells whether the remembered extent is still valid.
 *
 * ext4_break_layouts() and ext4_break_layouts_range() do steps 2 and 3. They
 * already wait for all other direct users of blocks. Their callers are
 * truncation to a smaller size (ext4_setattr(); a larger size takes nothing
 * away, and the same size takes only blocks past i_size), and hole punching,
 * collapse, insert and zero range (ext4_fallocate()).
 * swap_inode_boot_loader() calls ext4_break_layouts() for the file, and nobody
 * can open its other inode. EXT4_IOC_MOVE_EXT refuses DAX files. Migration
 * between extents and indirect blocks leaves data in place.
 * ext4_truncate_failed_write() frees only blocks past i_size. A reader looks at
 * i_size before it maps, and only truncation lowers i_size, so no reader uses
 * these blocks. Eviction finds no reader, because each reader holds a reference
 * to the file.
 *
 * Changes that do not wait are harmless. write(2), page faults and fallocate()
 * turn holes and unwritten extents into written ones. These are remembered only
 * after the tree shows them, when they are zeroed. An append raises i_size
 * after its copy, with a release. Visible quota files are an exception, as with
 * i_rwsem: quota writes them through the buffer cache, and raises i_size
 * without i_rwsem. Only root can read them. A freeze stops writers but not
 * readers, and changes no blocks. dax_read_lock() keeps the device, as usual.
 *
 * Why nothing can hang. A task waits in step 3 with i_rwsem and invalidate_lock
 * held. A reader that faulted in user memory then could wait for that task. It
 * could wait for invalidate_lock, if the buffer is a mapping of the same file,
 * or for a journal commit. It could also wait for user space without limit,
 * with userfaultfd(2) or a mapping of a FUSE file. With SRCU around a copy that
 * may fault, an unprivileged reader could block all tasks that take blocks
 * away. So the copy runs with page faults disabled. A reader that would have to
 * fault takes i_rwsem, and then blocks only users of its own file. Nothing else
 * in a read without i_rwsem sleeps.
 */

#include <linux/dax-read.h>
#include <linux/moduleparam.h>
#include <linux/rcupdate.h>
#include <linux/sizes.h>
#include <linux/uaccess.h>
#include "ext4.h"
#include "dax-read.h"
#include "dax-unlocked.h"

/* Limits the time that a grace period waits for a reader. */
#define EXT4_DAX_UNLOCKED_MAX	SZ_64K

DEFINE_STATIC_KEY_FALSE(ext4_dax_unlocked_key);

module_param_cb(dax_unlocked_read, &dax_read_param_ops,
		&ext4_dax_unlocked_key.key, 0644);
__MODULE_PARM_TYPE(dax_unlocked_read, "bool");
MODULE_PARM_DESC(dax_unlocked_read,
		 "Read DAX files without i_rwsem where possible; a read may then see a part of a write (default: off)");

/* Copies everything or returns -EAGAIN. Page faults are disabled. */
static __always_inline ssize_t
ext4_dax_copy_unlocked(struct dax_device *dax_dev, s64 addr, char __user *buf,
		       size_t count)
{
	struct srcu_ctr __percpu *scp;
	size_t done = 0;
	void *kaddr;

	scp = dax_read_lock();
	kaddr = dax_read_address(dax_dev, addr, count);
	if (likely(kaddr))
		done = dax_copy_to_user(dax_dev, buf, kaddr, count);
	dax_read_unlock(scp);
	return done == count ? done : -EAGAIN;
}

/* The caller holds rcu_read_lock(). */
static __always_inline ssize_t
ext4_dax_read_section(struct inode *inode, loff_t pos, char __user *buf,
		      size_t count)
{
	loff_t size;
	s64 addr;

	/* Other inodes use the memory of the map for other fields. */
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
	addr = ext4_dax_written_addr(inode, pos, count, false);
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
 * ext4_dax_drain - make readers take i_rwsem, and wait for the others
 * @inode: the file, DAX or not; the caller is about to take blocks away from it
 *
 * No reader comes without i_rwsem until the caller drops i_rwsem.
 *
 * Context: i_rwsem held exclusively. May sleep for a grace period of RCU, if
 * the file was read since the last call. No transaction may be running.
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
