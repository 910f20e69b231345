// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: suspend of the whole system, up to a test level of the
 * kernel. Tasks are frozen, devices are suspended, and everything resumes.
 * Commands in flight must complete first, as a device in a low-power state
 * keeps its queues.
 */
#define _GNU_SOURCE
#define UQ_DISRUPTIVE	true
#include <dirent.h>

#include "uq_fixture.h"
#include "uq_inject.h"
#include "uq_load.h"

#define SPARE		UQ_TESTMOD "/spare"
#define NS_ATTACHMENT	0x15

FIXTURE(suspend)
{
	struct uq_node node;
	struct uq_tenants tenants;
};

FIXTURE_VARIANT(suspend)
{
	bool poll;
	bool slow;	/* to keep commands in flight */
};

/* clang-format off */
FIXTURE_VARIANT_ADD(suspend, irq) { .poll = false };
FIXTURE_VARIANT_ADD(suspend, poll) { .poll = true };
FIXTURE_VARIANT_ADD(suspend, irq_slow) { .poll = false, .slow = true };
FIXTURE_VARIANT_ADD(suspend, poll_slow) { .poll = true, .slow = true };
/* clang-format on */

FIXTURE_SETUP(suspend)
{
	char why[UQ_WHY_LEN];
	struct uq_ns ns;
	int ret;

	ret = uq_need_ns(&ns, variant->slow, why, sizeof(why));
	if (ret == KSFT_SKIP)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, ret) TH_LOG("%s", why);
	ASSERT_TRUE(uq_ensure_node(&self->node, &ns, variant->poll));
	ASSERT_TRUE(uq_tenants_init(&self->tenants, &self->node));
}

FIXTURE_TEARDOWN(suspend)
{
}

/*
 * Wait until a controller is live and its scan is over. After a Namespace
 * Attachment, the driver scans the controller and waits for the scan. It does
 * so even if the device refuses the command, as there is no namespace 0.
 */
static int wait_for_scan(int ctrl)
{
	static __u16 list[2048];
	struct nvme_passthru_cmd cmd = {
		.opcode		= NS_ATTACHMENT,
		.addr		= (uintptr_t)list,
		.data_len	= sizeof(list),
	};
	char state[16];
	int ret;

	do {
		ret = uq_ctrl_get(ctrl, "state", state, sizeof(state));
		/* a controller that is dead or being removed does not scan */
		if (ret || !strcmp(state, "dead") || !strncmp(state, "del", 3))
			return ret;
		ret = strcmp(state, "live") ? -EAGAIN : uq_admin(ctrl, &cmd);
	} while (ret == -EAGAIN || ret == -EINTR);
	return ret < 0 ? ret : 0;
}

/*
 * All controllers resume with a reset and a scan. If a scan prints a message
 * while the next suspend stops the consoles, printk() warns.
 */
static int wait_for_scans(void)
{
	DIR *d = opendir("/sys/class/nvme");
	struct dirent *e;
	int ret = 0, x;

	while (!ret && d && (e = readdir(d)))
		if (sscanf(e->d_name, "nvme%d", &x) == 1)
			ret = wait_for_scan(x);
	if (d)
		closedir(d);
	return ret;
}

/*
 * Suspend up to @level and resume at once. Return 0 if the level was reached.
 * Virtio devices of a guest do not take part.
 */
static int sleep_to(const char *level)
{
	int ret;

	uq_write_line("/sys/module/suspend/parameters/pm_test_delay", "0");
	ret = uq_write_line("/sys/power/pm_test", level);
	if (!ret)
		ret = uq_write_line(SPARE, "1");
	if (!ret)
		ret = uq_write_line("/sys/power/state", "freeze");
	uq_write_line(SPARE, "0");
	uq_write_line("/sys/power/pm_test", "none");
	return ret;
}

#define NO_SUSPEND	"the kernel cannot test a suspend (CONFIG_PM_DEBUG)"

static bool have_suspend(void)
{
	return !access("/sys/power/pm_test", W_OK);
}

/*
 * A suspend waits for commands in flight, and polls queues of frozen tenants.
 */
TEST_F(suspend, under_load)
{
	unsigned int i;

	if (!have_suspend())
		SKIP(return, NO_SUSPEND);
	if (!uq_load_testmod("spare"))
		SKIP(return, UQ_NO_TESTMOD);
	ASSERT_EQ(0, uq_tenants_start(&self->tenants, 0));
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, wait_for_scans());
		uq_tenants_wait_busy(&self->tenants);
		EXPECT_EQ(0, sleep_to("devices"));
	}
	EXPECT_TRUE(uq_tenants_end(&self->tenants));
	EXPECT_EQ(0, self->tenants.interrupted);
	EXPECT_TRUE(uq_tenants_idle(&self->tenants));
	EXPECT_EQ(0, uq_tenants_read(&self->tenants, 512, 0));
}

/* A waiting command does not prevent a suspend, even if it waits for long. */
TEST_F(suspend, while_waiting)
{
	char usual[16], pci[64];
	struct uq_unreaped u;

	if (!have_suspend())
		SKIP(return, NO_SUSPEND);
	if (!uq_load_testmod("event"))
		SKIP(return, UQ_NO_TESTMOD);
	ASSERT_EQ(0, uq_pci_of(&self->node.ns, pci, sizeof(pci)));
	ASSERT_EQ(0, uq_read_line("/sys/power/pm_freeze_timeout", usual,
				  sizeof(usual)));
	ASSERT_EQ(0, uq_test_event(pci, "shutdown"));
	ASSERT_EQ(0, uq_unreaped_start(&u, &self->node, self->tenants.buf));
	while (uq_attr(self->node.name, "waiting") < 1)
		uq_rest();
	EXPECT_EQ(0, uq_write_line("/sys/power/pm_freeze_timeout", "5000"));
	EXPECT_EQ(0, sleep_to("freezer"));
	EXPECT_EQ(0, uq_write_line("/sys/power/pm_freeze_timeout", usual));
	/* the worker may still be in the freezer */
	while (uq_attr(self->node.name, "waiting") < 1)
		uq_rest();
	EXPECT_EQ(0, uq_test_event(pci, "start"));
	EXPECT_EQ(0, uq_unreaped_end(&u));
	EXPECT_TRUE(uq_tenants_idle(&self->tenants));
}

int main(int argc, char **argv)
{
	int ret = uq_main(argc, argv);

	uq_unload_testmod();
	return ret;
}
