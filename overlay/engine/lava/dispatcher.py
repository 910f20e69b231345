# SPDX-License-Identifier: GPL-2.0
"""A job of LAVA's run here by Debian's lava-run, without a server.

lava-dispatcher brings udev, libguestfs and more than a hundred packages: it goes
into a Debian of its own in the work folder, never onto this system.
"""

import json
import os
import re
import shutil
from pathlib import Path

from engine import artifacts, host, ktap, packages, source
from engine.host import UserError
from engine.ktap import Case
from engine.lava import jobs

PACKAGES = (*source.PACKAGES, "mmdebstrap", "util-linux", "coreutils", "mount")
INSIDE = ("lava-dispatcher", "qemu-system-x86")
# Debian's last release that has LAVA.
SUITE = "bookworm"
# Seconds beside what the job itself allows.
MORE = 900
# A line of its log, which is YAML, that has a result.
RESULT = re.compile(r'"lvl": "results"')
# What each job's steps give at their end: without it they have not come that far,
# and LAVA may call the job a success all the same.
LAST = ("all_programs_ended", "no_splat")
FIELD = r'"{}": "((?:[^"\\]|\\.)*)"'
# Mounts are gone with the process that made them.
ENTER = """set -e
mount --make-rprivate /
mount --rbind /dev "$1/dev"
mount -t proc proc "$1/proc"
mount -t sysfs sysfs "$1/sys"
mount --bind "$2" "$1/artifacts"
mount --bind "$3" "$1/job"
exec chroot "$1" lava-run --job-id 1 --output-dir /job/output \\
	--device /job/device.yaml --dispatcher /job/dispatcher.yaml /job/job.yaml
"""


def unpacked(name: str) -> Path:
    """A package of Debian's, unpacked in the work folder and not installed."""
    into = host.WORK / "tools" / f"{name}-{SUITE}"
    if not (into / ".overlay-whole").exists():
        package = source.fetch_package(name, SUITE)
        host.remove(into)
        into.parent.mkdir(parents=True, exist_ok=True)
        host.run(["dpkg-deb", "-x", package, into], what=f"unpacking {name}")
        (into / ".overlay-whole").touch()
    return into


def modules() -> Path:
    """Where LAVA's Python modules are: of Debian's package, or this system's."""
    if shutil.which("apt-get"):
        return unpacked("lava-common") / "usr/lib/python3/dist-packages"
    found = host.output([packages.PYTHON, "-c", "import lava_common, os; "
                         "print(os.path.dirname(lava_common.__path__[0]))"])
    if not found:
        raise UserError("LAVA's schema is not here: Python's lava_common, which "
                        "Debian has in lava-common")
    return Path(found.strip())


def _root() -> Path:
    """A Debian with lava-run."""
    into = host.WORK / "lava-root"
    whole = into / ".overlay-whole"
    if not whole.exists():
        host.need(*PACKAGES)
        host.need_space(host.WORK, 3, "LAVA's dispatcher")
        host.remove(into)
        log = host.OUT / "lava" / "root.log"
        with host.step(f"a Debian for LAVA's dispatcher ({host.short(log)})"):
            artifacts.bootstrap(source.private_apt(SUITE), SUITE, into, log,
                                INSIDE, "--variant=essential")
        whole.touch()
    for name in ("artifacts", "job"):
        (into / name).mkdir(exist_ok=True)
    return into


def _device(job: jobs.Job, out: Path) -> None:
    """The device of type qemu, by LAVA's own template and the job's context."""
    templates = unpacked("lava-server") / "usr/share/lava-server/device-types"
    host.write(out / "context.json", json.dumps(job["context"]))
    code = ("import jinja2, json, sys; print(jinja2.Environment("
            "loader=jinja2.FileSystemLoader(sys.argv[1]), trim_blocks=True)"
            ".get_template('qemu.jinja2')"
            ".render(**json.load(open(sys.argv[2]))))")
    done = host.run([host.pytool("python"), "-c", code, templates,
                     out / "context.json"], what="making LAVA's device")
    host.write(out / "device.yaml", done.stdout)


def results(log: str) -> list[Case]:
    """The results in lava-run's log: one that it gives, or that a test does."""
    cases = []
    for line in log.splitlines():
        if not RESULT.search(line):
            continue
        found = {name: re.search(FIELD.format(name), line)
                 for name in ("definition", "case", "result", "error_msg")}
        text = {name: match[1] if match else ""
                for name, match in found.items()}
        status = {"pass": ktap.PASS, "skip": ktap.SKIP}.get(text["result"],
                                                            ktap.FAIL)
        cases.append(Case(f"{text['definition']}: {text['case']}", status,
                          text["error_msg"]))
    if not any(case.name == "lava: job" for case in cases):
        cases.append(Case("lava: job", ktap.FAIL, "lava-run did not end it"))
    return cases + [
        Case(f"lava: {name}", ktap.FAIL, "NOT RUN: the job has no such result")
        for name in LAST
        if not any(case.name.endswith(f": {name}") for case in cases)]


def run(group: jobs.Group) -> list[Case]:
    """Run one job, and return what LAVA has as its results."""
    if os.geteuid():
        raise UserError("lava-run has to be root")
    sums = artifacts.digests()
    if f"{group.mode}/bzImage" not in sums:
        raise UserError(f"there are no artifacts of the {group.mode} kernel: "
                        f"run `make artifacts ARGS={group.mode}` first")
    if not artifacts.current():
        raise UserError("the artifacts are of other sources than those that are here "
                        f"now: `make artifacts ARGS={group.mode}` makes new ones")
    out = host.OUT / "lava" / "run"
    root = _root()
    host.remove(out)
    out.mkdir(parents=True)
    job = jobs.job(group, "file:///artifacts", sums)
    _device(job, out)
    # Every JSON is YAML.
    host.write(out / "job.yaml", json.dumps(job, indent=1))
    host.write(out / "dispatcher.yaml", "dispatcher_ip: 127.0.0.1\n")
    log = out / "log.yaml"
    limit = job["timeouts"]["job"]["minutes"] * 60 + MORE
    with host.step(f"lava-run: {job['job_name']} ({host.short(log)})"):
        done = host.run(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
             ENTER, "sh", root, artifacts.folder(), out], log=log, check=False,
            timeout=limit, progress=_shows, what="lava-run")
    shutil.rmtree(out / "output" / "tmp", ignore_errors=True)
    return results(done.stdout)


def _shows(line: str) -> str | None:
    """How a job goes on: the result that came last."""
    if not RESULT.search(line):
        return None
    found = re.search(FIELD.format("case"), line)
    return f"lava-run: {found[1]}" if found else None
