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
 * A node accepts NVME_URING_CMD_IO and NVME_URING_CMD_IO_VEC with a struct
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
 * second after its timeout, and is then aborted. If the command does not
 * complete within the longer of the two timeouts and one more second, the
 * controller is reset.
 *
 * Lengths: the maximum length of a buffer is the attribute max_transfer of the
 * node. Its address and length must be multiples of four. The maximum length of
 * metadata is 1 MiB.
 *
 * Waiting: a command waits if the number of commands in flight has reached a
 * limit or the depth of the queue. It also waits while the controller is reset
 * or frozen. A worker of io_uring waits for it, so that io_uring_enter() does
 * not block. This costs more than a command that need not wait.
 * To avoid waiting, a program submits no more commands than the limit of its
 * open file. The queue must also have tags for all open files that use it. See
 * NVME_UQ_IOCTL_GET_LIMIT, and @limit of struct nvme_uq_info.
 *
 * Doorbells: commands share one write to the doorbell if io_uring submits three
 * or more requests in one call, because io_uring then plugs the submission.
 *
 * A node also accepts the ioctls NVME_IOCTL_ID, NVME_IOCTL_ADMIN_CMD,
 * NVME_IOCTL_ADMIN64_CMD, NVME_IOCTL_IO_CMD, NVME_IOCTL_IO64_CMD,
 * NVME_IOCTL_IO64_CMD_VEC and NVME_IOCTL_SUBMIT_IO, and those of
 * <linux/sed-opal.h>. They work like on ngXnY, and do not use the user queue.
 * BLKGETSIZE64 and BLKSSZGET work like on the block device. The NVME_UQ_IOCTL_*
 * are below.
 */

/**
 * DOC: Errors
 *
 * * EACCES: the opcode needs CAP_SYS_ADMIN, or the node must be open for
 *   writing.
 * * EBUSY: another open file has claimed the queue, see NVME_UQ_IOCTL_CLAIM.
 * * EFAULT: the buffer, or the metadata buffer, is not mapped, not writable by
 *   a command that reads, or not within the registered buffer or the memory of
 *   the open file.
 * * ECANCELED: the command was cancelled, or its task killed, while it waited.
 *   The device has not received it.
 * * EINTR: the controller was reset or removed while the command was in flight.
 *   The device may or may not have executed the command.
 * * EINVAL: the field flags is neither 0 nor NVME_UQ_CMD_MEMORY, or the latter
 *   with NVME_URING_CMD_IO_VEC or IORING_URING_CMD_FIXED; nsid is not the
 *   node's namespace; the address or length of the buffer is not a multiple of
 *   four; the buffer is longer than the controller's limit, or the metadata
 *   longer than 1 MiB; the command has metadata and the namespace has none, or
 *   the command has no data; the buffer consists of more than 256 pieces. If
 *   the device does not support SGLs also: the command could transfer more
 *   than the buffer, the driver does not know the length of its transfer, or
 *   PRPs cannot describe the buffer. The same for metadata if the device does
 *   not support SGLs for it.
 * * ENODEV: the controller is being removed.
 * * ENOMEM: no memory, or the buffer could not be mapped for DMA within the
 *   command's timeout.
 * * ENOTTY: not an operation of this node, for example an admin command.
 * * ENXIO: the namespace was removed. The open file never works again.
 * * EOPNOTSUPP: the SQE does not have 128 bytes, or the ring does not allow CQEs
 *   of 32 bytes.
 * * ESHUTDOWN: the last reset did not create the queue. After a later reset that
 *   creates it, the node and the open file work again. Also an error of open().
 * * EOVERFLOW: the sum of the lengths in a vector of a registered buffer
 *   exceeds the range of a size.
 */

/* States of a queue, for nvme_uq_info.state and the attribute state. */
#define NVME_UQ_STATE_LIVE	0
#define NVME_UQ_STATE_DOWN	1
#define NVME_UQ_STATE_GONE	2

/**
 * DOC: Claims
 *
 * ioctl(fd, NVME_UQ_IOCTL_CLAIM). A completion queue shows the command ids,
 * results and statuses of all users of the queue. So only an open file with
 * exclusive use of the queue can map it. This ioctl gives the open file
 * exclusive use, and removes earlier completions from the completion queue.
 *
 * The administrator allows claims by writing 1 to the attribute claim of a node.
 *
 * The claim lasts until the open file is released, with all its descriptors and
 * mappings; or until NVME_UQ_IOCTL_UNCLAIM; or until the administrator writes 0 to
 * the attribute. Until then, commands fail with EBUSY if they are submitted to any
 * other open file of any node of the queue. Commands that wait at the time of
 * the claim fail too. Ioctls of other open files are not affected. A descriptor
 * that is inherited or passed on refers to the same open file and has the same
 * rights.
 *
 * When a claim ends before the open file is released, accesses to the mapping of
 * the completion queue raise SIGBUS. The information page stays, and its @state
 * becomes NVME_UQ_STATE_GONE. Commands in flight complete, and all open files can
 * submit commands. If the open file claims the queue again, both mappings work
 * again.
 *
 * Return: 0, also if the open file has claimed the queue before. Errors:
 *
 * * EACCES: the file is not open for reading and writing.
 * * EBUSY: another open file has claimed the queue, or a command of any open
 *   file is in flight.
 * * ENOMEM: no memory.
 * * ENXIO: the namespace was removed.
 * * EPERM: the attribute claim is 0.
 * * EOPNOTSUPP: a completion queue cannot be mapped on this machine: the device
 *   is not cache coherent, its memory may be bounced, or memory is encrypted.
 *   Or no contiguous memory was available when the queue was created.
 * * ESHUTDOWN: the last reset did not create the queue.
 */
#define NVME_UQ_IOCTL_CLAIM	_IO('N', 0x60)

/**
 * DOC: Ending a claim
 *
 * ioctl(fd, NVME_UQ_IOCTL_UNCLAIM). Ends the claim of the open file.
 *
 * Return: 0, or an error: EPERM if the open file has not claimed the queue, ENXIO
 * if the namespace was removed.
 */
#define NVME_UQ_IOCTL_UNCLAIM	_IO('N', 0x64)

/**
 * DOC: Mapping
 *
 * An open file that has claimed its queue can map two areas, at these offsets:
 *
 * * NVME_UQ_OFF_CQ: the completion queue, @entries of struct nvme_uq_cqe.
 * * NVME_UQ_OFF_INFO: one page that starts with struct nvme_uq_info.
 *
 * Both are mapped for reading, with MAP_SHARED. A child of fork() does not
 * inherit the mappings; it inherits the descriptor and may create its own
 * mappings. The mappings are not dumped, cannot grow, and cannot be the buffer
 * of any I/O. Errors of mmap():
 *
 * * EACCES: PROT_WRITE or PROT_EXEC. A later mprotect() to these fails the same
 *   way.
 * * EINVAL: not MAP_SHARED; another offset; a length beyond the size, rounded
 *   up to pages.
 * * EPERM: the open file has not claimed the queue.
 * * ENXIO: the queue has no memory now: it was never created, or the driver was
 *   unbound from the controller.
 *
 * The mapped data is a hint. The kernel reads only data of the device from
 * these pages. It reaps all completions, as without a mapping. The mapping only
 * shows when it is useful to enter the kernel.
 *
 * A mapping of the completion queue survives resets. If a reset changes the
 * size of the queue, it allocates other memory, and the mapping then shows the
 * new memory. Pages beyond the end of the queue raise SIGBUS. All pages raise
 * SIGBUS while the queue has no memory, or after the driver was unbound. @state
 * and @generation of the information page change before that. The information
 * page itself stays readable as long as it is mapped.
 */
#define NVME_UQ_OFF_CQ		0x00000000
#define NVME_UQ_OFF_INFO	0x40000000

/**
 * struct nvme_uq_cqe - an entry of the completion queue, as defined by NVMe
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

/* Parts of nvme_uq_info.head, and its value if there is no such entry. */
#define NVME_UQ_HEAD_MASK	0x0000ffff
#define NVME_UQ_HEAD_PHASE	0x00010000
#define NVME_UQ_HEAD_NONE	0x0000ffff

/**
 * struct nvme_uq_info - information page of a claimed queue
 * @version:	NVME_UQ_INFO_V1. Higher versions have the same fields and more.
 * @size:	size of the fields that the kernel fills in, in bytes
 * @entries:	entries of the completion queue; changes only with @generation
 * @entry_size:	size of an entry in bytes, 16
 * @generation:	incremented each time the queue is created on the controller.
 *		@head is then reset, and all earlier commands have ended.
 * @state:	NVME_UQ_STATE_LIVE: the queue is on the controller.
 *		NVME_UQ_STATE_DOWN: the queue is not on the controller, during a
 *		reset or because the last reset did not create it.
 *		NVME_UQ_STATE_GONE: the queue will not come back for this open
 *		file, because the controller or the namespace was removed, the
 *		driver was unbound, or the claim has ended.
 * @head:	index of the next entry to be written, in NVME_UQ_HEAD_MASK, and
 *		NVME_UQ_HEAD_PHASE if its phase will then be 1. Both are in one
 *		word, so they are consistent. NVME_UQ_HEAD_NONE while the queue
 *		is not on the controller; this value is beyond the end of any
 *		queue.
 * @submitted:	commands passed to the device since the claim, modulo 2^32
 * @completed:	commands that have ended since the claim, with any result,
 *		modulo 2^32. @submitted minus @completed are in flight. If both
 *		are equal, all commands have ended, but a CQE may be posted only
 *		when the task enters the kernel.
 * @limit:	maximum number of commands of this open file in flight: the
 *		minimum of its limit, the limit of the queue, and the depth of
 *		the queue
 *
 * A completion is available if the entry at @head is within the mapping and bit
 * 0 of its @status equals NVME_UQ_HEAD_PHASE of @head. This takes two reads, of
 * @head and of @status. A read barrier is needed before other fields of the
 * entry are read.
 *
 * If there is no completion, the reader must still enter the kernel in two
 * cases. First, @state is not NVME_UQ_STATE_LIVE or @generation has changed:
 * commands may have ended without a completion. Second, no command is in
 * flight: a timeout, a freeze, or another ring that uses the file may have
 * reaped completions.
 *
 * The kernel writes each field by a single store and in this order. Going down:
 * @state, then @head, which becomes NVME_UQ_HEAD_NONE; then the commands in
 * flight are completed. Coming up: @entries, @head and the counters, then
 * @generation, then @state.
 *
 * A reader reads @head first, with acquire semantics, then the entry. Then it
 * reads @state, @generation, @completed and @submitted, in this order and each
 * with acquire semantics. A reset between two of these reads can make the
 * reader enter the kernel once without need. The reader does not miss the
 * reset, because @generation differs from then on.
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
 * @limit:	from 1 to the depth of the queue; the depth means no limit
 * @flags:	must be 0
 * @in_flight:	commands in flight now. Output.
 * @waiting:	commands waiting now. Output.
 * @reserved:	must be 0
 *
 * Argument of NVME_UQ_IOCTL_SET_LIMIT, which requires that the outputs are 0, and
 * of NVME_UQ_IOCTL_GET_LIMIT, which fills in @limit and the outputs.
 */
struct nvme_uq_limit {
	__u32	scope;
	__u32	limit;
	__u32	flags;
	__u32	in_flight;
	__u32	waiting;
	__u32	reserved;
};

/**
 * DOC: Limits
 *
 * ioctl(fd, NVME_UQ_IOCTL_SET_LIMIT, &limit), a struct nvme_uq_limit. The limit
 * applies at once. If it is raised, waiting commands are submitted. If it is
 * lowered below the number of commands in flight, no command is submitted until
 * fewer commands are in flight. A limit equal to the depth is no limit. Limits
 * survive a reset. The limit of an open file ends with the file, that of a
 * queue with the controller.
 *
 * A nonblocking command beyond a limit fails with EAGAIN, so that io_uring
 * passes it to a worker. There it waits for the limit of its file and for a tag.
 * Commands that wait are woken in order of arrival. A new command does not get
 * the last free tag of the queue, or the last place below the limit of its file,
 * while another one waits for it. This does not apply to a limit of 1.
 *
 * Any process with the descriptor can lower NVME_UQ_LIMIT_FILE. To raise it
 * again requires CAP_SYS_ADMIN, so a limit also binds who receives the
 * descriptor.
 *
 * Return: 0, or an error:
 *
 * * EACCES: NVME_UQ_LIMIT_QUEUE, or a higher NVME_UQ_LIMIT_FILE than before,
 *   without CAP_SYS_ADMIN.
 * * EFAULT: the argument cannot be read.
 * * EINVAL: @scope is unknown; @limit is 0 or more than the depth; another member
 *   is not 0.
 * * ENXIO: the namespace was removed, or the queue has no memory now.
 */
#define NVME_UQ_IOCTL_SET_LIMIT	_IOW('N', 0x61, struct nvme_uq_limit)

/**
 * DOC: Reading limits
 *
 * ioctl(fd, NVME_UQ_IOCTL_GET_LIMIT, &limit), a struct nvme_uq_limit. @limit is
 * the depth of the queue if there is no limit.
 *
 * Return: 0, or an error: EFAULT, EINVAL for an unknown @scope or if @flags or
 * @reserved is not 0, or ENXIO as for NVME_UQ_IOCTL_SET_LIMIT.
 */
#define NVME_UQ_IOCTL_GET_LIMIT	_IOWR('N', 0x62, struct nvme_uq_limit)

/**
 * DOC: Memory
 *
 * ioctl(fd, NVME_UQ_IOCTL_ALLOC_MEMORY, &memory), a struct nvme_uq_memory. The
 * driver allocates memory for the open file and maps it for the device. A
 * command with its data in this memory has the lowest cost: the kernel pins and
 * maps nothing for it, and with an IOMMU unmaps nothing. An open file can
 * allocate memory once. The memory is zeroed.
 *
 * To use the memory, a command sets NVME_UQ_CMD_MEMORY in the field flags of
 * struct nvme_uring_cmd. The field addr is then an offset in the memory. The
 * cost is lowest if the data is within one piece, see @piece. Metadata is still
 * at a user address.
 *
 * User space maps the memory with MAP_SHARED at NVME_UQ_OFF_MEMORY, or a
 * multiple of the page size beyond it. The mapping can be read, and written if
 * the file is open for writing. System calls that copy can use it. It cannot be
 * the buffer of direct I/O, and cannot be registered with io_uring. The mapping
 * is not dumped, and cannot grow.
 *
 * A child of fork() inherits the mapping and shares the memory, as with any
 * shared mapping; madvise(MADV_DONTFORK) prevents this. A descriptor that is
 * inherited or passed on refers to the same open file and the same memory.
 * Other open files, even of the same node, have no access to the memory.
 *
 * The memory counts against RLIMIT_MEMLOCK of the user who allocated it,
 * together with registered buffers of io_uring, unless the task has
 * CAP_IPC_LOCK. It also counts against the memory cgroup of the task, except
 * for memory from a CMA area, and against the parameter nvme.user_queue_memory.
 * It is freed with the last descriptor, mapping and command of the open file,
 * and not earlier. Resets and removal of the namespace do not affect it. If the
 * controller is removed or its driver is unbound, the memory is freed, and
 * mappings of it raise SIGBUS.
 *
 * With a @size of 0, the ioctl allocates nothing and returns the size and the
 * pieces of the memory that the open file has. The receiver of a descriptor
 * needs them.
 *
 * Return: 0, or an error:
 *
 * * EBUSY: the open file has memory, and @size is not 0.
 * * EFAULT: the argument cannot be read or written.
 * * EINVAL: @size is 0 and the open file has no memory, or @flags is not 0.
 * * ENOMEM: no memory, or RLIMIT_MEMLOCK would be exceeded.
 * * ENOSPC: nvme.user_queue_memory would be exceeded.
 * * ENXIO: the namespace was removed, or the driver was unbound.
 * * EOPNOTSUPP: this machine does not support such memory: the device is not
 *   cache coherent, its memory may be bounced, or memory is encrypted.
 *
 * Errors of mmap():
 *
 * * EACCES: PROT_EXEC, or PROT_WRITE and the file is not open for writing.
 * * EINVAL: not MAP_SHARED, or beyond the end of the memory.
 * * ENXIO: the open file has no memory, or the memory was revoked.
 */
#define NVME_UQ_IOCTL_ALLOC_MEMORY	_IOWR('N', 0x63, struct nvme_uq_memory)

/**
 * struct nvme_uq_memory - memory of an open file
 * @size:	requested bytes; 0 to allocate nothing. On return the size of
 *		the memory, which is at least the requested size: it is rounded
 *		up to pages, and by at most an eighth to whole pieces.
 * @piece:	size of a piece in bytes. Output. The device sees the memory
 *		between two multiples of @piece as contiguous.
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
