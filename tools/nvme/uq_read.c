// SPDX-License-Identifier: (GPL-2.0-only OR MIT)
/*
 * A program that uses a mapped completion queue, as short as can be. Reads the
 * first blocks of a namespace, eight at a time, through the node of a polled
 * user queue, and enters the kernel only to submit and when there is a
 * completion:
 *
 *	uq_read /dev/ngXnYqZ
 *
 * Ends with 2 where completion queues cannot be mapped.
 */
#include <linux/nvme_ioctl.h>
#include <stdio.h>
#include <stdlib.h>

#include "uq_cq.h"

#define DEPTH	8
#define ROUNDS	100

static int prepare_reads(struct io_uring *ring, int fd, int nsid, char *buf,
			 unsigned int first)
{
	unsigned int i;

	for (i = 0; i < DEPTH; i++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
		struct nvme_uring_cmd *cmd;

		if (!sqe)
			return -EBUSY;
		memset(sqe, 0, 2 * sizeof(*sqe));
		sqe->opcode = IORING_OP_URING_CMD;
		sqe->fd = fd;
		sqe->cmd_op = NVME_URING_CMD_IO;
		cmd = (struct nvme_uring_cmd *)sqe->cmd;
		cmd->opcode = 2;		/* read */
		cmd->nsid = nsid;
		cmd->addr = (uintptr_t)buf + i * 4096;
		cmd->data_len = 4096;
		cmd->cdw10 = (first + i) * 8;	/* in blocks of 512 bytes */
		cmd->cdw12 = 7;			/* of which eight, less one */
	}
	return 0;
}

/* Each pass is one look; another program would do its own work in between. */
static int wait_for_all(struct uq_cq *cq, struct io_uring *ring,
			unsigned int *entered)
{
	unsigned int left = DEPTH, head, n;
	struct io_uring_cqe *cqe;
	int ret;

	while (left) {
		if (uq_cq_look(cq) == UQ_CQ_NONE)
			continue;
		ret = io_uring_enter(ring->ring_fd, 0, 0,
				     IORING_ENTER_GETEVENTS, NULL);
		if (ret < 0)
			return ret;
		++*entered;
		n = 0;
		io_uring_for_each_cqe(ring, head, cqe) {
			if (cqe->res)
				return cqe->res < 0 ? cqe->res : -EIO;
			n++;
		}
		io_uring_cq_advance(ring, n);
		left -= n;
	}
	return 0;
}

static int read_blocks(struct io_uring *ring, struct uq_cq *cq, int fd,
		       unsigned int *entered)
{
	int nsid = ioctl(fd, NVME_IOCTL_ID), ret = 0;
	unsigned int i;
	char *buf;

	if (nsid < 0 || posix_memalign((void **)&buf, 4096, DEPTH * 4096))
		return -errno;
	for (i = 0; i < ROUNDS && !ret; i++) {
		ret = prepare_reads(ring, fd, nsid, buf, i * DEPTH);
		if (ret)
			break;
		ret = io_uring_submit(ring);
		if (ret == DEPTH)
			ret = wait_for_all(cq, ring, entered);
	}
	free(buf);
	return ret;
}

static int read_node(const char *path)
{
	unsigned int entered = 0;
	struct io_uring ring;
	struct uq_cq cq;
	int fd, ret;

	/* for writing too, or it could not be claimed */
	fd = open(path, O_RDWR);
	if (fd < 0)
		return -errno;
	ret = io_uring_queue_init(DEPTH, &ring, IORING_SETUP_IOPOLL |
				  IORING_SETUP_SQE128 | IORING_SETUP_CQE32);
	if (ret)
		goto out_close;
	/* before the first command: -EBUSY while anything is in flight */
	ret = uq_cq_map(&cq, fd);
	if (ret)
		goto out_ring;
	ret = read_blocks(&ring, &cq, fd, &entered);
	if (!ret)
		printf("%u reads, entered %u times for them\n",
		       ROUNDS * DEPTH, entered);
	uq_cq_unmap(&cq);
out_ring:
	io_uring_queue_exit(&ring);
out_close:
	close(fd);
	return ret;
}

int main(int argc, char **argv)
{
	int ret;

	if (argc != 2) {
		fprintf(stderr, "usage: %s /dev/ngXnYqZ\n", argv[0]);
		return 1;
	}
	ret = read_node(argv[1]);
	if (ret)
		fprintf(stderr, "%s: %s\n", argv[1], strerror(-ret));
	if (ret == -EOPNOTSUPP)
		return 2;
	return ret ? 1 : 0;
}
