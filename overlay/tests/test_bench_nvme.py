# SPDX-License-Identifier: GPL-2.0
"""Measuring NVMe: doorbells go to the right cells, and bars are bars."""

import tempfile
import unittest
from pathlib import Path

from bench import nvme
from engine import disks, guest, kselftest, ktap
from engine.host import UserError

ADMIN = "pci_nvme_mmio_doorbell_sq sqid 0 new_tail 1\n"
IO = "pci_nvme_mmio_doorbell_sq sqid 4 new_tail 7\n"
MARK = ADMIN + ("pci_nvme_getfeat cid 4 nsid 0x0 fid 0x7 sel 0x0 "
                "cdw11 0x6d61726b\n")


def cell(variant, insn, whole=1000, **params):
    """Return the output of a run of a cell."""
    params = {"mode": "poll", "batch": 32, "depth": 32, "bs": 512,
              "fixed": "true", "op": "read", "queues": 2, "iommu": "off",
              **params}
    words = " ".join(f"{name}={value}" for name, value in params.items())
    return (f"cell nvme {variant} {words} run=0 insn={insn}\n"
            f"about nvme {variant} {words} run=0 irqs=10 ops=100 "
            f"whole={whole} parts=1000\n")


def rows(output, bells):
    """Results of cells with so many doorbells each."""
    trace = "".join(ADMIN * 200 + IO + MARK + IO * count + MARK + IO
                    for count in bells)
    return nvme.complete_rows(output + "complete\n", trace, "lean")


def status(cases, start):
    """How the case ended that has a name with this start."""
    return next(case for case in cases if case.name.startswith(start)).status


class Doorbells(unittest.TestCase):
    def test_between_marks(self):
        trace = (ADMIN * 277 + IO * 9 + MARK + IO * 3 + ADMIN * 2 + IO + MARK
                 + IO * 5 + ADMIN * 200 + IO + MARK + IO + MARK + IO)
        self.assertEqual(nvme.doorbells(trace), [4, 1])

    def test_go_to_their_rows(self):
        found = rows(cell("passthru", 2000) + cell("uq", 900), [100, 4])
        self.assertEqual([row["doorbells_per_op"] for row in found],
                         [1.0, 0.04])
        self.assertEqual([row["irqs_per_op"] for row in found], [0.1, 0.1])


class Judge(unittest.TestCase):
    NAME = "uq, poll, batch 32, 512 B, fixed"

    def test_bar(self):
        for insn, result in ((860, ktap.PASS), (861, ktap.FAIL)):
            found = rows(cell("passthru", 2000) + cell("uq", insn), [9, 1])
            self.assertEqual(status(nvme.judge(found), self.NAME),
                             result)

    def test_a_doorbell_for_each(self):
        for bells, result in ((3, ktap.PASS), (100, ktap.FAIL)):
            found = rows(cell("uq", 900), [bells])
            self.assertEqual(status(nvme.judge(found), "uq rings"),
                             result)

    def test_hidden_work(self):
        found = rows(cell("uq", 900, whole=1100), [1])
        self.assertEqual(status(nvme.judge(found), "what is counted"),
                         ktap.FAIL)

    def deep(self, passthru, uq):
        output = "".join(cell(variant, insn, depth=depth)
                         for variant, costs in (("passthru", passthru),
                                                ("uq", uq))
                         for depth, insn in zip((32, 64, 128, 256), costs,
                                                strict=True))
        return status(nvme.judge(rows(output, [1] * 8)),
                      "uq, poll does not grow with depth")

    def test_growth_with_depth(self):
        level = (2000, 2000, 2000, 2000)
        self.assertEqual(self.deep(level, (900, 900, 910, 940)), ktap.PASS)
        self.assertEqual(self.deep(level, (900, 900, 910, 990)), ktap.FAIL)
        self.assertEqual(self.deep(level, (900, 990, 900, 900)), ktap.FAIL)

    def test_growth_of_io_uring_itself(self):
        rises = (2000, 2000, 2000, 2100)
        self.assertEqual(self.deep(rises, (900, 900, 900, 1010)), ktap.PASS)
        self.assertEqual(self.deep(rises, (900, 900, 900, 1050)), ktap.FAIL)

    def test_growth_with_queues(self):
        for insn, result in ((940, ktap.PASS), (950, ktap.FAIL)):
            output = cell("uq", 900, possible=4) + cell("uq", insn, queues=8,
                                                        possible=4)
            self.assertEqual(status(nvme.judge(rows(output, [1, 1])),
                                    "uq, poll does not grow with the number"),
                             result)

    def pristine(self, *costs, **params):
        """Cells of the boot of a pristine kernel, beside those of the patched one."""
        output = "".join(cell(variant, insn, **params) for variant, insn in zip(
            ("block", "passthru"), costs, strict=True))
        return nvme.beside("lean", [
            {**row, "params": {**row["params"], "config": "lean-base"}}
            for row in rows(output, [1, 1])])

    def test_off(self):
        for block, trimmed, wanted in ((1005, 2010, ktap.PASS), (1006, 2000, ktap.FAIL),
                                       (1000, 2011, ktap.FAIL)):
            found = self.pristine(1000, 2000, queues=0) + rows(
                cell("block", block, queues=0)
                + cell("passthru-trimmed", trimmed, queues=0), [1, 1])
            self.assertEqual(status(nvme.judge(found), "off"), wanted)

    def test_trimmed(self):
        for trimmed, block, results in ((1640, 1010, (ktap.PASS, ktap.PASS)),
                                        (1641, 1011, (ktap.FAIL, ktap.FAIL))):
            cases = nvme.judge(self.pristine(1000, 2000) + rows(
                cell("block", block) + cell("passthru-trimmed", trimmed), [1, 1]))
            self.assertEqual((
                status(cases, "passthru-trimmed, poll, batch 32, 512 B, fixed"),
                status(cases, "passthru-trimmed and block are")), results)

    def test_both_boots_count_alike(self):
        here, there = ([{"bench": nvme.NOP, "variant": "nop", "insn_per_op": insn,
                         "params": {"batch": 32}}] for insn in (284, 282))
        nvme.agree(here, there)
        here[0]["insn_per_op"] = 285
        for other in (there, []):
            with self.assertRaisesRegex(UserError, "cannot be compared"):
                nvme.agree(here, other)

    def behind(self, large, small, modes=("poll", "irq")):
        """How cells behind a strict IOMMU are judged: all, and small ones."""
        found = []
        for mode in modes:
            for bs, ratio in ((512, small), (4096, 0.5), (131072, large)):
                for variant, part in (("passthru", 1), ("uq", ratio)):
                    found.append(cell(variant, 4000 * part, mode=mode, bs=bs,
                                      iommu="strict"))
        cases = nvme.judge_behind(rows("".join(found), [1] * len(found)))
        return (status(cases, "uq, strict IOMMU, 512, 4096, 131072 B"),
                status(cases, "uq, strict IOMMU, 512, 4096 B"),
                status(cases, "uq, lazy IOMMU, 512, 4096 B"))

    def test_behind_an_iommu(self):
        for large, small, results in (
                (1.0, 0.75, (ktap.PASS, ktap.PASS, ktap.FAIL)),
                (1.001, 0.75, (ktap.FAIL, ktap.PASS, ktap.FAIL)),
                (0.9, 0.751, (ktap.PASS, ktap.FAIL, ktap.FAIL)),
                (0.9, 1.2, (ktap.FAIL, ktap.FAIL, ktap.FAIL))):
            self.assertEqual(self.behind(large, small), results)

    def test_not_measured_behind_an_iommu(self):
        self.assertEqual(self.behind(0.5, 0.5, ("poll",)), (ktap.FAIL,) * 3)


class Profile(unittest.TestCase):
    """Check that a profile has the figure of its cell."""

    def judge(self, depth=32, **functions):
        """How a profile of a cell of 1000 instructions is judged."""
        found = rows(cell("uq", 1000, batch=depth, depth=depth), [1])
        return nvme.judge_profile(
            found, {("poll", depth): {"uq": functions}}).status

    def test_a_sum_within_two_percent(self):
        self.assertEqual(self.judge(a=600, b=390), ktap.PASS)
        self.assertEqual(self.judge(a=600, b=370), ktap.FAIL)
        self.assertEqual(self.judge(a=600, b=390, string=1000), ktap.FAIL)

    def test_counting_single_commands_costs_some(self):
        self.assertEqual(self.judge(depth=1, a=600, b=360), ktap.PASS)
        self.assertEqual(self.judge(depth=1, a=600, b=340), ktap.FAIL)


class Report(unittest.TestCase):

    def test_profiles_leave_the_program_out(self):
        f, g = ({name: 2} for name in "fg")
        found = {("passthru_poll", 32): {"[user space]": 9000, "f": 2},
                 ("uq_poll", 32): g, ("uq_irq", 32): g}
        self.assertEqual(nvme.by_cell(found), {
            ("poll", 32): {"passthru": f, "uq": g}, ("irq", 32): {"uq": g}})


class Disks(unittest.TestCase):
    def test_sparse_files(self):
        with tempfile.TemporaryDirectory() as folder:
            words, = disks.attach(Path(folder) / "disks")
            self.assertIn("msix_qsize=1", words)
            made = list((Path(folder) / "disks").iterdir())
            self.assertEqual({path.stat().st_size for path in made},
                             {disks.MEGABYTES << 20})
            # ... and are known as the tests' own without a look at all of them
            self.assertEqual({path.read_bytes()[-disks.LABEL_BYTES:]
                              for path in made}, {disks.label()})
            self.assertLess(sum(path.stat().st_blocks for path in made),
                            64 * len(made))


class Others(unittest.TestCase):
    TESTS = ["uq:uq_io", "uq:uq_reset"]

    def test_only_what_is_about_it(self):
        intx, iommu = kselftest.others("lean", Path("x"), self.TESTS)
        self.assertEqual(intx.tests, ("uq:uq_io",))
        self.assertIn("pci=nomsi", intx.append)
        self.assertEqual(intx.hardware()[1], guest.by_words())
        self.assertEqual(iommu.tests, ("uq:uq_io",))
        self.assertIn("intel_iommu=on", iommu.hardware()[0])
        self.assertEqual(iommu.hardware()[1], ("-device intel-iommu",))

    def test_not_on_the_debug_kernel_and_not_without_tests(self):
        self.assertEqual(list(kselftest.others("debug", Path("x"),
                                               self.TESTS)), [])
        self.assertEqual(list(kselftest.others("lean", Path("x"), ["a:b"])),
                         [])

    def test_one_guest_goes_down_by_itself(self):
        share, = kselftest.restarts("lean", Path("x"), self.TESTS)
        self.assertTrue(share.restart)
        self.assertEqual(list(kselftest.restarts("debug", Path("x"),
                                                 self.TESTS)), [])
        self.assertEqual(list(kselftest.restarts("lean", Path("x"),
                                                 ["a:b"])), [])


if __name__ == "__main__":
    unittest.main()
