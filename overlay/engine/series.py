# SPDX-License-Identifier: GPL-2.0
"""The tree as patch series: `make series`.

Each folder of overlay/series/ is one series and each file in it one commit,
in the order of their names. `0000-cover` is the cover letter. An entry is

    Subject: ext4: read DAX files without iomap

    Message body, wrapped at 72 to 75 columns.

    Files:
    fs/ext4/dax-read.c
    fs/ext4/Makefile.dax-read.patch

Signed-off-by is added from the git identity, below what overlay/series/trailers
has for all messages: see sender.py. A cover may have two more header lines:
`Requires: OTHER-SERIES ...` lays these series below this one, and `Bench: NAME
key=value,value ...` chooses the rows of the measured table (a key is a parameter
of the measurement, or `variant`; the word `bare` adds the ratio without the call
and the copy; `;` parts what goes into several tables). In the
cover's body three words are replaced: @BASE@ by the version (and the commit,
where there is one), @TABLE@ by the table from out/bench.json, and @TESTED@ by
the results that lie in out/.

Every file of ours that goes into the kernel belongs to exactly one entry, and
lies in the tree as it is when all series are there. What a later entry adds to a
file of an earlier one is said by a patch beside it, `NNNN-slug.without`, which
takes that away: commits before have the file without it, so that each of them
compiles and does what its message says. An entry that only does so names no
files. A patch of a Makefile may list objects whose source a later entry brings,
and a Makefile of selftests programs: what is made of a file comes with it.

Per commit we check that it applies, that it is not too long (sizes.py), that
what it touches compiles without a warning, that checkpatch --strict is content,
and that get_maintainer.pl knows the new files. With the argument `arches` it is
compiled for arm64 and i386 too, and read by sparse (arches.py). Then b4 prepares
the mails in out/series/, with a placeholder as addressee, and git am makes of them
what was tested (pristine.py).
"""

import contextlib
import queue
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from engine import (
    arches,
    build,
    host,
    lay,
    limits,
    objects,
    pristine,
    reach,
    reuse,
    sender,
    share,
    sizes,
    source,
    store,
)
from engine.branch import Branch, check_patch, identity
from engine.entries import (
    COVER,
    WITHOUT,
    Entry,
    Series,
    check_cover,
    check_message,
    complaints,
    read,
)
from engine.host import UserError
from engine.ktap import Case
from engine.lay import Item
from engine.mails import Mails, mail_complaints, withhold
from engine.source import Source

PACKAGES = ("git", "perl", "patch", "gcc", "make", "ccache", "codespell",
            "python3-ply", "python3-git")
DOCS = ("Documentation/",)
UAPI = "include/uapi/"
GET_MAINTAINER = "scripts/get_maintainer.pl"
# In a Makefile of selftests, a line of what it lists, or of nothing.
LISTS = re.compile(r"(?:TEST_(?:GEN_)?(?:PROGS|PROGS_EXTENDED|FILES)|LOCAL_HDRS)"
                   r"\s*[:+]?=|\s*(?:#.*)?$")
# Our items by their path in this tree.
Items = dict[str, Item]


# -- what each commit must hold ---------------------------------------------

def goals(targets: Sequence[str], everything: Iterable[str]) -> list[str]:
    """What to compile for a commit that touches these files."""
    own = [objects.object_of(name) for name in targets
           if objects.is_kernel_c(name)]
    # A C file of the kernel changes its own object and no other.
    folders = {folder for name in targets if not objects.is_kernel_c(name)
               and (folder := objects.folder_of(name))}
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


def listed(makefile: str) -> set[str]:
    """The programs that a Makefile of selftests lists."""
    return {word for line in re.findall(
        r"^TEST_GEN_(?:PROGS|PROGS_EXTENDED|FILES)\s*[:+]?=(.*)",
        makefile.replace("\\\n", " "), re.MULTILINE) for word in line.split()}


def only_lists(patch: str) -> bool:
    """Whether a patch of such a Makefile changes lists of files and no more."""
    return all(LISTS.match(line[1:]) for line in patch.splitlines()
               if re.match(r"[+-](?!\+\+ |-- )", line))


def _patch_of(entry: Entry, items: Items, file: str) -> str:
    """What a commit changes in a file that is there; nothing if it brings it."""
    if file in entry.parts:
        return entry.parts[file]
    if items[file].kind == "patch":
        return (host.ROOT / file).read_text("utf-8")
    return ""


def programs(entry: Entry, items: Items, folder: str,
             makefile: str) -> list[str] | None:
    """The programs of a folder of selftests that a commit brings or changes.

    None if it changes what others are made of, or brings more than programs.
    """
    at = f"{lay.SELFTESTS}{folder}/"
    if not all(only_lists(_patch_of(entry, items, file))
               for file in (*entry.files, *entry.parts)
               if items[file].target == f"{at}Makefile"):
        return None
    files = [(items[file], file in entry.parts or items[file].kind == "patch")
             for file in (*entry.files, *entry.parts)]
    files = [(item, changed) for item, changed in files
             if item.target.startswith("tools/")
             and item.target.endswith((".c", ".h", "Makefile"))
             and item.target != f"{at}Makefile"]
    if any("/" in item.target.removeprefix(at) for item, _ in files
           if item.target.startswith(at)):
        return None
    found = {PurePosixPath(item.target).stem for item, _ in files
             if item.target.endswith(".c")} & listed(makefile)
    if any(changed and not (item.target.endswith(".c") and
                            PurePosixPath(item.target).stem in found)
           for item, changed in files):
        return None
    return sorted(found)


def shared_objects(entry: Entry, items: Items, folder: str,
                   makefile: str) -> list[str]:
    """What a commit's C files that are no programs of the folder become.

    There may be no program yet that is linked with them.
    """
    paths = {PurePosixPath(target) for target in touched(entry, items)}
    return sorted(f"{path.stem}.o" for path in paths
                  if path.suffix == ".c"
                  and path.parent == objects.SELFTESTS / folder
                  and path.stem not in listed(makefile))


def touched(entry: Entry, items: Items) -> list[str]:
    """The files of the kernel that a commit changes."""
    return [items[file].target for file in (*entry.files, *entry.parts)]


def reached(tree: Path, folder: PurePosixPath, entry: Entry,
            items: Items) -> set[str] | None:
    """The objects of a folder that see what a commit changes beside C files.

    None if that cannot be told: it changes an option, or more than headers and
    names in a Makefile.
    """
    headers, found = [], set()
    for file in (*entry.files, *entry.parts):
        path = PurePosixPath(items[file].target)
        if path.parts[0] == "include":
            return None
        if path.suffix == ".h":
            headers.append(str(path))
            continue
        if objects.is_kernel_c(str(path)) or objects.folder_of(str(path)) is None \
                or build.made_in(tree, path.parent) != folder:
            continue
        patch = _patch_of(entry, items, file) if path.name == "Makefile" else ""
        names = reach.named(patch, folder) if patch else None
        if names is None:
            return None
        found |= names
    return found | reach.readers(tree, folder, headers)


def kernel_doc(targets: Iterable[str]) -> str:
    """A variable of make: of what W=1 compiles, kernel-doc reads these C files alone.

    It has read the others with the commits that changed them.
    """
    names = " ".join(f"%/{name}" for name in targets if objects.is_kernel_c(name))
    return (f"cmd_checkdoc=$(if $(filter {names},$<),PYTHONDONTWRITEBYTECODE=1 "
            "$(PYTHON3) $(KERNELDOC) -none $(KDOCFLAGS) $<)")


def _withouts() -> dict[str, str | None]:
    """All that says what files were before later entries."""
    folder = host.ROOT / "overlay" / "series"
    return store.of_files(sorted(folder.glob(f"*/*{WITHOUT}")), folder)


class Builder:
    """Builds, commit by commit, what each of them touches."""

    def __init__(self, kernel: Source, log: Path,
                 everything: Sequence[Series] = (), place: str = objects.PARTS,
                 tools: Sequence[arches.Tool] = ()) -> None:
        self.shop = objects.Shop(kernel, log, place=place)
        self.tools = tools
        self.everything = everything
        self.withouts = _withouts()
        self.laid: list[Item] = []
        self.done: list[Entry] = []
        # How many of these lie in the tree now.
        self.lying = -1
        # Folders of selftests with programs of this series; whether the headers
        # that they include are there; and whether a commit changed these.
        self.built: set[str] = set()
        self.headers = self.changed = False
        self.when: str | None = None

    def start(self, entries: list[Entry], items: Items) -> None:
        """Begin with what lies below the series."""
        for entry in entries:
            self.add(entry, items)

    def add(self, entry: Entry, items: Items) -> None:
        """One commit more lies there."""
        self.laid += [items[file] for file in entry.files]
        self.done.append(entry)
        self.shop.absent = lay.to_take_away(self.everything, self.done)

    def check(self, entry: Entry, items: Items) -> list[str]:
        """Complaints of compiling what this commit touches.

        `when` tells when it was compiled, if that was not now: the same files
        compile the same way.
        """
        mine = [items[file] for file in entry.files]
        targets = touched(entry, items)
        # Only tests are compiled with what lies in tools/.
        apart = DOCS if selftest_folders(targets) else (*DOCS, "tools/")
        everything = [item for item in (*self.laid, *mine)
                      if not item.target.startswith(apart)]
        wanted = goals(targets, [item.target for item in everything])
        key = objects.key(read_by(wanted, everything), targets,
                          reuse.versions(share.PACKAGES), self.withouts)
        kept = store.take("commit", key)
        self.when = kept.when if kept else None
        if not kept:
            complaints = self.build(entry, items)
            if not complaints:
                store.keep("commit", key, ())
            return complaints
        store.counted(1)
        self.add(entry, items)
        self._follow(targets)
        return []

    def _follow(self, targets: Sequence[str]) -> None:
        """Programs include the headers that the kernel installs, and no others."""
        if any(name.startswith(UAPI) for name in targets):
            self.built.clear()
            self.headers, self.changed = False, True

    def build(self, entry: Entry, items: Items) -> list[str]:
        """Compile what this commit touches, and say what is wrong with it."""
        self.add(entry, items)
        targets = touched(entry, items)
        self._follow(targets)
        self._lay()
        wanted = goals(targets, [item.target for item in self.laid])
        complaints = self._kernel(wanted, entry, items) if wanted else []
        for folder in selftest_folders(targets):
            complaints += self._selftest(folder, entry, items)
        return complaints

    def _lay(self) -> None:
        """Lay all commits so far, unless nothing else was laid since."""
        if self.lying != len(self.done):
            self.shop.lay(self.laid)
        self.lying = len(self.done)

    def elsewhere(self, name: str, entry: Entry, items: Items) -> Iterator[Case]:
        """A case of each tool that compiles the commit that was checked last."""
        targets = touched(entry, items)
        laid = [item for item in self.laid
                if not item.target.startswith((*DOCS, "tools/"))]
        wanted = goals(targets, [item.target for item in laid])
        for tool in self.tools:
            if mine := tool.goals(wanted):
                key = objects.key(read_by(mine, laid), targets, tool.by,
                                  self.withouts)
                yield self._by(tool, f"{name}: {tool.title}", mine, key)

    def _by(self, tool: arches.Tool, title: str, wanted: list[str],
            key: str | None) -> Case:
        """The case of one tool, which compiles the same files once."""
        kept = store.take(tool.kind, key)
        if kept:
            store.counted(1)
            return store.mark([_case(title, ())], kept.when)[0]
        self._lay()
        complaints = tool.complaints(self.shop, wanted, self.laid)
        if not complaints:
            store.keep(tool.kind, key, ())
        return _case(title, complaints)

    def _kernel(self, wanted: list[str], entry: Entry, items: Items) -> list[str]:
        self.shop.configure()
        goals = self._reached(wanted, entry, items)
        # Without a goal make would build a whole kernel.
        return self.shop.complaints(goals, self.laid, "W=1", kernel_doc(
            touched(entry, items))) if goals else []

    def _reached(self, wanted: list[str], entry: Entry, items: Items) -> list[str]:
        """What to compile, with those objects in place of folders that see the commit.

        A folder stays if that cannot be told.
        """
        found = set(wanted)
        for goal in wanted:
            if not goal.endswith("/"):
                continue
            folder = build.made_in(self.shop.tree, goal)
            seen = reached(self.shop.tree, folder, entry, items)
            if seen is not None:
                seen = self.shop.configured(folder, seen)
            if seen is not None:
                found.discard(goal)
                found |= seen
        return sorted(found)

    def _selftest(self, folder: str, entry: Entry, items: Items) -> list[str]:
        makefile = self.shop.tree / lay.SELFTESTS / folder / "Makefile"
        if not makefile.exists():
            return []               # a fragment of upstream's list of tests
        there = folder in self.built
        # What lies below the series was compiled with its own; other headers
        # may break any of it.
        text = makefile.read_text("utf-8")
        only = None if self.changed and not there else programs(
            entry, items, folder, text)
        shared = shared_objects(entry, items, folder, text)
        if (only != [] or shared) and not self.headers:
            self.shop.headers()
            self.headers = True
        done = self.shop.selftest(folder, there, only, shared)
        self.built.add(folder)
        complaints = list(objects.warnings(done.stdout).values())
        if done.returncode and not complaints:
            complaints = [objects.first_error(done.stdout)]
        return complaints


def unmaintained(branch: Branch, files: list[str]) -> list[str]:
    """Which of these new files get_maintainer.pl knows no section for."""
    found = host.at_once(_sections, [(branch, file) for file in files],
                         limits.processors())
    if files and all(kept for _, kept in found):
        store.counted(1)
    return [file for file, (sections, _) in zip(files, found, strict=True)
            if sections <= {"THE REST"}]


def _sections(branch: Branch, file: str) -> tuple[set[str], bool]:
    """The sections of MAINTAINERS that mean a file, and whether they were kept.

    They depend on MAINTAINERS, and on the file, as keywords in it count.
    """
    key = store.digest({"file": file, "read": store.of_files(
        branch.path / name for name in (file, "MAINTAINERS", GET_MAINTAINER))})
    kept = store.take("maintainers", key)
    if kept:
        return set(kept.more), True
    text = host.run([GET_MAINTAINER, "--no-git", "--no-git-fallback",
                     "--sections", "-f", file],
                    cwd=branch.path, log=branch.log, env=branch.env(),
                    what=f"get_maintainer.pl for {file}").stdout
    found = set(re.findall(r"^(?![A-Z]:\s)(\S.*)\n(?=[A-Z]:\s)", text,
                           re.MULTILINE))
    store.keep("maintainers", key, (), sorted(found))
    return found, False


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
    lost = unmaintained(branch, _new_files(entry, items, branch.kernel))
    cases.append(_case(f"{name}: MAINTAINERS covers the new files",
                       (f"no section names {file}" for file in lost)))
    cases.append(_case(f"{name}: size", sizes.complaints(
        branch.git("show", "--numstat", "--format=", "HEAD"), entry.body)))
    if any(not name.startswith(DOCS) for name in touched(entry, items)):
        complaints = builder.check(entry, items)
        compiled = [_case(f"{name}: compiles without a warning", complaints)]
        cases += store.mark(compiled, builder.when) if builder.when \
            else compiled
        cases += builder.elsewhere(name, entry, items)
    else:
        builder.add(entry, items)
    return cases, True


@contextlib.contextmanager
def _said(what: str) -> Iterator[None]:
    """Say of a part of a step, which is not the only one, that it is done."""
    start = time.monotonic()
    yield
    host.took(what, time.monotonic() - start)
    host.say(f"    {what}  {host.elapsed(time.monotonic() - start)}")


def check_series(branch: Branch, builder: Builder) -> list[Case]:
    """The cases of one series, commit by commit, then its mails."""
    series = branch.series
    branch.grow()
    builder.start([entry for lower in branch.lower
                   for entry in lower.entries], branch.items)
    cases = [_case(f"{series.name} {COVER}: message",
                   [*check_message(series.cover),
                    *check_cover(series.cover)])]
    for number, entry in enumerate(series.entries, 1):
        with _said(f"{series.name} {number}/{len(series.entries)}: "
                   f"{entry.subject}"):
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
    with _said(f"{name}: mails in {host.short(out)}"):
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
        if not complaints:
            cases.append(_case(f"{name}: git am", pristine.of_series(
                branch, pristine.patches(out))))
        _note_addressee(branch)
    return cases


def _note_addressee(branch: Branch) -> None:
    host.say(f"    branch b4/{branch.series.name} in {branch.path}")
    if sender.is_stand_in(branch.who[1]):
        host.say(f"    signed by {branch.who[0]}, which is no person: not to be "
                 "sent; see SEND=1 in README.md")


def main(args: list[str]) -> list[Case]:
    """Lay every series as a git branch, check it and write its mails.

    Arguments name some series alone; one of them may be `arches`.
    """
    elsewhere = arches.NAME in args
    host.need(*PACKAGES, *(arches.PACKAGES if elsewhere else ()))
    everything = read()
    items = lay.items()
    cases = [_case("every file is in exactly one entry", complaints(
        everything, [item.path for item in items]))]
    if not everything:
        cases.append(Case("series", "fail", "overlay/series is empty"))
    if any(case.status == "fail" for case in cases):
        return cases
    wanted = set(args) - {arches.NAME}
    unknown = wanted - {series.name for series in everything}
    if unknown:
        raise UserError(f"there is no series {sorted(unknown)[0]}: {arches.NAME}, "
                        + ", ".join(series.name for series in everything))
    sender.check(identity(), items)
    chosen = [series for series in everything
              if not wanted or series.name in wanted]
    cases += _all(chosen, everything, items, elsewhere)
    if not wanted and not any(case.status == "fail" for case in cases):
        with host.step("git am of all mails on a kernel without them"):
            cases.append(_case("git am of all", pristine.Whole(
                source.kernel(), items,
                host.OUT / "series" / "all.log").complaints(everything)))
    return cases


def _all(chosen: list[Series], everything: list[Series], items: list[Item],
         elsewhere: bool = False) -> list[Case]:
    """The cases of some series, in their order; several are made at a time."""
    kernel, out = source.kernel(), host.fresh("series")
    host.pytool("b4")
    tools = arches.tools(kernel, out / "sparse.log") if elsewhere else []
    # Beside a compiler each has git, checkpatch and b4, which wait for each other.
    workers = max(1, min(limits.processors() + 1, len(chosen),
                         limits.memory() // (2 * host.COMPILER_TAKES)))
    places: queue.SimpleQueue[str] = queue.SimpleQueue()
    for number in range(workers):
        places.put(f"{objects.PARTS}-{number}" if number else objects.PARTS)

    def work(series: Series) -> list[Case]:
        place, log = places.get(), out / f"{series.name}.log"
        try:
            return check_series(
                Branch(series, everything, kernel, items, log),
                Builder(kernel, log, everything, place, tools))
        finally:
            places.put(place)

    # The longest first, so that none is left to be made alone at the end.
    order = sorted(chosen, key=lambda series: -len(series.entries))
    with host.step(f"{len(chosen)} series, {workers} at a time "
                   f"({host.short(out)}/*.log)"):
        done = dict(zip((series.name for series in order), host.at_once(
            work, [(series,) for series in order], workers), strict=True))
    return [case for series in chosen for case in done[series.name]]
