/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Load on a user queue during some event. Each command must end once, with a
 * documented result.
 */
#ifndef SELFTESTS_UQ_LOAD_H
#define SELFTESTS_UQ_LOAD_H

#include <pthread.h>
#include <stdatomic.h>

#include "uq.h"

/* A thread that reads. */
struct uq_load {
	struct uq_node	*node;
	unsigned int	timeout_ms;	/* of each command; 0 for the default */
	bool		plain;		/* its ring does not poll */
	atomic_bool	stop;
	atomic_ulong	done;
	unsigned long	sent, bad, interrupted, status;
	int		first_bad;
};

/*
 * Thread function: read until @stop is set, or until the queue or device is
 * lost.
 */
void *uq_load_run(void *load);
/* Count a result. A lost queue or device stops the load. */
void uq_load_count(struct uq_load *load, int res);
/* Wait until the queue has commands in flight, or the load fails. */
void uq_load_wait_busy(const struct uq_load *load);
/* After the thread has ended, print the counters; false if a command failed. */
bool uq_load_is_good(const struct uq_load *load);

/* Two tenants that keep one user queue busy. */
struct uq_tenants {
	struct uq_node	*node;
	bool		plain;		/* their rings do not poll */
	long long	spurious;	/* old value; other tests cause some */
	unsigned long	interrupted;	/* commands, set at the end */
	unsigned char	*buf;
	struct uq_load	load[2];
	pthread_t	thread[2];
};

/* Call this first; false if there is no memory. */
bool uq_tenants_init(struct uq_tenants *t, struct uq_node *node);
/*
 * Start the load. Each command has @timeout_ms, or the default timeout if it is
 * 0.
 */
int uq_tenants_start(struct uq_tenants *t, unsigned int timeout_ms);
void uq_tenants_wait_busy(const struct uq_tenants *t);
/* Stop submitting. */
void uq_tenants_stop(struct uq_tenants *t);
/* Stop and wait for all commands; false if a command failed. */
bool uq_tenants_end(struct uq_tenants *t);
/* Wait until no command is in flight; false if the counters are wrong then. */
bool uq_tenants_idle(const struct uq_tenants *t);
/* Open the node and read one block; return the result. */
int uq_tenants_read(const struct uq_tenants *t, __u32 len,
		    unsigned int timeout_ms);

/* Number of commands of a ring whose completions are not reaped. */
#define UQ_UNREAPED	16

struct uq_unreaped {
	struct io_uring	ring;
	int		fd;
};

/* Submit the commands, with buffers of 4096 bytes each in @buf. */
int uq_unreaped_start(struct uq_unreaped *u, const struct uq_node *node,
		      unsigned char *buf);
/* Reap the commands and close the ring: 0, or the first other result. */
int uq_unreaped_end(struct uq_unreaped *u);

#endif /* SELFTESTS_UQ_LOAD_H */
