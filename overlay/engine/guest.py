# SPDX-License-Identifier: GPL-2.0
"""Boot a kernel in a guest by virtme-ng, and return its output.

The guest sees this machine's root file system read-only. A guest's exit code
is not trusted: it ran to its end when the end mark stands in its output, and
its KTAP and its boot log are judged.
"""

import functools
import os
import re
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from engine import build, host, ktap, plugins
from engine.host import UserError
from engine.kernels import KERNELS
from engine.ktap import Case

# The root of a guest is that of this machine, so programs that virtme-ng's init and
# guest scripts call must be installed.
PACKAGES = ("qemu-system-x86", "e2fsprogs", "xfsprogs", "kmod", "procps",
            "util-linux", "mount", "iproute2", "systemd-standalone-tmpfiles",
            "coreutils", "dash", "grep", "sed")
SCRIPTS = host.ROOT / "overlay" / "guest"
END = "# overlay: end"

# Two pmem regions that do not touch (they would become one) and lie below
# QEMU's ACPI tables; the kernel offers them as /dev/pmem0 and /dev/pmem1.
PMEM = ("memmap=512M!1G", "memmap=256M!1600M")


def nvme(takes: int = 0) -> tuple[str, ...]:
    """QEMU's options for a controller with commands that take so many ns."""
    return ("-drive file.driver=null-co,file.size=1G,file.read-zeroes=on,"
            f"file.latency-ns={takes},format=raw,if=none,id=nvme0 "
            "-device nvme,drive=nvme0,serial=overlay0,max_ioqpairs=16",)


NVME = nvme()
# On a busy machine TCG's timer comes too late for the check that the kernel
# makes of it at boot, and for the usual patience with a quiet processor.
PATIENT = ("no_timer_check", "rcupdate.rcu_cpu_stall_timeout=100")
# QEMU's main loop polls an eventfd for every queue of each port: this takes less of
# the time of a guest that is at work.
SERIAL = ("-global virtio-serial-pci.max_ports=2 "
          "-global virtio-serial-pci.ioeventfd=off")
# Tests say a lot in a short time, and the emulated serial line is slow: nothing
# may be dropped before it is printed.
WHOLE_LOG = ("log_buf_len=4M",)
# Before 8.1 QEMU may keep a breakpoint of the kernel's own code patching that
# one processor put down while another was being translated, and the kernel
# then dies of an int3 that memory no longer holds. One thread cannot race.
RACES = (8, 1)
ONE_THREAD = "-accel tcg,thread=single"
# A plugin with memory barriers for such a guest: its devices are in another thread.
BARRIERS = ("barriers.c", "plugin.h")
# A guest must run our script after so many seconds. QEMU's TCG sometimes hangs when a
# kernel starts.
UP = 600
# How virtme-ng mounts this machine's files, and a cache besides: without one every
# program that starts is read again with all of its libraries. Files that a guest reads
# do not change while it runs; it writes to a mount of its own.
ROOT_FLAGS = ("rootflags=version=9p2000.L,trans=virtio,access=any,msize=524288,"
              "cache=loose")
ICOUNT = ("-accel tcg -icount shift=0,sleep=off",)
# virtme-ng's own configuration, below its HOME: none. The first one that it finds
# overrides our options, and would be the user's or the machine's.
CONFIG = Path(".config/virtme-ng/virtme-ng.conf")
# Guests begin at the same time.
_writing = threading.Lock()


@dataclass(frozen=True)
class Machine:
    """The hardware and the parameters of a guest.

    One that counts has a clock of instructions.
    """

    # Two processors, but one where instructions are counted.
    cpus: int | None = None
    append: tuple[str, ...] = ()
    qemu: tuple[str, ...] = ()
    icount: bool = False
    # Seconds until it is ended.
    timeout: float = 1800

    def processors(self) -> int:
        """How many processors it has."""
        return self.cpus or (1 if self.icount else 2)

    def adding(self, append: tuple[str, ...] = (),
               qemu: tuple[str, ...] = ()) -> "Machine":
        """The same, with more parameters of the kernel and options of QEMU."""
        return replace(self, append=(*self.append, *append),
                       qemu=(*self.qemu, *qemu))


USUAL = Machine()


@dataclass
class Boot:
    """The result of a guest: whether it ended, and its output.

    `left` is false for one that had to be ended.
    """

    name: str
    ok: bool
    log: str
    ktap: str
    why: str = ""
    files: dict[str, Path] = field(default_factory=dict)
    left: bool = True

    def cases(self, suites: bool = False) -> list[Case]:
        """The two cases that every boot is: it ended, and without a splat.

        `suites`: it is a guest that runs KUnit suites.
        """
        ended = Case(f"{self.name}: the guest ran to its end",
                          ktap.PASS if self.ok else ktap.FAIL, self.why)
        return [ended,
                *ktap.splat_cases(self.name, self.log, self.files["log"]),
                *ktap.taint_cases(self.name, self.ktap, self.log, suites)]


def asked_for_kvm() -> bool:
    """Whether the user asked for KVM; it is never taken unasked."""
    wanted = os.environ.get("ACCEL", "tcg")
    if wanted not in ("tcg", "kvm"):
        raise UserError(f"ACCEL={wanted} is not known: it is tcg or kvm")
    return wanted == "kvm"


def accelerated() -> bool:
    """Whether guests of this machine have KVM, as was asked for."""
    wanted = asked_for_kvm()
    if wanted and not os.access("/dev/kvm", os.R_OK | os.W_OK):
        raise UserError("ACCEL=kvm was asked for and /dev/kvm cannot be opened")
    return wanted


def _path() -> str:
    """Where the programs that boot a guest are looked for."""
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def qemu() -> str:
    """The QEMU that boots our guests: the first one in PATH."""
    return shutil.which("qemu-system-x86_64", path=_path()) \
        or "qemu-system-x86_64"


@functools.cache
def qemu_version() -> tuple[int, ...]:
    """The version of the QEMU that boots our guests, as numbers."""
    output = host.output([qemu(), "--version"]) or ""
    found = re.search(r"version (\d+)\.(\d+)", output)
    return tuple(map(int, found.groups())) if found else (0, 0)


# CPU features for fast copies of bytes; the kernel and the C library look for them.
FAST_BYTES = ("erms", "fsrm", "fsrs", "fzrm")


@functools.cache
def by_words() -> tuple[str, ...]:
    """QEMU's options for a CPU that does not copy memory byte by byte.

    TCG copies byte by byte with these features: a fifth of the instructions of the
    guest for DAX files.
    """
    if accelerated():
        return ()
    known = set((host.output([qemu(), "-cpu", "help"]) or "").split())
    return ("-cpu " + ",".join(["max", *(f"-{name}" for name in FAST_BYTES
                                         if name in known)]),)


def _accelerator(icount: bool) -> tuple[str, ...]:
    """QEMU's options for how the guest's processors run."""
    if not icount and (accelerated() or qemu_version() >= RACES):
        return ()
    barriers = plugins.compiled(Path(BARRIERS[0]).stem, qemu_version())
    return (*(ICOUNT if icount else (ONE_THREAD,)), f"-plugin {barriers}")


def _script(script: Path | str, out: Path, name: str) -> Path:
    """The script as a file that the guest can read."""
    if isinstance(script, Path):
        if not script.exists():
            raise UserError(f"{host.short(script)} is missing")
        return script
    path = out / f"{name}.sh"
    host.write(path, script)
    return path


def command(folder: Path, memory: int, machine: Machine, script: Path,
             result: Path) -> list[str]:
    """The virtme-ng command line of one boot."""
    cmd = ["vng", "--force-9p", "-r", str(folder), "-v", "--user", "root",
           "--qemu", qemu(),
           "--memory", f"{memory}G", "--cpus", str(machine.processors())]
    if machine.icount or not accelerated():
        cmd.append("--disable-kvm")
    log = () if machine.icount else WHOLE_LOG
    for text in (ROOT_FLAGS, "oops=panic", *PATIENT, *log, *machine.append):
        cmd += ["--append", text]
    for text in (*machine.qemu, SERIAL, *_accelerator(machine.icount)):
        cmd.append(f"--qemu-opts={text}")
    return [*cmd, f"--rwdir={result.parent}",
            "--exec", f"sh {SCRIPTS}/run.sh {result} {script}"]


Command = Callable[[Path, int, Machine, Path, Path], list[str]]


def _home() -> Path:
    """A HOME for virtme-ng with an empty configuration."""
    home = host.WORK / "virtme-ng"
    with _writing:
        if not (home / CONFIG).exists():
            host.write(home / CONFIG, "{}\n")
    return home


def boot(mode: str, script: Path | str, *, name: str, out: Path,
         machine: Machine = USUAL, folder: Path | None = None,
         programs: int = 0, watch: Callable[[str], None] | None = None,
         command: Command = command) -> Boot:
    """Boot a mode's kernel and run a script in it as root.

    `script` is a Path, or the text of one. Its output goes to OUT/NAME.ktap
    and everything, the kernel's messages with it, to OUT/NAME.boot.log.
    `programs` is how many the script runs, if that is known; `watch` is called
    with each line. `command` returns the command line.
    """
    host.need(*PACKAGES)
    vng = host.pytool("vng")
    out = Path(out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    folder = Path(folder) if folder else build.build(mode)
    if re.search(r"[\s:,=]", f"{out}{folder}{host.ROOT}"):
        raise UserError(f"virtme-ng cannot share {out}: its path, or the work "
                        "folder's, has a space or punctuation")
    log, result = out / f"{name}.boot.log", out / f"{name}.ktap"
    for path in (log, result):
        host.remove(path)
    cmd = command(folder, KERNELS[mode].memory, machine,
                   _script(script, out, name), result)
    env = {"PATH": f"{vng.parent}:{_path()}", "HOME": str(_home())}
    run = functools.partial(
        host.run, cmd, log=log, env=env, check=False, timeout=machine.timeout,
        early=(UP, result.exists), what=f"the guest {name}",
        progress=ktap.Progress(name, programs, watch))
    done = run()
    if done.early:
        # It hung before our script, so no result is lost. The log goes on,
        # and complaints of the first boot count, too.
        host.say(f"    {name}: the guest did not come up, booting it again")
        first = done
        done = run()
        done.stdout = first.stdout + done.stdout
    output = result.read_text("utf-8", "replace") if result.exists() else ""
    ended = output.rstrip().endswith(END)
    why = "" if ended else _why(done, machine.timeout, log)
    return Boot(name, ended, done.stdout, output.replace(END, ""), why,
                {"log": log, "ktap": result}, done.returncode >= 0)


def _why(done: host.Done, timeout: float, log: Path) -> str:
    if done.returncode < 0:
        return (f"it did not end within {host.elapsed(timeout)}; "
                f"see {host.short(log)}")
    last = [line for line in done.stdout.splitlines() if line.strip()]
    return (f"it broke off; its last line was {last[-1].strip()[:120]!r} "
            f"in {host.short(log)}" if last else "it said nothing at all")
