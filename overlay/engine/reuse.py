# SPDX-License-Identifier: GPL-2.0
"""Kselftests that need not run again, and how the others are dealt to guests.

The result of a test in a guest is kept under one key: the laid tree without its
documentation, the kernel's configuration, the files that boot and judge guests,
the options of the guest, and the packages of this machine. Results of a guest are
kept only if all of its tests passed without a kernel complaint.
"""

import dataclasses
import json
import platform
import re
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from engine import build, disks, guest, host, ktap, ran, repository, store
from engine.kernels import KERNELS
from engine.ktap import Case
from engine.share import Share

# Seconds by kernel and test.
Durations = dict[str, dict[str, float]]
# Seconds that tests took here, for `make lava ARGS=record`; and those on two cores,
# used to deal out tests.
DURATIONS = "durations.json"
USUAL = host.ROOT / "overlay" / "kselftest.seconds"
# Seconds of a test that never ran.
UNKNOWN = 60.0

_saving = threading.Lock()


def qemu() -> str | None:
    """Return QEMU's version, with the version of Debian's package."""
    return host.output([guest.qemu(), "--version"])


def _processor() -> list[str]:
    """Return this machine's processor and kernel, for guests under KVM."""
    names = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(
        "utf-8"), re.MULTILINE)
    return [platform.release(), platform.version(), *sorted(set(names))]


def key(mode: str, *more: object) -> str | None:
    """Return the key of a kernel's results; None on machines without dpkg."""
    if not store.STATUS.exists():
        return None
    laid = [line for line in repository.git(
        "ls-tree", "HEAD", at=build.tree()).splitlines()
        if not line.endswith("\tDocumentation")]
    return store.digest([
        laid, store.of_file(build.folder(mode) / ".config"), ran.guests(),
        store.installed(), qemu(), store.of_file(guest.qemu()),
        guest.accelerated() and _processor(),
        dataclasses.asdict(KERNELS[mode]), more])


def keys(share: Share) -> dict[str, str | None]:
    """Return the key of each test; None if its result is not kept."""
    if not KERNELS[share.mode].checked or share.scale != 1:
        return dict.fromkeys(share.tests)
    common = key(share.mode, share.nvme, share.restart, share.variables(),
                 share.hardware(), disks.given() if share.nvme else [])
    return {test: common and store.digest([common, test]) for test in share.tests}


def _of_test(cases: list[Case], share: Share, test: str) -> list[Case]:
    """A guest's cases that belong to one test."""
    if share.restart:
        return list(cases)
    name = re.escape(test.replace(":", ": ", 1))
    return [case for case in cases
            if re.match(rf"[^:]*: {name}(: |$)", case.name)]


def sift(todo: list[Share]) -> tuple[list[Share], list[Case]]:
    """Return the shares that must run, and the kept cases."""
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
    """Keep the results of a guest if it had no failure.

    A test is kept only if its key did not change since the guest booted: the
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
    """Measures the time of each test by the guest's output."""

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
