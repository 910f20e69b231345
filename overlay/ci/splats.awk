# SPDX-License-Identifier: GPL-2.0
# Of the kernel's log the lines with which it complains, but for those that a test
# announced by "overlay: expect /regular expression/".

/overlay: expect \// {
	expected = $0
	sub(/.*overlay: expect \//, "", expected)
	sub(/\/ *$/, "", expected)
	announced[expected]
	next
}

/(WARNING|BUG|KASAN|UBSAN|KCSAN|KFENCE|ODEBUG|refcount_t): / ||
/Oops|Kernel panic|Call Trace:|general protection fault|unable to handle/ ||
/INFO: (possible|inconsistent|suspicious|task|rcu|lockdep|trying)/ ||
/blocked for more than|detected stall|soft lockup|hard LOCKUP|list_.* corruption/ {
	for (expected in announced)
		if ($0 ~ expected)
			next
	print
}
