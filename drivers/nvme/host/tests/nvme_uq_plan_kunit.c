// SPDX-License-Identifier: GPL-2.0
/* KUnit tests of NVMe user queues: sharing queues. */
#include <kunit/test.h>

#include "../uq/plan.h"

struct plan_case {
	const char		*name;
	struct nvme_uq_plan	want;
	unsigned int		granted, blk;
	struct nvme_uq_plan	get;
	unsigned int		blk_get;
};

static const struct plan_case plan_cases[] = {
	{ "enough", { 2, 2 }, 12, 8, { 2, 2 }, 8 },
	{ "more than enough", { 2, 2 }, 64, 8, { 2, 2 }, 8 },
	{ "one short, as many of each", { 2, 2 }, 11, 8, { 2, 1 }, 8 },
	{ "two short", { 2, 2 }, 10, 8, { 1, 1 }, 8 },
	{ "one left over", { 2, 2 }, 9, 8, { 1, 0 }, 8 },
	{ "none left over", { 2, 2 }, 8, 8, { 0, 0 }, 8 },
	{ "fewer than blk-mq wants", { 2, 2 }, 5, 8, { 0, 0 }, 5 },
	{ "one in all", { 2, 2 }, 1, 8, { 0, 0 }, 1 },
	{ "more interrupts gives way first", { 4, 1 }, 10, 8, { 1, 1 }, 8 },
	{ "more polled gives way first", { 1, 4 }, 11, 8, { 1, 2 }, 8 },
	{ "interrupts only", { 3, 0 }, 10, 8, { 2, 0 }, 8 },
	{ "polled only", { 0, 3 }, 10, 8, { 0, 2 }, 8 },
	{ "none asked for", { 0, 0 }, 12, 8, { 0, 0 }, 8 },
	{ "no queue at all", { 1, 1 }, 0, 8, { 0, 0 }, 0 },
};

static void plan_desc(const struct plan_case *c, char *desc)
{
	strscpy(desc, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(plan, plan_cases, plan_desc);

static void plan_table(struct kunit *test)
{
	const struct plan_case *c = test->param_value;
	struct nvme_uq_plan plan = c->want;

	KUNIT_EXPECT_EQ(test, c->blk_get,
			nvme_uq_plan_queues(&plan, c->granted, c->blk));
	KUNIT_EXPECT_EQ(test, c->get.irq, plan.irq);
	KUNIT_EXPECT_EQ(test, c->get.poll, plan.poll);
}

/* Check for all small numbers that user queues take no queues from blk-mq. */
static void plan_rule(struct kunit *test)
{
	unsigned int granted, blk, irq, poll;

	for (granted = 0; granted < 20; granted++)
		for (blk = 1; blk < 12; blk++)
			for (irq = 0; irq < 6; irq++)
				for (poll = 0; poll < 6; poll++) {
					struct nvme_uq_plan p = { irq, poll };
					unsigned int b, left;

					b = nvme_uq_plan_queues(&p, granted,
								blk);
					left = granted - b;
					KUNIT_ASSERT_EQ(test, b,
							min(granted, blk));
					KUNIT_ASSERT_LE(test, p.irq, irq);
					KUNIT_ASSERT_LE(test, p.poll, poll);
					KUNIT_ASSERT_EQ(test, p.irq + p.poll,
							min(left, irq + poll));
				}
}

static void plan_shrink(struct kunit *test)
{
	struct nvme_uq_plan p = { 2, 1 };

	KUNIT_EXPECT_TRUE(test, nvme_uq_plan_shrink(&p));
	KUNIT_EXPECT_TRUE(test, nvme_uq_plan_shrink(&p));
	KUNIT_EXPECT_TRUE(test, nvme_uq_plan_shrink(&p));
	KUNIT_EXPECT_FALSE(test, nvme_uq_plan_shrink(&p));
	KUNIT_EXPECT_EQ(test, 0, p.irq + p.poll);
}

static struct kunit_case nvme_uq_plan_cases[] = {
	KUNIT_CASE_PARAM(plan_table, plan_gen_params),
	KUNIT_CASE(plan_rule),
	KUNIT_CASE(plan_shrink),
	{ }
};

static struct kunit_suite nvme_uq_plan_suite = {
	.name		= "nvme_uq_plan",
	.test_cases	= nvme_uq_plan_cases,
};

kunit_test_suite(nvme_uq_plan_suite);

MODULE_DESCRIPTION("KUnit tests of NVMe user queues: the sharing of queues");
MODULE_LICENSE("GPL");
