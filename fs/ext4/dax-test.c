// SPDX-License-Identifier: GPL-2.0
/*
 * Helpers of the KUnit tests of the ext4 DAX read: a file system and lookups.
 */
#include <linux/shrinker.h>

#include "dax-test.h"

int drt_fs_init(struct kunit *test, struct drt_fs *fs)
{
	int err = test_fs_init(test, &fs->sb, DRT_BLKBITS, DRT_FS_BLOCKS);

	fs->ei.vfs_inode.i_flags = S_DAX;
	return err;
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
