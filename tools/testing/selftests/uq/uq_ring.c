// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: kinds of rings, flags of requests, rings of tasks that end,
 * and entries of two sizes.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/socket.h>

#include "uq_io.h"
#include "uq_random.h"

/* -- kinds of rings and flags */

/*
 * Read 64 blocks, one by one and all at once, through a ring with these flags.
 */
static void use_plain(struct __test_metadata *_metadata,
		      FIXTURE_DATA(uq) *self, unsigned int flags)
{
	struct io_uring ring;
	unsigned int i, k;

	uq_fill(self->ref, 64 * 512, flags);
	ASSERT_EQ(64 * 512, pwrite(self->block, self->ref, 64 * 512, 0));
	ASSERT_EQ(0, uq_ring(&ring, 64, flags));
	memset(self->buf, 0, 64 * 512);
	for (i = 0; i < 64; i++) {
		uq_prep(&ring, self->fd, self->node.nsid, CMD_READ, i,
			self->buf + i * 512, 512);
		ASSERT_EQ(0, uq_run(&ring));
	}
	EXPECT_EQ(0, memcmp(self->buf, self->ref, 64 * 512));

	memset(self->buf, 0, 64 * 512);
	for (k = 0; k < 64; k++)
		uq_prep(&ring, self->fd, self->node.nsid, CMD_READ, k,
			self->buf + k * 512, 512);
	ASSERT_EQ(0, uq_run_all(&ring, 64));
	EXPECT_EQ(0, memcmp(self->buf, self->ref, 64 * 512));
	io_uring_queue_exit(&ring);
}

/* The same. If the queue is polled, the ring polls it. */
static void use_ring(struct __test_metadata *_metadata,
		     FIXTURE_DATA(uq) *self, unsigned int flags)
{
	use_plain(_metadata, self, self->flags | flags);
}

TEST_F(uq, sqpoll)
{
	use_ring(_metadata, self, IORING_SETUP_SQPOLL);
}

TEST_F(uq, defer_taskrun)
{
	use_ring(_metadata, self, IORING_SETUP_SINGLE_ISSUER |
		 IORING_SETUP_DEFER_TASKRUN);
}

TEST_F(uq, coop_taskrun)
{
	use_ring(_metadata, self, IORING_SETUP_COOP_TASKRUN);
}

UQ_LEAVE_OUT("uq.irq.hybrid_iopoll", "for rings that poll");

TEST_F(uq, hybrid_iopoll)
{
	use_ring(_metadata, self, IORING_SETUP_HYBRID_IOPOLL);
}

/*
 * Close rings with hybrid polling while commands are in flight. A child process
 * does this, because it may hang.
 */
static pid_t leave_hybrid(FIXTURE_DATA(uq) *self)
{
	struct io_uring ring, other;
	unsigned int round, i;
	pid_t pid = fork();

	if (pid)
		return pid;
	if (uq_ring(&other, 4, self->flags))
		_exit(3);
	for (round = 0; round < 100 * uq_scale(); round++) {
		if (uq_ring(&ring, 32, IORING_SETUP_IOPOLL |
			    IORING_SETUP_HYBRID_IOPOLL))
			_exit(3);
		for (i = 0; i < 32; i++)
			uq_prep(&ring, self->fd, self->node.nsid, CMD_READ, i,
				self->buf + i * 4096, 4096);
		io_uring_submit(&ring);
		io_uring_queue_exit(&ring);
		/* run the task work that the closed ring has left */
		uq_prep(&other, self->fd, self->node.nsid, CMD_READ, 0,
			self->buf, 4096);
		if (uq_run(&other))
			_exit(2);
	}
	_exit(0);
}

/*
 * If an interrupt or another ring finds a completion, it arrives by task work.
 * This must not overwrite the time of issue. io_uring once took a pointer for
 * that time, and slept for half of the difference with its lock held.
 */
TEST_F(uq, hybrid_iopoll_and_task_work)
{
	unsigned int i;
	pid_t pid[4];

	for (i = 0; i < 4; i++) {
		pid[i] = leave_hybrid(self);
		ASSERT_LT(0, pid[i]);
	}
	for (i = 0; i < 4; i++)
		EXPECT_EQ(0, uq_wait_child(pid[i], NULL));
}

/* Start a process that exits, or calls exec, with commands in flight. */
static pid_t leave(FIXTURE_DATA(uq) *self, unsigned int flags, bool exec)
{
	struct io_uring ring;
	unsigned int i;
	pid_t pid = fork();

	if (pid)
		return pid;
	if (uq_ring(&ring, 64, flags))
		_exit(3);
	for (i = 0; i < 64; i++)
		uq_prep(&ring, self->fd, self->node.nsid, CMD_READ, i,
			self->buf + i * 4096, 4096);
	if (io_uring_submit(&ring) != 64)
		_exit(2);
	if (exec)
		execl("/proc/self/exe", "uq_io", "leave", NULL);
	_exit(0);
}

/* Tasks end with commands in flight, while another task polls. */
static void expect_ends(struct __test_metadata *_metadata,
			FIXTURE_DATA(uq) *self, unsigned int flags)
{
	unsigned int i, k;
	pid_t pid[4];

	for (i = 0; i < 6 * uq_scale(); i++) {
		for (k = 0; k < 4; k++) {
			pid[k] = leave(self, flags, k % 2);
			ASSERT_LT(0, pid[k]);
		}
		/* poll in this task, too */
		for (k = 0; k < 16; k++) {
			prep(self, CMD_READ, 0, self->buf, 4096);
			EXPECT_EQ(0, uq_run(&self->ring));
		}
		for (k = 0; k < 4; k++)
			ASSERT_EQ(0, uq_wait_child(pid[k], NULL));
	}
}

/*
 * The task must end, whether an interrupt or another process finds its
 * completions. It used to poll for ever, without running the task work that
 * delivers them.
 */
TEST_F(uq, polled_ring_of_a_task_that_ends)
{
	expect_ends(_metadata, self, IORING_SETUP_IOPOLL);
}

/*
 * Rings that do not poll, on both kinds of queues. No other ring polls for
 * them.
 */
TEST_F(uq, plain_ring)
{
	use_plain(_metadata, self, 0);
	use_plain(_metadata, self, IORING_SETUP_COOP_TASKRUN);
	use_plain(_metadata, self, IORING_SETUP_SINGLE_ISSUER |
		  IORING_SETUP_DEFER_TASKRUN);
	use_plain(_metadata, self, IORING_SETUP_SQPOLL);
}

TEST_F(uq, plain_ring_of_a_task_that_ends)
{
	expect_ends(_metadata, self, 0);
}

/* The same beside a ring that polls. Each ring gets its own completions. */
TEST_F(uq, plain_ring_beside_one_that_polls)
{
	unsigned int i;
	pid_t pid;

	uq_fill(self->ref, 64 * 512, 0);
	ASSERT_EQ(64 * 512, pwrite(self->block, self->ref, 64 * 512, 0));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		struct io_uring ring;

		if (uq_ring(&ring, 64, IORING_SETUP_IOPOLL))
			_exit(3);
		for (i = 0; i < 1000 * uq_scale(); i++) {
			uq_prep(&ring, self->fd, self->node.nsid, CMD_READ,
				i % 64, self->buf, 512);
			if (uq_run(&ring) ||
			    memcmp(self->buf, self->ref + i % 64 * 512, 512))
				_exit(2);
		}
		_exit(0);
	}
	for (i = 0; i < 16; i++)
		use_plain(_metadata, self, 0);
	EXPECT_EQ(0, uq_wait_child(pid, NULL));
}

UQ_LEAVE_OUT("uq.poll.polling_an_interrupt_queue", "for interrupt queues");

/*
 * A ring that polls can use an interrupt queue. Interrupts find its
 * completions.
 */
TEST_F(uq, polling_an_interrupt_queue)
{
	use_ring(_metadata, self, IORING_SETUP_IOPOLL);
}

TEST_F(uq, registered_file)
{
	unsigned int i;

	ASSERT_EQ(0, io_uring_register_files(&self->ring, &self->fd, 1));
	for (i = 0; i < 32; i++) {
		struct nvme_uring_cmd *c = prep(self, CMD_READ, i,
						self->buf + i * 512, 512);

		uq_sqe(c)->fd = 0;
		uq_sqe(c)->flags |= IOSQE_FIXED_FILE;
	}
	EXPECT_EQ(0, uq_run_all(&self->ring, 32));
}

TEST_F(uq, linked_drained_and_async)
{
	static const unsigned int flags[] = {
		IOSQE_IO_LINK, IOSQE_IO_HARDLINK, IOSQE_IO_DRAIN, IOSQE_ASYNC
	};
	unsigned int f, i;

	for (f = 0; f < ARRAY_SIZE(flags); f++) {
		bool link = flags[f] == IOSQE_IO_LINK ||
			flags[f] == IOSQE_IO_HARDLINK;

		for (i = 0; i < 32; i++) {
			struct nvme_uring_cmd *c = prep(self, CMD_READ, i,
					self->buf + i * 4096, 4096);

			if (i < 31 || !link)
				uq_sqe(c)->flags |= flags[f];
		}
		EXPECT_EQ(0, uq_run_all(&self->ring, 32)) TH_LOG("flag %u", f);
	}
}

/*
 * A task that waits for many completions wakes up when all of them are there,
 * however many arrive with one interrupt.
 */
static void wait_for_many(struct __test_metadata *_metadata,
			  FIXTURE_DATA(uq) *self, bool linked)
{
	struct io_uring_cqe *cqe[48];
	struct io_uring ring;
	unsigned int i, round;

	ASSERT_EQ(0, uq_ring(&ring, 64, self->flags |
			     IORING_SETUP_SINGLE_ISSUER |
			     IORING_SETUP_DEFER_TASKRUN));
	for (round = 0; round < 200 * uq_scale(); round++) {
		for (i = 0; i < 48; i++) {
			struct nvme_uring_cmd *c;

			c = uq_prep(&ring, self->fd, self->node.nsid, CMD_READ,
				    i, self->buf + i * 512, 512);
			/*
			 * pairs; the first of a pair is not the last of a batch
			 */
			if (linked && i >= 32 && !(i & 1))
				uq_sqe(c)->flags |= IOSQE_IO_LINK;
		}
		ASSERT_EQ(48, io_uring_submit_and_wait(&ring, 48));
		ASSERT_EQ(48, io_uring_peek_batch_cqe(&ring, cqe, 48));
		for (i = 0; i < 48; i++)
			ASSERT_EQ(0, cqe[i]->res);
		io_uring_cq_advance(&ring, 48);
	}
	io_uring_queue_exit(&ring);
}

TEST_F(uq, wait_for_many)
{
	wait_for_many(_metadata, self, false);
}

/* The same if some completions start a linked request. */
TEST_F(uq, wait_for_many_linked)
{
	wait_for_many(_metadata, self, true);
}

/*
 * If a request fails, the linked one is cancelled and never reaches the device.
 */
TEST_F(uq, broken_link)
{
	struct nvme_uring_cmd *c;
	long long sent;

	prep(self, CMD_READ, 0, self->buf, 512);
	ASSERT_EQ(0, uq_run(&self->ring));
	sent = uq_attr(self->node.name, "submitted");
	c = prep(self, CMD_READ, 1ull << 40, self->buf, 512);
	uq_sqe(c)->flags |= IOSQE_IO_LINK;
	prep(self, CMD_WRITE, 0, self->buf, 512);
	ASSERT_EQ(2, io_uring_submit(&self->ring));
	/* a positive status does not break a link, as on the generic node */
	EXPECT_EQ(ST_LBA_RANGE, STATUS(uq_reap(&self->ring, NULL)));
	EXPECT_EQ(0, uq_reap(&self->ring, NULL));
	EXPECT_EQ(sent + 2, uq_attr(self->node.name, "submitted"));

	c = prep(self, CMD_READ, 0, self->buf, 512);
	c->nsid = 99;
	uq_sqe(c)->flags |= IOSQE_IO_LINK;
	prep(self, CMD_WRITE, 0, self->buf, 512);
	ASSERT_LE(1, io_uring_submit(&self->ring));
	EXPECT_EQ(-EINVAL, uq_reap(&self->ring, NULL));
	EXPECT_EQ(-ECANCELED, uq_reap(&self->ring, NULL));
	EXPECT_EQ(sent + 2, uq_attr(self->node.name, "submitted"));
}

/* -- rings with entries of two sizes, which liburing may not support */

static int mixed_ring(struct io_uring *ring, unsigned int flags)
{
	int ret = io_uring_queue_init(64, ring, flags);

	return ret;
}

TEST_F(uq, mixed_submission_entries)
{
	struct io_uring_sqe *nop, *sqe, *second;
	struct nvme_uring_cmd *c;
	struct io_uring ring;
	unsigned int i;

	uq_fill(self->ref, 4096, 1234);
	ASSERT_EQ(4096, pwrite(self->block, self->ref, 4096, 0));
	if (mixed_ring(&ring, IORING_SETUP_SQE_MIXED | IORING_SETUP_CQE32 |
		       self->flags))
		SKIP(return, "no IORING_SETUP_SQE_MIXED");
	for (i = 0; i < 8; i++) {
		/* add a small entry, unless the ring polls */
		if (!variant->poll) {
			nop = io_uring_get_sqe(&ring);
			io_uring_prep_nop(nop);
		}
		sqe = io_uring_get_sqe(&ring);
		second = io_uring_get_sqe(&ring);
		ASSERT_EQ((char *)sqe + 64, (char *)second);
		memset(sqe, 0, 128);
		sqe->opcode = UQ_OP_URING_CMD128;
		sqe->fd = self->fd;
		sqe->cmd_op = NVME_URING_CMD_IO;
		c = (struct nvme_uring_cmd *)sqe->cmd;
		c->opcode = CMD_READ;
		c->nsid = self->node.nsid;
		c->addr = (uintptr_t)self->buf + i * 512;
		c->data_len = 512;
		c->cdw10 = i;
	}
	/* liburing counts entries of 64 bytes, so check for errors only */
	ASSERT_LE(0, io_uring_submit(&ring));
	for (i = 0; i < (variant->poll ? 8 : 16); i++)
		EXPECT_EQ(0, uq_reap(&ring, NULL));
	EXPECT_EQ(0, memcmp(self->buf, self->ref, 4096));
	io_uring_queue_exit(&ring);
}

TEST_F(uq, mixed_completion_entries)
{
	struct io_uring ring;
	unsigned int i, big = 0;

	if (mixed_ring(&ring, IORING_SETUP_SQE128 | IORING_SETUP_CQE_MIXED |
		       self->flags))
		SKIP(return, "no IORING_SETUP_CQE_MIXED");
	for (i = 0; i < 8; i++)
		uq_prep(&ring, self->fd, self->node.nsid, CMD_READ, i,
			self->buf + i * 512, 512);
	ASSERT_EQ(8, io_uring_submit(&ring));
	while (big < 8) {
		struct io_uring_cqe *cqe;

		ASSERT_EQ(0, io_uring_wait_cqe(&ring, &cqe));
		if (cqe->flags & IORING_CQE_F_SKIP) {
			io_uring_cq_advance(&ring, 1);
			continue;
		}
		ASSERT_TRUE(cqe->flags & IORING_CQE_F_32);
		ASSERT_EQ(0, cqe->res);
		io_uring_cq_advance(&ring, 2);
		big++;
	}
	io_uring_queue_exit(&ring);
}

int main(int argc, char **argv)
{
	/* a process of a test calls exec with this argument */
	if (argc == 2 && !strcmp(argv[1], "leave"))
		return 0;
	return uq_main(argc, argv);
}
