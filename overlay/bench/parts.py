# SPDX-License-Identifier: GPL-2.0
"""The parts of `make bench`: each is measured, judged and kept by itself.

Modules in MEASUREMENTS have the same functions: few() and lines() are for
`make demo`, which says NAME and COUNTS; section() is a part of out/bench.md; and
profile(), where there is one, writes profiles and is called PROFILE.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from bench import dax_mmap, dax_read, nvme, nvme_reap
from bench.results import Row
from engine.kernels import pristine
from engine.ktap import Case

MEASUREMENTS: tuple[ModuleType, ...] = (dax_read, dax_mmap, nvme, nvme_reap)
# What is measured on the kernel like a distribution's, and what follows cache
# lines, are parts too.
DISTRO, LINES = "distro", "lines"


@dataclass(frozen=True)
class Part:
    """One of those on the kernel that is judged."""

    name: str
    rows: Callable[[str, Path, int], list[Row]]
    judge: Callable[[list[Row]], list[Case]]
    # Its rows in results.json: those of these benches, and whether they are behind
    # an IOMMU.
    benches: tuple[str, ...]
    behind: bool = False
    # The module that writes profiles of it.
    profiled: ModuleType | None = None
    # Is it measured on upstream's kernel too?
    pristine: bool = False

    def has(self, row: dict[str, Any]) -> bool:
        """Whether a result is one of its own."""
        behind = row["params"].get("iommu", "off") != "off"
        return row["bench"] in self.benches and behind == self.behind


PARTS = (
    Part("dax-read", dax_read.rows, dax_read.judge,
         ("syscall", "dax-read", "dax-write"), profiled=dax_read),
    Part("dax-mmap", dax_mmap.rows, dax_mmap.judge, ("dax-mmap", "dax-mmap-xfs")),
    Part("nvme", nvme.rows, nvme.judge, ("io_uring-nop", "nvme"), profiled=nvme,
         pristine=True),
    Part("nvme-iommu", nvme.rows_behind, nvme.judge_behind, ("nvme",), behind=True,
         pristine=True),
    Part("nvme-reap", nvme_reap.rows, nvme_reap.judge, ("nvme-reap", "nvme-qos"),
         profiled=nvme_reap),
)
NAMES = (*(part.name for part in PARTS), DISTRO, LINES)


def kernels(name: str) -> tuple[str, ...]:
    """The kernels that a part is measured on."""
    mode = DISTRO if name == DISTRO else "lean"
    alone = any(part.name == name and not part.pristine for part in PARTS)
    return (mode,) if alone else (mode, pristine(mode))


def of(row: dict[str, Any]) -> str:
    """The name of the part that a result is of."""
    if row["params"].get("config") == DISTRO:
        return DISTRO
    return next((part.name for part in PARTS if part.has(row)), "")


def merged(before: Iterable[dict[str, Any]], now: Iterable[dict[str, Any]],
           names: Iterable[str]) -> list[dict[str, Any]]:
    """Results in the order of their parts, those of the named ones from NOW."""
    rows = [*(row for row in before if of(row) not in names), *now]
    return [row for name in NAMES for row in rows if of(row) == name]
