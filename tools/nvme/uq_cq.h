/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/*
 * Find completions of an NVMe user queue without a system call.
 *
 * A program that has commands in flight on a node maps the completion queue of
 * the node and polls the mapping. It enters the kernel only if there is a
 * completion to reap. uq_read.c is an example. This header requires liburing; it
 * compiles as C and as C++.
 *
 * The mapping only hints when to enter the kernel. The results of commands are
 * in the ring. Use these functions only while commands are outstanding. One
 * struct uq_cq serves one thread; each thread of a program can have a struct
 * uq_cq for the same queue.
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
 * @info:	the information page, written by the kernel
 * @cqe:	the entries of the completion queue
 * @mapped:	number of mapped entries; 0 after the SIGBUS handler of
 *		uq_cq_survive() found that the kernel has removed them
 * @generation:	generation of the queue at the last uq_cq_look()
 * @len:	length of the mapping of @cqe in bytes; 0 if uq_cq_map() did not
 *		create it
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
 * enum uq_cq_seen - results of uq_cq_look()
 * @UQ_CQ_NONE:	no completion
 * @UQ_CQ_READY: a completion
 * @UQ_CQ_IDLE:	no command is in flight: another task has reaped the completions,
 *		or the commands were not submitted
 * @UQ_CQ_NEW:	a reset has created the queue again, and commands have ended;
 *		the next uq_cq_look() reads the new queue
 * @UQ_CQ_REMAP: the mapping is shorter than the queue, or was removed. Call
 *		uq_cq_unmap() and uq_cq_map().
 * @UQ_CQ_DOWN:	the queue is not on the controller now, commands are ending
 * @UQ_CQ_GONE:	the queue will not come back
 *
 * A program with commands outstanding enters the kernel for all results except
 * UQ_CQ_NONE.
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

/* Phase and index of the next completion share a word, so both are consistent. */
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
	/* the word is little-endian: bit 0 is in the first byte */
	const __u8 *status = (const __u8 *)&cqe->status;
	__u8 differ = __atomic_load_n(status, __ATOMIC_RELAXED) ^ phase;

	return !(differ & 1);
}

/* Return true if the entry at the head has been written. */
static inline bool uq_cq_ready(const struct uq_cq *cq, __u32 head)
{
	__u32 at = uq_cq_index(head);

	/* if the queue is not on the controller, head is beyond any mapping */
	return __builtin_expect(at < cq->mapped, 1) &&
		uq_cq_written(&cq->cqe[at], uq_cq_phase(head));
}

static inline enum uq_cq_seen uq_cq_not_live(__u32 state)
{
	return state == NVME_UQ_STATE_GONE ? UQ_CQ_GONE : UQ_CQ_DOWN;
}

/* Check for a reason to enter the kernel other than a completion. */
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
	/* a command submitted between the two loads must not look complete */
	completed = __atomic_load_n(&info->completed, __ATOMIC_ACQUIRE);
	return __atomic_load_n(&info->submitted, __ATOMIC_ACQUIRE) ==
		completed ? UQ_CQ_IDLE : UQ_CQ_NONE;
}

/**
 * uq_cq_look - check for a reason to enter the kernel
 * @cq:		the mapped queue
 *
 * Call it only while commands are outstanding. The loads are in the order that
 * struct nvme_uq_info describes.
 *
 * Return: UQ_CQ_NONE, which is 0, or the reason.
 */
static inline enum uq_cq_seen uq_cq_look(struct uq_cq *cq)
{
	__u32 head = __atomic_load_n(&cq->info->head, __ATOMIC_ACQUIRE);

	if (uq_cq_ready(cq, head))
		return UQ_CQ_READY;
	/* load the other fields after the entry */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return uq_cq_look_further(cq, head);
}

/**
 * uq_cq_pending - check for a completion
 * @cq:		the mapped queue
 *
 * Only uq_cq_look() returns the other reasons to enter the kernel.
 *
 * Return: true if there is a completion.
 */
static inline bool uq_cq_pending(const struct uq_cq *cq)
{
	return uq_cq_ready(cq, __atomic_load_n(&cq->info->head, __ATOMIC_ACQUIRE));
}

/**
 * uq_cq_count - count completions
 * @cq:		the mapped queue
 * @max:	maximum number to count
 *
 * A program can wait for a batch of completions before it enters the kernel. It
 * must also call uq_cq_look(): completions that others reap are never counted.
 *
 * Return: the number of completions not yet reaped by the kernel, at most @max.
 */
static inline unsigned int uq_cq_count(const struct uq_cq *cq, unsigned int max)
{
	__u32 entries, head, at, n;
	bool phase;

	entries = __atomic_load_n(&cq->info->entries, __ATOMIC_ACQUIRE);
	head = __atomic_load_n(&cq->info->head, __ATOMIC_ACQUIRE);
	at = uq_cq_index(head);
	phase = uq_cq_phase(head);
	/* the queue has at most @entries - 1 commands in flight */
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
 * Return true if a flag of the ring requires to enter the kernel, for instance
 * because another task has reaped completions. A ring with
 * IORING_SETUP_DEFER_TASKRUN sets the flag only with IORING_SETUP_TASKRUN_FLAG.
 * A ring that polls does not set it if another ring has reaped completions: if
 * two rings share a polled queue, enter the kernel after a number of polls.
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
 * @spins:	number of polls before the task sleeps in the kernel
 *
 * If the ring already has a CQE, or gets one because another task reaps, no
 * system call is made.
 *
 * Return: the number of CQEs in the ring, 1 or more; or the error of
 * io_uring_wait_cqe(), such as -EINTR for a signal that was handled.
 */
static inline int uq_cq_wait(struct uq_cq *cq, struct io_uring *ring,
			     unsigned long spins)
{
	struct io_uring_cqe *cqe;
	int ret;

	while (!io_uring_cq_ready(ring) && spins-- && !uq_cq_ring_says(ring) &&
	       uq_cq_look(cq) == UQ_CQ_NONE)
		;
	/* liburing handles a registered descriptor of the ring */
	ret = io_uring_wait_cqe(ring, &cqe);
	return ret < 0 ? ret : (int)io_uring_cq_ready(ring);
}

/* Use a mapping of the queue, or other memory with the same content. */
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
 * uq_cq_unmap - remove the mappings of uq_cq_map()
 * @cq:		the mapped queue
 *
 * The open file keeps its claim of the queue; NVME_UQ_IOCTL_UNCLAIM ends it.
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
	cq->cqe = (const struct nvme_uq_cqe *)p;
	cq->len = len;
	cq->mapped = entries;
	return 0;
}

/**
 * uq_cq_map - claim a queue and map its completion queue
 * @cq:		the structure to initialize
 * @fd:		a node, open for reading and writing. Submit commands only through
 *		this open file: those of other open files fail.
 *
 * If this function fails after the claim, it ends the claim, so that others can use
 * the queue.
 *
 * Return: 0, or the error of NVME_UQ_IOCTL_CLAIM or mmap(): -EBUSY if others use
 * the queue, -EPERM if its attribute claim is 0, -ESHUTDOWN if the last reset
 * did not create the queue; -EPROTONOSUPPORT if the information page has an unknown
 * format.
 */
static inline int uq_cq_map(struct uq_cq *cq, int fd)
{
	size_t page = sysconf(_SC_PAGESIZE);
	void *info;
	int ret;

	memset(cq, 0, sizeof(*cq));
	if (ioctl(fd, NVME_UQ_IOCTL_CLAIM))
		return -errno;
	info = uq_cq_map_part(fd, page, NVME_UQ_OFF_INFO);
	if (info == MAP_FAILED) {
		ret = -errno;
		ioctl(fd, NVME_UQ_IOCTL_UNCLAIM);
		return ret;
	}
	uq_cq_init(cq, (const struct nvme_uq_info *)info, NULL, 0);
	cq->info_len = page;
	if (cq->info->version < NVME_UQ_INFO_V1 ||
	    cq->info->size < sizeof(*cq->info) ||
	    cq->info->entry_size != sizeof(*cq->cqe))
		ret = -EPROTONOSUPPORT;
	else
		ret = uq_cq_map_entries(cq, fd);
	if (ret) {
		uq_cq_unmap(cq);
		ioctl(fd, NVME_UQ_IOCTL_UNCLAIM);
	}
	return ret;
}

/*
 * The kernel removes entries from the mapping if the driver is unbound, or if a
 * reset makes the queue smaller. The next load of such an entry raises SIGBUS and
 * terminates the program, unless the program has called uq_cq_survive().
 */

#define UQ_CQ_SURVIVORS	16

static inline struct uq_cq **uq_cq_survivors(void)
{
	static struct uq_cq *survivor[UQ_CQ_SURVIVORS];

	return survivor;
}

/* Map a page of zeroes in place of the entry; the load is then repeated. */
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
	/* another mapping: the repeated load raises SIGBUS again */
	signal(sig, SIG_DFL);
}

/**
 * uq_cq_survive - turn SIGBUS of a mapped queue into UQ_CQ_REMAP
 * @cq:		the mapped queue; call uq_cq_forget() before uq_cq_unmap()
 *
 * Installs a SIGBUS handler for the process. A program with a SIGBUS handler of
 * its own calls uq_cq_sigbus() from there instead. Call this function from one
 * source file for all queues: each file that includes this header has its own
 * table and its own handler, and the last installed handler is used.
 *
 * Return: 0, -ENOSPC if there are UQ_CQ_SURVIVORS queues already, or the error of
 * sigaction().
 */
static inline int uq_cq_survive(struct uq_cq *cq)
{
	struct sigaction sa;
	int i;

	memset(&sa, 0, sizeof(sa));
	sigemptyset(&sa.sa_mask);
	sa.sa_flags = SA_SIGINFO;
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
 * uq_cq_forget - undo uq_cq_survive()
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
