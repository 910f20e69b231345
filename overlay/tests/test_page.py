# SPDX-License-Identifier: GPL-2.0
"""Check that the report shows the results of the last runs."""

import tempfile
import unittest
from pathlib import Path

from engine import host, ktap, page
from engine.ktap import FAIL, PASS, SKIP, Case
from engine.page import Program


class Left(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name)

    def results(self, step, *cases):
        ktap.junit(self.out / step / "junit.xml", step, list(cases))
        return page.results(self.out, [step, "nothing"])


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
        self.assertEqual(page.logs(self.out, ["kunit", "lint"]),
                         {"kunit": ["kunit/um.log"]})

    def test_profiles(self):
        host.write(self.out / "bench" / "profile-8.txt", "# Reads\n# by function\n")
        self.assertEqual(page.profiles(self.out), [("bench/profile-8.txt", "Reads")])


if __name__ == "__main__":
    unittest.main()
