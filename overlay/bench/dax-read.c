// SPDX-License-Identifier: GPL-2.0
/*
 * Instructions per read of a file on a DAX file system.
 *
 * Variants of the same read of the same file, in the same boot:
 *
 *   generic    dax_read.fast off, and ->read taken away from the open file
 *              by noread.ko, as in a kernel without our fast lookups
 *   read_iter  the same with dax_read.fast on: pread() arrives at
 *              ->read_iter, which has the fast lookup
 *   read       dax_read.fast on: pread() arrives at ->read
 *   off        dax_read.fast off: the cost of ->read on a system with the
 *              fast lookups switched off
 *
 * A cell is measured in runs; between two runs all the other cells were
 * measured and the parameter was switched off and on. A run is the median of
 * some rounds, each a handful of reads, short enough that the timer ticks in
 * few of them. The output is one line for each run of each cell:
 *
 *	cell BENCH VARIANT syscall=.. size=.. extents=.. hole=.. threads=.. run=.. insn=..
 *
 * All data is compared with the expected content, outside of the counted part.
 *
 * Overwrites of written blocks (bench dax-write) have two variants: "generic", with
 * dax_read.fast off, and "write", with it on.
 *
 * Bench nodax-read has files without DAX in the same file system, in variant "generic".
 *
 * With "lines", readers on processors of their own take turns under the plugin
 * that follows cache lines, see turns.h. There are two more variants then:
 *
 *   unlocked   read, with ext4.dax_unlocked_read on
 *   pagecache  a file of the same file system without DAX, all of it cached
 *
 * ext4 and XFS must be mounted with -o dax=inode.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/io_uring.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "icount.h"
#include "turns.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define BLOCK		4096
#define HOLE_BLOCKS	16
#define MAX_SIZE	(HOLE_BLOCKS * BLOCK)
#define PLACES		1024
#define ROOM_TO_GROW	16384	/* blocks, unwritten until they are appended */
#define ROUNDS		15
#define PROFILE_ROUNDS	9
/* Rounds of turns, and those before them that warm up. */
#define TURN_ROUNDS	12
#define TURN_WARM	4

#define PARAMETER	"/sys/module/dax_read/parameters/fast"
#define UNLOCKED	"/sys/module/ext4/parameters/dax_unlocked_read"
#define NOREAD		"/sys/module/noread/parameters/fd"

/* EROFS has no fast lookup, so the parameter changes nothing there. */
#define READ_ONLY_DATA	"data-1"

enum call {
	GETPPID, PREAD, PREADV, PREADV_2, READ_FIXED, SPLICE, APPENDED, PWRITE,
	DIRECT, DIRECT_WRITE, UNCACHED,
};

/*
 * Of "appended" only the pread() counts, not the block appended before it. Of
 * "uncached" only the pread() counts, not dropping the page before it.
 */
static const char * const calls[] = {
	"getppid", "pread", "preadv", "preadv-2", "read-fixed", "splice",
	"appended", "pwrite", "direct", "direct-write", "uncached",
};

struct variant {
	const char *name;
	bool fast;		/* the parameter */
	bool noread;		/* through the descriptor without ->read */
	bool unlocked;		/* ext4.dax_unlocked_read */
};

static const struct variant generic = { "generic", false, true };
static const struct variant read_iter = { "read_iter", true, true };
static const struct variant read_op = { "read", true, false };
static const struct variant write_op = { "write", true, false };
static const struct variant off = { "off", false, false };
static const struct variant unlocked = { "unlocked", true, false, true };
static const struct variant pagecache = { "pagecache", false, false };

/* A file, and where in it to read. */
struct layout {
	int extents;
	bool hole;
	int fd;
	int fd_noread;
	off_t end;		/* where blocks are appended */
	off_t places[PLACES];
};

static struct layout layouts[] = {
	{ 1, false }, { 100, false }, { 10000, false },
	{ 1, true }, { 100, true }, { 10000, true },
};

/* A file of its own to append to, so that the others stay as they are. */
static struct layout grown = { 1, false };

/* One to write over. */
static struct layout over = { 1, false };

/* Those without DAX. */
static struct layout cached = { 1, false }, direct = { 1, false };

struct cell {
	const char *bench;
	enum call call;
	const struct variant *variant;
	struct layout *layout;
	size_t size;
	int threads;
};

static struct cell cells[512];
static int nr_cells;
static const char *fs = "ext4";
static bool has_parameter, has_read, read_only;
static char *buf;

/* An io_uring with room for one request, and what splice() goes through. */
static struct {
	int fd;
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqes;
	unsigned int *sq_tail, *cq_head, *cq_tail, cq_mask;
} ring;
static int pipe_fds[2];

static void __attribute__((format(printf, 1, 2), noreturn))
die(const char *fmt, ...)
{
	int err = errno;
	va_list args;

	va_start(args, fmt);
	printf("error ");
	vprintf(fmt, args);
	printf("%s%s\n", err ? ": " : "", err ? strerror(err) : "");
	va_end(args);
	fflush(stdout);
	_exit(1);
}

static bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok;

	if (fd < 0)
		return false;
	ok = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	if (!ok && errno != ENODATA)
		die("%s", path);
	close(fd);
	return ok;
}

static void set_fast(bool fast)
{
	if (has_parameter && !write_text(PARAMETER, fast ? "1" : "0"))
		die("%s", PARAMETER);
}

/* -- files ---------------------------------------------------------------- */

/* The content at an offset: its own number, scrambled, never zero. */
static uint64_t word_at(off_t offset)
{
	return (uint64_t)offset * 0x9e3779b97f4a7c15ull | 1;
}

static void fill(char *p, off_t offset, size_t size)
{
	for (size_t i = 0; i < size; i += 8) {
		uint64_t word = word_at(offset + i);

		memcpy(p + i, &word, 8);
	}
}

static void write_block(int fd, long block)
{
	static char data[BLOCK];

	fill(data, (off_t)block * BLOCK, BLOCK);
	if (pwrite(fd, data, BLOCK, (off_t)block * BLOCK) != BLOCK)
		die("writing a block");
}

static int create(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0)
		die("%s", name);
	return fd;
}

static void allocate(int fd, long block, long nr)
{
	if (fallocate(fd, 0, (off_t)block * BLOCK, (off_t)nr * BLOCK))
		die("fallocate");
}

/*
 * Single-block extents with nothing between them: two files take turns at
 * allocating one block, so that neither gets two neighbours. fallocate() of
 * one extent is not rounded up, but write() would be.
 */
static void make_data(int fd, int extents)
{
	int other = create("other");

	if (extents == 1)
		allocate(fd, 0, 256);
	for (int i = 0; i < extents && extents > 1; i++) {
		allocate(fd, i, 1);
		allocate(other, i, 1);
	}
	for (int i = 0; i < (extents == 1 ? 256 : extents); i++)
		write_block(fd, i);
	close(other);
	unlink("other");
}

/* A block of data and a hole as large as the largest read, so many times. */
static void make_holes(int fd, int extents)
{
	const long stride = 1 + HOLE_BLOCKS;

	for (int i = 0; i < extents; i++)
		write_block(fd, i * stride);
	if (ftruncate(fd, extents * stride * BLOCK))
		die("ftruncate");
}

static int count_extents(int fd)
{
	struct fiemap map = { .fm_length = FIEMAP_MAX_OFFSET, .fm_flags = FIEMAP_FLAG_SYNC };

	if (ioctl(fd, FS_IOC_FIEMAP, &map))
		die("FIEMAP");
	return map.fm_mapped_extents;
}

static unsigned int next_random(void)
{
	static uint64_t state = 42;

	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return state >> 33;
}

/* Offsets of reads that stay within the data, or the hole. */
static void choose_places(struct layout *l)
{
	long blocks = l->extents == 1 ? 256 : l->extents;

	for (int i = 0; i < PLACES; i++) {
		long block;

		if (l->hole)
			block = 1 + next_random() % l->extents * (1 + HOLE_BLOCKS);
		else
			block = next_random() % (blocks - HOLE_BLOCKS + 1);
		l->places[i] = (off_t)block * BLOCK;
	}
}

/* Fill ext4's extent status cache: reads of a warm file are measured. */
static void warm_up(struct layout *l)
{
	for (int i = 0; i < PLACES; i++)
		for (int j = 0; j < HOLE_BLOCKS; j++)
			if (pread(l->fd, buf, 1, l->places[i] + (off_t)j * BLOCK) != 1)
				die("warming up");
}

static void make_layout(struct layout *l)
{
	bool again = l->fd;
	char name[32];
	int extents;

	snprintf(name, sizeof(name), "%s-%d", l == &grown ? "grown" :
		 l == &over ? "over" : l == &cached ? "cached" :
		 l == &direct ? "direct" :
		 l->hole ? "holes" : "data", l->extents);
	if (again && unlink(name))
		die("unlink");
	l->fd = create(name);
	if (l->hole)
		make_holes(l->fd, l->extents);
	else
		make_data(l->fd, l->extents);
	if (fsync(l->fd))
		die("fsync");
	errno = 0;
	extents = count_extents(l->fd);
	if (extents != l->extents)
		die("%s has %d extents, not %d", name, extents, l->extents);
	l->end = lseek(l->fd, 0, SEEK_END) / BLOCK;
	if (!again)
		choose_places(l);
	warm_up(l);
	l->fd_noread = open(name, O_RDONLY | O_CLOEXEC);
	if (l->fd_noread < 0)
		die("%s", name);
}

/* The data of a file system that is made from a directory. */
static void make_source(const char *dir)
{
	int fd;

	if (chdir(dir))
		die("%s", dir);
	fd = create(READ_ONLY_DATA);
	for (int i = 0; i < 256; i++)
		write_block(fd, i);
	close(fd);
}

/* That data in the read-only file system. */
static void open_source(struct layout *l)
{
	l->fd = open(READ_ONLY_DATA, O_RDONLY | O_CLOEXEC);
	if (l->fd < 0)
		die("%s", READ_ONLY_DATA);
	l->fd_noread = l->fd;
	choose_places(l);
	warm_up(l);
}

/* Whether there was a ->read to take away. */
static bool take_read_away(int fd)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", fd);
	errno = 0;
	if (access(NOREAD, W_OK))
		die("the module noread is not loaded");
	return write_text(NOREAD, text);
}

static void make_dax_layout(struct layout *l)
{
	make_layout(l);
	if (has_parameter)
		has_read = take_read_away(l->fd_noread);
}

/* -- ways to read --------------------------------------------------------- */

static void *ring_map(size_t len, off_t what)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_POPULATE, ring.fd, what);

	if (p == MAP_FAILED)
		die("mapping the ring");
	return p;
}

/* With the buffer registered, the file not. */
static void open_ring(void)
{
	struct io_uring_params p = {};
	struct iovec iov = { buf, MAX_SIZE };
	char *sq, *cq;

	ring.fd = syscall(__NR_io_uring_setup, 1, &p);
	if (ring.fd < 0)
		die("io_uring_setup");
	sq = ring_map(p.sq_off.array + p.sq_entries * sizeof(__u32),
		      IORING_OFF_SQ_RING);
	cq = ring_map(p.cq_off.cqes + p.cq_entries * sizeof(*ring.cqes),
		      IORING_OFF_CQ_RING);
	ring.sqe = ring_map(p.sq_entries * sizeof(*ring.sqe), IORING_OFF_SQES);
	ring.sq_tail = (void *)(sq + p.sq_off.tail);
	ring.cq_head = (void *)(cq + p.cq_off.head);
	ring.cq_tail = (void *)(cq + p.cq_off.tail);
	ring.cq_mask = *(unsigned int *)(cq + p.cq_off.ring_mask);
	ring.cqes = (void *)(cq + p.cq_off.cqes);
	/* Of the one entry, always. */
	*(unsigned int *)(sq + p.sq_off.array) = 0;
	if (syscall(__NR_io_uring_register, ring.fd, IORING_REGISTER_BUFFERS,
		    &iov, 1))
		die("registering the buffer");
}

static ssize_t read_fixed(int fd, size_t size, off_t place)
{
	unsigned int head;

	*ring.sqe = (struct io_uring_sqe) {
		.opcode = IORING_OP_READ_FIXED,
		.fd = fd,
		.addr = (unsigned long)buf,
		.len = size,
		.off = place,
	};
	__atomic_store_n(ring.sq_tail, *ring.sq_tail + 1, __ATOMIC_RELEASE);
	if (syscall(__NR_io_uring_enter, ring.fd, 1, 1, IORING_ENTER_GETEVENTS,
		    NULL, 0) != 1)
		return -1;
	head = *ring.cq_head;
	if (head == __atomic_load_n(ring.cq_tail, __ATOMIC_ACQUIRE))
		return -1;
	__atomic_store_n(ring.cq_head, head + 1, __ATOMIC_RELEASE);
	return ring.cqes[head & ring.cq_mask].res;
}

/* Move data that fits into an empty pipe, and out of it again. */
static ssize_t read_splice(int fd, size_t size, off_t place)
{
	if (splice(fd, &place, pipe_fds[1], NULL, size, 0) != (ssize_t)size)
		return -1;
	return read(pipe_fds[0], buf, size);
}

/* The cost of an append does not count. */
static uint64_t read_appended(struct layout *l, int fd, size_t size, off_t place)
{
	uint64_t start;

	write_block(l->fd, l->end++);
	start = insns();
	if (pread(fd, buf, size, place) != (ssize_t)size)
		die("pread");
	return insns() - start;
}

/* Read a page that is no longer in the page cache. */
static uint64_t read_uncached(int fd, size_t size, off_t place)
{
	uint64_t start;

	errno = posix_fadvise(fd, place, size, POSIX_FADV_DONTNEED);
	if (errno)
		die("posix_fadvise");
	start = insns();
	if (pread(fd, buf, size, place) != (ssize_t)size)
		die("pread");
	return insns() - start;
}

/* -- one measurement ------------------------------------------------------ */

static int cell_fd(const struct cell *c)
{
	if (c->call == PWRITE || c->call == DIRECT_WRITE)
		return c->layout->fd;
	return c->variant->noread ? c->layout->fd_noread : c->layout->fd;
}

static int reads_per_round(const struct cell *c)
{
	if (c->call == APPENDED)
		return 8;
	return c->size > 4096 ? 8 : c->size == 4096 ? 32 : 64;
}

/* Run so many operations; return their instructions with the loop. */
static __attribute__((noinline)) uint64_t
operate(const struct cell *c, int first, int nr)
{
	const off_t *place = c->layout->places + first % (PLACES - nr);
	struct iovec iov = { buf, c->size };
	struct iovec two[] = {
		{ buf, c->size / 2 },
		{ buf + c->size / 2, c->size - c->size / 2 },
	};
	size_t size = c->size;
	int fd = cell_fd(c);
	uint64_t sum = 0, start = insns();

	switch (c->call) {
	case GETPPID:
		for (int i = 0; i < nr; i++)
			getppid();
		break;
	case PREAD:
	case DIRECT:
		for (int i = 0; i < nr; i++)
			if (pread(fd, buf, size, place[i]) != (ssize_t)size)
				die("pread");
		break;
	case PREADV:
		for (int i = 0; i < nr; i++)
			if (preadv(fd, &iov, 1, place[i]) != (ssize_t)size)
				die("preadv");
		break;
	case PREADV_2:
		for (int i = 0; i < nr; i++)
			if (preadv(fd, two, 2, place[i]) != (ssize_t)size)
				die("preadv of two segments");
		break;
	case READ_FIXED:
		for (int i = 0; i < nr; i++)
			if (read_fixed(fd, size, place[i]) != (ssize_t)size)
				die("READ_FIXED");
		break;
	case SPLICE:
		for (int i = 0; i < nr; i++)
			if (read_splice(fd, size, place[i]) != (ssize_t)size)
				die("splice");
		break;
	case APPENDED:
		for (int i = 0; i < nr; i++)
			sum += read_appended(c->layout, fd, size, place[i]);
		return sum;
	case UNCACHED:
		for (int i = 0; i < nr; i++)
			sum += read_uncached(fd, size, place[i]);
		return sum;
	case PWRITE:
	case DIRECT_WRITE:
		for (int i = 0; i < nr; i++)
			if (pwrite(fd, buf, size, place[i]) != (ssize_t)size)
				die("pwrite");
		break;
	}
	return insns() - start;
}

/* Overwrite the data, and restore it. */
static void check_written(const struct cell *c)
{
	off_t place = c->layout->places[7];

	fill(buf, place, c->size);
	operate(c, 7, 1);
	memset(buf, 0xa5, MAX_SIZE);
	if (pread(c->layout->fd, buf, c->size, place) != (ssize_t)c->size)
		die("pread");
}

static void check_bytes(const struct cell *c)
{
	static char want[MAX_SIZE];

	memset(buf, 0x5a, MAX_SIZE);
	operate(c, 7, 1);
	if (c->call == PWRITE || c->call == DIRECT_WRITE)
		check_written(c);
	memset(want, 0, sizeof(want));
	if (!c->layout->hole)
		fill(want, c->layout->places[7], c->size);
	errno = 0;
	if (c->call != GETPPID && memcmp(buf, want, c->size))
		die("%s read wrong bytes: %zu of %s-%d", c->variant->name,
		    c->size, c->layout->hole ? "holes" : "data", c->layout->extents);
}

static double one_reader(const struct cell *c)
{
	int nr = reads_per_round(c);
	double rounds[ROUNDS];

	operate(c, 0, nr);
	for (int i = 0; i < ROUNDS; i++)
		rounds[i] = (double)operate(c, i * nr, nr) / nr;
	return median(rounds, ROUNDS);
}

/*
 * Several readers of one file on the one processor that an instruction
 * counting guest has: the sum of all they do, task switches included.
 */
static double many_readers(const struct cell *c)
{
	const int laps = 40, nr = reads_per_round(c);
	int go[2], done[2];
	uint64_t t;
	char byte = 0;

	if (pipe(go) || pipe(done))
		die("pipe");
	fflush(stdout);
	for (int i = 0; i < c->threads; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork");
		if (pid)
			continue;
		operate(c, 0, nr);	/* break copy-on-write before the count */
		if (write(done[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1)
			_exit(1);
		for (int lap = 0; lap < laps; lap++)
			operate(c, lap * nr, nr);
		_exit(write(done[1], &byte, 1) != 1);
	}
	for (int i = 0; i < c->threads; i++)
		if (read(done[0], &byte, 1) != 1)
			die("a reader did not start");
	t = insns();
	for (int i = 0; i < c->threads; i++)
		if (write(go[1], &byte, 1) != 1)
			die("pipe");
	for (int i = 0; i < c->threads; i++)
		if (read(done[0], &byte, 1) != 1)
			die("a reader did not end");
	t = insns() - t;
	while (wait(NULL) > 0)
		;
	close(go[0]);
	close(go[1]);
	close(done[0]);
	close(done[1]);
	return (double)t / (laps * nr * c->threads);
}

static void measure(const struct cell *c, int run)
{
	double value = c->threads > 1 ? many_readers(c) : one_reader(c);

	printf("cell %s %s fs=%s syscall=%s size=%zu extents=%d hole=%s threads=%d run=%d insn=%.2f\n",
	       c->bench, c->variant->name, fs, calls[c->call], c->size,
	       c->layout->extents, c->layout->hole ? "true" : "false",
	       c->threads, run, value);
	fflush(stdout);
}

/* -- which cells ---------------------------------------------------------- */

static void add(const char *bench, enum call call, const struct variant *v,
		struct layout *l, size_t size, int threads)
{
	if (nr_cells == (int)ARRAY_SIZE(cells))
		die("too many cells");
	cells[nr_cells++] = (struct cell){ bench, call, v, l, size, threads };
}

/* A read in every variant that this kernel has. */
static void add_read(struct layout *l, size_t size, int threads)
{
	add("dax-read", PREAD, &generic, l, size, threads);
	if (has_parameter)
		add("dax-read", PREAD, &read_iter, l, size, threads);
	if (has_parameter && has_read)
		add("dax-read", PREAD, &read_op, l, size, threads);
}

static void add_off(struct layout *l, size_t size)
{
	if (has_parameter && has_read)
		add("dax-read", PREAD, &off, l, size, 1);
}

/* System calls that reach ->read_iter, with and without ->read. */
static void add_by_iter(enum call call, struct layout *l, size_t size)
{
	add("dax-read", call, &generic, l, size, 1);
	if (has_parameter)
		add("dax-read", call, &read_iter, l, size, 1);
}

/* Several segments, and memory of the kernel. */
static void add_segments(void)
{
	static const size_t sizes[] = { 8, 4096 };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		add_by_iter(PREADV_2, &layouts[0], sizes[i]);
		add_by_iter(READ_FIXED, &layouts[0], sizes[i]);
	}
	/* Of pages that it allocates, whatever that costs just then. */
	add_by_iter(SPLICE, &layouts[0], 8);
	if (!read_only)
		add_by_iter(PREADV_2, &layouts[3], 4096);
}

/* Read old data after each append of a block. */
static void add_appended(void)
{
	add_by_iter(APPENDED, &grown, 8);
	if (has_parameter && has_read)
		add("dax-read", APPENDED, &read_op, &grown, 8, 1);
}

/* Writes over blocks that are written. */
static void add_overwrites(void)
{
	static const size_t sizes[] = { 8, 512, 4096 };

	for (size_t i = 0; !strcmp(fs, "ext4") && i < ARRAY_SIZE(sizes); i++) {
		add("dax-write", PWRITE, &generic, &over, sizes[i], 1);
		if (has_parameter)
			add("dax-write", PWRITE, &write_op, &over, sizes[i], 1);
	}
}

/* Files without DAX: ext4 looks up their blocks, too. */
static void add_nodax(void)
{
	if (strcmp(fs, "ext4"))
		return;
	add("nodax-read", DIRECT, &generic, &direct, BLOCK, 1);
	add("nodax-read", DIRECT_WRITE, &generic, &direct, BLOCK, 1);
	add("nodax-read", UNCACHED, &generic, &cached, BLOCK, 1);
}

static void add_floor(void)
{
	static const struct variant floor = { "floor", false, true };

	add("syscall", GETPPID, &floor, &layouts[0], 0, 1);
	add("syscall", PREAD, &floor, &layouts[0], 0, 1);
}

static void add_few(void)
{
	add_floor();
	add_read(&layouts[0], 8, 1);
	if (has_read)
		add_off(&layouts[0], 8);
	add_read(&layouts[0], 4096, 1);
	add_segments();
	if (read_only)
		return;
	add_read(&layouts[3], 4096, 1);
	add_appended();
	add_overwrites();
}

static void add_all(void)
{
	static const size_t sizes[] = { 8, 64, 512, 4096, 16384, 65536 };

	add_floor();
	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++)
		for (size_t j = 0; j < ARRAY_SIZE(sizes); j++)
			add_read(&layouts[i], sizes[j], 1);
	for (size_t j = 0; j < ARRAY_SIZE(sizes); j++) {
		add_off(&layouts[0], sizes[j]);
		add_by_iter(PREADV, &layouts[0], sizes[j]);
	}
	add_segments();
	add_read(&layouts[0], 8, 2);
	add_read(&layouts[0], 4096, 2);
	add_appended();
	add_overwrites();
	add_nodax();
}

static void measure_all(int runs)
{
	for (int i = 0; i < nr_cells; i++) {
		set_fast(cells[i].variant->fast);
		check_bytes(&cells[i]);
	}
	for (int run = 0; run < runs; run++) {
		for (int fast = 0; fast < 2; fast++) {
			set_fast(fast);
			for (int i = 0; i < nr_cells; i++)
				if (cells[i].variant->fast == fast)
					measure(&cells[i], run);
		}
	}
	printf("complete %d cells %d runs\n", nr_cells, runs);
}

/* -- the other uses ------------------------------------------------------- */

/* The variants that this kernel has. */
static int variants(const struct variant *v[3])
{
	int nr = 0;

	v[nr++] = &generic;
	if (has_parameter)
		v[nr++] = &read_iter;
	if (has_parameter && has_read)
		v[nr++] = &read_op;
	return nr;
}

/* Rounds of one cell between the marks that the profiling plugin waits for. */
static void profile(const struct variant *v, size_t size)
{
	struct cell c = { "dax-read", PREAD, v, &layouts[0], size, 1 };
	int nr = reads_per_round(&c);

	set_fast(v->fast);
	check_bytes(&c);
	operate(&c, 0, nr);
	for (int i = 0; i < PROFILE_ROUNDS; i++) {
		profile_start();
		operate(&c, i * nr, nr);
		profile_stop();
	}
	printf("profiled %s %zu %d %d\n", v->name, size, nr, PROFILE_ROUNDS);
}

static void profile_all(void)
{
	const struct variant *v[3];
	int nr = variants(v);

	for (int i = 0; i < nr; i++) {
		profile(v[i], 8);
		profile(v[i], 4096);
	}
	printf("complete profile\n");
}

/* -- cache lines ---------------------------------------------------------- */

static void turn_to_read(void *arg, unsigned int cpu, int round)
{
	const struct cell *c = arg;
	ssize_t got;

	if (round < 0) {
		/* a buffer of this task's own, no longer copied on write */
		memset(buf, 0x5a, c->size);
		turns_show(buf, c->size);
		return;
	}
	profile_start();
	got = pread(cell_fd(c), buf, c->size,
		    c->layout->places[(round * TURN_CPUS + cpu) % PLACES]);
	profile_stop();
	if (got != (ssize_t)c->size)
		die("pread");
}

static void read_in_turns(const struct variant *v, struct layout *l, size_t size,
			  unsigned int cpus, bool shared_files, int run)
{
	struct cell c = {
		"dax-read", PREAD, v, v == &pagecache ? &cached : l, size, 1
	};
	struct turns t = {
		.cpus = cpus,
		.warm = TURN_WARM,
		.rounds = TURN_ROUNDS,
		.shared_files = shared_files,
		.detail = !run,
	};

	set_fast(v->fast);
	if (v->unlocked && !write_text(UNLOCKED, "1"))
		die("%s", UNLOCKED);
	check_bytes(&c);
	turns_new();
	take_turns(&t, turn_to_read, &c);
	if (v->unlocked && !write_text(UNLOCKED, "0"))
		die("%s", UNLOCKED);
	printf("turns dax-read %s fs=%s syscall=pread size=%zu extents=%d hole=false",
	       v->name, fs, size, c.layout->extents);
	turns_print(&t, run, 1);
}

static void lines_of_variant(const struct variant *v, int run)
{
	for (unsigned int cpus = 1; cpus <= TURN_CPUS; cpus *= 2)
		read_in_turns(v, &layouts[0], 8, cpus, false, run);
	read_in_turns(v, &layouts[0], 8, TURN_CPUS, true, run);
	read_in_turns(v, &layouts[0], 4096, 1, false, run);
	if (v != &pagecache)
		read_in_turns(v, &layouts[1], 8, TURN_CPUS, false, run);
}

/*
 * The slab may put the lock of an inode into two cache lines. So each run has new
 * files. The old ones stay open, so that their inodes stay where they are.
 */
static void lines_of_run(const struct variant *v[], int nr, int run)
{
	for (int i = 0; run && i < 2; i++)
		make_dax_layout(&layouts[i]);
	for (int i = 0; i < nr; i++)
		lines_of_variant(v[i], run);
}

static void lines_all(int runs)
{
	const struct variant *v[5];
	int nr = variants(v);

	if (has_read && !access(UNLOCKED, W_OK))
		v[nr++] = &unlocked;
	v[nr++] = &pagecache;
	check_plugin(TURN_CPUS);
	for (int run = 0; run < runs; run++)
		lines_of_run(v, nr, run);
	printf("complete lines\n");
}

/* -- where it all begins -------------------------------------------------- */

/* Files that are made from now on in this directory are DAX files, or not. */
static void inherit_dax(bool dax)
{
	struct fsxattr attr;
	int fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || ioctl(fd, FS_IOC_FSGETXATTR, &attr))
		die("FS_IOC_FSGETXATTR");
	attr.fsx_xflags &= ~FS_XFLAG_DAX;
	if (dax)
		attr.fsx_xflags |= FS_XFLAG_DAX;
	if (ioctl(fd, FS_IOC_FSSETXATTR, &attr))
		die("FS_IOC_FSSETXATTR");
	close(fd);
}

static void need_dax(int fd, bool dax)
{
	struct statx stx;

	if (statx(fd, "", AT_EMPTY_PATH, 0, &stx))
		die("statx");
	errno = 0;
	if (!!(stx.stx_attributes & STATX_ATTR_DAX) != dax)
		die("a file is%s a DAX file", dax ? " not" : "");
}

/* A file of the same file system without DAX. Both descriptors are one. */
static void make_without_dax(struct layout *l, int flags)
{
	inherit_dax(false);
	make_layout(l);
	need_dax(l->fd, false);
	inherit_dax(true);
	close(l->fd_noread);
	l->fd_noread = l->fd;
	if (fcntl(l->fd, F_SETFL, flags))
		die("O_DIRECT");
}

static void prepare(const char *dir, size_t nr_layouts)
{
	struct statfs st;

	if (chdir(dir) || statfs(".", &st))
		die("%s", dir);
	if (st.f_type == XFS_SUPER_MAGIC)
		fs = "xfs";
	read_only = st.f_type == EROFS_SUPER_MAGIC_V1;
	if (read_only)
		fs = "erofs";
	buf = mmap(NULL, MAX_SIZE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (buf == MAP_FAILED || mlockall(MCL_CURRENT))
		die("locking memory");
	open_ring();
	if (pipe(pipe_fds))
		die("pipe");
	if (read_only) {
		open_source(&layouts[0]);
		return;
	}
	has_parameter = !access(PARAMETER, W_OK);
	inherit_dax(true);
	if (!strcmp(fs, "ext4")) {
		make_layout(&over);
		make_without_dax(&cached, 0);
		make_without_dax(&direct, O_DIRECT);
	}
	/* While there is room in one place. */
	make_dax_layout(&grown);
	if (fallocate(grown.fd, FALLOC_FL_KEEP_SIZE, grown.end * BLOCK,
		      (off_t)ROOM_TO_GROW * BLOCK))
		die("fallocate");
	for (size_t i = 0; i < nr_layouts; i++)
		make_dax_layout(&layouts[i]);
	need_dax(layouts[0].fd, true);
	printf("kernel parameter=%s read=%s\n", has_parameter ? "yes" : "no",
	       has_read ? "yes" : "no");
}

static int number(const char *text)
{
	char *end;
	long n = strtol(text, &end, 10);

	errno = 0;
	if (*end || end == text || n < 1 || n > MAX_SIZE)
		die("%s is not a number from 1 to %d", text, MAX_SIZE);
	return n;
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[2] : "";

	errno = 0;
	if (strcmp(what, "lines") && strcmp(what, "source") && !counter_is_exact())
		die("the instruction counter is not exact: is this an icount guest?");
	if (!strcmp(what, "all") && argc == 4) {
		prepare(argv[1], ARRAY_SIZE(layouts));
		add_all();
		measure_all(number(argv[3]));
	} else if (!strcmp(what, "few") && argc == 4) {
		prepare(argv[1], 4);
		add_few();
		measure_all(number(argv[3]));
	} else if (!strcmp(what, "profile") && argc == 3) {
		prepare(argv[1], 1);
		profile_all();
	} else if (!strcmp(what, "lines") && argc == 4) {
		prepare(argv[1], 2);
		lines_all(number(argv[3]));
	} else if (!strcmp(what, "source") && argc == 3) {
		make_source(argv[1]);
	} else {
		printf("usage: dax-read DIR all|few|lines RUNS | profile | source\n");
		return 2;
	}
	return 0;
}
