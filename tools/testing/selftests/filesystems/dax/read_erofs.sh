#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Read files of EROFS on a DAX device: files whose blocks follow each other, and
# files of chunks that share blocks. EROFS is read-only, so compare each read
# with the file from which mkfs.erofs made the image.

# "check" calls its commands by name.
# shellcheck disable=SC2317

# shellcheck source=lib.sh
. ./lib.sh

NAME=dax_test_erofs

undo() {
	unmount "$tmp/mnt"
	remove_dm $NAME
}

begin
need_dev 0
need_ext4
need_tool dmsetup blockdev mkfs.erofs xfs_io
has_fs erofs || skip_all "no erofs"
# EROFS has DAX only for blocks of a page. Old versions of mkfs.erofs know only
# blocks of 4 KiB.
[ "$(getconf PAGESIZE)" -eq 4096 ] || skip_all "pages are not of 4 KiB"

# From here on, the device belongs to these tests.
need_fs "$dev"

source=$tmp/source
mnt=$tmp/mnt
mkdir -p "$source" "$mnt"

make_files() {
	for bytes in 1 4096 12289 300000; do
		head -c $bytes /dev/urandom > "$source/$bytes" || return
	done
	# mkfs.erofs stores equal chunks once.
	head -c 4096 "$source/12289" > "$tmp/a"
	head -c 4096 "$source/300000" > "$tmp/b"
	cat "$tmp/a" "$tmp/a" "$tmp/b" "$tmp/a" "$tmp/b" "$tmp/b" \
		> "$source/repeats"
}

mount_image() { # MKFS-OPTION
	rm -f "$tmp/image"
	mkfs.erofs "$1" "$tmp/image" "$source" &&
		dd if="$tmp/image" of=/dev/mapper/$NAME bs=1M status=none &&
		mount -t erofs -o ro,dax=always /dev/mapper/$NAME "$mnt"
}

# Without DAX, the tests below would pass, too.
all_are_dax() {
	for file in "$mnt"/*; do
		attr=$(xfs_io -r -c "statx -r" "$file" |
			sed -n 's/^stat.attributes = //p')
		if [ $((attr & 0x200000)) -eq 0 ]; then # STATX_ATTR_DAX
			echo "$file: attributes $attr"
			return 1
		fi
	done
}

# One read(2) of each SIZE after the other, up to the end of the file.
read_in_order() { # SIZE...
	for file in "$mnt"/*; do
		for size; do
			dd if="$file" bs="$size" status=none |
				cmp - "$source/${file##*/}" || return
		done
	done
}

# One read(2) in a block, across blocks, and across the end of the file.
read_parts() {
	for part in "0 1" "4095 1" "4095 2" "4090 4106" "4096 4096" \
		"8000 16000" "12280 100" "299999 1" "299990 4096"; do
		# shellcheck disable=SC2086 # two words
		set -- $part
		for file in "$mnt"/*; do
			dd if="$file" bs="$2" skip="$1" iflag=skip_bytes \
				count=1 of="$tmp/got" status=none || return
			dd if="$source/${file##*/}" bs="$2" skip="$1" \
				iflag=skip_bytes count=1 of="$tmp/want" \
				status=none || return
			cmp "$tmp/got" "$tmp/want" || return
		done
	done
}

# A vector of two segments, and the splice of sendfile(2).
read_otherwise() {
	for file in "$mnt"/*; do
		xfs_io -r -c "pread -q -V 2 -b 8192 0 300000" "$file" || return
		xfs_io -f -t -c "sendfile -q -i $file 0 300000" "$tmp/got" ||
			return
		cmp "$tmp/got" "$source/${file##*/}" || return
	done
}

test_image() { # NAME MKFS-OPTION
	if ! mount_image "$2" > "$tmp/log" 2>&1; then
		sed 's/^/# | /' "$tmp/log"
		fail "$1: mkfs.erofs and mount"
		return
	fi
	check "$1: files are DAX" all_are_dax
	check "$1: in order" read_in_order 61 511 4096 5000 65536 1048576
	check "$1: parts" read_parts
	check "$1: vectors and splice" read_otherwise
	unmount "$mnt"
}

plan 8
make_files || exit 1
dmsetup create $NAME --table \
	"0 $(($(blockdev --getsz "$dev") - LABEL)) linear $dev $LABEL" || exit 1
test_image contiguous -Enoinline_data
test_image chunks --chunksize=4096
finish
