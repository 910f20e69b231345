// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: allocation of open files' memory, and its DMA addresses.
 *
 * dma_alloc_noncontiguous() allocates the memory for the device and maps it.
 * With an IOMMU, all memory gets one range of bus addresses. Without an IOMMU,
 * each piece is physically contiguous. The mapping lasts until the memory is
 * freed, see mem.h.
 */
#include <linux/cc_platform.h>
#include <linux/dma-map-ops.h>
#include <linux/dmapool.h>
#include <linux/kstrtox.h>
#include <linux/moduleparam.h>
#include <linux/scatterlist.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "mem.h"
#include "pci.h"

#define NVME_UQ_MAX_PIECE	min_t(u64, SZ_2M, PAGE_SIZE << MAX_PAGE_ORDER)

/*
 * In MiB. Keeps arrays of a pointer per page within the limits of kvmalloc().
 */
#define NVME_UQ_MAX_MEMORY	65536

static int nvme_uq_memory_set(const char *val, const struct kernel_param *kp)
{
	unsigned int n;

	if (kstrtouint(val, 10, &n) || n > NVME_UQ_MAX_MEMORY)
		return -EINVAL;
	return param_set_uint(val, kp);
}

static const struct kernel_param_ops nvme_uq_memory_ops = {
	.set = nvme_uq_memory_set,
	.get = param_get_uint,
};

static unsigned int user_queue_memory = 64;
module_param_cb(user_queue_memory, &nvme_uq_memory_ops, &user_queue_memory,
		0644);
MODULE_PARM_DESC(user_queue_memory,
		 "Memory in MiB that all open files of a controller's user queues can have together, for DMA. Read when an open file asks for memory. 0: none");

/**
 * struct nvme_uq_mem_alloc - a part of an open file's memory
 * @list:	entry of nvme_uq_mem.allocs
 * @sgt:	pages and bus address of the part
 * @len:	length of the part in bytes
 */
struct nvme_uq_mem_alloc {
	struct list_head	list;
	struct sg_table		*sgt;
	size_t			len;
};

/* An IOMMU maps any pages as one piece. */
static bool nvme_uq_mem_merges(const struct nvme_uq *uq)
{
	return dma_get_merge_boundary(uq->dma_dev);
}

/*
 * Smallest size that can be mapped: an IOMMU may have larger pages than the
 * CPU.
 */
static size_t nvme_uq_mem_granule(const struct nvme_uq *uq)
{
	return max(PAGE_SIZE, dma_get_merge_boundary(uq->dma_dev) + 1);
}

/**
 * nvme_uq_pci_mem_plan - decide the size of memory and of its pieces
 * @uq:		a queue of the open file's controller
 * @mem:	the memory, with the requested size; on return, with the final
 *		size and the size of a piece
 * @most:	on return, the maximum for all open files of the controller, in
 *		bytes
 *
 * Return: 0; -EOPNOTSUPP if each command would need synchronization, or if user
 * space would need a page protection that only the DMA API knows; -ENOSPC.
 */
int nvme_uq_pci_mem_plan(struct nvme_uq *uq, struct nvme_uq_mem *mem, u64 *most)
{
	struct nvme_uq_pieces *p = &mem->pieces;

	if (cc_platform_has(CC_ATTR_MEM_ENCRYPT) ||
	    !dev_is_dma_coherent(uq->dma_dev))
		return -EOPNOTSUPP;
	*most = (u64)READ_ONCE(user_queue_memory) * SZ_1M;
	if (p->size > *most || p->size > SIZE_MAX / 2)
		return -ENOSPC;

	p->size = ALIGN(p->size, nvme_uq_mem_granule(uq));
	if (nvme_uq_mem_merges(uq)) {
		p->shift = fls64(p->size - 1);
	} else {
		u64 piece = nvme_uq_piece_size(p->size, NVME_UQ_MAX_PIECE);

		p->shift = ilog2(piece);
		p->size = ALIGN(p->size, piece);
	}
	return 0;
}

/* Allocate PRP lists for commands without SGLs. */
static int nvme_uq_mem_alloc_lists(struct nvme_uq *uq, struct nvme_uq_pieces *p)
{
	unsigned int i, nr = nvme_uq_pieces_nr_lists(p);

	p->prps = kvcalloc(nr, sizeof(*p->prps), GFP_KERNEL_ACCOUNT);
	if (!p->prps)
		return -ENOMEM;
	for (i = 0; i < nr; i++) {
		p->prps[i].virt = dma_pool_alloc(uq->ctrl->uq->lists,
						 GFP_KERNEL, &p->prps[i].dma);
		if (!p->prps[i].virt)
			return -ENOMEM;
		nvme_uq_pieces_fill_list(p, i);
	}
	return 0;
}

/**
 * nvme_uq_pci_mem_free - free the pages of an open file's memory
 * @uq:		a queue of the open file's controller
 * @mem:	the memory, which the device and user space no longer use
 */
void nvme_uq_pci_mem_free(struct nvme_uq *uq, struct nvme_uq_mem *mem)
{
	const struct nvme_uq_pieces *p = &mem->pieces;
	struct nvme_uq_mem_alloc *alloc, *next;
	unsigned int i, nr = p->prps ? nvme_uq_pieces_nr_lists(p) : 0;

	for (i = 0; i < nr; i++)
		if (p->prps[i].virt)
			dma_pool_free(uq->ctrl->uq->lists, p->prps[i].virt,
				      p->prps[i].dma);
	list_for_each_entry_safe(alloc, next, &mem->allocs, list) {
		dma_free_noncontiguous(uq->dma_dev, alloc->len, alloc->sgt,
				       DMA_BIDIRECTIONAL);
		kfree(alloc);
	}
	INIT_LIST_HEAD(&mem->allocs);
}

/*
 * For large pieces, do not try hard, because smaller pieces work too. For the
 * smallest pieces, do not invoke the OOM killer, because user space chose the
 * size.
 */
static gfp_t nvme_uq_mem_gfp(struct nvme_uq *uq, size_t len)
{
	gfp_t gfp = GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN;

	if (len > PAGE_SIZE && !nvme_uq_mem_merges(uq))
		return gfp | __GFP_NORETRY;
	return gfp | __GFP_RETRY_MAYFAIL;
}

/* Allocate a part, and store its pages from index @nr on. */
static int nvme_uq_mem_add(struct nvme_uq *uq, struct nvme_uq_mem *mem,
			   unsigned long nr, size_t len)
{
	struct nvme_uq_mem_alloc *alloc;
	struct sg_page_iter iter;

	alloc = kmalloc_obj(*alloc, GFP_KERNEL_ACCOUNT);
	if (!alloc)
		return -ENOMEM;
	alloc->len = len;
	alloc->sgt = dma_alloc_noncontiguous(uq->dma_dev, len,
					     DMA_BIDIRECTIONAL,
					     nvme_uq_mem_gfp(uq, len), 0);
	if (!alloc->sgt) {
		kfree(alloc);
		return -ENOMEM;
	}
	list_add_tail(&alloc->list, &mem->allocs);
	if (nvme_uq_needs_sync(uq, sg_dma_address(alloc->sgt->sgl)))
		return -EOPNOTSUPP;
	for_each_sgtable_page(alloc->sgt, &iter, 0)
		mem->pages[nr++] = sg_page_iter_page(&iter);
	return 0;
}

/*
 * Allocate all parts. If the allocation of a part fails, halve the size of a
 * piece and allocate the rest in such parts.
 */
static int nvme_uq_mem_fill(struct nvme_uq *uq, struct nvme_uq_mem *mem)
{
	struct nvme_uq_pieces *p = &mem->pieces;
	u64 done = 0, len = min(1ULL << p->shift, p->size);
	int ret;

	while (done < p->size) {
		u64 part = min(len, p->size - done);

		if (fatal_signal_pending(current))
			return -EINTR;
		/* nvme_uq_mem_revoke() waits, and a charge may be throttled */
		if (rwsem_is_contended(&uq->ctrl->uq->mems.lock))
			return -ENXIO;
		ret = nvme_uq_mem_add(uq, mem, done >> PAGE_SHIFT, part);
		if (!ret) {
			done += part;
			continue;
		}
		if (ret != -ENOMEM || len <= nvme_uq_mem_granule(uq))
			return ret;
		/* less than half if len is not a power of two */
		p->shift = fls64(len) - 2;
		len = 1ULL << p->shift;
	}
	return 0;
}

static int nvme_uq_mem_set_base(struct nvme_uq_mem *mem)
{
	struct nvme_uq_pieces *p = &mem->pieces;
	struct nvme_uq_mem_alloc *alloc;
	u64 offset = 0, i;

	p->base = kvmalloc_array(((p->size - 1) >> p->shift) + 1,
				 sizeof(*p->base), GFP_KERNEL_ACCOUNT);
	if (!p->base)
		return -ENOMEM;
	list_for_each_entry(alloc, &mem->allocs, list) {
		for (i = offset; i < offset + alloc->len; i += 1ULL << p->shift)
			p->base[i >> p->shift] =
				sg_dma_address(alloc->sgt->sgl) - offset;
		offset += alloc->len;
	}
	return 0;
}

/**
 * nvme_uq_pci_mem_alloc - allocate the pages of an open file's memory
 * @uq:		a queue of the open file's controller
 * @mem:	the memory, after nvme_uq_pci_mem_plan()
 *
 * Return: 0, -ENOMEM, -EOPNOTSUPP like nvme_uq_pci_mem_plan(), -EINTR if the
 * task was killed, or -ENXIO if nvme_uq_mem_revoke() waits for the lock. The
 * caller frees @mem->pages and the arrays of @mem->pieces.
 */
int nvme_uq_pci_mem_alloc(struct nvme_uq *uq, struct nvme_uq_mem *mem)
{
	int ret = -ENOMEM;

	mem->pages = kvmalloc_array(mem->pieces.size >> PAGE_SHIFT,
				    sizeof(*mem->pages), GFP_KERNEL_ACCOUNT);
	if (!mem->pages)
		return ret;
	ret = nvme_uq_mem_fill(uq, mem);
	if (!ret)
		ret = nvme_uq_mem_set_base(mem);
	if (!ret && !READ_ONCE(uq->force_sgl))
		ret = nvme_uq_mem_alloc_lists(uq, &mem->pieces);
	if (ret)
		nvme_uq_pci_mem_free(uq, mem);
	return ret;
}
