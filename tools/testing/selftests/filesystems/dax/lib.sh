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
was_fast=

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

# A test that has more to undo defines this.
undo() {
	:
}

cleanup() {
	undo
	[ -z "$dir" ] || umount "$dir"
	[ -z "$was_fast" ] || echo "$was_fast" > $FAST
	rm -rf "$tmp"
}

begin() {
	tmp=$(mktemp -d "${TMPDIR:-/tmp}/dax.XXXXXX") || exit 1
	trap cleanup EXIT
	trap 'exit 1' HUP INT TERM
	[ ! -e $FAST ] || was_fast=$(cat $FAST)
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

make_fs() { # DEVICE
	mkfs.ext4 -q -F -L dax-selftest -b "$(getconf PAGESIZE)" -J size=8 \
		-E nodiscard,lazy_journal_init=1 "$1"
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
