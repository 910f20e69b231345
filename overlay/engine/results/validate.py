# SPDX-License-Identifier: GPL-2.0
"""Validates a report of KCIDB's by kcidb-io; run in the venv: validate FILE."""

import json
import sys

import jsonschema
import kcidb_io


def complaint(path: str) -> str:
    """What is wrong with the report, if anything."""
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    try:
        kcidb_io.schema.V5_3.validate_exactly(data)
    except jsonschema.exceptions.ValidationError as error:
        return f"{error.message[:300]} at {error.json_path}"
    return ""


if __name__ == "__main__":
    sys.exit(complaint(sys.argv[1]) or 0)
