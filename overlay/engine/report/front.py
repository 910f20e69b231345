# SPDX-License-Identifier: GPL-2.0
"""The plots of README.md: overlay/bench/plots, of overlay/bench/results.json.

`make bench` calls it in the venv, where the tools are that draw, after it has
written the results: the same data makes the same files.
"""

import json
import sys
from pathlib import Path

from engine.report import collect, plots


def write(results: Path, into: Path) -> list[Path]:
    """Draw the results of the lean kernel; returns what was written."""
    into.mkdir(parents=True, exist_ok=True)
    written = []
    for curve in collect.front(json.loads(results.read_text("utf-8"))["results"]):
        written.append(into / f"{curve.bench}.svg")
        written[-1].write_text(plots.curve(curve), "utf-8")
    return written


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
