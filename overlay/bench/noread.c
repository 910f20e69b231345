// SPDX-License-Identifier: GPL-2.0-only
/*
 * Take ->read away from one open file, so that pread() reaches ->read_iter.
 *
 * vfs_read() prefers ->read. To compare the two ways into the same file with
 * the same system call, in the same boot, the benchmark opens the file twice
 * and hands one descriptor to this module:
 *
 *	echo FD > /sys/module/noread/parameters/fd	(from the process itself)
 *
 * The write fails with ENODATA if the file has no ->read to take away. For
 * measuring only: it has to stay loaded while such a file is open.
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/moduleparam.h>

static struct file_operations without_read;

static int noread_set(const char *val, const struct kernel_param *kp)
{
	struct file *file;
	unsigned int fd;
	int ret;

	ret = kstrtouint(val, 0, &fd);
	if (ret)
		return ret;
	file = fget(fd);
	if (!file)
		return -EBADF;
	if (file->f_op->read && file->f_op->read_iter) {
		/* One file system is measured at a time: one copy will do. */
		without_read = *file->f_op;
		without_read.read = NULL;
		file->f_op = &without_read;
	} else {
		ret = -ENODATA;
	}
	fput(file);
	return ret;
}

static const struct kernel_param_ops noread_ops = {
	.set = noread_set,
};
module_param_cb(fd, &noread_ops, NULL, 0200);
MODULE_PARM_DESC(fd, "descriptor, in the writing process, that loses ->read");

MODULE_DESCRIPTION("Measuring aid: read a file through ->read_iter only");
MODULE_LICENSE("GPL");
