/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For fixtures: two tenants of one user queue, that something happens to while
 * they keep it busy.
 */
#ifndef SELFTESTS_UQ_TENANTS_H
#define SELFTESTS_UQ_TENANTS_H

#include "uq_fixture.h"
#include "uq_load.h"

struct tenants {
	struct uq_node *node;
	bool plain;		/* their rings do not poll */
	long long spurious;	/* before; other tests make some on purpose */
	unsigned char *buf;
	struct load l[2];
	pthread_t t[2];
};

static bool get_tenants(struct tenants *all, struct uq_node *node)
{
	all->node = node;
	all->spurious = uq_attr(node->name, "spurious");
	all->buf = uq_alloc(65536);
	return all->buf;
}

static void start_load(struct __test_metadata *_metadata, struct tenants *all,
		       unsigned int timeout_ms)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(all->l); i++) {
		all->l[i] = (struct load){
			.node		= all->node,
			.timeout_ms	= timeout_ms,
			.plain		= all->plain,
		};
		ASSERT_EQ(0, pthread_create(&all->t[i], NULL, run_load,
					    &all->l[i]));
	}
}

/* Once the tenants have nothing in flight. How many were interrupted? */
static unsigned long end_load(struct __test_metadata *_metadata,
			      struct tenants *all)
{
	unsigned long interrupted = 0;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(all->l); i++)
		all->l[i].stop = true;
	for (i = 0; i < ARRAY_SIZE(all->l); i++) {
		struct load *l = &all->l[i];

		ASSERT_EQ(0, pthread_join(all->t[i], NULL));
		TH_LOG("%lu sent, %lu interrupted, %lu with a status", l->sent,
		       l->interrupted, l->status);
		EXPECT_EQ(0, l->bad) TH_LOG("result %d", l->first_bad);
		EXPECT_EQ(l->sent, l->done);
		interrupted += l->interrupted;
	}
	return interrupted;
}

/* While there is load: until something is in flight. */
static void wait_busy(struct tenants *all)
{
	while (uq_attr(all->node->name, "in_flight") <= 0 &&
	       !all->l[0].bad && !all->l[1].bad)
		sched_yield();
}

static void expect_idle(struct __test_metadata *_metadata, struct tenants *all)
{
	const char *node = all->node->name;

	EXPECT_TRUE(uq_wait_idle(node));
	EXPECT_EQ(uq_attr(node, "submitted"), uq_attr(node, "completed"));
	EXPECT_EQ(all->spurious, uq_attr(node, "spurious"));
	EXPECT_EQ(0, uq_attr(node, "waiting"));
}

/* One block, through a node that is opened for it. */
static int read_once(struct tenants *all, __u32 len, unsigned int timeout_ms)
{
	int fd = open(all->node->path, O_RDONLY), ret;
	struct io_uring ring;

	if (fd < 0)
		return -errno;
	ret = uq_ring(&ring, 4, all->node->poll ? IORING_SETUP_IOPOLL : 0);
	if (!ret) {
		uq_prep_raw(&ring, fd, all->node->nsid, CMD_READ, 0, all->buf,
			    len, 1)->timeout_ms = timeout_ms;
		ret = uq_run(&ring);
		io_uring_queue_exit(&ring);
	}
	close(fd);
	return ret;
}

#endif /* SELFTESTS_UQ_TENANTS_H */
