# SPDX-License-Identifier: GPL-2.0
"""What a module that measures a kind of operation has."""

from pathlib import Path
from typing import Protocol

from engine.bench.figures import Row
from engine.ktap import Case


class Measurement(Protocol):
    """A kind of operation, its variants measured in one boot."""

    # What is measured, as `make demo` calls it, and what it says meanwhile.
    NAME: str
    COUNTS: str

    def rows(self, mode: str, out: Path, runs: int) -> list[Row]:
        """The figures of all cells on a kernel."""

    def few(self, out: Path) -> list[Row]:
        """The figures of a few cells on the lean kernel, in a short time."""

    def lines(self, found: list[Row]) -> list[str]:
        """What `make demo` shows of the few."""

    def judge(self, found: list[Row]) -> list[Case]:
        """The cases that the figures prove or not."""

    def section(self, found: list[Row]) -> str:
        """The part of out/bench.md, empty if nothing was measured."""


class Profiled(Measurement, Protocol):
    """A measurement of which there are profiles by function and by stack."""

    # The case that says whether there are.
    PROFILE: str

    def profile(self, mode: str, out: Path, found: list[Row]) -> list[Case]:
        """Write the profiles; the cases that they prove beside the figures."""
