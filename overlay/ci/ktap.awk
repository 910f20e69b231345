# SPDX-License-Identifier: GPL-2.0
# Results in the output of run_kselftest.sh, "NAME pass|fail|skip" a line, with
# names that LAVA takes; -v programs=N tells how many programs were to run.
#
# A program's cases have its name before theirs. What is expected to fail (TODO,
# XFAIL) is no pass. A program whose cases are others than it planned, or that ended
# inside one, has a case "plan" that fails: it may have exited with 0 all the same.

function clean(name) {
	gsub(/[^A-Za-z0-9_.-]+/, "_", name)
	gsub(/^_+|_+$/, "", name)
	return name == "" ? "nameless" : name
}

# The first directive of a text, in capitals, or nothing.
function directive(text) {
	text = " " toupper(text)
	if (!match(text, /[ \t]#[ \t]*(SKIP|TODO|XFAIL)([^A-Z0-9_]|$)/))
		return ""
	text = substr(text, RSTART, RLENGTH)
	gsub(/[^A-Z]/, "", text)
	return text
}

function status(line, name,   kind) {
	kind = directive(name)
	if (kind == "SKIP")
		return "skip"
	return line ~ /^not ok/ || kind ? "fail" : "pass"
}

# How deep a line is nested: kselftest has "# " before it for each level, KUnit two
# or four spaces. Sets bare.
function level(line,   depth) {
	for (depth = 0; sub(/^(  |# ?)/, "", line); depth++)
		;
	sub(/^[ \t]+/, "", line)
	bare = line
	return depth
}

# A plan or a result at a level, which is the deepest now.
function enter(depth) {
	open[depth]
	if (depth > deepest)
		deepest = depth
}

# What is below a level has ended, and belongs to one result of that level; KUnit's
# results may come without a plan.
function settle(below,   depth, levels) {
	levels = 0
	for (depth = deepest; depth > below; depth--) {
		levels += (depth in open)
		if (depth in plan && (plan[depth] != count[depth] + 0 ||
				      (!plan[depth] && !(depth in skipped))))
			wrong = 1
		delete open[depth]
		delete count[depth]
		delete plan[depth]
		delete skipped[depth]
	}
	# The result of a level between never came.
	if (levels > 1)
		wrong = 1
	deepest = below
}

/^# selftests: / {
	settle(0)
	wrong = 0
	program = $0
	sub(/^# selftests: /, "", program)
	program = clean(program)
}

{
	depth = level($0)
}

depth && bare ~ /^K?TAP version [0-9]+[ \t]*$/ {
	# Another document: the one before has ended.
	settle(depth)
	settle(depth - 1)
	enter(depth)
}

depth && bare ~ /^Bail out!/ {
	wrong = 1
}

depth && bare ~ /^1\.\.[0-9]+[ \t]*(#.*)?$/ {
	enter(depth)
	match(bare, /^1\.\.[0-9]+/)
	plan[depth] += substr(bare, 4, RLENGTH - 3)
	if (directive(substr(bare, RLENGTH + 1)))
		skipped[depth]
}

bare ~ /^(not )?ok[ \t]+[0-9]+([^A-Za-z0-9_]|$)/ {
	settle(depth)
	if (depth)
		enter(depth)
	line = bare
	number = line
	sub(/^(not )?ok[ \t]+/, "", number)
	if (depth && ++count[depth] != number + 0)
		wrong = 1
	sub(/^(not )?ok[ \t]+[0-9]+[ \t]*(-[ \t]*)?/, "", line)
	result = status(bare, line)
	sub(/[ \t]*#[ \t].*$/, "", line)
	if (depth) {
		print program "." clean(line), result
	} else {
		sub(/^selftests: /, "", line)
		print clean(line), result
		if (wrong)
			print clean(line) ".plan", "fail"
		wrong = 0
		ended++
	}
}

END {
	print "all_programs_ended",
		(ended && ended == programs + 0) ? "pass" : "fail"
}
