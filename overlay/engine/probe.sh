#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Says what kbuild's try-run would of a command; one that works runs once in a run.
#
#	probe.sh ANSWERS COMMAND YES NO
#
# A make tries some 25 options of its compiler before it does anything else, and
# that is a quarter of what it takes when there is nothing to compile.
set -eu

tmpout=.tmp_$$

# No option at all would be a wrong answer: with this one nothing compiles.
finish()
{
	! [ -e "$tmpout" ] || rm -rf "$tmpout"
	[ "$1" = 0 ] || echo --probe-failed
}
trap 'finish $?' EXIT

name=$(printf '%s' "$2" | sha256sum)
answer=$1/${name%% *}
if ! [ -e "$answer" ]; then
	# As in scripts/Makefile.compiler: the command writes to $TMP.
	TMP=$tmpout/tmp
	export TMP
	mkdir -p "$tmpout"
	# A compiler may also fail for want of memory, so only success is kept.
	if ! (eval "$2") >/dev/null 2>&1; then
		printf '%s\n' "$4"
		exit
	fi
	: >"$answer"
fi
printf '%s\n' "$3"
