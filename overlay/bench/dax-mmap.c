// SPDX-License-Identifier: GPL-2.0
/*
 * Count instructions per page that is read through a mapping.
 *
 *	dax-mmap NAME DIRECTORY all|few|lines|CELL RUNS
 *
 * NAME is the name of the measurement in the output. With
 * CELL, only the cells that begin so: "dax-fault-around kind=data" and so on.
 * DIRECTORY is on ext4 or XFS on a DAX device, mounted with -o dax=inode, so
 * that files with and without DAX can be made in it. The guest runs under
 * icount (see icount.h) with one CPU.
 *
 * variant	pagecache: no DAX; dax: fault_around_bytes is a page, which is
 *		fault-around switched off; dax-fault-around
 * kind		hole or data (written)
 * access	sequential: every page of the file in order; random: one page
 *		in 32, in random order, none twice
 * mapping	pte: the address is out of step with the file offset, so that
 *		no huge page fits; pmd: aligned, so that one does
 * touch	first: the file has not been mapped before (but with pagecache it
 *		is cached); remap: all of it was read through a mapping before,
 *		which is gone; cold: as first, with nothing cached, and with
 *		MADV_RANDOM, so that each page is a fault
 * window	fault_around_bytes; dax is measured again beside each
 *
 * An operation is a page read.
 *
 * With "lines", processes that map the same file, each on a processor of its own,
 * take turns under the plugin that follows cache lines, see turns.h: pages of
 * data in order, which were read through another mapping before.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "icount.h"
#include "turns.h"

#define PAGE		4096UL
#define HUGE		(2UL << 20)
#define PAGES		4096UL
#define SIZE		(PAGES * PAGE)
#define SPARSE		32
#define MAX_RUNS	99
#define ROUNDS		3
#define WINDOW		65536UL	/* what fault_around_bytes is by default */
#define TURN_PAGES	64	/* in a turn: several windows */
#define TURN_ROUNDS	12
#define TURN_WARM	3
#define WINDOW_KNOB	"/sys/kernel/debug/fault_around_bytes"

enum variant { PAGECACHE, DAX, AROUND };
static const char *const variant_name[] = {
	"pagecache", "dax", "dax-fault-around"
};

enum touch { FIRST, REMAP, COLD };
static const char *const touch_name[] = { "first", "remap", "cold" };

struct cell {
	enum variant variant;
	bool data;
	bool random;
	bool pmd;
	enum touch touch;
	unsigned long window;
};

struct options {
	const char *name;
	const char *dir;
	const char *cell;
	bool few;
	int runs;
};

static char path[4096];
static unsigned int order[PAGES];

static void __attribute__((noreturn, format(printf, 1, 2)))
die(const char *fmt, ...)
{
	va_list args;

	printf("error ");
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf("\n");
	exit(1);
}

static void write_text(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		die("cannot write to %s: %s", file, strerror(errno));
	close(fd);
}

static void set_window(unsigned long bytes)
{
	char text[32];

	snprintf(text, sizeof(text), "%lu", bytes);
	write_text(WINDOW_KNOB, text);
}

static void check_dax(int fd, bool want)
{
	struct statx stx;

	if (statx(fd, "", AT_EMPTY_PATH, 0, &stx))
		die("statx of %s: %s", path, strerror(errno));
	if (!!(stx.stx_attributes & STATX_ATTR_DAX) != want)
		die("%s is%s a DAX file", path, want ? " not" : "");
}

/* Files made in a directory inherit its flag, and act on it from the start. */
static void make_directory(const char *parent, const char *name, bool dax)
{
	struct fsxattr attr;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", parent, name);
	if (mkdir(path, 0700) && errno != EEXIST)
		die("cannot make %s: %s", path, strerror(errno));
	fd = open(path, O_RDONLY | O_DIRECTORY);
	if (fd < 0 || ioctl(fd, FS_IOC_FSGETXATTR, &attr))
		die("FS_IOC_FSGETXATTR of %s: %s", path, strerror(errno));
	attr.fsx_xflags &= ~FS_XFLAG_DAX;
	if (dax)
		attr.fsx_xflags |= FS_XFLAG_DAX;
	if (ioctl(fd, FS_IOC_FSSETXATTR, &attr))
		die("FS_IOC_FSSETXATTR of %s: %s", path, strerror(errno));
	close(fd);
}

/*
 * A file that has not been mapped before. The entries that a DAX mapping leaves
 * behind keep the inode in memory, so a used one cannot be made new again.
 */
static int new_file(const char *parent, const struct cell *c)
{
	static char block[1 << 16];
	int fd;

	snprintf(path, sizeof(path), "%s/%s/file", parent,
		 c->variant == PAGECACHE ? "cached" : "dax");
	unlink(path);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd < 0 || ftruncate(fd, SIZE))
		die("cannot make %s: %s", path, strerror(errno));
	check_dax(fd, c->variant != PAGECACHE);
	/* Allocate at once, so that huge pages fit. */
	if (c->data && posix_fallocate(fd, 0, SIZE))
		die("no space for %s", path);
	memset(block, 'd', sizeof(block));
	for (off_t at = 0; c->data && at < (off_t)SIZE; at += sizeof(block))
		if (pwrite(fd, block, sizeof(block), at) != sizeof(block))
			die("cannot fill %s: %s", path, strerror(errno));
	/* So that it is not written back while it is read. */
	if (syncfs(fd))
		die("cannot sync %s: %s", path, strerror(errno));
	return fd;
}

/* A mapping of the whole file, in or out of step with huge pages. */
static unsigned char *map(int fd, bool pmd, char **area, size_t *area_size)
{
	char *at;
	void *p;

	*area_size = SIZE + 2 * HUGE;
	*area = mmap(NULL, *area_size, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (*area == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	at = (char *)(((uintptr_t)*area + HUGE - 1) & ~(HUGE - 1));
	if (!pmd)
		at += HUGE / 2;
	p = mmap(at, SIZE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0);
	if (p == MAP_FAILED)
		die("mmap of %s: %s", path, strerror(errno));
	return p;
}

static void shuffle(void)
{
	uint64_t x = 88172645463325252ULL;

	for (unsigned int i = 0; i < PAGES; i++)
		order[i] = i;
	for (unsigned int i = PAGES - 1; i; i--) {
		unsigned int j, t;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		j = x % (i + 1);
		t = order[i];
		order[i] = order[j];
		order[j] = t;
	}
}

static __attribute__((noinline)) uint64_t
read_pages(const volatile unsigned char *p, const unsigned int *which,
	   unsigned int n, unsigned char expect)
{
	unsigned int wrong = 0;
	uint64_t t = insns();

	if (which)
		for (unsigned int i = 0; i < n; i++)
			wrong |= p[which[i] * PAGE] ^ expect;
	else
		for (unsigned int i = 0; i < n; i++)
			wrong |= p[i * PAGE] ^ expect;
	t = insns() - t;
	if (wrong)
		die("wrong contents read");
	return t;
}

static double one_round(const char *parent, const struct cell *c)
{
	unsigned int n = c->random ? PAGES / SPARSE : PAGES;
	const unsigned int *which = c->random ? order : NULL;
	unsigned char expect = c->data ? 'd' : 0;
	int fd = new_file(parent, c);
	size_t area_size;
	unsigned char *p;
	uint64_t t;
	char *area;

	if (c->touch == REMAP ||
	    (c->touch == FIRST && c->variant == PAGECACHE)) {
		p = map(fd, c->pmd, &area, &area_size);
		read_pages(p, NULL, PAGES, expect);
		munmap(area, area_size);
	}
	p = map(fd, c->pmd, &area, &area_size);
	if (c->touch == COLD && madvise(p, SIZE, MADV_RANDOM))
		die("madvise: %s", strerror(errno));
	profile_start();
	t = read_pages(p, which, n, expect);
	profile_stop();
	munmap(area, area_size);
	close(fd);
	return (double)t / n;
}

/* The quietest of some rounds: a tick or a kernel thread is no page's cost. */
static double one_run(const char *parent, const struct cell *c)
{
	double least = one_round(parent, c);

	for (int i = 1; i < ROUNDS; i++) {
		double again = one_round(parent, c);

		if (again < least)
			least = again;
	}
	return least;
}

static const char *cell_name(const struct cell *c)
{
	static char name[160];

	snprintf(name, sizeof(name),
		 "%s kind=%s access=%s mapping=%s touch=%s window=%lu",
		 variant_name[c->variant], c->data ? "data" : "hole",
		 c->random ? "random" : "sequential", c->pmd ? "pmd" : "pte",
		 touch_name[c->touch], c->window);
	return name;
}

static void measure(const struct options *o, struct cell c)
{
	const char *name;

	for (int variant = PAGECACHE; variant <= AROUND; variant++) {
		c.variant = variant;
		name = cell_name(&c);
		if ((c.touch == COLD && variant == AROUND) ||
		    (o->cell && strncmp(name, o->cell, strlen(o->cell))))
			continue;
		set_window(variant == DAX ? PAGE : c.window);
		for (int run = 0; run < o->runs; run++) {
			printf("cell %s %s run=%d insn=%.1f\n", o->name, name,
			       run, one_run(o->dir, &c));
			fflush(stdout);
		}
	}
}

static void measure_kind(const struct options *o, bool data)
{
	static const unsigned long others[] = { 16384, 262144, HUGE };
	struct cell c = { .data = data, .window = WINDOW };

	measure(o, c);
	if (o->few)
		return;
	for (int i = 1; i < 8; i++) {
		c.random = i & 1;
		c.pmd = i & 2;
		c.touch = i & 4 ? REMAP : FIRST;
		measure(o, c);
	}
	/* The window matters where fault-around can act. */
	for (unsigned int i = 0; i < sizeof(others) / sizeof(*others); i++)
		measure(o, (struct cell){ .data = data, .window = others[i] });
}

static void measure_all(const struct options *o)
{
	measure_kind(o, false);
	measure_kind(o, true);
	if (!o->few)
		measure(o, (struct cell){ .random = true, .touch = COLD,
					  .window = PAGE });
}

/* -- cache lines ---------------------------------------------------------- */

/* A file, and where the task whose turn it is has mapped it. */
struct mapped {
	int fd;
	unsigned char *p;
};

static void turn_to_read(void *arg, unsigned int cpu, int round)
{
	struct mapped *m = arg;
	size_t area_size;
	char *area;

	(void)cpu;
	if (round < 0) {
		m->p = map(m->fd, false, &area, &area_size);
		return;
	}
	profile_start();
	read_pages(m->p + round * TURN_PAGES * PAGE, NULL, TURN_PAGES, 'd');
	profile_stop();
}

static void read_in_turns(const struct options *o, enum variant variant,
			  unsigned int cpus, int run)
{
	struct cell c = {
		.variant = variant, .data = true, .touch = REMAP,
		.window = WINDOW,
	};
	struct turns t = {
		.cpus = cpus,
		.warm = TURN_WARM,
		.rounds = TURN_ROUNDS,
		.detail = !run,
	};
	struct mapped m = { .fd = new_file(o->dir, &c) };
	size_t area_size;
	char *area;

	read_pages(map(m.fd, false, &area, &area_size), NULL, PAGES, 'd');
	munmap(area, area_size);
	set_window(variant == DAX ? PAGE : WINDOW);
	turns_new();
	take_turns(&t, turn_to_read, &m);
	close(m.fd);
	printf("turns %s %s", o->name, cell_name(&c));
	turns_print(&t, run, TURN_PAGES);
}

static void lines_all(const struct options *o)
{
	for (int run = 0; run < o->runs; run++)
		for (int variant = PAGECACHE; variant <= AROUND; variant++)
			for (unsigned int cpus = 1; cpus <= TURN_CPUS; cpus *= 2)
				read_in_turns(o, variant, cpus, run);
}

int main(int argc, char **argv)
{
	struct options o;
	bool lines;

	if (argc != 5)
		die("usage: dax-mmap NAME DIRECTORY all|few|lines|CELL RUNS");
	o = (struct options){ .name = argv[1], .dir = argv[2],
			      .few = !strcmp(argv[3], "few"),
			      .runs = atoi(argv[4]) };
	lines = !strcmp(argv[3], "lines");
	if (!o.few && !lines && strcmp(argv[3], "all"))
		o.cell = argv[3];
	if (o.runs < 1 || o.runs > MAX_RUNS)
		die("RUNS is 1 to %d", MAX_RUNS);
	if (!lines && !counter_is_exact())
		die("the cycle counter does not count instructions; is this an icount guest?");
	make_directory(o.dir, "dax", true);
	make_directory(o.dir, "cached", false);
	shuffle();
	if (lines) {
		check_plugin(TURN_CPUS);
		lines_all(&o);
	} else {
		measure_all(&o);
	}
	set_window(WINDOW);
	printf("complete\n");
	return 0;
}
