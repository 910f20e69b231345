// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: memory that the driver allocates for an open file. Check
 * the data of transfers, with the memory in one piece and in several. Check
 * that no byte outside of the buffer changes, and that the driver refuses wrong
 * arguments.
 */
#define _GNU_SOURCE
#define UQ_DISRUPTIVE	true
#include "uq_memory.h"

/* -- data */

/*
 * Read from the device into the memory. No other byte of the memory may change.
 */
static void in_and_nowhere_else(struct __test_metadata *_metadata,
				FIXTURE_DATA(memory) *self, __u64 offset,
				__u32 len)
{
	uq_fill(self->buf, len, offset + len + 1);
	EXPECT_EQ(0, run_other(self, CMD_WRITE, SLBA(2), self->buf, len));
	memset(self->p, 0x55, self->mem.size);
	EXPECT_EQ(0, run(self, CMD_READ, SLBA(2), offset, len))
		TH_LOG("read of %u bytes at %#llx", len, offset);
	EXPECT_EQ(0, memcmp(self->buf, self->p + offset, len))
		TH_LOG("read: %u bytes at %#llx", len, offset);
	EXPECT_TRUE(is_all(self->p, offset, 0x55));
	EXPECT_TRUE(is_all(self->p + offset + len,
			   self->mem.size - offset - len, 0x55));
}

/*
 * Test both directions with all lengths, around the edges of pieces and at both
 * ends of the memory.
 */
static void round_trips(struct __test_metadata *_metadata,
			FIXTURE_DATA(memory) *self)
{
	const __u32 lengths[] = { 512, PAGE, 3 * PAGE, 65536, 131072 };
	unsigned int i, k;

	TH_LOG("%llu bytes in pieces of %llu", self->mem.size, self->mem.piece);
	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		__u32 len = lengths[i];
		const __u64 offsets[] = {
			0, 4, 512, PAGE - 4, PAGE, PAGE + 2048,
			self->mem.piece - 256, self->mem.piece - 4,
			self->mem.piece, 2 * self->mem.piece - PAGE - 512,
			self->mem.size - len,
		};

		if (len > self->node.ns.max || len > self->mem.size)
			continue;
		for (k = 0; k < ARRAY_SIZE(offsets); k++) {
			if (offsets[k] > self->mem.size - len)
				continue;
			out_and_back(_metadata, self, offsets[k], len);
			in_and_nowhere_else(_metadata, self, offsets[k], len);
		}
	}
}

TEST_F(memory, one_piece)
{
	ASSERT_EQ(0, get(self, 256 * 1024));
	EXPECT_EQ(256 * 1024, self->mem.size);
	EXPECT_EQ(self->mem.size, self->mem.piece);
	round_trips(_metadata, self);
}

TEST_F(memory, large_pieces)
{
	ASSERT_EQ(0, get(self, 4 * MIB));
	EXPECT_EQ(4 * MIB, self->mem.size);
	round_trips(_metadata, self);
}

/*
 * Sizes that several small pieces add up to. With an IOMMU there is one piece.
 */
TEST_F(memory, small_pieces)
{
	const __u64 pages[] = { 3, 5, 7, 17, 35, 69 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(pages); i++) {
		__u64 size = pages[i] * PAGE;

		ASSERT_EQ(0, get_again(self, size - 100));
		EXPECT_LE(size, self->mem.size);
		EXPECT_GE(size + size / 8, self->mem.size);
		EXPECT_EQ(0, self->mem.size % PAGE);
		round_trips(_metadata, self);
	}
}

/* The longest transfer of the controller, if the buffer has room for it. */
TEST_F(memory, longest_transfer)
{
	__u32 max = self->node.ns.max > AREA ? AREA : self->node.ns.max;

	ASSERT_EQ(0, get(self, 2 * max + PAGE));
	out_and_back(_metadata, self, 0, max);
	in_and_nowhere_else(_metadata, self, PAGE / 2, max);
	if (self->node.ns.max > AREA)
		return;
	EXPECT_EQ(-EINVAL, run(self, CMD_READ, 0, 0, max + 512));
}

/*
 * Submit many commands at once. In the second round the open file has a limit,
 * so some commands wait.
 */
TEST_F(memory, many_at_once)
{
	struct nvme_uq_limit limit = { .scope = NVME_UQ_LIMIT_FILE, .limit = 3 };
	unsigned int i, round;

	ASSERT_EQ(0, get(self, 64 * 4096));
	uq_fill(self->buf, 64 * 4096, 77);
	for (i = 0; i < 64; i++)
		ASSERT_EQ(0, run_other(self, CMD_WRITE, i * 8,
				       self->buf + i * 4096, 4096));
	for (round = 0; round < 2; round++) {
		memset(self->p, 0, self->mem.size);
		for (i = 0; i < 64; i++)
			prep(self, CMD_READ, i * 8, i * 4096, 4096);
		EXPECT_EQ(0, uq_run_all(&self->ring, 64));
		EXPECT_EQ(0, memcmp(self->p, self->buf, 64 * 4096));
		ASSERT_EQ(0, ioctl(self->fd, NVME_UQ_IOCTL_SET_LIMIT, &limit));
	}
}

/*
 * Submit from a worker, with a timeout, and through a ring that does not poll.
 */
TEST_F(memory, other_ways)
{
	struct nvme_uring_cmd *c;
	struct io_uring ring;

	ASSERT_EQ(0, get(self, MIB));
	uq_fill(self->p, 8192, 5);
	ASSERT_EQ(0, run(self, CMD_WRITE, 0, 0, 8192));

	c = prep(self, CMD_READ, 0, 65536, 8192);
	uq_sqe(c)->flags |= IOSQE_ASYNC;
	EXPECT_EQ(0, uq_run(&self->ring));
	EXPECT_EQ(0, memcmp(self->p, self->p + 65536, 8192));

	c = prep(self, CMD_READ, 0, 2 * 65536 + 4, 8192);
	c->timeout_ms = 1000000;
	EXPECT_EQ(0, uq_run(&self->ring));
	EXPECT_EQ(0, memcmp(self->p, self->p + 2 * 65536 + 4, 8192));

	ASSERT_EQ(0, uq_ring(&ring, 4, 0));
	c = uq_prep(&ring, self->fd, self->node.nsid, CMD_READ, 0, NULL, 8192);
	c->addr = 3 * 65536;
	c->flags = NVME_UQ_CMD_MEMORY;
	EXPECT_EQ(0, uq_run(&ring));
	EXPECT_EQ(0, memcmp(self->p, self->p + 3 * 65536, 8192));
	io_uring_queue_exit(&ring);
}

/* New memory must not contain data of an earlier open file. */
TEST_F(memory, zero_at_start)
{
	unsigned int round;

	for (round = 0; round < 3; round++) {
		ASSERT_EQ(0, get_again(self, 8 * MIB));
		EXPECT_TRUE(is_all(self->p, self->mem.size, 0))
			TH_LOG("round %u", round);
		memset(self->p, 0xa5, self->mem.size);
	}
}

/* -- metadata, in a buffer outside of the memory */

TEST_F(memory, metadata)
{
	struct uq_ns ns;
	struct uq_node node;
	struct io_uring ring;
	struct nvme_uq_memory mem;
	struct nvme_uring_cmd *c;
	unsigned char *p, *meta = self->buf, *back = self->buf + PAGE;
	unsigned int op;
	int fd;

	if (!uq_ns_find(&ns, uq_separate_metadata))
		SKIP(return, "no such metadata (or CONFIG_BLK_DEV_INTEGRITY)");
	ASSERT_TRUE(uq_ensure_node(&node, &ns, variant->poll));
	fd = uq_open_ring(&node, O_RDWR, &ring, 4);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ask(fd, 64 * 1024, &mem));
	p = map(fd, &mem);
	ASSERT_NE(NULL, p);
	uq_fill(p, 8 * ns.lba, 1);
	uq_fill(meta, 8 * ns.ms, 2);
	memset(back, 0xee, 8 * ns.ms);
	for (op = CMD_WRITE; op <= CMD_READ; op++) {
		c = uq_prep_raw(&ring, fd, node.nsid, op, 0, NULL, 8 * ns.lba,
				8);
		c->addr = op == CMD_READ ? 32768 + 4 : 0;
		c->flags = NVME_UQ_CMD_MEMORY;
		c->metadata = (uintptr_t)(op == CMD_READ ? back : meta);
		c->metadata_len = 8 * ns.ms;
		EXPECT_EQ(0, uq_run(&ring)) TH_LOG("opcode %u", op);
	}
	EXPECT_EQ(0, memcmp(p, p + 32768 + 4, 8 * ns.lba));
	EXPECT_EQ(0, memcmp(meta, back, 8 * ns.ms));
	munmap(p, mem.size);
	io_uring_queue_exit(&ring);
	close(fd);
}

UQ_LEAVE_OUT("memory.*_no_sgl.metadata", "another controller");

/* -- errors */

TEST_F(memory, bounds)
{
	__u64 size, offset;
	unsigned int i;

	ASSERT_EQ(0, get(self, 64 * 1024));
	size = self->mem.size;
	memset(self->p, 0x5a, size);
	EXPECT_EQ(-EFAULT, run(self, CMD_READ, 0, size, 512));
	EXPECT_EQ(-EFAULT, run(self, CMD_READ, 0, size - 508, 512));
	EXPECT_EQ(-EFAULT, run(self, CMD_READ, 0, 4, size));
	EXPECT_EQ(-EFAULT, run(self, CMD_WRITE, 0, size - 4, 512));
	EXPECT_EQ(-EFAULT, run(self, CMD_READ, 0, (uintptr_t)self->p, 512));
	for (i = 17; i < 64; i++) {
		offset = 1ull << i;
		EXPECT_EQ(-EFAULT, run(self, CMD_READ, 0, offset, 512))
			TH_LOG("%#llx", offset);
		EXPECT_EQ(-EFAULT, run(self, CMD_READ, 0, offset + 512, 512));
		/* offsets near the end of the address range */
		EXPECT_EQ(-EFAULT, run(self, CMD_READ, 0, -offset, 512));
	}
	/* offset + length wraps around */
	EXPECT_EQ(-EFAULT, run(self, CMD_READ, 0, -256ull, 512));
	EXPECT_EQ(-EFAULT, run(self, CMD_READ, 0, -512ull, 512));
	EXPECT_EQ(-EFAULT, run(self, CMD_READ, 0, -512ull, 1024));
	EXPECT_TRUE(is_all(self->p, size, 0x5a));
	EXPECT_EQ(0, run(self, CMD_READ, 0, size - 512, 512));
}

/*
 * A command for more blocks than its length. A device with SGLs returns an
 * error status; without SGLs, the driver refuses the command. The memory behind
 * the buffer must not change.
 */
TEST_F(memory, beyond_the_length)
{
	struct nvme_uring_cmd *c;
	int ret;

	ASSERT_EQ(0, get(self, 64 * 1024));
	memset(self->p, 0x5a, self->mem.size);
	c = prep(self, CMD_READ, 0, 4096, 512);
	c->cdw12 = 15;
	ret = uq_run(&self->ring);
	EXPECT_EQ(variant->no_sgl ? -EINVAL : ST_SGL_LENGTH,
		  ret < 0 ? ret : STATUS(ret));
	EXPECT_TRUE(is_all(self->p, 4096, 0x5a));
	EXPECT_TRUE(is_all(self->p + 4096 + 512,
			   self->mem.size - 4096 - 512, 0x5a));
}

/*
 * A command for fewer blocks than its length. From the number of blocks, the
 * device derives whether PRP2 is the address of a page or of a list. Other
 * commands use the same lists.
 */
TEST_F(memory, less_than_the_length)
{
	static const unsigned int blocks[] = { 1, 8, 9, 16, 17 };
	const __u64 from = 4092;
	unsigned int b;

	ASSERT_EQ(0, get(self, 64 * 1024));
	for (b = 0; b < ARRAY_SIZE(blocks); b++) {
		__u32 len = blocks[b] * 512;

		memset(self->p, 0x5a, self->mem.size);
		uq_fill(self->buf, len, b);
		ASSERT_EQ(0, run_other(self, CMD_WRITE, 0, self->buf, len));
		prep(self, CMD_READ, 0, from, 32768)->cdw12 = blocks[b] - 1;
		ASSERT_EQ(0, uq_run(&self->ring));
		EXPECT_EQ(0, memcmp(self->p + from, self->buf, len))
			TH_LOG("%u bytes", len);
		EXPECT_TRUE(is_all(self->p, from, 0x5a));
		EXPECT_TRUE(is_all(self->p + from + len,
				   self->mem.size - from - len, 0x5a));
	}
	/* the device can still reach all pages of the memory */
	out_and_back(_metadata, self, 0, 65536);
	in_and_nowhere_else(_metadata, self, 0, 65536);
}

TEST_F(memory, alignment)
{
	ASSERT_EQ(0, get(self, 64 * 1024));
	EXPECT_EQ(-EINVAL, run(self, CMD_READ, 0, 1, 512));
	EXPECT_EQ(-EINVAL, run(self, CMD_READ, 0, 2, 512));
	EXPECT_EQ(-EINVAL, run(self, CMD_READ, 0, 0, 510));
	EXPECT_EQ(0, run(self, CMD_READ, 0, 4, 512));
}

/*
 * The driver refuses all flags except NVME_UQ_CMD_MEMORY, as on ngXnY. It
 * refuses that flag with a vector or a registered buffer.
 */
TEST_F(memory, flags)
{
	struct nvme_uring_cmd *c;
	struct iovec iov;
	unsigned int i;

	ASSERT_EQ(0, get(self, 64 * 1024));
	for (i = 0; i < 8; i++) {
		c = prep(self, CMD_READ, 0, 0, 512);
		c->flags = 1 << i;
		EXPECT_EQ(c->flags == NVME_UQ_CMD_MEMORY ? 0 : -EINVAL,
			  uq_run(&self->ring)) TH_LOG("bit %u", i);
		c = prep(self, CMD_READ, 0, 0, 512);
		c->flags |= 1 << i;
		EXPECT_EQ(c->flags == NVME_UQ_CMD_MEMORY ? 0 : -EINVAL,
			  uq_run(&self->ring)) TH_LOG("bit %u, too", i);
	}

	c = prep(self, CMD_READ, 0, 0, 1);
	uq_sqe(c)->cmd_op = NVME_URING_CMD_IO_VEC;
	EXPECT_EQ(-EINVAL, uq_run(&self->ring));

	iov = (struct iovec){ self->buf, AREA };
	ASSERT_EQ(0, io_uring_register_buffers(&self->ring, &iov, 1));
	c = prep(self, CMD_READ, 0, 0, 512);
	uq_sqe(c)->uring_cmd_flags = IORING_URING_CMD_FIXED;
	EXPECT_EQ(-EINVAL, uq_run(&self->ring));
}

TEST_F(memory, generic_node)
{
	struct nvme_uring_cmd *c;
	struct io_uring ring;
	int fd;

	if (!self->node.generic[0])
		SKIP(return, "native multipath: the generic node is another's");
	fd = open(self->node.generic, O_RDWR);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, uq_ring(&ring, 4, 0));
	c = uq_prep(&ring, fd, self->node.nsid, CMD_READ, 0, self->buf, 512);
	c->flags = NVME_UQ_CMD_MEMORY;
	EXPECT_EQ(-EINVAL, uq_run(&ring));
	EXPECT_EQ(-ENOTTY, ask_for(fd, PAGE));
	io_uring_queue_exit(&ring);
	close(fd);
}

TEST_F(memory, none)
{
	EXPECT_EQ(-EFAULT, run(self, CMD_READ, 0, 0, 512));
	EXPECT_EQ(-ENXIO, try_map(self->fd, PAGE, PROT_READ, MAP_SHARED, 0));
	/* a command without data needs no memory */
	EXPECT_EQ(0, run(self, CMD_FLUSH, 0, 0, 0));
}

TEST_F(memory, arguments)
{
	struct nvme_uq_memory mem = { .size = PAGE, .flags = 1 };

	EXPECT_EQ(-EINVAL, ask_for(self->fd, 0));
	EXPECT_EQ(-1, ioctl(self->fd, NVME_UQ_IOCTL_ALLOC_MEMORY, &mem));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, ioctl(self->fd, NVME_UQ_IOCTL_ALLOC_MEMORY, NULL));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(-ENOSPC, ask_for(self->fd, ~0ull));
	EXPECT_EQ(-ENOSPC, ask_for(self->fd, ~0ull - PAGE + 1));
	EXPECT_EQ(-ENOSPC, ask_for(self->fd, 1ull << 63));
	/* none of these calls has allocated memory */
	EXPECT_EQ(-ENXIO, try_map(self->fd, PAGE, PROT_READ, MAP_SHARED, 0));
	ASSERT_EQ(0, ask_for(self->fd, PAGE));
	EXPECT_EQ(-EBUSY, ask_for(self->fd, PAGE));
	mem = (struct nvme_uq_memory){ .flags = 1 };
	EXPECT_EQ(-1, ioctl(self->fd, NVME_UQ_IOCTL_ALLOC_MEMORY, &mem));
	EXPECT_EQ(EINVAL, errno);
}

/* If the result cannot be written, the call must not allocate memory. */
TEST_F(memory, argument_that_is_read_only)
{
	struct nvme_uq_memory *mem = uq_alloc(PAGE);

	ASSERT_NE(NULL, mem);
	mem->size = PAGE;
	ASSERT_EQ(0, mprotect(mem, PAGE, PROT_READ));
	EXPECT_EQ(-1, ioctl(self->fd, NVME_UQ_IOCTL_ALLOC_MEMORY, mem));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(0, ask_for(self->fd, PAGE));
	munmap(mem, PAGE);
}

TEST_F(memory, mapping)
{
	const int both = PROT_READ | PROT_WRITE;
	size_t size;
	void *p;

	ASSERT_EQ(0, get(self, 16 * PAGE));
	size = self->mem.size;
	EXPECT_EQ(0, try_map(self->fd, size, both, MAP_SHARED, 0));
	EXPECT_EQ(0, try_map(self->fd, PAGE, both, MAP_SHARED, size - PAGE));
	EXPECT_EQ(-EINVAL, try_map(self->fd, size + 1, both, MAP_SHARED, 0));
	EXPECT_EQ(-EINVAL, try_map(self->fd, size, both, MAP_SHARED, PAGE));
	EXPECT_EQ(-EINVAL, try_map(self->fd, PAGE, both, MAP_SHARED, size));
	EXPECT_EQ(-EINVAL, try_map(self->fd, PAGE, both, MAP_PRIVATE, 0));
	EXPECT_EQ(-EINVAL, try_map(self->fd, PAGE, PROT_READ, MAP_PRIVATE, 0));
	EXPECT_EQ(-EACCES, try_map(self->fd, PAGE, PROT_READ | PROT_EXEC,
				   MAP_SHARED, 0));
	EXPECT_EQ(-1, mprotect(self->p, PAGE, PROT_READ | PROT_EXEC));
	EXPECT_EQ(EACCES, errno);
	p = mremap(self->p, size, 2 * size, MREMAP_MAYMOVE);
	EXPECT_EQ(MAP_FAILED, p);

	/* each page is mapped at its offset */
	uq_fill(self->p, size, 9);
	p = mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, self->fd,
		 NVME_UQ_OFF_MEMORY + 3 * PAGE);
	ASSERT_NE(MAP_FAILED, p);
	EXPECT_EQ(0, memcmp(p, self->p + 3 * PAGE, 2 * PAGE));
	munmap(p, 2 * PAGE);
}

/*
 * A file that is open for reading can read into its memory, and map it for
 * reading.
 */
TEST_F(memory, open_for_reading)
{
	struct nvme_uq_memory mem;
	unsigned char *p;

	close(self->fd);
	self->fd = open(self->node.path, O_RDONLY);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, ask(self->fd, PAGE, &mem));
	EXPECT_EQ(-EACCES, try_map(self->fd, PAGE, PROT_READ | PROT_WRITE,
				   MAP_SHARED, 0));
	EXPECT_EQ(-EINVAL, try_map(self->fd, PAGE, PROT_READ, MAP_PRIVATE, 0));
	p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, self->fd,
		 NVME_UQ_OFF_MEMORY);
	ASSERT_NE(MAP_FAILED, p);
	EXPECT_EQ(-1, mprotect(p, PAGE, PROT_READ | PROT_WRITE));
	EXPECT_EQ(0, run(self, CMD_READ, 0, 0, 512));
	EXPECT_EQ(0, run_other(self, CMD_READ, 0, self->buf, 512));
	EXPECT_EQ(0, memcmp(p, self->buf, 512));
	munmap(p, PAGE);
}

static int write_rw(void *data)
{
	FIXTURE_DATA(memory) *self = data;
	int fd = open(self->node.path, O_RDONLY), ret;
	struct nvme_uring_cmd *c;

	if (fd < 0)
		return -errno;
	ret = ask_for(fd, PAGE);
	if (ret)
		return ret;
	ret = uq_ring(&self->ring, 4, self->node.poll ? IORING_SETUP_IOPOLL :
		      0);
	if (ret)
		return ret;
	c = uq_prep(&self->ring, fd, self->node.nsid, CMD_WRITE, SLBA(3), NULL,
		    512);
	c->flags = NVME_UQ_CMD_MEMORY;
	return uq_run(&self->ring);
}

/* A write from the memory requires a file that is open for writing. */
TEST_F(memory, permissions)
{
	EXPECT_EQ(-EACCES, uq_run_with_mode(&self->node, 0666, write_rw, self));
}

int main(int argc, char **argv)
{
	return uq_main(argc, argv);
}
