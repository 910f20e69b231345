# SPDX-License-Identifier: GPL-2.0
"""Write the page as one file that needs no network. Run in the venv."""

import sys
from pathlib import Path

import jinja2

from engine import host, page

TEMPLATE = Path(__file__).with_name("page.html.j2")
PLOTS = host.ROOT / "overlay" / "bench" / "plots"


def write(out: Path, steps: list[str]) -> None:
    """Write out/report/index.html."""
    programs = page.results(out, steps)
    template = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined).from_string(
            TEMPLATE.read_text("utf-8"))
    spans = page.spans(out)
    host.write(out / "report" / "index.html", template.render(
        programs=programs, matrices=page.matrices(programs),
        bad=[program for program in programs if program.failures],
        skipped=[program for program in programs if program.skips],
        steps=[step for step in steps
               if any(program.step == step for program in programs)],
        logs=page.logs(out, [*steps, "bench"]), spans=spans, elapsed=host.elapsed,
        end=max((span["begin"] + span["seconds"] for span in spans), default=1),
        plots=[path.read_text("utf-8") for path in sorted(PLOTS.glob("*.svg"))],
        measured=(out / "bench.md").exists(), profiles=page.profiles(out)))


if __name__ == "__main__":
    write(Path(sys.argv[1]), sys.argv[2:])
