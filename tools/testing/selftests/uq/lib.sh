# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
#
# Helpers of the shell tests: TAP, a namespace that may be overwritten, and the
# nodes of its user queues. UQ_TEST_DEV is as in uq.h.

KSFT_SKIP=4
PARAMS=/sys/module/nvme/parameters
GENERIC=/sys/class/nvme-generic

tap_nr=0
tap_failed=0
tmp=
old_irq=
old_poll=

plan() { # NUMBER
	echo "TAP version 13"
	echo "1..$1"
}

skip_all() { # REASON
	echo "TAP version 13"
	echo "1..0 # SKIP $*"
	exit $KSFT_SKIP
}

# For a named device that lacks a required feature.
fail_all() { # REASON
	echo "TAP version 13"
	echo "Bail out! $*"
	exit 1
}

pass() { # NAME
	tap_nr=$((tap_nr + 1))
	echo "ok $tap_nr $1"
}

fail() { # NAME
	tap_nr=$((tap_nr + 1))
	tap_failed=1
	echo "not ok $tap_nr $1"
}

skip() { # NAME REASON
	tap_nr=$((tap_nr + 1))
	echo "ok $tap_nr $1 # SKIP $2"
}

# Run a command as a test; show its output if it fails.
check() { # NAME COMMAND...
	check_name=$1
	shift
	if "$@" > "$tmp/log" 2>&1; then
		pass "$check_name"
	else
		sed 's/^/# | /' "$tmp/log"
		fail "$check_name"
	fi
}

need_tool() { # TOOL...
	for tool; do
		command -v "$tool" > /dev/null || skip_all "no $tool"
	done
}

cleanup() {
	[ -z "$old_irq" ] || echo "$old_irq" > $PARAMS/user_irq_queues
	[ -z "$old_poll" ] || echo "$old_poll" > $PARAMS/user_poll_queues
	rm -rf "$tmp"
}

# Print the number of the controller of a namespace, if there is only one. With
# native multipath, the parent of the device is a subsystem, which contains the
# controllers.
ctrl_of() { # BLOCK
	device=$(readlink -f "/sys/block/$1/device")
	if [ ! -e "$device/cntlid" ]; then
		set -- "$device"/nvme*/cntlid
		[ $# -eq 1 ] || return 0
		device=${1%/cntlid}
	fi
	echo "${device##*/nvme}"
}

# Set $block, $ctrl (number of the controller) and $head for the first
# namespace. Run the test again in a guard, which restores parameters.
need_dev() {
	[ -x ./uq_check_devs ] || skip_all "built without liburing 2.3 or later"
	why=$(./uq_check_devs)
	case $? in
	0) ;;
	"$KSFT_SKIP") skip_all "$why" ;;
	*) fail_all "$why" ;;
	esac
	[ -n "$UQ_TEST_GUARDED" ] || exec ./uq_check_devs guard "$0"
	if [ -z "${UQ_TEST_DEV+set}${UQ_TEST_SLOW_DEV+set}" ]; then
		devs=$(./uq_check_devs devs)
		slow=$(./uq_check_devs slow)
		export UQ_TEST_DEV="$devs" UQ_TEST_SLOW_DEV="$slow"
	fi
	block=${UQ_TEST_DEV%% *}
	block=${block#/dev/}
	ctrl=$(ctrl_of "$block")
	head=${block##*n}
	[ -n "$ctrl" ] ||
		skip_all "$block has several paths; name one without"
}

# Print the name of the first node of a kind.
node_of() { # irq|poll
	for node in "$GENERIC/ng${ctrl}n${head}q"*; do
		[ "$(cat "$node/user_queue/type" 2> /dev/null)" = "$1" ] ||
			continue
		[ "$(cat "$node/user_queue/state")" != unavailable ] ||
			continue
		echo "${node##*/}"
		return
	done
}

# Create a temporary directory, $tmp. Restore everything at exit.
begin() {
	tmp=$(mktemp -d "${TMPDIR:-/tmp}/uq.XXXXXX") || exit 1
	old_irq=$(cat $PARAMS/user_irq_queues)
	old_poll=$(cat $PARAMS/user_poll_queues)
	trap cleanup EXIT
	trap 'exit 1' HUP INT TERM
}

# Set $irq and $poll to nodes of these kinds.
need_queues() {
	begin
	if [ -z "$(node_of irq)" ] || [ -z "$(node_of poll)" ]; then
		why=$(./uq_check_devs disrupt) ||
			skip_all "nvme$ctrl has no user queues; a reset $why"
		echo 2 > $PARAMS/user_irq_queues
		echo 2 > $PARAMS/user_poll_queues
		echo 1 > "/sys/class/nvme/nvme$ctrl/reset_controller"
	fi
	tries=0
	irq=
	poll=
	# the scan after a reset creates the nodes
	while [ -z "$irq" ] || [ -z "$poll" ]; do
		tries=$((tries + 1))
		[ $tries -lt 10000 ] || fail_all "no user queues of both kinds"
		irq=$(node_of irq)
		poll=$(node_of poll)
	done
}

attr() { # NODE NAME
	cat "$GENERIC/$1/user_queue/$2"
}

finish() {
	exit $tap_failed
}
