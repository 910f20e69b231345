# SPDX-License-Identifier: GPL-2.0
"""`make results`: what the last runs left, as KernelCI's KCIDB takes it.

report.py makes out/results/kcidb.json from what is in out/. validate.py and
compare.py run in the venv that has kcidb-io and kci-dev.
"""

import json

from engine import host, ktap
from engine.host import UserError
from engine.ktap import Case
from engine.results import report

FILE = "kcidb.json"


def _venv(module: str, *args: object, what: str) -> host.Done:
    """Run a module of ours in the venv."""
    cmd = [host.pytool("python"), "-m", f"engine.results.{module}", *args]
    return host.run(cmd, env={"PYTHONPATH": str(host.ROOT / "overlay")},
                    check=False, what=what)


def write() -> list[Case]:
    """Write the report of the last runs, and validate it."""
    path = host.fresh("results") / FILE
    with host.step(f"results for KCIDB ({host.short(path)})"):
        data = report.report(host.OUT)
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
    """What two reports have differently; new failures fail."""
    done = _venv("compare", old, new, what="comparing results")
    if done.returncode not in (0, 2):
        why = (done.stdout.strip().splitlines() or [""])[-1]
        raise UserError(f"{old} and {new} could not be compared: {why}")
    for line in done.stdout.splitlines():
        host.say(f"    {line}")
    return [Case("no test fails that passed before",
                 ktap.FAIL if done.returncode else ktap.PASS)]


def main(args: list[str]) -> list[Case]:
    """`results`, `results OLD` against the last runs, `results OLD NEW`."""
    if len(args) > 2:
        raise UserError("results takes nothing, or one or two kcidb.json")
    if args:
        return compare(args[0], (*args, str(host.OUT / "results" / FILE))[1])
    return write()
