# SPDX-License-Identifier: GPL-2.0
"""`make lava`: jobs for a LAVA farm, in out/lava, valid by LAVA's own schema.

jobs.py makes them, schema.py writes and validates them in the venv. The tests of a
job can run in a guest of this machine.
"""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

from engine import (
    artifacts,
    guest,
    host,
    kernels,
    kselftest,
    ktap,
    packages,
    reuse,
    source,
)
from engine.host import UserError
from engine.ktap import Case
from engine.lava import jobs

PACKAGES = source.PACKAGES
# The last Debian release with LAVA.
SUITE = "bookworm"
# The default job.
SHORT = jobs.Group("short", "lean", ("filesystems/dax:read_eof", "uq:uq_cq",
                                     "uq:uq_errno"), 30)


def url() -> str:
    """Return the URL of the artifacts for dispatchers."""
    return (os.environ.get("ARTIFACTS_URL")
            or artifacts.folder().as_uri()).rstrip("/")


def checksums() -> dict[str, str]:
    """Return the artifacts' checksums, if their sources are the present ones."""
    return artifacts.digests() if artifacts.current() else {}


def modules() -> Path:
    """Return the path of LAVA's Python modules, from Debian or from this system."""
    if shutil.which("apt-get"):
        return source.unpacked("lava-common", SUITE) / "usr/lib/python3/dist-packages"
    found = host.output([packages.PYTHON, "-c", "import lava_common, os; "
                         "print(os.path.dirname(lava_common.__path__[0]))"])
    if not found:
        raise UserError("LAVA's schema is not here: Python's lava_common, which "
                        "Debian has in lava-common")
    return Path(found.strip())


def write(found: list[jobs.Group], where: str) -> list[Case]:
    """Write and validate the jobs; return a case for each."""
    out = host.fresh("lava")
    sums = checksums()
    for group in found:
        host.write(out / f"{group.name}.json",
                   json.dumps(jobs.job(group, where, sums)))
    done = host.module("engine.lava.schema", out, jobs.CI / "kernelci.yaml",
                       also=str(modules()), what="validating LAVA's jobs")
    return ktap.parse(done.stdout)


def _show(found: list[jobs.Group], where: str) -> None:
    """Print the jobs, and why a farm cannot run them unchanged."""
    for group in found:
        host.say(f"    {group.name:10} {group.seconds:5.0f} s  "
                 f"{' '.join(group.tests)}")
    host.say(f"    {len(found)} jobs; the longest takes "
             f"{jobs.balance(found):.2f} times the average")
    if not all(f"{group.mode}/bzImage" in checksums() for group in found):
        host.say("    without checksums: `make artifacts` has not run since the last "
                 "change")
    if where.startswith("file:"):
        host.say(f"    they fetch from {where}, which only this machine has: "
                 "ARTIFACTS_URL= names what dispatchers can reach")


def balanced(found: list[jobs.Group]) -> Case:
    """Check that no job takes much longer than the others."""
    longest = jobs.balance(found)
    return Case(f"the longest job takes at most {jobs.BALANCE} times the average",
                ktap.PASS if longest <= jobs.BALANCE else ktap.FAIL,
                f"it takes {longest:.2f} times as long")


def record() -> list[Case]:
    """Update overlay/kselftest.seconds with the times of this machine."""
    known = reuse.durations()
    every = jobs.tests()
    found = {mode: {test: round(took) or 1 for test, took
                    in sorted(known.get(mode, {}).items(),
                              key=lambda one: (-one[1], one[0]))
                    if test in every}
             for mode in sorted(kernels.having("checked"))}
    host.write(reuse.USUAL, json.dumps(found, indent=1) + "\n")
    return [Case(f"{host.short(reuse.USUAL)}: {mode}", ktap.PASS
                 if tests else ktap.FAIL, "" if tests else "no test ran here")
            for mode, tests in found.items()]


def run(group: jobs.Group) -> list[Case]:
    """Run the tests of a job in a guest of this machine."""
    into, _, cases = kselftest.prepare(group.mode, list(group.tests))
    share = replace(group.share(), into=into)
    return cases + kselftest.run([share], host.fresh("lava"))


def main(args: list[str]) -> list[Case]:
    """`lava`, `lava record`, or `lava run [JOB]`."""
    if args == ["record"]:
        return record()
    running = args[:1] == ["run"]
    if len(args) > 2 or (args and not running):
        raise UserError("lava takes nothing, record, or run and a job's name")
    # Fail before the jobs of an earlier run are deleted.
    guest.asked_for_kvm()
    with host.step("LAVA's jobs (out/lava)"):
        found = jobs.groups()
        if not running:
            where = url()
            cases = write(found, where)
            _show(found, where)
            return [*cases, balanced(found)]
    wanted = [group for group in found if group.name in args[1:]]
    if args[1:] and not wanted:
        raise UserError(f"there is no job {args[1]}: "
                        f"{', '.join(group.name for group in found)}")
    return run((wanted or [SHORT])[0])
