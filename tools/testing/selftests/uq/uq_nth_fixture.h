/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fixture for tests that repeat an operation, with a failure at another point
 * each time.
 */
#ifndef SELFTESTS_UQ_NTH_FIXTURE_H
#define SELFTESTS_UQ_NTH_FIXTURE_H

#include <limits.h>

#include "uq_fixture.h"
#include "uq_inject.h"
#include "uq_nth.h"
#include "uq_random.h"

#define AREA	1048576
/* After the first points, try one of at most STEP points. */
#define FIRST	8
#define STEP	6
/* No operation reaches so many points. */
#define LIMIT	20000

FIXTURE(nth)
{
	struct uq_node node;
	char pci[64];
	char depth[16];
	struct io_uring ring;
	int nth;
	int fd;
	int file;		/* used by some tests */
	unsigned char *buf;
	struct uq_peace peace;
	bool has_ring, has_buffers;
	bool no_sgl;
	unsigned int step;
	struct uq_rng rng;
};

FIXTURE_VARIANT(nth)
{
	bool poll;
	bool no_sgl;
};

/* clang-format off */
FIXTURE_VARIANT_ADD(nth, irq) { .poll = false };
FIXTURE_VARIANT_ADD(nth, poll) { .poll = true };
FIXTURE_VARIANT_ADD(nth, irq_no_sgl) { .poll = false, .no_sgl = true };
FIXTURE_VARIANT_ADD(nth, poll_no_sgl) { .poll = true, .no_sgl = true };
/* clang-format on */

FIXTURE_SETUP(nth)
{
	struct uq_ns ns;

	if (nth_lacks())
		SKIP(return, "not all can fail (%s)", nth_lacks());
	self->nth = open("/proc/thread-self/fail-nth", O_RDWR);
	ASSERT_LE(0, self->nth);
	ASSERT_TRUE(nth_set_knobs());
	ASSERT_TRUE(uq_ns_nth(&ns, 0));
	if (variant->no_sgl && uq_fault_no_sgl(&ns, true))
		SKIP(return, UQ_NO_FAULTS);
	if (ns.lba != 512 || ns.ms)
		SKIP(return, "%s has blocks of %u bytes, with %u of metadata",
		     ns.block, ns.lba, ns.ms);
	ASSERT_EQ(0, uq_bring_up(&ns, 2, 2));
	ASSERT_TRUE(uq_wait_nodes(&ns, 2, 2));
	ASSERT_TRUE(uq_node_nth(&self->node, &ns, variant->poll, 0));
	ASSERT_EQ(0, uq_allow_claims(self->node.name, true));
	ASSERT_EQ(0, uq_pci_of(&ns, self->pci, sizeof(self->pci)));
	uq_peace_begin(&self->peace, uq_scale() > 1);
	self->buf = uq_alloc(AREA);
	ASSERT_NE(NULL, self->buf);
	/* separate pages that are present */
	madvise(self->buf, AREA, MADV_NOHUGEPAGE);
	memset(self->buf, 1, AREA);
	self->fd = -1;
	self->file = -1;
	self->no_sgl = variant->no_sgl;
	uq_rng_init(&self->rng, uq_seed(), 0);
	self->step = uq_scale() > 1 ? 1 : STEP;
}

FIXTURE_TEARDOWN(nth)
{
	set_nth(self->nth, 0);
	nth_disarm_all();
	nth_restore_knobs();
	nth_filter_nothing();
	if (self->depth[0])
		uq_param_set("io_queue_depth", self->depth);
	/* let the queues of other programs use SGLs again */
	if (variant->no_sgl && self->node.name[0]) {
		EXPECT_EQ(0, uq_fault_clear(self->node.ns.ctrl));
		EXPECT_EQ(0, uq_reset(self->node.ns.ctrl));
	}
	if (!self->buf)
		return;
	munmap(self->buf, AREA);
	EXPECT_TRUE(uq_peace_kept(&self->peace));
}

/* -- rings */

static inline unsigned int ring_flags(const struct uq_node *node)
{
	return node->poll ? IORING_SETUP_IOPOLL : 0;
}

static inline int open_ring(FIXTURE_DATA(nth) *self)
{
	struct iovec iov = { self->buf, AREA };
	int ret;

	self->fd = open(self->node.path, O_RDWR);
	if (self->fd < 0)
		return -errno;
	ret = uq_ring(&self->ring, 8, ring_flags(&self->node));
	if (ret)
		return ret;
	self->has_ring = true;
	return io_uring_register_buffers(&self->ring, &iov, 1);
}

static inline void close_ring(FIXTURE_DATA(nth) *self)
{
	if (self->has_ring)
		io_uring_queue_exit(&self->ring);
	if (self->fd >= 0)
		close(self->fd);
	self->has_ring = false;
	self->fd = -1;
}

/* Read through a newly opened node, while nothing fails. */
static inline int works(const struct uq_node *node, void *buf)
{
	int fd = open(node->path, O_RDONLY), ret;
	struct io_uring ring;

	if (fd < 0)
		return -errno;
	ret = uq_ring(&ring, 4, ring_flags(node));
	if (!ret) {
		uq_prep(&ring, fd, node->nsid, CMD_READ, 0, buf, 4096);
		ret = uq_run(&ring);
		io_uring_queue_exit(&ring);
	}
	close(fd);
	return ret;
}

/* Requirements of a sweep, each to be met at least once. */
#define REACHED	1	/* a point in any code, with any result */
#define SOME	2	/* a failure at one of the first points */
#define OURS	4	/* a failure at a point of user queues */
#define NONE	8	/* no failure at any point */

/* Results of a sweep. */
struct tally {
	const char *whose;
	unsigned int points, failed, first, missed;
};

#define NO_POINT	"%s, %s: no point was reached"
#define NO_FAILURE	"%s, %s: nothing failed"

/*
 * Repeat an operation. First one of its first points fails, then a later one,
 * and so on, until a round does not reach its point. Nothing fails in @before
 * and @after. @op returns an errno that is_ok() must accept.
 */
struct sweep {
	const char *name;
	int (*before)(FIXTURE_DATA(nth) *self);
	int (*op)(FIXTURE_DATA(nth) *self);
	void (*after)(FIXTURE_DATA(nth) *self);
	unsigned int fails;
};

static inline bool is_ok(int ret)
{
	switch (-ret) {
	case 0:
	case ENOMEM:		/* no memory */
	case EFAULT:		/* a copy from or to user space failed */
	case EAGAIN:		/* io_uring: no memory for request, worker */
	case ECANCELED:		/* io_uring: no worker for the request */
		return true;
	}
	return false;
}

/* The next point is at most @step points away. */
static inline unsigned int next_point(FIXTURE_DATA(nth) *self, unsigned int n,
				      unsigned int step)
{
	return n + 1 + (n < FIRST ? 0 : uq_below(&self->rng, step));
}

static inline void sweep_points(struct __test_metadata *_metadata,
				FIXTURE_DATA(nth) *self, const struct sweep *s,
				unsigned int step, struct tally *t)
{
	bool reached = true;
	unsigned int n;
	int ret;

	for (n = 1; reached; n = next_point(self, n, step)) {
		ASSERT_GT(LIMIT, n);
		if (s->before)
			ASSERT_EQ(0, s->before(self)) TH_LOG("%s", s->name);
		set_nth(self->nth, n);
		ret = s->op(self);
		reached = end_nth(self->nth);
		EXPECT_TRUE(is_ok(ret)) TH_LOG("%s, point %u: %d", s->name, n,
					       ret);
		if (!reached)
			EXPECT_EQ(0, ret) TH_LOG("%s", s->name);
		t->points += reached;
		t->failed += ret != 0;
		if (ret && !t->first)
			t->first = n;
		if (s->after)
			s->after(self);
		ASSERT_EQ(0, works(&self->node, self->buf))
			TH_LOG("%s, point %u", s->name, n);
	}
	TH_LOG("%s, %s: %u points, %u answers of failure, the first of them at point %u",
	       s->name, t->whose, t->points, t->failed, t->first);
}

static inline void sweep(struct __test_metadata *_metadata,
			 FIXTURE_DATA(nth) *self, const struct sweep *s)
{
	struct tally all = { .whose = "all points" };
	struct tally ours = { .whose = "user queues' own" };

	ASSERT_TRUE(nth_filter_leaks());
	sweep_points(_metadata, self, s, self->step, &all);
	if (s->fails & REACHED)
		EXPECT_LT(0, all.points) TH_LOG(NO_POINT, s->name, all.whose);
	if (s->fails & NONE)
		EXPECT_EQ(0, all.failed) TH_LOG("%s", s->name);
	if (s->fails & SOME) {
		EXPECT_LT(0, all.first) TH_LOG(NO_FAILURE, s->name, all.whose);
		EXPECT_GE(FIRST, all.first)
			TH_LOG("%s: failed by chance only", s->name);
	}

	ASSERT_TRUE(nth_filter_ours());
	sweep_points(_metadata, self, s, 1, &ours);
	ASSERT_TRUE(nth_filter_nothing());
	if (s->fails & OURS) {
		EXPECT_LT(0, ours.points) TH_LOG(NO_POINT, s->name, ours.whose);
		EXPECT_LT(0, ours.failed)
			TH_LOG(NO_FAILURE, s->name, ours.whose);
	}
	EXPECT_TRUE(uq_wait_idle(self->node.name));
	EXPECT_EQ(uq_attr(self->node.name, "submitted"),
		  uq_attr(self->node.name, "completed"));
	EXPECT_EQ(0, uq_fill_slots(&self->node));
}

/* -- commands, each the first of its kind in a new ring */

static struct iovec vec[48];

static inline int before_cmd(FIXTURE_DATA(nth) *self)
{
	unsigned int i;

	/* separate pieces, more than the list of a tag has room for */
	for (i = 0; i < ARRAY_SIZE(vec); i++)
		vec[i] = (struct iovec){ self->buf + i * 8192, 4096 };
	return open_ring(self);
}

static inline void after_cmd(FIXTURE_DATA(nth) *self)
{
	close_ring(self);
}

/*
 * Submit and wait, while both may fail. Return an error if a request was not
 * submitted. Each submitted request completes.
 */
static inline int run_failing(FIXTURE_DATA(nth) *self, unsigned int n)
{
	struct io_uring_cqe *cqe;
	int ret, bad = 0;

	ret = io_uring_submit(&self->ring);
	if (ret <= 0)
		return ret ?: -EAGAIN;
	if (ret < (int)n)
		bad = -EAGAIN;
	for (n = ret; n; n--) {
		do {
			ret = io_uring_wait_cqe(&self->ring, &cqe);
		} while (ret < 0);
		if (cqe->res && !bad)
			bad = cqe->res;
		io_uring_cqe_seen(&self->ring, cqe);
	}
	return bad;
}

static inline struct nvme_uring_cmd *prep(FIXTURE_DATA(nth) *self, size_t at,
					  __u32 len)
{
	return uq_prep(&self->ring, self->fd, self->node.nsid, CMD_READ, 0,
		       self->buf + at, len);
}

#endif /* SELFTESTS_UQ_NTH_FIXTURE_H */
