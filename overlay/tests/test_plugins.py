# SPDX-License-Identifier: GPL-2.0
"""Check the plugins of QEMU, except cachelines.c (test_bench_cachelines.py)."""

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

    def test_an_edit_is_compiled(self):
        one = plugins.compiled("barriers", (7, 2))
        edited = self.top / "host"
        edited.mkdir()
        for name in ("barriers.c", "plugin.h"):
            (edited / name).write_text(
                (host.PROGRAMS / name).read_text("ascii") + "\n", "ascii")
        with mock.patch.object(host, "PROGRAMS", edited):
            self.assertNotEqual(plugins.compiled("barriers", (7, 2)), one)


class Driven(Folder):
    """A plugin under a program that stands in for QEMU."""

    def drive(self, plugin, argument, lines, api=1):
        """Return the output of the program for these lines."""
        program = self.top / "drive"
        subprocess.run(
            ["gcc", "-O1", "-Wall", "-Wextra", "-Werror", f"-DPLUGIN_API={api}",
             f"-I{host.PROGRAMS}", "-include", host.PROGRAMS / f"{plugin}.c",
             "-o", program, Path(__file__).with_name("plugin_drive.c")],
            check=True)
        return subprocess.run(
            [program, argument], check=True, text=True, capture_output=True,
            input="".join(f"{line}\n" for line in lines)).stdout


class Profile(Driven):
    """Check the blocks between two marks, and the kind of their last instruction."""

    def written(self, *lines, api=1):
        """The plugin's output."""
        out = self.top / "raw"
        self.drive("insnprof", f"out={out}", lines, api)
        return out.read_text("ascii").splitlines()

    def kinds(self, *instructions, api=1):
        """Return the plugin's kind of each of these instructions."""
        lines = self.written("mark 0 1", *(f"at 100 {one}" for one in instructions),
                             "mark 0 2", api=api)
        found = [line.split()[2] for line in lines if line.startswith("block")]
        # the newest is first, and is the mark
        return found[:0:-1]

    def test_calls_and_returns(self):
        for api in (1, 3):
            self.assertEqual(self.kinds(
                "e8 00 00 00 00",       # call
                "2e e8 00 00 00 00",    # cs call
                "ff d0",                # call *%rax
                "41 ff 54 24 08",       # call *8(%r12)
                "3e ff d0",             # notrack call *%rax
                "c3", "f3 c3", "c2 08 00",
                "48 cf",                # iretq
                api=api), ["call"] * 5 + ["ret"] * 3 + ["iret"])

    def test_no_calls(self):
        self.assertEqual(self.kinds(
            "ff e0",                    # jmp *%rax
            "ff 00",                    # incl (%rax)
            "ff 30",                    # push (%rax)
            "e9 00 00 00 00", "74 00", "90", "48", "ff",
            "0f 05",                    # syscall
            "48 0f 07",                 # sysretq
            "0f e8 c0",                 # psubsb %mm0,%mm0
        ), ["-"] * 11)

    def test_what_has_run_in_its_order(self):
        lines = self.written("at 50 90", "mark 0 1", "at 100 e8 00 00 00 00",
                             "at 200 90", "again 2", "at 300 c3", "mark 0 2",
                             "at 400 90")
        self.assertEqual(lines, [
            "round", "block 1 - 400007 400000", "block 2 ret 301 300",
            "block 3 - 201 200", "block 4 call 105 100", "sums 1 2 3*3 4",
            "ran 4 3*3 2 1"])


class Barriers(Driven):

    def called(self, *instructions, api=1):
        """Of each instruction, whether the plugin is called for it."""
        printed = self.drive("barriers", "unused",
                             (f"bytes {one}" for one in instructions), api)
        return [line == "called" for line in printed.splitlines()]

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
