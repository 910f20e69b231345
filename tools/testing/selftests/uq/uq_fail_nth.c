// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: fail each allocation, and each copy from or to user space,
 * once. The operation either succeeds or returns a documented errno. The queue
 * works afterwards.
 *
 * /proc/thread-self/fail-nth fails the n'th such point in this task. The tests
 * try the first points and a random selection of the others, and then all
 * points below the functions of user queues. uq_fail_work.c covers kernel
 * workers. Each sweep must reach a point, and most sweeps must make an
 * operation fail. Requires the fault injection options of the file config. Best
 * run with panic_on_warn.
 */
#define _GNU_SOURCE
#define UQ_DISRUPTIVE	true
#include <linux/nvme_uq.h>

#include "uq_nth_fixture.h"

UQ_LEAVE_OUT("nth.*_no_sgl.open_and_close", "not about data");
UQ_LEAVE_OUT("nth.*_no_sgl.ring_teardown", "not about data");
UQ_LEAVE_OUT("nth.*_no_sgl.claim_map_and_limit", "not about data");
UQ_LEAVE_OUT("nth.*_no_sgl.parameters_and_attributes", "not about data");

/* -- opening and closing */

static int op_open(FIXTURE_DATA(nth) *self)
{
	self->file = open(self->node.path, O_RDWR);
	return self->file < 0 ? -errno : 0;
}

static void close_file(FIXTURE_DATA(nth) *self)
{
	if (self->file >= 0)
		close(self->file);
	self->file = -1;
}

static int before_close(FIXTURE_DATA(nth) *self)
{
	return op_open(self);
}

static int op_close(FIXTURE_DATA(nth) *self)
{
	int ret = close(self->file) ? -errno : 0;

	self->file = -1;
	return ret;
}

TEST_F(nth, open_and_close)
{
	const struct sweep open_it = { "open", NULL, op_open, close_file,
					REACHED | SOME | OURS };
	const struct sweep close_it = { "close", before_close, op_close, NULL,
					 0 };

	sweep(_metadata, self, &open_it);
	sweep(_metadata, self, &close_it);
}

/* -- commands: the first of its kind in a new ring */

static int op_plain(FIXTURE_DATA(nth) *self)
{
	prep(self, 0, 4096);
	return run_failing(self, 1);
}

static int op_pieces(FIXTURE_DATA(nth) *self)
{
	prep(self, 512, 65536);
	return run_failing(self, 1);
}

static int op_most_pieces(FIXTURE_DATA(nth) *self)
{
	__u32 max = self->node.ns.max < AREA / 2 ? self->node.ns.max :
		AREA / 2;

	prep(self, 512, max);
	return run_failing(self, 1);
}

static int op_fixed(FIXTURE_DATA(nth) *self)
{
	uq_sqe(prep(self, 0, 4096))->uring_cmd_flags = IORING_URING_CMD_FIXED;
	return run_failing(self, 1);
}

static int op_fixed_pieces(FIXTURE_DATA(nth) *self)
{
	uq_sqe(prep(self, 512, 65536))->uring_cmd_flags =
		IORING_URING_CMD_FIXED;
	return run_failing(self, 1);
}

static struct nvme_uring_cmd *prep_vec(FIXTURE_DATA(nth) *self)
{
	unsigned int n = ARRAY_SIZE(vec);
	struct nvme_uring_cmd *c;

	if (n * 4096 > self->node.ns.max)
		n = self->node.ns.max / 4096;
	c = prep(self, 0, n * 4096);
	c->addr = (uintptr_t)vec;
	c->data_len = n;
	uq_sqe(c)->cmd_op = NVME_URING_CMD_IO_VEC;
	return c;
}

static int op_vec(FIXTURE_DATA(nth) *self)
{
	prep_vec(self);
	return run_failing(self, 1);
}

static int op_fixed_vec(FIXTURE_DATA(nth) *self)
{
	uq_sqe(prep_vec(self))->uring_cmd_flags = IORING_URING_CMD_FIXED;
	return run_failing(self, 1);
}

static int op_write(FIXTURE_DATA(nth) *self)
{
	prep(self, 512, 65536)->opcode = CMD_WRITE;
	return run_failing(self, 1);
}

static int op_batch(FIXTURE_DATA(nth) *self)
{
	unsigned int i;

	for (i = 0; i < 4; i++)
		prep(self, i * 8192, 4096);
	return run_failing(self, 4);
}

static int op_async(FIXTURE_DATA(nth) *self)
{
	uq_sqe(prep(self, 0, 4096))->flags |= IOSQE_ASYNC;
	return run_failing(self, 1);
}

/*
 * A command needs memory for the copy of its SQE only if a worker submits it.
 * User queues allocate a list if the data has several segments. They allocate
 * nothing for one page. If an IOMMU fails to allocate, a worker submits the
 * command again. So a command with one page does not fail for lack of memory.
 */
TEST_F(nth, first_command)
{
	/* without an IOMMU, kvmalloc() has a second way for all it allocates */
	const unsigned int most = uq_has_iommu(self->node.ns.ctrl) ?
		REACHED | SOME | OURS : REACHED;
	const struct sweep kinds[] = {
		{ "a page", before_cmd, op_plain, after_cmd,
		  REACHED | NONE },
		{ "several pieces", before_cmd, op_pieces, after_cmd,
		  REACHED | SOME | OURS },
		{ "the most pieces", before_cmd, op_most_pieces, after_cmd, most },
		{ "a registered page", before_cmd, op_fixed, after_cmd,
		  REACHED | NONE },
		{ "registered pieces", before_cmd, op_fixed_pieces, after_cmd,
		  REACHED | SOME | OURS },
		{ "a vector", before_cmd, op_vec, after_cmd,
		  REACHED | SOME | OURS },
		{ "a registered vector", before_cmd, op_fixed_vec, after_cmd,
		  REACHED | SOME | OURS },
		{ "a write", before_cmd, op_write, after_cmd,
		  REACHED | SOME | OURS },
		{ "a batch", before_cmd, op_batch, after_cmd,
		  REACHED | NONE },
		{ "by a worker", before_cmd, op_async, after_cmd,
		  REACHED | SOME },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		sweep(_metadata, self, &kinds[i]);
}

static int op_meta(FIXTURE_DATA(nth) *self)
{
	const struct uq_ns *ns = &self->node.ns;
	struct nvme_uring_cmd *c;

	c = uq_prep_raw(&self->ring, self->fd, self->node.nsid, CMD_READ, 0,
			self->buf, 4 * ns->lba, 4);
	c->metadata = (uintptr_t)self->buf + 65536 + 4096 - 8;
	c->metadata_len = 4 * ns->ms;
	return run_failing(self, 1);
}

static int op_fixed_meta(FIXTURE_DATA(nth) *self)
{
	const struct uq_ns *ns = &self->node.ns;
	struct nvme_uring_cmd *c;

	c = uq_prep_raw(&self->ring, self->fd, self->node.nsid, CMD_WRITE, 0,
			self->buf, 4 * ns->lba, 4);
	c->metadata = (uintptr_t)self->buf + 65536 + 4096 - 8;
	c->metadata_len = 4 * ns->ms;
	uq_sqe(c)->uring_cmd_flags = IORING_URING_CMD_FIXED;
	return run_failing(self, 1);
}

/*
 * Like sweep_points(), but without reads of 4096 bytes after each point, as
 * this namespace has metadata.
 */
static void sweep_meta(struct __test_metadata *_metadata,
		       FIXTURE_DATA(nth) *self, const struct sweep *s,
		       unsigned int step, struct tally *t)
{
	bool reached = true;
	unsigned int n;
	int ret;

	for (n = 1; reached; n = next_point(self, n, step)) {
		ASSERT_EQ(0, s->before(self));
		set_nth(self->nth, n);
		ret = s->op(self);
		reached = end_nth(self->nth);
		EXPECT_TRUE(is_ok(ret) || (self->no_sgl && ret > 0))
			TH_LOG("%s, point %u: %d", s->name, n, ret);
		s->after(self);
		t->points += reached;
		t->failed += ret < 0;
		if (ret < 0 && !t->first)
			t->first = n;
	}
	TH_LOG("%s, %s: %u points, %u answers of failure, the first of them at point %u",
	       s->name, t->whose, t->points, t->failed, t->first);
	EXPECT_LT(0, t->points) TH_LOG(NO_POINT, s->name, t->whose);
	EXPECT_LT(0, t->failed) TH_LOG(NO_FAILURE, s->name, t->whose);
	/* once more without failures */
	ASSERT_EQ(0, s->before(self));
	EXPECT_EQ(0, s->op(self));
	s->after(self);
}

TEST_F(nth, metadata)
{
	const struct sweep meta[] = {
		{ "metadata", before_cmd, op_meta, after_cmd, 0 },
		{ "metadata of a registered page", before_cmd, op_fixed_meta,
		  after_cmd, 0 },
	};
	struct uq_node other, first = self->node;
	struct uq_ns ns;
	unsigned int i;

	if (!uq_ns_find(&ns, uq_separate_metadata))
		SKIP(return, "no such metadata (or CONFIG_BLK_DEV_INTEGRITY)");
	ASSERT_EQ(0, uq_bring_up(&ns, 2, 2));
	ASSERT_TRUE(uq_wait_nodes(&ns, 2, 2));
	ASSERT_TRUE(uq_node_nth(&other, &ns, variant->poll, 0));
	self->node = other;
	for (i = 0; i < ARRAY_SIZE(meta); i++) {
		struct tally all = { .whose = "all points" };
		struct tally ours = { .whose = "user queues' own" };

		ASSERT_TRUE(nth_filter_leaks());
		sweep_meta(_metadata, self, &meta[i], self->step, &all);
		ASSERT_TRUE(nth_filter_ours());
		sweep_meta(_metadata, self, &meta[i], 1, &ours);
		ASSERT_TRUE(nth_filter_nothing());
	}
	EXPECT_TRUE(uq_wait_idle(other.name));
	EXPECT_EQ(uq_attr(other.name, "submitted"),
		  uq_attr(other.name, "completed"));
	self->node = first;
}

/* -- the end of a ring, with commands in flight */

static int before_teardown(FIXTURE_DATA(nth) *self)
{
	unsigned int i;
	int ret = open_ring(self);

	for (i = 0; i < 8 && !ret; i++)
		prep(self, i * 65536 + 512, 65536);
	return ret ?: io_uring_submit(&self->ring) == 8 ? 0 : -EPROTO;
}

static int op_teardown(FIXTURE_DATA(nth) *self)
{
	close_ring(self);
	return 0;
}

TEST_F(nth, ring_teardown)
{
	const struct sweep teardown = {
		"teardown", before_teardown, op_teardown, NULL, REACHED
	};

	sweep(_metadata, self, &teardown);
}

/* -- claims, mappings and limits */

static int op_claim(FIXTURE_DATA(nth) *self)
{
	return ioctl(self->file, NVME_UQ_IOCTL_CLAIM) ? -errno : 0;
}

static int before_map(FIXTURE_DATA(nth) *self)
{
	return op_open(self) ?: op_claim(self);
}

/* Page faults that fail for lack of memory are retried. */
static int map_one(FIXTURE_DATA(nth) *self, size_t len, off_t off)
{
	unsigned char *p = mmap(NULL, len, PROT_READ, MAP_SHARED, self->file,
				off);
	size_t i;

	if (p == MAP_FAILED)
		return -errno;
	for (i = 0; i < len; i += 4096)
		__atomic_load_n(p + i, __ATOMIC_RELAXED);
	return munmap(p, len) ? -errno : 0;
}

static int op_map(FIXTURE_DATA(nth) *self)
{
	return map_one(self, 4096, NVME_UQ_OFF_INFO) ?:
		map_one(self, 16384, NVME_UQ_OFF_CQ);
}

static int op_limits(FIXTURE_DATA(nth) *self)
{
	struct nvme_uq_limit l = { .scope = NVME_UQ_LIMIT_FILE };
	unsigned int i;

	for (i = 0; i < 4; i++) {
		l.scope = i % 2 ? NVME_UQ_LIMIT_QUEUE : NVME_UQ_LIMIT_FILE;
		l.limit = i < 2 ? 1 : self->node.depth;
		if (ioctl(self->file, NVME_UQ_IOCTL_SET_LIMIT, &l) ||
		    ioctl(self->file, NVME_UQ_IOCTL_GET_LIMIT, &l))
			return -errno;
	}
	return 0;
}

static void after_limits(FIXTURE_DATA(nth) *self)
{
	op_limits(self);
	close_file(self);
}

static int op_limit_attrs(FIXTURE_DATA(nth) *self)
{
	static const char * const names[] = { "limit", "file_limit" };
	unsigned int i;
	char val[16];
	int ret = 0;

	for (i = 0; i < 4 && !ret; i++) {
		snprintf(val, sizeof(val), "%u", i < 2 ? 1 : self->node.depth);
		ret = uq_attr_write(self->node.name, names[i % 2], val);
	}
	return ret;
}

static void after_limit_attrs(FIXTURE_DATA(nth) *self)
{
	op_limit_attrs(self);
}

TEST_F(nth, claim_map_and_limit)
{
	const struct sweep kinds[] = {
		{ "claim", op_open, op_claim, close_file,
		  REACHED | SOME | OURS },
		{ "claiming again", before_map, op_claim, close_file, NONE },
		{ "mapping", before_map, op_map, close_file, REACHED | SOME },
		{ "limits", op_open, op_limits, after_limits,
		  REACHED | SOME | OURS },
		{ "limits in sysfs", NULL, op_limit_attrs, after_limit_attrs,
		  REACHED | SOME },
	};
	unsigned int i, step = self->step;

	if (before_map(self) == -EOPNOTSUPP)
		SKIP(return, "completion queues cannot be mapped here");
	close_file(self);
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		/* few points; one fails the claim or a page fault */
		self->step = i < 3 ? 1 : step;
		sweep(_metadata, self, &kinds[i]);
	}
}

/* -- memory of an open file */

static int op_alloc(FIXTURE_DATA(nth) *self)
{
	struct nvme_uq_memory memory = { .size = 5 * 4096 };

	return ioctl(self->file, NVME_UQ_IOCTL_ALLOC_MEMORY, &memory) ? -errno :
		0;
}

static int before_map_memory(FIXTURE_DATA(nth) *self)
{
	return op_open(self) ?: op_alloc(self);
}

static int op_map_memory(FIXTURE_DATA(nth) *self)
{
	return map_one(self, 5 * 4096, NVME_UQ_OFF_MEMORY);
}

TEST_F(nth, memory)
{
	const struct sweep kinds[] = {
		{ "memory", op_open, op_alloc, close_file,
		  REACHED | SOME | OURS },
		{ "mapping of memory", before_map_memory, op_map_memory,
		  close_file, REACHED | SOME },
	};
	unsigned int i;

	if (before_map_memory(self) == -EOPNOTSUPP)
		SKIP(return, "no memory for open files on this machine");
	close_file(self);
	self->step = 1;
	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		sweep(_metadata, self, &kinds[i]);
}

/* -- parameters and attributes */

static int op_param(FIXTURE_DATA(nth) *self)
{
	return uq_param_set(self->node.poll ? "user_poll_queues" :
			    "user_irq_queues", "2");
}

static int op_depth(FIXTURE_DATA(nth) *self)
{
	(void)self;
	return uq_param_set("io_queue_depth", "1024");
}

static int op_attrs(FIXTURE_DATA(nth) *self)
{
	static const char * const names[] = {
		"type", "state", "in_flight", "submitted", "limit"
	};
	char path[128], line[64];
	unsigned int i;
	int fd;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path),
			 "/sys/class/nvme-generic/%s/user_queue/%s",
			 self->node.name, names[i]);
		fd = open(path, O_RDONLY);
		if (fd < 0 && errno != ENOENT)
			return -errno;
		if (fd < 0)
			continue;
		if (read(fd, line, sizeof(line)) < 0) {
			int ret = -errno;

			close(fd);
			return ret;
		}
		close(fd);
	}
	return 0;
}

TEST_F(nth, parameters_and_attributes)
{
	const struct sweep kinds[] = {
		{ "parameter", NULL, op_param, NULL, REACHED | SOME },
		{ "depth", NULL, op_depth, NULL, REACHED | SOME },
		{ "attributes", NULL, op_attrs, NULL, REACHED | SOME },
	};
	unsigned int i;

	ASSERT_EQ(0, uq_read_line("/sys/module/nvme/parameters/io_queue_depth",
				  self->depth, sizeof(self->depth)));
	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		sweep(_metadata, self, &kinds[i]);
	EXPECT_EQ(0, uq_param_set("io_queue_depth", self->depth));
}

int main(int argc, char **argv)
{
	nth_read_symbols();
	return uq_main(argc, argv);
}
