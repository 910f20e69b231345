// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: claims. Only one open file can claim a completion queue.
 * Commands and claims of other open files fail meanwhile. An open file never
 * sees commands of another open file in the queue. This holds for all users,
 * and however the owner of the claim ends. The administrator allows and ends
 * claims.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "uq_cq.h"
#include "uq_fixture.h"

#define AREA	(1024 * 1024)
#define BATCH	64
#define PAGE	((size_t)sysconf(_SC_PAGESIZE))

FIXTURE(claim)
{
	struct uq_node node;
	long long spurious;	/* old value; other tests cause some */
	unsigned char *buf;
	unsigned int flags;	/* for rings */
	int fd[2];		/* two open files */
};

FIXTURE_VARIANT(claim)
{
	bool poll;
};

/* clang-format off */
FIXTURE_VARIANT_ADD(claim, irq) { .poll = false };
FIXTURE_VARIANT_ADD(claim, poll) { .poll = true };
/* clang-format on */

static int claim(int fd)
{
	return ioctl(fd, NVME_UQ_IOCTL_CLAIM) ? -errno : 0;
}

/*
 * The last reference to an open file may be dropped shortly after its task has
 * ended, as a kernel worker destroys rings.
 */
static int claim_soon(int fd)
{
	int ret;

	do {
		ret = claim(fd);
		sched_yield();
	} while (ret == -EBUSY);
	return ret;
}

FIXTURE_SETUP(claim)
{
	char why[UQ_WHY_LEN];
	int ret, i;

	ret = uq_need_node(&self->node, variant->poll, why, sizeof(why));
	if (ret == KSFT_SKIP)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, ret) TH_LOG("%s", why);
	ASSERT_EQ(0, uq_allow_claims(self->node.name, true));
	self->spurious = uq_attr(self->node.name, "spurious");
	self->flags = variant->poll ? IORING_SETUP_IOPOLL : 0;
	for (i = 0; i < 2; i++) {
		self->fd[i] = open(self->node.path, O_RDWR);
		ASSERT_LE(0, self->fd[i]);
	}
	i = open(self->node.path, O_RDWR);
	ASSERT_LE(0, i);
	if (claim_soon(i)) {
		ASSERT_EQ(EOPNOTSUPP, errno) TH_LOG("errno %d", errno);
		SKIP(return, "completion queues cannot be mapped here");
	}
	close(i);
	self->buf = uq_alloc(AREA);
	ASSERT_NE(NULL, self->buf);
}

FIXTURE_TEARDOWN(claim)
{
	if (!self->buf)
		return;
	EXPECT_TRUE(uq_check_idle(self->node.name, self->spurious));
}

/* Read one block through a new ring, into new memory. */
static int read_by(FIXTURE_DATA(claim) *self, int fd)
{
	void *buf = uq_alloc(4096);
	struct io_uring ring;
	int ret = buf ? uq_ring(&ring, 4, self->flags) : -ENOMEM;

	if (ret)
		return ret;
	uq_prep(&ring, fd, self->node.nsid, CMD_READ, 0, buf, 4096);
	ret = uq_run(&ring);
	io_uring_queue_exit(&ring);
	munmap(buf, 4096);
	return ret;
}

/*
 * Run @n commands. Every other one fails with a status, so that the device
 * writes data into all bytes of some entries and the counters advance.
 */
static int leave_marks(FIXTURE_DATA(claim) *self, int fd, unsigned int n)
{
	unsigned char *buf = uq_alloc(BATCH * 512);
	unsigned int i, batch, done = 0;
	struct io_uring ring;
	int ret = buf ? uq_ring(&ring, BATCH, self->flags) : -ENOMEM;

	while (!ret && done < n) {
		batch = n - done < BATCH ? n - done : BATCH;
		for (i = 0; i < batch; i++)
			uq_prep(&ring, fd, self->node.nsid, CMD_READ,
				i % 2 ? 0 : 1ull << 40, buf + i * 512, 512);
		if (io_uring_submit(&ring) != (int)batch)
			return -EPROTO;
		for (i = 0; i < batch; i++) {
			int res = uq_reap(&ring, NULL);

			if (res && STATUS(res) != ST_LBA_RANGE)
				ret = res;
		}
		done += batch;
	}
	io_uring_queue_exit(&ring);
	munmap(buf, BATCH * 512);
	return ret;
}

/*
 * Number of nonzero bytes in the pages of a mapped queue, without the phase
 * bits.
 */
static unsigned int leaked(const struct uq_cq *cq)
{
	const unsigned char *p = (const unsigned char *)cq->cqe;
	unsigned int n = 0, i;

	for (i = 0; i < cq->len; i++) {
		bool status = i % sizeof(*cq->cqe) ==
			offsetof(struct nvme_uq_cqe, status);

		/* the phase of an entry remains */
		if (status && i / sizeof(*cq->cqe) < cq->info->entries)
			n += !!(p[i] & ~1);
		else
			n += !!p[i];
	}
	return n;
}

static unsigned int leaked_info(const struct uq_cq *cq)
{
	const unsigned char *p = (const unsigned char *)cq->info;
	unsigned int n = 0, i;

	for (i = cq->info->size; i < PAGE; i++)
		n += !!p[i];
	return n + !!cq->info->submitted + !!cq->info->completed;
}

/* -- one claim */

TEST_F(claim, claimed_once)
{
	EXPECT_EQ(0, uq_attr(self->node.name, "claimed"));
	EXPECT_EQ(0, claim(self->fd[0]));
	EXPECT_EQ(1, uq_attr(self->node.name, "claimed"));
	EXPECT_EQ(0, claim(self->fd[0]));
	EXPECT_EQ(-EBUSY, claim(self->fd[1]));
	EXPECT_EQ(-EBUSY, claim(self->fd[1]));
	close(self->fd[0]);
	EXPECT_EQ(0, uq_attr(self->node.name, "claimed"));
	EXPECT_EQ(0, claim(self->fd[1]));
	close(self->fd[1]);
}

static int claim_unprivileged(void *data)
{
	FIXTURE_DATA(claim) *self = data;
	int fd = open(self->node.path, O_RDWR);

	if (fd < 0)
		return 2;
	if (uq_allow_claims(self->node.name, true) != -EACCES ||
	    uq_allow_claims(self->node.name, false) != -EACCES)
		return 3;
	return claim(fd) == -EPERM ? 0 : 4;
}

/* Only root decides who excludes others, and not who may open the node. */
TEST_F(claim, not_allowed)
{
	ASSERT_EQ(0, uq_allow_claims(self->node.name, false));
	EXPECT_EQ(0, uq_run_with_mode(&self->node, 0666, claim_unprivileged,
				      self));
	EXPECT_EQ(-EPERM, claim(self->fd[0]));
	EXPECT_EQ(0, uq_attr(self->node.name, "claimed"));
	EXPECT_EQ(0, read_by(self, self->fd[0]));
}

/* The attribute takes 0 and 1 only. */
TEST_F(claim, invalid_permission)
{
	static const char * const bad[] = { "2", "256", "-1", "yes", "\n" };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++)
		EXPECT_EQ(-EINVAL, uq_attr_write(self->node.name, "claim",
						 bad[i])) TH_LOG("%u", i);
	EXPECT_EQ(1, uq_attr(self->node.name, "claim"));
}

/*
 * The claim of the first file has ended: it sees no entry, and both files can
 * use the queue.
 */
static void expect_ended(struct __test_metadata *_metadata,
			 FIXTURE_DATA(claim) *self, struct uq_cq *cq)
{
	struct nvme_uq_info info = *cq->info;

	EXPECT_EQ(0, uq_attr(self->node.name, "claimed"));
	EXPECT_EQ(NVME_UQ_STATE_GONE, info.state);
	EXPECT_EQ(NVME_UQ_HEAD_NONE, info.head);
	EXPECT_EQ(UQ_CQ_GONE, uq_cq_look(cq));
	EXPECT_EQ(0, leave_marks(self, self->fd[1], 20));
	EXPECT_EQ(0, read_by(self, self->fd[0]));
	EXPECT_EQ(SIGBUS, uq_touch(cq->cqe, false));
	EXPECT_EQ(SIGBUS, uq_touch((const char *)cq->cqe + cq->len - PAGE, false));
	EXPECT_EQ(0, memcmp(&info, cq->info, sizeof(info)));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, PAGE, PROT_READ, MAP_SHARED,
				   self->fd[0], NVME_UQ_OFF_CQ));
	EXPECT_EQ(EPERM, errno);
}

/* The administrator ends a claim that is held. */
TEST_F(claim, revoked)
{
	struct uq_cq cq;

	ASSERT_EQ(0, uq_cq_map(&cq, self->fd[0]));
	ASSERT_EQ(0, leave_marks(self, self->fd[0], 10));
	EXPECT_EQ(0, uq_touch(cq.cqe, false));
	EXPECT_EQ(-EBUSY, read_by(self, self->fd[1]));
	ASSERT_EQ(0, uq_allow_claims(self->node.name, false));
	expect_ended(_metadata, self, &cq);
	EXPECT_EQ(-EPERM, claim(self->fd[0]));

	/* the next owner's entries are not visible either */
	ASSERT_EQ(0, uq_allow_claims(self->node.name, true));
	ASSERT_EQ(0, claim(self->fd[1]));
	EXPECT_EQ(-EBUSY, claim(self->fd[0]));
	EXPECT_EQ(-EBUSY, read_by(self, self->fd[0]));
	EXPECT_EQ(0, read_by(self, self->fd[1]));
	EXPECT_EQ(SIGBUS, uq_touch(cq.cqe, false));
	EXPECT_EQ(NVME_UQ_STATE_GONE, cq.info->state);
	close(self->fd[1]);

	/* the mappings work again, and show no old entry */
	ASSERT_EQ(0, claim(self->fd[0]));
	EXPECT_EQ(0, leaked(&cq));
	EXPECT_EQ(0, leaked_info(&cq));
	EXPECT_EQ(NVME_UQ_STATE_LIVE, cq.info->state);
	EXPECT_EQ(0, leave_marks(self, self->fd[0], 10));
	EXPECT_EQ(10, cq.info->completed);
	EXPECT_NE(0, leaked(&cq));
	uq_cq_unmap(&cq);
	close(self->fd[0]);
}

/* Commands in flight complete when the claim ends. */
TEST_F(claim, revoked_under_load)
{
	struct io_uring ring;
	struct uq_cq cq;
	unsigned int round, i;

	for (round = 0; round < 8 * uq_scale(); round++) {
		ASSERT_EQ(0, uq_cq_map(&cq, self->fd[0]));
		ASSERT_EQ(0, uq_ring(&ring, BATCH, self->flags));
		for (i = 0; i < BATCH; i++)
			uq_prep(&ring, self->fd[0], self->node.nsid, CMD_READ,
				i, self->buf + i * 512, 512);
		ASSERT_EQ(BATCH, io_uring_submit(&ring));
		ASSERT_EQ(0, uq_allow_claims(self->node.name, false));
		EXPECT_EQ(NVME_UQ_STATE_GONE, cq.info->state);
		EXPECT_EQ(0, read_by(self, self->fd[1]));
		for (i = 0; i < BATCH; i++)
			EXPECT_EQ(0, uq_reap(&ring, NULL));
		ASSERT_EQ(0, uq_allow_claims(self->node.name, true));
		uq_cq_unmap(&cq);
		io_uring_queue_exit(&ring);
	}
}

/* The owner ends its claim, and keeps the file. */
TEST_F(claim, unclaimed)
{
	struct uq_cq cq;

	EXPECT_EQ(-1, ioctl(self->fd[0], NVME_UQ_IOCTL_UNCLAIM));
	EXPECT_EQ(EPERM, errno);
	ASSERT_EQ(0, uq_cq_map(&cq, self->fd[0]));
	EXPECT_EQ(-1, ioctl(self->fd[1], NVME_UQ_IOCTL_UNCLAIM));
	EXPECT_EQ(EPERM, errno);
	ASSERT_EQ(0, ioctl(self->fd[0], NVME_UQ_IOCTL_UNCLAIM));
	expect_ended(_metadata, self, &cq);
	uq_cq_unmap(&cq);
	EXPECT_EQ(0, claim(self->fd[1]));
	close(self->fd[1]);
}

/* If uq_cq_map() fails after the claim, others can use the queue. */
TEST_F(claim, map_fails)
{
	struct rlimit old, none = { };
	struct uq_cq cq;

	ASSERT_EQ(0, getrlimit(RLIMIT_AS, &old));
	none.rlim_max = old.rlim_max;
	ASSERT_EQ(0, setrlimit(RLIMIT_AS, &none));
	EXPECT_EQ(-ENOMEM, uq_cq_map(&cq, self->fd[0]));
	ASSERT_EQ(0, setrlimit(RLIMIT_AS, &old));
	EXPECT_EQ(0, uq_attr(self->node.name, "claimed"));
	EXPECT_EQ(0, read_by(self, self->fd[1]));
}

TEST_F(claim, needs_reading_and_writing)
{
	static const int modes[] = { O_RDONLY, O_WRONLY };
	unsigned int i;

	for (i = 0; i < 2; i++) {
		int fd = open(self->node.path, modes[i]);

		ASSERT_LE(0, fd);
		EXPECT_EQ(-EACCES, claim(fd));
		close(fd);
	}
	EXPECT_EQ(0, uq_attr(self->node.name, "claimed"));
}

/* Commands of other files fail, and the device does not receive them. */
TEST_F(claim, commands_of_others)
{
	struct nvme_passthru_cmd io = {
		.opcode		= CMD_READ,
		.nsid		= self->node.nsid,
		.addr		= (uintptr_t)self->buf,
		.data_len	= 4096,
		.cdw12		= 7,
	};
	long long sent;

	EXPECT_EQ(0, read_by(self, self->fd[1]));
	ASSERT_EQ(0, claim(self->fd[0]));
	sent = uq_attr(self->node.name, "submitted");
	EXPECT_EQ(-EBUSY, read_by(self, self->fd[1]));
	EXPECT_EQ(sent, uq_attr(self->node.name, "submitted"));
	/* operations that do not use the queue still work */
	EXPECT_EQ((int)self->node.nsid, ioctl(self->fd[1], NVME_IOCTL_ID));
	EXPECT_EQ(0, ioctl(self->fd[1], NVME_IOCTL_IO_CMD, &io));
	EXPECT_EQ(0, read_by(self, self->fd[0]));
	EXPECT_EQ(sent + 1, uq_attr(self->node.name, "submitted"));
	close(self->fd[0]);
	EXPECT_EQ(0, read_by(self, self->fd[1]));
	close(self->fd[1]);
}

/* The node of another namespace leads to the same queue. */
TEST_F(claim, node_of_a_neighbour)
{
	struct uq_node node[2];
	char why[UQ_WHY_LEN];
	struct io_uring ring;
	int ret, fd[2];

	ret = uq_need_neighbours(node, variant->poll, why, sizeof(why));
	if (ret == KSFT_SKIP)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, ret) TH_LOG("%s", why);
	ASSERT_EQ(uq_attr(node[0].name, "qid"), uq_attr(node[1].name, "qid"));
	fd[0] = open(node[0].path, O_RDWR);
	fd[1] = open(node[1].path, O_RDWR);
	ASSERT_LE(0, fd[0]);
	ASSERT_LE(0, fd[1]);
	ASSERT_EQ(0, uq_allow_claims(node[0].name, true));
	EXPECT_EQ(1, uq_attr(node[1].name, "claim"));
	ASSERT_EQ(0, claim(fd[0]));
	EXPECT_EQ(-EBUSY, claim(fd[1]));
	EXPECT_EQ(1, uq_attr(node[1].name, "claimed"));
	ASSERT_EQ(0, uq_ring(&ring, 4, self->flags));
	uq_prep_raw(&ring, fd[1], node[1].nsid, CMD_FLUSH, 0, NULL, 0, 0);
	EXPECT_EQ(-EBUSY, uq_run(&ring));
	close(fd[0]);
	EXPECT_EQ(0, claim(fd[1]));
	close(fd[1]);
	io_uring_queue_exit(&ring);
}

/* Claims fail while a command of any open file is in flight. */
TEST_F(claim, in_flight)
{
	struct uq_node slow;
	struct io_uring ring;
	unsigned int i;
	int fd[2];

	if (!uq_find_slow(&slow, variant->poll))
		SKIP(return, "UQ_TEST_SLOW_DEV names no NVMe namespace");
	ASSERT_EQ(0, uq_allow_claims(slow.name, true));
	fd[0] = open(slow.path, O_RDWR);
	fd[1] = open(slow.path, O_RDWR);
	ASSERT_LE(0, fd[0]);
	ASSERT_LE(0, fd[1]);
	ASSERT_EQ(0, uq_ring(&ring, 64, self->flags));
	for (i = 0; i < 64; i++)
		uq_prep(&ring, fd[0], slow.nsid, CMD_READ, i,
			self->buf + i * 512, 512);
	ASSERT_EQ(64, io_uring_submit(&ring));
	EXPECT_EQ(-EBUSY, claim(fd[0]));
	EXPECT_EQ(-EBUSY, claim(fd[1]));
	for (i = 0; i < 64; i++)
		EXPECT_EQ(0, uq_reap(&ring, NULL));
	EXPECT_EQ(0, claim(fd[1]));
	EXPECT_EQ(-EBUSY, claim(fd[0]));
	close(fd[1]);
	EXPECT_EQ(0, claim(fd[0]));
	close(fd[0]);
	io_uring_queue_exit(&ring);
}

/* Read a line of /proc/self/fdinfo/<fd>; -1 if there is none. */
static long long read_fdinfo(int fd, const char *key)
{
	char path[40], line[128];
	long long val = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "r");
	while (f && val < 0 && fgets(line, sizeof(line), f))
		if (!strncmp(line, key, strlen(key)) &&
		    line[strlen(key)] == ':')
			val = atoll(line + strlen(key) + 1);
	if (f)
		fclose(f);
	return val;
}

TEST_F(claim, fdinfo)
{
	struct nvme_uq_limit l = { .scope = NVME_UQ_LIMIT_FILE, .limit = 5 };
	struct nvme_uq_memory m = { .size = 65536 };
	unsigned int i;

	for (i = 0; i < 2; i++) {
		EXPECT_EQ(0, read_fdinfo(self->fd[i], "claimed"));
		EXPECT_EQ(self->node.depth, read_fdinfo(self->fd[i], "limit"));
		EXPECT_EQ(0, read_fdinfo(self->fd[i], "memory"));
		EXPECT_EQ(0, read_fdinfo(self->fd[i], "in_flight"));
		EXPECT_EQ(0, read_fdinfo(self->fd[i], "waiting"));
	}
	ASSERT_EQ(0, claim(self->fd[0]));
	ASSERT_EQ(0, ioctl(self->fd[0], NVME_UQ_IOCTL_SET_LIMIT, &l));
	ASSERT_EQ(0, ioctl(self->fd[0], NVME_UQ_IOCTL_ALLOC_MEMORY, &m));
	EXPECT_EQ(1, read_fdinfo(self->fd[0], "claimed"));
	EXPECT_EQ(5, read_fdinfo(self->fd[0], "limit"));
	EXPECT_EQ(m.size, read_fdinfo(self->fd[0], "memory"));
	EXPECT_EQ(0, read_fdinfo(self->fd[1], "claimed"));
	EXPECT_EQ(self->node.depth, read_fdinfo(self->fd[1], "limit"));
	EXPECT_EQ(0, read_fdinfo(self->fd[1], "memory"));
}

/* -- a claim lasts as long as the open file: descriptors and mappings */

TEST_F(claim, closed_then_unmapped)
{
	struct uq_cq cq;

	ASSERT_EQ(0, uq_cq_map(&cq, self->fd[0]));
	close(self->fd[0]);
	EXPECT_EQ(-EBUSY, claim(self->fd[1]));
	EXPECT_EQ(-EBUSY, read_by(self, self->fd[1]));
	munmap((void *)cq.cqe, cq.len);
	EXPECT_EQ(-EBUSY, claim(self->fd[1]));
	EXPECT_EQ(NVME_UQ_STATE_LIVE, cq.info->state);
	munmap((void *)cq.info, cq.info_len);
	EXPECT_EQ(0, claim(self->fd[1]));
	close(self->fd[1]);
}

TEST_F(claim, unmapped_then_closed)
{
	struct uq_cq cq;

	ASSERT_EQ(0, uq_cq_map(&cq, self->fd[0]));
	uq_cq_unmap(&cq);
	EXPECT_EQ(-EBUSY, claim(self->fd[1]));
	EXPECT_EQ(0, uq_cq_map(&cq, self->fd[0]));
	uq_cq_unmap(&cq);
	close(self->fd[0]);
	EXPECT_EQ(0, claim(self->fd[1]));
	close(self->fd[1]);
}

/*
 * Map a queue several times, unmap it page by page, close one of two
 * descriptors.
 */
TEST_F(claim, in_pieces)
{
	struct uq_cq cq, again;
	int copy = dup(self->fd[0]);

	ASSERT_LE(0, copy);
	ASSERT_EQ(0, uq_cq_map(&cq, self->fd[0]));
	ASSERT_EQ(0, uq_cq_map(&again, copy));
	close(self->fd[0]);
	uq_cq_unmap(&cq);
	EXPECT_EQ(-EBUSY, claim(self->fd[1]));
	close(copy);
	/* the last pages first */
	while (again.len) {
		EXPECT_EQ(-EBUSY, claim(self->fd[1]));
		again.len -= PAGE;
		munmap((void *)again.cqe + again.len, PAGE);
	}
	EXPECT_EQ(-EBUSY, claim(self->fd[1]));
	munmap((void *)again.info, again.info_len);
	EXPECT_EQ(0, claim(self->fd[1]));
	close(self->fd[1]);
}

/* A ring keeps references to its registered files. */
TEST_F(claim, registered_file)
{
	struct io_uring ring;

	ASSERT_EQ(0, uq_ring(&ring, 4, self->flags));
	ASSERT_EQ(0, claim(self->fd[0]));
	ASSERT_EQ(0, io_uring_register_files(&ring, self->fd, 1));
	close(self->fd[0]);
	EXPECT_EQ(-EBUSY, claim(self->fd[1]));
	io_uring_queue_exit(&ring);
	EXPECT_EQ(0, claim_soon(self->fd[1]));
	close(self->fd[1]);
}

/*
 * A process is killed while its queue is mapped and full. The queue becomes
 * idle and can be claimed again.
 */
TEST_F(claim, killed)
{
	unsigned int i, k;
	int status;
	pid_t pid;

	close(self->fd[0]);
	for (i = 0; i < 8 * uq_scale(); i++) {
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			int fd = open(self->node.path, O_RDWR);
			struct io_uring ring;
			struct uq_cq cq;

			if (fd < 0 || uq_ring(&ring, 512, self->flags) ||
			    claim_soon(fd) || uq_cq_map(&cq, fd))
				_exit(1);
			for (k = 0; k < 512; k++)
				uq_prep(&ring, fd, self->node.nsid, CMD_READ,
					k, self->buf + k * 512, 512);
			io_uring_submit(&ring);
			uq_cq_wait(&cq, &ring, 100);
			kill(getpid(), SIGKILL);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_TRUE(WIFSIGNALED(status)) TH_LOG("status %d", status);
	}
	EXPECT_EQ(0, claim_soon(self->fd[1]));
	EXPECT_EQ(0, read_by(self, self->fd[1]));
	close(self->fd[1]);
}

/* -- fork() and passed descriptors */

/* Run @fn() in a child and return its exit code. */
static int as_child(FIXTURE_DATA(claim) *self, struct uq_cq *cq,
		    int (*fn)(FIXTURE_DATA(claim) *self, struct uq_cq *cq))
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(fn(self, cq));
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int look_at_entries(FIXTURE_DATA(claim) *self, struct uq_cq *cq)
{
	return uq_cq_written(cq->cqe, true) & 0;
}

static int look_at_info(FIXTURE_DATA(claim) *self, struct uq_cq *cq)
{
	return __atomic_load_n(&cq->info->head, __ATOMIC_RELAXED) & 0;
}

static int map_anew(FIXTURE_DATA(claim) *self, struct uq_cq *cq)
{
	struct uq_cq mine;

	if (uq_cq_map(&mine, self->fd[0]))
		return 1;
	if (mine.info->submitted != 1 || read_by(self, self->fd[0]) ||
	    mine.info->submitted != 2)
		return 2;
	return 0;
}

TEST_F(claim, child)
{
	struct uq_cq cq;

	ASSERT_EQ(0, uq_cq_map(&cq, self->fd[0]));
	ASSERT_EQ(0, read_by(self, self->fd[0]));
	EXPECT_EQ(-SIGSEGV, as_child(self, &cq, look_at_entries));
	EXPECT_EQ(-SIGSEGV, as_child(self, &cq, look_at_info));
	/* the child inherits the descriptor, which allows a mapping */
	EXPECT_EQ(0, as_child(self, &cq, map_anew));
	/* its commands are visible here, and its exit does not end the claim */
	EXPECT_EQ(2, cq.info->completed);
	EXPECT_EQ(-EBUSY, claim(self->fd[1]));
	uq_cq_unmap(&cq);
	close(self->fd[0]);
	EXPECT_EQ(0, claim(self->fd[1]));
	close(self->fd[1]);
}

/* A process that receives a descriptor through a socket keeps the claim. */
TEST_F(claim, passed_on)
{
	int status, to[2];
	pid_t pid;
	char byte;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, to));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		unsigned int number;
		struct uq_cq cq;
		int fd;

		close(self->fd[0]);
		close(self->fd[1]);
		close(to[0]);
		if (uq_drop_privileges() ||
		    open(self->node.path, O_RDWR) >= 0)
			_exit(1);
		fd = uq_receive_fd(to[1], &number, 0);
		if (fd < 0 || uq_cq_map(&cq, fd))
			_exit(2);
		if (write(to[1], "m", 1) != 1 || read(to[1], &byte, 1) != 1)
			_exit(3);
		if (read_by(self, fd) || cq.info->completed != 1)
			_exit(4);
		_exit(0);
	}
	close(to[1]);
	ASSERT_EQ(0, claim(self->fd[0]));
	ASSERT_EQ(0, uq_send_fd(to[0], self->fd[0], 0, 0));
	close(self->fd[0]);
	ASSERT_EQ(1, read(to[0], &byte, 1));
	EXPECT_EQ(-EBUSY, claim(self->fd[1]));
	ASSERT_EQ(1, write(to[0], "g", 1));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, WEXITSTATUS(status));
	EXPECT_EQ(0, claim_soon(self->fd[1]));
	close(self->fd[1]);
}

/* -- commands of other files are not visible */

/*
 * Run different numbers of commands before the claim, up to two rounds of the
 * queue.
 */
TEST_F(claim, past_of_others)
{
	unsigned int entries = self->node.depth + 1, i;
	const unsigned int rounds[] = {
		1, 3, entries / 2, entries - 1, entries, entries + 1,
		2 * entries - 7,
	};
	struct uq_cq cq;

	for (i = 0; i < ARRAY_SIZE(rounds); i++) {
		int fd = open(self->node.path, O_RDWR);

		ASSERT_LE(0, fd);
		ASSERT_EQ(0, leave_marks(self, self->fd[1], rounds[i]));
		ASSERT_EQ(0, uq_cq_map(&cq, fd));
		EXPECT_EQ(0, leaked(&cq)) TH_LOG("after %u", rounds[i]);
		EXPECT_EQ(0, leaked_info(&cq));
		/* the queue still works */
		EXPECT_EQ(0, leave_marks(self, fd, entries + 3));
		EXPECT_NE(0, leaked(&cq));
		uq_cq_unmap(&cq);
		close(fd);
	}
}

/*
 * An open file sees its own commands, also after it has claimed the queue
 * again.
 */
TEST_F(claim, own_past)
{
	struct uq_cq cq;

	ASSERT_EQ(0, uq_cq_map(&cq, self->fd[0]));
	ASSERT_EQ(0, leave_marks(self, self->fd[0], 10));
	EXPECT_NE(0, leaked(&cq));
	EXPECT_EQ(10, cq.info->completed);
	uq_cq_unmap(&cq);
	ASSERT_EQ(0, uq_cq_map(&cq, self->fd[0]));
	EXPECT_NE(0, leaked(&cq));
	EXPECT_EQ(10, cq.info->completed);
	uq_cq_unmap(&cq);
	close(self->fd[0]);
	/* the next file does not see them */
	ASSERT_EQ(0, uq_cq_map(&cq, self->fd[1]));
	EXPECT_EQ(0, leaked(&cq));
	EXPECT_EQ(0, leaked_info(&cq));
	uq_cq_unmap(&cq);
	close(self->fd[1]);
}

/*
 * Other files try to use the queue while it is mapped: the mapping does not
 * change.
 */
TEST_F(claim, present_of_others)
{
	struct nvme_uq_cqe *before;
	struct nvme_uq_info info;
	struct uq_cq cq;

	ASSERT_EQ(0, uq_cq_map(&cq, self->fd[0]));
	ASSERT_EQ(0, leave_marks(self, self->fd[0], 20));
	before = malloc(cq.len);
	ASSERT_NE(NULL, before);
	memcpy(before, cq.cqe, cq.len);
	info = *cq.info;
	EXPECT_EQ(-EBUSY, read_by(self, self->fd[1]));
	EXPECT_EQ(-EBUSY, claim(self->fd[1]));
	EXPECT_EQ(0, memcmp(before, cq.cqe, cq.len));
	EXPECT_EQ(0, memcmp(&info, cq.info, sizeof(info)));
	free(before);
	uq_cq_unmap(&cq);
}

struct two {
	FIXTURE_DATA(claim)	*self;
	int			talk[2];
};

/*
 * The second user: runs commands, then looks for traces of the first user's
 * commands.
 */
static int other_user(struct two *two)
{
	FIXTURE_DATA(claim) *self = two->self;
	struct uq_cq cq;
	char byte;
	int fd;

	if (uq_drop_privileges())
		return 1;
	fd = open(self->node.path, O_RDWR);
	if (fd < 0 || leave_marks(self, fd, 2000))
		return 2;
	if (write(two->talk[1], "a", 1) != 1 ||
	    read(two->talk[1], &byte, 1) != 1)
		return 3;
	/* the first user has claimed the queue */
	if (claim(fd) != -EBUSY || read_by(self, fd) != -EBUSY)
		return 4;
	if (write(two->talk[1], "b", 1) != 1 ||
	    read(two->talk[1], &byte, 1) != 1)
		return 5;
	if (uq_cq_map(&cq, fd))
		return 6;
	if (leaked(&cq) || leaked_info(&cq))
		return 7;
	if (read_by(self, fd) || cq.info->completed != 1)
		return 8;
	return 0;
}

TEST_F(claim, two_users)
{
	struct two two = { .self = self };
	struct uq_cq cq;
	int status;
	pid_t pid;
	char byte;

	ASSERT_EQ(0, chmod(self->node.path, 0666));
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, two.talk));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		close(self->fd[0]);
		close(self->fd[1]);
		close(two.talk[0]);
		_exit(other_user(&two));
	}
	close(two.talk[1]);
	close(self->fd[1]);
	ASSERT_EQ(1, read(two.talk[0], &byte, 1));
	ASSERT_EQ(0, uq_cq_map(&cq, self->fd[0]));
	EXPECT_EQ(0, leaked(&cq));
	EXPECT_EQ(0, leaked_info(&cq));
	EXPECT_EQ(0, leave_marks(self, self->fd[0], 2000));
	ASSERT_EQ(1, write(two.talk[0], "A", 1));
	ASSERT_EQ(1, read(two.talk[0], &byte, 1));
	EXPECT_EQ(2000, cq.info->completed);
	uq_cq_unmap(&cq);
	close(self->fd[0]);
	ASSERT_EQ(1, write(two.talk[0], "B", 1));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, WEXITSTATUS(status));
	ASSERT_EQ(0, chmod(self->node.path, 0600));
}

static int claim_rw(void *data)
{
	FIXTURE_DATA(claim) *self = data;
	int fd = open(self->node.path, O_RDWR);

	return fd < 0 ? -errno : claim(fd);
}

static int claim_ro(void *data)
{
	FIXTURE_DATA(claim) *self = data;
	int fd = open(self->node.path, O_RDONLY);

	return fd < 0 ? 1 : claim(fd);
}

/* A claim requires that the node is open for reading and writing. */
TEST_F(claim, permission)
{
	struct uq_node *node = &self->node;

	close(self->fd[0]);
	close(self->fd[1]);
	EXPECT_EQ(-EACCES, uq_run_unprivileged(claim_rw, self));
	EXPECT_EQ(-EACCES, uq_run_with_mode(node, 0644, claim_rw, self));
	EXPECT_EQ(-EACCES, uq_run_with_mode(node, 0644, claim_ro, self));
	EXPECT_EQ(0, uq_run_with_mode(node, 0666, claim_rw, self));
}

/*
 * Run an opcode with a namespace id, without data and beyond the last block, as
 * Write Uncorrectable makes a block unreadable.
 */
static int result_of(FIXTURE_DATA(claim) *self, struct io_uring *ring, int fd,
		     int opcode, __u32 nsid)
{
	uq_prep_raw(ring, fd, nsid, opcode, ~0ull, NULL, 0, 0);
	return uq_run(ring);
}

/* Return 0 if a claim changes the result of no command. */
static int same_rights(void *data)
{
	FIXTURE_DATA(claim) *self = data;
	const __u32 nsid[] = { self->node.nsid, 0, self->node.nsid + 1, ~0u };
	int before[256][ARRAY_SIZE(nsid)], opcode, fd;
	struct io_uring ring;
	unsigned int i, pass;

	fd = open(self->node.path, O_RDWR);
	if (fd < 0 || uq_ring(&ring, 4, self->flags))
		return 2;
	for (pass = 0; pass < 2; pass++) {
		if (pass && claim_soon(fd))
			return 3;
		for (opcode = 0; opcode < 256; opcode++)
			for (i = 0; i < ARRAY_SIZE(nsid); i++) {
				int ret = result_of(self, &ring, fd, opcode,
						    nsid[i]);

				if (!pass)
					before[opcode][i] = ret;
				else if (ret != before[opcode][i])
					return 4;
			}
	}
	/* check that some commands failed, and that some did not */
	return before[CMD_READ][0] < 0 || before[CMD_READ][1] != -EINVAL ||
		before[CMD_READ][2] != -EINVAL ||
		before[0x80][0] != -EACCES ? 5 : 0;
}

/* A claim gives no privileges: the same commands fail as before. */
TEST_F(claim, no_more_rights)
{
	close(self->fd[0]);
	close(self->fd[1]);
	EXPECT_EQ(0, uq_run_with_mode(&self->node, 0666, same_rights, self));
}

/* -- several threads at once */

struct contender {
	FIXTURE_DATA(claim)	*self;
	unsigned long		won, lost, bad;
};

/* Claim the queue, look for traces of other files, run commands and close. */
static void *contend(void *arg)
{
	struct contender *c = arg;

	while (c->won < 25 * uq_scale() && !c->bad) {
		int fd = open(c->self->node.path, O_RDWR), ret;
		struct uq_cq cq;

		ret = fd < 0 ? -errno : uq_cq_map(&cq, fd);
		if (!ret) {
			c->won++;
			c->bad += leaked(&cq) || leaked_info(&cq);
			c->bad += !!leave_marks(c->self, fd, 8);
			c->bad += cq.info->completed != 8;
			uq_cq_unmap(&cq);
		} else if (ret == -EBUSY) {
			c->lost++;
			ret = read_by(c->self, fd);
			c->bad += ret && ret != -EBUSY;
		} else {
			c->bad++;
		}
		close(fd);
		sched_yield();
	}
	return NULL;
}

TEST_F(claim, contended)
{
	struct contender c[4] = { 0 };
	pthread_t t[4];
	unsigned int i;

	for (i = 0; i < 4; i++) {
		c[i].self = self;
		ASSERT_EQ(0, pthread_create(&t[i], NULL, contend, &c[i]));
	}
	for (i = 0; i < 4; i++) {
		ASSERT_EQ(0, pthread_join(t[i], NULL));
		TH_LOG("%lu claims, %lu refused", c[i].won, c[i].lost);
		EXPECT_EQ(0, c[i].bad);
	}
	EXPECT_EQ(0, claim_soon(self->fd[0]));
}

int main(int argc, char **argv)
{
	return uq_main(argc, argv);
}
