// SPDX-License-Identifier: GPL-2.0
/*
 * Measure the cost of a read with a loop of pread(), to repeat the figures of
 * commit messages. The program only reads. It is not a test.
 *
 * Instructions and cycles are those of the kernel, counted by the CPU. The
 * program prints them only if the CPU has counters that the user may open.
 * Nanoseconds come from CLOCK_MONOTONIC. If the clock counts instructions, as
 * in a QEMU guest with -icount, nanoseconds are instructions of the kernel and
 * of the program.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAX_SIZE	(16UL << 20)
#define PLACES		4096

static const char usage[] =
	"usage: dax_bench [OPTION]... FILE\n"
	"Read a file again and again, and print what a read costs.\n"
	"\n"
	"  -s, --size=BYTES     bytes per read, from 1 to 16777216; default 8\n"
	"  -n, --reads=N        reads that are measured; default 1000000\n"
	"  -r, --random         at places in random order; default: at the start\n"
	"  -h, --help           print this\n"
	"\n"
	"Prints one line: the size, the reads, and per read: nanoseconds, the\n"
	"kernel's instructions and cycles, or - where they cannot be counted.\n";

struct bench {
	unsigned long size;
	unsigned long reads;
	bool random;
	int fd;
	char *buf;
	off_t at[PLACES];
};

enum { INSTRUCTIONS, CYCLES, NR_COUNTERS };

static int counters[NR_COUNTERS];

static void die(const char *what)
{
	fprintf(stderr, "dax_bench: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void refuse(const char *why)
{
	fprintf(stderr, "dax_bench: %s; see --help\n", why);
	exit(2);
}

/* -- counters */

static int open_counter(uint64_t config)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
		.config = config,
		.disabled = 1,
		.exclude_user = 1,
		.exclude_hv = 1,
	};

	return syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

static void switch_counters(unsigned long request)
{
	int i;

	for (i = 0; i < NR_COUNTERS; i++)
		if (counters[i] >= 0)
			ioctl(counters[i], request, 0);
}

static void print_counter(const char *name, int counter, unsigned long n)
{
	uint64_t val;

	if (counter >= 0 && read(counter, &val, sizeof(val)) == sizeof(val))
		printf(" %s=%.1f", name, (double)val / n);
	else
		printf(" %s=-", name);
}

static uint64_t nanoseconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

/* -- reads */

static void read_n(const struct bench *b, unsigned long n)
{
	unsigned long i;

	for (i = 0; i < n; i++) {
		ssize_t ret = pread(b->fd, b->buf, b->size,
				    b->at[i % PLACES]);

		if (ret == (ssize_t)b->size)
			continue;
		if (ret >= 0)
			errno = ENODATA;
		die("pread");
	}
}

static void measure(const struct bench *b)
{
	uint64_t begin, end;

	/* Warm up caches, and fault in the buffer. */
	read_n(b, b->reads < PLACES ? b->reads : PLACES);
	switch_counters(PERF_EVENT_IOC_ENABLE);
	begin = nanoseconds();
	read_n(b, b->reads);
	end = nanoseconds();
	switch_counters(PERF_EVENT_IOC_DISABLE);

	printf("size=%lu reads=%lu ns=%.1f", b->size, b->reads,
	       (double)(end - begin) / b->reads);
	print_counter("instructions", counters[INSTRUCTIONS], b->reads);
	print_counter("cycles", counters[CYCLES], b->reads);
	printf("\n");
}

/* -- setup */

static void open_file(struct bench *b, const char *path)
{
	unsigned long places;
	struct stat st;
	unsigned int i;

	b->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (b->fd < 0 || fstat(b->fd, &st))
		die(path);
	if (!S_ISREG(st.st_mode))
		refuse("FILE is no regular file");
	if ((unsigned long)st.st_size < b->size)
		refuse("FILE is shorter than one read");
	/* Multiples of the size. The fixed seed repeats the sequence. */
	places = b->random ? st.st_size / b->size : 1;
	srandom(1);
	for (i = 0; i < PLACES; i++)
		b->at[i] = random() % places * b->size;
}

static unsigned long parse_number(const char *arg, unsigned long max)
{
	unsigned long val;
	char *end;

	errno = 0;
	val = strtoul(arg, &end, 10);
	if (errno || *end || end == arg || *arg == '-' || !val || val > max)
		refuse("a number is out of range");
	return val;
}

static void parse(struct bench *b, int argc, char **argv)
{
	static const struct option options[] = {
		{ "size", required_argument, NULL, 's' },
		{ "reads", required_argument, NULL, 'n' },
		{ "random", no_argument, NULL, 'r' },
		{ "help", no_argument, NULL, 'h' },
		{ }
	};
	int opt;

	while ((opt = getopt_long(argc, argv, "s:n:rh", options, NULL)) >= 0) {
		switch (opt) {
		case 's':
			b->size = parse_number(optarg, MAX_SIZE);
			break;
		case 'n':
			b->reads = parse_number(optarg, 1UL << 40);
			break;
		case 'r':
			b->random = true;
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			exit(2);
		}
	}
	if (optind != argc - 1)
		refuse("one FILE has to be named");
}

int main(int argc, char **argv)
{
	struct bench b = { .size = 8, .reads = 1000000 };

	parse(&b, argc, argv);
	open_file(&b, argv[optind]);
	b.buf = aligned_alloc(4096, (b.size + 4095) / 4096 * 4096);
	if (!b.buf)
		die("memory");
	counters[INSTRUCTIONS] = open_counter(PERF_COUNT_HW_INSTRUCTIONS);
	counters[CYCLES] = open_counter(PERF_COUNT_HW_CPU_CYCLES);
	measure(&b);
	return 0;
}
