# SPDX-License-Identifier: GPL-2.0
"""Validate a report for KCIDB, or compare two: compare FILE, compare OLD NEW.

This runs in the venv, and prints one result as TAP. A comparison fails if something
passed in OLD, and now fails, could not run or is absent.
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
# kci-dev calls a test "unstable" that passed and now could not run.
BAD = (None, "FAIL", "ERROR", "MISS")


def _results(path: str) -> Row:
    """Return a report's builds and tests in the form that kci-dev compares.

    Reports of two CIs can be compared, so the origin does not count.
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
    """Return the name of a result, and how it changed."""
    about = item["identity"]
    return (f"{about['config']} {about['platform']} {about['path']}: "
            f"{item['base_status'] or '-'} -> {item['head_status'] or '-'}")


def lost(item: Row) -> bool:
    """Return whether a result passed before and does not pass now."""
    return item["base_status"] == "PASS" and item["head_status"] in BAD


def validate(path: str) -> tuple[list[str], bool]:
    """Return the complaint of kcidb-io about a report, and whether it is valid."""
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    try:
        kcidb_io.schema.V5_3.validate_exactly(data)
    except jsonschema.exceptions.ValidationError as error:
        return [f"{error.message[:300]} at {error.json_path}"], False
    return [], True


def compare(*paths: str) -> tuple[list[str], bool]:
    """Return the differences of two reports, and whether nothing was lost."""
    reports = []
    for path in paths:
        try:
            reports.append(_results(path))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return [f"{path} is not a report for KCIDB"], False
    found = RegressionReport.compare(*paths, *reports)
    lines = []
    for category, words in SHOWN.items():
        items = [item for item in found.items if item["category"] == category]
        lines += [f"{words}: {len(items)}", *(
            f"{'!' if lost(item) else ' '} {_line(item)}" for item in items)]
    return lines, not any(map(lost, found.items))


def main(paths: list[str]) -> None:
    """Print the result."""
    name, (lines, good) = (
        ("what passed before passes, or is skipped", compare(*paths))
        if len(paths) > 1 else ("kcidb.json is valid by kcidb-io", validate(*paths)))
    print("TAP version 13\n1..1", *(f"# {line}" for line in lines), sep="\n")
    print(f"{'ok' if good else 'not ok'} 1 - {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
