/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Let allocations and copies fail, one at a time.
 */
#ifndef SELFTESTS_UQ_NTH_H
#define SELFTESTS_UQ_NTH_H

#include "uq.h"

/*
 * If the files of an interrupt in /proc cannot be created, the kernel warns
 * when it frees the interrupt. The tests do not cover this, so these
 * allocations must not fail.
 */
#define IRQ_FILES	"register_irq_proc"
/* kmemleak allocates here for each other allocation, and tolerates failures. */
#define LEAK_RECORDS	"__alloc_object"

/* Set the knobs of fault injection for all tests, and restore them. */
bool nth_set_knobs(void);
void nth_restore_knobs(void);
/* Return the missing kernel option, as in the file config, or NULL. */
const char *nth_lacks(void);

/* Read all functions of the kernel, once and before any test. */
void nth_read_symbols(void);

/* Select the allocations and copies that may fail: all of them. */
bool nth_filter_nothing(void);
/* All except those of kmemleak. */
bool nth_filter_leaks(void);
/* Those below @function, except those below @not if that function exists. */
bool nth_filter_function(const char *function, const char *not);
/* Those of user queues, in both halves of the driver, except kmemleak's. */
bool nth_filter_ours(void);

/*
 * Let the @n'th point of this task fail. end_nth() returns true if the task has
 * reached this point.
 */
void set_nth(int fd, unsigned int n);
bool end_nth(int fd);

/* Fault attributes: NR_ALLOC for allocations, the last one for copies. */
extern const char * const nth_filtered[];
#define NR_ALLOC	2

/* Let allocations fail one after the other, in any task: see uq_nth.c. */
bool nth_arm(const char *attr, int space, int times);
bool nth_disarm(const char *attr, int *space);
void nth_disarm_all(void);

#endif /* SELFTESTS_UQ_NTH_H */
