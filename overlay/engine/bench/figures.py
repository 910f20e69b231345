# SPDX-License-Identifier: GPL-2.0
"""Figures: what a measuring guest printed, made into results and tables.

Nothing here runs anything; measure.py does. A measuring program prints a line
for each run of each cell,

    cell BENCH VARIANT name=value... run=N insn=X

and at its end "complete"; without that line there are no results.
"""

import bisect
import json
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from engine import host, ktap
from engine.bench import stacks
from engine.bench.stacks import Block, Round, Stack
from engine.host import UserError
from engine.ktap import Case

# One cell's parameters, and its result in the form of out/bench.json.
Params = dict[str, Any]
Row = dict[str, Any]
# bench, variant and parameters of a cell.
Key = tuple[str, str, tuple[tuple[str, Any], ...]]
# Instructions per operation by function.
Functions = dict[str, float]
# Sorted addresses, and the functions that start there.
Symbols = tuple[list[int], list[str]]

# More than this between the runs of one cell is not the same measurement.
SPREAD = 3.0
# A baseline that moves by more than this is flagged until it is explained.
MOVED = 3.0


# -- results -----------------------------------------------------------------

def value(word: str) -> Any:
    """A parameter, as a program prints it."""
    if word in ("true", "false"):
        return word == "true"
    return int(word) if re.fullmatch(r"-?\d+", word) else word


def _cell(line: str) -> tuple[Key, float]:
    """One line: (bench, variant, params), value."""
    try:
        _, bench, variant, *words = line.split()
        params = dict(word.split("=", 1) for word in words)
        del params["run"]
        insn = float(params.pop("insn"))
    except (ValueError, KeyError):
        raise UserError("the measuring guest printed a line that cannot be read: "
                        f"{line.strip()[:80]!r}") from None
    return (bench, variant,
            tuple((name, value(word)) for name, word in params.items())), insn


def check_complete(text: str) -> None:
    """UserError when the measuring program said so or broke off."""
    for line in text.splitlines():
        if line.startswith("error "):
            raise UserError(f"the measurement failed: {line[6:].strip()}")
    if not re.search(r"^complete\b", text, re.MULTILINE):
        raise UserError("the measurement broke off before its end")


def parse(text: str) -> dict[Key, list[float]]:
    """The runs of each cell: (bench, variant, params) -> [instructions]."""
    check_complete(text)
    runs: dict[Key, list[float]] = {}
    for line in text.splitlines():
        if line.startswith("cell "):
            key, insn = _cell(line)
            runs.setdefault(key, []).append(insn)
    if not runs:
        raise UserError("the measurement ended without a single figure")
    if len({len(values) for values in runs.values()}) != 1:
        raise UserError("some cells were measured more often than others")
    return runs


def spread(values: list[float]) -> float:
    """How far apart the runs are: from the 10th to the 90th percentile, %."""
    if len(values) < 2:
        return 0.0
    deciles = statistics.quantiles(values, n=10, method="inclusive")
    middle = statistics.median(values)
    return 100 * (deciles[8] - deciles[0]) / middle if middle else 0.0


def results(runs: dict[Key, list[float]], config: str) -> list[Row]:
    """Results in the form of out/bench.json."""
    return [{"bench": bench, "variant": variant,
             "params": {**dict(params), "config": config},
             "insn_per_op": round(statistics.median(values), 2),
             "runs": len(values), "spread_pct": round(spread(values), 2)}
            for (bench, variant, params), values in runs.items()]


def matches(result: Row, wanted: Params) -> bool:
    """Whether a result has these parameters."""
    return all(result["params"].get(name) == value
               for name, value in wanted.items())


def find(rows: Iterable[Row], bench: str, variant: str,
         **params: Any) -> float | None:
    """The figure of one cell, or None."""
    for row in rows:
        if row["bench"] == bench and row["variant"] == variant \
                and matches(row, params):
            return float(row["insn_per_op"])
    return None


def ratios(rows: list[Row], bench: str,
           base: str) -> Iterator[tuple[Row, float, float]]:
    """Every variant over the base one: (row, base figure, ratio)."""
    for row in rows:
        if row["bench"] != bench or row["variant"] == base:
            continue
        first = find(rows, bench, base, **row["params"])
        if first:
            yield row, first, row["insn_per_op"] / first


def bare(rows: Iterable[Row], row: Row) -> float | None:
    """A read's figure without what no way of reading can spare it.

    That is what a read of no bytes takes, and the copy: an instruction a byte,
    as `rep movsb` counts. None where this was not measured, and of a hole.
    """
    params = row["params"]
    if params.get("hole") or not params.get("size"):
        return None
    same = {name: params[name] for name in ("fs", "config") if name in params}
    floor = find(rows, "syscall", "floor", syscall="pread", size=0, **same)
    return None if floor is None else \
        float(row["insn_per_op"]) - floor - params["size"]


def cell_name(row: Row) -> str:
    """A result's cell in words."""
    params = " ".join(f"{name}={json.dumps(value).strip(chr(34))}"
                      for name, value in row["params"].items())
    return f"{row['bench']} {row['variant']} {params}"


def moves(rows: list[Row],
          baseline: Mapping[str, Any]) -> Iterator[tuple[Row, float, float]]:
    """Baselines beside what is measured now: (entry, now, moved in %)."""
    for entry in baseline["rows"]:
        now = find(rows, entry["bench"], entry["variant"], **entry["params"])
        if now is not None:
            yield entry, now, 100 * (now / entry["insn_per_op"] - 1)


# -- tables ------------------------------------------------------------------

def markdown(heads: list[str], lines: list[list[Any]]) -> str:
    """A table that can be read as it stands and as Markdown."""
    grid = [heads, *[[str(cell) for cell in line] for line in lines]]
    widths = [max(len(line[i]) for line in grid) for i in range(len(heads))]

    def row(cells: list[str]) -> str:
        return "| " + " | ".join(
            cell.ljust(width) if number == 0 else cell.rjust(width)
            for number, (cell, width)
            in enumerate(zip(cells, widths, strict=True))) + " |"

    rule = "|" + "|".join("-" * (width + 1) + ("-" if number == 0 else ":")
                          for number, width in enumerate(widths)) + "|"
    return "\n".join([row(grid[0]), rule, *map(row, grid[1:])])


def _variants(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(row["variant"] for row in rows))


def _groups(rows: list[Row]) -> dict[tuple[tuple[str, Any], ...], list[Row]]:
    """Rows by their parameters, in the order they came."""
    found: dict[tuple[tuple[str, Any], ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row["params"].items()), []).append(row)
    return found


def table(rows: list[Row], base: str,
          label: tuple[str, Callable[[Params], str]]) -> str:
    """Rows by parameters, variants beside each other with their ratios."""
    names = _variants(rows)
    heads = [label[0]]
    for name in names:
        heads += [name] if name == base else [name, f"/ {base}"]
    lines = []
    for params, group in _groups(rows).items():
        line = [label[1](dict(params))]
        figures = {row["variant"]: row["insn_per_op"] for row in group}
        for name in names:
            figure = figures.get(name)
            line.append("-" if figure is None else f"{figure:.0f}")
            if name != base:
                line.append(_ratio(figure, figures.get(base)))
        lines.append(line)
    return markdown(heads, lines)


def _ratio(figure: float | None, first: float | None) -> str:
    return f"{figure / first:.3f}" if figure and first else "-"


# -- judging -----------------------------------------------------------------

def at_most(name: str, here: float | None, base: float | None, most: float,
            aim: float) -> Case:
    """Whether a figure is at most such a part of the base's."""
    if not base or not here:
        return Case(name, ktap.FAIL, "NOT RUN: it was not measured")
    detail = f"{here:.0f} / {base:.0f} = {here / base:.3f}, aim {aim:.2f}"
    if here / base > most:
        return Case(name, ktap.FAIL, detail)
    return Case(f"{name} ({detail})", ktap.PASS)


def hidden(name: str, found: Iterable[Row], bench: str, most: float) -> Case:
    """Whether the parts that were counted are the whole, within MOST."""
    counted = [row for row in found if row["bench"] == bench]
    if not counted:
        return Case(name, ktap.FAIL, "NOT RUN: it was not measured")
    bad = [f"{cell_name(row)}: the whole is {row['whole_to_parts']} of "
           "its parts" for row in counted
           if abs(row["whole_to_parts"] - 1) > most]
    return Case(name, ktap.FAIL if bad else ktap.PASS, "\n".join(bad))


# -- profiles ----------------------------------------------------------------

def symbols(text: str) -> Symbols:
    """System.map as sorted addresses and the functions that start there."""
    found: dict[int, str] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 3 and words[1] in "tTwW":
            found.setdefault(int(words[0], 16), words[2])
    if not found:
        raise UserError("System.map names no functions")
    addresses = sorted(found)
    return addresses, [found[address] for address in addresses]


def function_at(table_of_symbols: Symbols, address: int) -> str:
    """The function that an address is in; those of programs are not told apart."""
    if address < 1 << 63:
        return stacks.USER
    addresses, names = table_of_symbols
    at = bisect.bisect_right(addresses, address) - 1
    return names[at] if at >= 0 else hex(address)


@dataclass(frozen=True)
class Profile:
    """What a round executed, which is so many operations."""

    operations: int
    # Instructions of all of them, by who has called whom.
    stacks: Counter[Stack]

    def functions(self) -> Functions:
        """Instructions per operation by function, the most expensive first."""
        found = stacks.by_function(self.stacks)
        return {name: found[name] / self.operations
                for name in sorted(found, key=found.__getitem__, reverse=True)}

    def of_the_kernel(self) -> "Profile":
        """Without the program's own part, with the spin."""
        return Profile(self.operations, Counter({
            stack: number for stack, number in self.stacks.items()
            if stack != (stacks.USER,)}))


# By variant and size.
Profiles = dict[tuple[str, int], Profile]


def _profile(one: Round, blocks: dict[str, Block], operations: int) -> Profile:
    """A round's profile, in which each instruction is in the stack of one call."""
    found = stacks.fold(one.ran, blocks)
    if stacks.by_function(found) != one.functions:
        raise UserError(f"the stacks of a profile have {found.total()} "
                        f"instructions, of {one.total()} that ran, or not those "
                        "of each function")
    return Profile(operations, found)


def profiles(output: str, raw: str, system_map: str,
             part: float = 0) -> Profiles:
    """The profiles that a program has said it marked.

    Of the rounds of each, the one with the fewest instructions counts: the
    timer did not tick in it. Or, where some have less to do than others, the
    one that so large a part of them is less than.

    A program may say that each of its rounds is the sum of so many windows, and
    which rounds it would have measured: then their median counts.
    """
    check_complete(output)
    rounds, blocks = stacks.rounds(raw, partial(function_at, symbols(system_map)))
    found: Profiles = {}
    for line in output.splitlines():
        match = re.fullmatch(r"profiled ([\w-]+) (\d+) (\d+) (\d+)"
                             r"(?: (\d+) ([+-]+))?", line)
        if not match:
            continue
        size, reads, taken, windows = map(int, match.groups("1")[1:5])
        mine, rounds = rounds[:taken * windows], rounds[taken * windows:]
        if len(mine) != taken * windows:
            raise UserError("the profile has fewer rounds than were marked")
        share = 0.5 if match[6] else part
        mine = [sum(mine[at:at + windows], Round())
                for at in range(0, len(mine), windows)]
        mine = [one for one, kept in zip(mine, match[6] or "+" * taken,
                                         strict=True) if kept == "+"]
        quiet = sorted(mine, key=Round.total)[int(share * len(mine))]
        found[match[1], size] = _profile(quiet, blocks, reads)
    if rounds or not found:
        raise UserError("the profile's rounds are not those that were marked")
    return found


def profile_text(functions: Functions, title: str) -> str:
    """One profile in the form of perf's report."""
    total = sum(functions.values())
    lines = [f"# {title}", f"# {total:.0f} instructions per read", "#",
             "# Overhead  Instructions  Symbol", "# ........  ............  "
             "........................................", "#"]
    for name, value in functions.items():
        if value >= 0.5:
            mark = "[.]" if name.startswith("[") else "[k]"
            lines.append(f"  {100 * value / total:7.2f}%  {value:12.0f}  "
                         f"{mark} {name}")
    return "\n".join(lines) + "\n"


def profile_table(beside: dict[str, Functions], title: str,
                  what: str = "read") -> str:
    """Profiles beside each other, so that one sees which functions went."""
    names = list(beside)
    order = sorted({name for functions in beside.values()
                    for name, value in functions.items() if value >= 0.5},
                   key=lambda name: ([-beside[one].get(name, 0)
                                      for one in names], name))
    lines = [f"# {title}", f"# Instructions per {what}, by function; "
             "'-' is a function that is not reached.", "#",
             "".join(f"{name:>12}" for name in names) + "   function"]
    for name in order:
        lines.append("".join(_count(beside[one].get(name)) for one in names)
                     + f"   {name}")
    lines.append("".join(f"{sum(beside[one].values()):12.0f}"
                         for one in names) + "   all")
    return "\n".join(lines) + "\n"


def _count(value: float | None) -> str:
    return f"{value:12.0f}" if value and value >= 0.5 else f"{'-':>12}"


def folded(profile: Profile, variant: str, what: str) -> str:
    """A profile in the format that tools for flame graphs read.

    Its numbers are of all operations, of which the outermost frame says how many.
    """
    root = f"{profile.operations} {what}s: {variant}"
    return "".join(f"{';'.join((root, *stack))} {number}\n"
                   for stack, number in profile.stacks.items())


def write_profiles(out: Path, name: str, beside: dict[str, Profile], title: str,
                   what: str = "read") -> dict[str, Functions]:
    """The profiles of a cell: variants by function, and the stacks of each.

    Returns the instructions by function of each variant.
    """
    functions = {variant: one.functions() for variant, one in beside.items()}
    host.write(out / f"profile-{name}.txt", profile_table(functions, title, what))
    for variant, one in beside.items():
        host.write(out / f"profile-{name}-{variant}.folded",
                   folded(one, variant, what))
    return functions
