// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: bus addresses of an open file's memory.
 *
 * Only computes, like dptr.c. The input is the bus addresses of the pieces. The
 * output is ranges of bus addresses, or PRPs.
 */
#include <linux/align.h>
#include <linux/bitops.h>
#include <linux/export.h>
#include <linux/math.h>
#include <linux/minmax.h>

#include "piece.h"

/**
 * nvme_uq_piece_size - choose the size of pieces
 * @size:	bytes requested, a multiple of PAGE_SIZE, not 0
 * @most:	maximum size of a piece, a power of two of at least PAGE_SIZE
 *
 * The page allocator returns powers of two. With larger pieces, fewer commands
 * cross from one piece to the next. But rounding up to whole pieces may add at
 * most one eighth to @size.
 *
 * Return: the size of a piece, from PAGE_SIZE to @most.
 */
u64 nvme_uq_piece_size(u64 size, u64 most)
{
	u64 piece = min(most, 1ULL << (fls64(size) - 1));

	while (piece > PAGE_SIZE && ALIGN(size, piece) - size > size / 8)
		piece /= 2;
	return piece;
}
EXPORT_SYMBOL_GPL(nvme_uq_piece_size);

/**
 * nvme_uq_pieces_segs - find the segments of a range
 * @p:		the memory
 * @offset:	start of the range, inside the memory
 * @len:	length of the range, not 0
 * @sg:		zeroed array for the bus addresses of the segments; NULL to
 *		count them
 *
 * Return: the number of segments. Pieces with adjacent bus addresses are one
 * segment.
 */
unsigned int nvme_uq_pieces_segs(const struct nvme_uq_pieces *p, u64 offset,
				 u32 len, struct scatterlist *sg)
{
	u64 end = offset + len;
	dma_addr_t next = 0;
	unsigned int n = 0;

	while (offset < end) {
		u64 piece_end = ((offset >> p->shift) + 1) << p->shift;
		dma_addr_t addr = nvme_uq_pieces_addr(p, offset);
		u32 part = min(piece_end, end) - offset;

		if (!n || addr != next) {
			n++;
			if (sg)
				sg_dma_address(&sg[n - 1]) = addr;
		}
		if (sg)
			sg_dma_len(&sg[n - 1]) += part;
		next = addr + part;
		offset += part;
	}
	return n;
}
EXPORT_SYMBOL_GPL(nvme_uq_pieces_segs);

/**
 * nvme_uq_pieces_nr_lists - count the PRP lists of memory in pieces
 * @p:		the memory
 *
 * Return: the number of lists for all of the memory.
 */
unsigned int nvme_uq_pieces_nr_lists(const struct nvme_uq_pieces *p)
{
	return DIV_ROUND_UP(p->size / NVME_CTRL_PAGE_SIZE, NVME_UQ_LIST_STEP);
}
EXPORT_SYMBOL_GPL(nvme_uq_pieces_nr_lists);

/**
 * nvme_uq_pieces_fill_list - fill a PRP list
 * @p:		the memory, with @p->prps
 * @nr:		number of the list
 *
 * List @nr starts at page NVME_UQ_LIST_STEP times @nr. So each page is in the
 * first half of one list. All but the first NVME_UQ_LIST_STEP pages are also in
 * the second half of the previous list. A command points to an entry in the
 * first half. At least half a list follows that entry: lists need no chaining,
 * and the last entry of a list is always a page.
 *
 * Entries behind the last page repeat the last page. No command should get
 * there.
 */
void nvme_uq_pieces_fill_list(const struct nvme_uq_pieces *p, unsigned int nr)
{
	u64 last = p->size / NVME_CTRL_PAGE_SIZE - 1;
	u64 page = (u64)nr * NVME_UQ_LIST_STEP;
	__le64 *prp = p->prps[nr].virt;
	unsigned int i;

	for (i = 0; i < NVME_UQ_LIST_PRPS; i++, page++) {
		u64 offset = min(page, last) * NVME_CTRL_PAGE_SIZE;

		prp[i] = cpu_to_le64(nvme_uq_pieces_addr(p, offset));
	}
}
EXPORT_SYMBOL_GPL(nvme_uq_pieces_fill_list);

/**
 * nvme_uq_pieces_prp2 - compute the second PRP of a command
 * @p:		the memory
 * @offset:	start of the range, inside the memory
 * @len:	length of the range, not 0
 * @prp2:	the second PRP: 0, a page, or the address of a list entry
 *
 * The first PRP is nvme_uq_pieces_addr().
 *
 * Return: false if one PRP is not enough: there are no lists, or the range goes
 * beyond the end of its list.
 */
bool nvme_uq_pieces_prp2(const struct nvme_uq_pieces *p, u64 offset, u32 len,
			 u64 *prp2)
{
	u64 first = offset / NVME_CTRL_PAGE_SIZE;
	u64 last = (offset + len - 1) / NVME_CTRL_PAGE_SIZE;
	unsigned int entry = (first + 1) % NVME_UQ_LIST_STEP;

	*prp2 = 0;
	if (last == first)
		return true;
	if (last == first + 1) {
		*prp2 = nvme_uq_pieces_addr(p, last * NVME_CTRL_PAGE_SIZE);
		return true;
	}
	if (!p->prps || last - first > NVME_UQ_LIST_PRPS - entry)
		return false;
	*prp2 = p->prps[(first + 1) / NVME_UQ_LIST_STEP].dma +
		entry * sizeof(__le64);
	return true;
}
EXPORT_SYMBOL_GPL(nvme_uq_pieces_prp2);
