# SPDX-License-Identifier: GPL-2.0
"""Check the measurements of `make here`, and the paths that it refuses."""

import json
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from engine import here, host
from engine.host import UserError


class Named(unittest.TestCase):
    """Check the paths that users can name."""

    def test_kinds(self):
        self.assertEqual(here.kind(__file__), "file")

    def test_refused(self):
        for path, why in (("/nowhere/at/all", "No such file"),
                          ("/dev/null", "is not a file, a node of a user queue"),
                          ("/tmp", "is not a file, a node of a user queue")):
            with self.subTest(path), self.assertRaisesRegex(UserError, why):
                here.kind(path)

    def test_ways_to_a_namespace(self):
        for path, what, variant in (("/dev/ng0n1q1", "node", "uq"),
                                    ("/dev/ng0n1", "node", "passthru"),
                                    ("/dev/nvme0n1", "block", "block")):
            self.assertEqual({cell.variant for cell in here.cells(path, what)},
                             {variant})

    def test_programs_can_do_no_more_than_read(self):
        for source in (here.DAX, here.UQ):
            text = source.read_text("utf-8")
            self.assertIn("O_RDONLY", text)
            self.assertNotRegex(text, r"O_RDWR|O_WRONLY|pwrite|prep_write")


class Lines(unittest.TestCase):
    """Check the output."""

    def test_counters(self):
        self.assertEqual(here.read_line(
            "size=8 reads=100 ns=98.5 instructions=655.0 cycles=230.1\n"),
            {"ns": 98.5, "cycles": 230.1, "instructions": 655.0})


class ForReal(unittest.TestCase):
    """A file of this machine."""

    def measured(self, length: int, size: int, files: int = 1):
        """The rows of reads of SIZE bytes, of files that are LENGTH bytes long."""
        with tempfile.TemporaryDirectory() as top, \
                mock.patch.object(host, "OUT", Path(top) / "out"), \
                mock.patch.object(here, "SIZES", (size,)):
            named = [Path(top) / f"file{number}" for number in range(files)]
            for file in named:
                file.write_bytes(bytes(length))
            here.main([str(file) for file in named])
            self.assertEqual({file.read_bytes() for file in named},
                             {bytes(length)})
            return json.loads(
                (host.OUT / "here" / "here.json").read_text())["rows"]

    def test_a_file_is_read(self):
        row, = self.measured(65536, 8)
        self.assertEqual(row["why"], "")
        self.assertGreater(row["found"]["ns"], 0)

    def test_a_file_that_is_too_short_says_so(self):
        row, = self.measured(100, 4096)
        self.assertIn("FILE is shorter than one read", row["why"])


if __name__ == "__main__":
    unittest.main()
