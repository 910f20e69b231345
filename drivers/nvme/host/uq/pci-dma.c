// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: DMA mappings, and the data pointers of commands.
 *
 * nvme_uq_dma_map_one() maps data in one segment inline. This file handles
 * all other data, and metadata.
 */
#include <linux/dmapool.h>
#include <linux/io.h>

#include "pci.h"

static enum dma_data_direction nvme_uq_data_dir(const struct nvme_uq_data *data)
{
	return data->dirty ? DMA_FROM_DEVICE : DMA_TO_DEVICE;
}

/* Undo nvme_uq_dma_map_data(), or the part of it that succeeded. */
static void nvme_uq_dma_unmap_data(struct nvme_uq *uq,
				   struct nvme_uq_data *data)
{
	enum dma_data_direction dir = nvme_uq_data_dir(data);

	if (data->meta)
		dma_unmap_phys(uq->dma_dev, data->meta_dma, data->meta_len, dir,
			       0);
	if (data->nr_sg && data->nr_dma && dma_need_unmap(uq->dma_dev))
		dma_unmap_sg(uq->dma_dev, data->sg, data->nr_sg, dir);
	while (data->nr_lists) {
		struct nvme_uq_list *list = &data->list[--data->nr_lists];

		dma_pool_free(uq->ctrl->uq->lists, list->virt, list->dma);
	}
}

/**
 * nvme_uq_dma_unmap - unmap the data and metadata of a command
 * @uq:		the queue
 * @addr:	bus address of data in one segment
 * @len:	length of data in one segment
 * @data:	all other data
 * @flags:	NVME_UQ_UNMAP, NVME_UQ_DATA and NVME_UQ_WRITE of the command
 */
void nvme_uq_dma_unmap(struct nvme_uq *uq, dma_addr_t addr, u32 len,
		       struct nvme_uq_data *data, u8 flags)
{
	if (flags & NVME_UQ_DATA)
		nvme_uq_dma_unmap_data(uq, data);
	if (flags & NVME_UQ_UNMAP)
		dma_unmap_phys(uq->dma_dev, addr, len,
			       flags & NVME_UQ_WRITE ? DMA_TO_DEVICE :
			       DMA_FROM_DEVICE, 0);
}

/*
 * Count the PRP or SGL lists of a command. A single SGL descriptor and the
 * first two PRPs need no list.
 */
static int nvme_uq_count_lists(const struct nvme_uq *uq,
			       const struct nvme_uq_data *data)
{
	unsigned int n;

	if (uq->force_sgl)
		return data->nr_dma > 1;
	n = nvme_uq_prp_entries(data->sg, data->nr_dma);
	if (!n)
		return -EINVAL;
	if (n <= 2)
		return 0;
	n = nvme_uq_nr_lists(n - 1, NVME_UQ_LIST_PRPS);
	return n <= NVME_UQ_MAX_LISTS ? n : -EINVAL;
}

/*
 * Most commands need no list, so tags have no lists of their own. If memory
 * cannot be allocated without sleeping, a worker tries again, see
 * nvme_uq_pci_submit().
 */
static int nvme_uq_alloc_lists(struct nvme_uq *uq, struct nvme_uq_data *data)
{
	int n = nvme_uq_count_lists(uq, data);

	for (; n > 0; n--) {
		struct nvme_uq_list *list = &data->list[data->nr_lists];

		list->virt = dma_pool_alloc(uq->ctrl->uq->lists,
					    GFP_ATOMIC | __GFP_NOWARN,
					    &list->dma);
		if (!list->virt)
			return -ENOMEM;
		data->nr_lists++;
	}
	return n;
}

/**
 * nvme_uq_dma_map_data - map data and metadata, and allocate lists
 * @uq:		the queue
 * @io:		the command, prepared, with nvme_uq_io.data
 *
 * An IOMMU maps pages contiguously. Memory of an open file is already mapped.
 *
 * Return: 0, -EINVAL if PRPs cannot describe the data, or -ENOMEM.
 */
int nvme_uq_dma_map_data(struct nvme_uq *uq, struct nvme_uq_io *io)
{
	struct nvme_uq_data *data = io->data;
	enum dma_data_direction dir = nvme_uq_data_dir(data);
	int ret = -ENOMEM;

	if (data->meta) {
		data->meta_dma = dma_map_phys(uq->dma_dev,
					      virt_to_phys(data->meta),
					      data->meta_len, dir, 0);
		if (dma_mapping_error(uq->dma_dev, data->meta_dma))
			return ret;
	}
	if (data->nr_sg)
		data->nr_dma = dma_map_sg(uq->dma_dev, data->sg, data->nr_sg,
					  dir);
	if (data->nr_dma)
		ret = nvme_uq_alloc_lists(uq, data);
	if (ret)
		nvme_uq_dma_unmap_data(uq, data);
	else
		io->flags |= NVME_UQ_DATA;
	return ret;
}

/* Set the metadata pointer of a command, after its data pointer. */
static void nvme_uq_set_meta(struct nvme_uq *uq, struct nvme_command *c,
			     const struct nvme_uq_data *data, unsigned int idx)
{
	struct nvme_sgl_desc *sge = uq->meta_sgls + idx * sizeof(*sge);

	c->common.metadata = cpu_to_le64(data->meta_dma);
	if (!uq->meta_sgl_ok)
		return;

	/* the descriptor contains the length of the buffer */
	memset(sge, 0, sizeof(*sge));
	sge->addr = cpu_to_le64(data->meta_dma);
	sge->length = cpu_to_le32(data->meta_len);
	sge->type = NVME_SGL_FMT_DATA_DESC << 4;
	c->common.flags = NVME_CMD_SGL_METASEG;
	c->common.metadata = cpu_to_le64(uq->meta_sgls_dma +
					 idx * sizeof(*sge));
}

/**
 * nvme_uq_set_data - set the data and metadata pointers of a command
 * @uq:		the queue
 * @c:		the command
 * @data:	its data, mapped
 * @len:	bytes that the command transfers, from 1 to the length of @data;
 *		an SGL describes all of @data
 * @idx:	number of the command's tag
 */
void nvme_uq_set_data(struct nvme_uq *uq, struct nvme_command *c,
		      const struct nvme_uq_data *data, u32 len,
		      unsigned int idx)
{
	if (uq->force_sgl) {
		c->common.flags = NVME_CMD_SGL_METABUF;
		nvme_uq_sgl_build(&c->common.dptr, data->sg, data->nr_dma,
				  data->list);
	} else {
		nvme_uq_prp_build(&c->common.dptr, data->sg, len, data->list,
				  NVME_UQ_LIST_PRPS);
	}
	if (data->meta)
		nvme_uq_set_meta(uq, c, data, idx);
}
