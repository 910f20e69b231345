# SPDX-License-Identifier: GPL-2.0
"""The engine's own tests, run in a process of their own and judged as KTAP."""

import sys
import unittest
from types import TracebackType

from engine import host, ktap

TESTS = host.ROOT / "overlay" / "tests"
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


def _run() -> None:
    """In the process of its own: find, run, print."""
    suite = unittest.defaultTestLoader.discover(
        str(TESTS), top_level_dir=str(TESTS.parent))
    print("TAP version 13")
    result = Result()
    suite.run(result)
    print(f"1..{result.number}")


def main(args: list[str]) -> list[ktap.Case]:
    """Run the tests; what they print is the log."""
    out = host.fresh("selftest")
    log = out / "log"
    with host.step("the engine's own tests"):
        done = host.run([sys.executable, "-m", "engine.selftest"], log=log,
                        env={"PYTHONPATH": str(host.ROOT / "overlay")},
                        cwd=host.ROOT, check=False, timeout=300,
                        what="the engine's own tests")
        host.write(out / "ktap", done.stdout)
        cases = ktap.parse(done.stdout)
        if done.returncode:
            cases.append(ktap.Case("python", ktap.FAIL,
                                   f"it ended with {done.returncode}; "
                                   f"see {host.short(log)}"))
    return cases


if __name__ == "__main__":
    _run()
