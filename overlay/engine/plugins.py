# SPDX-License-Identifier: GPL-2.0
"""QEMU's plugins of ours (overlay/host), compiled for the QEMU that is here."""

import os
import threading
from pathlib import Path

from engine import host, store

PACKAGES = ("gcc", "libc6-dev")
FLAGS = ("-O2", "-Wall", "-Wextra", "-shared", "-fPIC")
# Guests begin at the same time.
_compiling = threading.Lock()


def interface(version: tuple[int, ...]) -> int:
    """Return the version of a QEMU's plugin interface."""
    if version < (9, 0):
        return 1
    return 2 if version < (9, 1) else 3


def _key(name: str, api: int) -> str:
    """Return a digest of the sources of a plugin."""
    return store.digest([api, FLAGS, host.output(["gcc", "-dumpfullversion"]),
                         *(store.of_file(host.PROGRAMS / file)
                           for file in (f"{name}.c", "plugin.h"))])


def compiled(name: str, version: tuple[int, ...]) -> Path:
    """A plugin for a QEMU of this version, in the work folder."""
    host.need(*PACKAGES)
    api = interface(version)
    with _compiling:
        target = host.WORK / "plugins" / f"{name}-{_key(name, api)[:16]}.so"
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            new = target.with_suffix(".new")
            host.run(["gcc", *FLAGS, f"-DPLUGIN_API={api}", "-o", new,
                      host.PROGRAMS / f"{name}.c"],
                     log=target.with_suffix(".log"),
                     what=f"compiling {name}.c")
            os.replace(new, target)
    return target
