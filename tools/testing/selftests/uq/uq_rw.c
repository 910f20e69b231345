// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: read(2), write(2) and similar calls, aio, and READ and
 * WRITE of io_uring. A node behaves like the block device of its namespace with
 * O_DIRECT: the same data, the same number of bytes, the same errno.
 */
#define _GNU_SOURCE
#include <linux/aio_abi.h>
#include <linux/fs.h>
#include <linux/nvme_uq.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "uq_io.h"

#define POS	0x100000

static ssize_t try(ssize_t ret)
{
	return ret < 0 ? -errno : ret;
}

static bool same(const void *a, const void *b, size_t len)
{
	return !memcmp(a, b, len);
}

/* -- synchronous calls */

static void round_trip(struct __test_metadata *_metadata,
		       FIXTURE_DATA(uq) *self, size_t off, size_t len,
		       unsigned int seed)
{
	unsigned char *mine = self->buf + off;

	uq_fill(mine, len, seed);
	ASSERT_EQ(len, pwrite(self->fd, mine, len, POS))
		TH_LOG("write, offset %zu, length %zu", off, len);
	ASSERT_EQ(len, pread(self->block, self->ref, len, POS));
	ASSERT_TRUE(same(mine, self->ref, len));

	uq_fill(self->ref, len, ~seed);
	ASSERT_EQ(len, pwrite(self->block, self->ref, len, POS));
	/* memory outside of the buffer must not change */
	memset(self->buf, 0xee, off + len + LBA);
	ASSERT_EQ(len, pread(self->fd, mine, len, POS));
	ASSERT_TRUE(same(mine, self->ref, len))
		TH_LOG("offset %zu, length %zu", off, len);
	ASSERT_TRUE(!off || self->buf[off - 1] == 0xee);
	ASSERT_EQ(0xee, mine[len]);
}

TEST_F(uq, pread_pwrite)
{
	static const size_t offsets[] = { 0, 4, 512, 3840, 4092 };
	static const size_t lengths[] = { 512, 4096, 4608, 65536, 131072 };
	unsigned int o, l;

	for (o = 0; o < ARRAY_SIZE(offsets); o++)
		for (l = 0; l < ARRAY_SIZE(lengths); l++)
			round_trip(_metadata, self, offsets[o], lengths[l],
				   o * 64 + l);
}

/* Copy the fixture, with buffers for transfers of @len bytes. */
static void set_up_large(struct __test_metadata *_metadata,
			 FIXTURE_DATA(uq) *self, size_t len,
			 FIXTURE_DATA(uq) *large)
{
	*large = *self;
	large->buf = uq_alloc(2 * (len + 16384));
	ASSERT_NE(NULL, large->buf);
	large->ref = large->buf + len + 16384;
}

static void tear_down_large(FIXTURE_DATA(uq) *large, size_t len)
{
	munmap(large->buf, 2 * (len + 16384));
}

/* A call that is longer than a command uses several, and is not short. */
TEST_F(uq, longer_than_a_command)
{
	FIXTURE_DATA(uq) large;
	size_t max = self->node.ns.max;
	long long sent;

	set_up_large(_metadata, self, 2 * max, &large);
	round_trip(_metadata, &large, 0, max + 512, 1);
	round_trip(_metadata, &large, 512 + 4, 2 * max, 2);
	sent = uq_attr(self->node.name, "submitted");
	ASSERT_EQ(max + 512, pread(self->fd, large.buf, max + 512, 0));
	EXPECT_EQ(sent + 2, uq_attr(self->node.name, "submitted"));
	tear_down_large(&large, 2 * max);
}

TEST_F(uq, vectors_of_calls)
{
	struct iovec iov[] = {
		{ self->buf + 65536, 4096 }, { self->buf, 8192 },
		{ self->buf + 32768, 512 }, { self->buf + 49152 + 512, 3584 },
		{ self->buf + 100000, 256 }, { self->buf + 110000, 256 },
	};
	size_t len = 0, at;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(iov); i++) {
		uq_fill(iov[i].iov_base, iov[i].iov_len, i);
		len += iov[i].iov_len;
	}
	ASSERT_EQ(len, pwritev(self->fd, iov, ARRAY_SIZE(iov), POS));
	ASSERT_EQ(len, pread(self->block, self->ref, len, POS));
	for (i = 0, at = 0; i < ARRAY_SIZE(iov); at += iov[i++].iov_len)
		EXPECT_TRUE(same(self->ref + at, iov[i].iov_base,
				 iov[i].iov_len)) TH_LOG("piece %u", i);
	uq_fill(self->ref, len, 99);
	ASSERT_EQ(len, pwrite(self->block, self->ref, len, POS));
	ASSERT_EQ(len, preadv(self->fd, iov, ARRAY_SIZE(iov), POS));
	for (i = 0, at = 0; i < ARRAY_SIZE(iov); at += iov[i++].iov_len)
		EXPECT_TRUE(same(self->ref + at, iov[i].iov_base,
				 iov[i].iov_len)) TH_LOG("piece %u", i);
}

/* A vector of more pieces than a command can have needs several commands. */
TEST_F(uq, vector_of_many_pieces)
{
	const unsigned int n = 600;
	struct iovec *iov = calloc(n, sizeof(*iov));
	int fd = open(self->node.path, O_RDWR | O_DIRECT);
	struct io_uring_sqe *sqe;
	unsigned int i;

	ASSERT_NE(NULL, iov);
	ASSERT_LE(0, fd);
	for (i = 0; i < n; i++) {
		iov[i].iov_base = self->buf + i * 1024;
		iov[i].iov_len = 512;
	}
	uq_fill(self->ref, n * 512, 98);
	ASSERT_EQ(n * 512, pwrite(self->block, self->ref, n * 512, POS));
	memset(self->buf, 0, n * 1024);
	ASSERT_EQ(n * 512, preadv(fd, iov, n, POS));
	for (i = 0; i < n; i++)
		EXPECT_TRUE(same(self->ref + i * 512, iov[i].iov_base, 512));
	memset(self->buf, 0, n * 1024);
	sqe = io_uring_get_sqe(&self->ring);
	ASSERT_NE(NULL, sqe);
	io_uring_prep_rw(IORING_OP_READV, sqe, fd, iov, n, POS);
	ASSERT_EQ(n * 512, uq_run(&self->ring));
	for (i = 0; i < n; i++)
		EXPECT_TRUE(same(self->ref + i * 512, iov[i].iov_base, 512));
	close(fd);
	free(iov);
}

/* -- size and position */

TEST_F(uq, size_and_position)
{
	uint64_t ours = 0, theirs = 1;
	int our_block = 0, their_block = 1;
	off_t end;

	ASSERT_EQ(0, ioctl(self->fd, BLKGETSIZE64, &ours));
	ASSERT_EQ(0, ioctl(self->block, BLKGETSIZE64, &theirs));
	EXPECT_EQ(theirs, ours);
	ASSERT_EQ(0, ioctl(self->fd, BLKSSZGET, &our_block));
	ASSERT_EQ(0, ioctl(self->block, BLKSSZGET, &their_block));
	EXPECT_EQ(their_block, our_block);
	EXPECT_EQ(-EFAULT, try(ioctl(self->fd, BLKGETSIZE64, 8)));

	end = lseek(self->fd, 0, SEEK_END);
	EXPECT_EQ(theirs, end);
	EXPECT_EQ(0, read(self->fd, self->buf, 512));
	EXPECT_EQ(end - 512, lseek(self->fd, -512, SEEK_CUR));
	EXPECT_EQ(512, read(self->fd, self->buf, 4096));
	EXPECT_EQ(end, lseek(self->fd, 0, SEEK_CUR));
	EXPECT_EQ(4096, lseek(self->fd, 4096, SEEK_SET));
	EXPECT_EQ(1024, read(self->fd, self->buf, 1024));
	EXPECT_EQ(5120, lseek(self->fd, 0, SEEK_CUR));
	EXPECT_EQ(-EINVAL, try(lseek(self->fd, -1, SEEK_SET)));
	EXPECT_EQ(-EINVAL, try(lseek(self->fd, 0, SEEK_DATA)));
	EXPECT_EQ(-EINVAL, try(lseek(self->fd, 0, SEEK_HOLE)));
}

/* -- errors, the same as on the block device */

struct edge {
	bool	write;
	bool	end;		/* @pos is relative to the end */
	off_t	pos;
	size_t	len;
	size_t	at;		/* offset in the buffer */
	bool	null;		/* no buffer */
};

static ssize_t at_edge(FIXTURE_DATA(uq) *self, int fd, const struct edge *e,
		       off_t size)
{
	off_t pos = e->pos + (e->end ? size : 0);
	void *buf = e->null ? NULL : self->buf + e->at;

	return try(e->write ? pwrite(fd, buf, e->len, pos) :
		   pread(fd, buf, e->len, pos));
}

TEST_F(uq, same_as_block_device)
{
	const struct edge edges[] = {
		{ .len = 0 }, { .len = 0, .pos = 1 }, { .len = 511 },
		{ .len = 1 }, { .len = 513 }, { .len = 512, .pos = 1 },
		{ .len = 512, .pos = 511 }, { .len = 512, .pos = -512 },
		{ .len = 512, .at = 1 }, { .len = 512, .at = 2 },
		{ .len = 512, .at = 4 }, { .len = 4096, .null = true },
		{ .len = 512, .pos = 0, .end = true },
		{ .len = 0, .pos = 0, .end = true },
		{ .len = 513, .pos = 0, .end = true },
		{ .len = 512, .pos = 512, .end = true },
		{ .len = 512, .pos = 1, .end = true },
		{ .len = 512, .pos = -1, .end = true },
		{ .len = 4096, .pos = -8192, .end = true },
		{ .len = 16384, .pos = -8192, .end = true },
		{ .len = 8193, .pos = -8192, .end = true },
		{ .len = 512, .pos = 1ll << 62 },
	};
	off_t size = lseek(self->block, 0, SEEK_END);
	unsigned int i, write;
	struct edge e;

	for (i = 0; i < 2 * ARRAY_SIZE(edges); i++) {
		write = i >= ARRAY_SIZE(edges);
		e = edges[i % ARRAY_SIZE(edges)];
		e.write = write;
		/* the last 4 KiB contain the label of the tests */
		if (write && e.end && e.pos < 0 && e.len <= 16384)
			continue;
		EXPECT_EQ(at_edge(self, self->block, &e, size),
			  at_edge(self, self->fd, &e, size))
			TH_LOG("edge %u, %s", i % (unsigned int)ARRAY_SIZE(edges),
			       write ? "write" : "read");
	}
}

/*
 * A write across the end is short. It writes the existing data, with the label.
 */
TEST_F(uq, write_at_the_end)
{
	off_t size = lseek(self->block, 0, SEEK_END);

	ASSERT_EQ(8192, pread(self->block, self->ref, 8192, size - 8192));
	memcpy(self->buf, self->ref, 8192);
	EXPECT_EQ(8192, pwrite(self->fd, self->buf, 16384, size - 8192));
	EXPECT_EQ(8192, pread(self->fd, self->buf, 16384, size - 8192));
	EXPECT_TRUE(same(self->buf, self->ref, 8192));
	EXPECT_EQ(-EINVAL, try(pwrite(self->fd, self->buf, 511, size - 512)));
}

TEST_F(uq, permissions)
{
	int rd = open(self->node.path, O_RDONLY);
	int wr = open(self->node.path, O_WRONLY);

	ASSERT_LE(0, rd);
	ASSERT_LE(0, wr);
	EXPECT_EQ(512, pread(rd, self->buf, 512, POS));
	EXPECT_EQ(-EBADF, try(pwrite(rd, self->buf, 512, POS)));
	EXPECT_EQ(512, pwrite(wr, self->buf, 512, POS));
	EXPECT_EQ(-EBADF, try(pread(wr, self->buf, 512, POS)));
	close(rd);
	close(wr);
}

/* The same without capabilities: only the mode of the node decides. */
static int unprivileged(void *data)
{
	FIXTURE_DATA(uq) *self = data;
	int rd = open(self->node.path, O_RDONLY);

	if (rd < 0)
		return 1;
	if (open(self->node.path, O_RDWR) >= 0 || errno != EACCES)
		return 2;
	if (pread(rd, self->buf, 4096, POS) != 4096)
		return 3;
	return pwrite(rd, self->buf, 512, POS) < 0 && errno == EBADF ? 0 : 4;
}

TEST_F(uq, unprivileged)
{
	EXPECT_EQ(0, uq_run_with_mode(&self->node, 0644, unprivileged, self));
}

TEST_F(uq, flags)
{
	struct iovec iov = { self->buf, 4096 };
	int dsync = open(self->node.path, O_RDWR | O_DSYNC | O_DIRECT);

	ASSERT_LE(0, dsync);
	uq_fill(self->buf, 4096, 3);
	EXPECT_EQ(4096, pwrite(dsync, self->buf, 4096, POS));
	EXPECT_EQ(4096, pwritev2(self->fd, &iov, 1, POS, RWF_DSYNC));
	EXPECT_EQ(4096, pwritev2(self->fd, &iov, 1, POS, RWF_NOWAIT));
	EXPECT_EQ(4096, preadv2(self->fd, &iov, 1, POS, RWF_NOWAIT));
	/*
	 * RWF_NOWAIT fails if one command is not enough, before it reads the
	 * buffer
	 */
	iov.iov_len = self->node.ns.max + 4096;
	EXPECT_EQ(-EAGAIN, try(preadv2(self->fd, &iov, 1, POS, RWF_NOWAIT)));
	iov.iov_len = 4096;
	/* the kernel polls for this call */
	EXPECT_EQ(4096, preadv2(self->fd, &iov, 1, POS, RWF_HIPRI));
	EXPECT_EQ(0, fsync(dsync));
	EXPECT_EQ(0, fdatasync(self->fd));
	EXPECT_EQ(-EINVAL, try(ftruncate(self->fd, 0)));
	close(dsync);
}

/* Pages of the memory of an open file cannot be pinned. */
TEST_F(uq, memory_of_a_queue)
{
	struct nvme_uq_memory mem = { .size = 65536 };
	void *p;

	if (ioctl(self->fd, NVME_UQ_IOCTL_ALLOC_MEMORY, &mem))
		SKIP(return, "no memory: %d", errno);
	p = mmap(NULL, mem.size, PROT_READ | PROT_WRITE, MAP_SHARED, self->fd,
		 NVME_UQ_OFF_MEMORY);
	ASSERT_NE(MAP_FAILED, p);
	EXPECT_EQ(-EFAULT, try(pread(self->fd, p, 4096, POS)));
	munmap(p, mem.size);
}

/* -- io_uring */

static const unsigned int ops[] = {
	IORING_OP_READ, IORING_OP_READ_FIXED, IORING_OP_READV,
	IORING_OP_WRITE, IORING_OP_WRITE_FIXED, IORING_OP_WRITEV,
};

static bool is_write(unsigned int op)
{
	return op == IORING_OP_WRITE || op == IORING_OP_WRITE_FIXED ||
		op == IORING_OP_WRITEV;
}

static struct io_uring_sqe *prep_op(struct io_uring *ring, unsigned int op,
				    int fd, void *buf, size_t len, __u64 pos,
				    struct iovec *iov)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	if (!sqe)
		return NULL;
	iov->iov_base = buf;
	iov->iov_len = len;
	if (op == IORING_OP_READV || op == IORING_OP_WRITEV)
		io_uring_prep_rw(op, sqe, fd, iov, 1, pos);
	else
		io_uring_prep_rw(op, sqe, fd, buf, len, pos);
	return sqe;
}

static void by_ring(struct __test_metadata *_metadata,
		    FIXTURE_DATA(uq) *self, struct io_uring *ring, int fd,
		    unsigned int op, size_t len, unsigned int n,
		    unsigned int flags)
{
	struct iovec iov[64];
	unsigned int i;

	uq_fill(self->ref, n * len, op + n);
	if (is_write(op))
		memcpy(self->buf, self->ref, n * len);
	else
		ASSERT_EQ(n * len, pwrite(self->block, self->ref, n * len, POS));
	if (!is_write(op))
		memset(self->buf, 0, n * len);
	for (i = 0; i < n; i++) {
		struct io_uring_sqe *sqe;

		sqe = prep_op(ring, op, fd, self->buf + i * len, len,
			      POS + i * len, &iov[i]);
		ASSERT_NE(NULL, sqe);
		sqe->flags |= flags;
	}
	ASSERT_EQ(n, io_uring_submit(ring));
	for (i = 0; i < n; i++)
		ASSERT_EQ(len, uq_reap(ring, NULL)) TH_LOG("op %u", op);
	if (is_write(op))
		ASSERT_EQ(n * len, pread(self->block, self->ref, n * len, POS));
	EXPECT_TRUE(same(self->buf, self->ref, n * len))
		TH_LOG("op %u, %u times %zu", op, n, len);
}

/*
 * Run all operations on a ring with these flags, one by one and many at once.
 */
static void all_ops(struct __test_metadata *_metadata,
		    FIXTURE_DATA(uq) *self, unsigned int flags)
{
	FIXTURE_DATA(uq) large;
	size_t len = self->node.ns.max + 4096;
	struct io_uring ring;
	struct iovec iov;
	unsigned int o;
	int fd;

	/* io_uring polls only files with O_DIRECT */
	fd = open(self->node.path, O_RDWR |
		  (flags & IORING_SETUP_IOPOLL ? O_DIRECT : 0));
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, uq_ring(&ring, 64, flags));
	if (len < AREA / 4)
		len = AREA / 4;
	set_up_large(_metadata, self, len, &large);
	iov = (struct iovec){ large.buf, len };
	ASSERT_EQ(0, io_uring_register_buffers(&ring, &iov, 1));
	for (o = 0; o < ARRAY_SIZE(ops); o++) {
		by_ring(_metadata, &large, &ring, fd, ops[o], 512, 1, 0);
		by_ring(_metadata, &large, &ring, fd, ops[o], 4096, 48, 0);
		by_ring(_metadata, &large, &ring, fd, ops[o], 20480, 32, 0);
		by_ring(_metadata, &large, &ring, fd, ops[o], 4096, 8,
			IOSQE_ASYNC);
		/* longer than a command: a worker sends several commands */
		by_ring(_metadata, &large, &ring, fd, ops[o],
			self->node.ns.max + 4096, 1, 0);
	}
	tear_down_large(&large, len);
	io_uring_queue_exit(&ring);
	close(fd);
}

TEST_F(uq, ring_plain)
{
	all_ops(_metadata, self, 0);
}

TEST_F(uq, ring_defer_taskrun)
{
	all_ops(_metadata, self, IORING_SETUP_SINGLE_ISSUER |
		IORING_SETUP_DEFER_TASKRUN);
}

/* On both kinds of queues. A queue with an interrupt is not really polled. */
TEST_F(uq, ring_iopoll)
{
	all_ops(_metadata, self, IORING_SETUP_IOPOLL);
}

TEST_F(uq, ring_sqpoll)
{
	all_ops(_metadata, self, IORING_SETUP_SQPOLL | self->flags);
}

/* io_uring polls only files with O_DIRECT, as on the block device. */
TEST_F(uq, iopoll_without_o_direct)
{
	struct io_uring ring;
	struct iovec iov;

	ASSERT_EQ(0, uq_ring(&ring, 4, IORING_SETUP_IOPOLL));
	prep_op(&ring, IORING_OP_READ, self->fd, self->buf, 512, 0, &iov);
	EXPECT_EQ(-EOPNOTSUPP, uq_run(&ring));
	io_uring_queue_exit(&ring);
}

/* Passthrough commands and reads in one ring. */
TEST_F(uq, ring_of_both)
{
	int fd = open(self->node.path, O_RDWR | O_DIRECT);
	struct iovec iov;
	unsigned int i;

	ASSERT_LE(0, fd);
	uq_fill(self->ref, 32 * 4096, 8);
	ASSERT_EQ(32 * 4096, pwrite(self->block, self->ref, 32 * 4096, POS));
	memset(self->buf, 0, 32 * 4096);
	for (i = 0; i < 32; i++) {
		if (i % 2)
			uq_prep(&self->ring, fd, self->node.nsid, CMD_READ,
				(POS + i * 4096) / LBA, self->buf + i * 4096,
				4096);
		else
			prep_op(&self->ring, IORING_OP_READ_FIXED, fd,
				self->buf + i * 4096, 4096, POS + i * 4096,
				&iov);
	}
	ASSERT_EQ(32, io_uring_submit(&self->ring));
	for (i = 0; i < 32; i++) {
		int ret = uq_reap(&self->ring, NULL);

		EXPECT_TRUE(!ret || ret == 4096) TH_LOG("%d", ret);
	}
	EXPECT_TRUE(same(self->buf, self->ref, 32 * 4096));
	close(fd);
}

TEST_F(uq, ring_edges)
{
	off_t size = lseek(self->block, 0, SEEK_END);
	int fd = open(self->node.path, O_RDONLY | O_DIRECT);
	const struct { unsigned int op; __u64 pos; __u32 len; int ret; } t[] = {
		{ IORING_OP_READ, size, 512, 0 },
		{ IORING_OP_READ, size - 512, 4096, 512 },
		{ IORING_OP_READ_FIXED, size - 512, 4096, 512 },
		{ IORING_OP_READ, 1, 512, -EINVAL },
		{ IORING_OP_READ, 0, 513, -EINVAL },
		{ IORING_OP_READ, 0, 0, 0 },
		{ IORING_OP_WRITE, 0, 512, -EBADF },
		{ IORING_OP_WRITE_FIXED, 0, 512, -EBADF },
	};
	struct iovec iov;
	unsigned int i;

	ASSERT_LE(0, fd);
	for (i = 0; i < ARRAY_SIZE(t); i++) {
		prep_op(&self->ring, t[i].op, fd, self->buf, t[i].len,
			t[i].pos, &iov);
		EXPECT_EQ(t[i].ret, uq_run(&self->ring)) TH_LOG("%u", i);
	}
	close(fd);
}

/* -- aio */

static int aio_run(aio_context_t ctx, int fd, unsigned int op, void *buf,
		   size_t len, __u64 pos, unsigned int n, long *res)
{
	struct io_event event;
	struct iocb cb[32], *list[32];
	unsigned int i;

	memset(cb, 0, sizeof(cb));
	for (i = 0; i < n; i++) {
		cb[i].aio_lio_opcode = op;
		cb[i].aio_fildes = fd;
		cb[i].aio_buf = (uintptr_t)buf + i * len;
		cb[i].aio_nbytes = len;
		cb[i].aio_offset = pos + i * len;
		list[i] = &cb[i];
	}
	if (syscall(SYS_io_submit, ctx, n, list) != n)
		return -errno;
	*res = len;
	while (n--) {
		if (syscall(SYS_io_getevents, ctx, 1, 1, &event, NULL) != 1)
			return -errno;
		if (event.res != (long)len)
			*res = event.res;
	}
	return 0;
}

TEST_F(uq, aio)
{
	FIXTURE_DATA(uq) large;
	off_t size = lseek(self->block, 0, SEEK_END);
	size_t len = self->node.ns.max + 4096;
	aio_context_t ctx = 0;
	long res = 0;

	ASSERT_EQ(0, syscall(SYS_io_setup, 32, &ctx));
	uq_fill(self->buf, 32 * 4096, 5);
	ASSERT_EQ(0, aio_run(ctx, self->fd, IOCB_CMD_PWRITE, self->buf, 4096,
			     POS, 32, &res));
	EXPECT_EQ(4096, res);
	ASSERT_EQ(32 * 4096, pread(self->block, self->ref, 32 * 4096, POS));
	EXPECT_TRUE(same(self->buf, self->ref, 32 * 4096));
	memset(self->buf, 0, 32 * 4096);
	ASSERT_EQ(0, aio_run(ctx, self->fd, IOCB_CMD_PREAD, self->buf, 4096,
			     POS, 32, &res));
	EXPECT_EQ(4096, res);
	EXPECT_TRUE(same(self->buf, self->ref, 32 * 4096));
	ASSERT_EQ(0, aio_run(ctx, self->fd, IOCB_CMD_PREAD, self->buf, 4096,
			     size - 512, 1, &res));
	EXPECT_EQ(512, res);
	EXPECT_EQ(0, aio_run(ctx, self->fd, IOCB_CMD_PREAD, self->buf, 512,
			     1, 1, &res));
	EXPECT_EQ(-EINVAL, res);
	set_up_large(_metadata, self, len, &large);
	ASSERT_EQ(0, aio_run(ctx, self->fd, IOCB_CMD_PREAD, large.buf, len,
			     POS, 1, &res));
	EXPECT_EQ(len, res);
	tear_down_large(&large, len);
	syscall(SYS_io_destroy, ctx);
}

/* -- claims and limits */

TEST_F(uq, claimed)
{
	int other = open(self->node.path, O_RDWR);
	struct io_uring ring;
	struct iovec iov;

	ASSERT_LE(0, other);
	ASSERT_EQ(0, uq_ring(&ring, 4, 0));
	ASSERT_EQ(0, uq_allow_claims(self->node.name, true));
	if (ioctl(other, NVME_UQ_IOCTL_CLAIM))
		SKIP(return, "no claim: %d", errno);
	EXPECT_EQ(-EBUSY, try(pread(self->fd, self->buf, 512, 0)));
	EXPECT_EQ(-EBUSY, try(pwrite(self->fd, self->buf, 512, POS)));
	prep_op(&ring, IORING_OP_READ, self->fd, self->buf, 512, 0, &iov);
	EXPECT_EQ(-EBUSY, uq_run(&ring));
	EXPECT_EQ(512, pread(other, self->buf, 512, 0));
	prep_op(&ring, IORING_OP_READ, other, self->buf, 512, 0, &iov);
	EXPECT_EQ(512, uq_run(&ring));
	io_uring_queue_exit(&ring);
	close(other);
	EXPECT_EQ(512, pread(self->fd, self->buf, 512, 0));
}

FIXTURE(slow)
{
	struct uq_node node;
	struct io_uring ring;
	unsigned char *buf;
	int fd;
};

FIXTURE_VARIANT(slow)
{
	bool poll;
};

/* clang-format off */
FIXTURE_VARIANT_ADD(slow, irq) { .poll = false };
FIXTURE_VARIANT_ADD(slow, poll) { .poll = true };
/* clang-format on */

FIXTURE_SETUP(slow)
{
	struct uq_ns ns;

	if (!uq_ns_slow(&ns))
		SKIP(return, "UQ_TEST_SLOW_DEV names no NVMe namespace");
	if (uq_no_queue(&ns, variant->poll))
		SKIP(return, UQ_NO_QUEUE);
	ASSERT_TRUE(uq_node_nth(&self->node, &ns, variant->poll, 0));
	self->fd = open(self->node.path, O_RDWR);
	ASSERT_LE(0, self->fd);
	self->buf = uq_alloc(AREA);
	ASSERT_NE(NULL, self->buf);
	/* on a polled queue, a worker looks for completions */
	ASSERT_EQ(0, uq_ring(&self->ring, 64, 0));
}

FIXTURE_TEARDOWN(slow)
{
	if (!self->buf)
		return;
	io_uring_queue_exit(&self->ring);
	EXPECT_TRUE(uq_wait_idle(self->node.name));
	EXPECT_EQ(0, uq_attr(self->node.name, "waiting"));
	close(self->fd);
	munmap(self->buf, AREA);
}

static void limit_one(struct __test_metadata *_metadata, int fd)
{
	struct nvme_uq_limit l = { .scope = NVME_UQ_LIMIT_FILE, .limit = 1 };

	ASSERT_EQ(0, ioctl(fd, NVME_UQ_IOCTL_SET_LIMIT, &l));
}

/* At the limit, a call with RWF_NOWAIT fails and other calls wait. */
TEST_F(slow, limit)
{
	struct nvme_uq_limit l = { .scope = NVME_UQ_LIMIT_FILE };
	struct iovec iov[16], one = { self->buf, 512 };
	unsigned int i, waited = 0, done = 0, refused = 0;
	time_t start = uq_seconds();

	limit_one(_metadata, self->fd);
	for (i = 0; i < 16; i++)
		prep_op(&self->ring, IORING_OP_READ, self->fd,
			self->buf + i * 4096, 4096, i * 4096, &iov[i]);
	ASSERT_EQ(16, io_uring_submit(&self->ring));
	/* the workers may run one after the other */
	while ((done < 8 || !waited || !refused) &&
	       uq_seconds() - start < UQ_NEVER) {
		struct io_uring_cqe *cqe;
		ssize_t ret;

		ASSERT_EQ(0, ioctl(self->fd, NVME_UQ_IOCTL_GET_LIMIT, &l));
		EXPECT_GE(1, l.in_flight);
		waited |= l.waiting;
		ret = try(preadv2(self->fd, &one, 1, 0, RWF_NOWAIT));
		EXPECT_TRUE(ret == -EAGAIN || ret == 512) TH_LOG("%zd", ret);
		refused += ret == -EAGAIN;
		if (io_uring_peek_cqe(&self->ring, &cqe))
			continue;
		EXPECT_EQ(4096, cqe->res);
		io_uring_cqe_seen(&self->ring, cqe);
		i = done++ % 16;
		prep_op(&self->ring, IORING_OP_READ, self->fd,
			self->buf + i * 4096, 4096, i * 4096, &iov[i]);
		ASSERT_EQ(1, io_uring_submit(&self->ring));
	}
	EXPECT_NE(0, waited);
	EXPECT_LT(0, refused);
	EXPECT_EQ(512, pread(self->fd, self->buf, 512, 0));
	for (i = 0; i < 16; i++)
		EXPECT_EQ(4096, uq_reap(&self->ring, NULL));
}

/* A task that waits for its turn can be killed. */
TEST_F(slow, killed_while_waiting)
{
	struct iovec iov[16];
	unsigned int i;
	pid_t pid;

	limit_one(_metadata, self->fd);
	for (i = 0; i < 16; i++)
		prep_op(&self->ring, IORING_OP_READ, self->fd,
			self->buf + i * 4096, 4096, i * 4096, &iov[i]);
	ASSERT_EQ(16, io_uring_submit(&self->ring));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		for (;;)
			pread(self->fd, self->buf, 4096, 0);
	}
	ASSERT_EQ(4096, uq_reap(&self->ring, NULL));
	ASSERT_EQ(0, kill(pid, SIGKILL));
	EXPECT_EQ(pid, waitpid(pid, NULL, 0));
	for (i = 1; i < 16; i++)
		EXPECT_EQ(4096, uq_reap(&self->ring, NULL));
}

/* Cancellation ends the requests that wait for their turn. */

#define READS	32

static __u32 waiting_on(int fd)
{
	struct nvme_uq_limit l = { .scope = NVME_UQ_LIMIT_FILE };

	return ioctl(fd, NVME_UQ_IOCTL_GET_LIMIT, &l) ? 0 : l.waiting;
}

/*
 * Submit requests to a file with a limit of 1, and wait until half of them wait
 * in workers. Return how many, and the number of commands that the queue had
 * submitted before. If nothing cancels the requests, the queue submits at least
 * so many more.
 */
static __u32 submit_waiting(struct __test_metadata *_metadata,
			    FIXTURE_DATA(slow) *self, struct io_uring *ring,
			    bool cmds, long long *submitted)
{
	struct iovec iov[READS];
	unsigned int i;
	__u32 n;

	for (i = 0; i < READS; i++)
		if (cmds)
			uq_prep(ring, self->fd, self->node.nsid, CMD_READ,
				i * 8, self->buf + i * 4096, 4096);
		else
			prep_op(ring, IORING_OP_READ, self->fd,
				self->buf + i * 4096, 4096, i * 4096, &iov[i]);
	ASSERT_EQ(READS, io_uring_submit(ring));
	do {
		uq_rest();
		*submitted = uq_attr(self->node.name, "submitted");
		n = waiting_on(self->fd);
	} while (n < READS / 2 && uq_attr(self->node.name, "in_flight"));
	return n;
}

static void cancel_all(struct __test_metadata *_metadata,
		       FIXTURE_DATA(slow) *self, bool cmds)
{
	unsigned int round, i, cancelled;
	long long before, sent;
	__u32 waiting;

	/* on a busy host, the device may complete all of them before */
	for (round = 0; round < 20; round++) {
		struct io_uring_sqe *sqe;

		waiting = submit_waiting(_metadata, self, &self->ring, cmds,
					 &before);
		sqe = io_uring_get_sqe(&self->ring);
		ASSERT_NE(NULL, sqe);
		memset(sqe, 0, 2 * sizeof(*sqe));
		sqe->opcode = IORING_OP_ASYNC_CANCEL;
		sqe->cancel_flags = IORING_ASYNC_CANCEL_ANY |
			IORING_ASYNC_CANCEL_ALL;
		sqe->user_data = 77;
		ASSERT_EQ(1, io_uring_submit(&self->ring));
		for (i = 0, cancelled = 0; i < READS + 1; i++) {
			struct io_uring_cqe *cqe;

			ASSERT_EQ(0, io_uring_wait_cqe(&self->ring, &cqe));
			if (cqe->user_data != 77 && cqe->res == -ECANCELED)
				cancelled++;
			else if (cqe->user_data != 77)
				EXPECT_EQ(cmds ? 0 : 4096, cqe->res);
			io_uring_cqe_seen(&self->ring, cqe);
		}
		sent = uq_attr(self->node.name, "submitted") - before;
		if (cancelled && sent < waiting)
			return;
	}
	EXPECT_LT(sent, waiting) TH_LOG("%u cancelled", cancelled);
}

TEST_F(slow, cancelled_while_waiting)
{
	limit_one(_metadata, self->fd);
	cancel_all(_metadata, self, false);
	cancel_all(_metadata, self, true);
}

/* A closed ring goes away before it would be the turn of its requests. */
TEST_F(slow, closed_while_waiting)
{
	unsigned int round;
	long long before, sent;
	__u32 waiting;

	limit_one(_metadata, self->fd);
	for (round = 0; round < 20; round++) {
		struct io_uring ring;
		int fd[2];
		char c;

		ASSERT_EQ(0, pipe(fd));
		ASSERT_EQ(0, uq_ring(&ring, READS, 0));
		/* the end of the ring closes the pipe */
		ASSERT_EQ(0, io_uring_register_files(&ring, &fd[1], 1));
		close(fd[1]);
		waiting = submit_waiting(_metadata, self, &ring, false,
					 &before);
		io_uring_queue_exit(&ring);
		ASSERT_EQ(0, read(fd[0], &c, 1));
		close(fd[0]);
		sent = uq_attr(self->node.name, "submitted") - before;
		if (sent < waiting)
			return;
	}
	EXPECT_LT(sent, waiting);
}

/*
 * The buffer is a mapping of another file. If the file is written back while a
 * read is in flight, a work item must mark the pages dirty again, maybe after
 * the read has ended. Check the content of the file after the mapping and the
 * page cache are dropped.
 */
TEST_F(slow, written_back_in_flight)
{
	const size_t len = 16 * 4096;
	unsigned char *map;
	struct uq_ns ns;
	struct iovec iov[16];
	unsigned int i;
	char path[48];
	time_t start;
	int fd, direct;

	ASSERT_TRUE(uq_ns_nth(&ns, 0));
	snprintf(path, sizeof(path), "/dev/%s", ns.block);
	fd = open(path, O_RDWR);
	ASSERT_LE(0, fd);
	map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, POS);
	ASSERT_NE(MAP_FAILED, map);
	uq_fill(self->buf, len, 77);
	ASSERT_EQ(len, pwrite(self->fd, self->buf, len, POS));
	memset(map, 0, len);
	ASSERT_EQ(0, msync(map, len, MS_SYNC));
	for (i = 0; i < 16; i++)
		prep_op(&self->ring, IORING_OP_READ, self->fd, map + i * 4096,
			4096, POS + i * 4096, &iov[i]);
	ASSERT_EQ(16, io_uring_submit(&self->ring));
	while (uq_attr(self->node.name, "in_flight") > 0)
		ASSERT_EQ(0, msync(map, len, MS_SYNC));
	for (i = 0; i < 16; i++)
		EXPECT_EQ(4096, uq_reap(&self->ring, NULL));
	EXPECT_TRUE(same(map, self->buf, len));
	munmap(map, len);
	direct = open(path, O_RDONLY | O_DIRECT);
	ASSERT_LE(0, direct);
	start = uq_seconds();
	do {
		ASSERT_EQ(0, fsync(fd));
		ASSERT_EQ(0, posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
		ASSERT_EQ(len, pread(direct, self->buf + len, len, POS));
	} while (memcmp(self->buf, self->buf + len, len) &&
		 uq_seconds() - start < UQ_NEVER);
	EXPECT_TRUE(same(self->buf, self->buf + len, len));
	close(direct);
	close(fd);
}

/* -- other formats */

static bool has_metadata(const struct uq_ns *ns)
{
	return ns->ms;
}

static bool has_large_blocks(const struct uq_ns *ns)
{
	return ns->lba > 512 && !ns->ms;
}

static int open_other(struct uq_node *node,
		      bool (*want)(const struct uq_ns *ns), bool poll)
{
	struct uq_ns ns;

	if (!uq_ns_find(&ns, want) || uq_no_queue(&ns, poll) ||
	    !uq_ensure_node(node, &ns, poll))
		return -1;
	return open(node->path, O_RDWR);
}

TEST_F(uq, metadata)
{
	struct uq_node node;
	int fd = open_other(&node, has_metadata, variant->poll);

	if (fd < 0)
		SKIP(return, "no namespace has metadata");
	EXPECT_EQ(-EOPNOTSUPP, try(pread(fd, self->buf, node.ns.lba, 0)));
	EXPECT_EQ(-EOPNOTSUPP, try(pwrite(fd, self->buf, node.ns.lba, POS)));
	close(fd);
}

TEST_F(uq, large_blocks)
{
	struct uq_node node;
	int fd = open_other(&node, has_large_blocks, variant->poll);
	unsigned int lba;

	if (fd < 0)
		SKIP(return, "no namespace has blocks of more than 512 bytes");
	lba = node.ns.lba;
	uq_fill(self->buf, 3 * lba, 4);
	EXPECT_EQ(-EINVAL, try(pread(fd, self->ref, 512, 0)));
	EXPECT_EQ(-EINVAL, try(pread(fd, self->ref, lba, 512)));
	EXPECT_EQ(3 * lba, pwrite(fd, self->buf, 3 * lba, 16 * lba));
	EXPECT_EQ(3 * lba, pread(fd, self->ref, 3 * lba, 16 * lba));
	EXPECT_TRUE(same(self->buf, self->ref, 3 * lba));
	close(fd);
}

int main(int argc, char **argv)
{
	return uq_main(argc, argv);
}
