# SPDX-License-Identifier: GPL-2.0
"""`make report`: a page of results, times and figures, out/report/index.html.

collect.py reads what the last runs left in out/, without running anything;
plots.py draws, html.py writes the page. These two need Python tools of
overlay/requirements.txt, and run in the venv that has them.
"""

from engine import check, host
from engine.host import UserError
from engine.ktap import PASS, Case


def main(args: list[str]) -> list[Case]:
    """Write the page from what the last runs left in out/.

    One that cannot be drawn leaves the page that was there.
    """
    if args:
        raise UserError("report takes nothing: the page is of all that is in "
                        f"{host.short(host.OUT)}")
    with host.step("the report (out/report/index.html)"):
        host.module("engine.page.html", host.OUT, *check.STEPS,
                    what="drawing the report")
    return [Case("out/report/index.html", PASS)]
