// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: the number and kinds of queues, and the queues that the
 * block layer keeps. Test all named controllers: with few queues, with one
 * interrupt, with a memory buffer, with several namespaces or paths.
 */
#define _GNU_SOURCE
#define UQ_DISRUPTIVE	true

#include "uq_fixture.h"

/* More than some controllers support, but valid for the parameters. */
#define MANY	((int)sysconf(_SC_NPROCESSORS_CONF) < 4 ? \
		 (int)sysconf(_SC_NPROCESSORS_CONF) : 4)

/* Return the number of hardware queues of the block layer, or of a path. */
static unsigned int block_queues(const struct uq_ns *ns)
{
	char path[128];
	unsigned int n;

	snprintf(path, sizeof(path), "/sys/block/%s/mq", ns->block);
	n = uq_count_entries(path);
	if (n)
		return n;
	snprintf(path, sizeof(path), "/sys/block/nvme%dc%dn%d/mq",
		 atoi(ns->block + strlen("nvme")), ns->ctrl, ns->head);
	return uq_count_entries(path);
}

/* Write a block in the format of the namespace and read it back. */
static int works(const struct uq_node *node)
{
	__u32 mlen = node->ns.ext ? 0 : node->ns.ms;
	struct nvme_uring_cmd *c;
	size_t len = node->ns.lba + (node->ns.ext ? node->ns.ms : 0);
	unsigned char *buf = uq_alloc(16384);
	int fd = open(node->path, O_RDWR), ret;
	struct io_uring ring;

	if (fd < 0 || !buf)
		return -ENODEV;
	ret = uq_ring(&ring, 4, node->poll ? IORING_SETUP_IOPOLL : 0);
	if (ret)
		return ret;
	uq_fill(buf, len, node->ns.ctrl + node->ns.head);
	c = uq_prep_raw(&ring, fd, node->nsid, CMD_WRITE, 9, buf, len, 1);
	c->metadata = mlen ? (uintptr_t)buf + 4096 : 0;
	c->metadata_len = mlen;
	ret = uq_run(&ring);
	c = uq_prep_raw(&ring, fd, node->nsid, CMD_READ, 9, buf + 8192, len, 1);
	c->metadata = mlen ? (uintptr_t)buf + 4096 : 0;
	c->metadata_len = mlen;
	if (!ret)
		ret = uq_run(&ring);
	if (!ret && memcmp(buf, buf + 8192, len))
		ret = -EILSEQ;
	io_uring_queue_exit(&ring);
	close(fd);
	munmap(buf, 16384);
	return ret;
}

/* The block layer keeps its queues. User queues share the remaining ones. */
TEST(every_controller)
{
	int irq, poll, short_of = 0;
	struct uq_node node;
	struct uq_ns ns;
	unsigned int n, i, before;

	for (n = 0; uq_ns_nth(&ns, n); n++) {
		if (!ns.usable)
			continue;
		ASSERT_EQ(0, uq_bring_up(&ns, 0, 0));
		ASSERT_TRUE(uq_wait_nodes(&ns, 0, 0));
		before = block_queues(&ns);
		EXPECT_LT(0, before) TH_LOG("%s", ns.block);
		ASSERT_EQ(0, uq_bring_up(&ns, MANY, MANY));
		ASSERT_TRUE(uq_settle(&ns, &irq, &poll)) TH_LOG("%s", ns.block);
		TH_LOG("%s: %u queues of the block layer, %d/%d user irq/poll",
		       ns.block, before, irq, poll);
		EXPECT_EQ(before, block_queues(&ns)) TH_LOG("%s", ns.block);
		EXPECT_GE(MANY, irq);
		EXPECT_GE(MANY, poll);
		short_of += irq < MANY || poll < MANY;
		for (i = 0; uq_node_nth(&node, &ns, false, i); i++) {
			EXPECT_LT(before, uq_attr(node.name, "qid"));
			EXPECT_LT(0, uq_attr(node.name, "irq"));
			EXPECT_EQ(0, works(&node)) TH_LOG("%s", node.name);
		}
		for (i = 0; uq_node_nth(&node, &ns, true, i); i++) {
			EXPECT_LT(before, uq_attr(node.name, "qid"));
			EXPECT_EQ(-1, uq_attr(node.name, "irq"));
			EXPECT_EQ(0, works(&node)) TH_LOG("%s", node.name);
		}
	}
	TH_LOG("%d of %u had fewer than asked for", short_of, n);
}

static void shows_what_it_did(struct __test_metadata *_metadata,
			      const struct uq_ns *ns, bool poll)
{
	long long doorbells, submitted;
	struct uq_node node;
	char word[16];

	ASSERT_TRUE(uq_node_nth(&node, ns, poll, 0));
	uq_attr_str(node.name, "state", word, sizeof(word));
	EXPECT_STREQ("live", word);
	uq_attr_str(node.name, "type", word, sizeof(word));
	EXPECT_STREQ(poll ? "poll" : "irq", word);
	EXPECT_EQ(0, uq_attr(node.name, "claimed"));
	EXPECT_EQ(0, uq_attr(node.name, "waiting"));
	doorbells = uq_attr(node.name, "doorbells");
	submitted = uq_attr(node.name, "submitted");
	EXPECT_LE(0, uq_attr(node.name, "cancelled"));
	EXPECT_EQ(0, works(&node));
	/* a write and a read, submitted separately */
	EXPECT_EQ(submitted + 2, uq_attr(node.name, "submitted"));
	EXPECT_EQ(doorbells + 2, uq_attr(node.name, "doorbells"));
	EXPECT_EQ(uq_attr(node.name, "submitted"),
		  uq_attr(node.name, "completed"));
	EXPECT_EQ(0, uq_attr(node.name, "in_flight"));
}

/* A node has the identity of its namespace, as on the block device. */
static void shows_its_namespace(struct __test_metadata *_metadata,
				const struct uq_ns *ns)
{
	char wwid[200], own[200];
	struct uq_node node;

	ASSERT_TRUE(uq_node_nth(&node, ns, true, 0));
	ASSERT_EQ(0, uq_wwid(ns->block, wwid, sizeof(wwid)));
	uq_attr_str(node.name, "wwid", own, sizeof(own));
	EXPECT_STREQ(wwid, own);
	EXPECT_EQ(ns->nsid, uq_attr(node.name, "nsid"));
	EXPECT_EQ(ns->lba, uq_attr(node.name, "logical_block_size"));
	EXPECT_EQ(4, uq_attr(node.name, "dma_alignment"));
	EXPECT_EQ(ns->max, uq_attr(node.name, "max_transfer"));
}

TEST(identity)
{
	struct uq_ns ns;
	unsigned int n;
	int irq, poll;

	for (n = 0; uq_ns_nth(&ns, n); n++) {
		if (!ns.usable)
			continue;
		ASSERT_EQ(0, uq_bring_up(&ns, 0, 1));
		ASSERT_TRUE(uq_settle(&ns, &irq, &poll));
		if (poll)
			shows_its_namespace(_metadata, &ns);
	}
}

/* Check the attributes of a queue in sysfs. */
TEST(attributes)
{
	struct uq_ns ns;
	int irq;

	ASSERT_TRUE(uq_ns_nth(&ns, 0));
	irq = uq_no_vectors(&ns) ? 0 : 2;
	ASSERT_EQ(0, uq_bring_up(&ns, irq, 2));
	ASSERT_TRUE(uq_wait_nodes(&ns, irq, 2));
	if (irq)
		shows_what_it_did(_metadata, &ns, false);
	shows_what_it_did(_metadata, &ns, true);
}

static bool few_queues(const struct uq_ns *ns)
{
	int irq, poll;

	return !uq_bring_up(ns, MANY, MANY) && uq_settle(ns, &irq, &poll) &&
		irq + poll < 2 * MANY && irq + poll > 0;
}

/*
 * Ask for more queues than the controller has. The log must show the right
 * number.
 */
TEST(more_than_the_controller_has)
{
	struct uq_ns ns;
	int irq, poll;

	if (!uq_ns_find(&ns, few_queues))
		SKIP(return, "no named controller has few queues");
	ASSERT_TRUE(uq_settle(&ns, &irq, &poll));
	TH_LOG("%s: %d/%d of %d/%d", ns.block, irq, poll, MANY, MANY);
	EXPECT_EQ(irq, (int)uq_count_nodes(&ns, false));
	EXPECT_EQ(poll, (int)uq_count_nodes(&ns, true));
	/* if fewer are requested, all of them are created */
	ASSERT_EQ(0, uq_bring_up(&ns, 0, 1));
	EXPECT_TRUE(uq_wait_nodes(&ns, 0, 1));
	ASSERT_EQ(0, uq_bring_up(&ns, 0, 0));
	EXPECT_TRUE(uq_wait_nodes(&ns, 0, 0));
}

static bool one_vector(const struct uq_ns *ns)
{
	return !uq_bring_up(ns, 0, 0) && uq_no_vectors(ns);
}

/*
 * A single interrupt is used by the block layer. Polled queues do not need one.
 */
TEST(one_interrupt)
{
	struct uq_node node;
	struct uq_ns ns;
	int irq, poll;

	if (!uq_ns_find(&ns, one_vector))
		SKIP(return, "no named controller has one interrupt only");
	ASSERT_EQ(0, uq_bring_up(&ns, 1, 1));
	ASSERT_TRUE(uq_settle(&ns, &irq, &poll));
	EXPECT_EQ(0, irq);
	EXPECT_EQ(1, poll);
	ASSERT_TRUE(uq_node_nth(&node, &ns, true, 0));
	EXPECT_EQ(0, works(&node));
}

static bool has_cmb(const struct uq_ns *ns)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/class/nvme/nvme%d/cmb", ns->ctrl);
	return !access(path, F_OK);
}

TEST(controller_memory_buffer)
{
	struct uq_node node;
	struct uq_ns ns;
	int irq, poll;

	if (!uq_ns_find(&ns, has_cmb))
		SKIP(return, "no controller with a memory buffer (or CONFIG_PCI_P2PDMA)");
	ASSERT_EQ(0, uq_bring_up(&ns, 1, 1));
	ASSERT_TRUE(uq_settle(&ns, &irq, &poll));
	EXPECT_EQ(1, poll);
	EXPECT_TRUE(!uq_node_nth(&node, &ns, false, 0) || !works(&node));
	ASSERT_TRUE(uq_node_nth(&node, &ns, true, 0));
	EXPECT_EQ(0, works(&node));
}

/* Each namespace has a node for each queue, and all share the queues. */
TEST(several_namespaces)
{
	struct uq_node a, b;
	struct uq_ns first, ns;
	unsigned int n, same = 0;
	int irq, poll;

	for (n = 0; uq_ns_nth(&first, n); n++)
		if (uq_ns_nth(&ns, n + 1) && ns.ctrl == first.ctrl)
			break;
	if (!uq_ns_nth(&ns, n + 1))
		SKIP(return, "no two namespaces of one controller were named");
	ASSERT_EQ(0, uq_bring_up(&first, 2, 2));
	ASSERT_TRUE(uq_settle(&first, &irq, &poll));
	ASSERT_TRUE(uq_node_nth(&a, &first, true, 0));
	for (n = 0; uq_ns_nth(&ns, n); n++) {
		if (ns.ctrl != first.ctrl || !ns.usable)
			continue;
		ASSERT_TRUE(uq_wait_nodes(&ns, irq, poll));
		ASSERT_TRUE(uq_node_nth(&b, &ns, true, 0));
		EXPECT_EQ(uq_attr(a.name, "qid"), uq_attr(b.name, "qid"));
		EXPECT_EQ(0, works(&b)) TH_LOG("%s", b.name);
		EXPECT_EQ(uq_attr(a.name, "submitted"),
			  uq_attr(b.name, "submitted"));
		same++;
	}
	EXPECT_LE(2, same);
}

/*
 * With native multipath a node belongs to one path. Its controller is in the
 * name.
 */
TEST(two_paths)
{
	char path[64], other[64];
	struct uq_ns ns, second;
	struct uq_node node;
	bool found = false;
	int x, irq, poll;
	unsigned int n;

	for (n = 0; !found && uq_ns_nth(&ns, n); n++) {
		for (x = 0; !found && x < 64; x++) {
			snprintf(path, sizeof(path),
				 "/sys/class/nvme/nvme%d/nvme%dc%dn%d", x,
				 atoi(ns.block + strlen("nvme")), x, ns.head);
			found = x != ns.ctrl && !access(path, F_OK);
		}
	}
	if (!found)
		SKIP(return, "no named namespace has two paths");
	second = ns;
	second.ctrl = x - 1;
	snprintf(other, sizeof(other), "/dev/nvme%d", second.ctrl);
	ASSERT_EQ(0, uq_bring_up(&ns, 1, 1));
	ASSERT_EQ(0, uq_bring_up(&second, 1, 1));
	ASSERT_TRUE(uq_settle(&ns, &irq, &poll));
	ASSERT_TRUE(uq_settle(&second, &irq, &poll));
	ASSERT_TRUE(uq_node_nth(&node, &ns, true, 0));
	EXPECT_EQ(0, works(&node));
	ASSERT_TRUE(uq_node_nth(&node, &second, true, 0));
	EXPECT_EQ(0, works(&node));
}

/* -- the interrupt */

static int set_affinity(long long irq, const char *mask)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/irq/%lld/smp_affinity", irq);
	return uq_write_line(path, mask);
}

/* Return the count of an interrupt on a CPU, from /proc/interrupts. */
static long long irq_count(const char *name, unsigned int cpu)
{
	FILE *f = fopen("/proc/interrupts", "r");
	char line[4096], *at, *end;
	long long n = -1;

	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		end = strrchr(line, ' ');
		if (!end || strcmp(end + 1, name))
			continue;
		at = strchr(line, ':') + 1;
		for (n = strtoll(at, &at, 10); cpu--;)
			n = strtoll(at, &at, 10);
	}
	if (f)
		fclose(f);
	return n;
}

/* The administrator can set the affinity of a user queue's interrupt. */
TEST(affinity_of_the_interrupt)
{
	static const char * const masks[] = { "1", "2" };
	char name[32];
	struct uq_node node;
	unsigned int cpu, i;
	struct uq_ns ns;
	long long irq;

	ASSERT_TRUE(uq_ns_nth(&ns, 0));
	if (uq_no_queue(&ns, false))
		SKIP(return, UQ_NO_QUEUE);
	ASSERT_EQ(0, uq_bring_up(&ns, 1, 1));
	ASSERT_TRUE(uq_wait_nodes(&ns, 1, 1));
	ASSERT_TRUE(uq_node_nth(&node, &ns, false, 0));
	irq = uq_attr(node.name, "irq");
	ASSERT_LT(0, irq);
	snprintf(name, sizeof(name), "nvme%duq%s", ns.ctrl,
		 strrchr(node.name, 'q') + 1);
	EXPECT_LE(0, irq_count(name, 0)) TH_LOG("no interrupt %s", name);
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "one processor");
	for (i = 0; i < 8; i++) {
		long long before;
		unsigned int tries = 0;

		cpu = i % 2;
		ASSERT_EQ(0, set_affinity(irq, masks[cpu]));
		before = irq_count(name, cpu);
		/*
		 * a vector moves with the next interrupt, or with a later one
		 */
		while (irq_count(name, cpu) == before && tries++ < 1000)
			ASSERT_EQ(0, works(&node));
		EXPECT_LT(before, irq_count(name, cpu)) TH_LOG("CPU %u", cpu);
	}
}

/* Invalid values of the parameters fail and change nothing. */
TEST(parameters_out_of_range)
{
	static const char * const names[] = {
		"user_irq_queues", "user_poll_queues"
	};
	static const char * const bad[] = {
		"-1", "4294967296", "one", "1 2", "0x", " "
	};
	unsigned int n, i;
	char mode[8];

	for (n = 0; n < 2; n++) {
		struct stat st;
		char path[96];

		snprintf(path, sizeof(path), "/sys/module/nvme/parameters/%s",
			 names[n]);
		ASSERT_EQ(0, stat(path, &st));
		snprintf(mode, sizeof(mode), "%o", st.st_mode & 07777);
		EXPECT_STREQ("644", mode);
		ASSERT_EQ(0, uq_param_set(names[n], "1"));
		for (i = 0; i < ARRAY_SIZE(bad); i++)
			EXPECT_EQ(-EINVAL, uq_param_set(names[n], bad[i]))
				TH_LOG("%s, value %u", names[n], i);
		EXPECT_EQ(1, uq_param_get(names[n]));
	}
}

/*
 * A number for a larger machine becomes that of this one: with an error, the
 * module would not load.
 */
TEST(parameters_of_a_larger_machine)
{
	static const char * const names[] = {
		"user_irq_queues", "user_poll_queues"
	};
	long long cpus = sysconf(_SC_NPROCESSORS_CONF);
	unsigned int n;

	for (n = 0; n < 2; n++) {
		EXPECT_EQ(0, uq_param_set(names[n], "4294967295"));
		/* possible CPUs need not be present */
		EXPECT_LE(cpus, uq_param_get(names[n]));
		EXPECT_GE(8192, uq_param_get(names[n]));
		EXPECT_EQ(0, uq_param_set(names[n], "2"));
	}
}

/* -- a full queue; requires a slow device */

#define DEPTH	16

/*
 * Many commands wait for a queue. All entries less one must be in flight, and
 * never more. With all entries, the device would take a full queue for an empty
 * one.
 */
static void fill(struct __test_metadata *_metadata, bool poll, bool nonblocking)
{
	unsigned int most = 0, want = 4 * DEPTH, i;
	struct uq_node node;
	struct io_uring ring;
	struct uq_ns ns;
	char old[16], val[16];
	unsigned char *buf;
	pid_t pid;
	int fd, status, irqs, polls;

	if (!uq_ns_slow(&ns))
		SKIP(return, "UQ_TEST_SLOW_DEV names no NVMe namespace");
	if (uq_no_queue(&ns, poll))
		SKIP(return, UQ_NO_QUEUE);
	ASSERT_EQ(0, uq_read_line("/sys/module/nvme/parameters/io_queue_depth",
				  old, sizeof(old)));
	snprintf(val, sizeof(val), "%u", DEPTH);
	ASSERT_EQ(0, uq_param_set("io_queue_depth", val));
	ASSERT_EQ(0, uq_bring_up(&ns, 1, 1));
	ASSERT_TRUE(uq_settle(&ns, &irqs, &polls));
	ASSERT_TRUE(uq_node_nth(&node, &ns, poll, 0));
	EXPECT_EQ(DEPTH - 1, node.depth);
	buf = uq_alloc(want * 4096);
	ASSERT_NE(NULL, buf);

	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		fd = open(node.path, O_RDONLY);
		if (fd < 0 || uq_ring(&ring, want, poll ? IORING_SETUP_IOPOLL :
				      0))
			_exit(1);
		for (i = 0; i < want; i++) {
			struct nvme_uring_cmd *c;

			c = uq_prep_raw(&ring, fd, node.nsid, CMD_READ, i,
					buf + i * 4096, ns.lba, 1);
			if (!nonblocking)
				uq_sqe(c)->flags |= IOSQE_ASYNC;
		}
		_exit(uq_run_all(&ring, want) ? 2 : 0);
	}
	while (!waitpid(pid, &status, WNOHANG)) {
		long long now = uq_attr(node.name, "in_flight");

		EXPECT_GE(DEPTH - 1, now);
		if (now > most)
			most = now;
	}
	EXPECT_EQ(0, status);
	/* workers start slowly, and the test may miss the maximum */
	EXPECT_LE(nonblocking ? DEPTH - 1 : DEPTH / 2, most);
	EXPECT_TRUE(uq_wait_idle(node.name));
	EXPECT_EQ(0, uq_attr(node.name, "spurious"));
	EXPECT_EQ(0, uq_attr(node.name, "timeouts"));

	ASSERT_EQ(0, uq_param_set("io_queue_depth", old));
	ASSERT_EQ(0, uq_bring_up(&ns, 2, 2));
	EXPECT_TRUE(uq_settle(&ns, &irqs, &polls));
}

TEST(full_irq_queue)
{
	fill(_metadata, false, true);
}

TEST(full_poll_queue)
{
	fill(_metadata, true, true);
}

TEST(full_irq_queue_and_workers)
{
	fill(_metadata, false, false);
}

TEST(full_poll_queue_and_workers)
{
	fill(_metadata, true, false);
}

/*
 * If a task with commands in flight is killed, it ends and its slots become
 * free.
 */
static void killed(struct __test_metadata *_metadata, bool poll)
{
	struct uq_node node;
	struct uq_ns ns;
	int status;
	pid_t pid;

	if (!uq_ns_slow(&ns))
		SKIP(return, "UQ_TEST_SLOW_DEV names no NVMe namespace");
	if (uq_no_queue(&ns, poll))
		SKIP(return, UQ_NO_QUEUE);
	ASSERT_TRUE(uq_node_nth(&node, &ns, poll, 0));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		unsigned char *buf = uq_alloc(64 * 4096);
		struct io_uring ring;
		unsigned int i;
		int fd = open(node.path, O_RDONLY);

		if (fd < 0 || !buf || uq_ring(&ring, 64, poll ?
					      IORING_SETUP_IOPOLL : 0))
			_exit(1);
		for (i = 0; i < 64; i++)
			uq_prep_raw(&ring, fd, node.nsid, CMD_READ, i,
				    buf + i * 4096, ns.lba, 1);
		io_uring_submit(&ring);
		/* do not clean up */
		while (1)
			pause();
	}
	while (uq_attr(node.name, "in_flight") <= 0)
		uq_rest();
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
	EXPECT_TRUE(uq_wait_idle(node.name));
	EXPECT_EQ(uq_attr(node.name, "submitted"),
		  uq_attr(node.name, "completed"));
	EXPECT_EQ(0, works(&node));
}

TEST(killed_on_a_slow_irq_queue)
{
	killed(_metadata, false);
}

TEST(killed_on_a_slow_poll_queue)
{
	killed(_metadata, true);
}

int main(int argc, char **argv)
{
	return uq_main(argc, argv);
}
