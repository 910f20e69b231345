# SPDX-License-Identifier: GPL-2.0
"""Writes jobs as YAML and validates them by LAVA's schema; run in the venv.

schema FOLDER FILE: the folder has the jobs as JSON, and gets them as YAML; the file
is for KernelCI's pipeline. A line of KTAP tells of each.
"""

import json
import sys
from pathlib import Path
from typing import Any

import voluptuous
import yaml
from lava_common.schemas import validate


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Scripts as they are read best: line by line."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text,
                                   style="|" if "\n" in text else None)


def text_of(job: dict[str, Any]) -> str:
    """A job as YAML."""
    yaml.add_representer(str, _text, Dumper=yaml.SafeDumper)
    return str(yaml.safe_dump(job, sort_keys=False, width=1000))


def complaint(text: str) -> str:
    """What LAVA says against a job, if anything."""
    try:
        validate(yaml.safe_load(text), strict=True)
    except voluptuous.Invalid as error:
        return f"{error.msg} at {' '.join(map(str, error.path))}"
    return ""


def _lacks(kind: str, name: str, entry: dict[str, Any],
           fields: tuple[str, ...]) -> list[str]:
    return [f"{kind} {name} has no {field}" for field in fields
            if not entry.get(field)]


def pipeline(text: str) -> list[str]:
    """What KernelCI's own rules have against a pipeline's file.

    Those of tests/validate_yaml.py in kernelci-pipeline: what an entry must have,
    and that what it names is there. And that a fragment has options, which are all
    that kernelci-core's kbuild.py takes of it.
    """
    data = yaml.safe_load(text)
    jobs, platforms = data["jobs"], data["platforms"]
    wrong = []
    for name, fragment in data["fragments"].items():
        wrong += _lacks("fragment", name, fragment, ("configs",))
    for name, job in jobs.items():
        fields = ("kind", "template") if job.get("kind") == "kbuild" \
            else ("kind", "template", "kcidb_test_suite")
        wrong += _lacks("job", name, job, fields)
    for name, platform in platforms.items():
        wrong += _lacks("platform", name, platform,
                        ("arch", "boot_method", "mach"))
    for name, config in data["build_configs"].items():
        wrong += _lacks("build config", name, config, ("tree", "branch"))
        if config.get("tree") not in data["trees"]:
            wrong.append(f"build config {name} has an unknown tree")
    for entry in data["scheduler"]:
        name = entry.get("job")
        if name not in jobs:
            wrong.append(f"the scheduler has an unknown job {name}")
        wrong += _lacks("the event of", name, entry.get("event", {}),
                        ("channel", "state", "kind"))
        wrong += [f"{name} has an unknown platform {platform}"
                  for platform in entry.get("platforms", ())
                  if platform not in platforms]
    unused = set(jobs) - {entry.get("job") for entry in data["scheduler"]}
    return wrong + [f"job {name} is not scheduled" for name in sorted(unused)]


def main(folder: Path, kernelci: Path) -> None:
    """All jobs of the folder, and the pipeline's file."""
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
