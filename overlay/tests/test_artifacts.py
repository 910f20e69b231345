# SPDX-License-Identifier: GPL-2.0
"""What a CI takes: the same bytes at any time, with all that tests call."""

import unittest
from unittest import mock

from engine import artifacts, disks, host, kernels, packages
from engine.host import UserError
from tests import shell
from tests.test_host import Folder


class Artifacts(Folder):
    """The same bytes at any time."""

    def test_epoch(self):
        with mock.patch.dict(artifacts.os.environ,
                             {"SOURCE_DATE_EPOCH": "1000"}):
            self.assertEqual(artifacts.epoch(), 1000)
            self.assertIn("--mtime=@1000", artifacts._tar_options())
        with mock.patch.dict(artifacts.os.environ,
                             {"SOURCE_DATE_EPOCH": "now"}), \
                self.assertRaisesRegex(UserError, "no number"):
            artifacts.epoch()

    def test_the_root_file_system_has_what_tests_call(self):
        found = set(artifacts.rootfs_packages())
        for name in ("fio", "nvme-cli", "e2fsprogs", "xfsprogs", "dmsetup",
                     "kmod", "procps", "liburing2"):
            self.assertIn(name, found)
        self.assertFalse(found & {"gcc", "make", "qemu-system-x86"})

    def test_checksums(self):
        folder = artifacts.folder()
        (folder / "lean").mkdir(parents=True)
        (folder / "lean" / "bzImage").write_text("x", "ascii")
        (folder / "lean.log").write_text("at 12:00", "ascii")
        self.assertEqual(artifacts._sums(), ["lean/bzImage"])
        self.assertEqual(list(artifacts.digests()), ["lean/bzImage"])

    def test_the_guests_kernel_has_what_ours_have(self):
        for mode in kernels.having("checked"):
            self.assertTrue({"console=ttyS0", "memmap=512M!1G"}
                            <= set(artifacts.cmdline(mode)))
            self.assertTrue(set(disks.options()) <= set(artifacts.qemu(mode)))

    def test_another_system(self):
        with mock.patch.object(artifacts.Path, "read_text",
                               return_value="ID=fedora\n"), \
                self.assertRaisesRegex(UserError, "no Debian"):
            artifacts.suite()


class Init(unittest.TestCase):
    """What the ramdisk's first process calls is in it."""

    def test_programs(self):
        wanted = shell.programs(artifacts.INIT.read_text("utf-8"))
        self.assertIn("mount", wanted)
        essential = {"tar", "sh", "sleep", "sync", "mkdir", "ln"}
        self.assertEqual(
            wanted - essential
            - packages.programs(set(artifacts.rootfs_packages())
                                & set(packages.PROOFS)), set())

    def test_plain_qemu_uses_what_is_made(self):
        text = (host.ROOT / "overlay/ci/run-qemu").read_text("utf-8")
        for name in ("bzImage", "kselftest.tar.gz", "cmdline", "qemu",
                     "rootfs.cpio.gz", "blank.img.gz", "sha256sums"):
            self.assertIn(name, text)
