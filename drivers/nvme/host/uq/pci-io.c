// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: submission of commands.
 *
 * Part of the PCI driver. Documentation/nvme/user-queues.rst documents the
 * lifecycle of a command.
 */
#include <kunit/visibility.h>
#include <linux/blkdev.h>
#include <linux/bvec.h>
#include <linux/err.h>
#include <linux/io.h>
#include <linux/nvme_ioctl.h>
#include <linux/slab.h>

#include "../uq.h"
#include "mem.h"
#include "pci.h"
#include "trace.h"

/*
 * Return true if the doorbell is deferred to the end of the batch. io_uring
 * plugs submissions of more than two commands. nvme_uq.plug caches that the
 * plug already has a callback.
 */
static __always_inline bool nvme_uq_defer_doorbell(struct nvme_uq *uq,
						   struct nvme_uq_file *uf)
{
	struct blk_plug *plug = current->plug;

	if (!plug)
		return false;
	if (likely(READ_ONCE(uq->plug) == plug))
		return true;
	return nvme_uq_add_plug(uq, uf->file);
}

/*
 * DMA
 */

/*
 * Map a prepared command. Called under RCU, so that nvme_uq_quiesce() can wait:
 * no memory is mapped for a device that is being unbound.
 */
static __always_inline int nvme_uq_dma_map(struct nvme_uq *uq,
					   struct nvme_uq_io *io, bool fast)
{
	io->flags = 0;
	if (!fast) {
		if (io->write)
			io->flags |= NVME_UQ_WRITE;
		if (io->rw)
			io->flags |= NVME_UQ_RW;
		if (io->unpolled)
			io->flags |= NVME_UQ_UNPOLLED;
		if (!io->len)
			return 0;
		if (io->data)
			return nvme_uq_dma_map_data(uq, io);
	}
	return unlikely(io->pieces) ? 0 : nvme_uq_dma_map_one(uq, io);
}

static struct nvme_uq_fmt nvme_uq_get_fmt(const struct nvme_uq_node *node)
{
	const struct nvme_ns_head *head = node->ns->head;

	return (struct nvme_uq_fmt){
		.csi		= head->ids.csi,
		.lba_shift	= head->lba_shift,
		.ms		= head->ms,
		.pi_size	= head->pi_type ? head->pi_size : 0,
		.ext		= head->features & NVME_NS_EXT_LBAS,
	};
}

static void nvme_uq_set_one(struct nvme_uq *uq, struct nvme_command *c,
			    const struct nvme_uq_io *io, u32 moved)
{
	dma_addr_t second;
	u64 prp2;

	c->common.dptr.prp1 = cpu_to_le64(io->addr);
	if (uq->force_sgl) {
		/* one store for length, reserved bytes and type */
		static_assert(NVME_SGL_FMT_DATA_DESC == 0);
		c->common.flags = NVME_CMD_SGL_METABUF;
		c->common.dptr.prp2 = cpu_to_le64(io->len);
		return;
	}

	if (io->pieces) {
		/* nvme_uq_is_simple() has checked that one PRP2 is enough */
		nvme_uq_pieces_prp2(io->pieces, io->offset, moved, &prp2);
		c->common.dptr.prp2 = cpu_to_le64(prp2);
		return;
	}
	second = round_down(io->addr, NVME_CTRL_PAGE_SIZE) +
		NVME_CTRL_PAGE_SIZE;
	if (io->addr + io->len > second)
		c->common.dptr.prp2 = cpu_to_le64(second);
}

/* Preparation: everything that may sleep, before a tag is taken */

static int nvme_uq_prep(struct nvme_uq *uq, struct nvme_uq_io *io)
{
	size_t len = io->iter.count;
	int ret;

	io->user = 0;
	io->data = NULL;
	io->addr = 0;
	io->len = len;
	/* an empty vector: without data, no metadata is mapped */
	if (!len)
		return io->meta_len ? -EINVAL : 0;
	if (unlikely(len > (u64)uq->ctrl->max_hw_sectors << SECTOR_SHIFT))
		return -EINVAL;

	ret = nvme_uq_prep_memory(io);
	/* a task that waits marks the memory after the transfer */
	if (io->rw && io->rw->iocb && io->user && !io->write && !ret)
		nvme_uq_dirty_user(io->user);
	if (unlikely(ret))
		nvme_uq_unpin_user(io->user, false);
	/* while the command waits, it needs no copy of the vector */
	kfree(io->iov);
	io->iov = NULL;
	return ret;
}

/*
 * Submission
 */

/*
 * Copy the dwords of a command that the device gets unchanged. Later checks use
 * the copy. Volatile accesses, two dwords at a time, make the copy, so that the
 * compiler cannot read again: user space may have changed the original.
 */
static __always_inline void
nvme_uq_copy_dwords(struct nvme_command *c, const struct nvme_uring_cmd *cmd)
{
	const u64 *from2 = (const u64 *)&cmd->cdw2;
	const u64 *from10 = (const u64 *)&cmd->cdw10;
	u64 *to2 = (u64 *)c->common.cdw2;
	u64 *to10 = (u64 *)&c->common.cdws;

	static_assert(sizeof(c->common.cdw2) == sizeof(*to2));
	static_assert(sizeof(c->common.cdws) == 3 * sizeof(*to10));
	static_assert(sizeof(c->common.cdws) ==
		      offsetofend(struct nvme_uring_cmd, cdw15) -
		      offsetof(struct nvme_uring_cmd, cdw10));

	*to2 = READ_ONCE(*from2);
	to10[0] = READ_ONCE(from10[0]);
	to10[1] = READ_ONCE(from10[1]);
	to10[2] = READ_ONCE(from10[2]);
	cpu_to_le32_array((u32 *)c->common.cdw2, 2);
	cpu_to_le32_array((u32 *)&c->common.cdws, 6);
}

/*
 * Set the dwords of a command of a kiocb. The caller holds sq_lock, and the
 * queue is not blocked. So no command is changing the format now, but the
 * format may have changed since the transfer was checked.
 */
static noinline int nvme_uq_set_rw(struct nvme_command *c,
				   const struct nvme_ns_head *head,
				   const struct nvme_uq_rw *rw)
{
	unsigned int shift = head->lba_shift;

	if (unlikely(((u32)rw->pos | rw->len) & ((1U << shift) - 1)))
		return -EINVAL;
	if (unlikely(head->ms))
		return -EOPNOTSUPP;
	memset(c->common.cdw2, 0, sizeof(c->common.cdw2));
	memset(&c->common.cdws, 0, sizeof(c->common.cdws));
	c->rw.slba = cpu_to_le64(rw->pos >> shift);
	c->rw.length = cpu_to_le16((rw->len >> shift) - 1);
	c->rw.control = cpu_to_le16(rw->control);
	return 0;
}

/*
 * Return true if the transfer cannot exceed the buffers. An SGL contains their
 * length. Without SGLs, check the fields of the command.
 */
static noinline bool nvme_uq_fits(struct nvme_uq *uq,
				  const struct nvme_command *c,
				  const struct nvme_uq_node *node,
				  u32 len, u32 meta_len)
{
	struct nvme_uq_fmt fmt = nvme_uq_get_fmt(node);

	if (!uq->force_sgl && nvme_uq_xfer_bytes(c, &fmt) > len)
		return false;
	if (uq->force_sgl && uq->meta_sgl_ok && meta_len)
		return true;
	return nvme_uq_meta_fits(c, &fmt, meta_len);
}

/*
 * Return true if the transfer of a command may exceed its data buffer in spite
 * of an SGL: the namespace has metadata, or its format was never read.
 */
static __always_inline bool nvme_uq_is_odd(const struct nvme_ns_head *head)
{
	return head->ms || head->lba_shift < SECTOR_SHIFT;
}

/*
 * Set the data and metadata pointers of a command. PRPs depend on the number of
 * bytes that it transfers; nvme_uq_fits() has checked that the buffer is large
 * enough. A command without a buffer that may transfer data gets an SGL of
 * length 0. With a PRP, the device would access address 0.
 */
static noinline void nvme_uq_set_dptr(struct nvme_uq *uq,
				      struct nvme_command *c,
				      const struct nvme_uq_io *io,
				      unsigned int idx)
{
	struct nvme_uq_fmt fmt = nvme_uq_get_fmt(io->node);
	u64 moved = 0;

	if (!uq->force_sgl || !io->len)
		moved = nvme_uq_xfer_bytes(c, &fmt);
	if (io->flags & NVME_UQ_DATA)
		nvme_uq_set_data(uq, c, io->data, max(moved, 1), idx);
	else if (io->len || (uq->force_sgl && moved))
		nvme_uq_set_one(uq, c, io, max(moved, 1));
}

/* For trace_nvme_uq_complete(). A later command may use the entry by then. */
static noinline void nvme_uq_trace_start(struct nvme_uq_iod *iod,
					 const struct nvme_command *c, u32 len)
{
	iod->start = ktime_get_ns();
	iod->slba = le64_to_cpu(c->rw.slba);
	iod->nsid = le32_to_cpu(c->common.nsid);
	iod->bytes = len;
}

/*
 * All commands, including those of kiocbs, are written by nvme_uq_write_sqe()
 * and tried by nvme_uq_try(). @fast is a compile time constant. It is true for
 * the most frequent commands: io_uring commands with data in one segment, no
 * metadata, the default timeout, and a controller with SGLs. They need few of
 * the steps. No function that is not inlined may get a pointer to their struct
 * nvme_uq_io, so that it is only in registers.
 */

/*
 * Write a submission queue entry and fill in its iod. The caller holds sq_lock.
 * The command is checked here, after user space can no longer change it.
 */
static __always_inline int nvme_uq_write_sqe(struct nvme_uq *uq,
					     struct nvme_uq_io *io, bool fast)
{
	struct nvme_command *c = uq->sq_cmds + uq->sq_tail * sizeof(*c);
	const struct nvme_ns_head *head = io->node->ns->head;
	unsigned int timeout = fast ? nvme_uq_io_timeout(uq->ctrl) :
		io->timeout;
	unsigned long deadline = jiffies + timeout + NVME_UQ_GRACE;
	struct nvme_uq_iod *iod;
	unsigned int idx;
	int ret;

	c->common.opcode = io->opcode;
	c->common.flags = fast ? NVME_CMD_SGL_METABUF : 0;
	c->common.nsid = cpu_to_le32(fast ? head->ns_id : io->nsid);
	c->common.metadata = 0;
	c->common.dptr.prp1 = fast ? cpu_to_le64(io->addr) : 0;
	/* length, reserved bytes and type of the descriptor */
	c->common.dptr.prp2 = fast ? cpu_to_le64(io->len) : 0;
	if (fast || !io->rw) {
		nvme_uq_copy_dwords(c, io->cmd);
	} else {
		ret = nvme_uq_set_rw(c, head, io->rw);
		if (ret)
			return ret;
	}
	if (unlikely((!fast && !uq->force_sgl) || nvme_uq_is_odd(head)) &&
	    !nvme_uq_fits(uq, c, io->node, io->len, fast ? 0 : io->meta_len))
		return -EINVAL;

	idx = nvme_uq_tag_get(&uq->tags);
	iod = &uq->iod[idx];
	iod->owner = fast || !io->rw ? (void *)io->ioucmd : io->rw;
	iod->file = io->file;
	io->file->submitted++;
	iod->deadline = deadline;
	iod->timeout = timeout;
	iod->opcode = io->opcode;
	iod->flags = io->flags;
	/* for nvme_uq_dma_unmap() */
	if (unlikely(io->flags & NVME_UQ_UNMAP)) {
		iod->addr = io->addr;
		iod->len = io->len;
	}
	if (!fast) {
		iod->data = io->data;
		nvme_uq_set_dptr(uq, c, io, idx);
	}

	if (trace_nvme_uq_complete_enabled())
		nvme_uq_trace_start(iod, c, io->len);

	/*
	 * From here on the command may complete, and the submitter may be gone.
	 */
	c->common.command_id = nvme_uq_tag_arm(&uq->tags, idx);
	trace_nvme_uq_submit(uq, c, io->len);
	if (++uq->sq_tail == uq->depth)
		uq->sq_tail = 0;
	uq->submitted++;
	uq->bytes[io->write] += io->len;
	if (unlikely(!uq->tmo_armed || time_before(deadline, uq->tmo_next)))
		nvme_uq_arm_timeout(uq, deadline);
	return -EIOCBQUEUED;
}

/*
 * Try once. Return -EAGAIN if there is no tag or the queue is blocked, -ENOMEM
 * if data cannot be mapped without sleeping.
 */
static __always_inline int nvme_uq_try(struct nvme_uq *uq,
				       struct nvme_uq_io *io,
				       struct nvme_uq_waiter *waiter, bool fast)
{
	bool defer;
	int ret;

	/* use the queue as it was when it was unblocked */
	if (unlikely(smp_load_acquire(&uq->blocked) &
		     READ_ONCE(io->file->blocked_mask)) ||
	    /* a waiter in a wait queue has already checked */
	    (waiter && !waiter->waitq &&
	     (nvme_uq_is_full(uq) || nvme_uq_at_limit(uq, io->file))))
		return nvme_uq_submit_errno(uq, io->file, io->node);
	if (NVME_UQ_FAULT && io->len && !io->pieces &&
	    nvme_uq_fault_no_memory(uq))
		return -ENOMEM;
	ret = nvme_uq_dma_map(uq, io, fast);
	if (unlikely(ret))
		return ret;
	defer = nvme_uq_defer_doorbell(uq, io->file);

	spin_lock(&uq->sq_lock);
	ret = -EAGAIN;
	/* without SGLs, the command is tried again */
	if (likely((!fast || uq->force_sgl) &&
		   nvme_uq_admit(uq, io->file, io->node, waiter)))
		ret = nvme_uq_write_sqe(uq, io, fast);
	if (likely(ret == -EIOCBQUEUED)) {
		if (!defer)
			nvme_uq_ring_sq(uq);
		if (!fast && io->unpolled)
			nvme_uq_queue_poll_work(uq);
		spin_unlock(&uq->sq_lock);
		return ret;
	}
	spin_unlock(&uq->sq_lock);

	nvme_uq_dma_unmap(uq, io->addr, io->len, fast ? NULL : io->data,
			  io->flags);
	return ret == -EAGAIN ? nvme_uq_submit_errno(uq, io->file, io->node) : ret;
}

/* Submit a command that may wait for its limit or for a tag. */
static noinline int nvme_uq_submit_wait(struct nvme_uq *uq,
					struct nvme_uq_io *io)
{
	struct nvme_uq_waiter waiter = { };
	unsigned long deadline = jiffies + io->timeout;
	int ret;

	do {
		scoped_guard(rcu)
			ret = nvme_uq_try(uq, io, &waiter, false);
		if (ret == -EAGAIN) {
			ret = nvme_uq_wait_turn(uq, io, &waiter);
			deadline = jiffies + io->timeout;
		} else if (ret == -ENOMEM) {
			ret = nvme_uq_wait_memory(uq, io, &waiter, deadline);
		}
	} while (!ret);

	if (ret != -EIOCBQUEUED)
		nvme_uq_abandon(uq, io, &waiter);
	return ret;
}

static int nvme_uq_pci_submit(struct nvme_uq *uq, struct nvme_uq_io *io)
{
	int ret;

	if (io->nowait && (nvme_uq_is_full(uq) ||
			   nvme_uq_at_limit(uq, io->file)))
		return nvme_uq_submit_errno(uq, io->file, io->node);
	ret = nvme_uq_prep(uq, io);
	if (unlikely(ret))
		return ret == -E2BIG && !io->rw ? -EINVAL : ret;
	*(io->rw ? &io->rw->user : &nvme_uq_pdu(io->ioucmd)->user) = io->user;

	if (unlikely(!io->nowait)) {
		ret = nvme_uq_submit_wait(uq, io);
	} else {
		scoped_guard(rcu)
			ret = nvme_uq_try(uq, io, NULL, false);
	}
	if (unlikely(ret != -EIOCBQUEUED))
		nvme_uq_unpin_user(io->user, false);
	/* a worker can wait for memory */
	return ret == -ENOMEM && io->nowait ? -EAGAIN : ret;
}

/*
 * The most frequent commands. All other commands start again in
 * nvme_uq_queue().
 */

/*
 * Return true if the command is certainly permitted; if not,
 * nvme_uq_check_cmd() decides. Most commands have no effect, except that some
 * change logical blocks.
 */
static __always_inline bool nvme_uq_is_permitted(const struct nvme_ns *ns,
						 const struct file *file,
						 u8 opcode, u32 nsid)
{
	const struct nvme_ns_head *head = ns->head;
	u32 effects = le32_to_cpu(head->effects->iocs[opcode]);

	if (unlikely(nsid != head->ns_id || opcode >= nvme_fabrics_command))
		return false;
	if (effects == NVME_CMD_EFFECTS_CSUPP && !(opcode & 1))
		return true;
	return (effects & ~NVME_CMD_EFFECTS_LBCC) == NVME_CMD_EFFECTS_CSUPP &&
		(file->f_mode & FMODE_WRITE);
}

/* Data in one piece of the open file's memory, which is already mapped. */
static __always_inline bool nvme_uq_prep_piece(struct nvme_uq_io *io,
					       u64 offset)
{
	/* pairs with the release in nvme_uq_ioctl_alloc_mem() */
	const struct nvme_uq_mem *mem = smp_load_acquire(&io->file->mem);

	if (unlikely(!mem || (io->ioucmd->flags & IORING_URING_CMD_FIXED) ||
		     !nvme_uq_pieces_hold(&mem->pieces, offset, io->len) ||
		     !nvme_uq_pieces_in_one(&mem->pieces, offset, io->len)))
		return false;
	io->pieces = &mem->pieces;
	io->addr = nvme_uq_pieces_addr(&mem->pieces, offset);
	return true;
}

/*
 * Find or pin the data of a command with these flags. Return false if it is not
 * in one piece of memory.
 */
static __always_inline bool nvme_uq_prep_one(struct nvme_uq *uq,
					     struct nvme_uq_io *io, u64 addr,
					     u8 flags, unsigned int issue_flags)
{
	struct bio_vec bv __uninitialized;
	phys_addr_t page __uninitialized;
	unsigned long user = 0;

	if (unlikely(((u32)addr | io->len) & 3))
		return false;
	io->pieces = NULL;
	if (unlikely(flags)) {
		if (!nvme_uq_prep_piece(io, addr))
			return false;
	} else if (likely(io->ioucmd->flags & IORING_URING_CMD_FIXED)) {
		if (unlikely(io_uring_cmd_import_fixed_bvec(io->ioucmd, addr,
							    io->len, io->write,
							    &bv, issue_flags)))
			return false;
		io->phys = bvec_phys(&bv);
	} else {
		if (unlikely(offset_in_page(addr) + io->len > PAGE_SIZE ||
			     (issue_flags & IO_URING_F_COMPAT) ||
			     nvme_uq_is_full(uq) ||
			     nvme_uq_at_limit(uq, io->file)))
			return false;
		user = nvme_uq_pin_page(addr, io->write, &page);
		io->phys = page;
	}
	nvme_uq_pdu(io->ioucmd)->user = user;
	return !IS_ERR_VALUE(user);
}

static int nvme_uq_pci_submit_one(struct nvme_uq_file *uf,
				  struct io_uring_cmd *ioucmd,
				  unsigned int issue_flags)
{
	const struct nvme_uring_cmd *cmd =
		io_uring_sqe128_cmd(ioucmd->sqe, struct nvme_uring_cmd);
	struct nvme_uq *uq = uf->node->uq;
	u8 flags = READ_ONCE(cmd->flags);
	struct nvme_uq_io io __uninitialized;
	int ret;

	io.file = uf;
	io.node = uf->node;
	io.ioucmd = ioucmd;
	io.cmd = cmd;
	io.opcode = READ_ONCE(cmd->opcode);
	io.nsid = READ_ONCE(cmd->nsid);
	io.len = READ_ONCE(cmd->data_len);
	io.write = io.opcode & 1;
	if (unlikely((flags & ~NVME_UQ_CMD_MEMORY) |
		     READ_ONCE(cmd->timeout_ms) | READ_ONCE(cmd->metadata)))
		goto queue;
	/* excludes length 0; without SGLs, excludes all lengths */
	if (unlikely(io.len - 1 >= uq->max_len))
		goto queue;
	if (unlikely(!nvme_uq_is_permitted(uf->node->ns, ioucmd->file,
					   io.opcode, io.nsid))) {
		if (io.opcode == nvme_fabrics_command)
			goto queue;
		ret = nvme_uq_check_cmd(uf->node->ns, io.opcode, io.nsid,
					ioucmd->file->f_mode & FMODE_WRITE);
		if (ret)
			return ret;
	}
	if (unlikely(!nvme_uq_prep_one(uq, &io, READ_ONCE(cmd->addr), flags,
				       issue_flags)))
		goto queue;
	/* a worker, if it must wait, uses the buffer that is registered now */
	rcu_read_lock();
	ret = nvme_uq_try(uq, &io, NULL, true);
	rcu_read_unlock();
	if (likely(ret == -EIOCBQUEUED))
		return ret;
	nvme_uq_unpin_user(nvme_uq_pdu(ioucmd)->user, false);
	/* a worker can wait for memory */
	return ret == -ENOMEM ? -EAGAIN : ret;
queue:
	return nvme_uq_queue(uf, ioucmd, issue_flags);
}

const struct nvme_uq_ops nvme_uq_pci_ops = {
	.submit_one = nvme_uq_pci_submit_one,
	.submit	= nvme_uq_pci_submit,
	.unpin_rw = nvme_uq_pci_unpin_rw,
	.iopoll	= nvme_uq_pci_iopoll,
	.ring	= nvme_uq_pci_ring,
	.reap	= nvme_uq_pci_reap,
	.cq_page = nvme_uq_pci_cq_page,
	.mem_plan = nvme_uq_pci_mem_plan,
	.mem_alloc = nvme_uq_pci_mem_alloc,
	.mem_free = nvme_uq_pci_mem_free,
};
EXPORT_SYMBOL_IF_KUNIT(nvme_uq_pci_ops);
