#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Check user queues when the system goes down: restart.sh FOLDER KERNEL
#
# The system goes down twice with commands in flight: first into a kernel that this
# one loads, which runs this script again, then for good. This script prints the end
# mark before that, and the engine checks that the guest ended.
kernel=$2

# shellcheck source=disks.sh
. "${0%/*}/disks.sh"
cd "$1/uq" || exit 1

echo "TAP version 13"
echo "1..2"
case $(cat /proc/cmdline) in
*uq_restarted*) ;;
*)
	./uq_kexec kexec "$kernel" "$(cat /proc/cmdline) uq_restarted"
	echo "not ok 1 another kernel takes over with commands in flight"
	exit 1
	;;
esac

echo "ok 1 another kernel takes over with commands in flight"
if ./uq_kexec check; then
	echo "ok 2 it finds devices that work"
else
	echo "not ok 2 it finds devices that work"
fi
echo "# overlay: end"
exec ./uq_kexec off
