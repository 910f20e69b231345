// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: DMA mappings, and the data pointers of commands.
 *
 * nvme_uq_dma_map_one() maps data in one segment inline. This file handles
 * several segments and metadata.
 */
#include <linux/dmapool.h>
#include <linux/io.h>
#include <linux/slab.h>

#include "pci.h"

static void nvme_uq_free_lists(struct nvme_uq_sglist *sglist)
{
	while (sglist->nlist) {
		struct nvme_uq_list *list = &sglist->list[--sglist->nlist];

		dma_pool_free(sglist->pool, list->virt, list->dma);
	}
}

/* Unmap the first @nseg segments. */
static void nvme_uq_dma_unmap_each(struct nvme_uq *uq,
				   struct nvme_uq_sglist *sglist,
				   unsigned int nseg,
				   enum dma_data_direction dir)
{
	unsigned int i;

	for (i = 0; i < nseg; i++)
		dma_unmap_phys(uq->dma_dev, sglist->seg[i].addr,
			       sglist->seg[i].len, dir, 0);
}

static void nvme_uq_dma_unmap_sglist(struct nvme_uq *uq,
				     struct nvme_uq_sglist *sglist,
				     enum dma_data_direction dir)
{
	if (dma_use_iova(&sglist->iova))
		dma_iova_destroy(uq->dma_dev, &sglist->iova, sglist->whole.len,
				 dir, 0);
	else
		nvme_uq_dma_unmap_each(uq, sglist, sglist->nseg, dir);
}

/**
 * nvme_uq_dma_unmap_slow - unmap the data and metadata of a command
 * @uq:		the queue
 * @iod:	the command, which has completed
 */
void nvme_uq_dma_unmap_slow(struct nvme_uq *uq, struct nvme_uq_iod *iod)
{
	if (iod->flags & NVME_UQ_META)
		dma_unmap_phys(uq->dma_dev, iod->meta_addr, iod->meta_len,
			       nvme_uq_dir(iod->flags), 0);
	if (iod->flags & NVME_UQ_SGLIST) {
		if (iod->flags & NVME_UQ_UNMAP)
			nvme_uq_dma_unmap_sglist(uq, iod->sglist,
						 nvme_uq_dir(iod->flags));
		nvme_uq_free_lists(iod->sglist);
	} else if (iod->flags & NVME_UQ_UNMAP) {
		dma_unmap_phys(uq->dma_dev, iod->addr, iod->len,
			       nvme_uq_dir(iod->flags), 0);
	}
}

/*
 * Count the entries in lists. A single SGL descriptor and the first two PRPs
 * need no list.
 */
static int nvme_uq_list_entries(const struct nvme_uq *uq,
				const struct nvme_uq_sglist *sglist)
{
	unsigned int n;

	if (uq->force_sgl)
		return sglist->nbus > 1 ? sglist->nbus : 0;
	n = nvme_uq_prp_entries(sglist->bus, sglist->nbus);
	if (!n)
		return -EINVAL;
	return n > 2 ? n - 1 : 0;
}

/**
 * nvme_uq_alloc_lists - allocate the PRP or SGL lists of a command
 * @uq:		the queue
 * @sglist:	the data, mapped
 *
 * Most commands need no list, so tags have no lists of their own. If memory
 * cannot be allocated without sleeping, a worker tries again, see
 * nvme_uq_pci_submit().
 *
 * Return: 0, -EINVAL if PRPs cannot describe the data, or -ENOMEM.
 */
int nvme_uq_alloc_lists(struct nvme_uq *uq, struct nvme_uq_sglist *sglist)
{
	unsigned int size = uq->force_sgl ? sizeof(struct nvme_sgl_desc) :
		sizeof(__le64);
	int entries = nvme_uq_list_entries(uq, sglist);
	unsigned int n;

	if (entries <= 0)
		return entries;

	sglist->pool = uq->ctrl->uq->small;
	sglist->per_list = NVME_UQ_SMALL_LIST / size;
	if (entries > sglist->per_list) {
		sglist->pool = uq->ctrl->uq->large;
		sglist->per_list = NVME_CTRL_PAGE_SIZE / size;
	}
	n = uq->force_sgl ? 1 : nvme_uq_nr_lists(entries, sglist->per_list);
	if (n > NVME_UQ_MAX_LISTS)
		return -EINVAL;
	while (sglist->nlist < n) {
		struct nvme_uq_list *list = &sglist->list[sglist->nlist];

		list->virt = dma_pool_alloc(sglist->pool,
					    GFP_ATOMIC | __GFP_NOWARN,
					    &list->dma);
		if (!list->virt) {
			nvme_uq_free_lists(sglist);
			return -ENOMEM;
		}
		sglist->nlist++;
	}
	return 0;
}

/*
 * Let the IOMMU map all segments contiguously, like
 * blk_rq_dma_map_iter_start(). This needs one range of bus addresses, and one
 * IOTLB flush when it is unmapped.
 */
static int nvme_uq_dma_link(struct nvme_uq *uq, struct nvme_uq_sglist *sglist,
			    enum dma_data_direction dir)
{
	struct dma_iova_state *iova = &sglist->iova;
	size_t linked = 0;
	unsigned int i;
	int ret = 0;

	for (i = 0; i < sglist->nseg && !ret; i++) {
		ret = dma_iova_link(uq->dma_dev, iova, sglist->phys[i], linked,
				    sglist->seg[i].len, dir, 0);
		if (!ret)
			linked += sglist->seg[i].len;
	}
	if (!ret)
		ret = dma_iova_sync(uq->dma_dev, iova, 0, linked);
	if (ret) {
		dma_iova_destroy(uq->dma_dev, iova, linked, dir, 0);
		return ret;
	}
	sglist->whole.addr = iova->addr;
	sglist->whole.len = linked;
	sglist->bus = &sglist->whole;
	sglist->nbus = 1;
	return 0;
}

static int nvme_uq_dma_map_each(struct nvme_uq *uq,
				struct nvme_uq_sglist *sglist,
				enum dma_data_direction dir)
{
	unsigned int i;

	for (i = 0; i < sglist->nseg; i++) {
		sglist->seg[i].addr = dma_map_phys(uq->dma_dev, sglist->phys[i],
						   sglist->seg[i].len, dir, 0);
		if (dma_mapping_error(uq->dma_dev, sglist->seg[i].addr)) {
			nvme_uq_dma_unmap_each(uq, sglist, i, dir);
			return -ENOMEM;
		}
	}
	sglist->bus = sglist->seg;
	sglist->nbus = sglist->nseg;
	return 0;
}

/* A command that waits after a failed attempt is mapped again. */
static int nvme_uq_dma_map_sglist(struct nvme_uq *uq,
				  struct nvme_uq_sglist *sglist, size_t len,
				  enum dma_data_direction dir)
{
	/* 0 without an IOMMU */
	unsigned long boundary = dma_get_merge_boundary(uq->dma_dev);

	memset(&sglist->iova, 0, sizeof(sglist->iova));
	/* for one segment, dma_map_phys() costs less */
	if (boundary && sglist->nseg > 1 &&
	    !(nvme_uq_sglist_gaps(sglist) & boundary) &&
	    dma_iova_try_alloc(uq->dma_dev, &sglist->iova, sglist->phys[0], len))
		return nvme_uq_dma_link(uq, sglist, dir);
	return nvme_uq_dma_map_each(uq, sglist, dir);
}

static int nvme_uq_dma_map_segs(struct nvme_uq *uq, struct nvme_uq_io *io)
{
	enum dma_data_direction dir = nvme_uq_dir(io->flags);
	int ret;

	ret = nvme_uq_dma_map_sglist(uq, io->sglist, io->len, dir);
	if (ret)
		return ret;
	ret = nvme_uq_alloc_lists(uq, io->sglist);
	if (ret) {
		nvme_uq_dma_unmap_sglist(uq, io->sglist, dir);
		return ret;
	}
	io->flags |= NVME_UQ_SGLIST;
	if (dma_need_unmap(uq->dma_dev))
		io->flags |= NVME_UQ_UNMAP;
	return 0;
}

/**
 * nvme_uq_dma_unmap_io - unmap a command that could not be submitted
 * @uq:		the queue
 * @io:		the command, mapped
 */
void nvme_uq_dma_unmap_io(struct nvme_uq *uq, struct nvme_uq_io *io)
{
	struct nvme_uq_iod iod = {
		.addr		= io->addr,
		.len		= io->len,
		.sglist		= io->sglist,
		.meta_addr	= io->meta_addr,
		.meta_len	= io->meta_len,
		.flags		= io->flags,
	};

	nvme_uq_dma_unmap(uq, &iod);
}

/**
 * nvme_uq_dma_map_meta - map the metadata of a command, if it has any
 * @uq:		the queue
 * @io:		the command, with its data mapped; the data is unmapped on
 *		failure
 *
 * Return: 0 or -ENOMEM.
 */
int nvme_uq_dma_map_meta(struct nvme_uq *uq, struct nvme_uq_io *io)
{
	if (!io->metabuf)
		return 0;
	io->meta_addr = dma_map_phys(uq->dma_dev, virt_to_phys(io->metabuf),
				     io->meta_len, nvme_uq_dir(io->flags), 0);
	if (dma_mapping_error(uq->dma_dev, io->meta_addr)) {
		nvme_uq_dma_unmap_io(uq, io);
		return -ENOMEM;
	}
	io->flags |= NVME_UQ_META;
	return 0;
}

/* Return true if one segment needs more than the two PRPs of a command. */
static bool nvme_uq_needs_list(const struct nvme_uq_io *io)
{
	return (io->phys & (NVME_CTRL_PAGE_SIZE - 1)) + io->len >
		2 * NVME_CTRL_PAGE_SIZE;
}

static int nvme_uq_one_to_sglist(struct nvme_uq_io *io)
{
	io->sglist = nvme_uq_alloc_sglist(1, GFP_ATOMIC);
	if (!io->sglist)
		return -ENOMEM;
	io->sglist->nseg = 1;
	io->sglist->phys[0] = io->phys;
	io->sglist->seg[0].len = io->len;
	return 0;
}

/**
 * nvme_uq_dma_map_slow - map several segments, metadata, or data for PRPs
 * @uq:		the queue
 * @io:		the command, prepared
 *
 * Return: 0, -EINVAL if PRPs cannot describe the data, or -ENOMEM.
 */
int nvme_uq_dma_map_slow(struct nvme_uq *uq, struct nvme_uq_io *io)
{
	int ret = 0;

	if (!uq->force_sgl && !io->sglist && nvme_uq_needs_list(io))
		ret = nvme_uq_one_to_sglist(io);
	if (ret)
		return ret;
	ret = io->sglist ? nvme_uq_dma_map_segs(uq, io) :
		nvme_uq_dma_map_one(uq, io);
	return ret ?: nvme_uq_dma_map_meta(uq, io);
}

/**
 * nvme_uq_set_sglist - set the data pointer of a command with several segments
 * @uq:		the queue
 * @c:		the command
 * @sglist:	the data, mapped
 * @len:	bytes that the command transfers, from 1 to the length of
 *		@sglist; an SGL describes all of @sglist
 */
void nvme_uq_set_sglist(struct nvme_uq *uq, struct nvme_command *c,
			const struct nvme_uq_sglist *sglist, u32 len)
{
	if (!uq->force_sgl) {
		nvme_uq_prp_build(&c->common.dptr, sglist->bus, sglist->nbus,
				  len, sglist->list, sglist->per_list);
		return;
	}
	c->common.flags = NVME_CMD_SGL_METABUF;
	nvme_uq_sgl_build(&c->common.dptr, sglist->bus, sglist->nbus,
			  sglist->list);
}

/**
 * nvme_uq_set_meta - set the metadata pointer of a command
 * @uq:		the queue
 * @c:		the command, with its data pointer set
 * @io:		the command, mapped
 * @idx:	number of the command's tag
 */
void nvme_uq_set_meta(struct nvme_uq *uq, struct nvme_command *c,
		      const struct nvme_uq_io *io, unsigned int idx)
{
	struct nvme_sgl_desc *sge = uq->meta_sgls + idx * sizeof(*sge);

	c->common.metadata = cpu_to_le64(io->meta_addr);
	if (!uq->meta_sgl_ok || !c->common.flags)
		return;

	/* the descriptor contains the length of the buffer */
	memset(sge, 0, sizeof(*sge));
	sge->addr = cpu_to_le64(io->meta_addr);
	sge->length = cpu_to_le32(io->meta_len);
	sge->type = NVME_SGL_FMT_DATA_DESC << 4;
	c->common.flags = NVME_CMD_SGL_METASEG;
	c->common.metadata = cpu_to_le64(uq->meta_sgls_dma +
					 idx * sizeof(*sge));
}

