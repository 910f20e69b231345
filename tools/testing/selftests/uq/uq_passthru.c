// SPDX-License-Identifier: GPL-2.0
/*
 * The generic node, /dev/ngXnY: check which commands it accepts, and their
 * results. Registered buffers and plain memory use different paths in the
 * kernel, and so do data in one piece and in several. Data, status, errno and
 * statistics must be the same on all paths.
 */
#define _GNU_SOURCE
#include <endian.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/uio.h>

#include "uq_fixture.h"

#define AREA	(8 << 20)
#define HALF	(AREA / 2)
#define LBA	512
#define ENTRIES	64
#define SLBA	4096

/* How a command describes its data. */
enum way { PLAIN, FIXED, PLAIN_VEC, FIXED_VEC, WAYS };

static const char way_names[][16] = {
	"plain", "fixed", "plain vector", "fixed vector"
};

FIXTURE(passthru)
{
	struct uq_ns ns;
	struct io_uring ring;
	unsigned char *buf, *ref;
	struct iovec iov[4];
	int fd, block;
};

FIXTURE_VARIANT(passthru)
{
	unsigned int flags;
};

/* clang-format off */
FIXTURE_VARIANT_ADD(passthru, irq) { .flags = 0 };
FIXTURE_VARIANT_ADD(passthru, irq_deferred) {
	.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN
};
FIXTURE_VARIANT_ADD(passthru, poll) { .flags = IORING_SETUP_IOPOLL };
/* clang-format on */

static int open_ns(const char *format, const struct uq_ns *ns, int mode)
{
	char path[64];

	snprintf(path, sizeof(path), format, ns->ctrl, ns->head);
	return open(path, mode);
}

/*
 * Allocate single pages, so that neighbours are not contiguous for the device.
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

FIXTURE_SETUP(passthru)
{
	char why[UQ_WHY_LEN], path[64];
	struct iovec iov;
	int ret;

	ret = uq_need_ns(&self->ns, false, why, sizeof(why));
	if (ret == KSFT_SKIP)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, ret) TH_LOG("%s", why);
	snprintf(path, sizeof(path), "/dev/%s", self->ns.block);
	self->block = open(path, O_RDWR | O_DIRECT);
	ASSERT_LE(0, self->block);
	self->fd = open_ns("/dev/ng%dn%d", &self->ns, O_RDWR);
	if (self->fd < 0)
		SKIP(return, "the namespace has no generic node of one path");
	self->buf = alloc_scattered(AREA);
	ASSERT_NE(NULL, self->buf);
	self->ref = self->buf + HALF;
	ASSERT_EQ(0, uq_ring(&self->ring, ENTRIES, variant->flags));
	iov.iov_base = self->buf;
	iov.iov_len = AREA;
	ASSERT_EQ(0, io_uring_register_buffers(&self->ring, &iov, 1));
}

FIXTURE_TEARDOWN(passthru)
{
	if (!self->buf)
		return;
	io_uring_queue_exit(&self->ring);
	close(self->fd);
	close(self->block);
	munmap(self->buf, AREA);
}

/* Prepare a command with its data described in one of four ways. */
static struct nvme_uring_cmd *prep(FIXTURE_DATA(passthru) *self, enum way way,
				   int opcode, __u64 slba, void *buf,
				   __u32 len)
{
	struct nvme_uring_cmd *c;

	c = uq_prep(&self->ring, self->fd, self->ns.nsid, opcode, slba, buf,
		    len);
	if (way == FIXED || way == FIXED_VEC)
		uq_sqe(c)->uring_cmd_flags = IORING_URING_CMD_FIXED;
	if (way < PLAIN_VEC)
		return c;
	/* one block, and the rest if there is any */
	self->iov[0].iov_base = buf;
	self->iov[0].iov_len = len > LBA ? LBA : len;
	self->iov[1].iov_base = (char *)buf + self->iov[0].iov_len;
	self->iov[1].iov_len = len - self->iov[0].iov_len;
	uq_sqe(c)->cmd_op = NVME_URING_CMD_IO_VEC;
	c->addr = (uintptr_t)self->iov;
	c->data_len = 1 + !!self->iov[1].iov_len;
	return c;
}

static int run(FIXTURE_DATA(passthru) *self, enum way way, int opcode,
	       __u64 slba, void *buf, __u32 len)
{
	prep(self, way, opcode, slba, buf, len);
	return uq_run(&self->ring);
}

static const size_t offsets[] = { 0, 4, 512, 3584, 3840, 4092, 8192 - 512 };
static const __u32 lengths[] = { 512, 4096, 4608, 8192, 65536, 131072 };

/*
 * Write through the generic node and read through the block device, and vice
 * versa.
 */
static void round_trip(struct __test_metadata *_metadata,
		       FIXTURE_DATA(passthru) *self, enum way way, size_t off,
		       __u32 len, unsigned int seed)
{
	unsigned char *mine = self->buf + 8192 + off;

	uq_fill(mine, len, seed);
	ASSERT_EQ(0, run(self, way, CMD_WRITE, SLBA, mine, len))
		TH_LOG("%s, offset %zu, length %u", way_names[way], off, len);
	ASSERT_EQ(len, pread(self->block, self->ref, len, SLBA * LBA));
	ASSERT_EQ(0, memcmp(mine, self->ref, len))
		TH_LOG("%s, offset %zu, length %u", way_names[way], off, len);

	uq_fill(self->ref, len, ~seed);
	ASSERT_EQ(len, pwrite(self->block, self->ref, len, SLBA * LBA));
	/* memory outside of the buffer must not change */
	memset(self->buf, 0xee, 8192 + off + len + LBA);
	ASSERT_EQ(0, run(self, way, CMD_READ, SLBA, mine, len))
		TH_LOG("%s, offset %zu, length %u", way_names[way], off, len);
	ASSERT_EQ(0, memcmp(mine, self->ref, len))
		TH_LOG("%s, offset %zu, length %u", way_names[way], off, len);
	ASSERT_EQ(0xee, mine[-1]);
	ASSERT_EQ(0xee, mine[len]);
}

TEST_F(passthru, round_trips)
{
	unsigned int o, l, way, room;

	for (way = 0; way < WAYS; way++) {
		/* a vector may need one segment more than the longest buffer */
		room = way < PLAIN_VEC ? 0 : 4096;
		for (o = 0; o < ARRAY_SIZE(offsets); o++)
			for (l = 0; l < ARRAY_SIZE(lengths); l++)
				if (lengths[l] + room <= self->ns.max)
					round_trip(_metadata, self, way,
						   offsets[o], lengths[l],
						   way * 256 + o * 16 + l);
	}
}

/*
 * Huge pages are long pieces of memory. The registered buffer starts within the
 * first one, so offsets in the buffer are not offsets in a page.
 */
TEST_F(passthru, huge_pages)
{
	const size_t head = 3 * 4096, size = 2 << 20;
	unsigned char *huge, *map, *area = self->buf;
	struct io_uring ring = self->ring;
	struct iovec iov;

	map = uq_alloc(AREA);
	ASSERT_NE(NULL, map);
	huge = (unsigned char *)(((uintptr_t)map + size - 1) & ~(size - 1));
	madvise(huge, 3 * size, MADV_HUGEPAGE);
	memset(huge, 0, 3 * size);
	self->buf = huge + head;
	iov.iov_base = self->buf;
	iov.iov_len = 3 * size - head;
	ASSERT_EQ(0, uq_ring(&self->ring, ENTRIES, variant->flags));
	ASSERT_EQ(0, io_uring_register_buffers(&self->ring, &iov, 1));
	round_trip(_metadata, self, FIXED, 0, 131072, 1);
	round_trip(_metadata, self, FIXED, size - head + 512, 131072, 2);
	round_trip(_metadata, self, FIXED, 2 * size - head + 65536 + 4096 - 512,
		   131072, 3);
	/* up to the end of a huge page, and beyond */
	round_trip(_metadata, self, FIXED, size - head - 8192 - 4096, 4096, 4);
	round_trip(_metadata, self, FIXED, size - head - 8192 - 512, 4096, 5);
	round_trip(_metadata, self, FIXED, 2 * size - head - 8192 - 4096, 131072, 6);
	io_uring_queue_exit(&self->ring);
	munmap(map, AREA);
	self->buf = area;
	self->ring = ring;
}

/*
 * Addresses that the device cannot use. The kernel copies the data, so the
 * command succeeds.
 */
TEST_F(passthru, misaligned_addresses)
{
	static const size_t off[] = { 1, 2, 3, 511, 4095 };
	unsigned int way, i;

	for (way = 0; way < WAYS; way++)
		for (i = 0; i < ARRAY_SIZE(off); i++) {
			round_trip(_metadata, self, way, off[i], 512, i);
			round_trip(_metadata, self, way, off[i], 8192, i + 16);
		}
}

/*
 * The length does not match the blocks. The result must be the same for all
 * buffers, and no other memory may change.
 */
TEST_F(passthru, other_lengths)
{
	static const __u32 len[] = { 4, 508, 510, 511, 1020, 4092 };
	unsigned int way, i, j;
	int first, ret;

	ASSERT_EQ(0, uq_identify(self->ns.ctrl, 0, self->buf));
	/* without SGLs, the device does not see the length of the memory */
	if (!(self->buf[536] & 3))
		SKIP(return, "the controller does not support SGLs");
	for (i = 0; i < ARRAY_SIZE(len); i++) {
		for (way = 0; way < PLAIN_VEC; way++) {
			memset(self->buf, 0xee, 16384);
			/* the blocks do not fit into the buffer */
			prep(self, way, CMD_READ, SLBA, self->buf, len[i])->cdw12 =
				len[i] / LBA;
			ret = uq_run(&self->ring);
			if (!way)
				first = ret;
			EXPECT_EQ(first, ret)
				TH_LOG("%s, %u bytes", way_names[way], len[i]);
			for (j = len[i]; j < 16384; j++)
				ASSERT_EQ(0xee, self->buf[j]);
		}
	}
}

/* Longer than the controller's limit, by one block. */
TEST_F(passthru, too_long)
{
	__u32 max = self->ns.max;
	unsigned int way;

	ASSERT_LT(0, max);
	if (max + LBA > AREA)
		SKIP(return, "the controller takes %u KiB", max / 1024);
	for (way = 0; way < WAYS; way++)
		EXPECT_EQ(-EINVAL, run(self, way, CMD_READ, 0, self->buf,
				       max + LBA)) TH_LOG("%s", way_names[way]);
}

/* Arguments that the generic node refuses. */
TEST_F(passthru, refused)
{
	struct nvme_uring_cmd *c;
	unsigned int way, bit;

	for (way = 0; way < WAYS; way++) {
		for (bit = 0; bit < 8; bit++) {
			c = prep(self, way, CMD_READ, 0, self->buf, 512);
			c->flags = 1 << bit;
			EXPECT_EQ(-EINVAL, uq_run(&self->ring))
				TH_LOG("%s, flag %u", way_names[way], bit);
		}
		prep(self, way, CMD_READ, 0, self->buf, 512)->nsid =
			self->ns.nsid + 1;
		EXPECT_EQ(-EINVAL, uq_run(&self->ring));
		/* the namespace has no metadata */
		c = prep(self, way, CMD_READ, 0, self->buf, 512);
		c->metadata = (uintptr_t)self->ref;
		c->metadata_len = 8;
		EXPECT_EQ(-EINVAL, uq_run(&self->ring))
			TH_LOG("%s", way_names[way]);
		/* metadata requires both an address and a length */
		c = prep(self, way, CMD_READ, 0, self->buf, 512);
		c->metadata = (uintptr_t)self->ref;
		EXPECT_EQ(0, uq_run(&self->ring)) TH_LOG("%s", way_names[way]);
		c = prep(self, way, CMD_READ, 0, self->buf, 512);
		c->metadata_len = 8;
		EXPECT_EQ(0, uq_run(&self->ring)) TH_LOG("%s", way_names[way]);
	}
	uq_sqe(prep(self, FIXED, CMD_READ, 0, self->buf, 512))->cmd_op =
		NVME_URING_CMD_ADMIN;
	EXPECT_EQ(-ENOTTY, uq_run(&self->ring));
}

/* Memory outside of the registered buffer, or not mapped at all. */
TEST_F(passthru, outside_of_buffers)
{
	unsigned char *end = self->buf + AREA;
	struct nvme_uring_cmd *c;

	EXPECT_EQ(0, run(self, FIXED, CMD_READ, 0, end - 512, 512));
	EXPECT_EQ(-EFAULT, run(self, FIXED, CMD_READ, 0, end - 508, 512));
	EXPECT_EQ(-EFAULT, run(self, FIXED, CMD_READ, 0, end, 512));
	EXPECT_EQ(-EFAULT, run(self, FIXED, CMD_READ, 0, self->buf - 4, 512));
	EXPECT_EQ(-EFAULT, run(self, FIXED, CMD_READ, 0, NULL, 512));
	EXPECT_EQ(-EFAULT, run(self, FIXED, CMD_READ, 0, (void *)-512ul, 512));
	EXPECT_EQ(-EFAULT, run(self, FIXED, CMD_READ, 0, (void *)-4ul, 512));
	EXPECT_EQ(-EFAULT, run(self, PLAIN, CMD_READ, 0, (void *)8, 512));
	c = prep(self, FIXED, CMD_READ, 0, self->buf, 512);
	c->data_len = ~0u;
	EXPECT_EQ(-EFAULT, uq_run(&self->ring));
	c = prep(self, FIXED, CMD_READ, 0, self->buf, 512);
	uq_sqe(c)->buf_index = 1;
	EXPECT_EQ(-EFAULT, uq_run(&self->ring));
	/* the registered buffer is still usable */
	EXPECT_EQ(0, run(self, FIXED, CMD_READ, 0, self->buf, 512));
}

/* Commands without data, with and without an address. */
TEST_F(passthru, no_data)
{
	unsigned int way;

	for (way = 0; way < PLAIN_VEC; way++) {
		EXPECT_EQ(0, run(self, way, CMD_FLUSH, 0, NULL, 0))
			TH_LOG("%s", way_names[way]);
		EXPECT_EQ(0, run(self, way, CMD_FLUSH, 0, self->buf, 0))
			TH_LOG("%s", way_names[way]);
		prep(self, way, CMD_ZEROES, SLBA, NULL, 0)->cdw12 = 7;
		EXPECT_EQ(0, uq_run(&self->ring)) TH_LOG("%s", way_names[way]);
	}
}

/* The result is the status of the device, and the buffer can be used again. */
TEST_F(passthru, status_of_the_device)
{
	unsigned int way, opcode;
	int first, ret;

	uq_fill(self->ref, 4096, 1);
	ASSERT_EQ(4096, pwrite(self->block, self->ref, 4096, SLBA * LBA));
	for (way = 0; way < WAYS; way++) {
		memset(self->buf, 0, 4096);
		EXPECT_EQ(ST_LBA_RANGE, STATUS(run(self, way, CMD_READ,
						   1ull << 60, self->buf,
						   4096)));
		EXPECT_EQ(ST_COMPARE, STATUS(run(self, way, CMD_COMPARE, SLBA,
						 self->buf, 4096)));
		EXPECT_EQ(0, run(self, way, CMD_READ, SLBA, self->buf, 4096));
		EXPECT_EQ(0, memcmp(self->buf, self->ref, 4096));
		EXPECT_EQ(0, run(self, way, CMD_COMPARE, SLBA, self->buf,
				 4096));
	}
	/* unknown opcodes, with data in both directions */
	for (opcode = 0x60; opcode < 0x64; opcode++) {
		for (way = 0; way < WAYS; way++) {
			ret = run(self, way, opcode, 0, self->buf, 4096);
			if (!way)
				first = ret;
			EXPECT_EQ(first, ret) TH_LOG("opcode %#x, %s", opcode,
						     way_names[way]);
			EXPECT_LT(0, ret);
		}
	}
}

/* A user without privileges, with a file for reading or for both. */
struct who {
	FIXTURE_DATA(passthru) *self;
	unsigned int flags;
	int mode;
	bool effects_log;
};

/* Return the number of commands with a wrong result. */
static int without_privileges(void *data)
{
	static const struct {
		int opcode, rdonly, rdwr;
	} cmds[] = {
		{ CMD_READ, 0, 0 },
		{ CMD_WRITE, -EACCES, 0 },
		{ CMD_FLUSH, -EACCES, 0 },
		/* unknown, vendor specific, fabrics */
		{ 0x60, -EACCES, -EACCES },
		{ 0x61, -EACCES, -EACCES },
		{ 0x80, -EACCES, -EACCES },
		{ 0xfe, -EACCES, -EACCES },
		{ 0x7f, -EACCES, -EACCES },
	};
	struct who *who = data;
	FIXTURE_DATA(passthru) *self = who->self;
	unsigned int i, way, bad = 0;
	struct iovec iov = { self->buf, 8192 };
	int want, ret;

	/* the user needs a ring of its own */
	if (uq_ring(&self->ring, 8, who->flags) ||
	    io_uring_register_buffers(&self->ring, &iov, 1))
		return -1;
	for (way = 0; way < WAYS; way++)
		for (i = 0; i < ARRAY_SIZE(cmds); i++) {
			__u32 len = cmds[i].opcode ? 512 : 0;

			if (!len && way >= PLAIN_VEC)
				continue;
			want = who->mode == O_RDWR ? cmds[i].rdwr :
				cmds[i].rdonly;
			/* no command is known as supported */
			if (!who->effects_log)
				want = -EACCES;
			ret = run(self, way, cmds[i].opcode, SLBA, self->buf,
				  len);
			if (ret == want)
				continue;
			ksft_print_msg("opcode %#x, %s: %d, not %d\n",
				       cmds[i].opcode, way_names[way], ret,
				       want);
			bad++;
		}
	return bad;
}

TEST_F(passthru, privileges)
{
	struct who who = { .self = self, .flags = variant->flags };
	struct io_uring ring = self->ring;
	int fd = self->fd;

	ASSERT_EQ(0, uq_identify(self->ns.ctrl, 0, self->buf));
	who.effects_log = self->buf[261] & 2;
	/* test the permission for the command, not for the node */
	who.mode = O_RDONLY;
	self->fd = open_ns("/dev/ng%dn%d", &self->ns, O_RDONLY);
	ASSERT_LE(0, self->fd);
	EXPECT_EQ(0, uq_run_unprivileged(without_privileges, &who));
	close(self->fd);
	self->fd = fd;
	who.mode = O_RDWR;
	EXPECT_EQ(0, uq_run_unprivileged(without_privileges, &who));
	self->ring = ring;
}

/*
 * Many commands of one or two rings complete at the same time. A task that
 * waits for all of them gets each completion once. One task work completes at
 * most 32 commands.
 */
TEST_F(passthru, many_at_once)
{
	struct io_uring other, *rings[2] = { &self->ring, &other };
	unsigned int round, i, r, nr[2], seen[64];
	struct io_uring_cqe *cqe;
	struct iovec iov = { self->buf, AREA };

	ASSERT_EQ(0, uq_ring(&other, ENTRIES, variant->flags));
	ASSERT_EQ(0, io_uring_register_buffers(&other, &iov, 1));
	for (round = 0; round < 50 * uq_scale(); round++) {
		memset(seen, 0, sizeof(seen));
		memset(nr, 0, sizeof(nr));
		/*
		 * all on one ring, on both in turn, or on one after the other
		 */
		for (i = 0; i < 64; i++) {
			struct nvme_uring_cmd *c;

			r = round % 3 == 2 ? 0 : round & 1 ? i & 1 : i / 32;
			nr[r]++;
			c = uq_prep(rings[r], self->fd, self->ns.nsid, CMD_READ,
				    i, self->buf + i * 4096, 512);
			uq_sqe(c)->user_data = i;
			/* mix both kinds of buffers in a batch */
			if (i % 3)
				uq_sqe(c)->uring_cmd_flags =
					IORING_URING_CMD_FIXED;
			if (round & 1)
				ASSERT_EQ(1, io_uring_submit(rings[r]));
		}
		for (r = 0; r < 2; r++)
			if (!(round & 1))
				ASSERT_EQ(nr[r], io_uring_submit(rings[r]));
		for (r = 0; r < 2; r++) {
			/* a ring that polls may return early */
			if (nr[r] && !(variant->flags & IORING_SETUP_IOPOLL))
				ASSERT_EQ(0, io_uring_wait_cqe_nr(rings[r], &cqe,
								  nr[r]));
			for (i = 0; i < nr[r]; i++) {
				ASSERT_EQ(0, io_uring_wait_cqe(rings[r], &cqe));
				ASSERT_EQ(0, cqe->res);
				ASSERT_GT(64, cqe->user_data);
				ASSERT_EQ(0, seen[cqe->user_data]++);
				io_uring_cqe_seen(rings[r], cqe);
			}
		}
	}
	io_uring_queue_exit(&other);
}

/*
 * The completion queue is smaller than the number of commands in flight. The
 * task gets each completion once.
 */
TEST_F(passthru, small_completion_queue)
{
	struct iovec iov = { self->buf, AREA };
	unsigned int round, i, seen[64];
	struct io_uring_cqe *cqe;
	struct io_uring ring;

	/* the completion queue has twice as many entries */
	ASSERT_EQ(0, uq_ring(&ring, 4, variant->flags));
	ASSERT_EQ(8, ring.cq.ring_entries);
	ASSERT_EQ(0, io_uring_register_buffers(&ring, &iov, 1));
	for (round = 0; round < 20 * uq_scale(); round++) {
		memset(seen, 0, sizeof(seen));
		for (i = 0; i < 64; i++) {
			struct nvme_uring_cmd *c;

			c = uq_prep(&ring, self->fd, self->ns.nsid, CMD_READ,
				    i, self->buf + i * 4096, 512);
			uq_sqe(c)->user_data = i;
			uq_sqe(c)->uring_cmd_flags =
				IORING_URING_CMD_FIXED;
			if (i % 4 == 3)
				ASSERT_EQ(4, io_uring_submit(&ring));
		}
		for (i = 0; i < 64; i++) {
			ASSERT_EQ(0, io_uring_wait_cqe(&ring, &cqe));
			ASSERT_EQ(0, cqe->res);
			ASSERT_GT(64, cqe->user_data);
			ASSERT_EQ(0, seen[cqe->user_data]++);
			io_uring_cqe_seen(&ring, cqe);
		}
	}
	io_uring_queue_exit(&ring);
}

/* A chain runs in order. If a request fails, those after it are cancelled. */
TEST_F(passthru, linked)
{
	struct io_uring_cqe *cqe;
	unsigned int i;

	for (i = 0; i < 8; i++) {
		struct nvme_uring_cmd *c;

		c = prep(self, FIXED, CMD_READ, i == 5 ? 1ull << 60 : i,
			 self->buf, 512);
		/*
		 * io_uring rejects this cmd_op; a status of the device would
		 * not break the chain
		 */
		if (i == 5)
			uq_sqe(c)->cmd_op = 0;
		uq_sqe(c)->user_data = i;
		if (i < 7)
			uq_sqe(c)->flags |= IOSQE_IO_LINK;
	}
	ASSERT_EQ(8, io_uring_submit(&self->ring));
	for (i = 0; i < 8; i++) {
		ASSERT_EQ(0, io_uring_wait_cqe(&self->ring, &cqe));
		EXPECT_EQ(i, cqe->user_data);
		EXPECT_EQ(i < 5 ? 0 : i == 5 ? -ENOTTY : -ECANCELED, cqe->res);
		io_uring_cqe_seen(&self->ring, cqe);
	}
}

/* Read the commands and sectors of one direction from /sys/block/.../stat. */
static void read_stat(struct __test_metadata *_metadata,
		      FIXTURE_DATA(passthru) *self, bool write,
		      unsigned long long *ios, unsigned long long *sectors)
{
	unsigned long long n[7];
	char path[80], line[256], *at = line;
	unsigned int i;

	snprintf(path, sizeof(path), "/sys/block/%s/stat", self->ns.block);
	ASSERT_EQ(0, uq_read_line(path, line, sizeof(line)));
	for (i = 0; i < ARRAY_SIZE(n); i++)
		n[i] = strtoull(at, &at, 10);
	*ios = n[write ? 4 : 0];
	*sectors = n[write ? 6 : 2];
}

/* Passthrough commands count if iostats_passthrough is set, with any buffer. */
TEST_F(passthru, statistics)
{
	unsigned long long ios, sectors, ios2, sectors2;
	char path[80], was[8];
	unsigned int way, write, on;

	snprintf(path, sizeof(path), "/sys/block/%s/queue/iostats_passthrough",
		 self->ns.block);
	if (uq_read_line(path, was, sizeof(was)))
		SKIP(return, "no iostats_passthrough");
	for (on = 0; on < 2; on++) {
		ASSERT_EQ(0, uq_write_line(path, on ? "1" : "0"));
		for (way = 0; way < WAYS; way++) {
			for (write = 0; write < 2; write++) {
				read_stat(_metadata, self, write, &ios, &sectors);
				EXPECT_EQ(0, run(self, way, write ? CMD_WRITE :
						 CMD_READ, SLBA, self->buf,
						 4096));
				EXPECT_EQ(0, run(self, way, write ? CMD_WRITE :
						 CMD_READ, SLBA, self->buf,
						 65536));
				/*
				 * a command with a part of a block is not
				 * counted
				 */
				run(self, way, write ? CMD_WRITE : CMD_READ,
				    SLBA, self->buf, 508);
				read_stat(_metadata, self, write, &ios2,
					  &sectors2);
				EXPECT_EQ(on * 2, ios2 - ios)
					TH_LOG("%s", way_names[way]);
				EXPECT_EQ(on * (8 + 128), sectors2 - sectors)
					TH_LOG("%s", way_names[way]);
			}
		}
	}
	EXPECT_EQ(0, uq_write_line(path, was));
}

/* The synchronous ioctls. */
TEST_F(passthru, ioctls)
{
	struct nvme_passthru_cmd64 c = {
		.opcode = CMD_READ, .nsid = self->ns.nsid,
		.addr = (uintptr_t)self->buf, .data_len = 4096,
		.cdw10 = SLBA, .cdw12 = 7,
	};

	EXPECT_EQ(0, ioctl(self->fd, NVME_IOCTL_IO64_CMD, &c));
	c.data_len = self->ns.max + 4096;
	EXPECT_EQ(-1, ioctl(self->fd, NVME_IOCTL_IO64_CMD, &c));
	EXPECT_EQ(EINVAL, errno);
	c.data_len = 4096;
	c.nsid++;
	EXPECT_EQ(-1, ioctl(self->fd, NVME_IOCTL_IO64_CMD, &c));
	EXPECT_EQ(EINVAL, errno);
	c.nsid--;
	c.flags = 1;
	EXPECT_EQ(-1, ioctl(self->fd, NVME_IOCTL_IO64_CMD, &c));
	EXPECT_EQ(EINVAL, errno);
}

/* A command whose memory cannot be accessed yet. */
struct held {
	FIXTURE_DATA(passthru) *self;
	unsigned int flags;	/* of the ring */
	enum { BY_IOCTL, BY_IOCTL_VEC, BY_RING } how;
	char *buf, *meta;
	__u32 len, meta_len;
	int ret;
};

static void *send_held(void *arg)
{
	struct held *h = arg;
	struct nvme_passthru_cmd64 c = {
		.opcode = CMD_READ, .nsid = h->self->ns.nsid,
		.addr = (uintptr_t)h->buf, .data_len = h->len,
		.metadata = (uintptr_t)h->meta, .metadata_len = h->meta_len,
		.cdw10 = SLBA, .cdw12 = h->len / h->self->ns.lba - 1,
	};
	struct io_uring ring;

	if (h->how == BY_IOCTL) {
		h->ret = ioctl(h->self->fd, NVME_IOCTL_IO64_CMD, &c);
		if (h->ret < 0)
			h->ret = -errno;
		return NULL;
	}
	if (h->how == BY_IOCTL_VEC) {
		c.vec_cnt = 1;
		h->ret = ioctl(h->self->fd, NVME_IOCTL_IO64_CMD_VEC, &c);
		return NULL;
	}
	h->ret = uq_ring(&ring, 4, h->flags);
	if (h->ret)
		return NULL;
	uq_prep(&ring, h->self->fd, h->self->ns.nsid, CMD_READ, SLBA, h->buf,
		h->len);
	h->ret = uq_run(&ring);
	io_uring_queue_exit(&ring);
	return NULL;
}

/* Freeze the queue while the command waits for its memory. */
static void freeze_held(struct __test_metadata *_metadata, struct held *held,
			int uffd)
{
	struct uffd_msg msg;
	pthread_t tenant;

	ASSERT_EQ(0, pthread_create(&tenant, NULL, send_held, held));
	EXPECT_EQ(sizeof(msg), read(uffd, &msg, sizeof(msg)));
	EXPECT_TRUE(uq_freezes(&held->self->ns, held->self->block))
		TH_LOG("way %u: the block device waits", held->how);
	close(uffd);
	ASSERT_EQ(0, pthread_join(tenant, NULL));
}

/*
 * A page fault that does not end keeps no request. So the queue can be frozen,
 * and other users of the block device go on. Data at an odd address is copied,
 * after the command.
 */
TEST_F(passthru, unresolved_fault)
{
	static const struct {
		int how;
		unsigned int offset;
		int ret;
	} ways[] = {
		{ BY_IOCTL, 0, 0 }, { BY_IOCTL, 2, 0 },
		/* a vector of zeroes, in the end */
		{ BY_IOCTL_VEC, 0, -1 },
		{ BY_RING, 0, 0 }, { BY_RING, 2, 0 },
	};
	struct held held = {
		.self = self, .flags = variant->flags, .len = 4096,
	};
	unsigned int i;
	char *buf;
	int uffd;

	for (i = 0; i < ARRAY_SIZE(ways); i++) {
		buf = uq_held_memory(8192, &uffd);
		if (uffd < 0)
			SKIP(return, "no userfaultfd");
		ASSERT_NE(NULL, buf);
		held.how = ways[i].how;
		held.buf = buf + ways[i].offset;
		freeze_held(_metadata, &held, uffd);
		EXPECT_EQ(ways[i].ret, held.ret) TH_LOG("way %u", i);
		munmap(buf, 8192);
	}
}

struct dropper {
	char *buf;	/* two pages */
	size_t page;
	int uffd;
};

/* Whenever one page is needed, drop the other one. */
static void *drop_pages(void *arg)
{
	struct dropper *d = arg;
	struct uffd_msg msg;

	while (read(d->uffd, &msg, sizeof(msg)) == sizeof(msg)) {
		size_t second = msg.arg.pagefault.address >=
				(uintptr_t)d->buf + d->page;
		struct uffdio_zeropage zero = {
			.range = {
				.start = (uintptr_t)d->buf + second * d->page,
				.len = d->page,
			},
		};

		madvise(d->buf + !second * d->page, d->page, MADV_DONTNEED);
		ioctl(d->uffd, UFFDIO_ZEROPAGE, &zero);
	}
	return NULL;
}

/*
 * Another thread drops a page of the buffer again each time, so that they are
 * never all present. The command ends all the same. A worker of io_uring that
 * tried again for ever would not see that its ring is closed.
 */
TEST_F(passthru, pages_that_are_dropped)
{
	struct dropper dropper = { .page = getpagesize() };
	struct held held = {
		.self = self, .flags = variant->flags, .len = 2 * dropper.page,
	};
	pthread_t task;

	dropper.buf = uq_held_memory(held.len, &dropper.uffd);
	if (dropper.uffd < 0)
		SKIP(return, "no userfaultfd");
	ASSERT_NE(NULL, dropper.buf);
	held.buf = dropper.buf;
	ASSERT_EQ(0, pthread_create(&task, NULL, drop_pages, &dropper));
	for (held.how = BY_IOCTL; held.how <= BY_RING; held.how += BY_RING) {
		send_held(&held);
		EXPECT_EQ(-EFAULT, held.ret);
	}
	pthread_cancel(task);
	ASSERT_EQ(0, pthread_join(task, NULL));
	close(dropper.uffd);
	munmap(dropper.buf, held.len);
}

/* The same if only the metadata cannot be accessed. */
TEST_F(passthru, unresolved_fault_in_metadata)
{
	FIXTURE_DATA(passthru) other = *self;
	struct held held = { .self = &other, .buf = (char *)self->buf };
	char path[64];
	int uffd;

	if (!uq_ns_find(&other.ns, uq_separate_metadata))
		SKIP(return, "no such metadata (or CONFIG_BLK_DEV_INTEGRITY)");
	other.fd = open_ns("/dev/ng%dn%d", &other.ns, O_RDONLY);
	if (other.fd < 0)
		SKIP(return, "the namespace has no generic node of one path");
	snprintf(path, sizeof(path), "/dev/%s", other.ns.block);
	other.block = open(path, O_RDONLY | O_DIRECT);
	ASSERT_LE(0, other.block);
	held.meta = uq_held_memory(4096, &uffd);
	if (uffd < 0)
		SKIP(return, "no userfaultfd");
	ASSERT_NE(NULL, held.meta);
	held.len = 8 * other.ns.lba;
	held.meta_len = 8 * other.ns.ms;
	freeze_held(_metadata, &held, uffd);
	EXPECT_EQ(0, held.ret);
	munmap(held.meta, 4096);
	close(other.fd);
	close(other.block);
}

int main(int argc, char **argv)
{
	return uq_main(argc, argv);
}
