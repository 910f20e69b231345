# SPDX-License-Identifier: GPL-2.0
# Print the results in the output of run_kselftest.sh, "NAME pass|fail|skip" per line,
# with names that LAVA accepts; -v programs=N is the number of programs.
#
# The name of a case begins with its program. TODO and XFAIL are failures. If the
# cases of a program do not match its plan, or it ended inside a case, a case "plan"
# fails, whatever the exit code.

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

# Return the nesting of a line, "# " for kselftest, two or four spaces for KUnit, and
# set bare to the text.
function level(line,   depth) {
	for (depth = 0; sub(/^(  |# ?)/, "", line); depth++)
		;
	sub(/^[ \t]+/, "", line)
	bare = line
	return depth
}

# Handle a plan or a result at a level, now the deepest one.
function enter(depth) {
	open[depth]
	if (depth > deepest)
		deepest = depth
}

# End all levels below a level; they belong to one of its results. KUnit's results may
# lack a plan.
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
	# The result of a level between is missing.
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
	# A new document ends the previous one.
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
