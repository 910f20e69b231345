#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Boot an arm64 kernel in QEMU's virt machine, with pmem in its device tree:
# arm64-boot.sh BUILD ROOT RESULT SCRIPT INIT CPUS PARAMETERS [OPTION...]
#
# INIT is overlay/guest/arm64.sh, which runs SCRIPT. The OPTIONs are QEMU's.
set -e
build=$1
root=$2
result=$3
init="$5 $3 $4 $1"
cpus=$6
parameters=$7
shift 7
tree=${result%.ktap}.dtb
files=trans=virtio,version=9p2000.L,access=any,msize=512000,cache=loose

# mem= leaves the last GiB to the pmem regions.
machine="-M virt,gic-version=3 -cpu cortex-a76 -m 3G -smp $cpus -nodefaults"
# shellcheck disable=SC2086
qemu-system-aarch64 $machine -M "dumpdtb=$tree"
{
	dtc -q -I dtb -O dts "$tree"
	echo '/ { pmem@c0000000 { compatible = "pmem-region";'
	echo '    reg = <0 0xc0000000 0 0x20000000>; };'
	echo '    pmem@e0000000 { compatible = "pmem-region";'
	echo '    reg = <0 0xe0000000 0 0x10000000>; }; };'
} >"$tree.dts"
dtc -q -I dts -O dtb -o "$tree" "$tree.dts"

share=security_model=none,multidevs=remap
# The kernel removes the quotation marks of an argument of its init.
# shellcheck disable=SC2086
exec qemu-system-aarch64 $machine -display none -no-reboot -serial stdio \
	-kernel "$build/arch/arm64/boot/Image" -dtb "$tree" \
	-virtfs "local,path=$root,mount_tag=root,$share,readonly=on" \
	-virtfs "local,path=/,mount_tag=host,$share,readonly=on" \
	-virtfs "local,path=${result%/*},mount_tag=out,$share" "$@" \
	-append "console=ttyAMA0 mem=2G oops=panic panic=-1 $parameters \
root=root ro rootfstype=9p rootflags=$files init=/bin/sh -- \
-c \"mount -t 9p -o ro,$files host /mnt; exec sh /mnt$init\""
