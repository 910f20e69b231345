#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The first process of an arm64 guest: arm64.sh RESULT SCRIPT FOLDER...
#
# The root is read-only, and this machine's files are at /mnt. Put a writable layer
# over the root, mount each FOLDER of this machine at its own path and the folder of
# RESULT for writing, and run SCRIPT by run.sh.
result=$1
script=$2
shift 2
here=${0%/*}
here=${here#/mnt}
options=trans=virtio,version=9p2000.L,access=any,msize=524288

mount -t tmpfs run /run
mkdir /run/upper /run/work /run/root
mount -t overlay -o lowerdir=/,upperdir=/run/upper,workdir=/run/work root /run/root
cd /run/root || exit 1
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t devtmpfs devtmpfs dev
mkdir -p dev/pts dev/shm
mount -t devpts devpts dev/pts
for folder in dev/shm run tmp; do
	mount -t tmpfs tmpfs $folder
done
mount -t debugfs debugfs sys/kernel/debug
mount -t tracefs tracefs sys/kernel/tracing
ln -s /proc/self/fd dev/fd
# A reset frees vectors. A CPU that has just taken an interrupt of one finds no handler.
echo 'overlay: expect /gic_handle_irq/' >dev/kmsg
for folder in "$here" "$@"; do
	mkdir -p ".$folder"
	mount --bind "/mnt$folder" ".$folder"
done
mkdir -p ".${result%/*}"
mount -t 9p -o "$options" out ".${result%/*}"
mkdir -p lib/modules
ln -s "$1" "lib/modules/$(uname -r)"
# Not chroot alone, in which no user namespace can be made.
pivot_root . mnt
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
chroot . sh "$here/run.sh" "$result" "$script"
sync
# It cannot be loaded any more when the devices are shut down.
sleep infinity &
echo o >/proc/sysrq-trigger
wait
