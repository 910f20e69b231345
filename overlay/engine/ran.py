# SPDX-License-Identifier: GPL-2.0
"""The sources of results: the kernel, our files, and the engine's.

A step that tests kernels leaves it beside its results, and so does each build
beside its status. `make results` reports those that are of what is here now: after
another KDIR, a patch that was taken away or a configuration that was edited, those
from before are of a tree that is not here any more.
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
# The file that a step leaves.
FILE = "ran-of.json"
# These configure kernels, boot guests and judge their output.
CODE = [*(Path(__file__).with_name(f"{name}.py") for name in (
    "disks", "guest", "kernels", "kselftest", "ktap", "kunit", "plugins", "reuse",
    "share")), host.ROOT / "overlay" / "requirements.txt"]
# Their content when they were loaded: they may be edited during a run.
LOADED = store.of_files(CODE, host.ROOT)

# Two runs tested the same if these are equal.
Of = dict[str, str]

# When each step of this run began.
_began: dict[str, float] = {}


def guests() -> str:
    """A digest of the files that configure kernels, and boot and judge guests."""
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
    """The sources of builds, runs and artifacts."""
    src = source.kernel()
    return {"linux": src.version, "origin": src.origin, "commit": src.head or "",
            # `make results` is of the clone, and EDIT=1 of another work tree.
            "edited": "EDIT=1" if os.environ.get("EDIT") else source.edits(src),
            "folder": store.digest(str(src.path)) if src.origin == "kdir" else "",
            "patchset_hash": patchset(), "guests": guests()}


@functools.cache
def begun() -> Of:
    """What all of this run is of: the tree is laid once, and then."""
    return now()


def begin(step: str) -> None:
    """A step begins."""
    _began[step] = time.time()


def end(step: str) -> None:
    """Note the sources of a step that ended.

    If something changed while it ran, they are of no one tree, and nothing is noted.
    """
    path = host.OUT / step / FILE
    host.remove(path)
    # Without a kernel nothing ran, and it is not fetched to say so.
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
