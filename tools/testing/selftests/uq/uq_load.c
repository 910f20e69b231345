// SPDX-License-Identifier: GPL-2.0
/*
 * Load on a user queue; see uq_load.h.
 */
#define _GNU_SOURCE
#include <errno.h>

#include "uq_load.h"
#include "kselftest.h"

#define BATCH	64

void uq_load_count(struct uq_load *load, int res)
{
	if (res == -EINTR)
		load->interrupted++;
	else if (res > 0)
		load->status++;
	else if (res == -ENXIO || res == -ENODEV || res == -ESHUTDOWN)
		load->stop = true;
	else if (res && !load->bad++)
		load->first_bad = res;
}

/* One batch; false if it could not be sent. */
static bool send_batch(struct uq_load *load, struct io_uring *ring, int fd,
		       unsigned char *buf)
{
	int i, n;

	for (i = 0; i < BATCH; i++)
		uq_prep(ring, fd, load->node->nsid, CMD_READ,
			(load->sent + i) % 4096, buf + i * 4096,
			512)->timeout_ms = load->timeout_ms;
	n = io_uring_submit(ring);
	if (n != BATCH) {
		load->bad++;
		load->first_bad = n;
		return false;
	}
	load->sent += n;
	return true;
}

void *uq_load_run(void *arg)
{
	struct uq_load *load = arg;
	unsigned char *buf = uq_alloc(BATCH * 4096);
	int fd = open(load->node->path, O_RDONLY);
	struct io_uring ring;

	if (fd < 0 || !buf ||
	    uq_ring(&ring, BATCH, load->node->poll && !load->plain ?
		    IORING_SETUP_IOPOLL : 0)) {
		load->bad++;
		load->first_bad = -errno;
		return NULL;
	}
	while (!load->stop && send_batch(load, &ring, fd, buf)) {
		while (load->done < load->sent) {
			uq_load_count(load, uq_reap(&ring, NULL));
			load->done++;
		}
	}
	io_uring_queue_exit(&ring);
	close(fd);
	munmap(buf, BATCH * 4096);
	return NULL;
}

void uq_load_wait_busy(const struct uq_load *load)
{
	while (uq_attr(load->node->name, "in_flight") <= 0 && !load->bad)
		uq_rest();
}

bool uq_load_is_good(const struct uq_load *load)
{
	ksft_print_msg("%lu sent, %lu interrupted, %lu with a status\n",
		       load->sent, load->interrupted, load->status);
	if (load->bad)
		ksft_print_msg("%lu went wrong, the first with %d\n",
			       load->bad, load->first_bad);
	if (load->done != load->sent)
		ksft_print_msg("only %lu ended\n", load->done);
	return !load->bad && load->done == load->sent;
}

/* -- two tenants */

bool uq_tenants_init(struct uq_tenants *t, struct uq_node *node)
{
	memset(t, 0, sizeof(*t));
	t->node = node;
	t->spurious = uq_attr(node->name, "spurious");
	t->buf = uq_alloc(65536);
	return t->buf;
}

int uq_tenants_start(struct uq_tenants *t, unsigned int timeout_ms)
{
	unsigned int i;
	int ret = 0;

	for (i = 0; !ret && i < ARRAY_SIZE(t->load); i++) {
		t->load[i] = (struct uq_load){
			.node		= t->node,
			.timeout_ms	= timeout_ms,
			.plain		= t->plain,
		};
		ret = -pthread_create(&t->thread[i], NULL, uq_load_run,
				      &t->load[i]);
	}
	return ret;
}

void uq_tenants_wait_busy(const struct uq_tenants *t)
{
	/* a thread that is late might find no node to open */
	while ((!t->load[0].sent || !t->load[1].sent ||
		uq_attr(t->node->name, "in_flight") <= 0) &&
	       !t->load[0].bad && !t->load[1].bad)
		uq_rest();
}

void uq_tenants_stop(struct uq_tenants *t)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(t->load); i++)
		t->load[i].stop = true;
}

bool uq_tenants_end(struct uq_tenants *t)
{
	unsigned int i;
	bool good = true;

	uq_tenants_stop(t);
	t->interrupted = 0;
	for (i = 0; i < ARRAY_SIZE(t->load); i++) {
		if (pthread_join(t->thread[i], NULL))
			return false;
		good &= uq_load_is_good(&t->load[i]);
		t->interrupted += t->load[i].interrupted;
	}
	return good;
}

bool uq_tenants_idle(const struct uq_tenants *t)
{
	const char *node = t->node->name;
	bool good = uq_check_idle(node, t->spurious);

	if (!uq_attr(node, "waiting"))
		return good;
	ksft_print_msg("%s has commands that wait\n", node);
	return false;
}

int uq_tenants_read(const struct uq_tenants *t, __u32 len,
		    unsigned int timeout_ms)
{
	struct io_uring ring;
	int fd, ret;

	fd = uq_open_ring(t->node, O_RDONLY, &ring, 4);
	if (fd < 0)
		return fd;
	uq_prep_raw(&ring, fd, t->node->nsid, CMD_READ, 0, t->buf, len,
		    1)->timeout_ms = timeout_ms;
	ret = uq_run(&ring);
	io_uring_queue_exit(&ring);
	close(fd);
	return ret;
}

/* -- a ring whose completions are not reaped */

int uq_unreaped_start(struct uq_unreaped *u, const struct uq_node *node,
		      unsigned char *buf)
{
	unsigned int i;
	int ret;

	u->fd = uq_open_ring(node, O_RDONLY, &u->ring, UQ_UNREAPED);
	if (u->fd < 0)
		return u->fd;
	for (i = 0; i < UQ_UNREAPED; i++)
		uq_prep(&u->ring, u->fd, node->nsid, CMD_READ, i,
			buf + i * 4096, 512);
	ret = io_uring_submit(&u->ring);
	if (ret < 0)
		return ret;
	return ret == UQ_UNREAPED ? 0 : -EPROTO;
}

int uq_unreaped_end(struct uq_unreaped *u)
{
	unsigned int i;
	int ret, bad = 0;

	for (i = 0; i < UQ_UNREAPED; i++) {
		ret = uq_reap(&u->ring, NULL);
		if (ret && !bad)
			bad = ret;
	}
	io_uring_queue_exit(&u->ring);
	close(u->fd);
	return bad;
}
