// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: namespaces with metadata, in a separate buffer or after
 * each block. Write data and metadata through the user queue or the generic
 * node, and read both back through either. Check that the device does not write
 * beyond a short buffer.
 */
#define _GNU_SOURCE
#include "uq_fixture.h"

#define AREA	(1024 * 1024)
#define BLOCKS	16

FIXTURE(meta)
{
	struct uq_node node;
	struct io_uring ring, other;
	unsigned char *buf, *back, *mbuf, *mback;
	int fd, generic;
	__u32 len, mlen;
};

FIXTURE_VARIANT(meta)
{
	bool poll;
	bool ext;
};

/* clang-format off */
FIXTURE_VARIANT_ADD(meta, irq_separate) { .poll = false, .ext = false };
FIXTURE_VARIANT_ADD(meta, poll_separate) { .poll = true, .ext = false };
FIXTURE_VARIANT_ADD(meta, irq_extended) { .poll = false, .ext = true };
FIXTURE_VARIANT_ADD(meta, poll_extended) { .poll = true, .ext = true };
/* clang-format on */

/* User queues support such a namespace even if the block layer does not. */
static bool extended(const struct uq_ns *ns)
{
	return ns->ms && ns->ext;
}

FIXTURE_SETUP(meta)
{
	struct uq_ns ns;

	if (!uq_ns_find(&ns, variant->ext ? extended : uq_separate_metadata))
		SKIP(return, "no such metadata (or CONFIG_BLK_DEV_INTEGRITY)");
	if (!uq_count_nodes(&ns, variant->poll)) {
		if (!uq_may_disrupt(NULL, 0))
			SKIP(return, UQ_NEEDS_LEAVE);
		ASSERT_EQ(0, uq_bring_up(&ns, 2, 2));
	}
	ASSERT_TRUE(uq_wait_nodes(&ns, 2, 2));
	ASSERT_TRUE(uq_node_nth(&self->node, &ns, variant->poll, 0));
	self->fd = open(self->node.path, O_RDWR);
	ASSERT_LE(0, self->fd);
	self->generic = open(self->node.generic, O_RDWR);
	ASSERT_LE(0, self->generic);
	ASSERT_EQ(0, uq_ring(&self->ring, 8, variant->poll ?
			     IORING_SETUP_IOPOLL : 0));
	ASSERT_EQ(0, uq_ring(&self->other, 8, 0));
	self->buf = uq_alloc(4 * AREA);
	ASSERT_NE(NULL, self->buf);
	self->back = self->buf + AREA;
	self->mbuf = self->back + AREA;
	self->mback = self->mbuf + AREA;
	self->len = BLOCKS * (ns.lba + (ns.ext ? ns.ms : 0));
	self->mlen = ns.ext ? 0 : BLOCKS * ns.ms;
}

FIXTURE_TEARDOWN(meta)
{
	if (!self->buf)
		return;
	EXPECT_TRUE(uq_wait_idle(self->node.name));
	io_uring_queue_exit(&self->ring);
	io_uring_queue_exit(&self->other);
	close(self->fd);
	close(self->generic);
	munmap(self->buf, 4 * AREA);
}

/*
 * Run one command on the user queue, or on the generic node if @ours is false.
 */
static int run(FIXTURE_DATA(meta) *self, bool ours, int opcode, __u64 slba,
	       void *buf, void *mbuf, __u32 len, __u32 mlen)
{
	struct io_uring *ring = ours ? &self->ring : &self->other;
	struct nvme_uring_cmd *c;

	c = uq_prep_raw(ring, ours ? self->fd : self->generic,
			self->node.nsid, opcode, slba, buf, len, BLOCKS);
	if (mlen) {
		c->metadata = (uintptr_t)mbuf;
		c->metadata_len = mlen;
	}
	return uq_run(ring);
}

TEST_F(meta, round_trips)
{
	static const unsigned int offsets[] = { 0, 4, 512, 4096 - 16 };
	unsigned int o, way;

	for (o = 0; o < ARRAY_SIZE(offsets); o++)
		for (way = 0; way < 4; way++) {
			unsigned char *buf = self->buf + offsets[o];
			unsigned char *mbuf = self->mbuf + offsets[o];

			uq_fill(buf, self->len, o * 8 + way);
			uq_fill(mbuf, self->mlen, o * 8 + way + 1000);
			memset(self->back, 0xee, AREA);
			memset(self->mback, 0xee, AREA);
			EXPECT_EQ(0, run(self, way & 1, CMD_WRITE, 64, buf,
					 mbuf, self->len, self->mlen))
				TH_LOG("way %u", way);
			EXPECT_EQ(0, run(self, way & 2, CMD_READ, 64,
					 self->back, self->mback, self->len,
					 self->mlen)) TH_LOG("way %u", way);
			ASSERT_EQ(0, memcmp(buf, self->back, self->len))
				TH_LOG("way %u", way);
			ASSERT_EQ(0, memcmp(mbuf, self->mback, self->mlen))
				TH_LOG("way %u", way);
			ASSERT_EQ(0xee, self->back[self->len]);
			ASSERT_EQ(0xee, self->mback[self->mlen]);
		}
}

/* Buffers that are too short. The device must not write beyond their ends. */
TEST_F(meta, too_short)
{
	unsigned int i;
	int ret;

	memset(self->back, 0xee, AREA);
	memset(self->mback, 0xee, AREA);
	ret = run(self, true, CMD_READ, 64, self->back, self->mback,
		  self->len - 512, self->mlen);
	EXPECT_NE(0, ret);
	for (i = self->len - 512; i < AREA; i++)
		ASSERT_EQ(0xee, self->back[i]);
	if (!self->mlen)
		return;
	memset(self->mback, 0xee, AREA);
	ret = run(self, true, CMD_READ, 64, self->back, self->mback, self->len,
		  self->mlen - 8);
	TH_LOG("metadata of %u instead of %u bytes: %d", self->mlen - 8,
	       self->mlen, ret);
	for (i = self->mlen - 8; i < AREA; i++)
		ASSERT_EQ(0xee, self->mback[i]);
}

UQ_LEAVE_OUT("meta.*_extended.not_there", "metadata is part of the data");

/* A metadata buffer that is not mapped, or too long. */
TEST_F(meta, not_there)
{
	EXPECT_EQ(-EFAULT, run(self, true, CMD_WRITE, 64, self->buf,
			       (void *)8, self->len, self->mlen));
	EXPECT_EQ(-EFAULT, run(self, true, CMD_READ, 64, self->buf,
			       (void *)8, self->len, self->mlen));
	EXPECT_EQ(-EINVAL, run(self, true, CMD_READ, 64, self->buf,
			       self->mbuf, self->len, 1u << 31));
}

UQ_LEAVE_OUT("meta.*_extended.empty_vector", "metadata is part of the data");

/*
 * The driver refuses metadata if the vector contains no data. Such a command
 * must not reach the device.
 */
TEST_F(meta, empty_vector)
{
	struct iovec iov[] = { { self->buf, 0 }, { self->back, 0 } };
	long long submitted = uq_attr(self->node.name, "submitted");
	struct nvme_uring_cmd *c;
	unsigned int i;

	for (i = 0; i < 4; i++) {
		c = uq_prep_raw(&self->ring, self->fd, self->node.nsid,
				i & 1 ? CMD_READ : CMD_WRITE, 64, iov,
				1 + i / 2, BLOCKS);
		uq_sqe(c)->cmd_op = NVME_URING_CMD_IO_VEC;
		c->metadata = (uintptr_t)self->mbuf;
		c->metadata_len = self->mlen;
		EXPECT_EQ(-EINVAL, uq_run(&self->ring)) TH_LOG("%u", i);
	}
	EXPECT_EQ(submitted, uq_attr(self->node.name, "submitted"));
}

/* Data in registered buffers, metadata in plain memory. */
TEST_F(meta, fixed_buffers)
{
	struct iovec iov = { self->buf, 2 * AREA };
	struct nvme_uring_cmd *c;
	unsigned int i;

	ASSERT_EQ(0, io_uring_register_buffers(&self->ring, &iov, 1));
	uq_fill(self->buf, self->len, 3);
	uq_fill(self->mbuf, self->mlen, 4);
	for (i = 0; i < 2; i++) {
		c = uq_prep_raw(&self->ring, self->fd, self->node.nsid,
				i ? CMD_READ : CMD_WRITE, 128,
				i ? self->back : self->buf, self->len, BLOCKS);
		c->metadata = (uintptr_t)(i ? self->mback : self->mbuf);
		c->metadata_len = self->mlen;
		if (!self->mlen)
			c->metadata = 0;
		uq_sqe(c)->uring_cmd_flags = IORING_URING_CMD_FIXED;
		ASSERT_EQ(0, uq_run(&self->ring));
	}
	EXPECT_EQ(0, memcmp(self->buf, self->back, self->len));
	EXPECT_EQ(0, memcmp(self->mbuf, self->mback, self->mlen));
}

UQ_LEAVE_OUT("meta.*_extended.block_device_writes_back",
	     "the block layer has no metadata after each block");

/*
 * The block device alongside. Writeback merges several pieces of metadata into
 * one request. If the controller supports SGLs for metadata, the pieces are not
 * copied together. They are not aligned to pages of an IOMMU.
 */
TEST_F(meta, block_device_writes_back)
{
	char path[48];
	int fd;

	snprintf(path, sizeof(path), "/dev/%s", self->node.ns.block);
	fd = open(path, O_RDWR);
	ASSERT_LE(0, fd);
	uq_fill(self->buf, AREA, 9);
	EXPECT_EQ(AREA, pwrite(fd, self->buf, AREA, 0));
	EXPECT_EQ(0, fsync(fd));
	close(fd);
	fd = open(path, O_RDONLY | O_DIRECT);
	ASSERT_LE(0, fd);
	EXPECT_EQ(AREA, pread(fd, self->back, AREA, 0));
	EXPECT_EQ(0, memcmp(self->buf, self->back, AREA));
	close(fd);
}

int main(int argc, char **argv)
{
	return uq_main(argc, argv);
}
