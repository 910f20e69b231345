# SPDX-License-Identifier: GPL-2.0
"""`make demo`: boot a patched kernel in a guest, and show its gains.

One guest shows the features: the parameter, a DAX mount with correct reads, the
resident pages and faults of a mapped hole, and NVMe user queues. Other guests count
instructions of reads and commands.
"""

from pathlib import Path
from types import ModuleType

from bench import guests
from bench.parts import MEASUREMENTS
from engine import build, guest, host, ktap
from engine.guest import Machine
from engine.ktap import Case

MACHINE = Machine(append=guest.PMEM, qemu=guest.NVME, timeout=600)


def _show(out: Path) -> list[Case]:
    """Boot the kernel, and print and judge the guest's output."""
    show = guests.compiled(out, "dax-show")
    with host.step("booting the patched kernel, with pmem and NVMe"):
        ran = guest.boot("lean", f"exec sh '{guest.SCRIPTS}/demo.sh' '{show}'\n",
                         name="demo", out=out, machine=MACHINE)
    for line in ran.ktap.splitlines():
        if line.startswith("# ") and "# overlay" not in line:
            host.say(f"    {line[2:]}")
    return ktap.parse(ran.ktap) + ran.cases()


def _measure(one: ModuleType, out: Path) -> Case:
    """Run a quick measurement, and print a small table."""
    with host.step(one.COUNTS):
        rows = one.few(out)
    name = f"measure {one.NAME}"
    if not rows:
        return Case(name, ktap.FAIL, "NOT RUN: nothing was measured")
    for line in one.lines(rows):
        host.say(f"    {line}")
    return Case(name, ktap.PASS)


def main(args: list[str]) -> list[Case]:
    """Build, boot and measure."""
    out = host.fresh("demo")
    host.need(*guest.PACKAGES, *guests.PACKAGES, "fio")
    build.build("lean")
    return [*_show(out), *(_measure(one, out) for one in MEASUREMENTS)]
