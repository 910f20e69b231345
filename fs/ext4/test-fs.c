// SPDX-License-Identifier: GPL-2.0
/*
 * A file system with one inode, for KUnit tests. The super block and the inode
 * are fakes, and there is no device. The extent status tree and the system
 * zones are those of ext4.
 */
#include <kunit/static_stub.h>
#include <linux/backing-dev.h>

#include "ext4_extents.h"
#include "test-fs.h"

static struct ext4_group_desc *
test_fs_get_group_desc(struct super_block *sb, ext4_group_t group,
		       struct buffer_head **bh)
{
	return &container_of(sb, struct test_fs, sb)->group;
}

static void test_fs_init_sb(struct test_fs *fs, unsigned int blkbits,
			    ext4_fsblk_t blocks)
{
	struct ext4_sb_info *sbi = &fs->sbi;

	fs->sb.s_fs_info = sbi;
	fs->sb.s_bdi = &noop_backing_dev_info;
	fs->sb.s_blocksize = 1UL << blkbits;
	fs->sb.s_blocksize_bits = blkbits;
	init_rwsem(&fs->sb.s_umount);

	fs->group.bg_block_bitmap_lo = cpu_to_le32(TEST_FS_BITMAPS);
	fs->group.bg_inode_bitmap_lo = cpu_to_le32(TEST_FS_BITMAPS + 1);
	fs->group.bg_inode_table_lo = cpu_to_le32(TEST_FS_INODE_TABLE);

	sbi->s_sb = &fs->sb;
	sbi->s_es = &fs->es;
	fs->es.s_feature_incompat = cpu_to_le32(EXT4_FEATURE_INCOMPAT_64BIT);
	ext4_blocks_count_set(&fs->es, blocks);
	sbi->s_groups_count = 1;
	sbi->s_gdb_count = 1;
	sbi->s_itb_per_group = TEST_FS_ZONES_END - TEST_FS_INODE_TABLE;
	sbi->s_desc_size = EXT4_MIN_DESC_SIZE;
	sbi->s_cluster_ratio = 1;
	/*
	 * The tests use invalid blocks. In this state, ext4_error() assumes an
	 * earlier error and prints nothing.
	 */
	set_bit(EXT4_FLAGS_EMERGENCY_RO, &sbi->s_ext4_flags);
}

static void test_fs_init_inode(struct test_fs *fs)
{
	struct ext4_inode_info *ei = &fs->ei;
	struct inode *inode = &ei->vfs_inode;
	struct ext4_extent_header *eh;

	inode_init_once(inode);
	spin_lock_init(&inode->i_lock);
	init_rwsem(&inode->i_rwsem);
	init_rwsem(&inode->i_data.invalidate_lock);
	i_size_ordered_init(inode);
	inode->i_sb = &fs->sb;
	inode->i_mode = S_IFREG;
	inode->i_ino = 20;
	inode->i_blkbits = fs->sb.s_blocksize_bits;
	inode->i_mapping = &inode->i_data;
	inode->i_data.host = inode;

	init_rwsem(&ei->i_data_sem);
	rwlock_init(&ei->i_es_lock);
	ext4_es_init_tree(&ei->i_es_tree);
	INIT_LIST_HEAD(&ei->i_es_list);

	ext4_set_inode_flag(inode, EXT4_INODE_EXTENTS);
	eh = ext_inode_hdr(inode);
	eh->eh_magic = EXT4_EXT_MAGIC;
	eh->eh_max = cpu_to_le16((sizeof(ei->i_data) - sizeof(*eh)) /
				 sizeof(struct ext4_extent));
}

/* As a remount with noblock_validity. ext4_setup_system_zone() undoes it. */
void test_fs_drop_zones(struct super_block *sb)
{
	down_write(&sb->s_umount);
	ext4_release_system_zone(sb);
	up_write(&sb->s_umount);
}

static void test_fs_exit(void *data)
{
	struct test_fs *fs = data;

	test_fs_drop_zones(&fs->sb);
	/* During replay of a fast commit, no extent is removed. */
	fs->sbi.s_mount_state = 0;
	ext4_es_remove_extent(&fs->ei.vfs_inode, 0, EXT_MAX_BLOCKS);
	ext4_es_unregister_shrinker(&fs->sbi);
	ext4_es_destroy_stats(&fs->sbi);
}

/* Set up the test_fs of @sb, all zeroes so far, until the end of the test. */
int test_fs_init(struct kunit *test, struct super_block *sb,
		 unsigned int blkbits, ext4_fsblk_t blocks)
{
	struct test_fs *fs = container_of(sb, struct test_fs, sb);
	int err;

	test_fs_init_sb(fs, blkbits, blocks);
	test_fs_init_inode(fs);
	err = ext4_es_register_shrinker(&fs->sbi);
	if (err)
		return err;
	err = kunit_add_action_or_reset(test, test_fs_exit, fs);
	if (err)
		return err;
	kunit_activate_static_stub(test, ext4_get_group_desc,
				   test_fs_get_group_desc);
	return ext4_setup_system_zone(sb);
}
