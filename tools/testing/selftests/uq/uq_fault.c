// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues with devices that misbehave or lack features: lost,
 * repeated, stale, late and wrong completions, storms of completions, and no
 * SGLs. Requires CONFIG_NVME_UQ_FAULT, which emulates them on a working device.
 */
#define _GNU_SOURCE
#define UQ_DISRUPTIVE	true

#include "uq_cq.h"
#include "uq_inject.h"
#include "uq_fixture.h"

#define AREA	(4 << 20)
#define HALF	(AREA / 2)

FIXTURE(fault)
{
	struct uq_node node;
	struct io_uring ring;
	unsigned char *buf, *ref;
	char io_timeout[16];
	int fd, block;
};

FIXTURE_VARIANT(fault)
{
	bool poll;
	bool no_sgl;
};

/* clang-format off */
FIXTURE_VARIANT_ADD(fault, irq) { .poll = false };
FIXTURE_VARIANT_ADD(fault, poll) { .poll = true };
FIXTURE_VARIANT_ADD(fault, irq_no_sgl) { .poll = false, .no_sgl = true };
FIXTURE_VARIANT_ADD(fault, poll_no_sgl) { .poll = true, .no_sgl = true };
/* clang-format on */

/* Set io_timeout of the controller; no reset happens before it has expired. */
static int set_io_timeout(FIXTURE_DATA(fault) *self, const char *ms)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/class/nvme/nvme%d/io_timeout",
		 self->node.ns.ctrl);
	return uq_write_line(path, ms);
}

FIXTURE_SETUP(fault)
{
	char path[64];
	struct uq_ns ns;

	ASSERT_TRUE(uq_ns_nth(&ns, 0));
	if (!uq_can_fault(ns.ctrl))
		SKIP(return, UQ_NO_FAULTS);
	if (ns.lba != 512)
		SKIP(return, "%s has blocks of %u bytes", ns.block, ns.lba);
	ASSERT_EQ(0, uq_fault_no_sgl(&ns, variant->no_sgl));
	ASSERT_EQ(0, uq_bring_up(&ns, 1, 1));
	ASSERT_TRUE(uq_wait_nodes(&ns, 1, 1));
	ASSERT_TRUE(uq_node_nth(&self->node, &ns, variant->poll, 0));
	self->fd = open(self->node.path, O_RDWR);
	ASSERT_LE(0, self->fd);
	self->block = open(self->node.block, O_RDWR | O_DIRECT);
	ASSERT_LE(0, self->block);
	self->buf = uq_alloc(AREA);
	ASSERT_NE(NULL, self->buf);
	self->ref = self->buf + HALF;
	snprintf(path, sizeof(path), "/sys/class/nvme/nvme%d/io_timeout",
		 ns.ctrl);
	ASSERT_EQ(0, uq_read_line(path, self->io_timeout,
				  sizeof(self->io_timeout)));
	ASSERT_EQ(0, uq_ring(&self->ring, 64, variant->poll ?
			     IORING_SETUP_IOPOLL : 0));
}

FIXTURE_TEARDOWN(fault)
{
	if (!self->buf)
		return;
	EXPECT_TRUE(uq_wait_idle(self->node.name));
	EXPECT_EQ(0, set_io_timeout(self, self->io_timeout));
	io_uring_queue_exit(&self->ring);
	close(self->fd);
	close(self->block);
	EXPECT_EQ(0, uq_fault_clear(self->node.ns.ctrl));
	EXPECT_EQ(0, uq_bring_up(&self->node.ns, 2, 2));
	EXPECT_TRUE(uq_wait_nodes(&self->node.ns, 2, 2));
}

static struct nvme_uring_cmd *prep(FIXTURE_DATA(fault) *self, int opcode,
				   __u64 slba, void *buf, __u32 len)
{
	return uq_prep(&self->ring, self->fd, self->node.nsid, opcode, slba,
		       buf, len);
}

/* Read 32 times 4096 bytes at once, and compare. */
static void read_all(struct __test_metadata *_metadata,
		     FIXTURE_DATA(fault) *self)
{
	unsigned int i;

	memset(self->buf, 0xee, 32 * 4096);
	for (i = 0; i < 32; i++)
		prep(self, CMD_READ, i * 8, self->buf + i * 4096, 4096);
	EXPECT_EQ(0, uq_run_all(&self->ring, 32));
	/* no command ended before its data had arrived */
	EXPECT_EQ(0, memcmp(self->buf, self->ref, 32 * 4096));
}

/* Completions without a command are counted and do not complete a command. */
static void bad_completions(struct __test_metadata *_metadata,
			    FIXTURE_DATA(fault) *self, const char *what,
			    unsigned int each)
{
	long long before = uq_attr(self->node.name, "spurious");
	unsigned int round;

	ASSERT_EQ(HALF, pread(self->block, self->ref, HALF, 0));
	for (round = 0; round < 4; round++) {
		ASSERT_EQ(0, uq_fault_set(self->node.ns.ctrl, what, 8));
		read_all(_metadata, self);
	}
	EXPECT_EQ(0, uq_fault_left(self->node.ns.ctrl, what));
	EXPECT_EQ(before + 32 * each, uq_attr(self->node.name, "spurious"));
	EXPECT_EQ(uq_attr(self->node.name, "submitted"),
		  uq_attr(self->node.name, "completed"));
}

TEST_F(fault, stale_completions)
{
	bad_completions(_metadata, self, "stale", 1);
}

TEST_F(fault, repeated_completions)
{
	bad_completions(_metadata, self, "repeat", 1);
}

/* Completions with tags that do not exist, and of commands yet to come. */
TEST_F(fault, wrong_completions)
{
	bad_completions(_metadata, self, "wrong", 3);
}

UQ_LEAVE_OUT("fault.*_no_sgl.interval_and_probability", "not about data");

/* Faults follow the attributes interval and probability of the controller. */
TEST_F(fault, interval_and_probability)
{
	long long before = uq_attr(self->node.name, "spurious"), seen;
	int ctrl = self->node.ns.ctrl;
	unsigned int round;

	ASSERT_EQ(HALF, pread(self->block, self->ref, HALF, 0));
	ASSERT_EQ(0, uq_fault_set(ctrl, "repeat", 1));
	ASSERT_EQ(0, uq_fault_attr(ctrl, "repeat", "times", -1));
	ASSERT_EQ(0, uq_fault_attr(ctrl, "repeat", "interval", 4));
	read_all(_metadata, self);
	EXPECT_EQ(before + 8, uq_attr(self->node.name, "spurious"));

	ASSERT_EQ(0, uq_fault_attr(ctrl, "repeat", "interval", 1));
	ASSERT_EQ(0, uq_fault_attr(ctrl, "repeat", "probability", 50));
	for (round = 0; round < 4; round++)
		read_all(_metadata, self);
	seen = uq_attr(self->node.name, "spurious") - before - 8;
	TH_LOG("%lld of 128 completions came twice", seen);
	/* this fails by chance once in 10^38 runs */
	EXPECT_LT(0, seen);
	EXPECT_GT(128, seen);
}

/* Find a user queue of this kind on another controller. */
static bool find_other(struct uq_node *other, int ctrl, bool poll)
{
	int nr_irq, nr_poll;
	struct uq_ns ns;
	unsigned int n;

	for (n = 0; uq_ns_nth(&ns, n); n++) {
		if (ns.ctrl == ctrl || ns.lba != 512 || ns.ms ||
		    uq_bring_up(&ns, 1, 1))
			continue;
		if (uq_settle(&ns, &nr_irq, &nr_poll) &&
		    uq_node_nth(other, &ns, poll, 0))
			return true;
	}
	return false;
}

UQ_LEAVE_OUT("fault.*_no_sgl.of_one_controller_only", "not about data");

/* Faults of one controller do not affect other controllers. */
TEST_F(fault, of_one_controller_only)
{
	static const char * const kinds[] = {
		"lose", "repeat", "stale", "wrong", "hold", "storm"
	};
	int ctrl = self->node.ns.ctrl, fd, nr_irq, nr_poll;
	struct uq_node other;
	struct io_uring ring;
	long long before;
	unsigned int i, n;

	if (!find_other(&other, ctrl, variant->poll))
		SKIP(return, "no other controller has such a queue");
	before = uq_attr(other.name, "spurious");
	fd = open(other.path, O_RDWR);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, uq_ring(&ring, 64, variant->poll ? IORING_SETUP_IOPOLL :
			     0));
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		ASSERT_EQ(0, uq_fault_set(ctrl, kinds[i], 8));
		for (n = 0; n < 32; n++)
			uq_prep(&ring, fd, other.nsid, CMD_READ, n,
				self->buf + n * 4096, 512);
		EXPECT_EQ(0, uq_run_all(&ring, 32)) TH_LOG("%s", kinds[i]);
		EXPECT_EQ(8, uq_fault_left(ctrl, kinds[i]))
			TH_LOG("%s", kinds[i]);
		ASSERT_EQ(0, uq_fault_set(ctrl, kinds[i], 0));
	}
	EXPECT_EQ(before, uq_attr(other.name, "spurious"));
	io_uring_queue_exit(&ring);
	close(fd);

	/* Create I/O Completion Queue */
	ASSERT_EQ(0, uq_fault_admin(ctrl, "refuse", 0x05, 1));
	EXPECT_EQ(0, uq_reset(other.ns.ctrl));
	EXPECT_TRUE(uq_settle(&other.ns, &nr_irq, &nr_poll));
	EXPECT_LE(1, variant->poll ? nr_poll : nr_irq);
	EXPECT_EQ(1, uq_fault_left(ctrl, "refuse"));
	ASSERT_EQ(0, uq_fault_set(ctrl, "refuse", 0));
	EXPECT_EQ(0, uq_bring_up(&other.ns, 2, 2));
	EXPECT_TRUE(uq_settle(&other.ns, &nr_irq, &nr_poll));
}

/* Completions in another order than the commands end the right commands. */
TEST_F(fault, completions_out_of_order)
{
	long long before = uq_attr(self->node.name, "spurious");
	struct io_uring_cqe *cqe;
	unsigned int i, round;
	struct nvme_uring_cmd *c;

	ASSERT_EQ(0, uq_fault_knob(self->node.ns.ctrl, "hold_for", "7"));
	for (round = 0; round < 4; round++) {
		ASSERT_EQ(0, uq_fault_set(self->node.ns.ctrl, "hold", 8));
		for (i = 0; i < 32; i++) {
			/*
			 * every other command is beyond the end of the
			 * namespace
			 */
			c = prep(self, CMD_READ, i % 2 ? 1ull << 40 : i,
				 self->buf + i * 4096, 512);
			uq_sqe(c)->user_data = i;
		}
		ASSERT_EQ(32, io_uring_submit(&self->ring));
		for (i = 0; i < 32; i++) {
			ASSERT_EQ(0, io_uring_wait_cqe(&self->ring, &cqe));
			EXPECT_EQ(cqe->user_data % 2 ? ST_LBA_RANGE : 0,
				  STATUS(cqe->res))
				TH_LOG("command %llu", cqe->user_data);
			io_uring_cqe_seen(&self->ring, cqe);
		}
	}
	EXPECT_EQ(0, uq_fault_left(self->node.ns.ctrl, "hold"));
	EXPECT_EQ(before, uq_attr(self->node.name, "spurious"));
}

/* Wait until the completion is held; this requires to poll a polled queue. */
static void wait_held(FIXTURE_DATA(fault) *self)
{
	while (uq_fault_left(self->node.ns.ctrl, "hold") > 0)
		io_uring_enter(self->ring.ring_fd, 0, 0,
			       IORING_ENTER_GETEVENTS, NULL);
}

/* A reset ends a read of a block. The completion is held until the next one. */
static void cancel_held(struct __test_metadata *_metadata,
			FIXTURE_DATA(fault) *self, __u64 slba)
{
	ASSERT_EQ(0, uq_fault_knob(self->node.ns.ctrl, "hold_for", "1"));
	ASSERT_EQ(0, uq_fault_set(self->node.ns.ctrl, "hold", 1));
	prep(self, CMD_READ, slba, self->buf, 512);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	wait_held(self);
	EXPECT_EQ(0, uq_reset(self->node.ns.ctrl));
	EXPECT_EQ(-EINTR, uq_reap(&self->ring, NULL));
}

UQ_LEAVE_OUT("fault.*_no_sgl.cancelled_command_is_traced", "not about data");

TEST_F(fault, cancelled_command_is_traced)
{
	char what[64];

	if (!uq_trace_begin())
		SKIP(return, UQ_NO_TRACE);
	snprintf(what, sizeof(what), "slba=77, len=512, status=%#x,", -EINTR);
	cancel_held(_metadata, self, 77);
	EXPECT_TRUE(uq_traced("nvme_uq_complete", what));
	uq_trace_end();
	/* the held completion comes with the next one */
	prep(self, CMD_READ, 0, self->buf, 512);
	EXPECT_EQ(0, uq_run(&self->ring));
}

UQ_LEAVE_OUT("fault.*_no_sgl.completion_later_than_a_reset", "not about data");

/*
 * The completion arrives after a reset has ended its command and another
 * command uses the tag. There are few tags, so all of them are in use.
 */
TEST_F(fault, completion_later_than_a_reset)
{
	const char *param = "/sys/module/nvme/parameters/io_queue_depth";
	long long before = uq_attr(self->node.name, "spurious");
	const unsigned int tags = 15;
	char depth[16];
	unsigned int i;

	ASSERT_EQ(0, uq_read_line(param, depth, sizeof(depth)));
	ASSERT_EQ(0, uq_param_set("io_queue_depth", "16"));
	ASSERT_EQ(0, uq_reset(self->node.ns.ctrl));
	EXPECT_EQ(tags, uq_attr(self->node.name, "depth"));
	cancel_held(_metadata, self, 0);

	for (i = 0; i < tags; i++)
		prep(self, CMD_READ, i, self->buf + i * 4096, 512);
	EXPECT_EQ(0, uq_run_all(&self->ring, tags));
	EXPECT_EQ(before + 1, uq_attr(self->node.name, "spurious"));
	/* the teardown resets the controller */
	EXPECT_EQ(0, uq_param_set("io_queue_depth", depth));
}

/* A command is aborted and then completes; return its result. */
static int late_once(struct __test_metadata *_metadata,
		     FIXTURE_DATA(fault) *self, struct io_uring *other)
{
	long long timeouts = uq_attr(self->node.name, "timeouts");
	long long before = uq_attr(self->node.name, "spurious");
	int ret, late;

	EXPECT_EQ(0, uq_fault_set(self->node.ns.ctrl, "hold", 1));
	prep(self, CMD_READ, 0, self->buf, 512)->timeout_ms = 4000;
	EXPECT_EQ(1, io_uring_submit(&self->ring));
	while (uq_attr(self->node.name, "timeouts") == timeouts)
		uq_rest();
	do {
		uq_prep(other, self->fd, self->node.nsid, CMD_READ, 0,
			self->buf + 4096, 512);
		ret = uq_run(other);
	} while (ret == -EINTR);
	EXPECT_EQ(0, ret);
	late = uq_reap(&self->ring, NULL);
	EXPECT_EQ(before + !!late, uq_attr(self->node.name, "spurious"));
	EXPECT_EQ(timeouts + 1 + !!late, uq_attr(self->node.name, "timeouts"));
	return late;
}

UQ_LEAVE_OUT("fault.*_no_sgl.completion_later_than_its_abort", "not about data");

/*
 * A completion that arrives after the abort of its command is valid. On a slow
 * machine, the reset that follows the abort may come first, but not every time.
 */
TEST_F(fault, completion_later_than_its_abort)
{
	struct io_uring other;
	unsigned int tries = 5;
	int late;

	ASSERT_EQ(0, uq_ring(&other, 4, variant->poll ? IORING_SETUP_IOPOLL :
			     0));
	ASSERT_EQ(0, uq_fault_knob(self->node.ns.ctrl, "hold_for", "1"));
	do {
		late = late_once(_metadata, self, &other);
	} while (late == -EINTR && --tries);
	EXPECT_EQ(0, late);
	io_uring_queue_exit(&other);
}

UQ_LEAVE_OUT("fault.*_no_sgl.storm", "not about data");

/*
 * Entry after entry looks new. Only completed commands end, and each reap is
 * bounded, even in an interrupt handler.
 */
TEST_F(fault, storm)
{
	const unsigned int entries = 65536, ring = self->node.depth + 1;
	unsigned int commands = 0, lost = 0;
	long long seen, looks;

	seen = uq_attr(self->node.name, "spurious");
	looks = uq_attr(self->node.name, "reaps");
	ASSERT_EQ(0, set_io_timeout(self, "1000"));
	ASSERT_EQ(0, uq_fault_set(self->node.ns.ctrl, "storm", 65536));
	while (uq_fault_left(self->node.ns.ctrl, "storm") > 0) {
		int ret;

		prep(self, CMD_READ, 0, self->buf, 512)->timeout_ms = 1000;
		ret = uq_run(&self->ring);
		/* device and driver may disagree on the current entry */
		EXPECT_TRUE(!ret || ret == -EINTR || ret > 0) TH_LOG("%d", ret);
		lost += !!ret;
		commands++;
	}
	seen = uq_attr(self->node.name, "spurious") - seen;
	looks = uq_attr(self->node.name, "reaps") - looks;
	TH_LOG("%u entries, %lld of no command, %lld looks; %u commands, %u lost",
	       entries, seen, looks, commands, lost);
	EXPECT_LE(entries / 2, seen);
	EXPECT_GE(looks * 2 * ring, seen);
	/* a reset fixes the queue */
	EXPECT_EQ(0, uq_reset(self->node.ns.ctrl));
	ASSERT_EQ(HALF, pread(self->block, self->ref, HALF, 0));
	read_all(_metadata, self);
}

UQ_LEAVE_OUT("fault.*_no_sgl.lost_completion", "not about data");

/*
 * A completion never arrives: the command is aborted, then the controller is
 * reset.
 */
TEST_F(fault, lost_completion)
{
	long long before = uq_attr(self->node.name, "timeouts");
	struct nvme_uring_cmd *c;
	int ret;

	ASSERT_EQ(0, set_io_timeout(self, "1000"));
	ASSERT_EQ(0, uq_fault_set(self->node.ns.ctrl, "lose", 1));
	c = prep(self, CMD_READ, 0, self->buf, 512);
	c->timeout_ms = 1000;
	ret = uq_run(&self->ring);
	EXPECT_TRUE(ret == -EINTR || ret > 0) TH_LOG("%d", ret);
	EXPECT_LT(before, uq_attr(self->node.name, "timeouts"));
	/* the queue works again */
	prep(self, CMD_READ, 0, self->buf, 512);
	EXPECT_EQ(0, uq_run(&self->ring));
}

UQ_LEAVE_OUT("fault.*_no_sgl.lost_completion_of_a_mapped_queue", "not about data");

/*
 * A client that only polls the mapping notices the end of the command, although
 * no completion arrives.
 */
TEST_F(fault, lost_completion_of_a_mapped_queue)
{
	unsigned int seen[UQ_CQ_GONE + 1] = { 0 };
	struct nvme_uring_cmd *c;
	struct uq_cq cq;
	__u32 before;
	int ret;

	ASSERT_EQ(0, uq_allow_claims(self->node.name, true));
	ret = uq_cq_map(&cq, self->fd);
	if (ret == -EOPNOTSUPP)
		SKIP(return, "completion queues cannot be mapped here");
	ASSERT_EQ(0, ret);
	before = cq.generation;
	ASSERT_EQ(0, set_io_timeout(self, "1000"));
	ASSERT_EQ(0, uq_fault_set(self->node.ns.ctrl, "lose", 1));
	c = prep(self, CMD_READ, 0, self->buf, 512);
	c->timeout_ms = 1000;
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	while (!io_uring_cq_ready(&self->ring)) {
		enum uq_cq_seen saw = uq_cq_look(&cq);

		seen[saw]++;
		if (saw != UQ_CQ_NONE)
			io_uring_enter(self->ring.ring_fd, 0, 0,
				       IORING_ENTER_GETEVENTS, NULL);
	}
	ret = uq_reap(&self->ring, NULL);
	TH_LOG("result %d; seen: %u ready, %u idle, %u down, %u new", ret,
	       seen[UQ_CQ_READY], seen[UQ_CQ_IDLE], seen[UQ_CQ_DOWN],
	       seen[UQ_CQ_NEW]);
	EXPECT_TRUE(ret == -EINTR || ret > 0);
	EXPECT_TRUE(ret != -EINTR || cq.info->generation != before ||
		    cq.info->state);
	/* after the reset, the client finds completions again */
	prep(self, CMD_READ, 0, self->buf, 512);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	EXPECT_EQ(1, uq_cq_wait(&cq, &self->ring, ~0ul));
	EXPECT_EQ(0, uq_reap(&self->ring, NULL));
	uq_cq_unmap(&cq);
}

UQ_LEAVE_OUT("fault.*_no_sgl.repeated_completions_of_a_mapped_queue", "not about data");

/*
 * A repeated completion ends no other command, and the counters of the queue
 * agree.
 */
TEST_F(fault, repeated_completions_of_a_mapped_queue)
{
	unsigned int i;
	struct uq_cq cq;
	int ret;

	ASSERT_EQ(0, uq_allow_claims(self->node.name, true));
	ret = uq_cq_map(&cq, self->fd);
	if (ret == -EOPNOTSUPP)
		SKIP(return, "completion queues cannot be mapped here");
	ASSERT_EQ(0, ret);
	ASSERT_EQ(0, uq_fault_set(self->node.ns.ctrl, "repeat", 8));
	for (i = 0; i < 32; i++) {
		prep(self, CMD_READ, i, self->buf, 512);
		ASSERT_EQ(1, io_uring_submit(&self->ring));
		ASSERT_EQ(1, uq_cq_wait(&cq, &self->ring, ~0ul));
		EXPECT_EQ(0, uq_reap(&self->ring, NULL));
		EXPECT_EQ(i + 1, cq.info->completed);
		EXPECT_EQ(UQ_CQ_IDLE, uq_cq_look(&cq));
	}
	EXPECT_EQ(0, uq_fault_left(self->node.ns.ctrl, "repeat"));
	uq_cq_unmap(&cq);
}

/* No memory to map a batch, neither at first nor when workers retry. */
TEST_F(fault, no_memory_for_a_while)
{
	ASSERT_EQ(HALF, pread(self->block, self->ref, HALF, 0));
	ASSERT_EQ(0, uq_fault_set(self->node.ns.ctrl, "no_memory", 80));
	read_all(_metadata, self);
	EXPECT_EQ(0, uq_fault_left(self->node.ns.ctrl, "no_memory"));
}

/* Without memory, a command fails after its timeout. */
TEST_F(fault, no_memory_for_ever)
{
	int ctrl = self->node.ns.ctrl;

	ASSERT_EQ(0, uq_fault_set(ctrl, "no_memory", 1));
	ASSERT_EQ(0, uq_fault_attr(ctrl, "no_memory", "times", -1));
	prep(self, CMD_READ, 0, self->buf, 512)->timeout_ms = 100;
	EXPECT_EQ(-ENOMEM, uq_run(&self->ring));
	ASSERT_EQ(0, uq_fault_set(ctrl, "no_memory", 0));
	prep(self, CMD_READ, 0, self->buf, 512)->timeout_ms = 100;
	EXPECT_EQ(0, uq_run(&self->ring));
}

/*
 * A command waits for its turn for longer than its timeout. Then there is no
 * memory, once. The command does not fail, because it has just begun to wait
 * for memory.
 */
TEST_F(fault, no_memory_after_a_wait)
{
	struct nvme_uq_limit one = { .scope = NVME_UQ_LIMIT_FILE, .limit = 1 };
	int ctrl = self->node.ns.ctrl, other = open(self->node.path, O_RDWR);
	struct io_uring ring;
	time_t start;

	ASSERT_LE(0, other);
	ASSERT_EQ(0, uq_ring(&ring, 4, variant->poll ? IORING_SETUP_IOPOLL : 0));
	ASSERT_EQ(0, ioctl(self->fd, NVME_UQ_IOCTL_SET_LIMIT, &one));
	ASSERT_EQ(0, uq_fault_knob(ctrl, "hold_for", "1"));
	ASSERT_EQ(0, uq_fault_set(ctrl, "hold", 1));
	prep(self, CMD_READ, 0, self->buf, 512);
	prep(self, CMD_READ, 1, self->buf + 512, 512)->timeout_ms = 500;
	ASSERT_EQ(2, io_uring_submit(&self->ring));
	while (uq_attr(self->node.name, "waiting") != 1)
		uq_rest();
	for (start = uq_seconds(); uq_seconds() < start + 2; )
		uq_rest();
	ASSERT_EQ(0, uq_fault_set(ctrl, "no_memory", 1));
	/* the completion of this command, without data, releases the first */
	uq_prep(&ring, other, self->node.nsid, CMD_FLUSH, 0, NULL, 0);
	EXPECT_EQ(0, uq_run(&ring));
	EXPECT_EQ(0, uq_reap(&self->ring, NULL));
	EXPECT_EQ(0, uq_reap(&self->ring, NULL));
	EXPECT_EQ(0, uq_fault_left(ctrl, "no_memory"));
	io_uring_queue_exit(&ring);
	close(other);
}

/* A task can be killed while its command waits for memory. */
TEST_F(fault, killed_without_memory)
{
	const long long many = 1000000;
	int ctrl = self->node.ns.ctrl, status;
	pid_t pid;

	ASSERT_EQ(0, uq_fault_set(ctrl, "no_memory", many));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		struct io_uring ring;

		if (uq_ring(&ring, 4, variant->poll ? IORING_SETUP_IOPOLL : 0))
			_exit(1);
		uq_prep(&ring, self->fd, self->node.nsid, CMD_READ, 0,
			self->buf, 512);
		_exit(uq_run(&ring) ? 2 : 3);
	}
	/* the task and a worker have tried */
	while (uq_fault_left(ctrl, "no_memory") > many - 3)
		uq_rest();
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(SIGKILL, WTERMSIG(status));
}

static const size_t offsets[] = { 0, 4, 512, 3584, 3840, 4092 };
static const __u32 lengths[] = {
	512, 4096, 4608, 8192, 12288, 65536, 131072, 262144
};

/* All positions of a transfer relative to page boundaries. */
TEST_F(fault, transfers)
{
	unsigned int o, l;

	for (o = 0; o < ARRAY_SIZE(offsets); o++)
		for (l = 0; l < ARRAY_SIZE(lengths); l++) {
			unsigned char *at = self->buf + offsets[o];
			__u32 len = lengths[l];

			if (len > self->node.ns.max)
				continue;
			uq_fill(at, len, o * 16 + l);
			prep(self, CMD_WRITE, 0, at, len);
			ASSERT_EQ(0, uq_run(&self->ring))
				TH_LOG("offset %zu, length %u", offsets[o],
				       len);
			ASSERT_EQ(len, pread(self->block, self->ref, len, 0));
			ASSERT_EQ(0, memcmp(at, self->ref, len));
			memset(self->buf, 0xee, offsets[o] + len + 512);
			prep(self, CMD_READ, 0, at, len);
			ASSERT_EQ(0, uq_run(&self->ring));
			ASSERT_EQ(0, memcmp(at, self->ref, len))
				TH_LOG("offset %zu, length %u", offsets[o],
				       len);
			ASSERT_EQ(0xee, at[len]);
		}
}

/* No command pins its pages in the fast path and again in the general path. */
TEST_F(fault, each_page_is_pinned_once)
{
	unsigned long before, pinned = 48;
	int tries;

	ASSERT_EQ(HALF, pread(self->block, self->ref, HALF, 0));
	/* the counter includes other tasks, which may pin pages meanwhile */
	for (tries = 0; tries < 10 && pinned >= 48; tries++) {
		before = uq_pages_pinned();
		read_all(_metadata, self);
		pinned = uq_pages_pinned() - before;
		EXPECT_LE(32, pinned);
	}
	EXPECT_GT(48, pinned);
}

UQ_LEAVE_OUT("fault.irq.several_lists", "with SGLs it is in uq_io");
UQ_LEAVE_OUT("fault.poll.several_lists", "with SGLs it is in uq_io");

/*
 * Nearly the largest transfer of the controller. Without SGLs, it needs more
 * than one list if it exceeds 2 MiB. QEMU fails transfers with more than
 * IOV_MAX segments, which 4 MiB can have.
 */
TEST_F(fault, several_lists)
{
	size_t half = self->node.ns.max;
	__u32 len = half - 8192;
	unsigned char *buf, *at;

	buf = uq_alloc(2 * half);
	ASSERT_NE(NULL, buf);
	at = buf + 512;
	uq_fill(at, len, 3);
	prep(self, CMD_WRITE, 0, at, len);
	ASSERT_EQ(0, uq_run(&self->ring));
	ASSERT_EQ(len, pread(self->block, buf + half, len, 0));
	EXPECT_EQ(0, memcmp(at, buf + half, len));
	memset(buf, 0xee, half);
	prep(self, CMD_READ, 0, at, len);
	ASSERT_EQ(0, uq_run(&self->ring));
	EXPECT_EQ(0, memcmp(at, buf + half, len));
	EXPECT_EQ(0xee, buf[511]);
	EXPECT_EQ(0xee, at[len]);
	munmap(buf, 2 * half);
}

UQ_LEAVE_OUT("fault.irq.beyond_the_buffer", "with SGLs it is in uq_errno");
UQ_LEAVE_OUT("fault.poll.beyond_the_buffer", "with SGLs it is in uq_errno");

/*
 * Without SGLs, the driver fails commands that could transfer more than the
 * buffer, for root too. With SGLs, the device stops at the end of the buffer.
 */
TEST_F(fault, beyond_the_buffer)
{
	static const int ops[] = { CMD_READ, CMD_COMPARE, CMD_WRITE };
	long long sent = uq_attr(self->node.name, "submitted");
	struct nvme_uring_cmd *c;
	unsigned int i, nlb;

	memset(self->buf, 0xee, HALF);
	for (i = 0; i < ARRAY_SIZE(ops); i++)
		for (nlb = 8; nlb <= 65535; nlb = nlb * 2 + 1) {
			prep(self, ops[i], 0, self->buf, 4096)->cdw12 = nlb;
			EXPECT_EQ(-EINVAL, uq_run(&self->ring))
				TH_LOG("opcode %#x, %u blocks of 8", ops[i],
				       nlb + 1);
		}
	/* no buffer, and commands of unknown length */
	prep(self, CMD_READ, 0, NULL, 0);
	EXPECT_EQ(-EINVAL, uq_run(&self->ring));
	prep(self, 0x81, 0, self->buf, 4096);
	EXPECT_EQ(-EINVAL, uq_run(&self->ring));
	prep(self, 0xfe, 0, self->buf, 4096);
	EXPECT_EQ(-EINVAL, uq_run(&self->ring));
	c = prep(self, CMD_DSM, 0, self->buf, 16);
	c->cdw10 = 255;
	c->cdw11 = 4;
	EXPECT_EQ(-EINVAL, uq_run(&self->ring));
	EXPECT_EQ(sent, uq_attr(self->node.name, "submitted"));
	for (i = 0; i < HALF; i++)
		ASSERT_EQ(0xee, self->buf[i]);

	/* commands that fit succeed */
	prep(self, CMD_READ, 0, self->buf, 4096)->cdw12 = 7;
	EXPECT_EQ(0, uq_run(&self->ring));
	prep(self, CMD_READ, 0, self->buf, 4096)->cdw12 = 3;
	EXPECT_EQ(0, uq_run(&self->ring));
	prep(self, CMD_FLUSH, 0, NULL, 0);
	EXPECT_EQ(0, uq_run(&self->ring));
}

UQ_LEAVE_OUT("fault.irq.less_than_the_buffer", "an SGL has its length");
UQ_LEAVE_OUT("fault.poll.less_than_the_buffer", "an SGL has its length");

/*
 * Transfers that are smaller than the buffer. The length of the transfer, not
 * of the buffer, determines whether the second PRP is a page or a list.
 */
TEST_F(fault, less_than_the_buffer)
{
	static const size_t offsets[] = { 0, 512, 4092 };
	static const unsigned int blocks[] = { 1, 8, 9, 16, 17 };
	static const __u32 sizes[] = { 8704, 12288, 131072 };
	unsigned int o, b, s, i;

	for (o = 0; o < ARRAY_SIZE(offsets); o++)
		for (b = 0; b < ARRAY_SIZE(blocks); b++)
			for (s = 0; s < ARRAY_SIZE(sizes); s++) {
				unsigned char *at = self->buf + offsets[o];
				__u32 len = blocks[b] * 512, size = sizes[s];

				memset(self->buf, 0xee, 2 * 131072);
				uq_fill(at, len, o * 100 + b * 10 + s);
				prep(self, CMD_WRITE, 0, at, size)->cdw12 =
					blocks[b] - 1;
				ASSERT_EQ(0, uq_run(&self->ring));
				ASSERT_EQ(len, pread(self->block, self->ref,
						     len, 0));
				ASSERT_EQ(0, memcmp(at, self->ref, len))
					TH_LOG("write of %u bytes at %zu of %u",
					       len, offsets[o], size);
				memset(at, 0xee, len);
				prep(self, CMD_READ, 0, at, size)->cdw12 =
					blocks[b] - 1;
				ASSERT_EQ(0, uq_run(&self->ring));
				ASSERT_EQ(0, memcmp(at, self->ref, len))
					TH_LOG("read of %u bytes at %zu of %u",
					       len, offsets[o], size);
				for (i = len; i < size; i++)
					ASSERT_EQ(0xee, at[i]);
			}
}

/* PRPs cannot describe gaps: only vectors of whole pages succeed. */
TEST_F(fault, vectors)
{
	struct iovec pages[3] = {
		{ self->buf + 65536, 4096 }, { self->buf, 8192 },
		{ self->buf + 32768, 4096 },
	};
	struct iovec holes[2] = {
		{ self->buf + 512, 512 }, { self->buf + 65536, 3584 },
	};
	struct nvme_uring_cmd *c;

	ASSERT_EQ(16384, pread(self->block, self->ref, 16384, 0));
	c = prep(self, CMD_READ, 0, pages, 3);
	c->cdw12 = 31;
	uq_sqe(c)->cmd_op = NVME_URING_CMD_IO_VEC;
	EXPECT_EQ(0, uq_run(&self->ring));
	EXPECT_EQ(0, memcmp(self->ref, self->buf + 65536, 4096));
	EXPECT_EQ(0, memcmp(self->ref + 4096, self->buf, 8192));
	EXPECT_EQ(0, memcmp(self->ref + 12288, self->buf + 32768, 4096));

	c = prep(self, CMD_READ, 0, holes, 2);
	c->cdw12 = 7;
	uq_sqe(c)->cmd_op = NVME_URING_CMD_IO_VEC;
	EXPECT_EQ(variant->no_sgl ? -EINVAL : 0, uq_run(&self->ring));
}

/*
 * Without SGLs, a command of unknown length is refused, also for root: the
 * device could exceed the buffer. With SGLs, the device decides.
 */
TEST_F(fault, unknown_length)
{
	static const struct {
		__u8	opcode;
		__u32	cdw10, cdw11;
	} cmds[] = {
		{ 0x82 }, { 0xc2 },		/* vendor specific */
		{ 0x0e, 0x7ff },		/* Reservation Report, 8 KiB */
		{ 0x12, 0, 0x7ff },		/* I/O Management Receive */
	};
	unsigned int i;
	int ret;

	for (i = 0; i < ARRAY_SIZE(cmds); i++) {
		struct nvme_uring_cmd *c = prep(self, cmds[i].opcode, 0,
						self->buf, 8192);

		c->cdw10 = cmds[i].cdw10;
		c->cdw11 = cmds[i].cdw11;
		c->cdw12 = 0;
		ret = uq_run(&self->ring);
		EXPECT_TRUE(variant->no_sgl ? ret == -EINVAL : ret >= 0)
			TH_LOG("opcode %#x: %d", cmds[i].opcode, ret);
	}
}

int main(int argc, char **argv)
{
	return uq_main(argc, argv);
}
