// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of NVMe user queues: memory in pieces.
 *
 * Offsets come from user space, and the results tell the device which memory to
 * access. So each result is compared with a model that maps each dword of the
 * memory to a bus address. A walker reads PRP lists like a device.
 */
#include <kunit/test.h>
#include <linux/bits.h>
#include <linux/slab.h>

#include "../uq/piece.h"

#define CTRL_PAGE	((u64)NVME_CTRL_PAGE_SIZE)
#define LIST_PRPS	((unsigned int)NVME_UQ_LIST_PRPS)
/* Bus address of list n; no piece has such an address. */
#define LIST_BUS(n)	(0x700000000000ULL + (n) * CTRL_PAGE)

/* Memory with piece i at bus[i]. */
static struct nvme_uq_pieces *new_pieces(struct kunit *test, u64 size,
					 unsigned int shift, const u64 *bus)
{
	unsigned int i, nr = DIV_ROUND_UP_ULL(size, 1ULL << shift);
	struct nvme_uq_pieces *p = kunit_kzalloc(test, sizeof(*p), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, p);
	p->size = size;
	p->shift = shift;
	p->base = kunit_kcalloc(test, nr, sizeof(*p->base), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, p->base);
	for (i = 0; i < nr; i++)
		p->base[i] = bus[i] - ((u64)i << shift);
	return p;
}

static void add_lists(struct kunit *test, struct nvme_uq_pieces *p)
{
	unsigned int i, nr = nvme_uq_pieces_nr_lists(p);

	p->prps = kunit_kcalloc(test, nr, sizeof(*p->prps), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, p->prps);
	for (i = 0; i < nr; i++) {
		p->prps[i].virt = kunit_kzalloc(test, CTRL_PAGE, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, p->prps[i].virt);
		p->prps[i].dma = LIST_BUS(i);
		nvme_uq_pieces_fill_list(p, i);
	}
}

/* The third piece follows the second, and the fourth precedes the first. */
static const u64 scattered[] = {
	0x40000000, 0x10000000, 0x10000000 + 4 * CTRL_PAGE,
	0x40000000 - 4 * CTRL_PAGE, 0xfffffffff000ULL,
};

#define PIECE_SHIFT	14
#define PIECE		BIT_ULL(PIECE_SHIFT)

/* Memory at scattered[], with a last piece of one page. */
static struct nvme_uq_pieces *new_scattered(struct kunit *test)
{
	return new_pieces(test, 4 * PIECE + CTRL_PAGE, PIECE_SHIFT, scattered);
}

static u64 model(u64 offset)
{
	return scattered[offset / PIECE] + offset % PIECE;
}

/*
 * Sizes
 */

static void piece_size_wastes_little(struct kunit *test)
{
	u64 size, piece, whole;

	for (size = PAGE_SIZE; size < 600 * PAGE_SIZE; size += PAGE_SIZE) {
		piece = nvme_uq_piece_size(size, 64 * PAGE_SIZE);
		whole = ALIGN(size, piece);
		KUNIT_ASSERT_TRUE(test, is_power_of_2(piece));
		KUNIT_ASSERT_GE(test, piece, (u64)PAGE_SIZE);
		KUNIT_ASSERT_LE(test, piece, (u64)64 * PAGE_SIZE);
		KUNIT_ASSERT_LE(test, whole - size, size / 8);
	}
}

static void piece_size_is_largest(struct kunit *test)
{
	const u64 most = 512 * PAGE_SIZE;

	KUNIT_EXPECT_EQ(test, (u64)PAGE_SIZE,
			nvme_uq_piece_size(PAGE_SIZE, most));
	KUNIT_EXPECT_EQ(test, 256ULL * PAGE_SIZE,
			nvme_uq_piece_size(256 * PAGE_SIZE, most));
	KUNIT_EXPECT_EQ(test, most, nvme_uq_piece_size(most, most));
	KUNIT_EXPECT_EQ(test, most, nvme_uq_piece_size(16 * most, most));
	KUNIT_EXPECT_EQ(test, most, nvme_uq_piece_size(1ULL << 40, most));
	/* two pieces of the largest size would waste a third */
	KUNIT_EXPECT_EQ(test, most / 2,
			nvme_uq_piece_size(most + most / 2, most));
}

/*
 * Bounds
 */

static void piece_bounds(struct kunit *test)
{
	struct nvme_uq_pieces *p = new_scattered(test);
	const u64 size = p->size;

	KUNIT_EXPECT_TRUE(test, nvme_uq_pieces_hold(p, 0, size));
	KUNIT_EXPECT_TRUE(test, nvme_uq_pieces_hold(p, size - 4, 4));
	KUNIT_EXPECT_TRUE(test, nvme_uq_pieces_hold(p, size, 0));
	KUNIT_EXPECT_FALSE(test, nvme_uq_pieces_hold(p, size, 4));
	KUNIT_EXPECT_FALSE(test, nvme_uq_pieces_hold(p, 0, size + 4));
	KUNIT_EXPECT_FALSE(test, nvme_uq_pieces_hold(p, size - 4, 8));
	KUNIT_EXPECT_FALSE(test, nvme_uq_pieces_hold(p, size - 4, U32_MAX));
	KUNIT_EXPECT_FALSE(test, nvme_uq_pieces_hold(p, 4, U32_MAX));
}

/* Check that sums that wrap around do not lead back into the memory. */
static void piece_bounds_do_not_wrap(struct kunit *test)
{
	struct nvme_uq_pieces *p = new_scattered(test);
	unsigned int i;

	for (i = 0; i < 64; i++) {
		u64 offset = 0 - (1ULL << i);

		KUNIT_EXPECT_FALSE(test, nvme_uq_pieces_hold(p, offset, 0));
		KUNIT_EXPECT_FALSE(test, nvme_uq_pieces_hold(p, offset, 4));
		KUNIT_EXPECT_FALSE(test, nvme_uq_pieces_hold(p, offset, 512));
		KUNIT_EXPECT_FALSE(test,
				   nvme_uq_pieces_hold(p, offset, U32_MAX));
		if (i < 32)
			KUNIT_EXPECT_FALSE(test,
					   nvme_uq_pieces_hold(p, offset,
							       1U << i));
	}
}

/*
 * Segments
 */

static void piece_addresses(struct kunit *test)
{
	struct nvme_uq_pieces *p = new_scattered(test);
	u64 offset;

	for (offset = 0; offset < p->size; offset += 4)
		KUNIT_ASSERT_EQ(test, model(offset),
				(u64)nvme_uq_pieces_addr(p, offset));
}

static void piece_in_one(struct kunit *test)
{
	struct nvme_uq_pieces *p = new_scattered(test);

	KUNIT_EXPECT_TRUE(test, nvme_uq_pieces_in_one(p, 0, 4));
	KUNIT_EXPECT_TRUE(test, nvme_uq_pieces_in_one(p, 0, PIECE));
	KUNIT_EXPECT_TRUE(test, nvme_uq_pieces_in_one(p, PIECE - 4, 4));
	KUNIT_EXPECT_TRUE(test, nvme_uq_pieces_in_one(p, PIECE, PIECE));
	KUNIT_EXPECT_TRUE(test, nvme_uq_pieces_in_one(p, 4 * PIECE, CTRL_PAGE));
	KUNIT_EXPECT_FALSE(test, nvme_uq_pieces_in_one(p, PIECE - 4, 8));
	KUNIT_EXPECT_FALSE(test, nvme_uq_pieces_in_one(p, 4, PIECE));
	KUNIT_EXPECT_FALSE(test, nvme_uq_pieces_in_one(p, 0, 3 * PIECE));
}

/* Check that segments match the model, and that their number is minimal. */
static void check_segs(struct kunit *test, const struct nvme_uq_pieces *p,
		       u64 offset, u32 len)
{
	struct scatterlist sg[8] = { };
	unsigned int i, n = nvme_uq_pieces_segs(p, offset, len, NULL);
	u64 at = offset, end = 0;
	u32 in;

	KUNIT_ASSERT_LE(test, n, (unsigned int)ARRAY_SIZE(sg));
	KUNIT_ASSERT_EQ(test, n, nvme_uq_pieces_segs(p, offset, len, sg));
	for (i = 0; i < n; i++) {
		u64 addr = sg_dma_address(&sg[i]);

		KUNIT_ASSERT_GT(test, sg_dma_len(&sg[i]), 0U);
		KUNIT_ASSERT_NE(test, addr, end);
		for (in = 0; in < sg_dma_len(&sg[i]); in += 4, at += 4)
			KUNIT_ASSERT_EQ(test, model(at), addr + in);
		end = addr + in;
	}
	KUNIT_ASSERT_EQ(test, offset + len, at);
}

static void piece_segs(struct kunit *test)
{
	struct nvme_uq_pieces *p = new_scattered(test);
	static const u64 edges[] = {
		0, 4, CTRL_PAGE, PIECE - 4, PIECE, PIECE + 4, 2 * PIECE - 512,
		2 * PIECE, 3 * PIECE, 3 * PIECE + 4, 4 * PIECE,
		4 * PIECE + CTRL_PAGE - 4, 4 * PIECE + CTRL_PAGE,
	};
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(edges); i++)
		for (j = i + 1; j < ARRAY_SIZE(edges); j++)
			check_segs(test, p, edges[i], edges[j] - edges[i]);
}

static void piece_segs_merge(struct kunit *test)
{
	struct nvme_uq_pieces *p = new_scattered(test);

	KUNIT_EXPECT_EQ(test, 1U, nvme_uq_pieces_segs(p, 0, PIECE, NULL));
	KUNIT_EXPECT_EQ(test, 2U, nvme_uq_pieces_segs(p, 4, PIECE, NULL));
	/* the second and third piece are adjacent */
	KUNIT_EXPECT_EQ(test, 1U, nvme_uq_pieces_segs(p, PIECE, 2 * PIECE,
						      NULL));
	KUNIT_EXPECT_EQ(test, 4U, nvme_uq_pieces_segs(p, 0, p->size, NULL));
}

/* One piece, as with an IOMMU. Its size is not a power of two. */
static void piece_single(struct kunit *test)
{
	static const u64 bus[] = { 0xfff00000 };
	struct nvme_uq_pieces *p = new_pieces(test, 5 * CTRL_PAGE, 15, bus);

	KUNIT_EXPECT_TRUE(test, nvme_uq_pieces_in_one(p, 0, p->size));
	KUNIT_EXPECT_TRUE(test, nvme_uq_pieces_in_one(p, p->size - 4, 4));
	KUNIT_EXPECT_FALSE(test, nvme_uq_pieces_hold(p, p->size, 4));
	KUNIT_EXPECT_EQ(test, bus[0] + p->size - 4,
			(u64)nvme_uq_pieces_addr(p, p->size - 4));
	KUNIT_EXPECT_EQ(test, 1U, nvme_uq_pieces_segs(p, 0, p->size, NULL));
}

/*
 * PRPs
 */

/* Return the page of the @n'th PRP after the first, like a device. */
static u64 walk(const struct nvme_uq_pieces *p, u64 prp2, unsigned int n,
		unsigned int entries)
{
	unsigned int list, slot;
	__le64 *prps;

	if (entries == 1)
		return prp2;
	list = (prp2 - LIST_BUS(0)) / CTRL_PAGE;
	slot = prp2 % CTRL_PAGE / sizeof(*prps);
	/* with more entries, the last one would link to another list */
	if (slot + entries > LIST_PRPS || list >= nvme_uq_pieces_nr_lists(p))
		return U64_MAX;
	prps = p->prps[list].virt;
	return le64_to_cpu(prps[slot + n]);
}

/* Pieces of one page each, in descending order, so that none are adjacent. */
static struct nvme_uq_pieces *new_pages(struct kunit *test, unsigned int nr)
{
	u64 *bus = kunit_kcalloc(test, nr, sizeof(*bus), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, bus);
	for (i = 0; i < nr; i++)
		bus[i] = 0x80000000ULL - i * CTRL_PAGE;
	return new_pieces(test, nr * CTRL_PAGE, ilog2(NVME_CTRL_PAGE_SIZE), bus);
}

static u64 page_bus(u64 offset)
{
	return 0x80000000ULL - round_down(offset, CTRL_PAGE);
}

static void check_prps(struct kunit *test, const struct nvme_uq_pieces *p,
		       u64 offset, u32 len)
{
	unsigned int n = (offset + len - 1) / CTRL_PAGE - offset / CTRL_PAGE, i;
	u64 prp2;

	KUNIT_ASSERT_TRUE(test, nvme_uq_pieces_prp2(p, offset, len, &prp2));
	if (!n)
		KUNIT_ASSERT_EQ(test, 0ULL, prp2);
	for (i = 0; i < n; i++)
		KUNIT_ASSERT_EQ(test, page_bus(offset + (i + 1) * CTRL_PAGE),
				walk(p, prp2, i, n));
}

static void piece_prps(struct kunit *test)
{
	struct nvme_uq_pieces *p = new_pages(test, 3 * LIST_PRPS + 7);
	static const unsigned int lengths[] = {
		1, 2, 3, 4, 31, 32, 33, 128, 255, 256,
	};
	u64 offset;
	unsigned int i;

	add_lists(test, p);
	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		u32 len = lengths[i] * CTRL_PAGE;

		for (offset = 0; offset + len <= p->size; offset += CTRL_PAGE)
			check_prps(test, p, offset, len);
		/* one more page, partly used */
		for (offset = 4; offset + len <= p->size; offset += CTRL_PAGE)
			check_prps(test, p, offset, len);
	}
}

/* Check that PRPs go up to the end of a list, because lists are not chained. */
static void piece_prps_end_of_list(struct kunit *test)
{
	struct nvme_uq_pieces *p = new_pages(test, 2 * LIST_PRPS);
	u64 prp2;

	add_lists(test, p);
	/* PRP1 is the first page, and the list starts at the second one */
	check_prps(test, p, 0, LIST_PRPS * CTRL_PAGE);
	KUNIT_EXPECT_FALSE(test,
			   nvme_uq_pieces_prp2(p, 0, LIST_PRPS * CTRL_PAGE + 4,
					       &prp2));
	KUNIT_EXPECT_FALSE(test,
			   nvme_uq_pieces_prp2(p, 4, LIST_PRPS * CTRL_PAGE,
					       &prp2));
}

static void piece_prps_without_lists(struct kunit *test)
{
	struct nvme_uq_pieces *p = new_pages(test, 16);
	u64 prp2;

	check_prps(test, p, 0, CTRL_PAGE);
	check_prps(test, p, 4, CTRL_PAGE);
	check_prps(test, p, CTRL_PAGE, 2 * CTRL_PAGE);
	KUNIT_EXPECT_FALSE(test, nvme_uq_pieces_prp2(p, 4, 2 * CTRL_PAGE,
						     &prp2));
}

/* Check that all entries of a list point to the memory. */
static void piece_prps_behind_the_end(struct kunit *test)
{
	struct nvme_uq_pieces *p = new_pages(test, LIST_PRPS + 5);
	unsigned int i, j;

	add_lists(test, p);
	for (i = 0; i < nvme_uq_pieces_nr_lists(p); i++) {
		__le64 *prps = p->prps[i].virt;

		for (j = 0; j < LIST_PRPS; j++) {
			u64 bus = le64_to_cpu(prps[j]);

			KUNIT_ASSERT_LE(test, bus, page_bus(0));
			KUNIT_ASSERT_GE(test, bus, page_bus(p->size - 4));
		}
	}
}

static struct kunit_case nvme_uq_piece_cases[] = {
	KUNIT_CASE(piece_size_wastes_little),
	KUNIT_CASE(piece_size_is_largest),
	KUNIT_CASE(piece_bounds),
	KUNIT_CASE(piece_bounds_do_not_wrap),
	KUNIT_CASE(piece_addresses),
	KUNIT_CASE(piece_in_one),
	KUNIT_CASE(piece_segs),
	KUNIT_CASE(piece_segs_merge),
	KUNIT_CASE(piece_single),
	KUNIT_CASE(piece_prps),
	KUNIT_CASE(piece_prps_end_of_list),
	KUNIT_CASE(piece_prps_without_lists),
	KUNIT_CASE(piece_prps_behind_the_end),
	{ }
};

static struct kunit_suite nvme_uq_piece_suite = {
	.name		= "nvme_uq_piece",
	.test_cases	= nvme_uq_piece_cases,
};

kunit_test_suite(nvme_uq_piece_suite);

MODULE_DESCRIPTION("KUnit tests of NVMe user queues: memory in pieces");
MODULE_LICENSE("GPL");
