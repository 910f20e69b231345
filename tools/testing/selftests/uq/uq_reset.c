// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: resets, removal of the device and the namespace, and
 * changed parameters, idle and under load. Each command completes once: with 0,
 * with a status of the device, or with -EINTR. A new command waits, or fails if
 * its queue or device is gone.
 */
#define _GNU_SOURCE
#define UQ_DISRUPTIVE	true
#include <limits.h>

#include "uq_fixture.h"
#include "uq_load.h"

FIXTURE(reset)
{
	struct uq_node node;
	struct uq_tenants tenants;
};

FIXTURE_VARIANT(reset)
{
	bool poll;
	bool slow;
	bool plain;
};

/* clang-format off */
FIXTURE_VARIANT_ADD(reset, irq) { .poll = false };
FIXTURE_VARIANT_ADD(reset, poll) { .poll = true };
FIXTURE_VARIANT_ADD(reset, irq_slow) { .poll = false, .slow = true };
FIXTURE_VARIANT_ADD(reset, poll_slow) { .poll = true, .slow = true };
FIXTURE_VARIANT_ADD(reset, poll_plain) { .poll = true, .plain = true };
/* clang-format on */

FIXTURE_SETUP(reset)
{
	char why[UQ_WHY_LEN];
	struct uq_ns ns;
	int ret;

	ret = uq_need_ns(&ns, variant->slow, why, sizeof(why));
	if (ret == KSFT_SKIP)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, ret) TH_LOG("%s", why);
	/* an earlier test may have left other queues */
	ASSERT_TRUE(uq_bring_up_node(&self->node, &ns, variant->poll));
	ASSERT_TRUE(uq_tenants_init(&self->tenants, &self->node));
	self->tenants.plain = variant->plain;
}

FIXTURE_TEARDOWN(reset)
{
}

TEST_F(reset, under_load)
{
	unsigned int i;

	ASSERT_EQ(0, uq_tenants_start(&self->tenants, 0));
	for (i = 0; i < 5 * uq_scale(); i++) {
		uq_tenants_wait_busy(&self->tenants);
		EXPECT_EQ(0, uq_reset(self->node.ns.ctrl));
	}
	EXPECT_TRUE(uq_tenants_end(&self->tenants));
	EXPECT_TRUE(uq_tenants_idle(&self->tenants));
	EXPECT_EQ(0, uq_tenants_read(&self->tenants, 512, 0));
}

UQ_LEAVE_OUT("reset.*_slow.parameters", "not about a device");

/* Invalid values fail. Valid values take effect at the next reset. */
TEST_F(reset, parameters)
{
	static const char * const bad[] = {
		"-1", "x", "\n", "4294967296", "1x"
	};
	const char *name = variant->poll ? "user_poll_queues" :
		"user_irq_queues";
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++)
		EXPECT_EQ(-EINVAL, uq_param_set(name, bad[i]))
			TH_LOG("value %u", i);
	EXPECT_EQ(2, uq_param_get(name));
	EXPECT_EQ(0, uq_param_set(name, "1"));
	EXPECT_EQ(1, uq_param_get(name));
	EXPECT_EQ(2, uq_count_nodes(&self->node.ns, variant->poll));
	EXPECT_EQ(0, uq_tenants_read(&self->tenants, 512, 0));
	EXPECT_EQ(0, uq_param_set(name, "2"));
}

/*
 * If a reset does not create the queue, commands and open(2) fail, but the node
 * stays. A later reset creates the queue, and both work again.
 */
TEST_F(reset, away_and_back)
{
	int irq = variant->poll ? 2 : 0, poll = variant->poll ? 0 : 2;
	struct uq_node *node = &self->node;
	struct nvme_uring_cmd *c;
	struct io_uring ring;
	char state[16];
	int fd;

	fd = uq_open_ring(node, O_RDONLY, &ring, 4);
	ASSERT_LE(0, fd);

	ASSERT_EQ(0, uq_bring_up(&node->ns, irq, poll));
	uq_prep(&ring, fd, node->nsid, CMD_READ, 0, self->tenants.buf, 512);
	EXPECT_EQ(-ESHUTDOWN, uq_run(&ring));
	/* nor does a worker wait */
	c = uq_prep(&ring, fd, node->nsid, CMD_READ, 0, self->tenants.buf, 512);
	uq_sqe(c)->flags |= IOSQE_ASYNC;
	EXPECT_EQ(-ESHUTDOWN, uq_run(&ring));
	ASSERT_TRUE(uq_wait_nodes(&node->ns, irq, poll));
	EXPECT_EQ(0, access(node->path, F_OK));
	EXPECT_EQ(-1, open(node->path, O_RDONLY));
	EXPECT_EQ(ESHUTDOWN, errno);
	uq_attr_str(node->name, "state", state, sizeof(state));
	EXPECT_STREQ("unavailable", state);
	EXPECT_EQ(node->nsid, (unsigned int)ioctl(fd, NVME_IOCTL_ID));

	ASSERT_EQ(0, uq_bring_up(&node->ns, 2, 2));
	/* the open descriptor works again, before any scan */
	uq_prep(&ring, fd, node->nsid, CMD_READ, 0, self->tenants.buf, 512);
	EXPECT_EQ(0, uq_run(&ring));
	ASSERT_TRUE(uq_wait_nodes(&node->ns, 2, 2));
	io_uring_queue_exit(&ring);
	close(fd);
	fd = open(node->path, O_RDONLY);
	EXPECT_LE(0, fd);
	close(fd);
}

static dev_t number_of(const struct uq_node *node)
{
	struct stat st;

	return stat(node->path, &st) ? 0 : st.st_rdev;
}

UQ_LEAVE_OUT("reset.*_slow.device_numbers_stay", "not about a device");
UQ_LEAVE_OUT("reset.*_plain.device_numbers_stay", "not about commands");

/*
 * The nodes of two namespaces keep their device numbers while resets create
 * fewer queues and more. Device cgroups, and nodes made by mknod(2), go by the
 * number: if two nodes exchanged theirs, a container would get access to the
 * other namespace. One node is open, so that its number is not free meanwhile.
 */
TEST_F(reset, device_numbers_stay)
{
	int irq = variant->poll ? 2 : 1, poll = variant->poll ? 1 : 2;
	char why[UQ_WHY_LEN];
	struct uq_node node[2], last;
	unsigned int i, n;
	dev_t was[2];
	int fd, ret;

	ret = uq_need_neighbours(node, variant->poll, why, sizeof(why));
	if (ret == KSFT_SKIP)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, ret) TH_LOG("%s", why);
	for (n = 0; n < 2; n++) {
		ASSERT_TRUE(uq_node_nth(&last, &node[n].ns, variant->poll, 1));
		node[n] = last;
		was[n] = number_of(&node[n]);
		ASSERT_NE(0, was[n]);
	}
	fd = open(node[0].path, O_RDONLY);
	ASSERT_LE(0, fd);
	for (i = 0; i < 8; i++) {
		ASSERT_EQ(0, uq_bring_up(&node[0].ns, irq, poll));
		for (n = 0; n < 2; n++)
			ASSERT_TRUE(uq_wait_nodes(&node[n].ns, irq, poll));
		for (n = 0; n < 2; n++)
			EXPECT_EQ(was[n], number_of(&node[n]))
				TH_LOG("%s is away", node[n].name);
		ASSERT_EQ(0, uq_bring_up(&node[0].ns, 2, 2));
		for (n = 0; n < 2; n++)
			ASSERT_TRUE(uq_wait_nodes(&node[n].ns, 2, 2));
		for (n = 0; n < 2; n++)
			EXPECT_EQ(was[n], number_of(&node[n]))
				TH_LOG("%s is back", node[n].name);
	}
	close(fd);
}

/* The same under load: commands for such a queue fail with -ESHUTDOWN. */
TEST_F(reset, away_under_load)
{
	int irq = variant->poll ? 2 : 0, poll = variant->poll ? 0 : 2;

	ASSERT_EQ(0, uq_tenants_start(&self->tenants, 0));
	uq_tenants_wait_busy(&self->tenants);
	EXPECT_EQ(0, uq_bring_up(&self->node.ns, irq, poll));
	EXPECT_TRUE(uq_tenants_end(&self->tenants));
	EXPECT_TRUE(uq_wait_nodes(&self->node.ns, irq, poll));
	EXPECT_EQ(0, uq_bring_up(&self->node.ns, 2, 2));
	EXPECT_TRUE(uq_wait_nodes(&self->node.ns, 2, 2));
	EXPECT_TRUE(uq_tenants_idle(&self->tenants));
	EXPECT_EQ(0, uq_tenants_read(&self->tenants, 512, 0));
}

UQ_LEAVE_OUT("reset.*_slow.changing_numbers", "one device is enough");

/* Change the numbers of queues under load. */
TEST_F(reset, changing_numbers)
{
	static const unsigned int steps[][2] = {
		{ 1, 1 }, { 0, 2 }, { 2, 0 }, { 0, 0 }, { 1, 2 }, { 2, 1 },
		{ 2, 2 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		ASSERT_EQ(0, uq_tenants_start(&self->tenants, 0));
		EXPECT_EQ(0, uq_bring_up(&self->node.ns, steps[i][0],
					 steps[i][1]));
		EXPECT_TRUE(uq_wait_nodes(&self->node.ns, steps[i][0],
					  steps[i][1]));
		EXPECT_TRUE(uq_tenants_end(&self->tenants));
		if (!uq_is_created(self->node.name)) {
			EXPECT_EQ(0, uq_bring_up(&self->node.ns, 2, 2));
			EXPECT_TRUE(uq_wait_nodes(&self->node.ns, 2, 2));
		}
	}
	EXPECT_TRUE(uq_tenants_idle(&self->tenants));
}

/* Changes of user queues do not affect the block device. */
TEST_F(reset, block_device_goes_on)
{
	static const unsigned int steps[][2] = { { 2, 2 }, { 0, 0 }, { 1, 1 } };
	unsigned int i;
	int fd;

	fd = open(self->node.block, O_RDWR | O_DIRECT);
	ASSERT_LE(0, fd);
	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		uq_fill(self->tenants.buf, 4096, i);
		ASSERT_EQ(4096, pwrite(fd, self->tenants.buf, 4096, 65536));
		ASSERT_EQ(0, uq_bring_up(&self->node.ns, steps[i][0],
					 steps[i][1]));
		memset(self->tenants.buf, 0, 4096);
		ASSERT_EQ(4096, pread(fd, self->tenants.buf, 4096, 65536));
		EXPECT_EQ(i * 2654435761u, *(__u32 *)self->tenants.buf);
	}
	close(fd);
}

/* -- the PCI device */

/* Unbind the driver or remove the device, and bring it back. */
static void unbind_and_bind(struct __test_metadata *_metadata,
			    FIXTURE_DATA(reset) *self, bool removed)
{
	char pci[PATH_MAX], path[PATH_MAX + 32];
	struct uq_ns ns;
	const char *id;

	ASSERT_EQ(0, uq_pci_path(&self->node.ns, pci));
	id = strrchr(pci, '/') + 1;
	ASSERT_EQ(0, uq_tenants_start(&self->tenants, 0));
	uq_tenants_wait_busy(&self->tenants);
	snprintf(path, sizeof(path), removed ? "%s/remove" :
		 "%s/driver/unbind", pci);
	EXPECT_EQ(0, uq_write_line(path, removed ? "1" : id));
	EXPECT_TRUE(uq_tenants_end(&self->tenants));
	EXPECT_NE(0, access(self->node.path, F_OK));
	EXPECT_EQ(0, uq_write_line(removed ? "/sys/bus/pci/rescan" :
				   "/sys/bus/pci/drivers/nvme/bind",
				   removed ? "1" : id));
	/* the old number is free, so the name is the same */
	EXPECT_EQ(0, uq_wait_path(self->node.block, true));
	ns = self->node.ns;
	EXPECT_TRUE(uq_wait_nodes(&ns, 2, 2));
	ASSERT_TRUE(uq_node_nth(&self->node, &ns, self->node.poll, 0));
	EXPECT_EQ(0, uq_tenants_read(&self->tenants, 512, 0));
}

TEST_F(reset, unbind_under_load)
{
	unbind_and_bind(_metadata, self, false);
}

TEST_F(reset, removed_under_load)
{
	unbind_and_bind(_metadata, self, true);
}

/* If a descriptor outlives its device, commands and ioctls fail. */
TEST_F(reset, descriptor_outlives_the_device)
{
	char pci[PATH_MAX], path[PATH_MAX + 32];
	struct io_uring ring;
	int fd;

	ASSERT_EQ(0, uq_pci_path(&self->node.ns, pci));
	fd = uq_open_ring(&self->node, O_RDWR, &ring, 4);
	ASSERT_LE(0, fd);
	snprintf(path, sizeof(path), "%s/driver/unbind", pci);
	ASSERT_EQ(0, uq_write_line(path, strrchr(pci, '/') + 1));
	uq_prep(&ring, fd, self->node.nsid, CMD_READ, 0, self->tenants.buf,
		512);
	EXPECT_EQ(-ENXIO, uq_run(&ring));
	EXPECT_EQ(-1, ioctl(fd, NVME_IOCTL_ID));
	EXPECT_EQ(ENXIO, errno);
	io_uring_queue_exit(&ring);
	close(fd);
	EXPECT_EQ(0, uq_write_line("/sys/bus/pci/drivers/nvme/bind",
				   strrchr(pci, '/') + 1));
	EXPECT_EQ(0, uq_wait_path(self->node.block, true));
	EXPECT_TRUE(uq_wait_nodes(&self->node.ns, 2, 2));
}

UQ_LEAVE_OUT("reset.*_slow.names_change_places", "not about one device");
UQ_LEAVE_OUT("reset.*irq.names_change_places", "not about a kind of queue");
UQ_LEAVE_OUT("reset.*_plain.names_change_places", "not about a kind of queue");

/* Unbind both and bind them again. The first one gets the lower number. */
static void bind_both(struct __test_metadata *_metadata, const char *first,
		      const char *second)
{
	EXPECT_EQ(0, uq_pci_take(first, false));
	EXPECT_EQ(0, uq_pci_take(second, false));
	EXPECT_EQ(0, uq_write_line("/sys/bus/pci/drivers/nvme/bind", first));
	EXPECT_EQ(0, uq_write_line("/sys/bus/pci/drivers/nvme/bind", second));
}

static bool find_nth(struct uq_ns *ns, unsigned int n, char *wwid, size_t len)
{
	time_t start = uq_seconds();

	while (!uq_ns_nth(ns, n)) {
		if (uq_seconds() - start > UQ_NEVER)
			return false;
		uq_rest();
	}
	return !uq_wwid(ns->block, wwid, len);
}

/* After two names were exchanged, the tests still find the same namespaces. */
TEST_F(reset, names_change_places)
{
	char pci[2][64], was[2][200], now[200], there[64];
	unsigned int i, n[2] = { 0, 0 }, low;
	struct uq_ns ns[2], found;

	ASSERT_TRUE(find_nth(&ns[0], 0, was[0], sizeof(was[0])));
	while (++n[1] < uq_ns_count()) {
		ASSERT_TRUE(find_nth(&ns[1], n[1], was[1], sizeof(was[1])));
		if (ns[1].ctrl != ns[0].ctrl &&
		    uq_only_pci_of(&ns[1], pci[1], sizeof(pci[1])))
			break;
	}
	if (n[1] == uq_ns_count() ||
	    !uq_only_pci_of(&ns[0], pci[0], sizeof(pci[0])))
		SKIP(return, "needs namespaces of two PCI controllers, with one path each");

	low = ns[0].ctrl > ns[1].ctrl;
	bind_both(_metadata, pci[!low], pci[low]);
	for (i = 0; i < 2; i++) {
		ASSERT_TRUE(find_nth(&found, n[i], now, sizeof(now)));
		EXPECT_STREQ(was[i], now);
		EXPECT_EQ(0, uq_pci_of(&found, there, sizeof(there)));
		EXPECT_STREQ(pci[i], there);
	}
	EXPECT_TRUE(uq_devices_back());
	for (i = 0; i < 2; i++) {
		ASSERT_TRUE(find_nth(&found, n[i], now, sizeof(now)));
		EXPECT_STREQ(ns[i].block, found.block);
	}
}

/* -- the namespace */

/* Status code of an unknown command. */
#define INVALID_OPCODE	1

/*
 * Detach the namespace under load, and attach it again. If a file is still
 * open, commands fail, and the name is not used again.
 */
TEST_F(reset, namespace_away_and_back)
{
	struct uq_node *node = &self->node;
	struct uq_ns ns = node->ns;
	struct io_uring ring;
	int fd, ret;

	fd = uq_open_ring(node, O_RDONLY, &ring, 4);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, uq_tenants_start(&self->tenants, 0));
	uq_tenants_wait_busy(&self->tenants);
	ret = uq_attach(&ns, false);
	if (ret)
		uq_tenants_stop(&self->tenants);
	else
		EXPECT_TRUE(uq_wait_nodes(&ns, 0, 0));
	EXPECT_TRUE(uq_tenants_end(&self->tenants));
	if (ret > 0 && (ret & 0x7ff) == INVALID_OPCODE)
		SKIP(goto out, "%s cannot detach namespaces", node->ctrl);
	ASSERT_EQ(0, ret);
	EXPECT_NE(0, access(node->path, F_OK));
	uq_prep(&ring, fd, node->nsid, CMD_READ, 0, self->tenants.buf, 512);
	EXPECT_EQ(-ENXIO, uq_run(&ring));
	close(fd);
	fd = -1;

	ASSERT_EQ(0, uq_attach(&ns, true));
	EXPECT_EQ(0, uq_wait_path(node->block, true));
	ASSERT_TRUE(uq_wait_nodes(&ns, 2, 2));
	ASSERT_TRUE(uq_node_nth(node, &ns, node->poll, 0));
	EXPECT_EQ(0, uq_tenants_read(&self->tenants, 512, 0));
	EXPECT_TRUE(uq_tenants_idle(&self->tenants));
out:
	io_uring_queue_exit(&ring);
	close(fd);
}

/*
 * Attach the namespace again; its name may have another number. False on
 * failure.
 */
static bool attach_again(struct uq_ns *ns)
{
	return !uq_attach(ns, true) && uq_wait_head(ns);
}

/* An open file must not reach another namespace with the same id. */
static void expect_no_way(struct __test_metadata *_metadata,
			  FIXTURE_DATA(reset) *self, struct io_uring *ring,
			  int fd)
{
	struct nvme_uring_cmd *c;

	uq_prep(ring, fd, self->node.nsid, CMD_READ, 0, self->tenants.buf, 512);
	EXPECT_EQ(-ENXIO, uq_run(ring));
	/* nor through a worker, which waits for a slot */
	c = uq_prep(ring, fd, self->node.nsid, CMD_READ, 0, self->tenants.buf,
		    512);
	uq_sqe(c)->flags |= IOSQE_ASYNC;
	EXPECT_EQ(-ENXIO, uq_run(ring));
	EXPECT_EQ(-1, ioctl(fd, NVME_IOCTL_ID));
	EXPECT_EQ(ENXIO, errno);
}

UQ_LEAVE_OUT("reset.*_slow.namespace_removed_after_its_queue",
	     "one device is enough");

/*
 * A reset does not create a queue, and another one does. A file that was opened
 * before still belongs to the namespace. After its removal, the file must not
 * reach the next namespace with that id.
 */
TEST_F(reset, namespace_removed_after_its_queue)
{
	int irq = variant->poll ? 2 : 0, poll = variant->poll ? 0 : 2;
	struct uq_node *node = &self->node;
	struct uq_ns ns = node->ns;
	struct io_uring ring;
	int fd, ret;

	fd = uq_open_ring(node, O_RDONLY, &ring, 4);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, uq_bring_up(&ns, irq, poll));
	ASSERT_TRUE(uq_wait_nodes(&ns, irq, poll));
	ASSERT_EQ(0, uq_bring_up(&ns, 2, 2));
	ASSERT_TRUE(uq_wait_nodes(&ns, 2, 2));
	uq_prep(&ring, fd, node->nsid, CMD_READ, 0, self->tenants.buf, 512);
	EXPECT_EQ(0, uq_run(&ring));

	ret = uq_attach(&ns, false);
	if (ret > 0 && (ret & 0x7ff) == INVALID_OPCODE)
		SKIP(goto out, "%s cannot detach namespaces", node->ctrl);
	ASSERT_EQ(0, ret);
	ASSERT_TRUE(uq_wait_nodes(&ns, 0, 0));
	expect_no_way(_metadata, self, &ring, fd);
	ASSERT_TRUE(attach_again(&ns));
	EXPECT_NE(node->ns.head, ns.head);
	expect_no_way(_metadata, self, &ring, fd);

	/* after all files of the first one are closed, the name is free */
	close(fd);
	fd = -1;
	ASSERT_EQ(0, uq_attach(&ns, false));
	ASSERT_TRUE(uq_wait_nodes(&ns, 0, 0));
	ns = node->ns;
	ASSERT_EQ(0, uq_attach(&ns, true));
	EXPECT_EQ(0, uq_wait_path(node->block, true));
	ASSERT_TRUE(uq_wait_nodes(&ns, 2, 2));
	EXPECT_EQ(0, uq_tenants_read(&self->tenants, 512, 0));
out:
	io_uring_queue_exit(&ring);
	close(fd);
}

int main(int argc, char **argv)
{
	return uq_main(argc, argv);
}
