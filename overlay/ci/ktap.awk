# SPDX-License-Identifier: GPL-2.0
# Results in the output of run_kselftest.sh, "NAME pass|fail|skip" a line, with
# names that LAVA takes; -v programs=N tells how many programs were to run.
#
# A program's cases have its name before theirs. What is expected to fail (TODO,
# XFAIL) is no pass.

function clean(name) {
	gsub(/[^A-Za-z0-9_.-]+/, "_", name)
	gsub(/^_+|_+$/, "", name)
	return name == "" ? "nameless" : name
}

function status(line) {
	if (line ~ /# *SKIP/)
		return "skip"
	return line ~ /^not ok/ || line ~ /# *(TODO|XFAIL)/ ? "fail" : "pass"
}

/^# selftests: / {
	program = $0
	sub(/^# selftests: /, "", program)
	program = clean(program)
}

/^(# )*(not )?ok [0-9]+/ {
	line = $0
	nested = sub(/^(# )+/, "", line)
	result = status(line)
	sub(/^(not )?ok [0-9]+( -)? */, "", line)
	sub(/ *# .*$/, "", line)
	if (nested) {
		print program "." clean(line), result
	} else {
		sub(/^selftests: /, "", line)
		print clean(line), result
		ended++
	}
}

END {
	print "all_programs_ended", ended + 0 == programs + 0 ? "pass" : "fail"
}
