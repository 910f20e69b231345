#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Check that the other tests touch no foreign device, and that they clean up
# however they end.

# "check" calls its commands by name.
# shellcheck disable=SC2317

# shellcheck source=lib.sh
. ./lib.sh

WINDOW=/sys/kernel/debug/fault_around_bytes

undo() {
	for at in "$tmp/cmdline" "$tmp/provider"; do
		[ ! -e "$at" ] || umount "$(cat "$at")" 2> /dev/null
		rm -f "$at"
	done
}

begin
need_dev 0
need_ext4
need_tool pgrep setsid
need_fs "$dev"
mkdir "$tmp/own"

# Run a program like a runner does: in a process group of its own.
start() { # COMMAND...
	TMPDIR=$tmp/own setsid "$@" > "$tmp/said" 2>&1 &
	pid=$!
}

# Check the exit code and the output of a command.
asked() { # CODE REASON COMMAND...
	code=$1
	reason=$2
	shift 2
	"$@" > "$tmp/said" 2>&1
	got=$?
	cat "$tmp/said"
	[ "$got" -eq "$code" ] && grep -q -e "$reason" "$tmp/said"
}

# Print the parameters that the tests change.
parameters() {
	cat "$FAST" \
		/sys/module/ext4/parameters/dax_unlocked_read "$WINDOW" \
		/sys/module/firmware_class/parameters/path 2> /dev/null
}

# Check that no process, mount or file is left, and that the device is free.
nothing_left() { # PROGRAM
	# The process that cleans up is not in the group, so wait for it.
	tries=0
	while pgrep -x "$1" > /dev/null || [ -n "$(ls -A "$tmp/own")" ]; do
		tries=$((tries + 1))
		[ "$tries" -lt 1000 ] || break
	done
	[ "$(parameters)" = "$before" ] || { parameters; return 1; }
	[ -z "$(ls -A "$tmp/own")" ] || { ls -lR "$tmp/own"; return 1; }
	! grep "$tmp/own" /proc/self/mounts || return
	! dmsetup ls 2> /dev/null | grep dax_test_ || return
	! ls -d /sys/kernel/tracing/instances/dax_selftest 2> /dev/null || return
	# The claim fails if the device is open or does not belong to the tests.
	./dax_claim 0
}

kill_one() { # SIGNAL PROGRAM
	case $1 in
	# A runner kills the process group of the program.
	GROUP) kill -s KILL -- "-$pid" ;;
	# The second watcher, see dax_guard.c.
	KEEPER) kill -KILL "$(pgrep -P "$pid")" ;;
	*) kill "-$1" "$pid" ;;
	esac
	wait "$pid" && return 1
	nothing_left "$2"
}

# Kill a test while a filesystem is mounted and parameters are changed.
killed() { # SIGNAL
	before=$(parameters)
	variant=generic
	[ ! -e "$FAST" ] || variant=fast
	start ./read_race -v "$variant"
	until [ -d "$(echo "$tmp"/own/dax.*/dax.*)" ]; do
		kill -0 "$pid" || return
	done
	kill_one "$1" read_race
}

# Kill a script while its filesystem is mounted for all processes.
killed_script() { # SIGNAL
	before=$(parameters)
	start ./read_exec.sh
	until grep -q "$tmp/own" /proc/self/mounts; do
		kill -0 "$pid" || return
	done
	kill_one "$1" read_exec.sh
}

# Kill a test while mkfs runs and the device has no label.
half_made() {
	before=$(parameters)
	mkdir "$tmp/bin" && mkfifo "$tmp/bin/fifo" || return
	cat > "$tmp/bin/mkfs.ext4" <<-END
	#!/bin/sh
	dd if=/dev/urandom of=$dev bs=4096 count=1 conv=notrunc,fsync
	: > "$tmp/bin/begun"
	cat "$tmp/bin/fifo"
	END
	chmod +x "$tmp/bin/mkfs.ext4"
	start env PATH="$tmp/bin:$PATH" ./read_race
	until [ -e "$tmp/bin/begun" ]; do
		kill -0 "$pid" || return
	done
	kill_one GROUP read_race
}

no_device() {
	asked 4 "DAX_TEST_DEV is empty" env DAX_TEST_DEV= ./read_edges &&
		asked 4 "DAX_TEST_DEV is empty" env DAX_TEST_DEV= ./read_exec.sh
}

no_mkfs() {
	asked 4 "needs mkfs.ext4" env PATH=/nonexistent ./read_edges
}

# The device looks like real persistent memory: memmap= is missing.
not_by_memmap() {
	blank_dev || return
	echo "root=/dev/vda" > "$tmp/text"
	echo /proc/cmdline > "$tmp/cmdline"
	mount --bind "$tmp/text" /proc/cmdline || return
	asked 4 "was not made by memmap=" env -u DAX_TEST_DEV ./dax_claim 0
	got=$?
	umount /proc/cmdline
	rm "$tmp/cmdline"
	return "$got"
}

blank_dev() {
	dd if=/dev/zero of="$dev" bs=1M conv=fsync 2> /dev/null
	[ "$(head -c 4096 "$dev" | tr -d '\0' | wc -c)" -eq 0 ]
}

# A device with the label needs no memmap=.
labelled() {
	make_fs "$dev" || return
	echo "root=/dev/vda" > "$tmp/text"
	echo /proc/cmdline > "$tmp/cmdline"
	mount --bind "$tmp/text" /proc/cmdline || return
	env -u DAX_TEST_DEV ./dax_claim 0
	got=$?
	umount /proc/cmdline
	rm "$tmp/cmdline"
	return "$got"
}

holds_data() {
	blank_dev || return
	printf x | dd of="$dev" bs=1 seek=$((8 << 20)) conv=notrunc 2> /dev/null
	asked 4 "holds data" ./dax_claim 0
	got=$?
	make_fs "$dev"
	return "$got"
}

plan 13
check "DAX_TEST_DEV is empty" no_device
check "skip without mkfs.ext4" no_mkfs
if [ "$dev" = /dev/pmem0 ]; then
	check "refuse a blank device that is not from memmap=" not_by_memmap
	check "accept a labelled device that is not from memmap=" labelled
else
	skip "refuse a blank device that is not from memmap=" "not /dev/pmem0"
	skip "accept a labelled device that is not from memmap=" "not /dev/pmem0"
fi
check "refuse a device with data" holds_data
for signal in TERM INT; do
	check "clean up after SIG$signal" killed $signal
done
check "clean up after SIGKILL of the watcher" killed KEEPER
check "clean up after SIGKILL of the process group" killed GROUP
check "clean up a shell test after SIGTERM" killed_script TERM
check "clean up a shell test after SIGKILL of its group" killed_script GROUP
check "label a device that lost its label" half_made
check "a killed test runs again" \
	asked 0 "^# Totals: pass:[1-9]" ./read_vfs
finish
