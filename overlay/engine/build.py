# SPDX-License-Identifier: GPL-2.0
"""Kernels: configured from fragments, built in folders of their own.

A mode names a kernel of kernels.py: a list of fragments from overlay/configs/,
laid over allnoconfig in that order. A line of theirs that Kconfig does not
honour is an error: an option that vanishes silently would make every later
result a lie.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from engine import edit, host, lay, ran, repository, source, stack, store
from engine.host import UserError
from engine.kernels import BASE, KERNELS

CONFIGS = host.ROOT / "overlay" / "configs"
PACKAGES = ("gcc", "make", "bc", "bison", "flex", "libelf-dev", "libssl-dev",
            "ccache", "rsync", "kmod", "cpio", "libc6-dev", "patch", "xz-utils")
# A line of make's output about a file.
COMPILED = re.compile(r"\s+(?:CC|LD|AR|AS|GEN|HOSTCC|CHECK|MODPOST)\b.*?(\S+)$")
# Where the kernel's own sources are, ours among them.
KERNEL = ("block/", "drivers/", "fs/", "io_uring/", "kernel/", "lib/", "mm/")
# Objects of what runs before the kernel (arch/x86/boot) that have the name of one
# that we patch. They would be instrumented with it, and there is nothing to call.
BEFORE_THE_KERNEL = {"memory"}
# A C file, an object or a module of it that holds KUnit suites.
SUITE = re.compile(r"/tests/|[-_](k?unit|test)\.\w+$")


# -- where -------------------------------------------------------------------

def top() -> Path:
    """The folder of the laid tree and its builds, one for each source."""
    src = source.kernel()
    if src.origin == "debian":
        return host.WORK
    name = hashlib.sha256(str(src.path).encode()).hexdigest()[:12]
    return host.WORK / "kdir" / name


def tree(below: str = "") -> Path:
    """The laid tree, or what it is below a series."""
    return top() / ("build/below/" + below if below else "tree")


def folder(mode: str) -> Path:
    """The build folder (O=) of a mode."""
    return top() / "build" / mode


def own_sources() -> list[str]:
    """The C files of the kernel that are ours alone, without tests."""
    return _sources("file")


def patched_sources() -> list[str]:
    """The C files of the kernel that are upstream's, and that we patch."""
    return _sources("patch")


def _sources(kind: str) -> list[str]:
    return sorted({item.target for item in lay.items()
                   if item.kind == kind and item.target.endswith(".c")
                   and item.target.startswith(KERNEL)
                   and not SUITE.search(item.target)})


def made_in(top_folder: Path, folder: PurePosixPath | str) -> PurePosixPath:
    """The folder of a tree whose Makefile lists the objects of a folder."""
    path = PurePosixPath(folder)
    while path.parts and not any((top_folder / path / name).exists()
                                 for name in ("Makefile", "Kbuild")):
        path = path.parent
    return path


def object_name(target: str) -> str:
    """What kbuild calls an object: its path from its Makefile on."""
    path = PurePosixPath(target).with_suffix("")
    return str(path.relative_to(made_in(tree(), path.parent)))


_laid: set[Path] = set()


def _revision(below: str) -> str:
    """The commit of the tree, or of what it is below a series."""
    if not below:
        return edit.snapshot() if os.environ.get("EDIT") else lay.current()
    base = repository.base(source.kernel())
    if below == BASE:
        return base
    found = edit.branches() if os.environ.get("EDIT") else \
        stack.apply(stack.read(), base, edit.SCRATCH)
    return found.below(below)


def lay_tree(below: str = "") -> Path:
    """Lay the tree, or what it is below a series, once in a run; return its folder."""
    path = tree(below)
    if path not in _laid:
        # Before it is laid: what is edited from now on is not in it.
        ran.begun()
        with host.step("laying the tree"):
            changed = lay.lay(source.kernel(), path, _revision(below))
            host.say(f"    {changed} files changed")
        _laid.add(path)
    return path


# -- make --------------------------------------------------------------------

def environment() -> dict[str, str]:
    """The environment of every build: one ccache, results that repeat."""
    return {
        "CCACHE_DIR": os.environ.get("CCACHE_DIR", f"{host.WORK}/ccache"),
        "CCACHE_BASEDIR": str(top()),
        "CCACHE_NOHASHDIR": "1",
        # kbuild has the compiler list what it reads. By that list ccache knows
        # an object without a run of the preprocessor, a sixth of a compile.
        "CCACHE_DEPEND": "1",
        "CCACHE_MAXSIZE": "10G",
        "KBUILD_BUILD_TIMESTAMP": "1970-01-01",
        # It would count how often a kernel was linked, in the kernel.
        "KBUILD_BUILD_VERSION": "1",
        "KBUILD_BUILD_USER": "overlay",
        "KBUILD_BUILD_HOST": "overlay",
    }


def variables(mode: str) -> list[str]:
    """What a mode passes to every make, that of each folder too.

    kbuild asks for a variable by the object's name (scripts/Makefile.lib), so
    that some objects can be instrumented, and upstream's Makefiles stay as they
    are.
    """
    kernel = KERNELS[mode]
    if not kernel.instrument:
        return [*kernel.make]
    sources = own_sources() + (patched_sources() if kernel.patched else [])
    own = [object_name(name) for name in sources]
    return [*kernel.make, *(f"{kernel.instrument}_{name}.o=y"
                            for name in (*own, *kernel.neighbours)
                            if name not in BEFORE_THE_KERNEL)]


def make(mode: str, *args: str, what: str, log: Path | None = None,
         progress: host.Shows | None = None,
         env: Mapping[str, str] | None = None) -> host.Done:
    """Run make in the tree of a mode, into its build directory.

    Without ccache: the folder keeps what was compiled, and to keep it once more
    takes 20 ms of each object.
    """
    cmd = ["make", "-C", tree(KERNELS[mode].below), f"O={folder(mode)}",
           f"-j{host.jobs()}", *variables(mode), *args]
    return host.run(cmd, env={**environment(), **(env or {})}, what=what,
                    log=log, progress=progress)


class Counter:
    """Show the progress of make: how many files, and the latest."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, line: str) -> str | None:
        match = COMPILED.match(line.rstrip())
        if not match:
            return None
        self.count += 1
        return f"{self.count} files, {match[1]}"


# -- configuration -----------------------------------------------------------

def settings(text: str) -> dict[str, str]:
    """A fragment's lines as option -> value; 'n' for an option that is off."""
    found = {}
    for line in text.splitlines():
        if match := re.match(r"(CONFIG_\w+)=(.*)$", line):
            found[match.group(1)] = match.group(2).strip()
        elif match := re.match(r"# (CONFIG_\w+) is not set", line):
            found[match.group(1)] = "n"
        elif line.strip() and not line.startswith("#"):
            raise UserError(f"a config fragment has a line that is no option: "
                            f"{line.strip()}")
    return found


def wanted_config(mode: str) -> dict[str, str]:
    """What a mode's fragments ask for, later ones winning."""
    wanted = {}
    for name in KERNELS[mode].fragments:
        path = CONFIGS / f"{name}.config"
        if not path.exists():
            raise UserError(f"{host.short(path)} is missing")
        wanted.update(settings(path.read_text(encoding="utf-8")))
    return wanted


def dropped(wanted: dict[str, str], config: str) -> list[str]:
    """Which of the wanted options a .config does not honour."""
    have = settings(config)
    return [f"{name}={value} (it is {have.get(name, 'n')})"
            for name, value in sorted(wanted.items())
            if have.get(name, "n") != value]


def configure(mode: str) -> None:
    """Write the .config of a mode, when it is not there or not right."""
    into = folder(mode)
    wanted = wanted_config(mode)
    text = "".join(f"{name}={value}\n" for name, value in wanted.items())
    below = KERNELS[mode].below
    key = store.digest([text, repository.git(
        "ls-files", "-s", "--", "Makefile", "*Kconfig*", at=tree(below))])
    note = into / "overlay.key"
    if note.exists() and note.read_text("ascii") == key \
            and (into / ".config").exists():
        return
    into.mkdir(parents=True, exist_ok=True)
    note.unlink(missing_ok=True)
    host.write(into / "overlay.config", text)
    make(mode, f"KCONFIG_ALLCONFIG={into}/overlay.config", "allnoconfig",
         what=f"configuring the {mode} kernel")
    lost = dropped(wanted, (into / ".config").read_text(encoding="utf-8"))
    # Options of a series do not exist below it.
    if lost and not below:
        raise UserError(f"Kconfig does not honour {len(lost)} of the {mode} "
                        f"kernel's options: {', '.join(lost[:5])}")
    host.write(note, key)


# -- building ----------------------------------------------------------------

_built: set[Path] = set()
# How a build ended, as `make results` reports it. One that was interrupted has
# only begun.
BEGAN, FAILED, BUILT = "began", "failed", "built"


def status(mode: str) -> Path:
    """The file with one of these words, which a build of a mode writes itself."""
    return host.OUT / "build" / f"{mode}.status"


def note(mode: str) -> Path:
    """The file that says what that build is of."""
    return status(mode).with_suffix(f".{ran.FILE}")


def build(mode: str) -> Path:
    """Build a mode's bzImage and modules; returns its build folder."""
    path = folder(mode)
    if path in _built:
        return path
    log = host.OUT / "build" / f"{mode}.log"
    host.remove(log)
    host.remove(note(mode))
    host.write(status(mode), f"{BEGAN}\n")
    try:
        ran.note(note(mode))
        _build(mode, path, log)
    except UserError:
        host.write(status(mode), f"{FAILED}\n")
        raise
    host.write(status(mode), f"{BUILT}\n")
    _built.add(path)
    return path


def _build(mode: str, path: Path, log: Path) -> None:
    host.check_machine()
    host.need(*PACKAGES)
    if not (path / "vmlinux").exists():
        host.need_space(host.WORK, KERNELS[mode].gigabytes + 1,
                        f"building the {mode} kernel")
    lay_tree(KERNELS[mode].below)
    configure(mode)
    with host.step(f"building the {mode} kernel ({host.short(log)})"):
        make(mode, "bzImage", "modules", log=log, progress=Counter(),
             what=f"building the {mode} kernel")


def main(args: list[str]) -> None:
    """`build [mode...]`: the lean kernel unless others are named."""
    for mode in args or ["lean"]:
        if mode not in KERNELS:
            raise UserError(f"there is no kernel called {mode}: "
                            f"{', '.join(KERNELS)}")
        build(mode)
