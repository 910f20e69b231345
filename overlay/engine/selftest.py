# SPDX-License-Identifier: GPL-2.0
"""The engine's own tests, run in processes of their own and judged as KTAP."""

import sys
import unittest
from collections.abc import Iterator
from pathlib import Path

from engine import host, ktap, limits

TESTS = host.ROOT / "overlay" / "tests"
# More processes than that only find all tests once more.
MOST = 4


def _classes(suite: unittest.TestSuite) -> Iterator[unittest.TestSuite]:
    """What a suite consists of, down to the tests of one class."""
    for part in suite:
        if not isinstance(part, unittest.TestSuite):
            yield suite
            return
        yield from _classes(part)


def _run(part: int, parts: int) -> None:
    """In a process of its own: find all, run one part of so many, print."""
    every = unittest.defaultTestLoader.discover(
        str(TESTS), top_level_dir=str(TESTS.parent))
    classes = list(_classes(every))[part::parts]
    # A class whose tests have run no longer has them.
    passed = {test.id() for tests in classes for test in tests
              if isinstance(test, unittest.TestCase)}
    result = unittest.TestResult()
    unittest.TestSuite(classes).run(result)
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


def _part(out: Path, part: int, parts: int) -> list[ktap.Case]:
    """Run one part of the tests; what they print is the log."""
    log = out / f"log-{part}"
    done = host.run([sys.executable, "-m", "engine.selftest", part, parts], log=log,
                    env={"PYTHONPATH": str(host.ROOT / "overlay")},
                    cwd=host.ROOT, check=False, timeout=300,
                    what="the engine's own tests")
    cases = ktap.parse(done.stdout)
    if done.returncode:
        cases.append(ktap.Case("python", ktap.FAIL, f"it ended with "
                               f"{done.returncode}; see {host.short(log)}"))
    return cases


def main(args: list[str]) -> list[ktap.Case]:
    """Run the tests, in twice as many processes as there are processors.

    They wait for as long as they compute.
    """
    out, parts = host.fresh("selftest"), min(2 * limits.processors(), MOST)
    with host.step("the engine's own tests"):
        done = host.at_once(_part, [(out, part, parts) for part in range(parts)],
                            parts)
    return [case for cases in done for case in cases]


if __name__ == "__main__":
    _run(*map(int, sys.argv[1:]))
