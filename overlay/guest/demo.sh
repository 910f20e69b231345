#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# What `make demo` shows in its guest. Results are KTAP, remarks are for the
# reader of the screen.
set -u

switch=/sys/module/ext4/parameters/dax_fast_read
work=/run/demo
number=0
failed=0

say()
{
	echo "# $*"
}

# result STATUS NAME
result()
{
	number=$((number + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $number - $2"
	else
		echo "not ok $number - $2"
		failed=$((failed + 1))
	fi
}

echo "TAP version 13"
echo "1..5"
say "Linux $(uname -r) on $(grep -c ^processor /proc/cpuinfo) processors"

mkdir -p "$work"
mkfs.ext4 -q -b 4096 /dev/pmem0 && mount -o dax=always /dev/pmem0 "$work"
result $? "an ext4 file system on pmem, mounted with DAX"
say "$(grep " $work " /proc/mounts)"

test -b /dev/nvme0n1
result $? "an emulated NVMe namespace"
say "/dev/nvme0n1, $(cat /sys/block/nvme0n1/size 2>/dev/null) sectors"

test -w "$switch"
result $? "ext4 has the fast DAX read"
say "ext4.dax_fast_read=$(cat "$switch" 2>/dev/null)"

# Odd lengths and a hole, so that not only whole blocks are read.
dd if=/dev/urandom of="$work/file" bs=4097 count=64 2>/dev/null
truncate -s 1M "$work/file"
fast=$(dd if="$work/file" bs=1021 2>/dev/null | cksum)
test -n "$fast"
result $? "reads of data and a hole, fast"
[ -w "$switch" ] && echo N >"$switch"
generic=$(dd if="$work/file" bs=1021 2>/dev/null | cksum)
[ -w "$switch" ] && echo Y >"$switch"
test "$fast" = "$generic"
result $? "the generic path reads the same bytes"
umount "$work"

exit "$failed"
