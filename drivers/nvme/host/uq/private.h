/* SPDX-License-Identifier: GPL-2.0 */
/*
 * NVMe user queues: hardware queues as character devices.
 *
 * Locks, in nesting order:
 *
 *   nvme_uq_nodes_lock	mutex; the nodes of all namespaces.
 *   nvme_uq_hold_lock	mutex; the set of queues, freezes, holds. Nests inside
 *			a frozen queue of the block layer.
 *   nvme_uq_mems.lock	rw_semaphore; the memory of open files. Page faults
 *			take it. Not held together with the other locks.
 *   nvme_uq.claim_lock	mutex; the owner of the queue and the memory that the
 *			owner can map. Page faults take it.
 *   nvme_uq.sq_lock	submission queue, doorbell, @blocked, allocation of
 *			tags, limits, wait queues. Process context only.
 *   nvme_uq.cq_lock	completion queue, freeing of tags, @cq_live. The
 *			interrupt handler of an interrupt queue takes it.
 *
 * sq_lock and cq_lock are held together only to stop submission and completion
 * at the same time: to claim a queue, to end a claim, to announce that the
 * queue is gone, to set @limited of a file, and to restart timeouts. No command
 * is submitted or completed with both held.
 *
 * A tag (struct nvme_uq_tags) goes from free to in flight under sq_lock, in
 * the critical section that writes the submission queue entry. It goes back to
 * free under cq_lock, when its completion arrives or the controller has been
 * disabled. There is no third state: everything that sleeps, such as memory
 * allocation and page faults, happens before the tag is taken.
 *
 * Documentation/nvme/user-queues.rst documents the design.
 */
#ifndef _NVME_UQ_PRIVATE_H
#define _NVME_UQ_PRIVATE_H

#include <linux/cdev.h>
#include <linux/device.h>
#include <linux/interrupt.h>
#include <linux/io_uring/cmd.h>
#include <linux/jiffies.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <linux/uio.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "../nvme.h"
#include "dptr.h"
#include "plan.h"
#include "tag.h"

/* Reasons to take no new commands, see nvme_uq.blocked. */
#define NVME_UQ_UNAVAILABLE	BIT(0)	/* the last reset did not create it */
#define NVME_UQ_DOWN		BIT(1)	/* not on the controller now */
#define NVME_UQ_FROZEN		BIT(2)	/* controller is frozen */
#define NVME_UQ_HELD		BIT(3)	/* a format changes */
#define NVME_UQ_DISABLED	BIT(4)	/* controller disabled since creation */
#define NVME_UQ_CLAIMED		BIT(5)	/* an open file has exclusive use */

/* bits for nvme_uq_iod.flags */
#define NVME_UQ_UNMAP		BIT(0)	/* @addr must be unmapped */
#define NVME_UQ_DATA		BIT(1)	/* @data must be unmapped */
#define NVME_UQ_WRITE		BIT(2)	/* memory to device */
#define NVME_UQ_ABORTED		BIT(3)	/* an abort was sent */
#define NVME_UQ_UNPOLLED	BIT(4)	/* its ring does not poll */
#define NVME_UQ_RW		BIT(5)	/* @rw is set, and not @ioucmd */

/* In jiffies. With 32 bits, a deadline further ahead would look expired. */
#define NVME_UQ_MAX_TIMEOUT	(INT_MAX / 2)

/* In 32 bits, the attribute allows more than a deadline may be ahead. */
static __always_inline unsigned int
nvme_uq_io_timeout(const struct nvme_ctrl *ctrl)
{
	unsigned int timeout = READ_ONCE(ctrl->io_timeout);

	if (BITS_PER_LONG == 32)
		return min(timeout, NVME_UQ_MAX_TIMEOUT);
	return timeout;
}

static inline unsigned int nvme_uq_timeout(u32 ms)
{
	return min_t(unsigned long, msecs_to_jiffies(ms), NVME_UQ_MAX_TIMEOUT);
}

/* Exceeds the metadata of the largest transfer. */
#define NVME_UQ_MAX_META	SZ_1M

/* Interval of polling for a condition that has no wakeup. */
#define NVME_UQ_POLL_INTERVAL	(HZ / 50 ?: 1)

struct nvme_uq_data;
struct nvme_uq_mem;
struct nvme_uq_pieces;
struct nvme_uq_rw;

/**
 * struct nvme_uq_iod - a command in flight
 * @ioucmd:	io_uring command to complete
 * @rw:		command of a kiocb to complete
 * @owner:	either of them
 * @deadline:	time of expiry, in jiffies
 * @timeout:	timeout in jiffies, without NVME_UQ_GRACE
 * @addr:	bus address of data in one segment
 * @len:	length of data in one segment
 * @data:	all other data, and metadata
 * @flags:	NVME_UQ_UNMAP and so on
 * @opcode:	opcode, for messages
 * @file:	open file that the command was submitted to
 * @start:	time of submission, in ns; 0 if completions were not traced then
 * @slba:	first LBA of the command, if @start is set
 * @nsid:	its namespace id
 * @bytes:	length of its data
 */
struct nvme_uq_iod {
	union {
		struct io_uring_cmd	*ioucmd;
		struct nvme_uq_rw	*rw;
		void			*owner;
	};
	unsigned long		deadline;
	dma_addr_t		addr;
	u32			len;
	unsigned int		timeout;
	struct nvme_uq_data	*data;
	u16			flags;
	u8			opcode;
	struct nvme_uq_file	*file;

	/* for the tracepoint, in a cache line that is not used without it */
	u64			start;
	u64			slba;
	u32			nsid;
	u32			bytes;
} __aligned(64);

/**
 * struct nvme_uq - a user queue
 * @ops:	operations of the controller's driver
 * @ctrl:	the controller
 * @id:		the Z of /dev/ngXnYqZ
 * @polled:	the queue is polled and has no interrupt
 * @dma_dev:	device for the DMA API
 * @qid:	id of the queue on the controller
 * @depth:	entries of each ring; 0 if the queue has no memory
 * @vector:	interrupt vector of an interrupt queue
 * @irq:	interrupt number, or -1
 * @iod:	commands in flight, indexed by tag
 * @meta_sgls:	an SGL descriptor for the metadata of each tag
 * @meta_sgls_dma: bus address of @meta_sgls
 * @sq_cmds:	submission queue
 * @sq_dma:	bus address of @sq_cmds
 * @cqes:	completion queue, in pages that contain nothing else
 * @cq_pages:	contiguous pages of @cqes, or NULL if user space cannot map them
 * @cq_dma:	bus address of @cqes
 * @sq_db:	doorbell of the submission queue
 * @cq_db:	doorbell of the completion queue
 * @dbbuf_sq_db: shadow doorbell of the submission queue, or NULL
 * @dbbuf_sq_ei: event index of the submission queue, or NULL
 * @dbbuf_cq_db: shadow doorbell of the completion queue, or NULL
 * @dbbuf_cq_ei: event index of the completion queue, or NULL
 * @force_sgl:	SGLs describe data, else PRPs do
 * @meta_sgl_ok: SGLs describe metadata too
 * @max_len:	maximum length of data for ->submit_one(), in bytes; 0 without
 *		SGLs
 * @claim_lock:	protects @owner to @claimable; writers hold @sq_lock and @cq_lock
 *		too
 * @owner:	the open file that has claimed the queue, or NULL
 * @info:	its information page, or NULL
 * @claimable:	open files may claim the queue; claim_lock is enough
 * @info_base:	@submitted and @completed at the time of the claim
 * @limit:	maximum number of commands in flight, 0 for the number of tags
 * @file_limit:	the same limit for each open file
 * @tag_waiters: commands waiting for a tag or until the queue is up
 * @waiting:	commands waiting for a tag or for the limit of their file
 * @plug:	plug of the last task that deferred the doorbell
 * @sq_lock:	protects the members from @limit up to @cq_lock, and @waitq
 * @blocked:	reasons to accept no new commands, NVME_UQ_DOWN and so on
 * @reserve:	tags that a new command leaves free: those beyond @limit, and one
 *		if a command waits for a tag; U16_MAX if @file_limit is set, so that
 *		each command takes the path that checks it
 * @sq_tail:	index of the next submission queue entry
 * @last_sq_tail: @sq_tail at the last doorbell, shadow or real
 * @tmo_armed:	@tmo_work is queued
 * @aborting:	an abort of one of its commands is in flight; set by @tmo_work
 * @tmo_next:	expiry of @tmo_work, in jiffies
 * @submitted:	commands ever submitted
 * @bytes:	length of their data, of reads and of writes
 * @doorbells:	writes to @sq_db
 * @tags:	command ids; allocated under @sq_lock, freed under @cq_lock
 * @cq_lock:	protects the members up to @cancelled, except @waitq and @timeouts
 * @cq_live:	the queue exists on the controller
 * @cq_phase:	phase of a new completion
 * @cq_next:	next completion queue entry
 * @cq_end:	end of the completion queue
 * @completed:	commands ever completed
 * @reaps:	number of reaps that found a completion
 * @waitq:	those of @tag_waiters that were not woken
 * @spurious:	completions whose id was not in flight
 * @timeouts:	commands that timed out
 * @cancelled:	commands that a reset ended
 * @unpolled:	commands ever submitted by rings that do not poll; under
 *		@sq_lock
 * @unpolled_done: commands counted in @unpolled that have ended; under @cq_lock
 * @idle_wait:	tasks waiting for the queue to be idle
 * @poll_work:	polls a polled queue for rings that do not poll
 * @poll_pause:	last pause of @poll_work, in microseconds
 * @tmo_work:	finds overdue commands
 * @deleted:	the controller has completed the deletion of a queue
 *
 * The first reset that needs a queue allocates it. The last reference to the
 * controller frees it, so a reference to a node keeps its queue. Between resets
 * the queue may be absent from the controller (NVME_UQ_DOWN), or unused
 * (NVME_UQ_UNAVAILABLE).
 */
struct nvme_uq {
	/* set once */
	const struct nvme_uq_ops *ops;
	struct nvme_ctrl	*ctrl;
	unsigned int		id;
	bool			polled;

	/* change only while the queue is NVME_UQ_DOWN */
	struct device		*dma_dev;
	u16			qid;
	u16			depth;
	int			vector;
	int			irq;
	struct nvme_uq_iod	*iod;
	void			*meta_sgls;
	dma_addr_t		meta_sgls_dma;
	void			*sq_cmds;
	dma_addr_t		sq_dma;
	struct nvme_completion	*cqes;
	struct page		*cq_pages;
	dma_addr_t		cq_dma;
	u32 __iomem		*sq_db;
	u32 __iomem		*cq_db;
	__le32			*dbbuf_sq_db;
	__le32			*dbbuf_sq_ei;
	__le32			*dbbuf_cq_db;
	__le32			*dbbuf_cq_ei;
	bool			force_sgl;
	bool			meta_sgl_ok;
	u32			max_len;

	/* exclusive use */
	struct mutex		claim_lock;
	struct nvme_uq_file	*owner;
	struct nvme_uq_info	*info;
	u32			info_base;
	bool			claimable;

	/* seldom changed by submission */
	unsigned int		limit;
	unsigned int		file_limit;
	unsigned int		tag_waiters;
	unsigned int		waiting;
	struct blk_plug		*plug;

	/*
	 * Each command changes the next two cache lines, if spinlock_t has four
	 * bytes: one by its submission and one by its completion. Both contain a
	 * part of @tags.
	 */
	spinlock_t		sq_lock ____cacheline_aligned_in_smp;
	unsigned int		blocked;
	u16			reserve;
	u16			sq_tail;
	u16			last_sq_tail;
	bool			tmo_armed;
	bool			aborting;
	unsigned long		tmo_next;
	u64			submitted;
	u64			bytes[2];
	u64			doorbells;
	struct nvme_uq_tags	tags;
	/* completion */
	spinlock_t		cq_lock;
	bool			cq_live;
	u16			cq_phase;
	const struct nvme_completion *cq_next;
	const struct nvme_completion *cq_end;
	u64			completed;
	u64			reaps;

	/* seldom changed */
	wait_queue_head_t	waitq;
	u64			spurious;
	u64			timeouts;
	u64			cancelled;
	u32			unpolled;
	u32			unpolled_done;
	struct delayed_work	poll_work;
	unsigned int		poll_pause;
	wait_queue_head_t	idle_wait;
	struct delayed_work	tmo_work;
	struct completion	deleted;
};

/* Return true if an entry is a new completion. */
static __always_inline bool nvme_uq_cqe_pending(const struct nvme_completion *cqe,
						u16 phase)
{
	return !((le16_to_cpu(READ_ONCE(cqe->status)) ^ phase) & 1);
}

/* Index and phase of the next completion. The caller holds cq_lock. */
static __always_inline u32 nvme_uq_cq_head(const struct nvme_uq *uq)
{
	return (u32)(uq->cq_next - uq->cqes) | (u32)uq->cq_phase << 16;
}

/**
 * struct nvme_uq_mems - memory of the open files of a controller's user queues
 * @lock:	held for reading to allocate memory, map it to user space or
 *		free it; for writing to revoke it
 * @revoked:	the driver was unbound and all memory was freed
 * @list_lock:	protects @list and @bytes; the innermost lock
 * @list:	all struct nvme_uq_mem, without pages if @revoked
 * @bytes:	bytes charged by all open files
 */
struct nvme_uq_mems {
	struct rw_semaphore	lock;
	bool			revoked;
	spinlock_t		list_lock;	/* list, bytes */
	struct list_head	list;
	u64			bytes;
};

/**
 * struct nvme_uq_ctrl - the user queues of a controller
 * @ctrl:	the controller
 * @node:	entry of nvme_subsystem.uq_ctrls
 * @disable_work: disables a controller that is being removed
 * @rw_wq:	marks memory of ended commands of kiocbs dirty
 * @requested:	queues that the module parameters ask for at this reset
 * @plan:	queues that this reset will create
 * @aborts:	aborts in flight for commands of user queues; atomic
 * @lists:	pool of PRP and SGL lists
 * @mems:	memory of open files
 * @fault:	injected faults, or NULL
 * @max:	size of @q
 * @nr:		number of queues in @q; never decreases
 * @q:		the queues
 */
struct nvme_uq_ctrl {
	struct nvme_ctrl	*ctrl;
	struct hlist_node	node;
	struct work_struct	disable_work;
	struct workqueue_struct	*rw_wq;
	struct nvme_uq_plan	requested;
	struct nvme_uq_plan	plan;
	atomic_t		aborts;
	struct dma_pool		*lists;
	struct nvme_uq_mems	mems;
#ifdef CONFIG_NVME_UQ_FAULT
	struct nvme_uq_fault	*fault;
#endif
	unsigned int		max;
	unsigned int		nr;
	struct nvme_uq		*q[] __counted_by(max);
};

/**
 * nvme_uq_count - number of queues of a controller
 * @uqc:	its user queues, or NULL
 *
 * A concurrent reset may add queues. The counted queues can be read from
 * nvme_uq_ctrl.q.
 *
 * Return: nvme_uq_ctrl.nr, or 0.
 */
static inline unsigned int nvme_uq_count(const struct nvme_uq_ctrl *uqc)
{
	/* pairs with the release in nvme_uq_add_queue() */
	return uqc ? smp_load_acquire(&uqc->nr) : 0;
}

/**
 * struct nvme_uq_node - a namespace as seen through a user queue
 * @list:	entry of the namespace's list of nodes in /dev
 * @ns:		the namespace; the node holds a reference
 * @uq:		the queue
 * @cdev:	/dev/ngXnYqZ
 * @dev:	its device
 *
 * A node is in /dev until its namespace is removed, and is freed after the last
 * close. An open file may belong to a node that is on no list any more. So the
 * namespace itself is marked as removed, see nvme_uq_ns_removed().
 */
struct nvme_uq_node {
	struct hlist_node	list;
	struct nvme_ns		*ns;
	struct nvme_uq		*uq;
	struct cdev		cdev;
	struct device		dev;
};

/**
 * struct nvme_uq_file - an open file of a node
 * @node:	the node
 * @issue_flags: issue flags that a command needs for nvme_uq_ops.submit_one;
 *		set once
 * @blocked_mask: bits of nvme_uq.blocked that apply to this file: all of them,
 *		except NVME_UQ_CLAIMED if the file has claimed the queue.
 *		Written under the queue's sq_lock.
 * @limit:	maximum number of commands in flight, 0 for none; under sq_lock.
 *		nvme_uq.file_limit applies too, see nvme_uq_file_limit().
 * @submitted:	commands ever submitted; under sq_lock
 * @waiting:	commands waiting for a tag or for the limit; under sq_lock
 * @file:	the open file, which holds a reference to the node
 * @waitq:	those of @limited that were not woken
 * @info:	page for nvme_uq.info from the first claim on, or NULL
 * @mem:	memory of the file, or NULL; set once
 * @completed:	commands ever completed; under cq_lock
 * @limited:	commands waiting for the limit of the file; under sq_lock and
 *		cq_lock
 *
 * Lives as long as the struct file. Commands, mappings and descriptors hold
 * references to the struct file. A completion writes only to the last cache
 * line, so it does not steal the first one from a CPU that submits.
 */
struct nvme_uq_file {
	struct nvme_uq_node	*node;
	unsigned int		issue_flags;
	unsigned int		blocked_mask;
	unsigned int		limit;
	u32			submitted;
	unsigned int		waiting;
	struct file		*file;
	wait_queue_head_t	waitq;
	struct nvme_uq_info	*info;
	struct nvme_uq_mem	*mem;

	u32			completed ____cacheline_aligned_in_smp;
	unsigned int		limited;
};

/**
 * nvme_uq_ns_removed - check whether the namespace of a node was removed
 * @node:	the node, in /dev or not
 *
 * By now, another namespace may use the same id. Under the queue's sq_lock the
 * result is exact: nvme_uq_remove_nodes() takes the sq_lock of each queue after
 * the namespace was marked. Without the lock, the check only avoids needless
 * work.
 *
 * Return: true if it was removed.
 */
static __always_inline bool nvme_uq_ns_removed(const struct nvme_uq_node *node)
{
	return test_bit(NVME_NS_REMOVING, &node->ns->flags);
}

/* Commands of an open file that are in flight. The caller holds sq_lock. */
static inline unsigned int nvme_uq_file_in_flight(const struct nvme_uq_file *uf)
{
	return uf->submitted - READ_ONCE(uf->completed);
}

/**
 * struct nvme_uq_io - a command that is being submitted
 * @cmd:	the command in memory that user space may change at any time:
 *		read each field only once
 * @ioucmd:	io_uring command to complete
 * @rw:		command of a kiocb to complete, or NULL; if set, @cmd and
 *		@ioucmd are not used
 * @file:	open file that the command is submitted to
 * @node:	the node of @file
 * @iov:	array to free after the last use of @iter, or NULL
 * @meta:	user address of the metadata
 * @meta_len:	length of the metadata, 0 for none
 * @nsid:	namespace id, already checked
 * @timeout:	in jiffies
 * @opcode:	opcode, already checked
 * @write:	the data goes to the device
 * @nowait:	the command must not sleep for a tag
 * @unpolled:	the queue is polled, but the command's ring does not poll
 * @pieces:	the memory of @file if it contains the data, or NULL
 * @offset:	offset of the data in @pieces
 * @iter:	the data; length 0 if there is none. If @pieces is set, only the
 *		length is valid.
 * @user:	pinned user memory, see struct nvme_uq_pdu
 * @data:	all data that is not in one segment, and metadata; or NULL
 * @phys:	data in one segment
 * @addr:	bus address of data in one segment
 * @len:	length of the data
 * @flags:	NVME_UQ_WRITE and so on
 *
 * ioctl.c or rw.c fills in the members before @user, the controller's driver
 * the others.
 *
 * The structure is on the stack. ioctl.c does not clear it first, because that
 * would be a considerable part of the cost of a command. For the most frequent
 * commands it is only in registers, see nvme_uq_write_sqe().
 */
struct nvme_uq_io {
	const struct nvme_uring_cmd *cmd;
	struct io_uring_cmd	*ioucmd;
	struct nvme_uq_rw	*rw;
	struct nvme_uq_file	*file;
	struct nvme_uq_node	*node;
	struct iovec		*iov;
	u64			meta;
	u32			meta_len;
	u32			nsid;
	unsigned int		timeout;
	u8			opcode;
	bool			write;
	bool			nowait;
	bool			unpolled;
	const struct nvme_uq_pieces *pieces;
	u64			offset;
	struct iov_iter		iter;

	unsigned long		user;
	struct nvme_uq_data	*data;
	phys_addr_t		phys;
	dma_addr_t		addr;
	u32			len;
	u8			flags;
};

/**
 * struct nvme_uq_ops - operations of a controller's driver
 * @submit_one:	start a frequent command that need not wait; call
 *		nvme_uq_queue() for all others
 * @submit:	start a command; -EIOCBQUEUED or an error. -E2BIG for a command
 *		of a kiocb: data in too many segments
 * @unpin_rw:	unpin the memory of a completed command of a kiocb. May sleep.
 * @iopoll:	poll the queue for a ring, unless it is an interrupt queue;
 *		return the number of commands that had a completion
 * @ring:	write a doorbell that was deferred to the end of a batch; under
 *		sq_lock
 * @reap:	complete all commands that have a completion, of all rings
 * @cq_page:	return a page of the completion queue; -EOPNOTSUPP if user space
 *		cannot map it. Called under claim_lock, if the queue has memory.
 * @mem_plan:	decide the size of an open file's memory, and return the maximum
 *		for all open files together; an error if there can be no memory
 * @mem_alloc:	allocate the memory; -ENOMEM, -EINTR if the task was killed, or
 *		-ENXIO if a revocation waits for the lock
 * @mem_free:	free the pages. @mem_plan, @mem_alloc and @mem_free are called
 *		under nvme_uq_mems.lock, with the driver bound.
 */
struct nvme_uq_ops {
	int (*submit_one)(struct nvme_uq_file *uf, struct io_uring_cmd *ioucmd,
			  unsigned int issue_flags);
	int (*submit)(struct nvme_uq *uq, struct nvme_uq_io *io);
	void (*unpin_rw)(struct nvme_uq_rw *rw);
	int (*iopoll)(struct nvme_uq *uq, struct io_comp_batch *iob,
		      unsigned int flags);
	void (*ring)(struct nvme_uq *uq);
	void (*reap)(struct nvme_uq *uq);
	struct page *(*cq_page)(struct nvme_uq *uq, unsigned long nr);
	int (*mem_plan)(struct nvme_uq *uq, struct nvme_uq_mem *mem, u64 *most);
	int (*mem_alloc)(struct nvme_uq *uq, struct nvme_uq_mem *mem);
	void (*mem_free)(struct nvme_uq *uq, struct nvme_uq_mem *mem);
};

struct vm_area_desc;

/* core.c */
void nvme_uq_block(struct nvme_uq *uq, unsigned int why);
void nvme_uq_unblock(struct nvme_uq *uq, unsigned int why);
void nvme_uq_add_ctrl(struct nvme_uq_ctrl *uqc);
void nvme_uq_del_ctrl(struct nvme_uq_ctrl *uqc);
void nvme_uq_add_queue(struct nvme_uq *uq);

static inline struct nvme_uq_node *nvme_uq_dev_node(struct device *dev)
{
	return container_of(dev, struct nvme_uq_node, dev);
}

/* ioctl.c */
extern const struct file_operations nvme_uq_fops;

int nvme_uq_queue(struct nvme_uq_file *uf, struct io_uring_cmd *ioucmd,
		  unsigned int issue_flags);

/* sysfs.c */
extern const struct attribute_group *nvme_uq_attr_groups[];

/* claim.c */
int nvme_uq_claim(struct nvme_uq_file *uf);
void nvme_uq_unclaim(struct nvme_uq_file *uf);
int nvme_uq_ioctl_unclaim(struct nvme_uq_file *uf);
void nvme_uq_set_claimable(struct nvme_uq *uq, bool claimable);
int nvme_uq_mmap_prepare(struct vm_area_desc *desc);
void nvme_uq_zap(struct nvme_uq *uq);
void nvme_uq_info_up(struct nvme_uq *uq);
void nvme_uq_info_down(struct nvme_uq *uq, u32 state);
void nvme_uq_info_gone(struct nvme_uq *uq, const struct nvme_ns *ns);

#endif /* _NVME_UQ_PRIVATE_H */
