// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues when the system goes down. Run it in a guest of its own:
 *
 *   uq_kexec kexec KERNEL CMDLINE	boot another kernel
 *   uq_kexec off			power off
 *   uq_kexec check			check the queues after one of these
 *
 * The first two run with commands in flight on queues of both kinds of two
 * devices, and with tenants that continue to submit. UQ_TEST_DEV and
 * UQ_TEST_SLOW_DEV are as in uq.h. There is no test harness, as its process
 * would not survive.
 */
#define _GNU_SOURCE
#include <linux/kexec.h>
#include <linux/reboot.h>
#include <sched.h>
#include <sys/syscall.h>

#include "uq_load.h"
#include "uq_safe.h"

#define TENANTS	4

static int fail(const char *what, int err)
{
	fprintf(stderr, "%s: %s\n", what, strerror(-err));
	return 1;
}

static bool find_node(struct uq_node *node, unsigned int i)
{
	bool poll = i & 1;

	return i & 2 ? uq_find_slow(node, poll) : uq_find(node, poll);
}

/* Start the load and wait until each queue has commands in flight. */
static int keep_busy(void)
{
	static struct uq_node nodes[TENANTS];
	static struct uq_load loads[TENANTS];
	pthread_t thread;
	unsigned int i;

	for (i = 0; i < TENANTS; i++) {
		if (!find_node(&nodes[i], i))
			return -ENODEV;
		loads[i].node = &nodes[i];
		if (pthread_create(&thread, NULL, uq_load_run, &loads[i]))
			return -EAGAIN;
	}
	for (i = 0; i < TENANTS; i++)
		while (uq_attr(nodes[i].name, "in_flight") <= 0)
			sched_yield();
	return 0;
}

static int load_kernel(const char *kernel, const char *cmdline)
{
	int fd = open(kernel, O_RDONLY), ret;

	if (fd < 0)
		return -errno;
	ret = syscall(SYS_kexec_file_load, fd, -1, strlen(cmdline) + 1, cmdline,
		      KEXEC_FILE_NO_INITRAMFS) ? -errno : 0;
	close(fd);
	return ret;
}

static int go_down(unsigned int how)
{
	int ret = keep_busy();

	if (ret)
		return fail("no commands in flight", ret);
	sync();
	syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, how,
		NULL);
	return fail("still here", -errno);
}

/* Read one block from each device through each kind of queue. */
static int check(void)
{
	unsigned char *buf = uq_alloc(4096);
	struct io_uring ring;
	struct uq_node node;
	unsigned int i;
	int fd, ret;

	for (i = 0; i < TENANTS; i++) {
		if (!buf || !find_node(&node, i))
			return fail("no node", -ENODEV);
		fd = uq_open_ring(&node, O_RDONLY, &ring, 4);
		if (fd < 0)
			return fail(node.path, fd);
		uq_prep(&ring, fd, node.nsid, CMD_READ, 0, buf, 512);
		ret = uq_run(&ring);
		if (ret)
			return fail(node.path, ret);
		if (uq_attr(node.name, "spurious") > 0)
			return fail("spurious completions", -EPROTO);
		io_uring_queue_exit(&ring);
		close(fd);
	}
	return 0;
}

int main(int argc, char **argv)
{
	char why[UQ_WHY_LEN];
	int ret;

	if (argc < 2 || (!strcmp(argv[1], "kexec") && argc != 4))
		return fail("wrong arguments", -EINVAL);
	if (uq_prepare(why, sizeof(why)) || !uq_may_disrupt(why, sizeof(why))) {
		fprintf(stderr, "%s\n", why);
		return 1;
	}
	if (!strcmp(argv[1], "check"))
		return check();
	if (!strcmp(argv[1], "off"))
		return go_down(LINUX_REBOOT_CMD_POWER_OFF);
	ret = load_kernel(argv[2], argv[3]);
	if (ret)
		return fail(argv[2], ret);
	return go_down(LINUX_REBOOT_CMD_KEXEC);
}
