/* SPDX-License-Identifier: GPL-2.0 */
/*
 * NVMe user queues: memory that the driver has allocated for an open file.
 *
 * States, in this order:
 *
 *   none	nvme_uq_file.mem is NULL.
 *   attached	NVME_UQ_IOCTL_ALLOC_MEMORY has set it, once. The memory is mapped
 *		for the device, may be mapped to user space, and commands of the
 *		open file may use it.
 *   revoked	The driver was unbound from the controller. No page is mapped to
 *		user space or for the device, and all are freed. No command can be
 *		submitted any more. struct nvme_uq_mem stays.
 *   freed	The open file was released: no descriptor, mapping or command of
 *		it is left.
 *
 * What keeps what:
 *
 *   - A command in flight, a mapping and a descriptor each hold the struct file,
 *     and with it struct nvme_uq_mem. So the path of a command takes neither lock
 *     nor reference for it, and memory stays until the device has completed the
 *     last command or was disabled, even if the process has died.
 *   - Pages are inserted into page tables by their frame number. Nothing can hold
 *     a reference of a page, so unmap_mapping_range() removes the last one of user
 *     space.
 *   - nvme_uq_mems.lock, held for reading, keeps memory from being revoked: while
 *     it is allocated, while a fault inserts a page, while it is freed. It nests
 *     inside mmap_lock, and outside of memory allocation and list_lock; a reset
 *     does not take it. nvme_uq_mem_revoke() holds it for writing, after the
 *     queues were blocked for good and all commands ended: first it removes the
 *     mappings, then it frees the pages. A fault that comes later finds the mark.
 */
#ifndef _NVME_UQ_MEM_H
#define _NVME_UQ_MEM_H

#include <linux/list.h>

#include "private.h"
#include "piece.h"

struct user_struct;

/**
 * struct nvme_uq_mem - memory of an open file
 * @pieces:	where it is for the device
 * @pages:	its pages, in order
 * @allocs:	what was allocated, for the driver of the controller
 * @file:	the open file; not referenced, as the file releases the memory
 * @list:	entry of nvme_uq_mems.list; empty once the pages are freed
 * @user:	user of the RLIMIT_MEMLOCK that it counts against, or NULL
 *
 * Does not change while it is attached, but for @list.
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
