# SPDX-License-Identifier: GPL-2.0
"""Check that failures count, however the output is cut or nested."""

import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

from engine import ktap

KSELFTEST = """\
TAP version 13
1..2
# timeout set to 300
# selftests: filesystems/dax: read_diff
# TAP version 13
# 1..3
# # Starting 3 tests from 1 test cases.
# #  RUN           dax.small ...
# #            OK  dax.small
# ok 1 dax.small
# # read_diff.c:12:hole:Expected 0 (0) == 5 (5)
# not ok 2 dax.hole
# ok 3 dax.eof # SKIP no pmem
# # FAILED: 1 / 2 tests passed.
not ok 1 selftests: filesystems/dax: read_diff # exit=1
# timeout set to 300
# selftests: filesystems/dax: read_exec
ok 2 selftests: filesystems/dax: read_exec
"""

KUNIT = """\
[    0.100000] KTAP version 1
[    0.100001] 1..1
[    0.100002]     KTAP version 1
[    0.100003]     # Subtest: ext4_dax
[    0.100004]     # module: ext4_dax_read_test
[    0.100005]     1..2
[    0.100006]         KTAP version 1
[    0.100007]         # Subtest: lookup
[    0.100008]         ok 1 written
[    0.100009]         ok 2 hole
[    0.100010]     # lookup: pass:2 fail:0 skip:0 total:2
[    0.100011]     ok 1 lookup
[    0.100012]     ok 2 eof
[    0.100013] # ext4_dax: pass:2 fail:0 skip:0 total:2
[    0.100014] ok 1 ext4_dax
"""


def statuses(text):
    """How the cases of some output ended, in order."""
    return [case.status for case in ktap.parse(text)]


def failures(text):
    """The details of the cases that failed."""
    return [case.detail for case in ktap.parse(text)
            if case.status == ktap.FAIL]


class Parse(unittest.TestCase):
    """Output as kselftest and KUnit write it."""

    def test_kselftest_nests_and_names(self):
        cases = ktap.parse(KSELFTEST)
        self.assertEqual([case.name for case in cases], [
            "filesystems/dax: read_diff: dax.small",
            "filesystems/dax: read_diff: dax.hole",
            "filesystems/dax: read_diff: dax.eof",
            "filesystems/dax: read_exec"])
        self.assertEqual(statuses(KSELFTEST),
                         ["pass", "fail", "skip", "pass"])
        self.assertIn("Expected 0", cases[1].detail)
        self.assertEqual(cases[2].detail, "no pmem")

    def test_kunit_nests_with_parameters(self):
        cases = ktap.parse(KUNIT)
        self.assertEqual([case.name for case in cases], [
            "ext4_dax: lookup: written", "ext4_dax: lookup: hole",
            "ext4_dax: eof"])
        self.assertEqual(statuses(KUNIT), ["pass"] * 3)

    def test_kunit_parameters_without_a_plan(self):
        text = "\n".join([
            "KTAP version 1", "1..1", "    KTAP version 1",
            "    # Subtest: a", "    ok 1 b", "    ok 2 c", "ok 1 a"])
        self.assertEqual(statuses(text), ["pass", "pass"])

    def test_plan_at_the_end(self):
        self.assertEqual(statuses("TAP version 13\nok 1 a\n1..1\n"), ["pass"])

    def test_two_documents_in_a_row(self):
        text = "TAP version 13\n1..1\nok 1 a\nTAP version 13\n1..1\nok 1 b\n"
        self.assertEqual(statuses(text), ["pass", "pass"])

    def test_the_whole_program_skips(self):
        text = ("TAP version 13\n1..1\n# TAP version 13\n"
                "# 1..0 # SKIP not root\nok 1 selftests: a: b # SKIP\n")
        cases = ktap.parse(text)
        self.assertEqual([(c.status, c.detail) for c in cases],
                         [("skip", "not root")])


class MustBeRed(unittest.TestCase):
    """Everything that a careless judge would let pass."""

    def test_no_output(self):
        self.assertEqual(failures(""), ["no test ran"])
        self.assertEqual(failures("hello\nworld\n"), ["no test ran"])

    def test_zero_tests(self):
        self.assertEqual(failures("TAP version 13\n1..0\n"), ["no test ran"])

    def test_truncated_plan(self):
        found = failures("TAP version 13\n1..3\nok 1 a\nok 2 b\n")
        self.assertEqual(found, ["3 results were planned and 2 came"])

    def test_more_than_planned(self):
        self.assertTrue(failures("TAP version 13\n1..1\nok 1 a\nok 2 b\n"))

    def test_no_plan(self):
        self.assertEqual(failures("TAP version 13\nok 1 a\n"),
                         ["the results had no plan"])

    def test_truncated_nested_plan_under_a_passing_parent(self):
        text = "TAP version 13\n1..1\n# 1..2\n# ok 1 a\nok 1 b\n"
        self.assertEqual(failures(text),
                         ["2 results were planned and 1 came"])

    def test_nested_failure_under_a_passing_parent(self):
        text = "TAP version 13\n1..1\n# 1..1\n# not ok 1 a\nok 1 b\n"
        self.assertEqual(statuses(text), ["fail"])

    def test_failing_parent_of_passing_tests(self):
        text = ("TAP version 13\n1..1\n# 1..1\n# ok 1 a\n"
                "not ok 1 b # exit=139\n")
        self.assertEqual(failures(text), ["exit=139"])

    def test_crash_half_way_through_a_nested_test(self):
        text = KSELFTEST[:KSELFTEST.index("# not ok 2")]
        found = failures(text)
        self.assertIn("3 results were planned and 1 came", found)
        self.assertIn("2 results were planned and 0 came", found)
        self.assertIn(ktap.BROKE_OFF.detail, found)

    def test_crash_before_a_parent_reports(self):
        text = "1..1\n    1..2\n        1..1\n        ok 1 x\nok 1 suite\n"
        found = failures(text)
        self.assertIn("2 results were planned and 0 came", found)
        self.assertIn(ktap.BROKE_OFF.detail, found)

    def test_expected_failures_are_no_passes(self):
        for line in ("not ok 1 a # TODO later", "ok 1 a # XFAIL no luck",
                     "ok 1 # XFAIL a", "not ok 1 a # XFAIL", "ok 1 a # TODO"):
            with self.subTest(line):
                self.assertEqual(statuses(f"TAP version 13\n1..1\n{line}\n"),
                                 ["fail"])

    def test_missing_number(self):
        found = failures("TAP version 13\n1..3\nok 1 a\nok 3 c\n")
        self.assertTrue(any("results are missing" in line for line in found))

    def test_bail_out(self):
        self.assertIn("disk gone",
                      failures("1..1\nok 1 a\nBail out! disk gone\n"))


class Splats(unittest.TestCase):
    """A kernel's complaint in a boot log is a failure naming its line."""

    COMPLAINTS = (
        "WARNING: CPU: 0 PID: 1 at fs/ext4/file.c:12 ext4_x+0x1/0x2",
        "WARNING: possible circular locking dependency detected",
        "BUG: KASAN: slab-use-after-free in ext4_x+0x1/0x2",
        "BUG: sleeping function called from invalid context at a.c:1",
        "UBSAN: array-index-out-of-bounds in fs/ext4/x.c:1:2",
        "refcount_t: underflow; use-after-free.",
        "INFO: task x:12 blocked for more than 240 seconds.",
        "kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug)",
        "kmemleak: unreferenced object 0xffff888004f0a000 (size 192):",
        "rcu: INFO: rcu_preempt self-detected stall on CPU",
        "Kernel panic - not syncing: Oops",
        "watchdog: BUG: soft lockup - CPU#0 stuck for 22s!",
        "Oops: general protection fault, probably for non-canonical address",
        "WARNING: suspicious RCU usage",
        "DMAR: [DMA Write NO_PASID] Request device [00:04.0] fault addr "
        "0x1000 [fault reason 0x05] PTE Write access is not set",
    )

    def test_each_kind_is_seen_with_its_line(self):
        for text in self.COMPLAINTS:
            with self.subTest(text):
                log = f"[    0.000001] Linux\n[    1.000000] {text}\n"
                found = ktap.splats(log)
                self.assertEqual(len(found), 1)
                self.assertTrue(found[0].startswith("line 2: "))

    def test_quiet_log(self):
        log = ("[    0.000000] kmemleak: Kernel memory leak detector "
               "initialized (mem pool available: 39000)\n"
               "[    0.100000] nd_pmem namespace0.0: pmem0 registered\n")
        self.assertEqual(ktap.splats(log), [])

    def test_a_program_may_print_what_it_likes(self):
        log = "[    0.000001] Linux\nWARNING: the program says so\n"
        self.assertEqual(ktap.splats(log), [])

    def test_mid_line_after_a_program(self):
        log = "[    0.000001] Linux\n# half a l[    1.000000] BUG: KASAN: x\n"
        self.assertEqual(len(ktap.splats(log)), 1)

    def test_a_log_without_stamps_is_all_the_kernels(self):
        self.assertEqual(len(ktap.splats("Linux\nWARNING: CPU: 0 PID: 1\n")),
                         1)

    def test_expected_ones(self):
        log = ("[    1.000000] overlay: expect /at fs\\/pmem/\n"
               "[    2.000000] WARNING: CPU: 0 at fs/pmem.c:1\n"
               "[    3.000000] WARNING: CPU: 0 at fs/dax.c:1\n")
        found = ktap.splats(log)
        self.assertEqual(len(found), 1)
        self.assertIn("fs/dax.c", found[0])

    def test_a_program_announces_nothing(self):
        log = ("[    0.000001] Linux\n# overlay: expect /fs/\n"
               "overlay: expect /fs/\n"
               "[    1.000000] uq: a test said overlay: expect /fs/\n"
               "[    2.000000] WARNING: CPU: 0 at fs/dax.c:1\n")
        self.assertEqual(len(ktap.splats(log)), 1)

    def test_dropped_messages(self):
        log = ("[    0.000001] Linux\n** 4 printk messages dropped **\n"
               "[    1.000000] ext4 is here\n")
        self.assertEqual(ktap.splats(log),
                         ["line 2: ** 4 printk messages dropped **"])

    def test_a_taint_that_the_log_does_not_show(self):
        def taint(value, log=""):
            return [case.detail for case in ktap.taint_cases(
                "g", f"ok 1\n# overlay: taint {value}\n", log)]
        self.assertEqual(len(taint(512)), 1)
        self.assertIn("(DW)", taint(128 + 512)[0])
        # an out-of-tree module
        self.assertEqual(taint(4096), [])
        self.assertEqual(taint(0), [])
        self.assertEqual(ktap.taint_cases("g", "ok 1\n", ""), [])
        expected = ("[    1.000000] overlay: expect /at fs/\n"
                    "[    2.000000] WARNING: CPU: 0 at fs/dax.c:1\n")
        self.assertEqual(taint(512, expected), [])
        self.assertEqual(len(taint(128, expected)), 1)
        # that there is a splat is said already
        self.assertEqual(taint(512, "[    1.000000] WARNING: x\n"), [])

    def test_suites_run_in_their_own_guest_only(self):
        def taint(value, suites):
            return [case.name for case in ktap.taint_cases(
                "g", f"# overlay: taint {value}\n", "", suites)]
        tested, warned = 1 << 18, 1 << 9
        self.assertEqual(taint(tested, False), ["g: no KUnit suite ran"])
        self.assertEqual(taint(tested, True), [])
        self.assertEqual(taint(0, False), [])
        self.assertEqual(taint(tested + warned, True),
                         ["g: the kernel is not tainted"])
        self.assertEqual(taint(tested + warned, False),
                         ["g: no KUnit suite ran",
                          "g: the kernel is not tainted"])

    def test_with_the_caller_in_the_stamp(self):
        log = ("[    1.000000][   T12] overlay: expect /at fs/\n"
               "[    2.000000][   T12] WARNING: CPU: 0 at fs/dax.c:1\n"
               "[    3.000000][    C0] WARNING: CPU: 0 at mm/x.c:1\n")
        self.assertEqual(len(ktap.splats(log)), 1)

    def test_what_user_space_says_through_the_kernels_log(self):
        log = ("[    1.000000] virtme-ng-init: WARNING: failed to run: "
               "systemd-tmpfiles (error: Os { code: 2 })\n"
               "[    1.100000] virtme-ng-init: WARNING: failed to run: ip\n"
               "[    1.200000] systemd-udevd[77]: WARNING: no group kvm\n"
               "[    1.300000] systemd[1]: WARNING: no\n")
        self.assertEqual(ktap.splats(log), [])
        self.assertEqual(len(ktap.splats(
            log + "[    2.000000] WARNING: CPU: 0 PID: 1 at virtme-ng-init: "
            "x\n")), 1)

    def test_a_program_that_speaks_before_the_kernel(self):
        log = "[    0.000001] Linux\nWARNING: x[    1.000000] ext4 is here\n"
        self.assertEqual(ktap.splats(log), [])

    def test_the_case_names_the_line(self):
        log = "[    0.000001] Linux\n[    1.000000] BUG: KASAN: x\n"
        case = ktap.splat_cases("lean", log, "out/a.log")[0]
        self.assertEqual(case.status, ktap.FAIL)
        self.assertIn("out/a.log line 2", case.detail)


class Results(unittest.TestCase):
    """Totals and JUnit XML."""

    CASES = (ktap.Case("a", "pass"), ktap.Case("b", "fail", "why\x1b[0m"),
             ktap.Case("c", "skip", "no"))

    def test_total(self):
        self.assertEqual(ktap.total(self.CASES),
                         "1 passed, 1 failed, 1 skipped")
        self.assertEqual(ktap.total(self.CASES[:1]), "1 passed, 0 failed")

    def test_junit(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "deep" / "junit.xml"
            ktap.junit(path, "suite", self.CASES)
            root = ElementTree.parse(path).getroot()
        self.assertEqual(root.attrib["tests"], "3")
        self.assertEqual(root.attrib["failures"], "1")
        self.assertEqual(root[1][0].attrib["message"], "why?[0m")


if __name__ == "__main__":
    unittest.main()
