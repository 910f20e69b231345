/* SPDX-License-Identifier: GPL-2.0 */
/*
 * NVMe user queues: read(2), write(2), and the other users of ->read_iter() and
 * ->write_iter(): vectors, aio, io_uring's READ and WRITE.
 *
 * A transfer is one kiocb. It is sent as one command. If it exceeds the maximum
 * length of a command, it is sent as several commands, one after the other. A
 * command of a kiocb has a struct nvme_uq_rw, as an io_uring command has a
 * struct io_uring_cmd. States:
 *
 *   prepared	The submitter owns the struct: on its stack if it waits, else
 *		allocated. User memory is pinned. If the command fails here, the
 *		submitter undoes the preparation, and the kiocb was never
 *		queued.
 *   in flight	After nvme_uq_tag_arm() under sq_lock, a tag points to the
 *		struct. A submitter that does not wait no longer touches the
 *		struct or the kiocb.
 *   done	The device has completed the command, or was disabled. No tag
 *		points to the struct any more. Data is unmapped. The struct is
 *		on a list of the context that found the completion.
 *   ended	->ki_complete() was called, or the waiting task woken, once.
 *		Memory is unpinned, or a work item will mark it dirty and unpin
 *		it. The work item does not use the kiocb.
 *
 * Lifetime:
 *
 *   - The kiocb holds its open file, as an io_uring command does, until
 *     ->ki_complete() is called or ->read_iter() returns. So the node,
 *     namespace, controller and queue stay as long as the command.
 *   - A task that waits for the device cannot be interrupted, not even by
 *     SIGKILL, because the device may be writing to its memory. A timeout or a
 *     reset ends the wait. A task that waits for a tag can be killed, because
 *     nothing was sent.
 *   - An interrupt handler may end a command, so this must not sleep. Memory
 *     for a read is marked dirty before the command is sent. If it was written
 *     back meanwhile, a work item marks it again. The kiocb does not wait for
 *     that: marking takes the lock of the page, which another task may hold for
 *     any time.
 *
 * The locks are those of all commands, see private.h. Limits, claims, the order
 * of waiters, timeouts, freezes and resets treat all commands alike.
 */
#ifndef _NVME_UQ_RW_H
#define _NVME_UQ_RW_H

#include <linux/completion.h>
#include <linux/limits.h>
#include <linux/math.h>
#include <linux/minmax.h>

#include "private.h"

/*
 * BLKGETSIZE64 of a 32-bit task, which encodes sizeof(size_t) in the command.
 */
#define NVME_UQ_BLKGETSIZE64_32	_IOR(0x12, 114, int)

/**
 * struct nvme_uq_rw - a command of a kiocb
 * @next:	next in nvme_uq_done.rw
 * @iocb:	the kiocb to complete, or NULL if a task waits for @done
 * @pos:	position in bytes
 * @user:	pinned user memory, see struct nvme_uq_pdu
 * @len:	length in bytes
 * @status:	as in struct nvme_uq_pdu
 * @control:	bits for the command, such as NVME_RW_FUA
 * @done:	completed with the command, if a task waits
 * @work:	marks memory dirty and unpins it, if no task waits
 * @file:	reference of @work to the open file, which holds the queue and
 *		the module
 */
struct nvme_uq_rw {
	struct nvme_uq_rw	*next;
	struct kiocb		*iocb;
	u64			pos;
	unsigned long		user;
	u32			len;
	int			status;
	u16			control;
	union {
		struct completion	done;
		struct {
			struct work_struct	work;
			struct file		*file;
		};
	};
};

/**
 * nvme_uq_rw_count - number of bytes of a transfer
 * @pos:	start of the transfer
 * @count:	bytes requested, not 0
 * @size:	size of the namespace, in bytes
 * @block:	size of a logical block, a power of two
 * @write:	true for a write
 *
 * Like the block device: a transfer ends at the end of the namespace.
 *
 * Return: the number of bytes. If @pos is not before the end, 0 for a read and
 * -ENOSPC for a write. -EINVAL if the transfer does not consist of whole
 * blocks.
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
 * @most:	maximum number of bytes of a command
 * @block:	size of a logical block, a power of two
 *
 * Return: the length, in whole blocks; at least one block.
 */
static inline u32 nvme_uq_rw_part(size_t count, u64 most, u32 block)
{
	return min_t(u64, count, max(round_down(most, block), block));
}

/**
 * nvme_uq_rw_failed - check whether a command has failed
 * @status:	an errno, or the completion's status field without the phase
 *
 * Bits of the status field, such as More, may be set even on success.
 *
 * Return: true if the command has failed.
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
