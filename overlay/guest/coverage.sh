#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Save what gcov has counted in this guest: coverage.sh BUILD FOLDER
#
# The kernel names its counters after the objects, by their whole path.
build=$1
into=$2
gcov=/sys/kernel/debug/gcov

mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
cd "$gcov$build" || exit 1
find . -name '*.gcda' | while read -r data; do
	mkdir -p "$into/${data%/*}"
	# Their size reads as 0, so that cp would take them for empty.
	cat "$data" >"$into/$data" || echo "# $data was not saved"
done
