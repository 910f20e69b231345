# SPDX-License-Identifier: GPL-2.0
"""The CPUs and the memory that affinity and cgroups allow."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


def _groups() -> Iterator[Path]:
    """Yield the directories of our cgroup and of its ancestors."""
    try:
        _, _, path = Path("/proc/self/cgroup").read_text("ascii").partition("0::")
    except OSError:
        return
    # In a container, our own group may be the visible root.
    at = CGROUP / path.strip().lstrip("/")
    yield CGROUP
    while at != CGROUP:
        yield at
        at = at.parent


def _read(path: Path) -> list[str]:
    try:
        return path.read_text("ascii").split()
    except (OSError, UnicodeDecodeError):
        return []


def _quota(group: Path) -> float | None:
    """Return the number of CPUs that a cgroup may use, or None."""
    words = _read(group / "cpu.max")
    try:
        quota, period = map(int, words)
    except ValueError:
        return None
    return quota / period if quota > 0 and period > 0 else None


def processors() -> int:
    """Return the number of CPUs that we may use."""
    quotas = [quota for group in _groups()
              if (quota := _quota(group)) is not None]
    return max(1, int(min([len(os.sched_getaffinity(0)), *quotas])))


def _free(group: Path) -> int | None:
    """Return the free bytes of a cgroup with droppable page cache, or None."""
    try:
        most, now = (int(_read(group / f"memory.{name}")[0])
                     for name in ("max", "current"))
    except (IndexError, ValueError):
        return None
    words = _read(group / "memory.stat")
    stat = dict(zip(words[::2], words[1::2], strict=False))
    return most - now + int(stat.get("inactive_file", 0))


def memory() -> int:
    """Return the bytes that programs can use without swapping."""
    free = [left for group in _groups() if (left := _free(group)) is not None]
    for line in Path("/proc/meminfo").read_text("ascii").splitlines():
        if line.startswith("MemAvailable:"):
            free.append(int(line.split()[1]) * 1024)
    return max(0, min(free, default=0))


def _busy() -> tuple[int, int]:
    """Return the busy jiffies and the total jiffies of all CPUs."""
    words = _read(Path("/proc/stat"))
    times = [int(word) for word in words[1:9]]
    return sum(times) - times[3] - times[4], sum(times)


def _ours() -> float:
    """Return the CPU seconds of this process and its children that ended."""
    times = os.times()
    return times.user + times.system + times.children_user \
        + times.children_system


class Others:
    """Measure how many CPUs run other programs."""

    def __init__(self) -> None:
        self.last, self.ours, self.at = _busy(), _ours(), time.monotonic()

    def look(self) -> float:
        """Return the average number of CPUs that others used since the last look."""
        last, ours, at = self.last, self.ours, self.at
        self.last, self.ours, self.at = _busy(), _ours(), time.monotonic()
        work, there = self.last[0] - last[0], self.last[1] - last[1]
        busy = (os.cpu_count() or 1) * work / there if there else 0.0
        return max(0.0, busy - (self.ours - ours) / max(self.at - at, 1e-9))
