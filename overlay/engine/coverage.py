# SPDX-License-Identifier: GPL-2.0
"""`make coverage`: lines of our kernel files that the tests reach.

A kernel built with gcov (mode "coverage") runs all kselftests. Each guest saves its
counters, and gcovr merges them. A file fails if tests reach less than 90 % of its
lines. A line that no test reaches must be listed in overlay/exceptions/coverage with
the reason.
"""

import json
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from engine import build, host, kselftest, ktap, lay
from engine.host import UserError
from engine.kernels import KERNELS
from engine.ktap import Case

# Counts: how often each line ran. Left: first and last line that did not run, their
# function, the text of the first line, and the reason.
Counts = dict[int, int]
Left = tuple[int, int, str, str, str]
LEAST = 90
LEFT = host.ROOT / "overlay" / "exceptions" / "coverage"
# The first word of the reason for lines that only some runs reach.
SOMETIMES = "sometimes:"
NO_REASON = "UNEXPLAINED"
HEAD = re.compile(r"\[(\S+) (\w+)\]$")
# The first line of a function in kernel style.
FUNCTION = re.compile(r"^(?!\s|#|/|\}|EXPORT_SYMBOL|MODULE_).*?(\w+)\(")


@dataclass
class Reason:
    """Lines of a function that no test reaches, and the reason."""

    target: str
    function: str
    texts: list[str] = field(default_factory=list)
    why: str = ""

    def covers(self, target: str, function: str, text: str) -> bool:
        """Return whether the reason is about this line."""
        return (self.target, self.function) == (target, function) and \
            (self.texts == ["*"] or text in self.texts)

    def sometimes(self) -> bool:
        """Return whether some runs reach the lines."""
        return self.why.startswith(SOMETIMES)


def reasons(text: str) -> list[Reason]:
    """Parse a file like overlay/exceptions/coverage."""
    found, now = [], None
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if head := HEAD.match(line):
            now = Reason(head.group(1), head.group(2))
            found.append(now)
        elif now is None:
            raise UserError(f"exceptions/coverage, line {number}: before it, "
                            "[FILE FUNCTION] is missing")
        elif line.startswith(": "):
            now.why = f"{now.why} {line[2:]}".strip()
        elif now.why:
            # Other lines of the same function, for another reason.
            now = Reason(now.target, now.function, [line])
            found.append(now)
        else:
            now.texts.append(line)
    for reason in found:
        if not reason.texts or not reason.why:
            raise UserError(f"exceptions/coverage: {reason.target} {reason.function} "
                            "has no lines or no reason")
    return found


def functions(text: str) -> list[str]:
    """Return the function of each line of a C file, from line 1 on."""
    now, found = "", [""]
    for line in text.splitlines():
        if match := FUNCTION.match(line):
            now = match.group(1)
        found.append(now)
    return found


def collect(out: Path) -> list[Path]:
    """Copy the compiler's notes beside the counters of each guest."""
    folder = build.folder("coverage")
    found = sorted(out.glob("*.gcda/**/*.gcda"))
    for data in found:
        top = next(parent for parent in data.parents
                   if parent.suffix == ".gcda")
        note = data.relative_to(top).with_suffix(".gcno")
        shutil.copy(folder / note, data.with_suffix(".gcno"))
    return found


def count(out: Path) -> dict[str, Counts]:
    """Let gcovr count how often each line of our files ran."""
    table = out / "coverage.json"
    (out / "html").mkdir(exist_ok=True)
    tree = build.tree()
    # gcovr matches the whole path.
    wanted = [part for target in targets()
              for part in ("--filter", re.escape(f"{tree}/{target}") + "$")]
    host.run([host.pytool("gcovr"), "--root", tree, *wanted,
              "--object-directory", build.folder("coverage"),
              "--merge-mode-functions", "merge-use-line-min",
              "--json", table, "--txt", out / "gcovr.txt",
              "--html-details", out / "html" / "index.html",
              "--exclude-branches-by-pattern", ".*", "--exclude-noncode-lines",
              out], what="gcovr", log=out / "gcovr.log")
    found: dict[str, Counts] = {}
    for file in json.loads(table.read_text("utf-8"))["files"]:
        lines = found.setdefault(file["file"], {})
        for line in file["lines"]:
            if not line.get("gcovr/noncode"):
                number = line["line_number"]
                lines[number] = lines.get(number, 0) + line["count"]
    return found


def targets() -> list[str]:
    """Return our C files, and the headers beside them."""
    sources = build.own_sources()
    folders = {str(Path(name).parent) for name in sources}
    headers = [item.target for item in lay.items()
               if item.kind == "file" and item.target.endswith(".h")
               and str(Path(item.target).parent) in folders]
    return sorted([*sources, *headers])


def percent(lines: Counts) -> float:
    """Return the percentage of lines that were reached."""
    reached = sum(count > 0 for count in lines.values())
    return 100 * reached / len(lines) if lines else 0.0


def judge(target: str, lines: Counts) -> Case:
    """Return the case of one file."""
    name = f"{target}: {LEAST} % of its lines are reached"
    if not lines:
        return Case(name, ktap.FAIL, "NOT RUN: nothing counted in it")
    share = percent(lines)
    return Case(name, ktap.PASS if share >= LEAST else ktap.FAIL,
                "" if share >= LEAST else f"{share:.1f} % are")


def left(target: str, text: str, lines: Counts,
         known: list[Reason]) -> list[Left]:
    """Return lines not reached: (first, last, function, source, reason)."""
    source, names = text.splitlines(), functions(text)
    runs: list[Left] = []
    for number in sorted(n for n, count in lines.items() if not count):
        code, name = source[number - 1].strip(), names[number]
        why = next((reason.why for reason in known
                    if reason.covers(target, name, code)), NO_REASON)
        last = runs[-1] if runs else None
        # Lines that follow each other, for one reason, are one entry.
        if last and last[2] == name and last[4] == why and \
                not any(n in lines for n in range(last[1] + 1, number)):
            runs[-1] = (last[0], number, name, last[3], why)
        else:
            runs.append((number, number, name, code, why))
    return runs


def unexplained(target: str, text: str, lines: Counts,
                known: list[Reason]) -> Case:
    """Return the case of a file's lines that are not reached and lack a reason."""
    name = f"{target}: every line that is not reached has a reason"
    bad = [f"line {first}{f' to {last}' if last > first else ''}: "
           f"{function}(): {code}" for first, last, function, code, why
           in left(target, text, lines, known) if why == NO_REASON]
    return Case(name, ktap.FAIL if bad else ktap.PASS, "\n".join(bad))


def stale(known: list[Reason], counted: dict[str, Counts],
          texts: dict[str, str]) -> list[Case]:
    """Return a failing case for each reason whose line is gone, or is reached."""
    return [Case(f"exceptions/coverage: {reason.target} {reason.function}",
                 ktap.FAIL, why) for reason in known for wanted in reason.texts
            if (why := _stale(reason, wanted, texts.get(reason.target, ""),
                              counted.get(reason.target, {})))]


def _stale(reason: Reason, wanted: str, text: str, lines: Counts) -> str | None:
    """Return why a reason does not apply to a line it names, or None."""
    names = functions(text)
    there = [number for number, line in enumerate(text.splitlines(), 1)
             if names[number] == reason.function
             and wanted in ("*", line.strip())]
    if not there:
        return f"there is no line {wanted!r}"
    if reason.sometimes() or any(lines.get(n, 1) == 0 for n in there):
        return None
    return f"{wanted!r} is reached"


def _report(counted: dict[str, Counts], texts: dict[str, str],
            known: list[Reason], out: Path) -> None:
    """Print and write the lines that are reached and those that are not."""
    report = [f"{len(lines):6} lines, {percent(lines):6.1f} % reached: {target}"
              for target, lines in counted.items()]
    report += ["", "Not reached:"]
    for target, lines in counted.items():
        for first, last, name, code, why in left(
                target, texts[target], lines, known):
            where = f"{first}-{last}" if last > first else f"{first}"
            report += [f"{target}:{where}: {name}(): {code}", f"    {why}"]
    host.write(out / "coverage.txt", "\n".join(report) + "\n")
    for line in report:
        host.say(line)


def main(args: list[str]) -> list[Case]:
    """Run all tests, or the named ones, and report the lines they reach."""
    known = reasons(LEFT.read_text("utf-8")) if LEFT.exists() else []
    out = host.fresh("coverage")
    into, tests, cases = kselftest.prepare("coverage", args or None)
    ran = kselftest.run([*kselftest.shares(
        "coverage", into, tests, KERNELS["coverage"].guests),
        *kselftest.others("coverage", into, tests)], out)
    # A failed test may not reach its lines.
    cases += [case for case in ran if case.status == ktap.FAIL]
    return cases + evaluate(out, known)


def evaluate(out: Path, known: list[Reason]) -> list[Case]:
    """Return the cases of the guests' counts."""
    if not collect(out):
        return [Case("coverage", ktap.FAIL, "NOT RUN: no guest saved counters")]
    texts = {target: (build.tree() / target).read_text("utf-8")
             for target in targets()}
    found = count(out)
    # gcovr does not list headers without code.
    counted = {target: found.get(target, {}) for target in targets()
               if target in found or target.endswith(".c")}
    _report(counted, texts, known, out)
    return [*(judge(target, lines) for target, lines in counted.items()
              if target.endswith(".c")),
            *(unexplained(target, texts[target], lines, known)
              for target, lines in counted.items()),
            *stale(known, counted, texts)]
