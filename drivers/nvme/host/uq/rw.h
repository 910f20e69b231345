/* SPDX-License-Identifier: GPL-2.0 */
/*
 * NVMe user queues: read(2), write(2), and what calls ->read_iter() and
 * ->write_iter(): vectors, aio, io_uring's READ and WRITE.
 *
 * A transfer is one kiocb. It is sent as one command, or if it is longer than a
 * command can be, as several, one after the other. A command of a kiocb has a
 * struct nvme_uq_rw where one of io_uring has its struct io_uring_cmd. States:
 *
 *   prepared	The struct is the submitter's: on its stack if it waits, else
 *		allocated. User memory is pinned. If the command fails here, the
 *		submitter undoes all of it, and the kiocb was never seen.
 *   in flight	From nvme_uq_tag_arm() under sq_lock on, a tag points to the struct,
 *		and a submitter that does not wait touches neither it nor the
 *		kiocb any more.
 *   done	The tag does not point to it any more: the device has completed the
 *		command, or was disabled. Data is unmapped. The struct is on a list,
 *		which the context that has found the completion takes along when
 *		it gives up cq_lock.
 *   ended	Memory is unpinned, then ->ki_complete() is called, or the task that
 *		waits is woken, once.
 *
 * What holds what:
 *
 *   - The kiocb holds its open file, as an io_uring command does, until
 *     ->ki_complete() is called or ->read_iter() returns. So the node, namespace,
 *     controller and queue stay for the whole life of a command.
 *   - A task that waits for the device cannot be interrupted, not even by SIGKILL:
 *     the device may be writing to its memory. A timeout or a reset ends that. A
 *     task that waits for a tag can be killed, as nothing has been sent.
 *   - The context that ends a command may be an interrupt, and so must not sleep:
 *     memory that is read to is marked dirty before it is sent. If it was written
 *     back meanwhile, the queue's work item marks it again and ends the command.
 *
 * Locks are those of all commands, see private.h. Limits, claims, order of waiters,
 * timeouts, freezes and resets do not know whose command it is.
 */
#ifndef _NVME_UQ_RW_H
#define _NVME_UQ_RW_H

#include <linux/completion.h>
#include <linux/limits.h>
#include <linux/math.h>
#include <linux/minmax.h>

#include "private.h"

/* BLKGETSIZE64 of a task with 32 bits, for which its size_t is a part of it. */
#define NVME_UQ_BLKGETSIZE64_32	_IOR(0x12, 114, int)

/**
 * struct nvme_uq_rw - a command of a kiocb
 * @next:	next in nvme_uq.rw_done
 * @iocb:	the kiocb to complete, or NULL if a task waits for @done
 * @pos:	position in bytes
 * @user:	pinned user memory, see struct nvme_uq_pdu
 * @len:	length in bytes
 * @status:	as in struct nvme_uq_pdu
 * @control:	bits for the command, such as NVME_RW_FUA
 * @opcode:	nvme_cmd_read or nvme_cmd_write
 * @nowait:	the command must not sleep for a tag
 * @unpolled:	the queue is polled, but not for this command
 * @done:	completed when the command is done, if a task waits
 * @dirty:	entry in nvme_uq.rw_dirty, if no task waits
 */
struct nvme_uq_rw {
	struct nvme_uq_rw	*next;
	struct kiocb		*iocb;
	u64			pos;
	unsigned long		user;
	u32			len;
	int			status;
	u16			control;
	u8			opcode;
	bool			nowait;
	bool			unpolled;
	union {
		struct completion	done;
		struct llist_node	dirty;
	};
};

/**
 * nvme_uq_rw_count - number of bytes of a transfer
 * @pos:	where it starts
 * @count:	bytes that are asked for, not 0
 * @size:	of the namespace, in bytes
 * @block:	size of a logical block, a power of two
 * @write:	it is a write
 *
 * As the block device: a read ends at the end of the namespace, and there is
 * nothing behind it.
 *
 * Return: the number; 0 for a read, -ENOSPC for a write, behind the end; -EINVAL if
 * what is left is not of whole blocks.
 */
static inline ssize_t nvme_uq_rw_count(u64 pos, size_t count, u64 size,
				       u32 block, bool write)
{
	if (unlikely(pos >= size))
		return write ? -ENOSPC : 0;
	if (unlikely(count > size - pos))
		count = size - pos;
	return unlikely((pos | count) & (block - 1)) ? -EINVAL : count;
}

/**
 * nvme_uq_rw_part - length of the next command of a transfer
 * @count:	bytes that are left, in whole blocks
 * @most:	the most bytes that a command can transfer
 * @block:	size of a logical block, a power of two
 *
 * Return: the length, in whole blocks; one block at least.
 */
static inline u32 nvme_uq_rw_part(size_t count, u64 most, u32 block)
{
	return min_t(u64, count, max(round_down(most, block), block));
}

/**
 * nvme_uq_rw_failed - check whether a command has failed
 * @status:	an errno, or the status field of its completion without the phase
 *
 * Bits of the status field such as More may be set although the command succeeded.
 *
 * Return: true if it has.
 */
static inline bool nvme_uq_rw_failed(int status)
{
	return status < 0 || status & NVME_SCT_SC_MASK;
}

/* rw.c */
ssize_t nvme_uq_read_iter(struct kiocb *iocb, struct iov_iter *to);
ssize_t nvme_uq_write_iter(struct kiocb *iocb, struct iov_iter *from);
int nvme_uq_rw_iopoll(struct kiocb *iocb, struct io_comp_batch *iob,
		      unsigned int flags);
int nvme_uq_fsync(struct file *file, loff_t start, loff_t end, int datasync);
loff_t nvme_uq_llseek(struct file *file, loff_t offset, int whence);
int nvme_uq_ioctl_size(struct nvme_uq_file *uf, unsigned int cmd,
		       void __user *argp);

#endif /* _NVME_UQ_RW_H */
