// SPDX-License-Identifier: GPL-2.0
/* Helpers of the tests of NVMe user queues: controllers; see uq.h. */
#define _GNU_SOURCE
#include <sys/klog.h>
#include <sys/syscall.h>

#include "uq.h"
#include "kselftest.h"

static void ctrl_path(int ctrl, const char *name, char *path, size_t len)
{
	snprintf(path, len, "/sys/class/nvme/nvme%d/%s", ctrl, name);
}

int uq_ctrl_get(int ctrl, const char *name, char *val, size_t len)
{
	char path[64];

	ctrl_path(ctrl, name, path, sizeof(path));
	return uq_read_line(path, val, len);
}

int uq_ctrl_set(int ctrl, const char *name, const char *val)
{
	char path[64];

	ctrl_path(ctrl, name, path, sizeof(path));
	return uq_write_line(path, val);
}

bool uq_ctrl_is(int ctrl, const char *state)
{
	char now[32];

	return !uq_ctrl_get(ctrl, "state", now, sizeof(now)) &&
		!strcmp(now, state);
}

int uq_reset(int ctrl)
{
	char path[40];
	int fd, ret;

	if (!uq_may_disrupt(NULL, 0))
		return -EPERM;
	/* wait until the previous reset is over */
	snprintf(path, sizeof(path), "/dev/nvme%d", ctrl);
	do {
		fd = open(path, O_RDWR);
	} while (fd < 0 && errno == EWOULDBLOCK);
	if (fd < 0)
		return -errno;
	ret = ioctl(fd, NVME_IOCTL_RESET) ? -errno : 0;
	close(fd);
	return ret;
}

int uq_bring_up(const struct uq_ns *ns, unsigned int irq, unsigned int poll)
{
	char val[16];
	int ret;

	snprintf(val, sizeof(val), "%u", irq);
	ret = uq_param_set("user_irq_queues", val);
	if (ret)
		return ret;
	snprintf(val, sizeof(val), "%u", poll);
	ret = uq_param_set("user_poll_queues", val);
	if (ret)
		return ret;
	return uq_reset(ns->ctrl);
}

bool uq_bring_up_node(struct uq_node *node, const struct uq_ns *ns, bool poll)
{
	return !uq_bring_up(ns, 2, 2) && uq_wait_nodes(ns, 2, 2) &&
		uq_node_nth(node, ns, poll, 0);
}

bool uq_ensure_node(struct uq_node *node, const struct uq_ns *ns, bool poll)
{
	if (uq_count_nodes(ns, false) != 2 || uq_count_nodes(ns, true) != 2)
		return uq_bring_up_node(node, ns, poll);
	return uq_wait_nodes(ns, 2, 2) && uq_node_nth(node, ns, poll, 0);
}

bool uq_logged(int ctrl, int *irq, int *poll)
{
	int len = klogctl(10, NULL, 0), x, i, p;
	char *log = malloc(len + 1), *line, *save;
	bool found = false;

	if (!log)
		return false;
	len = klogctl(3, log, len);
	log[len < 0 ? 0 : len] = 0;
	for (line = strtok_r(log, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		char *at = strstr(line, "nvme nvme");

		if (at && sscanf(at, "nvme nvme%d: %d/%d user irq/poll queues",
				 &x, &i, &p) == 3 && x == ctrl &&
		    strstr(at, "user irq/poll")) {
			*irq = i;
			*poll = p;
			found = true;
		}
	}
	free(log);
	return found;
}

unsigned int uq_resets_logged(int ctrl)
{
	int len = klogctl(10, NULL, 0), x;
	char *log = malloc(len + 1), *line, *save;
	unsigned int n = 0;

	if (!log)
		return 0;
	len = klogctl(3, log, len);
	log[len < 0 ? 0 : len] = 0;
	for (line = strtok_r(log, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		char *at = strstr(line, "nvme nvme");

		n += at && sscanf(at, "nvme nvme%d: I/O", &x) == 1 &&
			x == ctrl && strstr(at, "timeout, reset controller");
	}
	free(log);
	return n;
}

bool uq_settle(const struct uq_ns *ns, int *irq, int *poll)
{
	return uq_logged(ns->ctrl, irq, poll) && uq_wait_nodes(ns, *irq, *poll);
}

int uq_admin(int ctrl, struct nvme_passthru_cmd *cmd)
{
	char path[40];
	int fd, ret;

	snprintf(path, sizeof(path), "/dev/nvme%d", ctrl);
	fd = open(path, O_RDWR);
	if (fd < 0)
		return -errno;
	ret = ioctl(fd, NVME_IOCTL_ADMIN_CMD, cmd);
	if (ret < 0)
		ret = -errno;
	close(fd);
	return ret;
}

int uq_identify(int ctrl, unsigned int nsid, unsigned char *id)
{
	struct nvme_passthru_cmd cmd = {
		.opcode		= 0x06,
		.nsid		= nsid,
		.addr		= (uintptr_t)id,
		.data_len	= 4096,
		.cdw10		= !nsid,
	};

	return uq_admin(ctrl, &cmd);
}

int uq_attach(const struct uq_ns *ns, bool on)
{
	static __u16 list[2048] = { 1 };	/* one controller */
	struct nvme_passthru_cmd cmd = {
		.opcode		= 0x15,
		.nsid		= ns->nsid,
		.addr		= (uintptr_t)list,
		.data_len	= sizeof(list),
		.cdw10		= on ? 0 : 1,
	};
	char id[16];
	int ret;

	ret = uq_ctrl_get(ns->ctrl, "cntlid", id, sizeof(id));
	if (ret)
		return ret;
	list[1] = atoi(id);
	return uq_admin(ns->ctrl, &cmd);
}

bool uq_no_vectors(const struct uq_ns *ns)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/class/nvme/nvme%d/device/msi_irqs",
		 ns->ctrl);
	return uq_count_entries(path) <= 1;
}

bool uq_no_queue(const struct uq_ns *ns, bool poll)
{
	return !poll && uq_no_vectors(ns);
}

/* -- for fixtures */

static int fixed_blocks(const struct uq_ns *ns, char *why, size_t len)
{
	if (ns->lba == 512)
		return KSFT_PASS;
	snprintf(why, len, "%s has blocks of %u bytes", ns->block, ns->lba);
	return KSFT_SKIP;
}

int uq_need_ns(struct uq_ns *ns, bool slow, char *why, size_t len)
{
	if (slow && !uq_ns_slow(ns)) {
		snprintf(why, len, "UQ_TEST_SLOW_DEV names no NVMe namespace");
		return KSFT_SKIP;
	}
	if (!slow && !uq_ns_nth(ns, 0)) {
		snprintf(why, len, "UQ_TEST_DEV names no NVMe namespace");
		return KSFT_FAIL;
	}
	return fixed_blocks(ns, why, len);
}

int uq_need_node(struct uq_node *node, bool poll, char *why, size_t len)
{
	struct uq_ns ns;

	if (uq_ns_nth(&ns, 0) && uq_no_queue(&ns, poll)) {
		snprintf(why, len, UQ_NO_QUEUE);
		return KSFT_SKIP;
	}
	if (!uq_find(node, poll)) {
		snprintf(why, len, "no user queue of this kind");
		return KSFT_FAIL;
	}
	return fixed_blocks(&node->ns, why, len);
}

/* Find two namespaces of one controller, next to each other in UQ_TEST_DEV. */
static bool find_neighbours(struct uq_ns ns[2])
{
	unsigned int i;

	/* either of them may have the lower nsid */
	for (i = 0; uq_ns_nth(&ns[0], i) && uq_ns_nth(&ns[1], i + 1); i++)
		if (ns[0].ctrl == ns[1].ctrl && ns[0].nsid != ns[1].nsid &&
		    !ns[0].ms)
			return true;
	return false;
}

int uq_need_neighbours(struct uq_node node[2], bool poll, char *why, size_t len)
{
	struct uq_ns ns[2];
	int nr_irq, nr_poll;

	if (!find_neighbours(ns)) {
		snprintf(why, len,
			 "no two namespaces of one controller were named");
		return KSFT_SKIP;
	}
	if (!uq_node_nth(&node[0], &ns[0], poll, 0)) {
		if (!uq_may_disrupt(why, len))
			return KSFT_SKIP;
		if (uq_bring_up(&ns[0], 2, 2) ||
		    !uq_settle(&ns[0], &nr_irq, &nr_poll) ||
		    !uq_settle(&ns[1], &nr_irq, &nr_poll)) {
			snprintf(why, len, "no user queues after a reset");
			return KSFT_FAIL;
		}
	}
	if (uq_node_nth(&node[0], &ns[0], poll, 0) &&
	    uq_node_nth(&node[1], &ns[1], poll, 0))
		return KSFT_PASS;
	snprintf(why, len, "no user queue of this kind");
	return KSFT_FAIL;
}

/* -- events in the kernel */

bool uq_load_testmod(const char *param)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), UQ_TESTMOD "/%s", param);
	if (!access(path, W_OK))
		return true;
	fd = open(UQ_TESTMOD_FILE, O_RDONLY);
	if (fd < 0)
		return false;
	syscall(SYS_finit_module, fd, "", 0);
	close(fd);
	return !access(path, W_OK);
}

void uq_unload_testmod(void)
{
	syscall(SYS_delete_module, "uq_test_events", O_NONBLOCK);
}

int uq_test_event(const char *pci, const char *what)
{
	char line[96];

	snprintf(line, sizeof(line), "%s %s", what, pci);
	return uq_write_line(UQ_TESTMOD "/event", line);
}

bool uq_has_iommu(int ctrl)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/class/nvme/nvme%d/device/iommu_group",
		 ctrl);
	return !access(path, F_OK);
}
