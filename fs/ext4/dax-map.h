/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The written extent that the last read of a DAX file found.
 *
 * Most small reads of a DAX file fall into the extent of the read before. What
 * finding and checking that extent costs (i_es_lock, the extent status tree,
 * its statistics, the system zone tree) is more than all else of such a read,
 * so each inode remembers one.
 */
#ifndef _EXT4_DAX_MAP_H
#define _EXT4_DAX_MAP_H

#include <linux/types.h>

/**
 * struct ext4_dax_map - a written extent, remembered
 * @es_seq: i_es_seq under the i_es_lock that the extent was found under
 * @pblk: its first physical block
 * @lblk: its first logical block
 * @len: blocks; 0 when nothing is remembered
 * @zone_gen: s_system_zone_gen before the extent was checked against the zones
 * @seq: odd while a task writes; readers of the struct take no lock
 *
 * Why it is safe. A mapping is used only under i_rwsem and only while i_es_seq
 * is what it was when the mapping was found. A task that takes written blocks
 * from a place in the file (truncate, punch, collapse, insert, zero range, the
 * extent swaps of defragmentation and boot loader inodes) holds i_rwsem
 * exclusively and changes the extent status tree, which increments i_es_seq,
 * before it drops i_rwsem. So a reader either comes first, and that task waits
 * for it, or comes later and sees the increment, ordered by i_rwsem. The rest
 * cannot harm: page faults and fallocate turn holes and unwritten extents
 * into written ones, but neither is remembered; the shrinker drops entries of
 * the tree and not blocks, and leaves i_es_seq as it is; eviction ends in
 * ext4_alloc_inode(), which forgets.
 *
 * The validity check is not repeated for blocks that have passed it. It is made
 * again after a remount with block_validity or without: s_system_zone_gen.
 */
struct ext4_dax_map {
	u64 es_seq;
	unsigned long long pblk;
	u32 lblk;
	u32 len;
	u32 zone_gen;
	u32 seq;
};

#endif /* _EXT4_DAX_MAP_H */
