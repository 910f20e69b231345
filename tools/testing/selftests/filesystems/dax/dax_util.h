/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the DAX tests share: a device that may be overwritten, ext4 or XFS on it,
 * the ways in which a file can be read, and random numbers that can be repeated.
 *
 * Nothing here knows the test harness. Functions return 0 or a count on
 * success and a negative errno on failure, unless they say otherwise.
 *
 * See README for the environment, and for what the tests do to a device.
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

/* What a method returns that this kernel does not have: no errno. */
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

/* Runs a program, shows what it prints only when it fails. */
int dax_run(const char *const argv[]);

/*
 * Finds device 0 or 1 and makes sure that it may be overwritten. When not,
 * returns -1 with a sentence in @why: the test has to be skipped.
 */
int dax_find_dev(unsigned int nr, char *dev, size_t len, char *why);
/* The same for a device of any name. */
int dax_claim_dev(const char *dev, char *why);
/* Gives a device its label again that has lost it. */
void dax_label_dev(const char *dev);

/*
 * Runs @run() in a grandchild and returns its exit code. When it has ended, in
 * whichever way, @undo() is called if there is one, parameters are put back, @nr
 * devices get their labels again, and what was written to TMPDIR is removed. If
 * this process gets a signal, its children are ended first; if it is killed, its
 * child does all this.
 */
int dax_guard(int (*run)(int argc, char **argv), int argc, char **argv,
	      unsigned int nr, void (*undo)(void));

/* @opts: words for mkfs.ext4, or NULL. @size: blocks, or 0 for all. */
int dax_mkfs(const char *dev, const char *opts, unsigned long size);
/* @meta: what follows -m. */
int dax_mkfs_xfs(const char *dev, const char *meta);
/* Whether this system has mkfs and the kernel's part of a file system. */
bool dax_has_fs(const char *type);
/* Mounts in a mount namespace of the caller's own. @opts: or NULL. */
int dax_mount(struct dax_fs *fs, const char *opts);
int dax_umount(struct dax_fs *fs);
int dax_remount_flags(struct dax_fs *fs, unsigned long flags);
void dax_path(const struct dax_fs *fs, const char *name, char *path,
	      size_t len);
int dax_open(const struct dax_fs *fs, const char *name, int flags);
/* 1 when the file is accessed through DAX, 0 when not. */
int dax_is_dax(int fd);
/* Opens the list of bad blocks of a device; -ENOENT if it has none. */
int dax_open_badblocks(const char *dev, int flags);
/* Has the device call the block at @pos of a file bad, until it is written to. */
int dax_mark_bad(const char *dev, int fd, loff_t pos);
/* Forgets cached inodes, extents and clean pages. */
int dax_drop_caches(void);

/* Writes @text to a file of sysfs or the like, as a shell's redirection does. */
int dax_put(const char *path, const char *text);

/* -- a parameter of a module, on or off, by its path below /sys */

int dax_param_get(const char *path);
int dax_param_set(const char *path, bool on);

/* -- ext4.dax_fast_read, and dax_read.simple for other file systems: as one */

bool dax_fast_exists(void);
int dax_fast_get(void);
int dax_fast_set(bool on);
/* Switches reads without i_rwsem, of ext4 only. */
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

/* A file that is open in every way a method needs. */
struct dax_reader {
	int fd;
	int direct_fd;
	int pipe[2];
	int memfd;
	unsigned long aio;
	struct dax_uring uring;
	/* Fixed buffers must lie in here. */
	void *fixed;
	size_t fixed_len;
};

struct dax_method {
	const char *name;
	ssize_t (*read)(struct dax_reader *rd, void *buf, size_t len,
			loff_t pos);
	/* The kernel copies to the caller's buffer, and says what it did. */
	bool direct;
};

extern const struct dax_method dax_methods[];
extern const unsigned int dax_nr_methods;

/* @fixed: memory for fixed buffers. What is not there reads as DAX_NO_METHOD. */
int dax_reader_open(struct dax_reader *rd, const char *path, void *fixed,
		    size_t len);
void dax_reader_close(struct dax_reader *rd);

/* -- memory that traps */

/* One page that blocks tasks that touch it, until it is let go. */
struct dax_trap {
	int uffd;
	char *page;
};

/* @page: page-aligned anonymous memory, never touched; NULL: make it. */
int dax_trap_arm(struct dax_trap *trap, char *page);
/* Returns when a task is blocked. */
int dax_trap_wait(const struct dax_trap *trap);
/* Gives the page @fill as content and wakes the blocked task. */
int dax_trap_release(const struct dax_trap *trap, int fill);

/* A thread that holds the inode lock of a file, exclusively, in a write. */
struct dax_holder {
	struct dax_trap trap;
	pthread_t thread;
	int fd;
	int fill;
	ssize_t ret;
};

/* Returns when the lock is held. The first byte of the file gets @fill. */
int dax_hold(struct dax_holder *holder, int fd, int fill);
/* Lets the write finish; its result. */
ssize_t dax_unhold(struct dax_holder *holder);

/*
 * Returns when process @pid waits for a lock: true; or has ended without: false.
 */
bool dax_wait_blocked(pid_t pid);

/* -- blocks */

/* Byte address of byte @pos of a file on its device, or a negative errno. */
__s64 dax_physical(int fd, loff_t pos);
int dax_count_extents(int fd);
/* Writes all or fails. */
int dax_write_all(int fd, const void *buf, size_t len, loff_t pos);

#endif /* _DAX_UTIL_H */
