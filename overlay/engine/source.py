# SPDX-License-Identifier: GPL-2.0
"""The kernel source: the tree that KDIR= names, which is only read, or Debian's.

Debian's linux-source comes from the mirrors of this machine's apt. apt verifies it with
a configuration of the engine's own.
"""

import contextlib
import functools
import hashlib
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine import host
from engine.host import UserError

# The version the tree is written for; its first two numbers name the package.
BASE = (host.ROOT / "overlay" / "base").read_text(encoding="ascii").strip()
SERIES = ".".join(BASE.split(".")[:2])
PACKAGE = f"linux-source-{SERIES}"
# This file marks a completely unpacked source.
WHOLE = ".overlay-whole"
SUITE = "trixie-backports"
# Packages for fetching and unpacking a kernel, and a Debian source package.
PACKAGES = ("debian-archive-keyring", "ca-certificates", "xz-utils", "tar")
SOURCES = ("dpkg-dev", "patch", "xz-utils")
KEYRINGS = ("/usr/share/keyrings/debian-archive-keyring.gpg",
            "/usr/share/keyrings/debian-archive-keyring.pgp")


@dataclass(frozen=True)
class Source:
    """A kernel source tree, which is only read."""

    path: Path
    version: str
    is_git: bool
    head: str | None
    origin: str             # 'debian' or 'kdir'


def version_of(path: Path | str) -> str:
    """Return the kernel version in the Makefile of a source tree."""
    try:
        with open(Path(path) / "Makefile", encoding="utf-8") as file:
            head = file.read(2000)
    except OSError:
        raise UserError(f"{path} is not a kernel source tree: no Makefile could "
                        "be read there") from None
    found = version_in(head)
    if found is None or not (Path(path) / "Kconfig").exists():
        raise UserError(f"{path} is not a kernel source tree")
    return found


def version_in(makefile: str) -> str | None:
    """Return the kernel version in the text of a Makefile."""
    parts: dict[str, str] = dict(re.findall(
        r"^(VERSION|PATCHLEVEL|SUBLEVEL|EXTRAVERSION) *= *(\S*)", makefile,
        re.MULTILINE))
    if "VERSION" not in parts:
        return None
    numbers = [parts.get(name) or "0"
               for name in ("VERSION", "PATCHLEVEL", "SUBLEVEL")]
    return ".".join(numbers) + parts.get("EXTRAVERSION", "")


@functools.cache
def kernel() -> Source:
    """Return the kernel to work on, and fetch it first if needed."""
    named = os.environ.get("KDIR")
    if named:
        found = tree_at("KDIR", Path(named).expanduser())
    else:
        tree = _cached() or _unpack()
        found = Source(tree, version_of(tree), False, None, "debian")
    host.say(f"    over Linux {found.version} ({found.path if named else PACKAGE})")
    if found.version.split("-")[0] != BASE:
        host.say(f"    note: the tree is written for {BASE}; this is "
                 f"{found.version}")
    return found


def tree_at(variable: str, path: Path) -> Source:
    """Return the kernel source tree that a variable names."""
    if not path.is_dir():
        raise UserError(f"{variable}={path} is not a directory")
    path = path.resolve()
    if path == host.WORK or host.WORK.is_relative_to(path):
        raise UserError(f"the work directory {host.WORK} lies inside {variable}, which "
                        "is only read: set OVERLAY_WORK to another directory")
    head = git(path, "rev-parse", "--verify", "HEAD")
    top = git(path, "rev-parse", "--show-toplevel")
    is_git = bool(head and top and Path(top).resolve() == path)
    return Source(path, version_of(path), is_git, head if is_git else None,
                  "kdir")


def git(path: Path, *args: str) -> str | None:
    """Return the output of git for a tree that may belong to another user, or None."""
    try:
        done = subprocess.run(
            ["git", "-c", f"safe.directory={path}", "-C", str(path), *args],
            capture_output=True, text=True, check=False,
            env=dict(os.environ, GIT_OPTIONAL_LOCKS="0"))
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def edits(src: Source) -> str:
    """Return a digest of the uncommitted changes of a KDIR, or an empty string.

    If git fails, the tree counts as edited.
    """
    found = git(src.path, "diff", "HEAD") if src.is_git else ""
    return "" if found == "" else hashlib.sha256(str(found).encode()).hexdigest()


def release() -> dict[str, str]:
    """Return /etc/os-release."""
    try:
        return platform.freedesktop_os_release()
    except OSError:
        return {}


def _cached() -> Path | None:
    """Return the newest complete source tree."""
    trees = [path.parent for path in (host.WORK / "src").glob(
        f"{SERIES}*/{WHOLE}")]
    return max(trees, default=None, key=lambda path: [
        int(part) for part in re.findall(r"\d+", path.name)])


def fetched() -> bool:
    """Return whether no kernel source has to be fetched."""
    return bool(os.environ.get("KDIR")) or _cached() is not None


def _unpack() -> Path:
    """Fetch and unpack Debian's kernel; the directory is renamed when complete."""
    host.need_space(host.WORK, 8, "a kernel's source and one build")
    package, into = unpacked(PACKAGE, SUITE), host.WORK / "src" / "unpacking"
    with host.step(f"unpacking {PACKAGE}"):
        host.remove(into)
        into.mkdir(parents=True)
        host.run(["tar", "-xJf", package / f"usr/src/{PACKAGE}.tar.xz",
                  "--strip-components=1", "--no-same-owner", "-C", into],
                 what=f"unpacking {PACKAGE}")
        tree = host.WORK / "src" / version_of(into)
        (into / WHOLE).touch()
        host.remove(tree)
        into.rename(tree)
    host.remove(package)
    return tree


def once(into: Path, make: Callable[[], object]) -> Path:
    """Let MAKE fill a directory, unless an earlier run completed it."""
    if not (into / WHOLE).exists():
        host.remove(into)
        into.parent.mkdir(parents=True, exist_ok=True)
        make()
        (into / WHOLE).touch()
    return into


def unpacked(name: str, suite: str) -> Path:
    """Return the unpacked files of a Debian package from another suite."""
    into = host.WORK / "tools" / f"{name}-{suite}"

    def fetch() -> None:
        with host.step(f"fetching {name} from {suite}"):
            root = private_apt(suite)
            package = root.fetch("download", name, f"{name}_*.deb")
            host.run(["dpkg-deb", "-x", package, into], what=f"unpacking {name}")
            host.remove(root.path)

    return once(into, fetch)


def debian_source(name: str, suites: Sequence[str] = ("forky", "sid")) -> Path:
    """Return an unpacked Debian source package from the first suite that offers it."""
    into = host.WORK / "tools" / f"{name}-source"

    def fetch() -> None:
        host.need(*SOURCES)
        for suite in suites:
            with contextlib.suppress(UserError):
                root = private_apt(suite, "deb-src")
                shutil.move(root.fetch("source", name, f"{name}-*/"), into)
                host.remove(root.path)
                return
        raise UserError(f"no suite of {', '.join(suites)} offers the source of {name}; "
                        f"see {_log()}")

    return once(into, fetch)


def _log() -> str:
    return host.short(host.OUT / "engine.log")


# Options of the machine's apt that describe mirrors, proxies and the architecture.
KEPT = r"Acquire|APT::Architectures?"


def kept_options(kept: str = KEPT) -> str:
    """Return the options of the machine's apt that ours uses, too."""
    output = host.output(["apt-config", "dump"]) or ""
    return "".join(f"{line}\n" for line in output.splitlines()
                   if re.match(rf"({kept})(::|\b)", line))


class PrivateApt:
    """apt with its own configuration, lists, cache and sources; it runs no hooks."""

    def __init__(self, path: Path, sources: str) -> None:
        self.path, self.sources = path, sources
        host.remove(path)
        for part in ("lists/partial", "cache/archives/partial", "down", "none"):
            (path / part).mkdir(parents=True)
        host.write(path / "sources.list", sources)
        # apt reads this file first. It points to empty places for the others.
        host.write(path / "apt.conf", f'Dir::Etc::parts "{path}/none";\n'
                   f'Dir::Etc::main "{path}/none/x";\n{kept_options()}')
        self.options = [
            f"Dir::Etc::sourcelist={path}/sources.list",
            "Dir::Etc::sourceparts=-", f"Dir::State::lists={path}/lists",
            f"Dir::Cache={path}/cache", "APT::Get::List-Cleanup=0",
            "Acquire::Languages=none", "APT::Sandbox::User=root",
            "Dir::Etc::Preferences=-", "Dir::Etc::PreferencesParts=-",
        ]

    def get(self, *args: str, what: str) -> host.Done:
        """Run this apt-get in its own download directory."""
        options = [part for option in self.options for part in ("-o", option)]
        return host.run(["apt-get", "-q", *options, *args],
                        cwd=self.path / "down", what=what,
                        env={"APT_CONFIG": str(self.path / "apt.conf")})

    def fetch(self, command: str, name: str, pattern: str) -> Path:
        """Fetch a package or its source; apt checks it against the signed index."""
        self.get(command, name, what=f"fetching {name}")
        found = list((self.path / "down").glob(pattern))
        if len(found) != 1:
            raise UserError(f"apt fetched no {pattern}; see {_log()}")
        return found[0]


def mirrors() -> list[str]:
    """Return the Debian mirrors in the machine's apt configuration, best first."""
    uris = host.output(["apt-get", "update", "--print-uris",
                        "-o", f"Dir::State::lists={host.WORK}/apt-none"])
    if uris is None:
        raise UserError("apt-get is not here or has no sources: set KDIR= to a "
                        "kernel source tree instead")
    found = re.findall(r"^'(\S+?)/dists/([^/\s]+)/InRelease'", uris,
                       re.MULTILINE)
    bases = [uri for uri, suite in found if "security" not in uri + suite]
    return list(dict.fromkeys(bases))


def lines(suite: str, kind: str) -> list[str]:
    """Return a line of sources.list for each mirror, best first."""
    host.need(*PACKAGES)
    keyring = next((key for key in KEYRINGS if Path(key).exists()), None)
    if keyring is None:
        raise UserError("Debian's archive keyring is not here: install "
                        "debian-archive-keyring or set KDIR= to a kernel tree")
    return [f"{kind} [signed-by={keyring}] {uri} {suite} main"
            for uri in mirrors()]


def private_apt(suite: str, kind: str = "deb") -> PrivateApt:
    """Return a private apt for `suite`, from the first mirror that offers it."""
    found = lines(suite, kind)
    for number, line in enumerate(found):
        root = PrivateApt(host.WORK / "apt" / f"{suite}-{number}", f"{line}\n")
        done = _update(root)
        if done:
            return root
    raise UserError(f"none of apt's {len(found)} mirrors offers Debian's "
                    f"{suite} (no network?): set KDIR= to a kernel source tree, "
                    f"or see {_log()}")


def _update(root: PrivateApt) -> bool:
    """Fetch the lists; return whether this worked and the signature is valid."""
    try:
        done = root.get("update", "--error-on=any", what="apt-get update")
    except UserError:
        return False
    return not re.search(r"^[EW]: ", done.stdout, re.MULTILINE)
