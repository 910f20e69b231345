# SPDX-License-Identifier: GPL-2.0
"""Kselftests of several kernels: their guests, and kernels that are to come."""

import threading
from unittest import mock

from engine import guest, host, kselftest, ktap, limits, reuse
from engine.host import UserError
from engine.share import Share
from tests.test_host import Folder

# Seconds that a test waits for what has to come.
PATIENCE = 20


class Coming(Folder):
    """Two kernels, of which the lean one is built while the other's guests run."""

    def setUp(self):
        super().setUp()
        self.order, self.running, self.most = [], 0, 0
        self.lock = threading.Lock()
        self.prepared = threading.Event()
        self.begun = threading.Event()
        for module, name, value in (
                (host, "need", mock.Mock()), (host, "pytool", mock.Mock()),
                (host, "say", self.order.append),
                (guest, "boot", mock.Mock(side_effect=AssertionError)),
                (limits, "processors", lambda: 2),
                (limits, "memory", lambda: 64 << 30),
                (reuse, "noted", lambda path: {
                    "lean": {"a": 1.0, "b": 2.0}, "debug": {"c": 9.0}}),
                (reuse, "sift", lambda todo: (todo, [])),
                (kselftest, "subset", lambda mode: None),
                (kselftest, "without_kernel", lambda mode, out: []),
                (kselftest, "given", lambda mode, tests: tests),
                (kselftest, "apart", self.apart),
                (kselftest, "others", lambda *_: []),
                (kselftest, "restarts", lambda *_: []),
                (kselftest, "never_ran", lambda every, cases: []),
                (kselftest, "prepare", self.prepare),
                (kselftest, "_boot", self.boot)):
            patch = mock.patch.object(module, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        self.addCleanup(host.STOPPING.clear)

    def apart(self, mode, into, tests):
        return [Share(mode, f"{mode}-{test}", into, (test,)) for test in tests]

    def prepare(self, mode, chosen):
        if mode == "lean":
            # Not before a guest of the other kernel runs.
            self.assertTrue(self.begun.wait(PATIENCE))
            self.prepared.set()
        return self.top, ["a", "b"] if mode == "lean" else ["c", "d"], []

    def boot(self, share, out):
        with self.lock:
            self.order.append(share.name)
            self.running += 1
            self.most = max(self.most, self.running)
        self.begun.set()
        # It goes on for as long as the other kernel is not there.
        there = self.prepared.wait(PATIENCE)
        with self.lock:
            self.running -= 1
        return [ktap.Case(share.name, ktap.PASS if there else ktap.FAIL)]

    def run_all(self):
        return kselftest._kselftest(["lean", "debug"], self.top)

    def test_a_kernel_is_built_while_guests_of_another_run(self):
        cases = self.run_all()
        self.assertEqual({(case.name, case.status) for case in cases}, {
            (name, ktap.PASS) for name in
            ("debug-c", "debug-d", "lean-a", "lean-b")})
        self.assertEqual(self.order[0],
                         "    debug is prepared: 2 runs of kselftests in 2 guests")
        self.assertIn("    lean is prepared: 2 runs of kselftests in 2 guests",
                      self.order)
        self.assertLessEqual(self.most, 3)

    def test_with_memory_for_one_guest_all_run(self):
        self.begun.set()
        self.prepared.set()
        with mock.patch.object(limits, "memory", lambda: 4 << 30):
            self.assertEqual(len(self.run_all()), 4)
        self.assertEqual(self.most, 1)
        # The longest begins first.
        self.assertEqual(self.order[-5:-1],
                         ["debug-c", "debug-d", "lean-b", "lean-a"])

    def test_what_does_not_build_is_named_while_guests_run(self):
        def guest_runs(share, out):
            self.begun.set()
            host.run(["sleep", "1000"], log=self.top / share.name, what="a guest")
            return []

        def prepare(mode, *rest):
            if mode == "lean":
                self.assertTrue(self.begun.wait(PATIENCE))
                raise UserError("it does not compile")
            return self.prepare(mode, *rest)
        for _ in range(5):
            self.begun.clear()
            with mock.patch.object(kselftest, "prepare", prepare), \
                    mock.patch.object(kselftest, "_boot", guest_runs), \
                    self.assertRaisesRegex(UserError, "does not compile"):
                self.run_all()
            self.assertFalse(host.STOPPING.is_set())

    def test_an_interrupt_ends_those_that_wait(self):
        def prepare(mode, *rest):
            if mode == "lean":
                raise KeyboardInterrupt
            return self.prepare(mode, *rest)
        self.prepared.set()
        with mock.patch.object(kselftest, "prepare", prepare), \
                self.assertRaises(KeyboardInterrupt):
            self.run_all()
        self.assertTrue(host.STOPPING.is_set())

    def test_where_all_of_one_is_known_the_other_is_prepared_at_once(self):
        self.begun.set()
        with mock.patch.object(reuse, "sift", lambda todo: (
                [share for share in todo if share.mode == "lean"], [])):
            cases = self.run_all()
        self.assertEqual(len(cases), 2)
