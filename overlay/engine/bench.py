# SPDX-License-Identifier: GPL-2.0
"""`make bench`: instructions per operation, counted in guests.

The guests run under QEMU's -icount with one processor, where guest time is
instructions. All variants of an operation are measured in one boot. Results
go to out/bench.json and out/bench.md, profiles to out/bench/profile-*.txt.
"""

import json
import os
import re
import subprocess
from dataclasses import dataclass

from engine import (
    bench_mmap,
    bench_nvme,
    bench_reap,
    build,
    figures,
    guest,
    host,
    kernels,
    ktap,
    measure,
    source,
)
from engine.host import UserError
from engine.ktap import Case
from engine.measure import PROGRAMS

BASELINE = PROGRAMS / "baseline.json"
RUNS = 9
# Measurements with a module of their own: rows(), few(), judge(), section().
MORE = (bench_mmap, bench_nvme, bench_reap)
COUNTED = "-accel tcg -icount shift=0,sleep=off, one CPU"
# No cell may cost more than this beside the generic path.
SLOWER = 1.02


@dataclass(frozen=True)
class Bar:
    """What a variant may cost at most, and ought to, beside the base."""

    variant: str
    params: dict
    most: float
    aim: float


BARS = (
    Bar("read", {"syscall": "pread", "size": 8, "extents": 1, "hole": False,
                 "threads": 1}, 0.55, 0.45),
    Bar("read_iter", {"syscall": "pread", "size": 8, "extents": 1,
                      "hole": False, "threads": 1}, 0.62, 0.52),
)

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


# -- programs ----------------------------------------------------------------

def _module(mode, out):
    """The measuring module, built for a mode's kernel."""
    folder = out / "module"
    folder.mkdir()
    host.write(folder / "noread.c", (PROGRAMS / "noread.c").read_bytes())
    host.write(folder / "Kbuild", "obj-m := noread.o\n")
    build.make(mode, f"M={folder}", "modules", log=out / "compile.log",
               what="building the measuring module noread")
    (folder / "noread.ko").rename(out / "noread.ko")


def _programs(mode, out):
    """A folder with everything that the guests of a mode need."""
    folder = out / f"programs-{mode}"
    folder.mkdir(parents=True, exist_ok=True)
    measure.compiled(folder, "dax-read")
    _module(mode, folder)
    return folder


# -- guests ------------------------------------------------------------------

def _boot(mode, programs, out, name, command, **how):
    """Boot, run a measurement of reads, and return what it printed."""
    guest.tools_there("mkfs.ext4", "insmod")
    return measure.boot(mode, out, name, "dax-read.sh", (programs, *command),
                        **how)


def _measure(mode, programs, out, which, runs):
    """The cells of one boot, as results."""
    with host.step(f"counting instructions on the {mode} kernel"):
        output = _boot(mode, programs, out, f"{which}-{mode}", (which, runs),
                       icount=True)
    return figures.results(figures.parse(output), mode)


def _wall(mode, programs, out):
    """Nanoseconds per 4 KB read: (variant, readers) -> the best round's."""
    with host.step("reading on the clock, by one and by two processes"):
        output = _boot(mode, programs, out, f"wall-{mode}", ("wall",), cpus=2)
    found = {}
    for variant, readers, ns in re.findall(
            r"^wall (\w+) (\d) \d+ ([\d.]+)$", output, re.MULTILINE):
        found.setdefault((variant, int(readers)), []).append(float(ns))
    return {key: min(values) for key, values in found.items()}


def _profile(mode, programs, out):
    """Profiles by function: (variant, size) -> function -> instructions."""
    with host.step("counting instructions by function"):
        found = measure.profiles(
            mode, out, "profile",
            lambda plugin: _boot(mode, programs, out, f"profile-{mode}",
                                 ("profile",), icount=True, qemu=(plugin,)))
    _write_profiles(found, out)
    return found


def _write_profiles(found, out):
    for (variant, size), functions in found.items():
        host.write(out / f"profile-{size}-{variant}.txt", figures.profile_text(
            functions, f"pread of {size} bytes of an ext4 DAX file, {variant}"))
    for size in sorted({size for _, size in found}):
        beside = {variant: functions for (variant, one), functions
                  in found.items() if one == size}
        host.write(out / f"profile-{size}.txt", figures.profile_table(
            beside, f"pread of {size} bytes of an ext4 DAX file"))


# -- judging -----------------------------------------------------------------

def _bar(rows, bar):
    """Whether a variant clears its bar."""
    name = f"{bar.variant} takes at most {bar.most:.2f} of generic at 8 bytes"
    params = {**bar.params, "config": "lean"}
    base = figures.find(rows, "dax-read", "generic", **params)
    here = figures.find(rows, "dax-read", bar.variant, **params)
    if not base or not here:
        return Case(name, ktap.FAIL, "NOT RUN: the kernel that was measured "
                    f"has no {bar.variant}")
    detail = f"{here:.0f} / {base:.0f} = {here / base:.3f}, aim {bar.aim:.2f}"
    if here / base > bar.most:
        return Case(name, ktap.FAIL,
                    f"{detail}; by function: out/bench/profile-8.txt")
    return Case(f"{name} ({detail})", ktap.PASS)


def _none_slower(rows):
    name = "no cell is slower than generic by more than 2 %"
    every = list(figures.ratios(rows, "dax-read", "generic"))
    slow = [f"{figures.cell_name(row)}: {ratio:.3f}"
            for row, _, ratio in every if ratio > SLOWER]
    if not every:
        return Case(name, ktap.FAIL, "NOT RUN: there is only one variant")
    return Case(name, ktap.FAIL if slow else ktap.PASS, "\n".join(slow))


def steady(rows):
    """Several tasks on one CPU switch where they like; one must repeat."""
    name = f"runs of a cell are within {figures.SPREAD:g} % of each other"
    wild = [f"{figures.cell_name(row)}: {row['spread_pct']} %" for row in rows
            if row["spread_pct"] > figures.SPREAD
            and row["params"].get("threads", 1) == 1]
    return Case(name, ktap.FAIL if wild else ktap.PASS, "\n".join(wild))


def judge(rows):
    """The cases that the figures prove or not."""
    return [*(_bar(rows, bar) for bar in BARS), _none_slower(rows)]


# -- the report --------------------------------------------------------------

def _baseline_part(rows):
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


def _kind(params):
    where = "a hole" if params["hole"] else "data"
    extents = params["extents"]
    return f"{params['size']} B of {where}, {extents} extent" + \
        ("" if extents == 1 else "s")


def _section(title, rows, note=""):
    if not rows:
        return ""
    text = figures.table(rows, "generic", ("read", _kind))
    return "\n".join([f"## {title}", "", *([note, ""] if note else []), text])


def _wall_part(wall):
    lines = []
    for readers in (1, 2):
        base = wall.get(("generic", readers))
        for (variant, count), ns in wall.items():
            if count == readers and base:
                lines.append([variant, count, f"{ns:.0f}", f"{ns / base:.2f}"])
    note = ("4 KB reads of one warm file, each reader on a CPU of its own, "
            "under plain TCG, the best of many short rounds: for information. "
            "An emulator's clock is no promise for any machine.")
    return "\n".join(["## On the clock", "", note, "", figures.markdown(
        ["variant", "readers", "ns per read", "/ generic"], lines)])


def report(data, wall, cases):
    """out/bench.md."""
    rows = data["results"]

    def chosen(bench="dax-read", **params):
        return [row for row in rows if row["bench"] == bench
                and figures.matches(row, params)]

    parts = [
        "# Instructions per operation", ABOUT.format(counted=COUNTED),
        f"Kernel {data['kernel']}, tree {data['commit']}, {data['tool']}.",
        _baseline_part(rows),
        _section("DAX reads by pread()", [
            row for row in chosen(config="lean", syscall="pread", threads=1)
            if row["variant"] != "off"]),
        _section("Switched off", [
            row for row in chosen(config="lean", syscall="pread", threads=1,
                                  extents=1, hole=False)
            if row["variant"] in ("generic", "off")]),
        _section("The same by preadv() of one segment", chosen(
            config="lean", syscall="preadv", threads=1),
            "preadv() costs more before it reaches the file; what is saved "
            "behind ->read_iter is the same."),
        _section("Two readers of one file", chosen(config="lean", threads=2),
                 "Two tasks on one CPU, task switches and ticks included. "
                 "Locks are never contended here."),
        _section("On a distribution-like config", chosen(
            config="distro", threads=1),
            "Mitigations, cgroups, LSM, hardened usercopy: "
            "overlay/configs/distro.config."),
        *(more.section(rows) for more in MORE),
        _wall_part(wall) if wall else "",
        "## Judged\n\n" + "\n".join(
            f"- {case.status}: {case.name}" +
            "".join(f"\n  - {line}" for line in case.detail.splitlines())
            for case in cases),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _commit():
    """The commit of this tree, and whether it was changed since."""
    def git(*args):
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


def _tool():
    output = host.output(["qemu-system-x86_64", "--version"]) or ""
    qemu = re.search(r"version (\S+)", output)
    gcc = (host.output(["gcc", "--version"]) or "gcc").splitlines()[0]
    return f"QEMU {qemu[1] if qemu else 'unknown'} {COUNTED}; {gcc}"


def _data(rows):
    return {"kernel": source.kernel().version, "commit": _commit(),
            "tool": _tool(), "results": rows}


# -- commands ----------------------------------------------------------------

def quick(out):
    """A few rows in one short boot: 8 bytes and 4 KB of data."""
    build.build("lean")
    rows = _measure("lean", _programs("lean", out), out, "few", 3)
    return [row for row in rows if row["bench"] == "dax-read"
            and not row["params"]["hole"]]


def _information(title, work, *args):
    """Without it the other figures stand; that it is missing is said."""
    try:
        return work(*args), Case(title, ktap.PASS)
    except UserError as error:
        return None, Case(title, ktap.FAIL, f"NOT RUN: {error}")


def _lean(out):
    """Everything that is judged: rows, clock, cases."""
    build.build("lean")
    programs = _programs("lean", out)
    rows = _measure("lean", programs, out, "all", RUNS)
    wall, clock = _information("wall clock", _wall, "lean", programs, out)
    _, profile = _information("profile by function", _profile, "lean",
                              programs, out)
    cases = judge(rows)
    for more in MORE:
        found = more.rows("lean", out, RUNS)
        cases += more.judge(found)
        rows += found
    cells, commands = _information("profile of NVMe commands by function",
                                   bench_nvme.profile, "lean", out)
    if cells:
        cases.append(bench_nvme.judge_profile(rows, cells))
    _, ends = _information("profile of their completions by function",
                           bench_reap.profile, "lean", out)
    return rows, wall, [*cases, steady(rows), clock, profile, commands, ends]


def _distro(out):
    """A few rows on a distribution-like config."""
    build.build("distro")
    return _measure("distro", _programs("distro", out), out, "few", RUNS)


def _modes(args):
    measured = kernels.having("measured")
    for mode in args:
        if mode not in measured:
            raise UserError(f"bench measures the kernels {' and '.join(measured)}, "
                            f"not {mode}")
    return args or measured


def main(args):
    """Measure: `bench [lean|distro]...`, both kernels unless named."""
    modes = _modes(args)
    out = host.fresh("bench")
    rows, wall, cases = _lean(out) if "lean" in modes else ([], None, [])
    if "distro" in modes:
        more, case = _information("distribution-like kernel", _distro, out)
        rows += more or []
        cases.append(case)
    return _finish(_data(rows), wall, cases)


def _finish(data, wall, cases):
    text = report(data, wall, cases)
    host.write(host.OUT / "bench.json", json.dumps(data, indent=1) + "\n")
    host.write(host.OUT / "bench.md", text)
    host.say(text)
    host.say("written: out/bench.json, out/bench.md, "
             "out/bench/profile-*.txt")
    return cases
