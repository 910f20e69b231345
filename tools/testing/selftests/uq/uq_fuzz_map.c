// SPDX-License-Identifier: GPL-2.0
/*
 * The fuzzer of NVMe user queues: claims, mappings of completion queues,
 * limits.
 *
 * Check results exactly: each errno must be documented for the case in
 * <linux/nvme_uq.h>, and only valid operations may succeed.
 */
#define _GNU_SOURCE
#include <linux/nvme_uq.h>
#include <setjmp.h>

#include "uq_fuzz.h"

#define PAGE	((size_t)sysconf(_SC_PAGESIZE))

/* x86 only */
#ifndef MAP_32BIT
#define MAP_32BIT	0
#endif

/* -- claims */

static bool may_claim(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && (flags & O_ACCMODE) == O_RDWR;
}

void fuzz_claim(struct fuzz *f, unsigned int slot)
{
	int fd = f->file[slot].fd;
	int ret = ioctl(fd, NVME_UQ_IOCTL_CLAIM, fuzz_address(f)) ? -errno : 0;
	bool may = may_claim(fd);

	if ((!ret && !may) || (ret == -EACCES && may) ||
	    (ret && ret != -EACCES && !fuzz_is_documented(FUZZ_CLAIM, -ret)))
		fuzz_bad(f, "a claim: %d", ret);
	/* if not, another process has it too, or root has ended the claim */
	f->file[slot].claimed = !ret;
}

void fuzz_unclaim(struct fuzz *f, unsigned int slot)
{
	if (ioctl(f->file[slot].fd, NVME_UQ_IOCTL_UNCLAIM, fuzz_address(f)) &&
	    !fuzz_is_documented(FUZZ_UNCLAIM, errno))
		fuzz_bad(f, "the end of a claim: %d", -errno);
	f->file[slot].claimed = false;
}

/* -- limits */

static bool good_limit(const struct fuzz *f, unsigned int slot, __u32 limit)
{
	return limit && limit <= f->target[f->file[slot].target].node.depth;
}

static bool good_set(const struct fuzz *f, unsigned int slot,
		     const struct nvme_uq_limit *l)
{
	if (l->scope == NVME_UQ_LIMIT_QUEUE && !f->root)
		return false;
	return l->scope <= NVME_UQ_LIMIT_QUEUE && !l->flags && !l->in_flight &&
		!l->waiting && !l->reserved && good_limit(f, slot, l->limit);
}

static void check_get(struct fuzz *f, unsigned int slot,
		      const struct nvme_uq_limit *l)
{
	if (l->scope > NVME_UQ_LIMIT_QUEUE || !good_limit(f, slot, l->limit))
		fuzz_bad(f, "limit %u of scope %u", l->limit, l->scope);
	if (l->in_flight && !good_limit(f, slot, l->in_flight))
		fuzz_bad(f, "%u commands in flight", l->in_flight);
}

/* Is the errno correct for these arguments? */
static bool is_limit_error(const struct fuzz *f, unsigned int slot,
			   const struct nvme_uq_limit *l, bool set, int err)
{
	bool invalid = l->scope > NVME_UQ_LIMIT_QUEUE || l->flags ||
		l->reserved || (set && (l->in_flight || l->waiting));

	switch (err) {
	case EBADF:
		return true;
	case EACCES:
		return set && !f->root;
	case EINVAL:
		return invalid || (set && !good_limit(f, slot, l->limit));
	case ENXIO:
		return !invalid;
	}
	return false;
}

void fuzz_limit(struct fuzz *f, unsigned int nr, unsigned int slot)
{
	static const __u32 limits[] = {
		0, 1, 2, 15, 16, 298, 299, 300, 1023, 4096, ~0u,
	};
	bool set = nr == NVME_UQ_IOCTL_SET_LIMIT;
	struct nvme_uq_limit was, l = {
		.scope		= uq_1in(&f->rng, 16) ? uq_rnd(&f->rng) :
			uq_below(&f->rng, 3),
		.limit		= uq_1in(&f->rng, 4) ? uq_rnd(&f->rng) :
			UQ_PICK(&f->rng, limits),
		.flags		= uq_1in(&f->rng, 16) ? uq_rnd(&f->rng) : 0,
		.in_flight	= uq_1in(&f->rng, 16) ? uq_rnd(&f->rng) : 0,
		.waiting	= uq_1in(&f->rng, 16) ? uq_rnd(&f->rng) : 0,
		.reserved	= uq_1in(&f->rng, 16) ? uq_rnd(&f->rng) : 0,
	};

	was = l;
	if (ioctl(f->file[slot].fd, nr, &l)) {
		if (!is_limit_error(f, slot, &was, set, errno))
			fuzz_bad(f, "ioctl %#x, scope %u, limit %u: %d", nr,
				 was.scope, was.limit, -errno);
		return;
	}
	if (set && !good_set(f, slot, &was))
		fuzz_bad(f, "limit %u of scope %u was set", was.limit,
			 was.scope);
	if (!set)
		check_get(f, slot, &l);
}

/* -- memory of open files */

void fuzz_alloc(struct fuzz *f, unsigned int slot)
{
	static const __u64 sizes[] = {
		1, 4096, 4097, 20480, 65536, 100000, 1 << 20, 3 << 20, 0,
		1ull << 40, 1ull << 63, ~0ull, ~0ull - 4095,
	};
	struct nvme_uq_memory m = {
		.size	= UQ_PICK(&f->rng, sizes),
		.piece	= uq_rnd(&f->rng),
		.flags	= uq_1in(&f->rng, 16) ? uq_rnd(&f->rng) : 0,
	};
	bool good = m.size && !m.flags;
	__u64 size = m.size;
	int ret;

	ret = ioctl(f->file[slot].fd, NVME_UQ_IOCTL_ALLOC_MEMORY, &m) ? -errno :
		0;
	if (ret == -EINVAL)
		good = !good;
	else if (!ret)	/* a size of 0 asks for the size of the memory */
		good = !m.flags && m.size && m.size >= size && m.piece &&
			m.piece <= m.size;
	else
		good = fuzz_is_documented(FUZZ_ALLOC, -ret);
	if (good)
		return;
	fuzz_bad(f, "memory: %d for %llu bytes, flags %#llx; %llu in pieces of %llu",
		 ret, size, m.flags, m.size, m.piece);
}

/* -- mappings */

static sigjmp_buf away;

static void on_bus_error(int sig)
{
	siglongjmp(away, sig);
}

void fuzz_map_init(void)
{
	signal(SIGBUS, on_bus_error);
}

bool fuzz_is_mapped(const struct fuzz *f, __u64 addr)
{
	unsigned int i;

	for (i = 0; i < FUZZ_MAPS; i++)
		if (f->map[i].p && addr >= (uintptr_t)f->map[i].p &&
		    addr < (uintptr_t)f->map[i].p + f->map[i].len)
			return true;
	return false;
}

/* The information page is consistent at any time. */
static void check_info(struct fuzz *f, const struct nvme_uq_info *info)
{
	__u32 head = __atomic_load_n(&info->head, __ATOMIC_ACQUIRE);
	__u32 state = __atomic_load_n(&info->state, __ATOMIC_ACQUIRE);
	__u32 at = head & NVME_UQ_HEAD_MASK;

	if (info->version != NVME_UQ_INFO_V1 || info->size != sizeof(*info) ||
	    info->entry_size != sizeof(struct nvme_uq_cqe) ||
	    state > NVME_UQ_STATE_GONE)
		fuzz_bad(f, "an information page of version %u, size %u, %u an entry, state %u",
			 info->version, info->size, info->entry_size, state);
	/* the size of these queues does not change */
	if (head & ~(NVME_UQ_HEAD_MASK | NVME_UQ_HEAD_PHASE) ||
	    (at != NVME_UQ_HEAD_NONE && at >= info->entries))
		fuzz_bad(f, "head %#x of %u entries", head, info->entries);
}

/* Entries may raise SIGBUS; the information page must not. */
static void look_at(struct fuzz *f, const struct fuzz_map *m)
{
	char byte;
	size_t i;

	if (sigsetjmp(away, 1)) {
		if (m->info)
			fuzz_bad(f, "an information page has gone");
		return;
	}
	for (i = 0; i < m->len; i += 64) {
		byte = __atomic_load_n(m->p + i, __ATOMIC_RELAXED);
		/* the compiler keeps the load */
		asm volatile("" : : "r" (byte));
	}
	if (m->info)
		check_info(f, (const struct nvme_uq_info *)m->p);
}

static off_t any_offset(struct fuzz *f)
{
	static const off_t odd[] = {
		4096, 16384, NVME_UQ_OFF_INFO + 4096, NVME_UQ_OFF_INFO - 4096,
		1ll << 32, 1ll << 40, (1ull << 63) - 4096, 1, 512,
	};

	if (uq_1in(&f->rng, 8))
		return UQ_PICK(&f->rng, odd);
	if (uq_1in(&f->rng, 8))
		return uq_rnd(&f->rng) & ~(__u64)(PAGE - 1);
	return uq_1in(&f->rng, 2) ? NVME_UQ_OFF_INFO : NVME_UQ_OFF_CQ;
}

static int any_prot(struct fuzz *f)
{
	static const int prots[] = {
		PROT_NONE, PROT_WRITE, PROT_READ | PROT_WRITE, PROT_EXEC,
		PROT_READ | PROT_EXEC, PROT_READ | PROT_WRITE | PROT_EXEC, ~0,
	};

	return uq_1in(&f->rng, 4) ? UQ_PICK(&f->rng, prots) : PROT_READ;
}

static int any_map_flags(struct fuzz *f)
{
	static const int more[] = {
		0, 0, 0, MAP_POPULATE, MAP_LOCKED, MAP_NORESERVE, MAP_NONBLOCK,
		MAP_POPULATE | MAP_NONBLOCK, MAP_32BIT,
	};
	static const int kinds[] = {
		MAP_SHARED, MAP_SHARED, MAP_SHARED, MAP_SHARED, MAP_SHARED,
		MAP_SHARED, MAP_SHARED_VALIDATE, MAP_PRIVATE, 0,
	};

	return UQ_PICK(&f->rng, kinds) | UQ_PICK(&f->rng, more);
}

static size_t pages_of(const struct uq_node *node)
{
	size_t len = (node->depth + 1) * sizeof(struct nvme_uq_cqe);

	return (len + PAGE - 1) / PAGE;
}

struct attempt {
	unsigned int	slot;
	int		prot, flags;
	size_t		len;
	off_t		off;
};

/* May the open file with the claim create this mapping? */
static bool good_attempt(const struct fuzz *f, const struct attempt *a)
{
	const struct uq_node *node = &f->target[f->file[a->slot].target].node;
	size_t pages = (a->len + PAGE - 1) / PAGE;
	bool shared = (a->flags & MAP_TYPE) == MAP_SHARED ||
		(a->flags & MAP_TYPE) == MAP_SHARED_VALIDATE;

	if (a->prot & ~PROT_READ || !shared || !pages)
		return false;
	if (a->off == NVME_UQ_OFF_INFO)
		return pages == 1;
	return a->off == NVME_UQ_OFF_CQ && pages <= pages_of(node);
}

static void judge_attempt(struct fuzz *f, const struct attempt *a, int ret)
{
	bool good = good_attempt(f, a), ok = fuzz_is_documented(FUZZ_MMAP, -ret);

	if (!ret)
		ok = good;
	else if (ret == -EACCES || ret == -EINVAL)
		ok = !good || !f->file[a->slot].claimed;
	if (!ok)
		fuzz_bad(f, "mapping: %d, protection %#x, flags %#x, %zu bytes at %#llx",
			 ret, a->prot, a->flags, a->len,
			 (unsigned long long)a->off);
}

/*
 * Prefer a file that has claimed its queue. If there is none, claim a queue in
 * half of the cases.
 */
static unsigned int any_claim(struct fuzz *f)
{
	unsigned int i, slot = 0;

	for (i = 0; i < FUZZ_FDS; i++) {
		slot = uq_below(&f->rng, FUZZ_FDS);
		if (f->file[slot].claimed)
			return slot;
	}
	if (uq_1in(&f->rng, 2))
		fuzz_claim(f, slot);
	return slot;
}

static void new_map(struct fuzz *f, struct fuzz_map *m)
{
	static const size_t lens[] = {
		4096, 4096, 4096, 8192, 16384, 20480, 1 << 20, 1, 4097, 0,
		1ul << 46, ~0ul, ~0ul << 12,
	};
	struct attempt a = {
		.slot	= any_claim(f),
		.prot	= any_prot(f),
		.flags	= any_map_flags(f),
		.len	= UQ_PICK(&f->rng, lens),
		.off	= any_offset(f),
	};
	void *p;

	p = mmap(NULL, a.len, a.prot, a.flags, f->file[a.slot].fd, a.off);
	judge_attempt(f, &a, p == MAP_FAILED ? -errno : 0);
	if (p == MAP_FAILED)
		return;
	m->p = p;
	m->len = (a.len + PAGE - 1) & ~(size_t)(PAGE - 1);
	m->info = a.off == NVME_UQ_OFF_INFO;
	__atomic_fetch_add(&f->all->maps, 1, __ATOMIC_RELAXED);
	if (a.prot == PROT_NONE)
		mprotect(m->p, m->len, PROT_READ);
}

static void unmap(struct fuzz_map *m, size_t len)
{
	munmap(m->p, len);
	m->p += len;
	m->len -= len;
	if (!m->len)
		m->p = NULL;
}

static void protect(struct fuzz *f, const struct fuzz_map *m)
{
	int prot = any_prot(f);

	if (!mprotect(m->p, m->len, prot) && prot & ~PROT_READ)
		fuzz_bad(f, "protection of a mapping became %#x", prot);
	if (mprotect(m->p, m->len, PROT_READ) && errno != ENOMEM)
		fuzz_bad(f, "a mapping cannot be read: %d", -errno);
}

static void move(struct fuzz *f, struct fuzz_map *m)
{
	void *p;

	p = mremap(m->p, m->len, m->len + PAGE, MREMAP_MAYMOVE);
	if (p != MAP_FAILED) {
		fuzz_bad(f, "a mapping has grown");
		return;
	}
	p = mremap(m->p, 0, m->len, MREMAP_MAYMOVE);
	if (p != MAP_FAILED) {
		fuzz_bad(f, "a mapping was copied");
		return;
	}
	if (m->len > PAGE) {
		p = mremap(m->p, m->len, m->len - PAGE, MREMAP_MAYMOVE);
		if (p == MAP_FAILED)
			return;
		m->p = p;
		m->len -= PAGE;
	}
}

static void advise(struct fuzz *f, const struct fuzz_map *m)
{
	static const struct {
		int advice;
		bool never;	/* must fail for these mappings */
	} all[] = {
		{ MADV_DONTNEED }, { MADV_FREE }, { MADV_REMOVE },
		{ MADV_WILLNEED }, { MADV_COLD }, { MADV_PAGEOUT },
		{ MADV_HUGEPAGE }, { MADV_MERGEABLE }, { MADV_POPULATE_READ },
		{ MADV_DOFORK, true }, { MADV_DODUMP, true },
		{ MADV_POPULATE_WRITE, true },
	};
	unsigned int i = uq_below(&f->rng, ARRAY_SIZE(all));

	if (!madvise(m->p, m->len, all[i].advice) && all[i].never)
		fuzz_bad(f, "advice %d was taken for a mapping",
			 all[i].advice);
}

/* A mapping is kernel memory, which no I/O may use. */
static void use_as_buffer(struct fuzz *f, const struct fuzz_map *m)
{
	struct iovec iov = { m->p, m->len };
	struct nvme_passthru_cmd c = {
		.opcode		= uq_1in(&f->rng, 2) ? CMD_READ : CMD_COMPARE,
		.addr		= (uintptr_t)m->p,
		.data_len	= PAGE,
	};
	unsigned int slot = uq_below(&f->rng, FUZZ_FDS);
	const struct uq_node *node = &f->target[f->file[slot].target].node;
	struct io_uring ring;

	c.nsid = node->nsid;
	c.cdw10 = FUZZ_FIRST;
	c.cdw12 = PAGE / node->ns.lba - 1;
	if (!node->ns.ms && ioctl(f->file[slot].fd, NVME_IOCTL_IO_CMD, &c) >= 0)
		fuzz_bad(f, "a mapping was used for I/O");
	if (io_uring_queue_init(1, &ring, 0))
		return;
	if (!io_uring_register_buffers(&ring, &iov, 1))
		fuzz_bad(f, "a mapping was registered as a buffer");
	io_uring_queue_exit(&ring);
}

/* Access each page, ignoring SIGBUS. */
static void touch(unsigned char *p, size_t len, int prot)
{
	size_t i;

	if (sigsetjmp(away, 1))
		return;
	for (i = 0; i < len && prot & PROT_READ; i += PAGE) {
		if (prot & PROT_WRITE)
			__atomic_fetch_add(p + i, 1, __ATOMIC_RELAXED);
		else
			__atomic_load_n(p + i, __ATOMIC_RELAXED);
	}
}

/* Map memory of an open file, access it and unmap it. */
static void map_memory(struct fuzz *f)
{
	static const size_t lens[] = { 4096, 8192, 65536, 1 << 20, 4 << 20, 1 };
	int prot = uq_1in(&f->rng, 2) ? PROT_READ | PROT_WRITE : any_prot(f);
	int flags = any_map_flags(f), type = flags & MAP_TYPE;
	size_t len = UQ_PICK(&f->rng, lens);
	unsigned char *p;

	p = mmap(NULL, len, prot, flags, fuzz_file(f),
		 NVME_UQ_OFF_MEMORY + uq_below(&f->rng, 20) * PAGE);
	if (p == MAP_FAILED)
		return;
	__atomic_fetch_add(&f->all->maps, 1, __ATOMIC_RELAXED);
	if (prot & PROT_EXEC || (type != MAP_SHARED &&
				 type != MAP_SHARED_VALIDATE))
		fuzz_bad(f, "memory: mapped, protection %#x, flags %#x", prot,
			 flags);
	if (!mprotect(p, len, PROT_EXEC))
		fuzz_bad(f, "memory that can be executed");
	touch(p, len, prot);
	munmap(p, len);
}

void fuzz_map(struct fuzz *f)
{
	struct fuzz_map *m = &f->map[uq_below(&f->rng, FUZZ_MAPS)];

	if (uq_1in(&f->rng, 8)) {
		map_memory(f);
		return;
	}
	if (!m->p) {
		new_map(f, m);
		return;
	}
	switch (uq_below(&f->rng, 8)) {
	case 0:
		protect(f, m);
		break;
	case 1:
		move(f, m);
		break;
	case 2:
		advise(f, m);
		break;
	case 3:
		use_as_buffer(f, m);
		break;
	case 4:
		unmap(m, PAGE);
		return;
	case 5:
		unmap(m, m->len);
		return;
	default:
		mlock(m->p, m->len);
		msync(m->p, m->len, MS_SYNC);
		munlock(m->p, m->len);
		break;
	}
	look_at(f, m);
}
