# SPDX-License-Identifier: GPL-2.0
"""`make artifacts`: kernels and tests for any CI, in out/artifacts.

For each kernel: its image, configuration and modules, and the kselftests as the
kernel's gen_tar packs them. Also a root file system with the programs that tests call,
checksums and a manifest. The same sources and Debian packages yield the same bytes.
"""

import gzip
import json
import re
import shutil
import tarfile
from pathlib import Path
from typing import Any

from engine import (
    build,
    disks,
    guest,
    host,
    kernels,
    kselftest,
    ktap,
    ran,
    share,
    source,
    store,
)
from engine.host import UserError
from engine.kernels import KERNELS
from engine.ktap import Case
from engine.results import kcidb

PACKAGES = (*build.PACKAGES, *share.PACKAGES, "mmdebstrap", "libarchive-tools",
            "gzip", "tar", "coreutils")
# Files that no test reads, and files that only installation needs, such as
# /usr/share/perl. nvme-cli writes random host IDs.
LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*",
            "/usr/share/info/*")
REMOVED = ("etc/apt/sources.list", "etc/resolv.conf", "usr/share/perl",
           "usr/lib/x86_64-linux-gnu/perl", "var/lib/apt", "var/cache/apt",
           "etc/nvme/hostid", "etc/nvme/hostnqn")
# The time of all files: 2026-01-01.
EPOCH = 1767225600
INIT = guest.SCRIPTS / "init"
ALL = "all"
MANIFEST = "manifest.json"


def folder() -> Path:
    """Return the directory of the artifacts."""
    return host.OUT / "artifacts"


def _tar_options() -> list[str]:
    return ["--sort=name", f"--mtime=@{EPOCH}", "--owner=0", "--group=0",
            "--numeric-owner", "--format=gnu"]


def _modules(mode: str, into: Path, log: Path) -> None:
    """Pack the modules of a kernel for a root file system."""
    top = build.folder(mode) / "modules-installed"
    host.remove(top)
    build.make(mode, f"INSTALL_MOD_PATH={top}", "modules_install", log=log,
               what="installing modules")
    for name in ("build", "source"):
        for link in top.glob(f"lib/modules/*/{name}"):
            host.remove(link)
    # Not lib itself: /lib is a link in the root file system.
    host.run(["tar", *_tar_options(), "-I", "gzip -n", "-cf",
              into / "modules.tar.gz", "-C", top, "lib/modules"], log=log,
             what="packing modules")


def _kselftests(mode: str, into: Path, log: Path) -> list[str]:
    """Pack the kselftests by the kernel's own rules; return their names."""
    top = build.folder(mode) / "kselftest-packed"
    host.remove(top)
    kselftest.make(mode, top, "FORCE_TARGETS=1", "kselftest-gen_tar",
                   folders=kselftest.targets(), kdir=build.folder(mode), log=log,
                   what="packing the kselftests",
                   env={"TAR_OPTIONS": " ".join(_tar_options())})
    shutil.copy(top / "kselftest-packages" / "kselftest.tar.gz", into)
    return (top / "kselftest-list.txt").read_text("utf-8").split()


def cmdline(mode: str) -> list[str]:
    """Return the parameters of a kernel that runs kselftests in a guest."""
    # A panic ends the guest, and the CI does not wait for a timeout.
    return ["console=ttyS0", "oops=panic", "panic=-1", *guest.PATIENT, *guest.WHOLE_LOG,
            *guest.PMEM, *KERNELS[mode].append]


def qemu(mode: str) -> list[str]:
    """Return QEMU's options for a guest of this kernel."""
    return ["-machine q35", f"-m {KERNELS[mode].memory}G", "-smp 2", "-net none",
            *KERNELS[mode].qemu, *disks.options()]


def _kernel(mode: str) -> dict[str, Any]:
    """Pack one kernel; return its entry in the manifest."""
    built = build.build(mode)
    into = folder() / mode
    into.mkdir()
    log = into.parent / f"{mode}.log"
    with host.step(f"packing the {mode} kernel ({host.short(log)})"):
        shutil.copy(built / KERNELS[mode].image, into)
        shutil.copy(built / ".config", into / "config")
        _modules(mode, into, log)
        tests = _kselftests(mode, into, log)
        host.write(into / "cmdline", " ".join(cmdline(mode)) + "\n")
        host.write(into / "qemu", "\n".join(qemu(mode)) + "\n")
        release = (built / "include/config/kernel.release").read_text("ascii")
    return {"release": release.strip(), "cmdline": cmdline(mode),
            "qemu": qemu(mode), "tests": tests}


def suite() -> str:
    """Return the Debian release of this machine, on which the programs were built."""
    found = source.release()
    if found.get("ID") != "debian" or "VERSION_CODENAME" not in found:
        raise UserError("the root file system comes from the Debian release of this "
                        "machine, and this machine does not run a Debian release")
    return found["VERSION_CODENAME"]


def _installed(tar: Path) -> dict[str, str]:
    """Return the packages in a root file system, with versions."""
    with tarfile.open(tar) as file:
        member = file.extractfile("./var/lib/dpkg/status")
        text = member.read().decode() if member else ""
    return dict(sorted(re.findall(
        r"^Package: (\S+)\n(?:.+\n)*?Version: (\S+)$", text, re.MULTILINE)))


def _rootfs(release: str) -> dict[str, Any]:
    """Write a ramdisk with a shell and the programs that tests call."""
    log = folder() / "rootfs.log"
    tar, cpio = folder() / "rootfs.tar", folder() / "rootfs.cpio"
    options = build.top() / "build" / "rootfs.apt"
    with host.step(f"a root file system of {release} ({host.short(log)})"):
        apt = source.private_apt(release)
        host.write(options, source.kept_options())
        host.run(["mmdebstrap", f"--include={','.join(share.rootfs_packages())}",
                  f"--aptopt={options}",
                  "--aptopt=APT::Install-Recommends \"false\"",
                  *(f"--dpkgopt=path-exclude={path}" for path in LEFT_OUT),
                  "--variant=essential", f"--customize-hook=upload {INIT} /init",
                  '--customize-hook=chmod 755 "$1/init"',
                  '--customize-hook=echo kselftest >"$1/etc/hostname"',
                  *(f'--customize-hook=rm -rf "$1/{path}"' for path in REMOVED),
                  release, tar, apt.sources.strip()],
                 log=log, env={"SOURCE_DATE_EPOCH": str(EPOCH)},
                 what="making the root file system")
        host.remove(options)
        host.run(["bsdtar", "--format=newc", "-cf", cpio, f"@{tar}"], log=log,
                 what="packing the root file system")
        installed = _installed(tar)
        host.remove(tar)
        host.run(["gzip", "-n", cpio], log=log, what="compressing it")
    return {"suite": release, "packages": installed}


def of_now() -> dict[str, Any]:
    """Return the present sources of kernels, tests and the ramdisk."""
    return {**ran.now(), "init": store.of_file(INIT)}


def current() -> bool:
    """Whether the last run used the present sources."""
    return (folder() / MANIFEST).exists() and ran.same(folder() / MANIFEST, of_now())


def digests() -> dict[str, str]:
    """Return the checksums of the files of the last run by name, or {}."""
    try:
        text = (folder() / "sha256sums").read_text("utf-8")
    except (OSError, UnicodeError):
        return {}
    return {name: digest for digest, _, name in
            (line.partition("  ") for line in text.splitlines())}


def _sums() -> list[str]:
    """Write the checksums; return the names of the files."""
    names = sorted(str(path.relative_to(folder()))
                   for path in folder().rglob("*")
                   if path.is_file() and path.suffix != ".log")
    host.write(folder() / "sha256sums", "".join(
        f"{store.of_file(folder() / name)}  {name}\n" for name in names))
    return names


def chosen(args: list[str]) -> list[str]:
    """Return the named kernels; by default those that `make check` tests."""
    known = [mode for mode in KERNELS if mode not in kernels.ARM64]
    for mode in args:
        if mode not in (*known, ALL):
            raise UserError(f"there is no kernel called {mode}: "
                            f"{', '.join((*known, ALL))}")
    if ALL in args:
        return [mode for mode in known if not KERNELS[mode].below]
    return list(dict.fromkeys(args)) or kernels.having("checked")


def main(args: list[str]) -> list[Case]:
    """`artifacts [kernel...|all]`."""
    # Fail before anything is fetched, built or deleted.
    modes, release = chosen(args), suite()
    host.need(*PACKAGES)
    host.fresh("artifacts")
    new = {**of_now(), "compiler": kcidb.compiler(),
           "kernels": {mode: _kernel(mode) for mode in modes},
           "rootfs": _rootfs(release)}
    host.write(folder() / "blank.img.gz",
               gzip.compress(bytes(disks.MEGABYTES << 20), mtime=0))
    host.write(folder() / MANIFEST,
               json.dumps(new, indent=1, sort_keys=True) + "\n")
    names = _sums()
    host.say(f"    {host.short(folder())}: {len(names)} files, and sha256sums")
    return [Case(name, ktap.PASS) for name in names]
