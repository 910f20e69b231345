// SPDX-License-Identifier: (GPL-2.0-only OR MIT)
/*
 * A minimal program that uses a mapped completion queue. It reads the first
 * blocks of a namespace, eight at a time, through the node of a polled user
 * queue. It enters the kernel only to submit commands and to reap completions:
 *
 *	echo 1 > /sys/class/nvme-generic/ngXnYqZ/user_queue/claim	as root
 *	uq_read /dev/ngXnYqZ
 *
 * The exit status is 2 if completion queues cannot be mapped on this machine.
 */
#include <linux/fs.h>
#include <linux/nvme_ioctl.h>
#include <stdio.h>
#include <stdlib.h>

#include "uq_cq.h"

#define DEPTH	8
#define ROUNDS	100

struct node {
	int fd;
	int nsid;
	int block;		/* bytes in a logical block */
};

static int open_node(struct node *node, const char *path)
{
	/* a claim requires a node that is open for writing too */
	node->fd = open(path, O_RDWR);
	if (node->fd < 0)
		return -errno;
	node->nsid = ioctl(node->fd, NVME_IOCTL_ID);
	if (node->nsid < 0 || ioctl(node->fd, BLKSSZGET, &node->block)) {
		int ret = -errno;

		close(node->fd);
		return ret;
	}
	return 0;
}

static int prepare_reads(struct io_uring *ring, const struct node *node,
			 char *buf, unsigned int first)
{
	unsigned int i;

	for (i = 0; i < DEPTH; i++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
		struct nvme_uring_cmd *cmd;

		if (!sqe)
			return -EBUSY;
		memset(sqe, 0, 2 * sizeof(*sqe));
		sqe->opcode = IORING_OP_URING_CMD;
		sqe->fd = node->fd;
		sqe->cmd_op = NVME_URING_CMD_IO;
		cmd = (struct nvme_uring_cmd *)sqe->cmd;
		cmd->opcode = 2;		/* read */
		cmd->nsid = node->nsid;
		cmd->addr = (uintptr_t)buf + i * node->block;
		cmd->data_len = node->block;
		cmd->cdw10 = first + i;		/* the block */
		cmd->cdw12 = 0;			/* number of blocks, minus one */
	}
	return 0;
}

/* A real program would do other work between two calls of uq_cq_look(). */
static int wait_for_all(struct uq_cq *cq, struct io_uring *ring,
			unsigned int *entered)
{
	unsigned int left = DEPTH, head, n;
	struct io_uring_cqe *cqe;
	int ret;

	while (left) {
		if (uq_cq_look(cq) == UQ_CQ_NONE)
			continue;
		ret = io_uring_get_events(ring);
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

static int read_blocks(struct io_uring *ring, struct uq_cq *cq,
		       const struct node *node, unsigned int *entered)
{
	unsigned int i;
	int ret = 0;
	void *buf;

	if (posix_memalign(&buf, 4096, (size_t)DEPTH * node->block))
		return -ENOMEM;
	for (i = 0; i < ROUNDS && !ret; i++) {
		ret = prepare_reads(ring, node, buf, i * DEPTH);
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
	struct node node;
	struct uq_cq cq;
	int ret;

	ret = open_node(&node, path);
	if (ret)
		return ret;
	ret = io_uring_queue_init(DEPTH, &ring, IORING_SETUP_IOPOLL |
				  IORING_SETUP_SQE128 | IORING_SETUP_CQE32);
	if (ret)
		goto out_close;
	/* before the first command: the claim fails while one is in flight */
	ret = uq_cq_map(&cq, node.fd);
	if (ret)
		goto out_ring;
	ret = read_blocks(&ring, &cq, &node, &entered);
	if (!ret)
		printf("%u reads, entered %u times for them\n",
		       ROUNDS * DEPTH, entered);
	uq_cq_unmap(&cq);
out_ring:
	io_uring_queue_exit(&ring);
out_close:
	close(node.fd);
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
