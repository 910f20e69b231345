// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: a fuzzer. Several processes run random operations on all
 * nodes at once; every other process is unprivileged. They send commands with
 * random fields through rings of all kinds (uq_fuzz_cmd.c). They claim, map and
 * limit queues (uq_fuzz_map.c), and call other ioctls, read() and write(). They
 * close, duplicate and pass descriptors, unmap memory in use, and access
 * attributes.
 *
 * The fuzzer looks for tasks and commands that do not end and for undocumented
 * results. It also checks that unrelated memory and blocks do not change, and
 * reads the kernel log.
 *
 * It avoids operations that make the device unusable for other tests:
 *
 * - As root, all admin commands except Identify, Get Log Page, Get Features.
 *   Others delete queues and namespaces, format, sanitize, change firmware,
 *   tell the device where to write (Doorbell Buffer Config, host memory), or
 *   never end (Asynchronous Event Request). Unprivileged processes send all
 *   opcodes, as the kernel must reject them.
 * - Opcodes that the NVM command set does not define, reservations and vendor
 *   opcodes, unless the device is emulated.
 * - Writes outside the fuzzed blocks, except beyond the end of the namespace.
 * - Through ioctls, transfers without a buffer and commands for blocks with
 *   metadata. The device exceeds the buffer there; no user queue is involved.
 *
 * Environment, in addition to uq_random.h:
 *   UQ_TEST_FUZZ_OPS	minimum number of operations per test, instead of the
 *			number that UQ_TEST_SCALE implies
 */
#define _GNU_SOURCE
#define UQ_DISRUPTIVE	true
#include <linux/nvme_uq.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "uq_fixture.h"
#include "uq_inject.h"
#include "uq_fuzz.h"

#define OPS	4000
#define WORKERS	4
#define TARGETS	64
/* Queue depth: completions fill two pages, and queues can be full. */
#define DEPTH	"300"

/* -- descriptors */

static void open_file(struct fuzz *f, unsigned int slot)
{
	static const int modes[] = {
		O_RDWR, O_RDWR, O_RDWR, O_RDONLY, O_RDONLY, O_WRONLY,
		O_RDWR | O_NONBLOCK, O_RDWR | O_DIRECT, O_RDWR | O_APPEND,
		O_RDWR | O_TRUNC, O_PATH,
	};
	unsigned int t = uq_below(&f->rng, f->nr_target);

	if (f->file[slot].fd >= 0)
		close(f->file[slot].fd);
	f->file[slot].target = t;
	f->file[slot].claimed = false;
	f->file[slot].fd = open(f->target[t].node.path,
				UQ_PICK(&f->rng, modes) | O_CLOEXEC);
}

/* Pass a descriptor together with the number of its target. */
static void pass_file(struct fuzz *f, unsigned int slot)
{
	uq_send_fd(f->sock, f->file[slot].fd, f->file[slot].target,
		   MSG_DONTWAIT);
}

static void take_file(struct fuzz *f, unsigned int slot)
{
	unsigned int target;
	int fd = uq_receive_fd(f->sock, &target,
			       MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (fd < 0)
		return;
	if (f->file[slot].fd >= 0)
		close(f->file[slot].fd);
	f->file[slot].fd = fd;
	f->file[slot].target = target;
	f->file[slot].claimed = false;
}

static void fuzz_files(struct fuzz *f)
{
	unsigned int slot = uq_below(&f->rng, FUZZ_FDS);
	unsigned int other = uq_below(&f->rng, FUZZ_FDS);

	switch (uq_below(&f->rng, 5)) {
	case 0:
	case 1:
		open_file(f, slot);
		break;
	case 2:
		if (slot == other || f->file[slot].fd < 0 ||
		    f->file[other].fd < 0)
			break;
		dup3(f->file[slot].fd, f->file[other].fd, O_CLOEXEC);
		f->file[other].target = f->file[slot].target;
		f->file[other].claimed = f->file[slot].claimed;
		break;
	case 3:
		if (f->file[slot].fd >= 0)
			pass_file(f, slot);
		break;
	case 4:
		take_file(f, slot);
		break;
	}
}

/* -- other system calls on a file */

static void fuzz_calls(struct fuzz *f)
{
	unsigned int slot = uq_below(&f->rng, FUZZ_FDS);
	unsigned int lba = f->target[f->file[slot].target].node.ns.lba;
	struct pollfd pfd = { .fd = f->file[slot].fd,
			      .events = POLLIN | POLLOUT };
	unsigned char *at = f->area + uq_below(&f->rng, 2048);
	/* in the fuzzed blocks, sometimes misaligned */
	off_t pos = (off_t)(FUZZ_FIRST + uq_below(&f->rng, FUZZ_BLOCKS / 2)) *
		lba + (uq_1in(&f->rng, 8) ? 1 : 0);
	size_t len = (1 + uq_below(&f->rng, 16)) * lba -
		(uq_1in(&f->rng, 8) ? 1 : 0);
	struct iovec iov[2] = {
		{ uq_1in(&f->rng, 4) ? at : f->area, len },
		{ f->area + 16 * 4096, len },
	};
	int fd = pfd.fd;
	ssize_t ret = -1;

	switch (uq_below(&f->rng, 10)) {
	case 0:
		ret = read(fd, f->area, len);
		break;
	case 1:
		ret = pwrite(fd, iov[0].iov_base, len, pos);
		break;
	case 2:
		ret = pread(fd, iov[0].iov_base, len, uq_1in(&f->rng, 2) ? pos :
			    (off_t)uq_rnd(&f->rng));
		break;
	case 3:
		ret = preadv2(fd, iov, 1 + uq_below(&f->rng, 2), pos,
			      uq_below(&f->rng, 32));
		break;
	case 4:
		ret = pwritev2(fd, iov, 1 + uq_below(&f->rng, 2), pos,
			       uq_below(&f->rng, 32));
		break;
	case 5:
		lseek(fd, uq_rnd(&f->rng), uq_below(&f->rng, 6));
		break;
	case 6:
		poll(&pfd, 1, 0);
		break;
	case 7:
		fsync(fd);
		break;
	case 8:
		if (!ftruncate(fd, 4096))
			fuzz_bad(f, "a node was truncated");
		break;
	case 9:
		fcntl(fd, F_GETFL);
		break;
	}
	if (ret > 0 && (!lba || ret % lba || ret > (ssize_t)(2 * len)))
		fuzz_bad(f, "a file operation returned %zd, of %zu bytes at %lld",
			 ret, len, (long long)pos);
}

/* -- memory, while commands may use it */

static void fuzz_memory(struct fuzz *f)
{
	static const int prots[] = {
		PROT_READ, PROT_NONE, PROT_READ | PROT_WRITE
	};
	static const int advice[] = {
		MADV_DONTNEED, MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_COLD,
		MADV_PAGEOUT, MADV_WILLNEED,
	};
	size_t len = (1 + uq_below(&f->rng, 16)) * 4096;
	unsigned char *at = f->area + uq_below(&f->rng, 100) * 4096;
	pid_t pid;

	switch (uq_below(&f->rng, 8)) {
	case 0:
	case 1:
		mprotect(at, len, UQ_PICK(&f->rng, prots));
		break;
	case 2:
		madvise(at, len, UQ_PICK(&f->rng, advice));
		break;
	case 3:
		/* drop the memory, but keep the address range */
		mmap(at, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS |
		     MAP_FIXED, -1, 0);
		break;
	case 4:
		pid = uq_1in(&f->rng, 8) ? fork() : -1;
		if (!pid)
			_exit(0);
		if (pid > 0)
			waitpid(pid, NULL, 0);
		break;
	default:
		/* all memory exists again */
		mmap(f->area, FUZZ_AREA, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		break;
	}
}

/* -- a process */

/* One ring sends dozens of commands, so rings are used less often. */
static void one_thing(struct fuzz *f)
{
	switch (uq_below(&f->rng, 40)) {
	case 0 ... 4:
		fuzz_ring(f);
		return;
	case 5 ... 12:
		fuzz_ioctl(f);
		break;
	case 13 ... 26:
		fuzz_map(f);
		break;
	case 27 ... 28:
		fuzz_calls(f);
		break;
	case 29 ... 30:
		fuzz_memory(f);
		break;
	case 31 ... 33:
		fuzz_attr(f);
		break;
	default:
		fuzz_files(f);
		break;
	}
	fuzz_count(f, 1);
}

static void *anywhere(size_t len, int prot, int flags)
{
	void *p = mmap(NULL, len, prot, flags | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Allocate the buffers, between read-only pages. */
static bool get_memory(struct fuzz *f)
{
	size_t page = sysconf(_SC_PAGESIZE);
	unsigned char *all = anywhere(FUZZ_AREA + 2 * page,
				      PROT_READ | PROT_WRITE, MAP_PRIVATE);

	f->ranges = anywhere(FUZZ_RANGES, PROT_READ | PROT_WRITE, MAP_SHARED);
	f->arg = anywhere(2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	f->vec = calloc(FUZZ_VECS * FUZZ_VEC, sizeof(*f->vec));
	if (!all || !f->ranges || !f->arg || !f->vec)
		return false;
	f->guard[0] = all;
	f->area = all + page;
	f->guard[1] = f->area + FUZZ_AREA;
	f->hole = f->arg + page;
	memset(f->guard[0], FUZZ_PATTERN, page);
	memset(f->guard[1], FUZZ_PATTERN, page);
	memset(f->arg, FUZZ_PATTERN, page);
	fuzz_fill_ranges(f->ranges);
	return !mprotect(f->guard[0], page, PROT_READ) &&
		!mprotect(f->guard[1], page, PROT_READ) &&
		!mprotect(f->arg, page, PROT_READ) &&
		!mprotect(f->ranges, FUZZ_RANGES, PROT_READ) &&
		!mprotect(f->hole, page, PROT_NONE);
}

static void check_guards(struct fuzz *f)
{
	size_t i, page = f->area - f->guard[0];

	for (i = 0; i < page; i++)
		if (f->guard[0][i] != FUZZ_PATTERN ||
		    f->guard[1][i] != FUZZ_PATTERN) {
			fuzz_bad(f, "memory outside of all buffers was written");
			return;
		}
}

static int run(struct fuzz *f, unsigned int ops)
{
	unsigned int i;

	fuzz_map_init();
	if (!f->root && uq_drop_privileges())
		return 3;
	/* processes of a failed test must not disturb other tests */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!get_memory(f))
		return 4;
	for (i = 0; i < FUZZ_FDS; i++) {
		f->file[i].fd = -1;
		open_file(f, i);
	}
	while (f->ops < ops && !f->bad) {
		one_thing(f);
		check_guards(f);
	}
	return f->bad ? 2 : 0;
}

/* -- the test */

/* Size of the three parts of a namespace that must not change. */
#define PART	(256u << 10)

struct kept {
	struct uq_ns	ns;
	__u64		at[3];
	unsigned int	seed;
};

FIXTURE(fuzz)
{
	struct fuzz_target target[TARGETS];
	long long spurious[TARGETS];
	unsigned int nr_target;
	struct kept kept[16];
	unsigned int nr_kept;
	struct fuzz_shared *all;
	unsigned char *buf, *ref;
	struct uq_peace peace;
	int sock[2];
};

FIXTURE_VARIANT(fuzz)
{
	bool no_sgl;
};

/* clang-format off */
FIXTURE_VARIANT_ADD(fuzz, sgl) { .no_sgl = false };
FIXTURE_VARIANT_ADD(fuzz, prp) { .no_sgl = true };
/* clang-format on */

static void add_target(FIXTURE_DATA(fuzz) *self, const struct uq_node *node)
{
	unsigned int n = self->nr_target;
	char path[64];

	if (n == TARGETS)
		return;
	self->target[n].node = *node;
	snprintf(path, sizeof(path), "/sys/class/nvme/nvme%d", node->ns.ctrl);
	self->target[n].emulated = uq_is_emulated(path);
	self->spurious[n] = uq_attr(node->name, "spurious");
	chmod(node->path, 0666);
	uq_allow_claims(node->name, true);
	self->nr_target++;
}

/* Write or check the three parts through the block device. */
static int keep(FIXTURE_DATA(fuzz) *self, struct kept *k, bool check)
{
	char path[48];
	unsigned int i;
	int fd, ret = 0;

	snprintf(path, sizeof(path), "/dev/%s", k->ns.block);
	fd = open(path, O_RDWR | O_DIRECT);
	if (fd < 0)
		return -errno;
	for (i = 0; i < 3 && !ret; i++) {
		uq_fill(self->ref, PART, k->seed + i);
		if (!check)
			ret = pwrite(fd, self->ref, PART, k->at[i]) != PART;
		else if (pread(fd, self->buf, PART, k->at[i]) != PART)
			ret = -EIO;
		else if (memcmp(self->buf, self->ref, PART))
			ret = -EILSEQ;
	}
	close(fd);
	return ret;
}

static void add_namespace(struct __test_metadata *_metadata,
			  FIXTURE_DATA(fuzz) *self, const struct uq_ns *ns)
{
	struct kept *k = &self->kept[self->nr_kept];
	struct uq_node node;
	unsigned int n;
	int poll;

	for (poll = 0; poll < 2; poll++)
		for (n = 0; uq_node_nth(&node, ns, poll, n); n++)
			add_target(self, &node);
	if (!ns->usable || self->nr_kept == ARRAY_SIZE(self->kept))
		return;
	k->ns = *ns;
	/* two controllers may share the namespace */
	k->seed = ns->nsid * 4;
	k->at[0] = 0;
	k->at[1] = (__u64)FUZZ_FIRST * ns->lba - PART;
	k->at[2] = (__u64)(FUZZ_FIRST + FUZZ_BLOCKS) * ns->lba;
	ASSERT_EQ(0, keep(self, k, false)) TH_LOG("%s", ns->block);
	self->nr_kept++;
}

/* Bring up as many user queues as possible on each named controller. */
static void bring_up_all(struct __test_metadata *_metadata)
{
	int irq, poll, last = -1;
	struct uq_ns ns;
	unsigned int n;

	for (n = 0; uq_ns_nth(&ns, n); n++) {
		if (ns.ctrl != last)
			ASSERT_EQ(0, uq_bring_up(&ns, 2, 2));
		last = ns.ctrl;
		ASSERT_TRUE(uq_settle(&ns, &irq, &poll)) TH_LOG("%s", ns.block);
	}
}

FIXTURE_SETUP(fuzz)
{
	struct uq_ns ns;
	unsigned int n;

	ASSERT_TRUE(uq_ns_nth(&ns, 0));
	if (variant->no_sgl && !uq_can_fault(ns.ctrl))
		SKIP(return, UQ_NO_FAULTS);
	for (n = 0; variant->no_sgl && uq_ns_nth(&ns, n); n++)
		ASSERT_EQ(0, uq_fault_no_sgl(&ns, true));
	self->buf = uq_alloc(2 * PART);
	ASSERT_NE(NULL, self->buf);
	self->ref = self->buf + PART;
	ASSERT_EQ(0, uq_param_set("io_queue_depth", DEPTH));
	bring_up_all(_metadata);
	for (n = 0; uq_ns_nth(&ns, n); n++)
		add_namespace(_metadata, self, &ns);
	ASSERT_LT(0, self->nr_target);
	self->all = anywhere(4096, PROT_READ | PROT_WRITE, MAP_SHARED);
	ASSERT_NE(NULL, self->all);
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_DGRAM, 0, self->sock));
	uq_peace_begin(&self->peace, true);
}

/* Nodes of several namespaces share a queue. */
static bool is_first_of_queue(const FIXTURE_DATA(fuzz) *self, unsigned int n)
{
	const struct uq_node *node = &self->target[n].node;
	unsigned int i;

	for (i = 0; i < n; i++)
		if (self->target[i].node.ns.ctrl == node->ns.ctrl &&
		    !self->target[i].node.ns.ms &&
		    !strcmp(strrchr(self->target[i].node.name, 'q'),
			    strrchr(node->name, 'q')))
			return false;
	return true;
}

/* An idle queue has completed all commands, and has no other state. */
static void check_target(struct __test_metadata *_metadata,
			 FIXTURE_DATA(fuzz) *self, unsigned int n)
{
	const struct uq_node *node = &self->target[n].node;

	EXPECT_TRUE(uq_wait_idle(node->name)) TH_LOG("%s", node->name);
	EXPECT_EQ(uq_attr(node->name, "submitted"),
		  uq_attr(node->name, "completed")) TH_LOG("%s", node->name);
	EXPECT_EQ(self->spurious[n], uq_attr(node->name, "spurious"))
		TH_LOG("%s", node->name);
	EXPECT_TRUE(uq_wait_unclaimed(node->name)) TH_LOG("%s", node->name);
	EXPECT_EQ(0, uq_attr(node->name, "waiting")) TH_LOG("%s", node->name);
	if (!node->ns.ms && is_first_of_queue(self, n))
		EXPECT_EQ(0, uq_fill_slots(node)) TH_LOG("%s", node->name);
}

FIXTURE_TEARDOWN(fuzz)
{
	unsigned int n;

	if (!self->all)
		return;
	/* the socket drops descriptors that were not received */
	close(self->sock[0]);
	close(self->sock[1]);
	/* limits, modes, the depth of the next reset, and whether it uses SGLs */
	uq_restore_settings();
	for (n = 0; n < self->nr_target; n++)
		check_target(_metadata, self, n);
	for (n = 0; n < self->nr_kept; n++)
		EXPECT_EQ(0, keep(self, &self->kept[n], true))
			TH_LOG("%s: blocks that were not fuzzed have changed",
			       self->kept[n].ns.block);
	EXPECT_TRUE(uq_peace_kept(&self->peace));
	bring_up_all(_metadata);
}

static unsigned int operations(void)
{
	const char *s = getenv("UQ_TEST_FUZZ_OPS");
	int n = s ? atoi(s) : 0;

	return n > 0 ? n : OPS * uq_scale();
}

/* Start a process; every other one is unprivileged. */
static pid_t start(FIXTURE_DATA(fuzz) *self, __u64 seed, unsigned int n,
		   unsigned int ops)
{
	struct fuzz f = {
		.seed		= seed,
		.all		= self->all,
		.target		= self->target,
		.nr_target	= self->nr_target,
		.root		= n % 2 == 0,
		.sock		= self->sock[n % 2],
	};
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid)
		return pid;
	uq_rng_init(&f.rng, f.seed, n);
	_exit(run(&f, ops));
}

/* A million operations take hours with a debug kernel under emulation. */
TEST_F_TIMEOUT(fuzz, everything, 6 * 3600)
{
	unsigned int n, ops = operations();
	__u64 seed = uq_seed();
	pid_t pid[WORKERS];

	TH_LOG("UQ_TEST_SEED=%llu, %u operations on %u nodes",
	       (unsigned long long)seed, ops, self->nr_target);
	for (n = 0; n < WORKERS; n++) {
		pid[n] = start(self, seed, n, ops / WORKERS);
		ASSERT_LT(0, pid[n]);
	}
	for (n = 0; n < WORKERS; n++)
		EXPECT_EQ(0, uq_wait_child(pid[n], &self->all->done))
			TH_LOG("process %u", n);
	TH_LOG("%lu operations, %lu mappings", self->all->done,
	       self->all->maps);
	TH_LOG("commands: %lu done, %lu with a status, %lu refused; %lu found a claim",
	       self->all->ended[0], self->all->ended[1], self->all->ended[2],
	       self->all->claimed);
	EXPECT_LE(ops, self->all->done);
	/* some commands succeed and some fail */
	EXPECT_LT(0, self->all->ended[0]);
	/* with 2000 operations, only 0 to 9 commands get a status */
	if (ops > 2000)
		EXPECT_LT(0, self->all->ended[1]);
	EXPECT_LT(0, self->all->ended[2]);
	EXPECT_LT(0, self->all->maps);
}

int main(int argc, char **argv)
{
	return uq_main(argc, argv);
}
