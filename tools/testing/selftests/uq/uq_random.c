// SPDX-License-Identifier: GPL-2.0
/*
 * Helpers of the tests with random operations; see uq_random.h.
 */
#define _GNU_SOURCE
#include <dirent.h>

#include "uq_random.h"

/* -- numbers */

__u64 uq_seed(void)
{
	const char *s = getenv("UQ_TEST_SEED");
	struct timespec ts;

	if (s && *s)
		return strtoull(s, NULL, 0);
	clock_gettime(CLOCK_REALTIME, &ts);
	return ts.tv_sec * 1000003ull ^ ts.tv_nsec;
}

/* Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014 */
__u64 uq_rnd(struct uq_rng *rng)
{
	__u64 z = rng->state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

void uq_rng_init(struct uq_rng *rng, __u64 seed, unsigned int stream)
{
	unsigned int i;

	rng->state = seed;
	for (i = 0; i <= stream; i++)
		rng->state = uq_rnd(rng);
}

/* -- pages */

static long long vm_counter(const char *name)
{
	FILE *f = fopen("/proc/vmstat", "r");
	char line[128];
	long long n = -1;
	size_t len = strlen(name);

	while (f && n < 0 && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, len) && line[len] == ' ')
			n = atoll(line + len);
	if (f)
		fclose(f);
	return n;
}

long long uq_pinned_ever(void)
{
	char line[16];

	/* this read adds up the counters of all CPUs */
	uq_read_line("/proc/sys/vm/stat_refresh", line, sizeof(line));
	return vm_counter("nr_foll_pin_acquired");
}

long long uq_pinned(void)
{
	long long ever = uq_pinned_ever();
	/* read this last, so that the difference is never too high */
	long long released = vm_counter("nr_foll_pin_released");

	return ever < 0 || released < 0 ? -1 : ever - released;
}

bool uq_wait_unpinned(long long before)
{
	time_t start = uq_seconds();

	/* a closed ring unpins its buffers with a delay */
	while (uq_pinned() > before) {
		if (uq_seconds() - start > UQ_NEVER)
			return false;
		usleep(1000);
	}
	return true;
}

/* -- leaked memory, and warnings of the kernel */

#define KMEMLEAK	"/sys/kernel/debug/kmemleak"
/* kmemleak ignores objects younger than 5 seconds; wait one second more. */
#define LEAK_AGE	6

static bool scan(void)
{
	return !uq_write_line(KMEMLEAK, "scan");
}

/*
 * An object that changes between two scans counts as in use, so scan
 * repeatedly.
 */
static void scan_for_leaks(void)
{
	char path[] = "/sys/module/kmemleak/parameters/min_unref_scans";
	char line[16] = "1";
	time_t start = uq_seconds();
	int n;

	uq_read_line(path, line, sizeof(line));
	/* wait until kmemleak reports the youngest objects */
	while (uq_seconds() - start < LEAK_AGE)
		usleep(100000);
	for (n = atoi(line); n >= 0 && scan(); n--)
		;
}

/*
 * Count leaked objects of the driver or these tests. Print the report if @tell.
 */
static unsigned int leaks(bool tell)
{
	unsigned int n = 0, lines = 0;
	bool counted = true;
	char line[256];
	FILE *f;

	f = fopen(KMEMLEAK, "r");
	while (f && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, "unreferenced", 12))
			counted = false;
		if (tell && lines++ < 200)
			printf("# %s", line);
		if (counted || (!strstr(line, "nvme") &&
				!strstr(line, "comm \"uq_")))
			continue;
		counted = true;
		n++;
	}
	if (f)
		fclose(f);
	return n;
}

static int open_log(void)
{
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd >= 0)
		lseek(fd, 0, SEEK_END);
	return fd;
}

/*
 * Count warnings and bugs that the kernel reports in the driver or in tasks of
 * these tests. Ignore all others, and reports of KCSAN.
 */
static unsigned int complaints(int log)
{
	bool report = false;
	unsigned int n = 0;
	char line[1024];
	ssize_t len;

	while ((len = read(log, line, sizeof(line) - 1)) > 0 ||
	       (len < 0 && errno == EPIPE)) {
		line[len > 0 ? len : 0] = 0;
		if ((strstr(line, "WARNING: ") || strstr(line, "BUG: ")) &&
		    !strstr(line, "BUG: KCSAN")) {
			report = !strstr(line, "nvme");
			n += !report;
		} else if (report && strstr(line, " Comm: ")) {
			report = false;
			n += !!strstr(line, " Comm: uq_");
		}
	}
	return n;
}

void uq_peace_begin(struct uq_peace *peace, bool find_leaks)
{
	peace->pinned = uq_pinned();
	peace->log = open_log();
	peace->find_leaks = find_leaks && !access(KMEMLEAK, F_OK);
	/* ignore leaks of earlier tests */
	peace->leaks = peace->find_leaks && scan() ? leaks(false) : 0;
}

bool uq_peace_kept(const struct uq_peace *peace)
{
	bool kept = true;

	if (!uq_wait_unpinned(peace->pinned)) {
		printf("# %lld pages are pinned, %lld were\n", uq_pinned(),
		       peace->pinned);
		kept = false;
	}
	if (peace->log >= 0 && complaints(peace->log)) {
		printf("# the kernel has complained, see its log\n");
		kept = false;
	}
	if (peace->log >= 0)
		close(peace->log);
	if (peace->find_leaks)
		scan_for_leaks();
	if (peace->find_leaks && leaks(false) > peace->leaks) {
		leaks(true);
		printf("# memory of the kernel has leaked\n");
		kept = false;
	}
	fflush(stdout);
	return kept;
}

/* -- a device, which may have another number now */

bool uq_node_of_pci(struct uq_node *node, const char *pci, unsigned int n)
{
	int ctrl = uq_ctrl_of_pci(pci), x, y, z;
	bool found = false;
	struct dirent *e;
	char type[16];
	DIR *d;

	memset(node, 0, sizeof(*node));
	d = ctrl < 0 ? NULL : opendir("/sys/class/nvme-generic");
	while (d && !found && (e = readdir(d))) {
		if (sscanf(e->d_name, "ng%dn%dq%d", &x, &y, &z) != 3 ||
		    x != ctrl)
			continue;
		uq_attr_str(e->d_name, "type", type, sizeof(type));
		if (!uq_is_created(e->d_name) || n--)
			continue;
		snprintf(node->name, sizeof(node->name), "%.31s", e->d_name);
		snprintf(node->path, sizeof(node->path), "/dev/%s", node->name);
		node->poll = !strcmp(type, "poll");
		node->ns.ctrl = x;
		node->ns.head = y;
		node->ns.lba = 512;
		node->depth = uq_attr(node->name, "depth");
		found = !access(node->path, F_OK);
	}
	if (d)
		closedir(d);
	return found;
}

void uq_count_of_pci(const char *pci, unsigned int *irq, unsigned int *poll)
{
	struct uq_node node;
	unsigned int n;

	*irq = 0;
	*poll = 0;
	for (n = 0; uq_node_of_pci(&node, pci, n); n++)
		*(node.poll ? poll : irq) += 1;
}

/* -- slots */

/*
 * Read one block per command. Separate buffers avoid warnings of DMA debugging.
 */
static int read_many(struct io_uring *ring, const struct uq_node *node, int fd,
		     void *buf, unsigned int n)
{
	struct nvme_uring_cmd *c;
	unsigned int i;

	for (i = 0; i < n; i++) {
		c = uq_prep_raw(ring, fd, node->nsid, CMD_READ, i,
				(char *)buf + i * node->ns.lba, node->ns.lba, 1);
		if (!c)
			return -ENOSPC;
		uq_sqe(c)->uring_cmd_flags = IORING_URING_CMD_FIXED;
	}
	return uq_run_all(ring, n);
}

/*
 * The doorbell is written at the end of a batch. So no command completes before
 * all have asked for a slot. A command without a slot waits, and has a doorbell
 * of its own. If the task has slept in the batch, try again.
 */
int uq_fill_slots(const struct uq_node *node)
{
	int fd = open(node->path, O_RDONLY), ret;
	struct iovec iov = { .iov_len = node->depth * node->ns.lba };
	unsigned int tries;
	struct io_uring ring;
	long long before;

	if (fd < 0)
		return -errno;
	iov.iov_base = uq_alloc(iov.iov_len);
	ret = uq_ring(&ring, node->depth, node->poll ? IORING_SETUP_IOPOLL : 0);
	if (ret)
		goto out;
	ret = io_uring_register_buffers(&ring, &iov, 1);
	for (tries = 0; !ret && tries < 10; tries++) {
		before = uq_attr(node->name, "doorbells");
		ret = read_many(&ring, node, fd, iov.iov_base, node->depth);
		if (!ret && uq_attr(node->name, "doorbells") == before + 1)
			break;
	}
	if (tries == 10)
		ret = -EBUSY;
	io_uring_queue_exit(&ring);
out:
	munmap(iov.iov_base, iov.iov_len);
	close(fd);
	return ret;
}

/* -- processes */

static void tell_file(pid_t pid, const char *name)
{
	char path[64], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		printf("# %s: %s", path, line);
	if (f)
		fclose(f);
}

int uq_wait_child(pid_t pid, const unsigned long *done)
{
	unsigned long seen = 0, now;
	time_t start = uq_seconds();
	int status;
	pid_t ret;

	while (!(ret = waitpid(pid, &status, WNOHANG))) {
		now = done ? __atomic_load_n(done, __ATOMIC_RELAXED) : 0;
		if (now != seen)
			start = uq_seconds();
		seen = now;
		if (uq_seconds() - start > UQ_NEVER) {
			printf("# process %d does not end\n", pid);
			tell_file(pid, "status");
			tell_file(pid, "stack");
			return -1;
		}
		usleep(1000);
	}
	return ret == pid ? status : -1;
}
