# SPDX-License-Identifier: GPL-2.0
"""The tree as patch series: `make series`.

Each folder of overlay/series/ is one series and each file in it one commit,
in the order of their names. `0000-cover` is the cover letter. An entry is

    Subject: ext4: read DAX files without iomap

    Message body, wrapped at 72 to 75 columns.

    Files:
    fs/ext4/dax-read.c
    fs/ext4/Makefile.dax-read.patch

Signed-off-by is added from the git identity. A cover may have two more header
lines: `Requires: OTHER-SERIES` lays that series below this one, and
`Bench: NAME key=value,value ...` chooses the rows of the measured table (a key
is a parameter of the measurement, or `variant`; the word `bare` adds the ratio
without the call and the copy; `;` parts what goes into several tables). In the
cover's body three words are replaced: @BASE@ by the version (and the commit,
where there is one), @TABLE@ by the table from out/bench.json, and @TESTED@ by
the results that lie in out/.

Every file of ours that goes into the kernel belongs to exactly one entry. A
patch of a Makefile may list objects whose source a later entry brings: the line
of an object comes with its source.
Per commit we check that it applies, that what it touches compiles without a
warning, and that checkpatch --strict is content. Then b4 prepares the mails
in out/series/, with a placeholder as addressee.
"""

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from engine import host, lay, objects, reuse, share, source, store
from engine.branch import NOBODY, Branch, check_patch
from engine.entries import COVER, Entry, check_message, complaints, read
from engine.host import UserError
from engine.ktap import Case
from engine.lay import Item
from engine.mails import Mails, mail_complaints, withhold
from engine.source import Source

PACKAGES = ("git", "perl", "patch", "gcc", "make", "ccache", "codespell",
            "python3-ply", "python3-git")
DOCS = ("Documentation/",)
# Our items by their path in this tree.
Items = dict[str, Item]


# -- what each commit must hold ---------------------------------------------

def goals(targets: Sequence[str], everything: Iterable[str]) -> list[str]:
    """What to compile for a commit that touches these files."""
    own = [objects.object_of(name) for name in targets
           if objects.is_kernel_c(name)]
    folders = {folder for name in targets
               if (folder := objects.folder_of(name))}
    headers = any(name.startswith("include/") for name in targets)
    if headers and not own and not folders:
        own = [objects.object_of(name) for name in everything
               if objects.is_kernel_c(name)]
    return sorted(folders) + sorted(set(own))


def read_by(wanted: list[str], items: list[Item]) -> list[Item]:
    """Those of our items that compiling these goals can read.

    A C file of the kernel is read by nothing outside its folder.
    """
    folders = tuple(goal if goal.endswith("/") else
                    f"{PurePosixPath(goal).parent}/" for goal in wanted)
    return [item for item in items if not objects.is_kernel_c(item.target)
            or item.target.startswith(folders)]


def selftest_folders(targets: Sequence[str]) -> list[str]:
    """The selftest folders that a commit touches.

    What is below one of them, such as modules, is built by it.
    """
    folders = {PurePosixPath(*PurePosixPath(name).parts[3:-1])
               for name in targets if objects.is_selftest(name)}
    folders.discard(PurePosixPath("."))
    return sorted(str(name) for name in folders
                  if name.parent not in folders)


def _kconfig(targets: Sequence[str]) -> bool:
    """Whether one of these files says what options there are."""
    return any("Kconfig" in PurePosixPath(name).name for name in targets)


class Builder:
    """Builds, commit by commit, what each of them touches."""

    def __init__(self, kernel: Source, log: Path) -> None:
        self.shop = objects.Shop(kernel, log)
        self.laid: list[Item] = []
        self.configured = False
        self.when: str | None = None

    def start(self, entries: list[Entry], items: Items) -> None:
        """Begin with what lies below the series."""
        self.laid = [items[file] for entry in entries for file in entry.files]

    def check(self, entry: Entry, items: Items) -> list[str]:
        """Complaints of compiling what this commit touches.

        `when` tells when it was compiled, if that was not now: the same files
        compile the same way.
        """
        mine = [items[file] for file in entry.files]
        targets = [item.target for item in mine]
        # Only tests are compiled with what lies in tools/.
        apart = DOCS if selftest_folders(targets) else (*DOCS, "tools/")
        everything = [item for item in (*self.laid, *mine)
                      if not item.target.startswith(apart)]
        wanted = goals(targets, [item.target for item in everything])
        key = objects.key(read_by(wanted, everything), targets,
                          reuse.versions(share.PACKAGES))
        kept = store.take("commit", key)
        self.when = kept.when if kept else None
        if not kept:
            complaints = self.build(entry, items)
            if not complaints:
                store.keep("commit", key, ())
            return complaints
        store.counted(1)
        self.laid += mine
        if _kconfig(targets):
            self.configured = False
        return []

    def build(self, entry: Entry, items: Items) -> list[str]:
        """Compile what this commit touches, and say what is wrong with it."""
        mine = [items[file] for file in entry.files]
        self.laid += mine
        targets = [item.target for item in mine]
        self.shop.lay(self.laid)
        wanted = goals(targets, [item.target for item in self.laid])
        complaints = self._kernel(wanted, targets) if wanted else []
        for folder in selftest_folders(targets):
            complaints += self._selftest(folder)
        return complaints

    def _configure(self, targets: Sequence[str]) -> None:
        """Configure at first, and whenever the options change."""
        if _kconfig(targets) or not self.configured:
            self.shop.configure()
            self.configured = True

    def _kernel(self, wanted: list[str], targets: Sequence[str]) -> list[str]:
        self._configure(targets)
        return self.shop.complaints(wanted, self.laid, "W=1")

    def _selftest(self, folder: str) -> list[str]:
        at = self.shop.tree / "tools/testing/selftests" / folder
        if not (at / "Makefile").exists():
            return []               # a fragment of upstream's list of tests
        self._configure(())
        done = self.shop.selftest(folder)
        complaints = list(objects.warnings(done.stdout).values())
        if done.returncode and not complaints:
            complaints = [objects.first_error(done.stdout)]
        return complaints


def unmaintained(text: str, files: list[str]) -> list[str]:
    """Which of these new files no section of MAINTAINERS names."""
    patterns = []
    section = ""
    previous = ""
    for line in text.splitlines():
        if re.match(r"[A-Z]:\s", line):
            if not re.match(r"[A-Z]:\s", previous):
                section = previous
            if line[0] in "FN" and section.strip() != "THE REST":
                patterns.append((line[0], line[2:].strip()))
        previous = line
    return [file for file in files
            if not any(_covers(kind, pattern, file)
                       for kind, pattern in patterns)]


def _covers(kind: str, pattern: str, file: str) -> bool:
    """Whether one F: or N: line of MAINTAINERS means a file."""
    if kind == "N":
        return re.search(pattern, file) is not None
    if pattern.endswith("/"):
        depth = pattern.count("/")
        folder = "/".join(file.split("/")[:depth]) + "/"
        return file.count("/") >= depth and fnmatchcase(folder, pattern)
    return file.count("/") == pattern.count("/") and fnmatchcase(file, pattern)


# -- make series ------------------------------------------------------------

def _case(name: str, complaints: Iterable[str]) -> Case:
    """One check with its complaints, none of which means it passed."""
    complaints = list(complaints)
    return Case(name, "fail" if complaints else "pass", "\n".join(complaints))


def _new_files(entry: Entry, items: Items, kernel: Source) -> list[str]:
    return [items[file].target for file in entry.files
            if items[file].kind == "file"
            and not (kernel.path / items[file].target).exists()]


def check_commit(branch: Branch, builder: Builder,
                 entry: Entry) -> tuple[list[Case], bool]:
    """The cases of one commit; UserError when it does not even apply."""
    name = f"{branch.series.name} {entry.name}"
    items = branch.items
    cases = []
    try:
        branch.commit(entry)
    except UserError as error:
        return [Case(f"{name}: applies", "fail", str(error))], False
    cases.append(Case(f"{name}: applies", "pass"))
    patch, = branch.patches(branch.path / ".git" / "patches", "HEAD~")
    cases.append(_case(f"{name}: checkpatch --strict",
                       check_patch(branch, patch)))
    cases.append(_case(f"{name}: message", check_message(entry)))
    maintainers = (branch.path / "MAINTAINERS").read_text(encoding="utf-8")
    lost = unmaintained(maintainers,
                        _new_files(entry, items, branch.kernel))
    cases.append(_case(f"{name}: MAINTAINERS covers the new files",
                       (f"no section names {file}" for file in lost)))
    if any(not items[file].target.startswith(DOCS) for file in entry.files):
        complaints = builder.check(entry, items)
        compiled = [_case(f"{name}: compiles without a warning", complaints)]
        cases += store.mark(compiled, builder.when) if builder.when \
            else compiled
    else:
        builder.laid += [items[file] for file in entry.files]
    return cases, True


def check_series(branch: Branch, builder: Builder) -> list[Case]:
    """The cases of one series, commit by commit, then its mails."""
    series = branch.series
    branch.grow()
    builder.start([entry for lower in branch.lower
                   for entry in lower.entries], branch.items)
    cases = [_case(f"{series.name} {COVER}: message",
                   check_message(series.cover))]
    for number, entry in enumerate(series.entries, 1):
        title = f"{series.name} {number}/{len(series.entries)}: " \
                f"{entry.subject}"
        with host.step(title):
            new, applied = check_commit(branch, builder, entry)
        cases += new
        for case in new:
            if case.status == "fail":
                host.say(f"    {case.name}: {case.detail.splitlines()[0]}")
        if not applied:
            return [*cases, Case(
                f"{series.name}: the rest", "fail",
                "NOT RUN: a commit before it does not apply")]
    return cases + check_mails(branch)


def check_mails(branch: Branch) -> list[Case]:
    """The cases of b4 on a finished branch."""
    name = branch.series.name
    out = host.OUT / "series" / name
    with host.step(f"{name}: mails in {host.short(out)}"):
        mails = Mails(branch, out)
        cases = []
        for title, what in (("b4 prep", mails.prepare),
                            ("b4 prep --check", mails.check)):
            try:
                cases.append(_case(f"{name}: {title}", what()))
            except UserError as error:
                return [*cases, Case(f"{name}: {title}", "fail", str(error))]
        written = mails.write()
        # A patch alone is one mail: b4 puts the cover below its message.
        patches = len(branch.series.entries)
        complaints = list(mail_complaints(
            written, patches + 1 if patches > 1 else 1, branch.who[1],
            branch.kernel.is_git))
        cases.append(_case(f"{name}: mails go to nobody",
                           withhold(written, complaints)))
        _note_addressee(branch)
    return cases


def _note_addressee(branch: Branch) -> None:
    host.say(f"    branch b4/{branch.series.name} in {branch.path}")
    if branch.who[1] == NOBODY:
        host.say("    git has no user.name and user.email: set them before "
                 "you send this")


def main(args: list[str]) -> list[Case]:
    """Lay every series as a git branch, check it and write its mails."""
    host.need(*PACKAGES)
    everything = read()
    items = lay.items()
    cases = [_case("every file is in exactly one entry", complaints(
        everything, [item.path for item in items]))]
    if not everything:
        cases.append(Case("series", "fail", "overlay/series is empty"))
    if any(case.status == "fail" for case in cases):
        return cases
    wanted = set(args)
    kernel = source.kernel()
    log = host.fresh("series") / "log"
    for series in everything:
        if not wanted or series.name in wanted:
            branch = Branch(series, everything, kernel, items, log)
            cases += check_series(branch, Builder(kernel, log))
    return cases
