#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# In a guest: measure reads of a fresh ext4 DAX file system.
#
#	dax-read.sh FOLDER-OF-THE-PROGRAMS COMMAND...
programs=$1
shift

fail()
{
	echo "error $*"
	exit 1
}

[ -b /dev/pmem0 ] || fail "the guest has no /dev/pmem0"
mkfs.ext4 -q -b 4096 /dev/pmem0 || fail "mkfs.ext4 failed"
mkdir -p /tmp/dax
mount -t ext4 -o dax=always /dev/pmem0 /tmp/dax || fail "mounting with DAX failed"
# Without the parameter there is one way to read only, and nothing to compare.
if [ -e /sys/module/ext4/parameters/dax_fast_read ]; then
	insmod "$programs/noread.ko" || fail "loading noread.ko failed"
fi
"$programs/dax-read" /tmp/dax "$@"
