// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: ending commands of kiocbs, see rw.h.
 *
 * Part of the PCI driver. The context that found the completion calls these
 * functions without a lock. nvme_uq_rw_work(), nvme_uq_dirty_user() and
 * nvme_uq_pci_unpin_rw() may sleep, the others do not.
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/highmem.h>
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
	struct nvme_uq_user *user = (struct nvme_uq_user *)val;

	if (!(val & NVME_UQ_USER_PAGE)) {
		*nr = user->nr_pages;
		return user->pages;
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
 * Unpin memory if the command only read it, or if it is still marked dirty.
 * Else return false: marking it again may sleep.
 */
static bool nvme_uq_try_unpin(const struct nvme_uq_rw *rw)
{
	struct page *one, **pages;
	unsigned int i, nr;

	pages = nvme_uq_user_pages(rw->user, &one, &nr);
	for (i = 0; rw->opcode == nvme_cmd_read && i < nr; i++)
		if (!folio_test_dirty(page_folio(pages[i])))
			return false;
	unpin_user_pages(pages, nr);
	if (!(rw->user & NVME_UQ_USER_PAGE))
		kvfree((void *)rw->user);
	return true;
}

static void nvme_uq_complete_rw(struct nvme_uq_rw *rw)
{
	struct kiocb *iocb = rw->iocb;
	long ret = rw->len;

	if (unlikely(nvme_uq_rw_failed(rw->status)))
		ret = rw->status < 0 ? rw->status :
			nvme_uq_status_to_errno(rw->status);
	else
		iocb->ki_pos += ret;
	kfree(rw);
	iocb->ki_complete(iocb, ret);
}

/**
 * nvme_uq_rw_work - end the commands of kiocbs in nvme_uq.rw_dirty
 * @work:	nvme_uq.rw_work
 *
 * Each queue has its own work item, because another task may hold a page lock
 * for any time.
 */
void nvme_uq_rw_work(struct work_struct *work)
{
	struct nvme_uq *uq = container_of(work, struct nvme_uq, rw_work);
	struct llist_node *list = llist_del_all(&uq->rw_dirty);
	struct nvme_uq_rw *rw, *next;

	llist_for_each_entry_safe(rw, next, llist_reverse_order(list), dirty) {
		struct file *file = rw->iocb->ki_filp;

		nvme_uq_unpin_user(rw->user, true);
		nvme_uq_complete_rw(rw);
		fput(file);
	}
}

static void nvme_uq_defer_rw(struct nvme_uq_rw *rw)
{
	struct nvme_uq_file *uf = rw->iocb->ki_filp->private_data;
	struct nvme_uq *uq = uf->node->uq;

	/* keeps the queue and the module until the command is ended */
	get_file(rw->iocb->ki_filp);
	if (llist_add(&rw->dirty, &uq->rw_dirty))
		queue_work(system_dfl_long_wq, &uq->rw_work);
}

/**
 * __nvme_uq_finish_rw - end the commands of kiocbs in a list
 * @rw:		the last command; the earlier ones follow
 */
void __nvme_uq_finish_rw(struct nvme_uq_rw *rw)
{
	struct nvme_uq_rw *first = NULL, *next;

	for (; rw; rw = next) {
		next = rw->next;
		rw->next = first;
		first = rw;
	}
	for (rw = first; rw; rw = next) {
		next = rw->next;
		if (!rw->iocb)
			complete(&rw->done);
		else if (likely(!rw->user) || nvme_uq_try_unpin(rw))
			nvme_uq_complete_rw(rw);
		else
			nvme_uq_defer_rw(rw);
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
