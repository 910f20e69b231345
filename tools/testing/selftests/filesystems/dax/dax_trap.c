// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that block every task that touches them, also in the kernel, until a
 * test releases them.
 *
 * A test uses such a page to bring two threads to a known state. Without it the
 * test would have to sleep for a guessed time.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dax_util.h"

static int trap_register(const struct dax_trap *trap)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = {
		.range = {
			.start = (unsigned long)trap->page,
			.len = dax_bs(),
		},
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	if (ioctl(trap->uffd, UFFDIO_API, &api) ||
	    ioctl(trap->uffd, UFFDIO_REGISTER, &reg))
		return -errno;
	return 0;
}

int dax_trap_arm(struct dax_trap *trap, char *page)
{
	int ret;

	if (!page) {
		page = mmap(NULL, dax_bs(), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (page == MAP_FAILED)
			return -errno;
	}
	trap->page = page;
	trap->uffd = syscall(__NR_userfaultfd, O_CLOEXEC);
	if (trap->uffd < 0)
		return -errno;
	ret = trap_register(trap);
	if (ret)
		close(trap->uffd);
	return ret;
}

int dax_trap_wait(const struct dax_trap *trap)
{
	struct uffd_msg msg;

	if (read(trap->uffd, &msg, sizeof(msg)) != sizeof(msg))
		return -errno;
	return msg.event == UFFD_EVENT_PAGEFAULT ? 0 : -EPROTO;
}

int dax_trap_release(const struct dax_trap *trap, int fill)
{
	struct uffdio_copy copy = {
		.dst = (unsigned long)trap->page,
		.len = dax_bs(),
	};
	void *src = malloc(dax_bs());
	int ret = 0;

	if (!src)
		return -ENOMEM;
	memset(src, fill, dax_bs());
	copy.src = (unsigned long)src;
	if (ioctl(trap->uffd, UFFDIO_COPY, &copy))
		ret = -errno;
	free(src);
	close(trap->uffd);
	return ret;
}

/*
 * A DAX write copies under the exclusive inode lock. A write from a trap holds
 * the lock until the trap is released.
 */
static void *holder_thread(void *arg)
{
	struct dax_holder *holder = arg;

	holder->ret = pwrite(holder->fd, holder->trap.page, 1, 0);
	if (holder->ret < 0)
		holder->ret = -errno;
	return NULL;
}

int dax_hold(struct dax_holder *holder, int fd, int fill)
{
	int ret;

	holder->fd = fd;
	holder->fill = fill;
	ret = dax_trap_arm(&holder->trap, NULL);
	if (ret)
		return ret;
	ret = -pthread_create(&holder->thread, NULL, holder_thread, holder);
	return ret ?: dax_trap_wait(&holder->trap);
}

ssize_t dax_unhold(struct dax_holder *holder)
{
	int ret = dax_trap_release(&holder->trap, holder->fill);

	pthread_join(holder->thread, NULL);
	munmap(holder->trap.page, dax_bs());
	return ret ?: holder->ret;
}

static char task_state(pid_t pid)
{
	char path[64], line[256] = "", *p;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (!fgets(line, sizeof(line), f))
		line[0] = 0;
	fclose(f);
	p = strrchr(line, ')');
	return p && p[1] ? p[2] : 0;
}

bool dax_wait_blocked(pid_t pid)
{
	char state;

	do {
		sched_yield();
		state = task_state(pid);
	} while (state != 'D' && state != 'Z' && state);

	return state == 'D';
}
