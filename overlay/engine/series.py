# SPDX-License-Identifier: GPL-2.0
"""`make series`: prove that the mails and the tree match, and check each commit.

git am applies all mails to the base, and the result has to be the laid tree, with
the same tree object. git format-patch has to write the stored mails again, byte for
byte. Each commit must be small enough and must compile without a new warning; its
selftests must build. Then b4 prepares the mails in out/series/, with a placeholder
as the recipient.

With the argument `arches` each commit is also compiled for arm64 and i386, and read
by sparse.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from engine import (
    host,
    lay,
    lint,
    mails,
    objects,
    repository,
    share,
    source,
    stack,
    store,
)
from engine.host import UserError
from engine.ktap import Case
from engine.objects import Arch, Shop
from engine.stack import Series, Stack

ARCHES = "arches"
PACKAGES = ("git", "perl", "gcc", "make", "ccache", "codespell", "python3-ply",
            "python3-git")


def case(name: str, complaints: Iterable[str]) -> Case:
    """Return the case of one check, which passes without complaints."""
    complaints = list(complaints)
    return Case(name, "fail" if complaints else "pass", "\n".join(complaints))


def same_tree(commits: Stack, laid: str) -> Iterator[str]:
    """Yield how the commits of the mails differ from the laid tree."""
    if repository.tree_of(commits.top) != repository.tree_of(laid):
        for name in repository.changed(commits.top, laid):
            yield f"{name} differs between the mails and the tree"


def same_mails(commits: Stack, one: Series) -> Iterator[str]:
    """Yield which stored mails git format-patch would write differently."""
    into = host.OUT / "series" / "formatted" / one.name
    written = {path.name: path.read_bytes()
               for path in stack.format_mails(commits, one.name, into)}
    stored = {path.name: path.read_bytes() for path in one.mails}
    for name in sorted(written.keys() | stored.keys()):
        if written.get(name) != stored.get(name):
            yield f"git format-patch does not write {name} as it is stored"


@dataclass(frozen=True)
class Tool:
    """One way to compile a commit."""

    title: str
    version: object
    args: tuple[str, ...] = ("W=1",)
    arch: Arch | None = None


def _tools(log: Path, elsewhere: bool) -> list[Tool]:
    found = [Tool("compiles without a warning", "gcc")]
    if elsewhere:
        program = lint.find_sparse(source.kernel(), log)
        found += [
            *(Tool(f"{arch.name} compiles without a warning",
                   arch.name, arch=arch)
              for arch in (objects.ARM64, objects.I386)),
            Tool("sparse", ("sparse", store.of_file(program)),
                 ("W=1", objects.CHECKED, f"CHECK={program}"))]
    return found


class Builder:
    """Compiles the commits of a stack, one after the other."""

    def __init__(self, commits: Stack, log: Path, elsewhere: bool) -> None:
        self.commits = commits
        self.shop = Shop(log)
        self.tools = _tools(log, elsewhere)
        changed = repository.changed(commits.base, commits.top)
        self.ours = [name for name in changed if objects.is_kernel_c(name)]
        self.patched = [name for name, letter in changed.items() if letter == "M"]
        # Directories of selftests whose programs were built for another header.
        self.headers = ""

    def cases(self, name: str, commit: str) -> Iterator[Case]:
        """Yield the cases of one commit."""
        touched = list(repository.changed(f"{commit}~", commit))
        wanted = objects.goals(touched, self.ours)
        if wanted:
            for tool in self.tools:
                goals = [goal for goal in wanted
                         if not tool.arch or tool.arch.has(goal)]
                if goals:
                    yield self._kernel(name, commit, touched, goals, tool)
        for folder in _selftests(touched):
            yield self._selftest(name, commit, folder)

    def _kernel(self, name: str, commit: str, touched: Sequence[str],
                wanted: list[str], tool: Tool) -> Case:
        folders = {str(PurePosixPath(goal).parent) if not goal.endswith("/")
                   else goal.rstrip("/") for goal in wanted}
        key = objects.key(commit, folders, touched, wanted, tool.version)
        name = f"{name}: {tool.title}"
        shop = self.shop.elsewhere(tool.arch) if tool.arch else self.shop
        return store.once("commit", key, lambda: [case(name, shop.check(
            self.commits.base, commit, wanted,
            [*self.ours, *self.patched, *touched], self.patched, tool.args))])[0]

    def _selftest(self, name: str, commit: str, folder: str) -> Case:
        at = f"{objects.SELFTESTS}/{folder}"
        key = objects.key(commit, [at, "tools/nvme", "tools/include"])
        name = f"{name}: the selftests in {folder} build"
        return store.once("commit", key, lambda: [
            case(name, self._build(commit, folder))])[0]

    def _build(self, commit: str, folder: str) -> list[str]:
        host.need(*share.PACKAGES)
        self.shop.at(commit)
        self.shop.configure()
        tree = repository.git("ls-tree", commit, "--", "include/uapi")
        if self.headers != tree:
            self.shop.headers()
            self.headers = tree
        done = self.shop.selftest(folder)
        complaints = list(objects.warnings(done.stdout).values())
        if done.returncode and not complaints:
            complaints = [objects.first_error(done.stdout)]
        return complaints


def _selftests(touched: Iterable[str]) -> list[str]:
    """Return the directories of our selftests that a commit touches.

    The Makefile of such a directory builds the ones below it.
    """
    found = {PurePosixPath(*PurePosixPath(name).parts[3:-1]) for name in touched
             if name.startswith(f"{objects.SELFTESTS}/")} - {PurePosixPath(".")}
    return sorted(str(path) for path in found if path.parent not in found)


def _read_only(one: Series, commits: Stack) -> Iterator[Case]:
    """Yield the cases of a series that need no compiler."""
    yield case(f"{one.name}: cover", [
        *stack.check_message(one.cover.subject, one.cover.body),
        *stack.check_cover(one.cover)])
    yield case(f"{one.name}: git format-patch writes the stored mails",
               same_mails(commits, one))
    for commit, mail in zip(commits.commits(one.name), one.mails, strict=False):
        subject, _, body = repository.git("log", "-1", "--format=%B", commit).partition(
            "\n")
        numstat = repository.git("show", "--numstat", "--format=", commit)
        yield case(f"{one.name} {mail.name}: message and size", [
            *stack.check_message(subject, body), *stack.check_size(numstat, body)])


def _compiled(one: Series, builder: Builder) -> Iterator[Case]:
    found = builder.commits.commits(one.name)
    for number, commit in enumerate(found):
        name = one.mails[number].name.removesuffix(".patch")
        host.Status.show(f"{one.name} {number + 1}/{len(found)} {name}")
        for result in builder.cases(f"{one.name} {name}", commit):
            if result.status == "fail":
                host.say(f"    {result.name}: {result.detail.splitlines()[0]}")
            yield result


def main(args: list[str]) -> list[Case]:
    """Check the series, or those that are named, and write their mails."""
    elsewhere = ARCHES in args
    host.need(*PACKAGES, *(objects.ARM64.packages if elsewhere else ()))
    everything = stack.read()
    names = [one.name for one in everything]
    wanted = set(args) - {ARCHES}
    unknown = sorted(wanted - set(names))
    if unknown:
        raise UserError(f"there is no series {unknown[0]}: {ARCHES}, "
                        + ", ".join(names))
    mails.check_sender(everything)
    out = host.fresh("series")
    base, laid = repository.base(source.kernel()), lay.current()
    try:
        with host.step(f"git am of {len(everything)} series"):
            commits = stack.apply(everything, base, Shop(out / "log").tree)
    except UserError as error:
        return [Case("git am of all mails", "fail", str(error))]
    cases = [case("git am of all mails yields the laid tree", same_tree(commits, laid))]
    chosen = [one for one in everything if not wanted or one.name in wanted]
    builder = Builder(commits, out / "log", elsewhere)
    with host.step(f"checking {len(chosen)} series ({host.short(out)}/log)"):
        for one in chosen:
            found = [*_read_only(one, commits), *_compiled(one, builder)]
            cases += found
    host.remove(out / "formatted")
    with host.step(f"writing the mails to {host.short(out)}"):
        cases += mails.write(chosen, commits, out)
    return cases
