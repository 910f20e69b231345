# SPDX-License-Identifier: GPL-2.0
"""KCSAN: a race of ours is red, one of upstream's is listed and no more."""

import unittest
from pathlib import Path
from unittest import mock

from engine import build, guest, host, kernels, kselftest, ktap, races
from tests.test_host import Folder

RULE = "[   12.000000] " + "=" * 66


def report(title, *frames, number=12):
    """A report as the kernel prints it."""
    return "\n".join([
        RULE, f"[   {number}.000001] BUG: KCSAN: data-race in {title}", "",
        *(f"[   12.000002]  {name}+0x1a/0x40" for name in frames),
        "[   12.000003] value changed: 0x0 -> 0x1",
        "[   12.000004] Reported by Kernel Concurrency Sanitizer on:", RULE])


BOTH = report("nvme_uq_submit / nvme_uq_reap.isra.0", "nvme_uq_submit")
OURS = report("io_wq_worker / short_name", "short_name")
ALONE = report("ext4_dax_read_user+0x10/0x80")
CALLED = report("llist_add_batch / llist_del_first", "llist_add_batch",
                "short_name")
THEIRS = report("a / b", "a")
MINE = frozenset({"short_name", "nvme_uq_reap"})


class Races(Folder):
    """Reading the reports of a boot log."""

    def cases(self, *reports):
        """The cases of a boot that printed these."""
        return races.cases("g", "\n".join(reports), self.top, MINE)

    def failed(self, *reports):
        """Which races of such a boot are red."""
        return [case.name.removeprefix("g: no data race of ours: ")
                for case in self.cases(*reports)
                if case.status == ktap.FAIL]

    def test_functions_are_named_as_in_the_source(self):
        found, = races.find(BOTH)
        self.assertEqual(found.functions, ("nvme_uq_submit", "nvme_uq_reap"))
        self.assertEqual(found.line, 2)
        self.assertIn("value changed", found.text)
        alone, = races.find(ALONE)
        self.assertEqual(alone.functions, ("ext4_dax_read_user",))

    def test_one_of_the_two_is_enough(self):
        self.assertEqual(self.failed(BOTH), ["nvme_uq_submit / nvme_uq_reap"])
        self.assertEqual(self.failed(OURS), ["io_wq_worker / short_name"])
        self.assertEqual(self.failed(ALONE), ["ext4_dax_read_user"])

    def test_upstreams_are_listed(self):
        cases = self.cases(THEIRS, CALLED, THEIRS)
        self.assertEqual([case.status for case in cases], [ktap.PASS])
        listed = (self.top / "g.races.txt").read_text("utf-8")
        self.assertTrue(listed.startswith("2 x a / b\n"))
        self.assertIn("1 x llist_add_batch / llist_del_first",
                      listed)
        host.say.assert_called_once()

    def test_other_splats_stay(self):
        text = races.without(BOTH + "\n[   13.000000] WARNING: at x\n")
        self.assertEqual(len(ktap.splats(text)), 1)
        self.assertEqual(ktap.splats(races.without(THEIRS)), [])

    def test_functions_of_our_objects(self):
        output = "one t 0 10\nTwo T 10 20\nthing d 0 8\nthree.part.0 t 0 1\n"
        races.own_functions.cache_clear()
        self.addCleanup(races.own_functions.cache_clear)
        with mock.patch.object(host, "output", return_value=output), \
                mock.patch.object(build, "folder", return_value=self.top), \
                mock.patch.object(build, "own_sources",
                                  return_value=["drivers/nvme/host/uq/core.c"]):
            self.assertEqual(races.own_functions(), {"one", "Two", "three"})

    def test_a_guest_of_kcsans_kernel_is_judged_so(self):
        boot = guest.Boot("kcsan-1", True, BOTH, "TAP version 13\n1..1\n"
                          "ok 1 a\n", files={"log": self.top / "log"})
        share = kselftest.Share("kcsan", "kcsan-1", self.top, ("uq:a",))
        with mock.patch.object(guest, "boot", return_value=boot), \
                mock.patch.object(build, "folder", return_value=self.top), \
                mock.patch.object(races, "own_functions", return_value=MINE):
            cases = kselftest._boot(share, self.top)
        self.assertEqual(
            [case.name for case in cases if case.status == ktap.FAIL],
            ["kcsan-1: no data race of ours: nvme_uq_submit / nvme_uq_reap"])

    def test_what_is_watched(self):
        for name in ("drivers/nvme/host", "fs/ext4"):
            host.write(self.top / name / "Makefile", "")
        with mock.patch.object(build, "tree", return_value=self.top):
            names = build.variables("kcsan")
        self.assertIn("KCSAN_SANITIZE=n", names)
        self.assertIn("KCSAN_SANITIZE_uq/pci.o=y", names)
        self.assertIn("KCSAN_SANITIZE_dax-read.o=y", names)
        # KCSAN has one of that name, and must not watch itself.
        self.assertNotIn("KCSAN_SANITIZE_core.o=y", names)


    def test_ubsan_is_for_ours_and_what_we_patch(self):
        for name in ("drivers/nvme/host", "fs", "fs/ext4"):
            host.write(self.top / name / "Makefile", "")
        with mock.patch.object(build, "tree", return_value=self.top):
            names = build.variables("debug")
        self.assertIn("UBSAN_SANITIZE=n", names)
        for name in ("uq/pci", "dax-read", "core", "dax"):
            self.assertIn(f"UBSAN_SANITIZE_{name}.o=y", names)

    def test_it_is_switched_on(self):
        # allnoconfig switches defaults off.
        wanted = build.wanted_config("kcsan")
        for name in ("KCSAN", "KCSAN_EARLY_ENABLE",
                     "KCSAN_INTERRUPT_WATCHER",
                     "KCSAN_REPORT_RACE_UNKNOWN_ORIGIN"):
            self.assertEqual(wanted.get(f"CONFIG_{name}"), "y", name)


class Soak(Folder):
    """What `make soak` runs."""

    def soak(self, *args):
        """The shares of a soak with these arguments."""
        with mock.patch.object(kselftest, "prepare", return_value=(
                Path("in"), [*kernels.RACING, "uq:uq_setup"], [])), \
                mock.patch.object(kselftest, "run",
                                  return_value=[]) as run, \
                mock.patch.object(kselftest.build, "build"), \
                mock.patch.object(kselftest.kunit, "main",
                                  return_value=[]) as suites, \
                mock.patch.object(kselftest.fsx, "run",
                                  return_value=[]) as exercised, \
                mock.patch.object(kselftest.series, "main",
                                  return_value=[]) as compiled, \
                mock.patch.object(kselftest, "targets", return_value=["uq"]):
            kselftest.soak([*args])
        self.compiled = [call.args[0] for call in compiled.mock_calls]
        self.exercised = [call.args[0] for call in exercised.mock_calls]
        self.suites = [call.args[0] for call in suites.mock_calls]
        return run.call_args.args[0] if run.called else []

    def run_by(self, mode, shares):
        """Return all tests that the guests of a mode run."""
        return sorted(test for share in shares if share.mode == mode
                      for test in share.tests)

    def test_all_on_debug_and_what_races_on_kcsan(self):
        shares = self.soak()
        self.assertIn("uq:uq_setup", self.run_by("debug", shares))
        self.assertEqual(self.run_by("kcsan", shares),
                         sorted(kernels.RACING))
        self.assertEqual({share.mode for share in shares if share.scale > 1},
                         {"debug", "kcsan"})
        # Upstream's kernel runs all of them once.
        self.assertIn("uq:uq_setup", self.run_by("lean-base", shares))

        self.assertEqual(self.exercised, ["debug"])
        self.assertEqual(self.suites, [["um"]])
        self.assertEqual(self.compiled, [["arches"]])

    def test_commits_for_other_architectures_alone_and_with_others(self):
        self.assertEqual(self.soak("arches"), [])
        self.assertEqual((self.compiled, self.exercised, self.suites),
                         ([["arches"]], [], []))
        self.assertEqual({share.mode for share in self.soak("arches", "kcsan")},
                         {"kcsan"})
        self.assertEqual(self.compiled, [["arches"]])
        self.soak("fsx", "arches")
        self.assertEqual((self.compiled, self.exercised), ([["arches"]], ["debug"]))


if __name__ == "__main__":
    unittest.main()
