// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: memory of open files, see mem.h.
 *
 * An open file allocates memory once. The driver of the controller allocates
 * the pages and maps them for the device. User space maps them at
 * NVME_UQ_OFF_MEMORY, and commands name offsets in the memory.
 */
#include <linux/cred.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/user.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <uapi/linux/nvme_uq.h>

#include "mem.h"

#define NVME_UQ_MEMORY_PGOFF	(NVME_UQ_OFF_MEMORY >> PAGE_SHIFT)

static struct nvme_uq_mems *nvme_uq_file_mems(const struct nvme_uq_file *uf)
{
	return &uf->node->uq->ctrl->uq->mems;
}

/**
 * nvme_uq_mems_init - initialize struct nvme_uq_mems of a controller
 * @mems:	the memory of the controller's open files
 */
void nvme_uq_mems_init(struct nvme_uq_mems *mems)
{
	init_rwsem(&mems->lock);
	spin_lock_init(&mems->list_lock);
	INIT_LIST_HEAD(&mems->list);
}
EXPORT_SYMBOL_GPL(nvme_uq_mems_init);

/*
 * RLIMIT_MEMLOCK counts by user, with the same counter as registered buffers of
 * io_uring, and not by address space. The memory belongs to an open file.
 * Several processes can share the file, and it outlives the process that
 * allocated the memory. With a count by address space, a user that forks could
 * allocate more memory in each child.
 */
static int nvme_uq_mem_account(struct nvme_uq_mem *mem)
{
	unsigned long nr = mem->pieces.size >> PAGE_SHIFT;
	unsigned long limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	struct user_struct *user = current_user();
	unsigned long now;

	if (capable(CAP_IPC_LOCK))
		return 0;
	now = atomic_long_read(&user->locked_vm);
	do {
		if (nr > limit || now > limit - nr)
			return -ENOMEM;
	} while (!atomic_long_try_cmpxchg(&user->locked_vm, &now, now + nr));
	mem->user = get_uid(user);
	return 0;
}

static void nvme_uq_mem_unaccount(struct nvme_uq_mem *mem)
{
	if (!mem->user)
		return;
	atomic_long_sub(mem->pieces.size >> PAGE_SHIFT, &mem->user->locked_vm);
	free_uid(mem->user);
}

/* Charge @size bytes to the limit @most of the controller's open files. */
static int nvme_uq_mems_charge(struct nvme_uq_mems *mems, u64 size, u64 most)
{
	guard(spinlock)(&mems->list_lock);
	if (size > most || mems->bytes > most - size)
		return -ENOSPC;
	mems->bytes += size;
	return 0;
}

static void nvme_uq_mems_uncharge(struct nvme_uq_mems *mems, u64 size)
{
	guard(spinlock)(&mems->list_lock);
	mems->bytes -= size;
}

/*
 * Free the pages of memory that is on no list. The caller holds
 * nvme_uq_mems.lock.
 */
static void nvme_uq_mem_free_pages(struct nvme_uq *uq, struct nvme_uq_mems *mems,
				   struct nvme_uq_mem *mem)
{
	uq->ops->mem_free(uq, mem);
	nvme_uq_mem_unaccount(mem);
	nvme_uq_mems_uncharge(mems, mem->pieces.size);
}

/* Allocate @mem->pieces.size bytes. The caller holds nvme_uq_mems.lock. */
static int nvme_uq_mem_get_pages(struct nvme_uq *uq, struct nvme_uq_mems *mems,
				 struct nvme_uq_mem *mem)
{
	u64 most;
	int ret;

	if (mems->revoked)
		return -ENXIO;
	ret = uq->ops->mem_plan(uq, mem, &most);
	if (ret)
		return ret;
	ret = nvme_uq_mems_charge(mems, mem->pieces.size, most);
	if (ret)
		return ret;
	ret = nvme_uq_mem_account(mem);
	if (ret)
		goto out_uncharge;
	ret = uq->ops->mem_alloc(uq, mem);
	if (ret)
		goto out_unaccount;

	scoped_guard(spinlock, &mems->list_lock)
		list_add(&mem->list, &mems->list);
	return 0;

out_unaccount:
	nvme_uq_mem_unaccount(mem);
out_uncharge:
	nvme_uq_mems_uncharge(mems, mem->pieces.size);
	return ret;
}

static void nvme_uq_mem_destroy(struct nvme_uq_mem *mem)
{
	kvfree(mem->pieces.base);
	kvfree(mem->pieces.prps);
	kvfree(mem->pages);
	kfree(mem);
}

static struct nvme_uq_mem *nvme_uq_mem_alloc(struct nvme_uq_file *uf, u64 size)
{
	struct nvme_uq_mems *mems = nvme_uq_file_mems(uf);
	struct nvme_uq_mem *mem;
	int ret;

	mem = kzalloc_obj(*mem, GFP_KERNEL_ACCOUNT);
	if (!mem)
		return ERR_PTR(-ENOMEM);
	mem->file = uf->file;
	mem->pieces.size = size;
	INIT_LIST_HEAD(&mem->allocs);

	scoped_guard(rwsem_read, &mems->lock)
		ret = nvme_uq_mem_get_pages(uf->node->uq, mems, mem);
	if (!ret)
		return mem;
	nvme_uq_mem_destroy(mem);
	return ERR_PTR(ret);
}

static void nvme_uq_mem_free(struct nvme_uq_file *uf, struct nvme_uq_mem *mem)
{
	struct nvme_uq_mems *mems = nvme_uq_file_mems(uf);

	scoped_guard(rwsem_read, &mems->lock) {
		scoped_guard(spinlock, &mems->list_lock)
			list_del(&mem->list);
		if (!mems->revoked)
			nvme_uq_mem_free_pages(uf->node->uq, mems, mem);
	}
	nvme_uq_mem_destroy(mem);
}

static int nvme_uq_mem_tell(const struct nvme_uq_mem *mem, void __user *argp)
{
	struct nvme_uq_memory arg = {
		.size	= mem->pieces.size,
		.piece	= min(1ULL << mem->pieces.shift, mem->pieces.size),
	};

	return copy_to_user(argp, &arg, sizeof(arg)) ? -EFAULT : 0;
}

/**
 * nvme_uq_ioctl_alloc_mem - NVME_UQ_IOCTL_ALLOC_MEMORY
 * @uf:		the open file
 * @argp:	struct nvme_uq_memory in user space
 *
 * Return: 0 or an error, see the uapi header.
 */
int nvme_uq_ioctl_alloc_mem(struct nvme_uq_file *uf, void __user *argp)
{
	/* pairs with the release below */
	struct nvme_uq_mem *mem = smp_load_acquire(&uf->mem);
	struct nvme_uq_memory arg;
	int ret;

	if (copy_from_user(&arg, argp, sizeof(arg)))
		return -EFAULT;
	if (arg.flags || (!arg.size && !mem))
		return -EINVAL;
	if (!arg.size)
		return nvme_uq_mem_tell(mem, argp);
	if (mem)
		return -EBUSY;
	mem = nvme_uq_mem_alloc(uf, arg.size);
	if (IS_ERR(mem))
		return PTR_ERR(mem);

	ret = nvme_uq_mem_tell(mem, argp);
	/* publish the memory before the pointer to it */
	if (!ret && cmpxchg_release(&uf->mem, NULL, mem))
		ret = -EBUSY;
	if (ret)
		nvme_uq_mem_free(uf, mem);
	return ret;
}

/**
 * nvme_uq_mem_release - free the memory of an open file
 * @uf:		the open file, which is being released: it has no mapping and no
 *		command left
 */
void nvme_uq_mem_release(struct nvme_uq_file *uf)
{
	if (uf->mem)
		nvme_uq_mem_free(uf, uf->mem);
}

/**
 * nvme_uq_mem_revoke - free the memory of all open files
 * @ctrl:	the controller, which has user queues. It is disabled for good,
 *		has no command in flight, and accepts no new commands.
 */
void nvme_uq_mem_revoke(struct nvme_ctrl *ctrl)
{
	struct nvme_uq_mems *mems = &ctrl->uq->mems;
	struct nvme_uq_mem *mem, *next;
	LIST_HEAD(done);

	guard(rwsem_write)(&mems->lock);
	WRITE_ONCE(mems->revoked, true);
	while ((mem = list_first_entry_or_null(&mems->list, struct nvme_uq_mem,
					       list))) {
		struct address_space *mapping = mem->file->f_mapping;

		/*
		 * Remove all user space references to pages. All open files of
		 * a node share the mapping, so each page table entry is visited
		 * once, however many files and mappings there are.
		 */
		unmap_mapping_range(mapping, NVME_UQ_OFF_MEMORY, 0, 1);
		list_for_each_entry_safe(mem, next, &mems->list, list) {
			struct nvme_uq_file *uf = mem->file->private_data;

			if (mem->file->f_mapping != mapping)
				continue;
			nvme_uq_mem_free_pages(uf->node->uq, mems, mem);
			list_move(&mem->list, &done);
		}
	}
	list_splice(&done, &mems->list);
}
EXPORT_SYMBOL_GPL(nvme_uq_mem_revoke);

/*
 * Mappings
 */

static vm_fault_t nvme_uq_mem_fault(struct vm_fault *vmf)
{
	struct nvme_uq_file *uf = vmf->vma->vm_file->private_data;
	unsigned long nr = vmf->pgoff - NVME_UQ_MEMORY_PGOFF;
	struct nvme_uq_mems *mems = nvme_uq_file_mems(uf);
	/* was set before the mapping was made, and stays set */
	struct nvme_uq_mem *mem = uf->mem;

	guard(rwsem_read)(&mems->lock);
	if (mems->revoked || nr >= mem->pieces.size >> PAGE_SHIFT)
		return VM_FAULT_SIGBUS;
	return vmf_insert_pfn(vmf->vma, vmf->address,
			      page_to_pfn(mem->pages[nr]));
}

static const struct vm_operations_struct nvme_uq_mem_vm_ops = {
	.fault	= nvme_uq_mem_fault,
};

static int nvme_uq_mem_check_range(const struct nvme_uq_file *uf,
				   const struct vm_area_desc *desc)
{
	unsigned long first = desc->pgoff - NVME_UQ_MEMORY_PGOFF, nr;
	/* pairs with the release in nvme_uq_ioctl_alloc_mem() */
	const struct nvme_uq_mem *mem = smp_load_acquire(&uf->mem);

	/* a page fault checks again, with the lock */
	if (!mem || READ_ONCE(nvme_uq_file_mems(uf)->revoked))
		return -ENXIO;
	nr = mem->pieces.size >> PAGE_SHIFT;
	if (first >= nr || vma_desc_pages(desc) > nr - first)
		return -EINVAL;
	return 0;
}

/**
 * nvme_uq_mem_mmap_prepare - ->mmap_prepare() of the memory of an open file
 * @desc:	description of the mapping, with an offset of at least
 *		NVME_UQ_OFF_MEMORY
 *
 * Only checks the range. Faults map the pages, under nvme_uq_mems.lock, which
 * prevents their freeing. If this function mapped pages, unmap_mapping_range()
 * could not find them yet.
 *
 * Return: 0 or an error, see the uapi header.
 */
int nvme_uq_mem_mmap_prepare(struct vm_area_desc *desc)
{
	int ret;

	if (vma_desc_test(desc, VMA_EXEC_BIT))
		return -EACCES;
	/* a file that is open only for reading has no VMA_SHARED_BIT */
	if (!vma_desc_test(desc, VMA_MAYSHARE_BIT))
		return -EINVAL;
	ret = nvme_uq_mem_check_range(desc->file->private_data, desc);
	if (ret)
		return ret;

	vma_desc_clear_flags(desc, VMA_MAYEXEC_BIT);
	/* with VM_IO, madvise() cannot clear the other flags */
	vma_desc_set_flags(desc, VMA_IO_BIT, VMA_PFNMAP_BIT, VMA_DONTEXPAND_BIT,
			   VMA_DONTDUMP_BIT);
	desc->vm_ops = &nvme_uq_mem_vm_ops;
	return 0;
}

/*
 * Commands
 */

/**
 * nvme_uq_import_mem - find a command's data in the memory of its open file
 * @io:		the command
 * @offset:	offset of the data
 * @len:	length of the data, not 0
 *
 * Return: 0, -EFAULT if the data is outside the memory, -EINVAL if it is not
 * aligned.
 */
int nvme_uq_import_mem(struct nvme_uq_io *io, u64 offset, u32 len)
{
	/* pairs with the release in nvme_uq_ioctl_alloc_mem() */
	const struct nvme_uq_mem *mem = smp_load_acquire(&io->file->mem);

	if (!mem || !nvme_uq_pieces_hold(&mem->pieces, offset, len))
		return -EFAULT;
	if ((offset | len) & 3)
		return -EINVAL;
	io->pieces = &mem->pieces;
	io->offset = offset;
	io->iter.count = len;
	return 0;
}
