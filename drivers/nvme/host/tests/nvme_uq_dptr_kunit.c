// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of NVMe user queues: PRPs, SGLs and lengths.
 *
 * A walker reads the built lists back like a device. It shares no code with the
 * builder.
 */
#include <kunit/test.h>
#include <linux/slab.h>

#include "../uq/dptr.h"

/*
 * PRPs and SGLs
 */

#define MAX_SEGS	2050
#define LIST_DMA	0x7000000000ULL

#define SMALL_LIST	512

struct seg {
	u64	addr;
	u32	len;
};

/* A transfer, as the driver describes it and as the device reads it. */
struct xfer {
	struct scatterlist	sg[MAX_SEGS];
	struct seg		seg[MAX_SEGS];
	unsigned int		nseg;
	struct nvme_uq_list	list[NVME_UQ_MAX_LISTS + 1];
	unsigned int		nlist;
	unsigned int		per_list;
	unsigned int		used;	/* lists that the device used */
	struct seg		out[2 * MAX_SEGS];
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

/* Address of the n'th segment of a test, far from its neighbours. */
static u64 far(unsigned int n)
{
	return 0x100000000ULL + (u64)n * 0x10000000ULL;
}

static void add_seg(struct xfer *x, u64 addr, u32 len)
{
	x->seg[x->nseg].addr = addr;
	x->seg[x->nseg].len = len;
	sg_dma_address(&x->sg[x->nseg]) = addr;
	sg_dma_len(&x->sg[x->nseg]) = len;
	x->nseg++;
	x->len += len;
}

/* Record a transfer of the device. Adjacent ranges are merged. */
static void emit(struct xfer *x, u64 addr, u32 len)
{
	struct seg *last = x->nout ? &x->out[x->nout - 1] : NULL;

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

/* Read PRPs like a device, as the NVMe specification defines. */
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

/* Read an SGL like a device, as the NVMe specification defines. */
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

/* Check that the device transfers the right bytes in the right order. */
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
	unsigned int entries = nvme_uq_prp_entries(x->sg, x->nseg);
	union nvme_data_ptr dptr;

	memset(&dptr, 0xff, sizeof(dptr));
	x->per_list = per;
	x->nout = 0;
	x->used = 0;
	KUNIT_ASSERT_GT(test, entries, 0);
	nvme_uq_prp_build(&dptr, x->sg, x->len, x->list, per);
	walk_prps(test, x, &dptr);
	expect_same(test, x);
	KUNIT_EXPECT_EQ(test, entries > 2 ? nvme_uq_nr_lists(entries - 1, per) :
			0, x->used);
}

static void check_sgl(struct kunit *test, struct xfer *x)
{
	union nvme_data_ptr dptr;

	memset(&dptr, 0xff, sizeof(dptr));
	x->per_list = NVME_UQ_MAX_SEGS;
	x->nout = 0;
	x->used = 0;
	nvme_uq_sgl_build(&dptr, x->sg, x->nseg, x->list);
	walk_sgl(test, x, &dptr);
	expect_same(test, x);
	KUNIT_EXPECT_EQ(test, x->nseg > 1, x->used);
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
	struct xfer *x = new_xfer(test, SMALL_LIST);

	add_seg(x, far(0) + c->offset, c->len);
	KUNIT_EXPECT_EQ(test, c->entries, nvme_uq_prp_entries(x->sg, 1));
	check_prps(test, x, SMALL_LIST / sizeof(__le64));
	check_sgl(test, x);
}

/* Test all offsets with lengths around one, two and three pages. */
static void dptr_offsets(struct kunit *test)
{
	struct xfer *x = new_xfer(test, SMALL_LIST);
	u32 off, len;

	for (off = 0; off < 4096; off += 4)
		for (len = 4; len <= 3 * 4096; len += len < 64 ? 4 : 508) {
			x->nseg = 0;
			x->len = 0;
			add_seg(x, far(0) + off, len);
			check_prps(test, x, 64);
			check_sgl(test, x);
		}
}

/* Test scattered pages, with all counts around the list sizes. */
static void dptr_scattered(struct kunit *test)
{
	struct xfer *x = new_xfer(test, NVME_CTRL_PAGE_SIZE);
	unsigned int n, i;

	for (n = 2; n <= NVME_UQ_MAX_SEGS; n++) {
		x->nseg = 0;
		x->len = 0;
		for (i = 0; i < n; i++)
			add_seg(x, far(i) + (i ? 0 : 1024),
				i == 0 ? 3072 : i == n - 1 ? 512 : 4096);
		check_prps(test, x, 64);
		check_sgl(test, x);
	}
}

/* Keep the first @len bytes of the memory. */
static void cut(struct xfer *x, u32 len)
{
	while (x->len > len) {
		struct seg *last = &x->seg[x->nseg - 1];
		u32 part = min(last->len, x->len - len);

		last->len -= part;
		x->len -= part;
		if (!last->len)
			x->nseg--;
	}
}

/*
 * Test commands that transfer less than the memory contains. Check that the
 * device finds pages and lists where it expects them.
 */
static void dptr_less(struct kunit *test)
{
	static const unsigned int pages[] = { 2, 3, 4, 65, 66, 67, 128, 129 };
	struct xfer *x = new_xfer(test, SMALL_LIST);
	union nvme_data_ptr dptr;
	unsigned int n, i;
	u32 len;

	for (n = 0; n < ARRAY_SIZE(pages); n++)
		for (len = 4; len < pages[n] * 4096 - 1024;
		     len += len % 4096 ? 1020 : 4) {
			x->nseg = 0;
			x->len = 0;
			x->nout = 0;
			x->per_list = 64;
			for (i = 0; i < pages[n]; i++)
				add_seg(x, far(i) + (i ? 0 : 1024),
					i ? 4096 : 3072);
			memset(&dptr, 0xff, sizeof(dptr));
			nvme_uq_prp_build(&dptr, x->sg, len, x->list, 64);
			cut(x, len);
			walk_prps(test, x, &dptr);
			expect_same(test, x);
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
	KUNIT_EXPECT_EQ(test, 2049, nvme_uq_prp_entries(x->sg, x->nseg));
	KUNIT_EXPECT_EQ(test, NVME_UQ_MAX_LISTS, nvme_uq_nr_lists(2048, 512));
	check_prps(test, x, 512);
}

static void dptr_gaps(struct kunit *test)
{
	struct xfer *x = new_xfer(test, SMALL_LIST);

	/* the first segment ends inside a page */
	add_seg(x, far(0), 512);
	add_seg(x, far(1), 4096);
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_prp_entries(x->sg, 2));
	check_sgl(test, x);

	/* the second segment starts inside a page */
	x->nseg = 0;
	x->len = 0;
	add_seg(x, far(0), 4096);
	add_seg(x, far(1) + 4, 4096);
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_prp_entries(x->sg, 2));
	check_sgl(test, x);
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
	u64			need;	/* U64_MAX: never allowed */
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
	{ .name = "read, metadata in line that may be stripped",
	  .opcode = nvme_cmd_read, .nlb = 1, .control = NVME_RW_PRINFO_PRACT,
	  .fmt = EXT_NO_PI, .need = U64_MAX },
	{ .name = "read, larger metadata in line", .opcode = nvme_cmd_read,
	  .nlb = 1, .fmt = EXT_NO_PI, .need = 8224 },
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
	  .cdw10 = U32_MAX, .fmt = PLAIN, .need = U64_MAX },
	{ .name = "more than a page of dwords, or less",
	  .opcode = nvme_cmd_resv_report, .cdw10 = 1024, .fmt = PLAIN,
	  .need = U64_MAX },
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
	{ .name = "read, format never read", .opcode = nvme_cmd_read,
	  .need = U64_MAX },
	{ .name = "append, format never read", .opcode = nvme_cmd_zone_append,
	  .fmt = { .csi = NVME_CSI_ZNS }, .need = U64_MAX },
	{ .name = "flush, format never read", .opcode = nvme_cmd_flush },
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

/* Check the required length of a data buffer without SGLs. */
static void len_data(struct kunit *test)
{
	const struct len_case *c = test->param_value;
	struct nvme_command cmd = len_command(c);

	KUNIT_EXPECT_EQ(test, c->need, nvme_uq_xfer_bytes(&cmd, &c->fmt));
}

static void len_metadata(struct kunit *test)
{
	const struct nvme_uq_fmt apart = WITH_MS, ext = WITH_EXT, none = PLAIN;
	const struct nvme_uq_fmt unread = { }, other = { .csi = 1 };
	struct nvme_command cmd = { };

	cmd.rw.opcode = nvme_cmd_write;
	cmd.rw.length = cpu_to_le16(3);
	KUNIT_EXPECT_TRUE(test, nvme_uq_meta_fits(&cmd, &apart, 32));
	KUNIT_EXPECT_FALSE(test, nvme_uq_meta_fits(&cmd, &apart, 31));
	KUNIT_EXPECT_FALSE(test, nvme_uq_meta_fits(&cmd, &apart, 0));
	KUNIT_EXPECT_TRUE(test, nvme_uq_meta_fits(&cmd, &ext, 0));
	KUNIT_EXPECT_TRUE(test, nvme_uq_meta_fits(&cmd, &none, 0));
	KUNIT_EXPECT_FALSE(test, nvme_uq_meta_fits(&cmd, &unread, 32));
	KUNIT_EXPECT_TRUE(test, nvme_uq_meta_fits(&cmd, &other, 0));

	cmd.rw.control = cpu_to_le16(NVME_RW_PRINFO_PRACT);
	KUNIT_EXPECT_TRUE(test, nvme_uq_meta_fits(&cmd, &apart, 0));

	memset(&cmd, 0, sizeof(cmd));
	cmd.common.opcode = nvme_cmd_flush;
	KUNIT_EXPECT_TRUE(test, nvme_uq_meta_fits(&cmd, &apart, 0));
	KUNIT_EXPECT_TRUE(test, nvme_uq_meta_fits(&cmd, &unread, 0));
}

/*
 * Check that a command is refused if the driver does not know how much metadata
 * it transfers.
 */
static void len_metadata_unknown(struct kunit *test)
{
	static const u8 without[] = {
		nvme_cmd_dsm, nvme_cmd_verify, nvme_cmd_resv_report,
		nvme_cmd_zone_mgmt_recv, 0x19,
	};
	static const u8 unknown[] = { 0x03, 0x7f, 0x80, 0x92, 0xff };
	const struct nvme_uq_fmt apart = WITH_MS, ext = WITH_EXT, none = PLAIN;
	struct nvme_command cmd = { };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(without); i++) {
		cmd.common.opcode = without[i];
		KUNIT_EXPECT_TRUE(test, nvme_uq_meta_fits(&cmd, &apart, 0));
	}
	for (i = 0; i < ARRAY_SIZE(unknown); i++) {
		cmd.common.opcode = unknown[i];
		KUNIT_EXPECT_FALSE(test, nvme_uq_meta_fits(&cmd, &apart, 0));
		KUNIT_EXPECT_FALSE(test, nvme_uq_meta_fits(&cmd, &apart, SZ_1M));
		KUNIT_EXPECT_TRUE(test, nvme_uq_meta_fits(&cmd, &ext, 0));
		KUNIT_EXPECT_TRUE(test, nvme_uq_meta_fits(&cmd, &none, 0));
	}
}

static struct kunit_case nvme_uq_dptr_cases[] = {
	KUNIT_CASE_PARAM(dptr_one_piece, one_gen_params),
	KUNIT_CASE(dptr_offsets),
	KUNIT_CASE(dptr_scattered),
	KUNIT_CASE(dptr_less),
	KUNIT_CASE(dptr_maximum),
	KUNIT_CASE(dptr_gaps),
	KUNIT_CASE(dptr_lists),
	KUNIT_CASE_PARAM(len_data, len_gen_params),
	KUNIT_CASE(len_metadata),
	KUNIT_CASE(len_metadata_unknown),
	{ }
};

static struct kunit_suite nvme_uq_dptr_suite = {
	.name		= "nvme_uq_dptr",
	.test_cases	= nvme_uq_dptr_cases,
};

kunit_test_suite(nvme_uq_dptr_suite);

MODULE_DESCRIPTION("KUnit tests of NVMe user queues: PRPs and SGLs");
MODULE_LICENSE("GPL");
