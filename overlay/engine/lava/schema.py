# SPDX-License-Identifier: GPL-2.0
"""Write jobs as YAML, and validate them by LAVA's schema: schema FOLDER FILE.

The folder contains the jobs as JSON. The file belongs to KernelCI's pipeline. This runs
in the venv, and prints TAP.
"""

import json
import sys
from pathlib import Path
from typing import Any

import voluptuous
import yaml
from lava_common.schemas import validate


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Represent scripts line by line."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text,
                                   style="|" if "\n" in text else None)


def text_of(job: dict[str, Any]) -> str:
    """Return a job as YAML."""
    yaml.add_representer(str, _text, Dumper=yaml.SafeDumper)
    return str(yaml.safe_dump(job, sort_keys=False, width=1000))


def complaint(text: str) -> str:
    """Return LAVA's complaint about a job, or an empty string."""
    try:
        validate(yaml.safe_load(text), strict=True)
    except voluptuous.Invalid as error:
        return f"{error.msg} at {' '.join(map(str, error.path))}"
    return ""


# The required fields of entries, as kernelci-pipeline checks them.
FIELDS = {"fragments": ("configs",), "jobs": ("kind", "template"),
          "platforms": ("arch", "boot_method", "mach"),
          "build_configs": ("tree", "branch")}


def pipeline(text: str) -> list[str]:
    """Return missing fields of KernelCI's file, and names without an entry."""
    data = yaml.safe_load(text)
    wrong = [f"{kind}: {name} has no {field}" for kind, fields in FIELDS.items()
             for name, entry in data[kind].items() for field in fields
             if not entry.get(field)]
    plans = data["scheduler"]
    for kind, named in (
            ("jobs", [plan["job"] for plan in plans]),
            ("platforms", [one for plan in plans for one in plan.get("platforms", ())]),
            ("trees", [one["tree"] for one in data["build_configs"].values()])):
        wrong += [f"there is no {name} in {kind}" for name in named
                  if name not in data[kind]]
    return wrong


def main(folder: Path, kernelci: Path) -> None:
    """Validate all jobs of the folder, and the pipeline's file."""
    names = sorted(folder.glob("*.json"))
    said = []
    for path in names:
        text = text_of(json.loads(path.read_text("utf-8")))
        path.with_suffix(".yaml").write_text(text, "utf-8")
        path.unlink()
        said.append((f"LAVA's schema: {path.stem}", complaint(text)))
    said.append((f"KernelCI's rules: {kernelci.name}",
                 "; ".join(pipeline(kernelci.read_text("utf-8")))))
    print(f"TAP version 13\n1..{len(said)}")
    for number, (name, wrong) in enumerate(said, 1):
        if wrong:
            print(f"# {wrong}")
        print(f"{'not ' if wrong else ''}ok {number} - {name}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
