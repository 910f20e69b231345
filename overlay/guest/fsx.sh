#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Have fsx change and read a file on one kind of DAX file system:
# fsx.sh FSX OPERATIONS SEED ext4|ext4-unlocked|xfs|xfs-reflink
fsx=$1
operations=$2
seed=$3
kind=$4
config=${0%.sh}.toml
dir=/tmp/dax
log=/tmp/fsx.log

# Reads without i_rwsem, or not; other kernels have no such parameter.
unlocked()
{
	echo "$1" >/sys/module/ext4/parameters/dax_unlocked_read
}

# Make it and mount it.
prepare()
{
	case $kind in
	ext4) unlocked 0 && mkfs.ext4 -q -F -b 4096 /dev/pmem0 ;;
	ext4-unlocked) unlocked 1 && mkfs.ext4 -q -F -b 4096 /dev/pmem0 ;;
	xfs) mkfs.xfs -q -f -m reflink=0 /dev/pmem0 ;;
	xfs-reflink) mkfs.xfs -q -f -m reflink=1 /dev/pmem0 ;;
	*) echo "fsx.sh knows no $kind"; false ;;
	esac && mkdir -p "$dir" &&
		mount -t "${kind%-*}" -o dax=always /dev/pmem0 "$dir"
}

echo "KTAP version 1"
echo "1..1"
echo "# seed $seed"
if prepare >"$log" 2>&1 &&
   "$fsx" -q -f "$config" -N "$operations" -S "$seed" -P /tmp \
		"$dir/file" >"$log" 2>&1; then
	echo "ok 1 $kind"
else
	# It ends with the operations before the one that went wrong.
	tail -n 30 "$log" | sed 's/^/# /'
	echo "not ok 1 $kind"
fi
mountpoint -q "$dir" && umount "$dir"
