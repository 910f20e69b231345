// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of the ext4 DAX read (dax-read.h and dax-read.c).
 *
 * The tests check the following:
 *
 *  1. ext4_dax_pos_to_map() returns the blocks of a byte range and stops at the
 *     last block of a file. A table of ranges.
 *
 *  2. ext4_dax_lookup_cached() returns the same as ext4_map_blocks(), or
 *     nothing. The test looks up each row of a table in one extent status tree
 *     that has entries of all kinds. It compares each answer with the row and
 *     with ext4_map_blocks().
 *
 *  3. ext4_dax_recall() repeats the answer of a lookup, but only for blocks of
 *     that extent. The extent must be written and valid as a whole. The answer
 *     ends when blocks are taken from the file or the system zones change.
 *     Tables, as above.
 *
 *  4. The same for thousands of random layouts: complete extent status trees,
 *     and trees with reclaimed parts, over extents in the inode. Each answer is
 *     compared with ext4_map_blocks() and with the layout. The seed is printed;
 *     ext4_test.dax_read_seed= repeats a run.
 *
 *  5. While ext4_map_blocks() turns unwritten blocks into zeroed written ones,
 *     no lookup finds a block as written before it is zeroed. This includes
 *     extents that cannot be split. The lookups run while blocks are zeroed.
 *
 *  6. ext4_dax_read_user() fills user memory. Each row reads a file with blocks
 *     on a fake DAX device. The device can answer one page at a time, have bad
 *     pages, or be dead. Then other functions read the same range:
 *     dax_iomap_rw(), dax_read_simple() with ext4_iomap_begin() as for other
 *     file systems, and dax_read_simple() with the lookup of ext4 into several
 *     pieces and into kernel memory. Count, errno and bytes must agree. Random
 *     reads of random files follow.
 *
 * The super block, the inode and the device are fakes. The code under test and
 * the extent status tree are those of ext4. Tests 3 and 6 need FS_DAX, which
 * UML does not support: see dax.kunitconfig. The other tests run everywhere.
 */

#include "dax-test.h"

/* ---- the blocks of a byte range ---- */

struct drt_range {
	const char *desc;
	u8 blkbits;
	loff_t pos;
	size_t count;
	int ret;
	ext4_lblk_t lblk;
	unsigned int len;
};

static const struct drt_range drt_ranges[] = {
	{ "first byte", 12, 0, 1, 0, 0, 1 },
	{ "one block", 12, 0, 4096, 0, 0, 1 },
	{ "one block and a byte", 12, 0, 4097, 0, 0, 2 },
	{ "last byte of a block", 12, 4095, 1, 0, 0, 1 },
	{ "across a boundary", 12, 4095, 2, 0, 0, 2 },
	{ "up to a boundary", 12, 4095, 4097, 0, 0, 2 },
	{ "second block", 12, 4096, 4096, 0, 1, 1 },
	{ "blocks of 1 KiB", 10, 1023, 1026, 0, 0, 3 },
	{ "blocks of 64 KiB", 16, 65535, 65538, 0, 0, 3 },
	{ "largest read", 12, 4095, 0x7ffff000, 0, 0, 0x80000 },
	{ "upper half of the block numbers", 12, DRT_POS(0x80000000), 4096,
	  0, 0x80000000, 1 },
	{ "last block", 12, DRT_POS(DRT_MAX_BLOCK), 4096,
	  0, DRT_MAX_BLOCK, 1 },
	{ "last block but one", 12, DRT_POS(DRT_MAX_BLOCK) - 1, 2,
	  0, DRT_MAX_BLOCK - 1, 2 },
	{ "beyond the last block", 12, DRT_POS(DRT_MAX_BLOCK) + 4095, 2,
	  0, DRT_MAX_BLOCK, 1 },
	{ "far beyond the last block", 12, DRT_POS(DRT_MAX_BLOCK), 0x7ffff000,
	  0, DRT_MAX_BLOCK, 1 },
	{ "past the last block", 12, DRT_POS(DRT_MAX_BLOCK + 1ULL), 1,
	  -EINVAL },
	{ "last block of 1 KiB", 10, (loff_t)DRT_MAX_BLOCK << 10, 0x7ffff000,
	  0, DRT_MAX_BLOCK, 1 },
	{ "past the last block of 1 KiB", 10, (DRT_MAX_BLOCK + 1ULL) << 10, 1,
	  -EINVAL },
	{ "largest offset", 12, LLONG_MAX, 1, -EINVAL },
	{ "largest offset and count", 12, LLONG_MAX, 0x7ffff000, -EINVAL },
};

KUNIT_ARRAY_PARAM_DESC(drt_range, drt_ranges, desc);

static void drt_test_blocks(struct kunit *test)
{
	const struct drt_range *p = test->param_value;
	struct drt_fs *fs = test->priv;
	struct inode *inode = &fs->ei.vfs_inode;
	struct ext4_map_blocks map = {};
	int ret;

	inode->i_blkbits = p->blkbits;
	ret = ext4_dax_pos_to_map(inode, p->pos, p->count, &map);
	KUNIT_ASSERT_EQ(test, ret, p->ret);
	KUNIT_EXPECT_EQ(test, map.m_lblk, p->lblk);
	KUNIT_EXPECT_EQ(test, map.m_len, p->len);
}

/*
 * One extent of each kind. Blocks 40 to 49 and the blocks between extents have
 * no entry.
 */
static const struct drt_extent drt_tree[] = {
	{ 0, 10, 1000, DRT_WRITTEN },
	{ 10, 10, 2000, DRT_UNWRITTEN },
	{ 20, 10, 0, DRT_HOLE },
	{ 30, 10, 0, DRT_DELAYED },
	{ 50, 4, 3000, DRT_WRITTEN },
	{ 54, 4, 4000, DRT_WRITTEN },
	{ 58, 4, 4004, DRT_WRITTEN },
	{ 70, 4, DRT_FS_BLOCKS - 2, DRT_WRITTEN },
	{ 80, 4, DRT_FS_BLOCKS - 2, DRT_UNWRITTEN },
	{ 90, 2, TEST_FS_BITMAPS - 1, DRT_WRITTEN },
	{ 100, 2, TEST_FS_ZONES_END - 1, DRT_WRITTEN },
	{ 110, 1, 0, DRT_WRITTEN },
	{ 120, 1, ~0ULL >> 16, DRT_WRITTEN },
	{ DRT_MAX_BLOCK - 9, 10, DRT_FS_BLOCKS - 10, DRT_WRITTEN },
};

struct drt_query {
	const char *desc;
	ext4_lblk_t lblk;
	unsigned int len;
	bool found;
	unsigned int flags;
	ext4_fsblk_t pblk;
	unsigned int got;
	int map_ret;	/* of ext4_map_blocks(), if the lookup fails */
};

#define DRT_FOUND(_flags, _pblk, _got) \
	.found = true, .flags = (_flags), .pblk = (_pblk), .got = (_got)

static const struct drt_query drt_queries[] = {
	{ "written, first block", 0, 1, DRT_FOUND(EXT4_MAP_MAPPED, 1000, 1) },
	{ "written, all of it", 0, 10, DRT_FOUND(EXT4_MAP_MAPPED, 1000, 10) },
	{ "written, part of it", 3, 4, DRT_FOUND(EXT4_MAP_MAPPED, 1003, 4) },
	{ "written, last block", 9, 1, DRT_FOUND(EXT4_MAP_MAPPED, 1009, 1) },
	{ "written, beyond its end", 9, 2,
	  DRT_FOUND(EXT4_MAP_MAPPED, 1009, 1) },
	{ "written, far beyond its end", 0, 0x80001,
	  DRT_FOUND(EXT4_MAP_MAPPED, 1000, 10) },
	{ "unwritten, first block", 10, 1,
	  DRT_FOUND(EXT4_MAP_UNWRITTEN, 2000, 1) },
	{ "unwritten, beyond its end", 12, 9,
	  DRT_FOUND(EXT4_MAP_UNWRITTEN, 2002, 8) },
	{ "hole, first block", 20, 1, DRT_FOUND(0, 0, 1) },
	{ "hole, beyond its end", 29, 100, DRT_FOUND(0, 0, 1) },
	{ "delayed, first block", 30, 1, DRT_FOUND(EXT4_MAP_DELAYED, 0, 1) },
	{ "delayed, beyond its end", 31, 100,
	  DRT_FOUND(EXT4_MAP_DELAYED, 0, 9) },
	{ "neighbour in the file, not on disk", 52, 6,
	  DRT_FOUND(EXT4_MAP_MAPPED, 3002, 2) },
	{ "neighbour in the file and on disk", 55, 100,
	  DRT_FOUND(EXT4_MAP_MAPPED, 4001, 7) },
	{ "no entry, after one", 40, 1 },
	{ "no entry, up to one", 45, 100 },
	{ "no entry, before one", 49, 1 },
	{ "no entry, after the file", 1000, 1 },
	{ "no entry, before the last", DRT_MAX_BLOCK - 10, 1 },
	{ "written, last blocks of the device", 70, 2,
	  DRT_FOUND(EXT4_MAP_MAPPED, DRT_FS_BLOCKS - 2, 2) },
	{ "invalid: runs off the device", 70, 3, .map_ret = -EFSCORRUPTED },
	{ "invalid: off the device", 72, 1, .map_ret = -EFSCORRUPTED },
	{ "invalid: unwritten off the device", 82, 1,
	  DRT_FOUND(EXT4_MAP_UNWRITTEN, DRT_FS_BLOCKS, 1) },
	{ "written, before a system zone", 90, 1,
	  DRT_FOUND(EXT4_MAP_MAPPED, TEST_FS_BITMAPS - 1, 1) },
	{ "invalid: runs into a system zone", 90, 2,
	  .map_ret = -EFSCORRUPTED },
	{ "invalid: in a system zone", 91, 1, .map_ret = -EFSCORRUPTED },
	{ "invalid: end of a system zone", 100, 2, .map_ret = -EFSCORRUPTED },
	{ "written, after a system zone", 101, 1,
	  DRT_FOUND(EXT4_MAP_MAPPED, TEST_FS_ZONES_END, 1) },
	{ "invalid: the super block", 110, 1, .map_ret = -EFSCORRUPTED },
	{ "invalid: largest block number", 120, 1, .map_ret = -EFSCORRUPTED },
	{ "last block of the largest file", DRT_MAX_BLOCK, 1,
	  DRT_FOUND(EXT4_MAP_MAPPED, DRT_FS_BLOCKS - 1, 1) },
	{ "up to the last block", DRT_MAX_BLOCK - 9, 100,
	  DRT_FOUND(EXT4_MAP_MAPPED, DRT_FS_BLOCKS - 10, 10) },
};

KUNIT_ARRAY_PARAM_DESC(drt_query, drt_queries, desc);

static void drt_plant_tree(struct inode *inode)
{
	for (int i = 0; i < ARRAY_SIZE(drt_tree); i++)
		drt_to_cache(inode, &drt_tree[i]);
}

static void drt_test_lookup(struct kunit *test)
{
	const struct drt_query *p = test->param_value;
	struct drt_fs *fs = test->priv;
	struct inode *inode = &fs->ei.vfs_inode;
	struct ext4_map_blocks got, want;
	bool found;
	int ret;

	drt_plant_tree(inode);
	found = drt_ask(test, drt_cached, inode, p->lblk, p->len, &got);
	KUNIT_ASSERT_EQ(test, found, p->found);
	/* Without an entry, the inode has no extents to compare with. */
	if (!found && !p->map_ret)
		return;

	ret = drt_map_blocks(inode, p->lblk, p->len, &want);
	if (!found) {
		KUNIT_EXPECT_EQ(test, ret, p->map_ret);
		return;
	}
	KUNIT_EXPECT_EQ(test, got.m_flags, p->flags);
	KUNIT_EXPECT_EQ(test, got.m_pblk, p->pblk);
	KUNIT_EXPECT_EQ(test, got.m_len, p->got);
	drt_expect_same(test, &got, &want, ret);
}

/* Check that no lookup uses the tree while a fast commit is replayed. */
static void drt_test_lookup_replay(struct kunit *test)
{
	const struct drt_query *p = test->param_value;
	struct drt_fs *fs = test->priv;
	struct inode *inode = &fs->ei.vfs_inode;
	struct ext4_map_blocks map;

	drt_plant_tree(inode);
	fs->sbi.s_mount_state |= EXT4_FC_REPLAY;
	KUNIT_EXPECT_FALSE(test, drt_ask(test, drt_cached, inode, p->lblk,
					 p->len, &map));

	fs->sbi.s_mount_state &= ~EXT4_FC_REPLAY;
	KUNIT_EXPECT_EQ(test, drt_ask(test, drt_cached, inode, p->lblk, p->len,
				      &map), p->found);
}

static void drt_test_lookup_empty(struct kunit *test)
{
	struct drt_fs *fs = test->priv;
	struct inode *inode = &fs->ei.vfs_inode;
	struct ext4_map_blocks map;

	KUNIT_EXPECT_FALSE(test, drt_ask(test, drt_cached, inode, 0, 1, &map));
	KUNIT_EXPECT_FALSE(test, drt_ask(test, drt_cached, inode,
					 DRT_MAX_BLOCK, 1, &map));
	KUNIT_EXPECT_FALSE(test, drt_ask(test, drt_recall, inode, 0, 1, &map));
}

#ifdef CONFIG_FS_DAX

/* ---- the remembered extent ---- */

struct drt_memory {
	const char *desc;
	ext4_lblk_t looked_up;
	ext4_lblk_t lblk;
	unsigned int len;
	ext4_fsblk_t pblk;	/* 0: not remembered */
	unsigned int got;
};

static const struct drt_memory drt_memories[] = {
	{ "first block", 3, 0, 1, 1000, 1 },
	{ "last block", 3, 9, 1, 1009, 1 },
	{ "all of it", 3, 0, 10, 1000, 10 },
	{ "beyond its end", 3, 9, 2, 1009, 1 },
	{ "far beyond its end", 3, 0, 0x80001, 1000, 10 },
	{ "block after it", 3, 10, 1 },
	{ "last block of the largest file", 3, DRT_MAX_BLOCK, 1 },
	{ "block before it", 50, 49, 1 },
	{ "up to it", 50, 45, 10 },
	{ "first block of the file", 50, 0, 1 },
	{ "extent before it", 54, 53, 1 },
	{ "merged with a neighbour", 55, 60, 100, 4006, 2 },
	{ "end of the largest file", DRT_MAX_BLOCK - 9, DRT_MAX_BLOCK, 1,
	  DRT_FS_BLOCKS - 1, 1 },
	{ "unwritten", 12, 12, 1 },
	{ "hole", 25, 25, 1 },
	{ "delayed", 35, 35, 1 },
	{ "no entry", 45, 45, 1 },
	{ "valid part of an extent that runs off the device", 70, 70, 1 },
	{ "invalid part of an extent that runs off the device", 70, 73, 1 },
	{ "valid part of an extent that runs into a system zone", 90, 90, 1 },
	{ "invalid part of an extent that runs into a system zone",
	  90, 91, 1 },
	{ "invalid", 91, 91, 1 },
};

KUNIT_ARRAY_PARAM_DESC(drt_memory, drt_memories, desc);

static void drt_test_recall(struct kunit *test)
{
	const struct drt_memory *p = test->param_value;
	struct drt_fs *fs = test->priv;
	struct inode *inode = &fs->ei.vfs_inode;
	struct ext4_map_blocks got, want;
	int ret;

	drt_plant_tree(inode);
	drt_ask(test, drt_cached, inode, p->looked_up, 1, &got);
	KUNIT_ASSERT_EQ(test, p->pblk != 0,
			drt_ask(test, drt_recall, inode, p->lblk, p->len,
				&got));
	if (!p->pblk)
		return;

	KUNIT_EXPECT_EQ(test, got.m_pblk, p->pblk);
	KUNIT_EXPECT_EQ(test, got.m_len, p->got);
	ret = drt_map_blocks(inode, p->lblk, p->len, &want);
	drt_expect_same(test, &got, &want, ret);
}

/*
 * Check that only two lookups in a row of another written extent replace the
 * remembered one.
 */
static void drt_test_recall_last(struct kunit *test)
{
	struct drt_fs *fs = test->priv;
	struct inode *inode = &fs->ei.vfs_inode;
	struct ext4_map_blocks map;

	drt_plant_tree(inode);
	drt_ask(test, drt_cached, inode, 0, 1, &map);
	drt_ask(test, drt_cached, inode, 10, 1, &map);
	KUNIT_EXPECT_TRUE(test, drt_ask(test, drt_recall, inode, 0, 1, &map));

	drt_ask(test, drt_cached, inode, 50, 1, &map);
	KUNIT_EXPECT_TRUE(test, drt_ask(test, drt_recall, inode, 0, 1, &map));
	drt_ask(test, drt_cached, inode, 55, 1, &map);
	KUNIT_EXPECT_TRUE(test, drt_ask(test, drt_recall, inode, 0, 1, &map));
	drt_ask(test, drt_cached, inode, 50, 1, &map);
	KUNIT_EXPECT_TRUE(test, drt_ask(test, drt_recall, inode, 0, 1, &map));

	drt_ask(test, drt_cached, inode, 51, 1, &map);
	KUNIT_EXPECT_FALSE(test, drt_ask(test, drt_recall, inode, 0, 1, &map));
	KUNIT_EXPECT_TRUE(test, drt_ask(test, drt_recall, inode, 50, 1, &map));
}

/*
 * Check that the shrinker keeps the entry of an extent that is read between its
 * scans, and drops the others.
 */
static void drt_test_shrinker_spares_busy(struct kunit *test)
{
	struct drt_fs *fs = test->priv;
	struct inode *inode = &fs->ei.vfs_inode;
	struct ext4_map_blocks map;

	drt_plant_tree(inode);
	drt_map_blocks(inode, 50, 1, &map);
	for (int i = 0; i < 4; i++) {
		if (!drt_ask(test, drt_recall, inode, 0, 1, &map))
			KUNIT_EXPECT_TRUE(test, drt_ask(test, drt_cached, inode,
							0, 1, &map));
		KUNIT_EXPECT_EQ(test, map.m_pblk, 1000);
		drt_scan(fs);
	}
	KUNIT_EXPECT_TRUE(test, drt_ask(test, drt_cached, inode, 9, 1, &map));
	KUNIT_EXPECT_FALSE(test, drt_ask(test, drt_cached, inode, 50, 1, &map));
}

/* Check that a stale extent is replaced by the first lookup. */
static void drt_test_recall_forgotten(struct kunit *test)
{
	struct drt_fs *fs = test->priv;
	struct inode *inode = &fs->ei.vfs_inode;
	struct ext4_map_blocks map;

	drt_plant_tree(inode);
	drt_ask(test, drt_cached, inode, 0, 1, &map);
	ext4_es_remove_extent(inode, 0, 1);
	KUNIT_EXPECT_FALSE(test, drt_ask(test, drt_recall, inode, 1, 1, &map));
	drt_ask(test, drt_cached, inode, 50, 1, &map);
	KUNIT_EXPECT_TRUE(test, drt_ask(test, drt_recall, inode, 50, 1, &map));
}

static void drt_insert_elsewhere(struct drt_fs *fs)
{
	static const struct drt_extent ex = { 1000, 1, 6000, DRT_WRITTEN };

	drt_to_cache(&fs->ei.vfs_inode, &ex);
}

static void drt_delay_elsewhere(struct drt_fs *fs)
{
	static const struct drt_extent ex = { 1000, 1, 0, DRT_DELAYED };

	drt_to_cache(&fs->ei.vfs_inode, &ex);
}

static void drt_append(struct drt_fs *fs)
{
	static const struct drt_extent ex = { 10, 5, 1010, DRT_WRITTEN };

	drt_to_cache(&fs->ei.vfs_inode, &ex);
}

/* As collapse and insert range and extent swaps do: remove and insert. */
static void drt_move(struct drt_fs *fs)
{
	static const struct drt_extent ex = { 0, 10, 6000, DRT_WRITTEN };

	ext4_es_remove_extent(&fs->ei.vfs_inode, 0, EXT_MAX_BLOCKS);
	drt_to_cache(&fs->ei.vfs_inode, &ex);
}

/* As zero range does. */
static void drt_make_unwritten(struct drt_fs *fs)
{
	static const struct drt_extent ex = { 9, 1, 1009, DRT_UNWRITTEN };

	drt_to_cache(&fs->ei.vfs_inode, &ex);
}

/* As the last step of hole punching does. */
static void drt_make_hole(struct drt_fs *fs)
{
	static const struct drt_extent ex = { 9, 1, 0, DRT_HOLE };

	drt_to_cache(&fs->ei.vfs_inode, &ex);
}

/* Remove a block after the shrinker has dropped its entry. */
static void drt_remove_reclaimed(struct drt_fs *fs)
{
	static const struct drt_extent left = { 0, 9, 1000, DRT_WRITTEN };

	drt_shrink(fs);
	ext4_es_remove_extent(&fs->ei.vfs_inode, 9, 1);
	drt_to_cache(&fs->ei.vfs_inode, &left);
}

static void drt_remove_elsewhere(struct drt_fs *fs)
{
	ext4_es_remove_extent(&fs->ei.vfs_inode, 50, 1);
}

static void drt_remove_part(struct drt_fs *fs)
{
	ext4_es_remove_extent(&fs->ei.vfs_inode, 9, 1);
}

static void drt_new_zones(struct drt_fs *fs)
{
	ext4_setup_system_zone(&fs->sb);
}

static void drt_no_zones(struct drt_fs *fs)
{
	test_fs_drop_zones(&fs->sb);
}

struct drt_event {
	const char *desc;
	void (*happen)(struct drt_fs *fs);
	bool forgets;
};

static const struct drt_event drt_events[] = {
	{ "extent written elsewhere", drt_insert_elsewhere, false },
	{ "extent delayed elsewhere", drt_delay_elsewhere, false },
	{ "extent appended to", drt_append, false },
	{ "extent moved on disk", drt_move, true },
	{ "part of the extent made unwritten", drt_make_unwritten, true },
	{ "part of the extent made a hole", drt_make_hole, true },
	{ "part of the extent removed, entry reclaimed", drt_remove_reclaimed,
	  true },
	{ "extent removed elsewhere", drt_remove_elsewhere, true },
	{ "part of the extent removed", drt_remove_part, true },
	{ "block_validity", drt_new_zones, true },
	{ "noblock_validity", drt_no_zones, true },
	{ "entry spared by the shrinker", drt_scan, true },
};

KUNIT_ARRAY_PARAM_DESC(drt_event, drt_events, desc);

static void drt_test_recall_after(struct kunit *test)
{
	const struct drt_event *p = test->param_value;
	struct drt_fs *fs = test->priv;
	struct inode *inode = &fs->ei.vfs_inode;
	struct ext4_map_blocks got, want;
	int ret;

	drt_to_cache(inode, &drt_tree[0]);
	drt_to_disk(inode, &drt_tree[0]);
	/* A remount with block_validity follows one with noblock_validity. */
	if (p->happen == drt_new_zones)
		test_fs_drop_zones(&fs->sb);
	KUNIT_ASSERT_TRUE(test, drt_ask(test, drt_cached, inode, 3, 1, &got));
	KUNIT_ASSERT_TRUE(test, drt_ask(test, drt_recall, inode, 4, 9, &got));

	p->happen(fs);
	KUNIT_ASSERT_EQ(test, !p->forgets,
			drt_ask(test, drt_recall, inode, 4, 9, &got));
	if (p->forgets) {
		drt_ask(test, drt_cached, inode, 3, 1, &got);
		KUNIT_ASSERT_TRUE(test, drt_ask(test, drt_recall, inode, 4, 9,
						&got));
	}
	/* The appended part is not remembered, but the rest is valid. */
	ret = drt_map_blocks(inode, 4, got.m_len, &want);
	drt_expect_same(test, &got, &want, ret);
}

/* Check that a remembered block is not used once it is in a system zone. */
static void drt_test_recall_new_zone(struct kunit *test)
{
	struct drt_fs *fs = test->priv;
	struct inode *inode = &fs->ei.vfs_inode;
	struct ext4_map_blocks map;

	drt_plant_tree(inode);
	test_fs_drop_zones(&fs->sb);
	KUNIT_EXPECT_TRUE(test, drt_ask(test, drt_cached, inode, 91, 1, &map));
	KUNIT_EXPECT_TRUE(test, drt_ask(test, drt_recall, inode, 91, 1, &map));

	KUNIT_ASSERT_EQ(test, 0, ext4_setup_system_zone(&fs->sb));
	KUNIT_EXPECT_FALSE(test, drt_ask(test, drt_recall, inode, 91, 1, &map));
	KUNIT_EXPECT_FALSE(test, drt_ask(test, drt_cached, inode, 91, 1, &map));
	KUNIT_EXPECT_FALSE(test, drt_ask(test, drt_recall, inode, 91, 1, &map));
}

/* Check that no task writes or uses the map while another one writes it. */
static void drt_test_recall_busy(struct kunit *test)
{
	struct drt_fs *fs = test->priv;
	struct inode *inode = &fs->ei.vfs_inode;
	struct ext4_map_blocks map;

	drt_plant_tree(inode);
	drt_ask(test, drt_cached, inode, 0, 1, &map);
	fs->ei.i_dax_map.seq++;
	KUNIT_EXPECT_FALSE(test, drt_ask(test, drt_recall, inode, 0, 1, &map));
	for (int i = 0; i < 2; i++)
		KUNIT_EXPECT_TRUE(test, drt_ask(test, drt_cached, inode, 50, 1,
						&map));
	KUNIT_EXPECT_FALSE(test, drt_ask(test, drt_recall, inode, 50, 1, &map));

	fs->ei.i_dax_map.seq++;
	KUNIT_EXPECT_TRUE(test, drt_ask(test, drt_recall, inode, 0, 1, &map));
}

/* Check that the map makes no inode larger. */
static void drt_test_map_room(struct kunit *test)
{
	size_t room = offsetof(struct ext4_inode_info, i_rsv_conversion_list);
	size_t end = offsetofend(struct ext4_inode_info, i_rsv_conversion_work);

	KUNIT_EXPECT_EQ(test, room, offsetof(struct ext4_inode_info, i_dax_map));
	KUNIT_EXPECT_LE(test, offsetofend(struct ext4_inode_info, i_dax_map),
			end);
	/* The neighbouring fields are as close as without the map. */
	KUNIT_EXPECT_EQ(test, room,
			ALIGN(offsetofend(struct ext4_inode_info,
					  i_completed_io_lock),
			      __alignof__(struct list_head)));
	KUNIT_EXPECT_EQ(test, end, offsetof(struct ext4_inode_info, i_sync_tid));
}

/* Check that an inode that becomes DAX starts with an empty map. */
static void drt_test_map_set_up(struct kunit *test)
{
	static const struct ext4_dax_map empty;
	struct drt_fs *fs = test->priv;
	struct inode *inode = &fs->ei.vfs_inode;
	struct ext4_dax_map *map = &fs->ei.i_dax_map;

	/* As after ext4_alloc_inode(). */
	inode->i_flags &= ~S_DAX;
	INIT_LIST_HEAD(&fs->ei.i_rsv_conversion_list);
	memset(&fs->ei.i_rsv_conversion_work, 0x5a,
	       sizeof(fs->ei.i_rsv_conversion_work));
	ext4_set_inode_flags(inode, true);
	KUNIT_EXPECT_FALSE(test, IS_DAX(inode));
	KUNIT_EXPECT_TRUE(test, list_empty(&fs->ei.i_rsv_conversion_list));

	set_bit(EXT4_FLAGS_BDEV_IS_DAX, &fs->sbi.s_ext4_flags);
	set_opt(&fs->sb, DAX_ALWAYS);
	ext4_set_inode_flags(inode, true);
	KUNIT_ASSERT_TRUE(test, IS_DAX(inode));
	KUNIT_EXPECT_MEMEQ(test, map, &empty, sizeof(empty));

	/* A later change of other flags keeps the map. */
	map->len = 1;
	ext4_set_inode_flags(inode, false);
	KUNIT_EXPECT_TRUE(test, IS_DAX(inode));
	KUNIT_EXPECT_EQ(test, map->len, 1);
}

#endif /* CONFIG_FS_DAX */

static struct kunit_case drt_lookup_cases[] = {
	KUNIT_CASE_PARAM(drt_test_blocks, drt_range_gen_params),
	KUNIT_CASE_PARAM(drt_test_lookup, drt_query_gen_params),
	KUNIT_CASE_PARAM(drt_test_lookup_replay, drt_query_gen_params),
	KUNIT_CASE(drt_test_lookup_empty),
#ifdef CONFIG_FS_DAX
	KUNIT_CASE_PARAM(drt_test_recall, drt_memory_gen_params),
	KUNIT_CASE(drt_test_recall_last),
	KUNIT_CASE(drt_test_shrinker_spares_busy),
	KUNIT_CASE(drt_test_recall_forgotten),
	KUNIT_CASE_PARAM(drt_test_recall_after, drt_event_gen_params),
	KUNIT_CASE(drt_test_recall_new_zone),
	KUNIT_CASE(drt_test_recall_busy),
	KUNIT_CASE(drt_test_map_room),
	KUNIT_CASE(drt_test_map_set_up),
#endif
	{}
};

static struct kunit_suite drt_lookup_suite = {
	.name = "ext4_dax_read_lookup",
	.init = drt_lookup_init,
	.test_cases = drt_lookup_cases,
};

kunit_test_suite(drt_lookup_suite);
