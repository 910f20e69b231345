/* SPDX-License-Identifier: GPL-2.0 */
/*
 * NVMe user queues: hardware queues as character devices.
 *
 * Locks, in the order in which they nest:
 *
 *   nvme_uq_format_lock	mutex; which namespaces are stopped while their format
 *			is not known. Inside nvme_subsystem.lock.
 *   nvme_uq_ctrl.lock	mutex; the set of queues, freezes, passthru commands.
 *   nvme_uq_mems.lock	rw_semaphore; the memory of open files. Taken by page faults,
 *			and not held together with those above and below.
 *   nvme_uq.claim_lock	mutex; the owner of the queue and the memory that the
 *			owner can map. Taken by page faults.
 *   nvme_uq.sq_lock	submission queue, doorbell, @blocked, allocation of
 *			tags, limits, wait queues. Process context only.
 *   nvme_uq.cq_lock	completion queue, freeing of tags, @cq_live. Taken by
 *			the interrupt handler of an interrupt queue.
 *
 * sq_lock and cq_lock are held together only where submission and completion
 * must both be stopped: claiming a queue, setting the limit of a file, and
 * restarting timeouts. No command is submitted or completed with both held.
 *
 * A tag (struct nvme_uq_tags) goes from free to in flight under sq_lock, in
 * the same critical section that writes the submission queue entry, and back to
 * free under cq_lock, when its completion was seen or when the controller has
 * been disabled. There is no third state: memory allocation, page faults and
 * everything else that sleeps happen before the tag is taken.
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
#include <linux/llist.h>
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
#define NVME_UQ_FROZEN		BIT(2)	/* between start_freeze and unfreeze */
#define NVME_UQ_PASSTHRU	BIT(3)	/* admin command that changes formats */
#define NVME_UQ_DISABLED	BIT(4)	/* its controller, since its creation */
#define NVME_UQ_CLAIMED		BIT(5)	/* an open file has exclusive use */

/* bits for nvme_uq_iod.flags */
#define NVME_UQ_UNMAP		BIT(0)	/* @addr has to be unmapped */
#define NVME_UQ_META		BIT(1)	/* there is metadata */
#define NVME_UQ_WRITE		BIT(2)	/* memory to device */
#define NVME_UQ_ABORTED		BIT(3)	/* an abort was sent */
#define NVME_UQ_SGLIST		BIT(4)	/* @sglist is set */
#define NVME_UQ_UNPOLLED	BIT(5)	/* of a ring that does not poll */
#define NVME_UQ_RW		BIT(6)	/* @rw is set, and not @ioucmd */

/* In jiffies: what is further ahead looks as if it was past, with 32 bits. */
#define NVME_UQ_MAX_TIMEOUT	(INT_MAX / 2)

static inline unsigned int nvme_uq_timeout(u32 ms)
{
	return min_t(unsigned long, msecs_to_jiffies(ms), NVME_UQ_MAX_TIMEOUT);
}

/* More metadata than the largest transfer can have. */
#define NVME_UQ_MAX_META	SZ_1M

/* Interval of polling for a condition that has no wakeup. */
#define NVME_UQ_POLL_INTERVAL	(HZ / 50 ?: 1)

struct nvme_uq_mem;
struct nvme_uq_pieces;
struct nvme_uq_rw;
struct nvme_uq_sglist;

/**
 * struct nvme_uq_iod - a command in flight
 * @ioucmd:	io_uring command to complete
 * @rw:		command of a kiocb to complete
 * @owner:	either of them
 * @deadline:	when the command is overdue, in jiffies
 * @timeout:	timeout in jiffies, without NVME_UQ_GRACE
 * @addr:	bus address of data in one segment
 * @len:	length of data in one segment
 * @meta_len:	length of metadata
 * @meta_addr:	bus address of metadata
 * @sglist:	data in several segments
 * @flags:	NVME_UQ_UNMAP and so on
 * @opcode:	opcode, for messages
 * @file:	open file that the command was submitted to
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
	u32			meta_len;
	dma_addr_t		meta_addr;
	struct nvme_uq_sglist	*sglist;
	unsigned int		timeout;
	u16			flags;
	u8			opcode;
	struct nvme_uq_file	*file;
} __aligned(64);

/**
 * struct nvme_uq - a user queue
 * @ops:	operations of the controller's driver
 * @ctrl:	the controller
 * @id:		the Z of /dev/ngXnYqZ
 * @polled:	the queue is polled and has no interrupt
 * @dma_dev:	device for the DMA API
 * @qid:	its id on the controller
 * @depth:	entries of each ring; 0 if it has no memory
 * @vector:	its interrupt vector, if it is one for interrupts
 * @irq:	its interrupt, or -1
 * @iod:	commands in flight, indexed by tag
 * @meta_sgls:	an SGL descriptor for the metadata of each tag
 * @meta_sgls_dma: where the device finds @meta_sgls
 * @sq_cmds:	submission queue
 * @sq_dma:	where the device finds @sq_cmds
 * @cqes:	completion queue, in pages that hold nothing else
 * @cq_pages:	these pages, one after the other, or NULL if they cannot be
 *		mapped to user space
 * @cq_dma:	where the device finds @cqes
 * @sq_db:	doorbell of the submission queue
 * @cq_db:	doorbell of the completion queue
 * @dbbuf_sq_db: shadow doorbell of the submission queue, or NULL
 * @dbbuf_sq_ei: event index of the submission queue, or NULL
 * @dbbuf_cq_db: shadow doorbell of the completion queue, or NULL
 * @dbbuf_cq_ei: event index of the completion queue, or NULL
 * @force_sgl:	data is described by SGLs, else by PRPs
 * @meta_sgl_ok: metadata is described by SGLs too
 * @max_len:	the most data that ->submit_one() takes, in bytes; 0 without SGLs
 * @claim_lock:	protects @owner to @mappable; writers hold @sq_lock and @cq_lock
 *		too
 * @owner:	the open file that has claimed the queue, or NULL
 * @info:	its information page, or NULL
 * @info_base:	@submitted and @completed at the time of the claim
 * @mappable:	there is memory that a fault may map; @claim_lock is enough
 * @sq_lock:	protects what follows, up to @cq_lock
 * @blocked:	reasons to take no new commands, NVME_UQ_DOWN and so on
 * @reserve:	tags that a command leaves free unless it waits in @waitq: those
 *		beyond @limit, and one for each waiter
 * @sq_tail:	index of the next submission queue entry
 * @last_sq_tail: @sq_tail at the last doorbell, shadow or real
 * @tmo_armed:	@tmo_work is queued
 * @aborting:	an abort of one of its commands is under way; set by @tmo_work
 * @plug:	plug of the last task that deferred the doorbell
 * @tmo_next:	when @tmo_work runs, in jiffies
 * @submitted:	commands ever submitted
 * @doorbells:	writes to @sq_db
 * @limit:	commands that may be in flight, 0 for as many as there are tags
 * @file_limit:	the same for each open file
 * @queued:	commands waiting in @waitq
 * @waiting:	commands waiting in @waitq or for the limit of their file
 * @files:	open files of the queue's nodes
 * @waitq:	commands waiting for a tag, or for the queue to come up, in
 *		order
 * @tags:	command ids; allocated under @sq_lock, freed under @cq_lock
 * @cq_lock:	protects what follows
 * @cq_live:	the queue exists on the controller
 * @cq_phase:	phase of a new completion
 * @cq_next:	next completion queue entry
 * @cq_end:	end of the completion queue
 * @reaps:	times that completions were found
 * @completed:	commands ever completed
 * @spurious:	completions with an id that was not in flight
 * @timeouts:	commands that took too long
 * @cancelled:	commands that a reset ended
 * @rw_done:	commands of kiocbs that are done, the last one first; NULL when
 *		@cq_lock is not held
 * @unpolled:	commands ever submitted by rings that do not poll; under
 *		@sq_lock
 * @unpolled_done: those of them that have ended; under @cq_lock
 * @idle_wait:	tasks waiting for the queue to be idle
 * @poll_work:	polls a polled queue for rings that do not
 * @poll_pause:	last pause of @poll_work, in microseconds
 * @tmo_work:	finds commands that are overdue
 * @rw_dirty:	commands of kiocbs that are done, but for memory to mark dirty
 * @rw_work:	ends these
 * @deleted:	the controller has completed the deletion of a queue
 *
 * Lives from the first reset that asks for it until the last reference of the
 * controller is dropped, so a reference of a node is one of its queue. Between
 * resets the queue may not be on the controller (NVME_UQ_DOWN), or not be in
 * use (NVME_UQ_UNAVAILABLE).
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
	bool			mappable;

	/* submission */
	spinlock_t		sq_lock ____cacheline_aligned_in_smp;
	unsigned int		blocked;
	unsigned int		reserve;
	u16			sq_tail;
	u16			last_sq_tail;
	bool			tmo_armed;
	bool			aborting;
	struct blk_plug		*plug;
	unsigned long		tmo_next;
	u64			submitted;
	u64			doorbells;
	unsigned int		limit;
	unsigned int		file_limit;
	unsigned int		queued;
	unsigned int		waiting;
	struct list_head	files;
	wait_queue_head_t	waitq;
	struct nvme_uq_tags	tags;

	/* completion */
	spinlock_t		cq_lock ____cacheline_aligned_in_smp;
	bool			cq_live;
	u16			cq_phase;
	const struct nvme_completion *cq_next;
	const struct nvme_completion *cq_end;
	u64			reaps;
	u64			completed;
	u64			spurious;
	u64			timeouts;
	u64			cancelled;
	struct nvme_uq_rw	*rw_done;

	u32			unpolled;
	u32			unpolled_done;
	struct delayed_work	poll_work;
	unsigned int		poll_pause;
	wait_queue_head_t	idle_wait;
	struct delayed_work	tmo_work;
	struct llist_head	rw_dirty;
	struct work_struct	rw_work;
	struct completion	deleted;
};

/* Return true if an entry is a new completion. */
static __always_inline bool nvme_uq_cqe_pending(const struct nvme_completion *cqe,
						u16 phase)
{
	return !((le16_to_cpu(READ_ONCE(cqe->status)) ^ phase) & 1);
}

/* Index and phase of the next completion. With cq_lock held. */
static __always_inline u32 nvme_uq_cq_head(const struct nvme_uq *uq)
{
	return (u32)(uq->cq_next - uq->cqes) | (u32)uq->cq_phase << 16;
}

/**
 * struct nvme_uq_mems - memory of the open files of a controller's user queues
 * @lock:	held for reading while memory is allocated, mapped to user space or
 *		freed; for writing to revoke it
 * @revoked:	the driver was unbound: there is no memory any more
 * @list_lock:	protects what follows; the innermost
 * @list:	each struct nvme_uq_mem that has pages
 * @bytes:	their sizes together
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
 * @disable_work: disables a controller that is being removed
 * @lock:	protects what follows
 * @requested:	queues that the module parameters ask for at this reset
 * @plan:	queues that this reset creates
 * @aborts:	aborts in flight for commands of user queues; atomic
 * @passthrus:	admin commands in flight that block user queues
 * @frozen:	between nvme_start_freeze() and nvme_unfreeze()
 * @small:	pool of lists of NVME_UQ_SMALL_LIST bytes
 * @large:	pool of lists of one page
 * @mems:	memory of open files
 * @fault:	faults for tests, or NULL
 * @max:	size of @q
 * @nr:		queues in @q; only ever grows
 * @q:		the queues
 */
struct nvme_uq_ctrl {
	struct nvme_ctrl	*ctrl;
	struct work_struct	disable_work;
	struct mutex		lock;	/* passthrus, frozen, growing of q */
	struct nvme_uq_plan	requested;
	struct nvme_uq_plan	plan;
	atomic_t		aborts;
	unsigned int		passthrus;
	bool			frozen;
	struct dma_pool		*small;
	struct dma_pool		*large;
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
 * A reset may add queues at the same time. Those that are counted can be read from
 * nvme_uq_ctrl.q.
 *
 * Return: nvme_uq_ctrl.nr, or 0.
 */
static inline unsigned int nvme_uq_count(const struct nvme_uq_ctrl *uqc)
{
	/* pairs with the release in nvme_uq_alloc() */
	return uqc ? smp_load_acquire(&uqc->nr) : 0;
}

/**
 * struct nvme_uq_node - one namespace seen through one user queue
 * @list:	the namespace's nodes that are in /dev
 * @ns:		the namespace, of which a reference is held
 * @uq:		the queue
 * @cdev:	/dev/ngXnYqZ
 * @dev:	its device
 *
 * A node leaves /dev when its queue is not available or its namespace is
 * removed, and is freed when it is no longer open. An open file may belong to a
 * node that is on no list any more, so the namespace itself says whether it was
 * removed, see nvme_uq_ns_removed().
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
 * @issue_flags: issue flags of commands for which nvme_uq_ops.submit_one is
 *		called; set once
 * @blocked_mask: bits of nvme_uq.blocked that apply to this file: all of them,
 *		except NVME_UQ_CLAIMED if the file has claimed the queue.
 *		Written under the queue's sq_lock.
 * @requested:	limit that the file has requested, 0 for none; under sq_lock
 * @limit:	minimum of @requested and nvme_uq.file_limit, 0 for none; under
 *		sq_lock
 * @submitted:	commands ever submitted; under sq_lock
 * @charged:	commands counted against @limit that wait for a tag; under
 *		sq_lock
 * @queued:	commands waiting in @waitq; under sq_lock
 * @waiting:	commands waiting in @waitq or in that of the queue; under
 *		sq_lock
 * @file:	the open file, which holds a reference of the node
 * @list:	entry of nvme_uq.files; under sq_lock
 * @waitq:	commands waiting for @limit, in order
 * @info:	page for nvme_uq.info if the file has claimed the queue, or NULL
 * @mem:	its memory, or NULL; set once
 * @completed:	commands ever completed; under cq_lock
 * @limited:	@limit is not 0; under sq_lock and cq_lock
 *
 * Lives as long as the struct file, of which commands, mappings and descriptors
 * hold references. A completion writes to the last cache line only, so that it
 * does not take the other one from a CPU that submits.
 */
struct nvme_uq_file {
	struct nvme_uq_node	*node;
	unsigned int		issue_flags;
	unsigned int		blocked_mask;
	unsigned int		requested;
	unsigned int		limit;
	u32			submitted;
	unsigned int		charged;
	unsigned int		queued;
	unsigned int		waiting;
	struct file		*file;
	struct list_head	list;
	wait_queue_head_t	waitq;
	struct page		*info;
	struct nvme_uq_mem	*mem;

	u32			completed ____cacheline_aligned_in_smp;
	bool			limited;
};

/**
 * nvme_uq_ns_removed - check whether the namespace of a node was removed
 * @node:	the node, in /dev or not
 *
 * Another namespace may have the same id by now. Under the queue's sq_lock the
 * result is exact: nvme_uq_remove_nodes() takes the sq_lock of each queue after
 * the namespace was marked. Elsewhere the check only avoids needless work.
 *
 * Return: true if it was removed.
 */
static __always_inline bool nvme_uq_ns_removed(const struct nvme_uq_node *node)
{
	return test_bit(NVME_NS_REMOVING, &node->ns->flags);
}

/**
 * nvme_uq_ns_stopped - check whether the namespace of a node takes no commands
 * @node:	the node
 *
 * It was removed, or its format may be another one than the driver knows, see
 * nvme_uq_passthru_start(). Exact under the queue's sq_lock.
 *
 * Return: true if it takes none, now or ever.
 */
static __always_inline bool nvme_uq_ns_stopped(const struct nvme_uq_node *node)
{
	return READ_ONCE(node->ns->flags) &
		(BIT(NVME_NS_REMOVING) | BIT(NVME_NS_UQ_STALE));
}

/* Commands of an open file that are in flight. With sq_lock held. */
static inline unsigned int nvme_uq_file_in_flight(const struct nvme_uq_file *uf)
{
	return uf->submitted - READ_ONCE(uf->completed);
}

/**
 * struct nvme_uq_io - a command that is being submitted
 * @cmd:	the command in memory that user space may change at any time, so
 *		each field is read once
 * @ioucmd:	io_uring command to complete
 * @rw:		command of a kiocb to complete, and @cmd and @ioucmd are not used;
 *		or NULL
 * @file:	open file that the command is submitted to
 * @node:	the node of @file
 * @iov:	array to free once @iter is no longer used, or NULL
 * @meta:	user address of the metadata
 * @meta_len:	length of the metadata, 0 for none
 * @nsid:	namespace id, which was checked
 * @timeout:	in jiffies
 * @opcode:	opcode, which was checked
 * @write:	the data goes to the device
 * @nowait:	the command must not sleep for a tag
 * @unpolled:	the queue is polled, but not by the ring of the command
 * @pieces:	the memory of @file if it has the data, or NULL
 * @offset:	where the data is in @pieces
 * @iter:	the data; of length 0 if there is none. With @pieces only the
 *		length is set.
 * @user:	pinned user memory, see struct nvme_uq_pdu
 * @sglist:	data in several segments, or NULL
 * @phys:	data in one segment
 * @metabuf:	copy of the metadata for the device, or NULL
 * @addr:	bus address of data in one segment
 * @meta_addr:	bus address of @metabuf
 * @len:	length of the data
 * @flags:	NVME_UQ_WRITE and so on
 *
 * ioctl.c fills in the members before @user, the driver of the controller the
 * others, and all of them for a kiocb. The structure is on the stack and is not
 * cleared first, as that would be a considerable part of the cost of a command. The
 * most frequent commands do without it, see nvme_uq_pci_submit_one().
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
	struct nvme_uq_sglist	*sglist;
	phys_addr_t		phys;
	void			*metabuf;
	dma_addr_t		addr;
	dma_addr_t		meta_addr;
	u32			len;
	u8			flags;
};

/**
 * struct nvme_uq_ops - operations of the driver of a controller
 * @submit_one:	start a command that need not wait, if it is one of the most
 *		frequent ones; else call nvme_uq_queue()
 * @submit:	start a command; -EIOCBQUEUED or an error
 * @submit_rw:	start a command of a kiocb; -EIOCBQUEUED or an error. The iterator
 *		has as many bytes as the command, and may be advanced.
 * @unpin_rw:	unpin the memory of such a command, which is done. May sleep.
 * @iopoll:	->uring_cmd_iopoll of a polled queue
 * @ring:	write a doorbell that was deferred to the end of a batch; with
 *		sq_lock held
 * @reap:	complete the commands of all rings that have a completion
 * @cq_page:	return a page of the completion queue; -EOPNOTSUPP if it cannot
 *		be mapped to user space. Under claim_lock, with
 *		nvme_uq.mappable set.
 * @mem_plan:	decide the size of an open file's memory, and set the most that
 *		all can have together; an error if there can be none
 * @mem_alloc:	allocate it; -ENOMEM, or -EINTR if the task was killed
 * @mem_free:	free its pages. All three under nvme_uq_mems.lock, with the driver
 *		bound.
 */
struct nvme_uq_ops {
	int (*submit_one)(struct nvme_uq_file *uf, struct io_uring_cmd *ioucmd,
			  unsigned int issue_flags);
	int (*submit)(struct nvme_uq *uq, struct nvme_uq_io *io);
	int (*submit_rw)(struct nvme_uq_file *uf, struct nvme_uq_rw *rw,
			 const struct iov_iter *iter);
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
int nvme_uq_mmap_prepare(struct vm_area_desc *desc);
void nvme_uq_set_mappable(struct nvme_uq *uq, bool mappable);
void nvme_uq_info_up(struct nvme_uq *uq);
void nvme_uq_info_down(struct nvme_uq *uq, u32 state);
void nvme_uq_info_gone(struct nvme_uq *uq, const struct nvme_ns *ns);

#endif /* _NVME_UQ_PRIVATE_H */
