// SPDX-License-Identifier: GPL-2.0
/*
 * Helpers of the tests of NVMe user queues: rings and commands, descriptors,
 * privileges; see uq.h.
 */
#define _GNU_SOURCE
#include <sys/socket.h>

#include "uq_safe.h"
#include "kselftest.h"

/* -- rings and commands */

int uq_ring(struct io_uring *ring, unsigned int entries, unsigned int flags)
{
	return io_uring_queue_init(entries, ring, IORING_SETUP_SQE128 |
				   IORING_SETUP_CQE32 | flags);
}

int uq_open_ring(const struct uq_node *node, int mode, struct io_uring *ring,
		 unsigned int entries)
{
	int fd = open(node->path, mode), ret;

	if (fd < 0)
		return -errno;
	ret = uq_ring(ring, entries, node->poll ? IORING_SETUP_IOPOLL : 0);
	if (!ret)
		return fd;
	close(fd);
	return ret;
}

struct nvme_uring_cmd *uq_prep_raw(struct io_uring *ring, int fd,
				   unsigned int nsid, int opcode,
				   __u64 slba, const void *buf,
				   __u32 len, unsigned int blocks)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	struct nvme_uring_cmd *c;

	if (!sqe)
		return NULL;
	memset(sqe, 0, 128);
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = fd;
	sqe->cmd_op = NVME_URING_CMD_IO;
	c = (struct nvme_uring_cmd *)sqe->cmd;
	c->opcode = opcode;
	c->nsid = nsid;
	c->addr = (uintptr_t)buf;
	c->data_len = len;
	c->cdw10 = slba;
	c->cdw11 = slba >> 32;
	c->cdw12 = blocks ? blocks - 1 : 0;
	return c;
}

int uq_reap(struct io_uring *ring, __u64 *result)
{
	struct io_uring_cqe *cqe;
	int ret;

	do {
		ret = io_uring_wait_cqe(ring, &cqe);
	} while (ret == -EINTR);
	if (ret)
		return ret;
	ret = cqe->res;
	if (result)
		*result = cqe->big_cqe[0];
	io_uring_cqe_seen(ring, cqe);
	return ret;
}

int uq_run(struct io_uring *ring)
{
	int ret = io_uring_submit_and_wait(ring, 1);

	return ret < 0 ? ret : uq_reap(ring, NULL);
}

int uq_run_all(struct io_uring *ring, unsigned int n)
{
	int ret = io_uring_submit(ring), bad = 0;

	if (ret != (int)n)
		return ret < 0 ? ret : -EPROTO;
	while (n--) {
		ret = uq_reap(ring, NULL);
		if (ret && !bad)
			bad = ret;
	}
	return bad;
}

void uq_fill(void *buf, size_t len, unsigned int seed)
{
	__u32 *p = buf;
	size_t i;

	for (i = 0; i < len / 4; i++)
		p[i] = seed * 2654435761u + i * 40503u;
}

void *uq_alloc(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* -- descriptors */

int uq_send_fd(int sock, int fd, unsigned int number, int flags)
{
	char control[CMSG_SPACE(sizeof(int))] = "";
	struct iovec iov = { &number, sizeof(number) };
	struct msghdr msg = {
		.msg_iov	= &iov,
		.msg_iovlen	= 1,
		.msg_control	= control,
		.msg_controllen	= sizeof(control),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	return sendmsg(sock, &msg, flags) == sizeof(number) ? 0 : -errno;
}

int uq_receive_fd(int sock, unsigned int *number, int flags)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { number, sizeof(*number) };
	struct msghdr msg = {
		.msg_iov	= &iov,
		.msg_iovlen	= 1,
		.msg_control	= control,
		.msg_controllen	= sizeof(control),
	};
	int fd;

	if (recvmsg(sock, &msg, flags) != sizeof(*number) ||
	    !CMSG_FIRSTHDR(&msg))
		return -1;
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

/* -- privileges */

int uq_drop_privileges(void)
{
	return setgid(UQ_UNPRIVILEGED) || setuid(UQ_UNPRIVILEGED) ? -errno : 0;
}

int uq_run_unprivileged(int (*fn)(void *data), void *data)
{
	int status, ret;
	pid_t pid = fork();

	if (!pid) {
		ret = uq_drop_privileges() ? -127 : fn(data);
		_exit((unsigned char)(ret > 127 ? 127 : ret));
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1000;
	return (signed char)WEXITSTATUS(status);
}

int uq_run_with_mode(const struct uq_node *node, mode_t mode,
		     int (*fn)(void *data), void *data)
{
	int ret;

	if (chmod(node->path, mode))
		return -1000;
	ret = uq_run_unprivileged(fn, data);
	return chmod(node->path, 0600) ? -1000 : ret;
}
