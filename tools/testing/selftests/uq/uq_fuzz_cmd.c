// SPDX-License-Identifier: GPL-2.0
/*
 * The fuzzer of NVMe user queues: commands, and rings to send them through.
 *
 * A command is a valid one with some fields replaced. It never writes outside
 * the fuzzed blocks: see fuzz_harmless().
 */
#define _GNU_SOURCE
#include <linux/nvme_uq.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "uq_fuzz.h"

#define CMD_UNCOR	0x04
#define CMD_VERIFY	0x0c
#define CMD_FABRICS	0x7f
#define CMD_VENDOR	0x80

/* Deallocate, among the attributes of Dataset Management. */
#define DSM_AD		4u

/* Missing in older headers. */
#define CMD_FLAG_MULTISHOT	2u

/* -- commands */

struct dsm_range {
	__u32 attr, blocks;
	__u64 slba;
};

struct copy_range {
	__u64 rsvd, slba;
	__u16 blocks, rsvd2[3];
	__u32 tag[2];
};

#define NR_DSM		256
#define NR_COPY		128

/* One page for Dataset Management, two for Copy. */
void fuzz_fill_ranges(unsigned char *ranges)
{
	struct dsm_range *dsm = (struct dsm_range *)ranges;
	struct copy_range *copy = (struct copy_range *)(ranges + 4096);
	unsigned int i;

	for (i = 0; i < NR_DSM; i++)
		dsm[i] = (struct dsm_range){
			.blocks	= i % 8,
			.slba	= FUZZ_FIRST + i * 8,
		};
	for (i = 0; i < NR_COPY; i++)
		copy[i].slba = FUZZ_FIRST + i * 8;
}

static void set_slba(struct nvme_uring_cmd *c, __u64 slba)
{
	c->cdw10 = slba;
	c->cdw11 = slba >> 32;
}

static __u64 get_slba(const struct nvme_uring_cmd *c)
{
	return (__u64)c->cdw11 << 32 | c->cdw10;
}

/* Is the command within the fuzzed blocks, or beyond the end? */
static bool within(const struct nvme_uring_cmd *c)
{
	__u64 slba = get_slba(c);

	if (slba >= FUZZ_BEYOND)
		return true;
	return slba >= FUZZ_FIRST &&
		slba + (c->cdw12 & 0xffff) < FUZZ_FIRST + FUZZ_BLOCKS;
}

static __u64 any_slba(struct fuzz *f)
{
	static const __u64 edges[] = {
		0, 1, ~0u, FUZZ_BEYOND, ~0ull, ~0ull - 1, ~0ull - 65535,
		FUZZ_FIRST, FUZZ_FIRST + FUZZ_BLOCKS - 1, 131071, 131072, 16383,
	};

	if (uq_1in(&f->rng, 4))
		return UQ_PICK(&f->rng, edges);
	return FUZZ_FIRST + uq_below(&f->rng, FUZZ_BLOCKS - FUZZ_MOST);
}

/* Commands of the NVM command set, and one that is only for emulated devices. */
static const struct command {
	__u8		opcode;
	unsigned char	weight;		/* how often good_command() sends it */
	bool		data;		/* the buffer contains blocks */
	bool		list;		/* the buffer contains a list of ranges */
	bool		modifies;	/* the blocks of its range */
} commands[] = {
	{ CMD_READ, 6, .data = true },
	{ CMD_WRITE, 3, .data = true, .modifies = true },
	{ CMD_COMPARE, 1, .data = true },
	{ CMD_FLUSH, 1 },
	{ CMD_ZEROES, 1, .modifies = true },
	{ CMD_DSM, 1, .list = true },
	{ CMD_COPY, 1, .list = true },
	{ CMD_VERIFY, 1 },
	{ CMD_UNCOR, 0, .modifies = true },
};

static const struct command *command_of(__u8 opcode)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(commands); i++)
		if (commands[i].opcode == opcode)
			return &commands[i];
	return NULL;
}

static const struct command *any_command(struct fuzz *f)
{
	const struct command *cmd;

	do {
		cmd = &UQ_PICK(&f->rng, commands);
	} while (cmd->weight <= uq_below(&f->rng, 6));
	return cmd;
}

/*
 * Dataset Management and Copy read ranges from their buffer. Send them only
 * with the start of a list that contains fuzzed blocks. @plain: neither a
 * vector nor a registered buffer.
 */
static void harmless_list(const struct fuzz *f, bool plain,
			  struct nvme_uring_cmd *c)
{
	if (c->opcode == CMD_DSM) {
		if (!plain || c->addr != (uintptr_t)f->ranges)
			c->cdw11 &= ~DSM_AD;
		return;
	}
	/* only ranges that exist, in format 0 */
	c->cdw12 &= ~0xf80u;
	if (!plain || c->addr != (uintptr_t)f->ranges + 4096 ||
	    get_slba(c) < FUZZ_FIRST ||
	    get_slba(c) + NR_COPY > FUZZ_FIRST + FUZZ_BLOCKS)
		set_slba(c, FUZZ_BEYOND);
}

/*
 * Change a command so that it does not modify blocks that the test checks.
 * Opcodes that the NVM command set does not define may do anything on a real
 * device, and so may reservations: send them to emulated devices only.
 * Unprivileged processes also send fabrics and vendor opcodes, as the kernel
 * must reject them.
 */
static void fuzz_harmless(struct fuzz *f, const struct fuzz_target *t,
			  bool plain, struct nvme_uring_cmd *c)
{
	const struct command *cmd = command_of(c->opcode);

	if ((!cmd || !cmd->weight) && !t->emulated &&
	    (f->root || c->opcode < CMD_FABRICS))
		c->opcode = CMD_READ;
	else if (cmd && cmd->modifies && !within(c))
		set_slba(c, FUZZ_BEYOND);
	else if (cmd && cmd->list)
		harmless_list(f, plain, c);
}

static unsigned char *any_buffer(struct fuzz *f, __u32 len)
{
	static const unsigned int offsets[] = {
		0, 0, 0, 4, 512, 2, 1, 2048, 3840, 4092
	};
	unsigned int at = uq_below(&f->rng, FUZZ_AREA / 4096) * 4096 +
		UQ_PICK(&f->rng, offsets);

	if (at + len > FUZZ_AREA)
		at = len < FUZZ_AREA ? (FUZZ_AREA - len) & ~3u : 0;
	return f->area + at;
}

/* Build a vector of @len bytes in its own slot, as other vectors are in use. */
static unsigned int any_vector(struct fuzz *f, unsigned int slot, __u32 len)
{
	struct iovec *iov = f->vec + slot % FUZZ_VECS * FUZZ_VEC;
	unsigned int n = 0;

	while (len && n < FUZZ_VEC) {
		__u32 piece = len;

		if (n < FUZZ_VEC - 1 && len > 512)
			piece = (1 + uq_below(&f->rng, len / 512)) * 512;
		if (uq_1in(&f->rng, 64))
			piece = fuzz_length(f) % (len + 1);
		iov[n].iov_base = uq_1in(&f->rng, 32) ?
			(void *)(uintptr_t)fuzz_address(f) :
			any_buffer(f, piece);
		iov[n++].iov_len = piece;
		len -= piece;
	}
	return n;
}

/* Build a command that should succeed. */
static void good_command(struct fuzz *f, const struct fuzz_target *t,
			 struct nvme_uring_cmd *c)
{
	static const unsigned int sizes[] = { 1, 1, 1, 2, 8, 8, 9, 16, 64, 256 };
	unsigned int blocks = UQ_PICK(&f->rng, sizes), n = uq_below(&f->rng, 8);
	const struct command *cmd = any_command(f);
	const struct uq_ns *ns = &t->node.ns;

	memset(c, 0, sizeof(*c));
	c->opcode = cmd->opcode;
	c->nsid = t->node.nsid;
	set_slba(c, FUZZ_FIRST + uq_below(&f->rng, FUZZ_BLOCKS - FUZZ_MOST));
	c->cdw12 = blocks - 1;
	if (cmd->data) {
		c->data_len = blocks * (ns->lba + (ns->ext ? ns->ms : 0));
		c->addr = (uintptr_t)any_buffer(f, c->data_len);
	}
	if (cmd->data && ns->ms && !ns->ext) {
		c->metadata_len = blocks * ns->ms;
		c->metadata = (uintptr_t)any_buffer(f, c->metadata_len);
	}
	if (c->opcode == CMD_DSM) {
		c->cdw10 = n;
		c->cdw11 = DSM_AD;
		c->cdw12 = 0;
		c->addr = (uintptr_t)f->ranges;
		c->data_len = (n + 1) * sizeof(struct dsm_range);
	} else if (c->opcode == CMD_COPY) {
		c->cdw12 = n;
		c->addr = (uintptr_t)f->ranges + 4096;
		c->data_len = (n + 1) * sizeof(struct copy_range);
	}
}

#define CMD(member, ...) FUZZ_FIELD(struct nvme_uring_cmd, member, __VA_ARGS__)
/* Half of a field of 32 bits. */
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define LOW	2
#else
#define LOW	0
#endif
#define HALF(member, low, ...)						\
	{ { offsetof(struct nvme_uring_cmd, member) +			\
	    ((low) ? LOW : 2 - LOW), 2 }, __VA_ARGS__ }

/* A field that is listed twice is changed twice as often. */
static const struct fuzz_field cmd_fields[] = {
	CMD(opcode),
	CMD(flags, FUZZ_BIT),
	CMD(rsvd1),
	CMD(nsid),
	CMD(nsid, FUZZ_LIST, { 0, 1, 2, 3, 5, 99, 0xfffffffe, ~0u }),
	CMD(cdw2),
	CMD(cdw3),
	CMD(metadata, FUZZ_ADDRESS),
	CMD(addr, FUZZ_ADDRESS),
	CMD(addr, FUZZ_ADDRESS),
	CMD(metadata_len, FUZZ_LENGTH),
	CMD(data_len, FUZZ_LENGTH),
	CMD(data_len, FUZZ_LENGTH),
	HALF(cdw12, true, FUZZ_LIST, { 0, 7, 255, 256, 4095, 0xffff }),
	HALF(cdw12, false),
	CMD(cdw13),
	CMD(cdw14),
	CMD(cdw15),
	CMD(timeout_ms, FUZZ_LIST, { ~0u, ~0u - 1, ~0u - 98, 1u << 31 }),
	CMD(rsvd2),
};

static void bend(struct fuzz *f, struct nvme_uring_cmd *c)
{
	if (uq_1in(&f->rng, 15))
		set_slba(c, any_slba(f));
	else
		fuzz_bend(f, c, cmd_fields, ARRAY_SIZE(cmd_fields));
	if (c->metadata_len && !c->metadata)
		c->metadata = (uintptr_t)any_buffer(f, 4096);
	/* if it expires too early, it causes an abort at most */
	if (uq_1in(&f->rng, 7500))
		c->timeout_ms = 1 + uq_below(&f->rng, 20);
}

static void bend_some(struct fuzz *f, struct nvme_uring_cmd *c)
{
	unsigned int n = uq_1in(&f->rng, 2) ? 0 : 1 + uq_below(&f->rng, 3);

	while (n--)
		bend(f, c);
}

/* Does the device use a buffer for this opcode? */
static bool has_buffer(__u8 opcode)
{
	const struct command *cmd = command_of(opcode);

	return !cmd || cmd->data || cmd->list;
}

/*
 * The ioctls use the block layer, which checks less than a user queue. Without
 * a buffer, the device would access address 0. It would also transfer the
 * metadata of all blocks.
 */
void fuzz_command(struct fuzz *f, unsigned int slot, bool vec,
		  struct nvme_uring_cmd *c)
{
	const struct fuzz_target *t = &f->target[f->file[slot].target];

	good_command(f, t, c);
	bend_some(f, c);
	c->timeout_ms = 0;
	if (vec) {
		c->data_len = any_vector(f, slot, c->data_len);
		c->addr = (uintptr_t)(f->vec + slot % FUZZ_VECS * FUZZ_VEC);
	}
	if (t->node.ns.ms) {
		c->opcode = CMD_FLUSH;
		c->data_len = 0;
		c->metadata_len = 0;
	}
	fuzz_harmless(f, t, !vec, c);
	if (!has_buffer(c->opcode))
		return;
	if (!c->addr || !c->data_len)
		c->opcode = CMD_FLUSH;
}

/* -- rings */

/* One of our commands in the ring. */
struct sent {
	struct nvme_uring_cmd c;
	__u32		op, flags;
	bool		ours;		/* NVME_URING_CMD_* to a node */
};

struct ring {
	struct io_uring	ring;
	unsigned int	flags;
	unsigned int	entries;
	bool		fixed;		/* there are registered buffers */
	bool		files;		/* and registered files */
	bool		flip;		/* a thread writes to the entries */
	bool		linked;		/* the last entry has a link */
	bool		leave;		/* do not wait for completions */
	unsigned int	sent, seen;
	struct sent	*log;
	struct fuzz	*f;
	atomic_bool	stop;
};

/* With a debug kernel, setup of a ring takes as long as 100 commands. */
#define MOST_IN_RING	256

static unsigned int any_ring_flags(struct fuzz *f)
{
	static const unsigned int sizes[] = {
		IORING_SETUP_SQE_MIXED | IORING_SETUP_CQE32,
		IORING_SETUP_SQE128 | IORING_SETUP_CQE_MIXED,
		IORING_SETUP_SQE128, IORING_SETUP_CQE32, 0,
	};
	static const unsigned int modes[] = {
		0, 0, 0, IORING_SETUP_SQPOLL, IORING_SETUP_COOP_TASKRUN,
		IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
		IORING_SETUP_SINGLE_ISSUER,
		IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
		IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
		IORING_SETUP_DEFER_TASKRUN,	/* needs SINGLE_ISSUER */
		IORING_SETUP_SQPOLL | IORING_SETUP_COOP_TASKRUN,
	};
	static const struct {
		unsigned int one_in, flag;
	} more[] = {
		{ 2, IORING_SETUP_IOPOLL }, { 8, IORING_SETUP_HYBRID_IOPOLL },
		{ 2, IORING_SETUP_SUBMIT_ALL }, { 4, IORING_SETUP_CLAMP },
		{ 16, IORING_SETUP_R_DISABLED },
	};
	unsigned int i, flags = UQ_PICK(&f->rng, modes);

	flags |= uq_1in(&f->rng, 6) ? UQ_PICK(&f->rng, sizes) :
		IORING_SETUP_SQE128 | IORING_SETUP_CQE32;
	for (i = 0; i < ARRAY_SIZE(more); i++)
		if (uq_1in(&f->rng, more[i].one_in))
			flags |= more[i].flag;
	return flags;
}

static bool open_ring(struct fuzz *f, struct ring *r)
{
	struct iovec iov[2] = {
		{ f->area, FUZZ_AREA / 2 },
		{ f->area + FUZZ_AREA / 2, FUZZ_AREA / 2 },
	};
	struct io_uring_params p = { .flags = any_ring_flags(f) };
	int files[FUZZ_FDS];
	unsigned int i;

	/* the SQPOLL thread must sleep at once, or it uses all CPU time */
	p.sq_thread_idle = 1;
	r->flags = p.flags;
	r->entries = 1 << uq_below(&f->rng, 7);
	if (io_uring_queue_init_params(r->entries, &r->ring, &p))
		return false;
	/* parts of the area may be unmapped now */
	if (uq_1in(&f->rng, 2))
		r->fixed = !io_uring_register_buffers(&r->ring, iov, 2);
	for (i = 0; i < FUZZ_FDS; i++)
		files[i] = f->file[i].fd;
	if (uq_1in(&f->rng, 4))
		r->files = !io_uring_register_files(&r->ring, files, FUZZ_FDS);
	return true;
}

#define SQE(member, ...) FUZZ_FIELD(struct io_uring_sqe, member, __VA_ARGS__)

/* Fields of the SQE outside of the command. */
static const struct fuzz_field sqe_fields[] = {
	SQE(cmd_op),
	SQE(cmd_op, FUZZ_LIST, {
		0, NVME_URING_CMD_ADMIN, NVME_URING_CMD_ADMIN_VEC, ~0u,
		NVME_IOCTL_ID, NVME_IOCTL_ADMIN_CMD,
		_IOWR('N', 0x80, char[64]), _IOWR('N', 0x81, char[64]) }),
	SQE(uring_cmd_flags, FUZZ_BIT),
	SQE(uring_cmd_flags, FUZZ_BIT),
	SQE(buf_index, FUZZ_LIST, { 0, 1, 2, 3 }),
	SQE(fd, FUZZ_LIST, { -1, 1 << 20, FUZZ_FDS, FUZZ_FDS + 1 }),
	SQE(personality, FUZZ_LIST, { 0, 1, 2 }),
	/* commands ignore these today */
	SQE(ioprio),
	SQE(splice_fd_in),
	SQE(__pad1),
};

static void bend_entry(struct fuzz *f, struct io_uring_sqe *sqe)
{
	if (!uq_1in(&f->rng, 8)) {
		fuzz_bend(f, sqe, sqe_fields, ARRAY_SIZE(sqe_fields));
		return;
	}
	sqe->uring_cmd_flags = CMD_FLAG_MULTISHOT;
	sqe->flags |= IOSQE_BUFFER_SELECT;
}

static void entry_flags(struct fuzz *f, struct ring *r,
			struct io_uring_sqe *sqe)
{
	static const unsigned int flags[] = {
		IOSQE_IO_LINK, IOSQE_IO_LINK, IOSQE_IO_HARDLINK, IOSQE_ASYNC,
		IOSQE_ASYNC, IOSQE_IO_DRAIN, IOSQE_BUFFER_SELECT,
		IOSQE_ASYNC | IOSQE_IO_LINK, IOSQE_ASYNC | IOSQE_IO_DRAIN,
		1u << 7,
	};

	if (uq_1in(&f->rng, 3))
		sqe->flags |= UQ_PICK(&f->rng, flags);
	/* the number of completions is unknown then */
	if (r->leave && uq_1in(&f->rng, 4))
		sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
}

/* Other requests of a ring for a node. */
static void other_entry(struct fuzz *f, struct io_uring_sqe *sqe, int fd)
{
	void *buf = any_buffer(f, 4096);

	switch (uq_below(&f->rng, 8)) {
	case 0:
		io_uring_prep_nop(sqe);
		break;
	case 1:
		io_uring_prep_read(sqe, fd, buf, 4096, 0);
		break;
	case 2:
		io_uring_prep_write(sqe, fd, buf, 4096, uq_rnd(&f->rng));
		break;
	case 3:
		io_uring_prep_poll_add(sqe, fd, 1);
		break;
	case 4:
		io_uring_prep_fsync(sqe, fd, 0);
		break;
	case 5:
		io_uring_prep_cancel64(sqe, uq_below(&f->rng, MOST_IN_RING), 0);
		break;
	case 6:
		io_uring_prep_cancel64(sqe, 0, IORING_ASYNC_CANCEL_ANY |
				       IORING_ASYNC_CANCEL_ALL);
		break;
	case 7:
		io_uring_prep_cancel_fd(sqe, fd, IORING_ASYNC_CANCEL_ALL);
		break;
	}
}

/* A shared list must not change while commands that use it are in flight. */
static void only_flippable(struct nvme_uring_cmd *c)
{
	if (c->opcode == CMD_DSM || c->opcode == CMD_COPY)
		c->opcode = CMD_READ;
	set_slba(c, FUZZ_FIRST + get_slba(c) % (FUZZ_BLOCKS - FUZZ_MOST));
	c->cdw12 = (c->cdw12 & ~0xffffu) | c->cdw12 % FUZZ_MOST;
	c->timeout_ms = 0;
}

/* Use memory of the open file, which may be smaller, or missing. */
static void use_memory(struct fuzz *f, struct nvme_uring_cmd *c)
{
	static const __u64 offsets[] = {
		0, 4, 512, 4096, 4092, 65536, 1 << 20, (2 << 20) - 512, 2 << 20,
		1, 1ull << 31, 1ull << 32, 1ull << 63, ~0ull, ~0ull - 511,
	};

	c->flags = NVME_UQ_CMD_MEMORY;
	c->addr = uq_1in(&f->rng, 2) ? UQ_PICK(&f->rng, offsets) :
		uq_below(&f->rng, 1 << 14) * 4;
}

static void our_entry(struct fuzz *f, struct ring *r, struct io_uring_sqe *sqe,
		      unsigned int file)
{
	const struct fuzz_target *t = &f->target[f->file[file].target];
	struct nvme_uring_cmd *c = (struct nvme_uring_cmd *)sqe->cmd;
	struct sent *log = &r->log[r->sent];
	bool vec = false;

	sqe->opcode = r->flags & IORING_SETUP_SQE_MIXED ? UQ_OP_URING_CMD128 :
		IORING_OP_URING_CMD;
	sqe->fd = f->file[file].fd;
	sqe->cmd_op = NVME_URING_CMD_IO;
	good_command(f, t, c);
	if (uq_1in(&f->rng, 4) && has_buffer(c->opcode)) {
		vec = true;
		sqe->cmd_op = NVME_URING_CMD_IO_VEC;
		c->data_len = any_vector(f, r->sent, c->data_len);
		c->addr = (uintptr_t)(f->vec + r->sent % FUZZ_VECS * FUZZ_VEC);
	}
	if (!vec && uq_1in(&f->rng, 6))
		use_memory(f, c);
	if (r->fixed && uq_1in(&f->rng, 2)) {
		sqe->uring_cmd_flags = IORING_URING_CMD_FIXED;
		sqe->buf_index = !vec && c->addr >= (uintptr_t)f->area +
			FUZZ_AREA / 2;
	}
	if (r->files && uq_1in(&f->rng, 2)) {
		sqe->fd = file;
		sqe->flags |= IOSQE_FIXED_FILE;
	}
	bend_some(f, c);
	if (uq_1in(&f->rng, 6))
		bend_entry(f, sqe);
	if (r->flip)
		only_flippable(c);
	fuzz_harmless(f, t, sqe->cmd_op == NVME_URING_CMD_IO &&
		      !sqe->uring_cmd_flags && !c->flags, c);
	log->c = *c;
	log->op = sqe->cmd_op;
	log->flags = sqe->uring_cmd_flags;
	log->ours = true;
}

static struct __kernel_timespec soon = { .tv_nsec = 1000000 };

/* Get an SQE; with mixed sizes, a big one takes two slots. */
static struct io_uring_sqe *get_entry(struct ring *r, bool big)
{
	struct io_uring_sq *sq = &r->ring.sq;

	if (!big || !(r->flags & IORING_SETUP_SQE_MIXED))
		return io_uring_get_sqe(&r->ring);
	/* a big SQE does not wrap around the end of the ring */
	if (r->entries < 2 || io_uring_sq_space_left(&r->ring) < 2 ||
	    ((sq->sqe_tail + 1) & *sq->kring_mask) == 0)
		return NULL;
	io_uring_get_sqe(&r->ring);
	return &sq->sqes[(sq->sqe_tail++ - 1) & *sq->kring_mask];
}

/* Choose a file; prefer open files of the kind that matches the ring. */
static unsigned int any_file(struct fuzz *f, const struct ring *r)
{
	bool poll = r->flags & IORING_SETUP_IOPOLL;
	unsigned int i, file = 0;

	for (i = 0; i < 8; i++) {
		file = uq_below(&f->rng, FUZZ_FDS);
		if (f->file[file].fd >= 0 &&
		    f->target[f->file[file].target].node.poll == poll)
			break;
	}
	return file;
}

/* Add a request, if there is room. */
static bool add_entry(struct fuzz *f, struct ring *r)
{
	unsigned int file = any_file(f, r);
	bool timeout = r->linked && uq_1in(&f->rng, 4);
	bool ours = !timeout && !uq_1in(&f->rng, 12);
	char buf[128] = "";
	struct io_uring_sqe *to, *sqe = (struct io_uring_sqe *)buf;

	if (r->sent == MOST_IN_RING)
		return false;
	to = get_entry(r, ours);
	if (!to && ours) {
		ours = false;
		to = get_entry(r, false);
	}
	if (!to)
		return false;
	memset(&r->log[r->sent], 0, sizeof(r->log[0]));
	if (timeout)
		io_uring_prep_link_timeout(sqe, &soon, 0);
	else if (ours)
		our_entry(f, r, sqe, file);
	else
		other_entry(f, sqe, f->file[file].fd);
	if (!timeout)
		entry_flags(f, r, sqe);
	r->linked = sqe->flags & (IOSQE_IO_LINK | IOSQE_IO_HARDLINK);
	sqe->user_data = r->sent++;
	memcpy(to, sqe, r->flags & IORING_SETUP_SQE128 ||
	       sqe->opcode == UQ_OP_URING_CMD128 ? 128 : 64);
	return true;
}

/*
 * Does the command transfer data at its address, without a vector or a
 * registered buffer?
 */
static bool moves_data(const struct sent *s)
{
	return s->c.data_len && s->op == NVME_URING_CMD_IO && !s->flags;
}

static void judge(struct fuzz *f, struct ring *r, const struct io_uring_cqe *cqe)
{
	const struct sent *s;
	int res = cqe->res;

	if (cqe->user_data >= r->sent) {
		fuzz_bad(f, "completion of entry %llu, of %u that were sent",
			 (unsigned long long)cqe->user_data, r->sent);
		return;
	}
	s = &r->log[cqe->user_data];
	if (!s->ours)
		return;
	f->all->ended[res < 0 ? 2 : res > 0]++;
	f->all->claimed += res == -EBUSY;
	/* only if the SQE does not change after submission */
	if (res >= 0 && !r->flip && moves_data(s) &&
	    fuzz_is_mapped(f, s->c.addr))
		fuzz_bad(f, "result %d, opcode %#x, of a mapped queue", res,
			 s->c.opcode);
	if (res < 0 && !fuzz_is_documented(FUZZ_COMMAND, -res))
		fuzz_bad(f, "result %d, opcode %#x, op %#x, flags %#x, addr %#llx, len %u",
			 res, s->c.opcode, s->op, s->flags,
			 (unsigned long long)s->c.addr, s->c.data_len);
}

/* Consume a CQE; with mixed sizes, a big one takes two slots. */
static bool take_one(struct fuzz *f, struct ring *r)
{
	struct io_uring_cqe *cqe;
	unsigned int n = 1;

	if (io_uring_peek_cqe(&r->ring, &cqe))
		return false;
	if (r->flags & IORING_SETUP_CQE_MIXED) {
		if (cqe->flags & IORING_CQE_F_SKIP) {
			io_uring_cq_advance(&r->ring, 1);
			return true;
		}
		if (cqe->flags & IORING_CQE_F_32)
			n = 2;
	}
	judge(f, r, cqe);
	r->seen++;
	io_uring_cq_advance(&r->ring, n);
	return true;
}

static void take_all(struct fuzz *f, struct ring *r)
{
	struct io_uring_cqe *cqe;

	while (r->seen < r->sent) {
		if (take_one(f, r))
			continue;
		io_uring_wait_cqe(&r->ring, &cqe);
	}
}

/* Not every build of liburing exports its function for this. */
static void enable(struct io_uring *ring)
{
	syscall(__NR_io_uring_register, ring->ring_fd,
		IORING_REGISTER_ENABLE_RINGS, NULL, 0);
}

/* Submission stops at an invalid SQE: continue after it. */
static void submit(struct fuzz *f, struct ring *r)
{
	int ret;

	if (r->flags & IORING_SETUP_R_DISABLED) {
		io_uring_submit(&r->ring);	/* has no effect */
		enable(&r->ring);
		r->flags &= ~IORING_SETUP_R_DISABLED;
	}
	while (io_uring_sq_ready(&r->ring)) {
		ret = io_uring_submit(&r->ring);
		if (ret < 0 && ret != -EBUSY && ret != -EAGAIN &&
		    ret != -EINTR)
			fuzz_bad(f, "io_uring_enter: %d, ring %#x", ret,
				 r->flags);
		if (f->bad)
			return;
		while (!r->leave && take_one(f, r))
			;
	}
}

/* -- an SQE that changes while the kernel reads it */

/*
 * Block numbers do not change, and no opcode reads a list from memory, so
 * writes stay in the fuzzed blocks. user_data does not change either, as the
 * test uses it to count completions.
 */
struct flipped {
	char			sqe[offsetof(struct io_uring_sqe, cmd)];
	struct nvme_uring_cmd	c;
};

#define FLIP(member, ...)	FUZZ_FIELD(struct flipped, c.member, __VA_ARGS__)
#define FLIP_LENGTHS	{ 0, 4, 512, 4096, 8192, 1 << 20, ~0u }

static const struct fuzz_field flip_fields[] = {
	FLIP(opcode, FUZZ_LIST, { CMD_READ, CMD_WRITE, CMD_COMPARE }),
	FLIP(flags, FUZZ_LIST, { 0, 1 }),
	FLIP(nsid, FUZZ_LIST, { 0, 1, 2, 3 }),
	FLIP(addr),
	FLIP(addr, FUZZ_AREA_ADDRESS),
	FLIP(data_len, FUZZ_LIST, FLIP_LENGTHS),
	FLIP(metadata, FUZZ_AREA_ADDRESS),
	FLIP(metadata_len, FUZZ_LIST, FLIP_LENGTHS),
	FLIP(cdw13),
	SQE(cmd_op, FUZZ_LIST, { NVME_URING_CMD_IO, NVME_URING_CMD_IO_VEC }),
	SQE(uring_cmd_flags, FUZZ_LIST, { 0, 1 }),
};

static void *flip(void *arg)
{
	struct ring *r = arg;
	struct fuzz f = { .area = r->f->area };

	uq_rng_init(&f.rng, r->f->rng.state, 0);
	while (!r->stop)
		fuzz_bend(&f, (char *)r->ring.sq.sqes +
			  uq_below(&f.rng, r->entries) * 128,
			  flip_fields, ARRAY_SIZE(flip_fields));
	return NULL;
}

/* -- from beginning to end */

static void send_some(struct fuzz *f, struct ring *r)
{
	unsigned int batches = 1 + uq_below(&f->rng, 16), n;

	while (batches-- && !f->bad) {
		n = 1 + uq_below(&f->rng, uq_1in(&f->rng, 4) ? 32 : 8);
		while (n-- && add_entry(f, r))
			;
		submit(f, r);
		if (!r->leave && uq_1in(&f->rng, 2) && !f->bad)
			take_all(f, r);
	}
}

void fuzz_ring(struct fuzz *f)
{
	struct ring r = { .f = f };
	pthread_t t;

	if (!open_ring(f, &r)) {
		fuzz_count(f, 1);
		return;
	}
	r.log = calloc(MOST_IN_RING, sizeof(*r.log));
	if (!r.log)
		goto out;
	r.leave = uq_1in(&f->rng, 8);
	if (uq_1in(&f->rng, 8) && r.flags & IORING_SETUP_SQE128)
		r.flip = !pthread_create(&t, NULL, flip, &r);
	send_some(f, &r);
	if (!r.leave && !f->bad)
		take_all(f, &r);
	if (r.flip) {
		r.stop = true;
		pthread_join(t, NULL);
	}
	fuzz_count(f, r.sent);
	free(r.log);
out:
	/* commands may be in flight */
	io_uring_queue_exit(&r.ring);
}
