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

#include <linux/list.h>
#include <linux/types.h>
#include <linux/workqueue_types.h>

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
 * the tree and not blocks, and leaves i_es_seq as it is; an inode that takes the
 * memory of an evicted one is given an empty map when S_DAX is set.
 *
 * The validity check is not repeated for blocks that have passed it. It is made
 * again after a remount with block_validity or without: s_system_zone_gen.
 *
 * It takes no room of its own in struct ext4_inode_info: it lies where other
 * inodes have i_rsv_conversion_list and i_rsv_conversion_work. These serve the
 * writeback of the page cache alone (ext4_add_complete_io()), which DAX inodes
 * do without: S_DAX is set while an inode is made or read, before it has pages,
 * and lasts as long as the inode does, and ext4_dax_aops writes pages back with
 * dax_writeback_mapping_range(). ext4_alloc_inode() initializes the list and the
 * work for every inode, so nothing of a map is left for the next one. Only
 * holders of IS_DAX() inodes may touch the map.
 */
struct ext4_dax_map {
	u64 es_seq;
	unsigned long long pblk;
	u32 lblk;
	u32 len;
	u32 zone_gen;
	u32 seq;
};

#ifdef CONFIG_FS_DAX
/* Else it would make every inode larger. There is no DAX with 32 bit. */
static_assert(sizeof(struct ext4_dax_map) <=
	      sizeof(struct list_head) + sizeof(struct work_struct));
#endif

#endif /* _EXT4_DAX_MAP_H */
