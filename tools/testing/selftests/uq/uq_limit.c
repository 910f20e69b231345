// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: limits of commands in flight, per open file and per queue.
 * Check which values fail, how limits delay commands, the share of each open
 * file on a slow device, and that no command waits forever. The tests count
 * commands and do not measure time.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <linux/nvme_uq.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "uq_fixture.h"

#define OUTSTANDING	96

FIXTURE(limit)
{
	struct uq_node node;
	unsigned char *buf;
	int fd;
};

FIXTURE_VARIANT(limit)
{
	bool poll;
};

/* clang-format off */
FIXTURE_VARIANT_ADD(limit, irq) { .poll = false };
FIXTURE_VARIANT_ADD(limit, poll) { .poll = true };
/* clang-format on */

FIXTURE_SETUP(limit)
{
	struct uq_ns ns;

	/* on a fast device, few commands are in flight at any time */
	if (!uq_ns_slow(&ns))
		SKIP(return, "UQ_TEST_SLOW_DEV names no NVMe namespace");
	if (ns.lba != 512)
		SKIP(return, "%s has blocks of %u bytes", ns.block, ns.lba);
	if (uq_no_queue(&ns, variant->poll))
		SKIP(return, UQ_NO_QUEUE);
	ASSERT_TRUE(uq_node_nth(&self->node, &ns, variant->poll, 0));
	ASSERT_LE(64 + OUTSTANDING, self->node.depth);
	self->fd = open(self->node.path, O_RDWR);
	ASSERT_LE(0, self->fd);
	self->buf = uq_alloc(65536);
	ASSERT_NE(NULL, self->buf);
}

FIXTURE_TEARDOWN(limit)
{
	if (!self->buf)
		return;
	EXPECT_TRUE(uq_wait_idle(self->node.name));
	EXPECT_EQ(self->node.depth, uq_attr(self->node.name, "limit"));
	EXPECT_EQ(self->node.depth, uq_attr(self->node.name, "file_limit"));
	EXPECT_EQ(0, uq_attr(self->node.name, "waiting"));
	EXPECT_EQ(uq_attr(self->node.name, "submitted"),
		  uq_attr(self->node.name, "completed"));
	close(self->fd);
}

static int set_limit(int fd, __u32 scope, __u32 limit)
{
	struct nvme_uq_limit l = { .scope = scope, .limit = limit };

	return ioctl(fd, NVME_UQ_IOCTL_SET_LIMIT, &l) ? -errno : 0;
}

/* All bits are set on failure. */
static struct nvme_uq_limit get_limit(int fd, __u32 scope)
{
	struct nvme_uq_limit l = { .scope = scope };

	if (ioctl(fd, NVME_UQ_IOCTL_GET_LIMIT, &l))
		memset(&l, 0xff, sizeof(l));
	return l;
}

static int write_attr(FIXTURE_DATA(limit) *self, const char *attr,
		      const char *val)
{
	return uq_attr_write(self->node.name, attr, val);
}

static int write_limit(FIXTURE_DATA(limit) *self, const char *val)
{
	return write_attr(self, "limit", val);
}

/* -- invalid limits, and limits that can be read */

TEST_F(limit, refused)
{
	const __u32 bad[] = { 0, self->node.depth + 1, 65536, ~0u };
	unsigned int scope, i;
	struct nvme_uq_limit l;

	for (scope = NVME_UQ_LIMIT_FILE; scope <= NVME_UQ_LIMIT_QUEUE;
	     scope++) {
		ASSERT_EQ(0, set_limit(self->fd, scope, 7));
		for (i = 0; i < ARRAY_SIZE(bad); i++) {
			EXPECT_EQ(-EINVAL, set_limit(self->fd, scope, bad[i]))
				TH_LOG("scope %u, limit %u", scope, bad[i]);
		}
		/* the limit has not changed */
		EXPECT_EQ(7, get_limit(self->fd, scope).limit);
		ASSERT_EQ(0, set_limit(self->fd, scope, self->node.depth));
	}
	EXPECT_EQ(-EINVAL, set_limit(self->fd, 2, 7));
	EXPECT_EQ(-EINVAL, set_limit(self->fd, ~0u, 7));
	memset(&l, 0, sizeof(l));
	l.scope = 2;
	EXPECT_EQ(-1, ioctl(self->fd, NVME_UQ_IOCTL_GET_LIMIT, &l));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, ioctl(self->fd, NVME_UQ_IOCTL_SET_LIMIT, NULL));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(-1, ioctl(self->fd, NVME_UQ_IOCTL_GET_LIMIT, NULL));
	EXPECT_EQ(EFAULT, errno);
}

static int try_limit(int fd, unsigned int nr, struct nvme_uq_limit l)
{
	return ioctl(fd, nr, &l) ? -errno : 0;
}

/* Members without a meaning must be 0, so that they can get one later. */
TEST_F(limit, members_that_must_be_zero)
{
	const struct nvme_uq_limit bad[] = {
		{ .limit = 7, .flags = 1 },
		{ .limit = 7, .flags = 1u << 31 },
		{ .limit = 7, .reserved = 1 },
		/* outputs */
		{ .limit = 7, .in_flight = 1 },
		{ .limit = 7, .waiting = 1 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_EQ(-EINVAL, try_limit(self->fd, NVME_UQ_IOCTL_SET_LIMIT,
					     bad[i])) TH_LOG("%u", i);
		EXPECT_EQ(i < 3 ? -EINVAL : 0,
			  try_limit(self->fd, NVME_UQ_IOCTL_GET_LIMIT, bad[i]))
			TH_LOG("%u", i);
	}
	EXPECT_EQ(self->node.depth,
		  get_limit(self->fd, NVME_UQ_LIMIT_FILE).limit);
}

TEST_F(limit, refused_by_the_attributes)
{
	static const char * const bad[] = {
		"0", "-1", "x", "\n", "4294967296", "65536", "7x",
	};
	static const char * const attrs[] = { "limit", "file_limit" };
	unsigned int i, a;
	char depth[16], more[16];

	snprintf(depth, sizeof(depth), "%u", self->node.depth);
	snprintf(more, sizeof(more), "%u", self->node.depth + 1);
	for (a = 0; a < ARRAY_SIZE(attrs); a++) {
		ASSERT_EQ(0, write_attr(self, attrs[a], "9"));
		EXPECT_EQ(-EINVAL, write_attr(self, attrs[a], more));
		for (i = 0; i < ARRAY_SIZE(bad); i++) {
			int ret = write_attr(self, attrs[a], bad[i]);

			EXPECT_TRUE(ret == -EINVAL || ret == -ERANGE)
				TH_LOG("%s, value %u: %d", attrs[a], i, ret);
		}
		EXPECT_EQ(9, uq_attr(self->node.name, attrs[a]));
		EXPECT_EQ(0, write_attr(self, attrs[a], depth));
	}
}

/* file_limit limits open files and files that are opened later. */
TEST_F(limit, limit_of_each_file)
{
	char depth[16];
	int other;

	ASSERT_EQ(0, set_limit(self->fd, NVME_UQ_LIMIT_FILE, 20));
	ASSERT_EQ(0, write_attr(self, "file_limit", "8"));
	EXPECT_EQ(8, get_limit(self->fd, NVME_UQ_LIMIT_FILE).limit);
	other = open(self->node.path, O_RDWR);
	ASSERT_LE(0, other);
	EXPECT_EQ(8, get_limit(other, NVME_UQ_LIMIT_FILE).limit);
	/* a file can lower its limit, but cannot raise it above file_limit */
	ASSERT_EQ(0, set_limit(other, NVME_UQ_LIMIT_FILE, 3));
	EXPECT_EQ(3, get_limit(other, NVME_UQ_LIMIT_FILE).limit);
	ASSERT_EQ(0, set_limit(other, NVME_UQ_LIMIT_FILE, 9));
	EXPECT_EQ(8, get_limit(other, NVME_UQ_LIMIT_FILE).limit);
	snprintf(depth, sizeof(depth), "%u", self->node.depth);
	ASSERT_EQ(0, write_attr(self, "file_limit", depth));
	EXPECT_EQ(9, get_limit(other, NVME_UQ_LIMIT_FILE).limit);
	EXPECT_EQ(20, get_limit(self->fd, NVME_UQ_LIMIT_FILE).limit);
	close(other);
}

/* The ioctl and the attribute show the same limit of a queue. */
TEST_F(limit, attribute_and_ioctl)
{
	struct nvme_uq_limit l = get_limit(self->fd, NVME_UQ_LIMIT_QUEUE);
	int other = open(self->node.path, O_RDONLY);

	ASSERT_LE(0, other);
	EXPECT_EQ(self->node.depth, l.limit);
	EXPECT_EQ(0, l.in_flight);
	EXPECT_EQ(0, l.waiting);
	ASSERT_EQ(0, write_limit(self, "12"));
	EXPECT_EQ(12, get_limit(self->fd, NVME_UQ_LIMIT_QUEUE).limit);
	ASSERT_EQ(0, set_limit(self->fd, NVME_UQ_LIMIT_QUEUE, 13));
	EXPECT_EQ(13, uq_attr(self->node.name, "limit"));
	EXPECT_EQ(13, get_limit(other, NVME_UQ_LIMIT_QUEUE).limit);

	/* each file has a limit of its own */
	EXPECT_EQ(self->node.depth,
		  get_limit(self->fd, NVME_UQ_LIMIT_FILE).limit);
	ASSERT_EQ(0, set_limit(self->fd, NVME_UQ_LIMIT_FILE, 5));
	EXPECT_EQ(5, get_limit(self->fd, NVME_UQ_LIMIT_FILE).limit);
	EXPECT_EQ(self->node.depth,
		  get_limit(other, NVME_UQ_LIMIT_FILE).limit);
	EXPECT_EQ(13, uq_attr(self->node.name, "limit"));
	close(other);
	ASSERT_EQ(0, set_limit(self->fd, NVME_UQ_LIMIT_QUEUE,
			       self->node.depth));
}

static int limits_unprivileged(void *data)
{
	FIXTURE_DATA(limit) *self = data;
	int fd = open(self->node.path, O_RDONLY);

	if (fd < 0)
		return 2;
	if (set_limit(fd, NVME_UQ_LIMIT_QUEUE, 3) != -EACCES)
		return 3;
	if (write_limit(self, "3") != -EACCES ||
	    write_attr(self, "file_limit", "3") != -EACCES)
		return 4;
	if (get_limit(fd, NVME_UQ_LIMIT_QUEUE).limit != self->node.depth)
		return 5;
	/* any user may set the limit of a file */
	if (set_limit(fd, NVME_UQ_LIMIT_FILE, 3))
		return 6;
	return get_limit(fd, NVME_UQ_LIMIT_FILE).limit == 3 ? 0 : 7;
}

/*
 * Only the administrator sets the limit of a queue, as it affects all open
 * files.
 */
TEST_F(limit, permission)
{
	EXPECT_EQ(0, uq_run_with_mode(&self->node, 0666, limits_unprivileged,
				      self));
}

/* A descriptor that was passed on: the receiver has no right to the node. */
static int lower_only(void *data)
{
	FIXTURE_DATA(limit) *self = data;
	int fd = self->fd;

	if (open(self->node.path, O_RDONLY) >= 0)
		return 2;
	if (set_limit(fd, NVME_UQ_LIMIT_FILE, 5) != -EACCES ||
	    set_limit(fd, NVME_UQ_LIMIT_FILE, self->node.depth) != -EACCES)
		return 3;
	if (set_limit(fd, NVME_UQ_LIMIT_FILE, self->node.depth + 1) != -EINVAL)
		return 4;
	if (get_limit(fd, NVME_UQ_LIMIT_FILE).limit != 4)
		return 5;
	if (set_limit(fd, NVME_UQ_LIMIT_FILE, 4) ||
	    set_limit(fd, NVME_UQ_LIMIT_FILE, 3))
		return 6;
	if (set_limit(fd, NVME_UQ_LIMIT_FILE, 4) != -EACCES)
		return 7;
	return get_limit(fd, NVME_UQ_LIMIT_FILE).limit == 3 ? 0 : 8;
}

/* A limit also binds who gets the descriptor. Only an administrator raises it. */
TEST_F(limit, raised_by_the_administrator_only)
{
	ASSERT_EQ(0, set_limit(self->fd, NVME_UQ_LIMIT_FILE, 4));
	EXPECT_EQ(0, uq_run_with_mode(&self->node, 0600, lower_only, self));
	EXPECT_EQ(0, set_limit(self->fd, NVME_UQ_LIMIT_FILE, 9));
	EXPECT_EQ(9, get_limit(self->fd, NVME_UQ_LIMIT_FILE).limit);
}

/* -- delayed commands */

static int ring_of(const struct uq_node *node, struct io_uring *ring)
{
	return uq_ring(ring, OUTSTANDING, node->poll ? IORING_SETUP_IOPOLL : 0);
}

static struct nvme_uring_cmd *prep_read(struct io_uring *ring,
					const struct uq_node *node, int fd,
					void *buf)
{
	return uq_prep(ring, fd, node->nsid, CMD_READ, 0, buf, 512);
}

/* Submission does not wait. Commands above the limit wait, and all complete. */
TEST_F(limit, submission_does_not_wait)
{
	long long before = uq_attr(self->node.name, "completed");
	struct nvme_uq_limit l;
	struct io_uring ring;
	unsigned int i;

	ASSERT_EQ(0, ring_of(&self->node, &ring));
	ASSERT_EQ(0, set_limit(self->fd, NVME_UQ_LIMIT_FILE, 4));
	for (i = 0; i < 32; i++)
		prep_read(&ring, &self->node, self->fd, self->buf + i * 512);
	ASSERT_EQ(32, io_uring_submit(&ring));
	/*
	 * Commands above the limit wait in workers, which start later. On a
	 * busy host, a worker may start only after the device has completed one
	 * of the others.
	 */
	do {
		l = get_limit(self->fd, NVME_UQ_LIMIT_FILE);
		ASSERT_GE(4, l.in_flight);
	} while (!l.waiting &&
		 uq_attr(self->node.name, "completed") < before + 32);
	for (i = 0; i < 32; i++) {
		ASSERT_EQ(0, uq_reap(&ring, NULL));
		ASSERT_GE(4, get_limit(self->fd, NVME_UQ_LIMIT_FILE).in_flight);
	}
	l = get_limit(self->fd, NVME_UQ_LIMIT_FILE);
	EXPECT_EQ(0, l.in_flight);
	EXPECT_EQ(0, l.waiting);
	io_uring_queue_exit(&ring);
}

/* Set a limit below the commands in flight. It is not exceeded later. */
TEST_F(limit, limited_afterwards)
{
	struct io_uring ring;
	unsigned int i, most = 0;

	ASSERT_EQ(0, ring_of(&self->node, &ring));
	for (i = 0; i < 40; i++)
		prep_read(&ring, &self->node, self->fd, self->buf + i * 512);
	ASSERT_EQ(40, io_uring_submit(&ring));
	ASSERT_EQ(0, set_limit(self->fd, NVME_UQ_LIMIT_FILE, 2));
	for (i = 0; i < 40; i++)
		ASSERT_EQ(0, uq_reap(&ring, NULL));
	EXPECT_EQ(0, get_limit(self->fd, NVME_UQ_LIMIT_FILE).in_flight);
	for (i = 0; i < 10; i++)
		prep_read(&ring, &self->node, self->fd, self->buf + i * 512);
	ASSERT_EQ(10, io_uring_submit(&ring));
	for (i = 0; i < 10; i++) {
		__u32 now = get_limit(self->fd, NVME_UQ_LIMIT_FILE).in_flight;

		most = now > most ? now : most;
		ASSERT_EQ(0, uq_reap(&ring, NULL));
	}
	EXPECT_GE(2, most);
	io_uring_queue_exit(&ring);
}

/* Put one buffer into the only slot of a ring. */
static int put_buffer(struct io_uring *ring, void *buf, size_t len)
{
	struct iovec iov = { buf, len };
	__u64 tag = 0;

	return io_uring_register_buffers_update_tag(ring, 0, &iov, &tag, 1);
}

static void replace_buffer(struct __test_metadata *_metadata,
			   FIXTURE_DATA(limit) *self, unsigned int flags)
{
	const size_t len = 64 * 512;
	unsigned char *second = self->buf + len;
	unsigned int i, one[2] = { 1, 1 };
	int block = open(self->node.block, O_RDWR | O_DIRECT);
	unsigned char *want = uq_alloc(len);
	struct io_uring ring;

	ASSERT_LE(0, block);
	uq_fill(want, len, 90 + flags);
	ASSERT_EQ(len, pwrite(block, want, len, 0));
	close(block);
	memset(self->buf, 0, 2 * len);
	ASSERT_EQ(0, uq_ring(&ring, 64, flags));
	/* the only worker gets to most commands later */
	ASSERT_EQ(0, io_uring_register_iowq_max_workers(&ring, one));
	ASSERT_EQ(0, io_uring_register_buffers_sparse(&ring, 1));
	ASSERT_EQ(1, put_buffer(&ring, self->buf, len));
	for (i = 0; i < 64; i++) {
		struct nvme_uring_cmd *c;

		c = uq_prep(&ring, self->fd, self->node.nsid, CMD_READ, i,
			    self->buf + i * 512, 512);
		uq_sqe(c)->uring_cmd_flags = IORING_URING_CMD_FIXED;
	}
	ASSERT_EQ(64, io_uring_submit(&ring));
	ASSERT_EQ(1, put_buffer(&ring, second, len));
	for (i = 0; i < 64; i++)
		EXPECT_EQ(0, uq_reap(&ring, NULL));
	EXPECT_EQ(0, memcmp(self->buf, want, len));
	for (i = 0; i < len && !second[i]; i++)
		;
	EXPECT_EQ(len, i) TH_LOG("data in the second buffer");
	io_uring_queue_exit(&ring);
	munmap(want, len);
}

/*
 * A registered buffer is looked up when a command is submitted, even if the
 * command has to wait. So it can be replaced once io_uring_enter() has
 * returned.
 */
TEST_F(limit, buffer_replaced_while_waiting)
{
	ASSERT_EQ(0, write_limit(self, "1"));
	if (variant->poll)
		replace_buffer(_metadata, self, IORING_SETUP_IOPOLL);
	replace_buffer(_metadata, self, 0);
	ASSERT_EQ(0, set_limit(self->fd, NVME_UQ_LIMIT_QUEUE,
			       self->node.depth));
}

/*
 * A task is killed while its commands wait. The task ends, and nothing waits
 * any more.
 */
TEST_F(limit, killed_while_waiting)
{
	unsigned int round, i;
	int status;
	pid_t pid;

	for (round = 0; round < 4; round++) {
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			int fd = open(self->node.path, O_RDWR);
			struct io_uring ring;

			if (fd < 0 || ring_of(&self->node, &ring) ||
			    set_limit(fd, NVME_UQ_LIMIT_FILE, 1))
				_exit(1);
			for (i = 0; i < 64; i++)
				prep_read(&ring, &self->node, fd,
					  self->buf + i * 512);
			io_uring_submit(&ring);
			while (!get_limit(fd, NVME_UQ_LIMIT_FILE).waiting)
				uq_rest();
			kill(getpid(), SIGKILL);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_TRUE(WIFSIGNALED(status)) TH_LOG("status %d", status);
	}
	while (uq_attr(self->node.name, "waiting"))
		uq_rest();
	EXPECT_TRUE(uq_wait_idle(self->node.name));
}

/* -- tenants */

/* An open file that keeps @outstanding commands in the ring. */
struct tenant {
	const struct uq_node	*node;
	unsigned char		*buf;
	unsigned char		*idle[OUTSTANDING];	/* parts of @buf */
	unsigned int		nr_idle;
	unsigned int		outstanding;
	int			fd;
	atomic_bool		stop;
	atomic_ulong		done;
	unsigned long		bad, interrupted;
	bool			reset;	/* the controller is reset meanwhile */
	pthread_t		thread;
};

/* Prepare a read into a part of the buffer that is not in use. */
static void prep_next(struct io_uring *ring, struct tenant *t)
{
	unsigned char *part = t->idle[--t->nr_idle];

	io_uring_sqe_set_data(uq_sqe(prep_read(ring, t->node, t->fd, part)),
			      part);
}

static void *be_tenant(void *arg)
{
	struct tenant *t = arg;
	struct io_uring_cqe *cqe;
	unsigned int left = 0;
	struct io_uring ring;

	if (ring_of(t->node, &ring)) {
		t->bad++;
		return NULL;
	}
	while (left || !t->stop) {
		unsigned int head, n = 0;

		for (; !t->stop && t->nr_idle; left++)
			prep_next(&ring, t);
		if (io_uring_submit(&ring) < 0 ||
		    (left && io_uring_wait_cqe(&ring, &cqe))) {
			t->bad++;
			break;
		}
		io_uring_for_each_cqe(&ring, head, cqe) {
			if (cqe->res == -EINTR)
				t->interrupted++;
			else
				t->bad += !!cqe->res;
			t->idle[t->nr_idle++] = io_uring_cqe_get_data(cqe);
			n++;
		}
		io_uring_cq_advance(&ring, n);
		t->done += n;
		left -= n;
	}
	io_uring_queue_exit(&ring);
	return NULL;
}

static void start(struct __test_metadata *_metadata, FIXTURE_DATA(limit) *self,
		  struct tenant *t, unsigned int outstanding,
		  unsigned int limit)
{
	memset(t, 0, sizeof(*t));
	t->node = &self->node;
	t->outstanding = outstanding;
	t->buf = uq_alloc(outstanding * 512);
	ASSERT_NE(NULL, t->buf);
	for (; t->nr_idle < outstanding; t->nr_idle++)
		t->idle[t->nr_idle] = t->buf + t->nr_idle * 512;
	t->fd = open(self->node.path, O_RDWR);
	ASSERT_LE(0, t->fd);
	if (limit)
		ASSERT_EQ(0, set_limit(t->fd, NVME_UQ_LIMIT_FILE, limit));
	ASSERT_EQ(0, pthread_create(&t->thread, NULL, be_tenant, t));
}

static void stop(struct __test_metadata *_metadata, struct tenant *t)
{
	t->stop = true;
	/* let waiting commands complete quickly */
	EXPECT_EQ(0, set_limit(t->fd, NVME_UQ_LIMIT_FILE, t->node->depth));
	ASSERT_EQ(0, pthread_join(t->thread, NULL));
	EXPECT_EQ(0, t->bad);
	EXPECT_TRUE(t->reset || !t->interrupted);
	munmap(t->buf, t->outstanding * 512);
	close(t->fd);
}

static __u32 in_flight(const struct tenant *t)
{
	return get_limit(t->fd, NVME_UQ_LIMIT_FILE).in_flight;
}

/* Wait until a tenant has as many commands in flight as its limit. */
static void wait_full(const struct tenant *t, unsigned int limit)
{
	while (in_flight(t) < limit && !t->bad)
		uq_rest();
}

/* Wait until the @nr tenants together have completed @more commands. */
static void wait_done(struct tenant *t, unsigned int nr, unsigned long more)
{
	unsigned long before = 0, now;
	unsigned int i;

	for (i = 0; i < nr; i++)
		before += t[i].done;
	do {
		uq_rest();
		for (i = 0, now = 0; i < nr; i++)
			now += t[i].done;
	} while (now < before + more && !t->bad);
}

/*
 * A device serves commands in order, so the commands in flight of a file are
 * its share of the device. Both files reach their limit and never exceed it.
 */
static void share(struct __test_metadata *_metadata, FIXTURE_DATA(limit) *self,
		  unsigned int few, unsigned int many)
{
	struct tenant t[2];
	unsigned int i;

	start(_metadata, self, &t[0], OUTSTANDING, few);
	start(_metadata, self, &t[1], OUTSTANDING, many);
	for (i = 0; i < 8; i++) {
		wait_full(&t[0], few);
		EXPECT_GE(many, in_flight(&t[1]));
		wait_full(&t[1], many);
		EXPECT_GE(few, in_flight(&t[0]));
		wait_done(&t[0], 1, few);
		wait_done(&t[1], 1, few);
	}
	stop(_metadata, &t[0]);
	stop(_metadata, &t[1]);
}

TEST_F(limit, four_and_sixty)
{
	share(_metadata, self, 4, 60);
}

TEST_F(limit, as_many)
{
	share(_metadata, self, 16, 16);
}

/* The administrator changes file_limit under load, for all files at once. */
TEST_F(limit, limit_of_each_file_under_load)
{
	struct tenant t[2];
	char depth[16];
	unsigned int i;

	snprintf(depth, sizeof(depth), "%u", self->node.depth);
	start(_metadata, self, &t[0], OUTSTANDING, 4);
	start(_metadata, self, &t[1], OUTSTANDING, 0);
	wait_full(&t[1], OUTSTANDING / 2);
	ASSERT_EQ(0, write_attr(self, "file_limit", "10"));
	while (in_flight(&t[1]) > 10)
		uq_rest();
	for (i = 0; i < 10; i++) {
		wait_done(t, 2, 5);
		EXPECT_GE(4, in_flight(&t[0]));
		EXPECT_GE(10, in_flight(&t[1]));
	}
	ASSERT_EQ(0, write_attr(self, "file_limit", depth));
	wait_full(&t[1], 20);
	EXPECT_GE(4, in_flight(&t[0]));
	stop(_metadata, &t[0]);
	stop(_metadata, &t[1]);
}

/* The limit of a queue applies to all files together. */
TEST_F(limit, queue_limit)
{
	struct tenant t[2];
	unsigned int i;

	ASSERT_EQ(0, write_limit(self, "6"));
	start(_metadata, self, &t[0], OUTSTANDING, 0);
	start(_metadata, self, &t[1], OUTSTANDING, 0);
	for (i = 0; i < 10; i++) {
		wait_done(t, 2, 4);
		EXPECT_GE(6, uq_attr(self->node.name, "in_flight"));
		/* workers start later */
		while (uq_attr(self->node.name, "waiting") <= 0)
			uq_rest();
	}
	/* the first one that waits goes before new commands: both progress */
	wait_done(&t[0], 1, 1);
	wait_done(&t[1], 1, 1);
	ASSERT_EQ(0, set_limit(self->fd, NVME_UQ_LIMIT_QUEUE,
			       self->node.depth));
	stop(_metadata, &t[0]);
	stop(_metadata, &t[1]);
}

/* Raise and lower a limit under load. */
TEST_F(limit, changed_under_load)
{
	static const unsigned int limits[] = { 3, 24, 1, 16, 5 };
	struct tenant t;
	unsigned int i, k;

	start(_metadata, self, &t, OUTSTANDING, 4);
	for (i = 0; i < ARRAY_SIZE(limits); i++) {
		wait_full(&t, 1);
		ASSERT_EQ(0, set_limit(t.fd, NVME_UQ_LIMIT_FILE, limits[i]));
		/* earlier commands may still be in flight */
		while (in_flight(&t) > limits[i])
			uq_rest();
		wait_full(&t, limits[i]);
		for (k = 0; k < 5; k++) {
			wait_done(&t, 1, 2);
			EXPECT_GE(limits[i], in_flight(&t));
		}
	}
	stop(_metadata, &t);
}

/*
 * A tenant sends one command at a time, next to a tenant with many. The device
 * serves commands in order, so the command waits for the others in flight.
 * Return the largest number of others that were in flight after a submission.
 */
static unsigned int ahead_of(struct __test_metadata *_metadata,
			     FIXTURE_DATA(limit) *self, unsigned int rounds)
{
	unsigned int i, worst = 0;
	struct io_uring ring;

	ASSERT_EQ(0, ring_of(&self->node, &ring));
	for (i = 0; i < rounds; i++) {
		__u32 all, mine;

		prep_read(&ring, &self->node, self->fd, self->buf);
		ASSERT_EQ(1, io_uring_submit(&ring)) { return 0; }
		/* if the command has ended, it is not in flight any more */
		all = get_limit(self->fd, NVME_UQ_LIMIT_QUEUE).in_flight;
		mine = get_limit(self->fd, NVME_UQ_LIMIT_FILE).in_flight;
		if (all > mine + worst)
			worst = all - mine;
		ASSERT_EQ(0, uq_reap(&ring, NULL)) { return 0; }
	}
	io_uring_queue_exit(&ring);
	return worst;
}

TEST_F(limit, beside_a_greedy_one)
{
	unsigned int free_for_all, kept;
	struct tenant greedy;

	start(_metadata, self, &greedy, OUTSTANDING, 0);
	wait_full(&greedy, OUTSTANDING / 2);
	do {
		free_for_all = ahead_of(_metadata, self, 1);
	} while (free_for_all <= OUTSTANDING / 2 &&
		 __test_passed(_metadata));
	ASSERT_EQ(0, set_limit(greedy.fd, NVME_UQ_LIMIT_FILE, 4));
	while (in_flight(&greedy) > 4)
		uq_rest();
	kept = ahead_of(_metadata, self, 20);
	TH_LOG("at worst %u others first; %u where the greedy one has a limit of 4",
	       free_for_all, kept);
	/* the limit, and one that ended between the two calls */
	EXPECT_GE(5, kept);
	stop(_metadata, &greedy);
}

/*
 * A command that waits for the limit of its file does not block other files.
 * The limit of the queue is slightly more than both limits together. The second
 * file never exceeds its limit, so its commands never wait, although many
 * commands of the first one do.
 */
TEST_F(limit, waiters_do_not_block_other_files)
{
	struct tenant t[2];
	unsigned int i;

	ASSERT_EQ(0, write_limit(self, "34"));
	start(_metadata, self, &t[0], OUTSTANDING, 1);
	for (i = 0; i < 10; i++) {
		while (!get_limit(t[0].fd, NVME_UQ_LIMIT_FILE).waiting)
			uq_rest();
		if (!i)
			start(_metadata, self, &t[1], 30, 30);
		while (in_flight(&t[1]) < 30 && !t[1].bad &&
		       !get_limit(t[1].fd, NVME_UQ_LIMIT_FILE).waiting)
			uq_rest();
		EXPECT_EQ(0, get_limit(t[1].fd, NVME_UQ_LIMIT_FILE).waiting);
		EXPECT_GE(1, in_flight(&t[0]));
		wait_done(&t[1], 1, 15);
	}
	/* commands of the first file complete, too */
	wait_done(&t[0], 1, 1);
	ASSERT_EQ(0, set_limit(self->fd, NVME_UQ_LIMIT_QUEUE,
			       self->node.depth));
	stop(_metadata, &t[0]);
	stop(_metadata, &t[1]);
}

/* More tenants than the limit of the queue: all of them make progress. */
TEST_F(limit, no_file_starves)
{
	struct tenant t[5];
	unsigned int i;

	ASSERT_EQ(0, write_limit(self, "2"));
	for (i = 0; i < ARRAY_SIZE(t); i++)
		start(_metadata, self, &t[i], i == 4 ? OUTSTANDING : 8, 0);
	/*
	 * twice the outstanding commands: some were submitted after those of
	 * other tenants
	 */
	for (i = 0; i < ARRAY_SIZE(t); i++)
		wait_done(&t[i], 1, 16);
	EXPECT_GE(2, uq_attr(self->node.name, "in_flight"));
	ASSERT_EQ(0, set_limit(self->fd, NVME_UQ_LIMIT_QUEUE,
			       self->node.depth));
	for (i = 0; i < ARRAY_SIZE(t); i++)
		stop(_metadata, &t[i]);
}

/* -- waiters that do not run */

#define IDLERS	24
#define HOGS	16
#define FEW	4

struct idlers {
	const struct uq_node	*node;
	atomic_bool		last;	/* no idler reads again */
	atomic_bool		stop;
	atomic_uint		hogs;	/* that run */
	int			fd;
};

/* Run on CPU 0 only, or on all others. */
static void on_cpu_0(bool on)
{
	cpu_set_t all, set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	if (!on) {
		sched_getaffinity(0, sizeof(all), &all);
		CPU_XOR(&set, &all, &set);
	}
	sched_setaffinity(0, sizeof(set), &set);
}

/* Read blocks, on a CPU that others need. Return NULL if all reads succeed. */
static void *be_idler(void *arg)
{
	struct sched_param param = { };
	struct idlers *idlers = arg;
	void *buf = uq_alloc(512);
	bool good;

	on_cpu_0(true);
	sched_setscheduler(0, SCHED_IDLE, &param);
	do {
		good = pread(idlers->fd, buf, 512, 0) == 512;
	} while (good && !idlers->last);
	munmap(buf, 512);
	return good ? NULL : idlers;
}

static void *be_hog(void *arg)
{
	struct idlers *idlers = arg;

	on_cpu_0(true);
	/* so that idlers would run after some 20 minutes */
	setpriority(PRIO_PROCESS, 0, -20);
	idlers->hogs++;
	while (!idlers->stop)
		;
	return NULL;
}

/*
 * Start one of these as a process of its own: none of them may stop while it
 * holds a lock of the memory of those that must go on.
 */
static pid_t spawn(void *(*be)(void *arg), struct idlers *idlers)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(be(idlers) ? 1 : 0);
	}
	return pid;
}

static bool ends_well(pid_t pid)
{
	int status;

	return waitpid(pid, &status, 0) == pid && !status;
}

static unsigned int waiting(const struct idlers *idlers)
{
	return get_limit(idlers->fd, NVME_UQ_LIMIT_FILE).waiting;
}

/* Read a block of an idle queue as another user. */
static ssize_t read_beside(const struct idlers *idlers)
{
	int other = open(idlers->node->path, O_RDONLY);
	void *buf = uq_alloc(512);
	ssize_t ret;

	while (uq_attr(idlers->node->name, "in_flight"))
		uq_rest();
	ret = pread(other, buf, 512, 0);
	munmap(buf, 512);
	close(other);
	return ret;
}

/*
 * More commands wait than the queue admits. Then other tasks occupy the CPU of
 * those that wait, so they do not take the tags that become free. A command of
 * another user gets a tag, while many still wait. The others run on other CPUs.
 */
TEST_F(limit, waiters_that_do_not_run)
{
	pid_t idler[IDLERS], hog[HOGS];
	struct idlers *idlers;
	struct tenant busy;
	unsigned int i;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "one CPU");
	on_cpu_0(false);
	idlers = mmap(NULL, sizeof(*idlers), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, idlers);
	idlers->node = &self->node;
	idlers->fd = open(self->node.path, O_RDONLY);
	ASSERT_LE(0, idlers->fd);
	ASSERT_EQ(0, set_limit(self->fd, NVME_UQ_LIMIT_QUEUE, FEW));
	start(_metadata, self, &busy, 8 * FEW, 0);
	wait_full(&busy, 1);
	for (i = 0; i < IDLERS; i++) {
		idler[i] = spawn(be_idler, idlers);
		ASSERT_LT(0, idler[i]);
	}
	while (waiting(idlers) < 3 * FEW)
		uq_rest();
	for (i = 0; i < HOGS; i++) {
		hog[i] = spawn(be_hog, idlers);
		ASSERT_LT(0, hog[i]);
	}
	while (idlers->hogs < HOGS)
		uq_rest();
	idlers->last = true;
	stop(_metadata, &busy);
	EXPECT_EQ(512, read_beside(idlers));
	EXPECT_LE(FEW, (int)waiting(idlers));
	idlers->stop = true;
	for (i = 0; i < HOGS; i++)
		EXPECT_TRUE(ends_well(hog[i]));
	for (i = 0; i < IDLERS; i++)
		EXPECT_TRUE(ends_well(idler[i]));
	ASSERT_EQ(0, set_limit(self->fd, NVME_UQ_LIMIT_QUEUE,
			       self->node.depth));
	close(idlers->fd);
	munmap(idlers, sizeof(*idlers));
}

/* -- short timeouts, and notified workers */

/* Reads that the device cannot complete within a millisecond. */
static int hurry_unprivileged(void *data)
{
	FIXTURE_DATA(limit) *self = data;
	int fd = open(self->node.path, O_RDONLY), ret;
	struct io_uring ring;
	unsigned int i;

	if (fd < 0 || ring_of(&self->node, &ring))
		return 2;
	for (i = 0; i < 32; i++)
		prep_read(&ring, &self->node, fd,
			  self->buf + i * 512)->timeout_ms = 1;
	if (io_uring_submit(&ring) != 32)
		return 3;
	for (i = 0; i < 32; i++) {
		ret = uq_reap(&ring, NULL);
		if (ret)
			return ret == -EINTR ? 4 : 5;
	}
	return 0;
}

/*
 * A timeout of a millisecond on a slow device, from a user who may only open
 * the node, must not cause a reset.
 */
TEST_F(limit, short_timeout_resets_nothing)
{
	unsigned int before = uq_resets_logged(self->node.ns.ctrl);

	EXPECT_EQ(0, uq_run_with_mode(&self->node, 0666, hurry_unprivileged,
				      self));
	EXPECT_EQ(before, uq_resets_logged(self->node.ns.ctrl));
}

/*
 * Notify each worker of this task as a live patch does; return the number of
 * workers.
 */
static unsigned int notify_workers(void)
{
	struct dirent *entry;
	unsigned int n = 0;
	DIR *tasks = opendir("/proc/self/task");

	while (tasks && (entry = readdir(tasks))) {
		char path[300], comm[32];

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm",
			 entry->d_name);
		if (uq_read_line(path, comm, sizeof(comm)) ||
		    strncmp(comm, "iou-wrk", 7))
			continue;
		/* ignore a worker that has just ended */
		n += !uq_write_line(UQ_TESTMOD "/notify", entry->d_name);
	}
	if (tasks)
		closedir(tasks);
	return n;
}

/*
 * Workers that wait are notified of task work or of a live patch. Their
 * commands are not cancelled and complete.
 */
TEST_F(limit, notified_while_waiting)
{
	unsigned int i, notified = 0;
	struct io_uring ring;

	if (!uq_load_testmod("notify"))
		SKIP(return, "no " UQ_TESTMOD_FILE);
	ASSERT_EQ(0, ring_of(&self->node, &ring));
	ASSERT_EQ(0, set_limit(self->fd, NVME_UQ_LIMIT_FILE, 1));
	for (i = 0; i < 64; i++)
		prep_read(&ring, &self->node, self->fd, self->buf + i * 512);
	ASSERT_EQ(64, io_uring_submit(&ring));
	while (!get_limit(self->fd, NVME_UQ_LIMIT_FILE).waiting)
		uq_rest();
	for (i = 0; i < 64; i++) {
		notified += notify_workers();
		ASSERT_EQ(0, uq_reap(&ring, NULL));
	}
	EXPECT_LT(0, notified);
	io_uring_queue_exit(&ring);
	uq_unload_testmod();
}

/*
 * A reset ends commands in flight. Limits do not change, and waiting commands
 * continue.
 */
TEST_F(limit, reset_under_load)
{
	struct tenant t[2];
	unsigned int i;

	if (!uq_may_disrupt(NULL, 0))
		SKIP(return, UQ_NEEDS_LEAVE);
	ASSERT_EQ(0, write_limit(self, "20"));
	start(_metadata, self, &t[0], OUTSTANDING, 4);
	start(_metadata, self, &t[1], OUTSTANDING, 60);
	for (i = 0; i < 3; i++) {
		wait_full(&t[0], 4);
		wait_full(&t[1], 4);
		ASSERT_EQ(0, uq_reset(self->node.ns.ctrl));
		EXPECT_EQ(20, uq_attr(self->node.name, "limit"));
		EXPECT_EQ(4, get_limit(t[0].fd, NVME_UQ_LIMIT_FILE).limit);
		EXPECT_EQ(60, get_limit(t[1].fd, NVME_UQ_LIMIT_FILE).limit);
		wait_done(t, 2, 40);
		EXPECT_GE(4, in_flight(&t[0]));
		EXPECT_GE(20, uq_attr(self->node.name, "in_flight"));
	}
	ASSERT_EQ(0, set_limit(self->fd, NVME_UQ_LIMIT_QUEUE,
			       self->node.depth));
	for (i = 0; i < 2; i++) {
		t[i].reset = true;
		stop(_metadata, &t[i]);
	}
}

/* The layout is ABI. */
TEST(layout)
{
	EXPECT_EQ(24, sizeof(struct nvme_uq_limit));
}

int main(int argc, char **argv)
{
	return uq_main(argc, argv);
}
