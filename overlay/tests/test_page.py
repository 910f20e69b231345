# SPDX-License-Identifier: GPL-2.0
"""What the page of results shows is what the runs left."""

import json
import tempfile
import unittest
from pathlib import Path

from engine import host, ktap
from engine.kernels import HARDWARE
from engine.ktap import FAIL, PASS, SKIP, Case
from engine.page import collect
from engine.page.collect import Curve, Figures, Program


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
            Program("kselftest", "debug", "uq: uq_io", failed=1, skipped=1,
                    failures=[("uq.irq.x", "Expected 0 == 1")],
                    skips=[("uq.poll.y", "no device")]),
            Program("kselftest", "lean, pci=nomsi",
                    "filesystems/dax: read_dm.sh", passed=1),
            Program("kselftest", "", "lean-1", passed=1)])

    def test_logs(self):
        host.write(self.out / "kunit" / "um.log", "")
        self.assertEqual(collect.logs(self.out, ["kunit", "lint"]),
                         {"kunit": ["kunit/um.log"]})

    def log_of(self, step, name):
        """The log that a failure of this name leads to."""
        found, = self.results(step, Case(name, FAIL, "it failed"))
        return found.log

    def test_a_failure_leads_to_the_log_of_its_guest(self):
        for guest, programs in (("lean-1", ("uq: uq_io_more",)),
                                ("lean-2", ("uq: uq_io",)),
                                ("lean-intx", ("uq: uq_io",)),
                                ("debug", ("uq: uq_io",))):
            text = "".join(f"# selftests: {name}\n" for name in programs)
            host.write(self.out / "kselftest" / f"{guest}.ktap", text)
            host.write(self.out / "kselftest" / f"{guest}.boot.log", text)
        append = " ".join(HARDWARE["intx"].append)
        for name, guest in (
                ("lean: uq: uq_io: irq.x", "lean-2"),
                (f"lean, {append}: uq: uq_io: irq.x", "lean-intx"),
                ("debug: uq: uq_io: irq.x", "debug"),
                ("lean-1: the guest ran to its end", "lean-1")):
            self.assertEqual(self.log_of("kselftest", name),
                             f"kselftest/{guest}.boot.log", name)


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

    def test_what_make_bench_wrote(self):
        self.assertEqual(collect.measured(self.out, self.out / "none"), Figures())
        host.write(self.out / "bench.json", json.dumps({
            "kernel": "7.3", "results": [row("uq", 1)], "lines": [row("uq", 2)]}))
        self.assertEqual(collect.measured(self.out), Figures(
            {"kernel": "7.3"}, [row("uq", 1)], [row("uq", 2)]))

    def test_what_the_tree_keeps_stands_for_what_was_not_measured_here(self):
        kept = self.out / "results.json"
        host.write(kept, json.dumps({
            "parts": {"nvme": {"commit": "a1"}, "nvme-iommu": {"commit": "b2"},
                      "dax-read": {"commit": "a1"}}, "results": [row("uq", 1)],
            "lines": [row("uq", 2)]}))
        found = collect.measured(self.out, kept)
        self.assertEqual((found.rows, found.lines), ([row("uq", 1)], [row("uq", 2)]))
        self.assertEqual(list(found.about.values()), ["a1 (nvme, dax-read); "
                                                      "b2 (nvme-iommu)"])
        self.assertTrue(collect.measured(self.out).rows)


class Profiles(Left):

    def test_links(self):
        folder = self.out / "bench"
        host.write(folder / "profile-8.txt", "# Reads\n# by function\n")
        for variant in ("generic", "read"):
            host.write(folder / f"profile-8-{variant}.folded", "")
        found, = collect.profiles(self.out)
        self.assertEqual(found, collect.Profile("profile-8", "Reads", {
            variant: f"profile-8-{variant}.folded" for variant in ("generic", "read")}))


if __name__ == "__main__":
    unittest.main()
