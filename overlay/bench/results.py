# SPDX-License-Identifier: GPL-2.0
"""Read the output of measuring programs, and make tables of results.

A measuring program prints a line for each run of each cell:

    cell BENCH VARIANT name=value... run=N insn=X

Its last line is "complete"; without that line there are no results.
"""

import json
import re
import statistics
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from engine import ktap
from engine.host import UserError
from engine.ktap import Case

# One cell's parameters, and its result in the form of out/bench.json.
Params = dict[str, Any]
Row = dict[str, Any]
# bench, variant and parameters of a cell.
Key = tuple[str, str, tuple[tuple[str, Any], ...]]

# The limit of the spread of the runs of a cell, in %.
SPREAD = 3.0


# -- results -----------------------------------------------------------------

def value(word: str) -> Any:
    """Parse a parameter of a program's output."""
    if word in ("true", "false"):
        return word == "true"
    return int(word) if re.fullmatch(r"-?\d+", word) else word


def lines(text: str, word: str) -> Iterator[tuple[Key, dict[str, float]]]:
    """Parse the lines that begin with WORD: the cell, and the numbers behind run=."""
    for line in text.splitlines():
        if not line.startswith(f"{word} "):
            continue
        try:
            cell, run, numbers = line.partition(" run=")
            _, bench, variant, *words = cell.split()
            params = dict(one.split("=", 1) for one in words)
            yield ((bench, variant, tuple((name, value(one)) for name, one
                                          in params.items())),
                   {name: float(one) for name, one in (
                       one.split("=", 1) for one in numbers.split()[1:])})
        except ValueError:
            run = ""
        if not run:
            raise UserError("the measuring guest printed a line that cannot be read: "
                            f"{line.strip()[:80]!r}")


def key_of(row: Row) -> Key:
    """Return the cell of a row, without the kernel."""
    return row["bench"], row["variant"], tuple(
        (name, value) for name, value in row["params"].items() if name != "config")


def check_complete(text: str) -> None:
    """Raise UserError if the measuring program failed or broke off."""
    for line in text.splitlines():
        if line.startswith("error "):
            raise UserError(f"the measurement failed: {line[6:].strip()}")
    if not re.search(r"^complete\b", text, re.MULTILINE):
        raise UserError("the measurement broke off before its end")


def parse(text: str) -> dict[Key, list[float]]:
    """Return the instructions of the runs of each cell."""
    check_complete(text)
    runs: dict[Key, list[float]] = {}
    for key, numbers in lines(text, "cell"):
        runs.setdefault(key, []).append(numbers["insn"])
    if not runs:
        raise UserError("the measurement ended without a single figure")
    if len({len(values) for values in runs.values()}) != 1:
        raise UserError("some cells were measured more often than others")
    return runs


def spread(values: list[float]) -> float:
    """Return the range from the 10th to the 90th percentile over the median, in %."""
    if len(values) < 2:
        return 0.0
    deciles = statistics.quantiles(values, n=10, method="inclusive")
    middle = statistics.median(values)
    return 100 * (deciles[8] - deciles[0]) / middle if middle else 0.0


def read(text: str, config: str) -> list[Row]:
    """Return a program's output as results in the form of out/bench.json."""
    return [{"bench": bench, "variant": variant,
             "params": {**dict(params), "config": config},
             "insn_per_op": round(statistics.median(values), 2),
             "runs": len(values), "spread_pct": round(spread(values), 2)}
            for (bench, variant, params), values in parse(text).items()]


def matches(result: Row, wanted: Params) -> bool:
    """Return whether a result has these parameters; a tuple lists allowed values."""
    return all(result["params"].get(name) in (
        value if isinstance(value, tuple) else (value,))
        for name, value in wanted.items())


def row_of(rows: Iterable[Row], bench: str, variant: str,
           **params: Any) -> Row | None:
    """Return the row of one cell, or None."""
    return next((row for row in rows if row["bench"] == bench
                 and row["variant"] == variant and matches(row, params)), None)


def find(rows: Iterable[Row], bench: str, variant: str,
         **params: Any) -> float | None:
    """Return the figure of one cell, or None."""
    row = row_of(rows, bench, variant, **params)
    return None if row is None else float(row["insn_per_op"])


def ratios(rows: list[Row], bench: str,
           base: str) -> Iterator[tuple[Row, float, float]]:
    """Yield each row of a variant, the figure of the base, and the ratio."""
    for row in rows:
        if row["bench"] != bench or row["variant"] == base:
            continue
        first = find(rows, bench, base, **row["params"])
        if first:
            yield row, first, row["insn_per_op"] / first


def bare(rows: Iterable[Row], row: Row) -> float | None:
    """Return the figure of a read without the system call and the copy.

    A read of no bytes is the cost of the call, and the copy costs one instruction per
    byte. Returns None if that was not measured, and for a hole.
    """
    params = row["params"]
    if params.get("hole") or not params.get("size"):
        return None
    same = {name: params[name] for name in ("fs", "config") if name in params}
    floor = find(rows, "syscall", "floor", syscall="pread", size=0, **same)
    return None if floor is None else \
        float(row["insn_per_op"]) - floor - params["size"]


def cell_name(row: Row) -> str:
    """Return the cell of a result in words."""
    params = " ".join(f"{name}={json.dumps(value).strip(chr(34))}"
                      for name, value in row["params"].items())
    return f"{row['bench']} {row['variant']} {params}"


# -- tables ------------------------------------------------------------------

def markdown(heads: list[str], lines: list[list[Any]]) -> str:
    """Return a table as aligned Markdown."""
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


def table(rows: list[Row], base: str,
          label: tuple[str, Callable[[Params], str]]) -> str:
    """Return a table of variants beside each other, with their ratios."""
    names = list(dict.fromkeys(row["variant"] for row in rows))
    cells: dict[tuple[tuple[str, Any], ...], dict[str, float]] = {}
    for row in rows:
        cells.setdefault(tuple(row["params"].items()), {})[
            row["variant"]] = row["insn_per_op"]
    heads = [label[0]]
    for name in names:
        heads += [name] if name == base else [name, f"/ {base}"]
    lines = []
    for params, figures in cells.items():
        line = [label[1](dict(params))]
        for name in names:
            figure = figures.get(name)
            line.append("-" if figure is None else f"{figure:.0f}")
            if name != base:
                first = figures.get(base)
                line.append(f"{figure / first:.3f}" if figure and first else "-")
        lines.append(line)
    return markdown(heads, lines)


# -- judging -----------------------------------------------------------------

def missing(name: str, why: str = "it was not measured") -> Case:
    """Return the case of a figure that is missing."""
    return Case(name, ktap.FAIL, f"NOT RUN: {why}")


def verdict(name: str, good: bool, detail: str) -> Case:
    """Return a case that shows its figures, passed or failed."""
    return Case(f"{name} ({detail})", ktap.PASS) if good else \
        Case(name, ktap.FAIL, detail)


def none_of(name: str, bad: Iterable[str]) -> Case:
    """Return a case that passes if there is no complaint."""
    text = "\n".join(bad)
    return Case(name, ktap.FAIL if text else ktap.PASS, text)


def at_most(name: str, here: float | None, base: float | None, most: float,
            aim: float, hint: str = "") -> Case:
    """Return the case of a figure with a limit over the base."""
    if not base or not here:
        return missing(name)
    good = here / base <= most
    return verdict(name, good, f"{here:.0f} / {base:.0f} = {here / base:.3f}, "
                   f"aim {aim:.2f}" + ("" if good else hint))


def hidden(name: str, found: Iterable[Row], bench: str, most: float) -> Case:
    """Return the case that the sum of counted parts is the whole, within MOST."""
    counted = [row for row in found if row["bench"] == bench]
    if not counted:
        return missing(name)
    return none_of(name, (
        f"{cell_name(row)}: the whole is {row['whole_to_parts']} of its parts"
        for row in counted if abs(row["whole_to_parts"] - 1) > most))
