# SPDX-License-Identifier: GPL-2.0
"""NVMe commands by io_uring: block device, passthrough and user queue.

One client of ours sends the same commands to the three nodes of one emulated
controller, in one boot. Waiting for the device is never counted. Doorbells are
counted by QEMU, which sees every write to one; each cell is between groups of
admin commands, whose doorbells are those of queue 0.
"""

import json
import re

from engine import figures, guest, host, ktap, measure
from engine.host import Plain
from engine.ktap import Case

BENCH = "nvme"
NOP = "io_uring-nop"
BASE = "passthru"
BASELINE = measure.PROGRAMS / "nvme-baseline.json"
# So many admin commands in a row are a mark (nvme-bench.c), or a few more.
MARK = range(96, 100)
# So many doorbells of others within a mark.
GAP = 2
# Parts and whole of a run, and the cost per queue or by depth, agree by this.
HIDDEN = 0.02
GROWS = 1.05
# Off, user queues cost nothing: what is left is noise.
OFF = 1.005
# (mode, batch, fixed, bs): at most, aim
BARS = (
    ("poll", 32, True, 512, 0.50, 0.42), ("poll", 2, True, 512, 0.55, 0.42),
    ("irq", 32, True, 512, 0.55, 0.42),
    ("poll", 32, False, 512, 0.60, 0.42), ("irq", 32, False, 512, 0.60, 0.42),
    ("poll", 32, True, 4096, 0.60, 0.42), ("irq", 32, True, 4096, 0.60, 0.42),
)
APPEND = ("nokaslr", "nvme.poll_queues=1")

ABOUT = """\
One client, the same loop for all: *block* reads `/dev/nvme0n1`, *passthru*
sends the command to `/dev/ng0n1`, *uq* to a user queue's node. Registered files,
`SINGLE_ISSUER` and `DEFER_TASKRUN`; *fixed*: registered buffers. Submission,
interrupts and reaping count; waiting for the emulated device does not. An
instruction that writes a doorbell or takes an interrupt costs far more than one:
they are in columns of their own."""


def programs(out):
    """A folder with the measuring program."""
    folder = out / "programs-nvme"
    if not (folder / "nvme-bench").exists():
        folder.mkdir(parents=True, exist_ok=True)
        host.need("liburing-dev")
        # the library comes before the source that needs it
        measure.compiled(folder, "nvme-bench", "-Wl,--no-as-needed",
                         "-luring")
    return folder


# -- doorbells ---------------------------------------------------------------

def doorbells(trace):
    """Doorbells of I/O submission queues between marks: one number a cell.

    `trace` is what QEMU logged. Of each pair of marks, what lies between the
    first and the second is a cell.
    """
    counts, row, held, between = [], 0, (0, 0), None
    for queue in re.findall(r"pci_nvme_mmio_doorbell_sq .*?sqid (\d+)", trace):
        if queue == "0":
            row += 1
            continue
        # A command of somebody else may come between those of a mark.
        before, gap = held
        if row and row not in MARK and before + row in MARK and gap <= GAP:
            row += before
            between = None if between is None else between - gap
        if row in MARK:
            if between is not None:
                counts.append(between)
            between = 0 if between is None else None
        held = (row, 1) if row else (before, gap + 1)
        row = 0
        if between is not None:
            between += 1
    return counts


def _about(said):
    """The lines that tell about runs: (irqs, ops, whole, parts) for each."""
    found = {}
    for line in said.splitlines():
        if not line.startswith("about "):
            continue
        words = line.split()[1:]
        cut = next(n for n, word in enumerate(words) if word.startswith("run="))
        values = {name: int(value) for name, value in
                  (word.split("=", 1) for word in words[cut:])}
        found.setdefault(tuple(words[:cut]), []).append(values)
    return found


def _row_key(row):
    """A row as the words of its lines."""
    words = [row["bench"], row["variant"]]
    for name, value in row["params"].items():
        if name != "config":
            words.append(f"{name}={json.dumps(value).strip(chr(34))}")
    return tuple(words)


def complete_rows(said, trace, mode):
    """Results, with doorbells and interrupts of each."""
    rows = figures.results(figures.parse(said), mode)
    about, bells = _about(said), doorbells(trace)
    nvme = [row for row in rows if row["bench"] == BENCH]
    if len(bells) != len(nvme):
        raise Plain(f"QEMU's log has doorbells of {len(bells)} cells, and "
                    f"{len(nvme)} were measured")
    for row in rows:
        runs = about[_row_key(row)]
        ops = sum(run["ops"] for run in runs)
        row["whole_to_parts"] = round(
            sum(run["whole"] for run in runs)
            / sum(run["parts"] for run in runs), 4)
        if row["bench"] == BENCH:
            row["irqs_per_op"] = round(
                sum(run["irqs"] for run in runs) / ops, 4)
            row["doorbells_per_op"] = round(bells.pop(0) / ops, 4)
    return rows


# -- guests ------------------------------------------------------------------

def _count(mode, out, which, runs, append=(), folder=None):
    trace = out / f"doorbells-{which}-{mode}"
    host.remove(trace)
    said = measure.boot(
        mode, out, f"{BENCH}-{which}-{mode}", "nvme-bench.sh",
        (programs(out), which, runs), append=(*APPEND, *append), icount=True,
        qemu=(*guest.NVME, f"-trace pci_nvme_mmio_doorbell_sq -D {trace}"),
        timeout=3600, **({"folder": folder} if folder else {}))
    found = complete_rows(said, trace.read_text("utf-8", "replace"), mode)
    host.remove(trace)
    return found


def rows(mode, out, runs):
    """All cells."""
    with host.step(f"counting instructions of NVMe commands ({mode})"):
        found = _count(mode, out, "all", min(runs, 5))
    try:
        with host.step(f"the same with more user queues ({mode})"):
            found += _count(mode, out, "grow", min(runs, 5),
                            ("possible_cpus=4",))
    except Plain as why:
        # judge() says that it is missing; the rest is worth keeping.
        host.say(f"    NOT RUN: {why}")
    return found


def few(out, runs=3):
    """What `make demo` shows."""
    return _count("lean", out, "few", runs)


# -- judging -----------------------------------------------------------------

def _cell(mode, batch, fixed, bs, **more):
    return {"mode": mode, "batch": batch, "depth": batch, "bs": bs,
            "fixed": fixed, "op": "read", "queues": 2, "config": "lean",
            **more}


def _bar(found, mode, batch, fixed, bs, most, aim):
    kind = "fixed" if fixed else "plain"
    name = (f"uq, {mode}, batch {batch}, {bs} B, {kind} takes at most "
            f"{most:.2f} of {BASE}")
    cell = _cell(mode, batch, fixed, bs)
    base = figures.find(found, BENCH, BASE, **cell)
    here = figures.find(found, BENCH, "uq", **cell)
    if not base or not here:
        return Case(name, ktap.FAIL, "NOT RUN: it was not measured")
    said = f"{here:.0f} / {base:.0f} = {here / base:.3f}, aim {aim:.2f}"
    if here / base > most:
        return Case(name, ktap.FAIL, said)
    return Case(f"{name} ({said})", ktap.PASS)


def _grows(found, name, cells):
    """The last of some cells costs no more than the first."""
    values = [figures.find(found, BENCH, "uq", **cell) for cell in cells]
    if None in values:
        return Case(name, ktap.FAIL, "NOT RUN: it was not measured")
    said = ", ".join(f"{value:.0f}" for value in values)
    if values[-1] / values[0] > GROWS:
        return Case(name, ktap.FAIL, said)
    return Case(f"{name} ({said})", ktap.PASS)


def _hidden(found):
    name = "what is counted is all there is"
    bad = [f"{figures.cell_name(row)}: the whole is {row['whole_to_parts']} of "
           "its parts" for row in found if row["bench"] == BENCH
           and abs(row["whole_to_parts"] - 1) > HIDDEN]
    return Case(name, ktap.FAIL if bad else ktap.PASS, "\n".join(bad))


def _bells(found):
    """One doorbell for a batch of 32, at most."""
    name = "uq rings at most one doorbell for a batch of 32"
    rung = [row for row in found if row["bench"] == BENCH
            and row["variant"] == "uq" and row["params"]["batch"] == 32]
    bad = [f"{figures.cell_name(row)}: {row['doorbells_per_op']}"
           for row in rung if row["doorbells_per_op"] > 1 / 32 + 0.002]
    if not rung:
        return Case(name, ktap.FAIL, "NOT RUN: it was not measured")
    return Case(name, ktap.FAIL if bad else ktap.PASS, "\n".join(bad))


def unpatched():
    """What the same cells cost without our patches."""
    if not BASELINE.exists():
        return []
    return json.loads(BASELINE.read_text(encoding="utf-8"))["rows"]


def _off(found):
    """Without user queues, as in a kernel without our patches."""
    name = "off, user queues cost nothing"
    bad, seen = [], 0
    for row in unpatched():
        now = figures.find(found, BENCH, row["variant"], **row["params"])
        if now is None:
            continue
        seen += 1
        if now / row["insn_per_op"] > OFF:
            bad.append(f"{figures.cell_name(row)}: {now:.0f}, unpatched "
                       f"{row['insn_per_op']:.0f}")
    if not seen:
        return Case(name, ktap.FAIL, "NOT RUN: there is nothing to compare")
    return Case(name, ktap.FAIL if bad else ktap.PASS, "\n".join(bad))


def judge(found):
    """The cases that the figures prove or not."""
    cases = [_bar(found, *bar) for bar in BARS]
    for mode in ("poll", "irq"):
        cases.append(_grows(found, f"uq, {mode} does not grow with depth", [
            _cell(mode, 32, True, 512, depth=depth)
            for depth in (32, 64, 128, 256)]))
        cases.append(_grows(
            found, f"uq, {mode} does not grow with the number of queues",
            [_cell(mode, 32, True, 512, queues=queues, possible=4)
             for queues in (2, 8)]))
    return [*cases, _bells(found), _hidden(found), _off(found)]


# -- the report --------------------------------------------------------------

def _kind(params):
    text = f"{params['mode']}, batch {params['batch']}"
    if params["depth"] != params["batch"]:
        text += f", depth {params['depth']}"
    text += f", {params['bs']} B" + (", fixed" if params["fixed"] else "")
    if params["op"] != "read":
        text += f", {params['op']}"
    return text + f", {params['queues']} queues"


def _events(found):
    """Doorbells and interrupts per command."""
    lines = [[row["variant"], _kind(row["params"]),
              f"{row['doorbells_per_op']:.3f}", f"{row['irqs_per_op']:.3f}"]
             for row in found if row["params"]["bs"] == 512
             and row["params"]["fixed"] and row["params"]["queues"] == 2
             and "possible" not in row["params"]]
    return figures.markdown(["variant", "cell", "doorbells per op",
                             "interrupts per op"], lines)


def _floor(found):
    lines = [[row["params"]["batch"], f"{row['insn_per_op']:.0f}"]
             for row in found if row["bench"] == NOP]
    return figures.markdown(["batch", "io_uring NOP"], lines)


def _unpatched(found):
    lines = []
    for row in unpatched():
        now = figures.find(found, BENCH, row["variant"], **row["params"])
        if now is not None:
            lines.append([f"{row['variant']}, {_kind(row['params'])}",
                          f"{row['insn_per_op']:.0f}", f"{now:.0f}"])
    return figures.markdown(["off", "unpatched", "now"], lines)


def section(found):
    """The part of out/bench.md."""
    mine = [row for row in found if row["bench"] == BENCH]
    if not mine:
        return ""
    return "\n\n".join([
        "## NVMe commands", ABOUT, figures.table(mine, BASE, ("read", _kind)),
        "### The floor: io_uring without a device", _floor(found),
        "### Doorbells and interrupts", _events(mine),
        "### Without user queues", _unpatched(found)])


def lines(found):
    """The few cells that `make demo` shows, as lines."""
    mine = [row for row in found if row["bench"] == BENCH]
    text = figures.table(mine, BASE, ("instructions per command", _kind))
    return text.splitlines()
