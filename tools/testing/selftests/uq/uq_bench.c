// SPDX-License-Identifier: GPL-2.0
/*
 * Measure the cost of a read through a node of a user queue, through
 * passthrough, or through the block device. A loop submits and reaps commands.
 * It reproduces the figures of commit messages, only reads, and is not a test.
 *
 * Instructions and cycles are those of the kernel in this task, if the CPU has
 * counters and the user may use them. They include interrupts that arrive while
 * the task runs. Nanoseconds are wall time: with one task and enough commands
 * in flight they show the cost on one CPU.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <liburing.h>
#include <linux/nvme_ioctl.h>
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

#define MAX_DEPTH	1024
#define MAX_SIZE	(1024UL * 1024)

static const char usage[] =
	"usage: uq_bench [OPTION]... NODE\n"
	"Read a namespace again and again, and print what a command costs.\n"
	"\n"
	"NODE is /dev/ngXnYqZ, /dev/ngXnY or a block device.\n"
	"\n"
	"  -s, --size=BYTES      bytes per command, multiples of 512 up to 1 MiB;\n"
	"                        default 512\n"
	"  -b, --batch=N         commands per system call; default 32\n"
	"  -d, --depth=N         commands in flight, at least a batch; default\n"
	"                        128\n"
	"  -n, --commands=N      commands that are measured; default 1000000\n"
	"  -r, --range=BYTES     where to read, from the start; default 67108864\n"
	"  -l, --lba=BYTES       a block of the namespace, for nodes; default 512\n"
	"  -p, --poll            poll for completions\n"
	"  -f, --fixed           register the buffers\n"
	"  -h, --help            print this\n"
	"\n"
	"Prints one line: what was asked for, and per command: nanoseconds, the\n"
	"kernel's instructions and cycles, or - where they cannot be counted.\n";

struct bench {
	const char *path;
	unsigned long size;
	unsigned long batch;
	unsigned long depth;
	unsigned long commands;
	unsigned long range;
	unsigned long lba;
	bool poll;
	bool fixed;
	bool block;

	int fd;
	unsigned int nsid;
	struct io_uring ring;
	char *buf;
	uint64_t seed;
	unsigned long in_flight;
};

enum { INSTRUCTIONS, CYCLES, NR_COUNTERS };

static int counters[NR_COUNTERS];

static void die(const char *what)
{
	fprintf(stderr, "uq_bench: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* For functions that return a negative errno. */
static void check(int ret, const char *what)
{
	errno = -ret;
	if (ret < 0)
		die(what);
}

static void refuse(const char *why)
{
	fprintf(stderr, "uq_bench: %s; see --help\n", why);
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

/* -- commands */

static uint64_t next_offset(struct bench *b)
{
	b->seed = b->seed * 6364136223846793005ull + 1442695040888963407ull;
	return (b->seed >> 33) % (b->range / b->size) * b->size;
}

static void prep_read(struct bench *b, struct io_uring_sqe *sqe, char *buf)
{
	if (b->fixed)
		io_uring_prep_read_fixed(sqe, b->fd, buf, b->size,
					 next_offset(b), 0);
	else
		io_uring_prep_read(sqe, b->fd, buf, b->size, next_offset(b));
}

static void prep_cmd(struct bench *b, struct io_uring_sqe *sqe, char *buf)
{
	struct nvme_uring_cmd *cmd = (struct nvme_uring_cmd *)sqe->cmd;
	uint64_t slba = next_offset(b) / b->lba;

	memset(sqe, 0, 2 * sizeof(*sqe));
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = b->fd;
	sqe->cmd_op = NVME_URING_CMD_IO;
	if (b->fixed)
		sqe->uring_cmd_flags = IORING_URING_CMD_FIXED;
	cmd->opcode = 2;		/* read */
	cmd->nsid = b->nsid;
	cmd->addr = (uintptr_t)buf;
	cmd->data_len = b->size;
	cmd->cdw10 = slba;
	cmd->cdw11 = slba >> 32;
	cmd->cdw12 = b->size / b->lba - 1;
}

static void prep_batch(struct bench *b)
{
	unsigned long i;

	for (i = 0; i < b->batch; i++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&b->ring);
		/* the content does not matter: commands may share a buffer */
		char *buf = b->buf + i * b->size;

		if (!sqe)
			refuse("the ring is full");
		if (b->block)
			prep_read(b, sqe, buf);
		else
			prep_cmd(b, sqe, buf);
	}
	b->in_flight += b->batch;
}

/* A read returns its length, a command the device's status. */
static void check_result(const struct bench *b, int res)
{
	check(res, "a command");
	if (res == (b->block ? (int)b->size : 0))
		return;
	fprintf(stderr, b->block ? "uq_bench: a read of %d bytes only\n" :
		"uq_bench: the device answers with status %#x\n", res);
	exit(1);
}

static void reap(struct bench *b)
{
	struct io_uring_cqe *cqe;
	unsigned int head, n = 0;

	io_uring_for_each_cqe(&b->ring, head, cqe) {
		check_result(b, cqe->res);
		n++;
	}
	io_uring_cq_advance(&b->ring, n);
	b->in_flight -= n;
}

static void read_n(struct bench *b, unsigned long n)
{
	unsigned long submitted;

	for (submitted = 0; submitted < n; submitted += b->batch) {
		prep_batch(b);
		check(io_uring_submit_and_wait(&b->ring,
					       b->in_flight + b->batch > b->depth ?
					       b->batch : 0), "io_uring_enter");
		reap(b);
		while (b->in_flight + b->batch > b->depth) {
			check(io_uring_submit_and_wait(&b->ring, b->batch),
			      "io_uring_enter");
			reap(b);
		}
	}
	while (b->in_flight) {
		check(io_uring_submit_and_wait(&b->ring, b->in_flight),
		      "io_uring_enter");
		reap(b);
	}
}

static void measure(struct bench *b)
{
	uint64_t begin, end;

	/* warm up: some memory is allocated on first use */
	read_n(b, 4 * b->depth);
	switch_counters(PERF_EVENT_IOC_ENABLE);
	begin = nanoseconds();
	read_n(b, b->commands);
	end = nanoseconds();
	switch_counters(PERF_EVENT_IOC_DISABLE);

	printf("size=%lu batch=%lu depth=%lu poll=%d fixed=%d commands=%lu ns=%.1f",
	       b->size, b->batch, b->depth, b->poll, b->fixed, b->commands,
	       (double)(end - begin) / b->commands);
	print_counter("instructions", counters[INSTRUCTIONS], b->commands);
	print_counter("cycles", counters[CYCLES], b->commands);
	printf("\n");
}

/* -- setup */

static void open_node(struct bench *b)
{
	struct stat st;
	int nsid;

	b->fd = open(b->path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (b->fd < 0 && errno == EINVAL)	/* character devices */
		b->fd = open(b->path, O_RDONLY | O_CLOEXEC);
	if (b->fd < 0 || fstat(b->fd, &st))
		die(b->path);
	b->block = S_ISBLK(st.st_mode);
	if (b->block)
		return;
	if (!S_ISCHR(st.st_mode))
		refuse("NODE is no device");
	nsid = ioctl(b->fd, NVME_IOCTL_ID);
	if (nsid <= 0)
		refuse("NODE is no namespace of an NVMe device");
	b->nsid = nsid;
}

static void make_ring(struct bench *b)
{
	unsigned int flags = IORING_SETUP_SQE128 | IORING_SETUP_CQE32;
	struct iovec iov = { .iov_len = b->batch * b->size };

	if (b->poll)
		flags |= IORING_SETUP_IOPOLL;
	check(io_uring_queue_init(MAX_DEPTH, &b->ring, flags),
	      "a ring of io_uring");
	if (posix_memalign(&iov.iov_base, 4096, iov.iov_len)) {
		errno = ENOMEM;
		die("memory");
	}
	memset(iov.iov_base, 0, iov.iov_len);
	b->buf = iov.iov_base;
	if (b->fixed)
		check(io_uring_register_buffers(&b->ring, &iov, 1),
		      "registering buffers");
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

static void check_numbers(struct bench *b)
{
	if (b->size % 512 || b->size % b->lba)
		refuse("a size has to be a multiple of 512 and of a block");
	if (b->batch > b->depth)
		refuse("the depth has to be a batch at least");
	if (b->range < b->size)
		refuse("the range is smaller than a command");
	/* round up to whole batches */
	b->commands = (b->commands + b->batch - 1) / b->batch * b->batch;
}

static void parse(struct bench *b, int argc, char **argv)
{
	static const struct option options[] = {
		{ "size", required_argument, NULL, 's' },
		{ "batch", required_argument, NULL, 'b' },
		{ "depth", required_argument, NULL, 'd' },
		{ "commands", required_argument, NULL, 'n' },
		{ "range", required_argument, NULL, 'r' },
		{ "lba", required_argument, NULL, 'l' },
		{ "poll", no_argument, NULL, 'p' },
		{ "fixed", no_argument, NULL, 'f' },
		{ "help", no_argument, NULL, 'h' },
		{ }
	};
	int opt;

	while ((opt = getopt_long(argc, argv, "s:b:d:n:r:l:pfh", options,
				  NULL)) >= 0) {
		switch (opt) {
		case 's':
			b->size = parse_number(optarg, MAX_SIZE);
			break;
		case 'b':
			b->batch = parse_number(optarg, MAX_DEPTH);
			break;
		case 'd':
			b->depth = parse_number(optarg, MAX_DEPTH);
			break;
		case 'n':
			b->commands = parse_number(optarg, 1UL << 40);
			break;
		case 'r':
			b->range = parse_number(optarg, 1UL << 50);
			break;
		case 'l':
			b->lba = parse_number(optarg, 1UL << 16);
			break;
		case 'p':
			b->poll = true;
			break;
		case 'f':
			b->fixed = true;
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			exit(2);
		}
	}
	if (optind != argc - 1)
		refuse("one NODE has to be named");
	b->path = argv[optind];
	check_numbers(b);
}

int main(int argc, char **argv)
{
	struct bench b = {
		.size = 512, .batch = 32, .depth = 128, .commands = 1000000,
		.range = 64UL << 20, .lba = 512,
	};

	parse(&b, argc, argv);
	open_node(&b);
	make_ring(&b);
	counters[INSTRUCTIONS] = open_counter(PERF_COUNT_HW_INSTRUCTIONS);
	counters[CYCLES] = open_counter(PERF_COUNT_HW_CPU_CYCLES);
	measure(&b);
	return 0;
}
