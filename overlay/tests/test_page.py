# SPDX-License-Identifier: GPL-2.0
"""What the page of results shows is what the runs left."""

import json
import tempfile
import unittest
from pathlib import Path

from engine import host, ktap
from engine.ktap import FAIL, PASS, SKIP, Case
from engine.page import collect
from engine.page.collect import Curve, Program


def row(variant, insn, **params):
    return {"bench": "nvme", "variant": variant, "params": params,
            "insn_per_op": insn, "runs": 3, "spread_pct": 0.0}


class Left(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name)

    def results(self, step, *cases):
        ktap.junit(self.out / step / "junit.xml", step, list(cases))
        return collect.results(self.out, [step, "nothing"])


class Results(Left):

    def test_by_kernel_and_program(self):
        self.assertEqual(self.results(
            "kselftest",
            Case("lean: uq: uq_io: uq.irq.x", PASS),
            Case("debug: uq: uq_io: uq.irq.x", FAIL, "Expected 0 == 1"),
            Case("debug: uq: uq_io: uq.poll.y", SKIP, "no device"),
            Case("lean, pci=nomsi: filesystems/dax: read_dm.sh: a: b", PASS),
            Case("lean-1: the guest ran to its end", PASS)), [
            Program("kselftest", "lean", "uq: uq_io", passed=1),
            Program("kselftest", "debug", "uq: uq_io",
                    failures=[("uq.irq.x", "Expected 0 == 1")],
                    skips=[("uq.poll.y", "no device")]),
            Program("kselftest", "lean, pci=nomsi",
                    "filesystems/dax: read_dm.sh", passed=1),
            Program("kselftest", "", "lean-1", passed=1)])

    def test_logs(self):
        host.write(self.out / "kunit" / "um.log", "")
        self.assertEqual(collect.logs(self.out, ["kunit", "lint"]),
                         {"kunit": ["kunit/um.log"]})


class Measured(Left):

    def test_the_front_page_has_one_plot_of_each_bench(self):
        rows = [row("uq", 9 * batch, batch=batch, bs=bs, config=config)
                for config in ("lean", "distro") for batch in (1, 8)
                for bs in (512, 4096)]
        self.assertEqual(collect.front(rows), [
            Curve("nvme", "batch", {"bs": 512, "config": "lean"},
                  {"uq": [(1, 9), (8, 72)]})])

    def test_over_each_parameter(self):
        rows = [row("uq", 9, batch=8, depth=8, bs=512),
                row("uq", 8, batch=1, depth=1, bs=512),
                row("uq", 7, batch=1, depth=1, bs=4096),
                row("block", 5, batch=1, depth=1, bs=512)]
        self.assertEqual(collect.curves(rows), [
            Curve("nvme", "batch", {"bs": 512, "depth": "as batch"},
                  {"uq": [(1, 8), (8, 9)]}),
            Curve("nvme", "bs", {"batch": 1, "depth": 1},
                  {"uq": [(512, 8), (4096, 7)]})])

    def test_the_tree_keeps_what_was_not_measured_here(self):
        kept, empty = self.out / "results.json", {"results": [], "lines": []}
        self.assertEqual(collect.measured(self.out, kept), ("", empty))
        host.write(kept, json.dumps({"parts": {"nvme": {"commit": "a1"}}, **empty}))
        about, _ = collect.measured(self.out, kept)
        self.assertIn("a1 (nvme)", about)
        host.write(self.out / "bench.json", json.dumps({
            "kernel": "7.3", "commit": "b2", "tool": "QEMU",
            "results": [row("uq", 1)], "lines": [row("uq", 2)]}))
        about, found = collect.measured(self.out, kept)
        self.assertEqual(about, "kernel 7.3, tree b2, QEMU")
        self.assertEqual(found["results"], [row("uq", 1)])


class Profiles(Left):

    def test_links(self):
        folder = self.out / "bench"
        host.write(folder / "profile-8.txt", "# Reads\n# by function\n")
        for variant in ("generic", "read"):
            host.write(folder / f"profile-8-{variant}.folded", "")
        found, = collect.profiles(self.out)
        self.assertEqual(found, ("profile-8", "Reads", {
            variant: f"profile-8-{variant}.folded" for variant in ("generic", "read")}))


if __name__ == "__main__":
    unittest.main()
