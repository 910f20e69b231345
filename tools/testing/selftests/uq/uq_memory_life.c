// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: memory of open files. Check which open file the memory
 * belongs to, the limits, and how long the memory exists. It exists as long as
 * a descriptor, a mapping or a command uses it and the controller is bound.
 */
#define _GNU_SOURCE
#define UQ_DISRUPTIVE	true
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "uq_memory.h"

/* -- owner of the memory */

TEST_F(memory, other_open_file)
{
	int other = open(self->node.path, O_RDWR);
	struct nvme_uq_memory mem;
	struct nvme_uring_cmd *c;
	unsigned char *p;

	ASSERT_LE(0, other);
	ASSERT_EQ(0, get(self, 16 * PAGE));
	memset(self->p, 0x11, self->mem.size);
	EXPECT_EQ(-ENXIO, try_map(other, PAGE, PROT_READ, MAP_SHARED, 0));
	c = uq_prep(&self->ring, other, self->node.nsid, CMD_WRITE, SLBA(3),
		    NULL, 512);
	c->flags = NVME_UQ_CMD_MEMORY;
	EXPECT_EQ(-EFAULT, uq_run(&self->ring));

	/* the other file gets separate memory */
	ASSERT_EQ(0, ask(other, 16 * PAGE, &mem));
	p = map(other, &mem);
	ASSERT_NE(NULL, p);
	EXPECT_TRUE(is_all(p, mem.size, 0));
	memset(p, 0x22, mem.size);
	EXPECT_TRUE(is_all(self->p, self->mem.size, 0x11));
	c = uq_prep(&self->ring, other, self->node.nsid, CMD_WRITE, SLBA(3),
		    NULL, 512);
	c->flags = NVME_UQ_CMD_MEMORY;
	EXPECT_EQ(0, uq_run(&self->ring));
	EXPECT_EQ(0, run_other(self, CMD_READ, SLBA(3), self->buf, 512));
	EXPECT_TRUE(is_all(self->buf, 512, 0x22));
	munmap(p, mem.size);
	close(other);
	EXPECT_TRUE(is_all(self->p, self->mem.size, 0x11));
}

/* Parent, child and device see each other's writes to the mapping. */
TEST_F(memory, fork)
{
	int status;
	pid_t pid;

	ASSERT_EQ(0, get(self, 16 * PAGE));
	memset(self->p, 0x33, self->mem.size);
	memset(self->buf, 0x44, 512);
	ASSERT_EQ(0, run_other(self, CMD_WRITE, SLBA(3), self->buf, 512));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		bool same = is_all(self->p, self->mem.size, 0x33);

		self->p[PAGE] = 0x55;
		_exit(same ? 0 : 1);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(0x55, self->p[PAGE]);

	/*
	 * with MADV_DONTFORK the child inherits no mapping; its descriptor
	 * refers to the same memory
	 */
	ASSERT_EQ(0, madvise(self->p, self->mem.size, MADV_DONTFORK));
	EXPECT_EQ(0, run(self, CMD_READ, SLBA(3), 0, 512));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		unsigned char *p;

		/*
		 * check this first: the next mapping may get the same address
		 */
		if (msync(self->p, PAGE, MS_ASYNC) != -1)
			_exit(1);
		p = map(self->fd, &self->mem);
		if (!p)
			_exit(2);
		_exit(is_all(p, 512, 0x44) && p[PAGE] == 0x55 ? 0 : 3);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

/*
 * A descriptor that is sent through a socket refers to the same memory. Its
 * receiver can ask for size and pieces, and map the memory.
 */
TEST_F(memory, passed_on)
{
	struct nvme_uq_memory mem;
	unsigned int number;
	unsigned char *p;
	int sock[2], fd;

	ASSERT_EQ(0, get(self, 4 * PAGE));
	memset(self->p, 0x66, self->mem.size);
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_DGRAM, 0, sock));
	uq_send_fd(sock[0], self->fd, 1, 0);
	fd = uq_receive_fd(sock[1], &number, 0);
	ASSERT_LE(0, fd);
	/* close the first descriptor */
	give_back(self);
	EXPECT_EQ(-EBUSY, ask_for(fd, PAGE));
	EXPECT_EQ(0, ask(fd, 0, &mem));
	EXPECT_EQ(self->mem.size, mem.size);
	EXPECT_EQ(self->mem.piece, mem.piece);
	p = map(fd, &mem);
	ASSERT_NE(NULL, p);
	EXPECT_TRUE(is_all(p, mem.size, 0x66));
	munmap(p, mem.size);
	close(fd);
	close(sock[0]);
	close(sock[1]);
}

/* System calls can copy from and to the memory, but cannot pin its pages. */
TEST_F(memory, as_a_buffer)
{
	struct iovec iov;
	int pipefd[2];

	ASSERT_EQ(0, get(self, 4 * PAGE));
	uq_fill(self->p, PAGE, 3);
	ASSERT_EQ(0, pipe(pipefd));
	EXPECT_EQ(PAGE, write(pipefd[1], self->p, PAGE));
	EXPECT_EQ(PAGE, read(pipefd[0], self->p + PAGE, PAGE));
	EXPECT_EQ(0, memcmp(self->p, self->p + PAGE, PAGE));
	close(pipefd[0]);
	close(pipefd[1]);

	EXPECT_EQ(-EFAULT, run_other(self, CMD_READ, 0, self->p, 512));
	iov = (struct iovec){ self->p, PAGE };
	EXPECT_GT(0, io_uring_register_buffers(&self->ring, &iov, 1));
}

/* -- limits */

TEST_F(memory, parameter)
{
	int other = open(self->node.path, O_RDWR);

	ASSERT_LE(0, other);
	EXPECT_EQ(0, uq_attr(self->node.name, "memory"));
	ASSERT_EQ(0, uq_param_set(LIMIT, "2"));
	EXPECT_EQ(-ENOSPC, ask_for(self->fd, 2 * MIB + 1));
	EXPECT_EQ(0, ask_for(self->fd, MIB));
	EXPECT_EQ(-ENOSPC, ask_for(other, MIB + PAGE));
	EXPECT_EQ(0, ask_for(other, MIB));
	EXPECT_EQ(2 * MIB, uq_attr(self->node.name, "memory"));
	close(self->fd);
	self->fd = open(self->node.path, O_RDWR);
	EXPECT_EQ(-ENOSPC, ask_for(self->fd, 2 * MIB));
	close(other);
	EXPECT_EQ(0, ask_for(self->fd, 2 * MIB));

	ASSERT_EQ(0, uq_param_set(LIMIT, "0"));
	other = open(self->node.path, O_RDWR);
	ASSERT_LE(0, other);
	EXPECT_EQ(-ENOSPC, ask_for(other, PAGE));
	/* memory that was allocated before stays */
	EXPECT_EQ(0, run(self, CMD_READ, 0, MIB, 512));
	ASSERT_EQ(0, uq_param_set(LIMIT, "64"));
	EXPECT_EQ(0, ask_for(other, PAGE));
	close(other);
	EXPECT_NE(0, uq_param_set(LIMIT, "65537"));
	EXPECT_NE(0, uq_param_set(LIMIT, "-1"));
}

/* A limit of 1 MiB applies to all files of the user together. */
static int memlock(void *data)
{
	const struct rlimit mib = { MIB, MIB };
	FIXTURE_DATA(memory) *self = data;
	int a = open(self->node.path, O_RDWR), b = open(self->node.path, O_RDWR);
	int status;

	if (a < 0 || b < 0 || setrlimit(RLIMIT_MEMLOCK, &mib))
		return 1;
	if (ask_for(a, MIB + PAGE) != -ENOMEM)
		return 2;
	/* sizes that are not rounded up to whole pieces */
	if (ask_for(a, MIB / 2))
		return 3;
	if (ask_for(b, MIB / 2 + PAGE) != -ENOMEM)
		return 4;
	/* another process of the user shares the limit */
	if (!fork())
		_exit(ask_for(b, MIB / 2 + PAGE) != -ENOMEM);
	if (wait(&status) < 0 || status)
		return 5;
	if (ask_for(b, MIB / 2))
		return 6;
	close(a);
	close(b);
	a = open(self->node.path, O_RDWR);
	return a < 0 || ask_for(a, MIB) ? 7 : 0;
}

TEST_F(memory, memlock)
{
	const struct rlimit none = { 0, RLIM_INFINITY };

	EXPECT_EQ(0, uq_run_with_mode(&self->node, 0666, memlock, self));
	/* CAP_IPC_LOCK overrides the limit */
	ASSERT_EQ(0, setrlimit(RLIMIT_MEMLOCK, &none));
	EXPECT_EQ(0, ask_for(self->fd, MIB));
}

/* -- lifetime */

TEST_F(memory, kept_by_a_mapping)
{
	struct nvme_uq_memory mem;
	int other;

	ASSERT_EQ(0, uq_param_set(LIMIT, "1"));
	ASSERT_EQ(0, get(self, MIB));
	uq_fill(self->p, MIB, 12);
	memcpy(self->buf, self->p, MIB);
	close(self->fd);
	self->fd = -1;
	other = open(self->node.path, O_RDWR);
	ASSERT_LE(0, other);
	EXPECT_EQ(-ENOSPC, ask(other, PAGE, &mem));
	EXPECT_EQ(0, memcmp(self->buf, self->p, MIB));
	give_back(self);
	EXPECT_EQ(0, ask(other, MIB, &mem));
	close(other);
	ASSERT_EQ(0, uq_param_set(LIMIT, "64"));
}

/* The memory, its mapping and its content survive a reset. */
TEST_F(memory, reset)
{
	unsigned int i;

	ASSERT_EQ(0, get(self, 4 * MIB));
	uq_fill(self->p, MIB, 21);
	memcpy(self->buf, self->p, MIB);
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, uq_reset(self->node.ns.ctrl));
		EXPECT_EQ(0, memcmp(self->buf, self->p, MIB));
		EXPECT_EQ(0, run(self, CMD_WRITE, SLBA(i), i * 65536, 65536));
		EXPECT_EQ(0, run(self, CMD_READ, SLBA(i),
				 2 * MIB + i * 65536 - 512, 65536));
		EXPECT_EQ(0, memcmp(self->p + i * 65536,
				    self->p + 2 * MIB + i * 65536 - 512, 65536));
	}
}

/*
 * After the driver has revoked the memory, access raises SIGBUS and calls fail.
 */
static void expect_revoked(struct __test_metadata *_metadata,
			   FIXTURE_DATA(memory) *self)
{
	size_t at;

	for (at = 0; at < self->mem.size; at += self->mem.size / 16) {
		EXPECT_EQ(SIGBUS, uq_touch(self->p + at, false));
		EXPECT_EQ(SIGBUS, uq_touch(self->p + at, true));
	}
	EXPECT_GT(0, run(self, CMD_READ, 0, 0, 512));
	EXPECT_GT(0, run(self, CMD_WRITE, 0, 0, 512));
	EXPECT_EQ(-ENXIO, try_map(self->fd, PAGE, PROT_READ, MAP_SHARED, 0));
	EXPECT_EQ(-ENXIO, ask_for(self->fd, PAGE));
}

static void take_and_find(struct __test_metadata *_metadata,
			  FIXTURE_DATA(memory) *self, bool device)
{
	struct uq_ns ns = self->node.ns;
	struct uq_node again;
	char pci[64];
	int fd;

	ASSERT_EQ(0, get(self, 4 * MIB));
	memset(self->p, 0x77, self->mem.size);
	ASSERT_EQ(0, uq_pci_of(&ns, pci, sizeof(pci)));
	ASSERT_EQ(0, uq_pci_take(pci, device));
	expect_revoked(_metadata, self);

	ASSERT_TRUE(uq_pci_find(pci, device, &ns));
	expect_revoked(_metadata, self);
	ASSERT_TRUE(uq_node_nth(&again, &ns, self->node.poll, 0));
	fd = open(again.path, O_RDWR);
	ASSERT_LE(0, fd);
	EXPECT_EQ(0, ask_for(fd, PAGE));
	close(fd);
	give_back(self);
	EXPECT_TRUE(uq_pci_restore(pci, &self->node.ns));
	self->spurious = uq_attr(self->node.name, "spurious");
}

/* Fill the ring with reads of 4 KiB, and do not wait for them. */
static void submit_all(struct __test_metadata *_metadata,
		       FIXTURE_DATA(memory) *self)
{
	unsigned int i;

	for (i = 0; i < 64; i++)
		prep(self, CMD_READ, i * 8, i * 4096, 4096);
	ASSERT_EQ(64, io_uring_submit(&self->ring));
}

/* Reap all reads. They must succeed, unless the test has disturbed them. */
static void reap_all(struct __test_metadata *_metadata,
		     FIXTURE_DATA(memory) *self, bool disturbed)
{
	unsigned int i;

	for (i = 0; i < 64; i++) {
		int ret = uq_reap(&self->ring, NULL);

		EXPECT_TRUE(!ret || (disturbed && ret < 0))
			TH_LOG("result %d", ret);
	}
	EXPECT_EQ(0, io_uring_cq_ready(&self->ring));
}

/*
 * Commands in flight keep the memory after the file and the mapping are closed.
 */
TEST_F(memory, closed_in_flight)
{
	unsigned int i;

	for (i = 0; i < 20 * uq_scale(); i++) {
		ASSERT_EQ(0, get_again(self, 256 * 1024));
		submit_all(_metadata, self);
		give_back(self);
		reap_all(_metadata, self, false);
	}
	/* the driver frees the memory after the last command */
	ASSERT_EQ(0, uq_param_set(LIMIT, "1"));
	EXPECT_EQ(0, get_again(self, MIB));
	ASSERT_EQ(0, uq_param_set(LIMIT, "64"));
}

TEST_F(memory, reset_in_flight)
{
	unsigned int i;

	ASSERT_EQ(0, get(self, 256 * 1024));
	for (i = 0; i < 5 * uq_scale(); i++) {
		submit_all(_metadata, self);
		EXPECT_EQ(0, uq_reset(self->node.ns.ctrl));
		reap_all(_metadata, self, true);
		out_and_back(_metadata, self, 4096, 4096);
	}
}

struct victim {
	FIXTURE_DATA(memory)	*self;
	int			ready;	/* written after the submission */
};

/*
 * Allocate all memory of the limit and submit a command that will not complete.
 */
static void be_killed(const struct victim *v)
{
	FIXTURE_DATA(memory) *self = v->self;
	struct io_uring ring;
	int fd = uq_open_ring(&self->node, O_RDWR, &ring, 4);
	struct nvme_uring_cmd *c;
	char good = fd >= 0 && !ask_for(fd, MIB);

	if (good) {
		c = uq_prep(&ring, fd, self->node.nsid, CMD_READ, 0, NULL,
			    65536);
		c->flags = NVME_UQ_CMD_MEMORY;
		good = io_uring_submit(&ring) == 1;
	}
	if (write(v->ready, &good, 1) == 1)
		pause();
	_exit(1);
}

static pid_t start_victim(struct __test_metadata *_metadata,
			  FIXTURE_DATA(memory) *self)
{
	struct victim v = { .self = self };
	int pipefd[2];
	char good = 0;
	pid_t pid;

	ASSERT_EQ(0, pipe(pipefd));
	v.ready = pipefd[1];
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		be_killed(&v);
	ASSERT_EQ(1, read(pipefd[0], &good, 1));
	EXPECT_TRUE(good);
	close(pipefd[0]);
	close(pipefd[1]);
	return pid;
}

/*
 * A task with a command in flight is killed, and the completion is lost. The
 * device may write to the memory until the timeout leads to a reset, so the
 * memory must stay until then. Return true if the command was seen in flight.
 */
static bool kept_until_it_is_lost(struct __test_metadata *_metadata,
				  FIXTURE_DATA(memory) *self, unsigned int ms)
{
	int ctrl = self->node.ns.ctrl, ret, other;
	time_t start = uq_seconds();
	bool in_flight, seen = false;
	char timeout[16];
	pid_t pid;

	other = open(self->node.path, O_RDWR);
	ASSERT_LE(0, other);
	snprintf(timeout, sizeof(timeout), "%u", ms);
	ASSERT_EQ(0, uq_ctrl_set(ctrl, "io_timeout", timeout));
	ASSERT_EQ(0, uq_fault_set(ctrl, "lose", 1));
	pid = start_victim(_metadata, self);
	ASSERT_EQ(0, kill(pid, SIGKILL));
	do {
		ret = ask_for(other, MIB);
		in_flight = uq_attr(self->node.name, "in_flight") > 0;
		if (in_flight)
			EXPECT_EQ(-ENOSPC, ret);
		seen |= in_flight;
		sched_yield();
	} while (ret == -ENOSPC && uq_seconds() - start < UQ_NEVER);
	EXPECT_EQ(0, ret);
	EXPECT_EQ(pid, waitpid(pid, NULL, 0));
	close(other);
	EXPECT_EQ(0, uq_fault_clear(ctrl));
	while (!uq_ctrl_is(ctrl, "live"))
		uq_rest();
	return seen;
}

TEST_F(memory, killed_with_a_lost_command)
{
	int ctrl = self->node.ns.ctrl;
	unsigned int ms = 1000;
	char timeout[16];
	bool seen;

	if (!uq_can_fault(ctrl))
		SKIP(return, UQ_NO_FAULTS);
	ASSERT_EQ(0, uq_ctrl_get(ctrl, "io_timeout", timeout, sizeof(timeout)));
	ASSERT_EQ(0, uq_param_set(LIMIT, "1"));
	/* a busy machine may look too late: increase the timeout then */
	do {
		ms *= 2;
		seen = kept_until_it_is_lost(_metadata, self, ms);
	} while (!seen && ms < UQ_NEVER * 1000 / 2);
	EXPECT_TRUE(seen);
	ASSERT_EQ(0, uq_ctrl_set(ctrl, "io_timeout", timeout));
	ASSERT_EQ(0, uq_param_set(LIMIT, "64"));
}

UQ_LEAVE_OUT("memory.*_no_sgl.unbind*", "not about data");

TEST_F(memory, unbind)
{
	take_and_find(_metadata, self, false);
}

TEST_F(memory, unbind_in_flight)
{
	struct uq_ns ns = self->node.ns;
	char pci[64];

	ASSERT_EQ(0, get(self, 256 * 1024));
	ASSERT_EQ(0, uq_pci_of(&ns, pci, sizeof(pci)));
	submit_all(_metadata, self);
	ASSERT_EQ(0, uq_pci_take(pci, false));
	reap_all(_metadata, self, true);
	expect_revoked(_metadata, self);
	give_back(self);
	ASSERT_TRUE(uq_pci_find(pci, false, &ns));
	EXPECT_TRUE(uq_pci_restore(pci, &self->node.ns));
	self->spurious = uq_attr(self->node.name, "spurious");
}

UQ_LEAVE_OUT("memory.*_no_sgl.removed", "not about data");

TEST_F(memory, removed)
{
	take_and_find(_metadata, self, true);
}

int main(int argc, char **argv)
{
	return uq_main(argc, argv);
}
