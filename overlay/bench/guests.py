# SPDX-License-Identifier: GPL-2.0
"""Compile measuring programs, and boot guests that run them."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import profiles as functions
from bench import results
from bench.profiles import Profiles
from engine import build, guest, host, ktap, plugins
from engine.guest import Machine
from engine.host import UserError

PACKAGES = ("gcc", "libc6-dev", "liburing-dev")
PROGRAMS = Path(__file__).parent
FLAGS = ("-O2", "-Wall", "-Wextra", "-Wno-missing-field-initializers")
PMEM = ("memmap=512M!1G", "nokaslr")
# A guest that counts instructions as time.
COUNTING = Machine(append=PMEM, icount=True)


def compiled(out: Path, name: str, *flags: str) -> Path:
    """Return a measuring program, and compile it into OUT first if needed."""
    target = out / name
    if not target.exists():
        host.need(*PACKAGES)
        out.mkdir(parents=True, exist_ok=True)
        host.run(["gcc", *FLAGS, *flags, "-o", target, PROGRAMS / f"{name}.c"],
                 log=out / "compile.log", what=f"compiling {name}.c")
    return target


@functools.cache
def compiler() -> str:
    """Return the name of the compiler in results.json."""
    output = host.output(["gcc", "-dumpversion"]) or "unknown"
    return f"gcc {output.strip().partition('.')[0]}"


def plugin(name: str) -> Path:
    """Return a plugin of QEMU."""
    return plugins.compiled(name, guest.qemu_version())


def profiles(mode: str, out: Path, name: str,
             run: Callable[[str], str]) -> Profiles:
    """Return profiles of RUN, which boots a guest with an option of QEMU."""
    raw = out / f"{name}.raw"
    host.remove(raw)
    output = run(f"-plugin {plugin('insnprof')},out={raw}")
    system_map = build.folder(mode) / "System.map"
    return functions.profiles(output, raw.read_text("ascii"),
                           system_map.read_text("ascii"))


def boot(mode: str, out: Path, name: str, script: str,
         command: tuple[Any, ...], machine: Machine = COUNTING) -> str:
    """Boot a guest, run a measuring script of PROGRAMS, and return its output."""
    words = " ".join(f"'{word}'" for word in command)
    ran = guest.boot(mode, f"exec sh '{PROGRAMS}/{script}' {words}\n",
                     name=name, out=out, machine=machine)
    bad = [case for case in ran.cases() if case.status == ktap.FAIL]
    if bad:
        raise UserError(f"{bad[0].name} failed: "
                        f"{bad[0].detail.splitlines()[0]}")
    results.check_complete(ran.ktap)
    return ran.ktap
