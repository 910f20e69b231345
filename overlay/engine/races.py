# SPDX-License-Identifier: GPL-2.0
"""Reports of KCSAN: data races of ours are failures, others are listed.

A report names the functions of one or both accesses. A race is ours if one of these
functions is defined in a file of ours.
"""

import functools
import re
from collections import Counter
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from engine import build, host, ktap
from engine.ktap import Case

TITLE = re.compile(r"BUG: KCSAN: [\w: -]+? in (\S+?)(?: / (\S+))?\s*$")
RULE = re.compile(r"={40,}\s*$")
# Our functions in files of upstream.
OURS = re.compile(r"nvme_uq_|dax_around_|vmf_fault_around_|"
                  r"vmf_insert_pages_around|ext4_dax_")


@dataclass
class Race:
    """One report."""

    line: int
    functions: tuple[str, ...]
    text: str

    def title(self) -> str:
        """Return the functions of the race."""
        return " / ".join(self.functions)


def bare(symbol: str) -> str:
    """Return a function's name without suffixes of the compiler."""
    return re.sub(r"\.(isra|constprop|part|cold)\b.*", "",
                  symbol.split("+", maxsplit=1)[0])


def find(text: str) -> list[Race]:
    """Return all reports of a boot log."""
    found, lines = [], text.splitlines()
    for number, line in enumerate(lines):
        if not (title := TITLE.search(line)):
            continue
        body = [line]
        for after in lines[number + 1:number + 80]:
            if RULE.search(after):
                break
            body.append(after)
        names = tuple(bare(name) for name in title.groups() if name)
        found.append(Race(number + 1, names, "\n".join(body)))
    return found


def without(text: str) -> str:
    """Remove the first lines of reports from a boot log."""
    return "\n".join("" if TITLE.search(line) else line
                     for line in text.splitlines())


@functools.cache
def own_functions() -> frozenset[str]:
    """Return the functions in our objects of the KCSAN kernel."""
    names = set()
    for source in build.own_sources():
        path = build.folder("kcsan") / source
        output = host.output(["nm", "--defined-only", "-f", "posix",
                              path.with_suffix(".o")])
        for line in (output or "").splitlines():
            name, kind = line.split()[:2]
            if kind in "tT":
                names.add(bare(name))
    return frozenset(names)


def is_ours(race: Race, functions: AbstractSet[str]) -> bool:
    """Return whether a function of ours made one of the accesses."""
    return any(name in functions or OURS.match(name)
               for name in race.functions)


def cases(name: str, text: str, out: Path,
          functions: AbstractSet[str] | None = None) -> list[Case]:
    """Return the cases of a boot, and list other races in a file."""
    functions = own_functions() if functions is None else functions
    reports = find(text)
    ours = {race.title(): race for race in reports
            if is_ours(race, functions)}
    others = [race for race in reports if not is_ours(race, functions)]
    listed = out / f"{name}.races.txt"
    host.write(listed, _listing(others))
    if others:
        count = len({race.title() for race in others})
        host.say(f"    {name}: {count} data races of upstream are in "
                 f"{host.short(listed)}")
    what = f"{name}: no data race of ours"
    if not ours:
        return [Case(what, ktap.PASS)]
    return [Case(f"{what}: {title}", ktap.FAIL, f"line {race.line}\n{race.text}")
            for title, race in sorted(ours.items())]


def _listing(races: list[Race]) -> str:
    """Return the number of reports of each race, and the text of one."""
    texts = {race.title(): race.text for race in races}
    return "\n".join(f"{count} x {title}\n{texts[title]}\n" for title, count
                     in Counter(map(Race.title, races)).most_common())
