/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Load on a user queue while something happens to it. Each command must end once,
 * in a way that is documented.
 */
#ifndef SELFTESTS_UQ_LOAD_H
#define SELFTESTS_UQ_LOAD_H

#include <pthread.h>
#include <stdatomic.h>

#include "uq.h"

/* One thread that reads. */
struct uq_load {
	struct uq_node	*node;
	unsigned int	timeout_ms;	/* of each command; 0 for the usual */
	bool		plain;		/* its ring does not poll */
	atomic_bool	stop;
	atomic_ulong	done;
	unsigned long	sent, bad, interrupted, status;
	int		first_bad;
};

/* A thread: reads until it is told to stop, or the queue or device is lost. */
void *uq_load_run(void *load);
/* Counts what a command ended with. A lost queue or device stops the load. */
void uq_load_count(struct uq_load *load, int res);
/* Waits until the queue has commands in flight, while there is load. */
void uq_load_wait_busy(const struct uq_load *load);
/* Once its thread has ended: prints the counters; false if a command went wrong. */
bool uq_load_is_good(const struct uq_load *load);

/* Two tenants that keep one user queue busy. */
struct uq_tenants {
	struct uq_node	*node;
	bool		plain;		/* their rings do not poll */
	long long	spurious;	/* before; other tests make some on purpose */
	unsigned long	interrupted;	/* commands, when the load has ended */
	unsigned char	*buf;
	struct uq_load	load[2];
	pthread_t	thread[2];
};

/* Before all else; false if there is no memory. */
bool uq_tenants_init(struct uq_tenants *t, struct uq_node *node);
/* Starts the load. Each command has @timeout_ms, or the usual time with 0. */
int uq_tenants_start(struct uq_tenants *t, unsigned int timeout_ms);
void uq_tenants_wait_busy(const struct uq_tenants *t);
/* They send nothing more. */
void uq_tenants_stop(struct uq_tenants *t);
/* Stops them and waits for all commands; false if one of them went wrong. */
bool uq_tenants_end(struct uq_tenants *t);
/* Waits until nothing is in flight; false if the counters do not agree then. */
bool uq_tenants_idle(const struct uq_tenants *t);
/* Reads one block, through a node that is opened for it; its result. */
int uq_tenants_read(const struct uq_tenants *t, __u32 len,
		    unsigned int timeout_ms);

/* Commands of a ring that nothing reaps. */
#define UQ_UNREAPED	16

struct uq_unreaped {
	struct io_uring	ring;
	int		fd;
};

/* Submits them, with buffers of 4096 bytes each in @buf. */
int uq_unreaped_start(struct uq_unreaped *u, const struct uq_node *node,
		      unsigned char *buf);
/* Reaps them and closes the ring: 0, or the first result that is not. */
int uq_unreaped_end(struct uq_unreaped *u);

#endif /* SELFTESTS_UQ_LOAD_H */
