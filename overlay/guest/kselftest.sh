#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Run installed kselftests in a guest: kselftest.sh FOLDER [OPTION...]
# The options are those of run_kselftest.sh.
folder=$1
shift

export DAX_TEST_DEV=/dev/pmem0
export DAX_TEST_DEV2=/dev/pmem1
# shellcheck source=disks.sh
. "${0%/*}/disks.sh"

cd "$folder" || exit 1
exec ./run_kselftest.sh "$@"
