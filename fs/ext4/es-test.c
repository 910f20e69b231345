// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of lookups in the extent status tree: what they remember, and when
 * ext4_map_blocks() checks the blocks of a cached extent.
 */
#include <kunit/static_stub.h>
#include <kunit/test.h>
#include <linux/backing-dev.h>

#include "ext4.h"
#include "ext4_extents.h"

#define EST_BLKBITS	12
#define EST_BLOCKS	10000
/* System zones: 0 and 1 (super block, descriptors), and these six blocks. */
#define EST_BITMAPS	8
#define EST_INODE_TABLE	10
#define EST_TABLE_LEN	4

struct est_fs {
	struct super_block sb;
	struct ext4_sb_info sbi;
	struct ext4_super_block es;
	struct ext4_group_desc group;
	struct ext4_inode_info ei;
};

static struct ext4_group_desc *
est_get_group_desc(struct super_block *sb, ext4_group_t group,
		   struct buffer_head **bh)
{
	return &container_of(sb, struct est_fs, sb)->group;
}

static void est_init_sb(struct est_fs *fs)
{
	struct ext4_sb_info *sbi = &fs->sbi;

	fs->sb.s_fs_info = sbi;
	fs->sb.s_bdi = &noop_backing_dev_info;
	fs->sb.s_blocksize = 1UL << EST_BLKBITS;
	fs->sb.s_blocksize_bits = EST_BLKBITS;
	init_rwsem(&fs->sb.s_umount);

	fs->group.bg_block_bitmap_lo = cpu_to_le32(EST_BITMAPS);
	fs->group.bg_inode_bitmap_lo = cpu_to_le32(EST_BITMAPS + 1);
	fs->group.bg_inode_table_lo = cpu_to_le32(EST_INODE_TABLE);

	sbi->s_sb = &fs->sb;
	sbi->s_es = &fs->es;
	fs->es.s_blocks_count_lo = cpu_to_le32(EST_BLOCKS);
	sbi->s_groups_count = 1;
	sbi->s_gdb_count = 1;
	sbi->s_itb_per_group = EST_TABLE_LEN;
	sbi->s_desc_size = EXT4_MIN_DESC_SIZE;
	sbi->s_cluster_ratio = 1;
	/* The tests map invalid blocks. ext4_error() says nothing in this state. */
	set_bit(EXT4_FLAGS_EMERGENCY_RO, &sbi->s_ext4_flags);
}

static void est_init_inode(struct est_fs *fs)
{
	struct ext4_inode_info *ei = &fs->ei;
	struct inode *inode = &ei->vfs_inode;
	struct ext4_extent_header *eh;

	inode_init_once(inode);
	spin_lock_init(&inode->i_lock);
	init_rwsem(&inode->i_rwsem);
	init_rwsem(&inode->i_data.invalidate_lock);
	inode->i_sb = &fs->sb;
	inode->i_mode = S_IFREG;
	inode->i_ino = 20;
	inode->i_blkbits = EST_BLKBITS;
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

static void est_exit(struct kunit *test)
{
	struct est_fs *fs = test->priv;

	if (!fs)
		return;
	down_write(&fs->sb.s_umount);
	ext4_release_system_zone(&fs->sb);
	up_write(&fs->sb.s_umount);
	ext4_es_remove_extent(&fs->ei.vfs_inode, 0, EXT_MAX_BLOCKS);
	ext4_es_unregister_shrinker(&fs->sbi);
	ext4_es_destroy_stats(&fs->sbi);
}

static int est_init(struct kunit *test)
{
	struct est_fs *fs = kunit_kzalloc(test, sizeof(*fs), GFP_KERNEL);
	int err;

	if (!fs)
		return -ENOMEM;
	est_init_sb(fs);
	est_init_inode(fs);
	err = ext4_es_register_shrinker(&fs->sbi);
	if (err)
		return err;
	test->priv = fs;
	kunit_activate_static_stub(test, ext4_get_group_desc,
				   est_get_group_desc);
	return ext4_setup_system_zone(&fs->sb);
}

/* As a remount without block_validity and one with it, after @bitmaps moved. */
static void est_move_zones(struct kunit *test, u32 bitmaps)
{
	struct est_fs *fs = test->priv;

	fs->group.bg_block_bitmap_lo = cpu_to_le32(bitmaps);
	fs->group.bg_inode_bitmap_lo = cpu_to_le32(bitmaps + 1);
	down_write(&fs->sb.s_umount);
	ext4_release_system_zone(&fs->sb);
	KUNIT_ASSERT_EQ(test, 0, ext4_setup_system_zone(&fs->sb));
	up_write(&fs->sb.s_umount);
}

static void est_insert(struct kunit *test, ext4_lblk_t lblk, ext4_lblk_t len,
		       ext4_fsblk_t pblk)
{
	struct est_fs *fs = test->priv;

	ext4_es_insert_extent(&fs->ei.vfs_inode, lblk, len, pblk,
			      EXTENT_STATUS_WRITTEN, false);
}

static int est_map(struct kunit *test, ext4_lblk_t lblk, unsigned int len)
{
	struct est_fs *fs = test->priv;
	struct inode *inode = &fs->ei.vfs_inode;
	struct ext4_map_blocks map = { .m_lblk = lblk, .m_len = len };
	int ret;

	inode_lock_shared(inode);
	ret = ext4_map_blocks(NULL, inode, &map, 0);
	inode_unlock_shared(inode);
	return ret;
}

static struct extent_status est_find(struct kunit *test, ext4_lblk_t lblk)
{
	struct est_fs *fs = test->priv;
	struct extent_status es;

	KUNIT_ASSERT_TRUE(test, ext4_es_lookup_extent(&fs->ei.vfs_inode, lblk,
						      NULL, &es, NULL));
	return es;
}

static bool est_validated(struct kunit *test, ext4_lblk_t lblk)
{
	struct extent_status es = est_find(test, lblk);

	return ext4_es_is_validated(&es);
}

static void lookup_is_remembered(struct kunit *test)
{
	struct est_fs *fs = test->priv;

	est_insert(test, 0, 4, 100);
	est_insert(test, 10, 4, 200);
	est_insert(test, 20, 4, 300);
	for (ext4_lblk_t lblk = 0; lblk < 30; lblk += 10) {
		est_find(test, lblk + 1);
		KUNIT_EXPECT_EQ(test, lblk, fs->ei.i_es_tree.cache_es->es_lblk);
	}
	ext4_es_remove_extent(&fs->ei.vfs_inode, 20, 4);
	KUNIT_EXPECT_NULL(test, fs->ei.i_es_tree.cache_es);
}

static void lookups_are_counted(struct kunit *test)
{
	struct est_fs *fs = test->priv;
	unsigned long hits = 0, misses = 0;
	struct extent_status es;
	int cpu;

	est_insert(test, 0, 4, 100);
	for (int i = 0; i < 8; i++)
		ext4_es_lookup_extent(&fs->ei.vfs_inode, i, NULL, &es, NULL);
	for_each_possible_cpu(cpu) {
		hits += per_cpu_ptr(fs->sbi.s_es_stats.es_stats_lookups,
				    cpu)->hits;
		misses += per_cpu_ptr(fs->sbi.s_es_stats.es_stats_lookups,
				      cpu)->misses;
	}
	KUNIT_EXPECT_EQ(test, 4, hits);
	KUNIT_EXPECT_EQ(test, 4, misses);
}

static void valid_extent_is_marked(struct kunit *test)
{
	struct extent_status es;

	est_insert(test, 0, 4, 100);
	KUNIT_EXPECT_FALSE(test, est_validated(test, 0));
	KUNIT_EXPECT_EQ(test, 1, est_map(test, 2, 1));
	KUNIT_EXPECT_TRUE(test, est_validated(test, 0));
	KUNIT_EXPECT_EQ(test, 4, est_map(test, 0, 9));
	es = est_find(test, 0);
	KUNIT_EXPECT_EQ(test, 100, ext4_es_pblock(&es));
}

static void invalid_extent_is_not_marked(struct kunit *test)
{
	/* Its last block is one of the bitmaps. */
	est_insert(test, 0, 4, EST_BITMAPS - 3);
	KUNIT_EXPECT_EQ(test, 3, est_map(test, 0, 3));
	KUNIT_EXPECT_FALSE(test, est_validated(test, 0));
	KUNIT_EXPECT_EQ(test, -EFSCORRUPTED, est_map(test, 3, 1));
	KUNIT_EXPECT_EQ(test, -EFSCORRUPTED, est_map(test, 0, 4));
	KUNIT_EXPECT_FALSE(test, est_validated(test, 0));
}

static void new_zones_void_all_marks(struct kunit *test)
{
	est_insert(test, 0, 4, 100);
	est_insert(test, 10, 4, 200);
	KUNIT_EXPECT_EQ(test, 4, est_map(test, 0, 4));
	KUNIT_EXPECT_EQ(test, 4, est_map(test, 10, 4));

	est_move_zones(test, 102);
	KUNIT_EXPECT_FALSE(test, est_validated(test, 0));
	KUNIT_EXPECT_FALSE(test, est_validated(test, 10));
	/* The mark of one extent must not revive that of the other. */
	KUNIT_EXPECT_EQ(test, 4, est_map(test, 10, 4));
	KUNIT_EXPECT_TRUE(test, est_validated(test, 10));
	KUNIT_EXPECT_EQ(test, -EFSCORRUPTED, est_map(test, 0, 4));
	KUNIT_EXPECT_FALSE(test, est_validated(test, 0));

	est_move_zones(test, EST_BITMAPS);
	KUNIT_EXPECT_EQ(test, 4, est_map(test, 0, 4));
	KUNIT_EXPECT_TRUE(test, est_validated(test, 0));
	KUNIT_EXPECT_FALSE(test, est_validated(test, 10));
}

static void merging_takes_the_mark_away(struct kunit *test)
{
	/* To the right, to the left, and between two. */
	static const ext4_lblk_t marked[] = { 20, 24, 20 };
	static const ext4_lblk_t added[] = { 24, 20, 24 };

	for (int i = 0; i < ARRAY_SIZE(marked); i++) {
		struct est_fs *fs = test->priv;

		ext4_es_remove_extent(&fs->ei.vfs_inode, 0, 100);
		est_insert(test, marked[i], 4, 100 + marked[i]);
		if (i == 2)
			est_insert(test, 28, 4, 128);
		KUNIT_EXPECT_EQ(test, 4, est_map(test, marked[i], 4));
		KUNIT_EXPECT_TRUE(test, est_validated(test, marked[i]));
		est_insert(test, added[i], 4, 100 + added[i]);
		KUNIT_EXPECT_EQ(test, i == 2 ? 12 : 8, est_find(test, 20).es_len);
		KUNIT_EXPECT_FALSE(test, est_validated(test, 20));
	}
}

static void splitting_keeps_the_mark(struct kunit *test)
{
	struct est_fs *fs = test->priv;

	est_insert(test, 0, 9, 100);
	KUNIT_EXPECT_EQ(test, 9, est_map(test, 0, 9));
	ext4_es_remove_extent(&fs->ei.vfs_inode, 4, 1);
	KUNIT_EXPECT_TRUE(test, est_validated(test, 0));
	KUNIT_EXPECT_TRUE(test, est_validated(test, 5));
	/* Other blocks in that place have no mark. */
	est_insert(test, 5, 4, 500);
	KUNIT_EXPECT_FALSE(test, est_validated(test, 5));
}

static struct kunit_case est_cases[] = {
	KUNIT_CASE(lookup_is_remembered),
	KUNIT_CASE(lookups_are_counted),
	KUNIT_CASE(valid_extent_is_marked),
	KUNIT_CASE(invalid_extent_is_not_marked),
	KUNIT_CASE(new_zones_void_all_marks),
	KUNIT_CASE(merging_takes_the_mark_away),
	KUNIT_CASE(splitting_keeps_the_mark),
	{}
};

static struct kunit_suite est_suite = {
	.name = "ext4_extent_status",
	.init = est_init,
	.exit = est_exit,
	.test_cases = est_cases,
};

kunit_test_suites(&est_suite);
