// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: finding the memory of a command. User memory is pinned from
 * preparation to completion.
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

#include "mem.h"
#include "pci.h"

/*
 * Copy the metadata that the device wrote to user space. Another task than the
 * submitter may complete the command. So use the pinned pages and not the
 * address.
 */
static void nvme_uq_return_meta(struct nvme_uq_data *data)
{
	struct page **page = data->pages + data->nr_pages;
	unsigned int offset = data->meta_offset;
	u32 len, done;

	for (done = 0; done < data->meta_len; done += len) {
		len = min_t(u32, data->meta_len - done, PAGE_SIZE - offset);
		memcpy_to_page(*page++, offset, data->meta + done, len);
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
	struct nvme_uq_data *data = (struct nvme_uq_data *)val;

	if (val & NVME_UQ_USER_PAGE) {
		struct page *page = (struct page *)
			(val & ~(NVME_UQ_USER_PAGE | NVME_UQ_USER_DIRTY));

		unpin_user_pages_dirty_lock(&page, 1, val & NVME_UQ_USER_DIRTY);
		return;
	}

	if (data->meta && data->dirty && completed)
		nvme_uq_return_meta(data);
	unpin_user_pages_dirty_lock(data->pages,
				    data->nr_pages + data->nr_meta,
				    data->dirty);
	kfree(data->meta);
	kvfree(data);
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

/*
 * Allocate nvme_uq_io.data, charged to the task, because a command may wait for
 * any time. nvme_uq_unpin_user() frees it.
 */
static struct nvme_uq_data *nvme_uq_alloc_data(struct nvme_uq_io *io,
					       unsigned int nr_pages,
					       unsigned int nr_sg)
{
	struct nvme_uq_data *data;

	nr_sg = min(nr_sg, NVME_UQ_MAX_SEGS);
	/* metadata that is not page aligned may need one more page */
	if (io->meta_len)
		nr_pages += DIV_ROUND_UP(io->meta_len, PAGE_SIZE) + 1;
	data = kvmalloc(struct_size(data, sg, nr_sg) +
			nr_pages * sizeof(*data->pages), GFP_KERNEL_ACCOUNT);
	if (!data)
		return NULL;
	*data = (struct nvme_uq_data){
		.dirty	= !io->write,
		.pages	= (struct page **)&data->sg[nr_sg],
	};
	io->data = data;
	io->user = (unsigned long)data;
	return data;
}

/* Find the segments of a registered buffer. */
static void nvme_uq_add_bvecs(struct nvme_uq_io *io, struct nvme_uq_data *data)
{
	struct bvec_iter bi = {
		.bi_size	= io->iter.count,
		.bi_offset	= io->iter.iov_offset,
	};
	struct bio_vec bv;

	for_each_mp_bvec(bv, io->iter.bvec, bi, bi)
		nvme_uq_data_add(data, bv.bv_page, bv.bv_offset, bv.bv_len);
}

/* Pin up to @max pages of user memory, and find its segments. */
static int nvme_uq_add_user(struct nvme_uq_io *io, struct nvme_uq_data *data,
			    unsigned int max)
{
	while (io->iter.count) {
		struct page **pages = data->pages + data->nr_pages;
		ssize_t left;
		size_t offset;

		left = iov_iter_extract_pages(&io->iter, &pages, io->iter.count,
					      max - data->nr_pages, 0, &offset);
		if (left <= 0)
			return left ?: -EFAULT;
		while (left) {
			size_t len = min_t(size_t, left, PAGE_SIZE - offset);

			nvme_uq_data_add(data, data->pages[data->nr_pages++],
					 offset, len);
			left -= len;
			offset = 0;
		}
	}
	return 0;
}

/* Find all segments. Both ends of each segment must be dword aligned. */
static int nvme_uq_prep_segs(struct nvme_uq_io *io)
{
	bool bvec = iov_iter_is_bvec(&io->iter);
	unsigned int i, nr = bvec ? io->iter.nr_segs :
		iov_iter_npages(&io->iter, INT_MAX);
	struct nvme_uq_data *data = nvme_uq_alloc_data(io, bvec ? 0 : nr, nr);
	int ret = 0;

	if (!data)
		return -ENOMEM;
	if (bvec)
		nvme_uq_add_bvecs(io, data);
	else
		ret = nvme_uq_add_user(io, data, nr);
	if (ret)
		return ret;
	if (data->nr_sg > NVME_UQ_MAX_SEGS)
		return -E2BIG;
	for (i = 0; i < data->nr_sg; i++)
		if ((data->sg[i].offset | data->sg[i].length) & 3)
			return -EINVAL;
	sg_mark_end(&data->sg[data->nr_sg - 1]);
	return 0;
}

/* Find the segments of data in the memory of an open file. */
static int nvme_uq_prep_pieces(struct nvme_uq_io *io)
{
	const struct nvme_uq_pieces *p = io->pieces;
	unsigned int nr = nvme_uq_pieces_segs(p, io->offset, io->len, NULL);
	struct nvme_uq_data *data;

	if (nr > NVME_UQ_MAX_SEGS)
		return -EINVAL;
	data = nvme_uq_alloc_data(io, 0, nr);
	if (!data)
		return -ENOMEM;
	sg_init_table(data->sg, nr);
	data->nr_dma = nvme_uq_pieces_segs(p, io->offset, io->len, data->sg);
	return 0;
}

static int nvme_uq_pin_meta(struct nvme_uq_io *io, struct nvme_uq_data *data,
			    void __user *umeta)
{
	unsigned long addr = (unsigned long)umeta;
	unsigned int nr = DIV_ROUND_UP(offset_in_page(addr) + io->meta_len,
				       PAGE_SIZE);
	int ret;

	if (!access_ok(umeta, io->meta_len))
		return -EFAULT;
	ret = pin_user_pages_fast(addr & PAGE_MASK, nr, FOLL_WRITE,
				  data->pages + data->nr_pages);
	if (ret < 0)
		return ret;
	data->nr_meta = ret;
	data->meta_offset = offset_in_page(addr);
	return ret == nr ? 0 : -EFAULT;
}

/*
 * Allocate a buffer for metadata, and fill it for a write. The buffer is
 * contiguous. User memory may cross pages, and metadata is small.
 */
static int nvme_uq_prep_meta(struct nvme_uq_io *io)
{
	void __user *umeta = u64_to_user_ptr(in_compat_syscall() ?
					     (compat_uptr_t)io->meta : io->meta);
	struct nvme_uq_data *data = io->data;

	/* zeroed, so that no stale memory is copied to user space */
	data->meta = kzalloc(io->meta_len, GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!data->meta)
		return -ENOMEM;
	data->meta_len = io->meta_len;
	if (!io->write)
		return nvme_uq_pin_meta(io, data, umeta);
	return copy_from_user(data->meta, umeta, io->meta_len) ? -EFAULT : 0;
}

/*
 * Return true if the data is in one segment that needs no list, neither with
 * SGLs nor with PRPs: a reset may change which of them the queue uses.
 */
static bool nvme_uq_is_simple(const struct nvme_uq_io *io)
{
	const struct iov_iter *iter = &io->iter;
	unsigned long start = iter->iov_offset, room = PAGE_SIZE;
	u64 prp2;

	if (io->pieces)
		return nvme_uq_pieces_in_one(io->pieces, io->offset, io->len) &&
			nvme_uq_pieces_prp2(io->pieces, io->offset, io->len,
					    &prp2);
	if (iov_iter_is_bvec(iter)) {
		room = iter->bvec->bv_offset + iter->bvec->bv_len;
		start += iter->bvec->bv_offset;
	} else if (iter_is_ubuf(iter)) {
		start = offset_in_page((unsigned long)iter->ubuf + start);
	} else {
		return false;
	}
	return start + io->len <= room &&
		start % NVME_CTRL_PAGE_SIZE + io->len <= 2 * NVME_CTRL_PAGE_SIZE;
}

static int nvme_uq_prep_simple(struct nvme_uq_io *io)
{
	unsigned long addr = (unsigned long)io->iter.ubuf + io->iter.iov_offset;
	unsigned long user;

	if (io->pieces) {
		io->addr = nvme_uq_pieces_addr(io->pieces, io->offset);
		return 0;
	}
	if (iov_iter_is_bvec(&io->iter)) {
		io->phys = bvec_phys(io->iter.bvec) + io->iter.iov_offset;
		return (io->phys | io->len) & 3 ? -EINVAL : 0;
	}
	if ((addr | io->len) & 3)
		return -EINVAL;
	user = nvme_uq_pin_page(addr, io->write, &io->phys);
	if (IS_ERR_VALUE(user))
		return user;
	io->user = user;
	return 0;
}

/**
 * nvme_uq_prep_memory - find and pin the data and metadata of a command
 * @io:		the command; its length is not 0
 *
 * Return: 0, -E2BIG for too many segments, or another error. The caller undoes
 * a failed preparation by unpinning the user memory of @io.
 */
int nvme_uq_prep_memory(struct nvme_uq_io *io)
{
	int ret;

	if (!io->meta_len && nvme_uq_is_simple(io))
		return nvme_uq_prep_simple(io);
	ret = io->pieces ? nvme_uq_prep_pieces(io) : nvme_uq_prep_segs(io);
	if (!ret && io->meta_len)
		ret = nvme_uq_prep_meta(io);
	return ret;
}
