/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The lookup of the blocks that a read of an ext4 DAX file copies.
 * fs/dax-read.c does the copy.
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
/*
 * Call this before checking blocks. The check then uses the system zones that
 * this number was published for, or later ones.
 */
static inline u32 ext4_dax_zone_gen(struct inode *inode)
{
	/* Pairs with ext4_setup_system_zone(), ext4_release_system_zone(). */
	return smp_load_acquire(&EXT4_SB(inode->i_sb)->s_system_zone_gen);
}

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

/*
 * Returns whether to remember an extent. It replaces a valid remembered extent
 * only if two lookups in a row have found it. Otherwise reads in random order
 * would pay for remembering extents that no later read uses.
 */
static __always_inline bool
ext4_dax_worthwhile(struct ext4_dax_map *m, const struct ext4_dax_map *found)
{
	/* This is only a guess, so concurrent changes do no harm. */
	if (READ_ONCE(m->last) == found->lblk ||
	    READ_ONCE(m->as_of) != found->as_of || !READ_ONCE(m->len))
		return true;
	WRITE_ONCE(m->last, found->lblk);
	return false;
}

/**
 * ext4_dax_remember - keep an extent for ext4_dax_recall()
 * @inode: the file
 * @found: a written extent that is valid as a whole, in @as_of to @zone_gen
 *
 * If several readers call this at the same time, one of them succeeds and none
 * waits.
 *
 * Context: any.
 */
static __always_inline void
ext4_dax_remember(struct inode *inode, const struct ext4_dax_map *found)
{
	struct ext4_dax_map *m = &EXT4_I(inode)->i_dax_map;
	u32 seq;

	if (!ext4_dax_worthwhile(m, found))
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
	WRITE_ONCE(m->last, found->lblk);
	/* Pairs with the acquire in ext4_dax_recall(). */
	smp_store_release(&m->seq, seq + 2);
}

/**
 * ext4_dax_recall - map blocks of the remembered extent
 * @inode: the file
 * @map: as for ext4_dax_lookup_cached()
 *
 * struct ext4_dax_map explains why the answer is valid. The statistics of the
 * extent status tree do not count this lookup. It does not mark the entry of
 * the tree as referenced.
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

	/* No ext4_dax_zone_gen(): no block is checked against zones here. */
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
static inline u32 ext4_dax_zone_gen(struct inode *inode)
{
	return 0;
}

static inline void ext4_dax_forget(struct inode *inode)
{
}

static inline u64 ext4_dax_taken(struct inode *inode)
{
	return 0;
}

static inline void ext4_dax_remember(struct inode *inode,
				     const struct ext4_dax_map *found)
{
}
#endif /* CONFIG_FS_DAX */

/*
 * Finds the entry of a block. Unlike ext4_es_lookup_extent(), this has no
 * statistics and no trace events. It does not use cache_es either, which is the
 * last extent inserted. The caller holds i_es_lock.
 */
static __always_inline struct extent_status *
ext4_dax_find_extent(const struct ext4_es_tree *tree, ext4_lblk_t lblk)
{
	struct rb_node *node = tree->root.rb_node;
	struct extent_status *es;

	while (node) {
		es = rb_entry(node, struct extent_status, rb_node);
		if (lblk < es->es_lblk)
			node = node->rb_left;
		else if (lblk >= es->es_lblk + es->es_len)
			node = node->rb_right;
		else
			return es;
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
 * (ext4_map_create_blocks()).
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
	u32 zone_gen = ext4_dax_zone_gen(inode);
	ext4_fsblk_t start, pblk = 0;
	unsigned int type, flags, skip, len;
	ext4_lblk_t first, all;
	struct extent_status *es;
	u64 taken;

	if (EXT4_SB(sb)->s_mount_state & EXT4_FC_REPLAY)
		return false;

	read_lock(&ei->i_es_lock);
	es = ext4_dax_find_extent(&ei->i_es_tree, map->m_lblk);
	if (!es) {
		read_unlock(&ei->i_es_lock);
		return false;
	}
	first = es->es_lblk;
	all = es->es_len;
	start = ext4_es_pblock(es);
	type = ext4_es_type(es);
	taken = ext4_dax_taken(inode);
	/* The shrinker spares it. As ext4_es_lookup_extent(), lock shared. */
	if (!ext4_es_is_referenced(es))
		ext4_es_set_referenced(es);
	read_unlock(&ei->i_es_lock);

	skip = map->m_lblk - first;
	len = min(map->m_len, all - skip);

	if (likely(type & EXTENT_STATUS_WRITTEN)) {
		const struct ext4_dax_map found = {
			.as_of		= taken,
			.pblk		= start,
			.lblk		= first,
			.len		= all,
			.zone_gen	= zone_gen,
		};

		pblk = start + skip;
		flags = EXT4_MAP_MAPPED;
		if (likely(ext4_sb_block_valid(sb, inode, start, all)))
			ext4_dax_remember(inode, &found);
		else if (!ext4_sb_block_valid(sb, inode, pblk, len))
			return false;
	} else if (type & EXTENT_STATUS_UNWRITTEN) {
		pblk = start + skip;
		flags = EXT4_MAP_UNWRITTEN;
	} else {
		flags = type & EXTENT_STATUS_DELAYED ? EXT4_MAP_DELAYED : 0;
	}

	map->m_pblk = pblk;
	map->m_len = len;
	map->m_flags = flags;
	return true;
}

#ifdef CONFIG_FS_DAX
DECLARE_STATIC_KEY_TRUE(ext4_dax_fast_read);

ssize_t ext4_dax_read_user(struct inode *inode, loff_t pos, char __user *buf,
			   size_t count);
ssize_t ext4_dax_read_segments(struct kiocb *iocb, struct iov_iter *to);
ssize_t ext4_dax_overwrite(struct kiocb *iocb, struct iov_iter *from);

/**
 * ext4_dax_read_simple - the short way for a read
 * @iocb: the read; ki_pos advances by the bytes read
 * @to: destination, not empty; advances by the bytes read
 *
 * Context: process context, i_rwsem held shared, IS_DAX() checked under it. May
 * sleep, may fault in user memory.
 * Return: bytes read, 0 at the end of the file, a negative errno, or -ENOTBLK,
 * with nothing done, if the caller must use dax_iomap_rw().
 */
static __always_inline ssize_t ext4_dax_read_simple(struct kiocb *iocb,
						    struct iov_iter *to)
{
	ssize_t ret;

	if (!static_branch_likely(&ext4_dax_fast_read))
		return -ENOTBLK;
	if (unlikely(!iter_is_ubuf(to)))
		return ext4_dax_read_segments(iocb, to);

	ret = ext4_dax_read_user(file_inode(iocb->ki_filp), iocb->ki_pos,
				 to->ubuf + to->iov_offset, iov_iter_count(to));
	if (ret > 0) {
		iocb->ki_pos += ret;
		iov_iter_advance(to, ret);
	}
	return ret;
}
#endif /* CONFIG_FS_DAX */

#endif /* _EXT4_DAX_READ_H */
