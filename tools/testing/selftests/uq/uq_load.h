/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tenants that keep a user queue busy while something happens to it. Each command
 * must end once, in a way that is documented.
 */
#ifndef SELFTESTS_UQ_LOAD_H
#define SELFTESTS_UQ_LOAD_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "uq.h"

#define UQ_LOAD_BATCH	64

struct load {
	struct uq_node	*node;
	unsigned int	timeout_ms;	/* of each command; 0 for the usual */
	bool		plain;		/* its ring does not poll */
	atomic_bool	stop;
	atomic_ulong	done;
	unsigned long	sent, bad, interrupted, status;
	int		first_bad;
};

/* What a command may end with. A lost queue or device ends the load. */
static void count(struct load *l, int res)
{
	if (res == -EINTR)
		l->interrupted++;
	else if (res > 0)
		l->status++;
	else if (res == -ENXIO || res == -ENODEV)
		l->stop = true;
	else if (res && !l->bad++)
		l->first_bad = res;
}

static void *run_load(void *arg)
{
	struct load *l = arg;
	unsigned char *buf = uq_alloc(UQ_LOAD_BATCH * 4096);
	int fd = open(l->node->path, O_RDONLY), i, n;
	struct io_uring ring;

	if (fd < 0 || !buf ||
	    uq_ring(&ring, UQ_LOAD_BATCH,
		    l->node->poll && !l->plain ? IORING_SETUP_IOPOLL : 0)) {
		l->bad++;
		return NULL;
	}
	while (!l->stop) {
		for (i = 0; i < UQ_LOAD_BATCH; i++)
			uq_prep(&ring, fd, l->node->nsid, CMD_READ,
				(l->sent + i) % 4096, buf + i * 4096,
				512)->timeout_ms = l->timeout_ms;
		n = io_uring_submit(&ring);
		if (n != UQ_LOAD_BATCH) {
			l->bad++;
			l->first_bad = n;
			break;
		}
		l->sent += n;
		while (l->done < l->sent) {
			count(l, uq_reap(&ring, NULL));
			l->done++;
		}
	}
	io_uring_queue_exit(&ring);
	close(fd);
	munmap(buf, UQ_LOAD_BATCH * 4096);
	return NULL;
}

#endif /* SELFTESTS_UQ_LOAD_H */
