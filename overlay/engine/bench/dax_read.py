# SPDX-License-Identifier: GPL-2.0
"""Reads of a DAX file by system calls: the iomap path and the fast one."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine import build, guest, host, ktap
from engine.bench import figures, measure
from engine.bench.figures import Params, Profiles, Row
from engine.guest import Machine
from engine.ktap import Case

NAME = "reads"
COUNTS = "counting instructions per read"
PROFILE = "profile by function"
BENCH = "dax-read"
WRITES = "dax-write"
BASE = "generic"
# The kernel whose figures are judged, with all cells; of others there are few.
JUDGED = "lean"
# No cell may cost more than this beside the generic path.
SLOWER = 1.02
# What each variant of the measurement is, for a reader that is new to it.
MEANING = {
    "generic": "today's kernel: the iomap path",
    "read_iter": "patched, through ->read_iter",
    "read": "patched, through ->read",
}
# Nanoseconds per 4 KB read: (variant, readers) -> the best round's.
Wall = dict[tuple[str, int], float]


@dataclass(frozen=True)
class Bar:
    """What a variant may cost at most, and ought to, beside the base."""

    variant: str
    params: Params
    most: float
    aim: float
    bench: str = BENCH


SMALL = {"syscall": "pread", "size": 8, "extents": 1, "hole": False,
         "threads": 1}
EXT4 = {**SMALL, "fs": "ext4"}
XFS = {**SMALL, "fs": "xfs"}
BARS = (
    Bar("read", EXT4, 0.50, 0.45),
    Bar("read_iter", EXT4, 0.55, 0.50),
    Bar("read_iter", XFS, 0.62, 0.52),
    Bar("read", {**EXT4, "extents": 10000}, 0.60, 0.55),
    *(Bar("read_iter", {**params, "syscall": syscall}, 1.00, 0.75)
      for params in (EXT4, XFS) for syscall in ("preadv-2", "read-fixed")),
    Bar("write", {**EXT4, "syscall": "pwrite"}, 0.65, 0.60, WRITES),
)
# The same on the kernel that is like a distribution's.
DISTRO_BARS = (Bar("read", EXT4, 0.55, 0.50),)
# System calls beside pread() and preadv(), for a reader that is new to them.
OTHERS = {
    "preadv-2": "preadv() of two segments",
    "read-fixed": "io_uring's READ_FIXED, by itself",
    "splice": "splice() and read() of the pipe",
    "appended": "pread() of what was there before, each after a block was "
                "appended, which is not counted",
}


# -- programs ----------------------------------------------------------------

def _module(mode: str, out: Path) -> None:
    """The measuring module, built for a mode's kernel."""
    folder = out / "module"
    host.remove(folder)
    folder.mkdir()
    host.write(folder / "noread.c",
               (measure.PROGRAMS / "noread.c").read_bytes())
    host.write(folder / "Kbuild", "obj-m := noread.o\n")
    build.make(mode, f"M={folder}", "modules", log=out / "compile.log",
               what="building the measuring module noread")
    (folder / "noread.ko").rename(out / "noread.ko")


def programs(mode: str, out: Path) -> Path:
    """A folder with everything that the guests of a mode need."""
    folder = out / f"programs-{mode}"
    if not (folder / "noread.ko").exists():
        folder.mkdir(parents=True, exist_ok=True)
        measure.compiled(folder, BENCH)
        _module(mode, folder)
    return folder


# -- guests ------------------------------------------------------------------

def _boot(mode: str, out: Path, name: str, command: tuple[Any, ...],
          machine: Machine = measure.COUNTING, fs: str = "ext4") -> str:
    """Boot, run a measurement of reads, and return what it printed."""
    guest.tools_there(f"mkfs.{fs}", "insmod")
    return measure.boot(mode, out, name, "dax-read.sh",
                        (programs(mode, out), fs, *command), machine)


def _count(mode: str, out: Path, which: str, runs: int, fs: str) -> list[Row]:
    """The cells of one boot, as results."""
    with host.step(f"counting instructions on the {mode} kernel, {fs}"):
        output = _boot(mode, out, f"{which}-{fs}-{mode}", (which, runs), fs=fs)
    return figures.results(figures.parse(output), mode)


def rows(mode: str, out: Path, runs: int) -> list[Row]:
    """All cells of ext4 on the kernel that is judged, else a few."""
    return [*_count(mode, out, "all" if mode == JUDGED else "few", runs,
                    "ext4"),
            *_count(mode, out, "few", runs, "xfs")]


def few(out: Path, runs: int = 3) -> list[Row]:
    """What `make demo` shows: 8 bytes and 4 KB of data."""
    return [row for row in _count(JUDGED, out, "few", runs, "ext4")
            if row["bench"] == BENCH and not row["params"]["hole"]
            and row["params"]["syscall"] not in OTHERS]


def clock(mode: str, out: Path) -> Wall:
    """What a read takes on the clock."""
    with host.step("reading on the clock, by one and by two processes"):
        output = _boot(mode, out, f"wall-{mode}", ("wall",),
                       Machine(cpus=2, append=measure.PMEM))
    found: dict[tuple[str, int], list[float]] = {}
    for variant, readers, ns in re.findall(
            r"^wall (\w+) (\d) \d+ ([\d.]+)$", output, re.MULTILINE):
        found.setdefault((variant, int(readers)), []).append(float(ns))
    return {key: min(values) for key, values in found.items()}


def profile(mode: str, out: Path, found: list[Row]) -> list[Case]:
    """Profiles by function and by stack, written for each size and variant."""
    with host.step("counting instructions by function"):
        _write_profiles(measure.profiles(
            mode, out, "profile",
            lambda plugin: _boot(mode, out, f"profile-{mode}", ("profile",),
                                 measure.COUNTING.adding(qemu=(plugin,)))),
            out)
    return []


def _write_profiles(found: Profiles, out: Path) -> None:
    for size in sorted({size for _, size in found}):
        title = f"pread of {size} bytes of an ext4 DAX file"
        beside = {variant: profile for (variant, one), profile in found.items()
                  if one == size}
        written = figures.write_profiles(out, str(size), beside, title)
        for variant, functions in written.items():
            host.write(out / f"profile-{size}-{variant}.txt",
                       figures.profile_text(functions, f"{title}, {variant}"))


# -- judging -----------------------------------------------------------------

def _bar(found: list[Row], bar: Bar, config: str = JUDGED) -> Case:
    """Whether a variant clears its bar."""
    name = (f"{bar.variant} takes at most {bar.most:.2f} of generic at 8 bytes "
            f"of {bar.params['fs']}")
    name += "".join(f", {key} {bar.params[key]}" for key in SMALL
                    if bar.params[key] != SMALL[key])
    if config != JUDGED:
        name += f", {config} kernel"
    params = {**bar.params, "config": config}
    base = figures.find(found, bar.bench, BASE, **params)
    here = figures.find(found, bar.bench, bar.variant, **params)
    if not base or not here:
        return Case(name, ktap.FAIL, "NOT RUN: the kernel that was measured "
                    f"has no {bar.variant}")
    detail = f"{here:.0f} / {base:.0f} = {here / base:.3f}, aim {bar.aim:.2f}"
    if here / base > bar.most:
        return Case(name, ktap.FAIL,
                    f"{detail}; by function: out/bench/profile-8.txt")
    return Case(f"{name} ({detail})", ktap.PASS)


def _none_slower(found: list[Row]) -> Case:
    name = "no cell is slower than generic by more than 2 %"
    every = [one for bench in (BENCH, WRITES)
             for one in figures.ratios(found, bench, BASE)]
    slow = [f"{figures.cell_name(row)}: {ratio:.3f}"
            for row, _, ratio in every if ratio > SLOWER]
    if not every:
        return Case(name, ktap.FAIL, "NOT RUN: there is only one variant")
    return Case(name, ktap.FAIL if slow else ktap.PASS, "\n".join(slow))


def judge(found: list[Row]) -> list[Case]:
    """The cases that the figures prove or not."""
    return [*(_bar(found, bar) for bar in BARS), _none_slower(found)]


def judge_distro(found: list[Row]) -> list[Case]:
    """The same of a kernel that is like a distribution's."""
    return [_bar(found, bar, "distro") for bar in DISTRO_BARS]


# -- the report --------------------------------------------------------------

def _kind(params: Params) -> str:
    where = "a hole" if params["hole"] else "data"
    extents = params["extents"]
    return f"{params['size']} B of {where}, {extents} extent" + \
        ("" if extents == 1 else "s")


def _way(params: Params) -> str:
    return f"{params['syscall']}, {_kind(params)}"


def _table(title: str, found: list[Row], note: str = "",
           kind: Callable[[Params], str] = _kind) -> str:
    if not found:
        return ""
    text = figures.table(found, BASE, ("read", kind))
    return "\n".join([f"## {title}", "", *([note, ""] if note else []), text])


def section(found: list[Row]) -> str:
    """The part of out/bench.md."""
    def chosen(bench: str = BENCH, **params: Any) -> list[Row]:
        return [row for row in found if row["bench"] == bench
                and figures.matches(row, params)]

    parts = [
        _table("DAX reads of ext4 by pread()", [
            row for row in chosen(config="lean", syscall="pread", threads=1,
                                  fs="ext4") if row["variant"] != "off"]),
        _table("DAX reads of XFS by pread()", chosen(
            config="lean", syscall="pread", threads=1, fs="xfs")),
        _table("Switched off", [
            row for row in chosen(config="lean", syscall="pread", threads=1,
                                  fs="ext4", extents=1, hole=False)
            if row["variant"] in ("generic", "off")]),
        _table("The same by preadv() of one segment", chosen(
            config="lean", syscall="preadv", threads=1, fs="ext4"),
            "preadv() costs more before it reaches the file; what is saved "
            "behind ->read_iter is the same."),
        *[_table(f"Other ways to read, {fs}", [
            row for row in chosen(config="lean", fs=fs)
            if row["params"]["syscall"] in OTHERS], "; ".join(
                f"*{name}* is {what}" for name, what in OTHERS.items()) + ".",
            _way) for fs in ("ext4", "xfs")],
        _table("Overwrites of DAX files of ext4 by pwrite()", chosen(
            WRITES, config="lean"), kind=lambda params:
            f"{params['size']} B"),
        _table("Two readers of one file", chosen(config="lean", threads=2),
               "Two tasks on one CPU, task switches and ticks included. "
               "Locks are never contended here."),
        _table("On a distribution-like config, ext4", [
            row for row in chosen(config="distro", threads=1, fs="ext4")
            if row["params"]["syscall"] == "pread"],
            "Mitigations, cgroups, LSM, hardened usercopy: "
            "overlay/configs/distro.config."),
    ]
    return "\n\n".join(part for part in parts if part)


def clock_section(wall: Wall) -> str:
    """The part of out/bench.md about the clock."""
    lines = []
    for readers in (1, 2):
        base = wall.get((BASE, readers))
        for (variant, count), ns in wall.items():
            if count == readers and base:
                lines.append([variant, count, f"{ns:.0f}", f"{ns / base:.2f}"])
    note = ("4 KB reads of one warm file, each reader on a CPU of its own, "
            "under plain TCG, the best of many short rounds: for information. "
            "An emulator's clock is no promise for any machine.")
    return "\n".join(["## On the clock", "", note, "", figures.markdown(
        ["variant", "readers", "ns per read", "/ generic"], lines)])


def lines(found: list[Row]) -> list[str]:
    """What `make demo` shows: one line per size, a column per variant."""
    found = [row for row in found if row["variant"] in MEANING]
    names = [name for name in MEANING
             if any(row["variant"] == name for row in found)]
    cells = {(row["params"].get("size"), row["variant"]): row["insn_per_op"]
             for row in found if row["params"].get("syscall", "pread")
             == "pread" or row["variant"] == "read_iter"}
    text = ["instructions per pread() of an ext4 DAX file",
            "   bytes" + "".join(f"{name:>16}" for name in names)]
    for size in sorted({size for size, _ in cells if size is not None}):
        base = cells.get((size, BASE))
        line = f"{size:>8}"
        for name in names:
            value = cells.get((size, name))
            shown = "-" if value is None else f"{value:.0f}"
            if value and base and name != BASE:
                shown += f" ({value / base:.2f})"
            line += f"{shown:>16}"
        text.append(line)
    return text + [f"{name}: {MEANING[name]}" for name in names]
