// SPDX-License-Identifier: GPL-2.0
/*
 * Helpers of the KUnit tests of the ext4 DAX read: a file system with one
 * inode, and lookups.
 */
#include <kunit/static_stub.h>
#include <linux/backing-dev.h>
#include <linux/shrinker.h>

#include "dax-test.h"

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
	fs->sb.s_bdi = &noop_backing_dev_info;
	fs->sb.s_blocksize = 1UL << DRT_BLKBITS;
	fs->sb.s_blocksize_bits = DRT_BLKBITS;
	init_rwsem(&fs->sb.s_umount);

	fs->group.bg_block_bitmap_lo = cpu_to_le32(DRT_BITMAPS);
	fs->group.bg_inode_bitmap_lo = cpu_to_le32(DRT_BITMAPS + 1);
	fs->group.bg_inode_table_lo = cpu_to_le32(DRT_INODE_TABLE);

	sbi->s_sb = &fs->sb;
	sbi->s_es = &fs->es;
	fs->es.s_feature_incompat = cpu_to_le32(EXT4_FEATURE_INCOMPAT_64BIT);
	/* sparse reports the truncated constant of ext4_blocks_count_set(). */
	fs->es.s_blocks_count_hi = cpu_to_le32(DRT_FS_BLOCKS >> 32);
	sbi->s_groups_count = 1;
	sbi->s_gdb_count = 1;
	sbi->s_itb_per_group = DRT_INODE_TABLE_LEN;
	sbi->s_desc_size = EXT4_MIN_DESC_SIZE;
	sbi->s_cluster_ratio = 1;
	/*
	 * The tests use invalid blocks. In this state, ext4_error() assumes an
	 * earlier error and prints nothing.
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

unsigned int drt_max_on_disk(struct inode *inode)
{
	return le16_to_cpu(ext_inode_hdr(inode)->eh_max);
}

/* Remove all blocks of the inode. */
void drt_empty(struct inode *inode)
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

void drt_zones_exit(void *data)
{
	struct drt_fs *fs = data;

	down_write(&fs->sb.s_umount);
	ext4_release_system_zone(&fs->sb);
	up_write(&fs->sb.s_umount);
}

int drt_fs_init(struct kunit *test, struct drt_fs *fs)
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

void drt_to_cache(struct inode *inode, const struct drt_extent *ex)
{
	if (ex->status & DRT_DELAYED)
		ext4_es_insert_delayed_extent(inode, ex->lblk, ex->len, false,
					      false);
	else
		ext4_es_insert_extent(inode, ex->lblk, ex->len, ex->pblk,
				      ex->status, false);
}

/* Append an extent to the extents in the inode. */
void drt_to_disk(struct inode *inode, const struct drt_extent *ex)
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

int drt_lookup_init(struct kunit *test)
{
	struct drt_fs *fs = kunit_kzalloc(test, sizeof(*fs), GFP_KERNEL);

	if (!fs)
		return -ENOMEM;
	test->priv = fs;
	return drt_fs_init(test, fs);
}

/*
 * Drop entries as under memory pressure. The shrinker keeps delayed extents.
 * The other extents must be on disk.
 */
void drt_scan(struct drt_fs *fs)
{
	struct shrinker *shrinker = fs->sbi.s_es_shrinker;
	struct shrink_control sc = {
		.gfp_mask = GFP_KERNEL,
		.nr_to_scan = 1000,
	};

	shrinker->scan_objects(shrinker, &sc);
}

void drt_shrink(struct drt_fs *fs)
{
	/* The first scan only clears the referenced marks. */
	drt_scan(fs);
	drt_scan(fs);
}

/* ---- one lookup ---- */

bool drt_cached(struct inode *inode, struct ext4_map_blocks *map)
{
	return ext4_dax_lookup_cached(inode, map);
}

#ifdef CONFIG_FS_DAX
bool drt_recall(struct inode *inode, struct ext4_map_blocks *map)
{
	return ext4_dax_recall(inode, map);
}
#else
bool drt_recall(struct inode *inode, struct ext4_map_blocks *map)
{
	return false;
}
#endif

/*
 * Look up as dax-read.c does, with i_rwsem held. Check that a lookup that fails
 * does not write to @map.
 */
bool drt_ask_locked(struct kunit *test, drt_mapper mapper, struct inode *inode,
		    ext4_lblk_t lblk, unsigned int len,
		    struct ext4_map_blocks *map)
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

bool drt_ask(struct kunit *test, drt_mapper mapper, struct inode *inode,
	     ext4_lblk_t lblk, unsigned int len, struct ext4_map_blocks *map)
{
	bool found;

	inode_lock_shared(inode);
	found = drt_ask_locked(test, mapper, inode, lblk, len, map);
	inode_unlock_shared(inode);
	return found;
}

int drt_map_blocks(struct inode *inode, ext4_lblk_t lblk, unsigned int len,
		   struct ext4_map_blocks *map)
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

/* Check that @got equals @want and @ret, the result of ext4_map_blocks(). */
void drt_expect_same(struct kunit *test, const struct ext4_map_blocks *got,
		     const struct ext4_map_blocks *want, int ret)
{
	bool blocks = got->m_flags & (EXT4_MAP_MAPPED | EXT4_MAP_UNWRITTEN);

	KUNIT_EXPECT_EQ(test, got->m_lblk, want->m_lblk);
	KUNIT_EXPECT_EQ(test, got->m_len, want->m_len);
	KUNIT_EXPECT_EQ(test, got->m_flags, want->m_flags);
	KUNIT_EXPECT_EQ(test, got->m_pblk, want->m_pblk);
	KUNIT_EXPECT_EQ(test, ret, blocks ? (int)got->m_len : 0);
}
