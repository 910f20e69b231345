# SPDX-License-Identifier: GPL-2.0
"""Validates a report of KCIDB's, or compares two; run in the venv.

compare FILE says what kcidb-io has against a report. compare OLD NEW ends with 2 if
something passed before and now fails, did not run or is gone; lines that begin with
LOST name what.
"""

import json
import sys
from typing import Any

import jsonschema
import kcidb_io
from kcidev.libs.regression import RegressionReport

Row = dict[str, Any]
# Categories of kci-dev, and their titles here.
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


def complaint(path: str) -> str:
    """Return the complaint of kcidb-io about a report, if any."""
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    try:
        kcidb_io.schema.V5_3.validate_exactly(data)
    except jsonschema.exceptions.ValidationError as error:
        return f"{error.message[:300]} at {error.json_path}"
    return ""


def compare(*paths: str) -> int | str:
    """Print the differences; return an exit code or an error."""
    reports = []
    for path in paths:
        try:
            reports.append(_results(path))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return f"{path} is no report for KCIDB"
    found = RegressionReport.compare(*paths, *reports)
    for category, words in SHOWN.items():
        items = [item for item in found.items if item["category"] == category]
        print(f"{words}: {len(items)}")
        for item in items:
            print(f"{LOST if lost(item) else '    '}{_line(item)}")
    return 2 if any(map(lost, found.items)) else 0


if __name__ == "__main__":
    sys.exit(compare(*sys.argv[1:]) if len(sys.argv) > 2
             else complaint(sys.argv[1]) or 0)
