# SPDX-License-Identifier: GPL-2.0
# Print the complaints in a log of the kernel, as SPLATS in overlay/engine/ktap.py finds
# them, except those that a test announced by "overlay: expect /regular expression/".
#
# -v console=1: programs also write to this log, and only lines with a time stamp come
# from the kernel.

function complains(line) {
	# A word begins after a character of no word.
	return line ~ /(^|[^A-Za-z0-9_])(WARNING|BUG|KASAN|UBSAN|KCSAN|KFENCE|ODEBUG|refcount_t|Out of memory): / ||
		line ~ /(^|[^A-Za-z0-9_])INFO: (possible|inconsistent|suspicious|task|rcu|lockdep|HARDIRQ|SOFTIRQ|trying)([^A-Za-z0-9_]|$)/ ||
		line ~ /(^|[^A-Za-z0-9_])possible (circular|recursive|irq lock|deadlock)/ ||
		line ~ /(^|[^A-Za-z0-9_])(Oops|Kernel panic|general protection fault|unable to handle|Bad page state|DEBUG_LOCKS_WARN_ON|held lock freed|nobody cared|self-detected stall|soft lockup|hard LOCKUP|inconsistent lock state|suspicious RCU usage|sleeping function called from invalid context|scheduling while atomic|list_(add|del) corruption)([^A-Za-z0-9_]|$)/ ||
		line ~ /(^|[^A-Za-z0-9_])(kernel BUG at |detected stall|Call Trace:|RIP: 0010:|unreferenced object 0x)/ ||
		line ~ /(^|[^A-Za-z0-9_])blocked for more than [0-9]+ seconds/ ||
		line ~ /(^|[^A-Za-z0-9_])kmemleak: .*(new suspected|unreferenced|disabled)/ ||
		line ~ /(^|[^A-Za-z0-9_])DMAR: \[.*fault([^A-Za-z0-9_]|$)/
}

# The console prints this. A dropped message may have been a complaint.
/\*\* [0-9]+ printk messages dropped \*\*/ {
	print
	next
}

{
	said = $0
	if (console) {
		if (!match(said, /\[ *[0-9]+\.[0-9]+\]/))
			next
		said = substr(said, RSTART)
	}
}

said ~ /^(\[ *[0-9]+\.[0-9]+\](\[ *[TC][0-9]+\])? ?)?overlay: expect \// {
	expected = said
	sub(/.*overlay: expect \//, "", expected)
	sub(/\/ *$/, "", expected)
	announced[expected]
	next
}

complains(said) {
	for (expected in announced)
		if (said ~ expected)
			next
	print
}
