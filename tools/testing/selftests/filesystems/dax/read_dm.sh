#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The differential tests on device-mapper devices over DAX devices, and writes to
# blocks that files share. An address that such a device gives is good to the end of
# a target or of a stripe, so a read, or a copy, has to ask again and again.

# The commands of "check" are called by name.
# shellcheck disable=SC2317

# shellcheck source=lib.sh
. ./lib.sh

need_dev 1
second=$dev
need_dev 0
need_tool dmsetup mkfs.ext4 blockdev
begin
mnt=$tmp/mnt

# With and without udev: the nodes are there when dmsetup returns.
export DM_DISABLE_UDEV=1

# Sectors at the start of each device that stay as they are: the label that
# marks the device as the tests' lies there.
LABEL=2048

# Both devices belong to these tests from here on.
make_fs "$dev" || exit 1
make_fs "$second" || exit 1

remove_dm() { # NAME
	! dmsetup info "$1" > /dev/null 2>&1 || dmsetup remove "$1"
}

leave_fs() {
	! mountpoint -q "$mnt" || umount "$mnt"
}

undo() {
	leave_fs
	for name in linear targets stripe8 stripe128; do
		remove_dm "dax_test_$name"
	done
}

create_dm() { # NAME TABLE
	echo "$2" | dmsetup create "$1" || return
	# So that the tests below know it for theirs.
	make_fs "/dev/mapper/$1"
}

# A name that matches no test is no failure to the harness, and a test that is
# skipped has read nothing: only its own "ok" will do.
run_test() { # DEVICE TEST
	DAX_TEST_DEV=$1 ./read_diff -r "$2" > "$tmp/one" 2>&1
	run_ret=$?
	cat "$tmp/one"
	[ "$run_ret" -eq 0 ] && grep -q "^ok [0-9]* $2\$" "$tmp/one"
}

# The tests that read all kinds of layouts, by all paths that there are.
run_tests() { # NAME
	for variant in $(paths); do
		run_test "/dev/mapper/$1" \
			"read_diff.${variant}_extents.random_layout" || return
		run_test "/dev/mapper/$1" \
			"read_extents.${variant}_100.scattered" || return
	done
}

test_dm() { # WHAT NAME TABLE
	if create_dm "$2" "$3"; then
		check "$1" run_tests "$2"
		remove_dm "$2"
	else
		fail "$1: dmsetup create"
	fi
}

# A chunk of a stripe is less than what is written here at once, and what lies behind
# it in memory is another file's: new blocks are to be had only between such files.
FILES="1 2 3 4 5 6 7 8"

# All that is not written to.
others_are_good() {
	for other in "$mnt"/file* "$mnt"/beside*; do
		cmp "$other" "$tmp/a" || return
	done
}

leave_gaps() {
	free=$(df -k --output=avail "$mnt" | tail -n 1)
	fallocate -l $((free - 16384))k "$mnt/rest" || return
	n=1
	while cp "$tmp/a" "$mnt/beside$n" 2> "$tmp/full"; do
		n=$((n + 1))
	done
	rm "$mnt/beside$n"
	while [ "$n" -gt 1 ]; do
		n=$((n - 2))
		rm -f "$mnt/beside$n"
	done
	sync
}

make_shared() { # NAME
	mkdir -p "$mnt" && mkfs.xfs -q -f -m reflink=1 "/dev/mapper/$1" &&
		mount -t xfs -o dax=always "/dev/mapper/$1" "$mnt" || return
	dd if=/dev/urandom of="$tmp/a" bs=64k count=4 status=none
	dd if=/dev/urandom of="$tmp/b" bs=64k count=4 status=none
	for number in $FILES; do
		cp "$tmp/a" "$mnt/file$number" &&
			cp --reflink=always "$mnt/file$number" \
				"$mnt/clone$number" || return
	done
	leave_gaps
}

write_to_shared() {
	for number in $FILES; do
		# one write(2)
		dd if="$tmp/b" of="$mnt/clone$number" bs=256k count=1 \
			conv=notrunc status=none || return
	done
	for number in $FILES; do
		cmp "$mnt/clone$number" "$tmp/b" || return
	done
	others_are_good
}

unshare_shared() {
	for number in $FILES; do
		xfs_io -c "funshare 0 256k" "$mnt/clone$number" || return
	done
	for number in $FILES; do
		cmp "$mnt/clone$number" "$tmp/a" || return
	done
	others_are_good
}

has_xfs() {
	for tool in mkfs.xfs xfs_io fallocate; do
		command -v $tool > /dev/null || return
	done
	grep -qw xfs /proc/filesystems || modprobe -q xfs
}

test_shared() { # WHAT NAME TABLE COMMAND
	if ! has_xfs; then
		skip "$1" "needs xfsprogs, fallocate and CONFIG_XFS_FS"
		return
	fi
	if create_dm "$2" "$3" && make_shared "$2"; then
		check "$1" "$4"
	else
		fail "$1: files that share blocks"
	fi
	leave_fs
	remove_dm "$2"
}

sectors=$(($(blockdev --getsz "$second") - 2 * LABEL))
# A size that all chunk sizes below divide.
sectors=$((sectors / 4096 * 4096))

# Targets of nine blocks from the one and the other device in turn.
many_targets() {
	at=0
	n=0
	while [ $n -lt 800 ]; do
		echo "$at 72 linear $dev $((LABEL + at))"
		echo "$((at + 72)) 72 linear $second $((LABEL + at))"
		at=$((at + 144))
		n=$((n + 1))
	done
}

stripes="0 $((2 * sectors)) striped 2 8 $dev $LABEL $second $LABEL"
plan 6
test_dm "one linear target" dax_test_linear \
	"0 $sectors linear $dev $LABEL"
test_dm "linear targets of nine blocks" dax_test_targets "$(many_targets)"
test_dm "stripes of one block" dax_test_stripe8 "$stripes"
test_dm "stripes of 16 blocks" dax_test_stripe128 \
	"0 $((2 * sectors)) striped 2 128 $dev $LABEL $second $LABEL"
test_shared "a write to shared blocks on stripes" dax_test_stripe8 "$stripes" \
	write_to_shared
test_shared "shared blocks on stripes are unshared" dax_test_stripe8 "$stripes" \
	unshare_shared
finish
