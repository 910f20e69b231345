// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: read(2), write(2) and related calls, see rw.h.
 *
 * Reading and writing a node works like O_DIRECT on the block device of its
 * namespace. This file splits transfers into commands. struct nvme_uq_ops
 * passes the commands to the device.
 */
#include <linux/blkdev.h>
#include <linux/fs.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#include "../uq.h"
#include "rw.h"
#include "wait.h"

/* Number of retries of a command: the default of nvme_core.max_retries. */
#define NVME_UQ_RW_RETRIES	5
/* Avoids hung task warnings for slow devices, as in blk_wait_io(). */
#define NVME_UQ_RW_LOOK		(30 * HZ)

/*
 * Return the size of a namespace, or an errno. If the namespace is removed or
 * its controller is dead, the block device has a size of 0, which is not the
 * end of the namespace.
 */
static __always_inline s64 nvme_uq_node_bytes(const struct nvme_uq_node *node)
{
	u64 bytes = bdev_nr_bytes(node->ns->disk->part0);

	if (likely(bytes))
		return bytes;
	return nvme_uq_ns_removed(node) ? -ENXIO : -ENODEV;
}

static u32 nvme_uq_block_size(const struct nvme_ns *ns)
{
	return 1U << READ_ONCE(ns->head->lba_shift);
}

/*
 * Start the command for the first bytes of @iter at the position of @iocb. @rw
 * contains their number, and the kiocb to complete, if any.
 */
static int nvme_uq_rw_start(struct nvme_uq_file *uf, struct nvme_uq_rw *rw,
			    const struct kiocb *iocb,
			    const struct iov_iter *iter, u8 opcode, bool nowait)
{
	struct nvme_ns *ns = uf->node->ns;
	struct nvme_uq *uq = uf->node->uq;
	struct nvme_uq_io io = {
		.rw		= rw,
		.file		= uf,
		.node		= uf->node,
		.nsid		= ns->head->ns_id,
		.timeout	= nvme_uq_io_timeout(uq->ctrl),
		.opcode		= opcode,
		.write		= opcode == nvme_cmd_write,
		.nowait		= nowait,
		/* a task that waits does not poll */
		.unpolled	= uq->polled &&
				  !(rw->iocb && iocb->ki_flags & IOCB_HIPRI),
		.iter		= *iter,
	};
	int ret = nvme_uq_check_cmd(ns, opcode, io.nsid,
				    uf->file->f_mode & FMODE_WRITE);

	if (ret)
		return ret;
	rw->pos = iocb->ki_pos;
	rw->control = io.write && iocb_is_dsync(iocb) ? NVME_RW_FUA : 0;
	iov_iter_truncate(&io.iter, rw->len);
	return uq->ops->submit(uq, &io);
}

/*
 * Transfers that wait
 */

/*
 * Send one command, and wait for the device. As for the block device, retry it
 * if a reset has ended it, or if the device permits a retry.
 */
static int nvme_uq_rw_part_sync(struct nvme_uq_file *uf, struct nvme_uq_rw *rw,
				const struct kiocb *iocb,
				const struct iov_iter *iter, u8 opcode)
{
	bool nowait = iocb->ki_flags & IOCB_NOWAIT;
	unsigned int retries = 0;
	int ret;

	do {
		reinit_completion(&rw->done);
		ret = nvme_uq_rw_start(uf, rw, iocb, iter, opcode, nowait);
		if (ret != -EIOCBQUEUED)
			return ret;
		/* not killable: the device may be writing to the memory */
		while (!wait_for_completion_io_timeout(&rw->done,
						       NVME_UQ_RW_LOOK))
			;
		uf->node->uq->ops->unpin_rw(rw);
		if (likely(!nvme_uq_rw_failed(rw->status)))
			return 0;
		/* the device had the command, so -EAGAIN would be wrong */
		nowait = false;
	} while ((rw->status < 0 || !(rw->status & NVME_STATUS_DNR)) &&
		 retries++ < NVME_UQ_RW_RETRIES && !nvme_uq_cancelled());
	return rw->status < 0 ? -EIO : nvme_uq_status_to_errno(rw->status);
}

static u64 nvme_uq_rw_most(const struct nvme_uq *uq)
{
	return (u64)uq->ctrl->max_hw_sectors << SECTOR_SHIFT;
}

/*
 * Transfer by one command after the other, until a command fails. A caller with
 * ->ki_complete(), such as io_uring's worker, gets the result at once. Callers
 * must support this for any file.
 */
static ssize_t nvme_uq_rw_sync(struct nvme_uq_file *uf, struct kiocb *iocb,
			       struct iov_iter *iter, size_t count, u8 opcode)
{
	u32 block = nvme_uq_block_size(uf->node->ns);
	u64 most = nvme_uq_rw_most(uf->node->uq);
	struct nvme_uq_rw rw = { };
	ssize_t done = 0;
	int ret = 0;

	init_completion(&rw.done);
	while (done < count) {
		rw.len = nvme_uq_rw_part(count - done, most, block);
		ret = nvme_uq_rw_part_sync(uf, &rw, iocb, iter, opcode);
		if (ret == -E2BIG && rw.len > block) {
			most = rw.len / 2;
			continue;
		}
		if (ret)
			break;
		iov_iter_advance(iter, rw.len);
		iocb->ki_pos += rw.len;
		done += rw.len;
		if (done < count && nvme_uq_cancelled())
			break;
	}
	return done ?: ret == -E2BIG ? -EINVAL : ret;
}

/*
 * All transfers
 */

static ssize_t nvme_uq_rw_iter(struct nvme_uq_file *uf, struct kiocb *iocb,
			       struct iov_iter *iter, u8 opcode)
{
	const struct nvme_ns *ns = uf->node->ns;
	ssize_t count;
	bool several;
	s64 bytes;
	int ret;

	/* the block device may still have the old size */
	if (unlikely(nvme_uq_ns_removed(uf->node)))
		return -ENXIO;
	if (unlikely(ns->head->ids.csi != NVME_CSI_NVM || ns->head->ms))
		return -EOPNOTSUPP;
	/* only user memory can be pinned; the caller owns bio_vecs */
	if (unlikely(!iov_iter_is_bvec(iter) && !user_backed_iter(iter)))
		return -EINVAL;
	if (unlikely(!iov_iter_count(iter)))
		return 0;
	bytes = nvme_uq_node_bytes(uf->node);
	if (unlikely(bytes < 0))
		return bytes;
	count = nvme_uq_rw_count(iocb->ki_pos, iov_iter_count(iter), bytes,
				 nvme_uq_block_size(ns),
				 opcode == nvme_cmd_write);
	if (unlikely(count <= 0))
		return count;

	several = count > nvme_uq_rw_most(uf->node->uq);
	if (!several && !is_sync_kiocb(iocb)) {
		struct nvme_uq_rw *rw = kmalloc_obj(*rw, GFP_KERNEL_ACCOUNT);

		if (unlikely(!rw))
			return -ENOMEM;
		rw->iocb = iocb;
		rw->len = count;
		ret = nvme_uq_rw_start(uf, rw, iocb, iter, opcode,
				       iocb->ki_flags & IOCB_NOWAIT);
		if (likely(ret == -EIOCBQUEUED))
			return ret;
		kfree(rw);
		if (ret != -E2BIG)
			return ret;
		several = true;
	}
	if (unlikely(several && iocb->ki_flags & IOCB_NOWAIT))
		return -EAGAIN;
	return nvme_uq_rw_sync(uf, iocb, iter, count, opcode);
}

/**
 * nvme_uq_read_iter - ->read_iter() of a node
 * @iocb:	the kiocb
 * @to:		destination of the data
 *
 * Return: the number of bytes, -EIOCBQUEUED, or an error; see
 * Documentation/userspace-api/nvme-user-queues.rst.
 */
ssize_t nvme_uq_read_iter(struct kiocb *iocb, struct iov_iter *to)
{
	struct nvme_uq_file *uf = iocb->ki_filp->private_data;

	return nvme_uq_rw_iter(uf, iocb, to, nvme_cmd_read);
}

/**
 * nvme_uq_write_iter - ->write_iter() of a node
 * @iocb:	the kiocb
 * @from:	source of the data
 *
 * Return: see nvme_uq_read_iter().
 */
ssize_t nvme_uq_write_iter(struct kiocb *iocb, struct iov_iter *from)
{
	struct nvme_uq_file *uf = iocb->ki_filp->private_data;

	if (unlikely(bdev_read_only(uf->node->ns->disk->part0)))
		return -EPERM;
	/* only passthrough commands support write streams */
	if (unlikely(iocb->ki_write_stream))
		return -EINVAL;
	return nvme_uq_rw_iter(uf, iocb, from, nvme_cmd_write);
}

/**
 * nvme_uq_rw_iopoll - ->iopoll() of a node
 * @iocb:	a kiocb that polls
 * @iob:	the ring that polls
 * @flags:	flags of the poll
 *
 * Return: the number of commands of all rings that had a completion.
 */
int nvme_uq_rw_iopoll(struct kiocb *iocb, struct io_comp_batch *iob,
		      unsigned int flags)
{
	struct nvme_uq_file *uf = iocb->ki_filp->private_data;

	return uf->node->uq->ops->iopoll(uf->node->uq, iob, flags);
}

/* Size and other requests to a block device */

/**
 * nvme_uq_fsync - ->fsync() of a node
 * @file:	the open file
 * @start:	ignored
 * @end:	ignored
 * @datasync:	ignored
 *
 * A Flush is for the namespace and not for a queue, and the caller waits for
 * it. So the block layer can send it. The block layer also knows whether the
 * device has a cache.
 *
 * Return: 0 or an error.
 */
int nvme_uq_fsync(struct file *file, loff_t start, loff_t end, int datasync)
{
	struct nvme_uq_file *uf = file->private_data;

	if (nvme_uq_ns_removed(uf->node))
		return -ENXIO;
	return blkdev_issue_flush(uf->node->ns->disk->part0);
}

/**
 * nvme_uq_llseek - ->llseek() of a node
 * @file:	the open file
 * @offset:	offset to seek to
 * @whence:	SEEK_SET and so on
 *
 * Return: the position, or an error.
 */
loff_t nvme_uq_llseek(struct file *file, loff_t offset, int whence)
{
	struct nvme_uq_file *uf = file->private_data;
	s64 bytes = nvme_uq_node_bytes(uf->node);

	return bytes < 0 ? bytes :
		fixed_size_llseek(file, offset, whence, bytes);
}

/**
 * nvme_uq_ioctl_size - BLKGETSIZE64 and BLKSSZGET
 * @uf:		the open file
 * @cmd:	BLKGETSIZE64 or BLKSSZGET
 * @argp:	argument
 *
 * Return: 0 or -EFAULT; for BLKGETSIZE64 also -ENXIO or -ENODEV if the
 * namespace is gone.
 */
int nvme_uq_ioctl_size(struct nvme_uq_file *uf, unsigned int cmd,
		       void __user *argp)
{
	s64 bytes = nvme_uq_node_bytes(uf->node);

	if (cmd == BLKSSZGET)
		return put_user((int)nvme_uq_block_size(uf->node->ns),
				(int __user *)argp);
	return bytes < 0 ? bytes : put_user((u64)bytes, (u64 __user *)argp);
}
