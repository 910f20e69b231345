#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# In a guest: instructions per NVMe command, by block device, passthrough, user
# queue, user queue with memory of the open file, and READ and WRITE on a user queue.
#
#	nvme-bench.sh FOLDER-OF-THE-PROGRAMS all|few|off|grow|profile|lines|strict|lazy RUNS
#
# A kernel without user queues has the other two only, and passthrough as it is
# upstream; in one with them passthrough is trimmed.
programs=$1
which=$2
runs=$3
params=/sys/module/nvme/parameters
# Not for long, as the timer ticks; the program doubles it for as long as needed.
spin=100000
possible=
trimmed=
[ ! -e $params/user_irq_queues ] || trimmed=-trimmed

fail()
{
	echo "error $*"
	exit 1
}

# cell VARIANT poll|irq OPTION...
cell()
{
	variant=$1
	mode=$2
	shift 2
	case $variant-$mode in
	block-*) node=/dev/nvme0n1 ;;
	passthru-*)
		variant=passthru$trimmed
		node=/dev/ng0n1
		;;
	uq-irq | uq-memory-irq | uq-rw-irq) node=$irq_node ;;
	uq-poll | uq-memory-poll | uq-rw-poll) node=$poll_node ;;
	esac
	[ -n "$node" ] || return 0
	[ "$mode" = irq ] || set -- -p "$@"
	"$programs/nvme-bench" -v "$variant" -r "$runs" -n 12 -w "$spin" \
		-x "queues=$queues iommu=$iommu$possible" "$@" "$node" || exit 1
}

# Memory of the open file is beside registered buffers, which it takes the place of.
# It is not made of pieces that lie apart.
memory()
{
	case " $* " in
	*" -a "*) ;;
	*" -f "*) cell uq-memory "$@" ;;
	esac
}

variants()
{
	cell block "$@"
	cell passthru "$@"
	cell uq "$@"
	memory "$@"
	cell uq-rw "$@"
}

# The same without the block device.
behind()
{
	cell passthru "$@"
	cell uq "$@"
	memory "$@"
	cell uq-rw "$@"
}

nop()
{
	"$programs/nvme-bench" -v nop -b "$1" -r "$runs" -n 12 || exit 1
}

# The first node of a kind; nodes come with the scan after a reset.
first_node()
{
	for attr in /sys/class/nvme-generic/ng0n1q*/user_queue/type; do
		[ "$(cat "$attr" 2>/dev/null)" = "$1" ] || continue
		node=${attr%/user_queue/type}
		echo "/dev/${node##*/}"
		return
	done
}

# with_queues N: N user queues of each kind
with_queues()
{
	irq_node=
	poll_node=
	queues=$((2 * $1))
	[ -e $params/user_irq_queues ] || return 0
	echo "$1" >$params/user_irq_queues || fail "no $1 user_irq_queues"
	echo "$1" >$params/user_poll_queues || fail "no $1 user_poll_queues"
	echo 1 >/sys/class/nvme/nvme0/reset_controller || fail "no reset"
	[ "$1" -gt 0 ] || return 0
	tries=0
	while [ -z "$irq_node" ] || [ -z "$poll_node" ]; do
		tries=$((tries + 1))
		[ $tries -lt 10000 ] || fail "the user queues did not come up"
		irq_node=$(first_node irq)
		poll_node=$(first_node poll)
	done
}

few()
{
	nop 32
	with_queues 1
	for mode in poll irq; do
		for batch in 1 32; do
			variants "$mode" -f -b "$batch"
		done
	done
}

# Without user queues: the cost of the feature for others.
off()
{
	with_queues 0
	for mode in poll irq; do
		for batch in 1 32; do
			cell block "$mode" -f -b "$batch"
			cell passthru "$mode" -f -b "$batch"
		done
	done
}

all()
{
	for batch in 1 2 8 32; do
		nop "$batch"
	done
	off
	with_queues 1
	for mode in poll irq; do
		for batch in 1 2 8 32; do
			variants "$mode" -f -b "$batch"
		done
		variants "$mode" -b 2
		variants "$mode" -b 32
		for bs in 4096 131072; do
			variants "$mode" -f -b 32 -s "$bs"
			variants "$mode" -b 32 -s "$bs"
		done
		variants "$mode" -f -b 32 -s 131072 -a
		variants "$mode" -b 32 -s 131072 -a
		variants "$mode" -f -b 32 -o write
		for depth in 64 128 256; do
			variants "$mode" -f -b 32 -d "$depth"
		done
	done
}

# Behind an IOMMU, which the guest has for that.
behind_iommu()
{
	[ "$iommu" = "$which" ] || fail "the IOMMU is $iommu, not $which"
	nop 32
	with_queues 1
	for mode in poll irq; do
		behind "$mode" -f -b 1
		for bs in 512 4096 131072; do
			behind "$mode" -f -b 32 -s "$bs"
			behind "$mode" -b 32 -s "$bs"
		done
		behind "$mode" -f -b 32 -s 131072 -a
		behind "$mode" -b 32 -s 131072 -a
	done
}

# Does a command cost more where there are more queues? The number of processors
# that the machine may have bounds that of queues.
grow()
{
	possible=" possible=4"
	for number in 1 4; do
		with_queues $number
		for mode in poll irq; do
			cell uq "$mode" -f -b 32
		done
	done
}

# Instructions by function, also with a deep ring.
profile()
{
	with_queues 1
	for mode in poll irq; do
		variants "$mode" -P -f -b 32
		variants "$mode" -P -f -b 1
	done
	for depth in 128 256; do
		cell passthru poll -P -f -b 32 -d "$depth"
		cell uq poll -P -f -b 32 -d "$depth"
	done
}

# The cache lines of a pass, by tasks on so many processors that take turns. With
# interrupts there is one: those of the others would come while its turn is over.
lines()
{
	with_queues 1
	# lines do not depend on how long reaping looks for completions
	spin=20000
	"$programs/nvme-bench" -v nop -c 4 || exit 1
	for batch in 1 32; do
		for cpus in 1 2 4; do
			variants poll -f -b "$batch" -c "$cpus"
		done
		variants irq -f -b "$batch" -c 1 -w 100000
	done
}

[ -b /dev/nvme0n1 ] || fail "the guest has no /dev/nvme0n1"
# The kernel's messages about mappings of the device.
case $(cat /sys/class/nvme/nvme0/device/iommu_group/type 2>/dev/null) in
DMA) iommu=strict ;;
DMA-FQ) iommu=lazy ;;
*) iommu=off ;;
esac
case $which in
all | few | off | grow | profile | lines) $which ;;
strict | lazy) behind_iommu ;;
*) fail "nvme-bench.sh knows all, few, off, grow, profile, lines, strict and lazy, not $which" ;;
esac
echo "complete $which"
