/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The lookup of the blocks that a read of an ext4 DAX file copies.
 * include/linux/dax-read.h does the copy.
 *
 * The block arithmetic and the extent status lookup are inline in this header,
 * because they are the hot path and need no DAX. The KUnit suite
 * (dax-read-test.c) compares them with ext4_map_blocks() even if FS_DAX cannot
 * be built.
 */
#ifndef _EXT4_DAX_READ_H
#define _EXT4_DAX_READ_H

#include <linux/dax.h>
#include <linux/jump_label.h>
#include <linux/mmdebug.h>
#include <linux/uio.h>
#include "ext4.h"

/**
 * ext4_dax_pos_to_map - convert a byte range to logical blocks
 * @inode: the file
 * @pos: first byte, not negative
 * @count: bytes, at least one; @pos + @count does not overflow
 * @map: m_lblk and m_len are set
 *
 * Context: any.
 * Return: 0, or -EINVAL if @pos lies past the last block number of an ext4
 * file, as for ext4_iomap_begin(). A read comes this far only if i_size of the
 * inode is damaged.
 */
static __always_inline int
ext4_dax_pos_to_map(struct inode *inode, loff_t pos, size_t count,
		    struct ext4_map_blocks *map)
{
	u8 blkbits = inode->i_blkbits;
	u64 first = (u64)pos >> blkbits;
	u64 last = ((u64)pos + count - 1) >> blkbits;

	if (unlikely(last > EXT4_MAX_LOGICAL_BLOCK)) {
		if (first > EXT4_MAX_LOGICAL_BLOCK)
			return -EINVAL;
		last = EXT4_MAX_LOGICAL_BLOCK;
	}
	map->m_lblk = first;
	map->m_len = last - first + 1;
	return 0;
}

#ifdef CONFIG_FS_DAX
/**
 * ext4_dax_forget - invalidate the remembered extent
 * @inode: the file, DAX or not
 *
 * Context: i_es_lock held for writing.
 */
static inline void ext4_dax_forget(struct inode *inode)
{
	struct ext4_dax_map *m = &EXT4_I(inode)->i_dax_map;

	/* Other inodes use this memory for other fields. */
	if (IS_DAX(inode))
		WRITE_ONCE(m->taken, m->taken + 1);
}

/* Called under i_es_lock, for ext4_dax_remember(). */
static __always_inline u64 ext4_dax_taken(struct inode *inode)
{
	return EXT4_I(inode)->i_dax_map.taken;
}

/**
 * ext4_dax_remember - keep an extent for ext4_dax_recall()
 * @inode: the file
 * @found: a written extent that is valid as a whole, in @as_of to @zone_gen
 * @again: the lookup before this one has found the same extent
 *
 * An extent replaces a valid one only if two lookups in a row have found it.
 * Otherwise reads in random order would pay for remembering extents that no
 * later read uses. If several readers call this at the same time, one of them
 * succeeds and none waits.
 *
 * Context: any.
 */
static __always_inline void
ext4_dax_remember(struct inode *inode, const struct ext4_dax_map *found,
		  bool again)
{
	struct ext4_dax_map *m = &EXT4_I(inode)->i_dax_map;
	u32 seq;

	VM_WARN_ON_ONCE(!IS_DAX(inode));
	/* This is only a guess, so concurrent changes do no harm. */
	if (!again && READ_ONCE(m->as_of) == found->as_of && READ_ONCE(m->len))
		return;

	/* Fully ordered: no task sees a changed field while seq is even. */
	seq = READ_ONCE(m->seq);
	if ((seq & 1) || cmpxchg(&m->seq, seq, seq + 1) != seq)
		return;
	WRITE_ONCE(m->as_of, found->as_of);
	WRITE_ONCE(m->pblk, found->pblk);
	WRITE_ONCE(m->lblk, found->lblk);
	WRITE_ONCE(m->len, found->len);
	WRITE_ONCE(m->zone_gen, found->zone_gen);
	/* Pairs with the acquire in ext4_dax_recall(). */
	smp_store_release(&m->seq, seq + 2);
}

/**
 * ext4_dax_recall - map blocks of the remembered extent
 * @inode: the file
 * @map: as for ext4_dax_lookup_cached()
 *
 * struct ext4_dax_map explains why the answer is valid. The statistics of the
 * extent status tree do not count this lookup.
 *
 * Context: i_rwsem held, shared will do; or as described in dax-unlocked.c.
 * Return: true if @map is filled, else false with @map unchanged.
 */
static __always_inline bool ext4_dax_recall(struct inode *inode,
					    struct ext4_map_blocks *map)
{
	const struct ext4_dax_map *m = &EXT4_I(inode)->i_dax_map;
	ext4_fsblk_t pblk;
	u32 seq, skip, len;

	/* Pairs with the release in ext4_dax_remember(). */
	seq = smp_load_acquire(&m->seq);
	skip = map->m_lblk - READ_ONCE(m->lblk);
	len = READ_ONCE(m->len);
	pblk = READ_ONCE(m->pblk) + skip;

	/* No acquire: no block is checked against zones here. */
	if (unlikely(skip >= len ||
		     READ_ONCE(m->as_of) != READ_ONCE(m->taken) ||
		     READ_ONCE(m->zone_gen) !=
		     READ_ONCE(EXT4_SB(inode->i_sb)->s_system_zone_gen)))
		return false;

	/* All fields belong to one extent if seq has not changed. */
	smp_rmb();
	if (unlikely((seq & 1) || READ_ONCE(m->seq) != seq))
		return false;

	map->m_pblk = pblk;
	map->m_len = min(map->m_len, len - skip);
	map->m_flags = EXT4_MAP_MAPPED;
	return true;
}
#else
static inline void ext4_dax_forget(struct inode *inode)
{
}

static inline u64 ext4_dax_taken(struct inode *inode)
{
	return 0;
}

static inline void
ext4_dax_remember(struct inode *inode, const struct ext4_dax_map *found,
		  bool again)
{
}
#endif /* CONFIG_FS_DAX */

/*
 * Finds the entry of a block, and whether the last lookup has found it too. As
 * ext4_es_lookup_extent(), but without statistics and trace events. The caller
 * holds i_es_lock.
 */
static __always_inline struct extent_status *
ext4_dax_find_extent(struct ext4_es_tree *tree, ext4_lblk_t lblk, bool *again)
{
	struct extent_status *es = READ_ONCE(tree->cache_es);
	struct rb_node *node = tree->root.rb_node;

	*again = es && lblk - es->es_lblk < es->es_len;
	if (*again)
		return es;
	while (node) {
		es = rb_entry(node, struct extent_status, rb_node);
		if (lblk < es->es_lblk) {
			node = node->rb_left;
		} else if (lblk - es->es_lblk >= es->es_len) {
			node = node->rb_right;
		} else {
			WRITE_ONCE(tree->cache_es, es);
			return es;
		}
	}
	return NULL;
}

/**
 * ext4_dax_lookup_cached - map blocks from the extent status tree alone
 * @inode: the file
 * @map: m_lblk and m_len are the requested blocks. On success, m_pblk, m_len
 *	and m_flags are set as by ext4_map_blocks(NULL, @inode, @map, 0).
 *
 * A written extent is remembered. The answer is valid while the caller holds
 * i_rwsem (shared will do) or invalidate_lock, like the answer of
 * ext4_map_blocks(). A written block stays written and in place, because tasks
 * that free or move blocks hold i_rwsem exclusively. A page fault takes only
 * invalidate_lock shared, and may turn a hole or an unwritten block into a
 * written one. A reader that found the block before that returns zeroes, as if
 * it had come before the fault. It never returns the old content of the blocks:
 * they are zeroed before the tree shows them as written
 * (ext4_map_create_blocks()). There are two exceptions: visible quota files, see
 * dax-unlocked.c, and blocks that could not be zeroed because of an I/O error.
 *
 * Context: process context, i_rwsem held (shared will do). Takes i_es_lock.
 * Return: true if @map is filled. False, with @map unchanged, if the caller
 * must ask ext4_map_blocks(): the tree has no entry, a fast commit is being
 * replayed, or the blocks fail the validity check and ext4_map_blocks() must
 * report them.
 */
static __always_inline bool
ext4_dax_lookup_cached(struct inode *inode, struct ext4_map_blocks *map)
{
	struct ext4_inode_info *ei = EXT4_I(inode);
	struct super_block *sb = inode->i_sb;
	struct extent_status *es, found;
	unsigned int flags = 0, len;
	ext4_fsblk_t pblk = 0;
	bool again, valid;
	ext4_lblk_t skip;
	u64 taken;
	u32 gen;

	if (EXT4_SB(sb)->s_mount_state & EXT4_FC_REPLAY)
		return false;

	/* As in __ext4_es_validate(): a check comes later. */
	gen = smp_load_acquire(&EXT4_SB(sb)->s_system_zone_gen);
	read_lock(&ei->i_es_lock);
	es = ext4_dax_find_extent(&ei->i_es_tree, map->m_lblk, &again);
	if (!es) {
		read_unlock(&ei->i_es_lock);
		return false;
	}
	found.es_lblk = es->es_lblk;
	found.es_len = es->es_len;
	found.es_pblk = READ_ONCE(es->es_pblk);
	valid = ext4_es_is_validated(&found) && ei->i_es_zone_gen == gen;
	taken = ext4_dax_taken(inode);
	/* The shrinker spares it. As ext4_es_lookup_extent(), lock shared. */
	if (!ext4_es_is_referenced(&found))
		ext4_es_set_referenced(es);
	read_unlock(&ei->i_es_lock);

	skip = map->m_lblk - found.es_lblk;
	len = min(map->m_len, found.es_len - skip);

	if (likely(ext4_es_is_written(&found))) {
		const struct ext4_dax_map m = {
			.as_of		= taken,
			.pblk		= ext4_es_pblock(&found),
			.lblk		= found.es_lblk,
			.len		= found.es_len,
			.zone_gen	= gen,
		};

		pblk = m.pblk + skip;
		flags = EXT4_MAP_MAPPED;
		if (likely(valid) || __ext4_es_validate(inode, &found))
			ext4_dax_remember(inode, &m, again);
		else if (!ext4_sb_block_valid(sb, inode, pblk, len))
			return false;
	} else if (ext4_es_is_unwritten(&found)) {
		pblk = ext4_es_pblock(&found) + skip;
		flags = EXT4_MAP_UNWRITTEN;
	} else if (ext4_es_is_delayed(&found)) {
		flags = EXT4_MAP_DELAYED;
	}

	map->m_pblk = pblk;
	map->m_len = len;
	map->m_flags = flags;
	return true;
}

#ifdef CONFIG_FS_DAX
/*
 * Returns the byte of the device, or -ENOTBLK if the range is not one written
 * extent. With @search, look the extent up if the inode does not remember it.
 */
static __always_inline s64
ext4_dax_written_addr(struct inode *inode, loff_t pos, size_t count,
		      bool search)
{
	struct ext4_map_blocks map = {};
	u8 blkbits = inode->i_blkbits;
	unsigned int nr;

	if (ext4_dax_pos_to_map(inode, pos, count, &map))
		return -ENOTBLK;
	nr = map.m_len;
	if (!ext4_dax_recall(inode, &map) &&
	    (!search || ext4_has_inline_data(inode) ||
	     !ext4_dax_lookup_cached(inode, &map)))
		return -ENOTBLK;
	if (map.m_flags != EXT4_MAP_MAPPED || map.m_len < nr)
		return -ENOTBLK;
	return ((u64)map.m_pblk << blkbits) +
		(pos & ((1U << blkbits) - 1)) +
		EXT4_SB(inode->i_sb)->s_dax_part_off;
}

ssize_t ext4_dax_read_user(struct inode *inode, loff_t pos, char __user *buf,
			   size_t count);
ssize_t ext4_dax_read_simple(struct kiocb *iocb, struct iov_iter *to);
ssize_t ext4_dax_overwrite(struct kiocb *iocb, struct iov_iter *from);
#endif /* CONFIG_FS_DAX */

#endif /* _EXT4_DAX_READ_H */
