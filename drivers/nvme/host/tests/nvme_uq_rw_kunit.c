// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of NVMe user queues: lengths of transfers and of their commands.
 *
 * Position and length come from user space. Check that a transfer never exceeds
 * the namespace, consists of whole blocks, and equals the sum of its parts.
 */
#include <kunit/test.h>
#include <linux/sizes.h>

#include "../uq/rw.h"

static const u32 blocks[] = { 512, 4096, SZ_64K };

struct count {
	u64	pos;
	size_t	count;
	ssize_t	read, write;
};

/* For a namespace of 1 MiB with blocks of 512 bytes. */
static const struct count counts[] = {
	{ 0, 512, 512, 512 },
	{ 0, SZ_1M, SZ_1M, SZ_1M },
	{ 0, SZ_2M, SZ_1M, SZ_1M },
	{ SZ_1M - 512, SZ_4K, 512, 512 },
	{ SZ_1M - 512, 511, -EINVAL, -EINVAL },
	/* the truncation may remove the partial block */
	{ SZ_1M - 512, 513, 512, 512 },
	{ SZ_1M - 1, 512, -EINVAL, -EINVAL },
	{ SZ_1M, 512, 0, -ENOSPC },
	{ SZ_1M, 1, 0, -ENOSPC },
	{ SZ_1M + 1, 1, 0, -ENOSPC },
	{ S64_MAX, 512, 0, -ENOSPC },
	{ S64_MAX, MAX_RW_COUNT, 0, -ENOSPC },
	{ 1, 512, -EINVAL, -EINVAL },
	{ 0, 1, -EINVAL, -EINVAL },
	{ 0, 513, -EINVAL, -EINVAL },
	{ 0, MAX_RW_COUNT, SZ_1M, SZ_1M },
};

static void rw_counts(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(counts); i++) {
		const struct count *c = &counts[i];

		KUNIT_EXPECT_EQ_MSG(test, c->read,
				    nvme_uq_rw_count(c->pos, c->count, SZ_1M,
						     512, false), "case %u", i);
		KUNIT_EXPECT_EQ_MSG(test, c->write,
				    nvme_uq_rw_count(c->pos, c->count, SZ_1M,
						     512, true), "case %u", i);
	}
}

/* Test a namespace that becomes empty, or is removed, while a file is open. */
static void rw_count_of_nothing(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_rw_count(0, 512, 0, 512, false));
	KUNIT_EXPECT_EQ(test, -ENOSPC, nvme_uq_rw_count(0, 512, 0, 512, true));
}

/* Test all borders with all block sizes. */
static void rw_count_is_inside(struct kunit *test)
{
	unsigned int b;

	for (b = 0; b < ARRAY_SIZE(blocks); b++) {
		u64 size = 16ULL * blocks[b], pos;
		size_t count;

		for (pos = 0; pos <= size; pos += blocks[b] / 2) {
			for (count = blocks[b] / 2; count <= 2 * size;
			     count += blocks[b] / 2) {
				ssize_t ret = nvme_uq_rw_count(pos, count, size,
							       blocks[b], false);

				if (ret <= 0)
					continue;
				KUNIT_ASSERT_LE(test, pos + ret, size);
				KUNIT_ASSERT_LE(test, ret, (ssize_t)count);
				KUNIT_ASSERT_EQ(test, 0,
						ret & (blocks[b] - 1));
				KUNIT_ASSERT_EQ(test, 0ULL,
						pos & (blocks[b] - 1));
			}
		}
	}
}

/* The maximum of a command may be a partial block, or less than one block. */
static const u64 mosts[] = {
	SZ_128K, SZ_8M, SZ_4K, SZ_128K + 512, SZ_8M - 512, 512,
};

static void rw_parts(struct kunit *test)
{
	unsigned int b, m;

	for (b = 0; b < ARRAY_SIZE(blocks); b++) {
		for (m = 0; m < ARRAY_SIZE(mosts); m++) {
			size_t left = 300 * blocks[b];

			while (left) {
				u32 part = nvme_uq_rw_part(left, mosts[m],
							   blocks[b]);

				KUNIT_ASSERT_GT(test, part, 0U);
				KUNIT_ASSERT_LE(test, (size_t)part, left);
				KUNIT_ASSERT_EQ(test, 0U,
						part & (blocks[b] - 1));
				KUNIT_ASSERT_LE(test, (u64)part,
						max(mosts[m], (u64)blocks[b]));
				left -= part;
			}
		}
	}
}

/* Check that no more commands than needed are used. */
static void rw_parts_are_few(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, (u32)SZ_128K,
			nvme_uq_rw_part(SZ_1M, SZ_128K, 512));
	KUNIT_EXPECT_EQ(test, (u32)SZ_128K,
			nvme_uq_rw_part(SZ_128K, SZ_128K, 4096));
	KUNIT_EXPECT_EQ(test, 512U, nvme_uq_rw_part(512, SZ_128K, 512));
	KUNIT_EXPECT_EQ(test, (u32)SZ_8M,
			nvme_uq_rw_part(MAX_RW_COUNT, SZ_8M, 4096));
}

/* Check that additional status bits do not turn a success into a failure. */
static void rw_success_with_more_bits(struct kunit *test)
{
	static const int good[] = { NVME_SC_SUCCESS, NVME_STATUS_MORE,
				    NVME_STATUS_CRD, NVME_STATUS_DNR };
	static const int bad[] = { -EINTR, NVME_SC_LBA_RANGE,
				   NVME_SC_READ_ERROR | NVME_STATUS_DNR,
				   NVME_SC_ACCESS_DENIED | NVME_STATUS_MORE };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(good); i++)
		KUNIT_EXPECT_FALSE_MSG(test, nvme_uq_rw_failed(good[i]),
				       "%#x", good[i]);
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		KUNIT_EXPECT_TRUE_MSG(test, nvme_uq_rw_failed(bad[i]),
				      "%#x", bad[i]);
}

static struct kunit_case nvme_uq_rw_cases[] = {
	KUNIT_CASE(rw_counts),
	KUNIT_CASE(rw_count_of_nothing),
	KUNIT_CASE(rw_count_is_inside),
	KUNIT_CASE(rw_parts),
	KUNIT_CASE(rw_parts_are_few),
	KUNIT_CASE(rw_success_with_more_bits),
	{ }
};

static struct kunit_suite nvme_uq_rw_suite = {
	.name		= "nvme_uq_rw",
	.test_cases	= nvme_uq_rw_cases,
};

kunit_test_suite(nvme_uq_rw_suite);

MODULE_DESCRIPTION("KUnit tests of NVMe user queues: reading and writing nodes");
MODULE_LICENSE("GPL");
