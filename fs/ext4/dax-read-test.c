// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of the ext4 DAX read (dax-read.h and dax-read.c).
 *
 * What is enforced, and how:
 *
 * 1. ext4_dax_pos_to_map() names the blocks behind a byte range and stops at
 *    the last block a file can have. A table of ranges.
 *
 * 2. ext4_dax_lookup_cached() says what ext4_map_blocks() would, or nothing. One
 *    extent status tree with everything it can hold is asked row by row, and
 *    each answer is compared with the row and with ext4_map_blocks().
 *
 * 3. ext4_dax_recall() repeats what a lookup found, for the blocks of that
 *    extent only, only if it is written and valid as a whole, and only until
 *    blocks are taken from the file or the system zones change. Tables, as
 *    above.
 *
 * 4. The same for thousands of random layouts: extent status trees alone, and
 *    trees of which parts have been reclaimed, over extents in the inode. Each
 *    answer is compared with ext4_map_blocks() and with the layout it was made
 *    from. The seed is printed; ext4_test.dax_read_seed= repeats a run.
 *
 * 5. While ext4_map_blocks() makes zeroed written blocks of unwritten ones, no
 *    lookup finds a block written that has yet to be zeroed, also not when an
 *    extent cannot be split. The lookups are made as blocks are zeroed.
 *
 * 6. ext4_dax_read_user() fills user memory. Each row reads a file with blocks
 *    on a DAX device of our own, which can answer one page at a time, have
 *    bad pages, or be dead. dax_iomap_rw() then reads the same, and so does
 *    dax_read_simple() with ext4_iomap_begin(), as other file systems use it,
 *    and ext4_dax_read_segments() into several pieces and into kernel memory:
 *    count, errno and bytes must agree. Random reads of random files follow.
 *
 * The super block, the inode and the device are fakes; the code that reads
 * them, and the extent status tree, is ext4's. 3 and 6 need FS_DAX, which UML
 * cannot have (kunit.py --arch x86_64); the rest runs anywhere.
 */

#include <kunit/static_stub.h>
#include <kunit/test.h>
#include <linux/bvec.h>
#include <linux/dax-read.h>
#include <linux/dax.h>
#include <linux/mman.h>
#include <linux/moduleparam.h>
#include <linux/prandom.h>
#include <linux/sched/signal.h>
#include <linux/shrinker.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <linux/vmalloc.h>

#include "dax-read.h"
#include "ext4.h"
#include "ext4_extents.h"

static unsigned long long dax_read_seed = 20210107;
module_param(dax_read_seed, ullong, 0444);
MODULE_PARM_DESC(dax_read_seed,
		 "Seed of the random DAX read layouts (0: a new one each time)");

/* DAX wants blocks of a page. */
#define DRT_BLKBITS		PAGE_SHIFT
/* Large enough for physical block numbers to need their upper half. */
#define DRT_FS_BLOCKS		BIT_ULL(40)
/* System zones: 0 and 1 (super block, descriptors), and these six blocks. */
#define DRT_BITMAPS		8
#define DRT_INODE_TABLE		10
#define DRT_INODE_TABLE_LEN	4

#define DRT_WRITTEN		EXTENT_STATUS_WRITTEN
#define DRT_UNWRITTEN		EXTENT_STATUS_UNWRITTEN
#define DRT_DELAYED		EXTENT_STATUS_DELAYED
#define DRT_HOLE		EXTENT_STATUS_HOLE

/* A file system with one inode. */
struct drt_fs {
	struct super_block sb;
	struct ext4_sb_info sbi;
	struct ext4_super_block es;
	struct ext4_group_desc group;
	struct ext4_inode_info ei;
	unsigned long zeroed;	/* by drt_issue_zeroout(), a bit a block */
};

struct drt_extent {
	ext4_lblk_t lblk;
	ext4_lblk_t len;
	ext4_fsblk_t pblk;
	unsigned int status;
};

static bool drt_has_blocks(const struct drt_extent *ex)
{
	return ex->status & (DRT_WRITTEN | DRT_UNWRITTEN);
}

static struct ext4_group_desc *
drt_get_group_desc(struct super_block *sb, ext4_group_t group,
		   struct buffer_head **bh)
{
	return &container_of(sb, struct drt_fs, sb)->group;
}

static void drt_init_sb(struct drt_fs *fs)
{
	struct ext4_sb_info *sbi = &fs->sbi;

	fs->sb.s_fs_info = sbi;
	fs->sb.s_blocksize = 1UL << DRT_BLKBITS;
	fs->sb.s_blocksize_bits = DRT_BLKBITS;
	init_rwsem(&fs->sb.s_umount);

	fs->group.bg_block_bitmap_lo = cpu_to_le32(DRT_BITMAPS);
	fs->group.bg_inode_bitmap_lo = cpu_to_le32(DRT_BITMAPS + 1);
	fs->group.bg_inode_table_lo = cpu_to_le32(DRT_INODE_TABLE);

	sbi->s_sb = &fs->sb;
	sbi->s_es = &fs->es;
	fs->es.s_feature_incompat = cpu_to_le32(EXT4_FEATURE_INCOMPAT_64BIT);
	/* ext4_blocks_count_set() cuts a constant, which sparse reports. */
	fs->es.s_blocks_count_hi = cpu_to_le32(DRT_FS_BLOCKS >> 32);
	sbi->s_groups_count = 1;
	sbi->s_gdb_count = 1;
	sbi->s_itb_per_group = DRT_INODE_TABLE_LEN;
	sbi->s_desc_size = EXT4_MIN_DESC_SIZE;
	sbi->s_cluster_ratio = 1;
	/*
	 * Invalid blocks are part of the tests. In this state ext4_error() has
	 * been here already and says nothing more.
	 */
	set_bit(EXT4_FLAGS_EMERGENCY_RO, &sbi->s_ext4_flags);
}

static void drt_init_inode(struct drt_fs *fs)
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
	inode->i_flags = S_DAX;
	inode->i_ino = 20;
	inode->i_blkbits = DRT_BLKBITS;
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

static unsigned int drt_max_on_disk(struct inode *inode)
{
	return le16_to_cpu(ext_inode_hdr(inode)->eh_max);
}

/* Back to an inode without blocks. */
static void drt_empty(struct inode *inode)
{
	ext4_es_remove_extent(inode, 0, EXT_MAX_BLOCKS);
	ext_inode_hdr(inode)->eh_entries = 0;
}

static void drt_fs_exit(void *data)
{
	struct drt_fs *fs = data;

	fs->sbi.s_mount_state = 0;
	drt_empty(&fs->ei.vfs_inode);
	ext4_es_unregister_shrinker(&fs->sbi);
	ext4_es_destroy_stats(&fs->sbi);
}

static void drt_zones_exit(void *data)
{
	struct drt_fs *fs = data;

	down_write(&fs->sb.s_umount);
	ext4_release_system_zone(&fs->sb);
	up_write(&fs->sb.s_umount);
}

static int drt_fs_init(struct kunit *test, struct drt_fs *fs)
{
	int err;

	drt_init_sb(fs);
	drt_init_inode(fs);
	err = ext4_es_register_shrinker(&fs->sbi);
	if (err)
		return err;
	err = kunit_add_action_or_reset(test, drt_fs_exit, fs);
	if (err)
		return err;

	kunit_activate_static_stub(test, ext4_get_group_desc,
				   drt_get_group_desc);
	err = ext4_setup_system_zone(&fs->sb);
	if (err)
		return err;
	return kunit_add_action_or_reset(test, drt_zones_exit, fs);
}

static void drt_to_cache(struct inode *inode, const struct drt_extent *ex)
{
	if (ex->status & DRT_DELAYED)
		ext4_es_insert_delayed_extent(inode, ex->lblk, ex->len, false,
					      false);
	else
		ext4_es_insert_extent(inode, ex->lblk, ex->len, ex->pblk,
				      ex->status, false);
}

/* Append an extent to those in the inode. */
static void drt_to_disk(struct inode *inode, const struct drt_extent *ex)
{
	struct ext4_extent_header *eh = ext_inode_hdr(inode);
	struct ext4_extent *on_disk;

	le16_add_cpu(&eh->eh_entries, 1);
	on_disk = EXT_LAST_EXTENT(eh);
	on_disk->ee_block = cpu_to_le32(ex->lblk);
	on_disk->ee_len = cpu_to_le16(ex->len);
	ext4_ext_store_pblock(on_disk, ex->pblk);
	if (ex->status & DRT_UNWRITTEN)
		ext4_ext_mark_unwritten(on_disk);
}

/* ---- the blocks behind a byte range ---- */

struct drt_range {
	const char *desc;
	u8 blkbits;
	loff_t pos;
	size_t count;
	int ret;
	ext4_lblk_t lblk;
	unsigned int len;
};

#define DRT_MAX_BLOCK	EXT4_MAX_LOGICAL_BLOCK
#define DRT_POS(block)	((loff_t)(block) << 12)

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

/* ---- one lookup ---- */

/* What answers for ext4_map_blocks(): false when it cannot. */
typedef bool (*drt_mapper)(struct inode *inode, struct ext4_map_blocks *map);

static bool drt_cached(struct inode *inode, struct ext4_map_blocks *map)
{
	return ext4_dax_lookup_cached(inode, map);
}

#ifdef CONFIG_FS_DAX
static bool drt_recall(struct inode *inode, struct ext4_map_blocks *map)
{
	return ext4_dax_recall(inode, map);
}
#else
static bool drt_recall(struct inode *inode, struct ext4_map_blocks *map)
{
	return false;
}
#endif

/*
 * Ask as dax-read.c does, with i_rwsem held. Without an answer @map must not be
 * written to.
 */
static bool drt_ask_locked(struct kunit *test, drt_mapper mapper,
			   struct inode *inode, ext4_lblk_t lblk,
			   unsigned int len, struct ext4_map_blocks *map)
{
	struct ext4_map_blocks before;
	bool found;

	memset(map, 0x5a, sizeof(*map));
	map->m_lblk = lblk;
	map->m_len = len;
	memcpy(&before, map, sizeof(before));

	found = mapper(inode, map);
	if (!found)
		KUNIT_EXPECT_MEMEQ(test, map, &before, sizeof(before));
	return found;
}

static bool drt_ask(struct kunit *test, drt_mapper mapper, struct inode *inode,
		    ext4_lblk_t lblk, unsigned int len,
		    struct ext4_map_blocks *map)
{
	bool found;

	inode_lock_shared(inode);
	found = drt_ask_locked(test, mapper, inode, lblk, len, map);
	inode_unlock_shared(inode);
	return found;
}

static int drt_map_blocks(struct inode *inode, ext4_lblk_t lblk,
			  unsigned int len, struct ext4_map_blocks *map)
{
	int ret;

	memset(map, 0xa5, sizeof(*map));
	map->m_lblk = lblk;
	map->m_len = len;
	inode_lock_shared(inode);
	ret = ext4_map_blocks(NULL, inode, map, 0);
	inode_unlock_shared(inode);
	return ret;
}

/* @got answers for @want and @ret, what ext4_map_blocks() made of the same. */
static void drt_expect_same(struct kunit *test,
			    const struct ext4_map_blocks *got,
			    const struct ext4_map_blocks *want, int ret)
{
	bool blocks = got->m_flags & (EXT4_MAP_MAPPED | EXT4_MAP_UNWRITTEN);

	KUNIT_EXPECT_EQ(test, got->m_lblk, want->m_lblk);
	KUNIT_EXPECT_EQ(test, got->m_len, want->m_len);
	KUNIT_EXPECT_EQ(test, got->m_flags, want->m_flags);
	KUNIT_EXPECT_EQ(test, got->m_pblk, want->m_pblk);
	KUNIT_EXPECT_EQ(test, ret, blocks ? (int)got->m_len : 0);
}

/* One of everything; 40 to 49 and what lies between the others is not there. */
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
	{ 90, 2, DRT_BITMAPS - 1, DRT_WRITTEN },
	{ 100, 2, DRT_INODE_TABLE + DRT_INODE_TABLE_LEN - 1, DRT_WRITTEN },
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
	int map_ret;	/* of ext4_map_blocks(), where the lookup finds nothing */
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
	  DRT_FOUND(EXT4_MAP_MAPPED, DRT_BITMAPS - 1, 1) },
	{ "invalid: runs into a system zone", 90, 2,
	  .map_ret = -EFSCORRUPTED },
	{ "invalid: in a system zone", 91, 1, .map_ret = -EFSCORRUPTED },
	{ "invalid: end of a system zone", 100, 2, .map_ret = -EFSCORRUPTED },
	{ "written, after a system zone", 101, 1,
	  DRT_FOUND(EXT4_MAP_MAPPED, DRT_INODE_TABLE + DRT_INODE_TABLE_LEN,
		    1) },
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
	/* Where there is no entry, the inode has no extents to compare with. */
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

/* While a fast commit is replayed the tree is not to be believed. */
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

/* As under memory pressure. What is gone is not delayed, and on disk. */
static void drt_shrink(struct drt_fs *fs)
{
	struct shrinker *shrinker = fs->sbi.s_es_shrinker;

	/* The first time round only takes the mark of recent use away. */
	for (int i = 0; i < 2; i++) {
		struct shrink_control sc = {
			.gfp_mask = GFP_KERNEL,
			.nr_to_scan = 1000,
		};

		shrinker->scan_objects(shrinker, &sc);
	}
}

#ifdef CONFIG_FS_DAX

/* ---- the extent that is remembered ---- */

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
 * Two lookups in a row of another extent replace what the first has left, and
 * only by a written one.
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

/* What is remembered and of no use any more gives way to the first lookup. */
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

/* As collapse and insert range do, and extent swaps: away, and found anew. */
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

/* As hole punching does, at its end. */
static void drt_make_hole(struct drt_fs *fs)
{
	static const struct drt_extent ex = { 9, 1, 0, DRT_HOLE };

	drt_to_cache(&fs->ei.vfs_inode, &ex);
}

/* The tree had no entry of what goes. */
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
	drt_zones_exit(fs);
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
	{ "entries reclaimed", drt_shrink, false },
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
	/* "block_validity" comes after "noblock_validity". */
	if (p->happen == drt_new_zones)
		drt_zones_exit(fs);
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
	/* What was appended is not remembered, and the rest is good. */
	ret = drt_map_blocks(inode, 4, got.m_len, &want);
	drt_expect_same(test, &got, &want, ret);
}

/* Blocks that become the file system's are not read because they once were. */
static void drt_test_recall_new_zone(struct kunit *test)
{
	struct drt_fs *fs = test->priv;
	struct inode *inode = &fs->ei.vfs_inode;
	struct ext4_map_blocks map;

	drt_plant_tree(inode);
	drt_zones_exit(fs);
	KUNIT_EXPECT_TRUE(test, drt_ask(test, drt_cached, inode, 91, 1, &map));
	KUNIT_EXPECT_TRUE(test, drt_ask(test, drt_recall, inode, 91, 1, &map));

	KUNIT_ASSERT_EQ(test, 0, ext4_setup_system_zone(&fs->sb));
	KUNIT_EXPECT_FALSE(test, drt_ask(test, drt_recall, inode, 91, 1, &map));
	KUNIT_EXPECT_FALSE(test, drt_ask(test, drt_cached, inode, 91, 1, &map));
	KUNIT_EXPECT_FALSE(test, drt_ask(test, drt_recall, inode, 91, 1, &map));
}

/* While a task writes the map, no other one writes or uses it. */
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

/* No inode is larger for it: the map lies where others have their writeback. */
static void drt_test_map_room(struct kunit *test)
{
	size_t room = offsetof(struct ext4_inode_info, i_rsv_conversion_list);
	size_t end = offsetofend(struct ext4_inode_info, i_rsv_conversion_work);

	KUNIT_EXPECT_EQ(test, room, offsetof(struct ext4_inode_info, i_dax_map));
	KUNIT_EXPECT_LE(test, offsetofend(struct ext4_inode_info, i_dax_map),
			end);
	/* What is in front and behind lies as close as without the map. */
	KUNIT_EXPECT_EQ(test, room,
			ALIGN(offsetofend(struct ext4_inode_info,
					  i_completed_io_lock),
			      __alignof__(struct list_head)));
	KUNIT_EXPECT_EQ(test, end, offsetof(struct ext4_inode_info, i_sync_tid));
}

/* An inode that becomes DAX remembers nothing, whatever was in its memory. */
static void drt_test_map_set_up(struct kunit *test)
{
	static const struct ext4_dax_map empty;
	struct drt_fs *fs = test->priv;
	struct inode *inode = &fs->ei.vfs_inode;
	struct ext4_dax_map *map = &fs->ei.i_dax_map;

	/* As ext4_alloc_inode() leaves it. */
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

	/* Other flags change later, and what is remembered stays. */
	map->len = 1;
	ext4_set_inode_flags(inode, false);
	KUNIT_EXPECT_TRUE(test, IS_DAX(inode));
	KUNIT_EXPECT_EQ(test, map->len, 1);
}

#endif /* CONFIG_FS_DAX */

/* ---- unwritten blocks that become zeroed written ones ---- */

struct drt_zeroing {
	const char *desc;
	ext4_lblk_t lblk;	/* what is asked for, of drt_to_zero ... */
	unsigned int len;
	int split_err;		/* ... and why its extent cannot be split */
	unsigned int zeroout_kb;
	unsigned int more;	/* blocks written besides: not worth a split */
};

#define DRT_KB	(1U << (DRT_BLKBITS - 10))	/* of a block */

static const struct drt_extent drt_to_zero = { 8, 8, 1000, DRT_UNWRITTEN };

static const struct drt_zeroing drt_zeroings[] = {
	{ "first block", 8, 1 },
	{ "middle", 10, 3 },
	{ "last block", 15, 1 },
	{ "all of it", 8, 8 },
	{ "beyond its end", 12, 8 },
	{ "no space, first block", 8, 1, -ENOSPC, 0, 7 },
	{ "no space, middle", 10, 3, -ENOSPC, 0, 5 },
	{ "no space, last block", 15, 1, -ENOSPC, 0, 7 },
	{ "no quota, first block", 8, 1, -EDQUOT, 0, 7 },
	{ "no quota, middle", 10, 3, -EDQUOT, 0, 5 },
	{ "no quota, last block", 15, 1, -EDQUOT, 0, 7 },
	{ "no memory, first block", 8, 1, -ENOMEM, 0, 7 },
	{ "no memory, middle", 10, 3, -ENOMEM, 0, 5 },
	{ "no memory, last block", 15, 1, -ENOMEM, 0, 7 },
	/* What is left beside them is too small to be split off. */
	{ "blocks after it zeroed", 8, 3, 0, 8 * DRT_KB, 5 },
	{ "block before it zeroed", 9, 1, 0, 4 * DRT_KB, 1 },
	{ "blocks around it zeroed", 10, 3, 0, 9 * DRT_KB, 5 },
	{ "blocks after it zeroed, no space", 10, 3, -ENOSPC, 6 * DRT_KB, 5 },
	{ "block before it zeroed, no space", 9, 1, -ENOSPC, 4 * DRT_KB, 7 },
};

KUNIT_ARRAY_PARAM_DESC(drt_zeroing, drt_zeroings, desc);

/*
 * Not zeroed yet: a reader would find what the medium held before. With i_rwsem
 * held, as it ranks above i_data_sem, which is held while blocks are zeroed.
 */
static void drt_expect_unwritten(struct kunit *test, struct drt_fs *fs,
				 drt_mapper mapper, const char *when)
{
	struct ext4_map_blocks map;
	unsigned int i;

	for (i = 0; i < drt_to_zero.len; i++) {
		if (fs->zeroed & BIT(i))
			continue;
		if (drt_ask_locked(test, mapper, &fs->ei.vfs_inode,
				   drt_to_zero.lblk + i, 1, &map))
			KUNIT_EXPECT_EQ_MSG(test, map.m_flags, EXT4_MAP_UNWRITTEN,
					    "block %u is not zeroed, %s",
					    drt_to_zero.lblk + i, when);
	}
}

static int drt_issue_zeroout(struct inode *inode, ext4_lblk_t lblk,
			     ext4_fsblk_t pblk, ext4_lblk_t len)
{
	struct kunit *test = kunit_get_current_test();
	struct drt_fs *fs = test->priv;
	unsigned int first = lblk - drt_to_zero.lblk;

	KUNIT_ASSERT_LE(test, first + len, drt_to_zero.len);
	KUNIT_EXPECT_EQ(test, pblk, drt_to_zero.pblk + first);
	drt_expect_unwritten(test, fs, drt_cached, "looked up");
	drt_expect_unwritten(test, fs, drt_recall, "remembered");
	fs->zeroed |= GENMASK(first + len - 1, first);
	return 0;
}

/* There is no journal, and no inode on a device to be written to. */
static int drt_ext_dirty(const char *where, unsigned int line,
			 handle_t *handle, struct inode *inode,
			 struct ext4_ext_path *path)
{
	return 0;
}

static struct ext4_ext_path *
drt_insert_extent(handle_t *handle, struct inode *inode,
		  struct ext4_ext_path *path, struct ext4_extent *newext,
		  int flags)
{
	const struct drt_zeroing *p = kunit_get_current_test()->param_value;

	ext4_free_ext_path(path);
	return ERR_PTR(p->split_err);
}

static int drt_create_zeroed(struct inode *inode, ext4_lblk_t lblk,
			     unsigned int len)
{
	struct ext4_map_blocks map = { .m_lblk = lblk, .m_len = len };
	int ret;

	/* As a page fault has it: readers of the file are not kept out. */
	filemap_invalidate_lock_shared(inode->i_mapping);
	ret = ext4_map_blocks(NULL, inode, &map, EXT4_GET_BLOCKS_CREATE_ZERO);
	filemap_invalidate_unlock_shared(inode->i_mapping);
	return ret;
}

static void drt_test_zeroed(struct kunit *test)
{
	const struct drt_zeroing *p = test->param_value;
	const ext4_lblk_t end = drt_to_zero.lblk + drt_to_zero.len;
	unsigned int len = min(p->len, end - p->lblk), written = 0, i;
	struct drt_fs *fs = test->priv;
	struct inode *inode = &fs->ei.vfs_inode;
	struct ext4_map_blocks map;
	int created;

	kunit_activate_static_stub(test, ext4_issue_zeroout,
				   drt_issue_zeroout);
	kunit_activate_static_stub(test, __ext4_ext_dirty, drt_ext_dirty);
	if (p->split_err)
		kunit_activate_static_stub(test, ext4_ext_insert_extent,
					   drt_insert_extent);
	fs->sbi.s_extent_max_zeroout_kb = p->zeroout_kb;
	fs->ei.i_disksize = (loff_t)end << DRT_BLKBITS;
	drt_to_disk(inode, &drt_to_zero);
	drt_to_cache(inode, &drt_to_zero);

	inode_lock_shared(inode);
	created = drt_create_zeroed(inode, p->lblk, p->len);
	drt_expect_unwritten(test, fs, drt_cached, "at the end");
	inode_unlock_shared(inode);
	KUNIT_ASSERT_EQ(test, (int)len, created);

	for (i = 0; i < drt_to_zero.len; i++) {
		KUNIT_ASSERT_EQ(test, 1, drt_map_blocks(inode, drt_to_zero.lblk + i,
							1, &map));
		KUNIT_EXPECT_EQ(test, map.m_pblk, drt_to_zero.pblk + i);
		if (map.m_flags & EXT4_MAP_MAPPED) {
			written++;
			KUNIT_EXPECT_TRUE(test, fs->zeroed & BIT(i));
		}
	}
	KUNIT_EXPECT_EQ(test, written, len + p->more);
}

/* ---- random layouts ---- */

#define DRT_LAYOUTS	4000
#define DRT_LOOKUPS	16
#define DRT_EXTENTS	24

struct drt_layout {
	struct drt_extent ex[DRT_EXTENTS];
	unsigned int nr;
	ext4_lblk_t end;	/* of the last extent; a hole from there on */
	bool on_disk;		/* the inode knows too, so entries may go */
};

/* What a layout is made of. */
struct drt_recipe {
	ext4_fsblk_t first;	/* where its blocks may lie ... */
	ext4_fsblk_t last;	/* ... inclusive, but for invalid ones */
	ext4_lblk_t max_len;
	bool delayed;
};

static u64 drt_seed(struct kunit *test)
{
	u64 seed = dax_read_seed ?: get_random_u64();

	kunit_info(test, "ext4_test.dax_read_seed=%llu\n", seed);
	return seed;
}

/* 0 to @n - 1 */
static u64 drt_below(struct rnd_state *rnd, u64 n)
{
	u64 val = prandom_u32_state(rnd);

	val = val << 32 | prandom_u32_state(rnd);
	return val - div64_u64(val, n) * n;
}

static ext4_fsblk_t drt_random_pblk(struct rnd_state *rnd,
				    const struct drt_recipe *recipe,
				    const struct drt_extent *ex)
{
	switch (drt_below(rnd, 16)) {
	case 0:		/* at the end of the device, or past it */
		return DRT_FS_BLOCKS - drt_below(rnd, ex->len + 2);
	case 1:		/* around the system zones */
		return drt_below(rnd, DRT_INODE_TABLE +
				 DRT_INODE_TABLE_LEN + 4);
	case 2 ... 5:	/* next to the extent before, to be merged with it */
		if (ex->lblk && drt_has_blocks(ex - 1))
			return ex[-1].pblk + ex[-1].len;
		fallthrough;
	default:
		return recipe->first + drt_below(rnd, recipe->last + 2 -
						 recipe->first - ex->len);
	}
}

static unsigned int drt_random_status(struct rnd_state *rnd,
				      const struct drt_recipe *recipe,
				      bool no_blocks)
{
	static const unsigned int statuses[] = {
		DRT_HOLE, DRT_HOLE, DRT_DELAYED,
		DRT_UNWRITTEN, DRT_UNWRITTEN,
		DRT_WRITTEN, DRT_WRITTEN, DRT_WRITTEN,
	};
	unsigned int status;

	status = statuses[drt_below(rnd, no_blocks ? 3 : ARRAY_SIZE(statuses))];
	return status == DRT_DELAYED && !recipe->delayed ? DRT_HOLE : status;
}

static void drt_random_layout(struct rnd_state *rnd, struct inode *inode,
			      const struct drt_recipe *recipe,
			      struct drt_layout *lay)
{
	unsigned int on_disk = 0;

	lay->nr = 1 + drt_below(rnd, DRT_EXTENTS);
	lay->end = 0;
	lay->on_disk = drt_below(rnd, 2);

	for (int i = 0; i < lay->nr; i++) {
		struct drt_extent *ex = &lay->ex[i];

		ex->lblk = lay->end;
		ex->len = 1 + drt_below(rnd, recipe->max_len);
		ex->pblk = 0;
		ex->status = drt_random_status(rnd, recipe, lay->on_disk &&
					       on_disk == drt_max_on_disk(inode));
		if (drt_has_blocks(ex)) {
			ex->pblk = drt_random_pblk(rnd, recipe, ex);
			on_disk++;
		}
		lay->end += ex->len;
	}
}

/* As the shrinker does to a whole entry, here to parts of one. */
static void drt_reclaim_some(struct rnd_state *rnd, struct inode *inode,
			     const struct drt_extent *ex)
{
	ext4_lblk_t from = drt_below(rnd, ex->len);

	if (ex->status != DRT_DELAYED && drt_below(rnd, 2))
		ext4_es_remove_extent(inode, ex->lblk + from,
				      1 + drt_below(rnd, ex->len - from));
}

/* Between two lookups, where the inode knows what the tree forgets. */
static void drt_disturb(struct rnd_state *rnd, struct drt_fs *fs,
			const struct drt_layout *lay)
{
	if (!lay->on_disk)
		return;
	switch (drt_below(rnd, 16)) {
	case 0:
		drt_shrink(fs);
		break;
	case 1:
		drt_reclaim_some(rnd, &fs->ei.vfs_inode,
				 &lay->ex[drt_below(rnd, lay->nr)]);
		break;
	}
}

static void drt_apply_layout(struct rnd_state *rnd, struct inode *inode,
			     const struct drt_layout *lay)
{
	const struct drt_extent tail = {
		lay->end, EXT_MAX_BLOCKS - lay->end, 0, DRT_HOLE
	};

	drt_empty(inode);
	for (int i = 0; i < lay->nr; i++) {
		const struct drt_extent *ex = &lay->ex[i];

		drt_to_cache(inode, ex);
		if (!lay->on_disk)
			continue;
		if (drt_has_blocks(ex))
			drt_to_disk(inode, ex);
		drt_reclaim_some(rnd, inode, ex);
	}
	if (!lay->on_disk)
		drt_to_cache(inode, &tail);
}

static const struct drt_extent *
drt_extent_at(const struct drt_layout *lay, ext4_lblk_t lblk)
{
	for (int i = 0; i < lay->nr; i++)
		if (lblk - lay->ex[i].lblk < lay->ex[i].len)
			return &lay->ex[i];
	return NULL;
}

static unsigned int drt_map_flags(const struct drt_extent *ex)
{
	if (ex->status & DRT_WRITTEN)
		return EXT4_MAP_MAPPED;
	if (ex->status & DRT_UNWRITTEN)
		return EXT4_MAP_UNWRITTEN;
	return ex->status & DRT_DELAYED ? EXT4_MAP_DELAYED : 0;
}

/* Every block of @map is what the layout says. */
static void drt_expect_layout(struct kunit *test, const struct drt_layout *lay,
			      const struct ext4_map_blocks *map)
{
	const struct drt_extent *ex;
	unsigned int done, skip;

	KUNIT_ASSERT_GT(test, map->m_len, 0);
	for (done = 0; done < map->m_len; done += ex->len - skip) {
		ex = drt_extent_at(lay, map->m_lblk + done);
		if (!ex) {
			KUNIT_EXPECT_EQ(test, map->m_flags, 0);
			return;
		}
		skip = map->m_lblk + done - ex->lblk;
		KUNIT_EXPECT_EQ(test, map->m_flags, drt_map_flags(ex));
		if (drt_has_blocks(ex))
			KUNIT_EXPECT_EQ(test, map->m_pblk + done,
					ex->pblk + skip);
	}
}

struct drt_tally {
	unsigned int found;
	unsigned int recalled;
	unsigned int no_entry;
	unsigned int invalid;
};

static void drt_check_lookup(struct kunit *test, struct inode *inode,
			     const struct drt_layout *lay, ext4_lblk_t lblk,
			     unsigned int len, struct drt_tally *tally)
{
	struct ext4_map_blocks recalled, got, want;
	struct extent_status es;
	bool found, entry;
	int ret;

	if (drt_ask(test, drt_recall, inode, lblk, len, &recalled)) {
		drt_expect_layout(test, lay, &recalled);
		tally->recalled++;
	}
	entry = ext4_es_lookup_extent(inode, lblk, NULL, &es, NULL);
	found = drt_ask(test, drt_cached, inode, lblk, len, &got);
	ret = drt_map_blocks(inode, lblk, len, &want);

	if (found) {
		drt_expect_same(test, &got, &want, ret);
		drt_expect_layout(test, lay, &got);
		tally->found++;
	} else if (ret == -EFSCORRUPTED) {
		tally->invalid++;
	} else {
		/* ext4_map_blocks() could answer: there was no entry. */
		KUNIT_EXPECT_GE(test, ret, 0);
		KUNIT_EXPECT_FALSE(test, entry);
		drt_expect_layout(test, lay, &want);
		tally->no_entry++;
	}
}

static unsigned int drt_random_len(struct rnd_state *rnd)
{
	/* Of blocks of 1 KiB, the most that one read can ask for. */
	static const unsigned int max_len[] = { 1, 8, 64, 0x200001 };

	return 1 + drt_below(rnd, max_len[drt_below(rnd, 4)]);
}

static void drt_test_lookup_random(struct kunit *test)
{
	static const struct drt_recipe recipe = {
		.first = DRT_INODE_TABLE + DRT_INODE_TABLE_LEN,
		.last = DRT_FS_BLOCKS - 1,
		.max_len = 40,
		.delayed = true,
	};
	struct drt_fs *fs = test->priv;
	struct inode *inode = &fs->ei.vfs_inode;
	struct drt_tally tally = {};
	struct drt_layout *lay;
	struct rnd_state rnd;

	lay = kunit_kzalloc(test, sizeof(*lay), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, lay);
	prandom_seed_state(&rnd, drt_seed(test));

	for (int i = 0; i < DRT_LAYOUTS; i++) {
		drt_random_layout(&rnd, inode, &recipe, lay);
		drt_apply_layout(&rnd, inode, lay);
		for (int j = 0; j < DRT_LOOKUPS; j++) {
			ext4_lblk_t lblk = drt_below(&rnd, lay->end + 2);
			unsigned int len = drt_random_len(&rnd);

			drt_disturb(&rnd, fs, lay);
			drt_check_lookup(test, inode, lay, lblk, len, &tally);
			if (READ_ONCE(test->status) == KUNIT_FAILURE)
				KUNIT_FAIL_AND_ABORT(test, "layout %d, lookup %d: block %u, len %u",
						     i, j, lblk, len);
		}
		cond_resched();
	}

	kunit_info(test, "%u found, %u recalled, %u without an entry, %u invalid\n",
		   tally.found, tally.recalled, tally.no_entry, tally.invalid);
	/* A generator that no longer makes something tests nothing. */
	KUNIT_EXPECT_GT(test, tally.found, DRT_LAYOUTS);
	if (IS_ENABLED(CONFIG_FS_DAX))
		KUNIT_EXPECT_GT(test, tally.recalled, DRT_LAYOUTS / 4);
	KUNIT_EXPECT_GT(test, tally.no_entry, DRT_LAYOUTS / 4);
	KUNIT_EXPECT_GT(test, tally.invalid, DRT_LAYOUTS / 8);
}

static int drt_lookup_init(struct kunit *test)
{
	struct drt_fs *fs = kunit_kzalloc(test, sizeof(*fs), GFP_KERNEL);

	if (!fs)
		return -ENOMEM;
	test->priv = fs;
	return drt_fs_init(test, fs);
}

static struct kunit_case drt_lookup_cases[] = {
	KUNIT_CASE_PARAM(drt_test_blocks, drt_range_gen_params),
	KUNIT_CASE_PARAM(drt_test_lookup, drt_query_gen_params),
	KUNIT_CASE_PARAM(drt_test_lookup_replay, drt_query_gen_params),
	KUNIT_CASE(drt_test_lookup_empty),
#ifdef CONFIG_FS_DAX
	KUNIT_CASE_PARAM(drt_test_recall, drt_memory_gen_params),
	KUNIT_CASE(drt_test_recall_last),
	KUNIT_CASE(drt_test_recall_forgotten),
	KUNIT_CASE_PARAM(drt_test_recall_after, drt_event_gen_params),
	KUNIT_CASE(drt_test_recall_new_zone),
	KUNIT_CASE(drt_test_recall_busy),
	KUNIT_CASE(drt_test_map_room),
	KUNIT_CASE(drt_test_map_set_up),
#endif
	KUNIT_CASE_PARAM(drt_test_zeroed, drt_zeroing_gen_params),
	KUNIT_CASE(drt_test_lookup_random),
	{}
};

static struct kunit_suite drt_lookup_suite = {
	.name = "ext4_dax_read_lookup",
	.init = drt_lookup_init,
	.test_cases = drt_lookup_cases,
};

#ifdef CONFIG_FS_DAX

/* ---- whole reads, into user memory ---- */

#define DRT_DEV_PAGES	64
#define DRT_PART_OFF	2		/* where the partition starts, in pages */
#define DRT_BUF_SIZE	(16 * PAGE_SIZE)
#define DRT_UNTOUCHED	0xa5
#define DRT_NO_ROOM	SIZE_MAX

/*
 * How the device behaves. Pages are counted from its start; none of a file lies
 * on page 0, so 0 is "no page".
 */
struct drt_media {
	long run;	/* the most pages that one answer covers; 0: no limit */
	long bad;	/* a page that cannot be had ... */
	int bad_err;	/* ... and why */
	long kill;	/* access to this page sends SIGKILL */
};

/* A file system on a DAX device, and user memory to read into. */
struct drt_read {
	struct drt_fs fs;
	struct file file;
	struct dax_device *dax;
	struct drt_media media;
	u8 *mem;			/* of the device */
	char __user *ubuf;		/* DRT_BUF_SIZE, then an unmapped page */
	u8 *got;			/* what was read, and ... */
	u8 *other;			/* ... what another reader reads */
};

static long drt_direct_access(struct dax_device *dax, pgoff_t pgoff,
			      long nr_pages, enum dax_access_mode mode,
			      void **kaddr, unsigned long *pfn)
{
	struct drt_read *rd = dax_get_private(dax);
	const struct drt_media *media = &rd->media;
	long page = pgoff;

	if (pgoff >= DRT_DEV_PAGES)
		return -ENXIO;
	if (media->bad && page == media->bad)
		return media->bad_err;
	if (media->kill && page == media->kill)
		send_sig(SIGKILL, current, 1);

	*kaddr = rd->mem + page * PAGE_SIZE;
	nr_pages = min(nr_pages, DRT_DEV_PAGES - page);
	if (media->bad > page)
		nr_pages = min(nr_pages, media->bad - page);
	return media->run ? min(nr_pages, media->run) : nr_pages;
}

static int drt_zero_page_range(struct dax_device *dax, pgoff_t pgoff,
			       size_t nr_pages)
{
	return -EIO;	/* nothing here writes */
}

static const struct dax_operations drt_dax_ops = {
	.direct_access = drt_direct_access,
	.zero_page_range = drt_zero_page_range,
};

static void drt_dax_exit(void *data)
{
	struct dax_device *dax = data;

	kill_dax(dax);
	put_dax(dax);
}

KUNIT_DEFINE_ACTION_WRAPPER(drt_vfree, vfree, const void *);

/* Bytes that differ from page to page and within one, and are never 0. */
static int drt_init_media(struct kunit *test, struct drt_read *rd)
{
	rd->mem = vmalloc(DRT_DEV_PAGES * PAGE_SIZE);
	if (!rd->mem)
		return -ENOMEM;
	for (size_t i = 0; i < DRT_DEV_PAGES * PAGE_SIZE; i++)
		rd->mem[i] = 1 + (i + i / PAGE_SIZE * 7) % 251;
	return kunit_add_action_or_reset(test, drt_vfree, rd->mem);
}

static int drt_init_dax(struct kunit *test, struct drt_read *rd)
{
	rd->dax = alloc_dax(rd, &drt_dax_ops);
	if (IS_ERR(rd->dax))
		return PTR_ERR(rd->dax);
	rd->fs.sbi.s_daxdev = rd->dax;
	rd->fs.sbi.s_dax_part_off = DRT_PART_OFF * PAGE_SIZE;
	return kunit_add_action_or_reset(test, drt_dax_exit, rd->dax);
}

static int drt_init_buffers(struct kunit *test, struct drt_read *rd)
{
	unsigned long addr;

	rd->got = kunit_kmalloc(test, DRT_BUF_SIZE, GFP_KERNEL);
	rd->other = kunit_kmalloc(test, DRT_BUF_SIZE, GFP_KERNEL);
	if (!rd->got || !rd->other)
		return -ENOMEM;

	addr = kunit_vm_mmap(test, NULL, 0, DRT_BUF_SIZE + PAGE_SIZE,
			     PROT_READ | PROT_WRITE,
			     MAP_ANONYMOUS | MAP_PRIVATE, 0);
	if (!addr || IS_ERR_VALUE(addr))
		return -ENOMEM;
	rd->ubuf = (char __user *)addr;
	return vm_munmap(addr + DRT_BUF_SIZE, PAGE_SIZE);
}

static int drt_read_init(struct kunit *test)
{
	struct drt_read *rd = kunit_kzalloc(test, sizeof(*rd), GFP_KERNEL);
	int err;

	if (!rd)
		return -ENOMEM;
	test->priv = rd;
	err = drt_fs_init(test, &rd->fs);
	if (err)
		return err;
	rd->file.f_mapping = rd->fs.ei.vfs_inode.i_mapping;
	rd->file.f_inode = &rd->fs.ei.vfs_inode;

	err = drt_init_media(test, rd);
	if (err)
		return err;
	err = drt_init_dax(test, rd);
	if (err)
		return err;
	allow_signal(SIGKILL);
	return drt_init_buffers(test, rd);
}

typedef ssize_t (*drt_reader)(struct drt_read *rd, loff_t pos,
			      char __user *buf, size_t count);

static ssize_t drt_read_fast(struct drt_read *rd, loff_t pos, char __user *buf,
			     size_t count)
{
	return ext4_dax_read_user(&rd->fs.ei.vfs_inode, pos, buf, count);
}

static ssize_t drt_iomap_rw(struct kiocb *kiocb, struct iov_iter *iter)
{
	/* As ext4_dax_read_iter(). */
	if (kiocb->ki_pos >= i_size_read(file_inode(kiocb->ki_filp)))
		return 0;
	return dax_iomap_rw(kiocb, iter, &ext4_iomap_ops);
}

typedef ssize_t (*drt_iter_reader)(struct kiocb *kiocb, struct iov_iter *iter);

/* Both the file position and the iterator advance by what was read. */
static ssize_t drt_read_iter(struct drt_read *rd, loff_t pos,
			     struct iov_iter *iter, int ki_flags,
			     drt_iter_reader reader)
{
	struct kunit *test = kunit_get_current_test();
	size_t count = iov_iter_count(iter);
	struct kiocb kiocb;
	ssize_t ret;

	init_sync_kiocb(&kiocb, &rd->file);
	kiocb.ki_pos = pos;
	kiocb.ki_flags |= ki_flags;
	ret = reader(&kiocb, iter);
	KUNIT_EXPECT_EQ(test, kiocb.ki_pos, pos + max(ret, 0));
	KUNIT_EXPECT_EQ(test, iov_iter_count(iter), count - max(ret, 0));
	return ret;
}

static ssize_t drt_read_ubuf(struct drt_read *rd, loff_t pos, char __user *buf,
			     size_t count, int ki_flags, drt_iter_reader reader)
{
	struct iov_iter iter;

	iov_iter_ubuf(&iter, ITER_DEST, buf, count);
	return drt_read_iter(rd, pos, &iter, ki_flags, reader);
}

static ssize_t drt_read_generic(struct drt_read *rd, loff_t pos,
				char __user *buf, size_t count)
{
	return drt_read_ubuf(rd, pos, buf, count, 0, drt_iomap_rw);
}

/* As a file system does that has an ->iomap_begin and nothing quicker. */
static ssize_t drt_iter_simple(struct kiocb *kiocb, struct iov_iter *iter)
{
	return dax_read_simple(kiocb, iter, ext4_iomap_begin);
}

static ssize_t drt_read_simple(struct drt_read *rd, loff_t pos,
			       char __user *buf, size_t count)
{
	return drt_read_ubuf(rd, pos, buf, count, 0, drt_iter_simple);
}

/* In pieces, of which the second is empty. */
static ssize_t drt_read_pieces(struct drt_read *rd, loff_t pos,
			       char __user *buf, size_t count,
			       drt_iter_reader reader)
{
	size_t first = min(count / 3, DRT_BUF_SIZE / 2 - 5);
	const struct iovec pieces[] = {
		{ buf, first },
		{ NULL, 0 },
		{ buf + first, count - first },
	};
	struct iov_iter iter;

	iov_iter_init(&iter, ITER_DEST, pieces, ARRAY_SIZE(pieces), count);
	return drt_read_iter(rd, pos, &iter, 0, reader);
}

static ssize_t drt_pieces_fast(struct drt_read *rd, loff_t pos,
			       char __user *buf, size_t count)
{
	return drt_read_pieces(rd, pos, buf, count, ext4_dax_read_segments);
}

static ssize_t drt_pieces_generic(struct drt_read *rd, loff_t pos,
				  char __user *buf, size_t count)
{
	return drt_read_pieces(rd, pos, buf, count, drt_iomap_rw);
}

static ssize_t drt_pieces_simple(struct drt_read *rd, loff_t pos,
				 char __user *buf, size_t count)
{
	return drt_read_pieces(rd, pos, buf, count, drt_iter_simple);
}

/* What is compared with drt_read_fast(). */
static const drt_reader drt_others[] = {
	drt_read_generic,
	drt_read_simple,
	drt_pieces_fast,
	drt_pieces_generic,
	drt_pieces_simple,
};

/*
 * Read @count bytes at @pos into user memory of which @room bytes are there,
 * and fetch to @bytes what came.
 */
static ssize_t drt_read(struct kunit *test, drt_reader reader, loff_t pos,
			size_t count, size_t room, u8 *bytes)
{
	struct drt_read *rd = test->priv;
	struct inode *inode = &rd->fs.ei.vfs_inode;
	char __user *buf = rd->ubuf + DRT_BUF_SIZE - room;
	ssize_t ret;

	memset(bytes, DRT_UNTOUCHED, DRT_BUF_SIZE);
	KUNIT_ASSERT_EQ(test, 0, copy_to_user(rd->ubuf, bytes, DRT_BUF_SIZE));

	inode_lock_shared(inode);
	ret = reader(rd, pos, buf, count);
	inode_unlock_shared(inode);
	flush_signals(current);

	KUNIT_ASSERT_EQ(test, 0, copy_from_user(bytes, buf, room));
	KUNIT_ASSERT_LE(test, ret, (ssize_t)room);
	return ret;
}

/* As KUNIT_EXPECT_MEMEQ(), which would print all of both. */
static void drt_expect_same_bytes(struct kunit *test, const u8 *got,
				  const u8 *want, size_t len)
{
	size_t i = 0;

	if (!memcmp(got, want, len))
		return;
	while (got[i] == want[i])
		i++;
	KUNIT_FAIL(test, "byte %zu of %zu is %#x, not %#x", i, len, got[i],
		   want[i]);
}

/* @bytes is what @lay holds at @pos. */
static void drt_expect_bytes(struct kunit *test, const struct drt_layout *lay,
			     loff_t pos, const u8 *bytes, ssize_t len)
{
	struct drt_read *rd = test->priv;
	size_t n;

	for (; len > 0; len -= n, pos += n, bytes += n) {
		ext4_lblk_t lblk = pos >> DRT_BLKBITS;
		const struct drt_extent *ex = drt_extent_at(lay, lblk);
		size_t offset = offset_in_page(pos), page;

		n = min_t(size_t, len, PAGE_SIZE - offset);
		if (ex && ex->status & DRT_WRITTEN) {
			page = ex->pblk + lblk - ex->lblk + DRT_PART_OFF;
			KUNIT_ASSERT_LT(test, page, DRT_DEV_PAGES);
			drt_expect_same_bytes(test, bytes, rd->mem + offset +
					      page * PAGE_SIZE, n);
		} else {
			KUNIT_EXPECT_NULL(test, memchr_inv(bytes, 0, n));
		}
	}
}

static const struct drt_layout drt_file = {
	.ex = {
		{ 0, 2, 20, DRT_WRITTEN },
		{ 2, 1, 0, DRT_HOLE },
		{ 3, 1, 30, DRT_UNWRITTEN },
		{ 4, 2, 40, DRT_WRITTEN },	/* the second not in the cache */
		{ 6, 1, 0, DRT_HOLE },		/* not in the cache */
		{ 7, 2, 50, DRT_WRITTEN },	/* the second past the end */
	},
	.nr = 6,
	.end = 9,
	.on_disk = true,
};

#define DRT_B		PAGE_SIZE
#define DRT_SIZE	(7 * DRT_B + 1000)

static void drt_plant_file(struct inode *inode)
{
	for (int i = 0; i < drt_file.nr; i++) {
		const struct drt_extent *ex = &drt_file.ex[i];

		drt_to_cache(inode, ex);
		if (drt_has_blocks(ex))
			drt_to_disk(inode, ex);
	}
	ext4_es_remove_extent(inode, 5, 2);
	i_size_write(inode, DRT_SIZE);
}

struct drt_row {
	const char *desc;
	loff_t pos;
	size_t count;
	ssize_t ret;
	size_t room;		/* bytes of the buffer that exist; 0: all */
	struct drt_media media;
};

static const struct drt_row drt_rows[] = {
	{ "first byte", 0, 1, 1 },
	{ "inside a block", 100, 200, 200 },
	{ "one block", 0, DRT_B, DRT_B },
	{ "across blocks of an extent", DRT_B - 4, 8, 8 },
	{ "hole", 2 * DRT_B, DRT_B, DRT_B },
	{ "inside a hole", 2 * DRT_B + 1, 5, 5 },
	{ "unwritten", 3 * DRT_B, DRT_B, DRT_B },
	{ "written, then hole", 2 * DRT_B - 10, 20, 20 },
	{ "hole, then unwritten", 3 * DRT_B - 10, 20, 20 },
	{ "unwritten, then written", 4 * DRT_B - 10, 20, 20 },
	{ "written, not in the cache", 5 * DRT_B, DRT_B, DRT_B },
	{ "hole, not in the cache", 6 * DRT_B + 5, 10, 10 },
	{ "cached, then not", 5 * DRT_B - 10, 20, 20 },
	{ "the whole file", 0, DRT_SIZE, DRT_SIZE },
	{ "largest read", 0, MAX_RW_COUNT, DRT_SIZE },

	{ "last byte", DRT_SIZE - 1, 1, 1 },
	{ "up to the end", DRT_SIZE - 10, 10, 10 },
	{ "across the end, inside a block", DRT_SIZE - 10, 20, 10 },
	{ "across the end, into the next block", 7 * DRT_B, 2 * DRT_B, 1000 },
	{ "at the end", DRT_SIZE, 1, 0 },
	{ "past the end, in its block", DRT_SIZE + 1, 1, 0 },
	{ "past the end, in a block of the file", 8 * DRT_B, DRT_B, 0 },
	{ "past the end and all blocks", 100 * DRT_B, 1, 0 },
	{ "past the end, at the largest offset", LLONG_MAX - 1, 1, 0 },

	{ "buffer ends inside a written block", 0, 2 * DRT_B, 100,
	  .room = 100 },
	{ "buffer ends with a written block", 0, 2 * DRT_B, DRT_B,
	  .room = DRT_B },
	{ "buffer ends inside a hole", 2 * DRT_B, DRT_B, 100, .room = 100 },
	{ "buffer ends inside unwritten", 3 * DRT_B, DRT_B, 100, .room = 100 },
	{ "buffer ends with an extent", 2 * DRT_B - 10, 20, 10, .room = 10 },
	{ "buffer ends with a hole", 4 * DRT_B - 10, 20, 10, .room = 10 },
	{ "no buffer, written", 0, 1, -EFAULT, .room = DRT_NO_ROOM },
	{ "no buffer, hole", 2 * DRT_B, 1, -EFAULT, .room = DRT_NO_ROOM },
	{ "no buffer, unwritten", 3 * DRT_B, 1, -EFAULT, .room = DRT_NO_ROOM },
	{ "no buffer, past the end", DRT_SIZE, 1, 0, .room = DRT_NO_ROOM },

	{ "page by page", 0, DRT_SIZE, DRT_SIZE, .media.run = 1 },
	{ "page by page, inside blocks", 10, DRT_B + 10, DRT_B + 10,
	  .media.run = 1 },

	{ "bad page, first", 0, DRT_B, -EIO,
	  .media = { .bad = 22, .bad_err = -EHWPOISON } },
	{ "bad page, second", 10, 2 * DRT_B, DRT_B - 10,
	  .media = { .bad = 23, .bad_err = -EHWPOISON } },
	{ "bad page, in a later extent", 0, DRT_SIZE, 4 * DRT_B,
	  .media = { .bad = 42, .bad_err = -EHWPOISON } },
	{ "bad page, not asked for", 0, DRT_B, DRT_B,
	  .media = { .bad = 23, .bad_err = -EHWPOISON } },
	{ "another errno, first", 0, DRT_B, -ENODEV,
	  .media = { .bad = 22, .bad_err = -ENODEV } },
	{ "another errno, second", 0, 2 * DRT_B, DRT_B,
	  .media = { .bad = 23, .bad_err = -ENODEV } },

	{ "killed between pages", 0, 2 * DRT_B, DRT_B,
	  .media = { .run = 1, .kill = 22 } },
	{ "killed between extents", 0, DRT_SIZE, 4 * DRT_B,
	  .media = { .run = 1, .kill = 23 } },
	{ "killed on the last page", 4 * DRT_B, DRT_B, DRT_B,
	  .media = { .run = 1, .kill = 42 } },
};

KUNIT_ARRAY_PARAM_DESC(drt_row, drt_rows, desc);

/*
 * Into memory of the kernel, as io_uring and splice do: the bytes in @got, and
 * @ret.
 */
static void drt_check_kernel(struct kunit *test, loff_t pos, size_t count,
			     ssize_t ret)
{
	struct drt_read *rd = test->priv;
	size_t len = min(count, DRT_BUF_SIZE), first = len / 2;
	struct kvec kvecs[] = {
		{ rd->other, first },
		{ rd->other + first, len - first },
	};
	struct bio_vec bvec;
	struct iov_iter iter;

	for (int i = 0; i < 2; i++) {
		bvec_set_virt(&bvec, rd->other, len);
		if (i)
			iov_iter_bvec(&iter, ITER_DEST, &bvec, 1, len);
		else
			iov_iter_kvec(&iter, ITER_DEST, kvecs, 2, len);
		memset(rd->other, DRT_UNTOUCHED, DRT_BUF_SIZE);
		inode_lock_shared(&rd->fs.ei.vfs_inode);
		KUNIT_EXPECT_EQ(test, ret,
				drt_read_iter(rd, pos, &iter, 0,
					      ext4_dax_read_segments));
		inode_unlock_shared(&rd->fs.ei.vfs_inode);
		flush_signals(current);
		drt_expect_same_bytes(test, rd->got, rd->other, DRT_BUF_SIZE);
	}
}

static void drt_check_row(struct kunit *test, const struct drt_row *p)
{
	struct drt_read *rd = test->priv;
	size_t room = p->room ?: DRT_BUF_SIZE;
	ssize_t ret;

	if (room == DRT_NO_ROOM)
		room = 0;
	ret = drt_read(test, drt_read_fast, p->pos, p->count, room, rd->got);
	KUNIT_ASSERT_EQ(test, ret, p->ret);
	drt_expect_bytes(test, &drt_file, p->pos, rd->got, ret);
	ret = max(ret, 0);
	KUNIT_EXPECT_NULL(test, memchr_inv(rd->got + ret, DRT_UNTOUCHED,
					   DRT_BUF_SIZE - ret));

	for (int i = 0; i < ARRAY_SIZE(drt_others); i++) {
		ret = drt_read(test, drt_others[i], p->pos, p->count, room,
			       rd->other);
		KUNIT_EXPECT_EQ(test, ret, p->ret);
		drt_expect_same_bytes(test, rd->got, rd->other, DRT_BUF_SIZE);
	}
	if (!p->room)
		drt_check_kernel(test, p->pos, p->count, p->ret);
}

static void drt_test_read(struct kunit *test)
{
	const struct drt_row *p = test->param_value;
	struct drt_read *rd = test->priv;

	drt_plant_file(&rd->fs.ei.vfs_inode);
	rd->media = p->media;
	drt_check_row(test, p);

	/* Again by the copy routine for memory that may machine check. */
	set_dax_nomc(rd->dax);
	drt_check_row(test, p);
}

/* All readers return @ret. */
static void drt_expect_read(struct kunit *test, const struct drt_layout *lay,
			    loff_t pos, size_t count, ssize_t ret)
{
	struct drt_read *rd = test->priv;

	KUNIT_EXPECT_EQ(test, drt_read(test, drt_read_fast, pos, count,
				       DRT_BUF_SIZE, rd->got), ret);
	drt_expect_bytes(test, lay, pos, rd->got, ret);
	for (int i = 0; i < ARRAY_SIZE(drt_others); i++) {
		KUNIT_EXPECT_EQ(test, drt_read(test, drt_others[i], pos, count,
					       DRT_BUF_SIZE, rd->other), ret);
		drt_expect_same_bytes(test, rd->got, rd->other, DRT_BUF_SIZE);
	}
}

/* DAX does not delay allocation; should an entry say so, that is an error. */
static void drt_test_read_delayed(struct kunit *test)
{
	static const struct drt_layout lay = {
		.ex = { { 0, 1, 20, DRT_WRITTEN }, { 1, 1, 0, DRT_DELAYED } },
		.nr = 2,
	};
	/* By each reader, for each of the two reads. */
	const int warnings = 2 * (1 + ARRAY_SIZE(drt_others));
	struct drt_read *rd = test->priv;
	struct inode *inode = &rd->fs.ei.vfs_inode;

	drt_to_cache(inode, &lay.ex[0]);
	drt_to_cache(inode, &lay.ex[1]);
	i_size_write(inode, 2 * DRT_B);

	kunit_warning_suppress(test) {
		drt_expect_read(test, &lay, DRT_B, 1, -EIO);
		drt_expect_read(test, &lay, 0, 2 * DRT_B, DRT_B);
		KUNIT_EXPECT_SUPPRESSED_WARNING_COUNT(test, warnings);
	}
}

/* Blocks that are the file system's are not read, those before them are. */
static void drt_test_read_invalid(struct kunit *test)
{
	static const struct drt_layout lay = {
		.ex = {
			{ 0, 1, 20, DRT_WRITTEN },
			{ 1, 1, DRT_BITMAPS, DRT_WRITTEN },
			{ 2, 1, DRT_FS_BLOCKS, DRT_WRITTEN },
			{ 3, 1, DRT_BITMAPS, DRT_UNWRITTEN },
		},
		.nr = 4,
	};
	struct drt_read *rd = test->priv;
	struct inode *inode = &rd->fs.ei.vfs_inode;

	for (int i = 0; i < lay.nr; i++)
		drt_to_cache(inode, &lay.ex[i]);
	i_size_write(inode, 4 * DRT_B);

	drt_expect_read(test, &lay, 0, 4 * DRT_B, DRT_B);
	drt_expect_read(test, &lay, DRT_B, 1, -EFSCORRUPTED);
	drt_expect_read(test, &lay, 2 * DRT_B, DRT_B, -EFSCORRUPTED);
	drt_expect_read(test, &lay, 3 * DRT_B, DRT_B, DRT_B);
}

/* The tree is wrong on purpose: it must not be asked. */
static void drt_test_read_replay(struct kunit *test)
{
	static const struct drt_extent wrong = { 0, 9, 52, DRT_WRITTEN };
	struct drt_read *rd = test->priv;
	struct inode *inode = &rd->fs.ei.vfs_inode;

	drt_plant_file(inode);
	drt_to_cache(inode, &wrong);
	rd->fs.sbi.s_mount_state |= EXT4_FC_REPLAY;
	drt_expect_read(test, &drt_file, 0, DRT_SIZE, DRT_SIZE);
}

static void drt_test_read_dead(struct kunit *test)
{
	struct drt_read *rd = test->priv;

	drt_plant_file(&rd->fs.ei.vfs_inode);
	kill_dax(rd->dax);
	drt_expect_read(test, &drt_file, 0, DRT_B, -ENXIO);
	drt_expect_read(test, &drt_file, 3 * DRT_B, 2 * DRT_B, DRT_B);
	drt_expect_read(test, &drt_file, DRT_SIZE, 1, 0);
}

/* What is in the inode is not where its blocks are. */
static void drt_test_read_inline(struct kunit *test)
{
	struct drt_read *rd = test->priv;
	struct inode *inode = &rd->fs.ei.vfs_inode;

	drt_plant_file(inode);
	ext4_set_inode_flag(inode, EXT4_INODE_INLINE_DATA);
	rd->fs.ei.i_inline_off = 1;
	KUNIT_EXPECT_EQ(test, drt_read(test, drt_read_fast, 0, DRT_B,
				       DRT_BUF_SIZE, rd->got), -ERANGE);
}

static void drt_test_read_killed(struct kunit *test)
{
	struct drt_read *rd = test->priv;

	drt_plant_file(&rd->fs.ei.vfs_inode);
	send_sig(SIGKILL, current, 1);
	KUNIT_EXPECT_EQ(test, drt_read(test, drt_read_fast, 0, DRT_B,
				       DRT_BUF_SIZE, rd->got), -EINTR);
	for (int i = 0; i < ARRAY_SIZE(drt_others); i++) {
		send_sig(SIGKILL, current, 1);
		KUNIT_EXPECT_EQ(test, drt_read(test, drt_others[i], 0, DRT_B,
					       DRT_BUF_SIZE, rd->other),
				-EINTR);
	}
}

static void drt_switch_on(void *key)
{
	static_branch_enable(&dax_read_simple_key);
}

/* Switched off, a read is left to dax_iomap_rw(), whole. */
static void drt_test_read_refused(struct kunit *test)
{
	struct drt_read *rd = test->priv;
	struct inode *inode = &rd->fs.ei.vfs_inode;
	struct kvec kvec = { rd->got, DRT_B };
	struct iov_iter iter;
	struct kiocb kiocb;

	drt_plant_file(inode);
	memset(rd->got, DRT_UNTOUCHED, DRT_B);
	init_sync_kiocb(&kiocb, &rd->file);
	iov_iter_kvec(&iter, ITER_DEST, &kvec, 1, DRT_B);
	static_branch_disable(&dax_read_simple_key);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, drt_switch_on,
							   NULL));
	inode_lock_shared(inode);
	KUNIT_EXPECT_EQ(test, -ENOTBLK, drt_iter_simple(&kiocb, &iter));
	inode_unlock_shared(inode);
	KUNIT_EXPECT_EQ(test, kiocb.ki_pos, 0);
	KUNIT_EXPECT_EQ(test, iov_iter_count(&iter), DRT_B);
	KUNIT_EXPECT_NULL(test, memchr_inv(rd->got, DRT_UNTOUCHED, DRT_B));
}

/* Maps block by block, and the second one not without waiting. */
static int drt_begin_waits(struct inode *inode, loff_t pos, loff_t length,
			   unsigned int flags, struct iomap *iomap,
			   struct iomap *srcmap)
{
	if ((flags & IOMAP_NOWAIT) && pos >= DRT_B)
		return -EAGAIN;
	length = min_t(u64, length, DRT_B - offset_in_page(pos));
	return ext4_iomap_begin(inode, pos, length, flags, iomap, srcmap);
}

static ssize_t drt_iter_waits(struct kiocb *kiocb, struct iov_iter *iter)
{
	return dax_read_simple(kiocb, iter, drt_begin_waits);
}

static ssize_t drt_read_waits(struct drt_read *rd, loff_t pos,
			      char __user *buf, size_t count)
{
	return drt_read_ubuf(rd, pos, buf, count, 0, drt_iter_waits);
}

static ssize_t drt_read_nowait(struct drt_read *rd, loff_t pos,
			       char __user *buf, size_t count)
{
	return drt_read_ubuf(rd, pos, buf, count, IOCB_NOWAIT, drt_iter_waits);
}

static ssize_t drt_pieces_nowait(struct drt_read *rd, loff_t pos,
				 char __user *buf, size_t count)
{
	struct iovec pieces[] = { { buf, 1 }, { buf + 1, count - 1 } };
	struct iov_iter iter;

	iov_iter_init(&iter, ITER_DEST, pieces, ARRAY_SIZE(pieces), count);
	return drt_read_iter(rd, pos, &iter, IOCB_NOWAIT, drt_iter_waits);
}

/* IOCB_NOWAIT gives what can be had at once, and -EAGAIN if that is nothing. */
static void drt_test_read_nowait(struct kunit *test)
{
	static const drt_reader readers[] = {
		drt_read_nowait, drt_pieces_nowait,
	};
	struct drt_read *rd = test->priv;

	drt_plant_file(&rd->fs.ei.vfs_inode);
	KUNIT_EXPECT_EQ(test, drt_read(test, drt_read_waits, 10, 2 * DRT_B,
				       DRT_BUF_SIZE, rd->got), 2 * DRT_B);
	for (int i = 0; i < ARRAY_SIZE(readers); i++) {
		KUNIT_EXPECT_EQ(test, drt_read(test, readers[i], 10, 2 * DRT_B,
					       DRT_BUF_SIZE, rd->got),
				DRT_B - 10);
		drt_expect_bytes(test, &drt_file, 10, rd->got, DRT_B - 10);
		KUNIT_EXPECT_EQ(test, drt_read(test, readers[i], DRT_B, 2,
					       DRT_BUF_SIZE, rd->got), -EAGAIN);
	}
}

/* Maps the block behind the one that is asked for. */
static int drt_begin_elsewhere(struct inode *inode, loff_t pos, loff_t length,
			       unsigned int flags, struct iomap *iomap,
			       struct iomap *srcmap)
{
	return ext4_iomap_begin(inode, pos + DRT_B, 1, flags, iomap, srcmap);
}

static ssize_t drt_iter_elsewhere(struct kiocb *kiocb, struct iov_iter *iter)
{
	return dax_read_simple(kiocb, iter, drt_begin_elsewhere);
}

static ssize_t drt_read_elsewhere(struct drt_read *rd, loff_t pos,
				  char __user *buf, size_t count)
{
	return drt_read_ubuf(rd, pos, buf, count, 0, drt_iter_elsewhere);
}

static ssize_t drt_pieces_elsewhere(struct drt_read *rd, loff_t pos,
				    char __user *buf, size_t count)
{
	return drt_read_pieces(rd, pos, buf, count, drt_iter_elsewhere);
}

/* A mapping of another place is not read: it may be of another file. */
static void drt_test_read_elsewhere(struct kunit *test)
{
	struct drt_read *rd = test->priv;

	drt_plant_file(&rd->fs.ei.vfs_inode);
	kunit_warning_suppress(test) {
		KUNIT_EXPECT_EQ(test, drt_read(test, drt_read_elsewhere, 0, 1,
					       DRT_BUF_SIZE, rd->got), -EIO);
		KUNIT_EXPECT_EQ(test, drt_read(test, drt_read_elsewhere, DRT_B,
					       1, DRT_BUF_SIZE, rd->got), -EIO);
		KUNIT_EXPECT_EQ(test, drt_read(test, drt_pieces_elsewhere, 0,
					       3, DRT_BUF_SIZE, rd->got), -EIO);
		KUNIT_EXPECT_SUPPRESSED_WARNING_COUNT(test, 3);
	}
}

/* An inode with a size past what its blocks can hold. */
static void drt_test_read_max_offset(struct kunit *test)
{
	static const struct drt_layout lay = {
		.ex = {
			{ 0, DRT_MAX_BLOCK, 0, DRT_HOLE },
			{ DRT_MAX_BLOCK, 1, 20, DRT_WRITTEN },
		},
		.nr = 2,
	};
	const loff_t last = (loff_t)DRT_MAX_BLOCK << DRT_BLKBITS;
	struct drt_read *rd = test->priv;
	struct inode *inode = &rd->fs.ei.vfs_inode;

	drt_to_cache(inode, &lay.ex[0]);
	drt_to_cache(inode, &lay.ex[1]);
	i_size_write(inode, LLONG_MAX);

	drt_expect_read(test, &lay, last, DRT_B, DRT_B);
	drt_expect_read(test, &lay, last - 10, DRT_B, DRT_B);
	drt_expect_read(test, &lay, last + DRT_B - 10, 20, 10);
	drt_expect_read(test, &lay, last + DRT_B, 1, -EINVAL);
	drt_expect_read(test, &lay, LLONG_MAX - 1, 1, -EINVAL);
}

#define DRT_FILES	200
#define DRT_READS	25

struct drt_read_tally {
	unsigned int whole;
	unsigned int partial;
	unsigned int failed;
};

static void drt_random_media(struct rnd_state *rnd, struct drt_media *media)
{
	static const long runs[] = { 0, 0, 1, 3 };

	*media = (struct drt_media) { .run = runs[drt_below(rnd, 4)] };
	if (drt_below(rnd, 4))
		return;
	media->bad = 1 + drt_below(rnd, DRT_DEV_PAGES - 1);
	media->bad_err = drt_below(rnd, 2) ? -EHWPOISON : -ENODEV;
}

static void drt_check_read(struct kunit *test, const struct drt_layout *lay,
			   struct rnd_state *rnd, struct drt_read_tally *tally)
{
	struct drt_read *rd = test->priv;
	loff_t size = i_size_read(&rd->fs.ei.vfs_inode);
	loff_t pos = drt_below(rnd, size + DRT_B);
	size_t count = 1 + drt_below(rnd, drt_below(rnd, 2) ? 16 : DRT_BUF_SIZE);
	size_t room = drt_below(rnd, 4) ? DRT_BUF_SIZE : drt_below(rnd, count);
	size_t most = pos < size ? min_t(u64, count, size - pos) : 0;
	ssize_t ret;

	drt_random_media(rnd, &rd->media);
	ret = drt_read(test, drt_read_fast, pos, count, room, rd->got);
	KUNIT_EXPECT_LE(test, ret, (ssize_t)most);
	drt_expect_bytes(test, lay, pos, rd->got, ret);

	for (int i = 0; i < ARRAY_SIZE(drt_others); i++) {
		KUNIT_EXPECT_EQ(test, ret,
				drt_read(test, drt_others[i], pos, count, room,
					 rd->other));
		drt_expect_same_bytes(test, rd->got, rd->other, DRT_BUF_SIZE);
	}

	if (ret < 0)
		tally->failed++;
	else if (ret < most)
		tally->partial++;
	else
		tally->whole++;

	if (READ_ONCE(test->status) == KUNIT_FAILURE)
		KUNIT_FAIL_AND_ABORT(test, "%zu at %lld of %lld, buffer %zu, run %ld, bad %ld",
				     count, pos, size, room, rd->media.run,
				     rd->media.bad);
}

static void drt_test_read_random(struct kunit *test)
{
	static const struct drt_recipe recipe = {
		.first = DRT_INODE_TABLE + DRT_INODE_TABLE_LEN,
		.last = DRT_DEV_PAGES - DRT_PART_OFF - 1,
		.max_len = 6,
	};
	struct drt_read *rd = test->priv;
	struct inode *inode = &rd->fs.ei.vfs_inode;
	struct drt_read_tally tally = {};
	struct drt_layout *lay;
	struct rnd_state rnd;

	lay = kunit_kzalloc(test, sizeof(*lay), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, lay);
	prandom_seed_state(&rnd, drt_seed(test));

	for (int i = 0; i < DRT_FILES; i++) {
		drt_random_layout(&rnd, inode, &recipe, lay);
		drt_apply_layout(&rnd, inode, lay);
		i_size_write(inode, 1 + drt_below(&rnd, (lay->end + 1) * DRT_B));
		for (int j = 0; j < DRT_READS; j++) {
			drt_disturb(&rnd, &rd->fs, lay);
			drt_check_read(test, lay, &rnd, &tally);
		}
		cond_resched();
	}

	kunit_info(test, "%u whole, %u partial, %u failed\n",
		   tally.whole, tally.partial, tally.failed);
	KUNIT_EXPECT_GT(test, tally.whole, DRT_FILES);
	KUNIT_EXPECT_GT(test, tally.partial, DRT_FILES);
	KUNIT_EXPECT_GT(test, tally.failed, DRT_FILES / 4);
}

static struct kunit_case drt_read_cases[] = {
	KUNIT_CASE_PARAM(drt_test_read, drt_row_gen_params),
	KUNIT_CASE(drt_test_read_delayed),
	KUNIT_CASE(drt_test_read_invalid),
	KUNIT_CASE(drt_test_read_replay),
	KUNIT_CASE(drt_test_read_dead),
	KUNIT_CASE(drt_test_read_inline),
	KUNIT_CASE(drt_test_read_killed),
	KUNIT_CASE(drt_test_read_refused),
	KUNIT_CASE(drt_test_read_nowait),
	KUNIT_CASE(drt_test_read_elsewhere),
	KUNIT_CASE(drt_test_read_max_offset),
	KUNIT_CASE(drt_test_read_random),
	{}
};

static struct kunit_suite drt_read_suite = {
	.name = "ext4_dax_read_user",
	.init = drt_read_init,
	.test_cases = drt_read_cases,
};

kunit_test_suites(&drt_lookup_suite, &drt_read_suite);

#else /* !CONFIG_FS_DAX */

kunit_test_suites(&drt_lookup_suite);

#endif
