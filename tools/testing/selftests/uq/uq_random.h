/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests with random operations share: numbers that look random and can
 * be repeated, and what must be true at the end.
 *
 * Environment, beside that of uq.h:
 *   UQ_TEST_SEED	where the random numbers begin; without it, the clock. It
 *			is always printed, so that a run can be repeated. Several
 *			processes never meet twice in the same way, so a failure
 *			is likely to come again, not certain.
 */
#ifndef SELFTESTS_UQ_RANDOM_H
#define SELFTESTS_UQ_RANDOM_H

#include "uq.h"

struct uq_rng {
	__u64 state;
};

/* What to begin with, by the environment or by the clock. */
__u64 uq_seed(void);
/* Each @stream of a seed has numbers of its own. */
void uq_rng_init(struct uq_rng *rng, __u64 seed, unsigned int stream);
__u64 uq_rnd(struct uq_rng *rng);

static inline unsigned int uq_below(struct uq_rng *rng, unsigned int n)
{
	return (uq_rnd(rng) >> 32) % n;
}

/* Once in @n times. */
static inline bool uq_1in(struct uq_rng *rng, unsigned int n)
{
	return !uq_below(rng, n);
}

/* One element of an array. */
#define UQ_PICK(rng, array)	((array)[uq_below(rng, ARRAY_SIZE(array))])

/* Pages that the whole system has pinned; -1 if it does not tell. */
long long uq_pinned(void);
/* All that it ever pinned. */
long long uq_pinned_ever(void);
/* Waits until there are no more than @before; false if that never happens. */
bool uq_wait_unpinned(long long before);

/*
 * What a test must leave as it was: how much memory is pinned. And the kernel must
 * not have complained of the driver or of tasks of the test since. Kernels for
 * debugging also know of memory that nothing refers to any more (kmemleak).
 */
struct uq_peace {
	long long	pinned;
	int		log;
	bool		find_leaks;	/* which takes seconds */
	unsigned int	leaks;
};

void uq_peace_begin(struct uq_peace *peace, bool find_leaks);
/* False if not; what is wrong is printed. Waits for what is late. */
bool uq_peace_kept(const struct uq_peace *peace);

/*
 * The @n'th node that a device has, of either kind, see uq_ctrl_of_pci(); its
 * namespace has one format.
 */
bool uq_node_of_pci(struct uq_node *node, const char *pci, unsigned int n);
void uq_count_of_pci(const char *pci, unsigned int *irq, unsigned int *poll);

/*
 * Takes all slots of an idle queue at once, and would like one more: how many
 * it did not get, or an error. More than one is missing.
 */
int uq_fill_slots(const struct uq_node *node);

/*
 * Waits until a child has ended: its status. If it does not, and @done does not
 * change any more either, prints where it is in the kernel and returns -1. @done
 * may be NULL.
 */
int uq_wait_child(pid_t pid, const unsigned long *done);

#endif /* SELFTESTS_UQ_RANDOM_H */
