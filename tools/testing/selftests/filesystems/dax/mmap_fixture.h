/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared code of the tests of DAX mappings: ext4 or XFS on a DAX device,
 * mappings with and without huge pages, and ways to see which pages are mapped.
 */
#ifndef _MMAP_FIXTURE_H
#define _MMAP_FIXTURE_H

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dax_fixture.h"

#ifndef MAP_SYNC
#define MAP_SYNC 0x080000
#endif
#ifndef MAP_SHARED_VALIDATE
#define MAP_SHARED_VALIDATE 0x03
#endif

/* 512 pages. If the page size is 4 KiB, this is a huge page. */
#define MMAP_HUGE (512 * dax_bs())
#define MMAP_KNOB "/sys/kernel/debug/fault_around_bytes"
/* Limits for ext4. XFS uses the whole device. */
#define MMAP_MOST_BLOCKS 16384UL
#define MMAP_MOST_BYTES (256UL << 20)

enum mmap_fs {
	MMAP_EXT4,
	MMAP_XFS,
	MMAP_XFS_REFLINK,
};

struct mmap_test {
	struct dax_fs fs;
	enum mmap_fs kind;
	size_t bs;
	long window_was;
	int log;
};

/* -- fault_around_bytes */

static inline long mmap_window_get(void)
{
	char text[32] = "";
	int fd = open(MMAP_KNOB, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	return n > 0 ? atol(text) : -EIO;
}

static inline int mmap_window_set(long bytes)
{
	char text[32];

	snprintf(text, sizeof(text), "%ld", bytes);
	return dax_put(MMAP_KNOB, text);
}

/* True if read faults on DAX mappings map the pages around. */
static inline bool mmap_has_fault_around(void)
{
	return dax_kernel_has("vmf_fault_around_pages");
}

/* -- warnings of the kernel */

static inline int mmap_log_open(void)
{
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd >= 0)
		lseek(fd, 0, SEEK_END);
	return fd;
}

/*
 * Counts new kernel warnings that name a task of this program. Reports of KCSAN
 * do not count.
 */
static inline unsigned int mmap_log_warnings(int log)
{
	char line[1024], comm[32];
	bool report = false;
	unsigned int n = 0;
	ssize_t len;

	/* The kernel cuts task names to 15 characters. */
	snprintf(comm, sizeof(comm), " Comm: %.15s ",
		 program_invocation_short_name);
	while ((len = read(log, line, sizeof(line) - 1)) > 0 ||
	       (len < 0 && errno == EPIPE)) {
		line[len > 0 ? len : 0] = 0;
		if (strstr(line, "WARNING: ") || strstr(line, "BUG: ")) {
			report = !strstr(line, "BUG: KCSAN");
		} else if (report && strstr(line, " Comm: ")) {
			report = false;
			n += !!strstr(line, comm);
		}
	}
	return n;
}

/* -- the filesystem */

static inline unsigned long mmap_min(unsigned long a, unsigned long b)
{
	return a < b ? a : b;
}

static inline int mmap_mkfs(const struct mmap_test *t)
{
	char bs[32], data[64], log[48], stripe[64];
	const char *const xfs[] = {
		"mkfs.xfs", "-q", "-f", "-K", "-L", DAX_LABEL, "-m",
		t->kind == MMAP_XFS ? "reflink=0" : "reflink=1,rmapbt=1",
		"-b", bs, "-d", data, "-l", log,
		t->fs.dev, NULL
	};

	/* With such a stripe, ext4 and XFS align extents for huge pages. */
	snprintf(data, sizeof(data), "agcount=2,su=%zu,sw=1", MMAP_HUGE);
	snprintf(bs, sizeof(bs), "size=%zu", t->bs);
	snprintf(log, sizeof(log), "size=%dm,su=%zu", DAX_XFS_LOG, t->bs);
	snprintf(stripe, sizeof(stripe), "-E stride=%zu,stripe_width=%zu",
		 MMAP_HUGE / t->bs, MMAP_HUGE / t->bs);
	if (t->kind != MMAP_EXT4)
		return dax_run(xfs);
	return dax_mkfs(t->fs.dev, stripe,
			mmap_min(MMAP_MOST_BLOCKS, MMAP_MOST_BYTES / t->bs));
}

static inline int mmap_mount(struct mmap_test *t)
{
	const char *tmp = getenv("TMPDIR") ?: "/tmp";

	if (unshare(CLONE_NEWNS) ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return -errno;
	/* Ignore the error: debugfs may already be mounted. */
	mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	snprintf(t->fs.dir, sizeof(t->fs.dir), "%.40s/dax.XXXXXX", tmp);
	if (!mkdtemp(t->fs.dir))
		return -errno;
	if (mount(t->fs.dev, t->fs.dir, t->kind == MMAP_EXT4 ? "ext4" : "xfs",
		  0, "dax=always")) {
		int err = -errno;

		rmdir(t->fs.dir);
		t->fs.dir[0] = 0;
		return err;
	}
	return 0;
}

/* SKIP() ends the test: the harness checks for a skip after each setup. */
static inline void mmap_begin(struct __test_metadata *_metadata,
			      struct mmap_test *t, enum mmap_fs kind)
{
	char why[DAX_WHY_LEN];
	int fd;

	t->kind = kind;
	t->bs = dax_bs();
	t->window_was = -1;
	if (dax_find_dev(0, t->fs.dev, sizeof(t->fs.dev), why))
		SKIP(return, "%s", why);
	if (kind != MMAP_EXT4 && !dax_has_fs("xfs"))
		SKIP(return, "needs mkfs.xfs (package xfsprogs) and CONFIG_XFS_FS");
	ASSERT_EQ(0, mmap_mkfs(t));
	ASSERT_EQ(0, mmap_mount(t));
	fd = dax_open(&t->fs, "probe", O_RDWR | O_CREAT);
	ASSERT_GE(fd, 0);
	/* Without DAX, the tests would pass and prove nothing. */
	ASSERT_EQ(1, dax_is_dax(fd));
	close(fd);
	t->window_was = mmap_window_get();
	t->log = mmap_log_open();
}

static inline void mmap_end(struct __test_metadata *_metadata,
			    struct mmap_test *t)
{
	if (t->window_was > 0)
		EXPECT_EQ(0, mmap_window_set(t->window_was));
	if (!t->fs.dir[0])
		return;
	EXPECT_EQ(0, dax_umount(&t->fs));
	if (t->log < 0)
		return;
	EXPECT_EQ(0, mmap_log_warnings(t->log))
		TH_LOG("the kernel warned, see dmesg");
	close(t->log);
}

static inline int mmap_file(struct mmap_test *t, const char *name,
			    unsigned long pages)
{
	int fd = dax_open(&t->fs, name, O_RDWR | O_CREAT | O_TRUNC);

	if (fd >= 0 && ftruncate(fd, pages * t->bs)) {
		close(fd);
		return -errno;
	}
	return fd;
}

/* Fills each page with one byte value: @first, @first + 1, ... */
static inline int mmap_fill(const struct mmap_test *t, int fd,
			    unsigned long from, unsigned long pages,
			    unsigned char first)
{
	char *page = malloc(t->bs);
	int ret = page ? 0 : -ENOMEM;

	for (unsigned long i = 0; i < pages && !ret; i++) {
		memset(page, (unsigned char)(first + i), t->bs);
		ret = dax_write_all(fd, page, t->bs, (from + i) * t->bs);
	}
	free(page);
	return ret;
}

/* -- mappings */

struct mmap_map {
	char *at;
	char *area;
	size_t area_len;
};

/*
 * Maps @pages pages from @pgoff on. The address is @shift pages away from the
 * alignment that huge pages of the file need. If @shift is not 0, no huge page
 * fits. Without MAP_FIXED the kernel aligns large mappings to huge pages, and
 * no test would use single pages.
 */
static inline int mmap_at(const struct mmap_test *t, struct mmap_map *m, int fd,
			  unsigned long pgoff, unsigned long pages, int prot,
			  int flags, unsigned long shift)
{
	char *at;

	m->area_len = pages * t->bs + 3 * MMAP_HUGE;
	m->area = mmap(NULL, m->area_len, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (m->area == MAP_FAILED)
		return -errno;
	at = (char *)(((uintptr_t)m->area + MMAP_HUGE - 1) & ~(MMAP_HUGE - 1));
	at += (pgoff + shift) * t->bs % MMAP_HUGE;
	m->at = mmap(at, pages * t->bs, prot, flags | MAP_FIXED, fd,
		     pgoff * t->bs);
	if (m->at == MAP_FAILED) {
		int err = -errno;

		munmap(m->area, m->area_len);
		return err;
	}
	return 0;
}

static inline void mmap_gone(const struct mmap_map *m)
{
	munmap(m->area, m->area_len);
}

/* -- mapped pages */

/* Returns 1 if the page at @addr is mapped, 0 if not, or a negative errno. */
static inline int mmap_present(const void *addr)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry;
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = pread(fd, &entry, sizeof(entry),
		  (uintptr_t)addr / dax_bs() * sizeof(entry));
	close(fd);
	return n == sizeof(entry) ? !!(entry >> 63) : -EIO;
}

/* Counts the mapped pages among the @pages pages from @addr on. */
static inline long mmap_count_present(const char *addr, unsigned long pages)
{
	long n = 0;

	for (unsigned long i = 0; i < pages; i++)
		n += mmap_present(addr + i * dax_bs()) == 1;
	return n;
}

/* Returns the number of page faults of this thread. */
static inline long mmap_faults(void)
{
	struct rusage ru;

	getrusage(RUSAGE_THREAD, &ru);
	return ru.ru_minflt + ru.ru_majflt;
}

static sigjmp_buf mmap_jump;

static inline void mmap_on_signal(int sig)
{
	siglongjmp(mmap_jump, sig);
}

/* Reads a byte. Returns its value, or -SIGBUS if the read fails. */
static inline int mmap_peek(const char *p)
{
	struct sigaction act = { .sa_handler = mmap_on_signal }, old;
	int ret;

	sigaction(SIGBUS, &act, &old);
	ret = sigsetjmp(mmap_jump, 1);
	if (ret)
		ret = -ret;
	else
		ret = (unsigned char)__atomic_load_n(p, __ATOMIC_RELAXED);
	sigaction(SIGBUS, &old, NULL);
	return ret;
}

/* Writes a byte. Returns 0, or SIGBUS if the store fails. */
static inline int mmap_store(char *p, char c)
{
	struct sigaction act = { .sa_handler = mmap_on_signal }, old;
	int ret;

	sigaction(SIGBUS, &act, &old);
	ret = sigsetjmp(mmap_jump, 1);
	if (!ret)
		__atomic_store_n(p, c, __ATOMIC_RELAXED);
	sigaction(SIGBUS, &old, NULL);
	return ret;
}

/* Writes a byte. The compiler does not drop this store. */
static inline void mmap_poke(char *p, char c)
{
	__atomic_store_n(p, c, __ATOMIC_RELAXED);
}

/* Reads the first byte of each page in order and returns their XOR. */
static inline unsigned char mmap_touch(const char *p, unsigned long pages,
				       size_t bs)
{
	unsigned char x = 0;

	for (unsigned long i = 0; i < pages; i++)
		x ^= __atomic_load_n(p + i * bs, __ATOMIC_RELAXED);
	return x;
}

#endif /* _MMAP_FIXTURE_H */
