# SPDX-License-Identifier: GPL-2.0
"""The sources of results: the kernel, our files, and the engine's files.

Each step that tests kernels, and each build, notes its sources beside its results.
`make results` reports only results of the present sources.
"""

import contextlib
import functools
import hashlib
import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine import host, kernels, lay, source, store
from engine.host import UserError

# The steps that test kernels.
STEPS = ("kunit", "kselftest", "soak")
# The name of the notes.
FILE = "ran-of.json"
# These configure kernels, boot guests and judge their output.
CODE = [*(Path(__file__).with_name(f"{name}.py") for name in (
    "disks", "guest", "kernels", "kselftest", "ktap", "kunit", "plugins", "reuse",
    "share")), host.ROOT / "overlay" / "requirements.txt"]
# The digest of the loaded files, which may be edited during a run.
LOADED = store.of_files(CODE, host.ROOT)

# The sources of a run.
Of = dict[str, str]

# When each step of this run began.
_began: dict[str, float] = {}


def guests() -> str:
    """Return a digest of the files that configure kernels and boot guests."""
    files = [path for name in ("configs", "guest", "host")
             for path in (host.ROOT / "overlay" / name).iterdir() if path.is_file()]
    files += [host.ROOT / "overlay" / kernel.subset
              for kernel in kernels.KERNELS.values() if kernel.subset]
    return store.digest([LOADED, store.of_files(files, host.ROOT)])


def patchset() -> str:
    """Return KCIDB's hash of our files."""
    hashes = "".join(f"{store.of_file(host.ROOT / item.path)}\n"
                     for item in lay.items())
    return hashlib.sha256(hashes.encode()).hexdigest()


def now() -> Of:
    """Return the present sources."""
    src = source.kernel()
    return {"linux": src.version, "origin": src.origin, "commit": src.head or "",
            # EDIT=1 builds another work tree than the clone.
            "edited": "EDIT=1" if os.environ.get("EDIT") else source.edits(src),
            "folder": store.digest(str(src.path)) if src.origin == "kdir" else "",
            "patchset_hash": patchset(), "guests": guests()}


@functools.cache
def begun() -> Of:
    """Return the sources at the time when this run laid the tree."""
    return now()


def begin(step: str) -> None:
    """Note that a step begins."""
    _began[step] = time.time()


def end(step: str) -> None:
    """Note the sources of a step that ended, unless they changed while it ran."""
    path = host.OUT / step / FILE
    host.remove(path)
    # Do not fetch a kernel: nothing ran without one.
    if step not in STEPS or not source.fetched():
        return
    with contextlib.suppress(UserError, OSError):
        if begun() != now():
            host.say(f"    files changed while {step} ran: `make results` will leave "
                     "its results out")
            return
        host.write(path, json.dumps({
            **begun(), "start_time": datetime.fromtimestamp(
                _began.get(step, time.time()), UTC).isoformat(timespec="seconds")},
            indent=1) + "\n")


def note(path: Path) -> None:
    """Note the sources of a build that begins now."""
    host.write(path, json.dumps(begun(), indent=1) + "\n")


def noted(path: Path) -> dict[str, Any]:
    """Return the notes of a file; nothing if it cannot be read."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def same(path: Path, here: Of) -> bool:
    """Whether a file notes the present sources."""
    found = noted(path)
    return all(found.get(name) == value for name, value in here.items())
