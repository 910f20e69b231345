#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Run a script in a guest as its only work: run.sh RESULT SCRIPT
#
# RESULT is a file on this machine. The output of the script goes there line by line,
# so that a guest that dies leaves its output, and to the console. The last line marks
# the end of the guest.
result=$1
script=$2

export PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
export LC_ALL=C.UTF-8 HOME=/root

# virtme-ng makes these the console; kselftest opens them by name, and its
# results would miss the file.
ln -sf /proc/self/fd/1 /dev/stdout
ln -sf /proc/self/fd/2 /dev/stderr

# Everything the kernel says counts, so that splats are seen.
echo 8 >/proc/sys/kernel/printk

# A leak is a splat too. kmemleak takes an object for lost only when it is
# some seconds old, and then wants to see it lost twice.
report_leaks()
{
	leaks=/sys/kernel/debug/kmemleak
	[ -w "$leaks" ] || return 0
	sleep 6
	echo scan >"$leaks"
	echo scan >"$leaks"
	while IFS= read -r line; do
		echo "kmemleak: $line" >/dev/kmsg
	done <"$leaks"
}

[ -w /sys/kernel/debug/kmemleak ] && echo clear >/sys/kernel/debug/kmemleak
{
	sh "$script" 2>&1
	status=$?
	[ "$status" -eq 0 ] || echo "# $script ended with $status"
} | tee "$result"
report_leaks
# A complaint that the console lost has left its mark here.
echo "# overlay: taint $(cat /proc/sys/kernel/tainted)" >>"$result"
echo "# overlay: end" >>"$result"
sync
