# SPDX-License-Identifier: GPL-2.0
"""QEMU's plugins of ours, but for what cachelines.c counts (test_lines.py)."""

import subprocess
import unittest
from pathlib import Path
from unittest import mock

from engine import host, plugins
from tests.test_host import Folder


class Compiled(Folder):
    def setUp(self):
        super().setUp()
        patch = mock.patch.object(host, "WORK", self.top)
        patch.start()
        self.addCleanup(patch.stop)

    def test_interface(self):
        self.assertEqual(plugins.interface((7, 2)), 1)
        self.assertEqual(plugins.interface((9, 0)), 2)
        self.assertEqual(plugins.interface((10, 1)), 3)

    def test_once_for_an_interface(self):
        one = plugins.compiled("barriers", (7, 2))
        before = one.stat()
        self.assertEqual(plugins.compiled("barriers", (8, 0)), one)
        self.assertEqual(one.stat(), before)
        self.assertNotEqual(plugins.compiled("barriers", (10, 0)), one)

    def test_an_edit_is_compiled(self):
        one = plugins.compiled("barriers", (7, 2))
        edited = self.top / "host"
        edited.mkdir()
        for name in ("barriers.c", "plugin.h"):
            (edited / name).write_text(
                (host.PROGRAMS / name).read_text("ascii") + "\n", "ascii")
        with mock.patch.object(host, "PROGRAMS", edited):
            self.assertNotEqual(plugins.compiled("barriers", (7, 2)), one)


class Barriers(Folder):
    """The plugin under a program that stands in for QEMU."""

    def called(self, *instructions, api=1):
        """Of each instruction, whether the plugin is called for it."""
        program = self.top / "drive"
        subprocess.run(
            ["gcc", "-O1", "-Wall", "-Wextra", "-Werror", f"-DPLUGIN_API={api}",
             f"-I{host.PROGRAMS}", "-include", host.PROGRAMS / "barriers.c",
             "-o", program, Path(__file__).with_name("plugin_drive.c")],
            check=True)
        done = subprocess.run(
            [program, "unused"], check=True, text=True, capture_output=True,
            input="".join(f"bytes {one}\n" for one in instructions))
        return [line == "called" for line in done.stdout.splitlines()]

    def test_barriers_of_linux(self):
        for api in (1, 3):
            self.assertEqual(self.called(
                "0f ae f0",             # mfence
                "f0 83 44 24 fc 00",    # lock addl $0,-4(%rsp)
                "87 07",                # xchg %eax,(%rdi)
                "48 87 07",             # xchg %rax,(%rdi)
                "66 87 07",             # xchg %ax,(%rdi)
                "86 07",                # xchg %al,(%rdi)
                api=api), [True] * 6)

    def test_others_are_left_alone(self):
        self.assertEqual(self.called(
            "0f ae e8",                 # lfence
            "0f ae f8",                 # sfence
            "f0 ff 07",                 # lock incl (%rdi)
            "87 c7",                    # xchg %eax,%edi
            "48 87 c7",                 # xchg %rax,%rdi
            "66 90", "90", "48", "66",
            "48 89 07",                 # mov %rax,(%rdi)
        ), [False] * 10)


if __name__ == "__main__":
    unittest.main()
