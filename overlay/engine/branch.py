# SPDX-License-Identifier: GPL-2.0
"""The git branch of one series, in a repository of its own."""

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from engine import checkpatch, entries, host, lay, limits, sender, source, store
from engine.entries import Entry, Series
from engine.host import Result, UserError
from engine.lay import Item
from engine.source import Source

NOBODY = "nobody@example.invalid"
PACKAGE = Path(__file__).resolve().parents[1]
# What checkpatch and b4 look for at the top of a kernel tree.
ANCHORS = ("COPYING", "CREDITS", "Kbuild", "Kconfig", "MAINTAINERS",
           "Makefile", "README", "arch/Kconfig", "Documentation/index.rst",
           "drivers/Kconfig", "fs/Kconfig", "include/linux/kernel.h",
           "init/Kconfig", "ipc/Makefile", "kernel/Makefile", "lib/Kconfig",
           "LICENSES", "scripts")


class Branch:
    """The git branch of one series, in a repository of its own."""

    def __init__(self, series: Series, everything: list[Series], kernel: Source,
                 items: list[Item], log: Path) -> None:
        self.series = series
        self.everything = everything
        self.lower = entries.below(series, everything)
        self.kernel = kernel
        self.items = {item.path: item for item in items}
        self.path = host.WORK / "build" / "branches" / series.name
        # Of each, as b4 may write to it, and several series are made at a time.
        self.home = host.WORK / "build" / "branches" / ".home" / series.name
        self.log = Path(log)
        self.who = identity()
        self.committed: list[Item] = []
        self.done: list[Entry] = []
        self.makefiles: dict[str, str] = {}

    # What the user's own git and b4 set-up say must not change what we make
    # (hooks, signing, addresses), so none of it is read but the identity.
    def env(self) -> dict[str, str]:
        here = "/usr/bin:/bin:"      # where Debian's python3-ply is seen
        return {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_TERMINAL_PROMPT": "0", "NO_COLOR": "1",
                "XDG_CACHE_HOME": str(self.home),
                "XDG_DATA_HOME": str(self.home),
                "XDG_CONFIG_HOME": str(self.home),
                "PATH": here + os.environ.get("PATH", "")}

    def git(self, *args: Path | str, check: bool = True,
            env: dict[str, str] | None = None) -> str:
        return host.run(["git", *args], cwd=self.path, log=self.log,
                        env={**self.env(), **(env or {})}, check=check,
                        what=f"git {args[0]} for {self.series.name}").stdout

    def touched(self) -> list[str]:
        """The upstream files that the series and those below it touch."""
        files = [file for series in (*self.lower, self.series)
                 for entry in series.entries for file in entry.files]
        return sorted({self.items[file].target for file in files})

    def start(self) -> None:
        """A fresh repository that holds the base; an old one goes."""
        host.remove(self.path)
        self.path.mkdir(parents=True)
        self.committed, self.done, self.makefiles = [], [], {}
        if self.kernel.is_git:
            self._clone()
        else:
            self._import()
        for key, value in self._settings():
            self.git("config", key, value)

    def _settings(self) -> tuple[tuple[str, str], ...]:
        return (("user.name", self.who[0]), ("user.email", self.who[1]),
                ("commit.gpgsign", "false"), ("core.autocrlf", "false"),
                ("core.hooksPath", "/dev/null"), ("gc.auto", "0"),
                ("maintenance.auto", "false"),
                ("sendemail.smtpserver", "localhost"),
                ("b4.send-no-patatt-sign", "yes"),
                ("b4.send-series-to", NOBODY),
                ("b4.send-auto-to-cmd", f"echo {NOBODY}"),
                ("b4.send-auto-cc-cmd", "true"),
                ("b4.prep-perpatch-check-cmd",
                 self._checkpatch()))

    def _checkpatch(self) -> str:
        """The command with which b4 checks one patch."""
        hide = [] if self.kernel.is_git else ["GIT_DIR=none"]
        return shlex.join(["env", *hide, f"PYTHONPATH={PACKAGE}",
                           f"OVERLAY_WORK={host.WORK}",
                           sys.executable, "-m", "engine.checkpatch"])

    def _import(self) -> None:
        """A small repository: checkpatch and b4 need no more than this."""
        for name in (*ANCHORS, *self.touched()):
            _copy(self.kernel.path / name, self.path / name)
        self.git("init", "--quiet", "--initial-branch=base", ".")
        self.git("add", "--force", ".")
        who = {"GIT_AUTHOR_NAME": "base", "GIT_AUTHOR_EMAIL": NOBODY,
               "GIT_COMMITTER_NAME": "base", "GIT_COMMITTER_EMAIL": NOBODY}
        self.git("commit", "--quiet", "--no-verify", "-m",
                 f"Linux {self.kernel.version}", env=who)

    def _clone(self) -> None:
        """A clone that borrows KDIR's objects and writes nothing there."""
        safe = f"safe.directory={self.kernel.path}"
        host.run(["git", "-c", safe, "-c", f"{safe}/.git", "clone",
                  "--quiet", "--shared", "--no-checkout", "--no-tags",
                  f"{self.kernel.path}", self.path], log=self.log,
                 env=self.env(), what=f"cloning {self.kernel.path}")
        wanted = [f"/{name}" for name in (*ANCHORS, *self.touched())]
        self.git("sparse-checkout", "set", "--no-cone", *wanted)
        self.git("checkout", "--quiet", "-B", "base",
                 self.kernel.head or "HEAD")

    def commit(self, entry: Entry) -> None:
        """Lay one entry and commit it; UserError when a patch does not apply."""
        self.committed += [self.items[file] for file in entry.files]
        self.done.append(entry)
        absent = lay.to_take_away(self.everything, self.done)
        for file in (*entry.parts, *entry.files):
            item = self.items[file]
            if item.kind == "patch":
                self._patch(item)
            else:
                self._place(item, absent)
        self._write_makefiles()
        targets = sorted({self.items[file].target
                          for file in (*entry.parts, *entry.files)}
                         | set(self.makefiles))
        self.git("add", "--force", "--sparse", "--", *targets)
        message = self.path / ".git" / "overlay-message"
        host.write(message, f"{entry.subject}\n\n{entry.body}")
        self._add_trailers(message)
        self.git("commit", "--quiet", "--signoff", "--no-verify",
                 "--cleanup=whitespace", "-F", message)

    def _add_trailers(self, message: Path) -> None:
        """What each message has above the sender's Signed-off-by."""
        added = [f"--trailer={line}" for line in sender.trailers()]
        if added:
            self.git("interpret-trailers", "--in-place", *added, message)

    def _place(self, item: Item, absent: list[Entry]) -> None:
        """Lay a file of ours, as far as the commits so far have it."""
        place = self.path / item.target
        lay.place(host.ROOT, item.path, place, absent)
        if lay.is_makefile(item.target):
            self.makefiles[item.target] = place.read_text("utf-8")

    def _patch(self, item: Item) -> None:
        """Apply a patch, that of a Makefile to one with all objects."""
        place = self.path / item.target
        if item.target in self.makefiles:
            host.write(place, self.makefiles[item.target])
        lay.apply_patch(host.ROOT / item.path, self.path, name=item.path,
                        version=self.kernel.version)
        if lay.is_makefile(item.target):
            self.makefiles[item.target] = place.read_text("utf-8")

    def _write_makefiles(self) -> None:
        """Let our Makefiles list what there is the source of by now."""
        missing = lay.to_come(self.items.values(), self.committed)
        for target, text in self.makefiles.items():
            host.write(self.path / target,
                       lay.with_sources(target, text, missing))

    def grow(self) -> None:
        """Lay the base and what is below; the commits are up to the caller."""
        self.start()
        for series in self.lower:
            for entry in series.entries:
                self.commit(entry)
        self.git("checkout", "--quiet", "-B", f"b4/{self.series.name}")

    def patches(self, into: Path, since: str = "base") -> list[Path]:
        """The commits so far, or since one, as patch files, in order."""
        host.remove(into)
        self.git("format-patch", "--quiet", "--no-signature", "-o", into,
                 f"{since}..HEAD")
        return sorted(Path(into).iterdir())


def _copy(origin: Path, into: Path) -> None:
    """Copy a file or a folder; what is not there is left out."""
    into.parent.mkdir(parents=True, exist_ok=True)
    if origin.is_dir():
        shutil.copytree(origin, into, symlinks=True, dirs_exist_ok=True)
    elif origin.exists():
        shutil.copy2(origin, into)


def identity() -> tuple[str, str]:
    """The name and address that git would sign with, or a stand-in."""
    found = [host.output(["git", "config", f"user.{key}"], cwd=host.ROOT)
             for key in ("name", "email")]
    named = [os.environ.get(f"GIT_AUTHOR_{key}") for key in ("NAME", "EMAIL")]
    name, address = (value or (text or "").strip()
                     for value, text in zip(named, found, strict=True))
    if name and address:
        return name, address
    return ("No Identity", NOBODY)


def grown(log: Path) -> Iterator[tuple[Branch, list[Path]]]:
    """Every series as (Branch, patch files), laid but not yet checked.

    For callers that only read the patches.
    """
    everything = entries.read()
    items = lay.items()
    wrong = list(entries.complaints(everything, [item.path for item in items]))
    if wrong:
        raise UserError(wrong[0])
    kernel = source.kernel()

    def patches(series: Series) -> tuple[Branch, list[Path]]:
        branch = Branch(series, everything, kernel, items, log)
        branch.grow()
        for entry in series.entries:
            branch.commit(entry)
        return branch, branch.patches(branch.path / ".git" / "patches")

    yield from each(patches, [(series,) for series in everything])


def each(work: Callable[..., Result],
         jobs: Iterable[tuple[Any, ...]]) -> list[Result]:
    """Do several jobs of a tool at a time; the results in the jobs' order.

    The first that fails is raised when all have ended: it is not to end what
    other tools have running.
    """
    def one(*args: Any) -> Result | Exception:
        try:
            return work(*args)
        except (UserError, OSError) as error:
            return error

    results: list[Result] = []
    for found in host.at_once(one, jobs, limits.processors()):
        if isinstance(found, Exception):
            raise found
        results.append(found)
    return results


def check_patch(branch: Branch, patch: Path) -> list[str]:
    """What checkpatch --strict says of one patch file, one line each.

    Each patch is checked once, by the text that it has: `make lint` and
    `make series` come by the same.
    """
    small = not branch.kernel.is_git
    key = checkpatch.key(branch.path, patch.read_text("utf-8", "replace"),
                         small)
    kept = store.take("checkpatch", key)
    if kept:
        store.counted(1)
        return checkpatch.judged(kept)
    done = host.run(checkpatch.command(small, branch.path, patch), cwd=branch.path,
                    log=branch.log, env=branch.env(), check=False,
                    what="checkpatch")
    checkpatch.note(key, done.stdout, done.returncode)
    return checkpatch.judge(done.stdout, done.returncode, checkpatch.load())
