/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tasks that take turns, each on a processor of its own, for the plugin that
 * follows cache lines (overlay/host/cachelines.c).
 *
 * A turn is one operation, or a batch, from its begin to its end. Only one task
 * has its turn at a time, so the lines that one CPU takes from others do not
 * depend on how the emulator switches between them: others wrote them in their
 * last turns. Tasks that run at the same time take a
 * line at least as often, and more often where an operation touches it twice.
 *
 * Tasks wait in a loop with `pause`, so that QEMU goes to the next CPU.
 */
#ifndef OVERLAY_BENCH_TURNS_H
#define OVERLAY_BENCH_TURNS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "icount.h"

#define TURN_LINE	64
#define TURN_CPUS	4

/*
 * A turn of the task on @cpu. In the first one, @round is -1: the task prepares
 * its own data. In other turns it brackets the counted part with
 * profile_start() and profile_stop(), perhaps several times.
 */
typedef void (*turn_fn)(void *arg, unsigned int cpu, int round);

/* The first @warm rounds show leftovers of earlier cells. */
struct turns {
	unsigned int	cpus;
	int		warm, rounds;
	bool		shared_files;	/* the tasks share one table of descriptors */
	bool		detail;		/* of the last round, each line is wanted */
};

static void __attribute__((noreturn)) turns_die(const char *what)
{
	printf("error %s: %s\n", what, strerror(errno));
	fflush(stdout);
	_exit(1);
}

static void *turns_memory(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (p == MAP_FAILED)
		turns_die("memory that tasks share");
	return p;
}

/* A new cell begins: the plugin drops the contents of all caches. */
static void turns_new(void)
{
	PLUGIN_MARK(6);
}

/* The task itself causes accesses to this memory. */
static __attribute__((unused, noinline)) void turns_show(const void *p, size_t size)
{
	const volatile char *at = p;

	for (size_t i = 0; i < size; i += TURN_LINE) {
		PLUGIN_MARK(5);
		(void)at[i];
		PLUGIN_MARK(2);
	}
}

static void turns_on(unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		turns_die("a processor for each task");
}

static void turns_of_one(const struct turns *t, unsigned int cpu, turn_fn turn,
			 void *arg, unsigned int *next)
{
	unsigned int mine = cpu;

	/* the turn of one that fails never ends, and the others would wait */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	turns_on(cpu);
	for (int round = -1; round < t->warm + t->rounds; round++, mine += t->cpus) {
		while (__atomic_load_n(next, __ATOMIC_ACQUIRE) != mine)
			__builtin_ia32_pause();
		turn(arg, cpu, round);
		if (round < 0)
			;
		else if (t->detail && round == t->warm + t->rounds - 1)
			PLUGIN_MARK(4);
		else
			PLUGIN_MARK(3);
		__atomic_store_n(next, mine + 1, __ATOMIC_RELEASE);
	}
}

/* Print the end of a line about turns: the numbers of the plugin's turns. */
static void turns_print(const struct turns *t, int run, unsigned int ops)
{
	printf(" cpus=%u files=%s run=%d ops=%u warm=%u turns=%u\n", t->cpus,
	       t->shared_files ? "shared" : "own", run, ops, t->warm * t->cpus,
	       t->rounds * t->cpus);
	fflush(stdout);
}

/* Has the tasks take their turns, and comes back when all are done. */
static void take_turns(const struct turns *t, turn_fn turn, void *arg)
{
	unsigned int *next = turns_memory(4096);
	int status;

	fflush(stdout);
	for (unsigned int cpu = 0; cpu < t->cpus; cpu++) {
		unsigned long flags = SIGCHLD |
			(t->shared_files ? CLONE_FILES : 0);
		long pid = syscall(SYS_clone, flags, 0, 0, 0, 0);

		if (pid < 0)
			turns_die("clone");
		if (pid)
			continue;
		turns_of_one(t, cpu, turn, arg, next);
		fflush(stdout);
		_exit(0);
	}
	for (unsigned int cpu = 0; cpu < t->cpus; cpu++)
		if (wait(&status) < 0 || status) {
			printf("error a task that takes turns failed\n");
			exit(1);
		}
	munmap(next, 4096);
}

/* -- whether the plugin counts right -------------------------------------- */

#define KNOWN_LINES	100
#define KNOWN_ROUNDS	4

/* A loop over so many lines. */
static void turn_known(void *arg, unsigned int cpu, int round)
{
	volatile char *at = arg;

	(void)cpu;
	if (round < 0)
		return;
	profile_start();
	for (int i = 0; i < KNOWN_LINES; i++)
		at[i * TURN_LINE]++;
	profile_stop();
}

/* One line that all write to. */
static void turn_bounce(void *arg, unsigned int cpu, int round)
{
	volatile char *at = arg;

	(void)cpu;
	if (round < 0)
		return;
	profile_start();
	(*at)++;
	profile_stop();
}

/* A line for each. */
static void turn_apart(void *arg, unsigned int cpu, int round)
{
	turn_bounce((char *)arg + cpu * TURN_LINE, cpu, round);
}

/* Let the plugin count known turns; cachelines.py compares. */
static void check_plugin(unsigned int cpus)
{
	static const struct {
		const char *name;
		turn_fn turn;
		bool alone;
	} known[] = {
		{ "touch", turn_known, true },
		{ "bounce", turn_bounce, false },
		{ "apart", turn_apart, false },
	};
	char *memory = turns_memory(KNOWN_LINES * TURN_LINE);

	turns_new();
	/* it acts on that when it is between two of the guest's instructions */
	usleep(1000);
	for (unsigned int i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		struct turns t = {
			.cpus = known[i].alone ? 1 : cpus,
			.warm = 1,
			.rounds = KNOWN_ROUNDS,
		};

		turns_new();
		take_turns(&t, known[i].turn, memory);
		printf("turns known %s size=%u", known[i].name, KNOWN_LINES);
		turns_print(&t, 0, 1);
	}
}

#endif
