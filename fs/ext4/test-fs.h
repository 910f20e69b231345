/* SPDX-License-Identifier: GPL-2.0 */
/* A file system with one inode, for KUnit tests. */
#ifndef _EXT4_TEST_FS_H
#define _EXT4_TEST_FS_H

#include <kunit/test.h>

#include "ext4.h"

/* System zones: 0 and 1 (super block, descriptors), and these six blocks. */
#define TEST_FS_BITMAPS		8
#define TEST_FS_INODE_TABLE	10
#define TEST_FS_ZONES_END	14

struct test_fs {
	struct super_block sb;
	struct ext4_sb_info sbi;
	struct ext4_super_block es;
	struct ext4_group_desc group;
	struct ext4_inode_info ei;
};

int test_fs_init(struct kunit *test, struct super_block *sb,
		 unsigned int blkbits, ext4_fsblk_t blocks);
void test_fs_drop_zones(struct super_block *sb);

#endif /* _EXT4_TEST_FS_H */
