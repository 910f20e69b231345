# SPDX-License-Identifier: GPL-2.0
"""`make results`: the results of the last runs for KernelCI's KCIDB.

kcidb.py collects the report. compare.py validates and compares reports in the venv,
which contains kcidb-io and kci-dev, and prints TAP.
"""

import json
from pathlib import Path

from engine import host, ktap
from engine.host import UserError
from engine.ktap import Case
from engine.results import kcidb

FILE = "kcidb.json"


def _venv(*paths: object, what: str) -> list[Case]:
    """Validate a report, or compare two, in the venv."""
    done = host.module("engine.results.compare", *paths, check=False, what=what)
    for line in done.stdout.splitlines():
        if line.startswith("# "):
            host.say(f"    {line[2:]}")
    return ktap.parse(done.stdout)


def write(path: Path) -> list[Case]:
    """Write the report of the last runs, and validate it."""
    with host.step(f"results for KCIDB ({host.short(path.with_name(FILE))})"):
        data = kcidb.report(host.OUT)
        host.write(path, json.dumps(data, indent=1) + "\n")
        cases = _venv(path, what="validating KCIDB's report")
        host.say(f"    {len(data['builds'])} builds, {len(data['tests'])} tests")
    if not data["tests"]:
        return [Case(FILE, ktap.FAIL, "NOT RUN: no run of kunit or kselftest has "
                     f"left results in {host.short(host.OUT)}")]
    return cases


def main(args: list[str]) -> list[Case]:
    """`results`, `results OLD` against the last runs, `results OLD NEW`."""
    if len(args) > 2:
        raise UserError("results takes nothing, or one or two kcidb.json")
    for old in args:
        if not Path(old).exists():
            raise UserError(f"{old} is not there to compare with")
    if len(args) == 2:
        return _venv(*args, what="comparing results")
    path = host.OUT / "results" / FILE
    # OLD may be the report of the last runs, which is about to be written.
    new = path.with_name(f"new.{FILE}")
    cases = write(new)
    for old in args:
        cases += _venv(old, new, what="comparing results")
    new.rename(path)
    return cases
