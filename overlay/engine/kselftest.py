# SPDX-License-Identifier: GPL-2.0
"""kselftests of ours, installed by the kernel's own rules, run in guests.

The lean kernel runs all of them, the debug kernel those that
overlay/kselftest.debug names; `make soak` runs all of them there too.
"""

import re
import shlex
from pathlib import PurePosixPath

from engine import build, guest, host, ktap, lay
from engine.host import Plain
from engine.ktap import Case

TOP = PurePosixPath("tools/testing/selftests")
SUBSET = host.ROOT / "overlay" / "kselftest.debug"
PACKAGES = ("gcc", "make", "perl", "libaio-dev", "liburing-dev", "libcap-dev",
            "dmsetup", "attr", "acl", "e2fsprogs", "xfsprogs", "rsync",
            "linux-libc-dev", "coreutils", "fio", "nvme-cli")
# Seconds for one test, and for the guest. The tests' own `settings` are for
# processors; TCG is slower, and with the debug kernel several times slower.
PATIENCE = {"lean": (900, 3600), "debug": (2700, 4 * 3600)}
# How many times the usual rounds the tests do in `make soak`.
SOAK = 4


def targets():
    """The selftest folders that are ours: those whose Makefile is."""
    found = {}
    for item in lay.items():
        path = PurePosixPath(item.target)
        if path.is_relative_to(TOP) and path.name == "Makefile" \
                and item.kind == "file":
            found[str(path.parent.relative_to(TOP))] = path.parent
    return sorted(found)


def subset():
    """The tests that the debug kernel runs in `make check`."""
    if not SUBSET.exists():
        return []
    lines = [line.strip() for line in
             SUBSET.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def install(mode, log):
    """Build the tests and install them; returns the folder and the list."""
    host.need(*PACKAGES)
    folder = build.folder(mode)
    into = folder / "kselftest-installed"
    host.remove(into)
    with host.step(f"building the kselftests ({host.short(log)})"):
        build.make(mode, f"TARGETS={' '.join(targets())}", "FORCE_TARGETS=1",
                   f"KSFT_INSTALL_PATH={into}", "kselftest-install",
                   log=log, what="building the kselftests")
    listed = (into / "kselftest-list.txt").read_text("utf-8").split()
    return into, listed


def missing_options(mode, target):
    """What a target's `config` asks for and the mode's kernel lacks."""
    path = build.tree() / TOP / target / "config"
    if not path.exists():
        return []
    have = build.settings((build.folder(mode) / ".config").read_text("utf-8"))
    wanted = build.settings(path.read_text(encoding="utf-8"))
    return [name for name, value in wanted.items()
            if have.get(name, "n") not in (value, "y")]


def _not_run(mode, target):
    lost = missing_options(mode, target)
    if not lost:
        return []
    return [Case(f"{target}", ktap.FAIL,
                 f"NOT RUN: the {mode} kernel has no {' '.join(lost)}")]


def _not_listed(listed, chosen, out):
    """A test that was asked for and not built must not just be absent."""
    return [Case(test, ktap.FAIL, f"NOT RUN: it was not installed; see "
                 f"{host.short(out / 'build.log')}")
            for test in chosen if test not in listed]


def run(mode, out, chosen=None, scale=1):
    """Run tests (all, or the chosen ones) on one kernel; returns cases."""
    build.build(mode)
    into, listed = install(mode, out / f"{mode}.build.log")
    cases = [case for target in targets()
             for case in _not_run(mode, target)]
    for target in targets():
        if not any(test.startswith(f"{target}:") for test in listed):
            cases.append(Case(target, ktap.FAIL, "NOT RUN: it has no tests"))
    tests = listed
    if chosen is not None:
        cases += _not_listed(listed, chosen, out)
        tests = [test for test in chosen if test in listed]
    if not tests:
        return [*cases, Case(mode, ktap.FAIL, "NOT RUN: there is no test")]
    return cases + _boot(mode, out, into, tests, scale)


def _boot(mode, out, into, tests, scale):
    """One guest that runs the tests, judged."""
    each, together = PATIENCE[mode]
    options = [part for test in tests for part in ("-t", test)]
    script = (f"export DAX_TEST_SCALE={scale} UQ_TEST_SCALE={scale}\n"
              f"exec sh {guest.SCRIPTS}/kselftest.sh {into} "
              f"{shlex.join([*options, '-o', str(each * scale)])}\n")
    with host.step(f"{len(tests)} kselftests on the {mode} kernel "
                   f"({host.short(out / mode)}.boot.log)"):
        ran = guest.boot(mode, script, name=mode, out=out, append=guest.PMEM,
                         qemu=guest.NVME, timeout=together * scale)
        cases = _rename(mode, ktap.parse(ran.ktap)) + ran.cases()
        host.say(f"    {ktap.total(cases)}")
    return cases


def _rename(mode, cases):
    """Test names with their kernel before them."""
    return [Case(f"{mode}: {re.sub(r'^selftests: ', '', case.name)}",
                 case.status, case.detail) for case in cases]


def main(args):
    """`kselftest`, or `soak` for everything on the debug kernel."""
    soak = args[:1] == ["soak"]
    out = host.fresh("soak" if soak else "kselftest")
    if not targets():
        return [Case("kselftest", ktap.FAIL, "NOT RUN: the tree has none")]
    if soak:
        return run("debug", out, scale=SOAK)
    named = args or ["lean", "debug"]
    cases = []
    for mode in named:
        if mode not in ("lean", "debug"):
            raise Plain(f"kselftests run on lean or debug, not on {mode}")
        chosen = subset() if mode == "debug" else None
        if chosen == []:
            host.say("    overlay/kselftest.debug names no test")
            continue
        cases += run(mode, out, chosen)
    return cases
