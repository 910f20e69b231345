// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of NVMe user queues: command ids, PRPs and SGLs, lengths, plans.
 *
 * Command ids are what stands between a device that completes the wrong thing
 * and a command that is not done: each way to be wrong has a case. What is
 * built for the device is read back here as a device reads it, by a walker that
 * shares no code with the builder.
 */
#include <kunit/test.h>
#include <linux/kthread.h>
#include <linux/slab.h>

#include "../uq/dptr.h"
#include "../uq/plan.h"
#include "../uq/tag.h"

/*
 * Command ids
 */

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

/* Complete @cid as a device would. */
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

static void slots_never_exceed_depth(struct kunit *test)
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

static void slots_ids_differ(struct kunit *test)
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

/* The id that means "no command" in the error log is never given out. */
static void slots_never_all_ones(struct kunit *test)
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

static void slots_oldest_first(struct kunit *test)
{
	struct nvme_uq_tags *s = new_tags(test, 8, true);
	u16 a = launch(s), b = launch(s), c = launch(s);
	unsigned int i;

	/* free: 3 4 5 6, then in the order in which they are completed */
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

static void slots_duplicate(struct kunit *test)
{
	struct nvme_uq_tags *s = new_tags(test, 32, true);
	u16 cid = launch(s);

	KUNIT_EXPECT_EQ(test, 0, land(s, cid));
	KUNIT_EXPECT_EQ(test, -1, land(s, cid));
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_tags_used(s));
	nvme_uq_tags_free(s);
}

/* A late completion of a tag that is in use again completes no command. */
static void slots_stale(struct kunit *test)
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

static void slots_out_of_range(struct kunit *test)
{
	struct nvme_uq_tags *s = new_tags(test, 20, true);
	unsigned int cid, hits = 0;
	u16 mine = 0;

	while (nvme_uq_tags_left(s))
		mine = launch(s);
	/* of all ids there are, exactly those in flight are accepted */
	for (cid = 0; cid < 65536; cid++)
		hits += land(s, cid) >= 0;
	KUNIT_EXPECT_EQ(test, 19, hits);
	KUNIT_EXPECT_EQ(test, -1, land(s, mine));
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_tags_used(s));
	nvme_uq_tags_free(s);
}

/* Before its first use, an id is not in flight, whatever it looks like. */
static void slots_never_used(struct kunit *test)
{
	struct nvme_uq_tags *s = new_tags(test, 4096, true);
	unsigned int cid;

	for (cid = 0; cid < 65536; cid++)
		KUNIT_ASSERT_EQ(test, -1, land(s, cid));
	nvme_uq_tags_free(s);
}

static void slots_generation_wraps(struct kunit *test)
{
	unsigned int depth = *(const unsigned int *)test->param_value;
	struct nvme_uq_tags *s = new_tags(test, depth, true);
	unsigned int gens = 65536 / (s->idx_mask + 1), i;
	u16 first = nvme_uq_tag_arm(s, nvme_uq_tag_get(s)), cid = first;

	for (i = 1; i <= gens; i++) {
		unsigned int skip;

		KUNIT_ASSERT_EQ(test, 0, land(s, cid));
		/* come round to tag 0 again */
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

static void slots_without_generations(struct kunit *test)
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

/* A reset may find a shallower queue; ids of the deep one mean nothing then. */
static void slots_shrink(struct kunit *test)
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

	while (atomic_read(&p->launched) < PAIR_OPS) {
		spin_lock(&p->sq_lock);
		if (nvme_uq_tags_left(p->s) &&
		    atomic_read(&p->launched) < PAIR_OPS) {
			u16 cid = launch(p->s);

			p->ring[p->tail % ARRAY_SIZE(p->ring)] = cid;
			/* the id comes before what announces it */
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

	while (atomic_read(&p->landed) < PAIR_OPS) {
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
 * Two that take and two that give back, each side under its own lock. Where
 * tasks take turns or run at once, this finds a tag that gets lost or is given
 * out twice, and an id that is accepted twice or not at all. It does not find a
 * barrier that is missing: UML has one processor, and processors of x86 see the
 * stores of others in the order in which they were made.
 */
static void slots_concurrent(struct kunit *test)
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
		get_task_struct(t[i]);
	}
	for (i = 0; i < 4; i++)
		wake_up_process(t[i]);
	for (i = 0; i < 4; i++) {
		kthread_stop(t[i]);
		put_task_struct(t[i]);
	}
	KUNIT_EXPECT_EQ(test, PAIR_OPS, atomic_read(&p->launched));
	KUNIT_EXPECT_EQ(test, PAIR_OPS, atomic_read(&p->landed));
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&p->wrong));
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_tags_used(p->s));
	nvme_uq_tags_free(p->s);
}

/*
 * PRPs and SGLs
 */

#define MAX_SEGS	2050
#define LIST_DMA	0x7000000000ULL

/* A transfer, as the driver has it and as the device finds it. */
struct xfer {
	struct nvme_uq_seg	seg[MAX_SEGS];
	unsigned int		nseg;
	struct nvme_uq_list	list[NVME_UQ_MAX_LISTS + 1];
	unsigned int		nlist;
	unsigned int		per_list;
	unsigned int		used;	/* highest list the device was led to */
	struct nvme_uq_seg	out[2 * MAX_SEGS];
	unsigned int		nout;
	u64			len;
};

static struct xfer *new_xfer(struct kunit *test, size_t list_bytes)
{
	struct xfer *x = kunit_kzalloc(test, sizeof(*x), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, x);
	for (i = 0; i < ARRAY_SIZE(x->list); i++) {
		x->list[i].virt = kunit_kzalloc(test, list_bytes, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, x->list[i].virt);
		x->list[i].dma = LIST_DMA + (u64)i * NVME_CTRL_PAGE_SIZE;
	}
	return x;
}

/* The n'th segment of a test, far from its neighbours. */
static u64 far(unsigned int n)
{
	return 0x100000000ULL + (u64)n * 0x10000000ULL;
}

static void add_seg(struct xfer *x, u64 addr, u32 len)
{
	x->seg[x->nseg].addr = addr;
	x->seg[x->nseg].len = len;
	x->nseg++;
	x->len += len;
}

/* What the device moves: neighbours make one piece. */
static void emit(struct xfer *x, u64 addr, u32 len)
{
	struct nvme_uq_seg *last = x->nout ? &x->out[x->nout - 1] : NULL;

	if (last && last->addr + last->len == addr) {
		last->len += len;
		return;
	}
	x->out[x->nout].addr = addr;
	x->out[x->nout].len = len;
	x->nout++;
}

static void *device_list(struct kunit *test, struct xfer *x, u64 dma)
{
	unsigned int n = (dma - LIST_DMA) / NVME_CTRL_PAGE_SIZE;

	KUNIT_ASSERT_GE(test, dma, LIST_DMA);
	KUNIT_ASSERT_LT(test, n, ARRAY_SIZE(x->list));
	KUNIT_ASSERT_EQ(test, x->list[n].dma, dma);
	x->used = max(x->used, n + 1);
	return x->list[n].virt;
}

/* Read PRPs as the NVMe specification tells a device to. */
static void walk_prps(struct kunit *test, struct xfer *x,
		      const union nvme_data_ptr *dptr)
{
	u64 left = x->len, addr = le64_to_cpu(dptr->prp1);
	u32 len = min(left, NVME_CTRL_PAGE_SIZE -
		      (addr & (NVME_CTRL_PAGE_SIZE - 1)));
	unsigned int i = 0;
	__le64 *prp;

	emit(x, addr, len);
	left -= len;
	if (!left) {
		KUNIT_EXPECT_EQ(test, 0, le64_to_cpu(dptr->prp2));
		return;
	}
	if (left <= NVME_CTRL_PAGE_SIZE) {
		emit(x, le64_to_cpu(dptr->prp2), left);
		return;
	}

	prp = device_list(test, x, le64_to_cpu(dptr->prp2));
	while (left) {
		addr = le64_to_cpu(prp[i]);
		if (i == x->per_list - 1 && left > NVME_CTRL_PAGE_SIZE) {
			prp = device_list(test, x, addr);
			i = 0;
			continue;
		}
		KUNIT_ASSERT_EQ(test, 0, addr & (NVME_CTRL_PAGE_SIZE - 1));
		len = min(left, NVME_CTRL_PAGE_SIZE);
		emit(x, addr, len);
		left -= len;
		i++;
	}
}

/* Read an SGL as the NVMe specification tells a device to. */
static void walk_sgl(struct kunit *test, struct xfer *x,
		     const union nvme_data_ptr *dptr)
{
	const struct nvme_sgl_desc *sge = &dptr->sgl, *end = sge + 1;
	bool last = true;

	while (sge < end) {
		u64 addr = le64_to_cpu(sge->addr);
		u32 len = le32_to_cpu(sge->length);

		switch (sge->type >> 4) {
		case NVME_SGL_FMT_DATA_DESC:
			emit(x, addr, len);
			sge++;
			break;
		case NVME_SGL_FMT_SEG_DESC:
		case NVME_SGL_FMT_LAST_SEG_DESC:
			/* a link is the last entry of its list */
			KUNIT_ASSERT_PTR_EQ(test, sge + 1, end);
			KUNIT_ASSERT_EQ(test, 0, len % sizeof(*sge));
			KUNIT_ASSERT_LE(test, len / sizeof(*sge), x->per_list);
			last = sge->type >> 4 == NVME_SGL_FMT_LAST_SEG_DESC;
			sge = device_list(test, x, addr);
			end = sge + len / sizeof(*sge);
			break;
		default:
			KUNIT_FAIL(test, "descriptor of type %#x", sge->type);
			return;
		}
	}
	KUNIT_EXPECT_TRUE(test, last);
}

/* Does the device move the bytes that it should, in their order? */
static void expect_same(struct kunit *test, struct xfer *x)
{
	unsigned int i, o = 0;
	u32 done = 0;

	for (i = 0; i < x->nseg; i++) {
		KUNIT_ASSERT_LT(test, o, x->nout);
		KUNIT_ASSERT_EQ(test, x->seg[i].addr, x->out[o].addr + done);
		KUNIT_ASSERT_LE(test, done + x->seg[i].len, x->out[o].len);
		done += x->seg[i].len;
		if (done == x->out[o].len) {
			o++;
			done = 0;
		}
	}
	KUNIT_EXPECT_EQ(test, o, x->nout);
}

static void check_prps(struct kunit *test, struct xfer *x, unsigned int per)
{
	unsigned int entries = nvme_uq_prp_entries(x->seg, x->nseg);
	union nvme_data_ptr dptr;

	memset(&dptr, 0xff, sizeof(dptr));
	x->per_list = per;
	x->nout = 0;
	x->used = 0;
	KUNIT_ASSERT_GT(test, entries, 0);
	KUNIT_ASSERT_EQ(test, 0, nvme_uq_prp_build(&dptr, x->seg, x->nseg,
						   x->list, per));
	walk_prps(test, x, &dptr);
	expect_same(test, x);
	KUNIT_EXPECT_EQ(test, entries > 2 ? nvme_uq_nr_lists(entries - 1, per) :
			0, x->used);
}

static void check_sgl(struct kunit *test, struct xfer *x, unsigned int per)
{
	union nvme_data_ptr dptr;

	memset(&dptr, 0xff, sizeof(dptr));
	x->per_list = per;
	x->nout = 0;
	x->used = 0;
	nvme_uq_sgl_build(&dptr, x->seg, x->nseg, x->list, per);
	walk_sgl(test, x, &dptr);
	expect_same(test, x);
	KUNIT_EXPECT_EQ(test, x->nseg > 1 ? nvme_uq_nr_lists(x->nseg, per) : 0,
			x->used);
}

struct one_case {
	const char	*name;
	u32		offset;
	u32		len;
	unsigned int	entries;
};

static const struct one_case one_cases[] = {
	{ "a sector at the start of a page", 0, 512, 1 },
	{ "a sector at the end of a page", 3584, 512, 1 },
	{ "a sector over the end of a page", 3840, 512, 2 },
	{ "four bytes", 4092, 4, 1 },
	{ "a page", 0, 4096, 1 },
	{ "a page from within", 512, 4096, 2 },
	{ "a page and a sector", 0, 4608, 2 },
	{ "two pages", 0, 8192, 2 },
	{ "two pages from within", 4, 8192, 3 },
	{ "two pages and four bytes", 0, 8196, 3 },
	{ "a list that is full", 0, 4096 * 65, 65 },
	{ "a list that is full, from within", 4092, 4 + 4096 * 64, 65 },
	{ "a list and one", 0, 4096 * 66, 66 },
	{ "two lists that are full", 0, 4096 * (1 + 63 + 64), 128 },
	{ "two lists and one", 0, 4096 * (1 + 63 + 64 + 1), 129 },
};

static void one_desc(const struct one_case *c, char *desc)
{
	strscpy(desc, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(one, one_cases, one_desc);

static void dptr_one_piece(struct kunit *test)
{
	const struct one_case *c = test->param_value;
	struct xfer *x = new_xfer(test, NVME_UQ_SMALL_LIST);

	add_seg(x, far(0) + c->offset, c->len);
	KUNIT_EXPECT_EQ(test, c->entries, nvme_uq_prp_entries(x->seg, 1));
	check_prps(test, x, NVME_UQ_SMALL_LIST / sizeof(__le64));
	check_sgl(test, x, NVME_UQ_SMALL_LIST / sizeof(struct nvme_sgl_desc));
}

/* Every first offset against every length around one, two and three pages. */
static void dptr_offsets(struct kunit *test)
{
	struct xfer *x = new_xfer(test, NVME_UQ_SMALL_LIST);
	u32 off, len;

	for (off = 0; off < 4096; off += 4)
		for (len = 4; len <= 3 * 4096; len += len < 64 ? 4 : 508) {
			x->nseg = 0;
			x->len = 0;
			add_seg(x, far(0) + off, len);
			check_prps(test, x, 64);
			check_sgl(test, x, 32);
		}
}

/* Pages that are nowhere near each other: all counts around the list sizes. */
static void dptr_scattered(struct kunit *test)
{
	struct xfer *x = new_xfer(test, NVME_UQ_SMALL_LIST);
	unsigned int n, i;

	for (n = 2; n <= 200; n++) {
		x->nseg = 0;
		x->len = 0;
		for (i = 0; i < n; i++)
			add_seg(x, far(i) + (i ? 0 : 1024),
				i == 0 ? 3072 : i == n - 1 ? 512 : 4096);
		check_prps(test, x, 64);
		check_sgl(test, x, 32);
	}
}

static void dptr_maximum(struct kunit *test)
{
	struct xfer *x = new_xfer(test, NVME_CTRL_PAGE_SIZE);
	unsigned int i;

	/* 8 MiB from the last dword of a page: 2049 pages */
	for (i = 0; i < 2049; i++)
		add_seg(x, far(i) + (i ? 0 : 4092),
			i == 0 ? 4 : i == 2048 ? 4092 : 4096);
	KUNIT_ASSERT_EQ(test, SZ_8M, x->len);
	KUNIT_EXPECT_EQ(test, 2049, nvme_uq_prp_entries(x->seg, x->nseg));
	KUNIT_EXPECT_LE(test, nvme_uq_nr_lists(2048, 512), NVME_UQ_MAX_LISTS);
	KUNIT_EXPECT_EQ(test, NVME_UQ_MAX_LISTS, nvme_uq_nr_lists(2049, 256));
	check_prps(test, x, 512);
	check_sgl(test, x, 256);
}

static void dptr_gaps(struct kunit *test)
{
	union nvme_data_ptr dptr;
	struct xfer *x = new_xfer(test, NVME_UQ_SMALL_LIST);

	/* the first does not reach the end of its page */
	add_seg(x, far(0), 512);
	add_seg(x, far(1), 4096);
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_prp_entries(x->seg, 2));
	KUNIT_EXPECT_EQ(test, -EINVAL,
			nvme_uq_prp_build(&dptr, x->seg, 2, x->list, 64));
	check_sgl(test, x, 32);

	/* the second does not begin at the start of one */
	x->nseg = 0;
	x->len = 0;
	add_seg(x, far(0), 4096);
	add_seg(x, far(1) + 4, 4096);
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_prp_entries(x->seg, 2));
	check_sgl(test, x, 32);
}

static void dptr_lists(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, 1, nvme_uq_nr_lists(1, 32));
	KUNIT_EXPECT_EQ(test, 1, nvme_uq_nr_lists(32, 32));
	KUNIT_EXPECT_EQ(test, 2, nvme_uq_nr_lists(33, 32));
	KUNIT_EXPECT_EQ(test, 2, nvme_uq_nr_lists(63, 32));
	KUNIT_EXPECT_EQ(test, 3, nvme_uq_nr_lists(64, 32));
}

/*
 * Lengths
 */

struct len_case {
	const char		*name;
	u8			opcode;
	u16			nlb;	/* 0's based */
	u16			control;
	u32			cdw10, cdw11, cdw13;
	struct nvme_uq_fmt	fmt;
	u64			need;	/* U64_MAX: refused whatever there is */
};

#define PLAIN		{ .lba_shift = 9 }
#define WITH_MS		{ .lba_shift = 12, .ms = 8, .pi_size = 8 }
#define WITH_EXT	{ .lba_shift = 12, .ms = 8, .pi_size = 8, .ext = true }
#define EXT_NO_PI	{ .lba_shift = 12, .ms = 16, .ext = true }

static const struct len_case len_cases[] = {
	{ .name = "read", .opcode = nvme_cmd_read, .fmt = PLAIN, .need = 512 },
	{ .name = "write of 64 Ki blocks", .opcode = nvme_cmd_write,
	  .nlb = 0xffff, .fmt = PLAIN, .need = 512ull << 16 },
	{ .name = "compare", .opcode = nvme_cmd_compare, .nlb = 7,
	  .fmt = PLAIN, .need = 4096 },
	{ .name = "append", .opcode = nvme_cmd_zone_append, .nlb = 1,
	  .fmt = { .csi = NVME_CSI_ZNS, .lba_shift = 12 }, .need = 8192 },
	{ .name = "read, metadata apart", .opcode = nvme_cmd_read, .nlb = 1,
	  .fmt = WITH_MS, .need = 8192 },
	{ .name = "read, metadata in line", .opcode = nvme_cmd_read, .nlb = 1,
	  .fmt = WITH_EXT, .need = 8208 },
	{ .name = "read, metadata in line but stripped",
	  .opcode = nvme_cmd_read, .nlb = 1, .control = NVME_RW_PRINFO_PRACT,
	  .fmt = WITH_EXT, .need = 8192 },
	{ .name = "read, metadata larger than what is stripped",
	  .opcode = nvme_cmd_read, .nlb = 1, .control = NVME_RW_PRINFO_PRACT,
	  .fmt = EXT_NO_PI, .need = 8224 },
	{ .name = "flush", .opcode = nvme_cmd_flush, .fmt = PLAIN },
	{ .name = "write zeroes", .opcode = nvme_cmd_write_zeroes,
	  .nlb = 0xffff, .fmt = PLAIN },
	{ .name = "one range", .opcode = nvme_cmd_dsm, .fmt = PLAIN,
	  .need = 16 },
	{ .name = "256 ranges", .opcode = nvme_cmd_dsm, .cdw10 = 0xff,
	  .fmt = PLAIN, .need = 4096 },
	{ .name = "reservation report", .opcode = nvme_cmd_resv_report,
	  .cdw10 = 1023, .fmt = PLAIN, .need = 4096 },
	{ .name = "all the dwords there are", .opcode = nvme_cmd_resv_report,
	  .cdw10 = U32_MAX, .fmt = PLAIN, .need = 4ull << 32 },
	{ .name = "io management receive", .opcode = nvme_cmd_io_mgmt_recv,
	  .cdw11 = 15, .fmt = PLAIN, .need = 64 },
	{ .name = "zone reset", .opcode = nvme_cmd_zone_mgmt_send,
	  .cdw13 = NVME_ZONE_RESET,
	  .fmt = { .csi = NVME_CSI_ZNS, .lba_shift = 12 } },
	{ .name = "zone descriptor extension",
	  .opcode = nvme_cmd_zone_mgmt_send, .cdw13 = NVME_ZONE_SET_DESC_EXT,
	  .fmt = { .csi = NVME_CSI_ZNS, .lba_shift = 12 }, .need = U64_MAX },
	{ .name = "copy", .opcode = 0x19, .fmt = PLAIN, .need = U64_MAX },
	{ .name = "a vendor's own", .opcode = 0x92, .fmt = PLAIN,
	  .need = U64_MAX },
	{ .name = "another command set", .opcode = nvme_cmd_read,
	  .fmt = { .csi = 1, .lba_shift = 9 }, .need = U64_MAX },
};

static void len_desc(const struct len_case *c, char *desc)
{
	strscpy(desc, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(len, len_cases, len_desc);

static struct nvme_command len_command(const struct len_case *c)
{
	struct nvme_command cmd = { };

	cmd.common.opcode = c->opcode;
	cmd.common.cdw10 = cpu_to_le32(c->cdw10);
	cmd.common.cdw11 = cpu_to_le32(c->cdw11);
	cmd.common.cdw13 = cpu_to_le32(c->cdw13);
	if (c->nlb)
		cmd.rw.length = cpu_to_le16(c->nlb);
	if (c->control)
		cmd.rw.control = cpu_to_le16(c->control);
	return cmd;
}

/* No SGL: a byte too few is refused, the exact length is not. */
static void len_data(struct kunit *test)
{
	const struct len_case *c = test->param_value;
	struct nvme_command cmd = len_command(c);

	if (c->need == U64_MAX) {
		KUNIT_EXPECT_FALSE(test, nvme_uq_xfer_fits(&cmd, &c->fmt,
							   SZ_8M));
		return;
	}
	KUNIT_EXPECT_TRUE(test, nvme_uq_xfer_fits(&cmd, &c->fmt, c->need));
	if (c->need)
		KUNIT_EXPECT_FALSE(test, nvme_uq_xfer_fits(&cmd, &c->fmt,
							   c->need - 1));
}

static void len_metadata(struct kunit *test)
{
	const struct nvme_uq_fmt apart = WITH_MS, ext = WITH_EXT, none = PLAIN;
	struct nvme_command cmd = { };

	cmd.rw.opcode = nvme_cmd_write;
	cmd.rw.length = cpu_to_le16(3);
	KUNIT_EXPECT_TRUE(test, nvme_uq_meta_fits(&cmd, &apart, 32));
	KUNIT_EXPECT_FALSE(test, nvme_uq_meta_fits(&cmd, &apart, 31));
	KUNIT_EXPECT_FALSE(test, nvme_uq_meta_fits(&cmd, &apart, 0));
	KUNIT_EXPECT_TRUE(test, nvme_uq_meta_fits(&cmd, &ext, 0));
	KUNIT_EXPECT_TRUE(test, nvme_uq_meta_fits(&cmd, &none, 0));

	cmd.rw.control = cpu_to_le16(NVME_RW_PRINFO_PRACT);
	KUNIT_EXPECT_TRUE(test, nvme_uq_meta_fits(&cmd, &apart, 0));

	memset(&cmd, 0, sizeof(cmd));
	cmd.common.opcode = nvme_cmd_flush;
	KUNIT_EXPECT_TRUE(test, nvme_uq_meta_fits(&cmd, &apart, 0));
}

/*
 * Plans
 */

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

/* The rule, over everything small: blk-mq has what it would have had. */
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

static struct kunit_case nvme_uq_tag_cases[] = {
	KUNIT_CASE_PARAM(slots_never_exceed_depth, depth_gen_params),
	KUNIT_CASE_PARAM(slots_ids_differ, depth_gen_params),
	KUNIT_CASE_PARAM(slots_never_all_ones, depth_gen_params),
	KUNIT_CASE(slots_oldest_first),
	KUNIT_CASE(slots_duplicate),
	KUNIT_CASE(slots_stale),
	KUNIT_CASE(slots_out_of_range),
	KUNIT_CASE(slots_never_used),
	KUNIT_CASE_PARAM(slots_generation_wraps, depth_gen_params),
	KUNIT_CASE(slots_without_generations),
	KUNIT_CASE(slots_shrink),
	KUNIT_CASE(slots_concurrent),
	{ }
};

static struct kunit_suite nvme_uq_tag_suite = {
	.name		= "nvme_uq_tag",
	.test_cases	= nvme_uq_tag_cases,
};

static struct kunit_case nvme_uq_dptr_cases[] = {
	KUNIT_CASE_PARAM(dptr_one_piece, one_gen_params),
	KUNIT_CASE(dptr_offsets),
	KUNIT_CASE(dptr_scattered),
	KUNIT_CASE(dptr_maximum),
	KUNIT_CASE(dptr_gaps),
	KUNIT_CASE(dptr_lists),
	KUNIT_CASE_PARAM(len_data, len_gen_params),
	KUNIT_CASE(len_metadata),
	{ }
};

static struct kunit_suite nvme_uq_dptr_suite = {
	.name		= "nvme_uq_dptr",
	.test_cases	= nvme_uq_dptr_cases,
};

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

kunit_test_suites(&nvme_uq_tag_suite, &nvme_uq_dptr_suite,
		  &nvme_uq_plan_suite);

MODULE_DESCRIPTION("KUnit tests of NVMe user queues");
MODULE_LICENSE("GPL");
