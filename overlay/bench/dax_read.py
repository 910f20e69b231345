# SPDX-License-Identifier: GPL-2.0
"""Reads of a DAX file by system calls: the iomap path, and fast paths before it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import guests, profiles, results
from bench.results import Params, Row
from engine import build, host
from engine.guest import Machine
from engine.host import UserError
from engine.kernels import KERNELS, generic, simple
from engine.ktap import Case

NAME = "reads"
COUNTS = "counting instructions per read"
PROFILE = "profile by function"
BENCH = "dax-read"
WRITES = "dax-write"
BENCHES = (BENCH, WRITES, "nodax-read")
BASE = "generic"
SIMPLE = "simple"
LOOKUP = "lookup"
# The limit of the difference of getppid() between two boots.
APART = 0.01
# The kernel that runs all cells.
JUDGED = "lean"
# The limit of the cost of a cell over the generic path.
SLOWER = 1.02
# The variants, for new readers.
MEANING = {
    "generic": "today's kernel: the iomap path",
    "simple": "dax_read_simple() in front of it",
    "lookup": "and ext4's cheaper lookup of extents",
    "read_iter": "the file system's lookup, through ->read_iter",
    "read": "the file system's lookup, through ->read",
}


@dataclass(frozen=True)
class Bar:
    """The limit and the aim of a variant's cost over the base."""

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
    Bar("simple", EXT4, 0.82, 0.75),
    Bar("lookup", EXT4, 0.72, 0.65),
    Bar("read", EXT4, 0.49, 0.45),
    Bar("read_iter", EXT4, 0.55, 0.50),
    Bar("read_iter", XFS, 0.64, 0.52),
    Bar("read", {**EXT4, "extents": 100}, 0.62, 0.55),
    Bar("read", {**EXT4, "extents": 10000}, 0.58, 0.55),
    *(Bar("read_iter", {**params, "syscall": syscall}, 1.00, 0.75)
      for params in (EXT4, XFS) for syscall in ("preadv-2", "read-fixed")),
    Bar("write", {**EXT4, "syscall": "pwrite"}, 0.65, 0.60, WRITES),
)
# The functions of a cached ext4_map_blocks(). No other function of a read calls them.
CACHED = ("ext4_map_blocks", "ext4_es_lookup_extent", "percpu_counter_add_batch",
          "__check_block_validity.constprop.0", "ext4_inode_block_valid",
          "ext4_sb_block_valid", "_raw_read_lock", "_raw_read_unlock")
# The limit and the aim of its cost.
MOST_CACHED, AIM_CACHED = 0.70, 0.55
# The limits on the distro kernel.
DISTRO_BARS = (Bar("read", EXT4, 0.55, 0.50),)

# -- guests ------------------------------------------------------------------

def programs(mode: str, out: Path) -> Path:
    """Return the directory of the measuring program and its module for a kernel."""
    folder = out / f"programs-{mode}"
    guests.compiled(folder, BENCH)
    # A kernel without ->read needs no module that removes it.
    if not KERNELS[mode].below and not (folder / "noread.ko").exists():
        module = folder / "module"
        host.remove(module)
        host.write(module / "noread.c", (guests.PROGRAMS / "noread.c").read_bytes())
        host.write(module / "Kbuild", "obj-m := noread.o\n")
        build.make(mode, f"M={module}", "modules", log=folder / "compile.log",
                   what="building the measuring module noread")
        (module / "noread.ko").rename(folder / "noread.ko")
    return folder


def _boot(mode: str, out: Path, name: str, command: tuple[Any, ...],
          machine: Machine = guests.COUNTING, fs: str = "ext4") -> str:
    """Boot a guest, run a measurement of reads, and return its output."""
    return guests.boot(mode, out, name, "dax-read.sh",
                        (programs(mode, out), fs, *command), machine)


def _count(mode: str, out: Path, which: str, runs: int, fs: str) -> list[Row]:
    """Return the results of one boot."""
    with host.step(f"counting instructions on the {mode} kernel, {fs}"):
        output = _boot(mode, out, f"{which}-{fs}-{mode}", (which, runs), fs=fs)
    return results.read(output, mode)


def agree(here: list[Row], there: list[Row]) -> None:
    """Raise UserError unless getppid() costs the same in two boots."""
    ours, other = (next((row["insn_per_op"] for row in found
                         if row["params"]["syscall"] == "getppid"), 0)
                   for found in (here, there))
    if not ours or abs(ours - other) > APART * ours:
        raise UserError(f"getppid() takes {ours:.0f} instructions in the boot of our "
                        f"kernel and {other:.0f} in another: the boots do not compare")


def named(found: list[Row], variant: str, mode: str) -> list[Row]:
    """Return rows of a kernel, the path without parameters renamed to its variant."""
    return [{**row, "variant": variant if row["variant"] == BASE else row["variant"],
             "params": {**row["params"], "config": mode}} for row in found]


def _variants(mode: str, out: Path, which: str, runs: int, fs: str) -> list[Row]:
    """Return the results of three kernels, each with one more fast path."""
    here = named(_count(mode, out, which, runs, fs), LOOKUP, mode)
    found = []
    for variant, kernel in ((BASE, generic(mode)), (SIMPLE, simple(mode))):
        there = _count(kernel, out, which, runs, fs)
        agree(here, there)
        found += [row for row in named(there, variant, mode) if row["bench"] in BENCHES]
    return [*found, *(row for row in here if row["variant"] != LOOKUP or fs == "ext4")]


def rows(mode: str, out: Path, runs: int) -> list[Row]:
    """Measure all cells of ext4 on the lean kernel, and a few of the others."""
    return [row for fs in ("ext4", "xfs", "erofs") for row in _variants(
        mode, out, "all" if (mode, fs) == (JUDGED, "ext4") else "few", runs, fs)]


def few(out: Path, runs: int = 3) -> list[Row]:
    """Measure the cells that `make demo` shows: 8 bytes and 4 KB of data."""
    return [row for row in named(_count(JUDGED, out, "few", runs, "ext4"),
                                 LOOKUP, JUDGED)
            if row["bench"] == BENCH and row["params"]["syscall"] == "pread"
            and not row["params"]["hole"]]


def _profiles(kernel: str, out: Path) -> profiles.Profiles:
    return guests.profiles(
        kernel, out, "profile",
        lambda plugin: _boot(kernel, out, f"profile-{kernel}", ("profile",),
                             guests.COUNTING.adding(qemu=(plugin,))))


def profile(mode: str, out: Path, found: list[Row]) -> list[Case]:
    """Write the profiles by function, for each size and variant, and judge a lookup."""
    seen: profiles.Profiles = {}
    for kernel, variant in ((generic(mode), BASE), (mode, LOOKUP)):
        with host.step(f"counting instructions by function ({kernel})"):
            seen |= {(variant if one == BASE else one, size): functions
                     for (one, size), functions in _profiles(kernel, out).items()}
    for size in sorted({size for _, size in seen}):
        profiles.write(
            out, str(size), {variant: one for (variant, its), one in seen.items()
                             if its == size},
            f"pread of {size} bytes of an ext4 DAX file")
    return [cached(seen)]


def cached(seen: profiles.Profiles) -> Case:
    """Check the limit of a cached ext4_map_blocks()."""
    base, here = (sum(seen.get((variant, 8), {}).get(name, 0) for name in CACHED)
                  for variant in (BASE, LOOKUP))
    return results.at_most(
        f"a cached ext4_map_blocks() takes at most {MOST_CACHED:.2f} of generic",
        here, base, MOST_CACHED, AIM_CACHED)


# -- judging -----------------------------------------------------------------

def _bar(found: list[Row], bar: Bar, config: str = JUDGED) -> Case:
    """Check the limit of a variant."""
    name = (f"{bar.variant} takes at most {bar.most:.2f} of generic at 8 bytes "
            f"of {bar.params['fs']}")
    name += "".join(f", {key} {bar.params[key]}" for key in SMALL
                    if bar.params[key] != SMALL[key])
    if config != JUDGED:
        name += f", {config} kernel"
    base, here = (results.find(found, bar.bench, variant, config=config,
                               **bar.params) for variant in (BASE, bar.variant))
    return results.at_most(name, here, base, bar.most, bar.aim,
                           "; by function: out/bench/profile-8.txt")


def _none_slower(found: list[Row]) -> Case:
    name = "no cell is slower than generic by more than 2 %"
    every = [one for bench in BENCHES for one in results.ratios(found, bench, BASE)]
    if not every:
        return results.missing(name, "there is only one variant")
    return results.none_of(name, (f"{results.cell_name(row)}: {ratio:.3f}"
                                  for row, _, ratio in every if ratio > SLOWER))


def judge(found: list[Row]) -> list[Case]:
    """Return the cases of the figures."""
    return [*(_bar(found, bar) for bar in BARS), _none_slower(found)]


def judge_distro(found: list[Row]) -> list[Case]:
    """Return the cases of the distro kernel."""
    return [_bar(found, bar, "distro") for bar in DISTRO_BARS]


# -- the report --------------------------------------------------------------

def _kind(params: Params) -> str:
    if params["syscall"] == "pwrite":
        return f"{params['size']} B"
    extents = params["extents"]
    return (f"{params['size']} B of {'a hole' if params['hole'] else 'data'}, "
            f"{extents} extent{'' if extents == 1 else 's'}"
            + (", two readers" if params["threads"] > 1 else ""))


def section(found: list[Row]) -> str:
    """Return the part of out/bench.md: a table for each system call and kernel."""
    tables: dict[str, list[Row]] = {}
    for row in found:
        if row["bench"] in BENCHES:
            params = row["params"]
            tables.setdefault(
                f"## {row['bench']}: {params['syscall']} of {params['fs']}, "
                f"{params['config']} kernel", []).append(row)
    return "\n\n".join(part for title, mine in tables.items() for part in (
        title, results.table(mine, BASE, ("read", _kind))))


def lines(found: list[Row]) -> list[str]:
    """Return the lines that `make demo` shows, one per size."""
    cells = {(row["params"]["size"], row["variant"]): row["insn_per_op"]
             for row in found}
    names = [name for name in MEANING if any(name == one for _, one in cells)]
    text = ["instructions per pread() of an ext4 DAX file",
            "   bytes" + "".join(f"{name:>16}" for name in names)]
    for size in sorted({size for size, _ in cells}):
        # The demo has no boots of the paths without fast lookups.
        line, base = f"{size:>8}", cells.get((size, names[0]))
        for name in names:
            value = cells.get((size, name))
            shown = f"{value:.0f}" if value else "-"
            if value and base and name != names[0]:
                shown += f" ({value / base:.2f})"
            line += f"{shown:>16}"
        text.append(line)
    return text + [f"{name}: {MEANING[name]}" for name in names]
