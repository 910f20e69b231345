# SPDX-License-Identifier: GPL-2.0
"""What the engine and its guests call is looked for and asked for."""

import os
import unittest
from unittest import mock

from engine import host, packages, ready, source
from engine.host import UserError
from tests.test_host import Folder


class Lists(unittest.TestCase):
    """What the steps need is known."""

    def test_check_asks_for_all_that_its_steps_need(self):
        from engine import check
        self.assertEqual(set(ready.NEEDS) - {"demo"}, set(check.STEPS))


class There(Folder):
    """Programs and headers themselves are looked for; dpkg is not."""

    def setUp(self):
        super().setUp()
        (self.top / "bin").mkdir()
        for name, value in (("PATH", str(self.top / "bin")),
                            ("_found", set())):
            patch = mock.patch.object(packages, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def test_a_program(self):
        self.assertEqual(packages.missing(["fio"]), {"fio": ["fio"]})
        host.write(self.top / "bin/fio", "")
        (self.top / "bin/fio").chmod(0o755)
        self.assertEqual(packages.missing(["fio"]), {})

    def test_headers(self):
        proofs = {"a": "<stdio.h> <linux/types.h>", "b": "<nosuch/linux.h>"}
        with mock.patch.object(packages, "PROOFS", proofs):
            self.assertEqual(packages.missing(["a", "b"]),
                             {"b": ["<nosuch/linux.h>"]})

    def test_modules(self):
        proofs = {"a": "python3:json perl:strict",
                  "b": "python3:no_such perl:No::Such"}
        with mock.patch.object(packages, "PROOFS", proofs):
            self.assertEqual(packages.missing(["a", "b"]),
                             {"b": proofs["b"].split()})

    def test_one_of_two_files(self):
        (self.top / "new").touch()
        proofs = {"a": f"{self.top}/old|{self.top}/new", "b": f"{self.top}/old"}
        with mock.patch.object(packages, "PROOFS", proofs):
            self.assertEqual(list(packages.missing(["a", "b"])), ["b"])

    def test_without_dpkg_what_is_missing_is_named(self):
        with mock.patch.dict(os.environ, PATH=str(self.top / "bin")):
            with self.assertRaisesRegex(UserError, "qemu-system-x86_64.*"
                                        "packages qemu-system-x86"):
                host.need("qemu-system-x86")


class Start(Folder):
    """All is asked for at once, before anything else."""

    def ready(self, *names, kernel=None, tool=None):
        """Ask for what commands need; the calls of what fetches and installs."""
        with mock.patch.object(host, "need") as need, \
                mock.patch.object(host, "pytool", side_effect=tool) as tools, \
                mock.patch.object(source, "fetched", return_value=False), \
                mock.patch.object(source, "kernel", side_effect=kernel) as kernels:
            ready.ready(*names)
        return need, tools, kernels

    def test_a_kernel_that_cannot_be_had_fails_the_steps_that_need_it(self):
        self.ready("lint", kernel=UserError("no mirror has it"))
        with self.assertRaisesRegex(UserError, "no network"):
            self.ready("lint", tool=UserError("no network"))

    def test_results_need_no_kernel(self):
        self.assertEqual(self.ready("results")[2].call_count, 0)

    def test_once(self):
        need, tool, _ = self.ready("lint", "kunit", "kselftest", "docs", "series")
        names = need.call_args.args
        for name in ("fio", "shellcheck", "qemu-system-x86", "nvme-cli",
                     "python3-sphinx", "iproute2"):
            self.assertIn(name, names)
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(need.call_count, 1)
        self.assertEqual(tool.call_count, 1)

    def test_demo_and_check_begin_with_it(self):
        from engine import check, demo
        for main, names in ((demo.main, ("demo",)),
                            (check.main, check.STEPS)):
            with mock.patch.object(ready, "ready",
                                   side_effect=KeyboardInterrupt) as first:
                with self.assertRaises(KeyboardInterrupt):
                    main([])
            first.assert_called_once_with(*names)


if __name__ == "__main__":
    unittest.main()
