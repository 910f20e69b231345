# SPDX-License-Identifier: GPL-2.0
"""Compares two reports of KCIDB's by kci-dev; run in the venv: compare OLD NEW.

It ends with 2 if something passed before and now fails, did not run or is gone;
lines that begin with LOST name what.
"""

import json
import sys
from typing import Any

from kcidev.libs.regression import RegressionReport

Row = dict[str, Any]
# What kci-dev calls what it finds, and how it is shown.
SHOWN = {"regression": "new failures", "fixed": "fixed", "new": "new",
         "missing": "gone", "unstable": "otherwise changed",
         "persistent_fail": "still failing"}
# kci-dev calls a test that passed and now could not run unstable: it is lost as
# one that fails, and so is one that is not there at all.
BAD = (None, "FAIL", "ERROR", "MISS")
LOST = "  ! "


def _results(path: str) -> Row:
    """A report's builds and tests, as kci-dev compares them.

    KCIDB asks for little of what ours has; and one CI's results may be compared with
    another's, so that the origin is left out.
    """
    with open(path, encoding="utf-8") as file:
        data: Row = json.load(file)
    builds = {one["id"]: {**one, "origin": ""} for one in data.get("builds", [])}
    return {"builds": list(builds.values()), "tests": [
        {**test, "origin": "",
         "config": builds.get(test["build_id"], {}).get("config_name"),
         "environment_misc": test.get("environment", {}).get("misc", {})}
        for test in data.get("tests", [])]}


def _line(item: Row) -> str:
    """A result, and how it was and is."""
    about = item["identity"]
    return (f"{about['config']} {about['platform']} {about['path']}: "
            f"{item['base_status'] or '-'} -> {item['head_status'] or '-'}")


def lost(item: Row) -> bool:
    """Whether it passed before and is none that can be relied on now."""
    return item["base_status"] == "PASS" and item["head_status"] in BAD


class NoReport(Exception):
    """A file is no report; which one, in a sentence."""


def _report(path: str) -> Row:
    """What is compared of a report; NoReport if it is none."""
    try:
        return _results(path)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise NoReport(f"{path} is no report for KCIDB") from None


def compare(old: str, new: str) -> int:
    """Show what is different."""
    found = RegressionReport.compare(old, new, _report(old), _report(new))
    for category, words in SHOWN.items():
        items = [item for item in found.items if item["category"] == category]
        print(f"{words}: {len(items)}")
        for item in items:
            print(f"{LOST if lost(item) else '    '}{_line(item)}")
    return 2 if any(map(lost, found.items)) else 0


def main(old: str, new: str) -> int | str:
    """compare(), or the sentence that says which file is no report."""
    try:
        return compare(old, new)
    except NoReport as error:
        return str(error)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
