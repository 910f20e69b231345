# SPDX-License-Identifier: GPL-2.0
"""The engine's own tests, run in processes of their own and judged as KTAP."""

import sys
import unittest
from pathlib import Path

from engine import build, edit, host, ktap, limits

TESTS = host.ROOT / "overlay" / "tests"
PACKAGES = (*build.PACKAGES, *edit.PACKAGES, "linux-libc-dev")


def _run(name: str) -> None:
    """Run the tests of one module, and print TAP."""
    result = unittest.TestResult()
    suite = unittest.defaultTestLoader.loadTestsFromName(f"tests.{name}")
    # A suite drops its tests when they have run.
    passed = {test.id() for tests in suite if isinstance(tests, unittest.TestSuite)
              for test in tests if isinstance(test, unittest.TestCase)}
    suite.run(result)
    failed = [(test.id(), text) for test, text in (
        *result.failures, *result.errors, *result.expectedFailures)]
    failed += [(test.id(), "it should have failed")
               for test in result.unexpectedSuccesses]
    skipped = {test.id(): why for test, why in result.skipped}
    passed -= {name.partition(" ")[0] for name, _ in failed} | set(skipped)
    good = [*sorted(passed), *(f"{name} # SKIP {why}"
                               for name, why in skipped.items())]
    print(f"TAP version 13\n1..{len(good) + len(failed)}")
    for number, name in enumerate(good, 1):
        print(f"ok {number} - {name}")
    for number, (name, text) in enumerate(failed, len(good) + 1):
        print(*(f"# {line}" for line in text.splitlines()), sep="\n")
        print(f"not ok {number} - {name}")


def _module(out: Path, name: str) -> list[ktap.Case]:
    """Run one module in a process of its own."""
    log = out / f"{name}.log"
    done = host.run([sys.executable, "-m", "engine.selftest", name], log=log,
                    env={"PYTHONPATH": str(host.ROOT / "overlay")}, cwd=host.ROOT,
                    check=False, timeout=600, what="the engine's own tests")
    cases = ktap.parse(done.stdout)
    if done.returncode:
        cases.append(ktap.Case(name, ktap.FAIL, f"python ended with {done.returncode}; "
                               f"see {host.short(log)}"))
    return cases


def main(args: list[str]) -> list[ktap.Case]:
    """Run the tests, two modules per processor: tests wait as long as they compute."""
    host.need(*PACKAGES)
    out = host.fresh("selftest")
    with host.step(f"the engine's own tests ({host.short(out)}/*.log)"):
        done = host.at_once(_module, [(out, path.stem) for path in
                                      sorted(TESTS.glob("test_*.py"))],
                            2 * limits.processors())
    return [case for cases in done for case in cases]


if __name__ == "__main__":
    _run(sys.argv[1])
