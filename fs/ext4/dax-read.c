// SPDX-License-Identifier: GPL-2.0
/*
 * Reading ext4 DAX files: the lookup for dax_read_simple(). The
 * sources are, in this order, the extent that the inode remembers, the extent
 * status tree, and ext4_map_blocks().
 *
 * Every mapping is the one that ext4_iomap_begin() would return. dax-read.h
 * explains why a read may use it under i_rwsem.
 */

#include <linux/dax-read.h>
#include "ext4.h"
#include "dax-read.h"
#include "dax-unlocked.h"

static noinline int ext4_dax_lookup(struct inode *inode,
				    struct ext4_map_blocks *map)
{
	int ret;

	/* i_data contains user data, not block numbers */
	if (unlikely(ext4_has_inline_data(inode)))
		return -ERANGE;
	if (ext4_dax_lookup_cached(inode, map))
		return 0;
	ret = ext4_map_blocks(NULL, inode, map, 0);
	return min(ret, 0);
}

static __always_inline u16 ext4_dax_iomap_type(unsigned int flags)
{
	if (likely(flags & EXT4_MAP_MAPPED))
		return IOMAP_MAPPED;
	if (flags & EXT4_MAP_UNWRITTEN)
		return IOMAP_UNWRITTEN;
	return flags & EXT4_MAP_DELAYED ? IOMAP_DELALLOC : IOMAP_HOLE;
}

/* Sets only the fields of the iomap that dax_read_range() uses. */
static __always_inline int ext4_dax_begin(struct inode *inode, loff_t pos,
					  loff_t length, unsigned int flags,
					  struct iomap *iomap,
					  struct iomap *srcmap)
{
	struct ext4_sb_info *sbi = EXT4_SB(inode->i_sb);
	u8 blkbits = inode->i_blkbits;
	struct ext4_map_blocks map = {};	/* without {}, stores remain */
	int ret;

	ret = ext4_dax_pos_to_map(inode, pos, length, &map);
	if (unlikely(ret))
		return ret;
	if (!ext4_dax_recall(inode, &map)) {
		/*
		 * A second struct, so that @map stays in registers in the
		 * common case.
		 */
		struct ext4_map_blocks found = {
			.m_lblk = map.m_lblk,
			.m_len = map.m_len,
		};

		ret = ext4_dax_lookup(inode, &found);
		if (ret)
			return ret;
		map.m_pblk = found.m_pblk;
		map.m_len = found.m_len;
		map.m_flags = found.m_flags;
	}

	iomap->type = ext4_dax_iomap_type(map.m_flags);
	iomap->offset = (loff_t)map.m_lblk << blkbits;
	iomap->length = (u64)map.m_len << blkbits;
	iomap->addr = ((u64)map.m_pblk << blkbits) + sbi->s_dax_part_off;
	iomap->dax_dev = sbi->s_daxdev;
	return 0;
}

/**
 * ext4_dax_read_user - read a DAX file into user memory
 * @inode: the file, IS_DAX()
 * @pos: first byte to read, not negative
 * @buf: user memory, inside the address space as for access_ok()
 * @count: bytes, from 1 to MAX_RW_COUNT
 *
 * Context: process context, i_rwsem held shared (or exclusively). May sleep,
 * may fault in user memory.
 * Return: as dax_read_range(). ext4_map_blocks() returns -EFSCORRUPTED for
 * blocks that no file may own.
 */
ssize_t ext4_dax_read_user(struct inode *inode, loff_t pos, char __user *buf,
			   size_t count)
{
	ext4_dax_let_in(inode);
	return dax_read_range(inode, pos, count, IOMAP_DAX, ext4_dax_begin,
			      NULL, buf, NULL);
}

#if IS_ENABLED(CONFIG_EXT4_KUNIT_TESTS)
EXPORT_SYMBOL_FOR_EXT4_TEST(ext4_dax_read_user);
#endif

/**
 * ext4_dax_read_simple - dax_read_simple() with the lookup of ext4
 * @iocb: the read; ki_pos advances by the bytes read
 * @to: destination of any kind; advances by the bytes read
 *
 * Context: as for ext4_dax_read_user().
 * Return: as dax_read_simple().
 */
ssize_t ext4_dax_read_simple(struct kiocb *iocb, struct iov_iter *to)
{
	if (!dax_read_fast_enabled())
		return dax_read_simple(iocb, to, ext4_iomap_begin, NULL);
	ext4_dax_let_in(file_inode(iocb->ki_filp));
	return dax_read_simple(iocb, to, ext4_dax_begin, NULL);
}

#if IS_ENABLED(CONFIG_EXT4_KUNIT_TESTS)
EXPORT_SYMBOL_FOR_EXT4_TEST(ext4_dax_read_simple);
#endif
