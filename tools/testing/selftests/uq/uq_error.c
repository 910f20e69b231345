// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: errors of the device. It loses access to memory, or does
 * not respond to MMIO. Interrupts are lost, or the bus reports an error. The
 * device is reset without the driver, shut down, or formatted in use. Each
 * command ends once, with a documented result. The queues come back if the
 * device does.
 *
 * test_modules/uq_test_events.ko emulates the errors that no emulated device
 * offers.
 */
#define _GNU_SOURCE
#define UQ_DISRUPTIVE	true
#include <limits.h>
#include <sched.h>

#include "uq_fixture.h"
#include "uq_load.h"

/* from the PCI specification */
#define PCI_COMMAND		0x04
#define PCI_STATUS		0x06
#define  PCI_STATUS_CAP_LIST	0x10
#define PCI_CAPABILITY_LIST	0x34
#define PCI_CAP_ID_MSIX		0x11
#define PCI_MSIX_FLAGS		2
#define  PCI_MSIX_MASK_ALL	0x4000
#define COMMAND_MEMORY		0x2
#define COMMAND_MASTER		0x4

FIXTURE(error)
{
	struct uq_node node;
	struct uq_tenants tenants;
	char pci[PATH_MAX];
	int config;
};

FIXTURE_VARIANT(error)
{
	bool poll;
	bool slow;	/* ensures that commands are in flight */
};

/* clang-format off */
FIXTURE_VARIANT_ADD(error, irq) { .poll = false };
FIXTURE_VARIANT_ADD(error, poll) { .poll = true };
FIXTURE_VARIANT_ADD(error, irq_slow) { .poll = false, .slow = true };
FIXTURE_VARIANT_ADD(error, poll_slow) { .poll = true, .slow = true };
/* clang-format on */

FIXTURE_SETUP(error)
{
	char path[PATH_MAX + 16];
	char why[UQ_WHY_LEN];
	struct uq_ns ns;
	int ret;

	self->config = -1;
	ret = uq_need_ns(&ns, variant->slow, why, sizeof(why));
	if (ret == KSFT_SKIP)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, ret) TH_LOG("%s", why);
	ASSERT_TRUE(uq_ensure_node(&self->node, &ns, variant->poll));
	ASSERT_TRUE(uq_tenants_init(&self->tenants, &self->node));
	ASSERT_EQ(0, uq_pci_path(&ns, self->pci));
	snprintf(path, sizeof(path), "%s/config", self->pci);
	self->config = open(path, O_RDWR | O_SYNC);
	ASSERT_LE(0, self->config);
}

FIXTURE_TEARDOWN(error)
{
	if (self->config >= 0)
		close(self->config);
}

/* -- errors caused by user space */

static __u16 config_read(FIXTURE_DATA(error) *self, unsigned int at)
{
	__u16 val = 0;

	return pread(self->config, &val, 2, at) == 2 ? val : 0;
}

static int config_write(FIXTURE_DATA(error) *self, unsigned int at, __u16 val)
{
	return pwrite(self->config, &val, 2, at) == 2 ? 0 : -errno;
}

/* Return the offset of a capability, or 0. */
static unsigned int config_find(FIXTURE_DATA(error) *self, unsigned int id)
{
	unsigned int at, left = 48;

	if (!(config_read(self, PCI_STATUS) & PCI_STATUS_CAP_LIST))
		return 0;
	at = config_read(self, PCI_CAPABILITY_LIST) & 0xfc;
	while (at && left--) {
		__u16 head = config_read(self, at);

		if ((head & 0xff) == id)
			return at;
		at = head >> 8 & 0xfc;
	}
	return 0;
}

/* Wait until a reset has set this bit of the command register again. */
static bool wait_command(FIXTURE_DATA(error) *self, __u16 bit)
{
	int ctrl = self->node.ns.ctrl;

	do {
		sched_yield();
		if (uq_ctrl_is(ctrl, "dead"))
			return false;
	} while (!(config_read(self, PCI_COMMAND) & bit) ||
		 !uq_ctrl_is(ctrl, "live"));
	return true;
}

static int set_timeout(FIXTURE_DATA(error) *self, const char *attr,
		       const char *ms, char *old, size_t len)
{
	int ctrl = self->node.ns.ctrl, ret = 0;

	if (old)
		ret = uq_ctrl_get(ctrl, attr, old, len);
	return ret ?: uq_ctrl_set(ctrl, attr, ms);
}

/* Start load with a short timeout; a slow device needs a longer one. */
static int start_timed(FIXTURE_DATA(error) *self, bool slow)
{
	return uq_tenants_start(&self->tenants, slow ? 5000 : 1000);
}

static int set_admin_timeout(FIXTURE_DATA(error) *self, const char *ms,
			     char *old, size_t len)
{
	return set_timeout(self, "admin_timeout", ms, old, len);
}

/* The timeout of an abort is io_timeout, too. */
static int set_io_timeout(FIXTURE_DATA(error) *self, const char *ms, char *old,
			  size_t len)
{
	return set_timeout(self, "io_timeout", ms, old, len);
}

/*
 * The device cannot fetch commands and reports a fatal status. The driver must
 * detect this without an admin command, as that would time out only after two
 * hours.
 */
TEST_F(error, no_dma)
{
	char usual[16];

	ASSERT_EQ(0, set_admin_timeout(self, "7200000", usual, sizeof(usual)));
	ASSERT_EQ(0, start_timed(self, variant->slow));
	uq_tenants_wait_busy(&self->tenants);
	ASSERT_EQ(0, config_write(self, PCI_COMMAND,
				  config_read(self, PCI_COMMAND) &
				  ~COMMAND_MASTER));
	EXPECT_TRUE(wait_command(self, COMMAND_MASTER));
	EXPECT_TRUE(uq_tenants_end(&self->tenants));
	EXPECT_LT(0, self->tenants.interrupted);
	EXPECT_EQ(0, set_admin_timeout(self, usual, NULL, 0));
	EXPECT_TRUE(uq_tenants_idle(&self->tenants));
	EXPECT_EQ(0, uq_tenants_read(&self->tenants, 512, 0));
}

/*
 * Reads from the device return all ones, as if it were removed, and writes are
 * lost. A device that polls doorbells in memory continues while it is not idle.
 * The load therefore ends before the command that finds the error. The driver
 * must not need an admin command here either.
 */
TEST_F(error, no_registers)
{
	char usual[16], usual_io[16];
	int ret;

	ASSERT_EQ(0, set_admin_timeout(self, "7200000", usual, sizeof(usual)));
	ASSERT_EQ(0, set_io_timeout(self, "1000", usual_io, sizeof(usual_io)));
	ASSERT_EQ(0, start_timed(self, variant->slow));
	uq_tenants_wait_busy(&self->tenants);
	ASSERT_EQ(0, config_write(self, PCI_COMMAND,
				  config_read(self, PCI_COMMAND) &
				  ~COMMAND_MEMORY));
	EXPECT_TRUE(uq_tenants_end(&self->tenants));
	ret = uq_tenants_read(&self->tenants, 512, 1000);
	EXPECT_TRUE(!ret || ret == -EINTR) TH_LOG("%d", ret);
	EXPECT_TRUE(wait_command(self, COMMAND_MEMORY));
	EXPECT_EQ(0, set_io_timeout(self, usual_io, NULL, 0));
	EXPECT_EQ(0, set_admin_timeout(self, usual, NULL, 0));
	EXPECT_TRUE(uq_tenants_idle(&self->tenants));
	EXPECT_EQ(0, uq_tenants_read(&self->tenants, 512, 0));
}

/*
 * Interrupts are lost. Commands are reaped when they time out, with the status
 * of the device. A reset does not wait forever for the admin queue.
 */
TEST_F(error, no_interrupts)
{
	unsigned int msix = config_find(self, PCI_CAP_ID_MSIX), i;
	char usual[16];
	__u16 flags;

	if (!msix)
		SKIP(return, "%s has no MSI-X", self->node.ctrl);
	ASSERT_EQ(0, set_admin_timeout(self, "1000", usual, sizeof(usual)));
	flags = config_read(self, msix + PCI_MSIX_FLAGS);
	ASSERT_EQ(0, config_write(self, msix + PCI_MSIX_FLAGS,
				  flags | PCI_MSIX_MASK_ALL));
	for (i = 0; i < 3; i++)
		EXPECT_EQ(0, uq_tenants_read(&self->tenants, 512, 200));
	ASSERT_EQ(0, uq_tenants_start(&self->tenants, 0));
	uq_tenants_wait_busy(&self->tenants);
	EXPECT_EQ(0, uq_reset(self->node.ns.ctrl));
	EXPECT_TRUE(uq_tenants_end(&self->tenants));
	EXPECT_EQ(0, set_admin_timeout(self, usual, NULL, 0));
	EXPECT_EQ(0, config_read(self, msix + PCI_MSIX_FLAGS) &
		  PCI_MSIX_MASK_ALL);
	EXPECT_TRUE(uq_tenants_idle(&self->tenants));
	EXPECT_EQ(0, uq_tenants_read(&self->tenants, 512, 0));
}

/* Reset the PCI function through sysfs, without regard to NVMe. */
TEST_F(error, function_reset)
{
	char path[PATH_MAX + 16];
	unsigned int i;

	snprintf(path, sizeof(path), "%s/reset", self->pci);
	if (access(path, W_OK))
		SKIP(return, "%s cannot be reset", self->node.ctrl);
	ASSERT_EQ(0, uq_tenants_start(&self->tenants, 0));
	for (i = 0; i < 3; i++) {
		uq_tenants_wait_busy(&self->tenants);
		EXPECT_EQ(0, uq_write_line(path, "1"));
	}
	EXPECT_TRUE(uq_tenants_end(&self->tenants));
	EXPECT_TRUE(uq_tenants_idle(&self->tenants));
	EXPECT_EQ(0, uq_tenants_read(&self->tenants, 512, 0));
}

static void *reset_once(void *arg)
{
	const struct uq_node *node = arg;

	uq_reset(node->ns.ctrl);
	return NULL;
}

struct resets {
	const struct uq_node *node;
	unsigned int nr;
};

static void *reset_again(void *arg)
{
	const struct resets *resets = arg;
	unsigned int i;

	/* these fail if another reset is in progress */
	for (i = 0; i < resets->nr; i++)
		uq_reset(resets->node->ns.ctrl);
	return NULL;
}

/* Function resets and controller resets at the same time. */
TEST_F(error, resets_at_once)
{
	/* a slow device first completes all its commands */
	struct resets resets = { &self->node, variant->slow ? 3 : 10 };
	char path[PATH_MAX + 16];
	unsigned int i;
	pthread_t t;

	snprintf(path, sizeof(path), "%s/reset", self->pci);
	if (access(path, W_OK))
		SKIP(return, "%s cannot be reset", self->node.ctrl);
	ASSERT_EQ(0, uq_tenants_start(&self->tenants, 0));
	uq_tenants_wait_busy(&self->tenants);
	ASSERT_EQ(0, pthread_create(&t, NULL, reset_again, &resets));
	for (i = 0; i < resets.nr; i++)
		EXPECT_EQ(0, uq_write_line(path, "1"));
	ASSERT_EQ(0, pthread_join(t, NULL));
	/* no command ended with ENXIO or ENODEV */
	EXPECT_FALSE(self->tenants.load[0].stop || self->tenants.load[1].stop);
	EXPECT_TRUE(uq_tenants_end(&self->tenants));
	EXPECT_TRUE(uq_tenants_idle(&self->tenants));
	EXPECT_EQ(0, uq_tenants_read(&self->tenants, 512, 0));
}

UQ_LEAVE_OUT("error.*_slow.subsystem_reset", "one device is enough");

/* Reset the subsystem; the controller loses its queues. */
TEST_F(error, subsystem_reset)
{
	int fd = open(self->node.ctrl, O_RDWR), ret;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, start_timed(self, variant->slow));
	uq_tenants_wait_busy(&self->tenants);
	ret = ioctl(fd, NVME_IOCTL_SUBSYS_RESET) ? -errno : 0;
	EXPECT_TRUE(uq_tenants_end(&self->tenants));
	close(fd);
	EXPECT_TRUE(uq_tenants_idle(&self->tenants));
	EXPECT_EQ(0, uq_tenants_read(&self->tenants, 512, 0));
	if (ret == -ENOTTY)
		SKIP(return, "%s cannot reset its subsystem (CAP.NSSRS)",
		     self->node.ctrl);
	EXPECT_EQ(0, ret);
}

/* -- errors that the PCI core reports to the driver */

static bool have_module(void)
{
	return uq_load_testmod("event");
}

static int event(FIXTURE_DATA(error) *self, const char *what)
{
	return uq_test_event(strrchr(self->pci, '/') + 1, what);
}

static void remove_device(struct __test_metadata *_metadata,
			  FIXTURE_DATA(error) *self)
{
	char path[PATH_MAX + 16];

	snprintf(path, sizeof(path), "%s/remove", self->pci);
	ASSERT_EQ(0, uq_write_line(path, "1"));
	close(self->config);
	self->config = -1;
}

/* A rescan of the bus finds the removed device. */
static void find_again(struct __test_metadata *_metadata,
		       FIXTURE_DATA(error) *self)
{
	struct uq_ns ns = self->node.ns;

	ASSERT_EQ(0, uq_write_line("/sys/bus/pci/rescan", "1"));
	/* under its old name, as the number is free again */
	EXPECT_EQ(0, uq_wait_path(self->node.block, true));
	EXPECT_TRUE(uq_wait_nodes(&ns, 2, 2));
	ASSERT_TRUE(uq_node_nth(&self->node, &ns, self->node.poll, 0));
	EXPECT_EQ(0, uq_tenants_read(&self->tenants, 512, 0));
}

/* A fatal error of the bus, followed by a successful reset. */
TEST_F(error, fatal_error)
{
	unsigned int i;

	if (!have_module())
		SKIP(return, UQ_NO_TESTMOD);
	ASSERT_EQ(0, uq_tenants_start(&self->tenants, 0));
	for (i = 0; i < 3; i++) {
		uq_tenants_wait_busy(&self->tenants);
		EXPECT_EQ(0, event(self, "fatal"));
	}
	/* a device may complete all its commands before it deletes a queue */
	EXPECT_TRUE(uq_tenants_end(&self->tenants));
	EXPECT_TRUE(uq_tenants_idle(&self->tenants));
	EXPECT_EQ(0, uq_tenants_read(&self->tenants, 512, 0));
}

/* An error that is not fatal does not affect commands. */
TEST_F(error, nonfatal_error)
{
	if (!have_module())
		SKIP(return, UQ_NO_TESTMOD);
	ASSERT_EQ(0, uq_tenants_start(&self->tenants, 0));
	uq_tenants_wait_busy(&self->tenants);
	EXPECT_EQ(0, event(self, "nonfatal"));
	EXPECT_TRUE(uq_tenants_end(&self->tenants));
	EXPECT_EQ(0, self->tenants.interrupted);
	EXPECT_TRUE(uq_tenants_idle(&self->tenants));
}

/*
 * The device does not recover from the error. Commands in flight end. New
 * commands wait until the device is removed, as there may be another reset.
 */
TEST_F(error, lasting_error)
{
	if (!have_module())
		SKIP(return, UQ_NO_TESTMOD);
	ASSERT_EQ(0, uq_tenants_start(&self->tenants, 0));
	uq_tenants_wait_busy(&self->tenants);
	ASSERT_EQ(0, event(self, "lasting"));
	EXPECT_EQ(0, uq_attr(self->node.name, "in_flight"));
	EXPECT_EQ(uq_attr(self->node.name, "submitted"),
		  uq_attr(self->node.name, "completed"));
	remove_device(_metadata, self);
	EXPECT_TRUE(uq_tenants_end(&self->tenants));
	find_again(_metadata, self);
}

/*
 * The device is gone, but is not removed. Commands time out, and then the reset
 * fails. Commands in flight, waiting commands and all new commands end.
 */
TEST_F(error, gone)
{
	if (!have_module())
		SKIP(return, UQ_NO_TESTMOD);
	ASSERT_EQ(0, start_timed(self, variant->slow));
	uq_tenants_wait_busy(&self->tenants);
	ASSERT_EQ(0, event(self, "gone"));
	/* the load stops by itself when the device is lost */
	while (!self->tenants.load[0].stop || !self->tenants.load[1].stop)
		uq_rest();
	EXPECT_TRUE(uq_tenants_end(&self->tenants));
	EXPECT_LT(0, self->tenants.interrupted);
	EXPECT_TRUE(uq_tenants_idle(&self->tenants));
	EXPECT_EQ(-ENODEV, uq_tenants_read(&self->tenants, 512, 0));
	ASSERT_EQ(0, event(self, "back"));
	remove_device(_metadata, self);
	find_again(_metadata, self);
}

static void wait_state(FIXTURE_DATA(error) *self, const char *state, bool is)
{
	do {
		sched_yield();
	} while (uq_ctrl_is(self->node.ns.ctrl, state) != is);
}

/* The device is gone, and is removed right after a reset. */
TEST_F(error, removed_at_reset)
{
	pthread_t t;

	if (!have_module())
		SKIP(return, UQ_NO_TESTMOD);
	ASSERT_EQ(0, start_timed(self, variant->slow));
	uq_tenants_wait_busy(&self->tenants);
	ASSERT_EQ(0, pthread_create(&t, NULL, reset_once, &self->node));
	wait_state(self, "live", false);
	wait_state(self, "live", true);
	ASSERT_EQ(0, event(self, "gone"));
	remove_device(_metadata, self);
	ASSERT_EQ(0, pthread_join(t, NULL));
	EXPECT_TRUE(uq_tenants_end(&self->tenants));
	find_again(_metadata, self);
}

/*
 * The system shuts down. The driver waits for commands in flight. New commands
 * wait until the device is started again, unlike in a real shutdown.
 */
TEST_F(error, shutdown)
{
	if (!have_module())
		SKIP(return, UQ_NO_TESTMOD);
	ASSERT_EQ(0, uq_tenants_start(&self->tenants, 0));
	uq_tenants_wait_busy(&self->tenants);
	ASSERT_EQ(0, event(self, "shutdown"));
	EXPECT_EQ(0, uq_attr(self->node.name, "in_flight"));
	EXPECT_EQ(uq_attr(self->node.name, "submitted"),
		  uq_attr(self->node.name, "completed"));
	ASSERT_EQ(0, event(self, "start"));
	EXPECT_TRUE(uq_tenants_end(&self->tenants));
	EXPECT_EQ(0, self->tenants.interrupted);
	EXPECT_TRUE(uq_tenants_idle(&self->tenants));
	EXPECT_EQ(0, uq_tenants_read(&self->tenants, 512, 0));
}

/* A tenant that has stopped polling does not block a shutdown. */
TEST_F(error, silent_at_shutdown)
{
	struct uq_unreaped u;

	if (!have_module())
		SKIP(return, UQ_NO_TESTMOD);
	ASSERT_EQ(0, uq_unreaped_start(&u, &self->node, self->tenants.buf));
	EXPECT_EQ(0, event(self, "shutdown"));
	EXPECT_EQ(0, uq_attr(self->node.name, "in_flight"));
	EXPECT_EQ(0, event(self, "start"));
	EXPECT_EQ(0, uq_unreaped_end(&u));
	EXPECT_TRUE(uq_tenants_idle(&self->tenants));
}

/* -- format in use */

/* Index of the format with these blocks and no metadata, or -1. */
static int find_format(const struct uq_ns *ns, unsigned int lba)
{
	static unsigned char id[4096];
	unsigned int i;

	if (uq_identify(ns->ctrl, ns->nsid, id))
		return -1;
	for (i = 0; i <= id[25] && i < 16; i++) {
		const unsigned char *f = id + 128 + 4 * i;

		if (1u << f[2] == lba && !f[0] && !f[1])
			return i;
	}
	return -1;
}

static int format(const struct uq_ns *ns, unsigned int lba)
{
	struct nvme_passthru_cmd cmd = {
		.opcode		= 0x80,
		.nsid		= ns->nsid,
		.cdw10		= find_format(ns, lba),
	};

	return uq_admin(ns->ctrl, &cmd);
}

static long long block_size(const struct uq_ns *ns)
{
	char path[96], val[16];

	snprintf(path, sizeof(path), "/sys/block/%s/queue/logical_block_size",
		 ns->block);
	return uq_read_line(path, val, sizeof(val)) ? -1 : atoll(val);
}

/*
 * Format with other blocks and back, under load. Commands wait meanwhile. While
 * blocks have 4096 bytes, the device fails reads of one block into 512 bytes.
 */
TEST_F(error, format_under_load)
{
	const struct uq_ns *ns = &self->node.ns;

	if (find_format(ns, 512) < 0 || find_format(ns, 4096) < 0)
		SKIP(return, "%s has no other format", ns->block);
	ASSERT_EQ(0, uq_tenants_start(&self->tenants, 0));
	uq_tenants_wait_busy(&self->tenants);
	EXPECT_EQ(0, format(ns, 4096));
	EXPECT_EQ(4096, block_size(ns));
	EXPECT_EQ(0, uq_tenants_read(&self->tenants, 4096, 0));
	EXPECT_LT(0, uq_tenants_read(&self->tenants, 512, 0));
	uq_tenants_wait_busy(&self->tenants);
	ASSERT_EQ(0, format(ns, 512));
	EXPECT_EQ(512, block_size(ns));
	EXPECT_EQ(0, uq_tenants_read(&self->tenants, 512, 0));
	EXPECT_TRUE(uq_tenants_end(&self->tenants));
	EXPECT_EQ(0, self->tenants.interrupted);
	EXPECT_TRUE(uq_tenants_idle(&self->tenants));
}

/* A tenant that has stopped polling does not block a format. */
TEST_F(error, silent_at_format)
{
	struct uq_unreaped u;

	if (find_format(&self->node.ns, 512) < 0)
		SKIP(return, "%s has no format", self->node.block);
	ASSERT_EQ(0, uq_unreaped_start(&u, &self->node, self->tenants.buf));
	EXPECT_EQ(0, format(&self->node.ns, 512));
	EXPECT_EQ(0, uq_attr(self->node.name, "in_flight"));
	EXPECT_EQ(0, uq_unreaped_end(&u));
	EXPECT_TRUE(uq_tenants_idle(&self->tenants));
}

/* -- removal while a format waits */

#define READERS	32

/* Read a block with O_DIRECT until the device is gone. */
static pid_t start_reader(const char *path)
{
	pid_t pid = fork();
	void *buf;
	int fd;

	if (pid)
		return pid;
	fd = open(path, O_RDONLY | O_DIRECT);
	if (fd < 0 || posix_memalign(&buf, 4096, 4096))
		_exit(1);
	while (pread(fd, buf, 4096, 0) > 0)
		;
	_exit(0);
}

/* Number of reads in flight on the block device. */
static int reads_in_flight(const struct uq_ns *ns)
{
	char path[96], val[32];

	snprintf(path, sizeof(path), "/sys/block/%s/inflight", ns->block);
	return uq_read_line(path, val, sizeof(val)) ? -1 : atoi(val);
}

static void *run_format(void *arg)
{
	format(arg, 512);
	return NULL;
}

/*
 * A format waits for the reads of each namespace while the device is removed.
 * Its walk over the list of namespaces must survive the removal.
 */
TEST_F(error, removed_while_frozen)
{
	struct uq_ns *ns = &self->node.ns;
	pthread_t formatter;
	pid_t pids[READERS];
	unsigned int i;

	for (i = 0; i < READERS; i++) {
		pids[i] = start_reader(self->node.block);
		ASSERT_LT(0, pids[i]);
	}
	while (reads_in_flight(ns) < READERS / 2)
		sched_yield();
	ASSERT_EQ(0, pthread_create(&formatter, NULL, run_format, ns));
	while (uq_attr(self->node.name, "frozen") != 1)
		sched_yield();
	remove_device(_metadata, self);
	for (i = 0; i < READERS; i++)
		EXPECT_EQ(pids[i], waitpid(pids[i], NULL, 0));
	EXPECT_EQ(0, pthread_join(formatter, NULL));
	find_again(_metadata, self);
}

UQ_LEAVE_OUT("error.irq.removed_while_frozen", "its reads end at once");
UQ_LEAVE_OUT("error.poll.removed_while_frozen", "its reads end at once");
UQ_LEAVE_OUT("error.poll_slow.removed_while_frozen", "not about queues");

int main(int argc, char **argv)
{
	int ret = uq_main(argc, argv);

	uq_unload_testmod();
	return ret;
}
