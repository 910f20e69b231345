// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of NVMe user queues: limits of commands in flight, and the order
 * of waiting commands.
 *
 * The queue has no device. An admitted command takes a tag, and is in flight
 * until the test ends it.
 */
#include <kunit/test.h>
#include <linux/io_uring_types.h>
#include <linux/kthread.h>
#include <linux/slab.h>

#include "../uq/limit.h"

#define DEPTH	9	/* eight tags */
#define WAITERS	5
#define IDLERS	(4 * DEPTH)

/* A command that waits, without a task that runs. */
struct idle {
	struct nvme_uq_io	io;
	struct nvme_uq_waiter	waiter;
};

struct rig {
	struct nvme_uq		uq;
	struct nvme_ctrl	ctrl;
	struct nvme_ns		ns;
	struct nvme_uq_node	node;
	struct nvme_uq_file	file[2];
	struct nvme_uq_iod	iod[DEPTH];
	struct waiter {
		struct rig		*rig;
		struct task_struct	*task;
		struct nvme_ns		ns;
		struct nvme_uq_node	node;
		struct io_kiocb		req;
		struct nvme_uq_io	io;
		struct nvme_uq_waiter	waiter;
		int			ret;
	} waiter[WAITERS];
	unsigned int		went[WAITERS];	/* order of completion */
	unsigned int		nr_went;
	unsigned int		rung;
	struct idle		idle[IDLERS];
};

static void count_ring(struct nvme_uq *uq)
{
	container_of(uq, struct rig, uq)->rung++;
}

static const struct nvme_uq_ops rig_ops = {
	.ring	= count_ring,
};

static void init_file(struct rig *rig, struct nvme_uq_file *uf)
{
	uf->node = &rig->node;
	uf->blocked_mask = ~0;
	init_waitqueue_head(&uf->waitq);
}

static struct rig *new_rig(struct kunit *test)
{
	struct rig *rig = kunit_kzalloc(test, sizeof(*rig), GFP_KERNEL);
	struct nvme_uq *uq;

	KUNIT_ASSERT_NOT_NULL(test, rig);
	uq = &rig->uq;
	uq->ops = &rig_ops;
	uq->ctrl = &rig->ctrl;
	uq->iod = rig->iod;
	rig->ctrl.state = NVME_CTRL_LIVE;
	rig->node.ns = &rig->ns;
	rig->node.uq = uq;
	spin_lock_init(&uq->sq_lock);
	spin_lock_init(&uq->cq_lock);
	init_waitqueue_head(&uq->waitq);
	init_waitqueue_head(&uq->idle_wait);
	init_file(rig, &rig->file[0]);
	init_file(rig, &rig->file[1]);
	KUNIT_ASSERT_EQ(test, 0, nvme_uq_tags_alloc(&uq->tags, DEPTH, true,
						    GFP_KERNEL));
	return rig;
}

static void free_rig(struct kunit *test, struct rig *rig)
{
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_tags_used(&rig->uq.tags));
	KUNIT_EXPECT_EQ(test, 0, rig->uq.waiting);
	KUNIT_EXPECT_EQ(test, 0, rig->uq.reserve);
	KUNIT_EXPECT_FALSE(test, rig->file[0].limited || rig->file[1].limited);
	nvme_uq_tags_free(&rig->uq.tags);
}

/* Admit and arm a command, like submission does under the lock. */
static bool try_io(struct nvme_uq *uq, struct nvme_uq_io *io,
		   struct nvme_uq_waiter *waiter)
{
	bool ok;

	spin_lock(&uq->sq_lock);
	ok = nvme_uq_admit(uq, io->file, io->node, waiter);
	if (ok) {
		unsigned int idx = nvme_uq_tag_get(&uq->tags);

		uq->iod[idx].file = io->file;
		io->file->submitted++;
		nvme_uq_tag_arm(&uq->tags, idx);
	}
	spin_unlock(&uq->sq_lock);
	return ok;
}

/* Submit a command that must not wait. */
static bool submit(struct rig *rig, unsigned int file)
{
	struct nvme_uq_io io = {
		.file	= &rig->file[file],
		.node	= &rig->node,
	};

	return try_io(&rig->uq, &io, NULL);
}

static unsigned int submit_many(struct rig *rig, unsigned int file)
{
	unsigned int n = 0;

	while (n < DEPTH && submit(rig, file))
		n++;
	return n;
}

/* End the first command of the file, like a completion does. */
static void end_one(struct kunit *test, struct rig *rig, unsigned int file)
{
	struct nvme_uq_file *uf = &rig->file[file];
	struct nvme_uq *uq = &rig->uq;
	unsigned int i;

	spin_lock_irq(&uq->cq_lock);
	for (i = 0; i < uq->tags.nr; i++)
		if (uq->tags.cid[i] & NVME_UQ_ARMED && uq->iod[i].file == uf)
			break;
	if (i < uq->tags.nr) {
		nvme_uq_tag_match(&uq->tags, uq->tags.cid[i]);
		WRITE_ONCE(uf->completed, uf->completed + 1);
		if (uf->limited && wq_has_sleeper(&uf->waitq))
			wake_up(&uf->waitq);
		nvme_uq_tag_put(&uq->tags, i);
	}
	spin_unlock_irq(&uq->cq_lock);
	KUNIT_EXPECT_LT(test, i, uq->tags.nr);
	if (wq_has_sleeper(&uq->waitq))
		wake_up(&uq->waitq);
}

static void end_many(struct kunit *test, struct rig *rig, unsigned int file,
		     unsigned int n)
{
	while (n--)
		end_one(test, rig, file);
}

static unsigned int flying(struct rig *rig, unsigned int file)
{
	unsigned int n;

	spin_lock(&rig->uq.sq_lock);
	n = nvme_uq_file_in_flight(&rig->file[file]);
	spin_unlock(&rig->uq.sq_lock);
	return n;
}

static void end_all(struct kunit *test, struct rig *rig)
{
	end_many(test, rig, 0, flying(rig, 0));
	end_many(test, rig, 1, flying(rig, 1));
}

/* Set a limit like the administrator. */
static int raise(struct rig *rig, unsigned int file, unsigned int limit)
{
	return nvme_uq_request_limit(&rig->file[file], limit, true);
}

static void limit_of_a_file(struct kunit *test)
{
	struct rig *rig = new_rig(test);

	KUNIT_EXPECT_EQ(test, 0, raise(rig, 0, 3));
	KUNIT_EXPECT_EQ(test, 3, submit_many(rig, 0));
	/* the other file gets the rest */
	KUNIT_EXPECT_EQ(test, DEPTH - 1 - 3, submit_many(rig, 1));
	end_one(test, rig, 1);
	KUNIT_EXPECT_FALSE(test, submit(rig, 0));
	end_one(test, rig, 0);
	KUNIT_EXPECT_TRUE(test, submit(rig, 0));
	KUNIT_EXPECT_EQ(test, 3, flying(rig, 0));
	KUNIT_EXPECT_EQ(test, DEPTH - 1 - 4, flying(rig, 1));
	end_many(test, rig, 0, 3);
	end_many(test, rig, 1, DEPTH - 1 - 4);
	free_rig(test, rig);
}

static void limit_of_a_queue(struct kunit *test)
{
	struct rig *rig = new_rig(test);

	KUNIT_EXPECT_EQ(test, 0, nvme_uq_set_limit(&rig->uq, &rig->uq.limit, 5));
	KUNIT_EXPECT_TRUE(test, submit(rig, 1));
	KUNIT_EXPECT_EQ(test, 4, submit_many(rig, 0));
	KUNIT_EXPECT_FALSE(test, submit(rig, 1));
	end_many(test, rig, 0, 4);
	end_one(test, rig, 1);
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_set_limit(&rig->uq, &rig->uq.limit,
						   DEPTH - 1));
	free_rig(test, rig);
}

/* Check that file_limit applies to each file, with or without its own limit. */
static void limit_of_each_file(struct kunit *test)
{
	struct rig *rig = new_rig(test);
	struct nvme_uq *uq = &rig->uq;

	KUNIT_EXPECT_EQ(test, 0, nvme_uq_set_limit(uq, &uq->file_limit, 3));
	KUNIT_EXPECT_EQ(test, 0, raise(rig, 0, 2));
	KUNIT_EXPECT_EQ(test, 2, submit_many(rig, 0));
	KUNIT_EXPECT_EQ(test, 3, submit_many(rig, 1));
	KUNIT_EXPECT_FALSE(test, nvme_uq_is_full(uq));
	KUNIT_EXPECT_EQ(test, 0, raise(rig, 0, 4));
	KUNIT_EXPECT_EQ(test, 1, submit_many(rig, 0));
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_set_limit(uq, &uq->file_limit,
						   DEPTH - 1));
	KUNIT_EXPECT_EQ(test, 1, submit_many(rig, 0));
	KUNIT_EXPECT_EQ(test, 1, submit_many(rig, 1));
	end_many(test, rig, 0, 4);
	end_many(test, rig, 1, 4);
	free_rig(test, rig);
}

/* Check who may raise the limit of a file, and that the depth may change. */
static void limit_is_lowered_only(struct kunit *test)
{
	struct rig *rig = new_rig(test);
	struct nvme_uq_file *uf = &rig->file[0];

	KUNIT_EXPECT_EQ(test, 0, nvme_uq_request_limit(uf, 6, false));
	KUNIT_EXPECT_EQ(test, -EACCES, nvme_uq_request_limit(uf, 7, false));
	KUNIT_EXPECT_EQ(test, -EACCES,
			nvme_uq_request_limit(uf, DEPTH - 1, false));
	KUNIT_EXPECT_EQ(test, -EINVAL, nvme_uq_request_limit(uf, DEPTH, false));
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_request_limit(uf, 6, false));
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_request_limit(uf, 5, false));
	/* the depth is not "no limit" for who may not raise the limit */
	rig->uq.tags.nr = 4;
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_request_limit(uf, 4, false));
	rig->uq.tags.nr = DEPTH - 1;
	KUNIT_EXPECT_EQ(test, 4, uf->limit);
	KUNIT_EXPECT_EQ(test, 0, raise(rig, 0, DEPTH - 1));
	KUNIT_EXPECT_EQ(test, 0, uf->limit);
	free_rig(test, rig);
}

static void limit_refused(struct kunit *test)
{
	struct rig *rig = new_rig(test);
	struct nvme_uq_file *uf = &rig->file[0];

	KUNIT_EXPECT_EQ(test, -EINVAL, nvme_uq_request_limit(uf, 0, true));
	KUNIT_EXPECT_EQ(test, -EINVAL, nvme_uq_request_limit(uf, DEPTH, true));
	KUNIT_EXPECT_EQ(test, 0, uf->limit);
	/* the number of tags means no limit */
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_request_limit(uf, DEPTH - 1, true));
	KUNIT_EXPECT_EQ(test, 0, uf->limit);
	nvme_uq_tags_free(&rig->uq.tags);
	KUNIT_EXPECT_EQ(test, -ENXIO, nvme_uq_request_limit(uf, 1, true));
}

/*
 * Check that commands submitted before the limit was set count. Tags do not
 * tell the file of a command, so the driver must count without a limit too.
 */
static void limit_while_in_flight(struct kunit *test)
{
	struct rig *rig = new_rig(test);
	unsigned int n;

	KUNIT_EXPECT_EQ(test, DEPTH - 1, submit_many(rig, 0));
	KUNIT_EXPECT_EQ(test, 0, raise(rig, 0, 2));
	KUNIT_EXPECT_EQ(test, DEPTH - 1, flying(rig, 0));
	for (n = DEPTH - 2; n >= 2; n--) {
		end_one(test, rig, 0);
		KUNIT_ASSERT_EQ(test, n, flying(rig, 0));
		KUNIT_ASSERT_FALSE(test, submit(rig, 0));
	}
	end_one(test, rig, 0);
	KUNIT_EXPECT_EQ(test, 1, submit_many(rig, 0));
	end_many(test, rig, 0, 2);
	free_rig(test, rig);
}

/* Check that the counts of a file may wrap around 32 bits. */
static void count_wraps(struct kunit *test)
{
	struct rig *rig = new_rig(test);
	unsigned int i;

	rig->file[0].submitted = U32_MAX - 1;
	rig->file[0].completed = U32_MAX - 1;
	KUNIT_EXPECT_EQ(test, 0, raise(rig, 0, 3));
	for (i = 0; i < 4; i++) {
		KUNIT_EXPECT_EQ(test, 3, submit_many(rig, 0));
		KUNIT_EXPECT_EQ(test, 3, flying(rig, 0));
		end_many(test, rig, 0, 3);
	}
	free_rig(test, rig);
}

/* Check that the early checks agree with the result of the submission. */
static void look_first(struct kunit *test)
{
	struct rig *rig = new_rig(test);
	struct nvme_uq *uq = &rig->uq;
	unsigned int round, file;

	KUNIT_EXPECT_EQ(test, 0, raise(rig, 0, 3));
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_set_limit(uq, &uq->limit, DEPTH - 2));
	for (round = 0; round < DEPTH; round++) {
		for (file = 0; file < 2; file++) {
			bool waits = nvme_uq_is_full(uq) ||
				nvme_uq_at_limit(uq, &rig->file[file]);

			KUNIT_EXPECT_EQ(test, waits, !submit(rig, file));
		}
	}
	KUNIT_EXPECT_EQ(test, 3, flying(rig, 0));
	KUNIT_EXPECT_EQ(test, DEPTH - 2 - 3, flying(rig, 1));
	end_many(test, rig, 0, 3);
	end_many(test, rig, 1, DEPTH - 2 - 3);
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_set_limit(uq, &uq->limit, DEPTH - 1));
	free_rig(test, rig);
}

/* Wait for admission in a task of its own, like io_uring's workers. */
static int wait_and_go(void *data)
{
	struct waiter *w = data;
	struct rig *rig = w->rig;

	do {
		if (try_io(&rig->uq, &w->io, &w->waiter)) {
			w->ret = -EIOCBQUEUED;
			break;
		}
		w->ret = nvme_uq_wait_turn(&rig->uq, &w->io, &w->waiter);
	} while (!w->ret);

	if (w->ret != -EIOCBQUEUED)
		nvme_uq_abandon(&rig->uq, &w->io, &w->waiter);
	spin_lock(&rig->uq.sq_lock);
	rig->went[rig->nr_went] = w - rig->waiter;
	/* pairs with the acquire in wait_went() */
	smp_store_release(&rig->nr_went, rig->nr_went + 1);
	spin_unlock(&rig->uq.sq_lock);
	return 0;
}

static void start_waiter(struct kunit *test, struct rig *rig, unsigned int i,
			 unsigned int file)
{
	struct waiter *w = &rig->waiter[i];
	unsigned int waiting = READ_ONCE(rig->uq.waiting);
	unsigned int went = READ_ONCE(rig->nr_went);

	w->rig = rig;
	w->io.ioucmd = io_kiocb_to_cmd(&w->req, struct io_uring_cmd);
	w->io.file = &rig->file[file];
	w->io.node = &w->node;
	w->node.ns = &w->ns;
	w->node.uq = &rig->uq;
	w->task = kthread_create(wait_and_go, w, "uq_kunit%u", i);
	KUNIT_ASSERT_FALSE(test, IS_ERR(w->task));
	get_task_struct(w->task);
	wake_up_process(w->task);
	/* KUnit stops the task of a test that times out */
	while (READ_ONCE(rig->uq.waiting) == waiting &&
	       READ_ONCE(rig->nr_went) == went && !kthread_should_stop())
		schedule_timeout_uninterruptible(1);
	KUNIT_EXPECT_EQ(test, waiting + 1, READ_ONCE(rig->uq.waiting));
}

static void wait_went(struct rig *rig, unsigned int n)
{
	/* pairs with the release in wait_and_go() */
	while (smp_load_acquire(&rig->nr_went) < n && !kthread_should_stop())
		schedule_timeout_uninterruptible(1);
}

/* Each waiter has a namespace of its own. Remove it. */
static void remove_ns(struct rig *rig, unsigned int i)
{
	set_bit(NVME_NS_REMOVING, &rig->waiter[i].ns.flags);
	nvme_uq_wake_all(&rig->uq);
}

static void end_waiters(struct rig *rig, unsigned int n)
{
	while (n--) {
		/* ends a waiter that is left after a failure */
		remove_ns(rig, n);
		kthread_stop(rig->waiter[n].task);
		put_task_struct(rig->waiter[n].task);
	}
}

/* Check that a new command does not overtake the waiting ones. */
static void expect_no_overtaking(struct kunit *test, struct rig *rig,
				 unsigned int file)
{
	if (!submit(rig, file))
		return;
	KUNIT_FAIL(test, "a command of file %u overtakes those that wait", file);
	end_one(test, rig, file);
}

/* Enter a wait queue, like a task that waits and then does not run. */
static void add_idle(struct kunit *test, struct rig *rig, struct idle *idle,
		     unsigned int file)
{
	*idle = (struct idle){
		.io.file	= &rig->file[file],
		.io.node	= &rig->node,
	};
	KUNIT_EXPECT_EQ(test, -EAGAIN, nvme_uq_recheck(&rig->uq, &idle->io,
						       &idle->waiter));
}

static void remove_idle(struct rig *rig, struct idle *idle)
{
	nvme_uq_abandon(&rig->uq, &idle->io, &idle->waiter);
}

/* Run the task of a command: it has been woken or looks periodically. */
static bool run_idle(struct rig *rig, struct idle *idle)
{
	return !nvme_uq_recheck(&rig->uq, &idle->io, &idle->waiter) &&
		try_io(&rig->uq, &idle->io, &idle->waiter);
}

static bool is_woken(const struct idle *idle)
{
	return list_empty(&idle->waiter.wait.entry);
}

/* Check that a free tag wakes the command that arrived first. */
static void order_for_a_slot(struct kunit *test)
{
	struct rig *rig = new_rig(test);
	struct idle *idle = rig->idle;
	unsigned int i;

	/* commands of a file with a limit take another path */
	KUNIT_EXPECT_EQ(test, 0, raise(rig, 1, DEPTH - 2));
	KUNIT_EXPECT_EQ(test, DEPTH - 1, submit_many(rig, 0));
	for (i = 0; i < WAITERS; i++)
		add_idle(test, rig, &idle[i], i & 1);
	for (i = 0; i < WAITERS; i++) {
		KUNIT_EXPECT_FALSE(test, is_woken(&idle[i]));
		end_one(test, rig, 0);
		expect_no_overtaking(test, rig, 0);
		expect_no_overtaking(test, rig, 1);
		KUNIT_EXPECT_TRUE(test, is_woken(&idle[i]));
		KUNIT_EXPECT_TRUE(test, run_idle(rig, &idle[i]));
		KUNIT_EXPECT_EQ(test, WAITERS - 1 - i, rig->uq.waiting);
	}
	end_all(test, rig);
	free_rig(test, rig);
}

/*
 * Check the same for the limit of a file, and that other files are not delayed.
 */
static void order_for_a_limit(struct kunit *test)
{
	struct rig *rig = new_rig(test);
	struct idle *idle = rig->idle;
	unsigned int i;

	KUNIT_EXPECT_EQ(test, 0, raise(rig, 0, 2));
	KUNIT_EXPECT_EQ(test, 2, submit_many(rig, 0));
	for (i = 0; i < WAITERS; i++)
		add_idle(test, rig, &idle[i], 0);
	KUNIT_EXPECT_EQ(test, DEPTH - 3, submit_many(rig, 1));
	end_many(test, rig, 1, DEPTH - 3);
	for (i = 0; i < WAITERS; i++) {
		KUNIT_EXPECT_FALSE(test, is_woken(&idle[i]));
		end_one(test, rig, 0);
		expect_no_overtaking(test, rig, 0);
		KUNIT_EXPECT_TRUE(test, is_woken(&idle[i]));
		KUNIT_EXPECT_TRUE(test, run_idle(rig, &idle[i]));
		KUNIT_EXPECT_EQ(test, 2, flying(rig, 0));
	}
	end_many(test, rig, 0, 2);
	free_rig(test, rig);
}

/* Check that commands also pass through a limit of one command. */
static void limit_of_one(struct kunit *test)
{
	struct rig *rig = new_rig(test);
	unsigned int i;

	KUNIT_EXPECT_EQ(test, 0, raise(rig, 0, 1));
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_set_limit(&rig->uq, &rig->uq.limit, 1));
	KUNIT_EXPECT_TRUE(test, submit(rig, 0));
	for (i = 0; i < WAITERS; i++)
		start_waiter(test, rig, i, i & 1);
	for (i = 0; i < WAITERS; i++) {
		end_one(test, rig, flying(rig, 0) ? 0 : 1);
		wait_went(rig, i + 1);
		KUNIT_EXPECT_EQ(test, 1, flying(rig, 0) + flying(rig, 1));
	}
	end_waiters(rig, WAITERS);
	end_one(test, rig, flying(rig, 0) ? 0 : 1);
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_set_limit(&rig->uq, &rig->uq.limit,
						   DEPTH - 1));
	free_rig(test, rig);
}

/*
 * Check that waiters that do not run keep one tag of the queue, or one place of
 * their file, from new commands, however many they are.
 */
static void waiters_that_do_not_run(struct kunit *test)
{
	struct rig *rig = new_rig(test);
	struct idle *idle = rig->idle;
	unsigned int i;

	KUNIT_EXPECT_EQ(test, DEPTH - 1, submit_many(rig, 0));
	for (i = 0; i < IDLERS; i++)
		add_idle(test, rig, &idle[i], 0);
	end_many(test, rig, 0, DEPTH - 1);
	KUNIT_EXPECT_EQ(test, DEPTH - 2, submit_many(rig, 0));
	/* a new command gets each tag but the last */
	KUNIT_EXPECT_FALSE(test, submit(rig, 1));
	end_one(test, rig, 0);
	KUNIT_EXPECT_TRUE(test, submit(rig, 1));
	for (i = 0; i < IDLERS; i++)
		remove_idle(rig, &idle[i]);
	KUNIT_EXPECT_TRUE(test, submit(rig, 0));
	end_many(test, rig, 0, DEPTH - 2);
	end_one(test, rig, 1);

	KUNIT_EXPECT_EQ(test, 0, raise(rig, 0, 4));
	KUNIT_EXPECT_EQ(test, 4, submit_many(rig, 0));
	for (i = 0; i < IDLERS; i++)
		add_idle(test, rig, &idle[i], 0);
	end_many(test, rig, 0, 4);
	KUNIT_EXPECT_EQ(test, 3, submit_many(rig, 0));
	/* other files are not affected */
	KUNIT_EXPECT_EQ(test, DEPTH - 1 - 3, submit_many(rig, 1));
	for (i = 0; i < IDLERS; i++)
		remove_idle(rig, &idle[i]);
	end_many(test, rig, 0, 3);
	end_many(test, rig, 1, DEPTH - 1 - 3);
	free_rig(test, rig);
}

/*
 * Check that the last tag, and the last place of a file, is for any command
 * that waits: the first one may never run.
 */
static void first_waiter_never_runs(struct kunit *test)
{
	struct rig *rig = new_rig(test);
	struct idle *idle = rig->idle;

	KUNIT_EXPECT_EQ(test, DEPTH - 1, submit_many(rig, 0));
	add_idle(test, rig, &idle[0], 0);
	add_idle(test, rig, &idle[1], 1);
	end_one(test, rig, 0);
	expect_no_overtaking(test, rig, 0);
	/* nor does a new command that may wait */
	add_idle(test, rig, &idle[2], 0);
	KUNIT_EXPECT_TRUE(test, run_idle(rig, &idle[1]));
	remove_idle(rig, &idle[0]);
	remove_idle(rig, &idle[1]);
	remove_idle(rig, &idle[2]);
	end_all(test, rig);

	KUNIT_EXPECT_EQ(test, 0, raise(rig, 0, 2));
	KUNIT_EXPECT_EQ(test, 2, submit_many(rig, 0));
	add_idle(test, rig, &idle[0], 0);
	add_idle(test, rig, &idle[1], 0);
	end_one(test, rig, 0);
	expect_no_overtaking(test, rig, 0);
	KUNIT_EXPECT_TRUE(test, run_idle(rig, &idle[1]));
	remove_idle(rig, &idle[0]);
	remove_idle(rig, &idle[1]);
	end_many(test, rig, 0, flying(rig, 0));
	free_rig(test, rig);
}

static unsigned int visits;
static wait_queue_func_t visited;

static int count_visit(wait_queue_entry_t *wait, unsigned int mode, int flags,
		       void *key)
{
	visits++;
	return visited(wait, mode, flags, key);
}

/*
 * Check that a completion visits one waiter, however many wait and whatever
 * their tasks do. The interrupt handler does this with a lock held.
 */
static void completion_visits_one_waiter(struct kunit *test)
{
	struct rig *rig = new_rig(test);
	struct idle *idle = rig->idle;
	unsigned int i;

	KUNIT_EXPECT_EQ(test, DEPTH - 1, submit_many(rig, 0));
	for (i = 0; i < IDLERS; i++) {
		/* the task does not sleep, like one that was woken before */
		add_idle(test, rig, &idle[i], 0);
		visited = idle[i].waiter.wait.func;
		idle[i].waiter.wait.func = count_visit;
	}
	visits = 0;
	for (i = 1; i < DEPTH; i++) {
		end_one(test, rig, 0);
		KUNIT_EXPECT_EQ(test, i, visits);
	}
	/* a waiter that finds no tag waits again, and can be woken again */
	KUNIT_EXPECT_EQ(test, DEPTH - 2, submit_many(rig, 1));
	KUNIT_EXPECT_TRUE(test, run_idle(rig, &idle[0]));
	KUNIT_EXPECT_FALSE(test, run_idle(rig, &idle[1]));
	KUNIT_EXPECT_FALSE(test, is_woken(&idle[1]));
	for (i = 0; i < IDLERS; i += DEPTH - 1)
		nvme_uq_wake_all(&rig->uq);
	KUNIT_EXPECT_TRUE(test, is_woken(&idle[1]));
	for (i = 0; i < IDLERS; i++)
		remove_idle(rig, &idle[i]);
	end_all(test, rig);
	free_rig(test, rig);
}

/*
 * Check that who waits for commands in flight rings their doorbell: the task
 * that deferred it may not run.
 */
static void deferred_doorbell_is_rung(struct kunit *test)
{
	struct rig *rig = new_rig(test);
	struct idle *idle = rig->idle;

	KUNIT_EXPECT_EQ(test, DEPTH - 1, submit_many(rig, 0));
	KUNIT_EXPECT_EQ(test, 0, rig->rung);
	add_idle(test, rig, idle, 1);
	KUNIT_EXPECT_EQ(test, 1, rig->rung);
	remove_idle(rig, idle);
	/* a freeze, or a command that changes formats */
	nvme_uq_block(&rig->uq, NVME_UQ_HELD);
	KUNIT_EXPECT_EQ(test, 2, rig->rung);
	nvme_uq_unblock(&rig->uq, NVME_UQ_HELD);
	end_many(test, rig, 0, DEPTH - 1);
	free_rig(test, rig);
}

/*
 * Check that commands fail only while another file owns the queue. Without a
 * lock, members may be seen that are from before and after a claim.
 */
static void busy_only_with_an_owner(struct kunit *test)
{
	struct rig *rig = new_rig(test);
	struct nvme_uq *uq = &rig->uq;
	struct nvme_uq_file *uf = &rig->file[0];

	uq->blocked = NVME_UQ_CLAIMED;
	KUNIT_EXPECT_EQ(test, -EAGAIN,
			nvme_uq_submit_errno(uq, uf, &rig->node));
	uq->owner = uf;
	KUNIT_EXPECT_EQ(test, -EAGAIN,
			nvme_uq_submit_errno(uq, uf, &rig->node));
	uq->owner = &rig->file[1];
	KUNIT_EXPECT_EQ(test, -EBUSY,
			nvme_uq_submit_errno(uq, uf, &rig->node));
	free_rig(test, rig);
}

/* Check that a raised limit admits as many commands as possible. */
static void limit_raised(struct kunit *test)
{
	struct rig *rig = new_rig(test);
	unsigned int i;

	KUNIT_EXPECT_EQ(test, 0, raise(rig, 0, 1));
	KUNIT_EXPECT_TRUE(test, submit(rig, 0));
	for (i = 0; i < WAITERS; i++)
		start_waiter(test, rig, i, 0);
	KUNIT_EXPECT_EQ(test, 0, raise(rig, 0, 4));
	wait_went(rig, 3);
	KUNIT_EXPECT_EQ(test, 4, flying(rig, 0));
	KUNIT_EXPECT_EQ(test, 0, raise(rig, 0, DEPTH - 1));
	wait_went(rig, WAITERS);
	end_waiters(rig, WAITERS);
	end_many(test, rig, 0, WAITERS + 1);
	free_rig(test, rig);
}

/*
 * Check that a wakeup of a command that fails goes to the next command of its
 * file.
 */
static void leave_is_given_back(struct kunit *test)
{
	struct rig *rig = new_rig(test);

	KUNIT_EXPECT_EQ(test, 0, raise(rig, 0, 1));
	KUNIT_EXPECT_TRUE(test, submit(rig, 0));
	start_waiter(test, rig, 0, 0);
	start_waiter(test, rig, 1, 0);

	remove_ns(rig, 0);
	wait_went(rig, 1);
	KUNIT_EXPECT_EQ(test, -ENXIO, rig->waiter[0].ret);
	end_one(test, rig, 0);
	wait_went(rig, 2);
	KUNIT_EXPECT_EQ(test, -EIOCBQUEUED, rig->waiter[1].ret);
	KUNIT_EXPECT_EQ(test, 1, flying(rig, 0));
	end_waiters(rig, 2);
	end_one(test, rig, 0);
	free_rig(test, rig);
}

/*
 * Check that commands of a removed namespace stop waiting for a limit or a tag.
 */
static void waiters_of_a_namespace(struct kunit *test)
{
	struct rig *rig = new_rig(test);

	KUNIT_EXPECT_EQ(test, 0, raise(rig, 0, 1));
	KUNIT_EXPECT_TRUE(test, submit(rig, 0));
	KUNIT_EXPECT_EQ(test, DEPTH - 2, submit_many(rig, 1));
	start_waiter(test, rig, 0, 1);
	start_waiter(test, rig, 1, 0);
	/* this command waits for the limit of its file */
	remove_ns(rig, 1);
	wait_went(rig, 1);
	KUNIT_EXPECT_EQ(test, 1, rig->went[0]);
	KUNIT_EXPECT_EQ(test, -ENXIO, rig->waiter[1].ret);
	KUNIT_EXPECT_EQ(test, 1, rig->uq.waiting);
	/* this command waits for a tag */
	remove_ns(rig, 0);
	wait_went(rig, 2);
	KUNIT_EXPECT_EQ(test, -ENXIO, rig->waiter[0].ret);
	end_waiters(rig, 2);
	end_one(test, rig, 0);
	end_many(test, rig, 1, DEPTH - 2);
	free_rig(test, rig);
}

/* A waiter that counts its wakeups, in total and with sq_lock held. */
struct counter {
	wait_queue_entry_t	wait;
	struct nvme_uq		*uq;
	unsigned int		*woken, *locked;
};

static int count_wakes(wait_queue_entry_t *wait, unsigned int mode, int flags,
		       void *key)
{
	struct counter *c = container_of(wait, struct counter, wait);

	++*c->woken;
	/* negative if lockdep has turned itself off */
	if (IS_ENABLED(CONFIG_LOCKDEP) && lockdep_is_held(&c->uq->sq_lock) > 0)
		++*c->locked;
	return 1;
}

/* Let @nr waiters of @waitq count when they are woken. */
static void count_waiters(struct nvme_uq *uq, wait_queue_head_t *waitq,
			  struct counter *counters, unsigned int nr,
			  unsigned int *woken, unsigned int *locked)
{
	struct counter *c;

	for (c = counters; c < counters + nr; c++) {
		c->uq = uq;
		c->woken = woken;
		c->locked = locked;
		init_waitqueue_func_entry(&c->wait, count_wakes);
		add_wait_queue_exclusive(waitq, &c->wait);
	}
}

static void count_no_more(wait_queue_head_t *waitq, struct counter *counters,
			  unsigned int nr)
{
	while (nr--)
		remove_wait_queue(waitq, &counters[nr].wait);
}

/*
 * Check that a tenant with many waiters can change its limit without cost for
 * others. Only as many waiters as the limit admits are woken, and none under
 * sq_lock.
 */
static void limit_wakes_as_many_as_it_lets_go(struct kunit *test)
{
	struct rig *rig = new_rig(test);
	struct nvme_uq_file *uf = &rig->file[0];
	struct counter counters[4 * WAITERS];
	unsigned int woken = 0, locked = 0;

	count_waiters(&rig->uq, &uf->waitq, counters, ARRAY_SIZE(counters),
		      &woken, &locked);
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_request_limit(uf, 1, true));
	KUNIT_EXPECT_EQ(test, 1, woken);
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_request_limit(uf, 3, true));
	KUNIT_EXPECT_EQ(test, 4, woken);
	/* without a limit, no completion would wake them */
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_request_limit(uf, DEPTH - 1, true));
	KUNIT_EXPECT_EQ(test, 4 + ARRAY_SIZE(counters), woken);
	/* the limit that the queue has for each file applies too */
	WRITE_ONCE(rig->uq.file_limit, 2);
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_request_limit(uf, DEPTH - 1, true));
	KUNIT_EXPECT_EQ(test, 6 + ARRAY_SIZE(counters), woken);
	KUNIT_EXPECT_EQ(test, 0, locked);
	count_no_more(&uf->waitq, counters, ARRAY_SIZE(counters));
	free_rig(test, rig);
}

/*
 * Check that a change of a queue visits no file. The waiters of a file could be
 * as many as its users like, and the files too.
 */
static void change_visits_no_file(struct kunit *test)
{
	struct rig *rig = new_rig(test);
	struct nvme_uq *uq = &rig->uq;
	unsigned int woken = 0, locked = 0;
	struct counter counter;

	count_waiters(uq, &rig->file[0].waitq, &counter, 1, &woken, &locked);
	nvme_uq_wake_all(uq);
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_set_limit(uq, &uq->limit, 5));
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_set_limit(uq, &uq->file_limit, 2));
	KUNIT_EXPECT_EQ(test, 0, woken);
	count_no_more(&rig->file[0].waitq, &counter, 1);

	count_waiters(uq, &uq->waitq, &counter, 1, &woken, &locked);
	nvme_uq_wake_all(uq);
	KUNIT_EXPECT_EQ(test, 1, woken);
	count_no_more(&uq->waitq, &counter, 1);
	nvme_uq_tags_free(&uq->tags);
}

/*
 * Check that a change of a queue wakes no more waiters than could go, and none
 * under sq_lock. A user may have any number of waiters, and completions wait for
 * the lock of the wait queue with interrupts disabled.
 */
static void change_wakes_as_many_as_could_go(struct kunit *test)
{
	struct rig *rig = new_rig(test);
	struct nvme_uq *uq = &rig->uq;
	struct counter counters[2 * DEPTH];
	unsigned int woken = 0, locked = 0;

	count_waiters(uq, &uq->waitq, counters, ARRAY_SIZE(counters), &woken,
		      &locked);
	nvme_uq_wake_all(uq);
	KUNIT_EXPECT_EQ(test, DEPTH - 1, woken);
	KUNIT_EXPECT_EQ(test, 0, nvme_uq_set_limit(uq, &uq->limit, 5));
	KUNIT_EXPECT_EQ(test, 2 * (DEPTH - 1), woken);
	KUNIT_EXPECT_EQ(test, 0, locked);
	count_no_more(&uq->waitq, counters, ARRAY_SIZE(counters));
	nvme_uq_tags_free(&uq->tags);
}

static struct kunit_case nvme_uq_limit_cases[] = {
	KUNIT_CASE(limit_of_a_file),
	KUNIT_CASE(limit_of_a_queue),
	KUNIT_CASE(limit_refused),
	KUNIT_CASE(limit_while_in_flight),
	KUNIT_CASE(limit_of_each_file),
	KUNIT_CASE(limit_is_lowered_only),
	KUNIT_CASE(count_wraps),
	KUNIT_CASE(look_first),
	KUNIT_CASE(order_for_a_slot),
	KUNIT_CASE(order_for_a_limit),
	KUNIT_CASE(limit_of_one),
	KUNIT_CASE(waiters_that_do_not_run),
	KUNIT_CASE(first_waiter_never_runs),
	KUNIT_CASE(completion_visits_one_waiter),
	KUNIT_CASE(deferred_doorbell_is_rung),
	KUNIT_CASE(busy_only_with_an_owner),
	KUNIT_CASE(limit_raised),
	KUNIT_CASE(limit_wakes_as_many_as_it_lets_go),
	KUNIT_CASE(leave_is_given_back),
	KUNIT_CASE(waiters_of_a_namespace),
	KUNIT_CASE(change_visits_no_file),
	KUNIT_CASE(change_wakes_as_many_as_could_go),
	{ }
};

static struct kunit_suite nvme_uq_limit_suite = {
	.name		= "nvme_uq_limit",
	.test_cases	= nvme_uq_limit_cases,
};

kunit_test_suites(&nvme_uq_limit_suite);

MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");
MODULE_DESCRIPTION("KUnit tests of limits of NVMe user queues");
MODULE_LICENSE("GPL");
