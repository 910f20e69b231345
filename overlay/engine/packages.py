# SPDX-License-Identifier: GPL-2.0
"""What the engine uses of this machine, and whether it is there.

Everything has the name of the Debian package that brings it. Looked for are
the programs, headers and modules themselves: where there is no dpkg they only
have to be there, and apt is called for what is missing and for nothing else.
"""

import importlib
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

# Where programs are, as guests look for them; not every user's PATH has all.
PATH = ":".join((os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin",
                 "/sbin", "/usr/local/bin", "/usr/bin", "/bin"))
# Debian's own Python has its python3-* packages; another may not.
PYTHON = "/usr/bin/python3"

# package: what shows that it is there. A word is a program, <X> a header,
# perl:X a module of Perl, python3:X one of PYTHON, venv:X one of the Python
# that runs us; of several files with a / between bars, one must be there.
PROOFS = {
    "bc": "bc",
    "binutils": "nm",
    "bison": "bison",
    "ca-certificates": "/etc/ssl/certs/ca-certificates.crt",
    "cargo": "cargo",
    "cargo-web": "cargo",
    "ccache": "ccache",
    "codespell": "codespell",
    "coreutils": "cat chmod cksum cp cut date dd df echo env head id ln ls mkdir "
                 "mktemp mv printf readlink rm rmdir seq sleep sort stty sync "
                 "tail tee test timeout touch tr true truncate uname wc",
    "cpio": "cpio",
    "dash": "sh",
    "debian-archive-keyring":
        "/usr/share/keyrings/debian-archive-keyring.gpg|"
        "/usr/share/keyrings/debian-archive-keyring.pgp",
    "diffutils": "cmp diff",
    "dmsetup": "dmsetup",
    "dpkg-dev": "dpkg-source",
    "e2fsprogs": "mkfs.ext4",
    "findutils": "find xargs",
    "fio": "fio",
    "flex": "flex",
    "gcc": "gcc",
    "gcc-aarch64-linux-gnu": "aarch64-linux-gnu-gcc",
    "git": "git",
    "git-absorb": "git-absorb",
    "grep": "grep",
    "gzip": "gzip",
    "iproute2": "ip",
    "kmod": "depmod insmod lsmod modprobe rmmod",
    "libarchive-tools": "bsdtar",
    "libc-bin": "getconf",
    "libc6-dev": "<stdio.h> <pthread.h>",
    "libelf-dev": "<libelf.h> <gelf.h>",
    "libssl-dev": "<openssl/ssl.h>",
    "liburing-dev": "<liburing.h>",
    "linux-libc-dev": "<linux/types.h>",
    "make": "make",
    "mmdebstrap": "mmdebstrap",
    "mount": "losetup mount umount",
    "nvme-cli": "nvme",
    "patch": "patch",
    "perl": "perl perl:Encode perl:Term::ANSIColor",
    "procps": "pgrep ps sysctl",
    "python3-git": "python3:git",
    "python3-ply": "python3:ply",
    "python3-sphinx": "/usr/bin/sphinx-build",
    "python3-venv": "venv:ensurepip",
    "python3-yaml": "python3:yaml",
    "qemu-system-x86": "qemu-system-x86_64",
    "rsync": "rsync",
    "sed": "sed",
    "shellcheck": "shellcheck",
    # Alone, without an init system that a container has no use for.
    "systemd-standalone-tmpfiles": "systemd-tmpfiles",
    "tar": "tar",
    "util-linux": "blkdiscard blockdev dmesg fallocate mountpoint setsid",
    "xfsprogs": "mkfs.xfs xfs_io",
    "xz-utils": "xz",
}


def programs(names: Iterable[str]) -> set[str]:
    """The programs of these packages."""
    return {word for name in names for word in PROOFS[name].split()
            if word[0] not in "</" and ":" not in word}


# What was found; nothing goes away while we run.
_found: set[str] = set()


def missing(names: Iterable[str]) -> dict[str, list[str]]:
    """Which of these packages is not here: package -> what it lacks."""
    wanted = {name: PROOFS[name].split() for name in dict.fromkeys(names)}
    words = {word for proofs in wanted.values() for word in proofs} - _found
    absent = {word for word in words if not _there(word)}
    absent |= _headers_absent({word for word in words if word[0] == "<"})
    _found.update(words - absent)
    return {name: [word for word in proofs if word in absent]
            for name, proofs in wanted.items() if absent.intersection(proofs)}


def _there(word: str) -> bool:
    kind, colon, module = word.partition(":")
    if word[0] == "<":
        return True             # the compiler is asked for all at once
    if word[0] == "/":
        return any(Path(path).exists() for path in word.split("|"))
    if not colon:
        return shutil.which(word, path=PATH) is not None
    if kind == "venv":
        importlib.invalidate_caches()
        return importlib.util.find_spec(module) is not None
    if kind == "perl":
        return _runs("perl", f"-M{module}", "-e", "1")
    return _runs(PYTHON, "-c", f"import {module}")


def _runs(*cmd: str) -> bool:
    try:
        return subprocess.run(cmd, capture_output=True, check=False,
                              stdin=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


def _headers_absent(words: set[str]) -> set[str]:
    """Which of these headers the compiler does not find."""
    if not words:
        return set()
    text = "".join(f"#if !__has_include({word})\n\"{word}\"\n#endif\n"
                   for word in sorted(words))
    try:
        done = subprocess.run(["gcc", "-E", "-P", "-x", "c", "-"], input=text,
                              capture_output=True, text=True, check=False)
    except OSError:
        return words            # and there is no compiler
    return {word for word in words if f'"{word}"' in done.stdout}
