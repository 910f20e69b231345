# SPDX-License-Identifier: GPL-2.0
"""KUnit by the kernel's own kunit.py: under UML, and in an x86_64 guest.

UML cannot have DAX (it needs ZONE_DEVICE), so what needs it runs under
QEMU; what is pure runs in both. The result is judged from the kernel's log,
not from an exit code, and a suite of ours that no kernel ran is a failure.
"""

import functools
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from engine import build, guest, host, ktap, lay, reuse, store
from engine.ktap import Case

PACKAGES = (*build.PACKAGES, "qemu-system-x86")
CONFIG = build.CONFIGS / "kunit-x86.config"
TCG = host.PROGRAMS / "tcg"
# What judges the results.
CODE = ("kunit.py", "ktap.py")
SUITE = re.compile(
    r"struct kunit_suite \w+ = \{[^}]*?\.name\s*=\s*\"([^\"]+)\"")


def our_suites() -> list[str]:
    """The names of the suites that files of ours define."""
    found = []
    for item in lay.items():
        if item.kind == "file" and item.target.endswith(".c"):
            text = (host.ROOT / item.path).read_text(encoding="utf-8")
            found += SUITE.findall(text)
    return sorted(found)


def uml_configs() -> list[Path]:
    """The .kunitconfig of each folder that we touch and that has one."""
    folders = {PurePosixPath(item.target).parent for item in lay.items()}
    tree = build.tree()
    return sorted(tree / folder / ".kunitconfig" for folder in folders
                  if (tree / folder / ".kunitconfig").exists())


# What kunit.py boots, in its build folder.
IMAGES = {"um": "linux", "x86_64": "arch/x86/boot/bzImage"}


def _tool(what: str, name: str) -> list[object]:
    tool = build.tree() / "tools/testing/kunit/kunit.py"
    return [sys.executable, tool, what, f"--arch={name}",
            f"--build_dir={build.top() / 'build' / name}"]


def _building(name: str, kunitconfigs: Sequence[Path]) -> list[object]:
    return [*_tool("build", name),
            *[f"--kunitconfig={path}" for path in kunitconfigs],
            f"--jobs={host.jobs()}", "--make_options=CC=ccache gcc",
            "--make_options=HOSTCC=ccache gcc"]


def _running(name: str) -> list[object]:
    patient = guest.PATIENT if name == "x86_64" else ()
    return [*_tool("exec", name), "--timeout=900", "--raw_output=all",
            *[f"--kernel_args={text}" for text in patient]]


def _environment() -> dict[str, str]:
    """kunit.py starts QEMU itself and would take any /dev/kvm there is."""
    env = build.environment()
    if not guest.accelerated():
        env["PATH"] = f"{TCG}:{os.environ['PATH']}"
        env["OVERLAY_QEMU"] = shutil.which("qemu-system-x86_64") or ""
    return env


def _key(name: str, cmd: Sequence[object]) -> str | None:
    """What a run's result is kept under: its image, and what boots it."""
    here = Path(__file__).parent
    image = store.of_file(build.top() / "build" / name / IMAGES[name])
    return image and store.digest({
        "image": image, "command": [str(part) for part in cmd[2:]],
        "emulator": reuse.emulator(), "tcg": store.of_files(TCG.iterdir(), TCG),
        "code": store.of_files((here / name for name in CODE), here),
        "kunit.py": store.of_files(
            (build.tree() / "tools/testing/kunit").rglob("*.py"))})


def run(name: str, kunitconfigs: Sequence[Path], out: Path) -> list[Case]:
    """One kernel's KUnit run; returns its cases and the suites it ran."""
    folder = build.top() / "build" / name
    folder.mkdir(parents=True, exist_ok=True)
    log = out / f"{name}.log"
    tool = functools.partial(
        host.run, log=log, env=_environment(), check=False, timeout=3600,
        progress=ktap.Progress(name), what=f"KUnit: {name}")
    with host.step(f"building KUnit's kernel: {name} ({host.short(log)})"):
        done = tool(_building(name, kunitconfigs))
    if done.returncode:
        return judge(name, "", done, out)
    cmd = _running(name)
    key = _key(name, cmd)
    kept = store.take("kunit", key)
    if kept:
        host.say(f"    {name}: same image as at {kept.when}: "
                 f"{ktap.total(kept.cases)}, taken from the store")
        return store.mark(kept.cases, kept.when)
    with host.step(f"KUnit: {name} ({host.short(log)})"):
        host.remove(folder / "test.log")
        done = tool(cmd)
        output = ""
        if (folder / "test.log").exists():
            output = (folder / "test.log").read_text("utf-8", "replace")
        host.write(out / f"{name}.ktap", output)
        host.write(out / f"{name}.boot.log", output)
        cases = judge(name, output, done, out)
        store.keep("kunit", key, cases)
        host.say(f"    {ktap.total(cases)}")
    return cases


def judge(name: str, output: str, done: host.Done, out: Path) -> list[Case]:
    """The cases of a kernel's log; none at all is a failure."""
    cases = [Case(f"{name}: {case.name}", case.status, case.detail)
             for case in ktap.parse(output)]
    failed = any(case.status == ktap.FAIL for case in cases)
    if done.returncode and (not failed or not output):
        complaint = host.complaint(done.stdout)
        cases.append(Case(f"{name}: kunit.py", ktap.FAIL,
                          complaint or f"it ended with {done.returncode}"))
    return cases + ktap.splat_cases(name, output, out / f"{name}.boot.log")


def _absent(cases: list[Case]) -> list[Case]:
    """A failing case for each suite of ours that ran nowhere."""
    ran = {part for case in cases for part in case.name.split(": ")[1:2]}
    return [Case(suite, ktap.FAIL, "NOT RUN: no kernel ran this suite")
            for suite in our_suites() if suite not in ran]


def main(args: list[str]) -> list[Case]:
    """`kunit`, or `kunit um` / `kunit x86` for one of the two."""
    host.need(*PACKAGES)
    out = host.fresh("kunit")
    build.lay_tree()
    cases = []
    if "x86" not in args:
        # One kernel for all: most of it would be the same.
        cases += run("um", uml_configs(), out)
    if "um" not in args:
        cases += run("x86_64", [CONFIG], out)
        cases += _absent(cases)
    return cases
