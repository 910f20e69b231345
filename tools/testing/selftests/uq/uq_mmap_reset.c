// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: a mapped completion queue during resets, changes of its
 * size, and removal of its queue, namespace or controller. A reader must learn
 * about each change. The mapping must never show a page that has another use.
 */
#define _GNU_SOURCE
#define UQ_DISRUPTIVE	true
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "uq_cq.h"
#include "uq_fixture.h"
#include "uq_load.h"

#define AREA	(1024 * 1024)
#define PAGE	((size_t)sysconf(_SC_PAGESIZE))

FIXTURE(life)
{
	struct uq_node node;
	struct io_uring ring;
	struct uq_cq cq;
	unsigned char *buf;
	char depth[16];		/* io_queue_depth before the test */
	int fd;
};

FIXTURE_VARIANT(life)
{
	bool poll;
	bool slow;
};

/* clang-format off */
FIXTURE_VARIANT_ADD(life, irq) { .poll = false };
FIXTURE_VARIANT_ADD(life, poll) { .poll = true };
FIXTURE_VARIANT_ADD(life, irq_slow) { .poll = false, .slow = true };
FIXTURE_VARIANT_ADD(life, poll_slow) { .poll = true, .slow = true };
/* clang-format on */

static const void *page_of(FIXTURE_DATA(life) *self, unsigned int n)
{
	return (const char *)self->cq.cqe + n * PAGE;
}

/* Remove the mapping, and close the ring and the file. */
static void let_go(FIXTURE_DATA(life) *self)
{
	uq_cq_forget(&self->cq);
	uq_cq_unmap(&self->cq);
	io_uring_queue_exit(&self->ring);
	close(self->fd);
}

FIXTURE_SETUP(life)
{
	char why[UQ_WHY_LEN];
	struct uq_ns ns;
	unsigned int i;
	int ret;

	ret = uq_need_ns(&ns, variant->slow, why, sizeof(why));
	if (ret == KSFT_SKIP)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, ret) TH_LOG("%s", why);
	/* an earlier test may have left other queues */
	ASSERT_TRUE(uq_bring_up_node(&self->node, &ns, variant->poll));
	ASSERT_EQ(0, uq_read_line("/sys/module/nvme/parameters/io_queue_depth",
				  self->depth, sizeof(self->depth)));
	ASSERT_EQ(0, uq_allow_claims(self->node.name, true));
	self->buf = uq_alloc(AREA);
	ASSERT_NE(NULL, self->buf);
	ASSERT_EQ(0, uq_ring(&self->ring, 64, variant->poll ?
			     IORING_SETUP_IOPOLL : 0));
	self->fd = open(self->node.path, O_RDWR);
	ASSERT_LE(0, self->fd);
	ret = uq_cq_map(&self->cq, self->fd);
	if (ret == -EOPNOTSUPP)
		SKIP(return, "completion queues cannot be mapped here");
	ASSERT_EQ(0, ret);
	/* fault in all pages, so that the driver has to remove them */
	for (i = 0; i < self->cq.len / PAGE; i++)
		ASSERT_EQ(0, uq_touch(page_of(self, i), false));
	ASSERT_EQ(0, uq_cq_survive(&self->cq));
}

FIXTURE_TEARDOWN(life)
{
	if (!self->cq.info)
		return;
	let_go(self);
}

/* Read a block, and poll the mapping for its completion. */
static int read_mapped(FIXTURE_DATA(life) *self)
{
	int ret;

	uq_prep(&self->ring, self->fd, self->node.nsid, CMD_READ, 0, self->buf,
		512);
	ret = io_uring_submit(&self->ring);
	if (ret != 1)
		return ret < 0 ? ret : -EPROTO;
	ret = uq_cq_wait(&self->cq, &self->ring, ~0ul);
	return ret < 0 ? ret : uq_reap(&self->ring, NULL);
}

/*
 * Count the bytes behind the entries, up to the end of their page, that are not
 * 0.
 */
static unsigned int beyond(FIXTURE_DATA(life) *self)
{
	const unsigned char *p = (const unsigned char *)self->cq.cqe;
	size_t end = self->cq.info->entries * sizeof(*self->cq.cqe), i;
	unsigned int n = 0;

	for (i = end; i < ((end + PAGE - 1) & -PAGE) && i < self->cq.len; i++)
		n += !!p[i];
	return n;
}

/* -- resets */

/* The mapping survives a reset and shows the new queue. */
TEST_F(life, reset)
{
	const struct nvme_uq_info *info = self->cq.info;
	unsigned int i;

	for (i = 0; i < 3; i++) {
		__u32 before = info->generation;
		unsigned int k;

		for (k = 0; k < 10; k++)
			ASSERT_EQ(0, read_mapped(self));
		ASSERT_EQ(0, uq_reset(self->node.ns.ctrl));
		EXPECT_EQ(NVME_UQ_STATE_LIVE, info->state);
		EXPECT_EQ(before + 1, info->generation);
		EXPECT_EQ(NVME_UQ_HEAD_PHASE, info->head);
		EXPECT_EQ(info->submitted, info->completed);
		EXPECT_EQ(UQ_CQ_NEW, uq_cq_look(&self->cq));
		for (k = 0; k < self->cq.mapped; k++)
			ASSERT_FALSE(uq_cq_written(&self->cq.cqe[k], true));
		ASSERT_EQ(0, read_mapped(self));
	}
}

/* The claim survives a reset: other files cannot use the queue. */
TEST_F(life, claim_outlives_a_reset)
{
	int other = open(self->node.path, O_RDWR);
	struct io_uring ring;

	ASSERT_LE(0, other);
	ASSERT_EQ(0, uq_reset(self->node.ns.ctrl));
	EXPECT_EQ(-1, ioctl(other, NVME_UQ_IOCTL_CLAIM));
	EXPECT_EQ(EBUSY, errno);
	ASSERT_EQ(0, uq_ring(&ring, 4, self->node.poll ? IORING_SETUP_IOPOLL :
			     0));
	uq_prep(&ring, other, self->node.nsid, CMD_READ, 0, self->buf, 512);
	EXPECT_EQ(-EBUSY, uq_run(&ring));
	io_uring_queue_exit(&ring);
	close(other);
	EXPECT_EQ(0, read_mapped(self));
}

struct reader {
	FIXTURE_DATA(life)	*self;
	struct uq_load		load;
	unsigned long		seen[UQ_CQ_GONE + 1];
	pthread_t		thread;
};

/* Keep 32 commands in flight and poll the mapping. */
static void *run_reader(void *arg)
{
	FIXTURE_DATA(life) *self = ((struct reader *)arg)->self;
	struct reader *k = arg;
	struct uq_load *l = &k->load;
	unsigned int i, left;

	while (!l->stop) {
		for (i = 0; i < 32; i++)
			uq_prep(&self->ring, self->fd, self->node.nsid,
				CMD_READ, i, self->buf + i * 512, 512);
		if (io_uring_submit(&self->ring) != 32) {
			l->bad++;
			break;
		}
		l->sent += 32;
		for (left = 32; left; left--) {
			while (!io_uring_cq_ready(&self->ring)) {
				enum uq_cq_seen saw = uq_cq_look(&self->cq);

				k->seen[saw]++;
				if (saw == UQ_CQ_NONE)
					continue;
				uq_cq_wait(&self->cq, &self->ring, 0);
			}
			uq_load_count(l, uq_reap(&self->ring, NULL));
			l->done++;
		}
	}
	return NULL;
}

static void start_reader(struct __test_metadata *_metadata,
			 FIXTURE_DATA(life) *self, struct reader *k)
{
	memset(k, 0, sizeof(*k));
	k->self = self;
	k->load.node = &self->node;
	ASSERT_EQ(0, pthread_create(&k->thread, NULL, run_reader, k));
}

static void end_reader(struct __test_metadata *_metadata, struct reader *k)
{
	k->load.stop = true;
	ASSERT_EQ(0, pthread_join(k->thread, NULL));
	TH_LOG("seen: %lu down, %lu new, %lu remap, %lu gone",
	       k->seen[UQ_CQ_DOWN], k->seen[UQ_CQ_NEW], k->seen[UQ_CQ_REMAP],
	       k->seen[UQ_CQ_GONE]);
	EXPECT_TRUE(uq_load_is_good(&k->load));
	EXPECT_EQ(0, k->load.status);
}

/* Under load, each command completes once, and the reader does not hang. */
TEST_F(life, reset_under_load)
{
	struct reader reader;
	unsigned int i;

	start_reader(_metadata, self, &reader);
	for (i = 0; i < 5 * uq_scale(); i++) {
		uq_load_wait_busy(&reader.load);
		EXPECT_EQ(0, uq_reset(self->node.ns.ctrl));
	}
	end_reader(_metadata, &reader);
	EXPECT_EQ(0, reader.seen[UQ_CQ_GONE]);
	EXPECT_EQ(0, read_mapped(self));
	EXPECT_TRUE(uq_wait_idle(self->node.name));
	EXPECT_EQ(uq_attr(self->node.name, "submitted"),
		  uq_attr(self->node.name, "completed"));
}

/* -- resets that change the size of the queue */

static void set_depth(struct __test_metadata *_metadata,
		      FIXTURE_DATA(life) *self, const char *depth)
{
	ASSERT_EQ(0, uq_param_set("io_queue_depth", depth));
	ASSERT_EQ(0, uq_reset(self->node.ns.ctrl));
	ASSERT_EQ(0, uq_param_set("io_queue_depth", self->depth));
}

UQ_LEAVE_OUT("life.*_slow.shorter", "one device is enough");

TEST_F(life, shorter)
{
	const struct nvme_uq_info *info = self->cq.info;
	unsigned int i, was = info->entries;

	if (was < 2 * PAGE / sizeof(*self->cq.cqe))
		SKIP(return, "%u entries at most", was);
	ASSERT_EQ(0, read_mapped(self));
	set_depth(_metadata, self, "100");
	EXPECT_EQ(100, info->entries);
	EXPECT_EQ(99, info->limit);
	EXPECT_EQ(0, uq_touch(page_of(self, 0), false));
	EXPECT_EQ(0, beyond(self));
	for (i = 1; i < self->cq.len / PAGE; i++)
		EXPECT_EQ(SIGBUS, uq_touch(page_of(self, i), false))
			TH_LOG("page %u", i);
	/* go around the queue twice */
	for (i = 0; i < 250; i++)
		ASSERT_EQ(0, read_mapped(self)) TH_LOG("read %u", i);

	set_depth(_metadata, self, self->depth);
	EXPECT_EQ(was, info->entries);
	for (i = 0; i < self->cq.len / PAGE; i++)
		EXPECT_EQ(0, uq_touch(page_of(self, i), false))
			TH_LOG("page %u", i);
	for (i = 0; i < was + 20; i++)
		ASSERT_EQ(0, read_mapped(self)) TH_LOG("read %u", i);
}

UQ_LEAVE_OUT("life.*_slow.longer", "one device is enough");

/*
 * A mapping that is too short returns UQ_CQ_REMAP. A new one covers the queue.
 */
TEST_F(life, longer)
{
	const struct nvme_uq_info *info = self->cq.info;
	unsigned int i, seen = 0, was = info->entries;

	set_depth(_metadata, self, "100");
	uq_cq_forget(&self->cq);
	uq_cq_unmap(&self->cq);
	ASSERT_EQ(0, uq_cq_map(&self->cq, self->fd));
	info = self->cq.info;
	ASSERT_EQ(100, self->cq.mapped);
	ASSERT_EQ(0, uq_cq_survive(&self->cq));

	set_depth(_metadata, self, self->depth);
	ASSERT_EQ(was, info->entries);
	for (i = 0; i < 2 * was; i++) {
		/*
		 * beyond the end of the mapping, the kernel finds completions
		 */
		ASSERT_EQ(0, read_mapped(self)) TH_LOG("read %u", i);
		seen += uq_cq_look(&self->cq) == UQ_CQ_REMAP;
	}
	EXPECT_LT(0, seen);
	uq_cq_forget(&self->cq);
	uq_cq_unmap(&self->cq);
	ASSERT_EQ(0, uq_cq_map(&self->cq, self->fd));
	ASSERT_EQ(was, self->cq.mapped);
	for (i = 0; i < 2 * was; i++) {
		ASSERT_EQ(0, read_mapped(self)) TH_LOG("read %u", i);
		ASSERT_EQ(UQ_CQ_IDLE, uq_cq_look(&self->cq));
	}
}

/* Change the size under load, while a thread polls the mapping. */
TEST_F(life, sizes_under_load)
{
	static const char * const depth[] = { "100", "700", "64", "1024" };
	struct reader reader;
	unsigned int i;

	start_reader(_metadata, self, &reader);
	for (i = 0; i < ARRAY_SIZE(depth) * uq_scale(); i++) {
		uq_load_wait_busy(&reader.load);
		EXPECT_EQ(0, uq_param_set("io_queue_depth",
					  depth[i % ARRAY_SIZE(depth)]));
		EXPECT_EQ(0, uq_reset(self->node.ns.ctrl));
	}
	EXPECT_EQ(0, uq_param_set("io_queue_depth", self->depth));
	end_reader(_metadata, &reader);
	EXPECT_EQ(0, uq_reset(self->node.ns.ctrl));
	uq_cq_forget(&self->cq);
	uq_cq_unmap(&self->cq);
	ASSERT_EQ(0, uq_cq_map(&self->cq, self->fd));
	EXPECT_EQ(0, read_mapped(self));
}

/* -- a queue that a reset removes and a later one creates again */

TEST_F(life, away_and_back)
{
	int irq = variant->poll ? 2 : 0, poll = variant->poll ? 0 : 2;
	const struct nvme_uq_info *info = self->cq.info;
	__u32 before = info->generation;

	ASSERT_EQ(0, read_mapped(self));
	ASSERT_EQ(0, uq_bring_up(&self->node.ns, irq, poll));
	EXPECT_EQ(NVME_UQ_STATE_DOWN, info->state);
	EXPECT_EQ(UQ_CQ_DOWN, uq_cq_look(&self->cq));
	EXPECT_EQ(-ESHUTDOWN, read_mapped(self));
	ASSERT_TRUE(uq_wait_nodes(&self->node.ns, irq, poll));

	ASSERT_EQ(0, uq_bring_up(&self->node.ns, 2, 2));
	EXPECT_EQ(NVME_UQ_STATE_LIVE, info->state);
	EXPECT_NE(before, info->generation);
	EXPECT_EQ(0, read_mapped(self));
	ASSERT_TRUE(uq_wait_nodes(&self->node.ns, 2, 2));
}

/* -- removal */

/* After the queue is gone, the mapping reports this and all calls fail. */
static void expect_gone(struct __test_metadata *_metadata,
			FIXTURE_DATA(life) *self)
{
	const struct nvme_uq_info *info = self->cq.info;
	void *p;

	EXPECT_EQ(NVME_UQ_STATE_GONE, info->state);
	EXPECT_EQ(UQ_CQ_GONE, uq_cq_look(&self->cq));
	EXPECT_GT(0, read_mapped(self));
	EXPECT_EQ(-1, ioctl(self->fd, NVME_UQ_IOCTL_CLAIM));
	p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, self->fd, NVME_UQ_OFF_CQ);
	EXPECT_EQ(MAP_FAILED, p);
}

/* A new open file can claim and map the new queue. */
static int use_new(const struct uq_ns *ns, bool poll)
{
	FIXTURE_DATA(life) new = { 0 };
	int ret;

	if (!uq_node_nth(&new.node, ns, poll, 0))
		return -ENOENT;
	ret = uq_allow_claims(new.node.name, true);
	if (ret)
		return ret;
	new.buf = uq_alloc(PAGE);
	new.fd = open(new.node.path, O_RDWR);
	if (new.fd < 0 || !new.buf)
		return -errno;
	ret = uq_ring(&new.ring, 4, poll ? IORING_SETUP_IOPOLL : 0);
	if (ret)
		return ret;
	ret = uq_cq_map(&new.cq, new.fd);
	if (!ret)
		ret = read_mapped(&new);
	let_go(&new);
	return ret;
}

static void unbind_and_bind(struct __test_metadata *_metadata,
			    FIXTURE_DATA(life) *self, bool device, bool load)
{
	struct uq_ns ns = self->node.ns;
	struct reader reader;
	char pci[64];
	unsigned int i;

	ASSERT_EQ(0, uq_pci_of(&ns, pci, sizeof(pci)));
	if (load) {
		start_reader(_metadata, self, &reader);
		uq_load_wait_busy(&reader.load);
	}
	EXPECT_EQ(0, uq_pci_take(pci, device));
	if (load)
		end_reader(_metadata, &reader);

	expect_gone(_metadata, self);
	/* under load, the SIGBUS handler may have replaced the page */
	for (i = 0; !load && i < self->cq.len / PAGE; i++)
		EXPECT_EQ(SIGBUS, uq_touch(page_of(self, i), false))
			TH_LOG("page %u", i);

	/*
	 * the claim belongs to the old queue and does not apply to the new one
	 */
	ASSERT_TRUE(uq_pci_find(pci, device, &ns));
	EXPECT_EQ(0, use_new(&ns, self->node.poll));
	expect_gone(_metadata, self);
	for (i = 0; !load && i < self->cq.len / PAGE; i++)
		EXPECT_EQ(SIGBUS, uq_touch(page_of(self, i), false))
			TH_LOG("page %u", i);
	let_go(self);
	self->cq.info = NULL;
	EXPECT_TRUE(uq_pci_restore(pci, &self->node.ns));
}

/* A new controller allows no claims. */
TEST_F(life, claims_are_off_by_default)
{
	struct uq_ns ns = self->node.ns;
	struct uq_node node;
	char pci[64];
	int fd;

	EXPECT_EQ(1, uq_attr(self->node.name, "claim"));
	ASSERT_EQ(0, uq_reset(ns.ctrl));
	EXPECT_EQ(1, uq_attr(self->node.name, "claim"));
	ASSERT_EQ(0, uq_pci_of(&ns, pci, sizeof(pci)));
	let_go(self);
	self->cq.info = NULL;
	ASSERT_EQ(0, uq_pci_take(pci, false));
	ASSERT_TRUE(uq_pci_find(pci, false, &ns));
	ASSERT_TRUE(uq_node_nth(&node, &ns, self->node.poll, 0));
	EXPECT_EQ(0, uq_attr(node.name, "claim"));
	fd = open(node.path, O_RDWR);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, ioctl(fd, NVME_UQ_IOCTL_CLAIM));
	EXPECT_EQ(EPERM, errno);
	close(fd);
	EXPECT_TRUE(uq_pci_restore(pci, &self->node.ns));
}

TEST_F(life, unbind)
{
	unbind_and_bind(_metadata, self, false, false);
}

TEST_F(life, unbind_under_load)
{
	unbind_and_bind(_metadata, self, false, true);
}

TEST_F(life, removed)
{
	unbind_and_bind(_metadata, self, true, false);
}

TEST_F(life, removed_under_load)
{
	unbind_and_bind(_metadata, self, true, true);
}

UQ_LEAVE_OUT("life.*_slow.unmapped_after_the_end", "one device is enough");

/* Unmap after the file was closed and the driver was unbound. */
TEST_F(life, unmapped_after_the_end)
{
	struct uq_ns ns = self->node.ns;
	char pci[64];

	ASSERT_EQ(0, uq_pci_of(&ns, pci, sizeof(pci)));
	io_uring_queue_exit(&self->ring);
	close(self->fd);
	EXPECT_EQ(0, uq_pci_take(pci, false));
	EXPECT_EQ(NVME_UQ_STATE_GONE, self->cq.info->state);
	EXPECT_EQ(SIGBUS, uq_touch(page_of(self, 0), false));
	ASSERT_TRUE(uq_pci_find(pci, false, &ns));
	EXPECT_EQ(NVME_UQ_STATE_GONE, self->cq.info->state);
	EXPECT_EQ(SIGBUS, uq_touch(page_of(self, 0), false));
	uq_cq_forget(&self->cq);
	uq_cq_unmap(&self->cq);
	EXPECT_TRUE(uq_pci_restore(pci, &self->node.ns));
}

UQ_LEAVE_OUT("life.*_slow.namespace_removed", "one device is enough");

/*
 * After the namespace is removed, the mapping reports that the queue is gone.
 */
TEST_F(life, namespace_removed)
{
	const struct nvme_uq_info *info = self->cq.info;
	int ret;

	ASSERT_EQ(0, read_mapped(self));
	ret = uq_attach(&self->node.ns, false);
	if (ret)
		SKIP(return, "the device does not detach namespaces: %d", ret);
	while (!access(self->node.path, F_OK))
		sched_yield();
	EXPECT_EQ(NVME_UQ_STATE_GONE, info->state);
	EXPECT_EQ(UQ_CQ_GONE, uq_cq_look(&self->cq));
	EXPECT_EQ(-ENXIO, read_mapped(self));
	uq_cq_forget(&self->cq);
	uq_cq_unmap(&self->cq);
	close(self->fd);

	EXPECT_EQ(0, uq_attach(&self->node.ns, true));
	EXPECT_EQ(0, uq_wait_path(self->node.block, true));
	EXPECT_TRUE(uq_wait_nodes(&self->node.ns, 2, 2));
	self->fd = open(self->node.path, O_RDWR);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, uq_cq_map(&self->cq, self->fd));
	EXPECT_EQ(0, read_mapped(self));
}

UQ_LEAVE_OUT("life.*_slow.namespace_removed_after_its_queue",
	     "one device is enough");

/* The same after a reset that did not create the queue, and one that did. */
TEST_F(life, namespace_removed_after_its_queue)
{
	int irq = variant->poll ? 2 : 0, poll = variant->poll ? 0 : 2;
	const struct nvme_uq_info *info = self->cq.info;
	struct uq_ns *ns = &self->node.ns;
	int second, ret;

	second = open(self->node.path, O_RDWR);
	ASSERT_LE(0, second);
	ASSERT_EQ(0, uq_bring_up(ns, irq, poll));
	EXPECT_NE(NVME_UQ_STATE_LIVE, info->state);
	ASSERT_TRUE(uq_wait_nodes(ns, irq, poll));
	ASSERT_EQ(0, uq_bring_up(ns, 2, 2));
	ASSERT_TRUE(uq_wait_nodes(ns, 2, 2));
	EXPECT_EQ(NVME_UQ_STATE_LIVE, info->state);
	EXPECT_EQ(0, read_mapped(self));

	ret = uq_attach(ns, false);
	if (ret)
		SKIP(goto out, "the device does not detach namespaces: %d", ret);
	EXPECT_TRUE(uq_wait_nodes(ns, 0, 0));
	EXPECT_EQ(NVME_UQ_STATE_GONE, info->state);
	EXPECT_EQ(-ENXIO, read_mapped(self));
	/* a later reset must not change the state */
	EXPECT_EQ(0, uq_reset(ns->ctrl));
	EXPECT_EQ(NVME_UQ_STATE_GONE, info->state);
	let_go(self);
	self->cq.info = NULL;
	EXPECT_EQ(-1, ioctl(second, NVME_UQ_IOCTL_CLAIM));
	EXPECT_EQ(ENXIO, errno);
	close(second);
	second = -1;

	EXPECT_EQ(0, uq_attach(ns, true));
	EXPECT_EQ(0, uq_wait_path(self->node.block, true));
	EXPECT_TRUE(uq_wait_nodes(ns, 2, 2));
	EXPECT_EQ(0, use_new(ns, variant->poll));
out:
	close(second);
}

UQ_LEAVE_OUT("life.*_slow.module_stays", "one device is enough");

/* A mapped queue keeps the module loaded. */
TEST_F(life, module_stays)
{
	if (access("/sys/module/nvme/refcnt", F_OK))
		SKIP(return, "nvme is built into this kernel: it cannot go");
	EXPECT_NE(0, system("rmmod nvme 2> /dev/null"));
	close(self->fd);
	EXPECT_NE(0, system("rmmod nvme 2> /dev/null"));
	EXPECT_EQ(NVME_UQ_STATE_LIVE, self->cq.info->state);
	self->fd = open(self->node.path, O_RDWR);
}

int main(int argc, char **argv)
{
	return uq_main(argc, argv);
}
