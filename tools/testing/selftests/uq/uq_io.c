// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: data integrity with all kinds of buffers, rings and flags.
 * The block device reads data that a queue has written, and vice versa. A
 * completion is the same as on the generic node.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/socket.h>

#include "uq_io.h"
#include "uq_random.h"

/* Write through the queue and read through the block device, and vice versa. */
static void round_trip(struct __test_metadata *_metadata,
		       FIXTURE_DATA(uq) *self, size_t off, __u32 len,
		       bool fixed, unsigned int seed)
{
	unsigned char *mine = self->buf + off;
	struct nvme_uring_cmd *c;

	uq_fill(mine, len, seed);
	c = prep(self, CMD_WRITE, 2048, mine, len);
	if (fixed)
		uq_sqe(c)->uring_cmd_flags = IORING_URING_CMD_FIXED;
	ASSERT_EQ(0, uq_run(&self->ring))
		TH_LOG("write, offset %zu, length %u", off, len);
	ASSERT_EQ(len, pread(self->block, self->ref, len, 2048 * LBA));
	ASSERT_EQ(0, memcmp(mine, self->ref, len))
		TH_LOG("offset %zu, length %u", off, len);

	uq_fill(self->ref, len, ~seed);
	ASSERT_EQ(len, pwrite(self->block, self->ref, len, 2048 * LBA));
	/* memory around the buffer must not change */
	memset(self->buf, 0xee, off + len + LBA);
	c = prep(self, CMD_READ, 2048, mine, len);
	if (fixed)
		uq_sqe(c)->uring_cmd_flags = IORING_URING_CMD_FIXED;
	ASSERT_EQ(0, uq_run(&self->ring));
	ASSERT_EQ(0, memcmp(mine, self->ref, len))
		TH_LOG("offset %zu, length %u", off, len);
	ASSERT_TRUE(!off || self->buf[off - 1] == 0xee);
	ASSERT_EQ(0xee, mine[len]);
}

static const size_t offsets[] = { 0, 4, 512, 3584, 3840, 4092, 8192 - 512 };
static const __u32 lengths[] = {
	512, 1024, 4096, 4608, 8192, 12288, 65536, 131072, 132096, 262144
};

TEST_F(uq, plain_buffers)
{
	unsigned int o, l;

	for (o = 0; o < ARRAY_SIZE(offsets); o++)
		for (l = 0; l < ARRAY_SIZE(lengths); l++)
			if (lengths[l] <= self->node.ns.max)
				round_trip(_metadata, self, offsets[o],
					   lengths[l], false, o * 64 + l);
}

TEST_F(uq, fixed_buffers)
{
	unsigned int o, l;

	for (o = 0; o < ARRAY_SIZE(offsets); o++)
		for (l = 0; l < ARRAY_SIZE(lengths); l++)
			if (lengths[l] <= self->node.ns.max)
				round_trip(_metadata, self, offsets[o],
					   lengths[l], true,
					   1000 + o * 64 + l);
}

/* A huge page is one segment, if the kernel has huge pages. */
TEST_F(uq, huge_page)
{
	unsigned char *huge;

	huge = (unsigned char *)(((uintptr_t)self->buf + (2 << 20) - 1) &
				 ~((2ul << 20) - 1));
	madvise(huge, 2 << 20, MADV_HUGEPAGE);
	round_trip(_metadata, self, huge - self->buf + 4096 - 512, 131072,
		   false, 77);
}

/* Transfer the maximum of the controller. Larger transfers do not reach it. */
TEST_F(uq, largest_transfer)
{
	__u32 max = self->node.ns.max, len = max;

	ASSERT_LT(0, max);
	/* the buffer has two halves */
	if (len > HALF - 8192)
		len = HALF - 8192;
	round_trip(_metadata, self, 0, len, false, 5);
	round_trip(_metadata, self, 4096 + 512, len, false, 6);
	round_trip(_metadata, self, 4096 + 512, len, true, 7);
	if (max + 512 > AREA)
		SKIP(return, "the controller takes %u KiB", max / 1024);
	prep(self, CMD_READ, 0, self->buf, max + 512);
	EXPECT_EQ(-EINVAL, uq_run(&self->ring));
}

/*
 * Allocate memory with neighbouring pages that are not physically contiguous:
 * the kernel allocates pages in the order of their first access.
 */
static unsigned char *alloc_scattered(size_t len)
{
	size_t i, first, page = sysconf(_SC_PAGESIZE);
	unsigned char *p = uq_alloc(len);

	if (!p)
		return NULL;
	madvise(p, len, MADV_NOHUGEPAGE);
	for (first = 0; first < 2 * page; first += page)
		for (i = first; i < len; i += 2 * page)
			p[i] = 1;
	return p;
}

/* Copy the fixture, with scattered memory and a ring that has registered it. */
static void set_up_scattered(struct __test_metadata *_metadata,
			     FIXTURE_DATA(uq) *self, size_t len,
			     FIXTURE_DATA(uq) *other)
{
	struct iovec iov = { .iov_len = len };

	*other = *self;
	other->buf = alloc_scattered(len);
	ASSERT_NE(NULL, other->buf);
	iov.iov_base = other->buf;
	ASSERT_EQ(0, uq_ring(&other->ring, 64, self->flags));
	ASSERT_EQ(0, io_uring_register_buffers(&other->ring, &iov, 1));
}

static void tear_down_scattered(FIXTURE_DATA(uq) *other, size_t len)
{
	io_uring_queue_exit(&other->ring);
	munmap(other->buf, len);
}

/* Each page is a segment, unless an IOMMU merges them. */
TEST_F(uq, scattered_pages)
{
	FIXTURE_DATA(uq) other;
	static const __u32 lens[] = { 8192, 12800, 65536, 131072, 262144 };
	const size_t len = 2 * 262144;
	unsigned int o, l;

	set_up_scattered(_metadata, self, len, &other);
	for (o = 0; o < ARRAY_SIZE(offsets); o++) {
		for (l = 0; l < ARRAY_SIZE(lens); l++) {
			if (lens[l] > self->node.ns.max)
				continue;
			round_trip(_metadata, &other, offsets[o], lens[l],
				   false, 2000 + o * 64 + l);
			round_trip(_metadata, &other, offsets[o], lens[l],
				   true, 3000 + o * 64 + l);
		}
	}
	tear_down_scattered(&other, len);
}

/* Page table pages of all IOMMUs; -1 if the kernel does not count them. */
static long long iommu_pages(void)
{
	FILE *f = fopen("/proc/vmstat", "r");
	long long pages = -1;
	char line[128];

	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "nr_iommu_pages %lld", &pages) == 1)
			break;
	fclose(f);
	return pages;
}

/* Run @n reads of @len bytes each, half of them with a registered buffer. */
static void read_many(struct __test_metadata *_metadata,
		      FIXTURE_DATA(uq) *self, __u32 len, unsigned int n)
{
	unsigned int i, k;

	for (i = 0; i < n; i += 16) {
		for (k = 0; k < 16; k++) {
			struct nvme_uring_cmd *c;

			/* every fourth buffer is not page-aligned */
			c = prep(self, CMD_READ, 2048,
				 self->buf + k * len + k % 4 / 3 * 512, len);
			if (k % 2)
				uq_sqe(c)->uring_cmd_flags =
					IORING_URING_CMD_FIXED;
		}
		ASSERT_EQ(0, uq_run_all(&self->ring, 16));
	}
}

/*
 * The kernel unmaps the buffer of each completed command. Otherwise the page
 * tables of the IOMMU would grow: 1024 commands would fill 64 pages.
 */
TEST_F(uq, mappings_do_not_pile_up)
{
	FIXTURE_DATA(uq) other;
	const __u32 len = 131072;
	const size_t area = 17 * len;
	long long before;

	before = iommu_pages();
	if (!uq_has_iommu(self->node.ns.ctrl) || before < 0)
		SKIP(return, "the device has no IOMMU");
	ASSERT_LE(len, self->node.ns.max);
	set_up_scattered(_metadata, self, area, &other);
	/* fill the IOVA caches */
	read_many(_metadata, &other, len, 256);
	before = iommu_pages();
	read_many(_metadata, &other, len, 1024);
	EXPECT_GT(before + 32, iommu_pages());
	tear_down_scattered(&other, area);
}

/*
 * Number of allocated lists of segments of a controller; -1 if there is no
 * pool.
 */
static long long lists_in_use(FIXTURE_DATA(uq) *self)
{
	char path[64], line[128];
	long long nr = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/nvme/nvme%d/device/pools",
		 self->node.ns.ctrl);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f) &&
	       sscanf(line, "nvme user queue lists %lld", &nr) != 1)
		;
	if (f)
		fclose(f);
	return nr;
}

/* A queue allocates lists only for commands that need them, and frees them. */
TEST_F(uq, lists_end_with_their_commands)
{
	struct iovec iov[40];
	unsigned int i, n;

	EXPECT_TRUE(uq_wait_idle(self->node.name));
	EXPECT_EQ(0, lists_in_use(self));
	/* segments with gaps */
	for (i = 0; i < ARRAY_SIZE(iov); i++) {
		iov[i].iov_base = self->buf + i * 8192;
		iov[i].iov_len = 512;
	}
	for (n = 4; n <= ARRAY_SIZE(iov); n += 36) {
		struct nvme_uring_cmd *c = prep(self, CMD_READ, 0, iov, n);

		uq_sqe(c)->cmd_op = NVME_URING_CMD_IO_VEC;
		c->cdw12 = n - 1;
		EXPECT_EQ(0, uq_run(&self->ring)) TH_LOG("%u pieces", n);
	}
	EXPECT_TRUE(uq_wait_idle(self->node.name));
	EXPECT_EQ(0, lists_in_use(self));
}

/* Transfer a vector of segments that are out of order in memory. */
static void run_vector(struct __test_metadata *_metadata,
		       FIXTURE_DATA(uq) *self, struct iovec *iov,
		       unsigned int n, bool fixed)
{
	struct nvme_uring_cmd *c;
	size_t len = 0, at;
	unsigned int i;

	for (i = 0; i < n; i++) {
		uq_fill(iov[i].iov_base, iov[i].iov_len, fixed * 9 + i);
		len += iov[i].iov_len;
	}
	c = prep(self, CMD_WRITE, 4096, iov, n);
	uq_sqe(c)->cmd_op = NVME_URING_CMD_IO_VEC;
	c->cdw12 = len / LBA - 1;
	if (fixed)
		uq_sqe(c)->uring_cmd_flags = IORING_URING_CMD_FIXED;
	ASSERT_EQ(0, uq_run(&self->ring)) TH_LOG("write, fixed %u", fixed);
	ASSERT_EQ(len, pread(self->block, self->ref, len, 4096 * LBA));
	for (i = 0, at = 0; i < n; at += iov[i++].iov_len)
		ASSERT_EQ(0, memcmp(self->ref + at, iov[i].iov_base,
				    iov[i].iov_len));

	uq_fill(self->ref, len, 4711);
	ASSERT_EQ(len, pwrite(self->block, self->ref, len, 4096 * LBA));
	c = prep(self, CMD_READ, 4096, iov, n);
	uq_sqe(c)->cmd_op = NVME_URING_CMD_IO_VEC;
	c->cdw12 = len / LBA - 1;
	if (fixed)
		uq_sqe(c)->uring_cmd_flags = IORING_URING_CMD_FIXED;
	ASSERT_EQ(0, uq_run(&self->ring)) TH_LOG("read, fixed %u", fixed);
	for (i = 0, at = 0; i < n; at += iov[i++].iov_len)
		ASSERT_EQ(0, memcmp(self->ref + at, iov[i].iov_base,
				    iov[i].iov_len));
}

TEST_F(uq, vectors)
{
	struct iovec few[] = {
		{ self->buf + 65536, 4096 },
		{ self->buf, 8192 },
		{ self->buf + 32768, 512 },
		{ self->buf + 49152 + 512, 3584 },
	};
	/* each may be in two pages, and a command has at most 256 pieces */
	struct iovec many[128];
	unsigned int i, n = 0;
	size_t len = 0;

	for (i = 0; i < ARRAY_SIZE(many); i++) {
		many[i].iov_base = self->buf + (127 - i) * 6144 + 512 * (i % 5);
		many[i].iov_len = 512 * (1 + i % 7);
		/* an IOMMU may limit transfers to 128 KiB */
		len += many[i].iov_len;
		if (len <= self->node.ns.max)
			n++;
	}
	run_vector(_metadata, self, few, 1, false);
	run_vector(_metadata, self, few, ARRAY_SIZE(few), false);
	run_vector(_metadata, self, few, ARRAY_SIZE(few), true);
	run_vector(_metadata, self, many, n, false);
	run_vector(_metadata, self, many, n, true);
}

/* A command has at most as many pieces as one of the block layer. */
TEST_F(uq, too_many_pieces)
{
	struct iovec iov[257];
	struct nvme_uring_cmd *c;
	unsigned int i;

	if (self->node.ns.max < 257 * 512)
		SKIP(return, "a command takes %u bytes", self->node.ns.max);
	for (i = 0; i < 257; i++) {
		iov[i].iov_base = self->buf + i * 1024;
		iov[i].iov_len = 512;
	}
	for (i = 256; i < 258; i++) {
		c = prep(self, CMD_READ, 0, iov, i);
		uq_sqe(c)->cmd_op = NVME_URING_CMD_IO_VEC;
		c->cdw12 = i - 1;
		EXPECT_EQ(i == 256 ? 0 : -EINVAL, uq_run(&self->ring));
	}
}

TEST_F(uq, other_commands)
{
	struct { __u32 attr, len; __u64 slba; } range = { 0, 8, 8192 };
	struct nvme_uring_cmd *c;
	unsigned int i;

	uq_fill(self->buf, 4096, 5);
	prep(self, CMD_WRITE, 8192, self->buf, 4096);
	ASSERT_EQ(0, uq_run(&self->ring));
	prep(self, CMD_FLUSH, 0, NULL, 0);
	ASSERT_EQ(0, uq_run(&self->ring));
	prep(self, CMD_COMPARE, 8192, self->buf, 4096);
	ASSERT_EQ(0, uq_run(&self->ring));
	self->buf[77] ^= 1;
	prep(self, CMD_COMPARE, 8192, self->buf, 4096);
	ASSERT_EQ(ST_COMPARE, STATUS(uq_run(&self->ring)));

	c = prep(self, CMD_ZEROES, 8192, NULL, 0);
	c->cdw12 = 7;
	ASSERT_EQ(0, uq_run(&self->ring));
	ASSERT_EQ(4096, pread(self->block, self->ref, 4096, 8192 * LBA));
	for (i = 0; i < 4096; i++)
		ASSERT_EQ(0, self->ref[i]);

	/* the device defines the content of deallocated blocks */
	c = prep(self, CMD_DSM, 0, &range, sizeof(range));
	c->cdw10 = 0;
	c->cdw11 = 4;
	c->cdw12 = 0;
	ASSERT_EQ(0, uq_run(&self->ring));
}

/* If the device fails a command, the CQE contains the status. */
TEST_F(uq, device_status)
{
	prep(self, CMD_READ, 1ull << 40, self->buf, 512);
	ASSERT_EQ(ST_LBA_RANGE, STATUS(uq_run(&self->ring)));
}

struct outcome {
	int res;
	__u64 result;
};

static struct outcome outcome_of(struct io_uring *ring, int fd,
				 const struct nvme_uring_cmd *cmd)
{
	struct nvme_uring_cmd *c;
	struct outcome o = { .res = -EPROTO };

	c = uq_prep(ring, fd, cmd->nsid, 0, 0, NULL, 0);
	if (!c)
		return o;
	*c = *cmd;
	if (io_uring_submit(ring) == 1)
		o.res = uq_reap(ring, &o.result);
	return o;
}

/* A command ends with the same result on both nodes. */
TEST_F(uq, same_as_generic_node)
{
	struct nvme_uring_cmd cmds[] = {
		{ .opcode = CMD_READ, .data_len = 4096, .cdw12 = 7 },
		{ .opcode = CMD_READ, .data_len = 512, .cdw10 = ~0u,
		  .cdw11 = ~0u },
		{ .opcode = CMD_FLUSH },
		{ .opcode = CMD_ZEROES, .cdw10 = 64, .cdw12 = 7 },
		{ .opcode = CMD_COMPARE, .data_len = 512, .cdw10 = 64 },
		{ .opcode = CMD_WRITE, .data_len = 512, .cdw10 = 64 },
		{ .opcode = 0x7f },
		{ .opcode = 0xff },
		{ .opcode = CMD_READ, .data_len = 8192, .cdw12 = 7 },
		{ .opcode = CMD_READ, .data_len = 512, .cdw12 = 7 },
		{ .opcode = CMD_READ, .data_len = 4096, .cdw12 = 7,
		  .timeout_ms = 100000 },
		{ .opcode = CMD_READ, .data_len = 512, .rsvd1 = 0xffff,
		  .rsvd2 = 1, .cdw2 = 1, .cdw3 = 1, .cdw14 = 7, .cdw15 = 7 },
		{ .opcode = CMD_READ, .data_len = 512, .flags = 1 },
		{ .opcode = CMD_READ, .data_len = 512, .nsid = 99 },
		{ .opcode = CMD_READ, .data_len = 512, .nsid = ~0u },
		{ .opcode = CMD_READ, .data_len = 512, .addr = 4096 },
		{ .opcode = CMD_READ, .data_len = 512, .metadata_len = 8,
		  .metadata = (uintptr_t)self->ref },
	};
	struct io_uring ring;
	unsigned int i;
	int generic;

	generic = open(self->node.generic, O_RDWR);
	if (generic < 0)
		SKIP(return, "no %s", self->node.generic);
	ASSERT_EQ(0, uq_ring(&ring, 8, 0));
	for (i = 0; i < ARRAY_SIZE(cmds); i++) {
		struct outcome theirs, ours;

		if (cmds[i].data_len && !cmds[i].addr)
			cmds[i].addr = (uintptr_t)self->buf;
		if (!cmds[i].nsid)
			cmds[i].nsid = self->node.nsid;
		theirs = outcome_of(&ring, generic, &cmds[i]);
		ours = outcome_of(&self->ring, self->fd, &cmds[i]);
		EXPECT_EQ(theirs.res, ours.res) TH_LOG("command %u", i);
		if (theirs.res >= 0)
			EXPECT_EQ(theirs.result, ours.result)
				TH_LOG("command %u", i);
	}
	io_uring_queue_exit(&ring);
	close(generic);
}

/* Ioctls transfer data as on the generic node. */
TEST_F(uq, ioctls_move_data)
{
	struct nvme_passthru_cmd io = {
		.opcode		= CMD_WRITE,
		.nsid		= self->node.nsid,
		.addr		= (uintptr_t)self->buf,
		.data_len	= 4096,
		.cdw10		= 128,
		.cdw12		= 7,
	};
	struct nvme_passthru_cmd64 io64 = {
		.opcode		= CMD_READ,
		.nsid		= self->node.nsid,
		.addr		= (uintptr_t)self->ref,
		.data_len	= 4096,
		.cdw10		= 128,
		.cdw12		= 7,
	};
	struct iovec iov[2] = {
		{ self->ref + 65536, 512 }, { self->ref, 3584 },
	};
	struct nvme_user_io sub = {
		.opcode		= CMD_READ,
		.nblocks	= 7,
		.addr		= (uintptr_t)self->ref,
		.slba		= 128,
	};

	uq_fill(self->buf, 4096, 31);
	ASSERT_EQ(0, ioctl(self->fd, NVME_IOCTL_IO_CMD, &io));
	ASSERT_EQ(0, ioctl(self->fd, NVME_IOCTL_IO64_CMD, &io64));
	EXPECT_EQ(0, memcmp(self->buf, self->ref, 4096));

	io64.addr = (uintptr_t)iov;
	io64.data_len = 2;
	ASSERT_EQ(0, ioctl(self->fd, NVME_IOCTL_IO64_CMD_VEC, &io64));
	EXPECT_EQ(0, memcmp(self->buf, self->ref + 65536, 512));
	EXPECT_EQ(0, memcmp(self->buf + 512, self->ref, 3584));

	memset(self->ref, 0, 4096);
	ASSERT_EQ(0, ioctl(self->fd, NVME_IOCTL_SUBMIT_IO, &sub));
	EXPECT_EQ(0, memcmp(self->buf, self->ref, 4096));
}

/* -- several users at once */

#define PER_RING	2000

/* Read blocks that contain their number; return the number of wrong ones. */
static unsigned long one_ring(const struct uq_node *n)
{
	unsigned long i, done = 0, sent = 0, bad = 0;
	unsigned char *buf = uq_alloc(32 * 4096);
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int fd = open(n->path, O_RDONLY);

	if (fd < 0 || !buf ||
	    uq_ring(&ring, 32, n->poll ? IORING_SETUP_IOPOLL : 0))
		return 1000000;
	while (done < PER_RING && !bad) {
		for (i = 0; i < 32 && sent < PER_RING; i++, sent++) {
			__u64 block = 16384 + sent % 512 * 8;
			struct nvme_uring_cmd *c;

			c = uq_prep(&ring, fd, n->nsid, CMD_READ, block,
				    buf + i * 4096, 4096);
			uq_sqe(c)->user_data = block << 8 | i;
		}
		if (io_uring_submit_and_wait(&ring, i) < 0)
			bad++;
		while (i-- && !io_uring_wait_cqe(&ring, &cqe)) {
			__u64 block = cqe->user_data >> 8;
			unsigned int at = cqe->user_data & 0xff;

			bad += cqe->res || *(__u32 *)(buf + at * 4096) !=
				(__u32)block * 2654435761u;
			io_uring_cqe_seen(&ring, cqe);
			done++;
		}
	}
	io_uring_queue_exit(&ring);
	close(fd);
	munmap(buf, 32 * 4096);
	return bad;
}

static void *one_thread(void *arg)
{
	return (void *)one_ring(arg);
}

static void fill_blocks(struct __test_metadata *_metadata,
			FIXTURE_DATA(uq) *self)
{
	unsigned int i;

	for (i = 0; i < 512; i++)
		uq_fill(self->ref + i * 4096, 4096, 16384 + i * 8);
	ASSERT_EQ(512 * 4096, pwrite(self->block, self->ref, 512 * 4096,
				     16384ull * LBA));
}

TEST_F(uq, several_rings)
{
	pthread_t t[4];
	unsigned int i;
	void *ret;

	fill_blocks(_metadata, self);
	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, pthread_create(&t[i], NULL, one_thread,
					    &self->node));
	for (i = 0; i < 4; i++) {
		ASSERT_EQ(0, pthread_join(t[i], &ret));
		EXPECT_EQ(NULL, ret) TH_LOG("%lu wrong", (unsigned long)ret);
	}
}

TEST_F(uq, several_processes)
{
	unsigned int i;
	int status;
	pid_t p[4];

	fill_blocks(_metadata, self);
	for (i = 0; i < 4; i++) {
		p[i] = fork();
		ASSERT_LE(0, p[i]);
		if (!p[i])
			_exit(one_ring(&self->node) ? 1 : 0);
	}
	for (i = 0; i < 4; i++) {
		ASSERT_EQ(p[i], waitpid(p[i], &status, 0));
		EXPECT_EQ(0, status);
	}
}

/* One ring submits commands to two queues at once. */
TEST_F(uq, two_queues_in_one_ring)
{
	struct uq_node other;
	unsigned int i;
	int fd;

	if (!uq_node_nth(&other, &self->node.ns, variant->poll, 1))
		SKIP(return, "only one user queue of this kind");
	fd = open(other.path, O_RDWR);
	ASSERT_LE(0, fd);
	for (i = 0; i < 32; i++)
		uq_prep(&self->ring, i % 2 ? fd : self->fd, self->node.nsid,
			CMD_READ, i, self->buf + i * 4096, 4096);
	EXPECT_EQ(0, uq_run_all(&self->ring, 32));
	EXPECT_EQ(0, uq_attr(other.name, "in_flight"));
	close(fd);
}

/* More commands than the queue has slots: all of them succeed. */
TEST_F(uq, more_than_the_queue_holds)
{
	unsigned int want = self->node.depth + 200, i;
	struct io_uring ring;

	ASSERT_EQ(0, uq_ring(&ring, 2048, self->flags));
	for (i = 0; i < want; i++)
		ASSERT_NE(NULL, uq_prep(&ring, self->fd, self->node.nsid,
					CMD_READ, i, self->buf + i * 512,
					512));
	EXPECT_EQ(0, uq_run_all(&ring, want));
	io_uring_queue_exit(&ring);
}

/* -- descriptors and rings in other processes */

/* Exit code of a child: 0 if it can read through @fd. */
static int read_by(int fd, FIXTURE_DATA(uq) *self)
{
	struct io_uring ring;

	if (uq_ring(&ring, 4, self->flags))
		return 1;
	uq_prep(&ring, fd, self->node.nsid, CMD_READ, 0, self->buf, 4096);
	return uq_run(&ring) ? 2 : 0;
}

TEST_F(uq, descriptor_of_a_parent)
{
	int status;
	pid_t pid = fork();

	ASSERT_LE(0, pid);
	if (!pid)
		_exit(read_by(self->fd, self));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
}

/* A child inherits a ring and exits; commands of the parent still complete. */
TEST_F(uq, ring_of_a_parent)
{
	int status;
	pid_t pid;

	prep(self, CMD_READ, 0, self->buf, 4096);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(0);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, uq_reap(&self->ring, NULL));
}

/* A process that cannot open the node may use a descriptor that it receives. */
TEST_F(uq, descriptor_passed)
{
	int status, pair[2];
	pid_t pid;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		unsigned int number;
		int fd;

		close(self->fd);
		if (uq_drop_privileges() ||
		    open(self->node.path, O_RDONLY) >= 0)
			_exit(3);
		fd = uq_receive_fd(pair[1], &number, 0);
		_exit(fd < 0 ? 4 : read_by(fd, self));
	}
	ASSERT_EQ(0, uq_send_fd(pair[0], self->fd, 0, 0));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

/* A task is killed with commands in flight. Its slots become free. */
TEST_F(uq, killed)
{
	unsigned int i;
	int status;
	pid_t pid;

	for (i = 0; i < 8 * uq_scale(); i++) {
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			struct io_uring ring;
			unsigned int k;

			uq_ring(&ring, 512, self->flags);
			for (k = 0; k < 512; k++)
				prep(self, CMD_READ, k, self->buf, 4096);
			for (k = 0; k < 512; k++)
				uq_prep(&ring, self->fd, self->node.nsid,
					CMD_READ, k, self->buf + k * 4096,
					4096);
			io_uring_submit(&ring);
			kill(getpid(), SIGKILL);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
	}
	EXPECT_TRUE(uq_wait_idle(self->node.name));
}

TEST_F(uq, bytes_are_counted)
{
	const char *node = self->node.name;
	long long reads = uq_attr(node, "read_bytes");
	long long writes = uq_attr(node, "write_bytes");

	ASSERT_LE(0, reads);
	ASSERT_LE(0, writes);
	prep(self, CMD_READ, 0, self->buf, 4096);
	EXPECT_EQ(0, uq_run(&self->ring));
	prep(self, CMD_WRITE, 0, self->buf, 512);
	EXPECT_EQ(0, uq_run(&self->ring));
	/* no data */
	prep(self, CMD_FLUSH, 0, NULL, 0);
	EXPECT_EQ(0, uq_run(&self->ring));
	EXPECT_EQ(reads + 4096, uq_attr(node, "read_bytes"));
	EXPECT_EQ(writes + 512, uq_attr(node, "write_bytes"));
}

TEST_F(uq, commands_are_traced)
{
	char what[96];

	if (!uq_trace_begin())
		SKIP(return, UQ_NO_TRACE);
	snprintf(what, sizeof(what), "nsid=%u, opcode=0x2, slba=77, len=1536",
		 self->node.nsid);
	prep(self, CMD_READ, 77, self->buf, 1536);
	EXPECT_EQ(0, uq_run(&self->ring));
	EXPECT_TRUE(uq_traced("nvme_uq_submit", what));
	EXPECT_TRUE(uq_traced("nvme_uq_complete", what));
	uq_trace_end();
}

int main(int argc, char **argv)
{
	return uq_main(argc, argv);
}
