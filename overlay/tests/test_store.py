# SPDX-License-Identifier: GPL-2.0
"""Check that results are kept only for the same inputs."""

import dataclasses
import os
import subprocess
import unittest
from pathlib import PurePosixPath
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
    ran,
    reuse,
    store,
)
from engine.kselftest import Share
from engine.ktap import Case
from tests.test_host import Folder

PASSED = Case("a", ktap.PASS)
SKIPPED = Case("b", ktap.SKIP, "no device")
USUAL = reuse.USUAL
FAILED = Case("c", ktap.FAIL, "it broke")


def laid(top):
    """Commit the content of a directory, as in the laid tree."""
    for args in (["init", "--quiet"], ["add", "--all"],
                 ["-c", "user.name=a", "-c", "user.email=a@example.org", "commit",
                  "--quiet", "--allow-empty", "--message", "laid"]):
        subprocess.run(["git", "-C", top, *args], check=True)


class Kept(Folder):
    """A work folder of the test's own."""

    def setUp(self):
        super().setUp()
        self.replace(host, "WORK", self.top / "work")
        self.replace(host, "say", mock.Mock())

    def replace(self, where, name, value):
        patch = mock.patch.object(where, name, value)
        patch.start()
        self.addCleanup(patch.stop)


class Store(Kept):

    def test_what_passed_is_kept(self):
        self.assertTrue(store.keep("x", "key", [PASSED, SKIPPED]))
        kept = store.take("x", "key")
        self.assertEqual(kept.cases, (PASSED, SKIPPED))

    def test_a_failure_is_never_kept(self):
        self.assertFalse(store.keep("x", "key", [PASSED, FAILED]))
        self.assertIsNone(store.take("x", "key"))

    def test_a_broken_file_is_no_result(self):
        for text in ("", "{}", "[]", '{"when": 1, "cases": [1], "more": 0}'):
            host.write(store.folder() / "x" / "key.json", text)
            self.assertIsNone(store.take("x", "key"), text)

    def test_clean_forgets(self):
        store.keep("x", "key", [PASSED])
        with mock.patch.dict(os.environ, {"CLEAN": ""}):
            store.forget_if_asked()
        self.assertIsNotNone(store.take("x", "key"))
        with mock.patch.dict(os.environ, {"CLEAN": "1"}):
            store.forget_if_asked()
        self.assertIsNone(store.take("x", "key"))

    def test_what_was_not_used_for_long_goes(self):
        for name in ("0", "1"):
            store.keep("x", name, [PASSED])
        for name in ("0", "1"):
            os.utime(store.folder() / "x" / f"{name}.json", (0, 0))
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


class Installed(Kept):
    """A kernel and installed tests that are only names."""

    TESTS = ("uq:uq_io", "uq:uq_mmap", "uq:uq_clients.sh")

    def setUp(self):
        super().setUp()
        self.build = self.top / "build"
        self.into = self.top / "installed"
        self.replace(build, "folder", lambda mode: self.build)
        self.replace(build, "tree", lambda: self.top / "tree")
        self.replace(reuse, "qemu", lambda: "QEMU 7.2")
        self.replace(store, "STATUS", self.top / "status")
        self.replace(store, "FOLDERS", (self.top / "usr",))
        host.write(store.STATUS, "fio 1")
        host.write(self.build / ".config", "CONFIG_A=y\n")
        for name in ("fs/dax.c", "Documentation/page.rst"):
            self.edit(name)
        self.share = Share("lean", "lean-1", self.into, self.TESTS)
        self.cases = [Case(f"lean: uq: {test.partition(':')[2]}: works",
                           ktap.PASS) for test in self.TESTS]
        self.cases.append(Case("lean-1: no splat in the boot log", ktap.PASS))

    def edit(self, target, text="text"):
        """An edit of the laid tree."""
        host.write(self.top / "tree" / target, text)
        laid(self.top / "tree")

    def keep(self, cases=None, share=None):
        share = share or self.share
        reuse.keep(share, reuse.keys(share), cases or self.cases)

    def left(self, share=None):
        """The tests that would run."""
        left, _ = reuse.sift([share or self.share])
        return [test for one in left for test in one.tests]


class Guests(Installed):

    def test_nothing_changed(self):
        self.assertEqual(self.left(), list(self.TESTS))
        self.keep()
        left, cases = reuse.sift([self.share])
        self.assertEqual(left, [])
        self.assertEqual([case.name for case in cases],
                         [case.name for case in self.cases[:3]])
        self.assertIn("taken from the store", cases[0].detail)
        self.assertIn("3 passed, 0 failed, taken from the store",
                      host.say.call_args.args[0])

    def test_a_file_of_the_kernel_or_the_machine_runs_all(self):
        for path in (store.STATUS, self.build / ".config",
                     self.top / "usr/liburing.so"):
            self.keep()
            self.assertEqual(self.left(), [])
            host.write(path, "edited")
            self.assertEqual(self.left(), list(self.TESTS), path)
        self.keep()
        self.edit("fs/dax.c", "edited")
        self.assertEqual(self.left(), list(self.TESTS))

    def test_pages_run_none(self):
        self.keep()
        self.edit("Documentation/page.rst", "edited")
        self.assertEqual(self.left(), [])

    def test_another_qemu_runs_all(self):
        self.keep()
        self.replace(reuse, "qemu", lambda: "QEMU 10.0")
        self.assertEqual(self.left(), list(self.TESTS))

    def test_another_machine_runs_all_under_kvm_alone(self):
        for kvm, left in ((False, []), (True, list(self.TESTS))):
            self.replace(guest, "accelerated", lambda kvm=kvm: kvm)
            self.replace(reuse, "_processor", lambda: ["one"])
            self.keep()
            self.replace(reuse, "_processor", lambda: ["another"])
            self.assertEqual(self.left(), left)

    def test_without_dpkg_nothing_is_kept(self):
        host.remove(store.STATUS)
        self.keep()
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
        self.keep()
        self.replace(ran, "guests", lambda: "edited")
        self.assertEqual(self.left(), list(self.TESTS))

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
        host.write(store.STATUS, "edited meanwhile")
        reuse.keep(self.share, keys, self.cases)
        self.assertEqual(self.left(), list(self.TESTS))

    def test_a_guest_that_restarts_is_one_test(self):
        share = Share("lean", "lean-restart", self.into, ("restart",),
                      restart=True)
        self.keep([Case("lean: another kernel", ktap.PASS)], share)
        self.assertEqual(self.left(share), [])

    def test_long_runs_are_never_taken_from_here(self):
        for share in (dataclasses.replace(self.share, scale=4),
                      dataclasses.replace(self.share, mode="coverage")):
            self.keep(share=share)
            self.assertEqual(self.left(share), list(self.TESTS))


class Apart(Installed):

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

    MODULE = PurePosixPath("uq/test_modules/events.ko")

    def setUp(self):
        super().setUp()
        self.replace(build, "folder", lambda mode: self.top / "build" / mode)
        self.replace(build, "tree", lambda: self.top / "tree")
        self.replace(store, "STATUS", self.top / "status")
        host.write(store.STATUS, "fio 1")
        self.replace(host, "need", mock.Mock())
        self.replace(kselftest, "targets", lambda: ["uq"])
        self.replace(build, "make", self.make)
        self.replace(kselftest, "modules", lambda: [self.MODULE])
        self.made = 0
        self.in_tree = self.top / "tree" / kselftest.TOP / self.MODULE.parent
        for name in ("tools/testing/selftests/uq/uq_io.c", "Documentation/page.rst",
                     f"{kselftest.TOP}/{self.MODULE.with_suffix('.c')}"):
            self.edit(name)

    def edit(self, target, text="text"):
        host.write(self.top / "tree" / target, text)
        laid(self.top / "tree")

    def make(self, mode, *args, **how):
        self.made += 1
        into = build.folder(mode) / "kselftest-installed"
        host.write(into / "kselftest-list.txt", "uq:uq_io\n")
        # as kbuild
        if not (self.in_tree / "modules.order").exists():
            host.write(into / self.MODULE, "module")

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
        host.write(self.top / "build/lean/.config", "CONFIG_A=y\n")
        self.assertEqual(self.builds(), 1)
        host.remove(self.top / "build/lean/kselftest-installed")
        self.assertEqual(self.builds(), 1)

    def test_a_module_left_in_the_tree(self):
        host.write(self.top / "tree/.gitignore", "modules.order\n")
        host.write(self.in_tree / "modules.order", "events.o\n")
        self.assertEqual(self.builds(), 1)
        self.assertTrue((self.in_tree / "events.c").exists())

    def test_a_module_that_was_not_built_is_an_error(self):
        host.write(self.in_tree / "modules.order", "events.o\n")
        for _ in range(2):
            with self.assertRaisesRegex(host.UserError, "events.ko was not built"):
                self.builds()


class Machine(Kept):

    def test_another_place_for_headers_is_another_compiler(self):
        with mock.patch.dict(os.environ, {"CPATH": "/one"}):
            before = store.installed()
        self.assertNotEqual(store.installed(), before)


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

    def test_dealt_by_the_trees_own_seconds(self):
        tests = ["a", "b", "c", "d"]
        self.assertEqual(reuse.deal("lean", tests, 2),
                         [("a", "c"), ("b", "d")])
        host.write(reuse.USUAL, '{"lean": {"a": 10, "b": 2, "c": 3, "d": 4}}')
        self.assertEqual(reuse.deal("lean", tests, 2),
                         [("a",), ("b", "c", "d")])

    def test_the_trees_own_seconds_are_of_tests_that_there_are(self):
        with mock.patch.object(reuse, "USUAL", USUAL):
            known = reuse.durations()
        self.assertTrue(known["lean"] and known["debug"])
        top = host.ROOT / kselftest.TOP
        for test in {**known["lean"], **known["debug"]}:
            folder, _, name = test.partition(":")
            self.assertTrue((top / folder / name).exists()
                            or (top / folder / f"{name}.c").exists(), test)


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


class Kunit(Kept):

    def setUp(self):
        super().setUp()
        self.replace(build, "top", lambda: self.top)
        self.replace(build, "tree", lambda: self.top / "tree")
        self.replace(build, "lay_tree", mock.Mock())
        self.replace(build, "build", lambda mode: self.ran.append("make"))
        self.replace(build, "environment", dict)
        self.replace(reuse, "qemu", lambda: "QEMU 7.2")
        self.replace(reuse, "key", lambda *more: store.digest([
            store.of_file(store.STATUS), more, repr(kernels.KERNELS["debug"])]))
        self.replace(store, "STATUS", self.top / "status")
        host.write(store.STATUS, "kmod 1")
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
        """The modules of a build of the debug kernel."""
        host.write(self.built / "modules.order",
                   "".join(f"{name}.o\n" for name in names))
        for name in names:
            host.write(self.built / f"{name}.ko", "module")

    def tool(self, cmd, **how):
        self.ran.append(cmd[2])
        if cmd[2] == "run":
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

    def test_the_same_debug_kernel_boots_once(self):
        ran, cases = self.once("debug")
        self.assertEqual(ran, ["make", "debug"])
        self.assertEqual(cases, [
            ("debug: a", ktap.PASS),
            ("debug: the guest ran to its end", ktap.PASS),
            ("debug: no splat in the boot log", ktap.PASS)])
        self.assertEqual(self.once("debug")[0], ["make"])
        self.suites("fs/ext4/ext4-test", "fs/dax-test")
        self.assertEqual(self.once("debug")[0], ["make", "debug"])

    def test_uml_runs_where_asked_for(self):
        ran, cases = self.once("um", "debug")
        self.assertEqual(sorted(ran), ["debug", "make", "run"])
        for name in ("um: a", "debug: a"):
            self.assertIn((name, ktap.PASS), cases)
        self.assertEqual(self.once()[0], ["make"])

    def test_what_boots_the_guest_boots_it_again(self):
        self.once()
        self.assertEqual(self.once()[0], ["make"])
        more = dataclasses.replace(kernels.KERNELS["debug"], memory=7)
        with mock.patch.dict(kernels.KERNELS, {"debug": more}):
            self.assertEqual(self.once()[0], ["make", "debug"])
        host.write(store.STATUS, "kmod 2")
        self.assertEqual(self.once()[0], ["make", "debug"])

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


class Checkpatch(Kept):

    def test_the_mail_the_exceptions_and_checkpatch_are_the_key(self):
        mail, exceptions = self.top / "0001-x.patch", self.top / "exceptions"
        self.replace(checkpatch, "EXCEPTIONS", exceptions)
        seen = set()
        for path in (mail, exceptions, self.top / "scripts/checkpatch.pl"):
            seen.add(checkpatch.key(self.top, mail))
            host.write(path, "new")
        self.assertEqual(len({*seen, checkpatch.key(self.top, mail)}), 4)


class Table(Kept):

    def test_steps_and_what_took_long_in_them(self):
        kept = store.mark([PASSED] * 2, "now")
        self.assertEqual(list(check.table("kselftest", 75.0, [PASSED, *kept], [
            host.Took("guest lean-1", 61.0, 70.0),
            host.Took("building", 9.0, 70.0),
            host.Took("short", 1.0, 71.0)])), [
            "kselftest    1 min 15 s   3 passed, 0 failed, 2 of them taken "
            "from the store",
            "            1 min 01 s   guest lean-1",
            "                   9 s   building"])


if __name__ == "__main__":
    unittest.main()
