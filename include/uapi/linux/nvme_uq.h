/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * NVMe user queues: /dev/ngXnYqZ
 */
#ifndef _UAPI_LINUX_NVME_UQ_H
#define _UAPI_LINUX_NVME_UQ_H

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
 * A node also takes the ioctls NVME_IOCTL_ID, NVME_IOCTL_ADMIN_CMD,
 * NVME_IOCTL_ADMIN64_CMD, NVME_IOCTL_IO_CMD, NVME_IOCTL_IO64_CMD,
 * NVME_IOCTL_IO64_CMD_VEC and NVME_IOCTL_SUBMIT_IO, which do what they do on
 * ngXnY and do not use the user queue.
 */

/**
 * DOC: Errors
 *
 * * EACCES: the opcode needs CAP_SYS_ADMIN, or the node open for writing.
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
 * * ENXIO: the namespace was removed, or the queue is absent: the last reset did
 *   not bring it up.
 * * EOPNOTSUPP: the ring has no SQEs of 128 or no CQEs of 32 bytes; or the queue
 *   is polled and the ring is not.
 *
 * A queue that is full, and a controller that is being reset, make a command
 * wait; io_uring does the waiting elsewhere, so a submission does not block.
 */

#endif /* _UAPI_LINUX_NVME_UQ_H */
