// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: timeouts. The device loses completions, interrupts or admin
 * commands, or a tenant stops polling. Each command completes once and its
 * memory is unpinned, whatever its task does. Other tasks wait no longer than
 * the timeout of a command.
 *
 * Faults of the device require CONFIG_NVME_UQ_FAULT.
 */
#define _GNU_SOURCE
#define UQ_DISRUPTIVE	true
#include <limits.h>
#include <pthread.h>
#include <time.h>

#include "uq_timeout.h"
#include "uq_random.h"

/* -- lost completions, and tasks that end */

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
 * Tasks end in different ways, or continue, with a command whose completion is
 * lost. At the latest, the reset ends the command, unpins its page and frees
 * its slot.
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
		uq_rest();
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
 * An interrupt was lost, or no task polls. The completion is there, so the
 * command ends at its timeout, without an abort.
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

/* Two commands are lost. The one without a timeout of its own is due first. */
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
	/* the abort had no effect, so one command timed out twice */
	EXPECT_EQ(self->before.timeouts + 2, uq_attr(node, "timeouts"));
	EXPECT_EQ(self->before.cancelled + 2, uq_attr(node, "cancelled"));
}

/* The reset comes in time even if no task polls. */
TEST_F(timeout, reset_in_its_own_time)
{
	const char *node = self->node.name;

	if (!can_pretend(self))
		SKIP(return, UQ_NO_FAULTS);
	ASSERT_EQ(0, uq_ctrl_set(self->node.ns.ctrl, "io_timeout", "1000"));
	ASSERT_EQ(0, set_fault(self, "lose", 1));
	prep(self, 0, 1000);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	EXPECT_TRUE(ended(uq_reap(&self->ring, NULL)));
	EXPECT_EQ(0, fault_left(self, "lose"));
	EXPECT_EQ(self->before.timeouts + 2, uq_attr(node, "timeouts"));
}

/*
 * A command with a short timeout can be aborted early. A reset affects other
 * users, so the device gets io_timeout before it, here two hours.
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
		uq_rest();
	/* due much later than the second timeout of the first command */
	prep(self, 1, 2000);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	while (uq_attr(node, "timeouts") < self->before.timeouts + 2)
		uq_rest();
	EXPECT_EQ(resets, uq_resets_logged(self->node.ns.ctrl));
	EXPECT_EQ(0, uq_reset(self->node.ns.ctrl));
	EXPECT_EQ(-EINTR, uq_reap(&self->ring, NULL));
	EXPECT_EQ(-EINTR, uq_reap(&self->ring, NULL));
	EXPECT_EQ(0, fault_left(self, "lose"));
}

/*
 * Return how many aborts the controller accepts at once; 0 if it must answer
 * some.
 */
static unsigned int abort_limit(const struct uq_ns *ns)
{
	static unsigned char id[4096];

	/* ACL and AERL; the driver has one event request outstanding */
	if (uq_identify(ns->ctrl, 0, id) || id[259] < id[258] + 1)
		return 0;
	return id[258] + 1;
}

/*
 * Commands are lost, and the abort of one is not answered, so the driver sends
 * no other abort. When that command times out again, all commands end. @first
 * is the timeout of the first two commands; the others have 1000 ms.
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
	/* a queue sends one abort at a time, whatever the controller accepts */
	EXPECT_EQ(lost - 1, fault_left(self, "silent"));
	EXPECT_EQ(0, set_fault(self, "silent", 0));
	EXPECT_EQ(self->before.timeouts + 2, uq_attr(node, "timeouts"));
	EXPECT_EQ(self->before.cancelled + lost, uq_attr(node, "cancelled"));
}

TEST_F(timeout, aborts_that_are_not_answered)
{
	lose_with_aborts(_metadata, self, 1000);
}

/* Commands without an abort do not delay others, whatever their order. */
TEST_F(timeout, overdue_before_those_with_an_abort)
{
	lose_with_aborts(_metadata, self, 1500);
}

/* User queues of the controller, with one command each. */
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

/* All queues want to abort, but one abort remains for the block layer. */
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
	/* unanswered aborts must not time out first */
	ASSERT_EQ(0, uq_ctrl_set(ns->ctrl, "admin_timeout", "7200000"));
	ASSERT_EQ(0, set_admin_fault(self, "silent", ADMIN_ABORT, QUEUES));
	ASSERT_EQ(0, set_fault(self, "lose", QUEUES));
	for (i = 0; i < QUEUES; i++)
		lose_on(_metadata, self, &q[i], i);
	while (all_timeouts(ns) < before + limit - 1)
		uq_rest();
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

/* -- a long batch */

/*
 * Enough reads to keep a task busy for minutes, until the test has seen the
 * result. A signal ends each read after its first part, and so does the task
 * work that completes the command.
 */
#define LONG_READS	64
/*
 * Timeout of the command, which restarts with the doorbell. The device needs
 * far less, but a busy host may stop the whole guest for a second.
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
	int res, cut;
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
 * Submit a read, and in the same batch reads of many random bytes, which keep
 * the task in the kernel until a signal arrives. The doorbell is written at the
 * end of the batch.
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
		else if (cqe->user_data > 1 && cqe->res < LONG_PARTS * LONG_PART)
			self->cut++;
		io_uring_cqe_seen(&ring, cqe);
	}
	io_uring_queue_exit(&ring);
	return NULL;
}

/*
 * A command that was not sent to the device cannot be late. At its timeout, the
 * driver writes the doorbell, even within a batch, and the command succeeds.
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
		uq_rest();
	EXPECT_EQ(late, uq_attr(self->node.name, "timeouts"));
	/* the thread may have ended */
	pthread_kill(self->thread, SIGUSR1);
	ASSERT_EQ(0, pthread_join(self->thread, NULL));
	EXPECT_EQ(0, self->res);
	/*
	 * the end of the command, or the signal after it, has cut the batch
	 * short
	 */
	EXPECT_LT(0, self->cut);
}

int main(int argc, char **argv)
{
	return uq_main(argc, argv);
}
