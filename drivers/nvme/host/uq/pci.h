/* SPDX-License-Identifier: GPL-2.0 */
/*
 * NVMe user queues: declarations for the files of the PCI driver.
 *
 *   pci.c		creating and deleting queues
 *   pci-reserve.c	reserving queues and interrupt vectors
 *   pci-io.c		submission
 *   pci-plug.c		deferred doorbells
 *   pci-complete.c	completion
 *   pci-rw.c		ending commands of kiocbs
 *   pci-pin.c		pinning user memory and finding its segments
 *   pci-dma.c		DMA mappings
 *   pci-mem.c		memory of open files
 *   pci-timeout.c	timeouts
 *   pci-cq.c		memory of completion queues
 *   pci-fault.c	fault injection, for tests
 */
#ifndef _NVME_UQ_PCI_H
#define _NVME_UQ_PCI_H

#include <linux/dma-mapping.h>
#include <linux/io.h>
#include <linux/log2.h>
#include <linux/scatterlist.h>

#include "info.h"
#include "rw.h"
#include "wait.h"

#define NVME_UQ_SQ_BYTES(uq)	((size_t)(uq)->depth * sizeof(struct nvme_command))
/* Whole pages, because user space can map the rest of the last page too. */
#define NVME_UQ_CQ_BYTES(uq)	PAGE_ALIGN((size_t)(uq)->depth * sizeof(struct nvme_completion))

/**
 * struct nvme_uq_data - the memory of a command, unless it is simple
 * @nr_pages:	number of pinned pages with data
 * @nr_meta:	number of pinned pages with metadata
 * @nr_sg:	number of @sg to map; 0 if the memory is already mapped
 * @nr_dma:	number of @sg with a bus address
 * @nr_lists:	number of @list; 0 if the command needs no list
 * @end:	physical address of the end of the last segment
 * @list:	PRP or SGL lists
 * @dirty:	the device writes to the memory
 * @meta_len:	length of @meta
 * @meta_offset: offset of the metadata in its first page
 * @meta:	copy of the metadata for the device, or NULL
 * @meta_dma:	bus address of @meta
 * @pages:	pinned pages: first data, then metadata
 * @sg:		the segments, an array
 *
 * Data in one segment of up to two pages, without metadata, needs none. See
 * NVME_UQ_USER_PAGE.
 */
struct nvme_uq_data {
	unsigned int		nr_pages;
	unsigned int		nr_meta;
	unsigned int		nr_sg;
	unsigned int		nr_dma;
	unsigned int		nr_lists;
	phys_addr_t		end;
	struct nvme_uq_list	list[NVME_UQ_MAX_LISTS];
	bool			dirty;
	u32			meta_len;
	u32			meta_offset;
	void			*meta;
	dma_addr_t		meta_dma;
	struct page		**pages;
	struct scatterlist	sg[];
};

/*
 * Add a segment. Merge it with the last one if they are adjacent. Segments
 * beyond NVME_UQ_MAX_SEGS are only counted.
 */
static inline void nvme_uq_data_add(struct nvme_uq_data *data,
				    struct page *page, unsigned int offset,
				    unsigned int len)
{
	struct scatterlist *sg = &data->sg[data->nr_sg];
	phys_addr_t phys = page_to_phys(page) + offset;

	if (phys == data->end && data->nr_sg &&
	    data->nr_sg <= NVME_UQ_MAX_SEGS) {
		sg[-1].length += len;
	} else if (data->nr_sg++ < NVME_UQ_MAX_SEGS) {
		*sg = (struct scatterlist){ };
		sg_set_page(sg, page, len, offset);
	}
	data->end = phys + len;
}

/*
 * Low bits of nvme_uq_pdu.user: the rest is a page, and the page was written
 * to.
 */
#define NVME_UQ_USER_PAGE	1UL
#define NVME_UQ_USER_DIRTY	2UL

/* Data in struct io_uring_cmd from submission to completion. */
struct nvme_uq_pdu {
	struct io_uring_cmd	*next;
	unsigned long		user;
	u64			result;
	int			status;
};

static inline struct nvme_uq_pdu *nvme_uq_pdu(struct io_uring_cmd *ioucmd)
{
	return io_uring_cmd_to_pdu(ioucmd, struct nvme_uq_pdu);
}

/* Completed commands: a list in order, and those of kiocbs in any order. */
struct nvme_uq_done {
	struct io_uring_cmd	*first;
	struct io_uring_cmd	**last;
	struct nvme_uq_rw	*rw;
};

static inline void nvme_uq_done_init(struct nvme_uq_done *done)
{
	done->last = &done->first;
	done->rw = NULL;
}

static inline void nvme_uq_done_add(struct nvme_uq_done *done,
				    struct io_uring_cmd *ioucmd)
{
	*done->last = ioucmd;
	done->last = &nvme_uq_pdu(ioucmd)->next;
}

/* pci-io.c */
extern const struct nvme_uq_ops nvme_uq_pci_ops;

/* pci-plug.c */
void nvme_uq_pci_ring(struct nvme_uq *uq);
bool nvme_uq_add_plug(struct nvme_uq *uq, struct file *file);

/*
 * Return true if memory that stays mapped would need synchronization for each
 * transfer. A bounce buffer, such as Xen's swiotlb, may be in use even if the
 * device is coherent. An IOMMU with page tables maps the memory itself.
 */
static inline bool nvme_uq_needs_sync(const struct nvme_uq *uq, dma_addr_t addr)
{
	return dma_need_sync(uq->dma_dev, addr) &&
		!dma_get_merge_boundary(uq->dma_dev);
}

/* pci-cq.c */
void nvme_uq_alloc_cq(struct nvme_uq *uq);
void nvme_uq_free_cq(struct nvme_uq *uq);
struct page *nvme_uq_pci_cq_page(struct nvme_uq *uq, unsigned long nr);

/* pci-complete.c */
int nvme_uq_pci_iopoll(struct nvme_uq *uq, struct io_comp_batch *iob,
		       unsigned int flags);
void nvme_uq_queue_poll_work(struct nvme_uq *uq);
irqreturn_t nvme_uq_irq(int irq, void *data);
void nvme_uq_pci_reap(struct nvme_uq *uq);
void nvme_uq_poll_work(struct work_struct *work);
#if IS_ENABLED(CONFIG_KUNIT)
unsigned int nvme_uq_reap_locked(struct nvme_uq *uq, struct nvme_uq_done *done);
#endif

/* pci-rw.c */
void nvme_uq_pci_unpin_rw(struct nvme_uq_rw *rw);
void nvme_uq_dirty_user(unsigned long val);
void nvme_uq_finish_rw(struct nvme_uq_rw *rw);

/* pci-pin.c */
void __nvme_uq_unpin_user(unsigned long val, bool completed);
unsigned long nvme_uq_pin_page(unsigned long addr, bool write,
			       phys_addr_t *phys);
int nvme_uq_prep_memory(struct nvme_uq_io *io);

/* Unpin user memory, if there is any. May sleep. */
static __always_inline void nvme_uq_unpin_user(unsigned long val,
					       bool completed)
{
	if (unlikely(val))
		__nvme_uq_unpin_user(val, completed);
}

/* pci-dma.c */
int nvme_uq_dma_map_data(struct nvme_uq *uq, struct nvme_uq_io *io);
void nvme_uq_dma_unmap(struct nvme_uq *uq, dma_addr_t addr, u32 len,
		       struct nvme_uq_data *data, u8 flags);
void nvme_uq_set_data(struct nvme_uq *uq, struct nvme_command *c,
		      const struct nvme_uq_data *data, u32 len,
		      unsigned int idx);

/* pci-mem.c */
int nvme_uq_pci_mem_plan(struct nvme_uq *uq, struct nvme_uq_mem *mem,
			 u64 *most);
int nvme_uq_pci_mem_alloc(struct nvme_uq *uq, struct nvme_uq_mem *mem);
void nvme_uq_pci_mem_free(struct nvme_uq *uq, struct nvme_uq_mem *mem);

/*
 * Time between the timeout of a command and its deadline. blk-mq rounds
 * deadlines up by the same time, to need fewer timers. User space may request a
 * timeout of a millisecond. An overdue command can lead to a reset, which
 * affects all users of the controller.
 */
#define NVME_UQ_GRACE	roundup_pow_of_two(HZ)
static_assert(NVME_UQ_MAX_TIMEOUT + NVME_UQ_GRACE < INT_MAX);

/* pci-timeout.c */
void nvme_uq_arm_timeout(struct nvme_uq *uq, unsigned long deadline);
void nvme_uq_timeout_work(struct work_struct *work);

/* A completion, real or injected, see pci-fault.c. */
struct nvme_uq_seen {
	u64	result;
	int	status;
	u16	cid;
};

/* Maximum number of completions that replace one completion. */
#define NVME_UQ_FAULT_SEEN	16

/* pci-fault.c: not defined, and not called, without CONFIG_NVME_UQ_FAULT */
#define NVME_UQ_FAULT	IS_ENABLED(CONFIG_NVME_UQ_FAULT)

void nvme_uq_fault_init(struct nvme_ctrl *ctrl, struct nvme_uq_ctrl *uqc);
void nvme_uq_fault_free(struct nvme_uq_ctrl *uqc);
bool nvme_uq_fault_storm(struct nvme_uq *uq);
bool nvme_uq_fault_may_storm(struct nvme_uq *uq);
bool nvme_uq_fault_irq(struct nvme_uq *uq);
bool nvme_uq_fault_no_sgl(struct nvme_ctrl *ctrl);
bool nvme_uq_fault_no_memory(struct nvme_uq *uq);
u8 nvme_uq_fault_admin(struct nvme_ctrl *ctrl, u8 opcode);
unsigned int nvme_uq_fault_see(struct nvme_uq *uq, struct nvme_uq_seen *seen);

/* The opcode of an admin command, or one that the device rejects. */
static inline u8 nvme_uq_admin_opcode(struct nvme_ctrl *ctrl, u8 opcode)
{
	return NVME_UQ_FAULT ? nvme_uq_fault_admin(ctrl, opcode) : opcode;
}

/* Update a shadow doorbell. Return true if an MMIO write is required. */
static inline bool nvme_uq_dbbuf_update(u16 value, __le32 *db, __le32 *ei)
{
	u16 old, event;

	/* the entries come before the doorbell */
	wmb();
	old = le32_to_cpu(*db);
	WRITE_ONCE(*db, cpu_to_le32(value));
	/* the doorbell comes before the read of the event index */
	mb();
	event = le32_to_cpu(READ_ONCE(*ei));
	return (u16)(value - event - 1) < (u16)(value - old);
}

/* Ring the doorbell for all commands in the submission queue. */
static inline void nvme_uq_ring_sq(struct nvme_uq *uq)
{
	lockdep_assert_held(&uq->sq_lock);
	uq->last_sq_tail = uq->sq_tail;
	nvme_uq_info_submitted(uq);
	if (unlikely(uq->dbbuf_sq_db) &&
	    !nvme_uq_dbbuf_update(uq->sq_tail, uq->dbbuf_sq_db, uq->dbbuf_sq_ei))
		return;
	writel(uq->last_sq_tail, uq->sq_db);
	uq->doorbells++;
}

/* Map data in one segment. */
static __always_inline int nvme_uq_dma_map_one(struct nvme_uq *uq,
					       struct nvme_uq_io *io)
{
	io->addr = dma_map_phys(uq->dma_dev, io->phys, io->len,
				io->write ? DMA_TO_DEVICE : DMA_FROM_DEVICE, 0);
	if (unlikely(dma_mapping_error(uq->dma_dev, io->addr)))
		return -ENOMEM;
	if (unlikely(dma_need_unmap(uq->dma_dev)))
		io->flags |= io->write ? NVME_UQ_UNMAP | NVME_UQ_WRITE :
			NVME_UQ_UNMAP;
	return 0;
}

#endif /* _NVME_UQ_PCI_H */
