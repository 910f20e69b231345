# SPDX-License-Identifier: GPL-2.0
"""The tree form: our files over a kernel source.

Every file under an upstream directory lands at the same path in the kernel.
`X.patch` changes the upstream file X beside which it stands; it is the sum of all
series. A git index computes the laid tree, so an unchanged file keeps its time
stamp and make compiles nothing more than the change.
"""

import functools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine import host, repository, source
from engine.host import UserError
from engine.source import Source

# The top of the clone contains these, and the kernel does not get them.
OURS = {"overlay", "out", "README.md", "CONTRIBUTING.md", "Makefile", "COPYING"}
PATCH = ".patch"


@dataclass(frozen=True)
class Item:
    """One of our files for the kernel."""

    path: str               # in the clone
    target: str             # in the kernel
    kind: str               # 'file' or 'patch'


def _walk(root: Path) -> Iterator[str]:
    """Yield each file for the kernel, as a path from the root."""
    for folder, folders, files in os.walk(root):
        top = Path(folder) == root

        def ours(name: str, top: bool = top) -> bool:
            return not host.JUNK.search(name) and not (
                top and (name in OURS or name.startswith(".")))

        folders[:] = sorted(filter(ours, folders))
        for name in sorted(filter(ours, files)):
            yield str((Path(folder) / name).relative_to(root))


def _item(root: Path, path: str) -> Item:
    if not path.endswith(PATCH):
        return Item(path, path, "file")
    target = path.removesuffix(PATCH)
    try:
        text = (root / path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{path} is not text") from None
    named = re.findall(r"^diff --git a/(\S+) b/(\S+)$", text, re.MULTILINE)
    if named != [(target, target)]:
        raise UserError(f"{path} must be a git diff of {target} alone")
    return Item(path, target, "patch")


def items(root: Path = host.ROOT) -> list[Item]:
    """Return our files for the kernel, sorted by path."""
    return [_item(root, path) for path in _walk(root)]


def laid(src: Source, root: Path = host.ROOT) -> str:
    """Return the commit of a kernel source with the clone's files over it."""
    base = repository.base(src)
    index = repository.Index(base)
    found = items(root)
    upstream = index.names()
    for item in found:
        if item.kind == "file" and item.target in upstream:
            raise UserError(f"{item.path} is a file of Linux {src.version} already: "
                            f"change it by {item.path}{PATCH}")
        if item.kind == "patch" and item.target not in upstream:
            raise UserError(f"{item.path} changes a file that Linux {src.version} "
                            "does not contain")
    _apply(index, [item for item in found if item.kind == "patch"], src, root)
    index.add({item.target: root / item.path for item in found
               if item.kind == "file"})
    return repository.commit(index.tree(), "The series laid over the kernel", base)


def _apply(index: repository.Index, patches: list[Item], src: Source,
           root: Path) -> None:
    """Apply the patches; another kernel may need a 3-way merge for some."""
    paths = [root / item.path for item in patches]
    if not paths or not index.apply(paths).returncode:
        return
    for item in patches:
        if not index.apply([root / item.path]).returncode:
            continue
        done = index.apply([root / item.path], "--3way")
        if done.returncode:
            line = re.search(r"^error: patch failed: .+:(\d+)$", done.stdout,
                             re.MULTILINE)
            raise UserError(f"{item.path} does not apply to Linux {src.version}"
                            + (f" near line {line[1]}" if line else ""))


def lay(src: Source, path: Path, revision: str) -> int:
    """Bring a work tree to a laid commit; returns how many files changed."""
    old = repository.run("rev-parse", "HEAD", at=path, check=False).stdout.strip() \
        if (path / ".git").exists() else ""
    if not repository.checkout(path, revision):
        return 0
    before = old if old and repository.resolve(old) else repository.base(src)
    return len(repository.changed(before, revision))


def form(base: str, revision: str) -> dict[str, tuple[bytes, bool]]:
    """Return the tree form of a commit: path -> content, executable."""
    found: dict[str, tuple[bytes, bool]] = {}
    for target, letter in repository.changed(base, revision).items():
        if letter == "A":
            mode = repository.git("ls-tree", revision, "--", target)
            found[target] = (repository.read(revision, target).encode(),
                             mode.startswith("100755"))
        elif letter == "M":
            text = repository.run("diff", "--no-ext-diff", "--no-color", base, revision,
                                  "--", target).stdout
            found[f"{target}{PATCH}"] = (text.encode(), False)
        else:
            raise UserError(f"the series change {target} in a way that the tree form "
                            f"cannot express ({letter}): only additions and "
                            "modifications are possible")
    return found


def write(wanted: dict[str, tuple[bytes, bool]], root: Path = host.ROOT) -> list[str]:
    """Write a tree form into the clone; returns the paths that changed."""
    changed = []
    for path in sorted(set(_walk(root)) - wanted.keys()):
        host.remove(root / path)
        changed.append(path)
    for path, (content, executable) in wanted.items():
        there = root / path
        if there.is_file() and there.read_bytes() == content \
                and os.access(there, os.X_OK) == executable:
            continue
        host.write(there, content)
        there.chmod(0o755 if executable else 0o644)
        changed.append(path)
    return changed


@functools.cache
def current() -> str:
    """Return the laid commit of the clone over the kernel of this run."""
    return laid(source.kernel())
