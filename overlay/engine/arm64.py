# SPDX-License-Identifier: GPL-2.0
"""Guests of `make arm64`: QEMU's virt machine, with pmem in its device tree.

The root file system is Debian's, unpacked; tests are linked with its libraries. TCG on
x86 does not reorder loads and stores as arm64 does, so no test can fail of it here.
"""

from pathlib import Path

from engine import guest, host, share, source
from engine.guest import Machine

PACKAGES = ("device-tree-compiler", "gcc-aarch64-linux-gnu", "mmdebstrap",
            "qemu-system-arm")
SUITE = "bookworm"
# In the root beside the programs of artifacts: what is essential, and what tests are
# built with.
ROOT = ("base-files", "base-passwd", "bash", "gzip", "liburing-dev", "libc6-dev",
        "linux-libc-dev", "mawk", "perl-base", "tar", "udev")


def root() -> Path:
    """Return the root file system, which is unpacked first if needed."""
    into = host.WORK / "tools" / f"arm64-{SUITE}"

    def unpack() -> None:
        host.need(*PACKAGES)
        apt = source.private_apt(SUITE)
        options = apt.path / "options"
        # Without the architecture of this machine.
        host.write(options, source.kept_options("Acquire"))
        with host.step(f"unpacking {SUITE} for arm64"):
            host.run(["sh", host.PROGRAMS / "arm64-root.sh", into, SUITE,
                      ",".join({*share.rootfs_packages(), *ROOT}), options,
                      apt.sources.strip()])
        host.remove(apt.path)

    return source.once(into, unpack)


def command(folder: Path, memory: int, machine: Machine, script: Path,
            result: Path) -> list[str]:
    """Return the command line of one boot, as guest.command() does."""
    host.need(*PACKAGES)
    append = [*guest.WHOLE_LOG, *(text for text in machine.append
                                  if text not in guest.PMEM)]
    return ["sh", *map(str, (host.PROGRAMS / "arm64-boot.sh", folder, root(), result,
                             script, guest.SCRIPTS / "arm64.sh", machine.processors(),
                             " ".join(append))), *" ".join(machine.qemu).split()]
