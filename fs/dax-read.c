// SPDX-License-Identifier: GPL-2.0
/*
 * The parameter of fast lookups for DAX files. include/linux/dax-read.h
 * contains the reads.
 */

#include <linux/dax-read.h>
#include <linux/export.h>
#include <linux/kstrtox.h>
#include <linux/moduleparam.h>
#include <linux/sysfs.h>

/**
 * DOC: Reads of DAX files with a fast lookup
 *
 * A read(2) of a DAX file copies from mapped persistent memory. It starts no
 * I/O and waits for nothing, so the code around the copy is the cost of a small
 * read. dax_read_simple() maps the range once, asks the DAX device for one
 * address and copies once. It leaves all other reads to dax_iomap_rw().
 *
 * A file system may pass a function that is quicker than its ->iomap_begin and
 * that may be inline. It fills only the type, the offset, the length, the
 * address and the DAX device of the iomap. It may return -ENOTBLK for anything
 * but the common case. For the same mapping, every result, short count and
 * errno is that of dax_iomap_rw(), with two exceptions. dax_iomap_rw() also
 * fails for a bad block past i_size in a mapping that it reads. After a copy
 * that stops short, dax_iomap_rw() tries the rest once more.
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
 *	buffer may be a mapping of the file that is read. So the copy must hold
 *	neither invalidate_lock nor a lock that ->iomap_begin of a fault takes.
 */

DEFINE_STATIC_KEY_TRUE(dax_read_fast_key);
EXPORT_SYMBOL_GPL(dax_read_fast_key);

static int dax_read_param_set(const char *val, const struct kernel_param *kp)
{
	bool on = true;
	int ret = 0;

	if (val)
		ret = kstrtobool(val, &on);
	if (ret)
		return ret;
	if (on)
		static_key_enable(kp->arg);
	else
		static_key_disable(kp->arg);
	return 0;
}

static int dax_read_param_get(char *buf, const struct kernel_param *kp)
{
	struct static_key *key = kp->arg;

	return sysfs_emit(buf, "%c\n", static_key_enabled(key) ? 'Y' : 'N');
}

/* For a module parameter that is a static key: kp->arg is the key. */
const struct kernel_param_ops dax_read_param_ops = {
	.flags = KERNEL_PARAM_OPS_FL_NOARG,
	.set = dax_read_param_set,
	.get = dax_read_param_get,
};
EXPORT_SYMBOL_GPL(dax_read_param_ops);

module_param_cb(fast, &dax_read_param_ops, &dax_read_fast_key.key, 0644);
__MODULE_PARM_TYPE(fast, "bool");
MODULE_PARM_DESC(fast,
		 "For tests and comparisons: use the fast lookups of ext4 and XFS for DAX files (default: on)");
