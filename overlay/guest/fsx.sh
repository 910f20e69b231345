#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Have fsx change and read a file on each kind of DAX file system:
# fsx.sh FSX OPERATIONS SEED
fsx=$1
operations=$2
seed=$3
config=${0%.sh}.toml
dir=/tmp/dax
log=/tmp/fsx.log
count=0

# One file system: its name, its driver, and how it is made.
exercise()
{
	name=$1
	fs=$2
	shift 2
	count=$((count + 1))
	if "$@" /dev/pmem0 >"$log" 2>&1 &&
	   mount -t "$fs" -o dax=always /dev/pmem0 "$dir" >>"$log" 2>&1 &&
	   "$fsx" -q -f "$config" -N "$operations" -S "$seed" -P /tmp \
			"$dir/file" >"$log" 2>&1; then
		echo "ok $count $name"
	else
		# It ends with the operations before the one that went wrong.
		tail -n 30 "$log" | sed 's/^/# /'
		echo "not ok $count $name"
	fi
	mountpoint -q "$dir" && umount "$dir"
}

unlocked()
{
	echo "$1" >/sys/module/ext4/parameters/dax_unlocked_read
}

mkdir -p "$dir"
echo "KTAP version 1"
echo "1..4"
echo "# seed $seed"
exercise ext4 ext4 mkfs.ext4 -q -F -b 4096
unlocked 1
exercise "ext4, reads without i_rwsem" ext4 mkfs.ext4 -q -F -b 4096
unlocked 0
exercise xfs xfs mkfs.xfs -q -f -m reflink=0
exercise "xfs, reflink" xfs mkfs.xfs -q -f -m reflink=1
