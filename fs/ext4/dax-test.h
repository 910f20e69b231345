/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers of the KUnit tests of the ext4 DAX read: a file system, lookups,
 * random layouts.
 */
#ifndef _EXT4_DAX_TEST_H
#define _EXT4_DAX_TEST_H

#include <linux/prandom.h>

#include "dax-read.h"
#include "ext4_extents.h"
#include "test-fs.h"

/* DAX needs blocks of the page size. */
#define DRT_BLKBITS		PAGE_SHIFT
/* Large enough that physical block numbers need their upper half. */
#define DRT_FS_BLOCKS		BIT_ULL(40)

#define DRT_WRITTEN		EXTENT_STATUS_WRITTEN
#define DRT_UNWRITTEN		EXTENT_STATUS_UNWRITTEN
#define DRT_DELAYED		EXTENT_STATUS_DELAYED
#define DRT_HOLE		EXTENT_STATUS_HOLE

struct drt_fs {
	struct test_fs;
	unsigned long zeroed;	/* by drt_issue_zeroout(), one bit per block */
};

struct drt_extent {
	ext4_lblk_t lblk;
	ext4_lblk_t len;
	ext4_fsblk_t pblk;
	unsigned int status;
};

static inline bool drt_has_blocks(const struct drt_extent *ex)
{
	return ex->status & (DRT_WRITTEN | DRT_UNWRITTEN);
}

#define DRT_MAX_BLOCK	EXT4_MAX_LOGICAL_BLOCK
#define DRT_POS(block)	((loff_t)(block) << 12)

/* dax-test.c */
int drt_fs_init(struct kunit *test, struct drt_fs *fs);
int drt_lookup_init(struct kunit *test);
void drt_to_cache(struct inode *inode, const struct drt_extent *ex);
void drt_to_disk(struct inode *inode, const struct drt_extent *ex);
void drt_scan(struct drt_fs *fs);
void drt_shrink(struct drt_fs *fs);

/* Replaces ext4_map_blocks(). Returns false if it cannot map the block. */
typedef bool (*drt_mapper)(struct inode *inode, struct ext4_map_blocks *map);

bool drt_cached(struct inode *inode, struct ext4_map_blocks *map);
bool drt_recall(struct inode *inode, struct ext4_map_blocks *map);
bool drt_ask_locked(struct kunit *test, drt_mapper mapper, struct inode *inode,
		    ext4_lblk_t lblk, unsigned int len,
		    struct ext4_map_blocks *map);
bool drt_ask(struct kunit *test, drt_mapper mapper, struct inode *inode,
	     ext4_lblk_t lblk, unsigned int len, struct ext4_map_blocks *map);
int drt_map_blocks(struct inode *inode, ext4_lblk_t lblk, unsigned int len,
		   struct ext4_map_blocks *map);
void drt_expect_same(struct kunit *test, const struct ext4_map_blocks *got,
		     const struct ext4_map_blocks *want, int ret);

/* dax-random-test.c */
#define DRT_EXTENTS	24

struct drt_layout {
	struct drt_extent ex[DRT_EXTENTS];
	unsigned int nr;
	ext4_lblk_t end;	/* of the last extent; a hole follows */
	bool on_disk;		/* in the inode too, so entries may go */
};

/* Parameters of a random layout. */
struct drt_recipe {
	ext4_fsblk_t first;	/* first physical block ... */
	ext4_fsblk_t last;	/* ... and last one, unless invalid */
	ext4_lblk_t max_len;
	bool delayed;
};

u64 drt_seed(struct kunit *test);
u64 drt_below(struct rnd_state *rnd, u64 n);
void drt_random_layout(struct rnd_state *rnd, struct inode *inode,
		       const struct drt_recipe *recipe, struct drt_layout *lay);
void drt_apply_layout(struct rnd_state *rnd, struct inode *inode,
		      const struct drt_layout *lay);
void drt_disturb(struct rnd_state *rnd, struct drt_fs *fs,
		 const struct drt_layout *lay);
const struct drt_extent *drt_extent_at(const struct drt_layout *lay,
				       ext4_lblk_t lblk);

#endif /* _EXT4_DAX_TEST_H */
