# SPDX-License-Identifier: GPL-2.0
"""Configure and build kernels, each in its own directory.

A mode names a kernel of kernels.py. Its fragments from overlay/configs/ are applied to
allnoconfig in order. A line that Kconfig does not honour is an error, because later
results would not mean what they say.
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
# Directories with sources of the kernel itself.
KERNEL = ("block/", "drivers/", "fs/", "io_uring/", "kernel/", "lib/", "mm/")
# Objects of arch/x86/boot with the name of one that we patch. The instrumentation
# would call functions that do not exist there.
BEFORE_THE_KERNEL = {"memory"}
# A C file, object or module with KUnit suites.
SUITE = re.compile(r"/tests/|/test-|[-_](k?unit|test)\.\w+$")


# -- where -------------------------------------------------------------------

def top() -> Path:
    """Return the directory of the laid tree and its builds, one per kernel source."""
    src = source.kernel()
    if src.origin == "debian":
        return host.WORK
    name = hashlib.sha256(str(src.path).encode()).hexdigest()[:12]
    return host.WORK / "kdir" / name


def tree(below: str = "") -> Path:
    """Return the path of the laid tree, or of the tree below a series."""
    return top() / ("build/below/" + below if below else "tree")


def folder(mode: str) -> Path:
    """Return the build directory (O=) of a mode."""
    return top() / "build" / mode


def own_sources() -> list[str]:
    """Return the C files that we add to the kernel, without tests."""
    return _sources("file")


def _sources(kind: str) -> list[str]:
    return sorted({item.target for item in lay.items()
                   if item.kind == kind and item.target.endswith(".c")
                   and item.target.startswith(KERNEL)
                   and not SUITE.search(item.target)})


def made_in(top_folder: Path, folder: PurePosixPath | str) -> PurePosixPath:
    """Return the directory whose Makefile lists the objects of a directory."""
    path = PurePosixPath(folder)
    while path.parts and not any((top_folder / path / name).exists()
                                 for name in ("Makefile", "Kbuild")):
        path = path.parent
    return path


def object_name(target: str) -> str:
    """Return kbuild's name of an object: its path below its Makefile."""
    path = PurePosixPath(target).with_suffix("")
    return str(path.relative_to(made_in(tree(), path.parent)))


_laid: set[Path] = set()


def _revision(below: str) -> str:
    """Return the commit of the tree, or of the tree below a series."""
    if not below:
        return edit.snapshot() if os.environ.get("EDIT") else lay.current()
    base = repository.base(source.kernel())
    if below == BASE:
        return base
    found = edit.branches() if os.environ.get("EDIT") else \
        stack.apply(stack.read(), base, edit.SCRATCH)
    return found.below(below)


def lay_tree(below: str = "") -> Path:
    """Lay the tree, or the tree below a series, once per run; return its path."""
    path = tree(below)
    if path not in _laid:
        # Note the sources first: later edits are not in the tree.
        ran.begun()
        with host.step("laying the tree"):
            changed = lay.lay(source.kernel(), path, _revision(below))
            host.say(f"    {changed} files changed")
        _laid.add(path)
    return path


# -- make --------------------------------------------------------------------

def environment() -> dict[str, str]:
    """Return the environment of all builds: a shared ccache, reproducible output."""
    return {
        "CCACHE_DIR": os.environ.get("CCACHE_DIR", f"{host.WORK}/ccache"),
        "CCACHE_BASEDIR": str(top()),
        "CCACHE_NOHASHDIR": "1",
        # With the compiler's list of headers, ccache need not run the preprocessor.
        "CCACHE_DEPEND": "1",
        "CCACHE_MAXSIZE": "10G",
        "KBUILD_BUILD_TIMESTAMP": "1970-01-01",
        # The default counts how often a kernel was linked.
        "KBUILD_BUILD_VERSION": "1",
        "KBUILD_BUILD_USER": "overlay",
        "KBUILD_BUILD_HOST": "overlay",
    }


def variables(mode: str) -> list[str]:
    """Return the variables that a mode passes to make.

    kbuild looks for variables with the name of an object (scripts/Makefile.lib), so
    single objects can be instrumented without a change of Makefiles.
    """
    kernel = KERNELS[mode]
    if not kernel.instrument:
        return [*kernel.make]
    sources = own_sources() + (_sources("patch") if kernel.patched else [])
    own = [object_name(name) for name in sources]
    return [*kernel.make, *(f"{kernel.instrument}_{name}.o=y"
                            for name in (*own, *kernel.neighbours)
                            if name not in BEFORE_THE_KERNEL)]


def make(mode: str, *args: str, what: str, log: Path | None = None,
         progress: host.Shows | None = None,
         env: Mapping[str, str] | None = None) -> host.Done:
    """Run make in the tree of a mode, into its build directory.

    ccache is not used: the build directory already contains the objects.
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
    """Parse a fragment: option -> value, 'n' if it is off."""
    found = {}
    for line in text.splitlines():
        if match := re.match(r"(CONFIG_\w+)=(.*)$", line):
            found[match.group(1)] = match.group(2).strip()
        elif match := re.match(r"# (CONFIG_\w+) is not set", line):
            found[match.group(1)] = "n"
        elif line.strip() and not line.startswith("#"):
            raise UserError(f"a config fragment contains a line without an option: "
                            f"{line.strip()}")
    return found


def wanted_config(mode: str) -> dict[str, str]:
    """Return the options of a mode's fragments; later ones win."""
    wanted = {}
    for name in KERNELS[mode].fragments:
        path = CONFIGS / f"{name}.config"
        if not path.exists():
            raise UserError(f"{host.short(path)} is missing")
        wanted.update(settings(path.read_text(encoding="utf-8")))
    return wanted


def dropped(wanted: dict[str, str], config: str) -> list[str]:
    """Return the wanted options that a .config does not honour."""
    have = settings(config)
    return [f"{name}={value} (it is {have.get(name, 'n')})"
            for name, value in sorted(wanted.items())
            if have.get(name, "n") != value]


def configure(mode: str) -> None:
    """Write the .config of a mode, unless it is up to date."""
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
# How a build ended, for `make results`. An interrupted one only began.
BEGAN, FAILED, BUILT = "began", "failed", "built"


def status(mode: str) -> Path:
    """Return the file that contains one of these words."""
    return host.OUT / "build" / f"{mode}.status"


def note(mode: str) -> Path:
    """Return the file that describes the sources of a build."""
    return status(mode).with_suffix(f".{ran.FILE}")


def build(mode: str) -> Path:
    """Build the image and the modules of a mode; return its build directory."""
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
        make(mode, Path(KERNELS[mode].image).name, "modules", log=log,
             progress=Counter(), what=f"building the {mode} kernel")


def main(args: list[str]) -> None:
    """`build [mode...]`: the lean kernel unless others are named."""
    for mode in args or ["lean"]:
        if mode not in KERNELS:
            raise UserError(f"there is no kernel called {mode}: "
                            f"{', '.join(KERNELS)}")
        build(mode)
