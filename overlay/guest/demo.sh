#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# What `make demo` shows in its guest. Results are KTAP, remarks are for the
# reader of the screen.
set -u

switch=/sys/module/dax_read/parameters/fast
work=/run/demo
# The program that reads a file through a mapping: overlay/bench/dax-show.c.
show=$1
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
echo "1..9"
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
say "dax_read.fast=$(cat "$switch" 2>/dev/null)"

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

# 64 MiB of a hole through a mapping that huge pages do not fit.
knob=/sys/kernel/debug/fault_around_bytes
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
truncate -s 64M "$work/hole"
default=$(cat "$knob")
echo 4096 >"$knob"
"$show" "$work/hole" >"$work/alone"
echo "$default" >"$knob"
"$show" "$work/hole" >"$work/around"
umount "$work"
mount -o dax=never /dev/pmem0 "$work"
"$show" "$work/hole" >"$work/cached"
read -r rss_alone faults_alone <"$work/alone"
read -r rss_around faults_around <"$work/around"
read -r rss_cached faults_cached <"$work/cached"
say "64 MiB of a hole, read through a mapping without huge pages:"
say "  page cache, 16 pages a fault    Rss $rss_cached kB, $faults_cached faults"
say "  DAX, a page a fault             Rss $rss_alone kB, $faults_alone faults"
say "  DAX, $((default / 4096)) pages a fault           Rss $rss_around kB, $faults_around faults"
test "$rss_alone/$rss_around/$rss_cached" = 0/0/65536
result $? "a hole read through a DAX mapping takes no memory"
test "$((faults_around * 15))" -lt "$faults_alone"
result $? "fault-around takes less than a fifteenth of the faults"
umount "$work"

# One queue of each kind for user space; nodes come with the scan that follows.
params=/sys/module/nvme/parameters
echo 1 >$params/user_irq_queues
echo 1 >$params/user_poll_queues
echo 1 >/sys/class/nvme/nvme0/reset_controller
tries=0
while [ ! -c /dev/ng0n1q2 ] && [ $tries -lt 100000 ]; do
	tries=$((tries + 1))
done
test -c /dev/ng0n1q1 && test -c /dev/ng0n1q2
result $? "NVMe user queues: one with an interrupt, one polled"
for node in /sys/class/nvme-generic/ng0n1q*; do
	[ -e "$node" ] || continue
	say "/dev/${node##*/}: $(cat "$node/user_queue/type"), qid" \
		"$(cat "$node/user_queue/qid"), depth" \
		"$(cat "$node/user_queue/depth")"
done
fio --name=demo --filename=/dev/ng0n1q2 --ioengine=io_uring_cmd \
	--cmd_type=nvme --hipri=1 --fixedbufs=1 --rw=randread --bs=4k \
	--size=16m --iodepth=32 --iodepth_batch=32 \
	--iodepth_batch_complete=32 >/run/fio 2>&1
status=$?
# Why it failed is for the reader, not for a file that ends with the guest.
[ $status -eq 0 ] || sed 's/^/# | /' /run/fio
result $status "fio, unchanged, reads through the polled queue"
queue=/sys/class/nvme-generic/ng0n1q2/user_queue
say "commands $(cat $queue/completed), doorbells $(cat $queue/doorbells)"

exit "$failed"
