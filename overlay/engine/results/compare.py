# SPDX-License-Identifier: GPL-2.0
"""Compares two reports of KCIDB's by kci-dev; run in the venv: compare OLD NEW.

It ends with 2 if a test fails that passed before.
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


def _results(path: str) -> Row:
    """A report's builds and tests, as kci-dev compares them."""
    with open(path, encoding="utf-8") as file:
        data: Row = json.load(file)
    builds = {one["id"]: one for one in data["builds"]}
    return {"builds": data["builds"], "tests": [
        {**test, "config": builds[test["build_id"]]["config_name"],
         "environment_misc": test["environment"]["misc"]}
        for test in data["tests"]]}


def compare(old: str, new: str) -> int:
    """Show what is different."""
    found = RegressionReport.compare(old, new, _results(old), _results(new))
    for category, words in SHOWN.items():
        items = [item for item in found.items if item["category"] == category]
        print(f"{words}: {len(items)}")
        for item in items:
            about = item["identity"]
            print(f"  {about['config']} {about['platform']} {about['path']}: "
                  f"{item['base_status'] or '-'} -> {item['head_status'] or '-'}")
    return 2 if found.has_violation("regression") else 0


if __name__ == "__main__":
    sys.exit(compare(sys.argv[1], sys.argv[2]))
