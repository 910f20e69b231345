#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Programs that use the generic node and were not written for user queues work
# on their nodes: fio with io_uring_cmd, nvme-cli, dd, cmp and the other fio
# engines.

# "check" calls these functions by name.
# shellcheck disable=SC2317

# shellcheck source=lib.sh
. ./lib.sh

need_dev
need_tool fio nvme cmp
fio --enghelp 2> /dev/null | grep -q io_uring_cmd ||
	skip_all "this fio has no io_uring_cmd"
need_queues

# Write and verify with several jobs. The queue must have counted the commands.
run_fio() { # NODE OPTION...
	node=$1
	shift
	before=$(attr "$node" completed)
	fio --name=uq --ioengine=io_uring_cmd --cmd_type=nvme \
		--filename="/dev/$node" --rw=randrw --verify=crc32c \
		--verify_fatal=1 --verify_state_save=0 --bs=4k --size=4m \
		--offset_increment=4m --numjobs=4 --iodepth=16 --thread=1 \
		--group_reporting --minimal "$@" || return
	[ "$(attr "$node" in_flight)" -eq 0 ] || return
	[ $(($(attr "$node" completed) - before)) -ge 256 ]
}

# fio writes through the node and verifies through the block device.
fio_and_block() { # NODE OPTION...
	node=$1
	shift
	fio --name=uq --ioengine=io_uring_cmd --cmd_type=nvme "$@" \
		--filename="/dev/$node" --rw=write --verify=crc32c --do_verify=0 \
		--verify_state_save=0 --bs=16k --size=4m --minimal || return
	fio --name=uq --ioengine=psync --filename="/dev/$block" --direct=1 \
		--rw=read --verify=crc32c --verify_fatal=1 --bs=16k --size=4m \
		--verify_state_save=0 --minimal
}

id_ns() { # NODE
	nvme id-ns "/dev/$1" > "$tmp/ours" || return
	nvme id-ns "/dev/$block" > "$tmp/theirs" || return
	sed -i 1d "$tmp/ours" "$tmp/theirs"
	cmp "$tmp/ours" "$tmp/theirs"
}

id_ctrl() { # NODE
	nvme id-ctrl "/dev/$1" > "$tmp/ours" || return
	grep -q '^sn ' "$tmp/ours"
}

cli_write_read() { # NODE
	dd if=/dev/urandom of="$tmp/data" bs=4096 count=1 2> /dev/null
	nvme write "/dev/$1" -s 64 -c "$blocks" -z 4096 -d "$tmp/data" || return
	dd if="/dev/$block" of="$tmp/seen" bs=4096 skip=$((64 * lba / 4096)) \
		count=1 iflag=direct 2> /dev/null
	cmp "$tmp/data" "$tmp/seen" || return
	nvme read "/dev/$1" -s 64 -c "$blocks" -z 4096 -d "$tmp/back" || return
	cmp "$tmp/data" "$tmp/back"
}

cli_compare() { # NODE
	nvme compare "/dev/$1" -s 64 -c "$blocks" -z 4096 -d "$tmp/data"
}

cli_compare_other() { # NODE
	dd if=/dev/urandom of="$tmp/other" bs=4096 count=1 2> /dev/null
	! nvme compare "/dev/$1" -s 64 -c "$blocks" -z 4096 -d "$tmp/other"
}

cli_flush() { # NODE
	nvme flush "/dev/$1" -n "$nsid"
}

# The node and the block device have the same content.
rw_dd() { # NODE
	dd if=/dev/urandom of="$tmp/file" bs=64k count=33 2> /dev/null
	dd if="$tmp/file" of="/dev/$1" bs=64k seek=8 conv=fsync,notrunc || return
	dd if="/dev/$block" of="$tmp/file.seen" bs=64k skip=8 count=33 \
		iflag=direct || return
	cmp "$tmp/file" "$tmp/file.seen" || return
	dd if="/dev/$1" of="$tmp/file.back" bs=16k skip=32 count=132 || return
	cmp "$tmp/file" "$tmp/file.back"
}

rw_cmp() { # NODE
	cmp -n 4194304 "/dev/$1" "/dev/$block" || return
	# same with an offset, and two offsets that differ
	cmp -n 65536 "/dev/$1" "/dev/$block" -i 524288 || return
	! cmp -s -n 65536 "/dev/$1" "/dev/$block" -i 524288:589824
}

rw_whole() { # NODE
	size=$(blockdev --getsize64 "/dev/$block")
	[ "$(blockdev --getsize64 "/dev/$1")" -eq "$size" ] || return
	[ "$(blockdev --getss "/dev/$1")" -eq "$lba" ] || return
	dd if="/dev/$1" of=/dev/null bs=1M 2> "$tmp/dd" || return
	grep -q "^$size bytes" "$tmp/dd" || return
	# a write beyond the end fails
	! dd if=/dev/zero of="/dev/$1" bs="$lba" count=1 \
		seek=$((size / lba)) 2> /dev/null
}

rw_fio() { # NODE OPTION...
	node=$1
	shift
	before=$(attr "$node" completed)
	fio --name=uq --filename="/dev/$node" --direct=1 --rw=randrw \
		--verify=crc32c --verify_fatal=1 --verify_state_save=0 --bs=4k \
		--size=2m --offset_increment=2m --numjobs=2 --iodepth=16 \
		--thread=1 --group_reporting --minimal "$@" || return
	[ "$(attr "$node" in_flight)" -eq 0 ] || return
	[ $(($(attr "$node" completed) - before)) -ge 256 ]
}

# The queue counts the commands of uq_bench, and wrong arguments cause an error
# message. uq_bench runs 256 commands before it starts to measure.
run_bench() { # NODE OPTION...
	node=$1
	shift
	before=$(attr "$node" completed)
	./uq_bench --commands=200 --batch=8 --depth=64 --lba="$lba" \
		--size=4096 --range=1048576 "$@" "/dev/$node" > "$tmp/bench" ||
		return
	grep -Eq '^size=4096 batch=8 .* commands=200 ns=[0-9.]+ instructions=' \
		"$tmp/bench" || return
	[ $(($(attr "$node" completed) - before)) -eq 456 ] || return
	./uq_bench --batch=2 --depth=1 "/dev/$node" 2> "$tmp/bench" && return 1
	grep -q "the depth has to be a batch at least" "$tmp/bench"
}

lba=$(cat "/sys/block/$block/queue/logical_block_size")
blocks=$((4096 / lba - 1))
nsid=$(cat "/sys/block/$block/nsid")

plan 40
for kind in irq poll; do
	if [ $kind = irq ]; then
		node=$irq
		hipri=
	else
		node=$poll
		hipri=--hipri=1
	fi
	# shellcheck disable=SC2086
	{
		check "$kind: fio, plain buffers" run_fio "$node" $hipri
		check "$kind: fio, fixed buffers" run_fio "$node" $hipri \
			--fixedbufs=1
		check "$kind: fio, registered files, batches" run_fio "$node" \
			$hipri --fixedbufs=1 --registerfiles=1 \
			--iodepth_batch_submit=8 --iodepth_batch_complete_max=8
		check "$kind: fio, large blocks" run_fio "$node" $hipri \
			--bsrange=4k-128k --size=16m --offset_increment=16m \
			--numjobs=2
		check "$kind: fio writes, the block device reads" \
			fio_and_block "$node" $hipri
	}
	check "$kind: nvme id-ns" id_ns "$node"
	check "$kind: nvme id-ctrl" id_ctrl "$node"
	check "$kind: nvme write and read" cli_write_read "$node"
	check "$kind: nvme compare of the same" cli_compare "$node"
	check "$kind: nvme compare of something else" cli_compare_other "$node"
	check "$kind: nvme flush" cli_flush "$node"
	check "$kind: dd writes and reads" rw_dd "$node"
	check "$kind: cmp with the block device" rw_cmp "$node"
	check "$kind: dd to the end" rw_whole "$node"
	check "$kind: fio, psync" rw_fio "$node" --ioengine=psync
	check "$kind: fio, psync, without O_DIRECT" rw_fio "$node" \
		--ioengine=psync --direct=0
	check "$kind: fio, libaio" rw_fio "$node" --ioengine=libaio
	check "$kind: fio, io_uring" rw_fio "$node" --ioengine=io_uring
	check "$kind: fio, io_uring, all options" rw_fio "$node" \
		--ioengine=io_uring ${hipri:+--hipri=1} --fixedbufs=1 \
		--registerfiles=1 --iodepth_batch_submit=8 \
		--iodepth_batch_complete_max=8
	check "$kind: uq_bench measures a command" run_bench "$node" \
		${hipri:+--poll} --fixed
done
finish
