# SPDX-License-Identifier: GPL-2.0
"""Asking for all that a run will need, once, before anything takes long.

A cold run that stopped for packages wherever one was missing first would have
to be watched for an hour.
"""

import contextlib
import shutil
from collections.abc import Callable, Sequence

from bench import guests
from engine import build, docs, guest, host, kunit, lava, lint, series, share, source
from engine.host import UserError

NEEDS = {
    "demo": (build, guest, guests),
    "selftest": (),
    "lint": (build, lint),
    "kunit": (build, kunit),
    "kselftest": (build, guest, share),
    "docs": (build, docs),
    "series": (build, series),
    "lava": (lava,),
    "results": (),
}


def wanted(names: Sequence[str]) -> list[str]:
    """The packages of these commands, each once."""
    found = ["python3-venv", *(package for name in names for module in NEEDS[name]
                               for package in module.PACKAGES)]
    if "demo" in names:
        found.append("fio")
    if shutil.which("apt-get") and not source.fetched():
        found += source.PACKAGES
    if shutil.which("apt-get") and "lint" in names and not lint.has_sparse():
        found += source.SOURCES
    return list(dict.fromkeys(found))


def _fetch(names: Sequence[str]) -> None:
    """Python's tools and the kernel, at a time: each waits for the network."""
    def kernel() -> None:
        # The steps that need it say that it cannot be had.
        with contextlib.suppress(UserError, OSError):
            source.kernel()

    jobs: list[Callable[[], object]] = [lambda: host.pytool("vng")]
    if not source.fetched() and any(build in NEEDS[name] for name in names):
        jobs.append(kernel)
    host.at_once(lambda job: job(), [(job,) for job in jobs], len(jobs))


def ready(*names: str) -> None:
    """Install what these commands need, Python's tools too."""
    with host.step("looking for what this needs"):
        found = wanted(names)
        host.need(*found)
        _fetch(names)
        host.say(f"    {len(found)} packages and the Python tools are here")
