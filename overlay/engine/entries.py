# SPDX-License-Identifier: GPL-2.0
"""Reading overlay/series: which files of ours make up which commit.

The format is described in series.py.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from engine import host
from engine.host import UserError

COVER = "0000-cover"
# What a later entry brings to files of earlier ones; see series.py.
WITHOUT = ".without"
WIDTH = 75
# What each cover says for those who decide by it, at the beginning of a line.
PARTS = ("Tested", "To repeat", "Changes")


@dataclass
class Entry:
    """One commit to be."""

    path: Path
    subject: str
    body: str
    files: list[str]
    headers: dict[str, str] = field(default_factory=dict)
    # What takes from files of earlier entries what this one brings: a patch
    # for each file.
    parts: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.path.name


@dataclass
class Series:
    """One series: a cover and its commits, in order."""

    name: str
    cover: Entry
    entries: list[Entry]

    @property
    def requires(self) -> list[str]:
        """The series that this one is laid on, as its cover names them."""
        return re.split(r"[,\s]+", self.cover.headers["requires"]) \
            if "requires" in self.cover.headers else []


def _parts(path: Path) -> dict[str, str]:
    """The patches beside an entry, by the file that each changes."""
    without = path.with_name(path.name + WITHOUT)
    if not without.exists():
        return {}
    found = re.split(r"^(?=--- a/)", without.read_text("utf-8"),
                     flags=re.MULTILINE)
    return {part.split()[1].removeprefix("a/"): part
            for part in found if part.startswith("--- a/")}


def read_entry(path: Path) -> Entry:
    """Read one file of a series."""
    text = path.read_text(encoding="utf-8")
    where = f"{path.parent.name}/{path.name}"
    head, _, rest = text.partition("\n\n")
    headers = {}
    for line in head.splitlines():
        key, colon, value = line.partition(":")
        if not colon or not value.strip():
            raise UserError(f"{where}: '{line}' is no header such as 'Subject: "
                            "fs: do it better'")
        headers[key.lower()] = value.strip()
    subject = headers.pop("subject", None)
    if subject is None:
        raise UserError(f"{where}: the first line has no 'Subject:'")
    body, mark, listed = f"\n{rest}".partition("\nFiles:\n")
    files = [line.strip() for line in listed.splitlines() if line.strip()]
    cover = path.name == COVER
    parts = _parts(path)
    if cover and mark:
        raise UserError(f"{where}: a cover letter carries no files")
    if not cover and not files and not parts:
        raise UserError(f"{where}: it names no files after a line 'Files:'")
    if not body.strip():
        raise UserError(f"{where}: there is no message between the subject and "
                        "the files")
    return Entry(path, subject, body.strip() + "\n", files, headers, parts)


def read_series(folder: Path) -> Series:
    """Read one series."""
    names = sorted(path for path in folder.iterdir()
                   if not host.JUNK.search(path.name))
    for path in names:
        if not re.fullmatch(r"\d{4}-[a-z0-9-]+(\.without)?", path.name):
            raise UserError(f"{folder.name}/{path.name}: an entry's name is four "
                            "digits and a slug, such as 0001-do-it")
        if path.suffix == WITHOUT and not path.with_suffix("").exists():
            raise UserError(f"{folder.name}/{path.name}: there is no entry "
                            f"{path.stem} that it belongs to")
    entries = [read_entry(path) for path in names if path.suffix != WITHOUT]
    covers = [entry for entry in entries if entry.name == COVER]
    commits = [entry for entry in entries if entry.name != COVER]
    if not covers:
        raise UserError(f"{folder.name}: there is no {COVER}")
    if not commits:
        raise UserError(f"{folder.name}: there is a cover but no commit")
    numbers = [int(entry.name[:4]) for entry in commits]
    if numbers != list(range(1, len(numbers) + 1)):
        raise UserError(f"{folder.name}: the entries are not numbered 0001, "
                        "0002 and so on without a gap")
    return Series(folder.name, covers[0], commits)


def read(root: Path | None = None) -> list[Series]:
    """All series, those that others require first."""
    folder = (root or host.ROOT) / "overlay" / "series"
    if not folder.is_dir():
        return []
    found = {path.name: read_series(path)
             for path in sorted(folder.iterdir()) if path.is_dir()}
    for series in found.values():
        for name in series.requires:
            if name not in found:
                raise UserError(f"{series.name}: it requires {name}, which is "
                                "not there")
    return [found[name] for name in _in_order(found)]


def _in_order(found: dict[str, Series]) -> list[str]:
    """The names, each after what it requires."""
    done: list[str] = []
    while len(done) < len(found):
        ready = [name for name, series in found.items()
                 if name not in done
                 and set(series.requires) <= set(done)]
        if not ready:
            raise UserError("the series require one another in a circle: "
                            + ", ".join(sorted(set(found) - set(done))))
        done += ready
    return done


def below(series: Series, everything: list[Series]) -> list[Series]:
    """The series that must be laid before this one, lowest first.

    `everything` has those that others require first.
    """
    wanted = set(series.requires)
    for other in reversed(everything):
        if other.name in wanted:
            wanted |= set(other.requires)
    return [other for other in everything if other.name in wanted]


def complaints(everything: list[Series], paths: Iterable[str]) -> Iterator[str]:
    """Files with no entry or with several, one sentence each."""
    owners: dict[str, list[str]] = {}
    for series in everything:
        for entry in series.entries:
            for file in entry.parts:
                if file not in owners:
                    yield (f"{series.name}/{entry.name}{WITHOUT} changes {file}, "
                           "which no entry before it has")
            for file in entry.files:
                owners.setdefault(file, []).append(
                    f"{series.name}/{entry.name}")
    there = set(paths)
    for file in sorted(there - set(owners)):
        yield f"{file} is in no entry of overlay/series"
    for file, names in sorted(owners.items()):
        if file not in there:
            yield f"{names[0]} names {file}, which is not there"
        elif len(names) > 1:
            yield f"{file} is in two entries: {' and '.join(names)}"


def check_cover(cover: Entry) -> Iterator[str]:
    """What a cover letter does not say, one sentence each."""
    for part in PARTS:
        if not re.search(rf"^{part}\b[^:]*:", cover.body, re.MULTILINE):
            yield f"no line of the cover begins with '{part}' and has a colon"


def check_message(entry: Entry, width: int = WIDTH) -> Iterator[str]:
    """What is wrong with a message's shape, one sentence each."""
    if len(entry.subject) > width:
        yield f"the subject has more than {width} columns"
    if entry.name != COVER and not re.match(r"[\w/ .,-]+: \S",
                                            entry.subject):
        yield "the subject names no subsystem before a colon"
    for number, line in enumerate(entry.body.splitlines(), 1):
        if len(line) > width and " " in line.strip() and not re.match(
                r"\s|[\w-]+: ", line):
            yield f"line {number} of the message has more than {width} columns"
        if re.match(r"signed-off-by:", line, re.IGNORECASE):
            yield "Signed-off-by is added by git, not written in the entry"
