# SPDX-License-Identifier: GPL-2.0
"""`make demo`: a patched kernel at work, in a guest, with what it gains.

One guest shows that the features are there (the parameter, a DAX mount, the
emulated NVMe controller), that reads return what was written either way,
what is resident of a hole that was read through a mapping, after how many
faults, and NVMe user queues at work; others, in which guest time is
instructions, show what a read and a command cost.
"""

from engine import (
    bench,
    bench_mmap,
    bench_nvme,
    bench_reap,
    build,
    guest,
    host,
    ktap,
    measure,
    ready,
)
from engine.ktap import Case

# What each variant of the measurement is, for a reader that is new to it.
MEANING = {
    "generic": "today's kernel: the iomap path",
    "read_iter": "patched, through ->read_iter",
    "read": "patched, through ->read",
}


def _show(out):
    """Boot the kernel, print what the guest shows, and judge it."""
    show = measure.compiled(out, "dax-show")
    with host.step("booting the patched kernel, with pmem and NVMe"):
        ran = guest.boot("lean", f"exec sh '{guest.SCRIPTS}/demo.sh' '{show}'\n",
                         name="demo", out=out, append=guest.PMEM,
                         qemu=guest.NVME, timeout=600)
    for line in ran.ktap.splitlines():
        if line.startswith("# ") and "# overlay" not in line:
            host.say(f"    {line[2:]}")
    return ktap.parse(ran.ktap) + ran.cases()


def _measure(name, title, quick, shown, out):
    """A quick measurement's rows as a small table."""
    with host.step(title):
        rows = quick(out)
    if not rows:
        return Case(name, ktap.FAIL, "NOT RUN: nothing was measured")
    for line in shown(rows):
        host.say(f"    {line}")
    return Case(name, ktap.PASS)


def table(rows):
    """Rows of bench.json as lines: one per size, a column per variant."""
    rows = [row for row in rows if row["variant"] in MEANING]
    names = [name for name in MEANING
             if any(row["variant"] == name for row in rows)]
    cells = {(row["params"].get("size"), row["variant"]): row["insn_per_op"]
             for row in rows if row["params"].get("syscall", "pread")
             == "pread" or row["variant"] == "read_iter"}
    lines = ["instructions per pread() of an ext4 DAX file",
             "   bytes" + "".join(f"{name:>16}" for name in names)]
    for size in sorted({size for size, _ in cells if size is not None}):
        base = cells.get((size, "generic"))
        line = f"{size:>8}"
        for name in names:
            value = cells.get((size, name))
            shown = "-" if value is None else f"{value:.0f}"
            if value and base and name != "generic":
                shown += f" ({value / base:.2f})"
            line += f"{shown:>16}"
        lines.append(line)
    return lines + [f"{name}: {MEANING[name]}" for name in names]


def main(args):
    """Build, boot, show."""
    out = host.fresh("demo")
    ready.ready("demo")
    build.build("lean")
    return [*_show(out),
            _measure("measure reads", "counting instructions per read",
                     bench.quick, table, out),
            _measure("measure mapped reads",
                     "counting instructions per page of a mapping",
                     bench_mmap.few, bench_mmap.lines, out),
            _measure("measure NVMe commands",
                     "counting instructions per NVMe command",
                     bench_nvme.few, bench_nvme.lines, out),
            _measure("measure the end of NVMe commands",
                     "counting entries that learn of no completion",
                     bench_reap.few, bench_reap.lines, out)]
