#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Measure the cost of finding completions of NVMe commands in a guest, by entering
# the kernel and by looking at the mapped completion queue.
#
#	nvme-reap.sh FOLDER-OF-THE-PROGRAMS insns|entries|profile RUNS ROUNDS DEPTH...
#	nvme-reap.sh FOLDER-OF-THE-PROGRAMS tail RUNS ROUNDS LIMIT OTHERS...
programs=$1
mode=$2
runs=$3
rounds=$4
shift 4
params=/sys/module/nvme/parameters

fail()
{
	echo "error $*"
	exit 1
}

# The polled queue's node; it comes with the scan after a reset.
poll_node()
{
	for attr in /sys/class/nvme-generic/ng0n1q*/user_queue/type; do
		[ "$(cat "$attr" 2>/dev/null)" = poll ] || continue
		node=${attr%/user_queue/type}
		echo "/dev/${node##*/}"
		return
	done
}

[ -b /dev/nvme0n1 ] || fail "the guest has no /dev/nvme0n1"
[ -e $params/user_poll_queues ] || fail "nvme has no user queues"
echo 1 >$params/user_poll_queues || fail "no user_poll_queues"
echo 1 >/sys/class/nvme/nvme0/reset_controller || fail "no reset"
tries=0
node=
while [ -z "$node" ] || [ ! -c "$node" ]; do
	tries=$((tries + 1))
	[ $tries -lt 10000 ] || fail "the user queue did not come up"
	node=$(poll_node)
done

echo 1 >"/sys/class/nvme-generic/${node##*/}/user_queue/claim" ||
	fail "the user queue cannot be claimed"

# A ring that ends lets go of its files a little later, and so of the claim.
unclaimed()
{
	tries=0
	while [ "$(cat "/sys/class/nvme-generic/${node##*/}/user_queue/claimed")" != 0 ]; do
		tries=$((tries + 1))
		[ $tries -lt 10000 ] || fail "the user queue is still claimed"
	done
}

beside()
{
	"$programs/nvme-reap" -v iopoll -m tail -r "$runs" -n "$rounds" "$@" \
		"$node" || exit 1
}

if [ "$mode" = tail ]; then
	limit=$1
	shift
	beside
	for others; do
		beside -o "$others"
		beside -o "$others" -l "$limit"
	done
	echo "complete $mode"
	exit
fi

for depth; do
	for variant in iopoll mmap; do
		unclaimed
		"$programs/nvme-reap" -v $variant -m "$mode" -d "$depth" \
			-r "$runs" -n "$rounds" "$node" || exit 1
	done
done
echo "complete $mode"
