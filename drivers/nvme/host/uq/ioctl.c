// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: open files of the nodes, their ioctls and commands.
 */
#include <linux/blk-integrity.h>
#include <linux/blkdev.h>
#include <linux/compat.h>
#include <linux/fs.h>
#include <linux/nvme_ioctl.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <uapi/linux/nvme_uq.h>

#include "../uq.h"
#include "limit.h"
#include "mem.h"
#include "rw.h"

static int nvme_uq_open(struct inode *inode, struct file *file)
{
	struct nvme_uq_node *node =
		container_of(inode->i_cdev, struct nvme_uq_node, cdev);
	struct nvme_uq_file *uf;

	/* the cdev holds references to the node, its namespace and nvme.ko */
	if (nvme_uq_ns_removed(node))
		return -ENXIO;
	if (READ_ONCE(node->uq->blocked) & NVME_UQ_UNAVAILABLE)
		return -ESHUTDOWN;
	uf = kzalloc_obj(*uf, GFP_KERNEL_ACCOUNT);
	if (!uf)
		return -ENOMEM;

	uf->node = node;
	uf->file = file;
	uf->blocked_mask = ~0;
	/* commands with other flags take nvme_uq_queue() */
	uf->issue_flags = IO_URING_F_SQE128 | IO_URING_F_CQE32 |
		IO_URING_F_NONBLOCK;
	if (node->uq->polled)
		uf->issue_flags |= IO_URING_F_IOPOLL;
	init_waitqueue_head(&uf->waitq);
	file->private_data = uf;
	/* files have no cache: O_DIRECT makes no difference */
	file->f_mode |= FMODE_CAN_ODIRECT | FMODE_NOWAIT;
	return 0;
}

static int nvme_uq_release(struct inode *inode, struct file *file)
{
	struct nvme_uq_file *uf = file->private_data;

	nvme_uq_unclaim(uf);
	nvme_uq_mem_release(uf);
	kfree(uf);
	return 0;
}

static long nvme_uq_ioctl(struct file *file, unsigned int cmd,
			  unsigned long arg)
{
	void __user *argp = (void __user *)arg;
	struct nvme_uq_file *uf = file->private_data;

	if (nvme_uq_ns_removed(uf->node))
		return -ENXIO;
	switch (cmd) {
	case NVME_UQ_IOCTL_UNCLAIM:
		return nvme_uq_ioctl_unclaim(uf);
	case NVME_UQ_IOCTL_CLAIM:
		return nvme_uq_claim(uf);
	case NVME_UQ_IOCTL_SET_LIMIT:
		return nvme_uq_ioctl_set_limit(uf, argp);
	case NVME_UQ_IOCTL_GET_LIMIT:
		return nvme_uq_ioctl_get_limit(uf, argp);
	case NVME_UQ_IOCTL_ALLOC_MEMORY:
		return nvme_uq_ioctl_alloc_mem(uf, argp);
#ifdef CONFIG_COMPAT
	case NVME_UQ_BLKGETSIZE64_32:
#endif
	case BLKGETSIZE64:
	case BLKSSZGET:
		return nvme_uq_ioctl_size(uf, cmd, argp);
	default:
		return nvme_uq_forward_ioctl(uf->node->ns, cmd, argp,
					     file->f_mode & FMODE_WRITE);
	}
}

static int nvme_uq_import_user(struct nvme_uq_io *io, u64 addr, u32 len,
			       bool vec)
{
	int ddir = io->write ? ITER_SOURCE : ITER_DEST;
	struct iovec one, *iov = &one;
	ssize_t ret;

	if (in_compat_syscall())
		addr = (compat_uptr_t)addr;
	if (!vec)
		return import_ubuf(ddir, u64_to_user_ptr(addr), len, &io->iter);

	/* a vector of one segment is imported as a plain buffer */
	ret = import_iovec(ddir, u64_to_user_ptr(addr), len, 1,
			   &iov, &io->iter);
	io->iov = iov;
	return ret < 0 ? ret : 0;
}

static __always_inline int nvme_uq_import(struct nvme_uq_io *io, u64 addr,
					  u32 len, u8 flags, bool vec,
					  unsigned int issue_flags)
{
	int ddir = io->write ? WRITE : READ;

	if (flags)
		return nvme_uq_import_mem(io, addr, len);
	if (!(io->ioucmd->flags & IORING_URING_CMD_FIXED))
		return nvme_uq_import_user(io, addr, len, vec);
	if (unlikely(vec))
		return io_uring_cmd_import_fixed_vec(io->ioucmd,
				u64_to_user_ptr(addr), len, ddir, &io->iter,
				issue_flags);
	return io_uring_cmd_import_fixed(addr, len, ddir, &io->iter,
					 io->ioucmd, issue_flags);
}

/* nvme_is_write() for values that were checked. */
static bool nvme_uq_is_write(u8 opcode, u32 nsid)
{
	/* fctype of a fabrics command is the lowest byte of the nsid */
	return (unlikely(opcode == nvme_fabrics_command) ? nsid : opcode) & 1;
}

/**
 * nvme_uq_queue - start any command
 * @uf:		open file that the command is submitted to
 * @ioucmd:	the command
 * @issue_flags: issue flags of ->uring_cmd()
 *
 * Return: -EIOCBQUEUED or an error.
 */
int nvme_uq_queue(struct nvme_uq_file *uf, struct io_uring_cmd *ioucmd,
		  unsigned int issue_flags)
{
	const struct nvme_uring_cmd *cmd =
		io_uring_sqe128_cmd(ioucmd->sqe, struct nvme_uring_cmd);
	bool vec = ioucmd->cmd_op == NVME_URING_CMD_IO_VEC;
	u32 len = READ_ONCE(cmd->data_len);
	u32 timeout = READ_ONCE(cmd->timeout_ms);
	u8 flags = READ_ONCE(cmd->flags);
	struct nvme_uq_node *node = uf->node;
	struct nvme_uq *uq = node->uq;
	struct nvme_uq_io io __uninitialized;
	int ret;

	io.cmd = cmd;
	io.ioucmd = ioucmd;
	io.rw = NULL;
	io.file = uf;
	io.node = node;
	io.iov = NULL;
	io.meta = READ_ONCE(cmd->metadata);
	io.meta_len = unlikely(io.meta) ? READ_ONCE(cmd->metadata_len) : 0;
	io.nsid = READ_ONCE(cmd->nsid);
	io.opcode = READ_ONCE(cmd->opcode);
	io.pieces = NULL;
	if (unlikely(flags) &&
	    (flags != NVME_UQ_CMD_MEMORY || vec ||
	     (ioucmd->flags & IORING_URING_CMD_FIXED)))
		return -EINVAL;
	ret = nvme_uq_check_cmd(node->ns, io.opcode, io.nsid,
				ioucmd->file->f_mode & FMODE_WRITE);
	if (unlikely(ret))
		return ret;

	io.timeout = unlikely(timeout) ? nvme_uq_timeout(timeout) :
		nvme_uq_io_timeout(uq->ctrl);
	io.write = nvme_uq_is_write(io.opcode, io.nsid);
	io.nowait = issue_flags & IO_URING_F_NONBLOCK;
	io.unpolled = uq->polled && !(issue_flags & IO_URING_F_IOPOLL);

	if (len) {
		ret = nvme_uq_import(&io, READ_ONCE(cmd->addr), len, flags,
				     vec, issue_flags);
		if (unlikely(ret < 0))
			return ret;
	} else {
		io.iter.count = 0;
	}

	if (unlikely(io.meta_len) && (io.meta_len > NVME_UQ_MAX_META ||
				      !blk_get_integrity(node->ns->disk)))
		ret = -EINVAL;
	else
		ret = uq->ops->submit(uq, &io);
	if (unlikely(io.iov))
		kfree(io.iov);
	return ret;
}
EXPORT_SYMBOL_GPL(nvme_uq_queue);

static int nvme_uq_uring_cmd(struct io_uring_cmd *ioucmd,
			     unsigned int issue_flags)
{
	struct nvme_uq_file *uf = ioucmd->file->private_data;

	if (likely((issue_flags & uf->issue_flags) == uf->issue_flags &&
		   ioucmd->cmd_op == NVME_URING_CMD_IO))
		return uf->node->uq->ops->submit_one(uf, ioucmd, issue_flags);

	if ((issue_flags & (IO_URING_F_SQE128 | IO_URING_F_CQE32)) !=
	    (IO_URING_F_SQE128 | IO_URING_F_CQE32))
		return -EOPNOTSUPP;

	if (ioucmd->cmd_op != NVME_URING_CMD_IO &&
	    ioucmd->cmd_op != NVME_URING_CMD_IO_VEC)
		return -ENOTTY;

	return nvme_uq_queue(uf, ioucmd, issue_flags);
}

static int nvme_uq_uring_cmd_iopoll(struct io_uring_cmd *ioucmd,
				    struct io_comp_batch *iob,
				    unsigned int poll_flags)
{
	struct nvme_uq_file *uf = ioucmd->file->private_data;

	return uf->node->uq->ops->iopoll(uf->node->uq, iob, poll_flags);
}

static void nvme_uq_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct nvme_uq_file *uf = file->private_data;
	/* pairs with the release in nvme_uq_ioctl_alloc_mem() */
	const struct nvme_uq_mem *mem = smp_load_acquire(&uf->mem);
	struct nvme_uq_limit limit = { };

	nvme_uq_read_limit(uf, &limit);
	seq_printf(m, "claimed:\t%d\n", READ_ONCE(uf->node->uq->owner) == uf);
	seq_printf(m, "limit:\t%u\n", limit.limit);
	seq_printf(m, "memory:\t%llu\n", mem ? mem->pieces.size : 0);
	seq_printf(m, "in_flight:\t%u\n", limit.in_flight);
	seq_printf(m, "waiting:\t%u\n", limit.waiting);
}

const struct file_operations nvme_uq_fops = {
	.owner		= THIS_MODULE,
	.open		= nvme_uq_open,
	.release	= nvme_uq_release,
	.llseek		= nvme_uq_llseek,
	.read_iter	= nvme_uq_read_iter,
	.write_iter	= nvme_uq_write_iter,
	.iopoll		= nvme_uq_rw_iopoll,
	.fsync		= nvme_uq_fsync,
	.mmap_prepare	= nvme_uq_mmap_prepare,
	.show_fdinfo	= nvme_uq_show_fdinfo,
	.unlocked_ioctl	= nvme_uq_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.uring_cmd	= nvme_uq_uring_cmd,
	.uring_cmd_iopoll = nvme_uq_uring_cmd_iopoll,
};
