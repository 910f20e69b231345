# SPDX-License-Identifier: GPL-2.0
"""`make bench`: instructions per operation, counted in guests.

Guests run under QEMU's -icount with one CPU, so guest time is instructions. One boot
measures all variants of an operation. Guests with four CPUs count cache lines
(cachelines.py). Results go to out/bench.json and out/bench.md, profiles to
out/bench/profile-*. overlay/bench/results.json keeps each part that succeeded.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from bench import cachelines, guests, parts, results
from bench.parts import DISTRO, LEAN, LINES, MEASUREMENTS, PARTS, Part
from bench.results import Row
from bench.tables import RESULTS
from engine import build, guest, host, ktap, limits, source, store
from engine.host import UserError
from engine.ktap import Case

PLOTS = guests.PROGRAMS / "plots"
RUNS = 9
# If other programs use more of a CPU than this, QEMU's device completes the commands of
# a batch at different times, each with an interrupt.
QUIET, OTHERS = "the machine did nothing else", 0.25
COUNTED = "-accel tcg -icount shift=0,sleep=off, one CPU"

ABOUT = """\
Instructions per operation, counted in a QEMU guest ({counted}). All variants of a row
but *generic* and *simple* come from the same boot, and the file is cached.
**Instructions are not cycles**: cache misses and contended atomic operations do not
show, and `rep movsb` counts one instruction per byte, in all variants.

- *generic*: the iomap path, in a kernel that ends below the series `dax-read-simple`.
- *simple*: `dax_read_simple()`, in a kernel that ends with that series.
- *lookup*: the same with the series `ext4-extent-lookup`; `dax_read.fast` is off.
- *read_iter*: `pread()` arrives at `->read_iter`, which contains the fast path.
- *read*: `pread()` arrives at `->read`.
- *off*: the cost of `->read` on systems that switch the parameter off.

*preadv-2* is preadv() of two segments, *read-fixed* READ_FIXED of io_uring, *splice*
splice() and read() of the pipe, *appended* pread() after each append of a block. If a
file has several extents, each is a single block. Task switches of two readers count."""

# The content of out/bench.json.
Data = dict[str, Any]
Found = TypeVar("Found")


# -- judging -----------------------------------------------------------------

def _by_clock(row: Row) -> bool:
    """Return whether the host's clock affects a cell.

    Several tasks on one CPU switch at any time, and two commands that end together
    cause one or two interrupts.
    """
    params = row["params"]
    return bool(params.get("threads", 1) > 1
                or (params.get("mode") == "irq" and params.get("batch") == 2))


def steady(rows: list[Row]) -> Case:
    """Check that the runs of each cell agree."""
    name = f"runs of a cell are within {results.SPREAD:g} % of each other"
    return results.none_of(name, (
        f"{results.cell_name(row)}: {row['spread_pct']} %" for row in rows
        if row["spread_pct"] > results.SPREAD and not _by_clock(row)))


# -- the report --------------------------------------------------------------

def report(data: Data, cases: list[Case]) -> str:
    """out/bench.md."""
    rows = data["results"]
    text = [
        "# Instructions per operation", ABOUT.format(counted=COUNTED),
        f"Kernel {data['kernel']}, tree {data['commit']}, {data['tool']}.",
        *(one.section(rows) for one in MEASUREMENTS),
        cachelines.section(data.get("lines") or []),
        "## Judged\n\n" + "\n".join(
            f"- {case.status}: {case.name}" +
            "".join(f"\n  - {line}" for line in case.detail.splitlines())
            for case in cases),
    ]
    return "\n\n".join(part for part in text if part) + "\n"


def _tool() -> str:
    qemu = re.search(r"version (\S+)", host.output([guest.qemu(), "--version"]) or "")
    gcc = (host.output(["gcc", "--version"]) or "gcc").splitlines()[0]
    return f"QEMU {qemu[1] if qemu else 'unknown'} {COUNTED}; {gcc}"


def _data(rows: list[Row], followed: list[Row]) -> Data:
    return {"kernel": source.kernel().version, "commit": source.git(
        host.ROOT, "describe", "--always", "--abbrev=12", "--dirty",
        "--exclude=*") or "none",
            "tool": _tool(), "results": rows, "lines": followed}


def _origin(data: Data, name: str) -> Data:
    """Return the kernel, tree and tools that measured a part."""
    config = build.folder(DISTRO if name == DISTRO else LEAN) / ".config"
    return {**{key: data[key] for key in ("kernel", "commit", "tool")},
            "compiler": guests.compiler(), "config": store.of_file(config)}


def _measured(data: Data, before: Data, names: list[str]) -> Data:
    """Return the content of results.json, with new results of the named parts."""
    origins = before.get("parts", {}) | {name: _origin(data, name)
                                         for name in names}
    return {"parts": {name: origins[name] for name in parts.NAMES
                      if name in origins},
            "results": parts.merged(before.get("results", []), [
                row for row in data["results"] if parts.of(row) in names], names),
            "lines": (data if LINES in names else before).get("lines", [])}


def kept(data: Data) -> str:
    """Return the text of results.json, with one row per line."""
    lists = {"results": ("insn_per_op",), "lines": cachelines.KEPT}
    head = {name: value for name, value in data.items() if name not in lists}
    return json.dumps(head, indent=1)[:-2] + "".join(
        f',\n "{each}": [\n  ' + ",\n  ".join(json.dumps({
            name: row[name] for name in ("bench", "variant", "params", *names)})
            for row in data[each]) + "\n ]" for each, names in lists.items()) \
        + "\n}\n"


# -- commands ----------------------------------------------------------------

@dataclass
class Run:
    """The results so far; `good` are the parts that results.json may keep."""

    out: Path
    rows: list[Row] = field(default_factory=list)
    followed: list[Row] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)
    good: list[str] = field(default_factory=list)

    def attempt(self, title: str, work: Callable[[], Found]) -> Found | None:
        """Do some work; if it fails, add a failing case and go on."""
        try:
            found = work()
        except UserError as error:
            self.cases.append(results.missing(title, str(error)))
            return None
        self.cases.append(Case(title, ktap.PASS))
        return found

    def measure(self, part: Part) -> None:
        """Measure and judge a part, and profile it."""
        others = limits.Others()
        found = self.attempt(f"{part.name} was measured", lambda: part.rows(
            part.mode, self.out, RUNS))
        taken = 0 if part.memory else others.look()
        busy = [f"others took {taken:.1f} processors"] if taken > OTHERS else []
        if not part.memory:
            self.cases.append(results.none_of(f"{part.name}: {QUIET}", busy))
        if found is None:
            return
        if not busy:
            self.good.append(part.name)
        self.cases += part.judge(found)
        rows = self.followed if part.name == LINES else self.rows
        rows += found
        profiled = part.profiled
        if profiled and found:
            self.cases += self.attempt(profiled.PROFILE, lambda: profiled.profile(
                part.mode, self.out, found)) or []


def _wanted(args: list[str]) -> list[Part]:
    """Return the named parts."""
    for name in args:
        if name != LEAN and name not in parts.NAMES:
            raise UserError("bench measures "
                            f"{', '.join((LEAN, *parts.NAMES))}, not {name}")
    return [part for part in PARTS if not args or part.name in args
            or part.mode in args]


def main(args: list[str]) -> list[Case]:
    """`bench [PART|lean]...`: all parts, the named ones, or all on the lean kernel."""
    wanted = _wanted(args)
    run = Run(host.fresh("bench"))
    try:
        for part in _built(run, wanted):
            run.measure(part)
        if lean := [row for row in run.rows if row["params"]["config"] != DISTRO]:
            run.cases.append(steady(lean))
    finally:
        # Keep earlier results after an error.
        cases = _finish(_data(run.rows, run.followed), run.cases, run.good)
    return cases


def _built(run: Run, wanted: list[Part]) -> list[Part]:
    """Build the kernels, and return the parts whose kernels were built."""
    lacking = set()
    for mode in dict.fromkeys(mode for part in wanted for mode in part.kernels()):
        try:
            build.build(mode)
        except UserError as error:
            lacking.add(mode)
            run.cases.append(results.missing(f"the {mode} kernel was built",
                                             str(error)))
    return [part for part in wanted if lacking.isdisjoint(part.kernels())]


def _keep(data: Data, names: list[str]) -> list[str]:
    """Write the results of these parts into the tree."""
    if not names:
        return []
    before = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    host.write(RESULTS, kept(_measured(data, before, names)))
    if names == [LINES]:
        return ["overlay/bench/results.json"]
    host.module("bench.draw", RESULTS, PLOTS, what="drawing the results")
    return ["overlay/bench/results.json", "overlay/bench/plots"]


def _finish(data: Data, cases: list[Case], good: list[str]) -> list[Case]:
    text = report(data, cases)
    host.write(host.OUT / "bench.json", json.dumps(data, indent=1) + "\n")
    host.write(host.OUT / "bench.md", text)
    written = ["out/bench.json", "out/bench.md"]
    # A test has its own out/, and must not change the tree.
    if host.OUT.parent == host.ROOT:
        written += _keep(data, good)
    if any((host.OUT / "bench").glob("profile-*.txt")):
        written.append("out/bench/profile-*.txt")
    host.say(text)
    host.say(f"written: {', '.join(written)}")
    return cases
