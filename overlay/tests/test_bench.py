# SPDX-License-Identifier: GPL-2.0
"""Check that figures are parsed correctly, and that errors are reported."""

import io
import json
import tempfile
import unittest
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from unittest import mock

from bench import command, dax_read, guests, nvme, parts, profiles, results
from engine import host, ktap, limits
from engine.host import UserError
from engine.ktap import Case

MAP = """\
ffffffff81000000 T _text
ffffffff81000100 T vfs_read
ffffffff81000200 t ext4_map_blocks
ffffffff81000300 D some_data
"""


def line(variant, run, insn, **params):
    """One line of a measuring program."""
    params = {"fs": "ext4", "syscall": "pread", "size": 8, "extents": 1,
              "hole": "false", "threads": 1, **params}
    words = " ".join(f"{name}={value}" for name, value in params.items())
    return f"cell dax-read {variant} {words} run={run} insn={insn}\n"


def output(generic=1000, read_iter=600, read=500, simple=None, lookup=None, **params):
    """A complete output of some variants in three runs."""
    figure = {"generic": generic, "simple": simple, "lookup": lookup,
              "read_iter": read_iter, "read": read}
    return "kernel parameter=yes read=yes\n" + "".join(
        line(variant, run, insn, **params) for run in range(3)
        for variant, insn in figure.items() if insn) + "complete\n"


def overwrites(write):
    """An output of overwrites, which take 1000 the generic way."""
    return output(read_iter=None, read=write, syscall="pwrite").replace(
        "dax-read", "dax-write").replace("dax-write read ", "dax-write write ")


def met():
    """An output that meets all limits."""
    text = output(read_iter=550, simple=820, lookup=720, read=490)
    text += output(read_iter=640, read=None, fs="xfs")
    text += output(read=620, extents=100) + output(read=580, extents=10000)
    text += overwrites(650)
    return text + "".join(
        output(read_iter=1000, read=None, fs=fs, syscall=syscall)
        for fs in ("ext4", "xfs") for syscall in ("preadv-2", "read-fixed"))


def rows(text=None, config="lean"):
    """Results of an output."""
    return results.read(text or output(), config)


def status(cases, start):
    """How the case ended that has a name with this start."""
    return next(case for case in cases if case.name.startswith(start))


class Parse(unittest.TestCase):
    def test_types_and_medians(self):
        text = (line("generic", 0, 10) + line("generic", 1, 30)
                + line("generic", 2, 20) + "complete 1 cells\n")
        result, = rows(text)
        self.assertEqual(result["insn_per_op"], 20)
        self.assertEqual(result["runs"], 3)
        self.assertEqual(result["params"], {
            "fs": "ext4", "syscall": "pread", "size": 8, "extents": 1, "hole": False,
            "threads": 1, "config": "lean"})


class Judge(unittest.TestCase):
    def test_bars_met(self):
        cases = dax_read.judge(rows(met()))
        self.assertEqual([case.status for case in cases],
                         [ktap.PASS] * len(cases))

    def test_bars_of_the_hard_cases(self):
        for text, name in (
                (output(read=581, extents=10000), "read takes at most 0.58 of "
                 "generic at 8 bytes of ext4, extents 10000"),
                (output(simple=821), "simple takes at most 0.82 of generic"),
                (output(lookup=721), "lookup takes at most 0.72 of generic"),
                (output(read_iter=1001, syscall="preadv-2"), "read_iter takes "
                 "at most 1.00 of generic at 8 bytes of ext4, syscall preadv-2")):
            case = status(dax_read.judge(rows(text)), name)
            self.assertEqual(case.status, ktap.FAIL)
            self.assertRegex(case.detail, r"= [01]\.[0578][028]1,")

    def test_variants_of_three_kernels(self):
        def count(mode, _out, _which, _runs, fs):
            insns = {"lean-generic": 1000, "lean-simple": 800, "lean": 700}
            text = line("floor", 0, 199, syscall="getppid", fs=fs).replace(
                "dax-read", "syscall") + line("generic", 0, insns[mode], fs=fs)
            if mode == "lean":
                text += line("read_iter", 0, 500, fs=fs)
            return rows(text + "complete\n", mode)
        for fs, lookup in (("ext4", [("lookup", 700)]), ("xfs", [])):
            with mock.patch.object(dax_read, "_count", count):
                found = dax_read._variants("lean", Path(), "few", 1, fs)
            self.assertEqual([(row["variant"], row["insn_per_op"]) for row in found
                              if row["bench"] == dax_read.BENCH],
                             [("generic", 1000), ("simple", 800), *lookup,
                              ("read_iter", 500)])
            self.assertEqual({row["params"]["config"] for row in found}, {"lean"})

    def test_bar_of_a_cached_lookup(self):
        for here, status_ in ((70, ktap.PASS), (71, ktap.FAIL)):
            seen = {("generic", 8): {"ext4_map_blocks": 60, "_raw_read_lock": 40,
                                     "vfs_read": 9},
                    ("lookup", 8): {"ext4_map_blocks": here}}
            self.assertEqual(dax_read.cached(seen).status, status_)
        self.assertEqual(dax_read.cached({}).status, ktap.FAIL)

    def test_boots_that_count_differently(self):
        def floor(insn, config):
            return rows(line("floor", 0, insn, syscall="getppid").replace(
                "dax-read", "syscall") + "complete\n", config)
        dax_read.agree(floor(200, "lean"), floor(201, "lean-generic"))
        with self.assertRaisesRegex(UserError, "do not compare"):
            dax_read.agree(floor(200, "lean"), floor(203, "lean-generic"))

    def test_overwrites(self):
        for write, name in ((651, "write takes at most 0.65"),
                            (1021, "no cell is slower")):
            cases = dax_read.judge(rows(overwrites(write)))
            self.assertEqual(status(cases, name).status, ktap.FAIL)

    def test_missing_variant_is_not_run(self):
        cases = dax_read.judge(rows(output(read=None)))
        case = status(cases, "read takes")
        self.assertEqual(case.status, ktap.FAIL)
        self.assertIn("NOT RUN", case.detail)

    def test_a_slower_cell(self):
        text = output() + output(read=1021, size=65536)
        case = status(dax_read.judge(rows(text)), "no cell")
        self.assertEqual(case.status, ktap.FAIL)
        self.assertIn("size=65536", case.detail)
        self.assertNotIn("size=8 ", case.detail)

    def test_runs_that_differ(self):
        text = "".join(line("generic", run, insn) for run, insn
                       in enumerate([100, 100, 150])) + "complete\n"
        case = status([command.steady(rows(text))], "runs of a cell")
        self.assertEqual(case.status, ktap.FAIL)

    def test_interrupts_of_two_commands_may_differ(self):
        def judged(batch, mode):
            return command.steady([{
                "bench": "nvme", "variant": "uq", "insn_per_op": 2012,
                "runs": 5, "spread_pct": 7.21,
                "params": {"mode": mode, "batch": batch}}]).status
        self.assertEqual(judged(2, "irq"), ktap.PASS)
        self.assertEqual(judged(1, "irq"), ktap.FAIL)
        self.assertEqual(judged(32, "irq"), ktap.FAIL)
        self.assertEqual(judged(2, "poll"), ktap.FAIL)


class Report(unittest.TestCase):
    def test_table(self):
        data = {"kernel": "7.3.4", "commit": "none", "tool": "QEMU",
                "results": rows()}
        text = command.report(data, dax_read.judge(rows()))
        self.assertRegex(text, r"8 B of data, 1 extent \| +1000 \| +600 \| "
                               r"+0\.600 \| +500 \| +0\.500")

    def test_written_files(self):
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(host, "OUT", Path(folder)), \
                redirect_stdout(io.StringIO()) as said:
            data = {"kernel": "7.3.4", "commit": "none", "tool": "QEMU",
                    "results": rows()}
            command._finish(data, [], [])
            self.assertTrue(said.getvalue().endswith(
                "written: out/bench.json, out/bench.md\n"))
            read = json.loads((Path(folder) / "bench.json").read_text())
            self.assertEqual(set(read), {"kernel", "commit", "tool",
                                         "results"})
            self.assertEqual(set(read["results"][0]), {
                "bench", "variant", "params", "insn_per_op", "runs",
                "spread_pct"})


class Apart(unittest.TestCase):
    """Each part is kept or not for itself; figures of a busy machine are not."""

    def run_part(self, taken=0.1, work=None, memory=False):
        """Return a run after one part."""
        run = command.Run(Path("out"))
        part = parts.Part("toys", work or mock.Mock(return_value=rows()),
                          lambda found: [Case("judged", ktap.PASS)], ("toy",),
                          memory=memory)
        with mock.patch.object(command.limits.Others, "look",
                               return_value=taken):
            run.measure(part)
        return run

    def test_a_busy_machine(self):
        run = self.run_part(0.3)
        case = status(run.cases, f"toys: {command.QUIET}")
        self.assertEqual((case.status, case.detail),
                         (ktap.FAIL, "others took 0.3 processors"))
        self.assertEqual(run.good, [])
        self.assertEqual(run.rows, rows())

    def test_reads_of_memory_do_not_need_a_quiet_machine(self):
        run = self.run_part(0.3, memory=True)
        self.assertEqual(run.good, ["toys"])
        self.assertNotIn(command.QUIET, "".join(case.name for case in run.cases))

    def test_our_own_work_is_not_that_of_others(self):
        with mock.patch.object(limits, "_busy", side_effect=[
                (1000, 8000), (1150, 8400), (1250, 8800)]), \
                mock.patch.object(limits, "_ours", side_effect=[10, 12, 15]), \
                mock.patch.object(limits.time, "monotonic",
                                  side_effect=[50, 52, 54]), \
                mock.patch.object(limits.os, "cpu_count", return_value=4):
            others = limits.Others()
            # Of 1.5 processors 1 was ours, and of one more than that.
            self.assertEqual([others.look(), others.look()], [0.5, 0])


class Complete(unittest.TestCase):
    """A guest that lost a command, or broke off, has measured nothing."""

    def boot(self, output):
        with mock.patch.object(guests.guest, "boot", return_value=mock.Mock(
                ktap=output, cases=list)) as booted:
            try:
                return guests.boot("lean", Path("out"), "toy", "toy.sh", ())
            except UserError as error:
                return str(error)
            finally:
                booted.assert_called_once()

    def test_whole(self):
        self.assertEqual(self.boot("complete\n"), "complete\n")

    def test_errors_are_final(self):
        for line in ("/dev/ng0n1: result -4", "0 of 32 completions",
                     "no /dev/ng0n1q1"):
            self.assertEqual(self.boot(f"error {line}\ncomplete\n"),
                             f"the measurement failed: {line}")
        self.assertIn("broke off", self.boot("cell nvme\n"))


class Profile(unittest.TestCase):
    OUTPUT = "profiled generic 8 2 2\ncomplete profile\n"
    # The second round has a timer tick in it.
    RAW = ("block 1 call ffffffff81000108 ffffffff81000104\n"
           "block 2 - ffffffff81000212 ffffffff81000210\n"
           "block 3 - 401004 401000\n"
           "round\nsums 1*4 2*6 3*2\nran 3*2 1 2*3 1 2 1 2 1 2\n"
           "round\nsums 1*900\nran 1*900\n")

    def profiles(self, output=None, raw=None):
        """Instructions by function of each profile."""
        return profiles.profiles(output or self.OUTPUT, raw or self.RAW, MAP)

    def test_written(self):
        found = profiles.profiles(self.OUTPUT, self.RAW, MAP)["generic", 8]
        with tempfile.TemporaryDirectory() as folder:
            profiles.write(Path(folder), "8", {"generic": found}, "a read")
            self.assertIn("6   all", (Path(folder) / "profile-8.txt").read_text())

    def test_windows_and_the_rounds_that_count(self):
        # Two windows a round; one round of four has others' work in it.
        raw = self.RAW[:self.RAW.index("round")] + "".join(
            f"round\nsums 1*{first}\nran 1*{first}\n"
            f"round\nsums 2*{then}\nran 2*{then}\n" for first, then
            in ((4, 6), (4, 906), (4, 8), (4, 10)))
        found = self.profiles("profiled generic 8 2 4 2 +-++\ncomplete profile\n",
                              raw)
        self.assertEqual(found, {("generic", 8): {
            "vfs_read": 2, "ext4_map_blocks": 4}})
        with self.assertRaisesRegex(UserError, "fewer rounds"):
            profiles.profiles("profiled generic 8 2 5 2 +-+++\n"
                             "complete profile\n", raw, MAP)


class Main(unittest.TestCase):
    def built_or_not(self, broken):
        """Stand in for build.build()."""
        def build(mode):
            if mode == broken:
                raise UserError("it does not compile")
        return build

    def run_main(self, *args, distro, broken=""):
        """Run main() without guests; return its cases and its output."""
        finish = command._finish

        def finished(data, cases, good):
            self.kept = good, len(data["results"])
            return finish(data, cases, good)
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(host, "OUT", Path(folder)), \
                mock.patch.object(command, "PARTS", (parts.Part(
                    "dax-read", lambda *_: rows(),
                    lambda _: dax_read.judge(rows(met())), ("dax-read",),
                    layers=True),
                    replace(parts.PARTS[-2], rows=mock.Mock(**distro)),
                    replace(parts.PARTS[-1], rows=mock.Mock(return_value=[]),
                            judge=mock.Mock(return_value=[])))), \
                mock.patch.object(command.build, "build", side_effect=
                                  self.built_or_not(broken)) as build, \
                mock.patch.object(command, "_finish", finished), \
                mock.patch.object(command.limits.Others, "look",
                                  return_value=0.0), \
                mock.patch.object(
                    command, "_data", side_effect=lambda found, followed: {
                        "kernel": "7.3.4", "commit": "none", "tool": "QEMU",
                        "results": found, "lines": followed}), \
                redirect_stdout(io.StringIO()):
            cases = command.main(list(args))
            self.built = [call.args[0] for call in build.call_args_list]
            return cases, json.loads((Path(folder) / "bench.json").read_text())

    def distro(self, uq):
        """Results of the distribution-like kernel."""
        return rows(config="distro") + [
            {"bench": "nvme", "variant": variant, "insn_per_op": insns, "runs": 3,
             "spread_pct": 0.0, "params": nvme._cell("poll", 32, True, 512,
                                                     config="distro")}
            for variant, insns in (("passthru", 1000), ("uq", uq))]

    def test_bar_of_the_other_kernel(self):
        cases, _ = self.run_main(distro={"return_value": self.distro(461)})
        case = status(cases, "uq, poll, batch 32, 512 B, fixed, distro kernel")
        self.assertEqual(case.status, ktap.FAIL)
        self.assertIn("0.461", case.detail)

    def test_named_parts(self):
        lost = {"side_effect": AssertionError("it was not asked for")}
        layers = ["lean-generic", "lean-simple"]
        every = ["lean", "lean-base", *layers]
        for args, built in ((("dax-read",), ["lean", *layers]),
                            (("lean",), every), (("lines",), every)):
            _, data = self.run_main(*args, distro=lost)
            self.assertEqual(len(data["results"]),
                             3 if {"dax-read", "lean"} & {*args} else 0)
            self.assertCountEqual(self.built, built)
        self.run_main("distro", distro={"return_value": self.distro(460)})
        self.assertCountEqual(self.built, ["distro", "distro-base",
                                           "distro-generic", "distro-simple"])

    def test_a_kernel_that_does_not_build_loses_its_parts_alone(self):
        cases, data = self.run_main(distro={"return_value": []},
                                    broken="distro")
        case = status(cases, "the distro kernel was built")
        self.assertEqual((case.status, case.detail),
                         (ktap.FAIL, "NOT RUN: it does not compile"))
        self.assertEqual(len(data["results"]), 3)

    def test_what_breaks_off_keeps_what_was_measured(self):
        with self.assertRaises(ZeroDivisionError):
            self.run_main(distro={"side_effect": ZeroDivisionError})
        self.assertEqual(self.kept, (["dax-read"], 3))


if __name__ == "__main__":
    unittest.main()
