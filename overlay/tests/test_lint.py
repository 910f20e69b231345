# SPDX-License-Identifier: GPL-2.0
"""Lint: the tree's own rules, reading what compilers say, and NOT RUN."""

import os
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from engine import branch, checkpatch, host, ktap, lint, objects, rules, source
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
        self.assertRegex(self.complaints("no end")[0], "last line")

    def test_patch_that_is_small_enough(self):
        self.assertEqual(self.complaints(PATCH, "x.patch"), [])

    def test_patch_with_too_much_before(self):
        text = PATCH.replace(" one\n", " 0\n 1\n one\n")
        self.assertRegex(self.complaints(text, "x.patch")[0], "3 lines of context")

    def test_patch_with_too_much_after(self):
        self.assertRegex(self.complaints(PATCH + " five\n", "x.patch")[0],
                         "3 lines of context")

    def test_patch_with_too_much_between(self):
        text = PATCH.replace(" three\n", " a\n b\n c\n d\n e\n-f\n three\n")
        self.assertRegex(self.complaints(text, "x.patch")[0], "make it two hunks")

    def test_patch_that_changes_nothing(self):
        text = PATCH.replace("+two\n", "")
        self.assertRegex(self.complaints(text, "x.patch")[0], "changes nothing")

    def test_patch_with_git_header(self):
        self.assertRegex(self.complaints("index 1..2\n" + PATCH, "x.patch")[0],
                         "header")

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
    """Has a tree and a build folder; says what it is told."""

    def __init__(self, folder, says):
        super().__init__(None, folder / "log")
        self.tree = self.build = Path(folder)
        self.says, self.made, self.lays = list(says), [], []
        self.laid = "all"
        self.configured = self.without_objects = False

    def elsewhere(self, arch):
        self.arch = super().elsewhere(arch)
        return self

    def configure(self):
        self.configured = True

    def make(self, *args, **kwargs):
        self.made.append([arg for arg in args if arg.endswith(".o")])
        self.without_objects = self.without_objects or any(
            arg.startswith("cmd_cc_o_c=") for arg in args)
        return SimpleNamespace(stdout=self.says.pop(0), returncode=0)

    def lay(self, items="all"):
        self.laid = items
        self.lays.append(items)

    def forget(self, names):
        pass


class Compiled(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = Path(folder.name)
        self.items = [Item("fs/ext4/toy.c", "fs/ext4/toy.c", "file")]
        host.write(self.top / "fs/ext4/toy.o", "")

    def cases(self, tool, *says, items=None, more=()):
        items = items or self.items
        shop = Shop(self.top, says)
        job = SimpleNamespace(items=[*items, *more], shop=shop, log=self.top / "log",
                              laying=threading.Lock(),
                              kernel=SimpleNamespace(path=self.top),
                              compiled=lambda: items)
        with mock.patch.object(lint, "find_sparse", return_value="sparse"), \
                mock.patch.object(objects.build, "top", return_value=self.top):
            return job, list(tool(job))

    def test_silence_is_good(self):
        _, (case,) = self.cases(lint.w1, "  CC      fs/ext4/toy.o\n")
        self.assertEqual(case.status, "pass")

    def test_warning(self):
        _, (case,) = self.cases(lint.w1, GCC)
        self.assertEqual(case.status, "fail")
        self.assertIn("no previous prototype", case.detail)

    def test_what_did_not_compile(self):
        (self.top / "fs/ext4/toy.o").unlink()
        _, (case,) = self.cases(lint.w1, "make: *** no rule\n")
        self.assertEqual(case.status, "fail")
        self.assertIn("did not compile", case.detail)

    def test_sparse_that_was_called(self):
        _, (case,) = self.cases(lint.sparse, "  CHECK   fs/ext4/toy.c\n")
        self.assertEqual(case.status, "pass")

    def test_sparse_that_was_not_called(self):
        _, (case,) = self.cases(lint.sparse, "  CC      fs/ext4/toy.o\n")
        self.assertIn("NOT RUN", case.detail)

    def test_sparse_that_make_skips(self):
        text = "C=2 specified, but sparse is not available or not up to date"
        with self.assertRaisesRegex(UserError, "too old"):
            self.cases(lint.sparse, text)

    def test_upstreams_own_warnings_are_not_ours(self):
        items = [Item("fs/ext4/toy.c.patch", "fs/ext4/toy.c", "patch")]
        host.write(self.top / "fs/ext4/toy.c", "")
        old = "fs/ext4/toy.c:7:7: warning: symbol 'x' was not declared.\n"
        job, (case,) = self.cases(lint.w1, GCC, old, "", items=items)
        self.assertNotIn("symbol 'x'", case.detail)
        self.assertIn("no previous prototype", case.detail)
        self.assertEqual(job.shop.laid, "all")

    def test_upstream_is_asked_again_only_of_what_is_complained_of(self):
        names = ("fs/ext4/toy.c", "fs/ext4/file.c", "fs/ext4/toy.h")
        items = [Item(f"{name}.patch", name, "patch") for name in names]
        option = Item("fs/ext4/Kconfig.patch", "fs/ext4/Kconfig", "patch")
        for name in names:
            host.write(self.top / name, "")
        both = ["fs/ext4/file.o", "fs/ext4/toy.o"]
        for name, again in ((names[0], both[1:]), (names[2], both)):
            says = f"{name}:7:7: warning: it is odd\n"
            job, cases = self.cases(lint.w1, says, says, "", items=items,
                                    more=[option])
            self.assertNotIn("odd", "".join(case.detail for case in cases))
            self.assertEqual(job.shop.made, [both, again, both])
            # With our options its configuration is the same.
            self.assertEqual(job.shop.lays, [[option], "all"])

    def test_sparse_reads_upstreams_text_which_is_not_compiled(self):
        item = Item("fs/ext4/toy.c.patch", "fs/ext4/toy.c", "patch")
        host.write(self.top / "fs/ext4/toy.c", "")
        says = "  CHECK   fs/ext4/toy.c\nfs/ext4/toy.c:7:7: warning: it is odd\n"
        compiler = f"{says}fs/ext4/toy.c:9:9: warning: odd too [-Wodd]\n"
        for tool, text, without in ((lint.sparse, says, True),
                                    (lint.sparse, compiler, False),
                                    (lint.w1, says, False)):
            job, (case,) = self.cases(tool, text, text, "", items=[item])
            self.assertEqual(case.status, "pass")
            self.assertEqual(job.shop.without_objects, without)

    def test_only_what_is_named_is_not_compiled(self):
        host.write(self.top / "Makefile", (
            "CC = echo compiled\ndepfile = $@.d\n"
            "cmd_cc_o_c = $(CC) $(c_flags) -c -o $@ $< \\\n"
            "\t\t$(cmd_ld_single) $(cmd_objtool)\n"
            "%.o: %.c\n\t$(cmd_cc_o_c)\n"))
        for name in ("fs/read", "fs/other"):
            host.write(self.top / f"{name}.c", "")
        said = subprocess.run(
            ["make", "-s", "-C", self.top, objects.uncompiled(["fs/read.o", "fs/x.o"]),
             "fs/read.o", "fs/other.o"], capture_output=True, text=True, check=True)
        self.assertEqual(said.stdout.split(),
                         ["compiled", "-c", "-o", "fs/other.o", "fs/other.c"])
        self.assertEqual((self.top / "fs/read.o").read_text(), "")
        self.assertEqual((self.top / "fs/read.o.d").read_text(),
                         "fs/read.o: fs/read.c\n")

    def test_header_that_nothing_includes(self):
        items = [*self.items, Item("fs/ext4/toy.h", "fs/ext4/toy.h", "file")]
        _, cases = self.cases(lint.w1, "", items=items)
        self.assertIn("NOT RUN", cases[1].detail)

    def test_header_that_is_included(self):
        items = [*self.items, Item("fs/ext4/toy.h", "fs/ext4/toy.h", "file")]
        host.write(self.top / "fs/ext4/.toy.o.cmd",
                   "deps := \\\n  ../linux/fs/ext4/toy.h \\\n")
        _, cases = self.cases(lint.w1, "", items=items)
        self.assertEqual([case.status for case in cases], ["pass", "pass"])


    def test_another_architecture_has_a_folder_of_its_own(self):
        job, (case,) = self.cases(lint.arm64, "  CC      fs/ext4/toy.o\n")
        self.assertEqual((case.name, case.status), ("arm64: fs/ext4/toy.c", "pass"))
        self.assertTrue(job.shop.configured)
        self.assertIn("ARCH=arm64", job.shop.arch.target)

    def test_warning_on_another_architecture(self):
        _, (case,) = self.cases(lint.i386, GCC)
        self.assertIn("no previous prototype", case.detail)

    def test_dax_is_not_for_32_bits(self):
        host.write(self.top / "fs/dax-read.o", "")
        items = [*self.items, Item("fs/dax-read.c", "fs/dax-read.c", "file")]
        _, cases = self.cases(lint.arm64, "", items=items)
        self.assertEqual(len(cases), 2)
        _, (case,) = self.cases(lint.i386, "", items=items)
        self.assertEqual(case.name, "i386: fs/ext4/toy.c")


class Target(unittest.TestCase):
    """What objects are compiled for."""

    def test_this_machine(self):
        self.assertEqual(objects.Shop(None, Path("log")).target, ["CC=ccache gcc"])

    def test_another_architecture(self):
        here = objects.Shop(None, Path("log"), place="parts-1")
        shop = here.elsewhere(objects.ARM64)
        self.assertEqual(shop.target, [
            "CC=ccache aarch64-linux-gnu-gcc", "ARCH=arm64",
            "CROSS_COMPILE=aarch64-linux-gnu-"])
        self.assertEqual((shop.tree, shop.build), (
            here.tree, here.build.with_name("arm64")))
        self.assertEqual(here.target, ["CC=ccache gcc"])


    def test_places_have_the_same_paths_from_a_build_folder_to_its_tree(self):
        shops = [objects.Shop(None, Path("log"), place=place)
                 for place in ("parts", "parts-1")]
        modular = objects.Shop(None, Path("log"), "modular")
        found = {os.path.relpath(shop.tree, shop.build) for shop in (
            *shops, modular, *(shop.elsewhere(objects.I386) for shop in shops))}
        self.assertEqual(found, {"../tree"})
        self.assertEqual(len({shop.tree for shop in shops}), 2)


class Probed(Folder):
    """What a compiler takes is tried once in a run."""

    # As in the kernel's, the makefile that asks is not the one that is called.
    CALLED = "all:\n\t@$(MAKE) -s -f asks\n"
    ASKS = (
        "try-run = $(error kbuild's own)\n"
        "says = $(call try-run,echo $1 '$(2)' >>tried && $1 && : >\"$$TMP\","
        "is,is not)\n"
        "all:\n"
        "\t@echo $(call says,true,a)/$(call says,false,a)/$(call says,true,a)\n"
        "\t@echo $(call says,true,b)/$(call try-run,false,yes,)\n")

    def setUp(self):
        super().setUp()
        for where, what, value in (
                (objects.build, "top", lambda: self.top),
                (objects, "_emptied", set())):
            patch = mock.patch.object(where, what, value)
            patch.start()
            self.addCleanup(patch.stop)
        host.write(self.top / "Makefile", self.CALLED)
        host.write(self.top / "asks", self.ASKS)

    def say(self):
        return subprocess.run(["make", "-s", "-C", self.top, objects._probed()],
                              capture_output=True, text=True, check=True).stdout

    def tried(self):
        return (self.top / "tried").read_text().split("\n")[:-1]

    def test_what_works_is_tried_once(self):
        self.assertEqual([self.say(), self.say()], ["is/is not/is\nis/\n"] * 2)
        # What fails may fail for want of memory.
        self.assertEqual(self.tried(), ["true a", "false a", "true b", "false a"])
        self.assertEqual(list(self.top.glob(".tmp_*")), [])

    def test_another_run_asks_again(self):
        self.say()
        objects._emptied.clear()
        self.say()
        self.assertEqual(self.tried(), ["true a", "false a", "true b"] * 2)

    def test_an_answer_that_cannot_be_kept_is_none(self):
        self.say()
        host.remove(self.top / "build" / "probes")
        self.assertIn("--probe-failed/is not", self.say())


class NotRun(unittest.TestCase):

    def one(self, tool):
        with mock.patch.dict(lint.TOOLS, {"x": tool}), \
                mock.patch.object(host.Status, "show"):
            return lint._one(None, "x")

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
        for where, name, value in (
                (host, "need", mock.Mock()), (lint, "_ready", mock.Mock()),
                (lint, "_key", lambda job, name: None),
                (objects.Shop, "configure", mock.Mock()),
                (host.Status, "show", mock.Mock())):
            patch = mock.patch.object(where, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        patch = mock.patch.object(lint.source, "kernel", return_value=SimpleNamespace(
            path=self.top, version="7.3.4", origin="debian"))
        patch.start()
        self.addCleanup(patch.stop)

    def lint(self, **tools):
        """Run some tools as `make lint` does: names of cases, lines said."""
        with mock.patch.dict(lint.TOOLS, tools):
            cases = lint.main(list(tools))
        return [case.name for case in cases], [
            call.args[0].split()[0] for call in host.say.call_args_list
            if " in 0 s" in call.args[0]]

    def test_what_compiles_runs_beside_the_others(self):
        both = threading.Barrier(2)

        def tool(name):
            def work(job):
                both.wait(20)
                yield lint._case(name, job.log.name, [])
            return work
        self.assertEqual(self.lint(rules=tool("rules"), i386=tool("i386"))[0],
                         ["rules: texts.log", "i386: log"])

    def test_lines_and_cases_come_in_the_order_of_the_tools(self):
        ended = threading.Event()

        def slow(job):
            self.assertTrue(ended.wait(20))
            yield lint._case("rules", "a", [])

        def fast(job):
            yield lint._case("i386", "a", [])
            ended.set()
        self.assertEqual(self.lint(rules=slow, i386=fast), (
            ["rules: a", "i386: a"], ["rules:", "i386:"]))

    def test_a_tool_that_fails_ends_no_other(self):
        begun = threading.Event()

        def broken(job):
            self.assertTrue(begun.wait(20))
            yield from branch.each(source.version_of, [(self.top,)])

        def compiles(job):
            begun.set()
            done = host.run(["sleep", "1"], log=job.log, check=False)
            yield lint._case("i386", "a", [] if not done.returncode else ["ended"])
        with mock.patch.dict(lint.TOOLS, {"rules": broken, "i386": compiles}):
            cases = lint.main(["rules", "i386"])
        self.assertIn("NOT RUN", cases[0].detail)
        self.assertEqual(cases[1].status, "pass")

    def test_kernel_doc_reads_no_tree_without_our_files(self):
        job = SimpleNamespace(laying=threading.Lock(), compiled=lambda: [
            Item("fs/toy.c", "fs/toy.c", "file")])
        read = threading.Event()

        def undocumented(job, item):
            read.set()
            return []
        with mock.patch.object(lint, "_undocumented", undocumented):
            thread = threading.Thread(target=lambda: list(lint.kernel_doc(job)))
            with job.laying:
                thread.start()
                self.assertFalse(read.wait(0.2))
            thread.join(20)
        self.assertTrue(read.is_set())

    def test_patches_of_all_series_are_checked_the_longest_first(self):
        grown, seen = [], []
        for name in ("one", "two"):
            patches = [self.top / name / f"{size}.patch" for size in (1, 9)]
            for patch, size in zip(patches, (1, 9), strict=True):
                host.write(patch, "x" * size)
            grown.append((SimpleNamespace(series=SimpleNamespace(name=name)),
                          patches))
        with mock.patch.object(branch, "grown", return_value=grown), \
                mock.patch.object(branch, "each", side_effect=lambda work, pairs: [
                    seen.append(patch.name) or [] for _, patch in pairs]):
            cases = list(lint.checkpatch(SimpleNamespace(log=None)))
        self.assertEqual(seen, ["9.patch", "9.patch", "1.patch", "1.patch"])
        self.assertEqual([case.name for case in cases], [
            "checkpatch: one/1.patch", "checkpatch: one/9.patch",
            "checkpatch: two/1.patch", "checkpatch: two/9.patch"])


    def test_checkpatch_sees_no_script_that_is_asked_apart(self):
        for name in ("scripts/checkpatch.pl", "scripts/get_maintainer.pl", "fs/Kconfig",
                     ".git/config"):
            host.write(self.top / name, name)
        *_, root, patch = checkpatch.command(True, self.top, "x.patch")
        seen = Path(str(root).removeprefix("--root="))
        self.assertEqual([patch, *sorted(path.name for path in seen.iterdir())],
                         ["x.patch", "fs", "scripts"])
        self.assertEqual([path.name for path in (seen / "scripts").iterdir()],
                         ["checkpatch.pl"])
        self.assertEqual((seen / "fs/Kconfig").read_text("utf-8"), "fs/Kconfig")
        self.assertEqual(checkpatch.command(True, self.top, "x.patch")[-2], root)
        self.assertNotIn("--root", " ".join(checkpatch.command(False, self.top)))

    def test_a_file_that_is_obsolete_is_named(self):
        host.write(self.top / "scripts/get_maintainer.pl",
                   '#!/bin/sh\ncase "$*" in *fs/old.c*) echo Obsolete;; esac\n')
        (self.top / "scripts/get_maintainer.pl").chmod(0o755)
        items = []
        for name, kind in (("fs/old.c", "patch"), ("fs/new.c", "file"),
                           ("fs/a.c", "patch"), ("fs/newer.c", "file")):
            host.write(self.top / name, "")
            items.append(Item(name, name, kind))

        def found(*items):
            job = SimpleNamespace(
                items=items, shop=SimpleNamespace(tree=self.top),
                run=lambda cmd, cwd, what: host.run(cmd, cwd=cwd, check=False))
            return [(case.name, case.status) for case in lint.obsolete(job)]

        self.assertEqual(found(*items), [
            ("obsolete: fs/a.c", ktap.PASS), ("obsolete: fs/newer.c", ktap.PASS),
            ("obsolete: fs/old.c", ktap.FAIL)])
        self.assertEqual(found(*items[1:]), [("obsolete: none of 2 files", ktap.PASS)])


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
