/* SPDX-License-Identifier: GPL-2.0 */
/*
 * NVMe user queues: hardware queues as character devices.
 *
 * Locks, in the order in which they nest:
 *
 *   nvme_uq_ctrl.lock	mutex; which queues there are and who holds them back.
 *   nvme_uq.claim_lock	mutex; memory that can be mapped, who has claimed it.
 *			Taken by page faults.
 *   nvme_uq.sq_lock	submission queue, doorbell, @blocked, taking of tags,
 *			limits, lines. Process context only.
 *   nvme_uq.cq_lock	completion queue, giving back of tags, @cq_live. Taken
 *			by the interrupt handler of an interrupt queue.
 *
 * sq_lock and cq_lock are held together only where both sides of the queue have
 * to stand still: claims, a file that gets a limit, and commands whose time
 * starts again. Not for a command.
 *
 * A tag (struct nvme_uq_tags) goes from free to in flight under sq_lock, in
 * the same critical section that writes the submission queue entry, and back to
 * free under cq_lock, when its completion was seen or when the controller has
 * been disabled. There is no third state: what needs memory, faults or sleeps
 * happens before the tag is taken.
 *
 * Documentation/nvme/user-queues.rst has the whole story.
 */
#ifndef _NVME_UQ_PRIVATE_H
#define _NVME_UQ_PRIVATE_H

#include <linux/cdev.h>
#include <linux/device.h>
#include <linux/interrupt.h>
#include <linux/io_uring/cmd.h>
#include <linux/mutex.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <linux/uio.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "../nvme.h"
#include "dptr.h"
#include "plan.h"
#include "tag.h"

/* Why a queue takes no new commands; see nvme_uq.blocked. */
#define NVME_UQ_UNAVAILABLE	BIT(0)	/* not asked for, or not to be had */
#define NVME_UQ_DOWN		BIT(1)	/* not created on the controller now */
#define NVME_UQ_FROZEN		BIT(2)	/* nvme_start_freeze() */
#define NVME_UQ_PASSTHRU	BIT(3)	/* a command that changes the format */
#define NVME_UQ_CLAIMED		BIT(4)	/* an open file has it to itself */

/* bits for nvme_uq_iod.flags */
#define NVME_UQ_UNMAP		BIT(0)	/* @addr has to be unmapped */
#define NVME_UQ_META		BIT(1)	/* there is metadata */
#define NVME_UQ_WRITE		BIT(2)	/* memory to device */
#define NVME_UQ_ABORTED		BIT(3)	/* an abort was sent */
#define NVME_UQ_SGLIST		BIT(4)	/* @sglist is set */
#define NVME_UQ_UNPOLLED	BIT(5)	/* of a ring that does not poll */

/* More metadata than the largest transfer can have is nobody's honest wish. */
#define NVME_UQ_MAX_META	SZ_1M

/* How often to look when nobody is bound to tell. */
#define NVME_UQ_POLL_INTERVAL	(HZ / 50 ?: 1)

struct nvme_uq_sglist;

/**
 * struct nvme_uq_iod - a command in flight
 * @ioucmd:	whom to tell
 * @deadline:	when it has taken too long, in jiffies
 * @timeout:	how long it may take, in jiffies, without NVME_UQ_GRACE
 * @addr:	bus address of data in one piece
 * @len:	length of data in one piece
 * @meta_len:	length of metadata
 * @meta_addr:	bus address of metadata
 * @sglist:	data in more than one piece
 * @opcode:	for the log
 * @flags:	NVME_UQ_UNMAP and so on
 * @file:	where it came in
 */
struct nvme_uq_iod {
	struct io_uring_cmd	*ioucmd;
	unsigned long		deadline;
	dma_addr_t		addr;
	u32			len;
	u32			meta_len;
	dma_addr_t		meta_addr;
	struct nvme_uq_sglist	*sglist;
	unsigned int		timeout;
	u8			opcode;
	u8			flags;
	struct nvme_uq_file	*file;
} __aligned(64);

/**
 * struct nvme_uq - a user queue
 * @ops:	how commands get to the device
 * @ctrl:	the controller
 * @id:		the Z of its nodes
 * @polled:	of which kind it is
 * @dma_dev:	for the DMA API
 * @qid:	its id on the controller
 * @depth:	entries of each ring; 0 if it has no memory
 * @vector:	its interrupt vector, if it is one for interrupts
 * @irq:	its interrupt, or -1
 * @iod:	what is in flight, by the number of the tag
 * @small:	a list for each tag
 * @meta_sgls:	an SGL descriptor for the metadata of each tag
 * @meta_sgls_dma: where the device finds @meta_sgls
 * @sq_cmds:	submission queue
 * @sq_dma:	where the device finds @sq_cmds
 * @cqes:	completion queue, in pages that hold nothing else
 * @cq_dma:	where the device finds @cqes
 * @sq_db:	doorbell of the submission queue
 * @cq_db:	doorbell of the completion queue
 * @dbbuf_sq_db: shadow doorbell of the submission queue, or NULL
 * @dbbuf_sq_ei: up to where the device wants no real one
 * @dbbuf_cq_db: shadow doorbell of the completion queue, or NULL
 * @dbbuf_cq_ei: up to where the device wants no real one
 * @force_sgl:	data is described by SGLs, else by PRPs
 * @meta_sgl_ok: metadata too
 * @claim_lock:	for what follows, which is written under @sq_lock and @cq_lock too
 * @owner:	the open file that has claimed the queue, or NULL
 * @info:	its information page, or NULL
 * @info_base:	@submitted and @completed at the time of the claim
 * @mappable:	there is memory that a fault may map; @claim_lock is enough
 * @sq_lock:	for what follows
 * @blocked:	why no new commands are taken, NVME_UQ_DOWN and so on
 * @reserve:	tags that a newcomer leaves free: those beyond @limit and one for
 *		each who waits in @waitq
 * @sq_tail:	where the next command goes
 * @last_sq_tail: what the device was last told of @sq_tail
 * @db_tail:	what was last written to @sq_db
 * @plug:	the last task's plug that a doorbell waits for
 * @tmo_armed:	@tmo_work is going to run
 * @tmo_next:	when, in jiffies
 * @aborting:	an abort of one of its commands is under way; set by @tmo_work
 * @doorbells:	writes to @sq_db
 * @submitted:	commands ever submitted
 * @limit:	how many may be in flight, 0 for as many as there are tags
 * @file_limit:	the same for each open file
 * @queued:	how many wait in @waitq
 * @waiting:	how many wait in @waitq or for their file
 * @files:	open files of the queue's nodes
 * @waitq:	who waits for a tag, or for the queue to come up, in order
 * @tags:	command ids; taken under @sq_lock, given back under @cq_lock
 * @cq_lock:	for what follows
 * @cq_live:	there may be completions
 * @cq_phase:	phase of a new completion
 * @cq_next:	where it comes
 * @cq_end:	what is behind the last entry
 * @reaps:	how often completions were found
 * @completed:	commands ever ended
 * @spurious:	completions with an id that was not in flight
 * @timeouts:	commands that took too long
 * @cancelled:	commands that a reset ended
 * @unpolled:	commands ever submitted by rings that do not poll; under @sq_lock
 * @unpolled_done: those of them that have ended; under @cq_lock
 * @idle_wait:	for the queue to fall idle
 * @poll_work:	polls a polled queue for rings that do not
 * @poll_pause:	how long it slept last, in microseconds; its own
 * @tmo_work:	looks for commands that are overdue
 * @deleted:	the controller has answered to the deletion of a queue
 *
 * Lives from the first reset that asks for it until the controller's last
 * reference is gone, so that whoever holds a node holds its queue. Between
 * resets it may be without a queue on the controller (NVME_UQ_DOWN) or be out
 * of use (NVME_UQ_UNAVAILABLE).
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
	struct nvme_uq_list	*small;
	void			*meta_sgls;
	dma_addr_t		meta_sgls_dma;
	void			*sq_cmds;
	dma_addr_t		sq_dma;
	struct nvme_completion	*cqes;
	dma_addr_t		cq_dma;
	u32 __iomem		*sq_db;
	u32 __iomem		*cq_db;
	__le32			*dbbuf_sq_db;
	__le32			*dbbuf_sq_ei;
	__le32			*dbbuf_cq_db;
	__le32			*dbbuf_cq_ei;
	bool			force_sgl;
	bool			meta_sgl_ok;

	/* who has the queue to himself */
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
	u16			db_tail;
	struct blk_plug		*plug;
	bool			tmo_armed;
	unsigned long		tmo_next;
	bool			aborting;
	u64			doorbells;
	u64			submitted;
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

	u32			unpolled;
	u32			unpolled_done;
	struct delayed_work	poll_work;
	unsigned int		poll_pause;
	wait_queue_head_t	idle_wait;
	struct delayed_work	tmo_work;
	struct completion	deleted;
};

/* Is this a completion? */
static __always_inline bool nvme_uq_cqe_pending(const struct nvme_completion *cqe,
						u16 phase)
{
	return !((le16_to_cpu(READ_ONCE(cqe->status)) ^ phase) & 1);
}

/* Where the next completion comes, and with what phase. With cq_lock held. */
static __always_inline u32 nvme_uq_cq_head(const struct nvme_uq *uq)
{
	return (u32)(uq->cq_next - uq->cqes) | (u32)uq->cq_phase << 16;
}

/**
 * struct nvme_uq_ctrl - the user queues of a controller
 * @ctrl:	the controller
 * @disable_work: disables a controller that is on its way out
 * @lock:	for all that follows
 * @requested:	how many queues the parameters asked this reset for
 * @plan:	how many it brings up
 * @aborts:	aborts under way for commands of user queues; atomic
 * @passthrus:	commands under way that keep user queues still
 * @frozen:	between nvme_start_freeze() and nvme_unfreeze()
 * @small:	pool of lists that belong to tags
 * @large:	pool of lists of one page
 * @fault:	faults for tests, or NULL
 * @max:	room in @q
 * @nr:		queues in @q; only ever grows
 * @q:		the queues
 */
struct nvme_uq_ctrl {
	struct nvme_ctrl	*ctrl;
	struct work_struct	disable_work;
	struct mutex		lock;	/* holds, frozen, growing of q */
	struct nvme_uq_plan	requested;
	struct nvme_uq_plan	plan;
	atomic_t		aborts;
	unsigned int		passthrus;
	bool			frozen;
	struct dma_pool		*small;
	struct dma_pool		*large;
#ifdef CONFIG_NVME_UQ_FAULT
	struct nvme_uq_fault	*fault;
#endif
	unsigned int		max;
	unsigned int		nr;
	struct nvme_uq		*q[] __counted_by(max);
};

/**
 * struct nvme_uq_node - one namespace seen through one user queue
 * @list:	the namespace's nodes that are in /dev
 * @ns:		the namespace, of which a reference is held
 * @uq:		the queue
 * @cdev:	/dev/ngXnYqZ
 * @dev:	its device
 *
 * A node leaves /dev when its queue is absent or its namespace is removed, and
 * lives on while it is open. So an open file may belong to a node that is on no
 * list any more: whether its namespace is still there is a question to the
 * namespace, see nvme_uq_ns_removed().
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
 * @blocked_mask:	bits of nvme_uq.blocked that stop it: all, but for
 *		NVME_UQ_CLAIMED if it has claimed the queue. Written under the
 *		queue's sq_lock.
 * @requested:	limit that was asked for, 0 for none; under sq_lock
 * @limit:	the less of that and nvme_uq.file_limit, 0 for none; under sq_lock
 * @submitted:	commands ever submitted; under sq_lock
 * @charged:	commands that have leave by @limit and wait for a tag; under
 *		sq_lock
 * @queued:	how many wait in @waitq; under sq_lock
 * @waiting:	how many wait in @waitq or in that of the queue; under sq_lock
 * @file:	the open file, which holds the node
 * @list:	in nvme_uq.files; under sq_lock
 * @waitq:	who waits for @limit, in order
 * @info:	page for nvme_uq.info if it has claimed the queue, or NULL
 * @completed:	commands that have ended; under cq_lock
 * @limited:	there is a @limit; under sq_lock and cq_lock
 *
 * Lives as long as the file, which its commands, mappings and descriptors hold.
 * A completion touches the last cache line only, so that it does not take the
 * other one from a processor that submits.
 */
struct nvme_uq_file {
	struct nvme_uq_node	*node;
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

	u32			completed ____cacheline_aligned_in_smp;
	bool			limited;
};

/**
 * nvme_uq_ns_removed - was the namespace of a node removed?
 * @node:	the node, in /dev or not
 *
 * Another namespace may have its id by now. Under the queue's sq_lock the answer
 * is exact: nvme_uq_remove_nodes() takes that of each queue after the namespace
 * was marked. Elsewhere it spares work that would be in vain.
 *
 * Return: true if it was, which is for good.
 */
static __always_inline bool nvme_uq_ns_removed(const struct nvme_uq_node *node)
{
	return test_bit(NVME_NS_REMOVING, &node->ns->flags);
}

/* Commands of an open file that are in flight. With sq_lock held. */
static inline unsigned int nvme_uq_file_in_flight(const struct nvme_uq_file *uf)
{
	return uf->submitted - READ_ONCE(uf->completed);
}

/**
 * struct nvme_uq_io - a command on its way to the device
 * @cmd:	what user space asks for; it may change it at any time, so each
 *		field is read once
 * @ioucmd:	whom to tell
 * @file:	where it came in
 * @node:	the node of @file
 * @iov:	to be freed once @iter is of no more use, or NULL
 * @meta:	user address of the metadata
 * @meta_len:	length of the metadata, 0 for none
 * @nsid:	namespace, which was checked
 * @timeout:	in jiffies
 * @opcode:	which was checked
 * @write:	memory to device
 * @nowait:	may not sleep for a tag
 * @iter:	the data; of no length if there is none
 * @user:	what is held of user space, see struct nvme_uq_pdu
 * @sglist:	data in more than one piece, or NULL
 * @phys:	data in one piece
 * @metabuf:	metadata, where the device can reach it, or NULL
 * @addr:	bus address of data in one piece
 * @meta_addr:	bus address of @metabuf
 * @len:	length of the data
 * @flags:	NVME_UQ_WRITE and so on
 *
 * The front half fills in what comes before @user and hands it to the back half,
 * which fills in the rest. It is on the stack of every command, where clearing
 * it first would be a good part of the work.
 */
struct nvme_uq_io {
	const struct nvme_uring_cmd *cmd;
	struct io_uring_cmd	*ioucmd;
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
 * struct nvme_uq_ops - what the driver of a controller does for user queues
 * @submit:	start a command; -EIOCBQUEUED or an error
 * @submit_unpolled: the same on a polled queue, for a ring that does not poll
 * @iopoll:	->uring_cmd_iopoll of a polled queue
 * @ring:	write the doorbell that the end of a batch would have written; with
 *		sq_lock held
 * @reap:	look for completions on behalf of nobody in particular
 * @cq_page:	a page of the completion queue; -EOPNOTSUPP if it is not one that
 *		looks to user space as others do, -ENOMEM. Under claim_lock, with
 *		nvme_uq.mappable set.
 */
struct nvme_uq_ops {
	int (*submit)(struct nvme_uq *uq, struct nvme_uq_io *io);
	int (*submit_unpolled)(struct nvme_uq *uq, struct nvme_uq_io *io);
	int (*iopoll)(struct nvme_uq *uq, struct io_comp_batch *iob,
		      unsigned int flags);
	void (*ring)(struct nvme_uq *uq);
	void (*reap)(struct nvme_uq *uq);
	struct page *(*cq_page)(struct nvme_uq *uq, unsigned long nr);
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
