# SPDX-License-Identifier: GPL-2.0
"""Check that a guest that died fails, whatever it printed before."""

import itertools
import os
import signal
import subprocess
import unittest
from pathlib import Path
from unittest import mock

from engine import build, guest, host, kernels, kselftest, ktap, kunit, plugins
from engine.host import UserError
from tests.test_host import Folder

GOOD = "TAP version 13\n1..1\nok 1 a\n"


class Boot(Folder):
    """Boot a guest with a stub of virtme-ng."""

    def setUp(self):
        super().setUp()
        (self.top / "bin").mkdir()
        for name, value in (("need", mock.Mock()),
                            ("pytool", lambda name: self.top / "bin" / name)):
            patch = mock.patch.object(host, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        patch = mock.patch.dict(os.environ)
        patch.start()
        self.addCleanup(patch.stop)
        os.environ.pop("ACCEL", None)
        patch = mock.patch.object(plugins, "compiled",
                                  lambda name, _: self.top / f"{name}.so")
        patch.start()
        self.addCleanup(patch.stop)

    def vng(self, script):
        """Stand in for virtme-ng by a shell script."""
        path = self.top / "bin" / "vng"
        path.write_text(f"#!/bin/sh\ncd {self.top}/out\n{script}\n", "ascii")
        path.chmod(0o755)

    def boot(self, named="g", **has):
        """Boot, with results in the test's own folder."""
        return guest.boot("lean", "true\n", name=named, out=self.top / "out",
                          folder=self.top, machine=guest.Machine(**has))

    def failed(self, boot):
        """The names of the boot's own cases that failed."""
        return [case.name for case in boot.cases()
                if case.status == ktap.FAIL]

    def test_a_good_boot(self):
        self.vng("echo '[    0.000001] Linux'\n"
                 f"printf '{GOOD}# overlay: end\\n' >g.ktap")
        boot = self.boot()
        self.assertTrue(boot.ok)
        self.assertTrue(boot.left)
        self.assertEqual(self.failed(boot), [])
        self.assertEqual(ktap.total(ktap.parse(boot.ktap)),
                         "1 passed, 0 failed")
        self.assertIn("Linux", boot.log)
        self.assertTrue((self.top / "out" / "g.boot.log").exists())

    def test_no_end_mark_is_red_although_vng_is_content(self):
        self.vng(f"printf '{GOOD}' >g.ktap; echo '[    1.000000] last'")
        boot = self.boot()
        self.assertFalse(boot.ok)
        self.assertEqual(self.failed(boot),
                         ["g: the guest ran to its end"])
        self.assertIn("last", boot.why)

    def test_a_guest_that_hangs_at_boot_gets_another_try(self):
        self.vng("[ -e tried ] || { >tried; echo '[    0.1] WARNING: at x'; "
                 f"sleep 1000; }}; printf '{GOOD}# overlay: end\\n' >g.ktap")
        with mock.patch.object(guest, "UP", 0.5):
            boot = self.boot()
        self.assertTrue(boot.ok)
        # Complaints of the first boot still count.
        self.assertEqual(self.failed(boot), ["g: no splat in the boot log"])

    def test_interrupted_while_booting_no_guest_starts_again(self):
        old = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, old)
        self.addCleanup(host.STOPPING.clear)
        self.vng("echo up >>starts; mkdir first 2>/dev/null && "
                 "kill -INT $PPID; exec sleep 1000")
        with self.assertRaises(KeyboardInterrupt):
            host.at_once(lambda name: self.boot(named=name),
                         [("a",), ("b",), ("c",), ("d",)], 2)
        starts = (self.top / "out" / "starts").read_text("ascii")
        self.assertLessEqual(starts.count("up"), 2)

    def test_interrupted_while_jobs_are_added_no_program_stays(self):
        def jobs():
            yield ("a",)
            raise KeyboardInterrupt

        self.addCleanup(host.STOPPING.clear)
        self.vng("exec sleep 1000")
        with self.assertRaises(KeyboardInterrupt):
            host.at_once(lambda name: self.boot(named=name), jobs(), 2)

    def test_the_exit_code_is_not_believed(self):
        self.vng("printf '# overlay: end\\n' >g.ktap; exit 3")
        self.assertTrue(self.boot().ok)

    def test_results_of_an_earlier_boot_do_not_count(self):
        self.vng("printf '# overlay: end\\n' >g.ktap")
        self.boot()
        self.vng("exit 0")
        boot = self.boot()
        self.assertFalse(boot.ok)
        self.assertEqual(boot.ktap, "")

    def test_a_splat_is_red(self):
        self.vng("echo '[    1.000000] BUG: KASAN: slab-out-of-bounds'\n"
                 "printf '# overlay: end\\n' >g.ktap")
        self.assertEqual(self.failed(self.boot()),
                         ["g: no splat in the boot log"])

    def test_a_guest_that_hangs(self):
        self.vng("echo booting; exec sleep 1000")
        boot = self.boot(timeout=0.3)
        self.assertFalse(boot.ok)
        self.assertFalse(boot.left)
        self.assertIn("did not end within", boot.why)

    def test_a_guest_that_does_not_power_off(self):
        self.vng("printf '# overlay: end\\n' >g.ktap; exec sleep 1000")
        boot = self.boot(timeout=0.3)
        self.assertTrue(boot.ok)
        self.assertFalse(boot.left)

    def command(self, **has):
        """The command line of a boot."""
        return guest.command(Path("folder"), 1, guest.Machine(**has),
                              Path("script"), Path("result"))

    def test_kvm_only_when_asked_for(self):
        self.assertIn("--disable-kvm", self.command())
        os.environ["ACCEL"] = "kvm"
        with mock.patch.object(os, "access", return_value=True):
            self.assertNotIn("--disable-kvm", self.command())
            self.assertIn("--disable-kvm", self.command(icount=True))
        with mock.patch.object(os, "access", return_value=False), \
                self.assertRaisesRegex(UserError, "cannot be opened"):
            self.command()
        os.environ["ACCEL"] = "hvf"
        with self.assertRaisesRegex(UserError, "tcg or kvm"):
            self.command()

    def test_a_qemu_that_races_gets_one_thread(self):
        option = f"--qemu-opts={guest.ONE_THREAD}"
        for version, wanted in (((7, 2), True), ((8, 0), True),
                                ((8, 1), False), ((10, 0), False)):
            with mock.patch.object(guest, "qemu_version",
                                   return_value=version):
                self.assertEqual(option in self.command(), wanted)
                self.assertNotIn(option, self.command(icount=True))

    def test_a_tainted_kernel_is_red(self):
        self.vng("echo '[    0.000001] Linux'\n"
                 f"printf '{GOOD}# overlay: taint 512\\n# overlay: end\\n' "
                 ">g.ktap")
        self.assertEqual(self.failed(self.boot()),
                         ["g: the kernel is not tainted"])

    def test_pmem_regions_do_not_touch(self):
        spans = []
        for text in guest.PMEM:
            size, start = text.removeprefix("memmap=").split("!")
            start = int(start[:-1]) << (30 if start[-1] == "G" else 20)
            spans.append((start, start + (int(size[:-1]) << 20)))
        spans.sort()
        for (_, end), (start, _) in itertools.pairwise(spans):
            self.assertGreater(start, end)
        # QEMU keeps ACPI tables below 2 GB.
        self.assertLess(spans[-1][1], (2 << 30) - (1 << 20))


class Configs(Folder):
    """Fragments: an option that Kconfig drops is an error."""

    def test_settings(self):
        found = build.settings("# remark\nCONFIG_A=y\nCONFIG_B=\"x y\"\n"
                               "# CONFIG_C is not set\n\n")
        self.assertEqual(found, {"CONFIG_A": "y", "CONFIG_B": '"x y"',
                                 "CONFIG_C": "n"})
        with self.assertRaisesRegex(UserError, "without an option: CONFIG_A y"):
            build.settings("CONFIG_A y\n")

    def test_dropped(self):
        have = "CONFIG_A=y\nCONFIG_N=8\n# CONFIG_C is not set\n"
        wanted = {"CONFIG_A": "y", "CONFIG_N": "4", "CONFIG_C": "n",
                  "CONFIG_GONE": "n", "CONFIG_X": "y"}
        self.assertEqual(build.dropped(wanted, have),
                         ["CONFIG_N=4 (it is 8)", "CONFIG_X=y (it is n)"])

    def test_debug_has_what_finds_bugs(self):
        wanted = build.wanted_config("debug")
        for name in ("KASAN", "PROVE_LOCKING", "PROVE_RCU", "UBSAN",
                     "DEBUG_ATOMIC_SLEEP", "DEBUG_KMEMLEAK", "DEBUG_LIST",
                     "FAULT_INJECTION", "FAILSLAB", "DETECT_HUNG_TASK"):
            self.assertEqual(wanted.get(f"CONFIG_{name}"), "y", name)


class Tests(Folder):
    """Check the list of our tests, and the report of tests that did not run."""

    def test_a_test_that_was_not_built(self):
        with mock.patch.object(build, "build"), \
                mock.patch.object(kselftest, "targets", return_value=["a"]), \
                mock.patch.object(kselftest, "missing_options", return_value=[]), \
                mock.patch.object(kselftest, "install",
                                  return_value=(self.top, ["a:b"])):
            _, tests, (case,) = kselftest.prepare("lean", ["a:b", "a:c"])
        self.assertEqual((tests, case.name, case.status), (["a:b"], "a:c", ktap.FAIL))
        self.assertIn("NOT RUN", case.detail)
        self.assertIn("build/lean.kselftests.log", case.detail)

    def test_a_test_that_skips_itself_everywhere_is_red(self):
        cases = [ktap.Case("lean: uq: uq_meta: a: b", ktap.SKIP),
                 ktap.Case("debug: uq: uq_meta: a: b", ktap.PASS),
                 ktap.Case("lean: uq: uq_meta_more: a", ktap.PASS),
                 ktap.Case("lean: uq: uq_clients.sh: all", ktap.SKIP)]
        tests = ["uq:uq_meta", "uq:uq_clients.sh"]
        case, = kselftest.never_ran(tests, cases)
        self.assertEqual((case.name, case.status),
                         ("uq: uq_clients.sh: all", ktap.FAIL))
        case, = kselftest.never_ran(["uq:uq_meta"], cases[:1])
        self.assertIn("NOT RUN", case.detail)

    def test_arguments_name_kernels_and_tests(self):
        for args, wanted in (
                ([], (["lean", "debug"], [])), (["debug"], (["debug"], [])),
                (["uq:a"], (["lean"], ["uq:a"])),
                (["debug", "uq:a", "uq:b"], (["debug"], ["uq:a", "uq:b"]))):
            self.assertEqual(kselftest._chosen(args), wanted)
        with self.assertRaisesRegex(UserError, "with its folder"):
            kselftest._chosen(["uq_reset"])

    def test_seeds_reach_the_guest(self):
        share = kselftest.Share("lean", "g", self.top, ("uq:a",))
        seeds = {"UQ_TEST_SEED": "7", "DAX_TEST_SEED": "8 9"}
        with mock.patch.dict(os.environ, seeds), \
                mock.patch.object(build, "folder", return_value=self.top):
            script = kselftest._script(share, self.top)
        self.assertIn("UQ_TEST_SEED=7", script)
        self.assertIn("DAX_TEST_SEED='8 9'", script)

    def test_each_variant_has_to_run_somewhere(self):
        cases = [ktap.Case("lean: uq: uq_a: f.irq.x", ktap.PASS),
                 ktap.Case("lean: uq: uq_a: f.poll.x", ktap.SKIP, "no y"),
                 ktap.Case("debug: uq: uq_a: f.poll.x", ktap.SKIP, "no y"),
                 ktap.Case("lean: uq: uq_b", ktap.SKIP),
                 ktap.Case("debug: uq: uq_b: x", ktap.PASS)]
        case, = kselftest.never_ran(["uq:uq_a", "uq:uq_b"], cases)
        self.assertEqual((case.name, case.status),
                         ("uq: uq_a: f.poll.x", ktap.FAIL))
        self.assertIn("no y", case.detail)
        with mock.patch.dict(kselftest.NOWHERE, {"uq: uq_a: f.*.x": "why"}):
            self.assertEqual(kselftest.never_ran(["uq:uq_a"], cases), [])

    def test_a_program_that_no_guest_was_given_is_red(self):
        case, = kselftest.never_ran(["uq:uq_a"], [])
        self.assertEqual((case.name, case.status), ("uq: uq_a", ktap.FAIL))

    def test_what_one_kernel_leaves_out_another_runs(self):
        left = {name: kernel.left_out
                for name, kernel in kernels.KERNELS.items()}
        subset = kselftest.subset("debug")
        for test in left["lean"]:
            self.assertIn(test, subset)
        for test in left["debug"]:
            self.assertIn(test, subset)
            self.assertIsNotNone(left["lean"].get(test, ""))
        self.assertNotIn("uq:uq_fault",
                         kselftest.given("lean", ["uq:uq_io", "uq:uq_fault"]))

    def test_the_runner_is_told_what_to_leave_out(self):
        name = "KSELFTEST_UQ_FUZZ_ARGS"
        lean = kselftest.Share("lean", "lean", self.top, ("uq:uq_fuzz",))
        self.assertEqual(lean.variables()[name], "-V prp")
        soak = kselftest.Share("debug", "soak", self.top, ("uq:uq_fuzz",), 4)
        self.assertNotIn(name, soak.variables())
        intx = kselftest.Share("lean", "intx", self.top, ("uq:uq_io",),
                               kind="intx")
        self.assertEqual(intx.variables()["KSELFTEST_UQ_IO_ARGS"], "-V irq")

    def test_an_option_that_only_tests_of_another_kernel_need(self):
        tree, folder = self.top / "tree", self.top / "lean"
        host.write(tree / kselftest.TOP / "uq" / "config",
                   "CONFIG_A=y\nCONFIG_NVME_UQ_FAULT=y\n")
        host.write(folder / ".config", "CONFIG_A=y\n")
        with mock.patch.object(build, "tree", return_value=tree), \
                mock.patch.object(build, "folder", return_value=folder):
            self.assertEqual(kselftest.missing_options("lean", "uq"), [])
            self.assertEqual(kselftest.missing_options("debug", "uq"),
                             ["CONFIG_NVME_UQ_FAULT"])

    def judge(self, output, code=0, printed=""):
        """How a KUnit run that left this ends."""
        done = subprocess.CompletedProcess([], code, printed)
        return [case.name for case in
                kunit.judge("um", output, done, Path("out"))
                if case.status == ktap.FAIL]

    def test_kunit_judged_by_the_kernels_log(self):
        good = "KTAP version 1\n1..1\nok 1 a\n"
        self.assertEqual(self.judge(good), [])
        self.assertEqual(self.judge(""), ["um: results"])
        self.assertEqual(self.judge("", 1, "x: error: y"),
                         ["um: results", "um: kunit.py"])
        self.assertEqual(self.judge(good, 1), ["um: kunit.py"])
        self.assertEqual(self.judge(good + "WARNING: CPU: 0 PID: 1\n"),
                         ["um: no splat in the boot log"])
        self.assertEqual(self.judge("KTAP version 1\n1..2\nok 1 a\n"),
                         ["um: plan"])


if __name__ == "__main__":
    unittest.main()
