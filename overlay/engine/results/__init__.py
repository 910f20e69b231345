# SPDX-License-Identifier: GPL-2.0
"""`make results`: what the last runs left, as KernelCI's KCIDB takes it.

kcidb.py makes out/results/kcidb.json from what is in out/. validate.py and
compare.py run in the venv that has kcidb-io and kci-dev.
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


def _venv(module: str, *args: object, what: str) -> host.Done:
    """Run a module of ours in the venv."""
    cmd = [host.pytool("python"), "-m", f"engine.results.{module}", *args]
    return host.run(cmd, env={"PYTHONPATH": str(host.ROOT / "overlay")},
                    check=False, what=what)


def _path() -> Path:
    """Where the report of the last runs is."""
    return host.OUT / "results" / FILE


def write() -> list[Case]:
    """Write the report of the last runs, and validate it."""
    # Other files stay: one of them may be what is compared with.
    path = _path()
    with host.step(f"results for KCIDB ({host.short(path)})"):
        data = kcidb.report(host.OUT)
        host.write(path, json.dumps(data, indent=1) + "\n")
        done = _venv("validate", path, what="validating KCIDB's report")
        host.say(f"    {len(data['builds'])} builds, {len(data['tests'])} tests")
    if not data["tests"]:
        return [Case(FILE, ktap.FAIL, "NOT RUN: no run of kunit or kselftest has "
                     f"left results in {host.short(host.OUT)}")]
    wrong = done.stdout.strip() if done.returncode else ""
    return [Case(f"{FILE} is valid by kcidb-io",
                 ktap.FAIL if wrong or done.returncode else ktap.PASS,
                 wrong[-1000:])]


def compare(old: str, new: str) -> list[Case]:
    """What two reports have differently; what passed before fails if it is lost."""
    done = _venv("compare", old, new, what="comparing results")
    if done.returncode not in (0, 2):
        why = (done.stdout.strip().splitlines() or [""])[-1]
        raise UserError(f"{old} and {new} could not be compared: {why}")
    lines = done.stdout.splitlines()
    for line in lines:
        host.say(f"    {line}")
    lost = [line.removeprefix(LOST) for line in lines if line.startswith(LOST)]
    return [Case("what passed before passes, or is skipped",
                 ktap.FAIL if done.returncode else ktap.PASS, "\n".join(lost))]


def _aside(old: str) -> str:
    """The report to compare with, whose own file may be about to be written."""
    path = Path(old)
    if not path.exists():
        raise UserError(f"{old} is not there to compare with")
    if path.resolve() != _path().resolve():
        return old
    beside = path.with_name(f"previous.{FILE}")
    host.write(beside, path.read_bytes())
    return str(beside)


def main(args: list[str]) -> list[Case]:
    """`results`, `results OLD` against the last runs, `results OLD NEW`."""
    if len(args) > 2:
        raise UserError("results takes nothing, or one or two kcidb.json")
    if len(args) == 2:
        return compare(*args)
    old = [_aside(one) for one in args]
    return write() + [case for one in old for case in compare(one, str(_path()))]
