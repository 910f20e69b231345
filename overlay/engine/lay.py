# SPDX-License-Identifier: GPL-2.0
"""Laying: this tree over a kernel source tree.

Every file of ours under an upstream folder lands at the same path; `X.patch`
or `X.slug.patch` changes the file X beside which it stands. After lay() the
laid tree is the source plus ours and nothing else, whatever it was before,
and only files with a changed text have a new time stamp, so that make builds
no more than it must.
"""

import functools
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine import entries, host, source
from engine.entries import Entry, Series
from engine.host import UserError
from engine.source import Source

# What stands at the top of this tree and is not for the kernel.
OURS = {"overlay", "out", "README.md", "Makefile", "LICENSES", "COPYING"}
MANIFEST = ".overlay-manifest"
# Beside it, the files of the source: there are many, and they seldom change.
INDEX = ".overlay-index"
# Size and time of files, by path; and what targets should hold, and whether
# they can be executed.
Index = dict[str, list[int]]
Wanted = dict[str, tuple[bytes, bool]]


@dataclass(frozen=True)
class Item:
    """A file of ours that lands in the kernel."""

    path: str               # in this tree
    target: str             # in the kernel
    kind: str               # 'file' or 'patch'


# -- what is ours ------------------------------------------------------------

def _walk(root: Path) -> Iterator[str]:
    """Every file of ours under upstream folders, as paths from the root."""
    for folder, folders, files in os.walk(root):
        top = Path(folder) == Path(root)
        folders[:] = sorted(
            name for name in folders if not host.JUNK.search(name)
            and not (top and (name in OURS or name.startswith("."))))
        for name in sorted(files):
            if host.JUNK.search(name):
                continue
            if top and (name in OURS or name.startswith(".")):
                continue
            yield str((Path(folder) / name).relative_to(root))


def _target(root: Path, path: str) -> str:
    """The upstream file that a patch changes: its header names it."""
    try:
        text = (Path(root) / path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{path} is not text") from None
    named = re.findall(r"^\+\+\+ (\S+)", text, re.MULTILINE)
    if len(named) != 1:
        raise UserError(f"{path} must change exactly one file, and it names "
                        f"{len(named)}")
    if re.search(r"^--- /dev/null", text, re.MULTILINE):
        raise UserError(f"{path} creates a file: put the file itself in the tree")
    target = str(named[0]).removeprefix("b/")
    whole = path.removesuffix(".patch")
    if target not in (whole, re.sub(r"\.[a-z0-9-]+$", "", whole)):
        raise UserError(f"{path} changes {target}, beside which it does not "
                        "stand")
    return target


def to_take_away(everything: Iterable[Series],
                 done: Iterable[Entry]) -> list[Entry]:
    """The entries that are not done and bring something to files of others.

    The last one first, which is the order in which it is taken away.
    """
    there = {entry.path for entry in done}
    return [entry for series in everything for entry in series.entries
            if entry.parts and entry.path not in there][::-1]


def place(root: Path, path: str, into: Path, absent: Iterable[Entry]) -> None:
    """Copy a file of ours, without what absent entries bring to it."""
    into.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(Path(root) / path, into)
    for entry in absent:
        part = entry.parts.get(path)
        if part is None:
            continue
        with tempfile.TemporaryDirectory(prefix="overlay-without-") as folder:
            top = Path(folder)
            (top / path).parent.mkdir(parents=True)
            shutil.copy2(into, top / path)
            host.write(top / ".patch", part)
            apply_patch(top / ".patch", top, name=f"{entry.path.parent.name}/"
                        f"{entry.name}{entries.WITHOUT}")
            shutil.copy2(top / path, into)


def _ranks(root: Path) -> dict[str, int]:
    """The order in which the entries of all series list files."""
    listed = [name for series in entries.read(Path(root))
              for entry in series.entries for name in entry.files]
    return {name: rank for rank, name in reversed(list(enumerate(listed)))}


def items(root: Path = host.ROOT) -> list[Item]:
    """Every file of ours that lands in the kernel, in the order of laying."""
    ranks = _ranks(root)
    paths = sorted(_walk(root), key=lambda p: (ranks.get(p, len(ranks)), p))
    found = []
    for path in paths:
        if path.endswith(".patch"):
            found.append(Item(path, _target(root, path), "patch"))
        else:
            found.append(Item(path, path, "file"))
    return found


# -- patches -----------------------------------------------------------------

def _hunks(patch: Path) -> list[tuple[int, list[str]]]:
    """For each hunk, the line it starts at and the lines it expects."""
    hunks: list[tuple[int, list[str]]] = []
    for line in Path(patch).read_text(encoding="utf-8").splitlines():
        if match := re.match(r"@@ -(\d+)", line):
            hunks.append((int(match.group(1)), []))
        elif hunks and line[:1] in (" ", "-", ""):
            hunks[-1][1].append(line[1:])
    return hunks


def _expected(lines: list[str]) -> str:
    """The most telling of the lines a hunk expects."""
    telling = max(lines, key=lambda line: len(line.strip()), default="")
    return telling.strip()


def _places(lines: list[str], text: str) -> int:
    """How many places in the text a hunk's lines fit."""
    if not lines:
        return 1
    there = text.splitlines()
    return sum(there[at:at + len(lines)] == lines
               for at in range(len(there) - len(lines) + 1))


# What came of a patch of a text, as the branches of twenty series, and the trees in
# which they are compiled, have the same ones.
_applied: dict[bytes, bytes] = {}


def apply_patch(patch: Path, tree: Path, *, name: str | None = None,
                version: str = "") -> None:
    """Apply one patch in a tree: no fuzz, and no doubt about the place.

    A hunk may have moved, because upstream changed above it; if its context
    then fits at several places, the nearest may be the wrong one.
    """
    patch, tree = Path(patch).resolve(), Path(tree)
    name = name or patch.name
    target = re.findall(r"^\+\+\+ (?:b/)?(\S+)", patch.read_text("utf-8"),
                        re.MULTILINE)[0]
    over = f"Linux {version}" if version else "the tree"
    written = f" (it is written for {source.BASE})" if version else ""
    if not (tree / target).is_file():
        raise UserError(f"{name} does not apply to {over}{written}: there is no "
                        f"{target}")
    before = (tree / target).read_text(encoding="utf-8")
    key = hashlib.sha256(b"\0".join(path.read_bytes() for path in (
        patch, tree / target))).digest()
    if key in _applied:
        _replace(tree / target, _applied[key])
        return
    done = host.run(["patch", "-p1", "--fuzz=0", "--force", "--no-backup",
                     "--reject-file=-", "--input", patch],
                    cwd=tree, check=False, what=f"applying {name}")
    hunks = _hunks(patch)
    if done.returncode:
        failed = re.search(r"[Hh]unk #(\d+) FAILED", done.stdout)
        line, lines = hunks[int(failed.group(1)) - 1 if failed else 0]
        raise UserError(f"{name} does not apply to {over}{written}: near line "
                        f"{line} of {target} it expects \"{_expected(lines)}\"")
    for moved in re.findall(r"Hunk #(\d+) succeeded at \d+ \(offset",
                            done.stdout):
        line, lines = hunks[int(moved) - 1]
        places = _places(lines, before)
        if places > 1:
            raise UserError(f"{name} fits {over} at {places} places{written}: "
                            f"its hunk for line {line} of {target} needs more "
                            "context")
    _applied[key] = (tree / target).read_bytes()


def _replace(path: Path, content: bytes) -> None:
    """Write a file as patch does: a new one with the mode of the old one."""
    mode = path.stat().st_mode
    host.write(path, content)
    path.chmod(mode)


# -- Makefiles ---------------------------------------------------------------

SELFTESTS = "tools/testing/selftests/"
# In a Makefile of selftests: a list of programs and files, and a rule.
LIST = re.compile(r"(?P<made>(?:TEST_\w+|LOCAL_HDRS)\s*[:+]?=)(?P<of>.*)", re.DOTALL)
RULE = re.compile(r"(?P<made>[^\s:=#][^:=#]*):(?!=)(?P<of>[^=]*)\Z")
# A line with those that it goes on in.
WHOLE = re.compile(r"(?:[^\n]*\\\n)*[^\n]*(?:\n|\Z)")


def is_makefile(target: str) -> bool:
    """Whether kbuild, or the build of selftests, reads what to make from a file.

    So does git what to ignore, of the programs of selftests.
    """
    name = target.rpartition("/")[2]
    return name in ("Makefile", "Kbuild") or (
        name == ".gitignore" and target.startswith(SELFTESTS))


def to_come(everything: Iterable[Item], chosen: Iterable[Item]) -> set[str]:
    """Our files that are not among the chosen ones: later commits bring them."""
    return {item.target for item in everything if item.kind == "file"} - \
        {item.target for item in chosen}


def with_sources(target: str, text: str, missing: Collection[str]) -> str:
    """A Makefile without what is made of files that are among the missing ones.

    So one Makefile lists all objects of a feature, or all programs of a folder of
    selftests, and each commit has those that it has the source of.
    """
    if not target.startswith(SELFTESTS):
        return _with_objects(target, text, missing)
    gone = _Gone(target.rpartition("/")[0], text, missing)
    if target.endswith(".gitignore"):
        return "".join(line for line in text.splitlines(keepends=True)
                       if not gone(line.strip()))
    return _with_programs(text, gone)


def _with_objects(target: str, text: str, missing: Collection[str]) -> str:
    """A Makefile of the kernel without the objects that have no source yet."""
    folder, kept = target.rpartition("/")[0], []
    for line in text.splitlines(keepends=True):
        gone = [name for name in re.findall(r"\s(\S+\.o)(?=\s)", line)
                if f"{folder}/{name[:-2]}.c" in missing]
        for name in gone:
            line = re.sub(rf"\s{re.escape(name)}(?=\s)", "", line, count=1)
        if not gone or not line.rstrip().endswith("="):
            kept.append(line)
    return "".join(kept)


class _Gone:
    """Whether a word of a Makefile of selftests means what is not there yet."""

    def __init__(self, folder: str, text: str, missing: Collection[str]) -> None:
        self.folder = folder
        self.missing = missing
        # Lists of programs grow and shrink; others are names of folders.
        self.values = dict(re.findall(r"^(?!TEST_)(\w+) := (\S+)$", text,
                                      re.MULTILINE))
        self.without_rule: set[str] = set()

    def _name(self, word: str) -> str:
        for name, value in self.values.items():
            word = word.replace(f"$({name})", value)
        return word.removeprefix("$(OUTPUT)/")

    def unmade(self, rule: str) -> None:
        """What a rule makes is gone with all that it is made of."""
        made = rule.partition(":")[0].replace("\\\n", " ").split()
        self.without_rule |= {self._name(word) for word in made
                              if "$(TEST_" not in word}

    def __call__(self, word: str) -> bool:
        word = self._name(word)
        path = os.path.normpath(f"{self.folder}/{word}")
        return word in self.without_rule or any(
            name in self.missing for name in (
                path, f"{path.removesuffix('.o')}.c", f"{path}/Makefile"))


def _with_programs(text: str, gone: _Gone) -> str:
    """A Makefile of selftests without the programs that have no source yet."""
    lines = WHOLE.findall(text)
    for line in lines:
        if RULE.match(line) and not _less(line, gone):
            gone.unmade(line)
    kept, dropped = [], False
    for line in lines:
        if line.startswith("\t"):
            if not dropped:         # the recipe of a rule that is there
                kept.append(line)
            continue
        line = _less(line, gone)
        dropped = not line
        kept.append(line)
    return "".join(kept)


def _less(line: str, gone: Callable[[str], bool]) -> str:
    """A list or a rule without what is gone; nothing if nothing is left."""
    rule = RULE.match(line)
    found = LIST.match(line) or rule
    if not found:
        return line
    made, of = ([word for word in part.replace("\\\n", " ").split()
                 if not gone(word)] for part in found.groups())
    if made + of == line.replace("\\\n", " ").replace(
            ":" if rule else "", "").split():
        return line
    if not made or not of:
        return ""
    return f"{' '.join(made)}{':' if rule else ''} {' '.join(of)}\n"


# -- what the tree should hold -----------------------------------------------

def _wanted(src: Source, root: Path, chosen: Iterable[Item],
            missing: Collection[str] = (), absent: Sequence[Entry] = ()) -> Wanted:
    """What each target of ours should hold, as target -> bytes."""
    wanted = {}
    with tempfile.TemporaryDirectory(prefix="overlay-lay-") as folder:
        scratch = Path(folder)
        for item in chosen:
            there = scratch / item.target
            there.parent.mkdir(parents=True, exist_ok=True)
            if item.kind == "file":
                _place_file(src, root, item, there, absent)
            else:
                _place_patched(src, root, item, there, scratch)
            wanted[item.target] = there
        for target in {item.target for item in chosen
                       if is_makefile(item.target)}:
            text = wanted[target].read_text("utf-8")
            host.write(wanted[target], with_sources(target, text, missing))
        return {target: (there.read_bytes(), os.access(there, os.X_OK))
                for target, there in wanted.items()}


def _place_file(src: Source, root: Path, item: Item, there: Path,
                absent: Iterable[Entry]) -> None:
    if (src.path / item.target).exists():
        raise UserError(f"{item.path} is a file of Linux {src.version} already: "
                        "change it by a .patch")
    if there.exists():
        raise UserError(f"{item.path} must come before the patches on it in "
                        "overlay/series")
    place(root, item.path, there, absent)


def _place_patched(src: Source, root: Path, item: Item, there: Path,
                   scratch: Path) -> None:
    if not there.exists() and (src.path / item.target).is_file():
        shutil.copy(src.path / item.target, there)
        there.chmod(there.stat().st_mode | 0o200)
    apply_patch(Path(root) / item.path, scratch, name=item.path,
                version=src.version)


def holds(src: Source, chosen: Iterable[Item],
          root: Path = host.ROOT) -> Wanted:
    """What each target of ours holds when these items are laid."""
    return _wanted(src, root, chosen)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# -- the laid tree -----------------------------------------------------------

def _of(path: Path) -> list[int]:
    """Size and time of a file."""
    stat = path.lstat()
    return [stat.st_size, stat.st_mtime_ns]


def _index(top: Path) -> Index:
    """Size and time of every file below top, quickly: path -> [size, time]."""
    found = {}
    stack = [""]
    while stack:
        folder = stack.pop()
        with os.scandir(os.path.join(top, folder) if folder else top) as it:
            for entry in it:
                name = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in (".git", "__pycache__"):
                        stack.append(name)
                elif not entry.name.startswith(".overlay-"):
                    stat = entry.stat(follow_symlinks=False)
                    found[name] = [stat.st_size, stat.st_mtime_ns]
    return found


# What a build inside KDIR leaves there; none of it is source.
BUILT = re.compile(
    r"\.(o|a|ko|cmd|mod|d|order|symvers|dtb|so|dbg)$|^\.config|/\.tmp_|"
    r"^(vmlinux|System\.map|modules\.|\.tmp_|\.version|\.missing-)|"
    r"^include/(config|generated)/|^arch/[^/]+/include/generated/|"
    r"\.mod\.c$|^arch/x86/boot/")


def _source_index(src: Source) -> Index:
    """The files of the source that count, with their size and time."""
    found = _index(src.path)
    if src.origin == "debian":
        return found
    tracked = _tracked(src) if src.is_git else None
    if tracked is not None:
        return {path: found[path] for path in tracked if path in found}
    built = (src.path / ".config").exists() or \
        (src.path / "include" / "config").exists()
    if not built:
        return found
    return {path: value for path, value in found.items()
            if not BUILT.search(path) or _looks_like_source(path)}


def _looks_like_source(path: str) -> bool:
    return path.startswith("arch/x86/boot/") and \
        path.endswith((".c", ".h", ".S", "Makefile", ".ld", ".sh", ".lds.S"))


def _tracked(src: Source) -> list[str] | None:
    names = source.git(src.path, "ls-files", "-z")
    return [name for name in names.split("\0") if name] if names else None


class Tree:
    """The laid tree on disk, and the manifest of what we put there.

    The manifest has `source`, which one it is; `index`, by which the list of the
    source's files is known; `laid`, a digest of each target of ours; and `own`, size
    and time of each file that was written here and not taken over with the source.
    """

    def __init__(self, path: Path, src: Source) -> None:
        self.path = Path(path)
        self.src = src
        self.changed: list[str] = []
        self.manifest = self._read()

    def _read(self) -> dict[str, Any]:
        """The manifest, empty if the tree is not whole."""
        try:
            text = (self.path / MANIFEST).read_text("utf-8")
            found: dict[str, Any] = json.loads(text)
            if found["source"] == self._identity() \
                    and found["index"] == _of(self.path / INDEX):
                return found
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return {}

    @functools.cached_property
    def index(self) -> Index:
        """The files of the source, as they were when the tree was made from it."""
        found: Index = json.loads((self.path / INDEX).read_text("utf-8"))
        return found

    def _note_index(self, index: Index) -> None:
        host.write(self.path / INDEX, json.dumps(index))
        self.index = index
        self.manifest["index"] = _of(self.path / INDEX)

    def _identity(self) -> str:
        # The number is that of the manifest's format.
        return f"2 {self.src.origin} {self.src.path} {self.src.version}"

    def save(self) -> None:
        """Note the state of the tree; without this note it is made anew."""
        host.write(self.path / MANIFEST, json.dumps(self.manifest))

    def begin(self) -> None:
        """Make the tree if it is not whole, else take the note away.

        A run that is broken off leaves no manifest, so the next one starts
        from the source again.
        """
        if not self.manifest:
            self._make()
        else:
            (self.path / MANIFEST).unlink()

    def _make(self) -> None:
        host.remove(self.path)
        index = _source_index(self.src)
        with host.step(f"copying Linux {self.src.version} into {self.path}"):
            # Debian's source is ours to link to; a KDIR is only ever copied,
            # so that nothing can write through to it.
            if self.src.origin != "debian" or not self._link():
                self._copy_all(index)
        if _index(self.path) != index:
            raise UserError(f"{self.src.path} could not be copied whole, or it "
                            "changed meanwhile: run again")
        self.manifest = {"source": self._identity(), "own": {}, "laid": {}}
        self._note_index(index)

    def _link(self) -> bool:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        done = host.run(["cp", "-al", self.src.path, self.path], check=False)
        if done.returncode:
            host.remove(self.path)
        return done.returncode == 0

    def _copy_all(self, index: Index) -> None:
        host.need_space(self.path, 8, "a kernel's source and one build")
        self.path.mkdir(parents=True)
        names = self.path.with_name("copying")
        host.write(names, "".join(f"{name}\0" for name in index))
        host.run(["sh", "-c", 'tar -C "$1" --format=posix --mode=u+w --null '
                  '--no-recursion -T "$2" -cf - | '
                  'tar -C "$3" --no-same-owner -xf -', "sh", self.src.path,
                  names, self.path], what=f"copying {self.src.path}")
        host.remove(names)

    def _copy(self, name: str) -> None:
        there, here = self.src.path / name, self.path / name
        here.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(there, here, follow_symlinks=False)

    def put(self, target: str, data: bytes, executable: bool) -> None:
        """Give a target its text, as a file of its own, with a new time."""
        path = self.path / target
        path.parent.mkdir(parents=True, exist_ok=True)
        host.write(path, data)
        path.chmod(0o755 if executable else 0o644)
        self.manifest["own"][target] = _of(path)
        self.changed.append(target)

    def restore(self, name: str) -> None:
        """Give a file its upstream text again, or take it away."""
        there = self.src.path / name
        if name not in self.index:
            host.remove(self.path / name)
            self.manifest["own"].pop(name, None)
            self.changed.append(name)
        elif there.is_symlink():
            host.remove(self.path / name)
            self._copy(name)
            self.manifest["own"][name] = _of(self.path / name)
            self.changed.append(name)
        else:
            self.put(name, there.read_bytes(), os.access(there, os.X_OK))

    def follow_source(self) -> None:
        """Take over what changed in KDIR, and undo strays in the tree."""
        now = _source_index(self.src)
        then = self.index
        stale = {name for name in now.keys() | then.keys()
                 if now.get(name) != then.get(name)}
        if stale and self.src.origin == "debian":
            source.forget(self.src.path)
            raise UserError(f"the cached source in {self.src.path} was changed "
                            f"({sorted(stale)[0]}): run again to unpack it anew")
        if stale:
            self._note_index(now)
        ours = self.manifest["laid"]
        known = then | self.manifest["own"]
        here = _index(self.path)
        stray = {name for name in here.keys() | known.keys()
                 if here.get(name) != known.get(name)}
        for name in sorted(stale | stray):
            if name in ours:
                ours[name] = None       # laid again below
            else:
                self.restore(name)

    def lay(self, wanted: Wanted) -> None:
        """Bring the targets of ours to what is wanted."""
        laid = self.manifest["laid"]
        for target in sorted(laid.keys() - wanted.keys()):
            self.restore(target)
            del laid[target]
        for target, (data, executable) in wanted.items():
            digest = f"{_digest(data)} {executable}"
            if laid.get(target) != digest:
                self.put(target, data, executable)
                laid[target] = digest


def lay(src: Source, tree: Path, only: Iterable[str] | None = None,
        root: Path = host.ROOT, follow: bool = True,
        absent: Sequence[Entry] = ()) -> list[str]:
    """Lay the tree over a source; returns the targets that changed.

    `only` chooses items by their path in this tree (a series lays one entry
    after another), and what `absent` entries bring to these is taken away.
    Nothing is written before everything is known to fit. Without
    `follow` nothing but us has touched the source and the tree since the last
    time: to look at all their files takes two seconds.
    """
    host.need("patch")
    chosen = everything = items(root)
    if only is not None:
        only = set(only)
        unknown = only - {item.path for item in chosen}
        if unknown:
            raise UserError(f"{sorted(unknown)[0]} is not in the tree")
        chosen = [item for item in chosen if item.path in only]
    wanted = _wanted(src, root, chosen, to_come(everything, chosen), absent)
    laid = Tree(tree, src)
    made = not laid.manifest
    laid.begin()
    if follow and not made:
        laid.follow_source()
    laid.lay(wanted)
    laid.save()
    return sorted(laid.changed)
