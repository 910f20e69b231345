# SPDX-License-Identifier: GPL-2.0
"""Snippets: the C code of a page, as files that a compiler accepts."""

import unittest

from engine import snippets

PAGE = """\
Title
=====

.. code-block:: c

    #include <stdio.h>

    int main(void)
    {
            return 0;
    }

Text::

    not C

.. code-block:: c

    int one = fd;

More.

.. code-block:: c

    one++;
"""


class Snippets(unittest.TestCase):

    def test_a_block_with_an_include_is_a_program(self):
        self.assertEqual(snippets.programs(PAGE)[0], "#include <stdio.h>\n\n"
                         "int main(void)\n{\n        return 0;\n}\n")

    def test_other_blocks_form_one_function(self):
        self.assertEqual(snippets.programs(PAGE)[1], f"{snippets.PRELUDE}"
                         "int one = fd;\none++;\nreturn 0;\n}\n")
        self.assertEqual(len(snippets.programs(PAGE)), 2)

    def test_a_page_without_c(self):
        self.assertEqual(snippets.programs("Text::\n\n    $ ls\n"), [])


if __name__ == "__main__":
    unittest.main()
