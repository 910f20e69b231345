# SPDX-License-Identifier: GPL-2.0
"""The guests of `make arm64`, without a boot."""

import tempfile
import unittest
from pathlib import Path
from unittest import mock

from engine import arm64, artifacts, guest, host, kernels, kselftest
from engine.host import UserError
from engine.share import Share


class Arm64(unittest.TestCase):
    """The command line, the root file system and the kernels."""

    def command(self, *qemu):
        machine = guest.Machine(append=(*guest.PMEM, "ours"), qemu=qemu)
        with mock.patch.object(arm64, "root", return_value=Path("/root")), \
                mock.patch.object(host, "need"):
            return arm64.command(Path("/build"), 3, machine, Path("/out/a.sh"),
                                 Path("/out/a.ktap"))

    def test_parameters_of_x86_are_left_out(self):
        words = self.command()
        self.assertIn(f"{guest.WHOLE_LOG[0]} ours", words)
        self.assertFalse([word for word in words if "memmap" in word])

    def test_each_word_is_an_option_of_qemu(self):
        self.assertEqual(self.command("-device nvme,serial=x", "-drive y")[-4:],
                         ["-device", "nvme,serial=x", "-drive", "y"])

    def test_boots_with_pmem_in_the_device_tree(self):
        with tempfile.TemporaryDirectory() as name:
            top = Path(name)
            for program, text in (
                    ("qemu-system-aarch64", 'echo "$@" >>"$0.log"\n'),
                    ("dtc", 'case $* in *-o*) cp "$8" "$7";; *) echo top;; esac\n')):
                path = top / program
                path.write_text(f"#!/bin/sh\n{text}")
                path.chmod(0o755)
            host.run(["sh", host.PROGRAMS / "arm64-boot.sh", "/build", "/root",
                      top / "a.ktap", "/a.sh", "/init.sh", "2", "ours", "-device", "x"],
                     cwd=top, env={"PATH": f"{top}:/usr/bin:/bin"}, log=top / "log")
            self.assertIn("pmem-region", (top / "a.dtb").read_text())
            dump, boot = (top / "qemu-system-aarch64.log").read_text().splitlines()
        self.assertIn(f"dumpdtb={top}/a.dtb", dump)
        self.assertIn("mem=2G oops=panic panic=-1 ours root=root", boot)
        self.assertIn(f"exec sh /mnt/init.sh {top}/a.ktap /a.sh /build", boot)
        self.assertIn("-device x -append", boot)

    def test_only_kernels_of_arm64_take_that_command(self):
        for mode in kernels.KERNELS:
            self.assertIs(kselftest.command(mode), arm64.command
                          if mode in kernels.ARM64 else guest.command)

    def test_devices_of_tests_are_named(self):
        for mode in kernels.ARM64:
            share = Share(mode, mode, Path("/into"), ("uq:uq_io",))
            self.assertEqual(share.variables()["DAX_TEST_DEV"], "/dev/pmem0")

    def test_artifacts_are_of_this_machine(self):
        self.assertFalse({*artifacts.chosen([artifacts.ALL])} & {*kernels.ARM64})
        with self.assertRaises(UserError):
            artifacts.chosen(["arm64"])


if __name__ == "__main__":
    unittest.main()
