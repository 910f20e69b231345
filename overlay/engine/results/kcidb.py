# SPDX-License-Identifier: GPL-2.0
"""Collect the results in out/ as a report for KCIDB: a checkout, builds, tests.

Results of other sources than the present ones are left out (ran.py). The path of a test
consists of its kselftest or KUnit suite, program and case, as in other reports.
"""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine import build, host, kernels, ktap, kunit, ran, reuse, source, store
from engine.host import UserError
from engine.kernels import KERNELS
from engine.ktap import FAIL, PASS, SKIP, Case

# The CI's name, unless KCIDB_ORIGIN= is another.
ORIGIN = "overlay"
VERSION = {"major": 5, "minor": 3}
# KCIDB's limit for an excerpt of a log.
EXCERPT = 16384
# How a build ended, in KCIDB's words; a kernel that was not built is a MISS.
BUILDS = {build.BUILT: "PASS", build.FAILED: "FAIL", build.BEGAN: "ERROR"}
# The build of cases without a kernel, such as a step that could not run.
NONE = "none"
# A repository that others can read, without a name or password.
PUBLIC = re.compile(r"https://[\w-]+(\.[\w-]+)+(:\d+)?/[^\s@]*")

Row = dict[str, Any]


@dataclass(frozen=True)
class Result:
    """One test case."""

    step: str
    # The kernel's name, and additional hardware of its guest.
    kernel: str
    hardware: str
    name: str
    status: str
    detail: str
    stored: bool
    began: str


def _digest(*words: str) -> str:
    return hashlib.sha256("\0".join(words).encode()).hexdigest()


def path_of(step: str, name: str) -> str:
    """Return the path of a test: words with dots between them."""
    parts = [re.sub(r"[^A-Za-z0-9_-]+", "_", part).strip("_")
             for part in re.split(r": |[./](?=\w)", name)]
    return ".".join([step, *(part for part in parts if part)])


def _status(case: Case) -> str:
    """Return the status of a case in KCIDB's words."""
    if case.status == FAIL and case.detail.startswith("NOT RUN"):
        return "MISS"
    return {FAIL: "FAIL", SKIP: "SKIP", PASS: "PASS"}[case.status]


def results(out: Path) -> Iterator[Result]:
    """Yield all cases of kernels that ran on the present sources."""
    for step in ran.STEPS:
        path, note = out / step / "junit.xml", out / step / ran.FILE
        if not path.exists():
            continue
        if not ran.same(note, ran.now()):
            host.say(f"    left out: {step} ran with other files or another kernel")
            continue
        began = ran.noted(note)["start_time"]
        for case in ktap.read(path):
            name = case.name
            first, _, rest = name.partition(": ")
            mode, _, hardware = first.partition(", ")
            # The name of a guest begins with the name of its kernel.
            known = next((one for one in (*KERNELS, kunit.UM)
                          if re.match(rf"{one}(-|$)", mode)), "")
            if not known:
                # A case without a kernel, such as a test that no guest ran.
                known, rest = NONE, f"{first}: {rest}" if rest else first
            elif mode != known:
                rest = f"{mode}: {rest}"
            yield Result(step, known, hardware, rest, _status(case), case.detail,
                         store.STORED in case.detail, began)


def origin() -> str:
    """Return the name of this CI in KCIDB."""
    named = os.environ.get("KCIDB_ORIGIN") or ORIGIN
    if not re.fullmatch("[a-z0-9_]+", named):
        raise UserError(f"KCIDB_ORIGIN={named} must consist of a to z, 0 to 9 and _")
    return named


def compiler() -> str:
    """Return the first line of gcc --version."""
    return (host.output(["gcc", "--version"]) or "unknown").splitlines()[0]


def repository(src: source.Source) -> Row:
    """Return the location of a kernel's commit, unless it has edits."""
    if not src.is_git or source.edits(src):
        return {}
    found = {
        "git_commit_hash": src.head or "",
        "git_repository_url": source.git(src.path, "config", "remote.origin.url") or "",
        "git_repository_branch": source.git(src.path, "symbolic-ref", "-q", "--short",
                                            "HEAD") or ""}
    takes = {"git_commit_hash": re.compile("[0-9a-f]{40}"),
             "git_repository_url": PUBLIC, "git_repository_branch": re.compile(".+")}
    return {name: text for name, text in found.items() if takes[name].fullmatch(text)}


def checkout() -> Row:
    """Return the kernel and the digest of our files."""
    commit = source.git(host.ROOT, "rev-parse", "HEAD") or ""
    src, laid, name = source.kernel(), ran.patchset(), origin()
    words = (src.version, laid, *([src.head] if src.head else []))
    return {"id": f"{name}:{_digest(*words)}", "origin": name,
            "git_commit_name": f"v{src.version}", "patchset_hash": laid,
            "comment": f"Linux {src.version} and the overlay's files and patches",
            "valid": True, "misc": {"overlay_commit": commit}, **repository(src)}


def _build_id(row: Row, kernel: str) -> str:
    return f"{row['id']}-{kernel}"


def _ended(kernel: str, found: Sequence[Result]) -> str:
    """Return the status of a kernel's build in KCIDB's words."""
    if kernel == kunit.UM:
        # A case of a suite exists only if kunit.py built UML.
        return "PASS" if any(": " in result.name for result in found
                             if result.kernel == kernel) else "FAIL"
    path = build.status(kernel)
    if not (path.exists() and ran.same(build.note(kernel), ran.now())):
        return "MISS"
    return BUILDS.get(path.read_text("utf-8", "replace").strip(), "ERROR")


def builds(row: Row, found: Sequence[Result], out: Path) -> list[Row]:
    """Return a build of each kernel that is checked or has results."""
    made = []
    for kernel in sorted({*kernels.having("checked"),
                          *(result.kernel for result in found)}):
        one = {"id": _build_id(row, kernel), "origin": row["origin"],
               "checkout_id": row["id"], "architecture": "x86_64",
               "config_name": kernel, "compiler": compiler()}
        if kernel == NONE:
            one["comment"] = "no build: these tests do not belong to one kernel"
        else:
            one["status"] = _ended(kernel, found)
        log = out / "build" / f"{kernel}.log"
        if one.get("status") in ("FAIL", "ERROR") and log.exists():
            one["log_excerpt"] = _excerpt(log.read_text("utf-8", "replace"))
        made.append(one)
    return made


def _excerpt(text: str) -> str:
    return text.replace("\0", "?").strip()[-EXCERPT:]


def _environment(result: Result, emulator: str) -> Row:
    if result.kernel == kunit.UM:
        return {"comment": "user mode Linux", "misc": {"platform": "um"}}
    return {"comment": emulator, "misc": {
        "platform": "qemu" + re.sub(r"[^a-z0-9]+", "-", f" {result.hardware}"
                                    if result.hardware else "")}}


def tests(row: Row, found: Iterable[Result]) -> list[Row]:
    """Return all cases; a path repeats only for other hardware."""
    emulator = (reuse.qemu() or "QEMU").splitlines()[0]
    made = []
    seen: Counter[tuple[str, str, str]] = Counter()
    for result in found:
        build_id = _build_id(row, result.kernel)
        path = path_of(result.step, result.name)
        key = build_id, result.hardware, path
        digest = _digest(*key, str(seen[key]))
        seen[key] += 1
        one = {"id": f"{row['origin']}:{digest}",
               "origin": row["origin"], "build_id": build_id, "path": path,
               "status": result.status,
               "environment": _environment(result, emulator),
               "misc": {"name": result.name, "stored": result.stored}}
        if not result.stored:
            one["start_time"] = result.began
        if result.detail and result.status != "PASS":
            one["log_excerpt"] = _excerpt(result.detail)
        made.append(one)
    return made


def report(out: Path) -> Row:
    """Return the whole report."""
    row = checkout()
    found = list(results(out))
    return {"version": VERSION, "checkouts": [row],
            "builds": builds(row, found, out), "tests": tests(row, found)}
