// SPDX-License-Identifier: GPL-2.0
/*
 * Readers of a DAX file race with moves of its blocks and with changes of the
 * filesystem.
 *
 * Extents are converted, swapped with those of another file, or stored in
 * another form. A file is replaced, or its DAX flag changes. The filesystem
 * grows, is frozen, remounted or shut down.
 */

#include <linux/ext4.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>

#include "race_fixture.h"

FIXTURE(read_moves)
{
	struct race t;
};

FIXTURE_VARIANT(read_moves)
{
	enum dax_path_kind kind;
	struct dax_setup setup;
};

FIXTURE_VARIANT_ADD(read_moves, generic)
{
	DAX_GENERIC, { .blocks = FS_BLOCKS },
};

FIXTURE_VARIANT_ADD(read_moves, fast)
{
	DAX_FAST, { .blocks = FS_BLOCKS },
};

FIXTURE_VARIANT_ADD(read_moves, fast_nojournal)
{
	DAX_FAST, { .mkfs = "-O ^has_journal", .blocks = FS_BLOCKS },
};

FIXTURE_SETUP(read_moves)
{
	race_begin(_metadata, &self->t, variant->kind, &variant->setup);
}

FIXTURE_TEARDOWN(read_moves)
{
	race_end(_metadata, &self->t);
}

static int punch_all(struct race *t)
{
	return fallocate(t->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
			 FILE_BLOCKS * t->bs);
}

/* Writes tags at @pos. @pos and @len are multiples of the size of a tag. */
static int write_tags(struct race *t, loff_t pos, size_t len, __u32 gen)
{
	__u32 i;

	for (i = 0; i < FILE_BLOCKS; i++)
		tag_block(t->block + i * t->bs, t->bs, OURS, i, gen);
	return dax_write_all(t->fd, t->block + pos, len, pos);
}

/* Unwritten blocks become written blocks. */
TEST_F(read_moves, unwritten_then_written)
{
	struct race *t = &self->t;
	const struct rules rules = { .zeroes = true, .all_or_none = true,
				     .one_gen = true };
	unsigned int gen, rounds = 60 * dax_scale();

	start_readers(_metadata, t, rules);
	for (gen = 1; gen <= rounds; gen++) {
		ASSERT_EQ(0, punch_all(t));
		ASSERT_EQ(0, fallocate(t->fd, 0, 0, FILE_BLOCKS * t->bs));
		ASSERT_EQ(0, write_file(t, t->fd, OURS, 0, FILE_BLOCKS,
					gen));
		wait_for_reads(t, 1);
	}
	stop_readers(_metadata, t);
}

/* Single writes split an unwritten extent. The parts merge again. */
TEST_F(read_moves, unwritten_block_by_block)
{
	struct race *t = &self->t;
	const struct rules rules = { .zeroes = true };
	unsigned int gen, rounds = 30 * dax_scale();
	__u32 i;

	start_readers(_metadata, t, rules);
	for (gen = 1; gen <= rounds; gen++) {
		ASSERT_EQ(0, fallocate(t->fd, FALLOC_FL_ZERO_RANGE, 0,
				       FILE_BLOCKS * t->bs));
		/* 5 and FILE_BLOCKS are coprime. */
		for (i = 0; i < FILE_BLOCKS; i++)
			ASSERT_EQ(0, write_file(t, t->fd, OURS,
						i * 5 % FILE_BLOCKS, 1, gen));
		wait_for_reads(t, 1);
	}
	stop_readers(_metadata, t);
}

/* EOF moves inside blocks. Readers never see zeroes. */
TEST_F(read_moves, shrink_and_append)
{
	struct race *t = &self->t;
	const struct rules rules = {};
	unsigned int gen, rounds = 100 * dax_scale();
	size_t size = FILE_BLOCKS * t->bs, end, more;

	start_readers(_metadata, t, rules);
	for (gen = 1; gen <= rounds; gen++) {
		end = dax_rnd_below(&t->rnd, size / sizeof(struct tag)) *
			sizeof(struct tag);
		ASSERT_EQ(0, ftruncate(t->fd, end));
		more = (size - end) / 2 & ~(sizeof(struct tag) - 1);
		ASSERT_EQ(0, write_tags(t, end, more, gen));
		ASSERT_EQ(0, write_tags(t, end + more, size - end - more,
					gen));
		wait_for_reads(t, 1);
	}
	stop_readers(_metadata, t);
}

/* The whole file is swapped, including its size. */
TEST_F(read_moves, swap_with_boot_loader)
{
	struct race *t = &self->t;
	const struct rules rules = { .one_gen = true };
	unsigned int gen, rounds = 60 * dax_scale();

	start_readers(_metadata, t, rules);
	for (gen = 1; gen <= rounds; gen++) {
		ASSERT_EQ(0, ioctl(t->fd, EXT4_IOC_SWAP_BOOT));
		/* The boot loader inode is empty at first. */
		if (gen % 3 == 1)
			ASSERT_EQ(0, write_file(t, t->fd, OURS, 0,
						FILE_BLOCKS, gen));
		wait_for_reads(t, 1);
	}
	stop_readers(_metadata, t);
}

/* A mapping shows the current blocks of its file. */
TEST_F(read_moves, mapping_follows_a_swap)
{
	struct race *t = &self->t;
	char *page = dax_alloc(_metadata, t->bs), *map;

	if (dax_skips_bug(_metadata))
		return;
	map = mmap(NULL, t->bs, PROT_READ, MAP_SHARED, t->fd, 0);
	ASSERT_NE(MAP_FAILED, map);
	ASSERT_EQ(t->bs, pread(t->fd, page, t->bs, 0));
	ASSERT_EQ(0, memcmp(page, map, t->bs));
	ASSERT_EQ(0, ioctl(t->fd, EXT4_IOC_SWAP_BOOT));
	ASSERT_EQ(0, write_file(t, t->fd, OURS, 0, FILE_BLOCKS, 1));
	ASSERT_EQ(t->bs, pread(t->fd, page, t->bs, 0));
	EXPECT_EQ(0, memcmp(page, map, t->bs));
	munmap(map, t->bs);
}

/* Defragmentation of DAX files fails, so nothing races with it. */
TEST_F(read_moves, defragmentation_is_refused)
{
	struct race *t = &self->t;
	struct move_extent move = { .len = FILE_BLOCKS };
	int other;

	other = dax_open(&t->test.fs, "other", O_RDWR | O_CREAT);
	ASSERT_GE(other, 0);
	ASSERT_EQ(0, write_file(t, other, OTHER, 0, FILE_BLOCKS, 0));
	move.donor_fd = other;
	EXPECT_EQ(-1, ioctl(t->fd, EXT4_IOC_MOVE_EXT, &move));
	EXPECT_EQ(EOPNOTSUPP, errno);
	close(other);
}

/* The same blocks are mapped by an extent or by single pointers. */
TEST_F(read_moves, extents_to_pointers)
{
	struct race *t = &self->t;
	/* Pointers that fit into the inode; more are not converted back. */
	enum { BLOCKS = 12 };
	const struct rules rules = { .one_gen = true };
	unsigned int i, rounds = 60 * dax_scale();
	long flags;

	ASSERT_EQ(0, ftruncate(t->fd, BLOCKS * t->bs));
	ASSERT_EQ(0, fsync(t->fd));
	ASSERT_EQ(1, dax_count_extents(t->fd));
	start_readers(_metadata, t, rules);
	for (i = 0; i < rounds; i++) {
		ASSERT_EQ(0, ioctl(t->fd, FS_IOC_GETFLAGS, &flags));
		flags ^= FS_EXTENT_FL;
		ASSERT_EQ(0, ioctl(t->fd, FS_IOC_SETFLAGS, &flags));
		wait_for_reads(t, 1);
	}
	stop_readers(_metadata, t);
}

/* Readers of an unlinked file see its data, whatever others write. */
TEST_F(read_moves, unlinked_while_others_write)
{
	struct race *t = &self->t;
	const struct rules rules = { .one_gen = true };
	unsigned int gen, rounds = 60 * dax_scale();
	char path[256];
	int other;

	dax_path(&t->test.fs, "file", path, sizeof(path));
	ASSERT_EQ(0, unlink(path));
	start_readers(_metadata, t, rules);
	for (gen = 1; gen <= rounds; gen++) {
		other = dax_open(&t->test.fs, "other", O_RDWR | O_CREAT);
		ASSERT_GE(other, 0);
		ASSERT_EQ(0, write_file(t, other, OTHER, 0, FILE_BLOCKS,
					gen));
		close(other);
		dax_path(&t->test.fs, "other", path, sizeof(path));
		ASSERT_EQ(0, unlink(path));
		if (gen % 8 == 0)
			ASSERT_EQ(0, dax_drop_caches());
		wait_for_reads(t, 1);
	}
	stop_readers(_metadata, t);
}

/* An open by name gets the old file or the new one. Inodes are reused. */
TEST_F(read_moves, replaced_by_rename)
{
	struct race *t = &self->t;
	const struct rules rules = { .one_gen = true, .by_name = true };
	unsigned int gen, rounds = 60 * dax_scale();
	char from[256], to[256];
	int fd;

	dax_path(&t->test.fs, "new", from, sizeof(from));
	dax_path(&t->test.fs, "file", to, sizeof(to));
	start_readers(_metadata, t, rules);
	for (gen = 1; gen <= rounds; gen++) {
		fd = dax_open(&t->test.fs, "new", O_RDWR | O_CREAT);
		ASSERT_GE(fd, 0);
		ASSERT_EQ(0, write_file(t, fd, OURS, 0, FILE_BLOCKS, gen));
		close(fd);
		ASSERT_EQ(0, rename(from, to));
		wait_for_reads(t, 1);
	}
	stop_readers(_metadata, t);
}

/* Cached extents are dropped, read again, and validated again. */
TEST_F(read_moves, forgotten_and_checked_anew)
{
	struct race *t = &self->t;
	const struct rules rules = {};
	unsigned int gen, rounds = 40 * dax_scale();
	__u32 first, n;

	start_readers(_metadata, t, rules);
	for (gen = 1; gen <= rounds; gen++) {
		ASSERT_EQ(0, mount(NULL, t->test.fs.dir, NULL, MS_REMOUNT,
				   gen & 1 ? "dax=always,noblock_validity" :
					     "dax=always,block_validity"));
		first = dax_rnd_below(&t->rnd, FILE_BLOCKS - 1);
		n = 1 + dax_rnd_below(&t->rnd, FILE_BLOCKS - first);
		ASSERT_EQ(0, write_file(t, t->fd, OURS, first, n, gen));
		ASSERT_EQ(0, ioctl(t->fd, EXT4_IOC_CLEAR_ES_CACHE));
		wait_for_reads(t, 1);
		if (gen % 2)
			ASSERT_EQ(0, ioctl(t->fd, EXT4_IOC_PRECACHE_EXTENTS));
	}
	stop_readers(_metadata, t);
}

/* A mounted filesystem can only grow. */
TEST_F(read_moves, filesystem_grows)
{
	struct race *t = &self->t;
	const struct rules rules = { .one_gen = true };
	unsigned int gen, rounds = 20 * dax_scale();
	__u64 blocks = FS_BLOCKS;

	start_readers(_metadata, t, rules);
	for (gen = 1; gen <= rounds; gen++) {
		blocks += 0x100000 / dax_bs();
		ASSERT_EQ(0, ioctl(t->fd, EXT4_IOC_RESIZE_FS, &blocks));
		ASSERT_EQ(0, write_file(t, t->fd, OURS, 0, FILE_BLOCKS,
					gen));
		wait_for_reads(t, 1);
	}
	stop_readers(_metadata, t);
}

/* Readers continue while the filesystem is frozen. */
TEST_F(read_moves, frozen)
{
	struct race *t = &self->t;
	const struct rules rules = { .one_gen = true };
	unsigned int gen, rounds = 20 * dax_scale();

	start_readers(_metadata, t, rules);
	for (gen = 1; gen <= rounds; gen++) {
		ASSERT_EQ(0, write_file(t, t->fd, OURS, 0, FILE_BLOCKS,
					gen));
		ASSERT_EQ(0, ioctl(t->fd, FIFREEZE, 0));
		wait_for_reads(t, 20);
		ASSERT_EQ(0, ioctl(t->fd, FITHAW, 0));
	}
	stop_readers(_metadata, t);
}

/* Reads return data or EIO after a shutdown, and soon only EIO. */
TEST_F(read_moves, shut_down)
{
	struct race *t = &self->t;
	const struct rules rules = { .one_gen = true, .may_eio = true };
	unsigned int gen, rounds = 4 * dax_scale();
	__u32 flags = EXT4_GOING_FLAGS_DEFAULT;
	unsigned long eio;

	for (gen = 1; gen <= rounds; gen++) {
		ASSERT_EQ(0, write_file(t, t->fd, OURS, 0, FILE_BLOCKS,
					gen));
		ASSERT_EQ(0, fsync(t->fd));
		eio = atomic_load(&t->eio);
		start_readers(_metadata, t, rules);
		wait_for_reads(t, 20);
		ASSERT_EQ(eio, atomic_load(&t->eio));
		ASSERT_EQ(0, ioctl(t->fd, EXT4_IOC_SHUTDOWN, &flags));
		wait_for_reads(t, 20);
		EXPECT_LT(eio, atomic_load(&t->eio));
		stop_readers(_metadata, t);

		close(t->fd);
		ASSERT_EQ(0, dax_umount(&t->test.fs));
		ASSERT_EQ(0, dax_mount(&t->test.fs, NULL));
		race_open(_metadata, t);
	}
}

/* -- files that use DAX by their flag */

FIXTURE(read_moves_flag)
{
	struct race t;
};

FIXTURE_VARIANT(read_moves_flag)
{
	enum dax_path_kind kind;
	struct dax_setup setup;
};

FIXTURE_VARIANT_ADD(read_moves_flag, generic)
{
	DAX_GENERIC, { .mount = "dax=inode", .blocks = FS_BLOCKS },
};

FIXTURE_VARIANT_ADD(read_moves_flag, fast)
{
	DAX_FAST, { .mount = "dax=inode", .blocks = FS_BLOCKS },
};

FIXTURE_SETUP(read_moves_flag)
{
	race_begin(_metadata, &self->t, variant->kind, &variant->setup);
}

FIXTURE_TEARDOWN(read_moves_flag)
{
	race_end(_metadata, &self->t);
}

/*
 * The flag takes effect when the inode is read again. All tasks open the file
 * by name, so that the inode is often unused.
 */
TEST_F(read_moves_flag, comes_and_goes)
{
	struct race *t = &self->t;
	const struct rules rules = { .by_name = true, .may_tear = true };
	unsigned int gen, rounds = 60 * dax_scale(), was[2] = {};

	close(t->fd);
	start_readers(_metadata, t, rules);
	for (gen = 1; gen <= rounds; gen++) {
		t->fd = dax_open(&t->test.fs, "file", O_RDWR);
		ASSERT_GE(t->fd, 0);
		was[dax_is_dax(t->fd) == 1]++;
		ASSERT_EQ(0, write_file(t, t->fd, OURS, 0, FILE_BLOCKS,
					gen));
		ASSERT_EQ(0, dax_set_flag(t->fd, gen % 2));
		close(t->fd);
		wait_for_reads(t, 1);
	}
	stop_readers(_metadata, t);
	TH_LOG("%u times DAX, %u times not", was[1], was[0]);
	t->fd = -1;
}

int main(int argc, char **argv)
{
	return dax_main(argc, argv);
}
