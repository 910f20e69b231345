// SPDX-License-Identifier: GPL-2.0
/*
 * The ways to read a file from a program.
 *
 * The io_uring and aio code does not use their libraries. Code for a single
 * request is short, and the tests then build everywhere.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dax_util.h"

static ssize_t ret_or_errno(ssize_t ret)
{
	return ret < 0 ? -errno : ret;
}

/* -- system calls that read into memory */

static ssize_t method_pread(struct dax_reader *rd, void *buf, size_t len,
			    loff_t pos)
{
	return ret_or_errno(pread(rd->fd, buf, len, pos));
}

/* Checks that read(2) moves the file position by the bytes read. */
static ssize_t method_read(struct dax_reader *rd, void *buf, size_t len,
			   loff_t pos)
{
	ssize_t ret;

	if (lseek(rd->fd, pos, SEEK_SET) != pos)
		return -errno;
	ret = ret_or_errno(read(rd->fd, buf, len));
	if (lseek(rd->fd, 0, SEEK_CUR) != pos + (ret > 0 ? ret : 0))
		return -ESPIPE;
	return ret;
}

static ssize_t method_preadv(struct dax_reader *rd, void *buf, size_t len,
			     loff_t pos)
{
	struct iovec iov = { buf, len };

	return ret_or_errno(preadv(rd->fd, &iov, 1, pos));
}

static ssize_t method_preadv3(struct dax_reader *rd, void *buf, size_t len,
			      loff_t pos)
{
	size_t a = len / 3, b = len / 2;
	struct iovec iov[] = {
		{ buf, a },
		{ buf + a, b },
		{ buf + a + b, len - a - b },
	};

	return ret_or_errno(preadv(rd->fd, iov, 3, pos));
}

static ssize_t method_preadv2(struct dax_reader *rd, void *buf, size_t len,
			      loff_t pos)
{
	struct iovec iov = { buf, len };

	return ret_or_errno(preadv2(rd->fd, &iov, 1, pos, 0));
}

/* RWF_NOWAIT may fail at any time: fall back to a read that may wait. */
static ssize_t method_nowait(struct dax_reader *rd, void *buf, size_t len,
			     loff_t pos)
{
	struct iovec iov = { buf, len };
	ssize_t ret;

	ret = ret_or_errno(preadv2(rd->fd, &iov, 1, pos, RWF_NOWAIT));
	return ret == -EAGAIN ? method_preadv(rd, buf, len, pos) : ret;
}

static ssize_t method_direct(struct dax_reader *rd, void *buf, size_t len,
			     loff_t pos)
{
	return ret_or_errno(pread(rd->direct_fd, buf, len, pos));
}

/* -- io_uring */

static void *ring_map(int fd, size_t len, loff_t what)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_POPULATE, fd, what);

	return p == MAP_FAILED ? NULL : p;
}

static void uring_close(struct dax_uring *ring)
{
	if (ring->fd < 0)
		return;
	if (ring->sq_ring)
		munmap(ring->sq_ring, ring->ring_len);
	if (ring->cq_ring)
		munmap(ring->cq_ring, ring->cq_len);
	if (ring->sqes)
		munmap(ring->sqes, sizeof(struct io_uring_sqe));
	close(ring->fd);
	ring->fd = -1;
}

static void uring_open(struct dax_uring *ring, void *fixed, size_t len)
{
	struct io_uring_params p = {};
	struct iovec iov = { fixed, len };

	memset(ring, 0, sizeof(*ring));
	ring->fd = syscall(__NR_io_uring_setup, 1, &p);
	if (ring->fd < 0)
		return;
	ring->ring_len = p.sq_off.array + p.sq_entries * sizeof(__u32);
	ring->cq_len = p.cq_off.cqes +
		       p.cq_entries * sizeof(struct io_uring_cqe);
	ring->sq_ring = ring_map(ring->fd, ring->ring_len, IORING_OFF_SQ_RING);
	ring->cq_ring = ring_map(ring->fd, ring->cq_len, IORING_OFF_CQ_RING);
	ring->sqes = ring_map(ring->fd, sizeof(struct io_uring_sqe),
			      IORING_OFF_SQES);
	if (!ring->sq_ring || !ring->cq_ring || !ring->sqes) {
		uring_close(ring);
		return;
	}
	ring->sq_tail = ring->sq_ring + p.sq_off.tail;
	ring->sq_mask = ring->sq_ring + p.sq_off.ring_mask;
	ring->sq_array = ring->sq_ring + p.sq_off.array;
	ring->cq_head = ring->cq_ring + p.cq_off.head;
	ring->cq_tail = ring->cq_ring + p.cq_off.tail;
	ring->cq_mask = ring->cq_ring + p.cq_off.ring_mask;
	ring->cqes = ring->cq_ring + p.cq_off.cqes;
	ring->registered = fixed &&
		!syscall(__NR_io_uring_register, ring->fd,
			 IORING_REGISTER_BUFFERS, &iov, 1);
}

static ssize_t uring_read(struct dax_uring *ring, int fd, unsigned int op,
			  void *buf, size_t len, loff_t pos)
{
	struct io_uring_sqe *sqe = ring->sqes;
	struct io_uring_cqe *cqe;
	__u32 tail, head;

	if (ring->fd < 0)
		return DAX_NO_METHOD;
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = op;
	sqe->fd = fd;
	sqe->addr = (unsigned long)buf;
	sqe->len = len;
	sqe->off = pos;

	/* The ring has one entry, so the index is always 0. */
	tail = *ring->sq_tail;
	ring->sq_array[tail & *ring->sq_mask] = 0;
	__atomic_store_n(ring->sq_tail, tail + 1, __ATOMIC_RELEASE);
	if (syscall(__NR_io_uring_enter, ring->fd, 1, 1,
		    IORING_ENTER_GETEVENTS, NULL, 0) != 1)
		return -errno;

	head = *ring->cq_head;
	if (head == __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE))
		return -EPROTO;
	cqe = ring->cqes;
	cqe += head & *ring->cq_mask;
	tail = cqe->res;
	__atomic_store_n(ring->cq_head, head + 1, __ATOMIC_RELEASE);
	return (__s32)tail;
}

static ssize_t method_uring(struct dax_reader *rd, void *buf, size_t len,
			    loff_t pos)
{
	return uring_read(&rd->uring, rd->fd, IORING_OP_READ, buf, len, pos);
}

static ssize_t method_uring_readv(struct dax_reader *rd, void *buf,
				  size_t len, loff_t pos)
{
	struct iovec iov = { buf, len };

	return uring_read(&rd->uring, rd->fd, IORING_OP_READV, &iov, 1, pos);
}

/* Reads into the registered memory, then copies to the caller. */
static ssize_t method_uring_fixed(struct dax_reader *rd, void *buf,
				  size_t len, loff_t pos)
{
	ssize_t ret;

	if (!rd->uring.registered)
		return DAX_NO_METHOD;
	if (len > rd->fixed_len)
		return -E2BIG;
	ret = uring_read(&rd->uring, rd->fd, IORING_OP_READ_FIXED, rd->fixed,
			 len, pos);
	if (ret > 0)
		memcpy(buf, rd->fixed, ret);
	return ret;
}

/* -- aio */

static ssize_t method_aio(struct dax_reader *rd, void *buf, size_t len,
			  loff_t pos)
{
	struct iocb cb = {
		.aio_lio_opcode = IOCB_CMD_PREAD,
		.aio_fildes = rd->fd,
		.aio_buf = (unsigned long)buf,
		.aio_nbytes = len,
		.aio_offset = pos,
	};
	struct iocb *cbs[] = { &cb };
	struct io_event event;

	if (!rd->aio)
		return DAX_NO_METHOD;
	if (syscall(__NR_io_submit, rd->aio, 1, cbs) != 1)
		return -errno;
	if (syscall(__NR_io_getevents, rd->aio, 1, 1, &event, NULL) != 1)
		return -errno;
	return event.res;
}

/* -- without a buffer */

static ssize_t method_splice(struct dax_reader *rd, void *buf, size_t len,
			     loff_t pos)
{
	size_t done = 0;
	ssize_t n, m;

	while (done < len) {
		n = splice(rd->fd, &pos, rd->pipe[1], NULL, len - done, 0);
		if (n <= 0)
			return done ? (ssize_t)done : ret_or_errno(n);
		for (; n; n -= m, done += m) {
			m = read(rd->pipe[0], buf + done, n);
			if (m <= 0)
				return -EPIPE;
		}
	}
	return done;
}

static ssize_t method_sendfile(struct dax_reader *rd, void *buf, size_t len,
			       loff_t pos)
{
	size_t done = 0;
	ssize_t n;

	if (ftruncate(rd->memfd, 0) || lseek(rd->memfd, 0, SEEK_SET))
		return -errno;
	while (done < len) {
		n = sendfile(rd->memfd, rd->fd, &pos, len - done);
		if (n < 0)
			return done ? (ssize_t)done : -errno;
		if (!n)
			break;
		done += n;
	}
	return ret_or_errno(pread(rd->memfd, buf, done, 0));
}

static ssize_t method_mmap(struct dax_reader *rd, void *buf, size_t len,
			   loff_t pos)
{
	size_t skip = pos & (dax_bs() - 1);
	struct stat st;
	char *p;

	if (fstat(rd->fd, &st))
		return -errno;
	if (pos >= st.st_size)
		return 0;
	if ((__u64)len > (__u64)(st.st_size - pos))
		len = st.st_size - pos;
	p = mmap(NULL, len + skip, PROT_READ, MAP_SHARED, rd->fd, pos - skip);
	if (p == MAP_FAILED)
		return -errno;
	memcpy(buf, p + skip, len);
	munmap(p, len + skip);
	return len;
}

const struct dax_method dax_methods[] = {
	{ "pread", method_pread, true },
	{ "read", method_read, true },
	{ "preadv", method_preadv, true },
	{ "preadv of three pieces", method_preadv3, true },
	{ "preadv2", method_preadv2, true },
	{ "preadv2 RWF_NOWAIT", method_nowait, true },
	{ "pread O_DIRECT", method_direct, true },
	{ "io_uring READ", method_uring, true },
	{ "io_uring READV", method_uring_readv, true },
	{ "io_uring READ_FIXED", method_uring_fixed, false },
	{ "aio", method_aio, true },
	{ "splice", method_splice, false },
	{ "sendfile", method_sendfile, false },
	{ "mmap", method_mmap, false },
};

const unsigned int dax_nr_methods = ARRAY_LEN(dax_methods);

int dax_reader_open(struct dax_reader *rd, const char *path, void *fixed,
		    size_t len)
{
	memset(rd, 0, sizeof(*rd));
	rd->fixed = fixed;
	rd->fixed_len = len;
	rd->uring.fd = -1;
	rd->fd = open(path, O_RDONLY | O_CLOEXEC);
	rd->direct_fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	rd->memfd = memfd_create("dax", MFD_CLOEXEC);
	if (rd->fd < 0 || rd->direct_fd < 0 || rd->memfd < 0 ||
	    pipe2(rd->pipe, O_CLOEXEC))
		return -errno;
	uring_open(&rd->uring, fixed, len);
	if (syscall(__NR_io_setup, 1, &rd->aio))
		rd->aio = 0;
	return 0;
}

void dax_reader_close(struct dax_reader *rd)
{
	close(rd->fd);
	close(rd->direct_fd);
	close(rd->memfd);
	close(rd->pipe[0]);
	close(rd->pipe[1]);
	uring_close(&rd->uring);
	if (rd->aio)
		syscall(__NR_io_destroy, rd->aio);
}
