# SPDX-License-Identifier: GPL-2.0
"""Kept results, under a digest of their inputs.

Only results without a failure are kept. The screen and junit.xml mark results that are
taken from the store. `CLEAN=1` drops all.
"""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine import host, ktap
from engine.ktap import Case

# An unused result is removed after so many seconds.
OLD = 30 * 86400


@dataclass(frozen=True)
class Kept:
    """A kept result: its time, its cases, and other notes."""

    when: str
    cases: tuple[Case, ...]
    more: Any = None


# The list of installed packages, and the directories of programs. Installing a program
# by hand changes the time of its directory.
STATUS = Path("/var/lib/dpkg/status")
FOLDERS = tuple(Path(top) / name for top in ("/usr", "/usr/local") for name in (
    "bin", "sbin", "include", "lib", "lib/x86_64-linux-gnu"))
SETTINGS = ("/etc/mke2fs.conf", "/etc/ld.so.preload")
# Environment variables with directories that the compiler searches.
SEARCHED = ("CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH",
            "GCC_EXEC_PREFIX")
# The detail of a case from the store.
STORED = "taken from the store"


def folder() -> Path:
    """Return the directory of kept results, which all clones of a user share."""
    return host.WORK / "kept"


def digest(what: object) -> str:
    """Return a digest of numbers, texts, lists and dictionaries."""
    text = json.dumps(what, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def of_file(path: Path | str) -> str | None:
    """Return a digest of a file's content, or None if there is no such file."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def of_files(paths: Iterable[Path | str],
             top: Path | None = None) -> dict[str, str | None]:
    """Return digests of files, by their names below a directory."""
    return {str(path if top is None else Path(path).relative_to(top)):
            of_file(path) for path in sorted(paths)}


def installed() -> str:
    """Return a digest of this machine's packages, programs, libraries and headers."""
    return digest([of_file(STATUS), of_files(SETTINGS),
                   [os.environ.get(name) for name in SEARCHED],
                   [(str(path), path.stat().st_mtime_ns)
                    for path in FOLDERS if path.exists()]])


def _path(kind: str, key: str) -> Path:
    return folder() / kind / f"{key}.json"


def take(kind: str, key: str | None) -> Kept | None:
    """Return the result under this key, or None."""
    if key is None:
        return None
    path = _path(kind, key)
    try:
        found = json.loads(path.read_text("utf-8"))
        kept = Kept(found["when"], tuple(Case(*case)
                                         for case in found["cases"]),
                    found["more"])
        # Keep results that are in use.
        os.utime(path)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return kept


def keep(kind: str, key: str | None, cases: Iterable[Case], more: object = None,
         when: str | None = None) -> bool:
    """Keep a result without a failure; return whether it was kept."""
    if key is None or any(case.status == ktap.FAIL for case in cases):
        return False
    host.write(_path(kind, key), json.dumps({
        "when": when or now(), "more": more,
        "cases": [(case.name, case.status, case.detail) for case in cases]}))
    _prune(kind)
    return True


def once(kind: str, key: str | None,
         work: Callable[[], Iterable[Case]]) -> list[Case]:
    """Return the kept cases of a key, or run WORK and keep its cases."""
    kept = take(kind, key)
    if kept:
        return mark(kept.cases, kept.when)
    cases = list(work())
    keep(kind, key, cases)
    return cases


def now() -> str:
    """Return the time in the form that mark() prints."""
    return time.strftime("%Y-%m-%d %H:%M")


def _prune(kind: str) -> None:
    for path in (folder() / kind).glob("*.json"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > OLD:
                path.unlink()


def mark(cases: Iterable[Case], when: str) -> list[Case]:
    """Return the cases, each with the remark that it was not run now."""
    return [Case(case.name, case.status, "\n".join(
        [*case.detail.splitlines(), f"{STORED}: it ran at {when}"]))
        for case in cases]


def forget_if_asked() -> None:
    """`CLEAN=1 make check` runs everything again."""
    if os.environ.get("CLEAN"):
        host.say("    CLEAN: kept results are dropped")
        host.remove(folder())
