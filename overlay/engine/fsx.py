# SPDX-License-Identifier: GPL-2.0
"""fsx, which changes a file at random and knows what it should hold, in guests.

It is the file system exerciser that fsx-rs has written anew, fetched and compiled
by cargo from the registry that cargo is set up with, with the versions of all that
it needs as its own lock file has them. `make soak` has it read, write and map files
of DAX file systems, by overlay/guest/fsx.toml.
"""

import os
import secrets
from pathlib import Path

from engine import guest, host, limits, source
from engine.kernels import KERNELS
from engine.ktap import Case, parse

NAME = "fsx"
VERSION = "0.3.2"
PACKAGES = ("gcc", "libc6-dev", "e2fsprogs", "xfsprogs")
# The file systems of overlay/guest/fsx.sh, each in a guest of its own.
KINDS = ("ext4", "ext4-unlocked", "xfs", "xfs-reflink")


def cargo() -> str:
    """Return the package with a new enough cargo."""
    return "cargo-web" if source.release().get("VERSION_ID") == "12" else "cargo"


def program(log: Path) -> Path:
    """fsx, compiled if it is not there yet."""
    into = host.WORK / "tools" / f"{NAME}-{VERSION}"
    there = into / "bin" / NAME
    if there.exists():
        return there
    host.need(*PACKAGES, cargo())
    with host.step(f"building {NAME} {VERSION} ({host.short(log)})"):
        host.run(["cargo", "install", "--locked", "--version", VERSION,
                  "--root", into, NAME], log=log, what=f"building {NAME}")
    return there


def _one(mode: str, out: Path, fsx: Path, seed: int | str,
         kind: str) -> list[Case]:
    """So many operations of it on one file system, in a guest of a kernel."""
    kernel = KERNELS[mode]
    name = f"{mode}-{NAME}-{kind}"
    machine = guest.Machine(append=(*guest.PMEM, *kernel.append),
                            qemu=kernel.qemu, timeout=kernel.guest_timeout)
    ran = guest.boot(
        mode, f"exec sh {guest.SCRIPTS}/fsx.sh {fsx} {kernel.fsx} {seed} {kind}\n",
        name=name, out=out, machine=machine)
    return [Case(f"{mode}-{NAME}: {case.name}", case.status, case.detail)
            for case in parse(ran.ktap)] + ran.cases()


def run(mode: str, out: Path) -> list[Case]:
    """All file systems, in as many guests at a time as there is room for."""
    kernel = KERNELS[mode]
    fsx = program(out / f"{NAME}.build.log")
    seed = os.environ.get("DAX_TEST_SEED") or secrets.randbelow(1 << 32)
    workers = min(limits.processors(), limits.memory() // kernel.takes())
    with host.step(f"{kernel.fsx} operations of {NAME} on each of {len(KINDS)} "
                   f"file systems, seed {seed}"):
        found = host.at_once(_one, [(mode, out, fsx, seed, kind)
                                    for kind in KINDS], workers)
    return [case for cases in found for case in cases]
