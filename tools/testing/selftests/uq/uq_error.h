/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests of outages share: one user queue with tenants, and a module by
 * which to make things happen to its device that no emulated one does.
 */
#ifndef SELFTESTS_UQ_ERROR_H
#define SELFTESTS_UQ_ERROR_H

#include <limits.h>
#include <sys/syscall.h>

#define UQ_DISRUPTIVE	true
#include "uq_tenants.h"

#define PARAMETERS	UQ_TESTMOD
#define EVENT		PARAMETERS "/event"

FIXTURE(error)
{
	struct uq_node node;
	struct tenants tenants;
	char pci[512];
	int config;
};

FIXTURE_VARIANT(error)
{
	bool poll;
	bool slow;	/* so that commands are in flight for sure */
};

/* clang-format off */
FIXTURE_VARIANT_ADD(error, irq) { .poll = false };
FIXTURE_VARIANT_ADD(error, poll) { .poll = true };
FIXTURE_VARIANT_ADD(error, irq_slow) { .poll = false, .slow = true };
FIXTURE_VARIANT_ADD(error, poll_slow) { .poll = true, .slow = true };
/* clang-format on */

FIXTURE_SETUP(error)
{
	char path[PATH_MAX + 16];
	struct uq_ns ns;

	self->config = -1;
	if (variant->slow && !uq_ns_slow(&ns))
		SKIP(return, "UQ_TEST_SLOW_DEV names no NVMe namespace");
	ASSERT_TRUE(variant->slow || uq_ns_nth(&ns, 0));
	if (ns.lba != 512)
		SKIP(return, "%s has blocks of %u bytes", ns.block, ns.lba);
	/* a test before may have left others */
	if (uq_count_nodes(&ns, false) != 2 || uq_count_nodes(&ns, true) != 2)
		ASSERT_EQ(0, uq_bring_up(&ns, 2, 2));
	ASSERT_TRUE(uq_wait_nodes(&ns, 2, 2));
	ASSERT_TRUE(uq_node_nth(&self->node, &ns, variant->poll, 0));
	ASSERT_TRUE(get_tenants(&self->tenants, &self->node));
	ASSERT_EQ(0, uq_pci_path(&ns, self->pci));
	snprintf(path, sizeof(path), "%s/config", self->pci);
	self->config = open(path, O_RDWR | O_SYNC);
	ASSERT_LE(0, self->config);
}

FIXTURE_TEARDOWN(error)
{
	if (self->config >= 0)
		close(self->config);
}

/* -- the module */

static bool have_module(void)
{
	return uq_load_testmod("event");
}

#define NO_MODULE	"no " UQ_TESTMOD_FILE

static int event(FIXTURE_DATA(error) *self, const char *what)
{
	char line[64];

	snprintf(line, sizeof(line), "%s %s", what, strrchr(self->pci, '/') + 1);
	return uq_write_line(EVENT, line);
}

static inline int outage_main(int argc, char **argv)
{
	int ret = uq_main(argc, argv);

	uq_unload_testmod();
	return ret;
}

/* -- tenants that do not look at their completions */

struct silent {
	struct io_uring ring;
	int fd;
};

static void start_silent(struct __test_metadata *_metadata,
			 FIXTURE_DATA(error) *self, struct silent *s)
{
	unsigned int i;

	s->fd = open(self->node.path, O_RDONLY);
	ASSERT_LE(0, s->fd);
	ASSERT_EQ(0, uq_ring(&s->ring, 16, self->node.poll ?
			     IORING_SETUP_IOPOLL : 0));
	for (i = 0; i < 16; i++)
		uq_prep(&s->ring, s->fd, self->node.nsid, CMD_READ, i,
			self->tenants.buf + i * 4096, 512);
	ASSERT_EQ(16, io_uring_submit(&s->ring));
}

static void end_silent(struct __test_metadata *_metadata, struct silent *s)
{
	unsigned int i;

	for (i = 0; i < 16; i++)
		EXPECT_EQ(0, uq_reap(&s->ring, NULL));
	io_uring_queue_exit(&s->ring);
	close(s->fd);
}

#endif /* SELFTESTS_UQ_ERROR_H */
