// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: claiming a queue and mapping its completion queue.
 *
 * An open file that has claimed a queue has exclusive use of it. It may map the
 * completion queue and an information page, both read-only. The kernel reads
 * only data that the device has written from the mapped pages.
 *
 * Documentation/nvme/user-queues.rst documents the life of a mapping.
 */
#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>

#include "info.h"
#include "limit.h"
#include "mem.h"

#define NVME_UQ_INFO_PGOFF	(NVME_UQ_OFF_INFO >> PAGE_SHIFT)

/* Pages of a completion queue, exact if the caller holds claim_lock. */
static unsigned long nvme_uq_cq_pages(const struct nvme_uq *uq)
{
	return PFN_UP(READ_ONCE(uq->depth) * sizeof(struct nvme_completion));
}

/**
 * nvme_uq_zap - remove the owner's mappings of the completion queue
 * @uq:		the queue, with claim_lock held
 */
void nvme_uq_zap(struct nvme_uq *uq)
{
	lockdep_assert_held(&uq->claim_lock);
	if (uq->owner && uq->depth)
		unmap_mapping_range(uq->owner->file->f_mapping, NVME_UQ_OFF_CQ,
				    nvme_uq_cq_pages(uq) << PAGE_SHIFT, 1);
}
EXPORT_SYMBOL_GPL(nvme_uq_zap);

/*
 * Information page. Each field is one word. The uapi header documents the order
 * of writes to the fields. info.h contains the updates for each batch of
 * commands.
 */

/**
 * nvme_uq_info_down - announce that the queue is not on the controller
 * @uq:		the queue, with cq_lock held
 * @state:	NVME_UQ_STATE_DOWN or NVME_UQ_STATE_GONE
 *
 * Must be called before commands without a completion entry are completed.
 */
void nvme_uq_info_down(struct nvme_uq *uq, u32 state)
{
	lockdep_assert_held(&uq->cq_lock);
	if (!uq->info)
		return;
	if (uq->info->state != NVME_UQ_STATE_GONE)
		WRITE_ONCE(uq->info->state, state);
	/* a reader that sees NVME_UQ_HEAD_NONE sees the state */
	smp_store_release(&uq->info->head, NVME_UQ_HEAD_NONE);
	smp_wmb();	/* both before commands are completed */
}
EXPORT_SYMBOL_GPL(nvme_uq_info_down);

/**
 * nvme_uq_info_gone - announce that the queue will not come back
 * @uq:		the queue
 * @ns:		announce only if the owner is an open file of this namespace;
 *		NULL for any owner
 */
void nvme_uq_info_gone(struct nvme_uq *uq, const struct nvme_ns *ns)
{
	guard(spinlock)(&uq->sq_lock);
	guard(spinlock_irqsave)(&uq->cq_lock);
	if (uq->owner && (!ns || uq->owner->node->ns == ns))
		nvme_uq_info_down(uq, NVME_UQ_STATE_GONE);
}
EXPORT_SYMBOL_GPL(nvme_uq_info_gone);

/**
 * nvme_uq_info_up - announce that the queue has been created
 * @uq:		the queue, with cq_lock held and no command in flight
 */
void nvme_uq_info_up(struct nvme_uq *uq)
{
	lockdep_assert_held(&uq->cq_lock);
	if (!uq->info)
		return;
	WRITE_ONCE(uq->info->entries, uq->depth);
	nvme_uq_info_reaped(uq, nvme_uq_cq_head(uq));
	/* a reader that sees the generation sees its entries and head */
	smp_store_release(&uq->info->generation, uq->info->generation + 1);
	if (uq->info->state != NVME_UQ_STATE_GONE)
		/* a reader that sees LIVE sees the generation */
		smp_store_release(&uq->info->state, NVME_UQ_STATE_LIVE);
}
EXPORT_SYMBOL_GPL(nvme_uq_info_up);

static void nvme_uq_info_init(struct nvme_uq *uq)
{
	struct nvme_uq_info *info = uq->info;

	lockdep_assert_held(&uq->cq_lock);
	uq->info_base = (u32)uq->submitted;
	info->submitted = 0;
	info->completed = 0;
	info->version = NVME_UQ_INFO_V1;
	info->size = sizeof(*info);
	info->entry_size = sizeof(struct nvme_uq_cqe);
	info->entries = uq->depth;
	info->state = uq->cq_live ? NVME_UQ_STATE_LIVE : NVME_UQ_STATE_DOWN;
	info->head = uq->cq_live ? nvme_uq_cq_head(uq) : NVME_UQ_HEAD_NONE;
}

/*
 * Claims
 */

/*
 * Clear each entry except for its phase. The phase distinguishes old entries
 * from new ones: the device wrote entries before the head in this pass, and the
 * others in the previous pass. The rest of the last page is zero since its
 * allocation.
 */
static void nvme_uq_scrub(struct nvme_uq *uq)
{
	unsigned int i;

	lockdep_assert_held(&uq->cq_lock);
	memset(uq->cqes, 0, uq->depth * sizeof(*uq->cqes));
	/* if the queue is down, all entries are old, as phases start at 1 */
	for (i = 0; uq->cq_live && i < uq->depth; i++)
		uq->cqes[i].status = cpu_to_le16(&uq->cqes[i] < uq->cq_next ?
						 uq->cq_phase : !uq->cq_phase);
}

/*
 * Idle also means that no completion is left to reap. If nvme_uq_scrub() made a
 * new completion look old, the heads of the kernel and of the device would
 * differ from then on.
 */
static bool nvme_uq_is_idle(struct nvme_uq *uq)
{
	lockdep_assert_held(&uq->sq_lock);
	lockdep_assert_held(&uq->cq_lock);
	return !nvme_uq_tags_used(&uq->tags) &&
		!(uq->cq_live && nvme_uq_cqe_pending(uq->cq_next, uq->cq_phase));
}

static int nvme_uq_claim_locked(struct nvme_uq *uq, struct nvme_uq_file *uf)
{
	/* the last user of the queue may have stopped polling */
	if (uq->polled)
		uq->ops->reap(uq);
	/* block submission and completion */
	guard(spinlock)(&uq->sq_lock);
	guard(spinlock_irqsave)(&uq->cq_lock);
	if (nvme_uq_ns_removed(uf->node))
		return -ENXIO;
	if (!nvme_uq_is_idle(uq))
		return -EBUSY;
	nvme_uq_scrub(uq);
	uq->info = uf->info;
	/* pairs with the acquire in nvme_uq_mmap_prepare() */
	smp_store_release(&uq->owner, uf);
	WRITE_ONCE(uf->blocked_mask, uf->blocked_mask & ~NVME_UQ_CLAIMED);
	WRITE_ONCE(uq->blocked, uq->blocked | NVME_UQ_CLAIMED);
	nvme_uq_info_init(uq);
	nvme_uq_info_limit(uq);
	return 0;
}

/* The caller holds claim_lock, so that the owner does not change. */
static int nvme_uq_may_claim(struct nvme_uq *uq, struct nvme_uq_file *uf)
{
	if (!uq->claimable)
		return -EPERM;
	if (uq->owner)
		return -EBUSY;
	if (!uq->depth || (READ_ONCE(uq->blocked) & NVME_UQ_UNAVAILABLE))
		return -ESHUTDOWN;
	return PTR_ERR_OR_ZERO(uq->ops->cq_page(uq, 0));
}

/**
 * nvme_uq_claim - NVME_UQ_IOCTL_CLAIM
 * @uf:		the open file
 *
 * Return: 0 or an error, see the uapi header.
 */
int nvme_uq_claim(struct nvme_uq_file *uf)
{
	const fmode_t both = FMODE_READ | FMODE_WRITE;
	struct nvme_uq *uq = uf->node->uq;
	int ret;

	if ((uf->file->f_mode & both) != both)
		return -EACCES;
	/* as in nvme_uq_ioctl_unclaim() */
	if (!READ_ONCE(uq->claimable))
		return -EPERM;
	/* before the lock: a reset takes it and must not wait for memory */
	void *info __free(free_page) = READ_ONCE(uf->info) ? NULL :
		(void *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
	guard(mutex)(&uq->claim_lock);
	if (uq->owner == uf)
		return 0;
	/* lasts until the file is released */
	if (!uf->info)
		WRITE_ONCE(uf->info, no_free_ptr(info));
	if (!uf->info)
		return -ENOMEM;
	ret = nvme_uq_may_claim(uq, uf) ?: nvme_uq_claim_locked(uq, uf);
	if (!ret)
		/* waiting commands of other files fail with -EBUSY */
		nvme_uq_wake_all(uq);
	return ret;
}

/*
 * End the claim. The former owner sees no later completion: its mapping is
 * removed, and page faults check the owner.
 */
static void nvme_uq_end_claim(struct nvme_uq *uq)
{
	struct nvme_uq_file *uf = uq->owner;

	nvme_uq_zap(uq);
	guard(spinlock)(&uq->sq_lock);
	guard(spinlock_irqsave)(&uq->cq_lock);
	nvme_uq_info_down(uq, NVME_UQ_STATE_GONE);
	uq->info = NULL;
	WRITE_ONCE(uf->blocked_mask, uf->blocked_mask | NVME_UQ_CLAIMED);
	WRITE_ONCE(uq->blocked, uq->blocked & ~NVME_UQ_CLAIMED);
	/* last: the file may be released as soon as it is not the owner */
	smp_store_release(&uq->owner, NULL);
}

/**
 * nvme_uq_ioctl_unclaim - NVME_UQ_IOCTL_UNCLAIM
 * @uf:		the open file
 *
 * Return: 0, or -EPERM if the file has not claimed the queue.
 */
int nvme_uq_ioctl_unclaim(struct nvme_uq_file *uf)
{
	struct nvme_uq *uq = uf->node->uq;

	/*
	 * A reset takes the lock, and others must not make it wait. Pairs with
	 * the release in nvme_uq_end_claim(): the caller may free @uf.
	 */
	if (smp_load_acquire(&uq->owner) != uf)
		return -EPERM;
	guard(mutex)(&uq->claim_lock);
	if (uq->owner != uf)
		return -EPERM;
	nvme_uq_end_claim(uq);
	return 0;
}

/**
 * nvme_uq_unclaim - undo nvme_uq_claim()
 * @uf:		the open file, which is being released: it has no mapping and no
 *		command left
 */
void nvme_uq_unclaim(struct nvme_uq_file *uf)
{
	if (!uf->info)
		return;
	nvme_uq_ioctl_unclaim(uf);
	free_page((unsigned long)uf->info);
}

/**
 * nvme_uq_set_claimable - allow or forbid claims
 * @uq:		the queue
 * @claimable:	open files may claim the queue; if false, a claim ends
 */
void nvme_uq_set_claimable(struct nvme_uq *uq, bool claimable)
{
	guard(mutex)(&uq->claim_lock);
	WRITE_ONCE(uq->claimable, claimable);
	if (!claimable && uq->owner)
		nvme_uq_end_claim(uq);
}

/*
 * Mappings
 */

static vm_fault_t nvme_uq_fault_cq(struct vm_fault *vmf, struct nvme_uq_file *uf)
{
	struct nvme_uq *uq = uf->node->uq;
	struct page *page;
	unsigned int noio;
	vm_fault_t ret;

	/* as in nvme_uq_ioctl_unclaim() */
	if (READ_ONCE(uq->owner) != uf)
		return VM_FAULT_SIGBUS;
	guard(mutex)(&uq->claim_lock);
	if (uq->owner != uf || vmf->pgoff >= nvme_uq_cq_pages(uq))
		return VM_FAULT_SIGBUS;
	page = uq->ops->cq_page(uq, vmf->pgoff);
	if (IS_ERR(page))
		return VM_FAULT_SIGBUS;
	/* a reset may wait for the lock, and memory reclaim for the reset */
	noio = memalloc_noio_save();
	ret = vmf_insert_pfn(vmf->vma, vmf->address, page_to_pfn(page));
	memalloc_noio_restore(noio);
	return ret;
}

static vm_fault_t nvme_uq_vm_fault(struct vm_fault *vmf)
{
	struct nvme_uq_file *uf = vmf->vma->vm_file->private_data;
	struct page *info = virt_to_page(uf->info);

	if (vmf->pgoff != NVME_UQ_INFO_PGOFF)
		return nvme_uq_fault_cq(vmf, uf);
	/* the mapping holds a reference of the file, which owns the page */
	return vmf_insert_pfn(vmf->vma, vmf->address, page_to_pfn(info));
}

static const struct vm_operations_struct nvme_uq_vm_ops = {
	.fault	= nvme_uq_vm_fault,
};

static int nvme_uq_check_range(const struct nvme_uq *uq,
			       const struct vm_area_desc *desc)
{
	unsigned long nr = vma_desc_pages(desc), pages = nvme_uq_cq_pages(uq);

	if (desc->pgoff == NVME_UQ_INFO_PGOFF)
		return nr == 1 ? 0 : -EINVAL;
	if (desc->pgoff != NVME_UQ_OFF_CQ >> PAGE_SHIFT)
		return -EINVAL;
	if (!pages)
		return -ENXIO;
	return nr <= pages ? 0 : -EINVAL;
}

/**
 * nvme_uq_mmap_prepare - ->mmap_prepare() of a node
 * @desc:	description of the mapping
 *
 * Return: 0 or an error, see the uapi header.
 */
int nvme_uq_mmap_prepare(struct vm_area_desc *desc)
{
	struct nvme_uq_file *uf = desc->file->private_data;
	struct nvme_uq *uq = uf->node->uq;
	int ret;

	if (desc->pgoff >= NVME_UQ_OFF_MEMORY >> PAGE_SHIFT)
		return nvme_uq_mem_mmap_prepare(desc);
	if (vma_desc_test_any(desc, VMA_WRITE_BIT, VMA_EXEC_BIT))
		return -EACCES;
	/*
	 * A page fault checks again, with the lock. Pairs with the release in
	 * nvme_uq_claim_locked(), so that a fault finds the information page.
	 */
	if (smp_load_acquire(&uq->owner) != uf)
		return -EPERM;
	if (!vma_desc_test(desc, VMA_SHARED_BIT))
		return -EINVAL;
	ret = nvme_uq_check_range(uq, desc);
	if (ret)
		return ret;

	vma_desc_clear_flags(desc, VMA_MAYWRITE_BIT, VMA_MAYEXEC_BIT);
	/* with VM_IO, madvise() cannot clear the other flags */
	vma_desc_set_flags(desc, VMA_IO_BIT, VMA_PFNMAP_BIT, VMA_DONTEXPAND_BIT,
			   VMA_DONTCOPY_BIT, VMA_DONTDUMP_BIT);
	desc->vm_ops = &nvme_uq_vm_ops;
	return 0;
}
