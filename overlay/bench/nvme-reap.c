// SPDX-License-Identifier: GPL-2.0
/*
 * The cost of finding completions of NVMe commands, by two clients of one
 * polled user queue that have other work too and so never wait in the kernel:
 *
 *	nvme-reap -v iopoll|mmap -m insns|entries|profile|tail [-d depth]
 *		[-o others [-l limit]] [-r runs] [-n rounds] [-w spin] node
 *
 * iopoll enters the kernel whenever it wants to know; mmap looks at the mapped
 * completion queue, and enters when something is there. As it knows before it
 * enters, it enters once: to submit the next commands, and to reap. iopoll cannot:
 * it has to ask before it may submit, or more would be in flight.
 *
 * insns runs in a guest with a clock that counts instructions (QEMU, -icount
 * shift=0). A round submits all, looks once before the device can be done, spins in user
 * space until it is, and looks again, which finds all. The submission and the
 * looks count, in the kernel and in the program; the spin does not. A command's
 * figure is the median over the rounds. Beside it goes the figure without the
 * look that came too early.
 *
 * profile marks the same rounds for the profiling plugin (insnprof.c).
 *
 * entries runs in a guest without -icount, with a device that takes time: how
 * often did the client enter the kernel to look, and how often for nothing?
 *
 * tail has another tenant on the queue, with an open file of its own, which always
 * has so many others outstanding, and may have a limit. The figure is the 90th
 * percentile of the client's submission and its look that finds all: the kernel's
 * own work disturbs some rounds.
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <sched.h>
#include <unistd.h>

#include "nvme-common.h"
#include "uq_cq.h"

#define CQ_ENTRIES	4096
/* io_uring walks all that polls at each entry: with more, two entries are less. */
#define MAX_BOTH	16
#define BS		512
#define STRIDE		4096
/* On a host too busy for quiet rounds, so many times the rounds are tried. */
#define PATIENCE	200

struct opts {
	const char	*path;
	const char	*variant;
	const char	*mode;
	unsigned int	depth;
	unsigned int	others;
	unsigned int	limit;	/* of the others, 0 for none */
	unsigned int	runs;
	unsigned int	rounds;
	unsigned long	spin;
	bool		mmap;
	bool		both;	/* submit and reap by one entry */
};

struct run {
	struct opts		o;
	struct io_uring		ring;
	struct uq_cq		cq;
	int			fd;
	unsigned int		nsid;
	unsigned char		*buf;
	uint64_t		seed;
	/* submitted and not yet taken; which half of the buffers comes next */
	unsigned int		flying, half;
	unsigned long long	entries, empty;
};

static void prep(struct run *r, unsigned int i)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&r->ring);

	if (!sqe)
		die("no room in the ring");
	prep_command(sqe, 2, r->nsid, r->buf + (size_t)i * STRIDE,
		     next_block(&r->seed, BS), BS, true);
	sqe->flags = IOSQE_FIXED_FILE;
}

static void enter(struct run *r, unsigned int submit, unsigned int flags)
{
	int ret;

	do {
		ret = io_uring_enter(r->ring.ring_fd, submit, 0, flags, NULL);
	} while (ret < 0 && errno == EINTR);
	if (ret < 0)
		die("io_uring_enter");
	r->flying += submit;
}

static void prep_all(struct run *r)
{
	unsigned int i;

	/* those before may still be the device's */
	for (i = 0; i < r->o.depth; i++)
		prep(r, r->half * r->o.depth + i);
	r->half ^= 1;
	publish(&r->ring);
}

/* Is something there to enter for? iopoll has to ask the kernel. */
static inline bool look(struct run *r)
{
	if (r->o.mmap && uq_cq_look(&r->cq) == UQ_CQ_NONE)
		return false;
	enter(r, 0, IORING_ENTER_GETEVENTS);
	return true;
}

/* Take completions out of the ring; return their number. */
static unsigned int take(struct run *r)
{
	struct io_uring_cqe *cqe;
	unsigned int head, n = 0;

	io_uring_for_each_cqe(&r->ring, head, cqe) {
		if (cqe->res) {
			printf("error %s: result %d\n", r->o.path, cqe->res);
			exit(1);
		}
		n++;
	}
	io_uring_cq_advance(&r->ring, n);
	r->flying -= n;
	return n;
}

static void setup(struct run *r)
{
	struct io_uring_params params = {
		.flags		= IORING_SETUP_SINGLE_ISSUER |
			IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_IOPOLL |
			IORING_SETUP_SQE128 | IORING_SETUP_CQE32 |
			IORING_SETUP_CQSIZE,
		/* where a small ring ends, io_uring does more: every other round */
		.cq_entries	= CQ_ENTRIES,
	};
	size_t len = 2 * (size_t)r->o.depth * STRIDE;

	check(io_uring_queue_init_params(r->o.depth, &r->ring, &params),
	      "io_uring_setup");
	r->fd = open_device(r->o.path, O_RDWR);
	r->nsid = nsid_of(r->fd);
	check(io_uring_register_files(&r->ring, &r->fd, 1), "register files");
	r->buf = get_buffers(&r->ring, len, true, false);
	if (r->o.mmap)
		check(uq_cq_map(&r->cq, r->fd), "mapping the completion queue");
}

/* So that another program can claim the queue. */
static void let_go(struct run *r)
{
	if (r->o.mmap)
		uq_cq_unmap(&r->cq);
	io_uring_unregister_files(&r->ring);
	io_uring_queue_exit(&r->ring);
	close(r->fd);
}

static void print_cell(const struct run *r, const char *what)
{
	printf("%s nvme-reap %s depth=%u bs=%u fixed=true op=read", what,
	       r->o.variant, r->o.depth, BS);
}

/* -- entries */

static void count_entries(struct run *r)
{
	unsigned int i, done;

	for (i = 0; i < r->o.rounds; i++) {
		prep_all(r);
		enter(r, r->o.depth, 0);
		for (done = 0; done < r->o.depth;) {
			unsigned int n;

			if (!look(r))
				continue;
			n = take(r);
			r->entries++;
			r->empty += !n;
			done += n;
		}
	}
	print_cell(r, "entries");
	printf(" entries=%llu empty=%llu ops=%llu\n", r->entries, r->empty,
	       (unsigned long long)r->o.rounds * r->o.depth);
}

/* -- instructions */

/* The cost of a round in instructions; @whole is without the wait. */
struct round {
	uint64_t	submit, early, reap, user, whole;
};

/* How many completions the early look found, and the late one. */
struct found {
	unsigned int	early, late;
};

/*
 * Wait between the looks for long enough. A polled queue has no interrupts, so
 * nothing here is work for the commands. Returns how long it was.
 */
static uint64_t wait_for_device(struct run *r, unsigned long long *ticks)
{
	uint64_t start = insns();
	unsigned long long before = read_irqs().ticks;

	spin(r->o.spin);
	*ticks += read_irqs().ticks - before;
	return insns() - start;
}

/* The look that finds all, and may begin the next round. */
static void reap(struct run *r)
{
	if (!r->o.both)
		look(r);
	else if (uq_cq_look(&r->cq) != UQ_CQ_NONE)
		enter(r, r->o.depth, IORING_ENTER_GETEVENTS);
}

static struct found one_round(struct run *r, struct round *out, uint64_t tick,
			      unsigned long long *ticks)
{
	uint64_t t0, t1, waited, start = insns();
	struct found found;

	memset(out, 0, sizeof(*out));
	if (!r->flying) {
		prep_all(r);
		t0 = insns();
		enter(r, r->o.depth, 0);
		t1 = insns();
		out->submit = t1 - t0 - tick;
	}
	t0 = insns();
	look(r);
	t1 = insns();
	out->early = t1 - t0 - tick;
	found.early = take(r);
	waited = wait_for_device(r, ticks);
	if (r->o.both)
		prep_all(r);
	t0 = insns();
	reap(r);
	t1 = insns();
	out->reap = t1 - t0 - tick;
	found.late = take(r);
	out->whole = insns() - start - waited;
	out->user = out->whole - out->submit - out->early - out->reap;
	return found;
}

/* Ends a round that was not as it should be. */
static void drain(struct run *r)
{
	/* prepared commands that were not submitted go first */
	if (io_uring_sq_ready(&r->ring))
		enter(r, io_uring_sq_ready(&r->ring), 0);
	while (r->flying)
		if (look(r))
			take(r);
}

/* How many rounds had to be repeated, and why. */
struct bad {
	unsigned int	early, late, ticks;
};

/*
 * One round; false if it is to be repeated: the device was too quick for the
 * early look, or for a submission that reaps, or too slow for the late look, or a
 * timer ticked before or after the wait for it.
 */
static bool good_round(struct run *r, struct round *round, uint64_t tick,
		       struct bad *bad)
{
	unsigned long long ticks = read_irqs().ticks, meanwhile = 0;
	struct found found = one_round(r, round, tick, &meanwhile);

	ticks = read_irqs().ticks - ticks - meanwhile;
	if (found.early + found.late < r->o.depth)
		bad->late++;
	else if (found.early || found.late > r->o.depth)
		bad->early++;
	else if (ticks)
		bad->ticks++;
	else if (!r->o.both || !round->submit)
		return true;
	else
		return false;	/* the first, which is one entry more */
	drain(r);
	return false;
}

/* Spins longer until no round has been too short eight times in a row. */
static void settle(struct run *r, uint64_t tick)
{
	unsigned int enough = 0;
	struct round round;

	while (enough < 8) {
		struct bad bad = { 0 };

		good_round(r, &round, tick, &bad);
		enough = bad.late ? 0 : enough + 1;
		if (bad.late && r->o.spin < MAX_SPIN)
			r->o.spin += r->o.spin / 2;
	}
	r->o.spin *= 2;
}

static void print_run(const struct run *r, const char *what, unsigned int run,
		      double *sum)
{
	print_cell(r, what);
	printf(" run=%u insn=%.2f\n", run, median(sum, r->o.rounds));
}

static void one_run(struct run *r, unsigned int run, uint64_t tick)
{
	unsigned int n = r->o.rounds, sent = 0, i = 0;
	struct round *round = zeroed(n, sizeof(*round));
	double *sum = zeroed(n, sizeof(*sum)), *ready = zeroed(n, sizeof(*sum));
	uint64_t whole = 0, parts = 0, user = UINT64_MAX;
	struct bad bad = { 0 };

	while (i < n) {
		i += good_round(r, &round[i], tick, &bad);
		if (++sent > PATIENCE * n) {
			printf("error the host is too busy: of %u rounds %u were good, in %u the device was too quick, in %u too slow, and %u had a tick\n",
			       sent, i, bad.early, bad.late, bad.ticks);
			exit(1);
		}
	}
	for (i = 0; i < n; i++) {
		uint64_t part = round[i].submit + round[i].reap;

		ready[i] = (double)part / r->o.depth;
		part += round[i].early;
		sum[i] = (double)part / r->o.depth;
		parts += part;
		whole += round[i].whole;
		if (round[i].user < user)
			user = round[i].user;
	}
	print_run(r, "cell", run, sum);
	print_run(r, "ready", run, ready);
	/* the program's own part is the same in each round */
	print_cell(r, "about");
	printf(" run=%u rounds=%u sent=%u whole=%llu parts=%llu\n", run, n,
	       sent, (unsigned long long)whole,
	       (unsigned long long)(parts + n * user));
	fflush(stdout);
	free(round);
	free(sum);
	free(ready);
}

static void count_insns(struct run *r)
{
	uint64_t tick = counter_floor();
	unsigned int i;

	need_exact_counter();
	settle(r, tick);
	for (i = 0; i < r->o.runs; i++)
		one_run(r, i, tick);
	drain(r);
}

static void profile(struct run *r)
{
	struct bad bad = { 0 };
	unsigned int i;

	settle(r, counter_floor());
	drain(r);
	/* a round that was marked cannot be repeated */
	r->o.spin *= 16;
	if (r->o.both) {
		prep_all(r);
		enter(r, r->o.depth, 0);
	}
	for (i = 0; i < r->o.rounds; i++) {
		profile_start();
		if (!r->o.both) {
			prep_all(r);
			enter(r, r->o.depth, 0);
		}
		spin(r->o.spin);
		if (r->o.both)
			prep_all(r);
		reap(r);
		profile_stop();
		bad.late += take(r) < r->o.depth;
	}
	drain(r);
	if (bad.late) {
		printf("error the device was too slow in %u rounds\n", bad.late);
		exit(1);
	}
	printf("profiled %s %u %u %u\n", r->o.variant, r->o.depth, r->o.depth,
	       r->o.rounds);
}

/* -- beside another tenant */

/*
 * A worker of io_uring has the scheduling policy that its task had when it was
 * made. Those of the other tenant wait until it is that tenant's turn again: they
 * are part of its work, and elsewhere have a processor of their own.
 */
static void give_turn(bool other)
{
	struct sched_param param = { 0 };

	if (sched_setscheduler(0, other ? SCHED_IDLE : SCHED_OTHER, &param))
		die("sched_setscheduler");
}

/*
 * One round; false if it is to be repeated, see good_round(). Commands of
 * the other tenant go first.
 */
static bool tail_round(struct run *r, struct run *other, uint64_t tick,
		       double *took)
{
	unsigned long long ticks = read_irqs().ticks, meanwhile = 0;
	uint64_t t[4];
	bool good;

	if (other->o.depth) {
		prep_all(other);
		give_turn(true);
		enter(other, other->o.depth, 0);
		give_turn(false);
	}
	prep_all(r);
	t[0] = insns();
	enter(r, r->o.depth, 0);
	t[1] = insns();
	wait_for_device(r, &meanwhile);
	t[2] = insns();
	look(r);
	t[3] = insns();
	good = take(r) == r->o.depth;
	if (!good && r->o.spin < MAX_SPIN)
		r->o.spin += r->o.spin / 8;
	good &= read_irqs().ticks - ticks == meanwhile;
	*took = t[1] - t[0] + t[3] - t[2] - 2 * tick;
	drain(r);
	if (other->o.depth) {
		give_turn(true);
		drain(other);
		give_turn(false);
	}
	return good;
}

static void tail_run(struct run *r, struct run *other, unsigned int run,
		     uint64_t tick)
{
	double *took = zeroed(r->o.rounds, sizeof(*took));
	unsigned int good = 0, sent = 0;

	while (good < r->o.rounds) {
		good += tail_round(r, other, tick, &took[good]);
		if (++sent > PATIENCE * r->o.rounds) {
			printf("error the host is too busy: of %u rounds %u were good\n",
			       sent, good);
			exit(1);
		}
	}
	qsort(took, good, sizeof(*took), by_value);
	printf("cell nvme-qos %s depth=%u others=%u limit=%u bs=%u fixed=true op=read run=%u insn=%.2f\n",
	       !r->o.others ? "alone" : r->o.limit ? "limited" : "unlimited",
	       r->o.depth, r->o.others, r->o.limit, BS, run,
	       took[good * 9 / 10] / r->o.depth);
	free(took);
}

static void tail(struct run *r)
{
	struct run other = { .o = r->o, .seed = 2 };
	struct nvme_uq_limit limit = {
		.scope = NVME_UQ_LIMIT_FILE,
		.limit = r->o.limit,
	};
	uint64_t tick = counter_floor();
	unsigned int i;

	other.o.depth = r->o.others;
	if (other.o.depth) {
		setup(&other);
		if (limit.limit &&
		    ioctl(other.fd, NVME_UQ_IOCTL_SET_LIMIT, &limit))
			die("NVME_UQ_IOCTL_SET_LIMIT");
	}
	settle(r, tick);
	for (i = 0; i < r->o.runs; i++)
		tail_run(r, &other, i, tick);
	if (other.o.depth)
		let_go(&other);
}

static void usage(void)
{
	printf("error usage: nvme-reap -v iopoll|mmap -m insns|entries|profile|tail [-d depth] [-o others [-l limit]] [-r runs] [-n rounds] [-w spin] node\n");
	exit(2);
}

static void parse(struct opts *o, int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "v:m:d:o:l:r:n:w:")) != -1) {
		switch (c) {
		case 'v': o->variant = optarg; break;
		case 'm': o->mode = optarg; break;
		case 'd': o->depth = atoi(optarg); break;
		case 'o': o->others = atoi(optarg); break;
		case 'l': o->limit = atoi(optarg); break;
		case 'r': o->runs = atoi(optarg); break;
		case 'n': o->rounds = atoi(optarg); break;
		case 'w': o->spin = atol(optarg); break;
		default: usage();
		}
	}
	o->path = argv[optind];
	if (!o->variant || !o->mode || !o->path || !o->depth ||
	    o->depth > MAX_DEPTH || o->others > MAX_DEPTH || !o->runs || !o->rounds || !o->spin)
		usage();
	o->mmap = !strcmp(o->variant, "mmap");
	o->both = o->mmap && o->depth <= MAX_BOTH;
	if (!o->mmap && strcmp(o->variant, "iopoll"))
		usage();
}

int main(int argc, char **argv)
{
	static struct run r = {
		.o = { .depth = 1, .runs = 3, .rounds = 12, .spin = 50000 },
		.seed = 1,
	};

	parse(&r.o, argc, argv);
	setup(&r);
	if (!strcmp(r.o.mode, "entries"))
		count_entries(&r);
	else if (!strcmp(r.o.mode, "insns"))
		count_insns(&r);
	else if (!strcmp(r.o.mode, "profile"))
		profile(&r);
	else if (!strcmp(r.o.mode, "tail"))
		tail(&r);
	else
		usage();
	let_go(&r);
	return 0;
}
