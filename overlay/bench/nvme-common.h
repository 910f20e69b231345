/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Code of nvme-bench.c and nvme-reap.c: a ring with a registered file and
 * registered buffers, commands, and interrupts as the kernel counts them.
 *
 * Inline, as icount.h is: the executed instructions must not depend on the file of
 * a function.
 */
#ifndef OVERLAY_BENCH_NVME_COMMON_H
#define OVERLAY_BENCH_NVME_COMMON_H

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/nvme_ioctl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "icount.h"

#define MAX_DEPTH	512
#define MAX_SPIN	100000000ul

static inline void die(const char *what)
{
	printf("error %s: %s\n", what, strerror(errno));
	exit(1);
}

/* For functions that return a negative errno. */
static inline void check(int ret, const char *what)
{
	errno = -ret;
	if (ret)
		die(what);
}

static inline void *zeroed(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (!p)
		die("calloc");
	return p;
}

static inline void need_exact_counter(void)
{
	if (counter_is_exact())
		return;
	printf("error the clock does not count instructions\n");
	exit(1);
}

static __attribute__((noinline)) void spin(unsigned long n)
{
	while (n--)
		asm volatile("" : "+r" (n));
}

/* -- setup */

/* Opens a node or a block device. */
static inline int open_device(const char *path, int flags)
{
	int fd = open(path, flags);

	if (fd < 0)
		die(path);
	return fd;
}

/* The namespace of a node. */
static inline unsigned int nsid_of(int fd)
{
	int nsid = ioctl(fd, NVME_IOCTL_ID);

	if (nsid <= 0)
		die("NVME_IOCTL_ID");
	return nsid;
}

/*
 * Touch every other page first: pages are allocated in the order of the
 * touches, so none lies beside the next one for a device.
 */
static inline void touch_apart(volatile unsigned char *buf, size_t len)
{
	size_t i, first;

	madvise((void *)buf, len, MADV_NOHUGEPAGE);
	for (first = 0; first < 8192; first += 4096)
		for (i = first; i < len; i += 8192)
			buf[i] = 1;
}

/*
 * Memory for transfers, registered if @fixed; in huge pages, or with @pieces in
 * small ones that lie apart.
 */
static inline unsigned char *get_buffers(struct io_uring *ring, size_t len,
					 bool fixed, bool pieces)
{
	struct iovec iov = { .iov_len = len };

	iov.iov_base = mmap(NULL, len, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS |
			    (pieces ? 0 : MAP_POPULATE), -1, 0);
	if (iov.iov_base == MAP_FAILED)
		die("mmap");
	if (pieces)
		touch_apart(iov.iov_base, len);
	if (fixed)
		check(io_uring_register_buffers(ring, &iov, 1),
		      "register buffers");
	return iov.iov_base;
}

/*
 * Memory of an open file, as <linux/nvme_uq.h> has it where it was made; the
 * headers of this machine have not.
 */
struct uq_memory {
	uint64_t	size, piece, flags;
};

#define UQ_ALLOC_MEMORY	_IOWR('N', 0x63, struct uq_memory)
#define UQ_OFF_MEMORY	0x80000000
#define UQ_CMD_MEMORY	(1 << 2)

/* Nothing is read from it: only commands count. */
static inline unsigned char *get_memory(int fd, size_t len)
{
	struct uq_memory memory = { .size = len };
	void *p;

	if (ioctl(fd, UQ_ALLOC_MEMORY, &memory))
		die("NVME_UQ_IOCTL_ALLOC_MEMORY");
	p = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, UQ_OFF_MEMORY);
	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

/* -- commands */

/* A transfer's place within 512 MiB, on a multiple of its size. */
static inline uint64_t next_block(uint64_t *seed, unsigned int bytes)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (*seed >> 33) % ((512u << 20) / bytes);
}

/* A read or a write of blocks of 512 bytes. */
static inline void prep_command(struct io_uring_sqe *sqe, uint8_t opcode,
				unsigned int nsid, const void *buf,
				uint64_t slba, unsigned int bytes, bool fixed)
{
	struct nvme_uring_cmd *c = (struct nvme_uring_cmd *)sqe->cmd;

	memset(sqe, 0, 128);
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->cmd_op = NVME_URING_CMD_IO;
	c->opcode = opcode;
	c->nsid = nsid;
	c->addr = (uintptr_t)buf;
	c->data_len = bytes;
	c->cdw10 = slba;
	c->cdw11 = slba >> 32;
	c->cdw12 = bytes / 512 - 1;
	if (fixed)
		sqe->uring_cmd_flags = IORING_URING_CMD_FIXED;
}

/* Of a command: its data is in the memory of the open file. */
static inline void name_offset(struct io_uring_sqe *sqe, uint64_t offset)
{
	struct nvme_uring_cmd *c = (struct nvme_uring_cmd *)sqe->cmd;

	c->flags = UQ_CMD_MEMORY;
	c->addr = offset;
}

/* What liburing's io_uring_submit() would do but for the system call. */
static inline void publish(struct io_uring *ring)
{
	struct io_uring_sq *sq = &ring->sq;

	__atomic_store_n(sq->ktail, sq->sqe_tail, __ATOMIC_RELEASE);
	sq->sqe_head = sq->sqe_tail;
}

/* -- interrupts */

/* So far. */
struct irqs {
	unsigned long long	nvme, ticks;
};

static inline struct irqs read_irqs(void)
{
	FILE *f = fopen("/proc/interrupts", "r");
	struct irqs irqs = { 0 };
	char line[512];

	if (!f)
		return irqs;
	while (fgets(line, sizeof(line), f)) {
		char *colon = strchr(line, ':');

		if (colon && strstr(line, "nvme"))
			irqs.nvme += strtoull(colon + 1, NULL, 10);
		if (colon && strstr(line, "Local timer"))
			irqs.ticks += strtoull(colon + 1, NULL, 10);
	}
	fclose(f);
	return irqs;
}

#endif
