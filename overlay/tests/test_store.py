# SPDX-License-Identifier: GPL-2.0
"""What is kept and what is not: only the same question gets an old answer."""

import dataclasses
import os
import shutil
import subprocess
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock
from xml.etree import ElementTree

from engine import (
    build,
    check,
    checkpatch,
    guest,
    host,
    kernels,
    kselftest,
    ktap,
    kunit,
    lay,
    limits,
    lint,
    objects,
    reuse,
    series,
    source,
    store,
)
from engine.entries import Entry
from engine.kselftest import Share
from engine.ktap import Case
from engine.lay import Item
from tests.test_host import Folder

PASSED = Case("a", ktap.PASS)
SKIPPED = Case("b", ktap.SKIP, "no device")
USUAL = reuse.USUAL
FAILED = Case("c", ktap.FAIL, "it broke")


class Kept(Folder):
    """A work folder of the test's own."""

    def setUp(self):
        super().setUp()
        self.replace(host, "WORK", self.top / "work")
        self.replace(host, "say", mock.Mock())
        store.count()

    def replace(self, where, name, value):
        patch = mock.patch.object(where, name, value)
        patch.start()
        self.addCleanup(patch.stop)


class Store(Kept):

    def test_what_passed_is_kept(self):
        self.assertTrue(store.keep("x", "key", [PASSED, SKIPPED]))
        kept = store.take("x", "key")
        self.assertEqual(kept.cases, (PASSED, SKIPPED))
        self.assertEqual(store.count(), 2)

    def test_a_failure_is_never_kept(self):
        self.assertFalse(store.keep("x", "key", [PASSED, FAILED]))
        self.assertIsNone(store.take("x", "key"))

    def test_another_key_is_another_question(self):
        store.keep("x", "key", [PASSED])
        self.assertIsNone(store.take("x", "other"))
        self.assertIsNone(store.take("y", "key"))
        self.assertIsNone(store.take("x", None))
        self.assertFalse(store.keep("x", None, [PASSED]))

    def test_a_broken_file_is_no_result(self):
        for text in ("", "{}", "[]", '{"when": 1, "cases": [1], "more": 0}'):
            host.write(store.folder() / "x" / "key.json", text)
            self.assertIsNone(store.take("x", "key"), text)

    def test_clean_forgets(self):
        store.keep("x", "key", [PASSED])
        notes = [host.WORK / "build/docs.output", host.WORK / "build/docs.base/x",
                 host.WORK / "kdir/0123/build/docs.output"]
        for note in notes:
            host.write(note, "key")
        with mock.patch.dict(os.environ, {"CLEAN": ""}):
            store.forget_if_asked()
        self.assertIsNotNone(store.take("x", "key"))
        with mock.patch.dict(os.environ, {"CLEAN": "1"}):
            store.forget_if_asked()
        self.assertIsNone(store.take("x", "key"))
        self.assertEqual([note for note in notes if note.exists()], [])

    def test_what_was_not_used_for_long_goes_first(self):
        with mock.patch.object(store, "LIMIT", 3):
            for number in range(3):
                store.keep("x", f"{number}", [PASSED])
                os.utime(store.folder() / "x" / f"{number}.json",
                         (number, number))
            self.assertIsNotNone(store.take("x", "0"))
            store.keep("x", "new", [PASSED])
        self.assertIsNotNone(store.take("x", "0"))
        self.assertIsNone(store.take("x", "1"))

    def test_it_does_not_pass_silently(self):
        marked = store.mark([PASSED, SKIPPED], "then")
        self.assertEqual(marked[1].detail.splitlines()[0], "no device")
        path = self.top / "junit.xml"
        ktap.junit(path, "suite", marked)
        output = ElementTree.parse(path).find("testcase/system-out").text
        self.assertEqual(output, "taken from the store: it ran at then")

    def test_content_counts_and_not_time(self):
        file = self.top / "file"
        file.write_text("one", "ascii")
        one = store.of_file(file)
        os.utime(file, (1, 1))
        self.assertEqual(store.of_file(file), one)
        file.write_text("two", "ascii")
        self.assertNotEqual(store.of_file(file), one)
        self.assertIsNone(store.of_file(self.top / "missing"))


class Guests(Kept):
    """A kernel and installed tests that are only names."""

    TESTS = ("uq:uq_io", "uq:uq_mmap", "uq:uq_clients.sh")

    def setUp(self):
        super().setUp()
        self.build = self.top / "build"
        self.into = self.top / "installed"
        self.replace(build, "folder", lambda mode: self.build)
        self.replace(reuse, "qemu", lambda: "QEMU 7.2")
        self.replace(reuse, "_installed", lambda: {"fio": ("1", [], False)})
        self.replace(reuse, "_program", lambda name: name)
        self.addCleanup(reuse._machine.cache_clear)
        host.write(self.build / "arch/x86/boot/bzImage", "image")
        host.write(self.build / "modules.order", "drivers/block/brd.o\n")
        host.write(self.build / "drivers/block/brd.ko", "module")
        host.write(self.into / "run_kselftest.sh", "run")
        host.write(self.into / "uq/lib.sh", "shared by scripts")
        for name in ("uq_io", "uq_mmap", "uq_clients.sh", "helper", "claim"):
            self.program(name, f"does {name}")
        self.program("uq_io", "starts ./helper there")
        self.program("helper", "and that starts claim")
        self.share = Share("lean", "lean-1", self.into, self.TESTS)
        self.cases = [Case(f"lean: uq: {test.partition(':')[2]}: works",
                           ktap.PASS) for test in self.TESTS]
        self.cases.append(Case("lean-1: no splat in the boot log", ktap.PASS))

    def program(self, name, text):
        path = self.into / "uq" / name
        host.write(path, text)
        path.chmod(0o755)

    def keep(self, cases=None, share=None):
        share = share or self.share
        reuse.keep(share, reuse.keys(share), cases or self.cases)

    def left(self, share=None):
        """The tests that would run."""
        reuse._machine.cache_clear()
        reuse._linked.cache_clear()
        left, _ = reuse.sift([share or self.share])
        return [test for one in left for test in one.tests]

    def test_nothing_is_known_at_first(self):
        self.assertEqual(self.left(), list(self.TESTS))

    def test_nothing_changed(self):
        self.keep()
        left, cases = reuse.sift([self.share])
        self.assertEqual(left, [])
        self.assertEqual([case.name for case in cases],
                         [case.name for case in self.cases[:3]])
        self.assertIn("taken from the store", cases[0].detail)
        self.assertIn("3 passed, 0 failed, taken from the store",
                      host.say.call_args.args[0])

    def test_an_edited_test_runs_and_no_other(self):
        self.keep()
        self.program("uq_mmap", "does more")
        self.assertEqual(self.left(), ["uq:uq_mmap"])

    def test_what_all_share_runs_all(self):
        self.keep()
        host.write(self.into / "uq/lib.sh", "edited")
        self.assertEqual(self.left(), list(self.TESTS))

    def test_a_program_runs_those_that_name_it(self):
        self.keep()
        self.program("claim", "edited")
        self.assertEqual(self.left(), ["uq:uq_io"])

    def test_a_readme_names_all_and_runs_none(self):
        for text in ("uq_io, uq_mmap and uq_clients.sh", "uq_io and helper"):
            host.write(self.into / "uq/README", text)
            self.keep()
            self.program("uq_mmap", f"edited beside a README of {text}")
            host.write(self.into / "uq/README", f"{text}, edited")
            self.assertEqual(self.left(), ["uq:uq_mmap"])

    def test_a_program_names_others_in_its_data_alone(self):
        source_file = self.top / "a.c"
        host.write(source_file, """
            int uq_mmap(void); int uq_mmap(void) { return 7; }
            const char *const start = "./helper";
            int main(void) { return !start + !uq_mmap(); }""")
        subprocess.run(["gcc", "-g", "-o", self.into / "uq/uq_io", source_file],
                       check=True)
        self.assertEqual({"uq/uq_io", "uq/helper", "uq/claim"}, {
            name for name in reuse.files(self.into, "uq:uq_io")
            if name.startswith("uq/") and name != "uq/lib.sh"})

    def test_a_kernel_or_a_module_runs_all(self):
        for name in ("arch/x86/boot/bzImage", "drivers/block/brd.ko"):
            self.keep()
            self.assertEqual(self.left(), [])
            host.write(self.build / name, "edited")
            self.assertEqual(self.left(), list(self.TESTS), name)

    def test_another_qemu_runs_all(self):
        self.keep()
        self.replace(reuse, "qemu", lambda: "QEMU 10.0")
        self.assertEqual(self.left(), list(self.TESTS))

    def test_another_qemu_of_the_same_version_runs_all(self):
        own = self.top / "bin/qemu-system-x86_64"
        self.replace(reuse, "_firmware", dict)
        host.write(own, "built here")
        own.chmod(0o755)
        with mock.patch.dict(os.environ, {
                "PATH": f"{own.parent}:{os.environ['PATH']}"}):
            self.keep()
            self.assertEqual(self.left(), [])
            host.write(own, "built again")
            own.chmod(0o755)
            self.assertEqual(self.left(), list(self.TESTS))
        self.assertEqual(self.left(), list(self.TESTS))

    def test_other_firmware_runs_all(self):
        host.write(self.top / "firmware/bios-256k.bin", "one")
        self.replace(host, "output", lambda cmd: f"{self.top}/firmware\n")
        self.keep()
        self.assertEqual(self.left(), [])
        host.write(self.top / "firmware/bios-256k.bin", "two")
        self.assertEqual(self.left(), list(self.TESTS))

    def test_a_library_that_was_built_here_runs_all(self):
        library, program = self.top / "libx.so", self.top / "x.c"
        for number in (1, 2):
            host.write(program, f"int x(void); int x(void) {{ return {number}; }}")
            subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, program],
                           check=True)
            host.write(program, "int x(void); int main(void) { return x(); }")
            subprocess.run(["gcc", "-o", self.into / "uq/uq_mmap", program, library],
                           check=True)
            self.assertEqual(self.left(), list(self.TESTS))
            self.keep()
            self.assertEqual(self.left(), [])

    def test_another_virtme_ng_runs_all(self):
        self.keep()
        self.replace(reuse, "_tools", lambda pins: ["virtme-ng==2"])
        self.assertEqual(self.left(), list(self.TESTS))

    def test_another_machine_runs_all_under_kvm_alone(self):
        for kvm, left in ((False, []), (True, list(self.TESTS))):
            self.replace(guest, "accelerated", lambda kvm=kvm: kvm)
            self.replace(reuse, "_processor", lambda: ["one"])
            reuse._machine.cache_clear()
            self.keep()
            self.replace(reuse, "_processor", lambda: ["another"])
            self.assertEqual(self.left(), left)

    def test_another_version_of_a_client_runs_all(self):
        self.keep()
        self.replace(reuse, "_installed", lambda: {"fio": ("2", [], False)})
        self.assertEqual(self.left(), list(self.TESTS))

    def test_other_hardware_and_variables_are_other_questions(self):
        self.keep()
        self.assertEqual(self.left(dataclasses.replace(
            self.share, append=("pci=nomsi",))), list(self.TESTS))
        more = dataclasses.replace(kernels.KERNELS["lean"],
                                   qemu=("-device more",))
        with mock.patch.dict(kernels.KERNELS, {"lean": more}):
            self.assertEqual(self.left(), list(self.TESTS))
        with mock.patch.dict(os.environ, {"UQ_TEST_SEED": "7"}):
            self.assertEqual(self.left(), list(self.TESTS))

    def test_scripts_of_the_guest_run_all(self):
        scripts = self.top / "guest"
        for name in reuse.SCRIPTS:
            host.write(scripts / name, name)
        self.replace(guest, "SCRIPTS", scripts)
        self.keep()
        self.assertEqual(self.left(), [])
        host.write(scripts / "disks.sh", "edited")
        self.assertEqual(self.left(), list(self.TESTS))

    def test_an_edited_page_runs_none(self):
        self.keep()
        host.write(self.build / "Documentation/nvme/page.rst", "edited")
        host.write(self.into / "filesystems/dax/read_vfs", "another folder's")
        self.assertEqual(self.left(), [])

    def test_a_guest_that_failed_leaves_nothing(self):
        for bad in (Case("lean: uq: uq_io: more", ktap.FAIL),
                    Case("lean-1: no splat in the boot log", ktap.FAIL)):
            self.keep([*self.cases, bad])
            self.assertEqual(self.left(), list(self.TESTS))

    def test_a_test_without_a_result_leaves_nothing(self):
        self.keep(self.cases[1:])
        self.assertEqual(self.left(), list(self.TESTS))

    def test_an_edit_while_it_ran_is_not_what_ran(self):
        keys = reuse.keys(self.share)
        self.program("uq_io", "edited meanwhile")
        reuse.keep(self.share, keys, self.cases)
        self.assertEqual(self.left(), ["uq:uq_io"])
        self.program("uq_io", "starts ./helper there")
        self.assertEqual(self.left(), ["uq:uq_io"])

    def test_another_qemu_while_it_ran_is_not_what_ran(self):
        self.replace(reuse, "qemu", lambda: "QEMU 7.2")
        keys = reuse.keys(self.share)
        self.replace(reuse, "qemu", lambda: "QEMU 10.0")
        reuse.keep(self.share, keys, self.cases)
        self.replace(reuse, "qemu", lambda: "QEMU 7.2")
        self.assertEqual(self.left(), list(self.TESTS))

    def test_a_guest_that_restarts_is_one_test(self):
        self.program("uq_kexec", "goes down")
        share = Share("lean", "lean-restart", self.into, ("restart",),
                      restart=True)
        self.keep([Case("lean: another kernel", ktap.PASS)], share)
        self.assertEqual(self.left(share), [])
        self.program("uq_kexec", "edited")
        self.assertEqual(self.left(share), ["restart"])
        self.keep()
        self.assertEqual(self.left(), [])

    def test_long_runs_are_never_taken_from_here(self):
        for share in (dataclasses.replace(self.share, scale=4),
                      dataclasses.replace(self.share, mode="coverage")):
            self.keep(share=share)
            self.assertEqual(self.left(share), list(self.TESTS))

    def test_another_clone_finds_the_same(self):
        what, real = [], store.digest
        reuse._machine.cache_clear()
        self.replace(store, "digest",
                     lambda data: what.append(repr(data)) or real(data))
        self.assertIsNotNone(reuse.key(self.share, self.TESTS[0]))
        self.assertNotIn(str(host.ROOT), "".join(what))


class WithoutNvme(Guests):
    """A guest that has no NVMe controller."""

    OURS = ("drivers/nvme/host/uq/pci-io.c", "drivers/nvme/host/Kconfig",
            "fs/dax.c", "include/linux/dax.h", "Documentation/page.rst",
            "tools/testing/selftests/uq/uq_io.c")

    def setUp(self):
        super().setUp()
        self.kernel = SimpleNamespace(version="7.3.4", origin="debian")
        self.replace(source, "kernel", lambda: self.kernel)
        self.replace(build, "tree", lambda: self.top / "tree")
        self.replace(reuse, "versions", lambda names: "gcc 12")
        self.replace(lay, "items", lambda: [
            Item(name, name, "file") for name in self.OURS])
        for name in self.OURS:
            host.write(self.top / "tree" / name, "text")
        host.write(self.build / ".config", "CONFIG_A=y\n")
        self.share = dataclasses.replace(self.share, nvme=False)

    def edit(self, target):
        """An edit, and the kernel that it makes another one."""
        host.write(self.top / "tree" / target, f"{target} edited")
        host.write(self.build / "arch/x86/boot/bzImage", f"{target} in it")

    def test_an_edit_of_nvmes_driver_runs_none_of_its_tests(self):
        self.keep()
        for name in self.OURS[:2]:
            self.edit(name)
            self.assertEqual(self.left(), [], name)
        with_nvme = dataclasses.replace(self.share, nvme=True)
        self.assertEqual(self.left(with_nvme), list(self.TESTS))

    def test_an_edit_of_what_else_is_in_the_kernel_runs_all(self):
        for name in self.OURS[2:4]:
            self.keep()
            self.edit(name)
            self.assertEqual(self.left(), list(self.TESTS), name)
        self.keep()
        host.write(self.build / ".config", "CONFIG_B=y\n")
        self.assertEqual(self.left(), list(self.TESTS))

    def test_a_kernel_or_a_module_runs_all(self):
        """Over a KDIR, of which nothing is known but what was built."""
        self.kernel.origin = "kdir"
        super().test_a_kernel_or_a_module_runs_all()

    def test_the_tests_are_dealt_out_to_guests_with_and_without(self):
        tests = ["uq:uq_io", "uq:uq_mmap", "filesystems/dax:read_vfs"]
        shares = list(kselftest.apart("debug", self.into, tests))
        self.assertEqual(sorted(test for share in shares
                                for test in share.tests), sorted(tests))
        for share in shares:
            self.assertEqual({test.startswith("uq:")
                              for test in share.tests}, {share.nvme})
        self.assertEqual(len({share.name for share in shares}), len(shares))


class Built(Kept):
    """Kselftests that are installed are built again when they may differ."""

    def setUp(self):
        super().setUp()
        self.kernel = SimpleNamespace(version="7.3.4", origin="debian")
        self.replace(source, "kernel", lambda: self.kernel)
        self.replace(build, "folder", lambda mode: self.top / "build" / mode)
        self.replace(build, "tree", lambda: self.top / "tree")
        self.replace(reuse, "versions", lambda names: "gcc 12")
        self.replace(host, "need", mock.Mock())
        self.replace(kselftest, "targets", lambda: ["uq"])
        self.replace(build, "make", self.make)
        items = [Item(name, name, "file") for name in (
            "tools/testing/selftests/uq/uq_io.c", "Documentation/page.rst")]
        self.replace(reuse.lay, "items", lambda: items)
        self.made, self.broken = 0, False
        for item in items:
            self.edit(item.target)

    def edit(self, target, text="text"):
        host.write(self.top / "tree" / target, text)

    def make(self, mode, *args, **how):
        folder = build.folder(mode)
        program = folder / "kselftest/uq/uq_io"
        if not program.exists() or self.broken:
            host.write(program, f"built for {mode}")
        self.made += 1
        if self.broken:
            raise host.UserError("it does not compile")
        host.write(folder / "kselftest-installed/kselftest-list.txt", "uq:uq_io\n")

    def builds(self, mode="lean"):
        before = self.made
        _, tests = kselftest.install(mode)
        self.assertEqual(tests, ["uq:uq_io"])
        return self.made - before

    def test_once_for_the_same_files(self):
        self.assertEqual(self.builds(), 1)
        self.assertEqual(self.builds(), 0)
        self.edit("Documentation/page.rst", "edited")
        self.assertEqual(self.builds(), 0)
        self.edit("tools/testing/selftests/uq/uq_io.c", "edited")
        self.assertEqual(self.builds(), 1)
        host.write(self.top / "build/lean/Module.symvers", "more")
        self.assertEqual(self.builds(), 1)
        host.remove(self.top / "build/lean/kselftest-installed")
        self.assertEqual(self.builds(), 1)

    def program(self, mode):
        return (build.folder(mode) / "kselftest/uq/uq_io").read_text("ascii")

    def test_programs_are_built_once_for_two_kernels(self):
        self.builds("debug")
        self.builds("lean")
        self.assertEqual(self.program("lean"), "built for debug")

    def test_programs_of_other_text_are_not_taken(self):
        self.builds("debug")
        self.edit("tools/testing/selftests/uq/uq_io.c", "edited")
        self.builds("lean")
        self.assertEqual(self.program("lean"), "built for lean")

    def test_programs_of_a_build_that_failed_are_not_taken(self):
        self.builds("debug")
        host.remove(build.folder("debug") / "kselftest-installed")
        self.broken = True
        with self.assertRaisesRegex(host.UserError, "does not compile"):
            self.builds("debug")
        self.broken = False
        self.builds("lean")
        self.assertEqual(self.program("lean"), "built for lean")

    def test_a_liburing_that_was_built_here_builds_them_again(self):
        header = self.top / "include/liburing.h"
        host.write(header, "/* one */")
        with mock.patch.dict(os.environ, {"CPATH": str(header.parent)}):
            self.assertEqual(self.builds(), 1)
            self.assertEqual(self.builds(), 0)
            host.write(header, "/* another */")
            self.assertEqual(self.builds(), 1)

    def test_always_over_a_kdir(self):
        self.kernel.origin = "kdir"
        self.assertEqual(self.builds() + self.builds(), 2)

    def header(self, name, here="text", there="text", later=0):
        """One that is installed, and its source in both trees."""
        installed = build.folder("debug") / build.HEADERS / "linux"
        host.write(installed / name, name)
        host.write(installed / f".{name}.cmd",
                   f"sh {build.tree()}/install.sh {build.tree()}/{name}\n")
        for number, (tree, text) in enumerate(((build.tree(), here),
                                               (self.top / "parts/tree", there))):
            path = tree / "include/uapi/linux" / name
            host.write(path, text)
            os.utime(path, ns=(0, 10**18 + number * later))

    def taken(self):
        into = self.top / "parts/objects"
        build.take_headers(into, self.top / "parts/tree")
        return into / build.HEADERS / "linux"

    def test_headers_of_the_same_source_are_taken(self):
        self.header("fs.h")
        self.header("nvme_uq.h", there="text of an earlier commit")
        self.header("stat.h", later=1)
        host.write(build.folder("debug") / build.HEADERS / "linux/version.h", "made")
        here = self.taken()
        self.assertEqual(sorted(path.name for path in here.iterdir()),
                         [".fs.h.cmd", "fs.h"])
        # make looks at a header's time, and at the command that made it.
        self.assertEqual(
            (here / "fs.h").stat().st_mtime_ns, (build.folder("debug") /
             build.HEADERS / "linux/fs.h").stat().st_mtime_ns)
        tree = self.top / "parts/tree"
        self.assertEqual((here / ".fs.h.cmd").read_text("ascii"),
                         f"sh {tree}/install.sh {tree}/fs.h\n")

    def test_headers_are_taken_whole_or_not_at_all(self):
        self.header("fs.h")
        with mock.patch.object(build.shutil, "copy2", side_effect=KeyboardInterrupt):
            self.assertRaises(KeyboardInterrupt, self.taken)
        self.assertFalse((self.top / "parts/objects" / build.HEADERS).exists())
        self.assertEqual((self.taken() / "fs.h").read_text("ascii"), "fs.h")

    def test_a_kernels_programs_take_headers(self):
        with mock.patch.object(build, "take_headers") as take:
            self.builds("lean")
        take.assert_called_once_with(build.folder("lean"), build.tree())

    def test_a_series_takes_headers(self):
        shop = objects.Shop(None, self.top / "log")
        with mock.patch.object(build, "take_headers") as take, \
                mock.patch.object(shop, "make"):
            shop.headers()
        take.assert_called_once_with(shop.build, shop.tree)

    def test_headers_that_are_there_stay(self):
        host.write(build.folder("debug") / build.HEADERS / "fs.h", "theirs")
        host.write(build.folder("lean") / build.HEADERS / "fs.h", "own")
        build.take_headers(build.folder("lean"), build.tree())
        self.assertEqual((build.folder("lean") / build.HEADERS / "fs.h")
                         .read_text("ascii"), "own")


class Machine(unittest.TestCase):

    DPKG = ("fio\t3.33\tno\t, libaio1 (>= 0.3) | other, libc6\t\n"
            "libaio1t64\t0.3\tno\t, libc6\tlibaio1 (= 0.3)\n"
            "libc6\t2.36\tno\t, \t\n"
            "dash\t0.5\t" "yes\tlibc6 (>= 2), \t\n"
            "sphinx\t5\tno\t, libc6\t\n")

    def test_packages_and_what_they_stand_on(self):
        done = SimpleNamespace(stdout=self.DPKG)
        with mock.patch.object(reuse.subprocess, "run", return_value=done):
            installed = reuse._installed_at.__wrapped__(0)
        self.assertEqual(reuse.closure(["fio", "missing"], installed), {
            "fio": "3.33", "libaio1t64": "0.3", "libc6": "2.36",
            "dash": "0.5"})

    def test_another_place_for_headers_is_another_compiler(self):
        with mock.patch.dict(os.environ, {"CPATH": "/one"}):
            reuse._versions.cache_clear()
            before = reuse.versions(("gcc",))
        reuse._versions.cache_clear()
        self.addCleanup(reuse._versions.cache_clear)
        self.assertNotEqual(reuse.versions(("gcc",)), before)

    def test_without_dpkg(self):
        with mock.patch.object(reuse.subprocess, "run",
                               side_effect=FileNotFoundError):
            self.assertEqual(reuse._installed_at.__wrapped__(0), {})
        path = reuse._program("sh")
        self.assertTrue(path and all(reuse.libraries([path]).values()))
        self.assertIsNone(reuse._program("no-such-program"))


class Loader(Kept):

    def test_the_loader_is_asked_again_when_a_program_changes(self):
        path = self.top / "program"
        shutil.copy(reuse._program("sh"), path)
        before = reuse.libraries([path])
        with mock.patch.object(reuse.subprocess, "run") as ldd:
            self.assertEqual(reuse.libraries([path]), before)
            ldd.assert_not_called()
        path.write_text("#!/bin/sh\n", "utf-8")
        self.assertEqual(reuse.libraries([path]), {})

    def test_the_loader_is_asked_again_when_it_finds_others(self):
        listed = self.top / "ld.so.cache"
        self.replace(reuse, "LOADER", (str(listed),))
        path = reuse._program("sh")
        reuse.libraries([path])
        listed.touch()
        with mock.patch.object(reuse.subprocess, "run") as ldd:
            ldd.return_value.stdout = "\tlibc.so => /no/libc.so (0x1)\n"
            self.assertEqual(reuse.libraries([path]), {"/no/libc.so": None})


class Turns(Kept):

    def setUp(self):
        super().setUp()
        self.replace(reuse, "USUAL", self.top / "usual")

    def test_a_guests_console_tells_how_long_tests_take(self):
        watch = reuse.Watch()
        with mock.patch.object(reuse.time, "monotonic",
                               side_effect=(10.0, 12.5, 20.0, 21.0)):
            for line in ("# selftests: uq: uq_io\r\n", "# ok 1 a\n",
                         "ok 1 selftests: uq: uq_io\r\n",
                         "# selftests: uq: uq_mmap\n",
                         "not ok 2 selftests: uq: uq_mmap # exit=1\n"):
                watch.line(line)
        self.assertEqual(watch.took, {"uq:uq_io": 2.5, "uq:uq_mmap": 1.0})
        watch.save(Share("lean", "g", self.top, ()))
        self.assertEqual(reuse.durations(), {"lean": watch.took})

    def test_dealt_by_what_they_took(self):
        tests = ["a", "b", "c", "d"]
        self.assertEqual(reuse.deal("lean", tests, 2),
                         [("a", "c"), ("b", "d")])
        host.write(store.folder() / reuse.DURATIONS,
                   '{"lean": {"a": 10, "b": 2, "c": 3, "d": 4}}')
        self.assertEqual(reuse.deal("lean", tests, 2),
                         [("a",), ("b", "c", "d")])

    def test_where_none_ran_yet_the_trees_own_seconds_count(self):
        host.write(reuse.USUAL, '{"lean": {"a": 9, "b": 1, "c": 8}}')
        self.assertEqual(reuse.deal("lean", ["a", "b", "c"], 2),
                         [("a",), ("b", "c")])
        host.write(store.folder() / reuse.DURATIONS, '{"lean": {"b": 20}}')
        self.assertEqual(reuse.deal("lean", ["a", "b", "c"], 2),
                         [("b",), ("a", "c")])

    def test_the_trees_own_seconds_are_of_tests_that_there_are(self):
        with mock.patch.object(reuse, "USUAL", USUAL):
            known = reuse.durations()
        self.assertTrue(known["lean"] and known["debug"])
        top = host.ROOT / kselftest.TOP
        for test in {**known["lean"], **known["debug"]}:
            folder, _, name = test.partition(":")
            self.assertTrue((top / folder / name).exists()
                            or (top / folder / f"{name}.c").exists(), test)

    def test_broken_notes_are_no_notes(self):
        host.write(store.folder() / reuse.DURATIONS, "[1]")
        self.assertEqual(reuse.durations(), {})

    def gate(self, processors, gigabytes, busy):
        self.replace(limits, "processors", lambda: processors)
        self.replace(limits, "memory", lambda: gigabytes << 30)
        self.replace(limits.Load, "look", lambda load: busy)
        return reuse.Gate(4 << 30)

    def test_as_many_guests_as_processors(self):
        gate = self.gate(2, 64, 2.0)
        self.assertEqual(gate.most, 4)
        with gate, gate:
            gate.began -= 100
            self.assertFalse(gate._room())
        self.assertEqual(gate.running, 0)

    def test_one_more_when_a_processor_stands_idle(self):
        gate = self.gate(2, 64, 1.0)
        with gate, gate:
            self.assertFalse(gate._room())
            gate.began -= 100
            self.assertTrue(gate._room())

    def test_never_more_than_there_is_memory_for(self):
        gate = self.gate(8, 4, 0.0)
        self.assertEqual(gate.most, 1)
        with gate:
            gate.began -= 100
            self.assertFalse(gate._room())
        self.assertEqual(self.gate(8, 1, 0.0).most, 1)

    def test_none_begins_when_all_are_ended(self):
        gate = self.gate(1, 64, 1.0)
        self.addCleanup(host.STOPPING.clear)
        with gate:
            host.STOPPING.set()
            with self.assertRaises(host.UserError):
                gate.__enter__()


class Limits(Folder):

    def groups(self, **files):
        for name, text in files.items():
            host.write(self.top / name.replace("_dot_", "."), text)
        with mock.patch.object(limits, "_groups", lambda: [self.top]):
            return limits.processors(), limits.memory()

    def test_a_quota_of_processors(self):
        with mock.patch.object(os, "sched_getaffinity",
                               return_value=set(range(8))):
            self.assertEqual(self.groups(
                cpu_dot_max="250000 100000\n")[0], 2)
            self.assertEqual(self.groups(cpu_dot_max="50000 100000\n")[0], 1)
            self.assertEqual(self.groups(cpu_dot_max="max 100000\n")[0], 8)

    def test_a_limit_of_memory(self):
        _, memory = self.groups(
            memory_dot_max="1000000", memory_dot_current="900000",
            memory_dot_stat="anon 1\ninactive_file 50000\n")
        self.assertEqual(memory, 150000)
        self.assertGreater(self.groups(memory_dot_max="max")[1], 1 << 20)

    def test_this_machine(self):
        self.assertGreaterEqual(limits.processors(), 1)
        self.assertGreater(limits.memory(), 0)


class Kunit(Kept):

    def setUp(self):
        super().setUp()
        self.replace(build, "top", lambda: self.top)
        self.replace(build, "tree", lambda: self.top / "tree")
        self.replace(build, "lay_tree", mock.Mock())
        self.replace(build, "build", lambda mode: self.ran.append("make"))
        self.replace(build, "environment", dict)
        self.replace(reuse, "qemu", lambda: "QEMU 7.2")
        self.replace(reuse, "_firmware", dict)
        self.replace(lay, "items", list)
        self.replace(host, "OUT", self.top / "out")
        self.replace(host, "need", mock.Mock())
        self.image = self.top / "build/um/linux"
        host.write(self.image, "image")
        self.built = self.top / "build/debug"
        host.write(self.built / "arch/x86/boot/bzImage", "image")
        self.suites("fs/ext4/ext4-test")
        self.ran = []
        self.output = "TAP version 13\n1..1\nok 1 a\n"
        self.replace(host, "run", self.tool)
        self.replace(guest, "boot", self.boot)

    def suites(self, *names):
        """What a build of the debug kernel left as modules."""
        host.write(self.built / "modules.order",
                   "".join(f"{name}.o\n" for name in names))
        for name in names:
            host.write(self.built / f"{name}.ko", "module")

    def tool(self, cmd, **how):
        self.ran.append(cmd[2])
        if cmd[2] == "exec":
            host.write(self.image.parent / "test.log", self.output)
        return SimpleNamespace(returncode=0, stdout="")

    def boot(self, mode, script, **how):
        self.ran.append(mode)
        self.assertIn("fs/ext4/ext4-test.ko", script)
        return guest.Boot(mode, True, "", f"{self.output}# overlay: taint "
                          f"{1 << ktap.TESTED}\n", files={"log": "log"})

    def once(self, *words):
        """What `kunit WORDS` ran, and its cases."""
        self.ran.clear()
        cases = kunit.main(list(words))
        return list(self.ran), [(case.name, case.status) for case in cases]

    def test_the_same_image_boots_once(self):
        ran, first = self.once("um")
        self.assertEqual(ran, ["build", "exec"])
        ran, second = self.once("um")
        self.assertEqual(ran, ["build"])
        self.assertEqual(second, first)
        host.write(self.image, "edited")
        self.assertEqual(self.once("um")[0], ["build", "exec"])

    def test_the_same_debug_kernel_boots_once(self):
        ran, cases = self.once("debug")
        self.assertEqual(ran, ["make", "debug"])
        self.assertEqual(cases, [
            ("debug: a", ktap.PASS),
            ("debug: the guest ran to its end", ktap.PASS),
            ("debug: no splat in the boot log", ktap.PASS)])
        self.assertEqual(self.once("debug")[0], ["make"])
        for name in ("arch/x86/boot/bzImage", "fs/ext4/ext4-test.ko"):
            host.write(self.built / name, "edited")
            self.assertEqual(self.once("debug")[0], ["make", "debug"])

    def test_uml_runs_where_asked_for(self):
        ran, cases = self.once("um", "debug")
        self.assertEqual(sorted(ran), ["build", "debug", "exec", "make"])
        for name in ("um: a", "debug: a"):
            self.assertIn((name, ktap.PASS), cases)
        self.assertEqual(self.once()[0], ["make"])

    def test_a_kernel_without_suites_is_not_known(self):
        with self.assertRaisesRegex(host.UserError, "lean: um, debug"):
            kunit.main(["lean"])

    def test_what_only_kselftests_use_boots_no_kunit(self):
        self.once()
        self.replace(reuse, "LOADED", {"disks.py": "edited"})
        self.replace(reuse, "_program", lambda name: "newer")
        self.assertEqual(self.once()[0], ["make"])
        self.replace(reuse, "qemu", lambda: "QEMU 10.0")
        self.assertEqual(self.once()[0], ["make", "debug"])

    def test_what_boots_the_guest_boots_it_again(self):
        self.replace(reuse, "_installed", lambda: {"kmod": ("1", [], False)})
        self.once()
        self.assertEqual(self.once()[0], ["make"])
        more = dataclasses.replace(kernels.KERNELS["debug"], memory=7)
        with mock.patch.dict(kernels.KERNELS, {"debug": more}):
            self.assertEqual(self.once()[0], ["make", "debug"])
        self.replace(reuse, "_tools", lambda pins: ["virtme-ng==2"])
        self.assertEqual(self.once()[0], ["make", "debug"])
        self.replace(reuse, "_installed", lambda: {"kmod": ("2", [], False)})
        self.assertEqual(self.once()[0], ["make", "debug"])

    def test_an_edit_while_it_ran_is_not_what_ran(self):
        boot = self.boot

        def edited(*args, **how):
            self.replace(reuse, "qemu", lambda: "QEMU 10.0")
            return boot(*args, **how)

        self.replace(guest, "boot", edited)
        self.once()
        self.replace(guest, "boot", boot)
        self.replace(reuse, "qemu", lambda: "QEMU 7.2")
        self.assertEqual(self.once()[0], ["make", "debug"])

    def test_a_suite_boots_no_kselftest(self):
        before = reuse.kernel("debug")
        host.write(self.built / "fs/ext4/ext4-test.ko", "edited")
        self.assertEqual(reuse.kernel("debug"), before)
        self.suites("fs/ext4/ext4-test", "drivers/block/brd")
        self.assertNotEqual(reuse.kernel("debug"), before)

    def test_a_failed_suite_runs_again(self):
        self.output = "TAP version 13\n1..1\nnot ok 1 a\n"
        self.once("um", "debug")
        self.assertEqual(sorted(self.once("um", "debug")[0]),
                         ["build", "debug", "exec", "make"])

    def test_a_module_that_cannot_be_loaded_is_red(self):
        self.output = "Bail out! lib/kunit/kunit.ko cannot be loaded\n"
        self.assertIn(("debug: bail out", ktap.FAIL), self.once("debug")[1])

    def test_a_suite_of_ours_that_no_kernel_ran_is_red(self):
        self.replace(kunit, "our_suites", lambda: ["a", "ext4-x"])
        self.output = ("KTAP version 1\n1..1\n    KTAP version 1\n    1..1\n"
                       "    ok 1 case\nok 1 a\n")
        failed = [name for name, status in self.once()[1]
                  if status == ktap.FAIL]
        self.assertEqual(failed, ["ext4-x"])

    def test_modules_that_hold_suites_are_loaded(self):
        self.suites("drivers/block/brd", "fs/ext4/ext4-test",
                    "drivers/nvme/host/tests/uq_kunit", "lib/test_module",
                    "drivers/nvme/host/tests/uq_limit_kunit")
        self.assertEqual(kunit.modules(), [
            "lib/kunit/kunit.ko", "fs/ext4/ext4-test.ko",
            "drivers/nvme/host/tests/uq_kunit.ko",
            "drivers/nvme/host/tests/uq_limit_kunit.ko"])


class Compiled(Kept):
    """What is compiled once for the same files."""

    def setUp(self):
        super().setUp()
        self.replace(host, "ROOT", self.top)
        self.replace(source, "kernel", lambda: self.kernel)
        self.replace(reuse, "versions", lambda names: "gcc 12")
        self.kernel = SimpleNamespace(version="7.3.4", origin="debian")
        self.items = [Item(name, name, "file") for name in (
            "fs/toy.c", "Documentation/toy.rst",
            "tools/testing/selftests/toy/toy.c")]
        for item in self.items:
            host.write(self.top / item.path, item.path)

    def lint_key(self):
        job = SimpleNamespace(items=self.items)
        return [lint._key(job, name) for name in ("W=1", "modules")]

    def edit(self, number):
        host.write(self.top / self.items[number].path, "edited")

    def test_lint_compiles_what_was_edited(self):
        key = self.lint_key()
        self.edit(1)
        self.edit(2)
        self.assertEqual(self.lint_key(), key)
        self.edit(0)
        for one, other in zip(self.lint_key(), key, strict=True):
            self.assertNotEqual(one, other)

    def test_another_compiler(self):
        key = self.lint_key()
        self.replace(reuse, "versions", lambda names: "gcc 14")
        for one, other in zip(self.lint_key(), key, strict=True):
            self.assertNotEqual(one, other)

    def test_a_kdir_may_change_under_us(self):
        self.kernel.origin = "kdir"
        self.assertEqual(self.lint_key(), [None, None])
        self.assertIsNone(objects.key(self.items))

    def configured(self, fragment="CONFIG_A=y\n"):
        """How often make is called to configure a build folder."""
        host.write(self.top / "overlay/configs/toy.config", fragment)
        shop = objects.Shop(self.kernel, self.top / "log", configs=["toy.config"])
        shop.tree = self.top
        self.config = shop.build / ".config"

        def make(*args, **_):
            if "allnoconfig" in args:
                host.write(self.config, fragment)
        with mock.patch.object(shop, "make", side_effect=make) as called, \
                mock.patch.object(lay, "items", return_value=[
                    Item("fs/Kconfig", "fs/Kconfig", "file")]):
            shop.configure()
        return called.call_count

    def test_a_build_folder_is_configured_once_for_the_same_options(self):
        self.assertEqual(self.configured(), 2)
        self.assertEqual(self.configured(), 0)
        self.assertEqual(self.configured("CONFIG_A=n\n"), 2)
        host.write(self.top / "fs/Kconfig", "config TOY")
        self.assertEqual(self.configured("CONFIG_A=n\n"), 2)
        self.assertEqual(self.configured("CONFIG_A=n\n"), 0)

    def test_what_make_changed_in_a_configuration_is_undone(self):
        self.configured()
        host.write(self.config, "it dropped an option")
        self.assertEqual(self.configured(), 2)
        self.replace(reuse, "versions", lambda names: "gcc 14")
        self.assertEqual(self.configured(), 2)

    def test_over_a_kdir_a_build_folder_is_always_configured(self):
        self.kernel.origin, self.kernel.path = "kdir", self.top / "linux"
        self.assertEqual(self.configured(), 2)
        self.assertEqual(self.configured(), 2)

    def compile(self, says=()):
        """Check two commits; which of them were compiled."""
        with mock.patch.object(series.objects, "Shop"):
            builder = series.Builder(self.kernel, self.top / "log")
        compiled = []

        def one(entry, items):
            builder.laid += [items[file] for file in entry.files]
            compiled.append(entry.files[0])
            return list(says)

        items = {item.path: item for item in self.items}
        with mock.patch.object(builder, "build", side_effect=one):
            for item in self.items[::2]:
                builder.check(Entry(Path(item.path), "", "", [item.path]),
                          items)
        self.assertEqual(len(builder.laid), 2)
        return compiled

    def test_a_commit_compiles_once(self):
        self.assertEqual(len(self.compile()), 2)
        self.assertEqual(self.compile(), [])

    def test_an_edit_compiles_from_its_commit_on(self):
        self.compile()
        self.edit(2)
        self.assertEqual(self.compile(), [self.items[2].path])
        self.edit(0)
        self.assertEqual(self.compile(), [self.items[0].path])

    def test_a_commit_goes_by_what_compiling_it_reads(self):
        items = [Item(name, name, "file") for name in (
            "fs/ext4/a.c", "fs/b.c", "fs/ext4/a.h", "drivers/nvme/host/c.c",
            "drivers/nvme/host/Kconfig", "include/linux/d.h",
            "tools/testing/selftests/uq/e.c")]
        none = [item for item in items if not item.target.endswith(".c")]
        for wanted, more in ((["fs/ext4/a.o"], items[:1]),
                             (["drivers/nvme/host/"], items[3:4]),
                             ([], [])):
            self.assertEqual({item.target for item in
                              series.read_by(wanted, items)},
                             {item.target for item in
                              (*none, *more, items[6])})

    def test_a_commit_that_does_not_compile_is_tried_again(self):
        self.compile(["it is broken"])
        self.assertEqual(len(self.compile()), 2)


class Checkpatch(Kept):

    PATCH = ("From {0} Mon Sep 17 00:00:00 2001\nFrom: A\n"
             "Date: {1}\nSubject: [PATCH {3}] x: y\n\nDate: stays\n+text {2}\n")

    def key(self, *words, number=("1/2",), small=True):
        return checkpatch.key(self.top, self.PATCH.format(*words, *number), small)

    def test_a_patch_is_known_by_its_text(self):
        key = self.key("0" * 40, "today", "a")
        self.assertEqual(self.key("1" * 40, "tomorrow", "a",
                                  number=("3/4",)), key)
        self.assertNotEqual(self.key("0" * 40, "today", "b"), key)

    def test_git_and_b4_write_the_same_patch(self):
        output = ("Message.\n\nSigned-off-by: A <a@example.org>\n---\n{0}\n"
                  "diff --git a/x b/x\n+text\n")
        subject = "a subject that is long enough to be"
        git = (f"From {'0' * 40} Mon Sep 17 00:00:00 2001\nFrom: A <a@example.org>\n"
               f"Date: today\nSubject: [PATCH 1/2] {subject}\n folded\n\n"
               f"{output.format(' x | 3 +++')}\n")
        mail = (f"From: A <a@example.org>\nDate: tomorrow\n"
                f"Subject: [PATCH 01/11] {subject} folded\n"
                "MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n"
                "Content-Transfer-Encoding: 7bit\nMessage-Id: <1@example.org>\n\n"
                f"{output.format(' x | 3 ++')}\n-- \n2.39.5\n\n")
        self.assertEqual(checkpatch.plain(git), checkpatch.plain(mail))
        for old, new in (("A <a@", "B <a@"), ("long", "short"),
                         ("+text", "+ text"), ("Message.", "Massage."),
                         ("7bit", "base64")):
            self.assertNotEqual(checkpatch.plain(git),
                                checkpatch.plain(mail.replace(old, new, 1)))

    def test_another_checkpatch(self):
        key = self.key("0" * 40, "today", "a")
        host.write(self.top / "scripts/checkpatch.pl", "new")
        self.assertNotEqual(self.key("0" * 40, "today", "a"), key)

    def test_what_looks_at_the_history_is_not_kept(self):
        self.assertIsNone(self.key("0" * 40, "today", "a", small=False))

    def test_only_content_is_kept(self):
        with mock.patch.object(checkpatch, "load", return_value=[]):
            checkpatch.note("bad", "x.c:1: ERROR:SPACING: bad", 1)
            checkpatch.note("dead", "", 2)
            checkpatch.note("good", "", 0)
            self.assertIsNone(store.take("checkpatch", "bad"))
            self.assertIsNone(store.take("checkpatch", "dead"))
            self.assertEqual(checkpatch.judged(
                store.take("checkpatch", "good")), [])


class Tools(unittest.TestCase):

    def test_of_pythons_tools_only_virtme_ng_counts(self):
        pins = "b4==1\nvirtme-ng==2\n"
        self.assertEqual(reuse._tools(pins), reuse._tools(f"{pins}x==3\n"))
        self.assertNotEqual(reuse._tools(pins),
                            reuse._tools(pins.replace("2", "3")))


class Table(Kept):

    def test_steps_and_what_took_long_in_them(self):
        store.counted(2)
        self.assertEqual(list(check.table("kselftest", 75.0, [PASSED] * 3, [
            host.Took("guest lean-1", 61.0, 70.0, 42.5),
            host.Took("building", 9.0, 70.0),
            host.Took("short", 1.0, 71.0)])), [
            "kselftest    1 min 15 s   3 passed, 0 failed, 2 of them taken "
            "from the store",
            "            1 min 01 s   guest lean-1, 42 s of a processor",
            "                   9 s   building"])

    def test_a_step_is_noted(self):
        host.TIMES.clear()
        with host.step("laying the tree (out/log)"):
            pass
        self.assertEqual([part.what for part in host.TIMES],
                         ["laying the tree"])

    def test_when_it_began(self):
        self.assertEqual(list(check.spans("lint", [
            host.Took("sparse", 10.0, 112.0)], 100.0)), [
            {"step": "lint", "what": "sparse", "seconds": 10.0, "begin": 2.0}])


if __name__ == "__main__":
    unittest.main()
