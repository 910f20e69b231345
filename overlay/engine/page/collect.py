# SPDX-License-Identifier: GPL-2.0
"""Read results, times, figures and profiles of the last runs from out/."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.tables import RESULTS
from engine.host import elapsed
from engine.kernels import KERNELS
from engine.ktap import FAIL, SKIP, Case, read
from engine.store import STORED

# A result of bench.json.
Row = dict[str, Any]
# Names of cases of one kernel and one program.
KSELFTEST = re.compile(r"([^:]+): ([\w/]+): (\w+(?:\.sh)?)(?:: (.*))?$")
KUNIT = re.compile(r"(\w+): ([^:]+)(?:: (.*))?$")
# A parameter that mostly is what another one is: a plot over the one lets it.
FOLLOWS = {"batch": "depth"}
# The x axis of each bench's plot in README.md.
FRONT = {"dax-read": "size", "dax-mmap": "window", "nvme": "batch"}
# ... and up to where: of longer reads nearly all instructions are the copy's.
FRONT_MOST = {"dax-read": 4096}
# In what some parameters are counted.
UNITS = {"size": "size, bytes", "bs": "bs, bytes", "window": "window, bytes",
         "batch": "batch, operations at once", "depth": "depth, commands in flight",
         "others": "others, commands of a neighbour in flight"}
# A line whose greatest value is more than so many times its least is drawn by tens.
STEEP = 16


@dataclass
class Program:
    """The cases of one program, or of one checker, on one kernel."""

    step: str
    kernel: str
    name: str
    passed: int = 0
    stored: int = 0
    # Names and details of cases that did not pass.
    failures: list[tuple[str, str]] = field(default_factory=list)
    skips: list[tuple[str, str]] = field(default_factory=list)

    @property
    def failed(self) -> int:
        return len(self.failures)

    @property
    def skipped(self) -> int:
        return len(self.skips)

    def cases(self) -> int:
        """How many there were."""
        return self.passed + self.failed + self.skipped

    def verdict(self) -> str:
        """In a word, for readers without colour."""
        if self.failed:
            return "FAILED"
        return "passed" if self.passed else "skipped"


@dataclass(frozen=True)
class Span:
    """What took how long: seconds since the run began."""

    step: str
    what: str
    begin: float
    seconds: float

    def guest(self) -> str:
        """The guest's name, if it was one: KUnit's is called by its kernel."""
        kind, _, name = self.what.partition(" ")
        return name if kind == "guest" or (
            kind == "KUnit:" and name in KERNELS) else ""

    def title(self) -> str:
        """Its name, with the step unless the name begins with it."""
        return self.what if self.what.lower().startswith(f"{self.step}: ") \
            else f"{self.step}: {self.what}"

    def took(self) -> str:
        """How long it took, in words."""
        return elapsed(self.seconds)


@dataclass(frozen=True)
class Curve:
    """One plot: instructions of an operation over one parameter."""

    bench: str
    over: str
    # The parameters that all of its points share.
    rest: dict[str, Any]
    # Points by variant.
    lines: dict[str, list[tuple[float, float]]]

    def title(self) -> str:
        """The title of the plot."""
        return f"{self.bench} by {self.over}"

    def label(self) -> str:
        """The parameter and its unit."""
        return UNITS.get(self.over, self.over)

    def places(self) -> list[float]:
        """Where it has points."""
        return sorted({at for points in self.lines.values() for at, _ in points})

    def doubling(self) -> bool:
        """Whether its points lie so far apart that each doubling is as wide."""
        first, *_, last = self.places()
        return first > 0 and last >= 8 * first

    def steep(self) -> bool:
        """Whether a line climbs so far that nothing is seen of its lower end."""
        values = [[value for _, value in points] for points in self.lines.values()]
        return any(min(line) > 0 and max(line) > STEEP * min(line)
                   for line in values)


def _place(step: str, name: str) -> tuple[str, str, str]:
    """The kernel, the program and the rest of a case's name."""
    if step == "kselftest" and (match := KSELFTEST.match(name)):
        return match[1], f"{match[2]}: {match[3]}", match[4] or ""
    if step == "kunit" and (match := KUNIT.match(name)):
        return match[1], match[2], match[3] or ""
    first, _, rest = name.partition(": ")
    return "", first if rest else step, rest or name


def _note(program: Program, case: Case, name: str) -> None:
    program.stored += STORED in case.detail
    if case.status == FAIL:
        program.failures.append((name, case.detail))
    elif case.status == SKIP:
        program.skips.append((name, case.detail))
    else:
        program.passed += 1


def matrices(programs: Iterable[Program]) -> dict[str, dict[str, dict[str, Program]]]:
    """Programs that kernels ran: step -> name -> kernel -> its cases."""
    found: dict[str, dict[str, dict[str, Program]]] = {}
    for program in programs:
        if program.kernel:
            found.setdefault(program.step, {}).setdefault(
                program.name, {})[program.kernel] = program
    return found


def results(out: Path, steps: Iterable[str]) -> list[Program]:
    """All programs of these steps, in their order."""
    found: dict[tuple[str, str, str], Program] = {}
    for step in steps:
        for case in read(out / step / "junit.xml"):
            kernel, name, rest = _place(step, case.name)
            program = found.setdefault((step, kernel, name),
                                       Program(step, kernel, name))
            _note(program, case, rest)
    return list(found.values())


def logs(out: Path, steps: Iterable[str]) -> dict[str, list[str]]:
    """The logs of each step, as paths in out/; some steps have one called log."""
    return {step: sorted(str(path.relative_to(out)) for path
                         in (out / step).iterdir()
                         if path.suffix == ".log" or path.name == "log")
            for step in steps if (out / step).is_dir()}


def spans(out: Path) -> list[Span]:
    """What took long in the last `make check`, by its beginning."""
    path = out / "check" / "times.json"
    if not path.exists():
        return []
    found = [Span(**one) for one in json.loads(path.read_text("utf-8"))]
    return sorted(found, key=lambda span: span.begin)


def measured(out: Path, results: Path = RESULTS) -> tuple[str, dict[str, Any]]:
    """Return the figures of the last `make bench`, or the tree's, and their origin."""
    path = out / "bench.json"
    if path.exists():
        data = json.loads(path.read_text("utf-8"))
        return f"kernel {data['kernel']}, tree {data['commit']}, {data['tool']}", data
    if not results.exists():
        return "", {"results": [], "lines": []}
    data = json.loads(results.read_text("utf-8"))
    return "overlay/bench/results.json, measured at " + ", ".join(
        f"{origin['commit']} ({part})" for part, origin in data["parts"].items()), data


def words(params: dict[str, Any]) -> str:
    """Parameters in words, without those of Python; a line ends behind one."""
    said = {True: "yes", False: "no"}
    return ", ".join(
        f"{name}\N{NO-BREAK SPACE}{said[value] if isinstance(value, bool) else value}"
        for name, value in params.items())


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _shared(row: Row, over: str) -> str:
    """All parameters of a row but one, and but for one that is the same."""
    rest = {name: value for name, value in row["params"].items() if name != over}
    follows = FOLLOWS.get(over, "")
    if rest.get(follows) == row["params"][over]:
        rest[follows] = f"as {over}"
    return json.dumps(rest, sort_keys=True)


def _best(bench: str, found: list[Row], over: str) -> Iterator[Curve]:
    """The plot of a bench over one parameter that has the most points."""
    groups: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for row in found:
        groups.setdefault(_shared(row, over), {}).setdefault(row["variant"], []).append(
            (row["params"][over], row["insn_per_op"]))
    every = [Curve(bench, over, json.loads(shared), {
        name: sorted(points) for name, points in lines.items()
        if len({at for at, _ in points}) > 1}) for shared, lines in groups.items()]
    best = max(every, key=lambda curve: sum(map(len, curve.lines.values())))
    if best.lines:
        yield best


def curves(found: list[Row]) -> list[Curve]:
    """For each parameter of each bench the plot that has the most points.

    The other parameters are those of most cells.
    """
    numbers = {(row["bench"], name): None for row in found
               for name, value in row["params"].items() if _number(value)}
    return [curve for bench, over in numbers for curve in _best(
        bench, [row for row in found if row["bench"] == bench
                and _number(row["params"].get(over))], over)]


def _short_enough(row: Row) -> bool:
    most = FRONT_MOST.get(row["bench"])
    return most is None or row["params"].get(FRONT[row["bench"]], 0) <= most


def front(found: list[Row]) -> list[Curve]:
    """The plots that README.md shows: one of each bench, of the lean kernel."""
    lean = [row for row in found if row["params"].get("config") == "lean"
            and _short_enough(row)]
    return [curve for curve in curves(lean) if FRONT.get(curve.bench) == curve.over]


def profiles(out: Path) -> list[tuple[str, str, dict[str, str]]]:
    """The profiles of the last `make bench`: name, title, files with stacks."""
    found = []
    for path in sorted((out / "bench").glob("profile-*.txt")):
        first, _, _ = path.read_text("utf-8").partition("\n")
        found.append((path.stem, first.removeprefix("# "), {
            one.stem.removeprefix(f"{path.stem}-"): one.name
            for one in sorted(path.parent.glob(f"{path.stem}-*.folded"))}))
    return found
