// SPDX-License-Identifier: GPL-2.0
/*
 * Side effects of reads: a read may refuse to wait, moves the file position,
 * updates the time of last access, wakes watchers, and is counted.
 */

#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "dax_fixture.h"

#define FILE_LEN 10000

struct vfs {
	struct dax_test test;
	char path[256];
	char *buf;
	/* Inaccessible memory. */
	char *bad;
	int fd;
};

FIXTURE(read_vfs)
{
	struct vfs t;
};

FIXTURE_VARIANT(read_vfs)
{
	enum dax_path_kind kind;
	struct dax_setup setup;
};

FIXTURE_VARIANT_ADD(read_vfs, generic)
{
	.kind = DAX_GENERIC,
};

FIXTURE_VARIANT_ADD(read_vfs, fast)
{
	.kind = DAX_FAST,
};

FIXTURE_SETUP(read_vfs)
{
	struct vfs *t = &self->t;

	dax_begin(_metadata, &t->test, variant->kind, &variant->setup);
	if (_metadata->exit_code)
		return;
	t->buf = dax_alloc(_metadata, FILE_LEN);
	memset(t->buf, 'x', FILE_LEN);
	t->bad = dax_alloc(_metadata, dax_bs());
	ASSERT_EQ(0, mprotect(t->bad, dax_bs(), PROT_NONE));
	dax_path(&t->test.fs, "file", t->path, sizeof(t->path));
	t->fd = dax_open(&t->test.fs, "file", O_RDWR | O_CREAT);
	ASSERT_GE(t->fd, 0);
	ASSERT_EQ(0, dax_write_all(t->fd, t->buf, FILE_LEN, 0));
}

FIXTURE_TEARDOWN(read_vfs)
{
	struct vfs *t = &self->t;

	close(t->fd);
	dax_end(_metadata, &t->test);
}

static ssize_t read_nowait(struct vfs *t)
{
	struct iovec iov = { t->buf, 100 };
	ssize_t ret = preadv2(t->fd, &iov, 1, 0, RWF_NOWAIT);

	return ret < 0 ? -errno : ret;
}

/*
 * A blocked write holds the inode lock. A read with RWF_NOWAIT returns -EAGAIN
 * meanwhile, and succeeds after the write.
 */
TEST_F(read_vfs, nowait)
{
	struct vfs *t = &self->t;
	struct dax_holder holder;

	EXPECT_EQ(100, read_nowait(t));
	ASSERT_EQ(0, dax_hold(&holder, t->fd, 'y'));
	EXPECT_EQ(-EAGAIN, read_nowait(t));
	EXPECT_EQ(-EAGAIN, read_nowait(t));
	ASSERT_EQ(1, dax_unhold(&holder));
	EXPECT_EQ(100, read_nowait(t));
	EXPECT_EQ('y', t->buf[0]);
	EXPECT_EQ('x', t->buf[1]);
}

/* A read that may wait waits for the write, and returns the new data. */
TEST_F(read_vfs, waits_for_writer)
{
	struct vfs *t = &self->t;
	struct dax_holder holder;
	int status;
	pid_t pid;

	ASSERT_EQ(0, dax_hold(&holder, t->fd, 'z'));
	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid)
		_exit(pread(t->fd, t->buf, 100, 0) == 100 ? t->buf[0] : 0);
	EXPECT_TRUE(dax_wait_blocked(pid));
	ASSERT_EQ(1, dax_unhold(&holder));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_TRUE(WIFEXITED(status));
	EXPECT_EQ('z', WEXITSTATUS(status));
}

/* -- the file position */

TEST_F(read_vfs, position)
{
	struct vfs *t = &self->t;

	EXPECT_EQ(0, lseek(t->fd, 0, SEEK_SET));
	EXPECT_EQ(100, read(t->fd, t->buf, 100));
	EXPECT_EQ(100, lseek(t->fd, 0, SEEK_CUR));
	/* pread, empty reads and failed reads do not move the position. */
	EXPECT_EQ(50, pread(t->fd, t->buf, 50, 500));
	EXPECT_EQ(0, read(t->fd, t->buf, 0));
	EXPECT_EQ(-1, read(t->fd, t->bad, 10));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(100, lseek(t->fd, 0, SEEK_CUR));
	/* Reads move the position to EOF, but not further. */
	EXPECT_EQ(FILE_LEN - 100, read(t->fd, t->buf, FILE_LEN));
	EXPECT_EQ(FILE_LEN, lseek(t->fd, 0, SEEK_CUR));
	EXPECT_EQ(0, read(t->fd, t->buf, FILE_LEN));
	EXPECT_EQ(FILE_LEN, lseek(t->fd, 0, SEEK_CUR));
}

/* Two tasks share a file position, so each byte is read once. */
TEST_F(read_vfs, shared_position)
{
	struct vfs *t = &self->t;
	int sum[2], status;
	ssize_t n, total = 0;
	pid_t pid;

	ASSERT_EQ(0, pipe(sum));
	EXPECT_EQ(0, lseek(t->fd, 0, SEEK_SET));
	pid = fork();
	ASSERT_GE(pid, 0);
	while ((n = read(t->fd, t->buf, 7)) > 0)
		total += n;
	if (!pid) {
		n = write(sum[1], &total, sizeof(total));
		_exit(n != sizeof(total));
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	ASSERT_EQ((ssize_t)sizeof(n), read(sum[0], &n, sizeof(n)));
	EXPECT_EQ(FILE_LEN, total + n);
}

/* -- the time of last access */

/* A time long before the last change of the file. */
enum { OLD = 1000000000 };

static void set_atime(struct __test_metadata *_metadata, int fd, time_t atime)
{
	struct timespec times[2] = {
		{ .tv_sec = atime },
		{ .tv_nsec = UTIME_OMIT },
	};

	ASSERT_EQ(0, futimens(fd, times));
}

static time_t get_atime(struct __test_metadata *_metadata, int fd)
{
	struct stat st;

	ASSERT_EQ(0, fstat(fd, &st));
	return st.st_atim.tv_sec;
}

/* Checks whether a read changes the time of last access. */
#define EXPECT_ATIME(changes, atime, read)				\
	do {								\
		time_t was = (atime);					\
									\
		set_atime(_metadata, t->fd, was);			\
		(void)!(read);						\
		EXPECT_EQ(changes, get_atime(_metadata, t->fd) !=	\
				   was)					\
			TH_LOG(#read);					\
	} while (0)

static void atime_by_every_method(struct __test_metadata *_metadata,
				  struct vfs *t, bool changes)
{
	struct dax_reader rd;
	unsigned int i;

	ASSERT_EQ(0, dax_reader_open(&rd, t->path,
				     dax_alloc(_metadata, FILE_LEN),
				     FILE_LEN));
	for (i = 0; i < dax_nr_methods; i++) {
		if (!dax_methods[i].direct)
			continue;
		set_atime(_metadata, t->fd, OLD);
		if (dax_methods[i].read(&rd, t->buf, 100, 50) == DAX_NO_METHOD)
			continue;
		EXPECT_EQ(changes, get_atime(_metadata, t->fd) != OLD)
			TH_LOG("%s", dax_methods[i].name);
	}
	dax_reader_close(&rd);
}

TEST_F(read_vfs, strictatime)
{
	struct vfs *t = &self->t;
	time_t future = time(NULL) + 1000;

	ASSERT_EQ(0, dax_remount_flags(&t->test.fs, MS_STRICTATIME));
	atime_by_every_method(_metadata, t, true);
	EXPECT_ATIME(true, OLD, pread(t->fd, t->buf, 1, 0));
	EXPECT_ATIME(true, future, pread(t->fd, t->buf, 1, 0));
	/* Reads at EOF and failed reads update the time, empty reads do not. */
	EXPECT_ATIME(false, OLD, pread(t->fd, t->buf, 0, 0));
	EXPECT_ATIME(true, OLD, pread(t->fd, t->buf, 1, FILE_LEN));
	EXPECT_ATIME(true, OLD, pread(t->fd, t->buf, 1, 2 * FILE_LEN));
	EXPECT_ATIME(true, OLD, pread(t->fd, t->bad, 1, 0));
}

/* The time is updated if the file has changed since, or once a day. */
TEST_F(read_vfs, relatime)
{
	struct vfs *t = &self->t;
	time_t future = time(NULL) + 1000;

	ASSERT_EQ(0, dax_remount_flags(&t->test.fs, MS_RELATIME));
	atime_by_every_method(_metadata, t, true);
	EXPECT_ATIME(true, OLD, pread(t->fd, t->buf, 1, 0));
	EXPECT_ATIME(false, future, pread(t->fd, t->buf, 1, 0));
}

/*
 * Sets the times of last change and access of the file, and opens it again.
 * Both times are in days before now. No system call can set the time of last
 * change, so this uses debugfs.
 */
static void age_file(struct __test_metadata *_metadata, struct vfs *t,
		     int changed, int accessed)
{
	time_t now = time(NULL), day = 24 * 60 * 60;
	char script[96];
	const char *const argv[] = {
		"debugfs", "-w", "-f", script, t->test.fs.dev, NULL,
	};
	FILE *f;
	int fd;

	close(t->fd);
	ASSERT_EQ(0, dax_umount(&t->test.fs));
	snprintf(script, sizeof(script), "%s/dax.XXXXXX",
		 getenv("TMPDIR") ?: "/tmp");
	fd = mkstemp(script);
	ASSERT_GE(fd, 0);
	f = fdopen(fd, "w");
	fprintf(f, "sif /file ctime @%lld\nsif /file mtime @%lld\n",
		(long long)(now - changed * day),
		(long long)(now - changed * day));
	fprintf(f, "sif /file atime @%lld\n",
		(long long)(now - accessed * day));
	fclose(f);
	EXPECT_EQ(0, dax_run(argv));
	unlink(script);
	ASSERT_EQ(0, dax_mount(&t->test.fs, NULL));
	ASSERT_EQ(0, dax_remount_flags(&t->test.fs, MS_RELATIME));
	t->fd = dax_open(&t->test.fs, "file", O_RDWR);
	ASSERT_GE(t->fd, 0);
	ASSERT_EQ(1, dax_is_dax(t->fd));
	ASSERT_EQ((now - accessed * day) / 60,
		  get_atime(_metadata, t->fd) / 60);
}

/* If the file has not changed, the time is updated again after a day. */
TEST_F(read_vfs, relatime_after_a_day)
{
	struct vfs *t = &self->t;
	time_t was;

	if (!dax_has_program("debugfs"))
		SKIP(return, "needs debugfs (package e2fsprogs)");
	age_file(_metadata, t, 10, 2);
	was = get_atime(_metadata, t->fd);
	EXPECT_EQ(1, pread(t->fd, t->buf, 1, 0));
	EXPECT_LT(was, get_atime(_metadata, t->fd));
	was = get_atime(_metadata, t->fd);
	EXPECT_EQ(1, pread(t->fd, t->buf, 1, 0));
	EXPECT_EQ(was, get_atime(_metadata, t->fd));

	age_file(_metadata, t, 10, 0);
	was = get_atime(_metadata, t->fd);
	EXPECT_EQ(1, pread(t->fd, t->buf, 1, 0));
	EXPECT_EQ(was, get_atime(_metadata, t->fd));
}

TEST_F(read_vfs, noatime)
{
	struct vfs *t = &self->t;

	ASSERT_EQ(0, dax_remount_flags(&t->test.fs, MS_NOATIME));
	atime_by_every_method(_metadata, t, false);
}

/* O_NOATIME is valid for one descriptor only. */
TEST_F(read_vfs, o_noatime)
{
	struct vfs *t = &self->t;
	int fd = dax_open(&t->test.fs, "file", O_RDONLY | O_NOATIME);

	ASSERT_GE(fd, 0);
	ASSERT_EQ(0, dax_remount_flags(&t->test.fs, MS_STRICTATIME));
	EXPECT_ATIME(false, OLD, pread(fd, t->buf, 1, 0));
	EXPECT_ATIME(true, OLD, pread(t->fd, t->buf, 1, 0));
	close(fd);
}

TEST_F(read_vfs, noatime_file)
{
	struct vfs *t = &self->t;
	int flags;

	ASSERT_EQ(0, dax_remount_flags(&t->test.fs, MS_STRICTATIME));
	ASSERT_EQ(0, ioctl(t->fd, FS_IOC_GETFLAGS, &flags));
	flags |= FS_NOATIME_FL;
	ASSERT_EQ(0, ioctl(t->fd, FS_IOC_SETFLAGS, &flags));
	EXPECT_ATIME(false, OLD, pread(t->fd, t->buf, 1, 0));
}

TEST_F(read_vfs, read_only_mount)
{
	struct vfs *t = &self->t;

	set_atime(_metadata, t->fd, OLD);
	close(t->fd);
	ASSERT_EQ(0, dax_remount_flags(&t->test.fs,
				       MS_RDONLY | MS_STRICTATIME));
	t->fd = dax_open(&t->test.fs, "file", O_RDONLY);
	ASSERT_GE(t->fd, 0);
	EXPECT_EQ(100, pread(t->fd, t->buf, 100, 0));
	EXPECT_EQ(OLD, get_atime(_metadata, t->fd));
}

/* -- watchers */

/* Counts access events since the last call. */
static int inotify_count(int in)
{
	const struct inotify_event *event;
	/* __u64 gives the alignment of events. */
	__u64 buf[512];
	ssize_t n, i;
	int count = 0;

	n = read(in, buf, sizeof(buf));
	for (i = 0; i < n; i += sizeof(*event) + event->len) {
		event = (void *)buf + i;
		count += !!(event->mask & IN_ACCESS);
	}
	return count;
}

TEST_F(read_vfs, inotify)
{
	struct vfs *t = &self->t;
	struct dax_reader rd;
	unsigned int i;
	int in;

	ASSERT_EQ(0, dax_reader_open(&rd, t->path,
				     dax_alloc(_metadata, FILE_LEN),
				     FILE_LEN));
	in = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	ASSERT_GE(in, 0);
	ASSERT_GE(inotify_add_watch(in, t->path, IN_ACCESS), 0);
	for (i = 0; i < dax_nr_methods; i++) {
		/* aio sends no access events. */
		if (!dax_methods[i].direct ||
		    !strcmp(dax_methods[i].name, "aio") ||
		    dax_methods[i].read(&rd, t->buf, 100, 50) == DAX_NO_METHOD)
			continue;
		EXPECT_EQ(1, inotify_count(in))
			TH_LOG("%s", dax_methods[i].name);
	}
	/* There is no event if nothing is read. */
	EXPECT_EQ(0, pread(t->fd, t->buf, 100, FILE_LEN));
	EXPECT_EQ(0, pread(t->fd, t->buf, 0, 0));
	EXPECT_EQ(-1, pread(t->fd, t->bad, 100, 0));
	EXPECT_EQ(0, inotify_count(in));
	close(in);
	dax_reader_close(&rd);
}

static int fanotify_count(int fan)
{
	struct fanotify_event_metadata *event;
	__u64 buf[512];
	int count = 0;
	ssize_t n;

	n = read(fan, buf, sizeof(buf));
	event = (void *)buf;
	for (; n > 0 && FAN_EVENT_OK(event, n);
	     event = FAN_EVENT_NEXT(event, n)) {
		count += !!(event->mask & FAN_ACCESS);
		close(event->fd);
	}
	return count;
}

TEST_F(read_vfs, fanotify)
{
	struct vfs *t = &self->t;
	struct iovec iov = { t->buf, 100 };
	int fan;

	fan = fanotify_init(FAN_CLASS_NOTIF | FAN_NONBLOCK | FAN_CLOEXEC,
			    O_RDONLY);
	ASSERT_GE(fan, 0);
	ASSERT_EQ(0, fanotify_mark(fan, FAN_MARK_ADD, FAN_ACCESS, AT_FDCWD,
				   t->path));
	EXPECT_EQ(100, pread(t->fd, t->buf, 100, 0));
	EXPECT_EQ(1, fanotify_count(fan));
	EXPECT_EQ(100, preadv(t->fd, &iov, 1, 0));
	EXPECT_EQ(1, fanotify_count(fan));
	EXPECT_EQ(0, pread(t->fd, t->buf, 100, FILE_LEN));
	EXPECT_EQ(0, fanotify_count(fan));
	close(fan);
}

/* -- I/O accounting */

struct account {
	long long rchar;
	long long syscr;
	long long read_bytes;
};

static int account_of(pid_t pid, struct account *a)
{
	char path[64];
	FILE *f;
	int n;

	snprintf(path, sizeof(path), "/proc/%d/io", pid);
	f = fopen(path, "re");
	if (!f)
		return -errno;
	n = fscanf(f, "rchar: %lld wchar: %*d syscr: %lld syscw: %*d read_bytes: %lld",
		   &a->rchar, &a->syscr, &a->read_bytes);
	fclose(f);
	return n == 3 ? 0 : -EPROTO;
}

/* The child stops before and after these reads, so only they are counted. */
static void do_counted_reads(struct vfs *t)
{
	struct iovec iov = { t->buf, 1000 };

	raise(SIGSTOP);
	(void)!pread(t->fd, t->buf, 500, 0);
	(void)!preadv(t->fd, &iov, 1, 0);
	(void)!pread(t->fd, t->buf, 500, FILE_LEN - 30);
	(void)!pread(t->fd, t->buf, 500, FILE_LEN);
	(void)!pread(t->fd, t->bad, 500, 0);
	raise(SIGSTOP);
	_exit(0);
}

static void wait_stopped(struct __test_metadata *_metadata, pid_t pid,
			 struct account *a)
{
	int status, ret;

	ASSERT_EQ(pid, waitpid(pid, &status, WUNTRACED));
	ASSERT_TRUE(WIFSTOPPED(status));
	ret = account_of(pid, a);
	if (ret == -ENOENT)
		SKIP(return, "no /proc/PID/io");
	ASSERT_EQ(0, ret);
}

TEST_F(read_vfs, accounting)
{
	struct vfs *t = &self->t;
	struct account before = {}, after = {};
	pid_t pid;

	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid)
		do_counted_reads(t);
	wait_stopped(_metadata, pid, &before);
	kill(pid, SIGCONT);
	wait_stopped(_metadata, pid, &after);
	kill(pid, SIGCONT);
	waitpid(pid, NULL, 0);

	EXPECT_EQ(500 + 1000 + 30, after.rchar - before.rchar);
	/* Each call counts, even if it reads nothing. */
	EXPECT_EQ(5, after.syscr - before.syscr);
	/* Nothing went through a block device. */
	EXPECT_EQ(0, after.read_bytes - before.read_bytes);
}

int main(int argc, char **argv)
{
	return dax_main(argc, argv);
}
