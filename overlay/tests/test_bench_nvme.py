# SPDX-License-Identifier: GPL-2.0
"""Measuring NVMe: doorbells go to the right cells, and bars are bars."""

import tempfile
import unittest
from pathlib import Path
from unittest import mock

from engine import bench_nvme, disks, kselftest, ktap
from engine.host import Plain

ADMIN = "pci_nvme_mmio_doorbell_sq sqid 0 new_tail 1\n"
IO = "pci_nvme_mmio_doorbell_sq sqid 4 new_tail 7\n"
MARK = ADMIN * 97


def cell(variant, insn, whole=1000, **params):
    """What a run of a cell prints."""
    params = {"mode": "poll", "batch": 32, "depth": 32, "bs": 512,
              "fixed": "true", "op": "read", "queues": 2, **params}
    words = " ".join(f"{name}={value}" for name, value in params.items())
    return (f"cell nvme {variant} {words} run=0 insn={insn}\n"
            f"about nvme {variant} {words} run=0 irqs=10 ops=100 "
            f"whole={whole} parts=1000\n")


def rows(said, bells):
    """Results of cells with so many doorbells each."""
    trace = "".join(ADMIN * 200 + IO + MARK + IO * count + MARK + IO
                    for count in bells)
    return bench_nvme.complete_rows(said + "complete\n", trace, "lean")


def status(cases, start):
    """How the case ended whose name starts so."""
    return next(case for case in cases if case.name.startswith(start)).status


class Doorbells(unittest.TestCase):
    def test_between_marks(self):
        trace = (ADMIN * 277 + IO * 9 + MARK + IO * 3 + ADMIN * 2 + IO + MARK
                 + IO * 5 + ADMIN * 200 + IO + MARK + IO + MARK + IO)
        self.assertEqual(bench_nvme.doorbells(trace), [4, 1])

    def test_mark_with_a_command_of_somebody_else_in_it(self):
        split = ADMIN * 77 + IO + ADMIN * 20
        trace = split + IO * 4 + split + IO * 5 + MARK + IO * 2 + MARK + IO
        self.assertEqual(bench_nvme.doorbells(trace), [4, 2])

    def test_go_to_their_rows(self):
        found = rows(cell("passthru", 2000) + cell("uq", 900), [100, 4])
        self.assertEqual([row["doorbells_per_op"] for row in found],
                         [1.0, 0.04])
        self.assertEqual([row["irqs_per_op"] for row in found], [0.1, 0.1])

    def test_a_cell_too_many(self):
        with self.assertRaisesRegex(Plain, "2 cells, and 1"):
            rows(cell("uq", 900), [1, 1])


class Judge(unittest.TestCase):
    NAME = "uq, poll, batch 32, 512 B, fixed"

    def test_bar(self):
        for insn, result in ((1000, ktap.PASS), (1001, ktap.FAIL)):
            found = rows(cell("passthru", 2000) + cell("uq", insn), [9, 1])
            self.assertEqual(status(bench_nvme.judge(found), self.NAME),
                             result)

    def test_a_kernel_without_user_queues_is_red(self):
        found = rows(cell("passthru", 2000), [9])
        self.assertEqual(status(bench_nvme.judge(found), self.NAME),
                         ktap.FAIL)

    def test_a_doorbell_for_each(self):
        for bells, result in ((3, ktap.PASS), (100, ktap.FAIL)):
            found = rows(cell("uq", 900), [bells])
            self.assertEqual(status(bench_nvme.judge(found), "uq rings"),
                             result)

    def test_hidden_work(self):
        found = rows(cell("uq", 900, whole=1100), [1])
        self.assertEqual(status(bench_nvme.judge(found), "what is counted"),
                         ktap.FAIL)

    def test_growth(self):
        said = "".join(cell("uq", insn, depth=depth) for depth, insn in
                       ((32, 900), (64, 900), (128, 910), (256, 990)))
        self.assertEqual(status(bench_nvme.judge(rows(said, [1] * 4)),
                                "uq, poll does not grow with depth"),
                         ktap.FAIL)

    def test_off(self):
        params = {"mode": "poll", "batch": 32, "depth": 32, "bs": 512,
                  "fixed": True, "op": "read", "queues": 0, "config": "lean"}
        base = [{"bench": "nvme", "variant": "block", "params": params,
                 "insn_per_op": 3000}]
        for insn, result in ((3010, ktap.PASS), (3030, ktap.FAIL)):
            found = rows(cell("block", insn, queues=0), [1])
            with mock.patch.object(bench_nvme, "unpatched",
                                   return_value=base):
                self.assertEqual(status(bench_nvme.judge(found), "off"),
                                 result)


class Report(unittest.TestCase):
    def test_section(self):
        found = rows(cell("block", 3000) + cell("passthru", 2000)
                     + cell("uq", 900), [9, 9, 1])
        text = bench_nvme.section(found)
        self.assertRegex(text, r"poll, batch 32, 512 B, fixed, 2 queues +\| "
                               r"+3000 \| +1\.500 \| +2000 \| +900 \| +0\.450")

    def test_nothing_measured(self):
        self.assertEqual(bench_nvme.section([]), "")


class Disks(unittest.TestCase):
    def test_sparse_files(self):
        with tempfile.TemporaryDirectory() as folder:
            words, = disks.attach(Path(folder) / "disks")
            self.assertIn("msix_qsize=1", words)
            made = list((Path(folder) / "disks").iterdir())
            self.assertEqual({path.stat().st_size for path in made},
                             {disks.MEGABYTES << 20})
            self.assertEqual(sum(path.stat().st_blocks for path in made), 0)


class Others(unittest.TestCase):
    TESTS = ["uq:uq_io", "uq:uq_reset"]

    def test_only_what_is_about_it(self):
        share, = kselftest.others("lean", Path("x"), self.TESTS)
        self.assertEqual(share.tests, ("uq:uq_io",))
        self.assertIn("pci=nomsi", share.append)

    def test_not_on_the_debug_kernel_and_not_without_tests(self):
        self.assertEqual(list(kselftest.others("debug", Path("x"),
                                               self.TESTS)), [])
        self.assertEqual(list(kselftest.others("lean", Path("x"), ["a:b"])),
                         [])


if __name__ == "__main__":
    unittest.main()
