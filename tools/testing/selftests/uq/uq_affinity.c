// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues and CPUs. A task on any CPU can use any queue, also while it
 * migrates. The interrupt of a queue goes to the CPU that the administrator has
 * chosen, wherever the tasks run.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "uq_fixture.h"

#define BATCH	32
#define MAX_CPU	64

static int pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? -errno : 0;
}

/* The CPUs that this program may run on. */
static unsigned int my_cpus(int *cpu)
{
	unsigned int n = 0;
	cpu_set_t set;
	int i;

	if (sched_getaffinity(0, sizeof(set), &set))
		return 0;
	for (i = 0; i < MAX_CPU; i++)
		if (CPU_ISSET(i, &set))
			cpu[n++] = i;
	return n;
}

/* Read @batches batches, or until @stop becomes true. */
static int use(const struct uq_node *node, unsigned int batches,
	       atomic_bool *stop)
{
	unsigned char *buf = uq_alloc(BATCH * 4096);
	int fd = open(node->path, O_RDONLY), ret;
	struct io_uring ring;
	unsigned int i;

	if (fd < 0 || !buf)
		return -ENODEV;
	ret = uq_ring(&ring, BATCH, node->poll ? IORING_SETUP_IOPOLL : 0);
	if (ret)
		return ret;
	while (!ret && (stop ? !*stop : batches--)) {
		for (i = 0; i < BATCH; i++)
			uq_prep(&ring, fd, node->nsid, CMD_READ, i,
				buf + i * 4096, 4096);
		ret = uq_run_all(&ring, BATCH);
	}
	io_uring_queue_exit(&ring);
	close(fd);
	munmap(buf, BATCH * 4096);
	return ret;
}

FIXTURE(affinity)
{
	struct uq_ns ns;
	int cpu[MAX_CPU];
	unsigned int nr;
};

FIXTURE_VARIANT(affinity)
{
	bool poll;
};

/* clang-format off */
FIXTURE_VARIANT_ADD(affinity, irq) { .poll = false };
FIXTURE_VARIANT_ADD(affinity, poll) { .poll = true };
/* clang-format on */

FIXTURE_SETUP(affinity)
{
	ASSERT_TRUE(uq_ns_nth(&self->ns, 0));
	if (uq_no_queue(&self->ns, variant->poll))
		SKIP(return, UQ_NO_QUEUE);
	if (self->ns.lba != 512)
		SKIP(return, "the first namespace has blocks of %u bytes",
		     self->ns.lba);
	self->nr = my_cpus(self->cpu);
	ASSERT_LT(0, self->nr);
}

FIXTURE_TEARDOWN(affinity)
{
}

TEST_F(affinity, any_to_any_queue)
{
	struct uq_node node;
	unsigned int c, n;

	for (c = 0; c < self->nr; c++) {
		ASSERT_EQ(0, pin(self->cpu[c]));
		for (n = 0; uq_node_nth(&node, &self->ns, variant->poll, n);
		     n++) {
			EXPECT_EQ(0, use(&node, 4, NULL))
				TH_LOG("%s by processor %d", node.name,
				       self->cpu[c]);
			EXPECT_TRUE(uq_wait_idle(node.name));
		}
		EXPECT_LT(0, n);
	}
}

struct user {
	struct uq_node	node;
	atomic_bool	stop;
	pid_t		tid;
	atomic_int	ready;
	int		ret;
};

static void *keep_using(void *arg)
{
	struct user *u = arg;

	u->tid = gettid();
	u->ready = 1;
	u->ret = use(&u->node, 0, &u->stop);
	return NULL;
}

/* A migrating task completes all its commands. */
TEST_F(affinity, moved_under_load)
{
	struct user u = { .stop = false };
	cpu_set_t set;
	unsigned int i;
	pthread_t t;

	if (self->nr < 2)
		SKIP(return, "one processor");
	ASSERT_TRUE(uq_node_nth(&u.node, &self->ns, variant->poll, 0));
	ASSERT_EQ(0, pthread_create(&t, NULL, keep_using, &u));
	while (!u.ready)
		sched_yield();
	for (i = 0; i < 20 * uq_scale(); i++) {
		long long done = uq_attr(u.node.name, "completed");

		CPU_ZERO(&set);
		CPU_SET(self->cpu[i % self->nr], &set);
		EXPECT_EQ(0, sched_setaffinity(u.tid, sizeof(set), &set));
		/* wait until some commands have ended on the new CPU */
		while (uq_attr(u.node.name, "completed") < done + 2 * BATCH &&
		       !u.ret)
			sched_yield();
	}
	u.stop = true;
	ASSERT_EQ(0, pthread_join(t, NULL));
	EXPECT_EQ(0, u.ret);
	EXPECT_TRUE(uq_wait_idle(u.node.name));
	EXPECT_EQ(uq_attr(u.node.name, "submitted"),
		  uq_attr(u.node.name, "completed"));
}

/* -- routing of interrupts */

static int irq_file(int irq, const char *name, char *buf, size_t len)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/irq/%d/%s", irq, name);
	return uq_read_line(path, buf, len);
}

static int send_irq(int irq, const char *cpus)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/irq/%d/smp_affinity_list", irq);
	return uq_write_line(path, cpus);
}

static int send_irq_to(int irq, int cpu)
{
	char val[16];

	snprintf(val, sizeof(val), "%d", cpu);
	return send_irq(irq, val);
}

static bool goes_to(int irq, int cpu)
{
	char line[64], *end;

	if (irq_file(irq, "effective_affinity_list", line, sizeof(line)))
		return false;
	return strtol(line, &end, 10) == cpu && !*end;
}

/* The CPUs of the columns of /proc/interrupts, which are the online ones. */
static unsigned int columns(char *line, int *cpu)
{
	unsigned int n = 0;
	char *at = line;

	while (n < MAX_CPU && (at = strstr(at, "CPU")))
		cpu[n++] = strtol(at + 3, &at, 10);
	return n;
}

static bool is_among(const int *cpus, unsigned int n, int cpu)
{
	while (n)
		if (cpus[--n] == cpu)
			return true;
	return false;
}

/* Count the interrupts of each online CPU. */
static unsigned int irq_counts(int irq, unsigned long long *count, int *cpu)
{
	static char line[65536];
	unsigned int nr = 0, n = 0;
	FILE *f = fopen("/proc/interrupts", "r");

	if (f && fgets(line, sizeof(line), f))
		nr = columns(line, cpu);
	while (nr && !n && fgets(line, sizeof(line), f)) {
		char *at;

		if (strtol(line, &at, 10) != irq || *at != ':')
			continue;
		for (at++; n < nr; n++)
			count[n] = strtoull(at, &at, 10);
	}
	if (f)
		fclose(f);
	return n;
}

UQ_LEAVE_OUT("affinity.poll.interrupt_goes_where_it_is_sent",
	     "polled queues have no interrupt");

TEST_F(affinity, interrupt_goes_where_it_is_sent)
{
	unsigned long long before[MAX_CPU], after[MAX_CPU];
	int column[MAX_CPU];
	struct uq_node node;
	unsigned int c, user, n, i;
	char old[64];
	int irq;

	ASSERT_TRUE(uq_node_nth(&node, &self->ns, false, 0));
	irq = uq_attr(node.name, "irq");
	if (self->nr < 2)
		SKIP(return, "one processor");
	if (irq_file(irq, "smp_affinity_list", old, sizeof(old)))
		SKIP(return, "no affinity of interrupt %d", irq);
	if (send_irq_to(irq, self->cpu[0]) == -EIO)
		SKIP(return, "interrupt %d cannot be moved", irq);
	for (c = 0; c < 2 * self->nr; c++) {
		int cpu = self->cpu[c % self->nr];

		ASSERT_EQ(0, send_irq_to(irq, cpu));
		/* x86 moves an interrupt when it fires next */
		for (i = 0; i < 1000 && !goes_to(irq, cpu); i++)
			ASSERT_EQ(0, use(&node, 1, NULL));
		ASSERT_TRUE(goes_to(irq, cpu));
		for (user = 0; user < self->nr; user++) {
			ASSERT_EQ(0, pin(self->cpu[user]));
			n = irq_counts(irq, before, column);
			ASSERT_TRUE(is_among(column, n, cpu));
			ASSERT_EQ(0, use(&node, 8, NULL));
			ASSERT_EQ(n, irq_counts(irq, after, column));
			for (i = 0; i < n; i++)
				EXPECT_EQ(column[i] == cpu, after[i] > before[i])
					TH_LOG("sent to %d, used by %d: %llu on %d",
					       cpu, self->cpu[user],
					       after[i] - before[i], column[i]);
		}
	}
	EXPECT_EQ(0, send_irq(irq, old));
}

int main(int argc, char **argv)
{
	return uq_main(argc, argv);
}
