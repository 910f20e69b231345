#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Load modules with KUnit suites, and print the result of each suite:
# kunit.sh BUILD MODULE...
build=$1
shift
results=/sys/kernel/debug/kunit

mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
for module in "$@"; do
	insmod "$build/$module" || echo "Bail out! $module cannot be loaded"
done
# Each is KTAP of its own.
cat "$results"/*/results
