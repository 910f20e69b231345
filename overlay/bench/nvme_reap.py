# SPDX-License-Identifier: GPL-2.0
"""Completions of NVMe commands: iopoll beside a mapped completion queue.

One client with two variants uses the polled user queue of an emulated controller. One
guest counts instructions. Another guest, with the host's clock, counts entries into the
kernel, which depend on the time of the device.
"""

import re
import statistics
from dataclasses import replace
from pathlib import Path

from bench import guests, profiles, results
from bench.results import Row
from engine import guest, host
from engine.guest import Machine
from engine.host import UserError
from engine.ktap import Case

NAME = "the end of NVMe commands"
COUNTS = "counting entries that learn of no completion"
PROFILE = "profile of their completions by function"
BENCH = "nvme-reap"
QOS = "nvme-qos"
BASE = "iopoll"
MAPPED = "mmap"
DEPTHS = (1, 8, 32, 128)
# The limit of the difference of parts and whole of a run.
HIDDEN = 0.02
# How often a full depth is submitted, to count entries.
ROUNDS = 256
# Rounds beside another tenant, the commands that it wants in flight, and its limit.
QOS_ROUNDS = 100
OTHERS = (60, 240)
LIMIT = 4
# The limit of the tail beside 240 commands over the tail beside 60.
KEPT = 1.05
# The device answers each command after so many ns of the host.
TAKES = 300_000
MACHINE = Machine(append=("nokaslr",), qemu=guest.nvme(TAKES), timeout=3600)
COUNTING = replace(MACHINE, icount=True)
ABOUT = """\
Two clients of one polled user queue never wait in the kernel. *iopoll* enters the
kernel to look for completions. *mmap* looks at the mapped completion queue, and enters
the kernel if there are some. A full depth is submitted. One look comes before the
device can complete commands, and one look after. Submission and looks count, in user
space, too. Waiting for the device does not count.

*ready* omits the early look. Up to depth 16 *mmap* still saves an entry: one entry
reaps completions and submits commands. Beyond that, *mmap* costs about 20 instructions
more for all completions of a look. By function: `out/bench/profile-nvme-reap-*.txt`.

Another guest counts entries that look for completions, with a device that takes 0.3 ms.
The share of empty entries depends on the speed of the machine."""

ABOUT_QOS = """\
A tenant with one command in flight shares a polled queue with another tenant, who wants
60 or 240. The figures are the 90th percentile of its submission and its look, which
finds the completions of all tenants. With a limit of 4 for the other's open file, a
look costs at most 4 completions and waking four waiters."""


def programs(out: Path) -> Path:
    """Return the directory of the measuring program."""
    # The library comes before the source that needs it.
    return guests.compiled(
        out / "programs-reap", BENCH, f"-I{host.ROOT / 'tools' / 'nvme'}",
        f"-I{host.ROOT / 'include' / 'uapi'}", "-Wl,--no-as-needed", "-luring").parent


def complete_rows(insns: str, entries: str, mode: str) -> list[Row]:
    """Return the results with entries into the kernel."""
    rows = results.read(insns, mode)
    results.check_complete(entries)
    counted = {}
    for line in entries.splitlines():
        if line.startswith(f"entries {BENCH} "):
            seen = {name: int(value) for name, value
                    in re.findall(r"(\w+)=(\d+)\b", line)}
            counted[line.split()[2], seen["depth"]] = seen
    for row in rows:
        cell = row["variant"], row["params"]["depth"]
        if cell not in counted:
            raise UserError(f"the entries of {results.cell_name(row)} were not "
                            "counted")
        # The figure without the early look, and the whole of the runs over their parts.
        ready, about = ([numbers for key, numbers in results.lines(insns, word)
                         if key == results.key_of(row)] for word in ("ready", "about"))
        row["insn_ready_per_op"] = round(statistics.median(
            run["insn"] for run in ready), 2)
        row["whole_to_parts"] = round(sum(run["whole"] for run in about)
                                      / sum(run["parts"] for run in about), 4)
        seen = counted[cell]
        row["entries_per_op"] = round(seen["entries"] / seen["ops"], 4)
        # Not rounded: a small share is not zero.
        row["empty_share"] = seen["empty"] / seen["entries"]
    return rows


def _boot(mode: str, out: Path, which: str, words: tuple[int, ...],
          machine: Machine = COUNTING) -> str:
    return guests.boot(mode, out, f"{BENCH}-{which}-{mode}", "nvme-reap.sh",
                        (programs(out), which, *words), machine)


def _count(mode: str, out: Path, runs: int,
           depths: tuple[int, ...]) -> list[Row]:
    insns = _boot(mode, out, "insns", (runs, 12, *depths))
    entries = _boot(mode, out, "entries", (1, ROUNDS, *depths), MACHINE)
    return complete_rows(insns, entries, mode)


def _tail(mode: str, out: Path, runs: int) -> list[Row]:
    output = _boot(mode, out, "tail", (runs, QOS_ROUNDS, LIMIT, *OTHERS))
    return results.read(output, mode)


def rows(mode: str, out: Path, runs: int) -> list[Row]:
    """Measure all cells."""
    runs = min(runs, 5)
    with host.step(f"counting what it costs to learn of the end ({mode})"):
        found = _count(mode, out, runs, DEPTHS)
    with host.step(f"counting what a neighbour costs ({mode})"):
        return found + _tail(mode, out, runs)


def profile(mode: str, out: Path, found: list[Row]) -> list[Case]:
    """Write the profiles by function, of both variants."""
    with host.step("counting instructions of completions by function "
                   f"({mode})"):
        seen = guests.profiles(
            mode, out, "profile-nvme-reap",
            lambda plugin: _boot(mode, out, "profile", (1, 12, 1, 32),
                                 COUNTING.adding(qemu=(plugin,))))
    for depth in sorted({depth for _, depth in seen}):
        profiles.write(
            out, f"nvme-reap-{depth}", {
                variant: profiles.of_the_kernel(one)
                for (variant, its), one in seen.items() if its == depth},
            "NVMe commands and their "
            f"completions: reads of 512 bytes, fixed, depth {depth}", "command")
    return []


def few(out: Path, runs: int = 3) -> list[Row]:
    """Measure the cells that `make demo` shows."""
    return _count("lean", out, runs, (1, 32))


def _pair(found: list[Row], depth: int) -> tuple[Row, Row] | None:
    """Return the rows of both variants, if both were measured."""
    base, here = (results.row_of(found, BENCH, variant, depth=depth)
                  for variant in (BASE, MAPPED))
    return (base, here) if base and here else None


def _bar(found: list[Row], depth: int, less: bool, field: str = "insn_per_op",
         kind: str = "") -> Case:
    name = (f"{MAPPED}{kind}, depth {depth} takes "
            f"{'less than' if less else 'no more than'} {BASE}")
    pair = _pair(found, depth)
    if not pair:
        return results.missing(name)
    first, now = (row[field] for row in pair)
    return results.verdict(name, now < first or (now == first and not less),
                           f"{now:.0f} / {first:.0f} = {now / first:.3f}")


def _no_empty(found: list[Row]) -> Case:
    name = f"{MAPPED} never enters the kernel for nothing"
    mine = [row for depth in DEPTHS
            if (row := results.row_of(found, BENCH, MAPPED, depth=depth))]
    if len(mine) < len(DEPTHS):
        return results.missing(name, f"not all of depths {DEPTHS} were measured")
    return results.none_of(name, (f"{results.cell_name(row)}: {row['empty_share']}"
                                  for row in mine if row["empty_share"]))


def _kept(found: list[Row]) -> Case:
    """Check that a limit keeps the tail, whatever the other tenant wants."""
    name = "a tenant's tail beside a greedy one with a limit"
    few, many, first, second = (
        results.find(found, QOS, variant, others=others)
        for variant in ("limited", "unlimited") for others in OTHERS)
    if not (few and many and first and second):
        return results.missing(name)
    return results.verdict(
        name, many <= KEPT * few and few < first,
        f"{few:.0f} and {many:.0f}, without a limit {first:.0f} and {second:.0f}")


def judge(found: list[Row]) -> list[Case]:
    """Return the cases of the figures."""
    ready = ("insn_ready_per_op", " when all is ready")
    return [_bar(found, 1, False), _bar(found, 32, True),
            _bar(found, 1, False, *ready), _no_empty(found),
            results.hidden("what is counted of reaping is all there is", found,
                           BENCH, HIDDEN), _kept(found)]


def _table(found: list[Row]) -> str:
    heads = ["depth", BASE, MAPPED, f"/ {BASE}", f"{BASE} ready",
             f"{MAPPED} ready", f"{BASE} entries per op", "empty",
             f"{MAPPED} entries per op", "empty"]
    lines = []
    for depth in DEPTHS:
        if pair := _pair(found, depth):
            first, now = (row["insn_per_op"] for row in pair)
            lines.append([
                depth, f"{first:.0f}", f"{now:.0f}", f"{now / first:.3f}",
                *(f"{row['insn_ready_per_op']:.0f}" for row in pair),
                *(text for row in pair for text in
                  (f"{row['entries_per_op']:.2f}", f"{row['empty_share']:.1%}"))])
    return results.markdown(heads, lines)


def _qos_table(found: list[Row]) -> str:
    lines = [[row["variant"], row["params"]["others"],
              row["params"]["limit"] or "none", f"{row['insn_per_op']:.0f}"]
             for row in found if row["bench"] == QOS]
    return results.markdown(["tenant", "others wanted", "their limit",
                             "instructions"], lines)


def section(found: list[Row]) -> str:
    """Return the part of out/bench.md."""
    mine = [row for row in found if row["bench"] == BENCH]
    if not mine:
        return ""
    return "\n\n".join(["## Learning that NVMe commands are done", ABOUT,
                        _table(mine), "### Beside a greedy tenant", ABOUT_QOS,
                        _qos_table(found)])


def lines(found: list[Row]) -> list[str]:
    """Return the lines that `make demo` shows."""
    shares = ", ".join(
        f"depth {depth}: " + " and ".join(f"{row['empty_share']:.1%}" for row in pair)
        for depth in DEPTHS if (pair := _pair(found, depth)))
    return [f"entries into the kernel that found nothing, {BASE} and "
            f"{MAPPED}: {shares}", *_table(found).splitlines()]
