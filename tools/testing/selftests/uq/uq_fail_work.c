// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: fail each allocation of a reset, a scan and a probe once.
 * The next reset, scan or probe creates everything that was missing.
 *
 * Kernel workers cannot be selected by task, as in uq_fail_nth.c. Here,
 * failslab and fail_page_alloc fail allocations below a given function in any
 * task, one after the other, from the last to the first. Other allocations do
 * not fail: most allocations of a probe are not the driver's, and some of them
 * warn or crash on failure. Each sweep must reach an allocation, and most
 * sweeps must make the operation fail. Requires the fault injection options of
 * the file config. Best run with panic_on_warn.
 */
#define _GNU_SOURCE
#define UQ_DISRUPTIVE	true

#include "uq_nth_fixture.h"

UQ_LEAVE_OUT("nth.*_no_sgl.reset", "not about data");
UQ_LEAVE_OUT("nth.*_no_sgl.scan", "not about data");
UQ_LEAVE_OUT("nth.*_no_sgl.probe", "not about data");
UQ_LEAVE_OUT("nth.*_no_sgl.first_lists", "lists of PRPs are from the same pool");
UQ_LEAVE_OUT("nth.poll.reset", "once is enough");
UQ_LEAVE_OUT("nth.poll.scan", "once is enough");
UQ_LEAVE_OUT("nth.poll.probe", "once is enough");
UQ_LEAVE_OUT("nth.poll.first_lists", "the controller has one pool");

/* -- operations of the driver */

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
 * An operation, while allocations below @function fail, except those below
 * @not. @before prepares @op and does not fail. It is skipped if @retries is
 * set and the last @op failed. Without faults, @op leaves @irq and @poll nodes.
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
#define UNFELT		4	/* @op succeeds without it */
#define ONLY_FIRST	8	/* only the first allocation */

static bool worse_off(FIXTURE_DATA(nth) *self, const struct work *w)
{
	unsigned int irq, poll;

	uq_count_of_pci(self->pci, &irq, &poll);
	return irq != w->irq || poll != w->poll;
}

/* Without faults, the next @op creates all nodes, and they work. */
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
 * In the first round nothing fails, which shows how much memory all allocations
 * take. The next round has not enough for the last allocation. The memory used
 * until then is the limit of the following round, and so on. With ONLY_FIRST,
 * and without UQ_TEST_SCALE, the limit of the first round is 0.
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
		ASSERT_TRUE(nth_arm(attr, space, 1));
		ret = w->op(self);
		failed = nth_disarm(attr, &space);
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

/* Sweep over each requested kind of allocation, and print the counts. */
static void sweep_work(struct __test_metadata *_metadata,
		       FIXTURE_DATA(nth) *self, const struct work *w)
{
	unsigned int i;

	ASSERT_TRUE(nth_filter_function(w->function, w->not))
		TH_LOG("the kernel has no function %s", w->function);
	for (i = 0; i < NR_ALLOC; i++) {
		struct tally t = { .whose = nth_filtered[i] };

		if (!(w->fails & 1 << i))
			continue;
		fail_each(_metadata, self, w, nth_filtered[i], &t);
		TH_LOG("%s, %s of %s: %u points, %u failures, %u times nothing failed",
		       w->name, t.whose, w->function, t.points, t.failed,
		       t.missed);
		EXPECT_LT(0, t.points) TH_LOG(NO_POINT, w->name, t.whose);
		if (!(w->fails & UNFELT))
			EXPECT_LT(0, t.failed)
				TH_LOG(NO_FAILURE, w->name, t.whose);
	}
	expect_whole(_metadata, self, w);
	ASSERT_TRUE(nth_filter_nothing());
}

/*
 * A scan creates nodes. A command that may have changed namespaces starts a scan
 * and waits for it, even if the device fails the command, as here.
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

/* Few tags are enough: the same allocations occur. */
#define FEW_TAGS	"16"
#define OTHER_TAGS	"24"

static int set_depth(const char *depth)
{
	return uq_param_set("io_queue_depth", depth);
}

/* Queues of another size need new memory. */
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

/* The controller stays alive, and the next reset restores all queues. */
TEST_F_TIMEOUT(nth, reset, 3600)
{
	const struct work works[] = {
		{ "memory of a queue", "nvme_uq_create", LEAK_RECORDS,
		  before_memory, op_poll_queue, 0, 1, true, SLAB | PAGES },
		{ "interrupt of a queue", "nvme_uq_create", IRQ_FILES,
		  NULL, op_irq_queue, 1, 0, false, SLAB },
		/* most vectors do not belong to user queues */
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

static int bind_again(FIXTURE_DATA(nth) *self, const char *irq,
		      const char *poll)
{
	return uq_param_set("user_irq_queues", irq) ?:
		uq_param_set("user_poll_queues", poll) ?: bind_device(self) ?:
		scan(self);
}

/*
 * A live queue without a node, as all scans failed to create it. Nodes stay as
 * long as the namespace, so it is a new one.
 */
static int before_node(FIXTURE_DATA(nth) *self)
{
	unsigned int irq, poll;
	int ret = unbind_device(self) ?: bind_again(self, "0", "0");

	if (ret)
		return ret;
	if (!nth_arm("failslab", 0, -1))
		return -ENOENT;
	ret = bring_up(self, 1, 0);
	nth_disarm_all();
	uq_count_of_pci(self->pci, &irq, &poll);
	return ret ?: irq ? -EEXIST : 0;
}

/* The next scan creates the node. */
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

static int op_probe(FIXTURE_DATA(nth) *self)
{
	return bind_again(self, "1", "0");
}

static int before_first_poll(FIXTURE_DATA(nth) *self)
{
	return unbind_device(self) ?: op_probe(self);
}

/* A probe fails or completes, and the next probe creates all queues. */
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
		 * Later allocations are the same as in a reset. So are pages:
		 * the first ones may be for a slab, which can use a lower
		 * order.
		 */
		{ "pools", "nvme_uq_create", IRQ_FILES,
		  unbind_device, op_probe, 1, 0, false, SLAB | ONLY_FIRST },
		{ "the first polled queue", "nvme_uq_create", LEAK_RECORDS,
		  before_first_poll, op_poll_queue, 0, 1, false,
		  SLAB | ONLY_FIRST },
	};
	unsigned int i;

	begin_works(_metadata, self);
	/* without CONFIG_NVME_UQ_FAULT, skip the first sweep */
	i = uq_can_fault(self->node.ns.ctrl) ? 0 : 1;
	for (; i < ARRAY_SIZE(works); i++)
		sweep_work(_metadata, self, &works[i]);
	end_works(_metadata, self);
}

/* The pool of long lists has no memory until the first of them is allocated. */
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
 * Half pages: too many segments for the list of a tag, and less than the
 * largest transfer of a guest. A worker submits the command, so that it is not
 * retried by another worker.
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
	nth_read_symbols();
	return uq_main(argc, argv);
}
