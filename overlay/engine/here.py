# SPDX-License-Identifier: GPL-2.0
"""Measure reads on this machine: `make here ARGS="FILE /dev/ng0n1 ..."`.

dax_bench and uq_bench of the series read the named files, and write nothing. They
measure the running kernel: files by pread(), nodes and block devices by io_uring, one
task on one CPU. The last column is the nearest figure of `make bench`.
"""

import json
import os
import platform
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import tables
from bench.results import find, markdown
from engine import host
from engine.host import UserError

PACKAGES = ("gcc", "linux-libc-dev", "liburing-dev")
SELFTESTS = host.ROOT / "tools" / "testing" / "selftests"
DAX = SELFTESTS / "filesystems" / "dax" / "dax_bench.c"
UQ = SELFTESTS / "uq" / "uq_bench.c"
# The program for each kind, and its libraries.
MADE_OF = {"file": (DAX, ()), "node": (UQ, ("-luring",)), "block": (UQ, ("-luring",))}
SIZES = (8, 512, 4096)
# The numbers that a program prints, in the order of the table.
NUMBERS = ("ns", "cycles", "instructions")
# A result: path, title, found, guest, why.
Params = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One run of a program, and the nearest row of the results."""

    bench: str
    options: tuple[str, ...]
    title: str
    near: dict[str, Any]
    variant: str


def kind(path: str) -> str:
    """Return the kind of a path: "file", "node" or "block"."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    if not os.access(path, os.R_OK):
        raise UserError(f"{path} cannot be read by this user")
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISBLK(mode):
        return "block"
    if stat.S_ISCHR(mode) and re.match(r"ng\d+n\d+(q\d+)?$", Path(path).name):
        return "node"
    raise UserError(f"{path} is not a file, a node of a user queue, /dev/ngXnY or a "
                    "block device")


def cells(path: str, what: str) -> list[Cell]:
    """Return the measurements of a path."""
    if what == "file":
        return [Cell("dax-read", ("--random", f"--size={size}"),
                     f"pread, {size} bytes", {**tables.READ, "config": "lean",
                                              "size": size}, "read")
                for size in SIZES]
    variant = "block" if what == "block" else \
        "uq" if re.search(r"q\d+$", path) else "passthru"
    return [Cell("nvme", ("--fixed", f"--batch={batch}", f"--depth={max(batch, 64)}",
                          f"--size={size}", *(["--poll"] if poll else [])),
                 f"{'polled' if poll else 'interrupts'}, batch {batch}, "
                 f"{size} bytes", {
                     **tables.NVME, "config": "lean", "bs": size, "batch": batch,
                     "mode": "poll" if poll else "irq"}, variant)
            for poll in (True, False) for batch in (1, 32) for size in (512, 4096)]


def read_line(line: str) -> dict[str, float | None]:
    """Return the numbers of a line that dax_bench or uq_bench printed."""
    words = dict(word.split("=", 1) for word in line.split() if "=" in word)
    if "ns" not in words:
        raise UserError(f"the program printed {line.strip()!r} instead of a time")
    return {name: None if words.get(name, "-") == "-" else float(words[name])
            for name in NUMBERS}


def table(rows: list[Params]) -> str:
    """Return a table for people; a failed measurement shows the reason."""
    def shown(value: float | None) -> str:
        return "-" if value is None else f"{value:.0f}"

    lines = []
    for row in rows:
        found, ns = row["found"], row["found"].get("ns")
        lines.append([row["path"], row["title"], row["why"] or shown(ns),
                      f"{1e9 / ns:,.0f}" if ns else "-", shown(found.get("cycles")),
                      shown(found.get("instructions")), shown(row["guest"])])
    return markdown(["what", "how", "ns", "per s and core", "cycles",
                     "instructions", "in the guest"], lines)


def _compile(source: Path, libraries: tuple[str, ...]) -> Path:
    made = host.OUT / "here" / source.stem
    host.run(["gcc", "-O2", "-Wall", "-o", made, source, *libraries],
             log=host.OUT / "here" / "log", what=f"compiling {source.name}")
    return made


def _measure(program: Path, cell: Cell, path: str) -> tuple[
        dict[str, float | None], str]:
    """Return the numbers of a program, or its error."""
    done = host.run([program, *cell.options, path], log=host.OUT / "here" / "log",
                    what=program.name, check=False)
    if done.returncode:
        # "uq_bench: a ring of io_uring: Operation not permitted"
        why = (done.stdout.strip().splitlines() or ["it printed nothing"])[-1]
        return {}, why.partition(": ")[2] or why
    return read_line(done.stdout), ""


def machine() -> str:
    """Describe this machine in one line."""
    model = re.search(r"^model name\s*:\s*(.+)$", Path(
        "/proc/cpuinfo").read_text("utf-8"), re.MULTILINE)
    return (f"{model[1] if model else platform.machine()}, "
            f"Linux {platform.release()}")


def main(args: list[str]) -> None:
    """Measure the named paths."""
    if not args:
        raise UserError("name files and namespaces to read (nothing is written): make "
                        "here ARGS=\"/mnt/pmem/file /dev/ng0n1q1 /dev/ng0n1\"")
    kinds = {path: kind(path) for path in args}
    host.need(*PACKAGES)
    host.fresh("here")
    counted = tables.results()
    rows: list[Params] = []
    made = {of: _compile(*of) for of in {MADE_OF[what] for what in kinds.values()}}
    for path, what in kinds.items():
        program = made[MADE_OF[what]]
        for cell in cells(path, what):
            with host.step(f"{path}: {cell.title}"):
                found, why = _measure(program, cell, path)
            rows.append({"path": path, "title": cell.title, "found": found,
                         "guest": find(counted, cell.bench, cell.variant, **cell.near),
                         "why": why})
    host.write(host.OUT / "here" / "here.json", json.dumps(
        {"machine": machine(), "rows": rows}, indent=1)
        + "\n")
    host.say(f"\n{machine()}; not the guest of `make bench`, and the kernel that "
             f"runs here\n\n{table(rows)}\n\n"
             f"written: {host.short(host.OUT / 'here' / 'here.json')}")
