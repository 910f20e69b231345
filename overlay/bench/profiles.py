# SPDX-License-Identifier: GPL-2.0
"""Profiles: instructions by function and by stack, counted by a plugin.

The profiling plugin (overlay/host/insnprof.c) writes blocks of instructions in the
order in which they ran, and how each of them ends. After a call the
callee runs, up to the return behind the call. A jump to another function puts
it in the place of the one that jumped, which the callee then returns for.

Where the processor enters the kernel, by a system call or an interrupt, a stack
begins; the interrupted stack continues when the interrupt returns. Another task's
callers are not known when it is switched to: its stack begins there.
"""

import bisect
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TypeVar

from bench.results import check_complete
from engine import host
from engine.host import UserError

# Functions, the caller before the callee.
Stack = tuple[str, ...]
# Instructions per operation by function.
Functions = dict[str, float]
# Sorted addresses, and the functions that start there.
Symbols = tuple[list[int], list[str]]
Number = TypeVar("Number", int, float)

# All code of programs: it is not told apart.
USER = "[user space]"
ENTRY = re.compile(r"asm_(exc|sysvec|common|spurious)_\w+|(irq|spurious)_entries_start"
                   r"|entry_SYSCALL_64")
# Returns to where another task has called it.
SWITCH = "__switch_to"


@dataclass(frozen=True)
class Block:
    """Instructions that run together."""

    # How it ends: with a call, ret, iret, or otherwise.
    end: str
    # The address behind it, where a call returns to.
    behind: int
    addresses: tuple[int, ...]
    # Of each function in it, in their order, the number of instructions.
    parts: tuple[tuple[str, int], ...]

    @property
    def function(self) -> str:
        """The function that it begins in."""
        return self.parts[0][0]

    def again(self, block: "Block") -> bool:
        """Whether a block is the rest of this one after an interruption."""
        return block.addresses[0] in self.addresses[1:]


NOTHING = Block("-", 0, (), (("", 0),))


@dataclass
class Round:
    """The plugin's record between marks."""

    # How many instructions of each function ran, in whatever order.
    functions: Counter[str] = field(default_factory=Counter)
    # Blocks in their order, as the plugin writes them.
    ran: list[str] = field(default_factory=list)

    def __add__(self, other: "Round") -> "Round":
        return Round(self.functions + other.functions, self.ran + other.ran)

    def total(self) -> int:
        """How many instructions ran."""
        return self.functions.total()


def _times(words: str) -> Iterator[tuple[str, int]]:
    """Blocks that ran, and how often each, as the plugin writes them."""
    for word in words.split():
        name, _, times = word.partition("*")
        yield name, int(times or 1)


def _block(text: str, function_at: Callable[[int], str]) -> Block:
    end, behind, *words = text.split()
    addresses = tuple(int(word, 16) for word in words)
    return Block(end, int(behind, 16), addresses, tuple(
        (function, len(list(same)))
        for function, same in groupby(map(function_at, addresses))))


def _sums(words: str, blocks: dict[str, Block]) -> Counter[str]:
    """The instructions of each function, by how often blocks ran."""
    found: Counter[str] = Counter()
    for name, times in _times(words):
        for function, number in blocks[name].parts:
            found[function] += number * times
    return found


def rounds_of(raw: str, function_at: Callable[[int], str]
           ) -> tuple[list[Round], dict[str, Block]]:
    """Read the plugin's rounds, and blocks by ID."""
    found: list[Round] = []
    blocks: dict[str, Block] = {}
    for line in raw.splitlines():
        what, _, rest = line.partition(" ")
        if what == "round":
            found.append(Round())
        elif what == "block":
            name, _, rest = rest.partition(" ")
            blocks[name] = _block(rest, function_at)
        elif what == "sums":
            found[-1].functions = _sums(rest, blocks)
        else:
            found[-1].ran.append(rest)
    return found, blocks


class Walk:
    """Goes from block to block, and counts the instructions of each stack."""

    def __init__(self) -> None:
        self.found: Counter[Stack] = Counter()
        self.last = NOTHING
        # Functions, and the addresses that they return to.
        self.frames = [("", 0)]
        # Frames and last block at each entry into the kernel.
        self.left: list[tuple[list[tuple[str, int]], Block]] = []

    def run(self, block: Block, times: int) -> None:
        """A block is executed so often in a row: it is a loop, or calls itself."""
        if block.end != "-" and times > 1:
            for _ in range(times):
                self.run(block, 1)
            return
        self._go_to(block)
        self.last = block
        for function, number in block.parts:
            # Another function without a call is one that was jumped to.
            self.frames[-1] = function, self.frames[-1][1]
            self.found[tuple(name for name, _ in self.frames)] += number * times

    def _go_to(self, block: Block) -> None:
        last = self.last
        if block.function == USER:
            self._begin(block)
            self.left = []
        elif last.end == "ret" and self._returned(block):
            pass
        elif ENTRY.fullmatch(block.function) and \
                not ENTRY.fullmatch(self.frames[-1][0]):
            self.left.append((self.frames, last))
            self._begin(block)
        elif last.end == "iret":
            self._resume(block)
        elif last.end == "call" and not last.again(block):
            self.frames.append((block.function, last.behind))
        elif last.end == "ret" and not last.again(block):
            self._begin(block)

    def _begin(self, block: Block) -> None:
        self.frames = [(block.function, 0)]

    def _returned(self, block: Block) -> bool:
        """Leave the functions that a return has ended, if it is known to whom."""
        if self.frames[-1][0] == SWITCH:
            return False
        for depth in range(len(self.frames) - 1, 0, -1):
            if self.frames[depth][1] == block.addresses[0]:
                del self.frames[depth:]
                return True
        return False

    def _resume(self, block: Block) -> None:
        """Continue the interrupted stack, in its last block or behind it."""
        if not self.left:
            self._begin(block)
            return
        self.frames, self.last = self.left.pop()
        if block.addresses[0] not in self.last.addresses:
            self._go_to(block)


def fold(ran: Iterable[str], blocks: dict[str, Block]) -> Counter[Stack]:
    """The instructions of each stack, ordered by first run."""
    found: Counter[Stack] = Counter()
    for line in ran:
        walk = Walk()
        for name, times in _times(line):
            walk.run(blocks[name], times)
        found.update(walk.found)
    return found


def by_function(found: Mapping[Stack, Number]) -> dict[str, Number]:
    """The instructions of each function itself, whoever has called it."""
    functions: dict[str, Number] = {}
    for stack, number in found.items():
        functions[stack[-1]] = functions.get(stack[-1], 0) + number
    return functions


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
        return USER
    addresses, names = table_of_symbols
    at = bisect.bisect_right(addresses, address) - 1
    return names[at] if at >= 0 else hex(address)


@dataclass(frozen=True)
class Profile:
    """The instructions of a round, and its number of operations."""

    operations: int
    # Instructions of all of them, by who has called whom.
    stacks: Counter[Stack]

    def functions(self) -> Functions:
        """Instructions per operation by function, the most expensive first."""
        found = by_function(self.stacks)
        return {name: found[name] / self.operations
                for name in sorted(found, key=found.__getitem__, reverse=True)}

    def of_the_kernel(self) -> "Profile":
        """Without the program's own part, with the spin."""
        return Profile(self.operations, Counter({
            stack: number for stack, number in self.stacks.items()
            if stack != (USER,)}))


# By variant and size.
Profiles = dict[tuple[str, int], Profile]


def _profile(one: Round, blocks: dict[str, Block], operations: int) -> Profile:
    """A round's profile; each instruction is in one stack."""
    found = fold(one.ran, blocks)
    if by_function(found) != one.functions:
        raise UserError(f"the stacks of a profile have {found.total()} "
                        f"instructions, of {one.total()} that ran, or not those "
                        "of each function")
    return Profile(operations, found)


def profiles(output: str, raw: str, system_map: str) -> Profiles:
    """The profiles that a program has said it marked.

    Of the rounds of each, the one with the fewest instructions counts: the
    timer did not tick in it.

    A program may say that each of its rounds is the sum of so many windows, and
    which rounds it would have measured: then their median counts.
    """
    check_complete(output)
    rounds, blocks = rounds_of(raw, partial(function_at, symbols(system_map)))
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
        mine = [sum(mine[at:at + windows], Round())
                for at in range(0, len(mine), windows)]
        mine = [one for one, kept in zip(mine, match[6] or "+" * taken,
                                         strict=True) if kept == "+"]
        quiet = sorted(mine, key=Round.total)[len(mine) // 2 if match[6] else 0]
        found[match[1], size] = _profile(quiet, blocks, reads)
    if rounds or not found:
        raise UserError("the profile's rounds are not those that were marked")
    return found


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
        values = (beside[one].get(name, 0) for one in names)
        lines.append("".join(f"{value:12.0f}" if value >= 0.5 else f"{'-':>12}"
                             for value in values) + f"   {name}")
    lines.append("".join(f"{sum(beside[one].values()):12.0f}"
                         for one in names) + "   all")
    return "\n".join(lines) + "\n"


def write_profiles(out: Path, name: str, beside: dict[str, Profile], title: str,
                   what: str = "read") -> None:
    """The profiles of a cell: variants by function, and the stacks of each."""
    host.write(out / f"profile-{name}.txt", profile_table(
        {variant: one.functions() for variant, one in beside.items()}, title, what))
    for variant, one in beside.items():
        # In the format that tools for flame graphs read. The numbers are of all
        # operations; the outermost frame has their number.
        root = f"{one.operations} {what}s: {variant}"
        host.write(out / f"profile-{name}-{variant}.folded", "".join(
            f"{';'.join((root, *stack))} {number}\n"
            for stack, number in one.stacks.items()))
