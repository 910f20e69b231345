# SPDX-License-Identifier: GPL-2.0
"""Check that artifacts are reproducible, and contain the programs that tests call."""

import gzip
import re
import subprocess
from unittest import mock

from engine import artifacts, disks, host, kernels, kselftest, share
from engine.host import UserError
from tests.test_host import Folder


class Artifacts(Folder):
    """The same bytes at any time."""

    def test_the_root_file_system_has_what_tests_call(self):
        found = set(share.rootfs_packages())
        for name in ("fio", "nvme-cli", "e2fsprogs", "xfsprogs", "dmsetup",
                     "kmod", "procps", "liburing2"):
            self.assertIn(name, found)
        self.assertFalse(found & {"gcc", "make", "qemu-system-x86"})

    def test_all_kernels(self):
        self.assertEqual(artifacts.chosen(["all"]), [
            mode for mode, kernel in kernels.KERNELS.items()
            if not kernel.below and mode not in kernels.ARM64])
        self.assertEqual(artifacts.chosen([]), kernels.having("checked"))
        self.assertEqual(artifacts.chosen(["distro"]), ["distro"])
        with self.assertRaisesRegex(UserError, "no kernel called laen"):
            artifacts.chosen(["laen"])

    def suite(self):
        """This machine's Debian."""
        return "trixie"

    def make(self, linux="7.3.4", modes=("lean",), **files):
        """Write these files for each kernel; return the last message."""
        def kernel(mode):
            for name, text in files.items():
                host.write(artifacts.folder() / mode / name, text)
            return {}
        src = artifacts.source.Source(self.top, linux, False, None, "debian")
        with mock.patch.object(artifacts, "_kernel", kernel), \
                mock.patch.object(artifacts, "_rootfs", lambda _: {}), \
                mock.patch.object(artifacts, "suite", self.suite), \
                mock.patch.object(artifacts.disks, "MEGABYTES", 0), \
                mock.patch.object(artifacts.source, "kernel", return_value=src), \
                mock.patch.object(artifacts.host, "need"):
            artifacts.main([*modes])
        return host.say.call_args.args[0]

    def test_what_cannot_be_made_deletes_nothing(self):
        self.make(bzImage="x")
        with mock.patch.object(Artifacts, "suite",
                               side_effect=UserError("no Debian")), \
                self.assertRaisesRegex(UserError, "no Debian"):
            self.make(bzImage="y")
        self.assertEqual((artifacts.folder() / "lean/bzImage").read_text("utf-8"), "x")

    def test_the_guests_kernel_has_what_ours_have(self):
        for mode in kernels.having("checked"):
            self.assertTrue({"console=ttyS0", "memmap=512M!1G"}
                            <= set(artifacts.cmdline(mode)))
            self.assertTrue(set(disks.options()) <= set(artifacts.qemu(mode)))


class PlainQemu(Folder):
    """Check run-qemu with a stub of QEMU that prints a guest's output."""

    SCRIPT = host.ROOT / "overlay/ci/run-qemu"
    RAN = "[    1.000000] Linux\nok 1 selftests: x\n# kselftests ended with 0\n"

    def setUp(self):
        super().setUp()
        self.made = self.top / "made"
        for name in ("rootfs.cpio.gz", "blank.img.gz", "lean/kselftest.tar.gz",
                     "lean/modules.tar.gz"):
            host.write(self.made / name, gzip.compress(b"x"))
        for name in ("bzImage", "cmdline", "qemu"):
            host.write(self.made / "lean" / name, f"{name} file=blank.img\n")
        host.write(self.made / "debug" / "bzImage", "of another kernel")
        with mock.patch.object(artifacts, "folder", lambda: self.made):
            artifacts._sums()

    def run_it(self, log=RAN, kernel="lean", then="", by=(SCRIPT,), **env):
        """Return the result of a guest that prints this, and then does that."""
        host.write(self.top / "log", log)
        qemu = self.top / "tools" / "qemu-system-x86_64"
        host.write(qemu, f"#!/bin/sh\nprintf '%s\\n' \"$@\" >{self.top}/args\n"
                   f"cat {self.top}/log\n{then}\n")
        qemu.chmod(0o755)
        return subprocess.run(
            [*by, self.made, kernel, "-t", "uq:uq_io"],
            capture_output=True, text=True, check=False, cwd=self.SCRIPT.parent,
            env={"PATH": f"{qemu.parent}:/usr/bin:/bin", **env})

    def test_the_tests_exit_code_is_its_own(self):
        self.assertEqual(self.run_it().returncode, 0)
        self.assertEqual(self.run_it(self.RAN.replace("with 0", "with 1")).returncode,
                         1)

    def test_a_guest_that_panics_ends_with_255(self):
        self.assertIn("panic=-1", artifacts.cmdline("lean"))
        done = self.run_it("[    1.000000] Kernel panic - not syncing: x\n")
        self.assertEqual(done.returncode, 255)
        self.assertIn("-no-reboot", (self.top / "args").read_text("utf-8"))

    def test_a_complaint_of_the_kernel_is_a_failure(self):
        done = self.run_it(f"[    1.000000] WARNING: at fs/dax.c:1\n{self.RAN}")
        self.assertEqual(done.returncode, 254)
        self.assertIn("WARNING: at fs/dax.c:1", done.stderr)
        self.assertEqual(self.run_it(f"# WARNING: a program\n{self.RAN}").returncode,
                         0)

    def test_a_guest_that_hangs_is_ended(self):
        done = self.run_it("[    1.000000] Linux\n", then="exec sleep 60",
                           QEMU_TIMEOUT="0.2")
        self.assertEqual(done.returncode, 255)
        self.assertIn("did not end within QEMU_TIMEOUT=0.2", done.stderr)
        # Its tests were over: something after them hangs.
        done = self.run_it(then="exec sleep 60", QEMU_TIMEOUT="0.2")
        self.assertEqual(done.returncode, 255)
        done = self.run_it(QEMU_TIMEOUT="soon")
        self.assertEqual(done.returncode, 255)
        self.assertIn("soon", done.stderr)

    def test_no_room_for_its_files_is_not_the_tests_exit_code(self):
        done = self.run_it(TMPDIR="/nonexistent")
        self.assertEqual(done.returncode, 255)
        self.assertIn("/nonexistent", done.stderr)
        # Above the limit of a file's size, the ramdisk cannot be written.
        host.write(self.made / "rootfs.cpio.gz", gzip.compress(b"x" * (1 << 20)))
        with mock.patch.object(artifacts, "folder", lambda: self.made):
            artifacts._sums()
        done = self.run_it(by=("sh", "-c", 'ulimit -f 1; exec "$0" "$@"', self.SCRIPT))
        self.assertEqual(done.returncode, 255)

    def test_the_pages_example_runs_what_make_check_does(self):
        page = (self.SCRIPT.parent / "README.md").read_text("utf-8")
        command, = re.findall(r"\$\((sed .* overlay/kselftest\.debug)\)", page)
        done = subprocess.run(["sh", "-c", command], cwd=host.ROOT, text=True,
                              capture_output=True, check=True)
        self.assertEqual(done.stdout.split(), [
            word for test in kselftest.subset("debug") for word in ("-t", test)])

    def test_what_is_used_is_checked(self):
        host.write(self.made / "lean" / "modules.tar.gz", gzip.compress(b"y"))
        done = self.run_it()
        self.assertEqual(done.returncode, 255)
        self.assertIn("modules.tar.gz", done.stderr + done.stdout)
        done = self.run_it(kernel="debug")
        self.assertEqual(done.returncode, 255)
        self.assertIn("has no debug/cmdline", done.stderr)

    def test_the_guest_has_the_kernels_modules(self):
        self.run_it()
        words = (self.top / "args").read_text("utf-8").splitlines()
        disks = [word for word in words if "if=virtio" in word]
        self.assertIn("/kselftest.tar.gz", disks[0])
        self.assertIn("/modules.tar.gz", disks[1])
        cmdline = words[words.index("-append") + 1]
        self.assertIn("kselftest=vda kselftest_modules=vdb", cmdline)
        self.assertIn('kselftest_args="-t uq:uq_io"', cmdline)
        self.assertIn('tar -xz -C /usr <"/dev/$kselftest_modules"',
                      artifacts.INIT.read_text("utf-8"))
