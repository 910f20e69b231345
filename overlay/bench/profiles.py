# SPDX-License-Identifier: GPL-2.0
"""Profiles: instructions by function, counted by a plugin of QEMU.

The plugin (overlay/host/insnprof.c) writes each block of instructions, and for each
round between two marks how often each block ran. The order of the blocks, which the
plugin writes as well, is not read.
"""

import bisect
import re
from collections import Counter
from functools import partial
from pathlib import Path

from bench.results import check_complete
from engine import host
from engine.host import UserError

# Instructions per operation by function.
Functions = dict[str, float]
# By variant and size.
Profiles = dict[tuple[str, int], Functions]
# Sorted addresses, and the functions that start there.
Symbols = tuple[list[int], list[str]]

# The code of all programs together.
USER = "[user space]"


def rounds_of(raw: str, symbols: Symbols) -> list[Counter[str]]:
    """Return the instructions of each function, for each of the plugin's rounds."""
    found: list[Counter[str]] = []
    blocks: dict[str, Counter[str]] = {}
    for line in raw.splitlines():
        kind, *words = line.split()
        if kind == "round":
            found.append(Counter())
        elif kind == "block":
            name, _, _, *addresses = words
            blocks[name] = Counter(map(partial(function_at, symbols), (
                int(word, 16) for word in addresses)))
        elif kind == "sums":
            for word in words:
                name, _, times = word.partition("*")
                for function, number in blocks[name].items():
                    found[-1][function] += number * int(times or 1)
    return found


def symbols(text: str) -> Symbols:
    """Return the functions of a System.map, sorted by address."""
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
    """Return the function at an address, or USER."""
    if address < 1 << 63:
        return USER
    addresses, names = table_of_symbols
    at = bisect.bisect_right(addresses, address) - 1
    return names[at] if at >= 0 else hex(address)


def of_the_kernel(functions: Functions) -> Functions:
    """Leave out the program, which spins."""
    return {name: value for name, value in functions.items() if name != USER}


def profiles(output: str, raw: str, system_map: str) -> Profiles:
    """Return the profiles that a program has marked.

    A profile comes from the round with the fewest instructions: the timer did not
    tick in it. If the program says that each round is the sum of several windows,
    and which rounds it would have measured, the median of these rounds counts.
    """
    check_complete(output)
    rounds = rounds_of(raw, symbols(system_map))
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
        mine = [sum(mine[at:at + windows], Counter())
                for at in range(0, len(mine), windows)]
        mine = [one for one, kept in zip(mine, match[6] or "+" * taken,
                                         strict=True) if kept == "+"]
        quiet = sorted(mine, key=Counter.total)[len(mine) // 2 if match[6] else 0]
        found[match[1], size] = {name: number / reads
                                 for name, number in quiet.items()}
    if rounds or not found:
        raise UserError("the profile's rounds are not those that were marked")
    return found


def write(out: Path, name: str, beside: dict[str, Functions], title: str,
          what: str = "read") -> None:
    """Write the profiles of variants beside each other, to show what differs."""
    names = list(beside)
    order = sorted({name for functions in beside.values()
                    for name, value in functions.items() if value >= 0.5},
                   key=lambda name: ([-beside[one].get(name, 0)
                                      for one in names], name))
    lines = [f"# {title}", f"# Instructions per {what}, by function; "
             "'-' is a function that is not reached.", "#",
             "".join(f"{name:>12}" for name in names) + "   function"]
    for function in order:
        values = (beside[one].get(function, 0) for one in names)
        lines.append("".join(f"{value:12.0f}" if value >= 0.5 else f"{'-':>12}"
                             for value in values) + f"   {function}")
    lines.append("".join(f"{sum(beside[one].values()):12.0f}"
                         for one in names) + "   all")
    host.write(out / f"profile-{name}.txt", "\n".join(lines) + "\n")
