# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
# The tests find the NVMe devices of a guest by their serial numbers. devtmpfs has
# every node; what udev does to each namespace that comes and goes only takes the
# emulated processor's time.
! command -v udevadm >/dev/null || udevadm control --exit
