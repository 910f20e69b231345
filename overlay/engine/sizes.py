# SPDX-License-Identifier: GPL-2.0
"""How many lines a patch may change: as many as a reviewer reads in one go.

Code and documentation have one limit, tests another, and a patch with both the
higher one in all. A patch beyond it says in its message why it "is one patch".
"""

import re
from collections.abc import Iterable, Iterator

CODE = 600
TESTS = 900
REASON = re.compile(r"\bis one\s+patch\b")
TEST = re.compile(r"^tools/testing/|/tests/|[-_]k?(?:unit|test)\.[ch]$|"
                  r"^lib/(?:tests/|test_)")
# A line of `git show --numstat`: added, removed, path.
COUNT = re.compile(r"(\d+)\t(\d+)\t(\S+)")


def is_test(target: str) -> bool:
    """Whether a file is there to test others."""
    return TEST.search(target) is not None


def counted(numstat: str) -> tuple[int, int]:
    """The changed lines of code and of tests, as git counts them."""
    found = [(target, int(more) + int(less))
             for more, less, target in COUNT.findall(numstat)]
    return (sum(lines for target, lines in found if not is_test(target)),
            sum(lines for target, lines in found if is_test(target)))


def beyond(code: int, tests: int) -> Iterator[str]:
    """Which limits a patch is beyond, one sentence each."""
    if code > CODE:
        yield f"it changes {code} lines, where {CODE} are the most"
    if code + tests > TESTS:
        yield (f"with its tests it changes {code + tests} lines, where {TESTS} "
               "are the most")


def complaints(numstat: str, message: str) -> Iterable[str]:
    """What is wrong with the size of a patch, given its message."""
    found = list(beyond(*counted(numstat)))
    given = REASON.search(message) is not None
    if given and not found:
        return ["its message says why it is one patch, and it is small enough"]
    return [] if given else found
