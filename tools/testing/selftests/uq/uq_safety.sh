#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# That the other tests keep their hands off: devices that are in use, that hold
# data, or that are not emulated; and that they leave parameters as they were.

# The commands of "check" are called by name.
# shellcheck disable=SC2317

# shellcheck source=lib.sh
. ./lib.sh

need_dev
need_tool mkfs.ext4 mount mountpoint umount blkdiscard dmesg pgrep setsid
./uq_check_devs disrupt > /dev/null || skip_all "$(./uq_check_devs disrupt)"
need_queues

# A namespace that shares its controller with the one before it. Names change
# places when a controller is scanned again, and without support of its metadata
# in the kernel a namespace has no size.
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

# Has files say something else, as far as programs can see.
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

# The end is where a label would be.
ends_of() { # BLOCK
	{
		head -c 16M "/dev/$1"
		tail -c 1M "/dev/$1"
	} | cksum
}

# What the exit code of a program that is given these devices is, and what it
# says; it must not have reset a controller or written a block. "unset": it is
# given none, and may look for some.
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

# One byte in the middle of a device that has no label.
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

# With its label it is ours, whatever is on it.
labelled() {
	printf x | dd of="/dev/$alone" bs=1 seek=$((8 << 20)) conv=notrunc \
		2> /dev/null
	asked 0 "" "/dev/$alone" ./uq_check_devs
}

# A controller of another model.
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

# What cannot be read as a block device may hold data for others.
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

# What no variable names is found, if its model and serial number say so.
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

# In a session, and a process group, of its own.
fuzz() { # OPERATIONS
	setsid env -u UQ_TEST_SLOW_DEV UQ_TEST_DEV="/dev/$alone" \
		UQ_TEST_FUZZ_OPS="$1" ./uq_fuzz -v sgl
}

# uq_fuzz makes queues short for as long as it runs.
start_fuzz() {
	depth=$(cat "$PARAMS/io_queue_depth")
	fuzz 2000000000 > "$tmp/fuzz" 2>&1 &
	pid=$!
	while [ "$(cat "$PARAMS/io_queue_depth")" = "$depth" ]; do
		kill -0 "$pid" || return
	done
	guard=$(pgrep -o -x uq_fuzz)
}

killed() { # SIGNAL
	start_fuzz || return
	case $1 in
	# the process group of the program, as a runner does it
	GROUP) kill -s KILL -- "-$guard" ;;
	# what looks after the tests
	KEEPER) kill -KILL "$(pgrep -P "$guard")" ;;
	*) kill "-$1" "$guard" ;;
	esac
	wait "$pid" && return 1
	# who puts back what a group has left is not of the group
	while [ "$1" = GROUP ] && pgrep -x uq_fuzz > /dev/null; do
		:
	done
	[ "$(cat "$PARAMS/io_queue_depth")" = "$depth" ] || return
	! pgrep -x uq_fuzz
}

# A kernel without user queues, or without CONFIG_NVME_UQ.
no_user_queues() {
	mkdir -p "$tmp/empty" && mount --bind "$tmp/empty" "$PARAMS" || return
	asked 4 "no user queues" "/dev/$alone" ./uq_errno &&
		asked 4 "no user queues" unset ./uq_errno
	got=$?
	umount "$PARAMS"
	return "$got"
}

# A test is ended where it has taken the controller away.
taken() { # FILE TEXT
	start_fuzz || return
	# it is not to end by itself, without a device
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
check "no device was named" no_device
check "what was named is no namespace" no_such_device
case $(cat "/sys/block/$alone/device/serial") in
uq-selftest-*)
	check "a device of QEMU's with our serial number is found" found
	check "not if it is of another model" \
		not_found_with model "A drive that matters"
	check "nor if its serial number is another" \
		not_found_with serial "123456789"
	;;
*)
	for name in "a device of QEMU's with our serial number is found" \
		"not if it is of another model" \
		"nor if its serial number is another"; do
		skip "$name" "$alone has no serial number of these tests"
	done
	;;
esac
check "without any such device nothing is touched" none_found
check "a device in use is refused" in_use
if [ -n "$shared" ]; then
	check "so is one that shares its controller with one" neighbour_in_use
else
	skip "so is one that shares its controller with one" \
		"no two namespaces of one controller were named"
fi
check "a device that holds data is refused" holds_data
check "a blank device is taken, and labelled" blank
check "a labelled device is taken" labelled
check "no reset of a controller of another model" \
	other_model 4 'is not "QEMU NVMe Ctrl"' ./uq_reset
check "nor anything else that reaches beyond a namespace" \
	other_model 4 'is not "QEMU NVMe Ctrl"' ./uq_check_devs disrupt
check "its namespace is tested all the same" \
	other_model 0 "" ./uq_errno -t command_flags
if [ -n "$sizeless" ]; then
	check "one without a size is refused" no_size
else
	skip "one without a size is refused" "all that were named have one"
fi
check "with UQ_TEST_DESTRUCTIVE=1 all is" \
	other_model 0 "" env UQ_TEST_DESTRUCTIVE=1 ./uq_check_devs disrupt
check "a kernel without user queues is a skip" no_user_queues
for signal in TERM INT; do
	check "parameters are put back after SIG$signal" killed $signal
done
check "after SIGKILL of what looks after the tests" killed KEEPER
check "after SIGKILL of the process group" killed GROUP
check "a controller without its driver has it again" \
	taken /sys/bus/pci/drivers/nvme/unbind "$pci"
check "a controller that was removed is found again" \
	taken "/sys/bus/pci/devices/$pci/remove" 1
check "what was killed works when it is run again" \
	fuzz 1000
finish
