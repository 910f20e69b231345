# SPDX-License-Identifier: GPL-2.0
"""Modules: what is exported, what is needed, and what is then missing."""

import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from engine import host, modular
from engine.host import Plain

NM = """
                 U copy_mc_to_user
                 U memcpy
                 w optional
"""
C = """EXPORT_SYMBOL(memcpy);
EXPORT_SYMBOL_NS_GPL( in_a_space, "SPACE");
EXPORT_PER_CPU_SYMBOL(a_cpus);
EXPORT_SYMBOL_FOR_MODULES(for_some, "some");
"""


class Shop:
    """A build folder that holds one module, and the tree beside it."""

    def __init__(self, top, code=0, module="drivers/dax/dax.mod"):
        self.tree, self.build = top / "tree", top / "build"
        self.log, self.code, self.module = top / "log", code, module
        host.write(self.tree / "lib/string.c", C)
        host.write(self.tree / "sound/x.c", "EXPORT_SYMBOL(a_sound);\n")
        host.write(self.build / "drivers/dax/old.mod", "")

    def configure(self):
        pass

    def make(self, *args, **kwargs):
        host.write(self.build / self.module, "")
        return SimpleNamespace(returncode=self.code)


class Modular(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = Path(folder.name)

    def missing(self, needs, **kwargs):
        with mock.patch.object(modular, "FOLDERS", ("drivers/dax/",)), \
                mock.patch.object(modular, "_needs", return_value=needs):
            return list(modular.missing(Shop(self.top, **kwargs)))

    def test_what_a_module_needs(self):
        self.assertEqual(modular.undefined(NM), {"copy_mc_to_user", "memcpy"})

    def test_exports_of_each_kind(self):
        shop = Shop(self.top)
        self.assertEqual(modular._exported(shop),
                         {"memcpy", "in_a_space", "a_cpus", "for_some"})

    def test_exported(self):
        self.assertEqual(self.missing({"memcpy"}),
                         [("drivers/dax/dax.ko", [])])

    def test_not_exported(self):
        self.assertEqual(self.missing({"memcpy", "copy_mc_to_user"}),
                         [("drivers/dax/dax.ko",
                           ["copy_mc_to_user is not exported"])])

    def test_what_no_line_of_the_source_names(self):
        self.assertEqual(self.missing({"__this_module", "_dev_err",
                                       "__SCT__WARN_trap", "param_ops_int"}),
                         [("drivers/dax/dax.ko", [])])

    def test_what_does_not_compile(self):
        with self.assertRaisesRegex(Plain, "do not compile"):
            self.missing(set(), code=2)

    def test_no_module_at_all(self):
        with self.assertRaisesRegex(Plain, "has no module"):
            self.missing(set(), module="fs/x.mod")


if __name__ == "__main__":
    unittest.main()
