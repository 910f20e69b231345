/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Allocations and copies that fail, one at a time.
 */
#ifndef SELFTESTS_UQ_NTH_H
#define SELFTESTS_UQ_NTH_H

#include "uq.h"

/*
 * An interrupt without files in /proc, as they could not be made, warns when it
 * is freed. That is not ours to fail.
 */
#define IRQ_FILES	"register_irq_proc"
/* What kmemleak, if there is one, asks for at each allocation, and can do without. */
#define LEAK_RECORDS	"__alloc_object"

/* The kernel's knobs, set for all that follows, and as they were before. */
bool nth_set_knobs(void);
void nth_restore_knobs(void);
/* What the kernel lacks, as it stands in the file config; NULL if nothing. */
const char *nth_lacks(void);

/* All functions are looked up here once, before any test. */
void nth_read_symbols(void);

/* What may fail: what is asked for below all functions, or below some. */
bool nth_filter_nothing(void);
/* All but what kmemleak asks for. */
bool nth_filter_leaks(void);
/* What @function asks for, and what it calls, but for @not if there is such. */
bool nth_filter_function(const char *function, const char *not);
/* Of the driver's two halves, which may be one after the other, everything. */
bool nth_filter_ours(void);

/* The n'th point of this task fails; whether it was reached. */
void set_nth(int fd, unsigned int n);
bool end_nth(int fd);

/* What fails allocations, and how many of these there are. */
extern const char * const nth_filtered[];
#define NR_ALLOC	2

/* One allocation after the other, in whatever task: see uq_nth.c. */
bool nth_arm(const char *attr, int space, int times);
bool nth_disarm(const char *attr, int *space);
void nth_disarm_all(void);

#endif /* SELFTESTS_UQ_NTH_H */
