# SPDX-License-Identifier: GPL-2.0
"""Figures in prose: each number of instructions says where it is from."""

import json
import tempfile
import unittest
from pathlib import Path
from typing import ClassVar
from unittest import mock

from engine import host, prose
from engine.bench import command, lines, parts
from engine.host import UserError

NAME = "overlay/series/toys/0001-fast"
TEXT = """Subject: toys: be fast

In 2021 a toy of 512 bytes took 543 ns.

A toy takes 779 instructions, of 1,452 before, for 10,000 extents of
4096 bytes. See 0123456 and v7.3.412.

  size     before   after
  4 KiB      5544    4867

It has 1234 wheels.

Files:
fs/instructions-9999.c
"""
LIST = f"""# why
{NAME} 779 5544 4867 : counted once

{NAME} 1452 : toy-read variant=old size=8
"""
ROWS = [{"bench": "toy-read", "variant": variant, "insn_per_op": value,
         "params": {"size": size, "hole": False}}
        for variant, size, value in (("old", 8, 1455.2), ("new", 8, 700.0),
                                     ("old", 512, 2000.0))]

# The same as `make bench` has it.
LEAN = [{**row, "bench": "dax-read",
         "params": {**row["params"], "config": "lean"}} for row in ROWS]


class Figures(unittest.TestCase):

    def wrong(self, text=TEXT, known=LIST, rows=None, name=NAME):
        return [line for _, line in prose.complaints(
            [(name, text)], prose.listed(known), rows)]

    def test_numbers_of_instructions(self):
        self.assertEqual(prose.numbers(TEXT), ["779", "1452", "5544", "4867"])

    def test_all_are_listed(self):
        self.assertEqual(self.wrong(), [])

    def test_a_figure_that_changed(self):
        self.assertEqual(self.wrong(TEXT.replace("779", "797")), [
            "797 instructions: overlay/bench/figures does not say where they "
            "are from",
            "overlay/bench/figures has 779, which is not there"])

    def test_a_result_that_changed(self):
        self.assertEqual(self.wrong(rows=ROWS), [])
        moved = [{**ROWS[0], "insn_per_op": 1300.0}, *ROWS[1:]]
        self.assertIn("1452 instructions are 1300 by", self.wrong(rows=moved)[0])

    def test_a_row_has_to_be_one(self):
        self.assertIn("0 results are", self.wrong(rows=ROWS[1:])[0])
        known = LIST.replace(" size=8", " hole=false")
        self.assertIn("2 results are", self.wrong(known=known, rows=ROWS)[0])

    def test_what_is_prose(self):
        for name in (NAME, "README.md", "Documentation/x.rst",
                     "overlay/series/toys/0000-cover"):
            self.assertTrue(prose.is_prose(name), name)
        for name in (f"{NAME}.without", "overlay/series/trailers", "fs/x.c",
                     "overlay/ci/README.md"):
            self.assertFalse(prose.is_prose(name), name)

    def test_a_line_that_cannot_be_read(self):
        for line in (f"{NAME} 779", f"{NAME} : counted", f"{NAME} 779 : "):
            with self.assertRaisesRegex(UserError, "figures, line 2"):
                prose.listed(f"#\n{line}\n")


class Kept(unittest.TestCase):
    HEAD: ClassVar = {"kernel": "7.3.4", "commit": "0123", "tool": "QEMU"}

    def setUp(self):
        self.LINES = {"bench": "nvme", "variant": "uq", "params": {"cpus": 1},
                      **dict.fromkeys(lines.KEPT, 1.5)}
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "results.json"
        for what in (mock.patch.object(command.prose, "RESULTS", self.path),
                     mock.patch.object(command, "_draw"),
                     mock.patch.object(command.measure, "compiler",
                                       return_value="gcc"),
                     mock.patch.object(host, "WORK", host.OUT / "none")):
            what.start()
            self.addCleanup(what.stop)

    def keep(self, rows, followed, commit, *names):
        return command._keep({**self.HEAD, "commit": commit, "results": rows,
                              "lines": followed}, list(names))

    def kept(self):
        return json.loads(self.path.read_text("utf-8"))

    def test_a_row_a_line(self):
        written = self.keep([{**row, "spread_pct": 0.1} for row in LEAN],
                            [{**self.LINES, "runs": 3}], "0123", "dax-read",
                            "lines")
        self.assertIn("overlay/bench/results.json", written)
        text = self.path.read_text("utf-8")
        data = json.loads(text)
        self.assertEqual(data["results"], LEAN)
        self.assertEqual(data["parts"]["dax-read"], {
            **self.HEAD, "compiler": "gcc", "config": None})
        self.assertEqual(text.count("\n"), len(LEAN) + text.partition(
            '"results": [')[0].count("\n") + 6)
        self.assertEqual(data["lines"], [self.LINES])

    def test_a_part_leaves_the_others(self):
        nvme = {"bench": "nvme", "variant": "uq", "insn_per_op": 951.0,
                "params": {"config": "lean", "iommu": "off"}}
        behind = {**nvme, "params": {"config": "lean", "iommu": "strict"}}
        other = {**LEAN[0], "params": {"config": "distro"}}
        self.keep([nvme, behind, other, *LEAN], [self.LINES], "0123", *parts.NAMES)
        self.assertEqual(self.kept()["results"], [*LEAN, nvme, behind, other])
        again = {**behind, "insn_per_op": 3130.0}
        # what was measured beside other work is not kept
        self.keep([again, {**nvme, "insn_per_op": 1.0}], [], "4567", "nvme-iommu")
        data = self.kept()
        self.assertEqual(data["results"], [*LEAN, nvme, again, other])
        self.assertEqual(data["lines"], [self.LINES])
        self.assertEqual({name: part["commit"]
                          for name, part in data["parts"].items()},
                         {**dict.fromkeys(parts.NAMES, "0123"),
                          "nvme-iommu": "4567"})

    def test_cache_lines_alone_leave_the_instructions(self):
        self.keep(LEAN, [], "4567", "dax-read")
        self.assertEqual(self.keep([], [self.LINES], "0123", "lines"),
                         ["overlay/bench/results.json"])
        data = self.kept()
        self.assertEqual((data["parts"]["dax-read"]["commit"], data["results"]),
                         ("4567", LEAN))
        self.assertEqual((data["parts"]["lines"]["commit"], data["lines"]),
                         ("0123", [self.LINES]))

    def test_nothing_good_is_nothing_written(self):
        self.assertEqual(self.keep(LEAN, [], "0123"), [])
        self.assertFalse(self.path.exists())


if __name__ == "__main__":
    unittest.main()
