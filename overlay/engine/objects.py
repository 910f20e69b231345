# SPDX-License-Identifier: GPL-2.0
"""Compiling single objects in a tree that carries only some of our items.

`make series` looks at each commit on its own, and `make lint` compiles only
what we touch. Both use a tree and build folders apart from those of the kernels
that boot, so that neither makes the other's objects stale. What is compiled as
modules has a build folder of its own, and so has another architecture. Each series
after the first one of those that are compiled at a time has all of this for itself,
in a folder of its own (`place`). The tree lies beside the build folders in each, so
that paths from one to the other are the same, and ccache knows in one place what was
compiled in another.
"""

import copy
import os
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from engine import build, host, lay, reuse, source, store
from engine.entries import Entry
from engine.lay import Item
from engine.source import Source

CONFIGS = ("lean.config", "objects.config")
# The place that a shop has unless another one has it; in it the tree, and the build
# folder of what is compiled for this machine.
PARTS = "parts"
TREE, OBJECTS = "tree", "objects"
SELFTESTS = PurePosixPath("tools/testing/selftests")
# A folder so broad that compiling all of it says nothing about our change.
BROAD = 1
# What depends on FS_DAX, which needs an architecture of 64 bits.
ONLY_64 = re.compile(r"drivers/dax/device|fs/dax|fs/ext4/dax|fs/fuse/dax"
                     r"|fs/xfs/xfs_dax")
# What judges what compiling says.
CODE = ("objects.py", "objects.mk", "probe.sh", "lint.py", "series.py", "arches.py",
        "reach.py")
# A makefile that has kbuild's say what it lists.
LISTS = Path(__file__).with_name("objects.mk")
# It answers for kbuild's try-run.
PROBE = Path(__file__).with_name("probe.sh")
# With this make calls sparse for each file, also where the object is up to date.
CHECKED = "C=2"


# Folders of what PROBE answered, emptied in this run: compilers change.
_emptied: set[Path] = set()
_probing = threading.Lock()
# Trees that were held against their source in this run: every file of it, which
# takes seconds.
_followed: set[Path] = set()


@dataclass(frozen=True)
class Arch:
    """An architecture that is compiled for and never booted."""

    name: str
    compiler: str
    packages: tuple[str, ...] = ()
    lacks: re.Pattern[str] | None = None

    def has(self, name: str) -> bool:
        """Whether a file, or the object that it becomes, is compiled for it."""
        return not (self.lacks and self.lacks.match(name))


ARM64 = Arch("arm64", "aarch64-linux-gnu-gcc", ("gcc-aarch64-linux-gnu",))
I386 = Arch("i386", "gcc", lacks=ONLY_64)


def is_selftest(target: str) -> bool:
    """Whether a file belongs to the user-space tests."""
    return PurePosixPath(target).is_relative_to(SELFTESTS)


def is_kernel_c(target: str) -> bool:
    """Whether a file becomes a kernel object."""
    return (target.endswith(".c") and not is_selftest(target)
            and not target.startswith(("Documentation/", "tools/",
                                       "samples/")))


def is_kconfig(target: str) -> bool:
    """Whether a file says what options there are."""
    return "Kconfig" in PurePosixPath(target).name


def object_of(target: str) -> str:
    """The object that a C file becomes."""
    return target.removesuffix(".c") + ".o"


def folder_of(target: str) -> str | None:
    """The kbuild folder to compile for a changed file, or None.

    A change of a header, a Kconfig or a Makefile reaches the files beside
    it. In fs/, mm/ or include/ that would be half the kernel. A folder without
    a Makefile is compiled from the one above that has one: Shop.compile().
    """
    parts = PurePosixPath(target).parts[:-1]
    if len(parts) <= BROAD or parts[0] in ("Documentation", "include",
                                           "tools", "scripts", "LICENSES"):
        return None
    return "/".join(parts) + "/"


def warnings(text: str,
             targets: Iterable[str] | None = None) -> dict[tuple[str, str], str]:
    """The warnings and errors of a compiler or sparse, each once.

    Only those in `targets` when it is given. Line numbers go, so that two
    runs over files that differ elsewhere can be compared.
    """
    found: dict[tuple[str, str], str] = {}
    for line in text.splitlines():
        match = re.match(r"(\S+?):(\d+)(?::\d+)?: "
                         r"((?:fatal )?error|warning): (.*)", line)
        if not match:
            continue
        # A compiler names a header by the path of what includes it, and "../".
        path = os.path.normpath(re.sub(r"^(\.\./)+[^/]+/", "", match.group(1)))
        target = _target(path, targets)
        if target:
            found.setdefault((target, f"{match[3]}: {match[4]}"),
                             f"{target}:{match[2]}: {match[3]}: {match[4]}")
    return found


def of_upstream(found: Iterable[tuple[str, str]],
                items: Iterable[Item]) -> set[str]:
    """Those files with warnings that upstream has, and that we only patch."""
    patched = {item.target for item in items if item.kind == "patch"}
    return {target for target, _ in found if target in patched}


def unread(text: str, target: str) -> bool:
    """Whether make's output shows no call of sparse for a C file."""
    return not re.search(rf"^\s+CHECK\s+{re.escape(target)}$", text, re.MULTILINE)


def _target(path: str, targets: Iterable[str] | None) -> str | None:
    """The target that a compiler's path means."""
    if targets is None:
        return path
    for target in targets:
        if path == target or path.endswith("/" + target):
            return target
    return None


def key(items: Sequence[Item], *more: object) -> str | None:
    """What the outcome of compiling is kept under: all that is compiled.

    None over a KDIR, which may change under us.
    """
    kernel = source.kernel()
    if kernel.origin != "debian":
        return None
    configs = host.ROOT / "overlay" / "configs"
    return store.digest({
        "kernel": kernel.version, "more": more,
        "laid": [(item.target, store.of_file(host.ROOT / item.path))
                 for item in items],
        "configs": store.of_files((configs / name for name in CONFIGS),
                                  configs),
        "compiler": reuse.versions(build.PACKAGES),
        "code": store.of_files((Path(__file__).parent / name for name in CODE),
                               Path(__file__).parent)})


class Shop:
    """The tree and the build folder in which objects are compiled."""

    def __init__(self, source: Source, log: Path, name: str = OBJECTS,
                 configs: Sequence[str] = CONFIGS, place: str = PARTS) -> None:
        self.source = source
        self.log = Path(log)
        self.configs = configs
        self.target = ["CC=ccache gcc"]
        self.tree = build.top() / "build" / place / TREE
        self.build = build.top() / "build" / place / name
        self.absent: Sequence[Entry] = ()

    def elsewhere(self, arch: Arch) -> "Shop":
        """The same tree, as it lies there, and the build folder of an architecture."""
        shop = copy.copy(self)
        shop.target = [f"CC=ccache {arch.compiler}", f"ARCH={arch.name}",
                       f"CROSS_COMPILE={arch.compiler.removesuffix('gcc')}"]
        shop.build = self.build.with_name(arch.name)
        return shop

    def lay(self, items: Iterable[Item] | None = None) -> None:
        """Lay these of our items (all by default) and nothing else.

        What `absent` entries bring to these is taken away.
        """
        wanted = None if items is None else [item.path for item in items]
        lay.lay(self.source, self.tree, only=wanted,
                follow=self.tree not in _followed, absent=self.absent)
        _followed.add(self.tree)

    def configure(self) -> None:
        """Configure whatever of the named configurations this tree has.

        Not where the build folder is as that would make it: other series were
        compiled there, with the same options.
        """
        configs = host.ROOT / "overlay" / "configs"
        text = "".join((configs / name).read_text(encoding="utf-8")
                       for name in self.configs if (configs / name).exists())
        note, key = self.build / "objects.key", self._config_key(text)
        if key and note.exists() and note.read_text("ascii") == f"{key} " \
                f"{store.of_file(self.build / '.config')}":
            return
        host.remove(note)
        fragment = self.build / "fragment.config"
        host.write(fragment, text)
        self.make("allnoconfig", env={"KCONFIG_ALLCONFIG": str(fragment)},
                  what="configuring")
        self.make("prepare", what="preparing the build folder",
                  progress=True)
        if key:
            # make changes it itself where options are no longer there.
            host.write(note, f"{key} {store.of_file(self.build / '.config')}")

    def _config_key(self, text: str) -> str | None:
        """Changes with the options asked for, Kconfig files and the compiler.

        None over a KDIR, which may change under us.
        """
        if self.source.origin != "debian":
            return None
        return store.digest({
            "kernel": self.source.version, "text": text, "make": self.target,
            "kconfig": store.of_files({
                self.tree / item.target for item in lay.items()
                if is_kconfig(item.target)}, self.tree),
            "compiler": reuse.versions(build.PACKAGES)})

    def make(self, *args: str, env: Mapping[str, str] | None = None,
             check: bool = True, what: str | None = None,
             progress: bool = False) -> host.Done:
        """Run make in the tree; its output is the result's stdout."""
        cmd = ["make", "-C", self.tree, f"O={self.build}",
               f"-j{host.jobs()}", *self.target,
               "HOSTCC=ccache gcc", _probed(), *args]
        self.build.mkdir(parents=True, exist_ok=True)
        counter = Counter() if progress else None
        return host.run(cmd, log=self.log, env=self._env(env), check=check,
                        what=what or f"make {args[-1]}", progress=counter)

    def _env(self, env: Mapping[str, str] | None) -> dict[str, str]:
        return {**build.environment(), **(env or {})}

    def forget(self, objects: Iterable[str]) -> None:
        """Remove objects, so that compiling them says its warnings again."""
        for name in objects:
            (self.build / name).unlink(missing_ok=True)

    def compile(self, goals: Sequence[str], *args: str) -> host.Done:
        """Compile folders and objects; the outcome is left to the caller."""
        if CHECKED not in args:
            self.forget(goal for goal in goals if goal.endswith(".o"))
        try:
            return self.make(*args, "-k", *goals, check=False, progress=True)
        except BaseException:
            self._forget_all(goals)
            raise

    def _forget_all(self, goals: Iterable[str]) -> None:
        """Remove these objects and all of these folders.

        make says a warning only once. It compiles what is not up to date, and what
        was seen of the rest is lost with a run that failed or was broken off.
        """
        for goal in goals:
            if goal.endswith("/"):
                for path in (self.build / goal).rglob("*.o"):
                    path.unlink(missing_ok=True)
            else:
                self.forget([goal])

    def configured(self, folder: PurePosixPath | str,
                 names: Iterable[str]) -> set[str] | None:
        """Which of these objects below a folder the configuration has.

        None if kbuild does not say it. It is asked by its own makefile for one
        folder: the whole of it takes longer than most objects.
        """
        wanted, found = set(names), set()
        folders = [str(folder)]
        for path in folders:
            below = {name for name in wanted if name.startswith(f"{path}/")}
            if not below:
                continue
            if (said := self._lists(path)) is None:
                return None
            found |= below & said["objects"]
            folders += sorted(said["folders"])
        return found

    def _lists(self, folder: str) -> dict[str, set[str]] | None:
        """The objects and the folders that the Makefile of a folder lists.

        None if kbuild does not say it, or would for another architecture.
        """
        if any(word.startswith("ARCH=") for word in self.target):
            return None
        command = ["make", "-s", "-C", self.build, "-f",
                   self.tree / "scripts/Makefile.build", "-f", LISTS,
                   f"srctree={self.tree}", f"srcroot={self.tree}", "objtree=.",
                   f"obj={folder}", "SRCARCH=x86", "BITS=64", "need-builtin=1",
                   "need-modorder=1", *self.target, "lists"]
        done = host.run(command, log=self.log, env=self._env(None), check=False,
                        what=f"what {folder} has")
        said = {name: set(words.split()) for name, words in re.findall(
            r"^(objects|folders):(.*)$", done.stdout, re.MULTILINE)}
        return said if not done.returncode and len(said) == 2 else None

    def complaints(self, goals: Sequence[str], items: Sequence[Item],
                   *args: str) -> list[str]:
        """What compiling says of the files of these items, and only that.

        What upstream's own text already says when it is compiled the same
        way is not ours to answer for.
        """
        present = self._present(goals)
        done = self.compile(present, *args)
        found = warnings(done.stdout, {item.target for item in items})
        if of_upstream(found, items):
            self.take_away(found, items, goals, *args)
            self.lay(items)
        lines = list(found.values())
        if done.returncode and not any(": error: " in text for text in lines):
            lines.append(first_error(done.stdout))
        if CHECKED in args:
            sources = [f"{goal[:-2]}.c" for goal in present if goal.endswith(".o")]
            lines += [f"{name}: NOT RUN: make did not call sparse for it"
                      for name in sources if unread(done.stdout, name)]
        if lines:
            self._forget_all(present)
        return lines

    def take_away(self, found: dict[tuple[str, str], str], items: Sequence[Item],
                  goals: Sequence[str], *args: str) -> None:
        """Drop what upstream's text says when it is compiled the same way.

        Leaves the tree without our files, but with our options: without them it
        would be another configuration, and all would be compiled twice more.
        """
        names = of_upstream(found, items)
        # A header may say it from whatever includes it.
        if all(is_kernel_c(name) for name in names):
            goals = sorted(object_of(name) for name in names)
        self.lay([item for item in items if is_kconfig(item.target)])
        present = self._present(goals)
        if CHECKED in args and not any("[-W" in text for _, text in found):
            args = (*args, uncompiled(present))
        before = self.compile(present, *args).stdout if present else ""
        for key in warnings(before, names):
            found.pop(key, None)

    def _present(self, goals: Sequence[str]) -> list[str]:
        """Those goals that there is something to compile for.

        A folder without a Makefile stands for the one that lists its objects.
        """
        folders = {build.made_in(self.tree, goal) for goal in goals
                   if (self.tree / goal).is_dir()}
        return [*sorted(f"{path}/" for path in folders
                        if len(path.parts) > BROAD),
                *(goal for goal in goals
                  if (self.tree / goal).with_suffix(".c").exists())]

    def headers(self) -> None:
        """Install the headers that programs include."""
        build.take_headers(self.build, self.tree)
        self.make("headers", what="installing the kernel's headers")

    def selftest(self, folder: str, there: bool = False,
                 only: Sequence[str] | None = None,
                 shared: Sequence[str] = ()) -> host.Done:
        """Build one selftest folder the way lib.mk does, out of the tree.

        With `there` what was built before may stay. With `only` these programs
        alone, and of the others that make knows how. The `shared` objects are
        compiled whether or not a program is linked with them; the folder has a
        rule for them.
        """
        output = self.build / SELFTESTS / folder
        if not there:
            host.remove(output)
        output.mkdir(parents=True, exist_ok=True)
        cmd = ["make", "-C", self.tree / SELFTESTS / folder,
               f"-j{host.jobs()}", f"OUTPUT={output}",
               # What several programs have is the same in many a commit.
               "CC=ccache gcc",
               f"KHDR_INCLUDES=-isystem {self.build}/usr/include"]
        what = f"building the selftests in {folder}"
        goals = [f"{output}/{name}" for name in (*(only or ()), *shared)]
        if only is None:
            goals = ["all", *goals]
        else:
            done = host.run([*cmd, "--dry-run", "all"], log=self.log,
                            env=self._env(None), check=False, what=what)
            if done.returncode or not goals:
                return done
        return host.run([*cmd, *goals], log=self.log, env=self._env(None),
                        check=False, what=what)


def _probed() -> str:
    """A variable of make: what a compiler takes is tried once in a run."""
    with _probing:
        answers = build.top() / "build" / "probes"
        if answers not in _emptied:
            host.remove(answers)
            answers.mkdir(parents=True)
            _emptied.add(answers)
    quoted = (f"'$(subst ','\\'',$({number}))'" for number in (1, 2, 3))
    return f"try-run=$(shell sh '{PROBE}' '{answers}' {' '.join(quoted)})"


def uncompiled(goals: Iterable[str]) -> str:
    """A variable of make: sparse reads these, and they are not compiled for that.

    kbuild (scripts/Makefile.lib) calls sparse when an object is up to date. What
    this leaves is none, and make compiles it when it is asked without the variable.
    Other objects have kbuild's own command.
    """
    return (f"cmd_cc_o_c=$(if $(filter {' '.join(goals)},$@),"
            "echo '$@: $<' >$(depfile) && : >$@,"
            "$(CC) $(c_flags) -c -o $@ $< $(cmd_ld_single) $(cmd_objtool))")


def first_error(text: str) -> str:
    """The line of make's output that says best why it failed."""
    for line in text.splitlines():
        if re.search(r"\berror\b|\*\*\*|undefined", line, re.IGNORECASE):
            return line.strip()
    return "make failed without a word"


class Counter:
    """What to show while make compiles: how many, and the latest."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, line: str) -> str | None:
        match = re.match(r"\s+(?:CC|HOSTCC|AS|CHECK)\b.*?(\S+)$",
                         line.rstrip())
        if not match:
            return None
        self.count += 1
        return f"{self.count} compiled, {match.group(1)}"
