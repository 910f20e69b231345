/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/*
 * Completions of an NVMe user queue, seen without entering the kernel.
 *
 * A program that keeps commands in flight on a node, by an io_uring, maps the
 * node's completion queue and looks there; it enters the kernel only when that
 * is of use. This header is all that it needs, beside liburing; uq_read.c is such
 * a program:
 *
 *	struct uq_cq cq;
 *
 *	uq_cq_map(&cq, fd);		the node, open for reading and writing
 *	...				submit commands by a ring
 *	if (uq_cq_look(&cq))		here nothing has entered the kernel
 *		enter;			for completions, of which there are some
 *	uq_cq_wait(&cq, &ring, 1000);	or: a thousand looks, then wait there
 *	...				CQEs are in the ring
 *	uq_cq_unmap(&cq);
 *
 * What is read from a mapping is a hint: it tells when to enter, and the ring has
 * the results of commands. A look is for a program with commands outstanding. One
 * struct uq_cq is for one thread; several threads may each have their own of one
 * queue.
 *
 * Functions that can fail return a negative errno.
 */
#ifndef NVME_UQ_CQ_H
#define NVME_UQ_CQ_H

#include <errno.h>
#include <liburing.h>
#include <linux/nvme_uq.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/**
 * struct uq_cq - a mapped completion queue
 * @info:	the information page, which the kernel writes
 * @cqe:	its entries
 * @mapped:	how many of them are mapped; 0 once uq_cq_survive() has found that
 *		they were taken away
 * @generation:	of the queue at the last look
 * @len:	length of the mapping of @cqe in bytes; 0 if uq_cq_map() did not make it
 * @info_len:	length of the mapping of @info in bytes
 */
struct uq_cq {
	const struct nvme_uq_info	*info;
	const struct nvme_uq_cqe	*cqe;
	__u32				mapped;
	__u32				generation;
	size_t				len;
	size_t				info_len;
};

/**
 * enum uq_cq_seen - what uq_cq_look() has found
 * @UQ_CQ_NONE:	no completion
 * @UQ_CQ_READY: a completion
 * @UQ_CQ_IDLE:	no command is in flight: another task has reaped the completions,
 *		or the commands were not submitted
 * @UQ_CQ_NEW:	a reset has created the queue again, and commands have ended;
 *		the next looks are at the new queue
 * @UQ_CQ_REMAP: the mapping is shorter than the queue, or was taken away. The
 *		queue has to be mapped again: uq_cq_unmap() and uq_cq_map().
 * @UQ_CQ_DOWN:	the controller does not have the queue now, commands are ending
 * @UQ_CQ_GONE:	the queue does not come back
 *
 * With commands outstanding, a program enters the kernel for all but the first.
 */
enum uq_cq_seen {
	UQ_CQ_NONE,
	UQ_CQ_READY,
	UQ_CQ_IDLE,
	UQ_CQ_NEW,
	UQ_CQ_REMAP,
	UQ_CQ_DOWN,
	UQ_CQ_GONE,
};

/* Phase and index of the next completion are one word, and read at once. */
static inline __u32 uq_cq_index(__u32 head)
{
	return head & NVME_UQ_HEAD_MASK;
}

static inline bool uq_cq_phase(__u32 head)
{
	return head / NVME_UQ_HEAD_PHASE & 1;
}

/* Return true if the device has written this entry in this phase. */
static inline bool uq_cq_written(const struct nvme_uq_cqe *cqe, bool phase)
{
	/* of a little-endian word, bit 0 is in its first byte */
	const __u8 *status = (const __u8 *)&cqe->status;
	__u8 differ = __atomic_load_n(status, __ATOMIC_RELAXED) ^ phase;

	return !(differ & 1);
}

/* Return true if the entry at the head has been written. */
static inline bool uq_cq_ready(const struct uq_cq *cq, __u32 head)
{
	__u32 at = uq_cq_index(head);

	/* the head of a queue that is not there is beyond any mapping */
	return __builtin_expect(at < cq->mapped, 1) &&
		uq_cq_written(&cq->cqe[at], uq_cq_phase(head));
}

static inline enum uq_cq_seen uq_cq_not_live(__u32 state)
{
	return state == NVME_UQ_STATE_GONE ? UQ_CQ_GONE : UQ_CQ_DOWN;
}

/* There is no completion: look for another reason to enter the kernel. */
static inline enum uq_cq_seen uq_cq_look_further(struct uq_cq *cq, __u32 head)
{
	const struct nvme_uq_info *info = cq->info;
	__u32 state, generation, completed;

	state = __atomic_load_n(&info->state, __ATOMIC_ACQUIRE);
	if (__builtin_expect(state != NVME_UQ_STATE_LIVE, 0))
		return uq_cq_not_live(state);
	generation = __atomic_load_n(&info->generation, __ATOMIC_ACQUIRE);
	if (__builtin_expect(generation != cq->generation, 0)) {
		cq->generation = generation;
		return UQ_CQ_NEW;
	}
	if (__builtin_expect(uq_cq_index(head) >= cq->mapped, 0))
		return UQ_CQ_REMAP;
	/* in this order, or a command submitted in between would look complete */
	completed = __atomic_load_n(&info->completed, __ATOMIC_ACQUIRE);
	return __atomic_load_n(&info->submitted, __ATOMIC_ACQUIRE) ==
		completed ? UQ_CQ_IDLE : UQ_CQ_NONE;
}

/**
 * uq_cq_look - look for a reason to enter the kernel
 * @cq:		the mapped queue
 *
 * For a program with commands outstanding. The order of the reads is that of
 * struct nvme_uq_info.
 *
 * Return: what was found; UQ_CQ_NONE is 0.
 */
static inline enum uq_cq_seen uq_cq_look(struct uq_cq *cq)
{
	__u32 head = __atomic_load_n(&cq->info->head, __ATOMIC_ACQUIRE);

	if (uq_cq_ready(cq, head))
		return UQ_CQ_READY;
	/* what follows is read after the entry */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return uq_cq_look_further(cq, head);
}

/**
 * uq_cq_pending - look for a completion
 * @cq:		the mapped queue
 *
 * Return: true if there is one. There are other reasons to enter the kernel, which
 * uq_cq_look() tells after this as before.
 */
static inline bool uq_cq_pending(const struct uq_cq *cq)
{
	return uq_cq_ready(cq, __atomic_load_n(&cq->info->head, __ATOMIC_ACQUIRE));
}

/**
 * uq_cq_count - count completions
 * @cq:		the mapped queue
 * @max:	where to stop
 *
 * For a program that enters the kernel only when a batch of them is there, or
 * when uq_cq_look() tells another reason: what this does not count may never come.
 *
 * Return: the number that the kernel has not yet reaped, @max at the most.
 */
static inline unsigned int uq_cq_count(const struct uq_cq *cq, unsigned int max)
{
	__u32 entries, head, at, n;
	bool phase;

	entries = __atomic_load_n(&cq->info->entries, __ATOMIC_ACQUIRE);
	head = __atomic_load_n(&cq->info->head, __ATOMIC_ACQUIRE);
	at = uq_cq_index(head);
	phase = uq_cq_phase(head);
	/* the last entry is never written: there is one command less */
	for (n = 0; n < max && n + 1 < entries && at < cq->mapped; n++) {
		if (!uq_cq_written(&cq->cqe[at], phase))
			break;
		if (++at == entries) {
			at = 0;
			phase = !phase;
		}
	}
	return n;
}

/*
 * Return true if the ring has a flag set that says to enter the kernel, as for
 * completions that another task has reaped. A ring with
 * IORING_SETUP_DEFER_TASKRUN sets it only with IORING_SETUP_TASKRUN_FLAG too. A
 * ring that polls does not set it for what another ring has reaped: where two
 * share a polled queue, a program enters the kernel after so many looks in vain.
 */
static inline bool uq_cq_ring_says(const struct io_uring *ring)
{
	return __atomic_load_n(ring->sq.kflags, __ATOMIC_RELAXED) &
		(IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW);
}

/**
 * uq_cq_wait - wait until the ring has a CQE
 * @cq:		the mapped queue
 * @ring:	a ring that has commands outstanding
 * @spins:	number of looks before the kernel waits
 *
 * Enters the kernel until the ring has a CQE; not at all when it has one already,
 * or gets one because another task reaps.
 *
 * Return: the number of CQEs in the ring, 1 or more; or the error of
 * io_uring_enter(), -EINTR for a signal that was handled.
 */
static inline int uq_cq_wait(struct uq_cq *cq, struct io_uring *ring,
			     unsigned long spins)
{
	unsigned int n;
	int ret;

	do {
		n = io_uring_cq_ready(ring);
	} while (!n && spins-- && !uq_cq_ring_says(ring) &&
		 uq_cq_look(cq) == UQ_CQ_NONE);
	while (!n) {
		ret = io_uring_enter(ring->ring_fd, 0, 1,
				     IORING_ENTER_GETEVENTS, NULL);
		if (ret < 0)
			return ret;
		n = io_uring_cq_ready(ring);
	}
	return n;
}

/* For a mapping, or other memory, that holds a queue. */
static inline void uq_cq_init(struct uq_cq *cq,
			      const struct nvme_uq_info *info,
			      const struct nvme_uq_cqe *cqe, __u32 mapped)
{
	memset(cq, 0, sizeof(*cq));
	cq->info = info;
	cq->cqe = cqe;
	cq->mapped = mapped;
	cq->generation = __atomic_load_n(&info->generation, __ATOMIC_ACQUIRE);
}

/**
 * uq_cq_unmap - undo uq_cq_map()
 * @cq:		the mapped queue
 *
 * The claim of the queue stays with the open file.
 */
static inline void uq_cq_unmap(struct uq_cq *cq)
{
	if (cq->len)
		munmap((void *)cq->cqe, cq->len);
	if (cq->info_len)
		munmap((void *)cq->info, cq->info_len);
	memset(cq, 0, sizeof(*cq));
}

static inline void *uq_cq_map_part(int fd, size_t len, off_t offset)
{
	return mmap(NULL, len, PROT_READ, MAP_SHARED, fd, offset);
}

static inline int uq_cq_map_entries(struct uq_cq *cq, int fd)
{
	__u32 entries = __atomic_load_n(&cq->info->entries, __ATOMIC_ACQUIRE);
	size_t page = sysconf(_SC_PAGESIZE);
	size_t len = entries * sizeof(*cq->cqe);
	void *p;

	len = (len + page - 1) & ~(page - 1);
	p = uq_cq_map_part(fd, len, NVME_UQ_OFF_CQ);
	if (p == MAP_FAILED)
		return -errno;
	cq->cqe = p;
	cq->len = len;
	cq->mapped = entries;
	return 0;
}

/**
 * uq_cq_map - claim a queue and map its completions
 * @cq:		is filled in
 * @fd:		a node, open for reading and writing. Rings that use the queue
 *		have to use this open file, since others no longer can.
 *
 * Return: 0, or as NVME_UQ_IOCTL_CLAIM and mmap(): -EBUSY for a queue that others
 * use, -ENXIO for one that is not available; -EPROTONOSUPPORT for a kernel that has
 * another version of the information page.
 */
static inline int uq_cq_map(struct uq_cq *cq, int fd)
{
	size_t page = sysconf(_SC_PAGESIZE);
	const struct nvme_uq_info *info;
	int ret;

	memset(cq, 0, sizeof(*cq));
	if (ioctl(fd, NVME_UQ_IOCTL_CLAIM))
		return -errno;
	info = uq_cq_map_part(fd, page, NVME_UQ_OFF_INFO);
	if (info == MAP_FAILED)
		return -errno;
	uq_cq_init(cq, info, NULL, 0);
	cq->info_len = page;
	if (info->version < NVME_UQ_INFO_V1 || info->size < sizeof(*info) ||
	    info->entry_size != sizeof(*cq->cqe))
		ret = -EPROTONOSUPPORT;
	else
		ret = uq_cq_map_entries(cq, fd);
	if (ret)
		uq_cq_unmap(cq);
	return ret;
}

/*
 * Entries may be taken away between the look at whether they are there and the
 * look at one of them: when the driver is unbound, or when a reset makes the
 * queue smaller. That raises SIGBUS, which ends the program unless it calls this.
 */

#define UQ_CQ_SURVIVORS	16

static inline struct uq_cq **uq_cq_survivors(void)
{
	static struct uq_cq *survivor[UQ_CQ_SURVIVORS];

	return survivor;
}

/* Puts a page of zeroes where the entry was, and the look is done again. */
static inline void uq_cq_sigbus(int sig, siginfo_t *si, void *context)
{
	uintptr_t page = (uintptr_t)si->si_addr & -sysconf(_SC_PAGESIZE);
	int i, err = errno;

	(void)context;
	for (i = 0; i < UQ_CQ_SURVIVORS; i++) {
		struct uq_cq *cq = uq_cq_survivors()[i];
		uintptr_t start = cq ? (uintptr_t)cq->cqe : 0;

		if (!cq || page < start || page >= start + cq->len)
			continue;
		__atomic_store_n(&cq->mapped, 0, __ATOMIC_RELAXED);
		if (mmap((void *)page, sysconf(_SC_PAGESIZE), PROT_READ,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
		    MAP_FAILED)
			break;
		errno = err;
		return;
	}
	/* of another mapping: it is raised again, and ends the program */
	signal(sig, SIG_DFL);
}

/**
 * uq_cq_survive - turn SIGBUS of a mapped queue into UQ_CQ_REMAP
 * @cq:		the mapped queue; to be forgotten by uq_cq_forget()
 *
 * Takes the process's handler of SIGBUS. A program that has its own calls
 * uq_cq_sigbus() there. One source file of a program does so for all its queues:
 * each file that includes this has a table and a handler of its own, and the
 * handler of the last one is the process's.
 *
 * Return: 0, -ENOSPC, or as sigaction().
 */
static inline int uq_cq_survive(struct uq_cq *cq)
{
	struct sigaction sa = { .sa_flags = SA_SIGINFO };
	int i;

	sa.sa_sigaction = uq_cq_sigbus;
	for (i = 0; i < UQ_CQ_SURVIVORS; i++) {
		if (uq_cq_survivors()[i])
			continue;
		if (sigaction(SIGBUS, &sa, NULL))
			return -errno;
		uq_cq_survivors()[i] = cq;
		return 0;
	}
	return -ENOSPC;
}

/**
 * uq_cq_forget - undo uq_cq_survive(), before uq_cq_unmap()
 * @cq:		the mapped queue
 */
static inline void uq_cq_forget(struct uq_cq *cq)
{
	int i;

	for (i = 0; i < UQ_CQ_SURVIVORS; i++)
		if (uq_cq_survivors()[i] == cq)
			uq_cq_survivors()[i] = NULL;
}

#endif /* NVME_UQ_CQ_H */
