# SPDX-License-Identifier: GPL-2.0
"""Docs: what to build, and which of Sphinx's complaints are ours."""

import collections
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from engine import build, docs, host, source
from engine.lay import Item


def item(target, kind="file"):
    return Item(target, target, kind)


class Scratch(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = Path(folder.name) / "tree"
        for name in ("filesystems/index.rst", "filesystems/ext4/index.rst",
                     "admin-guide/index.rst", "admin-guide/about.rst"):
            self.page(name, "x\n")

    def page(self, name, text):
        host.write(self.tree / "Documentation" / name, text)


class What(Scratch):

    def test_pages(self):
        items = [item("Documentation/filesystems/dax.rst", "patch"),
                 item("Documentation/ABI/testing/sysfs-x"),
                 item("Documentation/admin-guide/kernel-parameters.txt"),
                 item("fs/ext4/toy.c"), item("fs/ext4/Kconfig")]
        self.assertEqual(docs.pages(items), [
            "Documentation/admin-guide/kernel-parameters.txt",
            "Documentation/filesystems/dax.rst"])
        self.assertEqual(docs.sources(items), ["fs/ext4/toy.c"])
        self.assertEqual(docs.abi_files(items),
                         ["Documentation/ABI/testing/sysfs-x"])

    def test_nearest_folder_with_an_index(self):
        for target, where in (("filesystems/ext4/toy.rst", "filesystems/ext4"),
                              ("filesystems/dax.rst", "filesystems"),
                              ("filesystems/ext4/a/b.rst",
                               "filesystems/ext4"),
                              ("nowhere/x.rst", None)):
            self.assertEqual(
                docs.folder(f"Documentation/{target}", self.tree), where)

    def test_what_leads_to_a_page_is_built_too(self):
        self.page("filesystems/ext4/over.rst", "x\n\n.. toctree::\n\n   toy\n")
        self.page("filesystems/ext4/toy.rst", "x\n")
        self.page("filesystems/ext4/other.rst", "see toy for more\n")
        self.page("admin-guide/params.rst", ".. include:: params.txt\n")
        self.page("admin-guide/params.txt", "x\n")
        self.assertEqual(
            docs.plan(["Documentation/filesystems/ext4/toy.rst",
                       "Documentation/admin-guide/params.txt"], self.tree),
            {"admin-guide": ["index.rst", "params.rst"],
             "filesystems/ext4": ["index.rst", "over.rst", "toy.rst"]})


class Complaints(Scratch):

    def found(self, text):
        return docs.complaints(text.replace("TREE", str(self.tree)),
                               self.tree)

    def ours(self, text, before=""):
        return docs.ours(self.found(text), self.found(before), self.tree,
                         docs.labels(self.tree))

    def test_line_numbers_do_not_matter(self):
        line = "TREE/Documentation/filesystems/dax.rst:%d: WARNING: odd\n"
        self.assertEqual(self.ours(line % 9, before=line % 5), [])

    def test_one_more_of_the_same_is_ours(self):
        line = "TREE/Documentation/filesystems/dax.rst:%d: WARNING: odd\n"
        self.assertEqual(
            self.ours(line % 9 + line % 12, before=line % 5),
            ["Documentation/filesystems/dax.rst: WARNING: odd"])

    def test_twice_in_abi_is_the_same_in_each_folder(self):
        line = ("WARNING: /sys/x is defined 2 times: Documentation/ABI/a; "
                "Documentation/ABI/b\n")
        self.assertEqual(self.ours(line * 2, before=line), [])
        self.assertEqual(len(self.ours(line)), 1)

    def test_a_comment_in_a_source_is_found(self):
        found = self.ours("WARNING: TREE/fs/ext4/toy.c:8 'x' not described\n")
        self.assertTrue(docs.of_file(found, "fs/ext4/toy.c"))

    def test_errors_count_too(self):
        self.assertTrue(self.ours(
            "TREE/Documentation/filesystems/x.rst:3: ERROR: indented\n"))

    def test_a_page_in_a_folder_that_is_not_built(self):
        line = ("TREE/Documentation/filesystems/x.rst:3: WARNING: unknown "
                "document: '/admin-guide/%s'\n")
        self.assertEqual(self.ours(line % "about"), [])
        self.assertTrue(self.ours(line % "missing"))

    def test_a_label_in_a_folder_that_is_not_built(self):
        self.page("process/how.rst", ".. _HowTo:\n\nHow\n===\n")
        line = ("TREE/Documentation/filesystems/x.rst:3: WARNING: undefined "
                "label: '%s'\n")
        self.assertEqual(self.ours(line % "howto"), [])
        self.assertTrue(self.ours(line % "whyto"))

    def test_a_page_that_was_left_out(self):
        line = ("TREE/Documentation/admin-guide/index.rst:3: WARNING: toctree "
                "contains reference to nonexisting document '%s'\n")
        self.assertEqual(self.ours(line % "about"), [])
        self.assertTrue(self.ours(line % "abuot"))

    def test_a_label_that_another_page_has(self):
        self.page("process/how.rst", ".. _HowTo:\n\nHow\n===\n")
        self.page("filesystems/x.rst", ".. _howto:\n\n.. _mine:\n\nX\n=\n")
        self.assertEqual(
            docs.text_of(self.tree, "Documentation/filesystems/x.rst",
                         docs.labels(self.tree)),
            ["label howto is also in Documentation/process/how.rst"])

    def test_a_file_that_is_not_there(self):
        for name, wrong in (("about", False), ("missing", True)):
            self.page("x.rst", f"Documentation/admin-guide/{name}.rst has more.\n")
            self.assertEqual(
                bool(docs.text_of(self.tree, "Documentation/x.rst", {})), wrong)

    def test_what_is_no_complaint(self):
        self.assertEqual(self.found("Using alabaster theme\n  CC  warning.o"),
                         collections.Counter())


class Pages(Scratch):
    """check_pages() with Sphinx's words put into its mouth."""

    PAGE = "Documentation/filesystems/toy.rst"

    def cases(self, text, *, written=True, failed=False, targets=None):
        out = self.tree.parent / "out"
        into = self.tree.parent / "build" / "docs"
        self.page("filesystems/toy.rst", "Toy\n===\n")
        self.page("nowhere/x.rst", "X\n=\n")
        if written:
            host.write(docs.html_of(into, self.PAGE), "<html>")
        output = text.replace("TREE", str(self.tree))

        def said(tree, wanted, into, *_):
            return ("", False) if "upstream" in into.name else (output, failed)
        with mock.patch.object(docs, "sphinx", said), \
                mock.patch.object(build, "top",
                                  return_value=self.tree.parent), \
                mock.patch.object(source, "kernel",
                                  return_value=SimpleNamespace(path=self.tree)), \
                mock.patch.object(host, "say"):
            items = [item(name) for name in targets or
                     (self.PAGE, "fs/ext4/toy.c")]
            return docs.check_pages(self.tree, items, out)

    def failed(self, *args, **kwargs):
        return [case.name for case in self.cases(*args, **kwargs)
                if case.status == "fail"]

    def test_good(self):
        self.assertEqual(self.failed(""), [])

    def test_warning_in_our_page(self):
        self.assertEqual(self.failed(f"TREE/{self.PAGE}:3: WARNING: odd\n"),
                         [f"page {self.PAGE}"])

    def test_warning_in_our_comment(self):
        self.assertEqual(
            self.failed("WARNING: TREE/fs/ext4/toy.c:8 'x' not described\n"),
            ["comments in fs/ext4/toy.c"])

    def test_warning_that_we_cause_elsewhere(self):
        self.assertEqual(
            self.failed("TREE/Documentation/filesystems/index.rst:3: "
                        "WARNING: no such document\n"),
            ["nothing else is complained of"])

    def test_page_that_was_not_written(self):
        self.assertEqual(self.failed("", written=False),
                         [f"page {self.PAGE}"])

    def test_sphinx_failed(self):
        self.assertEqual(self.failed("", failed=True), ["make htmldocs"])

    def test_page_below_no_index(self):
        cases = self.cases("", targets=["Documentation/nowhere/x.rst",
                                        self.PAGE])
        self.assertIn("NOT RUN", next(case.detail for case in cases
                                      if "nowhere" in case.name))

    def test_no_page_at_all(self):
        self.assertEqual(self.failed("", targets=["fs/ext4/toy.c"]),
                         ["pages"])


if __name__ == "__main__":
    unittest.main()
