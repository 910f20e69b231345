/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers of the tests with random operations: random numbers that can be
 * repeated, and checks at the end of a test.
 *
 * Environment, in addition to uq.h:
 *   UQ_TEST_SEED	seed of the random numbers, by default from the clock.
 *			The tests print it, so that a run can be repeated. The
 *			timing of several processes differs between runs, so
 *			a repeated run may not fail again.
 */
#ifndef SELFTESTS_UQ_RANDOM_H
#define SELFTESTS_UQ_RANDOM_H

#include "uq.h"

struct uq_rng {
	__u64 state;
};

/* Return the seed from the environment or the clock. */
__u64 uq_seed(void);
/* Each @stream of a seed has different numbers. */
void uq_rng_init(struct uq_rng *rng, __u64 seed, unsigned int stream);
__u64 uq_rnd(struct uq_rng *rng);

static inline unsigned int uq_below(struct uq_rng *rng, unsigned int n)
{
	return (uq_rnd(rng) >> 32) % n;
}

/* Return true once in @n times on average. */
static inline bool uq_1in(struct uq_rng *rng, unsigned int n)
{
	return !uq_below(rng, n);
}

/* Pick an element of an array. */
#define UQ_PICK(rng, array)	((array)[uq_below(rng, ARRAY_SIZE(array))])

/* Return the number of pages pinned in the whole system, or -1 if unknown. */
long long uq_pinned(void);
/* Return the number of all pages pinned since boot. */
long long uq_pinned_ever(void);
/* Wait until at most @before pages are pinned; false if that never happens. */
bool uq_wait_unpinned(long long before);

/*
 * A test must not change the number of pinned pages. The kernel must not have
 * reported a problem in the driver or in tasks of the test. Debug kernels also
 * find leaked memory (kmemleak).
 */
struct uq_peace {
	long long	pinned;
	int		log;
	bool		find_leaks;	/* takes seconds */
	unsigned int	leaks;
};

void uq_peace_begin(struct uq_peace *peace, bool find_leaks);
/*
 * Wait for late releases. Print the problems, and return false if there are
 * any.
 */
bool uq_peace_kept(const struct uq_peace *peace);

/*
 * Find the @n'th node of a device, of either kind; see uq_ctrl_of_pci(). The
 * namespace must have blocks of 512 bytes.
 */
bool uq_node_of_pci(struct uq_node *node, const char *pci, unsigned int n);
void uq_count_of_pci(const char *pci, unsigned int *irq, unsigned int *poll);

/*
 * Submit as many commands as an idle queue has slots. Return -EBUSY if one of
 * them had to wait for a slot, or another error, or 0.
 */
int uq_fill_slots(const struct uq_node *node);

/*
 * Wait until a child has ended, and return its status. If the child does not
 * end and @done does not change, print its stack in the kernel and return -1.
 * @done may be NULL.
 */
int uq_wait_child(pid_t pid, const unsigned long *done);

#endif /* SELFTESTS_UQ_RANDOM_H */
