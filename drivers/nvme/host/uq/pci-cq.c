// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: pages of a completion queue, for user space.
 */
#include <linux/cc_platform.h>
#include <linux/dma-map-ops.h>
#include <linux/err.h>
#include <linux/scatterlist.h>

#include "pci.h"

/**
 * nvme_uq_pci_cq_page - a page of the completion queue
 * @uq:		the queue, with claim_lock held
 * @nr:		number of the page
 *
 * The completion queue has to be normal memory that needs no special page
 * protection, as only dma_mmap_coherent() knows that.
 *
 * Return: the page; -EOPNOTSUPP if it cannot be mapped, or -ENOMEM.
 */
struct page *nvme_uq_pci_cq_page(struct nvme_uq *uq, unsigned long nr)
{
	struct page *page = ERR_PTR(-EOPNOTSUPP);
	struct sg_page_iter iter;
	struct sg_table sgt;
	int ret;

	if (cc_platform_has(CC_ATTR_MEM_ENCRYPT) ||
	    !dev_is_dma_coherent(uq->dma_dev))
		return page;
	ret = dma_get_sgtable(uq->dma_dev, &sgt, uq->cqes, uq->cq_dma,
			      NVME_UQ_CQ_BYTES(uq));
	if (ret)
		return ret == -ENOMEM ? ERR_PTR(ret) : page;
	for_each_sgtable_page(&sgt, &iter, nr) {
		page = sg_page_iter_page(&iter);
		break;
	}
	sg_free_table(&sgt);
	return page;
}
