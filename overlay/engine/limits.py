# SPDX-License-Identifier: GPL-2.0
"""How many processors and how much memory we may use.

A container is often given less than the machine has: processors by affinity
or a quota, memory by a limit of its cgroup.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


def _groups() -> Iterator[Path]:
    """The folders of our cgroup and of those above it, of both versions."""
    try:
        lines = Path("/proc/self/cgroup").read_text("ascii").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        tops = [CGROUP / name for name in controllers.split(",") if name] \
            if controllers else [CGROUP]
        for top in tops:
            # Inside a container its own group may be the root that it sees.
            at = top / path.lstrip("/")
            yield top
            while at != top:
                yield at
                at = at.parent


def _read(path: Path) -> list[str]:
    try:
        return path.read_text("ascii").split()
    except (OSError, UnicodeDecodeError):
        return []


def _quota(group: Path) -> float | None:
    """The processors that a cgroup may use at a time, or None."""
    words = _read(group / "cpu.max") or [
        *_read(group / "cpu.cfs_quota_us"),
        *_read(group / "cpu.cfs_period_us")]
    try:
        quota, period = map(int, words)
    except ValueError:
        return None
    return quota / period if quota > 0 and period > 0 else None


def processors() -> int:
    """As many compilers or guests as this many can run at a time."""
    quotas = [quota for group in _groups()
              if (quota := _quota(group)) is not None]
    return max(1, int(min([len(os.sched_getaffinity(0)), *quotas])))


def _free(group: Path) -> int | None:
    """Bytes that a cgroup has left, or None; what can be dropped counts."""
    for limit, used in (("memory.max", "memory.current"),
                        ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        try:
            most, now = int(_read(group / limit)[0]), \
                int(_read(group / used)[0])
        except (IndexError, ValueError):
            continue
        words = _read(group / "memory.stat")
        stat = dict(zip(words[::2], words[1::2], strict=False))
        return most - now + int(stat.get("inactive_file", 0))
    return None


def memory() -> int:
    """Bytes that programs can have without swapping."""
    free = [left for group in _groups() if (left := _free(group)) is not None]
    for line in Path("/proc/meminfo").read_text("ascii").splitlines():
        if line.startswith("MemAvailable:"):
            free.append(int(line.split()[1]) * 1024)
    return max(0, min(free, default=0))


def _busy() -> tuple[int, int]:
    """Jiffies that all processors worked, and that they were there."""
    words = _read(Path("/proc/stat"))
    times = [int(word) for word in words[1:9]]
    return sum(times) - times[3] - times[4], sum(times)


class Load:
    """How many processors were busy since the last look."""

    def __init__(self) -> None:
        self.last = _busy()

    def look(self) -> float:
        """Processors in use, on average since the last look."""
        now = _busy()
        work, there = (new - old for new, old in
                       zip(now, self.last, strict=True))
        self.last = now
        return (os.cpu_count() or 1) * work / there if there else 0.0


def _ours() -> float:
    """Seconds that we, and programs of ours that have ended, had a processor."""
    times = os.times()
    return times.user + times.system + times.children_user \
        + times.children_system


class Others(Load):
    """How many processors were busy with others' work since the last look."""

    def __init__(self) -> None:
        super().__init__()
        self.ours, self.at = _ours(), time.monotonic()

    def look(self) -> float:
        """Processors that others use, on average since the last look."""
        busy, ours, at = super().look(), _ours(), time.monotonic()
        used = (ours - self.ours) / max(at - self.at, 1e-9)
        self.ours, self.at = ours, at
        return max(0.0, busy - used)
