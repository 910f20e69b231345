# SPDX-License-Identifier: GPL-2.0
"""NVMe commands by io_uring: block device, passthrough and user queue.

One client sends the same commands to three nodes of one emulated controller, in one
boot. Upstream's kernel measures passthrough and the block device in another boot, and
io_uring NOP checks that both boots agree. Waiting for the device is not counted. QEMU
counts writes to doorbells; an admin command marks both ends of a cell.
"""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench import guests, profiles, results
from bench.profiles import Functions, Profiles
from bench.results import Key, Params, Row
from engine import guest, host
from engine.guest import Machine
from engine.host import UserError
from engine.kernels import IOMMU, LAZY, STRICT, pristine
from engine.ktap import Case

NAME = "NVMe commands"
COUNTS = "counting instructions per NVMe command"
PROFILE = "profile of NVMe commands by function"
BENCH = "nvme"
NOP = "io_uring-nop"
BASE, TRIMMED = "passthru", "passthru-trimmed"
# The limit of the difference of NOP between two boots.
APART = 0.01
# The Get Features command that is a mark (nvme-bench.c), and QEMU's events.
MARK = "0x6d61726b"
EVENTS = ("pci_nvme_mmio_doorbell_sq", "pci_nvme_getfeat")
# Limits of the difference of parts and whole, and of growth by queues or depth.
HIDDEN = 0.02
COUNTING = 50  # a count of single commands has 33 to 40 more, whatever they cost
GROWS = 1.05
# The limit of the cost over upstream while user queues are off: noise.
OFF = 1.005
# (mode, batch, fixed, bs), limit, aim
BARS = (
    (("poll", 32, True, 512), 0.43, 0.42), (("poll", 2, True, 512), 0.45, 0.44),
    (("irq", 32, True, 512), 0.43, 0.41), (("irq", 1, True, 512), 0.55, 0.54),
    (("poll", 32, False, 512), 0.49, 0.47), (("irq", 32, False, 512), 0.49, 0.47),
    (("poll", 32, True, 4096), 0.43, 0.42), (("irq", 32, True, 4096), 0.43, 0.41),
    (("poll", 32, False, 4096), 0.49, 0.47), (("irq", 32, False, 4096), 0.49, 0.47),
)
# Limits of passthru-trimmed, and of all its other cells.
TRIMMED_BARS = (
    (("poll", 32, True, 512), 0.82, 0.76), (("poll", 32, True, 4096), 0.82, 0.76),
    (("irq", 32, True, 512), 0.85, 0.76), (("irq", 32, True, 4096), 0.85, 0.76),
    (("poll", 1, True, 512), 0.93, 0.93), (("irq", 1, True, 512), 0.93, 0.93),
)
SLOWER = 1.01
# Limits of uq-memory, by IOMMU.
MEMORY_BARS = (
    (("poll", 32, True, 512), 0.37, "off"), (("poll", 32, True, 4096), 0.37, "off"),
    (("poll", 32, True, 131072), 0.40, "off"),
    (("poll", 32, True, 512), 0.25, "strict"),
    (("poll", 32, True, 4096), 0.25, "strict"),
)
# Limits on the distro kernel.
DISTRO_BARS = ((("poll", 32, True, 512), 0.46, 0.44),)
# Limit and aim of READ and WRITE of a node over those of the block device.
RW_MOST, RW_AIM = 0.70, 0.60
# Limits behind an IOMMU over passthrough: all cells, and cells of small sizes.
BEHIND, BEHIND_SMALL = 1.0, 0.75
SMALL = (512, 4096)
SIZES = (512, 4096, 131072)
DEPTHS = (32, 64, 128, 256)
# The time of a command on the host, in ns: longer than to submit a batch, so that all
# commands end together.
TAKES = 100_000
MACHINE = Machine(append=("nokaslr", "nvme.poll_queues=1"),
                  qemu=guest.nvme(TAKES), icount=True, timeout=3600)
# Machines with an IOMMU.
IOMMUS = {
    name: replace(MACHINE, append=(*MACHINE.append, *append),
                  qemu=(*IOMMU, *MACHINE.qemu))
    for name, append in (("strict", STRICT), ("lazy", LAZY))
}
# One CPU of four possible ones is online.
POSSIBLE = replace(MACHINE.adding(append=("maxcpus=1",)), cpus=4)

ABOUT = """\
One client with the same loop for all variants. *block* reads `/dev/nvme0n1`.
*passthru-trimmed* sends the command to `/dev/ng0n1`, and so does *passthru* on
upstream's kernel. *uq* sends it to the node of a user queue, *uq-memory* with data in
memory that the driver allocated, and *uq-rw* reads that node like a block device. Files
are registered, with `SINGLE_ISSUER` and `DEFER_TASKRUN`; *fixed*: buffers are
registered, except for *uq-memory*. Submission, interrupts and reaping count, waiting
for the device does not. Doorbells and interrupts cost more than an instruction, and
have their own columns. By function: `out/bench/profile-nvme-*.txt`.

*In pieces*: the pages of the buffer are not contiguous. *Strict*, *lazy*: the device is
behind QEMU's `intel-iommu`; each unmapping waits for it, or up to 256 are collected. A
median does not include freeing the collected ones."""


def programs(out: Path) -> Path:
    """Return the directory of the measuring program."""
    # The library comes before the source that needs it.
    return guests.compiled(out / "programs-nvme", "nvme-bench",
                           "-Wl,--no-as-needed", "-luring").parent


# -- doorbells ---------------------------------------------------------------

def doorbells(trace: str) -> list[int]:
    """Count doorbells of I/O submission queues in QEMU's log, for each cell.

    A pair of marks encloses a cell. Queue 0 is the admin queue.
    """
    counts: list[int] = []
    between: int | None = None
    for line in trace.splitlines():
        if line.endswith(f"cdw11 {MARK}"):
            if between is not None:
                counts.append(between)
            between = 0 if between is None else None
        elif between is not None:
            between += bool(re.search(r"doorbell_sq .*?sqid [1-9]", line))
    return counts


def complete_rows(output: str, trace: str, mode: str) -> list[Row]:
    """Return the results with doorbells and interrupts."""
    rows = results.read(output, mode)
    bells = doorbells(trace)
    about: dict[Key, Counter[str]] = {}
    for key, numbers in results.lines(output, "about"):
        total = about.setdefault(key, Counter())
        for name, number in numbers.items():
            total[name] += int(number)
    nvme = [row for row in rows if row["bench"] == BENCH]
    if len(bells) != len(nvme):
        raise UserError(f"QEMU's log has doorbells of {len(bells)} cells, and "
                        f"{len(nvme)} were measured")
    for row in rows:
        total = about[results.key_of(row)]
        row["whole_to_parts"] = round(total["whole"] / total["parts"], 4)
        if row["bench"] == BENCH:
            row["irqs_per_op"] = round(total["irqs"] / total["ops"], 4)
            row["doorbells_per_op"] = round(bells.pop(0) / total["ops"], 4)
    return rows


# -- guests ------------------------------------------------------------------

def _boot(mode: str, out: Path, which: str, runs: int, qemu: str,
          machine: Machine = MACHINE) -> str:
    return guests.boot(
        mode, out, f"{BENCH}-{which}-{mode}", "nvme-bench.sh",
        (programs(out), which, runs), machine.adding(qemu=(qemu,)))


def _count(mode: str, out: Path, which: str, runs: int,
           machine: Machine = MACHINE) -> list[Row]:
    trace = out / f"doorbells-{which}-{mode}"
    host.remove(trace)
    events = " ".join(f"-trace {event}" for event in EVENTS)
    output = _boot(mode, out, which, runs, f"{events} -D {trace}", machine)
    found = complete_rows(output, trace.read_text("utf-8", "replace"), mode)
    host.remove(trace)
    return found


def agree(here: list[Row], there: list[Row]) -> None:
    """Raise UserError unless NOP costs the same in two boots."""
    for row in here:
        if row["bench"] != NOP:
            continue
        batch, ours = row["params"]["batch"], row["insn_per_op"]
        upstream = results.find(there, NOP, "nop", batch=batch) or 0
        if abs(ours - upstream) > APART * ours:
            raise UserError(f"io_uring NOP, batch {batch}, takes {ours:.0f} "
                            "instructions in the boot of our kernel and "
                            f"{upstream:.0f} in that of upstream's: the two cannot be "
                            "compared")


def beside(mode: str, found: list[Row]) -> list[Row]:
    """Return rows of upstream's kernel, with passthrough as a variant of a mode."""
    return [{**row, "params": {**row["params"], "config": mode}}
            if row["variant"] == BASE else row
            for row in found if row["bench"] == BENCH]


def _both(mode: str, out: Path, which: str, runs: int,
          machine: Machine = MACHINE) -> list[Row]:
    """Measure the cells of upstream's kernel, and of a mode's kernel."""
    there = _count(pristine(mode), out, which, runs, machine)
    here = _count(mode, out, which, runs, machine)
    agree(here, there)
    return [*beside(mode, there), *here]


def rows(mode: str, out: Path, runs: int) -> list[Row]:
    """Measure all cells of a machine without an IOMMU."""
    with host.step(f"counting instructions of NVMe commands ({mode})"):
        found = _both(mode, out, "all", min(runs, 5))
    with host.step(f"the same with more user queues ({mode})"):
        return found + _count(mode, out, "grow", min(runs, 5), POSSIBLE)


def rows_behind(mode: str, out: Path, runs: int) -> list[Row]:
    """Measure all cells of machines with an IOMMU."""
    found: list[Row] = []
    for name, machine in IOMMUS.items():
        with host.step("counting instructions of NVMe commands behind a "
                       f"{name} IOMMU ({mode})"):
            found += _both(mode, out, name, min(runs, 5), machine)
    return [row for row in found if row["bench"] == BENCH]


def rows_distro(out: Path, mode: str = "distro") -> list[Row]:
    """Measure a few cells of the distro kernel."""
    with host.step(f"counting instructions of NVMe commands ({mode})"):
        found = _both(mode, out, "few", 3)
    return [row for row in found
            if row["params"].get("config") == mode and row["bench"] == BENCH]


def profile(mode: str, out: Path, found: list[Row]) -> list[Case]:
    """Write the profiles by function, of all variants of a cell."""
    with host.step(f"counting instructions of NVMe commands by function "
                   f"({mode})"):
        cells = by_cell(guests.profiles(
            mode, out, "profile-nvme",
            lambda plugin: _boot(mode, out, "profile", 1, plugin)))
    for (way, depth), beside in cells.items():
        batch = min(32, depth)
        deep = "" if depth == batch else f", depth {depth}"
        profiles.write(
            out, f"nvme-{way}-{depth}", beside, f"NVMe commands, {way}, batch {batch}"
            f"{deep}: reads of 512 bytes, fixed", "command")
    return [judge_profile(found, cells)] if cells else []


# By mode and depth, and by variant.
Cells = dict[tuple[str, int], dict[str, Functions]]


def by_cell(found: Profiles) -> Cells:
    """Return profiles of the kernel as cell -> variant -> profile."""
    cells: Cells = {}
    for (name, depth), one in found.items():
        variant, mode = name.rsplit("_", 1)
        cells.setdefault((mode, depth), {})[variant] = profiles.of_the_kernel(one)
    return cells


def judge_profile(found: list[Row], cells: Cells) -> Case:
    """Check that the sum of each profile is the figure of its cell."""
    name = "profiles of NVMe commands add up to their cells"
    bad, seen = [], 0
    for (mode, depth), beside in cells.items():
        for variant, one in beside.items():
            counted = results.find(found, BENCH, variant, **_cell(
                mode, min(32, depth), True, 512, depth=depth)) or 0
            total = sum(one.values())
            seen += counted > 0
            if abs(total - counted) > max(HIDDEN * counted, COUNTING * (depth == 1)):
                bad.append(f"{variant} {mode}-{depth}: {total:.0f} by function, "
                           f"{counted:.0f} counted")
    return results.none_of(name, bad) if seen else results.missing(name, "no profile")


def few(out: Path) -> list[Row]:
    """Measure the cells that `make demo` shows."""
    return _count("lean", out, "few", 3)


# -- judging -----------------------------------------------------------------

def _cell(mode: str, batch: int, fixed: bool, bs: int, **more: Any) -> Params:
    return {"mode": mode, "batch": batch, "depth": batch, "bs": bs,
            "fixed": fixed, "op": "read", "queues": 2, "iommu": "off",
            "config": "lean", **more}


def _pair(found: list[Row], here: str, base: str,
          **params: Any) -> tuple[float | None, float | None]:
    """Return the figures of two variants of a cell."""
    return (results.find(found, BENCH, here, **params),
            results.find(found, BENCH, base, **params))


def _bar(found: list[Row], cell: tuple[str, int, bool, int], most: float,
         aim: float, variant: str = "uq", iommu: str = "off",
         config: str = "lean") -> Case:
    mode, batch, fixed, bs = cell
    kind = ("fixed" if fixed else "plain") + (
        f", {iommu} IOMMU" if iommu != "off" else "") + (
        f", {config} kernel" if config != "lean" else "")
    name = (f"{variant}, {mode}, batch {batch}, {bs} B, {kind} takes at most "
            f"{most:.2f} of {BASE}")
    return results.at_most(name, *_pair(found, variant, BASE, **_cell(
        mode, batch, fixed, bs, iommu=iommu, config=config)), most, aim)


def _read(found: list[Row], mode: str) -> Case:
    """Check the cost of reading the node of a user queue over the block device."""
    name = (f"uq-rw, {mode}, batch 32, 512 B, fixed takes at most "
            f"{RW_MOST:.2f} of block")
    return results.at_most(name, *_pair(found, "uq-rw", "block", **_cell(
        mode, 32, True, 512)), RW_MOST, RW_AIM)


def _deep(found: list[Row], mode: str) -> Case:
    """Check that depth adds no more to a command than to a passthrough command."""
    name = f"uq, {mode} does not grow with depth"
    pairs = [_pair(found, "uq", BASE, **_cell(mode, 32, True, 512, depth=depth))
             for depth in DEPTHS]
    known = [(here, base) for here, base in pairs if here and base]
    if len(known) < len(DEPTHS):
        return results.missing(name)
    detail = "; ".join(f"{variant} " + ", ".join(f"{value:.0f}" for value in row)
                       for variant, row in zip(("uq", BASE), zip(*known, strict=True),
                                               strict=True))
    first, floor = known[0]
    more = max(here - first - max(0, base - floor) for here, base in known)
    return results.verdict(name, more <= (GROWS - 1) * first, detail)


def _many(found: list[Row], mode: str) -> Case:
    """Check that a command costs no more if there are more queues."""
    few, many = (results.find(found, BENCH, "uq", **_cell(
        mode, 32, True, 512, queues=queues, possible=4)) for queues in (2, 8))
    return results.at_most(f"uq, {mode} does not grow with the number of queues",
                           many, few, GROWS, 1)


def _behind(found: list[Row], iommu: str, sizes: tuple[int, ...],
            most: float, variant: str = "uq") -> Case:
    """Check the cost of a command behind an IOMMU, in all cells of these sizes."""
    name = (f"{variant}, {iommu} IOMMU, {', '.join(map(str, sizes))} B takes at most "
            f"{most:.2f} of {BASE}")
    part = [(ratio, row["params"]) for row, _, ratio in results.ratios(
        found, BENCH, BASE) if row["variant"] == variant
        and results.matches(row, {"iommu": iommu, "bs": sizes})]
    lacking = [f"{mode}, {bs} B" for mode in ("poll", "irq") for bs in sizes
               if not any((params["mode"], params["bs"]) == (mode, bs)
                          for _, params in part)]
    if lacking:
        return results.missing(name, f"{'; '.join(lacking)} was not measured")
    bad = [f"{_kind(params)}: {ratio:.3f}" for ratio, params in part if ratio > most]
    ratio, params = max(part, key=lambda one: one[0])
    return results.verdict(name, not bad, "\n".join(bad)
                           or f"most: {ratio:.3f}, {_kind(params)}")


def _hidden(found: list[Row]) -> Case:
    return results.hidden("what is counted is all there is", found, BENCH, HIDDEN)


def _bells(found: list[Row]) -> Case:
    """Check that a batch of 32 rings at most one doorbell."""
    name = "uq rings at most one doorbell for a batch of 32"
    rung = [row for row in found if row["bench"] == BENCH
            and row["variant"] == "uq" and row["params"]["batch"] == 32]
    if not rung:
        return results.missing(name)
    return results.none_of(name, (
        f"{results.cell_name(row)}: {row['doorbells_per_op']}" for row in rung
        if row["doorbells_per_op"] > 1 / 32 + 0.002))


def unpatched(found: list[Row],
              queues: tuple[int, ...] = (0, 2)) -> list[tuple[Row, float]]:
    """Return cells of block device and passthrough, and their cost upstream."""
    upstream = {"block": ("block", pristine("lean")), TRIMMED: (BASE, "lean")}
    pairs = []
    for row in found:
        if row["bench"] == BENCH and row["variant"] in upstream and results.matches(
                row, {"config": "lean", "queues": queues}):
            variant, config = upstream[row["variant"]]
            pairs.append((row, results.find(found, BENCH, variant, **{
                **row["params"], "config": config})))
    return [(row, before) for row, before in pairs if before is not None]


def _slower(name: str, pairs: list[tuple[Row, float]], most: float) -> Case:
    """Check the cost of cells over their cost upstream."""
    if not pairs:
        return results.missing(name, "there is nothing to compare")
    return results.none_of(name, (
        f"{results.cell_name(row)}: {row['insn_per_op']:.0f}, upstream {before:.0f}"
        for row, before in pairs if row["insn_per_op"] / before > most))


def _memory(found: list[Row], behind: bool) -> list[Case]:
    return [_bar(found, cell, most, most, "uq-memory", iommu)
            for cell, most, iommu in MEMORY_BARS if (iommu != "off") == behind]


def judge(found: list[Row]) -> list[Case]:
    """Return the cases of the figures without an IOMMU."""
    cases = [*(_bar(found, *bar) for bar in BARS), *_memory(found, False),
             *(_bar(found, *bar, TRIMMED) for bar in TRIMMED_BARS),
             _slower("passthru-trimmed and block are at most 1 % slower than upstream",
                     unpatched(found), SLOWER)]
    for mode in ("poll", "irq"):
        cases += [_read(found, mode), _deep(found, mode), _many(found, mode)]
    return [*cases, _bells(found), _hidden(found),
            _slower("off, user queues cost nothing", unpatched(found, (0,)), OFF)]


def judge_behind(found: list[Row]) -> list[Case]:
    """Return the cases of the figures behind an IOMMU."""
    cases = _memory(found, True)
    for iommu in IOMMUS:
        cases += [_behind(found, iommu, SIZES, BEHIND),
                  _behind(found, iommu, SMALL, BEHIND_SMALL),
                  _behind(found, iommu, SIZES, SLOWER, TRIMMED)]
    return [*cases, *(replace(case, name=f"{case.name}, behind an IOMMU")
                      for case in (_bells(found), _hidden(found)))]


def judge_distro(found: list[Row]) -> list[Case]:
    """Return the cases of the distro kernel."""
    return [_bar(found, *bar, config="distro") for bar in DISTRO_BARS]


# -- the report --------------------------------------------------------------

def _kind(params: Params) -> str:
    text = f"{params['mode']}, batch {params['batch']}"
    if params["depth"] != params["batch"]:
        text += f", depth {params['depth']}"
    text += f", {params['bs']} B" + (", fixed" if params["fixed"] else "")
    if params["op"] != "read":
        text += f", {params['op']}"
    if params.get("pieces"):
        text += ", in pieces"
    if params["iommu"] != "off":
        return f"{text}, {params['iommu']} IOMMU"
    return text + f", {params['queues']} queues"


def section(found: list[Row]) -> str:
    """Return the part of out/bench.md."""
    mine, distro = ([row for row in found if row["bench"] == BENCH
                     and row["params"]["config"] == config]
                    for config in ("lean", "distro"))
    if not mine:
        return ""
    events = [[row["variant"], _kind(row["params"]),
               f"{row['doorbells_per_op']:.3f}", f"{row['irqs_per_op']:.3f}"]
              for row in mine if results.matches(row, {
                  "bs": 512, "fixed": True, "queues": 2, "iommu": "off",
                  "possible": None})]
    return "\n\n".join([
        "## NVMe commands", ABOUT, results.table(mine, BASE, ("read", _kind)),
        *(["### On a kernel like a distribution's",
           results.table(distro, BASE, ("read", _kind))] if distro else []),
        "### The floor: io_uring without a device",
        results.markdown(["batch", "io_uring NOP"], [
            [row["params"]["batch"], f"{row['insn_per_op']:.0f}"]
            for row in found if row["bench"] == NOP]),
        "### Doorbells and interrupts",
        results.markdown(["variant", "cell", "doorbells per op",
                          "interrupts per op"], events),
        "### Without user queues",
        results.markdown(["off", "upstream", "now"], [
            [f"{row['variant']}, {_kind(row['params'])}", f"{before:.0f}",
             f"{row['insn_per_op']:.0f}"] for row, before in unpatched(found, (0,))])])


def lines(found: list[Row]) -> list[str]:
    """Return the lines that `make demo` shows."""
    mine = [row for row in found if row["bench"] == BENCH]
    return results.table(mine, TRIMMED, ("instructions per command",
                                         _kind)).splitlines()
