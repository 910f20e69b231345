#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Unpack Debian's packages for arm64: arm64-root.sh FOLDER SUITE PACKAGES OPTIONS SOURCES
#
# Their scripts, which are arm64's, do not run. So this makes what tests need of them.
set -e
folder=$1

mmdebstrap --architectures=arm64 --variant=extract --include="$3" --aptopt="$4" \
	--aptopt='APT::Install-Recommends "false"' "$2" "$folder" "$5"
cd "$folder"
mkdir -p mnt
ln -sf dash bin/sh
ln -sf mawk usr/bin/awk
cp usr/share/base-passwd/passwd.master etc/passwd
cp usr/share/base-passwd/group.master etc/group
