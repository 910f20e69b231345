/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests of NVMe user queues share: namespaces that may be overwritten,
 * the nodes of their user queues, rings, and commands.
 *
 * Environment, of which README tells more:
 *   UQ_TEST_DEV	block devices of NVMe namespaces, separated by spaces.
 *			They are overwritten. The first one is used the most;
 *			tests that need something special (metadata, a
 *			controller with few queues) look for it among all.
 *   UQ_TEST_SLOW_DEV	one that is slow on purpose: about a hundred commands a
 *			second, so that commands stay in flight
 *   UQ_TEST_DESTRUCTIVE	1: tests may do what reaches beyond these namespaces
 *			If neither is set, QEMU's namespaces are taken that have
 *			a serial number of these tests, see README.
 *   UQ_TEST_SCALE	multiplies the number of rounds, default 1
 *
 * Functions return 0 on success and a negative errno on failure, unless they
 * say otherwise.
 */
#ifndef SELFTESTS_UQ_H
#define SELFTESTS_UQ_H

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/nvme_ioctl.h>
#include <linux/types.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CMD_FLUSH	0x00
#define CMD_WRITE	0x01
#define CMD_READ	0x02
#define CMD_COMPARE	0x05
#define CMD_ZEROES	0x08
#define CMD_DSM		0x09
#define CMD_COPY	0x19

/* Status of the device, without the bits that say whether to try again. */
#define STATUS(res)	((res) & 0x7ff)
#define ST_SGL_LENGTH	0x0f
#define ST_LBA_RANGE	0x80
#define ST_COMPARE	0x285

/* A bound for what never comes, in seconds. What does come is never timed. */
#define UQ_NEVER	600

/* What older headers do not have. */
#ifndef IORING_SETUP_HYBRID_IOPOLL
#define IORING_SETUP_HYBRID_IOPOLL	0x20000
#endif
#ifndef IORING_SETUP_CQE_MIXED
#define IORING_SETUP_CQE_MIXED		0x40000
#define IORING_CQE_F_SKIP		0x20
#define IORING_CQE_F_32			0x8000
#endif
#ifndef IORING_SETUP_SQE_MIXED
#define IORING_SETUP_SQE_MIXED		0x80000
#endif
/* An enumerator of <linux/io_uring.h> since 6.19. */
#define UQ_OP_URING_CMD128		64

/* A namespace as one controller has it. */
struct uq_ns {
	char		block[32];	/* nvmeSnY */
	int		ctrl;		/* X */
	int		head;		/* Y */
	unsigned int	nsid;
	unsigned int	lba;
	unsigned int	ms;
	bool		ext;
	bool		usable;		/* metadata needs kernel support */
	unsigned int	paths;		/* controllers that it has */
	__u32	max;		/* bytes in one transfer */
};

/* One user queue of a namespace: /dev/ngXnYqZ. */
struct uq_node {
	char		name[32];
	char		path[40];
	char		block[40];
	char		generic[40];	/* "" with native multipath */
	char		ctrl[40];
	struct uq_ns	ns;
	bool		poll;
	unsigned int	depth;
	unsigned int	nsid;
};

/* -- devices */

/*
 * The namespace of this name. Names are given anew when controllers are bound again,
 * and two may change places: one that was remembered is found by its WWID and where
 * its controller is, whatever it is called by then. False if there is none.
 */
bool uq_ns_named(struct uq_ns *ns, const char *dev, size_t len);
/* The last name in a link of sysfs: that of the device that it leads to. */
int uq_link_name(const char *link, char *name, size_t len);
/* What a namespace says of itself, by the name of its block device. */
int uq_wwid(const char *block, char *wwid, size_t len);
/* Remembers what has its name now. */
int uq_ns_remember(const struct uq_ns *ns);
/* How many were named. */
unsigned int uq_ns_count(void);
/* The @n'th namespace that was named; false if there is none. */
bool uq_ns_nth(struct uq_ns *ns, unsigned int n);
/* The first named one for which @want() is true. */
bool uq_ns_find(struct uq_ns *ns, bool (*want)(const struct uq_ns *ns));
/* The slow one. */
bool uq_ns_slow(struct uq_ns *ns);

/* The @n'th user queue of a kind that a namespace has. */
bool uq_node_nth(struct uq_node *node, const struct uq_ns *ns, bool poll,
		 unsigned int n);
unsigned int uq_count_nodes(const struct uq_ns *ns, bool poll);
/* The first one of the first namespace, or of the slow one. */
bool uq_find(struct uq_node *node, bool poll);
bool uq_find_slow(struct uq_node *node, bool poll);

/*
 * For the setup of a fixture: the first node of a kind of the first namespace,
 * which has to have blocks of 512 bytes. Returns 0 or the exit code of a test that
 * cannot run, with a sentence in @why: 4 to skip it, 1 as there should be a node.
 */
int uq_need_node(struct uq_node *node, bool poll, char *why, size_t len);
/* The first namespace, or the slow one, likewise. */
int uq_need_ns(struct uq_ns *ns, bool slow, char *why, size_t len);
/*
 * Likewise, nodes of two namespaces of one controller, the first one without
 * metadata. The controller is reset if it has no user queues.
 */
int uq_need_neighbours(struct uq_node node[2], bool poll, char *why, size_t len);

/* Metadata in a buffer of its own, which the kernel supports. */
bool uq_separate_metadata(const struct uq_ns *ns);

/* -- attributes and parameters */

/* A number from sysfs; -1 if it is not there. */
long long uq_attr(const char *node, const char *attr);
/* The word in an attribute; "" if it is not there. */
void uq_attr_str(const char *node, const char *attr, char *buf, size_t len);
int uq_param_set(const char *name, const char *val);
long long uq_param_get(const char *name);
/* One line of a file, without its end. */
int uq_read_line(const char *path, char *buf, size_t len);
int uq_write_line(const char *path, const char *val);
/* Entries of a folder, without hidden ones; none if it is not there. */
unsigned int uq_count_entries(const char *path);

/* How many pages have been pinned so far, in the whole system. */
unsigned long uq_pages_pinned(void);
/* The monotonic clock, in seconds. */
time_t uq_seconds(void);
/*
 * Sleeps a millisecond between two looks: a task that only yields takes a processor
 * from what it waits for, where these are few or emulated. Not for a state that may
 * pass meanwhile, nor where the task must not enter the kernel.
 */
void uq_rest(void);
/* Waits until a file is there, or gone. */
int uq_wait_path(const char *path, bool there);
/* The folder of a controller's PCI device, in PATH_MAX bytes. */
int uq_pci_path(const struct uq_ns *ns, char *path);
/* Its name on the bus, such as "0000:00:04.0". */
int uq_pci_of(const struct uq_ns *ns, char *pci, size_t len);
/* The same if it has one controller, and that is a PCI device; false otherwise. */
bool uq_only_pci_of(const struct uq_ns *ns, char *pci, size_t len);
/*
 * A controller by that name, as its number may change when the device is removed
 * while one of its nodes is open. The number that it has now, -1 for none:
 */
int uq_ctrl_of_pci(const char *pci);
/* Takes a device, or only its driver, away. */
int uq_pci_take(const char *pci, bool device);
/*
 * Finds it again, and waits for its nodes. While a file of the old ones is open,
 * controller and namespace get other numbers, which are put into @ns.
 */
bool uq_pci_find(const char *pci, bool device, struct uq_ns *ns);
/*
 * Takes the driver away and gives it back until controller and namespace have the
 * numbers by which the tests to come know them. Files of tasks that have ended
 * are closed by and by, so that the first time may be too early.
 */
bool uq_pci_restore(const char *pci, const struct uq_ns *was);
/*
 * Binds controllers again that have no driver or other numbers than when their
 * namespaces were remembered, so that these have their names. It gives up after ten
 * tries, or UQ_NEVER seconds. False if nothing was to be done.
 */
bool uq_devices_back(void);
/* An attribute of a controller. */
int uq_ctrl_get(int ctrl, const char *name, char *val, size_t len);
int uq_ctrl_set(int ctrl, const char *name, const char *val);
/* Is a controller in this state, as in "live"? */
bool uq_ctrl_is(int ctrl, const char *state);
/* Resets a controller and returns when it is live again. */
int uq_reset(int ctrl);
/* Sets both parameters, and resets. */
int uq_bring_up(const struct uq_ns *ns, unsigned int irq, unsigned int poll);
/* A node of a controller that is reset, to have two user queues of each kind. */
bool uq_bring_up_node(struct uq_node *node, const struct uq_ns *ns, bool poll);
/* The same without a reset if it has them. */
bool uq_ensure_node(struct uq_node *node, const struct uq_ns *ns, bool poll);
/* Waits until a namespace has these nodes; false if it never does. */
bool uq_wait_nodes(const struct uq_ns *ns, int irq, int poll);
/*
 * The same for the only namespace of a controller, two of each kind. It may come
 * under another number, the Y of ngXnYqZ, which is put into @ns.
 */
bool uq_wait_head(struct uq_ns *ns);
/* Waits until the nodes are as many as the driver said it would make. */
bool uq_settle(const struct uq_ns *ns, int *irq, int *poll);
/* An admin command to a controller: 0 or what the device says. */
int uq_admin(int ctrl, struct nvme_passthru_cmd *cmd);
/*
 * Namespace Attachment of the NVMe base specification: a controller takes a
 * namespace, or detaches it. Returns 0 or the status of the device.
 */
int uq_attach(const struct uq_ns *ns, bool on);
/* A controller with one interrupt at most, which is the block layer's. */
bool uq_no_vectors(const struct uq_ns *ns);
/* It can have no user queue of a kind, for the reason that UQ_NO_QUEUE tells. */
bool uq_no_queue(const struct uq_ns *ns, bool poll);
#define UQ_NO_QUEUE	"the controller has no interrupt for a user queue"
/* Waits until nothing is in flight; false if that never happens. */
bool uq_wait_idle(const char *node);
/*
 * Once that is so, for the end of a test: all that was submitted has completed,
 * and no completion without a command came since there were @spurious. Prints
 * what is wrong.
 */
bool uq_check_idle(const char *node, long long spurious);
/* And until it is not claimed: a ring may drop files after its task has ended. */
bool uq_wait_unclaimed(const char *node);

/* Numbers of the line "user irq/poll queues" that was logged last. */
bool uq_logged(int ctrl, int *irq, int *poll);

/* How often a command's timeout has led to a reset, says the log. */
unsigned int uq_resets_logged(int ctrl);

unsigned int uq_scale(void);

/* -- the start and the end of a program, see uq_safe.h */

/*
 * Looks whether UQ_TEST_DEV and UQ_TEST_SLOW_DEV name namespaces that may be
 * overwritten, and sets them first if neither is set. Returns 0 or the exit code
 * of a test that cannot run, with a sentence in @why: 4 to skip it, 1 as what was
 * named is not what it should be.
 */
int uq_find_devs(char *why, size_t len);
/*
 * The same, and makes sure that the first namespace, and the slow one, have user
 * queues of both kinds, by setting the parameters and a reset. uq_put_back()
 * undoes it.
 */
int uq_prepare(char *why, size_t len);
void uq_put_back(void);

/* -- rings and commands */

int uq_ring(struct io_uring *ring, unsigned int entries, unsigned int flags);
/* Opens a node, and a ring of its kind: the descriptor of the node. */
int uq_open_ring(const struct uq_node *node, int mode, struct io_uring *ring,
		 unsigned int entries);
struct nvme_uring_cmd *uq_prep_raw(struct io_uring *ring, int fd,
				   unsigned int nsid, int opcode,
				   __u64 slba, const void *buf,
				   __u32 len, unsigned int blocks);

/* The same on blocks of 512 bytes. */
static inline struct nvme_uring_cmd *uq_prep(struct io_uring *ring, int fd,
					     unsigned int nsid, int opcode,
					     __u64 slba, const void *buf,
					     __u32 len)
{
	return uq_prep_raw(ring, fd, nsid, opcode, slba, buf, len, len / 512);
}

static inline struct io_uring_sqe *uq_sqe(struct nvme_uring_cmd *c)
{
	return (struct io_uring_sqe *)((char *)c -
				       offsetof(struct io_uring_sqe, cmd));
}

/* The next completion: its res, and its result when @result is not NULL. */
int uq_reap(struct io_uring *ring, __u64 *result);
/* Submits what was prepared, which is one command, and waits: its result. */
int uq_run(struct io_uring *ring);
/* Submits all that was prepared, waits for all: the first that is not 0. */
int uq_run_all(struct io_uring *ring, unsigned int n);

/*
 * The module of test_modules, which does things to the kernel that user space
 * cannot: whether it has a parameter, after it was loaded if need be.
 */
#define UQ_TESTMOD_FILE	"test_modules/uq_test_events.ko"
#define UQ_TESTMOD	"/sys/module/uq_test_events/parameters"
#define UQ_NO_TESTMOD	"no " UQ_TESTMOD_FILE
bool uq_load_testmod(const char *param);
void uq_unload_testmod(void);
/* What its parameter "event" makes happen to a PCI device. */
int uq_test_event(const char *pci, const char *what);

void uq_fill(void *buf, size_t len, unsigned int seed);
/* Memory that is there, page-aligned; NULL if there is none. */
void *uq_alloc(size_t len);

/* A descriptor through a socket, and a number with it; the one that came, or -1. */
int uq_send_fd(int sock, int fd, unsigned int number, int flags);
int uq_receive_fd(int sock, unsigned int *number, int flags);

/* -- privileges */

/* A user and group without any capability. */
#define UQ_UNPRIVILEGED	65534

/* Becomes that user for good. */
int uq_drop_privileges(void);
/*
 * Runs @fn() in a child process as that user. Returns what @fn() does, which is
 * from -127 to 127, or -1000 if that cannot be told.
 */
int uq_run_unprivileged(int (*fn)(void *data), void *data);
/* The same while the node has mode @mode. */
int uq_run_with_mode(const struct uq_node *node, mode_t mode,
		     int (*fn)(void *data), void *data);

#endif /* SELFTESTS_UQ_H */
