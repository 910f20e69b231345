# SPDX-License-Identifier: GPL-2.0
"""`make bench`: instructions per operation, counted in guests.

The guests run under QEMU's -icount with one processor, where guest time is
instructions. All variants of an operation are measured in one boot. Results
go to out/bench.json and out/bench.md, profiles to out/bench/profile-*.txt. What
the same operations do to cache lines is followed in guests of four processors
(lines.py), and stands apart in both.
"""

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from engine import build, host, kernels, ktap, limits, prose, source, store
from engine.bench import dax_mmap, dax_read, figures, lines, measure, nvme, reap
from engine.bench.figures import Row
from engine.bench.measurement import Measurement, Profiled
from engine.host import UserError
from engine.ktap import Case

BASELINE = measure.PROGRAMS / "baseline.json"
PLOTS = measure.PROGRAMS / "plots"
RUNS = 9
MEASUREMENTS: tuple[Measurement, ...] = (dax_read, dax_mmap, nvme, reap)
PROFILED: tuple[Profiled, ...] = (dax_read, nvme, reap)
# What follows cache lines alone.
LINES = "lines"
# Where others' work takes more than so much of a processor, QEMU's device ends the
# commands of a batch apart, and each has an interrupt.
QUIET, OTHERS = "the machine did nothing else", 0.25
COUNTED = "-accel tcg -icount shift=0,sleep=off, one CPU"

ABOUT = """\
Instructions per operation, counted in a QEMU guest ({counted}); all variants
of a row come from the same boot, and the file is warm. **Instructions are not
cycles**: cache misses and contended atomic operations do not show, and
`rep movsb` counts one instruction per byte it copies, in every variant alike.

- *generic*: today's iomap path. `ext4.dax_fast_read` is off, and a measuring
  module (`overlay/bench/noread.c`) took `->read` away from the open file. It
  has the patches of the series that help every file system.
- *read_iter*: the same with the parameter on: the same `pread()` arrives at
  `->read_iter`, which has the fast path.
- *read*: the parameter on; `pread()` arrives at `->read`.
- *off*: the parameter off; what `->read` costs systems that switch it off.

Data with more than one extent has extents of a single block; a hole is read
within a file of as many data extents. With one extent the offsets vary too."""

# What out/bench.json holds.
Data = dict[str, Any]
Found = TypeVar("Found")


# -- judging -----------------------------------------------------------------

def _by_clock(row: Row) -> bool:
    """Whether the host's clock has a say in a cell.

    Several tasks on one CPU switch where they like. The interrupts of two
    commands that end together are one or two, as QEMU's timers have it; of
    one command there is one, and of many they come together.
    """
    params = row["params"]
    return bool(params.get("threads", 1) > 1
                or (params.get("mode") == "irq" and params.get("batch") == 2))


def steady(rows: list[Row]) -> Case:
    """What is counted comes out the same when it is counted again."""
    name = f"runs of a cell are within {figures.SPREAD:g} % of each other"
    wild = [f"{figures.cell_name(row)}: {row['spread_pct']} %" for row in rows
            if row["spread_pct"] > figures.SPREAD and not _by_clock(row)]
    return Case(name, ktap.FAIL if wild else ktap.PASS, "\n".join(wild))


def judge(rows: list[Row]) -> list[Case]:
    """The cases that the figures of all measurements prove or not."""
    return [case for one in MEASUREMENTS for case in one.judge(rows)]


# -- the report --------------------------------------------------------------

def _baseline_part(rows: list[Row]) -> str:
    baseline = json.loads(BASELINE.read_text(encoding="utf-8"))
    lines, flagged = [], False
    same = baseline["compiler"] == measure.compiler()
    for entry, now, moved in figures.moves(rows, baseline):
        flag = same and abs(moved) > figures.MOVED
        flagged |= flag
        lines.append([entry["what"], f"{entry['first']:.0f}",
                      f"{entry['insn_per_op']:.0f}", f"{now:.0f}",
                      f"{moved:+.1f} %{' (!)' if flag else ''}"])
    part = ["## Baselines", "", baseline["about"], "",
            figures.markdown(["what", "first", "unpatched", "now", "moved"], lines)]
    if not same:
        part += ["", f"These are of {baseline['compiler']}, this kernel is of "
                 f"{measure.compiler()}: what moved is not ours alone."]
    if flagged:
        part += ["", "(!) moved by more than "
                 f"{figures.MOVED:g} %: {baseline['explained']}"]
    return "\n".join(part)


def report(data: Data, wall: dax_read.Wall | None, cases: list[Case]) -> str:
    """out/bench.md."""
    rows = data["results"]
    parts = [
        "# Instructions per operation", ABOUT.format(counted=COUNTED),
        f"Kernel {data['kernel']}, tree {data['commit']}, {data['tool']}.",
        _baseline_part(rows),
        *(one.section(rows) for one in MEASUREMENTS),
        lines.section(data.get("lines") or []),
        dax_read.clock_section(wall) if wall else "",
        "## Judged\n\n" + "\n".join(
            f"- {case.status}: {case.name}" +
            "".join(f"\n  - {line}" for line in case.detail.splitlines())
            for case in cases),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _commit() -> str:
    """The commit of this tree, and whether it was changed since."""
    def git(*args: str) -> str | None:
        done = subprocess.run(["git", "-C", str(host.ROOT), *args],
                              capture_output=True, text=True, check=False,
                              env=dict(os.environ, GIT_OPTIONAL_LOCKS="0"))
        return None if done.returncode else done.stdout.strip()
    try:
        head = git("rev-parse", "--short=12", "HEAD")
        changed = git("status", "--porcelain")
    except FileNotFoundError:
        return "unknown"
    return (head or "none") + ("-dirty" if changed else "")


def _tool() -> str:
    output = host.output(["qemu-system-x86_64", "--version"]) or ""
    qemu = re.search(r"version (\S+)", output)
    gcc = (host.output(["gcc", "--version"]) or "gcc").splitlines()[0]
    return f"QEMU {qemu[1] if qemu else 'unknown'} {COUNTED}; {gcc}"


def _data(rows: list[Row], followed: list[Row]) -> Data:
    return {"kernel": source.kernel().version, "commit": _commit(),
            "tool": _tool(), "results": rows, "lines": followed}


def _head(data: Data) -> Data:
    """What was measured, and with what."""
    return {**{name: data[name] for name in ("kernel", "commit", "tool")},
            "compiler": measure.compiler(), "configs": {
                mode: store.of_file(build.folder(mode) / ".config")
                for mode in kernels.having("measured")
                if (build.folder(mode) / ".config").exists()}}


def _measured(data: Data) -> Data:
    """What the tree keeps of a measurement, and what of each was measured on."""
    return {**_head(data), "lines_commit": data["commit"],
            "results": data["results"], "lines": data["lines"]}


def kept(data: Data) -> str:
    """The text of results.json: covers and prose go by it.

    A row a line, so that a change of one figure is a change of one line.
    """
    parts = {"results": ("insn_per_op",), "lines": lines.KEPT}
    head = {name: value for name, value in data.items() if name not in parts}
    return json.dumps(head, indent=1)[:-2] + "".join(
        f',\n "{part}": [\n  ' + ",\n  ".join(json.dumps({
            name: row[name] for name in ("bench", "variant", "params", *names)})
            for row in data[part]) + "\n ]" for part, names in parts.items()) \
        + "\n}\n"


# -- commands ----------------------------------------------------------------

def _information(title: str, work: Callable[..., Found],
                 *args: Any) -> tuple[Found | None, Case]:
    """Without it the other figures stand; that it is missing is said."""
    try:
        return work(*args), Case(title, ktap.PASS)
    except UserError as error:
        return None, Case(title, ktap.FAIL, f"NOT RUN: {error}")


def _lean(out: Path) -> tuple[list[Row], dax_read.Wall | None, list[Case]]:
    """Everything that is judged: rows, clock, cases."""
    build.build("lean")
    rows, busy, others = [], [], limits.Others()
    for one in MEASUREMENTS:
        rows += one.rows("lean", out, RUNS)
        if (taken := others.look()) > OTHERS:
            busy.append(f"{one.NAME}: others took {taken:.1f} processors")
    cases = [*judge(rows), Case(QUIET, ktap.FAIL if busy else ktap.PASS,
                                "\n".join(busy))]
    wall, clock = _information("wall clock", dax_read.clock, "lean", out)
    more = [clock]
    for one in PROFILED:
        found, case = _information(one.PROFILE, one.profile, "lean", out, rows)
        cases += found or []
        more.append(case)
    return rows, wall, [*cases, steady(rows), *more]


def _lines(out: Path) -> tuple[list[Row], list[Case]]:
    """Cache lines, on the kernel that is judged."""
    build.build("lean")
    found, case = _information(lines.TITLE, lines.rows, "lean", out)
    return (found, [*lines.judge(found), case]) if found else ([], [case])


def _distro(out: Path) -> list[Row]:
    """A few rows on a distribution-like config."""
    build.build("distro")
    with host.step("counting instructions of NVMe commands (distro)"):
        found = nvme.few(out, mode="distro")
    return [*dax_read.rows("distro", out, RUNS), *found]


def _modes(args: list[str]) -> list[str]:
    known = [*kernels.having("measured"), LINES]
    for mode in args:
        if mode not in known:
            raise UserError(f"bench measures {', '.join(known)}, not {mode}")
    return args or known


def main(args: list[str]) -> list[Case]:
    """Measure: `bench [lean|distro|lines]...`, everything unless named.

    What follows cache lines does so on the lean kernel.
    """
    modes = _modes(args)
    out = host.fresh("bench")
    rows: list[Row] = []
    followed: list[Row] = []
    cases: list[Case] = []
    wall = None
    if "lean" in modes:
        rows, wall, cases = _lean(out)
    if LINES in modes or "lean" in modes:
        followed, more_cases = _lines(out)
        cases += more_cases
    if "distro" in modes:
        more, case = _information("distribution-like kernel", _distro, out)
        rows += more or []
        cases.append(case)
        if more:
            cases += [*dax_read.judge_distro(more), *nvme.judge_distro(more)]
    return _finish(_data(rows, followed), wall, cases)


def _draw() -> None:
    """Draw what README.md shows of the results."""
    host.run([host.pytool("python"), "-m", "engine.report.front", prose.RESULTS,
              PLOTS], env={"PYTHONPATH": str(host.ROOT / "overlay"),
                           "PYTHONDONTWRITEBYTECODE": "1"},
             what="drawing the results")


def _keep(data: Data) -> list[str]:
    """Leave in the tree what was measured on the kernel that is judged."""
    if any(row["params"].get("config") == "lean" for row in data["results"]):
        host.write(prose.RESULTS, kept(_measured(data)))
        _draw()
        return ["overlay/bench/results.json", "overlay/bench/plots"]
    if data["results"] or not data["lines"] or not prose.RESULTS.exists():
        return []
    # Cache lines alone were followed: the instructions are those of before.
    before = json.loads(prose.RESULTS.read_text("utf-8"))
    host.write(prose.RESULTS, kept({**before, "lines_commit": data["commit"],
                                    "lines": data["lines"]}))
    return ["overlay/bench/results.json"]


def _finish(data: Data, wall: dax_read.Wall | None,
            cases: list[Case]) -> list[Case]:
    text = report(data, wall, cases)
    host.write(host.OUT / "bench.json", json.dumps(data, indent=1) + "\n")
    host.write(host.OUT / "bench.md", text)
    written = ["out/bench.json", "out/bench.md"]
    # A test has an out/ of its own, and its figures are no results; nor are those
    # of a busy machine.
    busy = any(case.name == QUIET and case.status == ktap.FAIL
               for case in cases)
    if host.OUT.parent == host.ROOT and not busy:
        written += _keep(data)
    written += [f"out/bench/{name}-*.txt" for name in ("profile", "lines")
                if any((host.OUT / "bench").glob(f"{name}-*.txt"))]
    host.say(text)
    host.say(f"written: {', '.join(written)}")
    return cases
