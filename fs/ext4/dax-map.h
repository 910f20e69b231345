/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A written extent that a lookup for a DAX file has found.
 *
 * Most small reads of a DAX file fall into the same extent as the read before.
 * Finding and checking that extent (i_es_lock, the extent status tree, its
 * statistics, the system zone tree) costs more than the rest of such a read. So
 * each inode remembers one extent.
 */
#ifndef _EXT4_DAX_MAP_H
#define _EXT4_DAX_MAP_H

#include <linux/list.h>
#include <linux/types.h>
#include <linux/workqueue_types.h>

/**
 * struct ext4_dax_map - a written extent, remembered
 * @taken: how often written blocks may have been taken from their place in the
 *	file; ext4_dax_forget() changes it under i_es_lock
 * @as_of: @taken when the extent was found, read under the same i_es_lock
 * @pblk: its first physical block
 * @lblk: its first logical block
 * @len: blocks; 0 if no extent is remembered
 * @zone_gen: s_system_zone_gen before the extent was checked against the zones
 * @seq: odd while a task writes @as_of to @zone_gen; readers take no lock
 * @open: not 0 while readers may come without i_rwsem, see dax-unlocked.c
 *
 * Why this is safe. A mapping is used only under i_rwsem, or as dax-unlocked.c
 * describes, and only if @taken has not changed since the extent was found. A
 * task that takes written blocks from a place in the file takes three steps. It
 * takes i_rwsem exclusively. It changes the extent status tree and, with it,
 * @taken. Then it drops i_rwsem. So a reader either comes first, and the task
 * waits for the reader. Or the reader comes later, and i_rwsem makes the new
 * @taken visible to it. These tasks are
 *
 *	truncation, also after a write that failed; hole punching, collapse and
 *	insert range (ext4_punch_hole(), ext4_collapse_range(),
 *	ext4_insert_range(), ext4_ext_truncate(), ext4_ind_truncate()), and
 *	swap_inode_boot_loader(): all of them call ext4_es_remove_extent() for
 *	the whole range before the blocks are freed or used elsewhere
 *	zero range, which makes written extents unwritten: it calls
 *	ext4_es_insert_extent() for the unwritten extent
 *
 * i_es_seq changes with every change of the tree. @taken does not change when
 * ext4_es_insert_extent() inserts a written extent. A write, a page fault or
 * fallocate has filled a hole or an unwritten extent then, or a written extent
 * stays in place. Before a place in the file gets other blocks, it loses its
 * old ones. So a remembered extent outlasts appends and faults. @taken changes
 * even if the tree had no entry to remove, because the shrinker may have
 * dropped it. The shrinker itself drops an entry and no blocks, so @taken does
 * not change then. Holes and unwritten extents are not remembered. Setting S_DAX
 * empties the map, because the memory of the inode may come from an evicted
 * one.
 *
 * When the shrinker lets an entry of the tree live once more, it changes @taken
 * too. The next read then looks the extent up again, and so marks its entry as
 * referenced. Otherwise the shrinker would drop the entries of the busiest files
 * first.
 *
 * The validity check is not repeated for blocks that have passed it.
 * s_system_zone_gen makes the check run again after a remount with or without
 * block_validity.
 *
 * The map needs no extra room in struct ext4_inode_info. It overlays
 * i_rsv_conversion_list and i_rsv_conversion_work of other inodes. Only
 * writeback of the page cache uses these (ext4_add_complete_io()), and no DAX
 * inode needs it. S_DAX is set when an inode is created or read, before it
 * has pages, and lasts as long as the inode. ext4_dax_aops writes pages back
 * with dax_writeback_mapping_range(). ext4_alloc_inode() initializes the list
 * and the work for every inode, so no part of an old map remains. Only code
 * that handles IS_DAX() inodes may access the map.
 */
struct ext4_dax_map {
	u64 taken;
	u64 as_of;
	unsigned long long pblk;
	u32 lblk;
	u32 len;
	u32 zone_gen;
	u32 seq;
	u32 open;
};

#ifdef CONFIG_FS_DAX
/* A larger map would make every inode larger. There is no DAX on 32 bit. */
static_assert(sizeof(struct ext4_dax_map) <=
	      sizeof(struct list_head) + sizeof(struct work_struct));
#endif

#endif /* _EXT4_DAX_MAP_H */
