# SPDX-License-Identifier: GPL-2.0
"""Draw the plots of README.md and of the report: draw RESULTS FOLDER.

The same results yield the same SVG files. Lines differ by mark as well as by colour.
This runs in the venv, which contains matplotlib.
"""

import html
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

from bench import tables
from bench.results import Row, matches

mpl.use("svg")

from matplotlib import pyplot as plt

# Each plot: the bench, the parameter on the x axis, its label, and other parameters.
PLOTS: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    # The copy takes nearly all instructions of longer reads.
    ("dax-read", "size", "size, bytes",
     {**tables.READ, "size": (8, 64, 512, 4096)}),
    ("dax-mmap", "window", "window, bytes",
     {"access": "sequential", "kind": "hole", "mapping": "pte", "touch": "first"}),
    ("nvme", "batch", "batch, operations at once",
     {**tables.NVME, "mode": "poll", "pieces": None, "possible": None}),
)
MARKS = (("o", "-"), ("s", "--"), ("^", "-."), ("D", ":"), ("v", "-"),
         ("P", "--"))
# Colours of Okabe and Ito, which colour-blind people can distinguish.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00",
           "#999999", "#f0e442")
# The width of a phone, in inches.
WIDTH = 4.0
mpl.rcParams.update({
    # Text stays text, and the same data yields the same file.
    "svg.fonttype": "none", "svg.hashsalt": "overlay", "font.size": 9,
    "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "grid.alpha": 0.3, "hatch.linewidth": 0.5,
})

# The points of each variant.
Lines = dict[str, list[tuple[float, float]]]


def lines(results: list[Row], bench: str, over: str,
          wanted: dict[str, Any]) -> Lines:
    """Return the lines of a plot."""
    found: Lines = {}
    for row in results:
        params = row["params"]
        if row["bench"] == bench and matches(row, {**wanted, "config": "lean"}) \
                and params.get("depth") == params.get("batch"):
            found.setdefault(row["variant"], []).append(
                (params[over], row["insn_per_op"]))
    return {name: sorted(points) for name, points in found.items() if len(points) > 1}


def plot(found: Lines, title: str, label: str) -> str:
    """Draw instructions per operation over a parameter, as SVG."""
    figure, axes = plt.subplots(figsize=(WIDTH, 2.8))
    for number, (variant, points) in enumerate(found.items()):
        mark, style = MARKS[number % len(MARKS)]
        axes.plot([at for at, _ in points], [value for _, value in points],
                  marker=mark, linestyle=style, label=variant, markersize=4,
                  color=COLOURS[number % len(COLOURS)])
    axes.set_xscale("log", base=2)
    places = sorted({at for points in found.values() for at, _ in points})
    axes.set_xticks(places, [f"{at:.0f}" for at in places])
    axes.minorticks_off()
    # Leave room for the whole mark of the highest value.
    axes.set_ylim(0, 1.05 * max(value for points in found.values()
                                for _, value in points))
    axes.set_xlabel(label)
    axes.set_ylabel("instructions per operation")
    axes.legend(fontsize=8, frameon=False, ncols=3, loc="lower left",
                bbox_to_anchor=(0, 1))
    text = io.StringIO()
    figure.savefig(text, format="svg", bbox_inches="tight",
                   metadata={"Date": None})
    plt.close(figure)
    # The report contains several plots: drop the XML header and unused IDs.
    svg = text.getvalue()[text.getvalue().index("<svg"):]
    used = set(re.findall(r'(?:url\(|href=")#([^")]+)', svg))
    svg = re.sub(r' id="([^"]+)"', lambda at: at[0] if at[1] in used else "", svg)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{html.escape(title)}" ',
                       1)


def main(results: Path, into: Path) -> None:
    """Draw all plots."""
    into.mkdir(parents=True, exist_ok=True)
    rows = json.loads(results.read_text("utf-8"))["results"]
    for bench, over, label, wanted in PLOTS:
        if found := lines(rows, bench, over, wanted):
            (into / f"{bench}.svg").write_text(
                plot(found, f"{bench} by {over}: instructions per operation", label),
                "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
