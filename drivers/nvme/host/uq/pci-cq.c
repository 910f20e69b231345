// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: memory of a completion queue.
 *
 * User space may map the queue, so its pages must be known. Only
 * dma_alloc_pages() returns pages. Coherent memory can be of any type, and
 * dma_get_sgtable() cannot tell which.
 *
 * Coherent memory is used in these cases:
 *
 *   - The device is not coherent, or the pages may be bounced. Each entry would
 *     need synchronization.
 *   - Memory is encrypted. User space cannot map the pages like others.
 *   - There are not enough contiguous pages.
 *
 * Then the queue works but cannot be claimed.
 */
#include <linux/cc_platform.h>
#include <linux/dma-map-ops.h>
#include <linux/err.h>

#include "pci.h"

/**
 * nvme_uq_alloc_cq - allocate the completion queue
 * @uq:		the queue, with claim_lock held; nvme_uq.cqes stays NULL if
 *		there is no memory
 */
void nvme_uq_alloc_cq(struct nvme_uq *uq)
{
	size_t bytes = NVME_UQ_CQ_BYTES(uq);

	if (dev_is_dma_coherent(uq->dma_dev) &&
	    !cc_platform_has(CC_ATTR_MEM_ENCRYPT))
		uq->cq_pages = dma_alloc_pages(uq->dma_dev, bytes, &uq->cq_dma,
					       DMA_BIDIRECTIONAL,
					       GFP_KERNEL | __GFP_NOWARN);
	if (uq->cq_pages && nvme_uq_needs_sync(uq, uq->cq_dma)) {
		dma_free_pages(uq->dma_dev, bytes, uq->cq_pages, uq->cq_dma,
			       DMA_BIDIRECTIONAL);
		uq->cq_pages = NULL;
	}
	if (uq->cq_pages)
		uq->cqes = page_address(uq->cq_pages);
	else
		uq->cqes = dma_alloc_coherent(uq->dma_dev, bytes, &uq->cq_dma,
					      GFP_KERNEL);
}

/**
 * nvme_uq_free_cq - free the completion queue, if there is one
 * @uq:		the queue, with claim_lock held
 */
void nvme_uq_free_cq(struct nvme_uq *uq)
{
	size_t bytes = NVME_UQ_CQ_BYTES(uq);

	if (uq->cq_pages)
		dma_free_pages(uq->dma_dev, bytes, uq->cq_pages, uq->cq_dma,
			       DMA_BIDIRECTIONAL);
	else if (uq->cqes)
		dma_free_coherent(uq->dma_dev, bytes, uq->cqes, uq->cq_dma);
	uq->cq_pages = NULL;
	uq->cqes = NULL;
}

/**
 * nvme_uq_pci_cq_page - a page of the completion queue
 * @uq:		the queue, with claim_lock held
 * @nr:		number of the page
 *
 * Return: the page, or -EOPNOTSUPP if it cannot be mapped.
 */
struct page *nvme_uq_pci_cq_page(struct nvme_uq *uq, unsigned long nr)
{
	return uq->cq_pages ? uq->cq_pages + nr : ERR_PTR(-EOPNOTSUPP);
}
