# SPDX-License-Identifier: GPL-2.0
"""KUnit in the debug kernel, or under UML.

The debug kernel builds all suites as modules, and a guest loads them. UML lacks DAX;
the kernel's kunit.py runs its suites in `make soak` and `make kunit ARGS=um`. KTAP
decides, not exit codes. A suite of ours that no kernel ran is a failure.
"""

import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

from engine import build, guest, host, ktap, lay, reuse, store
from engine.host import UserError
from engine.kernels import KERNELS, SUITES
from engine.ktap import Case

PACKAGES = (*build.PACKAGES, *guest.PACKAGES)
SUITE = re.compile(
    r"struct kunit_suite \w+ = \{[^}]*?\.name\s*=\s*\"([^\"]+)\"")
UM = "um"
# The module that modules with suites need.
KUNIT = "lib/kunit/kunit.ko"


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


def modules(mode: str = SUITES) -> list[str]:
    """The modules that a guest loads, in this order: KUnit, and all suites."""
    listed = build.folder(mode) / "modules.order"
    found = [PurePosixPath(name) for name in listed.read_text("utf-8").split()
             if build.SUITE.search(name)]
    return [KUNIT, *(str(name.with_suffix(".ko")) for name in found)]


def run_um(out: Path) -> list[Case]:
    """Build and boot UML by the kernel's kunit.py; its cases."""
    tree, folder = build.tree(), build.top() / "build" / UM
    log = folder / "test.log"
    host.remove(log)
    folder.mkdir(parents=True, exist_ok=True)
    done = host.run(
        [sys.executable, tree / "tools/testing/kunit/kunit.py", "run", f"--arch={UM}",
         f"--build_dir={folder}", f"--jobs={host.jobs()}", "--timeout=900",
         # One kernel for all: most of it would be the same.
         *[f"--kunitconfig={path}" for path in uml_configs()], "--raw_output=all",
         "--make_options=CC=ccache gcc", "--make_options=HOSTCC=ccache gcc"],
        log=out / f"{UM}.log", env=build.environment(), check=False, timeout=3600,
        progress=ktap.Progress(UM), what=f"KUnit: {UM}")
    output = log.read_text("utf-8", "replace") if log.exists() else ""
    host.write(out / f"{UM}.ktap", output)
    host.write(out / f"{UM}.boot.log", output)
    return judge(UM, output, done, out)


def run_guest(out: Path, mode: str = SUITES,
              command: guest.Command = guest.command) -> list[Case]:
    """The run of the guest that loads all suites; its cases."""
    folder = build.folder(mode)
    # All suites end within 5 minutes; CI has time for a guest that hangs.
    machine = guest.Machine(append=KERNELS[mode].append, timeout=900)

    def work() -> list[Case]:
        words = " ".join((str(folder), *modules(mode)))
        done = guest.boot(mode, f"exec sh {guest.SCRIPTS}/kunit.sh {words}\n",
                          name=mode, out=out, machine=machine, folder=folder,
                          command=command)
        return _named(mode, done.ktap) + done.cases(suites=True)

    return _once(mode, lambda: reuse.key(mode, modules(mode)), work)


def _once(name: str, key: Callable[[], str | None],
          work: Callable[[], list[Case]]) -> list[Case]:
    """Return the kept cases, or run; keep them if the key did not change meanwhile."""
    before = key()
    kept = store.take("kunit", before)
    if kept:
        host.say(f"    {name}: same image as at {kept.when}: "
                 f"{ktap.total(kept.cases)}, taken from the store")
        return store.mark(kept.cases, kept.when)
    start = time.monotonic()
    cases = work()
    if key() == before:
        store.keep("kunit", before, cases)
    took = time.monotonic() - start
    host.took(f"KUnit: {name}", took)
    host.say(f"    {name}: {ktap.total(cases)} in {host.elapsed(took)}")
    return cases


def _named(name: str, output: str) -> list[Case]:
    """The cases in a kernel's output, with the kernel's name before them."""
    return [Case(f"{name}: {case.name}", case.status, case.detail)
            for case in ktap.parse(output)]


def judge(name: str, output: str, done: host.Done, out: Path) -> list[Case]:
    """The cases of a kernel's log; none at all is a failure."""
    cases = _named(name, output)
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


def _at_once(runs: Sequence[Callable[[Path], list[Case]]],
             out: Path) -> list[Case]:
    """Several kernels at a time: each keeps one processor busy."""
    with host.step(f"KUnit in {len(runs)} kernels ({host.short(out)}/*.log)"):
        done = host.at_once(lambda run: run(out), [(run,) for run in runs], len(runs))
    return [case for cases in done for case in cases]


def main(args: list[str]) -> list[Case]:
    """`kunit` in the debug kernel; `kunit um`, or `kunit "um debug"`."""
    for name in args:
        if name not in (UM, SUITES):
            raise UserError(f"KUnit does not run in {name}: {UM}, {SUITES}")
    chosen = args or [SUITES]
    host.need(*PACKAGES)
    out = host.fresh("kunit")
    build.lay_tree()
    runs: list[Callable[[Path], list[Case]]] = []
    if UM in chosen:
        runs.append(run_um)
    if SUITES in chosen:
        build.build(SUITES)
        runs.append(run_guest)
    cases = _at_once(runs, out)
    return cases + _absent(cases) if SUITES in chosen else cases
