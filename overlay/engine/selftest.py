# SPDX-License-Identifier: GPL-2.0
"""The engine's own tests, run in processes of their own and judged as KTAP."""

import sys
import unittest
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from engine import host, ktap, limits

TESTS = host.ROOT / "overlay" / "tests"
# More processes than that only find all tests once more.
MOST = 4
# What unittest says of a test that failed.
Failure = tuple[type[BaseException], BaseException, TracebackType] \
    | tuple[None, None, None]


class Result(unittest.TestResult):
    """Prints each test's end as a KTAP line."""

    number = 0

    def _line(self, text: str, test: unittest.TestCase, remark: str = "",
              detail: str = "") -> None:
        self.number += 1
        for line in detail.splitlines():
            print(f"# {line}")
        print(f"{text} {self.number} - {test.id()}{remark}", flush=True)

    def addSuccess(self, test: unittest.TestCase) -> None:
        self._line("ok", test)

    def addFailure(self, test: unittest.TestCase, err: Failure) -> None:
        # unittest's own text: the frames of the test, without unittest's.
        super().addFailure(test, err)
        self._line("not ok", test, detail=self.failures.pop()[1])

    def addError(self, test: unittest.TestCase, err: Failure) -> None:
        self.addFailure(test, err)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self._line("ok", test, f" # SKIP {reason}")

    def addExpectedFailure(self, test: unittest.TestCase, err: Failure) -> None:
        self._line("not ok", test, detail="an expected failure is a failure")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self._line("not ok", test, detail="it should have failed")

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase,
                   err: Failure | None) -> None:
        # Each subtest that fails is a line; the test's own line then passes
        # no judgement and is not printed by unittest.
        if err is not None:
            self.addFailure(subtest, err)


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
    print("TAP version 13")
    result = Result()
    unittest.TestSuite(list(_classes(every))[part::parts]).run(result)
    print(f"1..{result.number}")


def _part(out: Path, part: int, parts: int) -> list[ktap.Case]:
    """Run one part of the tests; what they print is the log."""
    log = out / f"log-{part}"
    what = "the engine's own tests"
    done = host.run([sys.executable, "-m", "engine.selftest", part, parts], log=log,
                    env={"PYTHONPATH": str(host.ROOT / "overlay")},
                    cwd=host.ROOT, check=False, timeout=300, what=what)
    host.write(out / f"ktap-{part}", done.stdout)
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
