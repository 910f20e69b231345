# SPDX-License-Identifier: GPL-2.0
"""Compile single objects of a commit, without building a kernel.

`make series` compiles each commit, and `make lint` the laid tree. Both use one work
tree and build directories of their own, so the objects of the kernels that boot
stay up to date. Modules and other architectures have their own build directories.
"""

import copy
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from engine import build, host, repository, store
from engine.host import UserError

CONFIGS = ("lean.config", "objects.config")
SELFTESTS = PurePosixPath("tools/testing/selftests")
# A directory at the top is too large to compile for one header in it.
BROAD = 1
# FS_DAX depends on 64BIT.
ONLY_64 = re.compile(r"drivers/dax/device|fs/dax|fs/ext4/dax|fs/fuse/dax"
                     r"|fs/xfs/xfs_dax")
# make calls sparse for each file, also for an object that is up to date.
CHECKED = "C=2"


@dataclass(frozen=True)
class Arch:
    """An architecture of objects that are compiled and never booted."""

    name: str
    compiler: str
    packages: tuple[str, ...] = ()
    lacks: re.Pattern[str] | None = None

    def has(self, name: str) -> bool:
        """Whether a file, or its object, is compiled for this architecture."""
        return not (self.lacks and self.lacks.match(name))


ARM64 = Arch("arm64", "aarch64-linux-gnu-gcc", ("gcc-aarch64-linux-gnu",))
I386 = Arch("i386", "gcc", lacks=ONLY_64)


def is_kernel_c(target: str) -> bool:
    """Whether a file becomes a kernel object."""
    return target.endswith(".c") and not target.startswith(
        ("Documentation/", "tools/", "samples/"))


def object_of(target: str) -> str:
    """Return the object that a C file becomes."""
    return target.removesuffix(".c") + ".o"


def folder_of(target: str) -> str | None:
    """Return the kbuild directory to compile for a changed file, or None."""
    parts = PurePosixPath(target).parts[:-1]
    if len(parts) <= BROAD or parts[0] in ("Documentation", "include", "tools",
                                           "scripts", "LICENSES"):
        return None
    return "/".join(parts) + "/"


def goals(targets: Iterable[str], everything: Iterable[str]) -> list[str]:
    """Return the make goals for a commit that touches these files."""
    targets = list(targets)
    own = [object_of(name) for name in targets if is_kernel_c(name)]
    # A C file of the kernel changes its own object and no other.
    folders = {folder for name in targets if not is_kernel_c(name)
               and (folder := folder_of(name))}
    headers = any(name.startswith("include/") for name in targets)
    if headers and not own and not folders:
        own = [object_of(name) for name in everything if is_kernel_c(name)]
    return sorted(folders) + sorted(
        name for name in set(own)
        if not any(name.startswith(folder) for folder in folders))


Found = dict[tuple[str, str], str]


def warnings(text: str, targets: Iterable[str] | None = None) -> Found:
    """Return the warnings and errors of a compiler or sparse, each once.

    The key has no line number, so that two versions of a file can be compared.
    """
    found: Found = {}
    names = None if targets is None else set(targets)
    for line in text.splitlines():
        match = re.match(r"(\S+?):(\d+)(?::\d+)?: "
                         r"(warning|error|fatal error): (.*)", line)
        if not match:
            continue
        # A compiler names a header by the path of the including file and "../".
        path = os.path.normpath(re.sub(r"^(\.\./)+[^/]+/", "", match[1]))
        target = _target(path, names)
        if target:
            found.setdefault((target, f"{match[3]}: {match[4]}"),
                             f"{target}:{match[2]}: {match[3]}: {match[4]}")
    return found


def _target(path: str, targets: Iterable[str] | None) -> str | None:
    """Return the target that a compiler's path means."""
    if targets is None:
        return path
    return next((name for name in targets
                 if path == name or path.endswith(f"/{name}")), None)


def unread(text: str, target: str) -> bool:
    """Whether make's output shows no call of sparse for a C file."""
    return not re.search(rf"^\s+CHECK\s+{re.escape(target)}$", text, re.MULTILINE)


def first_error(text: str) -> str:
    """Return the line of make's output that explains the failure best."""
    for line in text.splitlines():
        if re.search(r"\berror\b|\*\*\*|undefined", line, re.IGNORECASE):
            return line.strip()
    return "make failed without a message"


# Files that decide how objects are compiled and judged.
CODE = ("objects.py", "series.py", "lint.py")


def key(revision: str, paths: Iterable[str], *more: object) -> str:
    """Return the key of a compile result: all files that compiling can read.

    `paths` are the directories of the goals. Headers, architectures and scripts
    always count.
    """
    always = ("include", "arch", "scripts", "Makefile", "Kbuild", "lib", "kernel")
    wanted = sorted({*always, *paths})
    text = repository.git("ls-tree", revision, "--", *wanted)
    configs = host.ROOT / "overlay" / "configs"
    return store.digest({
        "tree": text, "more": more, "compiler": store.installed(),
        "configs": store.of_files((configs / name for name in CONFIGS), configs),
        "code": store.of_files((Path(__file__).parent / name for name in CODE),
                               Path(__file__).parent)})


class Shop:
    """A work tree and a build directory for single objects."""

    def __init__(self, log: Path, name: str = "objects",
                 configs: Sequence[str] = CONFIGS) -> None:
        self.log = Path(log)
        self.configs = configs
        self.compiler = ["CC=ccache gcc"]
        self.tree = build.top() / "build" / "parts" / "tree"
        self.build = build.top() / "build" / "parts" / name
        self.arch: Arch | None = None

    def elsewhere(self, arch: Arch) -> "Shop":
        """Return the same tree with the build directory of an architecture."""
        shop = copy.copy(self)
        shop.arch = arch
        shop.compiler = [f"CC=ccache {arch.compiler}", f"ARCH={arch.name}",
                         f"CROSS_COMPILE={arch.compiler.removesuffix('gcc')}"]
        shop.build = self.build.with_name(arch.name)
        return shop

    def at(self, revision: str) -> None:
        """Bring the work tree to a commit."""
        repository.checkout(self.tree, revision, force=True)

    def configure(self) -> None:
        """Configure the named fragments, unless that was done for this tree."""
        configs = host.ROOT / "overlay" / "configs"
        text = "".join((configs / name).read_text(encoding="utf-8")
                       for name in self.configs)
        note = self.build / "objects.key"
        kconfig = repository.git("ls-files", "-s", "--", "*Kconfig*", at=self.tree)
        key = store.digest([text, self.compiler, kconfig, store.installed()])
        if note.exists() and note.read_text("ascii") == \
                f"{key} {store.of_file(self.build / '.config')}":
            return
        host.remove(note)
        fragment = self.build / "fragment.config"
        host.write(fragment, text)
        self.make("allnoconfig", env={"KCONFIG_ALLCONFIG": str(fragment)},
                  what="configuring")
        self.make("prepare", what="preparing the build directory", progress=True)
        host.write(note, f"{key} {store.of_file(self.build / '.config')}")

    def make(self, *args: str, env: Mapping[str, str] | None = None,
             check: bool = True, what: str | None = None,
             progress: bool = False) -> host.Done:
        """Run make in the tree; its output is the result's stdout."""
        cmd = ["make", "-C", self.tree, f"O={self.build}", f"-j{host.jobs()}",
               *self.compiler, "HOSTCC=ccache gcc", *args]
        self.build.mkdir(parents=True, exist_ok=True)
        return host.run(cmd, log=self.log, env={**build.environment(), **(env or {})},
                        check=check, what=what or f"make {args[-1]}",
                        progress=build.Counter() if progress else None)

    def forget(self, names: Iterable[str]) -> None:
        """Remove objects, so that compiling them prints their warnings again."""
        for name in names:
            (self.build / name).unlink(missing_ok=True)

    def present(self, wanted: Iterable[str]) -> list[str]:
        """Return those goals that exist in the tree.

        A directory without a Makefile stands for the one that lists its objects.
        """
        folders, found = set(), []
        for goal in wanted:
            if (self.tree / goal).is_dir():
                folders.add(build.made_in(self.tree, goal))
            elif (self.tree / goal).with_suffix(".c").exists():
                found.append(goal)
        return [*sorted(f"{path}/" for path in folders if len(path.parts) > BROAD),
                *found]

    def compile(self, wanted: Sequence[str], *args: str) -> host.Done:
        """Compile goals; the caller judges the result."""
        return self.make(*args, "-k", *wanted, check=False, progress=True)

    def check(self, base: str, revision: str, wanted: Sequence[str],
              ours: Iterable[str], patched: Sequence[str],
              args: Sequence[str]) -> list[str]:
        """Compile goals at a revision; return warnings that upstream does not have.

        `ours` are all files whose warnings count, `patched` those that upstream has.
        """
        before = self.upstream(base, patched, *args)
        self.at(revision)
        self.configure()
        goals = self.present(wanted)
        if not goals:
            return []
        self.forget(goal for goal in goals if goal.endswith(".o"))
        done = self.compile(goals, *args)
        complaints = [line for key, line in warnings(done.stdout, ours).items()
                      if key not in before]
        if done.returncode and not any(": error: " in line for line in complaints):
            complaints.append(first_error(done.stdout))
        if "is not available or not up to date" in done.stdout:
            raise UserError("make reports that its checker is too old")
        complaints += [f"{goal[:-2]}.c: it did not compile" for goal in goals
                       if goal.endswith(".o") and not (self.build / goal).exists()]
        if CHECKED in args:
            files = [f"{goal[:-2]}.c" for goal in goals if goal.endswith(".o")]
            complaints += [f"{name}: NOT RUN: make did not call sparse"
                           for name in files if unread(done.stdout, name)]
        return complaints

    def upstream(self, base: str, patched: Sequence[str], *args: str) -> set[
            tuple[str, str]]:
        """Return the warnings of upstream's own text in the files that we patch.

        Leaves the tree at the base commit unless the result is stored.
        """
        wanted = sorted(object_of(name) for name in patched if is_kernel_c(name))
        kept_as = key(base, ["block", "drivers", "fs", "io_uring", "mm"], wanted,
                      self.compiler, args)
        kept = store.take("upstream", kept_as)
        if kept:
            return {(name, text) for name, text in kept.more}
        self.at(base)
        self.configure()
        present = self.present(wanted)
        self.forget(present)
        text = self.compile(present, *args).stdout if present else ""
        found = sorted(warnings(text, patched))
        store.keep("upstream", kept_as, (), found)
        return set(found)

    def headers(self) -> None:
        """Install the headers that programs include."""
        self.make("headers", what="installing the kernel's headers")

    def selftest(self, folder: str) -> host.Done:
        """Build one directory of selftests by its own Makefile."""
        output = self.build / SELFTESTS / folder
        output.mkdir(parents=True, exist_ok=True)
        return host.run(
            ["make", "-C", self.tree / SELFTESTS / folder, f"-j{host.jobs()}",
             f"OUTPUT={output}", "CC=ccache gcc",
             f"KHDR_INCLUDES=-isystem {self.build}/usr/include", "all"],
            log=self.log, env=build.environment(), check=False,
            what=f"building the selftests in {folder}")
