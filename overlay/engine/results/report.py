# SPDX-License-Identifier: GPL-2.0
"""The results in out/ as a report of KCIDB's: a checkout, builds, tests.

What is older than the newest file of ours is of another tree, and left out. A
test's path is its kselftest or KUnit suite, program and case, by which it is
found again in other reports.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from engine import build, host, kernels, kunit, lay, mails, reuse, source, store
from engine.kernels import KERNELS
from engine.report import collect

ORIGIN = "overlay"
# The steps that test kernels.
STEPS = ("kunit", "kselftest", "soak")
VERSION = {"major": 5, "minor": 3}
# As much as KCIDB takes of a log.
EXCERPT = 16384
# How a build ended, in KCIDB's words; a kernel that was not built is a MISS.
BUILDS = {build.BUILT: "PASS", build.FAILED: "FAIL", build.BEGAN: "ERROR"}
# What stands for a kernel where a case is about none, such as a step that could
# not run. It is no build, and has no status.
NONE = "none"

Row = dict[str, Any]


@dataclass(frozen=True)
class Result:
    """One test case."""

    step: str
    # The kernel's name, and what its guests had beside the usual.
    kernel: str
    hardware: str
    name: str
    status: str
    detail: str
    stored: bool


def _digest(*words: str) -> str:
    return hashlib.sha256("\0".join(words).encode()).hexdigest()


def path_of(step: str, name: str) -> str:
    """A name as KCIDB takes it: words with dots between them."""
    parts = [re.sub(r"[^A-Za-z0-9_-]+", "_", part).strip("_")
             for part in re.split(r": |[./](?=\w)", name)]
    return ".".join([step, *(part for part in parts if part)])


def _status(case: ElementTree.Element) -> tuple[str, str]:
    """A case's status in KCIDB's words, and what was said of it."""
    failure, skipped = case.find("failure"), case.find("skipped")
    if failure is not None:
        text = failure.text or ""
        return "MISS" if text.startswith("NOT RUN") else "FAIL", text
    if skipped is not None:
        return "SKIP", skipped.get("message") or ""
    return "PASS", case.findtext("system-out") or ""


def _recent(path: Path, since: float) -> bool:
    """Whether it is there, and of the files that are here now."""
    return path.exists() and path.stat().st_mtime >= since


def results(out: Path, since: float) -> Iterator[Result]:
    """All cases of the kernels in the runs since then."""
    for step in STEPS:
        path = out / step / "junit.xml"
        if not _recent(path, since):
            if path.exists():
                host.say(f"    left out: {step} ran before the files last changed")
            continue
        for case in ElementTree.parse(path).getroot().iter("testcase"):
            first, _, rest = (case.get("name") or "").partition(": ")
            mode, _, hardware = first.partition(", ")
            # A guest has its kernel's name, and perhaps what is its own.
            known = next((name for name in (*KERNELS, kunit.UM)
                          if re.match(rf"{name}(-|$)", mode)), "")
            if not known:
                # About no kernel, such as a test that nothing was given.
                known, rest = NONE, f"{first}: {rest}" if rest else first
            elif mode != known:
                rest = f"{mode}: {rest}"
            status, detail = _status(case)
            yield Result(step, known, hardware, rest, status, detail,
                         collect.STORED in detail)


# -- what is tested ----------------------------------------------------------

def patchset() -> str:
    """KCIDB's hash of what is laid over the kernel."""
    hashes = "".join(f"{store.of_file(host.ROOT / item.path)}\n"
                     for item in lay.items())
    return hashlib.sha256(hashes.encode()).hexdigest()


def compiler() -> str:
    """The compiler, as it calls itself."""
    return (host.output(["gcc", "--version"]) or "unknown").splitlines()[0]


def checkout() -> Row:
    """The kernel, and what is laid over it."""
    commit = source.git(host.ROOT, "rev-parse", "HEAD") or ""
    version = source.kernel().version
    laid = patchset()
    return {"id": f"{ORIGIN}:{_digest(version, laid)}", "origin": ORIGIN,
            "git_commit_name": f"v{version}", "patchset_hash": laid,
            "comment": f"Linux {version} and the overlay's files and patches",
            "valid": True, "misc": {"overlay_commit": commit}}


def _build_id(row: Row, kernel: str) -> str:
    return f"{row['id']}-{kernel}"


def _ended(kernel: str, found: Sequence[Result], out: Path, since: float) -> str:
    """How a kernel's build ended, in KCIDB's words."""
    if kernel == kunit.UM:
        # kunit.py builds it and says so by no file; but only what was built is run.
        ran = _recent(out / "kunit" / f"{kernel}.ktap", since) or any(
            result.stored for result in found if result.kernel == kernel)
        return "PASS" if ran else "FAIL"
    path = build.status(kernel)
    if not _recent(path, since):
        return "MISS"
    return BUILDS.get(path.read_text("utf-8").strip(), "ERROR")


def builds(row: Row, found: Sequence[Result], out: Path, since: float) -> list[Row]:
    """A build of each kernel that is checked, or that has results."""
    made = []
    for kernel in sorted({*kernels.having("checked"),
                          *(result.kernel for result in found)}):
        one = {"id": _build_id(row, kernel), "origin": ORIGIN,
               "checkout_id": row["id"], "architecture": "x86_64",
               "config_name": kernel, "compiler": compiler()}
        if kernel == NONE:
            one["comment"] = "no build: what these tests are about is no one kernel"
        else:
            one["status"] = _ended(kernel, found, out, since)
        log = out / "build" / f"{kernel}.log"
        if one.get("status") in ("FAIL", "ERROR") and log.exists():
            one["log_excerpt"] = _excerpt(log.read_text("utf-8", "replace"))
        made.append(one)
    return made


# -- tests -------------------------------------------------------------------

def _excerpt(text: str) -> str:
    return text.replace("\0", "?").strip()[-EXCERPT:]


def _environment(result: Result, emulator: str) -> Row:
    if result.kernel == kunit.UM:
        return {"comment": "user mode Linux", "misc": {"platform": "um"}}
    return {"comment": emulator, "misc": {
        "platform": "qemu" + re.sub(r"[^a-z0-9]+", "-", f" {result.hardware}"
                                    if result.hardware else "")}}


def tests(row: Row, found: Iterable[Result]) -> list[Row]:
    """All cases; the same path comes again for other hardware alone."""
    emulator = (reuse.qemu() or "QEMU").splitlines()[0]
    made, seen = [], set()
    for result in found:
        build_id = _build_id(row, result.kernel)
        path = path_of(result.step, result.name)
        number = 0
        while (key := (build_id, result.hardware, path, number)) in seen:
            number += 1
        seen.add(key)
        digest = _digest(build_id, result.hardware, path, str(number))
        one = {"id": f"{ORIGIN}:{digest}",
               "origin": ORIGIN, "build_id": build_id, "path": path,
               "status": result.status,
               "environment": _environment(result, emulator),
               "misc": {"name": result.name, "stored": result.stored}}
        if result.detail and result.status != "PASS":
            one["log_excerpt"] = _excerpt(result.detail)
        made.append(one)
    return made


def report(out: Path) -> Row:
    """The whole report."""
    row = checkout()
    since = mails.newest(lay.items())
    found = list(results(out, since))
    return {"version": VERSION, "checkouts": [row],
            "builds": builds(row, found, out, since), "tests": tests(row, found)}
