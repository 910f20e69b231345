# SPDX-License-Identifier: GPL-2.0
"""Kselftests of several kernels in guests."""

import threading
from unittest import mock

from engine import guest, host, kselftest, ktap, limits, reuse
from engine.share import Share
from tests.test_host import Folder


class Guests(Folder):
    """Two kernels, each with two tests."""

    def setUp(self):
        super().setUp()
        self.order, self.running, self.most = [], 0, 0
        self.lock = threading.Lock()
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

    def apart(self, mode, into, tests):
        return [Share(mode, f"{mode}-{test}", into, (test,)) for test in tests]

    def prepare(self, mode, chosen):
        return self.top, ["a", "b"] if mode == "lean" else ["c", "d"], []

    def boot(self, share, out):
        with self.lock:
            self.order.append(share.name)
            self.running += 1
            self.most = max(self.most, self.running)
        self.begun.wait(0.1)
        with self.lock:
            self.running -= 1
        return [ktap.Case(share.name, ktap.PASS)]

    def run_all(self):
        return kselftest._kselftest(["lean", "debug"], self.top)

    def test_all_run_as_memory_allows_the_longest_first(self):
        self.assertEqual(len(self.run_all()), 4)
        self.assertLessEqual(self.most, 3)
        self.order.clear()
        self.most = 0
        with mock.patch.object(limits, "memory", lambda: 4 << 30):
            self.assertEqual(len(self.run_all()), 4)
        self.assertEqual(self.most, 1)
        self.assertEqual(self.order[-5:-1],
                         ["debug-c", "debug-d", "lean-b", "lean-a"])

    def test_what_is_kept_runs_in_no_guest(self):
        with mock.patch.object(reuse, "sift", lambda todo: (
                [share for share in todo if share.mode == "lean"], [])):
            self.assertEqual([case.name for case in self.run_all()],
                             ["lean-b", "lean-a"])
