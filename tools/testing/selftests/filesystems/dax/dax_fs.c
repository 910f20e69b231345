// SPDX-License-Identifier: GPL-2.0
/*
 * Find a device that may be overwritten, and make ext4 or XFS on it.
 *
 * "make kselftest" runs on real machines. A device is therefore overwritten
 * only if there is proof that it may be. See README for the rules.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "dax_util.h"

#define MIB 1048576UL

/* Reads a sysfs file of one line. The result is empty if the read fails. */
static void read_line(const char *path, char *buf, size_t len)
{
	FILE *f = fopen(path, "re");

	buf[0] = 0;
	if (!f)
		return;
	if (!fgets(buf, len, f))
		buf[0] = 0;
	buf[strcspn(buf, "\n")] = 0;
	fclose(f);
}

static bool dev_has_dax(const struct stat *st)
{
	char path[128], line[8];

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/queue/dax",
		 major(st->st_rdev), minor(st->st_rdev));
	read_line(path, line, sizeof(line));
	return !strcmp(line, "1");
}

static __u64 parse_size(const char *s, char **end)
{
	__u64 n = strtoull(s, end, 0);

	switch (**end | 0x20) {
	case 'k':
		n <<= 10;
		break;
	case 'm':
		n <<= 20;
		break;
	case 'g':
		n <<= 30;
		break;
	default:
		return n;
	}
	(*end)++;
	return n;
}

/* True if a memmap=SIZE!START of this boot reserves address @start. */
static bool is_set_aside(__u64 start)
{
	char line[4096] = "", *word, *at, *save;
	__u64 from, size;

	read_line("/proc/cmdline", line, sizeof(line));
	for (word = strtok_r(line, " ", &save); word;
	     word = strtok_r(NULL, " ", &save)) {
		if (strncmp(word, "memmap=", 7))
			continue;
		for (at = word + 6; at && *at; at = strchr(at, ',')) {
			size = parse_size(at + 1, &at);
			if (*at != '!')
				continue;
			from = parse_size(at + 1, &at);
			if (start >= from && start - from < size)
				return true;
		}
	}
	return false;
}

/*
 * True if memmap= reserved the memory of the device in this boot. The provider
 * alone is no proof: firmware may give real persistent memory the same type.
 */
static bool dev_is_memmap(const struct stat *st)
{
	char path[160], line[32];

	/* "device" is the namespace. Its parents are the region and the bus. */
	snprintf(path, sizeof(path),
		 "/sys/dev/block/%u:%u/device/../../provider",
		 major(st->st_rdev), minor(st->st_rdev));
	read_line(path, line, sizeof(line));
	if (strcmp(line, "e820"))
		return false;
	snprintf(path, sizeof(path),
		 "/sys/dev/block/%u:%u/device/../resource",
		 major(st->st_rdev), minor(st->st_rdev));
	read_line(path, line, sizeof(line));
	return line[0] && is_set_aside(strtoull(line, NULL, 0));
}

/*
 * The superblock of ext4 is at byte 1024, with the magic at 0x38 and the volume
 * name at 0x78. The superblock of XFS is at byte 0, with the magic at 0 and the
 * name at 0x6c.
 */
static bool dev_has_label(int fd)
{
	const size_t len = strlen(DAX_LABEL);
	char sb[2048];

	if (pread(fd, sb, sizeof(sb), 0) != sizeof(sb))
		return false;
	if (!memcmp(sb, "XFSB", 4))
		return !memcmp(sb + 0x6c, DAX_LABEL, len);
	return !memcmp(sb + 1024 + 0x38, "\x53\xef", 2) &&
	       !memcmp(sb + 1024 + 0x78, DAX_LABEL "\0", len + 1);
}

static bool range_is_zero(int fd, char *buf, __u64 pos, size_t len)
{
	if (pread(fd, buf, len, pos) != (ssize_t)len)
		return false;
	return !buf[0] && !memcmp(buf, buf + 1, len - 1);
}

/*
 * Signatures of partition tables, filesystems, RAID and swap are in the first
 * or the last MiB. A sample of each MiB in between finds data without a
 * signature.
 */
static bool dev_is_blank(int fd)
{
	char *buf = malloc(MIB);
	__u64 size, pos;
	bool blank;

	if (!buf || ioctl(fd, BLKGETSIZE64, &size) || size < 16 * MIB) {
		free(buf);
		return false;
	}
	blank = range_is_zero(fd, buf, 0, MIB) &&
		range_is_zero(fd, buf, size - MIB, MIB);
	for (pos = MIB; blank && pos < size - MIB; pos += MIB)
		blank = range_is_zero(fd, buf, pos, 4096);
	free(buf);
	return blank;
}

/*
 * A test that was killed may still hold the device with its filesystem, until
 * its mount namespace is cleaned up. Retry for a while.
 */
static int open_exclusive(const char *dev)
{
	int fd, tries;

	for (tries = 0; tries < 200; tries++) {
		fd = open(dev, O_RDWR | O_EXCL | O_CLOEXEC);
		if (fd >= 0 || errno != EBUSY)
			break;
		usleep(10000);
	}
	return fd;
}

static int claim(const char *dev, bool named, char *why)
{
	struct stat st;
	bool ours;
	int fd;

	if (geteuid()) {
		snprintf(why, DAX_WHY_LEN, "needs root");
		return -1;
	}
	if (stat(dev, &st) || !S_ISBLK(st.st_mode)) {
		snprintf(why, DAX_WHY_LEN,
			 "no block device %.64s (see README for how to have one)",
			 dev);
		return -1;
	}
	if (!dev_has_dax(&st)) {
		snprintf(why, DAX_WHY_LEN, "%.64s cannot do DAX", dev);
		return -1;
	}
	if (!access("/proc/kallsyms", R_OK) && !dax_kernel_has("dax_iomap_rw")) {
		snprintf(why, DAX_WHY_LEN, "needs CONFIG_FS_DAX");
		return -1;
	}
	fd = open_exclusive(dev);
	if (fd < 0) {
		snprintf(why, DAX_WHY_LEN, "%.64s is in use: %s", dev,
			 strerror(errno));
		return -1;
	}
	ours = dev_has_label(fd);
	if (!ours && !named && !dev_is_memmap(&st)) {
		snprintf(why, DAX_WHY_LEN,
			 "%.64s was not made by memmap= in this boot, and has no label: name it in DAX_TEST_DEV to have it overwritten",
			 dev);
		close(fd);
		return -1;
	}
	ours = ours || dev_is_blank(fd);
	close(fd);
	if (!ours)
		snprintf(why, DAX_WHY_LEN,
			 "%.64s holds data (mkfs.ext4 -L " DAX_LABEL " gives it to these tests)",
			 dev);
	return ours ? 0 : -1;
}

bool dax_kernel_has(const char *function)
{
	FILE *f = fopen("/proc/kallsyms", "re");
	char line[256], name[128];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = sscanf(line, "%*s %*s %127s", name) == 1 &&
			!strcmp(name, function);
	if (f)
		fclose(f);
	return found;
}

int dax_claim_dev(const char *dev, char *why)
{
	return claim(dev, true, why);
}

int dax_find_dev(unsigned int nr, char *dev, size_t len, char *why)
{
	const char *name = nr ? "DAX_TEST_DEV2" : "DAX_TEST_DEV";
	const char *named = getenv(name);

	if (named && !*named) {
		snprintf(why, DAX_WHY_LEN, "%s is empty: no device", name);
		return -1;
	}
	if (named)
		snprintf(dev, len, "%s", named);
	else
		snprintf(dev, len, "/dev/pmem%u", nr);
	return claim(dev, named, why);
}

/* A killed test may leave a half-made filesystem without a label. */
void dax_label_dev(const char *dev)
{
	char sb[2048] = "";
	int fd = open_exclusive(dev);

	if (fd < 0)
		return;
	if (!dev_has_label(fd) && !dev_is_blank(fd)) {
		memcpy(sb + 1024 + 0x38, "\x53\xef", 2);
		strcpy(sb + 1024 + 0x78, DAX_LABEL);
		if (pwrite(fd, sb, sizeof(sb), 0) != sizeof(sb) || fsync(fd))
			fprintf(stderr, "# %s cannot be labelled\n", dev);
	}
	close(fd);
}

int dax_mkfs(const char *dev, const char *opts, unsigned long size)
{
	const char *argv[32] = {
		"mkfs.ext4", "-q", "-F", "-L", DAX_LABEL, "-N", "1024",
		"-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=1",
	};
	char words[256], bs[16], blocks[24], journal[24], *word;
	unsigned int n = 9;

	snprintf(bs, sizeof(bs), "%zu", dax_bs());
	argv[n++] = "-b";
	argv[n++] = bs;
	/*
	 * A default journal would be most of the writes; 1024 blocks is the
	 * minimum.
	 */
	if (!opts || !strstr(opts, "^has_journal")) {
		snprintf(journal, sizeof(journal), "size=%zu",
			 dax_bs() < 8192 ? 8 : dax_bs() / 1024);
		argv[n++] = "-J";
		argv[n++] = journal;
	}
	snprintf(words, sizeof(words), "%s", opts ?: "");
	for (word = strtok(words, " "); word; word = strtok(NULL, " ")) {
		if (n >= ARRAY_LEN(argv) - 3)
			return -E2BIG;
		argv[n++] = word;
	}
	argv[n++] = dev;
	if (size) {
		snprintf(blocks, sizeof(blocks), "%lu", size);
		argv[n++] = blocks;
	}
	return dax_run(argv);
}

int dax_mount(struct dax_fs *fs, const char *opts)
{
	const char *tmp = getenv("TMPDIR") ?: "/tmp";

	if (unshare(CLONE_NEWNS) ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return -errno;
	if ((size_t)snprintf(fs->dir, sizeof(fs->dir), "%s/dax.XXXXXX", tmp) >=
	    sizeof(fs->dir))
		return -ENAMETOOLONG;
	if (!mkdtemp(fs->dir))
		return -errno;
	if (mount(fs->dev, fs->dir, fs->type ?: "ext4", 0,
		  opts ?: "dax=always")) {
		int err = -errno;

		rmdir(fs->dir);
		return err;
	}
	return 0;
}

int dax_umount(struct dax_fs *fs)
{
	/*
	 * A failed test may have left files open. Detach the mount in this
	 * case.
	 */
	if (umount2(fs->dir, 0) && umount2(fs->dir, MNT_DETACH))
		return -errno;
	rmdir(fs->dir);
	return 0;
}

int dax_remount_flags(struct dax_fs *fs, unsigned long flags)
{
	/* MS_BIND changes the mount flags only, not the filesystem options. */
	if (mount(NULL, fs->dir, NULL, MS_REMOUNT | MS_BIND | flags, NULL))
		return -errno;
	return 0;
}

void dax_path(const struct dax_fs *fs, const char *name, char *path,
	      size_t len)
{
	snprintf(path, len, "%s/%s", fs->dir, name);
}

int dax_open(const struct dax_fs *fs, const char *name, int flags)
{
	char path[256];
	int fd;

	dax_path(fs, name, path, sizeof(path));
	fd = open(path, flags | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : fd;
}

int dax_is_dax(int fd)
{
	struct statx stx;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &stx))
		return -errno;
	return !!(stx.stx_attributes & STATX_ATTR_DAX);
}

int dax_drop_caches(void)
{
	sync();
	return dax_put("/proc/sys/vm/drop_caches", "3");
}
