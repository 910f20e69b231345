/* SPDX-License-Identifier: GPL-2.0 */
/*
 * NVMe user queues: memory that the driver has allocated for an open file.
 *
 * States, in this order:
 *
 *   none	nvme_uq_file.mem is NULL.
 *   attached	NVME_UQ_IOCTL_ALLOC_MEMORY has set the pointer, once. The memory
 *		is mapped for the device, and may be mapped to user space.
 *		Commands of the open file may use it.
 *   revoked	The driver was unbound from the controller. No page is mapped to
 *		user space or for the device, and all pages are freed. No new
 *		command is accepted. struct nvme_uq_mem stays.
 *   freed	The open file was released. It has no descriptor, mapping or
 *		command left.
 *
 * Lifetime:
 *
 *   - A command in flight, a mapping and a descriptor each hold the struct
 *     file, which holds struct nvme_uq_mem. So submission takes neither a lock
 *     nor a reference for the memory. The memory stays until the device has
 *     completed the last command or was disabled, even if the process has died.
 *   - Pages are inserted into page tables by their frame number. Nothing can
 *     take a reference to a page, so unmap_mapping_range() removes the last
 *     user space reference.
 *   - nvme_uq_mems.lock, held for reading, prevents revocation while memory is
 *     allocated or freed, and while a fault inserts a page. The lock nests
 *     inside mmap_lock, and outside memory allocation and list_lock. A reset
 *     does not take it.
 *   - nvme_uq_mem_revoke() holds nvme_uq_mems.lock for writing, after the
 *     queues were blocked for good and all commands have ended. It removes the
 *     mappings, then frees the pages. A later fault sees nvme_uq_mems.revoked.
 */
#ifndef _NVME_UQ_MEM_H
#define _NVME_UQ_MEM_H

#include <linux/list.h>

#include "private.h"
#include "piece.h"

struct user_struct;

/**
 * struct nvme_uq_mem - memory of an open file
 * @pieces:	bus addresses of the memory
 * @pages:	pages of the memory, in order
 * @allocs:	allocations of the controller's driver
 * @file:	the open file; not referenced, because the file releases the
 *		memory
 * @list:	entry of nvme_uq_mems.list
 * @user:	user whose RLIMIT_MEMLOCK is charged, or NULL
 *
 * Only @list changes while the memory is attached.
 */
struct nvme_uq_mem {
	struct nvme_uq_pieces	pieces;
	struct page		**pages;
	struct list_head	allocs;
	struct file		*file;
	struct list_head	list;
	struct user_struct	*user;
};

void nvme_uq_mems_init(struct nvme_uq_mems *mems);
int nvme_uq_ioctl_alloc_mem(struct nvme_uq_file *uf, void __user *argp);
int nvme_uq_mem_mmap_prepare(struct vm_area_desc *desc);
void nvme_uq_mem_release(struct nvme_uq_file *uf);
void nvme_uq_mem_revoke(struct nvme_ctrl *ctrl);
int nvme_uq_import_mem(struct nvme_uq_io *io, u64 offset, u32 len);

#endif /* _NVME_UQ_MEM_H */
