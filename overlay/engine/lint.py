# SPDX-License-Identifier: GPL-2.0
"""Static checks of everything in the tree: `make lint`.

Each pair of a tool and a file or mail is one case. A tool that cannot run is a failing
case, NOT RUN with the reason. Complaints about upstream's own text do not count.
"""

import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from bench import tables
from engine import (
    build,
    host,
    ktap,
    lay,
    limits,
    modular,
    objects,
    packages,
    repository,
    rules,
    source,
    stack,
    store,
)
from engine import checkpatch as checkpatches
from engine.host import UserError
from engine.ktap import FAIL, PASS, Case
from engine.lay import Item
from engine.source import Source

PACKAGES = ("binutils", "gcc", "grep", "make", "git", "perl", "ccache",
            "shellcheck", "codespell", "python3-ply", "python3-git",
            *objects.ARM64.packages)
PYTHON = packages.PYTHON
GET_MAINTAINER = "scripts/get_maintainer.pl"
ENGINE = ("overlay/engine/", "overlay/bench/")
W1 = ("W=1",)
# Files of the engine that run the tools.
CODE = ("lint.py", "objects.py", "modular.py")


class Job:
    """The inputs of all checks."""

    def __init__(self, out: Path) -> None:
        self.out = Path(out)
        self.log = self.out / "log"
        self.files = rules.files(host.ROOT)
        self.items = lay.items()
        self.kernel = source.kernel()
        self.shop = objects.Shop(self.log)
        self.base, self.laid = repository.base(self.kernel), lay.current()

    def run(self, cmd: Sequence[object], cwd: Path | None = None,
            env: Mapping[str, str] | None = None,
            what: str | None = None) -> host.Done:
        """Run a checker; the caller reads its output."""
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


def checkpatch(job: Job) -> Iterator[Case]:
    """checkpatch --strict on every mail of every series."""
    mails = [path for one in stack.read() for path in one.mails]
    found = host.at_once(_checkpatch, [(job, path) for path in mails],
                         limits.processors())
    yield from (case for cases in found for case in cases)


def _checkpatch(job: Job, path: Path) -> list[Case]:
    """Check one mail, unless its result is kept."""
    def check() -> list[Case]:
        done = host.run([*checkpatches.COMMAND, f"--root={tree}", path], cwd=tree,
                        log=job.log, check=False, what="checkpatch",
                        env={"PATH": "/usr/bin:/bin:" + os.environ.get("PATH", ""),
                             "GIT_DIR": "none"})
        return [_case("checkpatch", f"{path.parent.name}/{path.name}",
                      checkpatches.judge(done.stdout, done.returncode))]

    tree = job.shop.tree
    return store.once("checkpatch", checkpatches.key(tree, path), check)


def maintainers(job: Job) -> Iterator[Case]:
    """MAINTAINERS has a section for each new file."""
    names = [item.target for item in job.items if item.kind == "file"]
    found = host.at_once(_sections, [(job, name) for name in names],
                         limits.processors())
    for name, sections in zip(names, found, strict=True):
        yield _case("maintainers", name, ["no section names it"]
                    if sections <= {"THE REST"} else [])


def _sections(job: Job, name: str) -> set[str]:
    text = job.run([GET_MAINTAINER, "--no-git", "--no-git-fallback", "--sections",
                    "-f", name], cwd=job.shop.tree,
                   what=f"get_maintainer.pl for {name}").stdout
    return set(re.findall(r"^(?![A-Z]:\s)(\S.*)\n(?=[A-Z]:\s)", text, re.MULTILINE))


def w1(job: Job) -> Iterator[Case]:
    """The compiler's W=1 on the files that we touch."""
    yield from _compiled(job, "W=1", W1)


def sparse(job: Job) -> Iterator[Case]:
    """sparse on the files that we touch."""
    program = find_sparse(job.kernel, job.log)
    yield from _compiled(job, "sparse", (*W1, objects.CHECKED, f"CHECK={program}"))


def arm64(job: Job) -> Iterator[Case]:
    """The compiler's W=1 for another architecture."""
    yield from _compiled(job, "arm64", W1, objects.ARM64)


def i386(job: Job) -> Iterator[Case]:
    """The compiler's W=1 for 32 bits."""
    yield from _compiled(job, "i386", W1, objects.I386)


def _compiled(job: Job, tool: str, args: Sequence[str],
              arch: objects.Arch | None = None) -> Iterator[Case]:
    """Yield a case for each C file, and one for headers and make."""
    items = [item for item in job.compiled() if not arch or arch.has(item.target)]
    targets = [item.target for item in items if item.target.endswith(".c")]
    shop = job.shop.elsewhere(arch) if arch else job.shop
    left = shop.check(job.base, job.laid, sorted(map(objects.object_of, targets)),
                      [item.target for item in items],
                      [item.target for item in items if item.kind == "patch"], args)
    for target in targets:
        mine = [line for line in left if line.startswith(f"{target}:")]
        left = [line for line in left if line not in mine]
        yield _case(tool, target, mine)
    yield _case(tool, "headers", left)


def _valid(kernel: Source, log: Path, program: Path | str) -> bool:
    """Return whether sparse is new enough for the kernel; make only warns."""
    done = host.run(["sh", kernel.path / "scripts" / "checker-valid.sh", program],
                    log=log, check=False, what="trying sparse")
    return done.stdout.strip().endswith("1")


def find_sparse(kernel: Source, log: Path) -> Path | str:
    """Return a sparse that is new enough, built from Debian's source if needed."""
    found = shutil.which("sparse")
    if found and _valid(kernel, log, found):
        return found
    built = host.WORK / "tools" / "sparse-source" / "sparse"
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
    """Check that the kernel exports all symbols that our modules need."""
    shop = objects.Shop(job.log, "modular", modular.CONFIGS)
    shop.at(job.laid)
    for name, complaints in modular.missing(shop):
        yield _case("modules", name, complaints)


def kernel_doc(job: Job) -> Iterator[Case]:
    """kernel-doc -Wall on our files and on files that we patch."""
    items = job.compiled()
    found = host.at_once(_undocumented, [(job, item) for item in items],
                         limits.processors())
    for item, complaints in zip(items, found, strict=True):
        yield _case("kernel-doc", item.target, complaints)


def _undocumented(job: Job, item: Item) -> list[str]:
    """Return kernel-doc's complaints that upstream's file does not cause."""
    complaints = _kernel_doc(job, job.shop.tree, item.target)
    if complaints and item.kind == "patch":
        before = _kernel_doc(job, job.kernel.path, item.target)
        complaints = {key: line for key, line in complaints.items()
                      if key not in before}
    return list(complaints.values())


def _kernel_doc(job: Job, tree: Path, target: str) -> dict[str, str]:
    """Return kernel-doc's complaints about a file, by text without line numbers."""
    tool = tree / "tools" / "docs" / "kernel-doc"
    if not tool.exists():
        tool = tree / "scripts" / "kernel-doc"
    interpreter = [PYTHON] if b"python" in tool.read_bytes().partition(b"\n")[0] else []
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
    """Run a checker once; its lines must begin with the name of a file and a colon."""
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
    """Create the git repository from which spdxcheck reads licences."""
    scripts = repo / "scripts"
    scripts.mkdir(parents=True)
    for name in ("spdxcheck.py", "spdxexclude"):
        shutil.copy(job.kernel.path / "scripts" / name, scripts)
    shutil.copytree(job.kernel.path / "LICENSES", repo / "LICENSES")
    for args in (["init", "-q"], ["add", "-f", "."],
                 ["commit", "-q", "--no-verify", "-m", "licences"]):
        host.run(["git", "-c", "user.name=lint", "-c",
                  f"user.email={repository.NOBODY}", *args], cwd=repo,
                 log=job.log, env={"GIT_CONFIG_GLOBAL": "/dev/null"},
                 what="making spdxcheck's repository")
    return scripts / "spdxcheck.py"


def shellcheck(job: Job) -> Iterator[Case]:
    """shellcheck on every shell script."""
    names = [name for name in job.files if rules.is_shell(host.ROOT / name)]
    # SC2317 does not see calls by a name in a variable, as of tests.
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
    """codespell on all text, and on added lines of patches."""
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
    """The rules of this tree that other tools do not know."""
    address = host.output(["git", "-C", host.ROOT, "config", "user.email"])
    known = {address.strip()} if address else set()
    places = [str(host.ROOT), str(host.WORK), os.path.expanduser("~")]
    for name in job.files:
        text = rules.text_of(host.ROOT / name)
        if text is not None:
            yield _case("rules", name, rules.check(
                name, text, places=places, addresses=known,
                licence=rules.carries_licence(host.ROOT / name)))


def readme_tables(job: Job) -> Iterator[Case]:
    """Compare the tables of README.md with overlay/bench/results.json."""
    for name, wrong in tables.check(tables.README.read_text("utf-8"),
                                    tables.results()):
        yield _case("tables", name, wrong)


TOOLS = {
    "rules": own_rules, "tables": readme_tables,
    "shellcheck": shellcheck, "ruff": ruff, "mypy": mypy,
    "codespell": codespell, "spdxcheck": spdxcheck,
    "W=1": w1, "sparse": sparse, "arm64": arm64,
    "i386": i386, "modules": modules,
    "kernel-doc": kernel_doc, "checkpatch": checkpatch, "maintainers": maintainers,
}
# These tools compile in the work tree, or read it.
COMPILE = ("W=1", "sparse", "arm64", "i386", "modules")
READ = ("kernel-doc", "checkpatch", "maintainers")


def _key(job: Job, name: str) -> str | None:
    """Return the key of a tool that reads the laid tree; None for other tools."""
    if name not in (*COMPILE, *READ) or name == "checkpatch":
        return None
    return store.digest([
        name, repository.tree_of(job.laid), job.base, store.installed(),
        store.of_files(build.CONFIGS.iterdir(), build.CONFIGS),
        store.of_files(Path(__file__).with_name(one) for one in CODE)])


def _cases(job: Job, name: str) -> list[Case]:
    """Return the cases of one tool; a tool that cannot run is a failing case."""
    cases = []

    def work() -> Iterator[Case]:
        for case in TOOLS[name](job):
            cases.append(case)
            host.Status.show(case.name)
            yield case

    try:
        cases = store.once("lint", _key(job, name), work)
    except UserError as error:
        cases.append(_not_run(name, str(error)))
    except FileNotFoundError as error:
        cases.append(_not_run(name, f"{error.filename} does not exist"))
    return cases or [_not_run(name, "it found nothing to check")]


def _timed(job: Job, name: str) -> list[Case]:
    """Run one tool, and print the number of cases and the time."""
    start = time.monotonic()
    cases = _cases(job, name)
    took = time.monotonic() - start
    host.took(f"lint: {name}", took)
    host.say(f"    {name}: {ktap.total(cases)} in {host.elapsed(took)}")
    return cases


def main(args: list[str]) -> list[Case]:
    """Run all checkers, or the named ones."""
    host.need(*PACKAGES)
    wanted = args or list(TOOLS)
    unknown = set(wanted) - set(TOOLS)
    if unknown:
        raise UserError(f"there is no checker {sorted(unknown)[0]}: "
                        f"{', '.join(TOOLS)}")
    job = Job(host.fresh("lint"))
    if {*COMPILE, *READ} & set(wanted):
        job.shop.at(job.laid)
    with host.step(f"lint: {len(wanted)} checkers ({host.short(job.out)}/log)"):
        return [case for name in wanted for case in _timed(job, name)]
