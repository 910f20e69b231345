/* SPDX-License-Identifier: GPL-2.0 */
/* NVMe user queues: PRPs, SGLs and the lengths of transfers. */
#ifndef _NVME_UQ_DPTR_H
#define _NVME_UQ_DPTR_H

#include <linux/scatterlist.h>
#include <linux/types.h>

#include "../nvme.h"

/**
 * struct nvme_uq_list - memory for one PRP list or SGL segment
 * @virt:	kernel address, for the driver
 * @dma:	bus address, for the device
 */
struct nvme_uq_list {
	void		*virt;
	dma_addr_t	dma;
};

/* PRPs of a list. */
#define NVME_UQ_LIST_PRPS	(NVME_CTRL_PAGE_SIZE / sizeof(__le64))

/*
 * Maximum number of segments of a command, as for the block layer: an SGL of
 * one list.
 */
#define NVME_UQ_MAX_SEGS \
	((unsigned int)(NVME_CTRL_PAGE_SIZE / sizeof(struct nvme_sgl_desc)))

/* Maximum number of lists of a command: PRPs for 8 MiB. */
#define NVME_UQ_MAX_LISTS	5

unsigned int nvme_uq_prp_entries(const struct scatterlist *sg, unsigned int nr);
unsigned int nvme_uq_nr_lists(unsigned int entries, unsigned int per_list);
void nvme_uq_prp_build(union nvme_data_ptr *dptr, const struct scatterlist *sg,
		       u32 len, const struct nvme_uq_list *list,
		       unsigned int per_list);
void nvme_uq_sgl_build(union nvme_data_ptr *dptr, const struct scatterlist *sg,
		       unsigned int nr, const struct nvme_uq_list *list);

/**
 * struct nvme_uq_fmt - format of a namespace, as far as it affects lengths
 * @csi:	command set of the namespace
 * @lba_shift:	log2 of the size of a logical block
 * @ms:		bytes of metadata per logical block
 * @pi_size:	bytes of protection information in @ms, 0 for none
 * @ext:	metadata follows each block in the data buffer
 */
struct nvme_uq_fmt {
	u8		csi;
	u8		lba_shift;
	u16		ms;
	u16		pi_size;
	bool		ext;
};

u64 nvme_uq_xfer_bytes(const struct nvme_command *c,
		       const struct nvme_uq_fmt *fmt);
bool nvme_uq_meta_fits(const struct nvme_command *c,
		       const struct nvme_uq_fmt *fmt, u64 meta_len);

#endif /* _NVME_UQ_DPTR_H */
