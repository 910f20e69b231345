# SPDX-License-Identifier: GPL-2.0
"""What the engine and its guests call is in a package list, and looked for."""

import os
import re
import subprocess
import threading
import unittest
from pathlib import Path
from unittest import mock

from engine import host, kselftest, limits, lint, packages, ready, source
from engine.host import UserError
from tests import shell
from tests.test_host import Folder

TESTS = Path("tools/testing/selftests")
# What virtme-ng's init, which is a program, calls in each guest.
INIT = {"systemd-tmpfiles", "ip", "stty"}
# Called only where they are.
IF_THERE = {"udevadm"}
SYSTEM = re.compile(r'\bsystem\("([^"]*)"')


class Shell(unittest.TestCase):
    """The reader of scripts sees what is called, wherever it stands."""

    def test_command_places(self):
        text = ("# k is no call\nfor a in b; do\n\tc=$(d x)\n"
                '\t! e >/f || g "$(h "$(i j)")" | k2\n'
                "\tcase $l in\n\tm*) n ;;\n\t\"o\") p;;\n\tesac\ndone\n"
                "q() { r; }\nq\ncase $(s) in t) u;; esac\nexec v w\n")
        self.assertEqual(sorted(shell.programs(text)), [
            "d", "e", "g", "h", "i", "k2", "n", "p", "r", "s", "u", "v"])


class Lists(unittest.TestCase):
    """Every program that a guest's script calls is in a package list."""

    def called(self, folder, *patterns):
        """What the scripts there call, those that they source included."""
        texts = [path.read_text("utf-8") for pattern in patterns
                 for path in sorted((host.ROOT / folder).glob(pattern))]
        self.assertTrue(texts)
        return shell.programs(*texts) - IF_THERE

    def brought(self, command):
        """The programs of all packages that a command asks for."""
        with mock.patch.object(source, "fetched", return_value=True), \
                mock.patch.object(lint, "has_sparse", return_value=True):
            return packages.programs(ready.wanted([command]))

    def test_demo(self):
        wanted = self.called("overlay/guest", "demo.sh", "run.sh") | \
            self.called("overlay/bench", "*.sh") | INIT
        self.assertIn("fio", wanted)
        self.assertEqual(wanted - self.brought("demo"), set())

    def test_kselftest(self):
        wanted = self.called("overlay/guest", "[!d]*.sh", "disks.sh") | INIT
        for target in kselftest.targets():
            wanted |= self.called(TESTS / target, "*.sh") \
                if list((host.ROOT / TESTS / target).glob("*.sh")) else set()
        self.assertIn("nvme", wanted)
        self.assertEqual(wanted - self.brought("kselftest"), set())

    def test_programs_of_kselftests(self):
        wanted = set()
        for path in sorted((host.ROOT / TESTS).rglob("*.[ch]")):
            for text in SYSTEM.findall(path.read_text("utf-8")):
                wanted |= shell.programs(text)
        self.assertIn("rmmod", wanted)
        self.assertEqual(wanted - self.brought("kselftest"), set())

    def test_check_asks_for_all_that_its_steps_need(self):
        from engine import check
        self.assertEqual(set(ready.NEEDS) - {"demo"}, set(check.STEPS))
        for module in (module for modules in ready.NEEDS.values()
                       for module in modules):
            self.assertEqual(set(module.PACKAGES) - set(packages.PROOFS),
                             set(), module.__name__)


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

    def program(self, name, text="true"):
        """A program of that name, which does what TEXT says."""
        path = self.top / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}\n", "ascii")
        path.chmod(0o755)

    def test_a_program_that_is_there_needs_no_package(self):
        self.assertEqual(packages.missing(["fio"]), {"fio": ["fio"]})
        self.program("fio")
        self.assertEqual(packages.missing(["fio"]), {})

    def test_all_programs_of_a_package_count(self):
        self.program("mount")
        self.assertEqual(packages.missing(["mount"]),
                         {"mount": ["losetup", "umount"]})

    def test_headers(self):
        proofs = {"a": "<stdio.h> <linux/types.h>", "b": "<nosuch/linux.h>"}
        with mock.patch.object(packages, "PROOFS", proofs):
            self.assertEqual(packages.missing(["a", "b"]),
                             {"b": ["<nosuch/linux.h>"]})

    def test_headers_without_a_compiler(self):
        proofs = {"a": "<x/y.h>", "b": "<nosuch.h>"}
        (self.top / "x").mkdir()
        (self.top / "x" / "y.h").touch()
        with mock.patch.object(packages, "PROOFS", proofs), \
                mock.patch.object(packages, "INCLUDE", [self.top]), \
                mock.patch.object(packages.subprocess, "run",
                                  side_effect=FileNotFoundError):
            self.assertEqual(packages.missing(["a", "b"]),
                             {"b": ["<nosuch.h>"]})

    def test_modules(self):
        proofs = {"a": "python3:json venv:json perl:strict",
                  "b": "python3:no_such venv:no_such perl:No::Such"}
        with mock.patch.object(packages, "PROOFS", proofs):
            self.assertEqual(packages.missing(["a", "b"]),
                             {"b": proofs["b"].split()})

    def test_one_of_two_files(self):
        (self.top / "new").touch()
        proofs = {"a": f"{self.top}/old|{self.top}/new", "b": f"{self.top}/old"}
        with mock.patch.object(packages, "PROOFS", proofs):
            self.assertEqual(list(packages.missing(["a", "b"])), ["b"])

    def test_without_dpkg_everything_there_is_enough(self):
        self.program("dmsetup")
        with mock.patch.dict(os.environ, PATH=str(self.top / "bin")):
            host.need("dmsetup")

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

    def test_pip_and_the_kernel_come_at_a_time(self):
        both = threading.Barrier(2)
        with mock.patch.object(limits, "processors", return_value=2):
            _, tools, kernels = self.ready(
                "lint", kernel=lambda: both.wait(20), tool=lambda _: both.wait(20))
        self.assertEqual((tools.call_count, kernels.call_count), (1, 1))

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

    def test_check_goes_on_without(self):
        from engine import check
        with mock.patch.object(ready, "ready", side_effect=UserError("no net")), \
                mock.patch.object(check, "one", return_value=[]):
            cases = check.main(["docs"])
        self.assertEqual([case.detail for case in cases],
                         ["NOT RUN: no net"])

    def test_what_fio_says_is_shown(self):
        text = (host.ROOT / "overlay/guest/demo.sh").read_text("utf-8")
        part = text[text.index("--iodepth_batch_complete"):]
        part = part[part.index("\n") + 1:part.index("queue=")]
        (self.top / "fio").write_text("sh: fio: not found\n", "ascii")
        done = subprocess.run(
            ["sh", "-c", "result() { echo \"$*\"; }\n(exit 127)\n"
             + part.replace("/run/fio", str(self.top / "fio"))],
            capture_output=True, text=True, check=True)
        self.assertIn("# | sh: fio: not found\n", done.stdout)
        self.assertIn("127 fio", done.stdout)


if __name__ == "__main__":
    unittest.main()
