// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: the mapping of a completion queue. Check which mappings are
 * refused, and that no call removes the protection. Check the content of a
 * mapping. If it shows a completion, a task that enters the kernel must find
 * one.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/uio.h>

#include "uq_cq.h"
#include "uq_fixture.h"

#define AREA	(1024 * 1024)
#define PAGE	((size_t)sysconf(_SC_PAGESIZE))

FIXTURE(map)
{
	struct uq_node node;
	struct io_uring ring;
	struct uq_cq cq;
	long long spurious;	/* before the test; others cause some */
	unsigned char *buf;
	size_t len;		/* of the queue, in whole pages */
	int fd;
};

FIXTURE_VARIANT(map)
{
	bool poll;
};

/* clang-format off */
FIXTURE_VARIANT_ADD(map, irq) { .poll = false };
FIXTURE_VARIANT_ADD(map, poll) { .poll = true };
/* clang-format on */

FIXTURE_SETUP(map)
{
	char why[UQ_WHY_LEN];
	int ret;

	ret = uq_need_node(&self->node, variant->poll, why, sizeof(why));
	if (ret == KSFT_SKIP)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, ret) TH_LOG("%s", why);
	ASSERT_EQ(0, uq_allow_claims(self->node.name, true));
	self->spurious = uq_attr(self->node.name, "spurious");
	self->fd = open(self->node.path, O_RDWR);
	ASSERT_LE(0, self->fd);
	self->len = ((self->node.depth + 1) * sizeof(struct nvme_uq_cqe) +
		     PAGE - 1) & -PAGE;
	self->buf = uq_alloc(AREA);
	ASSERT_NE(NULL, self->buf);
	ASSERT_EQ(0, uq_ring(&self->ring, 256, variant->poll ?
			     IORING_SETUP_IOPOLL : 0));
	if (ioctl(self->fd, NVME_UQ_IOCTL_CLAIM)) {
		ASSERT_EQ(EOPNOTSUPP, errno) TH_LOG("errno %d", errno);
		SKIP(return, "completion queues cannot be mapped here");
	}
	ASSERT_EQ(0, uq_cq_map(&self->cq, self->fd));
}

FIXTURE_TEARDOWN(map)
{
	if (!self->buf)
		return;
	EXPECT_TRUE(uq_check_idle(self->node.name, self->spurious));
	uq_cq_unmap(&self->cq);
	io_uring_queue_exit(&self->ring);
	close(self->fd);
}

/* Map and unmap. Return 0 or a negative errno. */
static int try_map(int fd, size_t len, int prot, int flags, off_t offset)
{
	void *p = mmap(NULL, len, prot, flags, fd, offset);

	if (p == MAP_FAILED)
		return -errno;
	munmap(p, len);
	return 0;
}

static const off_t parts[] = { NVME_UQ_OFF_CQ, NVME_UQ_OFF_INFO };

/* -- errors */

TEST_F(map, not_claimed)
{
	int fd = open(self->node.path, O_RDWR);
	unsigned int i;

	ASSERT_LE(0, fd);
	for (i = 0; i < 2; i++)
		EXPECT_EQ(-EPERM, try_map(fd, PAGE, PROT_READ, MAP_SHARED,
					  parts[i]));
	close(fd);
}

TEST_F(map, writing_and_executing)
{
	static const int prot[] = {
		PROT_WRITE, PROT_READ | PROT_WRITE, PROT_EXEC,
		PROT_READ | PROT_EXEC, PROT_READ | PROT_WRITE | PROT_EXEC,
	};
	unsigned int i, p;

	for (i = 0; i < 2; i++)
		for (p = 0; p < ARRAY_SIZE(prot); p++) {
			int ret;

			EXPECT_EQ(-EACCES, try_map(self->fd, PAGE, prot[p],
						   MAP_SHARED, parts[i]))
				TH_LOG("part %u, protection %d", i, prot[p]);
			/* either reason is correct */
			ret = try_map(self->fd, PAGE, prot[p], MAP_PRIVATE,
				      parts[i]);
			EXPECT_TRUE(ret == -EACCES || ret == -EINVAL)
				TH_LOG("part %u, protection %d: %d", i,
				       prot[p], ret);
		}
}

TEST_F(map, private)
{
	unsigned int i;

	for (i = 0; i < 2; i++)
		EXPECT_EQ(-EINVAL, try_map(self->fd, PAGE, PROT_READ,
					   MAP_PRIVATE, parts[i]));
}

TEST_F(map, mprotect)
{
	void *part[] = { (void *)self->cq.cqe, (void *)self->cq.info };
	unsigned int i;

	for (i = 0; i < 2; i++) {
		EXPECT_EQ(-1, mprotect(part[i], PAGE, PROT_READ | PROT_WRITE));
		EXPECT_EQ(EACCES, errno);
		EXPECT_EQ(-1, mprotect(part[i], PAGE, PROT_WRITE));
		EXPECT_EQ(EACCES, errno);
		EXPECT_EQ(-1, mprotect(part[i], PAGE, PROT_READ | PROT_EXEC));
		EXPECT_EQ(EACCES, errno);
		/* the same after PROT_NONE */
		EXPECT_EQ(0, mprotect(part[i], PAGE, PROT_NONE));
		EXPECT_EQ(-1, mprotect(part[i], PAGE, PROT_READ | PROT_WRITE));
		EXPECT_EQ(EACCES, errno);
		EXPECT_EQ(0, mprotect(part[i], PAGE, PROT_READ));
	}
	EXPECT_EQ(NVME_UQ_INFO_V1, self->cq.info->version);
}

TEST_F(map, offsets_and_lengths)
{
	const off_t bad[] = {
		PAGE, self->len, 16 * self->len, NVME_UQ_OFF_INFO - PAGE,
		NVME_UQ_OFF_INFO + PAGE, 2ll * NVME_UQ_OFF_INFO,
		1ll << 32, (1ll << 32) + NVME_UQ_OFF_INFO, 1ll << 43,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		/*
		 * offsets from NVME_UQ_OFF_MEMORY on are for memory of the
		 * file, and there is none
		 */
		EXPECT_EQ(bad[i] < NVME_UQ_OFF_MEMORY ? -EINVAL : -ENXIO,
			  try_map(self->fd, PAGE, PROT_READ, MAP_SHARED,
				  bad[i]))
			TH_LOG("offset %#llx", (long long)bad[i]);
	}
	EXPECT_EQ(-EINVAL, try_map(self->fd, self->len + PAGE, PROT_READ,
				   MAP_SHARED, NVME_UQ_OFF_CQ));
	EXPECT_EQ(-EINVAL, try_map(self->fd, 2 * PAGE, PROT_READ, MAP_SHARED,
				   NVME_UQ_OFF_INFO));
	EXPECT_EQ(-EINVAL, try_map(self->fd, 1ul << 40, PROT_READ, MAP_SHARED,
				   NVME_UQ_OFF_CQ));
	/* all of the queue, or a part from the start */
	EXPECT_EQ(0, try_map(self->fd, self->len, PROT_READ, MAP_SHARED,
			     NVME_UQ_OFF_CQ));
	EXPECT_EQ(0, try_map(self->fd, PAGE, PROT_READ, MAP_SHARED,
			     NVME_UQ_OFF_CQ));
	EXPECT_EQ(0, try_map(self->fd, 1, PROT_READ, MAP_SHARED,
			     NVME_UQ_OFF_INFO));
}

/* Other ways to access a mapping must not bypass its protection. */
TEST_F(map, written_and_read_by_other_means)
{
	struct nvme_uq_cqe before = self->cq.cqe[0];
	void *part[] = { (void *)self->cq.cqe, (void *)self->cq.info };
	struct iovec from = { self->buf, 64 }, to = { NULL, 64 };
	int mem = open("/proc/self/mem", O_RDWR), pipefd[2];
	unsigned int i;

	ASSERT_LE(0, mem);
	ASSERT_EQ(0, pipe(pipefd));
	memset(self->buf, 0xee, 64);
	for (i = 0; i < 2; i++) {
		to.iov_base = part[i];
		EXPECT_EQ(-1, pwrite(mem, self->buf, 64, (uintptr_t)part[i]));
		EXPECT_EQ(-1, process_vm_writev(getpid(), &from, 1, &to, 1, 0));
		ASSERT_EQ(64, write(pipefd[1], self->buf, 64));
		EXPECT_EQ(-1, read(pipefd[0], part[i], 64));
		EXPECT_EQ(EFAULT, errno);
		EXPECT_EQ(64, read(pipefd[0], self->buf + 4096, 64));
		/* process_vm_readv() fails, too */
		EXPECT_EQ(-1, process_vm_readv(getpid(), &from, 1, &to, 1, 0));
	}
	EXPECT_EQ(0, memcmp(&before, (void *)self->cq.cqe, sizeof(before)));
	EXPECT_EQ(NVME_UQ_INFO_V1, self->cq.info->version);
	close(mem);
	close(pipefd[0]);
	close(pipefd[1]);
}

/*
 * Pages of a queue cannot be an I/O buffer: the driver frees them with the
 * queue.
 */
TEST_F(map, buffer_of_other_transfers)
{
	struct iovec iov = { (void *)self->cq.cqe, 512 };
	struct nvme_uring_cmd *c;
	int block;

	block = open(self->node.block, O_RDWR | O_DIRECT);
	ASSERT_LE(0, block);
	EXPECT_EQ(-1, pread(block, iov.iov_base, 512, 0));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(-1, pwrite(block, iov.iov_base, 512, 0));
	EXPECT_EQ(EFAULT, errno);
	close(block);

	c = uq_prep(&self->ring, self->fd, self->node.nsid, CMD_READ, 0,
		    iov.iov_base, 512);
	EXPECT_EQ(-EFAULT, uq_run(&self->ring));
	c = uq_prep(&self->ring, self->fd, self->node.nsid, CMD_WRITE, 0,
		    iov.iov_base, 512);
	ASSERT_NE(NULL, c);
	EXPECT_EQ(-EFAULT, uq_run(&self->ring));
	EXPECT_GT(0, io_uring_register_buffers(&self->ring, &iov, 1));
}

/*
 * The mappings are not inherited and not dumped. madvise() cannot change this.
 */
TEST_F(map, advice)
{
	void *part[] = { (void *)self->cq.cqe, (void *)self->cq.info };
	unsigned int i;

	for (i = 0; i < 2; i++) {
		EXPECT_EQ(-1, madvise(part[i], PAGE, MADV_DOFORK));
		EXPECT_EQ(EINVAL, errno);
		EXPECT_EQ(-1, madvise(part[i], PAGE, MADV_DODUMP));
		EXPECT_EQ(EINVAL, errno);
	}
}

TEST_F(map, does_not_grow)
{
	const struct nvme_uq_cqe *cqe;
	size_t len = self->cq.len;
	void *p;

	EXPECT_EQ(MAP_FAILED, mremap((void *)self->cq.cqe, len, len + PAGE,
				     MREMAP_MAYMOVE));
	EXPECT_EQ(MAP_FAILED, mremap((void *)self->cq.info, PAGE, 2 * PAGE,
				     MREMAP_MAYMOVE));

	/* a mapping can move */
	p = mremap((void *)self->cq.cqe, len, len, MREMAP_MAYMOVE |
		   MREMAP_FIXED, self->buf + AREA / 2);
	ASSERT_NE(MAP_FAILED, p);
	self->cq.cqe = p;
	cqe = &self->cq.cqe[uq_cq_index(self->cq.info->head)];
	uq_prep(&self->ring, self->fd, self->node.nsid, CMD_READ, 0, self->buf,
		512);
	EXPECT_EQ(0, uq_run(&self->ring));
	EXPECT_EQ(uq_attr(self->node.name, "qid"), le16toh(cqe->sq_id));
}

/* -- content */

TEST_F(map, information)
{
	const struct nvme_uq_info *info = self->cq.info;
	const unsigned char *rest = (const unsigned char *)info;
	unsigned int i;

	EXPECT_LE(NVME_UQ_INFO_V1, info->version);
	EXPECT_LE(sizeof(*info), info->size);
	EXPECT_EQ(sizeof(struct nvme_uq_cqe), info->entry_size);
	EXPECT_EQ(self->node.depth + 1, info->entries);
	EXPECT_EQ(NVME_UQ_STATE_LIVE, info->state);
	EXPECT_GT(info->entries, uq_cq_index(info->head));
	EXPECT_EQ(0, info->submitted);
	EXPECT_EQ(0, info->completed);
	EXPECT_EQ(self->node.depth, info->limit);
	for (i = info->size; i < PAGE; i++)
		ASSERT_EQ(0, rest[i]) TH_LOG("byte %u", i);
}

/* The device writes each completion at the head of the information page. */
TEST_F(map, completions)
{
	const struct nvme_uq_info *info = self->cq.info;
	__u16 qid = uq_attr(self->node.name, "qid");
	unsigned int i, total = 2 * info->entries + 5;

	for (i = 0; i < total; i++) {
		__u32 head = info->head, next;
		const struct nvme_uq_cqe *cqe;
		bool fail = i % 3 == 2;

		cqe = &self->cq.cqe[uq_cq_index(head)];
		uq_prep(&self->ring, self->fd, self->node.nsid, CMD_READ,
			fail ? 1ull << 40 : i % 64, self->buf, 512);
		ASSERT_EQ(fail ? ST_LBA_RANGE : 0,
			  STATUS(uq_run(&self->ring)));
		ASSERT_TRUE(uq_cq_written(cqe, uq_cq_phase(head)));
		ASSERT_EQ(fail ? ST_LBA_RANGE : 0,
			  STATUS(le16toh(cqe->status) >> 1));
		ASSERT_EQ(qid, le16toh(cqe->sq_id));
		next = info->head;
		ASSERT_EQ((uq_cq_index(head) + 1) % info->entries,
			  uq_cq_index(next));
		ASSERT_EQ(uq_cq_phase(head) != !uq_cq_index(next),
			  uq_cq_phase(next));
		ASSERT_EQ(i + 1, info->submitted);
		ASSERT_EQ(i + 1, info->completed);
	}
	EXPECT_EQ(UQ_CQ_IDLE, uq_cq_look(&self->cq));
}

/* Submit @n reads and do not wait for them. */
static void submit(struct __test_metadata *_metadata, FIXTURE_DATA(map) *self,
		   unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		uq_prep(&self->ring, self->fd, self->node.nsid, CMD_READ, i,
			self->buf + i * 512, 512);
	ASSERT_EQ(n, io_uring_submit(&self->ring));
}

/*
 * Consume all CQEs in the ring and return their number. None may be an error.
 */
static unsigned int take(struct __test_metadata *_metadata,
			 FIXTURE_DATA(map) *self)
{
	struct io_uring_cqe *cqe;
	unsigned int head, n = 0;

	io_uring_for_each_cqe(&self->ring, head, cqe) {
		ASSERT_EQ(0, cqe->res);
		n++;
	}
	io_uring_cq_advance(&self->ring, n);
	return n;
}

/* Reap completions without waiting. */
static int enter(struct io_uring *ring)
{
	return io_uring_enter(ring->ring_fd, 0, 0, IORING_ENTER_GETEVENTS,
			      NULL);
}

/* Return the number of completions that the driver has reaped. */
static unsigned int reaped(const struct uq_cq *cq)
{
	return __atomic_load_n(&cq->info->completed, __ATOMIC_ACQUIRE);
}

UQ_LEAVE_OUT("map.irq.never_entered_for_nothing", "interrupts reap by themselves");

/*
 * Poll the mapping and enter the kernel when it shows something, as a client
 * does. If a completion never shows, only the timeout of the harness ends the
 * loop.
 *
 * The driver also polls from time to time. A command that it has reaped counts
 * as completed, but its CQE may not be posted when the task enters the kernel.
 */
TEST_F(map, never_entered_for_nothing)
{
	static const unsigned int depths[] = { 1, 2, 7, 32, 128 };
	unsigned int d, round, empty = 0, entered = 0, taken = 0;

	for (d = 0; d < ARRAY_SIZE(depths); d++)
		for (round = 0; round < 40 * uq_scale(); round++) {
			unsigned int done = 0, n;

			submit(_metadata, self, depths[d]);
			while (done < depths[d]) {
				if (uq_cq_look(&self->cq) == UQ_CQ_NONE)
					continue;
				ASSERT_LE(0, enter(&self->ring));
				entered++;
				n = take(_metadata, self);
				empty += !n && reaped(&self->cq) == taken;
				done += n;
				taken += n;
			}
		}
	EXPECT_EQ(0, empty) TH_LOG("of %u", entered);
}

/* Wait with the library and take the CQEs. An interrupt may have added more. */
static unsigned int wait_and_take(struct __test_metadata *_metadata,
				  FIXTURE_DATA(map) *self, unsigned long spins)
{
	int n = uq_cq_wait(&self->cq, &self->ring, spins);
	unsigned int taken = take(_metadata, self);

	ASSERT_LT(0, n);
	ASSERT_LE((unsigned int)n, taken);
	return taken;
}

/* Wait with the library, with different numbers of polls before it sleeps. */
TEST_F(map, wait)
{
	static const unsigned long spins[] = { 0, 1, 1000, ~0ul };
	unsigned int s, round, done;

	for (s = 0; s < ARRAY_SIZE(spins); s++)
		for (round = 0; round < 50; round++) {
			unsigned int want = round % 40 + 1;

			submit(_metadata, self, want);
			for (done = 0; done < want; )
				done += wait_and_take(_metadata, self,
						      spins[s]);
			ASSERT_EQ(want, done);
		}
	EXPECT_EQ(UQ_CQ_IDLE, uq_cq_look(&self->cq));
}

/* With a closed descriptor of the ring, only liburing can enter the kernel. */
TEST_F(map, wait_with_a_registered_ring)
{
	unsigned int i;

	ASSERT_EQ(1, io_uring_register_ring_fd(&self->ring));
	/* io_uring_close_ring_fd() needs liburing 2.4 */
	ASSERT_EQ(0, close(self->ring.ring_fd));
	self->ring.ring_fd = -1;
	for (i = 0; i < 20; i++) {
		submit(_metadata, self, 1);
		EXPECT_EQ(1, wait_and_take(_metadata, self, i & 1 ? ~0ul : 0));
	}
}

/*
 * Two rings of one open file. A ring gets completions that the other has
 * reaped.
 */
TEST_F(map, reaped_by_another_ring)
{
	struct io_uring other;
	unsigned int round, i, done;

	ASSERT_EQ(0, uq_ring(&other, 64, variant->poll ? IORING_SETUP_IOPOLL :
			     0));
	for (round = 0; round < 50; round++) {
		submit(_metadata, self, 16);
		for (i = 0; i < 16; i++)
			uq_prep(&other, self->fd, self->node.nsid, CMD_READ, i,
				self->buf + AREA / 2 + i * 512, 512);
		ASSERT_EQ(0, uq_run_all(&other, 16));
		for (done = 0; done < 16; )
			done += wait_and_take(_metadata, self, ~0ul);
	}
	io_uring_queue_exit(&other);
}

#define BUSY	8

struct busy {
	struct uq_node		node;
	unsigned char		*buf;	/* one block for each command */
	int			fd;
	atomic_bool		stop;
	atomic_uint		sent;
	int			ret;
};

/* Keep commands in flight until @stop is set. */
static void *keep_busy(void *arg)
{
	struct busy *b = arg;
	unsigned int left = 0;
	struct io_uring ring;

	b->ret = uq_ring(&ring, BUSY, b->node.poll ? IORING_SETUP_IOPOLL : 0);
	while (!b->ret && (left || !b->stop)) {
		for (; left < BUSY && !b->stop; left++)
			uq_prep(&ring, b->fd, b->node.nsid, CMD_READ, 0,
				b->buf + b->sent++ % (2 * BUSY) * 512, 512);
		if (io_uring_submit(&ring) < 0)
			b->ret = -EPROTO;
		else
			b->ret = uq_reap(&ring, NULL);
		left--;
	}
	io_uring_queue_exit(&ring);
	return NULL;
}

/* The same if the other ring always has commands in flight. */
TEST_F(map, beside_a_busy_ring)
{
	struct busy b = { .buf = self->buf + AREA / 2 };
	unsigned int round;
	struct uq_cq cq;
	pthread_t t;

	/* a fast device would become idle between commands */
	if (!uq_find_slow(&b.node, variant->poll))
		SKIP(return, "UQ_TEST_SLOW_DEV names no NVMe namespace");
	b.fd = open(b.node.path, O_RDWR);
	ASSERT_LE(0, b.fd);
	ASSERT_EQ(0, uq_allow_claims(b.node.name, true));
	ASSERT_EQ(0, uq_cq_map(&cq, b.fd));
	ASSERT_EQ(0, pthread_create(&t, NULL, keep_busy, &b));
	while (b.sent < BUSY && !b.ret)
		sched_yield();
	for (round = 0; round < 10; round++) {
		uq_prep(&self->ring, b.fd, b.node.nsid, CMD_READ, 0, self->buf,
			512);
		ASSERT_EQ(1, io_uring_submit(&self->ring));
		ASSERT_EQ(1, uq_cq_wait(&cq, &self->ring, ~0ul));
		ASSERT_EQ(1, take(_metadata, self));
	}
	b.stop = true;
	ASSERT_EQ(0, pthread_join(t, NULL));
	EXPECT_EQ(0, b.ret);
	uq_cq_unmap(&cq);
	close(b.fd);
}

/* Fill the queue, and submit more commands than its depth. */
TEST_F(map, full)
{
	unsigned int want = self->node.depth + 100, i, done = 0;
	struct io_uring_cqe *cqe;
	struct io_uring ring;

	ASSERT_GE(AREA / 512, want);
	ASSERT_EQ(0, uq_ring(&ring, 2048, variant->poll ? IORING_SETUP_IOPOLL :
			     0));
	for (i = 0; i < want; i++)
		ASSERT_NE(NULL, uq_prep(&ring, self->fd, self->node.nsid,
					CMD_READ, i, self->buf + i * 512,
					512));
	ASSERT_EQ(want, io_uring_submit(&ring));
	while (done < want) {
		unsigned int head, n = 0;

		ASSERT_LT(0, uq_cq_wait(&self->cq, &ring, 100));
		EXPECT_GE(self->node.depth, uq_cq_count(&self->cq, ~0u));
		io_uring_for_each_cqe(&ring, head, cqe) {
			EXPECT_EQ(0, cqe->res);
			n++;
		}
		io_uring_cq_advance(&ring, n);
		done += n;
	}
	EXPECT_EQ(want, done);
	EXPECT_EQ(want, self->cq.info->submitted);
	EXPECT_EQ(want, self->cq.info->completed);
	io_uring_queue_exit(&ring);
}

int main(int argc, char **argv)
{
	return uq_main(argc, argv);
}
