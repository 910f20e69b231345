/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared code of the DAX tests: a device that may be overwritten, ext4 or XFS
 * on it, the ways to read a file, and repeatable random numbers.
 *
 * Nothing here depends on the test harness. Functions return 0 or a count on
 * success and a negative errno on failure, unless their comment says otherwise.
 *
 * See README for the environment, and for the changes that the tests make.
 */
#ifndef _DAX_UTIL_H
#define _DAX_UTIL_H

#include <linux/types.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>
#include <sys/uio.h>

#define DAX_LABEL "dax-selftest"
#define DAX_WHY_LEN 256

/* The result of a method that this kernel lacks. Not an errno. */
#define DAX_NO_METHOD (-99999)

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#ifndef STATX_ATTR_DAX
#define STATX_ATTR_DAX 0x00200000
#endif
#ifndef RWF_NOWAIT
#define RWF_NOWAIT 0x00000008
#endif

/* ext4 needs blocks of one page for DAX. */
size_t dax_bs(void);
unsigned int dax_scale(void);

/* -- random numbers */

struct dax_rnd {
	__u64 state;
};

/* Seeds from DAX_TEST_SEED or the clock and prints the seed. */
void dax_seed(struct dax_rnd *rnd, const char *what);
__u64 dax_rnd64(struct dax_rnd *rnd);
/* 0 to @n - 1 */
__u64 dax_rnd_below(struct dax_rnd *rnd, __u64 n);
void dax_rnd_fill(struct dax_rnd *rnd, void *buf, size_t len);

/* -- the device and the filesystem */

struct dax_fs {
	char dev[128];
	char dir[64];
	const char *type;	/* NULL: ext4 */
};

/* Runs a program. Prints the output of the program only if it fails. */
int dax_run(const char *const argv[]);

/*
 * Finds device 0 or 1 and checks that it may be overwritten. If not, returns -1
 * and a reason in @why: the test has to be skipped.
 */
int dax_find_dev(unsigned int nr, char *dev, size_t len, char *why);
/* The same for device @dev. */
int dax_claim_dev(const char *dev, char *why);
/* Restores the label of a device that has lost it. */
void dax_label_dev(const char *dev);

/*
 * Runs @run() in a grandchild and returns its exit code. When the grandchild
 * has ended in any way, the guard calls @undo() if it is not NULL. The guard
 * restores parameters and the labels of @nr devices, and removes the temporary
 * directory. If this process gets a signal, it kills its children first. If
 * this process is killed, its child does all this.
 */
int dax_guard(int (*run)(int argc, char **argv), int argc, char **argv,
	      unsigned int nr, void (*undo)(void));

/* @opts: words for mkfs.ext4, or NULL. @size: blocks, or 0 for all. */
int dax_mkfs(const char *dev, const char *opts, unsigned long size);
/* MiB of an XFS log: the smallest log has 2211 blocks of 64 KiB. */
#define DAX_XFS_LOG (dax_bs() > 16384 ? 144 : 64)
/* True if the kernel has a function, and shows the names of its functions. */
bool dax_kernel_has(const char *function);
/*
 * A copy may stop as many bytes before those that are not accessible. On x86 it
 * is exact.
 */
#ifdef __x86_64__
#define DAX_COPY_SHORT	0
#else
#define DAX_COPY_SHORT	63
#endif
/* @meta: the argument of -m. */
int dax_mkfs_xfs(const char *dev, const char *meta);
/* True if there is such a program. */
bool dax_has_program(const char *name);
/* True if this system has mkfs and kernel support for a filesystem. */
bool dax_has_fs(const char *type);
/* Mounts in a new mount namespace. @opts: NULL for dax=always. */
int dax_mount(struct dax_fs *fs, const char *opts);
int dax_umount(struct dax_fs *fs);
int dax_remount_flags(struct dax_fs *fs, unsigned long flags);
void dax_path(const struct dax_fs *fs, const char *name, char *path,
	      size_t len);
int dax_open(const struct dax_fs *fs, const char *name, int flags);
/* Returns 1 if the file uses DAX, 0 if not, or a negative errno. */
int dax_is_dax(int fd);
/* Opens the badblocks list of a device. Returns -ENOENT if there is none. */
int dax_open_badblocks(const char *dev, int flags);
/* Marks the block at @pos of a file as bad, until it is written. */
int dax_mark_bad(const char *dev, int fd, loff_t pos);
/* Drops cached inodes, extents and clean pages. */
int dax_drop_caches(void);

/* Writes @text to a file, such as one in sysfs, like a shell redirection. */
int dax_put(const char *path, const char *text);

/* -- boolean module parameters, by their path in sysfs */

int dax_param_get(const char *path);
int dax_param_set(const char *path, bool on);

/* -- dax_read.fast */

bool dax_fast_exists(void);
int dax_fast_get(void);
int dax_fast_set(bool on);
/* ext4 only: reads without i_rwsem. */
bool dax_unlocked_exists(void);
int dax_unlocked_set(bool on);

/* -- ways to read */

struct dax_uring {
	int fd;
	void *sq_ring;
	void *cq_ring;
	void *sqes;
	size_t ring_len;
	size_t cq_len;
	__u32 *sq_tail, *sq_mask, *sq_array;
	__u32 *cq_head, *cq_tail, *cq_mask;
	void *cqes;
	bool registered;
};

/* A file with all descriptors that the methods need. */
struct dax_reader {
	int fd;
	int direct_fd;
	int pipe[2];
	int memfd;
	unsigned long aio;
	struct dax_uring uring;
	/* The registered buffer of READ_FIXED. */
	void *fixed;
	size_t fixed_len;
};

struct dax_method {
	const char *name;
	ssize_t (*read)(struct dax_reader *rd, void *buf, size_t len,
			loff_t pos);
	/* The kernel copies to the caller's buffer and returns the count. */
	bool direct;
};

extern const struct dax_method dax_methods[];
extern const unsigned int dax_nr_methods;

/* @fixed: memory for READ_FIXED. A missing method returns DAX_NO_METHOD. */
int dax_reader_open(struct dax_reader *rd, const char *path, void *fixed,
		    size_t len);
void dax_reader_close(struct dax_reader *rd);

/* -- memory that traps */

/* A page that blocks tasks that touch it, until it is released. */
struct dax_trap {
	int uffd;
	char *page;
};

/* @page: page-aligned anonymous memory, never touched; NULL: allocate it. */
int dax_trap_arm(struct dax_trap *trap, char *page);
/* Waits until a task is blocked. */
int dax_trap_wait(const struct dax_trap *trap);
/* Fills the page with @fill and wakes the blocked task. */
int dax_trap_release(const struct dax_trap *trap, int fill);

/* A thread that holds the inode lock of a file exclusively in a write(2). */
struct dax_holder {
	struct dax_trap trap;
	pthread_t thread;
	int fd;
	int fill;
	ssize_t ret;
};

/* Waits until the lock is held. The write stores @fill in the first byte. */
int dax_hold(struct dax_holder *holder, int fd, int fill);
/* Lets the write finish and returns its result. */
ssize_t dax_unhold(struct dax_holder *holder);

/* Waits until process @pid sleeps uninterruptibly (true) or exits (false). */
bool dax_wait_blocked(pid_t pid);

/* -- blocks */

/* Returns the device offset of byte @pos of a file or a negative errno. */
__s64 dax_physical(int fd, loff_t pos);
int dax_count_extents(int fd);
/* Sets or clears the DAX flag, which applies when the inode is read again. */
int dax_set_flag(int fd, bool on);
/* Writes all bytes or fails. */
int dax_write_all(int fd, const void *buf, size_t len, loff_t pos);

#endif /* _DAX_UTIL_H */
