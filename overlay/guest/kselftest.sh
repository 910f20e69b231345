#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Run installed kselftests in a guest: kselftest.sh FOLDER [OPTION...]
# The options are those of run_kselftest.sh.
folder=$1
shift

# The devices of this guest are there to be written to; on a machine of
# flesh and blood the tests want them named before they touch any.
export DAX_TEST_DEV=/dev/pmem0
export DAX_TEST_DEV2=/dev/pmem1
UQ_TEST_DEV=
for disk in /sys/block/nvme*n*; do
	[ -b "/dev/${disk##*/}" ] || continue
	# Which is which is in the serial number: engine/disks.py.
	case $(cat "$disk/device/serial") in
	overlay-main*) UQ_TEST_DEV="/dev/${disk##*/} $UQ_TEST_DEV" ;;
	overlay-slow*) export UQ_TEST_SLOW_DEV="/dev/${disk##*/}" ;;
	overlay-*) UQ_TEST_DEV="$UQ_TEST_DEV /dev/${disk##*/}" ;;
	esac
done
export UQ_TEST_DEV

# devtmpfs has every node; what udev does to each namespace that comes and goes
# only takes the emulated processor's time.
! command -v udevadm >/dev/null || udevadm control --exit

cd "$folder" || exit 1
exec ./run_kselftest.sh "$@"
