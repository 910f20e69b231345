# SPDX-License-Identifier: GPL-2.0
"""`make report`: one page with results, times, plots and links, out/report/index.html.

The page shows the files that the last runs left in out/. html.py writes it in the
venv, which contains Jinja.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine import check, host
from engine.ktap import FAIL, PASS, SKIP, Case, read
from engine.store import STORED

# Names of cases of one kernel and one program.
KSELFTEST = re.compile(r"([^:]+): ([\w/]+): (\w+(?:\.sh)?)(?:: (.*))?$")
KUNIT = re.compile(r"(\w+): ([^:]+)(?:: (.*))?$")
# Shorter parts of a run, in seconds, are not on the time line.
LONG = 10


@dataclass
class Program:
    """The cases of one program, or of one checker, on one kernel."""

    step: str
    kernel: str
    name: str
    passed: int = 0
    stored: int = 0
    # Names and details of cases that did not pass.
    failures: list[tuple[str, str]] = field(default_factory=list)
    skips: list[tuple[str, str]] = field(default_factory=list)

    @property
    def failed(self) -> int:
        return len(self.failures)

    @property
    def skipped(self) -> int:
        return len(self.skips)


def _place(step: str, name: str) -> tuple[str, str, str]:
    """Split the name of a case into kernel, program and the rest."""
    if step == "kselftest" and (match := KSELFTEST.match(name)):
        return match[1], f"{match[2]}: {match[3]}", match[4] or ""
    if step == "kunit" and (match := KUNIT.match(name)):
        return match[1], match[2], match[3] or ""
    first, _, rest = name.partition(": ")
    return "", first if rest else step, rest or name


def results(out: Path, steps: Iterable[str]) -> list[Program]:
    """Return all programs of these steps, in order."""
    found: dict[tuple[str, str, str], Program] = {}
    for step in steps:
        for case in read(out / step / "junit.xml"):
            kernel, name, rest = _place(step, case.name)
            program = found.setdefault((step, kernel, name),
                                       Program(step, kernel, name))
            program.stored += STORED in case.detail
            if case.status == FAIL:
                program.failures.append((rest, case.detail))
            elif case.status == SKIP:
                program.skips.append((rest, case.detail))
            else:
                program.passed += 1
    return list(found.values())


def matrices(programs: Iterable[Program]) -> dict[str, dict[str, dict[str, Program]]]:
    """Return programs that kernels ran: step -> name -> kernel -> program."""
    found: dict[str, dict[str, dict[str, Program]]] = {}
    for program in programs:
        if program.kernel:
            found.setdefault(program.step, {}).setdefault(
                program.name, {})[program.kernel] = program
    return found


def logs(out: Path, steps: Iterable[str]) -> dict[str, list[str]]:
    """Return the logs of each step, as paths in out/."""
    return {step: sorted(str(path.relative_to(out)) for path
                         in (out / step).iterdir()
                         if path.suffix == ".log" or path.name == "log")
            for step in steps if (out / step).is_dir()}


def spans(out: Path) -> list[dict[str, Any]]:
    """Return the long parts of the last `make check`, by their beginning."""
    path = out / "check" / "times.json"
    if not path.exists():
        return []
    return sorted((span for span in json.loads(path.read_text("utf-8"))
                   if span["seconds"] >= LONG), key=lambda span: span["begin"])


def profiles(out: Path) -> list[tuple[str, str]]:
    """Return the profiles of the last `make bench`: path in out/, and title."""
    return [(str(path.relative_to(out)),
             path.read_text("utf-8").partition("\n")[0].removeprefix("# "))
            for path in sorted((out / "bench").glob("profile-*.txt"))]


def main(args: list[str]) -> list[Case]:
    """Write the page."""
    with host.step("the report (out/report/index.html)"):
        host.module("engine.page.html", host.OUT, *check.STEPS,
                    what="writing the report")
    return [Case("out/report/index.html", PASS)]
