/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests of outages share: one user queue with tenants, and a module by
 * which to make things happen to its device that no emulated one does.
 */
#ifndef SELFTESTS_UQ_OUTAGE_H
#define SELFTESTS_UQ_OUTAGE_H

#include <limits.h>
#include <sys/syscall.h>

#include "uq_fixture.h"
#include "uq_load.h"

#define MODULE		"test_modules/uq_test_outage.ko"
#define PARAMETERS	"/sys/module/uq_test_outage/parameters"
#define EVENT		PARAMETERS "/event"

FIXTURE(outage)
{
	struct uq_node node;
	char pci[512];
	long long spurious;	/* before; other tests make some on purpose */
	unsigned char *buf;
	struct load l[2];
	pthread_t t[2];
	int config;
};

FIXTURE_VARIANT(outage)
{
	bool poll;
	bool slow;	/* so that commands are in flight for sure */
};

/* clang-format off */
FIXTURE_VARIANT_ADD(outage, irq) { .poll = false };
FIXTURE_VARIANT_ADD(outage, poll) { .poll = true };
FIXTURE_VARIANT_ADD(outage, irq_slow) { .poll = false, .slow = true };
FIXTURE_VARIANT_ADD(outage, poll_slow) { .poll = true, .slow = true };
/* clang-format on */

FIXTURE_SETUP(outage)
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
	self->spurious = uq_attr(self->node.name, "spurious");
	self->buf = uq_alloc(65536);
	ASSERT_NE(NULL, self->buf);
	ASSERT_EQ(0, uq_pci_path(&ns, self->pci));
	snprintf(path, sizeof(path), "%s/config", self->pci);
	self->config = open(path, O_RDWR | O_SYNC);
	ASSERT_LE(0, self->config);
}

FIXTURE_TEARDOWN(outage)
{
	if (self->config >= 0)
		close(self->config);
}

static void start_load(struct __test_metadata *_metadata,
		       FIXTURE_DATA(outage) *self, unsigned int timeout_ms)
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		self->l[i] = (struct load){
			.node		= &self->node,
			.timeout_ms	= timeout_ms,
		};
		ASSERT_EQ(0, pthread_create(&self->t[i], NULL, run_load,
					    &self->l[i]));
	}
}

/* Once the tenants have nothing in flight. How many were interrupted? */
static unsigned long end_load(struct __test_metadata *_metadata,
			      FIXTURE_DATA(outage) *self)
{
	unsigned long interrupted = 0;
	unsigned int i;

	self->l[0].stop = true;
	self->l[1].stop = true;
	for (i = 0; i < 2; i++) {
		struct load *l = &self->l[i];

		ASSERT_EQ(0, pthread_join(self->t[i], NULL));
		TH_LOG("%lu sent, %lu interrupted, %lu with a status", l->sent,
		       l->interrupted, l->status);
		EXPECT_EQ(0, l->bad) TH_LOG("result %d", l->first_bad);
		EXPECT_EQ(l->sent, l->done);
		interrupted += l->interrupted;
	}
	return interrupted;
}

/* While there is load: until something is in flight. */
static void wait_busy(FIXTURE_DATA(outage) *self)
{
	while (uq_attr(self->node.name, "in_flight") <= 0 &&
	       !self->l[0].bad && !self->l[1].bad)
		sched_yield();
}

static void expect_idle(struct __test_metadata *_metadata,
			FIXTURE_DATA(outage) *self)
{
	EXPECT_TRUE(uq_wait_idle(self->node.name));
	EXPECT_EQ(uq_attr(self->node.name, "submitted"),
		  uq_attr(self->node.name, "completed"));
	EXPECT_EQ(self->spurious, uq_attr(self->node.name, "spurious"));
	EXPECT_EQ(0, uq_attr(self->node.name, "waiting"));
}

/* One read through a node that is opened for it. */
static int read_once(FIXTURE_DATA(outage) *self, __u32 len,
		     unsigned int timeout_ms)
{
	int fd = open(self->node.path, O_RDONLY), ret;
	struct io_uring ring;

	if (fd < 0)
		return -errno;
	ret = uq_ring(&ring, 4, self->node.poll ? IORING_SETUP_IOPOLL : 0);
	if (!ret) {
		uq_prep_raw(&ring, fd, self->node.nsid, CMD_READ, 0, self->buf,
			    len, 1)->timeout_ms = timeout_ms;
		ret = uq_run(&ring);
		io_uring_queue_exit(&ring);
	}
	close(fd);
	return ret;
}

/* -- the module */

static bool have_module(void)
{
	int fd;

	if (!access(EVENT, W_OK))
		return true;
	fd = open(MODULE, O_RDONLY);
	if (fd < 0)
		return false;
	syscall(SYS_finit_module, fd, "", 0);
	close(fd);
	return !access(EVENT, W_OK);
}

#define NO_MODULE	"no " MODULE

static int event(FIXTURE_DATA(outage) *self, const char *what)
{
	char line[64];

	snprintf(line, sizeof(line), "%s %s", what, strrchr(self->pci, '/') + 1);
	return uq_write_line(EVENT, line);
}

static inline int outage_main(int argc, char **argv)
{
	int ret = uq_main(argc, argv);

	syscall(SYS_delete_module, "uq_test_outage", O_NONBLOCK);
	return ret;
}

/* -- tenants that do not look at their completions */

struct silent {
	struct io_uring ring;
	int fd;
};

static void start_silent(struct __test_metadata *_metadata,
			 FIXTURE_DATA(outage) *self, struct silent *s)
{
	unsigned int i;

	s->fd = open(self->node.path, O_RDONLY);
	ASSERT_LE(0, s->fd);
	ASSERT_EQ(0, uq_ring(&s->ring, 16, self->node.poll ?
			     IORING_SETUP_IOPOLL : 0));
	for (i = 0; i < 16; i++)
		uq_prep(&s->ring, s->fd, self->node.nsid, CMD_READ, i,
			self->buf + i * 4096, 512);
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

#endif /* SELFTESTS_UQ_OUTAGE_H */
