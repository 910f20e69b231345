#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Run installed kselftests in a guest: kselftest.sh FOLDER [OPTION...]
# The options are those of run_kselftest.sh.
folder=$1
shift

# The devices of this guest are there to be written to; on a machine of
# flesh and blood the tests want them named before they touch any.
export DAX_TEST_DEV=/dev/pmem0
export DAX_TEST_DEV2=/dev/pmem1
export UQ_TEST_DEV=/dev/nvme0n1

cd "$folder" || exit 1
exec ./run_kselftest.sh "$@"
