// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: ending commands of kiocbs, see rw.h.
 *
 * Part of the PCI driver. The context that found the completion calls these
 * functions, if it polls with cq_lock held. nvme_uq_rw_work(),
 * nvme_uq_dirty_user() and nvme_uq_pci_unpin_rw() may sleep, the others do not.
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "../uq.h"
#include "pci.h"

/*
 * The pages of nvme_uq_pdu.user. @one provides the storage for a single page.
 */
static struct page **nvme_uq_user_pages(unsigned long val, struct page **one,
					unsigned int *nr)
{
	struct nvme_uq_data *data = (struct nvme_uq_data *)val;

	if (!(val & NVME_UQ_USER_PAGE)) {
		*nr = data->nr_pages;
		return data->pages;
	}
	*one = (struct page *)(val & ~(NVME_UQ_USER_PAGE |
				       NVME_UQ_USER_DIRTY));
	*nr = 1;
	return one;
}

/**
 * nvme_uq_dirty_user - mark pinned memory dirty before the device writes to it
 * @val:	value of nvme_uq_pdu.user, not 0
 *
 * May sleep. The end of the command must not.
 */
void nvme_uq_dirty_user(unsigned long val)
{
	struct page *one, **pages;
	unsigned int i, nr;

	pages = nvme_uq_user_pages(val, &one, &nr);
	for (i = 0; i < nr; i++)
		if (!folio_test_dirty(page_folio(pages[i])))
			set_page_dirty_lock(pages[i]);
}

/*
 * Unpin memory if the device only read it, or if it is still marked dirty. Else
 * return false: marking it again may sleep.
 */
static bool nvme_uq_try_unpin(unsigned long val)
{
	struct nvme_uq_data *data = (struct nvme_uq_data *)val;
	bool dirty = val & NVME_UQ_USER_PAGE ? val & NVME_UQ_USER_DIRTY :
		data->dirty;
	struct page *one, **pages;
	unsigned int i, nr;

	pages = nvme_uq_user_pages(val, &one, &nr);
	for (i = 0; dirty && i < nr; i++)
		if (!folio_test_dirty(page_folio(pages[i])))
			return false;
	unpin_user_pages(pages, nr);
	if (!(val & NVME_UQ_USER_PAGE))
		kvfree(data);
	return true;
}

/*
 * Mark memory dirty again and unpin it. Another task may hold a page lock for
 * any time. Only this memory waits for that: the command has ended, and each
 * command has a work item of its own, up to WQ_MAX_ACTIVE at a time.
 */
static void nvme_uq_rw_work(struct work_struct *work)
{
	struct nvme_uq_rw *rw = container_of(work, struct nvme_uq_rw, work);
	struct file *file = rw->file;

	nvme_uq_unpin_user(rw->user, true);
	kfree(rw);
	fput(file);
}

/* End the command of a kiocb, as in blkdev_bio_end_io_async(). */
static void nvme_uq_complete_rw(struct nvme_uq_rw *rw)
{
	struct kiocb *iocb = rw->iocb;
	struct nvme_uq_file *uf = iocb->ki_filp->private_data;
	struct nvme_uq *uq = uf->node->uq;
	long ret = rw->len;

	if (unlikely(nvme_uq_rw_failed(rw->status)))
		ret = rw->status < 0 ? rw->status :
			nvme_uq_status_to_errno(rw->status);
	else
		iocb->ki_pos += ret;
	/* first, because the kiocb holds the queue */
	if (!rw->user || nvme_uq_try_unpin(rw->user)) {
		kfree(rw);
	} else {
		/* the removal of the controller must not wait for a page lock */
		rw->file = get_file(iocb->ki_filp);
		INIT_WORK(&rw->work, nvme_uq_rw_work);
		queue_work(uq->ctrl->uq->rw_wq, &rw->work);
	}
	iocb->ki_complete(iocb, ret);
}

/**
 * nvme_uq_finish_rw - end the commands of kiocbs in a list
 * @rw:		the first command
 */
void nvme_uq_finish_rw(struct nvme_uq_rw *rw)
{
	struct nvme_uq_rw *next;

	for (; rw; rw = next) {
		next = rw->next;
		if (rw->iocb)
			nvme_uq_complete_rw(rw);
		else
			complete(&rw->done);
	}
}

/**
 * nvme_uq_pci_unpin_rw - unpin the memory of a command with a waiting submitter
 * @rw:		the command, completed
 */
void nvme_uq_pci_unpin_rw(struct nvme_uq_rw *rw)
{
	nvme_uq_unpin_user(rw->user, true);
	rw->user = 0;
}
