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
 * nvme_uring_cmd, from <linux/nvme_ioctl.h>, in an SQE of 128 bytes. The CQE
 * has 32 bytes. Its result is
 *
 * * 0: the command succeeded. The first extra word is the command's result.
 * * positive: the status of the device, without the phase.
 * * negative: an errno. The device has not received the command, except for
 *   EINTR.
 *
 * Timeouts: the field timeout_ms of struct nvme_uring_cmd is the timeout of the
 * command; 0 means the controller's timeout of I/O commands, which is
 * io_timeout in the controller's sysfs directory. A command is overdue one
 * second after its timeout, and is then aborted. If it does not complete within
 * the longer of the two timeouts and one more second, the controller is reset.
 *
 * Lengths: the buffer can be as long as max_hw_sectors_kb in
 * /sys/block/nvmeXnY/queue/ says, and its address and length are multiples of
 * four. Metadata can be up to 1 MiB.
 *
 * Waiting: a command waits while as many commands are in flight as a limit or
 * the depth of the queue allows, and while the controller is reset or frozen.
 * It waits in a worker of io_uring, so that io_uring_enter() does not block;
 * this costs several times as much as a command that need not wait. A program
 * avoids it by submitting no more commands than the limit of its open file, as
 * long as the queue has tags for all open files that use it: see
 * NVME_UQ_IOCTL_GET_LIMIT, and @limit of struct nvme_uq_info.
 *
 * Doorbells: commands share one write to the doorbell if io_uring submits three
 * or more requests in one call, as io_uring plugs from there on.
 *
 * A node also takes the ioctls NVME_IOCTL_ID, NVME_IOCTL_ADMIN_CMD,
 * NVME_IOCTL_ADMIN64_CMD, NVME_IOCTL_IO_CMD, NVME_IOCTL_IO64_CMD,
 * NVME_IOCTL_IO64_CMD_VEC and NVME_IOCTL_SUBMIT_IO, which do what they do on
 * ngXnY and do not use the user queue. The NVME_UQ_IOCTL_* are below.
 */

/**
 * DOC: Errors
 *
 * * EACCES: the opcode needs CAP_SYS_ADMIN, or the node open for writing.
 * * EBUSY: another open file has claimed the queue, see NVME_UQ_IOCTL_CLAIM.
 * * EFAULT: the buffer, or the metadata buffer, is not mapped, not writable by
 *   a command that reads, or not within the registered buffer or the memory of
 *   the open file.
 * * EINTR: the controller was reset or removed while the command was in flight.
 *   It is not known whether the device has executed it. Also: the command was
 *   cancelled, or its task killed, while it waited; then the device has not
 *   received it.
 * * EINVAL: the field flags is neither 0 nor NVME_UQ_CMD_MEMORY, or the latter
 *   with NVME_URING_CMD_IO_VEC or IORING_URING_CMD_FIXED; nsid is not the
 *   node's namespace; the address or length of the buffer is not a multiple of
 *   four; the buffer is longer than the controller's limit, or the metadata
 *   longer than 1 MiB; there is metadata and the namespace has none, or there
 *   is no data. If the device does not support SGLs also: the command could
 *   transfer more than the buffer holds, the length of its transfer is not
 *   known to the driver, or PRPs cannot describe the buffer. The same for
 *   metadata if the device does not support SGLs for it.
 * * ENODEV: the controller is being removed.
 * * ENOMEM: no memory, or the buffer could not be mapped for DMA as long as the
 *   command's timeout.
 * * ENOTTY: not an operation of this node, for example an admin command.
 * * ENXIO: the namespace was removed, or the queue is not available: the last
 *   reset did not create it.
 * * EOPNOTSUPP: the ring does not have SQEs of 128 and CQEs of 32 bytes.
 * * EOVERFLOW: the lengths in a vector of a registered buffer add up to more
 *   than a size can be.
 */

/* States of a queue: nvme_uq_info.state, and by name the attribute state. */
#define NVME_UQ_STATE_LIVE	0
#define NVME_UQ_STATE_DOWN	1
#define NVME_UQ_STATE_GONE	2

/**
 * DOC: Claims
 *
 * ioctl(fd, NVME_UQ_IOCTL_CLAIM). A completion queue shows the command ids,
 * results and statuses of all users of the queue. So only an open file that has
 * exclusive use of the queue can map it. This ioctl gives the open file
 * exclusive use, and removes earlier completions from the completion queue.
 * Until the open file is released, with all its descriptors and mappings,
 * commands that are submitted to any other open file of any node of the queue
 * fail with EBUSY, and so do those that are waiting at that time. Ioctls of
 * other open files are not affected. A descriptor that is inherited or passed
 * on refers to the same open file and has the same rights.
 *
 * Return: 0, also if the open file has claimed the queue before. Errors:
 *
 * * EACCES: the file is not open for reading and writing.
 * * EBUSY: another open file has claimed the queue, or a command of any open
 *   file is in flight.
 * * ENOMEM: no memory.
 * * ENXIO: the namespace was removed, or the queue is not available.
 * * EOPNOTSUPP: a completion queue cannot be mapped on this machine: the device
 *   is not cache coherent, or memory is encrypted. Or it had to be put together
 *   from scattered memory when the last reset created it.
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
 * Both are mapped for reading, with MAP_SHARED. A child of fork() does not
 * inherit the mappings; it has the descriptor and may map by itself. The
 * mappings are not dumped, cannot grow, and cannot be the buffer of any I/O.
 * Errors of mmap():
 *
 * * EACCES: PROT_WRITE or PROT_EXEC. A later mprotect() to these fails the same
 *   way.
 * * EINVAL: not MAP_SHARED; another offset; a length beyond the size, rounded
 *   up to pages.
 * * EPERM: the open file has not claimed the queue.
 * * ENXIO: the queue has no memory now: it was never created, or the driver was
 *   unbound from the controller.
 *
 * The mapped data is a hint. The kernel does not read these pages, except for
 * what the device writes, and reaps all completions, as without a mapping. The
 * mapping only shows when it is useful to enter the kernel.
 *
 * A mapping of the completion queue survives resets. If a reset allocates other
 * memory for the queue, because its size has changed, the mapping shows that
 * from then on. Pages beyond its end, and all pages while there is no memory or
 * after the driver was unbound, raise SIGBUS. @state and @generation of the
 * information page change before that, and the information page itself stays
 * readable as long as it is mapped.
 */
#define NVME_UQ_OFF_CQ		0x00000000
#define NVME_UQ_OFF_INFO	0x40000000

/**
 * struct nvme_uq_cqe - an entry of the completion queue, as NVMe defines it
 * @result:	result of the command, little-endian
 * @sq_head:	head of the submission queue, little-endian
 * @sq_id:	id of the submission queue, little-endian
 * @command_id:	id of the command, assigned by the kernel
 * @status:	status, little-endian; bit 0 is the phase
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

/* Parts of nvme_uq_info.head, and its value when there is no such entry. */
#define NVME_UQ_HEAD_MASK	0x0000ffff
#define NVME_UQ_HEAD_PHASE	0x00010000
#define NVME_UQ_HEAD_NONE	0x0000ffff

/**
 * struct nvme_uq_info - information page of a claimed queue
 * @version:	NVME_UQ_INFO_V1. Higher versions have the same fields and more.
 * @size:	size of this structure in bytes, as far as the kernel fills it
 *		in
 * @entries:	entries of the completion queue; changes with @generation only
 * @entry_size:	size of an entry in bytes, 16
 * @generation:	incremented each time the queue is created on the controller,
 *		when @head starts anew and all earlier commands have ended
 * @state:	NVME_UQ_STATE_LIVE: the queue is on the controller.
 *		NVME_UQ_STATE_DOWN: it is not, during a reset or after one that
 *		did not create it. NVME_UQ_STATE_GONE: it will not come back for
 *		this open file, because the controller or the namespace was
 *		removed, or the driver was unbound.
 * @head:	index of the next entry to be written, in NVME_UQ_HEAD_MASK, and
 *		NVME_UQ_HEAD_PHASE if its phase will then be 1. One word, so
 *		that both are consistent. NVME_UQ_HEAD_NONE, which is beyond the
 *		end of any queue, while the queue is not on the controller.
 * @submitted:	commands that were passed to the device, modulo 2^32, since the
 *		claim
 * @completed:	commands that have ended, in whatever way, modulo 2^32, since
 *		the claim. @submitted minus @completed are in flight. If they
 *		are equal, all have ended, but a CQE may be posted only when the
 *		task enters the kernel.
 * @limit:	commands of this open file that can be in flight: the minimum of
 *		its limit, that of the queue, and the depth of the queue
 *
 * A completion is there when the entry at @head is within the mapping and bit 0
 * of its @status equals NVME_UQ_HEAD_PHASE of @head; a read barrier is needed
 * before other fields of the entry are read. These are two reads, of @head and
 * of @status. If there is no completion, the reader still has to enter the
 * kernel when @state is not NVME_UQ_STATE_LIVE or @generation has changed, as
 * commands may have ended without a completion; and when no command is in
 * flight, as completions may have been reaped by a timeout, a freeze, or
 * another ring that uses the file.
 *
 * The kernel writes each field by a single store and in this order. Going down:
 * @state, then @head, which becomes NVME_UQ_HEAD_NONE; then the commands in
 * flight are completed. Coming up: @entries, @head and the counters, then
 * @generation, then @state. A reader reads @head first, with acquire semantics,
 * then the entry; then @state, @generation, @completed and @submitted, in this
 * order and each with acquire semantics. A reset between two of these reads can
 * make the reader enter the kernel once without need. The reset is not missed,
 * because @generation differs from then on.
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
 * struct nvme_uq_limit - limit of commands in flight
 * @scope:	NVME_UQ_LIMIT_FILE: commands of this open file. If the limit is
 *		higher than file_limit of the queue in sysfs, then file_limit
 *		applies, and NVME_UQ_IOCTL_GET_LIMIT returns it.
 *		NVME_UQ_LIMIT_QUEUE: commands of all open files of the queue.
 * @limit:	from 1 to the depth of the queue, which means no limit
 * @in_flight:	commands in flight now. Output.
 * @waiting:	commands waiting now. Output.
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
 * ioctl(fd, NVME_UQ_IOCTL_SET_LIMIT, &limit), a struct nvme_uq_limit. The limit
 * applies at once. If it is raised, waiting commands are submitted; if it is
 * lowered below the number of commands in flight, no command is submitted until
 * that has become less. A limit equal to the depth is no limit. Limits survive
 * a reset. The limit of an open file ends with the file, that of a queue with
 * the controller.
 *
 * A nonblocking command beyond a limit gets EAGAIN, so that io_uring passes it
 * to a worker. There it waits first for the limit of its file, then for the
 * queue, in order of arrival. A command that arrives later does not overtake
 * it.
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
 * DOC: Reading limits
 *
 * ioctl(fd, NVME_UQ_IOCTL_GET_LIMIT, &limit), a struct nvme_uq_limit. @limit is
 * the depth of the queue if there is no limit.
 *
 * Return: 0, or an error: EFAULT, EINVAL for an unknown @scope, or ENXIO as for
 * NVME_UQ_IOCTL_SET_LIMIT.
 */
#define NVME_UQ_IOCTL_GET_LIMIT	_IOWR('N', 0x62, struct nvme_uq_limit)

/**
 * DOC: Memory
 *
 * ioctl(fd, NVME_UQ_IOCTL_ALLOC_MEMORY, &memory), a struct nvme_uq_memory. The
 * driver allocates memory for the open file and maps it for the device. A command
 * with its data there costs less than any other, as nothing is pinned or mapped
 * for it, and with an IOMMU nothing is unmapped. An open file has memory once. It
 * is zeroed.
 *
 * Commands name it by NVME_UQ_CMD_MEMORY in the field flags of struct
 * nvme_uring_cmd. The field addr is then an offset in the memory. A command that
 * lies within one piece, see @piece, costs the least. Metadata is elsewhere, at a
 * user address, as without the flag.
 *
 * The memory is mapped to user space with MAP_SHARED at NVME_UQ_OFF_MEMORY or a
 * multiple of the page size beyond it, to read and, if the file is open for writing,
 * to write. It can be read and written by system calls, as they copy, but it cannot
 * be the buffer of direct I/O or be registered with io_uring. The mapping
 * is not dumped, and cannot grow. A child of fork() inherits it and shares the
 * memory, as with any shared mapping; madvise(MADV_DONTFORK) prevents it. A
 * descriptor that is inherited or passed on refers to the same open file and the
 * same memory. Other open files, of the same node too, have no access to it.
 *
 * The memory counts against RLIMIT_MEMLOCK of the user that has asked for it,
 * together with registered buffers of io_uring, unless the task has
 * CAP_IPC_LOCK; against the memory cgroup of the task; and against the parameter
 * nvme.user_queue_memory. It is freed with the last descriptor, mapping and
 * command of the open file; there is no way to free it earlier. It stays as it is
 * when the controller is reset or the namespace is removed. When the controller is
 * removed or its driver unbound the memory is taken away, and mappings of it
 * raise SIGBUS.
 *
 * Return: 0, or an error:
 *
 * * EBUSY: the open file has memory.
 * * EFAULT: the argument cannot be read or written.
 * * EINVAL: @size is 0, or @flags is not.
 * * ENOMEM: no memory, or RLIMIT_MEMLOCK would be exceeded.
 * * ENOSPC: nvme.user_queue_memory would be exceeded.
 * * ENXIO: the namespace was removed, or the driver was unbound.
 * * EOPNOTSUPP: there can be no such memory on this machine: the device is not
 *   cache coherent, its memory may be bounced, or memory is encrypted.
 *
 * Errors of mmap():
 *
 * * EACCES: PROT_EXEC, or PROT_WRITE and the file is not open for writing.
 * * EINVAL: not MAP_SHARED, or beyond the end of the memory.
 * * ENXIO: the open file has no memory, or it was taken away.
 */
#define NVME_UQ_IOCTL_ALLOC_MEMORY	_IOWR('N', 0x63, struct nvme_uq_memory)

/**
 * struct nvme_uq_memory - memory of an open file
 * @size:	bytes that are wanted. On return the size of the memory, which is at
 *		least that: it is rounded up to pages, and by at most an eighth to
 *		whole pieces.
 * @piece:	size of a piece in bytes. Output. What lies between two multiples of
 *		it is contiguous for the device.
 * @flags:	must be 0
 */
struct nvme_uq_memory {
	__u64	size;
	__u64	piece;
	__u64	flags;
};

/* In nvme_uring_cmd.flags: addr is an offset in the memory of the open file. */
#define NVME_UQ_CMD_MEMORY	(1 << 2)

#define NVME_UQ_OFF_MEMORY	0x80000000

#endif /* _UAPI_LINUX_NVME_UQ_H */
