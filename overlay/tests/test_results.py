# SPDX-License-Identifier: GPL-2.0
"""Results for KCIDB: a test's path is the same in the next report."""

import importlib.util
import io
import json
import os
import re
import sys
import types
import unittest
from contextlib import redirect_stdout
from unittest import mock

from engine import build, host, ktap, results
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
                (report.mails, "newest", lambda _: 1000.0)):
            patch = mock.patch.object(module, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        host.write(build.status("lean"), "built\n")
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

    def status(self, kernel):
        """A build's row now."""
        row, = [row for row in report.report(host.OUT)["builds"]
                if row["config_name"] == kernel]
        return row.get("status")

    def test_a_kernel_that_does_not_compile_has_a_row_that_fails(self):
        # What `make check` leaves then: one case, about no kernel.
        ktap.junit(host.OUT / "kselftest" / "junit.xml", "kselftest", [
            Case("kselftest", ktap.FAIL, "NOT RUN: building the lean kernel failed")])
        host.remove(host.OUT / "kunit")
        host.write(build.status("lean"), "failed\n")
        host.write(host.OUT / "build" / "lean.log", "dax.c:1: error: it is broken")
        rows = {row["config_name"]: row for row in report.report(host.OUT)["builds"]}
        self.assertEqual(rows["lean"]["status"], "FAIL")
        self.assertIn("it is broken", rows["lean"]["log_excerpt"])
        self.assertEqual(rows["debug"]["status"], "MISS")

    def test_what_is_no_build_does_not_pass_as_one(self):
        self.assertIsNone(self.status("none"))

    def test_a_build_that_was_interrupted_is_an_error(self):
        host.write(build.status("lean"), "began\n")
        self.assertEqual(self.status("lean"), "ERROR")
        host.write(build.status("lean"), "built\n")
        self.assertEqual(self.status("lean"), "PASS")

    def test_a_build_of_other_files_says_nothing_of_these(self):
        os.utime(build.status("lean"), (500, 500))
        self.assertEqual(self.status("lean"), "MISS")

    def test_user_mode_linux_that_does_not_compile_fails(self):
        ktap.junit(host.OUT / "kunit" / "junit.xml", "kunit", [
            Case("um: results", ktap.FAIL, "no test ran")])
        self.assertEqual(self.status("um"), "FAIL")
        host.write(host.OUT / "kunit" / "um.ktap", "")
        self.assertEqual(self.status("um"), "PASS")

    def test_results_of_other_files_are_left_out(self):
        ktap.junit(host.OUT / "soak" / "junit.xml", "soak",
                   [Case("debug: uq: uq_io: irq.of_old", ktap.PASS)])
        def paths():
            return [test["path"] for test in report.report(host.OUT)["tests"]]
        self.assertIn("soak.uq.uq_io.irq.of_old", paths())
        os.utime(host.OUT / "soak" / "junit.xml", (500, 500))
        self.assertNotIn("soak.uq.uq_io.irq.of_old", paths())
        self.assertIn("left out: soak", host.say.call_args.args[0])

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


class Build(Folder):
    """A build leaves how it ended, and an old kernel does not speak for it."""

    def build(self, error=None):
        """What a build leaves that ends so."""
        folder = self.top / "build" / "lean"
        host.write(folder / "System.map", "of an older kernel")
        host.write(build.status("lean"), "built\n")
        with mock.patch.object(build, "folder", lambda _: folder), \
                mock.patch.object(build, "prepare"), \
                mock.patch.object(build, "_built", set()), \
                mock.patch.object(build, "make", side_effect=error):
            if error:
                with self.assertRaises(error):
                    build.build("lean")
            else:
                build.build("lean")
        return build.status("lean").read_text("utf-8").strip()

    def test_a_build_says_how_it_ended(self):
        self.assertEqual(self.build(host.UserError), "failed")
        self.assertEqual(self.build(KeyboardInterrupt), "began")
        self.assertEqual(self.build(), "built")


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
        case, = self.run_with(2, "gone: 1\n  ! lean qemu x: PASS -> -\n", "a", "b")
        self.assertEqual((case.status, case.detail),
                         (ktap.FAIL, "lean qemu x: PASS -> -"))
        with self.assertRaisesRegex(host.UserError, "could not be compared"):
            self.run_with(1, "Traceback\nError: x", "a", "b")

    def compared(self, old):
        """What `results OLD` gives to the venv, and what is in these files."""
        seen = []

        def venv(module, *paths, what):
            seen.append((module, [host.Path(path).read_text("utf-8")
                                  for path in paths]))
            return host.Done([], 0, "")

        with mock.patch.object(results, "_venv", venv), \
                mock.patch.object(report, "report", return_value={
                    "builds": [], "tests": self.TESTS}):
            results.main([str(old)])
        return seen

    def test_the_last_runs_are_written_before_they_are_compared(self):
        host.write(results._path(), "of an earlier day")
        host.write(self.top / "old.json", "old")
        (_, (new,)), (module, (old, compared)) = self.compared(self.top / "old.json")
        self.assertEqual((module, old, compared), ("compare", "old", new))
        self.assertIn("kselftest.uq", new)

    def test_what_is_compared_with_may_lie_in_the_same_folder(self):
        for old in (results._path(), results._path().with_name("old.json")):
            host.write(old, "old")
            _, (_, (before, after)) = self.compared(old)
            self.assertEqual(before, "old")
            self.assertIn("kselftest.uq", after)

    def test_nothing_to_compare_with(self):
        with self.assertRaisesRegex(host.UserError, "not there"):
            self.compared(self.top / "nothing.json")


class Comparison(unittest.TestCase):
    """What passed before is missed, whatever kci-dev calls it."""

    ITEMS = (("regression", "PASS", "FAIL", True), ("unstable", "PASS", "MISS", True),
             ("missing", "PASS", None, True), ("unstable", "PASS", "SKIP", False),
             ("missing", "FAIL", None, False), ("missing", "MISS", None, False),
             ("fixed", "FAIL", "PASS", False), ("new", None, "PASS", False),
             ("persistent_fail", "FAIL", "FAIL", False))

    def compare(self, *items):
        """The exit code, and what is said, where kci-dev has found these."""
        found = [{"category": category, "base_status": old, "head_status": new,
                  "identity": {"config": "lean", "platform": "qemu",
                               "path": f"uq.{category}"}}
                 for category, old, new, _ in items]
        # It is in the venv alone.
        class Report:
            def compare(self, *_):
                return types.SimpleNamespace(items=found)
        stub = types.ModuleType("kcidev.libs.regression")
        stub.RegressionReport = Report()
        text = io.StringIO()
        with mock.patch.dict(sys.modules, {"kcidev.libs.regression": stub}):
            # By its file: the package has a function of that name.
            spec = importlib.util.spec_from_file_location(
                "compared", host.ROOT / "overlay/engine/results/compare.py")
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        with mock.patch.object(module, "_results"), redirect_stdout(text):
            code = module.compare("a", "b")
        self.assertEqual(module.LOST, results.LOST)
        return code, text.getvalue()

    def test_what_passed_and_did_not_run_or_is_gone_is_named(self):
        for item in self.ITEMS:
            code, text = self.compare(item)
            self.assertEqual(code, 2 if item[3] else 0, item)
            self.assertEqual(f"{results.LOST}lean qemu uq.{item[0]}: " in text,
                             item[3], item)
