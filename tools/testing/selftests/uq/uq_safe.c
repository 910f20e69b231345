// SPDX-License-Identifier: GPL-2.0
/*
 * Keep the tests from harming devices and settings; see uq_safe.h.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <limits.h>
#include <linux/fs.h>
#include <sys/prctl.h>

#include "uq_inject.h"
#include "uq_safe.h"
#include "kselftest.h"

#define MIB	1048576UL
#define LABEL	4096UL
/* Number of samples between the first and the last MiB. */
#define SAMPLES	4096UL

/* -- devices in use */

/* Return the number of a controller's subsystem, or -1 if unknown. */
static int subsystem_of(int ctrl)
{
	struct dirent *e;
	int found = -1, x;
	char path[96];
	DIR *d = opendir("/sys/class/nvme-subsystem");

	while (d && found < 0 && (e = readdir(d))) {
		if (sscanf(e->d_name, "nvme-subsys%d", &x) != 1)
			continue;
		snprintf(path, sizeof(path),
			 "/sys/class/nvme-subsystem/nvme-subsys%d/nvme%d", x,
			 ctrl);
		if (!access(path, F_OK))
			found = x;
	}
	if (d)
		closedir(d);
	return found;
}

/*
 * The parent of a block device is a controller, or the subsystem with
 * multipath.
 */
static bool is_of_subsystem(const char *block, int subsys)
{
	char link[300], name[64];
	int x;

	snprintf(link, sizeof(link), "/sys/block/%s/device", block);
	if (uq_link_name(link, name, sizeof(name)))
		return false;
	if (sscanf(name, "nvme-subsys%d", &x) == 1)
		return x == subsys;
	return sscanf(name, "nvme%d", &x) == 1 && subsystem_of(x) == subsys;
}

/* Fails if a mount, swap, another device or another program uses the device. */
static int open_exclusive(const char *block, int flags)
{
	char path[300];
	int fd;

	snprintf(path, sizeof(path), "/dev/%s", block);
	fd = open(path, flags | O_EXCL | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/*
 * Check that no namespace is in use that a reset of the controller may affect.
 */
static int none_in_use(const struct uq_ns *ns, char *why, size_t len)
{
	int subsys = subsystem_of(ns->ctrl), fd = 0, x, y;
	struct dirent *e;
	DIR *d;

	d = subsys < 0 ? NULL : opendir("/sys/block");
	if (!d) {
		snprintf(why, len, "it cannot be told what shares a controller with %s",
			 ns->block);
		return -1;
	}
	while (fd >= 0 && (e = readdir(d))) {
		/* skip nvmeXcYnZ, a path, which cannot be opened */
		if (sscanf(e->d_name, "nvme%dn%d", &x, &y) != 2 ||
		    !is_of_subsystem(e->d_name, subsys))
			continue;
		fd = open_exclusive(e->d_name, O_RDONLY);
		if (fd >= 0)
			close(fd);
		else if (!strcmp(e->d_name, ns->block))
			snprintf(why, len, "%s is in use: %s", ns->block,
				 strerror(-fd));
		else
			snprintf(why, len,
				 "%.32s, which shares a controller with %s, is in use: %s",
				 e->d_name, ns->block, strerror(-fd));
	}
	closedir(d);
	return fd < 0 ? -1 : 0;
}

/* -- data on devices */

static bool has_label(int fd, __u64 size, char *buf)
{
	return pread(fd, buf, LABEL, size - LABEL) == (ssize_t)LABEL &&
		!strncmp(buf, UQ_LABEL, LABEL);
}

static bool is_zero(int fd, char *buf, __u64 pos, size_t len)
{
	return pread(fd, buf, len, pos) == (ssize_t)len && !buf[0] &&
		!memcmp(buf, buf + 1, len - 1);
}

/*
 * Partition tables, file systems, RAID and swap have signatures in the first or
 * the last MiB. Samples of the rest find data without a signature.
 */
static bool is_blank(int fd, __u64 size, char *buf)
{
	__u64 step = size / SAMPLES, pos;

	step = step < MIB ? MIB : step & ~(MIB - 1);
	if (!is_zero(fd, buf, 0, MIB) || !is_zero(fd, buf, size - MIB, MIB))
		return false;
	for (pos = MIB; pos < size - MIB; pos += step)
		if (!is_zero(fd, buf, pos, 4096))
			return false;
	return true;
}

/*
 * Return 0 if the tests may overwrite a namespace, 1 if it has no label yet,
 * else -1. A namespace of size 0 may contain data that the block layer cannot
 * read, but the tests can overwrite. So it must be emulated.
 */
static int is_ours(int fd, bool emulated)
{
	char *buf = malloc(MIB);
	__u64 size;
	int ret = -1;

	if (buf && !ioctl(fd, BLKGETSIZE64, &size)) {
		if (!size)
			ret = emulated ? 0 : -1;
		else if (size >= 4 * MIB && has_label(fd, size, buf))
			ret = 0;
		else if (size >= 4 * MIB && is_blank(fd, size, buf))
			ret = 1;
	}
	free(buf);
	return ret;
}

static int write_label(const char *block)
{
	char label[LABEL] = UQ_LABEL, old[LABEL];
	int fd = open_exclusive(block, O_RDWR), ret = 0;
	__u64 size;

	if (fd < 0)
		return fd;
	if (ioctl(fd, BLKGETSIZE64, &size) || (size && size < 4 * MIB))
		ret = -EINVAL;
	else if (size && !has_label(fd, size, old) &&
		 (pwrite(fd, label, LABEL, size - LABEL) != (ssize_t)LABEL ||
		  fsync(fd)))
		ret = -EIO;
	close(fd);
	return ret;
}

static int claim(const struct uq_ns *ns, char *why, size_t len)
{
	char path[40];
	int fd, ret;

	if (none_in_use(ns, why, len))
		return -1;
	snprintf(path, sizeof(path), "/sys/class/nvme/nvme%d", ns->ctrl);
	fd = open_exclusive(ns->block, O_RDONLY);
	ret = fd < 0 ? -1 : is_ours(fd, uq_is_emulated(path));
	if (fd >= 0)
		close(fd);
	if (ret < 0)
		snprintf(why, len,
			 "%s holds data. To give it to these tests: blkdiscard -f -z /dev/%s",
			 ns->block, ns->block);
	else if (ret && write_label(ns->block))
		snprintf(why, len, "%s cannot be written", ns->block);
	else if (uq_ns_remember(ns))
		snprintf(why, len, "%s cannot be told from others", ns->block);
	else
		return 0;
	return -1;
}

/* All named devices may be overwritten, so put_back() may change them. */
static bool claimed;

int uq_claim_devs(char *why, size_t len)
{
	struct uq_ns ns;
	unsigned int n;

	for (n = 0; uq_ns_nth(&ns, n); n++)
		if (claim(&ns, why, len))
			return -1;
	if (uq_ns_slow(&ns) && claim(&ns, why, len))
		return -1;
	claimed = true;
	return 0;
}

void uq_label_devs(void)
{
	struct uq_ns ns;
	unsigned int n;

	for (n = 0; n < uq_ns_count(); n++)
		if (uq_ns_nth(&ns, n))
			write_label(ns.block);
	if (uq_ns_slow(&ns))
		write_label(ns.block);
}

/* -- settings */

static struct setting {
	char path[160];
	char val[128];
	char block[32];		/* its namespace, or "" */
} settings[256];

static unsigned int nr_settings;

/* Read b from "a [b] c". */
static int read_setting(const char *path, char *val, size_t len)
{
	char line[256], *from, *to;
	int ret = uq_read_line(path, line, sizeof(line));

	if (ret)
		return ret;
	from = strchr(line, '[');
	to = from ? strchr(from, ']') : NULL;
	if (to) {
		*to = 0;
		memmove(line, from + 1, to - from);
	}
	return (size_t)snprintf(val, len, "%s", line) < len ? 0 : -E2BIG;
}

static void keep_file(const char *path, const char *block)
{
	struct setting *s = &settings[nr_settings];
	struct stat st;

	snprintf(s->block, sizeof(s->block), "%s", block);
	if (nr_settings == ARRAY_SIZE(settings) ||
	    stat(path, &st) || !S_ISREG(st.st_mode) ||
	    (st.st_mode & 0600) != 0600 ||
	    (size_t)snprintf(s->path, sizeof(s->path), "%s", path) >=
	    sizeof(s->path) ||
	    read_setting(path, s->val, sizeof(s->val)))
		return;
	nr_settings++;
}

static void keep_files(const char *folder)
{
	char path[PATH_MAX];
	struct dirent *e;
	DIR *d = opendir(folder);

	while (d && (e = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
		keep_file(path, "");
	}
	if (d)
		closedir(d);
}

#define BLOCK_TIMEOUT	"/sys/block/%s/queue/io_timeout"
#define CTRL_TIMEOUT	"/sys/class/nvme/nvme%d/io_timeout"

static void keep_timeout(const struct uq_ns *ns)
{
	char path[96];

	snprintf(path, sizeof(path), BLOCK_TIMEOUT, ns->block);
	keep_file(path, ns->block);
	snprintf(path, sizeof(path), CTRL_TIMEOUT, ns->ctrl);
	keep_file(path, ns->block);
}

/* Update the path of a setting, as names may have changed. */
static bool find_setting(struct setting *s)
{
	struct uq_ns ns;

	if (!s->block[0])
		return true;
	if (!uq_ns_named(&ns, s->block, strlen(s->block)))
		return false;
	if (strstr(s->path, "/queue/"))
		snprintf(s->path, sizeof(s->path), BLOCK_TIMEOUT, ns.block);
	else
		snprintf(s->path, sizeof(s->path), CTRL_TIMEOUT, ns.ctrl);
	return true;
}

void uq_keep_settings(void)
{
	static const char * const faults[] = {
		"/sys/kernel/debug/failslab",
		"/sys/kernel/debug/fail_futex",
		"/sys/kernel/debug/fail_io_timeout",
		"/sys/kernel/debug/fail_make_request",
		"/sys/kernel/debug/fail_page_alloc",
		"/sys/kernel/debug/fail_usercopy",
	};
	struct uq_ns ns;
	unsigned int n;

	nr_settings = 0;
	keep_files("/sys/module/nvme/parameters");
	keep_files("/sys/module/nvme_core/parameters");
	for (n = 0; n < ARRAY_SIZE(faults); n++)
		keep_files(faults[n]);
	keep_file("/sys/module/suspend/parameters/pm_test_delay", "");
	keep_file("/sys/power/pm_test", "");
	keep_file("/sys/power/pm_freeze_timeout", "");
	for (n = 0; uq_ns_nth(&ns, n); n++)
		keep_timeout(&ns);
	if (uq_ns_slow(&ns))
		keep_timeout(&ns);
}

/* Set the limits of a queue to its depth. There was no old value to save. */
static void reset_limits(const struct uq_node *node)
{
	static const char * const limits[] = { "limit", "file_limit" };
	unsigned int i;
	char depth[16];

	snprintf(depth, sizeof(depth), "%u", node->depth);
	for (i = 0; i < ARRAY_SIZE(limits); i++)
		if (uq_attr(node->name, limits[i]) != node->depth)
			uq_attr_write(node->name, limits[i], depth);
}

/*
 * End all faults. Their files may be created late or again, so none is saved.
 */
static void restore_nodes(const struct uq_ns *ns)
{
	struct uq_node node;
	unsigned int n;
	int poll;

	if (uq_can_fault(ns->ctrl))
		uq_fault_clear(ns->ctrl);
	for (poll = 0; poll < 2; poll++) {
		for (n = 0; uq_node_nth(&node, ns, poll, n); n++) {
			reset_limits(&node);
			if (uq_attr(node.name, "claim") == 1)
				uq_allow_claims(node.name, false);
			chmod(node.path, 0600);
		}
	}
}

static void restore_files(bool of_devices)
{
	char now[128];
	unsigned int i;

	for (i = 0; i < nr_settings; i++) {
		struct setting *s = &settings[i];

		/* a device that a test has removed has no settings */
		if (of_devices == !!s->block[0] && find_setting(s) &&
		    !read_setting(s->path, now, sizeof(now)) &&
		    strcmp(now, s->val))
			uq_write_line(s->path, s->val[0] ? s->val : "\n");
	}
}

void uq_restore_settings(void)
{
	struct uq_ns ns;
	unsigned int i;

	uq_trace_end();
	/* parameters that matter when controllers are bound, and faults */
	restore_files(false);
	/* include all devices in a suspend again, see uq_test_events.c */
	uq_write_line("/sys/module/uq_test_events/parameters/spare", "0");
	for (i = 0; i < uq_ns_count(); i++)
		if (uq_ns_nth(&ns, i))
			restore_nodes(&ns);
	if (uq_ns_slow(&ns))
		restore_nodes(&ns);
	restore_files(true);
}

/* -- the end of a test */

static bool is_child(const char *pid)
{
	char path[300], line[512], *at;
	int parent;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	if (uq_read_line(path, line, sizeof(line)))
		return false;
	at = strrchr(line, ')');
	return at && sscanf(at + 1, " %*c %d", &parent) == 1 &&
		parent == getpid();
}

/*
 * Kill all descendants. Children of a process that has ended become ours.
 * Return false if a task does not end in ten seconds, because it hangs in the
 * kernel.
 */
static bool end_children(void)
{
	unsigned int tries;
	struct dirent *e;
	DIR *d;

	for (tries = 0; tries < 100; tries++) {
		d = opendir("/proc");
		while (d && (e = readdir(d)))
			if (atoi(e->d_name) > 0 && is_child(e->d_name))
				kill(atoi(e->d_name), SIGKILL);
		if (d)
			closedir(d);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD)
			return true;
		usleep(100000);
	}
	return false;
}

/*
 * If a task hangs, do not bind devices: it may hold locks that this requires.
 */
static void put_back(bool devices)
{
	if (!claimed)
		return;
	uq_restore_settings();
	uq_label_devs();
	if (!devices || !uq_may_disrupt(NULL, 0) || !uq_devices_back())
		return;
	uq_restore_settings();
	uq_label_devs();
}

/*
 * Wait until the child has ended or a signal arrives. Return the signal or 0.
 */
static int wait_for(pid_t child, const sigset_t *signals, int *status)
{
	for (;;) {
		int sig = sigwaitinfo(signals, NULL), one;
		pid_t pid;

		if (sig > 0 && sig != SIGCHLD)
			return sig;
		while ((pid = waitpid(-1, &one, WNOHANG)) > 0) {
			if (pid != child)
				continue;
			*status = one;
			return 0;
		}
	}
}

struct guarded {
	int (*run)(int argc, char **argv);
	int argc;
	char **argv;
};

/*
 * Run @run() in a child, which gets the signal @death when this process ends.
 * Restore settings when the child has ended, or when this process gets a
 * signal.
 */
static int guard_child(int (*run)(const struct guarded *g),
		       const struct guarded *g, int death)
{
	static const int caught[] = { SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM };
	int status = 0, sig;
	bool ended = true;
	sigset_t signals, old;
	pid_t pid, parent = getpid();
	unsigned int i;

	sigemptyset(&signals);
	for (i = 0; i < ARRAY_SIZE(caught); i++)
		sigaddset(&signals, caught[i]);
	sigprocmask(SIG_BLOCK, &signals, &old);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, death);
		if (getppid() != parent)
			_exit(128 + SIGKILL);
		sigprocmask(SIG_SETMASK, &old, NULL);
		exit(run(g));
	}
	sig = pid < 0 ? SIGTERM : wait_for(pid, &signals, &status);
	if (sig || WIFSIGNALED(status))
		ended = end_children();
	else if (death != SIGKILL)	/* the child has restored all */
		return WEXITSTATUS(status);
	put_back(ended);
	if (!sig && WIFEXITED(status))
		return WEXITSTATUS(status);
	return 128 + (sig ? sig : WTERMSIG(status));
}

static int run_tests(const struct guarded *g)
{
	return g->run(g->argc, g->argv);
}

/* Start a session, as a runner may kill its process group. */
static int run_apart(const struct guarded *g)
{
	setsid();
	return guard_child(run_tests, g, SIGKILL);
}

int uq_guard(int (*run)(int argc, char **argv), int argc, char **argv)
{
	const struct guarded g = { run, argc, argv };

	uq_keep_settings();
	return guard_child(run_apart, &g, SIGTERM);
}

/* -- devices if no variable names any */

static bool is_named(void)
{
	return getenv("UQ_TEST_DEV") || getenv("UQ_TEST_SLOW_DEV");
}

/* Return the serial number of a namespace without our prefix, or NULL. */
static const char *our_serial(const char *block)
{
	static char serial[64];
	char folder[300];

	snprintf(folder, sizeof(folder), "/sys/block/%s/device", block);
	uq_read_dev(folder, "serial", serial, sizeof(serial));
	if (strncmp(serial, UQ_SERIAL, strlen(UQ_SERIAL)) || !uq_is_emulated(folder))
		return NULL;
	return serial + strlen(UQ_SERIAL);
}

/*
 * Set the variables to the emulated namespaces with a serial number of the
 * tests, "main" first. Child processes inherit the variables.
 */
static void name_devs(void)
{
	char devs[2048] = "", first[300] = "", all[2400];
	int n, i, x, y, rest, len = 0;
	struct dirent **blocks;

	n = scandir("/sys/block", &blocks, NULL, versionsort);
	for (i = 0; i < n; free(blocks[i++])) {
		const char *block = blocks[i]->d_name, *serial;

		/* skip nvmeXcYnZ, a path */
		if (sscanf(block, "nvme%dn%d%n", &x, &y, &rest) != 2 ||
		    block[rest])
			continue;
		serial = our_serial(block);
		if (!serial)
			continue;
		if (!strcmp(serial, "slow"))
			setenv("UQ_TEST_SLOW_DEV", block, 0);
		else if (!strcmp(serial, "main") && !first[0])
			snprintf(first, sizeof(first), "%s ", block);
		else if (len + strlen(block) + 1 < sizeof(devs))
			len += sprintf(devs + len, "%s ", block);
	}
	if (n >= 0)
		free(blocks);
	snprintf(all, sizeof(all), "%s%s", first, devs);
	if (all[0])
		setenv("UQ_TEST_DEV", all, 1);
}

/* -- start and end of a program */

#define PARAMS	"/sys/module/nvme/parameters"

/* Check that all words of both variables name a namespace. */
static bool all_are_namespaces(void)
{
	const char *slow = getenv("UQ_TEST_SLOW_DEV");
	unsigned int n = 0;
	struct uq_ns ns;

	while (uq_ns_nth(&ns, n))
		n++;
	return n == uq_ns_count() && (!slow || !*slow || uq_ns_slow(&ns));
}

int uq_find_devs(char *why, size_t len)
{
	const char *s;

	if (!is_named())
		name_devs();
	s = getenv("UQ_TEST_DEV");
	if (!s || !s[strspn(s, " ")]) {
		snprintf(why, len,
			 "UQ_TEST_DEV names no NVMe namespace that may be overwritten, and none of QEMU's has a serial number that begins with %s",
			 UQ_SERIAL);
		return KSFT_SKIP;
	}
	if (geteuid()) {
		snprintf(why, len, "not root");
		return KSFT_SKIP;
	}
	if (access(PARAMS "/user_irq_queues", F_OK)) {
		snprintf(why, len, "nvme has no user queues (CONFIG_NVME_UQ)");
		return KSFT_SKIP;
	}
	if (!all_are_namespaces()) {
		snprintf(why, len,
			 "UQ_TEST_DEV or UQ_TEST_SLOW_DEV names what is no NVMe namespace that works");
		return KSFT_FAIL;
	}
	return uq_claim_devs(why, len) ? KSFT_SKIP : 0;
}

/*
 * Create two queues of each kind, or accept the existing ones if no controller
 * may be reset. If an earlier program has left these queues, set only the
 * parameters, so that a reset creates the same queues.
 */
static int prepare(const struct uq_ns *ns, char *why, size_t len)
{
	unsigned int irqs = uq_count_nodes(ns, false);
	unsigned int polls = uq_count_nodes(ns, true);
	bool no_irq = uq_no_queue(ns, false);
	char reason[UQ_WHY_LEN];
	int ret, irq, poll;

	if (!uq_may_disrupt(reason, sizeof(reason))) {
		if ((no_irq || irqs) && polls)
			return 0;
		snprintf(why, len, "nvme%d has no user queues; a reset %.240s",
			 ns->ctrl, reason);
		return KSFT_SKIP;
	}
	if (irqs == (no_irq ? 0 : 2) && polls == 2 &&
	    !uq_param_set("user_irq_queues", "2") &&
	    !uq_param_set("user_poll_queues", "2"))
		return 0;
	ret = uq_bring_up(ns, 2, 2);
	if (ret)
		snprintf(why, len, "nvme%d cannot be reset: %s", ns->ctrl,
			 strerror(-ret));
	else if (!uq_settle(ns, &irq, &poll))
		snprintf(why, len, "nvme%d does not get the nodes of its user queues",
			 ns->ctrl);
	else if (!poll || (!irq && !no_irq))
		snprintf(why, len, "nvme%d has %d/%d user irq/poll queues, asked for 2/2",
			 ns->ctrl, irq, poll);
	else
		return 0;
	return KSFT_FAIL;
}

int uq_prepare(char *why, size_t len)
{
	int ret = uq_find_devs(why, len);
	struct uq_ns ns;

	if (ret)
		return ret;
	uq_keep_settings();
	uq_ns_nth(&ns, 0);
	ret = prepare(&ns, why, len);
	if (!ret && uq_ns_slow(&ns))
		ret = prepare(&ns, why, len);
	if (ret)
		uq_put_back();
	return ret;
}

void uq_put_back(void)
{
	put_back(true);
}
