/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The fuzzer of NVMe user queues: what its files share.
 *
 *   uq_fuzz.c		processes, everything that is done to a node but what
 *			follows, and what must be true at the end
 *   uq_fuzz_cmd.c	commands, and rings to send them through
 *   uq_fuzz_map.c	claims, mappings of completion queues, limits
 *   uq_fuzz_ioctl.c	ioctls
 *   uq_fuzz_attr.c	attributes
 */
#ifndef SELFTESTS_UQ_FUZZ_H
#define SELFTESTS_UQ_FUZZ_H

#include "kselftest.h"
#include "uq_random.h"

/*
 * The blocks of each namespace that are written to, and the most at once. All
 * that comes before and after is to stay as it is.
 */
#define FUZZ_FIRST	4096u
#define FUZZ_BLOCKS	4096u
#define FUZZ_MOST	256u
/* A block that is beyond the end of any namespace. */
#define FUZZ_BEYOND	0x1000000000000ull

/* So much that few commands in flight share a page: DMA debugging minds. */
#define FUZZ_AREA	(4096u << 10)
#define FUZZ_FDS	8
#define FUZZ_MAPS	4
#define FUZZ_VECS	256
#define FUZZ_VEC	8
#define FUZZ_PATTERN	0xee

/* A node that is fuzzed. */
struct fuzz_target {
	struct uq_node	node;
	bool		emulated;	/* not a device that could be harmed */
};

/* What all processes see. */
struct fuzz_shared {
	unsigned long	done;		/* operations */
	unsigned long	sent;		/* commands among them */
	unsigned long	ended[3];	/* with 0, a status, an errno */
	unsigned long	claimed;	/* with EBUSY, among these */
	unsigned long	maps;		/* mappings */
};

/* One process. */
struct fuzz {
	struct uq_rng	rng;
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
		bool	claimed;	/* by this open file, for certain */
	} file[FUZZ_FDS];

	struct fuzz_map {
		unsigned char *p;	/* NULL if there is none */
		size_t	len;
		bool	info;
	} map[FUZZ_MAPS];

	/* what is read and written, between pages that cannot be written to */
	unsigned char	*area;
	unsigned char	*guard[2];
	/* what a command may be told to read, and an argument of an ioctl */
	unsigned char	*ranges;
	unsigned char	*arg;
	struct iovec	*vec;		/* FUZZ_VECS times FUZZ_VEC of them */
	void		*hole;		/* a page that cannot be read */
};

/* Something went wrong: say so, and how to get there again. */
__printf(2, 3)
void fuzz_bad(struct fuzz *f, const char *fmt, ...);
void fuzz_count(struct fuzz *f, unsigned int n);

/* A file that is open, by chance; -1 if there is none. */
int fuzz_file(struct fuzz *f);
/* An address that no sane program would pass. */
__u64 fuzz_address(struct fuzz *f);
__u32 fuzz_length(struct fuzz *f);

/* uq_fuzz_cmd.c */

/* What DSM and Copy are told to work on; see fuzz_harmless(). */
#define FUZZ_RANGES	(3 * 4096u)
void fuzz_fill_ranges(unsigned char *ranges);
/* A command for an ioctl. */
void fuzz_command(struct fuzz *f, unsigned int slot, bool vec,
		  struct nvme_uring_cmd *c);
/* A ring, from its beginning to its end. */
void fuzz_ring(struct fuzz *f);

/* uq_fuzz_map.c */

void fuzz_map_init(void);
/* Something with mappings of a completion queue. */
void fuzz_map(struct fuzz *f);
void fuzz_claim(struct fuzz *f, unsigned int slot);
void fuzz_limit(struct fuzz *f, unsigned int nr, unsigned int slot);
/* Memory for an open file. */
void fuzz_alloc(struct fuzz *f, unsigned int slot);
/* Is it in a mapping of a completion queue, which no I/O may use? */
bool fuzz_is_mapped(const struct fuzz *f, __u64 addr);

/* uq_fuzz_ioctl.c */

void fuzz_ioctl(struct fuzz *f);

/* uq_fuzz_attr.c */

void fuzz_attr_path(const struct uq_node *node, const char *attr, char *buf,
		    size_t len);
/* The @n'th attribute of a node; false if there are fewer. */
bool fuzz_nth_attr(const struct uq_node *node, unsigned int n, char *name,
		   size_t len);
void fuzz_attr(struct fuzz *f);

#endif /* SELFTESTS_UQ_FUZZ_H */
