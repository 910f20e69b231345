# SPDX-License-Identifier: GPL-2.0
"""Results for KCIDB: a test's path is the same in the next report."""

import json
import re
from unittest import mock

from engine import host, ktap, results
from engine.ktap import Case
from engine.results import report
from tests.test_host import Folder

PATH = re.compile(r"^[a-zA-Z0-9_-]+(\.[a-zA-Z0-9_-]+)*$")
CASES = [
    Case("lean: uq: uq_io: irq.read_write", ktap.PASS),
    Case("lean: uq: uq_io: poll.read_write", ktap.FAIL, "what\0 failed"),
    Case("lean: filesystems/dax: read_dm.sh: a name, with (signs)", ktap.SKIP,
         "no dmsetup"),
    Case("lean, pci=nomsi swiotlb=force: uq: uq_io: irq.read_write", ktap.PASS),
    Case("lean-1: the guest ran to its end", ktap.PASS),
    Case("debug: uq: uq_io: irq.read_write", ktap.PASS,
         "taken from the store: it ran at 2026-01-01 00:00"),
    Case("uq: uq_new", ktap.FAIL, "NOT RUN: it was skipped in all guests"),
]


class Report(Folder):
    """What is in out/ as a report."""

    def setUp(self):
        super().setUp()
        ktap.junit(host.OUT / "kselftest" / "junit.xml", "kselftest", CASES)
        ktap.junit(host.OUT / "kunit" / "junit.xml", "kunit",
                   [Case("um: ext4_inode_test: a case", ktap.PASS)])
        # Neither asks for the kernel's source, which would be fetched.
        for module, name, value in (
                (report, "checkout", lambda: {"id": "overlay:1"}),
                (report.build, "folder", lambda mode: self.top / mode)):
            patch = mock.patch.object(module, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        self.data = report.report(host.OUT)
        self.tests = {test["path"]: test for test in self.data["tests"]}

    def test_paths(self):
        self.assertEqual([test["path"] for test in self.data["tests"]], [
            "kunit.ext4_inode_test.a_case",
            "kselftest.uq.uq_io.irq.read_write",
            "kselftest.uq.uq_io.poll.read_write",
            "kselftest.filesystems.dax.read_dm.sh.a_name_with_signs",
            "kselftest.uq.uq_io.irq.read_write",
            "kselftest.lean-1.the_guest_ran_to_its_end",
            "kselftest.uq.uq_io.irq.read_write",
            "kselftest.uq.uq_new"])
        for test in self.data["tests"]:
            self.assertRegex(test["path"], PATH)

    def test_ids_are_each_ones_own(self):
        ids = [test["id"] for test in self.data["tests"]]
        self.assertEqual(len(ids), len(set(ids)))
        self.assertEqual(ids, [test["id"] for test
                               in report.report(host.OUT)["tests"]])

    def test_status_and_excerpt(self):
        status = [test["status"] for test in self.data["tests"]]
        self.assertEqual(status, ["PASS", "PASS", "FAIL", "SKIP", "PASS", "PASS",
                                  "PASS", "MISS"])
        failed = self.tests["kselftest.uq.uq_io.poll.read_write"]
        self.assertEqual(failed["log_excerpt"], "what? failed")

    def test_builds(self):
        self.assertEqual({build["config_name"] for build in self.data["builds"]},
                         {"debug", "lean", "none", "um"})
        known = {build["id"] for build in self.data["builds"]}
        self.assertTrue(all(test["build_id"] in known
                            for test in self.data["tests"]))

    def test_environment(self):
        found = [test["environment"]["misc"]["platform"]
                 for test in self.data["tests"]]
        self.assertEqual(found[0], "um")
        self.assertEqual(found[4], "qemu-pci-nomsi-swiotlb-force")
        self.assertTrue(self.data["tests"][6]["misc"]["stored"])

    def test_it_is_json(self):
        json.dumps(self.data)

    def test_a_long_excerpt_is_cut(self):
        self.assertEqual(len(report._excerpt("x" * 99999)), report.EXCERPT)


class Command(Folder):
    """What `make results` makes of what the venv says."""

    TESTS = ({"path": "kselftest.uq"},)

    def run_with(self, code, output, *args):
        """The cases, when the venv's module ends so."""
        done = host.Done([], code, output)
        with mock.patch.object(results, "_venv", return_value=done), \
                mock.patch.object(report, "report",
                                  return_value={"builds": [], "tests": self.TESTS}):
            return results.main(list(args))

    def test_valid(self):
        self.assertEqual(self.run_with(0, "")[0].status, ktap.PASS)
        case, = self.run_with(1, "'x' does not match at $.tests[0].path")
        self.assertEqual(case.status, ktap.FAIL)
        self.assertIn("$.tests[0].path", case.detail)

    def test_nothing_to_report(self):
        with mock.patch.object(Command, "TESTS", ()):
            case, = self.run_with(0, "")
        self.assertEqual(case.status, ktap.FAIL)
        self.assertIn("NOT RUN", case.detail)

    def test_compare(self):
        self.assertEqual(self.run_with(0, "", "a", "b")[0].status, ktap.PASS)
        self.assertEqual(self.run_with(2, "new failures: 1", "a")[0].status,
                         ktap.FAIL)
        with self.assertRaisesRegex(host.UserError, "could not be compared"):
            self.run_with(1, "Traceback\nError: x", "a", "b")
