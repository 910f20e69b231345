# SPDX-License-Identifier: GPL-2.0
"""Reads through DAX mappings: the cost of a page, with and without fault-around.

In `dax`, fault_around_bytes is one page, and a fault maps one page as in kernels
without the series. One boot measures all variants.
"""

from dataclasses import replace
from pathlib import Path

from bench import guests, results
from bench.results import Params, Row
from engine import host
from engine.ktap import Case

NAME = "mapped reads"
COUNTS = "counting instructions per page of a mapping"
BENCH = "dax-mmap"
BASE = "dax"
AROUND = "dax-fault-around"
WINDOW = 65536
MACHINE = replace(guests.COUNTING, timeout=3600)
# Access, kind, limit and aim of the cost of fault-around over a fault per page.
BARS = (("sequential", "hole", 0.15, 0.12), ("sequential", "data", 0.15, 0.12),
        ("random", "hole", 1.15, 1.00), ("random", "data", 1.15, 1.00))

ABOUT = """\
Reads of one byte of each page of a mapped file of 16 MiB. *dax* maps one page per fault
(`fault_around_bytes` of one page), as without the series. *dax-fault-around* maps the
window. *pte*: the mapping is not aligned for huge pages. *first*: the file was not
mapped before, and with *pagecache* it is cached. *remap*: an earlier mapping read the
file. *random* reads one page in 32, each once. *cold*: nothing is cached."""

def programs(out: Path) -> Path:
    """Return the directory of the measuring program."""
    return guests.compiled(out / "programs-mmap", "dax-mmap").parent


def _count(mode: str, out: Path, name: str, kind: str, which: str,
           runs: int) -> list[Row]:
    return results.read(guests.boot(
        mode, out, f"{name}-{which}-{mode}", "dax-mmap.sh",
        (programs(out), name, kind, which, runs), MACHINE), mode)


def rows(mode: str, out: Path, runs: int) -> list[Row]:
    """Measure all cells on ext4, and a few on XFS."""
    with host.step(f"counting instructions of mapped reads ({mode})"):
        found = _count(mode, out, BENCH, "ext4", "all", runs)
    with host.step(f"counting instructions of mapped reads on XFS ({mode})"):
        return found + _count(mode, out, f"{BENCH}-xfs", "xfs", "few", runs)


def few(out: Path, runs: int = 3) -> list[Row]:
    """Measure the cells that `make demo` shows: sequential first touch."""
    return _count("lean", out, BENCH, "ext4", "few", runs)


def _bar(found: list[Row], access: str, kind: str, most: float,
         aim: float) -> Case:
    cell = {"access": access, "kind": kind, "mapping": "pte",
            "touch": "first", "window": WINDOW, "config": "lean"}
    base, here = (results.find(found, BENCH, variant, **cell)
                  for variant in (BASE, AROUND))
    return results.at_most(
        f"{AROUND}, {access} {kind}, takes at most {most:.2f} of {BASE}",
        here, base, most, aim)


def judge(found: list[Row]) -> list[Case]:
    """Return the cases of the figures."""
    return [_bar(found, *bar) for bar in BARS]


def _kind(params: Params) -> str:
    text = (f"{params['kind']}, {params['access']}, {params['mapping']}, "
            f"{params['touch']}")
    return text + ("" if params["window"] == WINDOW
                   else f", window {params['window']}")


def section(found: list[Row]) -> str:
    """Return the part of out/bench.md."""
    parts = []
    for bench, title in ((BENCH, "DAX reads through a mapping"),
                         (f"{BENCH}-xfs", "The same on XFS")):
        mine = [row for row in found if row["bench"] == bench]
        if mine:
            parts += [f"## {title}", *([ABOUT] if bench == BENCH else []),
                      results.table(mine, BASE, ("read", _kind))]
    return "\n\n".join(parts)


def lines(found: list[Row]) -> list[str]:
    """Return the lines that `make demo` shows."""
    return results.table(found, BASE, ("instructions per page", _kind)).splitlines()
