# SPDX-License-Identifier: GPL-2.0
"""Learning that NVMe commands are done: iopoll beside a mapped queue.

One client of ours, in two variants, on the polled user queue of an emulated
controller that takes time to answer. Instructions are counted in one guest,
entries into the kernel in another: the time that a device takes is the host's,
and a guest with a clock that counts instructions does not know it.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from engine import guest, host, ktap
from engine.bench import figures, measure
from engine.bench.figures import Profile, Profiles, Row
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
# Parts and whole of a run agree by this.
HIDDEN = 0.02
# How often all of a depth is submitted, for a count of entries.
ROUNDS = 256
# Rounds beside another tenant that wants, or may have, so many in flight.
QOS_ROUNDS = 100
OTHERS = (60, 240)
LIMIT = 4
# What the tail is with 240 others for what it is with 60.
KEPT = 1.05
# What the device takes to answer, of the host's time, each command by itself.
TAKES = 300_000
MACHINE = Machine(append=("nokaslr",), qemu=guest.nvme(TAKES), timeout=3600)
COUNTING = replace(MACHINE, icount=True)
# Variant and depth.
Cell = tuple[str, int]
ABOUT = """\
Two clients of one polled user queue, which have other work and never wait in
the kernel. *iopoll* enters the kernel whenever it wants to know whether
commands are done; *mmap* looks at the mapped completion queue, and enters when
something is there. All of a depth is submitted, then looked for once before the
device can be done, and once when it is: one entry of *iopoll* in two finds
nothing, as in the mail that proposed the mapping. Submission and looks count,
what is done in user space too; waiting for the device does not.

*ready* leaves the early look out, so that no entry is saved by what is seen. Up
to depth 16 *mmap* saves one all the same: it knows that commands are done, and
submits the next ones and reaps by one entry, where *iopoll* has to ask before
it may submit. Beyond that io_uring's walk along all that polls would cost more
than the entry, and what *mmap* pays more is a look and what the kernel writes
for it, about 20 instructions for all that are found at once. By function:
`out/bench/profile-nvme-reap-*.txt`; by who has called whom:
`out/bench/profile-nvme-reap-*.folded`.

Entries are counted without a clock of instructions, with a device that takes
0.3 ms to answer: those that look for completions, not those that submit. How
many of *iopoll*'s are empty depends on how fast the machine is beside its
device."""

ABOUT_QOS = """\
A tenant with one command in flight shares a polled queue with another that wants
60 or 240. Counted are its submission and the look that finds all: nine rounds in
ten take no more. A look finds the completions of all tenants, so it costs more
beside the other one. With a limit of 4 for the other's open file it costs no more
than 4 completions and waking the next four waiters, however many commands the
other one wants. The other's submissions and looks are not counted, nor is
waiting."""


def programs(out: Path) -> Path:
    """A folder with the measuring program."""
    folder = out / "programs-reap"
    if not (folder / BENCH).exists():
        folder.mkdir(parents=True, exist_ok=True)
        measure.compiled(
            folder, BENCH,
            f"-I{host.ROOT / 'tools' / 'nvme'}",
            f"-I{host.ROOT / 'include' / 'uapi'}",
            # the library comes before the source that needs it
            "-Wl,--no-as-needed", "-luring")
    return folder


# -- what the guests say -----------------------------------------------------

def _values(words: Iterable[str]) -> dict[str, int]:
    return {name: int(value) for name, value in
            (word.split("=", 1) for word in words)}


def _lines(output: str, what: str) -> Iterator[tuple[str, int, dict[str, int]]]:
    """Lines that begin so: (variant, depth, all values) for each."""
    for line in output.splitlines():
        if line.startswith(f"{what} {BENCH} "):
            _, _, variant, *words = line.split()
            values = _values(word for word in words
                             if re.fullmatch(r"\w+=\d+", word))
            yield variant, values["depth"], values


def _ready(output: str) -> dict[Cell, float]:
    """The figures without the early look: (variant, depth) -> figure."""
    lines = [line.replace("ready ", "cell ", 1) for line in output.splitlines()
             if line.startswith("ready ")]
    found = figures.results(figures.parse("\n".join([*lines, "complete"])),
                            "")
    return {(row["variant"], row["params"]["depth"]): row["insn_per_op"]
            for row in found}


def _whole(output: str) -> dict[Cell, float]:
    """How the whole of a cell's runs is to the sum of its parts."""
    sums: dict[Cell, tuple[int, int]] = {}
    for variant, depth, values in _lines(output, "about"):
        whole, parts = sums.get((variant, depth), (0, 0))
        sums[variant, depth] = (whole + values["whole"],
                                parts + values["parts"])
    return {key: round(whole / parts, 4)
            for key, (whole, parts) in sums.items()}


def _entries(output: str) -> dict[Cell, tuple[float, float]]:
    """(entries per command, share that found nothing) of each cell."""
    figures.check_complete(output)
    found = {}
    for variant, depth, values in _lines(output, "entries"):
        found[variant, depth] = (
            round(values["entries"] / values["ops"], 4),
            # not rounded: one of very many is not none
            values["empty"] / values["entries"])
    return found


def complete_rows(insns: str, entries: str, mode: str) -> list[Row]:
    """Results, with the entries into the kernel of each."""
    rows = figures.results(figures.parse(insns), mode)
    ready, whole, counted = _ready(insns), _whole(insns), _entries(entries)
    for row in rows:
        key = row["variant"], row["params"]["depth"]
        if key not in counted:
            raise UserError(f"the entries of {figures.cell_name(row)} were not "
                            "counted")
        row["insn_ready_per_op"] = ready[key]
        row["whole_to_parts"] = whole[key]
        row["entries_per_op"], row["empty_share"] = counted[key]
    return rows


# -- guests ------------------------------------------------------------------

def _boot(mode: str, out: Path, which: str, words: tuple[int, ...],
          machine: Machine = COUNTING) -> str:
    return measure.boot(mode, out, f"{BENCH}-{which}-{mode}", "nvme-reap.sh",
                        (programs(out), which, *words), machine)


def _count(mode: str, out: Path, runs: int,
           depths: tuple[int, ...]) -> list[Row]:
    insns = _boot(mode, out, "insns", (runs, 12, *depths))
    entries = _boot(mode, out, "entries", (1, ROUNDS, *depths), MACHINE)
    return complete_rows(insns, entries, mode)


def _tail(mode: str, out: Path, runs: int) -> list[Row]:
    output = _boot(mode, out, "tail", (runs, QOS_ROUNDS, LIMIT, *OTHERS))
    return figures.results(figures.parse(output), mode)


def rows(mode: str, out: Path, runs: int) -> list[Row]:
    """All cells."""
    runs = min(runs, 5)
    with host.step(f"counting what it costs to learn of the end ({mode})"):
        found = _count(mode, out, runs, DEPTHS)
    with host.step(f"counting what a neighbour costs ({mode})"):
        return found + _tail(mode, out, runs)


def profile(mode: str, out: Path, found: list[Row]) -> list[Case]:
    """Profiles by function and by stack, of both variants."""
    with host.step("counting instructions of completions by function "
                   f"({mode})"):
        profiles = measure.profiles(
            mode, out, "profile-nvme-reap",
            lambda plugin: _boot(mode, out, "profile", (1, 12, 1, 32),
                                 COUNTING.adding(qemu=(plugin,))))
    for depth, beside in by_depth(profiles).items():
        figures.write_profiles(
            out, f"nvme-reap-{depth}", beside, "NVMe commands and their "
            f"completions: reads of 512 bytes, fixed, depth {depth}", "command")
    return []


def by_depth(found: Profiles) -> dict[int, dict[str, Profile]]:
    """Profiles as depth -> variant -> profile, of the kernel."""
    cells: dict[int, dict[str, Profile]] = {}
    for (variant, depth), one in found.items():
        cells.setdefault(depth, {})[variant] = one.of_the_kernel()
    return cells


def few(out: Path, runs: int = 3) -> list[Row]:
    """What `make demo` shows."""
    return _count("lean", out, runs, (1, 32))


# -- judging -----------------------------------------------------------------

def _row(found: list[Row], variant: str, depth: int) -> Row | None:
    return next((row for row in found if row["bench"] == BENCH
                 and row["variant"] == variant
                 and row["params"]["depth"] == depth), None)


def _bar(found: list[Row], depth: int, less: bool, field: str = "insn_per_op",
         kind: str = "") -> Case:
    name = (f"{MAPPED}{kind}, depth {depth} takes "
            f"{'less than' if less else 'no more than'} {BASE}")
    base, here = (_row(found, one, depth) for one in (BASE, MAPPED))
    if not base or not here:
        return Case(name, ktap.FAIL, "NOT RUN: it was not measured")
    first, now = base[field], here[field]
    detail = f"{now:.0f} / {first:.0f} = {now / first:.3f}"
    if now > first or (less and now == first):
        return Case(name, ktap.FAIL, detail)
    return Case(f"{name} ({detail})", ktap.PASS)


def _no_empty(found: list[Row]) -> Case:
    name = f"{MAPPED} never enters the kernel for nothing"
    mine = {depth: row for depth in DEPTHS
            if (row := _row(found, MAPPED, depth))}
    missing = [depth for depth in DEPTHS if depth not in mine]
    if missing:
        return Case(name, ktap.FAIL,
                    f"NOT RUN: depths {missing} were not measured")
    bad = [f"{figures.cell_name(row)}: {row['empty_share']}"
           for row in mine.values() if row["empty_share"]]
    return Case(name, ktap.FAIL if bad else ktap.PASS, "\n".join(bad))


def _hidden(found: list[Row]) -> Case:
    return figures.hidden("what is counted of reaping is all there is", found,
                          BENCH, HIDDEN)


def _beside(found: list[Row], variant: str, others: int) -> float | None:
    return figures.find(found, QOS, variant, others=others)


def _kept(found: list[Row]) -> Case:
    """A limit keeps the tail, however much the other one wants."""
    name = "a tenant's tail beside a greedy one with a limit"
    few, many = (_beside(found, "limited", others) for others in OTHERS)
    without = [figure for others in OTHERS
               if (figure := _beside(found, "unlimited", others))]
    if not (few and many and len(without) == len(OTHERS)):
        return Case(name, ktap.FAIL, "NOT RUN: it was not measured")
    detail = (f"{few:.0f} and {many:.0f}, without a limit {without[0]:.0f} and "
              f"{without[1]:.0f}")
    if many > KEPT * few or few >= without[0]:
        return Case(name, ktap.FAIL, detail)
    return Case(f"{name} ({detail})", ktap.PASS)


def judge(found: list[Row]) -> list[Case]:
    """The cases that the figures prove or not."""
    ready = ("insn_ready_per_op", " when all is ready")
    return [_bar(found, 1, False), _bar(found, 32, True),
            _bar(found, 1, False, *ready), _no_empty(found), _hidden(found),
            _kept(found)]


# -- the report --------------------------------------------------------------

def _table(found: list[Row]) -> str:
    heads = ["depth", BASE, MAPPED, f"/ {BASE}", f"{BASE} ready",
             f"{MAPPED} ready", f"{BASE} entries per op", "empty",
             f"{MAPPED} entries per op", "empty"]
    lines = []
    for depth in DEPTHS:
        base, here = (_row(found, one, depth) for one in (BASE, MAPPED))
        if not base or not here:
            continue
        lines.append([
            depth, f"{base['insn_per_op']:.0f}", f"{here['insn_per_op']:.0f}",
            f"{here['insn_per_op'] / base['insn_per_op']:.3f}",
            f"{base['insn_ready_per_op']:.0f}",
            f"{here['insn_ready_per_op']:.0f}",
            *(text for row in (base, here) for text in
              (f"{row['entries_per_op']:.2f}", f"{row['empty_share']:.1%}"))])
    return figures.markdown(heads, lines)


def _qos_table(found: list[Row]) -> str:
    lines = [[row["variant"], row["params"]["others"],
              row["params"]["limit"] or "none", f"{row['insn_per_op']:.0f}"]
             for row in found if row["bench"] == QOS]
    return figures.markdown(["tenant", "others wanted", "their limit",
                             "instructions"], lines)


def section(found: list[Row]) -> str:
    """The part of out/bench.md."""
    mine = [row for row in found if row["bench"] == BENCH]
    if not mine:
        return ""
    return "\n\n".join(["## Learning that NVMe commands are done", ABOUT,
                        _table(mine), "### Beside a greedy tenant", ABOUT_QOS,
                        _qos_table(found)])


def lines(found: list[Row]) -> list[str]:
    """What `make demo` shows, as lines."""
    shares = ", ".join(
        f"depth {depth}: {base['empty_share']:.1%} and "
        f"{here['empty_share']:.1%}" for depth in DEPTHS
        if (base := _row(found, BASE, depth))
        and (here := _row(found, MAPPED, depth)))
    return [f"entries into the kernel that found nothing, {BASE} and "
            f"{MAPPED}: {shares}", *_table(found).splitlines()]
