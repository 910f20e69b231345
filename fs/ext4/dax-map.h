/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A written extent that reads of a DAX file have found.
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
 * @taken: how often written blocks may have been taken from their place in the
 *	file; changed under i_es_lock, by ext4_dax_forget()
 * @as_of: @taken under the i_es_lock that the extent was found under
 * @pblk: its first physical block
 * @lblk: its first logical block
 * @len: blocks; 0 when nothing is remembered
 * @zone_gen: s_system_zone_gen before the extent was checked against the zones
 * @seq: odd while a task writes @as_of to @zone_gen; readers take no lock
 * @last: first logical block of the extent that the last lookup found
 * @open: not 0 while readers may come without i_rwsem, see dax-unlocked.c
 *
 * Why it is safe. A mapping is used only under i_rwsem, or as dax-unlocked.c says,
 * and only while @taken is what it was when the mapping was found. A task that
 * takes written blocks from a place in the file does so in three steps: it holds
 * i_rwsem exclusively, it changes the extent status tree and with it @taken, and
 * then it drops i_rwsem.
 * So a reader either comes first, and that task waits for it, or comes later and
 * sees the new @taken, ordered by i_rwsem. These are
 *
 *	truncate, also after a write that failed; hole punching, collapse and
 *	insert range (ext4_punch_hole(), ext4_collapse_range(),
 *	ext4_insert_range(), ext4_ext_truncate(), ext4_ind_truncate()), and
 *	ext4_swap_extents() and swap_inode_data(): all by ext4_es_remove_extent()
 *	for the whole range, before the blocks are freed or used elsewhere
 *	zero range, which makes written extents unwritten: by
 *	ext4_es_insert_extent() of the unwritten extent
 *
 * i_es_seq changes whenever the tree does. @taken does not when
 * ext4_es_insert_extent() inserts a written extent: it is a hole or an unwritten
 * extent that a write, a page fault or fallocate has filled, or a written one
 * that stays where it is. A place in the file that gets other blocks loses those
 * it has first. So what is remembered outlasts appends and faults. That the tree
 * had an entry to remove does not matter: the shrinker may have dropped it. The
 * shrinker drops entries and not blocks, and leaves @taken as it is. Neither
 * holes nor unwritten extents are remembered. An inode that takes the memory of
 * an evicted one is given an empty map when S_DAX is set.
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
	u64 taken;
	u64 as_of;
	unsigned long long pblk;
	u32 lblk;
	u32 len;
	u32 zone_gen;
	u32 seq;
	u32 last;
	u32 open;
};

#ifdef CONFIG_FS_DAX
/* Else it would make every inode larger. There is no DAX with 32 bit. */
static_assert(sizeof(struct ext4_dax_map) <=
	      sizeof(struct list_head) + sizeof(struct work_struct));
#endif

#endif /* _EXT4_DAX_MAP_H */
