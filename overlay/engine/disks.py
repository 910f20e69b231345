# SPDX-License-Identifier: GPL-2.0
"""The NVMe controllers that the guests of kselftests have.

Their serial numbers tell the guest what they are (guest/kselftest.sh). Data is
in sparse files, made anew for each guest.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from engine import host

MEGABYTES = 64
# The label by which the tests know a device as theirs (uq_safe.c), and how long
# it is. A disk without one is read first, to see whether it is blank; that many
# reads at once can leave QEMU's interrupt line raised, as its shadow doorbells
# do not tell it of the last completion taken.
SAFE = host.ROOT / "tools" / "testing" / "selftests" / "uq" / "uq_safe.h"
LABEL_BYTES = 4096
# name: options of the controller. "slow" is throttled, so that commands stay
# in flight; "vector" has one interrupt, "few" three queues; of "main", so many
# commands may stay without an answer (tests of uq_timeout), and a transfer can be
# 4 MiB long, which takes several lists.
CONTROLLERS = {
    "main": "max_ioqpairs=16,aerl=15,mdts=10",
    "slow": "max_ioqpairs=16",
    "vector": "max_ioqpairs=16,msix_qsize=1",
    "few": "max_ioqpairs=3",
    "buffer": "max_ioqpairs=16,cmb_size_mb=16",
}
# Namespaces of one controller, with gaps between their numbers: blocks of 512
# and of 4096 bytes, metadata in a buffer of its own, metadata after each block.
MANY = {
    1: "",
    2: ",logical_block_size=4096,physical_block_size=4096",
    3: ",ms=8",
    5: ",ms=8,mset=1",
}
SLOW = ",throttling.iops-total=100"


def label() -> bytes:
    """What stands in the last bytes of a device that is the tests' own."""
    found, = re.findall(r'#define UQ_LABEL\s+"([^"]+)"',
                        SAFE.read_text(encoding="utf-8"))
    return str(found).encode().ljust(LABEL_BYTES, b"\0")


def _drive(folder: Path, name: str, options: str = "") -> str:
    """A new disk, as a drive of QEMU's."""
    path = folder / name
    host.remove(path)
    with path.open("wb") as file:
        file.truncate(MEGABYTES << 20)
        file.seek(-LABEL_BYTES, 2)
        file.write(label())
    return (f"-drive file={path},format=raw,if=none,id={name},cache=unsafe,"
            f"discard=unmap{options}")


def _single(folder: Path) -> Iterator[str]:
    for name, options in CONTROLLERS.items():
        yield _drive(folder, name, SLOW if name == "slow" else "")
        # Only namespaces of a subsystem can be detached.
        yield f"-device nvme-subsys,id={name}-subsys"
        yield (f"-device nvme,id={name}-ctrl,subsys={name}-subsys,"
               f"serial=overlay-{name},{options}")
        yield (f"-device nvme-ns,bus={name}-ctrl,drive={name},nsid=1,"
               "shared=off")


def _many(folder: Path) -> Iterator[str]:
    yield "-device nvme,id=many,serial=overlay-many,max_ioqpairs=16"
    for nsid, options in MANY.items():
        yield _drive(folder, f"many{nsid}")
        yield (f"-device nvme-ns,bus=many,drive=many{nsid},nsid={nsid}"
               f"{options}")


def _paths(folder: Path) -> Iterator[str]:
    """One namespace behind two controllers."""
    yield "-device nvme-subsys,id=paths"
    for name in ("path1", "path2"):
        yield (f"-device nvme,id={name},serial=overlay-paths,subsys=paths,"
               "max_ioqpairs=16")
    yield _drive(folder, "paths")
    yield "-device nvme-ns,bus=path1,drive=paths,nsid=1,shared=on"


def attach(folder: Path) -> tuple[str, ...]:
    """Options of QEMU for all of them; their files are in FOLDER."""
    host.remove(folder)
    folder.mkdir(parents=True)
    return (" ".join([*_single(folder), *_many(folder), *_paths(folder)]),)
