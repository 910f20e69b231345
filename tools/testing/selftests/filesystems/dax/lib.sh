# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
#
# Shared code of the shell tests: KTAP, a device that may be overwritten, ext4
# on it, and dax_read.fast. Source this file in the directory of the tests.

KSFT_SKIP=4
FAST=/sys/module/dax_read/parameters/fast

# Sectors at the start of a device that stay unchanged: the label of the tests is
# there.
# shellcheck disable=SC2034 # the tests use it
LABEL=2048

# The nodes of device mapper exist when dmsetup returns, with and without udev.
export DM_DISABLE_UDEV=1

ktap_nr=0
ktap_failed=0
tmp=
dir=

plan() { # NUMBER
	echo "TAP version 13"
	echo "1..$1"
}

skip_all() { # REASON
	echo "TAP version 13"
	echo "1..0 # SKIP $*"
	exit $KSFT_SKIP
}

pass() { # NAME
	ktap_nr=$((ktap_nr + 1))
	echo "ok $ktap_nr $1"
}

fail() { # NAME
	ktap_nr=$((ktap_nr + 1))
	ktap_failed=1
	echo "not ok $ktap_nr $1"
}

skip() { # NAME REASON
	ktap_nr=$((ktap_nr + 1))
	echo "ok $ktap_nr $1 # SKIP $2"
}

# Run a command as a test. The output is printed if the command fails; seeds and
# skips are always printed. The prefix keeps the output apart from the results
# of this test.
check() { # NAME COMMAND...
	check_name=$1
	shift
	"$@" > "$tmp/log" 2>&1
	check_ret=$?
	if [ $check_ret -eq 0 ]; then
		sed -n '/SEED\|SKIP/s/^/# | /p' "$tmp/log"
		pass "$check_name"
	else
		sed 's/^/# | /' "$tmp/log"
		fail "$check_name"
	fi
}

# A test with more to undo redefines this before it calls "begin".
undo() {
	:
}

is_mounted() { # DIRECTORY
	grep -q " $1 " /proc/self/mounts
}

unmount() { # DIRECTORY
	! is_mounted "$1" || umount "$1"
}

remove_dm() { # NAME
	# A prober of new devices may have the device open for a moment.
	! dmsetup info "$1" > /dev/null 2>&1 || dmsetup remove --retry "$1"
}

# Undo the changes of this run, or of a run that was killed.
cleanup() {
	undo
	unmount "$tmp/mnt"
}

# When the test has ended, the guard runs it again to undo its changes. The
# guard also restores parameters and removes $tmp.
begin() {
	[ -x ./dax_claim ] || skip_all "dax_claim was not built"
	[ -n "$DAX_TEST_GUARDED" ] || exec ./dax_claim guard "$0"
	unset DAX_TEST_GUARDED
	tmp=$TMPDIR
	if [ -n "$DAX_TEST_UNDO" ]; then
		cleanup
		exit 0
	fi
	trap cleanup EXIT
	trap 'exit 1' HUP INT TERM
}

# Set $dev, or skip all tests with a reason.
need_dev() { # 0|1
	dev=$(./dax_claim "$1") || skip_all "$dev"
}

need_tool() { # TOOL...
	for tool; do
		command -v "$tool" > /dev/null || skip_all "no $tool"
	done
}

has_fs() { # TYPE
	grep -qw "$1" /proc/filesystems || modprobe -q "$1"
}

# Like dax_skips_bug().
has_fixes() {
	grep -q " dax_drop_replaced_range$" /proc/kallsyms
}

need_ext4() {
	need_tool mkfs.ext4
	has_fs ext4 || skip_all "no ext4"
}

# Print the read paths of this kernel, one word each.
paths() {
	[ ! -e $FAST ] || echo fast
	echo generic
}

use_path() { # fast|generic
	[ -e $FAST ] || return 0
	case $1 in
	fast) echo Y > $FAST ;;
	*) echo N > $FAST ;;
	esac
}

# Like dax_mkfs().
make_fs() { # DEVICE
	page=$(getconf PAGESIZE)
	journal=$((page / 1024))
	[ $journal -ge 8 ] || journal=8
	mkfs.ext4 -q -F -L dax-selftest -b "$page" -J size=$journal \
		-E nodiscard,lazy_journal_init=1 "$1"
}

# Make the filesystem. No test can run without it, so print why mkfs failed.
need_fs() { # DEVICE
	make_fs "$1" > "$tmp/mkfs" 2>&1 && return
	sed 's/^/# | /' "$tmp/mkfs"
	bail_out "no ext4 on $1"
}

# End the test before its plan.
bail_out() { # REASON
	echo "TAP version 13"
	echo "Bail out! $1"
	exit 1
}

# Mount the device and set $dir. No test can run without it.
mount_fs() { # DEVICE
	mkdir -p "$tmp/mnt"
	mount -t ext4 -o dax=always "$1" "$tmp/mnt" ||
		bail_out "cannot mount ext4 on $1"
	# shellcheck disable=SC2034 # the tests use it
	dir=$tmp/mnt
}

finish() {
	exit $ktap_failed
}
