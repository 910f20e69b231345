# SPDX-License-Identifier: GPL-2.0
"""Which kselftests need not run again, and how the others are dealt out.

A test's result in a guest is kept by all that can change it: the kernel's
image and modules, the program and the files beside it, the guest's scripts,
what the guest is given (parameters, disks, variables), and the programs of
this machine that it calls. A guest boots only for the tests of which one of
these changed. It is the guest that is judged for splats and leaks: unless it
came to its end without any failure, none of its results is kept.

Where a guest has no NVMe controller, no function of NVMe's driver runs but
those that register it: of such a guest's kernel only the rest counts.
"""

import contextlib
import dataclasses
import functools
import json
import os
import platform
import re
import shutil
import struct
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from engine import build, disks, guest, host, ktap, lay, limits, packages, source, store
from engine.host import UserError
from engine.kernels import KERNELS
from engine.ktap import Case
from engine.share import Share

# Where a guest looks for programs (guest/run.sh).
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# What tests call if it is there, beside what the packages bring; a program that
# stands nowhere is as much of an input as one that is there.
PROGRAMS = ("bash", "stdbuf", "udevadm", "xfs_io")
# Where the compiler also looks for headers and libraries.
SEARCHED = ("CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH",
            "GCC_EXEC_PREFIX")
# What the result of each test is judged by, and booted by.
CODE = ("guest.py", "plugins.py", "disks.py", "kselftest.py", "share.py", "ktap.py",
        "reuse.py")
SETTINGS = ("/etc/mke2fs.conf",)
# What tells the loader where libraries are.
LOADER = ("/etc/ld.so.cache", "/etc/ld.so.preload")
# What a kernel is known by; packages: (version, what it needs, always there);
# and seconds by kernel and test.
Kernel = dict[str, str | None] | str
Installed = dict[str, tuple[str, list[str], bool]]
Durations = dict[str, dict[str, float]]
# As they are now that they are loaded; they may be edited while we run.
# By their names alone: another clone is to find what this one has kept.
LOADED = store.of_files((Path(__file__).parent / name for name in CODE),
                        Path(__file__).parent)
SCRIPTS = ("run.sh", "kselftest.sh", "disks.sh", "restart.sh")
# Seconds that tests took: where they ran last, and on two cores, for a machine
# where none ran yet.
DURATIONS = "durations.json"
USUAL = host.ROOT / "overlay" / "kselftest.seconds"
# Seconds that a test of a kernel is thought to take before any was seen.
UNKNOWN = 60.0

# Sections of an ELF file: what is the program's own, is loaded, is executed.
PROGBITS, ALLOC, EXECUTED = 1, 2, 4

_saving = threading.Lock()


# -- the machine -------------------------------------------------------------

def _state() -> int:
    """Changes whenever dpkg installs something, perhaps while we run."""
    with contextlib.suppress(OSError):
        return Path("/var/lib/dpkg/status").stat().st_mtime_ns
    return 0


def _installed() -> Installed:
    """Debian's packages: name -> (version, names it depends on, always)."""
    return _installed_at(_state())


@functools.cache
def _installed_at(_: object) -> Installed:
    fields = "${Package}\t${Version}\t${Essential}\t${Pre-Depends}, " \
        "${Depends}\t${Provides}\n"
    try:
        done = subprocess.run(["dpkg-query", "-W", "-f", fields], text=True,
                              capture_output=True, check=False)
    except FileNotFoundError:
        return {}
    found: Installed = {}
    named: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        name, version, essential, needs, provides = line.split("\t")
        wants = re.findall(r"(?:^|[,|]) *([\w.+-]+)", needs)
        found[name] = (version, wants, essential == "yes")
        for other in re.findall(r"(?:^|,) *([\w.+-]+)", provides):
            named.setdefault(other, []).append(name)
    return {name: (version, [real for word in wants
                             for real in (word, *named.get(word, ()))], always)
            for name, (version, wants, always) in found.items()}


def closure(names: Iterable[str], installed: Installed) -> dict[str, str]:
    """The versions of these packages and of all that they stand on."""
    left = [*names, *(name for name, (_, _, always) in installed.items()
                      if always)]
    found = {}
    while left:
        name = left.pop()
        if name not in found and name in installed:
            found[name] = installed[name][0]
            left += installed[name][1]
    return found


def libraries(paths: Iterable[Path | str]) -> dict[str, str | None]:
    """The libraries that programs are linked with, and what is in them.

    A library that was built here may lie over that of a package, or before it.
    """
    named = tuple(sorted(map(str, paths)))
    return store.of_files(_found_for(named, tuple(map(_seen, (*named, *LOADER)))))


def _seen(path: str) -> tuple[int, ...]:
    """Changes with a file."""
    with contextlib.suppress(OSError):
        stat = Path(path).stat()
        return stat.st_ino, stat.st_size, stat.st_mtime_ns
    return ()


@functools.cache
def _found_for(paths: tuple[str, ...], _: object) -> frozenset[str]:
    """The libraries that the loader finds for programs.

    ldd starts two processes for each, and each guest asks for some 300. A run asks
    again when a program changes or ldconfig has run, and not for a library that
    appears in a folder before those that ldconfig knows.
    """
    done = subprocess.run(["ldd", *paths], capture_output=True, text=True,
                          check=False)
    return frozenset(re.findall(r"(?:=> |^\t)(/\S+) \(", done.stdout,
                                re.MULTILINE))


def _program(name: str) -> str | None:
    return shutil.which(name, path=PATH)


def qemu() -> str | None:
    """What QEMU says of its version, which has that of Debian's package."""
    return host.output([guest.qemu(), "--version"])


def _firmware() -> dict[str, str | None]:
    """What QEMU finds in its folders and loads into a guest."""
    folders = (host.output([guest.qemu(), "-L", "help"]) or "").split()
    return store.of_files(path for folder in folders for kind in ("bin", "rom")
                          for path in Path(folder).glob(f"*.{kind}"))


def _processor() -> list[str]:
    """This machine's processor and kernel, which a guest has under KVM."""
    names = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(
        "utf-8"), re.MULTILINE)
    return [platform.release(), platform.version(), *sorted(set(names))]


def emulator() -> list[object]:
    """What guests that call nothing of this machine are run by."""
    return [qemu(), store.of_file(guest.qemu()), _firmware(),
            guest.accelerated() and _processor(), store.of_files(
                (host.PROGRAMS / name for name in guest.BARRIERS), host.PROGRAMS),
            _tools((host.ROOT / "overlay" / "requirements.txt")
                   .read_text("ascii"))]


def boots() -> dict[str, str]:
    """The packages that every guest calls, and all that they stand on."""
    return closure(guest.PACKAGES, _installed())


def machine(names: tuple[str, ...]) -> str:
    """A digest of what guests, and these packages in them, are run by."""
    return _machine(names, _state())


@functools.cache
def _machine(names: tuple[str, ...], _: object) -> str:
    installed = _installed()
    called = {*PROGRAMS, *packages.programs((*names, *guest.PACKAGES))}
    programs = {name: _program(name) for name in called}
    there = [path for path in programs.values() if path]
    return store.digest({
        "emulator": emulator(),
        "programs": programs, "files": store.of_files(there),
        "libraries": libraries(there),
        "packages": closure((*names, *guest.PACKAGES), installed),
        "code": LOADED,
        "settings": store.of_files(SETTINGS),
    })


def _tools(pins: str) -> list[str]:
    """Of the Python tools the one that boots guests; it needs none to do so."""
    return [line for line in pins.splitlines()
            if line.startswith("virtme-ng==")]


def versions(names: tuple[str, ...]) -> str:
    """A digest of these packages and all they stand on, and of the compiler."""
    return _versions(names, _state())


@functools.cache
def _versions(names: tuple[str, ...], _: object) -> str:
    return store.digest([closure(names, _installed()),
                         host.output(["gcc", "-v"]),
                         {name: os.environ.get(name) for name in SEARCHED}])


def liburing() -> dict[str, str | None]:
    """What the tests' programs include with liburing.

    It may be built here: its own `make install` leaves a package's version as it is.
    """
    done = subprocess.run(
        ["gcc", "-M", "-x", "c", "-"], input="#include <liburing.h>\n",
        capture_output=True, text=True, check=False)
    return store.of_files(set(re.findall(r"/\S+\.h", done.stdout)))


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


# What is in no kernel, and what no kernel runs that has no such device.
NO_KERNEL = ("Documentation/", "tools/")
NVME = "drivers/nvme/"


def without_nvme(mode: str) -> str | None:
    """A digest of what a kernel is built from, without NVMe's drivers.

    None over a KDIR, which may change under us.
    """
    src = source.kernel()
    if src.origin != "debian":
        return None
    return store.digest({
        "over": src.version, "compiler": versions(build.PACKAGES),
        "config": store.of_file(build.folder(mode) / ".config"),
        "laid": store.of_files(
            build.tree() / item.target for item in lay.items()
            if not item.target.startswith((*NO_KERNEL, NVME)))})


def _kernel_of(share: Share) -> Kernel | None:
    """What of its kernel a share's results hang on; None if it is not there."""
    image = kernel(share.mode)
    if None in image.values():
        return None
    return image if share.nvme else without_nvme(share.mode) or image


def programs_from(folders: list[str], names: tuple[str, ...]) -> str | None:
    """A digest of what the programs of kselftests are built from.

    None over a KDIR, which may change under us.
    """
    src = source.kernel()
    if src.origin != "debian":
        return None
    items = [item for item in lay.items()
             if not item.target.startswith("Documentation/")]
    return store.digest({
        "folders": folders, "over": src.version,
        "laid": store.of_files(build.tree() / item.target for item in items),
        "compiler": versions((*build.PACKAGES, *names)),
        "liburing": liburing()})


def built_from(mode: str, programs: str | None) -> str | None:
    """A digest of what a mode's kselftests are built from, their modules too."""
    return programs and store.digest({
        "programs": programs, "kernel": kernel(mode),
        "symbols": store.of_file(build.folder(mode) / "Module.symvers")})


def _is_program(path: Path) -> bool:
    return os.access(path, os.X_OK)


def _data_of(elf: bytes) -> bytes:
    """What a 64-bit ELF program has as data: no code, and no symbols' names.

    A function may well have the name of another program.
    """
    at, = struct.unpack_from("<Q", elf, 0x28)
    size, count = struct.unpack_from("<HH", elf, 0x3a)
    found = []
    for number in range(count):
        kind, flags, _, start, length = struct.unpack_from(
            "<IQQQQ", elf, at + number * size + 4)
        if kind == PROGBITS and flags & ALLOC and not flags & EXECUTED:
            found.append(elf[start:start + length])
    return b"\0".join(found)


@functools.cache
def _names_in(path: Path, *_: object) -> frozenset[bytes]:
    """All the words in a file that could be the name of another."""
    text = Path(path).read_bytes()
    if text.startswith(b"\x7fELF\2"):
        text = _data_of(text)
    return frozenset(re.findall(rb"[\w.-]{3,}", text))


def files(into: Path, test: str) -> dict[str, str | None]:
    """The installed files that take part in one test.

    Whatever is beside it and is no program, such as lib.sh and modules, and
    those programs that it names, or that what it names does. What is there to be
    read by people names all, and takes part in none.
    """
    folder, _, name = test.partition(":")
    here = into / folder
    beside = {path for path in here.rglob("*") if path.is_file()
              and not path.name.startswith("README")}
    other = {path for path in beside if _is_program(path)}
    found = (beside - other) | {here / name}
    left = list(found)
    while left:
        path = left.pop()
        if not path.exists():
            continue
        stat = path.stat()
        words = _names_in(path, stat.st_size, stat.st_mtime_ns)
        new = {one for one in other if one.name.encode() in words} - found
        found |= new
        left += new
    runner = {into / "run_kselftest.sh", *(into / "kselftest").glob("*")}
    return store.of_files(found | runner, into)


def _as_of(into: Path) -> tuple[int, ...]:
    """Changes whenever programs or packages are installed."""
    try:
        return _state(), (into / "kselftest-list.txt").stat().st_mtime_ns
    except OSError:
        return _state(), 0


@functools.cache
def _linked(into: Path, *_: object) -> str:
    """A digest of the libraries of all installed programs."""
    return store.digest(libraries(path for path in into.rglob("*")
                                  if path.is_file() and _is_program(path)))


def key(share: Share, test: str) -> str | None:
    """What a test's result in a guest is kept under; None if it is not."""
    # Other kernels are for looking again, and for longer.
    settings = KERNELS[share.mode]
    if not settings.checked or share.scale != 1:
        return None
    image = _kernel_of(share)
    if image is None:
        return None
    name = "uq:uq_kexec" if share.restart else test
    return store.digest({
        "machine": machine(share.packages()), "kernel": image,
        "settings": dataclasses.asdict(settings), "test": test,
        "nvme": share.nvme,
        "files": files(share.into, name), "restart": share.restart,
        "libraries": _linked(share.into, *_as_of(share.into)),
        "scripts": store.of_files((guest.SCRIPTS / name for name in SCRIPTS),
                                  guest.SCRIPTS),
        "variables": share.variables(), "hardware": share.hardware(),
        "disks": disks.given() if share.nvme else [],
    })


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
        for test in share.tests:
            kept = store.take("kselftest", key(share, test))
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

    A test is kept only if what went into it is what went into it at the start: the
    guest reads this machine's files while it runs.
    """
    of = {test: _of_test(cases, share, test) for test in share.tests}
    if not all(of.values()) or any(case.status == ktap.FAIL
                                   for case in cases):
        return
    when, now = store.now(), _keys_anew(share)
    for test, some in of.items():
        if now[test] == before[test]:
            store.keep("kselftest", now[test], some, when=when)


def _keys_anew(share: Share) -> dict[str, str | None]:
    """Its keys by another look at this machine's programs and libraries."""
    _machine.cache_clear()
    _linked.cache_clear()
    return keys(share)


def keys(share: Share) -> dict[str, str | None]:
    """The keys of a share's tests, taken before its guest boots and after."""
    return {test: key(share, test) for test in share.tests}


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
        """Note it for the next run, which deals out by it."""
        if not self.took or share.scale != 1:
            return
        with _saving:
            known = noted(store.folder() / DURATIONS)
            known.setdefault(share.mode, {}).update(
                {test: round(took, 1) for test, took in self.took.items()})
            host.write(store.folder() / DURATIONS, json.dumps(known))


class Gate:
    """Lets as many guests run at a time as the machine has room for.

    A guest waits for clocks and answers as much as it computes. As many as
    there are processors may run in any case, more of them while processors
    stand idle; each needs its memory.
    """

    EVERY = 10              # seconds from one look at the load to the next
    IDLE = 0.6              # of a processor, for one guest more

    def __init__(self, takes: int) -> None:
        self.processors = limits.processors()
        self.most = max(1, min(2 * self.processors,
                               limits.memory() // takes))
        self.running = 0
        self.load = limits.Load()
        self.turn = threading.Condition()
        self.began = time.monotonic()

    def _room(self) -> bool:
        """Whether one more may start now."""
        if self.running < min(self.processors, self.most):
            return True
        now = time.monotonic()
        if self.running >= self.most or now - self.began < self.EVERY:
            return False
        self.began = now
        return self.load.look() <= self.processors - self.IDLE

    def __enter__(self) -> None:
        with self.turn:
            while not self._room():
                self.turn.wait(1)
                if host.STOPPING.is_set():
                    raise UserError("it was ended before it began")
            self.running += 1
            # What it does to the load is yet to be seen.
            self.began = time.monotonic()
            self.load.look()

    def __exit__(self, *_: object) -> None:
        with self.turn:
            self.running -= 1
            self.turn.notify_all()


def seconds(share: Share) -> dict[str, float]:
    """The tests of a share, and the seconds that each is thought to take."""
    took = durations().get(share.mode, {})
    usual = sum(took.values()) / len(took) if took \
        else UNKNOWN
    return {test: took.get(test, usual) for test in share.tests}


def expected(share: Share) -> float:
    """Seconds that a share is thought to take; a guest's start is one test."""
    took = durations().get(share.mode, {})
    usual = sum(took.values()) / len(took) if took \
        else UNKNOWN
    return usual + sum(seconds(share).values())


def deal(mode: str, tests: Sequence[str], hands: int) -> list[tuple[str, ...]]:
    """Deal tests out to so many guests, each to take about as long."""
    took = durations().get(mode, {})
    if not took:
        return [tuple(tests[first::hands]) for first in range(hands)]
    usual = sum(took.values()) / len(took)
    return deal_by({test: took.get(test, usual) for test in tests}, tests, hands)


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
