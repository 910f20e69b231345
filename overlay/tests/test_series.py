# SPDX-License-Identifier: GPL-2.0
"""Series: which file is in which commit, the branch, the cover, the mails."""

import json
import os
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path
from unittest import mock

from engine import (
    branch,
    checkpatch,
    entries,
    host,
    ktap,
    lay,
    mails,
    objects,
    pristine,
    sender,
    series,
    sizes,
    store,
)
from engine.host import UserError
from engine.source import Source

AT = "@"                # so that this file holds no address of a person
COVER = "Subject: fs: two toys\n\nThis is for @BASE@.\n\n@TABLE@\n"
FIRST = """Subject: fs: add a toy

It is a toy.

Files:
fs/toy.c
fs/Makefile.toy.patch
"""
SECOND = """Subject: fs: sharpen the toy

It was dull.

Files:
fs/Makefile.sharp.patch
"""
MAKEFILE = "obj-y := a.o\n\nobj-y += b.o\n\nobj-y += c.o\n"
TOY_PATCH = """--- a/fs/Makefile
+++ b/fs/Makefile
@@ -1,2 +1,3 @@
 obj-y := a.o
+obj-y += toy.o
 
"""
# It needs what the first patch added.
SHARP_PATCH = """--- a/fs/Makefile
+++ b/fs/Makefile
@@ -2,2 +2,3 @@
 obj-y += toy.o
+CFLAGS_toy.o := -DSHARP
 
"""


# What the second commit brings to the file of the first.
WITHOUT = """--- a/fs/toy.c
+++ b/fs/toy.c
@@ -1,3 +1,2 @@
 /* a toy */
-int sharp;
 int dull;
"""


class Scratch(unittest.TestCase):
    """A small product tree and a small kernel in a folder of their own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = Path(folder.name)
        self.root = self.top / "root"
        self.kernel = self.top / "linux"
        for name, value in (("ROOT", self.root), ("OUT", self.root / "out"),
                            ("WORK", self.top / "work")):
            patch = mock.patch.object(host, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        self.put("fs/toy.c", "/* a toy */\n")
        self.put("fs/Makefile.toy.patch", TOY_PATCH)
        self.put("fs/Makefile.sharp.patch", SHARP_PATCH)
        self.entry("0000-cover", COVER)
        self.entry("0001-add", FIRST)
        self.entry("0002-sharpen", SECOND)
        for name in branch.ANCHORS:
            host.write(self.kernel / name, f"{name}\n")
        host.write(self.kernel / "fs/Makefile", MAKEFILE)

    def put(self, name, text):
        host.write(self.root / name, text)

    def entry(self, name, text, of="toys"):
        self.put(f"overlay/series/{of}/{name}", text)

    def read(self):
        return entries.read(self.root)

    def wrong(self):
        """What is said about the entries of files."""
        paths = [item.path for item in lay.items(self.root)]
        return list(entries.complaints(self.read(), paths))

    def refuses(self, pattern):
        with self.assertRaisesRegex(UserError, pattern):
            self.read()


class Reading(Scratch):

    def test_entries_in_order(self):
        toys, = self.read()
        self.assertEqual([entry.name for entry in toys.entries],
                         ["0001-add", "0002-sharpen"])
        self.assertEqual(toys.entries[0].subject, "fs: add a toy")
        self.assertEqual(toys.entries[0].body, "It is a toy.\n")
        self.assertEqual(toys.entries[0].files,
                         ["fs/toy.c", "fs/Makefile.toy.patch"])

    def test_no_subject(self):
        self.entry("0001-add", FIRST.replace("Subject:", "Title:"))
        self.refuses("toys/0001-add: .*no 'Subject:'")

    def test_no_message(self):
        self.entry("0001-add", FIRST.replace("It is a toy.\n", ""))
        self.refuses("toys/0001-add: there is no message")

    def test_no_files(self):
        self.entry("0001-add", FIRST.partition("\nFiles:")[0])
        self.refuses("toys/0001-add: it names no files")

    def test_no_cover(self):
        (self.root / "overlay/series/toys/0000-cover").unlink()
        self.refuses("toys: there is no 0000-cover")

    def test_gap_in_the_numbers(self):
        self.entry("0004-late", SECOND)
        self.refuses("not numbered")

    def test_stray_file(self):
        self.entry("notes.txt", "something\n")
        self.refuses("toys/notes.txt: an entry's name is four digits")

    def test_requires_what_is_not_there(self):
        self.entry("0000-cover", "Subject: x: y\nRequires: none\n\nText.\n")
        self.refuses("requires none")

    def test_required_series_come_first(self):
        self.entry("0000-cover", "Subject: x: y\nRequires: zoo\n\nText.\n")
        self.entry("0000-cover", COVER, of="zoo")
        self.entry("0001-lion", FIRST, of="zoo")
        self.assertEqual([found.name for found in self.read()],
                         ["zoo", "toys"])
        toys = self.read()[1]
        self.assertEqual([found.name for found in
                          entries.below(toys, self.read())], ["zoo"])

    def test_several_required_series(self):
        self.entry("0000-cover", "Subject: x: y\nRequires: zoo, ape\n\nText.\n")
        for name in ("zoo", "ape", "elf"):
            self.entry("0000-cover", COVER, of=name)
            self.entry("0001-lion", FIRST, of=name)
        self.entry("0000-cover", "Subject: x: y\nRequires: elf\n\nText.\n",
                   of="zoo")
        found = self.read()
        self.assertEqual([one.name for one in found],
                         ["ape", "elf", "zoo", "toys"])
        self.assertEqual([one.name for one in entries.below(found[3], found)],
                         ["ape", "elf", "zoo"])
        self.assertEqual(entries.below(found[0], found), [])

    def test_what_takes_away_belongs_to_an_entry(self):
        self.entry("0003-none.without", WITHOUT)
        self.refuses("toys/0003-none.without: there is no entry 0003-none")

    def test_series_in_a_circle(self):
        self.entry("0000-cover", "Subject: x: y\nRequires: toys\n\nText.\n")
        self.refuses("in a circle: toys")


class Ownership(Scratch):

    def test_all_is_well(self):
        self.assertEqual(self.wrong(), [])

    def test_file_in_no_entry(self):
        self.put("fs/lost.c", "/* lost */\n")
        self.assertEqual(self.wrong(),
                         ["fs/lost.c is in no entry of overlay/series"])

    def test_file_in_two_entries(self):
        self.entry("0002-sharpen", SECOND + "fs/toy.c\n")
        self.assertEqual(self.wrong(), [
            "fs/toy.c is in two entries: toys/0001-add and "
            "toys/0002-sharpen"])

    def test_file_in_two_series(self):
        self.entry("0000-cover", COVER, of="zoo")
        self.entry("0001-lion", FIRST, of="zoo")
        self.assertEqual(len(self.wrong()), 2)

    def test_entry_names_a_missing_file(self):
        (self.root / "fs/toy.c").unlink()
        self.assertEqual(self.wrong(),
                         ["toys/0001-add names fs/toy.c, which is not there"])

    def test_engine_files_are_nobodys(self):
        self.put("overlay/engine/x.py", "\n")
        self.put("README.md", "\n")
        self.put(".ci/run", "\n")
        self.assertEqual(self.wrong(), [])

    def test_main_stops_at_once(self):
        self.put("fs/lost.c", "/* lost */\n")
        with mock.patch.object(host, "need"), \
                mock.patch.object(lay.items, "__defaults__", (self.root,)):
            cases = series.main([])
        self.assertEqual([case.status for case in cases], ["fail"])
        self.assertIn("fs/lost.c is in no entry", cases[0].detail)


class SeveralAtATime(Scratch):

    def test_each_has_a_place_and_the_results_are_in_order(self):
        for name in ("ape", "zoo"):
            self.entry("0000-cover", COVER, of=name)
            self.entry("0001-lion", FIRST, of=name)
        everything = self.read()
        together = threading.Barrier(2)
        seen = {}

        def check(made, builder):
            if made.series.name in ("toys", "ape"):
                together.wait()         # no place is for two
                seen[made.series.name] = builder.shop.tree.parent.name
            return [ktap.Case(made.series.name, ktap.PASS)]

        with mock.patch.object(series, "check_series", check), \
                mock.patch.object(host, "pytool"), \
                mock.patch.object(series.limits, "processors", lambda: 2), \
                mock.patch.object(series.source, "kernel", lambda: Source(
                    self.kernel, "7.3.4", False, None, "debian")):
            cases = series._all(everything, everything, lay.items(self.root))
        self.assertEqual([case.name for case in cases], ["ape", "toys", "zoo"])
        self.assertEqual(sorted(seen.values()), ["parts", "parts-1"])


class OnABranch(Scratch):

    def branch(self, **changes):
        found = {"path": self.kernel, "version": "7.3.4", "is_git": False,
                 "head": None, "origin": "debian", **changes}
        everything = self.read()
        made = branch.Branch(everything[-1], everything, Source(**found),
                             lay.items(self.root), self.top / "log")
        made.who = ("Some Body", "some@example.invalid")
        return made

    def grow(self, made):
        made.grow()
        for entry in made.series.entries:
            made.commit(entry)
        return made

    def test_one_commit_per_entry(self):
        made = self.grow(self.branch())
        log = made.git("log", "--reverse", "--format=%s|%b", "base..HEAD")
        self.assertIn("fs: add a toy|It is a toy.", log)
        self.assertIn("Signed-off-by: Some Body <some@example.invalid>", log)
        self.assertEqual(made.git("rev-list", "--count", "base..HEAD"),
                         "2\n")

    def test_cases_of_a_commit(self):
        made = self.branch()
        made.grow()
        more = ktap.Case("toys 0001-add: sparse", ktap.FAIL, "fs/toy.c:1: odd")
        builder = mock.Mock(when=None)
        builder.check.return_value = []
        builder.elsewhere.return_value = iter([more])
        with mock.patch.object(series, "check_patch", return_value=[]), \
                mock.patch.object(series, "unmaintained", return_value=[]):
            cases, _ = series.check_commit(made, builder, made.series.entries[0])
        self.assertEqual(cases[-2:], [ktap.Case(
            "toys 0001-add: compiles without a warning", ktap.PASS, ""), more])

    def test_patches_on_one_file_in_order(self):
        made = self.branch()
        made.grow()
        first, second = made.series.entries
        made.commit(first)
        text = (made.path / "fs/Makefile").read_text()
        self.assertIn("toy.o", text)
        self.assertNotIn("SHARP", text)
        made.commit(second)
        self.assertIn("SHARP", (made.path / "fs/Makefile").read_text())

    def test_objects_come_with_their_source(self):
        self.put("fs/Makefile.toy.patch", TOY_PATCH.replace(
            "1,3", "1,5").replace("toy.o\n", "toy.o doll/kite.o\n"
                                  "+obj-y += doll/ball.o\n+doll-y := x.o\n"))
        self.put("fs/doll/kite.c", "/* a kite */\n")
        self.put("fs/doll/ball.c", "/* a ball */\n")
        self.entry("0002-sharpen", SECOND.replace(
            "Makefile.sharp.patch", "doll/kite.c\nfs/doll/ball.c"))
        (self.root / "fs/Makefile.sharp.patch").unlink()
        made = self.branch()
        made.grow()
        whole = MAKEFILE.replace("a.o\n", "a.o\nobj-y += toy.o doll/kite.o\n"
                                 "obj-y += doll/ball.o\ndoll-y := x.o\n", 1)
        made.commit(made.series.entries[0])
        first = whole.replace(" doll/kite.o", "").replace(
            "obj-y += doll/ball.o\n", "")
        self.assertEqual((made.path / "fs/Makefile").read_text(), first)
        found = lay._wanted(Source(self.kernel, "7.3.4", False, None, "debian"),
                            self.root, made.committed, lay.to_come(
                                made.items.values(), made.committed))
        self.assertEqual(found["fs/Makefile"][0].decode(), first)
        made.commit(made.series.entries[1])
        self.assertEqual((made.path / "fs/Makefile").read_text(), whole)
        self.assertIn("+obj-y += doll/ball.o", made.git("show"))

    def test_a_later_commit_brings_lines_to_an_earlier_file(self):
        whole = "/* a toy */\nint sharp;\nint dull;\n"
        first = whole.replace("int sharp;\n", "")
        self.put("fs/toy.c", whole)
        self.entry("0002-sharpen.without", WITHOUT)
        self.assertEqual(self.wrong(), [])
        made = self.branch()
        made.grow()
        made.commit(made.series.entries[0])
        self.assertEqual((made.path / "fs/toy.c").read_text(), first)
        found = lay._wanted(
            Source(self.kernel, "7.3.4", False, None, "debian"), self.root,
            made.committed, absent=lay.to_take_away(self.read(), made.done))
        self.assertEqual(found["fs/toy.c"][0].decode(), first)
        made.commit(made.series.entries[1])
        self.assertEqual((made.path / "fs/toy.c").read_text(), whole)
        self.assertIn("+int sharp;", made.git("show"))
        self.assertEqual(series.touched(made.series.entries[1], made.items),
                         ["fs/Makefile", "fs/toy.c"])

    def test_lines_of_several_commits_in_one_file(self):
        self.put("fs/toy.c", "/* a toy */\nint keen;\nint sharp;\nint dull;\n")
        self.entry("0002-sharpen.without", WITHOUT)
        self.entry("0003-more", "Subject: fs: more\n\nMore.\n\nFiles:\n")
        self.entry("0003-more.without", WITHOUT.replace(
            "-int sharp;\n int dull;", "-int keen;\n int sharp;"))
        made = self.grow(self.branch())
        texts = [made.git("show", f"HEAD~{back}:fs/toy.c") for back in (2, 1, 0)]
        self.assertEqual([text.count("int") for text in texts], [1, 2, 3])

    def test_what_takes_away_lines_that_are_not_there_is_named(self):
        self.entry("0002-sharpen.without", WITHOUT)
        made = self.branch()
        made.grow()
        with self.assertRaisesRegex(
                UserError, "toys/0002-sharpen.without does not apply"):
            made.commit(made.series.entries[0])

    def test_programs_come_with_their_source(self):
        folder = "tools/testing/selftests/toy/"
        self.put(folder + "Makefile", "TEST_GEN_PROGS := kite ball\n"
                 "TEST_GEN_PROGS_EXTENDED := ball\n"
                 "TEST_PROGS := all.sh\nTEST_GEN_FILES := thing\n"
                 "LOCAL_HDRS := toy.h \\\n\tball.h\n\n"
                 "include ../lib.mk\n\n$(OUTPUT)/%.o: %.c\n\tcc -c $<\n"
                 "$(OUTPUT)/ball: ball.h $(OUTPUT)/round.o\n"
                 "$(TEST_GEN_PROGS) $(TEST_GEN_PROGS_EXTENDED): toy.c \\\n"
                 "\t$(OUTPUT)/round.o\n"
                 "$(OUTPUT)/thing: round.c\n\tcc $< -o $@\n")
        self.put(folder + ".gitignore", "kite\nball\n")
        for name in ("kite.c", "ball.c", "round.c", "toy.c", "toy.h", "ball.h",
                     "all.sh"):
            self.put(folder + name, f"/* {name} */\n")
        later = ("ball.c", "round.c", "ball.h", "all.sh")
        names = ("Makefile", ".gitignore", "kite.c", "toy.c", "toy.h")
        self.entry("0003-test", "Subject: selftests: toy\n\nTest.\n\nFiles:\n"
                   + "".join(f"{folder}{name}\n" for name in names))
        self.entry("0004-ball", "Subject: selftests: ball\n\nBall.\n\nFiles:\n"
                   + "".join(f"{folder}{name}\n" for name in later))
        made = self.grow(self.branch())
        self.assertEqual(
            made.git("show", f"HEAD~:{folder}Makefile"),
            "TEST_GEN_PROGS := kite\nLOCAL_HDRS := toy.h\n\n"
            "include ../lib.mk\n\n$(OUTPUT)/%.o: %.c\n\tcc -c $<\n"
            "$(TEST_GEN_PROGS) $(TEST_GEN_PROGS_EXTENDED): toy.c\n")
        self.assertEqual(made.git("show", f"HEAD~:{folder}.gitignore"), "kite\n")
        for name in ("Makefile", ".gitignore"):
            self.assertEqual(made.git("show", f"HEAD:{folder}{name}"),
                             (self.root / folder / name).read_text())

    def test_trailers_stand_above_the_sender(self):
        self.put("overlay/series/trailers", "# why\nAssisted-by: LLM sparse\n")
        self.entry("0002-sharpen", SECOND.replace(
            "It was dull.\n", "It was dull.\n\nFixes: 0123456789ab (\"a toy\")\n"))
        made = self.grow(self.branch())
        self.assertTrue(made.git("log", "-1", "--format=%B").endswith(
            "dull.\n\nFixes: 0123456789ab (\"a toy\")\n"
            "Assisted-by: LLM sparse\n"
            "Signed-off-by: Some Body <some@example.invalid>\n\n"))

    def test_a_trailer_that_is_none(self):
        self.put("overlay/series/trailers", "with the help of a friend\n")
        with self.assertRaisesRegex(UserError, "is no trailer such as"):
            self.grow(self.branch())

    def mails(self, made):
        """What b4 would write, after a cover."""
        out = host.OUT / "series" / made.series.name
        made.git("format-patch", "--quiet", "--cover-letter", "--suffix=.eml",
                 "-o", out, "base..HEAD")
        return out

    def test_mails_make_the_tree_that_was_tested(self):
        made = self.grow(self.branch())
        found = pristine.patches(self.mails(made))
        self.assertEqual(len(found), 2)
        self.assertEqual(list(pristine.of_series(made, found)), [])
        self.assertEqual(made.git("branch", "--show-current"), "b4/toys\n")
        host.write(found[0], found[0].read_text().replace("a toy */", "a boy */"))
        self.assertEqual(list(pristine.of_series(made, found)),
                         ["git am makes another tree: fs/toy.c"])
        self.assertIn("git am", next(pristine.of_series(made, found[1:])))
        self.assertEqual(made.git("status", "--porcelain"), "")

    def test_a_patch_alone_has_no_cover(self):
        made = self.grow(self.branch())
        out = host.OUT / "series" / made.series.name
        made.git("format-patch", "--quiet", "--suffix=.eml", "-o", out, "HEAD~")
        found = pristine.patches(out)
        self.assertEqual([path.name for path in found],
                         ["0001-fs-sharpen-the-toy.eml"])

    def test_mails_of_all_series_make_the_tree_that_was_tested(self):
        with mock.patch.object(lay.holds, "__defaults__", (self.root,)):
            made = self.grow(self.branch())
            out = self.mails(made)
            whole = pristine.Whole(made.kernel, lay.items(self.root),
                                   self.top / "log")
            self.assertEqual(list(whole.complaints(self.read())), [])
            self.put("fs/toy.c", "/* another toy */\n")
            self.assertEqual(list(whole.complaints(self.read())),
                             ["fs/toy.c is not what was tested"])
            next(out.glob("0002*")).unlink()
            self.assertEqual(list(whole.complaints(self.read())),
                             ["toys has 1 mails of patches"])

    def test_get_maintainer_is_asked_for_new_files(self):
        (self.kernel / "scripts").unlink()
        host.write(self.kernel / "scripts/get_maintainer.pl", GET_MAINTAINER)
        (self.kernel / "scripts/get_maintainer.pl").chmod(0o755)
        made = self.branch()
        made.grow()
        self.assertEqual(series.unmaintained(made, ["fs/toy.c", "fs/lost.c"]),
                         ["fs/lost.c"])

    def test_get_maintainer_is_asked_once_for_the_same_file(self):
        host.write(self.kernel / "MAINTAINERS", "here\n")
        made = self.branch()
        made.grow()
        asked = []

        def run(cmd, **_):
            asked.append(cmd[-1])
            return host.Done(cmd, 0, "TOYS\nM:\tx\n")

        def ask():
            asked.clear()
            self.assertEqual(series.unmaintained(made, ["fs/toy.c"]), [])
            return asked

        host.write(made.path / "fs/toy.c", "/* a toy */\n")
        with mock.patch.object(host, "run", run):
            store.count()
            self.assertEqual(ask(), ["fs/toy.c"])
            self.assertEqual(store.count(), 0)
            self.assertEqual(ask(), [])
            self.assertEqual(store.count(), 1)
            host.write(made.path / "fs/toy.c", "/* a keyword */\n")
            self.assertEqual(ask(), ["fs/toy.c"])
            host.write(made.path / "MAINTAINERS", "and there\n")
            self.assertEqual(ask(), ["fs/toy.c"])

    def test_wrong_order_is_refused(self):
        made = self.branch()
        made.grow()
        with self.assertRaisesRegex(UserError, "Makefile.sharp.patch"):
            made.commit(made.series.entries[1])

    def test_recovers_from_a_broken_off_run(self):
        made = self.branch()
        made.grow()
        made.commit(made.series.entries[0])
        (made.path / ".git/index.lock").touch()
        (made.path / "fs/Makefile").write_text("half-written")
        made = self.grow(self.branch())
        self.assertEqual(made.git("rev-list", "--count", "base..HEAD"),
                         "2\n")

    def test_requires_lies_below(self):
        self.entry("0000-cover", "Subject: x: y\nRequires: base\n\nText.\n")
        self.entry("0000-cover", COVER, of="base")
        self.entry("0001-first", SECOND.replace("Makefile.sharp", "base.c")
                   .replace(".patch", ""), of="base")
        self.put("fs/base.c", "/* base */\n")
        made = self.grow(self.branch())
        self.assertTrue((made.path / "fs/base.c").exists())
        self.assertEqual(made.git("rev-list", "--count", "base..HEAD"),
                         "2\n")

    def test_a_real_clone_keeps_its_commit_and_is_not_written(self):
        def git(*args):
            return subprocess.run(
                ["git", "-C", str(self.kernel), "-c", "user.name=x",
                 "-c", "user.email=x@example.invalid", *args],
                check=True, capture_output=True, text=True).stdout.strip()

        git("init", "-q")
        git("add", "-f", ".")
        git("commit", "-q", "-m", "upstream")
        head = git("rev-parse", "HEAD")
        before = sorted((str(path), path.lstat().st_mtime_ns)
                        for path in self.kernel.rglob("*"))
        made = self.grow(self.branch(is_git=True, head=head, origin="kdir"))
        self.assertEqual(made.git("rev-parse", "base").strip(), head)
        self.assertEqual(made.git("status", "--porcelain"), "")
        after = sorted((str(path), path.lstat().st_mtime_ns)
                       for path in self.kernel.rglob("*"))
        self.assertEqual(before, after)
        self.assertIn(f"base-commit: {head}",
                      mails.base_line(made.kernel, []))

    def test_no_hash_without_a_real_clone(self):
        line = mails.base_line(self.branch().kernel, [])
        self.assertEqual(line, "base: Linux 7.3.4")

    def test_users_git_settings_do_not_matter(self):
        evil = self.top / "gitconfig"
        evil.write_text("[commit]\n\tgpgsign = true\n[b4]\n"
                        "\tsend-series-cc = real@person.example.com\n")
        with mock.patch.dict(os.environ, {"GIT_CONFIG_GLOBAL": str(evil)}):
            made = self.grow(self.branch())
            self.assertNotIn("real@person.example.com", made.git("config", "-l"))

    def test_cover(self):
        made = self.branch()
        text = mails.cover_text(made.series, made.kernel)
        self.assertIn("This is for Linux 7.3.4.", text)
        self.assertIn("Not measured", text)
        self.assertNotIn("@", text)


class Messages(Scratch):

    def complaints(self, subject="fs: toy", body="Text.\n"):
        entry = entries.Entry(Path("0001-x"), subject, body, ["x"])
        return list(entries.check_message(entry))

    def test_good(self):
        self.assertEqual(self.complaints(body="x " * 37 + "\n"), [])

    def test_long_line(self):
        self.assertIn("line 1", self.complaints(body="x " * 40 + "\n")[0])

    def test_links_and_quoted_output_may_be_long(self):
        self.assertEqual(self.complaints(
            body="Link: https://x.test/" + "y" * 80 + "\n"), [])
        self.assertEqual(self.complaints(body="  insn  " + "y " * 40 + "\n"), [])

    def test_no_subsystem(self):
        self.assertIn("no subsystem", self.complaints(subject="Fix it")[0])

    def test_signed_off_by_hand(self):
        self.assertIn("added by git", self.complaints(
            body="Text.\n\nSigned-off-by: Me <me@example.invalid>\n")[0])


class Covers(Scratch):
    """What a cover letter has to say."""

    def cover(self, body):
        return list(entries.check_cover(entries.Entry(
            Path("0000-cover"), "fs: toys", body, [])))

    def test_all_is_said(self):
        self.assertEqual(self.cover(
            "Toys.\n\nTested: a lot.\n\nTo repeat, on a Sunday:\n  play\n\n"
            "Changes: none.\n"), [])

    def test_what_is_missing(self):
        self.assertEqual(self.cover("Toys.\n\nTested: a lot.\n"), [
            "no line of the cover begins with 'To repeat' and has a colon",
            "no line of the cover begins with 'Changes' and has a colon"])


class Sizes(unittest.TestCase):

    def wrong(self, numstat, message="Text."):
        return list(sizes.complaints(numstat, message))

    def test_small_enough(self):
        self.assertEqual(self.wrong("600\t0\tfs/toy.c\n"), [])
        self.assertEqual(self.wrong("1\t899\ttools/testing/selftests/toy.c\n"), [])
        self.assertEqual(self.wrong("500\t0\tfs/toy.c\n"
                                    "400\t0\tfs/toy-test.c\n"), [])

    def test_too_much_code(self):
        self.assertEqual(self.wrong("600\t1\tfs/toy.c\n3\t0\tfs/toy_kunit.c\n"),
                         ["it changes 601 lines, where 600 are the most"])

    def test_too_many_tests(self):
        self.assertIn("with its tests it changes 901 lines",
                      self.wrong("901\t0\tlib/test_toy.c\n")[0])
        self.assertEqual(len(self.wrong("500\t0\tfs/toy.c\n"
                                        "401\t0\tfs/tests/toy.c\n")), 1)

    def test_a_reason_in_the_message(self):
        reason = "It is one\npatch, as half of a toy is none."
        self.assertEqual(self.wrong("601\t0\tfs/toy.c\n", reason), [])
        self.assertIn("small enough", self.wrong("9\t0\tfs/toy.c\n", reason)[0])

    def test_what_is_a_test(self):
        for name in ("tools/testing/selftests/uq/uq.h", "fs/ext4/dax-test.h",
                     "drivers/nvme/host/tests/uq_kunit.c", "lib/test_xarray.c"):
            self.assertTrue(sizes.is_test(name), name)
        for name in ("fs/latest.c", "tools/nvme/uq_cq.h", "kernel/unit.c"):
            self.assertFalse(sizes.is_test(name), name)


GET_MAINTAINER = """#!/bin/sh
for file; do :; done
[ "$file" = fs/lost.c ] || printf 'TOYS\\nM:\\tx\\nF:\\tfs/toy*\\n\\n'
printf 'THE REST\\nM:\\ty\\nF:\\t*\\n'
"""


class Sending(Scratch):

    def wrong(self, address=f"me{AT}person.test.org", **env):
        with mock.patch.dict(os.environ, env):
            return list(sender.in_the_way(("Me", address), lay.items(self.root)))

    def test_stand_ins(self):
        for address in (branch.NOBODY, "a users.noreply.host.org", "x y.example",
                        "x example.com", "no-reply host.org", "x a.test", "me",
                        "maintainers users.noreply.a-tree.example"):
            self.assertTrue(sender.is_stand_in(address.replace(" ", AT)), address)
        for address in ("me person.org", "example kernel.org", "x notexample.com"):
            self.assertFalse(sender.is_stand_in(address.replace(" ", AT)), address)

    def test_a_person_may_send(self):
        self.assertEqual(self.wrong(), [])

    def test_a_stand_in_may_not(self):
        self.assertIn("is no person", self.wrong(f"x{AT}y.example")[0])

    def test_a_maintainer_to_be_filled_in(self):
        self.put("MAINTAINERS.patch", "--- a/MAINTAINERS\n+++ b/MAINTAINERS\n"
                 "@@ -1 +1,2 @@\n MAINTAINERS\n+M:\tYou <nobody@example.invalid>\n")
        self.assertIn("MAINTAINERS.patch names no maintainer", self.wrong()[0])

    def test_only_what_is_to_be_sent_is_refused(self):
        for value, refused in (("1", True), ("", False), ("0", False)):
            with mock.patch.dict(os.environ, {"SEND": value}):
                try:
                    sender.check(("Me", f"x{AT}y.example"), [])
                    self.assertFalse(refused)
                except UserError as error:
                    self.assertTrue(refused)
                    self.assertIn("SEND=1", str(error))


class Goals(unittest.TestCase):

    def test_what_is_compiled(self):
        self.assertEqual(series.goals(
            ["fs/ext4/dax-read.c", "fs/ext4/Kconfig", "fs/read_write.c",
             "mm/memory.c", "Documentation/x.rst",
             "tools/testing/selftests/dax/x.c"], []),
            ["fs/ext4/", "fs/ext4/dax-read.o", "fs/read_write.o",
             "mm/memory.o"])

    def test_a_c_file_is_read_by_no_other(self):
        self.assertEqual(series.goals(["fs/ext4/inode.c"], []),
                         ["fs/ext4/inode.o"])
        self.assertEqual(series.goals(["fs/ext4/ext4.h"], []), ["fs/ext4/"])

    def test_only_a_header(self):
        self.assertEqual(series.goals(["include/linux/fs.h"],
                                      ["include/linux/fs.h", "fs/exec.c"]),
                         ["fs/exec.o"])

    def test_selftests(self):
        self.assertEqual(series.selftest_folders(
            ["tools/testing/selftests/filesystems/dax/a.c",
             "tools/testing/selftests/filesystems/dax/Makefile",
             "tools/testing/selftests/Makefile", "fs/x.c"]),
            ["filesystems/dax"])

    def test_only_what_a_commit_brings_is_compiled(self):
        at = "tools/testing/selftests/toy/"
        makefile = "TEST_GEN_PROGS := kite ball\nTEST_GEN_PROGS += top\n"

        def found(*files, patch="+TEST_GEN_PROGS += top\n"):
            items = {file: lay.Item(file, file.removesuffix(".patch"),
                                    "patch" if file.endswith(".patch") else "file")
                     for file in files}
            with tempfile.TemporaryDirectory() as top, \
                    mock.patch.object(host, "ROOT", Path(top)):
                host.write(Path(top) / f"{at}Makefile.patch",
                           f"--- a/{at}Makefile\n+++ b/{at}Makefile\n"
                           f"@@ -1 +1,2 @@\n TEST_GEN_PROGS := kite ball\n{patch}")
                return series.programs(entries.Entry(
                    Path("0001-toy"), "selftests: toy", "Toy.", list(files)), items,
                    "toy", makefile)

        self.assertEqual(found(f"{at}kite.c", f"{at}top.c", f"{at}toy.h",
                               f"{at}Makefile.patch", f"{at}README"),
                         ["kite", "top"])
        for more in ("+LOCAL_HDRS := toy.h\n-LOCAL_HDRS := \n",
                     "+TEST_FILES += lib.sh\n+\n+# of its own\n"):
            self.assertEqual(found(f"{at}kite.c", f"{at}Makefile.patch", patch=more),
                             ["kite"])
        for more in ("+CFLAGS += -O2\n", "-LDLIBS += -lpthread\n", "+\tcc $<\n",
                     "+$(TEST_GEN_PROGS): $(OUTPUT)/toy.o\n",
                     "+TEST_GEN_MODS_DIR := mods\n"):
            self.assertIsNone(found(f"{at}kite.c", f"{at}Makefile.patch", patch=more),
                              more)
        self.assertEqual(found(f"{at}all.sh", f"{at}shared.c"), [])
        self.assertEqual(found(f"{at}kite.c", f"{at}ball.c.patch"),
                         ["ball", "kite"])
        self.assertEqual(found("tools/toy/kite.c", "tools/toy/toy.h"), ["kite"])
        for other in (f"{at}shared.c.patch", f"{at}toy.h.patch",
                      "tools/toy/toy.h.patch", f"{at}test_modules/Makefile"):
            self.assertIsNone(found(f"{at}kite.c", other), other)

    def builds(self, *commits):
        """What of a folder of selftests a series builds, commit by commit."""
        at = "tools/testing/selftests/toy/"
        with tempfile.TemporaryDirectory() as top, \
                mock.patch.object(series.objects, "Shop") as made:
            shop = made.return_value
            shop.tree = Path(top)
            shop.selftest.return_value = mock.Mock(stdout="", returncode=0)
            host.write(shop.tree / at / "Makefile", "TEST_GEN_PROGS := kite ball\n")
            builder = series.Builder(None, Path(top) / "log")
            for names in commits:
                files = [name if name.startswith("include/") else f"{at}{name}"
                         for name in names.split()]
                items = {file: lay.Item(file, file, "file") for file in files}
                with mock.patch.object(series, "goals", return_value=[]):
                    builder.build(entries.Entry(Path("0001-toy"), "", "", files),
                                  items)
        return [call.args[1:] for call in shop.selftest.call_args_list], \
            shop.headers.call_count

    def test_programs_of_series_below_are_compiled_there(self):
        self.assertEqual(self.builds("kite.c", "toy.sh", "ball.c"), (
            [(False, ["kite"], []), (True, [], []), (True, ["ball"], [])], 1))

    def test_scripts_need_no_headers(self):
        self.assertEqual(self.builds("toy.sh"), ([(False, [], [])], 0))

    def test_what_programs_share_is_compiled_with_its_commit(self):
        self.assertEqual(self.builds("shared.c mods/mod.c", "ball.c more.c"), (
            [(False, None, ["shared.o"]), (True, ["ball"], ["more.o"])], 1))
        self.assertEqual(self.builds("include/uapi/linux/toy.h", "shared.c kite.c")[0],
                         [(False, None, ["shared.o"])])

    def selftest(self, **files):
        """What is said of a commit that brings these files to a folder."""
        at = "tools/testing/selftests/toy/"
        with tempfile.TemporaryDirectory() as top, \
                mock.patch.object(host, "WORK", Path(top)), \
                mock.patch.object(objects.build, "top", lambda: Path(top)), \
                mock.patch.object(series.objects.Shop, "headers"), \
                mock.patch.object(series.objects.Shop, "lay"), \
                mock.patch.object(series, "goals", return_value=[]):
            builder = series.Builder(None, Path(top) / "log")
            folder = builder.shop.tree / at
            host.write(folder / "Makefile",
                       "all: $(TEST_GEN_PROGS)\n"
                       "$(OUTPUT)/%.o: %.c\n\t$(CC) -Wall -c $< -o $@\n")
            paths = []
            for name, text in files.items():
                paths.append(f"{at}{name}.c")
                host.write(folder / f"{name}.c", text)
            items = {path: lay.Item(path, path, "file") for path in paths}
            return builder.build(entries.Entry(Path("0001-toy"), "", "", paths), items)

    def test_warnings_of_what_no_program_is_linked_with_yet(self):
        self.assertEqual(self.selftest(fine="int fine;\n"), [])
        self.assertRegex(" ".join(self.selftest(fine="int fine;\n",
                                                shared="static int odd;\n")),
                         "shared.c:1: warning: .*odd")
        self.assertRegex(" ".join(self.selftest(shared='#include "later.h"\n')),
                         "shared.c:1: fatal error: later.h")

    def test_headers_of_the_kernel_change_all_programs(self):
        self.assertEqual(self.builds(
            "kite.c", "include/uapi/linux/toy.h", "toy.sh", "ball.c",
            "include/linux/toy.h", "kite.c"), (
            [(False, ["kite"], []), (False, None, []), (True, ["ball"], []),
             (True, ["kite"], [])], 2))

    def test_modules_are_built_by_the_folder_above(self):
        self.assertEqual(series.selftest_folders(
            ["tools/testing/selftests/uq/uq_io.c",
             "tools/testing/selftests/uq/test_modules/Makefile"]), ["uq"])

    def test_folder_without_makefile_is_built_from_above(self):
        with tempfile.TemporaryDirectory() as top:
            top = Path(top)
            (top / "drivers/nvme/host/tests").mkdir(parents=True)
            (top / "drivers/nvme/host/uq").mkdir()
            (top / "drivers/nvme/host/Makefile").touch()
            (top / "drivers/nvme/host/uq/core.c").touch()
            shop = objects.Shop(None, "log")
            shop.tree = top
            self.assertEqual(shop._present(series.goals(
                ["drivers/nvme/host/uq/core.c", "drivers/nvme/host/uq/a.h",
                 "drivers/nvme/host/tests/uq_kunit.c"], [])),
                ["drivers/nvme/host/", "drivers/nvme/host/uq/core.o"])


class Reached(Scratch):
    """What of a folder a commit reaches, beside its C files."""

    TREE = {
        "fs/toy/Makefile": "obj-y += kite.o ball.o top.o off.o sub/\n",
        "fs/toy/toy.h": "struct toy;\n",
        "fs/toy/all.h": '#include "toy.h"\n',
        "fs/toy/alone.h": "struct alone;\n",
        "fs/toy/kite.c": "#include <linux/fs.h>\n#include \"toy.h\"\n",
        "fs/toy/ball.c": ' # include "../toy/all.h"\n',
        "fs/toy/top.c": "int toy_h;\n",
        "fs/toy/off.c": '#include "toy.h"\n',
        "fs/toy/sub/deep.c": "#include <all.h>\n",
        "fs/toy/sub/part.c": '#include "deep.c"\n',
    }

    def setUp(self):
        super().setUp()
        self.tree = self.root / "tree"
        for name, text in self.TREE.items():
            host.write(self.tree / name, text)

    def commit(self, *files, patch=""):
        items = {}
        for file in files:
            kind = "patch" if file.endswith(".patch") else "file"
            items[file] = lay.Item(file, file.removesuffix(".patch"), kind)
        host.write(self.root / "fs/toy/Makefile.patch",
                   "--- a/fs/toy/Makefile\n+++ b/fs/toy/Makefile\n"
                   f"@@ -1 +1,2 @@\n obj-y += ball.o\n{patch}")
        return entries.Entry(Path("0001-toy"), "", "", list(files)), items

    def reached(self, *files, patch=""):
        entry, items = self.commit(*files, patch=patch)
        with mock.patch.object(host, "ROOT", self.root):
            found = series.reached(self.tree, Path("fs/toy"), entry, items)
        return found if found is None else sorted(found)

    def test_who_includes_a_header_by_whatever_way(self):
        self.assertEqual(self.reached("fs/toy/toy.h", "fs/toy/top.c"), [
            "fs/toy/ball.o", "fs/toy/kite.o", "fs/toy/off.o",
            "fs/toy/sub/deep.o", "fs/toy/sub/part.o"])
        self.assertEqual(self.reached("fs/toy/alone.h"), [])

    def test_kernel_doc_reads_c_files_that_a_commit_changes(self):
        host.write(self.root / "Makefile",
                   "KERNELDOC = doc\n$(MAKECMDGOALS): %.o: tree/%.c\n"
                   "\t@echo $<: $(cmd_checkdoc)\n")
        host.write(self.tree / "fs/kite.c", "")
        goals = ["fs/toy/kite.o", "fs/toy/top.o", "fs/kite.o"]
        for changed, read in ((["fs/toy/kite.c", "fs/toy/toy.h"], goals[:1]),
                              (["fs/kite.c", "fs/toy/top.c"], goals[1:]),
                              (["fs/toy/toy.h"], [])):
            said = subprocess.run(
                ["make", "-s", "-C", self.root, series.kernel_doc(changed), *goals],
                capture_output=True, text=True, check=True).stdout.splitlines()
            self.assertEqual([f"{line.partition(':')[0][5:-2]}.o" for line in said
                              if " doc -none" in line], read)

    def test_objects_that_a_makefile_names(self):
        self.assertEqual(self.reached("fs/toy/Makefile.patch",
                                      patch="+obj-y += top.o sub/deep.o\n+\n# x\n"),
                         ["fs/toy/sub/deep.o", "fs/toy/top.o"])

    def test_what_may_reach_all_of_the_folder(self):
        self.assertIsNone(self.reached("fs/toy/Makefile.patch",
                                       patch="+ccflags-y += -O3\n"))
        self.assertIsNone(self.reached("fs/toy/Makefile"))
        self.assertIsNone(self.reached("fs/toy/Kconfig", "fs/toy/alone.h"))
        self.assertIsNone(self.reached("include/linux/fs.h", "fs/toy/alone.h"))

    def compiled(self, *files, configured, patch=""):
        """What a series compiles for a commit."""
        entry, items = self.commit(*files, patch=patch)
        with mock.patch.object(series.objects, "Shop") as made, \
                mock.patch.object(host, "ROOT", self.root), \
                mock.patch.object(series, "_withouts", return_value={}):
            shop = made.return_value
            shop.tree = self.tree
            shop.configured.side_effect = lambda _, names: (
                None if configured is None else names & configured)
            shop.complaints.return_value = []
            series.Builder(None, self.root / "log").build(entry, items)
        return [call.args[0] for call in shop.complaints.call_args_list]

    def test_of_these_what_is_configured_is_compiled(self):
        self.assertEqual(self.compiled(
            "fs/toy/toy.h", "fs/toy/top.c",
            configured={"fs/toy/kite.o", "fs/toy/ball.o", "fs/toy/other.o"}),
            [["fs/toy/ball.o", "fs/toy/kite.o", "fs/toy/top.o"]])

    def test_a_header_that_nothing_includes_yet_compiles_nothing(self):
        self.assertEqual(self.compiled("fs/toy/alone.h",
                                       configured={"fs/toy/kite.o"}), [])

    def test_the_folder_if_it_cannot_be_told(self):
        self.assertEqual(self.compiled("fs/toy/toy.h", configured=None),
                         [["fs/toy/"]])
        self.assertEqual(self.compiled("fs/toy/Kconfig", configured=set()),
                         [["fs/toy/"]])

    # As much of kbuild's own makefile as its lists take.
    KBUILD = ("lib-y :=\nreal-obj-m :=\ninclude $(srctree)/$(obj)/Makefile\n"
              "real-obj-y := $(addprefix $(obj)/,$(filter-out %/,$(obj-y)))\n"
              "subdir-ym := $(addprefix $(obj)/,$(patsubst %/,%,$(filter %/,"
              "$(obj-y))))\n")

    def configured(self, *names, folder="fs/toy"):
        with mock.patch.object(objects.build, "top", lambda: self.root):
            shop = objects.Shop(None, self.root / "log")
        shop.tree, shop.build = self.tree, self.root / "built"
        host.write(shop.build / "include/config/auto.conf", "")
        found = shop.configured(folder, names)
        return found if found is None else sorted(found)

    def test_what_is_configured_of_a_folder(self):
        host.write(self.tree / "scripts/Makefile.build", self.KBUILD)
        host.write(self.tree / "fs/toy/Makefile",
                   "obj-y := kite.o by/more.o sub/\nobj-$(NONE) += off.o none/\n")
        host.write(self.tree / "fs/toy/sub/Makefile", "obj-y := deep.o\n")
        host.write(self.tree / "fs/toy/none/Makefile", "obj-y := never.o\n")
        self.assertEqual(
            self.configured("fs/toy/kite.o", "fs/toy/off.o", "fs/toy/by/more.o",
                            "fs/toy/sub/deep.o", "fs/toy/sub/part.o",
                            "fs/toy/none/never.o"),
            ["fs/toy/by/more.o", "fs/toy/kite.o", "fs/toy/sub/deep.o"])
        self.assertEqual(self.configured(), [])

    def test_a_folder_that_kbuild_does_not_read(self):
        host.write(self.tree / "scripts/Makefile.build", self.KBUILD)
        host.write(self.tree / "fs/toy/Makefile", "obj-y := kite.o sub/\n")
        self.assertIsNone(self.configured("fs/toy/sub/deep.o"))
        self.assertEqual(self.configured("fs/toy/kite.o"), ["fs/toy/kite.o"])

    def test_a_kernel_that_lists_its_objects_otherwise(self):
        host.write(self.tree / "fs/toy/Makefile", "obj-y := kite.o\n")
        for name in ("real-obj-y", "real-obj-m", "lib-y", "subdir-ym"):
            host.write(self.tree / "scripts/Makefile.build",
                       self.KBUILD.replace(f"{name} :=", f"new-{name} :="))
            self.assertIsNone(self.configured("fs/toy/kite.o"), name)

    def test_a_folder_that_is_not_configured_yet(self):
        host.write(self.tree / "scripts/Makefile.build", self.KBUILD)
        host.write(self.tree / "fs/toy/Makefile", "obj-y := kite.o\n")
        with mock.patch.object(host, "write"):
            self.assertIsNone(self.configured("fs/toy/kite.o"))


class Tables(Scratch):

    RESULTS = [
        {"bench": "dax-read", "variant": variant, "insn_per_op": value,
         "params": {"size": size, "extents": 1, "hole": False}}
        for size, row in ((8, (1641, 950, 700)), (512, (2145, 1450, 1200)))
        for variant, value in zip(("generic", "read_iter", "read"), row,
                                  strict=True)]

    PARTS = {"dax-read": {"kernel": "7.3.4", "commit": "0123456789abcdef"},
             "nvme": {"kernel": "7.3.4", "commit": "123456789abcdef0-dirty"},
             "lines": {"kernel": "7.3.5", "commit": "none"}}

    def text(self, wanted, results=None):
        path = self.root / "overlay" / "bench" / "results.json"
        host.write(path, json.dumps({
            "parts": self.PARTS,
            "results": self.RESULTS if results is None else results}))
        return mails.measured(wanted)

    def test_table(self):
        text = self.text("dax-read")
        self.assertIn("size  generic  read_iter  ratio  read  ratio", text)
        self.assertIn("   8     1641        950   0.58   700   0.43", text)
        self.assertIn("(extents 1, hole false)", text)
        self.assertIn("Linux 7.3.4, tree at 0123456789ab.", text)

    def test_bare(self):
        floor = {"bench": "syscall", "variant": "floor", "insn_per_op": 341,
                 "params": {"syscall": "pread", "size": 0}}
        text = self.text("dax-read bare", [*self.RESULTS, floor])
        self.assertIn("read_iter  ratio  bare  read  ratio  bare", text)
        self.assertIn("   8     1641        950   0.58  0.47   700   0.43  0.27",
                      text)
        self.assertIn(" 512     2145       1450   0.68  0.46", text)
        self.assertNotIn("341", text)

    def test_no_column_without_a_figure(self):
        apart = [{"bench": "dax-read", "variant": variant, "insn_per_op": insn,
                  "params": {"others": others}}
                 for variant, others, insn in (("alone", 0, 1935),
                                               ("limited", 60, 4922))]
        text = self.text("dax-read", apart)
        self.assertIn("others  alone  limited\n", text)
        self.assertIn("    60      -     4922\n", text)

    def test_chosen_rows(self):
        text = self.text("dax-read size=512 hole=false")
        self.assertIn("2145", text)
        self.assertNotIn("1641", text)

    def test_chosen_variants(self):
        text = self.text("dax-read size=8 variant=generic,read")
        self.assertIn("generic  read  ratio", text)
        self.assertNotIn("read_iter", text)

    def test_two_tables(self):
        text = self.text("dax-read size=8; dax-read size=512")
        self.assertIn("(extents 1, hole false, size 8)", text)
        self.assertIn("(extents 1, hole false, size 512)", text)
        self.assertEqual(text.count("Linux 7.3.4"), 1)

    def test_of_two_parts(self):
        text = self.text("dax-read size=8; nvme", [*self.RESULTS, {
            "bench": "nvme", "variant": "uq", "insn_per_op": 951,
            "params": {"batch": 32}}])
        self.assertIn("Linux 7.3.4, tree at 0123456789ab; Linux 7.3.4, tree at "
                      "123456789abc with changes.", text.replace("\n", " "))

    def test_cache_lines(self):
        path = self.root / "overlay" / "bench" / "results.json"
        host.write(path, json.dumps({
            "parts": self.PARTS, "results": self.RESULTS, "lines": [
                {"bench": "dax-read", "variant": variant, "lines_per_op": 21.04,
                 "params": {"size": 8, "cpus": cpus}, "own_lines_per_op": 1,
                 "code_lines_per_op": 47.5, "transfers_per_op": cpus - 1}
                for cpus in (1, 4) for variant in ("generic", "read")]}))
        text = mails.measured("dax-read size=8; lines dax-read size=8")
        self.assertIn("1641", text)
        self.assertIn("per operation (size 8),", text)
        self.assertIn("not cycles", text)
        self.assertIn("are not time", text)
        self.assertIn("Linux 7.3.4, tree at 0123456789ab.", text)
        self.assertIn("Cache lines of Linux 7.3.5.", text)
        self.assertNotIn("not cycles", mails.measured("lines dax-read"))
        self.assertRegex(text, "cpus +variant +data +code +taken\n"
                               " +1 +generic +20.0 +47.5 +0.0\n")
        self.assertRegex(text, "\n +4 +read +20.0 +47.5 +3.0\n")
        with self.assertRaisesRegex(UserError, "nothing for .*lines"):
            mails.measured("lines dax-read size=7")

    def test_nothing_chosen(self):
        for wanted in ("dax-read size=7", "dax-read size=8; dax-read size=7"):
            with self.assertRaisesRegex(UserError, "nothing for .*size=7"):
                self.text(wanted)

    def test_damaged(self):
        host.write(self.root / "overlay/bench/results.json", '{"results": 3')
        with self.assertRaisesRegex(UserError, "run it again"):
            mails.measured("dax-read")

    def test_nothing_measured_and_to_be_sent(self):
        self.assertIn("Not measured", mails.measured("dax-read"))
        with mock.patch.dict(os.environ, {"SEND": "1"}), \
                self.assertRaisesRegex(UserError, "results.json, which `make"):
            mails.measured("dax-read")

    def test_old_results_are_not_claimed(self):
        path = self.root / "out" / "kunit" / "junit.xml"
        host.write(path, '<testsuite tests="5" failures="1" skipped="1"/>')
        self.assertIn("kunit: 3 passed, 1 failed, 1 skipped", mails.tested())
        later = path.stat().st_mtime + 1
        self.assertIn("no results", mails.tested(since=later))


class Exceptions(unittest.TestCase):

    RULES = "# why\nODD fs/*.c\nSPACING fs/x.c around that '*'\n"
    OUTPUT = ("fs/a.c:1: WARNING:ODD: it is odd\n"
              "mm/a.c:1: WARNING:ODD: it is odd\n"
              "fs/x.c:2: CHECK:SPACING: spaces around that '*' (ctx)\n"
              "fs/x.c:3: CHECK:SPACING: spaces around that '+' (ctx)\n"
              ":2: WARNING:COMMIT_LOG_LONG_LINE: too long\n"
              "Traceback (most recent call last):\n")

    def test_only_what_is_argued_away_goes(self):
        complaints = checkpatch.judge(self.OUTPUT, 1, checkpatch.rules(self.RULES))
        self.assertEqual([line.partition(":")[0] for line in complaints],
                         ["mm/a.c", "fs/x.c", "", "Traceback (most recent "
                                                  "call last)"])

    def test_all_is_argued_away(self):
        self.assertEqual(checkpatch.judge(
            self.OUTPUT.splitlines()[0], 1, checkpatch.rules(self.RULES)), [])

    def test_a_checkpatch_that_breaks_is_no_pass(self):
        self.assertEqual(checkpatch.judge("", 2, []),
                         ["checkpatch ended with 2"])

    def test_an_exception_says_why(self):
        for text in ("ODD fs/*.c\n", "# why\n\nODD fs/*.c\n", "# why\nODD\n"):
            with self.assertRaisesRegex(UserError, "says why"):
                checkpatch.rules(text)

    def test_our_own_are_well_formed(self):
        self.assertTrue(all(rule.type.isupper()
                            for rule in checkpatch.load()))


MAIL = """From: Some Body <some@example.invalid>
To: nobody@example.invalid
Subject: [PATCH 1/1] fs: toy
Content-Type: text/plain; charset="utf-8"

Text. Link: https://lore.example/r/20260101.1234-1-x@host.test

Signed-off-by: Some Body <some@example.invalid>
---
 fs/toy.c | 1 +

diff --git a/fs/toy.c b/fs/toy.c
@@ -1,2 +1,3 @@
 /* by upstream@person.example.com */
+int toy;
"""


class Mails(Scratch):

    def complaints(self, text, count=1, is_git=False):
        path = self.top / "0001.eml"
        path.write_text(text)
        return list(mails.mail_complaints(
            [path], count, "some@example.invalid", is_git))

    def test_good(self):
        self.assertEqual(self.complaints(MAIL), [])

    def test_a_real_addressee(self):
        for key in ("To", "Cc", "Bcc", "Reply-To"):
            text = MAIL.replace(
                "Subject:", f"{key}: A <list@person.example.com>\nSubject:")
            self.assertRegex(" ".join(self.complaints(text)), "list@person.example.com")

    def test_an_address_in_the_text(self):
        text = MAIL.replace("Signed-off", "Cc: a@person.example.com\nSigned-off")
        self.assertRegex(self.complaints(text)[0], "text: a@person.example.com")

    def test_an_address_in_an_added_line(self):
        text = MAIL.replace("+int toy;", "+int toy; /* me@person.example.com */")
        self.assertRegex(self.complaints(text)[0], "text: me@person.example.com")

    def test_the_list_of_a_section_of_maintainers(self):
        text = MAIL.replace("+int toy;", "+L:\tlist@person.example.com")
        self.assertEqual(self.complaints(text), [])
        self.assertEqual(len(self.complaints(text.replace("+L:", "+M:"))), 1)

    def test_the_list_of_stable_kernels(self):
        stable = "Cc: stable@" "vger.kernel.org"
        text = MAIL.replace("Signed-off", f"{stable}\nSigned-off")
        self.assertEqual(self.complaints(text), [])
        self.assertEqual(len(self.complaints(text.replace("Cc:", "To:", 1))), 1)
        text = MAIL.replace("Subject:", f"{stable}\nSubject:")
        self.assertRegex(" ".join(self.complaints(text)), "Cc: stable")

    def test_no_addressee(self):
        text = MAIL.replace("To: nobody@example.invalid\n", "")
        self.assertRegex(self.complaints(text)[0], "not addressed")

    def test_base_commit_that_nobody_has(self):
        text = MAIL + "base-commit: 0123456789\n"
        self.assertRegex(self.complaints(text)[0], "base-commit")
        self.assertEqual(self.complaints(text, is_git=True), [])

    def test_a_mail_is_missing(self):
        self.assertRegex(self.complaints(MAIL, count=2)[0], "1 mails")

    def test_placeholder(self):
        text = MAIL.replace("Text.", "See @TABLE@.")
        self.assertRegex(self.complaints(text)[0], "placeholder")


class Identity(Scratch):

    def test_stand_in(self):
        env = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
               "HOME": str(self.top)}
        clean = {key: value for key, value in os.environ.items()
                 if not key.startswith("GIT_")}
        self.root.mkdir(exist_ok=True)
        with mock.patch.dict(os.environ, {**clean, **env}, clear=True):
            self.assertEqual(branch.identity()[1], branch.NOBODY)


if __name__ == "__main__":
    unittest.main()
