# SPDX-License-Identifier: GPL-2.0
"""Plots as SVG, told apart by marks and hatches as well as by colour."""

import io
import itertools

import matplotlib as mpl

from engine.report.collect import Curve, Profile, Span

mpl.use("svg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

MARKS = (("o", "-"), ("s", "--"), ("^", "-."), ("D", ":"), ("v", "-"),
         ("P", "--"))
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "++", "oo", "---")
# Okabe and Ito's colours, which the colour-blind tell apart.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00",
           "#999999", "#f0e442")
# Inches of a phone's width and of a line of text.
WIDTH, LINE = 4.6, 0.22
# Functions of a profile that are named; and how much of it, to have a name.
NAMED, LABEL = 10, 0.06
mpl.rcParams.update({
    # Text stays text, and the same data makes the same file.
    "svg.fonttype": "none", "svg.hashsalt": "overlay", "font.size": 9,
    "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "grid.alpha": 0.3, "hatch.linewidth": 0.5,
})


def _svg(figure: Figure) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", bbox_inches="tight",
                   metadata={"Date": None})
    plt.close(figure)
    # in a page, without the head of a file
    return text.getvalue()[text.getvalue().index("<svg"):]


def _axes(height: float) -> tuple[Figure, Axes]:
    figure, axes = plt.subplots(figsize=(WIDTH, height))
    return figure, axes


def time_line(spans: list[Span]) -> str:
    """What ran when, each below its name; guests are hatched."""
    figure, axes = _axes(0.6 + 2 * LINE * len(spans))
    steps = list(dict.fromkeys(span.step for span in spans))
    for row, span in enumerate(spans):
        axes.barh(row, span.seconds / 60, left=span.begin / 60, height=0.4,
                  color=COLOURS[steps.index(span.step) % len(COLOURS)],
                  hatch="///" if span.guest() else "", edgecolor="black",
                  linewidth=0.3)
        axes.text(0, row - 0.28, f"{span.step}: {span.what}", fontsize=8)
    axes.set_yticks([])
    axes.set_ylim(len(spans) - 0.5, -0.8)
    axes.set_xlabel("minutes since the run began")
    return _svg(figure)


def curve(one: Curve) -> str:
    """Instructions of an operation over a parameter, a line each variant."""
    figure, axes = _axes(2.8)
    for number, (variant, points) in enumerate(one.lines.items()):
        mark, style = MARKS[number % len(MARKS)]
        axes.plot([at for at, _ in points], [value for _, value in points],
                  marker=mark, linestyle=style, label=variant, markersize=4,
                  color=COLOURS[number % len(COLOURS)])
    places = sorted({at for points in one.lines.values() for at, _ in points})
    if min(places) > 0 and max(places) > 16 * min(places):
        axes.set_xscale("log", base=2)
        axes.set_xticks(places, [f"{at:.0f}" for at in places], rotation=45,
                        minor=False)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(one.over)
    axes.set_ylabel("instructions per operation")
    axes.legend(fontsize=8, frameon=False, ncols=3, loc="lower left",
                bbox_to_anchor=(0, 1))
    return _svg(figure)


def profile(one: Profile) -> str:
    """Where the instructions of each variant go, the longest functions named."""
    total: dict[str, float] = {}
    for functions in one.beside.values():
        for name, value in functions.items():
            total[name] = max(total.get(name, 0), value)
    named = sorted(total, key=lambda name: -total[name])[:NAMED]
    figure, axes = _axes(0.9 + 0.45 * len(one.beside) + 0.18 * len(named))
    looks = itertools.cycle(itertools.product(HATCHES[:3], COLOURS))
    at = dict.fromkeys(one.beside, 0.0)
    for name, (hatch, colour) in zip([*named, "the rest"], looks, strict=False):
        values = [functions.get(name, 0.0) if name in total else
                  sum(functions.values()) - at[variant]
                  for variant, functions in one.beside.items()]
        axes.barh(list(one.beside), values, left=list(at.values()),
                  color="#dddddd" if name == "the rest" else colour,
                  hatch=hatch, edgecolor="white", height=0.7, label=name)
        for variant, value in zip(one.beside, values, strict=True):
            at[variant] += value
    axes.invert_yaxis()
    axes.set_xlabel("instructions per operation")
    axes.grid(axis="y", visible=False)
    axes.legend(fontsize=7, frameon=False, ncols=2, loc="upper left",
                bbox_to_anchor=(0, -0.3))
    return _svg(figure)
