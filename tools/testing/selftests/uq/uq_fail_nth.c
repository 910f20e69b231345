// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: every allocation and every copy from or to user space fails
 * once, at each point where it can, and nothing is lost for it: the answer is
 * success or an errno that is documented, and the queue goes on to work.
 *
 * /proc/thread-self/fail-nth makes the n'th such point fail in this task. What
 * runs in a worker of the kernel, resets and scans, is made to fail by the
 * same file of the workers. There, only what the user queues' own functions ask
 * for fails: most points of a probe are not the driver's, and some of those warn
 * or worse. Needs CONFIG_FAILSLAB and CONFIG_FAIL_PAGE_ALLOC, and for the latter
 * CONFIG_FAULT_INJECTION_STACKTRACE_FILTER. Best with panic_on_warn.
 *
 * Environment, beside that of uq_random.h:
 *   UQ_TEST_FAIL_ANYWHERE	let probe, reset and scan fail at other points, too
 */
#define _GNU_SOURCE
#define UQ_DISRUPTIVE	true
#include <dirent.h>
#include <limits.h>
#include <linux/nvme_uq.h>

#include "uq_inject.h"
#include "uq_fixture.h"
#include "uq_random.h"

#define DEBUG	"/sys/kernel/debug"
#define AREA	1048576
/* Not every point is tried, but at random each of at most so many. */
#define STEP	6
/* More points than anything has. */
#define LIMIT	20000

/* -- the kernel's knobs */

static const struct {
	const char *path, *val;
} knobs[] = {
	/* also where an allocation may wait for memory, and of single pages */
	{ DEBUG "/failslab/ignore-gfp-wait", "N" },
	{ DEBUG "/fail_page_alloc/ignore-gfp-wait", "N" },
	{ DEBUG "/fail_page_alloc/ignore-gfp-highmem", "N" },
	{ DEBUG "/fail_page_alloc/min-order", "0" },
	/* without a stack in the log each time */
	{ DEBUG "/failslab/verbose", "0" },
	{ DEBUG "/fail_page_alloc/verbose", "0" },
	{ DEBUG "/fail_usercopy/verbose", "0" },
	{ DEBUG "/fail_make_request/verbose", "0" },
	{ DEBUG "/fail_futex/verbose", "0" },
	{ DEBUG "/fail_io_timeout/verbose", "0" },
};

static char old[ARRAY_SIZE(knobs)][32];

static bool set_knobs(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(knobs); i++) {
		if (uq_read_line(knobs[i].path, old[i], sizeof(old[i]))) {
			/* the first four are what this is all about */
			if (i < 4)
				return false;
			continue;
		}
		uq_write_line(knobs[i].path, knobs[i].val);
	}
	return true;
}

static void restore_knobs(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(knobs); i++)
		if (old[i][0])
			uq_write_line(knobs[i].path, old[i]);
}

/* -- the functions that are ours */

/* The code of user queues in one of the modules, or in one part of vmlinux. */
struct range {
	unsigned long long start, end;
	unsigned int functions;
};

/* Between two functions of ours there may be others of ours, with other names. */
#define NEAR	0x4000
/* One or two of our name are elsewhere, among the driver's own. */
#define FEW	8

/* The @n'th of them, in which the driver has many functions. */
static bool find_range(struct range *r, unsigned int n)
{
	FILE *f = fopen("/proc/kallsyms", "r");
	unsigned long long at, last = 0;
	bool ours = false, found = false;
	char line[512], name[256], type;

	while (f && !found && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%llx %c %255s", &at, &type, name) != 3 ||
		    (type != 't' && type != 'T'))
			continue;
		/* where a function begins, the one before it has ended */
		if (ours)
			r->end = at;
		ours = !strncmp(name, "nvme_uq_", 8);
		if (at - last > NEAR || at < last) {
			found = r->functions >= FEW && !n--;
			if (found)
				break;
			memset(r, 0, sizeof(*r));
		}
		if (!ours)
			continue;
		if (!r->functions++)
			r->start = at;
		last = at;
	}
	if (f)
		fclose(f);
	return found;
}

/* One function. */
static bool find_function(struct range *r, const char *wanted)
{
	FILE *f = fopen("/proc/kallsyms", "r");
	char line[512], name[256], type;
	unsigned long long at;

	memset(r, 0, sizeof(*r));
	while (f && !r->end && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%llx %c %255s", &at, &type, name) != 3)
			continue;
		if (r->start && at > r->start)
			r->end = at;
		else if (!strcmp(name, wanted))
			r->start = at;
	}
	if (f)
		fclose(f);
	return r->end;
}

static const char * const filtered[] = { "failslab", "fail_page_alloc" };

static bool set_filters(const char *what, unsigned long long val)
{
	char path[64], line[32];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(filtered); i++) {
		snprintf(path, sizeof(path), DEBUG "/%s/%s", filtered[i], what);
		snprintf(line, sizeof(line), "%#llx", val);
		if (uq_write_line(path, line))
			return false;
	}
	return true;
}

/*
 * An interrupt without files in /proc, as they could not be made, warns when it
 * is freed. That is not ours to fail.
 */
static bool set_filter(unsigned long long start, unsigned long long end)
{
	struct range irq = { };

	if (start && !find_function(&irq, "register_irq_proc"))
		return false;
	return set_filters("stacktrace-depth", 32) &&
		set_filters("reject-start", irq.start) &&
		set_filters("reject-end", irq.end) &&
		set_filters("require-start", start) &&
		set_filters("require-end", end);
}

/* -- the n'th point */

static void set_nth(int fd, unsigned int n)
{
	char val[16];
	int len = snprintf(val, sizeof(val), "%u", n);

	/* this, too, copies from user space: it may be the one to fail */
	while (pwrite(fd, val, len, 0) < 0 && errno == EFAULT)
		;
}

/* Was the point reached that was to fail? Nothing fails from now on. */
static bool end_nth(int fd)
{
	char val[16] = "";
	ssize_t len = pread(fd, val, sizeof(val) - 1, 0);
	bool reached = len > 0 && atoi(val) == 0;

	set_nth(fd, 0);
	return reached;
}

FIXTURE(nth)
{
	struct uq_node node;
	char pci[64];
	char depth[16];
	struct io_uring ring;
	int nth;
	int fd;
	int file;		/* of a test's own */
	unsigned char *buf;
	struct uq_peace peace;
	bool has_ring, has_buffers;
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

UQ_LEAVE_OUT("nth.*_no_sgl.open_and_close", "not about data");
UQ_LEAVE_OUT("nth.*_no_sgl.ring_teardown", "not about data");
UQ_LEAVE_OUT("nth.*_no_sgl.claim_map_and_limit", "not about data");
UQ_LEAVE_OUT("nth.*_no_sgl.parameters_and_attributes", "not about data");
UQ_LEAVE_OUT("nth.*_no_sgl.probe", "not about data");
UQ_LEAVE_OUT("nth.*_no_sgl.reset_and_scan", "not about data");
UQ_LEAVE_OUT("nth.poll.probe", "once is enough");
UQ_LEAVE_OUT("nth.poll.reset_and_scan", "once is enough");

FIXTURE_SETUP(nth)
{
	struct uq_ns ns;

	self->nth = open("/proc/thread-self/fail-nth", O_RDWR);
	if (self->nth < 0 || !set_knobs())
		SKIP(return, "nothing can fail (CONFIG_FAILSLAB, CONFIG_FAIL_PAGE_ALLOC)");
	ASSERT_TRUE(uq_ns_nth(&ns, 0));
	if (variant->no_sgl && uq_fault_no_sgl(&ns, true))
		SKIP(return, UQ_NO_FAULTS);
	if (ns.lba != 512 || ns.ms)
		SKIP(return, "%s has blocks of %u bytes, with %u of metadata",
		     ns.block, ns.lba, ns.ms);
	ASSERT_EQ(0, uq_bring_up(&ns, 2, 2));
	ASSERT_TRUE(uq_wait_nodes(&ns, 2, 2));
	ASSERT_TRUE(uq_node_nth(&self->node, &ns, variant->poll, 0));
	ASSERT_EQ(0, uq_pci_of(&ns, self->pci, sizeof(self->pci)));
	uq_peace_begin(&self->peace, uq_scale() > 1);
	self->buf = uq_alloc(AREA);
	ASSERT_NE(NULL, self->buf);
	/* pages that are there, each by itself */
	madvise(self->buf, AREA, MADV_NOHUGEPAGE);
	memset(self->buf, 1, AREA);
	self->fd = -1;
	self->file = -1;
	uq_rng_init(&self->rng, uq_seed(), 0);
	self->step = uq_scale() > 1 ? 1 : STEP;
}

FIXTURE_TEARDOWN(nth)
{
	set_nth(self->nth, 0);
	restore_knobs();
	set_filter(0, ~0ull);
	if (variant->no_sgl && self->node.name[0])
		EXPECT_EQ(0, uq_fault_clear(self->node.ns.ctrl));
	if (!self->buf)
		return;
	munmap(self->buf, AREA);
	EXPECT_TRUE(uq_peace_kept(&self->peace));
}

/* -- rings, for commands in which something fails and for those after */

static unsigned int ring_flags(const struct uq_node *node)
{
	return node->poll ? IORING_SETUP_IOPOLL : 0;
}

static int open_ring(FIXTURE_DATA(nth) *self)
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

static void close_ring(FIXTURE_DATA(nth) *self)
{
	if (self->has_ring)
		io_uring_queue_exit(&self->ring);
	if (self->fd >= 0)
		close(self->fd);
	self->has_ring = false;
	self->fd = -1;
}

/* A read through a node that is opened for it, while nothing fails. */
static int works(const struct uq_node *node, void *buf)
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

/*
 * Do something again and again: one of its first points fails, then a later one,
 * and so on, until there is none that was not reached. @before and @after are
 * spared; @op returns an errno that has to be among those of is_ok().
 */
struct sweep {
	const char *name;
	int (*before)(FIXTURE_DATA(nth) *self);
	int (*op)(FIXTURE_DATA(nth) *self);
	void (*after)(FIXTURE_DATA(nth) *self);
};

static bool is_ok(int ret)
{
	switch (-ret) {
	case 0:
	case ENOMEM:		/* no memory */
	case EFAULT:		/* memory that cannot be copied from or to */
	case EAGAIN:		/* io_uring: no memory for a request, a worker */
	case ECANCELED:		/* io_uring: no worker came to be for a request */
		return true;
	}
	return false;
}

/* How far it is to the next point that is tried. */
static unsigned int skip(FIXTURE_DATA(nth) *self)
{
	return 1 + uq_below(&self->rng, self->step);
}

static void sweep(struct __test_metadata *_metadata, FIXTURE_DATA(nth) *self,
		  const struct sweep *s)
{
	unsigned int n, failed = 0, fine = 0;
	bool reached = true;
	int ret;

	for (n = skip(self); reached; n += skip(self)) {
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
		failed += ret != 0;
		fine += !ret;
		if (s->after)
			s->after(self);
		ASSERT_EQ(0, works(&self->node, self->buf))
			TH_LOG("%s, point %u", s->name, n);
	}
	TH_LOG("%s: %u points at most, %u answers of failure, %u of success",
	       s->name, n - 1, failed, fine);
	EXPECT_TRUE(uq_wait_idle(self->node.name));
	EXPECT_EQ(uq_attr(self->node.name, "submitted"),
		  uq_attr(self->node.name, "completed"));
	EXPECT_GE(1, uq_fill_slots(&self->node));
}

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
	const struct sweep open_it = { "open", NULL, op_open, close_file };
	const struct sweep close_it = { "close", before_close, op_close, NULL };

	sweep(_metadata, self, &open_it);
	sweep(_metadata, self, &close_it);
}

/* -- commands: the first of its kind in a new ring */

static struct iovec vec[48];

static int before_cmd(FIXTURE_DATA(nth) *self)
{
	unsigned int i;

	/* pieces that are not neighbours, more than fit into a tag's list */
	for (i = 0; i < ARRAY_SIZE(vec); i++)
		vec[i] = (struct iovec){ self->buf + i * 8192, 4096 };
	return open_ring(self);
}

static void after_cmd(FIXTURE_DATA(nth) *self)
{
	close_ring(self);
}

/*
 * Submit and wait, while both may fail: what was not submitted is an error, what
 * was ends.
 */
static int run_failing(FIXTURE_DATA(nth) *self, unsigned int n)
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

static struct nvme_uring_cmd *prep(FIXTURE_DATA(nth) *self, size_t at,
				   __u32 len)
{
	return uq_prep(&self->ring, self->fd, self->node.nsid, CMD_READ, 0,
		       self->buf + at, len);
}

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
	prep(self, 0, 8192)->opcode = CMD_WRITE;
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

TEST_F(nth, first_command)
{
	const struct sweep kinds[] = {
		{ "a page", before_cmd, op_plain, after_cmd },
		{ "several pieces", before_cmd, op_pieces, after_cmd },
		{ "the most pieces", before_cmd, op_most_pieces, after_cmd },
		{ "a registered page", before_cmd, op_fixed, after_cmd },
		{ "registered pieces", before_cmd, op_fixed_pieces, after_cmd },
		{ "a vector", before_cmd, op_vec, after_cmd },
		{ "a registered vector", before_cmd, op_fixed_vec, after_cmd },
		{ "a write", before_cmd, op_write, after_cmd },
		{ "a batch", before_cmd, op_batch, after_cmd },
		{ "by a worker", before_cmd, op_async, after_cmd },
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

/* Reads of another node are no use here: blocks have metadata there. */
TEST_F(nth, metadata)
{
	const struct sweep meta[] = {
		{ "metadata", before_cmd, op_meta, after_cmd },
		{ "metadata of a registered page", before_cmd, op_fixed_meta,
		  after_cmd },
	};
	struct uq_node other, first = self->node;
	struct uq_ns ns;
	unsigned int i, n;
	bool reached;
	int ret;

	if (!uq_ns_find(&ns, uq_separate_metadata))
		SKIP(return, "no such metadata (or CONFIG_BLK_DEV_INTEGRITY)");
	ASSERT_EQ(0, uq_bring_up(&ns, 2, 2));
	ASSERT_TRUE(uq_wait_nodes(&ns, 2, 2));
	ASSERT_TRUE(uq_node_nth(&other, &ns, variant->poll, 0));
	self->node = other;
	for (i = 0; i < ARRAY_SIZE(meta); i++) {
		reached = true;
		for (n = skip(self); reached; n += skip(self)) {
			ASSERT_EQ(0, meta[i].before(self));
			set_nth(self->nth, n);
			ret = meta[i].op(self);
			reached = end_nth(self->nth);
			EXPECT_TRUE(is_ok(ret) || (variant->no_sgl && ret > 0))
				TH_LOG("%s, point %u: %d", meta[i].name, n,
				       ret);
			meta[i].after(self);
		}
		TH_LOG("%s: %u points", meta[i].name, n - 1);
		/* and once more, with nothing that fails */
		ASSERT_EQ(0, meta[i].before(self));
		EXPECT_EQ(0, meta[i].op(self));
		meta[i].after(self);
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
		"teardown", before_teardown, op_teardown, NULL
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

/* A page that is not there for lack of memory is asked for again. */
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
	char path[128], val[16];
	unsigned int i;
	int ret = 0;

	for (i = 0; i < 4 && !ret; i++) {
		snprintf(path, sizeof(path),
			 "/sys/class/nvme-generic/%s/user_queue/%s",
			 self->node.name, names[i % 2]);
		snprintf(val, sizeof(val), "%u", i < 2 ? 1 : self->node.depth);
		ret = uq_write_line(path, val);
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
		{ "claim", op_open, op_claim, close_file },
		{ "mapping", before_map, op_map, close_file },
		{ "limits", op_open, op_limits, after_limits },
		{ "limits in sysfs", NULL, op_limit_attrs, after_limit_attrs },
	};
	unsigned int i, step = self->step;

	if (before_map(self) == -EOPNOTSUPP)
		SKIP(return, "completion queues cannot be mapped here");
	close_file(self);
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		/* few points, and behind one of them a claim or a page fault */
		self->step = i < 2 ? 1 : step;
		sweep(_metadata, self, &kinds[i]);
	}
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
		{ "parameter", NULL, op_param, NULL },
		{ "depth", NULL, op_depth, NULL },
		{ "attributes", NULL, op_attrs, NULL },
	};
	unsigned int i;

	ASSERT_EQ(0, uq_read_line("/sys/module/nvme/parameters/io_queue_depth",
				  self->depth, sizeof(self->depth)));
	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		sweep(_metadata, self, &kinds[i]);
	EXPECT_EQ(0, uq_param_set("io_queue_depth", self->depth));
}

/* -- what the driver does to a device */

/*
 * A point takes seconds, and a probe has thousands, so some of them are taken, at
 * random. UQ_TEST_SCALE makes it many more.
 */
#define TRIES	3

/* The points that are tried, of so many. */
struct picked {
	unsigned int points, tries, n;
};

static bool pick(FIXTURE_DATA(nth) *self, struct picked *p)
{
	unsigned int most = TRIES * uq_scale() * uq_scale();

	if (p->tries == (p->points < most ? p->points : most))
		return false;
	p->tries++;
	p->n = p->points <= most ? p->tries :
		1 + uq_below(&self->rng, p->points);
	return true;
}

static int unbind_device(FIXTURE_DATA(nth) *self)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/driver/unbind",
		 self->pci);
	return access(path, F_OK) ? 0 : uq_write_line(path, self->pci);
}

static int bind_device(FIXTURE_DATA(nth) *self)
{
	return uq_write_line("/sys/bus/pci/drivers/nvme/bind", self->pci);
}

/* Whatever failed, after a probe without faults all is there again. */
static void expect_whole(struct __test_metadata *_metadata,
			 FIXTURE_DATA(nth) *self, const char *what,
			 unsigned int n)
{
	unsigned int irq = 0, poll = 0, i;
	struct uq_node node;
	struct uq_ns ns = self->node.ns;

	ns.ctrl = uq_ctrl_of_pci(self->pci);
	if (ns.ctrl < 0 || uq_reset(ns.ctrl)) {
		EXPECT_EQ(0, unbind_device(self));
		ASSERT_EQ(0, bind_device(self)) TH_LOG("%s, point %u", what, n);
	}
	for (i = 0; irq != 2 || poll != 2; i++) {
		ASSERT_GT(600000, i) TH_LOG("%s, point %u: %u/%u queues", what,
					    n, irq, poll);
		uq_count_of_pci(self->pci, &irq, &poll);
		usleep(1000);
	}
	for (i = 0; uq_node_of_pci(&node, self->pci, i); i++) {
		node.nsid = self->node.nsid;
		ASSERT_EQ(0, works(&node, self->buf))
			TH_LOG("%s, point %u: %s", what, n, node.name);
		if (node.poll == self->node.poll) {
			node.ns = self->node.ns;
			node.ns.ctrl = uq_ctrl_of_pci(self->pci);
			self->node = node;
		}
	}
}

/* Which code fails: that of user queues in nvme-core, or in nvme. */
static bool choose(unsigned int part, const char **name)
{
	static const char * const names[] = { "the front half", "the back half" };
	struct range r = { };
	const char *s = getenv("UQ_TEST_FAIL_ANYWHERE");

	*name = names[part];
	if (s && *s) {
		*name = "anything";
		return set_filter(0, ~0ull) && !part;
	}
	return find_range(&r, part) && set_filter(r.start, r.end);
}

#define CANNOT_CHOOSE \
	"all would fail (CONFIG_FAULT_INJECTION_STACKTRACE_FILTER)"

/* How many points are left of those that were set? */
static unsigned int points_left(int fd)
{
	char val[16] = "";

	return pread(fd, val, sizeof(val) - 1, 0) > 0 ? atoi(val) : LIMIT;
}

/* How many does a probe have in the task that asks for it? */
static unsigned int probe_points(struct __test_metadata *_metadata,
				 FIXTURE_DATA(nth) *self)
{
	unsigned int left;

	EXPECT_EQ(0, unbind_device(self));
	set_nth(self->nth, LIMIT);
	EXPECT_EQ(0, bind_device(self));
	left = points_left(self->nth);
	set_nth(self->nth, 0);
	expect_whole(_metadata, self, "probe", 0);
	return LIMIT - left;
}

static void sweep_probe(struct __test_metadata *_metadata,
			FIXTURE_DATA(nth) *self, const char *part)
{
	struct picked p = { .points = probe_points(_metadata, self) };
	unsigned int failed = 0, reached = 0;
	int ret;

	while (pick(self, &p)) {
		EXPECT_EQ(0, unbind_device(self));
		set_nth(self->nth, p.n);
		ret = bind_device(self);
		reached += end_nth(self->nth);
		failed += ret != 0;
		expect_whole(_metadata, self, "probe", p.n);
	}
	TH_LOG("probe, %s: %u points, %u of them tried, %u reached, %u failed",
	       part, p.points, p.tries, reached, failed);
}

/* A probe in which something fails ends, with an errno or not, and the next works. */
TEST_F_TIMEOUT(nth, probe, 3 * 3600)
{
	const char *part;
	unsigned int i;

	if (!choose(0, &part))
		SKIP(return, CANNOT_CHOOSE);
	for (i = 0; i < 2 && choose(i, &part); i++)
		sweep_probe(_metadata, self, part);
}

/* -- what runs in a worker */

/*
 * Those of all queues that are bound to no processor, as there is no telling
 * which of them will run the reset and the scan after it.
 */
static void each_worker(void (*fn)(int fd, unsigned int *arg),
			unsigned int *arg)
{
	struct dirent *e;
	DIR *d = opendir("/proc");

	while (d && (e = readdir(d))) {
		char path[64], comm[32];
		int fd;

		snprintf(path, sizeof(path), "/proc/%.20s/comm", e->d_name);
		if (uq_read_line(path, comm, sizeof(comm)) ||
		    strncmp(comm, "kworker/u", 9))
			continue;
		snprintf(path, sizeof(path), "/proc/%.20s/fail-nth", e->d_name);
		fd = open(path, O_RDWR);
		if (fd < 0)
			continue;
		fn(fd, arg);
		close(fd);
	}
	if (d)
		closedir(d);
}

static void set_worker(int fd, unsigned int *n)
{
	set_nth(fd, *n);
}

static void end_worker(int fd, unsigned int *reached)
{
	*reached += end_nth(fd);
}

static void count_worker(int fd, unsigned int *points)
{
	unsigned int left = points_left(fd);

	if (left && LIMIT - left > *points)
		*points = LIMIT - left;
	set_nth(fd, 0);
}

struct work {
	const char *name;
	int (*before)(FIXTURE_DATA(nth) *self);
	int (*op)(FIXTURE_DATA(nth) *self);
};

/* How many has the worker that has the most of them? */
static unsigned int worker_points(struct __test_metadata *_metadata,
				  FIXTURE_DATA(nth) *self, const struct work *w)
{
	unsigned int points = 0, limit = LIMIT;

	if (w->before)
		EXPECT_EQ(0, w->before(self));
	each_worker(set_worker, &limit);
	EXPECT_EQ(0, w->op(self));
	each_worker(count_worker, &points);
	expect_whole(_metadata, self, w->name, 0);
	return points;
}

static void sweep_work(struct __test_metadata *_metadata,
		       FIXTURE_DATA(nth) *self, const struct work *w,
		       const char *part)
{
	struct picked p = { .points = worker_points(_metadata, self, w) };
	unsigned int failed = 0, reached = 0;

	while (pick(self, &p)) {
		if (w->before)
			EXPECT_EQ(0, w->before(self));
		each_worker(set_worker, &p.n);
		failed += w->op(self) != 0;
		each_worker(end_worker, &reached);
		expect_whole(_metadata, self, w->name, p.n);
	}
	TH_LOG("%s, %s: %u points, %u of them tried, %u reached, %u failed",
	       w->name, part, p.points, p.tries, reached, failed);
}

static int op_reset(FIXTURE_DATA(nth) *self)
{
	return uq_reset(uq_ctrl_of_pci(self->pci));
}

/*
 * Nodes are made and taken away by a scan. A command that may have changed
 * namespaces waits for it, whatever comes of the command: this one is refused.
 */
static int settle(FIXTURE_DATA(nth) *self)
{
	struct uq_ns ns = self->node.ns;

	ns.ctrl = uq_ctrl_of_pci(self->pci);
	return uq_attach(&ns, true) < 0;
}

static int before_anew(FIXTURE_DATA(nth) *self)
{
	struct uq_ns ns = { .ctrl = uq_ctrl_of_pci(self->pci) };

	return uq_bring_up(&ns, 0, 0) ?: settle(self);
}

static int op_anew(FIXTURE_DATA(nth) *self)
{
	struct uq_ns ns = { .ctrl = uq_ctrl_of_pci(self->pci) };

	return uq_bring_up(&ns, 2, 2) ?: settle(self);
}

/* Queues of another size have to get other memory. */
static int before_depth(FIXTURE_DATA(nth) *self)
{
	return uq_param_set("io_queue_depth", "64") ?: op_reset(self);
}

static int op_new_depth(FIXTURE_DATA(nth) *self)
{
	return uq_param_set("io_queue_depth", self->depth) ?: op_reset(self);
}

static int op_probe(FIXTURE_DATA(nth) *self)
{
	int ret = bind_device(self);

	return ret ?: settle(self);
}

/* No task ends by it, and the next reset brings all back. */
TEST_F_TIMEOUT(nth, reset_and_scan, 6 * 3600)
{
	const struct work kinds[] = {
		{ "reset", NULL, op_reset },
		{ "queues and nodes", before_anew, op_anew },
		{ "another depth", before_depth, op_new_depth },
		{ "nodes of a probe", unbind_device, op_probe },
	};
	const char *part;
	unsigned int i, k;

	if (!choose(0, &part))
		SKIP(return, CANNOT_CHOOSE);
	ASSERT_EQ(0, uq_read_line("/sys/module/nvme/parameters/io_queue_depth",
				  self->depth, sizeof(self->depth)));
	for (i = 0; i < 2 && choose(i, &part); i++)
		for (k = 0; k < ARRAY_SIZE(kinds); k++)
			sweep_work(_metadata, self, &kinds[k], part);
	EXPECT_EQ(0, uq_param_set("io_queue_depth", self->depth));
	EXPECT_EQ(0, uq_param_set("user_irq_queues", "2"));
	EXPECT_EQ(0, uq_param_set("user_poll_queues", "2"));
}

int main(int argc, char **argv)
{
	return uq_main(argc, argv);
}
