// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: every allocation and every copy from or to user space fails
 * once, at each point where it can, and nothing is lost for it: the answer is
 * success or an errno that is documented, and the queue goes on to work.
 *
 * /proc/thread-self/fail-nth makes the n'th such point fail in this task: the first
 * of all points and some of the others, by chance, and each of those that the user
 * queues' own functions ask for. What runs in a worker of the kernel, resets and
 * scans, cannot be told apart by its task. There, failslab and fail_page_alloc fail
 * what a function asks for, or what it calls, in whatever task, one allocation
 * after the other, from the last to the first. Allocations of others are not
 * touched: most of a probe are not the driver's, and some of those warn or worse.
 * Each sweep is to reach something, and to make something fail. Needs what the file
 * config says of faults. Best with panic_on_warn.
 */
#define _GNU_SOURCE
#define UQ_DISRUPTIVE	true
#include <limits.h>
#include <linux/nvme_uq.h>

#include "uq_inject.h"
#include "uq_fixture.h"
#include "uq_random.h"

#define DEBUG	"/sys/kernel/debug"
#define AREA	1048576
/* After the first points not every one is tried, but one of at most STEP. */
#define FIRST	8
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

/* -- functions, by name */

struct range {
	unsigned long long start, end;
};

struct symbol {
	unsigned long long at;
	char *name;		/* NULL for those that have no part in this */
};

#define OURS_BEGIN	"nvme_uq_"
/* Between two functions of ours there may be others of ours, with other names. */
#define NEAR	0x4000
/*
 * An interrupt without files in /proc, as they could not be made, warns when it
 * is freed. That is not ours to fail.
 */
#define IRQ_FILES	"register_irq_proc"
/* What kmemleak, if there is one, asks for at each allocation, and can do without. */
#define LEAK_RECORDS	"__alloc_object"

/* All functions, by address, and what comes after the last one; read once. */
static struct symbol *symbols;
static size_t nr_symbols;

static int by_address(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

static bool add_symbol(unsigned long long at, const char *name)
{
	struct symbol *more;

	if (!(nr_symbols & (nr_symbols + 1))) {
		more = realloc(symbols, 2 * (nr_symbols + 1) * sizeof(*more));
		if (!more)
			return false;
		symbols = more;
	}
	symbols[nr_symbols++] = (struct symbol){
		at, name ? strdup(name) : NULL
	};
	return true;
}

static void read_symbols(void)
{
	FILE *f = fopen("/proc/kallsyms", "r");
	char line[512], name[256], type;
	unsigned long long at;
	bool wanted;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%llx %c %255s", &at, &type, name) != 3 ||
		    (type != 't' && type != 'T'))
			continue;
		wanted = !strncmp(name, OURS_BEGIN, strlen(OURS_BEGIN)) ||
			!strcmp(name, IRQ_FILES) || !strcmp(name, LEAK_RECORDS);
		if (!add_symbol(at, wanted ? name : NULL))
			break;
	}
	if (f)
		fclose(f);
	add_symbol(~0ull, NULL);
	qsort(symbols, nr_symbols, sizeof(*symbols), by_address);
}

static bool is_ours(size_t i)
{
	return symbols[i].name && !strncmp(symbols[i].name, OURS_BEGIN,
					   strlen(OURS_BEGIN));
}

static bool find_symbol(const char *wanted, size_t *i)
{
	for (*i = 0; *i < nr_symbols; ++*i)
		if (symbols[*i].name && !strcmp(symbols[*i].name, wanted))
			return true;
	return false;
}

/* One function. */
static bool find_function(struct range *r, const char *wanted)
{
	size_t i;

	if (!find_symbol(wanted, &i))
		return false;
	r->start = symbols[i].at;
	while (symbols[i].at == r->start)
		i++;
	r->end = symbols[i].at;
	return true;
}

/* Those of user queues that are around one of them. */
static bool find_range(struct range *r, const char *wanted)
{
	size_t first, last, i;

	if (!find_symbol(wanted, &i))
		return false;
	for (first = last = i;
	     i && symbols[first].at - symbols[i - 1].at <= NEAR; i--)
		if (is_ours(i - 1))
			first = i - 1;
	for (i = last + 1; symbols[i].at - symbols[last].at <= NEAR; i++)
		if (is_ours(i))
			last = i;
	r->start = symbols[first].at;
	r->end = symbols[last + 1].at;
	return true;
}

/* What fails allocations, and what fails copies. */
static const char * const filtered[] = {
	"failslab", "fail_page_alloc", "fail_usercopy"
};

#define NR_ALLOC	2

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

/* Only below functions of @require, and not below those of @reject. */
static bool set_filter(const struct range *require,
		       const struct range *reject)
{
	return set_filters("stacktrace-depth", 32) &&
		set_filters("reject-start", reject->start) &&
		set_filters("reject-end", reject->end) &&
		set_filters("require-start", require->start) &&
		set_filters("require-end", require->end);
}

static bool filter_nothing(void)
{
	const struct range all = { 0, ~0ull }, none = { };

	return set_filter(&all, &none);
}

/* All but what kmemleak asks for. */
static bool filter_leaks(void)
{
	struct range all = { 0, ~0ull }, leak = { };

	find_function(&leak, LEAK_RECORDS);
	return set_filter(&all, &leak);
}

/* What @function asks for, and what it calls, but for @not if there is such. */
static bool filter_function(const char *function, const char *not)
{
	struct range r, n = { };

	find_function(&n, not);
	return find_function(&r, function) && set_filter(&r, &n);
}

/* Of the driver's two halves, which may be one after the other, everything. */
static bool filter_ours(void)
{
	struct range core, pci, both, leak = { };

	if (!find_range(&core, "nvme_uq_update_nodes") ||
	    !find_range(&pci, "nvme_uq_create"))
		return false;
	find_function(&leak, LEAK_RECORDS);
	both.start = core.start < pci.start ? core.start : pci.start;
	both.end = core.end > pci.end ? core.end : pci.end;
	return set_filter(&both, &leak);
}

/* What the kernel lacks, as it stands in the file config; NULL if nothing. */
static const char *lacks(void)
{
	static const char * const needs[][2] = {
		{ "failslab", "CONFIG_FAILSLAB" },
		{ "fail_page_alloc", "CONFIG_FAIL_PAGE_ALLOC" },
		{ "fail_usercopy", "CONFIG_FAULT_INJECTION_USERCOPY" },
		{ "failslab/require-start",
		  "CONFIG_FAULT_INJECTION_STACKTRACE_FILTER" },
	};
	char path[64];
	unsigned int i;

	if (access("/proc/thread-self/fail-nth", F_OK))
		return "CONFIG_FAULT_INJECTION";
	if (access(DEBUG, F_OK))
		return "CONFIG_FAULT_INJECTION_DEBUG_FS, and debugfs mounted";
	for (i = 0; i < ARRAY_SIZE(needs); i++) {
		snprintf(path, sizeof(path), DEBUG "/%s", needs[i][0]);
		if (access(path, F_OK))
			return needs[i][1];
	}
	return NULL;
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

/* -- one allocation after the other, in whatever task */

static bool set_attr(const char *attr, const char *name, int val)
{
	char path[64], line[16];

	snprintf(path, sizeof(path), DEBUG "/%s/%s", attr, name);
	snprintf(line, sizeof(line), "%d", val);
	return !uq_write_line(path, line);
}

static int get_attr(const char *attr, const char *name)
{
	char path[64], line[16];

	snprintf(path, sizeof(path), DEBUG "/%s/%s", attr, name);
	return uq_read_line(path, line, sizeof(line)) ? -1 : atoi(line);
}

/*
 * The first allocation fails that there are not more than @space bytes left for,
 * @times in all, or -1 for all after it.
 */
static bool arm(const char *attr, int space, int times)
{
	return set_attr(attr, "times", 0) && set_attr(attr, "interval", 1) &&
		set_attr(attr, "space", space) &&
		set_attr(attr, "probability", 100) &&
		set_attr(attr, "times", times);
}

/* Did one fail? @space: what is left of it, less what was left for the others. */
static bool disarm(const char *attr, int *space)
{
	bool failed = get_attr(attr, "times") == 0;

	set_attr(attr, "times", 0);
	set_attr(attr, "probability", 0);
	*space -= get_attr(attr, "space");
	set_attr(attr, "space", 0);
	return failed;
}

static void disarm_all(void)
{
	int space = 0;
	unsigned int i;

	for (i = 0; i < NR_ALLOC; i++)
		disarm(filtered[i], &space);
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

UQ_LEAVE_OUT("nth.*_no_sgl.open_and_close", "not about data");
UQ_LEAVE_OUT("nth.*_no_sgl.ring_teardown", "not about data");
UQ_LEAVE_OUT("nth.*_no_sgl.claim_map_and_limit", "not about data");
UQ_LEAVE_OUT("nth.*_no_sgl.parameters_and_attributes", "not about data");
UQ_LEAVE_OUT("nth.*_no_sgl.reset", "not about data");
UQ_LEAVE_OUT("nth.*_no_sgl.scan", "not about data");
UQ_LEAVE_OUT("nth.*_no_sgl.probe", "not about data");
UQ_LEAVE_OUT("nth.*_no_sgl.first_lists", "lists of PRPs are from the same pool");
UQ_LEAVE_OUT("nth.poll.reset", "once is enough");
UQ_LEAVE_OUT("nth.poll.scan", "once is enough");
UQ_LEAVE_OUT("nth.poll.probe", "once is enough");
UQ_LEAVE_OUT("nth.poll.first_lists", "the controller has one pool");

FIXTURE_SETUP(nth)
{
	struct uq_ns ns;

	if (lacks())
		SKIP(return, "not all can fail (%s)", lacks());
	self->nth = open("/proc/thread-self/fail-nth", O_RDWR);
	ASSERT_LE(0, self->nth);
	ASSERT_TRUE(set_knobs());
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
	self->no_sgl = variant->no_sgl;
	uq_rng_init(&self->rng, uq_seed(), 0);
	self->step = uq_scale() > 1 ? 1 : STEP;
}

FIXTURE_TEARDOWN(nth)
{
	set_nth(self->nth, 0);
	disarm_all();
	restore_knobs();
	filter_nothing();
	if (self->depth[0])
		uq_param_set("io_queue_depth", self->depth);
	/* the queues of other programs have SGLs again */
	if (variant->no_sgl && self->node.name[0]) {
		EXPECT_EQ(0, uq_fault_clear(self->node.ns.ctrl));
		EXPECT_EQ(0, uq_reset(self->node.ns.ctrl));
	}
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

/* What has to be of what is swept over, at the least once. */
#define REACHED	1	/* a point of whatever code, with whatever answer */
#define SOME	2	/* one of the first points: an answer of failure */
#define OURS	4	/* a point of user queues' own: such an answer, too */

/* What came of the points of a sweep. */
struct tally {
	const char *whose;
	unsigned int points, failed, first, missed;
};

#define NO_POINT	"%s, %s: no point was reached"
#define NO_FAILURE	"%s, %s: nothing failed"

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
	unsigned int fails;
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

/* @step: how many points are passed over at the most, and one */
static unsigned int next_point(FIXTURE_DATA(nth) *self, unsigned int n,
			       unsigned int step)
{
	return n + 1 + (n < FIRST ? 0 : uq_below(&self->rng, step));
}

static void sweep_points(struct __test_metadata *_metadata,
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

static void sweep(struct __test_metadata *_metadata, FIXTURE_DATA(nth) *self,
		  const struct sweep *s)
{
	struct tally all = { .whose = "all points" };
	struct tally ours = { .whose = "user queues' own" };

	ASSERT_TRUE(filter_leaks());
	sweep_points(_metadata, self, s, self->step, &all);
	if (s->fails & REACHED)
		EXPECT_LT(0, all.points) TH_LOG(NO_POINT, s->name, all.whose);
	if (s->fails & SOME) {
		EXPECT_LT(0, all.first) TH_LOG(NO_FAILURE, s->name, all.whose);
		EXPECT_GE(FIRST, all.first)
			TH_LOG("%s: failed by chance only", s->name);
	}

	ASSERT_TRUE(filter_ours());
	sweep_points(_metadata, self, s, 1, &ours);
	ASSERT_TRUE(filter_nothing());
	if (s->fails & OURS) {
		EXPECT_LT(0, ours.points) TH_LOG(NO_POINT, s->name, ours.whose);
		EXPECT_LT(0, ours.failed)
			TH_LOG(NO_FAILURE, s->name, ours.whose);
	}
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
	const struct sweep open_it = { "open", NULL, op_open, close_file,
					REACHED | SOME | OURS };
	const struct sweep close_it = { "close", before_close, op_close, NULL,
					 0 };

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

/*
 * The first command of a ring cannot do without memory for its copy, whatever its
 * data. User queues ask for a list where its pieces are several. For one page they
 * ask for nothing: if an IOMMU does, a worker submits the command again.
 */
TEST_F(nth, first_command)
{
	const struct sweep kinds[] = {
		{ "a page", before_cmd, op_plain, after_cmd,
		  REACHED | SOME },
		{ "several pieces", before_cmd, op_pieces, after_cmd,
		  REACHED | SOME | OURS },
		{ "the most pieces", before_cmd, op_most_pieces, after_cmd,
		  REACHED | SOME | OURS },
		{ "a registered page", before_cmd, op_fixed, after_cmd,
		  REACHED | SOME },
		{ "registered pieces", before_cmd, op_fixed_pieces, after_cmd,
		  REACHED | SOME | OURS },
		{ "a vector", before_cmd, op_vec, after_cmd,
		  REACHED | SOME | OURS },
		{ "a registered vector", before_cmd, op_fixed_vec, after_cmd,
		  REACHED | SOME | OURS },
		{ "a write", before_cmd, op_write, after_cmd,
		  REACHED | SOME | OURS },
		{ "a batch", before_cmd, op_batch, after_cmd,
		  REACHED | SOME },
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

/* Reads of another node are no use here: blocks have metadata there. */
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
	/* and once more, with nothing that fails */
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

		ASSERT_TRUE(filter_leaks());
		sweep_meta(_metadata, self, &meta[i], self->step, &all);
		ASSERT_TRUE(filter_ours());
		sweep_meta(_metadata, self, &meta[i], 1, &ours);
		ASSERT_TRUE(filter_nothing());
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
		{ "claim", op_open, op_claim, close_file,
		  REACHED | SOME | OURS },
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

/* -- what the driver does to a device */

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

/*
 * What is done to a device while an allocation of a function fails, or of what it
 * calls, but for @not. @before is spared: it prepares what @op makes, unless the
 * last @op @retries that because it failed. Without faults there are so many nodes
 * after it.
 */
struct work {
	const char *name, *function, *not;
	int (*before)(FIXTURE_DATA(nth) *self);
	int (*op)(FIXTURE_DATA(nth) *self);
	unsigned int irq, poll;
	bool retries;
	unsigned int fails;
};

#define SLAB		1	/* failslab */
#define PAGES		2	/* fail_page_alloc */
#define UNFELT		4	/* @op does without */
#define ONLY_FIRST	8	/* the first allocation alone: the others are elsewhere */

static bool worse_off(FIXTURE_DATA(nth) *self, const struct work *w)
{
	unsigned int irq, poll;

	uq_count_of_pci(self->pci, &irq, &poll);
	return irq != w->irq || poll != w->poll;
}

/* Once nothing fails, the next @op makes all nodes, and they work. */
static void expect_whole(struct __test_metadata *_metadata,
			 FIXTURE_DATA(nth) *self, const struct work *w)
{
	struct uq_node node;
	unsigned int i;

	if (w->before && !w->retries)
		ASSERT_EQ(0, w->before(self)) TH_LOG("%s", w->name);
	ASSERT_EQ(0, w->op(self)) TH_LOG("%s", w->name);
	ASSERT_FALSE(worse_off(self, w)) TH_LOG("%s: nodes are missing",
						w->name);
	for (i = 0; uq_node_of_pci(&node, self->pci, i); i++) {
		node.nsid = self->node.nsid;
		ASSERT_EQ(0, works(&node, self->buf))
			TH_LOG("%s: %s", w->name, node.name);
	}
}

/*
 * The first time there is space for all, which says how much they take: just not
 * enough for the last one, the next time. What was left then is what those before
 * it take, and so on.
 */
static void fail_each(struct __test_metadata *_metadata,
		      FIXTURE_DATA(nth) *self, const struct work *w,
		      const char *attr, struct tally *t)
{
	bool first = w->fails & ONLY_FIRST && uq_scale() == 1;
	int space = first ? 0 : INT_MAX, ret;
	bool failed, worse = false;

	do {
		if (w->before && !(w->retries && worse))
			ASSERT_EQ(0, w->before(self)) TH_LOG("%s", w->name);
		ASSERT_TRUE(arm(attr, space, 1));
		ret = w->op(self);
		failed = disarm(attr, &space);
		worse = ret || worse_off(self, w);
		t->points += failed;
		t->failed += failed && worse;
		t->missed += !failed;
		if (!failed)
			EXPECT_FALSE(worse) TH_LOG("%s, nothing failed: %d",
						   w->name, ret);
		ASSERT_GT(LIMIT, t->points);
	} while (space);
}

/* Of each kind that is to fail, what was reached and what failed. */
static void sweep_work(struct __test_metadata *_metadata,
		       FIXTURE_DATA(nth) *self, const struct work *w)
{
	unsigned int i;

	ASSERT_TRUE(filter_function(w->function, w->not))
		TH_LOG("the kernel has no function %s", w->function);
	for (i = 0; i < NR_ALLOC; i++) {
		struct tally t = { .whose = filtered[i] };

		if (!(w->fails & 1 << i))
			continue;
		fail_each(_metadata, self, w, filtered[i], &t);
		TH_LOG("%s, %s of %s: %u points, %u failures, %u times nothing failed",
		       w->name, t.whose, w->function, t.points, t.failed,
		       t.missed);
		EXPECT_LT(0, t.points) TH_LOG(NO_POINT, w->name, t.whose);
		if (!(w->fails & UNFELT))
			EXPECT_LT(0, t.failed)
				TH_LOG(NO_FAILURE, w->name, t.whose);
	}
	expect_whole(_metadata, self, w);
	ASSERT_TRUE(filter_nothing());
}

/*
 * Nodes are made and taken away by a scan. A command that may have changed
 * namespaces makes one and waits for it, whatever comes of the command: this one is
 * refused.
 */
static int scan(FIXTURE_DATA(nth) *self)
{
	struct uq_ns ns = self->node.ns;

	ns.ctrl = uq_ctrl_of_pci(self->pci);
	return uq_attach(&ns, true) < 0;
}

static int bring_up(FIXTURE_DATA(nth) *self, unsigned int irq,
		    unsigned int poll)
{
	struct uq_ns ns = { .ctrl = uq_ctrl_of_pci(self->pci) };

	return uq_bring_up(&ns, irq, poll) ?: scan(self);
}

/* Each allocation is there with few tags, too. */
#define FEW_TAGS	"16"
#define OTHER_TAGS	"24"

static int set_depth(const char *depth)
{
	return uq_param_set("io_queue_depth", depth);
}

/* Queues of another size have to get other memory. */
static int before_memory(FIXTURE_DATA(nth) *self)
{
	return set_depth(OTHER_TAGS) ?: bring_up(self, 0, 1) ?:
		set_depth(FEW_TAGS);
}

static int op_poll_queue(FIXTURE_DATA(nth) *self)
{
	return bring_up(self, 0, 1);
}

static int op_irq_queue(FIXTURE_DATA(nth) *self)
{
	return bring_up(self, 1, 0);
}

static void begin_works(struct __test_metadata *_metadata,
			FIXTURE_DATA(nth) *self)
{
	ASSERT_EQ(0, uq_read_line("/sys/module/nvme/parameters/io_queue_depth",
				  self->depth, sizeof(self->depth)));
	ASSERT_EQ(0, set_depth(FEW_TAGS));
}

static void end_works(struct __test_metadata *_metadata,
		      FIXTURE_DATA(nth) *self)
{
	struct uq_ns ns = self->node.ns;

	EXPECT_EQ(0, set_depth(self->depth));
	EXPECT_EQ(0, bring_up(self, 2, 2));
	ns.ctrl = uq_ctrl_of_pci(self->pci);
	EXPECT_TRUE(uq_wait_nodes(&ns, 2, 2));
}

/* None of it is the end of the controller, and the next reset brings all back. */
TEST_F_TIMEOUT(nth, reset, 3600)
{
	const struct work works[] = {
		{ "memory of a queue", "nvme_uq_create", LEAK_RECORDS,
		  before_memory, op_poll_queue, 0, 1, true, SLAB | PAGES },
		{ "interrupt of a queue", "nvme_uq_create", IRQ_FILES,
		  NULL, op_irq_queue, 1, 0, false, SLAB },
		/* most are for vectors that are not of user queues */
		{ "interrupt vectors", "nvme_uq_alloc_irqs", IRQ_FILES,
		  NULL, op_irq_queue, 1, 0, false, SLAB | ONLY_FIRST },
	};
	unsigned int i;

	begin_works(_metadata, self);
	ASSERT_EQ(0, bring_up(self, 1, 0));
	for (i = 0; i < ARRAY_SIZE(works); i++)
		sweep_work(_metadata, self, &works[i]);
	end_works(_metadata, self);
}

/* A queue that is live and has no node, as each scan failed to make it. */
static int before_node(FIXTURE_DATA(nth) *self)
{
	unsigned int irq, poll;
	int ret = bring_up(self, 0, 0);

	if (ret)
		return ret;
	if (!arm("failslab", 0, -1))
		return -ENOENT;
	ret = bring_up(self, 1, 0);
	disarm_all();
	uq_count_of_pci(self->pci, &irq, &poll);
	return ret ?: irq ? -EEXIST : 0;
}

/* The next scan makes the node. */
TEST_F_TIMEOUT(nth, scan, 3600)
{
	const struct work node = {
		"a node", "nvme_uq_update_nodes", LEAK_RECORDS,
		before_node, scan, 1, 0, true, SLAB
	};

	begin_works(_metadata, self);
	sweep_work(_metadata, self, &node);
	end_works(_metadata, self);
}

static int bind_again(FIXTURE_DATA(nth) *self, const char *irq,
		      const char *poll)
{
	return uq_param_set("user_irq_queues", irq) ?:
		uq_param_set("user_poll_queues", poll) ?: bind_device(self) ?:
		scan(self);
}

static int op_probe(FIXTURE_DATA(nth) *self)
{
	return bind_again(self, "1", "0");
}

static int before_first_poll(FIXTURE_DATA(nth) *self)
{
	return unbind_device(self) ?: op_probe(self);
}

/* A probe in which something fails ends, and the next has all queues. */
TEST_F_TIMEOUT(nth, probe, 3 * 3600)
{
	const struct work works[] = {
		{ "faults of a controller", "nvme_uq_fault_init", LEAK_RECORDS,
		  unbind_device, op_probe, 1, 0, false,
		  SLAB | UNFELT | ONLY_FIRST },
		{ "queues of a controller", "nvme_uq_set_queue_count",
		  "nvme_uq_fault_init", unbind_device, op_probe, 1, 0, false,
		  SLAB },
		/*
		 * What comes after it is as in a reset, and so are pages: the
		 * first of these may be for a slab, which can do with fewer.
		 */
		{ "pools", "nvme_uq_create", IRQ_FILES,
		  unbind_device, op_probe, 1, 0, false, SLAB | ONLY_FIRST },
		{ "the first polled queue", "nvme_uq_create", LEAK_RECORDS,
		  before_first_poll, op_poll_queue, 0, 1, false,
		  SLAB | ONLY_FIRST },
	};
	unsigned int i;

	begin_works(_metadata, self);
	/* without CONFIG_NVME_UQ_FAULT the first of these is not there */
	i = uq_can_fault(self->node.ns.ctrl) ? 0 : 1;
	for (; i < ARRAY_SIZE(works); i++)
		sweep_work(_metadata, self, &works[i]);
	end_works(_metadata, self);
}

/* Long lists come from a pool that has no memory before the first of them. */
static int before_lists(FIXTURE_DATA(nth) *self)
{
	struct uq_ns ns = self->node.ns;
	int ret = unbind_device(self) ?: bind_again(self, "1", "1");

	if (ret)
		return ret;
	ns.ctrl = uq_ctrl_of_pci(self->pci);
	return uq_wait_nodes(&ns, 1, 1) &&
		uq_node_nth(&self->node, &ns, self->node.poll, 0) ? 0 : -ENODEV;
}

/*
 * Halves of pages, more than fit into a tag's list wherever the pages lie, and
 * less than the largest transfer of a guest. By a worker, as that does not have
 * another one try again.
 */
static int op_lists(FIXTURE_DATA(nth) *self)
{
	int ret = before_cmd(self);
	struct nvme_uring_cmd *c;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(vec); i++)
		vec[i].iov_len = 2048;
	if (!ret) {
		c = prep(self, 0, ARRAY_SIZE(vec) * 2048);
		c->addr = (uintptr_t)vec;
		c->data_len = ARRAY_SIZE(vec);
		uq_sqe(c)->cmd_op = NVME_URING_CMD_IO_VEC;
		uq_sqe(c)->flags |= IOSQE_ASYNC;
		ret = run_failing(self, 1);
	}
	after_cmd(self);
	return ret;
}

TEST_F_TIMEOUT(nth, first_lists, 3600)
{
	const struct work lists[] = {
		{ "first lists", "nvme_uq_uring_cmd", LEAK_RECORDS,
		  before_lists, op_lists, 1, 1, true, SLAB },
		/* a worker waits for the memory of a pool */
		{ "first pages of lists", "nvme_uq_uring_cmd", LEAK_RECORDS,
		  before_lists, op_lists, 1, 1, true, PAGES | UNFELT },
	};
	unsigned int i;

	begin_works(_metadata, self);
	ASSERT_EQ(0, before_lists(self));
	if (op_lists(self) == -EINVAL)
		SKIP(return, "the controller has no SGLs");
	for (i = 0; i < ARRAY_SIZE(lists); i++)
		sweep_work(_metadata, self, &lists[i]);
	end_works(_metadata, self);
}

int main(int argc, char **argv)
{
	read_symbols();
	return uq_main(argc, argv);
}
