// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: a stopped tenant that does not reap its completions, or
 * whose command on the block layer's queue does not end.
 */
#define _GNU_SOURCE
#define UQ_DISRUPTIVE	true
#include <glob.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/uio.h>

#include "uq_timeout.h"

/*
 * As many as the limit of the queue allows, so that others wait for the tenant.
 */
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
	/* a task that waits for the tenant would wait for ever */
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
	/* each command completes once */
	_exit(io_uring_cq_ready(&ring) ? 4 : 0);
}

/* Continue the tenant. All of its commands must have completed. */
static void goes_on(struct __test_metadata *_metadata, pid_t pid)
{
	int status;

	ASSERT_EQ(0, kill(pid, SIGCONT));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

/* Other tasks get the slots of the stopped tenant. */
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

struct held {
	FIXTURE_DATA(timeout) *self;
	void		*buf;
	int		uffd;
	pthread_t	tenant;
};

/* Read by the ioctl of the node, which uses the queue of the block layer. */
static void *read_held(void *arg)
{
	struct held *held = arg;
	struct nvme_passthru_cmd64 cmd = {
		.opcode		= CMD_READ,
		.nsid		= held->self->node.nsid,
		.addr		= (uintptr_t)held->buf,
		.data_len	= 4096,
		.cdw12		= 7,
	};

	return (void *)(intptr_t)ioctl(held->self->fd, NVME_IOCTL_IO64_CMD,
				       &cmd);
}

/*
 * Start a command of the block layer that waits for its memory. Return false if
 * there is no userfaultfd.
 */
static bool start_held(struct __test_metadata *_metadata,
		       FIXTURE_DATA(timeout) *self, struct held *held)
{
	struct uffd_msg msg;

	held->self = self;
	held->buf = uq_held_memory(4096, &held->uffd);
	if (held->uffd < 0)
		return false;
	ASSERT_NE(NULL, held->buf);
	ASSERT_EQ(0, pthread_create(&held->tenant, NULL, read_held, held));
	EXPECT_EQ(sizeof(msg), read(held->uffd, &msg, sizeof(msg)));
	return true;
}

/* Let the command end, and reap the read of completes(). */
static void end_held(struct __test_metadata *_metadata, struct held *held)
{
	void *ret;

	close(held->uffd);
	ASSERT_EQ(0, pthread_join(held->tenant, &ret));
	EXPECT_EQ(0, (intptr_t)ret);
	EXPECT_EQ(0, uq_reap(&held->self->ring, NULL));
}

/* Return true if a read completes, and false if it waits again and again. */
static bool completes(FIXTURE_DATA(timeout) *self)
{
	unsigned int waits = 0;

	prep(self, 0, 0);
	if (io_uring_submit(&self->ring) != 1)
		return false;
	while (!io_uring_cq_ready(&self->ring) && waits < 1000) {
		waits += uq_attr(self->node.name, "waiting") > 0;
		io_uring_enter(self->ring.ring_fd, 0, 0, IORING_ENTER_GETEVENTS,
			       NULL);
	}
	return io_uring_cq_ready(&self->ring);
}

/*
 * A tenant does not let a command of the block layer end. A scan, the block
 * device and the user queues do not wait for it.
 */
TEST_F(timeout, held_request_and_rescan)
{
	struct held held;

	if (!start_held(_metadata, self, &held))
		SKIP(return, "no userfaultfd");
	EXPECT_EQ(0, uq_ctrl_set(self->node.ns.ctrl, "rescan_controller", "1"));
	EXPECT_TRUE(uq_freezes(&self->node.ns, self->block))
		TH_LOG("the block device waits for the tenant");
	EXPECT_TRUE(completes(self)) TH_LOG("a read waits for the scan");
	end_held(_metadata, &held);
}

/* The same with a command that runs alone. */
TEST_F(timeout, held_request_and_format)
{
	struct held held;
	int status;

	if (!start_held(_metadata, self, &held))
		SKIP(return, "no userfaultfd");
	/* if not, the Format below would wait for the tenant */
	ASSERT_TRUE(uq_freezes(&self->node.ns, self->block))
		TH_LOG("the block device waits for the tenant");
	status = format(&self->node.ns);
	EXPECT_TRUE(completes(self)) TH_LOG("a read waits for the Format");
	end_held(_metadata, &held);
	if (status > 0 && STATUS(status) == INVALID_OPCODE)
		SKIP(return, "%s cannot format", self->node.ctrl);
	EXPECT_EQ(0, status);
}

/* -- a slow block device */

#define READS	128

/* Send reads, and do not wait for them. */
static void read_slowly(struct __test_metadata *_metadata,
			FIXTURE_DATA(timeout) *self, struct io_uring *ring,
			int fd)
{
	struct io_uring_sqe *sqe;
	unsigned int i;

	for (i = 0; i < READS; i++) {
		sqe = io_uring_get_sqe(ring);
		/* neighbours would become one request */
		io_uring_prep_read(sqe, fd, self->buf + i * 512, 512, i * 8192);
		/* a worker would send the read later */
		sqe->rw_flags = RWF_NOWAIT;
	}
	ASSERT_EQ(READS, io_uring_submit(ring));
}

UQ_LEAVE_OUT("timeout.poll.held_only_while_frozen",
	     "a scan holds queues of both kinds");

/*
 * A scan stops user queues to change the format. It first waits for all
 * requests of the block device. So none is in flight after user queues were
 * stopped: all were sent before the scan.
 */
TEST_F(timeout, held_only_while_frozen)
{
	bool stopped, reading;
	struct io_uring ring;
	struct uq_node slow;
	glob_t all = { };
	char path[80], line[32];
	unsigned int i;
	int fd, ret;

	if (!uq_find_slow(&slow, variant->poll) || slow.ns.lba != 512)
		SKIP(return, "UQ_TEST_SLOW_DEV names nothing with blocks of 512 bytes");
	snprintf(path, sizeof(path), "/sys/class/nvme/nvme%d/nvme*n*",
		 slow.ns.ctrl);
	if (glob(path, 0, NULL, &all) || all.gl_pathc > 1)
		SKIP(return, "the scan of another namespace stops user queues");
	fd = open(slow.block, O_RDONLY | O_DIRECT);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, uq_ring(&ring, READS, 0));
	read_slowly(_metadata, self, &ring, fd);
	ASSERT_EQ(0, uq_ctrl_set(slow.ns.ctrl, "rescan_controller", "1"));
	snprintf(path, sizeof(path), "/sys/block/%s/inflight", slow.ns.block);
	do {
		/* in this order */
		stopped = uq_attr(slow.name, "frozen") == 1;
		reading = !uq_read_line(path, line, sizeof(line)) &&
			atoi(line) > 0;
	} while (reading && !stopped);
	EXPECT_FALSE(reading) TH_LOG("user queues wait for the block device");
	for (i = 0; i < READS; i++) {
		ret = uq_reap(&ring, NULL);
		/* an earlier scan may still have frozen the block device */
		EXPECT_TRUE(ret == 512 || ret == -EAGAIN) TH_LOG("%d", ret);
	}
	io_uring_queue_exit(&ring);
	close(fd);
}

int main(int argc, char **argv)
{
	return uq_main(argc, argv);
}
