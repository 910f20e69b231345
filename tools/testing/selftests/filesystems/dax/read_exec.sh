#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The kernel's own reads of files on a DAX mount: programs, scripts, modules,
# firmware, build ids, and filesystems on top.
#
# __kernel_read() refuses a file with both ->read and ->read_iter, unless
# FOP_READ_SHORTCUT is set. Without this flag, all of these reads fail on ext4.

# "check" calls its commands by name.
# shellcheck disable=SC2317

# shellcheck source=lib.sh
. ./lib.sh

FW_TRIGGER=/sys/devices/virtual/misc/test_firmware/trigger_request
FW_PATH=/sys/module/firmware_class/parameters/path

# Files in $tmp tell which modules and loop devices are left.
undo() {
	[ ! -e "$tmp/module_loaded" ] || rmmod test_module 2> /dev/null
	[ ! -e "$tmp/fw_loaded" ] || rmmod test_firmware 2> /dev/null
	[ ! -e "$tmp/loops" ] || losetup -j "$tmp/mnt/blob" | cut -d: -f1 |
		xargs -r -n 1 losetup -d
	rm -f "$tmp/module_loaded" "$tmp/fw_loaded" "$tmp/loops"
	unmount "$tmp/ov"
}

begin
need_dev 0
need_ext4
need_tool mount umount cmp
need_fs "$dev"
mount_fs "$dev"

# Print the path of an uncompressed copy of a module.
find_module() { # NAME
	found=$(find "${DAX_TEST_MODULES:-/lib/modules/$(uname -r)/}" \
		-name "$1.ko*" 2> /dev/null | head -n 1)
	case $found in
	*.ko) cp "$found" "$tmp/$1.ko" ;;
	*.ko.gz) gzip -dc "$found" > "$tmp/$1.ko" ;;
	*.ko.xz) xz -dc "$found" > "$tmp/$1.ko" ;;
	*.ko.zst) zstd -qdc "$found" > "$tmp/$1.ko" ;;
	*) return ;;
	esac && echo "$tmp/$1.ko"
}

# -- checks: each prints the error and fails

run_binary() {
	[ "$("$dir/dax_exec" ran)" = ran ]
}

run_script() {
	[ "$("$dir/script")" = "script ran" ]
}

# The interpreter of this script is on the mount, too.
run_script_by_binary() {
	[ "$("$dir/script2")" = "$dir/script2" ]
}

load_module() {
	: > "$tmp/module_loaded"
	insmod "$dir/test_module.ko" && grep -q "^test_module " /proc/modules &&
		rmmod test_module
}

load_firmware() { # DIRECTORY
	printf %s "$1" > "$FW_PATH"
	printf %s dax-selftest.bin > "$FW_TRIGGER" || return
	cmp "$1/dax-selftest.bin" /dev/test_firmware
}

# Compare a file of the mount with its copy outside.
compare_copies() {
	cmp "$tmp/blob" "$1"
}

run_on_overlay() {
	[ "$("$tmp/ov/script")" = "script ran" ] &&
		[ "$("$tmp/ov/dax_exec" ran)" = ran ]
}

compare_loop() {
	: > "$tmp/loops"
	loop=$(losetup -f --show -r "$dir/blob") || return
	cmp "$tmp/blob" "$loop"
	ret=$?
	losetup -d "$loop"
	return "$ret"
}

# Check that dax_bench prints its figures, and refuses a file that is too short.
run_bench() {
	./dax_bench --reads=100 --random --size=512 "$dir/blob" \
		> "$tmp/bench" || return
	grep -Eq '^size=512 reads=100 ns=[0-9.]+ instructions=[-0-9.]+ cycles=[-0-9.]+$' \
		"$tmp/bench" || return
	./dax_bench --size=600000 "$dir/blob" 2> "$tmp/bench" && return 1
	grep -q "shorter than one read" "$tmp/bench"
}

# -- preparing

fill_mount() {
	cp dax_exec "$dir" || exit 1
	printf '#!/bin/sh\necho script ran\n' > "$dir/script"
	printf '#!%s\n' "$dir/dax_exec" > "$dir/script2"
	chmod 755 "$dir/script" "$dir/script2"
	dd if=/dev/urandom of="$tmp/blob" bs=1000 count=513 2> /dev/null
	# Use whole sectors, or the loop device would be shorter.
	truncate -s 512k "$tmp/blob"
	cp "$tmp/blob" "$dir/blob"
	cp "$tmp/blob" "$dir/dax-selftest.bin"
}

# The kernel looks up firmware in the filesystem of process 1.
init_sees() { # PATH
	cmp -s "$1" "/proc/1/root$1"
}

test_firmware() { # PATH-NAME
	name="$1: firmware is loaded"
	if [ ! -e "$FW_TRIGGER" ]; then
		skip "$name" "no test_firmware module"
	elif ! init_sees "$dir/dax-selftest.bin"; then
		skip "$name" "process 1 does not see the mount"
	else
		check "$name" load_firmware "$dir"
	fi
}

test_module() { # PATH-NAME
	name="$1: a module is loaded"
	if [ -z "$module" ]; then
		skip "$name" "no test_module.ko"
	elif grep -q "^test_module " /proc/modules; then
		skip "$name" "test_module is loaded already"
	else
		check "$name" load_module
	fi
}

test_overlay() { # PATH-NAME
	name="$1: programs run from an overlay"
	mkdir -p "$tmp/ov"
	if mount -t overlay none -o "lowerdir=$dir:$tmp" "$tmp/ov"; then
		check "$name" run_on_overlay
		umount "$tmp/ov"
	else
		skip "$name" "no overlayfs"
	fi
}

test_loop() { # PATH-NAME
	name="$1: a loop device has the same bytes"
	if [ -e /dev/loop-control ] && command -v losetup > /dev/null; then
		check "$name" compare_loop
	else
		skip "$name" "no loop device"
	fi
}

test_build_id() { # PATH-NAME
	name="$1: a mapped program has a build id"
	id=$("$dir/dax_exec" --build-id)
	case $? in
	0) check "$name" [ "$id" = "$build_id" ] ;;
	4) skip "$name" "$id" ;;
	*) fail "$name: $id" ;;
	esac
}

test_path() { # PATH-NAME
	use_path "$1"
	# Drop the data that the previous path has cached.
	sync
	echo 3 > /proc/sys/vm/drop_caches
	check "$1: a program runs" run_binary
	check "$1: a script runs" run_script
	check "$1: a script runs by a program from here" \
		run_script_by_binary
	test_module "$1"
	test_firmware "$1"
	test_build_id "$1"
	check "$1: cmp reads the same bytes" compare_copies "$dir/blob"
	test_overlay "$1"
	test_loop "$1"
	check "$1: dax_bench measures a read" run_bench
}

fill_mount
# The build id of a file that is not on the mount.
build_id=$(./dax_exec --build-id)
module=$(find_module test_module)
[ -z "$module" ] || cp "$module" "$dir/test_module.ko"
firmware=$(find_module test_firmware)
if [ -n "$firmware" ] && [ ! -e "$FW_TRIGGER" ]; then
	insmod "$firmware" && : > "$tmp/fw_loaded"
fi

all=$(paths)
# shellcheck disable=SC2086
set -- $all
plan $(($# * 10))
for path; do
	test_path "$path"
done
finish
