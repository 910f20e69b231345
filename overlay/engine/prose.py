# SPDX-License-Identifier: GPL-2.0
"""Figures in prose: each number of instructions says where it is from.

A message, a cover, README.md or a page that speaks of instructions states numbers
which a reader wants to trust. overlay/bench/figures lists them,

    FILE NUMBER ... : BENCH key=value ...
    FILE NUMBER ... : a sentence that says how it was counted

one line for what is from one row of overlay/bench/results.json, or was counted
once. A number that is not listed is a complaint, so is a listed one that is no
longer there, and one that the row does not have any more. What @TABLE@ stands for
is from the results anyway.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine import entries, host
from engine.host import UserError

LIST = host.ROOT / "overlay" / "bench" / "figures"
RESULTS = host.ROOT / "overlay" / "bench" / "results.json"
# How far a result may be from what is written, in percent: bench's own measure of
# the same cell, counted again.
NEAR = 3.0
ABOUT = re.compile(r"\binstructions?\b", re.IGNORECASE)
# A number of three digits or more that is no size, count of other things or year.
NUMBER = re.compile(
    r"(?<![\w.,/^#-])(?<!\bin )([1-9]\d{0,2}(?:,\d{3})+|[1-9]\d{2,})(?![\w]|[.,]\d)"
    r"(?!\s+(?:%|[KMG]i?B|B|bytes?|extents?|blocks?|pages?|ns|times|MHz|columns|lines)\b)"
    r"(?!-byte)")
PAGES = (".rst", ".md")


@dataclass(frozen=True)
class Figures:
    """One line of the list."""

    file: str
    numbers: tuple[str, ...]
    origin: str


# -- what is prose -----------------------------------------------------------

def is_prose(name: str) -> bool:
    """Whether a file is read for what it costs: messages, covers and pages."""
    path = Path(name)
    if path.suffix == entries.WITHOUT:
        return False
    if path.parts[:2] == ("overlay", "series"):
        return path.name[:4].isdigit()
    return path.suffix in PAGES and (path.parts[0] == "Documentation"
                                     or name == "README.md")


def paragraphs(text: str) -> Iterator[str]:
    """The paragraphs that speak of instructions, each with a table behind it."""
    found = re.split(r"\n[ \t]*\n", text.partition("\nFiles:\n")[0])
    for at, paragraph in enumerate(found):
        if not ABOUT.search(paragraph):
            continue
        yield paragraph
        for more in found[at + 1:]:
            if not re.match(r"(?:  +|\t)\S", more):
                break
            yield more


def numbers(text: str) -> list[str]:
    """The numbers of instructions in a text, without commas, each once."""
    found = [number.replace(",", "") for paragraph in paragraphs(text)
             for number in NUMBER.findall(paragraph)]
    return list(dict.fromkeys(found))


# -- where they are from -----------------------------------------------------

def listed(text: str) -> list[Figures]:
    """Read the list."""
    found = []
    for at, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        head, colon, origin = line.partition(" : ")
        words = head.split()
        if not colon or len(words) < 2 or not origin.strip():
            raise UserError(f"overlay/bench/figures, line {at}: a file, numbers "
                            "and, behind ' : ', where they are from are wanted")
        found.append(Figures(words[0], tuple(words[1:]), origin.strip()))
    return found


def _row(origin: str) -> tuple[str, dict[str, str]] | None:
    """The measurement and parameters that an origin names, if it does."""
    words = origin.split()
    if len(words) < 2 or not all("=" in word for word in words[1:]):
        return None
    return words[0], dict(word.split("=", 1) for word in words[1:])


def _fits(result: dict[str, Any], bench: str, wanted: dict[str, str]) -> bool:
    params = {**(result.get("params") or {}), "variant": result["variant"]}
    return result["bench"] == bench and all(
        str(params.get(key)).lower() == value.lower()
        for key, value in wanted.items())


def _not_measured(figures: Figures, results: list[dict[str, Any]]) \
        -> Iterator[str]:
    """Numbers that the row that they name does not have."""
    row = _row(figures.origin)
    if row is None:
        return
    values = [float(result["insn_per_op"]) for result in results
              if _fits(result, *row)]
    if len(values) != 1:
        yield f"{len(values)} results are '{figures.origin}'"
        return
    for number in figures.numbers:
        if abs(float(number) - values[0]) > values[0] * NEAR / 100:
            yield (f"{number} instructions are {values[0]:.0f} by "
                   f"'{figures.origin}'")


def results() -> list[dict[str, Any]] | None:
    """What `make bench` left in the tree, or None."""
    if not RESULTS.exists():
        return None
    found: list[dict[str, Any]] = json.loads(
        RESULTS.read_text(encoding="utf-8"))["results"]
    return found


def complaints(texts: Iterable[tuple[str, str]], known: list[Figures],
               measured: list[dict[str, Any]] | None) -> Iterator[tuple[str, str]]:
    """Pairs of a file and what is wrong with a figure in it."""
    by_file: dict[str, set[str]] = {}
    for figures in known:
        by_file.setdefault(figures.file, set()).update(figures.numbers)
    there = {name: numbers(text) for name, text in texts if is_prose(name)}
    for name, found in there.items():
        for number in found:
            if number not in by_file.get(name, ()):
                yield name, (f"{number} instructions: overlay/bench/figures does "
                             "not say where they are from")
    for figures in known:
        for number in figures.numbers:
            if number not in there.get(figures.file, ()):
                yield figures.file, (f"overlay/bench/figures has {number}, which "
                                     "is not there")
        if measured is not None:
            for line in _not_measured(figures, measured):
                yield figures.file, line
