# SPDX-License-Identifier: GPL-2.0
"""Count cache lines that an operation touches, and takes from other CPUs.

Tasks of the measuring programs take turns, each on its own CPU (overlay/bench/turns.h).
QEMU's plugin cachelines.c writes the counts of each turn. The program prints for each
run of a cell, in the order of the plugin's turns:

    turns BENCH VARIANT name=value... run=N ops=X warm=W turns=T

W turns warm up and T turns count, with X operations each. Turns with known counts come
before the first cell.
"""

import statistics
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench import dax_mmap, dax_read, guests, nvme
from bench import results as counted
from bench.results import Key, Params, Row
from engine import host, kernels
from engine.guest import Machine
from engine.host import UserError
from engine.ktap import Case

# The number of tasks of the measuring programs.
CPUS = 4
RUNS = 3
KNOWN = "known"
# The plugin's fields of a turn, and the fields of a row.
FIELDS = {"insns": "insn_per_op", "lines": "lines_per_op",
          "own": "own_lines_per_op", "code": "code_lines_per_op",
          "taken": "transfers_per_op"}
# The fields in results.json. Instructions are measured without the plugin.
KEPT = tuple(called for called in FIELDS.values() if called != "insn_per_op")
# A known loop may touch so many lines of its stack.
SLACK = 2
# Lines of data: of a command in a batch of 32, without rings; taken by a single one.
MOST_LINES, MOST_TAKEN = 14, 6
DAX = Machine(append=guests.PMEM, icount=True, cpus=CPUS, timeout=3600)
# Interrupts arrive on the CPU that submits: the plugin only sees that one.
NVME = replace(nvme.MACHINE.adding(append=("irqaffinity=0",)), cpus=CPUS)

ABOUT = """\
**Cache lines stand in for time, as there is no hardware.** QEMU's plugin
`overlay/host/cachelines.c` follows lines of 64 bytes of physical memory, with a model
of caches that are never full. A CPU *takes* a line when it touches a line that another
CPU wrote last, or writes to a line that another CPU has cached. Only accesses of the
kernel count, without devices, page walks and prefetching. Neither lines nor transfers
are nanoseconds.

Tasks take turns of one operation or one batch, and a line counts once per turn. Tasks
that run at the same time take a line at least as often. *own*: lines that the program
shares with the kernel, its rings and its buffer. *taken*: the median of the best run,
and the 10th and 90th percentile of all; each run has new inodes, as the slab may put a
lock into two lines. *files shared*: the tasks share a file descriptor table.
Instructions are those of the kernel; commands show none, as they include waiting."""


# The plugin's figures of one turn.
Turn = dict[str, int]


@dataclass(frozen=True)
class Told:
    """The program's description of turns."""

    bench: str
    variant: str
    params: Params
    ops: int
    warm: int
    turns: int


def read_turns(raw: str) -> list[Turn]:
    """Return all turns of the plugin's output, in order."""
    found: list[Turn] = []
    for text in raw.splitlines():
        kind, *words = text.split()
        if kind == "line":
            continue
        try:
            values = {name: int(value) for name, value in
                      (word.split("=", 1) for word in words[1:])}
            found.append({name: values[name] for name in (*FIELDS, "user", "lost")})
        except (ValueError, KeyError):
            raise UserError("the plugin for cache lines wrote a line that cannot "
                            f"be read: {text[:80]!r}") from None
    return found


def read_told(output: str) -> list[Told]:
    """Return the program's descriptions of turns, in order."""
    counted.check_complete(output)
    return [Told(bench, variant, dict(params),
                 **{name: int(number) for name, number in numbers.items()})
            for (bench, variant, params), numbers in counted.lines(output, "turns")]


def match(output: str, raw: str) -> list[tuple[Told, list[Turn]]]:
    """Return the program's descriptions with their turns."""
    turns = read_turns(raw)
    found = []
    for told in read_told(output):
        mine, turns = (turns[:told.warm + told.turns],
                       turns[told.warm + told.turns:])
        if len(mine) != told.warm + told.turns or not told.turns:
            raise UserError("the plugin for cache lines has seen fewer turns "
                            "than there were")
        if any(turn["lost"] for turn in mine):
            raise UserError("QEMU did not know the address of an access")
        found.append((told, mine[told.warm:]))
    if turns or not found:
        raise UserError("the turns of the plugin for cache lines are not those of the "
                        "program")
    return found


def check_known(told: Told, turns: list[Turn]) -> None:
    """Raise UserError unless the plugin counts known turns correctly."""
    wanted = {
        "touch": lambda one: 0 <= one["user"] - told.params["size"] <= SLACK,
        "bounce": lambda one: one["taken"] == 1,
        "apart": lambda one: one["taken"] == 0,
    }
    if told.variant not in wanted:
        raise UserError(f"nothing is known of the turns of {told.variant!r}")
    good = [turn for turn in turns if wanted[told.variant](turn)]
    # The timer may tick in one turn.
    if len(good) < len(turns) - 1:
        raise UserError("the plugin for cache lines does not count right: "
                        f"{told.variant} gave {turns}")


def _median(turns: list[Turn], name: str, ops: int) -> float:
    return statistics.median(turn[name] for turn in turns) / ops


def _row(key: Key, runs: list[tuple[int, list[Turn]]], config: str) -> Row:
    bench, variant, params = key
    row: Row = {"bench": bench, "variant": variant,
                "params": {**dict(params), "config": config}}
    for name, called in FIELDS.items():
        of_runs = min if name == "taken" else statistics.median
        row[called] = round(of_runs(
            _median(turns, name, ops) for ops, turns in runs), 2)
    taken = [turn["taken"] / ops for ops, turns in runs for turn in turns]
    deciles = statistics.quantiles(taken, n=10, method="inclusive") \
        if len(taken) > 1 else taken * 9
    row["transfers_range"] = [round(deciles[0], 2), round(deciles[8], 2)]
    row["runs"] = len(runs)
    if bench == nvme.BENCH:
        # They include polling until the device has completed the commands.
        del row["insn_per_op"]
    row["spread_pct"] = round(counted.spread(
        [_median(turns, "lines" if bench == nvme.BENCH else "insns", ops)
         for ops, turns in runs]), 2)
    return row


def results(found: list[tuple[Told, list[Turn]]], config: str) -> list[Row]:
    """Return a row for each cell, and check the known turns."""
    cells: dict[Key, list[tuple[int, list[Turn]]]] = {}
    known = 0
    for told, turns in found:
        if told.bench == KNOWN:
            known += 1
            check_known(told, turns)
            continue
        key = told.bench, told.variant, tuple(told.params.items())
        cells.setdefault(key, []).append((told.ops, turns))
    if not known:
        raise UserError("the program printed no known turns to check the plugin for "
                        "cache lines")
    return [_row(key, runs, config) for key, runs in cells.items()]


def _boot(mode: str, out: Path, bench: str, script: str,
          command: tuple[Any, ...], machine: Machine) -> list[Row]:
    name = f"lines-{bench}"
    raw = out / f"{name}.raw"
    host.remove(raw)
    option = f"-plugin {guests.plugin('cachelines')},out={raw}"
    with host.step(f"following cache lines: {bench} ({mode})"):
        output = guests.boot(mode, out, f"{name}-{mode}", script, command,
                              machine.adding(qemu=(option,)))
    return results(match(output, raw.read_text("ascii")), mode)


def rows(mode: str, out: Path, runs: int = RUNS) -> list[Row]:
    """Measure all cells: reads, mapped reads and commands."""
    runs = min(runs, RUNS)
    return [
        *(row for row in dax_read.named(_boot(
            kernels.generic(mode), out, dax_read.BENCH, "dax-read.sh",
            (dax_read.programs(kernels.generic(mode), out), "ext4", "lines", runs),
            DAX), dax_read.BASE, mode) if row["variant"] == dax_read.BASE),
        *dax_read.named(_boot(mode, out, dax_read.BENCH, "dax-read.sh",
                              (dax_read.programs(mode, out), "ext4", "lines", runs),
                              DAX), dax_read.LOOKUP, mode),
        *_boot(mode, out, dax_mmap.BENCH, "dax-mmap.sh",
               (dax_mmap.programs(out), dax_mmap.BENCH, "ext4", "lines", runs),
               DAX),
        *(row for row in nvme.beside(mode, _boot(
            kernels.pristine(mode), out, nvme.BENCH, "nvme-bench.sh",
            (nvme.programs(out), "lines", runs), NVME)) if row["variant"] == nvme.BASE),
        *_boot(mode, out, nvme.BENCH, "nvme-bench.sh",
               (nvme.programs(out), "lines", runs), NVME),
    ]


def _command(found: list[Row], batch: int, cpus: int, most: int) -> Case:
    """Check the lines of data of a command without rings, or those that it takes."""
    what = "taken" if cpus > 1 else "without rings"
    name = f"uq, poll, batch {batch}, {cpus} CPUs: at most {most} lines {what}"
    row = counted.row_of(found, nvme.BENCH, "uq", mode="poll", batch=batch, cpus=cpus)
    if not row:
        return counted.missing(name)
    touched = row["lines_per_op"] - row["own_lines_per_op"]
    lines = row["transfers_per_op"] if cpus > 1 else touched
    return counted.verdict(name, lines <= most, f"{lines:.2f}")


def _readers(found: list[Row], extents: int) -> Case:
    """Check that several readers take no more lines from each other than before."""
    name = f"{CPUS} readers take no more lines than by generic, extents {extents}"
    base, *others = (counted.row_of(found, dax_read.BENCH, variant, cpus=CPUS,
                                    files="own", extents=extents)
                     for variant in dax_read.MEANING)
    if not base or not any(others):
        return counted.missing(name)
    rows = [base, *filter(None, others)]
    return counted.verdict(
        name, all(row["transfers_per_op"] <= base["transfers_per_op"] for row in rows),
        ", ".join(f"{row['variant']} {row['transfers_per_op']:.2f}" for row in rows))


def judge(found: list[Row]) -> list[Case]:
    """Return the cases of the figures."""
    return [_readers(found, 1), _readers(found, 100),
            _command(found, 32, 1, MOST_LINES), _command(found, 1, 2, MOST_TAKEN)]


# Parameters that differ between the cells of a bench.
SHOWN = {dax_read.BENCH: ("size", "extents", "cpus", "files"),
         dax_mmap.BENCH: ("cpus",),
         nvme.BENCH: ("mode", "batch", "cpus")}


def _line(row: Row) -> list[str]:
    low, high = row["transfers_range"]
    return [row["variant"], *(str(row["params"][name]) for name in SHOWN[row["bench"]]),
            f"{row['insn_per_op']:.0f}" if "insn_per_op" in row else "-",
            *(f"{row[name]:.2f}" for name in KEPT[:-1]),
            f"{row['transfers_per_op']:.2f} ({low:g}..{high:g})"]


def section(found: list[Row]) -> str:
    """Return the part of out/bench.md."""
    if not found:
        return ""
    parts = ["## Cache lines", ABOUT]
    for bench, shown in SHOWN.items():
        lines = [_line(row) for row in found if row["bench"] == bench]
        if lines:
            parts += [f"### {bench}", counted.markdown(
                ["variant", *shown, "instructions", "lines", "own", "code",
                 "taken"], lines)]
    return "\n\n".join(parts)
