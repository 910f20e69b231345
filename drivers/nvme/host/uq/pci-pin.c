// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: user memory that is pinned from preparation to completion
 * of a command.
 *
 * All functions may sleep. Registered buffers in one segment use none of them.
 */
#include <linux/bvec.h>
#include <linux/compat.h>
#include <linux/highmem.h>
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/uio.h>

#include "pci.h"

/*
 * Copy the metadata that the device wrote to user space. Another task than the
 * submitter may complete the command. So use the pinned pages and not the
 * address.
 */
static void nvme_uq_return_meta(struct nvme_uq_user *user)
{
	struct page **page = user->pages + user->nr_pages;
	unsigned int offset = user->meta_offset;
	u32 len, done;

	for (done = 0; done < user->meta_len; done += len) {
		len = min_t(u32, user->meta_len - done, PAGE_SIZE - offset);
		memcpy_to_page(*page++, offset, user->meta + done, len);
		offset = 0;
	}
}

/**
 * __nvme_uq_unpin_user - unpin user memory
 * @val:	value of nvme_uq_pdu.user, not 0
 * @completed:	the device has executed the command
 *
 * May sleep.
 */
void __nvme_uq_unpin_user(unsigned long val, bool completed)
{
	struct nvme_uq_user *user = (struct nvme_uq_user *)val;

	if (val & NVME_UQ_USER_PAGE) {
		struct page *page = (struct page *)
			(val & ~(NVME_UQ_USER_PAGE | NVME_UQ_USER_DIRTY));

		unpin_user_pages_dirty_lock(&page, 1, val & NVME_UQ_USER_DIRTY);
		return;
	}

	if (user->meta && user->dirty && completed)
		nvme_uq_return_meta(user);
	unpin_user_pages_dirty_lock(user->pages,
				    user->nr_pages + user->nr_meta,
				    user->dirty);
	kfree(user->meta);
	kvfree(user);
}

/**
 * nvme_uq_alloc_sglist - allocate a list of segments
 * @nseg:	maximum number of segments; there is room for no more than
 *		NVME_UQ_MAX_SEGS
 * @gfp:	allocation flags
 *
 * Return: the list, to be freed with kfree(), or NULL.
 */
struct nvme_uq_sglist *nvme_uq_alloc_sglist(unsigned int nseg, gfp_t gfp)
{
	struct nvme_uq_sglist *sglist;

	nseg = min(nseg, NVME_UQ_MAX_SEGS);
	sglist = kmalloc(struct_size(sglist, seg, nseg) +
			 nseg * sizeof(phys_addr_t), gfp);
	if (!sglist)
		return NULL;
	sglist->nseg = 0;
	sglist->nlist = 0;
	sglist->phys = (phys_addr_t *)&sglist->seg[nseg];
	return sglist;
}

/*
 * Use one segment or several, up to NVME_UQ_MAX_SEGS. Both ends of each segment
 * must be dword aligned.
 */
static int nvme_uq_prep_sglist(struct nvme_uq_io *io,
			       struct nvme_uq_sglist *sglist)
{
	int ret = sglist->nseg > NVME_UQ_MAX_SEGS ? -E2BIG : 0;
	unsigned int i;

	for (i = 0; i < sglist->nseg && !ret; i++)
		if ((sglist->phys[i] | sglist->seg[i].len) & 3)
			ret = -EINVAL;
	if (ret) {
		kfree(sglist);
		return ret;
	}
	if (sglist->nseg == 1) {
		io->phys = sglist->phys[0];
		kfree(sglist);
		return 0;
	}
	io->sglist = sglist;
	return 0;
}

/**
 * nvme_uq_prep_bvecs - find the segments of a registered buffer
 * @io:		the command
 *
 * Return: 0, -E2BIG, -EINVAL or -ENOMEM.
 */
int nvme_uq_prep_bvecs(struct nvme_uq_io *io)
{
	struct bvec_iter bi = {
		.bi_size	= io->iter.count,
		.bi_offset	= io->iter.iov_offset,
	};
	struct nvme_uq_sglist *sglist;
	struct bio_vec bv;

	sglist = nvme_uq_alloc_sglist(io->iter.nr_segs, GFP_KERNEL_ACCOUNT);
	if (!sglist)
		return -ENOMEM;
	for_each_mp_bvec(bv, io->iter.bvec, bi, bi)
		nvme_uq_sglist_add(sglist, bvec_phys(&bv), bv.bv_len);
	return nvme_uq_prep_sglist(io, sglist);
}

/**
 * nvme_uq_pin_page - pin a page of user memory
 * @addr:	address of the data in the page
 * @write:	the data goes to the device
 * @phys:	on return, the physical address of the data
 *
 * Return: value for nvme_uq_pdu.user, or an error for IS_ERR_VALUE().
 */
unsigned long nvme_uq_pin_page(unsigned long addr, bool write,
			       phys_addr_t *phys)
{
	struct page *page;
	int ret;

	ret = pin_user_pages_fast(addr & PAGE_MASK, 1, write ? 0 : FOLL_WRITE,
				  &page);
	if (ret != 1)
		return ret < 0 ? ret : -EFAULT;
	*phys = page_to_phys(page) + offset_in_page(addr);
	return (unsigned long)page | NVME_UQ_USER_PAGE |
		(write ? 0 : NVME_UQ_USER_DIRTY);
}

static int nvme_uq_prep_page(struct nvme_uq_io *io)
{
	unsigned long addr = (unsigned long)io->iter.ubuf + io->iter.iov_offset;

	unsigned long user;

	if ((addr | io->iter.count) & 3)
		return -EINVAL;
	user = nvme_uq_pin_page(addr, io->write, &io->phys);
	if (IS_ERR_VALUE(user))
		return user;
	io->user = user;
	return 0;
}

static struct nvme_uq_user *nvme_uq_alloc_user(struct nvme_uq_io *io,
					       unsigned int nr_pages)
{
	struct nvme_uq_user *user;

	/* metadata that is not page aligned may need one more page */
	if (io->meta_len)
		nr_pages += DIV_ROUND_UP(io->meta_len, PAGE_SIZE) + 1;
	user = kvmalloc(struct_size(user, pages, nr_pages), GFP_KERNEL_ACCOUNT);
	if (!user)
		return NULL;
	user->nr_pages = 0;
	user->nr_meta = 0;
	user->dirty = !io->write;
	user->meta = NULL;
	return user;
}

static int nvme_uq_pin(struct nvme_uq_io *io, struct nvme_uq_user *user,
		       struct nvme_uq_sglist *sglist, unsigned int max)
{
	while (io->iter.count) {
		struct page **pages = user->pages + user->nr_pages;
		ssize_t left;
		size_t offset;

		left = iov_iter_extract_pages(&io->iter, &pages, io->iter.count,
					      max - user->nr_pages, 0, &offset);
		if (left <= 0)
			return left ?: -EFAULT;
		while (left) {
			size_t len = min_t(size_t, left, PAGE_SIZE - offset);
			struct page *page = user->pages[user->nr_pages++];

			nvme_uq_sglist_add(sglist, page_to_phys(page) + offset,
					   len);
			left -= len;
			offset = 0;
		}
	}
	return 0;
}

static int nvme_uq_prep_pages(struct nvme_uq_io *io)
{
	unsigned int max = iov_iter_npages(&io->iter, INT_MAX);
	struct nvme_uq_user *user;
	struct nvme_uq_sglist *sglist;
	int ret;

	user = nvme_uq_alloc_user(io, max);
	if (!user)
		return -ENOMEM;
	io->user = (unsigned long)user;

	sglist = nvme_uq_alloc_sglist(max, GFP_KERNEL_ACCOUNT);
	if (!sglist)
		return -ENOMEM;
	ret = nvme_uq_pin(io, user, sglist, max);
	if (ret) {
		kfree(sglist);
		return ret;
	}
	return nvme_uq_prep_sglist(io, sglist);
}

static int nvme_uq_pin_meta(struct nvme_uq_io *io, struct nvme_uq_user *user,
			    void __user *umeta)
{
	unsigned long addr = (unsigned long)umeta;
	unsigned int nr = DIV_ROUND_UP(offset_in_page(addr) + io->meta_len,
				       PAGE_SIZE);
	int ret;

	if (!access_ok(umeta, io->meta_len))
		return -EFAULT;
	ret = pin_user_pages_fast(addr & PAGE_MASK, nr, FOLL_WRITE,
				  user->pages + user->nr_pages);
	if (ret < 0)
		return ret;
	user->nr_meta = ret;
	user->meta_offset = offset_in_page(addr);
	return ret == nr ? 0 : -EFAULT;
}

/**
 * nvme_uq_prep_meta - allocate a buffer for metadata, and fill it for a write
 * @io:		the command, with its data prepared
 *
 * The buffer is contiguous. User memory may cross pages, and metadata is small.
 *
 * Return: 0 or an error. The caller undoes the preparation of @io.
 */
int nvme_uq_prep_meta(struct nvme_uq_io *io)
{
	void __user *umeta = u64_to_user_ptr(in_compat_syscall() ?
					     (compat_uptr_t)io->meta : io->meta);
	struct nvme_uq_user *user = (struct nvme_uq_user *)io->user;
	void *meta;

	if (!user) {
		user = nvme_uq_alloc_user(io, 0);
		if (!user)
			return -ENOMEM;
		io->user = (unsigned long)user;
	}

	/* zeroed, so that no stale memory is copied to user space */
	meta = kzalloc(io->meta_len, GFP_KERNEL_ACCOUNT);
	if (!meta)
		return -ENOMEM;
	user->meta = meta;
	user->meta_len = io->meta_len;
	io->metabuf = meta;
	if (!io->write)
		return nvme_uq_pin_meta(io, user, umeta);
	return copy_from_user(meta, umeta, io->meta_len) ? -EFAULT : 0;
}

static bool nvme_uq_one_page(const struct iov_iter *iter)
{
	return iter_is_ubuf(iter) &&
		offset_in_page((unsigned long)iter->ubuf + iter->iov_offset) +
		iter->count <= PAGE_SIZE;
}

/**
 * nvme_uq_prep_user - pin user memory and find its segments
 * @io:		the command
 *
 * Return: 0 or an error. The caller must undo the preparation: unpin the user
 * memory of @io and free its sglist.
 */
int nvme_uq_prep_user(struct nvme_uq_io *io)
{
	if (nvme_uq_one_page(&io->iter) && !io->meta_len)
		return nvme_uq_prep_page(io);
	return nvme_uq_prep_pages(io);
}
