#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Check that the other tests do not touch devices that are in use, that contain
# data, or that are not emulated. Check that the tests restore parameters.

# The commands of "check" are called by name.
# shellcheck disable=SC2317

# shellcheck source=lib.sh
. ./lib.sh

need_dev
need_tool mkfs.ext4 mount mountpoint umount blkdiscard dmesg pgrep setsid unshare
grep -qw ext4 /proc/filesystems || modprobe -q ext4 || skip_all "no ext4"
blkdiscard --help | grep -q -e --zeroout || skip_all "blkdiscard has no -z"
./uq_check_devs disrupt > /dev/null || skip_all "$(./uq_check_devs disrupt)"
# Other tests do not see these mounts, and they end with this test.
[ -n "$UQ_SAFETY_APART" ] || exec env UQ_SAFETY_APART=1 unshare -m "$0"
need_queues

# Find two namespaces of one controller, and a namespace without a size. Names
# may change when a controller is scanned again, so the order is unknown. If the
# kernel does not support the metadata of a namespace, it has no size.
alone=
shared=
sizeless=
for dev in $UQ_TEST_DEV; do
	dev=${dev#/dev/}
	[ -n "$alone" ] || alone=$dev
	[ "$(cat "/sys/block/$dev/size")" -gt 0 ] || sizeless=$dev
	for other in $UQ_TEST_DEV; do
		other=${other#/dev/}
		if [ -z "$shared" ] && [ "$dev" != "$other" ] &&
		   [ "${dev%n*}" = "${other%n*}" ] &&
		   [ "$(cat "/sys/block/$other/size")" -gt 0 ]; then
			shared="$dev $other"
		fi
	done
done

# Let programs read another value from files.
mounted=
pretend() { # TEXT FILE...
	echo "$1" > "$tmp/text"
	shift
	for attr; do
		mount --bind "$tmp/text" "$attr" || return
		mounted="$attr $mounted"
	done
}

stop_pretending() {
	for attr in $mounted; do
		umount "$attr"
	done
	mounted=
}

undo() {
	stop_pretending
	! mountpoint -q "$tmp/mnt" || umount "$tmp/mnt"
	cleanup
}
trap undo EXIT

resets() {
	dmesg | grep -c 'user irq/poll queues, asked for'
}

# The end contains the label.
ends_of() { # BLOCK
	{
		head -c $((16 << 20)) "/dev/$1"
		tail -c $((1 << 20)) "/dev/$1"
	} | cksum
}

# Run a command with these devices. Check its exit code and its message. A
# command that fails must not reset a controller or write a block. With "unset",
# both variables are unset.
asked() { # CODE REASON DEVICES COMMAND...
	code=$1
	reason=$2
	devices=$3
	shift 3
	before=$(resets)
	sum=$(ends_of "$alone")
	if [ "$devices" = unset ]; then
		env -u UQ_TEST_SLOW_DEV -u UQ_TEST_DEV "$@" > "$tmp/said" 2>&1
	else
		env -u UQ_TEST_SLOW_DEV UQ_TEST_DEV="$devices" "$@" \
			> "$tmp/said" 2>&1
	fi
	got=$?
	cat "$tmp/said"
	[ "$got" -eq "$code" ] || return
	[ -z "$reason" ] || grep -q -e "$reason" "$tmp/said" || return
	[ "$code" -eq 0 ] || [ "$(resets)" -eq "$before" ] || return
	[ "$code" -eq 0 ] || [ "$(ends_of "$alone")" = "$sum" ]
}

in_use() {
	mkfs.ext4 -q -F "/dev/$alone" && mount -o ro "/dev/$alone" "$tmp/mnt" || return
	asked 4 "$alone is in use" "/dev/$alone" ./uq_errno
	got=$?
	umount "$tmp/mnt"
	return "$got"
}

neighbour_in_use() {
	# shellcheck disable=SC2086
	set -- $shared
	mkfs.ext4 -q -F "/dev/$2" && mount -o ro "/dev/$2" "$tmp/mnt" || return
	asked 4 "$2, which shares a controller with $1, is in use" "/dev/$1" \
		./uq_errno
	got=$?
	umount "$tmp/mnt"
	blkdiscard -f -z "/dev/$2"
	return "$got"
}

# A byte of data on a device without a label.
holds_data() {
	blkdiscard -f -z "/dev/$alone" || return
	printf x | dd of="/dev/$alone" bs=1 seek=$((8 << 20)) conv=notrunc \
		2> /dev/null
	asked 4 "$alone holds data" "/dev/$alone" ./uq_errno
}

blank() {
	blkdiscard -f -z "/dev/$alone" || return
	asked 0 "" "/dev/$alone" ./uq_check_devs || return
	tail -c 4096 "/dev/$alone" | grep -q -a uq-selftest
}

# A device with the label may be overwritten, whatever it contains.
labelled() {
	printf x | dd of="/dev/$alone" bs=1 seek=$((8 << 20)) conv=notrunc \
		2> /dev/null
	asked 0 "" "/dev/$alone" ./uq_check_devs
}

# Let the controller report another model.
other_model() { # CODE REASON COMMAND...
	code=$1
	reason=$2
	shift 2
	pretend "A drive that matters" "/sys/class/nvme/nvme$ctrl/model" || return
	asked "$code" "$reason" "/dev/$alone" "$@"
	got=$?
	stop_pretending
	return "$got"
}

# A namespace that the block layer cannot read may contain data.
no_size() {
	pretend "A drive that matters" /sys/class/nvme/nvme*/model || return
	asked 4 "$sizeless holds data" "/dev/$sizeless" ./uq_check_devs
	got=$?
	stop_pretending
	return "$got"
}

no_such_device() {
	asked 1 "no NVMe namespace" "/dev/$alone /dev/null" ./uq_errno
}

no_device() {
	asked 4 "UQ_TEST_DEV names no" "" ./uq_errno
}

# Without the variables, the tests find devices by model and serial number.
found() {
	env -u UQ_TEST_DEV -u UQ_TEST_SLOW_DEV ./uq_check_devs devs > "$tmp/found"
	cat "$tmp/found"
	grep -q -w "$alone" "$tmp/found"
}

not_found_with() { # ATTRIBUTE VALUE
	pretend "$2" "/sys/block/$alone/device/$1" || return
	found
	got=$?
	stop_pretending
	[ "$got" -ne 0 ]
}

none_found() {
	pretend 123456789 /sys/class/nvme-subsystem/nvme-subsys*/serial \
		/sys/class/nvme/nvme*/serial || return
	asked 4 "none of QEMU's has a serial number" unset ./uq_errno
	got=$?
	stop_pretending
	return "$got"
}

# Run in a session and process group of its own.
fuzz() { # OPERATIONS
	setsid env -u UQ_TEST_SLOW_DEV UQ_TEST_DEV="/dev/$alone" \
		UQ_TEST_FUZZ_OPS="$1" ./uq_fuzz -v sgl
}

# Zombies do not run. An init that does not reap orphans keeps them.
fuzz_runs() {
	for one in $(pgrep -x uq_fuzz); do
		! readlink "/proc/$one/exe" > /dev/null || return 0
	done
	return 1
}

# uq_fuzz reduces io_queue_depth while it runs.
start_fuzz() {
	depth=$(cat "$PARAMS/io_queue_depth")
	fuzz 2000000000 > "$tmp/fuzz" 2>&1 &
	pid=$!
	while [ "$(cat "$PARAMS/io_queue_depth")" = "$depth" ]; do
		kill -0 "$pid" || return
	done
	guard=$(pgrep -P "$pid" -x uq_fuzz)
}

TRACE=/sys/kernel/tracing/instances/uq_selftest

killed() { # SIGNAL
	start_fuzz || return
	# as tests do that read events
	mkdir "$TRACE" 2> /dev/null
	case $1 in
	# the process group of the program, as a runner does
	GROUP) kill -s KILL -- "-$guard" ;;
	# the child that watches the tests
	KEEPER) kill -KILL "$(pgrep -P "$guard")" ;;
	*) kill "-$1" "$guard" ;;
	esac
	wait "$pid" && return 1
	# a process outside of the group restores the settings
	while [ "$1" = GROUP ] && fuzz_runs; do
		:
	done
	[ "$(cat "$PARAMS/io_queue_depth")" = "$depth" ] || return
	[ ! -d "$TRACE" ] || return
	! fuzz_runs
}

# A kernel without CONFIG_NVME_UQ.
no_user_queues() {
	mkdir -p "$tmp/empty" && mount --bind "$tmp/empty" "$PARAMS" || return
	asked 4 "no user queues" "/dev/$alone" ./uq_errno &&
		asked 4 "no user queues" unset ./uq_errno
	got=$?
	umount "$PARAMS"
	return "$got"
}

# End a test while its controller is removed.
taken() { # FILE TEXT
	start_fuzz || return
	# stop the children: without a device they would end
	for one in $(pgrep -x uq_fuzz); do
		[ "$one" = "$guard" ] || kill -STOP "$one"
	done
	echo "$2" > "$1" && ! [ -b "/dev/$alone" ]
	got=$?
	kill -TERM "$guard"
	wait "$pid" && return 1
	[ "$got" -eq 0 ] || return
	tail -c 4096 "/dev/$alone" | grep -q -a uq-selftest
}

pci=$(cat "/sys/class/nvme/nvme$ctrl/address")
mkdir "$tmp/mnt"
plan 24
check "UQ_TEST_DEV is empty" no_device
check "UQ_TEST_DEV names no namespace" no_such_device
case $(cat "/sys/block/$alone/device/serial") in
uq-selftest-*)
	check "find a namespace of QEMU by its serial number" found
	check "do not find a namespace of another model" \
		not_found_with model "A drive that matters"
	check "do not find a namespace with another serial number" \
		not_found_with serial "123456789"
	;;
*)
	for name in "find a namespace of QEMU by its serial number" \
		"do not find a namespace of another model" \
		"do not find a namespace with another serial number"; do
		skip "$name" "$alone has no serial number of these tests"
	done
	;;
esac
check "skip if there is no such namespace" none_found
check "refuse a namespace in use" in_use
if [ -n "$shared" ]; then
	check "refuse a namespace of a controller in use" neighbour_in_use
else
	skip "refuse a namespace of a controller in use" \
		"no two namespaces of one controller were named"
fi
check "refuse a namespace with data" holds_data
check "accept and label a blank namespace" blank
check "accept a labelled namespace" labelled
check "do not reset a controller of another model" \
	other_model 4 'is not "QEMU NVMe Ctrl"' ./uq_reset
check "do not affect other namespaces of another model" \
	other_model 4 'is not "QEMU NVMe Ctrl"' ./uq_check_devs disrupt
check "test a namespace of another model" \
	other_model 0 "" ./uq_errno -t command_flags
if [ -n "$sizeless" ]; then
	check "refuse a namespace without a size" no_size
else
	skip "refuse a namespace without a size" "all named namespaces have a size"
fi
check "UQ_TEST_DESTRUCTIVE=1 allows all effects" \
	other_model 0 "" env UQ_TEST_DESTRUCTIVE=1 ./uq_check_devs disrupt
check "skip on a kernel without user queues" no_user_queues
for signal in TERM INT; do
	check "restore parameters after SIG$signal" killed $signal
done
check "restore parameters after SIGKILL of the watcher" killed KEEPER
check "restore parameters after SIGKILL of the group" killed GROUP
check "bind an unbound controller again" \
	taken /sys/bus/pci/drivers/nvme/unbind "$pci"
check "rescan a removed controller" \
	taken "/sys/bus/pci/devices/$pci/remove" 1
check "a killed test runs again" \
	fuzz 1000
finish
