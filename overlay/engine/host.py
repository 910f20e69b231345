# SPDX-License-Identifier: GPL-2.0
"""Run programs on this machine: directories, logs, packages, progress and errors.

All messages and programs of the engine go through this module, so programs have logs
and do not outlive the engine.
"""

import concurrent.futures
import contextlib
import errno
import fcntl
import hashlib
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar, cast

from engine import limits, packages

Result = TypeVar("Result")
# Takes each line of a program, and returns a text to show.
Shows = Callable[[str], str | None]


class UserError(Exception):
    """An error for the user: one plain sentence, no traceback."""


class Done(subprocess.CompletedProcess[str]):
    """A program that ended; `early` if it did not come up in time."""

    early = False


def _folder(variable: str, usual: Path | str) -> Path:
    """Return a directory that a variable can name."""
    named = os.environ.get(variable)
    return Path(named).expanduser().resolve() if named else Path(usual)


def _cache() -> Path | str:
    return os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"


ROOT = Path(__file__).resolve().parents[2]
OUT = _folder("OVERLAY_OUT", ROOT / "out")
WORK = _folder("OVERLAY_WORK", f"{_cache()}/kernel-overlay")
# Sources of programs that run on this machine.
PROGRAMS = ROOT / "overlay" / "host"

# Files of editors, patch or Python.
JUNK = re.compile(r"(~|\.orig|\.rej|\.swp|\.pyc)$|^__pycache__$|^\.#|^\.checkpatch-")


# The running programs. While STOPPING is set, no program is started.
RUNNING: set[subprocess.Popen[str]] = set()
STOPPING = threading.Event()
COMPILER_TAKES = 1 << 30
# The longest wait in seconds: a signal just before a wait is handled after it.
TICK = 1.0


def say(text: str) -> None:
    """Print one line for the user."""
    print(text, flush=True)


class Status:
    """Print a line of progress now and then."""

    EVERY = 30
    last = 0.0
    lock = threading.RLock()

    @classmethod
    def show(cls, text: str) -> None:
        with cls.lock:
            now = time.monotonic()
            if now - cls.last >= (cls.EVERY / 3 if sys.stdout.isatty() else cls.EVERY):
                cls.last = now
                print("    " + text, flush=True)


def elapsed(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


@contextlib.contextmanager
def step(title: str) -> Iterator[None]:
    """Announce a step, and print its time and its end."""
    say(f"==> {title}")
    start = time.monotonic()
    Status.last = start
    try:
        yield
    except BaseException:
        say(f"    FAILED  {elapsed(time.monotonic() - start)}")
        raise
    took(title, time.monotonic() - start)
    say(f"    done  {elapsed(time.monotonic() - start)}")


@dataclass(frozen=True)
class Took:
    """The duration of something in seconds, and its end by the monotonic clock."""

    what: str
    seconds: float
    end: float


# Durations, ordered by end.
TIMES: list[Took] = []


def took(what: str, seconds: float) -> None:
    """Note the duration of something that ends now, for `make check`."""
    TIMES.append(Took(re.sub(r" \([^()]*\)$", "", what), seconds,
                      time.monotonic()))


def short(path: Path | str) -> str:
    """Return a path relative to the clone, if it is inside."""
    try:
        return str(Path(path).relative_to(ROOT))
    except ValueError:
        return str(path)


def remove(path: Path | str) -> None:
    """Remove a file or a directory, if it exists."""
    path = Path(path)
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def fresh(name: str) -> Path:
    """Create an empty out/NAME for the results of one step."""
    path = OUT / name
    remove(path)
    path.mkdir(parents=True)
    return path


def write(path: Path | str, text: str | bytes) -> None:
    """Write a file atomically."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text if isinstance(text, bytes) else text.encode()
    beside = path.with_name(f".{path.name}.new")
    remove(beside)
    beside.write_bytes(data)
    beside.replace(path)


def need_space(path: Path | str, gigabytes: float, what: str) -> None:
    """Fail early if there is not enough space."""
    path = Path(path)
    while not path.exists():
        path = path.parent
    free = shutil.disk_usage(path).free / 1e9
    if free < gigabytes:
        raise UserError(f"not enough space in {path}: {what} needs about "
                        f"{gigabytes:g} GB and {free:.1f} GB are free "
                        "(OVERLAY_WORK names another folder)")


_held: list[IO[str]] = []


def lock() -> None:
    """Lock the work directory and out/ until this process ends."""
    if _held:
        return
    if re.search(r"[\s:]", str(WORK)):
        raise UserError(f"the kernel cannot be built in {WORK}: its path has a "
                        "space or a colon (OVERLAY_WORK names another folder)")
    for path, variable in ((WORK, "OVERLAY_WORK"), (OUT, "OVERLAY_OUT")):
        _held.append(_lock(path, variable))


def _lock(path: Path, variable: str) -> IO[str]:
    """Lock one directory; the error names the process that holds the lock."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        file = open(path / ".lock", "a+", encoding="ascii")  # noqa: SIM115
    except OSError as error:
        raise UserError(f"cannot write to {path}: {error.strerror} ({variable} "
                        "names another folder)") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        pid = file.read().strip() or "unknown"
        raise UserError(f"another run (process {pid}) is using {path}: wait for "
                        f"it, or let {variable} name another folder") from None
    file.seek(0)
    file.truncate()
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file


def jobs() -> int:
    """Return the number of compilers that CPUs and memory allow."""
    return max(1, min(limits.processors(), limits.memory() // COMPILER_TAKES))


def check_machine() -> None:
    """Refuse machines other than x86-64 Linux."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise UserError("this needs x86_64 Linux; this machine is "
                        f"{platform.machine()} {platform.system()}")


def _stop(proc: subprocess.Popen[str]) -> None:
    """End a program and its children, by SIGTERM, then SIGKILL."""
    try:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(proc.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            proc.wait(10)
    finally:
        # Children may outlive the leader of their group.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(proc.pid, signal.SIGKILL)
    proc.wait()


def complaint(text: str) -> str:
    """Return the line of a failed program's output that explains most."""
    for pattern in (r"(error|fatal)\b[^a-z]*:", r"\*\*\*", r"^E: "):
        for line in text.splitlines():
            if re.search(pattern, line, re.IGNORECASE):
                return line.strip()[:160]
    return ""


# Variables of an outer make, and flags of the user, which would change builds.
NOT_PASSED_ON = (
    "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "KDIR", "PYTHONPATH", "O",
    "ARCH", "CROSS_COMPILE", "KCFLAGS", "KAFLAGS", "KCPPFLAGS", "KRUSTFLAGS", "LLVM",
    "LLVM_IAS", "CFLAGS", "CPPFLAGS", "LDFLAGS", "LDLIBS", "HOSTCFLAGS",
    "HOSTLDFLAGS", "USERCFLAGS", "USERLDFLAGS", "CFLAGS_KERNEL", "CFLAGS_MODULE",
    "KBUILD_EXTRA_SYMBOLS")


def _environment(env: Mapping[str, str] | None) -> dict[str, str]:
    full = dict(os.environ, LC_ALL="C.UTF-8", PYTHONDONTWRITEBYTECODE="1")
    for name in NOT_PASSED_ON:
        full.pop(name, None)
    full.update(env or {})
    return full


def _start(cmd: Sequence[str], cwd: Path | str | None,
           env: Mapping[str, str] | None) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(
            cmd, cwd=cwd, env=_environment(env), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            encoding="utf-8", errors="replace", process_group=0)
    except FileNotFoundError as error:
        if cwd and not Path(cwd).is_dir():
            raise UserError(f"the folder {cwd} is not there") from None
        raise UserError(f"the program {cmd[0]} is not installed") from error
    except PermissionError:
        raise UserError(f"{cmd[0]} may not be run") from None


def run(cmd: Sequence[object], *, log: Path | str | None = None,
        cwd: Path | str | None = None, env: Mapping[str, str] | None = None,
        check: bool = True, progress: Shows | None = None,
        timeout: float | None = None,
        early: tuple[float, Callable[[], bool]] | None = None,
        what: str | None = None) -> Done:
    """Run a program; its output goes to the log and into the result.

    `progress` takes each line and returns a text to show, or None. A failure is a
    UserError that names `what` and the log. `early` is a time in seconds and a
    condition: if it is false by then, the program is ended and `Done.early` is set.
    """
    words = [str(part) for part in cmd]
    what = what or words[0]
    log = Path(log) if log else OUT / "engine.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    lines, start = [], time.monotonic()
    late, hung = threading.Event(), threading.Event()
    with open(log, "a", buffering=1, encoding="utf-8") as file:
        file.write(f"$ {shlex.join(words)}\n")
        proc = _start(words, cwd, env)
        output = cast(IO[str], proc.stdout)
        RUNNING.add(proc)
        timers = _timers(proc, late, hung, timeout, early)
        try:
            _go_on()
            for line in output:
                lines.append(line)
                file.write(line)
                if shown := progress and progress(line):
                    Status.show(f"{shown}, {elapsed(time.monotonic() - start)}")
            proc.wait()
            _go_on()
        except BaseException:
            _stop(proc)
            raise
        finally:
            for timer in timers:
                timer.cancel()
            output.close()
            RUNNING.discard(proc)
    done = Done(words, proc.returncode, "".join(lines))
    done.early = hung.is_set()
    if late.is_set() and check:
        raise UserError(f"{what} did not end within {elapsed(timeout or 0)}; "
                        f"see {short(log)}")
    if check and done.returncode:
        raise _failure(what, done, log)
    return done


def _go_on() -> None:
    """End a job of at_once() if all of them must end."""
    if STOPPING.is_set():
        raise KeyboardInterrupt


def at_once(work: Callable[..., Result], jobs: Iterable[tuple[Any, ...]],
            workers: int) -> list[Result]:
    """Run jobs in threads; return their results in order.

    A failed job or an interrupt ends the programs of all jobs.
    """
    workers = max(1, workers)
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        try:
            futures = [pool.submit(work, *job) for job in jobs]
            left = set(futures)
            while left:
                done, left = concurrent.futures.wait(
                    left, TICK, concurrent.futures.FIRST_EXCEPTION)
                for future in done:
                    future.result()
            return [future.result() for future in futures]
        except BaseException as error:
            STOPPING.set()
            pool.shutdown(wait=False, cancel_futures=True)
            for proc in list(RUNNING):
                _stop(proc)
            pool.shutdown()
            if not isinstance(error, KeyboardInterrupt):
                STOPPING.clear()
            raise


def _timers(proc: subprocess.Popen[str], late: threading.Event,
            hung: threading.Event, timeout: float | None,
            early: tuple[float, Callable[[], bool]] | None) -> list[threading.Timer]:
    """Start timers that end a program."""
    def expire() -> None:
        late.set()
        _stop(proc)

    def expire_unless(up: Callable[[], bool]) -> None:
        if not up():
            hung.set()
            expire()

    timers = []
    if timeout:
        timers.append(threading.Timer(timeout, expire))
    if early:
        timers.append(threading.Timer(early[0], expire_unless, (early[1],)))
    for timer in timers:
        timer.daemon = True
        timer.start()
    return timers


def _failure(what: str, done: Done, log: Path) -> UserError:
    if "No space left on device" in done.stdout:
        return UserError(f"{what} failed: no space left on the device; "
                         f"see {short(log)}")
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        return UserError(f"{what} was ended by {name}; see {short(log)}")
    why = complaint(done.stdout)
    return UserError(f"{what} failed{f' ({why})' if why else ''}; "
                     f"see {short(log)}")


def output(cmd: Sequence[object], cwd: Path | None = None) -> str | None:
    """Return the output of a small program, or None if it fails or is missing."""
    try:
        done = run(cmd, check=False, cwd=cwd)
    except UserError:
        return None
    return None if done.returncode else done.stdout


def explain(error: OSError) -> str | None:
    """Return an error of the operating system as a sentence, or None for a bug."""
    name = getattr(error, "filename", None)
    where = f" ({name})" if name else ""
    messages = {
        errno.ENOSPC: "no space left on the device",
        errno.EDQUOT: "the disk quota is used up",
        errno.EROFS: "the file system is read-only",
        errno.EACCES: "permission denied",
        errno.EPERM: "permission denied",
    }
    text = messages.get(error.errno or 0)
    return f"{text}{where}" if text else None


def _as_root() -> list[str] | None:
    """Return the prefix of commands that need root, or None."""
    if os.geteuid() == 0:
        return []
    return ["sudo"] if shutil.which("sudo") else None


def _may(root: Sequence[str] | None) -> bool:
    """Let sudo ask for its password now."""
    if root and subprocess.run([*root, "-n", "true"], check=False,
                               capture_output=True).returncode:
        return subprocess.run([*root, "-v"], check=False).returncode == 0
    return True


def _apt(root: Sequence[str], *args: str) -> list[str]:
    """Run apt-get; return its errors, none if it succeeded."""
    cmd = [*root, "env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8",
           "apt-get", "-q", "-o", "DPkg::Lock::Timeout=300", *args]
    log = OUT / "apt.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "a+", encoding="utf-8", errors="replace") as file:
        file.write(f"$ {shlex.join(cmd)}\n")
        file.flush()
        start = file.tell()
        # The group of its own protects dpkg from an interrupt.
        code = subprocess.Popen(cmd, stdin=subprocess.DEVNULL, stdout=file,
                                stderr=file, process_group=0).wait()
        file.seek(start)
        output = file.read()
    errors = re.findall(r"^E: *(.*\S)", output, re.MULTILINE)
    return (errors or [f"apt-get ended with {code}"]) if code else []


def _install(root: Sequence[str], names: Iterable[str]) -> list[str]:
    """Install packages; return apt's errors."""
    install = ("install", "-y", "--no-install-recommends", *names)
    if not _apt(root, *install):
        return []
    # The lists may be old or missing.
    errors = _apt(root, "update", "--error-on=any")
    more = _apt(root, *install)
    return errors + more if more else []


def need(*names: str) -> None:
    """Install those of these Debian packages that are missing."""
    lacking = packages.missing(names)
    if not lacking:
        return
    listed = " ".join(lacking)
    absent = " ".join(dict.fromkeys(
        word for words in lacking.values() for word in words))
    if not shutil.which("apt-get"):
        raise UserError(f"{absent} (in Debian's packages {listed}) is missing, and "
                        "there is no apt-get to install it")
    root = _as_root()
    if root is None or not _may(root):
        raise UserError("installing needs root or sudo: run "
                        f"`apt-get install {listed}` as root first")
    with step(f"installing {listed}"):
        errors = _install(root, lacking)
        for line in errors[:3]:
            say(f"    apt: {line}")
        if errors:
            raise UserError(f"apt could not install {listed}: {errors[0]} "
                            f"(see {short(OUT / 'apt.log')})")


def pytool(name: str) -> Path:
    """Return the path of a Python tool in the engine's venv, which is created first."""
    venv = WORK / "venv"
    stamp = venv / "overlay-stamp"
    pins = (ROOT / "overlay" / "requirements.txt").read_bytes()
    want = hashlib.sha256(pins + sys.version.encode()).hexdigest()
    if not stamp.is_file() or stamp.read_text(encoding="ascii") != want:
        _make_venv(venv)
        write(stamp, want)
    tool = venv / "bin" / name
    if not tool.exists():
        raise UserError(f"overlay/requirements.txt does not contain {name}")
    return tool


def module(name: str, *args: object, also: str = "", **how: Any) -> Done:
    """Run a Python module of ours in the venv; ALSO is one more path of modules."""
    path = f"{ROOT / 'overlay'}{':' if also else ''}{also}"
    return run([pytool("python"), "-m", name, *args], env={
        "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}, **how)


def _make_venv(venv: Path) -> None:
    need("python3-venv")
    with step("installing Python tools (virtme-ng, b4, ruff, mypy, gcovr, "
              "matplotlib, kcidb-io, kci-dev)"):
        remove(venv)
        run([sys.executable, "-m", "venv", venv], what="making the venv")
        run([venv / "bin" / "pip", "install", "--quiet", "--no-input",
             "-r", ROOT / "overlay" / "requirements.txt"],
            what="installing overlay/requirements.txt with pip (is there "
                 "a network?)")
