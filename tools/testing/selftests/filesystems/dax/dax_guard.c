// SPDX-License-Identifier: GPL-2.0
/*
 * Undoes the changes of tests, however the tests end.
 *
 * Two processes watch the test process. The first one is the program itself.
 * The second one has a session of its own. It survives if the runner kills the
 * process group of the program.
 */

#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dax_util.h"

#define TRIES 100

/* -- settings to restore */

static struct setting {
	const char *path;	/* absolute, or below debugfs */
	char val[256];
	ssize_t len;
} settings[] = {
	{ .path = "/sys/module/ext4/parameters/dax_unlocked_read" },
	{ .path = "/sys/module/dax_read/parameters/fast" },
	{ .path = "/sys/module/firmware_class/parameters/path" },
	{ .path = "fault_around_bytes" },
};

static int debugfs = -1, tracefs = -1;
static char tmp[48];
static char devs[2][128];
static unsigned int nr_devs;

/* Opens the root of a filesystem that need not be mounted. */
static int open_fs(const char *type)
{
	int ctx = syscall(SYS_fsopen, type, 1 /* FSOPEN_CLOEXEC */), fd = -1;

	if (ctx < 0)
		return -1;
	if (!syscall(SYS_fsconfig, ctx, 6 /* FSCONFIG_CMD_CREATE */, NULL,
		     NULL, 0))
		fd = syscall(SYS_fsmount, ctx, 1 /* FSMOUNT_CLOEXEC */, 0);
	close(ctx);
	return fd;
}

static ssize_t read_setting(const struct setting *s, char *val, size_t size)
{
	int fd = openat(debugfs, s->path, O_RDONLY | O_CLOEXEC);
	ssize_t len = -1;

	if (fd < 0)
		return -1;
	len = read(fd, val, size);
	close(fd);
	/* Restore an empty string, not an empty line. */
	if (len == 1 && val[0] == '\n')
		val[0] = 0;
	return len;
}

static void restore_setting(const struct setting *s)
{
	char now[sizeof(s->val)];
	int fd;

	if (s->len <= 0 || (read_setting(s, now, sizeof(now)) == s->len &&
			    !memcmp(now, s->val, s->len)))
		return;
	fd = openat(debugfs, s->path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	if (fd < 0 || write(fd, s->val, s->len) != s->len)
		fprintf(stderr, "# %s cannot be put back: %s\n", s->path,
			strerror(errno));
	close(fd);
}

/* Makes a directory for all mounts and files of the tests. */
static int make_tmp(void)
{
	if ((size_t)snprintf(tmp, sizeof(tmp), "%s/dax.XXXXXX",
			     getenv("TMPDIR") ?: "/tmp") >= sizeof(tmp) ||
	    !mkdtemp(tmp))
		return -1;
	return setenv("TMPDIR", tmp, 1);
}

static int keep(unsigned int nr)
{
	char why[DAX_WHY_LEN];
	unsigned int i;

	debugfs = open_fs("debugfs");
	tracefs = open_fs("tracefs");
	for (i = 0; i < ARRAY_LEN(settings); i++)
		settings[i].len = read_setting(&settings[i], settings[i].val,
					       sizeof(settings[i].val));
	for (i = 0; i < nr; i++) {
		if (!dax_find_dev(i, devs[nr_devs], sizeof(devs[0]), why))
			nr_devs++;
	}
	return make_tmp();
}

/*
 * Removes a directory, except for file systems that are still mounted in it.
 * nftw() with FTW_MOUNT does not work on overlayfs: files have another st_dev
 * than directories there.
 */
static void remove_dir(int parent, const char *name, dev_t dev)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
			O_CLOEXEC);
	struct dirent *e;
	struct stat st;
	DIR *d;

	if (fd < 0)
		return;
	d = fstat(fd, &st) || st.st_dev != dev ? NULL : fdopendir(fd);
	if (!d) {
		close(fd);
		return;
	}
	while ((e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (unlinkat(fd, e->d_name, 0) && errno == EISDIR)
			remove_dir(fd, e->d_name, dev);
	}
	closedir(d);
	unlinkat(parent, name, AT_REMOVEDIR);
}

static void put_back(void (*undo)(void))
{
	unsigned int i;
	struct stat st;

	if (undo)
		undo();
	for (i = 0; i < ARRAY_LEN(settings); i++)
		restore_setting(&settings[i]);
	/* The tracing instance of mmap_sync.c. */
	unlinkat(tracefs, "instances/dax_selftest", AT_REMOVEDIR);
	for (i = 0; i < nr_devs; i++)
		dax_label_dev(devs[i]);
	if (!stat(tmp, &st))
		remove_dir(AT_FDCWD, tmp, st.st_dev);
}

/* -- processes */

static bool is_child(const char *pid)
{
	char path[300], line[512] = "", *at;
	int parent;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	at = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
	fclose(f);
	return at && sscanf(at + 1, " %*c %d", &parent) == 1 &&
		parent == getpid();
}

/*
 * Kills all descendants. This process is a subreaper, so orphaned descendants
 * become its children. A task that does not exit within ten seconds hangs in
 * the kernel.
 */
static void end_children(void)
{
	unsigned int tries;
	struct dirent *e;
	DIR *d;

	for (tries = 0; tries < TRIES; tries++) {
		d = opendir("/proc");
		while (d && (e = readdir(d)))
			if (atoi(e->d_name) > 0 && is_child(e->d_name))
				kill(atoi(e->d_name), SIGKILL);
		if (d)
			closedir(d);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD)
			return;
		usleep(100000);
	}
}

/* Waits for the child or a signal. Returns the signal, or 0. */
static int wait_for(pid_t child, const sigset_t *signals, int *status)
{
	for (;;) {
		int sig = sigwaitinfo(signals, NULL), one;
		pid_t pid;

		if (sig > 0 && sig != SIGCHLD)
			return sig;
		while ((pid = waitpid(-1, &one, WNOHANG)) > 0) {
			if (pid != child)
				continue;
			*status = one;
			return 0;
		}
	}
}

struct guarded {
	int (*run)(int argc, char **argv);
	int argc;
	char **argv;
	void (*undo)(void);
};

/* Runs @run() in a child that gets @death when this process exits. */
static int guard_child(int (*run)(const struct guarded *g),
		       const struct guarded *g, int death)
{
	static const int caught[] = { SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM };
	pid_t pid, parent = getpid();
	int status = 0, sig;
	sigset_t signals, old;
	unsigned int i;

	sigemptyset(&signals);
	for (i = 0; i < ARRAY_LEN(caught); i++)
		sigaddset(&signals, caught[i]);
	sigprocmask(SIG_BLOCK, &signals, &old);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, death);
		if (getppid() != parent)
			_exit(128 + SIGKILL);
		sigprocmask(SIG_SETMASK, &old, NULL);
		exit(run(g));
	}
	sig = pid < 0 ? SIGTERM : wait_for(pid, &signals, &status);
	if (sig || WIFSIGNALED(status))
		end_children();
	else if (death != SIGKILL)	/* the child restored all */
		return WEXITSTATUS(status);
	put_back(g->undo);
	if (!sig && WIFEXITED(status))
		return WEXITSTATUS(status);
	return 128 + (sig ? sig : WTERMSIG(status));
}

static int run_tests(const struct guarded *g)
{
	return g->run(g->argc, g->argv);
}

static int run_apart(const struct guarded *g)
{
	setsid();
	return guard_child(run_tests, g, SIGKILL);
}

int dax_guard(int (*run)(int argc, char **argv), int argc, char **argv,
	      unsigned int nr, void (*undo)(void))
{
	const struct guarded g = { run, argc, argv, undo };

	if (keep(nr)) {
		perror("# TMPDIR");
		return 1;
	}
	return guard_child(run_apart, &g, SIGTERM);
}
