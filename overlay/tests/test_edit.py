# SPDX-License-Identifier: GPL-2.0
"""make edit, make save and make rebase, as a user runs them, on a tiny kernel."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WHO = {"GIT_AUTHOR_NAME": "A Tester", "GIT_AUTHOR_EMAIL": "tester@example.invalid",
       "GIT_COMMITTER_NAME": "A Tester",
       "GIT_COMMITTER_EMAIL": "tester@example.invalid",
       "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
COVER = "Subject: {}: a series\n\nText.\n\nTested: yes.\nTo repeat: see.\n" \
    "Changes: none.\n"
LINES = "".join(f"line {number}\n" for number in range(1, 21))
# Runs the engine without the packages that only a kernel build needs.
START = "import sys; from engine import cli, host; host.need = lambda *_: None; " \
    "sys.exit(cli.main(sys.argv[1:]))"


class Clone(unittest.TestCase):
    """A clone with two series of two patches on a tiny kernel."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="overlay-edit-")
        self.addCleanup(folder.cleanup)
        self.top = Path(folder.name).resolve()
        self.clone, self.work = self.top / "clone", self.top / "work"
        self.edit = self.work / "edit"
        self.linux = self.kernel("linux", "7.3.4", LINES)
        (self.clone / "overlay").mkdir(parents=True)
        for name in ("engine", "bench", "configs", "guest", "host",
                     "requirements.txt"):
            there = ROOT / "overlay" / name
            (self.clone / "overlay" / name).symlink_to(there) if name != "engine" \
                else shutil.copytree(there, self.clone / "overlay" / name)
        self.put("overlay/base", "7.3.4\n")
        self.put("overlay/series/order", "one\ntwo\n")
        for name in ("one", "two"):
            self.put(f"overlay/series/{name}/0000-cover", COVER.format(name))
        self.first_series()

    def kernel(self, name, version, text):
        """Return a kernel source tree of a few files."""
        path = self.top / name
        major, minor, sub = version.split(".")
        for file, content in {
                "Makefile": f"VERSION = {major}\nPATCHLEVEL = {minor}\n"
                f"SUBLEVEL = {sub}\nEXTRAVERSION =\n",
                "Kconfig": "\n", "fs/dax.c": text, "MAINTAINERS": "THE REST\n",
        }.items():
            (path / file).parent.mkdir(parents=True, exist_ok=True)
            (path / file).write_text(content)
        return path

    def put(self, name, text):
        path = self.clone / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run_engine(self, *args, ok=True, **env):
        return self.run_python(START, *args, ok=ok, **env)

    def run_python(self, text, *args, ok=True, **env):
        done = subprocess.run(
            [sys.executable, "-c", text, *args], text=True, capture_output=True,
            check=False, cwd=self.clone, env={
                **os.environ, **WHO, "OVERLAY_WORK": str(self.work),
                "OVERLAY_OUT": str(self.top / "out"), "KDIR": str(self.linux),
                "PYTHONPATH": str(self.clone / "overlay"),
                "PYTHONDONTWRITEBYTECODE": "1", **env})
        said = done.stdout + done.stderr
        self.assertNotIn("Traceback", said)
        self.assertEqual(done.returncode == 0, ok, said)
        return said

    def git(self, *args, at=None, ok=True):
        done = subprocess.run(["git", *args], text=True, capture_output=True,
                              check=False, cwd=at or self.edit,
                              env={**os.environ, **WHO, "GIT_EDITOR": "true",
                                   "GIT_SEQUENCE_EDITOR": "true"})
        if ok:
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def change(self, name, old, new, at=None):
        path = (at or self.edit) / name
        text = path.read_text()
        self.assertIn(old, text)
        path.write_text(text.replace(old, new))

    def commit(self, subject):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", f"{subject}\n\nWhy.\n\nSigned-off-by: A Tester "
                 "<tester@example.invalid>")

    def first_series(self):
        """Create both series with git alone, and save them."""
        self.run_engine("edit")
        self.git("checkout", "-q", "one")
        self.change("fs/dax.c", "line 3\n", "line 3\none\n")
        self.commit("dax: add one")
        (self.edit / "fs/new.c").write_text("int new;\nint more;\n")
        self.commit("dax: add a file")
        self.git("checkout", "-q", "-B", "two")
        self.change("fs/dax.c", "line 15\n", "line 15\ntwo\n")
        self.commit("dax: add two")
        self.change("fs/new.c", "int more;\n", "int more;\nint two;\n")
        self.commit("dax: extend the file")
        self.run_engine("save")
        shutil.copytree(self.clone, self.top / "saved", symlinks=True)

    def mails(self, name):
        return sorted(path.name for path in
                      (self.clone / "overlay/series" / name).glob("*.patch"))

    def mail(self, name, number):
        path, = (self.clone / "overlay/series" / name).glob(f"{number:04}-*")
        return path.read_text()

    def text(self, name):
        return (self.clone / name).read_text()

    def as_saved(self):
        """Whether both forms in the clone are as setUp() saved them."""
        done = subprocess.run(
            ["diff", "-r", "-x", "engine", self.top / "saved", self.clone],
            text=True, capture_output=True, check=False)
        return done.stdout == ""


class Forms(Clone):
    """Both forms, and what git makes of them without the engine."""

    def test_tree_form(self):
        self.assertEqual(self.text("fs/new.c"), "int new;\nint more;\nint two;\n")
        patch = self.text("fs/dax.c.patch")
        self.assertIn("+one\n", patch)
        self.assertIn("+two\n", patch)
        self.assertEqual(patch.count("diff --git"), 1)
        self.assertRegex(patch, r"\nindex [0-9a-f]{12}\.\.[0-9a-f]{12} 100644\n")

    def test_mails_are_in_format_patch_form(self):
        self.assertEqual(self.mails("one"), ["0001-dax-add-one.patch",
                                             "0002-dax-add-a-file.patch"])
        self.assertTrue(self.mail("two", 2).startswith(f"From {'0' * 40} Mon Sep 17"))
        self.assertIn("Subject: [PATCH 2/2] dax: extend the file", self.mail("two", 2))

    def test_git_am_without_the_engine(self):
        self.git("init", "-q", at=self.linux)
        self.git("add", "-A", at=self.linux)
        self.git("commit", "-q", "-m", "base", at=self.linux)
        for name in ("one", "two"):
            folder = self.clone / "overlay/series" / name
            self.git("am", "-q", *(str(folder / mail) for mail in self.mails(name)),
                     at=self.linux)
        self.assertEqual((self.linux / "fs/new.c").read_text(), self.text("fs/new.c"))

    def test_edit_again_changes_nothing(self):
        before = self.git("rev-parse", "one", "two")
        self.run_engine("edit")
        self.assertEqual(self.git("rev-parse", "one", "two"), before)

    def test_another_clone_gets_the_same_mails(self):
        shutil.rmtree(self.work)
        self.run_engine("edit")
        self.run_engine("save")
        self.assertTrue(self.as_saved())


class Save(Clone):
    """Edits in the work tree, and in the clone."""

    def test_fixup(self):
        self.change("fs/new.c", "int new;", "long new;")
        self.git("commit", "-qam", "x", "--fixup", "one")
        said = self.run_engine("save")
        self.assertIn("+long new;", self.mail("one", 2))
        self.assertIn("long new;", self.text("fs/new.c"))
        self.assertIn("dax: add a file", said)
        self.assertEqual(len(self.mails("one")), 2)

    def test_patch_in_the_middle(self):
        self.git("checkout", "-q", "one~")
        (self.edit / "fs/between.c").write_text("int between;\n")
        self.commit("dax: add a file between")
        self.git("branch", "between")
        self.git("checkout", "-q", "two")
        self.git("rebase", "-q", "--update-refs", "--onto", "between", "one~")
        self.git("branch", "-D", "between")
        self.run_engine("save")
        self.assertEqual(self.mails("one"), [
            "0001-dax-add-one.patch", "0002-dax-add-a-file-between.patch",
            "0003-dax-add-a-file.patch"])
        self.assertEqual(self.text("fs/between.c"), "int between;\n")

    def test_dropped_file_leaves_both_forms(self):
        self.git("reset", "-q", "--hard", "one~")
        self.git("branch", "-qf", "one", "one~")
        self.run_engine("save")
        self.assertFalse((self.clone / "fs/new.c").exists())
        self.assertEqual((self.mails("one"), self.mails("two")),
                         (["0001-dax-add-one.patch"], []))

    def test_edit_of_a_final_file_in_the_clone(self):
        self.change("fs/new.c", "int two;", "long two;", at=self.clone)
        said = self.run_engine("save")
        self.assertIn("your edit belongs to: dax: extend the file", said)
        self.assertIn("+long two;", self.mail("two", 2))
        self.assertNotIn("long two", self.mail("one", 2))
        self.assertIn("long two;", self.text("fs/new.c"))

    def test_edit_that_fits_no_single_commit_is_left_to_a_person(self):
        self.put("fs/other.c", "int other;\n")
        said = self.run_engine("save", ok=False)
        self.assertIn("fs/other.c", said)
        self.assertEqual(self.text("fs/other.c"), "int other;\n")
        self.assertEqual((self.edit / "fs/other.c").read_text(), "int other;\n")
        self.git("commit", "-q", "-m", "x", "--fixup", "two~")
        self.run_engine("save")
        self.assertIn("+int other;", self.mail("two", 1))

    def test_edit_in_both_places_at_once(self):
        self.change("fs/new.c", "int new;", "long new;")
        self.git("commit", "-qam", "x", "--fixup", "one")
        self.change("fs/new.c", "int two;", "long two;", at=self.clone)
        self.run_engine("save")
        self.assertIn("+long new;", self.mail("one", 2))
        self.assertIn("+long two;", self.mail("two", 2))

    def test_cover_is_never_rewritten(self):
        self.put("overlay/series/one/0000-cover", COVER.format("other"))
        self.run_engine("save")
        self.assertEqual(self.text("overlay/series/one/0000-cover"),
                         COVER.format("other"))

    def test_new_series(self):
        self.put("overlay/series/three/0000-cover", COVER.format("three"))
        self.put("overlay/series/order", "one\ntwo\nthree\n")
        self.git("checkout", "-q", "-b", "three")
        (self.edit / "fs/three.c").write_text("int three;\n")
        self.commit("dax: add three")
        self.run_engine("save")
        self.assertEqual(self.mails("three"), ["0001-dax-add-three.patch"])


class Refused(Clone):
    """Work that a command would overwrite is refused with one sentence."""

    def refused(self, *args, says, **env):
        said = self.run_engine(*args, ok=False, **env).strip().splitlines()
        self.assertTrue(said[-1].startswith("overlay: "), said)
        self.assertIn(says, said[-1])

    def test_uncommitted_change(self):
        self.change("fs/new.c", "int new;", "long new;")
        self.refused("save", says="fs/new.c")
        self.assertIn("long new;", (self.edit / "fs/new.c").read_text())
        self.assertTrue(self.as_saved())

    def test_new_mails_and_unsaved_commits(self):
        self.change("fs/new.c", "int new;", "long new;")
        self.git("commit", "-qam", "dax: not saved")
        path, = (self.clone / "overlay/series/two").glob("0002-*")
        path.write_text(path.read_text().replace("Why.", "Another reason."))
        for command in ("edit", "save"):
            self.refused(command, says="unsaved work")
        self.assertIn("dax: not saved", self.git("log", "-1", "--format=%s"))

    def test_new_mails_and_nothing_unsaved(self):
        path, = (self.clone / "overlay/series/two").glob("0002-*")
        path.write_text(path.read_text().replace("Why.", "Another reason."))
        self.run_engine("edit")
        self.assertIn("Another reason.", self.git("log", "-1", "--format=%b"))

    def test_branch_that_is_not_listed(self):
        self.git("checkout", "-q", "-b", "three")
        self.refused("save", says="branch three")

    def test_listed_series_without_a_branch(self):
        self.put("overlay/series/three/0000-cover", COVER.format("three"))
        self.put("overlay/series/order", "one\ntwo\nthree\n")
        self.refused("save", says="three")

    def test_branches_that_are_not_stacked(self):
        self.git("branch", "-f", "one", "two")
        self.git("checkout", "-q", "one")
        self.change("fs/new.c", "int new;", "long new;")
        self.git("commit", "-qam", "dax: change it")
        self.refused("save", says="two is not stacked")

    def test_unfinished_rebase(self):
        self.git("rebase", "-q", "-x", "false", "one~", ok=False)
        self.refused("save", says="git rebase --continue")

    def test_edit_in_the_clone_that_conflicts(self):
        self.change("fs/new.c", "int new;", "long new;")
        self.git("commit", "-qam", "x", "--fixup", "one")
        self.change("fs/new.c", "int new;", "short new;", at=self.clone)
        self.refused("save", says="conflicts")
        self.assertIn("short new;", self.text("fs/new.c"))
        self.assertEqual(self.git("status", "--porcelain"), "")

    def test_mail_that_does_not_apply(self):
        shutil.rmtree(self.work)
        path, = (self.clone / "overlay/series/two").glob("0001-*")
        path.write_text(path.read_text().replace(" line 15", " line 99"))
        self.refused("edit", says="two")

    def test_order_names_what_is_not_there(self):
        self.put("overlay/series/order", "one\ntwo\nfour\n")
        self.refused("edit", says="four")

    def test_directory_that_is_not_listed(self):
        self.put("overlay/series/order", "one\n")
        self.refused("edit", says="two is not listed")

    def test_rebase_without_a_kernel(self):
        self.refused("rebase", says="ONTO=")
        self.refused("rebase", says="not a kernel source tree",
                     ONTO=str(self.clone / "fs"))

    def test_clean_all(self):
        self.change("fs/new.c", "int new;", "long new;")
        self.refused("clean", says="unsaved work", CLEAN="all")
        self.git("checkout", "-q", ".")
        self.run_engine("clean", CLEAN="all")
        self.assertFalse(self.edit.exists())
        self.run_engine("edit")

    def test_edit_tree_that_is_not_there(self):
        shutil.rmtree(self.edit)
        self.refused("build", "lean", says="make edit", EDIT="1")


class Rebase(Clone):
    """make rebase ONTO= moves all series, and stops like git."""

    def test_without_a_conflict(self):
        other = self.kernel("other", "7.2.13", f"before\n{LINES}")
        self.run_engine("rebase", ONTO=str(other))
        self.run_engine("save")
        self.assertEqual(self.text("overlay/base"), "7.2.13\n")
        self.assertIn("@@ -2,6 +2,7 @@", self.text("fs/dax.c.patch"))

    def test_with_a_conflict(self):
        other = self.kernel("other", "7.2.13", LINES.replace("line 4\n", "four\n"))
        said = self.run_engine("rebase", ok=False, ONTO=str(other))
        self.assertIn("CONFLICT (content): Merge conflict in fs/dax.c", said)
        self.assertTrue(self.as_saved())
        (self.edit / "fs/dax.c").write_text(
            LINES.replace("line 4\n", "one\nfour\n"))
        self.git("add", "-A")
        self.git("rebase", "--continue")
        self.run_engine("save")
        self.assertIn(" four\n", self.text("fs/dax.c.patch"))
        self.assertEqual(self.text("overlay/base"), "7.2.13\n")

    def test_source_whose_gitignore_lists_all_files(self):
        new = self.kernel("new", "7.4.1", LINES)
        (new / ".gitignore").write_text("/*\n")
        self.assertIn("all series are on Linux 7.4.1",
                      self.run_engine("rebase", ONTO=str(new)))
        self.assertIn("VERSION = 7\n", (self.edit / "Makefile").read_text())
        (self.edit / "fs" / "newer.c").write_text("int newer;\n")
        self.assertEqual(self.git("status", "--porcelain"), "?? fs/newer.c\n")

    def test_abort_changes_nothing(self):
        other = self.kernel("other", "7.2.13", LINES.replace("line 4\n", "four\n"))
        self.run_engine("rebase", ok=False, ONTO=str(other))
        self.git("rebase", "--abort")
        self.run_engine("save")
        self.assertTrue(self.as_saved())
