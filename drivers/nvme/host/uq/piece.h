/* SPDX-License-Identifier: GPL-2.0 */
/* NVMe user queues: memory in pieces, as the device sees it. */
#ifndef _NVME_UQ_PIECE_H
#define _NVME_UQ_PIECE_H

#include "dptr.h"

/* Number of pages between the starts of two lists. */
#define NVME_UQ_LIST_STEP	(NVME_UQ_LIST_PRPS / 2)

/**
 * struct nvme_uq_pieces - memory in pieces of one size
 * @size:	size of the memory in bytes, a multiple of NVME_CTRL_PAGE_SIZE
 * @shift:	log2 of the size of a piece, at least that of
 *		NVME_CTRL_PAGE_SIZE; the last piece may be shorter
 * @base:	for each piece, a bus address that gives the bus address of the
 *		data if the data's offset in the memory is added. May wrap
 *		around.
 * @prps:	PRP lists, see nvme_uq_pieces_fill_list(); or NULL
 *
 * Does not change while the memory is in use.
 */
struct nvme_uq_pieces {
	u64			size;
	unsigned int		shift;
	dma_addr_t		*base;
	struct nvme_uq_list	*prps;
};

/* Return true if the range is in the memory. @len may be 0. */
static __always_inline bool nvme_uq_pieces_hold(const struct nvme_uq_pieces *p,
						u64 offset, u32 len)
{
	return offset <= p->size && len <= p->size - offset;
}

/* Bus address of an offset that is in the memory. */
static __always_inline dma_addr_t
nvme_uq_pieces_addr(const struct nvme_uq_pieces *p, u64 offset)
{
	return p->base[offset >> p->shift] + offset;
}

/*
 * Return true if a range inside the memory, not of length 0, is in one piece.
 */
static __always_inline bool
nvme_uq_pieces_in_one(const struct nvme_uq_pieces *p, u64 offset, u32 len)
{
	return offset >> p->shift == (offset + len - 1) >> p->shift;
}

u64 nvme_uq_piece_size(u64 size, u64 most);
unsigned int nvme_uq_pieces_segs(const struct nvme_uq_pieces *p, u64 offset,
				 u32 len, struct scatterlist *sg);
unsigned int nvme_uq_pieces_nr_lists(const struct nvme_uq_pieces *p);
void nvme_uq_pieces_fill_list(const struct nvme_uq_pieces *p, unsigned int nr);
bool nvme_uq_pieces_prp2(const struct nvme_uq_pieces *p, u64 offset, u32 len,
			 u64 *prp2);

#endif /* _NVME_UQ_PIECE_H */
