#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Run installed kselftests in a guest: kselftest.sh FOLDER [OPTION...]
# The options are those of run_kselftest.sh.
folder=$1
shift

# shellcheck source=disks.sh
. "${0%/*}/disks.sh"

cd "$folder" || exit 1
exec ./run_kselftest.sh "$@"
