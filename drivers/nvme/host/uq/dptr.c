// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: PRPs, SGLs, and the lengths of transfers.
 *
 * This file does not depend on PCI, user memory or the DMA API. The input is
 * ranges of bus addresses. The output is data pointers for the device.
 */
#include <linux/math.h>

#include "dptr.h"

/* Copies blocks inside the device. Its data is a list of them. */
#define NVME_UQ_CMD_COPY	0x19

static u64 nvme_uq_page_offset(u64 addr)
{
	return addr & (NVME_CTRL_PAGE_SIZE - 1);
}

static bool nvme_uq_page_aligned(u64 addr)
{
	return !nvme_uq_page_offset(addr);
}

/**
 * nvme_uq_prp_entries - count the PRPs that a transfer needs
 * @sg:		the memory, mapped; an array
 * @nr:		number of @sg, at least one
 *
 * A PRP describes one page from its address to the end of the page. So all
 * segments but the first must start at a page, and all but the last must end at
 * a page.
 *
 * Return: the number of pages of the transfer, including that of PRP1; 0 if
 * PRPs cannot describe the transfer.
 */
unsigned int nvme_uq_prp_entries(const struct scatterlist *sg, unsigned int nr)
{
	unsigned int i, entries = 0;

	for (i = 0; i < nr; i++) {
		u64 start = sg_dma_address(&sg[i]);
		u64 end = start + sg_dma_len(&sg[i]);

		if (i && !nvme_uq_page_aligned(start))
			return 0;
		if (i < nr - 1 && !nvme_uq_page_aligned(end))
			return 0;
		entries += DIV_ROUND_UP(nvme_uq_page_offset(start) + end - start,
					NVME_CTRL_PAGE_SIZE);
	}
	return entries;
}
EXPORT_SYMBOL_GPL(nvme_uq_prp_entries);

/**
 * nvme_uq_nr_lists - count the lists for a number of entries
 * @entries:	PRPs
 * @per_list:	entries per list
 *
 * All lists but the last use an entry for the address of the next list.
 *
 * Return: the number of lists.
 */
unsigned int nvme_uq_nr_lists(unsigned int entries, unsigned int per_list)
{
	if (entries <= per_list)
		return 1;
	return DIV_ROUND_UP(entries - 1, per_list - 1);
}
EXPORT_SYMBOL_GPL(nvme_uq_nr_lists);

/**
 * nvme_uq_prp_build - describe a transfer by PRPs
 * @dptr:	data pointer of the command
 * @sg:		the memory, mapped; an array for which nvme_uq_prp_entries() is
 *		not 0
 * @len:	bytes that the command transfers, from 1 to the length of @sg
 * @list:	lists for all entries of @sg but the first, nvme_uq_nr_lists()
 *		of them; unused for up to two entries
 * @per_list:	entries per list
 *
 * Neither PRP2 nor the last entry of a list has a type. The device derives from
 * @len whether the entry is the address of data or of a list. If the device
 * took the address of a list for that of data, it would overwrite the list or
 * send it as data.
 */
void nvme_uq_prp_build(union nvme_data_ptr *dptr, const struct scatterlist *sg,
		       u32 len, const struct nvme_uq_list *list,
		       unsigned int per_list)
{
	dma_addr_t addr = sg_dma_address(sg), end = addr + sg_dma_len(sg);
	unsigned int left, i = 0;
	__le64 *prp;

	left = DIV_ROUND_UP(nvme_uq_page_offset(addr) + len,
			    NVME_CTRL_PAGE_SIZE);
	dptr->prp1 = cpu_to_le64(addr);
	dptr->prp2 = 0;
	if (--left == 0)
		return;

	prp = left == 1 ? &dptr->prp2 : list->virt;
	if (left > 1)
		dptr->prp2 = cpu_to_le64(list->dma);

	for (; left; left--) {
		addr = round_down(addr, NVME_CTRL_PAGE_SIZE) +
			NVME_CTRL_PAGE_SIZE;
		if (addr >= end) {
			sg++;
			addr = sg_dma_address(sg);
			end = addr + sg_dma_len(sg);
		}
		/* the last entry of a full list is the address of the next */
		if (i == per_list - 1 && left > 1) {
			list++;
			prp[i] = cpu_to_le64(list->dma);
			prp = list->virt;
			i = 0;
		}
		prp[i++] = cpu_to_le64(addr);
	}
}
EXPORT_SYMBOL_GPL(nvme_uq_prp_build);

static void nvme_uq_sgl_set(struct nvme_sgl_desc *sge, dma_addr_t addr, u32 len,
			    u8 type)
{
	sge->addr = cpu_to_le64(addr);
	sge->length = cpu_to_le32(len);
	memset(sge->rsvd, 0, sizeof(sge->rsvd));
	sge->type = type << 4;
}

/**
 * nvme_uq_sgl_build - describe a transfer by an SGL
 * @dptr:	data pointer of the command
 * @sg:		the memory, mapped; an array
 * @nr:		number of @sg, from one to NVME_UQ_MAX_SEGS
 * @list:	list for @nr descriptors; unused for one segment
 */
void nvme_uq_sgl_build(union nvme_data_ptr *dptr, const struct scatterlist *sg,
		       unsigned int nr, const struct nvme_uq_list *list)
{
	struct nvme_sgl_desc *sge = &dptr->sgl;

	if (nr > 1) {
		nvme_uq_sgl_set(sge, list->dma, nr * sizeof(*sge),
				NVME_SGL_FMT_LAST_SEG_DESC);
		sge = list->virt;
	}
	for (; nr; nr--, sg++)
		nvme_uq_sgl_set(sge++, sg_dma_address(sg), sg_dma_len(sg),
				NVME_SGL_FMT_DATA_DESC);
}
EXPORT_SYMBOL_GPL(nvme_uq_sgl_build);

static bool nvme_uq_has_blocks(const struct nvme_uq_fmt *fmt)
{
	return fmt->csi == NVME_CSI_NVM || fmt->csi == NVME_CSI_ZNS;
}

/*
 * Return false if the format was never read, because the block layer does not
 * support the namespace. No logical block is smaller than a sector.
 */
static bool nvme_uq_is_known(const struct nvme_uq_fmt *fmt)
{
	return fmt->lba_shift >= SECTOR_SHIFT;
}

/* Logical blocks of a command with the layout of a read. */
static u64 nvme_uq_blocks(const struct nvme_command *c)
{
	return (u64)le16_to_cpu(c->rw.length) + 1;
}

/* Return true if the controller inserts and strips the metadata. */
static bool nvme_uq_pi_stripped(const struct nvme_command *c,
				const struct nvme_uq_fmt *fmt)
{
	return (le16_to_cpu(c->rw.control) & NVME_RW_PRINFO_PRACT) &&
		fmt->pi_size && fmt->ms == fmt->pi_size;
}

static u64 nvme_uq_rw_bytes(const struct nvme_command *c,
			    const struct nvme_uq_fmt *fmt)
{
	u64 bytes = nvme_uq_blocks(c) << fmt->lba_shift;

	if (!nvme_uq_is_known(fmt))
		return U64_MAX;
	if (!fmt->ext || !fmt->ms || nvme_uq_pi_stripped(c, fmt))
		return bytes;
	/* the controller may strip PI that the driver does not use */
	if (le16_to_cpu(c->rw.control) & NVME_RW_PRINFO_PRACT)
		return U64_MAX;
	return bytes + nvme_uq_blocks(c) * fmt->ms;
}

/*
 * Convert a 0's based number of dwords to bytes. This is the maximum length of
 * the transfer: the device may transfer less. Only for a maximum of up to a
 * page, PRP2 cannot be a list.
 */
static u64 nvme_uq_dwords(__le32 numd)
{
	u64 bytes = ((u64)le32_to_cpu(numd) + 1) * 4;

	return bytes <= NVME_CTRL_PAGE_SIZE ? bytes : U64_MAX;
}

/**
 * nvme_uq_xfer_bytes - compute how much data a command transfers
 * @c:		the command
 * @fmt:	format of the namespace
 *
 * PRPs have no length. If a command transfers more than the buffer, the device
 * continues at the address in the next entry. So without SGLs, a command is
 * only allowed if its length is known and fits. The length must be exact, see
 * nvme_uq_prp_build(). Only for up to one page a device may transfer less.
 *
 * Return: the number of bytes, U64_MAX if it is unknown.
 */
u64 nvme_uq_xfer_bytes(const struct nvme_command *c,
		       const struct nvme_uq_fmt *fmt)
{
	u32 cdw10 = le32_to_cpu(c->common.cdw10);
	u32 cdw13 = le32_to_cpu(c->common.cdw13);

	if (!nvme_uq_has_blocks(fmt))
		return U64_MAX;

	switch (c->common.opcode) {
	case nvme_cmd_flush:
	case nvme_cmd_write_uncor:
	case nvme_cmd_write_zeroes:
	case nvme_cmd_verify:
		return 0;
	case nvme_cmd_read:
	case nvme_cmd_write:
	case nvme_cmd_compare:
	case nvme_cmd_zone_append:
		return nvme_uq_rw_bytes(c, fmt);
	case nvme_cmd_dsm:
		return ((cdw10 & 0xff) + 1) * sizeof(struct nvme_dsm_range);
	case nvme_cmd_resv_register:
	case nvme_cmd_resv_acquire:
		return 16;
	case nvme_cmd_resv_release:
		return 8;
	case nvme_cmd_resv_report:
		return nvme_uq_dwords(c->common.cdw10);
	case nvme_cmd_io_mgmt_recv:
		return nvme_uq_dwords(c->common.cdw11);
	case nvme_cmd_zone_mgmt_recv:
		return nvme_uq_dwords(c->common.cdw12);
	case nvme_cmd_zone_mgmt_send:
		/* only "set zone descriptor extension" carries data */
		return (cdw13 & 0xff) == NVME_ZONE_SET_DESC_EXT ? U64_MAX : 0;
	default:
		return U64_MAX;
	}
}
EXPORT_SYMBOL_GPL(nvme_uq_xfer_bytes);

/**
 * nvme_uq_meta_fits - check that a transfer stays inside the metadata buffer
 * @c:		the command
 * @fmt:	format of the namespace
 * @meta_len:	length of the metadata buffer, 0 for none
 *
 * Like nvme_uq_xfer_bytes() for data, but for a metadata pointer without an
 * SGL. Without metadata, the pointer is address 0, which the device would
 * access. So an unknown command is not allowed either way.
 *
 * Return: true if the transfer cannot exceed the buffer.
 */
bool nvme_uq_meta_fits(const struct nvme_command *c,
		       const struct nvme_uq_fmt *fmt, u64 meta_len)
{
	bool known = nvme_uq_is_known(fmt);

	if (known ? !fmt->ms || fmt->ext : !nvme_uq_has_blocks(fmt))
		return true;

	switch (c->common.opcode) {
	case nvme_cmd_read:
	case nvme_cmd_write:
	case nvme_cmd_compare:
	case nvme_cmd_zone_append:
		return known &&
			(nvme_uq_pi_stripped(c, fmt) ||
			 nvme_uq_blocks(c) * fmt->ms <= meta_len);
	case nvme_cmd_flush:
	case nvme_cmd_write_uncor:
	case nvme_cmd_write_zeroes:
	case nvme_cmd_dsm:
	case nvme_cmd_verify:
	case nvme_cmd_resv_register:
	case nvme_cmd_resv_report:
	case nvme_cmd_resv_acquire:
	case nvme_cmd_resv_release:
	case nvme_cmd_io_mgmt_recv:
	case nvme_cmd_zone_mgmt_send:
	case nvme_cmd_zone_mgmt_recv:
	case NVME_UQ_CMD_COPY:
		return true;
	default:
		return false;
	}
}
EXPORT_SYMBOL_GPL(nvme_uq_meta_fits);
