# SPDX-License-Identifier: GPL-2.0
"""Check the lists of exported, needed and missing symbols."""

import subprocess
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from engine import host, modular
from engine.host import UserError

NM = """
                 U copy_mc_to_user
0000000000000010 T dax_found
0000000000000020 t dax_own
                 U memcpy
                 w optional
"""
NM_OF = """0000000000000010 T dax_found
0000000000000020 t dax_own
{}"""
C = """EXPORT_SYMBOL(memcpy);
EXPORT_SYMBOL_NS_GPL( in_a_space, "SPACE");
EXPORT_PER_CPU_SYMBOL(a_cpus);
EXPORT_SYMBOL_FOR_MODULES(for_some, "some");
"""


class Shop:
    """A build folder that holds one module, and the tree beside it."""

    def __init__(self, top, code=0, module="drivers/dax/dax.mod",
                 built_in=None):
        self.tree, self.build = top / "tree", top / "build"
        self.log, self.code, self.module = top / "log", code, module
        self.built_in = built_in
        host.write(self.tree / "lib/string.c", C)
        host.write(self.tree / "sound/x.c", "EXPORT_SYMBOL(a_sound);\n")
        host.write(self.build / "drivers/dax/old.mod", "")

    def configure(self):
        pass

    def assemble(self, source):
        """Make a built-in object, and the archive as kbuild does."""
        for cmd in (["gcc", "-c", "-xc", "-o", "drivers/dax/test.o", "-"],
                    ["ar", "cDPrST", "drivers/dax/built-in.a",
                     "drivers/dax/test.o"]):
            subprocess.run(cmd, cwd=self.build, input=source, text=True,
                           check=True)

    def make(self, *args, **kwargs):
        host.write(self.build / self.module, "")
        if self.built_in:
            self.assemble(self.built_in)
        return SimpleNamespace(returncode=self.code)


class Modular(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = Path(folder.name)

    def missing(self, needs, **kwargs):
        real = modular._nm
        text = NM_OF.format("".join(f"  U {name}\n" for name in needs))
        with mock.patch.object(modular, "FOLDERS", ("drivers/dax/",)), \
                mock.patch.object(modular, "_nm", side_effect=(
                    lambda shop, path, *options:
                    text if path.name == "dax.o"
                    else real(shop, path, *options))):
            return list(modular.missing(Shop(self.top, **kwargs)))

    def test_what_a_module_needs(self):
        self.assertEqual(modular.undefined(NM), {"copy_mc_to_user", "memcpy"})

    def test_what_a_module_has(self):
        self.assertEqual(modular.defined(NM), {"dax_found"})

    def test_built_in_beside_a_module(self):
        found = self.missing({"memcpy"}, built_in="""
            int dax_found(void), dax_own(void), memcpy_too(void);
            int test(void) { return dax_found() + dax_own() + memcpy_too(); }
            """)
        self.assertEqual(found, [
            ("drivers/dax/dax.ko", []),
            ("drivers/dax/test.o", ["dax_found is in drivers/dax/dax.ko, and "
                                    "this is built in"])])

    def test_built_in_by_itself(self):
        found = self.missing({"memcpy"}, built_in="int test(void);")
        self.assertEqual(found, [("drivers/dax/dax.ko", []),
                                 ("drivers/dax/test.o", [])])

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
        with self.assertRaisesRegex(UserError, "do not compile"):
            self.missing(set(), code=2)

    def test_no_module_at_all(self):
        with self.assertRaisesRegex(UserError, "has no module"):
            self.missing(set(), module="fs/x.mod")


if __name__ == "__main__":
    unittest.main()
