#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# In a guest: measure reads through mappings of a fresh file system.
#
#	dax-mmap.sh FOLDER-OF-THE-PROGRAMS NAME ext4|xfs COMMAND...
programs=$1
name=$2
kind=$3
shift 3

fail()
{
	echo "error $*"
	exit 1
}

[ -b /dev/pmem0 ] || fail "the guest has no /dev/pmem0"
mkdir -p /tmp/dax
mountpoint -q /sys/kernel/debug ||
	mount -t debugfs none /sys/kernel/debug || fail "mounting debugfs failed"
# A stripe of 2 MiB is where both put extents that can be huge pages.
if [ "$kind" = xfs ]; then
	mkfs.xfs -q -f -m reflink=0 -b size=4096 -d agcount=2,su=2m,sw=1 \
		-l size=64m,su=4k /dev/pmem0
else
	mkfs.ext4 -q -F -b 4096 -E stride=512,stripe_width=512 /dev/pmem0
fi || fail "making $kind failed"
mount -t "$kind" -o dax=inode /dev/pmem0 /tmp/dax ||
	fail "mounting $kind with DAX failed"
"$programs/dax-mmap" "$name" /tmp/dax "$@"
