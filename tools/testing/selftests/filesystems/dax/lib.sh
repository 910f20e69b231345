# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
#
# What the shell tests share: KTAP, a device that may be overwritten, ext4 on
# it, and ext4.dax_fast_read. Sourced with the current directory where the
# tests are.

KSFT_SKIP=4
FAST=/sys/module/ext4/parameters/dax_fast_read

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

# Runs a command as a test. What it says is shown when it fails, and seeds and
# what was skipped always; not so that it looks like results of this test.
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

# A test that has more to undo defines this before it calls "begin".
undo() {
	:
}

is_mounted() { # FOLDER
	grep -q " $1 " /proc/self/mounts
}

unmount() { # FOLDER
	! is_mounted "$1" || umount "$1"
}

# Undoes what is there to undo, of this run or of one that was killed.
cleanup() {
	undo
	unmount "$tmp/mnt"
}

# The guard runs the test again, to undo what it has done, when the test has ended.
# It also puts back parameters and removes $tmp.
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

# Sets $dev, or ends the test with the reason why there is none.
need_dev() { # 0|1
	dev=$(./dax_claim "$1") || skip_all "$dev"
}

need_tool() { # TOOL...
	for tool; do
		command -v "$tool" > /dev/null || skip_all "no $tool"
	done
}

need_ext4() {
	need_tool mkfs.ext4
	grep -qw ext4 /proc/filesystems || modprobe -q ext4 ||
		skip_all "no ext4"
}

# The paths that this kernel has; one word each.
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

# As dax_mkfs().
make_fs() { # DEVICE
	page=$(getconf PAGESIZE)
	journal=$((page / 1024))
	[ $journal -ge 8 ] || journal=8
	mkfs.ext4 -q -F -L dax-selftest -b "$page" -J size=$journal \
		-E nodiscard,lazy_journal_init=1 "$1"
}

# Nothing can be tested without; says why in the log of the runner.
need_fs() { # DEVICE
	make_fs "$1" > "$tmp/mkfs" 2>&1 && return
	sed 's/^/# | /' "$tmp/mkfs"
	echo "TAP version 13"
	echo "Bail out! no ext4 on $1"
	exit 1
}

# Sets $dir.
mount_fs() { # DEVICE
	mkdir -p "$tmp/mnt"
	mount -t ext4 -o dax=always "$1" "$tmp/mnt" || return
	dir=$tmp/mnt
}

finish() {
	exit $ktap_failed
}
