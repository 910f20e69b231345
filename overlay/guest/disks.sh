# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
# The NVMe devices of a guest are there to be written to; on a machine of flesh
# and blood the tests want them named before they touch any.
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
