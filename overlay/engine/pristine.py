# SPDX-License-Identifier: GPL-2.0
"""What a maintainer gets: `git am` of the written mails on a kernel without us.

The tree that comes of it is the tree that was tested, byte for byte.
"""

from collections.abc import Iterator
from pathlib import Path

from engine import host, lay
from engine.branch import Branch
from engine.entries import Series
from engine.host import UserError
from engine.lay import Item
from engine.source import Source


def patches(out: Path) -> list[Path]:
    """The mails of one series, in order, but for its cover.

    A patch alone has none: b4 puts the cover below its message.
    """
    mails = sorted(out.glob("*.eml"))
    return mails[1:] if len(mails) > 1 else mails


def of_series(branch: Branch, mails: list[Path]) -> Iterator[str]:
    """How the mails of a series differ from its branch, if they do."""
    name = f"b4/{branch.series.name}"
    branch.git("checkout", "--quiet", "--detach",
               f"{name}~{len(branch.series.entries)}")
    try:
        branch.git("am", "--quiet", *mails)
        changed = branch.git("diff", "--name-only", "HEAD", name).split()
        if changed:
            yield f"git am makes another tree: {', '.join(changed[:5])}"
    except UserError as error:
        branch.git("am", "--abort", check=False)
        yield f"git am: {error}"
    finally:
        branch.git("checkout", "--quiet", "--force", name)


class Whole:
    """All series on one kernel, one after the other, from their mails."""

    def __init__(self, kernel: Source, items: list[Item], log: Path) -> None:
        # A series of nothing, of which the repository has all files of ours.
        self.kernel = kernel
        self.items = items
        self.log = log

    def complaints(self, everything: list[Series]) -> Iterator[str]:
        """How the mails of all series differ from what was tested."""
        top = Series("all", everything[0].cover,
                     [entry for series in everything for entry in series.entries])
        branch = Branch(top, [top], self.kernel, self.items, self.log)
        branch.start()
        branch.git("checkout", "--quiet", "-B", "all")
        for series in everything:
            mails = patches(host.OUT / "series" / series.name)
            if len(mails) != len(series.entries):
                yield f"{series.name} has {len(mails)} mails of patches"
                return
            try:
                branch.git("am", "--quiet", *mails)
            except UserError as error:
                yield f"{series.name}: git am: {error}"
                return
        yield from self._differences(branch)

    def _differences(self, branch: Branch) -> Iterator[str]:
        wanted = lay.holds(self.kernel, self.items)
        changed = set(branch.git("diff", "--name-only", "base", "HEAD").split())
        for target in sorted(changed ^ set(wanted)):
            yield f"{target} is not in both"
        for target in sorted(changed & set(wanted)):
            if (branch.path / target).read_bytes() != wanted[target][0]:
                yield f"{target} is not what was tested"
