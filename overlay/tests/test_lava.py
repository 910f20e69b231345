# SPDX-License-Identifier: GPL-2.0
"""LAVA's jobs: every test is in one, they take about as long, results arrive."""

import json
import os
import re
import shutil
import subprocess
import unittest
from unittest import mock

from engine import artifacts, host, kernels, kselftest, ktap, lava, reuse
from engine.host import UserError
from engine.lava import jobs
from tests.test_host import Folder

OUTPUT = """TAP version 13
1..3
# timeout set to 0
# selftests: uq: uq_io
# TAP version 13
# 1..2
# ok 1 irq.read_write
# # what a program says
# not ok 2 poll.read_write # exit=1
not ok 1 selftests: uq: uq_io # exit=1
# selftests: filesystems/dax: read_dm.sh
# ok 1 a name, with (signs)
# ok 2 another # SKIP no dmsetup
# ok 3 expected # TODO later
#   ok 1 by spaces
#   not ok 2 - by more # xfail
# ok 4 above
ok 2 selftests: filesystems/dax: read_dm.sh
# selftests: uq: uq_cq
# 1..0 # SKIP none
ok 3 selftests: uq: uq_cq # SKIP
"""
RESULTS = """uq_uq_io.irq.read_write pass
uq_uq_io.poll.read_write fail
uq_uq_io fail
filesystems_dax_read_dm.sh.a_name_with_signs pass
filesystems_dax_read_dm.sh.another skip
filesystems_dax_read_dm.sh.expected fail
filesystems_dax_read_dm.sh.by_spaces pass
filesystems_dax_read_dm.sh.by_more fail
filesystems_dax_read_dm.sh.above pass
filesystems_dax_read_dm.sh pass
uq_uq_cq skip
"""


def awk(name, text, *options, by=("awk",)):
    """Return the output of a program of overlay/ci for a text."""
    return subprocess.run([*by, *options, "-f", jobs.CI / f"{name}.awk"],
                          input=text, capture_output=True, text=True,
                          check=True).stdout


class Ktap(unittest.TestCase):
    """Check the conversion of KTAP to results of LAVA."""

    def test_results(self):
        self.assertEqual(awk("ktap", OUTPUT, "-v", "programs=3"),
                         RESULTS + "all_programs_ended pass\n")

    def test_a_program_that_never_ended(self):
        text = OUTPUT[:OUTPUT.index("ok 3 selftests")]
        self.assertIn("all_programs_ended fail\n",
                      awk("ktap", text, "-v", "programs=3"))
        self.assertIn("all_programs_ended fail\n",
                      awk("ktap", "", "-v", "programs=1"))

    def both(self, *lines):
        """Does the program pass for LAVA, and for us, that says this and exits 0?"""
        text = ("TAP version 13\n1..1\n# selftests: uq: uq_io\n" + "".join(
            f"# {line}\n" for line in lines) + "ok 1 selftests: uq: uq_io\n")
        lava = awk("ktap", text, "-v", "programs=1")
        ours = all(case.status != ktap.FAIL for case in ktap.parse(text))
        self.assertEqual(" fail" not in lava, ours, f"{text}{lava}")
        return ours

    def test_a_program_that_runs_other_tests_than_it_planned_fails(self):
        self.assertFalse(self.both("1..10", *(f"ok {number} a{number}"
                                              for number in range(1, 6))))
        self.assertFalse(self.both("1..1", "ok 1 a", "ok 2 b"))
        self.assertFalse(self.both("1..2", "ok 1 a", "ok 1 a"))
        self.assertFalse(self.both("1..2", "ok 1 a", "ok 3 b"))
        self.assertFalse(self.both("1..0"))
        self.assertFalse(self.both("1..1"))
        self.assertTrue(self.both("1..2", "ok 1 a", "ok 2 b"))
        self.assertTrue(self.both("1..0 # SKIP no device"))
        self.assertTrue(self.both("says something"))

    def test_a_program_that_breaks_off_inside_a_test_fails(self):
        self.assertFalse(self.both("1..1", "# 1..1", "# ok 1 inner"))
        self.assertFalse(self.both("1..1", "# 1..2", "# ok 1 inner", "ok 1 outer"))
        self.assertFalse(self.both("1..1", "ok 1 a", "Bail out! no more"))
        self.assertTrue(self.both("1..1", "# 1..1", "# ok 1 inner", "ok 1 outer"))

    def test_a_program_that_runs_another_after_itself(self):
        one = ("TAP version 13", "1..1", "ok 1 a")
        self.assertTrue(self.both(*one, *one))
        self.assertFalse(self.both("TAP version 13", "1..2", "ok 1 a", *one))
        self.assertTrue(self.both("1..1", "# TAP version 13", "# 1..1", "# ok 1 x",
                                  "ok 1 a", *one))
        # A comment that looks like a result belongs to the program.
        self.assertTrue(self.both("# ok 1 x"))

    def test_levels_of_spaces_are_judged_as_ours(self):
        self.assertFalse(self.both("1..1", "  not ok 1 sub", "ok 1 a"))
        self.assertFalse(self.both("1..1", "  1..2", "  ok 1 sub", "ok 1 a"))
        self.assertFalse(self.both("1..1", "    1..1", "    not ok 1 sub", "ok 1 a"))
        self.assertFalse(self.both("1..1", "  # not ok 1 sub", "ok 1 a"))
        self.assertFalse(self.both("1..1", "#not ok 1 sub", "ok 1 a"))
        self.assertFalse(self.both("1..1", "ok 1 a", "  Bail out! no more"))
        self.assertTrue(self.both("1..1", "    KTAP version 1", "    1..1",
                                  "    ok 1 sub", "ok 1 a"))

    def test_directives_are_judged_as_ours(self):
        for word in ("todo", "xfail:", "Todo", "TODO # SKIP"):
            self.assertFalse(self.both("1..1", f"ok 1 a # {word} why"))
        self.assertTrue(self.both("1..1", "not ok 1 a # skip no device"))
        self.assertTrue(self.both("1..1", "not ok 1 a #skip: no device"))
        self.assertTrue(self.both("1..1", "ok 1 # Skip"))
        self.assertTrue(self.both("1..0 # skip no device"))
        # These only look like one.
        self.assertFalse(self.both("1..1", "not ok 1 a # SKIPPED"))
        self.assertFalse(self.both("1..1", "not ok 1 a#skip"))
        self.assertFalse(self.both("1..0 # no SKIP"))
        self.assertTrue(self.both("1..1", "ok 1 todo_list # todos: 2"))

    def test_any_awk_makes_the_same(self):
        for by in (("mawk",), ("gawk",), ("gawk", "--posix"), ("busybox", "awk")):
            if shutil.which(by[0]):
                with self.subTest(by=by):
                    self.assertEqual(awk("ktap", OUTPUT, "-v", "programs=3", by=by),
                                     awk("ktap", OUTPUT, "-v", "programs=3"))

    def test_a_plan_is_of_its_program_alone(self):
        text = ("# selftests: uq: a\n# 1..2\n# ok 1 x\nok 1 selftests: uq: a\n"
                "# selftests: uq: b\n# 1..1\n# ok 1 x\nok 2 selftests: uq: b\n")
        self.assertEqual(awk("ktap", text, "-v", "programs=2").splitlines(), [
            "uq_a.x pass", "uq_a pass", "uq_a.plan fail", "uq_b.x pass",
            "uq_b pass", "all_programs_ended pass"])


class Splats(unittest.TestCase):
    """The kernel's complaints are the same for LAVA as for us."""

    BAD = ("WARNING: CPU: 0 PID: 1 at fs/dax.c:1", "BUG: KASAN: use-after-free",
           "kernel BUG at mm/memory.c:1!", "Oops: 0000 [#1] SMP",
           "INFO: task x:1 blocked for more than 120 seconds.",
           "INFO: HARDIRQ-safe -> HARDIRQ-unsafe lock order detected",
           "INFO: rcu detected", "INFO: trying to register non-static key.",
           "x: possible circular locking", "possible deadlock",
           "inconsistent lock state", "suspicious RCU usage",
           "sleeping function called from invalid context", "task x:2 "
           "blocked for more than 9 seconds.", "scheduling while atomic: x",
           "UBSAN: array-index-out-of-bounds", "BUG: KCSAN: data-race in x",
           "KFENCE: memory corruption", "refcount_t: underflow; use-after-free.",
           "kmemleak: 1 new suspected memory leaks",
           "kmemleak: unreferenced object 0xffff888", "kmemleak: Kernel memory "
           "leak detector disabled", "unreferenced object 0xffff888003:",
           "Kernel panic - not syncing: x", "rcu: detected stalls on CPUs",
           "rcu: self-detected stall on CPU", "watchdog: soft lockup - CPU#0",
           "NMI watchdog: hard LOCKUP", "general protection fault, probably",
           "unable to handle page fault", "Bad page state in process x",
           "list_add corruption. next->prev", "list_del corruption, 1",
           "DEBUG_LOCKS_WARN_ON(1)", "Call Trace:", "Out of memory: Killed process 1",
           "held lock freed!", "irq 11: nobody cared (try booting with", "ODEBUG: x",
           "RIP: 0010:uq_read+0x1", "DMAR: [DMA Write NO_PASID] Request device "
           "[00:03.0] fault addr 0xffff0000", "DMAR: [INTR-REMAP] Request fault",
           "** 12 printk messages dropped **")
    GOOD = ("nvme nvme0: 2/0/0 queues", "uq_read: all is well", "DMAR: IOMMU enabled",
            "kmemleak: Kernel memory leak detector initialized", "INFO: taskset",
            "MYWARNING: no", "DEBUG: no", "preBUG: no", "list_address corruption",
            "DMAR: [Firmware Info]: faulty", "Oopsie")

    def test_both_find_the_same_lines(self):
        for line in (*self.BAD, *self.GOOD):
            text = f"[    4.000001] {line}\n"
            for options in ((), ("-v", "console=1")):
                self.assertEqual(awk("splats", text, *options) != "",
                                 line in self.BAD, line)
            self.assertEqual(ktap.splats(text) != [], line in self.BAD, line)

    def test_every_pattern_is_among_them(self):
        for pattern in ktap.SPLATS.pattern.split(r"|\b"):
            pattern = rf"\b{pattern.removeprefix(chr(92) + 'b')}"
            self.assertTrue(any(re.search(pattern, line) for line in self.BAD),
                            pattern)

    def test_what_a_test_announced_is_none(self):
        log = ("[    1.000000] overlay: expect /WARNING: .*uq_power/\n"
               "[    2.000000] WARNING: at uq_power.c:3\n"
               "[    3.000000] nothing to see\n")
        self.assertEqual((awk("splats", log), ktap.splats(log)), ("", []))
        bad = "[    5.000000] WARNING: at mm/memory.c:1\n"
        self.assertEqual(awk("splats", log + bad), bad)

    def test_on_a_console_programs_may_warn(self):
        log = ("# WARNING: a program says so\noverlay: expect /BUG: /\n"
               "ok 1 WARNING: x [    1.000000] BUG: the kernel\n")
        self.assertEqual(awk("splats", log, "-v", "console=1"),
                         log.splitlines(keepends=True)[2])
        self.assertEqual(len(ktap.splats(log)), 1)


class Groups(unittest.TestCase):
    """Tests are dealt out by the seconds that the tree has of them."""

    def test_balance(self):
        found = jobs.groups()
        self.assertLessEqual(jobs.balance(found), jobs.BALANCE)
        self.assertGreater(len(found), 8)

    def test_each_test_is_in_one_job_of_its_kernel(self):
        found = jobs.groups()
        for mode in kernels.having("checked"):
            names = [test for group in found if group.mode == mode
                     and not group.kind for test in group.tests]
            self.assertEqual(sorted(names), sorted(set(names)))
            self.assertEqual(set(names), set(jobs._given(mode)))

    def test_other_hardware_has_jobs(self):
        found = {group.name: group for group in jobs.groups() if group.kind}
        self.assertEqual(list(found), ["lean-intx", "lean-iommu"])
        job = jobs.job(found["lean-intx"], "https://ci.example.org/a", {})
        kernel = job["actions"][0]["deploy"]["images"]["kernel"]["image_arg"]
        self.assertIn("pci=nomsi swiotlb=force", kernel)
        steps = job["actions"][2]["test"]["definitions"][0]["repository"]["run"][
            "steps"]
        self.assertIn("KSELFTEST_UQ_IO_ARGS='-V irq'", "\n".join(steps))
        job = jobs.job(found["lean-iommu"], "https://ci.example.org/a", {})
        self.assertIn("-device intel-iommu", job["context"]["extra_options"])

    def test_the_record_has_all(self):
        known = reuse.noted(reuse.USUAL)
        for mode in kernels.having("checked"):
            self.assertEqual(set(jobs._given(mode)) - set(known[mode]), set(),
                             "make lava ARGS=record, when they ran")


class Jobs(unittest.TestCase):
    """A job has all that it needs."""

    def job(self, mode="lean", tests=("uq:uq_io", "uq:uq_fuzz"), **sums):
        """A job of these tests."""
        return jobs.job(jobs.Group(f"{mode}-1", mode, tests, 100),
                        "https://ci.example.org/a", sums)

    def test_files_and_checksums(self):
        job = self.job(**{"lean/bzImage": "0" * 64})
        images = job["actions"][0]["deploy"]["images"]
        self.assertEqual(images["kernel"]["url"],
                         "https://ci.example.org/a/lean/bzImage")
        self.assertEqual(images["kernel"]["sha256sum"], "0" * 64)
        self.assertNotIn("sha256sum", images["rootfs"])
        # Without libguestfs: LAVA's files go into the ramdisk.
        self.assertEqual(images["rootfs"]["format"], "cpio.newc")
        self.assertTrue(images["rootfs"]["overlays"]["lava"])

    def test_dispatchers_have_kvm_or_not(self):
        for named, without in (("tcg", True), ("kvm", False)):
            with mock.patch.dict(os.environ, {"ACCEL": named}):
                self.assertEqual("no_kvm" in self.job()["context"], without)
        with mock.patch.dict(os.environ, {"ACCEL": "KVM"}), \
                self.assertRaisesRegex(UserError, "ACCEL=KVM is not known"):
            self.job()

    def steps(self, job):
        """Return the steps of a job's guest."""
        return job["actions"][2]["test"]["definitions"][0]["repository"]["run"][
            "steps"]

    def test_the_script_is_a_shells(self):
        script = "\n".join(self.steps(self.job()))
        subprocess.run(["sh", "-n"], input=script, text=True, check=True)
        self.assertIn("KSELFTEST_UQ_FUZZ_ARGS='-V prp'", script)
        self.assertIn("-t uq:uq_io -t uq:uq_fuzz", script)


class Steps(Folder):
    """Check that a job's steps report to LAVA, whatever the guest does."""

    def lava(self, ktap_text=OUTPUT, log="", leak=False, refused=(), **programs):
        """The results that LAVA gets when the steps run here, with stubs."""
        tools = self.top / "tools"
        host.write(tools / "run_kselftest.sh", f"cat <<'X'\n{ktap_text}X\n")
        for name, text in {
                "lava-test-case": f'echo "$1 $3" >>{self.top}/lava', "sleep": ":",
                "dmesg": f"cat {self.top}/kmsg", **programs}.items():
            host.write(tools / name, f"#!/bin/sh\n{text}\n")
        for path in tools.iterdir():
            path.chmod(0o755)
        host.write(self.top / "kmsg", log)
        if leak:
            host.write(self.top / "kmemleak", "")
        script = "\n".join(jobs._steps(jobs.Group(
            "x", "lean", ("uq:uq_io", "uq:uq_cq", "filesystems/dax:read_dm.sh"), 1)))
        for old, new in (
                *((f"echo {word} ", "false ") for word in refused),
                ("/tmp/", f"{self.top}/"),
                ("/sys/kernel/debug/kmemleak", f"{self.top}/kmemleak"),
                (">/dev/kmsg", f">>{self.top}/kmsg"), (jobs.INSTALLED, str(tools)),
                # The findings of a scan.
                ("echo scan ", "echo unreferenced object 0xffff888 ")):
            script = script.replace(old, new)
        # As LAVA runs it.
        subprocess.run(["sh", "-c", f"set -e\n{script}"], capture_output=True,
                       check=False, text=True,
                       env={"PATH": f"{tools}:/usr/bin:/bin"})
        return (self.top / "lava").read_text("utf-8").splitlines()

    def test_results_arrive(self):
        found = self.lava()
        self.assertIn("uq_uq_io.irq.read_write pass", found)
        self.assertEqual(found[-2:], ["all_programs_ended pass", "no_splat pass"])

    def test_a_splat_is_told(self):
        self.assertEqual(self.lava(log="[    1.000000] WARNING: at x.c:1\n")[-1],
                         "no_splat fail")

    def test_a_leak_is_a_splat(self):
        self.assertEqual(self.lava(leak=True)[-1], "no_splat fail")

    def test_kmemleak_that_gave_up_loses_no_result(self):
        gave_up = "[    1.000000] kmemleak: Kernel memory leak detector disabled\n"
        for log, result in ((gave_up, "fail"), ("", "pass")):
            found = self.lava(log=log, leak=True, refused=("clear", "scan"))
            self.assertEqual(found[-2:], ["all_programs_ended pass",
                                          f"no_splat {result}"])

    def test_what_cannot_be_judged_has_failed(self):
        self.assertEqual(self.lava(awk="exit 2"),
                         ["all_programs_ended fail", "no_splat fail"])
        host.remove(self.top / "lava")
        self.assertEqual(self.lava(dmesg="exit 1")[-1], "no_splat fail")


class Command(Folder):
    """Check the messages of `make lava`."""

    def lava(self, url=""):
        """Return the messages, and the cases except those of the schema."""
        env = {**os.environ, "ARTIFACTS_URL": url}
        with mock.patch.dict(lava.os.environ, env, clear=True), \
                mock.patch.object(lava, "write", return_value=[]):
            cases = lava.main([])
        return "\n".join(call.args[0] for call in host.say.call_args_list), cases

    def test_jobs_that_no_farm_can_run_are_said(self):
        said, _ = self.lava()
        self.assertIn("without checksums", said)
        self.assertIn("ARTIFACTS_URL=", said)

    def artifacts(self, linux="7.3.4"):
        """Write artifacts of a run over this kernel, while 7.3.4 is present."""
        patch = mock.patch.object(artifacts, "of_now", lambda: {"linux": "7.3.4"})
        patch.start()
        self.addCleanup(patch.stop)
        for mode in kernels.having("checked"):
            host.write(artifacts.folder() / mode / "bzImage", "x")
        host.write(artifacts.folder() / "manifest.json", json.dumps({"linux": linux}))
        artifacts._sums()

    def test_artifacts_of_other_sources_are_as_none(self):
        self.artifacts(linux="7.3.3")
        said, cases = self.lava("https://ci.example.org/a")
        self.assertIn("without checksums", said)
        self.assertEqual([case.status for case in cases], [ktap.PASS])
        self.assertEqual(lava.checksums(), {})
        self.artifacts()
        self.assertIn("lean/bzImage", lava.checksums())

    def test_the_balance_is_a_case(self):
        case, = self.lava()[1]
        self.assertEqual(case.status, ktap.PASS)
        uneven = [jobs.Group("a", "lean", ("x",), 100),
                  jobs.Group("b", "lean", ("y",), 10)]
        with mock.patch.object(jobs, "groups", return_value=uneven):
            case, = self.lava()[1]
        self.assertEqual(case.status, ktap.FAIL)
        self.assertIn("1.82 times", case.detail)


class KernelCi(unittest.TestCase):
    """The pipeline's file builds all that the tests need."""

    TEXT = (jobs.CI / "kernelci.yaml").read_text("utf-8")

    def test_the_options_are_those_of_the_tests(self):
        fragments = {path: (name, re.findall(r"CONFIG_\w+=\w+", options))
                     for name, path, options in re.findall(
            r"^  (overlay-\w+):\n    path: (\S+)\n    configs: ([^]]*)",
            self.TEXT, re.MULTILINE)}
        used, = re.findall(r"fragments: \[(.*)\]", self.TEXT)
        self.assertEqual([name for name, _ in fragments.values()], used.split(", "))
        for target in kselftest.targets():
            path = f"{kselftest.TOP}/{target}/config"
            for option in (host.ROOT / path).read_text("utf-8").split():
                self.assertIn(option, fragments[path][1])
