# SPDX-License-Identifier: GPL-2.0
"""Which kselftests need not run again, and how the others are dealt out.

A test's result in a guest is kept under a digest of the kernel's image and modules,
all installed files of the test's folder, the guest's scripts, what the guest is
given (parameters, disks, variables), and the packages of this machine. A guest
boots only for the tests of which one of these changed. It is the guest that is
judged for splats and leaks: unless it came to its end without any failure, none of
its results is kept.

Where a guest has no NVMe controller, no function of NVMe's driver runs but those
that register it: the results of such a guest do not depend on drivers/nvme.
"""

import contextlib
import dataclasses
import functools
import json
import os
import platform
import re
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from engine import build, disks, guest, host, ktap, packages, repository, store
from engine.kernels import KERNELS
from engine.ktap import Case
from engine.share import Share

# What dpkg has installed. Where there is no dpkg no result of a guest is kept.
STATUS = Path("/var/lib/dpkg/status")
# Where programs, libraries and headers are. One that was built here and installed
# over that of a package has another size or time.
FOLDERS = tuple(Path(top) / name for top in ("/usr", "/usr/local") for name in (
    "bin", "sbin", "include", "lib", "lib/x86_64-linux-gnu"))
SETTINGS = ("/etc/mke2fs.conf", "/etc/ld.so.preload")
# Where the compiler also looks for headers and libraries.
SEARCHED = ("CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH",
            "GCC_EXEC_PREFIX")
# The engine's files that boot and judge each test.
CODE = ("guest.py", "plugins.py", "disks.py", "kselftest.py", "share.py", "ktap.py",
        "reuse.py")
# As they are now that they are loaded; they may be edited while we run.
# By their names alone: another clone is to find what this one has kept.
LOADED = store.of_files((Path(__file__).parent / name for name in CODE),
                        Path(__file__).parent)
SCRIPTS = ("run.sh", "kselftest.sh", "disks.sh", "restart.sh")
# Seconds by kernel and test.
Durations = dict[str, dict[str, float]]
# Seconds that tests took here, for `make lava ARGS=record`; and those on two cores,
# by which tests are dealt out.
DURATIONS = "durations.json"
USUAL = host.ROOT / "overlay" / "kselftest.seconds"
# Seconds that a test of a kernel is thought to take before any was seen.
UNKNOWN = 60.0

_saving = threading.Lock()


# -- the machine -------------------------------------------------------------

def installed() -> list[object]:
    """What is installed on this machine: packages, programs, libraries, headers."""
    return [store.of_file(STATUS), store.of_files(SETTINGS),
            [_entries(folder) for folder in FOLDERS]]


def _entries(folder: Path) -> list[tuple[str, int, int]]:
    """The files of a folder, with their sizes and times."""
    found = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                stat = entry.stat()
                if entry.is_file():
                    found.append((entry.name, stat.st_size, stat.st_mtime_ns))
    return sorted(found)


def qemu() -> str | None:
    """What QEMU says of its version, which has that of Debian's package."""
    return host.output([guest.qemu(), "--version"])


def _processor() -> list[str]:
    """This machine's processor and kernel, which a guest has under KVM."""
    names = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(
        "utf-8"), re.MULTILINE)
    return [platform.release(), platform.version(), *sorted(set(names))]


def _virtme_ng() -> list[str]:
    """The version of virtme-ng, the only Python tool that boots guests."""
    pins = (host.ROOT / "overlay" / "requirements.txt").read_text("ascii")
    return re.findall(r"^virtme-ng==.*$", pins, re.MULTILINE)


def machine() -> str | None:
    """A digest of what boots guests and of what they call; None without dpkg."""
    if not STATUS.exists():
        return None
    return store.digest([
        qemu(), store.of_file(guest.qemu()), _virtme_ng(), installed(),
        guest.accelerated() and _processor(), store.of_files(
            (host.PROGRAMS / name for name in guest.BARRIERS), host.PROGRAMS)])


def versions(names: Iterable[str]) -> str:
    """A digest of what is installed, and of the compilers in these packages."""
    searched = tuple(os.environ.get(name) for name in SEARCHED)
    return _versions(tuple(names), searched, *(
        path.stat().st_mtime_ns for path in (STATUS, *FOLDERS) if path.exists()))


@functools.cache
def _versions(names: tuple[str, ...], searched: tuple[str | None, ...],
              *_: object) -> str:
    """Asked for each commit: computed again when packages are installed."""
    compilers = sorted(name for name in packages.programs(names)
                       if name.endswith("gcc"))
    return store.digest([installed(), searched, [
        host.output([name, "-v"]) for name in compilers]])


# -- a test ------------------------------------------------------------------

def kernel(mode: str, suites: bool = False) -> dict[str, str | None]:
    """Digests of a kernel's image and its modules.

    Those that hold KUnit suites are among them only if that is asked for: no
    kselftest loads one.
    """
    folder = build.folder(mode)
    try:
        listed = (folder / "modules.order").read_text("utf-8").split()
    except OSError:
        listed = []
    if not suites:
        listed = [name for name in listed if not build.SUITE.search(name)]
    paths = [folder / "arch/x86/boot/bzImage",
             *(folder / Path(name).with_suffix(".ko") for name in listed)]
    return store.of_files(paths, folder)


def _laid(*without: str) -> list[str]:
    """The entries of the laid tree and of its drivers, without these."""
    listed = [line for folder in (".", "drivers/") for line in repository.git(
        "ls-tree", "--full-name", "HEAD", folder, at=build.tree()).splitlines()]
    return [line for line in listed if line.partition("\t")[2] not in without]


def without_nvme(mode: str) -> str:
    """A digest of what a kernel is built from, without NVMe's drivers."""
    return store.digest([
        versions(build.PACKAGES), store.of_file(build.folder(mode) / ".config"),
        _laid("Documentation", "tools", "drivers", "drivers/nvme")])


def programs_from(mode: str, names: Iterable[str]) -> str:
    """A digest of what a kernel's kselftests are built from with these packages."""
    return store.digest([
        versions((*build.PACKAGES, *names)), kernel(mode),
        store.of_file(build.folder(mode) / "Module.symvers"),
        _laid("Documentation")])


def files(into: Path, folder: str) -> dict[str, str | None]:
    """Digests of all installed files of a folder of tests, and of their runner."""
    return store.of_files(
        (path for path in (into / "run_kselftest.sh", *(into / "kselftest").glob("*"),
                           *(into / folder).rglob("*"))
         if path.is_file() and not path.name.startswith("README")), into)


def keys(share: Share) -> dict[str, str | None]:
    """What the result of each test is kept under; None if it is not kept."""
    # Other kernels are for looking again, and for longer.
    settings, here = KERNELS[share.mode], machine()
    image = kernel(share.mode)
    if not settings.checked or share.scale != 1 or here is None \
            or None in image.values():
        return dict.fromkeys(share.tests)
    common = store.digest({
        "machine": here, "code": LOADED,
        "kernel": image if share.nvme else without_nvme(share.mode),
        "settings": dataclasses.asdict(settings),
        "nvme": share.nvme, "restart": share.restart,
        "scripts": store.of_files((guest.SCRIPTS / name for name in SCRIPTS),
                                  guest.SCRIPTS),
        "variables": share.variables(), "hardware": share.hardware(),
        "disks": disks.given() if share.nvme else [],
    })
    return {test: store.digest([common, test, files(
        share.into, "uq" if share.restart else test.partition(":")[0])])
        for test in share.tests}


def _of_test(cases: list[Case], share: Share, test: str) -> list[Case]:
    """A guest's cases that belong to one test."""
    if share.restart:
        return list(cases)
    name = re.escape(test.replace(":", ": ", 1))
    return [case for case in cases
            if re.match(rf"[^:]*: {name}(: |$)", case.name)]


# -- taking and keeping ------------------------------------------------------

def sift(todo: list[Share]) -> tuple[list[Share], list[Case]]:
    """The shares with what must run, and the cases that are kept."""
    left: list[Share] = []
    cases: list[Case] = []
    guests: dict[tuple[str, str], list[Case]] = {}
    for share in todo:
        run = []
        for test, key in keys(share).items():
            kept = store.take("kselftest", key)
            if kept is None:
                run.append(test)
                continue
            cases += store.mark(kept.cases, kept.when)
            guests.setdefault((share.mode, kept.when), []).extend(kept.cases)
        if run:
            left.append(dataclasses.replace(share, tests=tuple(run)))
    for (mode, when), some in sorted(guests.items()):
        host.say(f"    {mode}: same image and tests as at {when}: "
                 f"{ktap.total(some)}, taken from the store")
    return left, cases


def keep(share: Share, before: dict[str, str | None],
         cases: list[Case]) -> None:
    """Keep what a guest's tests said, if all in it went well.

    A test is kept only if its key is now what it was before the guest booted: the
    guest reads this machine's files while it runs.
    """
    of = {test: _of_test(cases, share, test) for test in share.tests}
    if not all(of.values()) or any(case.status == ktap.FAIL
                                   for case in cases):
        return
    when, now = store.now(), keys(share)
    for test, some in of.items():
        if now[test] == before[test]:
            store.keep("kselftest", now[test], some, when=when)


# -- how long they take ------------------------------------------------------

def noted(path: Path) -> Durations:
    """Seconds by kernel and test, as a file has them; none if it cannot be read."""
    try:
        found = json.loads(path.read_text("utf-8"))
        return {mode: {test: float(took) for test, took in tests.items()}
                for mode, tests in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def durations() -> Durations:
    """Seconds that each test took when it last ran: mode -> test -> s."""
    usual, here = noted(USUAL), noted(store.folder() / DURATIONS)
    return {mode: usual.get(mode, {}) | here.get(mode, {})
            for mode in {*usual, *here}}


class Watch:
    """Sees in what a guest prints how long each of its tests takes."""

    BEGUN = re.compile(r"^# selftests: (\S+): (\S+)$")
    ENDED = re.compile(r"^(?:not )?ok \d+ selftests: (\S+): (\S+)")

    def __init__(self) -> None:
        self.start: dict[str, float] = {}
        self.took: dict[str, float] = {}

    def line(self, line: str) -> None:
        """Take one line of the guest's console."""
        line = line.strip()
        if found := self.BEGUN.match(line):
            self.start[":".join(found.groups())] = time.monotonic()
        elif found := self.ENDED.match(line):
            test = ":".join(found.groups())
            if test in self.start:
                self.took[test] = time.monotonic() - self.start.pop(test)

    def save(self, share: Share) -> None:
        """Note it for `make lava ARGS=record`."""
        if not self.took or share.scale != 1:
            return
        with _saving:
            known = noted(store.folder() / DURATIONS)
            known.setdefault(share.mode, {}).update(
                {test: round(took, 1) for test, took in self.took.items()})
            host.write(store.folder() / DURATIONS, json.dumps(known))


def seconds(mode: str, tests: Iterable[str]) -> dict[str, float]:
    """The seconds that each of these tests is thought to take."""
    took = noted(USUAL).get(mode, {})
    usual = sum(took.values()) / len(took) if took else UNKNOWN
    return {test: took.get(test, usual) for test in tests}


def deal(mode: str, tests: Sequence[str], hands: int) -> list[tuple[str, ...]]:
    """Deal tests out to so many guests, each to take about as long."""
    return deal_by(seconds(mode, tests), tests, hands)


def deal_by(took: Mapping[str, float], tests: Sequence[str],
            hands: int) -> list[tuple[str, ...]]:
    """Deal tests out by the seconds that each takes, in the order of tests."""
    sums = [0.0] * hands
    dealt: list[set[str]] = [set() for _ in range(hands)]
    for test in sorted(tests, key=lambda test: -took[test]):
        least = sums.index(min(sums))
        sums[least] += took[test]
        dealt[least].add(test)
    return [tuple(test for test in tests if test in hand) for hand in dealt]
