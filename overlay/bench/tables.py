# SPDX-License-Identifier: GPL-2.0
"""Compare tables in README.md with overlay/bench/results.json.

A table is between <!-- table: NAME --> and <!-- end -->. TABLES lists for each row:
text, bench, the variants of the columns, and parameters. The last column is the ratio
of the last two variants.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from bench.results import Row, find
from engine import host
from engine.host import UserError

README = host.ROOT / "README.md"
RESULTS = host.ROOT / "overlay" / "bench" / "results.json"
MARKED = re.compile(r"^<!-- table: ([\w-]+) -->\n(.*?)^<!-- end -->$",
                    re.MULTILINE | re.DOTALL)
READ = {"fs": "ext4", "syscall": "pread", "extents": 1, "hole": False, "threads": 1}
NVME = {"bs": 512, "fixed": True, "op": "read", "queues": 2, "iommu": "off"}
POLLED, ONE = {**NVME, "mode": "poll", "batch": 32, "depth": 32}, \
    {**NVME, "mode": "irq", "batch": 1, "depth": 1}
TRIMMED = ("passthru", "passthru-trimmed")
TABLES: dict[str, tuple[tuple[str, str, tuple[str, ...], dict[str, Any]], ...]] = {
    "gains": (
        ("`pread()` of 8 bytes, ext4 DAX", "dax-read", ("generic", "read"),
         {**READ, "size": 8}),
        ("`pread()` of 4 KiB (the copy alone is 4,096)", "dax-read",
         ("generic", "read"), {**READ, "size": 4096}),
        ("a page of a DAX mapping, sequential, first touch", "dax-mmap",
         ("dax", "dax-fault-around"),
         {"kind": "data", "access": "sequential", "mapping": "pte", "touch": "first",
          "window": 65536}),
    ),
    "commands": (
        ("polled, batch 32", "nvme", (*TRIMMED, "uq"), POLLED),
        ("the same into queue memory", "nvme", (*TRIMMED, "uq-memory"), POLLED),
        ("interrupts, batch 32", "nvme", (*TRIMMED, "uq"), {**POLLED, "mode": "irq"}),
        ("interrupts, batch 1", "nvme", (*TRIMMED, "uq"), ONE),
    ),
}


def results() -> list[Row]:
    """Return the results in overlay/bench/results.json."""
    if not RESULTS.exists():
        return []
    return list(json.loads(RESULTS.read_text("utf-8"))["results"])


def rows(name: str, found: list[Row]) -> list[str]:
    """Return the rows of a table in the form of README.md."""
    if name not in TABLES:
        raise UserError(f"bench/tables.py has no table {name}")
    lines = []
    for text, bench, variants, params in TABLES[name]:
        figures = [figure for variant in variants if (figure := find(
            found, bench, variant, config="lean", **params))]
        if len(figures) < len(variants):
            raise UserError("overlay/bench/results.json has no figure for the row "
                            f"'{text}' of table {name}")
        lines.append(f"| {text} | " + " | ".join(f"{each:,.0f}" for each in figures)
                     + f" | {figures[-1] / figures[-2]:.2f} |")
    return lines


def check(text: str, found: list[Row]) -> Iterator[tuple[str, list[str]]]:
    """Yield each table of a text, and its wrong lines."""
    marked = dict(MARKED.findall(text))
    for name in dict.fromkeys((*TABLES, *marked)):
        # The first two lines of a table are its heading and a rule.
        there = marked.get(name, "").strip().splitlines()[2:]
        wanted = rows(name, found)
        yield name, [f"row {number} is {is_now!r}, results.json has {row!r}"
                     for number, (is_now, row) in enumerate(
                         zip(there, wanted, strict=False), 1) if is_now != row] + (
            [] if len(there) == len(wanted) else
            [f"it has {len(there)} rows of {len(wanted)}"])
