// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of lookups in the extent status tree: what they remember, and when
 * ext4_map_blocks() checks the blocks of a cached extent.
 */
#include "test-fs.h"

static int est_init(struct kunit *test)
{
	struct test_fs *fs = kunit_kzalloc(test, sizeof(*fs), GFP_KERNEL);

	if (!fs)
		return -ENOMEM;
	test->priv = fs;
	return test_fs_init(test, &fs->sb, 12, 10000);
}

/* As a remount without block_validity and one with it, after @bitmaps moved. */
static void est_move_zones(struct kunit *test, u32 bitmaps)
{
	struct test_fs *fs = test->priv;

	fs->group.bg_block_bitmap_lo = cpu_to_le32(bitmaps);
	fs->group.bg_inode_bitmap_lo = cpu_to_le32(bitmaps + 1);
	test_fs_drop_zones(&fs->sb);
	KUNIT_ASSERT_EQ(test, 0, ext4_setup_system_zone(&fs->sb));
}

static void est_insert(struct kunit *test, ext4_lblk_t lblk, ext4_lblk_t len,
		       ext4_fsblk_t pblk)
{
	struct test_fs *fs = test->priv;

	ext4_es_insert_extent(&fs->ei.vfs_inode, lblk, len, pblk,
			      EXTENT_STATUS_WRITTEN, false);
}

static int est_map(struct kunit *test, ext4_lblk_t lblk, unsigned int len)
{
	struct test_fs *fs = test->priv;
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
	struct test_fs *fs = test->priv;
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
	struct test_fs *fs = test->priv;

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
	struct test_fs *fs = test->priv;
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
	est_insert(test, 0, 4, TEST_FS_BITMAPS - 3);
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

	est_move_zones(test, TEST_FS_BITMAPS);
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
		struct test_fs *fs = test->priv;

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
	struct test_fs *fs = test->priv;

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
	.test_cases = est_cases,
};

kunit_test_suites(&est_suite);
