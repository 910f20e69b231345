# SPDX-License-Identifier: GPL-2.0
"""`make results`: the results of the last runs for KernelCI's KCIDB.

kcidb.py writes out/results/kcidb.json. compare.py runs in the
venv that has kcidb-io and kci-dev.
"""

import json
from pathlib import Path

from engine import host, ktap
from engine.host import UserError
from engine.ktap import Case
from engine.results import kcidb

FILE = "kcidb.json"
# What compare.py puts before what passed and now does not.
LOST = "  ! "


def _venv(*paths: object, what: str) -> host.Done:
    """Validate a report, or compare two, in the venv."""
    return host.module("engine.results.compare", *paths, check=False, what=what)


def write(path: Path) -> list[Case]:
    """Write the report of the last runs, and validate it."""
    with host.step(f"results for KCIDB ({host.short(path.with_name(FILE))})"):
        data = kcidb.report(host.OUT)
        host.write(path, json.dumps(data, indent=1) + "\n")
        done = _venv(path, what="validating KCIDB's report")
        host.say(f"    {len(data['builds'])} builds, {len(data['tests'])} tests")
    if not data["tests"]:
        return [Case(FILE, ktap.FAIL, "NOT RUN: no run of kunit or kselftest has "
                     f"left results in {host.short(host.OUT)}")]
    return [Case(f"{FILE} is valid by kcidb-io",
                 ktap.FAIL if done.returncode else ktap.PASS,
                 done.stdout.strip()[-1000:] if done.returncode else "")]


def compare(old: object, new: object) -> list[Case]:
    """What two reports have differently; what passed before fails if it is lost."""
    done = _venv(old, new, what="comparing results")
    lines = done.stdout.splitlines()
    if done.returncode not in (0, 2):
        raise UserError(f"{old} and {new} could not be compared: {(lines or [''])[-1]}")
    for line in lines:
        host.say(f"    {line}")
    lost = [line.removeprefix(LOST) for line in lines if line.startswith(LOST)]
    return [Case("what passed before passes, or is skipped",
                 ktap.FAIL if done.returncode else ktap.PASS, "\n".join(lost))]


def main(args: list[str]) -> list[Case]:
    """`results`, `results OLD` against the last runs, `results OLD NEW`."""
    if len(args) > 2:
        raise UserError("results takes nothing, or one or two kcidb.json")
    for old in args:
        if not Path(old).exists():
            raise UserError(f"{old} is not there to compare with")
    if len(args) == 2:
        return compare(*args)
    path = host.OUT / "results" / FILE
    # OLD may be the report of the last runs, which is about to be written.
    new = path.with_name(f"new.{FILE}")
    cases = [*write(new), *(case for old in args for case in compare(old, new))]
    new.rename(path)
    return cases
