/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The fuzzer of NVMe user queues: declarations that its files share.
 *
 *   uq_fuzz.c		processes, other operations on nodes, and final checks
 *   uq_fuzz_ioctl.c	ioctls and attributes
 *   uq_fuzz_cmd.c	commands, and rings to send them through
 *   uq_fuzz_map.c	claims, mappings of completion queues, limits
 *   uq_fuzz_util.c	messages, values, fields of structures, documented errnos
 *
 * Each file uses only files below it in this list.
 */
#ifndef SELFTESTS_UQ_FUZZ_H
#define SELFTESTS_UQ_FUZZ_H

#include "kselftest.h"
#include "uq_random.h"

/*
 * The blocks of each namespace that are written, and the most at once. All
 * blocks before and after them must not change.
 */
#define FUZZ_FIRST	4096u
#define FUZZ_BLOCKS	4096u
#define FUZZ_MOST	256u
/* A block beyond the end of any namespace. */
#define FUZZ_BEYOND	0x1000000000000ull

/* So large that few commands in flight share a page, as DMA debugging warns. */
#define FUZZ_AREA	(4096u << 10)
#define FUZZ_FDS	8
#define FUZZ_MAPS	4
#define FUZZ_VECS	256
#define FUZZ_VEC	8
#define FUZZ_PATTERN	0xee

/* A fuzzed node. */
struct fuzz_target {
	struct uq_node	node;
	bool		emulated;	/* no real device */
};

/* Memory that all processes share. */
struct fuzz_shared {
	unsigned long	done;		/* operations */
	unsigned long	sent;		/* commands among them */
	unsigned long	ended[3];	/* with 0, a status, an errno */
	unsigned long	claimed;	/* with EBUSY, subset of the errnos */
	unsigned long	maps;		/* mappings */
};

/* One process. */
struct fuzz {
	struct uq_rng	rng;
	__u64		seed;
	struct fuzz_shared *all;
	const struct fuzz_target *target;
	unsigned int	nr_target;
	bool		root;
	int		sock;		/* where descriptors are passed */
	unsigned int	ops;		/* done by this process */
	unsigned int	bad;

	struct {
		int	fd;		/* -1 if there is none */
		unsigned int target;
		bool	claimed;	/* unless the claim has ended */
	} file[FUZZ_FDS];

	struct fuzz_map {
		unsigned char *p;	/* NULL if there is none */
		size_t	len;
		bool	info;
	} map[FUZZ_MAPS];

	/* data buffers, between read-only pages */
	unsigned char	*area;
	unsigned char	*guard[2];
	/* ranges for DSM and Copy, and an argument of ioctls */
	unsigned char	*ranges;
	unsigned char	*arg;
	struct iovec	*vec;		/* FUZZ_VECS times FUZZ_VEC of them */
	void		*hole;		/* a page that cannot be read */
};

/* Report a failure with the seed and the number of operations. */
__printf(2, 3)
void fuzz_bad(struct fuzz *f, const char *fmt, ...);
void fuzz_count(struct fuzz *f, unsigned int n);

/* A random open file; -1 if it is closed. */
int fuzz_file(struct fuzz *f);
/* An unusual address. */
__u64 fuzz_address(struct fuzz *f);
__u32 fuzz_length(struct fuzz *f);

/* A field of a structure, and the values that it can get. */
struct fuzz_field {
	struct {
		unsigned short at, size;
	};
	enum {
		FUZZ_ANY,		/* any value */
		FUZZ_BIT,		/* one bit is set */
		FUZZ_ADDRESS,		/* fuzz_address() */
		FUZZ_AREA_ADDRESS,	/* an address in fuzz.area */
		FUZZ_LENGTH,		/* fuzz_length() */
		FUZZ_LIST,		/* one of @list */
	} kind;
	__u64		list[12];	/* ends before a 0 that is not first */
};

#define FUZZ_PLACE(member)	{ (uintptr_t)&(member), sizeof(member) }
#define FUZZ_FIELD(type, member, ...)					\
	{ FUZZ_PLACE(((type *)0)->member), __VA_ARGS__ }

/* Give one of the fields a new value. */
void fuzz_bend(struct fuzz *f, void *base, const struct fuzz_field *fields,
	       unsigned int nr);

/* Calls with documented errnos. */
enum fuzz_call {
	FUZZ_COMMAND, FUZZ_CLAIM, FUZZ_UNCLAIM, FUZZ_MMAP, FUZZ_ALLOC,
};

bool fuzz_is_documented(enum fuzz_call call, int err);

/* uq_fuzz_cmd.c */

/* Ranges of Dataset Management and Copy; see fuzz_harmless(). */
#define FUZZ_RANGES	(3 * 4096u)
void fuzz_fill_ranges(unsigned char *ranges);
/* Fill in a random command for an ioctl. */
void fuzz_command(struct fuzz *f, unsigned int slot, bool vec,
		  struct nvme_uring_cmd *c);
/* Create a ring, use it and destroy it. */
void fuzz_ring(struct fuzz *f);

/* uq_fuzz_map.c */

void fuzz_map_init(void);
/* A random operation on a mapping of a completion queue. */
void fuzz_map(struct fuzz *f);
void fuzz_claim(struct fuzz *f, unsigned int slot);
void fuzz_unclaim(struct fuzz *f, unsigned int slot);
void fuzz_limit(struct fuzz *f, unsigned int nr, unsigned int slot);
/* Allocate memory for an open file. */
void fuzz_alloc(struct fuzz *f, unsigned int slot);
/* Is the address in a mapping of a completion queue? I/O must not use these. */
bool fuzz_is_mapped(const struct fuzz *f, __u64 addr);

/* uq_fuzz_ioctl.c */

void fuzz_ioctl(struct fuzz *f);
void fuzz_attr(struct fuzz *f);

#endif /* SELFTESTS_UQ_FUZZ_H */
