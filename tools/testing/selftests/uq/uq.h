/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers that the tests of NVMe user queues share: namespaces that may be
 * overwritten, nodes of user queues, rings, and commands.
 *
 * Environment; the README describes it in detail:
 *   UQ_TEST_DEV	block devices of NVMe namespaces, separated by spaces.
 *			The tests overwrite them. Most tests use the first one.
 *			Tests with special needs (metadata, a controller with
 *			few queues) search all of them.
 *   UQ_TEST_SLOW_DEV	a namespace that is slow on purpose: about a hundred
 *			commands per second, so that commands stay in flight
 *   UQ_TEST_DESTRUCTIVE	1: tests may affect more than these namespaces
 *			If neither UQ_TEST_DEV nor UQ_TEST_SLOW_DEV is set, the
 *			tests use QEMU's namespaces with a serial number of
 *			these tests, see README.
 *   UQ_TEST_SCALE	multiplies the number of rounds, default 1
 *
 * Functions return 0 on success and a negative errno on failure, unless their
 * comment says otherwise.
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

/* Status of the device: code and type, without CRD, More and DNR. */
#define STATUS(res)	((res) & 0x7ff)
#define ST_SGL_LENGTH	0x0f
#define ST_LBA_RANGE	0x80
#define ST_COMPARE	0x285

/* Bound of all waits that should never end this way, in seconds. */
#define UQ_NEVER	600

/* Missing in older headers. */
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

/* A namespace, as seen by one controller. */
struct uq_ns {
	char		block[32];	/* nvmeSnY */
	int		ctrl;		/* X */
	int		head;		/* Y */
	unsigned int	nsid;
	unsigned int	lba;
	unsigned int	ms;
	bool		ext;
	bool		usable;		/* metadata needs kernel support */
	unsigned int	paths;		/* number of its controllers */
	__u32	max;		/* largest transfer, in bytes */
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

/* -- memory */

/*
 * Memory that the kernel cannot access before *@uffd is closed. *@uffd is
 * negative if there is no userfaultfd.
 */
void *uq_held_memory(size_t len, int *uffd);

/* -- devices */

/*
 * Look up a namespace by name. Binding controllers again may change names, and
 * two namespaces may swap theirs. A namespace that uq_ns_remember() has stored
 * is therefore found by its WWID and the bus address of its controller. Return
 * false if there is none.
 */
bool uq_ns_named(struct uq_ns *ns, const char *dev, size_t len);
/* The last component of the target of a sysfs link. */
int uq_link_name(const char *link, char *name, size_t len);
/*
 * Freeze the queue of a namespace, as a scan does, and return true if the freeze
 * ends. If not, it still waits after the return. @block is the block device.
 */
bool uq_freezes(const struct uq_ns *ns, int block);
/* The WWID of a namespace, by the name of its block device. */
int uq_wwid(const char *block, char *wwid, size_t len);
/* Remember the namespace that has this name now. */
int uq_ns_remember(const struct uq_ns *ns);
/* Number of words in UQ_TEST_DEV. */
unsigned int uq_ns_count(void);
/* The @n'th namespace of UQ_TEST_DEV; false if there is none. */
bool uq_ns_nth(struct uq_ns *ns, unsigned int n);
/* The first namespace of UQ_TEST_DEV that @want() accepts. */
bool uq_ns_find(struct uq_ns *ns, bool (*want)(const struct uq_ns *ns));
/* The namespace of UQ_TEST_SLOW_DEV. */
bool uq_ns_slow(struct uq_ns *ns);

/*
 * The last reset created the queue of this node. If not, the node stays, but
 * can neither be opened nor take commands. The functions below ignore it.
 */
bool uq_is_created(const char *node);
/* The @n'th user queue of one kind of a namespace. */
bool uq_node_nth(struct uq_node *node, const struct uq_ns *ns, bool poll,
		 unsigned int n);
unsigned int uq_count_nodes(const struct uq_ns *ns, bool poll);
/* The first node of the first namespace, or of the slow one. */
bool uq_find(struct uq_node *node, bool poll);
bool uq_find_slow(struct uq_node *node, bool poll);

/*
 * For the setup of a fixture: the first node of a kind of the first namespace.
 * The namespace must have blocks of 512 bytes. If the test cannot run, return
 * its exit code and a reason in @why: 4 to skip it, 1 if the node should exist.
 */
int uq_need_node(struct uq_node *node, bool poll, char *why, size_t len);
/* Same for the first namespace, or the slow one. */
int uq_need_ns(struct uq_ns *ns, bool slow, char *why, size_t len);
/*
 * Same for nodes of two namespaces of one controller; the first one has no
 * metadata. Reset the controller if it has no user queues.
 */
int uq_need_neighbours(struct uq_node node[2], bool poll, char *why, size_t len);

/* Metadata in a separate buffer, supported by the kernel. */
bool uq_separate_metadata(const struct uq_ns *ns);

/* -- attributes and parameters */

/* Read a number from sysfs; -1 if it does not exist. */
long long uq_attr(const char *node, const char *attr);
/* Write an attribute of a node. */
int uq_attr_write(const char *node, const char *attr, const char *val);
/* Read a line from sysfs; "" if it does not exist. */
void uq_attr_str(const char *node, const char *attr, char *buf, size_t len);
/* An attribute in the sysfs directory of a device; "" if it does not exist. */
void uq_read_dev(const char *dir, const char *name, char *val, size_t len);
#define UQ_MODEL	"QEMU NVMe Ctrl"
/* Is this the directory of a controller that QEMU emulates? */
bool uq_is_emulated(const char *dir);
/*
 * Return true if a test may affect more than a namespace. Otherwise write a
 * message to @why, unless it is NULL.
 */
bool uq_may_disrupt(char *why, size_t len);

int uq_param_set(const char *name, const char *val);
long long uq_param_get(const char *name);
/* Read one line of a file, without its newline. */
int uq_read_line(const char *path, char *buf, size_t len);
int uq_write_line(const char *path, const char *val);
/*
 * Trace the events of user queues in an instance of tracefs. Return false if
 * this is not possible.
 */
bool uq_trace_begin(void);
#define UQ_NO_TRACE	"no events of nvme_uq in /sys/kernel/tracing"
/* Find a line of this event with this text, and with a latency. */
bool uq_traced(const char *event, const char *what);
void uq_trace_end(void);
/*
 * Number of entries of a directory, without hidden ones; 0 if it does not
 * exist.
 */
unsigned int uq_count_entries(const char *path);

/* Number of pages that the whole system has pinned since boot. */
unsigned long uq_pages_pinned(void);
/* The monotonic clock, in seconds. */
time_t uq_seconds(void);
/*
 * Sleep for a millisecond between two polls. A task that only yields takes CPU
 * time from the task that it waits for, if CPUs are few or emulated. Do not use
 * it for states that may be short, or in a task that must not enter the kernel.
 */
void uq_rest(void);
/* Wait until a file exists, or is removed. */
int uq_wait_path(const char *path, bool there);
/* The sysfs directory of a controller's PCI device, in PATH_MAX bytes. */
int uq_pci_path(const struct uq_ns *ns, char *path);
/* The address of a controller's PCI device, such as "0000:00:04.0". */
int uq_pci_of(const struct uq_ns *ns, char *pci, size_t len);
/* Same; false if there are several controllers, or no PCI device. */
bool uq_only_pci_of(const struct uq_ns *ns, char *pci, size_t len);
/*
 * The number of the controller with this PCI address, or -1. The number may
 * change if the device is removed while one of its nodes is open.
 */
int uq_ctrl_of_pci(const char *pci);
/* Remove a device, or only unbind its driver. */
int uq_pci_take(const char *pci, bool device);
/*
 * Undo uq_pci_take() and wait for the nodes. If a file of the old nodes is
 * still open, controller and namespace get other numbers; these are stored in
 * @ns.
 */
bool uq_pci_find(const char *pci, bool device, struct uq_ns *ns);
/*
 * Unbind and bind the driver until controller and namespace have their old
 * numbers, which later tests use. The first attempt may be too early, as files
 * of tasks that have ended are closed with a delay.
 */
bool uq_pci_restore(const char *pci, const struct uq_ns *was);
/*
 * Bind controllers again that have no driver, or whose namespaces have other
 * names than when they were remembered. Give up after ten attempts or UQ_NEVER
 * seconds. Return false if there was nothing to do.
 */
bool uq_devices_back(void);
/* Attributes of a controller. */
int uq_ctrl_get(int ctrl, const char *name, char *val, size_t len);
int uq_ctrl_set(int ctrl, const char *name, const char *val);
/* Check the state of a controller, such as "live". */
bool uq_ctrl_is(int ctrl, const char *state);
/* Return whether an IOMMU translates the DMA of a controller. */
bool uq_has_iommu(int ctrl);
/* Reset a controller and wait until it is live again. */
int uq_reset(int ctrl);
/* Set both parameters and reset the controller. */
int uq_bring_up(const struct uq_ns *ns, unsigned int irq, unsigned int poll);
/* Reset a controller to get two user queues of each kind; return one node. */
bool uq_bring_up_node(struct uq_node *node, const struct uq_ns *ns, bool poll);
/* Same, but do not reset a controller that has them. */
bool uq_ensure_node(struct uq_node *node, const struct uq_ns *ns, bool poll);
/* Wait until a namespace has these nodes; false on timeout. */
bool uq_wait_nodes(const struct uq_ns *ns, int irq, int poll);
/*
 * Same for the only namespace of a controller, with two nodes of each kind. Its
 * number, the Y of ngXnYqZ, may have changed and is stored in @ns.
 */
bool uq_wait_head(struct uq_ns *ns);
/* Wait until there are as many nodes as the driver has logged. */
bool uq_settle(const struct uq_ns *ns, int *irq, int *poll);
/* Send an admin command: 0 or the status of the device. */
int uq_admin(int ctrl, struct nvme_passthru_cmd *cmd);
/*
 * Get the 4096 bytes of Identify data of a namespace, or of the controller if
 * @nsid is 0. Return as uq_admin() does.
 */
int uq_identify(int ctrl, unsigned int nsid, unsigned char *id);
/*
 * Attach a namespace to a controller, or detach it. Return 0 or the status of
 * the device.
 */
int uq_attach(const struct uq_ns *ns, bool on);
/* A controller with at most one interrupt, which the block layer uses. */
bool uq_no_vectors(const struct uq_ns *ns);
/*
 * The controller cannot have a user queue of this kind: UQ_NO_QUEUE is the
 * reason.
 */
bool uq_no_queue(const struct uq_ns *ns, bool poll);
#define UQ_NO_QUEUE	"the controller has no interrupt for a user queue"
/* Wait until no command is in flight; false on timeout. */
bool uq_wait_idle(const char *node);
/*
 * Same, for the end of a test. Also check that all submitted commands have
 * completed and that the number of spurious completions is still @spurious.
 * Print all differences.
 */
bool uq_check_idle(const char *node, long long spurious);
/* Write the attribute claim; if it is 1, open files may claim the queue. */
int uq_allow_claims(const char *node, bool allow);
/*
 * Wait until the queue is not claimed: a ring may drop files after its task
 * ended.
 */
bool uq_wait_unclaimed(const char *node);

/* Numbers in the last logged line with "user irq/poll queues". */
bool uq_logged(int ctrl, int *irq, int *poll);

/* Number of resets after a timeout of a command, from the kernel log. */
unsigned int uq_resets_logged(int ctrl);

unsigned int uq_scale(void);

/* -- rings and commands */

int uq_ring(struct io_uring *ring, unsigned int entries, unsigned int flags);
/* Open a node and a ring of its kind; return the descriptor of the node. */
int uq_open_ring(const struct uq_node *node, int mode, struct io_uring *ring,
		 unsigned int entries);
struct nvme_uring_cmd *uq_prep_raw(struct io_uring *ring, int fd,
				   unsigned int nsid, int opcode,
				   __u64 slba, const void *buf,
				   __u32 len, unsigned int blocks);

/* Same for blocks of 512 bytes. */
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

/* Wait for a completion and return its res. @result may be NULL. */
int uq_reap(struct io_uring *ring, __u64 *result);
/* Submit the only prepared command and wait: return its res. */
int uq_run(struct io_uring *ring);
/* Submit all prepared commands and wait: return the first res that is not 0. */
int uq_run_all(struct io_uring *ring, unsigned int n);

/*
 * The module of test_modules causes events in the kernel that user space
 * cannot. Load it if needed; return true if it has the parameter.
 */
#define UQ_TESTMOD_FILE	"test_modules/uq_test_events.ko"
#define UQ_TESTMOD	"/sys/module/uq_test_events/parameters"
#define UQ_NO_TESTMOD	"no " UQ_TESTMOD_FILE
bool uq_load_testmod(const char *param);
void uq_unload_testmod(void);
/* Write to its parameter "event" to cause an event of a PCI device. */
int uq_test_event(const char *pci, const char *what);

void uq_fill(void *buf, size_t len, unsigned int seed);
/* Allocate page-aligned memory; NULL on failure. */
void *uq_alloc(size_t len);
/*
 * Read a byte, or write 1 to it. Return SIGBUS if the memory is not there any
 * more, or 0.
 */
int uq_touch(const void *p, bool write);

/* Send a descriptor and a number through a socket; receive them, or -1. */
int uq_send_fd(int sock, int fd, unsigned int number, int flags);
int uq_receive_fd(int sock, unsigned int *number, int flags);

/* -- privileges */

/* User and group id without any capability. */
#define UQ_UNPRIVILEGED	65534

/* Become this user for good. */
int uq_drop_privileges(void);
/*
 * Run @fn() as this user in a child process. Return the return value of @fn(),
 * from -127 to 127, or -1000 if it is unknown.
 */
int uq_run_unprivileged(int (*fn)(void *data), void *data);
/* Same while the node has mode @mode. */
int uq_run_with_mode(const struct uq_node *node, mode_t mode,
		     int (*fn)(void *data), void *data);

#endif /* SELFTESTS_UQ_H */
