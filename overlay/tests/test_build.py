# SPDX-License-Identifier: GPL-2.0
"""Kernels below a series."""

import unittest
from unittest import mock

from engine import build, kernels
from engine.stack import Stack


class Below(unittest.TestCase):
    def test_kernel(self):
        found, ours = (kernels.KERNELS[mode] for mode in ("lean-base", "lean"))
        self.assertEqual((found.below, found.fragments), ("base", ours.fragments))
        self.assertNotIn("lean-base", kernels.having("checked"))
        self.assertNotEqual(build.tree(found.below), build.tree())

    def test_commit(self):
        stack = Stack("upstream", {"first": "1", "second": "2", "third": "3"})
        with mock.patch.object(build.source, "kernel"), \
                mock.patch.object(build.repository, "base", return_value="upstream"), \
                mock.patch.object(build.stack, "read"), \
                mock.patch.object(build.edit, "branches", return_value=stack), \
                mock.patch.object(build.stack, "apply", return_value=stack):
            self.assertEqual([build._revision(name) for name in (
                "base", "first", "third")], ["upstream", "upstream", "2"])


if __name__ == "__main__":
    unittest.main()
