# SPDX-License-Identifier: GPL-2.0
"""Check that `make check` prints one total, however a step ends."""

import errno
import importlib
import types
from unittest import mock

from engine import check, host, ktap, ran
from engine.host import UserError
from engine.ktap import Case
from tests.test_host import Folder


class Steps(Folder):
    """Steps that end in all ways."""

    def steps(self, **ends):
        """Replace steps by stubs that return cases, or raise an exception."""
        def load(name):
            end = ends[name.removeprefix("engine.")]

            def main(_):
                if isinstance(end, BaseException):
                    raise end
                return end
            return types.SimpleNamespace(main=main)
        patch = mock.patch.object(check.importlib, "import_module", load)
        patch.start()
        self.addCleanup(patch.stop)

    def test_an_error_of_the_engine_loses_no_results(self):
        self.steps(selftest=[Case("a", ktap.PASS)], kselftest=KeyError("uq_io\nmore"),
                   series=[Case("b", ktap.PASS)], page=[Case("page", ktap.PASS)])
        names = ("selftest", "kselftest", "series")
        with mock.patch.object(check, "STEPS", names), \
                mock.patch.object(host, "need"):
            cases = check.main([])
        self.assertEqual([(case.name, case.status) for case in cases], [
            ("selftest: a", ktap.PASS), ("kselftest: kselftest", ktap.FAIL),
            ("series: b", ktap.PASS), ("page", ktap.PASS)])
        self.assertTrue((host.OUT / "check" / "junit.xml").exists())
        self.assertTrue((host.OUT / "check" / "summary.txt").exists())

    def test_it_is_one_sentence_and_the_traceback_is_in_a_file(self):
        self.steps(kselftest=ValueError("two\nlines"))
        case, = check.one("kselftest")
        self.assertEqual(len(case.detail.splitlines()), 1)
        self.assertNotIn("NOT RUN", case.detail)
        self.assertIn("kselftest.traceback", case.detail)
        text = (host.OUT / "check" / "kselftest.traceback").read_text("utf-8")
        self.assertIn("Traceback", text)
        self.assertIn("two\nlines", text)
        said = "".join(str(call) for call in host.say.call_args_list)
        self.assertNotIn("Traceback", said)

    def test_a_module_that_is_missing_in_a_step_is_one_too(self):
        self.steps(docs=ModuleNotFoundError("No module named 'x'", name="x"))
        case, = check.one("docs")
        self.assertIn("ModuleNotFoundError", case.detail)

    def test_what_could_not_run_says_so(self):
        self.steps(lint=UserError("no space"), docs=OSError(errno.ENOSPC, "x"),
                   kunit=[])
        for name, why in (("lint", "no space"), ("docs", "no space left"),
                          ("kunit", "nothing ran")):
            case, = check.one(name)
            self.assertEqual(case.status, ktap.FAIL)
            self.assertIn(f"NOT RUN: {why}", case.detail)

    def test_a_step_that_tests_kernels_says_what_its_results_are_of(self):
        self.steps(lint=[Case("a", ktap.PASS)], kunit=[Case("b", ktap.PASS)],
                   page=[])
        with mock.patch.object(ran.source, "fetched", return_value=True), \
                mock.patch.object(ran, "now", return_value={"linux": "7.3.4"}), \
                mock.patch.object(ran, "begun", return_value={"linux": "7.3.4"}):
            check.main(["lint", "kunit"])
        noted = ran.noted(host.OUT / "kunit" / ran.FILE)
        self.assertEqual(noted["linux"], "7.3.4")
        self.assertFalse((host.OUT / "lint" / ran.FILE).exists())

    def test_an_interrupt_ends_the_run(self):
        self.steps(lint=KeyboardInterrupt())
        with self.assertRaises(KeyboardInterrupt):
            check.one("lint")

    def test_every_step_is_a_module_with_a_main(self):
        for name in (*check.STEPS, "page"):
            module = importlib.import_module(f"engine.{name}")
            self.assertTrue(callable(module.main), name)
