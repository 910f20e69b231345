# SPDX-License-Identifier: GPL-2.0
"""KCSAN's reports: our data races are failures, others are listed.

A report names the functions of both accesses, or of one whose value changed. A race is
ours if one of these functions is in a file of ours.
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
        """The same title for the same race."""
        return " / ".join(self.functions)


def bare(symbol: str) -> str:
    """A function's name without the compiler's suffixes."""
    return re.sub(r"\.(isra|constprop|part|cold)\b.*", "",
                  symbol.split("+", maxsplit=1)[0])


def find(text: str) -> list[Race]:
    """All reports of a boot log."""
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
    """The functions in our objects of the kernel that watches."""
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
    """Whether one of the accesses is made by a function of ours."""
    return any(name in functions or OURS.match(name)
               for name in race.functions)


def cases(name: str, text: str, out: Path,
          functions: AbstractSet[str] | None = None) -> list[Case]:
    """The cases of a boot: our races, and where the others are listed."""
    functions = own_functions() if functions is None else functions
    reports = find(text)
    ours = {race.title(): race for race in reports
            if is_ours(race, functions)}
    others = [race for race in reports if not is_ours(race, functions)]
    listed = out / f"{name}.races.txt"
    host.write(listed, _listing(others))
    if others:
        count = len({race.title() for race in others})
        host.say(f"    {name}: {count} data races of upstream's are not "
                 f"counted, see {host.short(listed)}")
    what = f"{name}: no data race of ours"
    if not ours:
        return [Case(what, ktap.PASS)]
    return [Case(f"{what}: {title}", ktap.FAIL, f"line {race.line}\n{race.text}")
            for title, race in sorted(ours.items())]


def _listing(races: list[Race]) -> str:
    """Upstream's races: the number of reports, and the text of one."""
    texts = {race.title(): race.text for race in races}
    return "\n".join(f"{count} x {title}\n{texts[title]}\n" for title, count
                     in Counter(map(Race.title, races)).most_common())
