# SPDX-License-Identifier: GPL-2.0
"""Measuring the end of NVMe commands: rows are whole, and bars are bars."""

import unittest

from bench import nvme_reap
from engine import ktap
from engine.host import UserError

DEPTHS = (1, 8, 32, 128)


def cell(variant, depth, insn, ready=900, whole=1000):
    """Return the output of a cell while instructions are counted."""
    words = f"nvme-reap {variant} depth={depth} bs=512 fixed=true op=read"
    return "".join(
        f"cell {words} run={run} insn={insn}\n"
        f"ready {words} run={run} insn={ready}\n"
        f"about {words} run={run} rounds=12 sent=13 whole={whole} parts=1000\n"
        for run in range(2))


def entries(variant, depth, count, empty):
    """Return the output of a cell while entries are counted."""
    return (f"entries nvme-reap {variant} depth={depth} bs=512 fixed=true "
            f"op=read entries={count} empty={empty} ops=200\n")


def rows(mapped, iopoll=1000, depths=DEPTHS, empty=0, whole=1000, ready=900):
    """Results of all cells."""
    insns = "".join(cell("iopoll", depth, iopoll)
                    + cell("mmap", depth, mapped, ready, whole=whole)
                    for depth in depths)
    output = "".join(entries("iopoll", depth, 400, 300)
                     + entries("mmap", depth, 100, empty) for depth in depths)
    return nvme_reap.complete_rows(insns + "complete insns\n",
                                    output + "complete entries\n", "lean")


def status(cases, start):
    """How the case ended that has a name with this start."""
    return next(case for case in cases if case.name.startswith(start)).status


class Rows(unittest.TestCase):
    def test_all_fields(self):
        row = rows(800)[0]
        self.assertEqual((row["bench"], row["variant"],
                          row["params"]["depth"]), ("nvme-reap", "iopoll", 1))
        self.assertEqual((row["insn_per_op"], row["insn_ready_per_op"]),
                         (1000, 900))
        self.assertEqual((row["entries_per_op"], row["empty_share"]),
                         (2.0, 0.75))

    def test_entries_not_counted(self):
        with self.assertRaisesRegex(UserError, "mmap depth=1 .* not counted"):
            nvme_reap.complete_rows(cell("mmap", 1, 9) + "complete\n",
                                     entries("iopoll", 1, 4, 1) + "complete\n",
                                     "lean")


class Judge(unittest.TestCase):
    ONE = "mmap, depth 1 takes no more"
    MANY = "mmap, depth 32 takes less"

    def test_bars(self):
        for insn, one, many in ((999, ktap.PASS, ktap.PASS),
                                (1000, ktap.PASS, ktap.FAIL),
                                (1001, ktap.FAIL, ktap.FAIL)):
            cases = nvme_reap.judge(rows(insn))
            self.assertEqual(status(cases, self.ONE), one)
            self.assertEqual(status(cases, self.MANY), many)

    def test_bar_when_all_is_ready(self):
        for ready, one in ((900, ktap.PASS), (901, ktap.FAIL)):
            cases = nvme_reap.judge(rows(800, ready=ready))
            self.assertEqual(status(cases, "mmap when all is ready, depth 1"),
                             one)

    def test_not_measured_is_red(self):
        for case in nvme_reap.judge([])[:4]:
            self.assertEqual(case.status, ktap.FAIL)
            self.assertIn("NOT RUN", case.detail)

    def test_one_empty_entry_is_red(self):
        for empty, result in ((0, ktap.PASS), (1, ktap.FAIL)):
            self.assertEqual(status(nvme_reap.judge(rows(900, empty=empty)),
                                    "mmap never"), result)


def tails(unlimited, limited):
    """Rows of a tenant beside another that wants 60, and 240."""
    return [{"bench": "nvme-qos", "variant": variant, "insn_per_op": insn,
             "params": {"others": others, "limit": 4 * (variant == "limited")}}
            for variant, figures in (("unlimited", unlimited),
                                     ("limited", limited))
            for others, insn in zip((60, 240), figures, strict=True)]


class Tail(unittest.TestCase):
    NAME = "a tenant's tail"

    def test_bars(self):
        for limited, result in (((5000, 5100), ktap.PASS),
                                ((5000, 5300), ktap.FAIL),
                                ((8000, 8000), ktap.FAIL)):
            found = tails((8000, 24000), limited)
            self.assertEqual(status(nvme_reap.judge(found), self.NAME),
                             result)

    def test_not_measured_is_red(self):
        found = tails((8000, 24000), (5000, 5000))[:-1]
        self.assertEqual(status(nvme_reap.judge(found), self.NAME), ktap.FAIL)


class Report(unittest.TestCase):

    def test_demo_has_a_line_with_both_shares(self):
        line = nvme_reap.lines(rows(800, depths=(1, 32)))[0]
        self.assertIn("depth 1: 75.0% and 0.0%, depth 32: 75.0% and 0.0%",
                      line)


if __name__ == "__main__":
    unittest.main()
