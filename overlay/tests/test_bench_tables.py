# SPDX-License-Identifier: GPL-2.0
"""README.md's tables have the figures of results.json."""

import unittest

from bench import tables
from engine.host import UserError


class Tables(unittest.TestCase):
    def test_a_figure_that_is_not_measured(self):
        text, found = tables.README.read_text("utf-8"), tables.results()
        self.assertEqual(list(tables.check(text, found)),
                         [("gains", []), ("commands", [])])
        row = tables.rows("gains", found)[0]
        (_, wrong), _ = tables.check(text.replace(row, row + " "), found)
        self.assertEqual(len(wrong), 1)
        self.assertIn("row 1 is", wrong[0])

    def test_a_table_that_is_gone_or_unknown(self):
        self.assertEqual(list(tables.check("", tables.results())),
                         [("gains", ["it has 0 rows of 3"]),
                          ("commands", ["it has 0 rows of 4"])])
        with self.assertRaisesRegex(UserError, "no table others"):
            list(tables.check("<!-- table: others -->\n<!-- end -->\n",
                              tables.results()))

    def test_a_row_without_a_figure(self):
        with self.assertRaisesRegex(UserError, "no figure for the row"):
            tables.rows("gains", [])


if __name__ == "__main__":
    unittest.main()
