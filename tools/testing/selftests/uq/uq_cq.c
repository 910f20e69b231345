// SPDX-License-Identifier: GPL-2.0
/*
 * The client library, uq_cq.h, on memory that looks like a completion queue. No
 * device and no kernel with user queues is required: functions in this file
 * emulate device and kernel.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "kselftest_harness.h"
#include "uq_cq.h"

/* As in uq_fixture.h: for tests that hang, not for slow tests. */
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT	1800

#define MAX_ENTRIES	512

/* A queue, as device and kernel see it. */
struct fake {
	struct nvme_uq_info	*info;
	struct nvme_uq_cqe	*cqe;
	unsigned int		tail;		/* the device's */
	bool			tail_phase;
};

/* Put entries at the end of a mapping, before an inaccessible page. */
static void *guarded(size_t len)
{
	size_t page = sysconf(_SC_PAGESIZE), room = (len + page - 1) & -page;
	char *p = mmap(NULL, room + page, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || mprotect(p + room, page, PROT_NONE))
		return NULL;
	return p + room - len;
}

static __u32 head_word(unsigned int index, bool phase)
{
	return index | (phase ? NVME_UQ_HEAD_PHASE : 0);
}

static void set(__u32 *word, __u32 val)
{
	__atomic_store_n(word, val, __ATOMIC_RELEASE);
}

/* A reset creates an empty queue with a new generation. */
static void fake_create(struct fake *f, unsigned int entries)
{
	memset(f->cqe, 0, entries * sizeof(*f->cqe));
	f->tail = 0;
	f->tail_phase = true;
	set(&f->info->entries, entries);
	set(&f->info->head, head_word(0, true));
	set(&f->info->submitted, 0);
	set(&f->info->completed, 0);
	set(&f->info->generation, f->info->generation + 1);
	set(&f->info->state, NVME_UQ_STATE_LIVE);
}

/* First step of a reset. */
static void fake_down(struct fake *f, __u32 state)
{
	set(&f->info->state, state);
	set(&f->info->head, NVME_UQ_HEAD_NONE);
}

static bool fake_init(struct fake *f, unsigned int entries)
{
	memset(f, 0, sizeof(*f));
	f->info = guarded(sizeof(*f->info));
	f->cqe = guarded(entries * sizeof(*f->cqe));
	if (!f->info || !f->cqe)
		return false;
	f->info->version = NVME_UQ_INFO_V1;
	f->info->size = sizeof(*f->info);
	f->info->entry_size = sizeof(*f->cqe);
	fake_create(f, entries);
	return true;
}

static void fake_submit(struct fake *f, unsigned int n)
{
	set(&f->info->submitted, f->info->submitted + n);
}

/* The device completes a command and writes the phase last. */
static void fake_post(struct fake *f)
{
	struct nvme_uq_cqe *cqe = &f->cqe[f->tail];

	cqe->result = ~0ull;
	cqe->command_id = ~0;
	/* bit 0 of the first byte on any machine, and another bit */
	__atomic_store_n((__u8 *)&cqe->status, 0x80 | f->tail_phase,
			 __ATOMIC_RELEASE);
	if (++f->tail == f->info->entries) {
		f->tail = 0;
		f->tail_phase = !f->tail_phase;
	}
}

/* The kernel reaps up to @max completions; return their number. */
static unsigned int fake_reap(struct fake *f, unsigned int max)
{
	unsigned int at = uq_cq_index(f->info->head), n = 0;
	bool phase = uq_cq_phase(f->info->head);

	while (n < max && uq_cq_written(&f->cqe[at], phase)) {
		if (++at == f->info->entries) {
			at = 0;
			phase = !phase;
		}
		n++;
	}
	set(&f->info->completed, f->info->completed + n);
	set(&f->info->head, head_word(at, phase));
	return n;
}

FIXTURE(cq)
{
	struct fake f;
	struct uq_cq cq;
	unsigned int entries;
};

FIXTURE_VARIANT(cq)
{
	unsigned int entries;
};

/* clang-format off */
FIXTURE_VARIANT_ADD(cq, two) { .entries = 2 };
FIXTURE_VARIANT_ADD(cq, odd) { .entries = 7 };
FIXTURE_VARIANT_ADD(cq, page) { .entries = 256 };
FIXTURE_VARIANT_ADD(cq, more) { .entries = MAX_ENTRIES };
/* clang-format on */

FIXTURE_SETUP(cq)
{
	self->entries = variant->entries;
	ASSERT_TRUE(fake_init(&self->f, self->entries));
	uq_cq_init(&self->cq, self->f.info, self->f.cqe, self->entries);
}

FIXTURE_TEARDOWN(cq)
{
}

TEST_F(cq, nothing_yet)
{
	fake_submit(&self->f, 1);
	EXPECT_EQ(UQ_CQ_NONE, uq_cq_look(&self->cq));
	EXPECT_FALSE(uq_cq_pending(&self->cq));
	EXPECT_EQ(0, uq_cq_count(&self->cq, ~0u));
}

/* One command at a time, several times around the queue. */
TEST_F(cq, one_by_one)
{
	unsigned int i;

	for (i = 0; i < 5 * self->entries; i++) {
		fake_submit(&self->f, 1);
		ASSERT_EQ(UQ_CQ_NONE, uq_cq_look(&self->cq)) TH_LOG("%u", i);
		fake_post(&self->f);
		ASSERT_EQ(UQ_CQ_READY, uq_cq_look(&self->cq)) TH_LOG("%u", i);
		ASSERT_EQ(1, uq_cq_count(&self->cq, ~0u)) TH_LOG("%u", i);
		ASSERT_EQ(1, fake_reap(&self->f, ~0u));
	}
}

/* Each possible number of completions, at each position in the queue. */
TEST_F(cq, count)
{
	unsigned int n, i, k, full = self->entries - 1;

	for (i = 0; i < 3 * self->entries; i++) {
		n = i % full + 1;
		fake_submit(&self->f, full);
		for (k = 0; k < n; k++) {
			ASSERT_EQ(k, uq_cq_count(&self->cq, ~0u));
			fake_post(&self->f);
		}
		ASSERT_EQ(n, uq_cq_count(&self->cq, ~0u)) TH_LOG("%u", i);
		ASSERT_EQ(n < 3 ? n : 3, uq_cq_count(&self->cq, 3));
		for (; k < full; k++)
			fake_post(&self->f);
		ASSERT_EQ(full, uq_cq_count(&self->cq, ~0u));
		ASSERT_EQ(full, fake_reap(&self->f, ~0u));
		ASSERT_EQ(0, uq_cq_count(&self->cq, ~0u));
	}
}

/* The kernel may reap some of the completions; the others remain. */
TEST_F(cq, reaped_in_part)
{
	unsigned int part = self->entries < 4 ? self->entries - 1 : 3;
	unsigned int i, left;

	for (i = 0; i < 3 * self->entries; i++) {
		fake_submit(&self->f, part);
		for (left = 0; left < part; left++)
			fake_post(&self->f);
		for (left = part; left; left--) {
			ASSERT_EQ(left, uq_cq_count(&self->cq, ~0u));
			ASSERT_EQ(1, fake_reap(&self->f, 1));
		}
		ASSERT_FALSE(uq_cq_pending(&self->cq));
	}
}

/*
 * A claim clears entries except for their phase: no completion is found in
 * them.
 */
TEST_F(cq, scrubbed_at_every_place)
{
	unsigned int i, k;

	for (i = 0; i < 2 * self->entries; i++) {
		for (k = 0; k < self->entries; k++) {
			__u8 *status = (__u8 *)&self->f.cqe[k].status;
			__u8 phase = *status & 1;

			memset(&self->f.cqe[k], 0, sizeof(*self->f.cqe));
			*status = phase;
		}
		fake_submit(&self->f, 1);
		ASSERT_EQ(UQ_CQ_NONE, uq_cq_look(&self->cq)) TH_LOG("%u", i);
		fake_post(&self->f);
		ASSERT_EQ(UQ_CQ_READY, uq_cq_look(&self->cq)) TH_LOG("%u", i);
		ASSERT_EQ(1, fake_reap(&self->f, ~0u));
	}
}

/* Another task has reaped: the CQEs are in the ring, and no more will come. */
TEST_F(cq, nothing_in_flight)
{
	fake_submit(&self->f, 1);
	fake_post(&self->f);
	fake_reap(&self->f, ~0u);
	EXPECT_EQ(UQ_CQ_IDLE, uq_cq_look(&self->cq));

	/* the counters wrap */
	set(&self->f.info->submitted, 0);
	set(&self->f.info->completed, ~0u);
	EXPECT_EQ(UQ_CQ_NONE, uq_cq_look(&self->cq));
	set(&self->f.info->completed, 0);
	EXPECT_EQ(UQ_CQ_IDLE, uq_cq_look(&self->cq));
}

TEST_F(cq, goes_down_and_comes_back)
{
	fake_submit(&self->f, 1);
	fake_down(&self->f, NVME_UQ_STATE_DOWN);
	EXPECT_EQ(UQ_CQ_DOWN, uq_cq_look(&self->cq));
	fake_create(&self->f, self->entries);
	fake_submit(&self->f, 1);
	EXPECT_EQ(UQ_CQ_NEW, uq_cq_look(&self->cq));
	EXPECT_EQ(UQ_CQ_NONE, uq_cq_look(&self->cq));
	fake_post(&self->f);
	EXPECT_EQ(UQ_CQ_READY, uq_cq_look(&self->cq));
}

/* A reset that begins and ends between two looks is noticed. */
TEST_F(cq, reset_behind_the_back)
{
	fake_submit(&self->f, 1);
	fake_post(&self->f);
	fake_create(&self->f, self->entries);
	/* other functions may be called before uq_cq_look() */
	EXPECT_FALSE(uq_cq_pending(&self->cq));
	EXPECT_EQ(0, uq_cq_count(&self->cq, ~0u));
	EXPECT_EQ(UQ_CQ_NEW, uq_cq_look(&self->cq));
	EXPECT_EQ(UQ_CQ_IDLE, uq_cq_look(&self->cq));
}

/* The entries of a removed queue are not read, as they may be unmapped. */
TEST_F(cq, gone)
{
	fake_down(&self->f, NVME_UQ_STATE_GONE);
	self->cq.cqe = NULL;
	EXPECT_EQ(UQ_CQ_GONE, uq_cq_look(&self->cq));
	EXPECT_EQ(0, uq_cq_count(&self->cq, ~0u));
}

/* The queue has become larger than its mapping. */
TEST_F(cq, larger_than_the_mapping)
{
	struct fake big;
	unsigned int i;

	ASSERT_TRUE(fake_init(&big, 2 * self->entries));
	uq_cq_init(&self->cq, big.info, self->f.cqe, self->entries);
	for (i = 0; i < self->entries; i++) {
		fake_submit(&big, 1);
		fake_post(&big);
		EXPECT_EQ(1, fake_reap(&big, ~0u));
	}
	EXPECT_EQ(UQ_CQ_REMAP, uq_cq_look(&self->cq));
	EXPECT_EQ(0, uq_cq_count(&self->cq, ~0u));
}

/* -- for any content of the pages, only the mapping is accessed */

struct noise {
	struct fake	*f;
	atomic_bool	stop;
};

static __u32 next_random(__u32 *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

/* Write random values, some of them nearly valid. */
static void scribble(struct fake *f, __u32 *seed)
{
	__u32 *word = (__u32 *)f->info, r = next_random(seed);
	unsigned int n = r % (sizeof(*f->info) / sizeof(*word));

	set(&word[n], r & 0x100 ? next_random(seed) : next_random(seed) % 1024);
	set(&f->info->state, r & 0x600 ? NVME_UQ_STATE_LIVE : next_random(seed));
	if (r & 0x800)
		set(&f->info->head, head_word(next_random(seed) % 1024,
					      r & 0x1000));
	memset(&f->cqe[next_random(seed) % 2], r, sizeof(*f->cqe));
}

TEST_F(cq, any_content)
{
	__u32 seed = 1;
	unsigned int i;

	for (i = 0; i < 50000; i++) {
		scribble(&self->f, &seed);
		ASSERT_GE(UQ_CQ_GONE, uq_cq_look(&self->cq));
		ASSERT_GE(self->entries, uq_cq_count(&self->cq, ~0u));
	}
}

static void *make_noise(void *arg)
{
	struct noise *noise = arg;
	__u32 seed = 2;

	while (!noise->stop)
		scribble(noise->f, &seed);
	return NULL;
}

/* Same while the content changes between two reads. */
TEST_F(cq, content_that_changes)
{
	struct noise noise = { .f = &self->f };
	unsigned int i;
	pthread_t t;

	ASSERT_EQ(0, pthread_create(&t, NULL, make_noise, &noise));
	for (i = 0; i < 50000; i++) {
		ASSERT_GE(UQ_CQ_GONE, uq_cq_look(&self->cq));
		ASSERT_GE(self->entries, uq_cq_count(&self->cq, ~0u));
	}
	noise.stop = true;
	ASSERT_EQ(0, pthread_join(t, NULL));
}

/* -- device and client at the same time */

struct device {
	struct fake	*f;
	unsigned int	total;
};

/* Complete submitted commands at once. */
static void *be_device(void *arg)
{
	struct device *d = arg;
	unsigned int done = 0;

	while (done < d->total) {
		if (__atomic_load_n(&d->f->info->submitted,
				    __ATOMIC_ACQUIRE) == done) {
			sched_yield();
			continue;
		}
		fake_post(d->f);
		done++;
	}
	return NULL;
}

/*
 * A client that enters the kernel only for UQ_CQ_READY misses no completion,
 * and finds at least one each time.
 */
TEST_F(cq, none_missed_and_none_for_nothing)
{
	struct device d = { .f = &self->f, .total = 5000 };
	unsigned int sent = 0, done = 0, empty = 0;
	unsigned int most = self->entries - 1;
	pthread_t t;

	ASSERT_EQ(0, pthread_create(&t, NULL, be_device, &d));
	while (done < d.total) {
		unsigned int room = most - (sent - done), n;

		if (room > d.total - sent)
			room = d.total - sent;
		fake_submit(&self->f, room);
		sent += room;
		while (!uq_cq_look(&self->cq))
			sched_yield();
		ASSERT_EQ(UQ_CQ_READY, uq_cq_look(&self->cq));
		n = fake_reap(&self->f, ~0u);
		empty += !n;
		done += n;
	}
	ASSERT_EQ(0, pthread_join(t, NULL));
	EXPECT_EQ(0, empty);
	EXPECT_EQ(UQ_CQ_IDLE, uq_cq_look(&self->cq));
}

struct resetter {
	struct fake	*f;
	atomic_bool	stop;
	unsigned int	entries[2];
};

static void *keep_resetting(void *arg)
{
	struct resetter *r = arg;
	unsigned int i, k;

	for (i = 0; !r->stop; i++) {
		fake_down(r->f, NVME_UQ_STATE_DOWN);
		fake_create(r->f, r->entries[i % 2]);
		/* with commands in flight, and with different heads */
		fake_submit(r->f, ~0u / 2);
		for (k = 0; k < i % 37; k++) {
			fake_post(r->f);
			fake_reap(r->f, ~0u);
		}
	}
	return NULL;
}

/*
 * Create queues of different sizes, one after the other. If uq_cq_look()
 * returns UQ_CQ_NONE, it has checked the queue that was current when it was
 * called.
 */
TEST_F(cq, resets_meanwhile)
{
	struct resetter r = {
		.f = &self->f,
		.entries = { self->entries, self->entries / 2 + 1 },
	};
	unsigned int i, seen[UQ_CQ_GONE + 1] = { 0 };
	pthread_t t;

	ASSERT_EQ(0, pthread_create(&t, NULL, keep_resetting, &r));
	for (i = 0; i < 50000 || !seen[UQ_CQ_NEW]; i++) {
		__u32 before = __atomic_load_n(&self->f.info->generation,
					       __ATOMIC_ACQUIRE);
		enum uq_cq_seen saw = uq_cq_look(&self->cq);

		seen[saw]++;
		/* it has noticed the generation that was current */
		if (saw == UQ_CQ_NONE)
			ASSERT_LE(0, (int)(self->cq.generation - before));
	}
	r.stop = true;
	ASSERT_EQ(0, pthread_join(t, NULL));
	EXPECT_EQ(0, seen[UQ_CQ_GONE]);
	EXPECT_EQ(0, seen[UQ_CQ_REMAP]);
}

/* -- the entries are unmapped */

struct loose {
	struct fake	f;
	struct uq_cq	cq;
	int		fd;
	size_t		page;
};

/* Entries in a file that can be truncated, which raises SIGBUS, too. */
static bool loose_init(struct loose *l)
{
	void *p;

	l->page = sysconf(_SC_PAGESIZE);
	l->fd = memfd_create("uq_cq", 0);
	if (l->fd < 0 || ftruncate(l->fd, l->page))
		return false;
	p = mmap(NULL, l->page, PROT_READ | PROT_WRITE, MAP_SHARED, l->fd, 0);
	if (p == MAP_FAILED)
		return false;
	l->f.info = guarded(sizeof(*l->f.info));
	l->f.cqe = p;
	fake_create(&l->f, 64);
	uq_cq_init(&l->cq, l->f.info, l->f.cqe, 64);
	l->cq.len = l->page;
	return true;
}

TEST(taken_away)
{
	struct loose l = { 0 };

	ASSERT_TRUE(loose_init(&l));
	ASSERT_EQ(0, uq_cq_survive(&l.cq));
	fake_submit(&l.f, 2);
	fake_post(&l.f);
	EXPECT_EQ(UQ_CQ_READY, uq_cq_look(&l.cq));
	EXPECT_EQ(1, fake_reap(&l.f, 1));
	EXPECT_EQ(UQ_CQ_NONE, uq_cq_look(&l.cq));
	ASSERT_EQ(0, ftruncate(l.fd, 0));
	uq_cq_look(&l.cq);
	EXPECT_EQ(UQ_CQ_REMAP, uq_cq_look(&l.cq));
	EXPECT_EQ(UQ_CQ_REMAP, uq_cq_look(&l.cq));
	uq_cq_forget(&l.cq);
	uq_cq_unmap(&l.cq);
	EXPECT_EQ(0, l.cq.len);
}

TEST_SIGNAL(taken_away_without_survive, SIGBUS)
{
	struct loose l = { 0 };

	ASSERT_TRUE(loose_init(&l));
	fake_submit(&l.f, 1);
	ASSERT_EQ(0, ftruncate(l.fd, 0));
	uq_cq_look(&l.cq);
}

/* A SIGBUS of another mapping ends the program. */
TEST_SIGNAL(taken_away_elsewhere, SIGBUS)
{
	struct loose mine = { 0 }, other = { 0 };

	ASSERT_TRUE(loose_init(&mine));
	ASSERT_TRUE(loose_init(&other));
	ASSERT_EQ(0, uq_cq_survive(&mine.cq));
	fake_submit(&other.f, 1);
	ASSERT_EQ(0, ftruncate(other.fd, 0));
	uq_cq_look(&other.cq);
}

/* -- the layout is ABI */

TEST(layout)
{
	EXPECT_EQ(16, sizeof(struct nvme_uq_cqe));
	EXPECT_EQ(14, offsetof(struct nvme_uq_cqe, status));
	EXPECT_EQ(40, sizeof(struct nvme_uq_info));
	EXPECT_EQ(0, offsetof(struct nvme_uq_info, version));
	EXPECT_EQ(16, offsetof(struct nvme_uq_info, generation));
	EXPECT_EQ(20, offsetof(struct nvme_uq_info, state));
	EXPECT_EQ(24, offsetof(struct nvme_uq_info, head));
	EXPECT_EQ(36, offsetof(struct nvme_uq_info, limit));
}

TEST_HARNESS_MAIN
