// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: timeouts. The device loses completions, interrupts or admin
 * commands, or a tenant stops polling. Whatever its task does meanwhile, each
 * command ends once, its memory is unpinned, and other tasks wait no longer than
 * the timeout of a command.
 *
 * What a device has to be made to do needs CONFIG_NVME_UQ_FAULT.
 */
#define _GNU_SOURCE
#define UQ_DISRUPTIVE	true
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "uq_fixture.h"
#include "uq_inject.h"
#include "uq_random.h"

/* Longer than any test: the command ends by something else. */
#define FOR_EVER	7200000
/* Status code of a command that the device does not know. */
#define INVALID_OPCODE	1
/* Status of one that met a reset. */
#define PATH_ERRORS	0x300

/* Admin commands. */
#define ADMIN_DELETE_SQ	0x00
#define ADMIN_CREATE_SQ	0x01
#define ADMIN_DELETE_CQ	0x04
#define ADMIN_CREATE_CQ	0x05
#define ADMIN_IDENTIFY	0x06
#define ADMIN_ABORT	0x08
#define ADMIN_FORMAT	0x80

/* What the counters of a queue were. */
struct counts {
	long long submitted, spurious, timeouts, cancelled;
};

FIXTURE(timeout)
{
	struct uq_node node;
	struct io_uring ring;
	struct counts before;
	unsigned char *buf;
	int fd, block;
	char admin_timeout[16], io_timeout[16];
};

FIXTURE_VARIANT(timeout)
{
	bool poll;
};

/* clang-format off */
FIXTURE_VARIANT_ADD(timeout, irq) { .poll = false };
FIXTURE_VARIANT_ADD(timeout, poll) { .poll = true };
/* clang-format on */

static struct counts counts(const char *node)
{
	return (struct counts){
		.submitted	= uq_attr(node, "submitted"),
		.spurious	= uq_attr(node, "spurious"),
		.timeouts	= uq_attr(node, "timeouts"),
		.cancelled	= uq_attr(node, "cancelled"),
	};
}

static int new_ring(struct io_uring *ring, bool poll)
{
	return uq_ring(ring, 64, poll ? IORING_SETUP_IOPOLL : 0);
}

FIXTURE_SETUP(timeout)
{
	struct uq_node *node = &self->node;
	char why[UQ_WHY_LEN];
	struct uq_ns ns;
	int ret;

	ret = uq_need_ns(&ns, false, why, sizeof(why));
	if (ret == KSFT_SKIP)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, ret) TH_LOG("%s", why);
	ASSERT_TRUE(uq_ensure_node(node, &ns, variant->poll));
	ASSERT_EQ(0, uq_ctrl_get(ns.ctrl, "admin_timeout", self->admin_timeout,
				 sizeof(self->admin_timeout)));
	ASSERT_EQ(0, uq_ctrl_get(ns.ctrl, "io_timeout", self->io_timeout,
				 sizeof(self->io_timeout)));
	self->before = counts(node->name);
	self->fd = open(node->path, O_RDWR);
	ASSERT_LE(0, self->fd);
	self->block = open(node->block, O_RDWR | O_DIRECT);
	ASSERT_LE(0, self->block);
	ASSERT_EQ(0, new_ring(&self->ring, variant->poll));
	self->buf = uq_alloc(64 * 4096);
	ASSERT_NE(NULL, self->buf);
}

/* All commands have ended, and a new one completes. */
FIXTURE_TEARDOWN(timeout)
{
	struct uq_node *node = &self->node;

	if (!self->buf)
		return;
	if (uq_can_fault(node->ns.ctrl))
		EXPECT_EQ(0, uq_fault_clear(node->ns.ctrl));
	EXPECT_TRUE(uq_wait_idle(node->name));
	EXPECT_EQ(uq_attr(node->name, "submitted"),
		  uq_attr(node->name, "completed"));
	if (self->fd >= 0) {
		uq_prep(&self->ring, self->fd, node->nsid, CMD_READ, 0,
			self->buf, 512);
		EXPECT_EQ(0, uq_run(&self->ring));
		EXPECT_EQ(4096, pread(self->block, self->buf, 4096, 0));
		io_uring_queue_exit(&self->ring);
		close(self->fd);
		close(self->block);
	}
	EXPECT_EQ(0, uq_ctrl_set(node->ns.ctrl, "admin_timeout",
				 self->admin_timeout));
	EXPECT_EQ(0, uq_ctrl_set(node->ns.ctrl, "io_timeout", self->io_timeout));
}

static bool can_pretend(const FIXTURE_DATA(timeout) *self)
{
	return uq_can_fault(self->node.ns.ctrl);
}

static int set_fault(const FIXTURE_DATA(timeout) *self, const char *what,
		     unsigned int n)
{
	return uq_fault_set(self->node.ns.ctrl, what, n);
}

static long long fault_left(const FIXTURE_DATA(timeout) *self, const char *what)
{
	return uq_fault_left(self->node.ns.ctrl, what);
}

/* The next @n admin commands of a kind are not answered, or refused. */
static int set_admin_fault(const FIXTURE_DATA(timeout) *self, const char *what,
			   unsigned int opcode, unsigned int n)
{
	return uq_fault_admin(self->node.ns.ctrl, what, opcode, n);
}

static struct nvme_uring_cmd *prep(FIXTURE_DATA(timeout) *self, unsigned int i,
				   __u32 timeout)
{
	struct nvme_uring_cmd *c;

	c = uq_prep(&self->ring, self->fd, self->node.nsid, CMD_READ, i,
		    self->buf + i * 4096, 512);
	c->timeout_ms = timeout;
	return c;
}

/* The end of a command that lost its completion: by a reset, or by an abort. */
static bool ended(int res)
{
	return res == -EINTR || res > 0;
}

/* -- lost completions, and the end of the task */

enum end {
	KILLED, EXITS, EXECS, CLOSES_RING, CLOSES_FILE, RING_THEN_FILE,
	FILE_THEN_RING, UNMAPS, STOPPED, NR_ENDS
};

static void task_with_a_lost_command(const struct uq_node *node, enum end how)
{
	unsigned char *buf = uq_alloc(4096);
	int fd = open(node->path, O_RDONLY);
	struct nvme_uring_cmd *c;
	struct io_uring ring;

	if (fd < 0 || !buf || new_ring(&ring, node->poll))
		_exit(1);
	c = uq_prep(&ring, fd, node->nsid, CMD_READ, how, buf, 512);
	c->timeout_ms = 1000;
	if (io_uring_submit(&ring) != 1)
		_exit(2);
	switch (how) {
	case KILLED:
		while (1)
			pause();
	case EXITS:
		_exit(0);
	case EXECS:
		execl("/bin/true", "true", NULL);
		_exit(3);
	case CLOSES_RING:
		io_uring_queue_exit(&ring);
		_exit(0);
	case RING_THEN_FILE:
		io_uring_queue_exit(&ring);
		close(fd);
		_exit(0);
	case FILE_THEN_RING:
		close(fd);
		io_uring_queue_exit(&ring);
		_exit(0);
	case CLOSES_FILE:
		close(fd);
		break;
	case UNMAPS:
		munmap(buf, 4096);
		break;
	case STOPPED:
		raise(SIGSTOP);
		break;
	default:
		_exit(4);
	}
	_exit(ended(uq_reap(&ring, NULL)) ? 0 : 5);
}

/*
 * A task ends in every way, or goes on, with a command of which it will never
 * hear: by the reset, the latest, and with its page unpinned and its slot free.
 */
TEST_F(timeout, lost_completions_and_the_end_of_a_task)
{
	long long ever = uq_pinned_ever(), pins = uq_pinned();
	const char *node = self->node.name;
	pid_t pid[NR_ENDS];
	int status;
	enum end i;

	if (!can_pretend(self))
		SKIP(return, UQ_NO_FAULTS);
	ASSERT_EQ(0, uq_ctrl_set(self->node.ns.ctrl, "io_timeout", "1000"));
	ASSERT_EQ(0, set_fault(self, "lose", NR_ENDS));
	for (i = 0; i < NR_ENDS; i++) {
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (!pid[i])
			task_with_a_lost_command(&self->node, i);
	}
	while (uq_attr(node, "submitted") < self->before.submitted + NR_ENDS)
		sched_yield();
	ASSERT_EQ(0, kill(pid[KILLED], SIGKILL));
	EXPECT_TRUE(uq_wait_idle(node));
	ASSERT_EQ(pid[STOPPED], waitpid(pid[STOPPED], &status, WUNTRACED));
	EXPECT_TRUE(WIFSTOPPED(status));
	ASSERT_EQ(0, kill(pid[STOPPED], SIGCONT));
	for (i = 0; i < NR_ENDS; i++) {
		ASSERT_EQ(pid[i], waitpid(pid[i], &status, 0));
		EXPECT_EQ(i == KILLED ? SIGKILL : 0, status)
			TH_LOG("end %d", i);
	}
	EXPECT_EQ(0, fault_left(self, "lose"));
	EXPECT_TRUE(uq_wait_unpinned(pins))
		TH_LOG("%lld pages pinned, not %lld", uq_pinned(), pins);
	EXPECT_LE(ever + NR_ENDS, uq_pinned_ever());
	TH_LOG("%d lost: %lld timeouts, %lld ended by a reset", NR_ENDS,
	       uq_attr(node, "timeouts") - self->before.timeouts,
	       uq_attr(node, "cancelled") - self->before.cancelled);
	EXPECT_EQ(self->before.spurious, uq_attr(node, "spurious"));
}

/* -- timeouts */

/*
 * An interrupt that got lost, or no task that polls: the completion is there, so
 * the command ends when it is due, and no abort is sent.
 */
TEST_F(timeout, looked_for_before_it_is_aborted)
{
	const char *node = self->node.name;

	if (!variant->poll) {
		if (!can_pretend(self))
			SKIP(return, UQ_NO_FAULTS);
		ASSERT_EQ(0, set_fault(self, "irq", 1));
	}
	prep(self, 0, 1000);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	EXPECT_TRUE(uq_wait_idle(node));
	EXPECT_EQ(0, uq_reap(&self->ring, NULL));
	EXPECT_EQ(self->before.timeouts, uq_attr(node, "timeouts"));
	EXPECT_EQ(self->before.cancelled, uq_attr(node, "cancelled"));
	if (!variant->poll)
		EXPECT_EQ(0, fault_left(self, "irq"));
}

/* Of two that got lost, the one is due that says nothing of a time. */
TEST_F(timeout, each_command_its_own_time)
{
	const char *node = self->node.name;

	if (!can_pretend(self))
		SKIP(return, UQ_NO_FAULTS);
	ASSERT_EQ(0, uq_ctrl_set(self->node.ns.ctrl, "io_timeout", "1000"));
	ASSERT_EQ(0, set_fault(self, "lose", 2));
	prep(self, 0, FOR_EVER);
	prep(self, 1, 0);
	ASSERT_EQ(2, io_uring_submit(&self->ring));
	EXPECT_TRUE(ended(uq_reap(&self->ring, NULL)));
	EXPECT_TRUE(ended(uq_reap(&self->ring, NULL)));
	EXPECT_EQ(0, fault_left(self, "lose"));
	/* one was aborted, to no avail */
	EXPECT_EQ(self->before.timeouts + 2, uq_attr(node, "timeouts"));
	EXPECT_EQ(self->before.cancelled + 2, uq_attr(node, "cancelled"));
}

static int identify(int ctrl, unsigned int nsid, unsigned char *id)
{
	struct nvme_passthru_cmd cmd = {
		.opcode		= ADMIN_IDENTIFY,
		.nsid		= nsid,
		.addr		= (uintptr_t)id,
		.data_len	= 4096,
		.cdw10		= !nsid,
	};

	return uq_admin(ctrl, &cmd);
}

/* So does the reset of a device that no task polls in between. */
TEST_F(timeout, reset_in_its_own_time)
{
	const char *node = self->node.name;

	if (!can_pretend(self))
		SKIP(return, UQ_NO_FAULTS);
	ASSERT_EQ(0, uq_ctrl_set(self->node.ns.ctrl, "io_timeout", "1000"));
	ASSERT_EQ(0, uq_fault_knob(self->node.ns.ctrl, "no_kick", "Y"));
	ASSERT_EQ(0, set_fault(self, "lose", 1));
	prep(self, 0, 1000);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	EXPECT_TRUE(ended(uq_reap(&self->ring, NULL)));
	EXPECT_EQ(0, uq_fault_knob(self->node.ns.ctrl, "no_kick", "N"));
	EXPECT_EQ(0, fault_left(self, "lose"));
	EXPECT_EQ(self->before.timeouts + 2, uq_attr(node, "timeouts"));
}

/*
 * A command can be aborted soon if it says so. But before the controller is
 * reset, which others use too, the device has the time that the block layer
 * gives it, here two hours.
 */
TEST_F(timeout, short_timeout_of_a_lost_command)
{
	unsigned int resets = uq_resets_logged(self->node.ns.ctrl);
	const char *node = self->node.name;

	if (!can_pretend(self))
		SKIP(return, UQ_NO_FAULTS);
	ASSERT_EQ(0, uq_ctrl_set(self->node.ns.ctrl, "io_timeout", "7200000"));
	ASSERT_EQ(0, set_fault(self, "lose", 2));
	prep(self, 0, 1);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	while (uq_attr(node, "timeouts") == self->before.timeouts)
		sched_yield();
	/* one that is due much later than the first was due again */
	prep(self, 1, 2000);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	while (uq_attr(node, "timeouts") < self->before.timeouts + 2)
		sched_yield();
	EXPECT_EQ(resets, uq_resets_logged(self->node.ns.ctrl));
	EXPECT_EQ(0, uq_reset(self->node.ns.ctrl));
	EXPECT_EQ(-EINTR, uq_reap(&self->ring, NULL));
	EXPECT_EQ(-EINTR, uq_reap(&self->ring, NULL));
	EXPECT_EQ(0, fault_left(self, "lose"));
}

/* How many aborts the controller takes at once; 0 if it cannot ignore them. */
static unsigned int abort_limit(const struct uq_ns *ns)
{
	static unsigned char id[4096];

	/* ACL and AERL; the driver has an event request under way */
	if (identify(ns->ctrl, 0, id) || id[259] < id[258] + 1)
		return 0;
	return id[258] + 1;
}

/*
 * Commands are lost, and the abort of one gets no answer, so no other is sent.
 * When that command is due a second time, all of them end. @first: timeout of
 * the first two; the others have a second.
 */
static void lose_with_aborts(struct __test_metadata *_metadata,
			     FIXTURE_DATA(timeout) *self, unsigned int first)
{
	unsigned int i, limit = abort_limit(&self->node.ns), lost = limit + 2;
	const char *node = self->node.name;

	if (!can_pretend(self))
		SKIP(return, UQ_NO_FAULTS);
	if (!limit)
		SKIP(return, "%s cannot leave as many commands unanswered as it takes",
		     self->node.ctrl);
	ASSERT_EQ(0, uq_ctrl_set(self->node.ns.ctrl, "io_timeout", "1000"));
	ASSERT_EQ(0, set_admin_fault(self, "silent", ADMIN_ABORT, lost));
	ASSERT_EQ(0, set_fault(self, "lose", lost));
	for (i = 0; i < lost; i++)
		prep(self, i, i < 2 ? first : 1000);
	ASSERT_EQ(lost, io_uring_submit(&self->ring));
	for (i = 0; i < lost; i++)
		EXPECT_EQ(-EINTR, uq_reap(&self->ring, NULL));
	/* a queue has one at a time, however many the controller takes */
	EXPECT_EQ(lost - 1, fault_left(self, "silent"));
	EXPECT_EQ(0, set_fault(self, "silent", 0));
	EXPECT_EQ(self->before.timeouts + 2, uq_attr(node, "timeouts"));
	EXPECT_EQ(self->before.cancelled + lost, uq_attr(node, "cancelled"));
}

TEST_F(timeout, aborts_that_are_not_answered)
{
	lose_with_aborts(_metadata, self, 1000);
}

/* Those that no abort can be sent for delay no others, wherever they are. */
TEST_F(timeout, overdue_before_those_with_an_abort)
{
	lose_with_aborts(_metadata, self, 1500);
}

/* The user queues that the controller has, and one command on each. */
#define QUEUES	4

struct queue {
	struct uq_node node;
	struct io_uring ring;
	int fd;
};

static void lose_on(struct __test_metadata *_metadata,
		    FIXTURE_DATA(timeout) *self, struct queue *q, unsigned int i)
{
	ASSERT_TRUE(uq_node_nth(&q->node, &self->node.ns, i & 1, i / 2));
	q->fd = open(q->node.path, O_RDONLY);
	ASSERT_LE(0, q->fd);
	ASSERT_EQ(0, new_ring(&q->ring, i & 1));
	uq_prep(&q->ring, q->fd, q->node.nsid, CMD_READ, i,
		self->buf + i * 4096, 512)->timeout_ms = 1;
	ASSERT_EQ(1, io_uring_submit(&q->ring));
}

static long long all_timeouts(const struct uq_ns *ns)
{
	struct uq_node node;
	long long sum = 0;
	unsigned int i;

	for (i = 0; i < QUEUES; i++)
		if (uq_node_nth(&node, ns, i & 1, i / 2))
			sum += uq_attr(node.name, "timeouts");
	return sum;
}

/* All queues want to abort, and there is still an abort for the block layer. */
TEST_F(timeout, one_abort_is_left)
{
	unsigned int i, limit = abort_limit(&self->node.ns);
	const struct uq_ns *ns = &self->node.ns;
	long long before = all_timeouts(ns);
	struct queue q[QUEUES];

	if (!can_pretend(self))
		SKIP(return, UQ_NO_FAULTS);
	if (limit < 2 || limit > QUEUES)
		SKIP(return, "%s takes %u aborts at once", self->node.ctrl,
		     limit);
	ASSERT_EQ(0, uq_ctrl_set(ns->ctrl, "io_timeout", "7200000"));
	/* those that get no answer must not end it before */
	ASSERT_EQ(0, uq_ctrl_set(ns->ctrl, "admin_timeout", "7200000"));
	ASSERT_EQ(0, set_admin_fault(self, "silent", ADMIN_ABORT, QUEUES));
	ASSERT_EQ(0, set_fault(self, "lose", QUEUES));
	for (i = 0; i < QUEUES; i++)
		lose_on(_metadata, self, &q[i], i);
	while (all_timeouts(ns) < before + limit - 1)
		sched_yield();
	EXPECT_EQ(0, uq_reset(ns->ctrl));
	for (i = 0; i < QUEUES; i++) {
		EXPECT_EQ(-EINTR, uq_reap(&q[i].ring, NULL));
		io_uring_queue_exit(&q[i].ring);
		close(q[i].fd);
	}
	EXPECT_EQ(QUEUES - (limit - 1), fault_left(self, "silent"));
	EXPECT_EQ(0, set_fault(self, "silent", 0));
	EXPECT_EQ(before + limit - 1, all_timeouts(ns));
}

/* -- a batch that takes long */

/*
 * More than a task can be done with before the test has seen what it waits for,
 * however slowly: minutes. A signal ends each read after its first part.
 */
#define LONG_READS	64
/*
 * What the device has once it is told: it needs far less, but a busy host may
 * stop the whole guest for a second.
 */
#define DEVICE_MS	4000
#define LONG_PARTS	1000
#define LONG_PART	1048576

FIXTURE(batch)
{
	struct uq_node node;
	unsigned char *buf;
	pthread_t thread;
	int fd, random;
	int res;
};

FIXTURE_SETUP(batch)
{
	self->random = open("/dev/urandom", O_RDONLY);
	ASSERT_LE(0, self->random);
	ASSERT_TRUE(uq_find(&self->node, false));
	self->fd = open(self->node.path, O_RDONLY);
	ASSERT_LE(0, self->fd);
	self->buf = uq_alloc(LONG_PART + 4096);
	ASSERT_NE(NULL, self->buf);
}

FIXTURE_TEARDOWN(batch)
{
	EXPECT_TRUE(uq_wait_idle(self->node.name));
	close(self->fd);
	close(self->random);
}

static void stop_it(int sig)
{
}

/*
 * A read, and in the same batch so many random bytes that the task stays in the
 * kernel until a signal comes. The doorbell waits for the end of the batch.
 */
static void *submit_long_batch(void *arg)
{
	FIXTURE_DATA(batch) *self = arg;
	struct iovec parts[LONG_PARTS];
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	unsigned int i;

	self->res = -ENOMEM;
	if (uq_ring(&ring, 2 * LONG_READS, 0))
		return NULL;
	for (i = 0; i < LONG_PARTS; i++) {
		parts[i].iov_base = self->buf + 4096;
		parts[i].iov_len = LONG_PART;
	}
	uq_prep(&ring, self->fd, self->node.nsid, CMD_READ, 0, self->buf,
		512)->timeout_ms = DEVICE_MS;
	io_uring_prep_nop(io_uring_get_sqe(&ring));
	for (i = 0; i < LONG_READS; i++)
		io_uring_prep_readv(io_uring_get_sqe(&ring), self->random,
				    parts, LONG_PARTS, 0);
	for (i = 0; i < 2 + LONG_READS; i++)
		io_uring_sqe_set_data64(&ring.sq.sqes[i << 1], i);
	io_uring_submit(&ring);
	for (i = 0; i < 2 + LONG_READS; i++) {
		while (io_uring_wait_cqe(&ring, &cqe) == -EINTR)
			continue;
		if (!cqe->user_data)
			self->res = cqe->res;
		io_uring_cqe_seen(&ring, cqe);
	}
	io_uring_queue_exit(&ring);
	return NULL;
}

/*
 * The device cannot be late with a command that it was not sent. Once the time is up it
 * is told, batch or no batch, and the command ends well.
 */
TEST_F(batch, told_before_it_is_late)
{
	long long ended = uq_attr(self->node.name, "completed");
	long long late = uq_attr(self->node.name, "timeouts");
	struct sigaction act = { .sa_handler = stop_it };

	ASSERT_EQ(0, sigaction(SIGUSR1, &act, NULL));
	ASSERT_EQ(0, pthread_create(&self->thread, NULL, submit_long_batch,
				    self));
	while (uq_attr(self->node.name, "completed") == ended &&
	       uq_attr(self->node.name, "timeouts") == late)
		sched_yield();
	EXPECT_EQ(late, uq_attr(self->node.name, "timeouts"));
	EXPECT_EQ(EBUSY, pthread_tryjoin_np(self->thread, NULL));
	ASSERT_EQ(0, pthread_kill(self->thread, SIGUSR1));
	ASSERT_EQ(0, pthread_join(self->thread, NULL));
	EXPECT_EQ(0, self->res);
}

/* -- admin commands that are not answered, or refused */

/* A reset ends commands also if its deletion of queues is not answered. */
TEST_F(timeout, queues_that_are_not_deleted)
{
	static const int opcodes[] = { ADMIN_DELETE_SQ, ADMIN_DELETE_CQ };
	unsigned int i;

	if (!can_pretend(self))
		SKIP(return, UQ_NO_FAULTS);
	/* long enough for the admin commands that are answered */
	ASSERT_EQ(0, uq_ctrl_set(self->node.ns.ctrl, "admin_timeout", "5000"));
	for (i = 0; i < ARRAY_SIZE(opcodes); i++) {
		ASSERT_EQ(0, set_fault(self, "lose", 1));
		prep(self, 0, FOR_EVER);
		ASSERT_EQ(1, io_uring_submit(&self->ring));
		ASSERT_EQ(0, set_admin_fault(self, "silent", opcodes[i],
					     1));
		EXPECT_EQ(0, uq_reset(self->node.ns.ctrl));
		EXPECT_EQ(-EINTR, uq_reap(&self->ring, NULL));
		EXPECT_EQ(0, fault_left(self, "lose"));
		EXPECT_EQ(0, fault_left(self, "silent"));
		prep(self, 0, 0);
		EXPECT_EQ(0, uq_run(&self->ring));
	}
	EXPECT_EQ(self->before.cancelled + 2,
		  uq_attr(self->node.name, "cancelled"));
}

/*
 * A device that refuses to create a queue: neither it nor those of its kind that
 * follow are there, and the others are, and the block device.
 */
TEST_F(timeout, queues_that_are_refused)
{
	static const int opcodes[] = { ADMIN_CREATE_CQ, ADMIN_CREATE_SQ };
	unsigned char *block = self->buf + 4096;
	struct uq_ns *ns = &self->node.ns;
	unsigned int i, n;

	if (!can_pretend(self))
		SKIP(return, UQ_NO_FAULTS);
	/* interrupt queues are created first; the second time, neither kind is */
	for (i = 0; i < ARRAY_SIZE(opcodes); i++) {
		for (n = 1; n <= 2; n++) {
			bool there = n < 2 && variant->poll;

			ASSERT_EQ(0, set_admin_fault(self, "refuse",
						     opcodes[i], n));
			EXPECT_EQ(0, uq_reset(ns->ctrl));
			EXPECT_EQ(0, fault_left(self, "refuse"));
			prep(self, 0, 0);
			EXPECT_EQ(there ? 0 : -ENXIO, uq_run(&self->ring));
			EXPECT_EQ(4096, pread(self->block, block, 4096, 0));
			EXPECT_TRUE(uq_wait_nodes(ns, 0, n < 2 ? 2 : 0));
		}
		EXPECT_EQ(0, uq_reset(ns->ctrl));
		EXPECT_TRUE(uq_wait_nodes(ns, 2, 2));
		prep(self, 0, 0);
		EXPECT_EQ(0, uq_run(&self->ring));
	}
}

static void let_go(FIXTURE_DATA(timeout) *self)
{
	io_uring_queue_exit(&self->ring);
	close(self->fd);
	close(self->block);
	self->fd = -1;
}

/* With nothing of it open any more, it comes back under its name. */
static void bind_again(struct __test_metadata *_metadata,
		       FIXTURE_DATA(timeout) *self, const char *id)
{
	struct uq_node *node = &self->node;
	struct uq_ns ns = node->ns;

	ASSERT_EQ(0, uq_write_line("/sys/bus/pci/drivers/nvme/bind", id));
	ASSERT_EQ(0, uq_wait_path(node->block, true));
	ASSERT_TRUE(uq_wait_nodes(&ns, 2, 2));
	ASSERT_TRUE(uq_node_nth(node, &ns, node->poll, 0));
	self->fd = open(node->path, O_RDWR);
	ASSERT_LE(0, self->fd);
	self->block = open(node->block, O_RDWR | O_DIRECT);
	ASSERT_LE(0, self->block);
	ASSERT_EQ(0, new_ring(&self->ring, node->poll));
}

#define UNBIND	"/sys/bus/pci/drivers/nvme/unbind"

/*
 * A controller that does not answer at all when it comes up is given up, as it
 * is when that happens to one of the block layer's queues. Commands do not wait.
 */
TEST_F(timeout, controller_that_never_comes_up)
{
	struct nvme_uring_cmd *c;
	char id[32];
	int ret;

	if (!can_pretend(self))
		SKIP(return, UQ_NO_FAULTS);
	ASSERT_EQ(0, uq_pci_of(&self->node.ns, id, sizeof(id)));
	ASSERT_EQ(0, uq_ctrl_set(self->node.ns.ctrl, "admin_timeout", "5000"));
	ASSERT_EQ(0, set_fault(self, "lose", 1));
	prep(self, 0, FOR_EVER);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	ASSERT_EQ(0, set_admin_fault(self, "silent", ADMIN_CREATE_CQ, 1));
	EXPECT_GT(0, uq_reset(self->node.ns.ctrl));
	/* all of it, not its queues alone: namespaces are there until unbind */
	EXPECT_EQ(0, access(self->node.block, F_OK));
	EXPECT_EQ(0, access(self->node.path, F_OK));
	EXPECT_EQ(-EINTR, uq_reap(&self->ring, NULL));
	EXPECT_EQ(0, fault_left(self, "silent"));
	prep(self, 0, 0);
	ret = uq_run(&self->ring);
	EXPECT_TRUE(ret == -ENODEV || ret == -ENXIO) TH_LOG("%d", ret);
	c = prep(self, 0, 0);
	uq_sqe(c)->flags |= IOSQE_ASYNC;
	ret = uq_run(&self->ring);
	EXPECT_TRUE(ret == -ENODEV || ret == -ENXIO) TH_LOG("%d", ret);
	let_go(self);
	EXPECT_EQ(0, uq_write_line(UNBIND, id));
	bind_again(_metadata, self, id);
}

/* A driver that is unbound does not wait for what got lost. */
TEST_F(timeout, unbound_while_lost)
{
	char id[32];

	if (!can_pretend(self))
		SKIP(return, UQ_NO_FAULTS);
	ASSERT_EQ(0, uq_pci_of(&self->node.ns, id, sizeof(id)));
	ASSERT_EQ(0, set_fault(self, "lose", 1));
	prep(self, 0, FOR_EVER);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	EXPECT_EQ(0, uq_write_line(UNBIND, id));
	/* which says that it was lost, too */
	EXPECT_EQ(-EINTR, uq_reap(&self->ring, NULL));
	let_go(self);
	bind_again(_metadata, self, id);
}

/* Until the completion of the only command has been lost or held back. */
static void wait_fault(FIXTURE_DATA(timeout) *self, const char *what)
{
	while (fault_left(self, what) > 0)
		io_uring_enter(self->ring.ring_fd, 0, 0,
			       IORING_ENTER_GETEVENTS, NULL);
}

/*
 * What one driver of a device pretends is not the next one's: neither faults that
 * are still to come, nor a completion that is held back. The files go before the
 * device is unbound, also for a task that has one of them open.
 */
TEST_F(timeout, faults_end_with_the_controller)
{
	char id[32], path[PATH_MAX], c;
	unsigned int i;
	int fd;

	if (!can_pretend(self))
		SKIP(return, UQ_NO_FAULTS);
	ASSERT_EQ(0, uq_pci_of(&self->node.ns, id, sizeof(id)));
	uq_fault_path(path, self->node.ns.ctrl, "repeat/times");
	ASSERT_EQ(0, set_fault(self, "hold", 1));
	prep(self, 0, FOR_EVER);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	wait_fault(self, "hold");
	ASSERT_EQ(0, set_fault(self, "repeat", 64));
	fd = open(path, O_RDWR);
	EXPECT_LE(0, fd);
	EXPECT_EQ(0, uq_write_line(UNBIND, id));
	EXPECT_EQ(-EINTR, uq_reap(&self->ring, NULL));
	EXPECT_NE(0, access(path, F_OK));
	EXPECT_EQ(-1, pread(fd, &c, 1, 0));
	EXPECT_EQ(-1, pwrite(fd, "1", 1, 0));
	close(fd);
	let_go(self);
	bind_again(_metadata, self, id);

	for (i = 0; i < 64; i++)
		prep(self, i, 0);
	EXPECT_EQ(0, uq_run_all(&self->ring, 64));
	EXPECT_EQ(0, uq_attr(self->node.name, "spurious"));
}

/* The namespace gets the format that it has; which freezes its controller. */
static int format(const struct uq_ns *ns)
{
	static unsigned char id[4096];
	struct nvme_passthru_cmd cmd = {
		.opcode	= ADMIN_FORMAT,
		.nsid	= ns->nsid,
	};
	int ret = identify(ns->ctrl, ns->nsid, id);

	cmd.cdw10 = (id[26] & 0x1f) | (id[29] & 7) << 5;
	return ret ?: uq_admin(ns->ctrl, &cmd);
}

/* A freeze waits for what got lost no longer than for its timeout. */
TEST_F(timeout, frozen_while_lost)
{
	const char *node = self->node.name;
	int ret;

	if (!can_pretend(self))
		SKIP(return, UQ_NO_FAULTS);
	ASSERT_EQ(0, uq_ctrl_set(self->node.ns.ctrl, "io_timeout", "1000"));
	ASSERT_EQ(0, set_fault(self, "lose", 1));
	prep(self, 0, 1000);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	ret = format(&self->node.ns);
	if (ret > 0 && STATUS(ret) == INVALID_OPCODE)
		SKIP(return, "%s cannot format", self->node.ctrl);
	/* it may meet the reset, as any admin command may */
	EXPECT_TRUE(!ret || (ret & PATH_ERRORS) == PATH_ERRORS)
		TH_LOG("%d", ret);
	EXPECT_TRUE(ended(uq_reap(&self->ring, NULL)));
	EXPECT_EQ(0, fault_left(self, "lose"));
	EXPECT_EQ(self->before.timeouts + 2, uq_attr(node, "timeouts"));
	/* and nothing is frozen any more */
	prep(self, 0, 0);
	EXPECT_EQ(0, uq_run(&self->ring));
	EXPECT_EQ(0, uq_reset(self->node.ns.ctrl));
	EXPECT_EQ(0, format(&self->node.ns));
}

/* A timeout, in milliseconds, that a test is ready before. */
#define A_WHILE	15000

static void *run_format(void *arg)
{
	return (void *)(intptr_t)format(arg);
}

/*
 * Both at once: the format waits for the command, with locks that unbind needs.
 * The command's timeout ends it for both, though the controller is on its way
 * out already and cannot be reset.
 */
TEST_F(timeout, frozen_and_unbound_while_lost)
{
	const char *node = self->node.name;
	char id[32];
	pthread_t formatter;
	int ret;

	if (!can_pretend(self))
		SKIP(return, UQ_NO_FAULTS);
	/* while nothing is lost: does it format at all? */
	ret = format(&self->node.ns);
	if (ret > 0 && STATUS(ret) == INVALID_OPCODE)
		SKIP(return, "%s cannot format", self->node.ctrl);
	ASSERT_EQ(0, ret);
	ASSERT_EQ(0, uq_pci_of(&self->node.ns, id, sizeof(id)));
	ASSERT_EQ(0, set_fault(self, "lose", 1));
	prep(self, 0, A_WHILE);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	/* the files that tell go with the controller */
	wait_fault(self, "lose");
	EXPECT_EQ(0, fault_left(self, "lose"));
	ASSERT_EQ(0, pthread_create(&formatter, NULL, run_format,
				    &self->node.ns));
	while (uq_attr(node, "frozen") != 1 && uq_attr(node, "in_flight") > 0)
		sched_yield();
	EXPECT_EQ(0, uq_write_line(UNBIND, id));
	EXPECT_TRUE(ended(uq_reap(&self->ring, NULL)));
	ASSERT_EQ(0, pthread_join(formatter, NULL));
	let_go(self);
	bind_again(_metadata, self, id);
}

/* -- a tenant that does not look any more */

/* As many as the queue may have in flight: others wait for the tenant's. */
#define HAS	16

static pid_t stopped_tenant(struct __test_metadata *_metadata,
			    FIXTURE_DATA(timeout) *self)
{
	const struct uq_node *node = &self->node;
	struct io_uring ring;
	unsigned int i;
	int fd, ret, status;
	pid_t pid = fork();

	ASSERT_LE(0, pid);
	if (pid) {
		ASSERT_EQ(pid, waitpid(pid, &status, WUNTRACED));
		ASSERT_TRUE(WIFSTOPPED(status)) TH_LOG("status %#x", status);
		return pid;
	}

	let_go(self);
	fd = open(node->path, O_RDONLY);
	if (fd < 0 || new_ring(&ring, node->poll))
		_exit(1);
	/* if others wait for it to look, they wait for ever */
	for (i = 0; i < HAS; i++)
		uq_prep(&ring, fd, node->nsid, CMD_READ, i,
			self->buf + i * 4096, 512)->timeout_ms = FOR_EVER;
	if (io_uring_submit(&ring) != HAS)
		_exit(2);
	raise(SIGSTOP);
	for (i = 0; i < HAS; i++) {
		ret = uq_reap(&ring, NULL);
		if (ret && ret != -EINTR)
			_exit(3);
	}
	/* once each */
	_exit(io_uring_cq_ready(&ring) ? 4 : 0);
}

/* It goes on where it was, and finds that all of its commands have ended. */
static void goes_on(struct __test_metadata *_metadata, pid_t pid)
{
	int status;

	ASSERT_EQ(0, kill(pid, SIGCONT));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

/* Tasks that wait for its slots get them. */
TEST_F(timeout, stopped_while_others_wait)
{
	const char *node = self->node.name;
	char path[128], usual[16];
	unsigned int i;
	pid_t pid;

	snprintf(path, sizeof(path),
		 "/sys/class/nvme-generic/%s/user_queue/limit", node);
	ASSERT_EQ(0, uq_read_line(path, usual, sizeof(usual)));
	ASSERT_EQ(0, uq_write_line(path, "16"));
	pid = stopped_tenant(_metadata, self);
	for (i = 0; i < HAS; i++)
		prep(self, i, 0);
	EXPECT_EQ(0, uq_run_all(&self->ring, HAS));
	EXPECT_EQ(0, uq_write_line(path, usual));
	EXPECT_EQ(self->before.timeouts, uq_attr(node, "timeouts"));
	goes_on(_metadata, pid);
}

TEST_F(timeout, stopped_and_reset)
{
	pid_t pid = stopped_tenant(_metadata, self);

	EXPECT_EQ(0, uq_reset(self->node.ns.ctrl));
	prep(self, 0, 0);
	EXPECT_EQ(0, uq_run(&self->ring));
	goes_on(_metadata, pid);
}

TEST_F(timeout, stopped_and_frozen)
{
	pid_t pid = stopped_tenant(_metadata, self);
	int ret = format(&self->node.ns);

	prep(self, 0, 0);
	EXPECT_EQ(0, uq_run(&self->ring));
	goes_on(_metadata, pid);
	if (ret > 0 && STATUS(ret) == INVALID_OPCODE)
		SKIP(return, "%s cannot format", self->node.ctrl);
	EXPECT_EQ(0, ret);
	EXPECT_EQ(self->before.timeouts,
		  uq_attr(self->node.name, "timeouts"));
}

TEST_F(timeout, stopped_and_unbound)
{
	char id[32];
	pid_t pid = stopped_tenant(_metadata, self);

	ASSERT_EQ(0, uq_pci_of(&self->node.ns, id, sizeof(id)));
	EXPECT_EQ(0, uq_write_line(UNBIND, id));
	prep(self, 0, 0);
	EXPECT_EQ(-ENXIO, uq_run(&self->ring));
	goes_on(_metadata, pid);
	let_go(self);
	bind_again(_metadata, self, id);
}

int main(int argc, char **argv)
{
	return uq_main(argc, argv);
}
