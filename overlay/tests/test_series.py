# SPDX-License-Identifier: GPL-2.0
"""Series: which file is in which commit, the branch, the cover, the mails."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from engine import branch, checkpatch, entries, host, lay, mails, objects, series
from engine.host import UserError
from engine.source import Source

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


MAINTAINERS = """TOYS
M:	Nobody <nobody@example.invalid>
F:	fs/toy*
F:	fs/box/
F:	drivers/*/toy/

BY NAME
N:	puzzle

THE REST
F:	*
F:	*/
"""


class Maintained(unittest.TestCase):

    def lost(self, *files):
        return series.unmaintained(MAINTAINERS, files)

    def test_covered(self):
        self.assertEqual(self.lost("fs/toy.c", "fs/box/x/y.c",
                                   "drivers/any/toy/z.c",
                                   "lib/puzzle-box.c"), [])

    def test_the_rest_covers_nothing(self):
        self.assertEqual(self.lost("mm/new.c"), ["mm/new.c"])

    def test_a_glob_does_not_cross_folders(self):
        self.assertEqual(self.lost("fs/toys/x.c"), ["fs/toys/x.c"])


class Goals(unittest.TestCase):

    def test_what_is_compiled(self):
        self.assertEqual(series.goals(
            ["fs/ext4/dax-read.c", "fs/ext4/Kconfig", "fs/read_write.c",
             "mm/memory.c", "Documentation/x.rst",
             "tools/testing/selftests/dax/x.c"], []),
            ["fs/ext4/", "fs/ext4/dax-read.o", "fs/read_write.o",
             "mm/memory.o"])

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


class Tables(Scratch):

    RESULTS = [
        {"bench": "dax-read", "variant": variant, "insn_per_op": value,
         "params": {"size": size, "extents": 1, "hole": False}}
        for size, row in ((8, (1641, 950, 700)), (512, (2145, 1450, 1200)))
        for variant, value in zip(("generic", "read_iter", "read"), row,
                                  strict=True)]

    def text(self, wanted, results=None):
        path = self.root / "out" / "bench.json"
        host.write(path, json.dumps({
            "kernel": "7.3.4", "commit": "0123456789abcdef",
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

    def test_chosen_rows(self):
        text = self.text("dax-read size=512 hole=false")
        self.assertIn("2145", text)
        self.assertNotIn("1641", text)

    def test_chosen_variants(self):
        text = self.text("dax-read size=8 variant=generic,read")
        self.assertIn("generic  read  ratio", text)
        self.assertNotIn("read_iter", text)

    def test_two_tables(self):
        text = self.text("dax-read size=8; dax-read size=512; dax-read size=7")
        self.assertIn("(extents 1, hole false, size 8)", text)
        self.assertIn("(extents 1, hole false, size 512)", text)
        self.assertIn("holds nothing for 'dax-read size=7'", text)
        self.assertEqual(text.count("Linux 7.3.4"), 1)

    def test_nothing_chosen(self):
        self.assertIn("holds nothing", self.text("dax-read size=7"))

    def test_damaged(self):
        host.write(self.root / "out" / "bench.json", '{"results": 3')
        with self.assertRaisesRegex(UserError, "run it again"):
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
