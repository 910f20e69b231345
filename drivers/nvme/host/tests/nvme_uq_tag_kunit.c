// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of NVMe user queues: command ids.
 *
 * Command ids prevent a faulty device from completing the wrong command. Each
 * possible fault has a test case.
 */
#include <kunit/test.h>
#include <linux/kthread.h>
#include <linux/sched/task.h>
#include <linux/slab.h>

#include "../uq/tag.h"

static struct nvme_uq_tags *new_tags(struct kunit *test, unsigned int depth,
				     bool genctr)
{
	struct nvme_uq_tags *s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, s);
	KUNIT_ASSERT_EQ(test, 0, nvme_uq_tags_alloc(s, depth, genctr,
						    GFP_KERNEL));
	return s;
}

/* Take a tag and put it in flight. */
static u16 launch(struct nvme_uq_tags *s)
{
	return nvme_uq_tag_arm(s, nvme_uq_tag_get(s));
}

/* Complete @cid like a device. */
static int land(struct nvme_uq_tags *s, u16 cid)
{
	int idx = nvme_uq_tag_match(s, cid);

	if (idx >= 0)
		nvme_uq_tag_put(s, idx);
	return idx;
}

static const unsigned int depths[] = {
	2, 3, 4, 5, 31, 32, 33, 64, 1023, 1024, 1025, 2048, 4094, 4095, 4096
};

static void depth_desc(const unsigned int *depth, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "depth %u", *depth);
}

KUNIT_ARRAY_PARAM(depth, depths, depth_desc);

static void tags_never_exceed_depth(struct kunit *test)
{
	unsigned int depth = *(const unsigned int *)test->param_value;
	struct nvme_uq_tags *s = new_tags(test, depth, true);
	unsigned int n = 0;

	while (nvme_uq_tags_left(s) && n < depth) {
		launch(s);
		n++;
	}
	KUNIT_EXPECT_EQ(test, depth - 1, n);
	KUNIT_EXPECT_EQ(test, depth - 1, nvme_uq_tags_used(s));
	KUNIT_EXPECT_FALSE(test, nvme_uq_tags_left(s));
	nvme_uq_tags_free(s);
}

static void tags_ids_differ(struct kunit *test)
{
	unsigned int depth = *(const unsigned int *)test->param_value;
	struct nvme_uq_tags *s = new_tags(test, depth, true);
	unsigned long *seen = kunit_kzalloc(test, BITS_TO_LONGS(65536) *
					    sizeof(long), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, seen);
	while (nvme_uq_tags_left(s)) {
		u16 cid = launch(s);

		KUNIT_ASSERT_FALSE(test, test_bit(cid, seen));
		__set_bit(cid, seen);
	}
	nvme_uq_tags_free(s);
}

/* Check that the id for "no command" in the error log is never used. */
static void tags_never_all_ones(struct kunit *test)
{
	unsigned int depth = *(const unsigned int *)test->param_value;
	struct nvme_uq_tags *s = new_tags(test, depth, true);
	unsigned int i;

	for (i = 0; i < 65536 + depth; i++) {
		u16 cid = launch(s);

		KUNIT_ASSERT_NE(test, 0xffff, cid);
		KUNIT_ASSERT_GE(test, land(s, cid), 0);
	}
	nvme_uq_tags_free(s);
}

static void tags_oldest_first(struct kunit *test)
{
	struct nvme_uq_tags *s = new_tags(test, 8, true);
	u16 a = launch(s), b = launch(s), c = launch(s);
	unsigned int i;

	/* free tags: 3 4 5 6, then in order of completion */
	KUNIT_EXPECT_EQ(test, 1, land(s, b));
	KUNIT_EXPECT_EQ(test, 2, land(s, c));
	KUNIT_EXPECT_EQ(test, 0, land(s, a));
	for (i = 3; i < 7; i++)
		KUNIT_EXPECT_EQ(test, i, nvme_uq_tag_get(s));
	KUNIT_EXPECT_EQ(test, 1, nvme_uq_tag_get(s));
	KUNIT_EXPECT_EQ(test, 2, nvme_uq_tag_get(s));
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_tag_get(s));
	KUNIT_EXPECT_FALSE(test, nvme_uq_tags_left(s));
	nvme_uq_tags_free(s);
}

static void tags_duplicate(struct kunit *test)
{
	struct nvme_uq_tags *s = new_tags(test, 32, true);
	u16 cid = launch(s);

	KUNIT_EXPECT_EQ(test, 0, land(s, cid));
	KUNIT_EXPECT_EQ(test, -1, land(s, cid));
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_tags_used(s));
	nvme_uq_tags_free(s);
}

/* Check that a late completion of a reused tag completes no command. */
static void tags_stale(struct kunit *test)
{
	struct nvme_uq_tags *s = new_tags(test, 2, true);
	u16 old = launch(s), new;

	KUNIT_EXPECT_EQ(test, 0, land(s, old));
	new = launch(s);
	KUNIT_EXPECT_NE(test, old, new);
	KUNIT_EXPECT_EQ(test, -1, land(s, old));
	KUNIT_EXPECT_EQ(test, 1, nvme_uq_tags_used(s));
	KUNIT_EXPECT_EQ(test, 0, land(s, new));
	nvme_uq_tags_free(s);
}

static void tags_out_of_range(struct kunit *test)
{
	struct nvme_uq_tags *s = new_tags(test, 20, true);
	unsigned int cid, hits = 0;
	u16 mine = 0;

	while (nvme_uq_tags_left(s))
		mine = launch(s);
	/* only ids in flight are accepted */
	for (cid = 0; cid < 65536; cid++)
		hits += land(s, cid) >= 0;
	KUNIT_EXPECT_EQ(test, 19, hits);
	KUNIT_EXPECT_EQ(test, -1, land(s, mine));
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_tags_used(s));
	nvme_uq_tags_free(s);
}

/* Check that unused ids are not in flight. */
static void tags_never_used(struct kunit *test)
{
	struct nvme_uq_tags *s = new_tags(test, 4096, true);
	unsigned int cid;

	for (cid = 0; cid < 65536; cid++)
		KUNIT_ASSERT_EQ(test, -1, land(s, cid));
	nvme_uq_tags_free(s);
}

static void tags_generation_wraps(struct kunit *test)
{
	unsigned int depth = *(const unsigned int *)test->param_value;
	struct nvme_uq_tags *s = new_tags(test, depth, true);
	unsigned int gens = 65536 / (s->idx_mask + 1), i;
	u16 first = nvme_uq_tag_arm(s, nvme_uq_tag_get(s)), cid = first;

	for (i = 1; i <= gens; i++) {
		unsigned int skip;

		KUNIT_ASSERT_EQ(test, 0, land(s, cid));
		/* use the other tags, until tag 0 is next */
		for (skip = 1; skip < s->nr; skip++)
			land(s, launch(s));
		cid = launch(s);
		KUNIT_ASSERT_EQ(test, 0, cid & s->idx_mask);
		if (i < gens)
			KUNIT_ASSERT_NE(test, first, cid);
	}
	KUNIT_EXPECT_EQ(test, first, cid);
	nvme_uq_tags_free(s);
}

static void tags_without_generations(struct kunit *test)
{
	struct nvme_uq_tags *s = new_tags(test, 64, false);
	unsigned int i;

	for (i = 0; i < 1000; i++) {
		u16 cid = launch(s);

		KUNIT_ASSERT_LT(test, cid, 63);
		KUNIT_ASSERT_EQ(test, cid, land(s, cid));
		KUNIT_ASSERT_EQ(test, -1, land(s, cid));
	}
	nvme_uq_tags_free(s);
}

/*
 * A reset may create a smaller queue. Check that ids of the larger one are
 * invalid.
 */
static void tags_shrink(struct kunit *test)
{
	struct nvme_uq_tags *s = new_tags(test, 1024, true);
	u16 last = 0;

	while (nvme_uq_tags_left(s))
		last = launch(s);
	nvme_uq_tags_free(s);
	KUNIT_ASSERT_EQ(test, 0, nvme_uq_tags_alloc(s, 64, true, GFP_KERNEL));
	KUNIT_EXPECT_EQ(test, 63, s->nr);
	KUNIT_EXPECT_EQ(test, -1, land(s, last));
	while (nvme_uq_tags_left(s))
		launch(s);
	KUNIT_EXPECT_EQ(test, 63, nvme_uq_tags_used(s));
	nvme_uq_tags_free(s);
}

struct pair {
	struct nvme_uq_tags	*s;
	spinlock_t		sq_lock, cq_lock;
	u16			ring[64];
	u32			head, tail;
	atomic_t		launched, landed, wrong;
};

#define PAIR_OPS	20000

static int pair_launcher(void *data)
{
	struct pair *p = data;

	while (!kthread_should_stop()) {
		spin_lock(&p->sq_lock);
		if (nvme_uq_tags_left(p->s) &&
		    atomic_read(&p->launched) < PAIR_OPS) {
			u16 cid = launch(p->s);

			p->ring[p->tail % ARRAY_SIZE(p->ring)] = cid;
			/* publish the id before the new tail */
			smp_store_release(&p->tail, p->tail + 1);
			atomic_inc(&p->launched);
		}
		spin_unlock(&p->sq_lock);
		cond_resched();
	}
	return 0;
}

static int pair_lander(void *data)
{
	struct pair *p = data;

	while (!kthread_should_stop()) {
		spin_lock(&p->cq_lock);
		/* pairs with the release in pair_launcher() */
		if (p->head != smp_load_acquire(&p->tail)) {
			u16 cid = p->ring[p->head++ % ARRAY_SIZE(p->ring)];

			if (land(p->s, cid) < 0)
				atomic_inc(&p->wrong);
			if (land(p->s, cid) >= 0)
				atomic_inc(&p->wrong);
			atomic_inc(&p->landed);
		}
		spin_unlock(&p->cq_lock);
		cond_resched();
	}
	return 0;
}

/*
 * Two tasks take tags and two put them back, each side under its own lock.
 * Whether the tasks alternate or run concurrently, the test detects a tag that
 * is lost or used twice, and an id that is accepted twice or never. It does not
 * detect a missing barrier: UML has one CPU, and x86 CPUs see the stores of
 * other CPUs in order.
 */
static void tags_concurrent(struct kunit *test)
{
	struct pair *p = kunit_kzalloc(test, sizeof(*p), GFP_KERNEL);
	struct task_struct *t[4];
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, p);
	spin_lock_init(&p->sq_lock);
	spin_lock_init(&p->cq_lock);
	p->s = new_tags(test, 33, true);
	for (i = 0; i < 4; i++) {
		t[i] = kthread_create(i & 1 ? pair_lander : pair_launcher, p,
				      "uq_kunit%u", i);
		KUNIT_ASSERT_FALSE(test, IS_ERR(t[i]));
	}
	for (i = 0; i < 4; i++)
		wake_up_process(t[i]);
	/*
	 * kthread_stop() ends a task that did not start yet without running its
	 * function.  KUnit stops the task of a test that times out.
	 */
	while (atomic_read(&p->landed) < PAIR_OPS && !kthread_should_stop())
		schedule_timeout_uninterruptible(1);
	for (i = 0; i < 4; i++)
		kthread_stop(t[i]);
	KUNIT_EXPECT_EQ(test, PAIR_OPS, atomic_read(&p->launched));
	KUNIT_EXPECT_EQ(test, PAIR_OPS, atomic_read(&p->landed));
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&p->wrong));
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_tags_used(p->s));
	nvme_uq_tags_free(p->s);
}

static struct kunit_case nvme_uq_tag_cases[] = {
	KUNIT_CASE_PARAM(tags_never_exceed_depth, depth_gen_params),
	KUNIT_CASE_PARAM(tags_ids_differ, depth_gen_params),
	KUNIT_CASE_PARAM(tags_never_all_ones, depth_gen_params),
	KUNIT_CASE(tags_oldest_first),
	KUNIT_CASE(tags_duplicate),
	KUNIT_CASE(tags_stale),
	KUNIT_CASE(tags_out_of_range),
	KUNIT_CASE(tags_never_used),
	KUNIT_CASE_PARAM(tags_generation_wraps, depth_gen_params),
	KUNIT_CASE(tags_without_generations),
	KUNIT_CASE(tags_shrink),
	KUNIT_CASE(tags_concurrent),
	{ }
};

static struct kunit_suite nvme_uq_tag_suite = {
	.name		= "nvme_uq_tag",
	.test_cases	= nvme_uq_tag_cases,
};

kunit_test_suite(nvme_uq_tag_suite);

MODULE_DESCRIPTION("KUnit tests of NVMe user queues: command ids");
MODULE_LICENSE("GPL");
