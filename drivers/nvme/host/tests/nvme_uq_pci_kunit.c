// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of NVMe user queues, PCI part: completions, shadow doorbells and
 * segments.
 *
 * The device is a function that writes completion queue entries.
 */
#include <kunit/test.h>
#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/io_uring_types.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "../uq.h"
#include "../uq/pci.h"

/*
 * Completions
 */

#define RING	4	/* entries; three tags */
#define STRAY	0xfffe	/* an id that is not in flight */
/* the shadow doorbell before a write; no write needs MMIO if the event is far */
#define UNTOUCHED	cpu_to_le32(0xffff)
#define FAR		cpu_to_le32(0x8000)

struct rig {
	struct nvme_uq		uq;
	struct nvme_ctrl	ctrl;
	struct nvme_uq_ctrl	uqc;
	struct nvme_uq_file	file;
	struct nvme_uq_iod	iod[RING];
	struct nvme_completion	cqes[RING];
	struct io_kiocb		req[RING];
	/* shadow doorbell, as UML rejects MMIO writes to memory */
	__le32			doorbell;
	__le32			event;
	/* state of the device */
	unsigned int		at;
	u16			phase;
	/* for write_over(): ids at the end of the overwritten entries */
	wait_queue_entry_t	wait;
	u16			more[2];
	unsigned int		turn;
};

static void ring_nothing(struct nvme_uq *uq)
{
}

static const struct nvme_uq_ops no_doorbell = {
	.ring	= ring_nothing,
};

static struct rig *new_rig(struct kunit *test)
{
	struct rig *rig = kunit_kzalloc(test, sizeof(*rig), GFP_KERNEL);
	struct nvme_uq *uq;

	KUNIT_ASSERT_NOT_NULL(test, rig);
	uq = &rig->uq;
	uq->ctrl = &rig->ctrl;
	/* without faults: NVME_UQ_FAULT checks them for each completion */
	rig->ctrl.uq = &rig->uqc;
	uq->iod = rig->iod;
	uq->cqes = rig->cqes;
	uq->cq_next = rig->cqes;
	uq->cq_end = rig->cqes + RING;
	uq->cq_phase = 1;
	uq->cq_live = true;
	uq->polled = true;
	uq->dbbuf_cq_db = &rig->doorbell;
	uq->dbbuf_cq_ei = &rig->event;
	rig->doorbell = UNTOUCHED;
	rig->event = FAR;
	rig->phase = 1;
	spin_lock_init(&uq->cq_lock);
	init_waitqueue_head(&rig->file.waitq);
	KUNIT_ASSERT_EQ(test, 0, nvme_uq_tags_alloc(&uq->tags, RING, true,
						    GFP_KERNEL));
	return rig;
}

static u16 launch(struct rig *rig)
{
	unsigned int idx = nvme_uq_tag_get(&rig->uq.tags);

	rig->iod[idx].ioucmd = io_kiocb_to_cmd(&rig->req[idx],
					       struct io_uring_cmd);
	rig->iod[idx].file = &rig->file;
	rig->file.submitted++;
	return nvme_uq_tag_arm(&rig->uq.tags, idx);
}

/* Write one entry, like a device. */
static void device_ends(struct rig *rig, u16 cid, u16 status)
{
	struct nvme_completion *cqe = &rig->cqes[rig->at];

	cqe->command_id = cid;
	cqe->result.u64 = cpu_to_le64(0x100000000ULL + cid);
	WRITE_ONCE(cqe->status, cpu_to_le16(status << 1 | rig->phase));
	if (++rig->at == RING) {
		rig->at = 0;
		rig->phase ^= 1;
	}
}

static unsigned int reap(struct rig *rig, struct nvme_uq_done *done)
{
	unsigned int found;

	nvme_uq_done_init(done);
	rig->doorbell = UNTOUCHED;
	spin_lock_irq(&rig->uq.cq_lock);
	found = nvme_uq_reap_locked(&rig->uq, done);
	spin_unlock_irq(&rig->uq.cq_lock);
	*done->last = NULL;
	return found;
}

/* Check batches of all sizes that end at all entries of the ring. */
static void reap_over_the_wrap(struct kunit *test)
{
	struct rig *rig = new_rig(test);
	unsigned int round, i, at = 0, phase = 1;
	struct nvme_uq_done done;
	u16 cid[RING];

	KUNIT_EXPECT_EQ(test, 0, reap(rig, &done));
	for (round = 0; round < 10 * RING; round++) {
		unsigned int n = 1 + round % (RING - 1);
		struct io_uring_cmd *ioucmd;

		for (i = 0; i < n; i++)
			cid[i] = launch(rig);
		/* in reverse order of submission */
		for (i = n; i--;)
			device_ends(rig, cid[i], i);
		KUNIT_ASSERT_EQ(test, n, reap(rig, &done));
		at += n;
		if (at >= RING) {
			at -= RING;
			phase ^= 1;
		}
		KUNIT_EXPECT_EQ(test, at, le32_to_cpu(rig->doorbell));
		KUNIT_EXPECT_EQ(test, at | phase << 16,
				nvme_uq_cq_head(&rig->uq));
		for (i = n, ioucmd = done.first; i--;) {
			struct nvme_uq_pdu *pdu;

			KUNIT_ASSERT_NOT_NULL(test, ioucmd);
			pdu = nvme_uq_pdu(ioucmd);
			KUNIT_EXPECT_EQ(test, i, pdu->status);
			KUNIT_EXPECT_EQ(test, 0x100000000ULL + cid[i],
					pdu->result);
			ioucmd = pdu->next;
		}
		KUNIT_EXPECT_NULL(test, ioucmd);
		/* check that no entry is found twice */
		KUNIT_EXPECT_EQ(test, 0, reap(rig, &done));
		KUNIT_EXPECT_TRUE(test, rig->doorbell == UNTOUCHED);
	}
	KUNIT_EXPECT_EQ(test, 0, rig->uq.spurious);
	KUNIT_EXPECT_EQ(test, rig->file.submitted, rig->file.completed);
	nvme_uq_tags_free(&rig->uq.tags);
}

/* Overwrite entries that were not returned to the device. */
static int write_over(wait_queue_entry_t *wait, unsigned int mode, int flags,
		      void *key)
{
	struct rig *rig = container_of(wait, struct rig, wait);
	unsigned int i;

	if (rig->turn == ARRAY_SIZE(rig->more))
		return 0;
	for (i = 0; i < RING - 1; i++)
		device_ends(rig, STRAY, 0);
	device_ends(rig, rig->more[rig->turn++], 0);
	return 0;
}

/*
 * Check that reaping ends after the second pass, even if the device keeps
 * writing: when the last entry is reaped, all entries are new again.
 */
static void reap_second_turn(struct kunit *test)
{
	struct rig *rig = new_rig(test);
	struct nvme_uq_done done;
	unsigned int i;
	u16 first;

	init_waitqueue_func_entry(&rig->wait, write_over);
	add_wait_queue(&rig->file.waitq, &rig->wait);
	rig->file.limited = true;
	first = launch(rig);
	rig->more[0] = launch(rig);
	rig->more[1] = launch(rig);
	for (i = 0; i < RING - 1; i++)
		device_ends(rig, STRAY, 0);
	device_ends(rig, first, 0);

	KUNIT_EXPECT_EQ(test, 2 * RING, reap(rig, &done));
	KUNIT_EXPECT_EQ(test, 2, rig->turn);
	KUNIT_EXPECT_EQ(test, 2 * (RING - 1), rig->uq.spurious);
	KUNIT_EXPECT_EQ(test, 2, rig->uq.completed);
	KUNIT_EXPECT_EQ(test, 0, le32_to_cpu(rig->doorbell));
	/* the next reap finds the third pass */
	remove_wait_queue(&rig->file.waitq, &rig->wait);
	KUNIT_EXPECT_EQ(test, RING, reap(rig, &done));
	KUNIT_EXPECT_EQ(test, 3, rig->uq.completed);
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_tags_used(&rig->uq.tags));
	nvme_uq_tags_free(&rig->uq.tags);
}

/*
 * A poll checks for completions before it takes a lock. Check that it does not
 * access the memory of a queue that is down, because that memory may be freed.
 */
static void poll_of_a_queue_that_is_down(struct kunit *test)
{
	struct rig *rig = new_rig(test);
	struct nvme_uq *uq = &rig->uq;

	KUNIT_EXPECT_EQ(test, 0, nvme_uq_pci_ops.iopoll(uq, NULL, 0));
	device_ends(rig, STRAY, 0);
	uq->cq_live = false;
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_pci_ops.iopoll(uq, NULL, 0));
	uq->cq_next = NULL;
	uq->cqes = NULL;
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_pci_ops.iopoll(uq, NULL, 0));
	KUNIT_EXPECT_EQ(test, 0, uq->spurious);
	nvme_uq_tags_free(&uq->tags);
}

/* Check that a poll leaves completions to the interrupt, if there is one. */
static void poll_of_an_interrupt_queue(struct kunit *test)
{
	struct rig *rig = new_rig(test);

	rig->uq.polled = false;
	device_ends(rig, STRAY, 0);
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_pci_ops.iopoll(&rig->uq, NULL, 0));
	KUNIT_EXPECT_EQ(test, 0, rig->uq.spurious);
	nvme_uq_tags_free(&rig->uq.tags);
}

/*
 * Records the references of a page when a task that waits for a tag is woken.
 */
struct early {
	wait_queue_entry_t	wait;
	struct page		*page;
	int			refs;
};

static int look_early(wait_queue_entry_t *wait, unsigned int mode, int flags,
		      void *key)
{
	struct early *early = container_of(wait, struct early, wait);

	early->refs = page_ref_count(early->page);
	return 0;
}

/*
 * A task that polls may sleep when it unpins the memory of its command. Check
 * that it wakes other tasks first.
 */
static void poll_wakes_before_it_unpins(struct kunit *test)
{
	struct early early = { .page = alloc_page(GFP_KERNEL) };
	struct io_comp_batch iob = { };
	struct rig *rig = new_rig(test);
	struct nvme_uq *uq = &rig->uq;
	struct io_ring_ctx *ctx;
	unsigned int i;
	u16 cid;

	KUNIT_ASSERT_NOT_NULL(test, early.page);
	ctx = kunit_kzalloc(test, sizeof(*ctx), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, ctx);
	iob.poll_ctx = ctx;
	cid = launch(rig);
	for (i = 0; i < RING; i++) {
		struct io_kiocb *req = &rig->req[i];

		req->ctx = ctx;
		req->flags = REQ_F_IOPOLL;
		nvme_uq_pdu(io_kiocb_to_cmd(req, struct io_uring_cmd))->user =
			(unsigned long)early.page | NVME_UQ_USER_PAGE |
			NVME_UQ_USER_DIRTY;
	}
	/* as pin_user_pages() does */
	page_ref_add(early.page, GUP_PIN_COUNTING_BIAS);
	init_waitqueue_head(&uq->waitq);
	init_waitqueue_head(&uq->idle_wait);
	init_waitqueue_func_entry(&early.wait, look_early);
	add_wait_queue(&uq->waitq, &early.wait);

	device_ends(rig, cid, 0);
	KUNIT_EXPECT_EQ(test, 1, nvme_uq_pci_ops.iopoll(uq, &iob, 0));
	KUNIT_EXPECT_EQ(test, 1 + GUP_PIN_COUNTING_BIAS, early.refs);
	KUNIT_EXPECT_EQ(test, 1, page_ref_count(early.page));
	KUNIT_EXPECT_TRUE(test, PageDirty(early.page));
	for (i = 0; i < RING && !rig->req[i].iopoll_completed; i++)
		;
	KUNIT_EXPECT_LT(test, i, RING);
	ClearPageDirty(early.page);
	__free_page(early.page);
	nvme_uq_tags_free(&uq->tags);
}

/* Ends of commands of kiocbs */

/* An open file that tells when its last reference is gone. */
struct open_file {
	struct nvme_uq_file	uf;
	struct file		*file;
	struct completion	released;
	struct kiocb		iocb;
	unsigned int		ended;
	unsigned int		locked;	/* ended while cq_lock was held */
};

static int open_file_release(struct inode *inode, struct file *file)
{
	struct open_file *of = container_of(file->private_data,
					    struct open_file, uf);

	complete(&of->released);
	return 0;
}

static const struct file_operations open_file_fops = {
	.owner		= THIS_MODULE,
	.release	= open_file_release,
};

static void kiocb_ended(struct kiocb *iocb, long ret)
{
	struct open_file *of = container_of(iocb, struct open_file, iocb);
	spinlock_t *lock = &of->uf.node->uq->cq_lock;

	of->ended++;
	if (spin_trylock(lock))
		spin_unlock(lock);
	else
		of->locked++;
}

static struct open_file *new_file(struct kunit *test, struct rig *rig)
{
	struct open_file *of = kunit_kzalloc(test, sizeof(*of), GFP_KERNEL);
	struct nvme_uq_node *node = kunit_kzalloc(test, sizeof(*node),
						  GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, of);
	KUNIT_ASSERT_NOT_NULL(test, node);
	node->uq = &rig->uq;
	of->uf.node = node;
	init_completion(&of->released);
	of->file = anon_inode_getfile("uq", &open_file_fops, &of->uf, O_RDONLY);
	KUNIT_ASSERT_FALSE(test, IS_ERR(of->file));
	of->iocb.ki_filp = of->file;
	of->iocb.ki_complete = kiocb_ended;
	return of;
}

/*
 * The device completes a read into @page, which is clean by then, or into
 * memory that needs no unpinning.
 */
static void read_ends(struct kunit *test, struct rig *rig, struct open_file *of,
		      struct page *page)
{
	struct nvme_uq_rw *rw = kzalloc_obj(*rw);
	u16 cid = launch(rig);
	struct nvme_uq_iod *iod = &rig->iod[cid & rig->uq.tags.idx_mask];

	KUNIT_ASSERT_NOT_NULL(test, rw);
	rw->iocb = &of->iocb;
	rw->len = 512;
	if (page) {
		rw->user = (unsigned long)page | NVME_UQ_USER_PAGE |
			NVME_UQ_USER_DIRTY;
		/* as pin_user_pages() does */
		page_ref_add(page, GUP_PIN_COUNTING_BIAS);
	}
	iod->rw = rw;
	iod->flags = NVME_UQ_RW;
	device_ends(rig, cid, 0);
}

/*
 * A task that polls may not run again for a long time once it has released a
 * lock. Check that it ends the commands of other tasks before.
 */
static void poll_ends_commands_of_others_at_once(struct kunit *test)
{
	struct open_file *other;
	struct rig *rig;

	if (!IS_ENABLED(CONFIG_SMP))
		kunit_skip(test, "spinlocks of one CPU have no state");
	rig = new_rig(test);
	other = new_file(test, rig);
	init_waitqueue_head(&rig->uq.waitq);
	init_waitqueue_head(&rig->uq.idle_wait);
	rig->uq.irq = -1;

	read_ends(test, rig, other, NULL);
	KUNIT_EXPECT_EQ(test, 1, nvme_uq_pci_ops.iopoll(&rig->uq, NULL, 0));
	KUNIT_EXPECT_EQ(test, 1, other->locked);
	/* and a task that waits for a tag */
	read_ends(test, rig, other, NULL);
	nvme_uq_pci_ops.reap(&rig->uq);
	KUNIT_EXPECT_EQ(test, 2, other->locked);

	KUNIT_EXPECT_EQ(test, 2, other->ended);
	fput(other->file);
	wait_for_completion(&other->released);
	nvme_uq_tags_free(&rig->uq.tags);
}

/*
 * Another task holds the lock of a page that two reads must mark dirty. Check
 * that all reads end, and that the page of a third read is released.
 */
static void page_lock_of_another(struct kunit *test)
{
	struct page *locked = alloc_page(GFP_KERNEL);
	struct page *page = alloc_page(GFP_KERNEL);
	struct rig *rig = new_rig(test);
	struct open_file *other = new_file(test, rig);
	struct open_file *own = new_file(test, rig);
	struct nvme_uq *uq = &rig->uq;

	KUNIT_ASSERT_NOT_NULL(test, locked);
	KUNIT_ASSERT_NOT_NULL(test, page);
	rig->uqc.rw_wq = alloc_workqueue("uq_kunit", WQ_UNBOUND, WQ_MAX_ACTIVE);
	KUNIT_ASSERT_NOT_NULL(test, rig->uqc.rw_wq);
	init_waitqueue_head(&uq->waitq);
	init_waitqueue_head(&uq->idle_wait);

	lock_page(locked);
	read_ends(test, rig, other, locked);
	read_ends(test, rig, own, page);
	read_ends(test, rig, other, locked);
	KUNIT_EXPECT_EQ(test, 3, nvme_uq_pci_ops.iopoll(uq, NULL, 0));
	KUNIT_EXPECT_EQ(test, 2, other->ended);
	KUNIT_EXPECT_EQ(test, 1, own->ended);

	fput(other->file);
	fput(own->file);
	KUNIT_EXPECT_NE(test, 0,
			wait_for_completion_timeout(&own->released, 10 * HZ));
	KUNIT_EXPECT_EQ(test, 1, page_ref_count(page));
	KUNIT_EXPECT_TRUE(test, PageDirty(page));
	KUNIT_EXPECT_FALSE(test, completion_done(&other->released));

	unlock_page(locked);
	wait_for_completion(&other->released);
	KUNIT_EXPECT_EQ(test, 1, page_ref_count(locked));
	destroy_workqueue(rig->uqc.rw_wq);
	ClearPageDirty(locked);
	ClearPageDirty(page);
	__free_page(locked);
	__free_page(page);
	nvme_uq_tags_free(&uq->tags);
}

/* Shadow doorbells */

/* Return true if @event is one of the @n values from @old on. */
static bool is_news(u16 old, unsigned int n, u16 event, unsigned int size)
{
	while (n--) {
		if (old == event)
			return true;
		old = (old + 1) % size;
	}
	return false;
}

static void kick(struct kunit *test, u16 old, unsigned int n, u16 event,
		 unsigned int size)
{
	u16 value = (old + n) % size;
	__le32 db = cpu_to_le32(old), ei = cpu_to_le32(event);

	KUNIT_ASSERT_EQ_MSG(test, is_news(old, n, event, size),
			    nvme_uq_dbbuf_update(value, &db, &ei),
			    "%u more from %u on, and the device is at %u of %u",
			    n, old, event, size);
	KUNIT_ASSERT_EQ(test, value, le32_to_cpu(db));
}

/* Test doorbell values that wrap around at the end of the ring. */
static void shadow_at_the_rings_end(struct kunit *test)
{
	static const unsigned int sizes[] = { 2, 3, 8, 33 };
	unsigned int i, old, n, event;

	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		for (old = 0; old < sizes[i]; old++)
			for (n = 0; n < sizes[i]; n++)
				for (event = 0; event < sizes[i]; event++)
					kick(test, old, n, event, sizes[i]);
}

/* Test the largest ring, whose doorbell values wrap around at 16 bits. */
static void shadow_at_the_end_of_its_bits(struct kunit *test)
{
	unsigned int old, n, event;

	for (old = 65536 - 9; old < 65536 + 9; old++)
		for (n = 0; n < 9; n++)
			for (event = old - 18; event < old + 18; event++)
				kick(test, old, n, event, 65536);
}

/*
 * Timeouts
 */

static void longest_timeout(struct kunit *test)
{
	static const u32 ms[] = { 1, 1000, S32_MAX, (u32)S32_MAX + 1, U32_MAX };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ms); i++) {
		unsigned int timeout = nvme_uq_timeout(ms[i]);

		KUNIT_EXPECT_GT(test, timeout, 0);
		/* the deadline is in the future, even if jiffies has 32 bits */
		KUNIT_EXPECT_LT(test, timeout, INT_MAX - NVME_UQ_GRACE);
	}
}

/* Prepare a queue with one command in flight, without its deadline. */
static struct nvme_uq_iod *launch_timed(struct rig *rig)
{
	struct nvme_uq *uq = &rig->uq;
	struct nvme_uq_iod *iod;

	uq->ops = &no_doorbell;
	spin_lock_init(&uq->sq_lock);
	INIT_DELAYED_WORK(&uq->tmo_work, nvme_uq_timeout_work);
	uq->irq = -1;
	rig->ctrl.io_timeout = 30 * HZ;
	iod = &rig->iod[launch(rig) & uq->tags.idx_mask];
	iod->timeout = 10 * HZ;
	return iod;
}

/*
 * A firmware activation stops the device for longer than a command's timeout.
 * Check that the timeout restarts: the command is not aborted. If it was
 * aborted before, it does not cause a reset.
 */
static void overdue_while_firmware_is_activated(struct kunit *test)
{
	struct rig *rig = new_rig(test);
	struct nvme_uq *uq = &rig->uq;
	struct nvme_uq_iod *iod = launch_timed(rig);
	unsigned long now;

	WRITE_ONCE(rig->ctrl.state, NVME_CTRL_RESETTING);

	now = jiffies;
	iod->deadline = now - HZ;
	nvme_uq_timeout_work(&uq->tmo_work.work);
	KUNIT_EXPECT_TRUE(test, time_after_eq(iod->deadline,
					      now + iod->timeout));
	KUNIT_EXPECT_TRUE(test, uq->tmo_armed);
	KUNIT_EXPECT_EQ(test, iod->deadline, uq->tmo_next);
	KUNIT_EXPECT_FALSE(test, iod->flags & NVME_UQ_ABORTED);

	/* after an abort, at least the timeout of the block layer */
	iod->flags |= NVME_UQ_ABORTED;
	now = jiffies;
	iod->deadline = now - HZ;
	nvme_uq_timeout_work(&uq->tmo_work.work);
	KUNIT_EXPECT_TRUE(test, time_after_eq(iod->deadline,
					      now + rig->ctrl.io_timeout));

	WRITE_ONCE(rig->ctrl.state, NVME_CTRL_LIVE);
	cancel_delayed_work_sync(&uq->tmo_work);
	KUNIT_EXPECT_EQ(test, 0, uq->timeouts);
	nvme_uq_tags_free(&uq->tags);
}

static void no_work(struct work_struct *work)
{
}

static int read_ready(struct nvme_ctrl *ctrl, u32 off, u32 *val)
{
	*val = NVME_CSTS_RDY;
	return 0;
}

static const struct nvme_ctrl_ops ready_ops = {
	.reg_read32	= read_ready,
};

/*
 * Another command of the queue has an Abort in flight, again and again. Check
 * that a command that the device has lost leads to a reset all the same.
 */
static void overdue_without_an_abort(struct kunit *test)
{
	struct pci_dev *pdev = kunit_kzalloc(test, sizeof(*pdev), GFP_KERNEL);
	struct rig *rig = new_rig(test);
	struct nvme_uq *uq = &rig->uq;
	struct nvme_uq_iod *iod = launch_timed(rig);

	KUNIT_ASSERT_NOT_NULL(test, pdev);
	pdev->error_state = pci_channel_io_normal;
	rig->ctrl.dev = &pdev->dev;
	rig->ctrl.ops = &ready_ops;
	spin_lock_init(&rig->ctrl.lock);
	init_waitqueue_head(&rig->ctrl.state_wq);
	INIT_WORK(&rig->ctrl.reset_work, no_work);
	uq->aborting = true;
	WRITE_ONCE(rig->ctrl.state, NVME_CTRL_LIVE);

	iod->deadline = jiffies - 29 * HZ;
	nvme_uq_timeout_work(&uq->tmo_work.work);
	KUNIT_EXPECT_EQ(test, 0, uq->timeouts);
	iod->deadline = jiffies - 31 * HZ;
	nvme_uq_timeout_work(&uq->tmo_work.work);
	KUNIT_EXPECT_EQ(test, 1, uq->timeouts);
	KUNIT_EXPECT_EQ(test, NVME_CTRL_RESETTING, nvme_ctrl_state(&rig->ctrl));
	cancel_delayed_work_sync(&uq->tmo_work);
	flush_work(&rig->ctrl.reset_work);
	nvme_uq_tags_free(&uq->tags);
}

/* A poll that is due at the next tick comes at once for a new command. */
static void first_poll_is_not_late(struct kunit *test)
{
	struct rig *rig = new_rig(test);
	struct nvme_uq *uq = &rig->uq;

	spin_lock_init(&uq->sq_lock);
	INIT_DELAYED_WORK(&uq->poll_work, no_work);
	queue_delayed_work(nvme_wq, &uq->poll_work, 1000 * HZ);
	spin_lock(&uq->sq_lock);
	nvme_uq_queue_poll_work(uq);
	spin_unlock(&uq->sq_lock);
	KUNIT_EXPECT_FALSE(test, timer_pending(&uq->poll_work.timer));
	cancel_delayed_work_sync(&uq->poll_work);
	nvme_uq_tags_free(&uq->tags);
}

/* Segments of a buffer */

#define PIECES	6

static struct nvme_uq_data *new_data(struct kunit *test, unsigned int nr)
{
	struct nvme_uq_data *data;

	data = kunit_kzalloc(test, struct_size(data, sg, nr), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, data);
	sg_init_table(data->sg, nr);
	return data;
}

static void pieces(struct kunit *test)
{
	static const struct {
		phys_addr_t	phys;
		unsigned int	len;
		unsigned int	nseg;	/* after the addition */
	} add[] = {
		{ 0x1000, 0x1000, 1 },
		{ 0x2000, 0x200, 1 },	/* adjacent */
		{ 0x2200, 0xe00, 1 },	/* adjacent to a merged segment */
		{ 0x4000, 0x1000, 2 },	/* a gap */
		{ 0x3000, 0x1000, 3 },	/* before the previous segment */
		{ 0x4000, 0x1000, 3 },	/* adjacent to that */
		{ 0x4000, 0x1000, 4 },	/* the same again */
		{ 0x1000, 0x1000, 5 },	/* not to the last one */
	};
	static const struct {
		phys_addr_t	phys;
		unsigned int	len;
	} want[] = {
		{ 0x1000, 0x2000 }, { 0x4000, 0x1000 }, { 0x3000, 0x2000 },
		{ 0x4000, 0x1000 }, { 0x1000, 0x1000 },
	};
	struct nvme_uq_data *data = new_data(test, PIECES);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(add); i++) {
		nvme_uq_data_add(data, phys_to_page(add[i].phys),
				 offset_in_page(add[i].phys), add[i].len);
		KUNIT_ASSERT_EQ(test, add[i].nseg, data->nr_sg);
	}
	for (i = 0; i < ARRAY_SIZE(want); i++) {
		KUNIT_EXPECT_EQ(test, want[i].phys, sg_phys(&data->sg[i]));
		KUNIT_EXPECT_EQ(test, want[i].len, data->sg[i].length);
	}
}

/* Check that segments beyond the limit are counted and not stored. */
static void too_many_segments(struct kunit *test)
{
	struct nvme_uq_data *data = new_data(test, NVME_UQ_MAX_SEGS);
	unsigned int i;

	for (i = 0; i < 2 * NVME_UQ_MAX_SEGS; i++) {
		nvme_uq_data_add(data, pfn_to_page(2 * i), 0, SZ_4K);
		KUNIT_EXPECT_EQ(test, i + 1, data->nr_sg);
	}
	for (i = 0; i < NVME_UQ_MAX_SEGS; i++) {
		KUNIT_EXPECT_PTR_EQ(test, pfn_to_page(2 * i),
				    sg_page(&data->sg[i]));
		KUNIT_EXPECT_EQ(test, SZ_4K, data->sg[i].length);
	}
}

/* Make the queue the only one of its controller, ready to be blocked. */
static void add_to_ctrl(struct kunit *test, struct rig *rig)
{
	struct nvme_uq *uq = &rig->uq;
	struct nvme_uq_ctrl *uqc;

	uqc = kunit_kzalloc(test, struct_size(uqc, q, 1), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, uqc);
	uqc->max = 1;
	uqc->nr = 1;
	uqc->q[0] = uq;
	rig->ctrl.uq = uqc;
	uq->ops = &no_doorbell;
	spin_lock_init(&uq->sq_lock);
	init_waitqueue_head(&uq->waitq);
	init_waitqueue_head(&uq->idle_wait);
}

/*
 * Check that the end of a reset unblocks queues, unless the controller is being
 * disabled concurrently. The state of the controller does not show this.
 */
static void opened_by_a_reset(struct kunit *test)
{
	struct rig *rig = new_rig(test);
	struct nvme_uq *uq = &rig->uq;

	add_to_ctrl(test, rig);
	rig->ctrl.state = NVME_CTRL_LIVE;

	nvme_uq_block(uq, NVME_UQ_DOWN);
	nvme_uq_unquiesce(&rig->ctrl);
	KUNIT_EXPECT_EQ(test, 0, uq->blocked);

	nvme_uq_block(uq, NVME_UQ_DOWN | NVME_UQ_DISABLED);
	nvme_uq_unquiesce(&rig->ctrl);
	KUNIT_EXPECT_TRUE(test, uq->blocked & NVME_UQ_DOWN);

	uq->cq_live = false;
	nvme_uq_unquiesce(&rig->ctrl);
	KUNIT_EXPECT_TRUE(test, uq->blocked & NVME_UQ_UNAVAILABLE);
	nvme_uq_tags_free(&uq->tags);
}

/*
 * Check the errno of commands to a controller that is disabled while it is
 * connecting: they wait for the end of the reset. Then they fail until the next
 * reset, or for good.
 */
static void disabled_while_connecting(struct kunit *test)
{
	struct rig *rig = new_rig(test);
	struct nvme_uq *uq = &rig->uq;
	struct nvme_uq_file *uf;
	struct nvme_uq_node node = { };

	node.ns = kunit_kzalloc(test, sizeof(*node.ns), GFP_KERNEL);
	uf = kunit_kzalloc(test, sizeof(*uf), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, uf);
	KUNIT_ASSERT_NOT_NULL(test, node.ns);
	uf->blocked_mask = ~0U;
	add_to_ctrl(test, rig);

	rig->ctrl.state = NVME_CTRL_CONNECTING;
	nvme_uq_block(uq, NVME_UQ_DOWN | NVME_UQ_DISABLED);
	KUNIT_EXPECT_EQ(test, -EAGAIN, nvme_uq_submit_errno(uq, uf, &node));
	/* nvme_uq_cancel(); the reset may make the controller live anyway */
	uq->cq_live = false;
	KUNIT_EXPECT_EQ(test, -EAGAIN, nvme_uq_submit_errno(uq, uf, &node));
	rig->ctrl.state = NVME_CTRL_LIVE;
	nvme_uq_unquiesce(&rig->ctrl);
	KUNIT_EXPECT_EQ(test, -ESHUTDOWN, nvme_uq_submit_errno(uq, uf, &node));
	rig->ctrl.state = NVME_CTRL_DEAD;
	KUNIT_EXPECT_EQ(test, -ENODEV, nvme_uq_submit_errno(uq, uf, &node));
	nvme_uq_tags_free(&uq->tags);
}

static struct kunit_case nvme_uq_pci_cases[] = {
	KUNIT_CASE(opened_by_a_reset),
	KUNIT_CASE(disabled_while_connecting),
	KUNIT_CASE(reap_over_the_wrap),
	KUNIT_CASE(reap_second_turn),
	KUNIT_CASE(poll_of_a_queue_that_is_down),
	KUNIT_CASE(poll_of_an_interrupt_queue),
	KUNIT_CASE(poll_wakes_before_it_unpins),
	KUNIT_CASE(poll_ends_commands_of_others_at_once),
	KUNIT_CASE(page_lock_of_another),
	KUNIT_CASE(shadow_at_the_rings_end),
	KUNIT_CASE(shadow_at_the_end_of_its_bits),
	KUNIT_CASE(longest_timeout),
	KUNIT_CASE(overdue_while_firmware_is_activated),
	KUNIT_CASE(overdue_without_an_abort),
	KUNIT_CASE(first_poll_is_not_late),
	KUNIT_CASE(pieces),
	KUNIT_CASE(too_many_segments),
	{ }
};

static struct kunit_suite nvme_uq_pci_suite = {
	.name		= "nvme_uq_pci",
	.test_cases	= nvme_uq_pci_cases,
};

/* Two controllers of a subsystem, with a queue each */

struct pair {
	struct nvme_subsystem	subsys;
	struct nvme_ctrl	ctrl[2];
	struct nvme_uq		uq[2];
};

/* Add user queues to a controller, as a reset does. */
static void add_queue(struct kunit *test, struct pair *pair, unsigned int i)
{
	struct nvme_uq *uq = &pair->uq[i];
	struct nvme_uq_ctrl *uqc;

	uqc = kunit_kzalloc(test, struct_size(uqc, q, 1), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, uqc);
	uqc->ctrl = &pair->ctrl[i];
	uqc->max = 1;
	uq->ops = &no_doorbell;
	uq->ctrl = &pair->ctrl[i];
	spin_lock_init(&uq->sq_lock);
	init_waitqueue_head(&uq->waitq);
	init_waitqueue_head(&uq->idle_wait);
	nvme_uq_add_ctrl(uqc);
	nvme_uq_add_queue(uq);
}

static struct pair *new_pair(struct kunit *test)
{
	struct pair *pair = kunit_kzalloc(test, sizeof(*pair), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, pair);
	for (i = 0; i < ARRAY_SIZE(pair->ctrl); i++) {
		pair->ctrl[i].subsys = &pair->subsys;
		pair->ctrl[i].state = NVME_CTRL_LIVE;
	}
	return pair;
}

static void expect_blocked(struct kunit *test, const struct pair *pair,
			   unsigned int first, unsigned int second)
{
	KUNIT_EXPECT_EQ(test, first, pair->uq[0].blocked);
	KUNIT_EXPECT_EQ(test, second, pair->uq[1].blocked);
}

/* A scan holds the queues of all controllers that may share the namespace. */
static void hold_by_a_scan(struct kunit *test)
{
	struct pair *pair = new_pair(test);

	add_queue(test, pair, 0);
	add_queue(test, pair, 1);
	expect_blocked(test, pair, 0, 0);
	nvme_uq_start_update(&pair->subsys);
	expect_blocked(test, pair, NVME_UQ_HELD, NVME_UQ_HELD);
	nvme_uq_end_update(&pair->subsys);
	expect_blocked(test, pair, 0, 0);
}

static void hold(struct pair *pair)
{
	nvme_uq_passthru_start(&pair->ctrl[0], NVME_CMD_EFFECTS_NCC);
}

static void unhold(struct pair *pair)
{
	nvme_uq_passthru_end(&pair->ctrl[0], NVME_CMD_EFFECTS_NCC);
}

/* Scans during commands that change formats release nothing. */
static void hold_by_several(struct kunit *test)
{
	struct pair *pair = new_pair(test);

	add_queue(test, pair, 0);
	add_queue(test, pair, 1);
	hold(pair);
	hold(pair);
	nvme_uq_start_update(&pair->subsys);
	expect_blocked(test, pair, NVME_UQ_HELD, NVME_UQ_HELD);
	nvme_uq_end_update(&pair->subsys);
	unhold(pair);
	expect_blocked(test, pair, NVME_UQ_HELD, NVME_UQ_HELD);
	unhold(pair);
	expect_blocked(test, pair, 0, 0);
}

struct update {
	struct nvme_subsystem	*subsys;
	struct completion	done;
	bool			started;
};

static int update(void *data)
{
	struct update *u = data;

	nvme_uq_start_update(u->subsys);
	WRITE_ONCE(u->started, true);
	nvme_uq_end_update(u->subsys);
	complete(&u->done);
	return 0;
}

/* Two scans do not change the head of a shared namespace at the same time. */
static void updates_exclude_each_other(struct kunit *test)
{
	struct pair *pair = new_pair(test);
	struct update u = { .subsys = &pair->subsys };
	struct task_struct *task;

	add_queue(test, pair, 0);
	add_queue(test, pair, 1);
	init_completion(&u.done);
	nvme_uq_start_update(&pair->subsys);
	task = kthread_create(update, &u, "uq_update");
	if (!IS_ERR(task)) {
		get_task_struct(task);
		wake_up_process(task);
		while (!READ_ONCE(u.started) &&
		       READ_ONCE(task->__state) != TASK_UNINTERRUPTIBLE)
			schedule();
	}
	KUNIT_EXPECT_FALSE(test, READ_ONCE(u.started));
	nvme_uq_end_update(&pair->subsys);
	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	wait_for_completion(&u.done);
	put_task_struct(task);
	KUNIT_EXPECT_TRUE(test, u.started);
	expect_blocked(test, pair, 0, 0);
}

/* A queue or controller that a reset adds meanwhile is held, and released. */
static void hold_before_the_queue_exists(struct kunit *test)
{
	struct pair *pair = new_pair(test);

	hold(pair);
	add_queue(test, pair, 0);
	hold(pair);
	add_queue(test, pair, 1);
	expect_blocked(test, pair, NVME_UQ_HELD, NVME_UQ_HELD);
	unhold(pair);
	expect_blocked(test, pair, NVME_UQ_HELD, NVME_UQ_HELD);
	unhold(pair);
	expect_blocked(test, pair, 0, 0);
}

/* Neither holds nor freezes end each other. A freeze is of one controller. */
static void hold_and_freeze_in_any_order(struct kunit *test)
{
	struct pair *pair = new_pair(test);
	unsigned int held = NVME_UQ_HELD, both = held | NVME_UQ_FROZEN;

	add_queue(test, pair, 0);
	add_queue(test, pair, 1);
	hold(pair);
	nvme_uq_wait_freeze(&pair->ctrl[0], 0);
	expect_blocked(test, pair, both, held);
	/* a reset ends the freeze of the command that holds the queues */
	nvme_uq_unfreeze(&pair->ctrl[0]);
	expect_blocked(test, pair, held, held);
	nvme_uq_wait_freeze(&pair->ctrl[0], 0);
	unhold(pair);
	expect_blocked(test, pair, NVME_UQ_FROZEN, 0);
	hold(pair);
	expect_blocked(test, pair, both, held);
	unhold(pair);
	nvme_uq_unfreeze(&pair->ctrl[0]);
	expect_blocked(test, pair, 0, 0);
}

/* The end of a reset does not end a hold, nor does a hold end a reset. */
static void hold_during_a_reset(struct kunit *test)
{
	struct pair *pair = new_pair(test);
	struct nvme_uq *uq = &pair->uq[0];

	add_queue(test, pair, 0);
	add_queue(test, pair, 1);
	uq->cq_live = true;
	hold(pair);
	nvme_uq_block(uq, NVME_UQ_DOWN);
	nvme_uq_unquiesce(&pair->ctrl[0]);
	expect_blocked(test, pair, NVME_UQ_HELD, NVME_UQ_HELD);
	nvme_uq_block(uq, NVME_UQ_DOWN);
	unhold(pair);
	expect_blocked(test, pair, NVME_UQ_DOWN, 0);
	nvme_uq_unquiesce(&pair->ctrl[0]);
	expect_blocked(test, pair, 0, 0);
}

struct freeze {
	struct nvme_ctrl	*ctrl;
	struct completion	done;
};

static int freeze(void *data)
{
	struct freeze *f = data;

	nvme_uq_wait_freeze(f->ctrl, MAX_SCHEDULE_TIMEOUT);
	complete(&f->done);
	return 0;
}

/* Wait until a queue is frozen. A failed test must not wait for ever. */
static bool wait_frozen(struct nvme_uq *uq)
{
	unsigned long end = jiffies + 60 * HZ;

	while (!(READ_ONCE(uq->blocked) & NVME_UQ_FROZEN) &&
	       time_before(jiffies, end))
		schedule_timeout_uninterruptible(1);
	return READ_ONCE(uq->blocked) & NVME_UQ_FROZEN;
}

/*
 * A reset ends the freeze of a command that still waits for commands in flight.
 * If the queue was not frozen again, new commands could keep it busy for ever.
 */
static void freeze_is_longer_than_a_reset(struct kunit *test)
{
	struct pair *pair = new_pair(test);
	struct freeze f = { .ctrl = &pair->ctrl[0] };
	struct nvme_uq *uq = &pair->uq[0];
	unsigned int idx;

	add_queue(test, pair, 0);
	KUNIT_ASSERT_EQ(test, 0, nvme_uq_tags_alloc(&uq->tags, RING, true,
						    GFP_KERNEL));
	idx = nvme_uq_tag_get(&uq->tags);
	init_completion(&f.done);
	KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run(freeze, &f, "uq_freeze")));
	KUNIT_EXPECT_TRUE(test, wait_frozen(uq));
	nvme_uq_unfreeze(&pair->ctrl[0]);
	KUNIT_EXPECT_TRUE(test, wait_frozen(uq));
	KUNIT_EXPECT_FALSE(test, completion_done(&f.done));
	nvme_uq_tag_put(&uq->tags, idx);
	wake_up(&uq->idle_wait);
	wait_for_completion(&f.done);
	nvme_uq_unfreeze(&pair->ctrl[0]);
	expect_blocked(test, pair, 0, 0);
	nvme_uq_tags_free(&uq->tags);
}

static struct kunit_case nvme_uq_hold_cases[] = {
	KUNIT_CASE(hold_by_a_scan),
	KUNIT_CASE(hold_by_several),
	KUNIT_CASE(updates_exclude_each_other),
	KUNIT_CASE(hold_before_the_queue_exists),
	KUNIT_CASE(hold_and_freeze_in_any_order),
	KUNIT_CASE(hold_during_a_reset),
	KUNIT_CASE(freeze_is_longer_than_a_reset),
	{ }
};

static struct kunit_suite nvme_uq_hold_suite = {
	.name		= "nvme_uq_hold",
	.test_cases	= nvme_uq_hold_cases,
};

kunit_test_suites(&nvme_uq_pci_suite, &nvme_uq_hold_suite);

MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");
MODULE_DESCRIPTION("KUnit tests of NVMe user queues, the half in the PCI driver");
MODULE_LICENSE("GPL");
