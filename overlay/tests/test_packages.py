# SPDX-License-Identifier: GPL-2.0
"""Check that missing packages are found and named."""

import os
import unittest
from unittest import mock

from engine import host, packages
from engine.host import UserError
from tests.test_host import Folder


class There(Folder):
    """Programs and headers themselves are looked for; dpkg is not."""

    def setUp(self):
        super().setUp()
        (self.top / "bin").mkdir()
        patch = mock.patch.object(packages, "PATH", str(self.top / "bin"))
        patch.start()
        self.addCleanup(patch.stop)

    def test_a_program(self):
        self.assertEqual(packages.missing(["fio"]), {"fio": ["fio"]})
        host.write(self.top / "bin/fio", "")
        (self.top / "bin/fio").chmod(0o755)
        self.assertEqual(packages.missing(["fio"]), {})

    def test_headers(self):
        proofs = {"a": "<stdio.h> <linux/types.h>", "b": "<nosuch/linux.h>"}
        with mock.patch.object(packages, "PROOFS", proofs):
            self.assertEqual(packages.missing(["a", "b"]),
                             {"b": ["<nosuch/linux.h>"]})

    def test_modules(self):
        proofs = {"a": "python3:json perl:strict",
                  "b": "python3:no_such perl:No::Such"}
        with mock.patch.object(packages, "PROOFS", proofs):
            self.assertEqual(packages.missing(["a", "b"]),
                             {"b": proofs["b"].split()})

    def test_one_of_two_files(self):
        (self.top / "new").touch()
        proofs = {"a": f"{self.top}/old|{self.top}/new", "b": f"{self.top}/old"}
        with mock.patch.object(packages, "PROOFS", proofs):
            self.assertEqual(list(packages.missing(["a", "b"])), ["b"])

    def test_without_dpkg_what_is_missing_is_named(self):
        with mock.patch.dict(os.environ, PATH=str(self.top / "bin")):
            with self.assertRaisesRegex(UserError, "qemu-system-x86_64.*"
                                        "packages qemu-system-x86"):
                host.need("qemu-system-x86")



if __name__ == "__main__":
    unittest.main()
