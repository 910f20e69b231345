#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Run the differential tests on device-mapper devices over DAX devices. Also
# write to, unshare and deduplicate blocks there. An address of such a device is
# only valid to the end of a target or of a stripe. Reads and copies have to ask
# for the next address again and again.

# "check" calls its commands by name.
# shellcheck disable=SC2317

# shellcheck source=lib.sh
. ./lib.sh

PMD_SIZE=/sys/kernel/mm/transparent_hugepage/hpage_pmd_size

undo() {
	unmount "$tmp/mnt"
	for name in linear targets stripe8 stripe128 halves; do
		remove_dm "dax_test_$name"
	done
}

begin
need_dev 1
second=$dev
need_dev 0
need_ext4
need_tool dmsetup blockdev
mnt=$tmp/mnt

# From here on, both devices belong to these tests.
need_fs "$dev"
need_fs "$second"

create_dm() { # NAME TABLE
	echo "$2" | dmsetup create "$1" || return
	# Label the device, so that the tests below may overwrite it.
	make_fs "/dev/mapper/$1"
}

# The harness does not fail if no test matches the name, and a skipped test has
# read nothing. Accept only the "ok" of the test itself.
run_test() { # DEVICE TEST
	DAX_TEST_DEV=$1 ./read_diff -r "$2" > "$tmp/one" 2>&1
	run_ret=$?
	cat "$tmp/one"
	[ "$run_ret" -eq 0 ] && grep -q "^ok [0-9]* $2\$" "$tmp/one"
}

# Run the tests that read all kinds of layouts, by every path of this kernel.
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

# Each write here is longer than a chunk of a stripe. The memory behind a chunk
# belongs to another file: leave_gaps() leaves free blocks only between such
# files.
FILES="1 2 3 4 5 6 7 8"

# Check the files that the test does not write to.
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

make_xfs() { # NAME OPTION...
	make_xfs_on=/dev/mapper/$1
	shift
	mkdir -p "$mnt" && mkfs.xfs -q -f -b size="$(getconf PAGESIZE)" \
		-m reflink=1 "$@" "$make_xfs_on" &&
		mount -t xfs -o dax=always "$make_xfs_on" "$mnt" || return
	dd if=/dev/urandom of="$tmp/a" bs=64k count=4 status=none
	dd if=/dev/urandom of="$tmp/b" bs=64k count=4 status=none
}

make_shared() { # NAME
	make_xfs "$1" || return
	for number in $FILES; do
		cp "$tmp/a" "$mnt/file$number" &&
			cp --reflink=always "$mnt/file$number" \
				"$mnt/clone$number" || return
	done
	leave_gaps
}

write_to_shared() {
	for number in $FILES; do
		# A single write(2).
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

# On stripes of one block, every second block of a file is behind its first
# block in memory. Every second block of the next file follows. A comparison
# that reads on there misses a difference, or finds a difference between other
# files.
make_alike() { # NAME
	make_xfs "$1" || return
	page=$(getconf PAGESIZE)
	cp "$tmp/a" "$tmp/c"
	at=1
	while [ $((at * page)) -lt 262144 ]; do
		dd if="$tmp/b" of="$tmp/c" bs="$page" skip="$at" seek="$at" \
			count=1 conv=notrunc status=none || return
		at=$((at + 2))
	done
	# The test compares files 0, 2 and 4. The file behind each of them makes
	# a comparison go wrong that reads on there.
	n=0
	for content in a a c a a b; do
		dd if="$tmp/$content" of="$mnt/alike$n" bs=256k status=none ||
			return
		n=$((n + 1))
	done
	sync
}

dedupe() { # FROM TO
	xfs_io -c "dedupe $mnt/$1 0 0 256k" "$mnt/$2"
}

dedupe_alike() {
	dedupe alike0 alike2
	cmp "$mnt/alike2" "$tmp/c" || return
	dedupe alike0 alike4 > "$tmp/same" 2>&1
	cat "$tmp/same"
	grep -q "deduped 262144/262144 bytes" "$tmp/same" &&
		cmp "$mnt/alike4" "$tmp/a"
}

# Targets of one and a half huge pages, alternately on both devices. Data that
# is aligned to huge pages on the device is also aligned in memory. Every third
# huge page consists of two pieces.
HUGE=4096
halves_of_huge_pages() {
	at=0
	while [ $((at + 3 * HUGE)) -le "$sectors" ]; do
		echo "$at $((HUGE * 3 / 2)) linear $dev $((HUGE + at))"
		at=$((at + HUGE * 3 / 2))
		echo "$at $((HUGE * 3 / 2)) linear $second $((HUGE + at))"
		at=$((at + HUGE * 3 / 2))
	done
	# mkfs.xfs needs 300 MB.
	left=$(($(blockdev --getsz "$dev") - HUGE - at))
	[ "$left" -lt "$HUGE" ] ||
		echo "$at $((left / HUGE * HUGE)) linear $dev $((HUGE + at))"
}

# Offsets of the huge pages of a file, in MiB.
HUGE_PAGES="0 2 4 6 8 10 12 14 16 18 20 22"

make_huge() { # NAME
	make_xfs "$1" -d su=2m,sw=1,agcount=2 \
		-l size=64m,su="$(getconf PAGESIZE)" || return
	xfs_io -c "extsize 2m" -c "cowextsize 2m" "$mnt" &&
		dd if=/dev/urandom of="$tmp/huge" bs=1M count=24 status=none &&
		dd if="$tmp/huge" of="$mnt/file" bs=24M status=none || return
	cp "$tmp/huge" "$tmp/stored"
	for at in $HUGE_PAGES; do
		printf a | dd of="$tmp/stored" bs=1 seek=$((at << 20)) \
			conv=notrunc status=none || return
	done
	for number in 1 2 3; do
		cp --reflink=always "$mnt/file" "$mnt/clone$number" || return
	done
	sync
}

# Store one byte to each huge page of a clone. Each store copies the huge page.
store_to_clone() { # NUMBER
	clone=$mnt/clone$1
	set -- -c "mmap -rw 0 24m"
	for at in $HUGE_PAGES; do
		set -- "$@" -c "mwrite -S 0x61 ${at}m 1"
	done
	xfs_io "$@" "$clone" || return
	cmp "$mnt/file" "$tmp/huge" && cmp "$clone" "$tmp/stored"
}

# The targets repeat after three huge pages. The file "between" moves the copies
# of each clone on by one huge page. A huge page in two pieces then gets a copy
# in one piece.
store_to_huge() {
	for number in 1 2 3; do
		dd if="$tmp/huge" of="$mnt/between$number" bs=2M count=1 \
			status=none && store_to_clone "$number" || return
	done
}

has_xfs() {
	for tool in mkfs.xfs xfs_io fallocate; do
		command -v $tool > /dev/null || return
	done
	has_fs xfs
}

test_shared() { # WHAT NAME TABLE MAKE COMMAND
	if ! has_fixes; then
		skip "$1" "this kernel does not have the fixes"
		return
	fi
	if ! has_xfs; then
		skip "$1" "needs xfsprogs, fallocate and CONFIG_XFS_FS"
		return
	fi
	if create_dm "$2" "$3" && "$4" "$2"; then
		check "$1" "$5"
	else
		fail "$1: files that share blocks"
	fi
	unmount "$mnt"
	remove_dm "$2"
}

sectors=$(blockdev --getsz "$dev")
other=$(blockdev --getsz "$second")
[ "$other" -ge "$sectors" ] || sectors=$other
# All chunk sizes below divide this size.
sectors=$(((sectors - 2 * LABEL) / 4096 * 4096))
block=$(($(getconf PAGESIZE) / 512))

# Targets of nine blocks, alternately on both devices.
many_targets() {
	at=0
	n=0
	while [ $n -lt 800 ] && [ $((at + 18 * block)) -le "$sectors" ]; do
		echo "$at $((9 * block)) linear $dev $((LABEL + at))"
		echo "$((at + 9 * block)) $((9 * block)) linear $second $((LABEL + at))"
		at=$((at + 18 * block))
		n=$((n + 1))
	done
}

stripes="0 $((2 * sectors)) striped 2 $block $dev $LABEL $second $LABEL"
plan 8
test_dm "one linear target" dax_test_linear \
	"0 $sectors linear $dev $LABEL"
test_dm "linear targets of nine blocks" dax_test_targets "$(many_targets)"
test_dm "stripes of one block" dax_test_stripe8 "$stripes"
test_dm "stripes of 16 blocks" dax_test_stripe128 \
	"0 $((2 * sectors)) striped 2 $((16 * block)) $dev $LABEL $second $LABEL"
test_shared "a write to shared blocks on stripes" dax_test_stripe8 "$stripes" \
	make_shared write_to_shared
test_shared "shared blocks on stripes are unshared" dax_test_stripe8 "$stripes" \
	make_shared unshare_shared
test_shared "blocks on stripes are compared to be shared" dax_test_stripe8 \
	"$stripes" make_alike dedupe_alike

what="a store to a huge page of shared blocks in two pieces"
halves=$(halves_of_huge_pages)
last=$(echo "$halves" | tail -n 1)
size=${last#* }
size=$((${last%% *} + ${size%% *}))
if [ "$(cat $PMD_SIZE 2> /dev/null)" != 2097152 ]; then
	skip "$what" "needs huge pages of 2 MiB"
elif [ "$size" -lt 614400 ]; then
	skip "$what" "needs a larger device"
else
	test_shared "$what" dax_test_halves "$halves" make_huge store_to_huge
fi
finish
