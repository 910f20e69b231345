// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: read(2), write(2) and similar calls while commands are
 * lost, tasks are killed, and the controller is reset, unbound and removed.
 */
#define _GNU_SOURCE
#define UQ_DISRUPTIVE	true
#include <linux/fs.h>
#include <pthread.h>
#include <stdatomic.h>

#include "uq_inject.h"
#include "uq_io.h"

#define POS	0x100000
#define PART	65536
#define TASKS	4
#define ADMIN_CREATE_CQ	0x05

static ssize_t try(ssize_t ret)
{
	return ret < 0 ? -errno : ret;
}

/* -- tasks that read and write until they are stopped or a call fails */

struct task {
	pthread_t	thread;
	int		fd;
	unsigned int	nr;
	unsigned char	*buf;
	atomic_bool	*end;
	atomic_ulong	*rounds;
	ssize_t		ret;		/* of the last call */
	bool		wrong;		/* the data read was never written */
};

static void *run_task(void *arg)
{
	struct task *t = arg;
	unsigned char *out = t->buf + t->nr * 2 * PART, *in = out + PART;
	off_t pos = POS + t->nr * PART;
	unsigned int seed = t->nr;

	while (!atomic_load(t->end)) {
		uq_fill(out, PART, seed += TASKS);
		t->ret = try(pwrite(t->fd, out, PART, pos));
		if (t->ret != PART)
			break;
		memset(in, 0, PART);
		t->ret = try(pread(t->fd, in, PART, pos));
		if (t->ret != PART)
			break;
		if (memcmp(in, out, PART)) {
			t->wrong = true;
			break;
		}
		atomic_fetch_add(t->rounds, 1);
	}
	return NULL;
}

struct crew {
	struct task	task[TASKS];
	atomic_bool	end;
	atomic_ulong	rounds;
};

static void crew_start(struct __test_metadata *_metadata,
		       FIXTURE_DATA(uq) *self, struct crew *crew)
{
	unsigned int i;

	memset(crew, 0, sizeof(*crew));
	for (i = 0; i < TASKS; i++) {
		crew->task[i] = (struct task){
			.fd	= self->fd,
			.nr	= i,
			.buf	= self->buf,
			.end	= &crew->end,
			.rounds	= &crew->rounds,
		};
		ASSERT_EQ(0, pthread_create(&crew->task[i].thread, NULL,
					    run_task, &crew->task[i]));
	}
}

/* Wait until the tasks have completed TASKS more rounds. */
static void crew_works(struct crew *crew)
{
	unsigned long seen = atomic_load(&crew->rounds);
	time_t start = uq_seconds();

	while (atomic_load(&crew->rounds) < seen + TASKS &&
	       uq_seconds() - start < UQ_NEVER)
		uq_rest();
}

static void crew_end(struct crew *crew, bool stop)
{
	unsigned int i;

	if (stop)
		atomic_store(&crew->end, true);
	for (i = 0; i < TASKS; i++)
		pthread_join(crew->task[i].thread, NULL);
}

/* The driver repeats calls after a reset, so none of them fails. */
TEST_F(uq, resets)
{
	struct crew crew;
	unsigned int i;

	crew_start(_metadata, self, &crew);
	for (i = 0; i < 5 * uq_scale(); i++) {
		crew_works(&crew);
		EXPECT_EQ(0, uq_reset(self->node.ns.ctrl));
	}
	crew_works(&crew);
	crew_end(&crew, true);
	for (i = 0; i < TASKS; i++) {
		EXPECT_EQ(PART, crew.task[i].ret);
		EXPECT_FALSE(crew.task[i].wrong);
	}
	self->spurious = uq_attr(self->node.name, "spurious");
}

/* With io_uring, requests complete once, with data or with -EINTR. */
TEST_F(uq, resets_with_a_ring)
{
	int fd = open(self->node.path, O_RDWR | O_DIRECT);
	unsigned int i, k;

	ASSERT_LE(0, fd);
	for (k = 0; k < 10 * uq_scale(); k++) {
		for (i = 0; i < 48; i++) {
			struct io_uring_sqe *sqe;

			sqe = io_uring_get_sqe(&self->ring);
			io_uring_prep_rw(i % 3 ? IORING_OP_READ :
					 IORING_OP_READ_FIXED, sqe, fd,
					 self->buf + i * 4096, 4096,
					 POS + i * 4096);
		}
		ASSERT_EQ(48, io_uring_submit(&self->ring));
		EXPECT_EQ(0, uq_reset(self->node.ns.ctrl));
		for (i = 0; i < 48; i++) {
			int ret = uq_reap(&self->ring, NULL);

			EXPECT_TRUE(ret == 4096 || ret == -EINTR)
				TH_LOG("%d", ret);
		}
		EXPECT_EQ(0, io_uring_cq_ready(&self->ring));
	}
	close(fd);
	self->spurious = uq_attr(self->node.name, "spurious");
}

/* -- a lost completion */

struct lost {
	char	timeout[16];
	int	ctrl;
};

static bool lose_one(FIXTURE_DATA(uq) *self, struct lost *lost)
{
	lost->ctrl = self->node.ns.ctrl;
	return uq_can_fault(lost->ctrl) &&
		!uq_ctrl_get(lost->ctrl, "io_timeout", lost->timeout,
			     sizeof(lost->timeout)) &&
		!uq_ctrl_set(lost->ctrl, "io_timeout", "2000") &&
		!uq_fault_set(lost->ctrl, "lose", 1);
}

static void lose_no_more(struct __test_metadata *_metadata,
			 FIXTURE_DATA(uq) *self, const struct lost *lost)
{
	EXPECT_EQ(0, uq_fault_clear(lost->ctrl));
	EXPECT_EQ(0, uq_ctrl_set(lost->ctrl, "io_timeout", lost->timeout));
	while (!uq_ctrl_is(lost->ctrl, "live"))
		uq_rest();
	EXPECT_EQ(512, pread(self->fd, self->buf, 512, 0));
	self->spurious = uq_attr(self->node.name, "spurious");
}

/* The timeout leads to a reset. The repeated call returns the data. */
TEST_F(uq, lost_and_sent_again)
{
	struct lost lost;

	uq_fill(self->ref, PART, 9);
	ASSERT_EQ(PART, pwrite(self->block, self->ref, PART, POS));
	if (!lose_one(self, &lost))
		SKIP(return, UQ_NO_FAULTS);
	EXPECT_EQ(PART, pread(self->fd, self->buf, PART, POS));
	EXPECT_EQ(0, memcmp(self->buf, self->ref, PART));
	EXPECT_EQ(0, uq_fault_left(lost.ctrl, "lose"));
	lose_no_more(_metadata, self, &lost);
}

/* A call with RWF_NOWAIT does not fail because its command is repeated. */
TEST_F(uq, lost_and_may_not_wait)
{
	struct iovec iov = { self->buf, 512 };
	struct lost lost;

	uq_fill(self->ref, 512, 10);
	ASSERT_EQ(512, pwrite(self->block, self->ref, 512, POS));
	if (!lose_one(self, &lost))
		SKIP(return, UQ_NO_FAULTS);
	EXPECT_EQ(512, try(preadv2(self->fd, &iov, 1, POS, RWF_NOWAIT)));
	EXPECT_EQ(0, memcmp(self->buf, self->ref, 512));
	EXPECT_EQ(0, uq_fault_left(lost.ctrl, "lose"));
	lose_no_more(_metadata, self, &lost);
}

/* Kill a task when its command is lost. */
static void kill_when_lost(struct __test_metadata *_metadata,
			   FIXTURE_DATA(uq) *self, pid_t pid)
{
	while (uq_fault_left(self->node.ns.ctrl, "lose") > 0)
		uq_rest();
	ASSERT_EQ(1, uq_attr(self->node.name, "in_flight"));
	ASSERT_EQ(0, kill(pid, SIGKILL));
}

/*
 * A killed task stays until the device can no longer write to its memory. After
 * the task has ended, none of its commands is in flight.
 */
TEST_F(uq, killed_in_flight)
{
	struct lost lost;
	int status;
	pid_t pid;

	if (!lose_one(self, &lost))
		SKIP(return, UQ_NO_FAULTS);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		pread(self->fd, self->buf, PART, POS);
		_exit(0);
	}
	kill_when_lost(_metadata, self, pid);
	EXPECT_EQ(0, waitpid(pid, &status, WNOHANG));
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, uq_attr(self->node.name, "in_flight"));
	EXPECT_TRUE(WIFSIGNALED(status));
	lose_no_more(_metadata, self, &lost);
}

/*
 * The same with a ring. The kernel has pinned the memory, so the task may end
 * first.
 */
TEST_F(uq, killed_with_a_ring)
{
	struct lost lost;
	pid_t pid;

	if (!lose_one(self, &lost))
		SKIP(return, UQ_NO_FAULTS);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		struct io_uring ring;

		if (uq_ring(&ring, 4, 0))
			_exit(1);
		io_uring_prep_read(io_uring_get_sqe(&ring), self->fd,
				   self->buf, PART, POS);
		io_uring_submit(&ring);
		pause();
		_exit(0);
	}
	kill_when_lost(_metadata, self, pid);
	EXPECT_EQ(pid, waitpid(pid, NULL, 0));
	EXPECT_TRUE(uq_wait_idle(self->node.name));
	lose_no_more(_metadata, self, &lost);
}

/* -- a controller that is removed */

static bool is_gone(ssize_t ret)
{
	return ret == -ENODEV || ret == -ENXIO || ret == -EIO;
}

static void give_back(struct __test_metadata *_metadata,
		      FIXTURE_DATA(uq) *self, const char *pci)
{
	close(self->fd);
	close(self->block);
	ASSERT_TRUE(uq_pci_restore(pci, &self->node.ns));
	self->fd = open(self->node.path, O_RDWR);
	ASSERT_LE(0, self->fd);
	self->block = open(self->node.block, O_RDWR | O_DIRECT);
	ASSERT_LE(0, self->block);
	EXPECT_EQ(512, pread(self->fd, self->buf, 512, 0));
	self->spurious = uq_attr(self->node.name, "spurious");
}

static void take_away(struct __test_metadata *_metadata,
		      FIXTURE_DATA(uq) *self, bool device)
{
	struct uq_ns ns = self->node.ns;
	struct crew crew;
	char pci[64];
	unsigned int i;

	ASSERT_EQ(0, uq_pci_of(&ns, pci, sizeof(pci)));
	crew_start(_metadata, self, &crew);
	crew_works(&crew);
	EXPECT_EQ(0, uq_pci_take(pci, device));
	crew_end(&crew, false);
	for (i = 0; i < TASKS; i++) {
		EXPECT_TRUE(is_gone(crew.task[i].ret) ||
			    (crew.task[i].ret > 0 && crew.task[i].ret < PART))
			TH_LOG("%zd", crew.task[i].ret);
		EXPECT_FALSE(crew.task[i].wrong);
	}
	EXPECT_TRUE(is_gone(try(pread(self->fd, self->buf, 512, 0))));
	EXPECT_TRUE(is_gone(try(pwrite(self->fd, self->buf, 512, POS))));
	EXPECT_NE(0, fsync(self->fd));
	/* the open file still belongs to the old controller */
	EXPECT_TRUE(uq_pci_find(pci, device, &ns));
	EXPECT_TRUE(is_gone(try(pread(self->fd, self->buf, 512, 0))));
	give_back(_metadata, self, pci);
}

TEST_F(uq, unbind)
{
	take_away(_metadata, self, false);
}

TEST_F(uq, removed)
{
	take_away(_metadata, self, true);
}

/*
 * A dead controller keeps its namespaces until it is unbound, and their block
 * devices have size 0. A read must fail, not return the end of the file.
 */
TEST_F(uq, given_up)
{
	struct uq_ns ns = self->node.ns;
	__u64 size = 1;
	char pci[64];

	if (!uq_can_fault(ns.ctrl))
		SKIP(return, UQ_NO_FAULTS);
	ASSERT_EQ(0, uq_pci_of(&ns, pci, sizeof(pci)));
	ASSERT_EQ(0, uq_ctrl_set(ns.ctrl, "admin_timeout", "5000"));
	ASSERT_EQ(0, uq_fault_admin(ns.ctrl, "silent", ADMIN_CREATE_CQ, 1));
	EXPECT_GT(0, uq_reset(ns.ctrl));
	EXPECT_EQ(0, access(self->node.path, F_OK));
	EXPECT_EQ(-ENODEV, try(pread(self->fd, self->buf, 512, 0)));
	EXPECT_EQ(-ENODEV, try(pwrite(self->fd, self->buf, 512, POS)));
	EXPECT_EQ(-ENODEV, try(lseek(self->fd, 0, SEEK_END)));
	EXPECT_EQ(-ENODEV, try(ioctl(self->fd, BLKGETSIZE64, &size)));
	EXPECT_EQ(1, size);
	EXPECT_EQ(0, uq_pci_take(pci, false));
	EXPECT_TRUE(is_gone(try(pread(self->fd, self->buf, 512, 0))));
	EXPECT_TRUE(uq_pci_find(pci, false, &ns));
	give_back(_metadata, self, pci);
}

/* Calls fail if the namespace is detached from its controller. */
TEST_F(uq, detached)
{
	struct uq_ns *ns = &self->node.ns;

	close(self->block);
	self->block = -1;
	if (uq_attach(ns, false))
		SKIP(return, "the controller cannot detach namespaces");
	EXPECT_EQ(0, uq_wait_path(self->node.path, false));
	EXPECT_EQ(-ENXIO, try(pread(self->fd, self->buf, 512, 0)));
	EXPECT_EQ(-ENXIO, try(pwrite(self->fd, self->buf, 512, POS)));
	EXPECT_EQ(-ENXIO, try(fsync(self->fd)));
	close(self->fd);
	ASSERT_EQ(0, uq_attach(ns, true));
	ASSERT_EQ(0, uq_wait_path(self->node.path, true));
	self->fd = open(self->node.path, O_RDWR);
	ASSERT_LE(0, self->fd);
	EXPECT_EQ(512, pread(self->fd, self->buf, 512, 0));
}

int main(int argc, char **argv)
{
	return uq_main(argc, argv);
}
