// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: a device does not answer admin commands, or fails them.
 * Check how commands on user queues end.
 *
 * Most tests need CONFIG_NVME_UQ_FAULT to make a device misbehave.
 */
#define _GNU_SOURCE
#define UQ_DISRUPTIVE	true
#include <limits.h>
#include <pthread.h>
#include <sched.h>

#include "uq_timeout.h"

/* Wait until the completion of the only command has been lost or delayed. */
static void wait_fault(FIXTURE_DATA(timeout) *self, const char *what)
{
	while (fault_left(self, what) > 0)
		io_uring_enter(self->ring.ring_fd, 0, 0,
			       IORING_ENTER_GETEVENTS, NULL);
}

/* A reset ends commands even if Delete commands are not answered. */
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
		/* it waits in a worker during the scan after a reset */
		wait_fault(self, "lose");
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

UQ_LEAVE_OUT("timeout.poll.queues_are_deleted_in_parallel",
	     "a reset deletes queues of both kinds");

/*
 * A reset sends the Delete commands of several queues before it waits for the
 * first one, so a slow controller does not take the sum of their times. Two
 * commands are not answered, although the first one ends the deletion.
 */
TEST_F(timeout, queues_are_deleted_in_parallel)
{
	if (!can_pretend(self))
		SKIP(return, UQ_NO_FAULTS);
	/* long enough for the admin commands that are answered */
	ASSERT_EQ(0, uq_ctrl_set(self->node.ns.ctrl, "admin_timeout", "5000"));
	ASSERT_EQ(0, set_admin_fault(self, "silent", ADMIN_DELETE_SQ, 2));
	EXPECT_EQ(0, uq_reset(self->node.ns.ctrl));
	EXPECT_EQ(0, fault_left(self, "silent"));
}

/*
 * If the device fails to create a queue, this queue and the following ones of
 * its kind do not exist. The other queues and the block device still work.
 */
TEST_F(timeout, queues_that_are_refused)
{
	static const int opcodes[] = { ADMIN_CREATE_CQ, ADMIN_CREATE_SQ };
	unsigned char *block = self->buf + 4096;
	struct uq_ns *ns = &self->node.ns;
	unsigned int i, n;

	if (!can_pretend(self))
		SKIP(return, UQ_NO_FAULTS);
	/*
	 * interrupt queues are created first; in the second round both kinds
	 * fail
	 */
	for (i = 0; i < ARRAY_SIZE(opcodes); i++) {
		for (n = 1; n <= 2; n++) {
			bool there = n < 2 && variant->poll;

			ASSERT_EQ(0, set_admin_fault(self, "refuse",
						     opcodes[i], n));
			EXPECT_EQ(0, uq_reset(ns->ctrl));
			EXPECT_EQ(0, fault_left(self, "refuse"));
			prep(self, 0, 0);
			EXPECT_EQ(there ? 0 : -ESHUTDOWN,
				  uq_run(&self->ring));
			EXPECT_EQ(4096, pread(self->block, block, 4096, 0));
			EXPECT_TRUE(uq_wait_nodes(ns, 0, n < 2 ? 2 : 0));
		}
		EXPECT_EQ(0, uq_reset(ns->ctrl));
		EXPECT_TRUE(uq_wait_nodes(ns, 2, 2));
		prep(self, 0, 0);
		EXPECT_EQ(0, uq_run(&self->ring));
	}
}

/*
 * A controller that does not answer at all when it starts is disabled. The
 * driver does the same for queues of the block layer. Commands do not wait.
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
	wait_fault(self, "lose");
	ASSERT_EQ(0, set_admin_fault(self, "silent", ADMIN_CREATE_CQ, 1));
	EXPECT_GT(0, uq_reset(self->node.ns.ctrl));
	/* the controller is dead, but its namespaces exist until unbind */
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

/* Unbinding the driver does not wait for lost commands. */
TEST_F(timeout, unbound_while_lost)
{
	char id[32];

	if (!can_pretend(self))
		SKIP(return, UQ_NO_FAULTS);
	ASSERT_EQ(0, uq_pci_of(&self->node.ns, id, sizeof(id)));
	ASSERT_EQ(0, set_fault(self, "lose", 1));
	prep(self, 0, FOR_EVER);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	wait_fault(self, "lose");
	EXPECT_EQ(0, uq_write_line(UNBIND, id));
	/* the lost command ends, too */
	EXPECT_EQ(-EINTR, uq_reap(&self->ring, NULL));
	let_go(self);
	bind_again(_metadata, self, id);
}

/*
 * Injected faults end when the driver is unbound, both faults to come and
 * delayed completions. The debugfs files are removed before the device is
 * unbound, even if a task has one of them open.
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

/* A freeze waits for a lost command until the timeout of the command. */
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
	/* the format may fail because of the reset, like any admin command */
	EXPECT_TRUE(!ret || (ret & PATH_ERRORS) == PATH_ERRORS)
		TH_LOG("%d", ret);
	EXPECT_TRUE(ended(uq_reap(&self->ring, NULL)));
	EXPECT_EQ(0, fault_left(self, "lose"));
	EXPECT_EQ(self->before.timeouts + 2, uq_attr(node, "timeouts"));
	/* the queue is no longer frozen */
	prep(self, 0, 0);
	EXPECT_EQ(0, uq_run(&self->ring));
	EXPECT_EQ(0, uq_reset(self->node.ns.ctrl));
	EXPECT_EQ(0, format(&self->node.ns));
}

/* A timeout in milliseconds, longer than the test needs. */
#define A_WHILE	15000

static void *run_format(void *arg)
{
	return (void *)(intptr_t)format(arg);
}

/*
 * The format waits for the lost command and holds locks that unbind needs. The
 * timeout of the command ends it for both, although the controller is being
 * deleted and cannot be reset.
 */
TEST_F(timeout, frozen_and_unbound_while_lost)
{
	const char *node = self->node.name;
	char id[32];
	pthread_t formatter;
	int ret;

	if (!can_pretend(self))
		SKIP(return, UQ_NO_FAULTS);
	/* check that the device can format, before a command is lost */
	ret = format(&self->node.ns);
	if (ret > 0 && STATUS(ret) == INVALID_OPCODE)
		SKIP(return, "%s cannot format", self->node.ctrl);
	ASSERT_EQ(0, ret);
	ASSERT_EQ(0, uq_pci_of(&self->node.ns, id, sizeof(id)));
	ASSERT_EQ(0, set_fault(self, "lose", 1));
	prep(self, 0, A_WHILE);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	/* the debugfs files vanish with the controller */
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

int main(int argc, char **argv)
{
	return uq_main(argc, argv);
}
