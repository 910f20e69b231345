# SPDX-License-Identifier: GPL-2.0
"""Figures of mapped reads are judged by their bars."""

import unittest

from bench import dax_mmap, results
from engine import ktap


def output(around=100, dax=1000, access="sequential", touch="first", window=65536):
    """A complete output of three variants of both kinds."""
    figure = {"pagecache": 50, "dax": dax, "dax-fault-around": around}
    return "".join(
        f"cell dax-mmap {variant} kind={kind} access={access} mapping=pte "
        f"touch={touch} window={window} run={run} insn={insn}\n"
        for kind in ("hole", "data") for variant, insn in figure.items()
        if insn for run in range(2))


def rows(*texts, config="lean"):
    """Results of outputs."""
    return results.read("".join(texts) + "complete\n", config)


GOOD = (output(), output(1100, access="random"))


def failed(found):
    """The names of the cases that are red."""
    return [case.name for case in dax_mmap.judge(found)
            if case.status == ktap.FAIL]


class Judge(unittest.TestCase):
    def test_bars_met(self):
        self.assertEqual(failed(rows(*GOOD)), [])

    def test_sequential_bar(self):
        red = failed(rows(output(151), GOOD[1]))
        self.assertEqual(len(red), 2)
        self.assertIn("sequential", red[0])

    def test_bars_are_for_first_touch_and_the_usual_window(self):
        self.assertEqual(failed(rows(
            *GOOD, output(900, touch="remap"), output(900, window=16384))), [])

    def test_not_measured_is_red(self):
        self.assertEqual(len(failed(rows(output(around=0), GOOD[1]))), 2)
        self.assertEqual(len(failed(rows(*GOOD, config="distro"))), 4)


class Section(unittest.TestCase):
    def test_cells(self):
        text = dax_mmap.section(rows(*GOOD, output(window=16384)))
        self.assertIn("| hole, sequential, pte, first ", text)
        self.assertIn("window 16384", text)
        self.assertIn("0.100", text)


if __name__ == "__main__":
    unittest.main()
