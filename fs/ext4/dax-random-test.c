// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of the ext4 DAX read: lookups while blocks are zeroed, and random
 * layouts. dax-read-test.c describes the tests.
 */
#include <kunit/static_stub.h>
#include <linux/moduleparam.h>

#include "dax-test.h"

static unsigned long long dax_read_seed = 20210107;
module_param(dax_read_seed, ullong, 0444);
MODULE_PARM_DESC(dax_read_seed,
		 "Seed of the random DAX read layouts (0: a new one each time)");

/* ---- unwritten blocks that become zeroed written ones ---- */

struct drt_zeroing {
	const char *desc;
	ext4_lblk_t lblk;	/* requested blocks of drt_to_zero ... */
	unsigned int len;
	int split_err;		/* ... and error of the split of its extent */
	unsigned int zeroout_kb;
	unsigned int more;	/* more blocks written instead of a split */
};

#define DRT_KB	(1U << (DRT_BLKBITS - 10))	/* size of a block */

static const struct drt_extent drt_to_zero = { 8, 8, 1000, DRT_UNWRITTEN };

static const struct drt_zeroing drt_zeroings[] = {
	{ "first block", 8, 1 },
	{ "middle", 10, 3 },
	{ "last block", 15, 1 },
	{ "all of it", 8, 8 },
	{ "beyond its end", 12, 8 },
	{ "no space, first block", 8, 1, -ENOSPC, 0, 7 },
	{ "no space, middle", 10, 3, -ENOSPC, 0, 5 },
	{ "no space, last block", 15, 1, -ENOSPC, 0, 7 },
	{ "no quota, first block", 8, 1, -EDQUOT, 0, 7 },
	{ "no quota, middle", 10, 3, -EDQUOT, 0, 5 },
	{ "no quota, last block", 15, 1, -EDQUOT, 0, 7 },
	{ "no memory, first block", 8, 1, -ENOMEM, 0, 7 },
	{ "no memory, middle", 10, 3, -ENOMEM, 0, 5 },
	{ "no memory, last block", 15, 1, -ENOMEM, 0, 7 },
	/* The remaining parts are too small to be split off. */
	{ "blocks after it zeroed", 8, 3, 0, 8 * DRT_KB, 5 },
	{ "block before it zeroed", 9, 1, 0, 4 * DRT_KB, 1 },
	{ "blocks around it zeroed", 10, 3, 0, 9 * DRT_KB, 5 },
	{ "blocks after it zeroed, no space", 10, 3, -ENOSPC, 6 * DRT_KB, 5 },
	{ "block before it zeroed, no space", 9, 1, -ENOSPC, 4 * DRT_KB, 7 },
};

KUNIT_ARRAY_PARAM_DESC(drt_zeroing, drt_zeroings, desc);

/*
 * Check that no block is found as written before it is zeroed: a reader would
 * return old data. The caller holds i_rwsem. It ranks above i_data_sem, which
 * is held while blocks are zeroed.
 */
static void drt_expect_unwritten(struct kunit *test, struct drt_fs *fs,
				 drt_mapper mapper, const char *when)
{
	struct ext4_map_blocks map;
	unsigned int i;

	for (i = 0; i < drt_to_zero.len; i++) {
		if (fs->zeroed & BIT(i))
			continue;
		if (drt_ask_locked(test, mapper, &fs->ei.vfs_inode,
				   drt_to_zero.lblk + i, 1, &map))
			KUNIT_EXPECT_EQ_MSG(test, map.m_flags, EXT4_MAP_UNWRITTEN,
					    "block %u is not zeroed, %s",
					    drt_to_zero.lblk + i, when);
	}
}

static int drt_issue_zeroout(struct inode *inode, ext4_lblk_t lblk,
			     ext4_fsblk_t pblk, ext4_lblk_t len)
{
	struct kunit *test = kunit_get_current_test();
	struct drt_fs *fs = test->priv;
	unsigned int first = lblk - drt_to_zero.lblk;

	KUNIT_ASSERT_LE(test, first + len, drt_to_zero.len);
	KUNIT_EXPECT_EQ(test, pblk, drt_to_zero.pblk + first);
	drt_expect_unwritten(test, fs, drt_cached, "looked up");
	drt_expect_unwritten(test, fs, drt_recall, "remembered");
	fs->zeroed |= GENMASK(first + len - 1, first);
	return 0;
}

/* There is no journal, and the inode is not on a device. */
static int drt_ext_dirty(const char *where, unsigned int line,
			 handle_t *handle, struct inode *inode,
			 struct ext4_ext_path *path)
{
	return 0;
}

static struct ext4_ext_path *
drt_insert_extent(handle_t *handle, struct inode *inode,
		  struct ext4_ext_path *path, struct ext4_extent *newext,
		  int flags)
{
	const struct drt_zeroing *p = kunit_get_current_test()->param_value;

	ext4_free_ext_path(path);
	return ERR_PTR(p->split_err);
}

static int drt_create_zeroed(struct inode *inode, ext4_lblk_t lblk,
			     unsigned int len)
{
	struct ext4_map_blocks map = { .m_lblk = lblk, .m_len = len };
	int ret;

	/* As in a page fault, which does not exclude readers of the file. */
	filemap_invalidate_lock_shared(inode->i_mapping);
	ret = ext4_map_blocks(NULL, inode, &map, EXT4_GET_BLOCKS_CREATE_ZERO);
	filemap_invalidate_unlock_shared(inode->i_mapping);
	return ret;
}

static void drt_test_zeroed(struct kunit *test)
{
	const struct drt_zeroing *p = test->param_value;
	const ext4_lblk_t end = drt_to_zero.lblk + drt_to_zero.len;
	unsigned int len = min(p->len, end - p->lblk), written = 0, i;
	struct drt_fs *fs = test->priv;
	struct inode *inode = &fs->ei.vfs_inode;
	struct ext4_map_blocks map;
	int created;

	kunit_activate_static_stub(test, ext4_issue_zeroout,
				   drt_issue_zeroout);
	kunit_activate_static_stub(test, __ext4_ext_dirty, drt_ext_dirty);
	if (p->split_err)
		kunit_activate_static_stub(test, ext4_ext_insert_extent,
					   drt_insert_extent);
	fs->sbi.s_extent_max_zeroout_kb = p->zeroout_kb;
	fs->ei.i_disksize = (loff_t)end << DRT_BLKBITS;
	drt_to_disk(inode, &drt_to_zero);
	drt_to_cache(inode, &drt_to_zero);

	inode_lock_shared(inode);
	created = drt_create_zeroed(inode, p->lblk, p->len);
	drt_expect_unwritten(test, fs, drt_cached, "at the end");
	inode_unlock_shared(inode);
	KUNIT_ASSERT_EQ(test, (int)len, created);

	for (i = 0; i < drt_to_zero.len; i++) {
		KUNIT_ASSERT_EQ(test, 1, drt_map_blocks(inode, drt_to_zero.lblk + i,
							1, &map));
		KUNIT_EXPECT_EQ(test, map.m_pblk, drt_to_zero.pblk + i);
		if (map.m_flags & EXT4_MAP_MAPPED) {
			written++;
			KUNIT_EXPECT_TRUE(test, fs->zeroed & BIT(i));
		}
	}
	KUNIT_EXPECT_EQ(test, written, len + p->more);
}

/* ---- random layouts ---- */

#define DRT_LAYOUTS	4000
#define DRT_LOOKUPS	16
u64 drt_seed(struct kunit *test)
{
	u64 seed = dax_read_seed ?: get_random_u64();

	kunit_info(test, "ext4_test.dax_read_seed=%llu\n", seed);
	return seed;
}

/* Returns a number from 0 to @n - 1. */
u64 drt_below(struct rnd_state *rnd, u64 n)
{
	u64 val = prandom_u32_state(rnd);

	val = val << 32 | prandom_u32_state(rnd);
	return val - div64_u64(val, n) * n;
}

static ext4_fsblk_t drt_random_pblk(struct rnd_state *rnd,
				    const struct drt_recipe *recipe,
				    const struct drt_extent *ex)
{
	switch (drt_below(rnd, 16)) {
	case 0:		/* at the end of the device, or past it */
		return DRT_FS_BLOCKS - drt_below(rnd, ex->len + 2);
	case 1:		/* around the system zones */
		return drt_below(rnd, TEST_FS_ZONES_END + 4);
	case 2 ... 5:	/* next to the extent before, to be merged with it */
		if (ex->lblk && drt_has_blocks(ex - 1))
			return ex[-1].pblk + ex[-1].len;
		fallthrough;
	default:
		return recipe->first + drt_below(rnd, recipe->last + 2 -
						 recipe->first - ex->len);
	}
}

static unsigned int drt_random_status(struct rnd_state *rnd,
				      const struct drt_recipe *recipe,
				      bool no_blocks)
{
	static const unsigned int statuses[] = {
		DRT_HOLE, DRT_HOLE, DRT_DELAYED,
		DRT_UNWRITTEN, DRT_UNWRITTEN,
		DRT_WRITTEN, DRT_WRITTEN, DRT_WRITTEN,
	};
	unsigned int status;

	status = statuses[drt_below(rnd, no_blocks ? 3 : ARRAY_SIZE(statuses))];
	return status == DRT_DELAYED && !recipe->delayed ? DRT_HOLE : status;
}

static unsigned int drt_max_on_disk(struct inode *inode)
{
	return le16_to_cpu(ext_inode_hdr(inode)->eh_max);
}

void drt_random_layout(struct rnd_state *rnd, struct inode *inode,
		       const struct drt_recipe *recipe, struct drt_layout *lay)
{
	unsigned int on_disk = 0;

	lay->nr = 1 + drt_below(rnd, DRT_EXTENTS);
	lay->end = 0;
	lay->on_disk = drt_below(rnd, 2);

	for (int i = 0; i < lay->nr; i++) {
		struct drt_extent *ex = &lay->ex[i];

		ex->lblk = lay->end;
		ex->len = 1 + drt_below(rnd, recipe->max_len);
		ex->pblk = 0;
		ex->status = drt_random_status(rnd, recipe, lay->on_disk &&
					       on_disk == drt_max_on_disk(inode));
		if (drt_has_blocks(ex)) {
			ex->pblk = drt_random_pblk(rnd, recipe, ex);
			on_disk++;
		}
		lay->end += ex->len;
	}
}

/* Drops a part of an entry. The shrinker drops only whole entries. */
static void drt_reclaim_some(struct rnd_state *rnd, struct inode *inode,
			     const struct drt_extent *ex)
{
	ext4_lblk_t from = drt_below(rnd, ex->len);

	if (ex->status != DRT_DELAYED && drt_below(rnd, 2))
		ext4_es_remove_extent(inode, ex->lblk + from,
				      1 + drt_below(rnd, ex->len - from));
}

/* Drop entries between two lookups, if the extents are in the inode. */
void drt_disturb(struct rnd_state *rnd, struct drt_fs *fs,
		 const struct drt_layout *lay)
{
	if (!lay->on_disk)
		return;
	switch (drt_below(rnd, 16)) {
	case 0:
		drt_shrink(fs);
		break;
	case 1:
		drt_reclaim_some(rnd, &fs->ei.vfs_inode,
				 &lay->ex[drt_below(rnd, lay->nr)]);
		break;
	}
}

void drt_apply_layout(struct rnd_state *rnd, struct inode *inode,
		      const struct drt_layout *lay)
{
	const struct drt_extent tail = {
		lay->end, EXT_MAX_BLOCKS - lay->end, 0, DRT_HOLE
	};

	ext4_es_remove_extent(inode, 0, EXT_MAX_BLOCKS);
	ext_inode_hdr(inode)->eh_entries = 0;
	for (int i = 0; i < lay->nr; i++) {
		const struct drt_extent *ex = &lay->ex[i];

		drt_to_cache(inode, ex);
		if (!lay->on_disk)
			continue;
		if (drt_has_blocks(ex))
			drt_to_disk(inode, ex);
		drt_reclaim_some(rnd, inode, ex);
	}
	if (!lay->on_disk)
		drt_to_cache(inode, &tail);
}

const struct drt_extent *
drt_extent_at(const struct drt_layout *lay, ext4_lblk_t lblk)
{
	for (int i = 0; i < lay->nr; i++)
		if (lblk - lay->ex[i].lblk < lay->ex[i].len)
			return &lay->ex[i];
	return NULL;
}

static unsigned int drt_map_flags(const struct drt_extent *ex)
{
	if (ex->status & DRT_WRITTEN)
		return EXT4_MAP_MAPPED;
	if (ex->status & DRT_UNWRITTEN)
		return EXT4_MAP_UNWRITTEN;
	return ex->status & DRT_DELAYED ? EXT4_MAP_DELAYED : 0;
}

/* Check that every block of @map matches the layout. */
static void drt_expect_layout(struct kunit *test, const struct drt_layout *lay,
			      const struct ext4_map_blocks *map)
{
	const struct drt_extent *ex;
	unsigned int done, skip;

	KUNIT_ASSERT_GT(test, map->m_len, 0);
	for (done = 0; done < map->m_len; done += ex->len - skip) {
		ex = drt_extent_at(lay, map->m_lblk + done);
		if (!ex) {
			KUNIT_EXPECT_EQ(test, map->m_flags, 0);
			return;
		}
		skip = map->m_lblk + done - ex->lblk;
		KUNIT_EXPECT_EQ(test, map->m_flags, drt_map_flags(ex));
		if (drt_has_blocks(ex))
			KUNIT_EXPECT_EQ(test, map->m_pblk + done,
					ex->pblk + skip);
	}
}

struct drt_tally {
	unsigned int found;
	unsigned int recalled;
	unsigned int no_entry;
	unsigned int invalid;
};

static void drt_check_lookup(struct kunit *test, struct inode *inode,
			     const struct drt_layout *lay, ext4_lblk_t lblk,
			     unsigned int len, struct drt_tally *tally)
{
	struct ext4_map_blocks recalled, got, want;
	struct extent_status es;
	bool found, entry;
	int ret;

	if (drt_ask(test, drt_recall, inode, lblk, len, &recalled)) {
		drt_expect_layout(test, lay, &recalled);
		tally->recalled++;
	}
	entry = ext4_es_lookup_extent(inode, lblk, NULL, &es, NULL);
	found = drt_ask(test, drt_cached, inode, lblk, len, &got);
	ret = drt_map_blocks(inode, lblk, len, &want);

	if (found) {
		drt_expect_same(test, &got, &want, ret);
		drt_expect_layout(test, lay, &got);
		tally->found++;
	} else if (ret == -EFSCORRUPTED) {
		tally->invalid++;
	} else {
		/* ext4_map_blocks() succeeded, so there was no entry. */
		KUNIT_EXPECT_GE(test, ret, 0);
		KUNIT_EXPECT_FALSE(test, entry);
		drt_expect_layout(test, lay, &want);
		tally->no_entry++;
	}
}

static unsigned int drt_random_len(struct rnd_state *rnd)
{
	/* The last value is the most blocks of 1 KiB that one read covers. */
	static const unsigned int max_len[] = { 1, 8, 64, 0x200001 };

	return 1 + drt_below(rnd, max_len[drt_below(rnd, 4)]);
}

static void drt_test_lookup_random(struct kunit *test)
{
	static const struct drt_recipe recipe = {
		.first = TEST_FS_ZONES_END,
		.last = DRT_FS_BLOCKS - 1,
		.max_len = 40,
		.delayed = true,
	};
	struct drt_fs *fs = test->priv;
	struct inode *inode = &fs->ei.vfs_inode;
	struct drt_tally tally = {};
	struct drt_layout *lay;
	struct rnd_state rnd;

	lay = kunit_kzalloc(test, sizeof(*lay), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, lay);
	prandom_seed_state(&rnd, drt_seed(test));

	for (int i = 0; i < DRT_LAYOUTS; i++) {
		drt_random_layout(&rnd, inode, &recipe, lay);
		drt_apply_layout(&rnd, inode, lay);
		for (int j = 0; j < DRT_LOOKUPS; j++) {
			ext4_lblk_t lblk = drt_below(&rnd, lay->end + 2);
			unsigned int len = drt_random_len(&rnd);

			drt_disturb(&rnd, fs, lay);
			drt_check_lookup(test, inode, lay, lblk, len, &tally);
			if (READ_ONCE(test->status) == KUNIT_FAILURE)
				KUNIT_FAIL_AND_ABORT(test, "layout %d, lookup %d: block %u, len %u",
						     i, j, lblk, len);
		}
		cond_resched();
	}

	kunit_info(test, "%u found, %u recalled, %u without an entry, %u invalid\n",
		   tally.found, tally.recalled, tally.no_entry, tally.invalid);
	/* Check that the generator still makes layouts of all kinds. */
	KUNIT_EXPECT_GT(test, tally.found, DRT_LAYOUTS);
	if (IS_ENABLED(CONFIG_FS_DAX))
		KUNIT_EXPECT_GT(test, tally.recalled, DRT_LAYOUTS / 4);
	KUNIT_EXPECT_GT(test, tally.no_entry, DRT_LAYOUTS / 4);
	KUNIT_EXPECT_GT(test, tally.invalid, DRT_LAYOUTS / 8);
}

static struct kunit_case drt_random_cases[] = {
	KUNIT_CASE_PARAM(drt_test_zeroed, drt_zeroing_gen_params),
	KUNIT_CASE(drt_test_lookup_random),
	{}
};

static struct kunit_suite drt_random_suite = {
	.name = "ext4_dax_read_random",
	.init = drt_lookup_init,
	.test_cases = drt_random_cases,
};

kunit_test_suite(drt_random_suite);
