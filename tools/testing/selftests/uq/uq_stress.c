// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: stress. Several processes write their own blocks through
 * queues and rings of all kinds, and read them back. Another process resets and
 * removes the controller, and kills them. It also changes the number and depth
 * of queues, the limits, and the affinity of interrupts. Some processes drop
 * their rings with commands in flight, by close, exit or exec. Some claim a
 * queue and poll its mapping; commands of the others fail meanwhile.
 *
 * With CONFIG_NVME_UQ_FAULT, the driver loses completions before a reset, and
 * sees others twice. So commands are in flight that only the reset ends.
 *
 * Each block has a version. It is never older than the last successful write,
 * and never newer than the last submitted one. An interrupted write may have
 * been executed or not.
 *
 * The number of rounds is limited. After each round, commands have to complete
 * before the next one begins.
 */
#define _GNU_SOURCE
#define UQ_DISRUPTIVE	true
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include "uq_cq.h"
#include "uq_fixture.h"
#include "uq_inject.h"
#include "uq_random.h"

#define WORKERS		6
#define SPAN		64		/* blocks of one worker */
#define BLOCK		4096u
#define LBA		512u
#define SECTORS		(BLOCK / LBA)
#define MOST		32		/* commands in flight of one worker */
#define ROUNDS		8

/* Memory that all processes share. It outlives each of them. */
struct shared {
	unsigned long	done;		/* commands that reached the device */
	unsigned long	interrupted, status, turned_away, claimed_away;
	unsigned long	claims, looks;
	unsigned long	bad;
	int		stop;
	struct {
		__u32	least, most;	/* versions, see above */
	} block[WORKERS][SPAN];
};

/* A process that reads and writes. */
struct worker {
	struct shared	*all;
	const char	*pci;		/* name on the bus, never changes */
	unsigned int	nsid;
	unsigned int	nr;
	struct uq_rng	rng;
	unsigned char	*buf;
	struct {
		unsigned int	block;
		bool		write;
		__u32		version;
		struct iovec	iov[2];
	} cmd[MOST];
};

/* -- a process that reads and writes */

static __u32 stamp(const struct worker *w, unsigned int block, __u32 version,
		   unsigned int sector)
{
	return (w->nr << 24 | block << 16 | sector << 8) ^
		version * 2654435761u;
}

static void fill(const struct worker *w, unsigned int block, __u32 version,
		 unsigned char *buf)
{
	unsigned int s, i;

	for (s = 0; s < SECTORS; s++) {
		__u32 *p = (__u32 *)(buf + s * LBA);

		p[0] = version;
		for (i = 1; i < LBA / 4; i++)
			p[i] = stamp(w, block, version, s) + i;
	}
}

/* Check that a write left this block. Return its oldest version, or -1. */
static long long check(const struct worker *w, unsigned int block,
		       const unsigned char *buf)
{
	__u32 least = w->all->block[w->nr][block].least;
	__u32 most = w->all->block[w->nr][block].most;
	long long oldest = most;
	unsigned int s, i;

	for (s = 0; s < SECTORS; s++) {
		const __u32 *p = (const __u32 *)(buf + s * LBA);

		for (i = 1; i < LBA / 4; i++)
			if (p[i] != stamp(w, block, p[0], s) + i)
				break;
		if (i < LBA / 4 || p[0] < least || p[0] > most) {
			printf("# block %u, process %u, sector %u: %u, not %u to %u; [%u]: %#x\n",
			       block, w->nr, s, p[0], least, most, i,
			       p[i % (LBA / 4)]);
			return -1;
		}
		if (p[0] < oldest)
			oldest = p[0];
	}
	return oldest;
}

static int bad(struct worker *w, const char *what, int res)
{
	printf("# process %u: %s: %d\n", w->nr, what, res);
	fflush(stdout);
	__atomic_fetch_add(&w->all->bad, 1, __ATOMIC_RELAXED);
	return 2;
}

#define MORE(counter)	__atomic_fetch_add(&(counter), 1, __ATOMIC_RELAXED)

/* Status values of commands on a deleted queue. */
static bool is_end_of_queue(int res)
{
	static const int said[] = { 0x04, 0x06, 0x07, 0x08 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(said); i++)
		if (STATUS(res) == said[i])
			return true;
	return false;
}

static int ended_well(struct worker *w, unsigned int i)
{
	unsigned int block = w->cmd[i].block;
	long long oldest;

	if (w->cmd[i].write) {
		w->all->block[w->nr][block].least = w->cmd[i].version;
		return 0;
	}
	oldest = check(w, block, w->buf + i * BLOCK);
	if (oldest < 0)
		return bad(w, "wrong data", block);
	/* later reads must not return an older version */
	w->all->block[w->nr][block].least = oldest;
	return 0;
}

/* Handle a result. Return 0, an exit code, or -1 if the node cannot be used. */
static int ended(struct worker *w, unsigned int i, int res)
{
	switch (res) {
	case 0:
		MORE(w->all->done);
		return ended_well(w, i);
	case -EINTR:
		MORE(w->all->done);
		MORE(w->all->interrupted);
		return 0;
	case -EBUSY:
		MORE(w->all->claimed_away);
		return -1;
	case -ENXIO:
	case -ENODEV:
	case -ESHUTDOWN:
		MORE(w->all->turned_away);
		return -1;
	}
	MORE(w->all->done);
	if (res > 0 && is_end_of_queue(res)) {
		MORE(w->all->status);
		return 0;
	}
	return bad(w, w->cmd[i].write ? "write" : "read", res);
}

struct session {
	struct io_uring	ring;
	struct uq_node	node;
	int		fd;
	bool		fixed;
	unsigned int	most;
	struct uq_cq	cq;		/* if it is mapped */
};

/* Claim and map the queue, if no other process uses it. */
static void claim(struct worker *w, struct session *s)
{
	int ret;

	/* a new controller allows no claims */
	uq_allow_claims(s->node.name, true);
	ret = uq_cq_map(&s->cq, s->fd);
	switch (-ret) {
	case 0:
		MORE(w->all->claims);
		uq_cq_survive(&s->cq);
		break;
	case EBUSY:
	case ENXIO:
	case EOPNOTSUPP:
	case ESHUTDOWN:
	case EINVAL:		/* the size has changed */
	case EPERM:		/* the controller is another one now */
		break;
	default:
		bad(w, "claim", ret);
	}
}

/* Set a random limit for this open file. */
static void limit(struct worker *w, struct session *s)
{
	struct nvme_uq_limit l = {
		.scope	= NVME_UQ_LIMIT_FILE,
		.limit	= 1 + uq_below(&w->rng, s->node.depth),
	};

	/* a reset may have made the queue smaller */
	if (ioctl(s->fd, NVME_UQ_IOCTL_SET_LIMIT, &l) && errno != ENXIO &&
	    errno != EINVAL)
		bad(w, "limit", -errno);
}

static bool open_session(struct worker *w, struct session *s)
{
	static const unsigned int flags[] = {
		0, 0, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
		IORING_SETUP_COOP_TASKRUN, IORING_SETUP_SQPOLL,
	};
	struct io_uring_params p = {
		.flags		= IORING_SETUP_SQE128 | IORING_SETUP_CQE32 |
			UQ_PICK(&w->rng, flags),
		.sq_thread_idle	= 1,
	};
	struct iovec iov = { w->buf, MOST * BLOCK };

	if (!uq_node_of_pci(&s->node, w->pci, uq_below(&w->rng, 4)))
		return false;
	s->fd = open(s->node.path, O_RDWR | O_CLOEXEC);
	if (s->fd < 0)
		return false;
	/* a ring that polls can also use an interrupt queue */
	if (s->node.poll || uq_1in(&w->rng, 4))
		p.flags |= IORING_SETUP_IOPOLL;
	s->most = 1 + uq_below(&w->rng, MOST);
	if (io_uring_queue_init_params(MOST, &s->ring, &p)) {
		close(s->fd);
		return false;
	}
	s->fixed = uq_1in(&w->rng, 2) &&
		!io_uring_register_buffers(&s->ring, &iov, 1);
	memset(&s->cq, 0, sizeof(s->cq));
	if (uq_1in(&w->rng, 6))
		claim(w, s);
	if (uq_1in(&w->rng, 4))
		limit(w, s);
	return true;
}

static void close_session(struct session *s)
{
	io_uring_queue_exit(&s->ring);
	uq_cq_forget(&s->cq);
	uq_cq_unmap(&s->cq);
	close(s->fd);
}

/* Wait for a CQE. If the queue is mapped, poll the mapping first. */
static int wait_one(struct worker *w, struct session *s,
		    struct io_uring_cqe **cqe)
{
	int ret;

	/* the mapping may not show completions that others have reaped */
	if (s->cq.info) {
		MORE(w->all->looks);
		uq_cq_wait(&s->cq, &s->ring, 1000);
	}
	do {
		ret = io_uring_wait_cqe(&s->ring, cqe);
	} while (ret == -EINTR);
	return ret;
}

static void prepare_one(struct worker *w, struct session *s, unsigned int i,
			unsigned int block)
{
	unsigned char *buf = w->buf + i * BLOCK;
	struct nvme_uring_cmd *c;

	w->cmd[i].block = block;
	w->cmd[i].write = uq_1in(&w->rng, 2);
	if (w->cmd[i].write) {
		w->cmd[i].version = ++w->all->block[w->nr][block].most;
		fill(w, block, w->cmd[i].version, buf);
	}
	c = uq_prep(&s->ring, s->fd, w->nsid,
		    w->cmd[i].write ? CMD_WRITE : CMD_READ,
		    (w->nr * SPAN + block) * SECTORS, buf, BLOCK);
	uq_sqe(c)->user_data = i;
	if (s->fixed)
		uq_sqe(c)->uring_cmd_flags = IORING_URING_CMD_FIXED;
	if (uq_1in(&w->rng, 4)) {
		size_t at = (1 + uq_below(&w->rng, SECTORS - 1)) * LBA;

		w->cmd[i].iov[0] = (struct iovec){ buf, at };
		w->cmd[i].iov[1] = (struct iovec){ buf + at, BLOCK - at };
		uq_sqe(c)->cmd_op = NVME_URING_CMD_IO_VEC;
		c->addr = (uintptr_t)w->cmd[i].iov;
		c->data_len = 2;
	}
	if (uq_1in(&w->rng, 32))
		uq_sqe(c)->flags |= IOSQE_ASYNC;
}

/* Leave with commands in flight: call exec, close the ring, or exit. */
static void leave(struct worker *w, struct session *s)
{
	switch (uq_below(&w->rng, 3)) {
	case 0:
		execl("/proc/self/exe", "uq_stress", "exec", NULL);
		break;
	case 1:
		io_uring_queue_exit(&s->ring);
		break;
	}
	_exit(0);
}

static int batch(struct worker *w, struct session *s)
{
	unsigned int n = 1 + uq_below(&w->rng, s->most), i;
	unsigned int first = uq_below(&w->rng, SPAN);
	int ret = 0, one;

	/* use each block once, as the order of two writes would be unknown */
	for (i = 0; i < n; i++)
		prepare_one(w, s, i, (first + i * 7) % SPAN);
	one = io_uring_submit(&s->ring);
	if (one < 0)
		return bad(w, "io_uring_enter", one);
	if (uq_1in(&w->rng, 100))
		leave(w, s);
	for (i = 0; i < n; i++) {
		struct io_uring_cqe *cqe;

		one = wait_one(w, s, &cqe);
		if (one)
			return bad(w, "wait", one);
		one = ended(w, cqe->user_data, cqe->res);
		io_uring_cqe_seen(&s->ring, cqe);
		if (one > 0 || !ret)
			ret = one;
	}
	return ret;
}

/* Queues and the names of nodes may change at any time. */
static int session(struct worker *w)
{
	unsigned int batches = 1 + uq_below(&w->rng, 20);
	struct session s;
	int ret = 0;

	if (!open_session(w, &s)) {
		sched_yield();
		return 0;
	}
	while (!ret && batches-- && !w->all->stop)
		ret = batch(w, &s);
	close_session(&s);
	return ret > 0 ? ret : 0;
}

static int work(struct worker *w)
{
	int ret = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	w->buf = uq_alloc(MOST * BLOCK);
	if (!w->buf)
		return 3;
	while (!ret && !__atomic_load_n(&w->all->stop, __ATOMIC_RELAXED))
		ret = session(w);
	return ret;
}

/* -- the test */

FIXTURE(stress)
{
	struct shared *all;
	struct uq_ns ns, was;
	char pci[64];
	char depth[16];
	struct uq_rng rng;
	__u64 seed;
	unsigned int streams;
	pid_t pid[WORKERS];
	bool killed[WORKERS];
	unsigned int irq, poll;		/* number of queues */
	bool removed;
	unsigned int repeated;		/* completions seen twice */
	struct uq_peace peace;
};

FIXTURE_VARIANT(stress)
{
	bool slow;
	unsigned int commands;		/* minimum to complete in a round */
};

/* clang-format off */
FIXTURE_VARIANT_ADD(stress, fast) { .slow = false, .commands = 200 };
FIXTURE_VARIANT_ADD(stress, slow) { .slow = true, .commands = 40 };
/* clang-format on */

/* Use the ioctl of the node, which bypasses the user queue. */
static int block_io(FIXTURE_DATA(stress) *self, int fd, int opcode,
		    unsigned int block, void *buf)
{
	struct nvme_passthru_cmd c = {
		.opcode		= opcode,
		.nsid		= self->ns.nsid,
		.addr		= (uintptr_t)buf,
		.data_len	= BLOCK,
		.cdw10		= block * SECTORS,
		.cdw12		= SECTORS - 1,
	};
	int ret = ioctl(fd, NVME_IOCTL_IO_CMD, &c);

	return ret < 0 ? -errno : ret;
}

/*
 * Write or check all blocks of all processes. Return the number of wrong ones.
 */
static int all_blocks(FIXTURE_DATA(stress) *self, bool write)
{
	unsigned char *buf = uq_alloc(BLOCK);
	struct worker w = { .all = self->all };
	struct uq_node node;
	unsigned int b;
	int fd, wrong = 0;

	if (!uq_node_of_pci(&node, self->pci, 0))
		return -ENODEV;
	fd = open(node.path, O_RDWR);
	if (fd < 0)
		return -errno;
	for (; w.nr < WORKERS; w.nr++)
		for (b = 0; b < SPAN; b++) {
			unsigned int block = w.nr * SPAN + b;

			if (write)
				fill(&w, b, 0, buf);
			wrong += block_io(self, fd, write ? CMD_WRITE :
					  CMD_READ, block, buf) ||
				(!write && check(&w, b, buf) < 0);
		}
	close(fd);
	munmap(buf, BLOCK);
	return wrong;
}

FIXTURE_SETUP(stress)
{
	ASSERT_TRUE(uq_ns_nth(&self->ns, 0));
	if (variant->slow && !uq_ns_slow(&self->ns))
		SKIP(return, "UQ_TEST_SLOW_DEV names no NVMe namespace");
	if (self->ns.lba != LBA || self->ns.ms)
		SKIP(return, "%s has blocks of %u bytes, with %u of metadata",
		     self->ns.block, self->ns.lba, self->ns.ms);
	self->was = self->ns;
	ASSERT_EQ(0, uq_pci_of(&self->ns, self->pci, sizeof(self->pci)));
	ASSERT_EQ(0, uq_read_line("/sys/module/nvme/parameters/io_queue_depth",
				  self->depth, sizeof(self->depth)));
	ASSERT_EQ(0, uq_bring_up(&self->ns, 2, 2));
	ASSERT_TRUE(uq_wait_nodes(&self->ns, 2, 2));
	self->irq = 2;
	self->poll = 2;
	self->all = mmap(NULL, sizeof(*self->all), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->all);
	ASSERT_EQ(0, all_blocks(self, true));
	self->seed = uq_seed();
	uq_rng_init(&self->rng, self->seed, 0);
	uq_peace_begin(&self->peace, true);
}

FIXTURE_TEARDOWN(stress)
{
	/* the next test expects the devices and queues as before */
	if (!self->depth[0])
		return;
	EXPECT_EQ(0, uq_param_set("io_queue_depth", self->depth));
	EXPECT_EQ(0, uq_reset(uq_ctrl_of_pci(self->pci)));
	EXPECT_TRUE(uq_pci_restore(self->pci, &self->was));
}

static void spawn(struct __test_metadata *_metadata,
		  FIXTURE_DATA(stress) *self, unsigned int n)
{
	struct worker w = {
		.all	= self->all,
		.pci	= self->pci,
		.nsid	= self->ns.nsid,
		.nr	= n,
	};

	self->killed[n] = false;
	uq_rng_init(&w.rng, self->seed, ++self->streams);
	fflush(stdout);
	self->pid[n] = fork();
	ASSERT_LE(0, self->pid[n]);
	if (!self->pid[n])
		_exit(work(&w));
}

/* Check that the test has caused this end of a process. */
static void expect_end(struct __test_metadata *_metadata,
		       FIXTURE_DATA(stress) *self, unsigned int n, int status)
{
	if (self->killed[n] && WIFSIGNALED(status) &&
	    WTERMSIG(status) == SIGKILL)
		return;
	EXPECT_EQ(0, status) TH_LOG("process %u", n);
}

/* Replace workers that have ended. */
static void respawn(struct __test_metadata *_metadata,
		    FIXTURE_DATA(stress) *self)
{
	unsigned int n;
	int status;

	for (n = 0; n < WORKERS; n++) {
		if (waitpid(self->pid[n], &status, WNOHANG) != self->pid[n])
			continue;
		expect_end(_metadata, self, n, status);
		if (!self->all->bad)
			spawn(_metadata, self, n);
	}
}

/* Wait for the nodes and, as there may be none, for the controller. */
static bool wait_nodes(FIXTURE_DATA(stress) *self)
{
	unsigned int irq, poll;
	time_t start = uq_seconds();

	do {
		uq_count_of_pci(self->pci, &irq, &poll);
		if (irq == self->irq && poll == self->poll &&
		    uq_ctrl_is(uq_ctrl_of_pci(self->pci), "live"))
			return true;
		usleep(1000);
	} while (uq_seconds() - start < UQ_NEVER);
	return false;
}

/* Wait until the workers have completed this number of further commands. */
static bool wait_progress(struct __test_metadata *_metadata,
			  FIXTURE_DATA(stress) *self, unsigned int commands)
{
	unsigned long goal = self->all->done + commands;
	time_t start = uq_seconds();

	while (__atomic_load_n(&self->all->done, __ATOMIC_RELAXED) < goal) {
		if (uq_seconds() - start > UQ_NEVER || self->all->bad)
			return false;
		respawn(_metadata, self);
		usleep(1000);
	}
	return true;
}

/* -- disturbances */

static void kill_one(struct __test_metadata *_metadata,
		     FIXTURE_DATA(stress) *self)
{
	unsigned int n = uq_below(&self->rng, WORKERS);
	int status;

	self->killed[n] = true;
	kill(self->pid[n], SIGKILL);
	status = uq_wait_child(self->pid[n], NULL);
	ASSERT_LE(0, status);
	expect_end(_metadata, self, n, status);
	spawn(_metadata, self, n);
}

static void reset(struct __test_metadata *_metadata,
		  FIXTURE_DATA(stress) *self)
{
	EXPECT_EQ(0, uq_reset(uq_ctrl_of_pci(self->pci)));
	EXPECT_TRUE(wait_nodes(self));
}

static void change_numbers(struct __test_metadata *_metadata,
			   FIXTURE_DATA(stress) *self)
{
	static const unsigned int numbers[][2] = {
		{ 1, 1 }, { 0, 2 }, { 2, 0 }, { 0, 0 }, { 1, 2 }, { 2, 1 },
		{ 2, 2 }, { 2, 2 },
	};
	unsigned int n = uq_below(&self->rng, ARRAY_SIZE(numbers));
	struct uq_ns ns = { .ctrl = uq_ctrl_of_pci(self->pci) };

	self->irq = numbers[n][0];
	self->poll = numbers[n][1];
	EXPECT_EQ(0, uq_bring_up(&ns, self->irq, self->poll));
	EXPECT_TRUE(wait_nodes(self));
}

static void change_depth(struct __test_metadata *_metadata,
			 FIXTURE_DATA(stress) *self)
{
	static const char * const depths[] = {
		"2", "4", "17", "33", "256", "1024"
	};

	EXPECT_EQ(0, uq_param_set("io_queue_depth",
				  UQ_PICK(&self->rng, depths)));
	reset(_metadata, self);
}

/* Errors are ignored: a queue may have no interrupt, or be gone. */
static void change_affinity(FIXTURE_DATA(stress) *self)
{
	static const char * const masks[] = { "1", "2", "3" };
	struct uq_node node;
	char path[64];
	unsigned int n;

	for (n = 0; uq_node_of_pci(&node, self->pci, n); n++) {
		snprintf(path, sizeof(path), "/proc/irq/%lld/smp_affinity",
			 uq_attr(node.name, "irq"));
		uq_write_line(path, UQ_PICK(&self->rng, masks));
	}
}

static void remove_and_rescan(struct __test_metadata *_metadata,
			      FIXTURE_DATA(stress) *self)
{
	EXPECT_EQ(0, uq_pci_take(self->pci, true));
	EXPECT_EQ(-1, uq_ctrl_of_pci(self->pci));
	EXPECT_EQ(0, uq_write_line("/sys/bus/pci/rescan", "1"));
	self->removed = true;
	EXPECT_TRUE(wait_nodes(self));
}

/* Fails if the queue is not available or has become smaller. */
static int put_limit(const struct uq_node *node, const char *which,
		     unsigned int limit)
{
	char val[16];

	snprintf(val, sizeof(val), "%u", limit);
	return uq_attr_write(node->name, which, val);
}

/* Change the limits of queues and files. check_node() restores them. */
static void change_limits(FIXTURE_DATA(stress) *self)
{
	static const char * const names[] = { "limit", "file_limit" };
	struct uq_node node;
	unsigned int n, i;

	for (n = 0; uq_node_of_pci(&node, self->pci, n); n++)
		for (i = 0; i < ARRAY_SIZE(names); i++)
			if (node.depth && uq_1in(&self->rng, 2))
				put_limit(&node, names[i], 1 +
					  uq_below(&self->rng, node.depth));
}

/*
 * Wait until at most @left faults are left. If the controller was removed, none
 * is.
 */
static void wait_fault(struct __test_metadata *_metadata,
		       FIXTURE_DATA(stress) *self, const char *what, int left)
{
	int ctrl = uq_ctrl_of_pci(self->pci);
	time_t start = uq_seconds();

	while (uq_fault_left(ctrl, what) > left && !self->all->bad) {
		ASSERT_GT(UQ_NEVER, uq_seconds() - start) TH_LOG("%s", what);
		respawn(_metadata, self);
		usleep(1000);
	}
}

/*
 * Lose completions. The tasks wait for their commands, and others wait if there
 * is a limit. The reset ends all of them.
 */
static void lose(struct __test_metadata *_metadata, FIXTURE_DATA(stress) *self)
{
	int ctrl = uq_ctrl_of_pci(self->pci);

	EXPECT_EQ(0, uq_fault_set(ctrl, "lose", 8));
	wait_fault(_metadata, self, "lose", 7);
	reset(_metadata, self);
	EXPECT_EQ(0, uq_fault_set(ctrl, "lose", 0));
	/* end commands that were lost after the reset */
	reset(_metadata, self);
}

static void repeat(struct __test_metadata *_metadata,
		   FIXTURE_DATA(stress) *self)
{
	EXPECT_EQ(0, uq_fault_set(uq_ctrl_of_pci(self->pci), "repeat", 8));
	self->repeated += 8;
	wait_fault(_metadata, self, "repeat", 0);
}

/* Inject faults, if the driver supports this and there are queues. */
static void misbehave(struct __test_metadata *_metadata,
		      FIXTURE_DATA(stress) *self)
{
	if (!uq_can_fault(uq_ctrl_of_pci(self->pci)) ||
	    !(self->irq + self->poll))
		reset(_metadata, self);
	else if (uq_1in(&self->rng, 3))
		repeat(_metadata, self);
	else
		lose(_metadata, self);
}

static void disturb(struct __test_metadata *_metadata,
		    FIXTURE_DATA(stress) *self)
{
	switch (uq_below(&self->rng, 10)) {
	case 0:
		reset(_metadata, self);
		break;
	case 1:
	case 8:
		misbehave(_metadata, self);
		break;
	case 2:
	case 3:
		kill_one(_metadata, self);
		break;
	case 4:
		change_numbers(_metadata, self);
		break;
	case 5:
		change_depth(_metadata, self);
		break;
	case 6:
		change_affinity(self);
		break;
	case 7:
		remove_and_rescan(_metadata, self);
		break;
	case 9:
		change_limits(self);
		break;
	}
}

/* -- final checks */

/*
 * Check that all commands have completed, that no command waits, that the queue
 * is not claimed, and that all slots are usable.
 */
static void check_node(struct __test_metadata *_metadata,
		       const struct uq_node *node)
{
	EXPECT_EQ(0, put_limit(node, "limit", node->depth));
	EXPECT_EQ(0, put_limit(node, "file_limit", node->depth));
	EXPECT_TRUE(uq_wait_idle(node->name)) TH_LOG("%s", node->name);
	EXPECT_EQ(0, uq_attr(node->name, "waiting")) TH_LOG("%s", node->name);
	EXPECT_TRUE(uq_wait_unclaimed(node->name)) TH_LOG("%s", node->name);
	EXPECT_EQ(uq_attr(node->name, "submitted"),
		  uq_attr(node->name, "completed")) TH_LOG("%s", node->name);
	EXPECT_GE(uq_attr(node->name, "completed"),
		  uq_attr(node->name, "cancelled")) TH_LOG("%s", node->name);
	EXPECT_EQ(0, uq_fill_slots(node)) TH_LOG("%s", node->name);
}

/* Stop all workers and create queues with this depth. */
static void stop_all(struct __test_metadata *_metadata,
		     FIXTURE_DATA(stress) *self, const char *depth)
{
	unsigned int n;

	__atomic_store_n(&self->all->stop, 1, __ATOMIC_RELAXED);
	for (n = 0; n < WORKERS; n++) {
		int status = uq_wait_child(self->pid[n], &self->all->done);

		expect_end(_metadata, self, n, status);
	}
	EXPECT_EQ(0, uq_param_set("io_queue_depth", depth));
	self->irq = 2;
	self->poll = 2;
	self->ns.ctrl = uq_ctrl_of_pci(self->pci);
	EXPECT_EQ(0, uq_bring_up(&self->ns, 2, 2));
	EXPECT_TRUE(wait_nodes(self));
}

TEST_F_TIMEOUT(stress, everything_at_once, 2 * 3600)
{
	unsigned int n, round, rounds = ROUNDS * uq_scale();
	unsigned int commands = variant->commands * uq_scale();
	long long before = 0, spurious = 0;
	struct uq_node node;

	for (n = 0; uq_node_of_pci(&node, self->pci, n); n++)
		before += uq_attr(node.name, "spurious");
	TH_LOG("UQ_TEST_SEED=%llu, %u rounds", (unsigned long long)self->seed,
	       rounds);
	for (n = 0; n < WORKERS; n++)
		spawn(_metadata, self, n);
	for (round = 0; round < rounds && !self->all->bad; round++) {
		/* without queues, no command completes */
		if (self->irq + self->poll)
			ASSERT_TRUE(wait_progress(_metadata, self,
						  commands))
				TH_LOG("round %u", round);
		respawn(_metadata, self);
		disturb(_metadata, self);
	}
	/* a slow device needs a long time for all slots of a deep queue */
	stop_all(_metadata, self, variant->slow ? "32" : self->depth);
	TH_LOG("%lu ended, %lu interrupted, %lu with a status; %u processes",
	       self->all->done, self->all->interrupted, self->all->status,
	       self->streams);
	TH_LOG("%lu found no queue, %lu a claimed one; %lu claims, %lu looks",
	       self->all->turned_away, self->all->claimed_away,
	       self->all->claims, self->all->looks);
	EXPECT_EQ(0, self->all->bad);
	EXPECT_EQ(0, all_blocks(self, false));
	for (n = 0; uq_node_of_pci(&node, self->pci, n); n++) {
		node.nsid = self->ns.nsid;
		check_node(_metadata, &node);
		spurious += uq_attr(node.name, "spurious");
	}
	EXPECT_EQ(4, n);
	/* the counters of a removed device start at zero */
	EXPECT_GE(self->repeated + (self->removed ? 0 : before), spurious);
	EXPECT_TRUE(uq_peace_kept(&self->peace));
}

int main(int argc, char **argv)
{
	/* a worker calls exec with this argument */
	if (argc == 2 && !strcmp(argv[1], "exec"))
		return 0;
	return uq_main(argc, argv);
}
