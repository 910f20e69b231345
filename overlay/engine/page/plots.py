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
from collections.abc import Iterator, Sequence
from pathlib import Path

import matplotlib as mpl

from engine.page import collect
from engine.page.collect import Curve, Flame, Span

mpl.use("svg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, NullLocator

MARKS = (("o", "-"), ("s", "--"), ("^", "-."), ("D", ":"), ("v", "-"),
         ("P", "--"))
# Okabe and Ito's colours, which the colour-blind tell apart.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00",
           "#999999", "#f0e442")
# Inches of a phone's width, of the page's on a desk, and of a line of text.
WIDTH, BROAD, LINE = 4.0, 9.2, 0.22
# The longest title in a time line, in letters.
LONGEST = 52
# A flame graph's rows, in inches; its letters, in points, of which so much is their
# width; the fewest of a name; and what is not drawn, in points.
ROW, LABEL, LETTER, SHORTEST, THINNEST = 0.16, 7.5, 0.61, 8, 0.5
# A function that the other of two flame graphs has not: dark without colour, too.
ONLY = "#f0b74d"
mpl.rcParams.update({
    # Text stays text, and the same data makes the same file.
    "svg.fonttype": "none", "svg.hashsalt": "overlay", "font.size": 9,
    "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "grid.alpha": 0.3, "hatch.linewidth": 0.5,
})


def _svg(figure: Figure, title: str, tips: Sequence[str] = ()) -> str:
    """A figure, which a page without pictures calls by its title.

    TIPS are what its parts box0, box1 and so on are, when they are pointed at.
    """
    text = io.StringIO()
    figure.savefig(text, format="svg", bbox_inches="tight",
                   metadata={"Date": None})
    plt.close(figure)
    # in a page, without the head of a file
    svg = text.getvalue()[text.getvalue().index("<svg"):]
    tip = {f"box{number}": f"<title>{html.escape(said)}</title>"
           for number, said in enumerate(tips)}
    svg = re.sub(r'(?<=<g) id="(box\d+)">', lambda at: f">{tip[at[1]]}", svg)
    # several figures in a page would have the same ones
    used = set(re.findall(r'(?:url\(|href=")#([^")]+)', svg))
    svg = re.sub(r' id="([^"]+)"', lambda at: at[0] if at[1] in used else "", svg)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{html.escape(title)}" ',
                       1)


def _axes(height: float, width: float = WIDTH) -> tuple[Figure, Axes]:
    figure, axes = plt.subplots(figsize=(width, height))
    return figure, axes


def time_line(spans: list[Span]) -> str:
    """What ran when, each below its name; guests are hatched."""
    figure, axes = _axes(0.6 + 2 * LINE * len(spans))
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
    figure, axes = _axes(2.8)
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


def _label(name: str, wide: float) -> str:
    """A name as far as it fits into so many points."""
    most = int((wide - 2) / (LABEL * LETTER))
    if len(name) <= most:
        return name
    return f"{name[:most - 2]}.." if most >= SHORTEST else ""


def _flame(axes: Axes, one: Flame, other: Flame, at: int,
           points: float) -> Iterator[tuple[Rectangle, str]]:
    """Draw one with its outermost frame in a row; yields boxes, and what they are.

    POINTS are those of an instruction.
    """
    known = other.functions()
    for box in one.boxes():
        if box.wide * points < THINNEST:
            continue
        name = box.stack[-1] if box.stack else one.variant
        said = f"{name}: {box.wide:.0f}"
        new = box.stack and name not in known
        patch = Rectangle((box.left, at + len(box.stack)), box.wide, 1,
                          facecolor=ONLY if new else "white",
                          edgecolor="black", linewidth=0.4, clip_on=False)
        axes.add_patch(patch)
        label = _label(name if box.stack else f"{said} instructions",
                       box.wide * points)
        if label:
            axes.text(box.left + 1.5 / points, at + len(box.stack) + 0.47, label,
                      fontsize=LABEL, family="monospace", va="center",
                      weight="normal" if box.stack else "bold")
        yield patch, said


def flames(beside: Sequence[Flame], width: float) -> str:
    """Flame graphs below each other, on one scale of instructions.

    What a box is shows when it is pointed at, as not all have room for a name.
    """
    scale = max(sum(one.stacks.values()) for one in beside)
    rows = [2 + max(map(len, one.stacks)) for one in beside]
    figure, axes = _axes(ROW * sum(rows), width)
    figure.subplots_adjust(left=0, right=1, bottom=0, top=1)
    tips: list[str] = []
    for number, one in enumerate(beside):
        for patch, said in _flame(axes, one, beside[1 - number],
                                  sum(rows[number + 1:]), 72 * width / scale):
            patch.set_gid(f"box{len(tips)}")
            tips.append(said)
    axes.set_xlim(0, scale)
    axes.set_ylim(0, sum(rows) - 1)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_axisbelow(True)
    axes.set_xlabel(f"instructions per {beside[0].what}")
    return _svg(figure, f"Instructions per {beside[0].what}, by caller and function",
                tips)


def main(results: Path, into: Path) -> None:
    """Draw the results of the lean kernel that README.md shows."""
    into.mkdir(parents=True, exist_ok=True)
    for one in collect.front(json.loads(results.read_text("utf-8"))["results"]):
        (into / f"{one.bench}.svg").write_text(curve(one), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
