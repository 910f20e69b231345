/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fixture and helpers for the tests of memory that the driver allocates for an
 * open file.
 */
#ifndef SELFTESTS_UQ_MEMORY_H
#define SELFTESTS_UQ_MEMORY_H

#include <linux/nvme_uq.h>

#include "uq_fixture.h"
#include "uq_inject.h"

#define AREA		1048576
#define PAGE		((size_t)sysconf(_SC_PAGESIZE))
#define MIB		1048576ul
#define LIMIT		"user_queue_memory"
#define NO_MEMORY	"no memory for open files on this machine"
/* First block of area @n. Transfers to different areas do not overlap. */
#define SLBA(n)		((n) * 4096ull)

FIXTURE(memory)
{
	struct uq_node node;
	struct io_uring ring;
	struct nvme_uq_memory mem;
	unsigned char *p;	/* mapped memory of the open file */
	unsigned char *buf;	/* ordinary buffer */
	long long spurious;
	int fd;
};

FIXTURE_VARIANT(memory)
{
	bool poll;
	bool no_sgl;
};

/* clang-format off */
FIXTURE_VARIANT_ADD(memory, irq) { .poll = false };
FIXTURE_VARIANT_ADD(memory, poll) { .poll = true };
FIXTURE_VARIANT_ADD(memory, irq_no_sgl) { .poll = false, .no_sgl = true };
FIXTURE_VARIANT_ADD(memory, poll_no_sgl) { .poll = true, .no_sgl = true };
/* clang-format on */

/* Allocate memory for an open file. Return 0 or a negative errno. */
static inline int ask(int fd, __u64 size, struct nvme_uq_memory *mem)
{
	*mem = (struct nvme_uq_memory){ .size = size };
	return ioctl(fd, NVME_UQ_IOCTL_ALLOC_MEMORY, mem) ? -errno : 0;
}

static inline int ask_for(int fd, __u64 size)
{
	struct nvme_uq_memory mem;

	return ask(fd, size, &mem);
}

/* Map all of the memory. Return NULL on failure. */
static inline unsigned char *map(int fd, const struct nvme_uq_memory *mem)
{
	void *p = mmap(NULL, mem->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		       NVME_UQ_OFF_MEMORY);

	return p == MAP_FAILED ? NULL : p;
}

/* Map and unmap a part of the memory. Return 0 or a negative errno. */
static inline int try_map(int fd, size_t len, int prot, int flags, __u64 offset)
{
	void *p = mmap(NULL, len, prot, flags, fd, NVME_UQ_OFF_MEMORY + offset);

	if (p == MAP_FAILED)
		return -errno;
	munmap(p, len);
	return 0;
}

/* Prepare a command with data at an offset of the memory. */
static inline struct nvme_uring_cmd *prep(FIXTURE_DATA(memory) *self, int opcode,
					  __u64 slba, __u64 offset, __u32 len)
{
	struct nvme_uring_cmd *c = uq_prep(&self->ring, self->fd,
					   self->node.nsid, opcode, slba, NULL,
					   len);

	c->addr = offset;
	c->flags = NVME_UQ_CMD_MEMORY;
	return c;
}

static inline int run(FIXTURE_DATA(memory) *self, int opcode, __u64 slba,
		      __u64 offset, __u32 len)
{
	prep(self, opcode, slba, offset, len);
	return uq_run(&self->ring);
}

/* The same with an ordinary buffer. */
static inline int run_other(FIXTURE_DATA(memory) *self, int opcode, __u64 slba,
			    void *buf, __u32 len)
{
	uq_prep(&self->ring, self->fd, self->node.nsid, opcode, slba, buf, len);
	return uq_run(&self->ring);
}

static inline bool is_all(const unsigned char *p, size_t len, unsigned char byte)
{
	return !len || (*p == byte && !memcmp(p, p + 1, len - 1));
}

/* Allocate memory of this size and map it. */
static inline int get(FIXTURE_DATA(memory) *self, __u64 size)
{
	int ret = ask(self->fd, size, &self->mem);

	if (ret)
		return ret;
	self->p = map(self->fd, &self->mem);
	return self->p ? 0 : -errno;
}

static inline void give_back(FIXTURE_DATA(memory) *self)
{
	if (self->p)
		munmap(self->p, self->mem.size);
	self->p = NULL;
	if (self->fd >= 0)
		close(self->fd);
	self->fd = -1;
}

/* Open the node again, and allocate and map memory of this size. */
static inline int get_again(FIXTURE_DATA(memory) *self, __u64 size)
{
	give_back(self);
	self->fd = open(self->node.path, O_RDWR);
	return self->fd < 0 ? -errno : get(self, size);
}

FIXTURE_SETUP(memory)
{
	struct uq_ns ns;
	char why[UQ_WHY_LEN];
	int ret;

	self->fd = -1;
	ret = uq_need_ns(&ns, false, why, sizeof(why));
	if (ret == KSFT_SKIP)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, ret) TH_LOG("%s", why);
	if (variant->no_sgl && !uq_can_fault(ns.ctrl))
		SKIP(return, UQ_NO_FAULTS);
	if (variant->no_sgl)
		ASSERT_EQ(0, uq_fault_no_sgl(&ns, true));
	/* an earlier test may have left other queues */
	ASSERT_TRUE(uq_bring_up_node(&self->node, &ns, variant->poll));
	ASSERT_EQ(0, uq_param_set(LIMIT, "64"));
	self->spurious = uq_attr(self->node.name, "spurious");
	ASSERT_EQ(0, uq_ring(&self->ring, 64, variant->poll ?
			     IORING_SETUP_IOPOLL : 0));
	self->buf = uq_alloc(AREA);
	ASSERT_NE(NULL, self->buf);
	self->fd = open(self->node.path, O_RDWR);
	ASSERT_LE(0, self->fd);
	ret = ask_for(self->fd, PAGE);
	if (ret == -EOPNOTSUPP)
		SKIP(return, NO_MEMORY);
	ASSERT_EQ(0, ret);
	close(self->fd);
	self->fd = open(self->node.path, O_RDWR);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(memory)
{
	if (!self->buf)
		return;
	EXPECT_TRUE(uq_check_idle(self->node.name, self->spurious));
	give_back(self);
	io_uring_queue_exit(&self->ring);
	munmap(self->buf, AREA);
	if (variant->no_sgl) {
		EXPECT_EQ(0, uq_fault_no_sgl(&self->node.ns, false));
		EXPECT_EQ(0, uq_bring_up(&self->node.ns, 2, 2));
	}
}

/* Write from the memory to the device, and read back into the other buffer. */
static inline void out_and_back(struct __test_metadata *_metadata,
				FIXTURE_DATA(memory) *self, __u64 offset, __u32 len)
{
	uq_fill(self->p + offset, len, offset + len);
	EXPECT_EQ(0, run(self, CMD_WRITE, SLBA(1), offset, len))
		TH_LOG("write of %u bytes at %#llx", len, offset);
	memset(self->buf, 0xee, len);
	EXPECT_EQ(0, run_other(self, CMD_READ, SLBA(1), self->buf, len));
	EXPECT_EQ(0, memcmp(self->buf, self->p + offset, len))
		TH_LOG("written: %u bytes at %#llx", len, offset);
}

#endif /* SELFTESTS_UQ_MEMORY_H */
