// SPDX-License-Identifier: GPL-2.0
/*
 * NVMe user queues: commands that fail, their errno, and privileges. A command
 * that the kernel refuses does not reach the device.
 */
#define _GNU_SOURCE
#include <linux/nvme_uq.h>

#include "uq_fixture.h"

#define AREA	(2 << 20)

FIXTURE(uq)
{
	struct uq_node node;
	struct io_uring ring;
	int fd;
	unsigned char *buf;
	unsigned int flags;
	long long sent;
};

FIXTURE_VARIANT(uq)
{
	bool poll;
};

/* clang-format off */
FIXTURE_VARIANT_ADD(uq, irq) { .poll = false };
FIXTURE_VARIANT_ADD(uq, poll) { .poll = true };
/* clang-format on */

FIXTURE_SETUP(uq)
{
	char why[UQ_WHY_LEN];
	int ret;

	ret = uq_need_node(&self->node, variant->poll, why, sizeof(why));
	if (ret == KSFT_SKIP)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, ret) TH_LOG("%s", why);
	self->flags = variant->poll ? IORING_SETUP_IOPOLL : 0;
	self->fd = open(self->node.path, O_RDWR);
	ASSERT_LE(0, self->fd);
	self->buf = uq_alloc(AREA);
	ASSERT_NE(NULL, self->buf);
	ASSERT_EQ(0, uq_ring(&self->ring, 8, self->flags));
	self->sent = uq_attr(self->node.name, "submitted");
}

FIXTURE_TEARDOWN(uq)
{
	if (!self->buf)
		return;
	EXPECT_TRUE(uq_wait_idle(self->node.name));
	EXPECT_EQ(uq_attr(self->node.name, "submitted"),
		  uq_attr(self->node.name, "completed"));
	io_uring_queue_exit(&self->ring);
	close(self->fd);
	munmap(self->buf, AREA);
}

static struct nvme_uring_cmd *prep_read(FIXTURE_DATA(uq) *self)
{
	return uq_prep(&self->ring, self->fd, self->node.nsid, CMD_READ, 0,
		       self->buf, 4096);
}

/* Number of commands sent to the device since the start of the test. */
static long long sent(FIXTURE_DATA(uq) *self)
{
	return uq_attr(self->node.name, "submitted") - self->sent;
}

TEST_F(uq, foreign_nsid)
{
	static const __u32 foreign[] = { 0, 99, 0xfffffffe, 0xffffffff };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(foreign); i++) {
		prep_read(self)->nsid = foreign[i];
		EXPECT_EQ(-EINVAL, uq_run(&self->ring))
			TH_LOG("nsid %u", foreign[i]);
	}
	prep_read(self)->nsid = self->node.nsid + 1;
	EXPECT_EQ(-EINVAL, uq_run(&self->ring));
	EXPECT_EQ(0, sent(self));
	prep_read(self);
	EXPECT_EQ(0, uq_run(&self->ring));
	EXPECT_EQ(1, sent(self));
}

/* The node of one namespace does not reach the other namespace. */
TEST_F(uq, foreign_nsid_of_a_neighbour)
{
	struct uq_node node[2];
	char why[UQ_WHY_LEN];
	int ret, fd, i;

	ret = uq_need_neighbours(node, variant->poll, why, sizeof(why));
	if (ret == KSFT_SKIP)
		SKIP(return, "%s", why);
	ASSERT_EQ(0, ret) TH_LOG("%s", why);
	EXPECT_EQ(uq_attr(node[0].name, "qid"), uq_attr(node[1].name, "qid"));
	fd = open(node[0].path, O_RDWR);
	ASSERT_LE(0, fd);
	EXPECT_EQ((int)node[0].nsid, ioctl(fd, NVME_IOCTL_ID));
	for (i = 0; i < 2; i++) {
		const struct uq_ns *ns = &node[i].ns;

		uq_prep_raw(&self->ring, fd, ns->nsid, CMD_WRITE, 0,
			    self->buf, ns->lba + (ns->ext ? ns->ms : 0), 1);
		EXPECT_EQ(i ? -EINVAL : 0, uq_run(&self->ring))
			TH_LOG("nsid %u by %s", ns->nsid, node[0].path);
	}
	close(fd);
}

TEST_F(uq, command_flags)
{
	unsigned int bit;

	for (bit = 0; bit < 8; bit++) {
		prep_read(self)->flags = 1 << bit;
		/* no memory was allocated for this open file */
		EXPECT_EQ(1 << bit == NVME_UQ_CMD_MEMORY ? -EFAULT : -EINVAL,
			  uq_run(&self->ring)) TH_LOG("bit %u", bit);
	}
	EXPECT_EQ(0, sent(self));
}

/* Bits of the SQE that are not defined for uring_cmd. */
TEST_F(uq, reserved_bits_of_the_entry)
{
	unsigned int bit;

	for (bit = 2; bit < 32; bit++) {
		uq_sqe(prep_read(self))->uring_cmd_flags = 1u << bit;
		EXPECT_EQ(-EINVAL, uq_run(&self->ring)) TH_LOG("bit %u", bit);
	}
	EXPECT_EQ(0, sent(self));
}

TEST_F(uq, other_operations)
{
	static const __u32 ops[] = {
		NVME_URING_CMD_ADMIN, NVME_URING_CMD_ADMIN_VEC, 0, ~0u,
		NVME_IOCTL_ID, NVME_IOCTL_ADMIN_CMD,
		/* the right numbers, with the size of a shorter struct */
		_IOWR('N', 0x80, char[64]), _IOWR('N', 0x81, char[64]),
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		uq_sqe(prep_read(self))->cmd_op = ops[i];
		EXPECT_EQ(-ENOTTY, uq_run(&self->ring))
			TH_LOG("cmd_op %#x", ops[i]);
	}
	EXPECT_EQ(0, sent(self));
}

/* SQEs or CQEs that are too small. */
TEST_F(uq, small_entries)
{
	static const unsigned int flags[] = {
		0, IORING_SETUP_SQE128, IORING_SETUP_CQE32
	};
	struct io_uring_sqe *sqe;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		struct io_uring ring;

		ASSERT_EQ(0, io_uring_queue_init(8, &ring, self->flags |
						 flags[i]));
		sqe = io_uring_get_sqe(&ring);
		ASSERT_NE(NULL, sqe);
		memset(sqe, 0, flags[i] & IORING_SETUP_SQE128 ? 128 : 64);
		sqe->opcode = IORING_OP_URING_CMD;
		sqe->fd = self->fd;
		sqe->cmd_op = NVME_URING_CMD_IO;
		EXPECT_EQ(-EOPNOTSUPP, uq_run(&ring)) TH_LOG("ring %u", i);
		io_uring_queue_exit(&ring);
	}
	EXPECT_EQ(0, sent(self));
}

/* Ioctls with the size of a shorter struct are unknown. */
TEST_F(uq, short_ioctls)
{
	EXPECT_EQ(-1, ioctl(self->fd, _IOWR('N', 0x43, char[64]), self->buf));
	EXPECT_EQ(ENOTTY, errno);
	EXPECT_EQ(-1, ioctl(self->fd, _IOWR('N', 0x48, char[72]), self->buf));
	EXPECT_EQ(ENOTTY, errno);
	EXPECT_EQ(-1, ioctl(self->fd, _IO('N', 0x7f)));
	EXPECT_EQ(ENOTTY, errno);
}

/* Each kind of queue works with each kind of ring. */
TEST_F(uq, kind_of_ring)
{
	struct io_uring ring;

	ASSERT_EQ(0, uq_ring(&ring, 8, variant->poll ? 0 :
			     IORING_SETUP_IOPOLL));
	uq_prep(&ring, self->fd, self->node.nsid, CMD_READ, 0, self->buf, 4096);
	EXPECT_EQ(0, uq_run(&ring));
	EXPECT_EQ(1, sent(self));
	io_uring_queue_exit(&ring);
}

TEST_F(uq, buffers)
{
	struct iovec iov[2] = { { self->buf, 4096 }, { NULL, 4096 } };
	struct nvme_uring_cmd *c;

	prep_read(self)->addr = (uintptr_t)self->buf + 2;
	EXPECT_EQ(-EINVAL, uq_run(&self->ring));
	prep_read(self)->data_len = 4094;
	EXPECT_EQ(-EINVAL, uq_run(&self->ring));
	prep_read(self)->addr = 0;
	EXPECT_EQ(-EFAULT, uq_run(&self->ring));
	prep_read(self)->addr = ~0ull << 12;
	EXPECT_EQ(-EFAULT, uq_run(&self->ring));
	prep_read(self)->data_len = 1 << 30;
	EXPECT_EQ(-EINVAL, uq_run(&self->ring));

	/*
	 * a vector with an unmapped buffer, an unmapped vector, too many
	 * buffers
	 */
	c = prep_read(self);
	c->addr = (uintptr_t)iov;
	c->data_len = 2;
	uq_sqe(c)->cmd_op = NVME_URING_CMD_IO_VEC;
	EXPECT_EQ(-EFAULT, uq_run(&self->ring));
	c = prep_read(self);
	c->addr = 0;
	c->data_len = 2;
	uq_sqe(c)->cmd_op = NVME_URING_CMD_IO_VEC;
	EXPECT_EQ(-EFAULT, uq_run(&self->ring));
	c = prep_read(self);
	c->addr = (uintptr_t)iov;
	c->data_len = 1025;
	uq_sqe(c)->cmd_op = NVME_URING_CMD_IO_VEC;
	EXPECT_EQ(-EINVAL, uq_run(&self->ring));

	/* a read-only buffer */
	ASSERT_EQ(0, mprotect(self->buf, 4096, PROT_READ));
	prep_read(self);
	EXPECT_EQ(-EFAULT, uq_run(&self->ring));
	EXPECT_EQ(0, sent(self));
	/* a write may use it */
	prep_read(self)->opcode = CMD_WRITE;
	EXPECT_EQ(0, uq_run(&self->ring));
}

TEST_F(uq, registered_buffers)
{
	struct iovec iov = { self->buf, 8192 };
	struct nvme_uring_cmd *c;

	/* without registered buffers */
	c = prep_read(self);
	uq_sqe(c)->uring_cmd_flags = IORING_URING_CMD_FIXED;
	EXPECT_EQ(-EFAULT, uq_run(&self->ring));

	ASSERT_EQ(0, io_uring_register_buffers(&self->ring, &iov, 1));
	/* another index, across the end, before the start, misaligned */
	c = prep_read(self);
	uq_sqe(c)->uring_cmd_flags = IORING_URING_CMD_FIXED;
	uq_sqe(c)->buf_index = 1;
	EXPECT_EQ(-EFAULT, uq_run(&self->ring));
	c = prep_read(self);
	c->addr += 4096 + 4;
	uq_sqe(c)->uring_cmd_flags = IORING_URING_CMD_FIXED;
	EXPECT_EQ(-EFAULT, uq_run(&self->ring));
	c = prep_read(self);
	c->addr -= 4;
	uq_sqe(c)->uring_cmd_flags = IORING_URING_CMD_FIXED;
	EXPECT_EQ(-EFAULT, uq_run(&self->ring));
	c = prep_read(self);
	c->addr += 2;
	c->data_len = 512;
	uq_sqe(c)->uring_cmd_flags = IORING_URING_CMD_FIXED;
	EXPECT_EQ(-EINVAL, uq_run(&self->ring));
	EXPECT_EQ(0, sent(self));
	c = prep_read(self);
	c->addr += 4096;
	uq_sqe(c)->uring_cmd_flags = IORING_URING_CMD_FIXED;
	EXPECT_EQ(0, uq_run(&self->ring));
}

/* The device fails the command if there are SGLs, otherwise the driver does. */
TEST_F(uq, transfer_beyond_the_buffer)
{
	unsigned int i;
	int ret;

	memset(self->buf, 0xee, AREA);
	prep_read(self)->cdw12 = 255;
	ret = uq_run(&self->ring);
	EXPECT_TRUE(ret == -EINVAL || ret > 0) TH_LOG("%d", ret);
	for (i = 4096; i < 256 * 512; i++)
		ASSERT_EQ(0xee, self->buf[i]);
}

/* A command without a buffer must not transfer data from or to address 0. */
TEST_F(uq, no_buffer)
{
	static const int ops[] = { CMD_READ, CMD_WRITE, CMD_COMPARE, CMD_COPY };
	unsigned char *before = self->buf, *after = self->buf + 65536;
	int fd = open(self->node.block, O_RDONLY | O_DIRECT), ret;
	unsigned int i;

	ASSERT_LE(0, fd);
	ASSERT_EQ(4096, pread(fd, before, 4096, 0));
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		uq_prep(&self->ring, self->fd, self->node.nsid, ops[i], 0, NULL,
			0)->cdw12 = 0;
		ret = uq_run(&self->ring);
		EXPECT_TRUE(ret == -EINVAL || STATUS(ret) == ST_SGL_LENGTH)
			TH_LOG("opcode %#x: %d", ops[i], ret);
	}
	ASSERT_EQ(4096, pread(fd, after, 4096, 0));
	EXPECT_EQ(0, memcmp(before, after, 4096));
	close(fd);
}

TEST_F(uq, metadata_where_there_is_none)
{
	struct nvme_uring_cmd *c = prep_read(self);

	c->metadata = (uintptr_t)self->buf + 65536;
	c->metadata_len = 64;
	EXPECT_EQ(-EINVAL, uq_run(&self->ring));
	/* metadata without data is not ignored */
	c = prep_read(self);
	c->opcode = CMD_FLUSH;
	c->data_len = 0;
	c->metadata = (uintptr_t)self->buf + 65536;
	c->metadata_len = 64;
	EXPECT_EQ(-EINVAL, uq_run(&self->ring));
	EXPECT_EQ(0, sent(self));
}

/* -- privileges */

static int open_node(void *data)
{
	FIXTURE_DATA(uq) *self = data;

	return open(self->node.path, O_RDONLY) < 0 ? -errno : 0;
}

TEST_F(uq, closed_to_other_users)
{
	struct stat st;

	ASSERT_EQ(0, stat(self->node.path, &st));
	EXPECT_TRUE(S_ISCHR(st.st_mode));
	EXPECT_EQ(0600, st.st_mode & 07777);
	EXPECT_EQ(0, st.st_uid);
	EXPECT_EQ(-EACCES, uq_run_unprivileged(open_node, self));
}

static int command(FIXTURE_DATA(uq) *self, int mode, int opcode)
{
	int fd = open(self->node.path, mode);
	struct io_uring ring;

	if (fd < 0)
		return -errno;
	if (uq_ring(&ring, 4, self->flags))
		return -ENODEV;
	uq_prep(&ring, fd, self->node.nsid, opcode, 0, self->buf, 4096);
	return uq_run(&ring);
}

static int read_ro(void *self)
{
	return command(self, O_RDONLY, CMD_READ);
}

static int write_ro(void *self)
{
	return command(self, O_RDONLY, CMD_WRITE);
}

static int write_rw(void *self)
{
	return command(self, O_RDWR, CMD_WRITE);
}

static int zeroes_ro(void *self)
{
	return command(self, O_RDONLY, CMD_ZEROES);
}

static int vendor_rw(void *self)
{
	return command(self, O_RDWR, 0x81);
}

static int fabrics_rw(void *self)
{
	return command(self, O_RDWR, 0x7f);
}

static int admin_ioctl(FIXTURE_DATA(uq) *self, int opcode)
{
	struct nvme_passthru_cmd cmd = {
		.opcode		= opcode,
		.addr		= (uintptr_t)self->buf,
		.data_len	= 4096,
		.cdw10		= 1,
	};
	int fd = open(self->node.path, O_RDWR);

	if (fd < 0)
		return -ENODEV;
	return ioctl(fd, NVME_IOCTL_ADMIN_CMD, &cmd) < 0 ? -errno : 0;
}

static int identify(void *self)
{
	return admin_ioctl(self, 0x06);
}

static int get_log(void *self)
{
	return admin_ioctl(self, 0x02);
}

static int get_features(void *self)
{
	return admin_ioctl(self, 0x0a);
}

TEST_F(uq, with_permission)
{
	int supported;

	ASSERT_EQ(0, uq_identify(self->node.ns.ctrl, 0, self->buf));
	/* without a log of effects, no command is known as supported */
	supported = self->buf[261] & 2 ? 0 : -EACCES;
	ASSERT_EQ(0, chmod(self->node.path, 0666));
	EXPECT_EQ(supported, uq_run_unprivileged(read_ro, self));
	EXPECT_EQ(-EACCES, uq_run_unprivileged(write_ro, self));
	EXPECT_EQ(-EACCES, uq_run_unprivileged(zeroes_ro, self));
	EXPECT_EQ(supported, uq_run_unprivileged(write_rw, self));
	EXPECT_EQ(-EACCES, uq_run_unprivileged(vendor_rw, self));
	EXPECT_EQ(-EACCES, uq_run_unprivileged(fabrics_rw, self));
	EXPECT_EQ(0, uq_run_unprivileged(identify, self));
	EXPECT_EQ(-EACCES, uq_run_unprivileged(get_log, self));
	EXPECT_EQ(-EACCES, uq_run_unprivileged(get_features, self));
	ASSERT_EQ(0, chmod(self->node.path, 0600));
}

/* The result is the same as on the generic node, for root too. */
TEST_F(uq, privilege_as_on_the_generic_node)
{
	static const uid_t user[] = { 0, UQ_UNPRIVILEGED };
	static const int modes[] = { O_RDONLY, O_RDWR };
	struct uq_node ng = self->node;
	unsigned int m, op, u;

	if (access(self->node.generic, F_OK))
		SKIP(return, "no %s", self->node.generic);
	snprintf(ng.path, sizeof(ng.path), "%s", self->node.generic);
	ASSERT_EQ(0, chmod(self->node.path, 0666));
	ASSERT_EQ(0, chmod(ng.path, 0666));
	for (u = 0; u < 2; u++)
		for (m = 0; m < 2; m++)
			for (op = 0; op < 256; op++) {
				struct nvme_uring_cmd *c;
				int ret[2], i, fd;

				/*
				 * Skip commands with side effects. Copy on the
				 * generic node would fetch its ranges from
				 * address 0.
				 */
				if (op == CMD_DSM || op == CMD_COPY ||
				    (op >= 0x79 && op < 0x80))
					continue;
				for (i = 0; i < 2; i++) {
					struct io_uring ring;

					ASSERT_EQ(0, uq_ring(&ring, 1, i ?
							     self->flags : 0));
					fd = open(i ? self->node.path : ng.path,
						  modes[m]);
					ASSERT_LE(0, fd);
					c = uq_prep(&ring, fd, self->node.nsid,
						    op, 0, NULL, 0);
					c->cdw10 = ~0u;
					c->cdw11 = ~0u;
					ASSERT_EQ(0, seteuid(user[u]));
					ret[i] = uq_run(&ring);
					ASSERT_EQ(0, seteuid(0));
					close(fd);
					io_uring_queue_exit(&ring);
				}
				EXPECT_EQ(ret[0], ret[1])
					TH_LOG("opcode %#x, %s, %s", op,
					       u ? "unprivileged" : "root",
					       m ? "O_RDWR" : "O_RDONLY");
			}
	ASSERT_EQ(0, chmod(self->node.path, 0600));
	ASSERT_EQ(0, chmod(ng.path, 0600));
}

TEST_F(uq, opened_twice)
{
	int fd = open(self->node.path, O_RDWR);

	ASSERT_LE(0, fd);
	prep_read(self);
	EXPECT_EQ(0, uq_run(&self->ring));
	close(fd);
	/* closing one file does not affect the other */
	prep_read(self);
	EXPECT_EQ(0, uq_run(&self->ring));
}

int main(int argc, char **argv)
{
	return uq_main(argc, argv);
}
