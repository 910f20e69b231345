# SPDX-License-Identifier: GPL-2.0
"""`make check`: all checks, and one total.

A step that cannot run, or raises an exception, is a failing case. Other steps still
run.
"""

import contextlib
import importlib
import json
import time
import traceback
from collections.abc import Iterator

from engine import (
    build,
    cli,
    docs,
    guest,
    host,
    ktap,
    kunit,
    lint,
    ran,
    selftest,
    series,
    share,
    source,
    store,
)
from engine.host import UserError
from engine.ktap import Case

# Quick steps, and those that fail most often, come first.
STEPS = ("selftest", "lint", "kunit", "kselftest", "docs", "series", "lava",
         "results")
# Modules that list the packages of the steps.
LISTED = (build, docs, guest, kunit, lint, selftest, series, share, source)
# The table omits parts of a step that took less, in seconds.
LONG = 5


def one(name: str) -> list[Case]:
    """Run one step and return its cases; only an interrupt ends the run."""
    try:
        cases = importlib.import_module(f"engine.{name}").main([])
    except UserError as error:
        return [Case(name, ktap.FAIL, f"NOT RUN: {error}")]
    except Exception as error:
        if isinstance(error, OSError) and (why := host.explain(error)):
            return [Case(name, ktap.FAIL, f"NOT RUN: {why}")]
        path = host.OUT / "check" / f"{name}.traceback"
        host.write(path, "".join(traceback.format_exception(error)))
        said = " ".join(str(error).splitlines())
        return [Case(name, ktap.FAIL, f"the engine failed ({type(error).__name__}: "
                     f"{said}); see {host.short(path)}")]
    return cases or [Case(name, ktap.FAIL, "NOT RUN: nothing ran")]


def table(name: str, seconds: float, cases: list[Case],
          parts: list[host.Took]) -> Iterator[str]:
    """Yield the lines of the final table for one step and its long parts."""
    kept = sum(store.STORED in case.detail for case in cases)
    taken = f", {kept} of them taken from the store" if kept else ""
    total = f"   {ktap.total(cases)}{taken}" if cases else ""
    yield f"{name:10} {host.elapsed(seconds):>12}{total}"
    for part in parts:
        if part.seconds >= LONG:
            yield f"  {host.elapsed(part.seconds):>20}   {part.what}"


def spans(name: str, parts: list[host.Took],
          began: float) -> Iterator[dict[str, str | float]]:
    """Yield the times of a step's parts, in seconds since the run began."""
    for part in parts:
        yield {"step": name, "what": part.what, "seconds": part.seconds,
               "begin": part.end - part.seconds - began}


def main(args: list[str]) -> list[Case]:
    """Run all steps, or the named ones."""
    for name in args:
        if name not in STEPS:
            raise UserError(f"check has no step {name}: {', '.join(STEPS)}")
    out = host.fresh("check")
    began = time.monotonic()
    host.TIMES.clear()
    everything: list[Case] = []
    lines: list[str] = []
    times: list[dict[str, str | float]] = []
    if not args:
        # Do not ask for a password later. A step that lacks a package fails.
        with contextlib.suppress(UserError):
            host.need("python3-venv", *dict.fromkeys(
                name for one in LISTED for name in one.PACKAGES))
    for name in args or STEPS:
        host.say(f"=== {name}")
        start = time.monotonic()
        host.TIMES.clear()
        ran.begin(name)
        cases = one(name)
        cli.finish(name, cases)
        took = time.monotonic() - start
        lines += table(name, took, cases, host.TIMES)
        times += spans(name, host.TIMES, began)
        host.say(f"    {ktap.total(cases)} in {host.elapsed(took)}")
        everything += [Case(f"{name}: {case.name}", case.status, case.detail)
                       for case in cases]
    ktap.junit(out / "junit.xml", "check", everything)
    host.write(out / "summary.txt", "\n".join(lines) + "\n")
    host.write(out / "times.json", json.dumps(times, indent=1) + "\n")
    everything += one("page")
    host.say("\n".join(["=== summary", *lines]))
    return everything
