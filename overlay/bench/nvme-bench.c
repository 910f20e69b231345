// SPDX-License-Identifier: GPL-2.0
/*
 * Instructions per NVMe command, for several ways to the same device:
 *
 *	nvme-bench -v block|passthru|passthru-trimmed|uq|uq-memory|uq-rw|nop
 *		[-p] [-f] [-a] [-b batch]
 *		[-d depth] [-s bytes] [-o read|write] [-r runs] [-n rounds] [-w spin]
 *		[-x name=value] [-P] [-c cpus] [node]
 *
 * With -a, memory is in single pages that lie apart, so data in several pages is in
 * as many pieces.
 *
 * Runs in a guest with a clock that counts instructions (QEMU, -icount
 * shift=0). One pass submits until @depth are in flight, @batch at a time, spins in user
 * space for long enough that the emulated device is done, and reaps all. Only
 * the system calls count, and the time of the spin beyond its calibrated length,
 * which is interrupts. Waiting is never counted: how long the device takes is
 * the host's affair; a polled queue has no interrupts, so nothing in the spin is
 * the commands'. Nor do timer ticks count, nor more interrupts than the
 * fewest that the commands can make: how many of them end in one is a matter of
 * the emulator's threads. A round goes once around the ring's completions, as
 * they do not cost the same everywhere in it. A command's figure is the median
 * over the rounds.
 *
 * Prints a line for each run, and a line with the cost of all rounds of a run
 * without the wait, and the sum of the parts, to show that nothing is hidden.
 *
 * Before the first and after the last command that counts comes an admin command
 * that no other program sends. A log of doorbells from outside of the guest shows
 * by it where the cell begins and where it ends.
 *
 * With uq-memory, data is in memory of the open file, at the offsets that the
 * buffers of the others have. With uq-rw, the node of a user queue is read and
 * written as a block device is, by io_uring's READ_FIXED and the like.
 *
 * With -P the counted windows are marked for the profiling plugin (insnprof.c)
 * instead. The profile of a round is the sum of its windows.
 *
 * With -c the same windows are marked for the plugin that follows cache lines: on
 * each of so many processors a task with a ring of its own, all on the same node,
 * takes its turn, a pass (turns.h); nop runs the known turns. Rounds count after
 * the tasks went once around a queue.
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <limits.h>

#include "nvme-common.h"
#include "turns.h"

/* In command dword 11 of a Get Features, which ignores it: "mark". */
#define MARK		0x6d61726b
/* Within a timer's tick: PASSES of four instructions each in four million. */
#define MAX_IRQ_SPIN	400000ul
/* On a host too busy for quiet rounds, so many times the rounds are tried. */
#define PATIENCE	100
/* So many rounds in a row that have waited for the device are no accident. */
#define LATE		8
#define BUF_STRIDE	(128 * 1024)
/* More than a queue has, so that each of its entries and tags was used. */
#define QUEUE_ENTRIES	1100
/* Once around a ring for completions, and a little more. */
#define RING_ROUNDS	4
/* io_uring's completion ring is twice as long as that for submissions. */
#define PASSES		2

#define min(a, b)	((a) < (b) ? (a) : (b))

struct opts {
	const char	*path;
	const char	*variant;
	const char	*op;
	const char	*extra;
	unsigned int	batch;
	unsigned int	depth;
	unsigned int	bs;
	unsigned int	runs;
	unsigned int	rounds;
	unsigned long	spin;
	unsigned int	cpus;
	bool		poll;
	bool		fixed;
	bool		pieces;
	bool		profile;
	bool		block;
	bool		nop;
	bool		memory;
};

struct run {
	struct opts		o;
	struct io_uring		ring;
	int			fd;
	unsigned int		nsid;
	unsigned char		*buf;
	uint64_t		seed;
};

static void prep_passthru(struct run *r, struct io_uring_sqe *sqe,
			  unsigned char *buf)
{
	uint64_t slba = next_block(&r->seed, r->o.bs) * (r->o.bs / 512);

	prep_command(sqe, strcmp(r->o.op, "write") ? 2 : 1, r->nsid, buf, slba,
		     r->o.bs, r->o.fixed && !r->o.memory);
	if (r->o.memory)
		name_offset(sqe, buf - r->buf);
}

static void prep_block(struct run *r, struct io_uring_sqe *sqe,
		       unsigned char *buf)
{
	uint64_t off = next_block(&r->seed, r->o.bs) * r->o.bs;
	bool write = !strcmp(r->o.op, "write");

	if (r->o.fixed && write)
		io_uring_prep_write_fixed(sqe, 0, buf, r->o.bs, off, 0);
	else if (r->o.fixed)
		io_uring_prep_read_fixed(sqe, 0, buf, r->o.bs, off, 0);
	else if (write)
		io_uring_prep_write(sqe, 0, buf, r->o.bs, off);
	else
		io_uring_prep_read(sqe, 0, buf, r->o.bs, off);
}

static void prep_batch(struct run *r, unsigned int first)
{
	unsigned int i;

	for (i = first; i < first + r->o.batch; i++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&r->ring);
		unsigned char *buf = r->buf + (size_t)i * BUF_STRIDE;

		if (r->o.nop)
			io_uring_prep_nop(sqe);
		else if (r->o.block)
			prep_block(r, sqe, buf);
		else
			prep_passthru(r, sqe, buf);
		if (!r->o.nop) {
			sqe->fd = 0;
			sqe->flags = IOSQE_FIXED_FILE;
		}
		sqe->user_data = i;
	}
}

static void check_all(struct run *r)
{
	struct io_uring_cqe *cqe;
	unsigned int head, n = 0;
	int want = r->o.block ? (int)r->o.bs : 0;

	io_uring_for_each_cqe(&r->ring, head, cqe) {
		if (cqe->res != want) {
			printf("error %s: result %d\n",
			       r->o.path ? r->o.path : "nop", cqe->res);
			exit(1);
		}
		n++;
	}
	if (n != r->o.depth) {
		printf("error %u of %u completions\n", n, r->o.depth);
		exit(1);
	}
	io_uring_cq_advance(&r->ring, n);
}

static void enter(struct run *r, unsigned int submit, unsigned int wait)
{
	int ret;

	do {
		ret = io_uring_enter(r->ring.ring_fd, submit, wait,
				     wait ? IORING_ENTER_GETEVENTS : 0, NULL);
	} while (ret < 0 && errno == EINTR);
	if (ret < 0)
		die("io_uring_enter");
}

/*
 * A ring that polls stops when another task is to run, so it may have to be asked
 * again. That round took longer than the least.
 */
static void reap(struct run *r)
{
	do
		enter(r, 0, r->o.depth);
	while (io_uring_cq_ready(&r->ring) < r->o.depth);
}

/*
 * The profile contains the counted part of a cell. With interrupts that is all that the
 * kernel does in a pass, so a pass is one window: the plugin takes its time at
 * the end of a window, which is when an interrupt would come between two. Of a
 * polled pass it is the system calls alone.
 */
static inline __attribute__((always_inline)) void window_open(struct run *r,
							      bool poll)
{
	if (r->o.profile && r->o.poll == poll)
		profile_start();
}

static inline __attribute__((always_inline)) void window_close(struct run *r,
							       bool poll)
{
	if (r->o.profile && r->o.poll == poll)
		profile_stop();
}

static void setup(struct run *r)
{
	unsigned int flags = IORING_SETUP_SINGLE_ISSUER |
		IORING_SETUP_DEFER_TASKRUN;

	if (r->o.poll && !r->o.nop)
		flags |= IORING_SETUP_IOPOLL;
	if (!r->o.block && !r->o.nop)
		flags |= IORING_SETUP_SQE128 | IORING_SETUP_CQE32;
	check(io_uring_queue_init(r->o.depth, &r->ring, flags),
	      "io_uring_setup");
	if (r->o.nop)
		return;

	r->fd = open_device(r->o.path,
			    (strcmp(r->o.op, "write") ? O_RDONLY : O_RDWR) |
			    (r->o.block ? O_DIRECT : 0));
	if (!r->o.block)
		r->nsid = nsid_of(r->fd);
	check(io_uring_register_files(&r->ring, &r->fd, 1), "register files");
	if (r->o.memory)
		r->buf = get_memory(r->fd, (size_t)r->o.depth * BUF_STRIDE);
	else
		r->buf = get_buffers(&r->ring, (size_t)r->o.depth * BUF_STRIDE,
				     r->o.fixed, r->o.pieces);
}

/* The shortest of many: a tick makes one longer, nothing makes one shorter. */
static uint64_t calibrate(unsigned long n)
{
	uint64_t least = UINT64_MAX;
	unsigned int i;

	for (i = 0; i < 32; i++) {
		uint64_t t = insns();

		spin(n);
		t = insns() - t;
		if (t < least)
			least = t;
	}
	return least;
}

/* The cost of a round in instructions; @whole is without the wait. */
struct round {
	uint64_t		submit, irq, reap, user, whole;
	unsigned long long	ticks;	/* in the part that does not count */
};

/* The minimum of the parts that every round contains. */
struct least {
	uint64_t		reap;
	unsigned long long	irqs;
	/* the rounds in a row that have waited, or were too quick */
	unsigned int		late, early;
	/* a run has found too few rounds that are good: the next would not either */
	bool			spent;
};

/*
 * Wait until the device is done; return how long. Time beyond the calibrated one
 * is interrupts. A polled queue has none, so it does not count, and there is time
 * to see whether a tick is in it.
 */
static uint64_t wait_for_device(struct run *r, struct round *out,
				uint64_t base)
{
	struct irqs before, after;
	uint64_t start = insns(), t;

	if (r->o.nop)
		return 0;
	if (r->o.poll && !r->o.cpus) {
		before = read_irqs();
		spin(r->o.spin);
		after = read_irqs();
		out->ticks += after.ticks - before.ticks;
		return insns() - start;
	}
	spin(r->o.spin);
	t = insns() - start;
	if (t < base)
		return t;
	out->irq += t - base;
	return base;
}

/* Returns how long it waited. */
static uint64_t one_pass(struct run *r, struct round *out,
			 uint64_t base, uint64_t tick)
{
	uint64_t t0, t1, waited;
	unsigned int at;

	window_open(r, false);
	for (at = 0; at < r->o.depth; at += r->o.batch) {
		prep_batch(r, at);
		publish(&r->ring);
		window_open(r, true);
		t0 = insns();
		enter(r, r->o.batch, 0);
		out->submit += insns() - t0 - tick;
		window_close(r, true);
	}
	waited = wait_for_device(r, out, base);
	window_open(r, true);
	t0 = insns();
	reap(r);
	t1 = insns();
	window_close(r, r->o.poll);
	out->reap += t1 - t0 - tick;
	check_all(r);
	return waited;
}

static void one_round(struct run *r, struct round *out,
		      uint64_t base, uint64_t tick)
{
	uint64_t start = insns(), waited = 0;
	unsigned int pass;

	memset(out, 0, sizeof(*out));
	for (pass = 0; pass < PASSES; pass++)
		waited += one_pass(r, out, base, tick);
	out->whole = insns() - start - waited;
	out->user = out->whole - out->submit - out->irq - out->reap;
}

/*
 * Did the reaping wait for the device? Then it took more than the least that was
 * ever seen, which is when it finds all done.
 */
static bool waited(const struct round *round, struct least *least)
{
	bool late;

	/*
	 * Of kiocbs that a worker of the kernel has reaped meanwhile there is less
	 * to do. By one such round all others would be late.
	 */
	if (round->reap < least->reap - least->reap / 20 &&
	    ++least->early < LATE)
		return true;
	least->early = 0;
	if (round->reap < least->reap)
		least->reap = round->reap;
	late = round->reap > least->reap + least->reap / 50 + 300;
	least->late = late ? least->late + 1 : 0;
	return late;
}

/*
 * One round; false if it has to be repeated, because there was something in it
 * that does not belong to the commands. If @patient is false, a tick or an
 * interrupt too many is put up with, which the spread of the runs will show.
 */
static bool good_round(struct run *r, struct round *round,
		       uint64_t base, uint64_t tick,
		       struct least *least, bool patient)
{
	struct irqs before, after;

	if (r->o.nop) {
		one_round(r, round, base, tick);
		return true;
	}
	before = read_irqs();
	one_round(r, round, base, tick);
	after = read_irqs();
	after.nvme -= before.nvme;
	if (after.nvme < least->irqs)
		least->irqs = after.nvme;
	if (waited(round, least))
		return false;
	return !patient || (after.nvme == least->irqs &&
			    after.ticks - before.ticks == round->ticks);
}

/* The least that reaping takes after a spin of this length. */
static uint64_t least_reap(struct run *r, uint64_t tick)
{
	uint64_t least = UINT64_MAX;
	struct round round;
	unsigned int i;

	for (i = 0; i < 6; i++) {
		one_round(r, &round, 0, tick);
		if (round.reap < least)
			least = round.reap;
	}
	return least;
}

static unsigned long most_spin(const struct run *r)
{
	return r->o.poll ? MAX_SPIN : MAX_IRQ_SPIN;
}

/* Spin for longer; false if that is as long as it may be. */
static bool spin_longer(struct run *r, uint64_t *base)
{
	if (r->o.spin >= most_spin(r))
		return false;
	r->o.spin = min(r->o.spin + r->o.spin / 2, most_spin(r));
	*base = calibrate(r->o.spin);
	return true;
}

/*
 * Spins longer until that makes no difference, so that the device was done even
 * before; then until no round has waited eight times in a row.
 */
static uint64_t settle(struct run *r, uint64_t tick, struct least *least)
{
	uint64_t base, now = least_reap(r, tick);
	struct round round;
	unsigned int good = 0;

	least->irqs = ULLONG_MAX;
	least->late = 0;
	least->early = 0;
	least->spent = false;
	do {
		least->reap = now;
		r->o.spin *= 2;
		now = least_reap(r, tick);
	} while (!r->o.nop && now < least->reap - least->reap / 20 &&
		 r->o.spin < most_spin(r));
	if (now < least->reap)
		least->reap = now;

	base = calibrate(r->o.spin);
	while (good < 8) {
		one_round(r, &round, base, tick);
		if (r->o.nop || !waited(&round, least)) {
			good++;
			continue;
		}
		if (!spin_longer(r, &base))
			break;
		good = 0;
	}
	return base;
}

/* Get Features, Number of Queues. */
static void mark(struct run *r)
{
	struct nvme_passthru_cmd cmd = {
		.opcode	= 0x0a,
		.cdw10	= 0x07,
		.cdw11	= MARK,
	};

	if (!r->o.nop && ioctl(r->fd, NVME_IOCTL_ADMIN_CMD, &cmd) < 0)
		die("Get Features");
}

static void print_cell(struct run *r)
{
	if (r->o.nop)
		printf("io_uring-nop nop batch=%u", r->o.batch);
	else
		printf("nvme %s mode=%s batch=%u depth=%u bs=%u fixed=%s op=%s",
		       r->o.variant, r->o.poll ? "poll" : "irq", r->o.batch,
		       r->o.depth, r->o.bs, r->o.fixed ? "true" : "false",
		       r->o.op);
	if (r->o.extra)
		printf(" %s", r->o.extra);
	if (r->o.pieces)
		printf(" pieces=true");
}

static void one_run(struct run *r, unsigned int run, uint64_t *base,
		    uint64_t tick, struct least *least)
{
	unsigned int n = r->o.rounds, sent = 0, i;
	struct round *round = zeroed(n, sizeof(*round));
	double *sum = zeroed(n, sizeof(*sum));
	uint64_t whole = 0, parts = 0, user = UINT64_MAX;
	struct irqs before, after;

	before = read_irqs();
	for (i = 0; i < n; sent++) {
		least->spent |= sent >= PATIENCE * n;
		i += good_round(r, &round[i], *base, tick, least,
				!least->spent);
		/* the host has become busier since settle() */
		if (least->late && least->late % LATE == 0)
			spin_longer(r, base);
		if (sent > 2 * PATIENCE * n) {
			printf("error the host is too busy: the device is late in all rounds: reaping took %llu, once %llu, after %lu spins\n",
			       (unsigned long long)round[i].reap,
			       (unsigned long long)least->reap, r->o.spin);
			exit(1);
		}
	}
	after = read_irqs();

	for (i = 0; i < n; i++) {
		sum[i] = (double)(round[i].submit + round[i].irq +
				  round[i].reap) / (r->o.depth * PASSES);
		parts += round[i].submit + round[i].irq + round[i].reap;
		whole += round[i].whole;
		if (round[i].user < user)
			user = round[i].user;
	}
	printf("cell ");
	print_cell(r);
	printf(" run=%u insn=%.2f\n", run, median(sum, n));
	printf("about ");
	print_cell(r);
	/* the program's own part is the same in each round */
	printf(" run=%u irqs=%llu ops=%u whole=%llu parts=%llu\n", run,
	       after.nvme - before.nvme, sent * PASSES * r->o.depth, (unsigned long long)whole,
	       (unsigned long long)(parts + n * user));
	fflush(stdout);
	free(round);
	free(sum);
}

/*
 * The rounds that would count in a cell are those with a plus in the last line,
 * which is in their order: the plugin has written all of them.
 */
static void profile(struct run *r)
{
	/* few rounds, as a plugin that writes makes each slow: a long timeout */
	unsigned int most = 4 * PATIENCE * r->o.rounds, good = 0, sent = 0;
	unsigned int windows = r->o.poll ? r->o.depth / r->o.batch + 1 : 1;
	uint64_t tick = counter_floor(), base;
	char *kept = zeroed(most + 1, 1);
	struct least least;
	struct round round;

	r->o.profile = false;
	base = settle(r, tick, &least);
	r->o.profile = true;
	while (good < r->o.rounds && sent < most) {
		bool counts = good_round(r, &round, base, tick, &least, true);

		kept[sent++] = counts ? '+' : '-';
		good += counts;
	}
	if (good < r->o.rounds) {
		printf("error the host is too busy: no rounds without others' work\n");
		exit(1);
	}
	printf("profiled %s_%s %u %u %u %u %s\n", r->o.variant,
	       r->o.poll ? "poll" : "irq", r->o.depth, PASSES * r->o.depth,
	       sent, PASSES * windows, kept);
	free(kept);
}

static void measure(struct run *r)
{
	uint64_t tick = counter_floor(), base;
	struct least least;
	unsigned int i;

	need_exact_counter();
	base = settle(r, tick, &least);
	mark(r);
	for (i = 0; i < r->o.runs; i++)
		one_run(r, i, &base, tick, &least);
	mark(r);
}

/* Memory that the program shares with the kernel for requests. */
static void show_ring(struct run *r)
{
	turns_show(r->ring.sq.ring_ptr, r->ring.sq.ring_sz);
	turns_show(r->ring.sq.sqes, (size_t)r->ring.sq.ring_entries *
		   (r->ring.flags & IORING_SETUP_SQE128 ? 128 : 64));
	turns_show(r->ring.cq.ring_ptr, r->ring.cq.ring_sz);
}

static void turn_of_a_pass(void *arg, unsigned int cpu, int round)
{
	struct run *r = arg;
	struct round out = { 0 };

	(void)cpu;
	if (round >= 0) {
		one_pass(r, &out, 0, 0);
		return;
	}
	setup(r);
	show_ring(r);
}

/* Each task sets up its own ring. */
static void lines(struct run *r)
{
	unsigned int a_lap = r->o.cpus * r->o.depth;
	struct turns t = {
		.cpus = r->o.cpus,
		.warm = (QUEUE_ENTRIES + a_lap - 1) / a_lap,
		.rounds = r->o.rounds,
	};

	r->o.profile = true;
	turns_new();
	for (unsigned int run = 0; run < r->o.runs; run++) {
		t.detail = !run;
		take_turns(&t, turn_of_a_pass, r);
		printf("turns ");
		print_cell(r);
		turns_print(&t, run, r->o.depth);
		/* the queue is still as it was, only the rings are new */
		t.warm = RING_ROUNDS;
	}
}

static void usage(void)
{
	printf("error usage: nvme-bench -v block|passthru|passthru-trimmed|uq|uq-memory|uq-rw|nop [-p] [-f] [-a] [-b batch] [-d depth] [-s bytes] [-o read|write] [-r runs] [-n rounds] [-w spin] [-x name=value] [-P] [-c cpus] [node]\n");
	exit(2);
}

static void parse(struct opts *o, int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "v:b:d:s:r:n:w:o:x:c:pfaP")) != -1) {
		switch (c) {
		case 'v': o->variant = optarg; break;
		case 'b': o->batch = atoi(optarg); break;
		case 'd': o->depth = atoi(optarg); break;
		case 's': o->bs = atoi(optarg); break;
		case 'r': o->runs = atoi(optarg); break;
		case 'n': o->rounds = atoi(optarg); break;
		case 'w': o->spin = atol(optarg); break;
		case 'o': o->op = optarg; break;
		case 'x': o->extra = optarg; break;
		case 'c': o->cpus = atoi(optarg); break;
		case 'p': o->poll = true; break;
		case 'f': o->fixed = true; break;
		case 'a': o->pieces = true; break;
		case 'P': o->profile = true; break;
		default: usage();
		}
	}
	if (!o->depth)
		o->depth = o->batch;
	if (!o->variant || !o->batch || o->depth > MAX_DEPTH ||
	    o->depth % o->batch || !o->runs || !o->rounds || o->bs < 512 ||
	    o->bs > BUF_STRIDE || o->cpus > TURN_CPUS)
		usage();
	o->block = !strcmp(o->variant, "block") || !strcmp(o->variant, "uq-rw");
	o->nop = !strcmp(o->variant, "nop");
	o->memory = !strcmp(o->variant, "uq-memory");
	o->path = o->nop ? NULL : argv[optind];
	if (!o->nop && !o->path)
		usage();
}

int main(int argc, char **argv)
{
	static struct run r = {
		.o = { .batch = 32, .bs = 512, .runs = 3, .rounds = 20,
		       .spin = 400000, .op = "read" },
		.seed = 1,
	};

	parse(&r.o, argc, argv);
	if (r.o.cpus) {
		if (r.o.nop)
			check_plugin(r.o.cpus);
		else
			lines(&r);
		return 0;
	}
	setup(&r);
	if (r.o.profile)
		profile(&r);
	else
		measure(&r);
	return 0;
}
