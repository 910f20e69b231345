# SPDX-License-Identifier: GPL-2.0
"""KUnit by the kernel's own kunit.py: under UML, and in an x86_64 guest.

UML cannot have DAX (it needs ZONE_DEVICE), so what needs it runs under
QEMU; what is pure runs in both. The result is judged from the kernel's log,
not from an exit code, and a suite of ours that no kernel ran is a failure.
"""

import os
import re
import shutil
import sys
from pathlib import PurePosixPath

from engine import build, guest, host, ktap, lay
from engine.ktap import Case

PACKAGES = (*build.PACKAGES, "qemu-system-x86")
CONFIG = build.CONFIGS / "kunit-x86.config"
TCG = host.ROOT / "overlay" / "guest" / "tcg"
SUITE = re.compile(
    r"struct kunit_suite \w+ = \{[^}]*?\.name\s*=\s*\"([^\"]+)\"")


def our_suites():
    """The names of the suites that files of ours define."""
    found = []
    for item in lay.items():
        if item.kind == "file" and item.target.endswith(".c"):
            text = (host.ROOT / item.path).read_text(encoding="utf-8")
            found += SUITE.findall(text)
    return sorted(found)


def uml_configs():
    """The .kunitconfig of each folder that we touch and that has one."""
    folders = {PurePosixPath(item.target).parent for item in lay.items()}
    tree = build.tree()
    return sorted(tree / folder / ".kunitconfig" for folder in folders
                  if (tree / folder / ".kunitconfig").exists())


def _command(name, kunitconfigs, extra):
    tool = build.tree() / "tools/testing/kunit/kunit.py"
    return [sys.executable, tool, "run",
            *[f"--kunitconfig={path}" for path in kunitconfigs],
            f"--build_dir={build.top() / 'build' / name}",
            f"--jobs={host.jobs()}", "--timeout=900", "--raw_output=all",
            "--make_options=CC=ccache gcc",
            "--make_options=HOSTCC=ccache gcc", *extra]


def _environment():
    """kunit.py starts QEMU itself and would take any /dev/kvm there is."""
    env = build.environment()
    if not guest.accelerated():
        env["PATH"] = f"{TCG}:{os.environ['PATH']}"
        env["OVERLAY_QEMU"] = shutil.which("qemu-system-x86_64") or ""
    return env


def _steps(line):
    return line.strip() if re.match(r"\s*(not )?ok \d+ |Building|\[\d",
                                    line) else None


def run(name, kunitconfigs, out, extra=()):
    """One kernel's KUnit run; returns its cases and the suites it ran."""
    folder = build.top() / "build" / name
    folder.mkdir(parents=True, exist_ok=True)
    log = out / f"{name}.log"
    host.remove(folder / "test.log")
    with host.step(f"KUnit: {name} ({host.short(log)})"):
        done = host.run(_command(name, kunitconfigs, extra), log=log,
                        env=_environment(), check=False, timeout=3600,
                        progress=_steps, what=f"KUnit {name}")
        said = ""
        if (folder / "test.log").exists():
            said = (folder / "test.log").read_text("utf-8", "replace")
        host.write(out / f"{name}.ktap", said)
        host.write(out / f"{name}.boot.log", said)
        cases = judge(name, said, done, out)
        host.say(f"    {ktap.total(cases)}")
    return cases


def judge(name, said, done, out):
    """The cases of a kernel's log; none at all is a failure."""
    cases = [Case(f"{name}: {case.name}", case.status, case.detail)
             for case in ktap.parse(said)]
    failed = any(case.status == ktap.FAIL for case in cases)
    if done.returncode and (not failed or not said):
        complaint = host.complaint(done.stdout)
        cases.append(Case(f"{name}: kunit.py", ktap.FAIL,
                          complaint or f"it ended with {done.returncode}"))
    return cases + ktap.splat_cases(name, said, out / f"{name}.boot.log")


def _absent(cases):
    """A failing case for each suite of ours that ran nowhere."""
    ran = {part for case in cases for part in case.name.split(": ")[1:2]}
    return [Case(suite, ktap.FAIL, "NOT RUN: no kernel ran this suite")
            for suite in our_suites() if suite not in ran]


def main(args):
    """`kunit`, or `kunit um` / `kunit x86` for one of the two."""
    host.need(*PACKAGES)
    out = host.fresh("kunit")
    build.lay_tree()
    cases = []
    if "x86" not in args:
        # One kernel for all: most of it would be the same.
        cases += run("um", uml_configs(), out)
    if "um" not in args:
        patient = [f"--kernel_args={text}" for text in guest.PATIENT]
        cases += run("x86_64", [CONFIG], out, ("--arch=x86_64", *patient))
        cases += _absent(cases)
    return cases
