# SPDX-License-Identifier: GPL-2.0
"""Run fsx, the file system exerciser, in guests.

fsx changes a file at random, and compares it with the expected content. cargo builds
the version of fsx-rs by its lock file. `make soak` runs it on DAX file systems, as
overlay/guest/fsx.toml describes.
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
# The file systems of overlay/guest/fsx.sh, one per guest.
KINDS = ("ext4", "ext4-unlocked", "xfs", "xfs-reflink")


def cargo() -> str:
    """Return the package with a new enough cargo."""
    return "cargo-web" if source.release().get("VERSION_ID") == "12" else "cargo"


def program(log: Path) -> Path:
    """Return the path of fsx, and build it first if needed."""
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
    """Run fsx on one file system in a guest."""
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
    """Run fsx on all file systems, with as many guests at a time as memory allows."""
    kernel = KERNELS[mode]
    fsx = program(out / f"{NAME}.build.log")
    seed = os.environ.get("DAX_TEST_SEED") or secrets.randbelow(1 << 32)
    workers = min(limits.processors(), limits.memory() // kernel.takes())
    with host.step(f"{kernel.fsx} operations of {NAME} on each of {len(KINDS)} "
                   f"file systems, seed {seed}"):
        found = host.at_once(_one, [(mode, out, fsx, seed, kind)
                                    for kind in KINDS], workers)
    return [case for cases in found for case in cases]
