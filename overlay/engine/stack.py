# SPDX-License-Identifier: GPL-2.0
"""The mails: overlay/series as it is stored.

`order` lists the series in stacking order. Each directory is one series: the
cover letter 0000-cover, and the mails as `git format-patch --zero-commit
--no-signature` writes them. `git am` of all mails in this order yields the tree form.

A cover is written by hand. Its first lines are headers: `Subject:`, and optionally
`Prefix:`, which is RFC for one, `Requires:`, which names other series, and `Bench:`,
which selects rows of the measured table. mails.py replaces @BASE@, @TABLE@
and @TESTED@ in the text.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from engine import host, repository
from engine.host import UserError

FOLDER = host.ROOT / "overlay" / "series"
ORDER = "order"
COVER = "0000-cover"
WIDTH = 75
# Each cover has a line that begins with each of these.
PARTS = ("Tested", "To repeat", "Changes")
FORMAT = ("format-patch", "--zero-commit", "--no-signature", "--quiet")
# A line of `git show --numstat`, and the limits of one patch.
COUNT = re.compile(r"(\d+)\t(\d+)\t(\S+)")
CODE, TESTS = 600, 900
REASON = re.compile(r"\bis one\s+patch\b")
TEST = re.compile(r"^tools/testing/|/tests/|[-_]k?(?:unit|test)\.[ch]$|"
                  r"^lib/(?:tests/|test_)")


@dataclass(frozen=True)
class Cover:
    """A cover letter."""

    subject: str
    body: str
    headers: dict[str, str]


@dataclass
class Series:
    """One series: its cover and its mails, in order."""

    name: str
    cover: Cover
    mails: list[Path] = field(default_factory=list)


def order(folder: Path = FOLDER) -> list[str]:
    """Return the names of all series in stacking order."""
    try:
        text = (folder / ORDER).read_text("utf-8")
    except FileNotFoundError:
        raise UserError("overlay/series/order, the list of all series, is missing") \
            from None
    names = [line.strip() for line in text.splitlines()
             if line.strip() and not line.startswith("#")]
    there = {path.name for path in folder.iterdir() if path.is_dir()}
    for name in names:
        if name not in there:
            raise UserError(f"overlay/series/order lists {name}, and there is no "
                            f"directory overlay/series/{name}")
    for name in sorted(there - set(names)):
        raise UserError(f"overlay/series/{name} is not listed in overlay/series/order")
    if len(set(names)) != len(names) or not names:
        raise UserError("overlay/series/order lists a series twice, or none")
    return names


def read_cover(path: Path) -> Cover:
    """Read a cover letter."""
    where = f"{path.parent.name}/{path.name}"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"overlay/series/{where} is missing") from None
    head, _, body = text.partition("\n\n")
    headers = {}
    for line in head.splitlines():
        key, colon, value = line.partition(":")
        if not colon or not value.strip():
            raise UserError(f"{where}: '{line}' is not a header such as "
                            "'Subject: fs: add a test'")
        headers[key.lower()] = value.strip()
    subject = headers.pop("subject", None)
    if subject is None or not body.strip():
        raise UserError(f"{where}: a line 'Subject:' and a text are required")
    return Cover(subject, body.strip() + "\n", headers)


def read(folder: Path = FOLDER) -> list[Series]:
    """Return all series in stacking order."""
    found = []
    for name in order(folder):
        mails = sorted((folder / name).glob("[0-9]*.patch"))
        if [int(path.name[:4]) for path in mails] != list(range(1, len(mails) + 1)):
            raise UserError(f"overlay/series/{name}: the mails are not numbered 0001, "
                            "0002 and so on")
        found.append(Series(name, read_cover(folder / name / COVER), mails))
    return found


def digest(everything: Iterable[Series]) -> str:
    """Return a digest of all mails and their order."""
    text = "".join(f"{series.name}/{path.name}\n{path.read_text('utf-8')}"
                   for series in everything for path in series.mails)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass
class Stack:
    """The commits of all series on one base."""

    base: str
    # The last commit of each series, by its name, in stacking order.
    tips: dict[str, str]

    @property
    def top(self) -> str:
        return list(self.tips.values())[-1]

    def below(self, name: str) -> str:
        """Return the commit that a series is stacked on."""
        names = list(self.tips)
        at = names.index(name)
        return self.tips[names[at - 1]] if at else self.base

    def commits(self, name: str) -> list[str]:
        """Return the commits of one series, the first one first."""
        return repository.git("rev-list", "--reverse",
                              f"{self.below(name)}..{self.tips[name]}").split()


def apply(everything: list[Series], base: str, path: Path) -> Stack:
    """Apply all mails with git am in a work tree of the engine's own.

    Committer and date come from the mails, so the same mails yield the same commits.
    """
    repository.checkout(path, base, force=True)
    repository.run("am", "--abort", at=path, check=False)
    repository.run("clean", "-ffdq", at=path)
    tips = {}
    for series in everything:
        if series.mails:
            done = repository.run(
                "am", "--quiet", "--3way", "--no-gpg-sign",
                "--committer-date-is-author-date", *series.mails, at=path, check=False,
                env={"GIT_COMMITTER_NAME": "overlay",
                     "GIT_COMMITTER_EMAIL": repository.NOBODY})
            if done.returncode:
                raise UserError(f"git am of overlay/series/{series.name} fails: "
                                f"{_why(done.stdout)}")
        tips[series.name] = repository.git("rev-parse", "HEAD", at=path)
    return Stack(base, tips)


def _why(text: str) -> str:
    found = re.search(r"^Patch failed at (\d+) (.*)$", text, re.MULTILINE)
    conflict = re.search(r"^(?:CONFLICT|error:) .*$", text, re.MULTILINE)
    return "; ".join(part for part in (
        f"patch {found[1]}, {found[2]}" if found else "",
        conflict[0] if conflict else "") if part) or "see the log"


def format_mails(stack: Stack, name: str, into: Path) -> list[Path]:
    """Write the mails of one series as they are stored."""
    host.remove(into)
    into.mkdir(parents=True)
    repository.run(*FORMAT, "-o", into, f"{stack.below(name)}..{stack.tips[name]}")
    return sorted(into.glob("*.patch"))


def check_message(subject: str, body: str) -> Iterator[str]:
    """Yield errors in the form of a message."""
    if len(subject) > WIDTH:
        yield f"the subject has more than {WIDTH} columns"
    if not re.match(r"[\w/ .,-]+: \S", subject):
        yield "the subject names no subsystem before a colon"
    for number, line in enumerate(body.splitlines(), 1):
        if len(line) > WIDTH and " " in line.strip() and not re.match(
                r"\s|[\w-]+: ", line):
            yield f"line {number} of the message has more than {WIDTH} columns"


def check_cover(cover: Cover) -> Iterator[str]:
    """Yield missing parts of a cover letter."""
    for part in PARTS:
        if not re.search(rf"^{part}\b[^:]*:", cover.body, re.MULTILINE):
            yield f"no line of the cover begins with '{part}' and has a colon"
    if "\n---\n" in f"\n{cover.body}\n":
        yield "a line '---' would end the letter there"


def check_size(numstat: str, message: str) -> Iterator[str]:
    """Yield an error if a patch is too large and its message gives no reason."""
    found = [(target, int(more) + int(less))
             for more, less, target in COUNT.findall(numstat)]
    code = sum(lines for target, lines in found if not TEST.search(target))
    total = sum(lines for _, lines in found)
    over = code > CODE or total > TESTS
    reason = REASON.search(message) is not None
    if over and not reason:
        yield (f"it changes {code} lines of code (limit {CODE}) and {total} in all "
               f"(limit {TESTS}); the message must say why it 'is one patch'")
    if reason and not over:
        yield "its message says why it is one patch, and it is small enough"
