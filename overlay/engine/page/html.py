# SPDX-License-Identifier: GPL-2.0
"""The page: everything in one file, without a network. Run in the venv."""

import sys
from pathlib import Path

import jinja2

from engine.page import collect, plots

TEMPLATE = Path(__file__).with_name("page.html.j2")
# Seconds of a run from which on a part of it has a row in the time line.
LONG = 10


def write(out: Path, steps: list[str]) -> Path:
    """Write out/report/index.html from what the last runs left there."""
    programs = collect.results(out, steps)
    about, figures = collect.measured(out)
    template = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined).from_string(
            TEMPLATE.read_text("utf-8"))
    long = [span for span in collect.spans(out) if span.seconds >= LONG]
    text = template.render(
        programs=programs, matrices=collect.matrices(programs),
        bad=[program for program in programs if program.failures],
        skipped=[program for program in programs if program.skips],
        steps=[step for step in steps
               if any(program.step == step for program in programs)],
        logs=collect.logs(out, [*steps, "bench"]),
        time_line=plots.time_line(long) if long else "",
        about=about, figures=figures, words=collect.words,
        curves=[(curve, plots.curve(curve))
                for curve in collect.curves(figures["results"])],
        profiles=collect.profiles(out))
    path = out / "report" / "index.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


if __name__ == "__main__":
    write(Path(sys.argv[1]), sys.argv[2:])
