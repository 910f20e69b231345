/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * NVMe user queues: /dev/ngXnYqZ
 */
#ifndef _UAPI_LINUX_NVME_UQ_H
#define _UAPI_LINUX_NVME_UQ_H

#include <linux/ioctl.h>
#include <linux/types.h>

/**
 * DOC: Commands
 *
 * A node takes NVME_URING_CMD_IO and NVME_URING_CMD_IO_VEC with a struct
 * nvme_uring_cmd, from <linux/nvme_ioctl.h>, in an SQE of 128 bytes. The CQE is
 * one of 32 bytes. Its result is
 *
 * * 0: the command was done. The first extra word is the command's result.
 * * positive: the status that the device ended it with, without the phase.
 * * negative: an errno. The device has not seen the command, but for EINTR.
 *
 * A command is overdue a second after its timeout_ms, or after the controller's
 * io_timeout where that is 0. Then it is aborted. If it has not ended when the
 * longer of the two has passed again, and another second, the controller is
 * reset.
 *
 * A node also takes the ioctls NVME_IOCTL_ID, NVME_IOCTL_ADMIN_CMD,
 * NVME_IOCTL_ADMIN64_CMD, NVME_IOCTL_IO_CMD, NVME_IOCTL_IO64_CMD,
 * NVME_IOCTL_IO64_CMD_VEC and NVME_IOCTL_SUBMIT_IO, which do what they do on
 * ngXnY and do not use the user queue. Those that begin with NVME_UQ_IOCTL are
 * below.
 */

/**
 * DOC: Errors
 *
 * * EACCES: the opcode needs CAP_SYS_ADMIN, or the node open for writing.
 * * EBUSY: another open file has claimed the queue, see NVME_UQ_IOCTL_CLAIM.
 * * EFAULT: the buffer, or the metadata buffer, is not mapped, not writable by
 *   a command that reads, or not within the registered buffer.
 * * EINTR: the controller was reset or removed while the command was in flight.
 *   Whether it was done is not known. Also: the command was cancelled, or its
 *   task killed, while it waited for its turn; then it was not done.
 * * EINVAL: @flags is not 0; @nsid is not the node's namespace; the buffer or
 *   its length is not a multiple of four; it is more than the controller takes
 *   at once; there is metadata and the namespace has none. Where the device has
 *   no SGLs also: the command could go beyond the buffer, its length is not
 *   known to the driver, or the buffer has holes that PRPs cannot describe. The
 *   same for metadata where there are no SGLs for it.
 * * ENODEV: the controller is being removed.
 * * ENOMEM: no memory, or no room to map the buffer for DMA.
 * * ENOTTY: not an operation of this node. Admin commands are among these.
 * * ENXIO: the namespace was removed, or the queue is absent: the last reset
 *   did not bring it up.
 * * EOPNOTSUPP: the ring has no SQEs of 128 or no CQEs of 32 bytes.
 *
 * A queue that is full, a limit that is reached, and a controller that is being
 * reset make a command wait; io_uring does the waiting elsewhere, so a
 * submission does not block.
 */

/**
 * DOC: Claims
 *
 * ioctl(fd, NVME_UQ_IOCTL_CLAIM). A completion queue shows the command ids,
 * results and statuses of everybody who uses the queue. So only an open file
 * that has the queue to itself can map it. This ioctl gives it the queue, and
 * removes from the completion queue what was there before. Until the open file
 * is gone, with all descriptors and mappings of it, commands that come by any
 * other open file of any node of the queue fail with EBUSY, those that wait at
 * that time among them. Ioctls of other open files are not affected. A
 * descriptor that is inherited or passed on is the same open file and has the
 * same rights.
 *
 * Return: 0, also if the open file has claimed the queue before. Errors:
 *
 * * EACCES: the file is not open for reading and writing.
 * * EBUSY: another open file has claimed the queue, or a command is in flight,
 *   whoever sent it.
 * * ENOMEM: no memory.
 * * ENXIO: the namespace was removed, or the queue is absent.
 * * EOPNOTSUPP: on this machine a completion queue cannot be mapped: the CPU
 *   does not see what the device writes without help, or memory is encrypted.
 */
#define NVME_UQ_IOCTL_CLAIM	_IO('N', 0x60)

/**
 * DOC: Mapping
 *
 * An open file that has claimed its queue can map two things, at these offsets:
 *
 * * NVME_UQ_OFF_CQ: the completion queue, @entries of struct nvme_uq_cqe.
 * * NVME_UQ_OFF_INFO: one page that starts with struct nvme_uq_info.
 *
 * Both are for reading, with MAP_SHARED. A child of fork() has no such mapping;
 * it has the descriptor, and may map by itself. They are not dumped, cannot
 * grow, and cannot be the buffer of any I/O. Errors of mmap():
 *
 * * EACCES: PROT_WRITE or PROT_EXEC. A later mprotect() to these fails the same
 *   way.
 * * EINVAL: not MAP_SHARED; an offset that is neither; a length beyond what
 *   there is, rounded up to pages.
 * * EPERM: the open file has not claimed the queue.
 * * ENXIO: the queue has no memory now: it was never created, or the driver was
 *   unbound from the controller.
 *
 * What is read there is a hint. The kernel takes nothing from these pages, and
 * all completions are reaped by the kernel, as without a mapping; they only
 * tell when to enter it.
 *
 * A mapping of the completion queue outlives resets. Where a reset gives the
 * queue other memory, because its size has changed, the mapping shows that from
 * then on; pages beyond its end, and all pages while there is no memory or once
 * the driver was unbound, raise SIGBUS. @state and @generation of the
 * information page change before that, and the information page itself stays
 * readable as long as it is mapped.
 */
#define NVME_UQ_OFF_CQ		0x00000000
#define NVME_UQ_OFF_INFO	0x40000000

/**
 * struct nvme_uq_cqe - an entry of the completion queue, as NVMe defines it
 * @result:	of the command, little-endian
 * @sq_head:	how far the device has read the submission queue, little-endian
 * @sq_id:	id of the submission queue, little-endian
 * @command_id:	which command; a number of the kernel's own
 * @status:	little-endian; its bit 0 is the phase
 */
struct nvme_uq_cqe {
	__le64	result;
	__le16	sq_head;
	__le16	sq_id;
	__u16	command_id;
	__le16	status;
};

/* Values of nvme_uq_info.version. */
#define NVME_UQ_INFO_V1		1

/* Values of nvme_uq_info.state. */
#define NVME_UQ_STATE_LIVE	0
#define NVME_UQ_STATE_DOWN	1
#define NVME_UQ_STATE_GONE	2

/* Parts of nvme_uq_info.head, and what it is when there is no such entry. */
#define NVME_UQ_HEAD_MASK	0x0000ffff
#define NVME_UQ_HEAD_PHASE	0x00010000
#define NVME_UQ_HEAD_NONE	0x0000ffff

/**
 * struct nvme_uq_info - what the kernel says of a queue that is mapped
 * @version:	NVME_UQ_INFO_V1. Higher ones have the same fields and more.
 * @size:	of this structure in bytes, as far as the kernel fills it in
 * @entries:	of the completion queue; changes with @generation only
 * @entry_size:	in bytes, 16
 * @generation:	one more each time the queue was created on the controller, when
 *		@head starts anew and commands that were in flight have ended
 * @state:	NVME_UQ_STATE_LIVE; NVME_UQ_STATE_DOWN if the queue is not on the
 *		controller now, during a reset or after one that did not bring it
 *		up; NVME_UQ_STATE_GONE if it never will be again for this file:
 *		the controller or the namespace was removed, or the driver was
 *		unbound
 * @head:	which entry is the next to be written, in NVME_UQ_HEAD_MASK, and
 *		NVME_UQ_HEAD_PHASE if its phase will then be 1. One word, so that
 *		they are of the same moment. NVME_UQ_HEAD_NONE, which is beyond
 *		any queue's end, while there is no queue to write to.
 * @submitted:	commands that the device was told of, modulo 2^32, since the claim
 * @completed:	commands that have ended, in whatever way, modulo 2^32, since the
 *		claim. @submitted less @completed are in flight. When they are
 *		equal nothing is, and then every command has its completion in
 *		its ring or has yet to be submitted.
 * @limit:	how many commands of this open file can be in flight: the least of
 *		its limit, that of the queue, and the queue's size
 *
 * A completion is there when the entry of @head is within the mapping and bit 0
 * of its @status is what NVME_UQ_HEAD_PHASE of @head says; whoever then reads
 * more of the entry needs a read barrier. That takes two reads, @head and
 * @status. If there is none, a reader has to enter the kernel all the same when
 * @state is not NVME_UQ_STATE_LIVE or @generation has changed, as commands may have
 * ended without a completion; and when nothing is in flight, as others may have
 * reaped: timeouts, a freeze, or another ring that uses the file.
 *
 * The kernel writes each field at once and in this order: going down, @state,
 * then @head, which becomes NVME_UQ_HEAD_NONE; then the commands in flight end.
 * Coming up, @entries, @head and counters, then @generation, then @state. A
 * reader reads @head first, with acquire semantics, then the entry; then @state,
 * @generation, @completed and @submitted, in this order and each with acquire
 * semantics. A reset between two of these reads can make it enter the kernel
 * once for nothing. It is not missed: @generation is another one from then on.
 */
struct nvme_uq_info {
	__u32	version;
	__u32	size;
	__u32	entries;
	__u32	entry_size;
	__u32	generation;
	__u32	state;
	__u32	head;
	__u32	submitted;
	__u32	completed;
	__u32	limit;
};

/* Values of nvme_uq_limit.scope. */
#define NVME_UQ_LIMIT_FILE	0
#define NVME_UQ_LIMIT_QUEUE	1

/**
 * struct nvme_uq_limit - how many commands may be in flight
 * @scope:	NVME_UQ_LIMIT_FILE: those of this open file. What is set may be
 *		more than the queue's file_limit in sysfs, and then that holds, and
 *		is what NVME_UQ_IOCTL_GET_LIMIT says.
 *		NVME_UQ_LIMIT_QUEUE: those of the queue, of whatever file.
 * @limit:	1 up to the depth of the queue, which is how many there can be
 *		without a limit
 * @in_flight:	how many there are now. Output.
 * @waiting:	how many wait for their turn. Output.
 *
 * Argument of NVME_UQ_IOCTL_SET_LIMIT, which ignores the outputs, and of
 * NVME_UQ_IOCTL_GET_LIMIT, which fills in all but @scope.
 */
struct nvme_uq_limit {
	__u32	scope;
	__u32	limit;
	__u32	in_flight;
	__u32	waiting;
};

/**
 * DOC: Limits
 *
 * ioctl(fd, NVME_UQ_IOCTL_SET_LIMIT, &limit), a struct nvme_uq_limit. Takes effect
 * at once: a limit that is raised lets those go who wait, one that is lowered
 * below what is in flight lets nobody go until it has become less. A limit of
 * the depth is none. Limits survive a reset. That of an open file ends with it,
 * that of a queue with the controller.
 *
 * A command beyond a limit that may not wait is EAGAIN, so that io_uring gives
 * it to a worker. There it waits, first for its file's limit, then for the
 * queue, in the order of arrival, and nobody who comes later goes first.
 *
 * Return: 0, or an error:
 *
 * * EACCES: NVME_UQ_LIMIT_QUEUE without CAP_SYS_ADMIN.
 * * EFAULT: the argument cannot be read.
 * * EINVAL: @scope is unknown; @limit is 0 or more than the depth.
 * * ENXIO: the namespace was removed, or the queue has no memory now.
 */
#define NVME_UQ_IOCTL_SET_LIMIT	_IOW('N', 0x61, struct nvme_uq_limit)

/**
 * DOC: Limits, asking for them
 *
 * ioctl(fd, NVME_UQ_IOCTL_GET_LIMIT, &limit), a struct nvme_uq_limit. @limit is
 * the depth if there is none.
 *
 * Return: 0, or an error: EFAULT, EINVAL for an unknown @scope, or ENXIO as for
 * NVME_UQ_IOCTL_SET_LIMIT.
 */
#define NVME_UQ_IOCTL_GET_LIMIT	_IOWR('N', 0x62, struct nvme_uq_limit)

#endif /* _UAPI_LINUX_NVME_UQ_H */
