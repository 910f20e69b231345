# SPDX-License-Identifier: GPL-2.0
"""make series: the forms match, and the form of each mail and cover."""

import unittest

from engine import mails, series, stack
from tests.test_edit import Clone

LONG = "x" * 70 + " " + "y" * 20


class Forms(Clone):
    """The mails and the tree form of a clone on a tiny kernel."""

    def cases(self, **env):
        """The failing cases of make series that need no compiler."""
        done = self.run_python(
            "from engine import lay, repository, series, source, stack\n"
            "every = stack.read()\n"
            "base = repository.base(source.kernel())\n"
            "found = stack.apply(every, base, repository.PATH.with_name('am'))\n"
            "print('TREE', *series.same_tree(found, lay.laid(source.kernel())))\n"
            "for one in every:\n"
            "    print('MAILS', *series.same_mails(found, one))\n", **env)
        return [line for line in done.splitlines()
                if line.startswith(("TREE", "MAILS"))]

    def test_they_match(self):
        self.assertEqual(self.cases(), ["TREE", "MAILS", "MAILS"])

    def test_user_settings_change_nothing(self):
        self.put(".gitconfig", "[diff]\n\tnoprefix = true\n\tcontext = 9\n"
                 "[core]\n\tabbrev = 40\n[format]\n\tnumbered = false\n")
        self.assertEqual(self.cases(GIT_CONFIG_GLOBAL=str(self.clone / ".gitconfig")),
                         ["TREE", "MAILS", "MAILS"])

    def test_an_interrupted_run(self):
        """git am was killed when it had written a file of a mail."""
        self.cases()
        self.run_python(
            "from engine import repository, source\n"
            "path = repository.PATH.with_name('am')\n"
            "base = repository.base(source.kernel())\n"
            "repository.checkout(path, base, force=True)\n"
            "(path / 'fs/new.c').write_text('half')\n")
        self.assertEqual(self.cases(), ["TREE", "MAILS", "MAILS"])

    def test_a_final_file_that_no_mail_has(self):
        self.change("fs/new.c", "int two;", "long two;", at=self.clone)
        self.assertIn("fs/new.c differs between the mails and the tree",
                      self.cases()[0])

    def test_a_patch_that_no_mail_has(self):
        self.change("fs/dax.c.patch", "+two\n", "+zwei\n", at=self.clone)
        self.assertIn("fs/dax.c differs", self.cases()[0])

    def test_a_mail_in_another_form(self):
        path, = (self.clone / "overlay/series/two").glob("0002-*")
        path.write_text(f"{path.read_text()}-- \n2.39.5\n")
        self.assertIn("git format-patch does not write 0002-", self.cases()[2])


class Message(unittest.TestCase):

    def test_good(self):
        self.assertEqual(list(stack.check_message(
            "dax: fix it", f"Why.\n\nFixes: {LONG}\n  {LONG}\n")), [])

    def test_bad(self):
        self.assertEqual(len(list(stack.check_message("x" * 80, LONG))), 3)

    def test_cover(self):
        good = stack.Cover("dax: x", "Tested: y.\nTo repeat: z\nChanges: none\n", {})
        self.assertEqual(list(stack.check_cover(good)), [])
        bad = stack.Cover("dax: x", "Text.\n---\n", {})
        self.assertEqual(len(list(stack.check_cover(bad))), 4)


class Size(unittest.TestCase):

    def test_code(self):
        self.assertEqual(list(stack.check_size("590\t10\tfs/a.c\n", "")), [])
        self.assertEqual(len(list(stack.check_size("591\t10\tfs/a.c\n", ""))), 1)

    def test_tests(self):
        test = "tools/testing/selftests/uq/a.c"
        self.assertEqual(list(stack.check_size(f"900\t0\t{test}\n", "")), [])
        self.assertEqual(len(list(stack.check_size(
            f"900\t0\t{test}\n1\t0\tfs/a.c\n", ""))), 1)

    def test_reason(self):
        self.assertEqual(list(stack.check_size("601\t0\tfs/a.c\n",
                                               "This is one\npatch, as ...")), [])
        self.assertEqual(len(list(stack.check_size("1\t0\tfs/a.c\n",
                                                   "It is one patch."))), 1)


class Sender(unittest.TestCase):

    def test_stand_in(self):
        for address in ("nobody@example.invalid", "x", "me@noreply.host.test",
                        "a@b.example.invalid"):
            self.assertTrue(mails.is_stand_in(address), address)
        self.assertFalse(mails.is_stand_in("@".join(("someone", "kernel.org"))))

    def test_selftests_of_a_commit(self):
        top = "tools/testing/selftests"
        self.assertEqual(series._selftests([
            f"{top}/uq/a.c", f"{top}/uq/test_modules/m.c", f"{top}/Makefile",
            "fs/a.c"]), ["uq"])


if __name__ == "__main__":
    unittest.main()
