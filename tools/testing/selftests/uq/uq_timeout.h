/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fixture for commands that the device loses, or that no task reaps.
 */
#ifndef SELFTESTS_UQ_TIMEOUT_H
#define SELFTESTS_UQ_TIMEOUT_H

#include "uq_fixture.h"
#include "uq_inject.h"

/* Longer than any test: another event ends the command. */
#define FOR_EVER	7200000
/* Status code of a command that the device does not know. */
#define INVALID_OPCODE	1
/* Status of a command that met a reset. */
#define PATH_ERRORS	0x300

/* Admin commands. */
#define ADMIN_DELETE_SQ	0x00
#define ADMIN_CREATE_SQ	0x01
#define ADMIN_DELETE_CQ	0x04
#define ADMIN_CREATE_CQ	0x05
#define ADMIN_ABORT	0x08
#define ADMIN_FORMAT	0x80

/* Counters of a queue. */
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

static inline struct counts counts(const char *node)
{
	return (struct counts){
		.submitted	= uq_attr(node, "submitted"),
		.spurious	= uq_attr(node, "spurious"),
		.timeouts	= uq_attr(node, "timeouts"),
		.cancelled	= uq_attr(node, "cancelled"),
	};
}

static inline int new_ring(struct io_uring *ring, bool poll)
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

/* Check that all commands have ended, and that a new one completes. */
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

static inline bool can_pretend(const FIXTURE_DATA(timeout) *self)
{
	return uq_can_fault(self->node.ns.ctrl);
}

static inline int set_fault(const FIXTURE_DATA(timeout) *self, const char *what,
			    unsigned int n)
{
	return uq_fault_set(self->node.ns.ctrl, what, n);
}

static inline long long fault_left(const FIXTURE_DATA(timeout) *self,
				   const char *what)
{
	return uq_fault_left(self->node.ns.ctrl, what);
}

/* The next @n admin commands with @opcode are not answered, or are refused. */
static inline int set_admin_fault(const FIXTURE_DATA(timeout) *self,
				  const char *what, unsigned int opcode,
				  unsigned int n)
{
	return uq_fault_admin(self->node.ns.ctrl, what, opcode, n);
}

static inline struct nvme_uring_cmd *prep(FIXTURE_DATA(timeout) *self,
					  unsigned int i, __u32 timeout)
{
	struct nvme_uring_cmd *c;

	c = uq_prep(&self->ring, self->fd, self->node.nsid, CMD_READ, i,
		    self->buf + i * 4096, 512);
	c->timeout_ms = timeout;
	return c;
}

/* Return true if a reset or an abort has ended a command. */
static inline bool ended(int res)
{
	return res == -EINTR || res > 0;
}

static inline void let_go(FIXTURE_DATA(timeout) *self)
{
	io_uring_queue_exit(&self->ring);
	close(self->fd);
	close(self->block);
	self->fd = -1;
}

/* Bind the driver. The name is the same if no file of the old node is open. */
static inline void bind_again(struct __test_metadata *_metadata,
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

/* Format the namespace with its current format. This freezes the controller. */
static inline int format(const struct uq_ns *ns)
{
	static unsigned char id[4096];
	struct nvme_passthru_cmd cmd = {
		.opcode	= ADMIN_FORMAT,
		.nsid	= ns->nsid,
	};
	int ret = uq_identify(ns->ctrl, ns->nsid, id);

	cmd.cdw10 = (id[26] & 0x1f) | (id[26] & 0x60) << 7 |
		(id[29] & 0xf) << 5;
	return ret ?: uq_admin(ns->ctrl, &cmd);
}

#endif /* SELFTESTS_UQ_TIMEOUT_H */
