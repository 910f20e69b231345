# SPDX-License-Identifier: GPL-2.0
"""Check the rules of the tree, the parsing of compilers' output, and NOT RUN."""

import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from engine import host, ktap, lint, objects, rules, source
from engine.host import UserError
from engine.lay import Item
from tests.test_host import Folder

PATCH = """--- a/fs/Makefile
+++ b/fs/Makefile
@@ -1,3 +1,4 @@
 one
+two
 three
 four
"""
AT = "@"                # so that this file holds no address itself


class Rules(unittest.TestCase):

    def complaints(self, text, name="x.txt", **kwargs):
        return list(rules.check(name, text, **kwargs))

    def test_good(self):
        self.assertEqual(self.complaints("plain text in /tmp and /dev/pmem0\n"), [])

    def test_path_of_this_machine(self):
        complaints = self.complaints("see /srv/clone/x\n", places=["/srv/clone"])
        self.assertEqual(complaints, ["x.txt:1: a path of this machine: "
                                      "/srv/clone"])

    def test_short_places_say_nothing(self):
        self.assertEqual(self.complaints("/root and /\n", places=["/root", "/"]),
                         [])

    def test_home(self):
        self.assertRegex(self.complaints("/ho" + "me/joe/linux\n")[0], "home")
        self.assertEqual(self.complaints("$HOME/x ~/home/x\n"), [])

    def test_registries(self):
        for name in ("deb.debian", "files.pythonhosted", "registry.npmjs"):
            text = f"fetch {name}.org/x\n"
            self.assertRegex(self.complaints(text)[0], "registry", text)
        self.assertEqual(self.complaints("docs.kernel.org, lore.kernel.org\n"), [])

    def test_addresses(self):
        self.assertRegex(self.complaints(f"me{AT}kernel.test\n")[0], "e-mail")
        self.assertEqual(self.complaints(
            f"nobody{AT}example.invalid a{AT}users.noreply.x.test\n"
            f"https://lore.test/r/20210115.12{AT}host.test\n"
            "@@ -1,2 +1,3 @@\n"), [])
        self.assertEqual(self.complaints(f"own{AT}kernel.test\n",
                                         addresses=[f"own{AT}kernel.test"]), [])

    def test_licence(self):
        self.assertRegex(self.complaints("int x;\n", licence=True)[0], "SPDX")
        self.assertEqual(self.complaints(
            "/* SPDX-License-" "Identifier: GPL-2.0 */\n", licence=True), [])

    def test_last_line(self):
        self.assertRegex(self.complaints("no end")[0], "newline at the end")

    def test_context_of_a_patch_is_upstreams(self):
        text = PATCH.replace(" one\n", f" M: A Person <someone{AT}kernel.test>\n")
        self.assertEqual(self.complaints(text, "MAINTAINERS.patch"), [])
        self.assertRegex(self.complaints(text.replace(" M:", "+M:"),
                                         "MAINTAINERS.patch")[0], "address")

    def test_only_what_a_patch_adds_is_spelled(self):
        self.assertEqual(rules.added(PATCH), "two\n")


GCC = """  CC      fs/ext4/toy.o
../linux/fs/ext4/toy.c:12:5: warning: no previous prototype [-Wmissing]
../linux/fs/ext4/toy.c:19:5: warning: no previous prototype [-Wmissing]
../linux/fs/ext4/other.c:1:1: error: it is broken
In file included from ../linux/include/linux/fs.h:5,
../linux/include/linux/fs.h:9:1: warning: it is odd
  CHECK   fs/ext4/toy.c
fs/ext4/toy.c:3:7: warning: symbol 'x' was not declared.
"""


class Warnings(unittest.TestCase):

    def test_only_of_our_files_each_once(self):
        found = objects.warnings(GCC, ["fs/ext4/toy.c"])
        self.assertEqual(list(found.values()), [
            "fs/ext4/toy.c:12: warning: no previous prototype [-Wmissing]",
            "fs/ext4/toy.c:3: warning: symbol 'x' was not declared."])

    def test_of_a_header_that_is_included_from_a_folder_below(self):
        for top in ("../linux/", "/src/linux/", ""):
            self.assertEqual(list(objects.warnings(
                f"{top}fs/ext4/toy/../toy.h:9:1: warning: it is odd\n",
                ["fs/ext4/toy.h"]).values()), ["fs/ext4/toy.h:9: warning: it is odd"])

    def test_of_all_files(self):
        self.assertEqual(len(objects.warnings(GCC)), 4)

    def test_a_name_is_no_suffix_of_another(self):
        self.assertEqual(objects.warnings(GCC, ["oy.c"]), {})

    def test_best_line_of_a_failure(self):
        self.assertIn("it is broken", objects.first_error(GCC))


class Shop(objects.Shop):
    """A stub of Shop with a tree and a build directory."""

    def __init__(self, folder, says, upstream):
        super().__init__(folder / "log")
        self.tree = self.build = Path(folder)
        self.says, self.theirs, self.configured = says, upstream, False

    def elsewhere(self, arch):
        shop = super().elsewhere(arch)
        shop.build = self.build
        return shop

    def at(self, revision):
        pass

    def configure(self):
        self.configured = True

    def make(self, *args, **kwargs):
        return SimpleNamespace(stdout=self.says, returncode=0)

    def upstream(self, base, patched, *args):
        return set(objects.warnings(self.theirs, patched))

    def forget(self, names):
        pass


class Compiled(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = Path(folder.name)
        self.items = [Item("fs/ext4/toy.c", "fs/ext4/toy.c", "file")]
        for name in ("toy.c", "toy.o"):
            host.write(self.top / "fs/ext4" / name, "")

    def cases(self, tool, says, items=None, upstream=""):
        items = items or self.items
        with mock.patch.object(objects.build, "top", return_value=self.top), \
                mock.patch.object(lint, "find_sparse", return_value="sparse"):
            shop = Shop(self.top, says, upstream)
            job = SimpleNamespace(items=items, shop=shop, log=self.top / "log",
                                  base="base", laid="laid",
                                  kernel=SimpleNamespace(path=self.top),
                                  compiled=lambda: items)
            return list(tool(job))

    def test_silence_is_good(self):
        case, _ = self.cases(lint.w1, "  CC      fs/ext4/toy.o\n")
        self.assertEqual(case.status, "pass")

    def test_warning(self):
        case, _ = self.cases(lint.w1, GCC)
        self.assertEqual(case.status, "fail")
        self.assertIn("no previous prototype", case.detail)

    def test_what_did_not_compile(self):
        (self.top / "fs/ext4/toy.o").unlink()
        case, _ = self.cases(lint.w1, "make: *** no rule\n")
        self.assertIn("did not compile", case.detail)

    def test_sparse(self):
        case, _ = self.cases(lint.sparse, "  CHECK   fs/ext4/toy.c\n")
        self.assertEqual(case.status, "pass")
        case, _ = self.cases(lint.sparse, "  CC      fs/ext4/toy.o\n")
        self.assertIn("NOT RUN", case.detail)
        with self.assertRaisesRegex(UserError, "too old"):
            self.cases(lint.sparse, "C=2 specified, but sparse is not available or "
                       "not up to date")

    def test_upstreams_own_warnings_are_not_ours(self):
        items = [Item("fs/ext4/toy.c.patch", "fs/ext4/toy.c", "patch")]
        old = "fs/ext4/toy.c:7:7: warning: symbol 'x' was not declared.\n"
        case, _ = self.cases(lint.w1, GCC, items, old)
        self.assertNotIn("symbol 'x'", case.detail)
        self.assertIn("no previous prototype", case.detail)

    def test_header(self):
        items = [*self.items, Item("fs/ext4/toy.h", "fs/ext4/toy.h", "file")]
        found = self.cases(lint.w1, "fs/ext4/toy.h:3:5: warning: bad\n", items)
        self.assertEqual([(case.name, case.status) for case in found], [
            ("W=1: fs/ext4/toy.c", "pass"), ("W=1: headers", "fail")])

    def test_another_architecture(self):
        case, _ = self.cases(lint.i386, GCC)
        self.assertIn("no previous prototype", case.detail)
        for name in ("fs/dax-read.c", "fs/dax-read.o"):
            host.write(self.top / name, "")
        items = [*self.items, Item("fs/dax-read.c", "fs/dax-read.c", "file")]
        self.assertEqual(len(self.cases(lint.arm64, "", items)), 3)
        # There is no FS_DAX with 32 bits.
        self.assertEqual(len(self.cases(lint.i386, "", items)), 2)


class Goals(unittest.TestCase):
    """Check the make goals of a commit."""

    def test_c_file(self):
        self.assertEqual(objects.goals(["fs/dax.c", "Documentation/x.rst",
                                        "tools/nvme/x.c"], []), ["fs/dax.o"])

    def test_header_and_makefile_reach_their_directory(self):
        for name in ("fs/xfs/xfs.h", "fs/xfs/Makefile", "fs/xfs/Kconfig"):
            self.assertEqual(objects.goals([name, "fs/xfs/a.c"], []), ["fs/xfs/"])

    def test_header_of_all(self):
        self.assertEqual(objects.goals(["include/linux/dax.h"], [
            "fs/dax.c", "include/linux/dax.h"]), ["fs/dax.o"])
        self.assertEqual(objects.goals(["include/linux/dax.h", "mm/a.c"],
                                       ["fs/dax.c"]), ["mm/a.o"])


class NotRun(unittest.TestCase):

    def one(self, tool):
        with mock.patch.dict(lint.TOOLS, {"x": tool}), \
                mock.patch.object(host.Status, "show"):
            return lint._cases(None, "x")

    def test_a_tool_that_cannot_run(self):
        def tool(job):
            raise UserError("there is no network")
            yield
        case, = self.one(tool)
        self.assertEqual((case.status, case.detail),
                         ("fail", "NOT RUN: there is no network"))

    def test_what_was_found_before_is_kept(self):
        def tool(job):
            yield lint._case("x", "a", [])
            raise UserError("broken off")
        self.assertEqual([case.status for case in self.one(tool)],
                         ["pass", "fail"])

    def test_nothing_to_check(self):
        case, = self.one(lambda job: iter(()))
        self.assertIn("NOT RUN", case.detail)

    def test_unknown_checker(self):
        with mock.patch.object(host, "need"), \
                self.assertRaisesRegex(UserError, "no checker grep"):
            lint.main(["grep"])


class Lanes(Folder):
    """Checkers beside each other."""

    def setUp(self):
        super().setUp()
        job = SimpleNamespace(shop=mock.Mock(), laid="laid", out=self.top,
                              log=self.top / "log")
        for where, name, value in (
                (host, "need", mock.Mock()), (lint, "Job", lambda out: job),
                (lint, "_key", lambda job, name: None),
                (host.Status, "show", mock.Mock())):
            patch = mock.patch.object(where, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def test_a_tool_that_fails_ends_no_other(self):
        def broken(job):
            yield source.version_of(self.top)

        def compiles(job):
            yield lint._case("i386", "a", [])
        with mock.patch.dict(lint.TOOLS, {"rules": broken, "i386": compiles}):
            cases = {case.name: case for case in lint.main(["rules", "i386"])}
        self.assertIn("NOT RUN", cases["rules"].detail)
        self.assertEqual(cases["i386: a"].status, "pass")

    def test_maintainers(self):
        script = self.top / "scripts/get_maintainer.pl"
        host.write(script, """#!/bin/sh
case "$*" in
*--sections*fs/lost.c*) printf 'THE REST\\nM: x\\n';;
*--sections*) printf 'DAX\\nM: x\\n\\nTHE REST\\nM: x\\n';;
esac
""")
        script.chmod(0o755)
        items = []
        for name, kind in (("fs/new.c", "file"), ("fs/lost.c", "file"),
                           ("fs/old.c", "patch")):
            host.write(self.top / name, "")
            items.append(Item(name, name, kind))
        job = SimpleNamespace(
            items=items, shop=SimpleNamespace(tree=self.top),
            run=lambda cmd, cwd, what: host.run(cmd, cwd=cwd, check=False))
        with mock.patch.object(host, "WORK", self.top / "work"):
            found = [case.status for case in lint.maintainers(job)]
        self.assertEqual(found, [ktap.PASS, ktap.FAIL])


class Together(unittest.TestCase):
    """One run of a checker for many files."""

    def cases(self, text, code):
        job = mock.Mock()
        job.run.return_value = SimpleNamespace(
            stdout=text.replace("ROOT", str(host.ROOT)), returncode=code)
        return list(lint._together(job, "x", ["x"], ["a.sh", "b.sh"]))

    def test_each_file_gets_its_own(self):
        cases = self.cases("ROOT/b.sh:3:1: odd\n1 in all\n", 1)
        self.assertEqual([(case.name, case.status) for case in cases],
                         [("x: a.sh", "pass"), ("x: b.sh", "fail")])
        self.assertEqual(cases[1].detail, "b.sh:3:1: odd")

    def test_a_checker_that_breaks_is_no_pass(self):
        with self.assertRaisesRegex(UserError, "x failed: bad option"):
            self.cases("usage\nbad option\n", 2)

    def test_types_are_asked_of_the_engine_and_not_of_its_tests(self):
        name = "overlay/engine/lint.py"
        job = mock.Mock(files=[name, "overlay/tests/test_lint.py", "fs/a.c"])
        job.run.return_value = SimpleNamespace(
            stdout=f"{name}:3: error: Function is missing a type annotation\n",
            returncode=1)
        with mock.patch.object(host, "pytool", Path):
            case, = lint.mypy(job)
        self.assertEqual((case.name, case.status), (f"mypy: {name}", "fail"))
        self.assertEqual(job.run.call_args.args[0][-1], host.ROOT / name)


class Files(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = Path(folder.name)

    def test_kinds(self):
        for name, text, shell, python, licence in (
                ("run", "#!/bin/sh\n", True, False, True),
                ("x.sh", "true\n", True, False, True),
                ("tool", "#!/usr/bin/env python3\n", False, True, True),
                ("x.py", "\n", False, True, True),
                ("x.c", "\n", False, False, True),
                ("settings", "timeout=1\n", False, False, False)):
            path = self.top / name
            host.write(path, text)
            self.assertEqual(
                (rules.is_shell(path), rules.is_python(path),
                 rules.carries_licence(path)), (shell, python, licence),
                name)

    def test_results_and_leftovers_are_not_looked_at(self):
        for name in ("a.c", "out/log", "a.c.orig", "b/c.h"):
            host.write(self.top / name, "\n")
        self.assertEqual(rules.files(self.top), ["a.c", "b/c.h"])


if __name__ == "__main__":
    unittest.main()
