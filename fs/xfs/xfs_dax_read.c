// SPDX-License-Identifier: GPL-2.0
/*
 * Short reads of DAX files: a lookup for fs/dax-read.c.  If a read lies in
 * written blocks or in a hole, this is quicker than xfs_read_iomap_begin().
 */
#include "xfs_platform.h"
#include "xfs_shared.h"
#include "xfs_format.h"
#include "xfs_log_format.h"
#include "xfs_trans_resv.h"
#include "xfs_mount.h"
#include "xfs_bit.h"
#include "xfs_inode.h"
#include "xfs_bmap.h"
#include "xfs_bmap_util.h"
#include "xfs_iomap.h"
#include "xfs_file.h"
#include "xfs_trace.h"

#include <linux/dax-read.h>

/*
 * This uses its own iomap, so that the caller's iomap needs no memory and no
 * clearing for reads that do not come here.
 */
static __always_inline int
xfs_dax_read_begin_other(
	struct inode		*inode,
	loff_t			pos,
	loff_t			length,
	unsigned int		flags,
	struct iomap		*iomap)
{
	struct iomap		other = { };
	struct iomap		srcmap = { };
	int			error;

	error = xfs_read_iomap_begin(inode, pos, length, flags, &other, &srcmap);
	iomap->type = other.type;
	iomap->offset = other.offset;
	iomap->length = other.length;
	iomap->addr = other.addr;
	iomap->dax_dev = other.dax_dev;
	return error;
}

/*
 * Find the extent or the hole at a position, with the ILOCK held.  A hole
 * behind the last extent ends with the requested range.  Return IOMAP_HOLE or
 * IOMAP_MAPPED, and -ENOTBLK for anything else.
 */
static __always_inline int
xfs_dax_read_extent(
	struct xfs_inode	*ip,
	loff_t			pos,
	loff_t			length,
	struct xfs_bmbt_irec	*got)
{
	struct xfs_mount	*mp = ip->i_mount;
	xfs_fileoff_t		offset_fsb = XFS_B_TO_FSBT(mp, pos);
	struct xfs_iext_cursor	icur;

	if (!xfs_ifork_has_extents(&ip->i_df))
		return -ENOTBLK;
	if (!xfs_iext_lookup_extent(ip, &ip->i_df, offset_fsb, &icur, got))
		got->br_startoff = XFS_B_TO_FSB(mp, pos + length);
	if (unlikely(got->br_startoff > offset_fsb)) {
		got->br_blockcount = got->br_startoff - offset_fsb;
		got->br_startoff = offset_fsb;
		got->br_startblock = HOLESTARTBLOCK;
		return IOMAP_HOLE;
	}
	if (got->br_state == XFS_EXT_NORM &&
	    !isnullstartblock(got->br_startblock) && got->br_startblock)
		return IOMAP_MAPPED;
	return -ENOTBLK;
}

/*
 * Anything but a hole or written blocks of the data device is left to
 * xfs_read_iomap_begin(), and so are extents that look corrupt.  A copy under
 * the IOLOCK does not need the rest of that function: a sequence number that
 * tells writeback whether its mapping is still valid, and the search for shared
 * blocks.  The caller excludes files that may have shared blocks.
 */
static __always_inline int
xfs_dax_read_begin(
	struct inode		*inode,
	loff_t			pos,
	loff_t			length,
	unsigned int		flags,
	struct iomap		*iomap,
	struct iomap		*srcmap)
{
	struct xfs_inode	*ip = XFS_I(inode);
	struct xfs_mount	*mp = ip->i_mount;
	struct xfs_buftarg	*target = mp->m_ddev_targp;
	struct xfs_bmbt_irec	got;
	int			type;

	if (xfs_is_shutdown(mp))
		return -EIO;

	/* Once read, the extents stay in memory as long as the inode. */
	if (unlikely(xfs_need_iread_extents(&ip->i_df)) ||
	    XFS_IS_REALTIME_INODE(ip))
		goto other;

	if (!(flags & IOMAP_NOWAIT))
		xfs_ilock(ip, XFS_ILOCK_SHARED);
	else if (!xfs_ilock_nowait(ip, XFS_ILOCK_SHARED))
		return -EAGAIN;
	type = xfs_dax_read_extent(ip, pos, length, &got);
	xfs_iunlock(ip, XFS_ILOCK_SHARED);
	if (unlikely(type < 0))
		goto other;

	trace_xfs_iomap_found(ip, pos, length, XFS_DATA_FORK, &got);
	iomap->type = type;
	iomap->offset = XFS_FSB_TO_B(mp, got.br_startoff);
	iomap->length = XFS_FSB_TO_B(mp, got.br_blockcount);
	if (unlikely(type != IOMAP_MAPPED))
		return 0;
	iomap->addr = BBTOB(XFS_FSB_TO_DADDR(mp, got.br_startblock)) +
		      target->bt_dax_part_off;
	iomap->dax_dev = target->bt_daxdev;
	return 0;

other:
	return xfs_dax_read_begin_other(inode, pos, length, flags, iomap);
}

/**
 * xfs_dax_read_iter - read a DAX file the short way
 * @iocb: the read
 * @to: destination, not empty
 *
 * Context: process context, IOLOCK held shared.  No block of the file is
 * shared.
 * Return: as dax_read_iter().
 */
ssize_t
xfs_dax_read_iter(
	struct kiocb		*iocb,
	struct iov_iter		*to)
{
	return dax_read_iter(iocb, to, xfs_dax_read_begin);
}
