# SPDX-License-Identifier: GPL-2.0
"""Static checks of everything in the tree: `make lint`.

Each pair of a tool and a file (or a patch of a series) is one case. A tool
that cannot run is a failing case that says NOT RUN and why.

What the kernel's own tools say of upstream's text is not ours: for a file
that we only patch, what they say without the patch is taken away.
"""

import copy
import os
import re
import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from bench import tables
from engine import (
    branch,
    host,
    ktap,
    lay,
    modular,
    objects,
    packages,
    reuse,
    rules,
    source,
    store,
)
from engine.checkpatch import ASKED_APART
from engine.host import UserError
from engine.ktap import FAIL, PASS, Case
from engine.lay import Item
from engine.source import Source

PACKAGES = ("binutils", "gcc", "grep", "make", "git", "perl", "ccache",
            "shellcheck", "codespell", "python3-ply", "python3-git",
            *objects.ARM64.packages)
PYTHON = packages.PYTHON
ENGINE = ("overlay/engine/", "overlay/bench/")
# W=1 without kernel-doc, which has a checker of its own that asks it for more, of
# the same files and once.
W1 = ("W=1", "cmd_checkdoc=")


class Job:
    """What all the checks work on."""

    def __init__(self, out: Path) -> None:
        self.out = Path(out)
        self.log = self.out / "log"
        self.files = rules.files(host.ROOT)
        self.items = lay.items()
        self.kernel = source.kernel()
        self.shop = objects.Shop(self.kernel, self.log)
        # Held while the tree is laid without our files, and while it must not be.
        self.laying = threading.Lock()

    def beside(self, log: str) -> "Job":
        """The same, for tools beside others: with a log of their own."""
        job = copy.copy(self)
        job.log = self.out / log
        return job

    def run(self, cmd: Sequence[object], cwd: Path | None = None,
            env: Mapping[str, str] | None = None,
            what: str | None = None) -> host.Done:
        """Run a checker; what it found is in its output."""
        return host.run(cmd, cwd=cwd or host.ROOT, env=env, log=self.log,
                        check=False, what=what)

    def compiled(self) -> list[Item]:
        """Items that become kernel objects, and the headers beside them."""
        return [item for item in self.items
                if objects.is_kernel_c(item.target)
                or (item.target.endswith(".h")
                    and not item.target.startswith("tools/"))]


def _case(tool: str, name: str, complaints: Iterable[str]) -> Case:
    complaints = [line for line in complaints if line.strip()]
    return Case(f"{tool}: {name}", FAIL if complaints else PASS, "\n".join(complaints))


def _not_run(tool: str, why: str) -> Case:
    return Case(tool, FAIL, f"NOT RUN: {why}")


# -- patches ----------------------------------------------------------------

def checkpatch(job: Job) -> Iterator[Case]:
    """checkpatch --strict on every patch of every series."""
    pairs = [(grown, patch) for grown, patches in branch.grown(job.log)
             for patch in patches]
    # The longest first, so that none is left to be checked alone at the end.
    order = sorted(pairs, key=lambda pair: -pair[1].stat().st_size)
    found = dict(zip((patch for _, patch in order),
                     branch.each(branch.check_patch, order), strict=True))
    for grown, patch in pairs:
        yield _case("checkpatch", f"{grown.series.name}/{patch.name}",
                    found[patch])
    if not pairs:
        yield _not_run("checkpatch", "overlay/series holds no patch")


def obsolete(job: Job) -> Iterator[Case]:
    """Whether MAINTAINERS calls a file that we touch obsolete.

    checkpatch asks that for each patch, and is kept from it (checkpatch.py).
    """
    names = _laid(job)
    if _is_obsolete(job, names):
        for name in names:
            yield _case("obsolete", name, ("MAINTAINERS calls it obsolete",)
                        if _is_obsolete(job, [name]) else ())
    else:
        yield _case("obsolete", f"none of {len(names)} files", ())


def _laid(job: Job) -> list[str]:
    """The files of the tree that we change, and of each folder one that we add."""
    found = {item.target if item.kind == "patch" else str(Path(item.target).parent):
             item.target for item in _once(job.items)
             if (job.shop.tree / item.target).exists()}
    return sorted(found.values())


def _is_obsolete(job: Job, names: list[str]) -> bool:
    done = job.run([f"scripts/{ASKED_APART}", "--status", "--nom", "--nol",
                    "--no-git", "--no-git-fallback", "-f", *names],
                   cwd=job.shop.tree, what=ASKED_APART)
    if done.returncode:
        raise UserError(f"{ASKED_APART} failed: "
                        f"{host.complaint(done.stdout)}")
    return "obsolete" in done.stdout.lower()


# -- the compiler and sparse ------------------------------------------------

def w1(job: Job) -> Iterator[Case]:
    """The compiler's W=1 on what we touch."""
    items = job.compiled()
    wanted = _objects(items)
    job.shop.forget(wanted)
    yield from _compiled(job, "W=1", items, wanted, W1)


def sparse(job: Job) -> Iterator[Case]:
    """sparse on what we touch."""
    program = find_sparse(job.kernel, job.log)
    items = job.compiled()
    wanted = _objects(items)
    # The flags are those of W=1: the objects are there, and only the
    # checker speaks.
    yield from _compiled(job, "sparse", items, wanted,
                         [*W1, objects.CHECKED, f"CHECK={program}"])


def arm64(job: Job) -> Iterator[Case]:
    """The compiler's W=1 for another architecture."""
    yield from _elsewhere(job, objects.ARM64)


def i386(job: Job) -> Iterator[Case]:
    """The same where a long has 32 bits."""
    yield from _elsewhere(job, objects.I386)


def _elsewhere(job: Job, arch: objects.Arch) -> Iterator[Case]:
    """W=1 on what we touch, for an architecture that is only compiled for."""
    items = [item for item in job.compiled() if arch.has(item.target)]
    job = copy.copy(job)
    job.shop = job.shop.elsewhere(arch)
    job.shop.configure()
    wanted = _objects(items)
    job.shop.forget(wanted)
    yield from _compiled(job, arch.name, items, wanted, W1)


def _objects(items: list[Item]) -> list[str]:
    return sorted({objects.object_of(item.target) for item in items
                   if item.target.endswith(".c")})


def _make(job: Job, wanted: list[str], args: Sequence[str]) -> host.Done:
    return job.shop.make(*args, "-k", *wanted, check=False, progress=True,
                         what=f"make {' '.join(args)}")


def _compiled(job: Job, tool: str, items: list[Item], wanted: list[str],
              args: Sequence[str]) -> Iterator[Case]:
    """One case for each file that is compiled or included."""
    if not wanted:
        yield _not_run(tool, "the tree has no C file for the kernel")
        return
    text = _make(job, wanted, args).stdout
    if "is not available or not up to date" in text:
        raise UserError("make says that its checker is too old")
    targets = sorted({item.target for item in items})
    found = objects.warnings(text, targets)
    _take_away(job, found, items, wanted, args)
    for target in targets:
        complaints = [line for (name, _), line in found.items() if name == target]
        yield _case(tool, target, complaints or _unseen(job, tool, target, text,
                                                        wanted))


def _take_away(job: Job, found: dict[tuple[str, str], str], items: list[Item],
               wanted: list[str], args: Sequence[str]) -> None:
    """Drop what upstream's text says without our patches."""
    if not objects.of_upstream(found, items):
        return
    with job.laying:
        job.shop.take_away(found, job.items, wanted, *args)
        job.shop.lay()
    _make(job, wanted, W1)


def _unseen(job: Job, tool: str, target: str, text: str,
            wanted: list[str]) -> list[str]:
    """Why silence about a file is no good sign, if it is not."""
    if target.endswith(".h"):
        if not _included(job, target, wanted):
            return ["NOT RUN: no file of ours that is compiled includes it"]
        return []
    if not (job.shop.build / objects.object_of(target)).exists():
        return [f"it did not compile: {objects.first_error(text)}"]
    if tool == "sparse" and objects.unread(text, target):
        return ["NOT RUN: make did not call sparse for it"]
    return []


def _included(job: Job, target: str, wanted: list[str]) -> bool:
    """Whether one of these objects was compiled with a header."""
    for name in wanted:
        path = job.shop.build / name
        noted = path.with_name(f".{path.name}.cmd")
        if noted.exists() and re.search(rf"[/\s]{re.escape(target)}\b",
                                        noted.read_text(encoding="utf-8")):
            return True
    return False


def _valid(kernel: Source, log: Path, program: Path | str) -> bool:
    """Whether the kernel takes this sparse for new enough.

    make only warns and goes on without it when it does not.
    """
    done = host.run(["sh", kernel.path / "scripts" / "checker-valid.sh", program],
                    log=log, check=False, what="trying sparse")
    return done.stdout.strip().endswith("1")


def _built_sparse() -> Path:
    return host.WORK / "tools" / "sparse-source" / "sparse"


def has_sparse() -> bool:
    """Whether there is a sparse, which may be too old all the same."""
    return shutil.which("sparse") is not None or _built_sparse().exists()


def find_sparse(kernel: Source, log: Path) -> Path | str:
    """A sparse that is new enough, built from Debian's newer source if not."""
    found = shutil.which("sparse")
    if found and _valid(kernel, log, found):
        return found
    built = _built_sparse()
    if built.exists() and _valid(kernel, log, built):
        return built
    with host.step("building a newer sparse than this Debian's"):
        folder = source.debian_source("sparse")
        host.run(["make", f"-j{host.jobs()}", "CC=gcc", "sparse"],
                 cwd=folder, log=log, what="building sparse")
    if not _valid(kernel, log, folder / "sparse"):
        raise UserError("the newest sparse that Debian offers is too old for "
                        f"Linux {kernel.version}")
    return folder / "sparse"


def modules(job: Job) -> Iterator[Case]:
    """The kernel has exported all that our code needs as modules."""
    shop = objects.Shop(job.kernel, job.log, "modular", modular.CONFIGS)
    for name, complaints in modular.missing(shop):
        yield _case("modules", name, complaints)


# -- comments and licences --------------------------------------------------

def kernel_doc(job: Job) -> Iterator[Case]:
    """kernel-doc -Wall on our files, and what we add to others'."""
    items = list(_once(job.compiled()))
    with job.laying:
        found = branch.each(_undocumented, [(job, item) for item in items])
    for item, complaints in zip(items, found, strict=True):
        yield _case("kernel-doc", item.target, complaints)


def _undocumented(job: Job, item: Item) -> list[str]:
    """What kernel-doc says of a file, and not of what upstream has there."""
    complaints = _kernel_doc(job, job.shop.tree, item.target)
    if complaints and item.kind == "patch":
        before = _kernel_doc(job, job.kernel.path, item.target)
        complaints = {key: line for key, line in complaints.items()
                      if key not in before}
    return list(complaints.values())


def _once(items: list[Item]) -> Iterable[Item]:
    """Each target once."""
    return {item.target: item for item in items}.values()


def _kernel_doc(job: Job, tree: Path, target: str) -> dict[str, str]:
    """What kernel-doc says of a file, by text without line numbers."""
    tool = tree / "tools" / "docs" / "kernel-doc"
    if not tool.exists():
        tool = tree / "scripts" / "kernel-doc"
    interpreter = [PYTHON] if b"python" in _first_line(tool) else []
    done = job.run([*interpreter, tool, "-none", "-Wall", target], cwd=tree,
                   what="kernel-doc")
    found = {}
    for line in done.stdout.splitlines():
        match = re.match(r"(?:(?:warning|error|info): *)?\S+?:(\d+):? (.*)",
                         line, re.IGNORECASE)
        if match and "Scanning" not in line:
            found[match.group(2)] = line
    if done.returncode and not found:
        found[done.stdout] = done.stdout.strip() or "kernel-doc failed"
    return found


def _first_line(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.readline()


def spdxcheck(job: Job) -> Iterator[Case]:
    """The kernel's spdxcheck on all that can carry a licence line."""
    repo = job.out / "spdx"
    script = _spdx_repository(job, repo)
    names = [name for name in job.files
             if rules.carries_licence(host.ROOT / name)]
    yield from _together(job, "spdxcheck", [PYTHON, script], names, cwd=repo)
    host.remove(repo)


def _together(job: Job, tool: str, cmd: Sequence[object], names: list[str],
              cwd: Path | None = None) -> Iterator[Case]:
    """One run of a checker for all files; a case for each of them.

    Its lines are taken to begin with the file's name and a colon.
    """
    if not names:
        return
    paths = [host.ROOT / name for name in names]
    done = job.run([*cmd, *paths], cwd=cwd, what=tool)
    text = done.stdout.replace(f"{host.ROOT}/", "")
    found: dict[str, list[str]] = {name: [] for name in names}
    for line in text.splitlines():
        name = line.partition(":")[0]
        if name in found:
            found[name].append(line)
    if done.returncode and not any(found.values()):
        why = text.strip().splitlines()[-1:] or ["it said nothing"]
        raise UserError(f"{tool} failed: {why[0][:200]}")
    for name, complaints in found.items():
        yield _case(tool, name, complaints)


def _spdx_repository(job: Job, repo: Path) -> Path:
    """spdxcheck reads the licences from a git repository it stands in."""
    scripts = repo / "scripts"
    scripts.mkdir(parents=True)
    for name in ("spdxcheck.py", "spdxexclude"):
        shutil.copy(job.kernel.path / "scripts" / name, scripts)
    shutil.copytree(job.kernel.path / "LICENSES", repo / "LICENSES")
    for args in (["init", "-q"], ["add", "-f", "."],
                 ["commit", "-q", "--no-verify", "-m", "licences"]):
        host.run(["git", "-c", "user.name=lint", "-c",
                  f"user.email={branch.NOBODY}", *args], cwd=repo,
                 log=job.log, env={"GIT_CONFIG_GLOBAL": "/dev/null"},
                 what="making spdxcheck's repository")
    return scripts / "spdxcheck.py"


# -- scripts, Python, spelling ----------------------------------------------

def shellcheck(job: Job) -> Iterator[Case]:
    """shellcheck on every shell script."""
    names = [name for name in job.files if rules.is_shell(host.ROOT / name)]
    # SC2317 takes every function that is called by a name in a variable, as
    # tests are, for unreachable.
    yield from _together(job, "shellcheck", [
        "shellcheck", "-x", "-P", "SCRIPTDIR", "-e", "SC2317", "-f", "gcc"],
        names)


def ruff(job: Job) -> Iterator[Case]:
    """ruff on every Python file."""
    names = [name for name in job.files if rules.is_python(host.ROOT / name)]
    yield from _together(job, "ruff", [
        host.pytool("ruff"), "check", "--no-cache", "--quiet", "--config",
        host.ROOT / "overlay" / "ruff.toml", "--output-format", "concise"],
        names)


def mypy(job: Job) -> Iterator[Case]:
    """mypy --strict on the engine; its tests have no types."""
    names = [name for name in job.files if name.startswith(ENGINE)
             and rules.is_python(host.ROOT / name)]
    yield from _together(job, "mypy", [
        host.pytool("mypy"), "--config-file", host.ROOT / "overlay" / "mypy.ini",
        "--cache-dir", host.WORK / "mypy", "--no-error-summary"],
        names, cwd=host.ROOT)


def codespell(job: Job) -> Iterator[Case]:
    """codespell on all text; of a patch only on what it adds."""
    copies = job.out / "spelling"
    for name in job.files:
        text = rules.text_of(host.ROOT / name)
        if text is None:
            continue
        if name.endswith(".patch"):
            text = rules.added(text)
        host.write(copies / name, text)
    ignore = host.ROOT / "overlay" / "exceptions" / "codespell"
    more = ["-I", ignore] if ignore.exists() else []
    done = job.run(["codespell", *more, "."], cwd=copies, what="codespell")
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        match = re.match(r"\./(.+?):\d+: ", line)
        if match:
            found.setdefault(match.group(1), []).append(line[2:])
    if done.returncode and not found:
        raise UserError(f"codespell failed: {done.stdout.strip()[:100]}")
    for path in sorted(copies.rglob("*")):
        if path.is_file():
            name = str(path.relative_to(copies))
            yield _case("codespell", name, found.get(name, ()))
    host.remove(copies)


def own_rules(job: Job) -> Iterator[Case]:
    """The rules of this tree that no other tool knows."""
    known = {address for address in (branch.identity()[1],) if address}
    places = [str(host.ROOT), str(host.WORK), os.path.expanduser("~")]
    for name in job.files:
        text = rules.text_of(host.ROOT / name)
        if text is not None:
            yield _case("rules", name, rules.check(
                name, text, places=places, addresses=known,
                licence=rules.carries_licence(host.ROOT / name)))


def readme_tables(job: Job) -> Iterator[Case]:
    """The rows of README.md's tables are those of overlay/bench/results.json."""
    for name, wrong in tables.check(tables.README.read_text("utf-8"),
                                    tables.results()):
        yield _case("tables", name, wrong)


# -- make lint --------------------------------------------------------------

TOOLS = {
    "rules": own_rules, "tables": readme_tables,
    "shellcheck": shellcheck, "ruff": ruff, "mypy": mypy,
    "codespell": codespell, "spdxcheck": spdxcheck,
    "kernel-doc": kernel_doc, "checkpatch": checkpatch,
    "obsolete": obsolete, "W=1": w1, "sparse": sparse, "arm64": arm64,
    "i386": i386, "modules": modules,
}
NEED_TREE = ("kernel-doc", "obsolete", "W=1", "sparse", "arm64", "i386", "modules")
COMPILE = ("W=1", "sparse")
# These find the tree as it is laid, one after the other.
KEPT = ("obsolete", *COMPILE, "arm64", "i386", "modules")


def _key(job: Job, name: str) -> str | None:
    """What the outcome of a tool that compiles, or asks for long, is kept under."""
    if name not in KEPT:
        return None
    if name == "obsolete":
        asked = job.shop.tree / "scripts" / ASKED_APART
        return store.digest([store.of_file(asked), store.of_file(
            job.shop.tree / "MAINTAINERS"), _laid(job)])
    items = [item for item in job.items if not item.target.startswith(
        ("Documentation/", "tools/"))]
    if name == "modules":
        return objects.key(items, name, modular.files())
    sparse_is = store.of_file(find_sparse(job.kernel, job.log)) \
        if name == "sparse" else None
    return objects.key(items, name, sparse_is, *(
        [reuse.versions(objects.ARM64.packages)] if name == "arm64" else []))


def _once_for_the_same(job: Job, name: str) -> tuple[list[Case], str]:
    """The cases of one tool, and when they came if that was not now.

    Those that compile run once for the same files.
    """
    try:
        key = _key(job, name)
        kept = store.take("lint", key)
        if not kept and name in COMPILE:
            job.shop.configure()
    except UserError as error:
        return [_not_run(name, str(error))], ""
    if kept:
        return store.mark(kept.cases, kept.when), kept.when
    cases = _one(job, name)
    store.keep("lint", key, cases)
    return cases, ""


def _one(job: Job, name: str) -> list[Case]:
    """The cases of one tool; that it cannot run is a case as well."""
    cases = []
    try:
        for case in TOOLS[name](job):
            cases.append(case)
            host.Status.show(case.name)
    except UserError as error:
        cases.append(_not_run(name, str(error)))
    except FileNotFoundError as error:
        cases.append(_not_run(name, f"{error.filename} is not there"))
    return cases or [_not_run(name, "it found nothing to check")]


def _ready(job: Job) -> None:
    """Lay the tree in which things are compiled."""
    with host.step("laying a tree for single objects"):
        job.shop.lay()


class Lines:
    """A line for each tool that is done, in their order, whichever is first."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = list(names)
        self.there: dict[str, str] = {}
        self.lock = threading.Lock()

    def done(self, name: str, text: str) -> None:
        """Say it when all before it were said."""
        with self.lock:
            self.there[name] = text
            while self.names and self.names[0] in self.there:
                host.say(self.there.pop(self.names.pop(0)))


def _timed(job: Job, name: str, unready: str | None, lines: Lines) -> list[Case]:
    """The cases of one tool; says how many there are, and what they took."""
    start, when = time.monotonic(), ""
    if unready and name in NEED_TREE:
        cases = [_not_run(name, unready)]
    else:
        cases, when = _once_for_the_same(job, name)
    took = time.monotonic() - start
    host.took(f"lint: {name}", took)
    kept = f", from the store: same files as at {when}" if when else ""
    lines.done(name, f"    {name}: {ktap.total(cases)} in {host.elapsed(took)}"
               f"{kept}")
    return cases


def main(args: list[str]) -> list[Case]:
    """Run every checker, or those that are named.

    Those that compile are one lane, and the others another beside it: few of them
    keep more than one processor busy, and make does not always do so.
    """
    host.need(*PACKAGES)
    wanted = args or list(TOOLS)
    unknown = set(wanted) - set(TOOLS)
    if unknown:
        raise UserError(f"there is no checker {sorted(unknown)[0]}: "
                        f"{', '.join(TOOLS)}")
    job = Job(host.fresh("lint"))
    unready = None
    if any(name in NEED_TREE for name in wanted):
        try:
            _ready(job)
        except UserError as error:
            unready = str(error)
    lines = Lines(wanted)

    def lane(job: Job, names: list[str]) -> list[list[Case]]:
        return [_timed(job, name, unready, lines) for name in names]

    lanes = [(one, names) for one, names in (
        (job, [name for name in wanted if name in KEPT]),
        (job.beside("texts.log"), [name for name in wanted if name not in KEPT]))
        if names]
    with host.step(f"lint: {len(wanted)} checkers ({host.short(job.out)}/*log)"):
        done = host.at_once(lane, lanes, len(lanes))
    found = {name: cases for (_, names), some in zip(lanes, done, strict=True)
             for name, cases in zip(names, some, strict=True)}
    return [case for name in wanted for case in found[name]]
