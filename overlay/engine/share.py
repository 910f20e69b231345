# SPDX-License-Identifier: GPL-2.0
"""The kselftests of one guest, their options and its hardware."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from engine import guest
from engine.kernels import HARDWARE, KERNELS

PACKAGES = ("gcc", "make", "perl", "liburing-dev", "dmsetup", "e2fsprogs",
            "xfsprogs", "erofs-utils", "rsync", "linux-libc-dev", "coreutils",
            "fio", "nvme-cli", "diffutils", "findutils", "libc-bin", "mount")
# Packages that only build kselftests or boot guests.
ELSEWHERE = {"gcc", "liburing-dev", "linux-libc-dev", "make", "perl",
             "qemu-system-x86", "rsync", "systemd-standalone-tmpfiles"}
# Libraries that the built programs need.
LINKED = ("liburing2",)
# Variables that repeat a failure of a random test.
PASSED_ON = ("UQ_TEST_SEED", "UQ_TEST_FUZZ_OPS", "DAX_TEST_SEED")


def rootfs_packages() -> list[str]:
    """Return packages of tests beside Debian's essential ones."""
    return sorted({*PACKAGES, *guest.PACKAGES, *LINKED} - ELSEWHERE)


@dataclass(frozen=True)
class Share:
    """The tests of one guest."""

    mode: str
    name: str
    into: Path
    tests: tuple[str, ...]
    scale: int = 1
    append: tuple[str, ...] = ()
    restart: bool = False
    kind: str = ""
    nvme: bool = True

    def left_out(self) -> dict[str, str]:
        """Return options that leave out parts of tests.

        The same for all shares of a kind, so that results can be kept.
        """
        options = dict(KERNELS[self.mode].left_out)
        if self.kind:
            options.update(HARDWARE[self.kind].left_out)
        return {"KSELFTEST_" + re.sub(r"[^A-Z0-9_]", "_", test.partition(":")[2]
                                      .upper()) + "_ARGS": args
                for test, args in options.items() if args}

    def variables(self) -> dict[str, str | int]:
        """Return the environment of the tests."""
        kernel = KERNELS[self.mode]
        found: dict[str, str | int] = {"DAX_TEST_SCALE": self.scale,
                                       "UQ_TEST_SCALE": self.scale}
        if self.scale > 1:
            found.update(kernel.soak_variables)
        else:
            found.update(kernel.variables)
            found.update(self.left_out())
        return found | {name: os.environ[name] for name in PASSED_ON
                        if os.environ.get(name)}

    def hardware(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the guest's kernel parameters and QEMU options."""
        kernel = KERNELS[self.mode]
        other = HARDWARE[self.kind] if self.kind else None
        qemu = other.qemu if other else ()
        # `make soak` copies the other way
        words = kernel.by_words and self.scale == 1 and \
            (other is None or other.by_words)
        # without duplicates
        return (*guest.PMEM, *kernel.append, *self.append), tuple(dict.fromkeys(
            (*kernel.qemu, *qemu, *(guest.by_words() if words else ()))))
