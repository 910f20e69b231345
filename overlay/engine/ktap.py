# SPDX-License-Identifier: GPL-2.0
"""Judge KTAP results and kernel complaints, and write JUnit XML.

Missing results, a run without tests, and nested failures that a parent hides are
failing cases.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from engine import host

PASS, FAIL, SKIP = "pass", "fail", "skip"


@dataclass
class Case:
    """One check that ran (or should have), and how it ended."""

    name: str
    status: str
    detail: str = ""


@dataclass
class Level:
    """The results at one depth of nesting, until their parent's arrives."""

    plan: int | None = None
    count: int = 0
    cases: list[Case] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def used(self) -> bool:
        """Whether a plan or a result has come at this depth."""
        return self.plan is not None or self.count > 0


RESULT = re.compile(r"(ok|not ok)\s+(\d+)\b\s*(?:-\s*)?(.*)$")
PLAN = re.compile(r"1\.\.(\d+)(?:\s*#\s*(.*))?\s*$")
VERSION = re.compile(r"(?:K?TAP) version \d+\s*$")
STAMP = re.compile(r"^(?:<\d+>)?\[ *\d+\.\d+\](?:\[[^\]]*\])? ?")
PREFIX = re.compile(r"^(?:  |# ?)")
DIRECTIVE = re.compile(r"\s#\s*(SKIP|TODO|XFAIL)\b[:\s]*(.*)$", re.IGNORECASE)
BAIL = re.compile(r"Bail out!\s*(.*)$")
BROKE_OFF = Case("results", FAIL,
                 "the run broke off inside a test: its result never came")


def _depth(line: str) -> tuple[int, str]:
    """Return the depth of a line and its text: "# " of kselftest, spaces of KUnit."""
    depth = 0
    while match := PREFIX.match(line):
        line = line[match.end():]
        depth += 1
    return depth, line.strip()


class Parser:
    """Reads KTAP line by line; levels[] holds the depths still open."""

    def __init__(self) -> None:
        self.levels: dict[int, Level] = {}

    def _level(self, depth: int) -> Level:
        return self.levels.setdefault(depth, Level())

    def _close(self, depth: int) -> list[Case]:
        """End all deeper levels; only the shallowest one can still have a parent."""
        deeper = sorted(d for d in self.levels if d > depth)
        cases = []
        for inner in deeper:
            cases += _settle(self.levels.pop(inner), top=inner == 0)
        if len(deeper) > 1:
            cases.append(BROKE_OFF)
        return cases

    def line(self, raw: str) -> None:
        """Take one line of output."""
        depth, text = _depth(STAMP.sub("", raw.rstrip()))
        if VERSION.match(text):
            self._version(depth)
        elif bail := BAIL.match(text):
            self._level(depth).cases.append(
                Case("bail out", FAIL, bail.group(1) or "Bail out!"))
        elif plan := PLAN.match(text):
            self._plan(depth, plan)
        elif result := RESULT.match(text):
            self._result(depth, result)
        elif text and self.levels:
            # Text before a result explains its failure.
            self.levels[max(self.levels)].notes.append(text)

    def _version(self, depth: int) -> None:
        """A new document; an earlier one at this depth has ended."""
        old = self._close(depth)
        if depth in self.levels and self.levels[depth].used():
            old = _settle(self.levels.pop(depth), top=depth == 0) + old
        self._level(depth).cases += old

    def _plan(self, depth: int, match: re.Match[str]) -> None:
        level = self._level(depth)
        level.plan = (level.plan or 0) + int(match.group(1))
        why = DIRECTIVE.search(f" # {match.group(2) or ''}")
        if match.group(1) == "0" and why:
            # "1..0 # SKIP why": the whole program chose not to run.
            level.cases.append(Case("all", SKIP, why.group(2).strip()))

    def _result(self, depth: int, match: re.Match[str]) -> None:
        nested = self._close(depth)
        level = self._level(depth)
        level.count += 1
        number = int(match.group(2))
        case = _case(match)
        if case.status != PASS and not case.detail:
            case.detail = "\n".join(level.notes[-20:])
        level.notes.clear()
        level.cases += _under(case, nested) if nested else [case]
        if number != level.count:
            level.cases.append(Case(
                f"{case.name}: number", FAIL, f"result {number} came as "
                f"number {level.count}: results are missing"))
            level.count = number

    def end(self) -> list[Case]:
        """All cases, now that there is no more input."""
        base = min(self.levels, default=0)
        unclaimed = self._close(base)
        cases = self._close(-1) + unclaimed
        if unclaimed or base:
            cases.append(BROKE_OFF)
        return cases or [Case("results", FAIL, "no test ran")]


def _case(match: re.Match[str]) -> Case:
    """A result line as a case."""
    name = match.group(3).removeprefix("selftests: ").strip()
    directive = DIRECTIVE.search(" " + name)
    status = PASS if match.group(1) == "ok" else FAIL
    detail = ""
    if directive:
        name = (" " + name)[:directive.start()].strip()
        kind, detail = directive.group(1).upper(), directive.group(2).strip()
        if kind == "SKIP":
            status = SKIP
        else:
            # Expected to fail: no test of this tree may be, and whatever came
            # of it, it is no pass.
            status, detail = FAIL, f"{kind}, which is no pass: {detail}"
    else:
        name, _, remark = name.partition(" # ")
        if status == FAIL:
            detail = remark.strip()
    return Case(name.strip() or f"test {match.group(2)}", status, detail)


def _under(parent: Case, nested: list[Case]) -> list[Case]:
    """Prefix nested cases with their parent's name; keep a parent that fails alone."""
    cases = [Case(f"{parent.name}: {case.name}", case.status, case.detail)
             for case in nested]
    statuses = {case.status for case in nested}
    if parent.status == FAIL and FAIL not in statuses:
        cases.append(parent)
    return cases


def _settle(level: Level, top: bool) -> list[Case]:
    """Return a finished level's cases, with a failing one if its plan does not match.

    Only nested results may lack a plan: KUnit's parameterised tests print none.
    """
    cases = list(level.cases)
    if level.plan is None:
        if level.count and top:
            cases.append(Case("plan", FAIL, "the results had no plan"))
    elif level.count != level.plan:
        cases.append(Case("plan", FAIL, f"{level.plan} results were planned "
                          f"and {level.count} came"))
    elif level.plan == 0 and not cases:
        cases.append(Case("plan", FAIL, "no test ran"))
    return cases


class Progress:
    """Counts results as they come, to show how a run goes on."""

    def __init__(self, name: str, programs: int = 0,
                 watch: Callable[[str], None] | None = None) -> None:
        """`programs`: how many are to come; `watch` is called with each line."""
        self.name, self.programs, self.watch = name, programs, watch
        self.ended = self.results = self.failed = 0

    def __call__(self, line: str) -> str | None:
        """Take a line of output; what to show, when it has a result."""
        if self.watch:
            self.watch(line)
        text = STAMP.sub("", line.rstrip())
        match = re.match(r"(?:# | )*(not )?ok \d+\b", text)
        if not match:
            return None
        self.results += 1
        self.failed += match.group(1) is not None
        self.ended += not text.startswith(("#", " "))
        counts = f"{self.results} results, {self.failed} failed"
        if self.programs:
            counts = f"{self.ended} of {self.programs} programs, {counts}"
        return f"{self.name}: {counts}"


def parse(text: str) -> list[Case]:
    """KTAP or TAP text as a flat list of cases; never an empty one."""
    parser = Parser()
    for line in text.splitlines():
        parser.line(line)
    return parser.end()


SPLATS = re.compile("|".join((
    r"\bWARNING: ", r"\bBUG: ", r"\bkernel BUG at ", r"\bOops\b",
    r"\bINFO: (possible|inconsistent|suspicious|task|rcu|lockdep|"
    r"HARDIRQ|SOFTIRQ|trying)\b",
    r"\bpossible (circular|recursive|irq lock|deadlock)",
    r"\binconsistent lock state\b", r"\bsuspicious RCU usage\b",
    r"\bsleeping function called from invalid context\b",
    r"\bscheduling while atomic\b", r"\bblocked for more than \d+ seconds",
    r"\bKASAN: ", r"\bUBSAN: ", r"\bKCSAN: ", r"\bKFENCE: ",
    r"\brefcount_t: ", r"\bkmemleak: .*(new suspected|unreferenced|disabled)",
    r"\bunreferenced object 0x", r"\bKernel panic\b", r"\bdetected stall",
    r"\bself-detected stall\b", r"\bsoft lockup\b", r"\bhard LOCKUP\b",
    r"\bgeneral protection fault\b", r"\bunable to handle\b",
    r"\bBad page state\b", r"\blist_(add|del) corruption\b",
    r"\bDEBUG_LOCKS_WARN_ON\b", r"\bCall Trace:", r"\bOut of memory: ",
    r"\bheld lock freed\b", r"\bnobody cared\b", r"\bODEBUG: ",
    r"\bRIP: 0010:", r"\bDMAR: \[.*fault\b",
)))
# Only lines of the kernel count: programs may print "WARNING: ".
# Programs and the kernel share the console, so a stamp may stand mid-line.
KERNEL = re.compile(r"\[ *\d+\.\d{6}\](?:\[ *[TC]\d+\])? ?")
# Messages of user space in /dev/kmsg have a stamp, too. These prefixes tell their
# origin. Messages of our own scripts (guest/run.sh) count.
USER = re.compile(r"(virtme-(ng-)?init|systemd(-[\w-]+)?(\[\d+\])?"
                  r"|udevd(\[\d+\])?): ")
EXPECTED = re.compile(r"overlay: expect (/.*/)\s*$")
# The console prints this without a stamp. Dropped lines may be complaints.
DROPPED = re.compile(r"\*\* \d+ printk messages dropped \*\*")


def _kernels(line: str, stamped: re.Match[str] | None) -> list[str]:
    """The parts of a line that are the kernel's."""
    if not stamped:
        return [line]
    _, *parts = KERNEL.split(line)
    return [part for part in parts if not USER.match(part)]


def splats(text: str) -> list[str]:
    """Return every line of a boot log that is a complaint of the kernel.

    A test that provokes one first writes `overlay: expect /regular expression/` to
    /dev/kmsg. In a log without time stamps (UML), all lines are the kernel's.
    """
    return _complaints(text)[0]


def _complaints(text: str) -> tuple[list[str], int]:
    """The lines of splats(), and how many others were announced."""
    found, allowed, announced = [], [], 0
    stamped = KERNEL.search(text)
    for number, line in enumerate(text.splitlines(), 1):
        lost = DROPPED.search(line) is not None
        for part in _kernels(line, stamped):
            if expected := EXPECTED.match(part):
                allowed.append(re.compile(expected.group(1)[1:-1]))
            elif SPLATS.search(part):
                meant = any(pattern.search(part) for pattern in allowed)
                announced += meant
                lost = lost or not meant
        if lost:
            found.append(f"line {number}: {line.strip()}")
    return found, announced


# Bits of /proc/sys/kernel/tainted that stand for a complaint of the kernel:
# a machine check, a bad page, an oops, a warning, a soft lockup; and for a
# module that was forced in or out.
TAINTS = {1: "F", 3: "R", 4: "M", 5: "B", 7: "D", 9: "W", 14: "L"}
# The bit of a KUnit suite, which only the guest for suites may set.
TESTED = 18
TAINT = re.compile(r"^# overlay: taint (\d+)$", re.MULTILINE)


def taint_cases(name: str, output: str, log: str,
                suites: bool = False) -> list[Case]:
    """Return failing cases for taints without a complaint in the boot log.

    A KUnit suite taints as well, and may run only with `suites`.
    """
    values = TAINT.findall(output)
    if not values:
        return []
    taint = int(values[-1])
    cases = []
    if taint >> TESTED & 1 and not suites:
        cases.append(Case(f"{name}: no KUnit suite ran", FAIL,
                          "the kernel is tainted by one (N)"))
    bits = "".join(letter for bit, letter in TAINTS.items()
                   if taint >> bit & 1)
    found, announced = _complaints(log)
    if bits and not found and not (bits == "W" and announced):
        cases.append(Case(f"{name}: the kernel is not tainted", FAIL,
                          f"it is ({bits}), and the boot log has no complaint"))
    return cases


def splat_cases(name: str, text: str, log: Path) -> list[Case]:
    """One case for a boot log: passed, or the first line that complains."""
    found = splats(text)
    if not found:
        return [Case(f"{name}: no splat in the boot log", PASS)]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return [Case(f"{name}: no splat in the boot log", FAIL,
                 f"{host.short(log)} {found[0]}{more}")]


def tally(cases: Sequence[Case]) -> tuple[int, int, int]:
    """How many passed, failed and were skipped."""
    passed, failed, skipped = (sum(case.status == status for case in cases)
                               for status in (PASS, FAIL, SKIP))
    return passed, failed, skipped


def total(cases: Sequence[Case]) -> str:
    """The line that ends a run."""
    passed, failed, skipped = tally(cases)
    line = f"{passed} passed, {failed} failed"
    return f"{line}, {skipped} skipped" if skipped else line


# XML 1.0 has no way to write these characters.
CONTROL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(path: Path, suite: str, cases: list[Case]) -> None:
    """Write the cases as JUnit XML."""
    passed, failed, skipped = tally(cases)
    root = ElementTree.Element(
        "testsuite", name=suite, tests=str(passed + failed + skipped),
        failures=str(failed), skipped=str(skipped))
    for case in cases:
        element = ElementTree.SubElement(
            root, "testcase", classname=suite,
            name=CONTROL.sub("?", case.name))
        if case.status != PASS:
            detail = CONTROL.sub("?", case.detail)
            child = ElementTree.SubElement(
                element, "failure" if case.status == FAIL else "skipped",
                message=(detail.splitlines() or [""])[0])
            child.text = detail
        elif case.detail:
            ElementTree.SubElement(element, "system-out").text = \
                CONTROL.sub("?", case.detail)
    ElementTree.indent(root)
    host.write(path, ElementTree.tostring(root, "utf-8",
                                          xml_declaration=True))


def read(path: Path) -> list[Case]:
    """Return the cases of a file that junit() wrote; none if it does not exist."""
    if not path.exists():
        return []
    try:
        root = ElementTree.parse(path).getroot()
    except (ElementTree.ParseError, UnicodeError):
        raise host.UserError(f"{host.short(path)} is not what a run leaves: run `make "
                             f"{path.parent.name}` again") from None
    cases = []
    for one in root.iter("testcase"):
        said = {child.tag: child.text or "" for child in one}
        status = FAIL if "failure" in said else SKIP if "skipped" in said else PASS
        cases.append(Case(one.get("name") or "", status, "".join(said.values())))
    return cases
