// SPDX-License-Identifier: GPL-2.0
/*
 * The fuzzer of NVMe user queues: ioctls and attributes. See uq_fuzz.c.
 */
#define _GNU_SOURCE
#include <glob.h>
#include <linux/nvme_uq.h>

#include "uq_fuzz.h"

static const unsigned int known[] = {
	NVME_UQ_IOCTL_UNCLAIM,
	NVME_IOCTL_ID, NVME_IOCTL_ADMIN_CMD, NVME_IOCTL_SUBMIT_IO,
	NVME_IOCTL_IO_CMD, NVME_IOCTL_RESET, NVME_IOCTL_SUBSYS_RESET,
	NVME_IOCTL_RESCAN, NVME_IOCTL_ADMIN64_CMD, NVME_IOCTL_IO64_CMD,
	NVME_IOCTL_IO64_CMD_VEC, NVME_UQ_IOCTL_CLAIM, NVME_UQ_IOCTL_SET_LIMIT,
	NVME_UQ_IOCTL_GET_LIMIT, NVME_UQ_IOCTL_ALLOC_MEMORY,
};

#define IDENTIFY	0x06
#define GET_LOG		0x02
#define GET_FEATURES	0x0a

/*
 * Transfers of one page to the start of a page: the block layer has no SGLs for
 * admin commands, so the device would not stop at the end of the buffer.
 */
static void admin_command(struct fuzz *f, struct nvme_passthru_cmd *c)
{
	static const __u8 ops[] = { IDENTIFY, IDENTIFY, GET_LOG, GET_FEATURES };

	memset(c, 0, sizeof(*c));
	c->opcode = f->root ? UQ_PICK(&f->rng, ops) : (__u8)uq_rnd(&f->rng);
	c->nsid = uq_1in(&f->rng, 2) ? uq_below(&f->rng, 8) : uq_rnd(&f->rng);
	c->addr = (uintptr_t)f->area + uq_below(&f->rng, 16) * 4096;
	c->data_len = 4096;
	c->cdw10 = uq_1in(&f->rng, 4) ? uq_rnd(&f->rng) :
		uq_below(&f->rng, 32);
	c->cdw11 = uq_1in(&f->rng, 2) ? uq_rnd(&f->rng) : 0;
	c->cdw14 = uq_1in(&f->rng, 4) ? uq_rnd(&f->rng) : 0;
	c->flags = uq_1in(&f->rng, 16);
	c->rsvd1 = uq_1in(&f->rng, 16);
	if (c->opcode == GET_LOG) {
		/* one page of the log; retain asynchronous events */
		c->cdw10 = (c->cdw10 & 0xff) | 1u << 15 | 1023 << 16;
		c->cdw11 = 0;
	}
}

/* Both structures start with the same fields; only the results differ. */
static int pass(int fd, unsigned int nr, const void *c)
{
	struct nvme_passthru_cmd64 c64 = { };

	memcpy(&c64, c, offsetof(struct nvme_passthru_cmd, result));
	return ioctl(fd, nr, &c64);
}

static void ioctl_admin(struct fuzz *f, unsigned int nr, int fd)
{
	struct nvme_passthru_cmd c;
	int ret;

	admin_command(f, &c);
	ret = pass(fd, nr, &c);
	if (!f->root && c.opcode != IDENTIFY && ret >= 0)
		fuzz_bad(f, "admin opcode %#x was let through: %d", c.opcode,
			 ret);
}

static void ioctl_io(struct fuzz *f, unsigned int nr, unsigned int slot)
{
	struct nvme_uring_cmd c;

	fuzz_command(f, slot, nr == NVME_IOCTL_IO64_CMD_VEC, &c);
	pass(f->file[slot].fd, nr, &c);
}

/*
 * Only reads, compares and opcodes that NVME_IOCTL_SUBMIT_IO rejects. The
 * number of blocks implies the length.
 */
static void ioctl_submit(struct fuzz *f, unsigned int slot)
{
	static const __u8 ops[] = { CMD_READ, CMD_COMPARE, CMD_FLUSH, 0x81 };
	struct nvme_user_io io = {
		.opcode		= UQ_PICK(&f->rng, ops),
		.flags		= uq_1in(&f->rng, 8),
		.control	= uq_rnd(&f->rng),
		.nblocks	= uq_1in(&f->rng, 4) ? uq_rnd(&f->rng) :
			uq_below(&f->rng, 16),
		.addr		= (uintptr_t)f->area + uq_below(&f->rng, 4096),
		.slba		= uq_1in(&f->rng, 4) ? uq_rnd(&f->rng) :
			FUZZ_FIRST,
		.dsmgmt		= uq_rnd(&f->rng),
	};

	if (!f->target[f->file[slot].target].node.ns.ms)
		ioctl(f->file[slot].fd, NVME_IOCTL_SUBMIT_IO, &io);
}

/* A known number with an invalid argument. */
static void ioctl_astray(struct fuzz *f, unsigned int nr, int fd)
{
	const uintptr_t args[] = {
		0, 1, (uintptr_t)f->hole, (uintptr_t)f->hole - 16,
		/* these pages contain flags that no command accepts */
		(uintptr_t)f->guard[0], (uintptr_t)f->arg,
		(uintptr_t)f->arg + 4096 - 16, ~0ul, 1ul << 63,
	};
	int ret = ioctl(fd, nr, UQ_PICK(&f->rng, args));

	if (!ret && nr != NVME_UQ_IOCTL_CLAIM && nr != NVME_UQ_IOCTL_UNCLAIM)
		fuzz_bad(f, "ioctl %#x succeeded with no argument", nr);
}

static void ioctl_unknown(struct fuzz *f, int fd)
{
	static const unsigned int sizes[] = { 0, 4, 64, 72, 80, 88, 4096 };
	unsigned int nr, i;

	nr = _IOC(uq_below(&f->rng, 4), uq_1in(&f->rng, 4) ? 0x12 : 'N',
		  uq_below(&f->rng, 256), UQ_PICK(&f->rng, sizes));
	for (i = 0; i < ARRAY_SIZE(known); i++)
		if (nr == known[i])
			return;
	if (!ioctl(fd, nr, f->arg))
		fuzz_bad(f, "ioctl %#x succeeded", nr);
}

static void ioctl_known(struct fuzz *f, unsigned int nr, unsigned int slot)
{
	int fd = f->file[slot].fd;

	switch (nr) {
	case NVME_IOCTL_ADMIN_CMD:
	case NVME_IOCTL_ADMIN64_CMD:
		ioctl_admin(f, nr, fd);
		break;
	case NVME_IOCTL_IO_CMD:
	case NVME_IOCTL_IO64_CMD:
	case NVME_IOCTL_IO64_CMD_VEC:
		ioctl_io(f, nr, slot);
		break;
	case NVME_IOCTL_SUBMIT_IO:
		ioctl_submit(f, slot);
		break;
	case NVME_UQ_IOCTL_CLAIM:
		fuzz_claim(f, slot);
		break;
	case NVME_UQ_IOCTL_UNCLAIM:
		fuzz_unclaim(f, slot);
		break;
	case NVME_UQ_IOCTL_SET_LIMIT:
	case NVME_UQ_IOCTL_GET_LIMIT:
		fuzz_limit(f, nr, slot);
		break;
	case NVME_UQ_IOCTL_ALLOC_MEMORY:
		fuzz_alloc(f, slot);
		break;
	case NVME_IOCTL_RESET:
	case NVME_IOCTL_SUBSYS_RESET:
	case NVME_IOCTL_RESCAN:
		if (!ioctl(fd, nr, 0))
			fuzz_bad(f, "ioctl %#x succeeded on a queue", nr);
		break;
	default:
		ioctl(fd, nr, 0);
	}
}

void fuzz_ioctl(struct fuzz *f)
{
	unsigned int slot = uq_below(&f->rng, FUZZ_FDS);
	unsigned int nr = UQ_PICK(&f->rng, known);

	if (uq_1in(&f->rng, 4))
		ioctl_unknown(f, f->file[slot].fd);
	else if (uq_1in(&f->rng, 4) && nr != NVME_IOCTL_ID)
		ioctl_astray(f, nr, f->file[slot].fd);
	else
		ioctl_known(f, nr, slot);
}

/* -- attributes */

/* Values that all attributes reject, and values that some accept. */
static const char * const no_number[] = {
	"0", "-1", "4294967296", "18446744073709551616", "x", "1x", "live",
	"poll", "%s%n", "1 2",
};

static const char * const number[] = {
	"1", "2", "16", "298", "299", "300", "\n", " 7", "0x10", "",
};

static void write_attr(struct fuzz *f, const char *path)
{
	const char *val = UQ_PICK(&f->rng, no_number);
	char many[4096];

	if (uq_1in(&f->rng, 2)) {
		uq_write_line(path, UQ_PICK(&f->rng, number));
		return;
	}
	if (uq_1in(&f->rng, 8)) {
		memset(many, '1', sizeof(many) - 1);
		many[sizeof(many) - 1] = 0;
		val = many;
	}
	if (!uq_write_line(path, val))
		fuzz_bad(f, "%s took %.20s", path, val);
}

/* Any read of a limit returns a valid one. */
static void read_attr(struct fuzz *f, const struct uq_node *node,
		      const char *name, const char *path)
{
	char val[4096];
	long long n;

	uq_read_line(path, val, sizeof(val));
	if (strcmp(name, "limit") && strcmp(name, "file_limit"))
		return;
	n = atoll(val);
	if (n < 1 || n > node->depth)
		fuzz_bad(f, "%s is %s", path, val);
}

static void use_attr(struct fuzz *f, const struct uq_node *node, const char *path)
{
	const char *name = strrchr(path, '/') + 1;
	int fd;

	if (uq_1in(&f->rng, 2)) {
		read_attr(f, node, name, path);
		return;
	}
	fd = open(path, O_WRONLY);
	if (fd < 0)
		return;
	close(fd);
	if (!f->root)
		fuzz_bad(f, "%s can be written to", path);
	else if (!strcmp(name, "claim"))
		uq_write_line(path, uq_1in(&f->rng, 4) ? "0" : "1");
	else
		write_attr(f, path);
}

void fuzz_attr(struct fuzz *f)
{
	const struct uq_node *node =
		&f->target[uq_below(&f->rng, f->nr_target)].node;
	char pattern[128];
	glob_t paths;

	snprintf(pattern, sizeof(pattern),
		 "/sys/class/nvme-generic/%s/user_queue/*", node->name);
	if (glob(pattern, GLOB_NOSORT, NULL, &paths))
		return;
	use_attr(f, node, paths.gl_pathv[uq_below(&f->rng, paths.gl_pathc)]);
	globfree(&paths);
}
