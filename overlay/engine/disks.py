# SPDX-License-Identifier: GPL-2.0
"""The NVMe controllers in guests of kselftests.

The README of the tests lists them as options of QEMU. Tests recognize them by serial
number. Each guest gets new sparse files.
"""

import functools
import re
import subprocess
from pathlib import Path

from engine import host
from engine.host import UserError

MEGABYTES = 64
TESTS = host.ROOT / "tools" / "testing" / "selftests" / "uq"
README = TESTS / "README"
# The label of devices that belong to the tests (uq_safe.c), and its length. Without a
# label, the tests first read the disk to see whether it is blank. So many reads can
# leave QEMU's interrupt line raised.
SAFE = TESTS / "uq_safe.h"
LABEL_BYTES = 4096
# The image of all drives in README, and its option for shared use.
BLANK, COPIED = "file=blank.img,", ",snapshot=on"

# The largest transfers that every QEMU offers, and those that need several lists
# of PRPs, which newer ones refuse.
LARGE, LARGER = ",mdts=9", ",mdts=10"


def label() -> bytes:
    """Return the last bytes of a device that belongs to the tests."""
    found, = re.findall(r'#define UQ_LABEL\s+"([^"]+)"',
                        SAFE.read_text(encoding="utf-8"))
    return str(found).encode().ljust(LABEL_BYTES, b"\0")


def options() -> list[str]:
    """The options of QEMU in README, with one blank image for all drives."""
    found = re.findall(r"^  (-(?:drive|device) \S+)$",
                       README.read_text(encoding="utf-8"), re.MULTILINE)
    if not found:
        raise UserError(f"{host.short(README)} has no options of QEMU")
    return list(found)


@functools.cache
def _takes(limit: str) -> bool:
    """Return whether the QEMU of this machine accepts such a controller."""
    cmd = ["qemu-system-x86_64", "-M", "q35", "-nodefaults", "-display", "none",
           "-S", "-monitor", "stdio", "-device", f"nvme,serial=probe{limit}"]
    try:
        return not subprocess.run(cmd, input=b"quit\n", capture_output=True,
                                  timeout=60, check=False).returncode
    except (OSError, subprocess.TimeoutExpired):
        return False


def given() -> list[str]:
    """Return the options of guests on this machine."""
    return [option.replace(LARGE, LARGER)
            if LARGE in option and _takes(LARGER) else option
            for option in options()]


def _image(folder: Path, name: str) -> Path:
    """A new disk, with the label of the tests."""
    path = folder / name
    host.remove(path)
    with path.open("wb") as file:
        file.truncate(MEGABYTES << 20)
        file.seek(-LABEL_BYTES, 2)
        file.write(label())
    return path


def _own(folder: Path, option: str) -> str:
    """An option of QEMU with a disk of its own instead of the blank image."""
    if BLANK not in option:
        return option
    name, = re.findall(r"[ ,]id=(\w+)", option)
    return option.replace(BLANK, f"file={_image(folder, name)},") \
        .replace(COPIED, ",cache=unsafe")


def attach(folder: Path) -> tuple[str, ...]:
    """Options of QEMU for all of them; their files are in FOLDER."""
    host.remove(folder)
    folder.mkdir(parents=True)
    return (" ".join(_own(folder, option) for option in given()),)
