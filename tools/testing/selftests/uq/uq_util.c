// SPDX-License-Identifier: GPL-2.0
/*
 * Helpers of the tests of NVMe user queues; see uq.h.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <limits.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "uq.h"
#include "kselftest.h"

#define GENERIC	"/sys/class/nvme-generic"
#define PARAMS	"/sys/module/nvme/parameters"

/* -- memory */

void *uq_held_memory(size_t len, int *uffd)
{
	size_t page = getpagesize(), pages = (len + page - 1) / page;
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = {
		.range	= { (uintptr_t)p, pages * page },
		.mode	= UFFDIO_REGISTER_MODE_MISSING,
	};

	*uffd = syscall(SYS_userfaultfd, O_CLOEXEC);
	if (*uffd < 0)
		return NULL;
	return ioctl(*uffd, UFFDIO_API, &api) ||
		ioctl(*uffd, UFFDIO_REGISTER, &reg) ? NULL : p;
}

/* A change of a limit freezes the queue, even to the same value. */
struct freeze {
	char	path[128], val[32];
	bool	busy;
	int	ret;
};

static void *freeze_queue(void *arg)
{
	struct freeze *f = arg;

	f->ret = uq_write_line(f->path, f->val);
	__atomic_store_n(&f->busy, false, __ATOMIC_RELEASE);
	return NULL;
}

/* While the queue is frozen, reads that must not wait fail again and again. */
bool uq_freezes(const struct uq_ns *ns, int block)
{
	static struct freeze f; /* the thread may outlive the call */
	struct iovec iov = { uq_alloc(4096), 4096 };
	unsigned int refused = 0;
	pthread_t thread;

	while (__atomic_load_n(&f.busy, __ATOMIC_ACQUIRE))
		sched_yield();
	/* with native multipath, the controller has a disk of its own */
	snprintf(f.path, sizeof(f.path),
		 "/sys/block/%.*sc%dn%d/queue/rotational",
		 (int)strcspn(ns->block + 4, "n") + 4, ns->block, ns->ctrl,
		 ns->head);
	if (access(f.path, F_OK))
		snprintf(f.path, sizeof(f.path),
			 "/sys/block/%s/queue/rotational", ns->block);
	if (uq_read_line(f.path, f.val, sizeof(f.val)))
		return false;
	f.busy = true;
	if (pthread_create(&thread, NULL, freeze_queue, &f))
		return false;
	pthread_detach(thread);
	while (__atomic_load_n(&f.busy, __ATOMIC_ACQUIRE) && refused < 100000) {
		if (preadv2(block, &iov, 1, 0, RWF_NOWAIT) < 0)
			refused++;
		else
			refused = 0;
		sched_yield();
	}
	munmap(iov.iov_base, iov.iov_len);
	return !__atomic_load_n(&f.busy, __ATOMIC_ACQUIRE) && !f.ret;
}

/* -- files */

int uq_read_line(const char *path, char *buf, size_t len)
{
	FILE *f = fopen(path, "r");
	int ret = 0;

	buf[0] = 0;
	if (!f)
		return -errno;
	if (!fgets(buf, len, f))
		ret = -EIO;
	buf[strcspn(buf, "\n")] = 0;
	fclose(f);
	return ret;
}

int uq_write_line(const char *path, const char *val)
{
	int fd = open(path, O_WRONLY), ret = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, val, strlen(val)) < 0)
		ret = -errno;
	close(fd);
	return ret;
}

#define TRACE	"/sys/kernel/tracing/instances/uq_selftest"

bool uq_trace_begin(void)
{
	uq_trace_end();
	return !mkdir(TRACE, 0700) &&
		!uq_write_line(TRACE "/events/nvme_uq/enable", "1");
}

bool uq_traced(const char *event, const char *what)
{
	FILE *f = fopen(TRACE "/trace", "r");
	bool found = false;
	char line[512];

	while (f && fgets(line, sizeof(line), f))
		found |= strstr(line, event) && strstr(line, what) &&
			!strstr(line, "latency=0 ");
	if (f)
		fclose(f);
	return found;
}

void uq_trace_end(void)
{
	rmdir(TRACE);
}

unsigned int uq_count_entries(const char *path)
{
	struct dirent *e;
	unsigned int n = 0;
	DIR *d = opendir(path);

	while (d && (e = readdir(d)))
		n += e->d_name[0] != '.';
	if (d)
		closedir(d);
	return n;
}

static long long read_number(const char *path)
{
	char line[64], *end;
	long long v;

	if (uq_read_line(path, line, sizeof(line)))
		return -1;
	v = strtoll(line, &end, 10);
	return end == line ? -1 : v;
}

void uq_attr_str(const char *node, const char *attr, char *buf, size_t len)
{
	char path[256];

	snprintf(path, sizeof(path), GENERIC "/%s/user_queue/%s", node, attr);
	uq_read_line(path, buf, len);
}

long long uq_attr(const char *node, const char *attr)
{
	char path[256];

	snprintf(path, sizeof(path), GENERIC "/%s/user_queue/%s", node, attr);
	return read_number(path);
}

int uq_attr_write(const char *node, const char *attr, const char *val)
{
	char path[256];

	snprintf(path, sizeof(path), GENERIC "/%s/user_queue/%s", node, attr);
	return uq_write_line(path, val);
}

/* -- emulated controllers */

void uq_read_dev(const char *dir, const char *name, char *val, size_t len)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (uq_read_line(path, val, len))
		val[0] = 0;
	for (len = strlen(val); len && val[len - 1] == ' '; len--)
		val[len - 1] = 0;
}

bool uq_is_emulated(const char *dir)
{
	char model[64];

	uq_read_dev(dir, "model", model, sizeof(model));
	return !strcmp(model, UQ_MODEL);
}

/* -- tests that affect more than a namespace */

bool uq_may_disrupt(char *why, size_t len)
{
	const char *s = getenv("UQ_TEST_DESTRUCTIVE");
	static bool emulated;
	char path[300];
	struct dirent *e;
	DIR *d;

	if (emulated || (s && !strcmp(s, "1")))
		return true;
	emulated = true;
	d = opendir("/sys/class/nvme");
	while (emulated && d && (e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/sys/class/nvme/%s", e->d_name);
		if (uq_is_emulated(path))
			continue;
		emulated = false;
		if (why)
			snprintf(why, len,
				 "reaches beyond the namespace, and %.32s is not \"%s\"; UQ_TEST_DESTRUCTIVE=1 allows it",
				 e->d_name, UQ_MODEL);
	}
	if (d)
		closedir(d);
	return emulated;
}

/* -- parameters */

int uq_param_set(const char *name, const char *val)
{
	char path[128];

	if (!uq_may_disrupt(NULL, 0))
		return -EPERM;
	snprintf(path, sizeof(path), PARAMS "/%s", name);
	return uq_write_line(path, val);
}

long long uq_param_get(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), PARAMS "/%s", name);
	return read_number(path);
}

unsigned int uq_scale(void)
{
	const char *s = getenv("UQ_TEST_SCALE");
	int n = s ? atoi(s) : 1;

	return n > 0 ? n : 1;
}

/* -- devices */

/*
 * Do not use realpath(): it looks up each directory, and tests call this often.
 */
int uq_link_name(const char *link, char *name, size_t len)
{
	char to[PATH_MAX];
	ssize_t n = readlink(link, to, sizeof(to) - 1);
	const char *last;

	if (n < 0)
		return -errno;
	to[n] = 0;
	last = strrchr(to, '/');
	return snprintf(name, len, "%s", last ? last + 1 : to) < (int)len ?
		0 : -ENAMETOOLONG;
}

/* Return the first controller of a subsystem, or -1, and count all of them. */
static int first_path(const char *subsys, unsigned int *paths)
{
	int x, rest, first = -1;
	struct dirent *e;
	DIR *d = opendir(subsys);

	while (d && (e = readdir(d))) {
		char path[128];

		/* skip nvmeXnY, a namespace */
		if (sscanf(e->d_name, "nvme%d%n", &x, &rest) != 1 ||
		    e->d_name[rest])
			continue;
		snprintf(path, sizeof(path), "%s/nvme%d/cntlid", subsys, x);
		if (access(path, F_OK))
			continue;
		++*paths;
		if (first < 0 || x < first)
			first = x;
	}
	if (d)
		closedir(d);
	return first;
}

/* Find the controller of a block device, and the number of its namespace. */
static bool find_ctrl(struct uq_ns *ns)
{
	char link[64], name[64];
	int subsys;

	if (sscanf(ns->block, "nvme%dn%d", &subsys, &ns->head) != 2)
		return false;
	/* the parent is a controller, or a subsystem with native multipath */
	snprintf(link, sizeof(link), "/sys/block/%s/device", ns->block);
	if (uq_link_name(link, name, sizeof(name)))
		return false;
	ns->paths = 0;
	if (sscanf(name, "nvme%d", &ns->ctrl) == 1)
		ns->paths = 1;
	else
		ns->ctrl = first_path(link, &ns->paths);
	return ns->ctrl >= 0;
}

/* Identify Namespace returns the format of logical blocks. */
static bool find_format(struct uq_ns *ns)
{
	static unsigned char id[4096];
	struct nvme_passthru_cmd cmd = {
		.opcode		= 0x06,
		.addr		= (uintptr_t)id,
		.data_len	= sizeof(id),
	};
	char path[40];
	__u32 lbaf, nr;
	int fd, ret;

	snprintf(path, sizeof(path), "/dev/%s", ns->block);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return false;
	ret = ioctl(fd, NVME_IOCTL_ID);
	ns->nsid = ret > 0 ? ret : 0;
	cmd.nsid = ns->nsid;
	ret = ret > 0 ? ioctl(fd, NVME_IOCTL_ADMIN_CMD, &cmd) : -1;
	close(fd);
	if (ret)
		return false;
	nr = (id[26] & 0xf) | (id[26] & 0x60) >> 1;
	memcpy(&lbaf, id + 128 + 4 * nr, sizeof(lbaf));
	ns->lba = 1 << (lbaf >> 16 & 0xff);
	ns->ms = lbaf & 0xffff;
	ns->ext = id[26] & 0x10;
	return true;
}

static bool find_limits(struct uq_ns *ns)
{
	char path[96];
	long long kb;

	snprintf(path, sizeof(path), "/sys/block/%s/size", ns->block);
	ns->usable = read_number(path) > 0;
	snprintf(path, sizeof(path), "/sys/block/%s/queue/max_hw_sectors_kb",
		 ns->block);
	kb = read_number(path);
	ns->max = kb > 0 ? kb * 1024 : 0;
	return true;
}

/*
 * Claimed namespaces. Names change, but the WWID does not. The bus address of
 * the controller does not change either, if there is only one.
 */
static struct known {
	char block[32];
	char wwid[200];
	char pci[64];		/* or "" */
	int ctrl;
} known[64];

static unsigned int nr_known;

int uq_wwid(const char *block, char *wwid, size_t len)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/block/%.31s/wwid", block);
	return uq_read_line(path, wwid, len);
}

bool uq_only_pci_of(const struct uq_ns *ns, char *pci, size_t len)
{
	char path[128];

	if (ns->paths != 1 || uq_pci_of(ns, pci, len))
		return false;
	/* a fabrics controller is not on a bus */
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s", pci);
	return !access(path, F_OK);
}

static bool is_same(const char *block, const struct known *dev)
{
	char wwid[200], pci[64];
	struct uq_ns ns = {};

	if (uq_wwid(block, wwid, sizeof(wwid)) || strcmp(wwid, dev->wwid))
		return false;
	snprintf(ns.block, sizeof(ns.block), "%.31s", block);
	return !dev->pci[0] || (find_ctrl(&ns) &&
				uq_only_pci_of(&ns, pci, sizeof(pci)) &&
				!strcmp(pci, dev->pci));
}

/* Find the current name of a namespace. Return false if there is none. */
static bool find_same(char *block, size_t len, const struct known *dev)
{
	DIR *d = is_same(block, dev) ? NULL : opendir("/sys/block");
	int x, y, rest;
	struct dirent *e;

	if (!d)
		return is_same(block, dev);
	while ((e = readdir(d))) {
		/* skip nvmeXcYnZ, a path */
		if (sscanf(e->d_name, "nvme%dn%d%n", &x, &y, &rest) != 2 ||
		    e->d_name[rest] || !is_same(e->d_name, dev))
			continue;
		snprintf(block, len, "%.31s", e->d_name);
		break;
	}
	closedir(d);
	return e;
}

static bool find_block(struct uq_ns *ns)
{
	unsigned int i;

	for (i = 0; i < nr_known; i++)
		if (!strcmp(known[i].block, ns->block))
			return find_same(ns->block, sizeof(ns->block),
					 &known[i]);
	return true;
}

int uq_ns_remember(const struct uq_ns *ns)
{
	struct known *new = &known[nr_known], *old;
	int ret;

	for (old = known; old < new; old++)
		if (!strcmp(old->block, ns->block) && is_same(ns->block, old))
			return 0;
	if (nr_known == ARRAY_SIZE(known))
		return -ENOSPC;
	ret = uq_wwid(ns->block, new->wwid, sizeof(new->wwid));
	if (ret || !new->wwid[0])
		return ret ?: -ENODATA;
	memcpy(new->block, ns->block, sizeof(new->block));
	new->ctrl = ns->ctrl;
	if (!uq_only_pci_of(ns, new->pci, sizeof(new->pci)))
		new->pci[0] = 0;
	nr_known++;
	return 0;
}

bool uq_ns_named(struct uq_ns *ns, const char *dev, size_t len)
{
	memset(ns, 0, sizeof(*ns));
	if (len > 5 && !strncmp(dev, "/dev/", 5)) {
		dev += 5;
		len -= 5;
	}
	snprintf(ns->block, sizeof(ns->block), "%.*s", (int)len, dev);
	return find_block(ns) && find_ctrl(ns) && find_format(ns) &&
		find_limits(ns);
}

/* Return the @n'th word of UQ_TEST_DEV, or NULL. */
static const char *nth_word(unsigned int n, size_t *len)
{
	const char *s = getenv("UQ_TEST_DEV");

	while (s && *s) {
		s += strspn(s, " ");
		*len = strcspn(s, " ");
		if (*len && !n--)
			return s;
		s += *len;
	}
	return NULL;
}

unsigned int uq_ns_count(void)
{
	unsigned int n = 0;
	size_t len;

	while (nth_word(n, &len))
		n++;
	return n;
}

bool uq_ns_nth(struct uq_ns *ns, unsigned int n)
{
	size_t len;
	const char *s = nth_word(n, &len);

	return s && uq_ns_named(ns, s, len);
}

bool uq_ns_find(struct uq_ns *ns, bool (*want)(const struct uq_ns *ns))
{
	unsigned int n;

	for (n = 0; uq_ns_nth(ns, n); n++)
		if (want(ns))
			return true;
	return false;
}

bool uq_ns_slow(struct uq_ns *ns)
{
	const char *s = getenv("UQ_TEST_SLOW_DEV");

	return s && *s && uq_ns_named(ns, s, strlen(s));
}

/* Find the next node of a user queue in an open directory; false at its end. */
static bool next_queue(DIR *d, int *ctrl, int *head, unsigned int *z)
{
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (sscanf(e->d_name, "ng%dn%dq%u", ctrl, head, z) == 3)
			return true;
	return false;
}

/*
 * Return the numbers of a namespace's queues as bits, from bit 1; gaps are
 * possible.
 */
static __u64 queues_of(const struct uq_ns *ns)
{
	DIR *d = opendir(GENERIC);
	unsigned int z;
	__u64 found = 0;
	int x, y;

	while (next_queue(d, &x, &y, &z))
		if (x == ns->ctrl && y == ns->head && z && z < 64)
			found |= 1ULL << z;
	if (d)
		closedir(d);
	return found;
}

static void node_name(char *name, size_t len, const struct uq_ns *ns,
		      unsigned int z)
{
	snprintf(name, len, "ng%dn%dq%u", ns->ctrl, ns->head, z);
}

bool uq_is_created(const char *node)
{
	char state[16];

	/* the attribute is empty while the node is removed */
	uq_attr_str(node, "state", state, sizeof(state));
	return state[0] && strcmp(state, "unavailable");
}

/* Remove the next queue of a kind from @left and return it, or 0. */
static unsigned int next_of_kind(const struct uq_ns *ns, bool poll, __u64 *left)
{
	while (*left) {
		unsigned int z = __builtin_ctzll(*left);
		char name[32], type[16];

		*left &= *left - 1;
		node_name(name, sizeof(name), ns, z);
		uq_attr_str(name, "type", type, sizeof(type));
		if (uq_is_created(name) && !strcmp(type, "poll") == poll)
			return z;
	}
	return 0;
}

static void fill_node(struct uq_node *node, const struct uq_ns *ns,
		      unsigned int z, bool poll)
{
	memset(node, 0, sizeof(*node));
	node->ns = *ns;
	node->poll = poll;
	node->nsid = ns->nsid;
	node_name(node->name, sizeof(node->name), ns, z);
	snprintf(node->path, sizeof(node->path), "/dev/%s", node->name);
	snprintf(node->block, sizeof(node->block), "/dev/%s", ns->block);
	snprintf(node->ctrl, sizeof(node->ctrl), "/dev/nvme%d", ns->ctrl);
	snprintf(node->generic, sizeof(node->generic), "/dev/ng%s",
		 ns->block + strlen("nvme"));
	node->depth = uq_attr(node->name, "depth");
}

bool uq_node_nth(struct uq_node *node, const struct uq_ns *ns, bool poll,
		 unsigned int n)
{
	__u64 left = queues_of(ns);
	unsigned int z;

	while ((z = next_of_kind(ns, poll, &left))) {
		if (n--)
			continue;
		fill_node(node, ns, z, poll);
		return true;
	}
	return false;
}

unsigned int uq_count_nodes(const struct uq_ns *ns, bool poll)
{
	__u64 left = queues_of(ns);
	unsigned int n = 0;

	while (next_of_kind(ns, poll, &left))
		n++;
	return n;
}

bool uq_find(struct uq_node *node, bool poll)
{
	struct uq_ns ns;

	return uq_ns_nth(&ns, 0) && uq_node_nth(node, &ns, poll, 0);
}

bool uq_find_slow(struct uq_node *node, bool poll)
{
	struct uq_ns ns;

	return uq_ns_slow(&ns) && uq_node_nth(node, &ns, poll, 0);
}

/* Return the Y of any node ngXnYqZ of a controller, or -1. */
static int find_head(int ctrl)
{
	DIR *d = opendir(GENERIC);
	int x, y, head = -1;
	unsigned int z;

	while (next_queue(d, &x, &y, &z))
		if (x == ctrl)
			head = y;
	if (d)
		closedir(d);
	return head;
}

bool uq_separate_metadata(const struct uq_ns *ns)
{
	return ns->usable && ns->ms && !ns->ext;
}

/* -- memory that may not be there any more */

static sigjmp_buf after_load;

static void leave_load(int sig)
{
	siglongjmp(after_load, sig);
}

int uq_touch(const void *p, bool write)
{
	struct sigaction sa = { .sa_handler = leave_load }, old;
	int sig;

	sigaction(SIGBUS, &sa, &old);
	sig = sigsetjmp(after_load, 1);
	if (!sig && write)
		__atomic_store_n((char *)p, 1, __ATOMIC_RELAXED);
	else if (!sig)
		__atomic_load_n((const char *)p, __ATOMIC_RELAXED);
	sigaction(SIGBUS, &old, NULL);
	return sig;
}

/* -- waiting */

time_t uq_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec;
}

void uq_rest(void)
{
	usleep(1000);
}

/* Check the number of nodes. A node appears in /dev after its attributes. */
static bool nodes_are(const struct uq_ns *ns, bool poll, unsigned int nr)
{
	__u64 left = queues_of(ns);
	unsigned int z, n = 0, in_dev = 0;

	while ((z = next_of_kind(ns, poll, &left))) {
		char path[40] = "/dev/";

		node_name(path + 5, sizeof(path) - 5, ns, z);
		n++;
		in_dev += !access(path, F_OK);
	}
	return n == nr && in_dev == nr;
}

bool uq_wait_nodes(const struct uq_ns *ns, int irq, int poll)
{
	time_t start = uq_seconds();

	while (!nodes_are(ns, false, irq) || !nodes_are(ns, true, poll)) {
		if (uq_seconds() - start > UQ_NEVER)
			return false;
		uq_rest();
	}
	return true;
}

bool uq_wait_head(struct uq_ns *ns)
{
	while ((ns->head = find_head(ns->ctrl)) < 0)
		uq_rest();
	return uq_wait_nodes(ns, 2, 2);
}

static bool wait_zero(const char *node, const char *attr)
{
	time_t start = uq_seconds();

	while (uq_attr(node, attr) > 0) {
		if (uq_seconds() - start > UQ_NEVER)
			return false;
		uq_rest();
	}
	return true;
}

bool uq_wait_idle(const char *node)
{
	return wait_zero(node, "in_flight");
}

/* Print the value of an attribute if it is wrong. */
static bool attr_is(const char *node, const char *attr, long long expected)
{
	long long now = uq_attr(node, attr);

	if (now != expected)
		ksft_print_msg("%s of %s is %lld, not %lld\n", attr, node, now,
			       expected);
	return now == expected;
}

bool uq_check_idle(const char *node, long long spurious)
{
	bool good = uq_wait_idle(node);

	if (!good)
		ksft_print_msg("%s has commands in flight\n", node);
	good &= attr_is(node, "completed", uq_attr(node, "submitted"));
	good &= attr_is(node, "spurious", spurious);
	return good;
}

int uq_allow_claims(const char *node, bool allow)
{
	return uq_attr_write(node, "claim", allow ? "1" : "0");
}

bool uq_wait_unclaimed(const char *node)
{
	return wait_zero(node, "claimed");
}

int uq_wait_path(const char *path, bool there)
{
	time_t start = uq_seconds();

	while (!access(path, F_OK) != there) {
		if (uq_seconds() - start > UQ_NEVER)
			return -ETIMEDOUT;
		uq_rest();
	}
	return 0;
}

int uq_pci_path(const struct uq_ns *ns, char *path)
{
	char link[64];

	snprintf(link, sizeof(link), "/sys/class/nvme/nvme%d/device", ns->ctrl);
	return realpath(link, path) ? 0 : -errno;
}

int uq_pci_of(const struct uq_ns *ns, char *pci, size_t len)
{
	char link[64];

	snprintf(link, sizeof(link), "/sys/class/nvme/nvme%d/device", ns->ctrl);
	return uq_link_name(link, pci, len);
}

int uq_ctrl_of_pci(const char *pci)
{
	char path[128];
	struct dirent *e;
	int ctrl = -1;
	DIR *d;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/nvme", pci);
	d = opendir(path);
	while (d && ctrl < 0 && (e = readdir(d)))
		if (sscanf(e->d_name, "nvme%d", &ctrl) != 1)
			ctrl = -1;
	if (d)
		closedir(d);
	return ctrl;
}

int uq_pci_take(const char *pci, bool device)
{
	char path[128];

	if (!device)
		return uq_write_line("/sys/bus/pci/drivers/nvme/unbind", pci);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/remove", pci);
	return uq_write_line(path, "1");
}

bool uq_pci_find(const char *pci, bool device, struct uq_ns *ns)
{
	if (device ? uq_write_line("/sys/bus/pci/rescan", "1") :
		     uq_write_line("/sys/bus/pci/drivers/nvme/bind", pci))
		return false;
	while ((ns->ctrl = uq_ctrl_of_pci(pci)) < 0)
		uq_rest();
	return uq_wait_head(ns);
}

bool uq_pci_restore(const char *pci, const struct uq_ns *was)
{
	time_t start = uq_seconds();
	struct uq_ns now = *was;
	char path[64];

	now.ctrl = uq_ctrl_of_pci(pci);
	now.head = find_head(now.ctrl);
	while (now.ctrl != was->ctrl || now.head != was->head) {
		if (uq_seconds() - start > UQ_NEVER ||
		    uq_pci_take(pci, false) || !uq_pci_find(pci, false, &now))
			return false;
	}
	snprintf(path, sizeof(path), "/dev/%s", was->block);
	return !uq_wait_path(path, true);
}

static bool pci_has(const char *pci, const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", pci, name);
	return !access(path, F_OK);
}

/*
 * Return true if the controller has no driver, or the namespace another name.
 * If the controller works but the namespace is missing, it was detached or not
 * yet scanned.
 */
static bool is_astray(const struct known *dev)
{
	char now[32];

	if (!dev->pci[0])
		return false;
	if (!pci_has(dev->pci, "driver"))
		return true;
	memcpy(now, dev->block, sizeof(now));
	return find_same(now, sizeof(now), dev) && strcmp(now, dev->block);
}

/*
 * Bind controllers in the order of their old numbers: the lowest is assigned
 * first.
 */
static void bind_in_order(const bool *astray)
{
	int ctrl, last = -1;
	unsigned int i;

	for (i = 0; i < nr_known; i++)
		if (known[i].ctrl > last)
			last = known[i].ctrl;
	for (ctrl = 0; ctrl <= last; ctrl++)
		for (i = 0; i < nr_known; i++)
			if (astray[i] && known[i].ctrl == ctrl &&
			    !pci_has(known[i].pci, "driver"))
				uq_write_line("/sys/bus/pci/drivers/nvme/bind",
					      known[i].pci);
}

/* Make one attempt. Return false if there is nothing to do. */
static bool bring_back(time_t end)
{
	bool astray[ARRAY_SIZE(known)], any = false, gone = false;
	unsigned int i;
	char now[32];

	for (i = 0; i < nr_known; i++) {
		astray[i] = is_astray(&known[i]);
		any |= astray[i];
		gone |= astray[i] && !pci_has(known[i].pci, "");
	}
	if (!any)
		return false;
	if (gone)
		uq_write_line("/sys/bus/pci/rescan", "1");
	for (i = 0; i < nr_known; i++)
		if (astray[i] && pci_has(known[i].pci, "driver"))
			uq_pci_take(known[i].pci, false);
	bind_in_order(astray);
	for (i = 0; i < nr_known; i++) {
		memcpy(now, known[i].block, sizeof(now));
		while (astray[i] && !find_same(now, sizeof(now), &known[i]) &&
		       uq_seconds() < end)
			uq_rest();
	}
	return true;
}

bool uq_devices_back(void)
{
	time_t end = uq_seconds() + UQ_NEVER;
	unsigned int tries = 0;

	/* if a file of an old node is still open, its number is not free */
	while (bring_back(end) && uq_seconds() < end)
		if (++tries == 10)
			break;
	return tries;
}

unsigned long uq_pages_pinned(void)
{
	unsigned long pages = 0;
	char line[128];
	FILE *f;

	/* this write adds up the counters of all CPUs */
	uq_write_line("/proc/sys/vm/stat_refresh", "1");
	f = fopen("/proc/vmstat", "r");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "nr_foll_pin_acquired %lu", &pages) == 1)
			break;
	if (f)
		fclose(f);
	return pages;
}
