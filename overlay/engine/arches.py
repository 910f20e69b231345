# SPDX-License-Identifier: GPL-2.0
"""What a commit touches, for other architectures and sparse: `make series ARGS=arches`.

`make lint` compiles the whole tree so. A commit in the middle of a series may
divide 64 bits where a long has 32, or leave to a later commit what an architecture
needs. What upstream's text says without our patches is taken away, as there.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine import lint, objects, reuse, store
from engine.lay import Item
from engine.objects import Arch, Shop
from engine.source import Source

NAME = "arches"
PACKAGES = objects.ARM64.packages


@dataclass(frozen=True)
class Tool:
    """One more way to compile what a commit touches."""

    name: str
    # What its case says when it passes.
    title: str
    # What a result goes by beside the files that are compiled.
    by: object
    args: tuple[str, ...] = ("W=1",)
    arch: Arch | None = None

    @property
    def kind(self) -> str:
        """What its results are kept as: the store has room for so many of each."""
        return f"commit-{self.name}"

    def goals(self, goals: Iterable[str]) -> list[str]:
        """Those of a commit's goals that it compiles."""
        return [goal for goal in goals if not self.arch or self.arch.has(goal)]

    def complaints(self, shop: Shop, goals: Sequence[str],
                   items: Sequence[Item]) -> list[str]:
        """What it says of these items, which lie in the shop's tree."""
        if self.arch:
            shop = shop.elsewhere(self.arch)
        shop.configure()
        return shop.complaints(goals, items, *self.args)


def _compiler(arch: Arch) -> Tool:
    return Tool(arch.name, f"{arch.name} compiles without a warning",
                (arch.name, reuse.versions(arch.packages)), arch=arch)


def tools(kernel: Source, log: Path) -> list[Tool]:
    """All of them; UserError when there is no sparse and none can be made."""
    program = lint.find_sparse(kernel, log)
    return [_compiler(objects.ARM64), _compiler(objects.I386),
            Tool("sparse", "sparse", ("sparse", store.of_file(program)),
                 ("W=1", objects.CHECKED, f"CHECK={program}"))]
