// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: a stopped tenant that does not reap its completions.
 */
#define _GNU_SOURCE
#define UQ_DISRUPTIVE	true

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

int main(int argc, char **argv)
{
	return uq_main(argc, argv);
}
