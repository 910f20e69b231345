# SPDX-License-Identifier: GPL-2.0
"""Laying: the tree is the source plus ours, whatever was there before."""

import os
import shutil
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from engine import entries, host, lay, objects, source
from engine.host import UserError

MAKEFILE = "VERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 4\nEXTRAVERSION =\n"
FILE_C = "".join(f"line {number};\n" for number in range(1, 41))


def patch(target, line, old, new, before="", after=""):
    """A unified diff of one changed line, with a line of context each."""
    return (f"--- a/{target}\n+++ b/{target}\n@@ -{line - 1},3 "
            f"+{line - 1},3 @@\n {before}\n-{old}\n+{new}\n {after}\n")


def series(name, *commits, requires=None):
    """The files of a series with commits of these files."""
    need = f"Requires: {requires}\n" if requires else ""
    found = {f"overlay/series/{name}/0000-cover":
             f"Subject: x: {name}\n{need}\nWhy.\n"}
    for number, files in enumerate(commits, 1):
        found[f"overlay/series/{name}/{number:04}-x"] = (
            "Subject: x: do it\n\nWhy.\n\nFiles:\n" + "\n".join(files) + "\n")
    return found


class Laying(unittest.TestCase):
    """A toy kernel, a toy tree of ours, and the tree they make."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="overlay-test-")
        self.addCleanup(folder.cleanup)
        self.top = Path(folder.name)
        self.upstream, self.ours = self.top / "linux", self.top / "ours"
        self.tree = self.top / "tree"
        self.make(self.upstream, {
            "Makefile": MAKEFILE, "Kconfig": "", "fs/ext4/file.c": FILE_C,
            "fs/ext4/inode.c": "int a;\nint b;\nint c;\n",
            "mm/memory.c": "x\n" * 9, "README": "Linux\n",
            "scripts/run.sh": "#!/bin/sh\n"})
        (self.upstream / "scripts/run.sh").chmod(0o755)
        (self.upstream / "Documentation").symlink_to("fs")
        self.make(self.ours, {
            "Makefile": "front\n", "overlay/x.c": "never\n",
            "README.md": "ours\n", ".ci/run": "ci\n",
            "fs/ext4/dax-read.c": "int fast;\n",
            "fs/ext4/file.c.patch": patch(
                "fs/ext4/file.c", 10, "line 10;", "fast 10;", "line 9;",
                "line 11;")})
        # What a tree is laid from must stay as it is, to the last byte.
        self.before = self.snapshot(self.upstream)
        stub = mock.patch.object(host, "need")
        stub.start()
        self.addCleanup(stub.stop)
        log = mock.patch.object(host, "OUT", self.top / "out")
        log.start()
        self.addCleanup(log.stop)
        quiet = mock.patch.object(host, "say")
        self.output = quiet.start()
        self.addCleanup(quiet.stop)

    @staticmethod
    def make(root, files):
        """Write files below a folder."""
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    @staticmethod
    def snapshot(root):
        """Text and time of every file, without the manifest."""
        return {str(path.relative_to(root)): (path.read_bytes(),
                                              path.lstat().st_mtime_ns)
                for path in sorted(root.rglob("*"))
                if path.is_file() and not path.name.startswith(".overlay-")}

    def source(self, origin="debian", version="7.3.4"):
        """The toy kernel as a Source."""
        return source.Source(self.upstream, version, False, None, origin)

    def lay(self, origin="debian", **how):
        """Lay ours over the toy kernel."""
        return lay.lay(self.source(origin), self.tree, root=self.ours, **how)

    def text(self, name):
        """The text of a file in the laid tree."""
        return (self.tree / name).read_text(encoding="utf-8")

    def old(self):
        """Make everything in the tree look old, as it would be by then."""
        lay_time = 1_000_000_000
        for path in self.tree.rglob("*"):
            if path.is_file() and not path.is_symlink():
                os.utime(path, (lay_time, lay_time))

    def untouched(self):
        """The source is what it was."""
        self.assertEqual(self.snapshot(self.upstream), self.before)

    # -- what lands ----------------------------------------------------------

    def test_files_and_patches_land(self):
        changed = self.lay()
        self.assertEqual(changed, ["fs/ext4/dax-read.c", "fs/ext4/file.c"])
        self.assertIn("fast 10;", self.text("fs/ext4/file.c"))
        self.assertEqual(self.text("fs/ext4/dax-read.c"), "int fast;\n")
        self.assertEqual(self.text("Makefile"), MAKEFILE)
        self.assertFalse((self.tree / "overlay").exists())
        self.assertFalse((self.tree / "README.md").exists())
        self.assertTrue((self.tree / "Documentation").is_symlink())
        self.assertTrue(os.access(self.tree / "scripts/run.sh", os.X_OK))
        self.untouched()

    def test_second_run_changes_nothing(self):
        self.lay()
        before = self.snapshot(self.tree)
        self.assertEqual(self.lay(), [])
        self.assertEqual(self.snapshot(self.tree), before)

    def test_commits_are_laid_one_after_another_without_a_look_at_all(self):
        self.lay()
        with mock.patch.object(lay, "_index", side_effect=AssertionError):
            self.assertEqual(self.lay(only=["fs/ext4/dax-read.c"],
                                      follow=False), ["fs/ext4/file.c"])
            self.assertEqual(self.lay(follow=False), ["fs/ext4/file.c"])
        self.assertEqual(self.lay(), [])
        self.untouched()

    def test_all_files_of_a_tree_are_looked_at_once(self):
        with mock.patch.object(objects.lay, "lay") as laid, \
                mock.patch.object(objects.build, "top",
                                  return_value=self.top):
            shop = objects.Shop(self.source(), self.top / "log")
            for items in (None, [], None):
                shop.lay(items)
            objects.Shop(self.source(), self.top / "log").lay()
            objects.Shop(self.source(), self.top / "log", place="other").lay()
        self.assertEqual([call.kwargs["follow"] for call in laid.call_args_list],
                         [True, False, False, False, True])

    def test_only_what_changed_is_rewritten(self):
        self.lay()
        before = self.snapshot(self.tree)
        self.make(self.ours, {"fs/ext4/dax-read.c": "int faster;\n"})
        self.assertEqual(self.lay(), ["fs/ext4/dax-read.c"])
        after = self.snapshot(self.tree)
        self.assertEqual(after.pop("fs/ext4/dax-read.c")[0],
                         b"int faster;\n")
        del before["fs/ext4/dax-read.c"]
        self.assertEqual(after, before)

    def test_deleted_items_are_undone_with_a_new_time(self):
        self.lay()
        old = (self.tree / "fs/ext4/file.c").stat().st_mtime_ns
        (self.ours / "fs/ext4/file.c.patch").unlink()
        (self.ours / "fs/ext4/dax-read.c").unlink()
        self.make(self.ours, {"fs/ext4/renamed.c": "int fast;\n"})
        self.lay()
        self.assertEqual(self.text("fs/ext4/file.c"), FILE_C)
        self.assertGreater((self.tree / "fs/ext4/file.c").stat().st_mtime_ns,
                           old)
        self.assertFalse((self.tree / "fs/ext4/dax-read.c").exists())
        self.assertTrue((self.tree / "fs/ext4/renamed.c").exists())

    def test_only_some_items(self):
        self.lay(only=["fs/ext4/dax-read.c"])
        self.assertEqual(self.text("fs/ext4/file.c"), FILE_C)
        self.assertTrue((self.tree / "fs/ext4/dax-read.c").exists())
        self.lay(only=[])
        self.assertFalse((self.tree / "fs/ext4/dax-read.c").exists())
        with self.assertRaisesRegex(UserError, "fs/nothing.c is not in the tree"):
            self.lay(only=["fs/nothing.c"])

    def test_patch_on_a_file_of_ours(self):
        self.make(self.ours, {
            **series("a", ["fs/ext4/dax-read.c"],
                     ["fs/ext4/dax-read.c.later.patch"]),
            "fs/ext4/dax-read.c.later.patch":
            "--- a/fs/ext4/dax-read.c\n+++ b/fs/ext4/dax-read.c\n"
            "@@ -1 +1,2 @@\n int fast;\n+int later;\n"})
        self.lay()
        self.assertEqual(self.text("fs/ext4/dax-read.c"),
                         "int fast;\nint later;\n")

    def test_patches_on_one_file_go_in_the_order_of_the_series(self):
        second = patch("fs/ext4/file.c", 10, "fast 10;", "faster 10;",
                       "line 9;", "line 11;")
        self.make(self.ours, {
            "fs/ext4/file.c.a-second.patch": second,
            **series("a", ["fs/ext4/file.c.patch"],
                     ["fs/ext4/file.c.a-second.patch"])})
        self.lay()
        self.assertIn("faster 10;", self.text("fs/ext4/file.c"))

    def test_the_order_of_laying_is_that_of_the_branches(self):
        # What requires another follows it; the order of those that are ready
        # is one and the same for the tree and for the branches.
        files = {name: f"fs/ext4/{name}.h" for name in "abcd"}
        self.make(self.ours, {
            **dict.fromkeys(files.values(), "x\n"),
            **series("a", [files["a"]]), **series("d", [files["d"]]),
            **series("b", [files["b"]], requires="d"),
            **series("c", [files["c"]], requires="a")})
        order = [file for one in entries.read(self.ours)
                 for entry in one.entries for file in entry.files]
        laid = [item.path for item in lay.items(self.ours)
                if item.path in order]
        self.assertEqual(laid, order)
        self.assertLess(order.index(files["d"]), order.index(files["b"]))

    def test_series_that_require_each_other(self):
        self.make(self.ours, {**series("a", ["x"], requires="b"),
                              **series("b", ["y"], requires="a")})
        with self.assertRaisesRegex(UserError, "in a circle: a, b"):
            lay.items(self.ours)

    def test_a_patch_of_the_same_text_is_applied_once(self):
        change = self.ours / "run.patch"
        host.write(change, patch("scripts/run.sh", 2, "b", "z", "a", "c"))
        with mock.patch.object(host, "run", side_effect=host.run) as run:
            for number, text in enumerate(("a\nb\nc\n", "a\nb\nc\n", "x\na\nb\nc\n")):
                tree = self.top / f"tree-{number}"
                self.make(tree, {"scripts/run.sh": text})
                (tree / "scripts/run.sh").chmod(0o755)
                lay.apply_patch(change, tree)
                made = tree / "scripts/run.sh"
                self.assertEqual(made.read_text("utf-8"), text.replace("b", "z"))
                self.assertEqual(made.stat().st_mode & 0o777, 0o755)
        self.assertEqual(run.call_count, 2)

    # -- what does not fit ---------------------------------------------------

    def test_conflict_names_patch_version_and_expectation(self):
        self.make(self.upstream, {
            "fs/ext4/file.c": FILE_C.replace("line 10;", "other 10;")})
        with self.assertRaises(UserError) as caught:
            lay.lay(self.source(version="7.5.0"), self.tree, root=self.ours)
        message = str(caught.exception)
        self.assertIn("fs/ext4/file.c.patch does not apply to Linux 7.5.0",
                      message)
        self.assertIn(f"written for {source.BASE}", message)
        self.assertRegex(message, r'near line 9 .* it expects "line')
        self.assertFalse(self.tree.exists())

    def test_a_conflict_leaves_the_laid_tree_alone(self):
        self.lay()
        before = self.snapshot(self.tree)
        self.make(self.ours, {"fs/ext4/inode.c.patch": patch(
            "fs/ext4/inode.c", 2, "int z;", "int y;", "int a;", "int c;")})
        with self.assertRaises(UserError):
            self.lay()
        self.assertEqual(self.snapshot(self.tree), before)

    def test_no_fuzz(self):
        self.make(self.upstream, {
            "fs/ext4/file.c": FILE_C.replace("line 9;", "line nine;")})
        with self.assertRaisesRegex(UserError, "does not apply"):
            self.lay()

    def test_an_offset_is_fine_where_the_place_is_sure(self):
        self.make(self.upstream, {"fs/ext4/file.c": "new;\n\n" + FILE_C})
        self.lay()
        self.assertIn("fast 10;", self.text("fs/ext4/file.c"))

    def test_an_offset_with_several_places_is_refused(self):
        block = "a;\nsame;\nb;\n"
        self.make(self.upstream, {"fs/ext4/inode.c": "new;\n" + block * 2})
        self.make(self.ours, {"fs/ext4/inode.c.patch": patch(
            "fs/ext4/inode.c", 2, "same;", "other;", "a;", "b;")})
        with self.assertRaisesRegex(UserError, "at 2 places"):
            self.lay()

    def test_a_file_that_upstream_has(self):
        self.make(self.ours, {"fs/ext4/inode.c": "mine\n"})
        with self.assertRaisesRegex(UserError, "change it by a .patch"):
            self.lay()

    def test_a_patch_on_a_file_that_upstream_has_not(self):
        self.make(self.ours, {"fs/gone.c.patch": patch(
            "fs/gone.c", 2, "a", "b", "c", "d")})
        with self.assertRaisesRegex(UserError, "there is no fs/gone.c"):
            self.lay()

    def test_patches_that_are_none(self):
        for text, message in (
                ("nothing\n", "names 0"),
                ("--- /dev/null\n+++ b/fs/p.c\n@@ -0,0 +1 @@\n+x\n",
                 "creates a file"),
                (patch("mm/memory.c", 2, "x", "y", "x", "x"),
                 "does not stand")):
            with self.subTest(message):
                self.make(self.ours, {"fs/p.c.patch": text})
                with self.assertRaisesRegex(UserError, message):
                    self.lay()

    def test_junk_is_not_ours(self):
        self.make(self.ours, {"fs/ext4/x.c.orig": "", "fs/ext4/y.c~": "",
                              "fs/ext4/__pycache__/z.pyc": ""})
        paths = [item.path for item in lay.items(self.ours)]
        self.assertEqual(paths, ["fs/ext4/dax-read.c",
                                 "fs/ext4/file.c.patch"])

    # -- a tree that is not as we left it ------------------------------------

    def test_dirty_tree_is_put_right(self):
        self.lay()
        (self.tree / "stray.c").write_text("x", encoding="ascii")
        (self.tree / "README").unlink()
        (self.tree / "mm/memory.c").unlink()
        (self.tree / "mm/memory.c").write_text("edited", encoding="ascii")
        (self.tree / "fs/ext4/dax-read.c").write_text("edited",
                                                      encoding="ascii")
        self.lay()
        self.assertFalse((self.tree / "stray.c").exists())
        self.assertEqual(self.text("README"), "Linux\n")
        self.assertEqual(self.text("mm/memory.c"), "x\n" * 9)
        self.assertEqual(self.text("fs/ext4/dax-read.c"), "int fast;\n")
        self.untouched()

    def test_a_run_that_broke_off_starts_again(self):
        self.lay()
        with mock.patch.object(lay.Tree, "lay", side_effect=KeyboardInterrupt):
            with self.assertRaises(KeyboardInterrupt):
                self.lay()
        (self.tree / "mm/memory.c").unlink()
        self.lay()
        self.assertEqual(self.text("mm/memory.c"), "x\n" * 9)
        self.assertIn("fast 10;", self.text("fs/ext4/file.c"))

    def test_a_damaged_manifest_starts_again(self):
        self.lay()
        (self.tree / lay.MANIFEST).write_text('{"source": ', encoding="ascii")
        self.assertIn("fs/ext4/file.c", self.lay())

    def test_another_list_of_the_sources_files_starts_again(self):
        self.lay()
        with open(self.tree / lay.INDEX, "a", encoding="ascii") as file:
            file.write(" ")
        self.assertIn("fs/ext4/file.c", self.lay())
        (self.tree / lay.INDEX).unlink()
        self.assertIn("fs/ext4/file.c", self.lay())

    def test_the_sources_files_are_listed_once(self):
        self.lay()
        before = lay._of(self.tree / lay.INDEX)
        self.lay(only=[])
        self.assertEqual(self.text("mm/memory.c"), "x\n" * 9)
        self.lay(follow=False)
        self.assertIn("fast 10;", self.text("fs/ext4/file.c"))
        self.assertEqual(lay._of(self.tree / lay.INDEX), before)

    def test_another_source_starts_again(self):
        self.lay()
        changed = self.lay(origin="kdir")
        self.assertIn("fs/ext4/file.c", changed)

    # -- KDIR ----------------------------------------------------------------

    def test_kdir_is_copied_not_linked(self):
        self.lay(origin="kdir")
        for name in ("README", "fs/ext4/file.c", "mm/memory.c"):
            self.assertEqual((self.upstream / name).stat().st_nlink, 1)
        with open(self.tree / "README", "a", encoding="ascii") as file:
            file.write("more")
        self.lay(origin="kdir")
        self.untouched()

    def test_a_read_only_kdir_will_do(self):
        for path in self.upstream.rglob("*"):
            if not path.is_symlink():
                path.chmod(0o555 if path.is_dir() else 0o444)
        try:
            self.lay(origin="kdir")
            self.lay(origin="kdir", only=[])
        finally:
            for path in self.upstream.rglob("*"):
                if path.is_dir() and not path.is_symlink():
                    path.chmod(0o755)
        self.assertEqual(self.text("fs/ext4/file.c"), FILE_C)

    def test_changes_in_kdir_are_followed(self):
        self.lay(origin="kdir")
        self.make(self.upstream, {"mm/memory.c": "new\n", "mm/new.c": "n\n",
                                  "fs/ext4/file.c": "top;\n" + FILE_C})
        (self.upstream / "README").unlink()
        self.assertEqual(self.lay(origin="kdir"),
                         ["README", "fs/ext4/file.c", "mm/memory.c",
                          "mm/new.c"])
        self.assertEqual(self.text("mm/memory.c"), "new\n")
        self.assertTrue(self.text("fs/ext4/file.c").startswith("top;\n"))
        self.assertIn("fast 10;", self.text("fs/ext4/file.c"))
        self.assertFalse((self.tree / "README").exists())

    def test_what_a_build_left_in_kdir_is_no_source(self):
        self.make(self.upstream, {
            ".config": "", "include/config/auto.conf": "", "vmlinux": "",
            "fs/ext4/file.o": "", "include/generated/x.h": "",
            "arch/x86/boot/main.c": "", "arch/x86/boot/bzImage": ""})
        self.lay(origin="kdir")
        for name in (".config", "include/config/auto.conf", "vmlinux",
                     "fs/ext4/file.o", "include/generated/x.h",
                     "arch/x86/boot/bzImage"):
            self.assertFalse((self.tree / name).exists(), name)
        self.assertTrue((self.tree / "arch/x86/boot/main.c").exists())

    @unittest.skipUnless(shutil.which("git"), "git is not installed")
    def test_only_what_git_tracks_in_kdir_is_source(self):
        host.run(["git", "init", "-q", self.upstream])
        host.run(["git", "add", "-A"], cwd=self.upstream)
        self.make(self.upstream, {"untracked.c": ""})
        src = source.Source(self.upstream, "7.3.4", True, "0" * 40, "kdir")
        lay.lay(src, self.tree, root=self.ours)
        self.assertFalse((self.tree / "untracked.c").exists())
        self.assertTrue((self.tree / "mm/memory.c").exists())

    # -- the cached source ---------------------------------------------------

    def test_a_changed_cached_source_is_not_believed(self):
        self.make(self.upstream, {".overlay-whole": ""})
        self.lay()
        self.make(self.upstream, {"mm/memory.c": "changed\n"})
        with self.assertRaisesRegex(UserError, "mm/memory.c.* run again"):
            self.lay()
        self.assertFalse((self.upstream / ".overlay-whole").exists())


if __name__ == "__main__":
    unittest.main()
