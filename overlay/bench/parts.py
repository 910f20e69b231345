# SPDX-License-Identifier: GPL-2.0
"""The parts of `make bench`: each is measured, judged and kept by itself.

Modules in MEASUREMENTS define few(), lines(), NAME and COUNTS for `make demo`,
section() for out/bench.md, and perhaps profile() with the title PROFILE.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from bench import cachelines, dax_mmap, dax_read, nvme, nvme_reap
from bench.results import Row
from engine.kernels import generic, pristine, simple
from engine.ktap import Case

MEASUREMENTS: tuple[ModuleType, ...] = (dax_read, dax_mmap, nvme, nvme_reap)
# The part that runs on a kernel like a distribution's, and the part that follows
# cache lines, whose rows are kept apart.
DISTRO, LINES = "distro", "lines"
LEAN = "lean"


@dataclass(frozen=True)
class Part:
    """One part of the benchmarks."""

    name: str
    rows: Callable[[str, Path, int], list[Row]]
    judge: Callable[[list[Row]], list[Case]]
    # The benches of its rows in results.json, and whether they run behind an IOMMU.
    benches: tuple[str, ...] = ()
    behind: bool = False
    # Does it use no device, so that other programs do not change its figures?
    memory: bool = False
    # The module that writes profiles of it.
    profiled: ModuleType | None = None
    # Does upstream's kernel run it, too?
    pristine: bool = False
    # Do kernels that lack fast paths of DAX reads run it, too?
    layers: bool = False
    mode: str = LEAN

    def has(self, row: dict[str, Any]) -> bool:
        """Return whether a result belongs to this part."""
        if row["params"].get("config") == DISTRO:
            return self.mode == DISTRO
        behind = row["params"].get("iommu", "off") != "off"
        return row["bench"] in self.benches and behind == self.behind

    def kernels(self) -> tuple[str, ...]:
        """Return the kernels that run this part."""
        return (self.mode, *([pristine(self.mode)] if self.pristine else ()),
                *((generic(self.mode), simple(self.mode)) if self.layers else ()))


PARTS = (
    Part("dax-read", dax_read.rows, dax_read.judge,
         ("syscall", *dax_read.BENCHES), memory=True, profiled=dax_read, layers=True),
    Part("dax-mmap", dax_mmap.rows, dax_mmap.judge, ("dax-mmap", "dax-mmap-xfs"),
         memory=True),
    Part("nvme", nvme.rows, nvme.judge, ("io_uring-nop", "nvme"), profiled=nvme,
         pristine=True),
    Part("nvme-iommu", nvme.rows_behind, nvme.judge_behind, ("nvme",), behind=True,
         pristine=True),
    Part("nvme-reap", nvme_reap.rows, nvme_reap.judge, ("nvme-reap", "nvme-qos"),
         profiled=nvme_reap),
    Part(DISTRO, lambda mode, out, runs: [
        *dax_read.rows(mode, out, runs), *nvme.rows_distro(out, mode)],
        lambda found: [*dax_read.judge_distro(found), *nvme.judge_distro(found)],
        mode=DISTRO, pristine=True, layers=True),
    Part(LINES, cachelines.rows, cachelines.judge, pristine=True, layers=True),
)
NAMES = tuple(part.name for part in PARTS)


def of(row: dict[str, Any]) -> str:
    """Return the name of the part that a result belongs to."""
    return next((part.name for part in PARTS if part.has(row)), "")


def merged(before: Iterable[dict[str, Any]], now: Iterable[dict[str, Any]],
           names: Iterable[str]) -> list[dict[str, Any]]:
    """Return results in the order of their parts, those of the named ones from NOW."""
    rows = [*(row for row in before if of(row) not in names), *now]
    return [row for name in NAMES for row in rows if of(row) == name]
