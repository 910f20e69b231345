/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Setup and teardown of every test: ext4 or XFS on a DAX device, in a mount
 * namespace of its own. dax_read.fast is set as the variant asks.
 */
#ifndef _DAX_FIXTURE_H
#define _DAX_FIXTURE_H

#include <fcntl.h>

#include "dax_util.h"
#include "kselftest_harness.h"

/*
 * A limit for tests that hang. Emulated machines with a debugging kernel are
 * slow, and DAX_TEST_SCALE multiplies the rounds. The runner has its own limit
 * (settings).
 */
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT 1800

/* The read path that a variant takes. */
enum dax_path_kind {
	DAX_GENERIC,
	DAX_FAST,
	DAX_UNLOCKED,
};

struct dax_test {
	struct dax_fs fs;
	int was_fast;
	bool unlocked;	/* ext4.dax_unlocked_read is on */
};

struct dax_setup {
	const char *mkfs;
	const char *mount;
	unsigned long blocks;
	const char *xfs;	/* argument of mkfs.xfs -m; NULL: ext4 */
};

/* No options besides those of dax_mkfs(). */
#define DAX_MKFS ""

static inline void dax_use_path(struct __test_metadata *_metadata,
				struct dax_test *test, enum dax_path_kind kind)
{
	test->was_fast = -1;
	if (!dax_fast_exists()) {
		if (kind != DAX_GENERIC)
			SKIP(return, "no dax_read.fast: generic path only");
		return;
	}
	if (kind == DAX_UNLOCKED && !dax_unlocked_exists())
		SKIP(return, "no ext4.dax_unlocked_read");
	test->was_fast = dax_fast_get();
	ASSERT_EQ(0, dax_fast_set(kind != DAX_GENERIC));
	/* A test that the harness killed may have left the parameter on. */
	if (dax_unlocked_exists())
		ASSERT_EQ(0, dax_unlocked_set(kind == DAX_UNLOCKED));
	test->unlocked = kind == DAX_UNLOCKED;
}

static inline void dax_restore_path(struct __test_metadata *_metadata,
				    const struct dax_test *test)
{
	if (test->unlocked)
		EXPECT_EQ(0, dax_unlocked_set(false));
	if (test->was_fast >= 0)
		EXPECT_EQ(0, dax_fast_set(test->was_fast));
}

/* SKIP() ends the test: the harness checks for a skip after each setup. */
static inline void dax_begin(struct __test_metadata *_metadata,
			     struct dax_test *test, enum dax_path_kind kind,
			     const struct dax_setup *setup)
{
	char why[DAX_WHY_LEN];
	int fd, ret;

	test->was_fast = -1;
	if (dax_find_dev(0, test->fs.dev, sizeof(test->fs.dev), why))
		SKIP(return, "%s", why);
	test->fs.type = setup->xfs ? "xfs" : "ext4";
	if (setup->xfs && !dax_has_fs("xfs"))
		SKIP(return, "needs mkfs.xfs (package xfsprogs) and CONFIG_XFS_FS");
	dax_use_path(_metadata, test, kind);
	if (_metadata->exit_code)
		return;
	ret = setup->xfs ? dax_mkfs_xfs(test->fs.dev, setup->xfs) :
		dax_mkfs(test->fs.dev, setup->mkfs ?: DAX_MKFS, setup->blocks);
	ret = ret ?: dax_mount(&test->fs, setup->mount);
	/* If the setup fails, the harness runs no teardown. */
	if (ret)
		dax_restore_path(_metadata, test);
	ASSERT_EQ(0, ret);

	/* Without DAX, the tests would pass and prove nothing. */
	fd = dax_open(&test->fs, "probe", O_RDWR | O_CREAT);
	ASSERT_GE(fd, 0);
	if (!setup->mount)
		ASSERT_EQ(1, dax_is_dax(fd));
	close(fd);
}

static inline void dax_end(struct __test_metadata *_metadata,
			   struct dax_test *test)
{
	dax_restore_path(_metadata, test);
	if (test->fs.dir[0])
		EXPECT_EQ(0, dax_umount(&test->fs));
}

/* Returns @len bytes of page-aligned anonymous memory. */
static inline void *dax_alloc(struct __test_metadata *_metadata, size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ASSERT_NE(MAP_FAILED, p);
	return p;
}

/*
 * Skips a test of a bug on a kernel that has the bugs of Linux 7.3. The test has
 * to return. dax_drop_replaced_range() came with the last fix in fs/dax.c.
 */
static inline bool dax_skips_bug(struct __test_metadata *_metadata)
{
	if (!dax_kernel_has("dax_drop_replaced_range"))
		SKIP(return true, "this kernel does not have the fixes");
	return false;
}

/* If there is no device, prints the reason and exits with 4. */
static inline int dax_main(int argc, char **argv)
{
	char dev[128], why[DAX_WHY_LEN];

	/* -l and -h run no tests. */
	if (argc > 1 && (!strcmp(argv[1], "-l") || !strcmp(argv[1], "-h")))
		return test_harness_run(argc, argv);
	if (dax_find_dev(0, dev, sizeof(dev), why)) {
		ksft_print_header();
		ksft_exit_skip("%s\n", why);
	}
	if (!dax_has_fs("ext4")) {
		ksft_print_header();
		ksft_exit_skip("needs mkfs.ext4 (package e2fsprogs) and CONFIG_EXT4_FS\n");
	}
	return dax_guard(test_harness_run, argc, argv, 1, NULL);
}

#endif /* _DAX_FIXTURE_H */
