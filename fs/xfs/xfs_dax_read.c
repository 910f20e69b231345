// SPDX-License-Identifier: GPL-2.0
/*
 * Reads of DAX files: a lookup for dax_read_simple().  If a read lies in one
 * extent or in a hole, this is quicker than xfs_read_iomap_begin().
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
 * Find the extent or the hole at a position, with the ILOCK held.  A hole
 * behind the last extent ends with the requested range.  Return the type of the
 * mapping, and -ENOTBLK for extents that dax_iomap_rw() must look at.
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
	if (unlikely(isnullstartblock(got->br_startblock) ||
		     !got->br_startblock))
		return -ENOTBLK;
	return got->br_state == XFS_EXT_NORM ? IOMAP_MAPPED : IOMAP_UNWRITTEN;
}

/*
 * Anything but a hole or an extent of the data device is left to dax_iomap_rw(),
 * and so are extents that look corrupt.  A copy under the IOLOCK does not need
 * the rest of xfs_read_iomap_begin(): a sequence number that tells writeback
 * whether its mapping is still valid, and the search for shared blocks.  The
 * caller excludes files that may have shared blocks.  The statistics count a
 * lookup as in xfs_bmapi_read(), whose error injection is left out.
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
		return -ENOTBLK;

	if (!(flags & IOMAP_NOWAIT))
		xfs_ilock(ip, XFS_ILOCK_SHARED);
	else if (!xfs_ilock_nowait(ip, XFS_ILOCK_SHARED))
		return -EAGAIN;
	type = xfs_dax_read_extent(ip, pos, length, &got);
	xfs_iunlock(ip, XFS_ILOCK_SHARED);
	if (unlikely(type < 0))
		return type;

	XFS_STATS_INC(mp, xs_blk_mapr);
	trace_xfs_iomap_found(ip, pos, length, XFS_DATA_FORK, &got);
	iomap->type = type;
	iomap->offset = XFS_FSB_TO_B(mp, got.br_startoff);
	iomap->length = XFS_FSB_TO_B(mp, got.br_blockcount);
	iomap->addr = BBTOB(XFS_FSB_TO_DADDR(mp, got.br_startblock)) +
		      target->bt_dax_part_off;
	iomap->dax_dev = target->bt_daxdev;
	return 0;
}

/**
 * xfs_dax_read_simple - dax_read_simple() with a quicker lookup
 * @iocb: the read
 * @to: destination, not empty
 *
 * Context: process context, IOLOCK held shared.  No block of the file is
 * shared.
 * Return: as dax_read_simple().
 */
ssize_t
xfs_dax_read_simple(
	struct kiocb		*iocb,
	struct iov_iter		*to)
{
	if (!dax_read_fast_enabled())
		return dax_read_simple(iocb, to, xfs_read_iomap_begin, NULL);
	return dax_read_simple(iocb, to, xfs_dax_read_begin, NULL);
}
