#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# In a guest: measure reads of a fresh DAX file system.
#
#	dax-read.sh FOLDER-OF-THE-PROGRAMS ext4|xfs|erofs COMMAND...
programs=$1
fs=$2
shift 2

fail()
{
	echo "error $*"
	exit 1
}

[ -b /dev/pmem0 ] || fail "the guest has no /dev/pmem0"
case $fs in
ext4)	mkfs.ext4 -q -b 4096 /dev/pmem0 || fail "mkfs.ext4 failed" ;;
xfs)	mkfs.xfs -q -f -K /dev/pmem0 || fail "mkfs.xfs failed" ;;
erofs)
	mkdir -p /tmp/source
	"$programs/dax-read" /tmp/source source || fail "making files failed"
	mkfs.erofs -Enoinline_data /tmp/image /tmp/source > /tmp/log 2>&1 ||
		fail "mkfs.erofs failed"
	dd if=/tmp/image of=/dev/pmem0 bs=1M status=none ||
		fail "copying the image failed"
	;;
*)	fail "the file system $fs is not known" ;;
esac
mkdir -p /tmp/dax
# There are files without DAX beside those with it.
[ "$fs" = erofs ] && dax=always || dax=inode
mount -t "$fs" -o "dax=$dax" /dev/pmem0 /tmp/dax || fail "mounting with DAX failed"
# Without the parameter there is one way to read only, and nothing to compare.
if [ -e /sys/module/dax_read/parameters/fast ]; then
	insmod "$programs/noread.ko" || fail "loading noread.ko failed"
fi
"$programs/dax-read" /tmp/dax "$@"
