# SPDX-License-Identifier: GPL-2.0
"""Plots as SVG, told apart by marks, hatches and shades as well as by colour.

As a program, plots RESULTS FOLDER, it draws those of README.md: the same results
make the same files. It runs in the venv, where the tools are that draw.
"""

import html
import io
import json
import re
import sys
import textwrap
from pathlib import Path

import matplotlib as mpl

from engine.page import collect
from engine.page.collect import Curve, Span

mpl.use("svg")

from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

MARKS = (("o", "-"), ("s", "--"), ("^", "-."), ("D", ":"), ("v", "-"),
         ("P", "--"))
# Okabe and Ito's colours, which the colour-blind tell apart.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00",
           "#999999", "#f0e442")
# Inches of a phone's width, and of a line of text.
WIDTH, LINE = 4.0, 0.22
# The longest title in a time line, in letters.
LONGEST = 52
mpl.rcParams.update({
    # Text stays text, and the same data makes the same file.
    "svg.fonttype": "none", "svg.hashsalt": "overlay", "font.size": 9,
    "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "grid.alpha": 0.3, "hatch.linewidth": 0.5,
})


def _svg(figure: Figure, title: str) -> str:
    """A figure, which a page without pictures calls by its title."""
    text = io.StringIO()
    figure.savefig(text, format="svg", bbox_inches="tight",
                   metadata={"Date": None})
    plt.close(figure)
    # in a page, without the head of a file
    svg = text.getvalue()[text.getvalue().index("<svg"):]
    # several figures in a page would have the same ones
    used = set(re.findall(r'(?:url\(|href=")#([^")]+)', svg))
    svg = re.sub(r' id="([^"]+)"', lambda at: at[0] if at[1] in used else "", svg)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{html.escape(title)}" ',
                       1)


def time_line(spans: list[Span]) -> str:
    """What ran when, each below its name; guests are hatched."""
    figure, axes = plt.subplots(figsize=(WIDTH, 0.6 + 2 * LINE * len(spans)))
    figure.subplots_adjust(left=0, right=1)
    steps = list(dict.fromkeys(span.step for span in spans))
    for row, span in enumerate(spans):
        axes.barh(row, span.seconds / 60, left=span.begin / 60, height=0.4,
                  color=COLOURS[steps.index(span.step) % len(COLOURS)],
                  hatch="//////" if span.guest() else "", edgecolor="black",
                  linewidth=0.3)
        axes.text(0, row - 0.28, textwrap.shorten(span.title(), LONGEST,
                                                  placeholder=" ..")
                  + f", {span.took()}", fontsize=8)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_axisbelow(True)
    # the page is longer than a screen
    axes.tick_params(top=True, labeltop=True)
    axes.set_ylim(len(spans) - 0.5, -0.8)
    axes.set_xlabel("minutes since the run began")
    return _svg(figure, "What ran when")


def curve(one: Curve) -> str:
    """Instructions of an operation over a parameter, a line each variant."""
    figure, axes = plt.subplots(figsize=(WIDTH, 2.8))
    for number, (variant, points) in enumerate(one.lines.items()):
        mark, style = MARKS[number % len(MARKS)]
        axes.plot([at for at, _ in points], [value for _, value in points],
                  marker=mark, linestyle=style, label=variant, markersize=4,
                  color=COLOURS[number % len(COLOURS)])
    if one.doubling():
        axes.set_xscale("log", base=2)
    places = one.places()
    axes.set_xticks(places, [f"{at:.0f}" for at in places])
    axes.minorticks_off()
    if one.steep():
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:.0f}")
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        # all of a mark that lies on the highest value
        axes.set_ylim(0, 1.05 * max(value for points in one.lines.values()
                                    for _, value in points))
    axes.set_xlabel(one.label())
    axes.set_ylabel("instructions per operation")
    axes.legend(fontsize=8, frameon=False, ncols=3, loc="lower left",
                bbox_to_anchor=(0, 1))
    return _svg(figure, f"{one.title()}: instructions per operation")


def main(results: Path, into: Path) -> None:
    """Draw the results of the lean kernel that README.md shows."""
    into.mkdir(parents=True, exist_ok=True)
    for one in collect.front(json.loads(results.read_text("utf-8"))["results"]):
        (into / f"{one.bench}.svg").write_text(curve(one), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
