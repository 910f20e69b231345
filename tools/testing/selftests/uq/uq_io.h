/* SPDX-License-Identifier: GPL-2.0 */
/* Fixture: a node, a ring, a buffer and the block device. */
#ifndef SELFTESTS_UQ_IO_H
#define SELFTESTS_UQ_IO_H

#include "uq_fixture.h"

#define AREA	(8 << 20)
#define HALF	(AREA / 2)
#define LBA	512

FIXTURE(uq)
{
	struct uq_node node;
	struct io_uring ring;
	unsigned int flags;
	int fd, block;
	long long spurious;	/* old value; other tests cause some */
	unsigned char *buf, *ref;
};

FIXTURE_VARIANT(uq)
{
	bool poll;
};

/* clang-format off */
FIXTURE_VARIANT_ADD(uq, irq) { .poll = false };
FIXTURE_VARIANT_ADD(uq, poll) { .poll = true };
/* clang-format on */

FIXTURE_SETUP(uq)
{
	struct iovec iov;
	char why[UQ_WHY_LEN];
	int ret;

	ret = uq_need_node(&self->node, variant->poll, why, sizeof(why));
	if (ret == KSFT_SKIP)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, ret) TH_LOG("%s", why);
	self->spurious = uq_attr(self->node.name, "spurious");
	self->flags = variant->poll ? IORING_SETUP_IOPOLL : 0;
	self->fd = open(self->node.path, O_RDWR);
	ASSERT_LE(0, self->fd);
	self->block = open(self->node.block, O_RDWR | O_DIRECT);
	ASSERT_LE(0, self->block);
	self->buf = uq_alloc(AREA);
	ASSERT_NE(NULL, self->buf);
	self->ref = self->buf + HALF;
	ASSERT_EQ(0, uq_ring(&self->ring, 64, self->flags));
	iov.iov_base = self->buf;
	iov.iov_len = AREA;
	ASSERT_EQ(0, io_uring_register_buffers(&self->ring, &iov, 1));
}

FIXTURE_TEARDOWN(uq)
{
	if (!self->buf)
		return;
	/* no test leaves commands in flight */
	EXPECT_TRUE(uq_check_idle(self->node.name, self->spurious));
	io_uring_queue_exit(&self->ring);
	close(self->fd);
	close(self->block);
	munmap(self->buf, AREA);
}

static inline struct nvme_uring_cmd *prep(FIXTURE_DATA(uq) *self, int opcode,
					  __u64 slba, void *buf, __u32 len)
{
	return uq_prep(&self->ring, self->fd, self->node.nsid, opcode, slba,
		       buf, len);
}

#endif /* SELFTESTS_UQ_IO_H */
