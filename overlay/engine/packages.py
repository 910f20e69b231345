# SPDX-License-Identifier: GPL-2.0
"""Debian packages that the engine uses, and the proof that each is installed.

The proofs are programs, headers and modules, so machines without dpkg work as well,
and apt installs missing packages alone.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

# The directories where guests look for programs; some PATHs lack sbin.
PATH = ":".join((os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin",
                 "/sbin", "/usr/local/bin", "/usr/bin", "/bin"))
# Packages named python3-* are for Debian's own Python.
PYTHON = "/usr/bin/python3"

# package: a proof that it is installed, if that is not a program of the same name. A
# word is a program, <X> a header, perl:X a module of Perl, python3:X one of PYTHON; of
# files between bars, one must exist.
PROOFS = {
    "binutils": "nm",
    "ca-certificates": "/etc/ssl/certs/ca-certificates.crt",
    "cargo-web": "cargo",
    "coreutils": "cat chmod cksum cp cut date dd df echo env head id ln ls mkdir "
                 "mktemp mv printf readlink rm rmdir seq sleep sort stty sync "
                 "tail tee test timeout touch tr true truncate uname wc",
    "dash": "sh",
    "debian-archive-keyring":
        "/usr/share/keyrings/debian-archive-keyring.gpg|"
        "/usr/share/keyrings/debian-archive-keyring.pgp",
    "device-tree-compiler": "dtc",
    "diffutils": "cmp diff",
    "dpkg-dev": "dpkg-source",
    "e2fsprogs": "mkfs.ext4",
    "erofs-utils": "mkfs.erofs",
    "findutils": "find xargs",
    "gcc-aarch64-linux-gnu": "aarch64-linux-gnu-gcc",
    "git-absorb": "/usr/bin/git-absorb|/usr/lib/git-core/git-absorb",
    "iproute2": "ip",
    "kmod": "depmod insmod lsmod modprobe rmmod",
    "libarchive-tools": "bsdtar",
    "libc-bin": "getconf",
    "libc6-dev": "<stdio.h> <pthread.h>",
    "libelf-dev": "<libelf.h> <gelf.h>",
    "libssl-dev": "<openssl/ssl.h>",
    "liburing-dev": "<liburing.h>",
    "linux-libc-dev": "<linux/types.h>",
    "mount": "losetup mount umount",
    "nvme-cli": "nvme",
    "perl": "perl perl:Encode perl:Term::ANSIColor",
    "procps": "pgrep ps sysctl",
    "python3-git": "python3:git",
    "python3-ply": "python3:ply",
    "python3-sphinx": "/usr/bin/sphinx-build",
    "python3-venv": "python3:ensurepip",
    "python3-yaml": "python3:yaml",
    "qemu-system-arm": "qemu-system-aarch64",
    "qemu-system-x86": "qemu-system-x86_64",
    # Without the init system.
    "systemd-standalone-tmpfiles": "systemd-tmpfiles",
    "util-linux": "blkdiscard blockdev dmesg fallocate mountpoint setsid",
    "xfsprogs": "mkfs.xfs xfs_io",
    "xz-utils": "xz",
}
INCLUDE = ("/usr/include", "/usr/include/x86_64-linux-gnu", "/usr/local/include")

def missing(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the packages that are not installed, each with the words it lacks."""
    lacking = {name: [word for word in PROOFS.get(name, name).split()
                      if not _exists(word)] for name in dict.fromkeys(names)}
    return {name: words for name, words in lacking.items() if words}


def _exists(word: str) -> bool:
    kind, colon, module = word.partition(":")
    if word[0] == "<":
        return any(Path(top, word[1:-1]).exists() for top in INCLUDE)
    if word[0] == "/":
        return any(Path(path).exists() for path in word.split("|"))
    if not colon:
        return shutil.which(word, path=PATH) is not None
    return _runs("perl", f"-M{module}", "-e", "1") if kind == "perl" else \
        _runs(PYTHON if module != "ensurepip" else sys.executable, "-c",
              f"import {module}")


def _runs(*cmd: str) -> bool:
    try:
        return subprocess.run(cmd, capture_output=True, check=False,
                              stdin=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False
