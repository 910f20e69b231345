# SPDX-License-Identifier: GPL-2.0
"""What the page of results shows is what the runs left."""

import json
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from engine import host, ktap, page
from engine.host import UserError
from engine.kernels import HARDWARE
from engine.ktap import FAIL, PASS, SKIP, Case
from engine.page import collect
from engine.page.collect import Curve, Figures, Flame, Profile, Program, Span
from tests.test_host import Folder


def row(variant, insn, **params):
    return {"bench": "nvme", "variant": variant, "params": params,
            "insn_per_op": insn, "runs": 3, "spread_pct": 0.0}


class Left(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name)

    def results(self, step, *cases):
        ktap.junit(self.out / step / "junit.xml", step, list(cases))
        return collect.results(self.out, [step, "nothing"])


class Results(Left):

    def test_by_kernel_and_program(self):
        self.assertEqual(self.results(
            "kselftest",
            Case("lean: uq: uq_io: uq.irq.x", PASS),
            Case("debug: uq: uq_io: uq.irq.x", FAIL, "Expected 0 == 1"),
            Case("debug: uq: uq_io: uq.poll.y", SKIP, "no device"),
            Case("lean, pci=nomsi: filesystems/dax: read_dm.sh: a: b", PASS),
            Case("lean-1: the guest ran to its end", PASS)), [
            Program("kselftest", "lean", "uq: uq_io", passed=1),
            Program("kselftest", "debug", "uq: uq_io", failed=1, skipped=1,
                    failures=[("uq.irq.x", "Expected 0 == 1")],
                    skips=[("uq.poll.y", "no device")]),
            Program("kselftest", "lean, pci=nomsi",
                    "filesystems/dax: read_dm.sh", passed=1),
            Program("kselftest", "", "lean-1", passed=1)])

    def test_beside_each_other_are_the_kernels_of_one_step(self):
        programs = [Program("kunit", "debug", "suite"),
                    *(Program("kselftest", kernel, "uq: uq_io")
                      for kernel in ("lean", "debug")),
                    Program("kselftest", "", "lean-1")]
        self.assertEqual(collect.matrices(programs), {
            "kunit": {"suite": {"debug": programs[0]}},
            "kselftest": {"uq: uq_io": {"lean": programs[1],
                                        "debug": programs[2]}}})

    def test_suites_and_checkers(self):
        self.assertEqual(self.results("kunit", Case("um: suite: a", PASS)),
                         [Program("kunit", "um", "suite", passed=1)])
        self.assertEqual(self.results("lint", Case("ruff: a.py", PASS),
                                      Case("mypy", PASS)),
                         [Program("lint", "", "ruff", passed=1),
                          Program("lint", "", "lint", passed=1)])

    def test_what_was_kept_is_told_apart(self):
        found, = self.results("docs", *[
            Case(f"page: {name}", PASS, detail) for name, detail in
            (("a", f"{collect.STORED}: it ran at 12:00"), ("b", ""))])
        self.assertEqual((found.passed, found.stored), (2, 1))

    def test_a_failure_is_one_without_colour(self):
        found, = self.results("docs", Case("page: a", FAIL), Case("page: b", PASS))
        self.assertEqual(found.verdict(), "FAILED")

    def test_logs(self):
        host.write(self.out / "kunit" / "um.log", "")
        self.assertEqual(collect.logs(self.out, ["kunit", "lint"]),
                         {"kunit": ["kunit/um.log"]})

    def test_steps_with_one_log_have_a_link_to_it(self):
        host.write(self.out / "lint" / "log", "")
        host.write(self.out / "lint" / "junit.xml", "")
        self.assertEqual(collect.logs(self.out, ["lint"]), {"lint": ["lint/log"]})

    def log_of(self, step, name):
        """The log that a failure of this name leads to."""
        found, = self.results(step, Case(name, FAIL, "it failed"))
        return found.log

    def test_a_failure_leads_to_the_log_of_its_guest(self):
        for guest, programs in (("lean-1", ("uq: uq_io_more",)),
                                ("lean-2", ("uq: uq_io",)),
                                ("lean-intx", ("uq: uq_io",)),
                                ("debug", ("uq: uq_io",))):
            text = "".join(f"# selftests: {name}\n" for name in programs)
            host.write(self.out / "kselftest" / f"{guest}.ktap", text)
            host.write(self.out / "kselftest" / f"{guest}.boot.log", text)
        append = " ".join(HARDWARE["intx"].append)
        for name, guest in (
                ("lean: uq: uq_io: irq.x", "lean-2"),
                (f"lean, {append}: uq: uq_io: irq.x", "lean-intx"),
                ("debug: uq: uq_io: irq.x", "debug"),
                ("lean-1: the guest ran to its end", "lean-1")):
            self.assertEqual(self.log_of("kselftest", name),
                             f"kselftest/{guest}.boot.log", name)

    def test_a_failure_elsewhere_leads_to_the_log_of_its_step(self):
        host.write(self.out / "kunit" / "um.boot.log", "")
        self.assertEqual(self.log_of("kunit", "um: suite: a"), "kunit/um.boot.log")
        host.write(self.out / "lint" / "log", "")
        self.assertEqual(self.log_of("lint", "ruff: a/b.py"), "lint/log")
        self.assertEqual(self.log_of("series", "dax-read: b4"), "")

    def test_times(self):
        self.assertEqual(collect.spans(self.out), [])
        host.write(self.out / "check" / "times.json", json.dumps([
            {"step": "s", "what": what, "begin": begin, "seconds": 1.0}
            for what, begin in (("b", 2.0), ("guest lean-1", 1.0))]))
        self.assertEqual([(span.what, span.guest()) for span in
                          collect.spans(self.out)],
                         [("guest lean-1", "lean-1"), ("b", "")])

    def test_what_took_long_in_words(self):
        for step, what, guest, title in (
                ("kselftest", "guest lean-1", "lean-1", "kselftest: guest lean-1"),
                ("kunit", "KUnit: debug", "debug", "KUnit: debug"),
                ("kunit", "KUnit: um", "", "KUnit: um"),
                ("lint", "lint: mypy", "", "lint: mypy")):
            span = Span(step, what, 0, 59.6)
            self.assertEqual((span.guest(), span.title()), (guest, title))
        self.assertEqual((span.took(), Span("s", "w", 0, 9).took()),
                         ("1 min 00 s", "9 s"))


class Measured(Left):

    def test_the_front_page_has_one_plot_of_each_bench(self):
        rows = [row("uq", 9 * batch, batch=batch, bs=bs, config=config)
                for config in ("lean", "distro") for batch in (1, 8)
                for bs in (512, 4096)]
        self.assertEqual(collect.front(rows), [
            Curve("nvme", "batch", {"bs": 512, "config": "lean"},
                  {"uq": [(1, 9), (8, 72)]})])

    def test_over_each_parameter(self):
        rows = [row("uq", 9, batch=8, depth=8, bs=512),
                row("uq", 8, batch=1, depth=1, bs=512),
                row("uq", 7, batch=1, depth=1, bs=4096),
                row("block", 5, batch=1, depth=1, bs=512)]
        self.assertEqual(collect.curves(rows), [
            Curve("nvme", "batch", {"bs": 512, "depth": "as batch"},
                  {"uq": [(1, 8), (8, 9)]}),
            Curve("nvme", "bs", {"batch": 1, "depth": 1},
                  {"uq": [(512, 8), (4096, 7)]})])

    def test_axes(self):
        curve = Curve("dax-read", "size", {}, {"generic": [(8, 100), (64, 1600)],
                                               "read": [(8, 90), (512, 1440)]})
        self.assertEqual((curve.title(), curve.label()),
                         ("dax-read by size", "size, bytes"))
        self.assertEqual(curve.places(), [8, 64, 512])
        self.assertEqual((curve.doubling(), curve.steep()), (True, False))
        curve = Curve("x", "threads", {}, {"a": [(0, 0), (1, 9)], "b": [(1, 1)]})
        self.assertEqual(curve.label(), "threads")
        self.assertEqual((curve.doubling(), curve.steep()), (False, False))
        curve = Curve("x", "threads", {}, {"a": [(1, 10), (2, 161)]})
        self.assertEqual((curve.doubling(), curve.steep()), (False, True))

    def test_truth_is_no_number(self):
        self.assertEqual(collect.curves([row("uq", 1, fixed=True),
                                         row("uq", 2, fixed=False)]), [])

    def test_what_make_bench_wrote(self):
        self.assertEqual(collect.measured(self.out, self.out / "none"), Figures())
        host.write(self.out / "bench.json", json.dumps({
            "kernel": "7.3", "results": [row("uq", 1)], "lines": [row("uq", 2)]}))
        self.assertEqual(collect.measured(self.out), Figures(
            {"kernel": "7.3"}, [row("uq", 1)], [row("uq", 2)]))

    def test_what_the_tree_keeps_stands_for_what_was_not_measured_here(self):
        kept = self.out / "results.json"
        host.write(kept, json.dumps({
            "parts": {"nvme": {"commit": "a1"}, "nvme-iommu": {"commit": "b2"},
                      "dax-read": {"commit": "a1"}}, "results": [row("uq", 1)],
            "lines": [row("uq", 2)]}))
        found = collect.measured(self.out, kept)
        self.assertEqual((found.rows, found.lines), ([row("uq", 1)], [row("uq", 2)]))
        self.assertEqual(list(found.about.values()), ["a1 (nvme, dax-read); "
                                                      "b2 (nvme-iommu)"])
        self.assertTrue(collect.measured(self.out).rows)

    def test_parameters_in_words(self):
        said = collect.words({"fs": "ext4", "size": 8, "hole": False,
                              "fixed": True, "queues": 1})
        self.assertEqual(said.replace("\N{NO-BREAK SPACE}", " "),
                         "fs ext4, size 8, hole no, fixed yes, queues 1")
        self.assertEqual(said.count(" "), 4)


class Profiles(Left):

    def left(self, name, *variants, stacks="4 reads: {};a;b 40\n4 reads: {};c 4\n"):
        """What a profile's files are, by variant of this order."""
        folder = self.out / "bench"
        host.write(folder / f"{name}.txt", "# Reads\n# by function\n#\n"
                   "  generic  read   function\n  40  12   all\n")
        for variant in variants:
            host.write(folder / f"{name}-{variant}.folded",
                       stacks.replace("{}", variant))

    def test_before_and_after(self):
        self.left("profile-8", "read", "generic", "read_iter")
        host.write(self.out / "bench" / "profile-8-read.txt",
                   "# Reads\n  100.00%  12  [.] x\n")
        found, = collect.profiles(self.out)
        self.assertEqual((found.name, found.title), ("profile-8", "Reads"))
        self.assertEqual(found.stacks, {
            variant: f"profile-8-{variant}.folded"
            for variant in ("generic", "read", "read_iter")})
        self.assertEqual(found.flames, tuple(
            Flame(variant, "read", {("a", "b"): 10, ("c",): 1})
            for variant in ("generic", "read")))

    def test_a_profile_is_not_that_of_a_longer_name(self):
        for name in ("profile-nvme-poll-1", "profile-nvme-poll-128"):
            self.left(name, "uq-memory")
        found, _ = collect.profiles(self.out)
        self.assertEqual(found.stacks, {
            "uq-memory": "profile-nvme-poll-1-uq-memory.folded"})

    def test_what_is_drawn_comes_first_if_it_is_all_there(self):
        self.left("profile-4096", "generic", "read")
        self.left("profile-8", "generic")
        self.left("profile-nvme-irq-1", "passthru", "uq")
        self.left("profile-nvme-irq-32", "passthru", "uq")
        self.left("profile-nvme-poll-32", "passthru", "uq")
        self.assertEqual(
            [(one.name, len(one.flames)) for one in collect.profiles(self.out)],
            [("profile-nvme-poll-32", 2), ("profile-nvme-irq-1", 2),
             ("profile-4096", 0), ("profile-8", 0), ("profile-nvme-irq-32", 0)])

    def test_stacks_of_nothing_are_not_drawn(self):
        self.left("profile-8", "generic", "read", stacks="")
        found, = collect.profiles(self.out)
        self.assertEqual(found.flames, ())

    def test_boxes_stand_on_their_callers(self):
        flame = Flame("x", "read", {("a",): 1, ("a", "b"): 2, ("c",): 4,
                                    ("a", "d", "e"): 8, ("a", "b", "e"): 16})
        self.assertEqual({box.stack: (box.left, box.wide) for box in flame.boxes()}, {
            (): (0, 31), ("a",): (0, 27), ("a", "b"): (0, 18),
            ("a", "b", "e"): (0, 16), ("a", "d"): (18, 8), ("a", "d", "e"): (18, 8),
            ("c",): (27, 4)})

    def test_in_lines(self):
        flame = Flame("x", "read", {("a",): 1, ("a", "b"): 2, ("c",): 4, ("d",): 0.5,
                                    ("a", "d", "e"): 8, ("a", "b", "e"): 16})
        self.assertEqual(["".join(box.stack) for box in flame.tree()],
                         ["", "a", "ab", "abe", "ad", "ade", "c"])

    def test_by_function_in_words(self):
        before = Flame("x", "read", {("a",): 1, ("a", "b"): 2, ("b",): 4})
        after = Flame("y", "read", {("a",): 1, ("new",): 2})
        self.assertEqual(Profile("p", "t", {}, (before, after)).table(), [
            ("b", [6, 0]), ("a", [1, 1]), ("new", [0, 2])])


class Command(Folder):
    """What `make report` does with the page that was there."""

    def setUp(self):
        super().setUp()
        self.page = host.OUT / "report" / "index.html"
        host.write(self.page, "of an earlier run")

    def report(self, *args, error=None):
        """The page after a run whose drawing ends so."""
        with mock.patch.object(host, "pytool"), \
                mock.patch.object(host, "run", side_effect=error) as run:
            page.main([*args])
        return run

    def test_a_page_that_cannot_be_drawn_leaves_the_old_one(self):
        with self.assertRaisesRegex(UserError, "broken"):
            self.report(error=UserError("bench.json is broken"))
        self.assertEqual(self.page.read_text("utf-8"), "of an earlier run")

    def test_it_takes_nothing(self):
        with self.assertRaisesRegex(UserError, "report takes nothing"):
            self.report("kselftest")
        self.assertEqual(self.report().call_count, 1)


if __name__ == "__main__":
    unittest.main()
